"""Beyond Theorems 4.3 and 4.4: exact and local constants, RMSNorm, gated FFNs, and vacuity.

Exact constants. The proofs use of LN_j only that it is Lipschitz, and Lip(LN_j) is
λ_j = ‖D_jP‖₂/√ε_j (beyond_ln_lipschitz), never above ‖γ_j‖_∞/√ε_j; nor is a maximum over modules
needed. So pre-LN has (1 + λ_1 L_MHA)(1 + λ_2 L_FFN) and post-LN λ_1λ_2(1 + L_MHA)(1 + L_FFN).
Attained. Let W^K = 0, so that attention averages values, and let all tokens be equal and constant,
where LN_j's Jacobian is D_jP/√ε_j. Take a unit v in the row space with D_jPv = ‖D_jP‖u. In pre-LN
with LN_1 = LN_2, W^V W^O = w·R and W_2W_1-weights f·R with a reflection R that takes u back to v,
each sublayer multiplies v by 1 + λw and 1 + λf. In post-LN let γ_1 = 1 and W^V W^O = wI.

Local constants. The Jacobian of a normalisation is block diagonal, with norm max_i ‖J(x_i)‖₂ in
block-∞/RMS (corollary_a_3_norms), and by the chain rule, the triangle inequality and
submultiplicativity the layer's Jacobian at X has norm at most
(1 + Λ_MHA(LN_1X) max_i ‖J_1(x_i)‖)(1 + L_FFN max_i ‖J_2(z_i)‖), or for post-LN
max_i ‖J_1(y_i)‖ (1 + Λ_MHA(X)) max_i ‖J_2(y'_i)‖ (1 + L_FFN). ‖J(x)‖₂ <= ‖γ‖_∞/σ(x), which does
not grow as ε shrinks.

RMSNorm. It maps into ‖·‖_rms <= ‖γ‖_∞ (no shift) and is ‖γ‖_∞/√ε-Lipschitz, exactly, at the zero
token; nothing else of LayerNorm enters the proofs.

Gated FFN. F(x) = (act(xG) ⊙ xW_1)W_2 has DF(x)[v] = (act'(xG) ⊙ vG ⊙ xW_1 + act(xG) ⊙ vW_1)W_2. On
‖x‖₂ <= R the entries of xW_1 and xG are at most R‖W_1‖ and R‖G‖, and |act(t)| <= c|t| gives
‖DF‖ <= (Lip(act) + c)R‖G‖‖W_1‖‖W_2‖; the ball is convex. It grows with R and must:
x·relu(x) has slope 2x.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy
from scipy.sparse.linalg import eigsh

from theory.activations import ACTIVATIONS, lipschitz_ball
from theory.claims import _float_layers as floats
from theory.claims import _layernorms as norms
from theory.claims import _matrices as m
from theory.claims._figures import half_unit
from theory.claims._toy_layers import lipschitz_case, random_layer
from theory.derivations import layernorm as symbolic
from theory.feed_forward import FeedForward
from theory.norms import spectral_norm
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import (
    Case,
    Derivation,
    Evidence,
    Identity,
    Kind,
    Rule,
    RuleStep,
    Tolerance,
    judge,
)
from verify.exact import ball, precision

EXACT = Claim(
    id="beyond_layer_exact_constants",
    paper_ref="sharpens Theorems 4.3 and 4.4",
    section="beyond",
    statement="In the block-∞/RMS norm and under the hypotheses of Theorems 4.3 and 4.4, with "
    "λ_j = Lip(LN_j) = ‖Diag(γ_j)P‖₂/√ε_j for each of the layer's two LayerNorms: the pre-LN layer "
    "is (1 + λ_1 L_MHA)(1 + λ_2 L_FFN)-Lipschitz, the post-LN layer "
    "λ_1 λ_2 (1 + L_MHA)(1 + L_FFN)-Lipschitz on ‖X‖_{∞,rms} <= B_LN. Never above the paper's "
    "bounds, and below them where a module's γ ≠ 0 has its largest |γ_i| only once (for pre-LN if "
    "also the constant of that module's sublayer is not 0). Attained for W^K = 0: pre-LN for every "
    "γ ≠ 0 shared by both (d >= 2), post-LN for γ_1 = 1 and every γ_2.",
    uses=("theorem_4_3", "theorem_4_4", "beyond_ln_lipschitz"),
)
LOCAL = Claim(
    id="beyond_layer_local",
    paper_ref="sharpens Theorems 4.3 and 4.4",
    section="beyond",
    statement="In the norm induced by block-∞/RMS, at every state X where the layer is "
    "differentiable, ε >= 0 and σ > 0: with a = max_i ‖J_LN,1‖₂ and a' = max_i ‖J_LN,2‖₂ over the "
    "tokens that the two LayerNorms meet, each at most ‖γ‖_∞/σ, the layer's Jacobian has norm at "
    "most (1 + a Λ_MHA(LN_1(X)))(1 + a' L_FFN) for pre-LN and a a' (1 + Λ_MHA(X))(1 + L_FFN) for "
    "post-LN, X of any size; Λ_MHA may be replaced by Theorem 4.1's bound of it.",
    uses=(
        "corollary_a_3_norms",
        "lemma_a_1_step_local",
        "theorem_4_1",
        "theorem_4_3_step_ffn_lip",
    ),
)
RMS = Claim(
    id="beyond_layer_rmsnorm",
    paper_ref="extends Theorems 4.3 and 4.4",
    section="beyond",
    statement="With RMSNorm in place of LayerNorm Theorems 4.3 and 4.4 hold in the same norm, with "
    "B = max_j ‖γ_j‖_∞ and, as before, L_LN = max_j ‖γ_j‖_∞/√ε_j, which now is the exact Lipschitz "
    "constant of the module that has it. Attained for W^K = 0 at zero tokens, d >= 1.",
    uses=(
        "theorem_4_3",
        "theorem_4_4",
        "beyond_rmsnorm_magnitude",
        "beyond_rmsnorm_lipschitz",
    ),
)
GATED = Claim(
    id="beyond_ffn_gated",
    paper_ref="extends Section C.2, FFN sublayer",
    section="beyond",
    statement="A gated FFN, x -> (act(xG) ⊙ xW_1)W_2 without biases, is not Lipschitz on R^d in "
    "general. On ‖x‖₂ <= R it is, with constant (Lip(act) + c)R‖G‖₂‖W_1‖₂‖W_2‖₂ in the Euclidean "
    "norm where |act(t)| <= c|t| (c = 1 for ReLU, GELU, its tanh form and SiLU); attained in the "
    "limit by ReLU, d = 1. Behind a LayerNorm R = √d B_LN, so that Theorem 4.3 holds with this "
    "L_FFN, and Theorem 4.4, where LN_1 supplies the domain.",
    uses=("lemma_2_4", "theorem_4_3_step_ffn_lip"),
)
AT_INIT = Claim(
    id="beyond_layer_bound_at_init",
    paper_ref="the size of Theorem 4.3's bound for the models of Section 5",
    section="beyond",
    statement="For the paper's architecture at initialisation (d = 1280, 20 heads of width 64, "
    "hidden width 5120, weights N(0, 0.02²), those of W^O and of the FFN's second matrix "
    "N(0, 0.02²/72), γ = 1, β = 0, GELU) and ε = 1e−5, which the paper does not state: L_MHA is "
    "about 706 and L_FFN about 0.612, so that Theorem 4.3 allows 4.3e7 a layer and 1e275 for 36. "
    "Where both LayerNorms of a layer meet tokens with 1/σ = 35.4 (the embeddings' standard "
    "deviation is 0.02·√2), the same product with 1/σ in place of 1/√ε = 316 is 5.7e5.",
    uses=("theorem_4_3", "theorem_4_3_step_ffn_lip"),
)


# ------------------------------------------------------------------------------ exact constants


@check(EXACT, kind=Kind.DERIVATION, planted=Planted("bounds 1% smaller", factor="0.99"))
def each_module_with_its_own_rate(profile: Profile, *, factor: str = "1") -> Derivation:
    """The proofs of 4.3 and 4.4 with λ_1 and λ_2; ‖DP‖² = ‖γ‖_∞² only where the top is repeated."""
    scale = Fraction(factor)
    first, second, mixing, feeding, more = sympy.symbols("l_1 l_2 a f e", positive=True)
    pre = (1 + first * mixing) * (1 + second * feeding)
    c = symbolic.direction()

    def pre_ln(rng: random.Random) -> Case:
        layer, x, y = random_layer(rng)
        bound = (1 + layer.rates[0] * layer.mixing) * (1 + layer.rates[1] * layer.feeding)
        return lipschitz_case((layer.pre(x), layer.pre(y)), (x, y), scale * bound)

    def post_ln(rng: random.Random) -> Case:
        layer, x, y = random_layer(rng)
        bound = layer.rates[0] * layer.rates[1] * (1 + layer.mixing) * (1 + layer.feeding)
        return lipschitz_case((layer.post(x), layer.post(y)), (x, y), scale * bound)

    def never_above(rng: random.Random) -> Case:
        token = norms.random_token(rng, positive_eps=True)
        projected = norms.scaled_rows(token.gamma, norms.projector(token.width))
        return m.spectral_at_most(projected, token.top_squared, token.describe())

    return Derivation(
        scope="all L, d >= 1, all layers with ε > 0, all pairs of states (post-LN: in D_B_LN)",
        steps=(
            RuleStep("pre-LN", Rule.TRANSITIVITY, "(1 + λ_1 a)(1 + λ_2 f)", pre_ln),
            RuleStep("post-LN", Rule.TRANSITIVITY, "λ_1 λ_2 (1 + a)(1 + f)", post_ln),
            RuleStep("λ_j <= ‖γ_j‖_∞/√ε_j", Rule.OPERATOR_NORM, "‖DP‖ <= ‖D‖", never_above),
            Identity(
                "what a larger λ_1 adds",
                pre.subs(first, first + more) - pre,
                more * mixing * (1 + second * feeding),
            ),
            # x̂ = 0 at a constant token: the Jacobian there is DP/√ε, of the largest norm.
            Identity("P at a constant token", c.image.subs(c.pairing, 0), c.v - c.mean),
        ),
    )


@check(EXACT, kind=Kind.FLOAT, planted=Planted("bounds 1% smaller", factor="0.99"))
def attained_for_every_gamma(profile: Profile, *, factor: str = "1") -> Evidence:
    """The proved lower bound of the Jacobian's norm against the bound: random, and where attained.

    There it lies within 1e−6 of the bound.
    """
    rng = np.random.default_rng(433)
    scale = float(factor)

    def cases() -> Iterator[Case]:
        for k in range(profile.pick(32, 600)):
            width, length = int(rng.integers(2, 5)), int(rng.integers(1, 4))
            pre = bool(k % 2)
            modules = floats.random_modules(rng, width)
            before = floats.random_normaliser(rng, width)
            X = before(rng.normal(size=(length, width)))
            bound = max(modules.bound, floats.magnitude(before))
            attained = k % 4 >= 2
            if attained:
                gamma = rng.normal(size=width)
                modules = floats.attaining_modules(rng, width, pre=pre, gamma=gamma)
                X = np.zeros((length, width))
            lower, _ = floats.certified(modules.layer(pre=pre).at(X))
            constant = modules.exact_bound(pre=pre, bound=bound)
            shown = {"layer": k, "pre-LN": pre}
            yield Case(lower, "<=", scale * constant, shown)
            yield Case(constant, "<=", modules.paper_bound(pre=pre, bound=bound), shown)
            if attained:
                yield Case(lower, ">=", (1 - 1e-6) * constant, shown)

    return judge(
        cases(),
        scope="random layers, d <= 4, L <= 3, 0.001 <= ε <= 1; Gaussian γ where attained",
        tolerance=floats.BRACKETED,
    )


# -------------------------------------------------------------------------------------- local


@check(LOCAL, kind=Kind.DERIVATION, planted=Planted("bounds 1% smaller", factor="0.99"))
def chain_rule_at_one_state(profile: Profile, *, factor: str = "1") -> Derivation:
    """Products of Jacobians with one rate a token, on tokens of width 1."""
    scale = Fraction(factor)
    after, before, mixing = sympy.symbols("J_2 J_1 A", commutative=False)

    def drawn(rng: random.Random) -> tuple[m.Matrix, list[Fraction], list[Fraction], Fraction]:
        size = rng.randint(1, 3)
        matrix = [list(row) for row in m.random_matrix(rng, size, size, 3)]
        heaviest = max(range(size), key=lambda i: m.one_norm(matrix[i]))
        matrix[heaviest][heaviest] = abs(Fraction(matrix[heaviest][heaviest]))
        rates = [[Fraction(rng.randint(0, 8), 4) for _ in range(size)] for _ in range(2)]
        if rng.random() < 0.5:
            rates = [[max(r)] * size for r in rates]
        return matrix, rates[0], rates[1], Fraction(rng.randint(0, 8), 4)

    def diagonal(entries: list[Fraction]) -> m.Matrix:
        return [
            [e if i == j else Fraction(0) for j in range(len(entries))]
            for i, e in enumerate(entries)
        ]

    def pre_ln(rng: random.Random) -> Case:
        matrix, first, second, slope = drawn(rng)
        one = m.identity(len(matrix))
        attention = m.plus(one, m.product(matrix, diagonal(first)))
        feed_forward = m.plus(one, diagonal(second), slope)
        norm = m.largest_row_sum(m.product(feed_forward, attention))
        bound = (1 + m.largest_row_sum(matrix) * max(first)) * (1 + slope * max(second))
        return Case(norm, "<=", scale * bound, {"A": matrix, "a": first, "a'": second})

    def post_ln(rng: random.Random) -> Case:
        matrix, first, second, slope = drawn(rng)
        one = m.identity(len(matrix))
        attention = m.product(diagonal(first), m.plus(one, matrix))
        feed_forward = m.product(diagonal(second), m.plus(one, one, slope))
        norm = m.largest_row_sum(m.product(feed_forward, attention))
        bound = max(first) * max(second) * (1 + m.largest_row_sum(matrix)) * (1 + slope)
        return Case(norm, "<=", scale * bound, {"A": matrix, "a": first, "a'": second})

    def token(rng: random.Random) -> Case:
        drawn_token = norms.random_token(rng)
        v = norms.random_direction(rng, drawn_token)
        bound = scale**2 * drawn_token.top_squared * m.squared(v)
        return Case(norms.image_squared(drawn_token, v), "<=", bound, drawn_token.describe())

    return Derivation(
        scope="all L, d >= 1, all layers and states at which they are differentiable",
        steps=(
            Identity(
                "chain rule of a pre-LN sublayer after another, sorted",
                (1 + after) * (1 + mixing * before),
                1 + mixing * before + after + after * mixing * before,
            ),
            RuleStep("one token", Rule.OPERATOR_NORM, "‖J_LN(x)‖ <= ‖γ‖_∞/σ(x)", token),
            RuleStep("pre-LN", Rule.SUBMULTIPLICATIVITY, "(1 + aΛ)(1 + a'f)", pre_ln),
            RuleStep("post-LN", Rule.SUBMULTIPLICATIVITY, "a a'(1 + Λ)(1 + f)", post_ln),
        ),
    )


@check(LOCAL, kind=Kind.FLOAT, planted=Planted("bounds 1% smaller", factor="0.99"))
def certified_norms_at_states(profile: Profile, *, factor: str = "1") -> Evidence:
    """The proved lower bound of the Jacobian's norm, with Theorem 4.1's bound for Λ_MHA."""
    rng = np.random.default_rng(434)
    scale = float(factor)

    def cases() -> Iterator[Case]:
        for k in range(profile.pick(32, 600)):
            width, length = int(rng.integers(2, 5)), int(rng.integers(1, 4))
            pre = bool(k % 2)
            modules = floats.random_modules(rng, width)
            X = rng.normal(size=(length, width)) * rng.choice((0.1, 1.0, 30.0))
            attained = k % 4 >= 2
            if attained:
                gamma = rng.normal(size=width)
                modules = floats.attaining_modules(rng, width, pre=pre, gamma=gamma)
                X = np.zeros((length, width))
            lower, _ = floats.certified(modules.layer(pre=pre).at(X))
            constant = modules.local_bound(X, pre=pre)
            yield Case(lower, "<=", scale * constant, {"layer": k, "pre-LN": pre})

    return judge(
        cases(),
        scope="random layers and states of size 0.1 to 30, d <= 4, L <= 3, 0.001 <= ε <= 1",
        tolerance=floats.BRACKETED,
    )


# ------------------------------------------------------------------------------------ RMSNorm


@check(RMS, kind=Kind.DERIVATION, planted=Planted("bounds 1% smaller", factor="0.99"))
def same_proofs_with_rmsnorm(profile: Profile, *, factor: str = "1") -> Derivation:
    """RMSNorm's magnitude and Lipschitz constant; its Jacobian at 0; the sublayers as before."""
    scale = Fraction(factor)
    derivative, _, _ = symbolic.derivative_along(centred=False)
    x, v, gamma = sympy.symbols("x_j v_j gamma_j", real=True)
    square = sympy.Symbol("Q", nonnegative=True)
    cross = sympy.Symbol("X", real=True)
    at_zero = derivative.subs({x: 0, square: 0, cross: 0}, simultaneous=True)

    def magnitude(rng: random.Random) -> Case:
        token = norms.random_token(rng, centred=False)
        # ‖RMS(x)‖_rms² = Σ γ_j²x_j²/(dσ²).
        terms = (g * g * a * a for g, a in zip(token.gamma, token.x, strict=True))
        found = sum(terms, Fraction(0)) / (token.width * token.sigma_squared)
        return Case(found, "<=", scale**2 * token.top_squared, token.describe())

    def rate(rng: random.Random) -> Case:
        first = norms.random_token(rng, centred=False, positive_eps=True)
        second = norms.Token(
            norms.random_vector(rng, first.width), first.gamma, first.eps, centred=False
        )
        return norms.lipschitz_case(first, second, first.top_squared / first.eps)

    def layers(rng: random.Random) -> Case:
        layer, x_state, y_state = random_layer(rng)
        if rng.random() < 0.5:
            bound = (1 + layer.rate * layer.mixing) * (1 + layer.rate * layer.feeding)
            images = layer.pre(x_state), layer.pre(y_state)
        else:
            bound = layer.rate**2 * (1 + layer.mixing) * (1 + layer.feeding)
            images = layer.post(x_state), layer.post(y_state)
        return lipschitz_case(images, (x_state, y_state), scale * bound)

    return Derivation(
        scope="all L, d >= 1, all layers with ε > 0, all pairs of states (post-LN: in D_B)",
        steps=(
            RuleStep("RMS(X) in D_B", Rule.MONOTONICITY, "beyond_rmsnorm_magnitude", magnitude),
            RuleStep("‖γ‖_∞/√ε", Rule.MONOTONICITY, "beyond_rmsnorm_lipschitz", rate),
            RuleStep("layers", Rule.TRANSITIVITY, "as in Theorems 4.3 and 4.4", layers),
            Identity("J_RMS(0) = Diag(γ)/√ε", at_zero, gamma * v / sympy.sqrt(symbolic.eps)),
        ),
    )


