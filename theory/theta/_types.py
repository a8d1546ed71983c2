"""Results and errors of the solver."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

BoolMask = NDArray[np.bool_]
RowIndex = int | tuple[int, ...]


class Status(IntEnum):
    """How a row came back.

    OPTIMAL: the subset is proved optimal. ROUNDED: optimality is open, but both bounds round to the
    same float64, which is the answer. BOUNDED: the row is open; the bounds are true.
    """

    OPTIMAL = 0
    ROUNDED = 1
    BOUNDED = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThetaSolution:
    """θ of one row of L weights, with what proves it.

    theta: the float64 nearest to the exact θ (ties to even); NaN if status is BOUNDED.
    lower, upper: exact bounds, lower <= θ <= upper; equal if status is OPTIMAL.
    subset: (L,) bool, read-only; `mass` is the exact weight of it and `discrepancy` is
    |2·mass − W|, both in the units of the weights; lower = 1 − (discrepancy/W)².
    method: what settled the row. stats: sizes of the search ("atoms": nonzero weights, "items" and
    "bits" of the reduced instance where one was searched).
    """

    theta: float
    lower: Fraction
    upper: Fraction
    subset: BoolMask
    mass: Fraction
    discrepancy: Fraction
    status: Status
    method: str
    stats: Mapping[str, int]

    @property
    def sign_vector(self) -> NDArray[np.int8]:
        """(L,) int8: +1 on the subset, −1 off it: an x that attains max xᵀ(Diag p − ppᵀ)x."""
        return np.where(self.subset, 1, -1).astype(np.int8)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClosestMass:
    """The subset masses on both sides of a target, exact and in the units of the weights.

    below: greatest mass found that is at most the target; above: least mass found that is at least
    the target; below_subset and above_subset: (L,) bool, read-only, with these masses.
    bounds: ((lo, hi) for the greatest mass at most the target, (lo, hi) for the least mass at least
    the target); lo = hi on both sides if status is OPTIMAL. status: OPTIMAL or BOUNDED.
    """

    below: Fraction
    above: Fraction
    below_subset: BoolMask
    above_subset: BoolMask
    status: Status
    bounds: tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]


class OpenRowError(RuntimeError):
    """A row stayed open. `index` is its place (None for a lone row); `bounds` enclose its θ."""

    def __init__(self, index: RowIndex | None, bounds: tuple[Fraction, Fraction]) -> None:
        self.index = index
        self.bounds = bounds
        name = "the row" if index is None else f"row {index}"
        low, high = (float(bound) for bound in bounds)
        super().__init__(
            f"{name} is open: θ lies in [{low!r}, {high!r}] (exact bounds in .bounds); "
            f"allow a larger budget or pass on_open='nan'"
        )

    def __reduce__(self) -> tuple[type["OpenRowError"], tuple[object, ...]]:
        return OpenRowError, (self.index, self.bounds)
