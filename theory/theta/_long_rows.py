"""Many weights: a subset within 2⁻²⁸ W of half the total W, in time linear in their number.

Proof obligation. θ = 1 − (D/W)² rounds to 1.0 as soon as some subset has |2 w(S) − W| <= 2⁻²⁷ W.
Nothing is claimed of a row for which none is found.

Where every weight is a multiple of a unit u with W < 2⁵² u, as in rows of half precision, the sums
here are exact, and a discrepancy is looked for that is the least by `least_residue`.

Method, for n weights, with d the signed difference of the two sides so far:

1. *Order.* A counting sort by the exponent bits, largest binade first; no full sort. Weights below
   2⁻³² W/n are left to one side: together they are at most 2⁻³² W.
2. *Balance.* Neighbours in that order form pairs on opposite sides; each pair is turned so that it
   reduces |d|: d becomes |d| − |w − w'|. (Both go to the lighter side where both fit.)
3. *Repair.* 64 neighbours, small ones but not too small to matter, are left out of step 2 and
   sorted. While d exceeds the spread of those that are left, the largest and the smallest form a
   pair; one more pair is chosen to come closest to d. The others pair up with their neighbours:
   small gaps g, each of which enters d with either sign. The largest gaps are turned against d in
   descending order.
4. *Search.* The 18 smallest gaps: d + Σ ±g is tried for all 2⁹ × 2⁹ signs until it is small enough.

Float error: d and every sum in it are at most W in size, and each of the fewer than 2n + 64
additions that form a candidate value is off by at most 2⁻⁵³ W(1 + 2⁻²⁰). With the weights left out
and n <= 2¹⁸ that is below 2⁻³¹ W, and so a computed difference of at most (1 − 2⁻³)·2⁻²⁷ W belongs
to a true one of less than 2⁻²⁷ W.
"""

import numpy as np

from theory.theta._jit import kernel

