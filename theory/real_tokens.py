"""Public-domain text as two trained models read it: token numbers that come with the source tree.

`paper_checks/extract_tokens.py` writes them; their provenance says which texts and tokenizers they
come from.
"""

import numpy as np
import numpy.typing as npt

from theory._packages import MODELS
from theory._provenance import DATA_FOLDER, DataFile

STORED_TOKENS = 256
TOKENS = DataFile(
    name="real_tokens.npz",
    provenance="real_tokens.json",
    script="paper_checks/extract_tokens.py",
)
# MiniLM reads [CLS], the text, [SEP].
_MINILM_CLS, _MINILM_SEP = 101, 102


def real_tokens(key: str, length: int, text: int = 0) -> npt.NDArray[np.int_]:
    """The first tokens of a stored text as the model reads it, shape (length,).

    They come with the source tree. MiniLM's start with [CLS] and end with [SEP]; SmolLM2's have
    neither a start token nor a chat template around them.

    Args:
        key: "minilm" or "smollm2".
        length: number of tokens, the special ones included, at most STORED_TOKENS.
        text: which of the stored texts, from 0.

    Raises:
        ValueError: no such model or text, or no such length.
        FileNotFoundError: the stored tokens are missing.
    """
    if key not in MODELS:
        raise ValueError(f"unknown model {key!r}; there are {', '.join(MODELS)}")
    stored = TOKENS.load(DATA_FOLDER)[key]
    if not 0 <= text < len(stored):
        raise ValueError(f"no text {text}; there are {len(stored)}, from 0")
    special = 2 if key == "minilm" else 0
    if not special < length <= STORED_TOKENS:
        raise ValueError(f"length is {length}; {key} takes {special + 1} to {STORED_TOKENS} tokens")
    tokens = stored[text, : length - special].astype(np.int_)
    if key == "minilm":
        tokens = np.concatenate([[_MINILM_CLS], tokens, [_MINILM_SEP]])
    return tokens
