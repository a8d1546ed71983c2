"""The command `exact-theta`: exact θ of every row of a stored array.

    exact-theta FILE.npy|FILE.npz|FILE.safetensors [--key K] [--causal] [--causal-offset N]
                [--out FILE] [--summary]

Also `python -m theory.theta`. See `theory.theta.theta_rows` for what is computed.
"""

import argparse
import functools
import os
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from theory.theta._messages import rows_named
from theory.theta._rows import EMPTY, theta_rows
from theory.theta._types import RowIndex, Status

ALL_SETTLED, SOME_OPEN, WRONG_CALL, INTERRUPTED = 0, 1, 2, 130
PERCENTILES = (0, 1, 5, 25, 50, 75, 95, 99, 100)
# Entries solved between two steps of the progress bar.
_CHUNK_ENTRIES = 2**19
_KEYS_SHOWN = 30

DESCRIPTION = """\
Exact θ of every row of an array: θ(p) = 1 − min (2p(S) − 1)² over subsets S, each the float64
nearest to the exact value. The last axis holds the entries of a row. θ of each row goes to
the file of --out, or else to standard output, one a line; a summary follows, on standard error
where standard output has the rows."""
EPILOG = """\
Exit status: 0 if every row is settled, 1 if rows stayed open (their θ is nan), 2 after an error."""


class CommandError(Exception):
    """What is wrong with a call, in one line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Solved:
    """The rows of an array, solved; arrays of the shape of its leading dimensions.

    theta: float64, NaN for open and fully masked rows; status: int8, `Status` values, −1 for fully
    masked rows; dominant: whether one entry has at least half of the total. length: entries of a
    row.
    """

    theta: NDArray[np.float64]
    status: NDArray[np.int8]
    dominant: NDArray[np.bool_]
    length: int


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        return _run(options)
    except CommandError as error:
        print(f"exact-theta: error: {error}", file=sys.stderr)
        return WRONG_CALL
    except KeyboardInterrupt:
        print("exact-theta: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the rows has enough of them; what is buffered goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ALL_SETTLED


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="exact-theta",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("file", type=Path, help="FILE.npy, FILE.npz or FILE.safetensors")
    made.add_argument("--key", help="which array of an .npz or .safetensors file")
    made.add_argument(
        "--causal", action="store_true", help="row t of the last axis but one sees t + 1 entries"
    )
    made.add_argument(
        "--causal-offset",
        type=int,
        metavar="N",
        help="with --causal: row t sees t + 1 + N entries, as after N cached ones",
    )
    made.add_argument(
        "--out", type=Path, help="write θ per row to FILE.npy, or with its status to FILE.csv"
    )
    made.add_argument("--summary", action="store_true", help="print the summary alone")
    made.add_argument(
        "--any-total", action="store_true", help="take weights that do not sum to 1 as well"
    )
    made.add_argument(
        "--allow-empty", action="store_true", help="give nan for rows of zeros instead of an error"
    )
    made.add_argument(
        "--budget", type=_seconds, help="seconds for all rows; those left open have θ = nan"
    )
    return made


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"expected seconds >= 0, got {text!r}")
    return seconds


def _run(options: argparse.Namespace) -> int:
    with _output(options.out, options.file) as stream:
        solved = _solved_file(options)
        if stream is not None:
            _write(stream, options.out.suffix, solved)
    rows_on_stdout = stream is None and not options.summary
    if rows_on_stdout:
        for value in solved.theta.ravel().tolist():
            print(value)
    print(summary(solved), file=sys.stderr if rows_on_stdout else sys.stdout)
    return SOME_OPEN if (solved.status == Status.BOUNDED).any() else ALL_SETTLED


def _solved_file(options: argparse.Namespace) -> Solved:
    if options.causal_offset is not None and not options.causal:
        raise CommandError("--causal-offset: has no meaning without --causal")
    array = read_array(options.file, options.key)
    try:
        return solve(
            array,
            causal=options.causal,
            causal_offset=options.causal_offset or 0,
            any_total=options.any_total,
            allow_empty=options.allow_empty,
            budget=options.budget,
        )
    except (ValueError, TypeError) as error:
        # The library's keywords have other names here.
        reason = str(error).replace("check_sum=False", "--any-total")
        reason = reason.replace("on_empty='nan'", "--allow-empty")
        raise CommandError(f"{options.file}: {reason}") from error


def solve(
    array: Any,
    *,
    causal: bool,
    causal_offset: int,
    any_total: bool,
    allow_empty: bool,
    budget: float | None,
) -> Solved:
    """θ of every row of an array or tensor (..., L), chunk by chunk with a progress bar.

    causal, causal_offset: as in `theta_rows`; the offset counts where causal is true.
    Raises ValueError and TypeError as `theta_rows` does, and for an array without rows.
    """
    shape = tuple(array.shape)
    if len(shape) < 1 + causal:
        needs = "a row axis and an entry axis" if causal else "an axis of entries"
        raise ValueError(f"needs {needs}, got shape {shape}")
    *leading, length = shape
    count = int(np.prod(leading, dtype=np.int64))
    if count == 0:
        raise ValueError(f"holds no rows, its shape is {shape}")

    def place(start: int, row: int) -> RowIndex:
        index = tuple(int(k) for k in np.unravel_index(start + row, tuple(leading)))
        return index[0] if len(index) == 1 else index

    rows = array.reshape(count, length)
    theta = np.empty(count)
    status = np.empty(count, dtype=np.int8)
    dominant = np.empty(count, dtype=np.bool_)
    end = None if budget is None else time.monotonic() + budget
    step = max(1, _CHUNK_ENTRIES // max(length, 1))
    with _progress_bar(count) as report:
        for start in range(0, count, step):
            chunk = slice(start, min(start + step, count))
            seen = None
            if causal:
                seen = np.arange(chunk.start, chunk.stop) % leading[-1] + 1 + causal_offset
                seen = np.clip(seen, 0, length)
            with rows_named(functools.partial(place, start)):
                theta[chunk], status[chunk] = theta_rows(
                    rows[chunk],
                    support=seen,
                    check_sum=not any_total,
                    on_empty="nan" if allow_empty else "raise",
                    budget=None if end is None else max(0.0, end - time.monotonic()),
                    on_open="nan",
                    return_status=True,
                )
            dominant[chunk] = dominant_rows(rows[chunk]) & (status[chunk] != EMPTY)
            report(chunk.stop)
    return Solved(
        theta=theta.reshape(leading),
        status=status.reshape(leading),
        dominant=dominant.reshape(leading),
        length=length,
    )


@contextmanager
def _progress_bar(count: int) -> Iterator[Callable[[int], None]]:
    """Takes how many of the rows are done; a bar on standard error, where that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("θ", BarColumn(), MofNCompleteColumn(), "rows", TimeRemainingColumn())
    with Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task("", total=count)
        yield lambda done: bar.update(task, completed=done)


