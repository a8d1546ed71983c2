"""Independent exact checkers of certificates, and slow exact references.

Nothing here is shared with the solvers whose answers are checked. All results are equalities in
rational arithmetic, but for those that say "in balls": these are proofs where they say yes.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from fractions import Fraction

import flint

from verify.definite import is_positive_semidefinite_in_balls
from verify.exact import (
    ExactNumber,
    RationalMatrix,
    as_fraction,
    ball,
    is_positive_semidefinite,
    precision,
    spectral_norm_at_most,
)


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


def is_row_norm_certificate(
    blocks: Sequence[RationalMatrix], weights: Sequence[Fraction], bound: Fraction
) -> bool:
    """Whether Σw · Σ_j M_jᵀM_j/w_j ⪯ bound²·I, exactly; it proves Σ_j ‖M_j y‖₂ <= bound·‖y‖₂.

    blocks: L matrices of shape (D, E), the M_j; weights: L positive rationals. By Cauchy–Schwarz
    (Σ_j ‖M_j y‖)² <= Σw · Σ_j ‖M_j y‖²/w_j. Raises ValueError for a weight that is not positive or
    a wrong number of them.
    """
    if len(blocks) != len(weights):
        raise ValueError(f"{len(blocks)} blocks but {len(weights)} weights")
    if any(weight <= 0 for weight in weights):
        raise ValueError("weights must be positive")
    if bound < 0:
        return False
    total = sum((Fraction(weight) for weight in weights), Fraction(0))
    width = range(len(blocks[0][0]) if blocks else 0)
    left = [[bound * bound if a == b else Fraction(0) for b in width] for a in width]
    for block, weight in zip(blocks, weights, strict=True):
        for row in block:
            for a in width:
                for b in width:
                    left[a][b] -= total / weight * row[a] * row[b]
    return is_positive_semidefinite(left)


def is_row_norm_certificate_in_balls(
    blocks: Sequence[flint.arb_mat],
    weights: Sequence[ExactNumber | float],
    bound: ExactNumber | float,
    *,
    bits: int = 100,
) -> bool:
    """`is_row_norm_certificate` for every choice of blocks, (D, E) each, in the ball matrices.

    Floats are the dyadic rationals that they are. True is a proof; False says only that none was
    found, which also happens where the inequality holds by less than about E·2⁻⁵⁰·bound². Costs a
    product of (E, D) by (D, E) ball matrices for each block. Raises ValueError as above.
    """
    if len(blocks) != len(weights):
        raise ValueError(f"{len(blocks)} blocks but {len(weights)} weights")
    with precision(bits):
        shares = [ball(weight) for weight in weights]
        if not all(share > 0 for share in shares):
            raise ValueError("weights must be positive")
        total, limit = sum(shares, ball(0)), ball(bound)
        width = blocks[0].ncols() if blocks else 0
        left = flint.arb_mat(width, width)
        for k in range(width):
            left[k, k] = limit * limit
        for block, share in zip(blocks, shares, strict=True):
            left -= (block.transpose() * block) * (total / share)
        return bool(limit >= 0) and is_positive_semidefinite_in_balls(left, bits=bits)
