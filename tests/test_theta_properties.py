"""theory.theta by Hypothesis and in bulk, bit for bit against an independent reference."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from theta_reference import closest_by_halves, exact, reference_theta

from theory.theta import (
    OpenRowError,
    Status,
    closest_mass,
    greedy_certificate,
    solve_theta,
    theta,
    theta_rows,
    theta_rows_from_logits,
)

MAX_LENGTH = 12


def lists_of(elements: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(elements, min_size=1, max_size=MAX_LENGTH).filter(any)


small_integers = lists_of(st.integers(0, 12))
large_integers = lists_of(st.integers(0, 2**130))
fractions = lists_of(st.fractions(0, 3, max_denominator=60))
any_floats = lists_of(st.floats(0, 1e300))
subnormals = lists_of(st.integers(0, 9).map(lambda k: k * 5e-324))
near_ties = lists_of(st.sampled_from([0.0, 0.25, 0.25 + 2.0**-54, 0.25 - 2.0**-55, 0.125, 1.0]))
near_one_hot = st.tuples(
    st.floats(0.5, 1), st.lists(st.floats(0, 1e-12), min_size=0, max_size=MAX_LENGTH - 1)
).map(lambda parts: [parts[0], *parts[1]])
binades = lists_of(st.builds(math.ldexp, st.floats(0.5, 1), st.integers(-60, 0)))

float_rows = st.one_of(any_floats, subnormals, near_ties, near_one_hot, binades)
rows = st.one_of(float_rows, small_integers, large_integers, fractions)


@given(rows)
@settings(max_examples=600)
def test_theta_is_the_nearest_float(weights):
    expected = reference_theta(weights)
    assert theta(weights, check_sum=False) == float(expected)
    assert theta_rows([weights], check_sum=False)[0] == float(expected)
    solution = solve_theta(weights)
    assert solution.theta == float(expected)
    assert solution.lower <= expected <= solution.upper
    mass = sum(
        (w for w, taken in zip(exact(weights), solution.subset, strict=True) if taken), Fraction(0)
    )
    assert mass == solution.mass


@given(rows, st.sampled_from(["gray", "mitm", "brute"]))
def test_exact_methods_prove_the_optimum(weights, method):
    try:
        solution = solve_theta(weights, method=method)
    except ValueError as error:
        assert method == "gray"
        assert "span less than 2**122" in str(error)  # noqa: PT017 (either outcome is right)
        return
    assert solution.status is Status.OPTIMAL
    assert solution.lower == solution.upper == reference_theta(weights)


@given(small_integers)
def test_dynamic_programming_proves_the_optimum(weights):
    assert solve_theta(weights, method="dp").lower == reference_theta(weights)


@given(rows, st.sampled_from(["fill", "branch"]))
def test_heuristics_enclose_the_value(weights, method):
    solution = solve_theta(weights, method=method)
    assert solution.lower <= reference_theta(weights) <= solution.upper


@given(rows, st.sampled_from(["dominant", "topk", "uniform", "odd"]))
def test_closed_forms_are_right_or_refuse(weights, method):
    try:
        solution = solve_theta(weights, method=method)
    except ValueError as error:
        assert f"method {method!r} needs" in str(error)  # noqa: PT017 (either outcome is right)
        positive = sorted((w for w in exact(weights) if w), reverse=True)
        assert len(positive) > 1
        if method in ("dominant", "odd"):
            assert 2 * positive[0] < sum(positive)
        if method == "topk":
            assert positive[0] > positive[-1]
    else:
        assert solution.lower == solution.upper == reference_theta(weights)


@given(rows, st.randoms(use_true_random=False))
def test_order_zeros_and_scale_do_not_matter(weights, random):
    expected = theta(weights, check_sum=False)
    moved = [*weights, 0, 0]
    random.shuffle(moved)
    assert theta(moved, check_sum=False) == expected
    tripled = [3 * weight for weight in exact(weights)]
    assert theta(tripled, check_sum=False) == expected


@given(rows)
def test_theorem_bounds(weights):
    # 1 − m² <= θ <= 1 (Corollary 3.4), and the certificate is a lower bound.
    value = solve_theta(weights).lower
    share = max(exact(weights)) / sum(exact(weights))
    assert 1 - share**2 <= value <= 1
    certificate = float(greedy_certificate([weights], check_sum=False)[0])
    slack = 1 + Fraction(2 * len(weights) + 8, 2**53)
    assert 0 <= Fraction(certificate) <= value * slack + Fraction(1, 2**1000)


@given(rows, st.fractions(0, 1, max_denominator=1000))
def test_closest_masses(weights, share):
    values = exact(weights)
    target = share * sum(values)
    closest = closest_mass(weights, target)
    assert closest.status is Status.OPTIMAL
    assert (closest.below, closest.above) == closest_by_halves(values, target)
    for subset, mass in (
        (closest.below_subset, closest.below),
        (closest.above_subset, closest.above),
    ):
        taken = [w for w, chosen in zip(values, subset, strict=True) if chosen]
        assert sum(taken, Fraction(0)) == mass


@given(
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.float16]),
        hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6),
        elements=st.floats(0, 1, width=16),
    )
)
def test_arrays_row_by_row(array):
    assume((array.sum(axis=-1) > 0).all())
    before = array.copy()
    got = theta_rows(array, check_sum=False)
    assert got.shape == array.shape[:-1]
    for place in np.ndindex(got.shape):
        assert got[place] == float(reference_theta(array[place]))
    assert np.array_equal(array, before)


@given(
    hnp.arrays(np.float64, (3, 5), elements=st.floats(-30, 30)),
    hnp.arrays(np.bool_, (3, 5)),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_logits_match_their_exponentials(logits, mask, tau):
    got = theta_rows_from_logits(logits, tau=tau, mask=mask, on_empty="nan")
    for row, visible, value in zip(logits, mask, got, strict=True):
        if not visible.any():
            assert np.isnan(value)
            continue
        seen = row[visible]
        weights = np.exp((seen - seen.max()) / tau)
        assert value == float(reference_theta(weights))
        # Removing hidden entries and adding a constant is all the same to softmax.
        assert value == pytest.approx(theta_rows_from_logits(seen + 1.0, tau=tau), rel=1e-9)


def bulk_rows(kind: str, count: int, length: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, length])
    if kind == "softmax":
        logits = rng.standard_normal((count, length)) * rng.choice([0.1, 1, 3, 6], (count, 1))
        return np.exp(logits)
    if kind == "dirichlet":
        return rng.dirichlet(np.full(length, 0.7), count)
    if kind == "integers":
        return rng.integers(1, 50, (count, length)).astype(np.float64)
    if kind == "few values":
        return rng.choice([0.0, 0.1, 0.25, 0.3, 1.0], (count, length)) + (np.arange(length) == 0)
    if kind == "binades":
        return np.ldexp(rng.random((count, length)) + 0.5, rng.integers(-70, 0, (count, length)))
    if kind == "near one half":
        weights = rng.random((count, length)) + 1e-3
        others = weights[:, 1:].sum(axis=1)
        weights[:, 0] = others * (1 + rng.integers(-3, 4, count) * 2.0**-52) + (length == 1)
        return weights
    if kind == "nearly uniform":
        return 1 + rng.integers(-3, 4, (count, length)) * 2.0**-50
    raise AssertionError(kind)


KINDS = [
    "softmax",
    "dirichlet",
    "integers",
    "few values",
    "binades",
    "near one half",
    "nearly uniform",
]


@pytest.mark.parametrize("kind", KINDS)
def test_bulk_rows_agree_bit_for_bit(kind):
    for length, count in ((1, 5), (2, 60), (3, 60), (5, 60), (8, 60), (11, 30), (16, 30), (23, 4)):
        batch = bulk_rows(kind, count, length, seed=20)
        got = theta_rows(batch, check_sum=False)
        for row, value in zip(batch, got, strict=True):
            assert value == float(reference_theta(row))
            assert value == theta(row, check_sum=False)


@pytest.mark.parametrize("length", [29, 30, 33, 36])
def test_longer_rows_agree_bit_for_bit(length):
    for kind in ("softmax", "binades", "near one half"):
        batch = bulk_rows(kind, 2, length, seed=21)
        for row, value in zip(batch, theta_rows(batch, check_sum=False), strict=True):
            assert value == float(reference_theta(row))


@pytest.mark.parametrize("deviation", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("length", [8, 16, 24, 32, 40, 64, 128, 256, 1024])
def test_softmax_rows_come_back_settled(length, deviation):
    rng = np.random.default_rng([length, int(10 * deviation)])
    logits = deviation * rng.standard_normal((10, length))
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    values, status, subset = theta_rows(probabilities, return_status=True, return_subset=True)
    assert np.isin(status, [Status.OPTIMAL, Status.ROUNDED]).all()
    # The subset is a witness of the value from below.
    for row, value, taken in zip(probabilities, values, subset, strict=True):
        total = sum(exact(row))
        gap = abs(2 * sum(exact(row[taken])) - total) / total
        assert float(1 - gap**2) == value


junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=3),
    st.complex_numbers(),
    st.binary(max_size=3),
)
nested_junk = st.recursive(junk, lambda inner: st.lists(inner, max_size=4), max_leaves=12)
junk_arrays = hnp.arrays(
    st.sampled_from(
        [np.float64, np.float32, np.int8, np.uint64, np.bool_, np.complex128, "U2", "M8[s]"]
    ),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
inputs = st.one_of(nested_junk, junk_arrays, rows, st.lists(rows, max_size=3))

FUNCTIONS = {
    "theta": theta,
    "solve_theta": solve_theta,
    "theta_rows": theta_rows,
    "theta_rows_from_logits": theta_rows_from_logits,
    "greedy_certificate": greedy_certificate,
    "closest_mass": lambda weights: closest_mass(weights, 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(source=inputs)
@settings(max_examples=1000)
def test_bad_input_is_refused_by_name_or_answered(name, source):
    copy = source.copy() if isinstance(source, np.ndarray) else None
    try:
        result = FUNCTIONS[name](source)
    except (TypeError, ValueError) as error:
        named = ("weights: ", "P: ", "U: ", "row ", "the row ", "target: ")
        assert str(error).startswith(named)  # noqa: PT017 (either outcome is right)
    else:
        if name in ("theta", "theta_rows", "theta_rows_from_logits", "greedy_certificate"):
            assert (np.asarray(result) >= 0).all()
            assert (np.asarray(result) <= 1).all()
    if copy is not None:
        assert copy.tobytes() == source.tobytes()


@given(
    rows=hnp.arrays(np.float64, (2, 3), elements=st.floats(0.1, 1)),
    support=st.one_of(junk, nested_junk, st.lists(st.integers(-1, 4), min_size=2, max_size=2)),
    causal=st.one_of(st.booleans(), junk),
    causal_offset=st.one_of(st.integers(-3, 3), junk),
    budget=junk,
    on_open=st.one_of(st.sampled_from(["raise", "nan"]), junk),
    on_empty=st.one_of(st.sampled_from(["raise", "nan"]), junk),
    threads=junk,
)
@settings(max_examples=1000)
def test_bad_arguments_are_refused_by_name_or_answered(rows, **arguments):
    # One bad argument hides another, and so only some are passed at a time.
    for name in arguments:
        chosen = {name: arguments[name], "check_sum": False}
        if name == "causal_offset":
            chosen["causal"] = True
        try:
            values = theta_rows(rows, **chosen)
        except (TypeError, ValueError, OpenRowError) as error:
            message = str(error)
            hidden = "outside its support" in message or "is empty" in message
            assert message.startswith(f"{name}: ") or (hidden and name[:6] in ("suppor", "causal"))
        else:
            assert values.shape == (2,)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
def test_narrow_types_at_every_length(dtype):
    rng = np.random.default_rng(30)
    for length in (3, 7, 15, 40, 333):
        logits = rng.standard_normal((6, length))
        weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        narrow = weights.astype(dtype)
        got, status = theta_rows(narrow, check_sum=False, return_status=True)
        assert (status != Status.BOUNDED).all()
        for row, value in zip(narrow, got, strict=True):
            wide = row.astype(np.float64)
            if length <= 15:
                assert value == float(reference_theta(wide))
            assert value == solve_theta(wide).theta
