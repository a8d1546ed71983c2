"""The paper's aggregates of runs against hand-made logs, the figures and the command."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="the extra model is not installed")

from lab import layer_entry, run_config, write_logs

from model import runlog
from model.config import RunConfig
from model.runs import (
    RunError,
    by_architecture,
    find_runs,
    read_run,
    table,
    trajectory,
)
from model.spikes import SpikeRule

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "paper_checks" / "figures.py"
UPDATES = 60


def configuration(tmp_path: Path, block: str, seed: int, **changes: Any) -> RunConfig:
    name = changes.pop("name", f"{block}_{seed}")
    return run_config(
        tmp_path, name=name, seed=seed, model__block=block, optim__updates=UPDATES, **changes
    )


def finished_run(tmp_path: Path, block: str, seed: int, **changes: Any) -> Path:
    """60 updates: the loss falls by 1/100 each to seed/100, one spike at update 40 + seed."""
    losses = [seed / 100 + (UPDATES - update) / 100 for update in range(1, UPDATES + 1)]
    norms = [1.0] * UPDATES
    norms[40 + seed - 1] = 9.0
    attention = {
        1: [
            layer_entry(0, 0.9, 0.98, 0.99, entropy=0.95, p_max=0.01, theta=1.0),
            layer_entry(1, 0.8, 0.96, 0.97, entropy=0.85, p_max=0.03, theta=1.0),
        ],
        UPDATES: [
            layer_entry(0, 0.5 - seed / 100, 0.9, 0.95, entropy=0.6, p_max=0.1, theta=0.99),
            layer_entry(1, 0.6, 0.8 + seed / 100, 0.96, entropy=0.4, p_max=0.3, theta=0.97),
        ],
    }
    return write_logs(
        tmp_path / "logs",
        configuration(tmp_path, block, seed, **changes),
        losses=losses,
        norms=norms,
        attention=attention,
        gradients={50: [0.1, 0.2]},
    )


# ------------------------------------------------------------------------------- aggregation


def test_a_run_is_read_back(tmp_path: Path) -> None:
    run = read_run(finished_run(tmp_path, "pre_ln", 3))
    assert (run.updates, run.is_finished) == (UPDATES, True)
    assert run.checkpoints() == [1, UPDATES]
    assert [entry["layer"] for entry in run.layers_at(1)] == [0, 1]
    # The mean over the last 50 of 60 losses: 0.03 + (0 + 1 + … + 49)/50/100.
    assert run.final_loss() == pytest.approx(0.03 + 24.5 / 100, rel=1e-12)


def test_spikes_are_counted_from_one(tmp_path: Path) -> None:
    run = read_run(finished_run(tmp_path, "pre_ln", 3))
    assert run.spikes() == [43]
    assert run.spikes(SpikeRule(factor=10.0)) == []


def test_the_certificate_is_the_mean_of_medians_and_the_envelope_is_extreme(
    tmp_path: Path,
) -> None:
    runs = [read_run(finished_run(tmp_path, "pre_ln", seed)) for seed in (1, 3)]
    curve = trajectory(runs)
    assert curve.updates.tolist() == [1, UPDATES]
    # Medians 0.9 and 0.81 in one run, 0.9 and 0.83 in the other.
    assert curve.certificate == pytest.approx([0.97, (0.855 + 0.865) / 2])
    assert curve.theta == pytest.approx([1.0, 0.98])
    assert curve.lowest == pytest.approx([0.8, 0.47])
    assert curve.highest == pytest.approx([0.99, 0.96])
    assert curve.entropy == pytest.approx([0.9, 0.5])
    assert curve.largest == pytest.approx([0.02, 0.2])


def test_only_checkpoints_that_all_runs_have_are_averaged(tmp_path: Path) -> None:
    first = finished_run(tmp_path, "pre_ln", 1)
    second = finished_run(tmp_path, "pre_ln", 2)
    kept = [e for e in runlog.read(second, runlog.ATTENTION) if e["update"] != 1]
    (second / "attention.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in kept))
    assert trajectory([read_run(first), read_run(second)]).updates.tolist() == [UPDATES]


def test_without_exact_theta_the_curve_is_nan(tmp_path: Path) -> None:
    config = configuration(tmp_path, "pre_ln", 1, measure__exact_theta=False)
    entries = {1: [layer_entry(0, 0.8, 0.9, 1.0)]}
    ones = [1.0] * UPDATES
    folder = write_logs(tmp_path, config, losses=ones, norms=ones, attention=entries)
    curve = trajectory([read_run(folder)])
    assert np.isnan(curve.theta).all()
    assert curve.certificate == pytest.approx([0.9])


def test_the_table_has_sample_deviations(tmp_path: Path) -> None:
    runs = [read_run(finished_run(tmp_path, "pre_ln", seed)) for seed in (1, 2, 6)]
    runs.append(read_run(finished_run(tmp_path, "post_ln", 5)))
    pre, post = table(runs)
    losses = [0.255, 0.265, 0.305]
    assert (pre.block, pre.runs) == ("pre_ln", 3)
    assert pre.loss == pytest.approx(0.275)
    assert pre.loss_sd == pytest.approx(statistics.stdev(losses))
    assert pre.loss_sd != pytest.approx(statistics.pstdev(losses))
    assert (pre.spikes, pre.spikes_sd) == (1.0, 0.0)
    assert pre.certificate == pytest.approx((0.9 + 0.83) / 2)
    assert (post.block, post.runs, post.loss_sd, post.spikes_sd) == ("post_ln", 1, None, None)


def test_an_unfinished_run_has_no_place_in_the_table(tmp_path: Path) -> None:
    folder = finished_run(tmp_path, "pre_ln", 1)
    log = folder / "log.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    run = read_run(folder)
    assert not run.is_finished
    with pytest.raises(RunError, match="not finished: pre_ln_1"):
        table([run])


def test_groups_are_ordered_and_hold_equal_settings(tmp_path: Path) -> None:
    runs = [
        read_run(finished_run(tmp_path, block, seed))
        for block, seed in (("post_ln", 2), ("pre_ln", 7), ("pre_ln", 4))
    ]
    groups = by_architecture(runs)
    assert list(groups) == ["pre_ln", "post_ln"]
    assert [run.config.seed for run in groups["pre_ln"]] == [4, 7]


def test_runs_that_differ_in_more_than_name_and_seed_are_refused(tmp_path: Path) -> None:
    runs = [
        read_run(finished_run(tmp_path, "pre_ln", 1)),
        read_run(finished_run(tmp_path, "pre_ln", 2, optim__peak_lr=1e-4)),
    ]
    with pytest.raises(
        RunError,
        match=r"^pre_ln_1 and pre_ln_2 differ in more than name and seed: "
        r"optim\.peak_lr: 0\.003, now 0\.0001$",
    ):
        by_architecture(runs)


def test_runs_that_differ_in_what_touches_no_number_belong_together(tmp_path: Path) -> None:
    runs = [
        read_run(finished_run(tmp_path, "pre_ln", 1)),
        read_run(
            finished_run(
                tmp_path,
                "pre_ln",
                2,
                checkpoint_every=7,
                keep=9,
                tensorboard=True,
                out="elsewhere",
                data__shards="elsewhere",
            )
        ),
    ]
    assert by_architecture(runs) == {"pre_ln": runs}


def test_runs_on_other_data_are_refused(tmp_path: Path) -> None:
    """Though both are said to lie at the same path."""
    folders = [finished_run(tmp_path, "pre_ln", seed) for seed in (1, 2)]
    for folder, fingerprint in zip(folders, ("aa", "bb"), strict=True):
        meta = json.loads((folder / runlog.META).read_text())
        (folder / runlog.META).write_text(json.dumps(meta | {"data": fingerprint}))
    with pytest.raises(RunError, match=r"pre_ln_1 and pre_ln_2 differ .*: data: aa, now bb"):
        by_architecture([read_run(folder) for folder in folders])


def test_runs_without_attention_in_common_are_named(tmp_path: Path) -> None:
    runs = [read_run(finished_run(tmp_path, "pre_ln", seed)) for seed in (1, 2)]
    later = [entry | {"update": 2} for entry in runs[1].attention]
    with pytest.raises(RunError, match="measured in all of pre_ln_1, pre_ln_2"):
        trajectory([runs[0], dataclasses.replace(runs[1], attention=later)])
    with pytest.raises(RunError, match=r"^run pre_ln_2 has no attention measurements$"):
        trajectory([runs[0], dataclasses.replace(runs[1], attention=[])])


# ------------------------------------------------------------------------------ broken logs


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("gap", "without a gap"),
        ("twice", "without a gap"),
        ("empty", "without a gap"),
        ("garbage", "line 2: no entry"),
        ("attention", r"^[^ ]*attention\.jsonl, line 2: no entry"),
        ("no JSON", r"^[^ ]*meta\.json: "),
        ("list", r"^[^ ]*meta\.json: "),
        ("no config", r"^[^ ]*meta\.json: "),
        ("bad config", r"^[^ ]*meta\.json: model\.block: [^\n]*$"),
        ("no meta", r"^[^ ]*meta\.json: No such file"),
    ],
)
def test_a_damaged_log_is_named(tmp_path: Path, damage: str, message: str) -> None:
    folder = finished_run(tmp_path, "pre_ln", 1)
    log, meta = folder / "log.jsonl", folder / runlog.META
    lines = log.read_text().splitlines(keepends=True)
    if damage == "gap":
        log.write_text("".join(lines[:5] + lines[6:]))
    elif damage == "twice":
        log.write_text("".join(lines[:5] + lines[4:]))
    elif damage == "empty":
        log.write_text("")
    elif damage == "garbage":
        log.write_text("".join([lines[0], "{\n", *lines[2:]]))
    elif damage == "attention":
        path = folder / "attention.jsonl"
        path.write_text(path.read_text().replace("\n", "\n{\n", 1))
    elif damage == "no JSON":
        meta.write_text("{")
    elif damage == "list":
        meta.write_text("[]")
    elif damage == "no config":
        meta.write_text("{}")
    elif damage == "bad config":
        meta.write_text(meta.read_text().replace('"pre_ln"', '"sideways"'))
    else:
        meta.unlink()
    with pytest.raises(RunError, match=message):
        read_run(folder)


def test_runs_are_found_one_level_down_and_once(tmp_path: Path) -> None:
    second, first = finished_run(tmp_path, "pre_ln", 2), finished_run(tmp_path, "pre_ln", 1)
    (tmp_path / "logs" / "notes").mkdir()
    names = [run.config.name for run in find_runs([tmp_path / "logs", first, second])]
    assert names == ["pre_ln_1", "pre_ln_2"]
    with pytest.raises(RunError, match="no run"):
        find_runs([tmp_path / "logs" / "notes"])


# ---------------------------------------------------------------------------------- drawing


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The command run on two Pre-LN runs and one Post-LN run; its folder and its lines."""
    pytest.importorskip("matplotlib", reason="the extra report is not installed")
    folder = tmp_path_factory.mktemp("figures")
    for block, seed in (("pre_ln", 1), ("pre_ln", 2), ("post_ln", 1)):
        finished_run(folder, block, seed)
    command = [sys.executable, str(SCRIPT), str(folder / "logs"), "--out", str(folder / "out")]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return folder / "out", done.stdout.splitlines()


