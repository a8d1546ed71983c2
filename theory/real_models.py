"""The layers of two trained transformers, as functions of this package in float64.

all-MiniLM-L6-v2 is an encoder: post-LayerNorm, exact GELU, biases everywhere. SmolLM2-135M-Instruct
is a causal decoder: pre-RMSNorm, rotary positions, nine query heads in three groups, a gated SiLU
network, no biases; its weights are the float32 numbers that its Q4_1 GGUF file dequantises to. Both
are read from installed packages (`make weights`), without the library that is commonly used to run
them, and every float32 weight enters exactly.

Shape letters: L tokens, D width, H query heads, G key/value groups, K key width, V value width, E
output width, F width of the feed-forward network.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from theory._packages import (
    MINILM,
    MINILM_FOLDER,
    MINILM_PACKAGE,
    MODELS,
    SMOLLM2,
    SMOLLM2_FILE,
    SMOLLM2_PACKAGE,
    MissingWeights,
    installed_path,
)
from theory.arguments import FloatArray
from theory.attention import Attention
from theory.blocks import PostNormLayer, PreNormLayer
from theory.feed_forward import FeedForward
from theory.normaliser import Normaliser
from theory.rotary import Rotary

Layer = PreNormLayer | PostNormLayer

# What MiniLM's config.json says and its weights do not.
_MINILM_LAYERS, _MINILM_HEADS, _MINILM_EPS = 6, 12, 1e-12


@dataclass(frozen=True, kw_only=True)
class RealModel:
    """A trained model, its layers built one at a time when they are asked for.

    Attributes:
        key: "minilm" or "smollm2".
        name: the model's own name.
        depth: number of layers.
        embed: token numbers, shape (L,), to the first layer's input, float64 of shape (L, D).
        layer: index from 0 to depth − 1 to the layer.
    """

    key: str
    name: str
    depth: int
    embed: Callable[[npt.NDArray[np.int_]], FloatArray]
    layer: Callable[[int], Layer]

    def walk(self, tokens: npt.NDArray[np.int_]) -> Iterator[tuple[Layer, FloatArray]]:
        """Every layer in order, each with its input X, float64 of shape (L, D)."""
        X = self.embed(tokens)
        for index in range(self.depth):
            layer = self.layer(index)
            yield layer, X
            X = layer(X)


def load_model(key: str) -> RealModel:
    """A trained model from its installed package.

    Args:
        key: "minilm" (6 layers, D = 384, 12 heads) or "smollm2" (30 layers, D = 576, 9 heads).

    Raises:
        MissingWeights: the package that carries the weights, or the one that reads them, is not
            installed; the message names the command that installs it.
        ValueError: no such model.
    """
    if key == "minilm":
        return _minilm()
    if key == "smollm2":
        return _smollm2()
    raise ValueError(f"unknown model {key!r}; there are {', '.join(MODELS)}")


def attention_input(layer: Layer, X: FloatArray) -> FloatArray:
    """What the layer's attention receives where the layer receives X: U of shape (L, D)."""
    return layer.norm1(X) if isinstance(layer, PreNormLayer) else X


# ------------------------------------------------------------------------------------- MiniLM


