"""theory.blocks and theory.linearisation: layers and stacks against plain loops and autograd."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import torch
from blocks_reference import complex_step_jacobian, complex_step_jvp, evaluate
from hypothesis import given, settings
from hypothesis import strategies as st
from random_modules import (
    random_attention,
    random_experts,
    random_feed_forward,
    random_layer,
    random_normaliser,
)

from theory.attention import Attention, AttentionAt
from theory.blocks import PostNormLayer, PostNormSublayer, PreNormLayer, PreNormSublayer, Stack
from theory.feed_forward import Experts, ExpertsAt, FeedForward, FeedForwardAt
from theory.linearisation import ComposedAt, ResidualAt, in_all_rows
from theory.normaliser import Normaliser
from theory.rotary import Rotary

seeds = st.integers(0, 2**32 - 1)


def assert_near(result: np.ndarray, expected: np.ndarray, tolerance: float = 1e-12) -> None:
    """Equal up to a relative error in norm."""
    assert result.shape == expected.shape
    assert np.linalg.norm(result - expected) <= tolerance * np.linalg.norm(expected)


def sizes(rng: np.random.Generator) -> tuple[int, int]:
    # At width 2 the Jacobian of LayerNorm is a factor ρ below the terms that cancel in it.
    return int(rng.integers(1, 5)), int(rng.integers(3, 7))


def check(module: object, X: np.ndarray, rng: np.random.Generator, tolerance: float) -> None:
    at = module.at(X)
    assert_near(at.output, evaluate(module, X), 1e-12)
    np.testing.assert_array_equal(module(X), at.output)
    assert at.input_shape == at.output_shape == X.shape
    expected = complex_step_jacobian(module, X)
    assert_near(at.jacobian(), expected, tolerance)
    for i, row in enumerate(expected):
        assert_near(at.row_block(i), np.moveaxis(row, 0, -1), 10 * tolerance)
    dX, dY = rng.normal(size=(2, 3, *X.shape))
    images, pulled = at.jvp(dX), at.vjp(dY)
    for n in range(3):
        assert_near(images[n], complex_step_jvp(module, X, dX[n]), 10 * tolerance)
        assert_near(pulled[n], np.einsum("iejd,ie->jd", expected, dY[n]), 10 * tolerance)
        scale = np.linalg.norm(dY[n]) * np.linalg.norm(images[n])
        assert abs(np.vdot(dY[n], images[n]) - np.vdot(pulled[n], dX[n])) <= 1e-12 * scale


@settings(max_examples=60)
@given(seeds)
def test_layers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length, width = sizes(rng)
    check(random_layer(rng, length, width), rng.normal(size=(length, width)), rng, 1e-12)


@settings(max_examples=20)
@given(seeds)
def test_stacks(seed: int) -> None:
    """Two attentions in turn, whose rows are pulled back through each other."""
    rng = np.random.default_rng(seed)
    length, width = sizes(rng)
    stack = Stack([random_layer(rng, length, width) for _ in range(2)])
    check(stack, rng.normal(size=(length, width)), rng, 1e-11)


def test_sublayers_are_what_their_names_say() -> None:
    rng = np.random.default_rng(1)
    norm, X = random_normaliser(rng, 4), rng.normal(size=(3, 4))
    for inner in (
        random_attention(rng, 3, 4),
        random_feed_forward(rng, 4),
        random_experts(rng, 3, 4),
        Stack([norm, random_feed_forward(rng, 4)]),
    ):
        before, after = (
            PreNormSublayer(norm=norm, inner=inner),
            PostNormSublayer(norm=norm, inner=inner),
        )
        np.testing.assert_array_equal(before(X), X + inner(norm(X)))
        np.testing.assert_array_equal(after(X), norm(X + inner(X)))


def test_a_layer_is_its_sublayers() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3, 4))
    parts = {
        "attention": random_attention(rng, 3, 4),
        "norm1": random_normaliser(rng, 4),
        "feed_forward": random_feed_forward(rng, 4),
        "norm2": random_normaliser(rng, 4),
    }
    for layer, kind in (
        (PreNormLayer(**parts), PreNormSublayer),
        (PostNormLayer(**parts), PostNormSublayer),
    ):
        first, second = layer.sublayers
        assert isinstance(first, kind)
        assert isinstance(second, kind)
        np.testing.assert_array_equal(layer(X), second(first(X)))
        at = layer.at(X)
        assert len(at.steps) == 2
        np.testing.assert_array_equal(at.steps[0].output, first(X))


def torch_layer(layer: PreNormLayer | PostNormLayer, X: torch.Tensor) -> torch.Tensor:
    """A layer with bias-free causal attention of separate heads, LayerNorm and a plain GELU."""

    def norm(module: Normaliser, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(
            x, (module.width,), torch.tensor(module.gamma), torch.tensor(module.beta), module.eps
        )

    def attention(x: torch.Tensor) -> torch.Tensor:
        module = layer.attention
        q, k, v = (
            x @ torch.tensor(w) for w in (module.query_HDK, module.key_GDK, module.value_GDV)
        )
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.einsum("hlv,hve->le", mixed, torch.tensor(module.output_HVE))

    def feed_forward(x: torch.Tensor) -> torch.Tensor:
        module = layer.feed_forward
        hidden = torch.nn.functional.gelu(x @ torch.tensor(module.w1_DF))
        return hidden @ torch.tensor(module.w2_FD)

    if isinstance(layer, PreNormLayer):
        middle = X + attention(norm(layer.norm1, X))
        return middle + feed_forward(norm(layer.norm2, middle))
    middle = norm(layer.norm1, X + attention(X))
    return norm(layer.norm2, middle + feed_forward(middle))


@pytest.mark.parametrize("kind", [PreNormLayer, PostNormLayer])
def test_values_and_jacobian_equal_those_of_torch(kind: type) -> None:
    rng = np.random.default_rng(3)
    norms = [
        Normaliser(kind="layer", gamma=rng.normal(size=6), beta=rng.normal(size=6), eps=1e-5)
        for _ in range(2)
    ]
    layer = kind(
        attention=Attention(
            query_HDK=rng.normal(size=(2, 6, 3)),
            key_GDK=rng.normal(size=(2, 6, 3)),
            value_GDV=rng.normal(size=(2, 6, 3)),
            output_HVE=rng.normal(size=(2, 3, 6)),
            mask="causal",
        ),
        norm1=norms[0],
        feed_forward=FeedForward(
            w1_DF=rng.normal(size=(6, 8)), w2_FD=rng.normal(size=(8, 6)), activation="gelu"
        ),
        norm2=norms[1],
    )
    X = rng.normal(size=(5, 6))
    tensor = torch.tensor(X)
    assert_near(layer(X), torch_layer(layer, tensor).numpy())
    jacobian = torch.autograd.functional.jacobian(lambda x: torch_layer(layer, x), tensor)
    assert_near(layer.at(X).jacobian(), jacobian.numpy())


def test_rows_of_tokenwise_maps_stay_single() -> None:
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(3, 4)), rng.normal(size=(2, 4))
    tokenwise = PreNormSublayer(norm=random_normaliser(rng, 4), inner=random_feed_forward(rng, 4))
    assert tokenwise.at(X).pull_row(1, Y).shape == (2, 1, 4)
    mixing = PostNormSublayer(norm=random_normaliser(rng, 4), inner=random_attention(rng, 3, 4))
    assert mixing.at(X).pull_row(1, Y).shape == (2, 3, 4)
    single = rng.normal(size=(2, 1, 4))
    spread = in_all_rows(single, 1, 3)
    np.testing.assert_array_equal(spread[:, 1], single[:, 0])
    np.testing.assert_array_equal(spread[:, [0, 2]], 0.0)
    assert in_all_rows(spread, 1, 3) is spread


def test_a_chain_of_residuals_of_zero_is_the_identity() -> None:
    rng = np.random.default_rng(5)
    zero = FeedForward(w1_DF=np.ones((3, 2)), w2_FD=np.zeros((2, 3)), activation="relu")
    sublayer = PreNormSublayer(norm=random_normaliser(rng, 3), inner=zero)
    X = rng.normal(size=(2, 3))
    at = Stack([sublayer] * 4).at(X)
    assert isinstance(at, ComposedAt)
    assert isinstance(at.steps[0], ResidualAt)
    np.testing.assert_array_equal(at.output, X)
    np.testing.assert_array_equal(at.jacobian().reshape(6, 6), np.eye(6))


def test_nothing_is_changed_and_outputs_are_read_only() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(3, 4))
    before = X.copy()
    for seed in range(8):
        layer = random_layer(np.random.default_rng(seed), 3, 4)
        at = layer.at(X)
        Y = rng.normal(size=(2, 3, 4))
        saved = Y.copy()
        at.jvp(Y)
        at.vjp(Y)
        at.pull_row(0, Y[:, 0])
        at.jacobian()
        np.testing.assert_array_equal(Y, saved)
        assert not at.output.flags.writeable
        with pytest.raises(dataclasses.FrozenInstanceError):
            layer.norm1 = None
        with pytest.raises(dataclasses.FrozenInstanceError):
            at.steps = ()
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    "kind",
    [
        *(Attention, AttentionAt, Rotary, Normaliser, FeedForward, FeedForwardAt, Experts),
        *(ExpertsAt, PreNormSublayer, PostNormSublayer, PreNormLayer, PostNormLayer),
    ],
)
def test_parameters_are_given_by_name_and_objects_are_themselves(kind: type) -> None:
    """Positions would mix up arrays of one shape; arrays have no one answer to equality."""
    assert all(field.kw_only for field in dataclasses.fields(kind))
    assert kind.__hash__ is object.__hash__
    assert kind.__eq__ is object.__eq__


def parts() -> dict[str, object]:
    rng = np.random.default_rng(7)
    return {
        "attention": random_attention(rng, 3, 4),
        "norm1": random_normaliser(rng, 4),
        "feed_forward": random_feed_forward(rng, 4),
        "norm2": random_normaliser(rng, 4),
    }


BAD_WIDTHS = [
    ({"norm1": random_normaliser(np.random.default_rng(0), 5)}, "norm1 has width 5"),
    ({"norm2": random_normaliser(np.random.default_rng(0), 3)}, "norm2 has width 3"),
    ({"feed_forward": random_feed_forward(np.random.default_rng(0), 5, 4)}, "feed_forward has"),
    (
        {"feed_forward": random_feed_forward(np.random.default_rng(0), 4, 5)},
        "feed_forward's output has width 5",
    ),
    (
        {"attention": random_attention(np.random.default_rng(0), 3, 4, 6)},
        "attention's output has width 6",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD_WIDTHS)
@pytest.mark.parametrize("kind", [PreNormLayer, PostNormLayer])
def test_parts_of_different_widths_are_named(
    kind: type, options: dict[str, object], message: str
) -> None:
    with pytest.raises(
        ValueError, match=f"^{re.escape(message)}.*attention has 4: a layer has one"
    ):
        kind(**(parts() | options))


@pytest.mark.parametrize("name", ["attention", "norm1", "feed_forward", "norm2"])
def test_parts_of_another_kind_are_named(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name} is of type int: "):
        PreNormLayer(**(parts() | {name: 1}))


def test_bad_sublayers_and_stacks_are_named() -> None:
    rng = np.random.default_rng(8)
    norm, wider = random_normaliser(rng, 4), random_feed_forward(rng, 4, 5)
    for kind in (PreNormSublayer, PostNormSublayer):
        with pytest.raises(TypeError, match=r"^norm is of type str: Normaliser is needed$"):
            kind(norm="layer", inner=wider)
        message = r"^X has shape \(2, 4\), what is added to it \(2, 5\): they must agree$"
        with pytest.raises(ValueError, match=message):
            kind(norm=norm, inner=wider).at(np.ones((2, 4)) * [1, 2, 3, 4])
        with pytest.raises(ValueError, match=r"^X has shape \(4,\): 2 axes are needed$"):
            kind(norm=norm, inner=wider).at(np.ones(4))
    with pytest.raises(ValueError, match=r"^a stack needs at least one block$"):
        Stack([])
    at = Stack([wider]).at(np.ones((2, 4)))
    assert at.output_shape == (2, 5)
    with pytest.raises(ValueError, match=r"^dX has shape \(2, 5\): \(\.\.\., 2, 4\) is needed$"):
        at.jvp(np.ones((2, 5)))
