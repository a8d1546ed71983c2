"""The norm max over ‖y‖₂ = 1 of f(y) = Σ_j ‖M_j y‖₂ of one row, from below and from above.

From below any y will do. From above, for weights w_j > 0 with Σ w_j = 1, Cauchy–Schwarz gives
f(y)² <= yᵀ(Σ_j M_jᵀM_j / w_j)y. The least such bound is the semidefinite relaxation
max { Σ_j √⟨M_jᵀM_j, Y⟩ : Y ⪰ 0, tr Y = 1 }, which is at most √(π/2) times the norm. Y is kept as
ZZᵀ with few columns; the weights w_j ∝ ‖M_j Z‖_F of an optimal Z are optimal.

Whatever is called proved below holds for the blocks that the row map means, all rounding included.
Shape suffixes as in theory._row_maps.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from theory._row_maps import SAFE_LENGTH, RowMap
from theory.arguments import FloatArray
from verify.definite import largest_eigenvalue_at_most, largest_eigenvalue_upper_bound
from verify.rounding import downward, upward

# A weight below this share of the mean is raised to it: weights must be positive, and a block that
# the current Z misses must not make the bound explode.
WEIGHT_FLOOR = 1e-7


@dataclass(frozen=True)
class Deadline:
    """A point in time (of time.monotonic) after which searching stops; None for never."""

    at: float | None

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """So many seconds from now."""
        return cls(None if seconds is None else time.monotonic() + seconds)

    def passed(self) -> bool:
        return self.at is not None and time.monotonic() >= self.at


def sums_of_norms(row: RowMap, y_ER: FloatArray) -> FloatArray:
    """f of every column, floating: shape (R,)."""
    return _lengths(row.apply(y_ER)).sum(axis=0)


def ascend(
    row: RowMap, y_ER: FloatArray, *, steps: int, gain: float, deadline: Deadline
) -> tuple[FloatArray, FloatArray]:
    """Iterate y <- Σ_j M_jᵀM_j y/‖M_j y‖, normalised, which never lowers the convex function f.

    Stops after ``steps`` or when no column gains more than the fraction ``gain`` in a step.
    Returns unit columns (E, R) and f of each (R,), floating.
    """
    y_ER = _unit_columns(y_ER)
    values = np.zeros(y_ER.shape[1])
    for _ in range(steps):
        x_NDR = row.apply(y_ER)
        lengths = _lengths(x_NDR)
        before, values = values, lengths.sum(axis=0)
        if np.all(values <= before * (1.0 + gain)) or deadline.passed():
            break
        x_NDR /= np.where(lengths > 0.0, lengths, 1.0)[:, np.newaxis, :]
        y_ER = _unit_columns(row.adjoint(x_NDR))
    return y_ER, sums_of_norms(row, y_ER)


def relax(row: RowMap, z_ER: FloatArray, *, steps: int, deadline: Deadline) -> FloatArray:
    """Improve Z, of Frobenius norm 1, for the relaxation max Σ_j ‖M_j Z‖_F, by L-BFGS.

    The logarithm of the scale-invariant quotient is minimised, so that no constraint is left.
    """
    from scipy.optimize import minimize

    shape = z_ER.shape

    def negative_log(flat: FloatArray) -> tuple[float, FloatArray]:
        z = flat.reshape(shape)
        x_NDR = row.apply(z)
        lengths = np.sqrt(np.einsum("NDR,NDR->N", x_NDR, x_NDR))
        total = float(lengths.sum())
        size = float(flat @ flat)
        if total == 0.0 or size == 0.0:
            return math.inf, np.zeros_like(flat)
        x_NDR /= np.where(lengths > 0.0, lengths, 1.0)[:, np.newaxis, np.newaxis]
        slope = z / size - row.adjoint(x_NDR) / total
        return 0.5 * math.log(size) - math.log(total), slope.ravel()

    def stop_when_late(_: FloatArray) -> None:
        if deadline.passed():
            raise StopIteration

    done = minimize(
        negative_log,
        z_ER.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=stop_when_late,
        options={"maxiter": steps, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-10},
    )
    best: FloatArray = done.x.reshape(shape)
    return best / float(np.linalg.norm(best))


def weights_of(row: RowMap, z_ER: FloatArray) -> FloatArray:
    """w_j ∝ ‖M_j Z‖_F, positive, with sum 1 up to rounding: shape (N,)."""
    lengths = np.sqrt(np.einsum("NDR,NDR->N", *[row.apply(z_ER)] * 2))
    mean = float(lengths.mean())
    if mean == 0.0:
        return np.full(len(lengths), 1.0 / len(lengths))
    raised = np.maximum(lengths, WEIGHT_FLOOR * mean)
    return raised / raised.sum()


def rounded_candidates(z_ER: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Gaussian rounding: directions Zg for standard normal g, as unit columns (E, count)."""
    return _unit_columns(z_ER @ rng.normal(size=(z_ER.shape[1], count)))