@check(RMS, kind=Kind.FLOAT, planted=Planted("bounds 1% smaller", factor="0.99"))
def certified_norms_with_rmsnorm(profile: Profile, *, factor: str = "1") -> Evidence:
    """The proved lower bound of the Jacobian's norm: random layers, and where attained."""
    rng = np.random.default_rng(435)
    scale = float(factor)

    def cases() -> Iterator[Case]:
        for k in range(profile.pick(32, 600)):
            width, length = int(rng.integers(1, 5)), int(rng.integers(1, 4))
            pre = bool(k % 2)
            modules = floats.random_modules(rng, width, "rms")
            before = floats.random_normaliser(rng, width, "rms")
            X = before(rng.normal(size=(length, width)))
            bound = max(modules.bound, floats.magnitude(before))
            if k % 4 >= 2:
                gamma = rng.choice((-2.0, -1.0, 1.0, 2.0), size=width)
                if not pre:
                    gamma = np.ones(width)
                modules = floats.attaining_modules(rng, width, pre=pre, gamma=gamma, kind="rms")
                X = np.zeros((length, width))
            lower, _ = floats.certified(modules.layer(pre=pre).at(X))
            constant = modules.paper_bound(pre=pre, bound=bound)
            yield Case(lower, "<=", scale * constant, {"layer": k, "pre-RMS": pre})

    return judge(
        cases(),
        scope="random layers, d <= 4, L <= 3, 0.001 <= ε <= 1",
        tolerance=floats.BRACKETED,
    )


