"""Rounding error of float64 computations, bounded a priori in the standard model.

The model (Higham, Accuracy and Stability of Numerical Algorithms, chapters 2 and 3): one operation
+, −, ×, ÷ or square root returns the exact result times 1 + δ with |δ| <= u = 2⁻⁵³, up to underflow
of at most 2⁻¹⁰⁷⁴. A number that is a sum of products, computed with at most m such factors 1 + δ on
any path from an input to the result, differs from the exact number by at most γ_m = m·u/(1 − m·u)
times the same sum with absolute values in place of all terms. That holds for any order of summation
and with or without fused multiply-add, so it covers matrix products of every BLAS that multiplies
conventionally (no Strassen).
"""

from __future__ import annotations

import math

UNIT_ROUNDOFF = 2.0**-53
# What one multiplication can lose to underflow, generously: the smallest normal number.
UNDERFLOW = 2.0**-1022


def gamma(roundings: int) -> float:
    """An upper bound of γ_m = m·u/(1 − m·u), for 0 <= m <= 2⁴⁰."""
    if not 0 <= roundings <= 2**40:
        raise ValueError(f"a count of roundings between 0 and 2^40 is needed, not {roundings}")
    # 1/(1 − m·u) <= 1 + 2⁻¹² for m <= 2⁴⁰; a product with three factors rounds twice.
    product = roundings * UNIT_ROUNDOFF
    return product * (1.0 + 2.0 * product) * (1.0 + 8.0 * UNIT_ROUNDOFF)


def upward(value: float, roundings: int) -> float:
    """An upper bound of a nonnegative number that was computed as ``value``.

    All terms must be nonnegative: then the exact number is at most value/(1 − γ_m), plus underflow.
    Zero stays zero (a sum of products of which none underflowed to zero, as the caller sees to).
    """
    if value == 0.0:
        return 0.0
    return math.nextafter(value * (1.0 + 2.0 * gamma(roundings + 2)), math.inf)


def downward(value: float, roundings: int) -> float:
    """A lower bound of a nonnegative number computed from nonnegative terms as ``value``."""
    return max(0.0, math.nextafter(value * (1.0 - 2.0 * gamma(roundings + 2)), -math.inf))
