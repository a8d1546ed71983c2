"""theory.theta.theta_gradient and theta_rows_torch against differences of the exact θ."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from itertools import product

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from theta_reference import exact, reference_theta

from theory.theta import (
    OpenRowError,
    Status,
    theta_gradient,
    theta_rows,
    theta_rows_from_logits,
    theta_rows_torch,
)

STEP = Fraction(1, 2**30)


def discrepancies(weights: list[Fraction]) -> list[Fraction]:
    """|2 w(S) − W| of every split, ascending; S and its complement count once."""
    head, *tail = weights
    signed = (
        head + sum((w if plus else -w for w, plus in zip(tail, signs, strict=True)), Fraction(0))
        for signs in product((True, False), repeat=len(tail))
    )
    return sorted(abs(difference) for difference in signed)


def is_smooth(weights: list[Fraction]) -> bool:
    """δ > 1e-3, and no step of the differences below changes which split is optimal."""
    total = sum(weights)
    ordered = discrepancies(weights)
    clear = len(ordered) == 1 or ordered[1] - ordered[0] > 4 * STEP * total
    return ordered[0] > total / 1000 and clear


def difference(weights: list[Fraction], direction: list[Fraction], step: Fraction) -> Fraction:
    """Central difference quotient of the exact θ."""
    up, down = (
        reference_theta([w + sign * step * d for w, d in zip(weights, direction, strict=True)])
        for sign in (1, -1)
    )
    return (up - down) / (2 * step)


def unit(length: int, place: int) -> list[Fraction]:
    return [Fraction(k == place) for k in range(length)]


def two_valued(row: np.ndarray, subset: np.ndarray) -> list[Fraction]:
    """The formula of the envelope theorem in Fractions, for weights that are all positive."""
    weights = exact(row)
    total = sum(weights)
    signs = [1 if taken else -1 for taken in subset]
    delta = sum(x * w for x, w in zip(signs, weights, strict=True)) / total
    return [2 * delta * (delta - x) / total for x in signs]


rows_of_weights = st.integers(2, 7).flatmap(
    lambda n: st.lists(st.floats(1e-2, 8.0), min_size=n, max_size=n)
)


class TestAgainstDifferences:
    @given(rows_of_weights)
    @settings(max_examples=60)
    def test_weights_of_any_total(self, row):
        weights = exact(row)
        assume(is_smooth(weights))
        step = STEP * sum(weights)
        gradient = theta_gradient([row], check_sum=False)[0]
        for place in range(len(row)):
            slope = difference(weights, unit(len(row), place), step)
            # The second derivative is of the size of 1/W², and its third of 1/W³.
            assert gradient[place] == pytest.approx(float(slope), rel=1e-9, abs=1e-9)
        # Free of scale, and so orthogonal to the row.
        assert abs(float(np.dot(gradient, row))) < 1e-12

    @given(rows_of_weights)
    @settings(max_examples=40)
    def test_directions_within_the_simplex(self, row):
        total = sum(exact(row))
        p = [w / total for w in exact(row)]
        assume(is_smooth(p))
        gradient = theta_gradient([p])[0]
        for place in range(1, len(p)):
            direction = [a - b for a, b in zip(unit(len(p), place), unit(len(p), 0), strict=True)]
            slope = float(difference(p, direction, STEP * min(p)))
            assert gradient[place] - gradient[0] == pytest.approx(slope, rel=1e-7, abs=1e-9)

    def test_the_two_extensions_agree_within_the_simplex(self):
        row = np.array([0.46, 0.23, 0.17, 0.14])
        theta, subset = theta_rows([row], return_subset=True)
        mass = row[subset[0]].sum()
        held_fixed = np.where(subset[0], 4 * (1 - 2 * mass), 0.0)
        shift = theta_gradient([row])[0] - held_fixed
        assert theta[0] == pytest.approx(4 * mass * (1 - mass), rel=1e-15)
        assert np.ptp(shift) < 1e-15

    def test_a_wrong_gradient_is_found(self):
        # The same comparison fails for the derivative that forgets that W moves with w.
        row = [3.0, 2.0, 2.0]
        slope = float(difference(exact(row), unit(3, 0), STEP))
        right = theta_gradient([row], check_sum=False)[0, 0]
        delta, sign = 1 / 7, -1
        wrong = -2 * (-delta) * sign / 7
        assert right == pytest.approx(slope, rel=1e-9)
        assert abs(wrong - slope) > 1e-3

    def test_long_rows(self):
        # Nearly equal weights in odd number: the closed form has one optimum, with δ = 1/65.
        row = 1 + 1e-6 * np.random.default_rng(1).random(65)
        _, subset = theta_rows([row], check_sum=False, return_subset=True)
        gradient = theta_gradient([row], check_sum=False)[0]
        expected = [float(value) for value in two_valued(row, subset[0])]
        assert gradient == pytest.approx(expected, rel=2.0**-49)


class TestElsewhere:
    def test_a_perfect_split_has_gradient_zero(self):
        assert not theta_gradient([[0.5, 0.25, 0.25]]).any()
        assert not theta_gradient([[8, 7, 6, 5, 4]], check_sum=False).any()

    def test_rounded_rows_lie_near_zero(self):
        rows = np.random.default_rng(2).dirichlet(np.ones(200), size=20)
        theta, status = theta_rows(rows, return_status=True)
        assert (status == Status.ROUNDED).all()
        assert (theta == 1.0).all()
        assert np.abs(theta_gradient(rows)).max() <= 2.0**-25

    def test_a_kink_gives_the_subset_found(self):
        # 3 | 3 + 1 and its mirror image are both optimal.
        gradient = theta_gradient([[3, 3, 1]], check_sum=False)[0]
        choices = [
            [float(value) for value in two_valued(np.array([3.0, 3.0, 1.0]), np.array(side))]
            for side in ([True, False, False], [False, True, False])
        ]
        assert gradient.tolist() in choices

    def test_a_zero_entry_gets_the_one_sided_derivative(self):
        row = [0.6, 0.4, 0.0]
        gradient = theta_gradient([row])[0]
        weights = [Fraction(3, 5), Fraction(2, 5), Fraction(0)]
        grown = reference_theta([*weights[:2], STEP])
        slope = float((grown - reference_theta(weights)) / STEP)
        assert gradient[2] == pytest.approx(slope, rel=1e-8)
        assert gradient[2] > 0
        assert theta_gradient([row[::-1]])[0].tolist() == gradient[::-1].tolist()
        # Outside the support there is no such entry.
        assert theta_gradient([row], support=[2])[0, 2] == 0.0

    def test_near_one_hot_rows_are_relatively_right(self):
        for tail in (2.0**-60, 2.0**-500, 5e-324):
            row = np.array([1.0, tail])
            expected = [float(value) for value in two_valued(row, np.array([True, False]))]
            assert theta_gradient([row])[0] == pytest.approx(expected, rel=2.0**-49)
        assert theta_gradient([[1.0, 0.0]])[0].tolist() == [0.0, 4.0]

    @pytest.mark.parametrize("power", [-1022, -700, 1, 700, 1021])
    def test_scale(self, power):
        row = np.array([3.0, 2.0, 2.0])
        with np.errstate(over="ignore"):
            expected = np.ldexp(theta_gradient([row], check_sum=False)[0], -power)
        scaled = theta_gradient([np.ldexp(row, power)], check_sum=False)[0]
        assert scaled == pytest.approx(expected, rel=2.0**-49, abs=1e-322)

    def test_beyond_the_range_of_float64(self):
        assert theta_gradient([[3e-310, 2e-310]], check_sum=False)[0].tolist() == [-np.inf, np.inf]
        big = [3 * 10**400, 2 * 10**400]
        assert theta_gradient([big], check_sum=False)[0].tolist() == [0.0, 0.0]
        small = [Fraction(1, 10**400), Fraction(3, 10**400)]
        assert theta_gradient([small], check_sum=False)[0].tolist() == [np.inf, -np.inf]


class TestArguments:
    def test_shapes_types_and_layouts(self):
        rows = np.random.default_rng(3).dirichlet(np.ones(6), size=(2, 5))
        expected = theta_gradient(rows)
        assert expected.shape == (2, 5, 6)
        assert expected.dtype == np.float64
        theta, gradient = theta_gradient(rows, return_theta=True, threads=1)
        assert np.array_equal(theta, theta_rows(rows))
        assert np.array_equal(gradient, expected)
        assert theta_gradient(rows[0, 0]).tolist() == expected[0, 0].tolist()
        assert theta_gradient(np.zeros((0, 4))).shape == (0, 4)
        fractions = [[Fraction(w) for w in row] for row in rows[0]]
        assert theta_gradient(fractions, check_sum=False) == pytest.approx(expected[0], rel=1e-14)
        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
            narrow = rows.astype(dtype)
            wide = theta_gradient(narrow.astype(np.float64), check_sum=False)
            assert np.array_equal(theta_gradient(narrow), wide)

    def test_causal_rows(self):
        rows = np.tril(np.random.default_rng(4).random((5, 5)))
        rows /= rows.sum(axis=1, keepdims=True)
        gradient = theta_gradient(rows, causal=True)
        assert not np.triu(gradient, 1).any()
        for t in range(5):
            assert gradient[t, : t + 1].tolist() == theta_gradient(rows[t, : t + 1]).tolist()

    def test_rows_without_an_answer(self):
        rows = [[0.6, 0.4, 0.0], [0.0, 0.0, 0.0]]
        with pytest.raises(ValueError, match="row 1 has zero total weight"):
            theta_gradient(rows)
        gradient = theta_gradient(rows, on_empty="nan")
        assert np.isfinite(gradient[0]).all()
        assert np.isnan(gradient[1]).all()

    def test_open_rows(self):
        # Multiples of 2^30 with small odd parts: no closed form, and no split closer than 2^-27.
        multiples = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)
        row = [float(k * 2**30 + 3**i) for i, k in enumerate(multiples)]
        with pytest.raises(OpenRowError, match="row 0 is open"):
            theta_gradient([row], check_sum=False, budget=0)
        open_rows = theta_gradient([row, [1.0] * 14], check_sum=False, budget=0, on_open="nan")
        assert np.isnan(open_rows[0]).all()
        assert not open_rows[1].any()

    def test_nothing_is_changed(self):
        rows = np.random.default_rng(5).dirichlet(np.ones(6), size=3)
        copy = rows.copy()
        rows.flags.writeable = False
        theta_gradient(rows)
        assert np.array_equal(rows, copy)


class TestTorch:
    def smooth_rows(self) -> torch.Tensor:
        rng = np.random.default_rng(6)
        rows = [rng.random(5) + 0.05 for _ in range(40)]
        smooth = [row for row in rows if is_smooth(exact(row))]
        assert len(smooth) >= 10
        return torch.tensor(np.stack(smooth[:10]).reshape(2, 5, 5), requires_grad=True)

    def test_values_and_gradient(self):
        rows = self.smooth_rows()
        theta = theta_rows_torch(rows, check_sum=False)
        assert theta.dtype == torch.float64
        assert np.array_equal(theta.detach().numpy(), theta_rows(rows, check_sum=False))
        theta.sum().backward()
        assert np.array_equal(rows.grad.numpy(), theta_gradient(rows, check_sum=False))

    def test_torchs_own_check_of_gradients(self):
        rows = self.smooth_rows()
        assert torch.autograd.gradcheck(
            lambda P: theta_rows_torch(P, check_sum=False), (rows,), eps=1e-6, atol=1e-6
        )

    def test_through_softmax_to_logits(self):
        logits = torch.tensor([[0.3, -0.2, 1.4, 0.1]], dtype=torch.float64, requires_grad=True)
        theta_rows_torch(torch.softmax(logits, dim=-1)).sum().backward()
        step = 2.0**-20
        for place in range(4):
            moved = [logits.detach().numpy().copy() for _ in range(2)]
            moved[0][0, place] += step
            moved[1][0, place] -= step
            up, down = (theta_rows_from_logits(u)[0] for u in moved)
            assert logits.grad[0, place].item() == pytest.approx((up - down) / (2 * step), abs=1e-8)

    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
    def test_narrow_types(self, dtype):
        rows = torch.tensor([[0.5, 0.375, 0.125], [0.25, 0.5, 0.25]]).to(getattr(torch, dtype))
        rows.requires_grad_()
        theta = theta_rows_torch(rows)
        assert theta.tolist() == theta_rows(rows).tolist()
        theta.sum().backward()
        assert rows.grad.dtype == rows.dtype

    def test_no_gradient_wanted(self):
        rows = torch.tensor([[0.6, 0.4]])
        assert not theta_rows_torch(rows).requires_grad
        lone = theta_rows_torch(torch.tensor([0.6, 0.4], requires_grad=True))
        assert lone.shape == ()
        lone.backward()

    def test_there_is_no_second_derivative(self):
        rows = torch.tensor([[3.0, 2.0, 2.0]], requires_grad=True)
        theta = theta_rows_torch(rows, check_sum=False)
        (first,) = torch.autograd.grad(theta.sum(), rows, create_graph=True)
        with pytest.raises(RuntimeError, match=r"once_differentiable|does not require grad"):
            first.sum().backward()

    def test_errors(self):
        with pytest.raises(TypeError, match="P: expected a torch tensor, got ndarray"):
            theta_rows_torch(np.array([[1.0]]))
        with pytest.raises(ValueError, match="row 0 has a negative weight at entry 1"):
            theta_rows_torch(torch.tensor([[1.5, -0.5]], requires_grad=True))
        with pytest.raises(TypeError, match="unexpected keyword"):
            theta_rows_torch(torch.tensor([[1.0]], requires_grad=True), return_theta_too=True)

    def test_the_missing_extra_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(ImportError, match=r"pip install 'attention-sensitivity\[model\]'"):
            theta_rows_torch(np.eye(2))

    def test_torch_is_not_imported_before_it_is_used(self):
        code = (
            "import sys; from theory.theta import theta_gradient; "
            "theta_gradient([[0.6, 0.4]]); sys.exit('torch' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
