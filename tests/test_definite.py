"""Proved eigenvalue bounds: against exact LDLᵀ over the rationals."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verify.definite import (
    FloatArray,
    is_positive_semidefinite_in_balls,
    largest_eigenvalue_at_most,
    largest_eigenvalue_upper_bound,
    smallest_eigenvalue_lower_bound,
    spectral_norm_upper_bound,
)
from verify.exact import as_fraction, is_positive_semidefinite, spectral_norm_at_most

ENTRIES = st.one_of(
    st.integers(-4, 4).map(float),
    st.sampled_from([0.0, 1e-200, -1e-200, 5e-324, 2.0**-40, 1e100]),
    st.floats(-10, 10),
)


@st.composite
def symmetric(draw: st.DrawFn, largest: int = 5) -> FloatArray:
    size = draw(st.integers(1, largest))
    rows = draw(
        st.lists(st.lists(ENTRIES, min_size=size, max_size=size), min_size=size, max_size=size)
    )
    lower = np.tril(np.array(rows))
    return lower + np.tril(lower, -1).T


def exactly(matrix: FloatArray, factor: int, shift: Fraction) -> list[list[Fraction]]:
    """factor·A + shift·I over the rationals."""
    return [
        [factor * as_fraction(x) + (shift if i == j else 0) for j, x in enumerate(row)]
        for i, row in enumerate(matrix)
    ]


@given(symmetric())
@settings(max_examples=200)
def test_the_smallest_eigenvalue_is_bounded_from_below(matrix: FloatArray) -> None:
    bound = smallest_eigenvalue_lower_bound(matrix)
    if bound > -math.inf:
        assert is_positive_semidefinite(exactly(matrix, 1, -as_fraction(bound)))


@given(symmetric())
@settings(max_examples=200)
def test_the_largest_eigenvalue_is_bounded_from_above(matrix: FloatArray) -> None:
    bound = largest_eigenvalue_upper_bound(matrix)
    assert is_positive_semidefinite(exactly(matrix, -1, as_fraction(bound)))
    size = len(matrix) * np.max(np.abs(matrix))
    assert bound <= np.linalg.eigvalsh(matrix)[-1] + 1e-12 * size + 1e-300


@given(symmetric(), st.floats(-20, 20))
@settings(max_examples=200)
def test_a_target_that_is_accepted_is_proved(matrix: FloatArray, target: float) -> None:
    bound = largest_eigenvalue_at_most(matrix, target)
    if bound < math.inf:
        assert is_positive_semidefinite(exactly(matrix, -1, as_fraction(bound)))


def test_a_target_below_is_refused_and_one_above_accepted() -> None:
    rng = np.random.default_rng(2)
    square = rng.normal(size=(60, 60))
    matrix = square @ square.T
    matrix = (matrix + matrix.T) / 2
    largest = np.linalg.eigvalsh(matrix)[-1]
    assert largest_eigenvalue_at_most(matrix, largest * (1 - 1e-9)) == math.inf
    accepted = largest_eigenvalue_at_most(matrix, largest * (1 + 1e-9))
    assert largest <= accepted <= largest * (1 + 2e-9)


@given(symmetric())
@settings(max_examples=200)
def test_balls_prove_nothing_false(matrix: FloatArray) -> None:
    proved = is_positive_semidefinite_in_balls(flint.arb_mat(matrix.tolist()))
    assert not proved or is_positive_semidefinite(exactly(matrix, 1, Fraction(0)))


def test_balls_prove_what_is_clearly_true() -> None:
    rng = np.random.default_rng(3)
    square = rng.normal(size=(30, 30))
    matrix = flint.arb_mat((square @ square.T + np.eye(30)).tolist())
    assert is_positive_semidefinite_in_balls((matrix + matrix.transpose()) / 2)


def test_a_wide_ball_is_not_believed() -> None:
    matrix = flint.arb_mat([[flint.arb(1, 2.0)]])
    assert not is_positive_semidefinite_in_balls(matrix)


@given(st.lists(st.lists(ENTRIES, min_size=3, max_size=3), min_size=1, max_size=5))
@settings(max_examples=150)
def test_a_spectral_norm_is_bounded_from_above(rows: list[list[float]]) -> None:
    bound = spectral_norm_upper_bound(np.array(rows))
    assert spectral_norm_at_most(
        [[as_fraction(x) for x in row] for row in rows], as_fraction(bound) ** 2
    )
    assert bound <= np.linalg.norm(rows, 2) * (1 + 1e-6) + 1e-100


def test_zero_matrices_have_bound_zero() -> None:
    assert largest_eigenvalue_upper_bound(np.zeros((3, 3))) == 0.0
    assert spectral_norm_upper_bound(np.zeros((2, 3))) == 0.0


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.array([[1.0, 2.0], [3.0, 1.0]]), "not symmetric"),
        (np.array([[math.nan]]), "not finite"),
        (np.ones((2, 3)), "square"),
        (np.ones(3), "square"),
    ],
)
def test_bad_input_is_named(matrix: FloatArray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        smallest_eigenvalue_lower_bound(matrix)
    with pytest.raises(ValueError, match=message):
        largest_eigenvalue_upper_bound(matrix)
