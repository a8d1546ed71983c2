"""Greatest subset sum below a cap: the one question behind θ and `closest_mass`.

Every search takes descending positive integers with total W, a cap 0 <= cap <= W, a goal <= cap
and a deadline, and returns a `Found`. It may stop as soon as it holds a subset of mass at least
`goal`; goal = cap asks for the optimum. Subsets are bit masks: bit k stands for values[k].
"""

import functools
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate

from theory.theta import _kernels
from theory.theta._cardinality import cardinality, fill_by_number, straddling_counts
from theory.theta._found import Deadline as Deadline
from theory.theta._found import (
    Found,
    Limbs,
    Search,
    TimeUp,
    fits_limbs,
    greedy,
    joined,
    limbs,
    mass_of,
    require,
    split,
)
from theory.theta._groups import groups
from theory.theta._quarters import quarters
from theory.theta._sums import best_cut, mitm, mitm_suits, sorted_sums, subset_of_mass

GRAY_MAX_ITEMS = 30
# All bitsets of a `dp` together: 2**31 bits are 256 MiB.
DP_MAX_BITS = 2**31
# Crossovers of the running times; any choice gives the same masses.
_GRAY_BEST_UP_TO = 12
_DP_CHEAP_BITS = 2**20
_MITM_CHEAP_SUMS = 2**14
_MITM_CHEAP_WORK = 2**19
# One call of the Gray-code kernel walks through at most 2**20 subsets, a few milliseconds, so that
# a deadline and Ctrl-C are heeded in between.
_GRAY_BLOCK = 20
_QUARTERS_BEST_UP_TO = 52
_PROBE_LEAVES = 200
_PROBE_NODES = 20_000
_QUICK_GROUPS = 2**16
_MOST_GROUPS = 2**23
_MODULUS = 2**16
_FILL_FREE_ITEMS = (24, 30, 36)
# The two lists of the last values, with which every leaf of `branch` is solved.
_LEAF_SUMS = 2**15
# Leaves room for the 36 units by which rounding up can raise the total of the free values.
_COARSE_BITS = _kernels.MAX_TOTAL_BITS - 2


