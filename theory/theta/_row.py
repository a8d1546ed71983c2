"""One row of weights as integers, and the reductions that are always right.

A `Row` holds the nonzero weights, largest first, as integers without a common factor; the weight is
integer · unit. θ is free of scale, so nothing is lost. `reduce_row` shrinks it to an `Instance`:

- Equal weights: m copies of v are replaced by v, 2v, 4v, … and a remainder (m in all), whose
  subsets have exactly the sums 0, v, …, mv. That leaves log2(m) + 1 items, and the subset sums of
  the row are unchanged.
- Negligible tail: let F be the mass of the smallest weights, T = ⌊W/2⌋ and B the greatest sum <= T
  over the other weights. If B + F <= T, then B + F is the greatest sum <= T over all weights,
  because no sum <= T exceeds B on the head or F on the tail. Otherwise B > T − F, so that B itself
  leaves a discrepancy W − 2B of at most 2F. The tail is as long as 2F <= W/2²⁷ permits: then in the
  second case (W − 2B)/W <= 2⁻²⁷ and θ rounds to 1. (D/W <= 2⁻²⁷ gives 1 − (D/W)² >= 1 − 2⁻⁵⁴, and
  1 − 2⁻⁵⁴ is the midpoint below 1.0, a tie that rounds to 1.0.)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.theta._numbers import exact_fraction
from theory.theta._types import BoolMask

# θ = 1 − δ² rounds to 1.0 for every δ up to 2**-ROUNDING_BITS.
ROUNDING_BITS = 27


@dataclass(frozen=True, slots=True)
class Row:
    """values: positive integers, descending, gcd 1; order: their places among the L weights."""

    length: int
    order: list[int]
    values: list[int]
    unit: Fraction
    total: int

    @property
    def half(self) -> int:
        """T = ⌊W/2⌋, the greatest mass that the smaller side of a split can have."""
        return self.total // 2

    @property
    def near_half(self) -> int:
        """The least mass B <= T for which (W − 2B)/W <= 2⁻²⁷, so that θ rounds to 1."""
        return (self.total - (self.total >> ROUNDING_BITS) + 1) // 2


def fault(weights: NDArray[Any]) -> str | None:
    """Why a row (1-D, as read) is no row of weights; None if it is one."""
    if weights.shape[0] == 0:
        return "is empty"
    for place, weight in enumerate(weights.tolist()):
        if weight != weight:
            return f"has NaN at entry {place}"
        if weight < 0:
            return f"has a negative weight at entry {place}"
        if weight == math.inf:
            return f"has an infinity at entry {place}"
    return None if any(weights.tolist()) else "has zero total weight"


def as_integers(weights: NDArray[Any]) -> tuple[list[int], Fraction]:
    """Integers and a unit with weights = integers · unit, exactly. Entries finite, nonnegative."""
    if weights.dtype == object:
        fractions = [exact_fraction(weight) for weight in weights.tolist()]
        denominator = math.lcm(*(fraction.denominator for fraction in fractions))
        return [int(fraction * denominator) for fraction in fractions], Fraction(1, denominator)
    mantissa, exponent = np.frexp(weights.astype(np.float64))
    # 2**53 · mantissa is an integer below 2**53 for each float64, subnormals included.
    digits = (mantissa * 2.0**53).astype(np.int64).tolist()
    lowest = int(exponent[mantissa > 0].min(initial=0))
    shifts = np.maximum(exponent - lowest, 0).tolist()
    unit = Fraction(2) ** (lowest - 53)
    return [digit << shift for digit, shift in zip(digits, shifts, strict=True)], unit


def read_row(weights: NDArray[Any]) -> Row:
    """The row of faultless weights (1-D, as read)."""
    integers, unit = as_integers(weights)
    order = sorted((i for i, value in enumerate(integers) if value), key=lambda i: -integers[i])
    factor = math.gcd(*integers)
    values = [integers[i] // factor for i in order]
    return Row(len(integers), order, values, unit * factor, sum(values))


@dataclass(frozen=True, slots=True)
class Instance:
    """Items whose subset sums stand for those of the weights of a row.

    values: descending positive integers with gcd 1; total: their sum. Item k stands for counts[k]
    copies of one weight, the values starting at starts[k] in the row. One unit of an instance is
    `factor` units of its row, and the values from tail_start on are not in the instance.
    """

    values: list[int]
    starts: list[int]
    counts: list[int]
    factor: int
    tail_start: int
    total: int

    def expand(self, chosen: int) -> list[int]:
        """Positions in the row of the weights for which the items in the bit mask stand."""
        taken: dict[int, int] = {}
        for item in range(len(self.values)):
            if chosen >> item & 1:
                start = self.starts[item]
                taken[start] = taken.get(start, 0) + self.counts[item]
        return [start + k for start, count in taken.items() for k in range(count)]


def reduce_values(values: Sequence[int], negligible: int, *, collapse: bool = True) -> Instance:
    """Drop the longest tail that weighs at most `negligible`, and collapse equal values if told."""
    end = len(values)
    tail = 0
    while tail + values[end - 1] <= negligible:
        end -= 1
        tail += values[end]
    items: list[tuple[int, int, int]] = []
    start = 0
    while start < end:
        stop = start + 1
        while stop < end and values[stop] == values[start]:
            stop += 1
        left = stop - start
        power = 1
        while left:
            count = min(power, left) if collapse else 1
            items.append((count * values[start], start, count))
            left -= count
            power *= 2
        start = stop
    items.sort(key=lambda item: -item[0])
    factor = math.gcd(*(value for value, _, _ in items))
    reduced = [value // factor for value, _, _ in items]
    starts = [start for _, start, _ in items]
    counts = [count for _, _, count in items]
    return Instance(reduced, starts, counts, factor, end, sum(reduced))


def subset_mask(row: Row, positions: Sequence[int]) -> BoolMask:
    """(L,) read-only mask of the weights at these positions of `row.values`."""
    mask = np.zeros(row.length, dtype=np.bool_)
    mask[[row.order[position] for position in positions]] = True
    mask.flags.writeable = False
    return mask
