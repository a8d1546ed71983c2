"""Many weights: a subset within 2⁻²⁸ W of half the total W, in time linear in their number.

Proof obligation. θ = 1 − (D/W)² rounds to 1.0 as soon as some subset has |2 w(S) − W| <= 2⁻²⁷ W.
Nothing is claimed of a row for which none is found.

Where every weight is a multiple of a unit u with W < 2⁵² u, as in rows of half precision, the sums
here are exact, and a discrepancy is looked for that is the least by `least_residue`.

Method, for n weights, with d the signed difference of the two sides so far:

1. *Lanes* (`_lanes`). One pass over the row as it stands, for rows with few large weights. Where
   that leaves a row unsettled, the next steps do it with more care.
2. *Order.* A counting sort by the exponent bits, largest binade first; no full sort. Weights below
   2⁻³² W/n are left to one side: together they are at most 2⁻³² W.
3. *Balance.* Neighbours in that order form pairs on opposite sides; each pair is turned so that it
   reduces |d|: d becomes |d| − |w − w'|. (Both go to the lighter side where both fit.)
4. *Repair* (`_repair`), with 64 neighbours that were left out of step 3: small ones, but not too
   small to matter.

Float error: d and every sum in it are at most W in size, and each of the fewer than 2n + 200
additions that form a candidate value is off by at most 2⁻⁵³ W(1 + 2⁻²⁰). With the weights left out
and n <= 2¹⁸ that is below 2⁻³¹ W, and so a computed difference of at most (1 − 2⁻³)·2⁻²⁷ W belongs
to a true one of less than 2⁻²⁷ W.
"""

import numpy as np

from theory.theta._jit import kernel
from theory.theta._lanes import balance_lanes
from theory.theta._repair import MOST, repair, sort_held

MIN_TERMS = 96
MAX_TERMS = 2**18
# Where among the weights, from the largest on, those held back stand: after 80 of them at least, to
# which the gap owes its size, and where they drop below this share of the total.
_AHEAD = 80
_HELD_BACK_AT = 2.0**-14
_ACCEPTED = 2.0**-27 * (1.0 - 2.0**-3)
# Share of the total that the weights left out may have together.
_NEGLIGIBLE = 2.0**-32
_EXPONENT_SHIFT = 52
_CLASSES = 64
_STREAMS = 4


@kernel
def cut_of(total, n):  # type: ignore[no-untyped-def]
    """A power of two below which n weights together are at most 2**-32 of their total."""
    # Cleared of its fraction, a float is the power of two below it.
    exponent = np.float64(_NEGLIGIBLE * total / n).view(np.int64) >> _EXPONENT_SHIFT
    return np.int64(exponent << _EXPONENT_SHIFT).view(np.float64)


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
def balance_row(  # type: ignore[no-untyped-def]
    weights, n, total, unit, least, want_subset, scratch, indices, ordered, places, minus
):
    """Look for a subset with |2 mass − total| <= 2**-27 total, or <= least for a coarse unit.

    weights: (>= n,) float64, nonnegative, with float sum `total`, n <= MAX_TERMS. unit: 0, or one
    of which every weight is a multiple and the total less than 2**52 times it, with the least
    discrepancy that its residues permit.
    ordered (float64), places (int32), minus (bool): (>= n,), overwritten; `ordered` goes on to the
    next multiple of `LANE_STEP`. After success, if a
    subset is wanted, the weight at places[k] is in it unless minus[k], for k below the returned
    number of places; those of no place are not in it. Returns 0 if no subset was found. scratch:
    (5, >= 256) float64 and indices: (7, 64) int64 are overwritten.
    """
    accepted = _ACCEPTED * total
    coarse = unit > accepted
    if coarse:
        accepted = least
    if balance_lanes(
        weights, n, total, accepted, want_subset, scratch, indices, ordered, places, minus
    ):
        return n
    count = order_by_binade(weights, n, cut_of(total, n), ordered, places)
    if count < MIN_TERMS:
        return 0
    held = count
    # Of multiples of a coarse unit only the smallest weights tell one unit from the next.
    if not coarse:
        while held > MOST + _AHEAD and ordered[held - 1] < _HELD_BACK_AT * total:
            held -= 1
    # If one choice of those held back has too wide a gap among them, the one before may do.
    for _ in range(2):
        held -= MOST
        if held < 0:
            break
        gap = _balance(ordered, 0, held, 0.0, minus)
        gap = _balance(ordered, held + MOST, count, gap, minus)
        window = slice(held, held + MOST)
        sort_held(ordered[window], places[window], scratch[0], indices)
        if repair(gap, accepted, ordered[window], MOST, minus[window], scratch, indices):
            return count
    return 0
