"""One row: closed forms, searches, the choice among them, and the final rounding."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from theory.theta import _nearly_equal, _search
from theory.theta._batch import sum_fault
from theory.theta._cardinality import FAR, NEAR, cardinality, exchange_distance
from theory.theta._few_values import closest_multiplicities
from theory.theta._float_kernels import pair_sum
from theory.theta._found import Deadline, Search, require
from theory.theta._groups import MAX_ITEMS as GROUPS_MAX_ITEMS
from theory.theta._numbers import Numbers, read_numbers
from theory.theta._row import (
    ROUNDING_BITS,
    Instance,
    Row,
    fault,
    read_row,
    reduce_values,
    subset_mask,
)
from theory.theta._types import OpenRowError, RowIndex, Status, ThetaSolution

OnOpen = Literal["raise", "nan"]

BRUTE_MAX_ATOMS = 16
# What the float kernels take.
_MOST_FLOAT_BITS = 300


def solve_theta(
    weights: object, *, method: str = "auto", budget: float | None = None
) -> ThetaSolution:
    """θ of one row of weights, with its proof: equality, or true bounds on both sides.

    θ(w) = 1 − (D/W)², D = min over subsets S of |2 w(S) − W|, W = Σ w > 0 (Theorem 3.2's factor
    4 max q(1 − q) without the scale). Floats count as the dyadic rationals that they are.

    weights: (L,) nonnegative finite numbers, not all zero: a list of ints, Fractions or floats, an
    array of any float or integer type, a CPU tensor. They need not sum to 1.
    budget: seconds after which the search gives up (None: never). Kernels run to their end before
    a budget is looked at: some ten milliseconds, a tenth of a second or two for "mitm"'s longest
    lists.
    method: "auto" or one of the following; n is the number of nonzero weights.

    - "dominant": one weight is at least W/2. O(n). It alone is optimal ("odd" with m = 0).
    - "uniform" (all weights equal), "topk" (all nonzero weights equal): O(n). Subset sums are the
      multiples k/n of W, and k = ⌊n/2⌋ is closest to one half.
    - "odd": O(n log n). Sort in descending order; let H be the 2m + 1 largest weights and c the
      mass of the m largest and of all outside H. If c <= W/2 for some m, then D = W − 2c. Proof: a
      subset with at most m weights of H weighs at most c. Any other has at least m + 1 of them, its
      complement at most m, so the complement weighs at most c and the subset at least W − c. No
      mass lies between c <= W/2 and W − c, and c is attained.
    - "few": for weights with few distinct values, O(Π (mᵢ + 1)) over their multiplicities without
      the largest one, at most 2²⁰ choices.
    - "gray": enumeration in Gray-code order, O(2ⁿ), at most 30 items (see below).
    - "mitm": meet in the middle (Horowitz and Sahni), O(2^(n/2)) time and memory; at most 44 items
      (40 where weights span 2¹²²), or any number with at most 2²² distinct sums of the large and of
      the small ones, as multiples of a coarse unit have.
    - "quarters": Schroeppel and Shamir, O(n·2^(n/2)) time, O(2^(n/4)) memory; at most 60 items that
      span less than 2¹²².
    - "dp": a bitset over multiples of the common unit u of all weights, O(n·(W/u)/64); n·W/(2u) at
      most 2³¹.
    - "cardinality": for nearly equal weights, where only few numbers of them can come close to
      W/2: meet in the middle over sums of exchange costs. It leaves the row BOUNDED where these are
      more than 2²¹ on one side. Weights that span less than 2¹²².
    - "exchange": for 25 or more nearly equal weights but for a few, as attention has early in
      training: branch on the few, meet in the middle over sums of exchange costs of the others
      (see `_nearly_equal`). Exact, in float64, for weights that are float64 by value. It leaves the
      row BOUNDED where some hundredths of a second do not do.
    - "groups": for groups of nearly equal weights, and a few besides, as attention has early in
      training: branch on how many of each group are taken, then on how many of each half of it, and
      so on (see `_groups`). Complete, exponential at worst; at most 4096 weights.
    - "branch": branch and bound on the largest weights, complete, exponential at worst; any row.
    - "fill": heuristic for many weights; may leave the row BOUNDED. O(n log n + 2¹⁸).
    - "brute": all 2ⁿ subsets in Fractions, n <= 16; the reference for the others.

    Searches first collapse equal weights (m copies cost about log₂ m + 1 items), and lower W/2 to
    the next mass that common divisors permit. "auto", "fill" and "branch" also set a tail of mass
    at most W/2²⁸ aside without loss, and stop at a subset with D/W <= 2⁻²⁷, for which θ rounds to
    1; the others, called by name, go on to a proved optimum.

    Returns a `ThetaSolution`; a row that stays open has status BOUNDED, θ NaN and true bounds.
    Raises ValueError for a faulty row, an unknown method or a method whose precondition fails,
    TypeError for what is not real numbers.
    """
    numbers = _one_row(weights)
    deadline = Deadline(checked_budget(budget))
    if method not in _METHODS:
        raise ValueError(f"unknown method {method!r}; choose from {', '.join(_METHODS)}")
    return _METHODS[method](read_row(numbers.values), deadline)


def theta(
    p: object, *, check_sum: bool = True, budget: float | None = None, on_open: OnOpen = "raise"
) -> float:
    """θ(p) of one distribution: the float64 nearest to the exact value, ties to even.

    p: (L,) as in `solve_theta`. check_sum: refuse a row whose exact sum is off 1 by more than
    4·eps + 2L·(smallest subnormal) of its type; False takes any positive total, and the value is
    the same either way. budget: seconds, None for no limit. on_open: what to do with a row that
    stays open, "raise" `OpenRowError` or return "nan".

    Raises ValueError and TypeError as `solve_theta` does.
    """
    numbers = _one_row(p)
    deadline = Deadline(checked_budget(budget))
    check_choice("on_open", on_open, ("raise", "nan"))
    row = read_row(numbers.values)
    if check_sum:
        reason = sum_fault(row.total * row.unit, numbers)
        require(reason is None, f"weights: the row {reason}")
    solution = solve_row(row, deadline)
    return theta_or_error(solution, None, on_open)


def theta_or_error(solution: ThetaSolution, index: RowIndex | None, on_open: OnOpen) -> float:
    if solution.status is Status.BOUNDED and on_open == "raise":
        raise OpenRowError(index, (solution.lower, solution.upper))
    return solution.theta


def _one_row(weights: object) -> Numbers:
    numbers = read_numbers(weights, "weights")
    shape = numbers.values.shape
    require(len(shape) == 1, f"weights: expected one row, got shape {shape}; see theta_rows")
    reason = fault(numbers.values)
    require(reason is None, f"weights: the row {reason}")
    return numbers


def checked_budget(budget: object) -> float | None:
    if budget is None:
        return None
    if isinstance(budget, bool) or not isinstance(budget, Real):
        raise TypeError(f"budget: expected seconds or None, got {type(budget).__name__}")
    seconds = float(budget)
    require(seconds >= 0, f"budget: expected seconds >= 0, got {seconds}")
    return seconds


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    require(
        isinstance(value, str) and value in choices,
        f"{name}: expected {' or '.join(map(repr, choices))}, got {value!r}",
    )


def solve_row(row: Row, deadline: Deadline) -> ThetaSolution:
    """The portfolio: closed forms, then searches from the cheapest on."""
    closed = _dominant_subset(row), _topk_subset(row), _odd_subset(row)
    for name, positions in zip(("dominant", "topk", "odd"), closed, strict=True):
        if positions is not None:
            return _closed(row, positions, name)
    open_solutions: list[ThetaSolution] = []
    weights = _nearly_equal_weights(row)
    if weights is not None:
        solution = _exchanged(row, weights, deadline, _nearly_equal.QUICK_STEPS)
        if solution.status is not Status.BOUNDED:
            return solution
        open_solutions.append(solution)
    for instance, name, search in _plan(row):
        solution = _searched(row, instance, name, search, deadline, row.near_half)
        if solution.status is not Status.BOUNDED:
            return solution
        open_solutions.append(solution)
        if deadline.passed():
            break
    return max(open_solutions, key=lambda solution: solution.lower)


def _plan(row: Row) -> Iterator[tuple[Instance, str, Search]]:
    """The searches of "auto", from the cheapest on, and what they search. The last is complete."""
    instance = _reduce(row)
    values, cap = instance.values, row.half // instance.factor
    quick = _search.quick_exact(values, cap)
    if quick is not None:
        yield instance, quick, _search.SEARCHES[quick]
        return
    plain = instance
    if len(values) < instance.tail_start:
        # Numbers of items say something only where equal weights are items of their own.
        plain = reduce_values(row.values, _negligible(row), collapse=False)
    distance = exchange_distance(plain.values, row.half // plain.factor)
    if distance <= NEAR:
        yield plain, "cardinality", cardinality
    suits_groups = len(plain.values) <= GROUPS_MAX_ITEMS
    if suits_groups:
        yield plain, "groups", _search.quick_groups
    yield instance, "fill", _search.first_fill
    if NEAR < distance <= FAR:
        yield plain, "cardinality", cardinality
    yield instance, "fill", _search.fill
    yield instance, "branch", _search.probe
    if suits_groups:
        yield plain, "groups", _search.more_groups
    last = _search.last_resort(values, cap)
    yield instance, last, _search.SEARCHES[last]


def _dominant_subset(row: Row) -> list[int] | None:
    return [0] if 2 * row.values[0] >= row.total else None


def _topk_subset(row: Row) -> list[int] | None:
    return list(range(len(row.values) // 2)) if row.values[0] == row.values[-1] else None


def _odd_subset(row: Row) -> list[int] | None:
    """The closed form "odd" of `solve_theta`: positions of the subset of mass c, if some m fits."""
    n = len(row.values)
    prefix = [0, *accumulate(row.values)]
    for m in range((n + 1) // 2):
        outside = row.total - prefix[2 * m + 1]
        if 2 * (prefix[m] + outside) <= row.total:
            return [*range(m), *range(2 * m + 1, n)]
    return None


def _closed(row: Row, positions: list[int], method: str) -> ThetaSolution:
    mass = sum(row.values[k] for k in positions)
    return _finish(row, positions, min(mass, row.total - mass), method, {})


def _by_closed_form(
    name: str, find: Callable[[Row], list[int] | None], needs: str
) -> Callable[[Row, Deadline], ThetaSolution]:
    def solve(row: Row, _deadline: Deadline) -> ThetaSolution:
        positions = find(row)
        if positions is None:
            raise ValueError(f"method {name!r} needs {needs}")
        return _closed(row, positions, name)

    return solve


def _uniform_subset(row: Row) -> list[int] | None:
    return _topk_subset(row) if len(row.values) == row.length else None


def _brute(row: Row, _deadline: Deadline) -> ThetaSolution:
    n = len(row.values)
    require(n <= BRUTE_MAX_ATOMS, f"method 'brute' needs at most {BRUTE_MAX_ATOMS} nonzero weights")
    weights = [value * row.unit for value in row.values]
    sums = [Fraction(0)]
    for weight in weights:
        sums += [entry + weight for entry in sums]
    total = sum(weights)
    code = min(range(1 << n), key=lambda subset: abs(2 * sums[subset] - total))
    return _closed(row, [k for k in range(n) if code >> k & 1], "brute")


def _few(row: Row, deadline: Deadline) -> ThetaSolution:
    positions, proved = closest_multiplicities(row.values, row.half, deadline)
    mass = sum(row.values[k] for k in positions)
    return _finish(row, positions, mass if proved else row.half, "few", {})


def _nearly_equal_weights(row: Row) -> NDArray[np.float64] | None:
    """The weights in units of the row, if they are nearly equal and float64 by value."""
    if row.total.bit_length() > _MOST_FLOAT_BITS:
        return None
    weights = np.array(row.values, dtype=np.float64)
    if not _nearly_equal.are_nearly_equal(weights, len(weights)):
        return None
    return weights if [int(weight) for weight in weights.tolist()] == row.values else None


def _exchanged(
    row: Row, weights: NDArray[np.float64], deadline: Deadline, most: int
) -> ThetaSolution:
    n = len(weights)
    taken = np.zeros(n, dtype=np.bool_)
    shape = 4, _nearly_equal.LIST_SUMS
    _, _, proved, _ = _nearly_equal.settle_nearly_equal(
        weights,
        n,
        *pair_sum(weights, n),
        most,
        np.empty(shape),
        np.empty(shape, dtype=np.int64),
        taken,
        np.array([deadline.passed()], dtype=np.int64),
    )
    positions = [int(k) for k in np.flatnonzero(taken)]
    mass = sum(row.values[k] for k in positions)
    limit = min(mass, row.total - mass) if proved else row.half
    return _finish(row, positions, limit, "exchange", {})


def _exchange(row: Row, deadline: Deadline) -> ThetaSolution:
    weights = _nearly_equal_weights(row)
    if weights is None:
        raise ValueError("method 'exchange' needs 25 or more nearly equal floats, but for a few")
    return _exchanged(row, weights, deadline, _nearly_equal.MOST_STEPS)


def _by_exact_search(name: str) -> Callable[[Row, Deadline], ThetaSolution]:
    def solve(row: Row, deadline: Deadline) -> ThetaSolution:
        instance = reduce_values(row.values, 0)
        return _searched(row, instance, name, _search.SEARCHES[name], deadline, row.half)

    return solve


def _by_counts(row: Row, deadline: Deadline) -> ThetaSolution:
    instance = reduce_values(row.values, 0, collapse=False)
    return _searched(row, instance, "groups", _search.SEARCHES["groups"], deadline, row.half)


def _by_heuristic(name: str) -> Callable[[Row, Deadline], ThetaSolution]:
    def solve(row: Row, deadline: Deadline) -> ThetaSolution:
        search = _search.SEARCHES[name]
        return _searched(row, _reduce(row), name, search, deadline, row.near_half)

    return solve


def _negligible(row: Row) -> int:
    # 2F <= W / 2**27 is what the lemma on a negligible tail asks.
    return row.total >> (ROUNDING_BITS + 1)


def _reduce(row: Row) -> Instance:
    return reduce_values(row.values, _negligible(row))


def _searched(
    row: Row, instance: Instance, name: str, search: Search, deadline: Deadline, enough: int
) -> ThetaSolution:
    """Search an instance of a row; a subset of the row of mass >= `enough` may end the search."""
    # Collapsed or not, the subset sums are the same.
    bound = _search.difference_bound(row.values[: instance.tail_start], row.half)
    cap = _search.reachable_cap(instance.values, bound // instance.factor)
    goal = min(-(-enough // instance.factor), cap)
    found = search(instance.values, cap, goal, deadline)
    positions = instance.expand(found.chosen)
    mass = sum(row.values[k] for k in positions)
    tail_mass = row.total - instance.total * instance.factor
    for k in range(instance.tail_start, len(row.values)):
        if mass + row.values[k] <= row.half:
            mass += row.values[k]
            positions.append(k)
    # A subset of mass at most W/2 has at most `limit` in the instance and the tail besides.
    limit = min(found.limit * instance.factor + tail_mass, row.half)
    stats = {"items": len(instance.values), "bits": instance.total.bit_length()}
    return _finish(row, positions, limit, name, stats)


def _finish(
    row: Row, positions: list[int], limit: int, method: str, stats: dict[str, int]
) -> ThetaSolution:
    """The solution for a subset, given that no subset has a mass in (limit, W/2]."""
    mass = sum(row.values[k] for k in positions)
    total = row.total
    found, least = abs(total - 2 * mass), total - 2 * limit
    lower, upper = (Fraction((total - d) * (total + d), total * total) for d in (found, least))
    if found == least:
        status = Status.OPTIMAL
    elif float(lower) == float(upper):
        status = Status.ROUNDED
    else:
        status = Status.BOUNDED
    return ThetaSolution(
        # The division of integers inside is correctly rounded, subnormal results included.
        theta=float("nan") if status is Status.BOUNDED else float(lower),
        lower=lower,
        upper=upper,
        subset=subset_mask(row, positions),
        mass=mass * row.unit,
        discrepancy=found * row.unit,
        status=status,
        method=method,
        stats={"atoms": len(row.values), **stats},
    )


_METHODS: dict[str, Callable[[Row, Deadline], ThetaSolution]] = {
    "auto": solve_row,
    "dominant": _by_closed_form("dominant", _dominant_subset, "one weight of at least W/2"),
    "uniform": _by_closed_form("uniform", _uniform_subset, "equal weights, none of them zero"),
    "topk": _by_closed_form("topk", _topk_subset, "equal nonzero weights"),
    "odd": _by_closed_form("odd", _odd_subset, "weights of the odd closed form"),
    "few": _few,
    "gray": _by_exact_search("gray"),
    "mitm": _by_exact_search("mitm"),
    "quarters": _by_exact_search("quarters"),
    "dp": _by_exact_search("dp"),
    "exchange": _exchange,
    "cardinality": _by_exact_search("cardinality"),
    "groups": _by_counts,
    "fill": _by_heuristic("fill"),
    "branch": _by_heuristic("branch"),
    "brute": _brute,
}
