"""Theorem 4.6 through theory.blocks: the chain of factors and the LayerNorm-only product."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import layer_modules, states

from theory.blocks import PostNormSublayer, Stack
from theory.claims import _float_layers as floats
from theory.layernorm import layer_norm_jacobian
from theory.norms import spectral_norm


@settings(max_examples=60)
@given(st.data())
def test_factors_multiply_to_the_jacobian(data):
    modules = [data.draw(layer_modules(min_width=3, max_width=3)) for _ in range(3)]
    X = data.draw(states(3, max_length=2))
    stack = Stack([PostNormSublayer(norm=p.norm1, inner=p.attention) for p in modules])
    whole, scale, state = np.eye(X.size), 1.0, X
    for part, sublayer in zip(modules, stack.blocks, strict=True):
        mixing = part.attention.at(state)
        normed = part.norm1.at(state + mixing.output)
        inside = np.eye(X.size) + floats.matrix_of(mixing)
        whole = floats.matrix_of(normed) @ inside @ whole
        # LayerNorm's entries are right to a few eps of ‖γ‖_∞/σ, however much cancels in them.
        scale *= np.max(np.abs(part.norm1.gamma)) / np.min(normed.sigma) * np.linalg.norm(inside)
        state = sublayer(state)
    gap = np.max(np.abs(whole - floats.matrix_of(stack.at(X))))
    assert gap <= 1e-12 * scale


@given(st.data())
def test_layer_norm_is_far_from_the_identity(data):
    norm = data.draw(layer_modules()).norm1
    x = data.draw(states(norm.width, max_length=1))[0]
    jacobian = norm.jacobian_at(x)
    slack = 1e-13 * (1 + np.max(np.abs(jacobian)))
    for order in (1, 2, np.inf):
        assert np.linalg.norm(jacobian - np.eye(norm.width), order) >= 1 - slack * norm.width


@pytest.mark.parametrize(("sigma", "decays"), [(2.0, True), (0.5, False)])
def test_bounded_away_from_one_is_not_enough(sigma, decays):
    token, gamma = np.array([0.25, -0.25, 0.0]), np.ones(3)
    eps = sigma**2 - 2 * 0.25**2 / 3
    jacobian = layer_norm_jacobian(token, gamma, eps)
    norm = spectral_norm(np.linalg.matrix_power(jacobian, 10))
    assert norm == pytest.approx(sigma**-10, rel=1e-12)
    assert (norm < 1) is decays
