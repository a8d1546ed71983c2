"""What the bounds of theory.bounds cost, in forward passes of the same attention.

    python tests/benchmarks/attention_bounds.py [--repeat N] [--quick]

Attentions of MiniLM's shape and of SmolLM2's (causal, rotary, grouped queries) with Gaussian
weights, at 24, 64 and 256 tokens. "weights" is `attention_norms`, which a module needs once; the
bounds are given it and the linearisation at the input. The least of several repetitions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from differentials import attention, least_seconds

from theory.attention import Attention
from theory.bounds import (
    attention_norms,
    covariance_bound,
    gauge_fixed_bound,
    measured_head_norm_bound,
    moment_bound,
    theorem_4_1_bound,
)
from theory.layer_figures import LONGEST_FOR_MOMENTS
from theory.rotary import Rotary

COLUMNS = ("weights", "Thm 4.1", "measured", "gauge", "covariance", "moments")


def modules(quick: bool) -> Iterator[tuple[str, Attention, int]]:
    """Name, module and number of tokens."""
    rng = np.random.default_rng(1)
    if quick:
        yield "2 heads, width 8", attention(rng, 2, 1, 8), 6
        return
    for length in (24, 64, 256):
        yield "MiniLM's shape", attention(rng, 12, 12, 384), length
    for length in (24, 64, 256):
        causal = attention(rng, 9, 3, 576, mask="causal", rotary=Rotary())
        yield "SmolLM2's shape", causal, length


def measure(module: Attention, length: int, repeat: int) -> tuple[float, list[float | None]]:
    """Seconds of a forward pass, and those of COLUMNS; None where the bound is not for such L."""
    X = np.random.default_rng(2).normal(size=(length, module.width))
    at, norms = module.at(X), attention_norms(module)
    works = [
        lambda: module(X),
        lambda: attention_norms(module),
        lambda: theorem_4_1_bound(module, X, norms=norms),
        *(
            lambda bound=bound: bound(at, norms=norms)
            for bound in (measured_head_norm_bound, gauge_fixed_bound, covariance_bound)
        ),
    ]
    if length <= LONGEST_FOR_MOMENTS:
        works.append(lambda: moment_bound(at, norms=norms))
    forward, *others = least_seconds(works, repeat)
    return forward, [*others, *[None] * (len(COLUMNS) - len(others))]


def main(argv: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--repeat", type=int, default=5, help="repetitions (default: 5)")
    made.add_argument("--quick", action="store_true", help="a small module alone")
    options = made.parse_args(argv)
    print(f"{'':18} {'L':>4} {'forward':>10}", *(f"{name:>10}" for name in COLUMNS))
    for name, module, length in modules(options.quick):
        forward, seconds = measure(module, length, options.repeat)
        cells = ("-" if s is None else f"{s / forward:.1f} ×" for s in seconds)
        print(
            f"{name:18} {length:4} {1e3 * forward:7.2f} ms",
            *(f"{cell:>10}" for cell in cells),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
