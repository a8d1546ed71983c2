"""How fast updates are, and how much memory they take, for several sizes of micro-batch.

    python -m model.bench CONFIG.toml [--updates 20] [--micro 4 8 16 32] [--synthetic]
                          [--set section.key=value …] [--json FILE]

The sequences of an update stay those of the configuration: the accumulation adapts to each
micro-batch. Every size runs in a process of its own, so that no size sees the memory of another and
one that does not fit leaves the others alone. Only updates are timed: no measurements, no
checkpoints. The exit status is 0, 1 where no size could be measured, and 2 for a wrong call.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from model import hardware
from model.config import ConfigError, RunConfig, as_json, load
from model.data import DataError
from model.shards import ShardError, ShardWriter
from model.train import Trainer, processes

# Updates before the clock starts: compilation, the optimiser's state, the allocator.
WARM_UP = 3
MICRO = (4, 8, 16, 32)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One size of micro-batch: what was run, and how it went.

    seconds: of all timed updates together; first_update_seconds: of the very first, compilation
    included; mfu: model FLOPs utilisation, None for an unknown device; memory: bytes at most, as
    `hardware.peak_memory`. fault: why there are no figures, or None.
    """

    name: str
    device: str
    torch: str
    compile: bool
    precision: str
    micro: int
    accumulation: int
    tokens_per_update: int
    updates: int
    seconds: float | None = None
    first_update_seconds: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None
    memory: int | None = None
    fault: str | None = None


def with_micro(config: RunConfig, micro: int, updates: int) -> RunConfig:
    """The same run with another micro-batch and as many sequences, cut to the benchmark's updates.

    Raises ``ConfigError`` where the micro-batch does not divide the update's sequences.
    """
    sequences = config.batch.sequences
    if sequences % micro:
        raise ConfigError(f"a micro-batch of {micro} does not divide {sequences} sequences")
    plain = as_json(config)
    plain["batch"] = {"micro": micro, "accumulation": sequences // micro}
    plain["optim"] |= {"updates": WARM_UP + updates, "warmup": 0}
    return RunConfig.model_validate(plain)


def measure(config: RunConfig) -> Measurement:
    """Time the updates of a run that `with_micro` made, in this process and on one device.

    Raises ``ShardError`` and ``DataError`` as training does.
    """
    place, device = processes()
    batch = config.batch
    case = Measurement(
        name=config.name,
        device=hardware.describe(device),
        torch=torch.__version__,
        compile=config.compile,
        precision=config.precision,
        micro=batch.micro,
        accumulation=batch.accumulation,
        tokens_per_update=batch.sequences * config.model.context,
        updates=config.optim.updates - WARM_UP,
    )
    try:
        trainer = Trainer(config, place, device)
        first = _time(trainer, range(1, 2))
        _time(trainer, range(2, WARM_UP + 1))
        seconds = _time(trainer, range(WARM_UP + 1, config.optim.updates + 1))
    except torch.OutOfMemoryError as error:
        return replace(case, fault=f"out of memory: {str(error).splitlines()[0]}")
    rate = case.updates * case.tokens_per_update / seconds
    return replace(
        case,
        seconds=seconds,
        first_update_seconds=first,
        tokens_per_second=rate,
        mfu=hardware.utilisation(config.model, device, rate),
        memory=hardware.peak_memory(device),
    )


def _time(trainer: Trainer, updates: Iterable[int]) -> float:
    """Seconds that these updates take, the work that they leave on a GPU included."""
    start = time.perf_counter()
    for update in updates:
        trainer.gradients(update)
        trainer.step(update)
    if trainer.device.type == "cuda":
        torch.cuda.synchronize(trainer.device)
    return time.perf_counter() - start


def measure_apart(config: RunConfig) -> Measurement:
    """`measure` in a process of its own.

    Raises ``DataError`` where that process died, as one does that the system kills for memory.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(measure, config).result()
        except BrokenProcessPool:
            raise DataError(
                f"the process with micro-batches of {config.batch.micro} died: killed for memory?"
            ) from None


def write_synthetic(config: RunConfig, folder: Path) -> RunConfig:
    """The same run on random tokens, written to a new folder: as many as the run reads."""
    tokens = config.optim.updates * config.batch.sequences * config.model.context + 1
    rng = np.random.default_rng(0)
    writer = ShardWriter(folder)
    # A token has 16 bits, whatever the model's vocabulary.
    writer.write(rng.integers(0, min(config.model.vocabulary, 2**16), size=tokens))
    writer.close({"source": "synthetic", "vocabulary": config.model.vocabulary})
    return config.model_copy(update={"data": config.data.model_copy(update={"shards": folder})})


def show(measurements: Sequence[Measurement], console: Console) -> None:
    """The measurements as a table."""
    table = Table(title=f"{measurements[0].name} on {measurements[0].device}")
    for heading in ("micro × accumulation", "tokens/s", "MFU", "peak memory", "first update"):
        table.add_column(heading, justify="right")
    for case in measurements:
        size = f"{case.micro} × {case.accumulation}"
        if case.tokens_per_second is None or case.memory is None:
            table.add_row(size, case.fault or "", "", "", "")
            continue
        table.add_row(
            size,
            f"{case.tokens_per_second:,.0f}",
            "unknown device" if case.mfu is None else f"{case.mfu:.1%}",
            f"{case.memory / 2**30:.2f} GiB",
            f"{case.first_update_seconds:.1f} s",
        )
    console.print(table)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; the exit status is described at the top of this file."""
    parser = argparse.ArgumentParser(
        prog="model.bench",
        # What argparse makes up puts CONFIG.toml last, where it would be one more KEY=VALUE.
        usage="%(prog)s [-h] CONFIG.toml [--updates N] [--micro B [B ...]] [--synthetic] "
        "[--set KEY=VALUE [KEY=VALUE ...]] [--json FILE]",
        description=(__doc__ or "").split("\n")[0],
    )
    parser.add_argument("config", type=Path, metavar="CONFIG.toml")
    parser.add_argument("--updates", type=int, default=20, metavar="N", help="timed updates")
    parser.add_argument("--micro", type=int, nargs="+", default=list(MICRO), metavar="B")
    parser.add_argument("--synthetic", action="store_true", help="random tokens, no shards needed")
    parser.add_argument("--set", action="extend", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append a line for each size")
    options = parser.parse_args(argv)
    if options.updates < 1 or min(options.micro) < 1:
        parser.error("--updates and --micro take positive numbers")
    if os.environ.get("WORLD_SIZE", "1") != "1":
        parser.error("this measures one process; start it without torchrun")
    try:
        config = load(options.config, options.set)
        cases = [with_micro(config, micro, options.updates) for micro in options.micro]
    except ConfigError as error:
        parser.error(str(error))
    if options.json is not None:
        try:
            options.json.open("a", encoding="utf-8").close()
        except OSError as error:
            parser.error(f"--json {options.json}: {error.strerror}")
    measurements = []
    with tempfile.TemporaryDirectory() as folder:
        if options.synthetic:
            data = write_synthetic(cases[0], Path(folder) / "shards").data
            cases = [case.model_copy(update={"data": data}) for case in cases]
        for case in cases:
            try:
                measurements.append(measure_apart(case))
            except (DataError, ShardError) as error:
                print(f"model.bench: {error}", file=sys.stderr)
                continue
            if options.json is not None:
                with options.json.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(asdict(measurements[-1])) + "\n")
    if measurements:
        show(measurements, Console(width=None if sys.stdout.isatty() else 120))
    return 0 if any(case.fault is None for case in measurements) else 1


if __name__ == "__main__":
    sys.exit(main())
