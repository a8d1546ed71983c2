"""theory.normaliser against the functions of theory.layernorm, complex steps and autograd."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import torch
from blocks_reference import complex_step_jacobian, complex_step_jvp, evaluate
from hypothesis import given, settings
from hypothesis import strategies as st
from random_modules import random_normaliser

from theory.layernorm import (
    layer_norm,
    layer_norm_jacobian,
    layer_norm_lipschitz,
    layer_norm_stats,
    rms_norm,
    rms_norm_jacobian,
    rms_norm_lipschitz,
    rms_norm_stats,
)
from theory.normaliser import Normaliser

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=100)
@given(seeds)
def test_the_map_and_its_differential(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # At width 2 the Jacobian of LayerNorm is a factor ρ below the terms that cancel in it.
    length, width = int(rng.integers(1, 5)), int(rng.integers(3, 7))
    norm, X = random_normaliser(rng, width), rng.normal(size=(length, width))
    at = norm.at(X)
    np.testing.assert_allclose(norm(X), evaluate(norm, X), rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(at.output, norm(X))
    assert at.input_shape == at.output_shape == X.shape
    expected = complex_step_jacobian(norm, X)
    size = np.linalg.norm(expected)
    assert np.linalg.norm(at.jacobian() - expected) <= 1e-12 * size
    dX, dY = rng.normal(size=(2, *X.shape))
    np.testing.assert_allclose(at.jvp(dX), complex_step_jvp(norm, X, dX), atol=1e-12 * size)
    np.testing.assert_allclose(
        at.vjp(dY), np.einsum("iejd,ie->jd", expected, dY), atol=1e-12 * size
    )
    for i in range(length):
        token = expected[i, :, i]
        np.testing.assert_allclose(norm.jacobian_at(X[i]), token, atol=1e-12 * size)
        np.testing.assert_allclose(at.row_block(i)[i], token.T, atol=1e-12 * size)
        pulled = at.pull_row(i, np.eye(width))
        assert pulled.shape == (width, 1, width)


def test_values_and_jacobian_equal_those_of_torch() -> None:
    rng = np.random.default_rng(1)
    gamma, beta, x = rng.normal(size=(3, 6))
    layer = Normaliser(kind="layer", gamma=gamma, beta=beta, eps=1e-5)
    bare = Normaliser(kind="layer", gamma=gamma, eps=1e-5)
    root = Normaliser(kind="rms", gamma=gamma, eps=1e-5)
    g, b, tensor = map(torch.tensor, (gamma, beta, x))
    functional = torch.nn.functional
    for norm, function in (
        (layer, lambda x: functional.layer_norm(x, (6,), g, b, 1e-5)),
        (bare, lambda x: functional.layer_norm(x, (6,), g, None, 1e-5)),
        (root, lambda x: functional.rms_norm(x, (6,), g, 1e-5)),
    ):
        np.testing.assert_allclose(norm(x), function(tensor).numpy(), rtol=1e-12)
        jacobian = torch.autograd.functional.jacobian(function, tensor).numpy()
        np.testing.assert_allclose(norm.jacobian_at(x), jacobian, atol=1e-12)


def test_it_is_built_on_theory_layernorm() -> None:
    rng = np.random.default_rng(2)
    gamma, beta = rng.normal(size=(2, 5))
    x, X = rng.normal(size=5), rng.normal(size=(2, 3, 5))
    layer = Normaliser(kind="layer", gamma=gamma, beta=beta, eps=0.1)
    root = Normaliser(kind="rms", gamma=gamma, eps=0.1)
    assert layer.width == root.width == 5
    np.testing.assert_array_equal(layer(X), layer_norm(X, gamma, beta, 0.1))
    np.testing.assert_array_equal(root(X), rms_norm(X, gamma, 0.1))
    np.testing.assert_array_equal(layer.jacobian_at(x), layer_norm_jacobian(x, gamma, 0.1))
    np.testing.assert_array_equal(root.jacobian_at(x), rms_norm_jacobian(x, gamma, 0.1))
    assert layer.lipschitz() == layer_norm_lipschitz(gamma, 0.1)
    assert root.lipschitz() == rms_norm_lipschitz(gamma, 0.1)
    assert layer.lipschitz() < root.lipschitz()
    for norm, stats in ((layer, layer_norm_stats(X, 0.1)), (root, rms_norm_stats(X, 0.1))):
        at = norm.at(X)
        np.testing.assert_array_equal(at.sigma, stats.sigma)
        np.testing.assert_array_equal(at.xhat, stats.xhat)
        some = at.of_tokens(np.s_[1, :2])
        np.testing.assert_array_equal(some.sigma, stats.sigma[1, :2])
        np.testing.assert_array_equal(some.xhat, stats.xhat[1, :2])
        np.testing.assert_array_equal(some.output, at.output[1, :2])


def test_huge_and_tiny_tokens() -> None:
    """The differential scales with 1/σ, at every magnitude of the tokens."""
    norm = Normaliser(kind="layer", gamma=np.ones(3), eps=0.0)
    x, v = np.array([[1.0, 2.0, 4.0]]), np.array([[3.0, -1.0, 1.0]])
    expected = norm.at(x).jvp(v)
    for exponent in (-900, 900):
        scale = 2.0**exponent
        np.testing.assert_array_equal(norm.at(scale * x).jvp(scale * v), expected)


def test_frozen_and_private() -> None:
    gamma, beta, X = np.ones(3), np.zeros(3), np.eye(3)
    norm = Normaliser(kind="layer", gamma=gamma, beta=beta, eps=1e-5)
    at = norm.at(X)
    before = at.jvp(X)
    gamma[:], beta[:], X[:] = 5.0, 5.0, 5.0
    np.testing.assert_array_equal(at.jvp(np.eye(3)), before)
    np.testing.assert_array_equal(norm(np.eye(3)), at.output)
    for array in (norm.gamma, norm.beta, at.sigma, at.xhat, at.output):
        assert not array.flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        norm.eps = 1.0


BAD = [
    ({"kind": "batch"}, 'kind is \'batch\': "layer" or "rms" is needed'),
    ({"kind": "rms"}, "beta is given, but RMSNorm has no shift"),
    ({"gamma": np.ones((3, 1))}, "gamma has shape (3, 1): 1 axes are needed"),
    ({"gamma": [1.0, np.nan, 0.0]}, "gamma[1] is nan: entries must be finite"),
    ({"beta": np.ones(2)}, "beta has shape (2,): (width,) = (3) is needed"),
    ({"eps": -1e-5}, "eps is -1e-05: negative"),
    ({"eps": np.inf}, "eps is inf: a finite number is needed"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_parameters_are_named(options: dict[str, object], message: str) -> None:
    sound = {"kind": "layer", "gamma": np.ones(3), "beta": np.ones(3), "eps": 1e-5}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Normaliser(**(sound | options))


def test_bad_tokens_are_named() -> None:
    norm = Normaliser(kind="layer", gamma=np.ones(3), eps=0.0)
    with pytest.raises(ValueError, match=r"^X has shape \(2, 4\): tokens of width 3 are needed$"):
        norm(np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"^LayerNorm of a constant token is undefined .*x\[1\]$"):
        norm.at([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
    with pytest.raises(ValueError, match=r"^x has shape \(1, 3\): 1 axes are needed$"):
        norm.jacobian_at([[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match=r"^X has shape \(3,\): a linear map needs \(L, D\)$"):
        norm.at([1.0, 2.0, 3.0]).jvp([[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match=r"no finite Lipschitz constant at eps = 0"):
        norm.lipschitz()
