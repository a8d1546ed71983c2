"""Exact arithmetic: floats as dyadic rationals, outward-rounded balls, LDLᵀ over the rationals."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verify import exact

THIRD = Fraction(1, 3)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, Fraction(3)),
        (True, Fraction(1)),
        (Fraction(2, 6), THIRD),
        (0.5, Fraction(1, 2)),
        (0.1, Fraction(3602879701896397, 2**55)),
        (np.float32(0.1), Fraction(13421773, 2**27)),
        (np.float16(0.1), Fraction(819, 2**13)),
        (ml_dtypes.bfloat16(0.1), Fraction(205, 2**11)),
        (np.longdouble(1) / 3, Fraction(*(np.longdouble(1) / 3).as_integer_ratio())),
        (np.int64(-7), Fraction(-7)),
        (5e-324, Fraction(1, 2**1074)),
    ],
)
def test_as_fraction_reads_the_exact_value(value: object, expected: Fraction) -> None:
    assert exact.as_fraction(value) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_as_fraction_refuses_what_is_not_finite(value: object) -> None:
    with pytest.raises(ValueError, match="not finite"):
        exact.as_fraction(value)


@pytest.mark.parametrize("value", [1j, np.complex128(1), "1", b"1", None, [1]])
def test_as_fraction_refuses_what_is_no_real_number(value: object) -> None:
    with pytest.raises(TypeError, match="no real number"):
        exact.as_fraction(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_dyadic_is_exact_and_odd(value: float) -> None:
    mantissa, exponent = exact.dyadic(value)
    assert Fraction(mantissa) * Fraction(2) ** exponent == Fraction(value)
    assert mantissa % 2 == 1 or (mantissa, exponent) == (0, 0)


@given(st.fractions(), st.integers(20, 200))
def test_a_ball_contains_its_rational(value: Fraction, bits: int) -> None:
    with exact.precision(bits):
        enclosure = exact.ball(value)
        assert exact.lower_end(enclosure) <= value <= exact.upper_end(enclosure)


def test_precision_is_restored_after_an_error() -> None:
    before = flint.ctx.prec
    with pytest.raises(RuntimeError), exact.precision(333):
        raise RuntimeError
    assert flint.ctx.prec == before


def test_ends_of_an_unbounded_ball_are_refused() -> None:
    with pytest.raises(ValueError, match="unbounded"):
        exact.lower_end(flint.arb("nan"))


def test_comparisons_have_three_outcomes() -> None:
    third = exact.ball(THIRD)
    assert exact.three_valued(third, "<", 1) is True
    assert exact.three_valued(third, ">", 1) is False
    assert exact.three_valued(third, ">=", 0) is True
    assert exact.three_valued(third, "<=", THIRD) is None
    assert exact.three_valued(third, ">", THIRD) is None
    assert exact.three_valued(third, "==", THIRD) is None
    assert exact.three_valued(third, "==", 1) is False
    assert exact.three_valued(exact.ball(2), "==", 2) is True
    assert exact.three_valued(exact.ball(2), "<=", 2) is True
    assert exact.three_valued(exact.ball(2), "<", 2) is False
    assert exact.three_valued(flint.arb("nan"), "<", 2) is None
    assert exact.three_valued(THIRD, "==", Fraction(2, 6)) is True


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9).filter(lambda v: len(v) in (1, 4, 9)))
def test_semidefinite_agrees_with_eigenvalues(entries: list[int]) -> None:
    n = math.isqrt(len(entries))
    root = np.array(entries).reshape(n, n)
    shifted = root + root.T
    eigenvalues = np.linalg.eigvalsh(shifted.astype(float))
    if min(abs(eigenvalues)) < 1e-9:
        return  # a float cannot tell; the Gram matrices below have exact zero eigenvalues
    rows = [[Fraction(int(x)) for x in row] for row in shifted]
    assert exact.is_positive_semidefinite(rows) == bool(eigenvalues[0] > 0)


@given(st.lists(st.integers(-5, 5), min_size=6, max_size=6))
def test_gram_matrices_are_semidefinite(entries: list[int]) -> None:
    factor = np.array(entries, dtype=object).reshape(3, 2)
    gram = [[Fraction(int(x)) for x in row] for row in factor @ factor.T]
    assert exact.is_positive_semidefinite(gram)
    # The rank is at most 2 of 3, so any shift downwards makes an eigenvalue negative.
    for i in range(3):
        gram[i][i] -= Fraction(1, 10**9)
    assert not exact.is_positive_semidefinite(gram)


def test_a_zero_diagonal_with_a_nonzero_row_is_indefinite() -> None:
    zero, one = Fraction(0), Fraction(1)
    assert exact.ldl_pivots([[zero, one], [one, zero]]) is None
    assert exact.ldl_pivots([[zero, zero], [zero, zero]]) == [zero, zero]


def test_ldl_refuses_matrices_of_the_wrong_form() -> None:
    with pytest.raises(ValueError, match="not square"):
        exact.ldl_pivots([[Fraction(1), Fraction(2)]])
    with pytest.raises(ValueError, match="not symmetric"):
        exact.ldl_pivots([[Fraction(1), Fraction(2)], [Fraction(3), Fraction(1)]])


def test_spectral_norm_is_decided_at_equality() -> None:
    # ‖[[3, 4], [0, 0]]‖₂ = 5 exactly; a wide matrix and its transpose agree.
    wide = [[Fraction(3), Fraction(4)]]
    assert exact.spectral_norm_at_most(wide, Fraction(25))
    assert not exact.spectral_norm_at_most(wide, Fraction(25) - Fraction(1, 10**20))
    assert exact.spectral_norm_at_most([[Fraction(3)], [Fraction(4)]], Fraction(25))
