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
def merge_shifted(a_hi, a_lo, b_hi, b_lo, item_hi, item_lo, cap_hi, cap_lo, out_hi, out_lo):  # type: ignore[no-untyped-def]
    """Merge the ascending sums A and B + item into out, each sum once and none beyond the cap.

    a_hi, a_lo: (n,) int64; b_hi, b_lo: (m,) int64; out_hi, out_lo: (n + m,) int64, in which the
    sums come out ascending. Returns how many there are.
    """
    n = a_hi.shape[0]
    m = b_hi.shape[0]
    i = 0
    j = 0
    written = 0
    next_hi = 0
    next_lo = 0
    while i < n or j < m:
        from_a = j == m
        if j < m:
            low = b_lo[j] + item_lo
            next_hi = b_hi[j] + item_hi + (low >> LIMB_BITS)
            next_lo = low & LIMB_MASK
            from_a = i < n and (a_hi[i] < next_hi or (a_hi[i] == next_hi and a_lo[i] <= next_lo))
        if from_a:
            next_hi = a_hi[i]
            next_lo = a_lo[i]
            i += 1
        else:
            j += 1
        if next_hi > cap_hi or (next_hi == cap_hi and next_lo > cap_lo):
            break
        if written > 0 and out_hi[written - 1] == next_hi and out_lo[written - 1] == next_lo:
            continue
        out_hi[written] = next_hi
        out_lo[written] = next_lo
        written += 1
    return written


@kernel
def best_pair(a_hi, a_lo, b_hi, b_lo, cap_hi, cap_lo, enough_hi, enough_lo):  # type: ignore[no-untyped-def]
    """Indices (i, j) of the greatest a[i] + b[j] <= cap, (0, 0) if there is none; a and b ascend.

    May stop as soon as it has a sum of at least `enough`.
    """
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
def least_pair(a_hi, a_lo, b_hi, b_lo, floor_hi, floor_lo, enough_hi, enough_lo):  # type: ignore[no-untyped-def]
    """Indices (i, j) of the least a[i] + b[j] >= floor, (-1, -1) if none; a and b ascend.

    May stop as soon as it has a sum of at most `enough`.
    """
    best_i = -1
    best_j = -1
    best_hi = 0
    best_lo = 0
    sum_hi = 0
    sum_lo = 0
    n = a_hi.shape[0]
    i = 0
    for j in range(b_hi.shape[0] - 1, -1, -1):
        while i < n:
            low = a_lo[i] + b_lo[j]
            sum_hi = a_hi[i] + b_hi[j] + (low >> LIMB_BITS)
            sum_lo = low & LIMB_MASK
            if sum_hi > floor_hi or (sum_hi == floor_hi and sum_lo >= floor_lo):
                break
            i += 1
        if i == n:
            break
        if best_i < 0 or sum_hi < best_hi or (sum_hi == best_hi and sum_lo < best_lo):
            best_i = i
            best_j = j
            best_hi = sum_hi
            best_lo = sum_lo
            if best_hi < enough_hi or (best_hi == enough_hi and best_lo <= enough_lo):
                break
    return best_i, best_j


@kernel
def advance(heap, size, partner, sum_hi, sum_lo, a_hi, a_lo, b_hi, b_lo):  # type: ignore[no-untyped-def]
    """Replace the least of the sums a[i] + b[partner[i]] by the next one of the same i.

    heap: (n,) int64, a binary heap in its first `size` places of indices i by their sums; partner:
    (n,) int64; sum_hi, sum_lo: (n,) int64, the present sum of each i. Returns the new size.
    """
    top = heap[0]
    partner[top] += 1
    if partner[top] == b_hi.shape[0]:
        size -= 1
        top = heap[size]
    else:
        low = a_lo[top] + b_lo[partner[top]]
        sum_hi[top] = a_hi[top] + b_hi[partner[top]] + (low >> LIMB_BITS)
        sum_lo[top] = low & LIMB_MASK
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        other = child + 1
        if other < size:
            left = heap[child]
            right = heap[other]
            if sum_hi[right] < sum_hi[left] or (
                sum_hi[right] == sum_hi[left] and sum_lo[right] < sum_lo[left]
            ):
                child = other
        below = heap[child]
        if sum_hi[top] < sum_hi[below] or (
            sum_hi[top] == sum_hi[below] and sum_lo[top] <= sum_lo[below]
        ):
            break
        heap[place] = below
        place = child
    heap[place] = top
    return size


@kernel
def sweep_quarters(first, second, sizes, best, state, shift, enough, steps):  # type: ignore[no-untyped-def]
    """Take up to `steps` steps of the search of Schroeppel and Shamir; True once it is complete.

    first, second: (a, b, heap, partner, sums) of each half: its sums a[i] + b[partner[i]] come up
    in ascending order, x from the first and z from the second half. a, b, sums: (2, ·) int64 limbs.
    Wanted is the least x-to-z gap z + shift - x >= 0, where shift, of either sign, is in limbs with
    a low limb in [0, 2**62). best: (2,) int64 limbs of the least gap so far; state: (4,) int64, the
    indices i, partner[i] of both halves at that gap; sizes: (2,) int64, of the heaps. Stops early
    at a gap of at most `enough`.
    """
    a, b, heap_x, partner_x, x = first
    c, d, heap_z, partner_z, z = second
    for _ in range(steps):
        if sizes[0] == 0 or sizes[1] == 0:
            return True
        i = heap_x[0]
        k = heap_z[0]
        low = z[1, k] + shift[1] - x[1, i]
        # The arithmetic shift gives the carry, -1 for a borrow.
        gap_hi = z[0, k] + shift[0] - x[0, i] + (low >> LIMB_BITS)
        gap_lo = low & LIMB_MASK
        if gap_hi < 0:
            sizes[1] = advance(heap_z, sizes[1], partner_z, z[0], z[1], c[0], c[1], d[0], d[1])
            continue
        if gap_hi < best[0] or (gap_hi == best[0] and gap_lo < best[1]):
            best[0] = gap_hi
            best[1] = gap_lo
            state[0] = i
            state[1] = partner_x[i]
            state[2] = k
            state[3] = partner_z[k]
            if gap_hi < enough[0] or (gap_hi == enough[0] and gap_lo <= enough[1]):
                return True
        sizes[0] = advance(heap_x, sizes[0], partner_x, x[0], x[1], a[0], a[1], b[0], b[1])
    return False


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