def dominant_rows(rows: Any) -> NDArray[np.bool_]:
    """Which faultless rows (R, L) have an entry of at least half of their exact total."""
    values = np.asarray(rows.double() if hasattr(rows, "double") else rows, dtype=np.float64)
    top = values.max(axis=1, initial=0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum(axis=1)
        excess = 2.0 * top - total
        # The float sum of L terms and the conversion to float64 are off by less than this.
        clear = np.abs(excess) > (values.shape[1] + 8) * 2.0**-52 * total
    dominant = np.asarray(excess > 0)
    for r in np.flatnonzero(~(clear & np.isfinite(excess))):
        exact = [Fraction(value) for value in rows[r].tolist()]
        dominant[r] = 2 * max(exact, default=Fraction(0)) >= sum(exact)
    return dominant


def read_array(path: Path, key: str | None) -> Any:
    """The array of a file, memory-mapped from .npy, or a tensor from .safetensors.

    Raises CommandError for a missing or broken file, another suffix, bfloat16 that has lost its
    type, and a key that is missing, unknown, or not to be given; the keys are listed.
    """
    readers = {".npy": _read_npy, ".npz": _read_npz, ".safetensors": _read_safetensors}
    if path.suffix not in readers:
        raise CommandError(f"{path}: expected a file named .npy, .npz or .safetensors")
    if not path.is_file():
        raise CommandError(f"{path}: {'is no file' if path.exists() else 'no such file'}")
    try:
        array = readers[path.suffix](path, key)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        # NumPy's advice for what it cannot read, to unpickle it, would be unsafe here.
        reason = "" if "pickle" in str(error) else f" ({error})"
        raise CommandError(f"{path}: cannot be read as {path.suffix}{reason}") from error
    if str(array.dtype) == "|V2":
        raise CommandError(
            f"{path}: holds raw pairs of bytes (dtype |V2), as NumPy stores bfloat16, the type "
            "being lost; save it as float32, which is exact, or as .safetensors"
        )
    return array


def _read_npy(path: Path, key: str | None) -> Any:
    if key is not None:
        raise CommandError(f"{path}: --key has no meaning for .npy, which holds one array")
    loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        raise CommandError(f"{path}: holds several arrays; name it .npz")
    return loaded


def _read_npz(path: Path, key: str | None) -> Any:
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        raise CommandError(f"{path}: holds one array; name it .npy")
    with loaded:
        return loaded[_chosen_key(path, key, loaded.files)]


def _read_safetensors(path: Path, key: str | None) -> Any:
    try:
        # The reader for torch, because NumPy has no bfloat16.
        import safetensors
        import torch  # noqa: F401
    except ImportError as error:
        raise CommandError(
            f"{path}: needs safetensors and torch: pip install 'attention-sensitivity[model]'"
        ) from error
    try:
        with safetensors.safe_open(path, framework="pt") as stored:
            return stored.get_tensor(_chosen_key(path, key, list(stored.keys())))
    except safetensors.SafetensorError as error:
        raise CommandError(f"{path}: cannot be read as .safetensors ({error})") from error


def _chosen_key(path: Path, key: str | None, keys: Sequence[str]) -> str:
    listed = ", ".join(sorted(keys)[:_KEYS_SHOWN]) or "none"
    if len(keys) > _KEYS_SHOWN:
        listed += f" and {len(keys) - _KEYS_SHOWN} more"
    if key is None:
        if len(keys) != 1:
            raise CommandError(f"{path}: choose an array with --key; its keys: {listed}")
        return keys[0]
    if key not in keys:
        raise CommandError(f"{path}: no key {key!r}; its keys: {listed}")
    return key


@contextmanager
def _output(path: Path | None, source: Path) -> Iterator[BinaryIO | None]:
    """A stream whose content becomes the file `path` if all goes well, and vanishes otherwise."""
    if path is None:
        yield None
        return
    if path.suffix not in (".npy", ".csv"):
        raise CommandError(f"--out: expected a file named .npy or .csv, got {path}")
    if path.is_dir():
        raise CommandError(f"--out: {path} is a folder")
    if path.exists() and source.exists() and path.samefile(source):
        raise CommandError(f"--out: would overwrite the input {source}")
    part = path.with_name(path.name + ".part")
    try:
        stream = part.open("wb")
    except OSError as error:
        raise CommandError(f"--out: cannot write {path} ({error.strerror})") from error
    try:
        with stream:
            yield stream
        part.replace(path)
    except OSError as error:
        raise CommandError(f"--out: cannot write {path} ({error.strerror})") from error
    finally:
        part.unlink(missing_ok=True)


def _write(stream: BinaryIO, suffix: str, solved: Solved) -> None:
    if suffix == ".npy":
        np.save(stream, solved.theta)
        return
    stream.write(b"row,theta,status\n")
    names = {EMPTY: "EMPTY", **{int(status): status.name for status in Status}}
    for index in np.ndindex(solved.theta.shape):
        row = " ".join(map(str, index))
        line = f"{row},{float(solved.theta[index])!r},{names[int(solved.status[index])]}\n"
        stream.write(line.encode())


def summary(solved: Solved) -> str:
    """Counts, shares and percentiles (by linear interpolation) of the rows that have a θ."""
    status = solved.status.ravel()
    theta = solved.theta.ravel()
    known = theta[~np.isnan(theta)]
    count = status.size - int((status == EMPTY).sum())

    def share(rows: Any) -> str:
        number = int(np.sum(rows))
        return f"{number} ({number / count:.2%})" if count else str(number)

    lines = [
        ("rows", f"{status.size} of {solved.length} entries"),
        ("fully masked", str(status.size - count)),
        ("dominant", f"{share(solved.dominant)}, one entry has at least half"),
        ("proved optimal", f"{share(status == Status.OPTIMAL)}, the subset attains θ"),
        ("rounded", f"{share(status == Status.ROUNDED)}, both bounds round to θ"),
        ("open", f"{share(status == Status.BOUNDED)}, θ is nan"),
        ("θ = 1.0", share(known == 1.0)),
    ]
    if known.size:
        values = np.percentile(known, PERCENTILES)
        names = {0: "least θ", 50: "median θ", 100: "greatest θ"}
        for percent, value in zip(PERCENTILES, values.tolist(), strict=True):
            lines.append((names.get(percent, f"percentile {percent}"), repr(value)))
    return "\n".join(f"{name:<15} {text}" for name, text in lines)


if __name__ == "__main__":
    raise SystemExit(main())
