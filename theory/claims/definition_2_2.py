"""Definition 2.2: the block-∞/RMS norm and the row norm."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.claims import _instances as exact
from theory.claims import _matrices as m
from theory.norms import block_inf_rms, frobenius, rms, row_norm_inf_2
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import (
    Case,
    Derivation,
    Evidence,
    Identity,
    Kind,
    Rule,
    RuleStep,
    Tolerance,
    judge,
)
from verify.exact import as_fraction, ball, precision

NORM = Claim(
    id="definition_2_2",
    paper_ref="Definition 2.2",
    section="2",
    statement="‖X‖_{∞,rms} = max_i ‖x_i‖₂/√d and ‖Z‖_{∞,2} = max_i ‖z_i‖₂ are norms on matrices "
    "of any shape (positive unless the matrix is 0, homogeneous, subadditive); a matrix with "
    "entries ±c has ‖·‖_{∞,rms} = |c| at every width and length.",
)
RELATION = Claim(
    id="fact_row_norm_relation",
    paper_ref="Definition 2.2, after it",
    section="2",
    statement="‖X‖_{∞,rms} = ‖X‖_{∞,2}/√d for X of width d (the model width for states, d_h for "
    "the matrices of a head).",
    uses=("definition_2_2",),
)

ROUNDED_NORMS = Tolerance(
    value=16 * 2.0**-52,
    kind="relative",
    reason="the norms are right to a few eps (their own statement); √d or √(Ld) adds one",
)


def _scaled_pair(rng: random.Random) -> tuple[m.Matrix, m.Matrix]:
    """Two matrices of one shape; in many draws one is a nonnegative multiple of the other."""
    rows, columns = rng.randint(1, 4), rng.randint(1, 4)
    first = m.random_matrix(rng, rows, columns)
    if rng.random() < 0.3:
        t = abs(exact.random_rational(rng))
        return first, [[t * entry for entry in row] for row in first]
    return first, m.random_matrix(rng, rows, columns)


@check(
    NORM,
    kind=Kind.DERIVATION,
    planted=Planted("the triangle inequality with a constant 1% below 1", factor="0.99"),
)
def norm_axioms(profile: Profile, *, factor: str = "1") -> Derivation:
    """The Euclidean norm's axioms for each row, then the maximum over rows; 1/d is a constant."""
    scale_squared = Fraction(factor) ** 2
    d, n = sympy.symbols("d n", integer=True, positive=True)
    j = sympy.Symbol("j", integer=True)
    c = sympy.Symbol("c", real=True)
    norm_x, norm_y, inner = sympy.symbols("n_x n_y c_xy", real=True)
    x = sympy.IndexedBase("x", real=True)

    def inner_product(rng: random.Random) -> Case:
        first, second = _scaled_pair(rng)
        x, y = first[0], second[0]
        return Case(m.dot(x, y) ** 2, "<=", m.squared(x) * m.squared(y), {"x": x, "y": y})

    def triangle(rng: random.Random) -> Case:
        first, second = _scaled_pair(rng)
        return m.root_at_most_sum(
            m.largest_row_squared(m.plus(first, second)),
            scale_squared * m.largest_row_squared(first),
            scale_squared * m.largest_row_squared(second),
            {"X": first, "Y": second},
        )

    def homogeneous(rng: random.Random) -> Case:
        first, _ = _scaled_pair(rng)
        t = exact.random_rational(rng)
        image = [[t * entry for entry in row] for row in first]
        return Case(
            m.largest_row_squared(image), "==", t**2 * m.largest_row_squared(first), {"X": first}
        )

    def definite(rng: random.Random) -> Case:
        first, _ = _scaled_pair(rng)
        vanishes = m.largest_row_squared(first) == 0
        is_zero = not any(entry for row in first for entry in row)
        return Case(int(vanishes), "==", int(is_zero), {"X": first})

    return Derivation(
        scope="all shapes",
        steps=(
            Identity(
                "c·x, one row",
                sympy.Sum((c * x[j]) ** 2, (j, 1, n)),
                c**2 * sympy.Sum(x[j] ** 2, (j, 1, n)),
            ),
            RuleStep("homogeneous", Rule.MONOTONICITY, "max of |c|‖x_i‖", homogeneous),
            RuleStep("definite", Rule.SUM_OF_SQUARES, "0 only for X = 0", definite),
            Identity(
                "x + y, one row",
                (norm_x + norm_y) ** 2 - (norm_x**2 + 2 * inner + norm_y**2),
                2 * (norm_x * norm_y - inner),
            ),
            RuleStep("one row", Rule.CAUCHY_SCHWARZ, "⟨x, y⟩ <= ‖x‖‖y‖", inner_product),
            RuleStep("subadditive", Rule.TERMWISE, "the largest row of X + Y", triangle),
            Identity("entries ±c", sympy.Sum(c**2, (j, 1, d)).doit() / d, c**2),
        ),
    )


