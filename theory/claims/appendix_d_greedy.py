"""Appendix D.2: the greedy certificate on its example, on random rows, and at large L."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from theory.claims import _partitions as bisect
from theory.claims._figures import half_unit, printed
from theory.theta import greedy_certificate, solve_theta, theta, theta_rows
from verify.certificates import least_discrepancy
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Evidence, Kind, Tolerance, judge
from verify.exact import as_fraction

EXAMPLE = Claim(
    id="greedy_example",
    paper_ref="Appendix D.2",
    section="D",
    statement="At p = (0.4, 0.3, 0.2, 0.1) the greedy prefix is {1} and certifies 0.96, while "
    "θ(p) = 1, attained exactly by {1, 4} and {2, 3}.",
    uses=("definition_3_1",),
)
_RATE_FINDING = (
    "“Matches the exact value” has no stated tolerance. Here a match is exact equality of "
    "certificate and θ for the float row; with a tolerance more rows would match."
)
MATCH_8 = Claim(
    id="greedy_match_8",
    paper_ref="Appendix D.2",
    section="D",
    statement="That the certificate equals θ on 17.8% (89) of 500 rows with N(0, I) logits at "
    "L = 8 is compatible with the rate among such rows, which is between 15% and 16.5%.",
    finding=Finding(kind=FindingKind.CAVEAT, text=_RATE_FINDING),
)
MATCH_16 = Claim(
    id="greedy_match_16",
    paper_ref="Appendix D.2",
    section="D",
    statement="That the certificate equals θ on 2.6% (13) of 500 rows with N(0, I) logits at "
    "L = 16 is compatible with the rate among such rows, which is between 1% and 3.5%.",
    finding=Finding(kind=FindingKind.CAVEAT, text=_RATE_FINDING),
)
GAP = Claim(
    id="greedy_gap",
    paper_ref="Appendix D.2",
    section="D",
    statement="The worst gap θ − cert of 500 rows with N(0, I) logits can print as 0.11 at L = 8; "
    "over all rows the largest gap is exactly 1/9 = 0.111….",
    uses=("beyond_greedy_theorem",),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="The gap is at most 1/9 for every row of every length, with equality at "
        "(1/3, 1/3, 1/6, 1/6). The worst of 500 random rows at L = 8 prints as 0.11 in at least 2% "
        "of batches, but not in most.",
    ),
)
LARGE = Claim(
    id="certificates_large_l",
    paper_ref="Appendix D.2; Figure 2",
    section="D",
    statement="For 500 rows with N(0, I) logits at each of L = 32, 64, 128, 256, 512, 1024, the "
    "greedy certificate lies between 1 − 1/(2k−1)² and θ(p) <= 1, with k the number of largest "
    "atoms that hold half of the mass.",
    uses=("definition_3_1", "beyond_greedy_theorem"),
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The text does not say which random distributions are meant at L >= 32; N(0, I) "
        "logits are taken here, as at L = 8 and 16. θ itself is computable at these lengths: it "
        "exceeds 1 − 10⁻⁸ in every row, and from L = 64 on it rounds to 1.",
    ),
)


# ------------------------------------------------------------------------------------ example


@check(EXAMPLE, kind=Kind.CERTIFICATE, planted=Planted("(0.4, 0.3, 0.19, 0.11)", last=11))
def prefix_and_optimal_subsets(profile: Profile, *, last: int = 10) -> Evidence:
    """Every subset of the example, in hundredths."""
    weights = (40, 30, 30 - last, last)
    halves = {
        subset
        for size in range(5)
        for subset in itertools.combinations((1, 2, 3, 4), size)
        if 2 * sum(weights[i - 1] for i in subset) == 100
    }

    def cases() -> Iterator[Case]:
        yield Case(bisect.certificate(weights), "==", Fraction("0.96"), "certificate")
        yield Case(abs(2 * 40 - 100), "==", bisect.greedy_imbalance(weights), "prefix {1}")
        yield Case(bisect.theta(weights), "==", 1, "θ")
        yield Case(int(halves == {(1, 4), (2, 3)}), "==", 1, {"halves": sorted(halves)})

    return judge(cases(), scope="all 16 subsets")


@check(EXAMPLE, kind=Kind.FLOAT, planted=Planted("(0.4, 0.3, 0.19, 0.11)", last=0.11))
def public_functions(profile: Profile, *, last: float = 0.1) -> Evidence:
    """`greedy_certificate` and `theta` on the example in float64."""
    row = np.array([0.4, 0.3, 0.3 - last, last])
    return judge(
        (
            Case(float(greedy_certificate(row)), "==", Fraction("0.96"), "certificate"),
            Case(theta(row), "==", 1, "θ"),
        ),
        scope="(0.4, 0.3, 0.2, 0.1) in float64",
        tolerance=Tolerance(
            value=1e-15, kind="absolute", reason="the four decimals are off by 1e-17 each as floats"
        ),
    )


# -------------------------------------------------------------------------------- match rates


def gaussian_rows(length: int, count: int, seed: int, spread: float = 1.0) -> NDArray[np.float64]:
    """(count, length) softmax rows of N(0, spread²I) logits, each row in descending order."""
    u = spread * np.random.default_rng(seed).standard_normal((count, length))
    weights = np.exp(u - u.max(axis=1, keepdims=True))
    return np.asarray(-np.sort(-weights / weights.sum(axis=1, keepdims=True), axis=1))


# Sums of at most 16 floats below 1 are off by less than 16·2⁻⁵³ < 2e-15; twice that, and doubled.
_SURE = 1e-14


def greedy_gaps(rows: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """(count,) whether the certificate equals θ exactly, and (count,) the gaps θ − cert in floats.

    Every subset that holds the largest atom is tried. Where float sums leave a doubt, the row is
    decided in integers.
    """
    count, length = rows.shape
    matches = np.zeros(count, dtype=np.bool_)
    gaps = np.empty(count)
    block = max(1, 2**20 // 2 ** (length - 1))
    for start in range(0, count, block):
        part = rows[start : start + block]
        masses = part[:, :1]
        for j in range(1, length):
            masses = np.hstack([masses, masses + part[:, j : j + 1]])
        distance = np.abs(2.0 * masses - 1.0)
        least = distance.min(axis=1)
        greedy = np.abs(2.0 * np.cumsum(part, axis=1) - 1.0).min(axis=1)
        gaps[start : start + block] = greedy**2 - least**2
        # Greedy is one of the subsets: nearest by a clear margin, it is the only nearest one.
        near = np.flatnonzero(greedy <= least + _SURE)
        rivals = (distance[near] <= least[near, None] + 3 * _SURE).sum(axis=1)
        for i, number in zip(near, rivals, strict=True):
            matches[start + i] = number == 1 or _match_exactly(part[i])
    return matches, gaps


def _match_exactly(row: NDArray[np.float64]) -> bool:
    weights = bisect.float_weights(row.tolist())
    return bisect.greedy_imbalance(weights) == least_discrepancy(weights)


def _rate_cases(
    matched: int, sampled: int, percent: str, lowest: str, highest: str
) -> Iterator[Case]:
    """The sampled rate and the reported share of 500, both at Clopper–Pearson's ends."""
    from scipy.stats import beta, binom

    reported = int(Fraction(percent) * 5)
    yield Case(Fraction(percent) * 5, "==", reported, "a whole number of 500 rows")
    error = 0.001
    low = float(beta.ppf(error / 2, matched, sampled - matched + 1))
    high = float(beta.ppf(1 - error / 2, matched + 1, sampled - matched))
    shown = {"matches": matched, "rows": sampled, "99.9% interval": (low, high)}
    yield Case(as_fraction(low), ">=", Fraction(lowest), shown)
    yield Case(as_fraction(high), "<=", Fraction(highest), shown)
    # The reported count is no surprise at some rate in the interval, from either side.
    yield Case(as_fraction(binom.sf(reported - 1, 500, high)), ">=", Fraction(1, 100), shown)
    yield Case(as_fraction(binom.cdf(reported, 500, low)), ">=", Fraction(1, 100), shown)


