"""Section 5 and Appendix D.3: the uniform-support baseline that plateaued attention is held to."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from theory.claims import _partitions as bisect
from theory.claims._figures import (
    binomial_tail,
    mean,
    median,
    printed,
    rounds_from,
    shortened,
    variance,
)
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Evidence, Kind, judge

BASELINE = Claim(
    id="uniform_median_mean",
    paper_ref="Section 5; Appendix D.3",
    section="5",
    statement="For uniform causal rows at positions t uniform on 16..1023 (support t + 1), p_max "
    "has median 0.0019 and mean 0.0041. The reported 0.0020 and 0.0041 are what 512 sampled rows "
    "may give: a median that large has probability above 1/4, and the mean is within one standard "
    "error.",
)
CERTIFICATES = Claim(
    id="uniform_theta",
    paper_ref="Section 5; Appendix D.3",
    section="5",
    statement="Over the same uniform rows the greedy certificate equals θ: 1 for even support, "
    "1 − 1/n² for odd support n. Its median is 1 − 1/(2·1023²) = 0.99999952, its mean 0.9999695.",
    uses=("corollary_3_4_part_1",),
)

SUPPORTS = range(17, 1025)
SAMPLED_ROWS = 512


@check(BASELINE, kind=Kind.CERTIFICATE, planted=Planted("positions from 0 on", first=1))
def exact_median_and_mean(profile: Profile, *, first: int = 17) -> Evidence:
    """The median is the mean of 1/520 and 1/521, the mean is (H_1024 − H_16)/1008."""
    weights = tuple(Fraction(1, n) for n in range(first, 1025))
    return judge(
        (
            printed(median(weights), "0.0019", "median"),
            printed(median(weights), "0.001921", "median"),
            printed(shortened(mean(weights)), "0.0041", "mean"),
            printed(shortened(mean(weights)), "0.004096", "mean"),
        ),
        scope="supports 17..1024, one each",
    )


@check(
    BASELINE,
    kind=Kind.CERTIFICATE,
    planted=Planted("a median of 0.0021 is reported", middle="0.0021"),
)
def sampling_of_512_rows(profile: Profile, *, middle: str = "0.0020") -> Evidence:
    """How likely a sample median that prints as reported is; the mean in standard errors."""
    weights = tuple(Fraction(1, n) for n in SUPPORTS)
    large = sum(weight >= rounds_from(middle)[0] for weight in weights)
    # Where 257 of 512 rows are that large, so are the middle two.
    likely = binomial_tail(SAMPLED_ROWS, Fraction(large, len(weights)), SAMPLED_ROWS // 2 + 1)
    error = shortened(variance(weights, 0) / SAMPLED_ROWS)
    miss = shortened((Fraction("0.0041") - mean(weights)) ** 2)
    return judge(
        (
            Case(
                shortened(likely), ">=", Fraction(1, 4), "probability of such a median or a larger"
            ),
            Case(miss, "<=", error, "squared miss of the mean against its squared standard error"),
        ),
        scope="512 independent rows, positions uniform on 16..1023",
    )


@check(CERTIFICATES, kind=Kind.ENUMERATION, planted=Planted("1 − 1/(n − 1)² for odd n", shift=1))
def every_support(profile: Profile, *, shift: int = 0) -> Evidence:
    """Certificate and θ of each uniform row, from the definitions; their median and mean."""

    def cases() -> Iterator[Case]:
        values = []
        for n in SUPPORTS:
            row = (1,) * n
            value = bisect.certificate(row)
            values.append(value)
            expected = 1 - (Fraction(1, (n - shift) ** 2) if n % 2 else 0)
            yield Case(value, "==", expected, {"support": n})
            yield Case(value, "==", bisect.theta(row), {"support": n})
        middle = median(tuple(values))
        yield Case(middle, "==", 1 - Fraction(1, 2 * 1023**2), "median")
        yield printed(middle, "0.99999952", "median")
        yield printed(shortened(mean(tuple(values))), "0.9999695", "mean")

    return judge(cases(), scope="every support 17..1024")
