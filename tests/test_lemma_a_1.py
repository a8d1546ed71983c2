"""Counterexamples to Lemma A.1 hunted through theory.layernorm, with its float error added."""

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from strategies import normalisations

from theory.derivations.layernorm import coordinate_sum, d
from theory.layernorm import (
    layer_norm,
    layer_norm_jacobian,
    layer_norm_jacobian_norm,
    layer_norm_lipschitz,
    layer_norm_stats,
)
from theory.norms import spectral_norm

UNIT_ROUNDOFF = 2.0**-53


def bound_over_sigma(x: list[float], gamma: list[float], eps: float) -> float:
    """‖γ‖_∞/σ(x)."""
    return float(np.max(np.abs(gamma)) / layer_norm_stats(x, eps).sigma)


@given(normalisations())
def test_jacobian_norm_is_at_most_the_local_bound(module):
    ((x,), gamma, eps) = module
    bound = bound_over_sigma(x, gamma, eps)
    # The norm promises a relative error of a few eps times d.
    assert layer_norm_jacobian_norm(x, gamma, eps) <= bound * (1 + 64 * len(x) * UNIT_ROUNDOFF)


@given(normalisations())
def test_dense_jacobian_is_at_most_the_local_bound(module):
    ((x,), gamma, eps) = module
    bound = bound_over_sigma(x, gamma, eps)
    # Entries are right to 16 u |γ_i|/σ, so the matrix to 16 u d ‖γ‖_∞/σ; the SVD adds as much.
    slack = 32 * len(x) * UNIT_ROUNDOFF
    assert spectral_norm(layer_norm_jacobian(x, gamma, eps)) <= bound * (1 + slack)


@given(normalisations())
def test_local_bound_is_at_most_the_global_one(module):
    ((x,), gamma, eps) = module
    bound = np.max(np.abs(gamma)) / np.sqrt(eps)
    assert bound_over_sigma(x, gamma, eps) <= bound * (1 + 8 * UNIT_ROUNDOFF)


@given(normalisations(tokens=2), st.floats(0, 1))
def test_no_pair_of_tokens_is_stretched_further(module, pull):
    ((x, y), gamma, eps) = module
    # Near pairs are as dangerous as far ones.
    y = [a + pull * (b - a) for a, b in zip(x, y, strict=True)]
    zero = [0.0] * len(x)
    top = np.max(np.abs(gamma))
    rise = np.linalg.norm(layer_norm(x, gamma, zero, eps) - layer_norm(y, gamma, zero, eps))
    run = np.linalg.norm(np.subtract(x, y))
    # Each x̂ has errors of a few eps √d an entry, so d of them in norm, at either end.
    rounding = 32 * len(x) * UNIT_ROUNDOFF * top
    assert rise <= top / np.sqrt(eps) * run * (1 + 1e-12) + rounding


@pytest.mark.parametrize("eps", [1e-12, 1e-5, 1.0])
def test_constant_is_nearly_met_beside_a_constant_token(eps):
    step = 1e-3 * np.sqrt(eps)
    x, y = [step, -step, 0.0], [-step, step, 0.0]
    gamma, zero = [2.0, -2.0, 1.0], [0.0] * 3
    # γ = (2, −2) turns (1, −1) into (2, 2): the length doubles.
    rise = np.linalg.norm(layer_norm(x, gamma, zero, eps) - layer_norm(y, gamma, zero, eps))
    ratio = rise / np.linalg.norm(np.subtract(x, y)) / (2.0 / np.sqrt(eps))
    assert 1 - 1e-6 < ratio <= 1 + 1e-12
    assert layer_norm_lipschitz(gamma, eps) == pytest.approx(2.0 / np.sqrt(eps), rel=1e-13)


def test_without_eps_the_local_bound_has_no_end():
    bounds = [bound_over_sigma([s, -s], [1.0, 1.0], 0.0) for s in (1.0, 1e-100, 1e-300)]
    assert bounds == pytest.approx([1.0, 1e100, 1e300])
    with pytest.raises(ValueError, match="constant token"):
        layer_norm_stats([3.0, 3.0], 0.0)


def test_one_entry_wide_tokens_have_no_sensitivity():
    assert layer_norm_jacobian([7.0], [3.0], 1e-5).tolist() == [[0.0]]
    assert layer_norm_lipschitz([3.0], 1e-5) == 0.0


def test_sum_of_an_unknown_monomial_is_refused():
    x = sympy.Symbol("x_j")
    summed = coordinate_sum((x,), {sympy.Integer(1): d, x: sympy.Integer(0)})
    assert summed(2 * x + 3) == 3 * d
    with pytest.raises(KeyError):
        summed(x**2)