def leading_eigenvectors(row: RowMap, weights_N: FloatArray, count: int) -> FloatArray:
    """Floating eigenvectors (E, count) of Σ_j M_jᵀM_j/w_j, the largest eigenvalues first."""
    from scipy.linalg import eigh

    gram = row.gram(1.0 / weights_N)
    width = len(gram)
    count = min(count, width)
    vectors: FloatArray = eigh(gram, subset_by_index=[width - count, width - 1])[1]
    return vectors[:, ::-1]


# ------------------------------------------------------------------------------------- proved


def proved_lower(row: RowMap, z_ER: FloatArray) -> float:
    """A proved lower bound of Σ_j ‖M_j Z‖_F / ‖Z‖_F.

    For a single column that is a lower bound of the row's norm; for more, of its relaxation.
    """
    x_NDR = row.apply(z_ER)
    n, width, columns = x_NDR.shape
    lengths = np.sqrt(np.einsum("NDR,NDR->N", x_NDR, x_NDR))
    # Squares that may have underflowed are left out.
    value = float(lengths[lengths > SAFE_LENGTH].sum())
    size = upward(float(np.linalg.norm(z_ER)), z_ER.size + 2)
    if not (math.isfinite(value) and 0.0 < size < math.inf):
        return 0.0
    # √R bounds Σ_r ‖z_r‖ by ‖Z‖_F, and so the error over the columns by the error of one.
    error = (row.apply_error() * math.sqrt(columns) + row.operator_error) * (1.0 + 1e-15)
    return downward(max(0.0, downward(value / size, width * columns + n + 4) - error), 4)


def proved_upper(row: RowMap, weights_N: FloatArray, *, target: float | None = None) -> float:
    """A proved upper bound of the row's norm: √(Σw · λ_max(Σ_j M_jᵀM_j/w_j)) + operator_error.

    weights_N: positive. target: a value of the bound that would do; if it can be proved at once,
    no eigenvalue is computed. Infinite where something overflows.
    """
    multipliers = 1.0 / weights_N
    gram, error = row.gram(multipliers), row.gram_error(multipliers)
    total = upward(float(weights_N.sum()), len(weights_N) + 2)
    if not (np.isfinite(gram).all() and math.isfinite(error) and math.isfinite(total)):
        return math.inf
    largest = math.inf
    if target is not None and target > row.operator_error:
        largest = largest_eigenvalue_at_most(gram, (target - row.operator_error) ** 2 / total)
    if largest == math.inf:
        largest = largest_eigenvalue_upper_bound(gram)
    square = upward(max(largest, 0.0) + error, 2) * total
    return upward(upward(math.sqrt(square), 4) + row.operator_error, 2)


def _lengths(x_NDR: FloatArray) -> FloatArray:
    """ℓ2 norms over the axis D."""
    return np.sqrt(np.einsum("NDR,NDR->NR", x_NDR, x_NDR))


def _unit_columns(y_ER: FloatArray) -> FloatArray:
    sizes = np.linalg.norm(y_ER, axis=0)
    return y_ER / np.where(sizes > 0.0, sizes, 1.0)
