"""What the bounds of theory.bounds share: norms of the weights, and cheap norms at one input.

All of it is floating-point arithmetic; `rounding_margin` says what that can cost.

Shape suffixes: as in theory.attention (L tokens, D width, H query heads, G key/value groups, K key
width, V value width, E output width); Z = H·V, all value coordinates of all heads.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from theory.arguments import FloatArray
from theory.attention import Attention, AttentionAt

_EPS = float(np.finfo(np.float64).eps)
_ITERATIONS = 3
_ITERATIONS_OF_PATHS = 8
_CANCELLED = 1e-7


class PathNorm:
    """λ_max(G) of G = Σ_hh' Γ_hh' P_hᵀP_h' as a function of the semidefinite Γ of shape (H, H).

    P_h = W^V_h W^O_h/path_h of norm 1 (or 0) is the value path of head h.
    """

    def __init__(self, value_HDV: FloatArray, output_HVE: FloatArray, path_H: FloatArray) -> None:
        self._shape = output_HVE.shape
        H, V, E = self._shape
        scale_H = np.divide(1.0, path_H, out=np.zeros(H), where=path_H > 0.0)
        self._value_HDV = value_HDV * scale_H[:, np.newaxis, np.newaxis]
        self._gram_ZZ = _grams(self._value_HDV).reshape(H * V, H * V)
        self._output_ZE = output_HVE.reshape(H * V, E)

    @property
    def output_width(self) -> int:
        """E."""
        return self._shape[2]

    def largest(self, gamma_HH: FloatArray) -> float:
        """λ_max(G): two products and an eigenvalue problem of D × D matrices."""
        matrix_EE = self._output_ZE.T @ self._weighted(gamma_HH) @ self._output_ZE
        return max(0.0, float(np.linalg.eigvalsh(matrix_EE)[-1]))

    def leading(self, gamma_HH: FloatArray, start_E: FloatArray) -> tuple[FloatArray, float]:
        """A unit y near the leading eigenvector, and nearly λ_max: a few products with vectors."""
        weighted_ZZ, y_E, length = self._weighted(gamma_HH), start_E, 0.0
        for _ in range(_ITERATIONS_OF_PATHS):
            image_E = self._output_ZE.T @ (weighted_ZZ @ (self._output_ZE @ y_E))
            length = float(np.linalg.norm(image_E))
            if length == 0.0:
                break
            y_E = image_E / length
        return y_E, length

    def images(self, y_E: FloatArray) -> FloatArray:
        """P_h y for every head, shape (H, D)."""
        H, V, _ = self._shape
        z_HV = (self._output_ZE @ y_E).reshape(H, V)
        return np.asarray(np.einsum("hdv,hv->hd", self._value_HDV, z_HV))

    def _weighted(self, gamma_HH: FloatArray) -> FloatArray:
        _, V, _ = self._shape
        return self._gram_ZZ * np.repeat(np.repeat(gamma_HH, V, axis=0), V, axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionNorms:
    """What the bounds need of the weights alone: computed once for a module, used at every input.

    query_H, key_H, value_H: ‖W^Q_h‖₂, ‖W^K_h‖₂, ‖W^V_h‖₂, shape (H,), a group's norm for each of
    its heads. output: ‖W^O‖₂ of all heads' matrices, one above the other. path_H: ‖W^V_h W^O_h‖₂.
    query_basis_HDK, query_triangle_HKK: Q_h with orthonormal columns and R_h, W^Q_h = Q_h R_h.
    output_triangle_HVV: T_h with W^O_h = T_h N_h, the rows of N_h orthonormal. query_overlap_HKHK,
    output_overlap_HVHV: Q_hᵀQ_h' and N_h N_h'ᵀ for every two heads. overlap: at least the largest
    Σ_h ‖Q_hᵀx‖‖N_h y‖ over unit x and y. key_gram_GKGK: W^K_gᵀW^K_g' for every two groups.
    output_gram_HVHV: W^O_h W^O_h'ᵀ.
    paths: λ_max(Σ_hh' Γ_hh' P_hᵀP_h') for semidefinite Γ. apart: that at Γ = I.
    """

    query_H: FloatArray
    key_H: FloatArray
    value_H: FloatArray
    output: float
    path_H: FloatArray
    query_basis_HDK: FloatArray
    query_triangle_HKK: FloatArray
    output_triangle_HVV: FloatArray
    query_overlap_HKHK: FloatArray
    output_overlap_HVHV: FloatArray
    overlap: float
    key_gram_GKGK: FloatArray
    output_gram_HVHV: FloatArray
    paths: PathNorm
    apart: float


def attention_norms(attention: Attention) -> AttentionNorms:
    """The norms of a module's weights: a few products and decompositions of D × D matrices."""
    query, key = attention.query_HDK, attention.per_head(attention.key_GDK)
    value, output = attention.per_head(attention.value_GDV), attention.output_HVE
    left, query_triangle = np.linalg.qr(query)
    right, output_triangle = np.linalg.qr(np.swapaxes(output, 1, 2))
    path_H = spectral_norms(np.linalg.qr(value, mode="r") @ np.swapaxes(output_triangle, 1, 2))
    paths = PathNorm(value, output, path_H)
    return AttentionNorms(
        query_H=spectral_norms(query),
        key_H=spectral_norms(key),
        value_H=spectral_norms(value),
        output=spectral_norm(output.reshape(-1, attention.output_width)),
        path_H=path_H,
        query_basis_HDK=left,
        query_triangle_HKK=query_triangle,
        output_triangle_HVV=np.swapaxes(output_triangle, 1, 2),
        query_overlap_HKHK=_grams(left),
        output_overlap_HVHV=_grams(right),
        overlap=spectral_norm(np.concatenate(list(left), axis=1))
        * spectral_norm(np.concatenate(list(right), axis=1)),
        key_gram_GKGK=_grams(attention.key_GDK),
        output_gram_HVHV=_grams(np.swapaxes(output, 1, 2)),
        paths=paths,
        apart=paths.largest(np.eye(attention.heads)),
    )


def _grams(columns_HDK: FloatArray) -> FloatArray:
    """X_hᵀX_h' for every two heads, shape (H, K, H, K)."""
    return np.asarray(np.einsum("hdk,gdm->hkgm", columns_HDK, columns_HDK, optimize=True))


def spectral_norm(matrix: FloatArray) -> float:
    """‖M‖₂."""
    return float(np.linalg.norm(matrix, 2))


def spectral_norms(matrices: FloatArray) -> FloatArray:
    """‖M‖₂ of each matrix, shape (..., m, n) to (...)."""
    return np.asarray(np.linalg.norm(matrices, 2, axis=(-2, -1)))


def trace_power_norms(grams: FloatArray) -> FloatArray:
    """An upper bound of √λ_max(Z) for products Z = XY of two positive semidefinite matrices.

    tr(Z¹⁶)^{1/32}, of matrices (..., n, n) to (...): the eigenvalues of Z are nonnegative, and the
    largest of them is at most the 16th root of the sum of their 16th powers. Never above n^{1/32}
    times the value itself.
    """
    # Not by the trace, which may be a rounding error of products whose entries are not.
    scale = np.max(np.abs(grams), axis=(-2, -1))
    unit = grams / np.where(scale > 0.0, scale, 1.0)[..., np.newaxis, np.newaxis]
    power = unit
    for _ in range(3):
        power = power @ power
    trace = np.sum(power * np.swapaxes(power, -1, -2), axis=(-2, -1))
    return np.asarray(np.sqrt(scale) * np.maximum(trace, 0.0) ** (1 / 32))


def leading_right_vectors(matrices: FloatArray, count: int) -> FloatArray:
    """Orthonormal columns near the leading right singular vectors: (..., m, n) to (..., n, r) with
    r = min(count, n), by subspace iteration. Any orthonormal columns make a true bound."""
    gram = np.swapaxes(matrices, -1, -2) @ matrices
    scale = np.trace(gram, axis1=-2, axis2=-1)[..., np.newaxis, np.newaxis]
    power = gram / np.where(scale > 0.0, scale, 1.0)
    for _ in range(2):
        power = power @ power
    width = gram.shape[-1]
    start = np.random.default_rng(0).standard_normal((width, min(count, width)))
    return np.asarray(np.linalg.qr(power @ start)[0])


def deflated_bound(
    gram: FloatArray, start: FloatArray, scale: FloatArray | None = None
) -> tuple[float, FloatArray]:
    """An upper bound of λ_max(G) for G = SMS, M positive semidefinite, and nearly leading vectors.

    gram: M, (n, n); start: (n, r); scale: the diagonal of S, ones if not given, (n,). Returns the
    bound and orthonormal columns X of shape (n, r), the Ritz vectors in ascending order. With
    P = I − XXᵀ, λ_max is at most that of the 2 × 2 matrix of the norms of XᵀGX, PGX and PGP, the
    last taken in the Frobenius norm, whose square is ‖G‖_F² − 2‖GX‖_F² + ‖XᵀGX‖_F².
    """
    scale = np.ones(len(gram)) if scale is None else scale
    column = scale[:, np.newaxis]
    basis = np.linalg.qr(start)[0]
    for _ in range(_ITERATIONS):
        basis = np.linalg.qr(column * (gram @ (column * basis)))[0]
    image = column * (gram @ (column * basis))
    ritz, turn = np.linalg.eigh((basis.T @ image + image.T @ basis) / 2)
    basis, image = basis @ turn, image @ turn
    outside = float(np.linalg.norm(image - basis * ritz, 2))
    whole = float(np.sqrt(scale**2 @ np.square(gram) @ scale**2))
    rest = whole**2 - 2.0 * float(np.linalg.norm(image)) ** 2 + float(np.sum(ritz**2))
    # The square lost whole²·eps to cancellation.
    below = np.sqrt(max(rest, 0.0)) + _CANCELLED * whole
    top = float(ritz[-1])
    bound = (top + below) / 2 + np.hypot((top - below) / 2, outside)
    return float(bound), basis


def sum_of_largest(sizes_LH: FloatArray, share: float) -> FloatArray:
    """The largest Σ_h t_h n_h over 0 <= t_h <= 1 with Σ t_h <= share, shape (L, H) to (L,)."""
    descending = -np.sort(-sizes_LH, axis=-1)
    return descending @ np.clip(share - np.arange(sizes_LH.shape[-1]), 0.0, 1.0)


def query_triangles(at: AttentionAt, norms: AttentionNorms) -> Iterator[FloatArray]:
    """For each token i: R of shape (H, K, K) with E^h_i = Q_h R_h, E_i as in theory.attention.

    The same array for all tokens where E_i does not depend on i.
    """
    module = at.attention
    triangle = norms.query_triangle_HKK
    rotation = None
    if module.rotary is not None:
        rotation = module.rotary.rotation(len(at.U), module.head_width)
    for i in range(len(at.U)):
        if module.query_norm is not None:
            # E_i is W^Q times a matrix, so its columns lie in the span of Q's.
            yield np.swapaxes(norms.query_basis_HDK, 1, 2) @ at.query_factor_HDK(i)
        else:
            yield triangle if rotation is None else rotation.of_token(i).apply(triangle)


def key_grams(at: AttentionAt, norms: AttentionNorms) -> FloatArray:
    """<a^h_ij, a^h'_ij> for a^h_ij = (scale/τ) F^h_j q^h_i; indices [i, j, h, h'].

    a^h_ij in R^D is the derivative of the exponent of A^h_ij by token j through its key. Where it
    does not depend on j the array is a broadcast view; with rotary positions it is 0 where no head
    of row i sees j.
    """
    module, length, heads = at.attention, len(at.U), at.attention.heads
    queries_LHK = np.swapaxes(at.queries_HLK, 0, 1) * module.score_factor
    if module.key_norm is not None:
        grams = np.empty((length, length, heads, heads))
        for j in range(length):
            factor_HDK = module.per_head(at.key_factor_GDK(j))
            slopes_LHD = np.einsum("hdk,ihk->ihd", factor_HDK, queries_LHK, optimize=True)
            grams[:, j] = slopes_LHD @ np.swapaxes(slopes_LHD, 1, 2)
        return grams
    if module.rotary is None:
        one_key = _grams_of_pulled(queries_LHK, norms.key_gram_GKGK)[:, np.newaxis]
        return np.broadcast_to(one_key, (length, length, *one_key.shape[2:]))
    # F_j = W^K turned by R_j, so F_j q = W^K (q turned back by R_j).
    rotation = module.rotary.rotation(length, module.head_width)
    grams = np.zeros((length, length, heads, heads))
    for j in range(length):
        seeing = np.flatnonzero(np.any(at.visible_HLL[:, :, j], axis=0))
        pulled = rotation.of_token(j).undo(queries_LHK[seeing])
        grams[seeing, j] = _grams_of_pulled(pulled, norms.key_gram_GKGK)
    return grams


def _grams_of_pulled(pulled_NHK: FloatArray, gram_GKGK: FloatArray) -> FloatArray:
    """<W^K_g x_h, W^K_g' x_h'> for every two heads, of groups g and g': (N, H, K) to (N, H, H)."""
    N, H, K = pulled_NHK.shape
    G = len(gram_GKGK)
    # Products of matrices, many rows at once; R heads in each group.
    heads_NGRK = pulled_NHK.reshape(N, G, H // G, K)
    images = np.swapaxes(heads_NGRK, 0, 1).reshape(G, -1, K) @ gram_GKGK.reshape(G, K, G * K)
    images_NGHK = images.reshape(G, N, H // G, G, K).transpose(1, 3, 0, 2, 4).reshape(N, G, H, K)
    return np.moveaxis(images_NGHK @ np.swapaxes(heads_NGRK, 2, 3), 1, 2).reshape(N, H, H)


def centred_values(at: AttentionAt) -> FloatArray:
    """The values of each head minus their plain mean over the tokens, (H, L, V).

    v_j − o_i is not changed by it, and the Gram matrices of v_j − o_i lose less to cancellation.
    """
    values_HLV = at.attention.per_head(at.values_GLV)
    return np.asarray(values_HLV - np.mean(values_HLV, axis=1, keepdims=True))


def half_diameters(distances_HLL: FloatArray, visible_HL: npt.NDArray[np.bool_]) -> FloatArray:
    """½ max ‖x_j − x_j'‖₂ over the visible j, j' of each head, shape (H,)."""
    both = visible_HL[:, :, np.newaxis] & visible_HL[:, np.newaxis]
    return np.asarray(np.max(np.where(both, distances_HLL, 0.0), axis=(1, 2)) / 2)


def half_diameters_of_rows(
    distances_HLL: FloatArray, visible_HLL: npt.NDArray[np.bool_]
) -> FloatArray:
    """`half_diameters` for every row, (H, L). A row that sees what the row before it saw, and
    perhaps more, is that row's with the distances from the new tokens."""
    halves_HL = np.empty(visible_HLL.shape[:2])
    for i in range(visible_HLL.shape[1]):
        now = visible_HLL[:, i]
        before = visible_HLL[:, i - 1] if i else np.zeros_like(now)
        if i and np.any(before & ~now):
            halves_HL[:, i] = half_diameters(distances_HLL, now)
            continue
        new = np.flatnonzero(np.any(now & ~before, axis=0))
        both = now[:, new, np.newaxis] & now[:, np.newaxis]
        largest_H = np.max(np.where(both, distances_HLL[:, new], 0.0), axis=(1, 2), initial=0.0)
        halves_HL[:, i] = np.maximum(halves_HL[:, i - 1] if i else 0.0, largest_H / 2)
    return halves_HL


def pairwise_distances(points_HLK: FloatArray) -> FloatArray:
    """‖x_j − x_j'‖₂ for every two tokens of each head, shape (H, L, L)."""
    # From differences: Gram matrices would lose half of the digits of a small distance.
    return np.stack(
        [
            np.linalg.norm(points_HLK - points_HLK[:, [j]], axis=2)
            for j in range(points_HLK.shape[1])
        ],
        axis=1,
    )


def rounding_margin(at: AttentionAt, norms: AttentionNorms) -> float:
    """What rounding can take from a bound at this input that is made of norms and distances.

    An a-priori estimate to first order: every figure is a sum of products below the magnitude
    ‖W^O‖₂ Σ_h (‖W^V_h‖₂ + (‖E‖‖k‖ + ‖F‖‖q‖)‖v‖ scale/τ), maxima over tokens, nothing cancelled;
    an inner product of length n loses at most n·eps of it, a matrix norm √n times as much, and the
    probabilities lose eps times the size of their exponents.
    """
    module = at.attention
    size = _longest(at)
    values, queries, keys = (
        float(np.max(np.linalg.norm(x, axis=-1)))
        for x in (at.values_GLV, at.queries_HLK, at.keys_GLK)
    )
    query_slope_H, key_slope_H = largest_slopes(at, norms)
    scores_H = module.score_factor * (query_slope_H * keys + key_slope_H * queries)
    exponents = 1.0 + module.score_factor * queries * keys
    magnitude = norms.output * float(np.sum(norms.value_H + scores_H * values))
    return 8.0 * _EPS * size**1.5 * exponents * magnitude


def gram_margin(at: AttentionAt, norms: AttentionNorms, least_weight: float = 1.0) -> float:
    """What rounding can take, besides, from norms that are square roots of Gram matrices of
    v_j − o_i, which are formed by subtraction.

    An a-priori estimate: the squares lose n·eps of those of ‖W^O‖₂ Σ_h ‖F‖‖q‖‖v_j − v̄‖ scale/τ,
    divided by the least weight that they are divided by.
    """
    module = at.attention
    _, key_slope_H = largest_slopes(at, norms)
    queries = float(np.max(np.linalg.norm(at.queries_HLK, axis=-1)))
    values = float(np.max(np.linalg.norm(centred_values(at), axis=-1)))
    magnitude = norms.output * module.score_factor * float(np.sum(key_slope_H)) * queries * values
    return float(2.0 * np.sqrt(_EPS * _longest(at) / least_weight)) * magnitude


def _longest(at: AttentionAt) -> int:
    """The length of the longest inner product."""
    module = at.attention
    return max(module.width, module.heads * module.value_width, module.output_width, len(at.U))


def largest_slopes(at: AttentionAt, norms: AttentionNorms) -> tuple[FloatArray, FloatArray]:
    """max_i ‖E^h_i‖₂ and max_j ‖F^h_j‖₂ of each head, two arrays of shape (H,)."""
    module, tokens = at.attention, range(len(at.U))
    query_H, key_H = norms.query_H, norms.key_H
    # Rotations keep every norm; a normalisation changes it from token to token.
    if module.query_norm is not None:
        query_H = np.max([spectral_norms(at.query_factor_HDK(i)) for i in tokens], axis=0)
    if module.key_norm is not None:
        key_G = np.max([spectral_norms(at.key_factor_GDK(j)) for j in tokens], axis=0)
        key_H = np.repeat(key_G, module.heads // module.groups)
    return query_H, key_H
