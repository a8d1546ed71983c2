"""θ of every row of an array."""

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.theta import _settle
from theory.theta._batch import SUM_MARGIN, OnEmpty, Rows, check_sum_of, judge_row, read_rows
from theory.theta._row import read_row
from theory.theta._search import Deadline
from theory.theta._solve import OnOpen, check_choice, checked_budget, solve_row, theta_or_error

# The status of a fully masked row in an array of statuses; of others, until they are settled.
EMPTY = -1


def theta_rows(
    P: object,
    *,
    support: object = None,
    causal: bool = False,
    causal_offset: int = 0,
    check_sum: bool = True,
    on_empty: OnEmpty = "raise",
    budget: float | None = None,
    on_open: OnOpen = "raise",
    threads: int | None = None,
    progress: bool = False,
    return_status: bool = False,
    return_subset: bool = False,
) -> Any:
    """θ of every row of P (..., L): each the float64 nearest to the exact value, an equality.

    P: float64, float32, float16, bfloat16 or integer array, CPU tensor or nested sequences of
    numbers, exactly as they are; nothing is changed. See `solve_theta` for θ. Arrays of these float
    types, and of integers up to 2⁵³ in size, go to the kernels; arrays with larger integers, and
    Python objects that are no floats (ints, Fractions), are solved row by row, far more slowly.
    A Dask array goes to `theta_rows_dask`, with one thread a block unless `threads` says otherwise,
    and the result is lazy; return_subset and progress are not for it.
    support: what each row sees, as lengths broadcastable to (...,), of type integer, or a mask
    broadcastable to (..., L), of type bool; mass outside is an error.
    causal: row t of axis −2 sees its first t + 1 + causal_offset entries, on top of `support`.
    check_sum: refuse rows whose exact sum is off 1 by more than 4·eps + 2L·(smallest subnormal) of
    the type; False takes any positive totals and changes no value.
    on_empty: "nan" gives NaN for fully masked rows (nothing visible, or all zero); "raise" refuses.
    budget: seconds for the whole call (None: no limit); on_open: "nan" gives NaN for rows that stay
    open, "raise" raises `OpenRowError` for the first of them.
    threads: None for one per core; results do not depend on it. progress: a counter on stderr.

    Returns a float64 array of shape P.shape[:-1]; with return_status a tuple with it, an int8 array
    of `Status` values (−1 for fully masked rows); with return_subset also a bool array of the shape
    of P with the subset that attains (OPTIMAL) or proves (ROUNDED) each θ, or the best found.

    Raises ValueError or TypeError, naming the row and the reason, for faulty rows or arguments.
    """
    if type(P).__module__.partition(".")[0] == "dask":
        if return_subset or progress:
            name = "return_subset" if return_subset else "progress"
            raise ValueError(f"{name}: not for a Dask array; see theta_rows_dask")
        # Not at the top, because it solves each block by this function.
        from theory.theta._dask import theta_rows_dask

        return theta_rows_dask(
            P,
            support=support,
            causal=causal,
            causal_offset=causal_offset,
            check_sum=check_sum,
            on_empty=on_empty,
            budget=budget,
            on_open=on_open,
            threads=1 if threads is None else threads,
            return_status=return_status,
        )
    rows = read_rows(P, "P", support, causal, causal_offset)
    return _solve_rows(
        rows,
        check_sum=check_sum,
        on_empty=on_empty,
        budget=budget,
        on_open=on_open,
        threads=threads,
        progress=progress,
        return_status=return_status,
        return_subset=return_subset,
    )


def theta_rows_from_logits(
    U: object,
    *,
    tau: float = 1.0,
    mask: object = None,
    causal: bool = False,
    causal_offset: int = 0,
    on_empty: OnEmpty = "raise",
    budget: float | None = None,
    on_open: OnOpen = "raise",
    threads: int | None = None,
    progress: bool = False,
    return_status: bool = False,
    return_subset: bool = False,
) -> Any:
    """θ of softmax(U/τ) for every row of logits U (..., L).

    The rows solved, exactly, are the float64 weights exp((u − max u)/τ), not divided by their sum:
    θ needs no normalisation, and so the only loss is the rounding of these weights and the
    underflow of those below 5e-324 of the largest, instead of a whole tail beside a sum of 1.
    θ is the float64 nearest to the exact θ of those weights.

    U: as P in `theta_rows`; −inf is a weight of zero. tau: temperature, positive and finite.
    mask: bool, broadcastable to (..., L), true where an entry is visible; or lengths, as `support`
    there. Logits outside it are ignored, whatever they are. A row that sees no finite logit is
    fully masked. The other arguments and the result are those of `theta_rows`.

    Raises ValueError for visible NaN or +inf (naming the row) and for tau, TypeError as there.
    """
    if isinstance(tau, bool) or not isinstance(tau, int | float | np.floating | np.integer):
        raise TypeError(f"tau: expected a number, got {type(tau).__name__}")
    if not 0 < tau < float("inf"):
        raise ValueError(f"tau: expected a positive finite number, got {tau}")
    logits = read_rows(U, "U", mask, causal, causal_offset)
    rows = _Exponentials(
        logits.numbers, logits.source, logits.shape, logits.lengths, logits.mask, float(tau)
    )
    return _solve_rows(
        rows,
        check_sum=False,
        on_empty=on_empty,
        budget=budget,
        on_open=on_open,
        threads=threads,
        progress=progress,
        return_status=return_status,
        return_subset=return_subset,
    )


