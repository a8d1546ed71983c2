"""Certified upper bounds on how far from one half all subset masses of a row can be.

``bound_cases`` proves a bound of the form ``min_S |2p(S) − 1| <= slope·p_max + intercept`` for all
descending rows p of at most n atoms with p_max in an interval. For each subset S either
2p(S) − 1 >= δ or 1 − 2p(S) >= δ, where δ is the minimum: the search branches on this for one subset
at a time. At a node δ − slope·p_1 is maximised by a linear program over (p, δ).

* Where the maximum is at most the intercept, the node is a leaf. The float solver only *proposes*
  multipliers. They are rounded to rationals and checked exactly: nonnegative multipliers whose
  combination of the constraints is the objective prove the bound, whatever the solver did.
* Elsewhere take the row at which the program is largest, and its subset of mass nearest to 1/2.
  Either the row breaks the bound, or both branches on this subset cut it off.

The leaves cover all rows, so that leaves alone make a proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from verify.evidence import Case

_SOLVER_ERROR = 1e-9  # what the float solver may miss; it decides where to branch, proves nothing
_LARGEST_DENOMINATOR = 5000  # of rows and multipliers, which solve small integer systems


@dataclass(frozen=True, slots=True)
class Constraint:
    """coefficients · (p_1, …, p_n, δ) <= bound."""

    coefficients: tuple[int, ...]
    bound: Fraction


def largest_support(low: Fraction) -> int:
    """The largest L with (L + 1)·low < 2; see the merging lemma in ``beyond_envelope``."""
    return max(2, -(-2 // low) - 2)


def bound_cases(
    atoms: int, low: Fraction, high: Fraction, slope: Fraction, intercept: Fraction
) -> Iterator[Case]:
    """One case a leaf, ``proved bound on δ − slope·p_1 <= intercept``, or a row that breaks it.

    Rows are p_1 >= … >= p_atoms >= 0 with sum 1 and low <= p_1 <= high. Raises ``RuntimeError``
    where neither a proof nor a counterexample comes out.
    """
    open_nodes: list[tuple[Constraint, ...]] = [(_unit_bound(atoms),)]
    while open_nodes:
        branch = open_nodes.pop()
        constraints = (*_ordered_rows(atoms, low, high), *branch)
        point, multipliers, of_sum = _solve(atoms, constraints, slope)
        if point[atoms] - float(slope) * point[0] <= float(intercept) + _SOLVER_ERROR:
            proved = _proved_bound(atoms, constraints, slope, multipliers, of_sum)
            if proved > intercept:
                raise RuntimeError("the bound is missed by less than the solver's error")
            yield Case(proved, "<=", intercept, {"atoms": atoms, "branch": len(branch)})
            continue
        row = [_rational(atom) for atom in point[:atoms]]
        subset, distance = _nearest_subset(row)
        if distance > slope * row[0] + intercept:
            if min(row) < 0 or sum(row) != 1 or row[0] != max(row) or not low <= row[0] <= high:
                raise RuntimeError("the solver's point does not round to a row")
            yield Case(distance, "<=", slope * row[0] + intercept, {"p": row})
            return
        open_nodes += [(*branch, _side(atoms, subset, sign)) for sign in (1, -1)]


def _rational(value: float) -> Fraction:
    return Fraction(float(value)).limit_denominator(_LARGEST_DENOMINATOR)


def _unit_bound(atoms: int) -> Constraint:
    """δ <= 1, from the empty subset."""
    return Constraint((*[0] * atoms, 1), Fraction(1))


def _ordered_rows(atoms: int, low: Fraction, high: Fraction) -> Iterator[Constraint]:
    for i in range(atoms - 1):
        yield Constraint(tuple((j == i + 1) - (j == i) for j in range(atoms + 1)), Fraction(0))
    yield Constraint(tuple(-(j == atoms - 1) for j in range(atoms + 1)), Fraction(0))
    yield Constraint(tuple(+(j == 0) for j in range(atoms + 1)), high)
    yield Constraint(tuple(-(j == 0) for j in range(atoms + 1)), -low)


def _side(atoms: int, subset: Sequence[int], sign: int) -> Constraint:
    """δ <= 2p(S) − 1 for sign = 1, δ <= 1 − 2p(S) for sign = −1."""
    row = [-2 * sign * (j in subset) for j in range(atoms)]
    return Constraint((*row, 1), Fraction(-sign))


def _solve(
    atoms: int, constraints: Sequence[Constraint], slope: Fraction
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Maximise δ − slope·p_1: (point, multipliers of the constraints, multiplier of the sum)."""
    from scipy.optimize import linprog

    cost = np.zeros(atoms + 1)
    cost[0], cost[atoms] = float(slope), -1.0
    result = linprog(
        cost,
        A_ub=np.array([c.coefficients for c in constraints], dtype=float),
        b_ub=np.array([float(c.bound) for c in constraints]),
        A_eq=np.array([[1.0] * atoms + [0.0]]),
        b_eq=np.array([1.0]),
        bounds=[(None, None)] * (atoms + 1),
        method="highs",
    )
    if result.status != 0:
        raise RuntimeError(f"the linear program ended with {result.message!r}")
    return result.x, -result.ineqlin.marginals, -float(result.eqlin.marginals[0])


def _proved_bound(
    atoms: int,
    constraints: Sequence[Constraint],
    slope: Fraction,
    multipliers: NDArray[np.float64],
    of_sum: float,
) -> Fraction:
    """The bound that rationalised multipliers prove, by weak duality, in exact arithmetic."""
    weights = [_rational(w) for w in multipliers]
    sum_weight = _rational(of_sum)
    combination = [
        sum((w * c.coefficients[j] for w, c in zip(weights, constraints, strict=True)), Fraction(0))
        + (sum_weight if j < atoms else 0)
        for j in range(atoms + 1)
    ]
    objective = [-slope, *[Fraction(0)] * (atoms - 1), Fraction(1)]
    if min(weights) < 0 or combination != objective:
        raise RuntimeError("the solver's multipliers do not round to a proof")
    bounds = sum((w * c.bound for w, c in zip(weights, constraints, strict=True)), Fraction(0))
    return bounds + sum_weight


def _nearest_subset(p: Sequence[Fraction]) -> tuple[tuple[int, ...], Fraction]:
    """The subset with the first atom whose mass is nearest to 1/2, and |2p(S) − 1|."""
    masses = [p[0]]
    for atom in p[1:]:
        masses += [mass + atom for mass in masses]
    distance, best = min((abs(2 * mass - 1), number) for number, mass in enumerate(masses))
    # Bit i − 1 of the number says whether the subset has atom i.
    return (0, *(i for i in range(1, len(p)) if best >> (i - 1) & 1)), distance