def gray(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """Enumeration in Gray-code order: O(2ⁿ) time, O(n) memory.

    Needs n <= 30 and a total below 2**122. Complete: every subset is visited, each by one addition
    to or subtraction from the sum before.
    """
    require(len(values) <= GRAY_MAX_ITEMS, f"method 'gray' needs at most {GRAY_MAX_ITEMS} items")
    require(fits_limbs(values), "method 'gray' needs weights that span less than 2**122")
    outer, inner = values[:-_GRAY_BLOCK], values[-_GRAY_BLOCK:]
    inner_limbs = limbs(inner)
    best = greedy(values, cap)
    mass = mass_of(values, best)
    for code in range(1 << len(outer)):
        if mass >= goal or (code and deadline.passed()):
            return Found(best, cap)
        start = mass_of(outer, code)
        if start > cap:
            continue
        inner_code = int(_kernels.gray_best(*inner_limbs, *split(start), *split(cap), *split(goal)))
        inner_mass = start + mass_of(inner, inner_code)
        if inner_mass > mass:
            mass = inner_mass
            best = code | inner_code << len(outer)
    return Found(best, cap if mass >= goal else mass)


def dp(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """Dynamic programming over a bitset of reachable sums: O(n·cap/64) time, n·cap bits of memory.

    Needs n·cap <= 2**31. Complete: bit s of the k-th set says whether the first k values have a
    subset of mass s.
    """
    require(_dp_bits(values, cap) <= DP_MAX_BITS, "method 'dp' needs a smaller common denominator")
    full = (1 << (cap + 1)) - 1
    prefixes = [1]
    for value in values:
        if prefixes[-1].bit_length() > goal:
            break
        if deadline.passed():
            return Found(greedy(values, cap), cap)
        # A shift beyond the cap would only be masked away, at the cost of its memory.
        shifted = prefixes[-1] << value if value <= cap else 0
        prefixes.append((prefixes[-1] | shifted) & full)
    mass = left = prefixes[-1].bit_length() - 1
    chosen = 0
    for k in range(len(prefixes) - 2, -1, -1):
        if not prefixes[k] >> left & 1:
            chosen |= 1 << k
            left -= values[k]
    return Found(chosen, cap if mass >= goal else mass)


def fill(
    values: Sequence[int],
    cap: int,
    goal: int,
    deadline: Deadline,
    sizes: Sequence[int] = _FILL_FREE_ITEMS,
) -> Found:
    """Choose among most values by a rule, then meet in the middle on a few: for many values.

    O(n log n + 2^(k/2)) with k = 24, 30 and 36 free values in turn, each with three rules for the
    others. A heuristic: it proves a subset optimal only where the cap itself is met.

    The rules aim at cap − F/2, where F is the mass of the free values, because their subset sums
    lie densest around F/2. They need not reach it: what is left decides how close the sums come.
    """
    best = greedy(values, cap)
    mass = mass_of(values, best)

    def by_rule(rule: Callable[..., tuple[int, list[int]]], size: int) -> int:
        base, free = rule(values, cap, size)
        return _completed(values, base, free, cap, goal, deadline)

    candidates: list[Callable[[], int]] = []
    for size in sizes:
        candidates.append(functools.partial(by_rule, _large_first, size))
        candidates.append(functools.partial(by_rule, _middle_window, size))
        candidates.append(functools.partial(fill_by_number, values, cap, goal, size, deadline))
    for candidate in candidates:
        if mass >= goal or deadline.passed():
            break
        chosen = candidate()
        if mass_of(values, chosen) > mass:
            best, mass = chosen, mass_of(values, chosen)
    return Found(best, cap)


def _large_first(values: Sequence[int], cap: int, size: int) -> tuple[int, list[int]]:
    """The smallest values are free; of the others, from the largest on, whatever fits is taken."""
    places = range(len(values))
    free = list(places[-size:])
    room = max(cap - sum(values[k] for k in free) // 2, 0)
    return greedy(values[:-size], room), free


def _middle_window(values: Sequence[int], cap: int, size: int) -> tuple[int, list[int]]:
    """Evenly spaced values are free; of the others, in order, a run of neighbours is taken.

    For nearly equal values, whose sums are right only for the right number of them: as a run of
    this length moves along, its mass changes in steps as small as the differences of the values.

    Some run fits: the lightest has at most its share of the mean a of the others, which exceeds the
    aim by at most a/2, and a <= F because the largest value is free.
    """
    n = len(values)
    free = sorted({j * n // size for j in range(size)})
    others = sorted(set(range(n)) - set(free))
    aim = cap - sum(values[k] for k in free) // 2
    prefix = [0, *accumulate(values[k] for k in others)]
    count = len(others)

    def miss(start: int, length: int) -> int:
        mass = prefix[start + length] - prefix[start]
        return abs(mass - aim) if mass <= cap else cap + aim

    length = min(range(count + 1), key=lambda m: abs(prefix[count] * m - aim * count))
    start = min(range(count - length + 1), key=lambda first: miss(first, length))
    return sum(1 << k for k in others[start : start + length]), free


def _completed(
    values: Sequence[int], base: int, free: list[int], cap: int, goal: int, deadline: Deadline
) -> int:
    """A subset of mass <= cap: `base` and what `mitm` adds to it from the free places.

    Free values too wide for the kernels are rounded up to a coarser unit, so that what fits in it
    fits exactly as well.
    """
    start = mass_of(values, base)
    room = sum(values[k] for k in free)
    rest = min(cap - start, room)
    shift = max(room.bit_length() - _COARSE_BITS, 0)
    coarse = [-(-values[k] >> shift) for k in free]
    coarse_goal = min(max(goal - start, 0), rest) >> shift
    added = mitm(coarse, rest >> shift, coarse_goal, deadline).chosen
    return base | sum(1 << k for j, k in enumerate(free) if added >> j & 1)


def reachable_cap(values: Sequence[int], cap: int) -> int:
    """An upper bound on the subset sums up to `cap`, of at most cap, from common divisors.

    Two arguments, taken in turn until neither lowers the bound:

    - Let g be the greatest common divisor of the largest k values and R the mass of the others.
      Every sum lies in some [j·g, j·g + R], so that none lies in (⌊cap/g⌋·g + R, cap].
    - Let g = 2¹⁶. The remainders of the sums modulo g are the sums, modulo g, of the remainders of
      the values; no sum lies between cap and the next smaller number with such a remainder. This
      includes what smaller powers of 2 have to say, such as parity for even values. It is left out
      for W >= 2⁴⁶, where g is too small to matter to a rounded θ.

    O(n) divisions, and O(n·g/64) for the remainders at worst.
    """
    bands = _bands(values)
    reached = _remainders(values)
    bound = cap
    while True:
        lower = min((bound // g * g + rest for g, rest in bands), default=bound)
        lower = min(lower, bound)
        if reached is not None:
            offset = lower % _MODULUS
            # 0 is a remainder, that of the empty sum, so that there is one up to the offset.
            lower -= offset + 1 - (reached & ((2 << offset) - 1)).bit_length()
        if lower == bound:
            return bound
        bound = lower


def difference_bound(values: Sequence[int], cap: int) -> int:
    """An upper bound on the subset sums up to `cap`, of at most cap, from a common difference.

    Let g be the greatest common divisor of the differences of the n values and a one of them. A sum
    of k values is k·a modulo g. For each number k such that some k values weigh more than cap and
    some do not, that leaves the next smaller number of this kind below the cap; besides, there are
    the k largest for the greatest k of which any fit (`straddling_counts`). O(n log).
    """
    least = values[-1]
    divisor = math.gcd(*(value - least for value in values))
    prefix = [0, *accumulate(values)]
    fitting, straddling = straddling_counts(prefix, 0, cap)
    if divisor <= 1:
        # 1 bounds nothing; 0 stands for equal values, of which no number straddles.
        return cap if straddling else prefix[fitting]
    return max([prefix[fitting], *(cap - (cap - k * least) % divisor for k in straddling)])


def _bands(values: Sequence[int]) -> list[tuple[int, int]]:
    """(g, R) with R < g, as in `reachable_cap`."""
    rest = sum(values)
    divisor = 0
    bands = []
    for value in values:
        rest -= value
        divisor = math.gcd(divisor, value)
        if divisor == 1:
            break
        if rest < divisor:
            bands.append((divisor, rest))
    return bands


def _remainders(values: Sequence[int]) -> int | None:
    """Bitset of the remainders that the subset sums have modulo 2¹⁶; None for all of them."""
    if sum(values).bit_length() > _MODULUS.bit_length() + 29:
        return None
    full = (1 << _MODULUS) - 1
    reached = 1
    # The smallest first, which are the least likely to be multiples of a large power of 2.
    for value in reversed(values):
        remainder = value % _MODULUS
        reached |= (reached << remainder | reached >> (_MODULUS - remainder)) & full
        if reached == full:
            return None
    return reached


def branch(
    values: Sequence[int],
    cap: int,
    goal: int,
    deadline: Deadline,
    leaves: float = math.inf,
    nodes: float = math.inf,
) -> Found:
    """Branch on the largest values, bound by sums and numbers of the others, meet at the leaves.

    Complete, depth first, each value taken before it is left; gives up after so many leaves or
    nodes. Let r be the room for the values still to be decided. The branch is closed where no
    number of them straddles r (`straddling_counts`), with the largest that fit: all of them, or
    none, or the k largest where no k + 1 fit. Where few enough are left, they are met in the
    middle; their sums are listed once for all leaves. Exponential at worst in the number of values
    above the leaves, fast where a few values are heavy.
    """
    prefix = [0, *accumulate(values)]
    solve_leaf, depth = _leaf_solver(values, deadline)
    best = greedy(values, cap)
    mass = mass_of(values, best)
    branches = [(0, 0, 0)]
    try:
        while branches and mass < goal and leaves > 0 and nodes > 0:
            deadline.check()
            nodes -= 1
            k, start, chosen = branches.pop()
            fitting, straddling = straddling_counts(prefix, k, cap - start)
            if not straddling:
                start += prefix[k + fitting] - prefix[k]
                if start > mass:
                    best, mass = chosen | ((1 << fitting) - 1) << k, start
            elif k < depth:
                branches.append((k + 1, start, chosen))
                if start + values[k] <= cap:
                    branches.append((k + 1, start + values[k], chosen | 1 << k))
            else:
                leaves -= 1
                added = solve_leaf(cap - start, goal - start, mass - start)
                if added is not None:
                    best = chosen | added << k
                    mass = mass_of(values, best)
    except TimeUp:
        return Found(best, cap)
    return Found(best, mass if not branches and mass < goal else cap)


def _leaf_solver(
    values: Sequence[int], deadline: Deadline
) -> tuple[Callable[[int, int, int], int | None], int]:
    """A function for the leaves of `branch`, and how many values are decided at a leaf.

    solve(room, enough, known): a subset of the last values with the greatest mass <= room, or one
    of at least `enough`; None if that does not exceed `known`. Raises TimeUp.
    """
    depth = bisect_left(
        range(len(values)), True, key=lambda first: mitm_suits(values[first:], _LEAF_SUMS)
    )
    last = values[depth:]

    def solve_wide(room: int, enough: int, known: int) -> int | None:
        deadline.check()
        chosen = mitm(last, room, enough, deadline).chosen
        return chosen if mass_of(last, chosen) > known else None

    @functools.cache
    def parts() -> tuple[int, tuple[Sequence[int], Sequence[int]], list[Limbs]]:
        cut = best_cut(last)[0]
        both = last[:cut], last[cut:]
        return cut, both, [sorted_sums(part, sum(part), deadline) for part in both]

    def solve(room: int, enough: int, known: int) -> int | None:
        cut, both, sums = parts()
        pair = _kernels.best_pair(*sums[0], *sums[1], *split(room), *split(enough))
        masses = [joined(hi[place], lo[place]) for (hi, lo), place in zip(sums, pair, strict=True)]
        if sum(masses) <= known:
            return None
        head, tail = (
            subset_of_mass(part, mass, deadline) for part, mass in zip(both, masses, strict=True)
        )
        return head | tail << cut

    return (solve if fits_limbs(last) else solve_wide), depth


SEARCHES: dict[str, Search] = {
    "gray": gray,
    "mitm": mitm,
    "quarters": quarters,
    "dp": dp,
    "fill": fill,
    "cardinality": cardinality,
    "branch": branch,
    "groups": groups,
}


def quick_exact(values: Sequence[int], cap: int) -> str | None:
    """The exact search that ends within a millisecond or so, if there is one."""
    if len(values) <= _GRAY_BEST_UP_TO and fits_limbs(values):
        return "gray"
    if _dp_bits(values, cap) <= _DP_CHEAP_BITS:
        return "dp"
    # Each of many values costs a pass over the sums so far.
    most = min(_MITM_CHEAP_SUMS, _MITM_CHEAP_WORK // len(values))
    return "mitm" if mitm_suits(values, most) else None


def slow_exact(values: Sequence[int], cap: int) -> str | None:
    """The exact search that ends within some seconds, if there is one."""
    if _dp_bits(values, cap) <= DP_MAX_BITS:
        return "dp"
    return "mitm" if mitm_suits(values) else None


def _dp_bits(values: Sequence[int], cap: int) -> int:
    return len(values) * (cap + 1)


def first_fill(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """`fill` for some milliseconds."""
    return fill(values, cap, goal, deadline, sizes=_FILL_FREE_ITEMS[:2])


def probe(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """`branch` for some hundredths of a second."""
    return branch(values, cap, goal, deadline, leaves=_PROBE_LEAVES, nodes=_PROBE_NODES)


def quick_groups(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """`groups` for some milliseconds."""
    return groups(values, cap, goal, deadline, _QUICK_GROUPS)


def more_groups(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """`groups` for some tenths of a second."""
    return groups(values, cap, goal, deadline, _MOST_GROUPS)


def last_resort(values: Sequence[int], cap: int) -> str:
    """A complete search, whatever time it takes."""
    slow = slow_exact(values, cap)
    if slow is not None:
        return slow
    small = fits_limbs(values) and len(values) <= _QUARTERS_BEST_UP_TO
    return "quarters" if small else "branch"
