"""Beyond Theorem 4.5: what pre-LN conserves, with its proof and its limits.

Shift invariance. LayerNorm subtracts the mean of a token, so LN(x + c1) = LN(x). Let every
sublayer be X -> X + G(LN(X)) with any map G of L×d states (attention, feed-forward, experts; token
may mix with token) and let c hold one number for each token. Then a sublayer takes X + c⊗1 to
X + c⊗1 + G(LN(X)), that is, to its former output plus c⊗1; and so does a stack, by induction.

Jacobian. Put c = te_i and differentiate at t = 0: the end-to-end Jacobian M has M(e_i⊗1) = e_i⊗1
for every token i. These L vectors are independent, so 1 is an eigenvalue of multiplicity at least
L, and in every norm ‖M‖ >= ‖M(e_i⊗1)‖/‖e_i⊗1‖ = 1. M is isometric on their span V in the Euclidean
norm, so that the L-th singular value max over L-dimensional subspaces of min ‖Mu‖/‖u‖ is at least
1. Transposed: (e_i⊗1)ᵀMᵀg = (M(e_i⊗1))ᵀg = (e_i⊗1)ᵀg, so the gradient Mᵀg that reaches token i has
the coordinate sum of g's token i.

Limits. A LayerNorm behind the stack has J_LN 1 = 0 in every token and annihilates V: what is
conserved there never reaches an output that is normalised once more. On centred vectors nothing is
conserved (discussion_4_4). RMSNorm does not subtract the mean, and none of this holds for it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.blocks import Stack
from theory.claims import _float_layers as floats
from theory.claims import _matrices as m
from theory.claims import _stacks as stacks
from theory.claims._constant_tokens import at_constant_tokens, centred_vector, in_every_token
from theory.derivations import layernorm as symbolic
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
from verify.exact import ldl_pivots

SHIFT = Claim(
    id="beyond_pre_ln_shift",
    paper_ref="sharpens Theorem 4.5, part 3",
    section="beyond",
    statement="Let F be any stack of sublayers X -> X + G(LN(X)) on L×d states, with LayerNorms "
    "that are defined at every token they meet, and any maps G. Then F(X + c⊗1) = F(X) + c⊗1 for "
    "every c in R^L, where c⊗1 adds c_i to all coordinates of token i. Where the G are "
    "differentiable the end-to-end Jacobian M has M(e_i⊗1) = e_i⊗1 for every i: the eigenvalue 1 "
    "with multiplicity >= L, ‖M‖ >= 1 in every induced norm, and at least L singular values >= 1.",
    uses=("fact_ln_tokenwise", "lemma_a_2_part_i", "definition_2_1_part_2"),
)
GRADIENT = Claim(
    id="beyond_pre_ln_gradient_mean",
    paper_ref="sharpens Section C.4",
    section="beyond",
    statement="For the same stacks, with differentiable G: the gradient Mᵀg that a pre-LN stack "
    "passes back has in every token the coordinate sum, so the feature mean, of the gradient g "
    "that it received, at every depth.",
    uses=("beyond_pre_ln_shift",),
)
GAUGE = Claim(
    id="beyond_pre_ln_gauge",
    paper_ref="the limits of beyond_pre_ln_shift",
    section="beyond",
    statement="The conserved directions are a gauge: the Jacobian of a LayerNorm behind the stack "
    "annihilates e_i⊗1 for every i. The rest may vanish at any rate: for every t in [0, 1) and n "
    "some stack of n attention sublayers (L = 1, d >= 2, ε > 0) has norm 1 in the spectral and in "
    "the block-∞/RMS norm, and multiplies all centred vectors by t^n. With RMSNorm in place of "
    "LayerNorm beyond_pre_ln_shift is false: some sublayer X + G(RMS(X)) has norm below 1 in both "
    "norms.",
    uses=("beyond_pre_ln_shift", "discussion_4_4", "beyond_rmsnorm_jacobian"),
)


def _contracting(rng: random.Random) -> list[stacks.Sublayer]:
    """One sublayer at constant tokens whose branch −tI shrinks every centred vector: t/σ < 1."""
    length, width = rng.randint(1, 2), rng.randint(2, 3)
    sigma, share = Fraction(rng.randint(1, 5)), Fraction(rng.randint(1, 3), 4)
    tokens = tuple(m.token([rng.randint(-4, 4)] * width, sigma) for _ in range(length))
    size = length * width
    branch = m.plus([[0] * size for _ in range(size)], m.identity(size), -share * sigma)
    return [stacks.Sublayer(tokens, [1] * width, branch, True)]


# ------------------------------------------------------------------------------------- shift


@check(
    SHIFT,
    kind=Kind.DERIVATION,
    planted=Planted("L + 1 singular values are at least 1", extra=1),
)
def derived_from_the_mean(profile: Profile, *, extra: int = 0) -> Derivation:
    """LN(x + t1) = LN(x) at a general width; then one sublayer, a stack, and its Jacobian."""
    s = symbolic.split_layer_norm()
    t = sympy.Symbol("t", real=True)
    c = symbolic.direction()
    row = c.image.subs({c.v: 1, c.mean: 1, c.pairing: c.summed(c.h)})
    first, second, ones = sympy.symbols("J_1 J_2 e", commutative=False)
    whole = sympy.expand((1 + second) * (1 + first) * ones)

    def fixed(rng: random.Random) -> Case:
        length, width = rng.randint(1, 3), rng.randint(1, 3)
        stack = stacks.random_stack(rng, length, width)
        v = stacks.in_token(rng.randrange(length), length, [1] * width)
        gap = [a - b for a, b in zip(m.apply(stacks.pre_jacobian(stack), v), v, strict=True)]
        return Case(m.sup_norm(gap), "==", 0, stacks.describe(stack))

    def multiplicity(rng: random.Random) -> Case:
        length, width = rng.randint(1, 3), rng.randint(1, 3)
        stack = stacks.random_stack(rng, length, width)
        matrix = stacks.pre_jacobian(stack)
        lost = stacks.rank(m.plus(matrix, m.identity(len(matrix)), -1))
        return Case(len(matrix) - lost, ">=", length, stacks.describe(stack))

    def induced(rng: random.Random) -> Case:
        stack = _contracting(rng)
        matrix = stacks.pre_jacobian(stack)
        turned = rng.random() < 0.5
        norm = m.largest_row_sum(m.transposed(matrix) if turned else matrix)
        return Case(norm, ">=", 1, stacks.describe(stack) | {"norm": 1 if turned else "∞"})

    def singular_values(rng: random.Random) -> Case:
        # Below (1 − δ)² there are at most Ld − L eigenvalues of MᵀM: Sylvester, by an exact LDLᵀ.
        stack = _contracting(rng)
        matrix = stacks.pre_jacobian(stack)
        gram = m.product(m.transposed(matrix), matrix)
        nearly = Fraction(999983, 1000003)
        pivots = ldl_pivots(
            [[g - (nearly if i == j else 0) for j, g in enumerate(r)] for i, r in enumerate(gram)]
        )
        large = sum(1 for pivot in pivots or () if pivot > 0)
        return Case(large, ">=", len(stack[0].tokens) + extra, stacks.describe(stack))

    return Derivation(
        scope="all L, d >= 1, all depths, all branches; σ > 0 at every token",
        steps=(
            Identity("LN(x + t1) = LN(x)", symbolic.shifted(s, t, t), s.output),
            Identity("(P − x̂x̂ᵀ/d)1 = 0, d = 1 included", row, 0),
            Identity(
                "two sublayers with J_k e = 0",
                whole.subs({first * ones: 0, second * ones: 0}).subs({second * first * ones: 0}),
                ones,
            ),
            RuleStep("any stack", Rule.INDUCTION, "M(e_i⊗1) = e_i⊗1", fixed),
            RuleStep("eigenvalue 1", Rule.DIMENSION, "L independent vectors", multiplicity),
            RuleStep("norm", Rule.ATTAINMENT, "‖M(e_i⊗1)‖ = ‖e_i⊗1‖ in every norm", induced),
            RuleStep(
                "singular values",
                Rule.DIMENSION,
                "M is isometric on an L-dimensional space, so that L of them are at least 1",
                singular_values,
            ),
        ),
    )


@check(SHIFT, kind=Kind.CERTIFICATE, planted=Planted("RMSNorm in place of LayerNorm", kind="rms"))
def exact_stacks(profile: Profile, *, kind: str = "layer") -> Evidence:
    """M(e_i⊗1) = e_i⊗1 in Fractions, and ‖M‖ >= 1 in the spectral norm and from ℓ∞ and ℓ1."""
    rng = random.Random(454)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(60, 600)):
            length, width = rng.randint(1, 3), rng.randint(1, 3)
            stack = stacks.random_stack(rng, length, width, centred=kind == "layer")
            matrix = stacks.pre_jacobian(stack)
            shown = stacks.describe(stack)
            for i in range(length):
                v = stacks.in_token(i, length, [1] * width)
                for image, entry in zip(m.apply(matrix, v), v, strict=True):
                    yield Case(image, "==", entry, shown | {"i": i})
            yield Case(m.largest_row_sum(matrix), ">=", 1, shown)
            yield Case(m.largest_row_sum(m.transposed(matrix)), ">=", 1, shown)
            yield m.spectral_at_least(matrix, 1, shown)

    return judge(cases(), scope="random stacks of 1 to 3 sublayers, L <= 3, d <= 3, any branches")


SHIFTED = Tolerance(
    value=1e-9,
    kind="absolute",
    reason="states below 200; a sublayer rounds by some 100 eps of that and passes errors on with "
    "a local factor below 1e3",
)


@check(SHIFT, kind=Kind.FLOAT, planted=Planted("RMSNorm in place of LayerNorm", kind="rms"))
def public_layers(profile: Profile, *, kind: floats.Kind = "layer") -> Evidence:
    """theory.blocks: three pre-LN layers; the map, its JVP and its certified norm."""
    rng = np.random.default_rng(455)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(12, 200)):
            width, length = int(rng.integers(2, 5)), int(rng.integers(1, 5))
            layers = [floats.random_modules(rng, width, kind).layer(pre=True) for _ in range(3)]
            stack = Stack(layers)
            X = rng.normal(size=(length, width))
            c = 8 * rng.normal(size=(length, 1))
            shown = {"L": length, "d": width}
            moved = np.max(np.abs(stack(X + c) - stack(X) - c))
            yield Case(float(moved), "==", 0.0, shown | {"c": c.tolist()})
            at = stack.at(X)
            ones = np.zeros((length, width))
            ones[rng.integers(length)] = 1.0
            yield Case(float(np.max(np.abs(at.jvp(ones) - ones))), "==", 0.0, shown)
            _, upper = floats.certified(at)
            yield Case(upper, ">=", 1.0, shown)

    return judge(cases(), scope="three layers of two sublayers, L <= 4, d <= 4", tolerance=SHIFTED)


# ----------------------------------------------------------------------------------- gradient


@check(
    GRADIENT,
    kind=Kind.DERIVATION,
    planted=Planted("the coordinate sums shrink by 1%", factor="0.99"),
)
def transposed_fixed_vectors(profile: Profile, *, factor: str = "1") -> Derivation:
    """⟨e, Mᵀg⟩ = ⟨Me, g⟩ = ⟨e, g⟩."""
    scale = Fraction(factor)
    c = symbolic.direction()
    # The sum over coordinates of (P − x̂x̂ᵀ/d)u for an arbitrary u, the transposed bracket.
    total = c.summed(c.image)

    def conserved(rng: random.Random) -> Case:
        length, width = rng.randint(1, 3), rng.randint(1, 3)
        stack = stacks.random_stack(rng, length, width)
        g = [Fraction(rng.randint(1, 9)) for _ in range(length * width)]
        passed = m.apply(m.transposed(stacks.pre_jacobian(stack)), g)
        i = rng.randrange(length)
        before, after = (stacks.token_sums(state, width)[i] for state in (g, passed))
        return Case(after, "==", scale * before, stacks.describe(stack) | {"g": g, "token": i})

    return Derivation(
        scope="all L, d >= 1, all depths, all differentiable branches; σ > 0 at every token",
        steps=(
            Identity("Σ_j ((P − x̂x̂ᵀ/d)u)_j = 0", total, 0),
            RuleStep("any stack", Rule.DUALITY, "⟨e_i⊗1, Mᵀg⟩ = ⟨e_i⊗1, g⟩", conserved),
        ),
    )


@check(GRADIENT, kind=Kind.FLOAT, planted=Planted("in post-LN layers as well", pre=False))
def public_vjp(profile: Profile, *, pre: bool = True) -> Evidence:
    """theory.blocks: the VJP of three layers keeps every token's coordinate sum."""
    rng = np.random.default_rng(456)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(12, 200)):
            width, length = int(rng.integers(2, 5)), int(rng.integers(1, 5))
            stack = Stack([floats.random_modules(rng, width).layer(pre=pre) for _ in range(3)])
            at = stack.at(rng.normal(size=(length, width)))
            g = rng.normal(size=(length, width))
            gap = at.vjp(g).sum(axis=1) - g.sum(axis=1)
            yield Case(float(np.max(np.abs(gap))), "==", 0.0, {"L": length, "d": width})

    return judge(cases(), scope="three layers of two sublayers, L <= 4, d <= 4", tolerance=SHIFTED)


