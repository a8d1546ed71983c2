"""Exact arithmetic: rationals, floats as the dyadic rationals that they are, and balls.

A ball is python-flint's ``arb``: a midpoint and a radius, rounded outwards in every operation, so
that it always contains the true real number. Comparisons of balls have three outcomes.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias

import flint

Ball: TypeAlias = flint.arb
ExactNumber: TypeAlias = int | Fraction | flint.arb
RationalMatrix: TypeAlias = Sequence[Sequence[Fraction]]


def as_fraction(value: object) -> Fraction:
    """The exact rational value of an int, a Fraction or a finite float (any NumPy float type).

    Raises ``ValueError`` for NaN and infinities and ``TypeError`` for anything that is no real
    number. A float is read as the dyadic rational that it is: ``as_fraction(0.1) != 1/10``.
    """
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    is_complex = isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real)
    if is_complex or not hasattr(value, "__float__"):
        raise TypeError(f"{type(value).__name__} is no real number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not finite")
    # float() is exact up to 64 bits; longer NumPy types bring their own ratio.
    numerator, denominator = getattr(value, "as_integer_ratio", number.as_integer_ratio)()
    return Fraction(int(numerator), int(denominator))


def dyadic(value: float) -> tuple[int, int]:
    """Integers (m, e) with ``value == m * 2**e`` exactly and m odd (or m = e = 0)."""
    numerator, denominator = value.as_integer_ratio()
    if numerator == 0:
        return 0, 0
    exponent = 1 - denominator.bit_length()
    trailing = (numerator & -numerator).bit_length() - 1
    return numerator >> trailing, exponent + trailing


@contextlib.contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with balls at this many bits inside the block."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


def ball(value: ExactNumber | float) -> Ball:
    """A ball that contains the exact value (floats are dyadic rationals)."""
    if isinstance(value, flint.arb):
        return value
    exact = as_fraction(value)
    # fmpq division rounds outwards at the working precision.
    return flint.arb(flint.fmpq(exact.numerator, exact.denominator))


def _exact_arf(value: Ball) -> Fraction:
    mantissa, exponent = value.man_exp()
    m, e = int(mantissa), int(exponent)
    return Fraction(m * 2**e) if e >= 0 else Fraction(m, 2**-e)


def lower_end(value: Ball) -> Fraction:
    """A rational lower bound of everything in the ball (exactly midpoint − radius)."""
    _require_finite(value)
    return _exact_arf(value.mid()) - _exact_arf(value.rad())


def upper_end(value: Ball) -> Fraction:
    """A rational upper bound of everything in the ball (exactly midpoint + radius)."""
    _require_finite(value)
    return _exact_arf(value.mid()) + _exact_arf(value.rad())


def _require_finite(value: Ball) -> None:
    if not value.is_finite():
        raise ValueError("the ball is unbounded or not a number")


_OPERATORS = {
    "==": operator.eq,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}


def three_valued(lhs: ExactNumber, relation: str, rhs: ExactNumber) -> bool | None:
    """Whether ``lhs relation rhs``: True or False when certain, None when the balls overlap.

    An equality of balls is certain only when both are exact numbers; it is certainly false when
    they are disjoint. Where that matters, compare an enclosure with two bounds instead.
    """
    if not isinstance(lhs, flint.arb) and not isinstance(rhs, flint.arb):
        return bool(_OPERATORS[relation](lhs, rhs))
    left, right = ball(lhs), ball(rhs)
    if not left.is_finite() or not right.is_finite():
        return None
    left_low, left_high = lower_end(left), upper_end(left)
    right_low, right_high = lower_end(right), upper_end(right)
    if relation in ("<", "<="):
        return _certain(left_high, left_low, relation, right_low, right_high)
    if relation in (">", ">="):
        return _certain(left_low, left_high, relation, right_high, right_low)
    if left_high < right_low or right_high < left_low:
        return False
    return True if left_low == left_high == right_low == right_high else None


def _certain(
    worst_left: Fraction,
    best_left: Fraction,
    relation: str,
    worst_right: Fraction,
    best_right: Fraction,
) -> bool | None:
    compare = _OPERATORS[relation]
    if compare(worst_left, worst_right):
        return True
    return None if compare(best_left, best_right) else False


# ------------------------------------------------------------------------ rational matrices


def ldl_pivots(matrix: RationalMatrix) -> list[Fraction] | None:
    """Pivots of an exact LDLᵀ of a symmetric rational matrix with diagonal pivoting.

    Returns None when a zero diagonal meets a nonzero row, which no semidefinite matrix has.
    The signs of the pivots are the signs of the eigenvalues (Sylvester).
    """
    work = [[Fraction(x) for x in row] for row in matrix]
    n = len(work)
    if any(len(row) != n for row in work):
        raise ValueError("the matrix is not square")
    if any(work[i][j] != work[j][i] for i in range(n) for j in range(i)):
        raise ValueError("the matrix is not symmetric")
    left = list(range(n))
    pivots: list[Fraction] = []
    while left:
        k = next((i for i in left if work[i][i] != 0), None)
        if k is None:
            if any(work[i][j] != 0 for i in left for j in left):
                return None
            pivots.extend([Fraction(0)] * len(left))
            break
        pivot = work[k][k]
        pivots.append(pivot)
        left.remove(k)
        for i in left:
            factor = work[i][k] / pivot
            if factor:
                for j in left:
                    work[i][j] -= factor * work[k][j]
    return pivots


def is_positive_semidefinite(matrix: RationalMatrix) -> bool:
    """Exact test, by LDLᵀ over the rationals. An n×n matrix costs O(n³) rational operations."""
    pivots = ldl_pivots(matrix)
    return pivots is not None and all(pivot >= 0 for pivot in pivots)


def spectral_norm_at_most(matrix: RationalMatrix, bound_squared: Fraction) -> bool:
    """Whether ‖M‖₂² <= bound_squared exactly: bound_squared·I − MᵀM is positive semidefinite."""
    rows = [[Fraction(x) for x in row] for row in matrix]
    columns = range(len(rows[0]))
    gram = [[sum((row[i] * row[j] for row in rows), Fraction(0)) for j in columns] for i in columns]
    return is_positive_semidefinite(
        [
            [(bound_squared if i == j else Fraction(0)) - gram[i][j] for j in columns]
            for i in columns
        ]
    )
