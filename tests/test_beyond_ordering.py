"""‖J‖_{r→r} <= θ(p)/(2τ) through the public float functions.

|J_ij| adds up to at most 2θ/τ, so that the relative errors of single entries, a few eps, stay a
few eps of θ/τ in every norm; the spectral norm adds a few eps times L.
"""

import math

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from theory.norms import induced_norm, inf_to_one_norm
from theory.softmax import jacobian_from_probabilities, softmax, softmax_jacobian
from theory.theta import theta

RELATIVE = 1e-13
# Probabilities below 2**-1022 carry an absolute error instead, which 1/τ <= 1000 magnifies.
ABSOLUTE = 1e-318

orders = st.sampled_from([1, 2, math.inf])


@given(strategies.rows(max_size=12), strategies.temperatures(), orders)
def test_same_norms_are_at_most_half_the_cross_norm(p: list[float], tau: float, r: float) -> None:
    bound = theta(p) / (2 * tau)
    matrix = jacobian_from_probabilities(p, tau)
    assert induced_norm(matrix, r) <= bound * (1 + RELATIVE) + ABSOLUTE


@given(strategies.logits(max_size=9), strategies.temperatures(), orders)
def test_the_two_norms_of_one_matrix(u: list[float], tau: float, r: float) -> None:
    matrix = softmax_jacobian(u, tau)
    assert induced_norm(matrix, r) <= inf_to_one_norm(matrix) / 2 * (1 + RELATIVE) + ABSOLUTE


@given(st.data(), strategies.logits(max_size=10), st.floats(1, 40))
def test_images_in_every_norm(data: st.DataObject, u: list[float], r: float) -> None:
    p = softmax(u)
    bound = theta(p) / 2
    x = np.array(data.draw(strategies.cube_points(len(u))))
    if bound < 1e-290 or not x.any():
        return
    x = x / np.abs(x).max()
    image = jacobian_from_probabilities(p) / bound @ x
    assert np.linalg.norm(image, r) <= np.linalg.norm(x, r) * (1 + RELATIVE) + RELATIVE


@given(st.floats(-700, 700), strategies.temperatures(), orders)
def test_two_tokens_attain_it(gap: float, tau: float, r: float) -> None:
    p = softmax([0.0, gap], tau)
    norm = induced_norm(softmax_jacobian([0.0, gap], tau), r)
    assert norm == pytest.approx(theta(p) / (2 * tau), rel=RELATIVE, abs=ABSOLUTE)


@given(strategies.weights(max_size=8), st.floats(1, 1e9), st.sampled_from([1, math.inf]))
def test_dominant_token_attains_it_at_one_and_infinity(
    others: list[float], excess: float, r: float
) -> None:
    weights = np.array([*others, math.fsum(others) * (1 + excess)])
    p = weights / weights.max()
    p = p / math.fsum(p)
    norm = induced_norm(jacobian_from_probabilities(p), r)
    assert norm == pytest.approx(theta(p) / 2, rel=RELATIVE, abs=ABSOLUTE)


@given(st.data(), st.integers(1, 6), st.integers(1, 8))
def test_any_matrix_whose_images_sum_to_zero(data: st.DataObject, rows: int, columns: int) -> None:
    entry = st.integers(-1000, 1000)
    free = np.array(
        data.draw(
            st.lists(
                st.lists(entry, min_size=columns, max_size=columns), min_size=rows, max_size=rows
            )
        ),
        dtype=float,
    )
    matrix = np.vstack([free, -free.sum(axis=0)])
    # Sums of small integers are exact.
    assert induced_norm(matrix, math.inf) <= inf_to_one_norm(matrix) / 2
