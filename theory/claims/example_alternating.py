"""Section 4.3: the alternating scalar chain, whose identity term is cancelled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims._figures import printed, printed_root
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge

ALTERNATING = Claim(
    id="example_alternating",
    paper_ref="Section 4.3, below Theorem 4.5",
    section="4",
    statement="The scalar chain x_{k+1} = (1 + (−1)^k a) x_k has end-to-end derivative "
    "(1 − a²)^{(m−ℓ)/2} for even m − ℓ >= 0 and every start ℓ; it decays if and only if "
    "0 < |a| < √2. For odd m − ℓ it is (1 − a²)^{(m−ℓ−1)/2} (1 + (−1)^ℓ a).",
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The text gives (1 − a²)^{(m−ℓ)/2} for all lengths and does not bound a. It is exact "
        "for even m − ℓ alone: at m − ℓ = 5 and a = 0.3 the derivative is 1.0765 from an even "
        "start and 0.5797 from an odd one, against 0.7900. Read as a rate it is right for all "
        "lengths, up to the constant factor (1 ± a)/√(1 − a²), if 0 < |a| < 1. The derivative "
        "decays for 0 < |a| < √2, with alternating sign where |a| > 1.",
    ),
)


def derivative(a: Fraction, start: int, end: int) -> Fraction:
    """∂x_end/∂x_start, the product of the chain's factors."""
    product = Fraction(1)
    for k in range(start, end):
        product *= 1 + (-1) ** k * a
    return product


def _power(a: Fraction, length: int) -> Fraction:
    return (1 - a**2) ** (length // 2)


@check(
    ALTERNATING,
    kind=Kind.DERIVATION,
    planted=Planted("the formula is used for odd lengths too, rounded down", steps=(0, 1)),
)
def derived_by_pairs(profile: Profile, *, steps: tuple[int, ...] = (0,)) -> Derivation:
    """Two neighbouring factors make 1 − a², from an even and from an odd start."""
    a = sympy.Symbol("a", real=True)

    def even_length(rng: random.Random) -> Case:
        value = Fraction(rng.randint(-20, 20), 12)
        start, length = rng.randint(0, 9), 2 * rng.randint(0, 8) + rng.choice(steps)
        found = derivative(value, start, start + length)
        return Case(found, "==", _power(value, length), {"a": value, "ℓ": start, "m − ℓ": length})

    def odd_length(rng: random.Random) -> Case:
        value = Fraction(rng.randint(-20, 20), 12)
        start, length = rng.randint(0, 9), 2 * rng.randint(0, 8) + 1
        expected = _power(value, length) * (1 + (-1) ** start * value)
        return Case(derivative(value, start, start + length), "==", expected, {"a": value})

    def decay(rng: random.Random) -> Case:
        # Denominators 5 and 7 as well, so that a² comes close to 2: (7/5)² = 1.96.
        value = Fraction(rng.randint(-20, 20), rng.choice((5, 7, 12)))
        decays = int(abs(1 - value**2) < 1)
        return Case(decays, "==", int(0 < value**2 < 2), {"a": value})

    return Derivation(
        scope="all a, all starts, all lengths",
        steps=(
            Identity("a pair from an even start", (1 + a) * (1 - a), 1 - a**2),
            RuleStep("even lengths", Rule.INDUCTION, "(1 − a²)^{(m−ℓ)/2}", even_length),
            RuleStep("odd lengths", Rule.INDUCTION, "one factor is left over", odd_length),
            Identity("squared factor against 1", 1 - (1 - a**2) ** 2, a**2 * (2 - a**2)),
            RuleStep("decay", Rule.CASE_SPLIT, "|1 − a²| < 1 if and only if 0 < a² < 2", decay),
        ),
    )


@check(
    ALTERNATING, kind=Kind.ENUMERATION, planted=Planted("the decay reaches |a| = 1.5", limit="9/4")
)
def every_small_chain(profile: Profile, *, limit: str = "2") -> Evidence:
    """Value and decay for every a = i/12 up to 2, both parities of the start, even lengths."""
    longest = profile.pick(12, 40)

    def cases() -> Iterator[Case]:
        for i in range(-24, 25):
            a = Fraction(i, 12)
            for start in (0, 1):
                for length in range(0, longest + 1, 2):
                    shown = {"a": a, "ℓ": start, "m − ℓ": length}
                    found = derivative(a, start, start + length)
                    yield Case(found, "==", _power(a, length), shown)
                    if length:
                        decays = int(0 < a**2 < Fraction(limit))
                        yield Case(int(abs(found) < 1), "==", decays, shown)

    return judge(cases(), scope=f"a = −2, −23/12, …, 2; both starts; even lengths up to {longest}")


@check(ALTERNATING, kind=Kind.CERTIFICATE, planted=Planted("a length of 6", length=6))
def figures_at_an_odd_length(profile: Profile, *, length: int = 5) -> Evidence:
    """The caveat's figures: 1.0765 and 0.5797 at length 5, a = 0.3, against 0.91^{5/2} = 0.7900."""
    a = Fraction(3, 10)

    def cases() -> Iterator[Case]:
        for start, figure in ((0, "1.0765"), (1, "0.5797")):
            yield printed(derivative(a, start, start + length), figure, {"ℓ": start})
        yield from printed_root((1 - a**2) ** length, "0.7900", "0.91^{5/2}")

    return judge(cases(), scope="a = 0.3, length 5, both starts")
