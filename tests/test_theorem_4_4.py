"""Counterexamples to Theorem 4.4 hunted through theory.blocks and theory.opnorm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import layer_modules, states

from theory.bounds import corollary_4_2_bound
from theory.claims import _float_layers as floats
from theory.norms import block_inf_rms


@settings(max_examples=100)
@given(st.data())
def test_certified_norm_on_outputs_of_the_layer_before(data):
    before = data.draw(layer_modules())
    width = before.attention.width
    modules = data.draw(layer_modules(min_width=width, max_width=width))
    X = before.layer(pre=False)(data.draw(states(width)))
    bound = max(modules.bound, floats.magnitude(before.norm2))
    assert block_inf_rms(X) <= bound * (1 + 1e-12)
    lower, _ = floats.certified(modules.layer(pre=False).at(X))
    assert lower <= modules.paper_bound(pre=False, bound=bound) * (1 + 1e-9)


def test_own_modules_are_not_enough():
    # X_ℓ of a layer whose last γ is 3 leaves the domain that the next layer's γ = 1 describes.
    rng = np.random.default_rng(2)
    modules = floats.attaining_modules(rng, 4, pre=False, gamma=np.ones(4))
    before = floats.attaining_modules(rng, 4, pre=False, gamma=np.full(4, 3.0))
    X = before.layer(pre=False)(1e3 * rng.normal(size=(3, 4)))
    assert block_inf_rms(X) > modules.bound


def test_bound_is_attained_at_constant_tokens():
    rng = np.random.default_rng(3)
    for _ in range(20):
        modules = floats.attaining_modules(rng, 3, pre=False, gamma=np.ones(3))
        lower, _ = floats.certified(modules.layer(pre=False).at(np.zeros((2, 3))))
        assert lower == pytest.approx(modules.paper_bound(pre=False), rel=1e-6)


def test_outside_the_domain_attention_exceeds_its_constant():
    # The constant belongs to ‖X‖_{∞,rms} <= B_LN; attention's own norm grows with ‖X‖².
    rng = np.random.default_rng(4)
    ratios = []
    for _ in range(40):
        modules = floats.random_modules(rng, 3)
        X = 20.0 * rng.normal(size=(3, 3))
        lower, _ = floats.certified(modules.attention.at(X))
        ratios.append(lower / corollary_4_2_bound(modules.attention, modules.bound).value)
    assert max(ratios) > 1