@dataclass(frozen=True, slots=True)
class _Exponentials(Rows):
    """The rows exp((u − max u)/τ) of logits, made a block at a time."""

    tau: float

    def kind(self) -> int:
        return _settle.FLOAT64

    def raw(self, block: slice) -> NDArray[np.uint8]:
        return self.wide(block).view(np.uint8)

    def wide(self, block: slice) -> NDArray[np.float64]:
        """(rows of the block, L): exp((u − max u)/τ) where visible and 0 elsewhere."""
        try:
            values = np.array(Rows.wide(self, block), dtype=np.float64)
        except OverflowError as error:
            raise ValueError("U: a logit is beyond the range of float64") from error
        values[~self.visible(block)] = -np.inf
        for fault, name in ((np.isnan(values), "NaN"), (values == np.inf, "an infinite logit")):
            if fault.any():
                row, place = (int(k[0]) for k in np.nonzero(fault))
                raise ValueError(f"row {self.index(block.start + row)} has {name} at entry {place}")
        top = values.max(axis=1, keepdims=True, initial=-np.inf)
        top[np.isinf(top)] = 0.0
        with np.errstate(over="ignore", under="ignore"):
            # A difference or quotient beyond the range is −inf, and its weight is 0 either way.
            values -= top
            values /= self.tau
            return np.exp(values, out=values)


def _solve_rows(
    rows: Rows,
    *,
    check_sum: bool,
    on_empty: OnEmpty,
    budget: float | None,
    on_open: OnOpen,
    threads: int | None,
    progress: bool,
    return_status: bool,
    return_subset: bool,
) -> Any:
    check_choice("on_empty", on_empty, ("raise", "nan"))
    check_choice("on_open", on_open, ("raise", "nan"))
    seconds = checked_budget(budget)
    workers = _workers(threads)
    if seconds is not None:
        _compile_kernels()
    batch = _Batch(rows, check_sum, return_subset, progress, seconds)
    # Faults are raised before any long search begins.
    batch.run(workers, batch.settle, list(rows.blocks()))
    batch.judge(on_empty)
    batch.run(workers, lambda row: batch.search(row, on_open), batch.left())
    result: list[NDArray[Any]] = [batch.theta.reshape(rows.shape)]
    if return_status:
        result.append(batch.status.reshape(rows.shape))
    if return_subset:
        result.append(batch.subset.reshape(*rows.shape, rows.length))
    return tuple(result) if len(result) > 1 else result[0]


@functools.cache
def _compile_kernels() -> None:
    """Compilation, or loading from the cache, is not to count against a budget."""
    theta_rows(np.ones((1, 1)))


class _Deadline(Deadline):
    """A deadline that has passed, too, once the stop flag of a call is at QUIT."""

    def __init__(self, budget: float | None, stop: NDArray[np.int64]) -> None:
        super().__init__(budget)
        self._until = None if budget is None else time.monotonic() + budget
        self._stop = stop

    def left(self) -> float | None:
        """Seconds until it passes, as far as threads can wait; None for ever."""
        if self._until is None:
            return None
        return min(max(self._until - time.monotonic(), 0.0), threading.TIMEOUT_MAX)

    def passed(self) -> bool:
        return bool(self._stop[0] == _settle.QUIT) or super().passed()


