"""The benchmarks run, judge splits exactly, and say so where a package is missing."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from theory.theta import theta

FOLDER = Path(__file__).resolve().parent / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def benchmarks() -> Iterator[None]:
    """The folder of the benchmarks is on the path, for the workers that they start as well."""
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


@pytest.fixture
def peers() -> ModuleType:
    return importlib.import_module("peers")


def test_a_small_run(tmp_path: Path) -> None:
    markdown, figure = tmp_path / "table.md", tmp_path / "cost.png"
    done = subprocess.run(
        [
            *(sys.executable, str(FOLDER / "theta_rows.py"), "--quick", "--rows", "3"),
            *("--repeat", "1", "--lengths", "8", "41", "--no-peers"),
            *("--markdown", str(markdown), "--figure", str(figure)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "exact θ / plain meet in the middle at L = 8" in done.stdout
    table = markdown.read_text("utf-8")
    assert "| rows | s = 0.1 | s = 1 | s = 6 | greedy | `P.max` | open |" in table
    for kind in ("| L = 8 |", "| L = 41 |", "| 301-392 | 42 |"):
        assert kind in table
    assert "648 real attention rows" in table
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_splits_are_judged_exactly(peers: ModuleType) -> None:
    row = np.random.default_rng(1).dirichlet(np.ones(9)).tolist()
    best = max(
        peers.theta_of_split(row, [k for k in range(9) if code >> k & 1]) for code in range(1 << 9)
    )
    assert best == theta(row)
    assert peers.theta_of_split([3.0, 2.0, 2.0], [1, 2]) == float(1 - Fraction(1, 49))
    assert peers.theta_of_split([3.0, 2.0, 2.0], [1]) < theta([3, 2, 2], check_sum=False)
    with pytest.raises(ValueError, match="no indices of the row"):
        peers.theta_of_split([1.0, 1.0], [2])


def test_integers_for_packages_that_want_them(peers: ModuleType) -> None:
    row = [0.1, 0.7, 5e-324, 0.2]
    exact = peers.exact_integers(row)
    assert [Fraction(n, sum(exact)) for n in exact] == [
        Fraction(w) / sum(map(Fraction, row)) for w in row
    ]
    scaled = peers.int64_integers(row)
    assert abs(sum(scaled) - peers.INT64_TOTAL) <= len(row)
    assert max(scaled) < 2**63


def test_a_missing_package_and_a_missing_answer(peers: ModuleType) -> None:
    output = importlib.import_module("output")
    gone = peers.Peer(package="no-such-package-for-splits", method="none", split=list)
    record = peers.ask(gone, [], limit=1.0)
    assert record.version is None
    assert output.faults(record) == "not installed"
    slow = peers.Answers(kind="L = 8", seconds=[1e-3], wrong=1, off=0.25, failure="more than 1 s")
    told = output.faults(peers.Record(peer=gone, version="1", answers=[slow]))
    assert told == "θ wrong on 1 of 1 rows, by up to 2.5e-01; L = 8: more than 1 s"


def test_a_peer_in_its_worker(peers: ModuleType) -> None:
    highs = next(peer for peer in peers.PEERS if peer.package == "scipy")
    row = [0.5, 0.3, 0.1, 0.1]
    record = peers.ask(highs, [("L = 4", [(row, 1.0), (row, 0.5)])], limit=60.0)
    (answers,) = record.answers
    assert answers.failure is None
    assert len(answers.seconds) == 2
    # The second θ is a planted falsehood.
    assert answers.wrong == 1
    assert answers.off == 0.5


def test_the_cost_of_differentials(capsys: pytest.CaptureFixture[str]) -> None:
    """A small run; its times are not judged, as whatever else runs would be judged with them."""
    differentials = importlib.import_module("differentials")
    assert differentials.main(["--quick", "--repeat", "1"]) in (0, 1)
    heading, row, summary = capsys.readouterr().out.splitlines()
    assert heading.split() == ["module", "L", "forward", "ms", "JVP", "VJP", "row", "ms"]
    assert row.startswith("attention, 2 heads, width 8")
    assert summary.startswith("at most ")


def test_differentials_that_cost_too_much_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    differentials = importlib.import_module("differentials")
    for vjp, status in ((5.0, 0), (5.1, 1)):
        monkeypatch.setattr(differentials, "measure", lambda *_, v=vjp: (1.0, 2.0, v, 0.1))
        assert differentials.main(["--quick"]) == status


def test_the_cost_of_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    """A small run; its times are not judged."""
    bounds = importlib.import_module("attention_bounds")
    assert bounds.main(["--quick", "--repeat", "1"]) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[-3:] == ["gauge", "covariance", "moments"]
    assert row.count(" ×") == 6
