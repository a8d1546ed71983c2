"""Exact θ against the paper's greedy certificate, on the same rows in the same run.

    make bench        (python tests/benchmarks/theta_rows.py [--rows N] [--repeat N])

Prints, for softmax rows of N(0, s²) logits, the time per row of ``theta_rows`` on one thread, its
ratio to the certificate of Appendix D.2 vectorised in NumPy, and how many rows were left open.
"""

from __future__ import annotations

import argparse
import platform
import timeit
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from theory.softmax import softmax
from theory.theta import theta_rows

Rows = npt.NDArray[np.float64]
LENGTHS = (8, 16, 24, 32, 64, 256, 1024)
DEVIATIONS = (0.1, 1.0, 3.0)


def greedy_in_numpy(rows: Rows) -> Rows:
    """The paper's certificate: descending prefix sums, the one nearest to 1/2."""
    prefixes = np.cumsum(-np.sort(-rows, axis=-1), axis=-1)
    nearest = np.argmin(np.abs(prefixes - 0.5), axis=-1)
    mass = np.take_along_axis(prefixes, nearest[..., None], axis=-1)[..., 0]
    return 4 * mass * (1 - mass)


def seconds_per_row(work: Callable[[Rows], object], rows: Rows, repeat: int) -> float:
    """The least time of several runs over all rows, by the number of rows."""
    return min(timeit.repeat(lambda: work(rows), number=1, repeat=repeat)) / len(rows)


def exact(rows: Rows) -> Rows:
    return np.asarray(theta_rows(rows, threads=1, budget=1.0, on_open="nan"))


def main(argv: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--rows", type=int, default=100, help="rows a cell (default: 100)")
    made.add_argument("--repeat", type=int, default=3, help="runs, of which the least counts")
    options = made.parse_args(argv)
    table = Table(title=f"time per row, {platform.processor() or platform.machine()}, one thread")
    for heading in ("L", "s", "exact θ, µs", "greedy, µs", "ratio", "open rows", "θ = 1.0"):
        table.add_column(heading, justify="right")
    exact(softmax(np.zeros((2, 8))))  # compile
    for length in LENGTHS:
        for deviation in DEVIATIONS:
            rng = np.random.default_rng(length)
            rows = softmax(rng.normal(scale=deviation, size=(options.rows, length)))
            values = exact(rows)
            ours = seconds_per_row(exact, rows, options.repeat)
            greedy = seconds_per_row(greedy_in_numpy, rows, options.repeat)
            table.add_row(
                *(str(length), f"{deviation:g}", f"{ours * 1e6:.1f}", f"{greedy * 1e6:.1f}"),
                *(f"{ours / greedy:.1f}", str(np.isnan(values).sum())),
                f"{np.mean(values == 1.0):.0%}",
            )
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
