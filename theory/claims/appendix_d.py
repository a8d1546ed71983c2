"""Appendix D.1 and D.3: the counts and the arithmetic of Table 1, which need no training."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from theory.claims._figures import mean, printed, printed_root, rounds_from, variance
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Evidence, Kind, judge

PARAMETERS = Claim(
    id="n_params",
    paper_ref="Section 5; Appendix D.1",
    section="D",
    statement="With width 1280, 36 layers, FFN width 5120, vocabulary 50257 tied to the head, "
    "learned positions for 1024 tokens, no linear biases and affine LayerNorms, the model has 774 "
    "million parameters, with or without a final LayerNorm.",
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The text names no position embedding and no final LayerNorm. With learned "
        "positions it has 773,615,360 parameters with a final LayerNorm and 773,612,800 without; "
        "with no parameters for positions it would be 772.30M, with an untied head 837.94M. Each "
        "layer has 19,665,920 parameters.",
    ),
)
MICRO = Claim(
    id="n_micro",
    paper_ref="Section 5; Appendix D.1",
    section="D",
    statement="2000 optimizer updates of 16 micro-batches are 32,000 micro-batch iterations; a "
    "batch of 64 is 16 micro-batches of 4; warm-up over 500 updates is one quarter of the run.",
)
TOKENS = Claim(
    id="n_tokens",
    paper_ref="Section 5",
    section="5",
    statement="2000 updates of 64 sequences of 1024 tokens are 131 million tokens.",
)
LOSS_PRE = Claim(
    id="loss_pre",
    paper_ref="Section 5; Table 1; Appendix D.3",
    section="5",
    statement="The Pre-LN losses 4.503, 4.510, 4.513 have mean 4.509 and sample standard deviation "
    "(denominator n − 1) 0.005.",
)
LOSS_POST = Claim(
    id="loss_post",
    paper_ref="Section 5; Table 1; Appendix D.3",
    section="5",
    statement="One loss that prints as 4.98 and two that print as 7.67 can have mean 6.771 and "
    "sample standard deviation 1.551, as printed: 4.98 and twice 7.6665 do.",
)
TABLE = Claim(
    id="cert_table",
    paper_ref="Table 1; Appendix D.3",
    section="D",
    statement="If the mean of three seeds' certificates prints as 0.99999 and none exceeds 1, each "
    "of them is at least 0.999955.",
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The text says that the Post-LN figure 0.99999 reflects the near-uniform attention of "
        "the two plateaued seeds. They alone do not account for it: even with 1 for both, the seed "
        "that trains must have a mean median certificate of at least 0.999955. A value like "
        "Pre-LN's 0.99870 would have given 0.99957.",
    ),
)


# ------------------------------------------------------------------------------------ counts


def parameters_of_layer(width: int, hidden: int) -> int:
    """Four width × width projections, two FFN maps, two LayerNorms with γ and β; no biases."""
    return 4 * width * width + 2 * width * hidden + 2 * 2 * width


def parameters(
    *,
    width: int = 1280,
    layers: int = 36,
    hidden: int = 5120,
    vocabulary: int = 50257,
    context: int = 1024,
    positions: bool = True,
    final_norm: bool = True,
    tied: bool = True,
) -> int:
    """Trainable parameters of the GPT-2-style model of Appendix D.1."""
    embeddings = vocabulary * width * (1 if tied else 2)
    return (
        layers * parameters_of_layer(width, hidden)
        + embeddings
        + (context * width if positions else 0)
        + (2 * width if final_norm else 0)
    )


@check(PARAMETERS, kind=Kind.CERTIFICATE, planted=Planted("no learned positions", positions=False))
def counted_from_the_configuration(profile: Profile, *, positions: bool = True) -> Evidence:
    """The total in millions, with and without a final LayerNorm, and the finding's counts."""

    def cases() -> Iterator[Case]:
        for final_norm in (True, False):
            total = parameters(positions=positions, final_norm=final_norm)
            yield printed(Fraction(total, 10**6), "774", {"parameters": total})
        yield Case(parameters_of_layer(1280, 5120), "==", 19_665_920, "one layer")
        yield Case(parameters(positions=positions), "==", 773_615_360, "with a final LayerNorm")
        without_norm = parameters(positions=positions, final_norm=False)
        yield Case(without_norm, "==", 773_612_800, "without a final LayerNorm")
        bare = Fraction(parameters(positions=False), 10**6)
        yield printed(bare, "772.30", "no positions")
        untied = Fraction(parameters(positions=positions, tied=False), 10**6)
        yield printed(untied, "837.94", "untied head")

    return judge(cases(), scope="the configuration of Appendix D.1 and its unstated variants")


