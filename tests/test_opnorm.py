"""Certified block-∞/RMS norms: against exact norms, witnesses, dense blocks and balls."""

from __future__ import annotations

import dataclasses
import math
import types
from fractions import Fraction

import flint
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from random_modules import random_attention, random_layer

from theory._attention_errors import ELEMENTARY
from theory._attention_rows import AttentionRow, AttentionRows
from theory._row_maps import DenseRow, FloatArray, OperatorRows
from theory._row_norms import Deadline, ascend, proved_lower, proved_upper, weights_of
from theory.attention import Attention
from theory.claims._attention_balls import row_blocks
from theory.claims._signed_rows import longest_signed_sum
from theory.masks import sliding_window_mask
from theory.norms import block_inf_rms
from theory.opnorm import Bracket, BracketStatus, block_norm_bracket
from verify.certificates import is_row_norm_certificate_in_balls
from verify.exact import as_fraction, ball, precision, upper_end
from verify.rounding import UNIT_ROUNDOFF

SEEDS = range(12)
NEVER = Deadline(None)


def image(jacobian_MELD: FloatArray, direction_LD: FloatArray) -> FloatArray:
    return np.einsum("MELD,LD->ME", jacobian_MELD, direction_LD)


def assert_sound(found: Bracket, jacobian_MELD: FloatArray) -> None:
    """The ends are ordered, and the witness attains the lower one within the unit ball."""
    assert 0.0 <= found.lower <= found.upper
    assert block_inf_rms(found.witness) <= 1.0
    reached = block_inf_rms(image(jacobian_MELD, found.witness))
    assert reached >= found.lower * (1 - 1e-13)
    assert reached <= found.upper * (1 + 1e-13)
    at_row = image(jacobian_MELD, found.witness)[found.row]
    assert np.sqrt(np.mean(at_row**2)) >= found.lower * (1 - 1e-13)
    if found.status is BracketStatus.CONVERGED:
        assert found.ratio <= 1.26


# ------------------------------------------------------------------------------------- dense


