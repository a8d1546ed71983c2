"""The greedy prefix certificate is never far off, and below 8/9 it is exact.

Let p be sorted in descending order, c_j its prefix sums, m = p_max, and k the first index with
c_k >= 1/2. Since c_j grows with j, the prefix nearest to 1/2 is c_{k−1} or c_k (c_0 = 0 is as far
from 1/2 as c_L = 1). Write cert = 1 − δ² with δ = min_j |2c_j − 1|.

*k = 1* (m >= 1/2). The largest atom lies in S or in its complement, so that one of the two masses
is at least m >= 1/2 and |2p(S) − 1| >= 2m − 1 for every S. Equality holds at the greedy prefix {1}:
cert = θ = 4m(1 − m).

*k >= 2*. Put c = c_{k−1} < 1/2. The k-th atom is at most the mean of the k − 1 atoms before it,
p_(k) <= c/(k−1), so c_k <= ck/(k−1). A minimum is at most every weighted mean, hence

    (2k−1)·min(1/2 − c, c_k − 1/2) <= k(1/2 − c) + (k−1)(ck/(k−1) − 1/2) = 1/2,

in which c cancels. So δ <= 1/(2k−1) and cert >= 1 − 1/(2k−1)² >= 8/9.

With at most three atoms each bisection has one atom on one side, and 1 − 2p_i is least for the
largest atom, which is a prefix: cert = θ, so that the worst gap needs four atoms.

*Consequences.* θ <= 1 gives θ − cert <= 1/9, and at (1/3, 1/3, 1/6, 1/6) the gap is 1/9. A
certificate below 8/9 forces k = 1 and therefore equals θ. If θ < 8/9, then cert <= θ < 8/9, so
k = 1 and 4m(1 − m) < 8/9 with m >= 1/2, which says m > 2/3; the converse is the case k = 1.
Finally c_k <= km gives k >= ⌈1/(2m)⌉ = r, so θ >= cert >= 1 − 1/(2r−1)² (for r = 1 the right
side is 0); 2r − 1 equal atoms attain it.

*Levels.* For a level 1 − δ² with 0 < δ <= 1/3 the row ((1−δ)/2, (1−δ)/2, δ/2, δ/2) has prefixes
(1−δ)/2, 1 − δ, 1 − δ/2, 1, whose distances from 1/2 are δ/2, 1/2 − δ >= δ/2 if δ <= 1/3, and larger
ones: its certificate is 1 − δ², and its first and third atoms make 1/2. So each certificate in
[8/9, 1) leaves θ open up to 1, and each one below 8/9 determines θ.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import sympy

from theory.claims import _instances as exact
from theory.claims import _partitions as bisect
from theory.theta import greedy_certificate
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
from verify.exact import as_fraction

THEOREM = Claim(
    id="beyond_greedy_theorem",
    paper_ref="beyond Appendix D.2",
    section="beyond",
    statement="For every p in the simplex, of any length, let k be the first descending prefix "
    "that holds at least 1/2. If k = 1, the greedy certificate equals θ(p) = 4 p_max(1 − p_max). "
    "If k >= 2, it is at least 1 − 1/(2k−1)² >= 8/9. Hence θ − cert <= 1/9 always (equality at "
    "(1/3, 1/3, 1/6, 1/6)), a certificate below 8/9 equals θ, and so does that of any row with at "
    "most three atoms.",
    uses=("definition_3_1", "corollary_3_4_part_3"),
)
LEVELS = Claim(
    id="beyond_greedy_levels",
    paper_ref="beyond Appendix D.2",
    section="beyond",
    statement="A value c of the greedy certificate determines θ if c < 8/9 (then θ = c), and for "
    "every c in [8/9, 1) some row has certificate c and θ = 1.",
    uses=("beyond_greedy_theorem",),
)
BELOW = Claim(
    id="beyond_theta_below_8_9",
    paper_ref="beyond Corollary 3.4",
    section="beyond",
    statement="For every p in the simplex, θ(p) < 8/9 if and only if p_max > 2/3; and "
    "θ(p) >= 1 − 1/(2r−1)² with r = ⌈1/(2 p_max)⌉, attained by 2r − 1 equal atoms for every r.",
    uses=("beyond_greedy_theorem", "corollary_3_4_part_1"),
)


def worst_row(k: int) -> tuple[int, ...]:
    """2k − 2 weights of 2, two of 1: prefixes miss one half by one unit, a weight of 1 hits it."""
    return (*([2] * (2 * k - 2)), 1, 1)


def _random_weights(rng: random.Random) -> tuple[int, ...]:
    """Descending integer weights: random ones, equal ones and the worst rows."""
    kind = rng.randrange(4)
    if kind == 0:
        return worst_row(rng.randint(2, 6))
    if kind == 1:
        return (1,) * rng.randint(1, 11)
    weights = [rng.choice((1, rng.randint(1, 30))) for _ in range(rng.randint(1, 9))]
    return tuple(sorted(weights, reverse=True))


def _low_weights(rng: random.Random) -> tuple[int, ...]:
    """A row whose certificate is below 8/9, whatever the reason."""
    while True:
        weights = _random_weights(rng)
        if rng.random() < 0.5:
            weights = (rng.randint(1, 3) * sum(weights) + rng.randint(0, 9), *weights)
        if bisect.certificate(weights) < Fraction(8, 9):
            return weights


def _low_is_exact(rng: random.Random) -> Case:
    weights = _low_weights(rng)
    return Case(bisect.theta(weights), "==", bisect.certificate(weights), {"weights": weights})


# ----------------------------------------------------------------------------------- theorem


@check(THEOREM, kind=Kind.DERIVATION, planted=Planted("δ <= 0.99/(2k−1)", factor="0.99"))
def derived_for_every_row(profile: Profile, *, factor: str = "1") -> Derivation:
    """The proof in the module's docstring, step by step, for a symbolic k and c."""
    k, c, m = sympy.symbols("k c m", positive=True)
    scale = Fraction(factor)
    half, eight_ninths = sympy.Rational(1, 2), sympy.Rational(8, 9)

    def mean_of_prefix(rng: random.Random) -> Case:
        weights = _random_weights(rng)
        j = rng.randint(0, len(weights) - 1)
        return Case(j * weights[j], "<=", sum(weights[:j]), {"weights": weights, "k": j + 1})

    def distance(rng: random.Random) -> Case:
        weights = _random_weights(rng)
        j, total = bisect.crossing(weights), sum(weights)
        if j == 1:
            weights, j, total = (1, 1, 1), 2, 3
        bound = scale * Fraction(total, 2 * j - 1)
        return Case(bisect.greedy_imbalance(weights), "<=", bound, {"weights": weights})

    def dominant(rng: random.Random) -> Case:
        tail = _random_weights(rng)
        weights = (sum(tail) + rng.randint(0, 9), *tail)
        value, theta = bisect.certificate(weights), bisect.theta(weights)
        return Case(value, "==", theta, {"weights": weights})

    def gap(rng: random.Random) -> Case:
        weights = _random_weights(rng)
        miss = bisect.theta(weights) - bisect.certificate(weights)
        return Case(miss, "<=", scale * Fraction(1, 9), {"weights": weights})

    def three_atoms(rng: random.Random) -> Case:
        weights = tuple(rng.randint(1, 9) for _ in range(rng.randint(1, 3)))
        value, theta = bisect.certificate(weights), bisect.theta(weights)
        return Case(value, "==", theta, {"weights": weights})

    return Derivation(
        scope="all L, all p in the simplex",
        steps=(
            RuleStep(
                "the k-th atom",
                Rule.CONVEX_COMBINATION,
                "(k−1) p_(k) <= c_{k−1}: the mean of the atoms before it is at least the k-th",
                mean_of_prefix,
            ),
            Identity("c_k = c + p_(k) <= c + c/(k−1)", c + c / (k - 1), c * k / (k - 1)),
            Identity(
                "c cancels",
                k * (half - c) + (k - 1) * (c * k / (k - 1) - half),
                half,
            ),
            RuleStep(
                "minimum and weighted mean",
                Rule.CONVEX_COMBINATION,
                "δ = 2 min(½ − c_{k−1}, c_k − ½) <= 1/(2k−1) for k >= 2",
                distance,
            ),
            RuleStep(
                "k = 1",
                Rule.CASE_SPLIT,
                "the largest atom lies in S or outside it, so cert = θ",
                dominant,
            ),
            Identity("value for k = 1", 1 - (2 * m - 1) ** 2, 4 * m * (1 - m)),
            Identity(
                "1 − 1/(2k−1)² >= 8/9 for k >= 2",
                1 - 1 / (2 * k - 1) ** 2 - eight_ninths,
                4 * (k - 2) * (k + 1) / (9 * (2 * k - 1) ** 2),
            ),
            RuleStep("gap", Rule.CASE_SPLIT, "0 for k = 1, else at most 1 − 8/9", gap),
            RuleStep(
                "low certificates",
                Rule.CASE_SPLIT,
                "cert < 8/9 excludes k >= 2, so cert = θ",
                _low_is_exact,
            ),
            RuleStep(
                "three atoms",
                Rule.CASE_SPLIT,
                "one side of each bisection has at most one atom, the first is best: cert = θ",
                three_atoms,
            ),
        ),
    )


