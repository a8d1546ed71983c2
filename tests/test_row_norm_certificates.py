"""Weights that bound a row's norm: the checkers, exact and in balls, with wrong certificates."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verify.certificates import is_row_norm_certificate, is_row_norm_certificate_in_balls

# diag(3, 1) and the row (2, 0).
BLOCKS = [[[Fraction(3), Fraction(0)], [Fraction(0), Fraction(1)]], [[Fraction(2), Fraction(0)]]]
WEIGHTS = [Fraction(3), Fraction(2)]


def test_the_exact_bound_is_accepted_and_a_smaller_one_refused() -> None:
    """At y = e_1 the sum is 5; the weights 3 and 2 prove it, whatever their scale."""
    assert is_row_norm_certificate(BLOCKS, WEIGHTS, Fraction(5))
    assert is_row_norm_certificate(BLOCKS, [w / 5 for w in WEIGHTS], Fraction(5))
    assert not is_row_norm_certificate(BLOCKS, WEIGHTS, Fraction(4999999, 1000000))
    assert not is_row_norm_certificate(BLOCKS, [Fraction(1), Fraction(1)], Fraction(5))
    assert not is_row_norm_certificate(BLOCKS, WEIGHTS, Fraction(-5))


def test_bad_weights_are_named() -> None:
    with pytest.raises(ValueError, match="2 blocks but 1 weights"):
        is_row_norm_certificate(BLOCKS, WEIGHTS[:1], Fraction(5))
    with pytest.raises(ValueError, match="positive"):
        is_row_norm_certificate(BLOCKS, [Fraction(1), Fraction(0)], Fraction(5))
    balls = [flint.arb_mat([[1.0]])]
    with pytest.raises(ValueError, match="1 blocks but 2 weights"):
        is_row_norm_certificate_in_balls(balls, [1.0, 1.0], 1.0)
    with pytest.raises(ValueError, match="positive"):
        is_row_norm_certificate_in_balls(balls, [0.0], 1.0)


@given(
    st.lists(
        st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=2), min_size=1, max_size=2),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
    st.integers(0, 20),
)
@settings(max_examples=300)
def test_balls_agree_with_rationals(
    blocks: list[list[list[int]]], weights: list[int], bound: int
) -> None:
    """Proved in balls implies true; true with something to spare implies proved."""
    shares = weights[: len(blocks)]
    rational = [[[Fraction(x) for x in row] for row in block] for block in blocks]
    exact = [Fraction(w) for w in shares]
    balls = [flint.arb_mat([[float(x) for x in row] for row in block]) for block in blocks]
    if is_row_norm_certificate_in_balls(balls, shares, bound):
        assert is_row_norm_certificate(rational, exact, Fraction(bound))
    elif bound:
        assert not is_row_norm_certificate(
            rational, exact, Fraction(bound) * (1 - Fraction(1, 2**30))
        )


def test_a_certificate_bounds_the_sum_in_every_direction() -> None:
    rng = np.random.default_rng(4)
    blocks = rng.integers(-3, 4, size=(4, 2, 3))
    weights = rng.integers(1, 5, size=4)
    rational = [[[Fraction(int(x)) for x in row] for row in block] for block in blocks]
    exact = [Fraction(int(w)) for w in weights]
    bound = next(
        Fraction(k, 10)
        for k in range(1, 1000)
        if is_row_norm_certificate(rational, exact, Fraction(k, 10))
    )
    for _ in range(200):
        y = rng.normal(size=3)
        assert np.linalg.norm(blocks @ y, axis=1).sum() <= float(bound) * np.linalg.norm(y)
