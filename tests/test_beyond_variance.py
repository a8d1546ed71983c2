"""Variance and mean absolute deviation of [−1, 1]-valued variables against the public θ."""

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from theory.theta import solve_theta, theta

# At most 12 products of numbers up to 4, and a row that sums to 1 up to 12·2⁻⁵³.
ERROR = 1e-14


def centred(row: list[float], x: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """(p, x − Σ p_i x_i) for the row divided by its sum."""
    p = np.array(row) / np.sum(row)
    values = np.array(x)
    return p, values - p @ values


@given(strategies.rows(max_size=12), st.data())
def test_no_bounded_variable_varies_more_than_theta(row: list[float], data: st.DataObject) -> None:
    x = data.draw(strategies.cube_points(len(row)))
    p, deviations = centred(row, x)
    value = theta(row, check_sum=False)
    assert p @ deviations**2 <= value + ERROR
    assert p @ np.abs(deviations) <= value + ERROR


@given(strategies.rows(max_size=12))
def test_optimal_signs_attain_theta(row: list[float]) -> None:
    solution = solve_theta(row)
    p, deviations = centred(row, solution.sign_vector.astype(float).tolist())
    assert p @ deviations**2 == pytest.approx(solution.theta, rel=0, abs=ERROR)
    assert p @ np.abs(deviations) == pytest.approx(solution.theta, rel=0, abs=ERROR)


@given(strategies.rows(max_size=10), st.data())
def test_other_ranges(row: list[float], data: st.DataObject) -> None:
    a, b = sorted(data.draw(st.lists(st.integers(-9, 9), min_size=2, max_size=2)))
    x = data.draw(strategies.cube_points(len(row)))
    p, deviations = centred(row, [(a + b) / 2 + (b - a) / 2 * v for v in x])
    value = theta(row, check_sum=False)
    assert p @ deviations**2 <= value * (b - a) ** 2 / 4 + 400 * ERROR
    assert p @ np.abs(deviations) <= value * (b - a) / 2 + 20 * ERROR