@check(THEOREM, kind=Kind.ENUMERATION, planted=Planted("δ <= 0.99/(2k−1)", factor="0.99"))
def every_small_denominator(profile: Profile, *, factor: str = "1") -> Evidence:
    """Every row with a small common denominator, of every length."""
    scale = Fraction(factor)
    largest = profile.pick(26, 44)

    def cases() -> Iterator[Case]:
        for total in range(1, largest + 1):
            for weights in bisect.partitions(total):
                k = bisect.crossing(weights)
                best, found = bisect.imbalance(weights), bisect.greedy_imbalance(weights)
                if k == 1 or len(weights) <= 3:
                    yield Case(found, "==", best, {"weights": weights})
                if k > 1:
                    bound = scale * Fraction(total, 2 * k - 1)
                    yield Case(found, "<=", bound, {"weights": weights, "k": k})
                miss = bisect.theta_of(best, total) - bisect.theta_of(found, total)
                yield Case(miss, "<=", scale * Fraction(1, 9), {"weights": weights})

    return judge(cases(), scope=f"every row with common denominator 1..{largest}, of every length")


@check(
    THEOREM, kind=Kind.CERTIFICATE, planted=Planted("the gap reaches 0.99/(2k−1)²", factor="0.99")
)
def attained_for_every_crossing(profile: Profile, *, factor: str = "1") -> Evidence:
    """The rows (2, …, 2, 1, 1) attain the largest gap that k allows."""
    scale = Fraction(factor)

    def cases() -> Iterator[Case]:
        for k in range(2, profile.pick(60, 300)):
            weights = worst_row(k)
            miss = bisect.theta(weights) - bisect.certificate(weights)
            yield Case(miss, "==", scale * Fraction(1, (2 * k - 1) ** 2), {"k": k})

    return judge(cases(), scope="(2, …, 2, 1, 1) with 2k − 2 twos, k = 2, 3, …")


