"""Training is deterministic, resumes bit for bit, and is the same on one process and on two."""

from __future__ import annotations

import contextlib
import functools
import gzip
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra model is not installed")

from lab import VOCABULARY, as_toml, run_config, write_shards  # noqa: E402

from model import checkpoint, runlog  # noqa: E402
from model.checkpoint import CheckpointError, Place  # noqa: E402
from model.config import ConfigError, OptimConfig, RunConfig  # noqa: E402
from model.data import DataError  # noqa: E402
from model.gpt import GPT, loss  # noqa: E402
from model.monitor import gradient_norms, measure_norms  # noqa: E402
from model.schedule import learning_rate, parameter_groups  # noqa: E402
from model.shards import ShardError  # noqa: E402
from model.train import CHECKPOINTS, Trainer, TrainingError, main, train  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _as_before() -> Any:
    """One thread, and torch's settings as they were."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)


def numbers(folder: Path) -> list[tuple[float, float]]:
    """Loss and gradient norm of every update."""
    return [(e["loss"], e["grad_norm"]) for e in runlog.read(folder, runlog.TRAINING)]


def parameters(config: RunConfig) -> dict[str, Any]:
    """The parameters of the last checkpoint of a run."""
    from safetensors.torch import load_file

    found, _ = checkpoint.latest(config.folder / CHECKPOINTS)
    assert found is not None
    return load_file(found.path / checkpoint.MODEL)


def same_parameters(first: RunConfig, second: RunConfig) -> bool:
    one, other = parameters(first), parameters(second)
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


# ---------------------------------------------------------------------- schedule and groups


def test_the_schedule_is_the_papers() -> None:
    config = OptimConfig()
    assert learning_rate(config, 1) == pytest.approx(6e-7, rel=1e-15)
    assert learning_rate(config, 500) == 3e-4
    assert learning_rate(config, 1250) == pytest.approx(1.5e-4, rel=1e-12)
    assert learning_rate(config, 2000) == 0.0
    rates = [learning_rate(config, update) for update in range(1, 2001)]
    assert rates == sorted(rates[:500]) + sorted(rates[500:], reverse=True)
    floored = OptimConfig(floor=0.1, warmup=0, updates=10)
    assert learning_rate(floored, 10) == pytest.approx(3e-5)
    assert learning_rate(floored, 1) < 3e-4


@pytest.mark.parametrize("decay", ["matrices", "all"])
def test_each_parameter_is_in_one_group(tmp_path: Path, decay: str) -> None:
    config = run_config(tmp_path, optim__decay=decay)
    model = GPT(config.model)
    groups = parameter_groups(model, config.optim)
    placed = [id(p) for group in groups for p in group["params"]]  # type: ignore[attr-defined]
    assert sorted(placed) == sorted(id(p) for p in model.parameters())
    undecayed = [g for g in groups if g["weight_decay"] == 0.0]
    if decay == "all":
        assert undecayed == []
    else:
        (group,) = undecayed
        assert all(p.dim() == 1 for p in group["params"])  # type: ignore[attr-defined]


# ----------------------------------------------------------------------- the same bit for bit


def test_two_runs_are_the_same_bit_for_bit(tmp_path: Path) -> None:
    first, second = (run_config(tmp_path, name=name) for name in ("one", "two"))
    for config in (first, second):
        train(config, progress=False)
    assert len(numbers(first.folder)) == 6
    assert numbers(first.folder) == numbers(second.folder)
    assert same_parameters(first, second)
    attention = [runlog.read(c.folder, runlog.ATTENTION) for c in (first, second)]
    assert attention[0] == attention[1]


def test_another_seed_gives_other_losses_on_the_same_data(tmp_path: Path) -> None:
    first, second = run_config(tmp_path, name="one"), run_config(tmp_path, name="two", seed=4)
    for config in (first, second):
        train(config, progress=False)
    assert numbers(first.folder)[0] != numbers(second.folder)[0]
    one, other = (Trainer(c, Place(), torch.device("cpu")).loader for c in (first, second))
    assert np.array_equal(one.batch(3, 1)[0], other.batch(3, 1)[0])


def test_three_and_three_updates_are_six(tmp_path: Path) -> None:
    whole, halves = run_config(tmp_path, name="whole"), run_config(tmp_path, name="halves")
    train(whole, progress=False)
    train(halves, stop_after=3, progress=False)
    assert len(numbers(halves.folder)) == 3
    train(halves, progress=False)
    assert numbers(whole.folder) == numbers(halves.folder)
    assert same_parameters(whole, halves)
    for kind in runlog.KINDS[1:]:
        assert runlog.read(whole.folder, kind) == runlog.read(halves.folder, kind)


def test_entries_behind_the_checkpoint_are_made_anew(tmp_path: Path) -> None:
    """A run killed between two checkpoints, in the middle of a line."""
    whole, killed = run_config(tmp_path, name="whole"), run_config(tmp_path, name="killed")
    train(whole, progress=False)
    train(killed, progress=False)
    shutil.rmtree(killed.folder / CHECKPOINTS / "update_000006")
    log = killed.folder / "log.jsonl"
    log.write_text(log.read_text()[:-40])
    train(killed, progress=False)
    assert numbers(whole.folder) == numbers(killed.folder)
    assert same_parameters(whole, killed)


@pytest.mark.timeout(900)
def test_kills_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    whole = run_config(tmp_path, name="whole", optim__updates=90)
    train(whole, progress=False)
    done = subprocess.run(
        [sys.executable, "tests/kill_training.py", str(tmp_path), "20", "11"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    killed = run_config(tmp_path, name="killed", checkpoint_every=1, optim__updates=90)
    assert numbers(whole.folder) == numbers(killed.folder)
    assert same_parameters(whole, killed)
    assert int(done.stdout.split()[-1]) >= 3


def test_a_signal_ends_the_run_after_the_update_in_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_config(tmp_path, name="whole", optim__updates=90, measure__enabled=False)
    stopped = run_config(tmp_path, name="stopped", optim__updates=90, measure__enabled=False)
    before = signal.getsignal(signal.SIGTERM)
    gradients = Trainer.gradients

    def interrupted(self: Trainer, update: int) -> float:
        if update == 7:
            os.kill(os.getpid(), signal.SIGTERM)
        return gradients(self, update)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "gradients", interrupted)
        with pytest.raises(KeyboardInterrupt, match="stopped by signal 15 after update 7"):
            train(stopped, progress=False)
    assert signal.getsignal(signal.SIGTERM) is before
    done = len(numbers(stopped.folder))
    assert done == 7
    found, faults = checkpoint.latest(stopped.folder / CHECKPOINTS)
    assert found is not None
    assert (found.update, faults) == (done, [])
    train(whole, stop_after=done, progress=False)
    assert numbers(whole.folder) == numbers(stopped.folder)


def test_measuring_changes_nothing(tmp_path: Path) -> None:
    on = run_config(tmp_path, name="on", measure__every=1, measure__gradients_every=1)
    off = run_config(tmp_path, name="off", measure__enabled=False)
    for config in (on, off):
        train(config, progress=False)
    assert numbers(on.folder) == numbers(off.folder)
    assert same_parameters(on, off)
    assert runlog.read(off.folder, runlog.ATTENTION) == []


# -------------------------------------------------------------------------- what is averaged


def test_a_row_whose_theta_takes_hours_does_not_stop_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_time(P: np.ndarray, *, budget: float | None = None, **_: object) -> np.ndarray:
        assert budget is not None, "no limit: training would wait for ever"
        return np.where(np.arange(len(P)) < 2, np.nan, 1.0)

    monkeypatch.setattr("model.attention_stats.theta_rows", out_of_time)
    config = run_config(tmp_path)
    train(config, progress=False)
    entries = runlog.read(config.folder, runlog.ATTENTION)
    assert entries
    assert all(entry["theta_open"] == 2 and "theta" not in entry for entry in entries)


def test_accumulation_is_one_gradient_of_the_whole_batch(tmp_path: Path) -> None:
    """4 × 4 sequences give the gradient of 16, not four times it."""
    found = []
    for micro, accumulation in ((16, 1), (4, 4)):
        config = run_config(
            tmp_path,
            name=f"m{micro}",
            batch__micro=micro,
            batch__accumulation=accumulation,
            model__dropout=0.0,
        )
        trainer = Trainer(config, Place(), torch.device("cpu"))
        value = trainer.gradients(1)
        found.append((value, [p.grad.clone() for p in trainer.gpt.parameters()]))
    (one, gradients), (other, accumulated) = found
    assert one == pytest.approx(other, rel=1e-6)
    for g, a in zip(gradients, accumulated, strict=True):
        torch.testing.assert_close(g, a, rtol=1e-4, atol=1e-7)


def test_the_loss_is_the_mean_over_the_updates_micro_batches(tmp_path: Path) -> None:
    config = run_config(tmp_path, model__dropout=0.0)
    trainer = Trainer(config, Place(), torch.device("cpu"))
    with torch.no_grad():
        parts = []
        for index in range(2):
            inputs, targets = (torch.from_numpy(a) for a in trainer.loader.batch(4, index))
            parts.append(float(loss(trainer.gpt(inputs), targets)))
    assert trainer.gradients(5) == pytest.approx(math.fsum(parts) / 2, rel=1e-7)


def test_block_norms_and_the_rest_make_the_global_norm(tmp_path: Path) -> None:
    config = run_config(tmp_path)
    trainer = Trainer(config, Place(), torch.device("cpu"))
    trainer.gradients(1)
    norms = gradient_norms(trainer.gpt)
    flat = torch.cat([p.grad.flatten() for p in trainer.gpt.parameters()])
    assert norms["total"] == pytest.approx(float(flat.double().norm()), rel=1e-6)
    assert norms["total"] == pytest.approx(
        math.sqrt(sum(b * b for b in norms["blocks"]) + norms["rest"] ** 2), rel=1e-12
    )
    assert len(norms["blocks"]) == 2
    clipped, rate = trainer.step(1)
    assert clipped == pytest.approx(norms["total"], rel=1e-6)
    assert rate == 1.5e-3


def test_norm_factors_are_gamma_over_sigma(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = run_config(tmp_path, model__block="post_ln")
    model = GPT(config.model)
    torch.nn.init.normal_(model.blocks[1].norm1.weight)
    seen: list[Any] = []
    hook = model.blocks[1].norm1.register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    tokens = torch.randint(0, 60, (2, 24))
    summary = measure_norms(model, tokens)
    hook.remove()
    x = seen[0].detach().double().numpy()
    sigma = np.sqrt(x.var(axis=-1) + 1e-5)
    gamma = float(model.blocks[1].norm1.weight.detach().abs().max())
    entry = summary["norms"][2]
    assert entry["name"] == "1.attention"
    assert entry["max"] == pytest.approx(gamma / sigma.min(), rel=1e-5)
    assert entry["mean"] == pytest.approx(float((gamma / sigma).mean()), rel=1e-5)
    assert len(summary["norms"]) == 4
    assert summary["log_worst_token"] <= summary["log_product_of_worst"] + 1e-12
    assert summary["log_product_of_worst"] == pytest.approx(
        sum(math.log(e["max"]) for e in summary["norms"]), rel=1e-6
    )


# ------------------------------------------------------------------------ several processes


def _torchrun(folder: Path, config: RunConfig) -> dict[str, Any]:
    """What starts a run on two processes.

    Each writes its number to folder/process_RANK, and aborts in Python's finalisation, where
    gloo's threads would now and then have it abort.
    """
    (folder / "sitecustomize.py").write_text(
        "import atexit, os, pathlib\n"
        "if 'RANK' in os.environ:\n"
        "    atexit.register(os.abort)\n"
        f"    path = pathlib.Path({str(folder)!r}, 'process_' + os.environ['RANK'])\n"
        "    path.write_text(str(os.getpid()))\n"
    )
    toml = folder / f"{config.name}.toml"
    as_toml(config, toml)
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *("-m", "model.train", str(toml)),
    ]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": str(folder),
    }
    return {"args": command, "cwd": ROOT, "env": environment, "text": True}


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_are_one(tmp_path: Path, parallel: str) -> None:
    """Without dropout: its masks are each process's own."""
    changes: dict[str, Any] = {"model__dropout": 0.0, "parallel": parallel}
    one = run_config(tmp_path, name="one", **changes)
    train(one, progress=False)
    two = run_config(tmp_path, name="two", **changes)
    start = _torchrun(tmp_path, two)
    command = start.pop("args")
    for extra in (["--stop-after", "3"], []):
        done = subprocess.run(
            [*command, *extra], **start, capture_output=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
    assert len(numbers(two.folder)) == 6
    for (l1, n1), (l2, n2) in zip(numbers(one.folder), numbers(two.folder), strict=True):
        # Sums of float32 in another order.
        assert l1 == pytest.approx(l2, rel=2e-6)
        assert n1 == pytest.approx(n2, rel=2e-5)
    ones, twos = (runlog.read(c.folder, runlog.GRADIENTS) for c in (one, two))
    for first, second in zip(ones, twos, strict=True):
        assert first["blocks"] == pytest.approx(second["blocks"], rel=1e-4)
        assert first["total"] == pytest.approx(second["total"], rel=1e-4)


@pytest.mark.parametrize("whom", ["the second process", "all, as a terminal does"])
def test_a_signal_stops_two_processes_together(tmp_path: Path, whom: str) -> None:
    """Both write the checkpoint, of the same update; torchrun's own signals change nothing."""
    # More updates than anybody waits for.
    write_shards(tmp_path / "shards", 4_000_000, shard_tokens=2_000_000)
    config = run_config(
        tmp_path, name="told", optim__updates=20_000, checkpoint_every=10**6, measure__enabled=False
    )
    # A suite that runs in the background of a shell inherits an ignored SIGINT.
    attended = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        **_torchrun(tmp_path, config),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=attended,
    ) as running:
        log = config.folder / "log.jsonl"
        while running.poll() is None and not (log.exists() and log.stat().st_size):
            time.sleep(0.01)
        if whom == "the second process":
            os.kill(int((tmp_path / "process_1").read_text()), signal.SIGINT)
        else:
            os.killpg(running.pid, signal.SIGINT)
        try:
            _, said = running.communicate(timeout=120)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 1
    assert "stopped by signal 2 after update" in said
    done = len(numbers(config.folder))
    assert 0 < done < 20_000
    found, faults = checkpoint.latest(config.folder / CHECKPOINTS)
    assert found is not None
    assert not faults
    assert found.update == done


