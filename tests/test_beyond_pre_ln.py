"""Shift invariance of pre-LN stacks hunted for counterexamples through theory.blocks."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import layer_modules, states

from theory.blocks import Stack
from theory.claims import _float_layers as floats


def stack_of(data, *, kind="layer", min_width=1):
    first = data.draw(layer_modules(min_width=min_width, kind=kind))
    width = first.attention.width
    second = data.draw(layer_modules(min_width=width, max_width=width, kind=kind))
    return Stack([first.layer(pre=True), second.layer(pre=True)]), width


@given(st.data())
def test_constants_pass_unchanged(data):
    stack, width = stack_of(data)
    at = stack.at(data.draw(states(width)))
    ones = np.zeros(at.input_shape)
    ones[data.draw(st.integers(0, len(ones) - 1))] = 1.0
    scale = np.prod([np.linalg.norm(floats.matrix_of(step)) for step in at.steps])
    assert np.max(np.abs(at.jvp(ones) - ones)) <= 1e-12 * (1 + scale)


@given(st.data())
def test_token_sums_of_gradients_are_conserved(data):
    stack, width = stack_of(data)
    at = stack.at(data.draw(states(width)))
    g = np.random.default_rng(data.draw(st.integers(0, 999))).normal(size=at.output_shape)
    scale = np.prod([np.linalg.norm(floats.matrix_of(step)) for step in at.steps])
    gap = np.abs(at.vjp(g).sum(axis=1) - g.sum(axis=1))
    assert np.max(gap) <= 1e-12 * (1 + scale) * np.linalg.norm(g)


@settings(max_examples=60)
@given(st.data())
def test_norm_is_at_least_one(data):
    stack, width = stack_of(data)
    at = stack.at(data.draw(states(width)))
    _, upper = floats.certified(at)
    assert upper >= 1 - 1e-9
    matrix = floats.matrix_of(at)
    scale = np.prod([np.linalg.norm(floats.matrix_of(step)) for step in at.steps])
    for order in (1, 2, np.inf):
        assert np.linalg.norm(matrix, order) >= 1 - 1e-12 * (1 + scale)
    large = np.linalg.svd(matrix, compute_uv=False) >= 1 - 1e-12 * (1 + scale)
    assert np.count_nonzero(large) >= at.input_shape[0]


def test_rmsnorm_can_contract():
    # One token (1, 1) with σ = 2 and G = −(3/2)I: eigenvalues 1/4 and 7/16.
    norm = floats.Normaliser(kind="rms", gamma=np.ones(2), eps=3.0)
    jacobian = np.eye(2) - 1.5 * norm.jacobian_at(np.ones(2))
    np.testing.assert_allclose(np.linalg.eigvalsh(jacobian), [0.25, 0.4375], rtol=1e-14)