MIN_TERMS = 96
MAX_TERMS = 2**18
# A power of two, as `_rank` and the pairing need an even number.
_HELD_BACK = 64
_FREE_GAPS = 18
# Where among the weights, from the largest on, those held back stand: after 80 of them at least, to
# which the gap owes its size, and where they drop below this share of the total.
_AHEAD = 80
_HELD_BACK_AT = 2.0**-14
_HALF_SUMS = 1 << (_FREE_GAPS // 2)
_ACCEPTED = 2.0**-27 * (1.0 - 2.0**-3)
# Share of the total that the weights left out may have together.
_NEGLIGIBLE = 2.0**-32
_EXPONENT_SHIFT = 52
_CLASSES = 64
_STREAMS = 4


@kernel
def order_by_binade(weights, n, cut, ordered, places):  # type: ignore[no-untyped-def]
    """Write the weights >= cut, those of the largest binade first, and their places; their number.

    weights: (>= n,) float64, nonnegative; cut: a power of two, at most 62 binades below the
    largest. ordered: float64, places: int32, (>= n,). The row is read as four streams with counters
    of their own, because weights of one binade would wait for one another's counter.
    """
    bits = weights.view(np.int64)
    quarter = n // _STREAMS
    top = np.int64(0)
    for k in range(n):
        top = max(top, bits[k])
    top >>= _EXPONENT_SHIFT
    last = top - (np.float64(cut).view(np.int64) >> _EXPONENT_SHIFT) + 1
    start = np.zeros((_STREAMS, _CLASSES), dtype=np.int64)
    for k in range(quarter):
        for stream in range(_STREAMS):
            at = np.uintp(stream * quarter + k)
            c = min(top - (bits[at] >> _EXPONENT_SHIFT), last)
            start[stream, np.uintp(c)] += 1
    for k in range(_STREAMS * quarter, n):
        start[0, min(top - (bits[k] >> _EXPONENT_SHIFT), last)] += 1
    sum_so_far = 0
    for c in range(last + 1):
        for stream in range(_STREAMS):
            size = start[stream, c]
            start[stream, c] = sum_so_far
            sum_so_far += size
    for k in range(quarter):
        for stream in range(_STREAMS):
            at = np.uintp(stream * quarter + k)
            c = np.uintp(min(top - (bits[at] >> _EXPONENT_SHIFT), last))
            to = np.uintp(start[stream, c])
            ordered[to] = weights[at]
            places[to] = at
            start[stream, c] += 1
    for k in range(_STREAMS * quarter, n):
        c = min(top - (bits[k] >> _EXPONENT_SHIFT), last)
        ordered[start[0, c]] = weights[k]
        places[start[0, c]] = k
        start[0, c] += 1
    return start[_STREAMS - 1, last - 1]


@kernel
def _balance(ordered, start, stop, gap, minus):  # type: ignore[no-untyped-def]
    """Put the weights from start to stop on two sides, in pairs, so as to reduce |gap|; the gap.

    minus[k] says that a weight is subtracted. A pair goes to opposite sides unless both fit.
    """
    size = abs(gap)
    lighter = gap >= 0.0
    if (stop - start) % 2:
        minus[start] = lighter
        size -= ordered[start]
        lighter ^= size < 0.0
        size = abs(size)
        start += 1
    for k in range(start, stop, 2):
        one = ordered[np.uintp(k)]
        two = ordered[np.uintp(k + 1)]
        if size > max(one, two):
            minus[k] = lighter
            minus[k + 1] = lighter
            size -= one + two
        else:
            first = one >= two
            minus[k] = lighter == first
            minus[k + 1] = lighter != first
            size -= abs(one - two)
        lighter ^= size < 0.0
        size = abs(size)
    return size if lighter else -size


@kernel
def _rank(values, count, ranks):  # type: ignore[no-untyped-def]
    """The place of each of the first `count` values in descending order; equal ones in order."""
    for i in range(count):
        value = values[i]
        rank = 0
        for j in range(i):
            rank += values[j] >= value
        for j in range(i + 1, count):
            rank += values[j] > value
        ranks[i] = rank


@kernel
def balance_row(weights, n, total, unit, least, scratch, ordered, places, minus):  # type: ignore[no-untyped-def]
    """Look for a subset with |2 mass − total| <= 2**-27 total, or <= least for a coarse unit.

    weights: (>= n,) float64, nonnegative, with float sum `total`, n <= MAX_TERMS. unit: 0, or one
    of which every weight is a multiple and the total less than 2**52 times it, with the least
    discrepancy that its residues permit.
    ordered (float64), places (int32), minus (bool): (>= n,), overwritten. After success the weight
    at places[k] is in the subset unless minus[k], for k below the returned number of places; those
    of no place are not in it. Returns 0 if no subset was found. scratch: (5, 512) float64.
    """
    # Cleared of its fraction, a float is the power of two below it.
    exponent = np.float64(_NEGLIGIBLE * total / n).view(np.int64) >> _EXPONENT_SHIFT
    cut = np.int64(exponent << _EXPONENT_SHIFT).view(np.float64)
    count = order_by_binade(weights, n, cut, ordered, places)
    if count < MIN_TERMS:
        return 0
    held = count
    accepted = _ACCEPTED * total
    if unit > accepted:
        # Only the smallest weights tell one unit from the next.
        accepted = least
    else:
        while held > _HELD_BACK + _AHEAD and ordered[held - 1] < _HELD_BACK_AT * total:
            held -= 1
    # If one choice of those held back has too wide a gap among them, the one before may do.
    for _ in range(2):
        held -= _HELD_BACK
        if held < 0:
            break
        gap = _balance(ordered, 0, held, 0.0, minus)
        gap = _balance(ordered, held + _HELD_BACK, count, gap, minus)
        if _repair(gap, accepted, held, scratch, ordered, places, minus):
            return count
    return 0


@kernel
def _repair(gap, accepted, bulk, scratch, ordered, places, minus):  # type: ignore[no-untyped-def]
    """Steps 3 and 4 for the 64 weights from `bulk` on: whether the sum comes to `accepted`."""
    indices = np.empty((4, _HELD_BACK), dtype=np.int64)
    ranks = indices[0]
    sorted_places = indices[1]
    others = indices[2]
    order = indices[3]
    held = scratch[0]
    left = scratch[1]
    gaps = scratch[2]
    keys = scratch[3]
    _rank(ordered[bulk:], _HELD_BACK, ranks)
    for k in range(_HELD_BACK):
        held[ranks[k]] = ordered[bulk + k]
        sorted_places[ranks[k]] = places[bulk + k]
    for k in range(_HELD_BACK):
        places[bulk + k] = sorted_places[k]
        ordered[bulk + k] = held[k]
    # Extremes, until the spread of the others exceeds the gap.
    first = 0
    last = _HELD_BACK - 1
    while last - first > 2 * _FREE_GAPS + 4 and abs(gap) > held[first] - held[last]:
        against = gap >= 0.0
        step = held[first] - held[last]
        gap = gap - step if against else gap + step
        minus[bulk + first] = against
        minus[bulk + last] = not against
        first += 1
        last -= 1
    # The one pair with `first` or `last` in it that comes closest.
    best = np.inf
    upper = first
    lower = last
    size = abs(gap)
    for k in range(first + 1, last + 1):
        miss = abs(held[first] - held[k] - size)
        if miss < best:
            best = miss
            lower = k
    for k in range(first + 1, last):
        miss = abs(held[k] - held[last] - size)
        if miss < best:
            best = miss
            upper = k
            lower = last
    against = gap >= 0.0
    step = held[upper] - held[lower]
    gap = gap - step if against else gap + step
    minus[bulk + upper] = against
    minus[bulk + lower] = not against
    # Neighbours among the others.
    number = 0
    for k in range(first, last + 1):
        others[number] = k
        number += k != upper and k != lower
    pairs = number // 2
    for k in range(pairs):
        left[k] = held[others[2 * k]] - held[others[2 * k + 1]]
    # Gaps of nothing are no use in the search.
    for k in range(pairs):
        keys[k] = left[k] if left[k] > 0.0 else np.inf
    _rank(keys, pairs, ranks)
    for k in range(pairs):
        gaps[ranks[k]] = left[k]
        order[ranks[k]] = k
    fixed = pairs - _FREE_GAPS
    for k in range(fixed):
        against = gap >= 0.0
        gap = gap - gaps[k] if against else gap + gaps[k]
        minus[bulk + others[2 * order[k]]] = against
        minus[bulk + others[2 * order[k] + 1]] = not against
    reach = 0.0
    for k in range(fixed, pairs):
        reach += gaps[k]
    if abs(gap) > reach:
        return False
    # All signs of the smallest gaps: bit k of a code stands for +gaps[fixed + 2k (+ 1)].
    ones = scratch[3]
    twos = scratch[4]
    ones[0] = gap
    twos[0] = 0.0
    for k in range(_FREE_GAPS // 2):
        ones[0] -= gaps[fixed + 2 * k]
        twos[0] -= gaps[fixed + 2 * k + 1]
    for k in range(_FREE_GAPS // 2):
        size_so_far = 1 << k
        one = 2.0 * gaps[fixed + 2 * k]
        two = 2.0 * gaps[fixed + 2 * k + 1]
        for code in range(size_so_far):
            ones[size_so_far + code] = ones[code] + one
            twos[size_so_far + code] = twos[code] + two
    for i in range(_HALF_SUMS):
        one = ones[i]
        hits = 0
        for j in range(_HALF_SUMS):
            hits += abs(one + twos[j]) <= accepted
        if hits:
            j = 0
            while abs(one + twos[j]) > accepted:
                j += 1
            for k in range(_FREE_GAPS):
                code = i if k % 2 == 0 else j
                plus = (code >> (k // 2)) & 1 == 1
                pair = order[fixed + k]
                minus[bulk + others[2 * pair]] = not plus
                minus[bulk + others[2 * pair + 1]] = plus
            return True
    return False
