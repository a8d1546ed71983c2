"""Definition 2.1: three notions of stability, and why none of them gives the next."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
import sympy

from theory.claims import _matrices as m
from theory.derivations.layernorm import shifted, split_layer_norm
from theory.layernorm import layer_norm_jacobian
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
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

LIPSCHITZ = Claim(
    id="definition_2_1_part_1",
    paper_ref="Definition 2.1, part 1",
    section="2",
    statement="For a map f and a nonempty domain D, Lip(f; D) is the supremum over distinct X, X' "
    "in D of ‖f(X) − f(X')‖/‖X − X'‖, and 0 where D is a single point. In every norm it is the "
    "least C >= 0 with ‖f(X) − f(X')‖ <= C‖X − X'‖ throughout D; for an affine map on the whole "
    "space it is the induced norm of the linear part.",
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="On a domain of one point the supremum runs over no pair; it has to be read as 0 (the "
        "least admissible constant), as for a bounded domain of radius 0. The norm is left "
        "open in the definition and has to be named with each constant.",
    ),
)
END_TO_END = Claim(
    id="definition_2_1_part_2",
    paper_ref="Definition 2.1, part 2",
    section="2",
    statement="The end-to-end sensitivity from layer ℓ to N is the induced norm of the ordered "
    "product of the layer Jacobians along the trajectory, later layers on the left. It is at most "
    "the product of the layers' norms; its value depends on the norm chosen: for attention to a "
    "single key it is 1 in block-∞/RMS and √L in the spectral norm.",
    uses=("ineq_frobenius_2",),
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The norm is not fixed. Statements free of the sequence length need the block-∞/RMS "
        "norm; Corollary A.3 uses the spectral one, and the two may differ by √L.",
    ),
)
IDENTITY_PATH = Claim(
    id="definition_2_1_part_3",
    paper_ref="Definition 2.1, part 3",
    section="2",
    statement="In the free algebra on J_1, …, J_n the product (I + J_n)···(I + J_1) equals "
    "I + Σ J_k + R, where R is the sum of the 2^n − n − 1 words with at least two letters, each "
    "once, later letters on the left. A model has an additive identity path if its expansion "
    "contains the empty word. That says nothing about the size of the product.",
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The paper calls this a statement about the expansion. Made precise, it says that the "
        "empty word has coefficient 1 in the free algebra on the sublayers' Jacobians; of the "
        "end-to-end Jacobian as a matrix it would say nothing, as every M is I + (M − I).",
    ),
)
LAYERS_NOT_WHOLE = Claim(
    id="claim_2_1_a",
    paper_ref="Definition 2.1, paragraph after it",
    section="2",
    statement="A bound on every layer's Lipschitz constant does not bound the end-to-end "
    "sensitivity uniformly in depth: N layers X -> 2X, of constant 2, have sensitivity 2^N, in "
    "every norm; so have, in block-∞/RMS, N layers X -> X + AX with a frozen row-stochastic A.",
    uses=("definition_2_1_part_1", "definition_2_1_part_2", "lemma_2_3"),
)
WHOLE_NOT_DIRECTIONS = Claim(
    id="claim_2_1_b",
    paper_ref="Definition 2.1, paragraph after it",
    section="2",
    statement="A bound on the end-to-end norm does not keep gradients alive in every direction: "
    "LayerNorm's Jacobian, bounded by ‖γ‖_∞/σ in the spectral norm, maps the constant vector to 0 "
    "at every x (σ > 0) and every width.",
    uses=("definition_2_1_part_2", "lemma_a_1_step_local", "lemma_a_2_part_i"),
)


# --------------------------------------------------------------------- Lipschitz constants


def _lipschitz(images: Mapping[int, int], of_one_point: int = 0) -> Fraction:
    """The definition, for a map on a finite set of integers."""
    pairs = itertools.combinations(images, 2)
    ratios = [Fraction(abs(images[x] - images[y]), abs(x - y)) for x, y in pairs]
    return max(ratios, default=Fraction(of_one_point))


def _excess(images: Mapping[int, int], constant: Fraction) -> Fraction:
    """The largest |f(x) − f(y)| − C|x − y| over all pairs, equal points included."""
    return max(
        abs(images[x] - images[y]) - constant * abs(x - y)
        for x, y in itertools.product(images, repeat=2)
    )


@check(
    LIPSCHITZ,
    kind=Kind.DERIVATION,
    planted=Planted("the constants are 1% smaller", factor="0.99"),
)
def affine_and_quadratic_maps(profile: Profile, *, factor: str = "1") -> Derivation:
    """The least constant; affine maps attain it; a square has a supremum that no pair attains."""
    scale = Fraction(factor)
    matrix, x, y, offset = sympy.symbols("M x y b", commutative=False)
    s, t = sympy.symbols("s t", real=True)

    def least(rng: random.Random) -> Case:
        images = {x: rng.randint(-9, 9) for x in rng.sample(range(-9, 10), rng.randint(1, 5))}
        constant = _lipschitz(images) * Fraction(rng.randint(0, 4), 2)
        is_admissible = _excess(images, constant) <= 0
        return Case(int(is_admissible), "==", int(constant >= _lipschitz(images)), {"f": images})

    def affine_is_bounded(rng: random.Random) -> Case:
        # Token width 1: ‖·‖_{∞,rms} is the maximum norm.
        size = rng.randint(1, 4)
        linear = m.random_matrix(rng, size, size)
        norm = scale * m.largest_row_sum(linear)
        step: m.Vector = [rng.randint(-4, 4) for _ in range(size)]
        if rng.random() < 0.3:
            step = m.heaviest_signs(linear)
        image = m.sup_norm(m.apply(linear, step))
        return Case(image, "<=", norm * m.sup_norm(step), {"M": linear, "X − X'": step})

    def affine_attains(rng: random.Random) -> Case:
        linear = m.random_matrix(rng, rng.randint(1, 4), rng.randint(1, 4))
        image = m.sup_norm(m.apply(linear, m.heaviest_signs(linear)))
        return Case(image, "==", m.largest_row_sum(linear), {"M": linear})

    def near_the_corner(rng: random.Random) -> Case:
        radius = Fraction(rng.randint(1, 20), rng.randint(1, 9))
        gap = radius / rng.randint(150, 900)
        ratio = (radius**2 - (radius - gap) ** 2) / gap
        return Case(ratio, "<", scale * 2 * radius, {"r": radius, "pair": (radius, radius - gap)})

    def limit_at_the_corner(rng: random.Random) -> Case:
        radius = Fraction(rng.randint(1, 20), rng.randint(1, 9))
        gap = radius / rng.randint(1, 900)
        ratio = (radius**2 - (radius - gap) ** 2) / gap
        return Case(ratio, "==", 2 * radius - gap, {"r": radius, "gap": gap})

    return Derivation(
        scope="all maps; affine maps of every size; x -> x² on [−r, r] for every r > 0",
        steps=(
            RuleStep(
                "least constant",
                Rule.DEFINITION,
                "C >= 0 bounds every ratio iff ‖f(X) − f(X')‖ <= C‖X − X'‖ for all X, X'",
                least,
            ),
            Identity(
                "differences of an affine map",
                matrix * x + offset - (matrix * y + offset),
                matrix * (x - y),
            ),
            RuleStep("upper", Rule.OPERATOR_NORM, "‖M(X − X')‖ <= ‖M‖‖X − X'‖", affine_is_bounded),
            RuleStep("attained", Rule.ATTAINMENT, "a unit X − X' attains ‖M‖", affine_attains),
            Identity("differences of a square", s**2 - t**2, (s + t) * (s - t)),
            RuleStep("|s + t| < 2r", Rule.TRIANGLE_INEQUALITY, "ratio < 2r", near_the_corner),
            RuleStep("supremum 2r", Rule.LIMIT, "2r − h -> 2r as h -> 0", limit_at_the_corner),
        ),
    )


@check(
    LIPSCHITZ,
    kind=Kind.ENUMERATION,
    planted=Planted("one point has the constant 1", of_one_point=1),
)
def least_constant_on_every_small_domain(profile: Profile, *, of_one_point: int = 0) -> Evidence:
    """The supremum is admissible, and nothing smaller and nonnegative is."""
    points = range(profile.pick(4, 5))

    def cases() -> Iterator[Case]:
        for size in range(1, len(points) + 1):
            for domain in itertools.combinations(points, size):
                for values in itertools.product(points, repeat=size):
                    images = dict(zip(domain, values, strict=True))
                    constant = _lipschitz(images, of_one_point)
                    yield Case(_excess(images, constant), "<=", 0, {"f": images})
                    if constant > 0:
                        smaller = constant * Fraction(99, 100)
                        yield Case(_excess(images, smaller), ">", 0, {"f": images})

    return judge(
        cases(), scope=f"every map from a nonempty part of 0..{points[-1]} to 0..{points[-1]}"
    )


# --------------------------------------------------------------------- end-to-end sensitivity


@check(
    END_TO_END,
    kind=Kind.DERIVATION,
    planted=Planted("the Jacobians are multiplied in the order of application", later_first=False),
)
def chain_rule(profile: Profile, *, later_first: bool = True) -> Derivation:
    """Differentiate a composition of three maps and compare with the ordered product."""
    z = sympy.Matrix(sympy.symbols("z1 z2", real=True))
    a = sympy.symbols("a1:10", real=True)

    def layer(k: int, point: sympy.Matrix) -> sympy.Matrix:
        x, y = point
        return sympy.Matrix([x + a[3 * k] * y, y + a[3 * k + 1] * x**2 + a[3 * k + 2] * x])

    state = z
    jacobians: list[sympy.Matrix] = []
    for k in range(3):
        at_layer = layer(k, z).jacobian(z).subs(dict(zip(z, state, strict=True)), simultaneous=True)
        jacobians.append(at_layer)
        state = layer(k, state)
    ordered = reversed(jacobians) if later_first else iter(jacobians)
    whole = sympy.eye(2)
    for factor in ordered:
        whole = whole * factor

    def product_of_norms(rng: random.Random) -> Case:
        size = rng.randint(1, 3)
        layers = [m.random_matrix(rng, size, size, 3) for _ in range(rng.randint(1, 4))]
        if rng.random() < 0.3:
            layers = [m.sink(size, size, rng.randrange(size)) for _ in layers]
        total: m.Matrix = m.identity(size)
        bound: m.Exact = 1
        for matrix in layers:
            total = m.product(matrix, total)
            bound *= m.largest_row_sum(matrix)
        return Case(m.largest_row_sum(total), "<=", bound, {"layers": layers})

    def composition(rng: random.Random, depth: int) -> Case:
        # Affine layers: the difference quotient of the composition is its Jacobian, exactly.
        size = rng.randint(1, 3)
        layers = [m.random_matrix(rng, size, size, 3) for _ in range(depth)]
        offset = m.random_matrix(rng, 1, size)[0]
        at = rng.randrange(size)
        start: m.Vector = m.random_matrix(rng, 1, size)[0]
        moved: m.Vector = [v + step for v, step in zip(start, m.one_hot(at, size), strict=True)]
        total: m.Matrix = m.identity(size)
        for matrix in layers:
            start, moved = (
                [v + b for v, b in zip(m.apply(matrix, state), offset, strict=True)]
                for state in (start, moved)
            )
            total = m.product(matrix, total) if later_first else m.product(total, matrix)
        column = [row[at] for row in total]
        gap = [a - b - c for a, b, c in zip(moved, start, column, strict=True)]
        return Case(m.squared(gap), "==", 0, {"layers": layers, "column": at})

    def block_norm_of_a_sink(rng: random.Random) -> Case:
        matrix = m.sink(rng.randint(1, 8), rng.randint(1, 8))
        return Case(m.largest_row_sum(matrix), "==", 1, {"A": matrix})

    def spectral_norm_of_a_sink(rng: random.Random) -> Case:
        # By ineq_frobenius_2 the spectral norm is at most √L; e_1 attains it.
        matrix = m.sink(rng.randint(1, 8), rng.randint(1, 8))
        return m.spectral_at_least(matrix, len(matrix), {"A": matrix})

    def one_more(rng: random.Random) -> Case:
        return composition(rng, 2)

    def any_depth(rng: random.Random) -> Case:
        return composition(rng, rng.randint(1, 5))

    return Derivation(
        scope="all depths and differentiable layers; written out for three polynomial layers on R²",
        steps=(
            Identity("three layers, nine free coefficients", state.jacobian(z), whole),
            RuleStep("one layer more", Rule.CHAIN_RULE, "one more factor on the left", one_more),
            RuleStep("any depth", Rule.INDUCTION, "the ordered product", any_depth),
            RuleStep(
                "product of norms",
                Rule.SUBMULTIPLICATIVITY,
                "end-to-end sensitivity <= product over the layers, any number of layers",
                product_of_norms,
            ),
            RuleStep(
                "one key, block norm", Rule.DEFINITION, "its row sums are 1", block_norm_of_a_sink
            ),
            RuleStep(
                "one key, spectral norm",
                Rule.ATTAINMENT,
                "‖A‖₂ <= ‖A‖_F = √L = ‖Ae_1‖₂",
                spectral_norm_of_a_sink,
            ),
        ),
    )


@check(
    END_TO_END,
    kind=Kind.CERTIFICATE,
    planted=Planted("the spectral norm is 1% below √L", factor="0.99"),
)
def value_depends_on_the_norm(profile: Profile, *, factor: str = "1") -> Evidence:
    """Attention to one key: block norm 1, spectral norm √L, exactly."""
    scale = Fraction(factor)

    def cases() -> Iterator[Case]:
        for length in range(1, profile.pick(16, 48) + 1):
            matrix = m.sink(length, length)
            instance = {"L": length}
            yield Case(m.largest_row_sum(matrix), "==", 1, instance)
            yield m.spectral_at_most(matrix, scale**2 * length, instance)
            yield m.spectral_at_least(matrix, length, instance)

    return judge(
        cases(),
        scope=f"A = 1e_1ᵀ for L <= {profile.pick(16, 48)}; the spectral norm by exact LDLᵀ",
    )


# --------------------------------------------------------------------------- identity path


def _letters(n: int) -> tuple[sympy.Symbol, ...]:
    return sympy.symbols(f"J1:{n + 1}", commutative=False)


def _word(letters: Sequence[sympy.Expr]) -> sympy.Expr:
    """The product with later letters on the left."""
    return sympy.Mul(*reversed(letters))


@check(
    IDENTITY_PATH,
    kind=Kind.DERIVATION,
    planted=Planted("the expansion has no bare identity", bare=0),
)
def every_depth_by_induction(profile: Profile, *, bare: int = 1) -> Derivation:
    """Multiply the expansion for n letters by one more factor and sort the words by length."""
    letter, linear, rest, post = sympy.symbols("J S R G", commutative=False)

    def expansion_in_matrices(rng: random.Random) -> Case:
        n = rng.randint(1, 5)
        layers = [m.random_matrix(rng, 2, 2, 3) for _ in range(n)]
        whole: m.Matrix = m.identity(2)
        for matrix in layers:
            whole = m.product(m.plus(m.identity(2), matrix), whole)
        total: m.Matrix = m.plus([[0, 0], [0, 0]], m.identity(2), bare)
        for size in range(1, n + 1):
            for chosen in itertools.combinations(layers, size):
                word: m.Matrix = m.identity(2)
                for matrix in chosen:
                    word = m.product(matrix, word)
                total = m.plus(total, word)
        difference = m.plus(whole, total, -1)
        return Case(m.frobenius_squared(difference), "==", 0, {"J": layers})

    def shrinking(rng: random.Random) -> Case:
        n, t = rng.randint(1, 6), Fraction(rng.randint(1, 6), 6)
        factor = m.plus(m.identity(2), m.identity(2), -t)
        whole: m.Matrix = m.identity(2)
        for _ in range(n):
            whole = m.product(factor, whole)
        return Case(m.largest_row_sum(whole), "<", 1, {"n": n, "t": t})

    def number_of_words(rng: random.Random) -> Case:
        n = rng.randint(1, 10)
        words = sum(1 for chosen in itertools.product((0, 1), repeat=n) if sum(chosen) >= 2)
        return Case(words, "==", 2**n - n - 1, {"n": n})

    return Derivation(
        scope="all n >= 1, words in the free algebra",
        steps=(
            # S collects the letters so far, R the words of two letters or more.
            Identity(
                "one more factor",
                (1 + letter) * (1 + linear + rest),
                bare + (letter + linear) + (rest + letter * linear + letter * rest),
            ),
            RuleStep(
                "all n",
                Rule.INDUCTION,
                "the product is I + Σ J_k + R, for matrices as for words",
                expansion_in_matrices,
            ),
            RuleStep("2^n − n − 1 words", Rule.COUNTING, "subsets of size >= 2", number_of_words),
            # The same matrix, written once without and once with a bare identity.
            Identity(
                "formal, not a property of the value",
                (1 + letter).subs(letter, post + post * letter - 1),
                post * (1 + letter),
            ),
            RuleStep("no lower bound", Rule.ATTAINMENT, "J_k = −tI gives (1 − t)^n < 1", shrinking),
        ),
    )


@check(
    IDENTITY_PATH,
    kind=Kind.DERIVATION,
    planted=Planted("the words have earlier letters on the left", later_first=False),
)
def words_up_to_eight_layers(profile: Profile, *, later_first: bool = True) -> Derivation:
    """All 2^n words, one by one, against SymPy's expansion."""
    steps = []
    for n in range(1, 9):
        letters = _letters(n)
        whole = _word([1 + letter for letter in letters])
        words = [
            _word(chosen if later_first else chosen[::-1])
            for size in range(2, n + 1)
            for chosen in itertools.combinations(letters, size)
        ]
        expected = 1 + sympy.Add(*letters) + sympy.Add(*words)
        steps.append(Identity(f"n = {n}: {len(words)} words in R", whole, expected))
    return Derivation(scope="n = 1, …, 8, words in the free algebra", steps=tuple(steps))


