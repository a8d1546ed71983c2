"""theory.softmax: values to full accuracy at every magnitude, Jacobians, entropies, errors."""

import itertools
import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.softmax import (
    entropy,
    jacobian_from_probabilities,
    jacobian_inf_to_one,
    log_softmax,
    normalised_entropy,
    softmax,
    softmax_jacobian,
)

EPS = 2.0**-52
TINY = 5e-324
HUGE = np.finfo(np.float64).max
# exp(-37.43) is half an eps: the smaller probability is 2^-54 and the larger one rounds to 1.
NEAR_ONE_HOT = [37.42994775023705, 0.0]

finite = st.floats(allow_nan=False, allow_infinity=False)
temperatures = st.floats(min_value=0.0, exclude_min=True, allow_infinity=False)
ordinary_logits = st.lists(st.floats(-30, 30), min_size=1, max_size=6)
weights = st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any)


def exact_softmax(u, tau):
    """Probabilities and their logarithms to 50 digits beyond cancellation, as lists of mpf."""
    with mpmath.workdps(400):
        z = [mpmath.mpf(x) / mpmath.mpf(tau) for x in u]
        top = max(z)
        below = [x - top for x in z]
        terms = [mpmath.exp(x) if x > -2000 else mpmath.mpf(0) for x in below]
        total = mpmath.fsum(terms)
        logs = [x - mpmath.log(total) for x in below]
        return [x / total for x in terms], logs, below


def dyadic(weights):
    """Probabilities that are exact in binary, from integers, and the same as Fractions."""
    total = 1 << sum(weights).bit_length()
    exact = [Fraction(w, total) for w in weights]
    exact.append(1 - sum(exact))
    return np.array([float(x) for x in exact]), exact


# --- softmax -------------------------------------------------------------------------------------


def test_softmax_of_small_vectors():
    np.testing.assert_array_equal(softmax([0.0, 0.0]), [0.5, 0.5])
    np.testing.assert_array_equal(softmax([7]), [1.0])
    np.testing.assert_allclose(softmax([math.log(3.0), 0.0]), [0.75, 0.25], rtol=4 * EPS)
    np.testing.assert_allclose(softmax([math.log(3.0), 0.0], 0.5), [0.9, 0.1], rtol=8 * EPS)
    np.testing.assert_allclose(softmax([0.0, 2.0 * math.log(3.0)], tau=2), [0.25, 0.75], rtol=9e-16)
    assert softmax(np.zeros(4, np.float32)).dtype == np.float64


def test_softmax_keeps_the_small_probability():
    p = softmax(NEAR_ONE_HOT)
    assert p[0] == 1.0
    assert p[1] == pytest.approx(2.0**-54, rel=1e-14)
    np.testing.assert_allclose(
        log_softmax(NEAR_ONE_HOT), [-(2.0**-54), -NEAR_ONE_HOT[0]], rtol=1e-14
    )


@pytest.mark.parametrize(
    ("u", "tau", "expected"),
    [
        ([1e308, -1e308], 1.0, [1.0, 0.0]),
        ([1e308, -1e308], 1e308, [1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))]),
        ([HUGE, HUGE, -HUGE], 1e-300, [0.5, 0.5, 0.0]),
        ([TINY, 0.0], TINY, [1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1))]),
        ([-TINY, 0.0], 1e308, [0.5, 0.5]),
        ([1e-310, 3e-310], 1e-310, [1 / (1 + math.exp(2)), 1 / (1 + math.exp(-2))]),
    ],
)
def test_softmax_at_extreme_logits_and_temperatures(u, tau, expected):
    with np.errstate(all="raise"):
        np.testing.assert_allclose(softmax(u, tau), expected, rtol=1e-14, atol=0)
        np.testing.assert_allclose(
            log_softmax(u, tau)[0], math.log(expected[0]), rtol=1e-14, atol=0
        )


def test_a_far_outlier_does_not_blur_the_others():
    tau = 2.0**-1000
    p = softmax([0.0, tau, -1e308], tau)
    np.testing.assert_allclose(p, [*softmax([0.0, 1.0]), 0.0], rtol=4 * EPS)
    p = softmax([0.0, TINY, -HUGE], TINY)
    np.testing.assert_allclose(p, [*softmax([0.0, 1.0]), 0.0], rtol=4 * EPS)
    # Differences that overflow beside one that does not, at a temperature that resolves both.
    logs = log_softmax([HUGE, -HUGE, 0.0], 2.0**1000)
    np.testing.assert_allclose(logs, [0.0, -(2.0**25), -(2.0**24)], rtol=4 * EPS)


