"""The loop over rows of a block: read, check and settle each by float arithmetic where it can.

A row that float arithmetic does not settle keeps the status OPEN and is left to exact integers.
"""

import numpy as np

from theory.theta._float_kernels import (
    pair_sum,
    rounded_theta_of_gap,
    rounded_theta_of_side,
    sum_error,
)
from theory.theta._groups import settle_groups
from theory.theta._jit import kernel
from theory.theta._lanes import LANE_STEP
from theory.theta._long_rows import MAX_TERMS, MIN_TERMS, balance_row, cut_of, order_by_binade
from theory.theta._nearly_equal import (
    LIST_SUMS,
    MOST_STEPS,
    QUICK_STEPS,
    are_nearly_equal,
    settle_nearly_equal,
)
from theory.theta._repair import MOST
from theory.theta._small_rows import (
    FEW_LEAVES,
    MAX_LEAVES,
    NEGLIGIBLE,
    OPEN,
    OPTIMAL,
    ROUNDED,
    common_unit,
    least_residue,
    odd_split,
    sort_descending,
    split_row,
)

# What `settle_rows` says of a row besides its status.
SOUND = 0
BLANK = 1
SUSPECT = 2
DOUBTFUL_SUM = 3

# The types that are read directly, by the code that `settle_rows` knows them under.
FLOAT64, FLOAT32, FLOAT16, BFLOAT16 = range(4)

# The values of `stop`, which only rises: go on; only settle what takes no search; give up at once.
GO, HURRY, QUIT = range(3)

_INFINITY_BITS = 0x7FF0000000000000
# Outside these ranges a product of two sums might meet overflow or subnormal numbers.
_LARGEST = 2.0**300
_SMALLEST = 2.0**-300
_SMALLEST_REST = 2.0**-450
# Above this multiple of the float sum of the rest, an entry exceeds the exact sum.
_DOMINANCE_MARGIN = 1.0 + 2.0**-30
_INSERTION_TERMS = 96
_FEW_TERMS = 40
_GROUP_STEPS = 2**13
# One row takes at most twice as many.
_MOST_STEPS = 2**22
# Length of a row of sums: 2**13, and some more so that rows do not share the same cache sets.
_SUMS = 2**13 + 72


@kernel
def _load(row, kind, n, weights, narrow):  # type: ignore[no-untyped-def]
    """Write the n entries of a row, given as bytes, as float64: exactly, −0.0 as 0.0.

    weights: float64, narrow: uint32, (>= n,). Half-precision infinities and NaN, and negative half
    precision, become NaN: whoever names the fault reads the row again.
    """
    if kind == FLOAT64:
        double = row.view(np.float64)
        for k in range(n):
            weights[k] = double[k] + 0.0
        return
    if kind == FLOAT32:
        single = row.view(np.float32)
        for k in range(n):
            weights[k] = np.float64(single[k]) + 0.0
        return
    half = row.view(np.uint16)
    single = narrow.view(np.float32)
    if kind == BFLOAT16:
        for k in range(n):
            narrow[k] = np.uint32(half[k]) << np.uint32(16)
        for k in range(n):
            weights[k] = np.float64(single[k]) + 0.0
        return
    for k in range(n):
        narrow[k] = np.uint32(half[k] & 0x7FFF) << np.uint32(13)
    # The exponent bits of half precision stand 112 below those of single precision.
    for k in range(n):
        magnitude = half[k] & 0x7FFF
        sound = magnitude < 0x7C00 and (half[k] < 0x8000 or magnitude == 0)
        weights[k] = np.float64(single[k]) * 2.0**112 if sound else np.nan


