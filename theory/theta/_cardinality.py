"""Subset sums with a fixed number of items: for nearly equal values.

Where the values are nearly equal, the sums of k of them lie close together and far from those of
k + 1, and most numbers k are out of the question at once. For one k, start from the k largest (or
the k smallest) and exchange items: each item that leaves and each that comes costs its distance
from a value in between, so that the mass is that of the start less (or plus) a sum of nonnegative
costs, over as many items on the one side as on the other. Up to the loss that leads to the cap
there are few such sums, and they are met in the middle, class by class of the number of exchanges.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, combinations, pairwise

import numpy as np

from theory.theta import _kernels
from theory.theta._found import (
    Deadline,
    Found,
    Limbs,
    TimeUp,
    fits_limbs,
    joined,
    mass_of,
    require,
    split,
)

# Sums in all lists of one side together: 32 MiB in two limbs.
_MAX_SUMS = 2**21
_ENUMERATED_ITEMS = 10
# With more numbers of items in question, values are not nearly equal.
_FEW_COUNTS = 4
_NEIGHBOURS = 8
# Distances at which `cardinality` takes some milliseconds, and some tenth of a second.
NEAR = 45
FAR = 120
_QUICK_WORK = 2**26


class _TooManySums(Exception):
    """The lists of one side would become too long."""


def straddling_counts(prefix: Sequence[int], first: int, cap: int) -> tuple[int, range]:
    """What numbers of items alone say about the sums <= cap of descending values from `first` on.

    prefix: the sums of the first 0, 1, …, n values. Returns the greatest number k such that the k
    largest weigh at most cap, and the numbers with which some choices fit and others do not: from
    k + 1 on, as long as so many of the smallest fit. If there is no such number, the k largest have
    the greatest sum <= cap: more than k items never fit, and at most k items weigh no more than the
    k largest. O(log n).
    """
    n = len(prefix) - 1
    fitting = bisect_right(prefix, prefix[first] + cap, lo=first) - 1 - first
    # The j smallest weigh prefix[n] - prefix[n - j].
    possible = n - bisect_left(prefix, prefix[n] - cap, lo=first)
    return fitting, range(fitting + 1, possible + 1)


def exchange_distance(values: Sequence[int], cap: int) -> float:
    """How far `cardinality` has to go, in mean distances between neighbouring values.

    The way is the loss or gain to the cap, the longest over the numbers of items in question; the
    distances are those next to the edge. Infinity for values that are not nearly equal, 0 where no
    number is in question, and at most `FAR` where all multiples of a common difference can be
    listed in a tenth of a second.
    """
    prefix = [0, *accumulate(values)]
    _, counts = straddling_counts(prefix, 0, cap)
    if len(counts) > _FEW_COUNTS or not fits_limbs(values):
        return math.inf
    n = len(values)
    divisor = math.gcd(*(value - values[-1] for value in values)) or 1
    longest = 0.0
    for count in counts:
        loss, gain = prefix[count] - cap, cap - (prefix[n] - prefix[n - count])
        way, edge = min((loss, count), (gain, n - count))
        first, last = max(edge - _NEIGHBOURS, 0), min(edge + _NEIGHBOURS, n - 1)
        distance = way * (last - first) / max(values[first] - values[last], 1)
        # Sums of costs are multiples of the divisor, for each number of exchanges.
        if n * n * (way // divisor + 1) <= _QUICK_WORK:
            distance = min(distance, FAR)
        longest = max(longest, distance)
    return longest


def cardinality(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """For each possible number of items, meet in the middle over sums of exchange costs.

    Needs a total below 2¹²². Complete unless the sums of costs of one side up to the loss in
    question are more than 2²¹, which leaves the answer open. Made for nearly equal values, an odd
    number of them, just beyond the closed form "odd": with a loss of n mean distances of neighbours
    the lists have about exp(π√(n/3)) sums, the number of subsets in question to the power 1/√2.
    """
    require(fits_limbs(values), "method 'cardinality' needs weights that span less than 2**122")
    prefix = [0, *accumulate(values)]
    fitting, counts = straddling_counts(prefix, 0, cap)
    best = (1 << fitting) - 1
    mass = prefix[fitting]
    try:
        for count in counts:
            if mass >= goal:
                break
            chosen = _with_count(values, count, cap, mass, goal, deadline)
            if chosen is not None:
                best = chosen
                mass = mass_of(values, chosen)
    except (TimeUp, _TooManySums):
        return Found(best, cap)
    return Found(best, cap if mass >= goal else mass)


def fill_by_number(
    values: Sequence[int], cap: int, goal: int, size: int, deadline: Deadline
) -> int:
    """A subset with a mass near `cap`, of a number of items that can come near it; 0 if unsuitable.

    For nearly equal values, many of them. For each number in question: `size` evenly spaced values
    are free, of which half are taken; of the others a run of neighbours is taken, such that the
    right number is reached and the run aims at the middle of what the free values can add. Which of
    them add what is missing is found by meeting in the middle, for each number in either half.
    """
    n = len(values)
    prefix = [0, *accumulate(values)]
    _, counts = straddling_counts(prefix, 0, cap)
    if len(counts) > _FEW_COUNTS or n < 2 * size or not fits_limbs(values):
        return 0
    # From the smallest on.
    free = [n - 1 - j * n // size for j in range(size)]
    others = sorted(set(range(n)) - set(free))
    sums = [0, *accumulate(values[k] for k in others)]
    halves = free[0::2], free[1::2]
    half_values = [[values[k] for k in half] for half in halves]
    taken = size // 2
    best = mass = 0
    try:
        lists = [_sums_by_number(half, sum(half), deadline) for half in half_values]
        for count in counts:
            run = count - taken
            if not 0 <= run <= len(others):
                continue
            aim = cap - sum(values[k] for k in free) * taken // size
            starts = range(len(others) - run + 1)
            start = min(starts, key=lambda first: abs(sums[first + run] - sums[first] - aim))
            base = sums[start + run] - sums[start]
            found = _numbered_pair(half_values, lists, taken, cap - base, goal - base, deadline)
            if found is None or base + found[0] <= mass:
                continue
            mass = base + found[0]
            places = [*others[start : start + run]]
            for half, chosen in zip(halves, found[1], strict=True):
                places += [half[k] for k in chosen]
            best = sum(1 << k for k in places)
            if mass >= goal:
                break
    except TimeUp:
        pass
    return best


def _numbered_pair(
    halves: Sequence[Sequence[int]],
    lists: Sequence[list[Limbs]],
    number: int,
    room: int,
    enough: int,
    deadline: Deadline,
) -> tuple[int, list[list[int]]] | None:
    """The greatest sum <= room of so many of the values of two halves, and places in each; or None.

    A sum of at least `enough` may be taken in place of the greatest. halves: ascending; lists:
    their sums by number. Raises TimeUp.
    """
    best = -1
    numbers: tuple[int, int] = (0, 0)
    parts = [0, 0]
    for first in range(max(0, number + 1 - len(lists[1])), min(number + 1, len(lists[0]))):
        a, b = lists[0][first], lists[1][number - first]
        pair = _kernels.best_pair(*a, *b, *split(room), *split(enough))
        masses = [joined(hi[k], lo[k]) for (hi, lo), k in zip((a, b), pair, strict=True)]
        if best < sum(masses) <= room:
            best, numbers, parts = sum(masses), (first, number - first), masses
            if best >= enough:
                break
    if best < 0:
        return None
    return best, [
        _subset_with_number(half, count, part, deadline)
        for half, count, part in zip(halves, numbers, parts, strict=True)
    ]


def _with_count(
    values: Sequence[int], count: int, cap: int, mass: int, goal: int, deadline: Deadline
) -> int | None:
    """The best subset of `count` items with a mass in (mass, cap], or one >= goal; None if none.

    Raises TimeUp and _TooManySums.
    """
    n = len(values)
    heaviest, lightest = sum(values[:count]), sum(values[n - count :])
    slack, room = heaviest - cap, cap - lightest
    if room <= slack:
        gain = mass + 1 - lightest, room
        return _exchanged(values, count, gain, goal - lightest, deadline, from_above=False)
    # The least loss is near `slack` where there are many; the lists grow with what is allowed.
    most = slack + slack // 16
    while True:
        most = min(most, heaviest - mass - 1)
        loss = slack, most
        chosen = _exchanged(values, count, loss, heaviest - goal, deadline, from_above=True)
        if chosen is not None or most == heaviest - mass - 1:
            return chosen
        most += most - slack + 1


def _exchanged(
    values: Sequence[int],
    count: int,
    window: tuple[int, int],
    enough: int,
    deadline: Deadline,
    *,
    from_above: bool,
) -> int | None:
    """A choice of `count` items with the least loss in a window, or the greatest gain; or None.

    The loss is that of the heaviest choice of so many, the gain that on the lightest. A loss of at
    most `enough`, or a gain of at least that, may be taken in place of the best.
    """
    n = len(values)
    low, high = window
    edge = count if from_above else n - count
    costs = (
        [value - values[edge] for value in reversed(values[:edge])],
        [values[edge] - value for value in values[edge:]],
    )
    above, below = (_sums_by_number(side, high, deadline) for side in costs)
    best: tuple[int, int, int] | None = None
    for number, (a, b) in enumerate(zip(above, below, strict=False)):
        if from_above:
            pair = _kernels.least_pair(*a, *b, *split(low), *split(enough))
        else:
            pair = _kernels.best_pair(*a, *b, *split(high), *split(enough))
        parts = [joined(hi[place], lo[place]) for (hi, lo), place in zip((a, b), pair, strict=True)]
        cost = sum(parts)
        if low <= cost <= high:
            best = number, parts[0], parts[1]
            low, high = (low, cost - 1) if from_above else (cost + 1, high)
            if (cost <= enough) if from_above else (cost >= enough):
                break
    if best is None:
        return None
    number, *masses = best
    left, right = (
        _subset_with_number(side, number, part, deadline)
        for side, part in zip(costs, masses, strict=True)
    )
    start = range(count) if from_above else range(n - count, n)
    moved = [edge - 1 - k for k in left] + [edge + k for k in right]
    return sum(1 << k for k in set(start).symmetric_difference(moved))


def _sums_by_number(costs: Sequence[int], most: int, deadline: Deadline) -> list[Limbs]:
    """For 0, 1, … of the ascending costs, their distinct sums up to `most`, ascending.

    Ends before the first number without a sum. Raises TimeUp and _TooManySums.
    """
    zero, none = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    lists = [(zero, zero)]
    # The largest first, which have few sums; the last ones double what there is.
    for cost in reversed(costs[: bisect_right(costs, most)]):
        deadline.check()
        padded = [(none, none), *lists, (none, none)]
        lists = []
        for fewer, same in pairwise(padded):
            hi, lo = np.empty((2, same[0].shape[0] + fewer[0].shape[0]), dtype=np.int64)
            count = _kernels.merge_shifted(*same, *fewer, *split(cost), *split(most), hi, lo)
            if count:
                lists.append((hi[:count], lo[:count]))
        if sum(hi.shape[0] for hi, _ in lists) > _MAX_SUMS:
            raise _TooManySums
    return lists


def _subset_with_number(
    costs: Sequence[int], number: int, total: int, deadline: Deadline
) -> list[int]:
    """Places of so many ascending costs with this sum, known to exist. Raises TimeUp."""
    if len(costs) <= _ENUMERATED_ITEMS:
        choices = combinations(range(len(costs)), number)
        return next(list(c) for c in choices if sum(costs[k] for k in c) == total)
    halves = costs[0::2], costs[1::2]
    lists = [_sums_by_number(half, total, deadline) for half in halves]
    found = _numbered_pair(halves, lists, number, total, total, deadline)
    if found is None:
        raise AssertionError("no subset has the sum that was found")
    _, (evens, odds) = found
    return [2 * k for k in evens] + [2 * k + 1 for k in odds]