@check(
    IDENTITY_PATH,
    kind=Kind.CERTIFICATE,
    planted=Planted("the sublayers reinforce the identity instead", sign=+1),
)
def a_bare_identity_is_no_lower_bound(profile: Profile, *, sign: int = -1) -> Evidence:
    """J_k = −tI has a bare identity in its expansion and a product of norm (1 − t)^n < 1."""

    def cases() -> Iterator[Case]:
        for n, quarters in itertools.product(range(1, 9), (1, 2, 3, 4)):
            layer = m.plus(m.identity(3), m.identity(3), Fraction(sign * quarters, 4))
            whole: m.Matrix = m.identity(3)
            for _ in range(n):
                whole = m.product(layer, whole)
            instance = {"n": n, "t": Fraction(quarters, 4)}
            size = (1 + Fraction(sign * quarters, 4)) ** n
            yield Case(m.largest_row_sum(whole), "==", size, instance)
            yield Case(m.largest_row_sum(whole), "<", 1, instance)

    return judge(cases(), scope="J_k = −tI for t = 1/4, 1/2, 3/4, 1 and n <= 8")


# ---------------------------------------------------------- neither notion gives the next


@check(
    LAYERS_NOT_WHOLE,
    kind=Kind.DERIVATION,
    planted=Planted("layers with constant 1 also grow", gain=1),
)
def doubling(profile: Profile, *, gain: int = 2) -> Derivation:
    """N times X -> 2X, in every norm; N times X -> X + AX, which doubles constant states."""
    depth = sympy.Symbol("N", integer=True, nonnegative=True)

    def constant_of_a_layer(rng: random.Random) -> Case:
        step = m.random_matrix(rng, rng.randint(1, 4), rng.randint(1, 4))
        image = [[gain * entry for entry in row] for row in step]
        return Case(
            m.largest_row_squared(image), "==", gain**2 * m.largest_row_squared(step), {"ΔX": step}
        )

    def exceeds_any_bound(rng: random.Random) -> Case:
        bound = rng.randint(1, 10**6)
        value = 1
        for _ in range(bound.bit_length()):
            value *= gain
        return Case(value, ">", bound, {"C": bound, "N": bound.bit_length()})

    def residual_layer(rng: random.Random) -> m.Matrix:
        size = rng.randint(1, 4)
        return m.plus(m.random_stochastic(rng, size, size), m.identity(size))

    def residual_constant(rng: random.Random) -> Case:
        layer = residual_layer(rng)
        return Case(m.largest_row_sum(layer), "<=", gain, {"I + A": layer})

    def constant_states_double(rng: random.Random) -> Case:
        layer = residual_layer(rng)
        depth = rng.randint(1, 6)
        state: m.Vector = [1] * len(layer)
        for _ in range(depth):
            state = m.apply(layer, state)
        return Case(m.sup_norm(state), "==", gain**depth, {"I + A": layer, "N": depth})

    return Derivation(
        scope="all depths N and shapes; 2X in every norm, X + AX in block-∞/RMS",
        steps=(
            RuleStep("each layer", Rule.DEFINITION, "Lip(X -> 2X) = 2", constant_of_a_layer),
            Identity(
                "one layer more",
                gain * sympy.Integer(gain) ** depth,
                sympy.Integer(2) ** (depth + 1),
            ),
            RuleStep(
                "unbounded",
                Rule.INDUCTION,
                "sensitivity 2^N, above any C once N >= the number of C's binary digits",
                exceeds_any_bound,
            ),
            RuleStep(
                "X + AX",
                Rule.TRIANGLE_INEQUALITY,
                "‖I + A‖ <= 1 + ‖A‖ <= 2, by lemma_2_3",
                residual_constant,
            ),
            RuleStep(
                "N layers X + AX",
                Rule.ATTAINMENT,
                "A1 = 1, so (I + A)^N maps the constant state to 2^N times itself",
                constant_states_double,
            ),
        ),
    )


