"""The paper's Post-LN transformer at initialisation: what its LayerNorms receive.

Appendix D's architecture, a causal decoder without biases: token and learned position embeddings
are added, then each layer does x <- LN(x + MHA(x)) and x <- LN(x + FFN(x)) with exact GELU. Weights
are N(0, std²), those of the attention output and of the second feed-forward matrix
N(0, std²/(2·layers)); γ = 1, β = 0. The paper leaves open whether the embeddings are normalised
(here they are not) and the value of ε. Dropout is off.

Weights are drawn layer by layer and dropped, so that the full model needs little memory.
Shapes: L tokens, D width.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from theory.activations import gelu
from theory.arguments import FloatArray
from theory.layernorm import layer_norm_stats

Floats = npt.NDArray[np.floating[Any]]
# What LayerNorms come to in a layer, in the order in which they are applied.
MODULES = ("attention", "ffn")


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """Sizes of a decoder. Raises ValueError where `heads` does not divide `width`.

    hidden: width of the feed-forward network; std: of the initial weights; eps: the LayerNorms' ε.
    """

    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int = 50257
    std: float = 0.02
    eps: float = 1e-5

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads do not divide the width {self.width}")


PAPER = Architecture(layers=36, width=1280, heads=20, hidden=5120)
PAPER_LENGTH = 1024


def layer_norm_sigmas(
    architecture: Architecture,
    tokens: npt.ArrayLike,
    *,
    seed: int,
    dtype: npt.DTypeLike = np.float32,
) -> FloatArray:
    """σ = √(variance + ε) of every LayerNorm's inputs, for one random draw of the weights.

    tokens: L integers below architecture.vocabulary; seed: of all weights, which are float32
    numbers; dtype: float32 or float64, of the arithmetic. Returns float64 of shape (layers, 2, L),
    MODULES along the second axis: with γ = 1 the factor a_{k,i} of Corollary A.3 is 1/σ.

    A floating-point forward pass; σ is taken in float64. Raises ValueError for tokens that are no
    such integers.
    """
    numbers = np.asarray(tokens)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
        raise ValueError("tokens must be a nonempty list of integers")
    if numbers.min() < 0 or numbers.max() >= architecture.vocabulary:
        raise ValueError(f"tokens must lie in 0..{architecture.vocabulary - 1}")
    draws = _Draws(np.random.default_rng(seed), np.dtype(dtype))
    width, hidden, std = architecture.width, architecture.hidden, architecture.std
    residual_std = std / np.sqrt(2 * architecture.layers)
    # Rows of the embedding that no token reads need not be drawn.
    distinct, inverse = np.unique(numbers, return_inverse=True)
    state = draws.normal(distinct.size, width, std)[inverse]
    state = state + draws.normal(numbers.size, width, std)
    sigmas = np.empty((architecture.layers, len(MODULES), numbers.size))
    for k in range(architecture.layers):
        projection = draws.normal(width, 3 * width, std)
        output = draws.normal(width, width, residual_std)
        mixed = _causal_attention(state @ projection, architecture.heads)
        state, sigmas[k, 0] = _layer_norm(state + mixed @ output, architecture.eps)
        inner = state @ draws.normal(width, hidden, std)
        outer = gelu(inner).astype(state.dtype) @ draws.normal(hidden, width, residual_std)
        state, sigmas[k, 1] = _layer_norm(state + outer, architecture.eps)
    return sigmas


@dataclass(frozen=True, slots=True)
class _Draws:
    generator: np.random.Generator
    dtype: np.dtype[Any]

    def normal(self, rows: int, columns: int, std: float) -> Floats:
        drawn = self.generator.standard_normal((rows, columns), dtype=np.float32)
        drawn *= np.float32(std)
        return drawn.astype(self.dtype, copy=False)


def _causal_attention(projected: Floats, heads: int) -> Floats:
    """Concatenated head outputs, shape (L, D), of queries, keys and values side by side."""
    length, width = projected.shape[0], projected.shape[1] // 3
    size = width // heads
    queries, keys, values = np.split(projected, 3, axis=1)
    hidden = np.triu(np.full((length, length), -np.inf, dtype=projected.dtype), 1)
    result = np.empty((length, width), dtype=projected.dtype)
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        weights = queries[:, own] @ keys[:, own].T
        weights /= np.sqrt(projected.dtype.type(size))
        weights += hidden
        weights -= weights.max(axis=1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True)
        result[:, own] = weights @ values[:, own]
    return result


def _layer_norm(state: Floats, eps: float) -> tuple[Floats, FloatArray]:
    stats = layer_norm_stats(state, eps)
    return stats.xhat.astype(state.dtype), stats.sigma
