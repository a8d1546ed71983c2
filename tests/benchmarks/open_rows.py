"""Which rows of softmax(N(0, s²)) logits come back proved or rounded, and how far the others are.

    python tests/benchmarks/open_rows.py [--rows N] [--lengths L …] [--deviations S …]
                                         [--outliers K …] [--groups G …]
                                         [--dtype float64|float32|bfloat16] [--budget SECONDS]

With --outliers, so many weights of each row are 1 to 20 % larger or smaller than the others: with
small deviations, such rows are those of attention early in training. With --groups, the weights are
in so many groups up to 20 % larger or smaller, of spread s.

Prints, for each length and deviation, how many rows came back OPTIMAL, ROUNDED and BOUNDED, the
mean and the largest time of a row, and the largest δ = D/W of the subsets of BOUNDED rows. Without
a budget a row may take as long as its search takes.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Sequence

import ml_dtypes
import numpy as np
import numpy.typing as npt

from theory.softmax import softmax
from theory.theta import Status, solve_theta, theta_rows

SHORT = tuple(range(1, 41))
LENGTHS = (*SHORT, 64, 100, 128, 256, 512, 1024, 2048, 4096, 8192)
DEVIATIONS = (0.01, 0.1, 0.3, 1.0, 2.0, 3.0, 6.0, 10.0)
DTYPES = {"float64": np.float64, "float32": np.float32, "bfloat16": ml_dtypes.bfloat16}


def sample(
    length: int, deviation: float, count: int, outliers: int = 0, groups: int = 1
) -> npt.NDArray[np.float64]:
    """(count, length): the rows of one cell, the same whatever else is swept."""
    seed = [length, round(1000 * deviation)]
    if outliers or groups > 1:
        seed += [outliers, round(1e6 * deviation)]
    if groups > 1:
        seed += [groups, round(1e9 * deviation)]
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=deviation, size=(count, length))
    if groups > 1:
        sizes = np.log(rng.uniform(0.8, 1.2, (count, groups)))
        logits += np.take_along_axis(sizes, rng.integers(groups, size=(count, length)), axis=1)
    if outliers:
        off = rng.uniform(0.01, 0.2, (count, outliers)) * rng.choice([-1, 1], (count, outliers))
        logits[:, :outliers] += np.log1p(off)
    return softmax(logits)


def sweep_cell(rows: npt.NDArray, budget: float | None) -> tuple[list[int], list[float], float]:
    """Rows by status, seconds of each row, and the largest δ of the rows that stay open."""
    counts, seconds, widest = [0, 0, 0], [], 0.0
    for row in rows:
        start = time.perf_counter()
        _, status = theta_rows(
            row[None],
            check_sum=False,
            budget=budget,
            on_open="nan",
            threads=1,
            return_status=True,
        )
        seconds.append(time.perf_counter() - start)
        counts[status[0]] += 1
        if status[0] == Status.BOUNDED:
            lower = solve_theta(row, budget=budget).lower
            widest = max(widest, math.sqrt(1 - lower))
    return counts, seconds, widest


def main(argv: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--rows", type=int, default=200, help="rows a cell (default: 200)")
    made.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    made.add_argument("--deviations", type=float, nargs="+", default=DEVIATIONS)
    made.add_argument("--outliers", type=int, nargs="+", default=(0,))
    made.add_argument("--groups", type=int, nargs="+", default=(1,))
    made.add_argument("--dtype", choices=DTYPES, default="float64")
    made.add_argument("--budget", type=float, help="seconds a row (default: no limit)")
    options = made.parse_args(argv)
    sweep_cell(sample(32, 1.0, 2), None)  # compile
    heading = "out grp optimal rounded open   mean ms    max ms  largest δ"
    print(f"{options.dtype}: {'L':>5} {'s':>6} {heading}")
    unsettled = 0
    cells = itertools.product(options.lengths, options.deviations, options.outliers, options.groups)
    for length, deviation, outliers, groups in cells:
        # The few long rows take as long as many short ones.
        count = min(options.rows, 20) if length > 1024 else options.rows
        rows = sample(length, deviation, count, min(outliers, length), groups)
        counts, seconds, widest = sweep_cell(rows.astype(DTYPES[options.dtype]), options.budget)
        unsettled += counts[Status.BOUNDED]
        print(
            f"{options.dtype}: {length:5} {deviation:6g} {outliers:3} {groups:3} {counts[0]:7} "
            f"{counts[1]:7} {counts[2]:4} {1e3 * np.mean(seconds):9.3f} "
            f"{1e3 * max(seconds):9.1f}  {widest:.3g}",
            flush=True,
        )
    print(f"{options.dtype}: {unsettled} rows open")
    return int(unsettled > 0)


if __name__ == "__main__":
    raise SystemExit(main())
