"""Section 5: counts, ratios and what the reported figures say about one another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from theory.claims import _partitions as bisect
from theory.claims._figures import (
    binomial_tail,
    mean,
    median,
    printed,
    rounds_from,
    variance,
)
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Evidence, Kind, judge

SPIKES_PRE = Claim(
    id="spikes_pre",
    paper_ref="Section 5; Table 1",
    section="5",
    statement="The only three spike counts with mean 9.0 and sample standard deviation 1.0, as "
    "printed, are 8, 9 and 10.",
)
SPIKES_POST = Claim(
    id="spikes_post",
    paper_ref="Section 5; Table 1",
    section="5",
    statement="Spike counts with mean 35.3 and sample standard deviation 11.7, as printed, exist: "
    "they are {22, 40, 44} or {25, 33, 48}.",
)
SPIKES_RATIO = Claim(
    id="spikes_ratio",
    paper_ref="Appendix D.3",
    section="D",
    statement="The mean spike counts 35.3 and 9.0, as printed, are in a ratio of 3.9, which rounds "
    "to 4.",
)
GRADIENTS = Claim(
    id="grad_ratio",
    paper_ref="Section 5, layerwise gradient profiles",
    section="5",
    statement="0.04 is at least 5.7e3 times what is at most 7e-6. At 7e-6 the log₁₀ of the factor "
    "rounds to 4, the paper's four orders of magnitude.",
)
HALF = Claim(
    id="claim_half_rows",
    paper_ref="Section 5; abstract",
    section="5",
    statement="Among n sampled rows with certificates c_i <= θ_i, at least half have θ_i at least "
    "the median certificate (for even n the mean of the middle two). With 512 independent rows the "
    "share in the sampled population is above 46.2% with 95% confidence.",
)
POOLED = Claim(
    id="claim_pooled_max",
    paper_ref="Section 5, relation to Theorem 4.1",
    section="5",
    statement="With rows pooled over the sequences of a batch and over heads, the largest sampled "
    "certificate is at most the maximum over sequences b and heads h of θ̃_h(U_b).",
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The text says that the pooled maximum bounds max_h θ̃_h(U) from below, which is right "
        "for a batch of one sequence. Rows are pooled over the batch as well, so it bounds the "
        "maximum over sequences, and max_h θ̃_h(U) of a given U may lie below the pooled maximum.",
    ),
)
TAIL = Claim(
    id="tail_5pct",
    paper_ref="Section 5; Appendix D.4; Figure 4",
    section="5",
    statement="A row with greedy certificate c < 8/9 has p_max = (1 + √(1 − c))/2: 0.930 at 0.26, "
    "0.903 at 0.35 and 0.824 at 0.58.",
    uses=("beyond_greedy_theorem",),
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="“Maximum weights approaching 0.9” fits percentiles down to 0.36, where p_max = 0.9. "
        "The lowest, 0.26, belongs to a p_max between 0.928 and 0.932, past 0.9.",
    ),
)
MEDIAN = Claim(
    id="median_cert",
    paper_ref="Section 5; Appendix D.4",
    section="5",
    statement="In a pool of rows whose mean p_max is at most 1/3, as with the reported 0.174, "
    "fewer than half have a certificate below 8/9, so that the pooled median certificate and the "
    "median θ are at least 8/9; no larger bound follows from a mean of 0.174. The reported medians "
    "of at least 0.995 in each layer are not forced; they need the runs.",
    uses=("beyond_greedy_theorem", "beyond_theta_below_8_9"),
)


# ------------------------------------------------------------------------------------- spikes


def _triples(total: int) -> Iterator[tuple[int, int, int]]:
    """All multisets of three nonnegative integers with this sum."""
    for a in range(total // 3 + 1):
        for b in range(a, (total - a) // 2 + 1):
            yield a, b, total - a - b


def _spike_cases(
    average: str, deviation: str, expected: set[tuple[int, int, int]], lost: int
) -> Iterator[Case]:
    """Every triple whose mean prints as ``average``: does its deviation, exactly if expected?"""
    low, high = rounds_from(average)
    least, most = rounds_from(deviation)
    for total in range(math.ceil(3 * low), math.floor(3 * high) + 1):
        for triple in _triples(total):
            fits = least**2 <= variance(tuple(map(Fraction, triple)), lost) <= most**2
            yield Case(int(fits), "==", int(triple in expected), {"counts": triple})


@check(SPIKES_PRE, kind=Kind.ENUMERATION, planted=Planted("denominator n, not n − 1", lost=0))
def every_triple_pre(profile: Profile, *, lost: int = 1) -> Evidence:
    """Every triple of counts with a mean that prints as 9.0."""
    return judge(
        _spike_cases("9.0", "1.0", {(8, 9, 10)}, lost),
        scope="every triple of nonnegative integers whose mean prints as 9.0",
    )


@check(SPIKES_POST, kind=Kind.ENUMERATION, planted=Planted("denominator n, not n − 1", lost=0))
def every_triple_post(profile: Profile, *, lost: int = 1) -> Evidence:
    """Every triple of counts with a mean that prints as 35.3."""
    return judge(
        _spike_cases("35.3", "11.7", {(22, 40, 44), (25, 33, 48)}, lost),
        scope="every triple of nonnegative integers whose mean prints as 35.3",
    )


@check(SPIKES_RATIO, kind=Kind.CERTIFICATE, planted=Planted("36.3 against 9.0", post="36.3"))
def ratio_of_printed_means(profile: Profile, *, post: str = "35.3") -> Evidence:
    """Both ends of what the printed means allow."""

    def cases() -> Iterator[Case]:
        for above, below in zip(rounds_from(post), reversed(rounds_from("9.0")), strict=True):
            yield printed(above / below, "3.9", {"ratio": above / below})
            yield printed(above / below, "4", {"ratio": above / below})

    return judge(cases(), scope="all means that print as 35.3 and 9.0")


@check(GRADIENTS, kind=Kind.CERTIFICATE, planted=Planted("7e-5 instead of 7e-6", early="7e-5"))
def decades_between_blocks(profile: Profile, *, early: str = "7e-6") -> Evidence:
    """10^3.5 < ratio < 10^4.5, by squares, also at the ends of what 0.04 rounds from."""

    def cases() -> Iterator[Case]:
        for late in ("0.035", "0.04", "0.045"):
            ratio = Fraction(late) / Fraction(early)
            yield Case(ratio**2, ">", 10**7, {"late": late})
            yield Case(ratio**2, "<", 10**9, {"late": late})
        yield Case(Fraction("0.04") / Fraction(early), ">=", 5700, "factor")

    return judge(cases(), scope="0.04, with its rounding, against 7e-6")


# ------------------------------------------------------------------------------- sampled rows


@check(HALF, kind=Kind.ENUMERATION, planted=Planted("more than half of the rows", extra=1))
def every_small_sample(profile: Profile, *, extra: int = 0) -> Evidence:
    """All multisets of certificates on a grid, with θ equal to them (the least that it can be)."""
    levels = tuple(Fraction(step, 4) for step in range(5))
    longest = profile.pick(8, 14)

    def cases() -> Iterator[Case]:
        for n in range(1, longest + 1):
            for sample in itertools.combinations_with_replacement(levels, n):
                reaching = sum(value >= median(sample) for value in sample)
                yield Case(2 * reaching, ">=", n + extra, {"certificates": sample})

    return judge(cases(), scope=f"all samples of 1..{longest} certificates in {{0, 1/4, …, 1}}")


@check(HALF, kind=Kind.CERTIFICATE, planted=Planted("a share of 0.464", share="0.464"))
def population_share(profile: Profile, *, share: str = "0.462") -> Evidence:
    """If fewer than this share of rows were as large, 256 of 512 would be so in under 1 of 20.

    The 257th smallest of 512 independent rows is at least the median. A share π of the population
    reaches it; π is distributed like the 256th smallest of 512 uniform numbers (or larger, with
    ties), so P(π < s) <= P(Binomial(512, s) >= 256).
    """
    tail = binomial_tail(512, Fraction(share), 256)
    # Rounded up, so that the report shows seven digits and not a thousand.
    at_most = Fraction(math.ceil(tail * 10**7), 10**7)
    return judge([Case(at_most, "<=", Fraction(1, 20), {"share": share})], scope="512 rows")


@check(POOLED, kind=Kind.ENUMERATION, planted=Planted("for each sequence", pooled=False))
def every_small_batch(profile: Profile, *, pooled: bool = True) -> Evidence:
    """θ of two sequences, two heads and two positions; any nonempty sample, certificates = θ."""
    levels = (Fraction(0), Fraction(8, 9), Fraction(1))
    places = tuple(itertools.product(range(2), range(2), range(2)))  # sequence, head, position

    def cases() -> Iterator[Case]:
        for values in itertools.product(levels, repeat=len(places)):
            theta = dict(zip(places, values, strict=True))
            tilde = {
                (b, h): max(theta[b, h, i] for i in range(2)) for b in range(2) for h in range(2)
            }
            # The largest certificate of a sample is largest when everything is sampled.
            largest = max(theta.values())
            if pooled:
                yield Case(largest, "<=", max(tilde.values()), {"θ": values})
            else:
                for b in range(2):
                    over_heads = max(tilde[b, h] for h in range(2))
                    yield Case(largest, "<=", over_heads, {"θ": values, "sequence": b})

    return judge(cases(), scope="2 sequences × 2 heads × 2 rows with θ in {0, 8/9, 1}")


# ------------------------------------------------------------------------ tails and medians


@check(TAIL, kind=Kind.CERTIFICATE, planted=Planted("0.27 instead of 0.26", lowest="0.27"))
def weights_of_the_tail(profile: Profile, *, lowest: str = "0.26") -> Evidence:
    """4m(1 − m) falls on [1/2, 1], so values at the ends of a printed m enclose the certificate."""

    def cases() -> Iterator[Case]:
        for level, weight in ((lowest, "0.930"), ("0.35", "0.903"), ("0.58", "0.824")):
            low, high = rounds_from(weight)
            yield Case(4 * low * (1 - low), ">=", Fraction(level), {"p_max": weight})
            yield Case(4 * high * (1 - high), "<=", Fraction(level), {"p_max": weight})
        # Certificates that print as 0.26 belong to p_max between 0.928 and 0.932.
        least, most = rounds_from(lowest)
        inner, outer = Fraction("0.928"), Fraction("0.932")
        yield Case(4 * inner * (1 - inner), ">", most, {"p_max": inner})
        yield Case(4 * outer * (1 - outer), "<", least, {"p_max": outer})

    return judge(cases(), scope="the three printed percentiles")


@check(TAIL, kind=Kind.ENUMERATION, planted=Planted("the other root, (1 − √(1 − c))/2", root=-1))
def weight_from_certificate(profile: Profile, *, root: int = 1) -> Evidence:
    """(2 p_max − 1)² = 1 − c on every row with a small denominator and certificate c below 8/9."""
    largest = profile.pick(22, 40)

    def cases() -> Iterator[Case]:
        for total in range(1, largest + 1):
            for weights in bisect.partitions(total):
                level = bisect.certificate(weights)
                if level < Fraction(8, 9):
                    gap = root * Fraction(bisect.greedy_imbalance(weights), total)
                    top = Fraction(weights[0], total)
                    yield Case(top, "==", (1 + gap) / 2, {"weights": weights, "c": level})

    return judge(cases(), scope=f"every row with common denominator 1..{largest}")


@check(MEDIAN, kind=Kind.ENUMERATION, planted=Planted("a mean p_max up to 1/2", limit="1/2"))
def every_small_pool(profile: Profile, *, limit: str = "1/3") -> Evidence:
    """All pools of up to five rows with denominator 3 or 7 whose mean p_max is at most 1/3."""
    denominators = profile.pick((3, 7), (3, 7, 9))
    kinds = sorted(
        {
            (Fraction(weights[0], total), bisect.certificate(weights))
            for total in denominators
            for weights in bisect.partitions(total)
        }
    )

    def cases() -> Iterator[Case]:
        for n in range(1, 6):
            for pool in itertools.combinations_with_replacement(kinds, n):
                if mean(tuple(top for top, _ in pool)) <= Fraction(limit):
                    middle = median(tuple(level for _, level in pool))
                    yield Case(middle, ">=", Fraction(8, 9), {"(p_max, certificate)": pool})

    return judge(cases(), scope=f"pools of 1..5 rows with common denominators in {denominators}")


@check(MEDIAN, kind=Kind.CERTIFICATE, planted=Planted("a mean p_max of 0.34", average="0.34"))
def forced_by_the_mean(profile: Profile, *, average: str = "0.174") -> Evidence:
    """Markov's bound on the share of rows above 2/3, and a pool that shows it is best possible.

    A share s of rows above 2/3 makes the mean exceed 2s/3, so s < 1/2 for any mean up to 1/3.
    """
    above = rounds_from(average)[1] / Fraction(2, 3)
    # 51 rows of three equal atoms and 49 flat ones: mean p_max below 0.174, median 8/9.
    pool = [(1, 1, 1)] * 51 + [(1,) * 124] * 49
    tops = tuple(Fraction(max(weights), sum(weights)) for weights in pool)
    levels = tuple(bisect.certificate(weights) for weights in pool)
    return judge(
        (
            Case(above, "<", Fraction(1, 2), {"share of rows with p_max > 2/3": above}),
            Case(mean(tops), "<=", Fraction(average), "mean p_max of a pool with median 8/9"),
            Case(median(levels), "==", Fraction(8, 9), "its median"),
        ),
        scope="any pool of rows, over layers, heads, sequences and seeds",
    )
