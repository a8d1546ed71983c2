"""θ as the largest variance, and as the largest mean absolute deviation, of a bounded variable.

Let x be a function on the L atoms with values in [−1, 1], α = Σ p_i x_i its mean under p.

*Variance.* V(x) = Σ p_i x_i² − α² has second derivative 2p_i(1 − p_i) >= 0 in each x_i, so moving
one coordinate after another to the better end of [−1, 1] never lowers V: the maximum over the cube
is attained at a sign vector. There, with q the mass of the positive coordinates, the second moment
is 1 and α = 2q − 1, so V = 1 − (2q − 1)² = 4q(1 − q), and the largest is θ(p).

*Mean absolute deviation.* A(x) = Σ p_i |x_i − α| is a sum of absolute values of linear functions of
x, hence convex, and again largest at a sign vector; there A = q·2(1 − q) + (1 − q)·2q = 4q(1 − q).
Indeed p_i(x_i − α) = ((Diag p − ppᵀ)x)_i, so this is Theorem 3.2 at τ = 1 read once more.

*Other ranges.* y = (a + b)/2 + ((b − a)/2) x has values in [a, b], V(y) = ((b − a)/2)² V(x) and
A(y) = ((b − a)/2) A(x). So the largest variance is θ(p)(b − a)²/4, and the largest mean absolute
deviation θ(p)(b − a)/2. Since θ <= 1 the first refines Popoviciu's inequality V <= (b − a)²/4.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.claims import _instances as exact
from theory.theta import theta
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

VARIANCE = Claim(
    id="beyond_variance",
    paper_ref="beyond Definition 3.1",
    section="beyond",
    statement="For every p in the simplex, of any length, θ(p) is the largest variance under p of "
    "a function with values in [−1, 1], attained by ±1 on the two sides of an optimal subset. For "
    "values in [a, b] the largest variance is θ(p)(b − a)²/4: Popoviciu's inequality, refined.",
    uses=("definition_3_1",),
)
DEVIATION = Claim(
    id="beyond_variance_deviation",
    paper_ref="beyond Theorem 3.2",
    section="beyond",
    statement="For every p in the simplex, of any length, θ(p) is also the largest mean absolute "
    "deviation from the mean, Σ p_i|x_i − Σ p_j x_j|, of a function with values in [−1, 1].",
    uses=("definition_3_1", "theorem_3_2_norm"),
)

Values = tuple[Fraction, ...]
Spread = Callable[[exact.Distribution, Values], Fraction]


def _mean(p: exact.Distribution, x: Values) -> Fraction:
    return sum((a * v for a, v in zip(p, x, strict=True)), Fraction(0))


def variance(p: exact.Distribution, x: Values) -> Fraction:
    """Σ p_i (x_i − α)², from the definition."""
    alpha = _mean(p, x)
    return sum((a * (v - alpha) ** 2 for a, v in zip(p, x, strict=True)), Fraction(0))


def deviation(p: exact.Distribution, x: Values) -> Fraction:
    """Σ p_i |x_i − α|, from the definition."""
    alpha = _mean(p, x)
    return sum((a * abs(v - alpha) for a, v in zip(p, x, strict=True)), Fraction(0))


def _random_values(rng: random.Random, length: int) -> Values:
    return tuple(Fraction(rng.choice((-6, 6, rng.randint(-6, 6))), 6) for _ in range(length))


def _bounded_case(rng: random.Random, spread: Spread, scale: Fraction) -> Case:
    """The spread of a point of the cube against θ, with equality at the best vertex."""
    p = exact.random_distribution(rng, rng.randint(1, 6))
    theta = scale * exact.theta_by_definition(p)
    if rng.random() < 0.5:
        corners = (tuple(map(Fraction, s)) for s in exact.sign_vectors(len(p)))
        x = max(corners, key=lambda corner: spread(p, corner))
        return Case(spread(p, x), "==", theta, {"p": p, "x": x})
    x = _random_values(rng, len(p))
    return Case(spread(p, x), "<=", theta, {"p": p, "x": x})


def _grid_cases(profile: Profile, spread: Spread, scale: Fraction) -> Iterator[Case]:
    """The largest spread on a grid of the whole cube, its vertices included, equals θ."""
    sizes = profile.pick(((1, 5), (2, 5), (3, 4), (4, 2)), ((1, 9), (2, 9), (3, 7), (4, 4), (5, 2)))
    levels = tuple(Fraction(step, 2) for step in range(-2, 3))
    for length, largest in sizes:
        for weights in exact.sorted_weight_vectors(length, largest):
            p = exact.normalised(weights)
            found = max(spread(p, x) for x in itertools.product(levels, repeat=length))
            yield Case(found, "==", scale * exact.theta_by_definition(p), {"weights": weights})


GRID_SCOPE = "every small integer row up to order, zeros included; x in {−1, −1/2, 0, 1/2, 1}^L"


# ---------------------------------------------------------------------------------- variance


@check(VARIANCE, kind=Kind.DERIVATION, planted=Planted("θ is 1% smaller", factor="0.99"))
def derived_by_coordinates(profile: Profile, *, factor: str = "1") -> Derivation:
    """One coordinate at a time, the other atoms collected in their first two moments."""
    p, x, q, a, b, s = sympy.symbols("p x q a b s", real=True)
    first, second = sympy.symbols("M1 M2", real=True)
    scale = Fraction(factor)
    spread = p * x**2 + second - (p * x + first) ** 2
    # A variable with mean s and second moment second, moved to the range [a, b].
    moved_mean = (a + b) / 2 + (b - a) / 2 * s
    moved_second = ((a + b) / 2) ** 2 + (a + b) / 2 * (b - a) * s + ((b - a) / 2) ** 2 * second

    def one_coordinate(rng: random.Random) -> Case:
        row = exact.random_distribution(rng, rng.randint(1, 6))
        values = _random_values(rng, len(row))
        i = rng.randrange(len(row))
        ends = [(*values[:i], Fraction(end), *values[i + 1 :]) for end in (-1, 1)]
        best = max(variance(row, end) for end in ends)
        return Case(variance(row, values), "<=", best, {"p": row, "x": values, "i": i})

    def other_range(rng: random.Random) -> Case:
        low, high = sorted((exact.random_rational(rng), exact.random_rational(rng)))

        def moved(row: exact.Distribution, values: Values) -> Fraction:
            return variance(row, tuple((low + high + (high - low) * v) / 2 for v in values))

        return _bounded_case(rng, moved, scale * (high - low) ** 2 / 4)

    return Derivation(
        scope="all L, all p in the simplex, the whole cube",
        steps=(
            Identity("curvature in one coordinate", sympy.diff(spread, x, 2), 2 * p * (1 - p)),
            RuleStep(
                "to the ends",
                Rule.CONVEX_VERTEX,
                "an end of [−1, 1] is no worse than a point between, in each coordinate",
                one_coordinate,
            ),
            Identity(
                "variance of ±1 with masses q and 1 − q",
                (q + (1 - q)) - (q - (1 - q)) ** 2,
                4 * q * (1 - q),
            ),
            RuleStep(
                "maximum",
                Rule.CONVEX_VERTEX,
                "V(x) <= θ(p), with equality at a vertex",
                lambda rng: _bounded_case(rng, variance, scale),
            ),
            Identity(
                "range [a, b]",
                moved_second - moved_mean**2,
                ((b - a) / 2) ** 2 * (second - s**2),
            ),
            RuleStep(
                "maximum over [a, b]",
                Rule.MONOTONICITY,
                "the variance is at most θ(p)(b − a)²/4, with equality at a vertex",
                other_range,
            ),
        ),
    )


@check(VARIANCE, kind=Kind.ENUMERATION, planted=Planted("θ is 1% smaller", factor="0.99"))
def every_small_row_and_grid(profile: Profile, *, factor: str = "1") -> Evidence:
    """The largest variance on a grid of the cube."""
    return judge(_grid_cases(profile, variance, Fraction(factor)), scope=GRID_SCOPE)


FLOAT_VARIANCE = Tolerance(
    value=1e-14,
    kind="absolute",
    reason="sums of at most 10 products below 1: some 40 roundings of 2⁻⁵³ each",
)


@check(VARIANCE, kind=Kind.FLOAT, planted=Planted("values reach 1.01", reach=1.01))
def public_theta(profile: Profile, *, reach: float = 1.0) -> Evidence:
    """`theory.theta.theta` against the largest float variance over all vertices."""
    rng = random.Random(31)

    def cases() -> Iterator[Case]:
        for row in exact.float_rows(rng, profile.pick(200, 2000), 10):
            p = np.array(row)
            signs = reach * np.array(list(exact.sign_vectors(len(row))), dtype=float)
            mean = signs @ p
            largest = float((((signs - mean[:, None]) ** 2) @ p).max())
            yield Case(theta(p, check_sum=False), "==", largest, {"row": row})

    return judge(
        cases(),
        scope="softmax rows from flat to one-hot with ties, zeros, subnormals; L <= 10",
        tolerance=FLOAT_VARIANCE,
    )


# --------------------------------------------------------------------------------- deviation


@check(DEVIATION, kind=Kind.DERIVATION, planted=Planted("θ is 1% smaller", factor="0.99"))
def derived_by_sign_class(profile: Profile, *, factor: str = "1") -> Derivation:
    """The summands are those of ‖(Diag p − ppᵀ)x‖₁, and two classes add up to 4q(1 − q)."""
    p, x, q, alpha = sympy.symbols("p x q alpha", real=True)
    others = sympy.Symbol("M1", real=True)
    scale = Fraction(factor)
    at_vertex = q * (1 - alpha) + (1 - q) * (alpha + 1)

    def convex(rng: random.Random) -> Case:
        row = exact.random_distribution(rng, rng.randint(1, 6))
        left, right = _random_values(rng, len(row)), _random_values(rng, len(row))
        middle = tuple((u + v) / 2 for u, v in zip(left, right, strict=True))
        chord = (deviation(row, left) + deviation(row, right)) / 2
        return Case(deviation(row, middle), "<=", chord, {"p": row, "x": left, "y": right})

    return Derivation(
        scope="all L, all p in the simplex, the whole cube",
        steps=(
            Identity(
                "p_i(x_i − α) is a row of (Diag p − ppᵀ)x",
                p * (x - (p * x + others)),
                (p - p**2) * x - p * others,
            ),
            RuleStep("convexity", Rule.TRIANGLE_INEQUALITY, "A is convex in x", convex),
            Identity(
                "two classes with α = 2q − 1",
                at_vertex.subs(alpha, 2 * q - 1),
                4 * q * (1 - q),
            ),
            RuleStep(
                "maximum",
                Rule.CONVEX_VERTEX,
                "A(x) <= θ(p), with equality at a vertex",
                lambda rng: _bounded_case(rng, deviation, scale),
            ),
        ),
    )


@check(DEVIATION, kind=Kind.ENUMERATION, planted=Planted("θ is 1% smaller", factor="0.99"))
def every_small_row_on_a_grid(profile: Profile, *, factor: str = "1") -> Evidence:
    """The largest mean absolute deviation on a grid of the cube."""
    return judge(_grid_cases(profile, deviation, Fraction(factor)), scope=GRID_SCOPE)
