"""Training: the paper's protocol on one process or many.

    python -m model.train CONFIG.toml [--set section.key=value …] [--stop-after UPDATE]
    torchrun --nproc-per-node 8 -m model.train CONFIG.toml

A run writes to out/name: meta.json, JSON lines (model.runlog) and checkpoints. The same command
after a kill at any moment goes on from the last whole checkpoint, with the losses of a run that was
never interrupted. Updates are counted from 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from torch import Tensor, nn

from model import checkpoint, hardware, monitor, runlog
from model.checkpoint import CheckpointError, Place
from model.config import (
    ConfigError,
    RunConfig,
    as_json,
    config_hash,
    difference,
    load,
    validated,
)
from model.data import DataError, Loader
from model.gpt import GPT, loss, parameter_count
from model.runlog import META, RunLog, RunLogError
from model.schedule import learning_rate, parameter_groups
from model.shards import ShardError, Shards
from theory._packages import MissingWeights

CHECKPOINTS = "checkpoints"


class TrainingError(RuntimeError):
    """The run cannot go on; the message says at which update and why."""


class Trainer:
    """The model, the optimiser and the data of one process, and what an update does with them.

    Raises ``ShardError`` and ``DataError`` for data that cannot serve the run.
    """

    def __init__(self, config: RunConfig, place: Place, device: torch.device) -> None:
        self.config, self.place, self.device = config, place, device
        self.shards = Shards(config.data.shards)
        batch = config.batch
        sizes = (config.model.context, batch.micro, batch.accumulation)
        self.loader = Loader(self.shards, *sizes, rank=place.rank, world=place.world)
        # What is measured is the whole micro-batch, however many processes share the training.
        self.whole = Loader(self.shards, *sizes)
        self.loader.require(config.optim.updates)
        known, needed = config.model.vocabulary, self.shards.vocabulary
        if needed is not None and known < needed:
            raise DataError(
                f"{self.shards.folder} has a vocabulary of {needed}; model.vocabulary is {known}"
            )
        torch.manual_seed(config.seed)
        with device:
            self.gpt = GPT(config.model, activation_checkpointing=config.activation_checkpointing)
        if place.rank:
            # Equal parameters everywhere, but dropout of its own in each process.
            torch.manual_seed(config.seed * 2**16 + place.rank)
        self.model = self._wrap()
        self.optimizer = torch.optim.AdamW(
            parameter_groups(self.gpt, config.optim),
            lr=0.0,
            betas=(config.optim.beta1, config.optim.beta2),
            eps=config.optim.eps,
            fused=device.type == "cuda",
        )

    def _wrap(self) -> Any:
        model: Any = self.gpt
        if self.place.world > 1 and self.config.parallel == "fsdp":
            from torch.distributed.fsdp import fully_shard

            for block in self.gpt.blocks:
                fully_shard(block)
            # Resharded after every forward pass: a measurement has no backward pass to do it, and
            # gradients belong to the shards.
            fully_shard(self.gpt, reshard_after_forward=True)
        elif self.place.world > 1:
            model = nn.parallel.DistributedDataParallel(self.gpt)
        return torch.compile(model) if self.config.compile else model

    def gradients(self, update: int) -> float:
        """Accumulate the gradients of an update; return its loss, the mean over all its tokens.

        Every micro-batch has equally many tokens, so the mean of their means is the mean.
        """
        self.model.train()
        accumulation = self.config.batch.accumulation
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for index in range(accumulation):
            inputs, targets = self._tensors(self.loader, update, index)
            with self._synchronising(index == accumulation - 1):
                with self._autocast():
                    value = loss(self.model(inputs), targets)
                (value / accumulation).backward()
            total += value.detach().double()
        if self.place.world > 1:
            torch.distributed.all_reduce(total)
        return float(total) / (accumulation * self.place.world)

    def step(self, update: int) -> tuple[float, float]:
        """Clip, update the parameters and drop the gradients.

        Returns the gradients' norm before clipping, and the learning rate.
        """
        norm = monitor.total_gradient_norm(self.gpt)
        nn.utils.clip_grads_with_norm_(self.gpt.parameters(), self.config.optim.clip, norm)
        rate = learning_rate(self.config.optim, update)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm), rate

    def measure_attention(self, update: int) -> list[dict[str, Any]]:
        """Statistics of attention rows on the update's last micro-batch, one entry a layer."""
        inputs, _ = self._tensors(self.whole, update, self.config.batch.accumulation - 1)
        with self._autocast():
            return monitor.measure_attention(
                self.gpt, inputs, self.config.measured_layers, self.config.measure, update
            )

    def measure_norms(self, update: int) -> dict[str, Any]:
        """Corollary A.3's factors on the same micro-batch."""
        inputs, _ = self._tensors(self.whole, update, self.config.batch.accumulation - 1)
        with self._autocast():
            return monitor.measure_norms(self.gpt, inputs)

    def _tensors(self, loader: Loader, update: int, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = loader.batch(update - 1, index)
        return (
            torch.from_numpy(inputs).to(self.device, non_blocking=True),
            torch.from_numpy(targets).to(self.device, non_blocking=True),
        )

    def _autocast(self) -> torch.autocast:
        enabled = self.config.precision == "bf16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=enabled)

    @contextlib.contextmanager
    def _synchronising(self, last: bool) -> Iterator[None]:
        """Gradients are exchanged once an update, in its last backward pass."""
        if self.place.world == 1:
            yield
        elif self.config.parallel == "fsdp":
            self.gpt.set_requires_gradient_sync(last)
            yield
        else:
            with contextlib.nullcontext() if last else self.model.no_sync():
                yield


# ------------------------------------------------------------------------------- a whole run


def train(config: RunConfig, *, stop_after: int | None = None, progress: bool = True) -> Path:
    """Train, from the start or from the last whole checkpoint; return the run's folder.

    stop_after: end after this update with a checkpoint, as if interrupted; where it is done
    already, nothing changes but for a line on stderr. progress: a bar on stderr, on a terminal.
    SIGINT and SIGTERM, to any of the processes, end the run in all of them after the update in
    hand, with a checkpoint, by KeyboardInterrupt.

    Raises ``ConfigError`` where the folder holds a run of another configuration (with the
    difference), ``ShardError``, ``DataError``, ``CheckpointError`` and ``TrainingError``;
    ``RunLogError`` and ``OSError`` for a folder that cannot be read or written; ``ValueError`` for
    a stop_after below 1.
    """
    if stop_after is not None and stop_after < 1:
        raise ValueError(f"stop_after is an update, counted from 1, not {stop_after}")
    place, device = processes()
    trainer = Trainer(config, place, device)
    done = _resume(trainer)
    last = config.optim.updates if stop_after is None else min(stop_after, config.optim.updates)
    stopped = None
    if stop_after is not None and stop_after <= done:
        if place.is_first:
            print(
                f"model.train: {config.folder} has done {done} updates; there is nothing to do "
                f"up to update {stop_after}",
                file=sys.stderr,
            )
    else:
        with _interruption() as interrupted, _logs(trainer, done) as logs:
            stopped = _loop(trainer, logs, done, last, interrupted, progress and place.is_first)
    if place.world > 1:
        # Not after an error: the others may be waiting for this process in a collective. torchrun
        # ends them when this one has ended.
        torch.distributed.destroy_process_group()
    if stopped is not None:
        raise KeyboardInterrupt(stopped)
    return config.folder


def _loop(
    trainer: Trainer,
    logs: _Logs,
    done: int,
    last: int,
    interrupted: list[int],
    progress: bool,
) -> str | None:
    """Make the updates after `done` to `last`; return why they ended before, if they did."""
    config = trainer.config
    if config.measure.enabled and done == 0 < last:
        _warm_up_theta()
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not (progress and console.is_terminal)) as bar:
        task = bar.add_task(config.name, total=config.optim.updates, completed=done)
        for update in range(done + 1, last + 1):
            entry = _one_update(trainer, logs, update)
            bar.update(
                task,
                completed=update,
                description=f"{config.name}  loss {entry['loss']:.3f}  "
                f"norm {entry['grad_norm']:.3g}  {entry['tokens_per_second']:.0f} tokens/s",
            )
            received = _received(trainer, interrupted)
            if received or update == last or update % config.checkpoint_every == 0:
                logs.sync()
                checkpoint.save(
                    config.folder / CHECKPOINTS,
                    update,
                    trainer.gpt,
                    trainer.optimizer,
                    _description(trainer),
                    keep=config.keep,
                    place=trainer.place,
                )
            if received:
                return f"stopped by signal {received} after update {update}"
    return None


