"""Sensitivity of attention in Euclidean geometry, as the literature measures it.

The tokens, stacked to one vector, have their Euclidean length here (the Frobenius norm of the L × D
matrix), so that ‖D MHA(U)‖₂ is a largest singular value. Such numbers stand beside those in the
block-∞/RMS norm; a change between the two geometries may cost √L either way, so that they do not
compare.

Everything is computed in floating point and nothing is certified. `local_norm` comes from below.
The three bounds are upper bounds of ‖D MHA(U)‖₂, up to rounding and to the accuracy of the singular
values that they are made of.

Shape suffixes: L tokens, D width, H query heads, G key/value groups, K key width, V value width, E
output width.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from theory.arguments import FloatArray, as_distributions
from theory.attention import AttentionAt
from theory.linearisation import Linearisation

_SEED = 20260204


@dataclass(frozen=True, kw_only=True)
class FineGrainedBound:
    """An upper bound of ‖D MHA(U)‖₂ with its two parts: value = value_path + attention_path."""

    value: float
    value_path: float
    attention_path: float


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalNorm:
    """A largest singular value from below.

    value: ‖J(direction)‖₂, up to rounding a lower bound of ‖J‖₂, and ‖J‖₂ itself where the
    iteration found the top singular vector. direction: float64 of the input's shape, of Euclidean
    length 1. residual: ‖JᵀJ(direction) − value²·direction‖₂/value²; some singular value, squared,
    lies within that relative distance of value². 0 where the map vanishes.
    """

    value: float
    direction: FloatArray
    residual: float


def local_norm(at: Linearisation) -> LocalNorm:
    """‖D F(X)‖₂ of a map at one input, by a Krylov iteration on jvp and vjp: a lower bound.

    This is the local Lipschitz constant of Castin, Ablin and Peyré (2024), "How smooth is
    attention?", ICML: for Euclidean lengths of the stacked tokens, without the residual branch.
    They iterate the power method; Lanczos (from one fixed random start) takes the best vector of
    the same Krylov space, and so is never below it.
    """
    return _largest_singular(at.push, at.pull, at.input_shape)


def order_statistics_bound(probabilities: npt.ArrayLike) -> FloatArray:
    """p₍₁₎(1 − p₍₁₎ + p₍₂₎) of each row, an upper bound of ‖Diag p − ppᵀ‖₂.

    p₍₁₎ >= p₍₂₎ are the two largest entries; a row of one entry gives 0. This is g₁ of Yudin,
    Gaponov, Kudriashov and Rakhuba (2025), "Pay attention to attention distribution: a new local
    Lipschitz bound for transformers", arXiv:2507.07814. Proof. Where λ > p₍₂₎ is
    an eigenvalue, Σ p_i/(p_i − λ) = 0, so that

        p₍₁₎/(p₍₁₎ − λ) = Σ_{i>1} p₍ᵢ₎/(λ − p₍ᵢ₎) <= (1 − p₍₁₎)/(λ − p₍₂₎),

    which is λ <= p₍₁₎(1 − p₍₁₎ + p₍₂₎); and the right-hand side is at least p₍₂₎. Equality for rows
    that are uniform on their support.

    probabilities: shape (..., L), rows that sum to 1. Returns float64 of shape (...). Raises
    ValueError for rows that are no distributions.
    """
    rows = as_distributions(probabilities, "probabilities")
    if rows.shape[-1] == 1:
        return np.zeros(rows.shape[:-1])
    largest = np.partition(rows, -2, axis=-1)
    second, first = largest[..., -2], largest[..., -1]
    return np.asarray(first * (1.0 - first + second))


def yudin_bound(at: AttentionAt) -> float | None:
    """An upper bound of ‖D MHA(U)‖₂: Theorem 3 of Yudin et al. (2025), head by head.

    For one head without biases they prove, with A = W^Q W^Kᵀ/(τ√d_h) and P the probabilities,

        ‖D Att(U)‖₂ <= ‖W^V‖₂ (‖P‖₂ + 2 ‖U‖₂² ‖A‖₂ max_i g₁(P_i)),

    g₁ as in `order_statistics_bound`. (We had the theorem in a public transcription of arXiv
    version 1; the proof is short: ‖dP‖_F <= max_i ‖J_i‖₂ ‖dS‖_F and ‖dS‖_F <= 2‖U‖₂‖A‖₂‖dU‖_F.)
    Heads, on which the transcription is silent, are put together by ‖W^O‖₂ √(Σ_h of squares).
    Biases enter exactly as one more coordinate 1 of every token and one more row of every
    projection.

    None where queries and keys are rotated or normalised, so that there is no such A; see
    `measured_spectral_bound`.
    """
    module = at.attention
    if module.rotary is not None or module.query_norm is not None or module.key_norm is not None:
        return None
    biases = (module.query_bias_HK, module.key_bias_GK, module.value_bias_GV)
    tokens, (query_HDK, key_GDK, value_GDV) = (
        at.U,
        (module.query_HDK, module.key_GDK, module.value_GDV),
    )
    if any(bias is not None for bias in biases):
        tokens = np.hstack([tokens, np.ones((len(tokens), 1))])
        query_HDK, key_GDK, value_GDV = (
            _with_bias_row(weights, bias)
            for weights, bias in zip((query_HDK, key_GDK, value_GDV), biases, strict=True)
        )
    length = _spectral(tokens)
    heads = [
        _spectral(value_GDV[group])
        * (
            _spectral(at.probabilities_HLL[head])
            + 2.0
            * length**2
            * _product_norm(query_HDK[head], key_GDK[group])
            * module.score_factor
            * float(order_statistics_bound(at.probabilities_HLL[head]).max())
        )
        for head, group in _heads(at)
    ]
    return _output_norm(at) * math.hypot(*heads)


def measured_spectral_bound(at: AttentionAt) -> float:
    """`yudin_bound` with the norms that its proof meets, at hand at this input: our variant.

        ‖W^O‖₂ √Σ_h (‖W^V_h‖₂ ‖P_h‖₂ + ‖V_h‖₂ max_i g₁(P_h,i) · ‖dS_h‖)²,
        ‖dS_h‖ <= (max_i ‖E_i‖₂ ‖K_h‖₂ + max_j ‖F_j‖₂ ‖Q_h‖₂)/(τ√d_h),

    Q, K, V the queries, keys and values with their biases, normalisations and rotations, E_i and
    F_j the differentials of query i and key j in their own tokens. An upper bound of ‖D MHA(U)‖₂.
    """
    module, slopes = at.attention, _slopes(at)
    heads = [
        _spectral(module.value_GDV[group]) * _spectral(at.probabilities_HLL[head])
        + _spectral(at.values_GLV[group])
        * float(order_statistics_bound(at.probabilities_HLL[head]).max())
        * module.score_factor
        * (
            slopes.query_H[head] * _spectral(at.keys_GLK[group])
            + slopes.key_G[group] * _spectral(at.queries_HLK[head])
        )
        for head, group in _heads(at)
    ]
    return _output_norm(at) * math.hypot(*heads)


def fine_grained_bound(at: AttentionAt) -> FineGrainedBound:
    """An upper bound of ‖D MHA(U)‖₂ that takes the value path of all heads at once: our variant.

    Havens, Araujo, Zhang and Hu (2024), "Fine-grained local sensitivity analysis of standard
    dot-product self-attention", ICML, bound how far the output moves under a perturbation of
    Euclidean length ε. What is public of their theorem (the abstract, and the reviewers' summaries
    of an earlier version) gives its form: the exact norm ‖Σ_h P_h ⊗ (W^V_h W^O_h)ᵀ‖₂ for the values
    under fixed attention, and Σ_h ‖P_h' − P_h‖_F ‖U' W^V_h W^O_h‖₂ for the change of attention. How
    they bound P' − P we could not ascertain, so their bound is not reproduced. This is the limit of
    that form for ε → 0, with a bound of ours on the differential of P:

        ‖Σ_h P_h ⊗ (W^V_h W^O_h)ᵀ‖₂ + Σ_h ‖dP_h‖ · ‖V_h W^O_h‖₂,
        ‖dP_h‖ <= [max_i ‖E_i K_hᵀ J_i‖₂ + max_j ‖F_j (g₁(P_i) q_i)_i‖₂]/(τ√d_h),

    J_i = Diag P_i − P_iP_iᵀ, the (q_i)_i one above the other for the queries that see key j. For:
    row i of dP is J_i applied to a score differential with a part from token i alone,
    dU_i E_i K_hᵀ, and a part with entries <dU_j F_j, q_i>; the rows of the first part depend on
    different tokens, and in the second ‖J_i‖₂ <= g₁(P_i) multiplies row i, after which the columns
    depend on different tokens.
    """
    module = at.attention
    paths_HDE = module.per_head(module.value_GDV) @ module.output_HVE
    value = _largest_singular(
        lambda dX: np.sum(at.probabilities_HLL @ (dX @ paths_HDE), axis=0),
        lambda dY: np.sum(
            at.probabilities_HLL.swapaxes(1, 2) @ (dY @ paths_HDE.swapaxes(1, 2)), axis=0
        ),
        at.input_shape,
    )
    attention = sum(
        float(change) * _spectral(at.values_GLV[group] @ module.output_HVE[head])
        for change, (head, group) in zip(_probability_changes(at), _heads(at), strict=True)
    )
    attention *= module.score_factor
    value_path = value.value * math.sqrt(1.0 + value.residual)
    return FineGrainedBound(
        value=value_path + attention, value_path=value_path, attention_path=attention
    )


def _probability_changes(at: AttentionAt) -> FloatArray:
    """Upper bounds of ‖dP_h‖ without the score factor, shape (H,); see `fine_grained_bound`."""
    module = at.attention
    keys_HLK = module.per_head(at.keys_GLK)
    order_HL = order_statistics_bound(at.probabilities_HLL)
    weighted_HLK = order_HL[..., np.newaxis] * at.queries_HLK
    by_query, by_key = np.zeros(module.heads), np.zeros(module.heads)
    for token in range(len(at.U)):
        row_HL = at.probabilities_HLL[:, token]
        # J_i K = Diag(P_i)(K − 1⊗mean).
        mean_H1K = row_HL[:, np.newaxis] @ keys_HLK
        moved_HLK = row_HL[..., np.newaxis] * (keys_HLK - mean_H1K)
        queries = _triangle(at.query_factor_HDK(token)) @ moved_HLK.swapaxes(1, 2)
        keys = module.per_head(_triangle(at.key_factor_GDK(token)))
        # A query that does not see this token contributes nothing.
        seeing_HLK = np.where(at.visible_HLL[:, :, token, np.newaxis], weighted_HLK, 0.0)
        by_query = np.maximum(by_query, _spectral_of_each(queries))
        by_key = np.maximum(by_key, _spectral_of_each(keys @ seeing_HLK.swapaxes(1, 2)))
    return by_query + by_key


@dataclass(frozen=True, kw_only=True, eq=False)
class _Slopes:
    """The largest ‖E_i‖₂ of each head and ‖F_j‖₂ of each group, over all tokens."""

    query_H: FloatArray
    key_G: FloatArray


def _slopes(at: AttentionAt) -> _Slopes:
    tokens = range(len(at.U))
    return _Slopes(
        query_H=np.max([_spectral_of_each(at.query_factor_HDK(i)) for i in tokens], axis=0),
        key_G=np.max([_spectral_of_each(at.key_factor_GDK(j)) for j in tokens], axis=0),
    )


def _heads(at: AttentionAt) -> list[tuple[int, int]]:
    """Every query head with its group."""
    shared = at.attention.heads // at.attention.groups
    return [(head, head // shared) for head in range(at.attention.heads)]


def _with_bias_row(weights: FloatArray, bias: FloatArray | None) -> FloatArray:
    """(G, D, K) to (G, D + 1, K): the bias, or zeros for none, below each matrix."""
    row = np.zeros((len(weights), weights.shape[2])) if bias is None else bias
    return np.concatenate([weights, row[:, np.newaxis]], axis=1)


def _output_norm(at: AttentionAt) -> float:
    """‖W^O‖₂ of all heads' output matrices, one above the other."""
    return _spectral(at.attention.output_HVE.reshape(-1, at.attention.output_width))


