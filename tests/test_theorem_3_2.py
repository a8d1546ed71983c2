"""‖J_τ(u)‖_{∞→1} = θ(p)/τ through the public float functions.

Why the tolerance is so small: |J_ij| adds up to 2 Σ p_i(1 − p_i)/τ <= 2θ/τ, so relative errors of
single entries, a few eps, reach the norm no larger than twice.
"""

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.softmax import jacobian_inf_to_one, softmax, softmax_jacobian
from theory.theta import solve_theta, theta

RELATIVE = 1e-14
# Probabilities below 2**-1022 carry an absolute error instead, which 1/τ <= 1000 magnifies.
ABSOLUTE = 1e-318


@given(strategies.logits(max_size=9), strategies.temperatures())
def test_norm_by_brute_force_is_theta_over_tau(u: list[float], tau: float) -> None:
    value = theta(softmax(u, tau)) / tau
    assert jacobian_inf_to_one(u, tau) == pytest.approx(value, rel=RELATIVE, abs=ABSOLUTE)


@given(st.data(), strategies.logits(max_size=12), strategies.temperatures())
def test_no_point_of_the_cube_exceeds_theta_over_tau(
    data: st.DataObject, u: list[float], tau: float
) -> None:
    x = data.draw(strategies.cube_points(len(u)))
    image = np.abs(softmax_jacobian(u, tau) @ x).sum()
    assert image <= theta(softmax(u, tau)) / tau * (1 + RELATIVE) + ABSOLUTE


@given(strategies.logits(max_size=16), strategies.temperatures())
def test_sign_vector_attains_the_norm(u: list[float], tau: float) -> None:
    solution = solve_theta(softmax(u, tau))
    image = np.abs(softmax_jacobian(u, tau) @ solution.sign_vector).sum()
    assert image == pytest.approx(solution.theta / tau, rel=RELATIVE, abs=ABSOLUTE)


@settings(max_examples=50)
@given(st.lists(st.floats(-30, 30), min_size=1, max_size=12), st.sampled_from([0.5, 1.0, 4.0]))
def test_jacobian_agrees_with_central_differences(u: list[float], tau: float) -> None:
    step = 1e-5
    shifts = step * np.eye(len(u))
    differences = np.array(
        [(softmax(u + shift, tau) - softmax(u - shift, tau)) / (2 * step) for shift in shifts]
    )
    # step²/6 times the third derivative (at most 1/τ³), and rounding of eps/step.
    np.testing.assert_allclose(softmax_jacobian(u, tau), differences.T, rtol=0, atol=5e-10)
