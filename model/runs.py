"""Finished and unfinished runs read from their logs, and the paper's aggregates of them.

Aggregation as in Section 5: a run's certificate at a checkpoint is the mean over its sampled layers
of the layers' medians, and runs of one architecture are averaged; the envelope goes from the
smallest 5th to the largest 95th percentile over layers and runs; entropy and p_max are means over
layers and runs of the layers' means. ± is the sample standard deviation over runs (n − 1).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from model import runlog
from model.config import ConfigError, RunConfig, difference, validated
from model.runlog import RunLogError
from model.spikes import SpikeRule, spikes

FloatArray = npt.NDArray[np.float64]
FINAL_UPDATES = 50


class RunError(ValueError):
    """Logs that cannot be read, or that do not fit together."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One run's logs: its configuration, and what was logged, in the order of the updates."""

    folder: Path
    config: RunConfig
    meta: dict[str, Any]
    training: list[dict[str, Any]]
    attention: list[dict[str, Any]]
    norms: list[dict[str, Any]]
    gradients: list[dict[str, Any]]

    @property
    def updates(self) -> int:
        """How many updates are logged."""
        return len(self.training)

    @property
    def is_finished(self) -> bool:
        return self.updates == self.config.optim.updates

    @property
    def losses(self) -> FloatArray:
        return np.array([entry["loss"] for entry in self.training])

    @property
    def gradient_norms(self) -> FloatArray:
        return np.array([entry["grad_norm"] for entry in self.training])

    def final_loss(self) -> float:
        """The mean loss of the last 50 updates."""
        return float(np.mean(self.losses[-FINAL_UPDATES:]))

    def spikes(self, rule: SpikeRule | None = None) -> list[int]:
        """The updates, counted from 1, whose gradient norm is a spike."""
        return [index + 1 for index in spikes(self.gradient_norms.tolist(), rule)]

    def checkpoints(self) -> list[int]:
        """The updates at which attention was measured."""
        return sorted({entry["update"] for entry in self.attention})

    def layers_at(self, update: int) -> list[dict[str, Any]]:
        """The measured layers' statistics at one update."""
        return [entry for entry in self.attention if entry["update"] == update]


def read_run(folder: Path) -> Run:
    """Read a run's folder. Raises ``RunError`` where it is none or its log has a gap."""
    try:
        meta = runlog.read_meta(folder)
        config = validated(meta["config"], folder / runlog.META)
        logs = {kind: runlog.read(folder, kind) for kind in runlog.KINDS}
    except (RunLogError, ConfigError) as error:
        raise RunError(str(error)) from None
    updates = [entry["update"] for entry in logs[runlog.TRAINING]]
    if updates != list(range(1, len(updates) + 1)) or not updates:
        raise RunError(f"{folder}: the log does not hold updates 1, 2, … without a gap")
    return Run(
        folder=folder,
        config=config,
        meta=meta,
        training=logs[runlog.TRAINING],
        attention=logs[runlog.ATTENTION],
        norms=logs[runlog.NORMS],
        gradients=logs[runlog.GRADIENTS],
    )


def find_runs(folders: Iterable[Path]) -> list[Run]:
    """The runs in these folders, and in the folders directly inside them, by name."""
    found = {}
    for folder in folders:
        candidates = [folder, *(p for p in sorted(folder.iterdir()) if p.is_dir())]
        for candidate in candidates:
            if (candidate / runlog.META).is_file():
                found[candidate.resolve()] = read_run(candidate)
    if not found:
        raise RunError("no run (a folder with meta.json) in " + ", ".join(map(str, folders)))
    return sorted(found.values(), key=lambda run: run.config.name)


def by_architecture(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs by where their normalisation stands, each group by seed.

    Raises ``RunError``, with the first difference, where two runs of a group differ in more than
    name, seed and what touches no number (``FREE_TO_CHANGE``).
    """
    groups: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda r: (r.config.model.block != "pre_ln", r.config.seed)):
        groups.setdefault(run.config.model.block, []).append(run)
    for first, *others in groups.values():
        for other in others:
            _require_alike(first, other)
    return groups


def _require_alike(first: Run, second: Run) -> None:
    same = {"name": first.config.name, "seed": first.config.seed}
    differences = difference(first.config, second.config.model_copy(update=same))
    data = [run.meta.get("data") for run in (first, second)]
    if data[0] != data[1]:
        differences.append(f"data: {data[0]}, now {data[1]}")
    if differences:
        raise RunError(
            f"{first.config.name} and {second.config.name} differ in more than name and seed: "
            f"{differences[0]}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectory:
    """Attention over a group of runs, at the checkpoints that all of them have; shape (C,) each."""

    updates: npt.NDArray[np.int64]
    certificate: FloatArray
    theta: FloatArray
    lowest: FloatArray
    highest: FloatArray
    entropy: FloatArray
    largest: FloatArray


def trajectory(runs: Sequence[Run]) -> Trajectory:
    """The paper's aggregates of a group of runs (see the top of this file).

    Raises ``RunError`` where a run has no attention measurements, or all have none in common.
    """
    for run in runs:
        if not run.attention:
            raise RunError(f"run {run.config.name} has no attention measurements")
    shared = set.intersection(*(set(run.checkpoints()) for run in runs))
    if not shared:
        names = ", ".join(run.config.name for run in runs)
        raise RunError(f"no update at which attention was measured in all of {names}")
    updates = sorted(shared)

    def mean(pick: Any) -> FloatArray:
        return np.array(
            [
                np.mean([np.mean([pick(e) for e in run.layers_at(u)]) for run in runs])
                for u in updates
            ]
        )

    def extreme(choose: Any, percent: str) -> FloatArray:
        return np.array(
            [
                choose(e["certificate"][percent] for run in runs for e in run.layers_at(u))
                for u in updates
            ]
        )

    return Trajectory(
        updates=np.array(updates, dtype=np.int64),
        certificate=mean(lambda entry: entry["certificate"]["50"]),
        theta=mean(lambda entry: entry.get("theta", {}).get("50", np.nan)),
        lowest=extreme(min, "5"),
        highest=extreme(max, "95"),
        entropy=mean(lambda entry: entry["entropy"]),
        largest=mean(lambda entry: entry["p_max"]["mean"]),
    )


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One architecture's line of Table 1: means over runs, sample standard deviations or None."""

    block: str
    runs: int
    loss: float
    loss_sd: float | None
    spikes: float
    spikes_sd: float | None
    certificate: float


def table(runs: Sequence[Run]) -> list[TableRow]:
    """Table 1 of finished runs.

    Raises ``RunError`` for runs that are not finished, do not belong together or have no attention
    measurements.
    """
    unfinished = [run.config.name for run in runs if not run.is_finished]
    if unfinished:
        raise RunError(f"not finished: {', '.join(unfinished)}")
    rows = []
    for block, group in by_architecture(runs).items():
        losses = [run.final_loss() for run in group]
        counts = [float(len(run.spikes())) for run in group]
        rows.append(
            TableRow(
                block=block,
                runs=len(group),
                loss=statistics.fmean(losses),
                loss_sd=statistics.stdev(losses) if len(group) > 1 else None,
                spikes=statistics.fmean(counts),
                spikes_sd=statistics.stdev(counts) if len(group) > 1 else None,
                certificate=float(trajectory(group).certificate[-1]),
            )
        )
    return rows
