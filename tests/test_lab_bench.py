"""The benchmark keeps an update's sequences, and what it cannot measure it says."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the extra model is not installed")

from lab import as_toml, run_config  # noqa: E402

from model import bench, hardware, train  # noqa: E402
from model.config import ConfigError, ModelConfig, RunConfig  # noqa: E402
from model.data import DataError  # noqa: E402
from model.shards import Shards  # noqa: E402


@pytest.fixture(autouse=True)
def _as_before() -> object:
    """Torch's settings as they were."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(deterministic)


def die(_: RunConfig) -> None:
    """Stands for a measurement that the system kills."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("micro", "accumulation"), [(1, 8), (2, 4), (8, 1)])
def test_the_accumulation_adapts(tmp_path: Path, micro: int, accumulation: int) -> None:
    config = bench.with_micro(run_config(tmp_path), micro, 5)
    assert (config.batch.micro, config.batch.accumulation) == (micro, accumulation)
    assert config.batch.sequences == 8
    assert config.optim.updates == bench.WARM_UP + 5


def test_a_micro_batch_that_does_not_divide_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="3 does not divide 8"):
        bench.with_micro(run_config(tmp_path), 3, 5)


def test_what_is_measured(tmp_path: Path) -> None:
    config = bench.with_micro(run_config(tmp_path), 2, 4)
    case = bench.measure(config)
    assert (case.micro, case.accumulation, case.updates) == (2, 4, 4)
    assert case.tokens_per_update == 8 * config.model.context
    assert case.seconds is not None
    assert case.tokens_per_second == pytest.approx(4 * case.tokens_per_update / case.seconds)
    assert case.first_update_seconds is not None
    assert case.first_update_seconds > 0
    assert (case.mfu, case.fault) == (None, None), "a CPU has no peak in the table"
    assert case.memory is not None
    assert 2**24 < case.memory < 2**36
    assert not (tmp_path / "runs").exists(), "a benchmark writes no run"


def test_synthetic_tokens_are_as_many_as_are_read(tmp_path: Path) -> None:
    config = bench.with_micro(run_config(tmp_path, data__shards="nowhere"), 4, 2)
    synthetic = bench.write_synthetic(config, tmp_path / "synthetic")
    trainer = train.Trainer(synthetic, train.Place(), torch.device("cpu"))
    assert trainer.loader.updates == config.optim.updates
    assert bench.measure(synthetic).fault is None


def test_out_of_memory_is_a_fault_of_one_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> float:
        raise torch.OutOfMemoryError("tried to allocate 9 GiB\nand more")

    monkeypatch.setattr(bench.Trainer, "gradients", fail)
    case = bench.measure(bench.with_micro(run_config(tmp_path), 2, 4))
    assert case.fault == "out of memory: tried to allocate 9 GiB"
    assert case.tokens_per_second is None


def test_the_command_writes_a_table_and_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = as_toml(run_config(tmp_path, data__shards="nowhere"), tmp_path / "run.toml")
    lines = tmp_path / "bench.jsonl"
    arguments = ["--updates", "2", "--micro", "2", "8", "--synthetic", "--json", str(lines)]
    assert bench.main([str(path), *arguments]) == 0
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [(case["micro"], case["accumulation"]) for case in found] == [(2, 4), (8, 1)]
    assert all(case["tokens_per_second"] > 0 and case["mfu"] is None for case in found)
    printed = capsys.readouterr().out
    assert "2 × 4" in printed
    assert "unknown device" in printed
    assert "GiB" in printed


def test_without_shards_the_command_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = as_toml(run_config(tmp_path, data__shards="nowhere"), tmp_path / "run.toml")
    assert bench.main([str(path), "--updates", "1", "--micro", "8"]) == 1
    assert "model.data prepare" in capsys.readouterr().err


def test_a_vocabulary_smaller_than_the_datas_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = as_toml(run_config(tmp_path, model__vocabulary=63), tmp_path / "run.toml")
    assert bench.main([str(path), "--updates", "1", "--micro", "8"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"model.bench: {tmp_path / 'shards'} has a vocabulary of 64; model.vocabulary is 63"
    )


def test_synthetic_tokens_fit_16_bits_whatever_the_vocabulary(tmp_path: Path) -> None:
    config = bench.with_micro(run_config(tmp_path, model__vocabulary=10**9), 4, 2)
    bench.write_synthetic(config, tmp_path / "synthetic")
    assert Shards(tmp_path / "synthetic").vocabulary == 10**9


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nope/x.json", "No such file or directory"),
        ("run.toml/x.json", "Not a directory"),
        ("", "Is a directory"),
    ],
)
def test_a_place_for_lines_that_is_none_is_named_before_anything_is_measured(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: str,
    message: str,
) -> None:
    def measured(_: RunConfig) -> None:
        pytest.fail("measured first")

    monkeypatch.setattr(bench, "measure_apart", measured)
    path = as_toml(run_config(tmp_path), tmp_path / "run.toml")
    lines = tmp_path / place
    with pytest.raises(SystemExit) as stopped:
        bench.main([str(path), "--micro", "8", "--json", str(lines)])
    assert stopped.value.code == 2
    assert f"error: --json {lines}: {message}" in capsys.readouterr().err


def test_the_usage_is_an_order_that_parses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--help"])
    shown = capsys.readouterr().out
    usage, _, described = shown.partition("\n\n")
    assert usage.index("CONFIG.toml") < usage.index("--micro") < usage.index("--set")
    for option in ("--updates", "--micro", "--synthetic", "--set", "--json"):
        assert option in usage
        assert option in described


def test_a_process_that_dies_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "measure", die)
    with pytest.raises(DataError, match="micro-batches of 2 died"):
        bench.measure_apart(bench.with_micro(run_config(tmp_path), 2, 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--micro", "3"], "does not divide"),
        (["--micro", "0"], "positive"),
        (["--updates", "0"], "positive"),
        (["--set", "nonsense"], "section.key=value"),
    ],
)
def test_a_wrong_call_is_explained(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = as_toml(run_config(tmp_path), tmp_path / "run.toml")
    with pytest.raises(SystemExit) as stopped:
        bench.main([str(path), *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


# --------------------------------------------------------------------------------- hardware


def test_the_work_of_a_token_is_counted_by_hand() -> None:
    config = ModelConfig(layers=2, width=8, heads=2, ffn_width=16, context=4, vocabulary=10)
    # Per layer 4·8·8 + 2·8·16 weights and two LayerNorms; a final LayerNorm; the tied head.
    weights = 2 * (256 + 256 + 32) + 16 + 80
    assert hardware.flops_per_token(config) == 6 * weights + 12 * 2 * 8 * 4
    untied = config.model_copy(update={"tied_head": False})
    assert hardware.flops_per_token(untied) == hardware.flops_per_token(config)
    without = config.model_copy(update={"positions": "none"})
    assert hardware.flops_per_token(without) == hardware.flops_per_token(config)


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 NVL", 835e12),
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA GeForce GTX 1080", None),
    ],
)
def test_peaks_go_by_the_longest_name(
    name: str, peak: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: name)
    gpu = torch.device("cuda", 0)
    assert hardware.peak_flops(gpu) == peak
    assert hardware.describe(gpu) == name
    config = ModelConfig()
    used = hardware.utilisation(config, gpu, 76_000.0, 2)
    if peak is None:
        assert used is None
    else:
        assert used == 76_000.0 * hardware.flops_per_token(config) / (2 * peak)


def test_the_goal_on_an_h200_is_forty_per_cent(monkeypatch: pytest.MonkeyPatch) -> None:
    """76,000 tokens a second of the 774M model, all its attention counted."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    used = hardware.utilisation(ModelConfig(), torch.device("cuda", 0), 76_000.0)
    assert used == pytest.approx(0.40, abs=0.01)


def test_a_cpu_has_no_peak() -> None:
    cpu = torch.device("cpu")
    assert hardware.peak_flops(cpu) is None
    assert hardware.utilisation(ModelConfig(), cpu, 1e9) is None
    assert hardware.describe(cpu).startswith("CPU, ")
    assert hardware.peak_memory(cpu) > 2**24
