"""Definition 3.1: the balanced-mass factor θ(p) and its two forms."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.derivations.balanced_mass import bisection
from theory.theta import solve_theta
from verify.certificates import theta_reference
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import as_fraction

DEFINITION = Claim(
    id="definition_3_1",
    paper_ref="Definition 3.1",
    section="3",
    statement="For every L >= 1 and p in the simplex, θ(p) = 4 max over subsets S of "
    "p(S)(1 − p(S)), the empty set allowed, lies in [0, 1] and equals "
    "1 − min over S of (2p(S) − 1)².",
)


@check(DEFINITION, kind=Kind.DERIVATION, planted=Planted("4 becomes 3.96", factor="3.96"))
def derived_for_every_length(profile: Profile, *, factor: str = "4") -> Derivation:
    """The two forms agree subset by subset; one symbol for each side covers every L."""
    inside, outside = sympy.symbols("A B", positive=True)
    scale = Fraction(factor)

    def theta(p: exact.Distribution) -> Fraction:
        return scale * max(q * (1 - q) for q in exact.subset_masses(p))

    def two_forms(rng: random.Random) -> Case:
        p = exact.random_distribution(rng, rng.randint(1, 7))
        gap = min(abs(2 * q - 1) for q in exact.subset_masses(p))
        return Case(theta(p), "==", 1 - gap**2, {"p": p})

    def at_most_one(rng: random.Random) -> Case:
        p = exact.random_distribution(rng, rng.randint(1, 7))
        return Case(theta(p), "<=", 1, {"p": p})

    def at_least_zero(rng: random.Random) -> Case:
        p = exact.random_distribution(rng, rng.randint(1, 3))
        return Case(theta(p), ">=", 0, {"p": p})

    return Derivation(
        scope="all L, all p in the simplex (and all nonnegative weights of positive total)",
        steps=(
            Identity(
                "one subset",
                sympy.Rational(factor) / 4 * bisection(inside, outside),
                1 - ((inside - outside) / (inside + outside)) ** 2,
            ),
            RuleStep("two forms", Rule.MONOTONICITY, "θ = 1 − min (2q − 1)²", two_forms),
            RuleStep("above", Rule.SUM_OF_SQUARES, "θ <= 1, as (2q − 1)² >= 0", at_most_one),
            RuleStep("below", Rule.ATTAINMENT, "θ >= 0, from the empty set", at_least_zero),
        ),
    )


@check(DEFINITION, kind=Kind.ENUMERATION, planted=Planted("θ stays below 0.99", ceiling="0.99"))
def every_small_integer_row(profile: Profile, *, ceiling: str = "1") -> Evidence:
    """Range and both forms, with every subset listed."""
    sizes = profile.pick(
        ((1, 9), (2, 12), (3, 9), (4, 6), (5, 4), (6, 3)),
        ((1, 30), (2, 30), (3, 16), (4, 10), (5, 7), (6, 5), (7, 4), (8, 3)),
    )
    largest_theta = Fraction(ceiling)

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                masses = exact.subset_masses(exact.normalised(weights))
                theta = 4 * max(q * (1 - q) for q in masses)
                instance = {"weights": weights}
                yield Case(theta, "==", 1 - min((2 * q - 1) ** 2 for q in masses), instance)
                yield Case(theta, ">=", 0, instance)
                yield Case(theta, "<=", largest_theta, instance)

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight vector up to order, {shown}")


@check(DEFINITION, kind=Kind.CERTIFICATE, planted=Planted("4 becomes 3.96", factor="3.96"))
def solver_on_float_rows(profile: Profile, *, factor: str = "4") -> Evidence:
    """theory.theta on floats read as dyadic rationals: true bounds, correctly rounded value."""
    rng = random.Random(31)
    scale = Fraction(factor) / 4

    def cases() -> Iterator[Case]:
        for row in exact.float_rows(rng, profile.pick(150, 2000), longest=12):
            solution = solve_theta(row)
            theta = scale * theta_reference(row)
            instance = {"p": row}
            yield Case(solution.lower, "<=", theta, instance)
            yield Case(solution.upper, ">=", theta, instance)
            # Python divides integers with correct rounding, so float(Fraction) is the nearest.
            yield Case(as_fraction(solution.theta), "==", Fraction(float(theta)), instance)

    return judge(cases(), scope="float rows, L <= 12, with ties, zeros and subnormal tails")
