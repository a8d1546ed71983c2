"""Few weights, or heavy ones: branch on the largest, meet in the middle on the smallest.

All arithmetic is float64. Let W be the float total and n the number of weights. A candidate mass is
reached by fewer than n + 8 additions and subtractions of numbers of size at most W, so that its
computed distance g from W/2 is off by at most E = (n + 8)·2⁻⁵³·W·(1 + 2⁻³⁰). Float addition is
monotone, so that the two pointers below see the least *computed* distance of each leaf.

What a search proves, with g₀ the least computed distance:

- g₀ <= 2⁻²⁸ W (1 − 2⁻⁶) for some subset: then D/W <= 2⁻²⁷, and θ rounds to 1, as E <= 2⁻³⁴ W for
  n <= 2¹⁸.
- After a complete search, 2g₀ − 2E <= D <= the exact discrepancy of the subset of g₀. If no other
  subset comes within 2E of g₀, that subset is optimal.
- If every weight is a multiple of a unit u with W < 2⁵² u, no addition rounds, and E = 0; then a
  subset that attains the bound of `least_residue` is optimal, too.

Tail. The smallest weights, of mass F <= 2⁻³⁰ W, are set aside; let g be the distances of the masses
of the others, the head, from *half the head*. The lighter side of a split gets the tail: for g of
at least F/2 the best distance is g − F/2, and otherwise some split has a discrepancy of at most
2F <= 2⁻²⁹ W, by which θ rounds to 1 as well.
"""

import numpy as np

from theory.theta._float_kernels import is_balanced, rounded_theta_of_gap, signed_sum, sum_error
from theory.theta._jit import kernel

# As in `Status`, which kernels cannot see.
OPTIMAL = 0
ROUNDED = 1
OPEN = -1

# Largest number of pairs of weights in a leaf: two lists of 2**13 sums, which stay in the cache.
MAX_PAIRS = 13
# An arithmetic shift by this leaves −1 of a negative float's bits and 0 of another's.
_SIGN_SHIFT = 63
ACCEPTED = 2.0**-28 * (1.0 - 2.0**-6)
NEGLIGIBLE = 2.0**-30
# In the bound by residues: how far beyond the unit bits are told apart, and the most weights in F.
_FINEST = 64
_MOST_RESIDUES = 10
# A leaf is made large enough for this many subsets within the accepted distance, if possible.
_WANTED_HITS = 4.0
MAX_LEAVES = 512
FEW_LEAVES = 8
# Up to this many weights the largest leaf is the whole search, or nearly so.
_ALWAYS_FULL = 24
_MAX_NODES = 20_000


@kernel
def sort_descending(values, places, count):  # type: ignore[no-untyped-def]
    """Sort the first `count` values, with their places, by insertion."""
    for k in range(1, count):
        value = values[k]
        place = places[k]
        i = k
        while i > 0 and values[i - 1] < value:
            values[i] = values[i - 1]
            places[i] = places[i - 1]
            i -= 1
        values[i] = value
        places[i] = place


@kernel
def subset_sums(weights, first, pairs, sums):  # type: ignore[no-untyped-def]
    """All subset sums, ascending, of every other one of 2·pairs weights from `first`, twice.

    Returns those of weights[first], weights[first + 2], … and those of the others, each (2**pairs,)
    float64, in rows of sums (4, >= 2**pairs). X and X + w are merged from both ends, and both lists
    are made at once: four chains of steps, without a branch that depends on the data.
    """
    one, two, next_one, next_two = sums[0], sums[1], sums[2], sums[3]
    one[0] = 0.0
    two[0] = 0.0
    size = 1
    for pair in range(pairs):
        weight = weights[first + 2 * pair]
        other = weights[first + 2 * pair + 1]
        a = b = c = d = 0
        p = q = r = s = size - 1
        for k in range(size):
            low = np.uintp(k)
            high = np.uintp(2 * size - 1 - k)
            next_one[low], a, b = _next_up(one, weight, a, b)
            next_two[low], c, d = _next_up(two, other, c, d)
            next_one[high], p, q = _next_down(one, weight, p, q)
            next_two[high], r, s = _next_down(two, other, r, s)
        size *= 2
        one, next_one = next_one, one
        two, next_two = next_two, two
    return one[:size], two[:size]


