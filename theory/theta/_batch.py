"""Rows of an array: which entries each row sees, and what is wrong with a row."""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray

from theory.theta import _settle
from theory.theta._numbers import Numbers, read_numbers
from theory.theta._row import as_integers, fault
from theory.theta._types import RowIndex

OnEmpty = Literal["raise", "nan"]
# Entries in a block of rows: some 0.1 to 1 ms of kernels, far above what a call of them costs.
_BLOCK_ENTRIES = 2**16
# Share of the tolerance for sums that is left to exact sums: far above the error of `pair_sum`.
SUM_MARGIN = 1e-3
_KINDS = {
    "float64": _settle.FLOAT64,
    "float32": _settle.FLOAT32,
    "float16": _settle.FLOAT16,
    "bfloat16": _settle.BFLOAT16,
}


@dataclass(frozen=True, slots=True)
class Rows:
    """R rows of length L, with leading dimensions `shape`.

    source: (*shape, L) as read, or its bits; lengths: (R,), row r sees its first lengths[r]
    entries; mask: (*shape, L) or None, row r sees only entries where it is true.
    """

    numbers: Numbers
    source: NDArray[Any]
    shape: tuple[int, ...]
    lengths: NDArray[np.int64]
    mask: NDArray[np.bool_] | None

    @property
    def count(self) -> int:
        return len(self.lengths)

    @property
    def length(self) -> int:
        return int(self.source.shape[-1])

    def blocks(self) -> Iterator[slice]:
        step = max(1, _BLOCK_ENTRIES // max(self.length, 1))
        return (slice(k, min(k + step, self.count)) for k in range(0, self.count, step))

    def _taken(self, array: NDArray[Any], block: slice) -> NDArray[Any]:
        """(rows of the block, L): those rows of an array like the source, without a copy of it."""
        if array.flags.c_contiguous:
            return array.reshape(self.count, self.length)[block]
        if not self.shape:
            return array[None][block]
        return array[np.unravel_index(np.arange(block.start, block.stop), self.shape)]

    def kind(self) -> int | None:
        """The code of the type that a kernel reads; None for Python objects."""
        return _settle.FLOAT64 if self.integral() else _KINDS.get(self.numbers.kind)

    def integral(self) -> bool:
        """Whether the source holds integers, which are float64 by value."""
        return self.source.dtype.kind in "iu" and self.numbers.kind != "bfloat16"

    def raw(self, block: slice) -> NDArray[np.uint8]:
        """(rows of the block, bytes of L numbers): the floats as they lie in memory.

        Only rows of integers, and those that are read-only, strided or of foreign byte order, are
        copied, a block at a time, which spares a compilation of the kernels for such arrays.
        """
        values = self._taken(self.source, block)
        if self.integral():
            values = values.astype(np.float64)
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        plain = np.require(native, requirements=["C", "W", "A"])
        return plain.view(np.uint8)

    def wide(self, block: slice) -> NDArray[Any]:
        """(rows of the block, L) float64, or Python objects as they are."""
        values = self._taken(self.source, block)
        if values.dtype == object:
            return values
        if self.numbers.kind == "bfloat16" and values.dtype == np.uint16:
            return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return values.astype(np.float64)

    def visible(self, block: slice) -> NDArray[np.bool_]:
        """(rows of the block, L): the entries that each row sees."""
        seen = np.arange(self.length) < self.lengths[block, None]
        return seen if self.mask is None else seen & self._taken(self.mask, block)

    def mask_of(self, block: slice) -> NDArray[np.bool_]:
        """(rows of the block, L), C-contiguous and writable; (0, 0) if there is no mask."""
        if self.mask is None:
            return np.zeros((0, 0), dtype=np.bool_)
        return np.require(self._taken(self.mask, block), requirements=["C", "W"])

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
    numbers = read_numbers(source, name, bits=True)
    *leading, length = numbers.values.shape
    shape = tuple(leading)
    lengths = np.full(shape, length, dtype=np.int64)
    mask = None
    if support is not None:
        try:
            given = np.asarray(support)
        except ValueError as error:
            raise ValueError(f"support: rows of different lengths ({error})") from error
        if given.dtype == np.bool_:
            mask = _broadcast(given, numbers.values.shape, "support")
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
    return Rows(numbers, numbers.values, shape, lengths.reshape(-1), mask)


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


def judge_row(rows: Rows, row: int, on_empty: OnEmpty) -> bool:
    """Whether a row is fully masked: nothing visible, or nothing but zeros.

    Raises ValueError for a faulty row: NaN, negative or infinite entries, mass outside the support,
    and, unless on_empty is "nan", a fully masked row. A row that sees nothing may hold NaN, which
    is what softmax leaves there.
    """
    block = slice(row, row + 1)
    values = rows.wide(block)[0]
    visible = rows.visible(block)[0]
    # NaN fails every comparison; with long doubles NumPy also warns of it.
    with np.errstate(invalid="ignore"):
        sound = bool(((values >= 0) & (values < np.inf)).all())
        positive = values > 0
    unseen = not visible.any()
    blank = unseen or not positive.any()
    outside = bool((positive & ~visible).any())
    if outside or not (sound or unseen) or (blank and on_empty == "raise"):
        if unseen and not outside:
            reason = "is empty: it sees no entry; on_empty='nan' lets it through"
        else:
            reason = fault(values) or "has mass outside its support"
        raise ValueError(f"{_name(rows.index(row))} {reason}")
    return blank


def check_sum_of(rows: Rows, row: int) -> None:
    """Raise ValueError for a row whose exact sum is no sum of probabilities."""
    integers, unit = as_integers(rows.wide(slice(row, row + 1))[0])
    reason = sum_fault(sum(integers) * unit, rows.numbers)
    if reason is not None:
        raise ValueError(f"{_name(rows.index(row))} {reason}")


def _name(index: RowIndex) -> str:
    """How an error names a row; the only row of a one-dimensional array has no index."""
    return "the row" if index == () else f"row {index}"


def sum_fault(total: Fraction, numbers: Numbers) -> str | None:
    """Why a total is no sum of probabilities of the type they came in; None if it may be one."""
    if abs(total - 1) <= numbers.sum_tolerance():
        return None
    shown = repr(float(total)) if total < 2**1000 else "inf"
    if shown == "1.0":
        shown = f"1 {float(total - 1):+.1e}"
    return f"sums to {shown} instead of 1; check_sum=False takes weights of any total"
