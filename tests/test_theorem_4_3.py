"""Counterexamples to Theorem 4.3 hunted through theory.blocks and theory.opnorm."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import layer_modules, states

from theory.activations import ACTIVATIONS, lipschitz
from theory.claims import _float_layers as floats
from theory.feed_forward import FeedForward
from theory.norms import block_inf_rms, spectral_norm

EPS = np.finfo(float).eps


@given(st.data())
def test_quotients_stay_below_the_bound(data):
    modules = data.draw(layer_modules())
    layer, width = modules.layer(pre=True), modules.attention.width
    X = data.draw(states(width))
    step = np.random.default_rng(data.draw(st.integers(0, 999))).normal(size=X.shape)
    Y = X + data.draw(st.sampled_from([1e-6, 1e-2, 1.0, 1e3])) * step
    rise = block_inf_rms(layer(X) - layer(Y))
    bound = modules.paper_bound(pre=True)
    # Each output rounds by some 100 eps of the sizes that are added up, ‖X‖ and what weights make.
    sizes = block_inf_rms(X) + block_inf_rms(Y) + block_inf_rms(layer(X)) + block_inf_rms(layer(Y))
    noise = 1e4 * EPS * (1 + sizes) * (1 + spectral_norm(modules.feed_forward.w1_DF)) ** 2
    assert rise <= bound * block_inf_rms(X - Y) * (1 + 1e-9) + noise * (1 + modules.rate)


@settings(max_examples=100)
@given(st.data())
def test_certified_norm_stays_below_the_bound(data):
    modules = data.draw(layer_modules())
    X = data.draw(states(modules.attention.width))
    lower, upper = floats.certified(modules.layer(pre=True).at(X))
    assert lower <= upper * (1 + 1e-12)
    assert lower <= modules.paper_bound(pre=True) * (1 + 1e-9)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_feed_forward_needs_the_activation_constant(name):
    # One unit at its steepest point: the quotient comes within 1e-6 of the constant.
    layer = FeedForward(
        w1_DF=np.eye(1), w2_FD=np.eye(1), b1_F=np.array([floats.STEEPEST[name]]), activation=name
    )
    step = 1e-4
    rise = float((layer([[step]]) - layer([[-step]]))[0, 0])
    assert rise / (2 * step) == pytest.approx(lipschitz(name), rel=1e-6)


@given(st.data())
def test_feed_forward_constant(data):
    layer = data.draw(layer_modules()).feed_forward
    x, y = (data.draw(states(layer.width, max_length=1)) for _ in range(2))
    rise = math.dist(layer(x)[0], layer(y)[0])
    constant = floats.feed_forward_constant(layer)
    noise = 1e3 * EPS * constant * (1 + np.linalg.norm(x) + np.linalg.norm(y))
    largest_bias = 1.0 if layer.b1_F is None else 1 + np.linalg.norm(layer.b1_F)
    slack = noise * largest_bias + 1e3 * EPS * (1 + spectral_norm(layer.w2_FD)) * largest_bias
    assert rise <= constant * math.dist(x[0], y[0]) * (1 + 1e-12) + slack


def test_bound_is_attained_at_constant_tokens():
    rng = np.random.default_rng(1)
    for _ in range(20):
        modules = floats.attaining_modules(rng, 3, pre=True, gamma=np.ones(3))
        lower, _ = floats.certified(modules.layer(pre=True).at(np.zeros((2, 3))))
        assert lower == pytest.approx(modules.paper_bound(pre=True), rel=1e-6)
