"""Weights in groups of nearly equal ones: branch on how many of each group are taken.

Rows of attention early in training often have two or more such groups, and a few weights besides.
How many of each group a subset has says nearly everything about its mass; which of them it has
matters only where the masses of so many differ enough, and so that is asked last.

Method. The subsets of n weights are the choices of just n of 2n numbers v₀ >= v₁ >= …, the weights
and n zeros. A run of consecutive numbers is cut in two where its variance falls most; so are its
parts, down to runs of equal numbers. Cut 0 is that of all 2n; whenever a cut has been made, the one
that lessens the variance most is next. A state of depth j says how many numbers are chosen from
each run that is left by the cuts 0 … j − 1. Its choices have masses from lo, that of the smallest
so many of each run, to hi, that of the largest, and attain both. Let cap be the greatest mass that
is allowed.

- hi <= cap: no choice of the state has a greater mass than hi.
- lo > cap: no choice is allowed.
- lo <= cap < hi: cut j shares the k numbers of its run between the two parts, x and k − x. When x
  rises by one, neither lo nor hi falls, as a number of the left part takes the place of one of the
  right. So these three cases follow one another as x rises. Of the first kind the last is best. The
  states of the third kind are searched next, first that with the cap in the midst of lo and hi, and
  then its neighbours, outwards.

After the last cut there are only runs of equal numbers, lo = hi, and no state is of the third kind.
So the depth-first search is complete, if no mass of at least the goal ends it. It is quick where
few states have the cap between lo and hi, as with tight groups, and where very many have: then it
soon meets with a choice that is close enough. Nothing rounds: all is int64, with a total below 2⁶².

Of wider weights the quotients by a power of two, 2ˢ, are searched, rounded down. A subset that was
allowed still is, and its mass is less than 2ˢ times that of its quotients plus n·2ˢ.
"""

import math
from collections.abc import Sequence

import numpy as np

from theory.theta._float_kernels import rounded_theta_of_gap
from theory.theta._found import Deadline, Found, greedy, mass_of, require
from theory.theta._jit import kernel
from theory.theta._small_rows import OPEN, OPTIMAL, ROUNDED, common_unit, least_residue

# Finding the cuts takes some n² steps of a nanosecond at worst.
MAX_ITEMS = 2**12
MAX_TOTAL_BITS = 62
# Steps between two looks at the deadline, of some 50 to 100 ns each: one state.
_BLOCK = 2**17

# Columns of the cuts: the run from start to end is cut at `at`; numbers of the cuts of its parts,
# or 0, which is that of the whole.
_START, _AT, _END, _LEFT, _RIGHT = range(5)
_CUT_COLUMNS = 5
# Columns of the levels of the search: how many of the run of this cut are chosen, how many of its
# left part; lo and hi of the state; the range of x, and which of it are next below and above.
_COUNT, _SHARE, _LO, _HI, _FIRST, _LAST, _DOWN, _UP = range(8)
_LEVEL_COLUMNS = 8


@kernel
def _best_cut(values, prefix, start, end):  # type: ignore[no-untyped-def]
    """(at, gain): where to cut a run, and by how much that lessens the sum of squared deviations.

    Off by rounding errors, which matter to nothing but speed.
    """
    # The least, so that no product below exceeds a sum of values.
    base = values[end - 1]
    size = np.float64(end - start)
    total = np.float64(prefix[end] - prefix[start] - base * (end - start))
    best_at = start
    best = -1.0
    for at in range(start + 1, end):
        left = np.float64(at - start)
        part = np.float64(prefix[at] - prefix[start] - base * (at - start))
        skew = part * size - total * left
        gain = skew * skew / (left * (size - left))
        if gain > best:
            best_at = at
            best = gain
    return best_at, best / size


