"""Lipschitz constants of complete layers: Theorems 4.3 and 4.4, as written and with exact factors.

All are upper bounds in the norm block-∞/RMS on both sides, computed in floats: their roundings are
those of a few spectral norms and are not added.

Shape suffixes: as in theory.attention and theory.feed_forward.
"""

import math
from dataclasses import dataclass

import numpy as np

from theory._bound_parts import AttentionNorms, spectral_norm
from theory.activations import lipschitz
from theory.arguments import as_real_scalar
from theory.blocks import PostNormLayer, PreNormLayer
from theory.bounds import corollary_4_2_bound
from theory.feed_forward import Experts, FeedForward
from theory.normaliser import Normaliser


@dataclass(frozen=True, kw_only=True)
class LayerBound:
    """A Lipschitz constant of a layer and what it is made of.

    value: the bound. attention_sublayer, feed_forward_sublayer: its two factors. mixing: L_MHA on
    the ball of radius reach. feeding: L_FFN. rates: the constants of the two normalisations.
    """

    value: float
    attention_sublayer: float
    feed_forward_sublayer: float
    mixing: float
    feeding: float
    rates: tuple[float, float]
    reach: float


def pre_norm_layer_bound(
    layer: PreNormLayer, *, exact: bool = False, norms: AttentionNorms | None = None
) -> LayerBound:
    """Theorem 4.3: (1 + L_LN L_MHA)(1 + L_LN L_FFN), on the whole space.

    L_LN is the larger ‖γ‖_∞/√ε and L_MHA that of Corollary 4.2 at B_LN, the larger ‖γ‖_∞ + ‖β‖_∞.
    exact: each normalisation with its own exact constant and norm1's own output bound instead
    (Normaliser.lipschitz, output_bound), which is never larger. A gated network counts on the ball
    that norm2 maps into. Raises ValueError for ε = 0 and for attention that Corollary 4.2 does not
    cover.
    """
    rates, reach = _constants((layer.norm1, layer.norm2), exact)
    mixing = _mixing(layer, output_bound(layer.norm1) if exact else reach, norms)
    feeding = feed_forward_constant(
        layer.feed_forward, output_bound(layer.norm2) if exact else reach
    )
    first, second = 1.0 + rates[0] * mixing, 1.0 + rates[1] * feeding
    return LayerBound(
        value=first * second,
        attention_sublayer=first,
        feed_forward_sublayer=second,
        mixing=mixing,
        feeding=feeding,
        rates=rates,
        reach=reach,
    )


def post_norm_layer_bound(
    layer: PostNormLayer,
    incoming: Normaliser | float,
    *,
    exact: bool = False,
    norms: AttentionNorms | None = None,
) -> LayerBound:
    """Theorem 4.4: L_LN²(1 + L_MHA)(1 + L_FFN), on {X: ‖X‖_{∞,rms} <= B}.

    incoming: the normalisation that X comes out of, the previous layer's last one, or B itself,
    which the first layer needs; B_LN also covers it. Constants, `exact` and errors as in
    `pre_norm_layer_bound`; raises ValueError for a negative B, too.
    """
    if isinstance(incoming, Normaliser):
        radius = output_bound(incoming)
    else:
        radius = as_real_scalar(incoming, "incoming")
        if radius < 0.0:
            raise ValueError(f"incoming is {radius}: negative")
    rates, reach = _constants((layer.norm1, layer.norm2), exact)
    reach = max(reach, radius)
    mixing = _mixing(layer, radius if exact else reach, norms)
    feeding = feed_forward_constant(
        layer.feed_forward, output_bound(layer.norm1) if exact else reach
    )
    first, second = rates[0] * (1.0 + mixing), rates[1] * (1.0 + feeding)
    return LayerBound(
        value=first * second,
        attention_sublayer=first,
        feed_forward_sublayer=second,
        mixing=mixing,
        feeding=feeding,
        rates=rates,
        reach=reach,
    )


def output_bound(norm: Normaliser) -> float:
    """‖γ‖_∞ + ‖β‖_∞, Lemma 2.4's bound of the output's RMS; for RMSNorm ‖γ‖_∞."""
    shift = 0.0 if norm.beta is None else float(np.max(np.abs(norm.beta)))
    return float(np.max(np.abs(norm.gamma))) + shift


def feed_forward_constant(network: FeedForward | Experts, reach: float) -> float:
    """A Lipschitz constant of the network on tokens of RMS at most reach.

    Without a gate ‖W_2‖₂ Lip(act) ‖W_1‖₂, for all tokens. With a gate act(xG + c)(xW_1 + b) is
    differentiated as a product, with |act(z)| <= |z| and both factors at most the largest column
    norm times reach·√D plus the largest bias. A mixture of experts has the largest Σ_x |r_tx| times
    the experts' constants.
    """
    if isinstance(network, Experts):
        constants = [feed_forward_constant(expert, reach) for expert in network.experts]
        return float(np.max(np.abs(network.routing_LX) @ constants))
    outer, slope = spectral_norm(network.w2_FD), lipschitz(network.activation)
    linear = spectral_norm(network.w1_DF)
    if network.gate_DF is None:
        return outer * slope * linear
    length = reach * math.sqrt(network.width)
    linear_size = _largest_entry(network.w1_DF, network.b1_F, length)
    gate_size = _largest_entry(network.gate_DF, network.gate_bias_F, length)
    return outer * (slope * spectral_norm(network.gate_DF) * linear_size + gate_size * linear)


def _largest_entry(weights_DF: np.ndarray, bias_F: np.ndarray | None, length: float) -> float:
    """max |xW + b| over ‖x‖₂ <= length, entry by entry."""
    sizes = length * np.linalg.norm(weights_DF, axis=0)
    return float(np.max(sizes if bias_F is None else sizes + np.abs(bias_F)))


def _constants(
    norms: tuple[Normaliser, Normaliser], exact: bool
) -> tuple[tuple[float, float], float]:
    """The two rates and B_LN."""
    if exact:
        rates = (norms[0].lipschitz(), norms[1].lipschitz())
    else:
        if min(norm.eps for norm in norms) == 0.0:
            raise ValueError("eps is 0: the normalisation has no Lipschitz constant")
        crude = max(float(np.max(np.abs(norm.gamma))) / math.sqrt(norm.eps) for norm in norms)
        rates = (crude, crude)
    return rates, max(output_bound(norm) for norm in norms)


def _mixing(
    layer: PreNormLayer | PostNormLayer, radius: float, norms: AttentionNorms | None
) -> float:
    bound = corollary_4_2_bound(layer.attention, radius, norms=norms)
    if not bound.covered:
        raise ValueError(f"attention has {bound.missing}, which Corollary 4.2 does not cover")
    return bound.value