def test_each_slice_has_its_own_peak():
    u = np.array([[1e308, -1e308], [1e-300, 0.0]])
    p = softmax(u, 1e-300)
    np.testing.assert_array_equal(p[0], [1.0, 0.0])
    np.testing.assert_allclose(p[1], softmax([1.0, 0.0]), rtol=4 * EPS)


@given(st.lists(finite, min_size=1, max_size=6), temperatures)
def test_softmax_against_high_precision(u, tau):
    p, logs = softmax(u, tau), log_softmax(u, tau)
    exact, exact_logs, below = exact_softmax(u, tau)
    for i in range(len(u)):
        allowed = (8 + 4 * min(-float(max(below[i], -800)), 800)) * EPS
        assert abs(p[i] - exact[i]) <= allowed * exact[i] + 4 * TINY
        if exact_logs[i] < -HUGE:
            assert logs[i] <= -HUGE * (1 - 8 * EPS)
        else:
            assert abs(logs[i] - exact_logs[i]) <= 64 * EPS * abs(exact_logs[i]) + 4 * TINY


@given(st.lists(finite, min_size=1, max_size=6), temperatures)
def test_softmax_is_a_distribution_that_keeps_order(u, tau):
    p = softmax(u, tau)
    assert abs(math.fsum(p) - 1.0) <= 4 * EPS
    assert np.all(np.diff(p[np.argsort(u)]) >= 0.0)
    assert p.shape == log_softmax(u, tau).shape == (len(u),)


def test_sums_stay_within_four_eps_at_every_length_and_layout():
    rng = np.random.default_rng(3)
    for length in (17, 1000, 5000):
        u = rng.normal(size=(8, length)) * rng.choice([0.01, 1.0, 10.0], size=(8, 1))
        p = softmax(u)
        assert max(abs(math.fsum(row) - 1.0) for row in p) <= 4 * EPS
        np.testing.assert_array_equal(softmax(np.asfortranarray(u)), p)
        np.testing.assert_array_equal(softmax(u.T, axis=0), p.T)


def test_softmax_along_another_axis():
    u = np.arange(24.0).reshape(2, 3, 4) % 5
    for axis in (0, 1, 2, -1, -2, -3):
        p = softmax(u, 2.0, axis)
        assert p.shape == u.shape
        np.testing.assert_allclose(p.sum(axis=axis), 1.0, rtol=4 * EPS)
        expected = np.exp(u / 2.0) / np.exp(u / 2.0).sum(axis=axis, keepdims=True)
        np.testing.assert_allclose(p, expected, rtol=16 * EPS)
        np.testing.assert_allclose(log_softmax(u, 2.0, axis), np.log(expected), rtol=1e-14)


# --- masks ---------------------------------------------------------------------------------------


def test_hidden_positions_get_nothing_and_are_not_read():
    u = np.array([[1.0, math.nan, 3.0], [-math.inf, 2.0, math.inf]])
    mask = np.array([[True, False, True], [False, True, False]])
    expected = np.zeros((2, 3))
    expected[0, [0, 2]] = softmax([1.0, 3.0])
    expected[1, 1] = 1.0
    np.testing.assert_array_equal(softmax(u, mask=mask), expected)
    logs = log_softmax(u, mask=mask)
    np.testing.assert_array_equal(logs[0, [0, 2]], log_softmax([1.0, 3.0]))
    np.testing.assert_array_equal(logs == -math.inf, ~mask)
    assert logs[1, 1] == 0.0


def test_a_hidden_largest_logit_does_not_set_the_scale():
    p = softmax([1e-300, 2e-300, 1e300], 1e-300, mask=[True, True, False])
    np.testing.assert_allclose(p, [*softmax([0.0, 1.0]), 0.0], rtol=4 * EPS)
    p = softmax([TINY, 0.0, 0.0], TINY, mask=[True, True, False])
    np.testing.assert_allclose(p, [*softmax([1.0, 0.0]), 0.0], rtol=4 * EPS)
    p = softmax([-5.0, -4.0, 0.0], mask=[True, True, False])
    np.testing.assert_allclose(p, [*softmax([0.0, 1.0]), 0.0], rtol=4 * EPS)


