"""theory.layernorm: maps, Jacobians and exact norms against high precision, extremes, errors."""

import math
import re

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from theory.layernorm import (
    LayerNormStats,
    RMSNormStats,
    _bisect_root,
    layer_norm,
    layer_norm_jacobian,
    layer_norm_jacobian_norm,
    layer_norm_lipschitz,
    layer_norm_stats,
    rms_norm,
    rms_norm_jacobian,
    rms_norm_jacobian_norm,
    rms_norm_lipschitz,
    rms_norm_stats,
)

EPS = 2.0**-52
TINY = 5e-324
HUGE = np.finfo(np.float64).max
# Enough digits for ρ² with ρ = 1e-160 to survive a subtraction from 1.
DIGITS = 400
# Each exact norm, and whether its map subtracts the mean.
NORMS = ((layer_norm_jacobian_norm, True), (rms_norm_jacobian_norm, False))

finite = st.floats(allow_nan=False, allow_infinity=False)
# Tolerances that are relative to γ/σ mean nothing once a product underflows.
moderate = st.floats(-1e3, 1e3).map(lambda v: v if abs(v) > 1e-100 else 0.0)
levels = st.sampled_from([0.0, 1e-12, 1e-5, 0.1, 10.0])
positive_levels = st.sampled_from([1e-12, 1e-5, 0.1, 10.0])


def tokens_and_gammas(max_width, entries):
    """A token and a γ of one width."""
    return st.integers(1, max_width).flatmap(
        lambda d: st.tuples(
            st.lists(entries, min_size=d, max_size=d), st.lists(entries, min_size=d, max_size=d)
        )
    )


def mpfs(values):
    return [mpmath.mpf(float(v)) for v in values]


def exact_normalised(x, eps, centred):
    """μ, σ and x̂ in DIGITS digits."""
    entries = mpfs(x)
    mean = mpmath.fsum(entries) / len(entries) if centred else mpmath.mpf(0)
    offsets = [v - mean for v in entries]
    square = mpmath.fsum(v * v for v in offsets) / len(entries)
    sigma = mpmath.sqrt(square + mpmath.mpf(float(eps)))
    return mean, sigma, [v / sigma for v in offsets]


