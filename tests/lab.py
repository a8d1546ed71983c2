"""Small runs for the tests of the training lab."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from model import runlog
from model.config import RunConfig, as_json
from model.shards import ShardWriter

VOCABULARY = 64
CONTEXT = 24


def write_shards(folder: Path, tokens: int, *, seed: int = 5, shard_tokens: int = 700) -> Path:
    """Shards of random tokens with some order in them, so that a model can learn something."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(1, 4, size=tokens)
    writer = ShardWriter(folder, shard_tokens=shard_tokens)
    writer.write(np.cumsum(steps) % VOCABULARY)
    writer.close({"source": "test", "vocabulary": VOCABULARY})
    return folder


def run_config(folder: Path, **changes: Any) -> RunConfig:
    """A run of six updates of a model with two layers; the changes are dotted keys."""
    shards = folder / "shards"
    if not shards.exists():
        write_shards(shards, 20_000)
    raw: dict[str, Any] = {
        "name": "run",
        "out": str(folder / "runs"),
        "seed": 3,
        "precision": "float32",
        "checkpoint_every": 3,
        "model": {
            "layers": 2,
            "width": 16,
            "heads": 2,
            "context": CONTEXT,
            "vocabulary": VOCABULARY,
        },
        "data": {"shards": str(shards)},
        "optim": {"peak_lr": 3e-3, "warmup": 2, "updates": 6},
        "batch": {"micro": 4, "accumulation": 2},
        "measure": {"every": 2, "rows": 20, "from_position": 4, "gradients_every": 2},
    }
    for key, value in changes.items():
        *sections, last = key.split("__")
        section = raw
        for name in sections:
            section = section[name]
        section[last] = value
    return RunConfig.model_validate(raw)


def layer_entry(
    layer: int, low: float, middle: float, high: float, **more: float
) -> dict[str, Any]:
    """One layer's statistics as a run logs them: 5th, 50th and 95th percentile of the certificate.

    more: entropy, p_max (its mean), and theta (its median), which may be left out.
    """
    certificate = {"5": low, "25": low, "50": middle, "75": high, "95": high}
    entry: dict[str, Any] = {
        "layer": layer,
        "certificate": certificate,
        "entropy": more.get("entropy", 0.5),
        "p_max": {**certificate, "mean": more.get("p_max", 0.25)},
    }
    if "theta" in more:
        entry["theta"] = {**certificate, "50": more["theta"]}
    return entry


def write_logs(
    folder: Path,
    config: RunConfig,
    *,
    losses: Sequence[float],
    norms: Sequence[float],
    attention: Mapping[int, Sequence[dict[str, Any]]],
    gradients: Mapping[int, Sequence[float]] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Path:
    """The logs of a run that never happened; attention and gradients by update. Returns its folder.

    gradients: the norms of the blocks. meta: what meta.json says beside the configuration.
    """
    target = folder / config.name
    target.mkdir(parents=True)
    described = {"config": as_json(config), **(meta or {})}
    (target / runlog.META).write_text(json.dumps(described), encoding="utf-8")
    log = runlog.RunLog(target, 0)
    for update, (loss, norm) in enumerate(zip(losses, norms, strict=True), start=1):
        log.write(runlog.TRAINING, update, {"loss": loss, "grad_norm": norm})
    for update, layers in attention.items():
        for entry in layers:
            log.write(runlog.ATTENTION, update, entry)
    for update, blocks in (gradients or {}).items():
        log.write(runlog.GRADIENTS, update, {"blocks": list(blocks), "rest": 0.0, "total": 1.0})
    log.close()
    return target


def as_toml(config: RunConfig, path: Path) -> Path:
    """Write a configuration as TOML; values are plain, so JSON writes them. Returns the path."""
    lines, sections = [], []
    for key, value in json.loads(config.model_dump_json(exclude_none=True)).items():
        if isinstance(value, dict):
            sections += [f"[{key}]", *(f"{k} = {json.dumps(v)}" for k, v in value.items())]
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    path.write_text("\n".join([*lines, *sections]) + "\n", encoding="utf-8")
    return path
