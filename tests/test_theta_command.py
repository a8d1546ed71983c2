"""The command exact-theta: what it prints and writes, and how it refuses."""

from __future__ import annotations

import csv
import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from theory.theta import Status, __main__, theta_rows

STRANGERS = ("theory.py", "verify.py", "model.py")
MULTIPLES = (11, 9, 9, 8, 7, 7, 6, 5, 5, 4, 4, 3, 3, 2)
# No closed form and no greedy choice settles this one; see tests/test_theta.py.
HARD = [float(k * 2**30 + 3**i) for i, k in enumerate(MULTIPLES)]


@pytest.fixture
def rows(tmp_path: Path) -> np.ndarray:
    """(2, 6, 6) causal rows, in rows.npy and with others in rows.npz and rows.safetensors."""
    made = np.tril(np.random.default_rng(1).random((2, 6, 6)))
    made /= made.sum(axis=-1, keepdims=True)
    np.save(tmp_path / "rows.npy", made)
    np.savez(tmp_path / "rows.npz", first=made, second=made[:, :, :1] * 0 + 1)
    np.savez(tmp_path / "lone.npz", first=made)
    tensors = {"heads.0": torch.tensor(made), "heads.1": torch.tensor(made).bfloat16()}
    save_file(tensors, tmp_path / "rows.safetensors")
    return made


def run(*arguments: object) -> int:
    return __main__.main([str(argument) for argument in arguments])


