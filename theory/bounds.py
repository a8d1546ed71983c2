"""Upper bounds of ‖D MHA(U)‖ in the norm block-∞/RMS -> block-∞/RMS, from the paper's to sharper.

As a rule from coarse to sharp: `theorem_4_1_bound` (the paper's), `measured_head_norm_bound` (its
proof with the norms that occur at U), `gauge_fixed_bound` (half ranges and half diameters in place
of maxima), `covariance_bound` and `moment_bound` (the differential written with covariances; the
gauge-fixed bound may lie below them where heads carry different parts). The last four hold with
biases, grouped heads, masks, rotary positions and QK-norm. `corollary_4_2_bound` holds on a whole
ball. What they prove is an upper bound; for a proved interval around the norm itself see
theory.opnorm.

All are floating-point computations, rounded up by `margin`: an estimate to first order of what
rounding can take, which is a part of `value`. It is not proved, unlike theory.opnorm's figures.

Throughout, ‖M_i·‖ stands for the norm of output row i: max over ‖y‖₂ = 1 of Σ_j ‖M_ij y‖₂ with the
blocks M_ij of theory.attention, times √(D/E) where input and output differ in width.

Shape suffixes: as in theory.attention.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from theory._bound_parts import (
    AttentionNorms,
    attention_norms,
    centred_values,
    deflated_bound,
    gram_margin,
    half_diameters,
    half_diameters_of_rows,
    key_grams,
    largest_slopes,
    leading_right_vectors,
    pairwise_distances,
    query_triangles,
    rounding_margin,
    sum_of_largest,
    trace_power_norms,
)
from theory.arguments import FloatArray, as_real_scalar
from theory.attention import Attention, AttentionAt
from theory.theta import theta_rows

__all__ = [
    "AttentionNorms",
    "HeadBound",
    "RowBound",
    "attention_norms",
    "corollary_4_2_bound",
    "covariance_bound",
    "gauge_fixed_bound",
    "measured_head_norm_bound",
    "moment_bound",
    "theorem_4_1_bound",
]

# How many references Γ* are tried, and how much of each in every row's Γ; see `_value_parts`.
_REFERENCES = 12
# How often the weights of the value part are refined where it decides.
_REWEIGHTS = 5
_SHARES = (0.0, 0.25, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.6, 2.0)
# Singular vectors that are split off before the rest is bounded coarsely.
_LEADING = 4
# How often the weights of `moment_bound` are refined.
_PASSES = 4
# Rows whose inner products are formed by one product of matrices.
_ROWS_AT_ONCE = 32
# What a token's weight keeps, as a share of equal weights: small weights amplify rounding.
_LEAST_SHARE = 0.02


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadBound:
    """A bound that is a sum over heads.

    value: the bound. value_path, attention_path: its two parts, through V and through A; they add
    up to value with margin. theta_H: the largest θ of a row of each head (1 where it is not used).
    covered: whether the module satisfies the hypotheses; where it does not, `value` is the formula
    and no bound, and `missing` says what is not covered. margin: what was added for rounding.
    """

    value: float
    value_path: float
    attention_path: float
    theta_H: FloatArray
    margin: float
    covered: bool = True
    missing: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowBound:
    """A bound that is a maximum over output rows.

    value: the bound. row: the row that decides it. rows_L: the bound of every row, margin included.
    value_L, key_L, query_L: for each row the parts through the values, through the keys of all
    tokens and through the row's own query. How they make up rows_L: see the function that returned
    this. margin: what was added for rounding, the same for all rows.
    """

    value: float
    row: int
    rows_L: FloatArray
    value_L: FloatArray
    key_L: FloatArray
    query_L: FloatArray
    margin: float


# -------------------------------------------------------------------------- the paper's bounds


def theorem_4_1_bound(
    attention: Attention, U: npt.ArrayLike, *, norms: AttentionNorms | None = None
) -> HeadBound:
    """Theorem 4.1 as written: ‖W^O‖₂ Σ_h (‖W^V_h‖₂ + θ̃_h/τ · 2B²/√d_h · ‖W^Q_h‖₂‖W^K_h‖₂‖W^V_h‖₂).

    U: (L, D); B = max_i ‖u_i‖₂; θ̃_h is the largest θ of a row of head h, exactly. The module's own
    scale stands in for 1/√d_h. An upper bound for modules without biases and without QK-norm, with
    any mask and rotary positions (which keep all norms); for others `covered` is False. Errors as
    in `Attention.at`.
    """
    at = attention.at(U)
    norms = attention_norms(attention) if norms is None else norms
    reach = float(np.max(np.linalg.norm(at.U, axis=1)))
    theta_H = np.max(theta_rows(at.probabilities_HLL), axis=1)
    return _paper_bound(
        attention, norms, reach, theta_H, rounding_margin(at, norms) * _width_factor(attention)
    )


def corollary_4_2_bound(
    attention: Attention, B: float, *, norms: AttentionNorms | None = None
) -> HeadBound:
    """Corollary 4.2: a Lipschitz constant of the module on {U: ‖U‖_{∞,rms} <= B}.

    ‖W^O‖₂ Σ_h (‖W^V_h‖₂ + 2dB²/(τ√d_h) · ‖W^Q_h‖₂‖W^K_h‖₂‖W^V_h‖₂), in the norm block-∞/RMS, for
    every number of tokens that the mask allows. B >= 0. Covered as in `theorem_4_1_bound`. Raises
    ValueError for a negative B.
    """
    radius = as_real_scalar(B, "B")
    if radius < 0.0:
        raise ValueError(f"B is {radius}: negative")
    norms = attention_norms(attention) if norms is None else norms
    reach = radius * float(np.sqrt(attention.width))
    return _paper_bound(attention, norms, reach, np.ones(attention.heads), None)


def _paper_bound(
    attention: Attention,
    norms: AttentionNorms,
    reach: float,
    theta_H: FloatArray,
    margin: float | None,
) -> HeadBound:
    outside = [
        name
        for name in ("query_bias_HK", "key_bias_GK", "value_bias_GV", "query_norm", "key_norm")
        if getattr(attention, name) is not None
    ]
    factor = norms.output * _width_factor(attention)
    value_path = factor * float(np.sum(norms.value_H))
    products_H = norms.query_H * norms.key_H * norms.value_H
    coefficient = 2.0 * reach**2 * attention.score_factor
    attention_path = factor * coefficient * float(np.sum(theta_H * products_H))
    if margin is None:
        # Nothing cancels: the roundings are those of the norms alone.
        size = max(attention.width, attention.heads * attention.value_width)
        margin = float(np.spacing(1.0)) * 8.0 * size**1.5 * (value_path + attention_path)
    return HeadBound(
        value=value_path + attention_path + margin,
        value_path=value_path,
        attention_path=attention_path,
        theta_H=theta_H,
        margin=margin,
        covered=not outside,
        missing=", ".join(outside),
    )


def measured_head_norm_bound(at: AttentionAt, *, norms: AttentionNorms | None = None) -> HeadBound:
    """Theorem 4.1's proof with the head norms that occur at U; holds with biases and QK-norm.

    ‖W^O‖₂ Σ_h (‖W^V_h‖₂ + θ̃_h scale/τ (max‖E_i‖₂ max‖k_j‖₂ + max‖F_j‖₂ max‖q_i‖₂) max‖v_j‖₂), an
    upper bound: in the proof ‖U W^K‖_{∞,2} and its like occur, and only then are replaced by
    products of norms.
    """
    norms = attention_norms(at.attention) if norms is None else norms
    module = at.attention
    query_slope_H, key_slope_H = largest_slopes(at, norms)
    values_H, keys_H, queries_H = (
        np.max(np.linalg.norm(x, axis=2), axis=1)
        for x in (module.per_head(at.values_GLV), module.per_head(at.keys_GLK), at.queries_HLK)
    )
    theta_H = np.max(theta_rows(at.probabilities_HLL), axis=1)
    scores_H = module.score_factor * (query_slope_H * keys_H + key_slope_H * queries_H)
    factor = norms.output * _width_factor(module)
    value_path = factor * float(np.sum(norms.value_H))
    attention_path = factor * float(np.sum(theta_H * scores_H * values_H))
    margin = rounding_margin(at, norms) * _width_factor(module)
    return HeadBound(
        value=value_path + attention_path + margin,
        value_path=value_path,
        attention_path=attention_path,
        theta_H=theta_H,
        margin=margin,
    )


# ------------------------------------------------------------------------------ gauge-fixed


def gauge_fixed_bound(at: AttentionAt, *, norms: AttentionNorms | None = None) -> RowBound:
    """max_i ‖W^O‖₂ √Σ_h (value + key + query)², with ranges where Theorem 4.1 has maxima.

    For row i and head h, over the visible keys j: value is ‖W^V_h‖₂; key is θ_hi · (half the range
    of the score changes through the keys, at most the mean of the two largest ‖F_j q_i‖₂·scale/τ) ·
    r with r half the diameter of the v_j; query is θ_hi · (half the diameter of the E_i k_j) ·
    scale/τ · r. An upper bound (claim beyond_gauge_fixed), for any biases, groups, masks, rotary
    positions and QK-norm. θ is exact (theory.theta), which is most of the cost.

    value_L, key_L, query_L: ‖W^O‖₂ times the root of the sum of squares over heads of each part;
    rows_L is at most their sum.
    """
    norms = attention_norms(at.attention) if norms is None else norms
    return _gauge_fixed(at, norms, _largest_slopes_of_keys(at, key_grams(at, norms)))


def _gauge_fixed(at: AttentionAt, norms: AttentionNorms, key_HL: FloatArray) -> RowBound:
    module = at.attention
    theta_HL, spread_HL = _thetas_and_spreads(at)
    query_HL = _query_half_diameters(at, norms) * module.score_factor
    key_part_HL = theta_HL * key_HL * spread_HL
    query_part_HL = theta_HL * query_HL * spread_HL
    value_HL = np.broadcast_to(norms.value_H[:, np.newaxis], theta_HL.shape)
    return _row_bound(
        _over_heads(at, norms, value_HL + key_part_HL + query_part_HL),
        _over_heads(at, norms, value_HL),
        _over_heads(at, norms, key_part_HL),
        _over_heads(at, norms, query_part_HL),
        rounding_margin(at, norms) * _width_factor(module),
    )


def _gauge_fixed_key(at: AttentionAt, norms: AttentionNorms, key_HL: FloatArray) -> FloatArray:
    """`_gauge_fixed`'s key_L alone: its query part costs L times as much with rotary positions."""
    theta_HL, spread_HL = _thetas_and_spreads(at)
    return _over_heads(at, norms, theta_HL * key_HL * spread_HL)


