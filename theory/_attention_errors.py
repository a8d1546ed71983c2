"""How far rounding takes the stored numbers of attention at one input from the exact ones.

The exact operator is that of the float weights and the float input with exact elementary functions.
A bound ρ of the ℓ2 distance between stored and exact is kept for every query, key, value and output
of a head (each token and head by itself), a relative one for attention weights, and one in the
Frobenius norm for the differentials E and F of queries and keys. All bounds are sums and products
of nonnegative terms; GUARD covers the roundings of their own evaluation. Assumed besides the
standard model: NumPy's exp, sin, cos and power err by at most ELEMENTARY units 2⁻⁵³ (relative to
the result; absolutely for sin and cos).

Shape suffixes: L tokens, N visible tokens, D width, H query heads, G key/value groups, K key width,
V value width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from theory._row_maps import IntArray, sizes_from_above
from theory.arguments import FloatArray
from theory.attention import AttentionAt
from theory.normaliser import NormaliserAt
from theory.rotary import Rotary
from verify.rounding import UNDERFLOW, UNIT_ROUNDOFF, gamma

ELEMENTARY = 8
# Far fewer than 10⁶ roundings lie between the stored numbers and a bound.
GUARD = 1.0 + 1e-9
# Probabilities that underflow are below this.
_VANISHING = 2.0**-1000


@dataclass(frozen=True, eq=False)
class _Projected:
    """Queries or keys: sizes ‖x‖ and errors ρ of the vectors (H, L); of the factors that take
    a token's differential to theirs, bounds of Frobenius norms and errors (H, L)."""

    sizes: FloatArray
    errors: FloatArray
    factor_sizes: FloatArray
    factor_errors: FloatArray


class AttentionErrors:
    """Bounds for every quantity of one AttentionAt; `of_row` combines them for one output row."""

    def __init__(self, at: AttentionAt) -> None:
        module = at.attention
        self._at = at
        self._groups_H = np.arange(module.heads) // (module.heads // module.groups)
        self._outputs_H = _frobenius(module.output_HVE)
        self._value_weights_H = _frobenius(module.value_GDV)[self._groups_H]
        value_errors_GL = _projection_errors(at.U, module.value_GDV, module.value_bias_GV)
        self._value_errors_HL = value_errors_GL[self._groups_H]
        self._value_sizes_HL = sizes_from_above(at.values_GLV)[self._groups_H]
        turning_L = _rotation_errors(module.rotary, len(at.U))
        self._queries = _projected(
            at.queries_HLK,
            _frobenius(module.query_HDK),
            _projection_errors(at.U, module.query_HDK, module.query_bias_HK),
            at._query_norm,
            turning_L,
        )
        keys = _projected(
            at.keys_GLK,
            _frobenius(module.key_GDK),
            _projection_errors(at.U, module.key_GDK, module.key_bias_GK),
            at._key_norm,
            turning_L,
        )
        self._keys = _Projected(
            keys.sizes[self._groups_H],
            keys.errors[self._groups_H],
            keys.factor_sizes[self._groups_H],
            keys.factor_errors[self._groups_H],
        )

    def of_row(
        self,
        i: int,
        tokens_N: IntArray,
        a_HN: FloatArray,
        l_HND: FloatArray,
        delta_HNV: FloatArray,
    ) -> float:
        """A bound of Σ_j ‖M_ij − M_ij*‖₂, M_ij* the exact block, M_ij that of the stored factors.

        The stored factors are the attention weights a, the vectors ℓ and δ, the query term and the
        weight matrices; theory._attention_rows says how they make up a block.
        """
        module = self._at.attention
        factor, head_width = module.score_factor, module.head_width
        count = len(self._at.U) + 8
        query, query_error = self._queries.sizes[:, [i]], self._queries.errors[:, [i]]
        key, key_error = self._keys.sizes[:, tokens_N], self._keys.errors[:, tokens_N]
        value, value_error = (x[:, tokens_N] for x in (self._value_sizes_HL, self._value_errors_HL))

        a_error = self._weight_errors(i, tokens_N, a_HN)
        # o_i = Σ a v, its own summation included; δ = v − o.
        output_error = np.sum(
            a_error * (value + value_error) + a_HN * (value_error + gamma(count) * value),
            axis=1,
            keepdims=True,
        )
        delta = sizes_from_above(delta_HNV)
        delta_error = value_error + output_error + UNIT_ROUNDOFF * delta
        delta_most = delta + delta_error
        # ℓ = factor · F q.
        l = sizes_from_above(l_HND)
        l_error = factor * (
            self._keys.factor_errors[:, tokens_N] * (query + query_error)
            + self._keys.factor_sizes[:, tokens_N] * (query_error + gamma(head_width + 8) * query)
        )
        slope_error = l_error * delta_most + l * delta_error
        block_errors = a_error * (self._value_weights_H[:, np.newaxis] + (l + l_error) * delta_most)
        block_errors += a_HN * slope_error

        # The query term E C with C = factor · Σ_j a k δᵀ.
        key_most = key + key_error
        covariance = factor * np.sum((a_HN + a_error) * key_most * delta_most, axis=1)
        covariance_error = factor * np.sum(
            a_error * key_most * delta_most
            + a_HN * (key_error * delta_most + key * delta_error + gamma(count) * key * delta),
            axis=1,
        )
        own_factor = self._queries.factor_sizes[:, i]
        own_error = own_factor * (covariance_error + gamma(head_width + 4) * covariance)
        own_error += self._queries.factor_errors[:, i] * covariance
        total = float((block_errors.sum(axis=1) + own_error) @ self._outputs_H)
        return total * GUARD if math.isfinite(total) else math.inf

    def _weight_errors(self, i: int, tokens_N: IntArray, a_HN: FloatArray) -> FloatArray:
        """|a − a*| of row i at the tokens given: shape (H, N); 0 where hidden."""
        at, module = self._at, self._at.attention
        query, query_error = self._queries.sizes[:, [i]], self._queries.errors[:, [i]]
        key, key_error = self._keys.sizes[:, tokens_N], self._keys.errors[:, tokens_N]
        score_errors = query_error * (key + key_error) + query * key_error
        score_errors += gamma(module.head_width + 8) * query * key
        visible = at.visible_HLL[:, i, tokens_N]
        scores = np.where(visible, at.scores_HLL[:, i, tokens_N], -np.inf)
        below_peak = np.where(visible, np.max(scores, axis=1, keepdims=True) - scores, 0.0)
        errors = module.score_factor * score_errors
        errors += 4.0 * UNIT_ROUNDOFF * below_peak / module.tau
        # The normalising sum is a mean of exponentials: it errs by the worst exponent's error.
        errors = np.where(visible, errors, 0.0)
        errors += np.max(errors, axis=1, keepdims=True) + gamma(len(at.U) + 2 * ELEMENTARY + 8)
        relative = np.expm1(np.minimum(errors, 700.0)) * (1.0 + 1e-12)
        return np.where(visible, a_HN * relative + _VANISHING, 0.0)