class TestResults:
    def test_rows_on_standard_output(self, rows, tmp_path, capsys):
        assert run(tmp_path / "rows.npy") == 0
        printed = capsys.readouterr()
        assert [float(line) for line in printed.out.split()] == theta_rows(rows).ravel().tolist()
        assert "12 of 6 entries" in printed.err

    def test_the_summary_alone(self, rows, tmp_path, capsys):
        assert run(tmp_path / "rows.npy", "--causal", "--summary") == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        theta, status = theta_rows(rows, return_status=True)
        dominant = int((rows.max(axis=-1) >= 0.5).sum())
        proved = int((status == Status.OPTIMAL).sum())
        lines = dict(line.split(maxsplit=1) for line in printed.out.splitlines())
        assert lines["rows"] == "12 of 6 entries"
        assert lines["dominant"].startswith(f"{dominant} ({dominant / 12:.2%}), ")
        assert f"proved optimal  {proved} ({proved / 12:.2%}), " in printed.out
        for name, percent in (("least θ", 0), ("percentile 25", 25), ("median θ", 50)):
            value = float(np.percentile(theta, percent))
            assert f"{name:<15} {value!r}\n" in printed.out

    def test_numpy_output(self, rows, tmp_path, capsys):
        out = tmp_path / "theta.npy"
        assert run(tmp_path / "rows.npy", "--causal", "--out", out) == 0
        assert np.array_equal(np.load(out), theta_rows(rows))
        assert "rows            12 of 6 entries" in capsys.readouterr().out
        assert sorted(path.name for path in tmp_path.glob("*.part")) == []

    def test_csv_output(self, rows, tmp_path):
        out = tmp_path / "theta.csv"
        assert run(tmp_path / "rows.npy", "--out", out) == 0
        with out.open(newline="") as stream:
            table = list(csv.DictReader(stream))
        theta, status = theta_rows(rows, return_status=True)
        for line, index in zip(table, np.ndindex(2, 6), strict=True):
            assert line["row"] == " ".join(map(str, index))
            assert float(line["theta"]) == theta[index]
            assert line["status"] == Status(status[index]).name

    @pytest.mark.parametrize(
        ("file", "key"),
        [("rows.npz", "first"), ("lone.npz", None), ("rows.safetensors", "heads.0")],
    )
    def test_other_files(self, rows, tmp_path, file, key):
        out = tmp_path / "theta.npy"
        chosen = [] if key is None else ["--key", key]
        assert run(tmp_path / file, "--out", out, *chosen) == 0
        assert np.array_equal(np.load(out), theta_rows(rows))

    def test_bfloat16(self, rows, tmp_path):
        out = tmp_path / "theta.npy"
        file = tmp_path / "rows.safetensors"
        assert run(file, "--key", "heads.1", "--causal", "--any-total", "--out", out) == 0
        expected = theta_rows(torch.tensor(rows).bfloat16(), check_sum=False)
        assert np.array_equal(np.load(out), expected)

    def test_chunks_do_not_matter(self, rows, tmp_path, monkeypatch):
        monkeypatch.setattr(__main__, "_CHUNK_ENTRIES", 24)
        out = tmp_path / "theta.npy"
        assert run(tmp_path / "rows.npy", "--causal", "--out", out) == 0
        assert np.array_equal(np.load(out), theta_rows(rows))

    @pytest.mark.parametrize("offset", [-2, 0, 2, 9])
    def test_causal_offset(self, tmp_path, monkeypatch, offset):
        monkeypatch.setattr(__main__, "_CHUNK_ENTRIES", 21)
        made = np.tril(np.random.default_rng(2).random((2, 5, 7)), offset)
        np.save(tmp_path / "cached.npy", made)
        out = tmp_path / "theta.npy"
        call = [tmp_path / "cached.npy", "--any-total", "--allow-empty", "--out", out, "--causal"]
        assert run(*call, "--causal-offset", offset) == 0
        options = {"check_sum": False, "on_empty": "nan"}
        expected = theta_rows(made, causal=True, causal_offset=offset, **options)
        assert np.array_equal(np.load(out), expected, equal_nan=True)
        if offset == 2:
            assert run(*call) == 2

    def test_an_npy_file_is_mapped(self, rows, tmp_path):
        mapped = __main__.read_array(tmp_path / "rows.npy", None)
        assert isinstance(mapped, np.memmap)
        assert np.shares_memory(mapped.reshape(12, 6), mapped)

    def test_masked_rows_and_weights(self, tmp_path, capsys):
        np.save(tmp_path / "w.npy", [[3.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
        assert run(tmp_path / "w.npy", "--any-total", "--allow-empty") == 0
        printed = capsys.readouterr()
        assert printed.out == "0.96\nnan\n"
        assert "fully masked    1\n" in printed.err
        assert "dominant        1 (100.00%)" in printed.err

    def test_nothing_but_masked_rows(self, tmp_path, capsys):
        np.save(tmp_path / "w.npy", np.zeros((2, 3)))
        assert run(tmp_path / "w.npy", "--allow-empty", "--summary") == 0
        assert "median" not in capsys.readouterr().out

    def test_open_rows(self, tmp_path, capsys):
        np.save(tmp_path / "w.npy", np.array([HARD, [1.0] * 14]))
        arguments = (tmp_path / "w.npy", "--any-total", "--budget", "0")
        assert run(*arguments) == 1
        printed = capsys.readouterr()
        assert printed.out == "nan\n1.0\n"
        assert "open            1 (50.00%)" in printed.err
        assert run(*arguments[:2], "--budget", "60", "--summary") == 0

    def test_a_bar_on_a_terminal(self, rows, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("TERM", "xterm")
        assert run(tmp_path / "rows.npy", "--summary") == 0
        assert "12/12" in capsys.readouterr().err


class TestDominance:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
    def test_at_one_half(self, dtype):
        big = 2**23
        rows = np.array([[big, big - 1], [big, big], [big, big + 1]], dtype)
        assert __main__.dominant_rows(rows).tolist() == [True] * 3
        rows = np.array([[big + 1, big, 1], [big + 1, big, 2], [big, big, big]], dtype)
        assert __main__.dominant_rows(rows).tolist() == [True, False, False]

    def test_beyond_the_accuracy_of_floats(self):
        rows = np.array([[1.0, 0.5, 0.5, 2.0**-60], [1.0, 0.5, 0.5 - 2.0**-54, 2.0**-60]])
        assert __main__.dominant_rows(rows).tolist() == [False, True]
        assert __main__.dominant_rows(torch.tensor(rows)).tolist() == [False, True]
        assert __main__.dominant_rows(np.array([[1e308, 1e308, 1e308]])).tolist() == [False]
        assert __main__.dominant_rows(np.array([[2**62 + 1, 2**62, 2]])).tolist() == [False]


class TestRefusals:
    @pytest.fixture(autouse=True)
    def files(self, rows, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("broken.npy").write_bytes(b"no array")
        Path("empty.npy").write_bytes(b"")
        Path("broken.npz").write_bytes(b"no archive")
        Path("broken.safetensors").write_bytes(b"no tensors")
        Path("folder.npy").mkdir()
        np.save("objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
        np.save("number.npy", 1.0)
        np.save("row.npy", [0.5, 0.5])
        np.save("none.npy", np.zeros((0, 4)))
        np.save("complex.npy", np.ones((2, 2), dtype=complex))
        for name, value in (("nan", np.nan), ("negative", -0.25), ("total", 0.75)):
            bad = rows.copy()
            bad[1, 4, 2] = value
            np.save(f"{name}.npy", bad)
        bad = rows.copy()
        bad[1, 4] = 0
        np.save("zero.npy", bad)
        np.save("bfloat16.npy", np.ones((2, 2), dtype=ml_dtypes.bfloat16))
        np.savez("bfloat16.npz", first=np.ones((2, 2), dtype=ml_dtypes.bfloat16))
        Path("rows2.npz").write_bytes(Path("row.npy").read_bytes())
        Path("rows2.npy").write_bytes(Path("rows.npz").read_bytes())

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["gone.npy"], "gone.npy: no such file"),
            (["folder.npy"], "folder.npy: is no file"),
            (["rows.txt"], "rows.txt: expected a file named .npy, .npz or .safetensors"),
            (["broken.npy"], "broken.npy: cannot be read as .npy"),
            (["empty.npy"], "empty.npy: cannot be read as .npy"),
            (["objects.npy"], "objects.npy: cannot be read as .npy"),
            (["broken.npz"], "broken.npz: cannot be read as .npz"),
            (["broken.safetensors"], "broken.safetensors: cannot be read as .safetensors"),
            (["rows2.npz"], "rows2.npz: holds one array; name it .npy"),
            (["rows2.npy"], "rows2.npy: holds several arrays; name it .npz"),
            (["rows.npy", "--key", "a"], "--key has no meaning for .npy"),
            (["rows.npz"], "choose an array with --key; its keys: first, second"),
            (["rows.npz", "--key", "frist"], "no key 'frist'; its keys: first, second"),
            (["rows.safetensors"], "choose an array with --key; its keys: heads.0, heads.1"),
            (["rows.safetensors", "--key", "x"], "no key 'x'; its keys: heads.0, heads.1"),
            (["number.npy"], "number.npy: needs an axis of entries, got shape ()"),
            (["row.npy", "--causal"], "needs a row axis and an entry axis, got shape (2,)"),
            (["none.npy"], "none.npy: holds no rows, its shape is (0, 4)"),
            (["complex.npy"], "expected real numbers, got dtype complex128"),
            (
                ["bfloat16.npy"],
                "bfloat16.npy: holds raw pairs of bytes (dtype |V2), as NumPy stores",
            ),
            (["bfloat16.npz"], "save it as float32, which is exact, or as .safetensors"),
            (
                ["rows.npy", "--causal-offset", "1"],
                "--causal-offset: has no meaning without --caus",
            ),
            (["nan.npy"], "nan.npy: row (1, 4) has NaN at entry 2"),
            (["negative.npy"], "negative.npy: row (1, 4) has a negative weight at entry 2"),
            (["total.npy"], "instead of 1; --any-total takes weights of any total"),
            (["zero.npy"], "zero.npy: row (1, 4) has zero total weight"),
            (["row.npy", "--out", "theta.txt"], "--out: expected a file named .npy or .csv"),
            (["row.npy", "--out", "no/theta.npy"], "--out: cannot write no/theta.npy (No such"),
            (["row.npy", "--out", "folder.npy"], "--out: folder.npy is a folder"),
            (["row.npy", "--out", "row.npy"], "--out: would overwrite the input row.npy"),
        ],
    )
    def test_a_wrong_call_is_explained_in_one_line(self, arguments, message, capsys):
        assert run(*arguments) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("exact-theta: error: ")
        assert message in printed.err
        assert printed.err.count("\n") == 1

    def test_rows_are_named_in_later_chunks_too(self, capsys, monkeypatch):
        monkeypatch.setattr(__main__, "_CHUNK_ENTRIES", 24)
        assert run("nan.npy", "--out", "theta.npy") == 2
        assert "row (1, 4) has NaN at entry 2" in capsys.readouterr().err
        assert not Path("theta.npy").exists()
        assert not Path("theta.npy.part").exists()

    def test_a_failed_run_leaves_what_was_there(self):
        Path("theta.npy").write_bytes(b"before")
        assert run("nan.npy", "--out", "theta.npy") == 2
        assert Path("theta.npy").read_bytes() == b"before"

    def test_many_keys_are_cut(self, capsys):
        np.savez("many.npz", **{f"k{i:02}": np.ones((1, 1)) for i in range(40)})
        assert run("many.npz") == 2
        assert capsys.readouterr().err.endswith("k29 and 10 more\n")

    def test_safetensors_without_its_extra(self, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "safetensors", None)
        assert run("rows.safetensors") == 2
        assert "pip install 'attention-sensitivity[model]'" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "the following arguments are required: file"),
            (["row.npy", "--budget", "-1"], "expected seconds >= 0, got '-1'"),
            (["row.npy", "--budget", "soon"], "expected seconds >= 0, got 'soon'"),
            (["row.npy", "--keys", "a"], "unrecognized arguments"),
        ],
    )
    def test_arguments(self, arguments, message, capsys):
        with pytest.raises(SystemExit) as stopped:
            run(*arguments)
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err