@kernel
def _next_up(sums, weight, i, j):  # type: ignore[no-untyped-def]
    """The smaller of sums[i] and sums[j] + weight, and the next i and j."""
    x = sums[np.uintp(i)]
    y = sums[np.uintp(j)] + weight
    second = np.float64(y - x).view(np.int64) >> _SIGN_SHIFT
    return min(x, y), i + 1 + second, j - second


@kernel
def _next_down(sums, weight, i, j):  # type: ignore[no-untyped-def]
    """The larger of sums[i] and sums[j] + weight, and the next i and j, downwards."""
    x = sums[np.uintp(i)]
    y = sums[np.uintp(j)] + weight
    first = np.float64(y - x).view(np.int64) >> _SIGN_SHIFT
    return max(x, y), i + first, j - 1 - first


@kernel
def _rise(ones, twos, aim, i, j):  # type: ignore[no-untyped-def]
    """|ones[i] + twos[j] − aim| and the next cell up the staircase."""
    if i >= ones.shape[0] or j < 0:
        return np.inf, i, j
    miss = (ones[np.uintp(i)] + twos[np.uintp(j)]) - aim
    negative = np.float64(miss).view(np.int64) >> _SIGN_SHIFT
    return abs(miss), i - negative, j - 1 - negative


@kernel
def _fall(ones, twos, aim, i, j):  # type: ignore[no-untyped-def]
    """|ones[i] + twos[j] − aim| and the next cell down the staircase."""
    if i < 0 or j >= twos.shape[0]:
        return np.inf, i, j
    miss = (ones[np.uintp(i)] + twos[np.uintp(j)]) - aim
    negative = np.float64(miss).view(np.int64) >> _SIGN_SHIFT
    return abs(miss), i - 1 - negative, j - negative


@kernel
def _note(distance, i, j, aim, best, cell):  # type: ignore[no-untyped-def]
    """Keep the least and the second least distance in `best`, with the aim; the cell in `cell`."""
    if distance < best[0]:
        best[1] = best[0]
        best[0] = distance
        best[2] = aim
        cell[0] = i
        cell[1] = j
    elif distance < best[1]:
        best[1] = distance


@kernel
def closest_pairs(ones, twos, aim, other, accepted, limit, best, cell):  # type: ignore[no-untyped-def]
    """Note the least distances |ones[i] + twos[j] − aim|, and the same for the other aim.

    ones, twos: ascending, of one length m. Ends once the best is at most `accepted`. Distances of
    `limit` or more may be passed over.

    The staircase between negative and other differences is followed from both ends. The rising path
    meets a cell (i, j) in step i + m − 1 − j, if at all, and the falling one in step 2m − 2 less
    that; each takes half of the steps, so that no cell comes twice. The cell of the least distance
    is on both paths: whoever reaches its row or column first moves along it, since cells between
    would be closer. For the same reason a cell off the path has one in its row or column that is on
    it, on the same side of zero, and at least as close.
    """
    size = ones.shape[0]
    i = k = j_down = l_down = 0
    j = l = i_down = k_down = size - 1
    for step in range(size):
        up_i, up_j, up_k, up_l = i, j, k, l
        down_i, down_j, down_k, down_l = i_down, j_down, k_down, l_down
        first, i, j = _rise(ones, twos, aim, i, j)
        second, k, l = _rise(ones, twos, other, k, l)
        third = fourth = np.inf
        # There are 2m − 1 steps.
        if step < size - 1:
            third, i_down, j_down = _fall(ones, twos, aim, i_down, j_down)
            fourth, k_down, l_down = _fall(ones, twos, other, k_down, l_down)
        if min(min(first, second), min(third, fourth)) < min(best[1], limit):
            _note(first, up_i, up_j, aim, best, cell)
            _note(second, up_k, up_l, other, best, cell)
            _note(third, down_i, down_j, aim, best, cell)
            _note(fourth, down_k, down_l, other, best, cell)
            if best[0] <= accepted:
                break


