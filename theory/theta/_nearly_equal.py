"""Nearly equal weights but for a few: branch on those, and let the others change sides in pairs.

Rows of attention early in training are of this kind: the gap that a few outliers, or an odd number
of weights, would leave is about as large as the small differences of the others can make up. Then
the number of weights on each side is given, and hardly any subset comes near half the total W.

Method. The weights are in descending order. One after the other, those farthest from the median
are put on a side, by depth-first search; the m others, w₀ >= w₁ >= …, are to add up to what is left
to W/2, the aim t. For each number k of them let H_k be the sum of the k largest, L_k that of the k
smallest. With the greatest k for which H_k <= t, no choice of at most k of them is closer than H_k;
likewise L_k, for the least k with t <= L_k, for k or more of them. For each k in between, exchange:
start from the k largest, of which the last is next to the edge e = k (or from the k smallest, all
from e = m − k on). Every choice of k of them arises by as many that leave as come, at the costs
w_i − w_e for i < e and w_e − w_i for i >= e, none of them negative, and its mass is off the start's
by the sum of the costs. Wanted is a sum of costs closest to the gap g = H_k − t (or t − L_k), the
smaller of the two. Sums beyond g by more than the least distance d found so far are of no use: the
sums up to g + d of 0, 1, 2, … costs are listed in order, those that leave and those that come, and
the lists of equal numbers are met by two pointers. Where these lists would be long there is another
branch: the next weight goes first to the side that takes away from the gap.

So the search is complete; it ends early where some subset is close enough. For costs that are about
multiples 0, 1, 2, … of one distance, the pairs of choices with sum g are the partitions of g
(Frobenius), about exp(π √(2g/3)); each list has the square root of that to the power of √2. Where
the lists are long, a sum close enough is among them as a rule.

Exactness. Let u be the largest power of two of which all weights are multiples, and r the greatest
limit g + d of an exchange, or d at the end if that is more. If W < 2⁸⁰ u and r <= 2⁵² u, nothing
that matters is rounded: prefix sums, the mass of those that are put on a side, and the aim are
pairs hi + lo of multiples of u/2 below 2⁸¹·u/2; gaps, costs, sums of costs and distances are
multiples of u/2 as well, and exact up to 2⁵³·u/2; what is more is rounded to no less than that, and
is of no use. A float64 w is a multiple of 2⁻⁵³ w, so that these gaps may be as large as the
smallest weight. Otherwise a search proves no subset optimal. Be that as it may, a computed distance
is off by less than (n + 8)·2⁻⁵²·W.
"""

import numpy as np

from theory.theta._float_kernels import is_balanced, rounded_theta_of_gap, two_sum
from theory.theta._jit import kernel
from theory.theta._small_rows import ACCEPTED, OPEN, OPTIMAL, ROUNDED, common_unit, least_residue

# Costs on one side of the edge that may take part in exchanges: bits of a code.
_MOST_COSTS = 16
# Length of the lists of one side together, and of a row of sums and of codes.
LIST_SUMS = 2**11
_MOST_NODES = 20_000
# Entries of lists, of some 30 ns each with all that goes before.
QUICK_STEPS = 2**12
MOST_STEPS = 2**19
_QUICK_DEPTH = 8
# Weights that may be far from the others.
_OUTLIERS = 12
_SPREAD = 1.6
_FEWEST = 25
# First without the sums beyond the gap by more than this share of it.
_BEYOND = 0.0625