@kernel
def _plan_cuts(values, prefix, cuts):  # type: ignore[no-untyped-def]
    """Write the cuts of descending values, in their order.

    prefix: sums of the first 0, 1, … values. cuts: (number of values, _CUT_COLUMNS) int64, zeros.
    """
    size = values.shape[0]
    gains = np.empty(size)
    # Cuts that may be next, with 2·(number of the parent) + (0 if this is its left part, 1 if not).
    waiting = np.empty((size, 4), dtype=np.int64)
    count = 0
    number = 0
    start = 0
    at = end = size
    parent = -2
    while True:
        for side in range(2):
            first = at if side == 1 else start
            last = end if side == 1 else at
            if first < last and values[first] != values[last - 1]:
                waiting[number, 0] = first
                waiting[number, 1], gains[number] = _best_cut(values, prefix, first, last)
                waiting[number, 2] = last
                waiting[number, 3] = parent + side
                number += 1
        if number == 0:
            return
        best = np.argmax(gains[:number])
        start, at, end, parent = waiting[best]
        number -= 1
        gains[best] = gains[number]
        waiting[best] = waiting[number]
        cuts[count, _START] = start
        cuts[count, _AT] = at
        cuts[count, _END] = end
        if parent >= 0:
            cuts[parent // 2, _LEFT + parent % 2] = count
        parent = 2 * count
        count += 1


@kernel
def _next_state(prefix, cuts, levels, depth, share):  # type: ignore[no-untyped-def]
    """lo and hi of the state that follows where the left part of the run gets so many."""
    start, at, end = cuts[depth, _START], cuts[depth, _AT], cuts[depth, _END]
    count = levels[depth, _COUNT]
    rest = count - share
    low = levels[depth, _LO] - (prefix[end] - prefix[end - count])
    low += (prefix[at] - prefix[at - share]) + (prefix[end] - prefix[end - rest])
    high = levels[depth, _HI] - (prefix[start + count] - prefix[start])
    high += (prefix[start + share] - prefix[start]) + (prefix[at + rest] - prefix[at])
    return low, high


@kernel
def _mark(cuts, levels, depth, share, largest, taken):  # type: ignore[no-untyped-def]
    """Write to taken the choice of hi, or of lo, of the state that follows with that share."""
    levels[depth, _SHARE] = share
    taken[:] = False
    for cut in range(depth + 1):
        start, at, end, left, right = cuts[cut]
        ones = levels[cut, _SHARE]
        rest = levels[cut, _COUNT] - ones
        # A part that is cut later than this is whole.
        if not 0 < left <= depth:
            first = start if largest else at - ones
            taken[first : first + ones] = True
        if not 0 < right <= depth:
            first = at if largest else end - rest
            taken[first : first + rest] = True


@kernel
def _open_state(prefix, cuts, levels, depth, cap, best, taken):  # type: ignore[no-untyped-def]
    """Find the shares to search of the state of this depth; returns the greatest mass so far."""
    count = levels[depth, _COUNT]
    left = cuts[depth, _AT] - cuts[depth, _START]
    first = max(0, count - (cuts[depth, _END] - cuts[depth, _AT]))
    last = min(count, left)
    mass = -1
    while first <= last:
        high = _next_state(prefix, cuts, levels, depth, first)[1]
        if high > cap:
            break
        mass = high
        first += 1
    if mass > best:
        best = mass
        _mark(cuts, levels, depth, first - 1, True, taken)
    while first <= last:
        low = _next_state(prefix, cuts, levels, depth, last)[0]
        if low <= cap:
            if low > best:
                best = low
                _mark(cuts, levels, depth, last, False, taken)
            break
        last -= 1
    middle = first
    while middle < last:
        low, high = _next_state(prefix, cuts, levels, depth, middle)
        if cap - low <= high - cap:
            break
        middle += 1
    levels[depth, _FIRST] = first
    levels[depth, _LAST] = last
    levels[depth, _DOWN] = middle - 1
    levels[depth, _UP] = middle
    return best


@kernel
def _next_share(prefix, cuts, levels, depth, cap):  # type: ignore[no-untyped-def]
    """The share to search next: below or above those before, with the cap closer to the midst."""
    down = levels[depth, _DOWN]
    up = levels[depth, _UP]
    below = down >= levels[depth, _FIRST]
    if below and up <= levels[depth, _LAST]:
        low, high = _next_state(prefix, cuts, levels, depth, down)
        skew = abs((cap - low) - (high - cap))
        low, high = _next_state(prefix, cuts, levels, depth, up)
        below = skew < abs((cap - low) - (high - cap))
    if below:
        levels[depth, _DOWN] -= 1
        return down
    levels[depth, _UP] += 1
    return up


@kernel
def start_search(numbers):  # type: ignore[no-untyped-def]
    """(prefix, cuts, levels, place, taken) for `search_counts` of n descending numbers >= 0.

    numbers: (n,) int64, not all zero, with a total below 2**62.
    """
    n = numbers.shape[0]
    values = np.zeros(2 * n, dtype=np.int64)
    values[:n] = numbers
    prefix = np.zeros(2 * n + 1, dtype=np.int64)
    prefix[1:] = np.cumsum(values)
    cuts = np.zeros((2 * n, _CUT_COLUMNS), dtype=np.int64)
    _plan_cuts(values, prefix, cuts)
    levels = np.empty((2 * n, _LEVEL_COLUMNS), dtype=np.int64)
    levels[0, _COUNT] = n
    levels[0, _LO] = 0
    levels[0, _HI] = prefix[n]
    return prefix, cuts, levels, np.array([0, 1, -1]), np.zeros(2 * n, dtype=np.bool_)


@kernel
def search_counts(prefix, cuts, levels, place, taken, cap, goal, most):  # type: ignore[no-untyped-def]
    """Search on for the choice with the greatest mass <= cap; returns the number of steps.

    The first five are those of `start_search`. 0 <= cap < total. A mass of at least `goal` ends the
    search. place: the depth, less than 0 at the end and at least 0 after `most` steps; 1 if its
    state is a new one, 0 if not; the greatest mass so far. taken[:n]: a subset with that mass.
    """
    depth, is_new, best = place
    steps = 0
    while depth >= 0:
        if is_new == 1:
            if steps == most:
                break
            steps += 1
            best = _open_state(prefix, cuts, levels, depth, cap, best, taken)
            if best >= goal:
                depth = -1
                break
        if (
            levels[depth, _DOWN] < levels[depth, _FIRST]
            and levels[depth, _UP] > levels[depth, _LAST]
        ):
            depth -= 1
            is_new = 0
            continue
        share = _next_share(prefix, cuts, levels, depth, cap)
        levels[depth, _SHARE] = share
        if cuts[depth, _LEFT] > 0:
            levels[cuts[depth, _LEFT], _COUNT] = share
        if cuts[depth, _RIGHT] > 0:
            levels[cuts[depth, _RIGHT], _COUNT] = levels[depth, _COUNT] - share
        low, high = _next_state(prefix, cuts, levels, depth, share)
        depth += 1
        # lo < hi: some run is left to be cut.
        levels[depth, _LO] = low
        levels[depth, _HI] = high
        is_new = 1
    place[0] = depth
    place[1] = is_new
    place[2] = best
    return steps


@kernel
def settle_groups(weights, n, total_hi, total_lo, most, residues, taken):  # type: ignore[no-untyped-def]
    """Settle n >= 2 weights: (θ, status, steps), and the subset in taken (>= n,) bool.

    weights: (>= n,) float64, positive, descending, the largest in 2**±300, with sum
    total_hi + total_lo. θ is NaN and the status OPEN where `most` steps do not do; and where θ < 1
    and the weights are no multiples of a power of two above 2**-61 of the total, because each of
    them is then off by up to 2**-60 of it. residues: as in `least_residue`, overwritten.
    """
    unit = common_unit(weights, n)
    error = 0
    if total_hi >= 2.0**61 * unit:
        unit = math.ldexp(1.0, math.frexp(total_hi)[1] - 61)
        error = n
    numbers = np.empty(n, dtype=np.int64)
    for k in range(n):
        numbers[k] = np.int64(weights[k] / unit)
    prefix, cuts, levels, place, chosen = start_search(numbers)
    total = prefix[n]
    cap = total // 2
    if total_hi < 2.0**52 * unit:
        least = least_residue(weights, n, unit, total_hi, residues)
        cap = (total - np.int64(least / unit)) // 2
    # Of at least this mass, the discrepancy is at most 2**-27 of the total, whatever the errors.
    near = (total - (total >> 27) + error + 1) // 2
    goal = min(near, cap)
    steps = search_counts(prefix, cuts, levels, place, chosen, cap, goal, most)
    depth, _, mass = place
    taken[:n] = chosen[:n]
    if mass >= near:
        return 1.0, OPTIMAL if error == 0 and mass == cap else ROUNDED, steps
    if error > 0 or depth >= 0:
        return np.nan, OPEN, steps
    gap = total - 2 * mass
    gap_hi = np.float64(gap)
    gap_lo = np.float64(gap - np.int64(gap_hi))
    value = rounded_theta_of_gap(gap_hi * unit, gap_lo * unit, total_hi, total_lo, 0.0)
    return value, OPTIMAL if value == value else OPEN, steps


def groups(
    values: Sequence[int], cap: int, goal: int, deadline: Deadline, most: float = math.inf
) -> Found:
    """Branch on how many of each group of nearly equal values are taken: see the module.

    Needs n <= 4096. Complete, but it gives up after `most` steps of some 50 ns; and with a total of
    2⁶² or more, its limit is up to n·2ˢ above the greatest mass. Exponential at worst.
    """
    n = len(values)
    total = sum(values)
    require(n <= MAX_ITEMS, f"method 'groups' needs at most {MAX_ITEMS} items")
    if total <= cap:
        return Found((1 << n) - 1, total)
    shift = max(total.bit_length() - MAX_TOTAL_BITS, 0)
    arrays = start_search(np.array([value >> shift for value in values], dtype=np.int64))
    *_, place, taken = arrays
    room = cap >> shift
    # Rounded up; but no more than what fits.
    enough = min(-(-goal >> shift), room)
    while place[0] >= 0 and most > 0:
        search_counts(*arrays, room, enough, min(most, _BLOCK))
        most -= _BLOCK
        if deadline.passed():
            break
    chosen = sum(1 << int(k) for k in np.flatnonzero(taken[:n]))
    mass = mass_of(values, chosen)
    if mass > cap:
        # By less than n·2ˢ.
        return Found(greedy(values, cap), cap)
    if mass >= goal or place[0] >= 0:
        return Found(chosen, cap)
    return Found(chosen, min((int(place[2]) << shift) + n * ((1 << shift) - 1), cap))