def test_masks_broadcast_over_rows_and_axes():
    u = np.zeros((2, 4))
    np.testing.assert_array_equal(
        softmax(u, mask=[True, False, True, False]), [[0.5, 0.0, 0.5, 0.0]] * 2
    )
    np.testing.assert_array_equal(softmax(u, axis=0, mask=[[True], [False]])[0], [1.0] * 4)
    np.testing.assert_array_equal(softmax(u, mask=True), np.full((2, 4), 0.25))


MASK_ERRORS = [
    (
        [[1, 0]],
        TypeError,
        "mask has dtype int64: booleans are needed, True where visible",
    ),
    ([True] * 3, ValueError, "mask has shape (3,), u has shape (2, 2): it does not broadcast"),
    ([[[True]]], ValueError, "mask has shape (1, 1, 1), u has shape (2, 2): it does not broadcast"),
    ([[True, True], [False, False]], ValueError, "mask hides every position of u[1, :]"),
    (False, ValueError, "mask hides every position of u[0, :]"),
]


@pytest.mark.parametrize(("mask", "kind", "message"), MASK_ERRORS)
def test_bad_masks_are_refused(mask, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        softmax(np.zeros((2, 2)), mask=mask)


def test_mask_errors_name_the_slice_along_the_axis():
    mask = np.ones((2, 3, 4), bool)
    mask[1, :, 2] = False
    with pytest.raises(ValueError, match=r"^mask hides every position of u\[1, :, 2\]$"):
        softmax(np.zeros((2, 3, 4)), axis=1, mask=mask)
    with pytest.raises(ValueError, match=r"^mask hides every position of u\[1, :, 2\]$"):
        softmax(np.zeros((2, 3, 4)), axis=-2, mask=mask)
    with pytest.raises(ValueError, match=r"^mask cannot be read as an array: "):
        softmax([0.0], mask=[[True], [True, False]])


# --- Jacobians -----------------------------------------------------------------------------------


def test_jacobian_of_dyadic_probabilities_is_exact():
    np.testing.assert_array_equal(
        jacobian_from_probabilities([0.5, 0.25, 0.25], 2.0),
        [
            [0.125, -0.0625, -0.0625],
            [-0.0625, 0.09375, -0.03125],
            [-0.0625, -0.03125, 0.09375],
        ],
    )
    np.testing.assert_array_equal(jacobian_from_probabilities([1.0, 0.0]), np.zeros((2, 2)))
    np.testing.assert_array_equal(jacobian_from_probabilities([1]), [[0.0]])
    assert jacobian_from_probabilities([1]).dtype == np.float64


@given(weights, st.sampled_from([0.25, 1.0, 8.0]))
def test_jacobian_equals_its_definition_in_fractions(weights, tau):
    p, exact = dyadic(weights)
    J = jacobian_from_probabilities(p, tau)
    for i, j in itertools.product(range(len(p)), repeat=2):
        assert J[i, j] == float((exact[i] * ((i == j) - exact[j])) / Fraction(tau))


def complex_step_jacobian(u, tau):
    """The derivative of exp(u/τ)/Σ exp(u/τ) along each axis, by a step of 1e-30 i."""
    points = np.asarray(u, complex) + 1e-30j * np.eye(len(u))
    terms = np.exp(points / tau)
    return (terms / terms.sum(axis=1, keepdims=True)).imag.T / 1e-30


@given(st.lists(st.floats(-8, 8), min_size=1, max_size=5), st.floats(0.25, 4.0))
def test_softmax_jacobian_is_the_derivative(u, tau):
    np.testing.assert_allclose(
        softmax_jacobian(u, tau), complex_step_jacobian(u, tau), rtol=1e-11, atol=1e-15 / tau
    )


@given(ordinary_logits, st.floats(0.01, 100.0))
def test_jacobian_is_a_symmetric_matrix_that_kills_constants(u, tau):
    J = softmax_jacobian(u, tau)
    np.testing.assert_array_equal(J, J.T)
    assert np.all(np.abs(J.sum(axis=1)) <= 8 * EPS * np.diag(J))
    assert np.all(np.diag(J) >= 0.0)
    assert np.all(np.linalg.eigvalsh(J) >= -16 * EPS * np.trace(J))


def test_the_diagonal_near_one_hot_does_not_cancel():
    q = 2.0**-54
    np.testing.assert_allclose(
        softmax_jacobian(NEAR_ONE_HOT), [[q, -q], [-q, q]], rtol=1e-14, atol=0
    )
    np.testing.assert_allclose(
        jacobian_from_probabilities([1.0, 1e-300]), 1e-300 * np.array([[1, -1], [-1, 1]]), rtol=EPS
    )


def test_jacobian_entries_neither_vanish_nor_overflow_on_the_way():
    with np.errstate(all="raise"):
        J = jacobian_from_probabilities([1.0, 1e-200, 1e-200], 1e-300)
        assert J[1, 2] == pytest.approx(-1e-100, rel=4 * EPS, abs=0)
        assert J[0, 1] == pytest.approx(-1e100, rel=4 * EPS, abs=0)
        J = jacobian_from_probabilities([0.5, 0.5], 1e300)
        assert J[0, 0] == pytest.approx(0.25e-300, rel=4 * EPS, abs=0)
        J = softmax_jacobian([0.0, 0.0], TINY)
        np.testing.assert_array_equal(J, [[math.inf, -math.inf], [-math.inf, math.inf]])


def test_infinity_to_one_norm_values():
    assert jacobian_inf_to_one([0.0]) == 0.0
    assert jacobian_inf_to_one([3.0, 3.0]) == 1.0
    assert jacobian_inf_to_one([0.0, 0.0], 4.0) == 0.25
    assert jacobian_inf_to_one(np.zeros(3), 0.5) == pytest.approx(16 / 9, rel=4 * EPS)
    assert jacobian_inf_to_one(NEAR_ONE_HOT) == pytest.approx(2.0**-52, rel=1e-14, abs=0)
    logits = np.log([0.9, 0.1])
    assert jacobian_inf_to_one(logits) == pytest.approx(0.36, rel=1e-14)
    assert isinstance(jacobian_inf_to_one([0.0]), float)


def test_infinity_to_one_norm_at_extreme_temperatures():
    with np.errstate(all="raise"):
        assert jacobian_inf_to_one([1.0, 1.0], 2.0**-1020) == 2.0**1020
        assert jacobian_inf_to_one([1.0, 1.0], 2.0**1020) == 2.0**-1020
        assert jacobian_inf_to_one([1.0, 1.0], TINY) == math.inf


@given(weights, st.sampled_from([0.5, 1.0, 3.0]))
def test_infinity_to_one_norm_is_the_best_cut(weights, tau):
    positive = [w for w in weights if w]
    logits = tau * np.log(positive)
    total = sum(positive)
    cuts = (
        Fraction(sum(itertools.compress(positive, inside)), total)
        for inside in itertools.product((0, 1), repeat=len(positive))
    )
    best = max(4 * q * (1 - q) for q in cuts)
    assert jacobian_inf_to_one(logits, tau) == pytest.approx(float(best) / tau, rel=1e-13)


@given(ordinary_logits, st.floats(0.1, 10.0))
def test_infinity_to_one_norm_is_attained_by_signs_of_the_matrix(u, tau):
    J = softmax_jacobian(u, tau)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(u))))
    largest = np.max(np.sum(np.abs(signs @ J), axis=1))
    assert jacobian_inf_to_one(u, tau) == pytest.approx(largest, rel=1e-14, abs=TINY)


