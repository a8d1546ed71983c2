"""Rows to be solved, and the time of exact θ beside the greedy certificate, on one thread.

A cell is a set of rows of one kind. In each cell all works are timed in turn, several times, and
the least time of each counts, so that a slow moment of the machine does not fall on one of them.
Times are of the processor, not of the clock: whatever else runs would weigh on long works alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from theory.real_rows import load_attention_rows
from theory.softmax import softmax
from theory.theta import Status, theta_rows

Rows = npt.NDArray[Any]

LENGTHS = (8, 16, 20, 24, 28, 32, 40, 64, 128, 256, 512, 1024, 4096, 8192)
DEVIATIONS = (0.1, 1.0, 3.0, 6.0, 10.0)
# Real rows are padded to the longest of their class; narrow classes keep the padding short.
REAL_CLASSES = (8, 12, 16, 18, 27, 40, 100, 165, 224, 300, 392)
# Above it, meeting in the middle has no place in memory.
MEET_MAX_LENGTH = 40
# Seconds that one call on a cell may take before its rows are left open.
CELL_BUDGET = 2.0
# A cell that takes longer than this is timed once.
ONCE_IS_ENOUGH = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSet:
    """rows: (R, L); lengths: how much of each row counts, or None for all of it."""

    kind: str
    deviation: float | None
    rows: Rows
    lengths: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """Seconds per row of each work, and how the exact solver left the rows.

    meet: None where meeting in the middle is out of reach. meet_wrong: how many of the meet_rows
    rows it got wrong in any bit of θ.
    """

    kind: str
    deviation: float | None
    length: int
    rows: int
    exact: float
    greedy: float
    floor: float
    meet: float | None
    meet_rows: int
    meet_wrong: int
    optimal: int
    rounded: int
    left_open: int
    ones: int
    greedy_low: int

    @property
    def ratio(self) -> float:
        """The time of exact θ over that of the greedy certificate."""
        return self.exact / self.greedy


def softmax_sets(
    lengths: Sequence[int], deviations: Sequence[float], count: int
) -> Iterator[RowSet]:
    """softmax of N(0, s²) logits; a tenth of `count` rows where they are longer than 1024."""
    for length in lengths:
        for deviation in deviations:
            rng = np.random.default_rng([length, round(1000 * deviation)])
            size = (count if length <= 1024 else max(2, count // 10), length)
            yield RowSet(
                kind=f"L = {length}",
                deviation=deviation,
                rows=softmax(rng.normal(scale=deviation, size=size)),
            )


def real_sets() -> Iterator[RowSet]:
    """The attention rows that come with `theory.real_rows`, float32, by length."""
    low = 1
    for high in REAL_CLASSES:
        found = load_attention_rows(min_support=low, max_support=high)
        rows = np.zeros((len(found), max(row.support for row in found)), dtype=np.float32)
        for padded, row in zip(rows, found, strict=True):
            padded[: row.support] = row.probabilities
        lengths = np.array([row.support for row in found])
        yield RowSet(kind=f"real {low}-{high}", deviation=None, rows=rows, lengths=lengths)
        low = high + 1


def greedy_in_numpy(rows: Rows) -> Rows:
    """The paper's certificate: descending prefix sums, the one nearest to 1/2."""
    prefixes = np.cumsum(-np.sort(-rows, axis=-1), axis=-1)
    nearest = np.argmin(np.abs(prefixes - 0.5), axis=-1)
    mass = np.take_along_axis(prefixes, nearest[..., None], axis=-1)[..., 0]
    return np.asarray(4 * mass * (1 - mass))


@numba.njit(nogil=True)
def _sorted_sums(items, sums, spare):  # type: ignore[no-untyped-def]
    """All subset sums of items, ascending, by merging; returns the array that holds them."""
    sums[0] = 0.0
    count = 1
    for item in items:
        i = 0
        j = 0
        for k in range(2 * count):
            if i < count and sums[i] <= sums[j] + item:
                spare[k] = sums[i]
                i += 1
            else:
                spare[k] = sums[j] + item
                j += 1
        sums, spare = spare, sums
        count *= 2
    return sums


