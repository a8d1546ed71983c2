"""Greatest subset sum below a cap: the one question behind θ and `closest_mass`.

Every search takes descending positive integers with total W, a cap 0 <= cap <= W, a goal <= cap
and a deadline, and returns a `Found`. It may stop as soon as it holds a subset of mass at least
`goal`; goal = cap asks for the optimum. Subsets are bit masks: bit k stands for values[k].
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from theory.theta import _kernels

Limbs = tuple[NDArray[np.int64], NDArray[np.int64]]

GRAY_MAX_ITEMS = 30
MITM_MAX_ITEMS = 44
# The Python integers of `_mitm_wide` take some 100 bytes a sum.
MITM_WIDE_MAX_ITEMS = 40
# All bitsets of a `dp` together: 2**31 bits are 256 MiB.
DP_MAX_BITS = 2**31
# Crossovers of the running times; any choice gives the same masses.
_GRAY_BEST_UP_TO = 12
_DP_CHEAP_BITS = 2**20
_MITM_BEST_UP_TO = 28
# One call of the Gray-code kernel walks through at most 2**20 subsets, a few milliseconds, so that
# a deadline and Ctrl-C are heeded in between.
_GRAY_BLOCK = 20
_FILL_FREE_ITEMS = (24, 30, 36)
_LEAF_ITEMS = 30
_MAX_BRANCHES = 10**5
_MAX_LEAVES = 100
# Leaves room for the 36 units by which rounding up can raise the total of the free values.
_COARSE_BITS = _kernels.MAX_TOTAL_BITS - 2


@dataclass(frozen=True, slots=True)
class Found:
    """chosen: a subset of mass <= cap; limit: no subset has a mass in (limit, cap]."""

    chosen: int
    limit: int


Search = Callable[[Sequence[int], int, int, "Deadline"], Found]


class Deadline:
    """A point in time after which a search gives up; budget None never ends."""

    def __init__(self, budget: float | None) -> None:
        self._end = math.inf if budget is None else time.monotonic() + budget

    def passed(self) -> bool:
        return time.monotonic() >= self._end


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


def gray(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """Enumeration in Gray-code order: O(2ⁿ) time, O(n) memory.

    Needs n <= 30 and a total below 2**122. Complete: every subset is visited, each by one addition
    to or subtraction from the sum before.
    """
    require(len(values) <= GRAY_MAX_ITEMS, f"method 'gray' needs at most {GRAY_MAX_ITEMS} items")
    require(_fits_limbs(values), "method 'gray' needs weights that span less than 2**122")
    outer, inner = values[:-_GRAY_BLOCK], values[-_GRAY_BLOCK:]
    limbs = _limbs(inner)
    best = greedy(values, cap)
    mass = mass_of(values, best)
    for code in range(1 << len(outer)):
        if mass >= goal or (code and deadline.passed()):
            return Found(best, cap)
        start = mass_of(outer, code)
        if start > cap:
            continue
        inner_code = int(_kernels.gray_best(*limbs, *_split(start), *_split(cap), *_split(goal)))
        inner_mass = start + mass_of(inner, inner_code)
        if inner_mass > mass:
            mass = inner_mass
            best = code | inner_code << len(outer)
    return Found(best, cap if mass >= goal else mass)


def mitm(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """Meet in the middle (Horowitz and Sahni 1974): O(2^(n/2)) time and memory.

    Needs n <= 44, or n <= 40 if the total is 2**122 or more (then in Python integers). Complete:
    the sums of each half are listed in order, by merging X with X + item, and the greatest partner
    that fits each sum of the first half is found as one pointer rises and the other falls.
    """
    if not _fits_limbs(values):
        return _mitm_wide(values, cap, goal, deadline)
    require(len(values) <= MITM_MAX_ITEMS, f"method 'mitm' needs at most {MITM_MAX_ITEMS} items")
    halves = values[0::2], values[1::2]
    sums = []
    for half in halves:
        half_sums = _sorted_sums(half, cap, deadline)
        if half_sums is None:
            return Found(greedy(values, cap), cap)
        sums.append(half_sums)
    pair = _kernels.best_pair(*sums[0], *sums[1], *_split(cap), *_split(goal))
    chosen = 0
    for side, half in enumerate(halves):
        hi, lo = (int(limb[pair[side]]) for limb in sums[side])
        code = int(_kernels.gray_best(*_limbs(half), 0, 0, hi, lo, hi, lo))
        chosen |= sum(1 << (2 * k + side) for k in range(len(half)) if code >> k & 1)
    mass = mass_of(values, chosen)
    return Found(chosen, cap if mass >= goal else mass)


def _mitm_wide(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """`mitm` in Python integers of any size, each sum with its subset in its low bits."""
    n = len(values)
    require(
        n <= MITM_WIDE_MAX_ITEMS,
        f"method 'mitm' needs at most {MITM_WIDE_MAX_ITEMS} items for weights that span 2**122",
    )
    tagged = [value << n | 1 << k for k, value in enumerate(values)]
    sums = []
    for half in (tagged[0::2], tagged[1::2]):
        half_sums = [0]
        for item in half:
            if deadline.passed():
                return Found(greedy(values, cap), cap)
            # Two ascending runs, which Python's sort merges in linear time.
            half_sums = sorted(half_sums + [entry + item for entry in half_sums])
        sums.append(half_sums)
    first, second = sums
    # The halves are disjoint, so that adding two tags never carries into the sums.
    bound = (cap + 1) << n
    best = 0
    partner = len(second) - 1
    for entry in first:
        while partner >= 0 and entry + second[partner] >= bound:
            partner -= 1
        if partner < 0 or best >> n >= goal:
            break
        best = max(best, entry + second[partner])
    mass = best >> n
    return Found(best & ((1 << n) - 1), cap if mass >= goal else mass)


def dp(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """Dynamic programming over a bitset of reachable sums: O(n·cap/64) time, n·cap bits of memory.

    Needs n·cap <= 2**31. Complete: bit s of the k-th set says whether the first k values have a
    subset of mass s.
    """
    require(_dp_bits(values, cap) <= DP_MAX_BITS, "method 'dp' needs a smaller common denominator")
    full = (1 << (cap + 1)) - 1
    prefixes = [1]
    for value in values:
        if prefixes[-1].bit_length() > goal:
            break
        if deadline.passed():
            return Found(greedy(values, cap), cap)
        # A shift beyond the cap would only be masked away, at the cost of its memory.
        shifted = prefixes[-1] << value if value <= cap else 0
        prefixes.append((prefixes[-1] | shifted) & full)
    mass = left = prefixes[-1].bit_length() - 1
    chosen = 0
    for k in range(len(prefixes) - 2, -1, -1):
        if not prefixes[k] >> left & 1:
            chosen |= 1 << k
            left -= values[k]
    return Found(chosen, cap if mass >= goal else mass)


def fill(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """Choose among most values by a rule, then meet in the middle on a few: for many values.

    O(n log n + 2^(k/2)) with k = 24, 30 and 36 free values in turn, each with two rules for the
    others. A heuristic: it proves a subset optimal only where the cap itself is met.

    The rules aim at cap − F/2, where F is the mass of the free values, because their subset sums
    lie densest around F/2. They need not reach it: what is left decides how close the sums come.
    """
    best = greedy(values, cap)
    mass = mass_of(values, best)
    for size in _FILL_FREE_ITEMS:
        for rule in (_large_first, _middle_window):
            if mass >= goal or deadline.passed():
                return Found(best, cap)
            base, free = rule(values, cap, size)
            chosen = _completed(values, base, free, cap, goal, deadline)
            if mass_of(values, chosen) > mass:
                best, mass = chosen, mass_of(values, chosen)
    return Found(best, cap)


def _large_first(values: Sequence[int], cap: int, size: int) -> tuple[int, list[int]]:
    """The smallest values are free; of the others, from the largest on, whatever fits is taken."""
    places = range(len(values))
    free = list(places[-size:])
    room = max(cap - sum(values[k] for k in free) // 2, 0)
    return greedy(values[:-size], room), free


def _middle_window(values: Sequence[int], cap: int, size: int) -> tuple[int, list[int]]:
    """Evenly spaced values are free; of the others, in order, a run of neighbours is taken.

    For nearly equal values, whose sums are right only for the right number of them: as a run of
    this length moves along, its mass changes in steps as small as the differences of the values.

    Some run fits: the lightest has at most its share of the mean a of the others, which exceeds the
    aim by at most a/2, and a <= F because the largest value is free.
    """
    n = len(values)
    free = sorted({j * n // size for j in range(size)})
    others = sorted(set(range(n)) - set(free))
    aim = cap - sum(values[k] for k in free) // 2
    prefix = [0, *accumulate(values[k] for k in others)]
    count = len(others)

    def miss(start: int, length: int) -> int:
        mass = prefix[start + length] - prefix[start]
        return abs(mass - aim) if mass <= cap else cap + aim

    length = min(range(count + 1), key=lambda m: abs(prefix[count] * m - aim * count))
    start = min(range(count - length + 1), key=lambda first: miss(first, length))
    return sum(1 << k for k in others[start : start + length]), free


def _completed(
    values: Sequence[int], base: int, free: list[int], cap: int, goal: int, deadline: Deadline
) -> int:
    """A subset of mass <= cap: `base` and what `mitm` adds to it from the free places.

    Free values too wide for the kernels are rounded up to a coarser unit, so that what fits in it
    fits exactly as well.
    """
    start = mass_of(values, base)
    room = sum(values[k] for k in free)
    rest = min(cap - start, room)
    shift = max(room.bit_length() - _COARSE_BITS, 0)
    coarse = [-(-values[k] >> shift) for k in free]
    coarse_goal = min(max(goal - start, 0), rest) >> shift
    added = mitm(coarse, rest >> shift, coarse_goal, deadline).chosen
    return base | sum(1 << k for j, k in enumerate(free) if added >> j & 1)


def branch(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """Branch on the largest values, bound by the mass of the others, meet in the middle at 30.

    Exponential at worst, fast where a few values are heavy; it gives up, BOUNDED, after
    10⁵ branches or 100 leaves. Complete until then: a branch of mass m with mass R still to be
    decided is dropped for m > cap and closed for m + R <= cap, where nothing beats taking all; any
    other is split in two or, with 30 values left, solved by `mitm`.
    """
    n = len(values)
    rest = [0, *accumulate(reversed(values))][::-1]
    best = greedy(values, cap)
    mass = mass_of(values, best)
    leaves = 0
    branches = [(0, 0, 0)]
    for _ in range(_MAX_BRANCHES):
        if not branches:
            return Found(best, mass)
        k, start, chosen = branches.pop()
        if start + rest[k] <= cap:
            start += rest[k]
            chosen |= ((1 << (n - k)) - 1) << k
        elif n - k > _LEAF_ITEMS:
            branches.append((k + 1, start, chosen))
            if start + values[k] <= cap:
                branches.append((k + 1, start + values[k], chosen | 1 << k))
            continue
        else:
            leaves += 1
            left = cap - start
            chosen |= mitm(values[k:], left, left, deadline).chosen << k
            start = mass_of(values, chosen)
        if start > mass:
            best, mass = chosen, start
        if mass >= goal or leaves == _MAX_LEAVES or deadline.passed():
            break
    return Found(best, cap)


SEARCHES: dict[str, Search] = {
    "gray": gray,
    "mitm": mitm,
    "dp": dp,
    "fill": fill,
    "branch": branch,
}


def quick_exact(values: Sequence[int], cap: int) -> str | None:
    """The exact search that ends within a millisecond or so, if there is one."""
    if len(values) <= _GRAY_BEST_UP_TO and _fits_limbs(values):
        return "gray"
    if _dp_bits(values, cap) <= _DP_CHEAP_BITS:
        return "dp"
    return "mitm" if len(values) <= _MITM_BEST_UP_TO else None


def slow_exact(values: Sequence[int], cap: int) -> str | None:
    """The exact search that ends within some seconds, if there is one."""
    if _dp_bits(values, cap) <= DP_MAX_BITS:
        return "dp"
    most = MITM_MAX_ITEMS if _fits_limbs(values) else MITM_WIDE_MAX_ITEMS
    return "mitm" if len(values) <= most else None


def _dp_bits(values: Sequence[int], cap: int) -> int:
    return len(values) * (cap + 1)


def require(condition: bool, reason: str) -> None:
    if not condition:
        raise ValueError(reason)


def _fits_limbs(values: Sequence[int]) -> bool:
    return sum(values).bit_length() <= _kernels.MAX_TOTAL_BITS


def _split(number: int) -> tuple[int, int]:
    return number >> _kernels.LIMB_BITS, number & _kernels.LIMB_MASK


def _limbs(values: Sequence[int]) -> Limbs:
    hi, lo = zip(*map(_split, values), strict=True) if values else ((), ())
    return np.array(hi, dtype=np.int64), np.array(lo, dtype=np.int64)


def _sorted_sums(values: Sequence[int], cap: int, deadline: Deadline) -> Limbs | None:
    """All subset sums up to `cap`, ascending, in limbs; None if the deadline passed."""
    hi, lo = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    # The largest values first: sums beyond the cap are dropped as soon as they arise.
    for value in values:
        if deadline.passed():
            return None
        next_hi, next_lo = np.empty((2, 2 * hi.shape[0]), dtype=np.int64)
        count = _kernels.merge_item(hi, lo, *_split(value), *_split(cap), next_hi, next_lo)
        hi, lo = next_hi[:count], next_lo[:count]
    return hi, lo
