"""Rows of an array: which entries each row sees, and what is wrong with a row."""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray

from theory.theta._float_kernels import pair_sums
from theory.theta._numbers import Numbers, read_numbers
from theory.theta._row import as_integers, fault
from theory.theta._types import RowIndex

OnEmpty = Literal["raise", "nan"]
# Entries in a block of rows. A block is not interrupted within a kernel, where a hard row of 32
# entries takes a millisecond.
_BLOCK_ENTRIES = 2**13


@dataclass(frozen=True, slots=True)
class Rows:
    """R rows of length L, with leading dimensions `shape`.

    values: (R, L) as read; lengths: (R,), row r sees its first lengths[r] entries; mask: (R, L) or
    None, row r sees only entries where it is true.
    """

    numbers: Numbers
    values: NDArray[Any]
    shape: tuple[int, ...]
    lengths: NDArray[np.int64]
    mask: NDArray[np.bool_] | None

    def blocks(self) -> Iterator[slice]:
        count, length = self.values.shape
        step = max(1, _BLOCK_ENTRIES // max(length, 1))
        return (slice(start, min(start + step, count)) for start in range(0, count, step))

    def visible(self, block: slice) -> NDArray[np.bool_]:
        """(rows of the block, L): the entries that each row sees."""
        seen = np.arange(self.values.shape[1]) < self.lengths[block, None]
        return seen if self.mask is None else seen & self.mask[block]

    def index(self, row: int) -> RowIndex:
        """The place of a row in the leading dimensions, as an error names it."""
        place = tuple(int(i) for i in np.unravel_index(row, self.shape)) if self.shape else ()
        return place[0] if len(place) == 1 else place


def read_rows(
    source: object, name: str, support: object, causal: object, causal_offset: object
) -> Rows:
    """Read (..., L) numbers and what each row sees of them; faults of the arguments are raised.

    support: None, integers broadcastable to (...,) (visible lengths) or booleans broadcastable to
    (..., L). causal: row t of axis −2 sees its first t + 1 + causal_offset entries, on top of it.
    """
    numbers = read_numbers(source, name)
    *leading, length = numbers.values.shape
    shape = tuple(leading)
    count = int(np.prod(shape, dtype=np.int64))
    lengths = np.full(shape, length, dtype=np.int64)
    mask = None
    if support is not None:
        try:
            given = np.asarray(support)
        except ValueError as error:
            raise ValueError(f"support: rows of different lengths ({error})") from error
        if given.dtype == np.bool_:
            mask = _broadcast(given, numbers.values.shape, "support").reshape(count, length)
        elif given.dtype.kind in "iu":
            lengths = _broadcast(given, shape, "support").astype(np.int64)
            if ((given < 0) | (given > length)).any():
                raise ValueError(f"support: lengths must lie between 0 and {length}")
        else:
            raise TypeError(f"support: expected booleans or lengths, got dtype {given.dtype}")
    if not isinstance(causal, bool | np.bool_):
        raise TypeError(f"causal: expected a bool, got {type(causal).__name__}")
    offset = _integer("causal_offset", causal_offset)
    if causal:
        if not shape:
            raise ValueError(f"causal: {name} needs a row axis and an entry axis")
        steps = np.arange(1 + offset, shape[-1] + 1 + offset)
        lengths = np.minimum(lengths, np.clip(steps, 0, length))
    elif offset:
        raise ValueError("causal_offset: has no meaning without causal=True")
    values = numbers.values.reshape(count, length)
    return Rows(numbers, values, shape, lengths.reshape(count), mask)


def _broadcast(array: NDArray[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    try:
        return np.broadcast_to(array, shape)
    except ValueError as error:
        raise ValueError(f"{name}: shape {array.shape} does not fit {shape}") from error


def _integer(name: str, value: object) -> int:
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}: expected an integer, got a bool")
    try:
        return operator.index(cast(SupportsIndex, value))
    except TypeError as error:
        raise TypeError(f"{name}: expected an integer, got {type(value).__name__}") from error


def widened(values: NDArray[Any]) -> NDArray[Any]:
    """A float64 array of the same numbers; Python objects stay as they are.

    Writable and C-contiguous, which spares a compilation of the kernels for other arrays.
    """
    return values if values.dtype == object else np.require(values, np.float64, ["C", "W"])


def empty_rows(rows: Rows, block: slice, on_empty: OnEmpty) -> NDArray[np.bool_]:
    """Which rows of a block are fully masked: nothing visible, or nothing but zeros.

    Raises ValueError for the first row that is faulty: NaN, negative or infinite entries, mass
    outside the support, and, unless on_empty is "nan", fully masked rows. A row that sees nothing
    may hold NaN, which is what softmax leaves there.
    """
    values = widened(rows.values[block])
    visible = rows.visible(block)
    # NaN fails all comparisons, of which long doubles as objects warn.
    with np.errstate(invalid="ignore"):
        positive = np.asarray(values > 0, dtype=np.bool_)
        sound = np.asarray((values >= 0) & (values < np.inf), dtype=np.bool_)
    unseen = np.asarray(~visible.any(axis=1))
    blank = unseen | ~positive.any(axis=1)
    outside = np.asarray((positive & ~visible).any(axis=1))
    unsound = ~(sound.all(axis=1) | unseen)
    faulty = np.asarray(outside | unsound | (blank if on_empty == "raise" else False))
    if faulty.any():
        first = int(faulty.argmax())
        index = rows.index(block.start + first)
        if unseen[first] and not outside[first]:
            reason = "is empty: it sees no entry; on_empty='nan' lets it through"
        else:
            reason = fault(values[first]) or "has mass outside its support"
        raise ValueError(f"row {index} {reason}")
    return np.asarray(blank, dtype=np.bool_)


def check_sums(rows: Rows, block: slice, blank: NDArray[np.bool_]) -> None:
    """Raise ValueError for the first row of a block whose exact sum is no sum of probabilities."""
    values = widened(rows.values[block])
    doubtful = ~blank
    if values.dtype != object:
        sums = np.empty((len(values), 2))
        pair_sums(values, sums)
        # The sum is exact to some 100 bits, which decides unless the tolerance is all but met;
        # an overflow, which gives NaN, is left to the exact sum as well.
        excess = np.abs((sums[:, 0] - 1.0) + sums[:, 1])
        doubtful &= ~(excess <= (1 - 1e-6) * float(rows.numbers.sum_tolerance()))
    for r in np.flatnonzero(doubtful):
        integers, unit = as_integers(values[r])
        reason = sum_fault(sum(integers) * unit, rows.numbers)
        if reason is not None:
            raise ValueError(f"row {rows.index(block.start + int(r))} {reason}")


def sum_fault(total: Fraction, numbers: Numbers) -> str | None:
    """Why a total is no sum of probabilities of the type they came in; None if it may be one."""
    if abs(total - 1) <= numbers.sum_tolerance():
        return None
    shown = float(total) if total < 2**1000 else float("inf")
    return f"sums to {shown!r} instead of 1; check_sum=False takes weights of any total"