def _thetas_and_spreads(at: AttentionAt) -> tuple[FloatArray, FloatArray]:
    """θ of each head's rows, and half the diameter of the values visible there: both (H, L)."""
    values_HLL = pairwise_distances(at.attention.per_head(at.values_GLV))
    spread_HL = half_diameters_of_rows(values_HLL, at.visible_HLL)
    return theta_rows(at.probabilities_HLL), spread_HL


def _query_half_diameters(at: AttentionAt, norms: AttentionNorms) -> FloatArray:
    """Half the diameter of the E_i k_j that are visible, of every row: (H, L)."""
    keys_HLK = at.attention.per_head(at.keys_GLK)
    halves_HL = np.empty(at.visible_HLL.shape[:2])
    one_for_all: FloatArray | None = None
    for i, triangle_HKK in enumerate(query_triangles(at, norms)):
        if triangle_HKK is one_for_all:
            keys_HLL = pairwise_distances(keys_HLK @ np.swapaxes(triangle_HKK, 1, 2))
            return half_diameters_of_rows(keys_HLL, at.visible_HLL)
        one_for_all = triangle_HKK
        seen = np.flatnonzero(np.any(at.visible_HLL[:, i], axis=0))
        keys_HNN = pairwise_distances(keys_HLK[:, seen] @ np.swapaxes(triangle_HKK, 1, 2))
        halves_HL[:, i] = half_diameters(keys_HNN, at.visible_HLL[:, i][:, seen])
    return halves_HL


