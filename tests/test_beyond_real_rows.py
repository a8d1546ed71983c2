"""What the claims on the committed rows rest on, floats beside them, and the table of figures."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paper_checks import real_rows_table
from theory.claims import _partitions as bisect
from theory.claims.beyond_real_rows import (
    exact_rows,
    greatest_mass_up_to_half,
    theta_bounds,
)
from theory.norms import inf_to_one_norm
from theory.real_rows import load_attention_rows
from theory.softmax import jacobian_from_probabilities
from theory.theta import theta, theta_rows

# Renormalising in float64 moves p by up to (L + 1)/2 eps, relatively, hence J by L + 1; the norm's
# sums over the keys add about L more. The norm is at most 1.
NORM_ERROR_PER_KEY = 3 * np.finfo(np.float64).eps


def test_integers_are_the_stored_floats() -> None:
    for row in exact_rows():
        stored = row.row.probabilities.tolist()
        assert [Fraction(w, row.scale) for w in row.weights] == list(map(Fraction, stored))


@given(st.lists(st.integers(0, 40) | st.integers(0, 2**70), min_size=1, max_size=9))
def test_branch_and_bound_equals_enumeration(weights: list[int]) -> None:
    masses = (
        sum(itertools.compress(weights, taken))
        for taken in itertools.product((0, 1), repeat=len(weights))
    )
    half = Fraction(sum(weights), 2)
    assert greatest_mass_up_to_half(weights) == max(mass for mass in masses if mass <= half)


@pytest.mark.parametrize(
    ("weights", "certificate"),
    [
        ((1, 2, 3, 4), Fraction(24, 25)),
        ((1, 2, 1, 2), Fraction(8, 9)),
        ((9, 1), Fraction(9, 25)),
        ((5,), Fraction(0)),
    ],
)
def test_greedy_certificate_of_the_paper(weights: tuple[int, ...], certificate: Fraction) -> None:
    assert bisect.certificate(weights) == certificate


def test_certificate_over_another_total() -> None:
    # Prefixes 2, 3 of (1, 2) over a total of 4: the first is one half of it.
    assert bisect.certificate((1, 2), 4) == 1


def test_padded_batch_gives_each_row_its_theta() -> None:
    rows = load_attention_rows(max_support=40)
    supports = np.array([row.support for row in rows])
    padded = np.zeros((len(rows), supports.max()), dtype=np.float32)
    for index, row in enumerate(rows):
        padded[index, : row.support] = row.probabilities
    batch = theta_rows(padded, support=supports)
    assert batch.tolist() == [theta(row.probabilities) for row in rows]


def test_float_norm_of_short_rows_is_theta() -> None:
    for row in exact_rows(max_keys=12):
        stored = row.row.probabilities.astype(np.float64)
        norm = inf_to_one_norm(jacobian_from_probabilities(stored / stored.sum()))
        lower, upper = map(float, theta_bounds(row))
        slack = row.row.support * NORM_ERROR_PER_KEY
        assert lower - slack <= norm <= upper + slack, row.label


def test_table_counts_what_the_floats_say(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert real_rows_table.main([]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "p_max > 2/3" in line]
    for line, least in zip(lines, (1, real_rows_table.LONG), strict=True):
        for model, cell in zip(
            ("SmolLM2-135M-Instruct", "all-MiniLM-L6-v2"), line.split("│")[2:4], strict=True
        ):
            rows = load_attention_rows(min_support=least, model=model)
            heavy = sum(row.probabilities.max() > 2 / 3 * row.probabilities.sum() for row in rows)
            assert cell.split()[0] == str(heavy)
