"""Theorem 4.3: the Lipschitz bound of a pre-LN layer on the whole space, and of its FFN.

Beyond the paper: both constants are attained, which the checks use. The FFN's, by W_1 and W_2 with
aligned singular vectors where act' is largest. The layer's, for d >= 2, γ = 1, β = 0 at equal
constant tokens, by one head with W^K = 0, W^V = wR and W^O = Rᵀ, R orthogonal and w > 0, and an FFN
with the Jacobian L_FFN·I at 0.
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
from theory.claims.corollary_a_3 import block_of_known_norm
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import ball, precision

FEED_FORWARD = Claim(
    id="theorem_4_3_step_ffn_lip",
    paper_ref="Section C.2, FFN sublayer",
    section="C",
    statement="FFN(x) = W_2 act(W_1 x + b_1) + b_2, applied to every token, is "
    "‖W_2‖₂ Lip(act) ‖W_1‖₂-Lipschitz in the Euclidean norm of a token and in the block-∞/RMS norm "
    "of a sequence, on the whole space and for all biases.",
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The proof carries the factor Lip(act), which is 1 for the activation that it names. "
        "For GELU, which the models use, it is 1.128904… (beyond_activation_constants), and L_FFN "
        "must contain it. The models' layers have no biases, which changes nothing.",
    ),
)
PRE_LN = Claim(
    id="theorem_4_3",
    paper_ref="Theorem 4.3; Section C.2",
    section="4",
    statement="In the block-∞/RMS norm, on the whole space of L×d states: the pre-LN layer "
    "Z = X + MHA(LN_1(X)), X' = Z + FFN(LN_2(Z)) with bias-free attention, a fixed mask that "
    "leaves a key to every row, no dropout, and ε > 0 is Lipschitz with constant "
    "(1 + L_LN L_MHA)(1 + L_LN L_FFN), where L_MHA is Corollary 4.2's constant at B = B_LN, and "
    "L_FFN contains the Lipschitz constant of the activation. L and ℓ do not enter.",
    uses=(
        "def_BLN_LLN",
        "lemma_2_4",
        "lemma_a_1",
        "corollary_4_2",
        "theorem_4_3_step_ffn_lip",
    ),
)


# ------------------------------------------------------------------------------ feed-forward


def _slopes(rng: random.Random) -> tuple[Fraction, Fraction]:
    """Slopes of an activation to the left and to the right of 0."""
    return Fraction(rng.randint(-4, 4), 4), Fraction(rng.randint(-4, 4), 4)


def _bent(slopes: tuple[Fraction, Fraction], t: Fraction) -> Fraction:
    return slopes[int(t > 0)] * t


@check(FEED_FORWARD, kind=Kind.DERIVATION, planted=Planted("a bound 1% smaller", factor="0.99"))
def unit_by_unit(profile: Profile, *, factor: str = "1") -> Derivation:
    """Each hidden unit by its slope; then two matrices. Piecewise linear activations as spots."""
    scale = Fraction(factor) ** 2
    n, f = sympy.Symbol("n", integer=True, positive=True), sympy.Symbol("f", integer=True)
    top = sympy.Symbol("A", nonnegative=True)
    slope, hidden = sympy.IndexedBase("a", real=True), sympy.IndexedBase("h", real=True)
    square = sympy.Sum(hidden[f] ** 2, (f, 1, n))
    bent = sympy.Sum((slope[f] * hidden[f]) ** 2, (f, 1, n))
    gaps = sympy.Sum((top**2 - slope[f] ** 2) * hidden[f] ** 2, (f, 1, n))

    def mean_value(rng: random.Random) -> Case:
        slopes = _slopes(rng)
        s, u = norms.random_fraction(rng), norms.random_fraction(rng)
        rise = abs(_bent(slopes, s) - _bent(slopes, u))
        return Case(rise, "<=", max(map(abs, slopes)) * abs(s - u), {"slopes": slopes, "t": (s, u)})

    def whole(rng: random.Random) -> Case:
        width = rng.randint(1, 4)
        first, first_squared, right = block_of_known_norm(rng, width)
        slopes, bias = _slopes(rng), norms.random_vector(rng, width)
        scales = norms.random_vector(rng, width)
        x = norms.random_vector(rng, width)
        step = norms.random_vector(rng, width)
        if rng.random() < 0.5:
            # Aligned: W_1 sends `right` to its top coordinate, where W_2 and the slope are largest.
            image = m.apply(first, right)
            at = max(range(width), key=lambda k: abs(image[k]))
            scales = tuple(
                Fraction(m.sup_norm(scales)) if k == at else s for k, s in enumerate(scales)
            )
            step, x, bias = right, (Fraction(0),) * width, (Fraction(0),) * width
            if (image[at] > 0) != (abs(slopes[1]) >= abs(slopes[0])):
                step = tuple(-entry for entry in step)
        moved = [a + b for a, b in zip(x, step, strict=True)]
        rows = []
        for point in (x, moved):
            units = (h + b for h, b in zip(m.apply(first, point), bias, strict=True))
            rows.append([s * _bent(slopes, h) for s, h in zip(scales, units, strict=True)])
        rise = m.squared([b - a for a, b in zip(*rows, strict=True)])
        top_slope, top_scale = max(map(abs, slopes)), Fraction(m.sup_norm(scales))
        bound = scale * (top_slope * top_scale) ** 2 * first_squared * m.squared(step)
        return Case(rise, "<=", bound, {"W_1": first, "W_2": scales, "x": x, "y": moved})

    return Derivation(
        scope="all widths, weights and biases, all Lipschitz activations",
        steps=(
            RuleStep("one unit", Rule.MEAN_VALUE, "|act(s) − act(t)| <= Lip|s − t|", mean_value),
            Identity("top² ‖h‖² − Σ (a_f h_f)²", top**2 * square - bent, gaps),
            RuleStep("two matrices", Rule.OPERATOR_NORM, "‖W_2‖ Lip(act) ‖W_1‖", whole),
        ),
    )


# ------------------------------------------------------------------------------------- layer


@check(PRE_LN, kind=Kind.DERIVATION, planted=Planted("a bound 1% smaller", factor="0.99"))
def two_residual_sublayers(profile: Profile, *, factor: str = "1") -> Derivation:
    """Each sublayer by the triangle inequality, then their composition; equality from definitions.

    The spots are piecewise linear layers on tokens of width 1 whose branches are Lipschitz on D_B
    alone, half of them at points where the bound is attained.
    """
    scale = Fraction(factor)
    w, f = sympy.symbols("w f", positive=True)
    v, normalised, root_eps = derived_factors()

    def sublayer(direction: sympy.Expr, branch: sympy.Expr) -> sympy.Expr:
        """The derivative of X + branch·LN(X) along a centred vector at a constant token."""
        return direction + branch * normalised.subs(v, direction)

    def magnitude(rng: random.Random) -> Case:
        token = m.random_token(rng)
        gamma, beta = (norms.random_vector(rng, len(token.x)) for _ in range(2))
        output = token.layer_norm(gamma, beta)
        bound = Fraction(m.sup_norm(gamma) + m.sup_norm(beta))
        return Case(m.squared(output) / len(output), "<=", bound**2, {"x": token.x, "γ": gamma})

    def normalisation(rng: random.Random) -> Case:
        first = norms.random_token(rng, positive_eps=True)
        second = norms.Token(norms.random_vector(rng, first.width), first.gamma, first.eps)
        return norms.lipschitz_case(first, second, first.top_squared / first.eps)

    def attention(rng: random.Random) -> Case:
        layer, x, y = random_layer(rng)
        images = layer.pre_attention(x), layer.pre_attention(y)
        return lipschitz_case(images, (x, y), scale * (1 + layer.rate * layer.mixing))

    def feed_forward(rng: random.Random) -> Case:
        layer, x, y = random_layer(rng)
        images = layer.pre_feed_forward(x), layer.pre_feed_forward(y)
        return lipschitz_case(images, (x, y), scale * (1 + layer.rate * layer.feeding))

    def whole(rng: random.Random) -> Case:
        layer, x, y = random_layer(rng)
        far = rng.choice((1, 20))
        points = [far * entry for entry in x], [far * entry for entry in y]
        constant = (1 + layer.rate * layer.mixing) * (1 + layer.rate * layer.feeding)
        return lipschitz_case(
            (layer.pre(points[0]), layer.pre(points[1])), points, scale * constant
        )

    return Derivation(
        scope="all L, d >= 1, all layers with ε > 0, all pairs of states",
        steps=(
            RuleStep("LN_1(X) in D_B_LN", Rule.MONOTONICITY, "lemma_2_4", magnitude),
            RuleStep("LN is L_LN-Lipschitz", Rule.MONOTONICITY, "lemma_a_1", normalisation),
            RuleStep("attention", Rule.TRIANGLE_INEQUALITY, "1 + L_LN L_MHA", attention),
            RuleStep("FFN", Rule.TRIANGLE_INEQUALITY, "1 + L_LN L_FFN", feed_forward),
            RuleStep("layer", Rule.TRANSITIVITY, "the product, at all states", whole),
            Identity(
                "attained: two sublayers along a centred vector at a constant token",
                sublayer(sublayer(v, w), f),
                (1 + w / root_eps) * (1 + f / root_eps) * v,
            ),
        ),
    )


@check(PRE_LN, kind=Kind.CERTIFICATE, planted=Planted("Lip(GELU) = 1 in L_FFN", activation="1"))
def quotients_in_balls(profile: Profile, *, activation: str | None = None) -> Evidence:
    """Softmax attention and GELU in balls: pairs far apart, and pairs at which the bound is nearly
    attained; there FFN has W_1 = aI, b_1 = √2·1 and W_2 = I.
    """
    rng = random.Random(431)

    def cases() -> Iterator[Case]:
        gelu = balls.gelu_lipschitz() if activation is None else ball(Fraction(activation))
        for k in range(profile.pick(24, 400)):
            width, length = rng.randint(2, 4), rng.randint(1, 4)
            layer, x, y = balls.random_layer_and_states(rng, length, width)
            if k % 2:
                layer, x, y = balls.attaining_layer(rng, length, width)
            slope = gelu if layer.feed_forward.gelu else ball(1)
            mixing = layer.attention.lipschitz(layer.bound)
            feeding = layer.feed_forward.lipschitz(slope)
            bound = (1 + layer.normalising * mixing) * (1 + layer.normalising * feeding)
            case = balls.lipschitz_case(layer.pre, x, y, bound, {"layer": layer})
            yield case
            if k % 2:
                yield balls.nearly_attained(case)

    with precision(balls.BITS):
        return judge(cases(), scope="one head, d <= 4, L <= 4, GELU or ReLU; difference quotients")


@check(PRE_LN, kind=Kind.FLOAT, planted=Planted("a bound 1% smaller", factor="0.99"))
def certified_norms_of_random_layers(profile: Profile, *, factor: str = "1") -> Evidence:
    """The proved lower bound of the Jacobian's norm, at random states and where it is attained."""
    rng = np.random.default_rng(432)
    scale = float(factor)

    def cases() -> Iterator[Case]:
        for k in range(profile.pick(24, 2000)):
            width, length = int(rng.integers(2, 5)), int(rng.integers(1, 5))
            modules = floats.random_modules(rng, width)
            X = rng.normal(size=(length, width)) * rng.choice((0.1, 1.0, 30.0))
            if k % 4 == 0:
                modules = floats.attaining_modules(rng, width, pre=True, gamma=np.ones(width))
                X = np.zeros((length, width))
            lower, _ = floats.certified(modules.layer(pre=True).at(X))
            bound = scale * modules.paper_bound(pre=True)
            yield Case(lower, "<=", bound, {"layer": k, "L": length, "d": width})

    return judge(
        cases(),
        scope="random layers, 1 or 2 heads, four activations, d <= 4, L <= 4, 0.001 <= ε <= 1",
        tolerance=floats.BRACKETED,
    )
