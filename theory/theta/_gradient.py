"""The derivative of θ: by the envelope theorem it is that of the optimal subset's own value.

For a subset S with signs x (+1 on S, −1 off it) let δ = Σ x w / W, so that θ_S(w) = 1 − δ². Then

    ∂θ_S/∂w_i = (2δ/W)·(δ − x_i),

which is −4δ·w(off S)/W² on S and 4δ·w(S)/W² off it, the same for S and its complement. θ is the
maximum of the smooth functions θ_S, so that its derivative in a direction h is the largest ∇θ_S·h
over the optimal S (Danskin). Where the optimal split is unique up to complement, θ is
differentiable and its gradient is ∇θ_S. Euler's relation Σ w_i ∂θ/∂w_i = 0 says that θ is free of
scale.
"""

import functools
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.theta._batch import OnEmpty, read_rows
from theory.theta._jit import kernel
from theory.theta._numbers import exact_fraction, read_numbers
from theory.theta._rows import theta_rows
from theory.theta._solve import OnOpen

_SMALLEST = 2.0**-500
_LARGEST = 2.0**500


def theta_gradient(
    P: object,
    *,
    support: object = None,
    causal: bool = False,
    causal_offset: int = 0,
    check_sum: bool = True,
    on_empty: OnEmpty = "raise",
    budget: float | None = None,
    on_open: OnOpen = "raise",
    threads: int | None = None,
    progress: bool = False,
    return_theta: bool = False,
) -> Any:
    """∂θ/∂w at every row w of P (..., L), as a function of weights of any total.

    Where the optimal subset S is unique up to complement, this is the derivative of θ (an
    equality, from the envelope theorem): (2δ/W)·(δ − x_i), δ = Σ x w / W, x = ±1 on and off S. Each
    row of it is orthogonal to w, because θ is free of scale. For a probability vector p it is the
    derivative of θ(p/Σp); 4·(1 − 2p(S)) on S and 0 off it, the derivative of 4·p(S)·(1 − p(S)) with
    S held fixed, differs from it by a multiple of (1, …, 1). So the two agree on directions within
    the simplex, and after any softmax.

    Elsewhere:
    - θ = 1 with δ = 0: θ is differentiable and the gradient is 0.
    - Several optimal splits with δ > 0: the gradient of the one that the solver found, an element
      of Clarke's subdifferential; θ has a kink.
    - Rows that come back `ROUNDED`: the gradient for the subset found, which gives the same float64
      as the optimal one but may not be it. Where that is 1.0, both have δ <= 2⁻²⁷, and so this and
      the true derivative lie within 2⁻²⁵/W of 0 in each entry.
    - An entry w_i = 0 of a row: the one-sided derivative for w_i growing from 0, that is with i on
      the lighter side. Entries outside the support: 0.
    - Rows that stay open under on_open="nan" and fully masked rows under on_empty="nan": NaN.

    Float error: each entry is within 2⁻⁴⁹ of the formula's value, relatively, plus L·2⁻¹⁰⁰/W; ints
    and Fractions are rounded once. ±inf where a derivative is beyond float64, as it may be for
    W < 10⁻³⁰⁷.

    Arguments and errors are those of `theta_rows`. Returns float64 of the shape of P; with
    return_theta the tuple (θ, gradient) with θ as from `theta_rows`.
    """
    theta, subset = theta_rows(
        P,
        support=support,
        causal=causal,
        causal_offset=causal_offset,
        check_sum=check_sum,
        on_empty=on_empty,
        budget=budget,
        on_open=on_open,
        threads=threads,
        progress=progress,
        return_subset=True,
    )
    rows = read_rows(P, "P", support, causal, causal_offset)
    weights = read_numbers(P, "P").values.reshape(theta.size, subset.shape[-1])
    chosen = subset.reshape(weights.shape)
    settled = ~np.isnan(theta).reshape(theta.size)
    gradient = np.full(weights.shape, np.nan)
    for block in rows.blocks():
        known = settled[block]
        gradient[block][known] = _gradient_of(
            weights[block][known], rows.visible(block)[known], chosen[block][known]
        )
    shaped = gradient.reshape(subset.shape)
    return (theta, shaped) if return_theta else shaped


def _gradient_of(
    rows: NDArray[Any], visible: NDArray[np.bool_], chosen: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """(R, L): the gradient at R settled rows with their optimal subsets."""
    exact = rows.dtype == object
    weights = rows if exact else rows.astype(np.float64)
    on, off, lighter = (_exact_values if exact else _float_values)(weights, chosen)
    side = np.where(weights > 0, chosen, lighter)
    return np.where(visible, np.where(side, on, off), 0.0)


Values = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]


