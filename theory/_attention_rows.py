"""The rows of attention's differential at one input, without forming their blocks.

Block j of row i is M_j = Σ_h a_jh [W^V_h + ℓ_jh δ_jhᵀ] W^O_h, plus Σ_h Q_h W^O_h for j = i, with
the attention weights a_jh, ℓ_jh = (scale/τ) F^h_j q^h_i, δ_jh = v^h_j − o^h_i and the query term
Q_h = E^h_i C^h_i of theory.attention. So a product with all blocks costs about N·H·D
multiplications, and Σ_j c_j M_jᵀM_j = Wᵀ(Σ_j c_j T_jᵀT_j)W with W the stacked W^O_h and T_j of
shape (D, HV).

Shape suffixes: N visible tokens, D width, H query heads, G key/value groups, K key width, V value
width, E output width, R columns at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from theory._attention_errors import AttentionErrors
from theory._row_maps import IntArray, sizes_from_above
from theory.arguments import FloatArray
from theory.attention import AttentionAt
from verify.definite import spectral_norm_upper_bound
from verify.rounding import UNDERFLOW, gamma, upward


@dataclass(frozen=True, eq=False)
class _Weights:
    """What all rows share. gram_GVGV: W^V_gᵀW^V_g'; sizes are Frobenius norms, rounded up."""

    value_GDV: FloatArray
    output_HVE: FloatArray
    groups_H: IntArray
    gram_GVGV: FloatArray
    value_sizes_H: FloatArray
    output_sizes_H: FloatArray
    # Upper bounds of spectral norms, for cheap bounds alone.
    value_norms_H: FloatArray
    output_norm: float


