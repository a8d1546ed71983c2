"""Remarks B.1 and B.2 through the public float functions.

softmax is right to a few eps, plus eps times a logit's distance to the largest; with the logits and
temperatures below, that is under 1e-13 for sums of up to ten probabilities.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from theory.norms import induced_norm, total_variation
from theory.softmax import softmax, softmax_jacobian
from theory.theta import solve_theta

ABSOLUTE = 1e-13
RELATIVE = 1e-13

moderate_logits = st.lists(
    st.one_of(st.floats(-30, 30), st.integers(-3, 3).map(float)), min_size=1, max_size=8
)
moderate_temperatures = st.sampled_from([0.5, 1.0, 3.0])


@given(st.data(), moderate_logits, moderate_temperatures, st.floats(-4, 4))
def test_first_order_term_and_its_remainder(
    data: st.DataObject, u: list[float], tau: float, step: float
) -> None:
    x = np.array(data.draw(strategies.cube_points(len(u))))
    logits = np.array(u)
    shift = total_variation(softmax(logits + step * x, tau), softmax(logits, tau))
    rate = float(np.abs(softmax_jacobian(logits, tau) @ x).sum())
    remainder = abs(shift - abs(step) / 2 * rate)
    assert remainder <= (step / tau) ** 2 / (3 * math.sqrt(3)) + ABSOLUTE


def test_remainder_constant_is_nearly_attained() -> None:
    """Two tokens, the lighter of mass (3 − √3)/6, pulled up."""
    mass = (3 - math.sqrt(3)) / 6
    logits = np.array([math.log(mass), math.log(1 - mass)])
    x, step = np.array([1.0, -1.0]), 1e-4
    shift = total_variation(softmax(logits + step * x), softmax(logits))
    rate = float(np.abs(softmax_jacobian(logits) @ x).sum())
    # Cancellation leaves about 1e-16/ε² = 1e-8 of the quotient, and the next order about ε.
    assert (shift - step / 2 * rate) / step**2 == pytest.approx(1 / (3 * math.sqrt(3)), rel=1e-3)


@given(strategies.logits(), strategies.temperatures(), st.sampled_from([1, 2, math.inf]))
def test_same_norms_are_at_most_half_of_one_over_tau(u: list[float], tau: float, r: float) -> None:
    assert induced_norm(softmax_jacobian(u, tau), r) <= (1 + RELATIVE) / (2 * tau)


@pytest.mark.parametrize("r", [1, 2, math.inf])
@pytest.mark.parametrize("tau", [0.25, 1.0, 8.0])
def test_two_equal_logits_attain_it(r: float, tau: float) -> None:
    assert induced_norm(softmax_jacobian([7.0, 7.0], tau), r) == pytest.approx(
        1 / (2 * tau), rel=1e-15
    )


@given(strategies.weights(max_size=14))
def test_largest_share_decides_which_constant_is_larger(weights: list[float]) -> None:
    solution = solve_theta(weights)
    lean = 2 * max(map(Fraction, weights)) / sum(map(Fraction, weights)) - 1
    is_above = lean <= 0 or lean**2 < Fraction(1, 2)
    assert (solution.lower > Fraction(1, 2)) == is_above
    assert (solution.upper > Fraction(1, 2)) == is_above


@given(st.integers(-40, 40), st.integers(1, 13))
def test_both_orders_occur_next_to_the_threshold(offset: int, others: int) -> None:
    top = (2 + math.sqrt(2)) / 4 + offset * 1e-6
    row = [top, *[(1 - top) / others] * others]
    is_above = (2 * Fraction(top) / sum(map(Fraction, row)) - 1) ** 2 < Fraction(1, 2)
    assert (solve_theta(row).lower > Fraction(1, 2)) == is_above
