"""Remark 3.3 on floats and integers: Laplacian, cuts, and Partition."""

from fractions import Fraction

import numpy as np
import strategies
from hypothesis import given
from hypothesis import strategies as st

from theory.softmax import jacobian_from_probabilities
from theory.theta import Status, solve_theta, theta


@given(st.data(), strategies.rows(max_size=12))
def test_every_cut_is_at_most_a_quarter_of_theta(data: st.DataObject, p: list[float]) -> None:
    chosen = data.draw(st.lists(st.booleans(), min_size=len(p), max_size=len(p)))
    inside = sum(Fraction(w) for w, take in zip(p, chosen, strict=True) if take)
    outside = sum(map(Fraction, p)) - inside
    assert theta(p) >= float(4 * inside * outside / (inside + outside) ** 2)


@given(strategies.rows(max_size=14))
def test_solution_is_a_maximum_cut(p: list[float]) -> None:
    x = solve_theta(p).sign_vector.astype(float)
    form = x @ jacobian_from_probabilities(p) @ x
    # Σ|J_ij| <= 2θ: relative errors of entries and of a sum of 14 rows reach the form doubled.
    assert abs(form - theta(p)) <= 2e-14 * theta(p) + 1e-320


@given(st.data(), strategies.rows(max_size=12))
def test_form_is_nonnegative_and_vanishes_on_constants(data: st.DataObject, p: list[float]) -> None:
    x = np.array(data.draw(strategies.cube_points(len(p))))
    laplacian = jacobian_from_probabilities(p)
    size = np.abs(laplacian).sum()
    assert x @ laplacian @ x >= -1e-14 * size
    assert np.abs(laplacian.sum(axis=1)).max() <= 1e-14 * size


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40))
def test_theta_is_one_exactly_where_a_perfect_partition_exists(a: list[int]) -> None:
    sums = 1
    for weight in a:
        sums |= sums << weight
    total = sum(a)
    has_partition = total % 2 == 0 and bool(sums >> (total // 2) & 1)
    solution = solve_theta(a)
    # D = 0 or D >= 1, and D/W >= 1/1600 does not round to θ = 1.
    assert solution.status is not Status.BOUNDED
    assert (solution.theta == 1.0) == has_partition