FLOAT_CERTIFICATE = Tolerance(
    value=2.0**-44,
    kind="absolute",
    reason="up to 200 atoms: both partial sums are exact to L·2⁻⁵³ relatively, and rounding may "
    "exchange prefixes whose exact distances from 1/2 differ by no more than that",
)


@check(THEOREM, kind=Kind.FLOAT, planted=Planted("the bound is raised to 0.9", bound="9/10"))
def public_function(profile: Profile, *, bound: str = "8/9") -> Evidence:
    """`theory.theta.greedy_certificate` on float rows: exact value, and 8/9 where m <= 1/2."""
    rng = random.Random(89)
    rows = [
        *exact.float_rows(rng, profile.pick(300, 3000), 60),
        *([1 / n] * n for n in range(1, 200)),
    ]

    def cases() -> Iterator[Case]:
        for row in rows:
            weights = bisect.float_weights(row)
            value = float(greedy_certificate(np.array(row), check_sum=False))
            yield Case(value, "==", float(bisect.certificate(weights)), {"row": row})
            if 2 * max(weights) <= sum(weights):
                yield Case(value, ">=", Fraction(bound), {"row": row})

    return judge(
        cases(),
        scope="softmax rows from flat to one-hot with ties, zeros, subnormals; uniform rows",
        tolerance=FLOAT_CERTIFICATE,
    )