def exact_jacobian_norm(x, gamma, eps, centred):
    """‖J‖₂ from the eigenvalues of JJᵀ, J by its formula, in DIGITS digits."""
    with mpmath.workdps(DIGITS):
        d = len(x)
        scale = mpfs(gamma)
        _, sigma, xhat = exact_normalised(x, eps, centred)
        mean_part = mpmath.mpf(1) / d if centred else 0
        J = mpmath.matrix(d, d)
        for i in range(d):
            for j in range(d):
                J[i, j] = scale[i] * ((i == j) - mean_part - xhat[i] * xhat[j] / d) / sigma
        largest = max(mpmath.eigsy(J * J.T, eigvals_only=True))
        # Rounding may leave a zero norm at the square root of the working accuracy.
        floor = mpmath.mpf(10) ** (-DIGITS // 2 + 10) * max(abs(g) for g in scale) / sigma
        norm = mpmath.sqrt(max(largest, 0))
        return norm if norm > floor else mpmath.mpf(0)


def complex_step_jacobian(x, gamma, eps, centred):
    """The derivative of the map along each axis, by a step of 1e-30 i."""
    x, gamma = np.asarray(x, float), np.asarray(gamma, float)
    points = x + 1e-30j * np.eye(len(x))
    if centred:
        points = points - points.mean(axis=1, keepdims=True)
    sigma = np.sqrt((points * points).mean(axis=1, keepdims=True) + eps)
    return (gamma * points / sigma).imag.T / 1e-30


# --- the maps ------------------------------------------------------------------------------------


def test_layer_norm_of_a_small_token():
    x = [1.0, 3.0]
    np.testing.assert_array_equal(layer_norm(x, [1, 1], [0, 0], 0), [-1.0, 1.0])
    np.testing.assert_array_equal(layer_norm(x, [2.0, -3.0], [0.5, 0.25], 0.0), [-1.5, -2.75])
    np.testing.assert_array_equal(layer_norm(x, [1, 1], [0, 0], 3.0), [-0.5, 0.5])
    np.testing.assert_allclose(
        layer_norm([[0.0, 0.0, 3.0], [1.0, 1.0, 1.0]], [1, 2, 3], [0, 0, 1], 2.0),
        [[-0.5, -1.0, 4.0], [0.0, 0.0, 1.0]],
        rtol=4 * EPS,
    )


def test_rms_norm_of_a_small_token():
    np.testing.assert_array_equal(rms_norm([1.0, -1.0], [2.0, 3.0], 0), [2.0, -3.0])
    np.testing.assert_array_equal(rms_norm([1.0, -1.0], [2.0, 3.0], 3.0), [1.0, -1.5])
    np.testing.assert_allclose(
        rms_norm([[3.0, 4.0], [0.0, 0.0]], [1.0, 0.0], 12.5), [[0.6, 0.0], [0.0, 0.0]], rtol=4 * EPS
    )


def test_stats_of_small_tokens():
    stats = layer_norm_stats([[1.0, 3.0], [5.0, 5.0]], 3.0)
    assert isinstance(stats, LayerNormStats)
    np.testing.assert_array_equal(stats.mean, [2.0, 5.0])
    np.testing.assert_allclose(stats.sigma, [2.0, math.sqrt(3.0)], rtol=EPS)
    np.testing.assert_array_equal(stats.xhat, [[-0.5, 0.5], [0.0, 0.0]])
    np.testing.assert_allclose(stats.rho, [0.75, 1.0], rtol=EPS)
    assert stats.rho[1] == 1.0
    single = layer_norm_stats([1, 3], 0)
    assert single.mean == 2.0
    assert single.sigma == 1.0
    assert single.rho == 0.0
    assert single.mean.shape == single.sigma.shape == single.rho.shape == ()
    with pytest.raises(AttributeError):
        single.mean = 0.0
    raw = rms_norm_stats([[1.0, 3.0], [0.0, 0.0]], 4.0)
    assert isinstance(raw, RMSNormStats)
    np.testing.assert_allclose(raw.sigma, [3.0, 2.0], rtol=EPS)
    np.testing.assert_allclose(raw.xhat, [[1 / 3, 1.0], [0.0, 0.0]], rtol=EPS)
    np.testing.assert_allclose(raw.rho, [4 / 9, 1.0], rtol=EPS)
    assert rms_norm_stats([3.0, 4.0], 0).sigma.shape == ()


@pytest.mark.parametrize("value", [0.1, -7.3, 1e308, 1e-320, TINY, 0.0])
@pytest.mark.parametrize("width", [1, 2, 3, 7])
@pytest.mark.parametrize("eps", [1e-5, 1e-320, 1e300])
def test_a_constant_token_gives_beta(value, width, eps):
    beta = np.linspace(-1e-300, 2.0, width)
    with np.errstate(all="raise"):
        result = layer_norm(np.full((2, width), value), np.full(width, 1e308), beta, eps)
        stats = layer_norm_stats(np.full(width, value), eps)
    np.testing.assert_array_equal(result, [beta, beta])
    assert stats.mean == value
    assert stats.rho == 1.0
    assert stats.sigma == pytest.approx(math.sqrt(eps), rel=2 * EPS, abs=0)


def test_one_entry_wide_tokens_have_no_spread():
    np.testing.assert_array_equal(layer_norm([[3.0], [4.0]], [2.0], [5.0], 1e-5), [[5.0], [5.0]])
    np.testing.assert_array_equal(rms_norm([[3.0], [-4.0]], [2.0], 0), [[2.0], [-2.0]])


@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e300, 1.7e308, 1e-300, 1e-320])
def test_tokens_of_every_magnitude_are_normalised_alike(scale):
    x = np.array([scale, -scale, scale, 0.0])
    mean, sigma = 0.25, math.sqrt(0.6875)
    with np.errstate(all="raise"):
        stats = layer_norm_stats(x, 0.0)
        centred = layer_norm(x, np.ones(4), np.zeros(4), 0.0)
        raw = rms_norm(x, np.ones(4), 0.0)
        tiny_part = layer_norm_stats(x, 1e-300 * scale).rho
    shape = np.array([1.0, -1.0, 1.0, 0.0])
    np.testing.assert_allclose(centred, (shape - mean) / sigma, rtol=8 * EPS)
    np.testing.assert_allclose(raw, shape / math.sqrt(0.75), rtol=8 * EPS)
    assert stats.mean == pytest.approx(mean * scale, rel=2 * EPS, abs=TINY)
    assert stats.sigma == pytest.approx(sigma * scale, rel=4 * EPS, abs=TINY)
    assert 0.0 <= tiny_part <= 1.0


def test_subnormal_tokens_under_an_ordinary_eps():
    with np.errstate(all="raise"):
        result = layer_norm([1e-310, -1e-310], [1e10, 1e300], [0.0, 0.0], 1e-10)
        np.testing.assert_allclose(result, [1e-295, -1e-5], rtol=1e-12, atol=0)
        np.testing.assert_allclose(
            rms_norm([1e-310, 0.0], [1e300, 1.0], 1e-10), [1e-5, 0.0], rtol=1e-12, atol=0
        )


def test_a_sum_whose_terms_overflow_alone_is_right():
    with np.errstate(all="raise"):
        result = layer_norm([0.0, 0.0, 4.0], [1.0, 1.0, HUGE], [0.0, 0.0, -HUGE], 0.0)
        assert result[2] == pytest.approx((math.sqrt(2.0) - 1.0) * HUGE, rel=8 * EPS)
        assert layer_norm([0.0, 0.0, 4.0], [1, 1, HUGE], [0, 0, HUGE], 0.0)[2] == math.inf
        assert layer_norm([1.0, 3.0], [1e300, 1e-300], [0.0, 0.0], 0.0)[1] == 1e-300
        assert layer_norm([0.0, 1.0, 2.0], [1.0, HUGE, 1.0], [0.0, TINY, 0.0], 1.0)[1] == TINY


