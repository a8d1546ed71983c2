"""Statistics of attention rows, taken from the queries and keys of any model at its attention call.

`capture_rows` watches every call of torch's `scaled_dot_product_attention` made inside it. At the
chosen calls it samples rows, recomputes just these in float32 with the scale and the mask in force,
and keeps their probabilities; no (heads, T, T) array is ever formed. A model needs no change for
that: the paper's model, a Hugging Face model with ``attn_implementation="sdpa"`` and a model
wrapped by torch.compile (it runs uncompiled inside) are watched alike.

Shape suffixes: B sequences, H query heads, G key heads, T queries, S keys, K head width, R sampled
rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from theory.theta import greedy_certificate, theta_rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Scores of this many keys are gathered at once, so that memory stays near 64 MiB at K = 64.
_KEYS_AT_ONCE = 2**18


class CaptureError(RuntimeError):
    """The attention calls that were seen are not those that were asked for."""


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Rows of attention of one layer, sampled without replacement from (B, H, positions).

    layer: which attention call it was; probabilities: float32 (R, S), 0 where hidden; support: (R,)
    visible keys; sequence, head, position: (R,) where each row stands.
    """

    layer: int
    probabilities: npt.NDArray[np.float32]
    support: IntArray
    sequence: IntArray
    head: IntArray
    position: IntArray


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """What Section 5 measures of sampled rows, all of shape (R,).

    certificate: the paper's greedy lower bound of θ; theta: θ itself, correctly rounded, or NaN
    where it was not asked for or time ran out; exact_theta: whether it was asked for; largest:
    p_max; entropy: −Σ p log p over log of the support (0 for a support of one key); head: the head
    of each row.
    """

    layer: int
    certificate: FloatArray
    theta: FloatArray
    largest: FloatArray
    entropy: FloatArray
    head: IntArray
    exact_theta: bool = True


@contextmanager
def capture_rows(
    layers: Sequence[int], *, rows: int, from_position: int, seed: int
) -> Iterator[dict[int, SampledRows]]:
    """Sample attention rows of a forward pass that is made inside the context.

    layers: which attention calls, counted from 0 in the order of the pass; rows: how many of each
    (all, where there are fewer); from_position: the first query position sampled, so that supports
    are not degenerate; seed: of the sampling, which uses a generator of its own and changes no
    other random state.

    Yields a dictionary that holds the rows of each layer once the pass is over. Raises
    ``CaptureError`` on leaving if a layer was not called, or was called twice.
    """
    mode = _Capture(tuple(layers), rows, from_position, seed)
    # A compiled model would have folded the call into its graph.
    with torch.compiler.set_stance("force_eager"), mode:
        yield mode.found
    missing = [layer for layer in layers if layer not in mode.found]
    if missing:
        raise CaptureError(
            f"layers {missing} made no call of scaled_dot_product_attention; "
            f"{mode.calls} calls were seen"
        )


class _Capture(TorchFunctionMode):
    def __init__(self, layers: tuple[int, ...], rows: int, first: int, seed: int) -> None:
        super().__init__()
        self.layers = layers
        self.rows = rows
        self.first = first
        self.seed = seed
        self.calls = 0
        self.found: dict[int, SampledRows] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            if self.calls in self.layers:
                rng = np.random.default_rng((self.seed, self.calls))
                self.found[self.calls] = _sample(
                    self.calls, rng, self.rows, self.first, *args, **kwargs
                )
            self.calls += 1
        return func(*args, **kwargs)