def _received(trainer: Trainer, interrupted: list[int]) -> int:
    """The number of a signal that any process has received, 0 for none.

    The same in all processes, as they write a checkpoint together: a signal that reaches one of
    them an update later than another, or not at all, would leave each waiting for the other.
    """
    number = interrupted[0] if interrupted else 0
    if trainer.place.world == 1:
        return number
    largest = torch.tensor(number, device=trainer.device)
    torch.distributed.all_reduce(largest, op=torch.distributed.ReduceOp.MAX)
    return int(largest)


def _one_update(trainer: Trainer, logs: _Logs, update: int) -> dict[str, Any]:
    config = trainer.config
    start = time.perf_counter()
    value = trainer.gradients(update)
    if not math.isfinite(value):
        raise TrainingError(f"the loss of update {update} is {value}")
    computing = time.perf_counter() - start
    # Measured before the step: with the parameters that the loss and the gradients belong to.
    _measure(trainer, logs, update)
    start = time.perf_counter()
    norm, rate = trainer.step(update)
    if not math.isfinite(norm):
        raise TrainingError(f"the gradient norm of update {update} is {norm}")
    seconds = computing + time.perf_counter() - start
    tokens = config.batch.sequences * config.model.context
    entry = {
        "loss": value,
        "grad_norm": norm,
        "lr": rate,
        "tokens": update * tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "mfu": hardware.utilisation(
            config.model, trainer.device, tokens / seconds, trainer.place.world
        ),
        "memory": hardware.peak_memory(trainer.device),
    }
    logs.write(runlog.TRAINING, update, entry)
    return entry


