"""Section 3: statements in the text around Definition 3.1 and Corollary 3.4."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.claims import _instances as exact
from theory.derivations.balanced_mass import bisection
from theory.theta import solve_theta, theta, theta_rows
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import as_fraction, ball, precision

ZERO = Claim(
    id="claim_theta_zero",
    paper_ref="Section 3, below Definition 3.1",
    section="3",
    statement="For p in the simplex, θ(p) = 0 if and only if p is one-hot. Softmax rows of two or "
    "more finite logits are never one-hot, so their θ is positive.",
    uses=("definition_3_1",),
)
EXAMPLE = Claim(
    id="example_0401",
    paper_ref="Section 3, below Definition 3.1",
    section="3",
    statement="p = (0.4, 0.1, 0.4, 0.1) has entropy 1.1935 nats, less than log 4 of the uniform "
    "row (0.8610 of it), and yet θ(p) = 1, through p({2, 3}) = 1/2.",
    uses=("definition_3_1",),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="θ differs from concentration measures, as the example shows, but only in [8/9, 1]: "
        "below 8/9 it is 4 p_max(1 − p_max), a decreasing function of the largest weight alone "
        "(claim_moderate, corollary_3_4_part_3).",
    ),
)
INITIAL = Claim(
    id="claim_init_rows",
    paper_ref="Section 3, implications for training",
    section="3",
    statement="On n visible keys whose logits differ by at most Δ, p_max <= r/n with r = exp(Δ/τ), "
    "and hence θ >= 1 − (r/n)², which tends to 1 as n grows; equal logits give 1 for even n and "
    "1 − 1/n² for odd n. Row 0 of a causal mask sees one key and has θ = 0.",
    uses=("corollary_3_4_part_1", "corollary_3_4_part_2", "corollary_3_4_part_5"),
)
MODERATE = Claim(
    id="claim_moderate",
    paper_ref="Section 3, implications for training",
    section="3",
    statement="Every row with p_max <= 1/2 has θ >= 8/9.",
    uses=("definition_3_1", "corollary_3_4_part_3"),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="The paper's bound 1 − p_max² gives 3/4 at p_max = 1/2. In fact θ >= 8/9 up to "
        "p_max = 2/3, and θ < 8/9 if and only if p_max > 2/3.",
    ),
)


# --------------------------------------------------------------------------------------- θ = 0


@check(ZERO, kind=Kind.DERIVATION, planted=Planted("4 p_i p_j becomes 4.04 p_i p_j", factor="4.04"))
def two_atoms_bound_it_away(profile: Profile, *, factor: str = "4") -> Derivation:
    """Two positive weights a and b give θ >= 4ab > 0; a one-hot row has only masses 0 and 1."""
    a, b = sympy.symbols("a b", positive=True)
    rest = sympy.Symbol("R", nonnegative=True)
    total = a + b + rest

    def pair_bound(rng: random.Random) -> Case:
        # Two atoms attain the bound.
        p = exact.random_distribution(rng, rng.randint(2, 5))
        i, j = rng.sample(range(len(p)), 2)
        product = Fraction(factor) * p[i] * p[j]
        return Case(exact.theta_by_definition(p), ">=", product, {"p": p, "i, j": (i, j)})

    def finite_logits(rng: random.Random) -> Case:
        p = exact.normalised([rng.randint(1, 30) for _ in range(rng.randint(2, 6))])
        return Case(exact.theta_by_definition(p), ">", 0, {"p": p})

    def one_hot(rng: random.Random) -> Case:
        length = rng.randint(1, 6)
        place = rng.randrange(length)
        p = exact.normalised([int(i == place) for i in range(length)])
        return Case(exact.theta_by_definition(p), "==", 0, {"p": p})

    return Derivation(
        scope="all L, all p in the simplex",
        steps=(
            Identity(
                "the singleton of a",
                bisection(a, b + rest),
                4 * a * b / total**2 + 4 * a * rest / total**2,
            ),
            RuleStep("not one-hot", Rule.ATTAINMENT, "θ >= 4 p_i p_j for i ≠ j", pair_bound),
            RuleStep(
                "finite logits",
                Rule.DEFINITION,
                "every softmax weight is e^{u_i/τ} > 0 over a sum, so that θ > 0 from L = 2 on",
                finite_logits,
            ),
            RuleStep("one-hot", Rule.CASE_SPLIT, "every mass is 0 or 1, so θ = 0", one_hot),
        ),
    )


@check(ZERO, kind=Kind.ENUMERATION, planted=Planted("two atoms give 0 as well", atoms=2))
def every_small_integer_support(profile: Profile, *, atoms: int = 1) -> Evidence:
    """Zero exactly on the rows with one positive weight, wherever it stands."""
    sizes = profile.pick(((1, 6), (2, 9), (3, 5), (4, 3)), ((1, 30), (2, 30), (3, 10), (4, 5)))

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.weight_vectors(length, largest):
                value = exact.theta_by_definition(exact.normalised(weights))
                is_zero = sum(map(bool, weights)) <= atoms
                yield Case(int(value == 0), "==", int(is_zero), {"weights": weights})

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight vector, {shown}")


@check(
    ZERO, kind=Kind.CERTIFICATE, planted=Planted("4 p_i p_j becomes 4.04 p_i p_j", factor="4.04")
)
def solver_near_one_hot(profile: Profile, *, factor: str = "4") -> Evidence:
    """theory.theta reports 0.0 on one-hot rows alone, down to the smallest subnormal tail."""

    def cases() -> Iterator[Case]:
        for length in range(1, profile.pick(6, 40)):
            for place in range(length):
                row = [float(i == place) for i in range(length)]
                yield Case(as_fraction(theta(row)), "==", 0, {"p": row})
        for exponent in range(1, 1075):
            tail = 2.0**-exponent
            solution = solve_theta([1.0, tail])
            head_share, tail_share = (as_fraction(w) / (1 + as_fraction(tail)) for w in (1.0, tail))
            bound = Fraction(factor) * head_share * tail_share
            yield Case(solution.lower, ">=", bound, {"weights": (1.0, tail)})
            yield Case(as_fraction(solution.theta), ">", 0, {"weights": (1.0, tail)})

    return judge(cases(), scope="one-hot rows, and weights (1, 2^−k) for every k = 1..1074")


# -------------------------------------------------------------------- the row (.4, .1, .4, .1)


@check(EXAMPLE, kind=Kind.CERTIFICATE, planted=Planted("the subset {1, 3}", subset=(1, 3)))
def bisected_by_two_and_three(profile: Profile, *, subset: tuple[int, ...] = (2, 3)) -> Evidence:
    """The subset's mass and θ, in rationals, and by the solver on the floats."""
    p = tuple(Fraction(w, 10) for w in (4, 1, 4, 1))
    mass = sum((p[i - 1] for i in subset), Fraction(0))
    row = {"p": p, "S": subset}
    return judge(
        (
            Case(mass, "==", Fraction(1, 2), row),
            Case(4 * mass * (1 - mass), "==", exact.theta_by_definition(p), row),
            Case(exact.theta_by_definition(p), "==", 1, row),
            # As floats too: the two sums of 0.4 and 0.1 are the same dyadic rational.
            Case(solve_theta([0.4, 0.1, 0.4, 0.1]).lower, "==", 1, row),
        ),
        scope="the row (0.4, 0.1, 0.4, 0.1), as rationals and as floats",
    )


