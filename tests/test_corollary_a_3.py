"""Counterexamples to Corollary A.3 hunted through theory.layernorm and theory.norms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag
from strategies import normalisations

from theory.layernorm import layer_norm, layer_norm_jacobian, layer_norm_stats
from theory.norms import block_inf_rms, frobenius, spectral_norm

UNIT_ROUNDOFF = 2.0**-53


def sequence_jacobian(tokens, gamma, eps):
    """The block-diagonal Jacobian of the rowwise map, shape (Ld, Ld)."""
    return block_diag(*(layer_norm_jacobian(token, gamma, eps) for token in tokens))


def factors(tokens, gamma, eps):
    """a_{k,i} of one module, shape (L,)."""
    return np.max(np.abs(gamma)) / layer_norm_stats(tokens, eps).sigma


@given(normalisations(tokens=4))
def test_both_inequalities_and_the_transpose(module):
    tokens, gamma, eps = module
    # Two modules with their own states, two tokens each.
    layers = [(tokens[:2], gamma, eps), (tokens[2:], gamma[::-1], 2 * eps)]
    product = np.eye(2 * len(gamma))
    for layer in layers:
        product = sequence_jacobian(*layer) @ product
    per_token = np.prod([factors(*layer) for layer in layers], axis=0)
    per_layer = np.prod([np.max(factors(*layer)) for layer in layers])
    # Each factor and the multiplication err by a few eps times d of the bound.
    slack = 1 + 256 * UNIT_ROUNDOFF * len(gamma)
    assert spectral_norm(product) <= np.max(per_token) * slack + 1e-300
    assert spectral_norm(product.T) <= np.max(per_token) * slack + 1e-300
    assert np.max(per_token) <= per_layer * slack


@given(normalisations(tokens=3), st.integers(0, 2))
def test_one_token_moves_no_other(module, moved):
    tokens, gamma, eps = module
    beta = [1.0] * len(gamma)
    before = layer_norm(tokens, gamma, beta, eps)
    changed = [[2 * v for v in t] if i == moved else t for i, t in enumerate(tokens)]
    after = layer_norm(changed, gamma, beta, eps)
    others = [i for i in range(3) if i != moved]
    assert before[others].tobytes() == after[others].tobytes()


@given(normalisations(tokens=2), st.data())
def test_block_and_spectral_norm_coincide(module, data):
    tokens, gamma, eps = module
    width = len(gamma)
    blocks = [layer_norm_jacobian(token, gamma, eps) for token in tokens]
    norm = spectral_norm(block_diag(*blocks))
    assert norm == pytest.approx(max(map(spectral_norm, blocks)), rel=1e-12)
    entry = st.floats(-1, 1)
    state = np.array(
        data.draw(st.lists(st.lists(entry, min_size=width, max_size=width), min_size=2, max_size=2))
    )
    image = np.stack([block @ row for block, row in zip(blocks, state, strict=True)])
    slack = 1 + 1e-12
    assert block_inf_rms(image) <= norm * block_inf_rms(state) * slack + 1e-290
    assert frobenius(image) <= norm * frobenius(state) * slack + 1e-290
    # One row, the worst block's right singular vector, attains both.
    worst = int(np.argmax([spectral_norm(block) for block in blocks]))
    attaining = np.zeros_like(state)
    attaining[worst] = np.linalg.svd(blocks[worst])[2][0]
    image = np.stack([block @ row for block, row in zip(blocks, attaining, strict=True)])
    assert block_inf_rms(image) == pytest.approx(norm * block_inf_rms(attaining), rel=1e-10)
    assert frobenius(image) == pytest.approx(norm, rel=1e-10)


def test_hypothesis_can_fail_at_every_layer():
    # σ = 1/2, so every factor is 2, and the product doubles at each of twelve modules.
    token, gamma, eps = [0.25, -0.25, 0.0], [1.0] * 3, 5 / 24
    product = np.linalg.matrix_power(layer_norm_jacobian(token, gamma, eps), 12)
    assert factors([token], gamma, eps)[0] == pytest.approx(2.0, rel=1e-15)
    assert spectral_norm(product) == pytest.approx(2.0**12, rel=1e-13)
