"""Semidefinite relaxations against brute force: every bound true, every dual point rechecked."""

import csv
import itertools
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st

from paper_checks import maxcut_figure
from theory import maxcut
from theory.maxcut import (
    Status,
    inf_to_one_relaxation,
    is_dual_certificate,
    relaxation_is_tight,
    row_relaxation,
    sign_form_relaxation,
)
from theory.theta import greedy_certificate, solve_theta
from verify.exact import is_positive_semidefinite

Rational = list[list[Fraction]]


def form(matrix: Sequence[Sequence[Fraction | int]], x: Sequence[int]) -> Fraction:
    pairs = [(i, j) for i in range(len(x)) for j in range(len(x))]
    return Fraction(sum(matrix[i][j] * x[i] * x[j] for i, j in pairs))


def largest_form(matrix: Sequence[Sequence[Fraction | int]]) -> Fraction:
    return max(form(matrix, x) for x in itertools.product((-1, 1), repeat=len(matrix)))


def laplacian(weights: Sequence[int]) -> Rational:
    p = [Fraction(w, sum(weights)) for w in weights]
    return [[(a if i == j else 0) - a * b for j, b in enumerate(p)] for i, a in enumerate(p)]


# ---------------------------------------------------------------------------- one row


@given(strategies.rows(max_size=12))
def test_row_relaxation_lies_between_theta_and_nine_eighths_of_it(row: list[float]) -> None:
    relaxed, solved = row_relaxation(row), solve_theta(row)
    assert relaxed.lower <= solved.upper
    assert solved.lower <= relaxed.value <= Fraction(9, 8) * solved.upper
    assert relaxed.value <= Fraction(9, 8) * relaxed.lower


@given(strategies.rows(max_size=12))
def test_signs_attain_the_lower_bound(row: list[float]) -> None:
    relaxed = row_relaxation(row)
    total = sum(map(Fraction, row))
    side = sum(Fraction(w) for w, s in zip(row, relaxed.signs, strict=True) if s > 0) / total
    assert relaxed.lower == 4 * side * (1 - side)


@given(strategies.weights(max_size=12))
def test_rounding_is_no_worse_than_the_greedy_certificate(row: list[float]) -> None:
    # The certificate is right to a few rounding errors of a sum of 12.
    assert float(row_relaxation(row).lower) >= greedy_certificate(row, check_sum=False) - 1e-14


@given(strategies.weights(max_size=9))
def test_plane_vectors_and_dual_point_prove_the_value(row: list[float]) -> None:
    relaxed = row_relaxation(row)
    total = sum(map(Fraction, row))
    masses = [Fraction(0)] * len(relaxed.cosines)
    for weight, k in zip(row, relaxed.group, strict=True):
        masses[k] += Fraction(weight) / total
    assert is_positive_semidefinite(relaxed.cosines)
    assert all(cosines[k] == 1 for k, cosines in enumerate(relaxed.cosines))
    resultant = sum(
        a * b * relaxed.cosines[k][l] for k, a in enumerate(masses) for l, b in enumerate(masses)
    )
    assert 1 - resultant == relaxed.value == sum(relaxed.dual)
    p = [Fraction(w) / total for w in row]
    slack = [
        [(y - a if i == j else 0) + a * b for j, b in enumerate(p)]
        for i, (y, a) in enumerate(zip(relaxed.dual, p, strict=True))
    ]
    assert is_positive_semidefinite(slack)


@pytest.mark.parametrize(
    ("row", "tight"),
    [
        ([1], True),
        ([3, 1], True),
        ([1, 1, 1], False),
        ([2, 1, 1], True),
        ([1, 2, 3, 4], True),
        ([2, 2, 2, 1], False),
        ([0.1, 0.2, 0.3, 0.4], False),  # as the dyadic rationals that these floats are
    ],
)
def test_tightness_is_decided_exactly(row: list[float], tight: bool) -> None:
    assert relaxation_is_tight(row) is tight