@check(MATCH_8, kind=Kind.SAMPLE, planted=Planted("20.6% are reported", percent="20.6"))
def rate_at_8(profile: Profile, *, percent: str = "17.8") -> Evidence:
    """Exact matches among many rows, and how likely the reported share is at their rate."""
    count = profile.pick(100_000, 400_000)
    matches, _ = greedy_gaps(gaussian_rows(8, count, seed=8))
    return judge(
        _rate_cases(int(matches.sum()), count, percent, "0.15", "0.165"),
        scope=f"{count} seeded rows, L = 8; the rate at 99.9% confidence",
        reason=f"{int(matches.sum())} of {count} rows match",
    )


@check(MATCH_16, kind=Kind.SAMPLE, planted=Planted("5.6% are reported", percent="5.6"))
def rate_at_16(profile: Profile, *, percent: str = "2.6") -> Evidence:
    """Exact matches among many rows, and how likely the reported share is at their rate."""
    count = profile.pick(4_000, 40_000)
    matches, _ = greedy_gaps(gaussian_rows(16, count, seed=16))
    return judge(
        _rate_cases(int(matches.sum()), count, percent, "0.01", "0.035"),
        scope=f"{count} seeded rows, L = 16; the rate at 99.9% confidence",
        reason=f"{int(matches.sum())} of {count} rows match",
    )


# ---------------------------------------------------------------------------------------- gap


@check(GAP, kind=Kind.ENUMERATION, planted=Planted("the largest gap is 0.11", largest="0.11"))
def every_small_row(profile: Profile, *, largest: str = "1/9") -> Evidence:
    """The largest gap of all rows with a small common denominator is 1/9, which prints as 0.11."""
    top = profile.pick(24, 40)

    def cases() -> Iterator[Case]:
        worst = Fraction(0)
        for total in range(1, top + 1):
            for weights in bisect.partitions(total):
                gap = bisect.theta(weights) - bisect.certificate(weights)
                worst = max(worst, gap)
                yield Case(gap, "<=", Fraction(largest), {"weights": weights})
        yield Case(worst, "==", Fraction(largest), "largest gap")
        yield printed(worst, "0.11", "largest gap")

    return judge(cases(), scope=f"every row with common denominator 1..{top}")


