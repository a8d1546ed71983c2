"""Counterexamples to the sharper layer bounds hunted through theory.blocks and theory.opnorm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import layer_modules, states

from theory.activations import ACTIVATIONS, lipschitz
from theory.claims import _float_layers as floats
from theory.feed_forward import FeedForward
from theory.norms import spectral_norm

SLACK = 1 + 1e-9


@settings(max_examples=100)
@given(st.data(), st.booleans(), st.sampled_from(["layer", "rms"]))
def test_bounds_are_ordered_and_hold(data, pre, kind):
    modules = data.draw(layer_modules(kind=kind))
    X = data.draw(states(modules.attention.width))
    if not pre:
        X = modules.norm2(X)
    lower, _ = floats.certified(modules.layer(pre=pre).at(X))
    local = modules.local_bound(X, pre=pre)
    exact = modules.exact_bound(pre=pre)
    assert lower <= local * SLACK
    assert local <= exact * SLACK
    assert exact <= modules.paper_bound(pre=pre) * SLACK


@settings(max_examples=60)
@given(st.data(), st.booleans())
def test_local_bound_needs_no_domain(data, pre):
    modules = data.draw(layer_modules())
    X = data.draw(states(modules.attention.width))
    lower, _ = floats.certified(modules.layer(pre=pre).at(X))
    assert lower <= modules.local_bound(X, pre=pre) * SLACK


@pytest.mark.parametrize("pre", [True, False])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_exact_constants_are_attained(pre, kind):
    rng = np.random.default_rng(5)
    for _ in range(20):
        width = int(rng.integers(2, 5))
        gamma = rng.normal(size=width)
        if kind == "rms" and not pre:
            # LN_1 has γ = 1, and LN_2 stretches a coordinate most; any γ_2 will do.
            gamma = np.abs(gamma)
        modules = floats.attaining_modules(rng, width, pre=pre, gamma=gamma, kind=kind)
        lower, _ = floats.certified(modules.layer(pre=pre).at(np.zeros((2, width))))
        assert lower == pytest.approx(modules.exact_bound(pre=pre), rel=1e-6)


@given(st.sampled_from(sorted(ACTIVATIONS)), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_gated_feed_forward_on_a_ball(name, width, seed):
    rng = np.random.default_rng(seed)
    gate, first, second = (rng.normal(size=(width, width)) for _ in range(3))
    layer = FeedForward(w1_DF=first, w2_FD=second, gate_DF=gate, activation=name)
    x = 10 ** rng.uniform(-2, 2) * rng.normal(size=(1, width))
    jacobian = floats.matrix_of(layer.at(x))
    sizes = spectral_norm(gate) * spectral_norm(first) * spectral_norm(second)
    assert spectral_norm(jacobian) <= (lipschitz(name) + 1) * np.linalg.norm(x) * sizes * SLACK


def test_gated_feed_forward_is_not_lipschitz():
    layer = FeedForward(w1_DF=np.eye(1), w2_FD=np.eye(1), gate_DF=np.eye(1), activation="silu")
    slopes = [float(layer.at([[x]]).jacobian().item()) for x in (10.0, 1e3, 1e6)]
    assert slopes == pytest.approx([20.0, 2e3, 2e6], rel=1e-3)
