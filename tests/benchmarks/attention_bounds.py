"""What the bounds of theory.bounds cost, in forward passes of the same attention.

    python tests/benchmarks/attention_bounds.py [--repeat N] [--real | --quick]

Attentions of MiniLM's shape and of SmolLM2's (causal, rotary, grouped queries) with Gaussian
weights, at 24, 64 and 256 tokens; with --real a first and a middle layer of the models themselves,
on text (`make weights` first). "weights" is `attention_norms`, which a module needs once; the
bounds are given it and the linearisation at the input. The least of several repetitions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from differentials import attention, least_seconds

from theory.arguments import FloatArray
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
from theory.real_models import attention_input, load_model
from theory.real_tokens import real_tokens
from theory.rotary import Rotary

LENGTHS = (24, 64, 256)
COLUMNS = ("weights", "Thm 4.1", "measured", "gauge", "covariance", "moments")


def modules(quick: bool) -> Iterator[tuple[str, Attention, FloatArray]]:
    """Name, module and input (L, D)."""
    rng = np.random.default_rng(1)
    if quick:
        yield "2 heads, width 8", attention(rng, 2, 1, 8), rng.normal(size=(6, 8))
        return
    for length in LENGTHS:
        yield "MiniLM's shape", attention(rng, 12, 12, 384), rng.normal(size=(length, 384))
    for length in LENGTHS:
        causal = attention(rng, 9, 3, 576, mask="causal", rotary=Rotary())
        yield "SmolLM2's shape", causal, rng.normal(size=(length, 576))


def real_layers() -> Iterator[tuple[str, Attention, FloatArray]]:
    """The same of trained layers at their own inputs."""
    for key, wanted in (("minilm", (0, 3)), ("smollm2", (0, 15))):
        for length in LENGTHS:
            for index, (layer, X) in enumerate(load_model(key).walk(real_tokens(key, length))):
                if index in wanted:
                    yield f"{key} {index}", layer.attention, attention_input(layer, X)


def measure(module: Attention, X: FloatArray, repeat: int) -> tuple[float, list[float | None]]:
    """Seconds of a forward pass, and those of COLUMNS; None where the bound is not for such L."""
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
    if len(X) <= LONGEST_FOR_MOMENTS:
        works.append(lambda: moment_bound(at, norms=norms))
    forward, *others = least_seconds(works, repeat)
    return forward, [*others, *[None] * (len(COLUMNS) - len(others))]


def main(argv: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--repeat", type=int, default=5, help="repetitions (default: 5)")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--real", action="store_true", help="layers of trained models")
    which.add_argument("--quick", action="store_true", help="a small module alone")
    options = made.parse_args(argv)
    print(f"{'':18} {'L':>4} {'forward':>10}", *(f"{name:>10}" for name in COLUMNS))
    chosen = real_layers() if options.real else modules(options.quick)
    for name, module, X in chosen:
        forward, seconds = measure(module, X, options.repeat)
        cells = ("-" if s is None else f"{s / forward:.1f} ×" for s in seconds)
        print(
            f"{name:18} {len(X):4} {1e3 * forward:7.2f} ms",
            *(f"{cell:>10}" for cell in cells),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