@given(tokens_and_gammas(6, finite), st.data())
def test_layer_norm_against_high_precision(pair, data):
    x, gamma = pair
    beta = data.draw(st.lists(finite, min_size=len(x), max_size=len(x)))
    eps = data.draw(st.floats(0.0, allow_infinity=False))
    assume(eps > 0.0 or len(set(x)) > 1)
    stats = layer_norm_stats(x, eps)
    result = layer_norm(x, gamma, beta, eps)
    with mpmath.workdps(DIGITS):
        mean, sigma, xhat = exact_normalised(x, eps, centred=True)
        size = max(abs(v) for v in mpfs(x))
        assert abs(stats.mean - mean) <= 8 * EPS * size + TINY
        assert abs(stats.sigma - sigma) <= 16 * EPS * sigma + TINY
        rho = mpmath.mpf(eps) / sigma**2
        assert abs(stats.rho - rho) <= 32 * EPS * rho + TINY
        for i in range(len(x)):
            error = 16 * EPS * max(abs(v) for v in xhat)
            assert abs(stats.xhat[i] - xhat[i]) <= error + TINY
            exact = mpmath.mpf(gamma[i]) * xhat[i] + mpmath.mpf(beta[i])
            allowed = abs(mpmath.mpf(gamma[i])) * error + 2 * EPS * abs(exact) + TINY
            if math.isinf(result[i]):
                assert math.copysign(1.0, result[i]) * exact + allowed > HUGE
            else:
                assert abs(result[i] - exact) <= allowed


@given(tokens_and_gammas(6, finite), st.floats(0.0, allow_infinity=False))
def test_rms_norm_against_high_precision(pair, eps):
    x, gamma = pair
    assume(eps > 0.0 or any(x))
    result = rms_norm(x, gamma, eps)
    stats = rms_norm_stats(x, eps)
    with mpmath.workdps(DIGITS):
        _, sigma, xhat = exact_normalised(x, eps, centred=False)
        assert abs(stats.sigma - sigma) <= 16 * EPS * sigma + TINY
        rho = mpmath.mpf(eps) / sigma**2
        assert abs(stats.rho - rho) <= 32 * EPS * rho + TINY
        for i in range(len(x)):
            assert abs(stats.xhat[i] - xhat[i]) <= 8 * EPS * abs(xhat[i]) + 16 * TINY
            exact = mpmath.mpf(gamma[i]) * xhat[i]
            if math.isinf(result[i]):
                assert abs(exact) >= HUGE * (1 - mpmath.mpf(8 * EPS))
            else:
                # Entries below 2^-1022 of the token's largest are rounded like subnormals.
                rounding = 16 * TINY * (1 + abs(mpmath.mpf(gamma[i])))
                assert abs(result[i] - exact) <= 8 * EPS * abs(exact) + rounding


def test_a_large_offset_costs_no_digits():
    x = 1e8 + np.array([0.0, 1.0, -2.0, 5.0]) * 2.0**-26
    expected = layer_norm([0.0, 1.0, -2.0, 5.0], np.ones(4), np.zeros(4), 0.0)
    np.testing.assert_allclose(layer_norm(x, np.ones(4), np.zeros(4), 0.0), expected, rtol=8 * EPS)


@given(tokens_and_gammas(6, moderate), st.data(), positive_levels)
def test_the_output_obeys_the_magnitude_bound(pair, data, eps):
    x, gamma = pair
    beta = data.draw(st.lists(moderate, min_size=len(x), max_size=len(x)))
    output = layer_norm(x, gamma, beta, eps)
    bound = np.max(np.abs(gamma)) + np.max(np.abs(beta))
    assert math.sqrt(np.mean(output**2)) <= bound * (1 + 16 * EPS)
    stats = layer_norm_stats(x, eps)
    assert np.mean(stats.xhat**2) == pytest.approx(1 - stats.rho, abs=16 * EPS)


def test_tokens_are_treated_one_by_one_in_every_layout():
    x = np.random.default_rng(5).normal(size=(4, 3, 300))
    gamma, beta = np.linspace(-1, 1, 300), np.linspace(0, 1, 300)
    whole = layer_norm(x, gamma, beta, 1e-5)
    raw = rms_norm(x, gamma, 1e-5)
    for i in range(4):
        for j in range(3):
            np.testing.assert_array_equal(whole[i, j], layer_norm(x[i, j], gamma, beta, 1e-5))
            np.testing.assert_array_equal(raw[i, j], rms_norm(x[i, j], gamma, 1e-5))
    np.testing.assert_array_equal(layer_norm(np.asfortranarray(x), gamma, beta, 1e-5), whole)
    np.testing.assert_array_equal(rms_norm(np.asfortranarray(x), gamma, 1e-5), raw)


