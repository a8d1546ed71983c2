"""Many weights: two sides in balance by one pass over the row as it stands.

Two kinds of weights are taken out: the few large ones, and the last 64 small ones. The large ones,
in descending order, are set off against each other: their difference s >= 0 becomes |s − w|. As
many others from the first on as fit in what is left, the bulk, are all set off against it. The
rest run in 32 lanes that the processor's vectors hold side by side: lane j takes the weights w at
the places 64i + j and w' at 64i + 32 + j on opposite sides, turned so that its difference s becomes
|s − |w − w'||. The differences of the lanes in descending order, and then the 16 largest of the
small weights, are set off against what the bulk has left; the 48 smallest repair the rest
(`_repair`).

By induction each s is |Σ ±w| for some signs. `_mark` goes through the same steps again to say
which, for whoever wants the subset.
"""

import numpy as np

from theory.theta._jit import kernel
from theory.theta._repair import MOST, descending_order, repair, sort_held

_LANES = 32
# Numbers that one step of the lanes takes; rows are padded to a multiple of it.
LANE_STEP = 2 * _LANES
# Those of the small ones that do not take part in the repair.
_SET_OFF = 16
# A weight is large if it exceeds this multiple of the mean.
_LARGE = 64.0
_MOST_LARGE = 64
_BLOCK = 32
# The small ones are below this multiple of the mean, where at least that share of the row is: the
# closer they lie, the smaller are the gaps between them.
_SMALL = 0.5
_SMALL_SHARE = 0.3


@kernel
def balance_lanes(  # type: ignore[no-untyped-def]
    weights, n, total, accepted, want_subset, scratch, indices, lane_weights, places, minus
):
    """Look for a subset with |2 mass − total| <= accepted: whether there is one.

    weights: (>= n,) float64, nonnegative, with float sum `total`. lane_weights: float64, (>= n,)
    and up to the next multiple of `LANE_STEP`, overwritten. If a subset is wanted, the weight at
    places[k] (>= n, int32) is in it unless minus[k] (>= n, bool), for k < n. scratch: (5, >= 256)
    float64, indices: (7, 64) int64, overwritten.
    """
    mean = total / n
    # What `repair` leaves alone of the scratch.
    lanes = scratch[4, :_LANES]
    large = scratch[4, MOST : MOST + _MOST_LARGE]
    held = scratch[4, 2 * MOST : 3 * MOST]
    large_places = indices[4]
    held_places = indices[5]
    count = _find_large(weights, n, _LARGE * mean, large, large_places)
    if count < 0:
        return False
    padded = n + (-n) % LANE_STEP
    small = 0
    for k in range(n):
        small += weights[k] <= _SMALL * mean
        lane_weights[k] = weights[k] if weights[k] <= _LARGE * mean else 0.0
    lane_weights[n:padded] = 0.0
    most = _SMALL * mean if small >= _SMALL_SHARE * n else _LARGE * mean
    number = 0
    place = n
    while number < MOST and place > 0:
        place -= 1
        weight = lane_weights[np.uintp(place)]
        held[np.uintp(number)] = weight
        held_places[np.uintp(number)] = place
        taken = int(weight > 0.0) & int(weight <= most)
        # Without a branch, which would be hard to predict.
        lane_weights[np.uintp(place)] = weight * float(1 - taken)
        number += taken
    if number < MOST:
        return False
    gap = 0.0
    for k in range(count):
        gap = abs(gap - large[k])
    start, bulk = _bulk(lane_weights, padded, gap) if count > 0 else (0, 0.0)
    lanes[:] = 0.0
    for k in range(start, padded, LANE_STEP):
        middle = k + _LANES
        _step(lanes, lane_weights[k:middle], lane_weights[middle : middle + _LANES], _LANES)
    sort_held(held, held_places, scratch[0], indices)
    gap = abs(gap - bulk)
    order = indices[6, :_LANES]
    descending_order(lanes, indices[0, :_LANES], order)
    for k in range(_LANES):
        gap = abs(gap - lanes[order[k]])
    for k in range(_SET_OFF):
        gap = abs(gap - held[k])
    left = slice(_SET_OFF, MOST)
    if not repair(gap, accepted, held[left], MOST - _SET_OFF, minus[left], scratch, indices):
        return False
    if want_subset:
        held_minus = minus[:MOST].copy()
        signs = _signs(large, count, bulk, lanes, order, held)
        minus[:start] = signs[count]
        _mark(lane_weights, start, n, signs[count + 1 : count + 1 + _LANES], minus)
        held_minus[:_SET_OFF] = signs[count + 1 + _LANES :]
        for k in range(count):
            minus[large_places[k]] = signs[k]
        for k in range(MOST):
            minus[held_places[k]] = held_minus[k]
        for k in range(n):
            places[k] = k
    return True


