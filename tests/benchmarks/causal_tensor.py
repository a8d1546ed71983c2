"""θ of a full causal attention tensor in one call: time, and memory beyond the input.

    python tests/benchmarks/causal_tensor.py [--layers 36] [--heads 20] [--length 1024]

The default is the paper's shape for one sequence, 737,280 rows, and takes 2.9 GB for the input.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence

import numpy as np

from theory.softmax import softmax
from theory.theta import theta_rows


def causal_attention(rng: np.random.Generator, length: int) -> np.ndarray:
    """Rows of softmax(N(0, s²)) logits under a causal mask, s drawn from 0.1 to 4 for the head."""
    logits = rng.standard_normal((length, length)) * rng.uniform(0.1, 4)
    return softmax(logits, mask=np.tril(np.ones((length, length), dtype=bool)))


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(argv: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--layers", type=int, default=36)
    made.add_argument("--heads", type=int, default=20)
    made.add_argument("--length", type=int, default=1024)
    options = made.parse_args(argv)
    rng = np.random.default_rng(0)
    shape = (options.layers, options.heads, options.length, options.length)
    tensor = np.empty(shape, np.float32)
    for layer in range(options.layers):
        for head in range(options.heads):
            tensor[layer, head] = causal_attention(rng, options.length)
    theta_rows(tensor[0, 0, :4], causal=True)  # compile
    before, start = peak_mib(), time.perf_counter()
    theta = theta_rows(tensor, causal=True)
    seconds = time.perf_counter() - start
    print(
        f"{theta.size} rows of a {tensor.nbytes / 2**20:.0f} MiB tensor: {seconds:.2f} s, "
        f"{peak_mib() - before:.0f} MiB beyond the input, θ = 1.0 in {np.mean(theta == 1.0):.1%}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