# --- Jacobians -----------------------------------------------------------------------------------


def test_layer_norm_jacobian_of_a_small_token():
    # x = (1, 3), ε = 3: σ = 2, x̂ = ±1/2, so the bracket is (1/2 - 1/8)[[1, -1], [-1, 1]].
    np.testing.assert_array_equal(
        layer_norm_jacobian([1.0, 3.0], [2.0, 4.0], 3.0), [[0.375, -0.375], [-0.75, 0.75]]
    )
    # A constant token: σ = √ε and only the mean is projected out.
    np.testing.assert_array_equal(
        layer_norm_jacobian([7.0, 7.0], [1.0, 3.0], 0.25), [[1.0, -1.0], [-3.0, 3.0]]
    )
    np.testing.assert_array_equal(layer_norm_jacobian([7.0], [3.0], 0.25), [[0.0]])


def test_rms_norm_jacobian_of_a_small_token():
    # x = (1, 1), ε = 3: σ = 2, x̂ = 1/2, x̂x̂ᵀ/d = 1/8.
    np.testing.assert_array_equal(
        rms_norm_jacobian([1.0, 1.0], [2.0, 8.0], 3.0), [[0.875, -0.125], [-0.5, 3.5]]
    )
    np.testing.assert_array_equal(
        rms_norm_jacobian([0.0, 0.0], [2.0, -3.0], 0.25), [[4.0, 0.0], [0.0, -6.0]]
    )
    # One entry: 1 - x̂² = ρ = 1e-40, which 1 - x̂² itself would lose.
    assert rms_norm_jacobian([1e10], [2.0], 1e-20)[0, 0] == pytest.approx(2e-50, rel=4 * EPS, abs=0)


@given(tokens_and_gammas(6, moderate), positive_levels)
def test_jacobians_are_the_derivatives_of_the_maps(pair, eps):
    x, gamma = pair
    for function, centred in ((layer_norm_jacobian, True), (rms_norm_jacobian, False)):
        J = function(x, gamma, eps)
        sigma = float(exact_normalised(x, eps, centred)[1])
        allowed = 1e-11 * np.max(np.abs(gamma)) / sigma
        np.testing.assert_allclose(
            J, complex_step_jacobian(x, gamma, eps, centred), rtol=0, atol=allowed
        )


def test_jacobians_agree_with_central_differences_of_the_maps_themselves():
    rng = np.random.default_rng(11)
    for d in (2, 3, 5, 8):
        x, gamma, beta = rng.normal(size=(3, d))
        step = 1e-5
        up, down = x + step * np.eye(d), x - step * np.eye(d)
        centred = layer_norm(up, gamma, beta, 0.1) - layer_norm(down, gamma, beta, 0.1)
        raw = rms_norm(up, gamma, 0.1) - rms_norm(down, gamma, 0.1)
        np.testing.assert_allclose(
            layer_norm_jacobian(x, gamma, 0.1), centred.T / (2 * step), atol=1e-8
        )
        np.testing.assert_allclose(rms_norm_jacobian(x, gamma, 0.1), raw.T / (2 * step), atol=1e-8)


@given(tokens_and_gammas(6, moderate), positive_levels)
def test_the_layer_norm_jacobian_kills_constants_and_shrinks_the_token(pair, eps):
    x, gamma = pair
    J = layer_norm_jacobian(x, gamma, eps)
    stats = layer_norm_stats(x, eps)
    scale = np.max(np.abs(gamma)) / stats.sigma
    assert np.max(np.abs(J.sum(axis=1))) <= 32 * EPS * scale
    expected = stats.rho / stats.sigma * np.array(gamma) * stats.xhat
    np.testing.assert_allclose(J @ stats.xhat, expected, rtol=0, atol=64 * EPS * scale)


def test_jacobians_at_extreme_scales():
    with np.errstate(all="raise"):
        J = layer_norm_jacobian([1e308, -1e308, 0.0], [1e300, 1.0, 1.0], 0.0)
        assert J[0, 0] == pytest.approx(1e-8 / math.sqrt(2 / 3) / 6, rel=1e-14, abs=0)
        J = layer_norm_jacobian([0.0, 0.0, 0.0], [1.0, 1.0, 1e300], 1e-320)
        assert J[0, 0] == pytest.approx(2 / 3 / math.sqrt(1e-320), rel=4 * EPS)
        # d = 1: the bracket is exactly 0 while γ/σ overflows.
        assert layer_norm_jacobian([0.0], [HUGE], 1e-300)[0, 0] == 0.0
        J = rms_norm_jacobian([1e-320, 0.0], [1e-300, 1e300], 0.0)
        assert J[0, 0] == 0.0
        assert J[1, 1] == math.inf


# --- exact norms of the Jacobians ----------------------------------------------------------------


def test_norm_at_a_constant_token():
    expected = 1 / math.sqrt(1e-5)
    for d in (2, 3, 9):
        norm = layer_norm_jacobian_norm(np.full(d, 0.1), np.ones(d), 1e-5)
        assert norm == pytest.approx(expected, rel=2 * EPS, abs=0)
        assert f"{norm:.3f}" == "316.228"
    assert isinstance(norm, float)


