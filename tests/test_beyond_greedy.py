"""The greedy theorem through the public float functions, and the helpers of its exact checks."""

import math
from fractions import Fraction

import numpy as np
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.claims import _partitions as bisect
from theory.claims._instances import normalised, theta_by_definition
from theory.theta import greedy_certificate, solve_theta, theta
from verify.exact import as_fraction

NINTH = Fraction(1, 9)


def slack(length: int) -> Fraction:
    """Relative error of a float certificate: two sums of L terms and a few products."""
    return (2 * length + 8) * Fraction(1, 2**53)


def exact_share(row: list[float]) -> Fraction:
    """p_max of the row, exactly."""
    return as_fraction(max(row)) / sum(map(as_fraction, row))


def greedy(row: list[float]) -> Fraction:
    return as_fraction(float(greedy_certificate(row, check_sum=False)))


def crossing_rows() -> st.SearchStrategy[list[float]]:
    """Rows whose largest atoms are (nearly) equal, so that prefixes straddle one half."""
    nudge = st.sampled_from([0.0, 2.0**-53, -(2.0**-53), 1e-9, -1e-3])
    tops = st.integers(1, 7).flatmap(lambda k: st.lists(nudge, min_size=k, max_size=k))
    rest = st.lists(st.sampled_from([0.5, 0.25, 1.0, 1e-300, 0.0]), max_size=6)
    return st.builds(lambda t, r: [*(1.0 + a for a in t), *r], tops, rest)


@given(st.one_of(strategies.rows(max_size=14), crossing_rows()))
def test_certificate_is_no_larger_than_theta(row: list[float]) -> None:
    solution = solve_theta(row)
    assert greedy(row) <= solution.upper * (1 + slack(len(row)))


@given(st.one_of(strategies.rows(max_size=14), crossing_rows()))
def test_gap_is_at_most_one_ninth(row: list[float]) -> None:
    assert solve_theta(row).upper - greedy(row) <= NINTH + slack(len(row))


@given(st.one_of(strategies.rows(max_size=14), crossing_rows()))
def test_certificate_below_eight_ninths_is_theta(row: list[float]) -> None:
    certificate, error = greedy(row), slack(len(row))
    if certificate < Fraction(8, 9) * (1 - error):
        solution = solve_theta(row)
        # Entries below 2⁻¹⁰⁰⁰ of the largest may count as zero.
        lost = Fraction(4 * len(row), 2**1000)
        assert abs(certificate - solution.lower) <= error * solution.lower + lost
        assert solution.lower == solution.upper


@given(st.one_of(strategies.rows(max_size=14), crossing_rows()))
def test_theta_below_eight_ninths_iff_top_above_two_thirds(row: list[float]) -> None:
    solution = solve_theta(row)
    assert (solution.upper < Fraction(8, 9)) == (exact_share(row) > Fraction(2, 3))


@given(st.integers(-(2**20), 2**20), st.integers(1, 5))
def test_threshold_next_to_two_thirds(step: int, others: int) -> None:
    # Integer rows with p_max = 2/3 + step·2⁻⁶⁰ and the rest in equal parts.
    unit = 2**60
    weights = [others * (2 * unit + 3 * step), *([unit - 3 * step] * others)]
    solution = solve_theta(weights)
    assert (solution.upper < Fraction(8, 9)) == (step > 0)


@given(st.one_of(strategies.rows(max_size=14), crossing_rows()))
def test_lower_bound_from_the_largest_atom(row: list[float]) -> None:
    r = math.ceil(1 / (2 * exact_share(row)))
    assert solve_theta(row).lower >= 1 - Fraction(1, (2 * r - 1) ** 2)


def test_figures_of_the_theorem() -> None:
    assert theta([1 / 3, 1 / 3, 1 / 6, 1 / 6], check_sum=False) > 1 - 1e-15
    worst = greedy_certificate(np.array([2.0, 2.0, 1.0, 1.0]), check_sum=False)
    assert abs(float(worst) - 8 / 9) < 1e-15


@settings(max_examples=100)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any))
def test_integer_helpers_agree_with_the_definition(weights: list[int]) -> None:
    p = normalised(weights)
    assert bisect.theta(weights) == theta_by_definition(p)
    prefixes = [sum(sorted(p, reverse=True)[:k]) for k in range(1, len(p) + 1)]
    assert bisect.certificate(weights) == max(4 * c * (1 - c) for c in prefixes)
    assert prefixes[bisect.crossing(weights) - 1] >= Fraction(1, 2)
    assert bisect.crossing(weights) == 1 or prefixes[bisect.crossing(weights) - 2] < Fraction(1, 2)


def test_numbers_of_partitions() -> None:
    assert [sum(1 for _ in bisect.partitions(n)) for n in range(9)] == [
        1,
        1,
        2,
        3,
        5,
        7,
        11,
        15,
        22,
    ]
    assert all(sum(parts) == 12 for parts in bisect.partitions(12))
    assert len(set(bisect.partitions(12))) == 77


@given(strategies.rows(max_size=8))
def test_float_weights_are_exactly_proportional(row: list[float]) -> None:
    weights = bisect.float_weights(row)
    scale = as_fraction(max(row)) / max(weights)
    assert [weight * scale for weight in weights] == [as_fraction(value) for value in row]