def _over_heads(at: AttentionAt, norms: AttentionNorms, parts_HL: FloatArray) -> FloatArray:
    """‖W^O‖₂ times the root of the sum of squares over heads, shape (L,)."""
    factor = norms.output * _width_factor(at.attention)
    return np.asarray(factor * np.linalg.norm(parts_HL, axis=0))


def _largest_slopes_of_keys(at: AttentionAt, grams: FloatArray) -> FloatArray:
    """Half the range of score changes through the keys: (H, L), the mean of the two largest
    ‖a^h_ij‖ over visible j, and 0 where one key alone is visible."""
    squares_HLL = np.moveaxis(np.diagonal(grams, axis1=2, axis2=3), 2, 0)
    sizes = np.where(at.visible_HLL, np.sqrt(np.maximum(squares_HLL, 0.0)), 0.0)
    if sizes.shape[2] == 1:
        return np.zeros(sizes.shape[:2])
    two_largest = np.partition(sizes, -2, axis=2)[:, :, -2:]
    several = np.count_nonzero(at.visible_HLL, axis=2) > 1
    return np.where(several, np.mean(two_largest, axis=2), 0.0)


# ------------------------------------------------------------------- from the covariance form


def covariance_bound(at: AttentionAt, *, norms: AttentionNorms | None = None) -> RowBound:
    """max_i (value + key + query), from the differential written with covariances.

    Row i has the blocks M_ij = Σ_h A^h_ij [W^V_h + a^h_ij (v^h_j − o^h_i)ᵀ] W^O_h, and for j = i
    the query term Σ_h E^h_i C^h_i W^O_h; each part is bounded alone, by the norms that follow
    (claim beyond_covariance).

    value: λ_max of Σ_hh' Γ_hh' P_hᵀP_h' for Γ_hh' = Σ_j A^h_ij A^h'_ij/w_j, with weights w_j in
    proportion to Σ_h ‖P_h‖A^h_ij; it is not solved for every row, but Γ is covered by sΓ* + rI with
    a few references Γ*, so that a few eigenvalue problems serve all rows.
    key: the smaller of Σ_j ‖Σ_h A^h_ij a^h_ij u^h_ijᵀ‖₂ with u^h_ij = (v^h_j − o^h_i)W^O_h, from
    H × H Gram matrices, and the key part of the gauge-fixed bound.
    query: from ‖E_i C_i W^O_h‖₂ of each head and how far the heads' spaces overlap.

    An upper bound; rows_L is the sum of the parts and the margin. Besides θ for the gauge-fixed
    part it takes L²H²(V + H) operations and more for inner products, L·H·(LKV + K³) for the
    queries', and up to a dozen products and eigenvalue problems of D × D matrices, which dominate
    for short inputs: tests/benchmarks/attention_bounds.py measures it in forward passes.
    """
    norms = attention_norms(at.attention) if norms is None else norms
    return _covariance_form(at, norms, moments=False)


