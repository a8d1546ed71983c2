"""Section 5 and Appendix D.4 on what a low greedy certificate leaves open."""

from __future__ import annotations

import random
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.claims import _partitions as bisect
from theory.claims.beyond_greedy import worst_row
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import (
    Case,
    Derivation,
    Evidence,
    Identity,
    Kind,
    Rule,
    RuleStep,
    Verdict,
    judge,
)

LOW = Claim(
    id="claim_low_cert",
    paper_ref="Section 5, lower tail; Appendix D.4",
    section="5",
    statement="Some row has a greedy certificate c < 8/9, where the paper's low certificates of "
    "0.26 to 0.58 lie, and θ > c: a low certificate alone does not bound θ from above.",
    uses=("beyond_greedy_theorem",),
    expected=Verdict.REFUTED,
    finding=Finding(
        kind=FindingKind.ERRATUM,
        text="Where low means below 8/9, as the text's figures are, it is the other way round. A "
        "greedy certificate below 8/9 equals θ, so it bounds θ from above as well as from "
        "below; no further fact about the row is needed (beyond_greedy_theorem). By hand at the "
        "certificate 0.2604 of (0.93, 0.07): in any row with this certificate some prefix has mass "
        "0.07 or 0.93 and none lies between. Atoms of at most 0.07 would not jump that gap, so the "
        "largest atom is a prefix of at least 0.93, hence exactly 0.93. A subset with it, or the "
        "complement of one without it, has at least that mass, so θ = 0.2604. The sentence is "
        "right for certificates in [8/9, 1) alone, such as 0.96 at (0.4, 0.3, 0.2, 0.1), where "
        "θ = 1; but the text speaks of 5th percentiles of 0.26 to 0.58, all below 8/9. And θ never "
        "exceeds a certificate by more than 1/9.",
        quote="A low greedy certificate alone does not upper-bound the exact θ, but the "
        "dominant-atom formula does characterize the strongly concentrated rows directly.",
    ),
)


@check(
    LOW,
    kind=Kind.DERIVATION,
    planted=Planted("certificates 1 − δ² in [8/9, 1), that is 0 < δ <= 1/3", least="0", most="1/3"),
)
def what_a_larger_theta_needs(
    profile: Profile, *, least: str = "1/3", most: str = "1"
) -> Derivation:
    """By contradiction: a row with certificate 1 − δ² and a larger θ has an atom that needs room.

    Its largest atom is below one half, since from there on certificate and θ agree. So the prefix
    masses, none of which lies between (1 − δ)/2 and (1 + δ)/2, start below this gap of width δ, and
    one atom takes them across: δ <= p_max <= (1 − δ)/2, which no δ above 1/3 satisfies.
    """
    delta = sympy.Symbol("delta", positive=True)

    def larger_theta(rng: random.Random) -> tuple[int, ...]:
        """A row whose θ exceeds its certificate."""
        while True:
            weights = tuple(rng.randint(1, 30) for _ in range(rng.randint(4, 9)))
            if rng.random() < 0.5:
                weights = worst_row(rng.randint(2, 9))
            if bisect.theta(weights) > bisect.certificate(weights):
                return weights

    def starts_low(rng: random.Random) -> Case:
        weights = larger_theta(rng)
        room = sum(weights) - bisect.greedy_imbalance(weights)
        return Case(2 * max(weights), "<=", room, {"weights": weights})

    def jumps(rng: random.Random) -> Case:
        weights = larger_theta(rng)
        gap = bisect.greedy_imbalance(weights)
        return Case(gap, "<=", max(weights), {"weights": weights})

    def drawn(rng: random.Random) -> Fraction:
        """A gap above `least` and up to `most`."""
        low, high = Fraction(least), Fraction(most)
        return low + (high - low) * Fraction(rng.randint(1, 20), 20)

    def room_for_the_atom(rng: random.Random) -> Case:
        gap = drawn(rng)
        shown = {"certificate": 1 - gap**2, "gap": gap, "room": (1 - gap) / 2}
        return Case(gap, "<=", (1 - gap) / 2, shown)

    def attained(rng: random.Random) -> Case:
        gap = drawn(rng)
        p = ((1 - gap) / 2, (1 - gap) / 2, gap / 2, gap / 2)
        return Case(exact.theta_by_definition(p), ">", 1 - gap**2, {"p": p})

    return Derivation(
        scope="all rows of any length with a certificate in the stated range",
        steps=(
            Identity(
                "certificate at the masses (1 ± δ)/2",
                4 * (1 - delta) / 2 * (1 + delta) / 2,
                1 - delta**2,
            ),
            RuleStep("start", Rule.CASE_SPLIT, "θ > cert gives p_max <= (1 − δ)/2", starts_low),
            RuleStep("jump", Rule.MONOTONICITY, "δ <= p_(k) <= p_max at the crossing k", jumps),
            Identity("room for the jump", (1 - delta) / 2 - delta, (1 - 3 * delta) / 2),
            RuleStep("room", Rule.TRANSITIVITY, "δ <= (1 − δ)/2", room_for_the_atom),
            RuleStep("open above", Rule.ATTAINMENT, "some θ exceeds the certificate", attained),
        ),
    )


@check(
    LOW,
    kind=Kind.ENUMERATION,
    planted=Planted("certificates in [8/9, 1)", least="8/9", most="1"),
)
def every_small_row(profile: Profile, *, least: str = "0", most: str = "8/9") -> Evidence:
    """The largest θ − certificate of all rows with a certificate in the stated range."""
    largest = profile.pick(24, 40)
    low, high = Fraction(least), Fraction(most)
    gaps = []
    for total in range(1, largest + 1):
        for weights in bisect.partitions(total):
            level = bisect.certificate(weights)
            if low <= level < high:
                gaps.append(bisect.theta(weights) - level)
    shown = {"rows with such a certificate": len(gaps), "largest θ − certificate": max(gaps)}
    return judge(
        [Case(max(gaps), ">", 0, shown)],
        scope=f"every row with common denominator 1..{largest}",
        reason=f"{len(gaps)} rows have such a certificate",
    )