# -------------------------------------------------------------------------------------- gated


@check(GATED, kind=Kind.DERIVATION, planted=Planted("a bound 1% smaller", factor="0.99"))
def product_rule_on_a_ball(profile: Profile, *, factor: str = "1") -> Derivation:
    """One hidden unit by the product rule; ReLU on a line as the unbounded and the sharp case."""
    scale = Fraction(factor)
    t, g, w, vg, vw = sympy.symbols("t g w vg vw", real=True)
    act = sympy.Function("act")
    unit = act(g + t * vg) * (w + t * vw)
    slope = sympy.diff(unit, t).doit()
    expected = sympy.diff(act(g + t * vg), t) * (w + t * vw) + act(g + t * vg) * vw
    x = sympy.Symbol("x", positive=True)

    def relu(rng: random.Random) -> Case:
        # d = 1, G = g, W_1 = w, W_2 = 1 on [0, R]: g w x² has slope 2gwR at the end.
        gate, weight = (Fraction(rng.randint(1, 9), rng.randint(1, 9)) for _ in range(2))
        radius = Fraction(rng.randint(1, 20), rng.randint(1, 9))
        near = radius * Fraction(rng.randint(190, 199), 200)
        rise = gate * weight * (radius**2 - near**2)
        return Case(rise, "<=", scale * 2 * radius * gate * weight * (radius - near), {"R": radius})

    def whole(rng: random.Random) -> Case:
        # Diagonal weights: ‖G‖ and ‖W_1‖ are the largest entries. ReLU, c = 1.
        width = rng.randint(1, 3)
        gate, weight, out = (norms.random_vector(rng, width) for _ in range(3))
        x_point = norms.random_vector(rng, width)
        y_point = tuple(a * Fraction(rng.randint(190, 200), 200) for a in x_point)
        if rng.random() < 0.3:
            gate, weight, out = ((Fraction(2),) * width for _ in range(3))
            x_point = (Fraction(3), *(Fraction(0),) * (width - 1))
            y_point = (Fraction(599, 200), *(Fraction(0),) * (width - 1))
        images = [
            [
                o * max(Fraction(0), g * a) * w * a
                for g, w, o, a in zip(gate, weight, out, p, strict=True)
            ]
            for p in (x_point, y_point)
        ]
        rise = m.squared([a - b for a, b in zip(*images, strict=True)])
        run = m.squared([a - b for a, b in zip(x_point, y_point, strict=True)])
        radius_squared = max(m.squared(x_point), m.squared(y_point))
        sizes = Fraction(m.sup_norm(gate) * m.sup_norm(weight) * m.sup_norm(out))
        bound = (scale * 2 * sizes) ** 2 * radius_squared * run
        return Case(rise, "<=", bound, {"G": gate, "W_1": weight, "W_2": out, "x": x_point})

    def unbounded(rng: random.Random) -> Case:
        constant = rng.randint(1, 1000)
        rise = Fraction(constant + 1) ** 2 - Fraction(constant) ** 2
        return Case(rise, ">", constant, {"x": constant})

    return Derivation(
        scope="all widths and weights, all R; ReLU on R for the unbounded case",
        steps=(
            Identity("product rule for one hidden unit", slope, expected),
            RuleStep("one input", Rule.MEAN_VALUE, "2R‖G‖‖W_1‖ for ReLU", relu),
            RuleStep("all units", Rule.OPERATOR_NORM, "(Lip + c)R‖G‖‖W_1‖‖W_2‖", whole),
            Identity("slope of x·relu(x)", sympy.diff(x * sympy.Max(x, 0), x), 2 * x),
            RuleStep("not Lipschitz on R", Rule.ATTAINMENT, "slope above any constant", unbounded),
        ),
    )


