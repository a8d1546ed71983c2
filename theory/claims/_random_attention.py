"""Random attention modules of every variety, each at a random input with its certified norm."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.attention import Attention, AttentionAt
from theory.masks import padding_mask, sliding_window_mask
from theory.normaliser import Normaliser
from theory.opnorm import block_norm_bracket
from theory.rotary import Rotary
from verify.claims import Profile
from verify.evidence import Tolerance

# A bracket this narrow is reached at once by the first weights and directions.
_RATIO = 1.3
_SEED = 41

NO_SLACK = Tolerance(
    value=1e-15,
    kind="relative",
    reason="the lower bound is certified and the bound rounded up, so that nothing is left but the "
    "comparison",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """A module at an input; lower: a certified lower bound of its differential's norm there."""

    at: AttentionAt
    lower: float

    def described(self) -> dict[str, Any]:
        """What a counterexample shows."""
        module = self.at.attention
        parameters = ("query_bias_HK", "mask", "rotary", "query_norm", "key_norm")
        return {
            "tokens": len(self.at.U),
            "width": module.width,
            "heads": module.heads,
            "groups": module.groups,
            "τ": module.tau,
            "has": [name for name in parameters if getattr(module, name) is not None],
            "lower": self.lower,
        }


@functools.lru_cache(maxsize=4)
def samples(profile: Profile, *, plain: bool = False) -> tuple[Sample, ...]:
    """60 of them, or 2 000 in the full profile; the same ones in every check.

    plain: half as many, without biases and QK-norm, as Theorem 4.1 assumes.
    """
    rng = np.random.default_rng(_SEED)
    count = profile.pick(60, 2000) // (2 if plain else 1)
    return tuple(_sample(rng, plain) for _ in range(count))


def _sample(rng: np.random.Generator, plain: bool) -> Sample:
    module, length = random_attention(rng, plain=plain)
    at = module.at(rng.normal(size=(length, module.width)) * rng.choice((0.1, 1.0, 3.0)))
    return Sample(at=at, lower=block_norm_bracket(at, ratio=_RATIO).lower)


def random_attention(rng: np.random.Generator, *, plain: bool = False) -> tuple[Attention, int]:
    """A module and a number of tokens that its mask fits: up to 6 tokens, width 6, 4 heads.

    Masks, temperatures, biases, shared keys and values, rotary positions and QK-norm occur alone
    and together; so do widths of 1 and outputs of another width. plain: no biases and no QK-norm.
    """
    length, D = int(rng.integers(1, 7)), int(rng.integers(1, 7))
    H = int(rng.integers(1, 5))
    G = int(rng.choice([g for g in range(1, H + 1) if H % g == 0]))
    K, V = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    E = D if rng.random() < 0.7 else int(rng.integers(1, 7))
    size = float(rng.choice((0.3, 1.0, 2.0)))

    def bias(*shape: int) -> Any:
        return rng.normal(size=shape) if rng.random() < 0.4 and not plain else None

    def norm() -> Normaliser | None:
        if rng.random() < 0.7 or plain:
            return None
        kind: Any = "layer" if rng.random() < 0.5 else "rms"
        return Normaliser(kind=kind, gamma=rng.normal(size=K), eps=0.01)

    return (
        Attention(
            query_HDK=size * rng.normal(size=(H, D, K)),
            key_GDK=size * rng.normal(size=(G, D, K)),
            value_GDV=size * rng.normal(size=(G, D, V)),
            output_HVE=rng.normal(size=(H, V, E)),
            query_bias_HK=bias(H, K),
            key_bias_GK=bias(G, K),
            value_bias_GV=bias(G, V),
            output_bias_E=bias(E),
            tau=float(rng.uniform(0.3, 3.0)),
            mask=_mask(rng, length, H),
            rotary=Rotary(interleaved=True) if K % 2 == 0 and rng.random() < 0.4 else None,
            query_norm=norm(),
            key_norm=norm(),
        ),
        length,
    )


def _mask(rng: np.random.Generator, length: int, heads: int) -> Any:
    kind = rng.integers(5)
    if kind == 0:
        return "causal"
    if kind == 1:
        return sliding_window_mask(length, int(rng.integers(1, length + 1)))
    if kind == 2:
        visible = rng.random(length) < 0.6
        visible[rng.integers(length)] = True
        return padding_mask(visible)
    if kind == 3:
        shown = rng.random((heads, length, length)) < 0.5
        return shown | np.eye(length, dtype=bool)
    return None