# ------------------------------------------------------------------------------------ levels


@check(LEVELS, kind=Kind.DERIVATION, planted=Planted("the family is used up to δ = 0.4", top="2/5"))
def family_reaches_one(profile: Profile, *, top: str = "1/3") -> Derivation:
    """((1−δ)/2, (1−δ)/2, δ/2, δ/2) has certificate 1 − δ² and θ = 1; below 8/9 θ is the level."""
    delta, m = sympy.symbols("delta m", positive=True)
    a, b = (1 - delta) / 2, delta / 2

    def family(rng: random.Random) -> Case:
        limit = Fraction(top)
        level = limit * Fraction(rng.randint(1, 12), 12)
        value = _exact_certificate([(1 - level) / 2, (1 - level) / 2, level / 2, level / 2])
        return Case(value, "==", 1 - level**2, {"δ": level})

    def half(rng: random.Random) -> Case:
        level = Fraction(top) * Fraction(rng.randint(1, 12), 12)
        p = ((1 - level) / 2, (1 - level) / 2, level / 2, level / 2)
        return Case(exact.theta_by_definition(p), "==", 1, {"p": p})

    return Derivation(
        scope="all levels in (0, 1)",
        steps=(
            Identity("mass of the row", 2 * a + 2 * b, 1),
            Identity("first prefix", 1 - (2 * a - 1) ** 2, 1 - delta**2),
            Identity("first and third atom", a + b, sympy.Rational(1, 2)),
            RuleStep("one half", Rule.ATTAINMENT, "a mass of ½ gives θ = 1", half),
            Identity("second prefix is no nearer", (2 * (2 * a) - 1) - delta, 1 - 3 * delta),
            RuleStep("certificate", Rule.CASE_SPLIT, "cert = 1 − δ² for δ <= 1/3", family),
            Identity("level below 8/9", 1 - (2 * m - 1) ** 2, 4 * m * (1 - m)),
            RuleStep("determined", Rule.CASE_SPLIT, "cert < 8/9 gives θ = cert", _low_is_exact),
        ),
    )


def _exact_certificate(p: Sequence[Fraction]) -> Fraction:
    scale = math.lcm(*(atom.denominator for atom in p))
    return bisect.certificate([int(atom * scale) for atom in p])


@check(
    LEVELS,
    kind=Kind.ENUMERATION,
    planted=Planted("the threshold is 0.9", threshold="9/10"),
)
def every_level_of_a_denominator(profile: Profile, *, threshold: str = "8/9") -> Evidence:
    """For each level that occurs: the largest θ among all rows with that certificate."""
    largest = profile.pick(26, 40)

    def cases() -> Iterator[Case]:
        # N is even: with an odd N no subset has mass 1/2. Then the imbalance g of a prefix is even
        # too, so that the docstring's row at δ = g/N has integer weights.
        for total in range(2, largest + 1, 2):
            top: dict[int, int] = {}
            for weights in bisect.partitions(total):
                found = bisect.greedy_imbalance(weights)
                top[found] = min(bisect.imbalance(weights), top.get(found, total))
            for found, best in sorted(top.items()):
                level = bisect.theta_of(found, total)
                expected = level if level < Fraction(threshold) else Fraction(1)
                reached = bisect.theta_of(best, total)
                yield Case(reached, "==", expected, {"N": total, "certificate": level})

    return judge(cases(), scope=f"every row with an even common denominator up to {largest}")


# ----------------------------------------------------------------------------- θ below 8/9