@kernel
def _code_of(weights, first, pairs, value, spare):  # type: ignore[no-untyped-def]
    """A subset of every other weight from `first` with that sum, added up as in `subset_sums`."""
    spare[0] = 0.0
    size = 1
    for pair in range(pairs):
        for code in range(size):
            spare[size + code] = spare[code] + weights[first + 2 * pair]
        size *= 2
    for code in range(size):
        if spare[code] == value:
            return code
    return 0


@kernel
def common_unit(weights, n):  # type: ignore[no-untyped-def]
    """The largest power of two of which every weight is a multiple; infinity if all are zero."""
    bits = weights.view(np.int64)
    unit = np.inf
    for k in range(n):
        fraction = bits[k] & 0xFFFFFFFFFFFFF
        if bits[k] == 0:
            continue
        if fraction == 0:
            unit = min(unit, weights[k])
        else:
            # Clearing the lowest set bit leaves a float that differs by that bit.
            unit = min(unit, weights[k] - np.int64(bits[k] & (bits[k] - 1)).view(np.float64))
    return unit


@kernel
def least_residue(weights, n, unit, total, residues):  # type: ignore[no-untyped-def]
    """A lower bound on the discrepancy of multiples of `unit` with total < 2**52 · unit.

    Let q be a power of two times the unit, and F the weights that are no multiples of q. For the
    others w ≡ −w (mod 2q), and so the discrepancy is ±(R + Σ ±F) (mod 2q), with R the sum of the
    others. The least distance of these numbers from a multiple of 2q is the bound, for the largest
    q that leaves few weights in F (for F empty: the parity of the total). Nothing rounds here.
    residues: (>= 2**10,) float64, overwritten.
    """
    bits = weights.view(np.int64)
    lowest = np.zeros(_FINEST, dtype=np.int64)
    unit_exponent = np.float64(unit).view(np.int64) >> 52
    for k in range(n):
        if bits[k] != 0:
            lowest[min(_low_exponent(weights[k], bits[k]) - unit_exponent, _FINEST - 1)] += 1
    doublings = 0
    few = 0
    while doublings < _FINEST - 1 and few + lowest[doublings] <= _MOST_RESIDUES:
        few += lowest[doublings]
        doublings += 1
    coarse = unit * 2.0**doublings
    residues[0] = total
    size = 1
    for k in range(n):
        if bits[k] != 0 and _low_exponent(weights[k], bits[k]) - unit_exponent < doublings:
            # Flipping a sign takes twice the weight from the sum.
            for code in range(size):
                residues[size + code] = residues[code] - 2.0 * weights[k]
            size *= 2
    least = np.inf
    for code in range(size):
        periods = np.rint(residues[code] / (2.0 * coarse))
        least = min(least, abs(residues[code] - 2.0 * coarse * periods))
    return least


@kernel
def _low_exponent(weight, bits):  # type: ignore[no-untyped-def]
    """The exponent bits of the lowest set bit of a positive weight, given with its bits."""
    if bits & 0xFFFFFFFFFFFFF == 0:
        return bits >> 52
    cleared = np.int64(bits & (bits - 1)).view(np.float64)
    return np.float64(weight - cleared).view(np.int64) >> 52


