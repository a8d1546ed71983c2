"""Random attention modules and layers of every variety, for tests."""

from __future__ import annotations

import numpy as np

from theory.activations import ACTIVATIONS
from theory.attention import Attention
from theory.blocks import PostNormLayer, PreNormLayer
from theory.feed_forward import Experts, FeedForward
from theory.masks import causal_mask, padding_mask, sliding_window_mask
from theory.normaliser import Normaliser
from theory.rotary import Rotary

Generator = np.random.Generator


def random_attention(
    rng: Generator, length: int, width: int, output_width: int | None = None
) -> Attention:
    """Heads 1 to 4 in groups, any mask, temperature, biases, rotary positions and QK-norm."""
    groups = int(rng.integers(1, 3))
    heads = groups * int(rng.integers(1, 3))
    head_width, value_width = 2 * int(rng.integers(1, 4)), int(rng.integers(1, 5))
    output_width = width if output_width is None else output_width

    def sometimes(*shape: int) -> np.ndarray | None:
        return rng.normal(size=shape) if rng.random() < 0.5 else None

    def sometimes_a_norm() -> Normaliser | None:
        # At width 2 the Jacobian of LayerNorm is a factor ρ below the terms that cancel in it.
        wanted = head_width > 2 and rng.random() < 0.5
        return random_normaliser(rng, head_width) if wanted else None

    return Attention(
        query_HDK=rng.normal(size=(heads, width, head_width)),
        key_GDK=rng.normal(size=(groups, width, head_width)),
        value_GDV=rng.normal(size=(groups, width, value_width)),
        output_HVE=rng.normal(size=(heads, value_width, output_width)),
        query_bias_HK=sometimes(heads, head_width),
        key_bias_GK=sometimes(groups, head_width),
        value_bias_GV=sometimes(groups, value_width),
        output_bias_E=sometimes(output_width),
        tau=float(rng.choice([0.5, 1.0, 1.0, 3.0])),
        scale=None if rng.random() < 0.7 else float(rng.uniform(0.1, 2)),
        mask=random_mask(rng, length, heads),
        rotary=random_rotary(rng, length, head_width) if rng.random() < 0.5 else None,
        query_norm=sometimes_a_norm(),
        key_norm=sometimes_a_norm(),
    )


def random_mask(rng: Generator, length: int, heads: int) -> object:
    kind = rng.integers(6)
    if kind == 0:
        return None
    if kind == 1:
        return "causal"
    if kind == 2:
        real = rng.random(length) < 0.6
        real[rng.integers(length)] = True
        return padding_mask(real)
    if kind == 3:
        window = int(rng.integers(1, length + 2))
        return sliding_window_mask(length, window, causal=bool(rng.integers(2)))
    if kind == 4:
        return causal_mask(length) & sliding_window_mask(length, 2)
    return (rng.random((heads, length, length)) < 0.4) | np.eye(length, dtype=bool)


def random_rotary(rng: Generator, length: int, head_width: int) -> Rotary:
    return Rotary(
        base=float(rng.choice([10.0, 10000.0])),
        width=None if rng.random() < 0.5 else 2 * int(rng.integers(1, head_width // 2 + 1)),
        interleaved=bool(rng.integers(2)),
        positions=None if rng.random() < 0.5 else rng.integers(0, 50, size=length),
    )


def random_normaliser(rng: Generator, width: int) -> Normaliser:
    kind = "layer" if rng.random() < 0.5 else "rms"
    has_beta = kind == "layer" and rng.random() < 0.7
    return Normaliser(
        kind=kind,
        gamma=rng.normal(size=width),
        beta=rng.normal(size=width) if has_beta else None,
        eps=float(rng.choice([1e-5, 0.1])),
    )


def random_feed_forward(rng: Generator, width: int, output_width: int | None = None) -> FeedForward:
    hidden = int(rng.integers(1, 9))
    output_width = width if output_width is None else output_width
    gated = rng.random() < 0.5

    def sometimes(*shape: int) -> np.ndarray | None:
        return rng.normal(size=shape) if rng.random() < 0.5 else None

    return FeedForward(
        w1_DF=rng.normal(size=(width, hidden)),
        w2_FD=rng.normal(size=(hidden, output_width)),
        b1_F=sometimes(hidden),
        b2_D=sometimes(output_width),
        activation=str(rng.choice(list(ACTIVATIONS))),
        gate_DF=rng.normal(size=(width, hidden)) if gated else None,
        gate_bias_F=sometimes(hidden) if gated else None,
    )


def random_experts(rng: Generator, length: int, width: int) -> Experts:
    count = int(rng.integers(1, 4))
    routing = rng.dirichlet(np.ones(count), size=length) * (rng.random((length, count)) < 0.7)
    layers = [random_feed_forward(rng, width) for _ in range(count)]
    return Experts(experts=layers, routing_LX=routing)


def random_layer(rng: Generator, length: int, width: int) -> PreNormLayer | PostNormLayer:
    mixture = rng.random() < 0.3
    kind = PreNormLayer if rng.random() < 0.5 else PostNormLayer
    return kind(
        attention=random_attention(rng, length, width),
        norm1=random_normaliser(rng, width),
        feed_forward=(
            random_experts(rng, length, width) if mixture else random_feed_forward(rng, width)
        ),
        norm2=random_normaliser(rng, width),
    )
