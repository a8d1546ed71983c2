"""The independent checkers: against direct enumeration, and with wrong certificates."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verify import certificates

WEIGHTS = st.lists(
    st.one_of(
        st.integers(0, 50), st.fractions(0, 5), st.floats(0, 1), st.sampled_from([0, 1, 2**-40])
    ),
    min_size=0,
    max_size=10,
)


@given(WEIGHTS)
def test_least_discrepancy_is_the_minimum_over_subsets(weights: list[object]) -> None:
    by_enumeration = min(
        certificates.subset_discrepancy(weights, mask)
        for mask in itertools.product((False, True), repeat=len(weights))
    )
    assert certificates.least_discrepancy(weights) == by_enumeration


@pytest.mark.parametrize(
    ("weights", "discrepancy"),
    [
        ((60, 25, 15), 20),
        ((490, 250, 249, 7, 4), 2),
        ((210, 205, 200, 195, 190), 170),
        ((3, 3, 2, 2, 1), 1),
        ((9, 15, 21, 6, 12), 3),
        ((1, 1, 4, 4, 4, 4, 4), 2),
        ((8, 7, 6, 5, 4), 0),
        ((64, 64, 32, 16, 8, 4, 2, 1), 1),
        ((2**70 + 1, 2**70), 1),
    ],
)
def test_least_discrepancy_of_known_instances(weights: tuple[int, ...], discrepancy: int) -> None:
    assert certificates.least_discrepancy(weights) == discrepancy
    total = sum(weights)
    assert certificates.theta_reference(weights) == 1 - Fraction(discrepancy, total) ** 2


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="nonnegative"):
        certificates.least_discrepancy([1, -1])
    with pytest.raises(ValueError, match="positive"):
        certificates.theta_reference([0, 0])
    with pytest.raises(ValueError, match="mask of length 1"):
        certificates.subset_discrepancy([1, 2], [True])


def test_a_norm_certificate_is_checked_exactly() -> None:
    matrix = [[Fraction(3), Fraction(4)]]
    assert certificates.is_norm_certificate(matrix, Fraction(5))
    assert not certificates.is_norm_certificate(matrix, Fraction(4999999, 1000000))
    assert not certificates.is_norm_certificate(matrix, Fraction(-5))
