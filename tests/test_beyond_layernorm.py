"""Exact norms, Lipschitz constants and equality cases of LayerNorm and RMSNorm, in floats."""

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import entries, normalisations

from theory.claims import _layernorms as norms
from theory.claims import _matrices as m
from theory.layernorm import (
    layer_norm_jacobian,
    layer_norm_jacobian_norm,
    layer_norm_lipschitz,
    layer_norm_stats,
    rms_norm,
    rms_norm_jacobian,
    rms_norm_jacobian_norm,
    rms_norm_lipschitz,
)
from theory.norms import rms, spectral_norm

UNIT_ROUNDOFF = 2.0**-53


def slack(width):
    """The norms promise a relative error of a few eps times d."""
    return 64 * width * UNIT_ROUNDOFF


@given(normalisations())
def test_jacobian_norm_lies_between_the_third_and_the_largest_scale(module):
    ((x,), gamma, eps) = module
    ordered = [*sorted(map(abs, gamma), reverse=True), 0.0, 0.0]
    scaled = layer_norm_jacobian_norm(x, gamma, eps) * layer_norm_stats(x, eps).sigma
    floor = ordered[1] if len(set(x)) == 1 else ordered[2]
    assert floor * (1 - slack(len(x))) <= scaled <= ordered[0] * (1 + slack(len(x)))


@given(normalisations())
def test_jacobian_norm_is_the_largest_singular_value(module):
    ((x,), gamma, eps) = module
    bound = np.max(np.abs(gamma)) / layer_norm_stats(x, eps).sigma
    dense = spectral_norm(layer_norm_jacobian(x, gamma, eps))
    # The dense matrix is right to 16 u d ‖γ‖_∞/σ in norm, and its SVD likewise.
    error = 32 * len(x) * UNIT_ROUNDOFF * bound
    assert layer_norm_jacobian_norm(x, gamma, eps) == pytest.approx(dense, rel=0, abs=error)


@given(normalisations())
def test_no_token_exceeds_the_exact_constant_and_constant_ones_attain_it(module):
    ((x,), gamma, eps) = module
    constant = layer_norm_lipschitz(gamma, eps)
    assert layer_norm_jacobian_norm(x, gamma, eps) <= constant * (1 + slack(len(x)))
    level = [x[0]] * len(x)
    at_constant = layer_norm_jacobian_norm(level, gamma, eps)
    assert at_constant == pytest.approx(constant, rel=slack(len(x)))


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=6))
def test_constant_is_the_largest_critical_point(gamma):
    polynomial = np.polynomial.Polynomial.fromroots([float(g * g) for g in gamma])
    critical = polynomial.deriv().roots()
    largest = float(np.max(critical.real)) if critical.size else 0.0
    # A critical point beside a root of multiplicity 6 is computed to about u^(1/5).
    assert layer_norm_lipschitz(gamma, 1.0) ** 2 == pytest.approx(largest, rel=1e-2, abs=1e-2)


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=7))
def test_paper_constant_is_exact_where_the_top_repeats(gamma):
    ordered = sorted(map(abs, gamma), reverse=True)
    constant = layer_norm_lipschitz(gamma, 0.25)
    if ordered[0] == ordered[1]:
        assert constant == pytest.approx(2.0 * ordered[0], rel=slack(len(gamma)))
    else:
        # 1/(g_1² − λ) = Σ_{j>=2} 1/(λ − g_j²) gives g_1² − λ >= (g_1² − g_2²)/d, over 1% of g_1².
        assert constant < 2.0 * ordered[0] * (1 - 1e-3)


@given(normalisations(tokens=4, min_width=3), st.integers(1, 4))
def test_flat_scales_attain_the_product_bound_up_to_depth_d_minus_2(module, depth):
    tokens, gamma, eps = module
    width = len(gamma)
    depth = min(depth, width - 2)
    flat = [gamma[0] or 1.0] * width
    product, bound = np.eye(width), 1.0
    for token in tokens[:depth]:
        product = layer_norm_jacobian(token, flat, eps) @ product
        bound *= float(abs(flat[0]) / layer_norm_stats(token, eps).sigma)
    assert spectral_norm(product) == pytest.approx(bound, rel=1e-12)


