"""Euclidean sensitivities: the Krylov norm is the norm, and what claims to bound it does."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.attention import Attention, AttentionAt
from theory.euclidean import (
    fine_grained_bound,
    local_norm,
    measured_spectral_bound,
    order_statistics_bound,
    yudin_bound,
)
from theory.linearisation import Linearisation
from theory.normaliser import Normaliser
from theory.rotary import Rotary

# Singular values of matrices of this size, by two methods.
SAME = 1e-9
BOUNDS: dict[str, Callable[[AttentionAt], float | None]] = {
    "yudin": yudin_bound,
    "measured": measured_spectral_bound,
    "fine-grained": lambda at: fine_grained_bound(at).value,
}


def attention_at(
    seed: int,
    *,
    L: int = 5,
    D: int = 6,
    heads: int = 2,
    groups: int = 2,
    size: float = 1.0,
    biases: bool = False,
    **options: object,
) -> AttentionAt:
    rng = np.random.default_rng(seed)
    K, V, E = 4, 3, 5
    module = Attention(
        query_HDK=rng.normal(size=(heads, D, K)),
        key_GDK=rng.normal(size=(groups, D, K)),
        value_GDV=rng.normal(size=(groups, D, V)),
        output_HVE=rng.normal(size=(heads, V, E)),
        query_bias_HK=rng.normal(size=(heads, K)) if biases else None,
        key_bias_GK=rng.normal(size=(groups, K)) if biases else None,
        value_bias_GV=rng.normal(size=(groups, V)) if biases else None,
        **options,
    )
    return module.at(size * rng.normal(size=(L, D)))


VARIETIES: dict[str, dict[str, object]] = {
    "plain": {},
    "one token": {"L": 1},
    "causal": {"mask": "causal"},
    "biases": {"biases": True},
    "grouped": {"heads": 4, "groups": 2},
    "multi-query": {"heads": 3, "groups": 1, "mask": "causal"},
    "hot": {"tau": 3.0},
    "cold": {"tau": 0.2},
    "large input": {"size": 6.0},
    "tiny input": {"size": 1e-3, "biases": True},
    "rotary": {"rotary": Rotary(), "mask": "causal", "heads": 4, "groups": 2},
    "normalised": {
        "query_norm": Normaliser(kind="rms", gamma=np.array([1.0, 2, 0.5, 1]), eps=1e-6),
        "key_norm": Normaliser(kind="layer", gamma=np.array([1.0, 0, 2, 1]), eps=1e-6),
        "rotary": Rotary(width=2),
        "biases": True,
    },
}
varieties = pytest.mark.parametrize("options", VARIETIES.values(), ids=list(VARIETIES))


def dense(at: Linearisation) -> np.ndarray:
    jacobian = at.jacobian()
    return jacobian.reshape(np.prod(jacobian.shape[:2]), -1)


@varieties
@pytest.mark.parametrize("seed", range(3))
def test_local_norm_is_the_largest_singular_value(seed: int, options: dict) -> None:
    at = attention_at(seed, **options)
    found = local_norm(at)
    exact = np.linalg.norm(dense(at), 2)
    assert found.value <= exact * (1 + SAME)
    assert found.value >= exact * (1 - SAME)
    assert np.linalg.norm(found.direction) == pytest.approx(1.0, rel=1e-12)
    assert np.linalg.norm(at.jvp(found.direction)) == pytest.approx(found.value, rel=1e-12)
    assert found.residual < 1e-6


def test_the_zero_map_has_norm_zero() -> None:
    at = attention_at(0)
    silent = dataclasses.replace(at.attention, output_HVE=np.zeros((2, 3, 5))).at(at.U)
    found = local_norm(silent)
    assert (found.value, found.residual) == (0.0, 0.0)
    assert [bound(silent) for bound in BOUNDS.values()] == [0.0, 0.0, 0.0]


def test_one_number_in_one_number_out() -> None:
    module = Attention(
        query_HDK=np.ones((1, 1, 1)),
        key_GDK=np.ones((1, 1, 1)),
        value_GDV=np.full((1, 1, 1), -3.0),
        output_HVE=np.ones((1, 1, 1)),
    )
    assert local_norm(module.at([[2.0]])).value == pytest.approx(3.0, rel=1e-14)


@varieties
@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("seed", range(8))
def test_bounds_hold(seed: int, name: str, options: dict) -> None:
    at = attention_at(seed, **options)
    bound = BOUNDS[name](at)
    if bound is None:
        assert name == "yudin"
        assert {"rotary", "query_norm"} & set(options)
        return
    assert bound >= np.linalg.norm(dense(at), 2) * (1 - SAME)


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_are_attained_where_attention_does_not_move(name: str) -> None:
    # Without queries the attention is uniform and fixed: U ↦ mean over tokens times W^V W^O.
    rng = np.random.default_rng(5)
    value = rng.normal(size=(1, 6, 3))
    module = Attention(
        query_HDK=np.zeros((1, 6, 4)),
        key_GDK=np.zeros((1, 6, 4)),
        value_GDV=value,
        output_HVE=np.eye(3)[np.newaxis],
    )
    at = module.at(rng.normal(size=(5, 6)))
    bound = BOUNDS[name](at)
    assert bound == pytest.approx(np.linalg.norm(value[0], 2), rel=1e-8)
    assert bound == pytest.approx(local_norm(at).value, rel=1e-8)


def test_the_value_path_of_the_fine_grained_bound_is_exact() -> None:
    at = attention_at(3, heads=4, groups=2, mask="causal")
    module = at.attention
    paths = module.per_head(module.value_GDV) @ module.output_HVE
    whole = sum(np.kron(A, path.T) for A, path in zip(at.probabilities_HLL, paths, strict=True))
    found = fine_grained_bound(at)
    assert found.value_path == pytest.approx(np.linalg.norm(whole, 2), rel=1e-8)
    assert found.value == found.value_path + found.attention_path


def test_yudin_in_the_form_of_the_paper() -> None:
    at = attention_at(7, heads=1, groups=1, tau=2.0)
    module = dataclasses.replace(at.attention, output_HVE=np.eye(3)[np.newaxis])
    at = module.at(at.U)
    A = module.query_HDK[0] @ module.key_GDK[0].T / (2.0 * np.sqrt(4))
    P = at.probabilities_HLL[0]
    top = np.sort(P, axis=1)[:, ::-1]
    g1 = (top[:, 0] * (1 - top[:, 0] + top[:, 1])).max()
    norm = lambda M: np.linalg.norm(M, 2)  # noqa: E731
    expected = norm(module.value_GDV[0]) * (norm(P) + 2 * norm(at.U) ** 2 * norm(A) * g1)
    assert yudin_bound(at) == pytest.approx(expected, rel=1e-12)


def test_a_bias_is_one_more_coordinate() -> None:
    at = attention_at(4, biases=True)
    module = at.attention

    def lifted(weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
        return np.concatenate([weights, bias[:, np.newaxis]], axis=1)

    without = Attention(
        query_HDK=lifted(module.query_HDK, module.query_bias_HK),
        key_GDK=lifted(module.key_GDK, module.key_bias_GK),
        value_GDV=lifted(module.value_GDV, module.value_bias_GV),
        output_HVE=module.output_HVE,
    ).at(np.hstack([at.U, np.ones((5, 1))]))
    assert np.allclose(without.output, at.output)
    assert yudin_bound(at) == pytest.approx(yudin_bound(without), rel=1e-12)


@settings(max_examples=200)
@given(
    st.lists(
        st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-300, 1e-8, 0.5]), min_size=1, max_size=7
    ).filter(lambda w: sum(w) > 0)
)
def test_order_statistics_bound_the_softmax_jacobian(weights: list[float]) -> None:
    p = np.array(weights) / sum(weights)
    top = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1]
    assert order_statistics_bound(p) >= top - 1e-15


def test_order_statistics_bound_is_attained_by_uniform_rows() -> None:
    for n in range(1, 9):
        row = np.r_[np.full(n, 1 / n), np.zeros(3)]
        top = np.linalg.eigvalsh(np.diag(row) - np.outer(row, row))[-1]
        assert order_statistics_bound(row) == pytest.approx(top, abs=1e-15)
        if n > 1:
            assert order_statistics_bound(row) == pytest.approx(1 / n, rel=1e-14)
    assert order_statistics_bound([1.0]) == 0.0
    assert order_statistics_bound([[0.5, 0.5], [1.0, 0.0]]).tolist() == [0.5, 0.0]


def test_rows_that_are_no_distributions_are_refused() -> None:
    with pytest.raises(ValueError, match="probabilities"):
        order_statistics_bound([0.5, 0.6])
