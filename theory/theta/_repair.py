"""Some 48 weights that are left of a long row: pairs of them take its difference down to nothing.

What is done to the difference d of the two sides so far, with the weights in descending order:

1. While |d| exceeds the spread of those that are left, the largest and the smallest form a pair on
   opposite sides; one more pair is chosen to come closest to |d|.
2. The others pair up with their neighbours: small gaps g, each of which enters d with either sign.
   The largest gaps are turned against d in descending order.
3. The 14 smallest gaps: d + Σ ±g is tried for all 2⁶ × 2⁸ signs until it is small enough. If none
   is, the next four gaps are turned over as well, in all 2⁴ ways.

A difference has gone through fewer than 100 additions here.
"""

import numpy as np

from theory.theta._jit import kernel

# The most weights; their places fit in the six bits of `_PLACE_BITS`.
MOST = 64
_PLACE_BITS = 63
_PAIRS = MOST // 2
_FREE_GAPS = 14
_ONES_GAPS = 6
_ONES = 1 << _ONES_GAPS
_TWOS = 1 << (_FREE_GAPS - _ONES_GAPS)
_SPARE_GAPS = 4
# Weights for gaps, and for the one pair.
_FEWEST = 2 * (_FREE_GAPS + _SPARE_GAPS) + 4


@kernel
def descending_order(values, keys, order):  # type: ignore[no-untyped-def]
    """Write the places of the first n values in descending order, negative ones last.

    keys: (n,) int64, n <= 64, overwritten; order: (>= n,) int64. Values that agree but for their
    last six bits come in any order: those bits give way to the place.
    """
    bits = values.view(np.int64)
    count = keys.shape[0]
    for k in range(count):
        keys[k] = (bits[k] & ~_PLACE_BITS) | k
    for k in range(count):
        key = keys[k]
        rank = 0
        for j in range(count):
            rank += keys[j] > key
        order[rank] = k


@kernel
def sort_held(values, places, spare, indices):  # type: ignore[no-untyped-def]
    """Sort 64 values (float64), with their places (int32), in descending order but for last bits.

    spare: (>= 64,) float64, indices: (2, 64) int64, overwritten.
    """
    kept = indices[0]
    order = indices[1]
    descending_order(values, kept, order)
    for k in range(MOST):
        spare[k] = values[order[k]]
        kept[k] = places[order[k]]
    for k in range(MOST):
        values[k] = spare[k]
        places[k] = kept[k]


@kernel
def repair(gap, accepted, held, count, minus, scratch, indices):  # type: ignore[no-untyped-def]
    """Whether signs of 48 or 64 weights take `gap` to at most `accepted` in size.

    held: (count,) float64, nonnegative, in descending order. minus: (count,) bool says afterwards
    which weights are subtracted. scratch: (4, >= 256) float64, indices: (3, 64) int64, overwritten.
    """
    keys = indices[0]
    order = indices[1]
    others = indices[2]
    # Extremes, until the spread of the others exceeds the gap.
    first = 0
    last = count - 1
    while last - first >= _FEWEST and abs(gap) > held[first] - held[last]:
        against = gap >= 0.0
        step = held[first] - held[last]
        gap = gap - step if against else gap + step
        minus[first] = against
        minus[last] = not against
        first += 1
        last -= 1
    # The pair and the gaps that follow are no more than the spread each, all together.
    if abs(gap) > 2.0 * (held[first] - held[last]):
        return False
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
    minus[upper] = against
    minus[lower] = not against
    # Neighbours among the others.
    number = 0
    for k in range(first, last + 1):
        others[number] = k
        number += k != upper and k != lower
    pairs = number // 2
    left = scratch[0]
    sizes = scratch[1]
    for k in range(pairs):
        left[k] = held[others[2 * k]] - held[others[2 * k + 1]]
        # Gaps of nothing are no use in the search.
        sizes[k] = left[k] if left[k] > 0.0 else np.inf
    for k in range(pairs, _PAIRS):
        sizes[k] = -1.0
    descending_order(sizes, keys[:_PAIRS], order)
    fixed = pairs - _FREE_GAPS - _SPARE_GAPS
    for k in range(fixed):
        gap = _turn(gap, gap >= 0.0, left, order[k], others, minus)
    gaps = scratch[1]
    for k in range(fixed, pairs):
        gaps[k - fixed] = left[order[k]]
    reach = 0.0
    for k in range(_SPARE_GAPS, _SPARE_GAPS + _FREE_GAPS):
        reach += gaps[k]
    ones = scratch[2]
    twos = scratch[3]
    twos[0] = 0.0
    _add_signed(gaps, _SPARE_GAPS + _ONES_GAPS, _FREE_GAPS - _ONES_GAPS, twos)
    for turned in range(1 << _SPARE_GAPS):
        rest = gap
        for k in range(_SPARE_GAPS):
            against = (rest >= 0.0) == ((turned >> k) & 1 == 0)
            rest = _turn(rest, against, left, order[fixed + k], others, minus)
        if abs(rest) > reach:
            continue
        ones[0] = rest
        _add_signed(gaps, _SPARE_GAPS, _ONES_GAPS, ones)
        for i in range(_ONES):
            one = ones[i]
            hits = 0
            for j in range(_TWOS):
                hits += abs(one + twos[j]) <= accepted
            if hits:
                j = 0
                while abs(one + twos[j]) > accepted:
                    j += 1
                code = i | j << _ONES_GAPS
                for k in range(_FREE_GAPS):
                    pair = order[fixed + _SPARE_GAPS + k]
                    plus = (code >> k) & 1 == 1
                    minus[others[2 * pair]] = not plus
                    minus[others[2 * pair + 1]] = plus
                return True
    return False


@kernel
def _turn(gap, against, left, pair, others, minus):  # type: ignore[no-untyped-def]
    """The gap with a pair of neighbours subtracted, if `against`, or added."""
    minus[others[2 * pair]] = against
    minus[others[2 * pair + 1]] = not against
    return gap - left[pair] if against else gap + left[pair]


@kernel
def _add_signed(gaps, first, count, sums):  # type: ignore[no-untyped-def]
    """From sums[0], write all 2**count sums with ±gaps; bit k of a place says +gaps[first + k]."""
    for k in range(count):
        sums[0] -= gaps[first + k]
    for k in range(count):
        size = 1 << k
        step = 2.0 * gaps[first + k]
        for code in range(size):
            sums[size + code] = sums[code] + step
