"""The bounds of theory.bounds against certified norms, equality cases and their own invariances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory._bound_parts import (
    deflated_bound,
    half_diameters,
    half_diameters_of_rows,
    key_grams,
    leading_right_vectors,
    pairwise_distances,
    sum_of_largest,
    trace_power_norms,
)
from theory.arguments import FloatArray
from theory.attention import Attention, AttentionAt
from theory.bounds import (
    attention_norms,
    corollary_4_2_bound,
    covariance_bound,
    gauge_fixed_bound,
    measured_head_norm_bound,
    moment_bound,
    theorem_4_1_bound,
)
from theory.claims._random_attention import random_attention
from theory.opnorm import block_norm_bracket
from theory.rotary import Rotary

BOUNDS = (measured_head_norm_bound, gauge_fixed_bound, covariance_bound, moment_bound)


def plain_attention(seed: int, heads: int = 2, width: int = 3, **options: object) -> Attention:
    rng = np.random.default_rng(seed)
    return Attention(
        query_HDK=rng.normal(size=(heads, width, 2)),
        key_GDK=rng.normal(size=(heads, width, 2)),
        value_GDV=rng.normal(size=(heads, width, 2)),
        output_HVE=rng.normal(size=(heads, 2, width)),
        **options,  # type: ignore[arg-type]
    )


def adversarial_tokens(kind: str, length: int, width: int, rng: np.random.Generator) -> FloatArray:
    tokens = rng.normal(size=(length, width))
    if kind == "constant":
        tokens[:] = tokens[0]
    elif kind == "near one-hot":
        tokens *= 30.0
    elif kind == "tied":
        tokens = np.round(tokens)
    elif kind == "far":
        # All tokens share a large part: what the bounds subtract is small beside it.
        tokens = tokens * 1e-3 + 100.0 * rng.normal(size=width)
    elif kind == "zero":
        tokens[:] = 0.0
    elif kind == "tiny":
        tokens *= 1e-150
    return tokens


@settings(max_examples=120)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["normal", "constant", "near one-hot", "tied", "far", "zero", "tiny"]),
)
def test_no_bound_lies_below_the_certified_norm(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    module, length = random_attention(rng)
    if kind == "zero" and any(n is not None for n in (module.query_norm, module.key_norm)):
        kind = "normal"
    at = module.at(adversarial_tokens(kind, length, module.width, rng))
    lower = block_norm_bracket(at, ratio=1.3).lower
    norms = attention_norms(module)
    for bound in BOUNDS:
        assert bound(at, norms=norms).value >= lower
    paper = theorem_4_1_bound(module, at.U, norms=norms)
    if paper.covered:
        assert paper.value >= lower


@pytest.mark.parametrize("bound", BOUNDS)
def test_one_token_leaves_the_value_path(bound: object) -> None:
    """With one token the differential is Σ_h W^V_h W^O_h; one head with aligned weights attains
    every bound."""
    value, output = np.zeros((1, 3, 2)), np.zeros((1, 2, 3))
    value[0, 0, 1], output[0, 1, 2] = 3.0, 2.0
    rng = np.random.default_rng(5)
    module = Attention(
        query_HDK=rng.normal(size=(1, 3, 2)),
        key_GDK=rng.normal(size=(1, 3, 2)),
        value_GDV=value,
        output_HVE=output,
    )
    result = bound(module.at(rng.normal(size=(1, 3))))  # type: ignore[operator]
    assert result.value == pytest.approx(6.0, rel=1e-8)
    assert result.value >= 6.0


def test_the_papers_bound_is_attained_at_zero() -> None:
    module = Attention(
        query_HDK=np.ones((1, 1, 1)),
        key_GDK=np.ones((1, 1, 1)),
        value_GDV=np.full((1, 1, 1), 3.0),
        output_HVE=np.full((1, 1, 1), -2.0),
    )
    U = np.zeros((4, 1))
    assert theorem_4_1_bound(module, U).value == pytest.approx(6.0, rel=1e-10)
    assert block_norm_bracket(module.at(U)).lower == pytest.approx(6.0, rel=1e-8)


def balanced_attention() -> tuple[AttentionAt, float]:
    """The example of claim beyond_sharpness with its certified norm at the query's row."""
    query, key, value, output = np.zeros((4, 1, 4, 4))
    query[0, 0, 0] = query[0, 2, 1] = key[0, 1, 1] = key[0, 2, 0] = 1.0
    value[0, 1, 0] = output[0, 0, 0] = 1.0
    length, reach = 201, 30.0
    U = np.zeros((length, 4))
    U[0, 0] = reach
    U[1:, 1] = reach * np.repeat([1.0, -1.0], length // 2)
    module = Attention(query_HDK=query, key_GDK=key, value_GDV=value, output_HVE=output)
    at = module.at(U)
    return at, block_norm_bracket(at, rows=[0], ratio=1.01).lower


def test_bounds_shrunk_by_one_percent_are_violated() -> None:
    at, lower = balanced_attention()
    for value in (
        theorem_4_1_bound(at.attention, at.U).value,
        measured_head_norm_bound(at).value,
        gauge_fixed_bound(at).value,
    ):
        assert 0.99 * value < lower <= value


def test_theorem_4_1_names_what_it_does_not_cover() -> None:
    module = plain_attention(1, query_bias_HK=np.ones((2, 2)), value_bias_GV=np.ones((2, 2)))
    result = theorem_4_1_bound(module, np.ones((3, 3)))
    assert not result.covered
    assert result.missing == "query_bias_HK, value_bias_GV"
    assert theorem_4_1_bound(plain_attention(1), np.ones((3, 3))).covered


def test_theorem_4_1_is_its_formula() -> None:
    module, U = plain_attention(2, tau=0.5), np.random.default_rng(0).normal(size=(4, 3))
    result = theorem_4_1_bound(module, U)
    reach = max(np.linalg.norm(u) for u in U)
    total = 0.0
    for h in range(2):
        q, k, v = (
            np.linalg.norm(w[h], 2) for w in (module.query_HDK, module.key_GDK, module.value_GDV)
        )
        total += v + result.theta_H[h] / 0.5 * 2 * reach**2 / np.sqrt(2) * q * k * v
    total *= np.linalg.norm(np.concatenate(list(module.output_HVE)), 2)
    assert result.value == pytest.approx(total, rel=1e-9)
    assert result.value_path + result.attention_path + result.margin == result.value


def test_corollary_4_2_grows_with_the_square_of_the_radius() -> None:
    module = plain_attention(3)
    one, three = corollary_4_2_bound(module, 1.0), corollary_4_2_bound(module, 3.0)
    assert three.attention_path == pytest.approx(9 * one.attention_path)
    assert three.value_path == one.value_path
    assert corollary_4_2_bound(module, 0.0).attention_path == 0.0


@pytest.mark.parametrize(("radius", "message"), [(-1.0, "negative"), (np.nan, "finite")])
def test_a_radius_must_be_a_number_from_zero_on(radius: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        corollary_4_2_bound(plain_attention(3), radius)


def test_local_bound_is_below_the_bound_on_the_ball() -> None:
    module, U = plain_attention(4), np.random.default_rng(1).normal(size=(5, 3))
    radius = float(np.max(np.linalg.norm(U, axis=1)) / np.sqrt(3))
    assert theorem_4_1_bound(module, U).value <= corollary_4_2_bound(module, radius).value * (
        1 + 1e-9
    )


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_biases_of_keys_and_values_do_not_matter_to_ranges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(4, 3))
    without = gauge_fixed_bound(plain_attention(seed).at(U))
    biased = plain_attention(
        seed, key_bias_GK=rng.normal(size=(2, 2)), value_bias_GV=rng.normal(size=(2, 2))
    )
    assert gauge_fixed_bound(biased.at(U)).value == pytest.approx(without.value, rel=1e-8)


def test_rotated_biases_of_keys_matter_and_those_of_values_do_not() -> None:
    """A rotation that depends on the position turns one bias into many."""
    rng = np.random.default_rng(8)
    # A high temperature keeps the rows, and so θ, where they are.
    U, rotary, tau, bias = rng.normal(size=(4, 3)), Rotary(), 1e4, np.full((2, 2), 50.0)
    without = gauge_fixed_bound(plain_attention(8, rotary=rotary, tau=tau).at(U))
    values = plain_attention(8, rotary=rotary, tau=tau, value_bias_GV=bias)
    keys = plain_attention(8, rotary=rotary, tau=tau, key_bias_GK=bias)
    assert gauge_fixed_bound(values.at(U)).value == pytest.approx(without.value, rel=1e-8)
    assert np.max(gauge_fixed_bound(keys.at(U)).query_L) > 5 * np.max(without.query_L)


@pytest.mark.parametrize("bound", BOUNDS)
def test_shared_keys_equal_repeated_ones(bound: object) -> None:
    rng = np.random.default_rng(6)
    shared = Attention(
        query_HDK=rng.normal(size=(4, 3, 2)),
        key_GDK=rng.normal(size=(2, 3, 2)),
        value_GDV=rng.normal(size=(2, 3, 2)),
        output_HVE=rng.normal(size=(4, 2, 3)),
        key_bias_GK=rng.normal(size=(2, 2)),
    )
    repeated = Attention(
        query_HDK=shared.query_HDK,
        key_GDK=np.repeat(shared.key_GDK, 2, axis=0),
        value_GDV=np.repeat(shared.value_GDV, 2, axis=0),
        output_HVE=shared.output_HVE,
        key_bias_GK=np.repeat(np.asarray(shared.key_bias_GK), 2, axis=0),
    )
    U = rng.normal(size=(5, 3))
    first, second = bound(shared.at(U)), bound(repeated.at(U))  # type: ignore[operator]
    assert first.value == pytest.approx(second.value, rel=1e-8)


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_module_of_zeros_has_bound_zero(bound: object) -> None:
    zero = np.zeros((2, 3, 3))
    module = Attention(query_HDK=zero, key_GDK=zero, value_GDV=zero, output_HVE=zero)
    assert bound(module.at(np.ones((4, 3)))).value == 0.0  # type: ignore[operator]


def test_sharper_bounds_are_ordered_by_their_key_parts() -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        module, length = random_attention(rng)
        at = module.at(rng.normal(size=(length, module.width)))
        fixed, covariance, moment = (
            f(at) for f in (gauge_fixed_bound, covariance_bound, moment_bound)
        )
        assert np.all(covariance.key_L <= fixed.key_L)
        assert np.all(moment.key_L <= covariance.key_L)
        assert moment.rows_L[moment.row] == moment.value == moment.rows_L.max()


# ------------------------------------------------------------------------------------- parts


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 7), rank=st.integers(1, 7))
def test_eigenvalues_are_bounded(seed: int, size: int, rank: int) -> None:
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(size, rank)) * rng.choice([1e-8, 1.0, 1e8], size=(1, rank))
    gram = half @ half.T
    top = float(np.linalg.eigvalsh(gram)[-1])
    bound, basis = deflated_bound(gram, rng.normal(size=(size, min(3, size))))
    assert bound >= top * (1 - 1e-12)
    assert np.allclose(basis.T @ basis, np.eye(basis.shape[1]))


