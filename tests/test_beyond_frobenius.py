"""Both bounds on ‖A‖₂ by the largest share of attention, hunted for counterexamples."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import stochastic

from theory.norms import frobenius, spectral_norm


@given(st.data(), st.integers(1, 6), st.integers(1, 6))
def test_share_brackets_the_norm(data, queries, keys):
    A = np.array(data.draw(stochastic(queries, keys)))
    share = float(np.max(A.mean(axis=0)))
    norm = spectral_norm(A)
    slack = 1 + 1e-13 * max(queries, keys)
    assert share * np.sqrt(queries) <= norm * slack
    assert norm <= np.sqrt(share * queries) * slack


@given(st.data(), st.integers(1, 5), st.integers(1, 4), st.integers(0, 999))
def test_norm_on_states_is_the_spectral_norm(data, tokens, width, seed):
    A = np.array(data.draw(stochastic(tokens, tokens)))
    X = np.random.default_rng(seed).normal(size=(tokens, width))
    assert frobenius(A @ X) <= spectral_norm(A) * frobenius(X) * (1 + 1e-12)
    right = np.linalg.svd(A)[2][0]
    state = np.outer(right, np.ones(width))
    np.testing.assert_allclose(
        frobenius(A @ state), spectral_norm(A) * frobenius(state), rtol=1e-10
    )