def test_infinity_to_one_norm_has_a_length_limit():
    assert jacobian_inf_to_one(np.zeros(20)) == pytest.approx(1.0, rel=1e-14)
    with pytest.raises(ValueError, match=r"^M has 21 columns: sign vectors are enumerated up to"):
        jacobian_inf_to_one(np.zeros(21))


# --- entropies -----------------------------------------------------------------------------------


def test_entropy_values():
    assert entropy([0.5, 0.5, 0.0]) == pytest.approx(0.6931471805599453, rel=EPS)
    assert entropy([0.4, 0.1, 0.4, 0.1]) == pytest.approx(1.1935496040981333, rel=4 * EPS)
    one_hot = np.zeros(1024)
    one_hot[37] = 1.0
    assert entropy(one_hot) == 0.0
    assert not np.signbit(entropy(one_hot))
    assert not np.signbit(entropy([1.0]))
    assert entropy([1.0 + 4 * EPS]) == 0.0
    assert entropy(np.full(8, 0.125)) == pytest.approx(math.log(8.0), rel=2 * EPS)
    assert entropy([1.0, 1e-300]) == pytest.approx(1e-300 * math.log(1e300), rel=4 * EPS, abs=0)
    assert entropy([1, 0]) == 0.0
    assert entropy([[[1.0, 0.0], [0.5, 0.5]]]).shape == (1, 2)
    np.testing.assert_allclose(entropy([[1.0, 0.0], [0.5, 0.5]]), [0.0, math.log(2.0)])


