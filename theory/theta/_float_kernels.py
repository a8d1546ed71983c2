"""Rows of float64 that can be settled without long integers: dominant rows and long dense rows.

Sums of nonnegative numbers are carried as unevaluated pairs hi + lo (double-double): adding a
float64 to a pair has relative error at most 2**-105 (Joldes, Muller and Popescu 2017), so that a
sum of n terms is within n·2**-105 (1 + 2**-50) of the exact one, relatively. There is no fused
multiply-add and no fastmath; products are split by Dekker's method.
"""

import numpy as np

from theory.theta._jit import kernel

# As in `Status`, which kernels cannot see.
_OPTIMAL = 0
_ROUNDED = 1

# Outside these ranges a product of two sums might meet overflow or subnormal numbers.
_LARGEST = 2.0**300
_SMALLEST = 2.0**-300
_SMALLEST_REST = 2.0**-500
# Above this multiple of the float sum of the rest, an entry exceeds the exact sum.
_DOMINANCE_MARGIN = 1.0 + 2.0**-30
_SPLITTER = 2.0**27 + 1.0
# Bound on the relative error of `_rounded_theta` per term of the sums: each sum has n·2**-105, θ
# has three of them in it, and its products and quotients have a few dozen times 2**-104 more.
_ERROR_PER_TERM = 2.0**-100
_CONSTANT_TERMS = 64
# δ <= 2**-27 rounds to 1. A float sum of n terms is off by at most n·2**-53 of the total; with
# n <= 2**21 the three sums in a float δ leave it within 2**-30 of the exact one.
_ACCEPTED_GAP = 2.0**-28
_MAX_TERMS = 2**21
# With fewer, an exact search is faster than the attempt.
_MIN_TERMS = 28
# Numbers of free atoms on each side of the meeting in the middle, in the order of the attempts;
# the second attempt takes a window of the other atoms, the others the largest.
_HALF_SIZES = (12, 12, 15)


@kernel
def _two_sum(a, b):  # type: ignore[no-untyped-def]
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


@kernel
def _two_product(a, b):  # type: ignore[no-untyped-def]
    product = a * b
    scaled = _SPLITTER * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = _SPLITTER * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


@kernel
def _pair_product(a_hi, a_lo, b_hi, b_lo):  # type: ignore[no-untyped-def]
    hi, lo = _two_product(a_hi, b_hi)
    return _two_sum(hi, lo + (a_hi * b_lo + a_lo * b_hi))


@kernel
def _rounded_theta(side, rest_hi, rest_lo, total_hi, total_lo, terms):  # type: ignore[no-untyped-def]
    """4·side·rest/total² rounded to nearest; NaN where the error bound leaves it open (Ziv)."""
    top_hi, top_lo = _pair_product(rest_hi, rest_lo, 4.0 * side, 0.0)
    square_hi, square_lo = _pair_product(total_hi, total_lo, total_hi, total_lo)
    first = top_hi / square_hi
    part_hi, part_lo = _pair_product(square_hi, square_lo, first, 0.0)
    # top and part agree in their leading bits, so that this difference is exact.
    second = ((top_hi - part_hi) + (top_lo - part_lo)) / square_hi
    hi, lo = _two_sum(first, second)
    error = (terms + _CONSTANT_TERMS) * _ERROR_PER_TERM * hi
    low = hi + (lo - error)
    return low if low == hi + (lo + error) else np.nan


@kernel
def _half_sums(atoms, sums, codes, spare_sums, spare_codes):  # type: ignore[no-untyped-def]
    """All subset sums of `atoms`, ascending, with their bit masks, into sums and codes."""
    sums[0] = 0.0
    codes[0] = 0
    count = 1
    for k in range(atoms.shape[0]):
        i = 0
        j = 0
        for written in range(2 * count):
            # sums + atom is exhausted only after sums.
            if i < count and sums[i] <= sums[j] + atoms[k]:
                spare_sums[written] = sums[i]
                spare_codes[written] = codes[i]
                i += 1
            else:
                spare_sums[written] = sums[j] + atoms[k]
                spare_codes[written] = codes[j] | (1 << k)
                j += 1
        count *= 2
        for written in range(count):
            sums[written] = spare_sums[written]
            codes[written] = spare_codes[written]
    return count


@kernel
def _take_large(atoms, aim, taken):  # type: ignore[no-untyped-def]
    """Take descending atoms while they fit into aim; returns their mass."""
    mass = 0.0
    for k in range(atoms.shape[0]):
        if mass + atoms[k] <= aim:
            mass += atoms[k]
            taken[k] = True
    return mass


@kernel
def _take_window(atoms, aim, taken):  # type: ignore[no-untyped-def]
    """Take the run of neighbouring descending atoms closest to aim, of one length; its mass."""
    count = atoms.shape[0]
    if count == 0:
        return 0.0
    length = min(int(aim * count / atoms.sum() + 0.5), count)
    mass = atoms[:length].sum()
    best = mass
    start = 0
    for first in range(1, count - length + 1):
        mass += atoms[first + length - 1] - atoms[first - 1]
        if abs(mass - aim) < abs(best - aim):
            best = mass
            start = first
    taken[start : start + length] = True
    return best


