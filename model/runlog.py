"""The logs of a run: JSON lines, one file a kind, cut back to the checkpoint on resumption.

The files of a finished run may be packed (`gzip -n *.jsonl`), and are read as they are.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

TRAINING, ATTENTION, NORMS, GRADIENTS = "log", "attention", "norms", "gradients"
KINDS = (TRAINING, ATTENTION, NORMS, GRADIENTS)
META = "meta.json"


class RunLog:
    """Appends entries, each with its update, to the files of one run.

    Opening cuts every file back to the entries up to `update`, so that a run that goes on from a
    checkpoint has no entry twice. A line that a killed process left unfinished goes, too. Raises
    ValueError where the files are packed.
    """

    def __init__(self, folder: Path, update: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if packed := sorted(path.name for path in folder.glob("*.jsonl.gz")):
            raise ValueError(f"{folder}: {', '.join(packed)} packed; gunzip them to go on")
        self._files: dict[str, IO[str]] = {}
        for kind in KINDS:
            path = folder / f"{kind}.jsonl"
            _cut(path, update)
            self._files[kind] = path.open("a", encoding="utf-8")

    def write(self, kind: str, update: int, entry: dict[str, Any]) -> None:
        """Append one entry; it is on its way to the disk when this returns."""
        file = self._files[kind]
        file.write(json.dumps({"update": update, **entry}, allow_nan=False) + "\n")
        file.flush()

    def sync(self) -> None:
        """Return once everything written is on the disk."""
        for file in self._files.values():
            os.fsync(file.fileno())

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def read(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The entries of one file of a run, packed or not, in order. A missing file is an empty one.

    Raises ValueError, naming file and line, for a line that is no entry, and for a packed file that
    is damaged; the last line is left out where it is unfinished.
    """
    plain = folder / f"{kind}.jsonl"
    return list(_entries(plain if plain.is_file() else plain.with_suffix(".jsonl.gz")))


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    lines = _text(path).splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            finished = line.endswith("\n") and "update" in entry
        except (ValueError, TypeError):
            finished = False
        if finished:
            yield entry
        elif number < len(lines):
            raise ValueError(f"{path}, line {number}: no entry of a log")


def _text(path: Path) -> str:
    if path.suffix != ".gz":
        return path.read_text(encoding="utf-8")
    try:
        data = path.read_bytes()
        if not data:
            raise EOFError("empty")  # which gzip takes for nothing packed
        return gzip.decompress(data).decode("utf-8")
    except (EOFError, OSError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: damaged ({error})") from error


def _cut(path: Path, update: int) -> None:
    kept = [entry for entry in _entries(path) if entry["update"] <= update]
    temporary = path.with_suffix(".part")
    temporary.write_text("".join(json.dumps(entry) + "\n" for entry in kept), encoding="utf-8")
    os.replace(temporary, path)