def _measure(trainer: Trainer, logs: _Logs, update: int) -> None:
    measure = trainer.config.measure
    if measure.takes_attention(update, trainer.config.optim.updates):
        for entry in trainer.measure_attention(update):
            logs.write(runlog.ATTENTION, update, entry)
        logs.write(runlog.NORMS, update, trainer.measure_norms(update))
    if measure.takes_gradients(update):
        logs.write(runlog.GRADIENTS, update, monitor.gradient_norms(trainer.gpt))


def _warm_up_theta() -> None:
    """Load the compiled θ kernels before the first update is timed."""
    from theory.theta import theta_rows

    theta_rows(np.full((2, 4), 0.25, dtype=np.float32))


# --------------------------------------------------------------------------- start and resume


def processes() -> tuple[Place, torch.device]:
    """This process among those that torchrun started, if it did, and its device."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    place = Place(int(os.environ.get("RANK", "0")), world)
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")
    else:
        device = torch.device("cpu")
        torch.use_deterministic_algorithms(True)
    if world > 1:
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return place, device


def _resume(trainer: Trainer) -> int:
    """Restore the last whole checkpoint; return its update, 0 for none.

    Raises ``ConfigError``, with the difference, where the run was started with another
    configuration, ``ShardError`` where it was started on other data, ``RunLogError`` where its
    meta.json is damaged, and ``CheckpointError`` where all its checkpoints are.
    """
    folder = trainer.config.folder
    meta = folder / META
    if meta.is_file():
        _require_same(trainer, runlog.read_meta(folder), meta)
    found, faults = checkpoint.latest(folder / CHECKPOINTS)
    if found is None and faults:
        raise CheckpointError(
            f"no whole checkpoint is left in {folder / CHECKPOINTS}; remove the run's folder to "
            f"start anew ({faults[0]})"
        )
    if trainer.place.is_first:
        for fault in faults:
            print(f"model.train: {fault}; going back to the one before", file=sys.stderr)
    trainer.place.wait()
    if trainer.place.is_first and not meta.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        read = trainer.loader.tokens(trainer.config.optim.updates)
        entropy = {"unigram_entropy": trainer.shards.unigram_entropy(read)}
        whole = meta.with_suffix(".part")
        text = json.dumps(_description(trainer) | entropy, indent=1) + "\n"
        whole.write_text(text, encoding="utf-8")
        os.replace(whole, meta)
    if found is None:
        return 0
    _require_same(trainer, found.state, found.path)
    _tell_of_other_threads(trainer, found.state)
    checkpoint.restore(found, trainer.gpt, trainer.optimizer, place=trainer.place)
    return found.update


def _require_same(trainer: Trainer, recorded: dict[str, Any], where: Path) -> None:
    try:
        then = validated(recorded["config"], where)
    except ConfigError as error:
        raise RunLogError(str(error)) from None
    differences = difference(then, trainer.config)
    if differences:
        raise ConfigError(
            f"{where} is of another configuration: {'; '.join(differences)}. Give the run another "
            "name, or remove its folder"
        )
    if recorded.get("data") != trainer.shards.fingerprint:
        raise ShardError(
            f"{where} was trained on other data: {recorded.get('data')}, now "
            f"{trainer.shards.fingerprint}"
        )


def _tell_of_other_threads(trainer: Trainer, recorded: dict[str, Any]) -> None:
    """Losses after a resume are the same bit for bit on as many CPU threads only."""
    now = torch.get_num_threads()
    then = recorded.get("threads", now)  # older checkpoints do not say
    if trainer.place.is_first and then != now:
        print(
            f"model.train: the run began on {then} CPU thread(s) and goes on with {now}; losses "
            f"will agree to rounding, not bit for bit. OMP_NUM_THREADS={then} restores that",
            file=sys.stderr,
        )


def _description(trainer: Trainer) -> dict[str, Any]:
    """What a checkpoint and meta.json say of the run beside its numbers."""
    config = trainer.config
    return {
        "config": as_json(config),
        "config_hash": config_hash(config),
        "data": trainer.shards.fingerprint,
        "parameters": parameter_count(config.model),
        "device": hardware.describe(trainer.device),
        "threads": torch.get_num_threads(),
        "processes": trainer.place.world,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }


# ------------------------------------------------------------------------------------- logs


class _Logs:
    """The run's log in the first process, and nothing in the others."""

    def __init__(self, log: RunLog | None, board: Any) -> None:
        self._log = log
        self._board = board

    def write(self, kind: str, update: int, entry: dict[str, Any]) -> None:
        if self._log is not None:
            self._log.write(kind, update, entry)
        if self._board is not None and kind == runlog.TRAINING:
            for name in ("loss", "grad_norm", "lr", "tokens_per_second"):
                self._board.add_scalar(name, entry[name], update)

    def sync(self) -> None:
        if self._log is not None:
            self._log.sync()


