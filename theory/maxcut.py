"""Semidefinite relaxations of ‖M‖_∞→1 and of the maximum cut of Remark 3.3, with proved bounds.

For a symmetric A of size n, with signs x_i = ±1, unit vectors v_i and real y_i,

    max_x Σ A_ij x_i x_j  <=  max_v Σ A_ij ⟨v_i, v_j⟩  <=  Σ y_i   whenever Diag(y) − A ⪰ 0.

The first inequality holds because signs are unit vectors in dimension one; the second because
⟨Diag(y) − A, X⟩ >= 0 for the Gram matrix X of the v_i, whose diagonal is 1. The middle term is the
relaxation, and at its solution both ends of the second inequality meet.

`sign_form_relaxation` and `inf_to_one_relaxation` solve it in floating point (cvxpy), and then
believe nothing of the solver: the lower bound is the form at signs found by Goemans and
Williamson's random hyperplanes, added up in rationals; the upper bound belongs to a repaired dual
point for which Diag(y) − A ⪰ 0 is proved. `row_relaxation` needs no solver: for
A = Diag(p) − ppᵀ the relaxation has a solution in closed form (theory.claims.beyond_sdp).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

from theory.arguments import FloatArray, as_array, as_real_array
from theory.theta import solve_theta
from verify.definite import is_positive_semidefinite_in_balls, largest_eigenvalue_upper_bound
from verify.exact import RationalMatrix, as_fraction, ball, is_positive_semidefinite

# Primal value and proved upper bound of a solved relaxation differ by less than this, in units of n
# times the largest entry: interior-point solvers stop near 1e-8, first-order ones near 1e-6.
SOLVED_GAP = 1e-5
# Up to this size a dual point is rechecked by an exact LDLᵀ, which decides both ways. Beyond it the
# rationals grow too long, and a Cholesky factor with a residual in balls takes over.
LDL_SIZE = 16
# What a recheck in balls needs to see between the dual point and the least one, in units of n times
# the trace of the slack: `is_positive_semidefinite_in_balls` gives away 8(n + 1)·2^-53 of it.
RECHECK_MARGIN = Fraction(1, 2**48)


class Status(Enum):
    """Whether the solver did its work; the bounds are true either way.

    SOLVED: primal value and proved upper bound agree up to n·SOLVED_GAP times the
    largest entry. OPEN: they do not.
    """

    SOLVED = "SOLVED"
    OPEN = "OPEN"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SignRelaxation:
    """Bounds of a maximum over n signs by its semidefinite relaxation.

    lower: the exact value at `signs`, so lower <= maximum. upper: Σ dual, exactly, so
    maximum <= relaxation <= upper. primal: the objective at `vectors` in floating point, close to
    the relaxation's value where status is SOLVED, and no bound of anything.
    signs: (n,) int8. dual: n rationals y with Diag(y) − A ⪰ 0. vectors: (n, n) float64, unit rows.
    All arrays are read-only.
    """

    lower: Fraction
    upper: Fraction
    primal: float
    signs: npt.NDArray[np.int8]
    dual: tuple[Fraction, ...]
    vectors: FloatArray
    status: Status


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowRelaxation:
    """The relaxation of θ(p) = max xᵀ(Diag p − ppᵀ)x over signs, solved exactly.

    value: the relaxation's optimum, 1 − max(0, 2p_max − 1)². dual: L rationals y with sum `value`
    and Diag(y) − (Diag p − ppᵀ) ⪰ 0. group: (L,) int64, which of the directions the vector of each
    weight has; cosines: the Gram matrix of the directions (two opposite ones, or three in a
    plane), so that the primal solution is X_ij = cosines[group_i][group_j].
    lower: the exact form at `signs`, (L,) int8, the best cut of the directions by a line; it is at
    least 8/9 of `value`, and at least the greedy certificate of Appendix D.2.
    """

    value: Fraction
    dual: tuple[Fraction, ...]
    group: npt.NDArray[np.int64]
    cosines: tuple[tuple[Fraction, ...], ...]
    lower: Fraction
    signs: npt.NDArray[np.int8]


# ------------------------------------------------------------------------------- one row


def row_relaxation(weights: Sequence[object] | npt.NDArray[Any]) -> RowRelaxation:
    """The relaxation of θ of one row, in closed form and in rationals. An equality.

    weights: L nonnegative finite numbers with a positive sum (floats are the dyadic rationals that
    they are); p is the row divided by its sum. Source: theory.claims.beyond_sdp.

    Raises ValueError for an empty, negative, infinite or zero row, TypeError for what is no number.
    """
    p = _exact_row(weights)
    order = sorted(range(len(p)), key=lambda i: -p[i])
    top = p[order[0]]
    group = np.zeros(len(p), dtype=np.int64)
    cosines: tuple[tuple[Fraction, ...], ...]
    if 2 * top >= 1:
        group[order[1:]] = 1
        masses = [top, 1 - top]
        cosines = ((Fraction(1), Fraction(-1)), (Fraction(-1), Fraction(1)))
        excess = 2 * top - 1
        dual = [p_i * (1 + excess) for p_i in p]
        dual[order[0]] = top * (1 - excess)
    else:
        # Atoms up to 1/2 in three groups of at most 1/2 each: before, at and after the crossing.
        before, place = Fraction(0), 0
        while before + p[order[place]] < Fraction(1, 2):
            before += p[order[place]]
            place += 1
        at = p[order[place]]
        group[order[place]] = 1
        group[order[place + 1 :]] = 2
        masses = [before, at, 1 - before - at]
        cosines = triangle_cosines(masses)
        dual = p
    best = max(range(len(masses)), key=lambda k: masses[k] * (1 - masses[k]))
    signs = np.where(group == best, 1, -1).astype(np.int8)
    for array in (group, signs):
        array.setflags(write=False)
    return RowRelaxation(
        value=1 - max(Fraction(0), 2 * top - 1) ** 2,
        dual=tuple(dual),
        group=group,
        cosines=cosines,
        lower=4 * masses[best] * (1 - masses[best]),
        signs=signs,
    )


def triangle_cosines(masses: Sequence[Fraction]) -> tuple[tuple[Fraction, ...], ...]:
    """The Gram matrix of three unit vectors u_k with Σ masses_k u_k = 0.

    The masses are positive and none exceeds the sum of the others: they are the sides of a
    triangle, and ‖a u + b v‖² = c² gives the cosines by the law of cosines.
    """
    cosines = [[Fraction(1)] * 3 for _ in range(3)]
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        a, b, c = masses[i], masses[j], masses[k]
        cosines[i][j] = cosines[j][i] = (c * c - a * a - b * b) / (2 * a * b)
    return tuple(map(tuple, cosines))


def relaxation_is_tight(
    weights: Sequence[object] | npt.NDArray[Any], *, budget: float | None = None
) -> bool | None:
    """Whether θ equals its relaxation exactly; None where the exact θ stays open.

    weights: as in `row_relaxation`. budget: seconds for the exact solver, None without limit. The
    solver need not separate a θ that rounds to 1 from 1, so None occurs without a budget, too.
    """
    value = row_relaxation(weights).value
    solution = solve_theta(weights, budget=budget)
    if solution.lower == value:
        return True
    return False if solution.upper < value else None


def _exact_row(weights: Sequence[object] | npt.NDArray[Any]) -> list[Fraction]:
    exact = [as_fraction(weight) for weight in weights]
    if not exact:
        raise ValueError("the row is empty")
    for i, weight in enumerate(exact):
        if weight < 0:
            raise ValueError(f"weights[{i}] is {float(weight)}: negative")
    total = sum(exact, Fraction(0))
    if total == 0:
        raise ValueError("the row has total weight 0")
    return [weight / total for weight in exact]


# ------------------------------------------------------------------------- any matrix


def sign_form_relaxation(
    matrix: npt.ArrayLike, *, solver: str = "CLARABEL", rounds: int = 200, seed: int = 0
) -> SignRelaxation:
    """Bounds of max xᵀAx over x in {−1, +1}^n by the semidefinite relaxation.

    matrix: a symmetric array of real numbers, shape (n, n); Fractions are kept exactly. solver:
    the name of a cvxpy solver for semidefinite programs, such as "CLARABEL" (interior point, for
    n up to about 80) or "SCS" (first order). rounds: random hyperplanes; seed: of their draws.

    Source: Goemans and Williamson 1995 (rounding), Nesterov 1998 (for A ⪰ 0 the relaxation is at
    most π/2 times the maximum; theory.claims.beyond_sdp). Time: the solver's, and a few
    operations of order n³ for the proof of the upper bound.

    Raises ValueError for a matrix that is not square, not symmetric or not finite, and for
    rounds < 1; ImportError with the command that installs cvxpy where it is missing.
    """
    exact = _exact_matrix(matrix)
    if any(len(row) != len(exact) for row in exact):
        raise ValueError(f"the matrix has {len(exact)} rows but is not square")
    for i, row in enumerate(exact):
        for j in range(i):
            if row[j] != exact[j][i]:
                raise ValueError(f"the matrix is not symmetric at [{i}, {j}]")
    return _relax(exact, solver, rounds, seed)


def inf_to_one_relaxation(
    matrix: npt.ArrayLike, *, solver: str = "CLARABEL", rounds: int = 200, seed: int = 0
) -> SignRelaxation:
    """Bounds of ‖M‖_∞→1 = max yᵀMx over signs by the semidefinite relaxation.

    matrix: an array of real numbers, shape (m, k). The form is that of the symmetric matrix
    ½[[0, M], [Mᵀ, 0]] of size n = m + k, so `signs`, `dual` and `vectors` have n entries, those of
    y first. The relaxation is at most Grothendieck's constant (below 1.7823) times the norm, and at
    most π/2 times for M ⪰ 0, where it equals the relaxation of max xᵀMx.

    Other arguments and errors as in `sign_form_relaxation`.
    """
    exact = _exact_matrix(matrix)
    rows, columns = len(exact), len(exact[0])
    lifted = [[Fraction(0)] * (rows + columns) for _ in range(rows + columns)]
    for i, row in enumerate(exact):
        for j, entry in enumerate(row):
            lifted[i][rows + j] = lifted[rows + j][i] = entry / 2
    return _relax(lifted, solver, rounds, seed)


def is_dual_certificate(matrix: npt.ArrayLike, dual: Sequence[object]) -> bool:
    """Whether Diag(dual) − A ⪰ 0 is proved, so that xᵀAx <= Σ dual for all signs x.

    matrix: symmetric, shape (n, n), read exactly; dual: n numbers, read exactly. Up to n = LDL_SIZE
    an exact LDLᵀ decides. Beyond, True is a proof in balls and False says only that none was
    found, as happens where Diag(dual) − A is singular.
    """
    exact = _exact_matrix(matrix)
    if len(dual) != len(exact):
        raise ValueError(f"{len(dual)} dual values but a matrix of size {len(exact)}")
    _, slack = _scaled(
        [
            [(as_fraction(y) if i == j else Fraction(0)) - entry for j, entry in enumerate(row)]
            for i, (y, row) in enumerate(zip(dual, exact, strict=True))
        ]
    )
    if len(slack) <= LDL_SIZE:
        return is_positive_semidefinite(slack)
    balls = flint.arb_mat([[ball(entry) for entry in row] for row in slack])
    return is_positive_semidefinite_in_balls(balls)


def _exact_matrix(matrix: npt.ArrayLike) -> list[list[Fraction]]:
    # Read twice: for the errors that name what is wrong, and for the exact entries.
    as_real_array(matrix, "matrix", ndim=2)
    return [[as_fraction(entry) for entry in row] for row in as_array(matrix, "matrix")]


def _relax(matrix: RationalMatrix, solver: str, rounds: int, seed: int) -> SignRelaxation:
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}: at least one hyperplane is needed")
    exponent, scaled = _scaled(matrix)
    scale = Fraction(2) ** exponent
    floats = np.array(scaled, dtype=np.float64)
    dual, gram = _solve(floats, solver)
    # Row sums of moduli are a dual point, too (diagonal dominance), and exact for a zero matrix.
    plain = [sum(map(abs, row), Fraction(0)) for row in scaled]
    repaired = min(_repaired(scaled, dual), plain, key=sum)
    vectors = _unit_vectors(gram)
    signs = _round(floats, vectors, rounds, seed)
    primal = float(np.sum(floats * (vectors @ vectors.T)))
    upper = sum(repaired, Fraction(0))
    for array in (signs, vectors):
        array.setflags(write=False)
    with np.errstate(over="ignore", under="ignore"):
        unscaled_primal = float(np.ldexp(primal, exponent))
    return SignRelaxation(
        lower=scale * _form(scaled, signs.tolist()),
        upper=scale * upper,
        primal=unscaled_primal,
        signs=signs,
        dual=tuple(scale * y for y in repaired),
        vectors=vectors,
        status=Status.SOLVED if float(upper) - primal <= SOLVED_GAP * len(scaled) else Status.OPEN,
    )


def _scaled(matrix: RationalMatrix) -> tuple[int, list[list[Fraction]]]:
    """An exponent e and the matrix over 2^e, with entries below 1; e = 0 for a zero matrix."""
    largest = max(abs(entry) for row in matrix for entry in row)
    exponent = 0
    if largest:
        exponent = largest.numerator.bit_length() - largest.denominator.bit_length() + 1
    scale = Fraction(2) ** exponent
    return exponent, [[entry / scale for entry in row] for row in matrix]


def _form(matrix: RationalMatrix, signs: Sequence[int]) -> Fraction:
    return sum(
        (
            s * sum((t * entry for t, entry in zip(signs, row, strict=True)), Fraction(0))
            for s, row in zip(signs, matrix, strict=True)
        ),
        Fraction(0),
    )


def _solve(matrix: FloatArray, solver: str) -> tuple[FloatArray, FloatArray]:
    """A dual point and a primal matrix, as the solver leaves them: near-optimal, proved nothing.

    Where the solver fails, the row sums of |A| (a feasible dual point) and the identity.
    """
    try:
        import cvxpy
    except ImportError as error:
        raise ImportError(
            "cvxpy is not installed: pip install 'attention-sensitivity[sdp]'"
        ) from error
    size = len(matrix)
    y = cvxpy.Variable(size)
    feasible = cvxpy.diag(y) - matrix >> 0
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(y)), [feasible])
    try:
        with warnings.catch_warnings():
            # That a solution may be inaccurate is judged below, by what it proves.
            warnings.simplefilter("ignore")
            problem.solve(solver=solver)
    except cvxpy.SolverError:
        pass
    # The constraint's own multiplier is the primal matrix: of size 1 it may come as a scalar.
    gram = None if feasible.dual_value is None else np.reshape(feasible.dual_value, (size, size))
    if y.value is None or gram is None or not np.isfinite(np.sum(gram) + np.sum(y.value)):
        return np.abs(matrix).sum(axis=1), np.eye(size)
    return np.asarray(y.value), (gram + gram.T) / 2


def _repaired(matrix: RationalMatrix, dual: FloatArray) -> list[Fraction]:
    """The dual point, moved to where Diag(y) − A ⪰ 0 is proved, with room for a recheck.

    With B the float matrix nearest to A, D a float diagonal and U >= λ_max(B − D) proved, the
    matrix U·1 − (B − D) is semidefinite; and A − B is dominated by its row sums of moduli.
    """
    floats = np.array(matrix, dtype=np.float64)
    rounding = [
        sum((abs(entry - as_fraction(b)) for entry, b in zip(row, near, strict=True)), Fraction(0))
        for row, near in zip(matrix, floats, strict=True)
    ]
    np.fill_diagonal(floats, floats.diagonal() - dual)
    shift = as_fraction(largest_eigenvalue_upper_bound(floats))
    # From here on A's own diagonal counts: B − D was rounded once more there.
    least = [
        row[i] - as_fraction(floats[i, i]) + shift + rounding[i] for i, row in enumerate(matrix)
    ]
    trace = sum((abs(y - row[i]) for i, (y, row) in enumerate(zip(least, matrix, strict=True))))
    return [y + RECHECK_MARGIN * len(least) * trace for y in least]


def _unit_vectors(gram: FloatArray) -> FloatArray:
    """Unit rows whose Gram matrix is the given one up to rounding, shape (n, n)."""
    eigenvalues, basis = np.linalg.eigh(gram)
    vectors = basis * np.sqrt(np.maximum(eigenvalues, 0.0))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    # A zero row says that its sign does not matter.
    vectors[lengths[:, 0] == 0.0, 0] = 1.0
    return vectors / np.where(lengths == 0.0, 1.0, lengths)


def _round(matrix: FloatArray, vectors: FloatArray, rounds: int, seed: int) -> npt.NDArray[np.int8]:
    """Signs of the best of some random hyperplanes."""
    normals = np.random.default_rng(seed).standard_normal((vectors.shape[1], rounds))
    signs = np.where(vectors @ normals >= 0.0, 1.0, -1.0)
    values = np.sum(signs * (matrix @ signs), axis=0)
    return signs[:, int(np.argmax(values))].astype(np.int8)