@check(
    LAYERS_NOT_WHOLE,
    kind=Kind.CERTIFICATE,
    planted=Planted("the same without the residual branch", residual=0),
)
def frozen_attention_with_a_residual_branch(profile: Profile, *, residual: int = 1) -> Evidence:
    """X -> X + AX: constant 2 per layer and sensitivity 2^N, because A keeps constants."""
    deepest = profile.pick(10, 40)

    def cases() -> Iterator[Case]:
        for length in range(1, 6):
            uniform = [[Fraction(1, length)] * length for _ in range(length)]
            kinds = {
                "sink": m.sink(length, length),
                "uniform": uniform,
                "causal uniform": m.uniform_causal(length),
            }
            for name, mixing in kinds.items():
                layer = m.plus(mixing, m.identity(length), residual)
                whole: m.Matrix = m.identity(length)
                for depth in range(1, deepest + 1):
                    whole = m.product(layer, whole)
                    instance = {"L": length, "A": name, "N": depth}
                    yield Case(m.largest_row_sum(layer), "==", 2, instance)
                    yield Case(m.largest_row_sum(whole), "==", 2**depth, instance)

    return judge(cases(), scope=f"sink, uniform and causal uniform A, L <= 5, N <= {deepest}")


@check(
    WHOLE_NOT_DIRECTIONS,
    kind=Kind.DERIVATION,
    planted=Planted("e_i is killed too", others=0),
)
def constant_direction_at_every_width(profile: Profile, *, others: int = 1) -> Derivation:
    """Move every coordinate by t; the rest of the token enters through its two power sums."""
    t = sympy.Symbol("t", real=True)
    moved = shifted(split_layer_norm(), t, others * t)

    def killed(rng: random.Random) -> Case:
        token = m.random_token(rng)
        gamma = [rng.randint(-4, 4) for _ in token.x]
        direction = [1, *[others] * (len(token.x) - 1)]
        image = m.apply(token.jacobian(gamma), direction)
        return Case(m.squared(image), "==", 0, {"x": token.x, "σ": token.sigma, "γ": gamma})

    return Derivation(
        scope="all d >= 2, all x, all γ and β, ε > 0 (d = 1 and ε = 0: lemma_a_2_part_i)",
        steps=(
            Identity("∂/∂t LN(x + t1)_i = 0", sympy.diff(moved, t).subs(t, 0), 0),
            RuleStep("J1 = 0", Rule.CHAIN_RULE, "J1 is that derivative", killed),
        ),
    )