# -------------------------------------------------------------------------------------- gauge


@check(GAUGE, kind=Kind.DERIVATION, planted=Planted("centred vectors keep their size", w=0))
def only_the_mean_survives(profile: Profile, *, w: int | None = None) -> Derivation:
    """A last LayerNorm; w = (t − 1)√ε at a constant token; and RMSNorm at a constant token."""
    derivative, _, _ = symbolic.derivative_along()
    x, v, gamma = sympy.symbols("x_j v_j gamma_j", real=True)
    mu, mean = sympy.symbols("mu m", real=True)
    square = sympy.Symbol("Q", nonnegative=True)
    there = {square: symbolic.d * mu**2, x: mu, gamma: 1}
    normalised = derivative.subs(there, simultaneous=True)
    t = sympy.Symbol("t", nonnegative=True)
    root_eps = sympy.sqrt(symbolic.eps)
    branch = (t - 1) * root_eps if w is None else sympy.Integer(w)
    c = symbolic.direction()
    row = c.image.subs({c.v: 1, c.mean: 1, c.pairing: c.summed(c.h)})

    def norm_one(rng: random.Random) -> Case:
        # One token: M = 11ᵀ/d + t^n P is symmetric with eigenvalues 1 and t^n.
        width, depth = rng.randint(2, 4), rng.randint(1, 3)
        rate, root = Fraction(rng.randint(0, 5), 6), Fraction(rng.randint(1, 9), 4)
        factor = at_constant_tokens(1, width, (rate - 1) * root, root, pre=True)
        whole: m.Matrix = m.identity(width)
        for _ in range(depth):
            whole = m.product(factor, whole)
        return m.spectral_at_most(whole, 1, {"t": rate, "n": depth, "d": width})

    def centred(rng: random.Random) -> Case:
        width, depth = rng.randint(2, 4), rng.randint(1, 3)
        rate, root = Fraction(rng.randint(0, 5), 6), Fraction(rng.randint(1, 9), 4)
        factor = at_constant_tokens(1, width, (rate - 1) * root, root, pre=True)
        start = in_every_token(1, centred_vector(width))
        image: m.Vector = start
        for _ in range(depth):
            image = m.apply(factor, image)
        gap = [a - rate**depth * b for a, b in zip(image, start, strict=True)]
        return Case(m.sup_norm(gap), "==", 0, {"t": rate, "n": depth, "d": width})

    def rms(rng: random.Random) -> Case:
        # One token of width 2, 1·s with σ = 2s: x̂ = (1, 1)/2, so that J = (1/σ)(I − 11ᵀ/8).
        size = Fraction(rng.randint(1, 5))
        token = stacks.rms_token([size, size], 2 * size)
        share = Fraction(rng.randint(5, 9), 4) * size
        branch = m.plus([[0, 0], [0, 0]], m.identity(2), -share)
        matrix = stacks.Sublayer((token,), [1, 1], branch, False).pre
        return m.spectral_at_most(matrix, Fraction(9, 16), {"x": token.x, "G": branch})

    return Derivation(
        scope="all d >= 2, n >= 1, t in [0, 1), ε > 0",
        steps=(
            Identity("a last LayerNorm: J_LN 1 = 0", row, 0),
            Identity("centred v", (v + branch * normalised).subs(mean, 0), t * v),
            Identity("constant v", (v + branch * normalised).subs({v: 1, mean: 1}), 1),
            RuleStep("n sublayers, centred", Rule.INDUCTION, "t^n", centred),
            RuleStep("norm 1", Rule.SPECTRAL_THEOREM, "eigenvalues 1 and t^n; L = 1", norm_one),
            RuleStep("RMSNorm", Rule.ATTAINMENT, "norm at most 3/4", rms),
        ),
    )


@check(GAUGE, kind=Kind.FLOAT, planted=Planted("the last module is an RMSNorm", kind="rms"))
def public_last_norm(profile: Profile, *, kind: floats.Kind = "layer") -> Evidence:
    """theory.blocks: a stack and a last LayerNorm send e_i⊗1 to 0."""
    rng = np.random.default_rng(457)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(12, 200)):
            width, length = int(rng.integers(2, 5)), int(rng.integers(1, 5))
            layers = [floats.random_modules(rng, width).layer(pre=True) for _ in range(2)]
            stack = Stack([*layers, floats.random_normaliser(rng, width, kind)])
            image = stack.at(rng.normal(size=(length, width))).jvp(np.ones((length, width)))
            yield Case(float(np.max(np.abs(image))), "==", 0.0, {"L": length, "d": width})

    return judge(cases(), scope="two layers and a last LayerNorm", tolerance=SHIFTED)