def test_norms_known_in_closed_form():
    # d = 2: σ‖J‖ = ρ√((γ_1² + γ_2²)/2). Here σ = 2, ρ = 3/4.
    assert layer_norm_jacobian_norm([1.0, 3.0], [3.0, 4.0], 3.0) == pytest.approx(
        0.375 * 5.0 / math.sqrt(2.0), rel=4 * EPS, abs=0
    )
    # Constant γ, d >= 3: some direction is orthogonal to 1 and to x.
    assert layer_norm_jacobian_norm([1.0, 3.0, 1.0, 3.0], [-2.0] * 4, 3.0) == 1.0
    # ε = 0, d = 2: the output takes two values only.
    assert layer_norm_jacobian_norm([1.0, 3.0], [3.0, 4.0], 0.0) == 0.0
    assert layer_norm_jacobian_norm([5.0], [3.0], 1e-5) == 0.0
    assert layer_norm_jacobian_norm([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], 1e-5) == 0.0
    # One nonzero γ_i: the norm of row i alone.
    row = layer_norm_jacobian([1.0, 2.0, 4.0, 0.0], [0.0, 5.0, 0.0, 0.0], 0.1)[1]
    assert layer_norm_jacobian_norm([1.0, 2.0, 4.0, 0.0], [0.0, 5.0, 0.0, 0.0], 0.1) == (
        pytest.approx(np.linalg.norm(row), rel=8 * EPS, abs=0)
    )
    # Tokens ±1 at d = 12: rows 1 and 2 are orthogonal, both of norm √(1 - 2/12).
    assert layer_norm_jacobian_norm([1.0, -1.0] * 6, [1.0, 1.0] + [0.0] * 10, 0.0) == (
        pytest.approx(math.sqrt(5 / 6), rel=4 * EPS, abs=0)
    )


@pytest.mark.parametrize("root", [1e-300, 0.3, 0.75, 1 - EPS])
def test_bisection_finds_the_very_float(root):
    assert _bisect_root(lambda s: s <= root, 0.0, 1.0) == root


def test_a_subnormal_rho_keeps_the_norm_between_its_bounds():
    # d = 2, ρ = 1e-310: the norm is ρ|γ|/σ = 1e-160, for a root below the normal numbers.
    norm = layer_norm_jacobian_norm([1e150, -1e150], [1e300, 1e300], 1e-10)
    assert 0.49e-160 <= norm <= 1.01e-160


def test_rms_norms_known_in_closed_form():
    assert rms_norm_jacobian_norm([0.0, 0.0], [3.0, -4.0], 0.25) == 8.0
    # d = 1: ρ|γ|/σ, with σ = 2 and ρ = 3/4.
    assert rms_norm_jacobian_norm([1.0], [-8.0], 3.0) == 3.0
    assert rms_norm_jacobian_norm([1.0], [8.0], 0.0) == 0.0
    # A coordinate that x does not touch, and a repeated |γ|.
    assert rms_norm_jacobian_norm([0.0, 2.0], [4.0, 1.0], 2.0) == 2.0
    assert rms_norm_jacobian_norm([1.0, 1.0], [-4.0, 4.0], 3.0) == 2.0
    assert rms_norm_jacobian_norm([2.0, 0.0], [4.0, 1.0], 2.0) == pytest.approx(1.0, rel=2 * EPS)
    assert rms_norm_jacobian_norm([2.0, 0.0], [0.0, 0.0], 2.0) == 0.0


def random_case(rng):
    d = int(rng.integers(1, 9))
    token = [
        rng.normal(size=d),
        rng.integers(-2, 3, size=d).astype(float),
        1e6 + rng.normal(size=d),
        10.0 ** rng.uniform(-4, 4) * np.eye(d)[0],
    ][rng.integers(4)]
    gamma = [
        rng.normal(size=d),
        rng.integers(-2, 3, size=d).astype(float),
        rng.choice([-1.0, 1.0], size=d),
        10.0 ** rng.uniform(-3, 0, size=d),
    ][rng.integers(4)]
    return token, gamma, float(rng.choice([0.0, 1e-5, 0.1, 10.0]))


def test_norms_equal_those_of_the_dense_jacobians():
    rng = np.random.default_rng(17)
    cases = 0
    for _ in range(1500):
        x, gamma, eps = random_case(rng)
        if eps == 0.0 and len(set(x.tolist())) == 1:
            continue
        cases += 1
        dense = np.linalg.norm(layer_norm_jacobian(x, gamma, eps), 2)
        scale = np.max(np.abs(gamma)) / layer_norm_stats(x, eps).sigma
        assert abs(layer_norm_jacobian_norm(x, gamma, eps) - dense) <= 8e-15 * scale
        dense = np.linalg.norm(rms_norm_jacobian(x, gamma, eps), 2)
        norm = rms_norm_jacobian_norm(x, gamma, eps)
        assert norm == pytest.approx(dense, rel=8e-15, abs=0)
    assert cases > 1000