@check(EXAMPLE, kind=Kind.CERTIFICATE, planted=Planted("entropy 1.1945", nats="1.1945"))
def less_entropy_than_uniform(profile: Profile, *, nats: str = "1.1935") -> Evidence:
    """The entropies, in balls."""
    half_a_digit = Fraction(1, 20000)
    with precision(128):
        p = [ball(Fraction(w, 10)) for w in (4, 1, 4, 1)]
        entropy = -sum((a * a.log() for a in p), start=ball(0))
        uniform = ball(4).log()
        cases = [
            Case(entropy, "<", uniform),
            Case(abs(entropy - ball(Fraction(nats))), "<=", half_a_digit, {"nats": nats}),
            Case(abs(entropy / uniform - ball(Fraction("0.8610"))), "<=", half_a_digit),
        ]
        return judge(cases, scope="the row (0.4, 0.1, 0.4, 0.1)")


# ----------------------------------------------------------------------------- initial rows


@check(INITIAL, kind=Kind.DERIVATION, planted=Planted("r/n becomes 0.99 r/n", factor="0.99"))
def bounded_by_the_spread(profile: Profile, *, factor: str = "1") -> Derivation:
    """p_max <= r/n from the definition of softmax, then part 5 of Corollary 3.4."""
    scale = Fraction(factor)
    n = sympy.Symbol("n", integer=True, positive=True)
    spread, excess = sympy.symbols("Delta E", nonnegative=True)
    tau = sympy.Symbol("tau", positive=True)
    # The n exponentials add up to n exp(−Δ/τ) + E when the largest logit is 0 and none is below −Δ.
    partition = n * sympy.exp(-spread / tau) + excess
    ratio = sympy.exp(spread / tau)

    def random_row(rng: random.Random) -> tuple[exact.Distribution, Fraction]:
        """A row and a bound r on the quotient of two weights; equal weights are common."""
        length = rng.choice((1, 2, 3, 5, 7))
        largest = rng.choice((1, 1, 2, 9))
        weights = [rng.randint(1, largest) for _ in range(length)]
        return exact.normalised(weights), Fraction(max(weights), min(weights))

    def largest_weight(rng: random.Random) -> Case:
        p, r = random_row(rng)
        return Case(max(p), "<=", scale * r / len(p), {"p": p})

    def theta_bound(rng: random.Random) -> Case:
        p, r = random_row(rng)
        bound = 1 - (scale * r / len(p)) ** 2
        return Case(exact.theta_by_definition(p), ">=", bound, {"p": p})

    return Derivation(
        scope="all numbers n of visible keys, all logits within Δ of each other, all τ > 0",
        steps=(
            Identity(
                "r/n less the largest weight",
                ratio / n - 1 / partition,
                ratio * excess / (n * partition),
            ),
            RuleStep("largest weight", Rule.TERMWISE, "p_max <= r/n, as E >= 0", largest_weight),
            RuleStep("θ", Rule.MONOTONICITY, "θ >= 1 − p_max² >= 1 − (r/n)²", theta_bound),
            Identity("large n", sympy.limit(1 - (ratio / n) ** 2, n, sympy.oo), 1),
        ),
    )