@kernel
def are_nearly_equal(weights, n):  # type: ignore[no-untyped-def]
    """Whether some n − 12 of n >= 25 descending weights in a row are within a factor of 1.6."""
    if n < _FEWEST:
        return False
    least = np.inf
    out = min(_OUTLIERS, n // 4)
    for top in range(out + 1):
        least = min(least, weights[top] / weights[n - 1 - (out - top)])
    return least <= _SPREAD


@kernel
def _merge(sums, codes, i, i_stop, j, j_stop, cost, bit, limit, to_sums, to_codes, size):  # type: ignore[no-untyped-def]
    """Append sums[i:i_stop] and sums[j:j_stop] + cost, in order, up to `limit`: the new size.

    Equal ones are written once. Codes go with the sums, those of the second with the bit.
    """
    while True:
        one = sums[i] if i < i_stop else np.inf
        two = sums[j] + cost if j < j_stop else np.inf
        least = min(one, two)
        if not least <= limit:
            return size
        to_sums[size] = least
        to_codes[size] = codes[i] if one <= two else codes[j] | bit
        size += 1
        i += one <= least
        j += two <= least


@kernel
def _sums_by_number(costs, count, limit, sums, codes, starts):  # type: ignore[no-untyped-def]
    """List the sums <= limit of 0, 1, 2, … of the ascending costs: (where, how many lists).

    sums (float64) and codes (int64): (2, LIST_SUMS). In the row `where` of them, the list of
    number k is at starts[where, k] … starts[where, k + 1], ascending; bit i of a code stands for
    costs[i]. No lists where they might be too long. starts: (2, >= count + 3) int64.
    """
    where = 0
    lists = 1
    sums[0, 0] = 0.0
    codes[0, 0] = 0
    starts[0, 0] = 0
    starts[0, 1] = 1
    # The largest first, which have few sums.
    for item in range(count - 1, -1, -1):
        old = where
        where = 1 - old
        if 2 * starts[old, lists] > LIST_SUMS:
            return where, 0
        # One more list, empty so far.
        starts[old, lists + 1] = starts[old, lists]
        size = 0
        for number in range(lists + 1):
            starts[where, number] = size
            fewer = max(number - 1, 0)
            size = _merge(
                sums[old], codes[old], starts[old, number], starts[old, number + 1],
                starts[old, fewer], starts[old, number],
                costs[item], 1 << item, limit, sums[where], codes[where], size,
            )  # fmt: skip
        starts[where, lists + 1] = size
        lists += size > starts[where, lists]
    return where, lists


@kernel
def _costs_to(weights, edge, stop, limit, costs):  # type: ignore[no-untyped-def]
    """Write |weights[i] − weights[edge]| up to `limit`, ascending, for i from the edge to `stop`.

    The edge is among those from it on, not among those before it. Their number; −1 if too many.
    """
    step = 1 if stop >= edge else -1
    count = 0
    for i in range(edge + min(step, 0), stop, step):
        cost = abs(weights[i] - weights[edge])
        if cost > limit:
            break
        if count == _MOST_COSTS:
            return -1
        costs[count] = cost
        count += 1
    return count


@kernel
def _exchange(weights, top, bottom, edge, gap, least, accepted, scratch):  # type: ignore[no-untyped-def]
    """Look for exchanges at the edge, among weights[top:bottom], with costs closest to the gap.

    Returns (least distance, code of those before the edge, of those from it on, limit, whether
    nothing else is closer, steps): the codes of exchanges nearer than `least` if the first is less
    than that. Sums up to the limit were looked at. Gives up where there are too many; ends early at
    `accepted`.
    scratch: costs (2, _MOST_COSTS) and sums (4, >= LIST_SUMS), float64; codes (4, >= LIST_SUMS) and
    starts (4, _MOST_COSTS + 3), int64.
    """
    costs, sums, codes, starts = scratch
    steps = 0
    before = after = 0
    seen = 0.0
    limit = gap + min(least, _BEYOND * gap)
    while seen < limit:
        ones = _costs_to(weights, edge, top - 1, limit, costs[0])
        twos = _costs_to(weights, edge, bottom, limit, costs[1])
        if min(ones, twos) < 0:
            return least, before, after, seen, False, steps
        a, a_lists = _sums_by_number(costs[0], ones, limit, sums[:2], codes[:2], starts[:2])
        b, b_lists = _sums_by_number(costs[1], twos, limit, sums[2:], codes[2:], starts[2:])
        b += 2
        steps += starts[a, a_lists] + starts[b, b_lists]
        if min(a_lists, b_lists) == 0:
            return least, before, after, seen, False, steps
        for number in range(min(a_lists, b_lists)):
            i = starts[a, number]
            j = starts[b, number + 1] - 1
            while i < starts[a, number + 1] and j >= starts[b, number]:
                miss = (sums[a, i] + sums[b, j]) - gap
                if abs(miss) < least:
                    least = abs(miss)
                    before = codes[a, i]
                    after = codes[b, j]
                    if least <= accepted:
                        return least, before, after, limit, True, steps
                i += miss < 0.0
                j -= miss >= 0.0
        seen = limit
        limit = max(limit, gap + least)
    return least, before, after, seen, True, steps


@kernel
def _fitting(prefix, first, last, aim):  # type: ignore[no-untyped-def]
    """The greatest k in first … last with prefix[k] <= aim, ascending; first − 1 if none."""
    low = first - 1
    high = last
    while low < high:
        middle = (low + high + 1) // 2
        if prefix[middle] <= aim:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _pair_add(a_hi, a_lo, b_hi, b_lo):  # type: ignore[no-untyped-def]
    hi, low = two_sum(a_hi, b_hi)
    return two_sum(hi, low + (a_lo + b_lo))


@kernel
def _closest(weights, prefix, top, bottom, aim_hi, aim_lo, least, accepted, scratch):  # type: ignore[no-untyped-def]
    """Look for a choice among weights[top:bottom] with a mass closer to the aim than `least`.

    Returns (least distance, edge, from the top, before, after, reach, way, steps). The choice with
    the least distance, if that became less: the weights from the top to the edge, or from the edge
    to the bottom, but for the exchanges of these two codes. reach: as in `split_nearly_equal`.
    way: 0 if nothing else is closer; otherwise there are too many choices of some number, nearest
    to the largest (1) or to the smallest (−1).
    """
    # The k largest weigh at most the aim if prefix[top + k] is at most the first of these two; the
    # k smallest weigh at least that if prefix[bottom - k] is at most the second. Where only the low
    # parts tell, the distance is below 2**-52 of the total, and ends the search.
    high, high_lo = _pair_add(prefix[0, top], prefix[1, top], aim_hi, aim_lo)
    low, low_lo = _pair_add(prefix[0, bottom], prefix[1, bottom], -aim_hi, -aim_lo)
    high_edge = _fitting(prefix[0], top, bottom, high)
    low_edge = _fitting(prefix[0], top, bottom, low)
    edge = top
    from_top = True
    before = after = 0
    reach = 0.0
    steps = 0
    for is_high in (True, False):
        near = high_edge if is_high else low_edge
        if near >= top:
            aim, rest = (high, high_lo) if is_high else (low, low_lo)
            distance = abs(_pair_add(prefix[0, near], prefix[1, near], -aim, -rest)[0])
            if distance < least:
                least = distance
                edge = near
                from_top = is_high
    for number in range(high_edge - top + 1, bottom - low_edge):
        loss = _pair_add(prefix[0, top + number], prefix[1, top + number], -high, -high_lo)[0]
        gain = _pair_add(prefix[0, bottom - number], prefix[1, bottom - number], -low, -low_lo)[0]
        is_high = loss <= gain
        near = top + number if is_high else bottom - number
        found, ones, twos, limit, done, more_steps = _exchange(
            weights, top, bottom, near, min(loss, gain), least, accepted, scratch
        )
        steps += more_steps
        if found < least:
            least, edge, from_top, before, after = found, near, is_high, ones, twos
        reach = max(reach, limit)
        if not done:
            return least, edge, from_top, before, after, reach, 1 if is_high else -1, steps
    return least, edge, from_top, before, after, reach, 0, steps


@kernel
def split_nearly_equal(  # type: ignore[no-untyped-def]
    weights, n, total_hi, total_lo, accepted, max_steps, sums, codes, taken, stop
):
    """Look for the subset of n >= 2 nearly equal weights closest to half of them.

    Returns (d, r, complete, steps) of the module: the least distance of a mass from W/2, that of
    the subset in taken (>= n,) bool; the greatest limit; whether the search was complete, or ended
    at a distance of at most `accepted`. It gives up after max_steps, of some 30 ns each, and, if
    these are fewer than MOST_STEPS, where no exchange is in sight after the farthest 8 weights:
    such rows have so many good subsets that other searches find one sooner.
    weights: (>= n,) float64, descending, with sum total_hi + total_lo; sums (float64) and codes
    (int64): (4, >= LIST_SUMS), overwritten. Polls stop[0].
    """
    costs = np.empty((2, _MOST_COSTS))
    starts = np.empty((4, _MOST_COSTS + 3), dtype=np.int64)
    scratch = (costs, sums, codes, starts)
    # Sums of the first k weights.
    prefix = np.zeros((2, n + 1))
    for k in range(n):
        prefix[0, k + 1], prefix[1, k + 1] = _pair_add(prefix[0, k], prefix[1, k], weights[k], 0.0)
    # tops[t]: how many of the t weights farthest from the median are among the largest.
    tops = np.zeros(n + 1, dtype=np.int64)
    median = weights[n // 2]
    for t in range(n):
        bottom = n - 1 - (t - tops[t])
        tops[t + 1] = tops[t] + (weights[tops[t]] + weights[bottom] >= 2.0 * median)
    mass = np.zeros((2, n + 1))
    choice = np.zeros(n + 1, dtype=np.bool_)
    second_try = np.zeros(n + 1, dtype=np.bool_)
    least = np.inf
    reach = 0.0
    steps = 0
    nodes = 0
    # The first weight is in the subset, without loss: the complement does as well.
    choice[0] = True
    t = 0
    while True:
        # The next weight goes where choice[t] says.
        is_top = tops[t + 1] > tops[t]
        weight = weights[tops[t]] if is_top else weights[n - 1 - (t - tops[t])]
        mass[0, t + 1], mass[1, t + 1] = _pair_add(
            mass[0, t], mass[1, t], weight if choice[t] else 0.0, 0.0
        )
        t += 1
        top = tops[t]
        bottom = n - (t - top)
        aim_hi, aim_lo = _pair_add(0.5 * total_hi, 0.5 * total_lo, -mass[0, t], -mass[1, t])
        found, edge, from_top, before, after, node_reach, way, more_steps = _closest(
            weights, prefix, top, bottom, aim_hi, aim_lo, least, accepted, scratch
        )
        nodes += 1
        steps += more_steps
        reach = max(reach, node_reach)
        if found < least:
            least = found
            for k in range(top, bottom):
                taken[k] = (k < edge) == from_top
            for k in range(_MOST_COSTS):
                if (before >> k) & 1:
                    taken[edge - 1 - k] ^= True
                if (after >> k) & 1:
                    taken[edge + k] ^= True
            for k in range(t):
                is_top = tops[k + 1] > tops[k]
                taken[tops[k] if is_top else n - 1 - (k - tops[k])] = choice[k]
            if least <= accepted:
                return least, reach, True, steps
        hopeless = max_steps < MOST_STEPS and steps == 0 and t > _QUICK_DEPTH
        if stop[0] != 0 or nodes >= _MOST_NODES or steps >= max_steps or hopeless:
            return least, reach, False, steps
        if way != 0:
            # First to the side that takes from the gap.
            choice[t] = (way > 0) != (tops[t + 1] > tops[t])
            second_try[t] = False
            continue
        # Back to the last weight with a side left.
        t -= 1
        while t > 0 and second_try[t]:
            t -= 1
        if t == 0:
            return least, reach, True, steps
        choice[t] = not choice[t]
        second_try[t] = True


@kernel
def settle_nearly_equal(  # type: ignore[no-untyped-def]
    weights, n, total_hi, total_lo, max_steps, sums, codes, taken, stop
):
    """Settle nearly equal weights: (θ, status, proved, steps), and the subset in taken (>= n,).

    Arguments as in `split_nearly_equal`, the largest weight in 2**±300. θ is NaN and the status
    OPEN where float arithmetic proves nothing. proved: the subset is optimal, beyond doubt.
    """
    accepted = ACCEPTED * total_hi
    unit = common_unit(weights, n)
    if total_hi < 2.0**52 * unit:
        accepted = max(accepted, 0.5 * least_residue(weights, n, unit, total_hi, sums[0]))
    least, reach, complete, steps = split_nearly_equal(
        weights, n, total_hi, total_lo, accepted, max_steps, sums, codes, taken, stop
    )
    if least <= ACCEPTED * total_hi:
        proved = is_balanced(weights, n, taken)
        return 1.0, OPTIMAL if proved else ROUNDED, proved, steps
    if not complete or max(reach, least) > 2.0**52 * unit or total_hi >= 2.0**80 * unit:
        return np.nan, OPEN, False, steps
    # Below 2**53 half units, and so exact.
    value = rounded_theta_of_gap(2.0 * least, 0.0, total_hi, total_lo, 0.0)
    return value, OPTIMAL if value == value else OPEN, True, steps
