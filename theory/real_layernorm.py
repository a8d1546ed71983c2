"""What the LayerNorms of a trained post-LN encoder do to real text: the data of Corollary A.3.

For every token and every one of the twelve LayerNorms inside the six layers of all-MiniLM-L6-v2:
σ of the token, ‖γ‖_∞ of the module, and for every token the norm of its LayerNorm-only product.
`paper_checks/extract_layernorm.py` writes them; `load_provenance` says from which texts, weights
and package versions.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory._provenance import DATA_FOLDER, DataFile

MEASUREMENTS = DataFile(
    name="minilm_layernorm.npz",
    provenance="minilm_layernorm.json",
    script="paper_checks/extract_layernorm.py",
)
# Axis 1 of the arrays: the LayerNorm after attention, then the one after the feed-forward network.
MODULES = ("attention", "ffn")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LayerNormRecord:
    """Measurements at T tokens, passages one after another; all arrays are read-only.

    Attributes:
        gamma_max: float64, shape (layers, 2): ‖γ‖_∞ of each module, in the order of MODULES.
        sigma: float64, shape (layers, 2, T): √(variance + ε) of the module's input, positive.
        product_norm: float64, shape (T,): the largest singular value of the token's product of
            all LayerNorm Jacobians in order, from a floating-point decomposition.
        passage: int64, shape (T,): index into the provenance's list of passages.
    """

    gamma_max: NDArray[np.float64]
    sigma: NDArray[np.float64]
    product_norm: NDArray[np.float64]
    passage: NDArray[np.int64]

    @property
    def factors(self) -> NDArray[np.float64]:
        """a_{k,i} = ‖γ_k‖_∞/σ_k(y_{k,i}) of Corollary A.3, shape (layers, 2, T)."""
        return self.gamma_max[:, :, np.newaxis] / self.sigma


def load_layernorm_record(folder: Path = DATA_FOLDER) -> LayerNormRecord:
    """The stored measurements.

    Args:
        folder: where the measurements and their provenance lie.

    Raises:
        FileNotFoundError: the measurements or their provenance are missing.
        ValueError: the provenance is no record of the measurements, or their SHA-256 is not the
            recorded one.
    """
    return LayerNormRecord(**MEASUREMENTS.load(folder))


def load_provenance(folder: Path = DATA_FOLDER) -> dict[str, Any]:
    """Where the measurements come from: versions, model, texts, arithmetic, file hash.

    Raises:
        FileNotFoundError: the provenance is missing.
        ValueError: it is not JSON, or records no file hash.
    """
    return MEASUREMENTS.load_provenance(folder)