def hard_case(rng):
    """Small norms by design: outliers, graded γ, tiny ε, widths down to 1."""
    d = int(rng.integers(1, 6))
    token = [
        np.eye(d)[0] * 10.0 ** rng.integers(-20, 20),
        np.where(rng.random(d) < 0.4, rng.normal(size=d) * 1e10, 1 + rng.integers(0, 3, d) * EPS),
        rng.integers(-2, 3, size=d) * 10.0 ** rng.integers(-30, 30),
        1e8 + rng.normal(size=d) * 1e-6,
    ][rng.integers(4)]
    gamma = [
        np.where(np.arange(d) == rng.integers(d), 1.0, 0.0),
        10.0 ** rng.uniform(-30, 3, size=d),
        1.0 + rng.integers(-2, 3, size=d) * EPS,
        np.where(rng.random(d) < 0.5, 1.0, 10.0 ** rng.uniform(-12, -1)),
        rng.integers(-2, 3, size=d).astype(float),
    ][rng.integers(5)]
    return token, gamma, float(rng.choice([0.0, 1e-30, 1e-5, 0.1, 1e30]))


def test_norms_keep_their_relative_accuracy_where_dense_jacobians_lose_it():
    rng = np.random.default_rng(23)
    cases = 0
    for _ in range(400):
        x, gamma, eps = hard_case(rng)
        if eps == 0.0 and len(set(x.tolist())) == 1:
            continue
        cases += 1
        for function, centred in NORMS:
            exact = exact_jacobian_norm(x, gamma, eps, centred)
            assert abs(function(x, gamma, eps) - exact) <= 3e-15 * exact
    assert cases > 300


@given(tokens_and_gammas(4, finite), st.floats(0.0, allow_infinity=False))
def test_norms_of_any_input_are_numbers_within_their_bounds(pair, eps):
    x, gamma = pair
    assume(eps > 0.0 or len(set(x)) > 1)
    largest = mpmath.mpf(float(np.max(np.abs(gamma))))
    for function, centred in NORMS:
        norm = function(x, gamma, eps)
        with mpmath.workdps(DIGITS):
            _, sigma, _ = exact_normalised(x, eps, centred)
            bound = largest / sigma
            if math.isinf(norm):
                assert bound > HUGE * (1 - mpmath.mpf(4 * EPS))
            else:
                assert 0.0 <= norm <= bound * (1 + 4 * EPS) + TINY


@given(tokens_and_gammas(4, st.integers(-3, 3)), levels)
def test_norms_of_small_integers_against_high_precision(pair, eps):
    x, gamma = pair
    assume(eps > 0.0 or len(set(x)) > 1)
    for function, centred in NORMS:
        exact = exact_jacobian_norm(x, gamma, eps, centred)
        assert abs(function(x, gamma, eps) - exact) <= 3e-15 * exact


@given(tokens_and_gammas(8, moderate), positive_levels)
def test_the_third_magnitude_is_a_lower_bound(pair, eps):
    x, gamma = pair
    magnitudes = [*sorted(map(abs, gamma), reverse=True), 0.0, 0.0]
    sigma = layer_norm_stats(x, eps).sigma
    norm = layer_norm_jacobian_norm(x, gamma, eps)
    assert magnitudes[2] * (1 - 8 * EPS) <= norm * sigma <= magnitudes[0] * (1 + 8 * EPS)


def test_norms_at_the_ends_of_the_exponent_range():
    with np.errstate(all="raise"):
        gamma = np.array([1e300, 1e300, 1e300, 1.0])
        x = np.array([1.0, 2.0, 3.0, 4.0])
        for scale in (1e305, 1e-320):
            sigma = layer_norm_stats(x * scale, 0.0).sigma
            for function in (layer_norm_jacobian_norm, rms_norm_jacobian_norm):
                norm = function(x * scale, gamma * (1e-200 if scale < 1 else 1.0), 0.0)
                assert norm > 0.0
                assert math.isfinite(norm) == (scale > 1.0) or norm > 1e300
            assert sigma > 0.0
        assert layer_norm_jacobian_norm([0.0, 0.0], [1.0, 1.0], TINY) == pytest.approx(
            1 / math.sqrt(TINY), rel=4 * EPS
        )
        assert layer_norm_jacobian_norm([0.0, 0.0], [HUGE, HUGE], 1e-5) == math.inf
        # ρ² is far below the smallest float, ρ is not.
        assert layer_norm_jacobian_norm([1e90, -1e90], [1.0, 1.0], 1e-20) == pytest.approx(
            1e-290, rel=1e-14, abs=0
        )
        assert rms_norm_jacobian_norm([1e90], [1.0], 1e-20) == pytest.approx(
            1e-290, rel=1e-14, abs=0
        )


# --- Lipschitz constants -------------------------------------------------------------------------


