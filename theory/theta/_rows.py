"""θ of every row of an array."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.theta import _float_kernels
from theory.theta._batch import OnEmpty, Rows, check_sums, empty_rows, read_rows, widened
from theory.theta._numbers import read_numbers
from theory.theta._row import read_row
from theory.theta._search import Deadline
from theory.theta._solve import OnOpen, check_choice, checked_budget, solve_row, theta_or_error

# The status of a fully masked row in an array of statuses.
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
    numbers, exactly as they are; nothing is changed. See `solve_theta` for θ.
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
    weights = np.empty(logits.values.shape)
    for block in logits.blocks():
        weights[block] = _softmax_weights(logits, block, float(tau))
    rows = Rows(read_numbers(weights, "U"), weights, logits.shape, logits.lengths, logits.mask)
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


def _softmax_weights(logits: Rows, block: slice, tau: float) -> NDArray[np.float64]:
    """(rows of the block, L) float64: exp((u − max u)/τ) where visible and 0 elsewhere."""
    try:
        values = logits.values[block].astype(np.float64)
    except OverflowError as error:
        raise ValueError("U: a logit is beyond the range of float64") from error
    values[~logits.visible(block)] = -np.inf
    for fault, name in ((np.isnan(values), "NaN"), (values == np.inf, "an infinite logit")):
        if fault.any():
            row, place = (int(k[0]) for k in np.nonzero(fault))
            index = logits.index(block.start + row)
            raise ValueError(f"row {index} has {name} at entry {place}")
    top = values.max(axis=1, keepdims=True, initial=-np.inf)
    top[np.isinf(top)] = 0.0
    with np.errstate(over="ignore", under="ignore"):
        # A difference or quotient beyond the range is −inf, and its weight is 0 either way.
        return np.exp((values - top) / tau)


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
    deadline = Deadline(checked_budget(budget))
    workers = _workers(threads)
    blocks = list(rows.blocks())
    # Faults are raised before anything is solved.
    blanks = [empty_rows(rows, block, on_empty) for block in blocks]
    if check_sum:
        for block, blank in zip(blocks, blanks, strict=True):
            check_sums(rows, block, blank)
    count, length = rows.values.shape
    theta = np.full(count, np.nan)
    status = np.full(count, EMPTY, dtype=np.int8)
    subset = np.zeros((count, length) if return_subset else (0, length), dtype=np.bool_)
    stop = threading.Event()

    def solve(block: slice, blank: NDArray[np.bool_]) -> None:
        solved = _solve_block(rows, block, blank, deadline, on_open, stop)
        theta[block], status[block] = solved[:2]
        if return_subset:
            subset[block] = solved[2]

    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures = [pool.submit(solve, *job) for job in zip(blocks, blanks, strict=True)]
        try:
            for block, future in zip(blocks, futures, strict=True):
                future.result()
                if progress:
                    _report(block.stop, count)
        finally:
            # After an error or Ctrl-C: blocks not begun are dropped, others end after their row.
            stop.set()
            pool.shutdown(cancel_futures=True)
    result: list[NDArray[Any]] = [theta.reshape(rows.shape)]
    if return_status:
        result.append(status.reshape(rows.shape))
    if return_subset:
        result.append(subset.reshape(*rows.shape, length))
    return tuple(result) if len(result) > 1 else result[0]


def _solve_block(
    rows: Rows,
    block: slice,
    blank: NDArray[np.bool_],
    deadline: Deadline,
    on_open: OnOpen,
    stop: threading.Event,
) -> tuple[NDArray[np.float64], NDArray[np.int8], NDArray[np.bool_]]:
    """θ, status and subset of each row of a block; raises for the first open row if asked to."""
    values = widened(rows.values[block])
    theta = np.full(len(values), np.nan)
    status = np.full(len(values), EMPTY, dtype=np.int8)
    subset = np.zeros(values.shape, dtype=np.bool_)
    if values.dtype != object:
        _float_kernels.settle_rows(values, blank, theta, status, subset)
    for r in np.flatnonzero((status == EMPTY) & ~blank):
        if stop.is_set():
            break
        solution = solve_row(read_row(values[r]), deadline)
        theta[r] = theta_or_error(solution, rows.index(block.start + int(r)), on_open)
        status[r] = solution.status
        subset[r] = solution.subset
    return theta, status, subset


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
