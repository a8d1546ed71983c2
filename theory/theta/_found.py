"""What every search shares: its result, its deadline, and exact sums in limbs."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theory.theta import _kernels

Limbs = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Found:
    """chosen: a subset of mass <= cap; limit: no subset has a mass in (limit, cap]."""

    chosen: int
    limit: int


class TimeUp(Exception):
    """Raised inside a search at its deadline; the search catches it and gives what it has."""


class Deadline:
    """A point in time after which a search gives up; budget None never ends."""

    def __init__(self, budget: float | None) -> None:
        self._end = math.inf if budget is None else time.monotonic() + budget

    def passed(self) -> bool:
        return time.monotonic() >= self._end

    def check(self) -> None:
        if self.passed():
            raise TimeUp


Search = Callable[[Sequence[int], int, int, Deadline], Found]


def require(condition: bool, reason: str) -> None:
    if not condition:
        raise ValueError(reason)


def mass_of(values: Sequence[int], chosen: int) -> int:
    return sum(value for k, value in enumerate(values) if chosen >> k & 1)


def greedy(values: Sequence[int], cap: int) -> int:
    """The subset that takes each value, from the largest on, that still fits. O(n)."""
    chosen = 0
    mass = 0
    for k, value in enumerate(values):
        if mass + value <= cap:
            mass += value
            chosen |= 1 << k
    return chosen


def fits_limbs(values: Sequence[int]) -> bool:
    return sum(values).bit_length() <= _kernels.MAX_TOTAL_BITS


def split(number: int) -> tuple[int, int]:
    """High and low limb; the high one carries the sign."""
    return number >> _kernels.LIMB_BITS, number & _kernels.LIMB_MASK


def joined(hi: int, lo: int) -> int:
    return (int(hi) << _kernels.LIMB_BITS) + int(lo)


def limbs(values: Sequence[int]) -> Limbs:
    hi, lo = zip(*map(split, values), strict=True) if values else ((), ())
    return np.array(hi, dtype=np.int64), np.array(lo, dtype=np.int64)