def test_lipschitz_constants_in_closed_form():
    assert layer_norm_lipschitz([3.0, -3.0, 1.0], 0.25) == 6.0
    assert layer_norm_lipschitz([2.0], 0.25) == 0.0
    assert layer_norm_lipschitz([0.0, 0.0], 0.25) == 0.0
    assert layer_norm_lipschitz(np.ones(2), 1e-5) == pytest.approx(316.22776601683796, rel=2 * EPS)
    # d = 2: ‖Diag(γ)(I - 11ᵀ/2)‖ = √((γ_1² + γ_2²)/2).
    assert layer_norm_lipschitz([3.0, 4.0], 1.0) == pytest.approx(5 / math.sqrt(2.0), rel=4 * EPS)
    # One nonzero γ_i: √(1 - 1/d).
    assert layer_norm_lipschitz([0, 5, 0, 0], 4.0) == pytest.approx(2.5 * math.sqrt(0.75), rel=EPS)
    assert rms_norm_lipschitz([3.0, -4.0, 1.0], 0.25) == 8.0
    assert rms_norm_lipschitz([2.0], 0.25) == 4.0
    assert rms_norm_lipschitz([0.0], 0.25) == 0.0


def test_lipschitz_constants_equal_dense_norms():
    rng = np.random.default_rng(29)
    for _ in range(500):
        _, gamma, _ = random_case(rng)
        d = len(gamma)
        dense = np.linalg.norm(np.diag(gamma) @ (np.eye(d) - 1.0 / d), 2) / math.sqrt(0.3)
        assert layer_norm_lipschitz(gamma, 0.3) == pytest.approx(dense, rel=8e-15, abs=1e-14)
        largest = np.max(np.abs(gamma)) / math.sqrt(0.3)
        assert rms_norm_lipschitz(gamma, 0.3) == pytest.approx(largest, rel=4 * EPS, abs=0)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=6))
def test_the_paper_bound_is_attained_iff_the_largest_gamma_repeats(gamma):
    bound = max(map(abs, gamma)) / 0.5
    repeats = sum(abs(g) == max(map(abs, gamma)) for g in gamma) > 1
    constant = layer_norm_lipschitz(gamma, 0.25)
    if repeats or bound == 0.0:
        assert constant == bound
    else:
        assert constant < bound * (1 - 1e-3)


@given(tokens_and_gammas(5, moderate), st.data(), positive_levels)
def test_no_pair_of_tokens_exceeds_the_lipschitz_constants(pair, data, eps):
    x, gamma = pair
    y = data.draw(st.lists(moderate, min_size=len(x), max_size=len(x)))
    distance = np.linalg.norm(np.subtract(x, y))
    noise = 1e-13 * np.max(np.abs(gamma))
    moved = layer_norm(x, gamma, np.zeros(len(x)), eps) - layer_norm(
        y, gamma, np.zeros(len(x)), eps
    )
    assert np.linalg.norm(moved) <= layer_norm_lipschitz(gamma, eps) * distance + noise
    moved = rms_norm(x, gamma, eps) - rms_norm(y, gamma, eps)
    assert np.linalg.norm(moved) <= rms_norm_lipschitz(gamma, eps) * distance + noise
    assert layer_norm_jacobian_norm(x, gamma, eps) <= layer_norm_lipschitz(gamma, eps) * (
        1 + 8 * EPS
    )
    assert rms_norm_jacobian_norm(x, gamma, eps) <= rms_norm_lipschitz(gamma, eps) * (1 + 8 * EPS)


def test_lipschitz_constants_are_infinite_at_eps_zero():
    for function, name in ((layer_norm_lipschitz, "LayerNorm"), (rms_norm_lipschitz, "RMSNorm")):
        message = rf"^{name} has no finite Lipschitz constant at eps = 0: it is infinite$"
        with pytest.raises(ValueError, match=message):
            function([1.0, 2.0], 0)
        with pytest.raises(ValueError, match=r"^eps is -1\.0: negative$"):
            function([1.0], -1.0)
        with pytest.raises(ValueError, match=r"^gamma has shape \(1, 1\): 1 axes are needed$"):
            function([[1.0]], 1.0)


# --- errors --------------------------------------------------------------------------------------

SINGLE = [layer_norm_jacobian, layer_norm_jacobian_norm, rms_norm_jacobian, rms_norm_jacobian_norm]


def layer_norm_without_beta(x, gamma, eps):
    return layer_norm(x, gamma, np.zeros(np.shape(gamma)), eps)