@check(GAP, kind=Kind.SAMPLE, planted=Planted("the worst gap prints as 0.12", figure="0.12"))
def worst_of_500(profile: Profile, *, figure: str = "0.11") -> Evidence:
    """The share of batches of 500 rows at L = 8 whose worst gap prints as 0.11."""
    from scipy.stats import beta

    batches = profile.pick(200, 1000)
    _, gaps = greedy_gaps(gaussian_rows(8, 500 * batches, seed=9))
    worst = gaps.reshape(batches, 500).max(axis=1)
    near = int((np.abs(worst - float(figure)) <= float(half_unit(figure))).sum())
    # One-sided Clopper–Pearson bound at 99.9%.
    least = as_fraction(beta.ppf(0.001, near, batches - near + 1)) if near else Fraction(0)
    return judge(
        (
            Case(least, ">=", Fraction(1, 50), "share of batches whose worst gap prints as 0.11"),
            Case(2 * near, "<", batches, "batches whose worst gap prints as 0.11"),
            Case(as_fraction(gaps.max()), "<=", Fraction(1, 9) + as_fraction(_SURE), "any gap"),
        ),
        scope=f"{batches} seeded batches of 500 rows, L = 8",
        reason=f"{near} of {batches} batches have a worst gap that prints as {figure}",
    )


# ------------------------------------------------------------------------------------ large L

LENGTHS = (32, 64, 128, 256, 512, 1024)
# θ comes back as the nearest float64, off by at most 2⁻⁵⁴; as much again is left for certificates,
# which are rounded upwards to multiples of 2⁻⁸⁰ lest a report show a thousand digits of each.
_ROUNDING = Fraction(1, 2**53)


def _rounded_up(value: Fraction) -> Fraction:
    return Fraction(math.ceil(value * 2**80), 2**80)


@functools.cache
def _attained(length: int, count: int, spread: float) -> tuple[Fraction, ...]:
    """For each row the value of the subset that the solver returns, added up again, as float64."""
    values = []
    for row in gaussian_rows(length, count, seed=length, spread=spread).tolist():
        weights = bisect.float_weights(row)
        total = sum(weights)
        chosen = sum(itertools.compress(weights, solve_theta(row).subset))
        values.append(Fraction(float(1 - Fraction(2 * chosen - total, total) ** 2)))
    return tuple(values)


def _large_cases(count: int, spread: float, scale: Fraction) -> Iterator[Case]:
    for length in LENGTHS:
        rows = gaussian_rows(length, count, seed=length, spread=spread)
        # Without a budget, so that the outcome does not depend on how busy the machine is.
        attained = _attained(length, count, spread)
        for i, (row, value) in enumerate(zip(rows, theta_rows(rows), strict=True)):
            shown = {"L": length, "row": i, "seed": length, "spread": spread}
            weights = bisect.float_weights(row.tolist())
            certified = _rounded_up(scale * bisect.certificate(weights))
            k = bisect.crossing(weights)
            lowest = 1 - Fraction(1, (2 * k - 1) ** 2)
            yield Case(certified - Fraction(1, 2**80), ">=", lowest, shown)
            yield Case(certified, "<=", as_fraction(value) + _ROUNDING, shown)
            yield Case(as_fraction(value), "==", attained[i], shown)


@check(LARGE, kind=Kind.CERTIFICATE, planted=Planted("certificates 3% larger", factor="1.03"))
def five_hundred_rows_each(profile: Profile, *, factor: str = "1") -> Evidence:
    """Exact certificates against `theory.theta.theta_rows`, whose values subsets attain."""
    return judge(
        _large_cases(500, 1.0, Fraction(factor)),
        scope="500 seeded rows of N(0, I) logits at each length",
    )


@check(LARGE, kind=Kind.CERTIFICATE, planted=Planted("certificates 3% larger", factor="1.03"))
def concentrated_rows(profile: Profile, *, factor: str = "1") -> Evidence:
    """The same with logits of standard deviation 6, where θ is often far below 1."""
    count = profile.pick(40, 500)
    return judge(
        _large_cases(count, 6.0, Fraction(factor)),
        scope=f"{count} seeded rows of N(0, 36 I) logits at each length",
    )


@check(LARGE, kind=Kind.CERTIFICATE, planted=Planted("θ rounds to 1 from L = 32 on", first=32))
def theta_is_all_but_one(profile: Profile, *, first: int = 64) -> Evidence:
    """The finding's figures: θ >= 1 − 10⁻⁸ at every length, and 1 in float64 from L = 64 on."""

    def cases() -> Iterator[Case]:
        for length in LENGTHS:
            least = min(_attained(length, 500, 1.0))
            floor = Fraction(1) if length >= first else 1 - Fraction(1, 10**8)
            yield Case(least, ">=", floor, {"L": length, "least θ": float(least)})

    return judge(cases(), scope="500 seeded rows of N(0, I) logits at each length")
