"""Tokens on disk: shards of uint16 with a header and a checksum, and an index of them.

A shard is 64 bytes of header (magic, version, count of tokens, SHA-256 of the rest) and the tokens,
little-endian. `index.json` lists the shards in their order, with the same counts and checksums, and
says where the tokens came from.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.uint16]

MAGIC = b"ATTNSHRD"
VERSION = 1
_HEADER = struct.Struct("<8sIIQ32s8x")
INDEX = "index.json"
SHARD_TOKENS = 2**26
_COUNTED_AT_ONCE = 2**24


class ShardError(ValueError):
    """A shard or its index is missing, truncated or corrupt; the message names the file."""


class ShardWriter:
    """Writes tokens to numbered shards in an empty or new folder; `close` writes the index.

    A new folder is made with the first shard. A folder without an index is no data set, so an
    interrupted run leaves nothing that could be taken for one. Raises ``ShardError`` for a folder
    that is not empty or cannot be.
    """

    def __init__(self, folder: Path, *, shard_tokens: int = SHARD_TOKENS) -> None:
        # The folder, or the one in which it will be made.
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        if not nearest.is_dir():
            raise ShardError(f"{nearest} is no folder")
        if nearest == folder and any(folder.iterdir()):
            raise ShardError(f"{folder} is not empty")
        self.folder = folder
        self.shard_tokens = shard_tokens
        self.shards: list[dict[str, Any]] = []
        self.tokens = 0
        self._pending: list[Tokens] = []
        self._waiting = 0

    def write(self, tokens: Iterable[int] | Tokens) -> None:
        """Append tokens, which must fit into 16 bits."""
        array = np.asarray(tokens, dtype=np.int64)
        if array.size and not (array.min() >= 0 and array.max() < 2**16):
            raise ValueError(f"tokens between 0 and 65535 are needed, not up to {array.max()}")
        self._pending.append(array.astype("<u2"))
        self._waiting += array.size
        self.tokens += array.size
        while self._waiting >= self.shard_tokens:
            self._flush(self.shard_tokens)

    def close(self, description: dict[str, Any]) -> Path:
        """Write what is left and the index, with the description in it; return the index's path."""
        if self._waiting:
            self._flush(self._waiting)
        if not self.shards:
            raise ShardError(f"{self.folder}: no token was written")
        index = {"version": VERSION, "tokens": self.tokens, "shards": self.shards, **description}
        path = self.folder / INDEX
        _write_whole(path, (json.dumps(index, ensure_ascii=False, indent=1) + "\n").encode())
        return path

    def _flush(self, count: int) -> None:
        joined = np.concatenate(self._pending)
        payload = joined[:count].tobytes()
        self._pending, self._waiting = [joined[count:]], len(joined) - count
        name = f"shard_{len(self.shards):05d}.bin"
        digest = hashlib.sha256(payload)
        header = _HEADER.pack(MAGIC, VERSION, 2, count, digest.digest())
        self.folder.mkdir(parents=True, exist_ok=True)
        _write_whole(self.folder / name, header + payload)
        self.shards.append({"file": name, "tokens": count, "sha256": digest.hexdigest()})


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is whole or absent, whatever happens."""
    temporary = path.with_suffix(path.suffix + ".part")
    with temporary.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(temporary, path)


class Shards:
    """All tokens of a folder as one read-only sequence, memory-mapped.

    verify: whether every checksum is computed at opening (a second for 300 MB); headers, sizes and
    agreement with the index are always checked. Raises ``ShardError``, naming the file.
    """

    def __init__(self, folder: Path, *, verify: bool = True) -> None:
        self.folder = folder
        self.index = _read_index(folder)
        self._arrays = [_open(folder / entry["file"], entry, verify) for entry in self._entries()]
        self._ends = np.cumsum([len(array) for array in self._arrays])

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def vocabulary(self) -> int | None:
        """How many different tokens there may be, None where the index does not say."""
        vocabulary: int | None = self.index.get("vocabulary")
        return vocabulary

    @property
    def fingerprint(self) -> str:
        """A hash of the shards' checksums in their order."""
        digests = "".join(entry["sha256"] for entry in self._entries())
        return hashlib.sha256(digests.encode()).hexdigest()[:16]

    def read(self, start: int, count: int) -> Tokens:
        """`count` tokens from `start` on, a copy. Raises IndexError beyond the end."""
        if start < 0 or start + count > len(self):
            raise IndexError(f"tokens {start} to {start + count} of {len(self)}")
        parts = [np.empty(0, dtype=np.uint16)]
        shard = int(np.searchsorted(self._ends, start, side="right"))
        while count:
            begin = start - (int(self._ends[shard - 1]) if shard else 0)
            part = self._arrays[shard][begin : begin + count]
            parts.append(part)
            start, count, shard = start + len(part), count - len(part), shard + 1
        return np.concatenate(parts)

    def unigram_entropy(self, tokens: int) -> float:
        """The entropy in nats of how often each token occurs among the first so many.

        A model that knows only these frequencies has this loss.
        """
        counts = np.zeros(2**16, dtype=np.int64)
        for start in range(0, tokens, _COUNTED_AT_ONCE):
            part = self.read(start, min(_COUNTED_AT_ONCE, tokens - start))
            counts += np.bincount(part, minlength=len(counts))
        shares = counts[counts > 0] / tokens
        return float(-np.sum(shares * np.log(shares)))

    def _entries(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.index["shards"]
        return entries


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ShardError(
            f"{path} is missing: make the shards with `python -m model.data prepare`"
        ) from None
    except (OSError, ValueError) as error:
        raise ShardError(f"{path}: {error}") from None
    if not _is_index(index):
        raise ShardError(f"{path} is no index of version {VERSION}")
    return dict(index)


def _is_index(index: Any) -> bool:
    if not isinstance(index, dict) or index.get("version") != VERSION:
        return False
    shards = index.get("shards")
    kinds = {"file": str, "tokens": int, "sha256": str}
    return (
        isinstance(shards, list)
        and bool(shards)
        and all(
            isinstance(entry, dict)
            and all(isinstance(entry.get(key), kind) for key, kind in kinds.items())
            for entry in shards
        )
        and isinstance(index.get("vocabulary"), int | None)
    )


def _open(path: Path, entry: dict[str, Any], verify: bool) -> Tokens:
    try:
        size = path.stat().st_size
        with path.open("rb") as handle:
            header = handle.read(_HEADER.size)
    except OSError as error:
        raise ShardError(f"{path}: {error.strerror}") from None
    if len(header) < _HEADER.size:
        raise ShardError(f"{path} is truncated: {size} bytes")
    magic, version, width, count, digest = _HEADER.unpack(header)
    if magic != MAGIC or version != VERSION or width != 2:
        raise ShardError(f"{path} is no shard of version {VERSION}")
    if size != _HEADER.size + width * count:
        kind = "truncated" if size < _HEADER.size + width * count else "too long"
        raise ShardError(f"{path} is {kind}: {size} bytes for {count} tokens")
    if count != entry["tokens"] or digest.hex() != entry["sha256"]:
        raise ShardError(f"{path} is not the shard that {INDEX} lists")
    array = np.memmap(path, dtype="<u2", mode="r", offset=_HEADER.size, shape=(count,))
    if verify and hashlib.sha256(array.data).hexdigest() != entry["sha256"]:
        raise ShardError(f"{path} is corrupt: its checksum differs")
    return array
