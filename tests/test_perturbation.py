"""theory.perturbation: the largest total variation under bounded changes of the logits."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import perturbation
from theory.claims._instances import normalised, sign_vectors, subset_masses
from theory.norms import total_variation
from theory.perturbation import OpenVariationError, max_total_variation
from theory.softmax import jacobian_inf_to_one, softmax
from theory.theta import ClosestMass, Status
from verify.exact import as_fraction, ball, lower_end, precision, upper_end

# What the docstring promises.
STATED = Fraction(8, 2**52)


def assert_within_stated_error(value: float, row: list[float], epsilon: float, tau: float) -> None:
    """Compare with every sign pattern of δ, on balls, from the softmax rows themselves."""
    p = normalised([as_fraction(entry) for entry in row])
    with precision(4000):
        root = ball(as_fraction(epsilon) / as_fraction(tau)).exp()
        values = []
        for signs in sign_vectors(len(p)):
            weights = [
                ball(a) * (root if s > 0 else 1 / root) for a, s in zip(p, signs, strict=True)
            ]
            total = sum(weights, ball(0))
            moved = (w / total - ball(a) for w, a in zip(weights, p, strict=True))
            change = sum(map(abs, moved), ball(0)) / 2
            values.append(change)
        low, high = max(map(lower_end, values)), max(map(upper_end, values))
    found = as_fraction(value)
    # Subnormal results have an absolute error of half a spacing instead.
    spacing = Fraction(1, 2**1074)
    assert low * (1 - STATED) - spacing <= found <= high * (1 + STATED) + spacing


@given(
    strategies.rows(max_size=6),
    st.one_of(
        st.sampled_from([0.0, 1e-300, 1e-9, 0.5, 1.0, 300.0, 350.0, 372.0, 700.0]),
        st.floats(0, 30),
    ),
    st.sampled_from([0.25, 1.0, 3.0]),
)
@settings(max_examples=150)
def test_equals_the_best_sign_pattern(row: list[float], epsilon: float, tau: float) -> None:
    value = max_total_variation(row, epsilon, tau)
    assert_within_stated_error(value, row, epsilon, tau)


@given(st.data())
def test_no_point_of_the_cube_exceeds_it(data: st.DataObject) -> None:
    logits = np.array(data.draw(st.lists(st.floats(-20, 20), min_size=1, max_size=8)))
    epsilon = data.draw(st.floats(0, 10))
    point = data.draw(strategies.cube_points(len(logits)))
    p = softmax(logits)
    reached = total_variation(softmax(logits + epsilon * np.array(point)), p)
    # Each softmax entry is right to a few eps times the spread of its logits, at most 60 here.
    assert reached <= max_total_variation(p, epsilon) * (1 + 1e-12) + 1e-13


@given(strategies.rows(max_size=10), st.floats(0, 40), strategies.temperatures())
def test_at_most_tanh(row: list[float], epsilon: float, tau: float) -> None:
    value = max_total_variation(row, epsilon, tau)
    assert 0.0 <= value <= math.tanh(epsilon / (2 * tau)) * (1 + float(STATED) + 2.0**-50)


@given(strategies.rows(max_size=10), st.floats(0, 20), st.floats(0, 20))
def test_grows_with_epsilon(row: list[float], first: float, second: float) -> None:
    low, high = sorted((first, second))
    smaller = max_total_variation(row, low)
    assert smaller <= max_total_variation(row, high) * (1 + 2 * float(STATED))


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 0.7, 5.0])
def test_two_equal_tokens(epsilon: float) -> None:
    """At p = (1/2, 1/2) the law reads ½·tanh(ε/τ)."""
    expected = math.tanh(epsilon / 2.0) / 2
    assert max_total_variation([0.5, 0.5], epsilon, 2.0) == pytest.approx(expected, rel=1e-15)


def test_best_row_attains_tanh() -> None:
    """Masses e^{ε}/(1 + e^{ε}) and 1/(1 + e^{ε}), here 3/4 and 1/4 at e^{ε} = 3."""
    value = max_total_variation([0.5, 0.25, 0.25], math.log(3.0))
    assert value == pytest.approx(0.5, rel=1e-15)


def test_small_changes_follow_the_jacobian() -> None:
    """For small ε it is ½ε‖J‖_{∞→1} = εθ(p)/(2τ), to first order."""
    logits = np.array([0.3, -1.0, 2.0, 0.7, 0.0])
    tau = 1.7
    rate = max_total_variation(softmax(logits, tau), 1e-7, tau) / 1e-7
    assert rate == pytest.approx(jacobian_inf_to_one(logits, tau) / 2, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 1e308])
def test_one_hot_rows_cannot_move(epsilon: float) -> None:
    assert max_total_variation([1.0], epsilon) == 0.0
    assert max_total_variation([0.0, 1.0, 0.0], epsilon) == 0.0


def test_huge_ratio_moves_all_but_the_smallest_atom() -> None:
    assert max_total_variation([0.75, 0.25], 1e308, 1e-308) == 0.75
    assert max_total_variation([1.0, 5e-324], 1e308, 1e-308) == 1.0


def test_uniform_rows_of_a_thousand_tokens() -> None:
    """With 1024 equal atoms the best mass is the multiple of 1/1024 beside 1/(1 + e)."""
    row = np.full(1024, 2.0**-10)
    growth = math.expm1(2.0)
    expected = max(q * (1 - q) * growth / (1 + q * growth) for q in np.arange(0, 1025) / 1024)
    assert max_total_variation(row, 1.0) == pytest.approx(expected, rel=1e-15)


def test_argument_is_read_only_and_unchanged() -> None:
    row = np.array([0.5, 0.0, 0.3, 0.2])[::-1]
    row.flags.writeable = False
    before = row.copy()
    max_total_variation(row, 0.5)
    assert np.array_equal(row, before)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0.5, 0.5], -1.0), ValueError, "epsilon is -1.0"),
        (([0.5, 0.5], math.nan), ValueError, "epsilon is nan"),
        (([0.5, 0.5], math.inf), ValueError, "epsilon is inf"),
        (([0.5, 0.5], 1.0, 0.0), ValueError, "tau is 0.0"),
        (([0.5, 0.5], 1.0, -2.0), ValueError, "tau is -2.0"),
        (([0.5, 0.6], 1.0), ValueError, "sums to"),
        (([1.5, -0.5], 1.0), ValueError, "negative"),
        (([0.5, math.nan], 1.0), ValueError, "nan"),
        (([], 1.0), ValueError, "empty"),
        (([[0.5, 0.5]], 1.0), ValueError, "axes"),
        ((0.5, 1.0), ValueError, "axes"),
        (("half", 1.0), TypeError, "p"),
        (([0.5, 0.5], "one"), TypeError, "epsilon"),
        (([0.5, 0.5], 1.0, 1j), TypeError, "tau"),
    ],
)
def test_bad_arguments(arguments: tuple[object, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        max_total_variation(*arguments)  # type: ignore[arg-type]


def _open_result(below: Fraction, above: Fraction, target: Fraction) -> ClosestMass:
    nothing = np.zeros(2, bool)
    return ClosestMass(
        below=below,
        above=above,
        below_subset=nothing,
        above_subset=nothing,
        status=Status.BOUNDED,
        bounds=((below, target), (target, above)),
    )


def test_an_open_search_raises_with_true_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_search(row: object, target: Fraction, *, budget: float | None) -> ClosestMass:
        return _open_result(Fraction(0), Fraction(1), target)

    monkeypatch.setattr(perturbation, "closest_mass", open_search)
    with pytest.raises(OpenVariationError, match="larger budget") as caught:
        max_total_variation([0.5, 0.5], 1.0)
    low, high = caught.value.bounds
    assert low == 0.0
    assert high == pytest.approx(math.tanh(0.5), rel=1e-15)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.bounds == (low, high)
    assert str(again) == str(caught.value)


def test_an_open_search_that_decides_the_value_returns_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the masses found are within 2^-30 of the target, h is settled to the last bit."""

    def open_search(row: object, target: Fraction, *, budget: float | None) -> ClosestMass:
        near = target * (1 - Fraction(1, 2**30))
        return _open_result(near, Fraction(1), target)

    monkeypatch.setattr(perturbation, "closest_mass", open_search)
    value = max_total_variation([0.5, 0.5], 1.0)
    assert value == pytest.approx(math.tanh(0.5), rel=1e-15)


def test_reference_is_itself_exact() -> None:
    """The sign patterns of the reference reach what subsets predict, at a rational e^{ε/τ}."""
    p = normalised([3, 2, 1])
    masses = subset_masses(p)
    epsilon = 1.0
    growth = math.expm1(2 * epsilon)
    best = max(float(q * (1 - q)) * growth / (1 + float(q) * growth) for q in masses)
    assert_within_stated_error(max_total_variation([0.5, 1 / 3, 1 / 6], 1.0), [3, 2, 1], 1.0, 1.0)
    assert max_total_variation([0.5, 1 / 3, 1 / 6], 1.0) == pytest.approx(best, rel=1e-15)
