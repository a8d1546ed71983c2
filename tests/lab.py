"""Small runs for the tests of the training lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from model.config import RunConfig
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
