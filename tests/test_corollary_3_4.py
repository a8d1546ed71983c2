"""Corollary 3.4 on floats. Rounding is monotone and θ correctly rounded, so no slack is needed."""

import itertools
from fractions import Fraction

import numpy as np
import strategies
from hypothesis import given
from hypothesis import strategies as st

from theory.theta import greedy_certificate, solve_theta, theta, theta_rows


def shares(p: list[float]) -> list[Fraction]:
    total = sum(map(Fraction, p))
    return [Fraction(weight) / total for weight in p]


@given(strategies.rows(max_size=14))
def test_theta_is_at_least_one_minus_largest_squared(p: list[float]) -> None:
    assert theta(p) >= float(1 - max(shares(p)) ** 2)


@given(strategies.rows(max_size=14))
def test_theta_is_at_least_what_the_largest_weight_gives(p: list[float]) -> None:
    m = max(shares(p))
    assert theta(p) >= float(4 * m * (1 - m))


@given(strategies.rows(max_size=14))
def test_greedy_certificate_lies_between_the_bound_and_theta(p: list[float]) -> None:
    certificate = float(greedy_certificate(p))
    # The certificate comes from float prefix sums of up to 14 terms.
    assert float(1 - max(shares(p)) ** 2) - 2e-15 <= certificate <= theta(p) + 2e-15


@given(st.permutations(range(12)), strategies.rows(min_size=12, max_size=12))
def test_some_prefix_of_every_order_gives_the_bound(order: list[int], p: list[float]) -> None:
    exact = shares(p)
    prefixes = itertools.accumulate(exact[i] for i in order)
    assert min(abs(2 * q - 1) for q in prefixes) <= max(exact)


@given(strategies.rows(max_size=14))
def test_largest_at_most_half_gives_eight_ninths(p: list[float]) -> None:
    m = max(shares(p))
    assert (theta(p) >= 8 / 9) or m > Fraction(1, 2)
    assert (theta(p) < 8 / 9) <= (m > Fraction(2, 3))


@given(strategies.weights(max_size=30), st.floats(1, 1e6), st.integers(0, 29))
def test_dominant_atom_is_exact_to_the_last_bit(
    weights: list[float], excess: float, place: int
) -> None:
    heavy = sum(weights) * excess
    row = [*weights[:place], heavy, *weights[place:]]
    kappa = 1 - max(shares(row))
    solution = solve_theta(row)
    if kappa <= Fraction(1, 2):  # the float sum may have been rounded down
        assert solution.lower == solution.upper == 4 * kappa * (1 - kappa)


@given(st.integers(1, 2000), st.integers(0, 50), st.floats(1e-300, 1e300))
def test_top_k_is_exact_to_the_last_bit(k: int, zeros: int, weight: float) -> None:
    value = solve_theta([weight] * k + [0.0] * zeros).theta
    assert value == float(1 - (1 - Fraction(2 * (k // 2), k)) ** 2)


def test_uniform_causal_rows() -> None:
    lengths = np.arange(1, 65)
    attention = np.tril(np.repeat(1 / lengths[:, None], 64, axis=1))
    expected = [1.0 if n % 2 == 0 else float(1 - Fraction(1, int(n) ** 2)) for n in lengths]
    np.testing.assert_array_equal(theta_rows(attention, causal=True), expected)