def test_scaled_on_both_sides() -> None:
    rng = np.random.default_rng(1)
    half, scale = rng.normal(size=(9, 9)), rng.uniform(0.1, 10.0, size=9)
    gram, start = half @ half.T, rng.normal(size=(9, 3))
    bound, basis = deflated_bound(gram, start, scale)
    expected, vectors = deflated_bound(gram * scale[:, np.newaxis] * scale, start)
    # The same products in another order, and a difference of squares that loses a few digits.
    assert bound == pytest.approx(expected, rel=1e-10)
    assert np.allclose(np.abs(np.sum(basis * vectors, axis=0)), 1.0)


def test_few_leading_vectors_give_the_eigenvalue_itself() -> None:
    spectrum = np.array([0.1] * 20 + [1.0, 2.0, 3.0, 4.0])
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(24, 24)))[0]
    gram = (turn * spectrum) @ turn.T
    bound, _ = deflated_bound(gram, turn[:, -4:])
    assert bound == pytest.approx(4.0, rel=1e-6)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 6))
def test_powers_bound_products(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(2, size, 3)) * 10.0 ** rng.integers(-60, 60)
    value = np.linalg.norm(left.T @ right, 2)
    bound = trace_power_norms(left @ left.T @ (right @ right.T))
    assert value * (1 - 1e-12) <= bound <= value * size ** (1 / 32) * (1 + 1e-9)