def _float_values(rows: NDArray[np.float64], chosen: NDArray[np.bool_]) -> Values:
    """(R, 1) each: the derivative on the subset, that off it, and whether the subset is lighter."""
    largest = rows.max(axis=1, keepdims=True, initial=0.0)
    # Only where a sum or its inverse might overflow: a power of 2, exact but for entries so small
    # beside the largest that their share in the derivative is below 2**-1074 as well.
    extreme = (largest < _SMALLEST) | (largest > _LARGEST)
    exponent = np.where(extreme, np.frexp(largest)[1], 0)
    sums = np.empty((len(rows), 4))
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        _side_sums(np.ldexp(rows, -exponent), chosen, sums)
        on_hi, on_lo, off_hi, off_lo = sums.T[:, :, None]
        difference = (on_hi - off_hi) + (on_lo - off_lo)
        total = on_hi + off_hi
        slope = 4.0 * (difference / total)
        on = np.ldexp(-slope * (off_hi / total) / total, -exponent)
        off = np.ldexp(slope * (on_hi / total) / total, -exponent)
    return on, off, np.asarray(difference <= 0.0)


@kernel
def _side_sums(rows, chosen, sums):  # type: ignore[no-untyped-def]
    """Write the masses on and off `chosen` (R, L) bool as pairs hi + lo to sums (R, 4)."""
    for r in range(rows.shape[0]):
        sums[r, :] = 0.0
        for k in range(rows.shape[1]):
            at = 0 if chosen[r, k] else 2
            hi = sums[r, at]
            added = hi + rows[r, k]
            virtual = added - hi
            low = sums[r, at + 1] + ((hi - (added - virtual)) + (rows[r, k] - virtual))
            sums[r, at] = added + low
            sums[r, at + 1] = low - (sums[r, at] - added)


def _exact_values(rows: NDArray[Any], chosen: NDArray[np.bool_]) -> Values:
    """As `_float_values`, for rows of Python numbers, each result rounded once."""
    found = []
    for row, side in zip(rows.tolist(), chosen.tolist(), strict=True):
        masses = [Fraction(0), Fraction(0)]
        for weight, taken in zip(row, side, strict=True):
            masses[taken] += exact_fraction(weight)
        off, on = masses
        total = (off + on) or Fraction(1)
        slope = 4 * (on - off) / total**3
        found.append((_rounded(-slope * off), _rounded(slope * on), on <= off))
    values = np.array(found, dtype=np.float64).reshape(len(rows), 3, 1)
    return values[:, 0], values[:, 1], values[:, 2] != 0.0


def _rounded(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def theta_rows_torch(P: Any, **options: Any) -> Any:
    """θ of every row of a torch tensor P (..., L), differentiable with respect to P.

    P: dense CPU tensor of float64, float32, float16 or bfloat16; options: the arguments of
    `theta_gradient` but for return_theta. Returns a float64 tensor of shape P.shape[:-1], whatever
    the type of P, with the values of `theta_rows`.

    The backward pass multiplies by `theta_gradient`, which says what it is where θ has a kink, and
    rounds to the type of P. It has no derivative of its own: a second one raises RuntimeError.
    Errors are those of `theta_rows`; TypeError for what is no tensor; ImportError without torch,
    which comes with the extra `model`.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "theta_rows_torch needs torch: pip install 'attention-sensitivity[model]'"
        ) from error
    if not isinstance(P, torch.Tensor):
        raise TypeError(f"P: expected a torch tensor, got {type(P).__name__}")
    return _autograd_function().apply(P, options)


@functools.cache
def _autograd_function() -> Any:
    import torch

    class ThetaRows(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, rows: Any, options: dict[str, Any]) -> Any:
            if not ctx.needs_input_grad[0]:
                return torch.as_tensor(theta_rows(rows, **options))
            theta, gradient = theta_gradient(rows, **options, return_theta=True)
            ctx.save_for_backward(torch.from_numpy(gradient).to(rows.dtype))
            return torch.as_tensor(theta)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, grad_output: Any) -> tuple[Any, None]:
            (gradient,) = ctx.saved_tensors
            return (grad_output.unsqueeze(-1) * gradient).to(gradient.dtype), None

    return ThetaRows