def moment_bound(at: AttentionAt, *, norms: AttentionNorms | None = None) -> RowBound:
    """`covariance_bound` with a sharper key part, for inputs of up to about a hundred tokens.

    key: with weights w, the norm is at most √λ_max(G) for G = Σ_j K_jᵀK_j/w_j, K_j = Σ_h A^h_ij
    a^h_ij u^h_ijᵀ. Its nonzero eigenvalues are those of the LH × LH Gram matrix of the vectors
    √(1/w_j) Σ_h Λ_hk A^h_ij u^h_ij with ΛΛᵀ = <a^h_ij, a^h'_ij>, which needs only inner products
    that all rows share. λ_max is bounded by `deflated_bound`: a few leading vectors exactly, the
    rest by its Frobenius norm. The weights are ‖K_j‖₂ first and ‖K_j y‖₂ for the leading y
    afterwards; the smallest result is taken, and never more than the key part of
    `covariance_bound`.

    An upper bound (claim beyond_moment). Beyond what `covariance_bound` costs it takes L·(LH)²·H
    operations, the larger part of the cost with many heads already at L = 64
    (tests/benchmarks/attention_bounds.py).
    """
    norms = attention_norms(at.attention) if norms is None else norms
    return _covariance_form(at, norms, moments=True)


def _covariance_form(at: AttentionAt, norms: AttentionNorms, *, moments: bool) -> RowBound:
    grams_LLHH = key_grams(at, norms)
    factor = _width_factor(at.attention)
    key_L = np.minimum(
        factor * _key_sums(at, norms, grams_LLHH),
        _gauge_fixed_key(at, norms, _largest_slopes_of_keys(at, grams_LLHH)),
    )
    least_weight = 1.0
    if moments:
        key_L = np.minimum(key_L, factor * _key_moments(at, norms, grams_LLHH))
        least_weight = _LEAST_SHARE / len(at.U)
    query_L = factor * _query_parts(at, norms)
    value_L = factor * _value_parts(at, norms, (key_L + query_L) / factor)
    margin = factor * (rounding_margin(at, norms) + gram_margin(at, norms, least_weight))
    return _row_bound(value_L + key_L + query_L, value_L, key_L, query_L, margin)


