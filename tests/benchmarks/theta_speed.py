"""The speed that batches of rows are held to: ratios on one thread, interleaved in one run.

    python tests/benchmarks/theta_speed.py [--entries N] [--repeat N]

1. Long rows: time per row over NumPy's greedy certificate (Appendix D.2) on the same rows.
2. L = 16 and 24: over a plain meet in the middle, written with Numba below.
3. L = 26 … 40: microseconds a row.

Rows are softmax of N(0, s²) logits. Times are least times of several runs.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Sequence

import numba
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from theory.softmax import softmax
from theory.theta import theta_rows

Rows = npt.NDArray[np.float64]


def greedy_in_numpy(rows: Rows) -> Rows:
    """The paper's certificate: descending prefix sums, the one nearest to 1/2."""
    prefixes = np.cumsum(-np.sort(-rows, axis=-1), axis=-1)
    nearest = np.argmin(np.abs(prefixes - 0.5), axis=-1)
    mass = np.take_along_axis(prefixes, nearest[..., None], axis=-1)[..., 0]
    return 4 * mass * (1 - mass)


@numba.njit(nogil=True)
def plain_mitm(rows):  # type: ignore[no-untyped-def]
    """Horowitz and Sahni 1974 in float64: list both halves' sums by merging, then two pointers."""
    count, length = rows.shape
    theta = np.empty(count)
    most = 1 << ((length + 1) // 2)
    sums = np.empty((2, most))
    spare = np.empty(most)
    for r in range(count):
        total = rows[r].sum()
        sizes = [1, 1]
        for side in range(2):
            listed = sums[side]
            listed[0] = 0.0
            size = 1
            for k in range(side, length, 2):
                i = 0
                j = 0
                for m in range(2 * size):
                    if i < size and listed[i] <= listed[j] + rows[r, k]:
                        spare[m] = listed[i]
                        i += 1
                    else:
                        spare[m] = listed[j] + rows[r, k]
                        j += 1
                size *= 2
                listed[:size] = spare[:size]
            sizes[side] = size
        best = np.inf
        j = sizes[1] - 1
        for i in range(sizes[0]):
            while j > 0 and sums[0, i] + sums[1, j] > total / 2:
                j -= 1
            for partner in range(j, min(j + 2, sizes[1])):
                best = min(best, abs(sums[0, i] + sums[1, partner] - total / 2))
        theta[r] = 1 - (2 * best / total) ** 2
    return theta


def exact(rows: Rows) -> Rows:
    return np.asarray(theta_rows(rows, threads=1))


def seconds_per_row(
    works: Sequence[Callable[[Rows], object]], rows: Rows, repeat: int
) -> list[float]:
    """The least time of each work on all rows, by their number; the works take turns."""
    least = [np.inf] * len(works)
    for _ in range(repeat):
        for k, work in enumerate(works):
            start = time.perf_counter()
            work(rows)
            least[k] = min(least[k], time.perf_counter() - start)
    return [seconds / len(rows) for seconds in least]


def softmax_rows(length: int, deviation: float, count: int) -> Rows:
    rng = np.random.default_rng(length)
    return np.asarray(softmax(rng.normal(scale=deviation, size=(count, length))))


def table_of(
    title: str,
    rival: Callable[[Rows], object],
    lengths: Sequence[int],
    deviations: Sequence[float],
    options: argparse.Namespace,
) -> tuple[Table, dict[int, list[float]]]:
    """Time per row beside a rival's, and the ratios by length."""
    table = Table(title=title)
    for heading in ("L", "s", "exact θ, µs", "rival, µs", "ratio"):
        table.add_column(heading, justify="right")
    ratios: dict[int, list[float]] = {}
    for length in lengths:
        for deviation in deviations:
            rows = softmax_rows(length, deviation, max(20, options.entries // length))
            ours, theirs = seconds_per_row([exact, rival], rows, options.repeat)
            ratios.setdefault(length, []).append(ours / theirs)
            table.add_row(
                str(length),
                f"{deviation:g}",
                f"{ours * 1e6:.2f}",
                f"{theirs * 1e6:.2f}",
                f"{ours / theirs:.2f}",
            )
    return table, ratios


def main(argv: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--entries", type=int, default=1_600_000, help="numbers in an array of rows")
    made.add_argument("--repeat", type=int, default=7, help="runs, of which the least counts")
    options = made.parse_args(argv)
    console = Console()
    console.print(f"{platform.processor() or platform.machine()}, one thread")
    for length in (8, 300):
        exact(softmax_rows(length, 1.0, 2))
    plain_mitm(softmax_rows(8, 1.0, 2))

    title = "1. the greedy certificate in NumPy"
    deviations = (0.1, 1.0, 3.0, 6.0)
    table, ratios = table_of(title, greedy_in_numpy, (256, 512, 1024, 4096), deviations, options)
    console.print(table)
    mean = np.exp(np.mean(np.log([ratio for row in ratios.values() for ratio in row])))
    by_length = ", ".join(f"L = {k}: {np.mean(v):.2f}" for k, v in ratios.items())
    console.print(f"geometric mean {mean:.2f} (goal 0.5, at most 1.0); averages {by_length}")

    small = argparse.Namespace(entries=options.entries // 20, repeat=options.repeat)
    title = "2. a plain meet in the middle in Numba"
    table, ratios = table_of(title, plain_mitm, (16, 24), deviations, small)
    console.print(table)
    by_length = ", ".join(f"L = {k}: {np.mean(v):.2f}" for k, v in ratios.items())
    console.print(f"averages {by_length} (at most 0.5 and 0.35)")

    times = [
        seconds_per_row([exact], softmax_rows(length, deviation, 100), 2)[0]
        for length in range(26, 41)
        for deviation in (0.3, 1.0, 2.0, 3.0, 6.0, 10.0)
    ]
    console.print(f"3. L = 26 … 40: mean {np.mean(times) * 1e6:.0f} µs (below 500)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