@kernel
def settle_rows(  # type: ignore[no-untyped-def]
    rows, kind, length, lengths, mask, tolerance, theta, status, verdict, subsets, stop
):
    """Settle the rows of a block as far as float arithmetic goes.

    rows: (R, bytes of L numbers) uint8, float64, float32, float16 or bfloat16 as `kind` says, so
    that one compilation does for all. length: L. lengths: (R,) int64, how many entries each row
    sees. mask: (R, L) bool, or (0, 0) for none. tolerance: how far from 1 a sum may lie.
    Written: verdict (R,) int8 with SOUND, BLANK (nothing visible, or nothing but zeros), SUSPECT
    (to be refused, or judged exactly) or DOUBTFUL_SUM (settled, but the sum must be judged
    exactly); for settled rows theta (R,), correctly rounded, status (R,) int8 and, unless it is
    (0, 0), subsets (R, L) bool, all false before.
    stop: (1,) int64, polled; the rows after it turned QUIT are not looked at.

    Returns how many rows were looked at. Those are all of them unless searching took long, some
    hundredths of a second; so a caller can look at signals and at the clock before the others.
    """
    steps = 0
    weights = np.empty(length, dtype=np.float64)
    narrow = np.empty(length, dtype=np.uint32)
    ordered = np.empty(length + LANE_STEP, dtype=np.float64)
    places = np.empty(length + 1, dtype=np.int32)
    marks = np.empty(length + 1, dtype=np.bool_)
    sums = np.empty((5, _SUMS), dtype=np.float64)
    codes = np.empty((4, LIST_SUMS), dtype=np.int64)
    work = np.empty((2, length + 1), dtype=np.float64)
    indices = np.empty((7, MOST), dtype=np.int64)
    no_subset = np.empty(0, dtype=np.bool_)
    bits = weights.view(np.int64)
    for r in range(rows.shape[0]):
        if stop[0] == QUIT or steps > _MOST_STEPS:
            return r
        n = lengths[r]
        _load(rows[r], kind, length, weights, narrow)
        outside = 0
        for k in range(n, length):
            outside |= bits[k]
        if mask.shape[0] > 0:
            seen = False
            for k in range(n):
                if mask[r, k]:
                    seen = True
                else:
                    outside |= bits[k]
            n = n if seen else 0
        infinity = np.int64(_INFINITY_BITS)
        largest_bits = np.int64(0)
        least_bits = infinity
        signs = np.int64(0)
        terms = 0
        for k in range(n):
            largest_bits = max(largest_bits, bits[k])
            least_bits = min(least_bits, bits[k] if bits[k] != 0 else infinity)
            signs |= bits[k]
            terms += bits[k] != 0
        if outside != 0 or signs < 0 or largest_bits >= infinity:
            verdict[r] = SUSPECT
            continue
        if terms == 0:
            verdict[r] = BLANK
            continue
        total_hi, total_lo = pair_sum(weights, n)
        # NaN, from an overflow, fails the comparison.
        exact_enough = abs((total_hi - 1.0) + total_lo) <= tolerance
        verdict[r] = SOUND if exact_enough else DOUBTFUL_SUM
        subset = subsets[r] if subsets.shape[0] > 0 else no_subset
        largest = np.int64(largest_bits).view(np.float64)
        if largest < _SMALLEST or largest > _LARGEST:
            continue
        value = np.nan
        found = OPEN
        if largest_bits == least_bits:
            # Equal weights: k of m come to k/m, and m² − 1 < 2⁵³ divides exactly rounded.
            if terms < 2**26:
                count = np.float64(terms)
                value = (count * count - 1.0) / (count * count) if terms % 2 else 1.0
                found = OPTIMAL
                _mark_equal(weights, n, max(terms // 2, 1), subset)
        elif largest > 0.5 * total_hi:
            value, found = _dominant(weights, n, largest, total_hi, total_lo, subset)
        elif stop[0] == GO:
            if terms >= MIN_TERMS and n <= MAX_TERMS:
                # A coarse unit is the rule in half precision only.
                unit = common_unit(weights, n) if kind >= FLOAT16 else 0.0
                value, found = _balanced(
                    weights, n, total_hi, unit, sums, indices, ordered, places, marks, subset
                )
                if found == OPEN and unit == 0.0:
                    unit = common_unit(weights, n)
                    if unit > 2.0**-27 * total_hi:
                        value, found = _balanced(
                            weights,
                            n,
                            total_hi,
                            unit,
                            sums,
                            indices,
                            ordered,
                            places,
                            marks,
                            subset,
                        )
            if found == OPEN and terms <= MAX_TERMS:
                head = _sort_head(weights, n, terms, total_hi, ordered, places)
                value, found = odd_split(ordered, terms, head, total_hi, total_lo, marks)
                if found == OPEN:
                    value, found, more_steps = _split(
                        ordered, terms, head, total_hi, total_lo, sums, codes, work, marks, stop
                    )
                    steps += more_steps
                if found != OPEN:
                    for k in range(terms if subset.shape[0] > 0 else 0):
                        subset[places[k]] = marks[k]
        if found != OPEN:
            theta[r] = value
            status[r] = found
    return rows.shape[0]


@kernel
def _split(ordered, n, head, total_hi, total_lo, sums, codes, work, marks, stop):  # type: ignore[no-untyped-def]
    """(θ, status, steps) from `split_row`, `settle_groups` or `settle_nearly_equal`.

    Of the n weights, in descending order, the last n − head are negligible. First each for a short
    time, but for rows of few weights with a clear order, which are met in the middle.
    """
    is_long = n > _FEW_TERMS
    near = head == n and are_nearly_equal(ordered, n)
    steps = 0
    value, found = np.nan, OPEN
    for quick in (True, False):
        if quick and not (is_long or near):
            continue
        # Where meeting in the middle has little to branch on, exchanges are the quicker of the two.
        if near and (is_long or not quick):
            max_steps = QUICK_STEPS if quick else MOST_STEPS
            value, found, _, more_steps = settle_nearly_equal(
                ordered, n, total_hi, total_lo, max_steps, sums, codes, marks, stop
            )
            # In steps of some 10 ns.
            steps += 3 * more_steps
        if found == OPEN:
            max_leaves = FEW_LEAVES if quick else MAX_LEAVES
            value, found, more_steps = split_row(
                ordered, n, total_hi, total_lo, max_leaves, sums, work, marks, stop
            )
            steps += more_steps
        if found == OPEN and quick and head == n:
            value, found, more_steps = settle_groups(
                ordered, n, total_hi, total_lo, _GROUP_STEPS, sums[0], marks
            )
            steps += 5 * more_steps
        if found != OPEN:
            break
    return value, found, steps


@kernel
def _balanced(weights, n, total, unit, sums, indices, ordered, places, marks, subset):  # type: ignore[no-untyped-def]
    """(θ, status) from `balance_row`, with its arguments."""
    if total >= 2.0**52 * unit:
        unit = 0.0
    coarse = unit > 2.0**-27 * total
    least = least_residue(weights, n, unit, total, sums[0]) if coarse else 0.0
    count = balance_row(
        weights, n, total, unit, least, subset.shape[0] > 0, sums, indices, ordered, places, marks
    )
    if count == 0:
        return np.nan, OPEN
    for k in range(count if subset.shape[0] > 0 else 0):
        subset[places[k]] = not marks[k]
    if not coarse:
        return 1.0, ROUNDED
    value = rounded_theta_of_gap(least, 0.0, total, 0.0, 0.0)
    return value, OPTIMAL if value == value else OPEN


@kernel
def _mark_equal(weights, n, count, subset):  # type: ignore[no-untyped-def]
    for k in range(n if subset.shape[0] > 0 else 0):
        if count > 0 and weights[k] > 0.0:
            subset[k] = True
            count -= 1


@kernel
def _dominant(weights, n, largest, total_hi, total_lo, subset):  # type: ignore[no-untyped-def]
    """(θ, status) of a row whose largest weight exceeds half the total by more than the error.

    The weights are overwritten.
    """
    top = 0
    while weights[top] != largest:
        top += 1
    weights[top] = 0.0
    rest_hi, rest_lo = pair_sum(weights, n)
    if largest <= _DOMINANCE_MARGIN * rest_hi:
        weights[top] = largest
        return np.nan, OPEN
    if rest_hi == 0.0:
        value = 0.0
    elif rest_hi >= _SMALLEST_REST:
        value = rounded_theta_of_side(largest, rest_hi, rest_lo, total_hi, total_lo, sum_error(n))
    else:
        value = np.nan
    if value != value:
        return value, OPEN
    if subset.shape[0] > 0:
        subset[top] = True
    return value, OPTIMAL


@kernel
def _sort_head(weights, n, terms, total, ordered, places):  # type: ignore[no-untyped-def]
    """Write the positive weights, and their places: how many of them are in descending order.

    Those that follow are at most 2**-30 of the total together, which no search needs in order.
    """
    if terms <= _INSERTION_TERMS:
        number = 0
        for k in range(n):
            if weights[k] > 0.0:
                ordered[number] = weights[k]
                places[number] = k
                number += 1
        sort_descending(ordered, places, terms)
        return terms
    head = order_by_binade(weights, n, cut_of(total, n), ordered, places)
    number = head
    tail = 0.0
    for k in range(head, n):
        if ordered[k] > 0.0:
            tail += ordered[k]
            ordered[number] = ordered[k]
            places[number] = places[k]
            number += 1
    while tail + ordered[head - 1] <= NEGLIGIBLE * total:
        head -= 1
        tail += ordered[head]
    bits = ordered.view(np.int64)
    start = 0
    while start < head:
        stop = start + 1
        while stop < head and bits[stop] >> 52 == bits[start] >> 52:
            stop += 1
        _sort_binade(ordered[start:stop], places[start:stop])
        start = stop
    return head


@kernel
def _sort_binade(values, places):  # type: ignore[no-untyped-def]
    """Sort in descending order."""
    count = values.shape[0]
    if count <= _INSERTION_TERMS:
        sort_descending(values, places, count)
        return
    order = np.argsort(-values)
    kept = values.copy()
    at = places.copy()
    for k in range(count):
        values[k] = kept[order[k]]
        places[k] = at[order[k]]