def test_the_command_draws_every_figure_and_the_table(drawn: tuple[Path, list[str]]) -> None:
    out, lines = drawn
    names = {f"figure_{n}.{suffix}" for n in (1, 2, 3, 4) for suffix in ("png", "pdf")}
    names |= {"table_1.md", "table_1.csv"}
    assert {path.name for path in out.iterdir()} == names
    assert {Path(line).name for line in lines} == names
    for path in out.iterdir():
        start = {".png": b"\x89PNG", ".pdf": b"%PDF"}.get(path.suffix, b"")
        assert path.read_bytes().startswith(start)
        assert path.stat().st_size > 50


def test_the_table_file_holds_the_numbers_unrounded(drawn: tuple[Path, list[str]]) -> None:
    out, _ = drawn
    with (out / "table_1.csv").open(newline="") as stream:
        pre, post = csv.DictReader(stream)
    assert pre["architecture"] == "Pre-LN"
    assert float(pre["loss"]) == pytest.approx(0.26, rel=1e-12)
    assert float(pre["loss_sd"]) == pytest.approx(0.01 / math.sqrt(2), rel=1e-9)
    assert (post["runs"], post["loss_sd"]) == ("1", "")
    text = (out / "table_1.md").read_text(encoding="utf-8")
    assert "| Pre-LN | 2 | 0.260 ± 0.007 | 1.0 ± 0.0 | 0.85750 |" in text
    assert "| Post-LN | 1 | 0.255 | 1.0 | 0.85500 |" in text


