"""θ of the rows of a Dask array, block by block."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.theta._batch import OnEmpty
from theory.theta._messages import rows_named
from theory.theta._rows import theta_rows
from theory.theta._solve import OnOpen
from theory.theta._types import RowIndex

# What a block yields for each row.
_SOLVED = np.dtype([("theta", np.float64), ("status", np.int8)])


def theta_rows_dask(
    P: Any,
    *,
    support: Any = None,
    causal: bool = False,
    causal_offset: int = 0,
    check_sum: bool = True,
    on_empty: OnEmpty = "raise",
    budget: float | None = None,
    on_open: OnOpen = "raise",
    threads: int | None = 1,
    return_status: bool = False,
) -> Any:
    """θ of every row of a Dask array P (..., L), lazily: the values of `theta_rows`, bit for bit.

    P: Dask array of any type that `theta_rows` reads, in any chunks; L is rechunked to one chunk
    where it is not. Rows are solved one block at a time on whichever scheduler computes the result.
    support: as in `theta_rows`, NumPy or Dask array. causal, causal_offset: rows are counted over
    the whole of axis −2, however it is cut.
    budget: seconds for each block. threads: for each block, 1 because Dask runs blocks in parallel.
    The other arguments are those of `theta_rows`.

    Returns a Dask array, float64, of shape P.shape[:-1] with the chunks of P; with return_status a
    tuple with it, an int8 Dask array of `Status` values. Computed together (`dask.compute`), they
    take one pass. Subsets come from `theta_rows` on the rows in question.

    Raises TypeError for what is no Dask array and ImportError without dask, which comes with the
    extra `dask`; ValueError for unknown chunk sizes and faulty arguments. Faulty and open rows
    raise as in `theta_rows` when the result is computed, named by their place in the whole array;
    of several, the one that the scheduler meets first.
    """
    try:
        import dask.array as da
    except ImportError as error:
        raise ImportError(
            "theta_rows_dask needs dask: pip install 'attention-sensitivity[dask]'"
        ) from error
    if not isinstance(P, da.Array):
        raise TypeError(f"P: expected a Dask array, got {type(P).__name__}; see theta_rows")
    if P.ndim == 0:
        raise ValueError("P: expected at least one dimension, got a lone number")
    if any(np.isnan(size) for size in P.shape):
        raise ValueError("P: unknown chunk sizes; call P.compute_chunk_sizes() first")
    if causal and P.ndim == 1:
        raise ValueError("causal: P needs a row axis and an entry axis")
    options: dict[str, Any] = {
        "check_sum": check_sum,
        "on_empty": on_empty,
        "budget": budget,
        "on_open": on_open,
        "threads": threads,
    }
    # What is wrong with these arguments shows without any row.
    theta_rows(np.empty((0, 1, 1)), causal=causal, causal_offset=causal_offset, **options)
    rows = P.rechunk({P.ndim - 1: -1})
    visible = _visible(rows, support, causal_offset if causal else None)
    solved = da.map_blocks(
        functools.partial(_solve_chunk, options=options),
        *([rows] if visible is None else [rows, visible]),
        drop_axis=P.ndim - 1,
        dtype=_SOLVED,
        meta=np.empty((0,) * (P.ndim - 1), dtype=_SOLVED),
    )
    return (solved["theta"], solved["status"]) if return_status else solved["theta"]


def _visible(rows: Any, support: Any, causal_offset: int | None) -> Any:
    """What each row sees, in the chunks of `rows`: None for all, or a Dask array.

    Either a mask (..., L), bool, or lengths (..., 1), int. causal_offset: None if not causal.
    """
    import dask.array as da

    *leading, length = rows.shape
    steps = None
    if causal_offset is not None:
        steps = da.clip(da.arange(leading[-1]) + 1 + causal_offset, 0, length)
    if support is None:
        given = steps
    else:
        given = support if isinstance(support, da.Array) else da.asarray(np.asarray(support))
        if given.dtype.kind not in "biu":
            raise TypeError(f"support: expected booleans or lengths, got dtype {given.dtype}")
    if given is None:
        return None
    mask = given.dtype == np.bool_
    shape = tuple(rows.shape if mask else leading)
    try:
        spread = da.broadcast_to(given, shape)
    except ValueError as error:
        raise ValueError(f"support: shape {given.shape} does not fit {shape}") from error
    if mask:
        if steps is not None:
            spread = spread & (da.arange(length) < steps[:, None])
        return spread.rechunk(rows.chunks)
    if steps is not None:
        spread = da.minimum(spread, steps)
    return spread.rechunk(rows.chunks[:-1])[..., None]


def _solve_chunk(
    rows: NDArray[Any],
    visible: NDArray[Any] | None = None,
    *,
    options: Mapping[str, Any],
    block_info: Mapping[int, Any],
) -> NDArray[Any]:
    """θ and status of the rows of one block; Dask's block_info says where in the array it lies."""
    *leading, length = rows.shape
    first = [start for start, _ in block_info[0]["array-location"][:-1]]

    def place(row: int) -> RowIndex:
        local = np.unravel_index(row, leading)
        index = tuple(int(start + k) for start, k in zip(first, local, strict=True))
        return index[0] if len(index) == 1 else index

    support = None
    if visible is not None:
        support = visible.reshape(-1, length) if visible.dtype == np.bool_ else visible.reshape(-1)
    with rows_named(place):
        theta, status = theta_rows(
            rows.reshape(-1, length), support=support, return_status=True, **options
        )
    solved = np.empty(len(theta), dtype=_SOLVED)
    solved["theta"] = theta
    solved["status"] = status
    return solved.reshape(leading)
