"""Appendix E, attention rows at initialisation and attention sinks: what can be checked of it.

The cited papers are not part of this project. Each claim is a statement that the paper's sentence
implies, proved here from the definitions; what it leaves unchecked is said in the claim.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.derivations.balanced_mass import bisection
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import (
    Case,
    Derivation,
    Evidence,
    Identity,
    Kind,
    Relation,
    Rule,
    RuleStep,
    judge,
)
from verify.exact import Ball, as_fraction, ball, precision

NOCI = Claim(
    id="noci_2022",
    paper_ref="Appendix E and Section 3, on Noci et al. (2022)",
    section="E",
    statement="If the logits of L >= 1 visible keys, over τ, lie in [−c, c], then p_max <= "
    "e^{2c}/(e^{2c} + L − 1), attained by one logit at c and the others at −c; the row is within "
    "tanh(c/2) of uniform in total variation; and θ(p) >= 1 − p_max². Not checked: that random "
    "initialisation makes the logits small, which is the cited paper's part.",
    uses=("beyond_finite_perturbation_supremum", "corollary_3_4_part_5"),
)
NAIT_SAADA = Claim(
    id="nait_saada_2025",
    paper_ref="Appendix E and Section 3, on Nait Saada et al. (2025)",
    section="E",
    statement="If the L logits of a row, over τ, are independent and N(0, s²), then for every η in "
    "(0, 1/2), with probability at least 1 − 2η, p_max <= exp(s·t + s·z/√L)/L with t = "
    "√(2 log(L/(2η))), z = √(2 log(1/(2η))); for fixed s and η this tends to 0 as L grows, so that "
    "θ >= 1 − p_max² tends to 1. Not checked: the logits of a real network, which are not "
    "independent, and the cited paper's spectral statements.",
    uses=("corollary_3_4_part_5",),
)
NAIT_SAADA_FIGURES = Claim(
    id="nait_saada_2025_figures",
    paper_ref="Appendix E and Section 3, on Nait Saada et al. (2025)",
    section="E",
    statement="A row of L = 1024 independent N(0, 0.512²) logits, over τ, has p_max < 0.028 and "
    "θ > 0.999 with probability at least 1 − 2·10⁻⁶.",
    uses=("nait_saada_2025",),
)
XIAO = Claim(
    id="xiao_2024",
    paper_ref="Appendix E, on Xiao et al. (2024)",
    section="E",
    statement="For every L >= 1: a row with a token of mass m has θ >= 4m(1 − m), with equality if "
    "m >= 1/2; and if the largest mass is at most 2/3, θ >= 8/9 whatever the other tokens are. Not "
    "checked: that trained models have sinks.",
    uses=("definition_3_1", "corollary_3_4_part_3"),
)
SINKS = Claim(
    id="claim_sinks",
    paper_ref="Appendix E, attention sinks",
    section="E",
    statement="θ becomes small only as the row approaches one-hot: for every L >= 1, p in the "
    "simplex and η in (0, 8/9], θ(p) < η if and only if p_max > (1 + √(1 − η))/2.",
    uses=("corollary_3_4_part_3", "xiao_2024"),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="The paper's two facts settle this for η <= 3/4. It holds up to η = 8/9, because "
        "p_max <= 1/2 gives θ >= 8/9 and not only 1 − p_max² >= 3/4. In numbers: θ < 8/9 exactly "
        "where p_max > 2/3, θ < 1/2 where p_max > 0.8535…, θ < 1/10 where p_max > 0.9743….",
    ),
)


# ------------------------------------------------------------------- Noci et al.: small logits


def _largest_share(root: Fraction, length: int) -> Fraction:
    """e^{2c}/(e^{2c} + L − 1) for root = e^c."""
    return root**2 / (root**2 + length - 1)


@check(NOCI, kind=Kind.DERIVATION, planted=Planted("the largest share is 1% less", factor="0.99"))
def derived_at_the_extreme_logits(profile: Profile, *, factor: str = "1") -> Derivation:
    """p_1 rises with u_1 and falls with the others; the rest is the finite-perturbation law."""
    own, others, root, length = sympy.symbols("w R s L", positive=True)
    share = own / (own + others)
    scale = Fraction(factor)

    def draw(rng: random.Random) -> tuple[exact.Distribution, Fraction]:
        # Weights e^{u_i/τ} in [1/s, s]: anywhere, or one at the top and the others at the bottom.
        count, top = rng.randint(1, 6), 1 + Fraction(rng.randint(0, 20), rng.choice((1, 10)))
        weights = [1 / top + (top - 1 / top) * Fraction(rng.randint(0, 6), 6) for _ in range(count)]
        if rng.random() < 0.4:
            weights = [top] + [1 / top] * (count - 1)
        return exact.normalised(weights), top

    def at_most(rng: random.Random) -> Case:
        p, top = draw(rng)
        bound = scale * _largest_share(top, len(p))
        return Case(max(p), "<=", bound, {"p": p, "e^c": top})

    def near_uniform(rng: random.Random) -> Case:
        p, top = draw(rng)
        uniform = exact.normalised([1] * len(p))
        bound = (top - 1) / (top + 1)
        return Case(exact.total_variation(p, uniform), "<=", bound, {"p": p, "e^c": top})

    def sensitive(rng: random.Random) -> Case:
        p, top = draw(rng)
        bound = 1 - _largest_share(top, len(p)) ** 2
        return Case(exact.theta_by_definition(p), ">=", bound, {"p": p, "e^c": top})

    return Derivation(
        scope="all L, all τ > 0, all logits in [−cτ, cτ]",
        steps=(
            Identity(
                "p_1 rises with its weight", sympy.diff(share, own), others / (own + others) ** 2
            ),
            Identity(
                "p_1 falls with the others", sympy.diff(share, others), -own / (own + others) ** 2
            ),
            Identity(
                "the extreme row",
                share.subs({own: root, others: (length - 1) / root}),
                root**2 / (root**2 + length - 1),
            ),
            RuleStep("p_max", Rule.MONOTONICITY, "p_max <= e^{2c}/(e^{2c} + L − 1)", at_most),
            RuleStep(
                "total variation",
                Rule.TRANSITIVITY,
                "TV <= tanh(c/2), by beyond_finite_perturbation_supremum from the logits 0",
                near_uniform,
            ),
            RuleStep("θ", Rule.MONOTONICITY, "θ >= 1 − p_max², by corollary_3_4_part_5", sensitive),
        ),
    )


@check(NOCI, kind=Kind.ENUMERATION, planted=Planted("the largest share is 1% less", factor="0.99"))
def every_pattern_of_three_logits(profile: Profile, *, factor: str = "1") -> Evidence:
    """Logits −c, 0 and c in every arrangement, with e^c rational."""
    longest = profile.pick(5, 8)
    roots = tuple(Fraction(n, d) for n, d in ((1, 1), (11, 10), (2, 1), (7, 1)))

    def cases() -> Iterator[Case]:
        for length in range(1, longest + 1):
            uniform = exact.normalised([1] * length)
            for root, levels in itertools.product(
                roots, itertools.combinations_with_replacement((1, 0, -1), length)
            ):
                p = exact.normalised([root**level for level in levels])
                instance = {"u/c": levels, "e^c": root}
                share = Fraction(factor) * _largest_share(root, length)
                is_extreme = levels[0] == 1 and set(levels[1:]) <= {-1}
                relation: Relation = "==" if is_extreme else "<="
                yield Case(max(p), relation, share, instance)
                spread = (root - 1) / (root + 1)
                yield Case(exact.total_variation(p, uniform), "<=", spread, instance)
                yield Case(exact.theta_by_definition(p), ">=", 1 - share**2, instance)

    return judge(cases(), scope=f"logits in {{−c, 0, c}}^L up to order, L <= {longest}, four c")


# ------------------------------------------------------------- Nait Saada et al.: Gaussian logits


def _normal_tail(t: Ball) -> Ball:
    """P(Z > t) for a standard normal Z."""
    return (t / ball(2).sqrt()).erfc() / 2


def _gaussian_bound(length: int, deviation: Fraction, eta: Fraction) -> Ball:
    """exp(s·t + s·z/√L)/L."""
    t = (2 * ball(length / (2 * eta)).log()).sqrt()
    z = (2 * ball(1 / (2 * eta)).log()).sqrt()
    return (ball(deviation) * (t + z / ball(length).sqrt())).exp() / length


@check(
    NAIT_SAADA, kind=Kind.DERIVATION, planted=Planted("the tail bound is 1% less", factor="0.99")
)
def derived_from_the_tail(profile: Profile, *, factor: str = "1") -> Derivation:
    """Above the mean logit by at most s·t + s·z/√L, and the mean bounds the partition function.

    *Proof.* By the inequality of the means Σe^{u_i} >= L e^ū, so p_max <= e^{max u − ū}/L (τ = 1).
    P(max u > s·t) <= L·P(Z > t) <= (L/2)e^{−t²/2} = η, and −ū is N(0, s²/L), so P(−ū > s·z/√L) <=
    e^{−z²/2}/2 = η. Outside both events the bound holds. As L = 2η e^{t²/2}, e^{s·t}/L =
    e^{s²/2} e^{−(t − s)²/2}/(2η), which tends to 0 as t grows. ∎
    """
    length, eta, s, t = sympy.symbols("L eta s t", positive=True)
    scale = ball(Fraction(factor))
    tail = sympy.exp(-(t**2) / 2) / 2
    at = sympy.sqrt(2 * sympy.log(length / (2 * eta)))
    in_terms_of_t = sympy.exp(s**2 / 2) * sympy.exp(-((t - s) ** 2) / 2) / (2 * eta)

    def means(rng: random.Random) -> Case:
        # (p_max L)^L · Πw <= (max w)^L is the inequality with every root removed; equality if flat.
        count = rng.randint(1, 5)
        flat = rng.random() < 0.3
        weights = [Fraction(1 if flat else rng.randint(1, 9)) for _ in range(count)]
        geometric = Fraction(1)
        for weight in weights:
            geometric *= weight
        share = max(weights) / sum(weights)
        return Case(
            (share * count) ** count * geometric, "<=", max(weights) ** count, {"weights": weights}
        )

    def one_tail(rng: random.Random) -> Case:
        with precision(100):
            at = Fraction(rng.choice((1, rng.randint(1, 4000))), 1000)
            return Case(
                _normal_tail(ball(at)), "<=", (-(ball(at) ** 2) / 2).exp() / 2 * scale, {"t": at}
            )

    def largest_of_many(rng: random.Random) -> Case:
        with precision(100):
            at, count = Fraction(rng.randint(1, 4000), 1000), rng.choice((1, 2, 10, 1000))
            exceeded = 1 - (1 - _normal_tail(ball(at))) ** count
            bound = count * (-(ball(at) ** 2) / 2).exp() / 2 * scale
            return Case(exceeded, "<=", bound, {"t": at, "L": count})

    return Derivation(
        scope="all L, all s > 0, all η in (0, 1/2)",
        steps=(
            RuleStep("partition function", Rule.AM_GM, "p_max <= e^{max u − ū}/L", means),
            RuleStep("one logit", Rule.GAUSSIAN_TAIL, "P(Z > t) <= e^{−t²/2}/2", one_tail),
            RuleStep("L logits", Rule.UNION_BOUND, "P(max > st) <= L e^{−t²/2}/2", largest_of_many),
            Identity(
                "the probability at t is η, for L logits; L = 1 gives z",
                length * tail.subs(t, at),
                eta,
            ),
            Identity(
                "e^{st}/L in terms of t, where L = 2η e^{t²/2}",
                sympy.exp(s * t) / (2 * eta * sympy.exp(t**2 / 2)),
                in_terms_of_t,
            ),
            Identity("its limit", sympy.limit(in_terms_of_t, t, sympy.oo), 0),
        ),
    )


@check(
    NAIT_SAADA_FIGURES,
    kind=Kind.CERTIFICATE,
    planted=Planted("the deviation is 2", deviation="2"),
)
def figures_at_a_thousand_keys(profile: Profile, *, deviation: str = "64/125") -> Evidence:
    """The bound of nait_saada_2025 at these figures, on balls.

    0.512 = 1280·0.02² is the deviation of q·k/√d_h for tokens with ‖x‖² = 1280 and independent
    weights of variance 0.02², as at the paper's initialisation.
    """
    s, eta, length = Fraction(deviation), Fraction(1, 10**6), 1024
    with precision(200):
        bound = _gaussian_bound(length, s, eta)
        t = (2 * ball(length / (2 * eta)).log()).sqrt()
        return judge(
            (
                Case(1280 * Fraction(1, 50) ** 2, "==", Fraction(512, 1000), "0.512"),
                Case(bound, "<", Fraction(28, 1000), {"s": s, "L": length, "η": eta}),
                Case(1 - bound**2, ">", Fraction(999, 1000), {"s": s, "L": length, "η": eta}),
                Case(1 - (1 - _normal_tail(t)) ** length, "<", eta, {"t": "√(2 log(L/2η))"}),
            ),
            scope="L = 1024, s = 0.512, η = 1e-6",
        )


@check(
    NAIT_SAADA,
    kind=Kind.SAMPLE,
    planted=Planted("the row is as flat as the uniform one", flatness="0"),
)
def gaussian_rows(profile: Profile, *, flatness: str = "1") -> Evidence:
    """Drawn rows through the public softmax; the bound fails for at most one in 500 000."""
    import numpy as np

    from theory.softmax import softmax

    generator = np.random.default_rng(27)
    eta = Fraction(1, 10**6)

    def cases() -> Iterator[Case]:
        for length, deviation in ((64, 0.3), (1024, 0.512), (1024, 1.5)):
            s = as_fraction(deviation) * Fraction(flatness)
            bound = _gaussian_bound(length, s, eta)
            logits = generator.normal(0.0, deviation, (profile.pick(100, 2000), length))
            for largest in softmax(logits).max(axis=-1):
                yield Case(as_fraction(largest), "<=", bound, {"L": length, "s": deviation})

    with precision(100):
        return judge(cases(), scope="independent normal logits, L = 64 and 1024, s = 0.3 to 1.5")


# ------------------------------------------------------------------------------------- sinks


def _balanced_mass(p: Sequence[Fraction]) -> Fraction | None:
    """A subset mass in [1/3, 2/3], by the proof of `largest_mass_at_most_two_thirds`."""
    if 3 * max(p) >= 1:
        return max(p) if 3 * max(p) <= 2 else None
    prefix = Fraction(0)
    for atom in p:
        prefix += atom
        if 3 * prefix >= 1:
            break
    return prefix


def _sink_row(rng: random.Random) -> exact.Distribution:
    """A row whose largest mass is, half the time, a multiple of 1/60 from 1/2 to 1."""
    if rng.random() < 0.5:
        return exact.dominant_row(rng, Fraction(rng.randint(30, 60), 60))
    return exact.random_distribution(rng, rng.randint(1, 8))


@check(XIAO, kind=Kind.DERIVATION, planted=Planted("8/9 up to mass 7/10", limit="7/10"))
def largest_mass_at_most_two_thirds(profile: Profile, *, limit: str = "2/3") -> Derivation:
    """Some subset has a mass in [1/3, 2/3].

    *Proof.* If 1/3 <= p_max <= 2/3, take that token alone. If p_max < 1/3, add tokens until the
    mass first reaches 1/3; before the last step it was below 1/3, so it is below 2/3. For q in
    [1/3, 2/3], 4q(1 − q) − 8/9 = 4(q − 1/3)(2/3 − q) >= 0. ∎
    """
    q = sympy.Symbol("q", nonnegative=True)
    third = sympy.Rational(1, 3)
    top = Fraction(limit)

    def alone(rng: random.Random) -> Case:
        p = _sink_row(rng)
        mass = rng.choice(p)
        return Case(exact.theta_by_definition(p), ">=", 4 * mass * (1 - mass), {"p": p, "m": mass})

    def dominant(rng: random.Random) -> Case:
        p = exact.dominant_row(rng, Fraction(rng.randint(30, 60), 60))
        mass = max(p)
        return Case(exact.theta_by_definition(p), "==", 4 * mass * (1 - mass), {"p": p})

    def balanced(rng: random.Random) -> Case:
        while True:
            p = _sink_row(rng)
            if max(p) <= top:
                break
        mass = _balanced_mass(p)
        return Case(int(mass is not None and 1 <= 3 * mass <= 2), "==", 1, {"p": p, "q": mass})

    def at_least(rng: random.Random) -> Case:
        while True:
            p = _sink_row(rng)
            if max(p) <= top:
                break
        return Case(exact.theta_by_definition(p), ">=", Fraction(8, 9), {"p": p})

    return Derivation(
        scope="all L, all p in the simplex",
        steps=(
            RuleStep("the sink alone", Rule.ATTAINMENT, "θ >= 4m(1 − m)", alone),
            RuleStep(
                "m >= 1/2", Rule.TRANSITIVITY, "θ = 4m(1 − m), corollary_3_4_part_3", dominant
            ),
            RuleStep("p_max <= 2/3", Rule.CASE_SPLIT, "a mass q in [1/3, 2/3]", balanced),
            Identity(
                "on [1/3, 2/3]",
                bisection(q, 1 - q) - sympy.Rational(8, 9),
                4 * (q - third) * (2 * third - q),
            ),
            RuleStep("together", Rule.TRANSITIVITY, "θ >= 8/9", at_least),
        ),
    )


@check(XIAO, kind=Kind.ENUMERATION, planted=Planted("8/9 up to mass 7/10", limit="7/10"))
def every_small_integer_row(profile: Profile, *, limit: str = "2/3") -> Evidence:
    """Every row and every token in the role of the sink."""
    sizes = profile.pick(
        ((1, 6), (2, 20), (3, 10), (4, 6), (5, 4)), ((1, 30), (2, 60), (3, 20), (4, 10), (5, 7))
    )

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                theta = exact.theta_by_definition(p)
                instance = {"weights": weights}
                for mass in p:
                    relation: Relation = "==" if 2 * mass >= 1 else ">="
                    yield Case(theta, relation, 4 * mass * (1 - mass), instance)
                if max(p) <= Fraction(limit):
                    yield Case(theta, ">=", Fraction(8, 9), instance)

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight vector up to order, {shown}")


def _is_small(p: Sequence[Fraction], width: Fraction, shift: Fraction) -> Case:
    """θ < η = 1 − w² against p_max > (1 + w)/2, both as 0 or 1."""
    small = exact.theta_by_definition(p) < 1 - width**2
    concentrated = max(p) > (1 + width) / 2 + shift
    return Case(int(small), "==", int(concentrated), {"p": p, "√(1 − η)": width})


@check(SINKS, kind=Kind.DERIVATION, planted=Planted("the threshold is 1% higher", shift="0.01"))
def derived_from_the_dominant_case(profile: Profile, *, shift: str = "0") -> Derivation:
    """Up to p_max = 2/3, θ >= 8/9; above, θ = 1 − (2p_max − 1)² decreases.

    *Proof.* θ < η <= 8/9 excludes p_max <= 2/3 (see xiao_2024). For p_max = m > 2/3, θ = 4m(1 − m)
    = 1 − (2m − 1)², so θ < η if and only if 2m − 1 > √(1 − η). Conversely p_max > (1 + √(1 − η))/2
    >= 2/3 since η <= 8/9. ∎
    """
    m, w = sympy.symbols("m w", positive=True)
    excess = Fraction(shift)

    def up_to_two_thirds(rng: random.Random) -> Case:
        while True:
            p = _sink_row(rng)
            if 3 * max(p) <= 2:
                return Case(exact.theta_by_definition(p), ">=", Fraction(8, 9), {"p": p})

    def both_ways(rng: random.Random) -> Case:
        width = Fraction(rng.randint(20, 59), 60)
        p = _sink_row(rng)
        if rng.random() < 0.6:
            edge = (1 + width) / 2
            p = exact.dominant_row(rng, min(edge + Fraction(rng.randint(-2, 4), 400), Fraction(1)))
        return _is_small(p, width, excess)

    return Derivation(
        scope="all L, all p in the simplex, all η in (0, 8/9]",
        steps=(
            Identity(
                "θ − η for a top mass m > 1/2, with η = 1 − w²",
                bisection(m, 1 - m) - (1 - w**2),
                4 * ((1 + w) / 2 - m) * (m - (1 - w) / 2),
            ),
            RuleStep(
                "p_max <= 2/3", Rule.TRANSITIVITY, "θ >= 8/9 >= η, by xiao_2024", up_to_two_thirds
            ),
            RuleStep("both ways", Rule.CASE_SPLIT, "θ < η iff p_max > (1 + w)/2", both_ways),
        ),
    )


@check(SINKS, kind=Kind.ENUMERATION, planted=Planted("the threshold is 1% higher", shift="0.01"))
def every_small_integer_row_and_threshold(profile: Profile, *, shift: str = "0") -> Evidence:
    """Thresholds at rational √(1 − η), each with rows exactly on it."""
    sizes = profile.pick(
        ((1, 6), (2, 40), (3, 9), (4, 5)), ((1, 30), (2, 120), (3, 20), (4, 9), (5, 6))
    )
    widths = tuple(Fraction(k, 12) for k in range(4, 12))

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                for width in widths:
                    yield _is_small(p, width, Fraction(shift))

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(
        cases(), scope=f"every integer weight vector up to order, {shown}; √(1 − η) = 4/12 … 11/12"
    )