ROUNDED = Tolerance(
    value=1e-12,
    kind="relative",
    reason="norms of matrices of size at most 8 from a singular value decomposition",
)


@check(GATED, kind=Kind.FLOAT, planted=Planted("c = 0", c=0.0))
def certified_on_balls(profile: Profile, *, c: float = 1.0) -> Evidence:
    """theory.feed_forward's gated layers: ‖J(x)‖₂ at random x, and ReLU where it is attained."""
    rng = np.random.default_rng(436)

    def cases() -> Iterator[Case]:
        for k in range(profile.pick(40, 1000)):
            width, name = int(rng.integers(1, 5)), str(rng.choice(sorted(ACTIVATIONS)))
            gate, first, second = (rng.normal(size=(width, width)) for _ in range(3))
            x = rng.normal(size=(1, width)) * rng.choice((0.1, 1.0, 30.0))
            if k % 2:
                gate, first, second, name = np.eye(width), np.eye(width), np.eye(width), "relu"
                x = 3.0 * np.eye(width)[:1]
            layer = FeedForward(w1_DF=first, w2_FD=second, gate_DF=gate, activation=name)
            jacobian = layer.at(x).jacobian()[0, :, 0, :]
            rate = float(lipschitz_ball(name).mid()) + c
            radius = float(np.linalg.norm(x))
            sizes = spectral_norm(gate) * spectral_norm(first) * spectral_norm(second)
            yield Case(
                spectral_norm(jacobian), "<=", rate * radius * sizes, {"act": name, "x": x.tolist()}
            )

    return judge(cases(), scope="Gaussian weights, d <= 4, four activations", tolerance=ROUNDED)


