"""Remark B.2: the constant of same-norm bounds beside the exact cross-norm value θ(p)/τ."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.derivations import softmax as symbolic
from theory.derivations.balanced_mass import bisection
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import spectral_norm_at_most

NAIR = Claim(
    id="remark_b_2_nair",
    paper_ref="Remark B.2, first sentences",
    section="B",
    statement="For every L >= 1, u in R^L, τ > 0 and r in [1, ∞], the norm of J_τ(u) from ℓ_r to "
    "ℓ_r is at most 1/(2τ); at L = 2, u = 0 it equals 1/(2τ) for every r.",
    uses=("theorem_3_2_jacobian",),
)
UNORDERED = Claim(
    id="remark_b_2_unordered",
    paper_ref="Remark B.2, on the order of the two kinds of bound",
    section="B",
    statement="For every L >= 1, p in the simplex and τ > 0, the cross-norm value θ(p)/τ is above, "
    "equal to or below the constant 1/(2τ) of the same-norm bounds as p_max is below, equal to or "
    "above (2 + √2)/4 = 0.8535…; so neither bounds the other for all p.",
    uses=("corollary_3_4_part_3", "corollary_3_4_part_5"),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="The constant 1/(2τ) and θ(p)/τ are not ordered, as said. The norms themselves are at "
        "each p: ‖J‖_{r→r} <= θ(p)/(2τ) = ½‖J‖_{∞→1} for every r in [1, ∞], which refines 1/(2τ) "
        "row by row (beyond_norm_ordering).",
    ),
)

# Integer exponents r for which ℓ_r norms to the power r are rational.
EXPONENTS = (2, 3, 4, 7)


def power_sum(x: Sequence[Fraction | int], exponent: int) -> Fraction:
    """‖x‖_r^r for an integer r."""
    return sum((abs(Fraction(v)) ** exponent for v in x), Fraction(0))


def row_sum_norm(matrix: Sequence[Sequence[Fraction]]) -> Fraction:
    """‖M‖_{∞→∞}, the largest ℓ1 norm of a row."""
    return max(exact.one_norm(row) for row in matrix)


def column_sum_norm(matrix: Sequence[Sequence[Fraction]]) -> Fraction:
    """‖M‖_{1→1}, the largest ℓ1 norm of a column."""
    return row_sum_norm(tuple(zip(*matrix, strict=True)))


# ------------------------------------------------------------------------ the constant 1/(2τ)


@check(NAIR, kind=Kind.DERIVATION, planted=Planted("the constant is 1% smaller", constant="0.495"))
def derived_by_interpolation(profile: Profile, *, constant: str = "1/2") -> Derivation:
    """Row sums give r = ∞, symmetry r = 1, interpolation the rest; L = 2 attains all at once."""
    bound = Fraction(constant)
    p_i, rest = sympy.symbols("p_i R", nonnegative=True)
    tau = symbolic.tau
    u, p = symbolic.softmax_vector(2)
    at_zero = p.jacobian(u).subs(dict.fromkeys(u, 0))
    opposite = sympy.Matrix([1, -1])

    def draw(rng: random.Random) -> tuple[exact.Distribution, Fraction, exact.Matrix]:
        # Every fourth row or so is the equality case.
        length = rng.randint(1, 6)
        row = exact.random_distribution(rng, length)
        p = row if rng.random() < 0.75 else exact.normalised((1, 1))
        temperature = Fraction(rng.randint(1, 9), rng.randint(1, 9))
        return p, temperature, exact.jacobian(p, temperature)

    def rows(rng: random.Random) -> Case:
        p, temperature, matrix = draw(rng)
        largest = max(2 * a * (1 - a) for a in p) / temperature
        return Case(row_sum_norm(matrix), "==", largest, {"p": p, "τ": temperature})

    def infinity(rng: random.Random) -> Case:
        p, temperature, matrix = draw(rng)
        return Case(row_sum_norm(matrix), "<=", bound / temperature, {"p": p, "τ": temperature})

    def one(rng: random.Random) -> Case:
        p, temperature, matrix = draw(rng)
        return Case(column_sum_norm(matrix), "<=", bound / temperature, {"p": p, "τ": temperature})

    def between(rng: random.Random) -> Case:
        p, temperature, matrix = draw(rng)
        exponent = rng.choice(EXPONENTS)
        x = [Fraction((-1) ** k * rng.randint(1, 2)) for k in range(len(p))]
        image = power_sum(exact.times(matrix, x), exponent)
        allowed = (bound / temperature) ** exponent * power_sum(x, exponent)
        return Case(image, "<=", allowed, {"p": p, "τ": temperature, "x": x, "r": exponent})

    def attained(rng: random.Random) -> Case:
        temperature = Fraction(rng.randint(1, 9), rng.randint(1, 9))
        image = exact.times(exact.jacobian(exact.normalised((1, 1)), temperature), (1, -1))
        exponent = rng.choice(EXPONENTS)
        expected = (bound / temperature) ** exponent * 2
        return Case(power_sum(image, exponent), ">=", expected, {"τ": temperature, "r": exponent})

    return Derivation(
        scope="all L, all u, all τ > 0, all r in [1, ∞]",
        steps=(
            Identity(
                "absolute row sum with R the mass of the other entries",
                ((p_i - p_i**2) + p_i * rest).subs(rest, 1 - p_i) / tau,
                (sympy.Rational(1, 2) - (1 - 2 * p_i) ** 2 / 2) / tau,
            ),
            RuleStep("row sums", Rule.DUALITY, "‖J‖_{∞→∞} = max 2p_i(1 − p_i)/τ", rows),
            RuleStep("r = ∞", Rule.SUM_OF_SQUARES, "‖J‖_{∞→∞} <= 1/(2τ)", infinity),
            RuleStep("r = 1", Rule.DUALITY, "‖J‖_{1→1} = ‖Jᵀ‖_{∞→∞}, and J = Jᵀ", one),
            RuleStep("between", Rule.RIESZ_THORIN, "‖J‖_{r→r} <= 1/(2τ)", between),
            Identity("L = 2, u = 0", at_zero * opposite, opposite / (2 * tau)),
            RuleStep("equality", Rule.ATTAINMENT, "‖J(1, −1)‖_r >= ‖(1, −1)‖_r/(2τ)", attained),
        ),
    )


@check(NAIR, kind=Kind.ENUMERATION, planted=Planted("the constant is 1% smaller", constant="0.495"))
def every_small_integer_row(profile: Profile, *, constant: str = "1/2") -> Evidence:
    """r = 1, 2, ∞ exactly; for r = 3, 4, 7 every sign vector and every difference e_i − e_j."""
    bound = Fraction(constant)
    sizes = profile.pick(
        ((1, 6), (2, 12), (3, 6), (4, 4), (5, 2)), ((1, 30), (2, 30), (3, 14), (4, 8), (5, 5))
    )

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            probes = [*exact.sign_vectors(length), *_differences(length)]
            for weights in exact.sorted_weight_vectors(length, largest):
                matrix = exact.jacobian(exact.normalised(weights))
                instance = {"weights": weights}
                yield Case(row_sum_norm(matrix), "<=", bound, instance)
                yield Case(column_sum_norm(matrix), "<=", bound, instance)
                yield Case(int(spectral_norm_at_most(matrix, bound**2)), "==", 1, instance)
                for x in probes:
                    image = exact.times(matrix, x)
                    for r in (3, 4, 7):
                        allowed = bound**r * power_sum(x, r)
                        yield Case(power_sum(image, r), "<=", allowed, {**instance, "x": x, "r": r})

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(
        cases(),
        scope=f"every integer weight vector up to order, {shown}; τ = 1; r = 1, 2, ∞ for all x, "
        "r = 3, 4, 7 for sign vectors and differences of unit vectors",
    )


def _differences(length: int) -> Iterator[tuple[int, ...]]:
    for i in range(length):
        for j in range(i):
            yield tuple((k == i) - (k == j) for k in range(length))


# ---------------------------------------------------------------------------- neither dominates


def _sign(value: Fraction) -> int:
    return (value > 0) - (value < 0)


def _predicted_side(p: Sequence[Fraction], threshold: Fraction) -> int:
    """The sign of (2 + √2)/4 − p_max, without the root: threshold is (2·(2 + √2)/4 − 1)² = 1/2."""
    lean = 2 * max(p) - 1
    return 1 if lean <= 0 else _sign(threshold - lean**2)


@check(
    UNORDERED, kind=Kind.DERIVATION, planted=Planted("the threshold is 1% lower", threshold="0.495")
)
def derived_from_the_largest_entry(profile: Profile, *, threshold: str = "1/2") -> Derivation:
    """Above 1/2 the top entry alone decides θ; up to 1/2, θ >= 3/4."""
    m = sympy.Symbol("m", positive=True)
    half = Fraction(threshold)
    at = (1 + sympy.sqrt(sympy.Rational(threshold))) / 2

    def dominant(rng: random.Random) -> Case:
        top = Fraction(rng.randint(500, 1000), 1000) if rng.random() < 0.6 else Fraction(853, 1000)
        p = exact.dominant_row(rng, top)
        side = _sign(exact.theta_by_definition(p) - Fraction(1, 2))
        return Case(side, "==", _predicted_side(p, half), {"p": p})

    def no_dominant(rng: random.Random) -> Case:
        while True:
            p = exact.random_distribution(rng, rng.randint(2, 8))
            if 2 * max(p) <= 1:
                break
        return Case(exact.theta_by_definition(p), ">=", Fraction(3, 4), {"p": p})

    return Derivation(
        scope="all L, all p in the simplex, all τ > 0",
        steps=(
            Identity("top entry m", bisection(m, 1 - m), 1 - (2 * m - 1) ** 2),
            Identity("equality at the threshold", bisection(at, 1 - at), sympy.Rational(1, 2)),
            RuleStep(
                "m > 1/2", Rule.CASE_SPLIT, "θ − 1/2 has the sign of 1/2 − (2m − 1)²", dominant
            ),
            RuleStep("m <= 1/2", Rule.CASE_SPLIT, "θ >= 1 − m² >= 3/4 > 1/2", no_dominant),
        ),
    )


@check(
    UNORDERED,
    kind=Kind.ENUMERATION,
    planted=Planted("the threshold is 1% lower", threshold="0.495"),
)
def every_small_integer_row_on_its_side(profile: Profile, *, threshold: str = "1/2") -> Evidence:
    """Both sides occur, and p_max alone tells which."""
    sizes = profile.pick(
        ((1, 6), (2, 60), (3, 12), (4, 6), (5, 4)), ((1, 30), (2, 200), (3, 30), (4, 12), (5, 7))
    )

    def cases() -> Iterator[Case]:
        seen: set[int] = set()
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                side = _sign(exact.theta_by_definition(p) - Fraction(1, 2))
                seen.add(side)
                yield Case(
                    side, "==", _predicted_side(p, Fraction(threshold)), {"weights": weights}
                )
        yield Case(len(seen & {-1, 1}), "==", 2, "θ(p) above and below 1/2 both occur")

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight vector up to order, {shown}")
