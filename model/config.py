"""What a run is: its model, data, optimiser, batches and measurements, from a TOML file.

Every field has the paper's value as its default where the paper states one (Appendix D.1). Where it
states none, the field says what is chosen here; these are the choices that a reproduction must
make, and each is a field so that another choice can be tried.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pydantic

GPT2_VOCABULARY = 50257


class ConfigError(ValueError):
    """A configuration that cannot be read; the message names the file, the key and the reason."""


class _Section(pydantic.BaseModel):
    """A frozen group of settings. Unknown keys, other types, NaN and infinity are errors.

    An integer may stand for a float, but no boolean for a number, nor a number for a boolean.
    """

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, strict=True
    )


class ModelConfig(_Section):
    """A GPT-2-style decoder.

    layers: N; width: d; heads: H; ffn_width: d_ff, 4d if left out; context: L.
    block: where the normalisation stands. "pre_ln": x + f(norm(x)); "post_ln": norm(x + f(x));
    "deepnorm": norm(αx + f(x)) with α = (2N)^¼, and β = (8N)^-¼ times the usual standard deviation
    for the values, the attention output and both layers of the FFN (Wang et al. 2022).

    Not stated in the paper: norm_eps; final_norm (None: with pre_ln alone), which makes 773,615,360
    parameters with pre_ln and 773,612,800 with post_ln; embedding_norm (none); positions: learned
    ones are what makes 774M; activation: GELU exact or by tanh.
    """

    layers: int = pydantic.Field(default=36, ge=1)
    width: int = pydantic.Field(default=1280, ge=1)
    heads: int = pydantic.Field(default=20, ge=1)
    ffn_width: int | None = pydantic.Field(default=None, ge=1)
    context: int = pydantic.Field(default=1024, ge=1)
    vocabulary: int = pydantic.Field(default=GPT2_VOCABULARY, ge=1)
    block: Literal["pre_ln", "post_ln", "deepnorm"] = "pre_ln"
    norm: Literal["layer", "rms"] = "layer"
    norm_eps: float = pydantic.Field(default=1e-5, gt=0)
    final_norm: bool | None = None
    embedding_norm: bool = False
    positions: Literal["learned", "none"] = "learned"
    activation: Literal["gelu", "gelu_tanh"] = "gelu"
    dropout: float = pydantic.Field(default=0.1, ge=0, lt=1)
    tied_head: bool = True
    init_std: float = pydantic.Field(default=0.02, gt=0)

    @pydantic.model_validator(mode="after")
    def _heads_divide_width(self) -> ModelConfig:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not divisible by {self.heads} heads")
        return self

    @property
    def head_width(self) -> int:
        """d_h."""
        return self.width // self.heads

    @property
    def hidden_width(self) -> int:
        """d_ff."""
        return 4 * self.width if self.ffn_width is None else self.ffn_width

    @property
    def has_final_norm(self) -> bool:
        """Whether a normalisation stands before the output head."""
        return self.block == "pre_ln" if self.final_norm is None else self.final_norm


class DataConfig(_Section):
    """Where tokens come from. The order of sequences depends on nothing but the shards.

    shards: a folder made by `python -m model.data prepare`; relative paths are taken from the
    folder in which the command runs.
    """

    shards: Path = pydantic.Field(strict=False)


class OptimConfig(_Section):
    """AdamW, its schedule and clipping.

    Not stated in the paper: decay ("matrices": weights of two axes, embeddings included, decay and
    normalisation parameters do not; "all": everything decays); floor: the cosine's end as a share
    of the peak; the cosine ends at the last update.
    """

    peak_lr: float = pydantic.Field(default=3e-4, gt=0)
    beta1: float = pydantic.Field(default=0.9, ge=0, lt=1)
    beta2: float = pydantic.Field(default=0.95, ge=0, lt=1)
    eps: float = pydantic.Field(default=1e-8, gt=0)
    weight_decay: float = pydantic.Field(default=0.1, ge=0)
    decay: Literal["matrices", "all"] = "matrices"
    warmup: int = pydantic.Field(default=500, ge=0)
    updates: int = pydantic.Field(default=2000, ge=1)
    floor: float = pydantic.Field(default=0.0, ge=0, le=1)
    clip: float = pydantic.Field(default=1.0, gt=0)

    @pydantic.model_validator(mode="after")
    def _warmup_ends(self) -> OptimConfig:
        if self.warmup > self.updates:
            raise ValueError(f"warmup of {self.warmup} updates exceeds all {self.updates} updates")
        return self


class BatchConfig(_Section):
    """Sequences in a micro-batch, over all processes together, and micro-batches in an update."""

    micro: int = pydantic.Field(default=4, ge=1)
    accumulation: int = pydantic.Field(default=16, ge=1)

    @property
    def sequences(self) -> int:
        """Sequences in one update."""
        return self.micro * self.accumulation


class MeasureConfig(_Section):
    """What is measured beside the loss; see model.monitor.

    every: updates between attention measurements (the first and the last are always taken); rows:
    sampled in each layer; from_position: the first position sampled; layers: None for 0, N/2 and
    N − 1; gradients_every: updates between per-block gradient norms; exact_theta: whether the exact
    θ of the sampled rows is computed beside the certificate; seed: of the sampling alone.
    """

    every: int = pydantic.Field(default=10, ge=1)
    rows: int = pydantic.Field(default=512, ge=1)
    from_position: int = pydantic.Field(default=16, ge=0)
    layers: tuple[int, ...] | None = pydantic.Field(default=None, min_length=1, strict=False)
    gradients_every: int = pydantic.Field(default=50, ge=1)
    exact_theta: bool = True
    seed: int = pydantic.Field(default=0, ge=0)
    enabled: bool = True

    def takes_attention(self, update: int, updates: int) -> bool:
        """Whether attention is measured at this one of so many updates, counted from 1."""
        return self.enabled and (update in (1, updates) or update % self.every == 0)

    def takes_gradients(self, update: int) -> bool:
        """Whether the gradient norms of the blocks are taken at this update, counted from 1."""
        return self.enabled and update % self.gradients_every == 0


class RunConfig(_Section):
    """One run.

    seed: of initialisation and dropout, and of nothing else; below 2^48, as torch takes 64 bits and
    16 of them tell up to 2^16 processes apart. precision: "bf16" is autocast with
    float32 parameters. parallel: how several processes share the model. compile: torch.compile.
    activation_checkpointing: recompute each block in the backward pass. checkpoint_every: updates;
    keep: how many checkpoints stay. tensorboard: event files beside the logs. out: the folder of
    all runs; a run writes to out/name.
    """

    name: str = pydantic.Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    seed: int = pydantic.Field(default=42, ge=0, lt=2**48)
    model: ModelConfig = ModelConfig()
    data: DataConfig
    optim: OptimConfig = OptimConfig()
    batch: BatchConfig = BatchConfig()
    measure: MeasureConfig = MeasureConfig()
    precision: Literal["bf16", "float32"] = "bf16"
    parallel: Literal["ddp", "fsdp"] = "ddp"
    compile: bool = False
    activation_checkpointing: bool = False
    checkpoint_every: int = pydantic.Field(default=100, ge=1)
    keep: int = pydantic.Field(default=2, ge=1)
    tensorboard: bool = False
    out: Path = pydantic.Field(default=Path("runs"), strict=False)

    @pydantic.model_validator(mode="after")
    def _positions_exist(self) -> RunConfig:
        if self.measure.enabled and self.measure.from_position >= self.model.context:
            raise ValueError(
                f"measure.from_position {self.measure.from_position} lies beyond a context of "
                f"{self.model.context}"
            )
        for layer in self.measure.layers or ():
            if not 0 <= layer < self.model.layers:
                raise ValueError(
                    f"measure.layers names layer {layer}; there are {self.model.layers} layers"
                )
        return self

    @property
    def folder(self) -> Path:
        """Where the run writes."""
        return self.out / self.name

    @property
    def measured_layers(self) -> tuple[int, ...]:
        """The layers whose attention is measured, in order and without repetition."""
        count = self.model.layers
        chosen = self.measure.layers
        return tuple(sorted({0, count // 2, count - 1} if chosen is None else set(chosen)))


# What may change between the start of a run and its resumption: nothing that touches a number.
FREE_TO_CHANGE = ("out", "keep", "checkpoint_every", "tensorboard")
# The data may lie elsewhere, too: what it is, its fingerprint says. The hash has always had it.
_NO_DIFFERENCE = (*FREE_TO_CHANGE, "data.shards")


def load(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a run from TOML, then set ``section.key=value`` pairs (values as TOML writes them).

    Raises ``ConfigError`` for a file that cannot be read, an unknown key, and a value of the wrong
    kind or out of range.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    for override in overrides:
        _set(raw, override)
    return validated(raw, path)


def validated(plain: Any, path: Path) -> RunConfig:
    """The run that plain values describe, as `as_json` makes them; path: the file they are from.

    Raises ``ConfigError``, in one line, for an unknown key and a value of the wrong kind or out of
    range.
    """
    try:
        return RunConfig.model_validate(plain)
    except pydantic.ValidationError as error:
        faults = "; ".join(_fault(item) for item in error.errors())
        raise ConfigError(f"{path}: {faults}") from None


def _set(raw: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set {override!r}: section.key=value is needed")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        # A bare word is text, as in model.block=post_ln.
        parsed = value.strip()
    section = raw
    for part in parts[:-1]:
        section = section.setdefault(part, {})
        if not isinstance(section, dict):
            raise ConfigError(f"--set {override!r}: {part} is no section")
    section[parts[-1]] = parsed


def _fault(item: Any) -> str:
    where = ".".join(map(str, item["loc"]))
    message = item["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else str(message)


def as_json(config: RunConfig) -> dict[str, Any]:
    """The configuration as plain values."""
    plain: dict[str, Any] = config.model_dump(mode="json")
    return plain


def config_hash(config: RunConfig) -> str:
    """A hash of everything in a configuration that a number of the run could depend on."""
    plain = {key: value for key, value in as_json(config).items() if key not in FREE_TO_CHANGE}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def difference(first: RunConfig, second: RunConfig) -> list[str]:
    """The settings in which two configurations differ, one line each.

    FREE_TO_CHANGE and the path of the data are left out. Each line reads
    ``section.key: FIRST, now SECOND``.
    """
    left, right = _flat(as_json(first)), _flat(as_json(second))
    return [
        f"{key}: {left.get(key)!r}, now {right.get(key)!r}"
        for key in sorted(left.keys() | right.keys())
        if left.get(key) != right.get(key) and key not in _NO_DIFFERENCE
    ]


def _flat(plain: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in plain.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
