"""Meeting in the middle over sorted lists of distinct subset sums.

Equal sums are listed once. Values that are multiples of a coarse unit, as the large entries of a
bfloat16 row are, have few distinct sums however many they are, and so the values, in descending
order, are cut where both lists are short, not in two halves of equal number.
"""

import math
from collections.abc import Sequence

import numpy as np

from theory.theta import _kernels
from theory.theta._found import (
    Deadline,
    Found,
    Limbs,
    TimeUp,
    fits_limbs,
    greedy,
    joined,
    limbs,
    mass_of,
    require,
    split,
)

# What 22 values may have: 64 MiB for a list in two limbs.
MITM_MAX_SUMS = 2**22
# The Python integers of `_mitm_wide` take some 100 bytes a sum.
MITM_WIDE_MAX_ITEMS = 40
_ENUMERATED_ITEMS = 10
_WIDE_BLOCK = 2**14


def sum_counts(values: Sequence[int], most: float = math.inf) -> list[int]:
    """For each k <= n a bound on the number of distinct subset sums of the first k values.

    One more value at most doubles them; all are multiples of the greatest common divisor. The
    bounds ascend; the list ends before the first that exceeds `most`.
    """
    counts = [1]
    total = divisor = 0
    for value in values:
        total += value
        divisor = math.gcd(divisor, value)
        count = min(2 * counts[-1], total // divisor + 1)
        if count > most:
            break
        counts.append(count)
    return counts


def best_cut(values: Sequence[int]) -> tuple[int, int]:
    """Where to cut n >= 1 values in two, and a bound on the longer list of sums."""
    heads = sum_counts(values)
    tails = sum_counts(values[::-1])[::-1]
    longest = [max(head, tail) for head, tail in zip(heads, tails, strict=True)]
    # Both parts are smaller than the whole, for n >= 2, so that cutting them again ends.
    places = range(1, len(values)) if len(values) > 1 else range(1, 2)
    cut = min(places, key=lambda k: (longest[k], heads[k] + tails[k]))
    return cut, longest[cut]


def mitm_suits(values: Sequence[int], most: int = MITM_MAX_SUMS) -> bool:
    """Whether `mitm` takes these values, with at most `most` sums in a list."""
    if not values:
        return True
    if not fits_limbs(values):
        return len(values) <= min(MITM_WIDE_MAX_ITEMS, 2 * (most.bit_length() - 1))
    heads, tails = sum_counts(values, most), sum_counts(values[::-1], most)
    # Some cut leaves a head and a tail with as few sums: one of at most len - 1 values each.
    return (len(heads) - 1) + (len(tails) - 1) >= len(values)


def mitm(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """Meet in the middle (Horowitz and Sahni 1974): O(2^(n/2)) time and memory, or better.

    Needs n <= 44 or at most 2²² distinct sums of a head and of a tail of the values; n <= 40 if the
    total is 2¹²² or more (then in Python integers). Complete: the sums of both parts are listed in
    order, by merging X with X + item, and the greatest partner that fits each sum of the first part
    is found as one pointer rises and the other falls. Time O(n·N) for lists of at most N sums.
    """
    if not fits_limbs(values):
        return _mitm_wide(values, cap, goal, deadline)
    cut, longest = best_cut(values)
    require(
        longest <= MITM_MAX_SUMS,
        "method 'mitm' needs at most 44 items, or few distinct sums of the large and of the small",
    )
    try:
        chosen = _best_of_parts(values, cut, cap, goal, deadline)
    except TimeUp:
        return Found(greedy(values, cap), cap)
    mass = mass_of(values, chosen)
    return Found(chosen, cap if mass >= goal else mass)


def _best_of_parts(
    values: Sequence[int], cut: int, cap: int, enough: int, deadline: Deadline
) -> int:
    """The subset of greatest mass <= cap, or one of mass >= enough."""
    parts = values[:cut], values[cut:]
    sums = [sorted_sums(part, cap, deadline) for part in parts]
    pair = _kernels.best_pair(*sums[0], *sums[1], *split(cap), *split(enough))
    head, tail = (
        subset_of_mass(part, joined(hi[place], lo[place]), deadline)
        for part, (hi, lo), place in zip(parts, sums, pair, strict=True)
    )
    return head | tail << cut


def sorted_sums(values: Sequence[int], cap: int, deadline: Deadline) -> Limbs:
    """The distinct subset sums up to `cap`, ascending, in limbs. Raises TimeUp."""
    hi, lo = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    # The largest values first: sums beyond the cap are dropped as soon as they arise.
    for value in values:
        deadline.check()
        next_hi, next_lo = np.empty((2, 2 * hi.shape[0]), dtype=np.int64)
        count = _kernels.merge_shifted(hi, lo, hi, lo, *split(value), *split(cap), next_hi, next_lo)
        hi, lo = next_hi[:count], next_lo[:count]
    return hi, lo


def subset_of_mass(values: Sequence[int], mass: int, deadline: Deadline) -> int:
    """A subset of exactly this mass, known to exist. Raises TimeUp.

    By meeting in the middle again and again: the square root of the time that it takes to list the
    sums of `values`, where these are all distinct.
    """
    if len(values) <= _ENUMERATED_ITEMS:
        return int(_kernels.gray_best(*limbs(values), 0, 0, *split(mass), *split(mass)))
    return _best_of_parts(values, best_cut(values)[0], mass, mass, deadline)


def _mitm_wide(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """`mitm` in Python integers of any size, each sum with its subset in its low bits."""
    n = len(values)
    require(
        n <= MITM_WIDE_MAX_ITEMS,
        f"method 'mitm' needs at most {MITM_WIDE_MAX_ITEMS} items for weights that span 2**122",
    )
    try:
        best = _best_wide(values, cap, goal, deadline)
    except TimeUp:
        return Found(greedy(values, cap), cap)
    mass = best >> n
    return Found(best & ((1 << n) - 1), cap if mass >= goal else mass)


def _best_wide(values: Sequence[int], cap: int, enough: int, deadline: Deadline) -> int:
    """The greatest mass <= cap, or one >= enough, followed by n bits that tell its subset."""
    n = len(values)
    tagged = [value << n | 1 << k for k, value in enumerate(values)]
    sums = []
    for half in (tagged[0::2], tagged[1::2]):
        half_sums = [0]
        for item in half:
            deadline.check()
            half_sums += [entry + item for entry in half_sums]
            deadline.check()
            # Two ascending runs, which Python's sort merges in linear time.
            half_sums.sort()
        sums.append(half_sums)
    first, second = sums
    # The halves are disjoint, so that adding two tags never carries into the sums.
    bound = (cap + 1) << n
    best = 0
    partner = len(second) - 1
    for place, entry in enumerate(first):
        while partner >= 0 and entry + second[partner] >= bound:
            partner -= 1
        if partner < 0 or best >> n >= enough:
            break
        if place % _WIDE_BLOCK == 0:
            deadline.check()
        best = max(best, entry + second[partner])
    return best
