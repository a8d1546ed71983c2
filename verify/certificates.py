"""Independent exact checkers of certificates, and slow exact references.

Nothing here is shared with the solvers whose answers are checked. All results are equalities in
rational arithmetic.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from fractions import Fraction

from verify.exact import RationalMatrix, as_fraction, spectral_norm_at_most


def subset_discrepancy(weights: Sequence[object], subset: Sequence[bool]) -> Fraction:
    """|2 w(S) − W| of a subset given as a mask of the same length, exactly."""
    exact = [as_fraction(weight) for weight in weights]
    if len(exact) != len(subset):
        raise ValueError(f"{len(exact)} weights but a mask of length {len(subset)}")
    chosen = sum((w for w, take in zip(exact, subset, strict=True) if take), Fraction(0))
    return abs(2 * chosen - sum(exact, Fraction(0)))


def least_discrepancy(weights: Sequence[object]) -> Fraction:
    """min over subsets of |2 w(S) − W|, by meet in the middle on cleared denominators.

    An independent reference for two-way partitioning: O(2^{n/2}) memory, meant for n <= 40 nonzero
    weights. Raises ``ValueError`` for negative weights.
    """
    exact = [as_fraction(weight) for weight in weights]
    if any(weight < 0 for weight in exact):
        raise ValueError("weights must be nonnegative")
    denominator = math.lcm(*(weight.denominator for weight in exact)) if exact else 1
    integers = [int(weight * denominator) for weight in exact if weight]
    total = sum(integers)
    half = len(integers) // 2
    left, right = sorted(_sums(integers[:half])), sorted(_sums(integers[half:]))
    best = total
    for mass in left:
        # The two sums of the other half around (total/2 − mass).
        k = bisect.bisect_left(right, (total - 2 * mass) // 2)
        for other in right[max(k - 1, 0) : k + 2]:
            best = min(best, abs(2 * (mass + other) - total))
    return Fraction(best, denominator)


def _sums(integers: Sequence[int]) -> set[int]:
    sums = {0}
    for value in integers:
        sums |= {mass + value for mass in sums}
    return sums


def theta_reference(weights: Sequence[object]) -> Fraction:
    """θ(w) = 1 − (D/W)² with D the least discrepancy: exact, for total weight W > 0."""
    total = sum((as_fraction(weight) for weight in weights), Fraction(0))
    if total <= 0:
        raise ValueError("the total weight must be positive")
    return 1 - (least_discrepancy(weights) / total) ** 2


def is_norm_certificate(matrix: RationalMatrix, bound: Fraction) -> bool:
    """Whether ‖M‖₂ <= bound, exactly (an LDLᵀ of bound²·I − MᵀM over the rationals)."""
    return bound >= 0 and spectral_norm_at_most(matrix, bound * bound)
