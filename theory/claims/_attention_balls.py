"""The differential of attention at float weights and a float input, in balls from its definition.

Slow, for small sizes; shares no code with theory.attention. Shape suffixes as there.
"""

from __future__ import annotations

import flint
import numpy as np

from theory.arguments import FloatArray
from theory.attention import Attention
from theory.normaliser import Normaliser
from theory.rotary import Rotary
from verify.exact import Ball, ball

BallMatrix = flint.arb_mat


def row_blocks(module: Attention, U: FloatArray, i: int) -> list[BallMatrix]:
    """Enclosures of the blocks M_ij of output row i, one (D, E) matrix for each token j."""
    length, width = U.shape
    tokens = [flint.arb_mat([row]) for row in U.tolist()]
    shown = module.visible(length)
    factor = (
        ball(1) / ball(module.head_width).sqrt() if module.scale is None else ball(module.scale)
    )
    factor /= ball(module.tau)
    blocks = [flint.arb_mat(width, module.output_width) for _ in tokens]
    for h in range(module.heads):
        g = h * module.groups // module.heads
        query, query_slope = _projected(
            module.query_HDK[h], module.query_bias_HK, h, module.query_norm, module, tokens[i], i
        )
        keys, slopes, values = [], [], []
        value_weights = _matrix(module.value_GDV[g])
        for j, token in enumerate(tokens):
            key, slope = _projected(
                module.key_GDK[g], module.key_bias_GK, g, module.key_norm, module, token, j
            )
            keys.append(key)
            slopes.append(slope)
            values.append(_with_bias(token * value_weights, module.value_bias_GV, g))
        seen = [j for j in range(length) if shown[h, i, j]]
        exponents = {j: (query * keys[j].transpose())[0, 0] * factor for j in seen}
        masses = {j: exponents[j].exp() for j in seen}
        total = sum(masses.values(), ball(0))
        a = [masses[j] / total if j in masses else ball(0) for j in range(length)]
        # dO_i = Σ_k ds_k (a_k v_k − a_k Σ_l a_l v_l) + Σ_j a_j dv_j.
        mean = sum((values[k] * a[k] for k in seen), values[0] * ball(0))
        drift = {k: values[k] * a[k] - mean * a[k] for k in seen}
        output = _matrix(module.output_HVE[h])
        for j in range(length):
            moved = value_weights * a[j]
            if j in drift:
                moved += slopes[j] * query.transpose() * drift[j] * factor
            if j == i:
                for k in seen:
                    moved += query_slope * keys[k].transpose() * drift[k] * factor
            blocks[j] += moved * output
    return blocks


def _projected(
    weights: FloatArray,
    bias: FloatArray | None,
    which: int,
    norm: Normaliser | None,
    module: Attention,
    token: BallMatrix,
    place: int,
) -> tuple[BallMatrix, BallMatrix]:
    """A query or key (1, K) and its derivative (D, K) in its token."""
    slope = _matrix(weights)
    vector = _with_bias(token * slope, bias, which)
    if norm is not None:
        vector, inner = _normalised(vector, norm)
        slope = slope * inner
    if module.rotary is not None:
        turn = _rotation(module.rotary, module.head_width, place)
        vector, slope = vector * turn, slope * turn
    return vector, slope


def _normalised(vector: BallMatrix, norm: Normaliser) -> tuple[BallMatrix, BallMatrix]:
    """LayerNorm or RMSNorm of a row (1, K), and ∂out_e/∂x_d at [d, e]."""
    width = norm.width
    identity = _identity(width)
    centring = identity
    if norm.kind == "layer":
        centring = identity - flint.arb_mat(width, width, [ball(1) / width] * width**2)
    centred = vector * centring
    sigma = ((centred * centred.transpose())[0, 0] / width + ball(norm.eps)).sqrt()
    hat = centred / sigma
    scale = _diagonal([ball(value) for value in norm.gamma.tolist()])
    slope = centring * (identity - hat.transpose() * hat / width) * scale / sigma
    out = hat * scale
    return (out if norm.beta is None else out + flint.arb_mat([norm.beta.tolist()])), slope


def _rotation(rotary: Rotary, head_width: int, place: int) -> BallMatrix:
    """R with x -> xR for rows x: pair p turns by position · base^(−2p/w)."""
    width = head_width if rotary.width is None else rotary.width
    position = place if rotary.positions is None else float(np.asarray(rotary.positions)[place])
    turn = _identity(head_width)
    pairs = width // 2
    for p in range(pairs):
        first, second = (2 * p, 2 * p + 1) if rotary.interleaved else (p, p + pairs)
        angle = ball(position) * ball(rotary.base) ** (ball(-2 * p) / width)
        turn[first, first] = turn[second, second] = angle.cos()
        turn[first, second], turn[second, first] = angle.sin(), -angle.sin()
    return turn


def _with_bias(row: BallMatrix, bias: FloatArray | None, which: int) -> BallMatrix:
    return row if bias is None else row + flint.arb_mat([bias[which].tolist()])


def _matrix(array: FloatArray) -> BallMatrix:
    return flint.arb_mat(array.tolist())


def _identity(size: int) -> BallMatrix:
    return _diagonal([ball(1)] * size)


def _diagonal(entries: list[Ball]) -> BallMatrix:
    matrix = flint.arb_mat(len(entries), len(entries))
    for k, entry in enumerate(entries):
        matrix[k, k] = entry
    return matrix