@kernel
def _find_large(weights, n, most, large, places):  # type: ignore[no-untyped-def]
    """Write the weights > most in descending order, and their places; their number, −1 if many."""
    count = 0
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        found = 0
        for k in range(start, stop):
            found += weights[np.uintp(k)] > most
        if not found:
            continue
        if count + found > _MOST_LARGE:
            return -1
        for k in range(start, stop):
            weight = weights[k]
            if weight <= most:
                continue
            i = count
            while i > 0 and large[i - 1] < weight:
                large[i] = large[i - 1]
                places[i] = places[i - 1]
                i -= 1
            large[i] = weight
            places[i] = k
            count += 1
    return count


@kernel
def _bulk(lane_weights, padded, gap):  # type: ignore[no-untyped-def]
    """How many weights, whole steps of the lanes, fit in the gap together, and their sum."""
    start = 0
    bulk = 0.0
    while start < padded:
        step = 0.0
        for k in range(start, start + LANE_STEP):
            step += lane_weights[k]
        if bulk + step > gap:
            break
        bulk += step
        start += LANE_STEP
    return start, bulk


@kernel
def _step(sizes, ones, twos, width):  # type: ignore[no-untyped-def]
    for j in range(width):
        sizes[j] = abs(sizes[j] - abs(ones[j] - twos[j]))


@kernel
def _signs(large, count, bulk, lanes, order, held):  # type: ignore[no-untyped-def]
    """Which of the large weights, the bulk, the lanes and 16 of those held back are subtracted.

    The sign of the sum is followed: whatever comes next is subtracted from a positive sum and added
    to a negative one. At the end the signs of a negative sum are turned.
    """
    minus = np.empty(count + 1 + _LANES + _SET_OFF, dtype=np.bool_)
    gap = 0.0
    negative = False
    for k in range(minus.shape[0]):
        place = k
        rank = k - count - 1
        if rank < -1:
            gap -= large[k]
        elif rank == -1:
            gap -= bulk
        elif rank < _LANES:
            place = count + 1 + order[rank]
            gap -= lanes[order[rank]]
        else:
            gap -= held[rank - _LANES]
        minus[place] = not negative
        negative ^= gap < 0.0
        gap = abs(gap)
    for k in range(minus.shape[0]):
        minus[k] ^= negative
    return minus


@kernel
def _mark(lane_weights, start, n, lane_minus, minus):  # type: ignore[no-untyped-def]
    """The same for the weights of the lanes; lane_minus says which lanes are subtracted."""
    for lane in range(_LANES):
        size = 0.0
        negative = False
        for k in range(start + lane, n, LANE_STEP):
            one = lane_weights[k]
            two = lane_weights[k + _LANES]
            # The larger of the two counts.
            minus[k] = negative != (one >= two)
            if k + _LANES < n:
                minus[k + _LANES] = not minus[k]
            size -= abs(one - two)
            negative ^= size < 0.0
            size = abs(size)
        for k in range(start + lane, n, _LANES):
            minus[k] ^= negative ^ lane_minus[lane]