def _minilm() -> RealModel:
    path = installed_path(MINILM_PACKAGE, f"{MINILM_FOLDER}/model.safetensors")
    try:
        from safetensors.numpy import load_file
    except ImportError as error:
        raise MissingWeights("safetensors is not installed: run `make weights`") from error
    weights = load_file(path)

    def normaliser(name: str) -> Normaliser:
        return Normaliser(
            kind="layer",
            gamma=_exact(weights[f"{name}.weight"]),
            beta=_exact(weights[f"{name}.bias"]),
            eps=_MINILM_EPS,
        )

    def linear(name: str) -> tuple[FloatArray, FloatArray]:
        """Weight in the row-vector convention, (inputs, outputs), and bias."""
        return _exact(weights[f"{name}.weight"]).T, _exact(weights[f"{name}.bias"])

    embedding_norm = normaliser("embeddings.LayerNorm")

    def embed(tokens: npt.NDArray[np.int_]) -> FloatArray:
        word = _exact(weights["embeddings.word_embeddings.weight"][tokens])
        place = _exact(weights["embeddings.position_embeddings.weight"][: len(tokens)])
        segment = _exact(weights["embeddings.token_type_embeddings.weight"][0])
        return embedding_norm(word + segment + place)

    def layer(index: int) -> Layer:
        base = f"encoder.layer.{_valid(index, _MINILM_LAYERS)}"
        (query, query_bias), (key, key_bias), (value, value_bias) = (
            linear(f"{base}.attention.self.{name}") for name in ("query", "key", "value")
        )
        output, output_bias = linear(f"{base}.attention.output.dense")
        w1, b1 = linear(f"{base}.intermediate.dense")
        w2, b2 = linear(f"{base}.output.dense")
        return PostNormLayer(
            attention=Attention.from_matrices(
                *(query, key, value, output),
                heads=_MINILM_HEADS,
                b_Q=query_bias,
                b_K=key_bias,
                b_V=value_bias,
                b_O=output_bias,
            ),
            norm1=normaliser(f"{base}.attention.output.LayerNorm"),
            feed_forward=FeedForward(w1_DF=w1, w2_FD=w2, b1_F=b1, b2_D=b2, activation="gelu"),
            norm2=normaliser(f"{base}.output.LayerNorm"),
        )

    return RealModel(key="minilm", name=MINILM, depth=_MINILM_LAYERS, embed=embed, layer=layer)


# ------------------------------------------------------------------------------------ SmolLM2


def _smollm2() -> RealModel:
    path = installed_path(SMOLLM2_PACKAGE, SMOLLM2_FILE)
    try:
        import gguf
    except ImportError as error:
        raise MissingWeights("gguf is not installed: run `make weights`") from error
    reader = gguf.GGUFReader(path)
    tensors = {tensor.name: tensor for tensor in reader.tensors}

    def field(name: str) -> Any:
        return reader.fields[f"llama.{name}"].contents()

    depth = int(field("block_count"))
    heads, groups = int(field("attention.head_count")), int(field("attention.head_count_kv"))
    eps = float(field("attention.layer_norm_rms_epsilon"))
    rotary = Rotary(base=float(field("rope.freq_base")), interleaved=True)

    def weight(name: str) -> FloatArray:
        tensor = tensors[f"{name}.weight"]
        return _exact(gguf.dequantize(tensor.data, tensor.tensor_type))

    def embed(tokens: npt.NDArray[np.int_]) -> FloatArray:
        # A row is dequantised by itself; the whole table would take 200 MB.
        table = tensors["token_embd.weight"]
        return _exact(gguf.dequantize(table.data[tokens], table.tensor_type))

    def layer(index: int) -> Layer:
        base = f"blk.{_valid(index, depth)}"
        return PreNormLayer(
            norm1=Normaliser(kind="rms", gamma=weight(f"{base}.attn_norm"), eps=eps),
            # The file orders the coordinates of queries and keys so that a rotated pair is
            # (2p, 2p + 1).
            attention=Attention.from_matrices(
                *(weight(f"{base}.attn_{name}").T for name in ("q", "k", "v", "output")),
                heads=heads,
                groups=groups,
                mask="causal",
                rotary=rotary,
            ),
            norm2=Normaliser(kind="rms", gamma=weight(f"{base}.ffn_norm"), eps=eps),
            feed_forward=FeedForward(
                w1_DF=weight(f"{base}.ffn_up").T,
                gate_DF=weight(f"{base}.ffn_gate").T,
                w2_FD=weight(f"{base}.ffn_down").T,
                activation="silu",
            ),
        )

    return RealModel(key="smollm2", name=SMOLLM2, depth=depth, embed=embed, layer=layer)


def _exact(array: npt.NDArray[np.float32]) -> FloatArray:
    # Every float32 is a float64.
    return array.astype(np.float64)


def _valid(index: int, depth: int) -> int:
    if not 0 <= index < depth:
        raise ValueError(f"no layer {index}; there are {depth}, from 0")
    return index