def test_tightness_stays_open_where_theta_only_rounds_to_one() -> None:
    # Long integers with an even sum: parity does not exclude a perfect bisection.
    row = np.random.default_rng(5).integers(2**48, 2**50, 200).tolist()
    row[0] += sum(row) % 2
    assert relaxation_is_tight(row) is None


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        ([], ValueError, "empty"),
        ([0.5, -0.5], ValueError, r"weights\[1\] is -0.5: negative"),
        ([0.0, 0.0], ValueError, "total weight 0"),
        ([0.5, float("nan")], ValueError, "not finite"),
        (["a"], TypeError, "no real number"),
    ],
)
def test_bad_rows_are_named(row: list[float], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        row_relaxation(row)


def test_results_are_read_only() -> None:
    relaxed = row_relaxation([1, 2, 3])
    assert not relaxed.group.flags.writeable
    assert not relaxed.signs.flags.writeable


# ------------------------------------------------------------------------- any matrix

integer_matrices = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.lists(st.integers(-9, 9), min_size=n, max_size=n), min_size=n, max_size=n)
)


@settings(max_examples=60)
@given(integer_matrices)
def test_bounds_enclose_the_maximum_over_signs(entries: list[list[int]]) -> None:
    pytest.importorskip("cvxpy")
    size = len(entries)
    matrix = [[entries[i][j] + entries[j][i] for j in range(size)] for i in range(size)]
    found = sign_form_relaxation(matrix)
    assert found.lower == form(matrix, found.signs.tolist())
    assert found.lower <= largest_form(matrix) <= found.upper == sum(found.dual)
    assert found.status is Status.SOLVED
    assert is_dual_certificate(matrix, found.dual)
    assert np.allclose(np.linalg.norm(found.vectors, axis=1), 1.0, rtol=0, atol=1e-14)


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_bounds_enclose_the_inf_to_one_norm(rows: int, columns: int, data: st.DataObject) -> None:
    pytest.importorskip("cvxpy")
    matrix = data.draw(strategies.matrices(rows, columns, largest=9.0))
    exact = [[Fraction(entry) for entry in row] for row in matrix]
    norm = max(
        sum(abs(sum(a * s for a, s in zip(row, x, strict=True))) for row in exact)
        for x in itertools.product((-1, 1), repeat=columns)
    )
    found = inf_to_one_relaxation(matrix)
    largest = max(abs(entry) for row in exact for entry in row)
    assert found.lower <= norm <= found.upper
    # Krivine's bound of Grothendieck's constant, and what the solver leaves open.
    assert found.upper <= Fraction(17823, 10000) * norm + largest / 10**4
    assert len(found.signs) == rows + columns


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1.0, 1e300])
def test_scale_does_not_matter(scale: float) -> None:
    pytest.importorskip("cvxpy")
    matrix = scale * np.array([[2.0, -1.0, -1.0], [-1.0, 2.0, -1.0], [-1.0, -1.0, 2.0]])
    found = sign_form_relaxation(matrix)
    assert found.lower == 8 * Fraction(scale)
    assert 9 * Fraction(scale) <= found.upper <= Fraction(9001, 1000) * Fraction(scale)
    assert is_dual_certificate(matrix, found.dual)


def test_zero_matrix() -> None:
    pytest.importorskip("cvxpy")
    found = sign_form_relaxation(np.zeros((3, 3)))
    assert found.lower == found.upper == 0
    assert found.status is Status.SOLVED


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
def test_long_row_is_rechecked_in_balls(solver: str) -> None:
    pytest.importorskip("cvxpy")
    size = 2 * maxcut.LDL_SIZE
    matrix = laplacian(list(range(1, size + 1)))
    found = sign_form_relaxation(np.array(matrix, dtype=object), solver=solver)
    assert 1 <= found.upper <= 1 + Fraction(1, 10**3)
    assert is_dual_certificate(np.array(matrix, dtype=object), found.dual)