@check(
    NORM,
    kind=Kind.ENUMERATION,
    planted=Planted("the triangle inequality with a constant 1% below 1", factor="0.99"),
)
def triangle_for_every_small_pair(profile: Profile, *, factor: str = "1") -> Evidence:
    """√a <= √b + √c by squares alone, for every pair of small integer matrices."""
    scale_squared = Fraction(factor) ** 2
    sizes = profile.pick(((1, 2, 2), (2, 1, 2), (2, 2, 1)), ((1, 2, 4), (1, 3, 2), (2, 2, 1)))

    def cases() -> Iterator[Case]:
        for rows, columns, largest in sizes:
            matrices = list(m.integer_matrices(rows, columns, range(-largest, largest + 1)))
            for first, second in itertools.product(matrices, repeat=2):
                yield m.root_at_most_sum(
                    m.largest_row_squared(m.plus(first, second)),
                    scale_squared * m.largest_row_squared(first),
                    scale_squared * m.largest_row_squared(second),
                    {"X": first, "Y": second},
                )

    shown = ", ".join(f"{rows}×{columns}: |X| <= {b}" for rows, columns, b in sizes)
    return judge(cases(), scope=f"every pair of integer matrices, {shown}")


def _adversarial(rng: np.random.Generator, scale: float) -> Iterator[np.ndarray]:
    for length, width in ((1, 1), (1, 9), (7, 1), (5, 33)):
        tokens = scale * rng.standard_normal((length, width))
        yield tokens
        # One entry far above all others, so that a naive square overflows or the rest vanishes.
        spiked = tokens.copy()
        spiked[0, 0] = 1e8 * scale
        yield spiked


@check(
    NORM,
    kind=Kind.FLOAT,
    planted=Planted("the mean is taken over d + 1 entries", added=1),
)
def public_functions(profile: Profile, *, added: int = 0) -> Evidence:
    """``rms``, ``block_inf_rms``, ``row_norm_inf_2`` and ``frobenius`` against exact sums."""
    rng = np.random.default_rng(220)

    def root(value: Fraction) -> float:
        with precision(120):
            return float(ball(value).sqrt().mid())

    def cases() -> Iterator[Case]:
        for scale in (1e-290, 1e-150, 1.0, 1e150, 1e290):
            for tokens in _adversarial(rng, scale):
                rows = [[as_fraction(entry) for entry in row] for row in tokens]
                top, total = Fraction(m.largest_row_squared(rows)), m.frobenius_squared(rows)
                d = len(rows[0]) + added
                instance = {"shape": tokens.shape, "scale": scale}
                yield Case(block_inf_rms(tokens), "==", root(top / d), instance)
                yield Case(row_norm_inf_2(tokens), "==", root(top), instance)
                yield Case(frobenius(tokens), "==", root(Fraction(total)), instance)
                first = Fraction(m.squared(rows[0]))
                yield Case(rms(tokens[0]), "==", root(first / d), instance)

    return judge(
        cases(),
        scope="Gaussian and spiked X up to 5×33, scales 1e-290 to 1e290",
        tolerance=ROUNDED_NORMS,
    )


@check(
    RELATION,
    kind=Kind.ENUMERATION,
    planted=Planted("√L in place of √d", by_length=True),
)
def every_small_integer_matrix(profile: Profile, *, by_length: bool = False) -> Evidence:
    """Squares: the largest mean square of a row against the largest square sum over d."""
    sizes = ((1, 1, 5), (1, 2, 4), (2, 1, 4), (2, 2, profile.pick(2, 4)), (3, 2, 1), (2, 3, 1))

    def cases() -> Iterator[Case]:
        for rows, columns, largest in sizes:
            divisor = rows if by_length else columns
            for matrix in m.integer_matrices(rows, columns, range(-largest, largest + 1)):
                mean_squares = [Fraction(m.squared(row), columns) for row in matrix]
                row_norm = Fraction(m.largest_row_squared(matrix), divisor)
                yield Case(max(mean_squares), "==", row_norm, {"X": matrix})

    shown = ", ".join(f"{rows}×{columns}: |X| <= {b}" for rows, columns, b in sizes)
    return judge(cases(), scope=f"every integer matrix, {shown}")


@check(
    RELATION,
    kind=Kind.DERIVATION,
    planted=Planted("d in place of √d", power=1),
)
def scaling_commutes_with_the_maximum(
    profile: Profile, *, power: Fraction = Fraction(1, 2)
) -> Derivation:
    """The factor is the same for every row, so it leaves the maximum."""
    d = sympy.Symbol("d", integer=True, positive=True)
    j = sympy.Symbol("j", integer=True)
    x = sympy.IndexedBase("x", real=True)
    square_sum = sympy.Sum(x[j] ** 2, (j, 1, d))

    def maximum(rng: random.Random) -> Case:
        matrix = m.random_matrix(rng, rng.randint(1, 5), rng.randint(1, 5))
        mean_squares = [Fraction(m.squared(row)) / len(row) for row in matrix]
        by_rows = Fraction(m.largest_row_squared(matrix)) / len(matrix[0])
        return Case(max(mean_squares), "==", by_rows, {"X": matrix})

    return Derivation(
        scope="all L, all d",
        steps=(
            Identity(
                "one row",
                sympy.sqrt(square_sum / d),
                sympy.sqrt(square_sum) / d ** sympy.Rational(power),
            ),
            RuleStep("all rows", Rule.MONOTONICITY, "max_i r_i/d = (max_i r_i)/d", maximum),
        ),
    )
