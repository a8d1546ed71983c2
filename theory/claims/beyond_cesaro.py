"""Beyond Section 2.1: uniform causal attention has spectral norm below 2 at every length.

The bound. Let m_n be the mean of a_1, …, a_n, so that a_n = n m_n − (n−1) m_{n−1}. Then

    m_n² − 2 m_n a_n = (n−1) m_{n−1}² − n m_n² − (n−1)(m_n − m_{n−1})².

Summed over n <= L the first two terms on the right telescope:

    Σ m_n² − 2 Σ m_n a_n = −L m_L² − Σ (n−1)(m_n − m_{n−1})² <= 0,

so Σ m_n² <= 2 Σ m_n a_n <= 2‖m‖‖a‖ and ‖C_L a‖ = ‖m‖ <= 2‖a‖. If the right side is 0, all m_n equal
m_L = 0 and a = 0; so the inequality is strict for a ≠ 0, and the unit sphere is compact.

2 is least. Take a_n = 1/√n. As 1/√k >= 2(√(k+1) − √k), m_n >= 2/√n − 2/n >= 0 and therefore
m_n² >= 4/n − 8/n^{3/2}. With Σ n^{-3/2} <= 3: ‖C_L a‖² >= 4H_L − 24, while ‖a‖² = H_L grows
without bound.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.claims import _matrices as m
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import Ball, ball, precision

CESARO = Claim(
    id="beyond_cesaro",
    paper_ref="sharpens the first display of Section 2.1 for uniform causal rows (Hardy)",
    section="beyond",
    statement="Let C_L be the L×L matrix whose row n is uniform over keys 1, …, n. Then "
    "‖C_L‖₂ < 2 for every L, and 2 is the least constant that serves every L.",
)
AT_1024 = Claim(
    id="beyond_cesaro_1024",
    paper_ref="sharpens the first display of Section 2.1 for uniform causal rows",
    section="beyond",
    statement="For uniform causal rows of length L = 1024, ‖C_L‖₂ lies between 1.7485 and 1.7495, "
    "while ‖C_L‖_F = √(1 + 1/2 + … + 1/L) lies between 2.7395 and 2.7405, and √L = 32.",
)


def _means(a: m.Vector) -> list[Fraction]:
    means, total = [], Fraction(0)
    for n, entry in enumerate(a, start=1):
        total += entry
        means.append(total / n)
    return means


def _sequence(rng: random.Random) -> list[Fraction]:
    """Not all zero; in some draws decreasing like 1/√n, where the bound is best."""
    length = rng.randint(1, 40)
    if rng.random() < 0.3:
        return [Fraction(round(1000 / n**0.5), 1000) for n in range(1, length + 1)]
    drawn = [exact.random_rational(rng, 5) for _ in range(length)]
    return drawn if any(drawn) else [Fraction(1)]


def _flat_means(rng: random.Random) -> list[Fraction]:
    """The means are 1 up to k and then fall to 0: ‖m‖²/⟨m, a⟩ comes close to 2 for large k."""
    k = rng.randint(115, 125)
    means = [Fraction(1)] * k + [Fraction(k - n, k) for n in range(1, k + 1)]
    before = [Fraction(0), *means[:-1]]
    return [n * b - (n - 1) * a for n, (a, b) in enumerate(zip(before, means, strict=True), 1)]


@check(
    CESARO,
    kind=Kind.DERIVATION,
    planted=Planted("1.98 in place of 2 in ‖m‖² <= 2⟨m, a⟩", constant="1.98"),
)
def hardy_inequality(profile: Profile, *, constant: str = "2") -> Derivation:
    """One identity for each n, a telescoping sum, and Cauchy–Schwarz."""
    n = sympy.Symbol("n", integer=True, positive=True)
    mean, before = sympy.symbols("m_n m_{n-1}", real=True)
    entry = n * mean - (n - 1) * before

    def remainder(means: list[Fraction]) -> Fraction:
        steps = zip(means[1:], means, strict=False)
        jumps = sum((n * (b - a) ** 2 for n, (b, a) in enumerate(steps, start=1)), Fraction(0))
        return len(means) * means[-1] ** 2 + jumps

    def telescoped(rng: random.Random) -> Case:
        a = _sequence(rng)
        means = _means(a)
        return Case(m.squared(means) - 2 * m.dot(means, a), "==", -remainder(means), {"a": a})

    def strict(rng: random.Random) -> Case:
        a = _sequence(rng)
        return Case(remainder(_means(a)), ">", 0, {"a": a})

    def by_the_pairing(rng: random.Random) -> Case:
        a = rng.choice((_sequence, _flat_means))(rng)
        means = _means(a)
        return Case(m.squared(means), "<", Fraction(constant) * m.dot(means, a), {"a": a})

    def bounded(rng: random.Random) -> Case:
        a = _sequence(rng)
        return Case(m.squared(_means(a)), "<", 4 * m.squared(a), {"a": a})

    return Derivation(
        scope="all L, all real sequences",
        steps=(
            Identity(
                "one n",
                mean**2 - 2 * mean * entry,
                (n - 1) * before**2 - n * mean**2 - (n - 1) * (mean - before) ** 2,
            ),
            RuleStep("sum over n", Rule.INDUCTION, "the first two terms telescope", telescoped),
            RuleStep("strictly", Rule.SUM_OF_SQUARES, "0 only for a = 0", strict),
            RuleStep("pairing", Rule.TRANSITIVITY, "‖m‖² < 2⟨m, a⟩ for a ≠ 0", by_the_pairing),
            RuleStep("norms", Rule.CAUCHY_SCHWARZ, "‖m‖² < 2‖m‖‖a‖, so ‖m‖ < 2‖a‖", bounded),
            RuleStep("supremum", Rule.EXTREME_VALUE, "the unit sphere of R^L is compact", bounded),
        ),
    )


@check(CESARO, kind=Kind.DERIVATION, planted=Planted("4.04 in place of 4 = 2²", lead="4.04"))
def two_is_the_least_constant(profile: Profile, *, lead: str = "4") -> Derivation:
    """a_n = 1/√n: ‖C_L a‖²/‖a‖² >= 4 − 24/H_L."""
    n, k = sympy.symbols("n k", positive=True)
    root, next_root = sympy.sqrt(k), sympy.sqrt(k + 1)
    exact_lead = sympy.Rational(lead)

    def partial_sums(rng: random.Random) -> Case:
        length = rng.randint(1, 60)
        with precision(100):
            total = sum((1 / ball(i).sqrt() for i in range(1, length + 1)), ball(0))
            return Case(total, ">=", 2 * ball(length + 1).sqrt() - 2, {"n": length})

    def shifted_powers(rng: random.Random) -> Case:
        length = rng.randint(1, 60)
        with precision(100):
            total = sum((ball(i).sqrt() / i**2 for i in range(1, length + 1)), ball(0))
            return Case(total, "<=", 3, {"L": length})

    def whole_norm(rng: random.Random) -> Case:
        length = rng.randint(1, 200)
        with precision(100):
            sums, squares, harmonic = ball(0), ball(0), ball(0)
            for i in range(1, length + 1):
                sums += 1 / ball(i).sqrt()
                squares += (sums / i) ** 2
                harmonic += ball(1) / i
            return Case(squares, ">=", 4 * harmonic - 24, {"L": length})

    def harmonic_grows(rng: random.Random) -> Case:
        doublings = rng.randint(1, 8)
        harmonic = sum((Fraction(1, i) for i in range(1, 2**doublings + 1)), Fraction(0))
        return Case(harmonic, ">=", 1 + Fraction(doublings, 2), {"L": 2**doublings})

    return Derivation(
        scope="all L",
        steps=(
            Identity("one term", 1 / root - 2 * (next_root - root), (next_root - root) ** 2 / root),
            RuleStep("m_n", Rule.SUM_OF_SQUARES, "Σ_{k<=n} 1/√k >= 2√(n+1) − 2", partial_sums),
            Identity(
                "square of 2/√n − 2/n",
                (2 / sympy.sqrt(n) - 2 / n) ** 2,
                exact_lead / n - 8 / n ** sympy.Rational(3, 2) + 4 / n**2,
            ),
            Identity(
                "2(1/√k − 1/√(k+1)) against (k+1)^{-3/2}",
                2 * (1 / root - 1 / next_root) - 1 / next_root**3,
                (next_root - root) ** 2 * (root + 2 * next_root) / (root * next_root**3),
            ),
            RuleStep("tail", Rule.TERMWISE, "Σ n^{-3/2} <= 1 + 2", shifted_powers),
            RuleStep("norm", Rule.TERMWISE, "‖C_L a‖² >= 4H_L − 24", whole_norm),
            RuleStep("growth", Rule.LIMIT, "H_L -> ∞, so the quotient -> 4", harmonic_grows),
        ),
    )


def _lengths_below(bound_squared: Fraction, longest: int) -> Iterator[tuple[int, bool]]:
    """(L, whether ‖C_L‖₂² < bound_squared) for L = 1, …, longest, decided in integers.

    B = C_L⁻¹ is bidiagonal (a_n = n m_n − (n−1) m_{n−1}), so that the condition says that the
    tridiagonal bound_squared·BᵀB − I is positive definite, that is, that its leading minors are
    positive. All diagonal entries but the last are the same for every L, so one recursion of
    integer minors serves all lengths.
    """
    p, q = bound_squared.numerator, bound_squared.denominator
    before, minor = 0, 1
    definite = True
    for n in range(1, longest + 1):
        link = (p * (n - 1) * n) ** 2 * before
        yield n, definite and (p * n * n - q) * minor > link
        before, minor = minor, (2 * p * n * n - q) * minor - link
        definite = definite and minor > 0


@check(CESARO, kind=Kind.CERTIFICATE, planted=Planted("1.7 in place of 2", constant="1.7"))
def below_two_at_every_length(profile: Profile, *, constant: str = "2") -> Evidence:
    """Integer minors of a tridiagonal matrix, all lengths in one recursion."""
    longest = profile.pick(1024, 4096)

    def cases() -> Iterator[Case]:
        for length, below in _lengths_below(Fraction(constant) ** 2, longest):
            yield Case(int(below), "==", 1, {"L": length})

    return judge(cases(), scope=f"every L <= {longest}")


@check(
    AT_1024,
    kind=Kind.CERTIFICATE,
    planted=Planted("the norm at L = 1024 is below 1.7485", upper="1.7485"),
)
def value_at_1024(profile: Profile, *, upper: str = "1.7495") -> Evidence:
    """Both ends of the stated interval, and ‖C_L‖_F² as a harmonic sum."""
    length = 1024

    def is_below(bound: str) -> int:
        *_, (_, below) = _lengths_below(Fraction(bound) ** 2, length)
        return int(below)

    def cases() -> Iterator[Case]:
        yield Case(is_below(upper), "==", 1, {"L": length, "below": upper})
        yield Case(is_below("1.7485"), "==", 0, {"L": length, "not below": "1.7485"})
        harmonic: Ball = sum((ball(1) / n for n in range(1, length + 1)), ball(0))
        yield Case(harmonic.sqrt(), ">", Fraction("2.7395"), {"L": length})
        yield Case(harmonic.sqrt(), "<", Fraction("2.7405"), {"L": length})

    return judge(cases(), scope="L = 1024")


@check(CESARO, kind=Kind.CERTIFICATE, planted=Planted("C_L is taken one row shorter", shorter=1))
def dense_factorisation(profile: Profile, *, shorter: int = 0) -> Evidence:
    """Exact LDLᵀ of the dense matrix agrees with the tridiagonal minors, and ‖C_L‖_F² = H_L."""
    longest = profile.pick(12, 24)
    bounds = [Fraction(k, 10) for k in range(10, 21)]

    def cases() -> Iterator[Case]:
        below = {bound: dict(_lengths_below(bound**2, longest)) for bound in bounds}
        for length in range(2, longest + 1):
            matrix = m.uniform_causal(length - shorter)
            for bound in bounds:
                instance = {"L": length, "bound": bound}
                if below[bound][length]:
                    yield m.spectral_at_most(matrix, bound**2, instance)
                else:
                    yield m.spectral_at_least(matrix, bound**2, instance)
            harmonic = sum((Fraction(1, n) for n in range(1, length + 1)), Fraction(0))
            yield Case(m.frobenius_squared(matrix), "==", harmonic, {"L": length})

    return judge(cases(), scope=f"2 <= L <= {longest}, bounds 1, 1.1, …, 2")
