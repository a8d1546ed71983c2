"""Counterexamples to Lemma A.2 hunted through theory.layernorm, with its float error added."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import entries, normalisations

from theory.layernorm import layer_norm_jacobian, layer_norm_stats
from theory.norms import spectral_norm

UNIT_ROUNDOFF = 2.0**-53


def jacobian_and_bound(x, gamma, eps):
    """J_LN(x), ‖γ‖_∞/σ, and a bound of the Jacobian's float error in norm: 16 u d ‖γ‖_∞/σ."""
    bound = float(np.max(np.abs(gamma)) / layer_norm_stats(x, eps).sigma)
    return layer_norm_jacobian(x, gamma, eps), bound, 16 * UNIT_ROUNDOFF * len(x) * bound


@given(normalisations())
def test_part_i_constants_are_annihilated(module):
    ((x,), gamma, eps) = module
    jacobian, _, error = jacobian_and_bound(x, gamma, eps)
    ones = np.ones(len(x))
    assert np.linalg.norm(jacobian @ ones) <= 2 * error * np.linalg.norm(ones)


@given(normalisations(min_width=2), st.data())
def test_part_ii_centred_vectors_are_bounded(module, data):
    ((x,), gamma, eps) = module
    v = np.array(data.draw(st.lists(entries(1e60), min_size=len(x), max_size=len(x))))
    v = v - np.mean(v)
    jacobian, bound, error = jacobian_and_bound(x, gamma, eps)
    length = np.linalg.norm(v)
    # A subnormal v has no relative accuracy to compare with.
    assert np.linalg.norm(jacobian @ v) <= (bound + 2 * error) * length + 1e-300


@given(normalisations())
def test_part_iii_the_token_itself_shrinks_by_rho(module):
    ((x,), gamma, eps) = module
    jacobian, bound, error = jacobian_and_bound(x, gamma, eps)
    stats = layer_norm_stats(x, eps)
    image = jacobian @ stats.xhat
    length = np.linalg.norm(stats.xhat)
    slack = 2 * error * length
    assert np.linalg.norm(image - stats.rho / stats.sigma * np.multiply(gamma, stats.xhat)) <= slack
    assert np.linalg.norm(image) <= bound * stats.rho * length + slack
    assert 0 <= stats.rho <= 1


@given(normalisations())
def test_part_iii_rho_is_one_for_constant_tokens(module):
    ((x,), _, eps) = module
    stats = layer_norm_stats(x, eps)
    if len(set(x)) == 1:
        assert stats.rho == 1
        assert not stats.xhat.any()
    # The identity 1 − ‖x̂‖²/d = ε/σ² in floats.
    assert 1 - np.mean(np.square(stats.xhat)) == pytest.approx(stats.rho, abs=1e-14)


def test_part_iii_rho_is_zero_without_eps():
    assert layer_norm_stats([1.0, 2.0, 4.0], 0.0).rho == 0
    image = layer_norm_jacobian([1.0, 2.0, 4.0], [1.0] * 3, 0.0) @ [-4.0, -1.0, 5.0]
    assert np.linalg.norm(image) < 1e-14


@given(normalisations(tokens=4), st.integers(0, 4))
def test_part_iv_products_obey_the_product_of_factors(module, depth):
    (tokens, gamma, eps) = module
    width = len(gamma)
    product, bound = np.eye(width), 1.0
    for token in tokens[:depth]:
        jacobian, factor, _ = jacobian_and_bound(token, gamma, eps)
        product = jacobian @ product
        bound *= factor
    # Each factor and each multiplication errs by a few eps times d of the bound so far.
    slack = 64 * UNIT_ROUNDOFF * width * (depth + 1)
    assert spectral_norm(product) <= bound * (1 + slack) + 1e-300


@given(normalisations(tokens=3, min_width=2), st.floats(0.05, 0.95))
def test_part_iv_geometric_form(module, eta):
    (tokens, gamma, eps) = module
    top = np.max(np.abs(gamma))
    if top == 0:
        return
    # γ is scaled so that the worst factor is 1 − η.
    worst = max(float(top / layer_norm_stats(token, eps).sigma) for token in tokens)
    gamma = np.asarray(gamma) * ((1 - eta) / worst)
    product = np.eye(len(gamma))
    for token in tokens:
        product = layer_norm_jacobian(token, gamma, eps) @ product
    assert spectral_norm(product) <= (1 - eta) ** len(tokens) * (1 + 1e-12)


def test_part_iv_projection_alone_gives_no_decay():
    # Two modules at width 4: a direction orthogonal to 1 and both tokens keeps its length.
    tokens = ([1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0])
    product, bound = np.eye(4), 1.0
    for token in tokens:
        jacobian, factor, _ = jacobian_and_bound(token, [1.0] * 4, 1e-5)
        product, bound = jacobian @ product, bound * factor
    assert spectral_norm(product) == pytest.approx(bound, rel=1e-14)