# ------------------------------------------------------------------------------------ vacuity


@check(AT_INIT, kind=Kind.CERTIFICATE, planted=Planted("1/√ε is 31.6, for ε = 1e−3", eps="1e-3"))
def arithmetic_from_the_two_constants(profile: Profile, *, eps: str = "1e-5") -> Evidence:
    """(1 + 706/√ε)(1 + 0.612/√ε), its 36th power, and the same with 1/(0.02√2)."""
    mixing, feeding = Fraction(706), Fraction("0.612")

    def cases() -> Iterator[Case]:
        rate = 1 / ball(Fraction(eps)).sqrt()
        layer = (1 + rate * ball(mixing)) * (1 + rate * ball(feeding))
        yield Case(abs(layer - 43_000_000), "<=", 500_000, "a layer: 4.3e7")
        depth = 36 * layer.log() / ball(10).log()
        yield Case(abs(depth - 275), "<=", half_unit("275"), "36 layers: 1e275")
        local = 1 / (ball(Fraction(2, 100)) * ball(2).sqrt())
        first = (1 + local * ball(mixing)) * (1 + local * ball(feeding))
        yield Case(abs(local - ball(Fraction("35.4"))), "<=", half_unit("35.4"), "1/σ")
        yield Case(abs(first - 570_000), "<=", 5_000, "first layer: 5.7e5")

    with precision(100):
        return judge(cases(), scope="L_MHA = 706, L_FFN = 0.612, ε = 1e−5, 36 layers")


