"""Corollary 3.4: θ of uniform, one-hot, dominated and top-k rows, and the bound by p_max."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.derivations.balanced_mass import bisection
from theory.theta import solve_theta
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge

UNIFORM = Claim(
    id="corollary_3_4_part_1",
    paper_ref="Corollary 3.4(1)",
    section="3",
    statement="The uniform row of length L >= 1 has θ = 1 for even L and θ = 1 − 1/L² for odd L "
    "(0 at L = 1).",
    uses=("definition_3_1",),
)
ONE_HOT = Claim(
    id="corollary_3_4_part_2",
    paper_ref="Corollary 3.4(2)",
    section="3",
    statement="Every one-hot row, of any length, has θ = 0.",
    uses=("definition_3_1",),
)
DOMINANT = Claim(
    id="corollary_3_4_part_3",
    paper_ref="Corollary 3.4(3)",
    section="3",
    statement="If one weight is 1 − κ with 0 <= κ <= 1/2, then θ = 4κ(1 − κ), however the others "
    "share κ.",
    uses=("definition_3_1",),
)
TOP_K = Claim(
    id="corollary_3_4_part_4",
    paper_ref="Corollary 3.4(4)",
    section="3",
    statement="A row with k >= 1 weights 1/k and zeros otherwise has θ = 1 − (1 − 2⌊k/2⌋/k)².",
    uses=("definition_3_1",),
)
STEP_CROSSING = Claim(
    id="corollary_3_4_part_5_step_crossing",
    paper_ref="Appendix B, proof of Corollary 3.4, case 5",
    section="B",
    statement="In any order of the weights let p_k be the first whose prefix sum reaches 1/2, so "
    "that c < 1/2 <= c + p_k. One of the prefix sums q = c and q = c + p_k has |2q − 1| <= p_k.",
)
LARGEST = Claim(
    id="corollary_3_4_part_5",
    paper_ref="Corollary 3.4(5)",
    section="3",
    statement="Every p in the simplex has θ(p) >= 1 − p_max². Some prefix sum of the weights, in "
    "whatever order, already gives this much.",
    uses=("definition_3_1", "corollary_3_4_part_5_step_crossing"),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="The proof gives 1 − p_k² with p_k the weight at which the prefix sums cross 1/2, in "
        "any order. Equality θ = 1 − p_max² holds for uniform rows of odd length. From p_max = 1/3 "
        "on the largest weight alone does as well or better, "
        "4m(1 − m) − (1 − m²) = (3m − 1)(1 − m) >= 0.",
    ),
)


# --------------------------------------------------------------------- (1) uniform, (4) top-k


def _consecutive_product(rng: random.Random) -> Case:
    j = rng.randint(-20, 20)
    return Case(j * (j - 1), ">=", 0, {"j": j})


@check(UNIFORM, kind=Kind.DERIVATION, planted=Planted("odd L: 1 − 1.01/L²", odd="1.01"))
def derived_for_every_length_and_subset(profile: Profile, *, odd: str = "1") -> Derivation:
    """A subset of j atoms has mass j/L; its distance from the stated value is a product >= 0."""
    n = sympy.Symbol("n", integer=True, nonnegative=True)
    j = sympy.Symbol("j", integer=True, nonnegative=True)
    even_length, odd_length = 2 * n + 2, 2 * n + 1
    odd_value = 1 - sympy.Rational(odd) / odd_length**2

    def masses(rng: random.Random) -> Case:
        length = rng.randint(1, 8)
        found = exact.subset_masses(exact.normalised([1] * length))
        multiples = {Fraction(count, length) for count in range(length + 1)}
        return Case(len(found ^ multiples), "==", 0, {"L": length})

    def value(rng: random.Random) -> Case:
        length = rng.randint(1, 8)
        stated = Fraction(1) if length % 2 == 0 else 1 - Fraction(odd) / length**2
        return Case(
            exact.theta_by_definition(exact.normalised([1] * length)), "==", stated, {"L": length}
        )

    return Derivation(
        scope="all L",
        steps=(
            RuleStep("masses", Rule.COUNTING, "p(S) = j/L for |S| = j", masses),
            Identity(
                "even L = 2n + 2",
                1 - bisection(j, even_length - j),
                (2 * (j - n - 1) / even_length) ** 2,
            ),
            Identity(
                "odd L = 2n + 1",
                odd_value - bisection(j, odd_length - j),
                4 * (j - n) * (j - n - 1) / odd_length**2,
            ),
            RuleStep(
                "integers", Rule.CASE_SPLIT, "i(i − 1) >= 0 for integer i", _consecutive_product
            ),
            RuleStep("value", Rule.ATTAINMENT, "attained at j = ⌊L/2⌋", value),
        ),
    )


@check(UNIFORM, kind=Kind.CERTIFICATE, planted=Planted("odd L: 1 − 1.01/L²", odd="1.01"))
def solver_at_every_length(profile: Profile, *, odd: str = "1") -> Evidence:
    """Subset masses of uniform weights are counted; theory.theta gives the same, exactly."""

    def cases() -> Iterator[Case]:
        for length in range(1, profile.pick(300, 2000)):
            stated = Fraction(1) if length % 2 == 0 else 1 - Fraction(odd) / length**2
            best = max(Fraction(4 * j * (length - j), length**2) for j in range(length + 1))
            solution = solve_theta([1.0 / length] * length)
            for side in (best, solution.lower, solution.upper):
                yield Case(side, "==", stated, {"L": length})

    return judge(cases(), scope=f"uniform rows, L < {profile.pick(300, 2000)}")


@check(TOP_K, kind=Kind.DERIVATION, planted=Planted("⌊k/2⌋ + 1 atoms", shift=1))
def derived_for_every_k_and_subset(profile: Profile, *, shift: int = 0) -> Derivation:
    """For each parity the floor is evaluated, and every j is compared with j = ⌊k/2⌋."""
    n = sympy.Symbol("n", integer=True, nonnegative=True)
    j = sympy.Symbol("j", integer=True, nonnegative=True)

    def stated(k: sympy.Expr) -> sympy.Expr:
        return 1 - (1 - 2 * (sympy.floor(k / 2) + shift) / k) ** 2

    def value(rng: random.Random) -> Case:
        k, zeros = rng.randint(1, 7), rng.randint(0, 3)
        weights = [1] * k + [0] * zeros
        rng.shuffle(weights)
        p = exact.normalised(weights)
        share = Fraction(2 * (k // 2 + shift), k)
        return Case(exact.theta_by_definition(p), "==", 1 - (1 - share) ** 2, {"p": p})

    return Derivation(
        scope="all k >= 1, any number of zeros",
        steps=(
            Identity(
                "even k = 2n + 2",
                stated(2 * n + 2) - bisection(j, 2 * n + 2 - j),
                (j - n - 1) ** 2 / (n + 1) ** 2,
            ),
            Identity(
                "odd k = 2n + 1",
                stated(2 * n + 1) - bisection(j, 2 * n + 1 - j),
                4 * (j - n) * (j - n - 1) / (2 * n + 1) ** 2,
            ),
            RuleStep(
                "integers", Rule.CASE_SPLIT, "i(i − 1) >= 0 for integer i", _consecutive_product
            ),
            RuleStep("value", Rule.ATTAINMENT, "attained at j = ⌊k/2⌋", value),
        ),
    )


@check(TOP_K, kind=Kind.ENUMERATION, planted=Planted("⌊k/2⌋/k in place of 2⌊k/2⌋/k", halves=1))
def every_support_of_short_rows(profile: Profile, *, halves: int = 2) -> Evidence:
    """Every 0/1 vector, through all its subsets and through theory.theta."""
    longest = profile.pick(8, 12)

    def cases() -> Iterator[Case]:
        for length in range(1, longest + 1):
            for support in exact.weight_vectors(length, 1):
                k = sum(support)
                stated = 1 - (1 - Fraction(halves * (k // 2), k)) ** 2
                p = exact.normalised(support)
                yield Case(exact.theta_by_definition(p), "==", stated, {"p": p})
                yield Case(solve_theta(p).lower, "==", stated, {"p": p})

    return judge(cases(), scope=f"every 0/1 vector of length 1..{longest}")


# -------------------------------------------------------------------------------- (2) one-hot


@check(ONE_HOT, kind=Kind.DERIVATION, planted=Planted("1% lies elsewhere", leak="0.01"))
def derived_by_membership(profile: Profile, *, leak: str = "0") -> Derivation:
    """A subset holds all of the mass or none of it."""
    elsewhere = sympy.Rational(leak)

    def draw(rng: random.Random) -> list[Fraction]:
        p = [Fraction(0)] * rng.randint(1, 6)
        p[rng.randrange(len(p))] += 1 - Fraction(leak)
        p[rng.randrange(len(p))] += Fraction(leak)
        return p

    def masses(rng: random.Random) -> Case:
        p = draw(rng)
        chosen = rng.sample(range(len(p)), rng.randint(0, len(p)))
        holds_the_atom = p.index(max(p)) in chosen
        return Case(sum((p[i] for i in chosen), Fraction(0)), "==", int(holds_the_atom), {"p": p})

    def value(rng: random.Random) -> Case:
        p = draw(rng)
        return Case(exact.theta_by_definition(p), "==", 0, {"p": p})

    return Derivation(
        scope="all L, every one-hot row",
        steps=(
            RuleStep("masses", Rule.DEFINITION, "p(S) is 1 or 0, as S has the atom or not", masses),
            Identity("S contains the atom", bisection(1 - elsewhere, elsewhere), 0),
            Identity("S misses the atom", bisection(elsewhere, 1 - elsewhere), 0),
            RuleStep("θ", Rule.CASE_SPLIT, "θ = 0", value),
        ),
    )


@check(ONE_HOT, kind=Kind.ENUMERATION, planted=Planted("1% lies elsewhere", leak="0.01"))
def every_place(profile: Profile, *, leak: str = "0") -> Evidence:
    """Every place of the atom in short rows, by subsets and by theory.theta."""
    longest = profile.pick(8, 12)

    def cases() -> Iterator[Case]:
        for length in range(1, longest + 1):
            for place in range(length):
                p = [Fraction(0)] * length
                p[place] += 1 - Fraction(leak)
                p[place - 1] += Fraction(leak)
                yield Case(exact.theta_by_definition(p), "==", 0, {"p": p})
                yield Case(solve_theta(p).upper, "==", 0, {"p": p})

    return judge(cases(), scope=f"every one-hot row of length 1..{longest}")


# -------------------------------------------------------------------------- (3) dominant atom


@check(
    DOMINANT,
    kind=Kind.DERIVATION,
    planted=Planted("κ up to 3/4, the range of a uniform row of four", largest_kappa="3/4"),
)
def derived_for_every_subset(profile: Profile, *, largest_kappa: str = "1/2") -> Derivation:
    """The mass is 1 − κ + t with t in [0, κ] for a subset with the top atom, or its complement."""
    kappa, t = sympy.symbols("kappa t", nonnegative=True)
    limit = Fraction(largest_kappa)

    def draw(rng: random.Random) -> tuple[exact.Distribution, Fraction]:
        if rng.random() < 0.3:
            # The end of the range, the rest in equal parts.
            parts = rng.randint(1, 4)
            return (1 - limit, *[limit / parts] * parts), limit
        share = Fraction(rng.randint(0, 12), 12) * limit
        return exact.dominant_row(rng, 1 - share), share

    def any_subset(rng: random.Random) -> Case:
        p, share = draw(rng)
        chosen = sum((a for a in p if rng.random() < 0.5), Fraction(0))
        return Case(chosen * (1 - chosen), "<=", share * (1 - share), {"p": p, "q": chosen})

    def value(rng: random.Random) -> Case:
        p, share = draw(rng)
        return Case(exact.theta_by_definition(p), "==", 4 * share * (1 - share), {"p": p})

    return Derivation(
        scope="all L, all rows with a weight 1 − κ >= 1/2",
        steps=(
            Identity(
                "S contains the top atom",
                bisection(1 - kappa, kappa) - bisection(1 - kappa + t, kappa - t),
                4 * t * (1 - 2 * kappa + t),
            ),
            RuleStep("other subsets", Rule.CASE_SPLIT, "no subset does better", any_subset),
            RuleStep("value", Rule.ATTAINMENT, "t = 0 attains 4κ(1 − κ)", value),
        ),
    )


@check(
    DOMINANT,
    kind=Kind.ENUMERATION,
    planted=Planted("no range for κ, as in an earlier version of the paper", largest_kappa="1"),
)
def every_small_integer_row(profile: Profile, *, largest_kappa: str = "1/2") -> Evidence:
    """Every integer row whose largest weight is at least 1 − κ_max of the total.

    Without the range the uniform row of four refutes the formula: κ = 3/4 gives 3/4, and θ = 1.
    """
    sizes = profile.pick(
        ((1, 9), (2, 20), (3, 12), (4, 8), (5, 6)),
        ((1, 30), (2, 60), (3, 24), (4, 14), (5, 10), (6, 8)),
    )
    limit = Fraction(largest_kappa)

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                kappa = 1 - max(p)
                if kappa <= limit:
                    theta = exact.theta_by_definition(p)
                    yield Case(theta, "==", 4 * kappa * (1 - kappa), {"weights": weights})

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer row with p_max >= 1/2, up to order, {shown}")


@check(DOMINANT, kind=Kind.CERTIFICATE, planted=Planted("4 becomes 3.96", factor="3.96"))
def solver_on_long_dominated_rows(profile: Profile, *, factor: str = "4") -> Evidence:
    """theory.theta on float rows of length 1024, against the formula for their exact weights."""
    rng = random.Random(343)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(10, 100)):
            row = [rng.random() ** 3 for _ in range(1024)]
            row[rng.randrange(1024)] = sum(row) * rng.choice((1.0, 1.5, 10.0, 1e12))
            total = sum(map(Fraction, row))
            kappa = 1 - Fraction(max(row)) / total
            stated = Fraction(factor) * kappa * (1 - kappa)
            solution = solve_theta(row)
            for side in (solution.lower, solution.upper):
                yield Case(side, "==", stated, {"κ": kappa})

    return judge(cases(), scope="float weights, L = 1024, the largest at least half of the total")


# ------------------------------------------------------------------- (5) largest-weight bound


def _any_order(rng: random.Random) -> exact.Distribution:
    """A row in random order, often uniform of odd length, where part 5 is an equality."""
    if rng.random() < 0.3:
        return exact.normalised([1] * rng.choice((1, 3, 5, 7)))
    return exact.random_distribution(rng, rng.randint(1, 7))


@check(STEP_CROSSING, kind=Kind.DERIVATION, planted=Planted("0.99 p_k", factor="0.99"))
def mean_of_two_prefixes(profile: Profile, *, factor: str = "1") -> Derivation:
    """The distances of c and c + p_k from 1/2 add up to p_k, so the smaller is at most p_k/2.

    The second pair of steps reaches what this means for 4q(1 − q) by another average.
    """
    below = sympy.Symbol("a", positive=True)
    above = sympy.Symbol("b", nonnegative=True)
    half = sympy.Rational(1, 2)
    prefix = half - below
    atom = below + above

    def better(rng: random.Random) -> Case:
        p = _any_order(rng)
        _, mass, weight = exact.crossing(p)
        gap = min(abs(2 * mass - 1), abs(2 * (mass + weight) - 1))
        return Case(gap, "<=", Fraction(factor) * weight, {"p": p})

    def better_value(rng: random.Random) -> Case:
        p = _any_order(rng)
        _, mass, weight = exact.crossing(p)
        value = max(4 * q * (1 - q) for q in (mass, mass + weight))
        return Case(value, ">=", 1 - (Fraction(factor) * weight) ** 2, {"p": p})

    def value(q: sympy.Expr) -> sympy.Expr:
        return bisection(q, 1 - q)

    return Derivation(
        scope="all L, all p in the simplex, all orders",
        steps=(
            # c = 1/2 − a and c + p_k = 1/2 + b with a > 0 and b >= 0, so that p_k = a + b.
            Identity(
                "|2q − 1| of the two prefixes, averaged",
                ((1 - 2 * prefix) + (2 * (prefix + atom) - 1)) / 2,
                atom,
            ),
            RuleStep("smaller", Rule.CONVEX_COMBINATION, "min |2q − 1| <= p_k", better),
            Identity(
                "4q(1 − q) of the two prefixes, averaged with weights b and a",
                (above * value(prefix) + below * value(prefix + atom)) / atom,
                1 - atom**2 + (below - above) ** 2,
            ),
            RuleStep("larger", Rule.CONVEX_COMBINATION, "max 4q(1 − q) >= 1 − p_k²", better_value),
        ),
    )


@check(STEP_CROSSING, kind=Kind.ENUMERATION, planted=Planted("0.99 p_k", factor="0.99"))
def every_order_of_small_integer_rows(profile: Profile, *, factor: str = "1") -> Evidence:
    """Every integer vector, in every order (zeros and ties included)."""
    sizes = profile.pick(((1, 6), (2, 12), (3, 8), (4, 5)), ((1, 30), (2, 30), (3, 20), (4, 12)))
    scale = Fraction(factor)

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.weight_vectors(length, largest):
                _, mass, atom = exact.crossing(exact.normalised(weights))
                gap = min(abs(2 * mass - 1), abs(2 * (mass + atom) - 1))
                yield Case(gap, "<=", scale * atom, {"weights": weights})

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight vector in every order, {shown}")


@check(LARGEST, kind=Kind.DERIVATION, planted=Planted("1 − 0.99 p_max²", factor="0.99"))
def derived_from_the_crossing(profile: Profile, *, factor: str = "1") -> Derivation:
    """The crossing atom is at most p_max; and the largest weight alone, where it does better."""
    m = sympy.Symbol("m", positive=True)
    gap = sympy.Symbol("g", real=True)
    half = sympy.Rational(1, 2)

    def bound(rng: random.Random) -> Case:
        p = _any_order(rng)
        value = 1 - Fraction(factor) * max(p) ** 2
        return Case(exact.theta_by_definition(p), ">=", value, {"p": p})

    def prefix_bound(rng: random.Random) -> Case:
        p = _any_order(rng)
        _, mass, atom = exact.crossing(p)
        value = max(4 * q * (1 - q) for q in (mass, mass + atom))
        return Case(value, ">=", 1 - Fraction(factor) * max(p) ** 2, {"p": p})

    def single(rng: random.Random) -> Case:
        p = _any_order(rng)
        value = 4 * max(p) * (1 - max(p))
        return Case(exact.theta_by_definition(p), ">=", value, {"p": p})

    return Derivation(
        scope="all L, all p in the simplex, prefixes of all orders",
        steps=(
            Identity(
                "4q(1 − q) at distance g/2",
                bisection(half + gap / 2, half - gap / 2),
                1 - gap**2,
            ),
            RuleStep("prefix", Rule.MONOTONICITY, "|g| <= p_k <= p_max", prefix_bound),
            RuleStep("θ", Rule.ATTAINMENT, "θ >= 1 − p_max²", bound),
            RuleStep("one atom", Rule.ATTAINMENT, "θ >= 4m(1 − m) at m = p_max", single),
            Identity(
                "which of the two is larger",
                bisection(m, 1 - m) - (1 - m**2),
                (3 * m - 1) * (1 - m),
            ),
        ),
    )


@check(LARGEST, kind=Kind.ENUMERATION, planted=Planted("1 − 0.99 p_max²", factor="0.99"))
def every_small_integer_row_and_its_prefixes(profile: Profile, *, factor: str = "1") -> Evidence:
    """θ, and the best prefix of the descending and of the ascending order."""
    sizes = profile.pick(
        ((1, 9), (2, 12), (3, 9), (4, 6), (5, 4), (6, 3)),
        ((1, 30), (2, 30), (3, 20), (4, 14), (5, 9), (6, 6), (7, 5), (8, 3)),
    )

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                bound = 1 - Fraction(factor) * max(p) ** 2
                yield Case(exact.theta_by_definition(p), ">=", bound, {"weights": weights})
                for order in (p, p[::-1]):
                    prefixes = itertools.accumulate(order)
                    best = max(4 * q * (1 - q) for q in prefixes)
                    yield Case(best, ">=", bound, {"weights": weights, "order": order})

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight vector up to order, {shown}")