def test_leading_vectors_are_orthonormal_even_for_zero() -> None:
    for matrix in (np.zeros((2, 3, 4)), np.random.default_rng(0).normal(size=(2, 3, 4))):
        basis = leading_right_vectors(matrix, 2)
        assert np.allclose(np.swapaxes(basis, 1, 2) @ basis, np.eye(2))


def test_shares_are_spent_on_the_largest() -> None:
    assert sum_of_largest(np.array([[1.0, 5.0, 3.0]]), 1.5)[0] == 6.5
    assert sum_of_largest(np.array([[1.0, 5.0, 3.0]]), 9.0)[0] == 9.0


def test_diameters_look_at_visible_tokens() -> None:
    points = np.array([[[0.0], [1.0], [10.0]]])
    distances = pairwise_distances(points)
    assert half_diameters(distances, np.array([[True, True, False]]))[0] == 0.5
    assert half_diameters(distances, np.array([[True, True, True]]))[0] == 5.0
    assert half_diameters(distances, np.array([[False, True, False]]))[0] == 0.0


@given(seed=st.integers(0, 2**32 - 1))
def test_diameters_of_all_rows(seed: int) -> None:
    """Rows that see more, less or something else than the row before, or nothing."""
    rng = np.random.default_rng(seed)
    heads, length = int(rng.integers(1, 4)), int(rng.integers(1, 7))
    distances = pairwise_distances(rng.normal(size=(heads, length, 2)))
    visible = rng.random((heads, length, length)) < rng.choice([0.3, 0.8, 1.0])
    if rng.random() < 0.5:
        visible = np.logical_or.accumulate(visible, axis=1)
    together = half_diameters_of_rows(distances, visible)
    for i in range(length):
        assert np.array_equal(together[:, i], half_diameters(distances, visible[:, i]))


@given(seed=st.integers(0, 2**32 - 1))
def test_inner_products_of_the_slopes(seed: int) -> None:
    """All varieties of modules, against the vectors themselves."""
    rng = np.random.default_rng(seed)
    module, length = random_attention(rng)
    at = module.at(rng.normal(size=(length, module.width)))
    grams = key_grams(at, attention_norms(module))
    queries = at.queries_HLK * module.score_factor
    for j in range(length):
        factor_HDK = module.per_head(at.key_factor_GDK(j))
        slopes = np.einsum("hdk,hik->ihd", factor_HDK, queries)
        seeing = np.any(at.visible_HLL[:, :, j], axis=0)
        expected = slopes @ np.swapaxes(slopes, 1, 2)
        # Sums of a few dozen products in another order lose some hundred eps of the largest.
        size = np.max(np.abs(expected), initial=1e-300)
        assert np.allclose(grams[seeing, j], expected[seeing], rtol=0, atol=1e-13 * size)