def test_normalised_entropy_values():
    assert normalised_entropy([0.5, 0.5, 0.0], 3) == pytest.approx(0.6309297535714574, rel=4 * EPS)
    assert normalised_entropy([0.5, 0.5, 0.0]) == normalised_entropy([0.5, 0.5, 0.0], 3)
    assert normalised_entropy([0.5, 0.5, 0.0], 2) == 1.0
    assert normalised_entropy([0.4, 0.1, 0.4, 0.1]) == pytest.approx(0.8609640474436811, rel=1e-15)
    assert normalised_entropy([1.0]) == 0.0
    assert normalised_entropy([0.0, 1.0], 1) == 0.0
    assert normalised_entropy([0.0, 1.0 - 4 * EPS], 1) == 0.0
    assert normalised_entropy([0.0, 1.0]) == 0.0
    rows = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(normalised_entropy(rows, [1, 2, 3]), [0.0, 1.0, 1.0], rtol=4 * EPS)
    np.testing.assert_allclose(
        normalised_entropy(rows, np.uint8(3)), [0.0, math.log(2) / math.log(3), 1.0], rtol=4 * EPS
    )
    assert normalised_entropy([rows], [[1, 2, 3]]).shape == (1, 3)


def test_normalised_entropy_never_exceeds_one():
    unclipped = [float(entropy(np.full(n, 1 / n)) / np.log(n)) for n in range(2, 200)]
    assert max(unclipped) > 1.0
    assert max(float(normalised_entropy(np.full(n, 1 / n))) for n in range(2, 200)) == 1.0


@given(weights)
def test_entropy_against_high_precision(weights):
    p, exact = dyadic(weights)
    with mpmath.workdps(40):
        terms = [mpmath.mpf(x.numerator) / x.denominator for x in exact if x]
        expected = -mpmath.fsum(x * mpmath.log(x) for x in terms)
        assert abs(entropy(p) - expected) <= 8 * EPS * expected
        fraction = expected / mpmath.log(len(p)) if len(p) > 1 else 0
        assert abs(normalised_entropy(p) - fraction) <= 16 * EPS * fraction


@given(st.lists(finite, min_size=1, max_size=6), temperatures)
def test_entropy_of_any_softmax_is_a_number_in_its_range(u, tau):
    p = softmax(u, tau)
    assert 0.0 <= entropy(p) <= math.log(len(u)) * (1 + 8 * EPS)
    assert 0.0 <= normalised_entropy(p) <= 1.0


SUPPORT_ERRORS = [
    (0, ValueError, "support must lie between 1 and 2, the length of the rows of p"),
    (3, ValueError, "support must lie between 1 and 2, the length of the rows of p"),
    (-1, ValueError, "support must lie between 1 and 2, the length of the rows of p"),
    (2.0, TypeError, "support has dtype float64: integers are needed"),
    ([2, 3], ValueError, "support must lie between 1 and 2, the length of the rows of p"),
    ([0, 2], ValueError, "support must lie between 1 and 2, the length of the rows of p"),
    (True, TypeError, "support has dtype bool: integers are needed"),
    ("2", TypeError, "support has dtype <U1: integers are needed"),
    (
        [1, 2, 2],
        ValueError,
        "support has shape (3,), p has shape (2, 2): it does not broadcast to (2,)",
    ),
    ([1, 1], ValueError, "p[1] has 2 positive entries, more than its support of 1"),
    (1, ValueError, "p[1] has 2 positive entries, more than its support of 1"),
]