@check(INITIAL, kind=Kind.CERTIFICATE, planted=Planted("row 0 counts as uniform over two", first=2))
def solver_on_causal_uniform_rows(profile: Profile, *, first: int = 1) -> Evidence:
    """theta_rows on the uniform causal matrix: every row to the last bit."""
    size = profile.pick(257, 1025)
    visible = np.arange(1, size + 1)
    attention = np.tril(np.repeat(1.0 / visible[:, None], size, axis=1))
    values = theta_rows(attention, causal=True)

    def cases() -> Iterator[Case]:
        for row, value in enumerate(values):
            n = max(row + 1, first)
            right = Fraction(1) if n % 2 == 0 else 1 - Fraction(1, n * n)
            yield Case(as_fraction(float(value)), "==", Fraction(float(right)), {"row": row})

    return judge(cases(), scope=f"uniform causal attention, rows 0..{size - 1}")


# ------------------------------------------------------------------- moderate concentration


@check(MODERATE, kind=Kind.DERIVATION, planted=Planted("8/9 becomes 0.9", bound="9/10"))
def descending_prefix(profile: Profile, *, bound: str = "8/9") -> Derivation:
    """Sort descending; the k-th weight, which crosses 1/2, is at most c/(k − 1).

    Let c < 1/2 be the mass of the k − 1 >= 1 larger weights. The distances of c and of c + p_k from
    1/2 are at most 1/2 − c and ck/(k − 1) − 1/2. The mean of these two with weights k and k − 1
    does not depend on c, and their minimum is at most the mean.
    """
    k = sympy.Symbol("k", integer=True, positive=True)
    c = sympy.Symbol("c", positive=True)
    below, above = sympy.Rational(1, 2) - c, c * k / (k - 1) - sympy.Rational(1, 2)
    n = sympy.Symbol("n", integer=True, nonnegative=True)

    def crossing(p: exact.Distribution) -> tuple[int, Fraction, Fraction]:
        return exact.crossing(sorted(p, reverse=True))

    def draw(rng: random.Random) -> exact.Distribution:
        """A row with p_max < 1/2; three equal atoms attain 8/9."""
        while True:
            if rng.random() < 0.3:
                return exact.normalised([1] * rng.randint(3, 7))
            p = exact.random_distribution(rng, rng.randint(3, 7))
            if max(p) < Fraction(1, 2):
                return p

    def half(rng: random.Random) -> Case:
        p = exact.dominant_row(rng, Fraction(1, 2))
        return Case(exact.theta_by_definition(p), "==", 1, {"p": p})

    def late(rng: random.Random) -> Case:
        p = draw(rng)
        return Case(crossing(p)[0], ">=", 2, {"p": p})

    def crossing_weight(rng: random.Random) -> Case:
        p = draw(rng)
        place, before, atom = crossing(p)
        return Case(atom, "<=", before / (place - 1), {"p": p})

    def mean_bound(rng: random.Random) -> Case:
        p = draw(rng)
        place, before, atom = crossing(p)
        gap = min(Fraction(1, 2) - before, before + atom - Fraction(1, 2))
        return Case(2 * gap, "<=", Fraction(1, 2 * place - 1), {"p": p})

    def theta_bound(rng: random.Random) -> Case:
        p = draw(rng)
        return Case(exact.theta_by_definition(p), ">=", Fraction(bound), {"p": p})

    return Derivation(
        scope="all L, all p in the simplex with p_max <= 1/2",
        steps=(
            RuleStep("p_max = 1/2", Rule.ATTAINMENT, "the largest weight is half", half),
            RuleStep("p_max < 1/2", Rule.CASE_SPLIT, "the crossing has k >= 2", late),
            RuleStep("order", Rule.TERMWISE, "p_k <= c/(k − 1), a mean", crossing_weight),
            Identity(
                "the mean of the two distances",
                (k * below + (k - 1) * above) / (2 * k - 1),
                1 / (2 * (2 * k - 1)),
            ),
            RuleStep(
                "one of two prefixes",
                Rule.CONVEX_COMBINATION,
                "min |2c − 1| <= 1/(2k − 1)",
                mean_bound,
            ),
            Identity(
                "from k = 2 + n on",
                (1 - 1 / (2 * k - 1) ** 2).subs(k, n + 2) - sympy.Rational(8, 9),
                4 * n * (n + 3) / (9 * (2 * n + 3) ** 2),
            ),
            RuleStep("θ", Rule.TRANSITIVITY, "θ >= 1 − 1/(2k − 1)² >= 8/9", theta_bound),
        ),
    )