def _value_parts(at: AttentionAt, norms: AttentionNorms, others_L: FloatArray) -> FloatArray:
    """An upper bound of max_y Σ_j ‖Σ_h A^h_ij P_h y‖ for every row i, shape (L,).

    By Cauchy–Schwarz it is at most the root of paths(Γ) = λ_max(Σ Γ_hh' P_hᵀP_h') with Γ_hh' = Σ_j
    A^h_ij A^h'_ij/w_j for any weights w with Σ w = 1. That is monotone and subadditive in Γ: so
    Γ <= s·Γ* + rI gives s·paths(Γ*) + r·paths(I) for any reference Γ*: the mean over all rows, then
    rows that decide the bound when the others' parts are added, for which the weights are improved.
    """
    weighted = at.probabilities_HLL * norms.path_H[:, np.newaxis, np.newaxis]
    shares = np.sum(weighted, axis=0)
    total_L = np.sum(shares, axis=1)
    scaled = weighted / np.sqrt(np.where(shares > 0.0, shares, 1.0))
    gamma_LHH = np.einsum("hij,gij->ihg", scaled, scaled) * total_L[:, np.newaxis, np.newaxis]
    # The triangle inequality alone: Σ_h ‖P_h‖.
    best_L = total_L**2
    reference_HH, solved = np.mean(gamma_LHH, axis=0), set[int]()
    together = norms.paths.largest(reference_HH)
    for _ in range(_REFERENCES):
        for share in _SHARES:
            rest_L = np.linalg.eigvalsh(gamma_LHH - share * reference_HH)[:, -1]
            covered_L = share * together + np.maximum(rest_L, 0.0) * norms.apart
            best_L = np.minimum(best_L, covered_L)
        deciding = int(np.argmax(np.sqrt(best_L) + others_L))
        if deciding in solved:
            break
        solved.add(deciding)
        reference_HH = _improved_gamma(weighted[:, deciding], gamma_LHH[deciding], norms)
        together = norms.paths.largest(reference_HH)
        best_L[deciding] = min(best_L[deciding], together)
    return np.sqrt(best_L)


def _improved_gamma(
    weighted_HL: FloatArray, gamma_HH: FloatArray, norms: AttentionNorms
) -> FloatArray:
    """The Γ of better weights: in proportion to ‖Σ_h A^h_ij P_h y‖ for the leading y of those
    before, half a step at a time, since full steps often go back and forth; the one that seems
    best."""
    y_E = np.random.default_rng(0).standard_normal(norms.paths.output_width)
    shares_L = _shares(np.sum(weighted_HL, axis=0))
    best_HH, least = gamma_HH, np.inf
    for _ in range(_REWEIGHTS):
        y_E, size = norms.paths.leading(gamma_HH, y_E)
        if size < least:
            best_HH, least = gamma_HH, size
        sizes_L = np.linalg.norm(weighted_HL.T @ norms.paths.images(y_E), axis=1)
        shares_L = _shares(shares_L + _shares(sizes_L))
        scaled_HL = weighted_HL / np.sqrt(shares_L)
        gamma_HH = scaled_HL @ scaled_HL.T
    return best_HH


def _shares(sizes_N: FloatArray) -> FloatArray:
    """Weights of sum 1 near the shares of the sizes; none so small that it amplifies rounding."""
    total = np.sum(sizes_N)
    shares_N = sizes_N / total if total > 0.0 else np.ones(len(sizes_N)) / len(sizes_N)
    return np.asarray((shares_N + _LEAST_SHARE / len(sizes_N)) / (1.0 + _LEAST_SHARE))


