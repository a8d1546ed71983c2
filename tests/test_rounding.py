"""A-priori rounding bounds: against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verify.rounding import UNIT_ROUNDOFF, downward, gamma, upward

UNIT = Fraction(1, 2**53)


@given(st.integers(0, 2**40))
def test_gamma_is_an_upper_bound_and_close(roundings: int) -> None:
    exact = roundings * UNIT / (1 - roundings * UNIT)
    assert exact <= Fraction(gamma(roundings)) <= exact * (1 + Fraction(1, 1000))


@pytest.mark.parametrize("roundings", [-1, 2**40 + 1])
def test_a_count_out_of_range_is_named(roundings: int) -> None:
    with pytest.raises(ValueError, match="count of roundings"):
        gamma(roundings)


@given(st.lists(st.floats(0, 1e300, allow_subnormal=False), min_size=1, max_size=40))
def test_a_sum_lies_between_its_two_bounds(terms: list[float]) -> None:
    computed = 0.0
    for term in terms:
        computed += term
    exact = sum(map(Fraction, terms), Fraction(0))
    assert Fraction(downward(computed, len(terms))) <= exact
    assert exact <= Fraction(upward(computed, len(terms)))


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_worst_computation_is_covered(sign: int) -> None:
    """A number that lost (or gained) one unit in each of its roundings."""
    for roundings in (1, 10, 1000):
        exact = Fraction(1) / (1 + sign * UNIT) ** roundings
        assert Fraction(downward(1.0, roundings)) <= exact <= Fraction(upward(1.0, roundings))


def test_zero_stays_zero() -> None:
    assert upward(0.0, 5) == 0.0
    assert downward(0.0, 5) == 0.0


def test_a_matrix_product_keeps_to_gamma() -> None:
    """The model, on the product that the bounds are used for: integers too long for float64."""
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(9, 400)), rng.normal(size=(400, 7))
    exact = [
        [
            sum(Fraction(a) * Fraction(b) for a, b in zip(row, column, strict=True))
            for column in right.T
        ]
        for row in left
    ]
    allowed = gamma(400) * (np.abs(left) @ np.abs(right))
    error = np.array(
        [
            [abs(float(Fraction(x) - y)) for x, y in zip(row, exact_row, strict=True)]
            for row, exact_row in zip(left @ right, exact, strict=True)
        ]
    )
    assert np.all(error <= allowed)
    assert error.max() > UNIT_ROUNDOFF