# --------------------------------------------------------------------------- the run's folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refusal(config: RunConfig, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which the command ends where it cannot go on, and changes nothing."""
    path = as_toml(config, config.data.shards.parent / "refused.toml")
    before = contents(config.folder)
    assert main([str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert contents(config.folder) == before
    return line.removeprefix("model.train: ")


def _pack(folder: Path) -> str:
    for path in folder.glob("*.jsonl"):
        path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    return f"{folder}: attention.jsonl.gz, gradients.jsonl.gz, log.jsonl.gz, norms.jsonl.gz packed"


def _garble(folder: Path) -> str:
    path = folder / "norms.jsonl"
    path.write_text("garbage\n" + path.read_text())
    return f"{path}, line 1: no entry of a log"


def _describe(text: str, message: str) -> Any:
    def damage(folder: Path) -> str:
        (folder / runlog.META).write_text(text)
        return f"{folder / runlog.META}: {message}"

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        _pack,
        _garble,
        _describe("{", "Expecting property name"),
        _describe("[]", "not the description of a run"),
        _describe('{"data": ""}', "not the description of a run"),
        _describe('{"config": {"name": "a", "mood": 1}}', "data: Field required; mood: Extra"),
    ],
    ids=["packed", "garbage", "no JSON", "a list", "no config", "another config"],
)
def test_a_folder_that_cannot_be_gone_on_with_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Any
) -> None:
    config = run_config(tmp_path)
    train(config, stop_after=3, progress=False)
    expected = damage(config.folder)
    assert refusal(config, capsys).startswith(expected)


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_in_the_folders_place_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    (tmp_path / "file").write_text("mine")
    line = refusal(run_config(tmp_path, out=str(tmp_path / out)), capsys)
    assert line.startswith("[Errno 20] Not a directory: ")
    assert str(tmp_path / "file") in line


