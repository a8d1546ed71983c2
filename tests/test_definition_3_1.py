"""θ of floats, against its definition in rationals."""

import random
from fractions import Fraction

import strategies
from hypothesis import given
from hypothesis import strategies as st

from theory.theta import solve_theta, theta
from verify.certificates import theta_reference


@given(strategies.rows())
def test_theta_is_the_nearest_float_and_in_range(p: list[float]) -> None:
    value = theta(p)
    assert 0.0 <= value <= 1.0
    assert value == float(theta_reference(p))


@given(strategies.weights(), st.randoms(use_true_random=False), st.integers(0, 5))
def test_theta_ignores_order_zeros_and_scale(
    weights: list[float], rng: random.Random, zeros: int
) -> None:
    other = [Fraction(w) * 3 / 7 for w in weights] + [Fraction(0)] * zeros
    rng.shuffle(other)
    assert solve_theta(other).theta == solve_theta(weights).theta


@given(strategies.rows(max_size=6))
def test_theta_is_zero_on_one_hot_rows_alone(p: list[float]) -> None:
    assert (theta(p) == 0.0) == (sum(map(bool, p)) == 1)


@given(strategies.weights(max_size=14))
def test_bounds_enclose_theta_and_the_subset_attains_the_lower(weights: list[float]) -> None:
    solution = solve_theta(weights)
    exact = theta_reference(weights)
    assert solution.lower <= exact <= solution.upper
    total = sum(map(Fraction, weights))
    mass = sum(Fraction(w) for w, take in zip(weights, solution.subset, strict=True) if take)
    assert solution.lower == 4 * (mass / total) * (1 - mass / total)