@pytest.mark.parametrize("seed", SEEDS)
def test_random_jacobians_close(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (3, int(rng.integers(4, 9)), 4, int(rng.integers(4, 9)))
    jacobian = rng.normal(size=shape)
    found = block_norm_bracket(jacobian)
    assert_sound(found, jacobian)
    assert found.status is BracketStatus.CONVERGED
    # Where the bracket does not close, the relaxation itself is larger than the norm.
    assert found.ratio <= 1.01
    assert found.upper <= found.relaxation * 1.0001
    assert found.covers == "stored blocks"
    for _ in range(20):
        direction = rng.normal(size=shape[2:])
        direction /= np.sqrt(np.mean(direction**2, axis=1, keepdims=True))
        assert block_inf_rms(image(jacobian, direction)) <= found.upper


@given(
    st.lists(
        st.lists(strategies.entries(largest=1e150), min_size=3, max_size=3), min_size=1, max_size=6
    )
)
@settings(max_examples=150)
def test_the_exact_norm_lies_in_the_bracket(rows: list[list[float]]) -> None:
    """Blocks of shape (1, 3): N is the length of the longest signed sum."""
    found = block_norm_bracket(np.array(rows).T[np.newaxis, :, :, np.newaxis])
    out = longest_signed_sum([[as_fraction(x) for x in row] for row in rows])
    square = sum((x * x for x in out), Fraction(0)) / 3
    assert as_fraction(found.lower) ** 2 <= square <= as_fraction(found.upper) ** 2
    assert found.status is BracketStatus.CONVERGED


def test_the_zero_operator_has_norm_zero() -> None:
    found = block_norm_bracket(np.zeros((2, 3, 4, 5)))
    assert (found.lower, found.upper, found.ratio) == (0.0, 0.0, 1.0)
    assert found.status is BracketStatus.CONVERGED
    assert not found.witness.any()
    assert not found.timed_out


@pytest.mark.parametrize("scale", [1e300, 1e-300, 2.0**-1040])
def test_scale_does_not_matter(scale: float) -> None:
    jacobian = np.round(4 * np.random.default_rng(5).normal(size=(2, 3, 4, 3)))
    plain, scaled = block_norm_bracket(jacobian), block_norm_bracket(jacobian * scale)
    assert scaled.lower == pytest.approx(plain.lower * scale, rel=1e-9)
    assert scaled.upper == pytest.approx(plain.upper * scale, rel=1e-9)


def test_the_ends_stay_true_beyond_float64() -> None:
    found = block_norm_bracket(np.full((2, 2, 2, 2), 1e308))
    assert found.lower <= np.finfo(np.float64).max
    assert found.upper == math.inf
    assert found.status is BracketStatus.OPEN


def test_rows_restrict_the_norm() -> None:
    jacobian = np.random.default_rng(6).normal(size=(4, 3, 2, 3))
    jacobian[2] *= 10.0
    whole, others = block_norm_bracket(jacobian), block_norm_bracket(jacobian, rows=[3, 0, 1])
    assert whole.row == 2
    assert others.upper < whole.lower
    assert [entry.row for entry in others.certificate] == [0, 1, 3]
    without = np.delete(jacobian, 2, axis=0)
    assert others.upper == pytest.approx(block_norm_bracket(without).upper, rel=1e-9)


def test_small_rows_are_settled_by_cheap_bounds() -> None:
    jacobian = np.random.default_rng(7).normal(size=(5, 4, 3, 4))
    jacobian[[0, 1, 3, 4]] /= 100.0
    found = block_norm_bracket(jacobian)
    assert [entry.weights is None for entry in found.certificate] == [True, True, False, True, True]
    assert found.upper == pytest.approx(block_norm_bracket(jacobian, rows=[2]).upper, rel=1e-12)


def test_a_relaxation_that_is_not_tight_is_recognised() -> None:
    """Five directions in the plane: R/N = 5 sin(π/10)/√2 = 1.0925."""
    angles = np.pi * np.arange(5) / 5
    found = block_norm_bracket(
        np.stack([np.cos(angles), np.sin(angles)])[np.newaxis, ..., np.newaxis]
    )
    assert found.lower == pytest.approx(1 / (math.sin(math.pi / 10) * math.sqrt(2)), rel=1e-9)
    assert found.upper == pytest.approx(5 / 2, rel=1e-6)
    assert found.relaxation == pytest.approx(5 / 2, rel=1e-6)
    assert found.status is BracketStatus.CONVERGED


def test_a_spent_budget_leaves_true_bounds() -> None:
    jacobian = np.random.default_rng(8).normal(size=(3, 4, 3, 4))
    found = block_norm_bracket(jacobian, budget=0.0)
    assert found.timed_out
    assert found.status is BracketStatus.OPEN
    assert (found.lower, found.upper) == (0.0, math.inf)
    assert found.ratio == math.inf
    assert not block_norm_bracket(jacobian, budget=60.0).timed_out


def test_a_deadline_between_two_stages_keeps_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes by one second at every look at the clock."""
    ticks = iter(range(10**6))
    clock = types.SimpleNamespace(monotonic=lambda: float(next(ticks)))
    monkeypatch.setattr("theory._row_norms.time", clock)
    jacobian = np.random.default_rng(9).normal(size=(3, 4, 3, 4))
    truth = block_norm_bracket(jacobian)
    seen = set()
    for budget in (1.0, 3.0, 5.0, 8.0, 12.0, 20.0, 40.0):
        found = block_norm_bracket(jacobian, budget=budget)
        assert found.lower <= truth.upper
        assert found.upper >= truth.lower
        seen.add((found.lower > 0.0, found.upper < math.inf, found.timed_out))
    assert (False, False, True) in seen
    assert (False, True, True) in seen or (True, True, True) in seen


def test_a_bracket_is_frozen_and_has_no_truth_value() -> None:
    found = block_norm_bracket(np.ones((1, 1, 1, 1)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.lower = 0.0  # type: ignore[misc]
    with pytest.raises(TypeError, match="two ends"):
        bool(found)
    with pytest.raises(ValueError, match="read-only"):
        found.witness[0, 0] = 1.0


def test_the_progress_bar_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    jacobian = np.random.default_rng(10).normal(size=(3, 4, 3, 4))
    shown, silent = block_norm_bracket(jacobian, progress=True), block_norm_bracket(jacobian)
    assert (shown.lower, shown.upper) == (silent.lower, silent.upper)
    assert capsys.readouterr().out == ""


def test_interior_points_give_the_same_relaxation() -> None:
    pytest.importorskip("cvxpy")
    for seed in range(3):
        jacobian = np.random.default_rng(seed).normal(size=(1, 4, 12, 1))
        ascent = block_norm_bracket(jacobian)
        interior = block_norm_bracket(jacobian, method="cvxpy")
        assert interior.method == "cvxpy"
        assert interior.upper == pytest.approx(ascent.upper, rel=1e-4)
        assert interior.lower == pytest.approx(ascent.lower, rel=1e-4)


def test_interior_points_are_for_small_widths() -> None:
    pytest.importorskip("cvxpy")
    jacobian = np.random.default_rng(11).normal(size=(1, 65, 200, 1))
    with pytest.raises(ValueError, match="widths up to 64"):
        block_norm_bracket(jacobian, method="cvxpy")


# ------------------------------------------------------------------------------- proved sides


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rounding_of_dense_products_stays_within_its_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, width, outputs = (int(x) for x in rng.integers(1, 6, size=3))
    blocks = rng.normal(size=(n, width, outputs)) * rng.choice((1e-3, 1.0), size=(n, 1, 1))
    row = DenseRow(blocks)
    y = rng.normal(size=(outputs, 1))
    y /= np.linalg.norm(y)
    multipliers = rng.uniform(0.5, 2.0, size=n)
    with precision(200):
        exact = [flint.arb_mat(block.tolist()) for block in blocks]
        column = flint.arb_mat(y.tolist())
        distance = ball(0)
        for stored, computed in zip(exact, row.apply(y), strict=True):
            distance += frobenius(stored * column - flint.arb_mat(computed.tolist()))
        assert upper_end(distance) <= as_fraction(row.apply_error()) * Fraction(10001, 10000)
        gram = flint.arb_mat(outputs, outputs)
        for stored, c in zip(exact, multipliers.tolist(), strict=True):
            gram += stored.transpose() * stored * ball(c)
        distance = frobenius(gram - flint.arb_mat(row.gram(multipliers).tolist()))
        assert upper_end(distance) <= as_fraction(row.gram_error(multipliers))


def frobenius(matrix: flint.arb_mat) -> flint.arb:
    """‖M‖_F as a ball; of a matrix that may be zero, an upper bound."""
    square = sum((entry * entry for entry in matrix.entries()), flint.arb(0))
    return (square if square > 0 else ball(upper_end(square))).sqrt()


def test_an_upper_bound_without_its_margins_would_be_wrong() -> None:
    """The proved bound exceeds the floating one, which lies below the norm now and then."""
    below = 0
    for seed in range(40):
        blocks = np.random.default_rng(seed).normal(size=(3, 2, 2))
        row = DenseRow(blocks)
        y, _ = ascend(row, np.eye(2), steps=400, gain=1e-15, deadline=NEVER)
        best = y[:, [int(np.argmax([proved_lower(row, y[:, [k]]) for k in range(2)]))]]
        weights = weights_of(row, best)
        floating = math.sqrt(np.linalg.eigvalsh(row.gram(1.0 / weights))[-1])
        with precision(200):
            exact = ball(0)
            for block in blocks:
                exact += frobenius(flint.arb_mat(block.tolist()) * flint.arb_mat(best.tolist()))
            exact /= frobenius(flint.arb_mat(best.tolist()))
            assert as_fraction(proved_upper(row, weights)) >= upper_end(exact)
            assert as_fraction(proved_lower(row, best)) <= upper_end(exact)
            below += ball(floating) < exact
    assert below > 0


# --------------------------------------------------------------------------------- attention


@pytest.mark.parametrize("seed", range(40))
def test_attention_rows_are_the_rows_of_the_differential(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length, width = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    module = random_attention(rng, length, width, int(rng.integers(1, 6)))
    at = module.at(rng.normal(size=(length, width)))
    rows = AttentionRows(at)
    for i in range(length):
        row, blocks = rows.row(i), at.row_block(i)
        seen = np.isin(np.arange(length), row.tokens)
        assert not blocks[~seen].any()
        kept = blocks[row.tokens]
        size = 1e-12 * (1.0 + row.cheap_bound())
        y, x = rng.normal(size=(module.output_width, 2)), rng.normal(size=(*kept.shape[:2], 2))
        c = rng.uniform(0.5, 2.0, size=len(kept))
        assert np.abs(row.apply(y) - kept @ y).max() <= size
        assert np.abs(row.adjoint(x) - np.einsum("NDE,NDR->ER", kept, x)).max() <= size
        gram = np.einsum("N,NDE,NDF->EF", c, kept, kept)
        assert np.abs(row.gram(c) - gram).max() <= size * (1.0 + row.cheap_bound())
        assert row.cheap_bound() >= np.linalg.norm(kept, 2, axis=(1, 2)).sum() * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(25))
def test_attention_and_its_jacobian_have_the_same_bracket(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length, width = int(rng.integers(2, 7)), int(rng.integers(2, 6))
    at = random_attention(rng, length, width).at(rng.normal(size=(length, width)))
    found, dense = block_norm_bracket(at), block_norm_bracket(at.jacobian())
    assert found.covers == "exact operator"
    assert found.status is BracketStatus.CONVERGED
    assert found.lower == pytest.approx(dense.lower, rel=1e-6)
    assert found.upper == pytest.approx(dense.upper, rel=1e-6)
    assert_sound(found, at.jacobian())
    assert block_inf_rms(at.jvp(found.witness)) == pytest.approx(found.lower, rel=1e-9)


@pytest.mark.parametrize("seed", range(16))
def test_rounding_of_the_forward_pass_stays_within_its_bound(seed: int) -> None:
    """Stored factors against the exact operator, in balls, from small to large scores."""
    rng = np.random.default_rng(seed)
    length, width = int(rng.integers(1, 5)), 4
    module = random_attention(rng, length, width, 3)
    U = rng.normal(size=(length, width)) * rng.choice((0.1, 1.0, 6.0))
    rows = AttentionRows(module.at(U))
    with precision(200):
        for i in {0, length - 1}:
            row, exact = rows.row(i), row_blocks(module, U, i)
            distance = ball(0)
            for j in range(length):
                distance += frobenius(stored_block(module, row, i, j) - exact[j])
            assert upper_end(distance) <= as_fraction(row.operator_error)
            assert row.operator_error <= 1e-7 * row.cheap_bound()


def stored_block(module: Attention, row: AttentionRow, i: int, j: int) -> flint.arb_mat:
    """The block that the row's stored factors define, in balls."""
    block = flint.arb_mat(module.width, module.output_width)
    if j not in row.tokens:
        return block
    at = int(np.searchsorted(row.tokens, j))
    for h in range(module.heads):
        group = h * module.groups // module.heads
        left = flint.arb_mat([[x] for x in row._l_NHD[at, h].tolist()])
        right = flint.arb_mat([row._delta_NHV[at, h].tolist()])
        inner = flint.arb_mat(module.value_GDV[group].tolist()) + left * right
        inner *= flint.arb(float(row._a_NH[at, h]))
        if j == i:
            inner += flint.arb_mat(row._query_HDV[h].tolist())
        block += inner * flint.arb_mat(module.output_HVE[h].tolist())
    return block


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rounding_of_structured_products_stays_within_its_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length, width = int(rng.integers(1, 5)), 4
    module = random_attention(rng, length, width, 3)
    row = AttentionRows(module.at(rng.normal(size=(length, width)))).row(length - 1)
    y = rng.normal(size=(3, 1))
    y /= np.linalg.norm(y)
    multipliers = rng.uniform(0.5, 2.0, size=len(row.tokens))
    with precision(200):
        stored = [stored_block(module, row, length - 1, int(j)) for j in row.tokens]
        column = flint.arb_mat(y.tolist())
        distance = ball(0)
        for block, computed in zip(stored, row.apply(y), strict=True):
            distance += frobenius(block * column - flint.arb_mat(computed.tolist()))
        assert upper_end(distance) <= as_fraction(row.apply_error()) * Fraction(10001, 10000)
        gram = flint.arb_mat(3, 3)
        for block, c in zip(stored, multipliers.tolist(), strict=True):
            gram += block.transpose() * block * ball(c)
        distance = frobenius(gram - flint.arb_mat(row.gram(multipliers).tolist()))
        assert upper_end(distance) <= as_fraction(row.gram_error(multipliers))


def test_every_row_of_an_attention_certificate_is_rechecked_in_balls() -> None:
    rng = np.random.default_rng(12)
    module = random_attention(rng, 4, 4, 3)
    U = rng.normal(size=(4, 4))
    found = block_norm_bracket(module.at(U))
    for entry in found.certificate:
        if entry.weights is None or entry.tokens is None:
            continue
        with precision(120):
            exact = row_blocks(module, U, entry.row)
            bound = ball(entry.upper) * (ball(3) / 4).sqrt()
        kept, weights = [exact[j] for j in entry.tokens], entry.weights.tolist()
        assert is_row_norm_certificate_in_balls(kept, weights, bound)
        if entry.row == found.row:
            assert not is_row_norm_certificate_in_balls(kept, weights, bound * 0.99)


def test_a_token_that_does_not_see_itself_keeps_its_query() -> None:
    rng = np.random.default_rng(13)
    module = dataclasses.replace(
        random_attention(rng, 3, 4), mask=~np.eye(3, dtype=np.bool_), query_bias_HK=None
    )
    at = module.at(rng.normal(size=(3, 4)))
    assert block_norm_bracket(at).lower == pytest.approx(block_norm_bracket(at.jacobian()).lower)


def test_attention_that_ignores_its_input_has_norm_zero() -> None:
    rng = np.random.default_rng(14)
    module = random_attention(rng, 3, 4)
    silent = dataclasses.replace(module, output_HVE=np.zeros_like(module.output_HVE))
    found = block_norm_bracket(silent.at(rng.normal(size=(3, 4))))
    assert (found.lower, found.upper) == (0.0, 0.0)


def test_a_window_of_one_token_is_a_linear_map() -> None:
    """Each token sees itself: the norm is ‖Σ_h W^V_h W^O_h‖₂."""
    rng = np.random.default_rng(15)
    module = Attention(
        query_HDK=rng.normal(size=(2, 5, 2)),
        key_GDK=rng.normal(size=(2, 5, 2)),
        value_GDV=rng.normal(size=(2, 5, 3)),
        output_HVE=rng.normal(size=(2, 3, 5)),
        mask=sliding_window_mask(4, 1),
    )
    found = block_norm_bracket(module.at(rng.normal(size=(4, 5))))
    norm = np.linalg.norm(np.einsum("HDV,HVE->DE", module.value_GDV, module.output_HVE), 2)
    assert found.lower == pytest.approx(norm, rel=1e-9)
    assert found.upper == pytest.approx(norm, rel=1e-9)


def test_layers_are_bracketed_by_their_blocks() -> None:
    rng = np.random.default_rng(16)
    at = random_layer(rng, 4, 5).at(rng.normal(size=(4, 5)))
    found = block_norm_bracket(at)
    assert found.covers == "stored blocks"
    assert_sound(found, at.jacobian())
    assert found.lower == pytest.approx(block_norm_bracket(at.jacobian()).lower, rel=1e-9)


# ------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 0.9}, "at least 1"),
        ({"ratio": math.nan}, "at least 1"),
        ({"budget": -1.0}, "budget"),
        ({"rows": []}, "rows is empty"),
        ({"rows": [2]}, "row"),
        ({"method": "newton"}, "method"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        block_norm_bracket(np.ones((2, 1, 1, 1)), **options)  # type: ignore[arg-type]


def test_bad_jacobians_are_named() -> None:
    with pytest.raises(ValueError, match="4 axes"):
        block_norm_bracket(np.ones((2, 2)))
    with pytest.raises(ValueError, match="nan"):
        block_norm_bracket(np.full((1, 1, 1, 1), math.nan))


class WrongBlocks:
    """An operator whose rows are one token short."""

    input_shape = (3, 2)
    output_shape = (2, 2)

    def row_block(self, index: int, /) -> FloatArray:
        return np.ones((2, 2, 2))


def test_blocks_of_the_wrong_shape_are_named() -> None:
    with pytest.raises(ValueError, match=r"row_block\(0\) has shape \(2, 2, 2\), not \(3, 2, 2\)"):
        block_norm_bracket(WrongBlocks())


class CountingBlocks:
    """An operator that counts how often a row is asked for."""

    input_shape = (2, 2)
    output_shape = (3, 2)

    def __init__(self) -> None:
        self.calls = 0

    def row_block(self, index: int, /) -> FloatArray:
        self.calls += 1
        return np.random.default_rng(index).normal(size=(2, 2, 2))


def test_small_operators_are_asked_once_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = CountingBlocks()
    block_norm_bracket(operator)
    assert operator.calls == 3
    monkeypatch.setattr("theory._row_maps.CACHE_BYTES", 0)
    large = CountingBlocks()
    assert block_norm_bracket(large).upper == block_norm_bracket(operator).upper
    assert large.calls > 3
    assert OperatorRows(large).covers_exact_operator is False


def test_elementary_functions_keep_to_the_error_model() -> None:
    """exp and power relatively, sine and cosine absolutely, within ELEMENTARY units of 2⁻⁵³."""
    rng = np.random.default_rng(17)
    points = np.concatenate([rng.uniform(-700.0, 0.0, 600), rng.uniform(-1.0, 0.0, 200)])
    angles = np.concatenate([rng.uniform(0.0, 1e5, 600), rng.uniform(0.0, 7.0, 200)])
    unit = ELEMENTARY * UNIT_ROUNDOFF
    with precision(200):
        for x, y in zip(points.tolist(), np.exp(points).tolist(), strict=True):
            assert abs(ball(y) - ball(x).exp()) <= ball(unit) * ball(x).exp()
        for x, y in zip(points.tolist(), (10000.0 ** (points / 700.0)).tolist(), strict=True):
            exact = ball(10000) ** ball(float(x / 700.0))
            assert abs(ball(y) - exact) <= ball(unit) * exact
        waves = zip(angles.tolist(), np.cos(angles).tolist(), np.sin(angles).tolist(), strict=True)
        for x, cosine, sine in waves:
            assert abs(ball(cosine) - ball(x).cos()) <= ball(unit)
            assert abs(ball(sine) - ball(x).sin()) <= ball(unit)
