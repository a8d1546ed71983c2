"""theory.norms: values, extremes, and error messages."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.norms import (
    MAX_ENUMERATED_COLUMNS,
    InfToOneMaximiser,
    block_inf_rms,
    frobenius,
    induced_norm,
    inf_to_one_maximiser,
    inf_to_one_norm,
    is_row_stochastic,
    rms,
    row_norm_inf_2,
    spectral_norm,
    total_variation,
)

EPS = 2.0**-52
TINY = 5e-324
HUGE = np.finfo(np.float64).max
finite = st.floats(allow_nan=False, allow_infinity=False)
vectors = st.lists(finite, min_size=1, max_size=8)
small_ints = st.integers(-4, 4)


def matrices(max_rows=4, max_columns=5, entries=finite):
    return st.integers(1, max_columns).flatmap(
        lambda n: st.lists(st.lists(entries, min_size=n, max_size=n), min_size=1, max_size=max_rows)
    )


def root_of_squares(entries, divisor=1):
    """√(Σ x²/divisor) to 40 digits, as an mpf."""
    with mpmath.workdps(40):
        return mpmath.sqrt(mpmath.fsum(mpmath.mpf(x) ** 2 for x in entries) / divisor)


def assert_close(value, exact, eps_count):
    """value is exact to a relative error of eps_count eps or to one subnormal, infinity to HUGE."""
    allowed = eps_count * EPS * abs(exact) + TINY
    assert abs(mpmath.mpf(min(value, HUGE)) - min(exact, mpmath.mpf(HUGE))) <= allowed
    assert math.isfinite(value) or exact + allowed > HUGE


# --- vector and row norms ------------------------------------------------------------------------


def test_norms_of_a_small_matrix():
    X = [[3.0, 4.0], [-5.0, 12.0], [0.0, 1.0]]
    assert row_norm_inf_2(X) == 13.0
    assert block_inf_rms(X) == pytest.approx(13.0 / math.sqrt(2.0), rel=2 * EPS, abs=0)
    assert frobenius(X) == pytest.approx(math.sqrt(195.0), rel=2 * EPS, abs=0)
    assert rms([2.0, -2.0, 2.0, -2.0]) == 2.0
    assert rms([3.0, 3.0, 3.0]) == 3.0
    assert rms([1.0, 0.0, 0.0, 0.0]) == 0.5
    assert all(isinstance(f(X), float) for f in (row_norm_inf_2, block_inf_rms, frobenius))
    assert isinstance(rms([1]), float)


@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e308, 1e-308, TINY])
def test_norms_neither_overflow_nor_vanish(scale):
    with np.errstate(all="raise"):
        assert rms([scale, -scale]) == scale
        assert row_norm_inf_2([[scale, 0.0], [0.0, 0.0]]) == scale
        assert block_inf_rms([[scale, scale], [0.0, scale]]) == scale
        assert frobenius([[0.0], [scale]]) == scale
        assert spectral_norm([[scale, 0.0], [0.0, 0.0]]) == scale
        assert induced_norm([[scale]], 1) == induced_norm([[scale]], np.inf) == scale
        assert inf_to_one_norm([[scale, 0.0]]) == scale


def test_norms_beyond_float64_are_infinite_without_a_warning():
    rows = np.full((2, 2), HUGE)
    with np.errstate(all="raise"):
        assert row_norm_inf_2(rows) == frobenius(rows) == spectral_norm(rows) == math.inf
        assert induced_norm(rows, 1) == induced_norm(rows, np.inf) == math.inf
        assert inf_to_one_norm(rows) == math.inf
        assert block_inf_rms(rows) == rms(rows[0]) == HUGE


def test_norms_of_zero():
    zero = np.zeros((2, 3))
    for norm in (row_norm_inf_2, block_inf_rms, frobenius, spectral_norm, inf_to_one_norm):
        assert norm(zero) == 0.0
    assert rms(zero[0]) == 0.0
    assert [induced_norm(zero, r) for r in (1, 2, np.inf)] == [0.0, 0.0, 0.0]


@given(vectors)
def test_rms_against_forty_digits(x):
    assert_close(rms(x), root_of_squares(x, len(x)), 4)


@given(matrices())
def test_row_norms_against_forty_digits(rows):
    width = len(rows[0])
    assert_close(row_norm_inf_2(rows), max(root_of_squares(row) for row in rows), 4)
    assert_close(block_inf_rms(rows), max(root_of_squares(row, width) for row in rows), 4)
    assert_close(frobenius(rows), root_of_squares(itertools.chain(*rows)), 4)


@given(matrices(entries=st.floats(-1e100, 1e100)))
def test_the_geometries_differ_by_at_most_the_root_of_the_length(rows):
    length, width = len(rows), len(rows[0])
    largest = block_inf_rms(rows)
    assert frobenius(rows) / math.sqrt(length * width) <= largest * (1 + 8 * EPS)
    assert largest <= frobenius(rows) / math.sqrt(width) * (1 + 8 * EPS)


# --- matrix norms --------------------------------------------------------------------------------


def test_induced_norms_of_a_small_matrix():
    M = [[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]]
    assert induced_norm(M, 1) == 9.0
    assert induced_norm(M, np.inf) == 15.0
    assert induced_norm(M, 2) == spectral_norm(M)
    assert induced_norm(M, np.float32(1)) == 9.0


def test_spectral_norm_of_matrices_with_known_singular_values():
    assert spectral_norm(np.diag([1.0, -7.0, 3.0])) == pytest.approx(7.0, rel=4 * EPS, abs=0)
    assert spectral_norm([[3.0, 4.0]]) == pytest.approx(5.0, rel=4 * EPS, abs=0)
    assert spectral_norm([[1.0, 1.0], [0.0, 1.0]]) == pytest.approx(
        (1 + math.sqrt(5.0)) / 2, rel=4 * EPS, abs=0
    )


@given(matrices(entries=st.floats(-1e150, 1e150)))
def test_spectral_norm_obeys_its_inequalities(rows):
    norm = spectral_norm(rows)
    assert row_norm_inf_2(rows) <= norm * (1 + 64 * EPS) + TINY
    assert norm <= frobenius(rows) * (1 + 64 * EPS)
    bound = math.sqrt(induced_norm(rows, 1)) * math.sqrt(induced_norm(rows, np.inf))
    assert norm <= bound * (1 + 64 * EPS) + TINY


@pytest.mark.parametrize("r", [0, 3, 1.5, -1, math.nan, -math.inf])
def test_induced_norm_refuses_other_orders(r):
    with pytest.raises(ValueError, match=rf"^r is {float(r)}: 1, 2 or inf is needed$"):
        induced_norm([[1.0]], r)


@pytest.mark.parametrize("r", ["2", None, True, 1j])
def test_induced_norm_refuses_orders_that_are_no_numbers(r):
    with pytest.raises(TypeError, match=r"^r "):
        induced_norm([[1.0]], r)


def exact_inf_to_one(M):
    """max over sign vectors of ‖Mx‖₁ in Fractions, over all 2^n of them."""
    rows = [[Fraction(x) for x in row] for row in M]
    return max(
        sum(abs(sum(m * x for m, x in zip(row, signs, strict=True))) for row in rows)
        for signs in itertools.product((-1, 1), repeat=len(rows[0]))
    )


def test_inf_to_one_of_small_matrices():
    assert inf_to_one_norm([[5.0]]) == 5.0
    assert inf_to_one_norm([[-5.0]]) == 5.0
    assert inf_to_one_norm(np.eye(3)) == 3.0
    assert inf_to_one_norm([[1.0, 1.0], [1.0, -1.0]]) == 2.0
    assert inf_to_one_norm([[1.0, 2.0, -4.0]]) == 7.0
    best = inf_to_one_maximiser([[1.0, 2.0, -4.0]])
    assert isinstance(best, InfToOneMaximiser)
    assert best.value == 7.0
    assert best.signs.dtype == np.float64
    np.testing.assert_array_equal(best.signs, [1.0, 1.0, -1.0])
    with pytest.raises(AttributeError):
        best.value = 0.0


@given(matrices(entries=small_ints))
def test_inf_to_one_equals_exact_enumeration(rows):
    best = inf_to_one_maximiser(rows)
    assert best.value == exact_inf_to_one(rows)
    assert set(best.signs) <= {-1.0, 1.0}
    assert best.signs[0] == 1.0
    assert np.sum(np.abs(np.array(rows) @ best.signs)) == best.value


@given(matrices())
def test_inf_to_one_equals_exact_enumeration_at_every_magnitude(rows):
    exact = exact_inf_to_one(rows)
    with mpmath.workdps(40):
        assert_close(inf_to_one_norm(rows), mpmath.mpf(exact.numerator) / exact.denominator, 16)


@pytest.mark.parametrize("columns", [12, 13, 14, 16])
def test_inf_to_one_where_the_enumeration_is_split(columns):
    rng = np.random.default_rng(columns)
    M = rng.integers(-9, 10, size=(3, columns)).astype(float)
    codes = np.arange(2**columns)
    signs = np.where((codes[:, np.newaxis] >> np.arange(columns)) % 2, 1.0, -1.0)
    best = inf_to_one_maximiser(M)
    assert best.value == np.max(np.sum(np.abs(signs @ M.T), axis=1))
    assert best.signs.shape == (columns,)
    assert np.sum(np.abs(M @ best.signs)) == best.value


def test_inf_to_one_at_its_limit():
    assert MAX_ENUMERATED_COLUMNS == 20
    wanted = np.where(np.arange(20) % 3, 1.0, -1.0)
    weights = np.arange(1.0, 21.0)
    best = inf_to_one_maximiser(np.outer([2.0, -1.0], wanted * weights))
    assert best.value == 3.0 * 210.0
    np.testing.assert_array_equal(best.signs, wanted * wanted[0])
    with pytest.raises(
        ValueError, match=r"^M has 21 columns: sign vectors are enumerated up to 20$"
    ):
        inf_to_one_norm(np.ones((1, 21)))


@given(matrices(entries=st.floats(-1e6, 1e6)), st.data())
def test_interior_points_of_the_cube_do_not_exceed_the_norm(rows, data):
    n = len(rows[0])
    x = data.draw(st.lists(st.floats(-1, 1), min_size=n, max_size=n))
    image = np.sum(np.abs(np.array(rows) @ np.array(x)))
    assert image <= inf_to_one_norm(rows) * (1 + 32 * EPS) + TINY


# --- probability vectors -------------------------------------------------------------------------


def test_is_row_stochastic_at_its_boundaries():
    assert is_row_stochastic([[0.5, 0.5], [1.0, 0.0]])
    assert is_row_stochastic([[1, 0], [0, 1]])
    assert not is_row_stochastic([[0.5, 0.5], [0.5, 0.25]])
    assert not is_row_stochastic([[1.5, -0.5]])
    assert not is_row_stochastic([[1.0 + TINY, -TINY]], tol=1.0)
    assert is_row_stochastic([[1.0 + 4 * EPS]])
    assert not is_row_stochastic([[1.0 + 5 * EPS]])
    assert is_row_stochastic([[1.0 - 4 * EPS]])
    assert not is_row_stochastic([[1.0 - 4.5 * EPS]])
    assert is_row_stochastic([[0.25]], tol=0.75)
    assert not is_row_stochastic([[0.25]], tol=0.74)
    assert is_row_stochastic([[1.0]], tol=0)
    assert not is_row_stochastic([[1.0 - EPS]], tol=0.0)
    assert not is_row_stochastic([[1e308, 1e308, 0.0]])
    assert not is_row_stochastic([[1e308, 1e308, -1e308, -1e308]])
    thirds = np.full((1, 3), 1 / 3, np.float32)
    assert is_row_stochastic(thirds)
    assert not is_row_stochastic(np.full((1, 3), 0.333, np.float32))


def test_is_row_stochastic_allows_for_the_length_of_a_row():
    # 4 spacings at 1 are 0.0039 in half precision; 4096 entries may add 0.0005, 4 may not.
    row = np.zeros((1, 4096), np.float16)
    row[0, :2] = 1.0, 0.0042
    assert is_row_stochastic(row)
    assert not is_row_stochastic(row[:, :4])
    assert not is_row_stochastic(np.tile(row[:, :4], (4096, 1)))


def test_is_row_stochastic_refuses_a_bad_tolerance():
    with pytest.raises(ValueError, match=r"^tol is -0\.5: negative$"):
        is_row_stochastic([[1.0]], tol=-0.5)
    with pytest.raises(ValueError, match=r"^tol is nan: a finite number is needed$"):
        is_row_stochastic([[1.0]], tol=math.nan)
    with pytest.raises(ValueError, match=r"^A has shape \(1,\): 2 axes are needed$"):
        is_row_stochastic([1.0])


def test_total_variation_values():
    assert total_variation([1.0, 0.0], [0.0, 1.0]) == 1.0
    assert total_variation([0.5, 0.5], [0.5, 0.5]) == 0.0
    assert total_variation([0.5, 0.25, 0.25], [0.25, 0.25, 0.5]) == 0.25
    assert isinstance(total_variation([1.0], [1]), float)


def test_total_variation_names_the_shapes_and_the_argument():
    message = r"^p has shape \(1,\), q has shape \(2,\): they must agree$"
    with pytest.raises(ValueError, match=message):
        total_variation([1.0], [0.5, 0.5])
    with pytest.raises(ValueError, match=r"^q sums to 0\.5, not to 1$"):
        total_variation([1.0], [0.5])
    with pytest.raises(ValueError, match=r"^p has shape \(1, 1\): 1 axes are needed$"):
        total_variation([[1.0]], [1.0])


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=6))
def test_total_variation_is_the_largest_difference_over_events(pairs):
    first, second = (np.array(column, float) for column in zip(*pairs, strict=True))
    if first.sum() == 0.0 or second.sum() == 0.0:
        return
    p, q = first / first.sum(), second / second.sum()
    events = itertools.product((0.0, 1.0), repeat=len(p))
    largest = max(float(np.dot(event, p - q)) for event in events)
    assert total_variation(p, q) == pytest.approx(largest, abs=8 * EPS)


def outcome(function, *arguments):
    """The value of a call, or the message of its ValueError or TypeError."""
    try:
        return function(*arguments)
    except (ValueError, TypeError) as error:
        return str(error)


junk = st.lists(st.floats(), max_size=4) | st.none() | st.text() | st.booleans() | st.floats()


@given(junk | st.lists(junk, max_size=3))
def test_any_argument_gives_a_number_or_an_error_that_names_it(value):
    norms = [(rms, "x"), (block_inf_rms, "X"), (row_norm_inf_2, "Z"), (frobenius, "X")]
    norms += [(spectral_norm, "M"), (inf_to_one_norm, "M")]
    for norm, name in norms:
        result = outcome(norm, value)
        assert result.startswith(name) if isinstance(result, str) else result >= 0.0


def test_arguments_are_never_changed():
    rows = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    before = rows.copy()
    rows.flags.writeable = False
    for function in (
        block_inf_rms,
        row_norm_inf_2,
        frobenius,
        spectral_norm,
        inf_to_one_norm,
        is_row_stochastic,
    ):
        function(rows)
    rms(rows[0])
    total_variation(rows[0], rows[1])
    np.testing.assert_array_equal(rows, before)
