"""Exact subset sums in two limbs.

A nonnegative integer below 2**122 is held as hi * 2**62 + lo with 0 <= lo < 2**62, both int64.
The sum of two low limbs stays below 2**63 and the high limbs stay below 2**60 as long as the total
of all items is below 2**122, which the callers check: nothing here can wrap.

Every kernel looks for the greatest subset sum that is at most a cap, and may stop as soon as it has
a sum of at least `enough` (`enough` = cap asks for the optimum).
"""

from theory.theta._jit import kernel

LIMB_BITS = 62
LIMB_MASK = (1 << LIMB_BITS) - 1
MAX_TOTAL_BITS = 122


@kernel
def merge_item(hi, lo, item_hi, item_lo, cap_hi, cap_lo, out_hi, out_lo):  # type: ignore[no-untyped-def]
    """Merge the sorted sums X and X + item into out, leaving out what exceeds the cap.

    hi, lo: (n,) int64, sorted; out_hi, out_lo: (2n,) int64. Returns how many sums were written.
    """
    n = hi.shape[0]
    i = 0
    j = 0
    written = 0
    while i < n or j < n:
        # X + item is exhausted only after X, because item > 0.
        low = lo[j] + item_lo
        next_hi = hi[j] + item_hi + (low >> LIMB_BITS)
        next_lo = low & LIMB_MASK
        if i < n and (hi[i] < next_hi or (hi[i] == next_hi and lo[i] <= next_lo)):
            next_hi = hi[i]
            next_lo = lo[i]
            i += 1
        else:
            j += 1
        if next_hi > cap_hi or (next_hi == cap_hi and next_lo > cap_lo):
            break
        out_hi[written] = next_hi
        out_lo[written] = next_lo
        written += 1
    return written


@kernel
def best_pair(a_hi, a_lo, b_hi, b_lo, cap_hi, cap_lo, enough_hi, enough_lo):  # type: ignore[no-untyped-def]
    """Indices (i, j) of the greatest a[i] + b[j] <= cap; a and b are sorted and start with 0."""
    best_i = 0
    best_j = 0
    best_hi = 0
    best_lo = 0
    j = b_hi.shape[0] - 1
    for i in range(a_hi.shape[0]):
        while j >= 0:
            low = a_lo[i] + b_lo[j]
            sum_hi = a_hi[i] + b_hi[j] + (low >> LIMB_BITS)
            sum_lo = low & LIMB_MASK
            if sum_hi < cap_hi or (sum_hi == cap_hi and sum_lo <= cap_lo):
                break
            j -= 1
        if j < 0:
            break
        if sum_hi > best_hi or (sum_hi == best_hi and sum_lo > best_lo):
            best_i = i
            best_j = j
            best_hi = sum_hi
            best_lo = sum_lo
            if best_hi > enough_hi or (best_hi == enough_hi and best_lo >= enough_lo):
                break
    return best_i, best_j


@kernel
def gray_best(hi, lo, start_hi, start_lo, cap_hi, cap_lo, enough_hi, enough_lo):  # type: ignore[no-untyped-def]
    """Code of the subset with the greatest start + sum <= cap, by enumeration in Gray-code order.

    hi, lo: (n,) int64 with n <= 62; start <= cap. Step t of the enumeration turns the item over
    whose index is the number of trailing zeros of t, and subset t has the code t ^ (t >> 1).
    """
    sum_hi = start_hi
    sum_lo = start_lo
    best_hi = start_hi
    best_lo = start_lo
    best_code = 0
    code = 0
    for t in range(1, 1 << hi.shape[0]):
        if best_hi > enough_hi or (best_hi == enough_hi and best_lo >= enough_lo):
            break
        item = 0
        while not (t >> item) & 1:
            item += 1
        code ^= 1 << item
        if (code >> item) & 1:
            low = sum_lo + lo[item]
            sum_hi += hi[item] + (low >> LIMB_BITS)
        else:
            # The arithmetic shift gives -1 for a negative difference: that is the borrow.
            low = sum_lo - lo[item]
            sum_hi += (low >> LIMB_BITS) - hi[item]
        sum_lo = low & LIMB_MASK
        fits = sum_hi < cap_hi or (sum_hi == cap_hi and sum_lo <= cap_lo)
        if fits and (sum_hi > best_hi or (sum_hi == best_hi and sum_lo > best_lo)):
            best_hi = sum_hi
            best_lo = sum_lo
            best_code = code
    return best_code