@pytest.mark.parametrize("update", [0, -1])
def test_an_end_before_the_first_update_is_a_wrong_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], update: int
) -> None:
    config = run_config(tmp_path)
    with pytest.raises(ValueError, match=f"counted from 1, not {update}"):
        train(config, stop_after=update, progress=False)
    path = as_toml(config, tmp_path / "run.toml")
    with pytest.raises(SystemExit) as stopped:
        main([str(path), f"--stop-after={update}"])
    assert stopped.value.code == 2
    assert f"--stop-after {update} is not positive" in capsys.readouterr().err
    assert not config.folder.exists()


@pytest.mark.parametrize("update", [1, 2, 4])
def test_an_end_that_is_reached_already_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], update: int
) -> None:
    """Not even the entries behind the last checkpoint."""
    config = run_config(tmp_path, checkpoint_every=4, optim__updates=8)
    path = as_toml(config, tmp_path / "run.toml")
    train(config, stop_after=5, progress=False)
    shutil.rmtree(config.folder / CHECKPOINTS / "update_000005")
    before = contents(config.folder)
    assert main([str(path), "--stop-after", str(update)]) == 0
    told, memory = capsys.readouterr().err.splitlines()
    assert told == (
        f"model.train: {config.folder} has done 4 updates; there is nothing to do up to update "
        f"{update}"
    )
    assert "peak memory" in memory
    assert contents(config.folder) == before
    train(config, stop_after=5, progress=False)
    assert capsys.readouterr().err == ""


