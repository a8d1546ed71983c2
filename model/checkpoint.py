"""Checkpoints: atomic, checksummed, rotated, and enough to go on bit for bit.

A checkpoint is a folder update_000100 with model.safetensors, optimizer.safetensors, one
random_RANK.safetensors for each process, state.json, and manifest.json with the SHA-256 of all
others. It is written beside its place, synced to disk and moved there in one step, so it is whole
or absent; a folder that does not match its manifest is named and passed over.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)
from torch.optim import Optimizer

MODEL, OPTIMIZER, STATE, MANIFEST = (
    "model.safetensors",
    "optimizer.safetensors",
    "state.json",
    "manifest.json",
)
_FOLDER = re.compile(r"update_(\d{6,})")
_UNFINISHED = "unfinished_"
# Full tensors on the CPU, whatever the model is sharded or wrapped by.
_FULL = StateDictOptions(full_state_dict=True, cpu_offload=True)
_BROADCAST = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be used; the message names the file and the reason."""


@dataclass(frozen=True)
class Place:
    """This process among all that train together."""

    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def wait(self) -> None:
        """Until all processes are here."""
        if self.world > 1:
            torch.distributed.barrier()


# ---------------------------------------------------------------------------------- saving


def save(
    folder: Path,
    update: int,
    model: nn.Module,
    optimizer: Optimizer,
    description: dict[str, Any],
    *,
    keep: int,
    place: Place | None = None,
) -> Path:
    """Write the checkpoint after an update into a folder of checkpoints; return its path.

    description: what state.json keeps beside the number of the update (configuration, versions).
    keep: how many checkpoints stay; older ones are removed once this one is whole. Every process
    must call.
    """
    place = Place() if place is None else place
    target = folder / f"update_{update:06d}"
    unfinished = folder / f"{_UNFINISHED}{update:06d}"
    model_state, optimizer_state = get_state_dict(model, optimizer, options=_FULL)
    if place.is_first:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        save_file(_without_aliases(model_state), unfinished / MODEL)
        tensors, groups = _flatten(optimizer_state)
        save_file(tensors, unfinished / OPTIMIZER)
        state = {"update": update, "world": place.world, "groups": groups, **description}
        (unfinished / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    place.wait()
    save_file(_random_state(), unfinished / f"random_{place.rank}.safetensors")
    place.wait()
    if place.is_first:
        hashes = {path.name: _sha256(path) for path in sorted(unfinished.iterdir())}
        (unfinished / MANIFEST).write_bytes(_manifest(hashes))
        for path in unfinished.iterdir():
            _sync(path)
        _sync(unfinished)
        if target.exists():
            shutil.rmtree(target)
        os.replace(unfinished, target)
        _sync(folder)
        for _, old in _existing(folder)[keep:]:
            shutil.rmtree(old)
    place.wait()
    return target


def _without_aliases(state: dict[str, Any]) -> dict[str, Tensor]:
    """Every tensor once: a tied head is its embedding, which `restore` finds again by itself."""
    seen: dict[tuple[int, ...], str] = {}
    kept = {}
    for name, tensor in state.items():
        key = (tensor.data_ptr(), *tensor.shape)
        if tensor.numel() == 0 or key not in seen:
            seen[key] = name
            kept[name] = tensor.contiguous()
    return kept


def _flatten(state: dict[str, Any]) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """An optimiser's state as named tensors, and its groups as plain values."""
    tensors = {
        f"{name}/{key}": torch.as_tensor(value).contiguous()
        for name, entry in state["state"].items()
        for key, value in entry.items()
    }
    groups = [
        {key: list(value) if isinstance(value, tuple) else value for key, value in group.items()}
        for group in state["param_groups"]
    ]
    return tensors, groups


def _random_state() -> dict[str, Tensor]:
    """Every random state of this process."""
    # The global generators are not used here, but a user's own hook may draw from them.
    of_numpy: Any = np.random.get_state(legacy=True)  # noqa: NPY002
    kind, keys, position, has_gauss, cached = of_numpy
    version, words, gauss = random.getstate()
    plain = json.dumps(
        {
            "numpy": [kind, position, has_gauss, cached],
            "python": [version, list(words), gauss],
        }
    )
    states = {
        "torch": torch.get_rng_state(),
        "numpy": torch.from_numpy(keys.astype(np.int64)),
        "plain": torch.frombuffer(bytearray(plain.encode()), dtype=torch.uint8).clone(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --------------------------------------------------------------------------------- loading


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint on disk: its folder and its state.json."""

    path: Path
    state: dict[str, Any]

    @property
    def update(self) -> int:
        """The update after which it was written."""
        return int(self.state["update"])


def latest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, and a line for every newer one that is not."""
    faults: list[str] = []
    for _, path in _existing(folder):
        try:
            return open_checkpoint(path), faults
        except CheckpointError as error:
            faults.append(str(error))
    return None, faults


def open_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint whose every file has the recorded hash. Raises ``CheckpointError`` else."""
    for name, recorded in _read_manifest(path / MANIFEST).items():
        file = path / name
        if not file.is_file():
            raise CheckpointError(f"{file} is missing")
        if _sha256(file) != recorded:
            raise CheckpointError(f"{file} is corrupt: its checksum differs")
    return Checkpoint(path, json.loads((path / STATE).read_text(encoding="utf-8")))


def restore(
    checkpoint: Checkpoint, model: nn.Module, optimizer: Optimizer, *, place: Place | None = None
) -> None:
    """Put a checkpoint's parameters, optimiser and random states back. Every process must call.

    Raises ``CheckpointError`` for a checkpoint of another number of processes.
    """
    place = Place() if place is None else place
    if checkpoint.state["world"] != place.world:
        raise CheckpointError(
            f"{checkpoint.path} was written by {checkpoint.state['world']} processes, "
            f"not {place.world}"
        )
    model_state = load_file(checkpoint.path / MODEL)
    for alias, original in _aliases(model):
        model_state.setdefault(alias, model_state[original])
    entries: dict[str, dict[str, Tensor]] = {}
    for key, tensor in load_file(checkpoint.path / OPTIMIZER).items():
        name, _, field = key.rpartition("/")
        entries.setdefault(name, {})[field] = tensor
    optimizer_state = {"state": entries, "param_groups": checkpoint.state["groups"]}
    set_state_dict(
        model,
        optimizer,
        model_state_dict=model_state,
        optim_state_dict=optimizer_state,
        options=_BROADCAST if place.world > 1 else _FULL,
    )
    _set_random_state(load_file(checkpoint.path / f"random_{place.rank}.safetensors"))


def _aliases(model: nn.Module) -> Iterator[tuple[str, str]]:
    """Names of parameters that are the same tensor as one named before, with that name."""
    first: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        plain = name.removeprefix("module.").replace("_orig_mod.", "")
        if id(parameter) in first:
            yield plain, first[id(parameter)]
        else:
            first[id(parameter)] = plain


def _set_random_state(states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["torch"])
    if torch.cuda.is_available() and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"])
    plain = json.loads(bytes(states["plain"].tolist()))
    kind, position, has_gauss, cached = plain["numpy"]
    keys = states["numpy"].numpy().astype(np.uint32)
    np.random.set_state((kind, keys, position, has_gauss, cached))  # noqa: NPY002
    version, words, gauss = plain["python"]
    random.setstate((version, tuple(words), gauss))


def _manifest(hashes: dict[str, str]) -> bytes:
    """The files' hashes as JSON, and behind them a hash of that."""
    text = json.dumps(hashes, indent=1).encode()
    return text + b"\n" + hashlib.sha256(text).hexdigest().encode()


def _read_manifest(path: Path) -> dict[str, str]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    text, _, recorded = content.rpartition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != recorded:
        raise CheckpointError(f"{path} is corrupt: its checksum differs")
    hashes: dict[str, str] = json.loads(text)
    return hashes


def _existing(folder: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a folder, newest first, whole or not."""
    if not folder.is_dir():
        return []
    found = [(int(m[1]), path) for path in folder.iterdir() if (m := _FOLDER.fullmatch(path.name))]
    return sorted(found, reverse=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
