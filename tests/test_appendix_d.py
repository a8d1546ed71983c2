"""What the claims of Section 5 and Appendix D are computed with, against independent routes."""

import math
from fractions import Fraction

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from theory.claims import _figures as figures
from theory.claims import _partitions as bisect
from theory.claims import appendix_d, appendix_d_greedy, appendix_d_identity, example_alternating
from theory.softmax import jacobian_inf_to_one, softmax
from theory.theta import greedy_certificate, theta
from verify.evidence import Verdict, judge

# ------------------------------------------------------------------------------------ figures


@pytest.mark.parametrize(
    ("value", "figure", "prints"),
    [
        ("4.50867", "4.509", True),
        ("4.5095", "4.509", True),
        ("4.50951", "4.509", False),
        ("773.61536", "774", True),
        ("772.3", "774", False),
        ("0.999955", "0.99999", False),
    ],
)
def test_printed(value: str, figure: str, prints: bool) -> None:
    evidence = judge([figures.printed(Fraction(value), figure)], scope="one figure")
    assert (evidence.verdict is Verdict.HOLDS) == prints


def test_ends_of_what_rounds_to_a_figure() -> None:
    assert figures.rounds_from("4.509") == (Fraction("4.5085"), Fraction("4.5095"))
    assert figures.rounds_from("774") == (Fraction("773.5"), Fraction("774.5"))


@given(st.lists(st.integers(-50, 50).map(Fraction), min_size=2, max_size=9))
def test_moments_and_median_agree_with_numpy(values: list[Fraction]) -> None:
    floats = np.array([float(v) for v in values])
    exact = tuple(values)
    assert float(figures.mean(exact)) == pytest.approx(floats.mean(), abs=1e-12)
    assert float(figures.variance(exact)) == pytest.approx(floats.var(ddof=1), abs=1e-10)
    assert float(figures.variance(exact, 0)) == pytest.approx(floats.var(), abs=1e-10)
    assert float(figures.median(exact)) == np.median(floats)


@settings(max_examples=50)
@given(st.integers(1, 60), st.integers(0, 40), st.integers(0, 61))
def test_binomial_tail_agrees_with_scipy(trials: int, percent: int, least: int) -> None:
    share = Fraction(percent, 40)
    expected = binom.sf(least - 1, trials, float(share))
    assert float(figures.binomial_tail(trials, share, least)) == pytest.approx(expected, abs=1e-12)


def test_parameter_count_of_gpt2() -> None:
    # GPT-2 small has biases, which the paper's models have not: 124,439,808 with them.
    small = appendix_d.parameters(width=768, layers=12, hidden=3072)
    biases = 12 * (4 * 768 + 3072 + 768)
    assert small + biases == 124_439_808


# --------------------------------------------------------------------------------- identity


@given(st.lists(st.floats(-60, 60), min_size=2, max_size=9))
def test_both_sides_of_the_identity(u: list[float]) -> None:
    p = softmax(u)
    norm, value = appendix_d_identity._both_sides(p, complement=True)
    assert norm == pytest.approx(jacobian_inf_to_one(u), rel=1e-13, abs=1e-300)
    assert value == pytest.approx(theta(p), rel=1e-13, abs=1e-300)


# ----------------------------------------------------------------------------------- greedy


@settings(max_examples=60)
@given(strategies.rows(min_size=2, max_size=9))
def test_greedy_gaps_agree_with_the_solver(row: list[float]) -> None:
    descending = np.sort(np.array([row]), axis=1)[:, ::-1]
    matches, gaps = appendix_d_greedy.greedy_gaps(descending)
    gap = theta(row, check_sum=False) - float(greedy_certificate(row, check_sum=False))
    assert gaps[0] == pytest.approx(gap, abs=1e-14)
    if gap > 1e-13:
        assert not matches[0]


@given(st.lists(st.integers(1, 12), min_size=2, max_size=8))
def test_matches_are_decided_exactly(weights: list[int]) -> None:
    # Sixteenths and the like are exact floats, so that ties stay ties.
    size = 2 ** math.ceil(math.log2(sum(weights)))
    padded = sorted([*weights, size - sum(weights)], reverse=True)
    row = np.array([[w / size for w in padded]])
    matches, _ = appendix_d_greedy.greedy_gaps(row)
    assert bool(matches[0]) == (bisect.theta(padded) == bisect.certificate(padded))


# ------------------------------------------------------------------------- alternating chain


@given(st.floats(-1.4, 1.4), st.integers(0, 7), st.integers(0, 30))
def test_alternating_chain_in_floats(a: float, start: int, pairs: int) -> None:
    product = math.prod(1 + (-1) ** k * a for k in range(start, start + 2 * pairs))
    # 2·pairs factors, each with one rounding, and as many products.
    assert product == pytest.approx((1 - a * a) ** pairs, rel=1e-12, abs=1e-12)
    exact = example_alternating.derivative(Fraction(a), start, start + 2 * pairs)
    assert float(exact) == pytest.approx(product, rel=1e-12, abs=1e-300)
