"""The committed logs of small runs, and the words in which every claim about them says its scale.

The runs follow the paper's protocol on a narrow model; they are evidence about that model alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from verify.evidence import Tolerance

if TYPE_CHECKING:
    from model.runs import Run

FOLDER = Path(__file__).resolve().parent.parent.parent / "paper_checks" / "runs"
SEEDS = (42, 123, 456)


def names(block: str) -> tuple[str, ...]:
    """The folders of one architecture's runs, one a seed."""
    return tuple(f"cpu_{block}_{seed}" for seed in SEEDS)


def needs(*blocks: str) -> tuple[str, ...]:
    """What a check of these architectures' runs needs: a reader of their configuration, the logs.

    All of ``pre_ln`` and ``post_ln`` by default.
    """
    folders = [f"paper_checks/runs/{name}" for block in blocks for name in names(block)]
    return ("pydantic", *folders)


def read(block: str) -> list[Run]:
    """One architecture's runs, by seed.

    Raises ``model.runs.RunError`` where a log is damaged, a run is not finished, or the runs differ
    in more than name and seed.
    """
    from model.runs import RunError, by_architecture, read_run

    runs = [read_run(FOLDER / name) for name in names(block)]
    unfinished = [run.config.name for run in runs if not run.is_finished]
    if unfinished:
        raise RunError(f"not finished: {', '.join(unfinished)}")
    return by_architecture(runs)[block]


def scope(*groups: list[Run]) -> str:
    """The scale of the runs, to be printed with every verdict on them."""
    run = groups[0][0]
    model, batch, optim = run.config.model, run.config.batch, run.config.optim
    blocks = {"pre_ln": "Pre-LN", "post_ln": "Post-LN", "deepnorm": "DeepNorm"}
    architectures = " and ".join(blocks[group[0].config.model.block] for group in groups)
    return (
        f"{architectures}: {model.layers} layers, d = {model.width}, {model.heads} heads, "
        f"L = {model.context}, {optim.updates} updates of {batch.sequences * model.context} "
        f"tokens, seeds {', '.join(str(run.config.seed) for run in groups[0])}, "
        f"{run.meta.get('device', 'device not logged')}; not the 774M model"
    )


LOGGED = Tolerance(
    value=1e-9,
    kind="absolute",
    reason="logged numbers are compared with one another; a few roundings of float64",
)


def has_plateaued(run: Run) -> bool:
    """Whether a run's loss stands still after its warm-up: it never falls by 0.1 nats again.

    Means of 50 updates are compared with that of the warm-up's last 50. A later rise does not
    count: all runs read the same text in the same order, and some of it is harder.
    """
    first = max(run.config.optim.warmup - 50, 0)
    means = [
        float(np.mean(run.losses[start : start + 50]))
        for start in range(first, run.updates - 49, 50)
    ]
    return means[0] - min(means) < 0.1


def uniform_mean(context: int, first: int) -> float:
    """The mean largest weight of uniform causal rows at positions first, …, context − 1."""
    return float(np.mean(1.0 / np.arange(first + 1, context + 1)))
