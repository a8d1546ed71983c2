"""theory.feed_forward against plain loops, complex steps and autograd."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import torch
from blocks_reference import complex_step_jacobian, complex_step_jvp, evaluate
from hypothesis import given, settings
from hypothesis import strategies as st
from random_modules import random_experts, random_feed_forward

from theory.activations import ACTIVATIONS
from theory.feed_forward import Experts, FeedForward
from theory.linearisation import Linearisation, Operator

seeds = st.integers(0, 2**32 - 1)


def assert_near(result: np.ndarray, expected: np.ndarray, scale: float) -> None:
    assert result.shape == expected.shape
    assert np.linalg.norm(result - expected) <= 1e-12 * scale


def check(module: Operator, X: np.ndarray, rng: np.random.Generator) -> None:
    """Value, Jacobian, images, pullbacks and row blocks against plain loops and complex steps."""
    at: Linearisation = module.at(X)
    assert_near(at.output, evaluate(module, X), 1 + np.linalg.norm(at.output))
    np.testing.assert_array_equal(module(X), at.output)
    assert at.input_shape == X.shape
    expected = complex_step_jacobian(module, X)
    scale = 1e-3 + np.linalg.norm(expected)
    assert_near(at.jacobian(), expected, scale)
    dX, dY = rng.normal(size=(2, *X.shape)), rng.normal(size=(2, *at.output.shape))
    for n in range(2):
        assert_near(at.jvp(dX)[n], complex_step_jvp(module, X, dX[n]), 10 * scale)
        assert_near(at.vjp(dY)[n], np.einsum("iejd,ie->jd", expected, dY[n]), 10 * scale)
    pulled = at.pull_row(0, dY[:, 0])
    assert pulled.shape == (2, 1, X.shape[1])
    for i in range(len(X)):
        assert_near(at.row_block(i), np.moveaxis(expected[i], 0, -1), scale)
        others = np.delete(at.row_block(i), i, axis=0)
        np.testing.assert_array_equal(others, 0.0)


@settings(max_examples=150)
@given(seeds)
def test_a_feed_forward_layer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, output_width = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    layer = random_feed_forward(rng, width, output_width)
    X = rng.normal(size=(int(rng.integers(1, 4)), width))
    assert (layer.width, layer.output_width) == (width, output_width)
    check(layer, X, rng)
    token = complex_step_jacobian(layer, X[:1])[0, :, 0]
    assert_near(layer.jacobian_at(X[0]), token, 1e-3 + np.linalg.norm(token))


@settings(max_examples=80)
@given(seeds)
def test_a_mixture_of_experts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length, width = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    mixture = random_experts(rng, length, width)
    assert mixture.width == mixture.output_width == width
    check(mixture, rng.normal(size=(length, width)), rng)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize("gated", [False, True])
def test_values_and_jacobian_equal_those_of_torch(name: str, gated: bool) -> None:
    rng = np.random.default_rng(3)
    shapes = ((4, 7), (7, 5), (7,), (5,), (4, 7), (7,))
    w1, w2, b1, b2, gate, gate_bias = (rng.normal(size=shape) for shape in shapes)
    layer = FeedForward(
        w1_DF=w1,
        w2_FD=w2,
        b1_F=b1,
        b2_D=b2,
        activation=name,
        gate_DF=gate if gated else None,
        gate_bias_F=gate_bias if gated else None,
    )
    functional = torch.nn.functional
    act = {
        "relu": functional.relu,
        "gelu": functional.gelu,
        "gelu_tanh": lambda t: functional.gelu(t, approximate="tanh"),
        "silu": functional.silu,
    }[name]
    t1, t2, c1, c2, tg, cg = map(torch.tensor, (w1, w2, b1, b2, gate, gate_bias))

    def function(x: torch.Tensor) -> torch.Tensor:
        linear = x @ t1 + c1
        hidden = act(x @ tg + cg) * linear if gated else act(linear)
        return hidden @ t2 + c2

    X = rng.normal(size=(3, 4))
    tensor = torch.tensor(X)
    np.testing.assert_allclose(layer(X), function(tensor).numpy(), rtol=1e-12)
    jacobian = torch.autograd.functional.jacobian(function, tensor).numpy()
    np.testing.assert_allclose(layer.at(X).jacobian(), jacobian, atol=1e-12)


def test_routing_picks_and_mixes_the_experts() -> None:
    rng = np.random.default_rng(4)
    first, second = (random_feed_forward(rng, 3) for _ in range(2))
    X = rng.normal(size=(3, 3))
    mixture = Experts(experts=[first, second], routing_LX=[[1, 0], [0, 1], [0.25, 0.5]])
    out = mixture(X)
    np.testing.assert_allclose(out[0], first(X)[0], rtol=1e-15)
    np.testing.assert_allclose(out[1], second(X)[1], rtol=1e-15)
    np.testing.assert_allclose(out[2], 0.25 * first(X)[2] + 0.5 * second(X)[2], rtol=1e-14)


def test_frozen_and_private() -> None:
    rng = np.random.default_rng(5)
    w1, routing = rng.normal(size=(3, 4)), np.ones((2, 1))
    layer = FeedForward(w1_DF=w1, w2_FD=rng.normal(size=(4, 3)), activation="silu", gate_DF=w1)
    mixture = Experts(experts=[layer], routing_LX=routing)
    X = rng.normal(size=(2, 3))
    before = mixture(X)
    w1[:], routing[:] = 0.0, 0.0
    np.testing.assert_array_equal(mixture(X), before)
    at = layer.at(X)
    (through_w1, slope), (through_gate, gate_slope) = at.paths
    assert (through_w1 is layer.w1_DF, through_gate is layer.gate_DF) == (True, True)
    for array in (layer.w1_DF, layer.gate_DF, mixture.routing_LX, slope, gate_slope):
        assert not array.flags.writeable
    for array in (at.output, mixture.at(X).output):
        assert not array.flags.writeable
    for frozen in (layer, mixture, at):
        with pytest.raises(dataclasses.FrozenInstanceError):
            frozen.activation = "relu"


BAD = [
    (
        {"activation": "swish"},
        "activation is 'swish': one of relu, gelu, gelu_tanh, silu is needed",
    ),
    ({"w1_DF": np.ones(4)}, "w1_DF has shape (4,): 2 axes are needed"),
    ({"w2_FD": np.ones((5, 3))}, "w2_FD has shape (5, 3): (hidden width, output width) = (4, any)"),
    ({"b1_F": np.ones(3)}, "b1_F has shape (3,): (hidden width,) = (4) is needed"),
    ({"b2_D": np.ones(4)}, "b2_D has shape (4,): (output width,) = (3) is needed"),
    ({"gate_DF": np.ones((4, 3))}, "gate_DF has shape (4, 3): (width, hidden width) = (3, 4) is"),
    (
        {"gate_DF": np.ones((3, 4)), "gate_bias_F": np.ones(3)},
        "gate_bias_F has shape (3,): (hidden width,) = (4) is needed",
    ),
    ({"gate_bias_F": np.ones(4)}, "gate_bias_F is given, but there is no gate_DF"),
    ({"w2_FD": np.full((4, 3), np.nan)}, "w2_FD[0, 0] is nan: entries must be finite"),
]
SOUND = {"w1_DF": np.ones((3, 4)), "w2_FD": np.ones((4, 3)), "activation": "relu"}


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_parameters_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        FeedForward(**(SOUND | options))


def test_bad_inputs_are_named() -> None:
    layer = FeedForward(**SOUND)
    with pytest.raises(ValueError, match=r"^X has shape \(2, 4\): tokens of width 3 are needed$"):
        layer.at(np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"^x has shape \(1, 3\): 1 axes are needed$"):
        layer.jacobian_at(np.ones((1, 3)))
    message = r"^a layer's value at \[token, unit\] \[1, 0\] is beyond the range of float64$"
    with pytest.raises(ValueError, match=message):
        layer.at([[0.0, 0.0, 0.0], [1e308, 1e308, 0.0]])
    with pytest.raises(ValueError, match=message):
        layer.at([[0.0, 0.0, 0.0], [1e308, 0.0, 0.0]])
    steep = FeedForward(**(SOUND | {"w2_FD": np.full((4, 3), 1e200)}))
    twice = Experts(experts=[steep], routing_LX=[[1.0], [1e200]])
    with pytest.raises(ValueError, match=message):
        twice.at(np.ones((2, 3)))


def test_bad_mixtures_are_named() -> None:
    layer, wide = FeedForward(**SOUND), FeedForward(**(SOUND | {"w2_FD": np.ones((4, 5))}))
    for experts, routing, error, message in (
        ([], np.ones((2, 1)), ValueError, "a mixture needs at least one expert"),
        ([layer, "x"], np.ones((2, 2)), TypeError, "experts[1] is of type str: FeedForward is"),
        ([layer, wide], np.ones((2, 2)), ValueError, "the experts differ in their input or output"),
        ([layer], np.ones((2, 2)), ValueError, "routing_LX has shape (2, 2): (tokens, experts) ="),
        ([layer], [[np.inf]], ValueError, "routing_LX[0, 0] is inf: entries must be finite"),
    ):
        with pytest.raises(error, match=f"^{re.escape(message)}"):
            Experts(experts=experts, routing_LX=routing)
    mixture = Experts(experts=[layer], routing_LX=np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"^routing is for 2 tokens, X has 3$"):
        mixture.at(np.ones((3, 3)))
