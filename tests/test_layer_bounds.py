"""Theorems 4.3 and 4.4 as functions: against proved norms, and against the formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.attention import Attention
from theory.blocks import PostNormLayer, PreNormLayer
from theory.claims import _float_layers as floats
from theory.feed_forward import Experts, FeedForward
from theory.layer_bounds import (
    feed_forward_constant,
    output_bound,
    post_norm_layer_bound,
    pre_norm_layer_bound,
)
from theory.opnorm import block_norm_bracket

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=40)
@given(seed=SEEDS, exact=st.booleans())
def test_no_layer_exceeds_its_bound(seed: int, exact: bool) -> None:
    rng = np.random.default_rng(seed)
    modules = floats.random_modules(rng, int(rng.integers(2, 5)))
    pre, post = modules.layer(pre=True), modules.layer(pre=False)
    assert isinstance(pre, PreNormLayer)
    assert isinstance(post, PostNormLayer)
    X = rng.normal(size=(3, modules.attention.width))
    lower = block_norm_bracket(pre.at(X).jacobian(), ratio=1.3).lower
    assert lower <= pre_norm_layer_bound(pre, exact=exact).value * (1 + 1e-12)
    incoming = modules.norm2(X)
    lower = block_norm_bracket(post.at(incoming).jacobian(), ratio=1.3).lower
    assert lower <= post_norm_layer_bound(post, modules.norm2, exact=exact).value * (1 + 1e-12)


@given(seed=SEEDS)
@settings(max_examples=20)
def test_constants_are_the_papers_and_exact_ones_are_no_larger(seed: int) -> None:
    modules = floats.random_modules(np.random.default_rng(seed), 4)
    pre, post = modules.layer(pre=True), modules.layer(pre=False)
    assert isinstance(pre, PreNormLayer)
    assert isinstance(post, PostNormLayer)
    paper = pre_norm_layer_bound(pre)
    assert paper.value == pytest.approx(modules.paper_bound(pre=True), rel=1e-12)
    assert paper.value == paper.attention_sublayer * paper.feed_forward_sublayer
    assert pre_norm_layer_bound(pre, exact=True).value <= paper.value
    paper = post_norm_layer_bound(post, modules.norm2)
    assert paper.value == pytest.approx(modules.paper_bound(pre=False), rel=1e-12)
    assert post_norm_layer_bound(post, modules.norm2, exact=True).value <= paper.value


def test_the_first_post_norm_layer_takes_a_radius() -> None:
    modules = floats.random_modules(np.random.default_rng(1), 4)
    post = modules.layer(pre=False)
    assert isinstance(post, PostNormLayer)
    near, far = (post_norm_layer_bound(post, radius).value for radius in (0.0, 50.0))
    assert near < far
    with pytest.raises(ValueError, match=r"incoming is -1\.0: negative"):
        post_norm_layer_bound(post, -1.0)


@given(seed=SEEDS, reach=st.sampled_from([0.1, 1.0, 5.0]))
@settings(max_examples=60)
def test_gated_and_mixed_networks_stay_below_their_constants(seed: int, reach: float) -> None:
    rng = np.random.default_rng(seed)
    D, F = int(rng.integers(1, 5)), int(rng.integers(1, 6))

    def network(gated: bool) -> FeedForward:
        return FeedForward(
            w1_DF=rng.normal(size=(D, F)),
            w2_FD=rng.normal(size=(F, D)),
            b1_F=rng.normal(size=F),
            activation=str(rng.choice(["relu", "gelu", "gelu_tanh", "silu"])),
            gate_DF=rng.normal(size=(D, F)) if gated else None,
            gate_bias_F=rng.normal(size=F) if gated else None,
        )

    X = rng.normal(size=(2, D))
    X *= reach * np.sqrt(D) / np.linalg.norm(X, axis=1, keepdims=True)
    gated = network(True)
    mixed = Experts(experts=(network(False), gated), routing_LX=rng.normal(size=(2, 2)))
    for ffn in (gated, mixed):
        jacobian = ffn.at(X).jacobian()
        for token in range(2):
            norm = np.linalg.norm(jacobian[token, :, token], 2)
            assert norm <= feed_forward_constant(ffn, reach) * (1 + 1e-12)


def test_what_is_not_covered_is_named() -> None:
    modules = floats.random_modules(np.random.default_rng(2), 4)
    attention = modules.attention
    biased = Attention(
        query_HDK=attention.query_HDK,
        key_GDK=attention.key_GDK,
        value_GDV=attention.value_GDV,
        output_HVE=attention.output_HVE,
        query_bias_HK=np.ones((attention.heads, attention.head_width)),
    )
    parts = {"norm1": modules.norm1, "norm2": modules.norm2, "feed_forward": modules.feed_forward}
    with pytest.raises(ValueError, match="query_bias_HK"):
        pre_norm_layer_bound(PreNormLayer(attention=biased, **parts))
    flat = type(modules.norm1)(kind="layer", gamma=np.ones(4), eps=0.0)
    with pytest.raises(ValueError, match="eps is 0"):
        pre_norm_layer_bound(PreNormLayer(attention=attention, **{**parts, "norm1": flat}))
    assert output_bound(flat) == 1.0
