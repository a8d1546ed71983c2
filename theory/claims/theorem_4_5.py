"""Theorem 4.5: the sublayer Jacobians of pre-LN, their expansion, and its bare identity.

Beyond the paper, in the checks of part 1: the bound is attained for d >= 2, γ = 1, β = 0 at equal
constant tokens, by one head with W^K = 0, W^V = wR and W^O = Rᵀ, R orthogonal; and the same bound
holds in the dual, block-1 norm for the transposes that backpropagation applies.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.blocks import PreNormSublayer, Stack
from theory.bounds import corollary_4_2_bound
from theory.claims import _ball_layers as balls
from theory.claims import _float_layers as floats
from theory.claims import _instances as exact
from theory.claims import _matrices as m
from theory.claims._toy_layers import random_layer
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
from verify.exact import ball, precision

BOUNDED = Claim(
    id="theorem_4_5_part_1",
    paper_ref="Theorem 4.5, part 1",
    section="4",
    statement="In the norm induced by block-∞/RMS, for bias-free attention with a fixed mask and "
    "LayerNorms with ε > 0, J_k = J_MHA(LN(X_k)) J_LN(X_k) satisfies ‖J_k‖ <= L_MHA,k L_LN at "
    "every X_k, with L_MHA,k of Corollary 4.2 at B = B_LN; neither N nor L enters.",
    uses=("def_BLN_LLN", "lemma_2_4", "lemma_a_1", "theorem_4_1", "corollary_a_3_norms"),
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The theorem names no norm; its proof is in block-∞/RMS. In the spectral norm the "
        "same constant is false: with L = 65536 tokens, d = 4 and attention that reads one of "
        "them, ‖J_k‖₂ exceeds L_MHA L_LN. A change of norm costs at most √L.",
    ),
)
EXPANSION = Claim(
    id="theorem_4_5_part_2",
    paper_ref="Theorem 4.5, part 2",
    section="4",
    statement="For differentiable sublayers X_{k+1} = X_k + G_k(X_k) and every m > ℓ, ∂X_m/∂X_ℓ is "
    "the product of the I + J_k, later ones on the left, and equals I + Σ J_k + R, where R is the "
    "sum, each once, of the 2^(m−ℓ) − 1 − (m−ℓ) words in at least two different J_k, later "
    "letters on the left. An identity of matrices; no norm is involved.",
    uses=("definition_2_1_part_2", "definition_2_1_part_3"),
)
READ_OFF = Claim(
    id="theorem_4_5_part_3",
    paper_ref="Theorem 4.5, part 3; Section C.4",
    section="4",
    statement="In the free algebra on the J_k the empty word has coefficient 1 at every depth, and "
    "a word's degree in the J_k is its length, so that the empty word alone is free of sublayer "
    "factors. For matrices J_k as such that is no lower bound on the product: J_k = −tI with t in "
    "(0, 1] gives (1 − t)^(m−ℓ), in every induced norm.",
    uses=("theorem_4_5_part_2", "example_alternating"),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="The caution that the norm need not be at least 1 is right for arbitrary J_k. With "
        "the theorem's own J_k = J_MHA J_LN and LayerNorm it does not apply: the end-to-end "
        "Jacobian fixes e_i ⊗ 1 for every token i, so that its norm is at least 1 in every induced "
        "norm (beyond_pre_ln_shift). The direction is a gauge: a final LayerNorm annihilates it, "
        "and the centred part may contract or vanish.",
    ),
)


# ------------------------------------------------------------------------------------ part 1


def at_constant_token() -> tuple[sympy.Expr, sympy.Expr]:
    """(J_LN v)_j at a constant token, differentiated from the definition, and γ_j(v_j − m)/√ε."""
    derivative, _, _ = symbolic.derivative_along()
    x, v, gamma = sympy.symbols("x_j v_j gamma_j", real=True)
    mu, mean = sympy.symbols("mu m", real=True)
    square = sympy.Symbol("Q", nonnegative=True)
    at_constant = derivative.subs({square: symbolic.d * mu**2, x: mu}, simultaneous=True)
    return at_constant, gamma * (v - mean) / sympy.sqrt(symbolic.eps)


@check(BOUNDED, kind=Kind.DERIVATION, planted=Planted("a bound 1% smaller", factor="0.99"))
def factor_by_factor(profile: Profile, *, factor: str = "1") -> Derivation:
    """Theorem 4.1 with θ <= 1 on D_B, Lemma A.1, and submultiplicativity; equality at a constant.

    The spots are linear toy modules on tokens of width 1, with matrices that attain the product.
    """
    scale = Fraction(factor)
    output, value, query, key, tau, width, head, bound = sympy.symbols(
        "o v q k tau d d_h B", positive=True
    )
    row_bound = sympy.Symbol("B_U", positive=True)
    theta = sympy.Symbol("theta", nonnegative=True)
    local = output * (
        value + theta / tau * 2 * row_bound**2 / sympy.sqrt(head) * query * key * value
    )
    uniform = output * (
        value + 2 * width * bound**2 / (tau * sympy.sqrt(head)) * query * key * value
    )
    derived, stated = at_constant_token()

    def product_of_norms(rng: random.Random) -> Case:
        layer, _, _ = random_layer(rng)
        # The Jacobian of G∘N inside the clip: each column of M times one rate.
        size = len(layer.matrix)
        rates = [rng.choice(layer.rates) for _ in range(size)]
        jacobian = [[a * r for a, r in zip(row, rates, strict=True)] for row in layer.matrix]
        bound = scale * layer.mixing * layer.rate
        return Case(m.largest_row_sum(jacobian), "<=", bound, {"M": layer.matrix, "λ": rates})

    def transposed(rng: random.Random) -> Case:
        # The dual of the maximum norm is the sum: ‖Mᵀ‖_{1→1} is the largest row sum of M.
        size = rng.randint(1, 4)
        matrix = m.random_matrix(rng, size, size)
        at = max(range(size), key=lambda i: m.one_norm(matrix[i]))
        image = m.apply(m.transposed(matrix), m.one_hot(at, size))
        return Case(m.one_norm(image), "==", m.largest_row_sum(matrix), {"M": matrix})

    def theta_at_most_one(rng: random.Random) -> Case:
        p = exact.random_distribution(rng, rng.randint(1, 6))
        return Case(exact.theta_by_definition(p), "<=", 1, {"p": p})

    return Derivation(
        scope="all L, d, H, N, all masks that leave a key to every row, all τ > 0, all ε > 0",
        steps=(
            RuleStep("θ <= 1", Rule.AM_GM, "4q(1 − q) <= 1", theta_at_most_one),
            Identity(
                "Theorem 4.1 at θ = 1 and B̄_U = √d B is Corollary 4.2's constant",
                local.subs({theta: 1, row_bound: sympy.sqrt(width) * bound}),
                uniform,
            ),
            RuleStep(
                "two factors",
                Rule.SUBMULTIPLICATIVITY,
                "‖J_MHA J_LN‖ <= ‖J_MHA‖ max_i ‖J_LN(x_i)‖ <= L_MHA L_LN",
                product_of_norms,
            ),
            RuleStep("transposes", Rule.DUALITY, "‖Mᵀ‖ in the dual norm is ‖M‖", transposed),
            Identity("J_LN at a constant token is Diag(γ)P/√ε", derived, stated),
        ),
    )


@check(BOUNDED, kind=Kind.CERTIFICATE, planted=Planted("a bound 1% smaller", factor="0.99"))
def attained_at_constant_tokens(profile: Profile, *, factor: str = "1") -> Evidence:
    """‖G(LN(X)) − G(LN(Y))‖/‖X − Y‖ in balls: random states, and pairs near a constant state.

    The second kind comes within 1e−6 of the bound, so that a smaller constant fails there.
    """
    rng = random.Random(451)
    scale = ball(Fraction(factor))

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(20, 400)):
            width, length = rng.randint(2, 4), rng.randint(1, 4)
            layer = balls.random_layer(rng, width)
            norm, attention = layer.norms[0], layer.attention
            x, y = (balls.as_balls(balls.random_state(rng, length, width)) for _ in range(2))
            if rng.random() < 0.5:
                norm, attention, x, y = balls.attaining_attention(rng, length, width)
            bound = scale * attention.lipschitz(norm.magnitude) * norm.lipschitz

            def branch(
                state: balls.State, a: balls.Attention = attention, n: balls.Norm = norm
            ) -> balls.State:
                return a(n(state))

            yield balls.lipschitz_case(branch, x, y, bound, {"LN": norm, "MHA": attention})

    with precision(balls.BITS):
        return judge(cases(), scope="one head, d <= 4, L <= 4; difference quotients of G(LN(X))")


@check(BOUNDED, kind=Kind.FLOAT, planted=Planted("a bound 1% smaller", factor="0.99"))
def certified_norms_of_random_sublayers(profile: Profile, *, factor: str = "1") -> Evidence:
    """theory.attention behind theory.normaliser: the proved lower bound of ‖J_k‖."""
    rng = np.random.default_rng(457)
    scale = float(factor)

    def cases() -> Iterator[Case]:
        for k in range(profile.pick(24, 2000)):
            width, length = int(rng.integers(2, 5)), int(rng.integers(1, 5))
            modules = floats.random_modules(rng, width)
            X = rng.normal(size=(length, width)) * rng.choice((0.1, 1.0, 30.0))
            if k % 4 == 0:
                modules = floats.attaining_modules(rng, width, pre=True, gamma=np.ones(width))
                X = np.zeros((length, width))
            norm, attention = modules.norm1, modules.attention
            lower, _ = floats.certified(Stack((norm, attention)).at(X))
            mixing = corollary_4_2_bound(attention, floats.magnitude(norm)).value
            bound = scale * mixing * floats.crude_rate(norm)
            yield Case(lower, "<=", bound, {"sublayer": k, "L": length, "d": width})

    return judge(
        cases(),
        scope="random sublayers, 1 or 2 heads, causal or not, d <= 4, L <= 4, 0.001 <= ε <= 1",
        tolerance=floats.BRACKETED,
    )


@check(
    BOUNDED,
    kind=Kind.CERTIFICATE,
    planted=Planted("256 tokens are enough for the spectral norm to exceed it", length=256),
)
def spectral_norm_exceeds_the_same_constant(profile: Profile, *, length: int = 65536) -> Evidence:
    """All rows attend to token 1, whose values move in a direction that W^Q and W^K do not see.

    With e, f, v the three nonconstant Walsh vectors of width 4, of norm 1: token 1 is 2e and every
    other is −2e, so that σ² = 2 at ε = 1 and x̂ = ±√2 e; γ = 1, β = 2f. W^Q = cf and W^K = ce
    (d_h = 1) give every query 2c and keys ±√2 c, hence all rows the same weight on key 1. Moving
    token 1 along v leaves the scores alone (v ⟂ e, f), J_LN v = v/√2, and W^V = v, W^O = vᵀ write
    A_i1 v/√2 into every row i.
    """
    walsh = {
        name: [Fraction(entry, 2) for entry in signs]
        for name, signs in {"e": (1, 1, -1, -1), "f": (1, -1, 1, -1), "v": (1, -1, -1, 1)}.items()
    }
    c_squared = Fraction(5, 2)
    eps, beta_size = Fraction(1), Fraction(1)

    def cases() -> Iterator[Case]:
        token = balls.Norm([Fraction(1)] * 4, [2 * beta_size * f for f in walsh["f"]], eps)
        first, other = token(balls.as_balls([[2 * s * e for e in walsh["e"]] for s in (1, -1)]))
        for row in (first, other):
            yield Case(balls.inner(row, walsh["v"]), "<=", Fraction(1, 10**60), "values at rest")
        query = balls.inner(first, walsh["f"])
        scores = [ball(c_squared) * query * balls.inner(row, walsh["e"]) for row in (first, other)]
        weight = 1 / (1 + (length - 1) * (scores[1] - scores[0]).exp())
        # d B² = 4(1 + β)² with d_h = 1; the projections have norms c, c, 1, 1.
        constant = token.lipschitz * (1 + 8 * ball(token.magnitude**2 * c_squared))
        moved = weight / ball(2).sqrt()
        yield Case(moved, "<=", constant, "block-∞/RMS, this direction")
        yield Case(moved * ball(length).sqrt(), ">", constant, "Frobenius, so spectral")

    with precision(balls.BITS):
        return judge(cases(), scope=f"one attention sublayer with L = {length}, d = 4, d_h = 1")


# ------------------------------------------------------------------------------------ part 2


def _quadratic_sublayers() -> tuple[sympy.Matrix, sympy.Matrix, list[sympy.Matrix]]:
    """Three sublayers x + G_k(x) on R² with free coefficients: (z, output, the J_k in order)."""
    z = sympy.Matrix(sympy.symbols("z1 z2", real=True))
    a = sympy.symbols("a1:10", real=True)
    state, jacobians = z, []
    for k in range(3):
        x, y = state
        own = sympy.Matrix(sympy.symbols("x y", real=True))
        branch = sympy.Matrix(
            [a[3 * k] * own[1], a[3 * k + 1] * own[0] ** 2 + a[3 * k + 2] * own[0]]
        )
        at = {own[0]: x, own[1]: y}
        jacobians.append(branch.jacobian(own).subs(at, simultaneous=True))
        state = state + branch.subs(at, simultaneous=True)
    return z, state, jacobians


@check(
    EXPANSION,
    kind=Kind.DERIVATION,
    planted=Planted("later letters stand on the right", later_first=False),
)
def every_depth_by_induction(profile: Profile, *, later_first: bool = True) -> Derivation:
    """The chain rule on a nonlinear stack; one more factor sorts into longer and shorter words.

    e_r is the sum of the words of length r so far; one more factor makes it e_r + J e_{r−1}.
    """
    z, output, jacobians = _quadratic_sublayers()
    expanded = sympy.eye(2)
    for size in (1, 2, 3):
        for chosen in itertools.combinations(jacobians, size):
            ordered = chosen[::-1] if later_first else chosen
            expanded += math.prod(ordered[1:], start=ordered[0])
    letter, linear, longer, shorter, same, rest = sympy.symbols(
        "J e_1 R e_{r-1} e_r E", commutative=False
    )

    def one_more(rng: random.Random) -> Case:
        n, size = rng.randint(1, 7), rng.randint(0, 8)
        later = words.pre_ln(n + 1)
        found = {word for word in later if len(word) == size}
        kept = {word for word in words.pre_ln(n) if len(word) == size}
        prolonged = {(f"J{n + 1}", *w) for w in words.pre_ln(n) if len(w) == size - 1}
        return Case(int(found == kept | prolonged), "==", 1, {"n": n, "r": size})

    def number(rng: random.Random) -> Case:
        n = rng.randint(1, 10)
        count = sum(1 for word in words.pre_ln(n) if len(word) >= 2)
        return Case(count, "==", 2**n - n - 1, {"n": n})

    return Derivation(
        scope="every m − ℓ >= 1, all differentiable sublayers; the chain rule written out for "
        "three quadratic sublayers on R²",
        steps=(
            Identity("three sublayers, nine coefficients", output.jacobian(z), expanded),
            Identity(
                "one more factor, by length",
                (1 + letter) * (1 + linear + longer),
                1 + (linear + letter) + (longer + letter * linear + letter * longer),
            ),
            Identity(
                "words of length r",
                (1 + letter) * (shorter + same + rest),
                (shorter + same + letter * shorter) + (rest + letter * same + letter * rest),
            ),
            RuleStep("all depths", Rule.INDUCTION, "e_r becomes e_r + J e_{r−1}", one_more),
            RuleStep("the number of words in R", Rule.COUNTING, "2^n − n − 1", number),
        ),
    )


@check(
    EXPANSION,
    kind=Kind.ENUMERATION,
    planted=Planted("the sublayers have no skip connection", bare=False),
)
def every_word_up_to_eight(profile: Profile, *, bare: bool = True) -> Evidence:
    """Each increasing choice of sublayers is a word, once, later letters on the left."""
    deepest = profile.pick(8, 12)

    def cases() -> Iterator[Case]:
        for n in range(1, deepest + 1):
            expansion = words.pre_ln(n, bare=bare)
            instance = {"n": n}
            yield Case(len(expansion), "==", 2**n, instance)
            yield Case(expansion[words.ONE], "==", 1, instance)
            for size in range(n + 1):
                for chosen in itertools.combinations(range(n, 0, -1), size):
                    word = tuple(f"J{k}" for k in chosen)
                    yield Case(expansion[word], "==", 1, instance | {"word": word})

    return judge(cases(), scope=f"n = m − ℓ = 1, …, {deepest}: all words of the expansion")


@check(EXPANSION, kind=Kind.DERIVATION, planted=Planted("R misses one word", missing=1))
def expanded_by_sympy_up_to_eight(profile: Profile, *, missing: int = 0) -> Derivation:
    """SymPy multiplies out the noncommutative product."""
    steps = []
    for n in range(1, 9):
        letters = [words.noncommuting(f"J{k}") for k in range(n, 0, -1)]
        whole = sympy.Mul(*(1 + letter for letter in letters))
        longer = [word for word in words.pre_ln(n) if len(word) >= 2]
        remainder = words.as_sympy(Counter(longer[missing:]))
        steps.append(Identity(f"n = {n}", whole, 1 + sympy.Add(*letters) + remainder))
    return Derivation(scope="n = m − ℓ = 1, …, 8", steps=tuple(steps))


@check(EXPANSION, kind=Kind.FLOAT, planted=Planted("words of length 1 alone", longest=1))
def words_of_real_sublayers(profile: Profile, *, longest: int = 3) -> Evidence:
    """Softmax attention behind LayerNorm at 300 bits: the sum over words gives ∂X_3/∂X_0 V."""
    rng = random.Random(452)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(4, 40)):
            width, length = rng.randint(2, 3), rng.randint(1, 3)
            branches = [balls.attention_branch(rng, width) for _ in range(3)]
            start = balls.as_balls(balls.random_state(rng, length, width))
            direction = balls.as_balls(balls.random_state(rng, length, width))
            states = [start]
            for branch in branches:
                states.append(balls.added(states[-1], branch(states[-1])))

            def whole(state: balls.State, chain: list[balls.Layer] = branches) -> balls.State:
                for branch in chain:
                    state = balls.added(state, branch(state))
                return state

            total = direction
            for size in range(1, longest + 1):
                for chosen in itertools.combinations(range(3), size):
                    image = direction
                    for k in chosen:
                        image = balls.derivative(branches[k], states[k], image)
                    total = balls.added(total, image)
            gap = balls.largest_entry(
                balls.added(total, balls.derivative(whole, start, direction), -1)
            )
            yield Case(float(gap), "==", 0.0, {"L": length, "d": width})

    with precision(balls.BITS):
        return judge(
            cases(), scope="three attention sublayers, L <= 3, d <= 3", tolerance=balls.SAME_DIGITS
        )


@check(EXPANSION, kind=Kind.FLOAT, planted=Planted("words of length 1 alone", longest=1))
def words_of_public_jacobians(profile: Profile, *, longest: int = 3) -> Evidence:
    """theory.blocks: the sum over words of dense J_k against the JVP of the stack, and against
    difference quotients at 300 bits, which share no code with it.
    """
    rng = random.Random(453)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(4, 60)):
            width, length = rng.randint(2, 3), rng.randint(1, 3)
            layers = [balls.random_layer(rng, width) for _ in range(3)]
            modules = [floats.from_balls(layer) for layer in layers]
            sublayers = [PreNormSublayer(norm=p.norm1, inner=p.attention) for p in modules]
            start, direction = (balls.random_state(rng, length, width) for _ in range(2))
            X, V = (np.asarray(state, dtype=np.float64) for state in (start, direction))

            jacobians, state = [], X
            for part, sublayer in zip(modules, sublayers, strict=True):
                normed = part.norm1.at(state)
                mixing = part.attention.at(normed.output)
                jacobians.append(floats.matrix_of(mixing) @ floats.matrix_of(normed))
                state = sublayer(state)
            total = np.eye(length * width)
            for size in range(1, longest + 1):
                for chosen in itertools.combinations(jacobians, size):
                    word = np.eye(length * width)
                    for jacobian in chosen:
                        word = jacobian @ word
                    total += word

            def whole(state: balls.State, stack: list[balls.LayerPair] = layers) -> balls.State:
                for layer in stack:
                    state = balls.added(state, layer.attention(layer.norms[0](state)))
                return state

            image = total @ V.ravel()
            pushed = Stack(sublayers).at(X).jvp(V).ravel()
            exact_image = balls.derivative(whole, balls.as_balls(start), balls.as_balls(direction))
            digits = np.asarray([[float(e.mid()) for e in row] for row in exact_image]).ravel()
            for name, other in (("jvp", pushed), ("balls", digits)):
                gap = float(np.max(np.abs(image - other)))
                yield Case(gap, "==", 0.0, {"against": name, "L": length, "d": width})

    with precision(balls.BITS):
        return judge(
            cases(), scope="three attention sublayers, L <= 3, d <= 3", tolerance=floats.AGREE
        )


# ------------------------------------------------------------------------------------ part 3


@check(
    READ_OFF,
    kind=Kind.DERIVATION,
    planted=Planted("the identity term shrinks with every sublayer", shrink=True),
)
def degree_by_degree(profile: Profile, *, shrink: bool = False) -> Derivation:
    """Put s in front of every J_k: the part of degree 0 in s is what no sublayer touches."""
    letter, rest = sympy.symbols("J R", commutative=False)
    s, t = sympy.symbols("s t", real=True)
    n = sympy.Symbol("n", integer=True, positive=True)
    part = sympy.Rational(1, 2) if shrink else sympy.Integer(1)

    def coefficient(rng: random.Random) -> Case:
        n = rng.randint(1, 9)
        return Case(Fraction(words.pre_ln(n)[words.ONE]), "==", Fraction(str(part**n)), {"n": n})

    def degree(rng: random.Random) -> Case:
        n = rng.randint(1, 8)
        free = sum(1 for word in words.pre_ln(n) if not words.only(word, "J"))
        return Case(free, "==", 1, {"n": n})

    def cancelled(rng: random.Random) -> Case:
        depth, rate = rng.randint(1, 7), Fraction(rng.randint(1, 6), 6)
        size = rng.randint(1, 3)
        factor = m.plus(m.identity(size), m.identity(size), -rate)
        whole: m.Matrix = m.identity(size)
        for _ in range(depth):
            whole = m.product(factor, whole)
        return Case(m.largest_row_sum(whole), "==", (1 - rate) ** depth, {"n": depth, "t": rate})

    return Derivation(
        scope="every depth",
        steps=(
            Identity(
                "one more factor keeps the part without s",
                ((1 + s * letter) * (part + s * rest)).subs(s, 0),
                part,
            ),
            Identity(
                "and adds to every other at least one s",
                (1 + s * letter) * (part + s * rest) - part,
                s * (rest + part * letter + s * letter * rest),
            ),
            RuleStep("the coefficient of the empty word", Rule.INDUCTION, "1", coefficient),
            RuleStep(
                "no other word is free of sublayers", Rule.COUNTING, "degree = length", degree
            ),
            Identity("J = −tI", (1 - t) ** n * (1 + letter.subs(letter, -t)), (1 - t) ** (n + 1)),
            RuleStep("cancellation", Rule.ATTAINMENT, "(1 − t)^n in every induced norm", cancelled),
        ),
    )


@check(
    READ_OFF,
    kind=Kind.ENUMERATION,
    planted=Planted("a bare identity keeps the norm at 1 or above", keeps=True),
)
def cancelled_for_small_integer_jacobians(profile: Profile, *, keeps: bool = False) -> Evidence:
    """Every pair of 2×2 matrices J_1, J_2 over {−1, 0, 1}: the coefficient is 1, the norm any.

    The smallest largest row sum of the product over all pairs is 0.
    """

    def cases() -> Iterator[Case]:
        least = Fraction(4)
        matrices = list(m.integer_matrices(2, 2, (-1, 0, 1)))
        for first, second in itertools.product(matrices, repeat=2):
            whole = m.product(m.plus(m.identity(2), second), m.plus(m.identity(2), first))
            expanded = m.plus(
                m.plus(m.identity(2), first), m.plus(second, m.product(second, first))
            )
            gap = m.frobenius_squared(m.plus(whole, expanded, -1))
            yield Case(gap, "==", 0, {"J_1": first, "J_2": second})
            norm = Fraction(m.largest_row_sum(whole))
            if keeps:
                yield Case(norm, ">=", 1, {"J_1": first, "J_2": second})
            least = min(least, norm)
        yield Case(least, "==", 0, "the smallest norm")

    return judge(cases(), scope="J_1 and J_2 with entries −1, 0, 1, of size 2×2")