def test_depth_d_minus_1_falls_short():
    width = 5
    product, bound = np.eye(width), 1.0
    for token in np.eye(width)[: width - 1]:
        product = layer_norm_jacobian(token, [1.0] * width, 1.0) @ product
        bound /= float(layer_norm_stats(token, 1.0).sigma)
    assert spectral_norm(product) < 0.999 * bound


@given(normalisations())
def test_rms_norm_of_any_token_is_at_most_the_largest_scale(module):
    ((x,), gamma, eps) = module
    top = float(np.max(np.abs(gamma)))
    assert rms(rms_norm(x, gamma, eps)) <= top * (1 + slack(len(x)))


@given(normalisations())
def test_rms_norm_jacobian_norm_and_constant(module):
    ((x,), gamma, eps) = module
    top = float(np.max(np.abs(gamma)))
    norm = rms_norm_jacobian_norm(x, gamma, eps)
    constant = rms_norm_lipschitz(gamma, eps)
    assert constant == pytest.approx(top / np.sqrt(eps), rel=slack(len(x)))
    assert norm <= constant * (1 + slack(len(x)))
    dense = spectral_norm(rms_norm_jacobian(x, gamma, eps))
    assert norm == pytest.approx(dense, rel=1e-12, abs=1e-300)


@given(normalisations(tokens=2), st.floats(0, 1))
def test_rms_norm_stretches_no_pair_further(module, pull):
    ((x, y), gamma, eps) = module
    y = [a + pull * (b - a) for a, b in zip(x, y, strict=True)]
    rise = np.linalg.norm(rms_norm(x, gamma, eps) - rms_norm(y, gamma, eps))
    run = np.linalg.norm(np.subtract(x, y))
    top = np.max(np.abs(gamma))
    rounding = 32 * len(x) * UNIT_ROUNDOFF * top
    assert rise <= top / np.sqrt(eps) * run * (1 + 1e-12) + rounding


# ------------------------------------------------------- the exact helpers that the claims rest on


@given(st.lists(st.lists(entries(10.0), min_size=4, max_size=4), min_size=0, max_size=5))
def test_orthogonal_to_finds_a_vector_exactly_where_there_is_one(rows):
    exact = [[Fraction(entry) for entry in row] for row in rows]
    found = norms.orthogonal_to(exact, 4)
    if found is None:
        # Only four independent rows leave nothing: their Gram matrix has rank 4.
        gram = m.product(m.transposed(exact), exact)
        assert norms.least_pivot(gram) > 0
    else:
        assert any(found)
        assert all(m.dot(row, found) == 0 for row in exact)


def test_least_pivot_has_the_sign_of_the_least_eigenvalue():
    assert norms.least_pivot([[2, 1], [1, 2]]) > 0
    assert norms.least_pivot([[1, 1], [1, 1]]) == 0
    assert norms.least_pivot([[0, 1], [1, 0]]) < 0
    assert norms.least_pivot([[1, 2], [2, 1]]) < 0


@pytest.mark.parametrize("centred", [True, False])
def test_exact_jacobian_is_the_public_one(centred):
    rng = random.Random(5)
    function = layer_norm_jacobian if centred else rms_norm_jacobian
    for _ in range(50):
        token = norms.dyadic_token(rng, rng.randint(1, 6), centred=centred)
        sigma = float(token.sigma_squared) ** 0.5
        expected = np.array([[float(e) for e in row] for row in token.sigma_jacobian]) / sigma
        x, gamma = ([float(v) for v in vector] for vector in (token.x, token.gamma))
        scale = max(map(abs, gamma)) / sigma
        computed = function(x, gamma, float(token.eps))
        assert np.allclose(computed, expected, rtol=0, atol=32 * UNIT_ROUNDOFF * scale)


def test_token_without_a_jacobian_is_refused():
    with pytest.raises(ValueError, match="no normalisation"):
        norms.Token((Fraction(2),) * 2, (Fraction(1),) * 2, Fraction(0))
    with pytest.raises(ValueError, match="no normalisation"):
        norms.Token((Fraction(0),) * 2, (Fraction(1),) * 2, Fraction(0), centred=False)
    with pytest.raises(ValueError, match="no normalisation"):
        norms.Token((Fraction(1),), (Fraction(1),), Fraction(-1))