@check(MODERATE, kind=Kind.DERIVATION, planted=Planted("up to p_max = 0.7", largest="7/10"))
def sharp_threshold(profile: Profile, *, largest: str = "2/3") -> Derivation:
    """Above 1/2 the value is 4m(1 − m), which crosses 8/9 at m = 2/3."""
    m = sympy.Symbol("m", positive=True)
    limit = sympy.Rational(largest)

    def threshold(rng: random.Random) -> Case:
        top = Fraction(rng.randint(25, 49), 50)
        p = exact.dominant_row(rng, top)
        is_low = exact.theta_by_definition(p) < Fraction(8, 9)
        return Case(int(is_low), "==", int(top > Fraction(largest)), {"p": p})

    return Derivation(
        scope="all L, all p in the simplex with p_max >= 1/2",
        steps=(
            Identity(
                "distance from 8/9",
                bisection(m, 1 - m) - sympy.Rational(8, 9),
                4 * (m - sympy.Rational(1, 3)) * (limit - m),
            ),
            RuleStep(
                "sign", Rule.CASE_SPLIT, "for m >= 1/2: θ < 8/9 if and only if m > 2/3", threshold
            ),
        ),
    )


@check(MODERATE, kind=Kind.ENUMERATION, planted=Planted("p_max <= 0.7 is enough", largest="7/10"))
def every_small_integer_row(profile: Profile, *, largest: str = "2/3") -> Evidence:
    """The sharp threshold: θ < 8/9 exactly where p_max > 2/3."""
    sizes = profile.pick(
        ((1, 9), (2, 30), (3, 12), (4, 7), (5, 5), (6, 3)),
        ((1, 30), (2, 60), (3, 30), (4, 14), (5, 8), (6, 6), (7, 4)),
    )

    def cases() -> Iterator[Case]:
        for length, top in sizes:
            for weights in exact.sorted_weight_vectors(length, top):
                p = exact.normalised(weights)
                is_low = exact.theta_by_definition(p) < Fraction(8, 9)
                concentrated = max(p) > Fraction(largest)
                yield Case(int(is_low), "==", int(concentrated), {"weights": weights})

    shown = ", ".join(f"L = {length}: 0..{top}" for length, top in sizes)
    return judge(cases(), scope=f"every integer weight vector up to order, {shown}")
