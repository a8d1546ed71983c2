"""Sampled rows are the rows of attention, and their statistics are the paper's."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra model is not installed")

from model.attention_stats import (  # noqa: E402
    CaptureError,
    SampledRows,
    capture_rows,
    row_statistics,
    summarise,
)
from theory.theta import theta  # noqa: E402

attend = torch.nn.functional.scaled_dot_product_attention


def rows_of(*, key_heads: int = 4, **options: object) -> tuple[SampledRows, object, object]:
    generator = torch.Generator().manual_seed(2)
    q = torch.randn(2, 4, 12, 8, generator=generator) * 2
    k = torch.randn(2, key_heads, 12, 8, generator=generator)
    with capture_rows((0,), rows=10**6, from_position=3, seed=0) as found:
        attend(q, k, k, **options)
    return found[0], q, k


def full_probabilities(q: object, k: object, visible: object, scale: float, bias: object = 0.0):  # type: ignore[no-untyped-def]
    scores = torch.einsum("bhtk,bhsk->bhts", q, k) * scale + bias
    return torch.softmax(scores.masked_fill(~visible, -math.inf), dim=-1).numpy()


@pytest.mark.parametrize("kind", ["causal", "none", "boolean", "added", "grouped", "scaled"])
def test_every_row_is_that_of_the_whole_attention(kind: str) -> None:
    visible = torch.ones(12, 12, dtype=torch.bool)
    causal = visible.tril()
    window = causal & ~causal.tril(-5)
    bias = torch.where(window, 0.0, -math.inf) + torch.linspace(0, 1, 12)
    options: dict[str, object] = {
        "causal": {"is_causal": True},
        "none": {},
        "boolean": {"attn_mask": window},
        "added": {"attn_mask": bias.expand(2, 1, 12, 12)},
        "grouped": {"is_causal": True, "enable_gqa": True, "key_heads": 2},
        "scaled": {"is_causal": True, "scale": 0.7},
    }[kind]
    found, q, k = rows_of(**options)  # type: ignore[arg-type]
    seen = {"none": visible, "boolean": window, "added": window}.get(kind, causal)
    keys = k.repeat_interleave(2, dim=1) if kind == "grouped" else k  # type: ignore[attr-defined]
    added = torch.linspace(0, 1, 12) if kind == "added" else 0.0
    whole = full_probabilities(q, keys, seen, 0.7 if kind == "scaled" else 8**-0.5, added)
    assert len(found.position) == 2 * 4 * 9
    assert len({*zip(found.sequence, found.head, found.position, strict=True)}) == 72
    assert found.position.min() == 3
    rows = whole[found.sequence, found.head, found.position]
    np.testing.assert_allclose(found.probabilities, rows, rtol=2e-6, atol=1e-7)
    assert np.array_equal(found.support, seen.sum(dim=1).numpy()[found.position])
    assert np.all((found.probabilities > 0).sum(axis=1) <= found.support)


def test_rows_are_float32_under_autocast() -> None:
    generator = torch.Generator().manual_seed(2)
    q, k = (torch.randn(1, 2, 20, 8, generator=generator).bfloat16() for _ in range(2))
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        capture_rows((0,), rows=9, from_position=0, seed=1) as found,
    ):
        attend(q, k, k, is_causal=True)
    rows = full_probabilities(
        q.float(), k.float(), torch.ones(20, 20, dtype=torch.bool).tril(), 8**-0.5
    )
    at = (found[0].sequence, found[0].head, found[0].position)
    np.testing.assert_allclose(found[0].probabilities, rows[at], rtol=2e-6, atol=1e-7)


def test_sampling_is_fixed_by_its_seed_and_touches_no_other() -> None:
    q = torch.randn(2, 3, 30, 4, generator=torch.Generator().manual_seed(0))
    before = torch.get_rng_state()
    draws = []
    for seed in (1, 1, 2):
        with capture_rows((1,), rows=7, from_position=2, seed=seed) as found:
            attend(q, q, q)
            attend(q, q, q)
        draws.append(found[1].position.tolist())
    assert draws[0] == draws[1] != draws[2]
    assert torch.equal(torch.get_rng_state(), before)


def test_a_layer_that_was_not_called_is_named() -> None:
    q = torch.randn(1, 1, 4, 2)
    with (
        pytest.raises(CaptureError, match=r"layers \[2\] made no call .* 1 calls were seen"),
        capture_rows((0, 2), rows=1, from_position=0, seed=0),
    ):
        attend(q, q, q)
    with (
        pytest.raises(CaptureError, match="no query position from 4 on among 4"),
        capture_rows((0,), rows=1, from_position=4, seed=0),
    ):
        attend(q, q, q)


def test_statistics_of_known_rows() -> None:
    p = np.array(
        [[0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25], [1, 0, 0, 0], [0.75, 0.25, 0, 0]],
        dtype=np.float32,
    )
    rows = SampledRows(
        layer=5,
        probabilities=p,
        support=np.array([4, 4, 1, 2]),
        sequence=np.zeros(4, dtype=np.int64),
        head=np.array([0, 1, 1, 0]),
        position=np.array([3, 3, 0, 1]),
    )
    found = row_statistics(rows)
    np.testing.assert_allclose(found.certificate, [0.96, 1, 0, 0.75], rtol=1e-6)
    assert found.theta.tolist() == [theta(row, check_sum=False) for row in p]
    np.testing.assert_allclose(found.largest, [0.4, 0.25, 1, 0.75], rtol=1e-6)
    entropies = [1.2798542 / math.log(4), 1.0, 0.0, 0.5623351 / math.log(2)]
    np.testing.assert_allclose(found.entropy, entropies, rtol=1e-6)

    summary = summarise(found)
    assert summary["layer"] == 5
    assert summary["certificate"]["50"] == np.median(found.certificate)
    assert summary["certificate"]["5"] == np.percentile(found.certificate, 5)
    assert summary["p_max"]["mean"] == pytest.approx(0.6)
    assert summary["entropy"] == pytest.approx(np.mean(entropies), rel=1e-6)
    assert summary["heads"]["1"]["rows"] == 2
    assert summary["heads"]["1"]["theta_max"] == 1.0
    assert "theta" not in summarise(row_statistics(rows, exact_theta=False))
    # A row that stays open: its θ is said to be missing, where it counts, and nothing is invented.
    hard = replace(found, theta=np.where(np.arange(len(found.theta)) == 0, np.nan, found.theta))
    summary = summarise(hard)
    assert summary["theta_open"] == 1
    assert "theta" not in summary
    assert summary["certificate"] == summarise(found)["certificate"]
