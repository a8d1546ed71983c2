"""The subset masses closest to a target, from below and from above."""

import math
from fractions import Fraction
from numbers import Rational

import numpy as np

from theory.theta import _search
from theory.theta._cardinality import cardinality, exchange_distance
from theory.theta._found import Deadline, Search, mass_of, require
from theory.theta._numbers import exact_fraction, read_numbers
from theory.theta._row import Row, fault, read_row, reduce_values, subset_mask
from theory.theta._solve import checked_budget
from theory.theta._types import ClosestMass, Status


def closest_mass(weights: object, target: object, *, budget: float | None = None) -> ClosestMass:
    """The greatest subset mass at most `target` and the least at least `target`, exactly.

    weights: (L,) as in `solve_theta`; they need not sum to 1. target: an int, Fraction or float
    (read exactly) between 0 and the total, in the units of the weights. budget: seconds, None for
    no limit.

    Settled for up to 44 items (40 where weights span 2¹²²; equal weights collapse to about log₂ of
    their number) by meet in the middle, for any number over a small common denominator by dynamic
    programming, where a subset meets the target or what common divisors leave of it, and where
    numbers of items or a brief branch and bound prove it; otherwise the status is BOUNDED and the
    bounds are true.

    Raises ValueError for a faulty row or a target out of range, TypeError for what is no number.
    """
    numbers = read_numbers(weights, "weights")
    shape = numbers.values.shape
    require(len(shape) == 1, f"weights: expected one row, got shape {shape}")
    reason = fault(numbers.values)
    require(reason is None, f"weights: the row {reason}")
    row = read_row(numbers.values)
    aim = _exact_target(target) / row.unit
    require(0 <= aim <= row.total, "target: must lie between 0 and the total weight")
    deadline = Deadline(checked_budget(budget))
    floor, ceiling = aim.__floor__(), aim.__ceil__()
    below, below_limit = _greatest(row, floor, deadline)
    below_mass = sum(row.values[k] for k in below)
    if below_mass == aim:
        above, above_mass, above_limit = below, below_mass, below_mass
    else:
        # A mass is at least the target where its complement is at most the total minus the target.
        left, left_limit = _greatest(row, row.total - ceiling, deadline)
        above = sorted(set(range(len(row.values))) - set(left))
        above_mass = row.total - sum(row.values[k] for k in left)
        above_limit = row.total - left_limit
    optimal = below_mass == below_limit and above_mass == above_limit
    return ClosestMass(
        below=below_mass * row.unit,
        above=above_mass * row.unit,
        below_subset=subset_mask(row, below),
        above_subset=subset_mask(row, above),
        status=Status.OPTIMAL if optimal else Status.BOUNDED,
        bounds=(
            (below_mass * row.unit, below_limit * row.unit),
            (above_limit * row.unit, above_mass * row.unit),
        ),
    )


def _exact_target(target: object) -> Fraction:
    if isinstance(target, bool) or not isinstance(target, Rational | float | np.floating):
        raise TypeError(f"target: expected a number, got {type(target).__name__}")
    is_finite = isinstance(target, Rational) or math.isfinite(target)
    require(is_finite, "target: expected a finite number")
    return exact_fraction(target)


def _greatest(row: Row, cap: int, deadline: Deadline) -> tuple[list[int], int]:
    """A subset of mass at most `cap`, and the greatest mass up to it that a subset may have."""
    all_but_least = row.total - row.values[-1]
    if all_but_least <= cap < row.total:
        # The heaviest proper subset fits, and the whole row does not.
        return list(range(len(row.values) - 1)), all_but_least
    instance = reduce_values(row.values, 0)
    values = instance.values
    bound = _search.reachable_cap(values, _search.difference_bound(row.values, cap))
    best, mass, limit = 0, 0, bound
    for search in _searches(values, bound):
        found = search(values, bound, bound, deadline)
        limit = min(limit, found.limit)
        if mass_of(values, found.chosen) > mass:
            best, mass = found.chosen, mass_of(values, found.chosen)
        if mass == limit or deadline.passed():
            break
    return instance.expand(best), limit


def _searches(values: list[int], cap: int) -> tuple[Search, ...]:
    """An exact search where one ends within seconds, and else those that may happen to prove."""
    exact = _search.quick_exact(values, cap) or _search.slow_exact(values, cap)
    if exact is not None:
        return (_search.SEARCHES[exact],)
    if exchange_distance(values, cap) < math.inf:
        return _search.fill, cardinality, _search.probe
    return _search.fill, _search.probe