DRAWN = Tolerance(
    value=0.01,
    kind="relative",
    reason="the constants of Gaussian weights of these sizes vary by less than 1% from draw to "
    "draw; the stated figures have three digits",
)


@check(AT_INIT, kind=Kind.FLOAT, planted=Planted("one head in place of twenty", heads=1))
def constants_of_a_drawn_layer(profile: Profile, *, heads: int = 20) -> Evidence:
    """Weights drawn at full size: Corollary 4.2's constant at B = 1, and ‖W_2‖ Lip(GELU) ‖W_1‖."""
    width, head_width, hidden = 1280, 64, 5120
    std, residual = 0.02, 0.02 / np.sqrt(72)

    def norm_of(rng: np.random.Generator, rows: int, columns: int, size: float) -> float:
        # Single precision is a thousand times finer than the tolerance, and twice as fast.
        matrix = rng.standard_normal((rows, columns), dtype=np.float32)
        gram = matrix @ matrix.T if rows < columns else matrix.T @ matrix
        if len(gram) < 100:
            return size * float(np.sqrt(np.linalg.eigvalsh(gram)[-1]))
        top = eigsh(gram, k=1, tol=1e-2, v0=np.ones(len(gram)), return_eigenvectors=False)
        return size * float(np.sqrt(top[0]))

    def cases() -> Iterator[Case]:
        for seed in range(profile.pick(1, 3)):
            rng = np.random.default_rng(seed)
            path = 2 * width / np.sqrt(head_width)
            total = 0.0
            for _ in range(heads):
                query, key, value = (norm_of(rng, width, head_width, std) for _ in range(3))
                total += value + path * query * key * value
            mixing = norm_of(rng, width, width, residual) * total
            yield Case(mixing, "==", 706.0, {"seed": seed, "constant": "L_MHA"})
            first, second = norm_of(rng, width, hidden, std), norm_of(rng, hidden, width, residual)
            feeding = first * float(lipschitz_ball("gelu").mid()) * second
            yield Case(feeding, "==", 0.612, {"seed": seed, "constant": "L_FFN"})

    return judge(cases(), scope="one layer of the paper's 36, drawn with NumPy", tolerance=DRAWN)