@check(
    WHOLE_NOT_DIRECTIONS,
    kind=Kind.ENUMERATION,
    planted=Planted("the mean is not subtracted", centre=False),
)
def every_small_token(profile: Profile, *, centre: bool = True) -> Evidence:
    """J is bounded by ‖γ‖_∞/σ and not zero, and still maps 1 to 0; exactly."""
    sizes = profile.pick(((2, 3), (3, 2)), ((2, 8), (3, 5), (4, 2)))

    def cases() -> Iterator[Case]:
        for width, largest in sizes:
            gamma = list(range(1, width + 1))
            for x in itertools.product(range(-largest, largest + 1), repeat=width):
                token = m.token(x, m.smallest_sigma(x) + 1)
                jacobian = token.jacobian(gamma, centre=centre)
                instance = {"x": x, "σ": token.sigma, "γ": gamma}
                yield m.spectral_at_most(jacobian, Fraction(width, token.sigma) ** 2, instance)
                yield Case(m.frobenius_squared(jacobian), ">", 0, instance)
                yield Case(m.squared(m.apply(jacobian, [1] * width)), "==", 0, instance)

    shown = ", ".join(f"d = {width}: |x_j| <= {largest}" for width, largest in sizes)
    return judge(cases(), scope=f"every integer token, {shown}; γ = (1, …, d), σ rational")


