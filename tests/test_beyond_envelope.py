"""The least θ for a given largest atom: hunts below the envelope, and the certified search."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.claims import _envelope_search as search
from theory.claims import _partitions as bisect
from theory.claims.beyond_envelope import FURTHER_PIECES, HIGH_PIECES, LOW_PIECES, Piece
from theory.theta import solve_theta
from verify.evidence import Verdict, judge

PIECES = HIGH_PIECES + LOW_PIECES + FURTHER_PIECES


def largest_distance(m: Fraction) -> Fraction:
    """Δ(m) of the docstring of ``beyond_envelope``."""
    return next(piece.distance(m) for piece in PIECES if piece.low <= m <= piece.high)


def test_pieces_join() -> None:
    assert PIECES[0].high == 1
    for upper, lower in itertools.pairwise(PIECES):
        assert upper.low == lower.high
        assert upper.distance(upper.low) == lower.distance(lower.high)


@st.composite
def near_extremal(draw: st.DrawFn) -> list[int]:
    """Integer rows next to an extremal row: atoms moved by small amounts, one of them split."""
    piece: Piece = draw(st.sampled_from(PIECES))
    step = draw(st.integers(0, 24))
    m = piece.low + (piece.high - piece.low) * Fraction(step, 24)
    scale = 10**6
    weights = [int(atom * scale) for atom in piece.row(m)]
    moves = draw(st.lists(st.integers(-40, 40), min_size=len(weights), max_size=len(weights)))
    weights = [max(weight + move, 0) for weight, move in zip(weights, moves, strict=True)]
    share = draw(st.integers(0, 10))
    part = weights[-1] * share // 10
    return [*weights[:-1], weights[-1] - part, part]


@given(st.one_of(near_extremal(), st.lists(st.integers(0, 60), min_size=2, max_size=12)))
def test_no_row_lies_below_the_envelope(weights: list[int]) -> None:
    if not any(weights) or 9 * max(weights) < sum(weights):
        return
    solution = solve_theta(weights)
    distance = largest_distance(Fraction(max(weights), sum(weights)))
    assert solution.upper >= 1 - distance**2


@given(st.lists(st.integers(1, 60), min_size=3, max_size=10), st.data())
def test_merging_does_not_raise_theta(weights: list[int], data: st.DataObject) -> None:
    i, j = data.draw(
        st.lists(st.integers(0, len(weights) - 1), min_size=2, max_size=2, unique=True)
    )
    if weights[i] + weights[j] > max(weights):
        return
    merged = [w for k, w in enumerate(weights) if k not in (i, j)] + [weights[i] + weights[j]]
    assert max(merged) == max(weights)
    assert bisect.theta(merged) <= bisect.theta(weights)


@pytest.mark.parametrize("piece", PIECES[:-1])
def test_a_bound_a_little_too_small_meets_a_row(piece: Piece) -> None:
    atoms = search.largest_support(piece.low)
    intercept = piece.intercept - Fraction(1, 1000)
    cases = search.bound_cases(atoms, piece.low, piece.high, piece.slope, intercept)
    evidence = judge(cases, scope="planted")
    assert evidence.verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("low", "expected"),
    [("1/2", 2), ("1/3", 4), ("2/7", 5), ("7/27", 6), ("1/5", 8), ("1/7", 12)],
)
def test_largest_support(low: str, expected: int) -> None:
    value = search.largest_support(Fraction(low))
    assert value == expected
    assert value == 2 or (value + 1) * Fraction(low) < 2 <= (value + 2) * Fraction(low)


def test_multipliers_that_prove_nothing_are_refused() -> None:
    constraints = (search.Constraint((0, 0, 1), Fraction(1)),)
    for multipliers in ([-1.0], [0.5]):
        with pytest.raises(RuntimeError, match="do not round to a proof"):
            search._proved_bound(2, constraints, Fraction(0), np.array(multipliers), 0.0)
    assert search._proved_bound(2, constraints, Fraction(0), np.array([1.0]), 0.0) == 1