def _key_sums(at: AttentionAt, norms: AttentionNorms, grams_LLHH: FloatArray) -> FloatArray:
    """Σ_j ‖Σ_h A^h_ij a^h_ij u^h_ijᵀ‖₂ at most, for every row i, shape (L,)."""
    values_HLV = centred_values(at)
    outputs_HLV = at.probabilities_HLL @ values_HLV
    images_GLHW = np.einsum("hlv,hvgw->glhw", values_HLV, norms.output_gram_HVHV, optimize=True)
    heads, length, width = values_HLV.shape
    # Inner products of u with the values of the same token, and with every row's output.
    same_LHH = np.einsum("glhw,glw->lhg", images_GLHW, values_HLV, optimize=True)
    own_LHH = _inner_products(outputs_HLV, norms)
    flat = images_GLHW.reshape(heads, length * heads, width)
    result = np.empty(length)
    for some in np.array_split(np.arange(length), max(1, length // _ROWS_AT_ONCE)):
        crosses = flat @ np.swapaxes(outputs_HLV[:, some], 1, 2)
        for i, cross in zip(some, np.moveaxis(crosses, 2, 0), strict=True):
            cross_LHH = np.moveaxis(cross.reshape(heads, length, heads), 0, 2)
            moved_LHH = same_LHH - cross_LHH - np.swapaxes(cross_LHH, 1, 2) + own_LHH[i]
            weights_LH = at.probabilities_HLL[:, i].T
            scores_LHH = grams_LLHH[i] * weights_LH[:, :, np.newaxis] * weights_LH[:, np.newaxis]
            result[i] = np.sum(trace_power_norms(scores_LHH @ moved_LHH))
    return result


def _inner_products(outputs_HLV: FloatArray, norms: AttentionNorms) -> FloatArray:
    """<o^h_i W^O_h, o^h'_i W^O_h'> for every token i, shape (L, H, H)."""
    images = np.einsum("hlv,hvgw->lhgw", outputs_HLV, norms.output_gram_HVHV, optimize=True)
    return np.asarray(np.einsum("lhgw,glw->lhg", images, outputs_HLV, optimize=True))


def _query_parts(at: AttentionAt, norms: AttentionNorms) -> FloatArray:
    """An upper bound of ‖Σ_h E^h_i C^h_i W^O_h‖₂ for every row i, shape (L,).

    With E_i C_i W^O_h = Q_h Y_h N_h each Y_h is split in Y_h BBᵀ, for an orthonormal B of a few
    columns near its leading right singular vectors, and the rest. The norm of
    Σ_h Q_h(Y_h B)(N_hᵀB)ᵀ comes from two small Gram matrices. Of the rest, with
    n_h = ‖Y_h(I − BBᵀ)‖₂, |xᵀ(Σ)y| is at most Σ_h n_h ‖Q_hᵀx‖‖N_h y‖: factors t_h <= 1 whose sum is
    at most `overlap`.
    """
    module, heads = at.attention, at.attention.heads
    values_HLV, keys_HLK = centred_values(at), module.per_head(at.keys_GLK)
    outputs_HLV = at.probabilities_HLL @ values_HLV
    keys_HKL = np.swapaxes(keys_HLK - np.mean(keys_HLK, axis=1, keepdims=True), 1, 2)
    leading_L, rest_LH = np.empty(len(at.U)), np.empty((len(at.U), heads))
    for i, triangle_HKK in enumerate(query_triangles(at, norms)):
        weights_H1L = at.probabilities_HLL[:, i, np.newaxis]
        covariance = (keys_HKL * weights_H1L) @ (values_HLV - outputs_HLV[:, i, np.newaxis])
        image = triangle_HKK @ covariance @ norms.output_triangle_HVV * module.score_factor
        basis = leading_right_vectors(image, _LEADING)
        left = image @ basis
        gram_left = np.einsum(
            "hkr,hkgm,gms->hrgs", left, norms.query_overlap_HKHK, left, optimize=True
        )
        gram_right = np.einsum(
            "hvr,hvgw,gws->hrgs", basis, norms.output_overlap_HVHV, basis, optimize=True
        )
        size = heads * basis.shape[2]
        leading_L[i] = trace_power_norms(
            gram_left.reshape(size, size) @ gram_right.reshape(size, size)
        )
        rest = image - left @ np.swapaxes(basis, 1, 2)
        rest_LH[i] = trace_power_norms(rest @ np.swapaxes(rest, 1, 2))
    return np.asarray(leading_L + sum_of_largest(rest_LH, norms.overlap))


def _key_moments(at: AttentionAt, norms: AttentionNorms, grams_LLHH: FloatArray) -> FloatArray:
    """The key part of `moment_bound` for every row, shape (L,)."""
    length = len(at.U)
    values_HLV = centred_values(at)
    images = np.einsum("hlv,hvgw->hlgw", values_HLV, norms.output_gram_HVHV, optimize=True)
    base_HLHL = np.einsum("hlgw,gmw->hlgm", images, values_HLV, optimize=True)
    result = np.empty(length)
    for i in range(length):
        seen = np.flatnonzero(np.any(at.probabilities_HLL[:, i] > 0.0, axis=0))
        rows_HN = at.probabilities_HLL[:, i][:, seen]
        moved_HNHN = _centred_gram(base_HLHL[:, seen][..., seen], rows_HN)
        roots_NHH = _square_roots(grams_LLHH[i, seen]) * rows_HN.T[:, :, np.newaxis]
        # Vectors Σ_h Λ_hk A_h u_h, indexed by token and k.
        half = np.einsum("hngm,nhk->nkgm", moved_HNHN, roots_NHH, optimize=True)
        gram_NHNH = np.einsum("nkgm,mgl->nkml", half, roots_NHH, optimize=True)
        result[i] = _least_moment(gram_NHNH)
    return result


def _centred_gram(base_HNHN: FloatArray, rows_HN: FloatArray) -> FloatArray:
    """<v_j − o, v_j' − o'> in the metric of `base`, o the mean of each head's row."""
    left = base_HNHN - np.einsum("hn,hngm->hgm", rows_HN, base_HNHN)[:, np.newaxis]
    return np.asarray(left - np.einsum("hngm,gm->hng", left, rows_HN)[..., np.newaxis])


def _square_roots(grams: FloatArray) -> FloatArray:
    """Λ with ΛΛᵀ = G for positive semidefinite G, shape (..., n, n)."""
    values, vectors = np.linalg.eigh(grams)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., np.newaxis, :])


