"""The exact helpers that the claims of Section 2 draw their instances from."""

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.claims import _matrices as m
from verify.evidence import Case, Verdict, judge

squares = st.fractions(0, 50, max_denominator=9)


@given(squares, squares, squares)
def test_roots_are_compared_as_their_values(a: Fraction, b: Fraction, c: Fraction) -> None:
    verdict = judge([m.root_at_most_sum(a, b, c, None)], scope="one case").verdict
    gap = math.sqrt(a) - math.sqrt(b) - math.sqrt(c)
    if abs(gap) > 1e-12:
        assert verdict is (Verdict.HOLDS if gap < 0 else Verdict.REFUTED)


def test_roots_at_equality() -> None:
    assert judge([m.root_at_most_sum(8, 2, 2, None)], scope="√8 = 2√2").verdict is Verdict.HOLDS
    assert judge([m.root_at_most_sum(9, 2, 2, None)], scope="3 > 2√2").verdict is Verdict.REFUTED


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=6))
def test_smallest_sigma(x: list[int]) -> None:
    sigma = m.smallest_sigma(x)
    assert sigma**2 >= m.variance(x)
    assert sigma == 1 or (sigma - 1) ** 2 < m.variance(x)


def test_random_tokens_are_what_they_say() -> None:
    rng = random.Random(5)
    seen = set()
    for _ in range(300):
        token = m.random_token(rng)
        seen.add((token.eps == 0, len(set(token.x)) == 1, len(token.x) == 1))
        assert Fraction(token.sigma) ** 2 == m.variance(token.x) + token.eps
        assert sum(token.xhat) == 0
        assert m.squared(token.xhat) == len(token.x) * (1 - token.rho)
    assert {(True, False, False), (False, True, False), (False, True, True)} <= seen


def test_a_token_needs_a_sigma_of_its_own() -> None:
    with pytest.raises(ValueError, match="σ = 1 is no root"):
        m.token([0, 4], 1)
    with pytest.raises(ValueError, match="σ = 0 is no root"):
        m.token([2, 2], 0)


def _verdict(case: Case) -> Verdict:
    return judge([case], scope="one case").verdict


@pytest.mark.parametrize(
    ("matrix", "norm_squared"),
    [
        ([[3, 4]], 25),
        ([[3], [4]], 25),
        ([[1, 1], [0, 0]], 2),
        ([[0, Fraction(1, 2)], [0, 0]], Fraction(1, 4)),
        ([[0, 0], [0, 0]], 0),
    ],
)
def test_spectral_norms_are_compared_exactly(matrix: m.Matrix, norm_squared: Fraction) -> None:
    tiny = Fraction(1, 10**30)
    for shape in (matrix, m.transposed(matrix)):
        assert _verdict(m.spectral_at_most(shape, norm_squared, None)) is Verdict.HOLDS
        assert _verdict(m.spectral_at_least(shape, norm_squared, None)) is Verdict.HOLDS
        assert _verdict(m.spectral_at_least(shape, norm_squared + tiny, None)) is Verdict.REFUTED
        if norm_squared:
            below = norm_squared - tiny
            assert _verdict(m.spectral_at_most(shape, below, None)) is Verdict.REFUTED


def test_products_and_norms() -> None:
    a, b = [[1, 2], [3, -4]], [[0, 1], [1, 0]]
    assert m.product(a, b) == [[2, 1], [-4, 3]]
    assert m.frobenius_squared(a) == 30
    assert m.largest_row_squared(a) == 25
    assert m.largest_row_sum(a) == 7
    assert m.heaviest_signs(a) == [1, -1]
    assert m.apply(a, [1, -1]) == [-1, 7]
    assert m.uniform_causal(2) == [[1, 0], [Fraction(1, 2), Fraction(1, 2)]]
    assert m.is_one_hot([0, 1, 0])
    assert not m.is_one_hot([Fraction(1, 2), Fraction(1, 2)])