@check(BELOW, kind=Kind.DERIVATION, planted=Planted("θ >= 1 − 0.99/(2r−1)²", factor="0.99"))
def derived_from_the_crossing(profile: Profile, *, factor: str = "1") -> Derivation:
    """k >= r = ⌈1/(2m)⌉ because c_k <= km, and 4m(1 − m) − 8/9 = −4(m − 1/3)(m − 2/3)."""
    m, r = sympy.symbols("m r", positive=True)
    scale = Fraction(factor)

    def crossing_is_late(rng: random.Random) -> Case:
        weights = _random_weights(rng)
        return Case(_least_crossing(weights), "<=", bisect.crossing(weights), {"weights": weights})

    def lower_bound(rng: random.Random) -> Case:
        weights = _random_weights(rng)
        bound = 1 - scale * Fraction(1, (2 * _least_crossing(weights) - 1) ** 2)
        return Case(bisect.theta(weights), ">=", bound, {"weights": weights})

    def threshold(rng: random.Random) -> Case:
        weights = _random_weights(rng)
        if rng.random() < 0.5:
            weights = (2 * sum(weights) + rng.randint(-1, 1), *weights)
        low = bisect.theta(weights) < Fraction(8, 9)
        return Case(int(low), "==", int(3 * max(weights) > 2 * sum(weights)), {"weights": weights})

    return Derivation(
        scope="all L, all p in the simplex",
        steps=(
            Identity(
                "roots of 4m(1 − m) = 8/9",
                4 * m * (1 - m) - sympy.Rational(8, 9),
                -4 * (m - sympy.Rational(1, 3)) * (m - sympy.Rational(2, 3)),
            ),
            RuleStep("threshold", Rule.CASE_SPLIT, "θ < 8/9 iff m > 2/3", threshold),
            RuleStep("crossing", Rule.TERMWISE, "1/2 <= c_k <= km gives k >= r", crossing_is_late),
            RuleStep(
                "bound",
                Rule.MONOTONICITY,
                "θ >= cert >= 1 − 1/(2k−1)² >= 1 − 1/(2r−1)²",
                lower_bound,
            ),
            Identity(
                "2r − 1 equal atoms attain it",
                1 - (2 * r / (2 * r - 1) - 1) ** 2,
                1 - 1 / (2 * r - 1) ** 2,
            ),
        ),
    )


def _least_crossing(weights: tuple[int, ...]) -> int:
    """r = ⌈W/(2 max)⌉."""
    return -(-sum(weights) // (2 * max(weights)))


@check(BELOW, kind=Kind.ENUMERATION, planted=Planted("the threshold is 0.66", threshold="33/50"))
def both_directions(profile: Profile, *, threshold: str = "2/3") -> Evidence:
    """The equivalence and the lower bound on every row with a small common denominator."""
    largest = profile.pick(26, 44)

    def cases() -> Iterator[Case]:
        for total in range(1, largest + 1):
            for weights in bisect.partitions(total):
                theta = bisect.theta(weights)
                above = Fraction(weights[0], total) > Fraction(threshold)
                yield Case(int(theta < Fraction(8, 9)), "==", int(above), {"weights": weights})
                bound = 1 - Fraction(1, (2 * _least_crossing(weights) - 1) ** 2)
                yield Case(theta, ">=", bound, {"weights": weights})
                if len(set(weights)) == 1 and len(weights) % 2:
                    yield Case(theta, "==", bound, {"weights": weights})

    return judge(cases(), scope=f"every row with common denominator 1..{largest}")


@check(BELOW, kind=Kind.FLOAT, planted=Planted("the threshold on p_max is 0.66", threshold="33/50"))
def public_theta(profile: Profile, *, threshold: str = "2/3") -> Evidence:
    """`theory.theta.theta`, which rounds correctly, on float rows on both sides of 2/3."""
    from theory.theta import theta

    rng = random.Random(23)
    rows = list(exact.float_rows(rng, profile.pick(300, 3000), 12))
    for step in range(1, 40):
        top = 2 / 3 + (step - 20) * 2.0**-9
        rows.append([top, (1 - top) / 2, (1 - top) / 2])

    def cases() -> Iterator[Case]:
        for row in rows:
            share = as_fraction(max(row)) / sum(map(as_fraction, row))
            value = theta(row, check_sum=False)
            if share > Fraction(threshold):
                yield Case(value, "<=", Fraction(8, 9), {"row": row})
            else:
                yield Case(value, ">=", Fraction(8, 9), {"row": row})

    return judge(
        cases(),
        scope="softmax rows and rows with p_max near 2/3",
        tolerance=Tolerance(
            value=2.0**-53, kind="absolute", reason="one rounding of θ to the nearest float64"
        ),
    )