@check(MICRO, kind=Kind.CERTIFICATE, planted=Planted("accumulation over 15", accumulation=15))
def counters_agree(profile: Profile, *, accumulation: int = 16) -> Evidence:
    """Updates, micro-batches, batch size and warm-up against one another."""
    cases = (
        Case(2000 * accumulation, "==", 32_000, "micro-batch iterations"),
        Case(4 * accumulation, "==", 64, "batch"),
        Case(Fraction(500, 2000), "==", Fraction(1, 4), "warm-up"),
    )
    return judge(cases, scope="the counters of Appendix D.1")


@check(TOKENS, kind=Kind.CERTIFICATE, planted=Planted("a context of 1000", context=1000))
def tokens_of_the_run(profile: Profile, *, context: int = 1024) -> Evidence:
    """2000 · 64 · 1024 = 131,072,000."""
    tokens = 2000 * 64 * context
    return judge(
        [printed(Fraction(tokens, 10**6), "131", {"tokens": tokens})],
        scope="the counters of Section 5",
    )


# ------------------------------------------------------------------------------------- losses


@check(LOSS_PRE, kind=Kind.CERTIFICATE, planted=Planted("denominator n, not n − 1", lost=0))
def mean_and_deviation(profile: Profile, *, lost: int = 1) -> Evidence:
    """Mean 4.50867 and standard deviation 0.00513 (0.0042 with the population's denominator)."""
    losses = (Fraction("4.503"), Fraction("4.510"), Fraction("4.513"))

    def cases() -> Iterator[Case]:
        yield printed(mean(losses), "4.509", "mean")
        yield from printed_root(variance(losses, lost), "0.005", "standard deviation")

    return judge(cases(), scope="the three printed losses, as exact decimals")


@check(LOSS_POST, kind=Kind.CERTIFICATE, planted=Planted("denominator n, not n − 1", lost=0))
def a_triple_as_printed(profile: Profile, *, lost: int = 1) -> Evidence:
    """4.98 and twice 7.6665: a standard deviation of |b − a|/√3 with the sample's denominator."""
    trained, plateau = Fraction("4.98"), Fraction("7.6665")
    losses = (trained, plateau, plateau)

    def cases() -> Iterator[Case]:
        yield printed(trained, "4.98", "the seed that trains")
        yield printed(plateau, "7.67", "a plateaued seed")
        yield Case(variance(losses), "==", (plateau - trained) ** 2 / 3, "(b − a)²/3")
        yield printed(mean(losses), "6.771", "mean")
        yield from printed_root(variance(losses, lost), "1.551", "standard deviation")

    return judge(cases(), scope="one witness, exact decimals")


# ------------------------------------------------------------------------------- certificates


@check(TABLE, kind=Kind.CERTIFICATE, planted=Planted("at least 0.99996", bound="0.99996"))
def least_certificate_of_a_seed(profile: Profile, *, bound: str = "0.999955") -> Evidence:
    """With mean >= 0.999985 and the two others at most 1, the third is at least 3·mean − 2."""
    least_mean, _ = rounds_from("0.99999")
    third = 3 * least_mean - 2

    def cases() -> Iterator[Case]:
        yield Case(third, ">=", Fraction(bound), "the least certificate of one seed")
        # It is attained, so no larger bound follows.
        yield printed(mean((Fraction(1), Fraction(1), third)), "0.99999", {"third": third})
        like_pre = mean((Fraction(1), Fraction(1), Fraction("0.9987")))
        yield printed(like_pre, "0.99957", "a third seed like Pre-LN")
        yield Case(like_pre, "<", least_mean, "which does not print as 0.99999")

    return judge(cases(), scope="three certificates in [0, 1] whose mean prints as 0.99999")