class AttentionRow:
    """Row i of the differential; see the module."""

    def __init__(self, at: AttentionAt, shared: _Weights, errors: AttentionErrors, i: int) -> None:
        # The query term stays where a token does not see itself.
        seen = at.visible_HLL[:, i].any(axis=0) | (np.arange(len(at.U)) == i)
        self.tokens: IntArray = np.flatnonzero(seen)
        self._own = int(np.searchsorted(self.tokens, i))
        self._shared = shared
        module = at.attention
        self._a_NH = np.ascontiguousarray(at.probabilities_HLL[:, i, self.tokens].T)
        values_HNV = module.per_head(at.values_GLV)[:, self.tokens]
        deltas_HNV = values_HNV - at.head_outputs_HLV[:, i, np.newaxis]
        self._delta_NHV = np.ascontiguousarray(np.moveaxis(deltas_HNV, 0, 1))
        self._l_NHD = _key_sides(at, i, self.tokens)
        keys_HNK = module.per_head(at.keys_GLK)[:, self.tokens]
        weighted_HNK = module.score_factor * self._a_NH.T[:, :, np.newaxis] * keys_HNK
        covariance_HKV = np.swapaxes(weighted_HNK, 1, 2) @ deltas_HNV
        self._query_HDV = at.query_factor_HDK(i) @ covariance_HKV
        self.operator_error = errors.of_row(
            i, self.tokens, self._a_NH.T, np.moveaxis(self._l_NHD, 0, 1), deltas_HNV
        )

    def apply(self, y_ER: FloatArray) -> FloatArray:
        shared, columns = self._shared, y_ER.shape[1]
        heads, width = self._l_NHD.shape[1:]
        z_HVR = shared.output_HVE @ y_ER
        carried_HDR = shared.value_GDV[shared.groups_H] @ z_HVR
        x_NDR = (self._a_NH @ carried_HDR.reshape(heads, -1)).reshape(-1, width, columns)
        slopes_NHR = np.moveaxis(np.moveaxis(self._delta_NHV, 0, 1) @ z_HVR, 0, 1)
        slopes_NHR *= self._a_NH[:, :, np.newaxis]
        x_NDR += np.swapaxes(self._l_NHD, 1, 2) @ slopes_NHR
        x_NDR[self._own] += np.einsum("HDV,HVR->DR", self._query_HDV, z_HVR, optimize=True)
        return x_NDR

    def adjoint(self, x_NDR: FloatArray) -> FloatArray:
        shared, (n, width, columns) = self._shared, x_NDR.shape
        heads = self._a_NH.shape[1]
        gathered_HDR = (self._a_NH.T @ x_NDR.reshape(n, -1)).reshape(heads, width, columns)
        z_HVR = np.swapaxes(shared.value_GDV[shared.groups_H], 1, 2) @ gathered_HDR
        slopes_NHR = self._l_NHD @ x_NDR
        slopes_NHR *= self._a_NH[:, :, np.newaxis]
        deltas_HVN = np.moveaxis(self._delta_NHV, 0, 2)
        z_HVR += deltas_HVN @ np.moveaxis(slopes_NHR, 0, 1)
        z_HVR += np.swapaxes(self._query_HDV, 1, 2) @ x_NDR[self._own]
        return np.asarray(np.einsum("HVE,HVR->ER", shared.output_HVE, z_HVR, optimize=True))

    def gram(self, multipliers_N: FloatArray) -> FloatArray:
        shared = self._shared
        n, heads, value_width = self._delta_NHV.shape
        weighted_NH = self._a_NH * multipliers_N[:, np.newaxis]
        half = np.empty((heads, value_width, heads, value_width))
        # Half of the sum, so that half + halfᵀ is the whole: the values' own part is halved, the
        # mixed part is taken once, and the part of two slopes is halved.
        mass_HH = 0.5 * (weighted_NH.T @ self._a_NH)
        for h in range(heads):
            left_NHV = 0.5 * self._ll_NHH[:, :, h, np.newaxis] * self._delta_NHV
            left_NHV += self._pulled_NHVH[..., h]
            left_NHV *= (weighted_NH[:, h, np.newaxis] * self._a_NH)[:, :, np.newaxis]
            product = left_NHV.reshape(n, -1).T @ self._delta_NHV[:, h]
            half[:, :, h] = product.reshape(heads, value_width, value_width)
            half[:, :, h] += (
                mass_HH[:, h, np.newaxis, np.newaxis]
                * (shared.gram_GVGV[shared.groups_H, :, shared.groups_H[h]])
            )
        total = half.reshape(heads * value_width, -1)
        own, with_half_query = self._own_token
        total += multipliers_N[self._own] * (with_half_query.T @ own)
        total = total + total.T
        stacked = shared.output_HVE.reshape(heads * value_width, -1)
        gram = stacked.T @ (total @ stacked)
        return (gram + gram.T) / 2

    def apply_error(self) -> float:
        heads, value_width = self._delta_NHV.shape[1:]
        outputs = self._shared.output_HVE.shape[2]
        # Along any path: the product with W^O, that with a value, slope or query matrix, the sums
        # over heads, and single products.
        roundings = outputs + (heads + 1) * value_width + 2 * heads + 8
        total = upward(float(self._sizes_N.sum()), len(self.tokens) + 2)
        return upward(gamma(roundings) * total + self._lost, 4)

    def gram_error(self, multipliers_N: FloatArray) -> float:
        heads, value_width = self._delta_NHV.shape[1:]
        n, width, outputs = len(self.tokens), self._l_NHD.shape[2], self._shared.output_HVE.shape[2]
        roundings = 2 * width + 2 * n + 4 * heads * value_width + 2 * outputs + 40
        # With absolute values in place of all terms the sum is Σ_j c_j (|T_j||W|)ᵀ|T_j||W|, where
        # |T_j| adds up its terms' absolute values; ‖|T_j||W|‖_F is at most sizes_N[j].
        total = upward(float(multipliers_N @ self._sizes_N**2), n + 4)
        return upward(gamma(roundings) * total + self._lost * (1.0 + total), 6)

    def cheap_bound(self) -> float:
        """Σ_j of a bound of ‖M_j‖₂ by the norms of its factors, operator_error included."""
        slopes_NH = sizes_from_above(self._l_NHD) * sizes_from_above(self._delta_NHV)
        terms_NH = self._a_NH * (self._shared.value_norms_H + slopes_NH)
        terms_NH[self._own] += sizes_from_above(self._query_HDV.reshape(len(self._query_HDV), -1))
        total = float(np.linalg.norm(terms_NH, axis=1).sum()) * self._shared.output_norm
        roundings = sum(self._l_NHD.shape) + 2 * self._query_HDV[0].size + 16
        return upward(upward(total, roundings) + self.operator_error + self._lost, 4)

    @cached_property
    def _sizes_N(self) -> FloatArray:
        """Bounds of ‖|T_j||W|‖_F, where |T_j| takes the absolute value of every term."""
        shared = self._shared
        slopes_NH = sizes_from_above(self._l_NHD) * sizes_from_above(self._delta_NHV)
        sizes_N = (self._a_NH * (shared.value_sizes_H + slopes_NH)) @ shared.output_sizes_H
        queries_H = sizes_from_above(self._query_HDV.reshape(len(self._query_HDV), -1))
        sizes_N[self._own] += queries_H @ shared.output_sizes_H
        roundings = sum(self._l_NHD.shape) + 2 * self._query_HDV[0].size + 16
        return np.array([upward(float(size), roundings) for size in sizes_N])

    @property
    def _lost(self) -> float:
        """What underflow in any of the products can lose, generously."""
        return self._l_NHD.size * self._query_HDV.size * UNDERFLOW if self._sizes_N.any() else 0.0

    @cached_property
    def _ll_NHH(self) -> FloatArray:
        return self._l_NHD @ np.swapaxes(self._l_NHD, 1, 2)

    @cached_property
    def _pulled_NHVH(self) -> FloatArray:
        """W^V_hᵀ ℓ_jh' for all pairs of heads, [j, h, :, h']."""
        n, heads, width = self._l_NHD.shape
        groups, _, value_width = self._shared.value_GDV.shape
        values_D_GV = np.moveaxis(self._shared.value_GDV, 0, 1).reshape(width, -1)
        pulled = (self._l_NHD.reshape(-1, width) @ values_D_GV).reshape(
            n, heads, groups, value_width
        )
        return np.ascontiguousarray(np.moveaxis(pulled, 1, 3)[:, self._shared.groups_H])

    @cached_property
    def _own_token(self) -> tuple[FloatArray, FloatArray]:
        """(Q, T_i without its query term + Q/2), both (D, HV), for the gram of token i itself."""
        shared, own = self._shared, self._own
        plain_HDV = shared.value_GDV[shared.groups_H] + np.einsum(
            "HD,HV->HDV", self._l_NHD[own], self._delta_NHV[own]
        )
        plain_HDV = self._a_NH[own][:, np.newaxis, np.newaxis] * plain_HDV + 0.5 * self._query_HDV
        width = plain_HDV.shape[1]
        flat = [np.moveaxis(x, 0, 1).reshape(width, -1) for x in (self._query_HDV, plain_HDV)]
        return flat[0], flat[1]


