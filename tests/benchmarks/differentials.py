"""What a JVP and a VJP cost beside a forward pass, for attention and whole layers.

    python tests/benchmarks/differentials.py [--repeat N] [--quick]

For each module: the time of a forward pass, that of a JVP and of a VJP over it, each with the
forward pass that it needs, and that of one row of blocks M_ij. The least of several repetitions, in
turns, so that a slow moment of the machine does not fall on one of them. The exit status is 1 where
a JVP or VJP takes more than five forward passes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from theory.attention import Attention
from theory.blocks import PostNormLayer, PreNormLayer
from theory.feed_forward import FeedForward
from theory.linearisation import Operator
from theory.normaliser import Normaliser
from theory.rotary import Rotary

LIMIT = 5.0


def attention(
    rng: np.random.Generator, heads: int, groups: int, width: int, **options: object
) -> Attention:
    head_width = width // heads
    return Attention(
        query_HDK=rng.normal(size=(heads, width, head_width)) / np.sqrt(width),
        key_GDK=rng.normal(size=(groups, width, head_width)) / np.sqrt(width),
        value_GDV=rng.normal(size=(groups, width, head_width)) / np.sqrt(width),
        output_HVE=rng.normal(size=(heads, head_width, width)) / np.sqrt(width),
        **options,
    )


def normaliser(kind: str, width: int) -> Normaliser:
    return Normaliser(kind=kind, gamma=np.ones(width), eps=1e-5)


def feed_forward(rng: np.random.Generator, width: int, hidden: int, gated: bool) -> FeedForward:
    return FeedForward(
        w1_DF=rng.normal(size=(width, hidden)) / np.sqrt(width),
        w2_FD=rng.normal(size=(hidden, width)) / np.sqrt(hidden),
        gate_DF=rng.normal(size=(width, hidden)) / np.sqrt(width) if gated else None,
        activation="silu" if gated else "gelu",
    )


def modules(quick: bool) -> Iterator[tuple[str, Operator, int, int]]:
    """Name, module, tokens and width: a toy, one of MiniLM's shape, two of SmolLM2's."""
    rng = np.random.default_rng(1)
    yield "attention, 2 heads, width 8", attention(rng, 2, 1, 8), 6, 8
    if quick:
        return
    for length in (24, 64, 256):
        yield "attention, 12 heads, width 384", attention(rng, 12, 12, 384), length, 384
    for length in (24, 64, 256):
        options = {"mask": "causal", "rotary": Rotary()}
        grouped = attention(rng, 9, 3, 576, **options)
        yield "attention, 9 heads in 3 groups, rotary, width 576", grouped, length, 576
    normed = attention(
        rng, 9, 3, 576, query_norm=normaliser("rms", 64), key_norm=normaliser("rms", 64), **options
    )
    yield "the same with QK-norm", normed, 64, 576
    post = PostNormLayer(
        attention=attention(rng, 12, 12, 384),
        norm1=normaliser("layer", 384),
        feed_forward=feed_forward(rng, 384, 1536, gated=False),
        norm2=normaliser("layer", 384),
    )
    yield "post-LN layer, width 384", post, 64, 384
    pre = PreNormLayer(
        attention=grouped,
        norm1=normaliser("rms", 576),
        feed_forward=feed_forward(rng, 576, 1536, gated=True),
        norm2=normaliser("rms", 576),
    )
    yield "pre-RMSNorm gated layer, width 576", pre, 64, 576


def least_seconds(works: Sequence[Callable[[], object]], repeat: int) -> list[float]:
    """The least time of each work over `repeat` rounds in which each has its turn."""
    least = [float("inf")] * len(works)
    for _ in range(repeat):
        for k, work in enumerate(works):
            start = time.perf_counter()
            work()
            least[k] = min(least[k], time.perf_counter() - start)
    return least


def measure(module: Operator, length: int, width: int, repeat: int) -> tuple[float, ...]:
    """Seconds of a forward pass, of it with a JVP, of it with a VJP, and of a row of blocks."""
    X, dX = np.random.default_rng(2).normal(size=(2, length, width))
    at = module.at(X)
    forward, jvp, vjp = least_seconds(
        [lambda: module(X), lambda: module.at(X).jvp(dX), lambda: module.at(X).vjp(dX)], repeat
    )
    (row,) = least_seconds([lambda: at.row_block(length // 2)], min(repeat, 3))
    return forward, jvp, vjp, row


def main(argv: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--repeat", type=int, default=15, help="repetitions (default: 15)")
    made.add_argument("--quick", action="store_true", help="the smallest module alone")
    options = made.parse_args(argv)
    print(f"{'module':50} {'L':>4} {'forward ms':>10} {'JVP':>5} {'VJP':>5} {'row ms':>8}")
    worst = 0.0
    for name, module, length, width in modules(options.quick):
        forward, jvp, vjp, row = measure(module, length, width, options.repeat)
        worst = max(worst, jvp / forward, vjp / forward)
        print(
            f"{name:50} {length:4} {1e3 * forward:10.2f} {jvp / forward:5.2f} "
            f"{vjp / forward:5.2f} {1e3 * row:8.1f}",
            flush=True,
        )
    print(f"at most {worst:.2f} forward passes for a JVP or VJP, the forward pass included")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
