"""Logs are appended to, cut back on resumption, and read only where they are whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from model import runlog
from model.runlog import RunLog, RunLogError


def log_of(folder: Path, updates: int) -> Path:
    """A run's logs with so many updates."""
    log = RunLog(folder, 0)
    for update in range(1, updates + 1):
        log.write(runlog.TRAINING, update, {"loss": 1.0 / update})
        if update % 2 == 0:
            log.write(runlog.ATTENTION, update, {"layer": 0})
            log.write(runlog.ATTENTION, update, {"layer": 1})
    log.sync()
    log.close()
    return folder


def test_what_is_written_is_read(tmp_path: Path) -> None:
    log_of(tmp_path, 3)
    assert runlog.read(tmp_path, runlog.TRAINING) == [
        {"update": update, "loss": 1.0 / update} for update in (1, 2, 3)
    ]
    assert [e["layer"] for e in runlog.read(tmp_path, runlog.ATTENTION)] == [0, 1]
    assert runlog.read(tmp_path, runlog.NORMS) == []
    assert runlog.read(tmp_path / "elsewhere", runlog.TRAINING) == []


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("kept", [0, 1, 2, 5])
def test_reopening_cuts_every_file_back(tmp_path: Path, kept: int) -> None:
    log_of(tmp_path, 4)
    RunLog(tmp_path, kept).close()
    updates = [entry["update"] for entry in runlog.read(tmp_path, runlog.TRAINING)]
    assert updates == list(range(1, min(kept, 4) + 1))
    measured = [entry["update"] for entry in runlog.read(tmp_path, runlog.ATTENTION)]
    assert measured == [update for update in (2, 2, 4, 4) if update <= kept]
    assert {path.suffix for path in tmp_path.iterdir()} == {".jsonl"}


@pytest.mark.parametrize("length", range(1, 27))
def test_a_killed_writers_last_line_is_left_out(tmp_path: Path, length: int) -> None:
    log_of(tmp_path, 2)
    path = tmp_path / "log.jsonl"
    whole = path.read_text().splitlines(keepends=True)
    assert length < len(whole[1])
    path.write_text(whole[0] + whole[1][:length])
    assert [e["update"] for e in runlog.read(tmp_path, runlog.TRAINING)] == [1]
    log = RunLog(tmp_path, 9)
    log.write(runlog.TRAINING, 2, {"loss": 0.5})
    log.close()
    assert path.read_text() == "".join(whole)


@pytest.mark.parametrize(
    "line", ["", "[1]", '["update"]', "3", "{}", "null", '{"loss": 1', '{"update": "2"}']
)
def test_a_broken_line_before_others_is_named(tmp_path: Path, line: str) -> None:
    log_of(tmp_path, 3)
    path = tmp_path / "log.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], line, lines[2]]) + "\n")
    before = contents(tmp_path)
    with pytest.raises(RunLogError, match=r"log\.jsonl, line 2: no entry"):
        runlog.read(tmp_path, runlog.TRAINING)
    with pytest.raises(RunLogError, match=r"log\.jsonl, line 2: no entry"):
        RunLog(tmp_path, 1)
    assert contents(tmp_path) == before


def test_a_log_that_is_damaged_is_named_before_any_is_cut(tmp_path: Path) -> None:
    """The last of the files is the damaged one."""
    path = log_of(tmp_path, 3) / "gradients.jsonl"
    path.write_bytes(b'{"update": 1}\n\xff\n{"update": 2}\n')
    before = contents(tmp_path)
    with pytest.raises(RunLogError, match=r"gradients\.jsonl: damaged \(.*invalid start byte\)"):
        RunLog(tmp_path, 1)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "not the description of a run"),
        ("{}", "not the description of a run"),
        ('{"config": 3}', "not the description of a run"),
        (None, "No such file"),
    ],
)
def test_a_broken_description_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / runlog.META).write_text(text)
    with pytest.raises(RunLogError, match=rf"meta\.json: {message}"):
        runlog.read_meta(tmp_path)


def test_a_number_that_json_lacks_is_refused(tmp_path: Path) -> None:
    log = RunLog(tmp_path, 0)
    with pytest.raises(ValueError, match="not JSON compliant"):
        log.write(runlog.TRAINING, 1, {"loss": float("nan")})
    log.write(runlog.TRAINING, 1, {"loss": 2.0})
    log.close()
    assert json.loads((tmp_path / "log.jsonl").read_text()) == {"update": 1, "loss": 2.0}


def packed(folder: Path) -> Path:
    """The training log of three updates, packed; the packed file."""
    plain = log_of(folder, 3) / "log.jsonl"
    path = folder / "log.jsonl.gz"
    path.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    plain.unlink()
    return path


def test_a_packed_log_reads_as_it_was(tmp_path: Path) -> None:
    packed(tmp_path)
    entries = runlog.read(tmp_path, runlog.TRAINING)
    assert [entry["loss"] for entry in entries] == [1.0, 1.0 / 2.0, 1.0 / 3.0]


def test_a_damaged_packed_log_is_named(tmp_path: Path) -> None:
    path = packed(tmp_path)
    whole = path.read_bytes()
    for damaged in (whole[:-9], b"", b"no gzip at all", whole[:20] + b"\xff" + whole[21:]):
        path.write_bytes(damaged)
        with pytest.raises(RunLogError, match=r"log\.jsonl\.gz"):
            runlog.read(tmp_path, runlog.TRAINING)


def test_a_packed_log_is_not_written_over(tmp_path: Path) -> None:
    path = packed(tmp_path)
    before = path.read_bytes()
    with pytest.raises(RunLogError, match="gunzip"):
        RunLog(tmp_path, 3)
    assert path.read_bytes() == before
