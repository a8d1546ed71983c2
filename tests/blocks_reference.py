"""Attention, feed-forward layers and normalisations once more: plain loops over heads and tokens,
analytic in complex numbers, and derivatives by the complex step.

For an f that is real on real numbers and analytic, Im f(x + ih v)/h is the derivative along v up to
h², and nothing is subtracted: at h = 1e-30 only the rounding of f itself is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import erf

from theory.attention import Attention
from theory.blocks import PostNormLayer, PreNormLayer, Stack
from theory.feed_forward import Experts, FeedForward
from theory.normaliser import Normaliser
from theory.rotary import Rotary

Array = npt.NDArray[Any]
STEP = 1e-30


def evaluate(module: object, X: Array) -> Array:
    """The module's output at X, by the functions below."""
    if isinstance(module, Attention):
        return attention(module, X)
    if isinstance(module, Normaliser):
        return np.stack([normalise(module, x) for x in X])
    if isinstance(module, FeedForward):
        return np.stack([feed_forward(module, x) for x in X])
    if isinstance(module, Experts):
        return np.stack([experts(module, t, x) for t, x in enumerate(X)])
    if isinstance(module, PreNormLayer):
        middle = X + attention(module.attention, evaluate(module.norm1, X))
        return middle + evaluate(module.feed_forward, evaluate(module.norm2, middle))
    if isinstance(module, PostNormLayer):
        middle = evaluate(module.norm1, X + attention(module.attention, X))
        return evaluate(module.norm2, middle + evaluate(module.feed_forward, middle))
    assert isinstance(module, Stack)
    for block in module.blocks:
        X = evaluate(block, X)
    return X


def attention(module: Attention, U: Array) -> Array:
    length = len(U)
    share = len(module.query_HDK) // len(module.key_GDK)
    scale = 1 / math.sqrt(module.query_HDK.shape[2]) if module.scale is None else module.scale
    out = [np.zeros(module.output_HVE.shape[2], U.dtype) for _ in range(length)]
    for h in range(len(module.query_HDK)):
        g = h // share
        queries, keys, values = [], [], []
        for t in range(length):
            q = U[t] @ module.query_HDK[h] + bias(module.query_bias_HK, h)
            k = U[t] @ module.key_GDK[g] + bias(module.key_bias_GK, g)
            if module.query_norm is not None:
                q = normalise(module.query_norm, q)
            if module.key_norm is not None:
                k = normalise(module.key_norm, k)
            if module.rotary is not None:
                q, k = rotate(module.rotary, t, q), rotate(module.rotary, t, k)
            queries.append(q)
            keys.append(k)
            values.append(U[t] @ module.value_GDV[g] + bias(module.value_bias_GV, g))
        for i in range(length):
            seen = [j for j in range(length) if is_visible(module, h, i, j)]
            logits = np.array([np.sum(queries[i] * keys[j]) * scale / module.tau for j in seen])
            weights = np.exp(logits - np.max(logits.real))
            weights = weights / np.sum(weights)
            head = sum(w * values[j] for w, j in zip(weights, seen, strict=True))
            out[i] = out[i] + head @ module.output_HVE[h]
    return np.stack(out) + (0 if module.output_bias_E is None else module.output_bias_E)


def bias(biases: Array | None, row: int) -> Any:
    return 0.0 if biases is None else biases[row]


def is_visible(module: Attention, h: int, i: int, j: int) -> bool:
    if module.mask is None:
        return True
    if isinstance(module.mask, str):
        return j <= i
    return bool(module.mask[i, j] if module.mask.ndim == 2 else module.mask[h, i, j])


def rotate(rotary: Rotary, token: int, x: Array) -> Array:
    width = len(x) if rotary.width is None else rotary.width
    place = token if rotary.positions is None else rotary.positions[token]
    turned = x.copy()
    for p in range(width // 2):
        angle = place * rotary.base ** (-2 * p / width)
        a, b = (2 * p, 2 * p + 1) if rotary.interleaved else (p, p + width // 2)
        turned[a] = x[a] * math.cos(angle) - x[b] * math.sin(angle)
        turned[b] = x[a] * math.sin(angle) + x[b] * math.cos(angle)
    return turned


def normalise(norm: Normaliser, x: Array) -> Array:
    if norm.kind == "layer":
        x = x - np.sum(x) / len(x)
    normed = norm.gamma * x / np.sqrt(np.sum(x * x) / len(x) + norm.eps)
    return normed if norm.beta is None else normed + norm.beta


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.where(x.real > 0, x, 0),
    "gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def feed_forward(layer: FeedForward, x: Array) -> Array:
    act = ACTIVATIONS[layer.activation]
    hidden = x @ layer.w1_DF + (0 if layer.b1_F is None else layer.b1_F)
    if layer.gate_DF is None:
        hidden = act(hidden)
    else:
        gate_bias = 0 if layer.gate_bias_F is None else layer.gate_bias_F
        hidden = act(x @ layer.gate_DF + gate_bias) * hidden
    return hidden @ layer.w2_FD + (0 if layer.b2_D is None else layer.b2_D)


def experts(mixture: Experts, token: int, x: Array) -> Array:
    weights = mixture.routing_LX[token]
    return sum(w * feed_forward(e, x) for w, e in zip(weights, mixture.experts, strict=True))


def complex_step_jvp(module: object, X: Array, dX: Array) -> Array:
    """The differential of `evaluate` at X along dX."""
    return evaluate(module, X + STEP * 1j * dX).imag / STEP


def complex_step_jacobian(module: object, X: Array) -> Array:
    """∂Out[i, e]/∂X[j, d], shape (L, E, L, D)."""
    columns = [complex_step_jvp(module, X, unit.reshape(X.shape)) for unit in np.eye(X.size)]
    return np.stack(columns, axis=-1).reshape(*columns[0].shape, *X.shape)