# ------------------------------------------------------------------------------ checkpoints


def test_every_broken_checkpoint_is_named_and_the_one_before_is_used(tmp_path: Path) -> None:
    config = run_config(tmp_path)
    train(config, progress=False)
    folder = config.folder / CHECKPOINTS
    newest, before = folder / "update_000006", folder / "update_000003"
    files = sorted(newest.iterdir())
    rng = random.Random(3)
    for trial in range(50):
        path = rng.choice(files)
        whole = path.read_bytes()
        broken = bytearray(whole)
        if trial % 2:
            broken[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        else:
            broken = broken[: rng.randrange(len(whole))]
        path.write_bytes(broken)
        with pytest.raises(CheckpointError, match=path.name):
            checkpoint.open_checkpoint(newest)
        found, faults = checkpoint.latest(folder)
        assert found is not None
        assert found.path == before
        assert path.name in faults[0]
        path.write_bytes(whole)
    files[0].unlink()
    assert files[0].name in checkpoint.latest(folder)[1][0]


def test_a_run_goes_on_from_the_checkpoint_before_a_broken_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, broken = run_config(tmp_path, name="whole"), run_config(tmp_path, name="broken")
    for config in (whole, broken):
        train(config, progress=False)
    path = broken.folder / CHECKPOINTS / "update_000006" / checkpoint.MODEL
    path.write_bytes(path.read_bytes()[:-1])
    train(broken, progress=False)
    assert "model.safetensors is corrupt" in capsys.readouterr().err
    assert numbers(whole.folder) == numbers(broken.folder)
    assert same_parameters(whole, broken)


def test_a_run_whose_checkpoints_are_all_broken_does_not_start_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = run_config(tmp_path)
    train(config, progress=False)
    checkpoints = config.folder / CHECKPOINTS
    for path in checkpoints.glob(f"*/{checkpoint.MODEL}"):
        path.write_bytes(path.read_bytes()[:-1])
    line = refusal(config, capsys)
    assert f"no whole checkpoint is left in {checkpoints}; remove the run's folder" in line
    assert "update_000006/model.safetensors is corrupt" in line
    assert "going back" not in line
    assert len(numbers(config.folder)) == 6


def test_a_run_killed_before_its_first_checkpoint_starts_anew(tmp_path: Path) -> None:
    whole, killed = run_config(tmp_path, name="whole"), run_config(tmp_path, name="killed")
    for config in (whole, killed):
        train(config, progress=False)
    for path in (killed.folder / CHECKPOINTS).iterdir():
        path.rename(path.with_name(path.name.replace("update_", "unfinished_")))
    train(killed, progress=False)
    assert numbers(whole.folder) == numbers(killed.folder)
    assert same_parameters(whole, killed)


def test_going_on_with_other_threads_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = run_config(tmp_path)
    train(config, stop_after=3, progress=False)
    torch.set_num_threads(torch.get_num_threads() + 1)
    try:
        train(config, progress=False)
    finally:
        torch.set_num_threads(torch.get_num_threads() - 1)
    assert capsys.readouterr().err.count("goes on with") == 1


def test_old_checkpoints_are_removed(tmp_path: Path) -> None:
    config = run_config(tmp_path, checkpoint_every=1, keep=2)
    train(config, progress=False)
    names = sorted(path.name for path in (config.folder / CHECKPOINTS).iterdir())
    assert names == ["update_000005", "update_000006"]


def test_another_configuration_is_refused_with_the_difference(tmp_path: Path) -> None:
    config = run_config(tmp_path)
    train(config, stop_after=3, progress=False)
    with pytest.raises(ConfigError, match=r"optim\.peak_lr: 0\.003, now 0\.001\. Give the run"):
        train(run_config(tmp_path, optim__peak_lr=1e-3), progress=False)
    assert len(numbers(config.folder)) == 3
    train(run_config(tmp_path, keep=5, checkpoint_every=2), progress=False)
    assert len(numbers(config.folder)) == 6


def test_other_data_is_refused(tmp_path: Path) -> None:
    config = run_config(tmp_path)
    train(config, stop_after=3, progress=False)
    shutil.rmtree(tmp_path / "shards")
    write_shards(tmp_path / "shards", 20_000, seed=6)
    with pytest.raises(ShardError, match="was trained on other data"):
        train(config, progress=False)


def test_the_same_data_elsewhere_is_gone_on_with(tmp_path: Path) -> None:
    whole, moved = run_config(tmp_path, name="whole"), run_config(tmp_path, name="moved")
    train(whole, progress=False)
    train(moved, stop_after=3, progress=False)
    shutil.copytree(tmp_path / "shards", tmp_path / "copy")
    elsewhere = run_config(tmp_path, name="moved", data__shards=str(tmp_path / "copy"))
    train(elsewhere, progress=False)
    assert numbers(whole.folder) == numbers(elsewhere.folder)
    assert same_parameters(whole, elsewhere)


def test_a_vocabulary_smaller_than_the_datas_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = run_config(tmp_path, model__vocabulary=VOCABULARY - 1)
    line = refusal(config, capsys)
    assert line == f"{tmp_path / 'shards'} has a vocabulary of 64; model.vocabulary is 63"
    assert not config.folder.exists()
    Trainer(run_config(tmp_path, model__vocabulary=65), Place(), torch.device("cpu"))


def test_too_little_data_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    config = run_config(tmp_path, optim__updates=1000)
    with pytest.raises(DataError, match="has 20000 tokens; 1000 updates need 192001"):
        train(config, progress=False)
    assert not config.folder.exists()


def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path) -> None:
    config = run_config(tmp_path, optim__peak_lr=1e30, optim__clip=1e30, model__norm_eps=1e-30)
    with pytest.raises(TrainingError, match=r"the loss of update \d is (nan|inf)"):
        train(config, progress=False)


