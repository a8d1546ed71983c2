"""Proved bounds on the eigenvalues of symmetric float64 matrices.

A floating eigenvalue proves nothing. A floating Cholesky factor L does, whatever its own errors
were: LLᵀ is positive semidefinite for every real L, so by Weyl's inequality
λ_min(A) >= −‖A − LLᵀ‖₂, and the residual is one matrix product whose rounding error has an a-priori
bound (verify.rounding), or which balls enclose. Compare S. M. Rump, Verification of positive
definiteness, BIT 46 (2006), 433–452, who bounds the residual from the success of the factorisation
alone; looking at the residual asks less of the library that factorises.
"""

from __future__ import annotations

import math

import flint
import numpy as np
import numpy.typing as npt

from verify.exact import as_fraction, precision, upper_end
from verify.rounding import UNDERFLOW, UNIT_ROUNDOFF, gamma, upward

FloatArray = npt.NDArray[np.float64]


def smallest_eigenvalue_lower_bound(matrix: FloatArray) -> float:
    """A number that λ_min of a symmetric float64 matrix of shape (n, n) is never below.

    Proved by a floating Cholesky factor and its residual; −inf where no factor was found, which
    says nothing about the matrix. The bound is within about n²·u·max|a_ii| of λ_min only if λ_min
    is about zero: shift the matrix first. Raises ValueError for a matrix that is not symmetric or
    has entries that are not finite.
    """
    _require_symmetric(matrix)
    # Entries of size about 1, by a power of two: what that loses to underflow is counted below.
    exponent = int(np.frexp(np.max(np.abs(matrix), initial=0.0))[1])
    scaled = np.ldexp(matrix, -exponent)
    factor = _cholesky(scaled)
    if factor is None:
        return -math.inf
    n = len(matrix)
    residual = scaled - factor @ factor.T
    size = upward(float(np.linalg.norm(factor)), n * n + 2)
    # Frobenius norms bound spectral norms. The product LLᵀ errs by γ_n |L||L|ᵀ at most, of norm
    # γ_n ‖L‖_F²; the subtraction by u times its result.
    seen = upward(float(np.linalg.norm(residual)), n * n + 2) * (1.0 + 2.0 * UNIT_ROUNDOFF)
    bound = -upward(seen + gamma(n) * size * size + n * n * UNDERFLOW, 6)
    return math.nextafter(math.ldexp(bound, exponent), -math.inf)


def largest_eigenvalue_at_most(matrix: FloatArray, target: float) -> float:
    """A proved upper bound of λ_max(matrix), close to ``target`` if target >= λ_max; else inf.

    Cholesky of target·I − matrix. Raises what `smallest_eigenvalue_lower_bound` raises.
    """
    _require_symmetric(matrix)
    shifted = -matrix
    diagonal = target - matrix.diagonal()
    np.fill_diagonal(shifted, diagonal)
    # Each diagonal entry of target·I − matrix was rounded once.
    rounding = UNIT_ROUNDOFF * float(np.max(np.abs(diagonal), initial=0.0))
    bound = target - smallest_eigenvalue_lower_bound(shifted) + rounding
    return math.nextafter(bound + 4.0 * UNIT_ROUNDOFF * abs(bound), math.inf)


def largest_eigenvalue_upper_bound(matrix: FloatArray) -> float:
    """A proved upper bound of λ_max of a symmetric float64 matrix (n, n), n >= 1.

    Within about n²·u·max|a_ij| of it. The floating eigenvalue only suggests where to
    look. Raises ValueError for a matrix that is not symmetric or not finite.
    """
    _require_symmetric(matrix)
    size = len(matrix) * float(np.max(np.abs(matrix)))
    if size == 0.0:
        return 0.0
    suggestion = float(np.linalg.eigvalsh(matrix)[-1])
    margin = max(4.0 * UNIT_ROUNDOFF * size, UNDERFLOW)
    # Row sums bound every eigenvalue by the size, so that twice that is far from singular at last.
    while margin < 16.0 * size:
        bound = largest_eigenvalue_at_most(matrix, suggestion + margin)
        if bound < math.inf:
            return bound
        margin *= 8.0
    return upward(size, 2)


def spectral_norm_upper_bound(matrix: FloatArray) -> float:
    """A proved upper bound of ‖M‖₂ for a float64 matrix (m, n) whose squares are finite.

    The root of λ_max(MᵀM) or λ_max(MMᵀ), whichever is smaller to form, plus the rounding of forming
    it. Raises ValueError where the product is not finite.
    """
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    product = wide @ wide.T
    gram = (product + product.T) / 2
    rows, columns = wide.shape
    # The product errs by γ |M||M|ᵀ entrywise, of norm ‖M‖_F² at most.
    square = upward(float(np.sum(matrix * matrix)), rows * columns + 2)
    error = gamma(columns + 2) * square + (rows**2 * columns * UNDERFLOW if matrix.any() else 0.0)
    return upward(math.sqrt(upward(largest_eigenvalue_upper_bound(gram) + error, 4)), 2)


def is_positive_semidefinite_in_balls(matrix: flint.arb_mat, *, bits: int = 100) -> bool:
    """Whether every symmetric matrix in a flint ``arb_mat`` is positive semidefinite, if proved.

    False says only that no proof was found: λ_min must exceed a few n·u times the largest diagonal
    entry. L is a floating factor of the midpoints less a small shift s, and ‖A − sI − LLᵀ‖_F <= s
    is established by one product of ball matrices. The proof rests on python-flint alone, on no
    property of floating arithmetic.
    """
    n = matrix.nrows()
    with precision(bits):
        midpoints = np.array([[float(entry.mid()) for entry in row] for row in matrix.tolist()])
        midpoints = (midpoints + midpoints.T) / 2
        unit = n * UNIT_ROUNDOFF * float(np.max(np.abs(midpoints.diagonal()), initial=0.0))
        for shift in (4.0 * unit, 32.0 * unit, 256.0 * unit):
            factor = _cholesky(midpoints - shift * np.eye(n))
            if factor is None:
                return False
            lower = flint.arb_mat(factor.tolist())
            spread = flint.arb_mat((shift * np.eye(n)).tolist())
            residual = matrix - spread - lower * lower.transpose()
            squares = sum((entry * entry for entry in residual.entries()), flint.arb(0))
            if squares.is_finite() and upper_end(squares) <= as_fraction(shift) ** 2:
                return True
    return False


def _cholesky(matrix: FloatArray) -> FloatArray | None:
    """A lower triangular factor, or None where the factorisation breaks down."""
    try:
        factor = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return factor if bool(np.isfinite(factor).all()) else None


def _require_symmetric(matrix: FloatArray) -> None:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"a square matrix is needed, not one of shape {matrix.shape}")
    if not bool(np.isfinite(matrix).all()):
        raise ValueError("the matrix has an entry that is not finite")
    if not np.array_equal(matrix, matrix.T):
        raise ValueError("the matrix is not symmetric")