def _summary_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError as error:
        hint = "pip install 'attention-sensitivity[tensorboard]'"
        raise TrainingError(f"tensorboard = true: {error.name} is missing: {hint}") from None
    return SummaryWriter


@contextlib.contextmanager
def _logs(trainer: Trainer, done: int) -> Iterator[_Logs]:
    if not trainer.place.is_first:
        yield _Logs(None, None)
        return
    folder = trainer.config.folder
    log = RunLog(folder, done)
    board: Any = None
    try:
        if trainer.config.tensorboard:
            SummaryWriter = _summary_writer()
            board = SummaryWriter(str(folder / "tensorboard"), purge_step=done + 1)
        yield _Logs(log, board)
    finally:
        log.close()
        if board is not None:
            board.close()


@contextlib.contextmanager
def _interruption() -> Iterator[list[int]]:
    """A list that receives the numbers of SIGINT and SIGTERM; a second of a kind acts at once.

    Under torchrun it does not: a terminal's Ctrl-C reaches us twice, as torchrun passes it on, and
    torchrun ends by itself a process that does not stop in time.
    """
    received: list[int] = []
    handled = (signal.SIGINT, signal.SIGTERM)
    under_torchrun = torch.distributed.is_torchelastic_launched()

    def remember(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if not under_torchrun:
            signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in handled}
    for number in handled:
        signal.signal(number, remember)
    try:
        yield received
    finally:
        for number in handled:
            signal.signal(number, before[number])


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; exit status 0, 1 where it cannot go on, 2 for a wrong call, 130 stopped."""
    parser = argparse.ArgumentParser(
        prog="model.train",
        # What argparse makes up puts CONFIG.toml last, where it would be one more KEY=VALUE.
        usage="%(prog)s [-h] CONFIG.toml [--set KEY=VALUE [KEY=VALUE ...]] [--stop-after UPDATE]",
        description=(__doc__ or "").split("\n")[0],
    )
    parser.add_argument("config", type=Path, metavar="CONFIG.toml")
    parser.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="such as optim.updates=20",
    )
    parser.add_argument("--stop-after", type=int, metavar="UPDATE", help="end there, resumable")
    options = parser.parse_args(argv)
    if options.stop_after is not None and options.stop_after < 1:
        parser.error(f"--stop-after {options.stop_after} is not positive")
    try:
        folder = train(load(options.config, options.set), stop_after=options.stop_after)
    except ConfigError as error:
        print(f"model.train: {error}", file=sys.stderr)
        return 2
    except (
        ShardError,
        DataError,
        CheckpointError,
        TrainingError,
        MissingWeights,
        RunLogError,
        OSError,
    ) as error:
        print(f"model.train: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print(f"model.train: {stop or 'stopped'}; the same command goes on", file=sys.stderr)
        return 130
    if int(os.environ.get("RANK", "0")) == 0:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        peak = hardware.peak_memory(device) / 2**30
        print(f"model.train: peak memory {peak:.2f} GiB", file=sys.stderr)
        print(folder)
    return 0


def command() -> NoReturn:
    """`main`, and the end of this process: as one of several, without Python's finalisation.

    FSDP's caches keep the process group, hence gloo's threads, past `destroy_process_group`. One
    that lets go of a tensor during finalisation is ended by Python in the midst of C++, which
    aborts the process after all its work is done. Logs and checkpoints are closed by then.
    """
    status = main()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    command()