class TestProcess:
    def test_the_console_script_ignores_strangers_modules(self, rows, tmp_path):
        for name in STRANGERS:
            (tmp_path / name).write_text("raise RuntimeError('a stranger was imported')\n")
        script = Path(sys.executable).parent / "exact-theta"
        done = subprocess.run(
            [str(script), "rows.npy", "--causal", "--out", "theta.npy"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("rows            12 of 6 entries\n")
        assert np.array_equal(np.load(tmp_path / "theta.npy"), theta_rows(rows))

    def module(self, *arguments: object, **options: object) -> subprocess.Popen:
        command = [sys.executable, "-m", "theory.theta", *map(str, arguments)]
        return subprocess.Popen(command, stdout=-1, stderr=-1, text=True, **options)

    def test_the_module_runs(self, rows, tmp_path):
        with self.module(tmp_path / "rows.npy") as process:
            printed, errors = process.communicate()
        assert process.returncode == 0
        assert len(printed.split()) == 12
        assert errors.startswith("rows ")

    def test_a_reader_that_leaves(self, tmp_path):
        np.save(tmp_path / "many.npy", np.ones((200_000, 1)))
        with self.module(tmp_path / "many.npy") as process:
            assert process.stdout.readline() == "0.0\n"
            process.stdout.close()
            process.wait(timeout=60)
            assert process.stderr.read() == ""
        assert process.returncode == 0

    def test_an_interrupt(self, tmp_path):
        # Hours of work, however many processors there are: multiples of 2⁴⁰ but for lower bits.
        rng = np.random.default_rng(61)
        multiples = rng.integers(2**10, 2**11, 61)
        multiples[0] += multiples.sum() % 2 == 0
        row = multiples * 2.0**40 + rng.integers(0, 2**20, 61)
        np.save(tmp_path / "many.npy", np.stack([row, row]))
        arguments = (tmp_path / "many.npy", "--any-total", "--out", tmp_path / "theta.npy")
        # A suite that runs in the background of a shell inherits an ignored SIGINT.
        attended = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with self.module(*arguments, preexec_fn=attended) as process:
            while not (tmp_path / "theta.npy.part").exists():
                time.sleep(0.05)
            time.sleep(0.5)
            os.kill(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        assert process.returncode == 130
        assert errors.endswith("exact-theta: interrupted\n")
        assert list(tmp_path.iterdir()) == [tmp_path / "many.npy"]
