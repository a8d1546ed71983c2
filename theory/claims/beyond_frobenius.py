"""Beyond Section 2.1: how much attention one key must draw for ‖A‖₂ to grow like √L.

Let w = max_j (1/L) Σ_i A_ij be the largest share of attention that a key receives, averaged over
the L queries. Upper: ‖A‖₂² <= max_j Σ_i A_ij = Lw (beyond_spectral_column_sum). Lower: for that key
‖A‖₂² >= ‖Ae_j‖² = Σ_i A_ij² >= (Σ_i A_ij)²/L = Lw², the mean of squares being at least the square
of the mean. So w√L <= ‖A‖₂ <= √(wL): the factor √L of the Frobenius geometry, up to a constant,
means that some key keeps a fixed share of all attention as L grows; and ‖A‖₂ stays bounded if w
falls like 1/L.

Acting on states. X -> AX is A on each of the d columns of X, so its norm in the Frobenius geometry
is ‖A‖₂ itself, for every d.

Uniform causal rows: key 1 receives most, Lw = H_L = 1 + 1/2 + … + 1/L, so that the two bounds are
H_L/√L and √H_L; the norm itself is below 2 (beyond_cesaro).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.claims import _instances as exact
from theory.claims import _matrices as m
from theory.norms import spectral_norm
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

SHARE = Claim(
    id="beyond_frobenius_share",
    paper_ref="sharpens the first display of Section 2.1",
    section="beyond",
    statement="For a row-stochastic A with L rows let w be the largest mean weight that a key "
    "receives, w = max_j (1/L) Σ_i A_ij. Then w√L <= ‖A‖₂ <= √(wL), and ‖A‖₂ is the norm of "
    "X -> AX from Frobenius to Frobenius at every width. So ‖A‖₂ >= c√L for a family of growing L "
    "forces w >= c², and w >= c forces ‖A‖₂ >= c√L: a factor of order √L needs a key with a fixed "
    "share of all attention. Both bounds are attained by sinks (w = 1).",
    uses=("beyond_spectral_column_sum", "beyond_frobenius_sink"),
)


def largest_share(matrix: m.Matrix) -> Fraction:
    """w."""
    return Fraction(max(sum(column) for column in zip(*matrix, strict=True))) / len(matrix)


def _mixing(rng: random.Random) -> m.Matrix:
    """Row-stochastic; sinks, uniform causal rows and near-sinks are frequent."""
    rows, keys = rng.randint(1, 4), rng.randint(1, 4)
    style = rng.randrange(4)
    if style == 0:
        return m.sink(rows, keys, rng.randrange(keys))
    if style == 1:
        return m.uniform_causal(rows)
    if style == 2:
        # One key gets the share s in every row: the lower bound is close.
        share = Fraction(rng.randint(5, 9), 10)
        other = exact.random_distribution(rng, keys)
        return [[share * int(j == 0) + (1 - share) * p for j, p in enumerate(other)]] * rows
    return m.random_stochastic(rng, rows, keys)


@check(SHARE, kind=Kind.DERIVATION, planted=Planted("bounds 1% tighter", factor="0.99"))
def mean_of_squares_and_columns(profile: Profile, *, factor: str = "1") -> Derivation:
    """Σ a_i² − (Σ a_i)²/L as a sum of squares; the column sum above; columns of X one by one."""
    scale = Fraction(factor) ** 2
    length = sympy.Symbol("L", integer=True, positive=True)
    i = sympy.Symbol("i", integer=True)
    weight = sympy.IndexedBase("a", real=True)
    mean = sympy.Symbol("w", real=True)
    # Σ (a_i − w)² with Σ a_i = Lw.
    total, square = sympy.symbols("S Q", real=True)
    deviations = square - 2 * mean * total + length * mean**2
    expanded = sympy.Sum(weight[i] ** 2 - 2 * mean * weight[i] + mean**2, (i, 1, length))

    def lower(rng: random.Random) -> Case:
        matrix = _mixing(rng)
        bound = len(matrix) * largest_share(matrix) ** 2 / scale
        return m.spectral_at_least(matrix, bound, {"A": matrix})

    def upper(rng: random.Random) -> Case:
        matrix = _mixing(rng)
        bound = scale * len(matrix) * largest_share(matrix)
        return m.spectral_at_most(matrix, bound, {"A": matrix})

    def columns(rng: random.Random) -> Case:
        matrix = _mixing(rng)
        states = m.random_matrix(rng, len(matrix[0]), rng.randint(1, 3))
        image = m.frobenius_squared(m.product(matrix, states))
        by_columns = sum(m.squared(m.apply(matrix, column)) for column in zip(*states, strict=True))
        return Case(image, "==", by_columns, {"A": matrix, "X": states})

    return Derivation(
        scope="all L, all numbers of keys, all widths, all row-stochastic A",
        steps=(
            Identity(
                "Σ (a_i − w)², expanded",
                sympy.Sum((weight[i] - mean) ** 2, (i, 1, length)),
                expanded,
            ),
            Identity(
                "which is Σ a_i² − (Σ a_i)²/L for w = Σ a_i/L",
                deviations.subs(mean, total / length),
                square - total**2 / length,
            ),
            RuleStep("lower", Rule.SUM_OF_SQUARES, "‖Ae_j‖² >= Lw²", lower),
            RuleStep("upper", Rule.TRANSITIVITY, "‖A‖₂² <= max column sum = Lw", upper),
            RuleStep("states", Rule.TERMWISE, "‖AX‖_F² = Σ over columns of X", columns),
        ),
    )


@check(SHARE, kind=Kind.ENUMERATION, planted=Planted("the lower bound is √(wL) too", power=1))
def every_small_matrix(profile: Profile, *, power: int = 2) -> Evidence:
    """Both bounds by exact LDLᵀ, for every A whose rows are multiples of 1/3 (or 1/4)."""
    largest = profile.pick(3, 4)

    def cases() -> Iterator[Case]:
        rows = [
            exact.normalised(weights)
            for weights in exact.weight_vectors(3, largest)
            if sum(weights) == largest
        ]
        for first in rows:
            for second in rows:
                for third in (first, second, rows[0]):
                    matrix = [first, second, third]
                    share = largest_share(matrix)
                    yield m.spectral_at_least(matrix, 3 * share**power, {"A": matrix})
                    yield m.spectral_at_most(matrix, 3 * share, {"A": matrix})

    return judge(cases(), scope=f"3×3, rows with denominator {largest}, the third one of three")


ROUNDED = Tolerance(
    value=1e-12,
    kind="relative",
    reason="the spectral norm of matrices of size at most 400 from a singular value decomposition",
)


@check(
    SHARE, kind=Kind.FLOAT, planted=Planted("the share is the largest single weight", single=True)
)
def softmax_rows_of_growing_length(profile: Profile, *, single: bool = False) -> Evidence:
    """Softmax rows with an attention sink or none, L up to 400: both bounds."""
    rng = np.random.default_rng(211)

    def cases() -> Iterator[Case]:
        for length in profile.pick((4, 16, 64, 128), (4, 16, 64, 200, 400)):
            for sink in (0.0, 2.0, 10.0):
                logits = rng.normal(size=(length, length))
                logits[:, 0] += sink
                weights = np.exp(logits - logits.max(axis=1, keepdims=True))
                matrix = weights / weights.sum(axis=1, keepdims=True)
                share = float(np.max(matrix if single else matrix.mean(axis=0)))
                norm = spectral_norm(matrix)
                shown = {"L": length, "sink": sink}
                yield Case(norm, ">=", share * length**0.5, shown)
                yield Case(norm, "<=", (share * length) ** 0.5, shown)

    return judge(
        cases(), scope="Gaussian logits, the first key raised by 0, 2 or 10", tolerance=ROUNDED
    )
