"""Theorem 4.6: the end-to-end Jacobian of post-LN, its expansion, and its LayerNorm-only word."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.blocks import PostNormSublayer, Stack
from theory.claims import _ball_layers as balls
from theory.claims import _float_layers as floats
from theory.claims import _layernorms as norms
from theory.claims import _matrices as m
from theory.claims.corollary_a_3 import product_of_factors, random_states, worst_factor
from theory.derivations import layernorm as symbolic
from theory.derivations import words
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import (
    Case,
    Derivation,
    Evidence,
    Identity,
    Kind,
    Rule,
    RuleStep,
    judge,
)
from verify.exact import precision

CHAIN = Claim(
    id="theorem_4_6_part_1",
    paper_ref="Theorem 4.6, part 1",
    section="4",
    statement="For differentiable branches G_k and LayerNorms with σ(y) > 0 at every token, "
    "X_{k+1} = LN_k(Y_k) with Y_k = X_k + G_k(X_k) has ∂X_m/∂X_ℓ = ∏ J_LN,k(Y_k)(I + J_G,k(X_k)), "
    "later sublayers on the left, for every m >= ℓ. An identity of matrices; no norm is involved.",
    uses=("definition_2_1_part_2", "fact_ln_jacobian"),
)
PROJECTION_LIKE = Claim(
    id="theorem_4_6_part_2",
    paper_ref="Theorem 4.6, part 2; Section C.5",
    section="4",
    statement="For every d >= 1, y and γ in R^d and ε >= 0 with σ(y) > 0: J_LN(y)1 = 0; in the "
    "Euclidean norm J_LN(y) is bounded by ‖γ‖_∞/σ(y) on centred vectors; and J_LN(y)ŷ = "
    "(ρ/σ)γ ⊙ ŷ with ρ = ε/σ² < 1 where y is not constant. So ‖J_LN(y) − I‖ >= 1 in every induced "
    "norm.",
    uses=("lemma_a_2_part_i", "lemma_a_2_part_ii", "lemma_a_2_part_iii"),
)
WORDS = Claim(
    id="theorem_4_6_part_3",
    paper_ref="Theorem 4.6, part 3; Section C.5",
    section="4",
    statement="With G_k for J_LN,k and M_k for J_MHA,k as letters of a free algebra, "
    "∏ G_k(1 + M_k) is the sum of 2^(m−ℓ) different words, each with coefficient 1; every word "
    "contains all m − ℓ letters G_k, later ones on the left, and M_k directly behind G_k where it "
    "occurs. One word has no letter M, the product of all G_k; the empty word does not occur for "
    "m > ℓ. A statement about words; no norm is involved.",
    uses=("theorem_4_6_part_1",),
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="That a product has, or has not, an additive identity is a property of the words, for "
        "the letters J_LN,k and J_MHA,k, and not of the Jacobian as a matrix: every M is "
        "I + (M − I), and with the letters N_k = G_k + G_k M_k − 1 post-LN has the pre-LN "
        "expansion, with its bare identity.",
    ),
)
DECAY = Claim(
    id="claim_4_6_decay",
    paper_ref="Section 4.3, below Theorem 4.6; Section C.5",
    section="4",
    statement="If for some η in (0, 1) every layer has max_i ‖γ_k‖_∞/σ_k(y_k,i) <= 1 − η, the "
    "LayerNorm-only product has norm at most (1 − η)^(m−ℓ), in the spectral norm and in the one "
    "induced by block-∞/RMS, which are equal for it.",
    uses=("theorem_4_6_part_3", "corollary_a_3", "corollary_a_3_norms"),
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="Section C.5 and the text below Corollary A.3 ask that the factors be “bounded away "
        "from 1”. They must be bounded above by 1 − η: the factor 2 at every layer is bounded away "
        "from 1, and the product then has norm 2^(m−ℓ) (claim_a_3_untested).",
    ),
)


# ------------------------------------------------------------------------------------ part 1


@check(
    CHAIN, kind=Kind.DERIVATION, planted=Planted("LayerNorm is differentiated at X_k", at_y=False)
)
def chain_rule(profile: Profile, *, at_y: bool = True) -> Derivation:
    """Two sublayers whose branches and normalisations are polynomials with free coefficients."""
    z = sympy.Matrix(sympy.symbols("z1 z2", real=True))
    own = sympy.Matrix(sympy.symbols("x y", real=True))
    a = sympy.symbols("a1:9", real=True)
    state, whole = z, sympy.eye(2)
    for k in range(2):
        p, q, r, s = a[4 * k : 4 * k + 4]
        branch = sympy.Matrix([p * own[1], q * own[0] ** 2])
        outer = sympy.Matrix([r * own[0] + own[1] ** 2, s * own[0]])
        here = dict(zip(own, state, strict=True))
        inside = state + branch.subs(here, simultaneous=True)
        there = dict(zip(own, inside if at_y else state, strict=True))
        normalising = outer.jacobian(own).subs(there, simultaneous=True)
        mixing = branch.jacobian(own).subs(here, simultaneous=True)
        whole = normalising * (sympy.eye(2) + mixing) * whole
        state = outer.subs(dict(zip(own, inside, strict=True)), simultaneous=True)

    derivative, formula, _ = symbolic.derivative_along()

    def affine(rng: random.Random) -> Case:
        # Affine sublayers: the difference quotient of the composition is its Jacobian, exactly.
        size = rng.randint(1, 3)
        factors: list[tuple[m.Matrix, m.Matrix]] = []
        for _ in range(rng.randint(0, 4)):
            outer, inner = (m.random_matrix(rng, size, size, 3) for _ in range(2))
            factors.append((outer, inner))
        start: m.Vector = m.random_matrix(rng, 1, size)[0]
        at = rng.randrange(size)
        moved: m.Vector = [v + e for v, e in zip(start, m.one_hot(at, size), strict=True)]
        total: m.Matrix = m.identity(size)
        for outer, inner in factors:
            start, moved = (
                m.apply(outer, [v + w for v, w in zip(x, m.apply(inner, x), strict=True)])
                for x in (start, moved)
            )
            total = m.product(m.product(outer, m.plus(m.identity(size), inner)), total)
        gap = [b - a - row[at] for a, b, row in zip(start, moved, total, strict=True)]
        return Case(m.squared(gap), "==", 0, {"sublayers": factors, "column": at})

    return Derivation(
        scope="every m − ℓ >= 0; the chain rule written out for two quadratic sublayers on R²",
        steps=(
            Identity("two sublayers, eight coefficients", state.jacobian(z), whole),
            Identity("J_LN along any v, from the definition", derivative, formula),
            RuleStep("all depths", Rule.CHAIN_RULE, "one more pair of factors on the left", affine),
        ),
    )


@check(CHAIN, kind=Kind.FLOAT, planted=Planted("the skip connection is left out", skip=0))
def real_sublayers(profile: Profile, *, skip: int = 1) -> Evidence:
    """Softmax attention and LayerNorm at 300 bits: the factors in turn give ∂X_3/∂X_0 V."""
    rng = random.Random(461)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(6, 60)):
            width, length = rng.randint(2, 4), rng.randint(1, 3)
            layers = [balls.random_layer(rng, width) for _ in range(3)]
            start = balls.as_balls(balls.random_state(rng, length, width))
            image = direction = balls.as_balls(balls.random_state(rng, length, width))

            def whole(state: balls.State, stack: list[balls.LayerPair] = layers) -> balls.State:
                for layer in stack:
                    state = layer.norms[0](balls.added(state, layer.attention(state)))
                return state

            state = start
            for layer in layers:
                mixed = balls.derivative(layer.attention, state, image)
                inside = balls.added(state, layer.attention(state))
                image = balls.added(mixed, image, skip)
                image = balls.derivative(layer.norms[0], inside, image)
                state = layer.norms[0](inside)
            gap = balls.largest_entry(
                balls.added(image, balls.derivative(whole, start, direction), -1)
            )
            yield Case(float(gap), "==", 0.0, {"L": length, "d": width})

    with precision(balls.BITS):
        return judge(
            cases(), scope="three attention sublayers, L <= 3, d <= 4", tolerance=balls.SAME_DIGITS
        )


@check(CHAIN, kind=Kind.FLOAT, planted=Planted("the skip connection is left out", skip=0))
def public_jacobians_multiply(profile: Profile, *, skip: int = 1) -> Evidence:
    """theory.blocks: the product of dense factors against the JVP of the stack, and against
    difference quotients at 300 bits, which share no code with it.
    """
    rng = random.Random(462)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(4, 60)):
            width, length = rng.randint(2, 4), rng.randint(1, 3)
            layers = [balls.random_layer(rng, width) for _ in range(3)]
            modules = [floats.from_balls(layer) for layer in layers]
            sublayers = [PostNormSublayer(norm=p.norm1, inner=p.attention) for p in modules]
            start, direction = (balls.random_state(rng, length, width) for _ in range(2))
            X, V = (np.asarray(state, dtype=np.float64) for state in (start, direction))

            image, state = V.ravel(), X
            for part, sublayer in zip(modules, sublayers, strict=True):
                mixing = part.attention.at(state)
                normed = part.norm1.at(state + mixing.output)
                inside = skip * np.eye(length * width) + floats.matrix_of(mixing)
                image = floats.matrix_of(normed) @ (inside @ image)
                state = sublayer(state)

            def whole(state: balls.State, stack: list[balls.LayerPair] = layers) -> balls.State:
                for layer in stack:
                    state = layer.norms[0](balls.added(state, layer.attention(state)))
                return state

            pushed = Stack(sublayers).at(X).jvp(V).ravel()
            exact_image = balls.derivative(whole, balls.as_balls(start), balls.as_balls(direction))
            digits = np.asarray([[float(e.mid()) for e in row] for row in exact_image]).ravel()
            for name, other in (("jvp", pushed), ("balls", digits)):
                gap = float(np.max(np.abs(image - other)))
                yield Case(gap, "==", 0.0, {"against": name, "L": length, "d": width})

    with precision(balls.BITS):
        return judge(
            cases(), scope="three attention sublayers, L <= 3, d <= 4", tolerance=floats.AGREE
        )


# ------------------------------------------------------------------------------------ part 2


@check(PROJECTION_LIKE, kind=Kind.DERIVATION, planted=Planted("a bound 1% smaller", factor="0.99"))
def on_three_kinds_of_vectors(profile: Profile, *, factor: str = "1") -> Derivation:
    """The constant vector, ŷ, and what is orthogonal to both, at a general width."""
    c = symbolic.direction()
    scale = Fraction(factor) ** 2

    def image(v: sympy.Expr) -> sympy.Expr:
        """(P − ŷŷᵀ/d) applied to the vector with the coordinate v."""
        mean, pairing = c.summed(v) / symbolic.d, c.summed(v * c.h)
        return c.image.subs({c.v: v, c.mean: mean, c.pairing: pairing}, simultaneous=True)

    def bounded(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        v = norms.centre(norms.random_direction(rng, token))
        bound = scale * token.top_squared * m.squared(v)
        return Case(norms.image_squared(token, v), "<=", bound, token.describe() | {"v": v})

    def shrunk(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        varies = int(len(set(token.x)) > 1)
        return Case(int(token.rho < 1), "==", varies, token.describe())

    def far_from_identity(rng: random.Random) -> Case:
        # (J − I)1 = −1, times σ so that nothing irrational appears.
        token = norms.random_token(rng)
        moved = m.apply(token.sigma_jacobian, [Fraction(1)] * token.width)
        return Case(m.sup_norm(moved), "==", 0, token.describe())

    return Derivation(
        scope="all d >= 1, all y and γ, all ε >= 0 with σ > 0",
        steps=(
            Identity("constant vector", image(sympy.Integer(1)), 0),
            Identity("ŷ", image(c.h), c.rho * c.h),
            Identity("v centred and orthogonal to ŷ", c.image.subs({c.mean: 0, c.pairing: 0}), c.v),
            RuleStep("centred vectors", Rule.OPERATOR_NORM, "at most ‖γ‖_∞/σ", bounded),
            RuleStep("ρ < 1", Rule.CASE_SPLIT, "exactly where y is not constant", shrunk),
            RuleStep(
                "J − I", Rule.ATTAINMENT, "(J − I)1 = −1, of the size of 1", far_from_identity
            ),
        ),
    )


@check(
    PROJECTION_LIKE,
    kind=Kind.ENUMERATION,
    planted=Planted("J − I has norm below 1 in the maximum norm", below=True),
)
def every_small_token(profile: Profile, *, below: bool = False) -> Evidence:
    """ŷ is scaled by ρ; the largest row sum of J − I is at least 1 where σ is rational."""

    def cases() -> Iterator[Case]:
        for width, x, gamma in small_tokens(profile):
            token = m.token(x, m.smallest_sigma(x))
            jacobian = token.jacobian(gamma)
            instance = {"x": x, "γ": gamma, "σ": token.sigma}
            image = m.apply(jacobian, token.xhat)
            for entry, g, h in zip(image, gamma, token.xhat, strict=True):
                yield Case(entry, "==", token.rho * g * h / token.sigma, instance)
            gap = m.largest_row_sum(m.plus(jacobian, m.identity(width), -1))
            yield Case(gap, "<" if below else ">=", 1, instance)

    return judge(
        cases(), scope="entries −1..2 and γ from {−1, 0, 2}, d = 1, 2, 3; the least integer σ"
    )


def small_tokens(profile: Profile) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """(d, x, γ) for small integer tokens up to order."""
    for width in range(1, profile.pick(3, 4) + 1):
        for x in itertools.combinations_with_replacement(range(-1, 3), width):
            for gamma in itertools.product((-1, 0, 2), repeat=width):
                yield width, x, gamma


# ------------------------------------------------------------------------------------ part 3


@check(
    WORDS,
    kind=Kind.DERIVATION,
    planted=Planted("the letters of attention stand before LayerNorm's", before=True),
)
def every_depth_by_induction(profile: Profile, *, before: bool = False) -> Derivation:
    """One more sublayer puts G, or GM, in front of every word there is."""
    normal, mixing, only, rest, word = sympy.symbols("G M P R w", commutative=False)
    factor = (1 + mixing) * normal if before else normal * (1 + mixing)

    def prolonged(rng: random.Random) -> Case:
        n = rng.randint(0, 8)
        added = (f"G{n + 1}",), (f"G{n + 1}", f"M{n + 1}")
        expected = {(*new, *old) for old in words.post_ln(n) for new in added}
        found = words.post_ln(n + 1)
        is_right = set(found) == expected and set(found.values()) == {1}
        return Case(int(is_right), "==", 1, {"n": n})

    def number(rng: random.Random) -> Case:
        n = rng.randint(0, 9)
        return Case(len(words.post_ln(n)), "==", 2**n, {"n": n})

    def shortest(rng: random.Random) -> Case:
        n = rng.randint(1, 9)
        return Case(min(map(len, words.post_ln(n))), "==", n, {"n": n})

    return Derivation(
        scope="every m − ℓ >= 0, words in the free algebra",
        steps=(
            # P is the word without M so far, R the sum of all others.
            Identity(
                "one more sublayer",
                factor * (only + rest),
                normal * only + (normal * rest + normal * mixing * only + normal * mixing * rest),
            ),
            Identity("a word becomes two", factor * word, normal * word + normal * mixing * word),
            RuleStep("all words", Rule.INDUCTION, "G or GM in front, coefficients 1", prolonged),
            RuleStep("their number", Rule.COUNTING, "2^n", number),
            RuleStep("no empty word", Rule.INDUCTION, "every word has all n letters G", shortest),
            Identity(
                "other letters for the same matrix",
                1 + (normal + normal * mixing - 1),
                normal * (1 + mixing),
            ),
        ),
    )


@check(WORDS, kind=Kind.ENUMERATION, planted=Planted("the empty word occurs", empty=1))
def every_word_up_to_eight(profile: Profile, *, empty: int = 0) -> Evidence:
    """Each word by its choices; the letters G in all of them; one word without M; no empty word."""
    deepest = profile.pick(8, 12)

    def cases() -> Iterator[Case]:
        for n in range(1, deepest + 1):
            expansion = words.post_ln(n)
            instance = {"n": n}
            yield Case(len(expansion), "==", 2**n, instance)
            yield Case(expansion[words.ONE], "==", empty, instance)
            normalisations = tuple(f"G{k}" for k in range(n, 0, -1))
            without = [word for word in expansion if not words.only(word, "M")]
            yield Case(int(without == [normalisations]), "==", 1, instance)
            for word in expansion:
                ordered = words.only(word, "G") == normalisations
                yield Case(int(ordered), "==", 1, instance | {"word": word})
            for chosen in itertools.product((False, True), repeat=n):
                letters = (
                    (f"G{k}", f"M{k}") if keep else (f"G{k}",)
                    for k, keep in zip(range(n, 0, -1), chosen, strict=True)
                )
                word = tuple(itertools.chain.from_iterable(letters))
                yield Case(expansion[word], "==", 1, instance | {"word": word})

    return judge(cases(), scope=f"n = m − ℓ = 1, …, {deepest}: all 2^n words of the expansion")


@check(WORDS, kind=Kind.DERIVATION, planted=Planted("the LayerNorm-only word is missing", first=1))
def expanded_by_sympy_up_to_eight(profile: Profile, *, first: int = 0) -> Derivation:
    """SymPy multiplies out the noncommutative product."""
    steps = []
    for n in range(1, 9):
        pairs = [
            (words.noncommuting(f"G{k}"), words.noncommuting(f"M{k}")) for k in range(n, 0, -1)
        ]
        whole = sympy.Mul(*itertools.chain.from_iterable((g, 1 + mix) for g, mix in pairs))
        kept = sorted(words.post_ln(n), key=len)[first:]
        steps.append(Identity(f"n = {n}", whole, words.as_sympy(Counter(kept))))
    return Derivation(scope="n = m − ℓ = 1, …, 8", steps=tuple(steps))


# -------------------------------------------------------------------------------------- decay


@check(
    DECAY,
    kind=Kind.DERIVATION,
    planted=Planted("the factors are only kept away from 1", above=True),
)
def rate_at_every_depth(profile: Profile, *, above: bool = False) -> Derivation:
    """Corollary A.3's product of worst factors, each at most 1 − η; equality for constant γ."""
    eta, n = sympy.Symbol("eta", positive=True), sympy.Symbol("n", integer=True, positive=True)

    def geometric(rng: random.Random) -> Case:
        columns, state = random_states(rng, contracting=not above)
        depth = len(columns[0])
        rate = max((worst_factor(columns, k) for k in range(depth)), default=Fraction(1))
        # η of the worst factor, or, away from 1 only, of its distance from 1: factors are squares.
        base = min(rate, 1 / rate) if above else rate
        pairs = zip(columns, state, strict=True)
        image = sum((norms.product_image_squared(c, v) for c, v in pairs), Fraction(0))
        size = sum((m.squared(row) for row in state), Fraction(0))
        return Case(image, "<=", base**depth * size, {"state": state})

    def layerwise(rng: random.Random) -> Case:
        columns, state = random_states(rng, contracting=True)
        depth = len(columns[0])
        bound = math.prod((worst_factor(columns, k) for k in range(depth)), start=Fraction(1))
        return Case(max(map(product_of_factors, columns)), "<=", bound, {"state": state})

    return Derivation(
        scope="all L, d >= 1, all m − ℓ >= 0, all states and γ_k, all ε_k >= 0 with σ > 0",
        steps=(
            Identity("one more factor", (1 - eta) * (1 - eta) ** n, (1 - eta) ** (n + 1)),
            RuleStep("product of worst factors", Rule.MONOTONICITY, "corollary_a_3", layerwise),
            RuleStep("geometric", Rule.INDUCTION, "(1 − η)^(m−ℓ)", geometric),
        ),
    )


@check(DECAY, kind=Kind.CERTIFICATE, planted=Planted("a factor of 2 decays as well", factor=2))
def two_constant_factors(profile: Profile, *, factor: int | None = None) -> Evidence:
    """γ = 1 and a token with σ = 2 or 1/2 at every layer: norm 2^−n, or 2^n, exactly.

    Width 3 and the token s(1, −1, 0): v = (1, 1, −2) is centred and orthogonal to it.
    """
    sigma = Fraction(2) if factor is None else Fraction(1, factor)
    v = norms.fractions((1, 1, -2))

    def cases() -> Iterator[Case]:
        for size in (Fraction(1, 4), Fraction(1, 2)):
            eps = sigma**2 - 2 * size**2 / 3
            if eps <= 0:
                continue
            token = norms.Token((size, -size, Fraction(0)), (Fraction(1),) * 3, eps)
            for depth in range(1, profile.pick(12, 36) + 1):
                image = norms.product_image_squared([token] * depth, v)
                rate = Fraction(1, 2) ** (2 * depth) * m.squared(v)
                yield Case(image, "==", rate, token.describe() | {"n": depth})

    return judge(cases(), scope=f"σ = {sigma}, n <= {profile.pick(12, 36)}")