def _least_moment(gram_NHNH: FloatArray) -> float:
    """An upper bound of √λ_max(G_w), the least over a few weights w; token j of G over √w_j."""
    tokens, heads = gram_NHNH.shape[:2]
    own = np.einsum("nknl->nkl", gram_NHNH)
    sizes_N = np.sqrt(np.maximum(np.linalg.eigvalsh(own)[:, -1], 0.0))
    best, weights_N = float(np.sum(sizes_N)), _shares(sizes_N)
    gram = gram_NHNH.reshape(tokens * heads, tokens * heads)
    basis = np.random.default_rng(0).standard_normal((len(gram), min(_LEADING, len(gram))))
    for _ in range(_PASSES):
        scale = np.repeat(1.0 / np.sqrt(weights_N), heads)
        bound, basis = deflated_bound(gram, basis, scale)
        best = min(best, float(np.sqrt(bound)))
        # K_j y for the y that belongs to the leading vector.
        image = (gram @ (scale * basis[:, -1])).reshape(tokens, heads)
        weights_N = _shares(weights_N + _shares(np.linalg.norm(image, axis=1)))
    return best


# --------------------------------------------------------------------------------- assembly


def _width_factor(attention: Attention) -> float:
    """√(D/E), from row norms ‖·‖₂ of either width to RMS."""
    return float(np.sqrt(attention.width / attention.output_width))


def _row_bound(
    rows_L: FloatArray,
    value_L: FloatArray,
    key_L: FloatArray,
    query_L: FloatArray,
    margin: float,
) -> RowBound:
    rows_L = rows_L + margin
    row = int(np.argmax(rows_L))
    return RowBound(
        value=float(rows_L[row]),
        row=row,
        rows_L=rows_L,
        value_L=value_L,
        key_L=key_L,
        query_L=query_L,
        margin=margin,
    )
