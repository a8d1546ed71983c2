"""Section 2 on floats: adversarial inputs through the public functions, with stated error bounds.

EPS is the spacing at 1. Where squares or products may underflow, TINY, the smallest subnormal,
enters once per operation.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import strategies
from hypothesis import assume, given
from hypothesis import strategies as st

from theory.layernorm import layer_norm
from theory.norms import (
    block_inf_rms,
    frobenius,
    induced_norm,
    rms,
    row_norm_inf_2,
    spectral_norm,
)
from theory.softmax import softmax

EPS = 2.0**-52
TINY = strategies.SMALLEST_SUBNORMAL

sizes = st.integers(1, 5)


@st.composite
def mixtures(draw: st.DrawFn, largest: float = 1e300) -> tuple[np.ndarray, np.ndarray]:
    """(A, V): row-stochastic A of shape (queries, keys), values V of shape (keys, d)."""
    queries, keys, width = draw(sizes), draw(sizes), draw(sizes)
    values = draw(strategies.matrices(keys, width, largest))
    return np.array(draw(strategies.stochastic(queries, keys))), np.array(values)


# A row of A sums to 1 within 4 EPS or so, and a sum of k nonnegative multiples of values loses at
# most k EPS of the largest; the norms add a few EPS. TINY is lost by each product.
def mixing_slack(keys: int, bound: float) -> float:
    return (keys + 24) * EPS * bound + 2 * keys * TINY


@given(mixtures())
def test_mixing_is_nonexpansive(pair: tuple[np.ndarray, np.ndarray]) -> None:
    mixing, values = pair
    bound = block_inf_rms(values)
    with np.errstate(under="ignore"):
        mixed = mixing @ values
    assert block_inf_rms(mixed) <= bound + mixing_slack(len(values), bound)


@given(st.data(), sizes, strategies.temperatures())
def test_mixing_with_masked_softmax_rows_is_nonexpansive(
    data: st.DataObject, width: int, tau: float
) -> None:
    logits = data.draw(strategies.logits())
    keys = len(logits)
    mask = data.draw(st.lists(st.booleans(), min_size=keys, max_size=keys).filter(any))
    values = np.array(data.draw(strategies.matrices(keys, width)))
    row = softmax(logits, tau, mask=mask)
    # Only visible keys count.
    bound = block_inf_rms(values[mask])
    with np.errstate(under="ignore"):
        mixed = row[np.newaxis] @ values
    assert block_inf_rms(mixed) <= bound + mixing_slack(keys, bound)


@given(mixtures(), st.data())
def test_dropout_expands_by_at_most_one_over_the_kept_rate(
    pair: tuple[np.ndarray, np.ndarray], data: st.DataObject
) -> None:
    mixing, values = pair
    rate = data.draw(st.sampled_from([0.0, 0.1, 0.5, 0.9]))
    flags = st.lists(st.booleans(), min_size=mixing.size, max_size=mixing.size)
    kept = np.array(data.draw(flags)).reshape(mixing.shape)
    bound = block_inf_rms(values) / (1 - rate)
    with np.errstate(under="ignore"):
        mixed = (mixing * kept / (1 - rate)) @ values
    assert block_inf_rms(mixed) <= bound + mixing_slack(len(values), bound)


def test_dropout_at_one_tenth_attains_ten_ninths() -> None:
    mixing = np.full((2, 4), 0.25) / (1 - 0.1)
    assert math.isclose(block_inf_rms(mixing @ np.ones((4, 3))), 10 / 9, rel_tol=4 * EPS)


@given(mixtures(largest=1e100))
def test_frobenius_chain(pair: tuple[np.ndarray, np.ndarray]) -> None:
    mixing, values = pair
    with np.errstate(under="ignore"):
        mixed = frobenius(mixing @ values)
    first = frobenius(mixing) * frobenius(values)
    second = math.sqrt(len(mixing)) * frobenius(values)
    assert mixed <= first + mixing_slack(values.size, first)
    assert first <= second + mixing_slack(values.size, second)


@given(mixtures())
def test_spectral_norm_is_at_most_the_root_of_the_largest_column_sum(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    mixing, _ = pair
    bound = math.sqrt(float(np.max(np.sum(mixing, axis=0))))
    # Singular values of a 5×5 matrix are right to a few EPS times 5.
    assert spectral_norm(mixing) <= bound * (1 + 32 * EPS)


@given(st.data(), sizes)
def test_the_two_operator_norms_differ_by_at_most_the_root_of_the_length(
    data: st.DataObject, length: int
) -> None:
    matrix = data.draw(strategies.matrices(length, length))
    block, spectral = induced_norm(matrix, math.inf), spectral_norm(matrix)
    assume(math.isfinite(block) and math.isfinite(spectral))
    root = math.sqrt(length)
    # The singular values are right to a few EPS times 5 of the largest.
    assert block / root <= spectral * (1 + 32 * EPS) + TINY
    assert spectral / root <= block * (1 + 32 * EPS) + TINY


@given(st.data(), sizes, sizes, st.integers(-40, 40))
def test_norm_axioms(data: st.DataObject, length: int, width: int, power: int) -> None:
    first = np.array(data.draw(strategies.matrices(length, width, largest=1e280)))
    second = np.array(data.draw(strategies.matrices(length, width, largest=1e280)))
    for norm in (block_inf_rms, row_norm_inf_2):
        # Near 0 a norm is rounded to a multiple of TINY (a mean may vanish, a largest row not).
        bound = norm(first) + norm(second)
        assert norm(first + second) <= bound * (1 + 16 * EPS) + 2 * TINY
        assert norm is block_inf_rms or (norm(first) == 0.0) == (not first.any())
        with np.errstate(under="ignore"):
            scaled = np.ldexp(first, power)
        if np.array_equal(np.ldexp(scaled, -power), first):
            expected = math.ldexp(norm(first), power)
            rounding = 2 * TINY * max(1.0, 2.0**power)
            assert math.isclose(norm(scaled), expected, rel_tol=8 * EPS, abs_tol=rounding)


@given(st.data(), st.integers(2, 4), sizes, st.sampled_from([1e-12, 1e-5, 1.0]))
def test_layer_norm_treats_each_token_alone(
    data: st.DataObject, length: int, width: int, eps: float
) -> None:
    tokens = np.array(data.draw(strategies.matrices(length, width)))
    gamma, beta = np.array(data.draw(strategies.matrices(2, width, largest=1e6)))
    watched = data.draw(st.integers(0, length - 1))
    others = np.array(data.draw(strategies.matrices(length, width)))
    others[watched] = tokens[watched]
    before = layer_norm(tokens, gamma, beta, eps)
    after = layer_norm(others, gamma, beta, eps)
    np.testing.assert_array_equal(after[watched], before[watched])


def exact_signal(x: np.ndarray, eps: float) -> float:
    """√(1 − ρ) from rationals, to a relative error of a few EPS."""
    entries = [Fraction(float(v)) for v in x]
    mean = sum(entries) / len(entries)
    variance = sum((v - mean) ** 2 for v in entries) / len(entries)
    share = variance / (variance + Fraction(eps))
    # An even power of two first, because a tiny share would underflow before its root is taken.
    half = (share.denominator.bit_length() - share.numerator.bit_length()) // 2
    return math.ldexp(math.sqrt(share * 4**half), -half)


@given(st.data(), sizes, st.sampled_from([0.0, 1e-12, 1e-5, 1.0, 1e6]))
def test_layer_norm_resets_the_magnitude(data: st.DataObject, width: int, eps: float) -> None:
    x = np.array(data.draw(strategies.matrices(1, width, largest=1e100)))[0]
    gamma, beta = np.array(data.draw(strategies.matrices(2, width, largest=1e6)))
    assume(eps > 0.0 or len(set(x)) > 1)
    output = rms(layer_norm(x, gamma, beta, eps))
    largest = float(np.max(np.abs(gamma)))
    # Entries of x̂ are right to a few EPS times √5; TINY once for each underflowing product.
    slack = 64 * EPS * (largest + rms(beta)) + 2 * TINY
    sharper = exact_signal(x, eps) * largest + rms(beta)
    assert output <= sharper + slack
    assert sharper <= (largest + float(np.max(np.abs(beta)))) * (1 + 8 * EPS) + 2 * TINY


@given(st.data(), st.integers(2, 5), st.sampled_from([1e-12, 1e-5, 1.0]), st.floats(0, 8))
def test_every_token_attains_the_sharper_bound(
    data: st.DataObject, width: int, eps: float, pull: float
) -> None:
    x = np.array(data.draw(strategies.matrices(1, width, largest=1e100)))[0]
    ones = np.ones(width)
    beta = pull * layer_norm(x, ones, 0 * ones, eps)
    output = rms(layer_norm(x, 2 * ones, beta, eps))
    sharper = exact_signal(x, eps) * 2 + rms(beta)
    # Relative to a tiny x̂ both sides still have an error of a few EPS times √5; 1000 is ample.
    assert math.isclose(output, sharper, rel_tol=1e3 * EPS, abs_tol=4 * TINY)


def test_uniform_causal_attention_stays_below_two() -> None:
    lengths = (1, 2, 3, 5, 8, 16, 32, 64)
    norms = [spectral_norm(np.tri(n) / np.arange(1, n + 1)[:, np.newaxis]) for n in lengths]
    assert norms[0] == 1.0
    assert all(a < b for a, b in itertools.pairwise(norms))
    assert norms[-1] < 2.0
