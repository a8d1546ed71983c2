"""Λ(U) of Section 4.1, the local norm of multi-head attention, enclosed with a proof."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import flint
import numpy as np

from theory.arguments import FloatArray
from theory.attention import Attention
from theory.claims._attention_balls import row_blocks
from theory.masks import sliding_window_mask
from theory.normaliser import Normaliser
from theory.opnorm import block_norm_bracket
from theory.rotary import Rotary
from verify.certificates import is_row_norm_certificate_in_balls
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Evidence, Kind, judge
from verify.exact import as_fraction, ball, precision

LAMBDA = Claim(
    id="def_lambda",
    paper_ref="Section 4.1, definition of Λ_MHA(U)",
    section="4",
    statement="Λ(U), the norm of D MHA(U) from block-∞/RMS to block-∞/RMS, is √(D/E) (in the paper "
    "1) times the largest max over ‖y‖₂ = 1 of Σ_j ‖M_ij y‖₂ over the output tokens i, with the "
    "blocks M_ij of dO_i = Σ_j dU_j M_ij. theory.opnorm encloses it at the float weights and "
    "input, given NumPy's elementary functions to within 8 units 2⁻⁵³; checked against balls on "
    "small modules of six varieties (plain, causal with rotary positions, window with biases, "
    "multi-query, QK-norm, low temperature).",
    uses=("beyond_bracket_identity", "beyond_bracket_upper"),
)


def random_module(rng: np.random.Generator, kind: int, length: int) -> Attention:
    """A small module of one of six varieties: plain, causal with rotary positions, window and
    biases, multi-query, RMSNorm on queries and LayerNorm on keys, low temperature."""
    heads, groups, width, key_width, value_width, outputs = 2, 2, 4, 4, 2, 3
    if kind == 3:
        groups = 1

    def normal(*shape: int) -> FloatArray:
        return rng.normal(size=shape)

    options: dict[str, Any] = {}
    if kind == 1:
        options = {"mask": "causal", "rotary": Rotary(interleaved=True, width=2)}
    if kind == 2:
        options = {"mask": sliding_window_mask(length, 2)}
        options |= {"query_bias_HK": normal(heads, key_width), "value_bias_GV": normal(groups, 2)}
    if kind == 4:
        gamma, beta = normal(key_width), normal(key_width)
        options = {
            "query_norm": Normaliser(kind="rms", gamma=gamma, eps=1e-5),
            "key_norm": Normaliser(kind="layer", gamma=gamma, beta=beta, eps=1e-5),
            "rotary": Rotary(base=100.0),
        }
    if kind == 5:
        options = {"tau": 0.25}
    return Attention(
        query_HDK=normal(heads, width, key_width),
        key_GDK=normal(groups, width, key_width),
        value_GDV=normal(groups, width, value_width),
        output_HVE=normal(heads, value_width, outputs),
        **options,
    )


@check(
    LAMBDA,
    kind=Kind.CERTIFICATE,
    planted=Planted("the upper end is 1% smaller", factor="0.99"),
)
def brackets_against_ball_blocks(profile: Profile, *, factor: str = "1") -> Evidence:
    """The exact blocks, enclosed by balls from the definition of attention alone: the witness
    attains the lower end, and every row's weights prove the upper end."""
    scale = Fraction(factor)
    rng = np.random.default_rng(45)

    def cases() -> Iterator[Case]:
        for kind in range(6):
            for _ in range(profile.pick(1, 8)):
                length = int(rng.integers(2, 5))
                module = random_module(rng, kind, length)
                U = rng.normal(size=(length, module.width)) * rng.choice((0.3, 1.0, 3.0))
                yield from compared(module, U, {"variety": kind, "U": U.tolist()})

    def compared(module: Attention, U: FloatArray, instance: object) -> Iterator[Case]:
        found = block_norm_bracket(module.at(U), ratio=1.0 + 1e-7)
        upper, lower = scale * as_fraction(found.upper), as_fraction(found.lower)
        inputs, outputs = module.width, module.output_width
        for token in found.witness.tolist():
            size = sum((as_fraction(v) ** 2 for v in token), Fraction(0))
            yield Case(size, "<=", inputs, instance)
        blocks = row_blocks(module, U, found.row)
        out = flint.arb_mat(1, outputs)
        for token, block in zip(found.witness.tolist(), blocks, strict=True):
            out += flint.arb_mat([token]) * block
        square = (out * out.transpose())[0, 0] / outputs
        yield Case(square, "<=", ball(upper**2), instance)
        # The witness's own entries are rounded.
        yield Case(ball(lower**2), "<=", square * ball(1 + Fraction(1, 10**12)), instance)
        for entry in found.certificate:
            if entry.weights is None or entry.tokens is None:
                continue
            row = row_blocks(module, U, entry.row)
            kept = [row[j] for j in entry.tokens]
            bound = ball(scale * as_fraction(entry.upper)) * (ball(outputs) / inputs).sqrt()
            proved = is_row_norm_certificate_in_balls(kept, entry.weights.tolist(), bound)
            yield Case(int(proved), "==", 1, instance)
            yield Case(as_fraction(entry.upper), "<=", as_fraction(found.upper), instance)

    with precision(120):
        return judge(cases(), scope="random modules of six varieties, L <= 4, H = 2, D = 4, E = 3")