ROUNDING_OF_A_ZERO_SUM = Tolerance(
    value=256 * 2.0**-52,
    kind="absolute",
    reason="64 entries, each right to a few eps in units of |γ_i|/σ (the function's statement), "
    "here taken as 4",
)


@check(
    WHOLE_NOT_DIRECTIONS,
    kind=Kind.FLOAT,
    planted=Planted("the first unit vector is killed", direction="unit"),
)
def public_jacobian(profile: Profile, *, direction: str = "constant") -> Evidence:
    """Row sums of ``layer_norm_jacobian``, in units of |γ_i|/σ."""
    rng = np.random.default_rng(21)

    def cases() -> Iterator[Case]:
        for width in (1, 2, 3, 8, 64):
            for offset, spread in ((0.0, 1.0), (1e6, 1.0), (0.0, 1e-6), (5.0, 0.0)):
                x = offset + spread * rng.standard_normal(width)
                eps = 1e-5
                unit = 1.0 / np.sqrt(np.var(x) + eps)
                jacobian = layer_norm_jacobian(x, np.ones(width), eps)
                v = np.ones(width) if direction == "constant" else np.eye(width)[0]
                image = float(np.max(np.abs(jacobian @ v))) / unit
                yield Case(image, "==", 0.0, {"d": width, "offset": offset, "spread": spread})

    return judge(
        cases(),
        scope="Gaussian tokens, d = 1, 2, 3, 8, 64, with offsets up to 1e6; ε = 1e-5",
        tolerance=ROUNDING_OF_A_ZERO_SUM,
    )