@pytest.mark.parametrize(("support", "kind", "message"), SUPPORT_ERRORS)
def test_bad_supports_are_refused(support, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        normalised_entropy([[1.0, 0.0], [0.5, 0.5]], support)


def test_a_single_row_with_too_small_a_support():
    with pytest.raises(ValueError, match=r"^p has 2 positive entries, more than its support of 1$"):
        normalised_entropy([0.5, 0.5], 1)


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [softmax, log_softmax, softmax_jacobian, jacobian_inf_to_one])
def test_bad_logits_and_temperatures_are_named(function):
    for tau in (0, -0.0, -1.5):
        message = rf"^tau is {float(tau)}: the temperature must be positive$"
        with pytest.raises(ValueError, match=message):
            function([1.0, 2.0], tau)
    for tau in (math.nan, math.inf):
        with pytest.raises(ValueError, match=rf"^tau is {tau}: a finite number is needed$"):
            function([1.0], tau)
    for tau in ("1", None, 1j, True):
        with pytest.raises(TypeError, match=r"^tau "):
            function([1.0], tau)
    with pytest.raises(ValueError, match=r"^tau has shape \(1,\): a single number is needed$"):
        function([1.0], [1.0])
    with pytest.raises(ValueError, match=r"^u\[1\] is nan: entries must be finite$"):
        function([1.0, math.nan])
    with pytest.raises(ValueError, match=r"^u has shape \(0,\): an axis is empty$"):
        function([])
    with pytest.raises(TypeError, match=r"^u has dtype complex128: real numbers are needed$"):
        function([1j])
    assert np.all(np.isfinite(function([1.0, 2.0], 1e-3)))


def test_the_jacobians_take_one_row():
    message = r"^u has shape \(1, 1\): 1 axes are needed$"
    for function in (softmax_jacobian, jacobian_inf_to_one):
        with pytest.raises(ValueError, match=message):
            function([[1.0]])
    with pytest.raises(ValueError, match=r"^p has shape \(1, 1\): 1 axes are needed$"):
        jacobian_from_probabilities([[1.0]])


def test_probabilities_are_checked():
    for function in (jacobian_from_probabilities, entropy, normalised_entropy):
        with pytest.raises(ValueError, match=r"^p sums to 0\.75, not to 1$"):
            function([0.5, 0.25])
        with pytest.raises(ValueError, match=r"^p\[1\] is -0\.5: negative$"):
            function([1.5, -0.5])
    with pytest.raises(ValueError, match=r"^tau is -1\.0: the temperature must be positive$"):
        jacobian_from_probabilities([1.0], -1)


@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_out_of_range_is_named(axis):
    with pytest.raises(ValueError, match=rf"^axis is {axis}: u has 2 axes$"):
        softmax([[1.0]], axis=axis)


@pytest.mark.parametrize("axis", [1.0, "0", None])
def test_an_axis_of_the_wrong_kind_is_named(axis):
    kind = type(axis).__name__
    with pytest.raises(TypeError, match=rf"^axis is of type {kind}: an integer is needed$"):
        softmax([[1.0]], axis=axis)
    np.testing.assert_array_equal(softmax([[1.0]], axis=np.int8(0)), [[1.0]])


junk = st.lists(st.floats(), max_size=4) | st.none() | st.text() | st.booleans() | st.floats()


def outcome(function, *arguments):
    """The value of a call, or the message of its ValueError or TypeError."""
    try:
        return function(*arguments)
    except (ValueError, TypeError) as error:
        return str(error)


@given(junk | st.lists(junk, max_size=3), junk)
def test_any_argument_gives_numbers_or_an_error_that_names_it(value, tau):
    for function in (softmax, log_softmax, softmax_jacobian, jacobian_inf_to_one):
        result = outcome(function, value, tau)
        if isinstance(result, str):
            assert result.startswith(("u", "tau"))
        else:
            assert not np.any(np.isnan(result))
    for function in (entropy, normalised_entropy, jacobian_from_probabilities):
        result = outcome(function, value)
        if isinstance(result, str):
            assert result.startswith("p")
        else:
            assert np.all(np.isfinite(result))


@given(ordinary_logits)
def test_arguments_are_never_changed(u):
    logits = np.array(u)
    p = softmax(logits)
    mask = np.ones(len(u), bool)
    copies = [logits.copy(), p.copy(), mask.copy()]
    for array in (logits, p, mask):
        array.flags.writeable = False
    log_softmax(logits, mask=mask)
    softmax_jacobian(logits)
    jacobian_inf_to_one(logits)
    jacobian_from_probabilities(p)
    normalised_entropy(p)
    for array, copy in zip((logits, p, mask), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
