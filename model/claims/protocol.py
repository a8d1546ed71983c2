"""Appendix D.1 read off the lab's own configuration: parameters, counters, cadence, warm-up."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from theory.claims.appendix_d import MICRO, PARAMETERS, TOKENS
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Evidence, Kind, judge

CADENCE = Claim(
    id="measurement_cadence",
    paper_ref="Appendix D.1, measurement cadence and data order",
    section="D",
    statement="Attention statistics every 10 updates and at the first and the last of 2000 are 201 "
    "records; gradient norms of the blocks every 50 updates are 40 records. A linear warm-up over "
    "500 updates to 3e-4 has the rate 6e-7 at update 1 and 3e-4 at update 500.",
)

RECIPES = Path(__file__).resolve().parent.parent / "configs"


@check(
    PARAMETERS,
    kind=Kind.CERTIFICATE,
    planted=Planted("no learned positions", positions="none"),
    needs=("torch", "pydantic"),
)
def of_the_model_itself(profile: Profile, *, positions: str = "learned") -> Evidence:
    """The lab's model, built without memory, with a final LayerNorm (Pre-LN) and without one."""
    from model.config import ModelConfig
    from model.gpt import parameter_count

    def count(block: str) -> int:
        return parameter_count(ModelConfig.model_validate({"block": block, "positions": positions}))

    return judge(
        (
            Case(count("pre_ln"), "==", 773_615_360, "Pre-LN"),
            Case(count("post_ln"), "==", 773_612_800, "Post-LN"),
        ),
        scope="the defaults of model.config on the meta device",
    )


@check(
    TOKENS,
    kind=Kind.CERTIFICATE,
    planted=Planted("an accumulation over 15", accumulation=15),
    needs=("pydantic",),
)
def of_the_recipe(profile: Profile, *, accumulation: int = 16) -> Evidence:
    """131,072,000 tokens by model/configs/h200.toml."""
    from model.config import load

    config = load(RECIPES / "h200.toml", [f"batch.accumulation={accumulation}"])
    tokens = config.optim.updates * config.batch.sequences * config.model.context
    return judge([Case(tokens, "==", 131_072_000, "tokens")], scope="model/configs/h200.toml")


@check(
    MICRO,
    kind=Kind.CERTIFICATE,
    planted=Planted("micro-batches of 8", micro=8),
    needs=("pydantic",),
)
def counters_of_the_recipe(profile: Profile, *, micro: int = 4) -> Evidence:
    """Batch, micro-batch iterations and warm-up by model/configs/h200.toml."""
    from model.config import load

    config = load(RECIPES / "h200.toml", [f"batch.micro={micro}"])
    batch, optim = config.batch, config.optim
    return judge(
        (
            Case(batch.sequences, "==", 64, "batch"),
            Case(optim.updates * batch.accumulation, "==", 32_000, "micro-batch iterations"),
            Case(Fraction(optim.warmup, optim.updates), "==", Fraction(1, 4), "warm-up"),
        ),
        scope="model/configs/h200.toml",
    )


@check(
    CADENCE,
    kind=Kind.CERTIFICATE,
    planted=Planted("gradient norms every 48 updates", gradients_every=48),
    needs=("pydantic",),
)
def records_of_the_recipe(profile: Profile, *, gradients_every: int = 50) -> Evidence:
    """How many of the 2000 updates the trainer measures, by its own rule."""
    from model.config import load

    config = load(RECIPES / "h200.toml", [f"measure.gradients_every={gradients_every}"])
    last, measure = config.optim.updates, config.measure
    updates = range(1, last + 1)
    return judge(
        (
            Case(sum(measure.takes_attention(u, last) for u in updates), "==", 201, "attention"),
            Case(sum(measure.takes_gradients(u) for u in updates), "==", 40, "gradients"),
        ),
        scope="model/configs/h200.toml, every update",
    )


@check(
    CADENCE,
    kind=Kind.CERTIFICATE,
    planted=Planted("a warm-up over 501 updates", warmup=501),
    needs=("torch", "pydantic"),
)
def rates_of_the_schedule(profile: Profile, *, warmup: int = 500) -> Evidence:
    """The trainer's rates at updates 1 and 500, to a few roundings; none after is larger."""
    from model.config import load
    from model.schedule import learning_rate

    optim = load(RECIPES / "h200.toml", [f"optim.warmup={warmup}"]).optim

    def cases() -> Iterator[Case]:
        for update, rate in ((1, Fraction("6e-7")), (500, Fraction("3e-4"))):
            miss = abs(Fraction(learning_rate(optim, update)) / rate - 1)
            yield Case(miss, "<=", Fraction(1, 2**50), {"update": update})
        top = Fraction(learning_rate(optim, 500))
        for update in range(501, optim.updates + 1):
            rate = Fraction(learning_rate(optim, update))
            yield Case(rate, "<", top, {"update": update})

    return judge(cases(), scope="model/configs/h200.toml")
