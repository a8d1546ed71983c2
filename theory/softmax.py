"""The tempered softmax s_τ(u) = softmax(u/τ), its Jacobian, the Jacobian's ∞→1 norm by brute
force, and entropies. Arguments are read by the rules at the top of theory.arguments.

Nothing here forms 1 - p: where a complement is needed, the other probabilities are added, so that
a row within 1e-300 of one-hot keeps its small numbers to full relative accuracy.
"""

import operator

import numpy as np
import numpy.typing as npt

from theory.arguments import (
    BoolArray,
    FloatArray,
    as_array,
    as_booleans,
    as_distributions,
    as_real_array,
    as_real_scalar,
    first_true,
    position,
    require_finite,
    row_sums,
)
from theory.norms import inf_to_one_norm

# A number too large or too small for float64 is a result here, not an accident.
_quiet = np.errstate(over="ignore", under="ignore")


@_quiet
def softmax(
    u: npt.ArrayLike, tau: float = 1.0, axis: int = -1, mask: npt.ArrayLike | None = None
) -> FloatArray:
    """s_τ(u) = exp(u/τ)/Σ exp(u/τ) along an axis, for any finite logits.

    u: logits, shape (..., L, ...); tau: the temperature, > 0; mask: booleans that broadcast to
    u's shape, True where a position is visible. A hidden position gets probability 0 and its logit
    is never read (it may be NaN or infinite).

    Returns a float64 array of u's shape, each entry right to a relative error of a few eps plus
    eps times |u_i - max u|/τ (at most 745 where the probability is no subnormal or zero). Neither
    differences of logits nor their quotients by τ can overflow.

    Raises ValueError for tau <= 0, NaN or infinity among visible logits (with the position), a
    slice with no visible position, a mask that does not broadcast, and an axis out of range;
    TypeError for arguments of the wrong kind.
    """
    exponents, at = _shifted_logits(u, tau, axis, mask)
    weights, tail = _weights_and_tail(exponents)
    return np.moveaxis(weights / (1.0 + tail), -1, at)


@_quiet
def log_softmax(
    u: npt.ArrayLike, tau: float = 1.0, axis: int = -1, mask: npt.ArrayLike | None = None
) -> FloatArray:
    """log s_τ(u) along an axis, for any finite logits.

    Arguments, shapes and errors as in `softmax`. The largest entry is -log1p of the other weights,
    so it keeps its relative accuracy when its probability rounds to 1. Hidden positions are -inf,
    as are those whose logarithm is below the range of float64.
    """
    exponents, at = _shifted_logits(u, tau, axis, mask)
    _, tail = _weights_and_tail(exponents)
    return np.moveaxis(exponents - np.log1p(tail), -1, at)


@_quiet
def softmax_jacobian(u: npt.ArrayLike, tau: float = 1.0) -> FloatArray:
    """J_τ(u) = (Diag(p) - ppᵀ)/τ with p = s_τ(u), the Jacobian of u -> s_τ(u) (Theorem 3.2).

    u: logits, shape (L,). Returns a float64 array of shape (L, L), symmetric, each row summing to
    0 up to rounding, computed as in `jacobian_from_probabilities`. Errors as in `softmax`.
    """
    logits = as_real_array(u, "u", ndim=1)
    temperature = _as_temperature(tau)
    return _jacobian(softmax(logits, temperature), temperature)


@_quiet
def jacobian_from_probabilities(p: npt.ArrayLike, tau: float = 1.0) -> FloatArray:
    """(Diag(p) - ppᵀ)/τ for a probability vector p of shape (L,).

    Off the diagonal -p_i p_j/τ; on it p_i Σ_{j≠i} p_j/τ, which equals p_i(1 - p_i)/τ without the
    cancellation of 1 - p_i. Every entry is right to a relative error of about log2(L) eps unless
    it underflows; it is infinite only where the exact value exceeds every float64. Returns a
    float64 array of shape (L, L).

    Raises ValueError for tau <= 0, a negative entry, and a sum that is not 1 (`sum_tolerance` of
    p's dtype; divide by the sum first); otherwise as `as_real_array` does.
    """
    return _jacobian(as_distributions(p, "p", ndim=1), _as_temperature(tau))


@_quiet
def jacobian_inf_to_one(u: npt.ArrayLike, tau: float = 1.0) -> float:
    """‖J_τ(u)‖_{∞→1} by enumeration of the sign vectors, L <= 20.

    u: logits, shape (L,). Theorem 3.2 says that this equals θ(p)/τ; θ is not used here. An
    equality up to a relative error of a few eps times L. Errors as in `softmax`, and ValueError
    for L > 20.
    """
    logits = as_real_array(u, "u", ndim=1)
    temperature = _as_temperature(tau)
    # The norm is homogeneous in 1/τ: τ's power of two comes last, where it may overflow unharmed.
    mantissa, exponent = np.frexp(temperature)
    norm = inf_to_one_norm(_jacobian(softmax(logits, temperature), float(mantissa)))
    return float(np.ldexp(norm, -exponent))


@_quiet
def entropy(p: npt.ArrayLike) -> FloatArray:
    """H(p) = -Σ_i p_i log p_i in nats along the last axis, with 0 log 0 = 0.

    p: probability vectors, shape (..., L); the result has shape (...). An equality up to a relative
    error of a few eps for entries as given; one-hot rows give exactly 0. Where a row's sum exceeds
    1 within the tolerance, a value below 0 is set to 0. Errors as in `as_distributions`.
    """
    return _entropy(as_distributions(p, "p"))


