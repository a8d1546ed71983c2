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


class RunLogError(ValueError):
    """A run's folder whose files cannot be read or written; the message names the file."""


class RunLog:
    """Appends entries, each with its update, to the files of one run.

    Opening cuts every file back to the entries up to `update`, so that a run that goes on from a
    checkpoint has no entry twice. A line that a killed process left unfinished goes, too. Raises
    ``RunLogError``, and changes nothing, where the files are packed or damaged.
    """

    def __init__(self, folder: Path, update: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if packed := sorted(path.name for path in folder.glob("*.jsonl.gz")):
            raise RunLogError(f"{folder}: {', '.join(packed)} packed; gunzip them to go on")
        entries = {kind: read(folder, kind) for kind in KINDS}
        self._files: dict[str, IO[str]] = {}
        for kind in KINDS:
            path = folder / f"{kind}.jsonl"
            _replace(path, [entry for entry in entries[kind] if entry["update"] <= update])
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


def read_meta(folder: Path) -> dict[str, Any]:
    """What meta.json says of a run, among it its configuration ("config") as plain values.

    Raises ``RunLogError``, naming the file, where it is missing, is no JSON or has no "config".
    """
    path = folder / META
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunLogError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise RunLogError(f"{path}: {error}") from None
    if not isinstance(meta, dict) or not isinstance(meta.get("config"), dict):
        raise RunLogError(f"{path}: not the description of a run, which has a config")
    return meta


def read(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The entries of one file of a run, packed or not, in order. A missing file is an empty one.

    Raises ``RunLogError``, naming file and line, for a line that is no entry, and for a file that
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
        except ValueError:
            entry = None
        is_entry = isinstance(entry, dict) and isinstance(entry.get("update"), int)
        if is_entry and line.endswith("\n"):
            yield entry
        elif number < len(lines):
            raise RunLogError(f"{path}, line {number}: no entry of a log")


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            if not data:
                raise EOFError("empty")  # which gzip takes for nothing packed
            data = gzip.decompress(data)
        return data.decode("utf-8")
    except (EOFError, OSError, zlib.error, UnicodeDecodeError) as error:
        raise RunLogError(f"{path}: damaged ({error})") from error


def _replace(path: Path, entries: list[dict[str, Any]]) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    os.replace(temporary, path)