@pytest.mark.parametrize("function", [*SINGLE, layer_norm_without_beta, rms_norm])
def test_faults_are_named(function):
    with pytest.raises(ValueError, match=r"^eps is -1e-05: negative$"):
        function([1.0, 2.0], [1.0, 1.0], -1e-5)
    for eps in (math.nan, math.inf):
        with pytest.raises(ValueError, match=rf"^eps is {eps}: a finite number is needed$"):
            function([1.0, 2.0], [1.0, 1.0], eps)
    with pytest.raises(TypeError, match=r"^eps has dtype <U1: real numbers are needed$"):
        function([1.0, 2.0], [1.0, 1.0], "1")
    message = r"^gamma has shape \(3,\), x has shape \(2,\): gamma must have shape \(2,\)$"
    with pytest.raises(ValueError, match=message):
        function([1.0, 2.0], [1.0, 1.0, 1.0], 1e-5)
    with pytest.raises(ValueError, match=r"^gamma is a scalar: at least one axis is needed$"):
        function([1.0, 2.0], 1.0, 1e-5)
    with pytest.raises(ValueError, match=r"^gamma\[0\] is nan: entries must be finite$"):
        function([1.0, 2.0], [math.nan, 1.0], 1e-5)
    with pytest.raises(ValueError, match=r"^x\[1\] is inf: entries must be finite$"):
        function([1.0, math.inf], [1.0, 1.0], 1e-5)
    with pytest.raises(TypeError, match=r"^x has dtype complex128: real numbers are needed$"):
        function([1j, 1.0], [1.0, 1.0], 1e-5)
    with pytest.raises(ValueError, match=r"^x has shape \(0,\): an axis is empty$"):
        function([], [], 1e-5)


@pytest.mark.parametrize("function", SINGLE)
def test_jacobians_take_one_token(function):
    with pytest.raises(ValueError, match=r"^x has shape \(1, 2\): 1 axes are needed$"):
        function([[1.0, 2.0]], [1.0, 1.0], 1e-5)


def test_beta_is_checked_like_gamma():
    message = "beta has shape (2,), x has shape (2, 3): beta must have shape (3,)"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        layer_norm(np.ones((2, 3)), np.ones(3), np.ones(2), 1e-5)
    message = "gamma has shape (1, 3), x has shape (2, 3): gamma must have shape (3,)"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        layer_norm(np.ones((2, 3)), np.ones((1, 3)), np.ones(3), 1e-5)


def test_eps_zero_names_the_token_without_spread():
    tokens = np.array([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [0.0, 0.0]]])
    ones, zeros = np.ones(2), np.zeros(2)
    message = r"^LayerNorm of a constant token is undefined at eps = 0: x\[1, 1\]$"
    with pytest.raises(ValueError, match=message):
        layer_norm(tokens, ones, zeros, 0.0)
    with pytest.raises(ValueError, match=message):
        layer_norm_stats(tokens, 0)
    with pytest.raises(
        ValueError, match=r"^RMSNorm of a zero token is undefined at eps = 0: x\[1, 1\]$"
    ):
        rms_norm(tokens, ones, 0.0)
    with pytest.raises(ValueError, match=r"^RMSNorm of a zero token .*eps = 0: x\[1, 1\]$"):
        rms_norm_stats(tokens, 0)
    for function in (layer_norm_jacobian, layer_norm_jacobian_norm):
        message = r"^LayerNorm of a constant token is undefined at eps = 0: x$"
        with pytest.raises(ValueError, match=message):
            function([0.1, 0.1, 0.1], np.ones(3), 0.0)
    message = r"^RMSNorm of a zero token is undefined at eps = 0: x$"
    for function in (rms_norm_jacobian, rms_norm_jacobian_norm):
        with pytest.raises(ValueError, match=message):
            function([0.0], [1.0], 0.0)
    with pytest.raises(ValueError, match=r"^LayerNorm of a constant token is undefined"):
        layer_norm_jacobian_norm([3.0], [1.0], 0.0)


def outcome(function, *arguments):
    """The value of a call, or the message of its ValueError or TypeError."""
    try:
        return function(*arguments)
    except (ValueError, TypeError) as error:
        return str(error)


junk = st.lists(st.floats(), max_size=3) | st.none() | st.text() | st.booleans() | st.floats()


@given(junk | st.lists(junk, max_size=2), junk, st.floats() | junk)
def test_any_argument_gives_numbers_or_an_error_that_names_it(x, gamma, eps):
    for function in [*SINGLE, layer_norm_without_beta, rms_norm]:
        result = outcome(function, x, gamma, eps)
        if isinstance(result, str):
            assert result.startswith(("x", "gamma", "eps", "LayerNorm of", "RMSNorm of"))
        else:
            assert not np.any(np.isnan(result))


@given(tokens_and_gammas(5, moderate))
def test_arguments_are_never_changed(pair):
    x, gamma = (np.array(values, float) for values in pair)
    copies = x.copy(), gamma.copy()
    x.flags.writeable = gamma.flags.writeable = False
    for function in [*SINGLE, layer_norm_without_beta, rms_norm]:
        function(x, gamma, 0.1)
    layer_norm_stats(x, 0.1)
    rms_norm_stats(x, 0.1)
    layer_norm_lipschitz(gamma, 0.1)
    rms_norm_lipschitz(gamma, 0.1)
    np.testing.assert_array_equal(x, copies[0])
    np.testing.assert_array_equal(gamma, copies[1])