def _projection_errors(
    U_LD: FloatArray, weights_HDK: FloatArray, bias_HK: FloatArray | None
) -> FloatArray:
    """ρ of u W + b for every head and token: shape (H, L)."""
    magnitudes = np.multiply.outer(_frobenius(weights_HDK), sizes_from_above(U_LD))
    if bias_HK is not None:
        magnitudes += sizes_from_above(bias_HK)[:, np.newaxis]
    lost = np.where(magnitudes > 0.0, U_LD.shape[1] * weights_HDK.shape[2] * UNDERFLOW, 0.0)
    return np.asarray(gamma(U_LD.shape[1] + 2) * magnitudes + lost)


def _rotation_errors(rotary: Rotary | None, length: int) -> FloatArray | None:
    """‖R_j − R_j*‖₂ of the stored rotations, with the rounding of applying one: shape (L,)."""
    if rotary is None:
        return None
    positions = np.arange(length) if rotary.positions is None else np.asarray(rotary.positions)
    # The frequency base^x errs by |x ln base| <= ln base units for the rounding of x <= 1, and by
    # the power's own; a frequency is at most 1, so that no angle exceeds its position.
    angle_errors = np.abs(positions) * (math.log(rotary.base) + ELEMENTARY + 4.0)
    return np.asarray(UNIT_ROUNDOFF * (2.0 * (angle_errors + ELEMENTARY) + 4.0))


def _projected(
    vectors_HLK: FloatArray,
    weights_H: FloatArray,
    raw_errors_HL: FloatArray,
    norm: NormaliserAt | None,
    turning_L: FloatArray | None,
) -> _Projected:
    """From the errors of a projection to those after normalisation and rotation.

    weights_H: Frobenius norms of the projections.
    """
    sizes = sizes_from_above(vectors_HLK)
    errors = raw_errors_HL
    factor_sizes = np.broadcast_to(weights_H[:, np.newaxis], sizes.shape)
    factor_errors = np.zeros(sizes.shape)
    if norm is not None:
        width = vectors_HLK.shape[2]
        root = math.sqrt(width)
        largest = float(np.max(np.abs(norm.normaliser.gamma)))
        # Normalising costs a few roundings times the width for the sums; centring, relative to the
        # centred token, at most 2√K times as much.
        own = 16.0 * width * root * UNIT_ROUNDOFF
        # x -> x̂ and x -> σ have slopes of at most 1/σ and 1/√K on the way from exact to stored.
        least = norm.sigma * (1.0 - own) - errors / root
        with np.errstate(divide="ignore", invalid="ignore"):
            hat_errors = np.where(least > 0.0, errors / least, np.inf) + own * root
            relative = np.where(least > 0.0, errors / (root * least), np.inf) + own
            # The Jacobian γ(P − x̂x̂ᵀ/K)/σ: its middle part, then 1/σ.
            middle = (2.0 * hat_errors / root + hat_errors**2 / width) + relative + own
            slopes = np.where(least > 0.0, largest / least, np.inf)
        factor_errors = factor_sizes * slopes * middle
        factor_sizes = factor_sizes * slopes
        errors = largest * hat_errors + 2.0 * UNIT_ROUNDOFF * sizes
        if norm.normaliser.beta is not None:
            shift = float(np.linalg.norm(norm.normaliser.beta))
            errors = errors + 2.0 * UNIT_ROUNDOFF * shift
    if turning_L is not None:
        errors = errors + turning_L * (sizes + errors) * (1.0 + 2.0 * turning_L)
        factor_errors = factor_errors + turning_L * (factor_sizes + factor_errors)
    return _Projected(sizes, errors, factor_sizes, factor_errors)


def _frobenius(x_HDV: FloatArray) -> FloatArray:
    """Frobenius norms of each of several matrices: shape (H,)."""
    return sizes_from_above(x_HDV.reshape(len(x_HDV), -1))
