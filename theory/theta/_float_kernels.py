"""Arithmetic with unevaluated pairs hi + lo of float64, and the rounding of θ from them.

There is no fused multiply-add and no fastmath; products are split by Dekker's method. A sum of n
nonnegative numbers by `pair_sum` is cascaded (Ogita, Rump and Oishi 2005): hi is a float sum and lo
the float sum of its rounding errors, exact each by Knuth's two-sum. Every error is at most 2⁻⁵³ of
the sum, the errors' float sum is off by at most n·2⁻⁵³ of their total n·2⁻⁵³, and so hi + lo is
within (n·2⁻⁵³)² of the exact sum, relatively (`sum_error` allows twice that). Products and
quotients of pairs are within a few times 2⁻¹⁰⁴ (Joldes, Muller and Popescu 2017).
"""

import numpy as np

from theory.theta._jit import kernel

_SPLITTER = 2.0**27 + 1.0
_COLUMNS = 32
# More than the products and quotients of one evaluation of θ can add to its error.
_PRODUCT_ERROR = 2.0**-94


@kernel
def two_sum(a, b):  # type: ignore[no-untyped-def]
    """a + b exactly, as the float64 nearest to it and the rest."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


@kernel
def pair_sum(values, n):  # type: ignore[no-untyped-def]
    """The sum of the first n nonnegative values as hi + lo; see the module for its error.

    Long rows are added up in 32 columns, which the processor's vectors hold side by side.
    """
    hi = 0.0
    lo = 0.0
    start = 0
    if n >= 4 * _COLUMNS:
        his = np.zeros(_COLUMNS)
        los = np.zeros(_COLUMNS)
        start = n - n % _COLUMNS
        for k in range(0, start, _COLUMNS):
            _add_columns(his, los, values[k : k + _COLUMNS], _COLUMNS)
        width = _COLUMNS // 2
        while width > 0:
            _add_columns(his, los, his[width:], width)
            for i in range(width):
                los[i] += los[width + i]
            width //= 2
        hi = his[0]
        lo = los[0]
    for k in range(start, n):
        hi, low = two_sum(hi, values[k])
        lo += low
    return two_sum(hi, lo)


@kernel
def _add_columns(his, los, values, width):  # type: ignore[no-untyped-def]
    for i in range(width):
        total = his[i] + values[i]
        virtual = total - his[i]
        los[i] += (his[i] - (total - virtual)) + (values[i] - virtual)
        his[i] = total


@kernel
def pair_sums(rows, sums):  # type: ignore[no-untyped-def]
    """Write the sum of each row of rows (R, L) to sums (R, 2) as hi + lo."""
    for r in range(rows.shape[0]):
        sums[r, 0], sums[r, 1] = pair_sum(rows[r], rows.shape[1])


@kernel
def sum_error(n):  # type: ignore[no-untyped-def]
    """Bound on the relative error of `pair_sum` of n values."""
    return 2.0 * (n + 4.0) * (n + 4.0) * 2.0**-106


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
    return two_sum(hi, lo + (a_hi * b_lo + a_lo * b_hi))


@kernel
def _pair_quotient(a_hi, a_lo, b_hi, b_lo):  # type: ignore[no-untyped-def]
    first = a_hi / b_hi
    part_hi, part_lo = _pair_product(b_hi, b_lo, first, 0.0)
    # a and part agree in their leading bits, so that this difference is exact.
    return two_sum(first, ((a_hi - part_hi) + (a_lo - part_lo)) / b_hi)


@kernel
def rounded_theta_of_side(side, rest_hi, rest_lo, total_hi, total_lo, error):  # type: ignore[no-untyped-def]
    """4·side·rest/total² rounded to nearest; NaN where the error leaves it open (Ziv's test).

    error: bound on the relative error of rest and of total. Numbers between 2**-500 and 2**310.
    """
    top_hi, top_lo = _pair_product(rest_hi, rest_lo, 4.0 * side, 0.0)
    square_hi, square_lo = _pair_product(total_hi, total_lo, total_hi, total_lo)
    hi, lo = _pair_quotient(top_hi, top_lo, square_hi, square_lo)
    doubt = (4.0 * error + _PRODUCT_ERROR) * hi
    low = hi + (lo - doubt)
    return low if low == hi + (lo + doubt) else np.nan


@kernel
def rounded_theta_of_gap(gap_hi, gap_lo, total_hi, total_lo, error):  # type: ignore[no-untyped-def]
    """1 − (gap/total)² rounded to nearest; NaN where the error leaves it open (Ziv's test).

    0 <= gap <= total/2; error: bound on the errors of gap and total as shares of the total.

    The test never passes where θ lies half way between two floats. That is common where the total
    is a power of two, as that of single-precision rows often is; but then nothing rounds before
    the end: the quotient is exact, so is its square as a pair, and two-sums take it from 1.
    """
    fraction = np.float64(total_hi).view(np.int64) & 0xFFFFFFFFFFFFF
    if error == 0.0 and gap_lo == 0.0 and total_lo == 0.0 and fraction == 0:
        share = gap_hi / total_hi
        hi, lo = _two_product(share, share)
        hi, low = two_sum(1.0, -hi)
        rest, lost = two_sum(low, -lo)
        if lost == 0.0:
            return hi + rest
    hi, lo = _pair_quotient(gap_hi, gap_lo, total_hi, total_lo)
    hi, lo = _pair_product(hi, lo, hi, lo)
    hi, low = two_sum(1.0, -hi)
    hi, lo = two_sum(hi, low - lo)
    doubt = 4.0 * error + _PRODUCT_ERROR
    low = hi + (lo - doubt)
    return low if low == hi + (lo + doubt) else np.nan


@kernel
def signed_sum(weights, n, taken):  # type: ignore[no-untyped-def]
    """Σ ±weights, plus where taken, as hi + lo, within n·2**-104 of the sum of the weights."""
    hi = 0.0
    lo = 0.0
    for k in range(n):
        hi, low = two_sum(hi, weights[k] if taken[k] else -weights[k])
        hi, lo = two_sum(hi, low + lo)
    return hi, lo


@kernel
def is_balanced(weights, n, taken):  # type: ignore[no-untyped-def]
    """Whether Σ ±weights, plus where taken, is 0 for certain: without rounding in hi + lo."""
    hi = 0.0
    lo = 0.0
    lost = 0.0
    for k in range(n):
        hi, low = two_sum(hi, weights[k] if taken[k] else -weights[k])
        lo, low = two_sum(lo, low)
        lost += abs(low)
    return hi + lo == 0.0 and lost == 0.0