@_quiet
def normalised_entropy(p: npt.ArrayLike, support: npt.ArrayLike | None = None) -> FloatArray:
    """H(p)/log(support) in [0, 1]: the entropy as a fraction of the largest possible one.

    p: probability vectors, shape (..., L). support: the number of visible positions, an integer
    or an array of integers that broadcasts to shape (...), between 1 and L; None means L. A row
    with one visible position has entropy 0 out of 0 and gets 0. Returns shape (...).

    Raises ValueError for a support that is out of range, that has fewer positions than the row
    has positive entries, or that does not broadcast; TypeError for a support that is not made of
    integers; otherwise as `entropy` does.
    """
    rows = as_distributions(p, "p")
    visible = _as_support(support, rows)
    largest = np.log(np.where(visible > 1, visible, 2))
    fraction = np.where(visible > 1, _entropy(rows) / largest, 0.0)
    return np.asarray(np.minimum(fraction, 1.0))


def _shifted_logits(
    u: npt.ArrayLike, tau: float, axis: int, mask: npt.ArrayLike | None
) -> tuple[FloatArray, int]:
    """(u - max u)/τ with the softmax axis last, -inf at hidden positions; and that axis."""
    logits = as_real_array(u, "u", finite=mask is None)
    temperature = _as_temperature(tau)
    at = _as_axis(axis, logits.ndim)
    visible = np.ones(logits.shape, np.bool_) if mask is None else _as_mask(mask, logits, at)
    logits = np.where(visible, logits, 0.0)
    require_finite(logits, "u")

    logits = np.moveaxis(logits, at, -1)
    visible = np.moveaxis(visible, at, -1)
    peak = np.max(np.where(visible, logits, -np.inf), axis=-1, keepdims=True)
    below_peak = logits - peak
    # A difference beyond float64's range is formed of halves instead; its quotient by τ is put
    # together from mantissas and exponents, so that only the final result can overflow.
    overflows = np.isinf(below_peak)
    halves = 0.5 * logits - 0.5 * peak
    mantissa, exponent = np.frexp(np.where(overflows, halves, below_peak))
    tau_mantissa, tau_exponent = np.frexp(temperature)
    quotient = np.ldexp(mantissa / tau_mantissa, exponent + overflows - tau_exponent)
    return np.where(visible, quotient, -np.inf), at


def _weights_and_tail(exponents: FloatArray) -> tuple[FloatArray, FloatArray]:
    """exp of each exponent, and the sum of all but one weight of 1 along the last axis."""
    weights = np.exp(exponents)
    others = weights.copy()
    peak = np.argmax(exponents, axis=-1, keepdims=True)
    np.put_along_axis(others, peak, 0.0, axis=-1)
    return weights, row_sums(others)[..., np.newaxis]


def _jacobian(p: FloatArray, tau: float) -> FloatArray:
    # p_i p_j/τ is assembled from mantissas and exponents: p_i p_j alone may underflow where the
    # quotient does not.
    mantissa, exponent = np.frexp(p)
    tau_mantissa, tau_exponent = np.frexp(tau)
    jacobian = -np.ldexp(
        np.multiply.outer(mantissa, mantissa) / tau_mantissa,
        np.add.outer(exponent, exponent) - tau_exponent,
    )
    np.fill_diagonal(jacobian, 0.0)
    np.fill_diagonal(jacobian, -row_sums(jacobian))
    return jacobian


def _entropy(rows: FloatArray) -> FloatArray:
    terms = -rows * np.log(np.where(rows > 0.0, rows, 1.0))
    return np.asarray(np.maximum(row_sums(terms), 0.0))


def _as_temperature(tau: float) -> float:
    temperature = as_real_scalar(tau, "tau")
    if temperature <= 0.0:
        raise ValueError(f"tau is {temperature}: the temperature must be positive")
    return temperature


def _as_axis(axis: int, ndim: int) -> int:
    try:
        index = operator.index(axis)
    except TypeError as error:
        raise TypeError(f"axis is of type {type(axis).__name__}: an integer is needed") from error
    if not -ndim <= index < ndim:
        raise ValueError(f"axis is {index}: u has {ndim} axes")
    return index % ndim


def _as_mask(mask: npt.ArrayLike, logits: FloatArray, axis: int) -> BoolArray:
    given = as_booleans(mask, "mask")
    try:
        visible = np.broadcast_to(given, logits.shape)
    except ValueError as error:
        raise ValueError(
            f"mask has shape {given.shape}, u has shape {logits.shape}: it does not broadcast"
        ) from error
    empty = ~np.any(visible, axis=axis)
    if np.any(empty):
        where = [str(i) for i in first_true(empty)]
        where.insert(axis, ":")
        raise ValueError(f"mask hides every position of u[{', '.join(where)}]")
    return visible


def _as_support(support: npt.ArrayLike | None, rows: FloatArray) -> npt.NDArray[np.int64]:
    length = rows.shape[-1]
    shape = rows.shape[:-1]
    given = as_array(length if support is None else support, "support")
    if given.dtype.kind not in "iu":
        raise TypeError(f"support has dtype {given.dtype}: integers are needed")
    try:
        visible = np.broadcast_to(given, shape)
    except ValueError as error:
        raise ValueError(
            f"support has shape {given.shape}, p has shape {rows.shape}: it does not broadcast to "
            f"{shape}"
        ) from error
    if np.any((visible < 1) | (visible > length)):
        raise ValueError(f"support must lie between 1 and {length}, the length of the rows of p")
    positive = np.asarray(np.count_nonzero(rows, axis=-1))
    if np.any(positive > visible):
        row = first_true(positive > visible)
        raise ValueError(
            f"p{position(row)} has {positive[row]} positive entries, more than its support of "
            f"{visible[row]}"
        )
    return visible.astype(np.int64)