def test_gradients_that_are_no_numbers_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The update is in no log and in no checkpoint."""
    config = run_config(tmp_path, checkpoint_every=1)
    gradients = Trainer.gradients

    def overflowing(self: Trainer, update: int) -> float:
        value = gradients(self, update)
        if update == 3:
            next(self.gpt.parameters()).grad.fill_(math.inf)
        return value

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "gradients", overflowing)
        with pytest.raises(TrainingError, match="the gradient norm of update 3 is inf"):
            train(config, progress=False)
    assert len(numbers(config.folder)) == 2
    found, _ = checkpoint.latest(config.folder / CHECKPOINTS)
    assert found is not None
    assert found.update == 2


# ------------------------------------------------------------------------------------ hooks


@pytest.mark.parametrize("way", ["plain", "compiled", "recomputed"])
def test_rows_are_seen_exactly_once(tmp_path: Path, way: str) -> None:
    from model.attention_stats import capture_rows

    torch.manual_seed(0)
    config = run_config(tmp_path)
    gpt = GPT(config.model, activation_checkpointing=way == "recomputed")
    model = torch.compile(gpt, backend="eager") if way == "compiled" else gpt
    tokens = torch.randint(0, 60, (2, 24))
    if way == "compiled":
        model(tokens)
    model.eval()
    with torch.no_grad(), capture_rows((0, 1), rows=10, from_position=4, seed=0) as found:
        model(tokens)
    with torch.no_grad(), capture_rows((0, 1), rows=10, from_position=4, seed=0) as plain:
        gpt(tokens)
    assert list(found) == [0, 1]
    for layer in (0, 1):
        assert np.array_equal(found[layer].probabilities, plain[layer].probabilities)


def test_the_command_trains_and_tells_its_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = as_toml(run_config(tmp_path), tmp_path / "run.toml")
    assert main([str(path), "--set", "optim.updates=2", "name=short"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{tmp_path / 'runs' / 'short'}\n"
    memory = re.fullmatch(r"model\.train: peak memory (\d+\.\d\d) GiB\n", printed.err)
    assert memory is not None
    assert 0.01 < float(memory[1]) < 64
    assert len(numbers(tmp_path / "runs" / "short")) == 2


def test_the_usage_is_an_order_that_parses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    usage = capsys.readouterr().out.split("\n\n")[0]
    assert usage.index("CONFIG.toml") < usage.index("--set") < usage.index("--stop-after")


def test_the_installed_command_ignores_strangers_modules(tmp_path: Path) -> None:
    script = Path(sys.executable).parent / "attention-lab"
    if not script.exists():
        pytest.skip("attention-lab is not installed: `make install` again")
    for name in ("theory.py", "verify.py", "model.py", "paper_checks.py"):
        (tmp_path / name).write_text("raise RuntimeError('a stranger was imported')\n")
    done = subprocess.run(
        [str(script), "nowhere.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2
    assert done.stderr == "model.train: nowhere.toml: No such file or directory\n"