def _product_norm(query_DK: FloatArray, key_DK: FloatArray) -> float:
    """‖W^Q W^Kᵀ‖₂ without the D × D product."""
    return _spectral(_triangle(query_DK) @ _triangle(key_DK).T)


def _triangle(matrices: FloatArray) -> FloatArray:
    """R of a QR factorisation: ‖M B‖₂ = ‖R B‖₂ for every B. Shape (..., D, K) to (..., K, K)."""
    return np.asarray(np.linalg.qr(matrices, mode="r"))


def _spectral(matrix: FloatArray) -> float:
    return float(np.linalg.norm(matrix, 2))


def _spectral_of_each(matrices: FloatArray) -> FloatArray:
    """‖M‖₂ of each of several matrices, from the smaller Gram matrix: quicker than SVDs."""
    transposed = matrices.swapaxes(-1, -2)
    wide = matrices.shape[-1] > matrices.shape[-2]
    gram = matrices @ transposed if wide else transposed @ matrices
    return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[..., -1], 0.0)))


def _largest_singular(
    push: Callable[[FloatArray], FloatArray],
    pull: Callable[[FloatArray], FloatArray],
    shape: tuple[int, int],
) -> LocalNorm:
    """The largest singular value of a linear map of (L, D) arrays, from below, by Lanczos."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    size = math.prod(shape)

    def gram(vector: FloatArray) -> FloatArray:
        return pull(push(vector.reshape(shape))).ravel()

    start = np.random.default_rng(_SEED).standard_normal(size)
    if size == 1:
        vector = np.ones(1)
    elif not gram(start).any():
        # A random vector is annihilated by the zero map alone.
        return LocalNorm(value=0.0, direction=_unit(start).reshape(shape), residual=0.0)
    else:
        operator = LinearOperator((size, size), matvec=gram, dtype=np.float64)
        _, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=1e-10)
        vector = _unit(vectors[:, 0])
    value = float(np.linalg.norm(push(vector.reshape(shape))))
    if value == 0.0:
        return LocalNorm(value=0.0, direction=vector.reshape(shape), residual=0.0)
    miss = gram(vector) - value**2 * vector
    return LocalNorm(
        value=value,
        direction=vector.reshape(shape),
        residual=float(np.linalg.norm(miss)) / value**2,
    )


def _unit(vector: FloatArray) -> FloatArray:
    return np.asarray(vector / np.linalg.norm(vector))