class _Batch:
    """The results of one call, and the steps that fill them in.

    theta, status, verdict: (R,), one for each row; subset: (R, L), or (0, 0) if not asked for.
    stop: (1,), the flag at which the kernels look.
    """

    def __init__(
        self,
        rows: Rows,
        check_sum: bool,
        return_subset: bool,
        progress: bool,
        budget: float | None,
    ) -> None:
        self.rows = rows
        self.progress = progress
        self.lock = threading.Lock()
        self.done = 0
        self.check_sum = check_sum
        tolerance = float(rows.numbers.sum_tolerance()) * (1.0 - SUM_MARGIN)
        self.tolerance = tolerance if check_sum else np.inf
        self.theta = np.full(rows.count, np.nan)
        self.status = np.full(rows.count, EMPTY, dtype=np.int8)
        self.verdict = np.full(rows.count, _settle.SUSPECT, dtype=np.int8)
        subset_shape = (rows.count, rows.length) if return_subset else (0, 0)
        self.subset = np.zeros(subset_shape, dtype=np.bool_)
        self.stop = np.full(1, _settle.GO, dtype=np.int64)
        self.deadline = _Deadline(budget, self.stop)
        if self.deadline.passed():
            self.stop[0] = _settle.HURRY

    def run(self, workers: int, work: Callable[[Any], None], jobs: list[Any]) -> None:
        """Do all jobs, in order on each of the workers, and raise the first job's error.

        One worker is the calling thread; a thread takes longer to start than many a batch to solve.
        """
        errors: dict[int, Exception] = {}
        # Several threads may draw from one iterator of a list.
        numbered = iter(list(enumerate(jobs)))

        def drain() -> None:
            for number, job in numbered:
                try:
                    work(job)
                except Exception as error:
                    errors[number] = error
                if errors or self.stop[0] == _settle.QUIT:
                    break

        if min(workers, len(jobs)) <= 1:
            drain()
        else:
            self._share(drain, min(workers, len(jobs)))
        if errors:
            raise errors[min(errors)]

    def _share(self, drain: Callable[[], None], workers: int) -> None:
        pool = ThreadPoolExecutor(max_workers=workers)
        try:
            futures = [pool.submit(drain) for _ in range(workers)]
            _, late = wait(futures, timeout=self.deadline.left())
            if late:
                self._raise_flag(_settle.HURRY)
            for future in futures:
                future.result()
        except BaseException:
            # After Ctrl-C: the threads look at the flag.
            self._raise_flag(_settle.QUIT)
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _raise_flag(self, value: int) -> None:
        with self.lock:
            self.stop[0] = max(self.stop[0], value)

    def settle(self, block: slice) -> None:
        """Settle the rows of a block as far as float arithmetic goes."""
        kind = self.rows.kind()
        start = block.start if kind is not None else block.stop
        while start < block.stop and self.stop[0] != _settle.QUIT:
            if self.deadline.passed():
                self._raise_flag(_settle.HURRY)
            part = slice(start, block.stop)
            start += _settle.settle_rows(
                self.rows.raw(part),
                kind,
                self.rows.length,
                self.rows.lengths[part],
                self.rows.mask_of(part),
                self.tolerance,
                self.theta[part],
                self.status[part],
                self.verdict[part],
                self.subset[part],
                self.stop,
            )
        if self.progress:
            with self.lock:
                self.done += block.stop - block.start
                _report(self.done, self.rows.count)

    def judge(self, on_empty: OnEmpty) -> None:
        """Raise ValueError for the first row that is faulty."""
        unclear = self.verdict != _settle.SOUND
        if on_empty == "nan":
            unclear &= self.verdict != _settle.BLANK
        for row in np.flatnonzero(unclear).tolist():
            if self.verdict[row] != _settle.DOUBTFUL_SUM and judge_row(self.rows, row, on_empty):
                self.verdict[row] = _settle.BLANK
            elif self.check_sum:
                check_sum_of(self.rows, row)

    def left(self) -> list[int]:
        """The rows that are not settled."""
        open_rows = (self.status == EMPTY) & (self.verdict != _settle.BLANK)
        return [int(row) for row in np.flatnonzero(open_rows)]

    def search(self, row: int, on_open: OnOpen) -> None:
        """Solve a row with exact integers."""
        if self.stop[0] == _settle.QUIT:
            return
        weights = self.rows.wide(slice(row, row + 1))[0]
        solution = solve_row(read_row(weights), self.deadline)
        self.theta[row] = theta_or_error(solution, self.rows.index(row), on_open)
        self.status[row] = solution.status
        if len(self.subset):
            self.subset[row] = solution.subset


def _workers(threads: object) -> int:
    if threads is None:
        return os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer):
        raise TypeError(f"threads: expected an integer or None, got {type(threads).__name__}")
    if threads < 1:
        raise ValueError(f"threads: expected at least 1, got {threads}")
    return int(threads)


def _report(done: int, count: int) -> None:
    end = "\n" if done == count else ""
    print(f"\rθ: {done} of {count} rows", end=end, file=sys.stderr, flush=True)