class AttentionRows:
    """All rows; proved for the operator at its float weights and input, see AttentionErrors."""

    covers_exact_operator = True
    exponent = 0

    def __init__(self, at: AttentionAt) -> None:
        self._at = at
        self.input_shape = at.input_shape
        self.output_shape = at.output_shape
        self._errors = AttentionErrors(at)
        self._shared = _shared_weights(at)

    def row(self, index: int) -> AttentionRow:
        return AttentionRow(self._at, self._shared, self._errors, index)


def _shared_weights(at: AttentionAt) -> _Weights:
    module = at.attention
    groups_H = np.arange(module.heads) // (module.heads // module.groups)
    groups, width, value_width = module.value_GDV.shape
    flat = np.moveaxis(module.value_GDV, 0, 1).reshape(width, groups * value_width)
    gram = (flat.T @ flat).reshape(groups, value_width, groups, value_width)
    roundings = width * (value_width + 1) + module.output_HVE[0].size + 4
    return _Weights(
        value_GDV=module.value_GDV,
        output_HVE=module.output_HVE,
        groups_H=groups_H,
        gram_GVGV=gram,
        value_sizes_H=_frobenius(module.value_GDV, roundings)[groups_H],
        output_sizes_H=_frobenius(module.output_HVE, roundings),
        value_norms_H=np.array([spectral_norm_upper_bound(w) for w in module.value_GDV])[groups_H],
        output_norm=spectral_norm_upper_bound(np.concatenate(list(module.output_HVE))),
    )


def _key_sides(at: AttentionAt, i: int, tokens: IntArray) -> FloatArray:
    """ℓ_jh = (scale/τ) F^h_j q^h_i for the tokens given: shape (N, H, D)."""
    module = at.attention
    pulled_HLK = np.repeat(at.queries_HLK[:, [i]], at.U.shape[0], axis=1)
    if at._rotation is not None:
        pulled_HLK = at._rotation.undo(pulled_HLK)
    pulled_GRLK = pulled_HLK.reshape(module.groups, -1, *pulled_HLK.shape[1:])
    if at._key_norm is not None:
        pulled_GRLK = np.swapaxes(at._key_norm.pull(np.swapaxes(pulled_GRLK, 0, 1)), 0, 1)
    pulled_GXK = pulled_GRLK[:, :, tokens].reshape(module.groups, -1, module.head_width)
    sides_GXD = pulled_GXK @ np.swapaxes(module.score_factor * module.key_GDK, 1, 2)
    sides_HND = sides_GXD.reshape(module.heads, len(tokens), module.width)
    return np.ascontiguousarray(np.moveaxis(sides_HND, 0, 1))


def _frobenius(x_HDV: FloatArray, roundings: int) -> FloatArray:
    sizes = sizes_from_above(x_HDV.reshape(len(x_HDV), -1))
    return np.array([upward(float(size), roundings) for size in sizes])