@pytest.mark.parametrize("size", [3, 2 * maxcut.LDL_SIZE])
def test_a_dual_point_that_is_too_small_is_refused(size: int) -> None:
    matrix = np.array(laplacian([1] * size), dtype=object)
    dual = row_relaxation([1] * size).dual
    assert is_dual_certificate(matrix, [y * Fraction(101, 100) for y in dual])
    assert not is_dual_certificate(matrix, [y * Fraction(99, 100) for y in dual])


def test_a_solver_that_fails_leaves_true_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    cvxpy = pytest.importorskip("cvxpy")

    def fail(*_: object, **__: object) -> None:
        raise cvxpy.SolverError("no")

    monkeypatch.setattr(cvxpy.Problem, "solve", fail)
    matrix = laplacian([3, 2, 2])
    found = sign_form_relaxation(np.array(matrix, dtype=object))
    assert found.status is Status.OPEN
    assert found.lower <= largest_form(matrix) <= found.upper
    assert is_dual_certificate(np.array(matrix, dtype=object), found.dual)


def test_missing_cvxpy_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ImportError, match=r"attention-sensitivity\[sdp\]"):
        sign_form_relaxation([[1.0]])


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 2.0]], "not square"),
        ([[1.0, 2.0], [3.0, 1.0]], r"not symmetric at \[1, 0\]"),
        ([[float("inf")]], r"matrix\[0, 0\] is inf"),
        ([], "2 axes are needed"),
    ],
)
def test_bad_matrices_are_named(matrix: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sign_form_relaxation(matrix)


def test_other_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="rounds is 0"):
        sign_form_relaxation([[1.0]], rounds=0)
    with pytest.raises(ValueError, match="2 dual values but a matrix of size 1"):
        is_dual_certificate([[1.0]], [1, 2])


def test_the_same_seed_gives_the_same_signs() -> None:
    pytest.importorskip("cvxpy")
    rng = np.random.default_rng(8)
    matrix = rng.integers(-9, 9, (20, 20))
    matrix = matrix + matrix.T
    first = sign_form_relaxation(matrix, rounds=3, seed=4)
    again = sign_form_relaxation(matrix, rounds=3, seed=4)
    assert first.signs.tolist() == again.signs.tolist()
    assert first.lower == again.lower


# ------------------------------------------------------------------------- the figure


def test_figure_and_table_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert maxcut_figure.main(["--out", str(tmp_path), "--rows", "3"]) == 0
    assert (tmp_path / "maxcut.png").stat().st_size > 10_000
    with (tmp_path / "maxcut.csv").open(encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    softmax = [line for line in lines if line["source"] == "softmax"]
    assert len(softmax) == len(maxcut_figure.LENGTHS) * len(maxcut_figure.DEVIATIONS)
    assert len(lines) > len(softmax)
    for line in lines:
        assert float(line["tight"]) >= float(line["dominated"])
        assert float(line["least_rounding"]) >= 8 / 9
        assert float(line["largest_gap"] or 0) <= 1 / 9


def test_summary_of_known_rows() -> None:
    found = maxcut_figure.summarise([[3, 1], [1, 1, 1], [2, 2, 1, 1]], "softmax", 1.0, 3)
    assert (found.dominated, found.tight, found.nearly_tight) == (1 / 3, 2 / 3, 2 / 3)
    assert found.largest_gap == 1 / 9
    # The best line splits (2, 2, 1, 1) into 2 and 4, where 3 and 3 is possible.
    assert found.least_rounding == 8 / 9


def test_figure_names_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, message in (
        (["--out", str(tmp_path / "absent")], "no folder that can be written to"),
        (["--out", str(tmp_path), "--rows", "0"], "at least one row"),
    ):
        with pytest.raises(SystemExit):
            maxcut_figure.main(arguments)
        assert message in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert maxcut_figure.main(["--out", str(tmp_path)]) == 2
    assert "attention-sensitivity[report]" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
