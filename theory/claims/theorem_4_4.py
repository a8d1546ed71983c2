"""Theorem 4.4: the Lipschitz bound of a post-LN layer on states that a LayerNorm has written.

Beyond the paper: the constant is attained, which the checks use, for d >= 2, γ = 1, β = 0 at equal
constant tokens, by one head with W^K = 0, W^V = wR and W^O = Rᵀ, R orthogonal and w > 0, and an FFN
with the Jacobian L_FFN·I at 0 that maps 0 to a constant token.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.claims import _ball_layers as balls
from theory.claims import _float_layers as floats
from theory.claims import _layernorms as norms
from theory.claims import _matrices as m
from theory.claims._constant_tokens import derived_factors
from theory.claims._toy_layers import lipschitz_case, random_layer
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import ball, precision

POST_LN = Claim(
    id="theorem_4_4",
    paper_ref="Theorem 4.4; Section C.3",
    section="4",
    statement="In the block-∞/RMS norm, on the states with ‖X‖_{∞,rms} <= B_LN, among them every "
    "output X_ℓ, ℓ >= 1, of a layer before: the post-LN layer Z = LN_1(X + MHA(X)), "
    "X' = LN_2(Z + FFN(Z)) with bias-free attention, a fixed mask that leaves a key to every row, "
    "no dropout, and ε > 0 is Lipschitz with constant L_LN²(1 + L_MHA)(1 + L_FFN), L_MHA of "
    "Corollary 4.2 at B = B_LN. B_LN includes the last LayerNorm of layer ℓ − 1.",
    uses=(
        "def_BLN_LLN",
        "lemma_2_4",
        "lemma_a_1",
        "corollary_4_2",
        "theorem_4_3_step_ffn_lip",
    ),
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="L_FFN is a constant of the whole space here, so that Z needs no domain. A gated "
        "FFN has none (beyond_ffn_gated); it needs Z in D_B_LN, which LN_1 supplies. The first "
        "layer, which the theorem leaves out, meets states of any size: there LN_1 multiplies by "
        "1/σ, about 35 for inputs of standard deviation 0.028.",
    ),
)


@check(POST_LN, kind=Kind.DERIVATION, planted=Planted("a bound 1% smaller", factor="0.99"))
def two_normalised_sublayers(profile: Profile, *, factor: str = "1") -> Derivation:
    """Each sublayer by the triangle inequality behind a Lipschitz map; equality from definitions.

    The spots are piecewise linear layers on tokens of width 1, half of them at points where the
    bound is attained.
    """
    scale = Fraction(factor)
    w, f = sympy.symbols("w f", positive=True)
    v, normalised, root_eps = derived_factors()

    def sublayer(direction: sympy.Expr, branch: sympy.Expr) -> sympy.Expr:
        """The derivative of LN(X + branch·X) along a centred vector at a constant token."""
        return normalised.subs(v, direction + branch * direction)

    def incoming(rng: random.Random) -> Case:
        token = m.random_token(rng)
        modules = [
            (norms.random_vector(rng, len(token.x)), norms.random_vector(rng, len(token.x)))
            for _ in range(3)
        ]
        bound = max(Fraction(m.sup_norm(g) + m.sup_norm(b)) for g, b in modules)
        state = token.layer_norm(*rng.choice(modules))
        return Case(m.squared(state) / len(state), "<=", bound**2, {"X_ℓ": state})

    def normalisation(rng: random.Random) -> Case:
        first = norms.random_token(rng, positive_eps=True)
        second = norms.Token(norms.random_vector(rng, first.width), first.gamma, first.eps)
        return norms.lipschitz_case(first, second, first.top_squared / first.eps)

    def attention(rng: random.Random) -> Case:
        layer, x, y = random_layer(rng)
        images = layer.post_attention(x), layer.post_attention(y)
        return lipschitz_case(images, (x, y), scale * layer.rate * (1 + layer.mixing))

    def feed_forward(rng: random.Random) -> Case:
        layer, x, y = random_layer(rng)
        images = layer.post_feed_forward(x), layer.post_feed_forward(y)
        return lipschitz_case(images, (x, y), scale * layer.rate * (1 + layer.feeding))

    def whole(rng: random.Random) -> Case:
        layer, x, y = random_layer(rng)
        constant = layer.rate**2 * (1 + layer.mixing) * (1 + layer.feeding)
        return lipschitz_case((layer.post(x), layer.post(y)), (x, y), scale * constant)

    return Derivation(
        scope="all L, d >= 1, all layers with ε > 0, all pairs of states in D_B_LN",
        steps=(
            RuleStep("X_ℓ in D_B_LN", Rule.MONOTONICITY, "lemma_2_4, layer ℓ − 1", incoming),
            RuleStep("LN is L_LN-Lipschitz", Rule.MONOTONICITY, "lemma_a_1", normalisation),
            RuleStep("attention", Rule.TRIANGLE_INEQUALITY, "L_LN(1 + L_MHA)", attention),
            RuleStep("FFN", Rule.TRIANGLE_INEQUALITY, "L_LN(1 + L_FFN)", feed_forward),
            RuleStep("layer", Rule.TRANSITIVITY, "the product, on D_B_LN", whole),
            Identity(
                "attained: two sublayers along a centred vector at a constant token",
                sublayer(sublayer(v, w), f),
                (1 + w) * (1 + f) * v / root_eps**2,
            ),
        ),
    )


@check(POST_LN, kind=Kind.CERTIFICATE, planted=Planted("one factor L_LN in place of two", power=1))
def quotients_in_balls(profile: Profile, *, power: int = 2) -> Evidence:
    """Softmax attention and GELU in balls: pairs of LayerNorm outputs, and pairs at which the bound
    is nearly attained.
    """
    rng = random.Random(441)

    def cases() -> Iterator[Case]:
        gelu = balls.gelu_lipschitz()
        for k in range(profile.pick(24, 400)):
            width, length = rng.randint(2, 4), rng.randint(1, 4)
            layer, *states = balls.random_layer_and_states(rng, length, width)
            # Layer ℓ − 1 ends in the second LayerNorm, so that B_LN holds it.
            x, y = map(layer.norms[1], states)
            if k % 2:
                layer, x, y = balls.attaining_layer(rng, length, width)
            slope = gelu if layer.feed_forward.gelu else ball(1)
            mixing, feeding = (
                layer.attention.lipschitz(layer.bound),
                layer.feed_forward.lipschitz(slope),
            )
            bound = layer.normalising**power * (1 + mixing) * (1 + feeding)
            case = balls.lipschitz_case(layer.post, x, y, bound, {"layer": layer})
            yield case
            if k % 2:
                yield balls.nearly_attained(case)

    with precision(balls.BITS):
        return judge(cases(), scope="one head, d <= 4, L <= 4, GELU or ReLU; difference quotients")


@check(POST_LN, kind=Kind.FLOAT, planted=Planted("a bound 1% smaller", factor="0.99"))
def certified_norms_of_random_layers(profile: Profile, *, factor: str = "1") -> Evidence:
    """The proved lower bound of the Jacobian's norm, at LayerNorm outputs and where attained."""
    rng = np.random.default_rng(442)
    scale = float(factor)

    def cases() -> Iterator[Case]:
        for k in range(profile.pick(24, 2000)):
            width, length = int(rng.integers(2, 5)), int(rng.integers(1, 5))
            modules = floats.random_modules(rng, width)
            before = floats.random_normaliser(rng, width)
            X = before(rng.normal(size=(length, width)) * rng.choice((0.1, 1.0, 30.0)))
            bound = max(modules.bound, floats.magnitude(before))
            if k % 4 == 0:
                modules = floats.attaining_modules(rng, width, pre=False, gamma=np.ones(width))
                X = np.zeros((length, width))
            lower, _ = floats.certified(modules.layer(pre=False).at(X))
            constant = scale * modules.paper_bound(pre=False, bound=bound)
            yield Case(lower, "<=", constant, {"layer": k, "L": length, "d": width})

    return judge(
        cases(),
        scope="random layers, 1 or 2 heads, four activations, d <= 4, L <= 4, 0.001 <= ε <= 1",
        tolerance=floats.BRACKETED,
    )