def curves(axis: Any) -> dict[str, Any]:
    return {line.get_label(): line.get_xydata() for line in axis.get_lines()}


def test_figures_1_and_3_plot_the_aggregates(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra report is not installed")
    from model.figures import figure_1, figure_3, figure_4

    runs = [read_run(finished_run(tmp_path, "pre_ln", seed)) for seed in (1, 3)]
    groups = by_architecture(runs)
    loss, norm, certificate, blocks = figure_1(groups).axes
    assert curves(loss)["Pre-LN"][-1] == pytest.approx([UPDATES, 0.02])
    # One of the two runs has its spike of 9 there.
    assert curves(norm)["Pre-LN"][40] == pytest.approx([41, 5.0])
    assert curves(certificate)["Pre-LN"].tolist() == [[1, 0.97], [UPDATES, pytest.approx(0.86)]]
    assert curves(blocks)["Pre-LN, seed 3"].tolist() == [[0, 0.1], [1, 0.2]]
    (axis,) = figure_3(groups).axes
    shown = curves(axis)
    assert shown["normalised entropy"][:, 1] == pytest.approx([0.9, 0.5])
    assert shown["largest weight"][:, 1] == pytest.approx([0.02, 0.2])
    assert shown["θ, exact (median)"][:, 1] == pytest.approx([1.0, 0.98])
    (axis,) = figure_4(groups).axes
    assert [bar.get_height() for bar in axis.patches] == pytest.approx([0.9, 0.83])


def test_figure_2_finds_the_identity_to_rounding() -> None:
    pytest.importorskip("matplotlib", reason="the extra report is not installed")
    from model.figures import FIGURE_2_EXHAUSTIVE, FIGURE_2_LENGTHS, figure_2

    identity, gaps = figure_2().axes
    steps = [patch.get_xy() for patch in identity.patches] + [
        line.get_xydata() for line in identity.get_lines()
    ]
    assert len(steps) == len(FIGURE_2_EXHAUSTIVE)
    assert max(float(np.max(points[:, 0])) for points in steps) < 1e-13
    assert [text.get_text() for text in gaps.get_xticklabels()] == list(map(str, FIGURE_2_LENGTHS))


# ------------------------------------------------------------------------------ wrong calls


@pytest.mark.parametrize(
    "kind", ["missing", "no run", "unfinished", "unmeasured", "no out", "a file"]
)
def test_a_wrong_call_ends_with_two_and_one_line(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from paper_checks.figures import main

    folder, arguments = tmp_path / "logs", ["--out", str(tmp_path / "out")]
    folder.mkdir()
    if kind == "missing":
        folder = tmp_path / "nowhere"
    elif kind == "unfinished":
        log = finished_run(tmp_path, "pre_ln", 1) / "log.jsonl"
        log.write_text(log.read_text().splitlines(keepends=True)[0])
    elif kind == "unmeasured":
        config = configuration(tmp_path, "pre_ln", 1, measure__enabled=False)
        ones = [1.0] * UPDATES
        write_logs(folder, config, losses=ones, norms=ones, attention={})
    elif kind == "no out":
        arguments = []
    elif kind == "a file":
        (tmp_path / "out").write_text("not to be written over")
    if kind in ("missing", "no out", "a file"):
        with pytest.raises(SystemExit) as stopped:
            main([str(folder), *arguments])
        assert stopped.value.code == 2
    else:
        assert main([str(folder), *arguments]) == 2
    message = capsys.readouterr().err
    expected = {
        "missing": "no such folder",
        "no run": "no run (a folder with meta.json)",
        "unfinished": "not finished: pre_ln_1",
        "unmeasured": "run pre_ln_1 has no attention measurements",
        "no out": "--out",
        "a file": "out: this is no folder",
    }[kind]
    assert expected in message
    assert not (tmp_path / "out").is_dir()