@numba.njit(nogil=True)
def _meet(rows, theta):  # type: ignore[no-untyped-def]
    half = rows.shape[1] // 2
    scratch = np.empty((4, 1 << (rows.shape[1] - half)))
    for r in range(rows.shape[0]):
        total = rows[r].sum()
        left = _sorted_sums(rows[r, :half], scratch[0], scratch[1])
        right = _sorted_sums(rows[r, half:], scratch[2], scratch[3])
        best = total
        j = (1 << (rows.shape[1] - half)) - 1
        for i in range(1 << half):
            while j > 0 and 2 * (left[i] + right[j]) > total:
                best = min(best, abs(2 * (left[i] + right[j]) - total))
                j -= 1
            best = min(best, abs(2 * (left[i] + right[j]) - total))
        theta[r] = 1 - (best / total) ** 2


def plain_meet_in_the_middle(rows: Rows) -> Rows:
    """θ in float64 by the textbook method of Horowitz and Sahni, compiled; (R, L), L <= 40."""
    theta = np.empty(len(rows))
    _meet(rows, theta)
    return theta


def exact_theta(rows: Rows, lengths: npt.NDArray[np.int64] | None) -> tuple[Rows, Rows]:
    """θ and status, on one thread and within `CELL_BUDGET`."""
    found: tuple[Rows, Rows] = theta_rows(
        rows, support=lengths, threads=1, budget=CELL_BUDGET, on_open="nan", return_status=True
    )
    return found


def _least_seconds(works: Sequence[Callable[[], object]], repeat: int) -> list[float]:
    """The least processor time of each work over `repeat` rounds in which each has its turn."""
    least = [float("inf")] * len(works)
    for _ in range(repeat):
        for k, work in enumerate(works):
            start = time.process_time()
            work()
            least[k] = min(least[k], time.process_time() - start)
        if max(least) > ONCE_IS_ENOUGH:
            break
    return least


def measure(given: RowSet, repeat: int) -> Cell:
    """Solve and time one set of rows."""
    rows, lengths = given.rows, given.lengths
    theta, status = exact_theta(rows, lengths)
    works: list[Callable[[], object]] = [
        lambda: exact_theta(rows, lengths),
        lambda: greedy_in_numpy(rows),
        lambda: rows.max(axis=-1),
    ]
    some = None
    if rows.shape[1] <= MEET_MAX_LENGTH and lengths is None:
        # About 2**24 sums are enough for a time.
        some = rows[: max(2, 2**24 >> (rows.shape[1] // 2 + 1))]
        works.append(lambda: plain_meet_in_the_middle(some))
    exact, greedy, floor, *rest = _least_seconds(works, repeat)
    meet, meet_rows, meet_wrong = None, 0, 0
    if some is not None:
        meet, meet_rows = rest[0] / len(some), len(some)
        meet_wrong = int(np.sum(plain_meet_in_the_middle(some) != theta[:meet_rows]))
    known = ~np.isnan(theta)
    return Cell(
        kind=given.kind,
        deviation=given.deviation,
        length=rows.shape[1],
        rows=len(rows),
        exact=exact / len(rows),
        greedy=greedy / len(rows),
        floor=floor / len(rows),
        meet=meet,
        meet_rows=meet_rows,
        meet_wrong=meet_wrong,
        optimal=int(np.sum(status == Status.OPTIMAL)),
        rounded=int(np.sum(status == Status.ROUNDED)),
        left_open=int(np.sum(status == Status.BOUNDED)),
        ones=int(np.sum(theta == 1.0)),
        # By more than the rounding of the certificate itself.
        greedy_low=int(np.sum(greedy_in_numpy(rows)[known] < theta[known] - 1e-6)),
    )


def compile_kernels() -> None:
    """Compile everything that is timed, for both types of rows."""
    for dtype in (np.float64, np.float32):
        for length in (8, 64, 300):
            rows = softmax(np.random.default_rng(length).normal(size=(4, length))).astype(dtype)
            exact_theta(rows, np.full(4, length))
    plain_meet_in_the_middle(np.full((1, 8), 1 / 8))
