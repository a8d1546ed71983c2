"""Attention rows of two trained transformers on real text, kept as test material for the claims.

The rows are float32 softmax outputs of SmolLM2-135M-Instruct (a causal decoder, pre-RMSNorm) and of
all-MiniLM-L6-v2 (a bidirectional encoder, post-LayerNorm). `paper_checks/extract_rows.py` writes
them; `load_provenance` says which texts, layers, heads and package versions they came from.

They are stored exactly as the softmax produced them. So their sums miss 1 by a few float32 ulps,
and a visible key may carry a subnormal probability, or 0 where the exponential underflowed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory._provenance import DATA_FOLDER, DataFile

ROWS = DataFile(
    name="attention_rows.npz",
    provenance="attention_rows.json",
    script="paper_checks/extract_rows.py",
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AttentionRow:
    """One row of one head's attention matrix, over the keys that its query may see.

    Attributes:
        model: name of the model, as in the provenance.
        passage: index into the provenance's list of passages, the text that was read.
        layer: zero-based layer.
        head: zero-based head.
        position: zero-based position of the query token.
        probabilities: float32 array of shape (support,), read-only, one entry per visible key;
            in the causal model the query sees itself and what precedes it, so that
            support = position + 1, and in the encoder it sees every token of the passage.
    """

    model: str
    passage: int
    layer: int
    head: int
    position: int
    probabilities: NDArray[np.float32]

    @property
    def support(self) -> int:
        """Number of visible keys, underflowed ones included."""
        return self.probabilities.size


def load_attention_rows(
    *,
    min_support: int = 1,
    max_support: int | None = None,
    model: str | None = None,
    folder: Path = DATA_FOLDER,
) -> tuple[AttentionRow, ...]:
    """The stored rows with min_support <= support <= max_support, in stored order.

    Args:
        min_support: smallest support to return.
        max_support: largest support to return; None for no limit.
        model: only this model's rows; None for all.
        folder: where the rows and their provenance lie.

    Returns:
        A tuple of rows, empty when no stored row has such a support.

    Raises:
        FileNotFoundError: the rows or their provenance are missing.
        ValueError: the provenance is no record of rows, the rows' SHA-256 is not the recorded one,
            or the model is unknown.
    """
    columns = ROWS.load(folder)
    names = [str(name) for name in columns["model_names"]]
    if model is not None and model not in names:
        raise ValueError(f"unknown model {model!r}; the stored rows are of {', '.join(names)}")
    flat, offsets = columns["probabilities"], columns["offsets"]

    rows = []
    for index, support in enumerate(np.diff(offsets)):
        name = names[columns["model"][index]]
        if (
            support < min_support
            or (max_support is not None and support > max_support)
            or (model is not None and name != model)
        ):
            continue
        rows.append(
            AttentionRow(
                model=name,
                passage=int(columns["passage"][index]),
                layer=int(columns["layer"][index]),
                head=int(columns["head"][index]),
                position=int(columns["position"][index]),
                probabilities=flat[offsets[index] : offsets[index + 1]],
            )
        )
    return tuple(rows)


def load_provenance(folder: Path = DATA_FOLDER) -> dict[str, Any]:
    """Where the stored rows come from: versions, models, texts, sampling, file hash.

    Raises:
        FileNotFoundError: the provenance is missing.
        ValueError: it is not JSON, or records no file hash.
    """
    return ROWS.load_provenance(folder)