@torch.no_grad()
def _sample(
    layer: int,
    rng: np.random.Generator,
    rows: int,
    first: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> SampledRows:
    """Sampled rows of one attention call, whose arguments these are."""
    del value, dropout_p
    B, H, T, K = query.shape
    S = key.shape[2]
    if first >= T:
        raise CaptureError(f"no query position from {first} on among {T}")
    population = B * H * (T - first)
    chosen = np.sort(rng.choice(population, size=min(rows, population), replace=False))
    sequence, head, position = np.unravel_index(chosen, (B, H, T - first))
    position = position + first
    key_head = head // (H // key.shape[1]) if enable_gqa else head
    factor = 1.0 / math.sqrt(K) if scale is None else scale

    # With autocast off: the scores of the rows are float32 whatever the model computes in.
    found = []
    with torch.autocast(query.device.type, enabled=False):
        step = max(1, _KEYS_AT_ONCE // S)
        for start in range(0, len(chosen), step):
            part = slice(start, start + step)
            b, h, t, g = (
                torch.from_numpy(index[part]).to(query.device)
                for index in (sequence, head, position, key_head)
            )
            q_RK = query[b, h, t].float()
            k_RSK = key[b, g].float()
            scores_RS = torch.einsum("rk,rsk->rs", q_RK, k_RSK) * factor
            visible_RS, bias_RS = _mask_rows(attn_mask, is_causal, (B, H, T, S), b, h, t)
            if bias_RS is not None:
                scores_RS = scores_RS + bias_RS
            scores_RS = scores_RS.masked_fill(~visible_RS, -math.inf)
            probabilities = torch.softmax(scores_RS, dim=-1)
            found.append((probabilities.cpu(), visible_RS.sum(dim=-1).cpu()))
    return SampledRows(
        layer=layer,
        probabilities=torch.cat([p for p, _ in found]).numpy(),
        support=torch.cat([n for _, n in found]).numpy(),
        sequence=sequence,
        head=head,
        position=position,
    )


def _mask_rows(
    mask: Tensor | None, is_causal: bool, shape: tuple[int, ...], b: Tensor, h: Tensor, t: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Which keys the sampled rows see, (R, S) booleans, and what a float mask adds to scores."""
    keys = torch.arange(shape[-1], device=t.device)
    visible = keys <= t[:, None] if is_causal else torch.ones_like(t[:, None] + keys, dtype=bool)
    if mask is None:
        return visible, None
    rows = mask.expand(shape)[b, h, t]
    if rows.dtype == torch.bool:
        return visible & rows, None
    bias = rows.float()
    return visible & (bias > torch.finfo(mask.dtype).min), bias


def row_statistics(
    rows: SampledRows, *, exact_theta: bool = True, theta_seconds: float | None = None
) -> RowStatistics:
    """The statistics of Section 5 of sampled rows, and the exact θ that the paper does without.

    theta_seconds: a limit for the θ of all rows together; rows not settled by then have NaN. None:
    no limit, and hard rows can take hours.
    """
    p = rows.probabilities.astype(np.float64)
    logs = np.log(np.where(p > 0.0, p, 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(rows.support > 1, -np.sum(p * logs, axis=1) / np.log(rows.support), 0.0)
    # Rows of float32 probabilities miss a sum of 1 by a few roundings more than a check allows; θ
    # is free of scale, and the certificate renormalises.
    return RowStatistics(
        layer=rows.layer,
        certificate=greedy_certificate(rows.probabilities, check_sum=False),
        theta=theta_rows(rows.probabilities, check_sum=False, budget=theta_seconds, on_open="nan")
        if exact_theta
        else np.full(len(p), np.nan),
        largest=np.max(p, axis=1),
        entropy=entropy,
        head=rows.head,
        exact_theta=exact_theta,
    )


PERCENTILES = (5, 25, 50, 75, 95)


def summarise(statistics: RowStatistics) -> dict[str, Any]:
    """One layer's statistics as plain numbers, nothing rounded: pooled, and for each head."""
    return {
        "layer": statistics.layer,
        "rows": len(statistics.certificate),
        **_summary(statistics, np.ones(len(statistics.head), dtype=bool)),
        "heads": {
            str(head): {
                "rows": int(np.count_nonzero(statistics.head == head)),
                **_summary(statistics, statistics.head == head),
            }
            for head in np.unique(statistics.head).tolist()
        },
    }


def _summary(statistics: RowStatistics, chosen: npt.NDArray[np.bool_]) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "certificate": _percentiles(statistics.certificate[chosen]),
        "certificate_max": float(np.max(statistics.certificate[chosen])),
        "p_max": {
            "mean": float(np.mean(statistics.largest[chosen])),
            **_percentiles(statistics.largest[chosen]),
        },
        "entropy": float(np.mean(statistics.entropy[chosen])),
    }
    if statistics.exact_theta:
        theta = statistics.theta[chosen]
        unsettled = int(np.count_nonzero(np.isnan(theta)))
        if unsettled:
            # Percentiles of some of the rows would not be those of the sample.
            summary["theta_open"] = unsettled
        else:
            summary["theta"] = _percentiles(theta)
            summary["theta_max"] = float(np.max(theta))
    return summary


def _percentiles(values: FloatArray) -> dict[str, float]:
    return {
        str(percent): float(value)
        for percent, value in zip(PERCENTILES, np.percentile(values, PERCENTILES), strict=True)
    }
