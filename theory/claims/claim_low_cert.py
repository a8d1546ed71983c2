"""Section 5 and Appendix D.4 on what a low greedy certificate leaves open."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.claims import _partitions as bisect
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
    statement="At every level c in (0, 8/9), where the paper's low certificates of 0.26 to 0.58 "
    "lie, some row has greedy certificate c and θ > c: a low certificate alone does not bound θ "
    "from above.",
    uses=("beyond_greedy_theorem",),
    expected=Verdict.REFUTED,
    finding=Finding(
        kind=FindingKind.ERRATUM,
        text="A greedy certificate below 8/9 equals θ, so it bounds θ from above as well as from "
        "below; no further fact about the row is needed (beyond_greedy_theorem). The row "
        "(0.93, 0.07) has certificate 0.2604, and every row with that certificate has p_max = 0.93 "
        "and θ = 0.2604. The sentence is right for certificates in [8/9, 1) alone, such as 0.96 at "
        "(0.4, 0.3, 0.2, 0.1), where θ = 1; and the gap never exceeds 1/9.",
        quote="A low greedy certificate alone does not upper-bound the exact θ, but the "
        "dominant-atom formula does characterize the strongly concentrated rows directly.",
    ),
)


@check(
    LOW,
    kind=Kind.DERIVATION,
    planted=Planted("levels c = 1 − δ² in [8/9, 1), that is δ <= 1/3", least="0", most="1/3"),
)
def largest_theta_at_a_level(
    profile: Profile, *, least: str = "1/3", most: str = "1"
) -> Derivation:
    """At level 1 − δ²: the largest θ of all rows with this certificate.

    For δ <= 1/3 a row of four atoms has θ = 1. For δ > 1/3 the certificate is beyond what a row
    whose half takes two atoms or more can have, so 2 p_max − 1 = δ, and any such row tells θ.
    """
    delta, k = sympy.symbols("delta k", positive=True)

    def open_above(rng: random.Random) -> Case:
        low, high = Fraction(least), Fraction(most)
        level = low + (high - low) * Fraction(rng.randint(1, 19), 20)
        p: exact.Distribution
        if level <= Fraction(1, 3):
            p = ((1 - level) / 2, (1 - level) / 2, level / 2, level / 2)
        else:
            p = exact.dominant_row(rng, (1 + level) / 2)
        shown = {"certificate": 1 - level**2, "a row with the largest θ": p}
        return Case(exact.theta_by_definition(p), ">", 1 - level**2, shown)

    return Derivation(
        scope="all levels of the certificate in the stated range, all rows",
        steps=(
            Identity(
                "k >= 2 allows δ <= 1/(2k−1) <= 1/3 only",
                sympy.Rational(1, 3) - 1 / (2 * k - 1),
                2 * (k - 2) / (3 * (2 * k - 1)),
            ),
            Identity(
                "k = 1 with 2m − 1 = δ",
                (4 * delta * (1 - delta)).subs(delta, (1 + delta) / 2),
                1 - delta**2,
            ),
            RuleStep("open above", Rule.ATTAINMENT, "some θ exceeds the certificate", open_above),
        ),
    )


@check(
    LOW,
    kind=Kind.ENUMERATION,
    planted=Planted("low is read as [8/9, 1)", least="8/9", most="1"),
)
def every_level_of_every_small_row(
    profile: Profile, *, least: str = "0", most: str = "8/9"
) -> Evidence:
    """Whether each certificate that occurs with a denominator N leaves a larger θ possible."""
    largest = profile.pick(24, 40)
    low, high = Fraction(least), Fraction(most)

    def cases() -> Iterator[Case]:
        for total in range(2, largest + 1, 2):
            best: dict[int, tuple[int, tuple[int, ...]]] = {}
            for weights in bisect.partitions(total):
                found = bisect.greedy_imbalance(weights)
                best[found] = min(
                    (bisect.imbalance(weights), weights), best.get(found, (total, ()))
                )
            for found, (imbalance, weights) in sorted(best.items()):
                level = bisect.theta_of(found, total)
                if low <= level < high and level > 0:
                    shown = {"certificate": level, "a row with the largest θ": weights}
                    yield Case(bisect.theta_of(imbalance, total), ">", level, shown)

    return judge(cases(), scope=f"every row with an even common denominator up to {largest}")
