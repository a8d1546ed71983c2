"""The norms of the paper, exact up to rounding at every magnitude that float64 can hold. Arguments
are read by the rules at the top of theory.arguments.

Squares and sums are formed after an exact scaling by a power of two, so that no intermediate
overflows or vanishes. A result is infinite only where its exact value exceeds every float64.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from theory.arguments import (
    FloatArray,
    as_array,
    as_distributions,
    as_real_array,
    as_real_scalar,
    row_sums,
    sum_tolerance,
)

# 2^19 sign vectors (x and -x give the same norm) take about 0.1 s for a square matrix.
MAX_ENUMERATED_COLUMNS = 20

# The enumeration holds one block of 2^12 sign vectors at a time.
_BLOCK_COLUMNS = 12

# A number too large or too small for float64 is a result here, not an accident.
_quiet = np.errstate(over="ignore", under="ignore")


@dataclass(frozen=True)
class InfToOneMaximiser:
    """The value of ‖M‖_{∞→1} and one sign vector that attains it.

    value: max over x in {-1,+1}^n of ‖Mx‖₁.
    signs: float64 array of shape (n,) with entries ±1 and signs[0] = +1.
    """

    value: float
    signs: FloatArray


# --- vector and row norms ------------------------------------------------------------------------


@_quiet
def rms(x: npt.ArrayLike) -> float:
    """‖x‖_rms = ‖x‖₂/√d of a vector x of shape (d,) (Definition 2.2).

    An equality up to a relative error of a few eps. Raises ValueError or TypeError as
    `as_real_array` does.
    """
    vector = as_real_array(x, "x", ndim=1)
    return float(_root_of_squares(vector, vector.shape[-1]))


@_quiet
def block_inf_rms(X: npt.ArrayLike) -> float:
    """‖X‖_{∞,rms} = max_i ‖x_i‖₂/√d over the rows of X, shape (L, d) (Definition 2.2).

    An equality up to a relative error of a few eps. Raises ValueError or TypeError as
    `as_real_array` does.
    """
    rows = as_real_array(X, "X", ndim=2)
    return float(np.max(_root_of_squares(rows, rows.shape[-1])))


@_quiet
def row_norm_inf_2(Z: npt.ArrayLike) -> float:
    """‖Z‖_{∞,2} = max_i ‖z_i‖₂ over the rows of Z, shape (L, d) (Section 2.2).

    An equality up to a relative error of a few eps. Raises ValueError or TypeError as
    `as_real_array` does.
    """
    return float(np.max(_root_of_squares(as_real_array(Z, "Z", ndim=2), 1)))


@_quiet
def frobenius(X: npt.ArrayLike) -> float:
    """‖X‖_F = √(Σ_ij X_ij²) of a matrix X of shape (m, n).

    An equality up to a relative error of a few eps. Raises ValueError or TypeError as
    `as_real_array` does.
    """
    return float(_root_of_squares(as_real_array(X, "X", ndim=2).ravel(), 1))


def _root_of_squares(rows: FloatArray, divisor: int) -> FloatArray:
    """√(Σ_j x_j²/divisor) along the last axis."""
    exponent = np.frexp(np.max(np.abs(rows), axis=-1))[1]
    scaled = np.ldexp(rows, -exponent[..., np.newaxis])
    return np.asarray(np.ldexp(np.sqrt(row_sums(scaled * scaled) / divisor), exponent))


# --- matrix norms --------------------------------------------------------------------------------


@_quiet
def spectral_norm(M: npt.ArrayLike) -> float:
    """‖M‖₂, the largest singular value of a matrix M of shape (m, n).

    An equality up to a relative error of a few eps times max(m, n). Raises ValueError or TypeError
    as `as_real_array` does.
    """
    scaled, exponent = _scaled(as_real_array(M, "M", ndim=2))
    return _unscaled(float(np.linalg.svd(scaled, compute_uv=False)[0]), exponent)


@_quiet
def induced_norm(M: npt.ArrayLike, r: float) -> float:
    """‖M‖_{r→r} of a matrix M of shape (m, n) for r = 1, 2 or infinity.

    r = 1: the largest column sum of |M|; r = 2: the spectral norm; r = inf: the largest row sum of
    |M|. An equality up to rounding. Raises ValueError for any other r, whose norms have no closed
    form, and ValueError or TypeError as `as_real_array` does.
    """
    order = as_real_scalar(r, "r", finite=False)
    if order not in (1.0, 2.0, np.inf):
        raise ValueError(f"r is {order}: 1, 2 or inf is needed")
    if order == 2.0:
        return spectral_norm(M)
    scaled, exponent = _scaled(as_real_array(M, "M", ndim=2))
    magnitudes = np.abs(scaled if order == np.inf else scaled.T)
    return _unscaled(float(np.max(row_sums(magnitudes))), exponent)


def inf_to_one_norm(M: npt.ArrayLike) -> float:
    """‖M‖_{∞→1} = max over ‖x‖_∞ <= 1 of ‖Mx‖₁, by enumeration of the vertices x in {-1,+1}^n.

    M has shape (m, n) with n <= 20. An equality up to a relative error of a few eps times m + n.
    A convex function on the cube is largest at a vertex, so the vertices suffice. Raises
    ValueError beyond 20 columns, and ValueError or TypeError as `as_real_array` does.
    """
    return inf_to_one_maximiser(M).value


@_quiet
def inf_to_one_maximiser(M: npt.ArrayLike) -> InfToOneMaximiser:
    """The norm of `inf_to_one_norm` together with a sign vector that attains it.

    Maximisers come in pairs ±x and need not be unique beyond that: the one returned has
    signs[0] = +1. Errors as in `inf_to_one_norm`.
    """
    matrix = as_real_array(M, "M", ndim=2)
    columns = matrix.shape[1]
    if columns > MAX_ENUMERATED_COLUMNS:
        raise ValueError(
            f"M has {columns} columns: sign vectors are enumerated up to {MAX_ENUMERATED_COLUMNS}"
        )
    scaled, exponent = _scaled(matrix)
    # The first sign is +1 throughout; the next few vary within a block, the rest between blocks.
    split = 1 + min(columns - 1, _BLOCK_COLUMNS)
    inner = _sign_vectors(split - 1)
    inner_images = scaled[:, :1] + scaled[:, 1:split] @ inner
    best = -1.0
    signs = np.ones(columns)
    for outer in _sign_vectors(columns - split).T:
        images = inner_images + (scaled[:, split:] @ outer)[:, np.newaxis]
        norms = np.sum(np.abs(images), axis=0)
        at = int(np.argmax(norms))
        if norms[at] > best:
            best = float(norms[at])
            signs = np.concatenate([[1.0], inner[:, at], outer])
    return InfToOneMaximiser(_unscaled(best, exponent), signs)


def _sign_vectors(n: int) -> FloatArray:
    """All of {-1,+1}^n as the columns of an (n, 2^n) array."""
    bits = (np.arange(2**n) >> np.arange(n)[:, np.newaxis]) & 1
    return 1.0 - 2.0 * bits.astype(np.float64)


def _scaled(matrix: FloatArray) -> tuple[FloatArray, int]:
    """The matrix divided by the power of two that brings its largest entry into [1/2, 1)."""
    exponent = int(np.frexp(np.max(np.abs(matrix)))[1])
    return np.ldexp(matrix, -exponent), exponent


def _unscaled(value: float, exponent: int) -> float:
    return float(np.ldexp(value, exponent))


# --- probability vectors -------------------------------------------------------------------------


@_quiet
def is_row_stochastic(A: npt.ArrayLike, tol: float | None = None) -> bool:
    """Whether every row of A, shape (m, n), is a probability vector.

    No entry may be negative, and each row sum may differ from 1 by at most tol; None means
    `sum_tolerance` of A's own dtype, 4·eps for float64. Raises ValueError for a negative tol, and
    ValueError or TypeError as `as_real_array` does.
    """
    matrix = as_real_array(A, "A", ndim=2)
    if tol is None:
        allowed = sum_tolerance(as_array(A, "A").dtype, matrix.shape[1])
    else:
        allowed = as_real_scalar(tol, "tol")
        if allowed < 0.0:
            raise ValueError(f"tol is {allowed}: negative")
    if np.any(matrix < 0.0):
        return False
    return bool(np.all(np.abs(row_sums(matrix) - 1.0) <= allowed))


def total_variation(p: npt.ArrayLike, q: npt.ArrayLike) -> float:
    """TV(p, q) = ½ Σ_i |p_i - q_i| of two probability vectors of shape (L,).

    An equality up to rounding; in [0, 1] up to the tolerance on the sums. Raises ValueError for
    vectors of different shapes, and ValueError or TypeError as `as_distributions` does.
    """
    first = as_distributions(p, "p", ndim=1)
    second = as_distributions(q, "q", ndim=1)
    if first.shape != second.shape:
        raise ValueError(f"p has shape {first.shape}, q has shape {second.shape}: they must agree")
    return 0.5 * float(row_sums(np.abs(first - second)))
