"""Multi-head attention as the paper defines it (Section 4.1), and its differential at one input.

Tokens are rows: U has shape (L, D) and head h computes

    q_i = N(u_i W^Q + b^Q) R_i,   k_j = N(u_j W^K + b^K) R_j,   v_j = u_j W^V + b^V,
    A_i = softmax over the visible j of <q_i, k_j> · scale/τ,     o_i = Σ_j A_ij v_j,

and the output is Σ_h o^h_i W^O_h + b^O. N is a normalisation over the head's width (QK-norm), R_j
a rotation that depends on the position; both may be absent. Heads share keys and values in groups
(grouped-query attention); with one group they all do (multi-query). Query head h belongs to group
h // (H/G).

The differential in row-vector convention is dOut_i = Σ_j dU_j M_ij with

    M_ij = Σ_h A^h_ij [W^V_h + (scale/τ) F^h_j q^h_i (v^h_j - o^h_i)ᵀ] W^O_h
           + [j = i] Σ_h E^h_i C^h_i W^O_h,    C^h_i = (scale/τ) Σ_j A^h_ij k^h_j (v^h_j - o^h_i)ᵀ,

where E_i and F_j, of shape (D, K), are the differentials of q_i and k_j in their own token: W^Q and
W^K where there is neither normalisation nor rotation. Nothing here forms the (LD)×(LE) matrix but
`jacobian`.

Shape suffixes: L tokens, D width, H query heads, G key/value groups, K width of a query or key,
V width of a value, E output width, N covectors; ... stands for any number of leading axes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from theory.arguments import (
    BoolArray,
    FloatArray,
    as_booleans,
    as_count,
    as_index,
    as_parameter,
    as_positive,
    as_real_array,
    first_true,
    position,
    require_type,
)
from theory.linearisation import Linearisation
from theory.masks import causal_mask
from theory.normaliser import Normaliser, NormaliserAt
from theory.rotary import Rotary, Rotation
from theory.softmax import softmax

# A score that no query sees may be infinite or NaN: it is replaced before it is used.
_hidden_may_overflow = np.errstate(over="ignore", invalid="ignore", under="ignore")


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionAt(Linearisation):
    """Attention at one input U of shape (L, D): what it computes there, and its differential.

    queries_HLK, keys_GLK: as they meet in the scores, after normalisation and rotation;
    values_GLV; scores_HLL: <q_i, k_j>·scale, not divided by τ (hidden entries mean nothing, they
    may be infinite or NaN); visible_HLL: what the mask shows; probabilities_HLL: exactly 0 where
    hidden; head_outputs_HLV: o_i. All float64 (visible_HLL: bool) and read-only.

    A direction or covector may have leading axes: each is treated alone, in one call.
    """

    attention: "Attention"
    U: FloatArray
    queries_HLK: FloatArray
    keys_GLK: FloatArray
    values_GLV: FloatArray
    scores_HLL: FloatArray
    visible_HLL: BoolArray
    probabilities_HLL: FloatArray
    head_outputs_HLV: FloatArray
    output: FloatArray
    _rotation: Rotation | None
    _query_norm: NormaliserAt | None
    _key_norm: NormaliserAt | None

    @property
    def input_shape(self) -> tuple[int, int]:
        length, width = self.U.shape
        return length, width

    @_hidden_may_overflow
    def push(self, dX: FloatArray) -> FloatArray:
        module = self.attention
        dU = dX[..., np.newaxis, :, :]
        dqueries = _rotate(_push(dU @ module.query_HDK, self._query_norm), self._rotation)
        dkeys = _rotate(_push(dU @ module.key_GDK, self._key_norm), self._rotation)
        dvalues = module.per_head(dU @ module.value_GDV)

        dscores = dqueries @ _transposed(module.per_head(self.keys_GLK))
        dscores += self.queries_HLK @ _transposed(module.per_head(dkeys))
        dscores *= module.score_factor
        dscores = np.where(self.visible_HLL, dscores, 0.0)
        dscores -= np.sum(self.probabilities_HLL * dscores, axis=-1, keepdims=True)
        dprobabilities = self.probabilities_HLL * dscores

        dheads = self.probabilities_HLL @ dvalues
        dheads += dprobabilities @ module.per_head(self.values_GLV)
        return np.asarray(np.sum(dheads @ module.output_HVE, axis=-3))

    @_hidden_may_overflow
    def pull(self, dY: FloatArray) -> FloatArray:
        module = self.attention
        dheads = dY[..., np.newaxis, :, :] @ _transposed(module.output_HVE)
        dscores = self._pull_to_scores(dheads, slice(None))
        dqueries = dscores @ module.per_head(self.keys_GLK)
        dkeys = module.per_group(_transposed(dscores) @ self.queries_HLK)
        dvalues = module.per_group(_transposed(self.probabilities_HLL) @ dheads)

        dqueries = _pull(_rotate_back(dqueries, self._rotation), self._query_norm)
        dkeys = _pull(_rotate_back(dkeys, self._rotation), self._key_norm)
        dU = np.sum(dqueries @ _transposed(module.query_HDK), axis=-3)
        dU += np.sum(dkeys @ _transposed(module.key_GDK), axis=-3)
        dU += np.sum(dvalues @ _transposed(module.value_GDV), axis=-3)
        return np.asarray(dU)

    @_hidden_may_overflow
    def pull_row(self, i: int, Y_NE: FloatArray) -> FloatArray:
        # The formula at the top of this file, multiplied out so that the values' part is H products
        # for all j together, and the keys' part has rank H for each j.
        module = self.attention
        dheads_HNV = Y_NE @ _transposed(module.output_HVE)
        dscores_HNL = self._pull_to_scores(dheads_HNV, [i])
        values_HND = dheads_HNV @ _transposed(module.per_head(module.value_GDV))
        pulled_LND = np.tensordot(self.probabilities_HLL[:, i].T, values_HND, axes=1)

        gradients_LHD = np.moveaxis(self.key_gradients_HLD(i), 0, 1)
        pulled_LND += dscores_HNL.transpose(2, 1, 0) @ gradients_LHD

        dqueries_HNK = dscores_HNL @ module.per_head(self.keys_GLK)
        if self._rotation is not None:
            dqueries_HNK = self._rotation.of_token(i).undo(dqueries_HNK)
        if self._query_norm is not None:
            dqueries_HNK = self._query_norm.of_tokens(np.s_[:, i, np.newaxis]).pull(dqueries_HNK)
        pulled_LND[i] += np.sum(dqueries_HNK @ _transposed(module.query_HDK), axis=0)
        return np.moveaxis(pulled_LND, 0, 1)

    def query_factor_HDK(self, i: int) -> FloatArray:
        """E^h_i: the differential of query i in its own token, dq_i = du_i E_i; shape (H, D, K).

        It holds W^Q, the Jacobian of the normalisation and the rotation. Raises TypeError or
        ValueError for an i that is no index of a token.
        """
        return self._factor(i, self.attention.query_HDK, self._query_norm)

    def key_factor_GDK(self, j: int) -> FloatArray:
        """F^g_j: the differential of key j in its own token, dk_j = du_j F_j; shape (G, D, K).

        Errors as in `query_factor_HDK`.
        """
        return self._factor(j, self.attention.key_GDK, self._key_norm)

    def key_gradients_HLD(self, i: int) -> FloatArray:
        """F^h_j q^h_i: the gradient of <q_i, k_j> in token j through its key; shape (H, L, D).

        Errors as in `query_factor_HDK`.
        """
        module = self.attention
        index = as_index(i, "token", self.U.shape[0])
        gradients_HLK = np.repeat(self.queries_HLK[:, [index]], self.U.shape[0], axis=1)
        gradients_HLK = _rotate_back(gradients_HLK, self._rotation)
        if self._key_norm is not None:
            group_of_head = np.arange(module.heads) // (module.heads // module.groups)
            gradients_HLK = self._key_norm.of_tokens(group_of_head).pull(gradients_HLK)
        return np.asarray(gradients_HLK @ _transposed(module.per_head(module.key_GDK)))

    def _factor(self, token: int, weights: FloatArray, norm: NormaliserAt | None) -> FloatArray:
        index = as_index(token, "token", self.U.shape[0])
        factor = weights.copy()
        if norm is not None:
            factor = norm.of_tokens(np.s_[:, index, np.newaxis]).push(factor)
        return factor if self._rotation is None else self._rotation.of_token(index).apply(factor)

    def _pull_to_scores(self, dheads: FloatArray, rows: Any) -> FloatArray:
        """From covectors of the o_i to those of the scores; axes (..., H, rows, V or L)."""
        probabilities = self.probabilities_HLL[:, rows]
        values_HLV = self.attention.per_head(self.values_GLV)
        dprobabilities = dheads @ _transposed(values_HLV)
        dprobabilities = np.where(self.visible_HLL[:, rows], dprobabilities, 0.0)
        # Σ_j A_ij <g_i, v_j> = <g_i, o_i>.
        dprobabilities -= np.sum(dheads * self.head_outputs_HLV[:, rows], axis=-1, keepdims=True)
        dprobabilities *= probabilities
        dprobabilities *= self.attention.score_factor
        return dprobabilities


@dataclass(frozen=True, kw_only=True, eq=False)
class Attention:
    """The parameters of one attention module, each kept as private, read-only float64.

    query_HDK, key_GDK, value_GDV, output_HVE: the projections of each head, G a divisor of H.
    query_bias_HK, key_bias_GK, value_bias_GV, output_bias_E: None for none. tau: the temperature
    τ > 0. scale: what the inner products are multiplied by, > 0; None for 1/√K. mask: None (all
    keys are visible), "causal", or booleans of shape (L, L) or (H, L, L), True where visible
    (theory.masks). rotary: None for none. query_norm, key_norm: normalisations of width K, before
    the rotation; None for none.

    Raises ValueError, naming the parameter, for shapes that do not fit together, for NaN and
    infinity (with the position), for τ or scale that is not positive and for a mask that leaves a
    query no key; TypeError for values of the wrong kind.
    """

    query_HDK: FloatArray
    key_GDK: FloatArray
    value_GDV: FloatArray
    output_HVE: FloatArray
    query_bias_HK: FloatArray | None = None
    key_bias_GK: FloatArray | None = None
    value_bias_GV: FloatArray | None = None
    output_bias_E: FloatArray | None = None
    tau: float = 1.0
    scale: float | None = None
    mask: Any = None
    rotary: Rotary | None = None
    query_norm: Normaliser | None = None
    key_norm: Normaliser | None = None

    def __post_init__(self) -> None:
        query = self._keep("query_HDK", (None, None, None), "(heads, width, head width)")
        H, D, K = query.shape
        key = self._keep("key_GDK", (None, D, K), "(groups, width, head width)")
        G = key.shape[0]
        value = self._keep("value_GDV", (G, D, None), "(groups, width, value width)")
        V = value.shape[2]
        output = self._keep("output_HVE", (H, V, None), "(heads, value width, output width)")
        if H % G:
            raise ValueError(f"{H} query heads cannot share {G} groups of keys evenly")
        self._keep_bias("query_bias_HK", (H, K), "(heads, head width)")
        self._keep_bias("key_bias_GK", (G, K), "(groups, head width)")
        self._keep_bias("value_bias_GV", (G, V), "(groups, value width)")
        self._keep_bias("output_bias_E", (output.shape[2],), "(output width,)")
        object.__setattr__(self, "tau", as_positive(self.tau, "tau"))
        if self.scale is not None:
            object.__setattr__(self, "scale", as_positive(self.scale, "scale"))
        if isinstance(self.mask, str):
            if self.mask != "causal":
                raise ValueError(f'mask is {self.mask!r}: "causal" is the only one with a name')
        elif self.mask is not None:
            object.__setattr__(self, "mask", _as_mask(self.mask, H))
        if self.rotary is not None:
            require_type(self.rotary, "rotary", Rotary)
            self.rotary.check_head_width(K)
        for name, norm in (("query_norm", self.query_norm), ("key_norm", self.key_norm)):
            if norm is not None:
                require_type(norm, name, Normaliser)
                if norm.width != K:
                    raise ValueError(f"{name} has width {norm.width}, the heads have width {K}")

    @classmethod
    def from_matrices(
        cls,
        W_Q: npt.ArrayLike,
        W_K: npt.ArrayLike,
        W_V: npt.ArrayLike,
        W_O: npt.ArrayLike,
        *,
        heads: int,
        groups: int | None = None,
        b_Q: npt.ArrayLike | None = None,
        b_K: npt.ArrayLike | None = None,
        b_V: npt.ArrayLike | None = None,
        b_O: npt.ArrayLike | None = None,
        **options: Any,
    ) -> "Attention":
        """From matrices that hold all heads side by side, as checkpoints do.

        W_Q: (D, H·K); W_K: (D, G·K); W_V: (D, G·V); W_O: (H·V, E); b_Q: (H·K,); b_K: (G·K,);
        b_V: (G·V,); b_O: (E,). groups: G, None for H. options: the other parameters by name.
        Raises ValueError where the columns or rows are not divisible, and what `Attention` raises.
        """
        H = as_count(heads, "heads")
        G = H if groups is None else as_count(groups, "groups")
        return cls(
            query_HDK=_split(W_Q, "W_Q", 2, 1, H, "heads"),
            key_GDK=_split(W_K, "W_K", 2, 1, G, "groups"),
            value_GDV=_split(W_V, "W_V", 2, 1, G, "groups"),
            output_HVE=_split(W_O, "W_O", 2, 0, H, "heads"),
            query_bias_HK=_split_bias(b_Q, "b_Q", H, "heads"),
            key_bias_GK=_split_bias(b_K, "b_K", G, "groups"),
            value_bias_GV=_split_bias(b_V, "b_V", G, "groups"),
            output_bias_E=None if b_O is None else as_real_array(b_O, "b_O"),
            **options,
        )

    @property
    def heads(self) -> int:
        """H."""
        return self.query_HDK.shape[0]

    @property
    def groups(self) -> int:
        """G."""
        return self.key_GDK.shape[0]

    @property
    def width(self) -> int:
        """D."""
        return self.query_HDK.shape[1]

    @property
    def head_width(self) -> int:
        """K, the paper's d_h."""
        return self.query_HDK.shape[2]

    @property
    def value_width(self) -> int:
        """V."""
        return self.value_GDV.shape[2]

    @property
    def output_width(self) -> int:
        """E."""
        return self.output_HVE.shape[2]

    @property
    def score_scale(self) -> float:
        """What inner products are multiplied by to give scores: `scale`, or 1/√K."""
        return float(1.0 / np.sqrt(self.head_width)) if self.scale is None else self.scale

    @property
    def score_factor(self) -> float:
        """score_scale/τ: the derivative of the softmax's exponents in the inner products."""
        return self.score_scale / self.tau

    def visible(self, length: int) -> BoolArray:
        """What the mask shows of `length` tokens: booleans of shape (H, L, L), read-only.

        Raises ValueError where the mask is for another length.
        """
        if isinstance(self.mask, str):
            mask = causal_mask(length)
        elif self.mask is None:
            mask = np.ones((length, length), np.bool_)
        else:
            mask = self.mask
        if mask.shape[-1] != length:
            raise ValueError(f"mask is for {mask.shape[-1]} tokens, U has {length}")
        return np.broadcast_to(mask, (self.heads, length, length))

    def __call__(self, U: npt.ArrayLike) -> FloatArray:
        """The output at U of shape (L, D): shape (L, E), read-only. Errors as in `at`."""
        return self.at(U).output

    @_hidden_may_overflow
    def at(self, U: npt.ArrayLike) -> AttentionAt:
        """Everything at U of shape (L, D): the output, what leads to it, and the differential.

        Raises ValueError for another shape, for a mask or positions of another length, and where a
        projection or a visible score exceeds float64 (with the position); otherwise as
        `as_real_array` does.
        """
        tokens = np.array(as_real_array(U, "U", ndim=2), order="C")
        length, width = tokens.shape
        if width != self.width:
            raise ValueError(f"U has shape {tokens.shape}: tokens of width {self.width} are needed")
        visible_HLL = self.visible(length)
        rotation = None if self.rotary is None else self.rotary.rotation(length, self.head_width)

        raw_queries = _project(tokens, self.query_HDK, self.query_bias_HK, "queries")
        raw_keys = _project(tokens, self.key_GDK, self.key_bias_GK, "keys")
        values_GLV = _project(tokens, self.value_GDV, self.value_bias_GV, "values")
        query_norm = None if self.query_norm is None else self.query_norm.at(raw_queries)
        key_norm = None if self.key_norm is None else self.key_norm.at(raw_keys)
        queries_HLK = _rotate(raw_queries if query_norm is None else query_norm.output, rotation)
        keys_GLK = _rotate(raw_keys if key_norm is None else key_norm.output, rotation)

        scores_HLL = queries_HLK @ _transposed(self.per_head(keys_GLK)) * self.score_scale
        _require_finite(scores_HLL, "scores", visible_HLL)
        probabilities_HLL = softmax(scores_HLL, self.tau, mask=visible_HLL)
        head_outputs_HLV = probabilities_HLL @ self.per_head(values_GLV)
        output = np.sum(head_outputs_HLV @ self.output_HVE, axis=0)
        if self.output_bias_E is not None:
            output += self.output_bias_E
        _require_finite(output, "output")
        for array in (
            *(tokens, queries_HLK, keys_GLK, values_GLV, scores_HLL, probabilities_HLL),
            *(head_outputs_HLV, output),
        ):
            array.flags.writeable = False
        return AttentionAt(
            attention=self,
            U=tokens,
            queries_HLK=queries_HLK,
            keys_GLK=keys_GLK,
            values_GLV=values_GLV,
            scores_HLL=scores_HLL,
            visible_HLL=visible_HLL,
            probabilities_HLL=probabilities_HLL,
            head_outputs_HLV=head_outputs_HLV,
            output=output,
            _rotation=rotation,
            _query_norm=query_norm,
            _key_norm=key_norm,
        )

    def per_head(self, x: FloatArray) -> FloatArray:
        """From groups to heads: (..., G, L, K) to (..., H, L, K), each group for its heads."""
        return x if self.groups == self.heads else np.repeat(x, self.heads // self.groups, axis=-3)

    def per_group(self, x: FloatArray) -> FloatArray:
        """The adjoint of `per_head`: sums over the heads of each group."""
        if self.groups == self.heads:
            return x
        *lead, _, length, width = x.shape
        return np.asarray(np.sum(x.reshape(*lead, self.groups, -1, length, width), axis=-3))

    def _keep(self, name: str, shape: tuple[int | None, ...], axes: str) -> FloatArray:
        array = as_parameter(getattr(self, name), name, shape, axes)
        object.__setattr__(self, name, array)
        return array

    def _keep_bias(self, name: str, shape: tuple[int, ...], axes: str) -> None:
        if getattr(self, name) is not None:
            self._keep(name, shape, axes)


def _as_mask(mask: npt.ArrayLike, heads: int) -> BoolArray:
    """Read a mask of shape (L, L) or (heads, L, L): a private, read-only array.

    Raises TypeError for anything but booleans, ValueError for another shape and, naming the query,
    for a row that sees no key.
    """
    visible = np.array(as_booleans(mask, "mask"))
    square = visible.ndim in (2, 3) and 0 < visible.shape[-1] == visible.shape[-2]
    if not square or (visible.ndim == 3 and visible.shape[0] != heads):
        raise ValueError(f"mask has shape {visible.shape}: (L, L) or ({heads}, L, L) is needed")
    empty = ~np.any(visible, axis=-1)
    if np.any(empty):
        *head, query = first_true(empty)
        where = f" in head {head[0]}" if head else ""
        raise ValueError(f"mask hides every key of query {query}{where}")
    visible.flags.writeable = False
    return visible


def _transposed(x: FloatArray) -> FloatArray:
    return np.swapaxes(x, -1, -2)


def _rotate(x: FloatArray, rotation: Rotation | None) -> FloatArray:
    return x if rotation is None else rotation.apply(x)


def _rotate_back(x: FloatArray, rotation: Rotation | None) -> FloatArray:
    return x if rotation is None else rotation.undo(x)


def _push(dx: FloatArray, norm: NormaliserAt | None) -> FloatArray:
    return dx if norm is None else norm.push(dx)


def _pull(dy: FloatArray, norm: NormaliserAt | None) -> FloatArray:
    return dy if norm is None else norm.pull(dy)


def _project(
    tokens: FloatArray, weights: FloatArray, bias: FloatArray | None, name: str
) -> FloatArray:
    """Tokens (L, D) times the weights of each head (H, D, K): (H, L, K)."""
    projected = tokens @ weights
    if bias is not None:
        projected += bias[:, np.newaxis]
    _require_finite(projected, name)
    return np.asarray(projected)


def _require_finite(array: FloatArray, name: str, read: BoolArray | None = None) -> None:
    """Raise ValueError where an entry that is read exceeds float64."""
    bad = ~np.isfinite(array)
    if read is not None:
        bad &= read
    if np.any(bad):
        raise ValueError(f"{name}{position(first_true(bad))} is beyond the range of float64")


def _split(
    value: npt.ArrayLike, name: str, ndim: int, axis: int, parts: int, of: str
) -> FloatArray:
    """An axis cut in `parts` equal parts, which become the first axis of the result."""
    array = as_real_array(value, name, ndim=ndim)
    if array.shape[axis] % parts:
        raise ValueError(f"{name} has shape {array.shape}: it cannot be split among {parts} {of}")
    cut = np.moveaxis(array, axis, 0)
    cut = cut.reshape(parts, -1, *cut.shape[1:])
    return np.moveaxis(cut, 1, axis + 1)


def _split_bias(value: npt.ArrayLike | None, name: str, parts: int, of: str) -> FloatArray | None:
    return None if value is None else _split(value, name, 1, 0, parts, of)