@kernel
def _leaf_pairs(weights, head, accepted):  # type: ignore[no-untyped-def]
    """Of how many pairs of the smallest weights of the head to list the sums."""
    square = 0.0
    # Two aims, with accepted distances on both sides of each, at the density of a normal law.
    hits = 4.0 * accepted / 2.5
    most = min(MAX_PAIRS, (head - 2) // 2)
    pairs = 0
    while pairs < most:
        square += 0.25 * weights[head - 1 - 2 * pairs] ** 2
        square += 0.25 * weights[head - 2 - 2 * pairs] ** 2
        hits *= 4.0
        pairs += 1
        if hits >= _WANTED_HITS * np.sqrt(square):
            break
    return pairs


@kernel
def split_row(weights, n, total_hi, total_lo, max_leaves, sums, work, taken, stop):  # type: ignore[no-untyped-def]
    """Split n >= 2 weights: (θ, status, steps), and the subset in taken (>= n,) bool.

    weights: (>= n,) float64, positive, in descending order but for a negligible tail, the largest
    in 2**±300, with sum total_hi + total_lo. sums: (4, 2**13) float64 and work: (2, >= n + 1)
    float64 are overwritten. Gives up after max_leaves leaves. Polls stop[0]. θ is NaN and the
    status OPEN where nothing is proved. steps: what the search took, of some 10 ns each.
    """
    head = n
    negligible = 0.0
    while negligible + weights[head - 1] <= NEGLIGIBLE * total_hi:
        head -= 1
        negligible += weights[head]
    error = (n + 8.0) * 2.0**-53 * total_hi * (1.0 + 2.0**-30)
    accepted = ACCEPTED * total_hi
    unit = common_unit(weights, n)
    if negligible == 0.0 and total_hi < 2.0**52 * unit:
        error = 0.0
        accepted = max(accepted, 0.5 * least_residue(weights, n, unit, total_hi, sums[0]))
    most = min(MAX_PAIRS, (head - 2) // 2)
    pairs = most if head <= _ALWAYS_FULL else _leaf_pairs(weights, head, accepted)
    leaves = max_leaves if pairs == most else FEW_LEAVES
    steps = 0
    value, status = np.nan, OPEN
    while status == OPEN:
        value, status, taken_steps = _search(
            weights, n, head, negligible, total_hi, total_lo,
            accepted, error, pairs, leaves, sums, work, taken, stop,
        )  # fmt: skip
        steps += taken_steps
        if pairs == most:
            break
        pairs = most
        leaves = max_leaves
    return value, status, steps


@kernel
def _search(  # type: ignore[no-untyped-def]
    weights, n, head, negligible, total_hi, total_lo,
    accepted, error, pairs, max_leaves, sums, work, taken, stop,
):  # fmt: skip
    """The search for `split_row`, with a leaf of that many pairs, in at most `max_leaves` leaves.

    accepted: a distance that settles the row; error: the E of the module.

    Weight 0 is in the subset, without loss. Depth first, for the weights before `top` it is tried
    whether to take them; a branch ends where nothing, or all, of the others is best. Of a leaf, the
    weight `top` is in or out (two aims), and the 2·pairs weights after it meet in the middle.
    """
    total = total_hi
    half = 0.5 * (total - negligible)
    top = head - 2 * pairs - 1
    ones, twos = subset_sums(weights, top + 1, pairs, sums)
    last = ones.shape[0] - 1
    # mass[k] of the choices for the weights before k; rest[k] of the head from k on.
    mass = work[0]
    rest = work[1]
    rest[head] = 0.0
    for k in range(head - 1, -1, -1):
        rest[k] = rest[k + 1] + weights[k]
    choice = np.zeros(top + 1, dtype=np.bool_)
    second_try = np.zeros(top + 1, dtype=np.bool_)
    # Whatever is farther than what greedy choice attains is neither best nor within 2E of it; and
    # where a leaf begins with long runs of ever smaller distances, noting each would take time.
    room = half
    for k in range(head):
        if weights[k] <= room:
            room -= weights[k]
    limit = room + 4.0 * error + accepted
    best = np.full(3, np.inf)
    cell = np.zeros(2, dtype=np.int64)
    in_leaf = False
    leaves = 0
    nodes = 0
    complete = True
    # The largest weight is in the subset, without loss: the complement does as well.
    choice[0] = True
    mass[1] = weights[0]
    k = 1
    while k > 0:
        nodes += 1
        aim = half - mass[k]
        before = best[0]
        if aim < 0.0 or rest[k] < aim or k == top:
            if aim < 0.0:
                _note(-aim, 0, 0, aim, best, cell)
            elif rest[k] < aim:
                _note(aim - rest[k], last, last, aim, best, cell)
            else:
                leaves += 1
                closest_pairs(ones, twos, aim, aim - weights[top], accepted, limit, best, cell)
            if best[0] < before:
                in_leaf = 0.0 <= aim <= rest[k]
                for c in range(top + 1):
                    taken[c] = choice[c] if c < k else aim > rest[k]
                if in_leaf:
                    taken[top] = best[2] != aim
            if best[0] <= accepted:
                break
            if stop[0] != 0 or leaves >= max_leaves or nodes >= _MAX_NODES:
                complete = False
                break
            # Back to the last weight with a choice left.
            k -= 1
            while k > 0 and second_try[k]:
                second_try[k] = False
                k -= 1
            if k > 0:
                second_try[k] = True
                choice[k] = not choice[k]
                mass[k + 1] = mass[k] + weights[k] if choice[k] else mass[k]
                k += 1
        else:
            # First the choice that leaves the middle of what is to come closer to the aim.
            choice[k] = 2.0 * aim >= rest[k]
            mass[k + 1] = mass[k] + weights[k] if choice[k] else mass[k]
            k += 1
    least = best[0]
    steps = (leaves << pairs) + nodes
    if least > accepted and not complete:
        return np.nan, OPEN, steps
    one = ones[cell[0]]
    two = twos[cell[1]]
    runner_up = best[1]
    if in_leaf:
        # Cells beside the best one that the paths do not pass.
        for step in (-1, 1):
            if 0 <= cell[0] + step <= last:
                runner_up = min(runner_up, abs((ones[cell[0] + step] + two) - best[2]))
            if 0 <= cell[1] + step <= last:
                runner_up = min(runner_up, abs((one + twos[cell[1] + step]) - best[2]))
    one_code = _code_of(weights, top + 1, pairs, one, sums[0])
    two_code = _code_of(weights, top + 2, pairs, two, sums[0])
    for k in range(pairs):
        taken[top + 1 + 2 * k] = (one_code >> k) & 1 == 1
        taken[top + 2 + 2 * k] = (two_code >> k) & 1 == 1
    if least <= ACCEPTED * total:
        # The computed distance is from half the head; the lighter side gets the tail.
        gap = signed_sum(weights, head, taken)[0]
        taken[head:n] = gap < 0.0
        return 1.0, OPTIMAL if is_balanced(weights, n, taken) else ROUNDED, steps
    gap_hi, gap_lo = signed_sum(weights, head, taken)
    taken[head:n] = gap_hi < 0.0
    gap_hi, gap_lo = signed_sum(weights, n, taken)
    if gap_hi < 0.0:
        gap_hi, gap_lo = -gap_hi, -gap_lo
    inexact = sum_error(n) if error > 0.0 else 0.0
    value = rounded_theta_of_gap(gap_hi, gap_lo, total_hi, total_lo, inexact)
    if error == 0.0 or runner_up > least + 2.0 * error:
        return value, OPTIMAL if value == value else OPEN, steps
    gap_low = max(2.0 * (least - 2.0 * error) - negligible, 0.0)
    highest = rounded_theta_of_gap(gap_low, 0.0, total_hi, total_lo, sum_error(n))
    return (value, ROUNDED, steps) if value == highest else (np.nan, OPEN, steps)


@kernel
def odd_split(weights, n, head, total_hi, total_lo, taken):  # type: ignore[no-untyped-def]
    """The closed form "odd" of `solve_theta`: (θ, status), as `split_row`.

    The first `head` of the n weights are in descending order; H is taken from them. The condition
    is checked with a margin of more than the float error of the sums in it.
    """
    margin = (2.0 * n + 8.0) * 2.0**-53 * total_hi
    half = 0.5 * total_hi
    largest = 0.0
    outside = total_hi - weights[0]
    for m in range((head + 1) // 2):
        if largest + outside <= half - margin:
            for k in range(n):
                taken[k] = k < m or k > 2 * m
            gap_hi, gap_lo = signed_sum(weights, n, taken)
            value = rounded_theta_of_gap(-gap_hi, -gap_lo, total_hi, total_lo, sum_error(n))
            return value, OPTIMAL if value == value else OPEN
        largest += weights[m]
        if 2 * m + 2 < head:
            outside -= weights[2 * m + 1] + weights[2 * m + 2]
    return np.nan, OPEN