@kernel
def _bisect_row(row, terms, total, chosen, scratch_sums, scratch_codes):  # type: ignore[no-untyped-def]
    """Look for a subset with |2 mass − total| <= 2**-28 total; mark it in chosen (L,) bool.

    The method of `_search.fill` in floats: most atoms by a rule, then meet in the middle.
    """
    order = np.argsort(row)[::-1][:terms]
    is_free = np.empty(terms, dtype=np.bool_)
    for attempt in range(3):
        half = _HALF_SIZES[attempt]
        window = attempt == 1
        if terms < 2 * half:
            return False
        is_free[:] = False
        for j in range(2 * half):
            is_free[j * terms // (2 * half) if window else terms - 1 - j] = True
        free = order[is_free]
        others = order[~is_free]
        taken = np.zeros(others.shape[0], dtype=np.bool_)
        aim = 0.5 * (total - row[free].sum())
        if window:
            mass = _take_window(row[others], aim, taken)
        else:
            mass = _take_large(row[others], aim, taken)
        rest = 0.5 * total - mass
        for side in range(2):
            _half_sums(
                row[free[side::2]],
                scratch_sums[side],
                scratch_codes[side],
                scratch_sums[2],
                scratch_codes[2],
            )
        count = 1 << half
        best = np.inf
        first = 0
        second = 0
        j = count - 1
        for i in range(count):
            while j > 0 and scratch_sums[0, i] + scratch_sums[1, j] > rest:
                j -= 1
            for partner in range(j, min(j + 2, count)):
                gap = abs(scratch_sums[0, i] + scratch_sums[1, partner] - rest)
                if gap < best:
                    best = gap
                    first = i
                    second = partner
        chosen[:] = False
        chosen[others] = taken
        for k in range(2 * half):
            code = scratch_codes[k % 2, first if k % 2 == 0 else second]
            chosen[free[k]] = (code >> (k // 2)) & 1
        if abs(2.0 * row[chosen].sum() - total) <= _ACCEPTED_GAP * total:
            return True
    return False


@kernel
def _pair_sum(row, skip):  # type: ignore[no-untyped-def]
    """The sum of a row but for one entry as hi + lo, and the number of positive terms in it."""
    hi = 0.0
    lo = 0.0
    terms = 0
    for k in range(row.shape[0]):
        if k != skip and row[k] > 0.0:
            terms += 1
            hi, low = _two_sum(hi, row[k])
            hi, lo = _two_sum(hi, low + lo)
    return hi, lo, terms


@kernel
def pair_sums(rows, sums):  # type: ignore[no-untyped-def]
    """Write the sum of each row of rows (R, L) to sums (R, 2) as hi + lo."""
    for r in range(rows.shape[0]):
        hi, lo, _ = _pair_sum(rows[r], -1)
        sums[r, 0] = hi
        sums[r, 1] = lo


@kernel
def settle_rows(rows, blank, theta, status, subsets):  # type: ignore[no-untyped-def]
    """Settle the rows for which float arithmetic proves enough; leave the others as they are.

    rows: (R, L) float64, finite and nonnegative with a positive entry, but for rows that are blank
    (R,) bool, which are not looked at. Written for settled rows: theta (R,), correctly rounded;
    status (R,) int8; subsets (R, L) bool, false before the call.
    """
    longest = 1 << _HALF_SIZES[-1]
    scratch_sums = np.empty((3, longest), dtype=np.float64)
    scratch_codes = np.empty((3, longest), dtype=np.int32)
    for r in range(rows.shape[0]):
        if blank[r]:
            continue
        row = rows[r]
        top = np.argmax(row)
        largest = row[top]
        if largest < _SMALLEST or largest > _LARGEST:
            continue
        rest_hi, rest_lo, terms = _pair_sum(row, top)
        if terms > _MAX_TERMS:
            continue
        if rest_hi == 0.0:
            theta[r] = 0.0
            status[r] = _OPTIMAL
            subsets[r, top] = True
            continue
        total_hi, low = _two_sum(largest, rest_hi)
        total_hi, total_lo = _two_sum(total_hi, low + rest_lo)
        if largest > _DOMINANCE_MARGIN * rest_hi:
            if rest_hi >= _SMALLEST_REST:
                value = _rounded_theta(largest, rest_hi, rest_lo, total_hi, total_lo, terms)
                if not np.isnan(value):
                    theta[r] = value
                    status[r] = _OPTIMAL
                    subsets[r, top] = True
        elif terms >= _MIN_TERMS and _bisect_row(
            row, terms + 1, total_hi, subsets[r], scratch_sums, scratch_codes
        ):
            theta[r] = 1.0
            status[r] = _ROUNDED
        else:
            subsets[r, :] = False
