"""The checkable parts of the cited results, through the public float functions."""

import math
from fractions import Fraction

import numpy as np
import strategies
from hypothesis import given
from hypothesis import strategies as st

from theory.layernorm import layer_norm_jacobian
from theory.norms import spectral_norm, total_variation
from theory.softmax import jacobian_from_probabilities, softmax, softmax_jacobian
from theory.theta import solve_theta, theta

RELATIVE = 1e-13
ABSOLUTE = 1e-318

entries = st.floats(-10, 10)


def matrices(rows: int, columns: int) -> st.SearchStrategy[np.ndarray]:
    """Matrices of moderate entries, often with zero rows and columns."""
    row = st.lists(st.one_of(st.just(0.0), entries), min_size=columns, max_size=columns)
    return st.lists(row, min_size=rows, max_size=rows).map(np.array)


@given(st.data(), st.integers(1, 8), st.one_of(st.just(math.inf), st.floats(1, 20)))
def test_nair_pairs(data: st.DataObject, length: int, r: float) -> None:
    """‖s(u) − s(v)‖_r <= ½‖u − v‖_r; each entry of s is right to 1e-14 here."""
    vector = st.lists(st.floats(-20, 20), min_size=length, max_size=length)
    u, v = np.array(data.draw(vector)), np.array(data.draw(vector))
    if data.draw(st.booleans()):
        v = u + v * 1e-6
    change = np.linalg.norm(softmax(u) - softmax(v), r)
    assert change <= np.linalg.norm(u - v, r) / 2 * (1 + RELATIVE) + 1e-13


@given(strategies.rows(min_size=2, max_size=12))
def test_yudin_order_statistics(p: list[float]) -> None:
    first, second = sorted(p, reverse=True)[:2]
    norm = spectral_norm(jacobian_from_probabilities(p))
    # p sums to 1 up to 4 eps, and p_(2)‖x‖² is compared at a vector of relative size p_(2)/p_(1).
    assert norm <= first * (1 + RELATIVE) + ABSOLUTE
    assert norm >= second * (1 - RELATIVE) - ABSOLUTE


@given(st.data(), st.integers(1, 5), st.integers(1, 4))
def test_edelman_one_factor(data: st.DataObject, d: int, d_h: int) -> None:
    """The product's rounding is at most a few eps times ‖W_K‖_F‖W_Q‖_F."""
    keys, queries = data.draw(matrices(d, d_h)), data.draw(matrices(d, d_h))
    rounding = 1e-14 * float(np.linalg.norm(keys) * np.linalg.norm(queries))
    one = spectral_norm(keys @ queries.T)
    assert one <= spectral_norm(keys) * spectral_norm(queries) * (1 + RELATIVE) + rounding


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(-1e3, 1e3)), min_size=1, max_size=9),
    st.sampled_from([1e-12, 1e-5, 1.0]),
    st.data(),
)
def test_liu_gradient_sums(x: list[float], eps: float, data: st.DataObject) -> None:
    """What LayerNorm passes back sums to 0; entries of J_LN carry a few eps of ‖γ‖_∞/σ."""
    vector = st.lists(entries, min_size=len(x), max_size=len(x))
    gamma, gradient = data.draw(vector), np.array(data.draw(vector))
    jacobian = layer_norm_jacobian(x, gamma, eps)
    sigma = math.sqrt(np.var(x) + eps)
    size = len(x) * max(map(abs, gamma)) * float(np.abs(gradient).sum()) / sigma
    assert abs(float((jacobian.T @ gradient).sum())) <= 1e-13 * size + ABSOLUTE


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12), st.floats(0, 5))
def test_noci_small_logits(u: list[float], c: float) -> None:
    p = softmax(np.array(u) * c)
    length = len(u)
    largest = math.exp(2 * c) / (math.exp(2 * c) + length - 1)
    assert p.max() <= largest * (1 + RELATIVE)
    uniform = np.full(length, 1 / length)
    assert total_variation(p, uniform) <= math.tanh(c / 2) + 1e-14
    assert theta(p) >= 1 - largest**2 - RELATIVE


@given(strategies.weights(max_size=14))
def test_sinks(weights: list[float]) -> None:
    """θ >= 4m(1 − m) for every token; θ < 8/9 exactly where the largest share exceeds 2/3."""
    solution = solve_theta(weights)
    total = sum(map(Fraction, weights))
    shares = [Fraction(weight) / total for weight in weights]
    assert all(solution.lower >= 4 * m * (1 - m) for m in shares)
    assert (solution.lower < Fraction(8, 9)) == (max(shares) > Fraction(2, 3))


@given(strategies.weights(max_size=14), st.integers(20, 59))
def test_small_theta_needs_a_dominant_token(weights: list[float], sixtieths: int) -> None:
    width = Fraction(sixtieths, 60)
    share = max(map(Fraction, weights)) / sum(map(Fraction, weights))
    assert (solve_theta(weights).lower < 1 - width**2) == (share > (1 + width) / 2)


@given(st.floats(1, 300))
def test_kim_rates_grow_quadratically(radius: float) -> None:
    """Tokens (0, B, −B): the first output's derivative is (1 + 2B²)/3, by softmax's Jacobian."""
    tokens = np.array([0.0, radius, -radius])
    rate = tokens @ softmax_jacobian(np.zeros(3)) @ tokens + 1 / 3
    assert math.isclose(rate, (1 + 2 * radius**2) / 3, rel_tol=1e-14)
