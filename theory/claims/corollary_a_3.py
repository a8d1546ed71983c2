"""Corollary A.3: products of sequence-level LayerNorm Jacobians, and its hypothesis on data."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import sympy

from theory.claims import _layernorms as norms
from theory.claims import _matrices as m
from theory.claims._instances import times
from theory.claims._layernorms import Matrix, Token, Vector
from theory.derivations import layernorm as symbolic
from theory.real_layernorm import load_layernorm_record
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
from verify.exact import spectral_norm_at_most

BOUND = Claim(
    id="corollary_a_3",
    paper_ref="Corollary A.3",
    section="A",
    statement="For L >= 1 tokens and m − ℓ >= 0 LayerNorms with σ_k(y_k,i) > 0, and "
    "a_k,i = ‖γ_k‖_∞/σ_k(y_k,i), the spectral norm of the product of the sequence-level Jacobians, "
    "and that of the transposed product, is at most max_i ∏_k a_k,i, which is at most "
    "∏_k max_i a_k,i; if max_i a_k,i <= 1 − η for every k with η in (0, 1), it is at most "
    "(1 − η)^(m−ℓ).",
    uses=("fact_ln_tokenwise", "lemma_a_2_part_iv"),
)
BLOCK_NORMS = Claim(
    id="corollary_a_3_norms",
    paper_ref="Corollary A.3, read beside Section 4.4",
    section="A",
    statement="The spectral norm of a block-diagonal matrix with one d×d block a token, and its "
    "norm induced by block-∞/RMS, are the same number: the largest spectral norm of a block.",
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="Section 4.4 works in the block-∞/RMS norm and the corollary in the spectral norm, "
        "without a word on the change. For block-diagonal matrices the two coincide, so the "
        "corollary holds in both.",
    ),
)
HYPOTHESIS = Claim(
    id="claim_a_3_untested",
    paper_ref="Lemma A.2(iv), last sentence; Corollary A.3; Section 4.4",
    section="A",
    statement="The hypothesis max_i a_k,i <= 1 − η is one on weights and states, and nothing in "
    "the definition of LayerNorm supplies it: for every m >= 1 there is a stack of m LayerNorms of "
    "width 3 with γ = 1 at one token for which every factor is 2 and the LayerNorm-only product "
    "has spectral norm 2^m exactly.",
    uses=("corollary_a_3",),
)
TRAINED = Claim(
    id="claim_a_3_untested_minilm",
    paper_ref="Corollary A.3; Section 4.4, last paragraphs",
    section="A",
    statement="A measurement in float64, norms of products by a floating-point SVD, on the trained "
    "post-LN encoder all-MiniLM-L6-v2 and eight passages of English prose (State of the Union "
    "addresses of 1862, 1905 and 1941; 194 tokens with [CLS] and [SEP]): at the attention "
    "LayerNorm of each of the six layers every token's factor a_k,i is at least 1.5, so that the "
    "hypothesis of Corollary A.3 fails in every layer on every passage; at each feed-forward "
    "LayerNorm some token's factor is at least 1.05. On every passage the bound max_i ∏_k a_k,i "
    "over the twelve LayerNorms is above 200, and the LayerNorm-only product itself has spectral "
    "norm above 3.4.",
    uses=("corollary_a_3",),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="The paper leaves its sufficient condition untested. As measured on this model, which "
        "is none of the paper's, the condition fails in every layer, and its conclusion fails for "
        "the six layers together: for more than half of the stored tokens the LayerNorm-only "
        "product has norm above 1.",
    ),
)


# ------------------------------------------------------------------------------- stacks of states


def random_states(
    rng: random.Random, *, contracting: bool = False
) -> tuple[list[list[Token]], list[Vector]]:
    """For each token its tokens y_k,i under shared modules, and a state V of shape L×d.

    Half the time V is 0 but for the token with the largest product of factors, and there it is
    orthogonal to 1 and every ŷ_k where that is possible, so that the bound is attained for
    constant γ_k.
    """
    width, length, depth = rng.randint(1, 4), rng.randint(1, 3), rng.randint(0, 3)
    flat = rng.random() < 0.6
    columns: list[list[Token]] = [[] for _ in range(length)]
    for _ in range(depth):
        gamma = (norms.random_fraction(rng) or Fraction(1),) * width
        if not flat:
            gamma = norms.random_gamma(rng, width)
        module = norms.random_token(rng, width, gamma=gamma, positive_eps=True)
        layer = [Token(norms.random_token(rng, width).x, gamma, module.eps) for _ in range(length)]
        if contracting:
            layer = contracted(layer)
        for column, token in zip(columns, layer, strict=True):
            column.append(token)
    state = [norms.random_vector(rng, width) for _ in range(length)]
    if rng.random() < 0.5:
        worst = max(range(length), key=lambda i: product_of_factors(columns[i]))
        kept = norms.kept_vector(columns[worst], width)
        if kept is not None:
            state = [(Fraction(0),) * width] * length
            state[worst] = kept
    return columns, state


def contracted(layer: Sequence[Token]) -> list[Token]:
    """The layer with its γ divided by one number, so that every factor is below 1."""
    divisor = Fraction(1)
    while any(token.top_squared >= divisor**2 * token.sigma_squared for token in layer):
        divisor *= 2
    return [Token(t.x, tuple(g / divisor for g in t.gamma), t.eps) for t in layer]


def product_of_factors(column: Sequence[Token]) -> Fraction:
    """∏_k a_k,i² for one token."""
    return math.prod((norms.factor_squared(token) for token in column), start=Fraction(1))


def worst_factor(columns: Sequence[Sequence[Token]], layer: int) -> Fraction:
    """max_i a_k,i² at one layer."""
    return max(norms.factor_squared(column[layer]) for column in columns)


def state_squared(rows: Sequence[Sequence[Fraction]]) -> Fraction:
    """‖V‖_F²."""
    return sum((m.squared(row) for row in rows), Fraction(0))


def transposed_image_squared(column: Sequence[Token], u: Sequence[Fraction]) -> Fraction:
    """‖(∏ J_k)ᵀu‖² for one token."""
    image: Sequence[Fraction] = u
    sigmas = Fraction(1)
    for token in reversed(column):
        image = m.apply(m.transposed(token.sigma_jacobian), image)
        sigmas *= token.sigma_squared
    return m.squared(image) / sigmas


def show(columns: Sequence[Sequence[Token]], state: Sequence[Vector]) -> dict[str, object]:
    """What a failing case shows."""
    return {"tokens": [[t.describe() for t in column] for column in columns], "V": state}


# ---------------------------------------------------------------------------------- the bound


@check(BOUND, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def derived_by_blocks(profile: Profile, *, factor: str = "1") -> Derivation:
    """One block and the rest of the sequence as noncommuting letters; then Lemma A.2(iv)."""
    scale = Fraction(factor) ** 2
    later, earlier, rest_later, rest_earlier = sympy.symbols("B A R_B R_A", commutative=False)
    b_squared, r_squared, x_squared, y_squared = sympy.symbols("b r x y", nonnegative=True)

    def tokenwise(rng: random.Random) -> Case:
        columns, state = random_states(rng)
        pairs = zip(columns, state, strict=True)
        image = sum((norms.product_image_squared(c, v) for c, v in pairs), Fraction(0))
        bound = scale * max(map(product_of_factors, columns)) * state_squared(state)
        return Case(image, "<=", bound, show(columns, state))

    def layerwise(rng: random.Random) -> Case:
        columns, state = random_states(rng)
        depth = len(columns[0])
        bound = math.prod((worst_factor(columns, k) for k in range(depth)), start=scale)
        return Case(max(map(product_of_factors, columns)), "<=", bound, show(columns, state))

    def geometric(rng: random.Random) -> Case:
        columns, state = random_states(rng, contracting=True)
        depth = len(columns[0])
        rate = max((worst_factor(columns, k) for k in range(depth)), default=Fraction(1))
        pairs = zip(columns, state, strict=True)
        image = sum((norms.product_image_squared(c, v) for c, v in pairs), Fraction(0))
        bound = scale * rate**depth * state_squared(state)
        return Case(image, "<=", bound, show(columns, state))

    def transposed(rng: random.Random) -> Case:
        columns, state = random_states(rng)
        pairs = zip(columns, state, strict=True)
        image = sum((transposed_image_squared(c, v) for c, v in pairs), Fraction(0))
        bound = scale * max(map(product_of_factors, columns)) * state_squared(state)
        return Case(image, "<=", bound, show(columns, state))

    return Derivation(
        scope="all L, d >= 1, all m − ℓ >= 0, all states and γ_k, all ε_k >= 0 with σ > 0",
        steps=(
            Identity(
                "a product of block-diagonal matrices is block diagonal, block by block",
                sympy.diag(later, rest_later) * sympy.diag(earlier, rest_earlier),
                sympy.diag(later * earlier, rest_later * rest_earlier),
            ),
            Identity(
                "max(b, r)(x + y) − (bx + ry) for b >= r is (b − r)y",
                b_squared * (x_squared + y_squared)
                - (b_squared * x_squared + r_squared * y_squared),
                (b_squared - r_squared) * y_squared,
            ),
            RuleStep(
                "tokenwise",
                Rule.TERMWISE,
                "‖∏𝒥_k V‖_F <= max_i ∏_k a_k,i ‖V‖_F, by lemma_a_2_part_iv on each token",
                tokenwise,
            ),
            RuleStep(
                "layerwise", Rule.MONOTONICITY, "max_i ∏_k a_k,i <= ∏_k max_i a_k,i", layerwise
            ),
            RuleStep("geometric form", Rule.MONOTONICITY, "at most (1 − η)^(m−ℓ)", geometric),
            RuleStep("transposes", Rule.DUALITY, "‖(∏𝒥_k)ᵀ‖ = ‖∏𝒥_k‖", transposed),
        ),
    )


@check(BOUND, kind=Kind.ENUMERATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def every_small_sequence(profile: Profile, *, factor: str = "1") -> Evidence:
    """The whole (Ld)×(Ld) Gram matrix of two layers against the bound, by an exact LDLᵀ."""
    sizes = profile.pick(((1, 0), (2, 2), (3, 1)), ((1, 0), (2, 3), (3, 2), (4, 1)))

    def cases() -> Iterator[Case]:
        for width, largest in sizes:
            points = [
                norms.fractions((0, *x))
                for x in itertools.combinations_with_replacement(range(largest + 1), width - 1)
            ]
            for gammas in itertools.product(((1,) * width, (2, *(1,) * (width - 1))), repeat=2):
                for states in itertools.product(points, repeat=4):
                    columns = [
                        [
                            Token(states[2 * k + i], norms.fractions(gammas[k]), Fraction(1, 4))
                            for k in range(2)
                        ]
                        for i in range(2)
                    ]
                    yield from sequence_cases(columns, Fraction(factor) ** 2)

    shown = ", ".join(f"d = {width}: entries 0..{largest}" for width, largest in sizes)
    return judge(
        cases(),
        scope=f"two layers, two tokens each, {shown} in order up to a shift; γ_k = 1 or "
        "(2, 1, …); ε = 1/4",
    )


def sequence_cases(columns: Sequence[Sequence[Token]], scale: Fraction) -> Iterator[Case]:
    """Both inequalities, and the first for the transposed product."""
    bound = max(map(product_of_factors, columns))
    instance = show(columns, ())
    for turned in (False, True):
        grams = []
        for column in columns:
            matrix: Matrix = m.identity(column[0].width)
            for token in column:
                matrix = m.product(token.sigma_jacobian, matrix)
            if turned:
                matrix = m.transposed(matrix)
            sigmas = math.prod((t.sigma_squared for t in column), start=Fraction(1))
            gram = m.product(m.transposed(matrix), matrix)
            grams.append(norms.scaled(gram, 1 / sigmas))
        yield norms.gram_at_most(block_diagonal(grams), scale * bound, instance)
    layerwise = math.prod((worst_factor(columns, k) for k in range(2)), start=Fraction(1))
    yield Case(bound, "<=", layerwise, instance)


def block_diagonal(blocks: Sequence[Matrix]) -> Matrix:
    """The block-diagonal matrix with these square blocks."""
    size = sum(len(block) for block in blocks)
    rows = []
    start = 0
    for block in blocks:
        for row in block:
            padded = [Fraction(0)] * size
            padded[start : start + len(row)] = row
            rows.append(tuple(padded))
        start += len(block)
    return tuple(rows)


# ------------------------------------------------------------------- two norms that coincide


def block_of_known_norm(rng: random.Random, width: int) -> tuple[Matrix, Fraction, Vector]:
    """A block M with ‖M‖₂², and x with ‖Mx‖² = ‖M‖₂²‖x‖²: a reflection, then a diagonal."""
    axis = norms.random_vector(rng, width)
    length = m.squared(axis) or Fraction(1)
    reflection = tuple(
        tuple(unit - 2 * a * b / length for unit, b in zip(row, axis, strict=True))
        for a, row in zip(axis, m.identity(width), strict=True)
    )
    entries = norms.random_vector(rng, width)
    top = max(range(width), key=lambda j: abs(entries[j]))
    return norms.scaled_rows(entries, reflection), entries[top] ** 2, reflection[top]


def random_block_case(rng: random.Random) -> tuple[list[Matrix], list[Vector], Fraction]:
    """Blocks, a state, and the largest squared norm of a block, often attained at the state."""
    width, length = rng.randint(1, 4), rng.randint(1, 3)
    known = [block_of_known_norm(rng, width) for _ in range(length)]
    largest = max(square for _, square, _ in known)
    rows = [norms.random_vector(rng, width) for _ in range(length)]
    if rng.random() < 0.5:
        rows = [
            attaining if square == largest else (Fraction(0),) * width
            for _, square, attaining in known
        ]
    return [block for block, _, _ in known], rows, largest


@check(BLOCK_NORMS, kind=Kind.DERIVATION, planted=Planted("the norm is 1% smaller", factor="0.99"))
def derived_row_by_row(profile: Profile, *, factor: str = "1") -> Derivation:
    """Both norms are at most the largest block norm, and a single nonzero row attains it."""
    scale = Fraction(factor) ** 2
    largest, rest, row, other = sympy.symbols("b r x y", nonnegative=True)

    def spectral(rng: random.Random) -> Case:
        blocks, rows, bound = random_block_case(rng)
        image = state_squared([times(b, x) for b, x in zip(blocks, rows, strict=True)])
        return Case(image, "<=", scale * bound * state_squared(rows), {"M": blocks, "X": rows})

    def block_inf(rng: random.Random) -> Case:
        blocks, rows, bound = random_block_case(rng)
        image = max(m.squared(times(b, x)) for b, x in zip(blocks, rows, strict=True))
        most = max(map(m.squared, rows))
        return Case(image, "<=", scale * bound * most, {"M": blocks, "X": rows})

    return Derivation(
        scope="all L, d >= 1, all blocks",
        steps=(
            Identity(
                "b(x + y) − (bx + ry) = (b − r)y: blocks below the largest only lose",
                largest * (row + other) - (largest * row + rest * other),
                (largest - rest) * other,
            ),
            RuleStep(
                "spectral", Rule.TERMWISE, "Σ‖M_i x_i‖² <= max‖M_i‖² Σ‖x_i‖², attained", spectral
            ),
            RuleStep(
                "block-∞", Rule.TERMWISE, "max‖M_i x_i‖ <= max‖M_i‖ max‖x_i‖, attained", block_inf
            ),
        ),
    )


@check(
    BLOCK_NORMS, kind=Kind.ENUMERATION, planted=Planted("the second block is forgotten", blocks=1)
)
def every_pair_of_small_blocks(profile: Profile, *, blocks: int = 2) -> Evidence:
    """‖M‖₂² <= b for the whole matrix exactly when every block's row norm is: two LDLᵀ sizes.

    A row of the block-∞ norm sees one block alone, so the row's norm is the block's spectral norm.
    """
    entries = profile.pick((0, 1), (-1, 0, 1))

    def cases() -> Iterator[Case]:
        every = [
            (norms.fractions(word[:2]), norms.fractions(word[2:]))
            for word in itertools.product(entries, repeat=4)
        ]
        for pair in itertools.product(every, repeat=2):
            whole = block_diagonal(pair)
            for bound in range(5):
                at_most = spectral_norm_at_most(whole, Fraction(bound))
                by_rows = all(spectral_norm_at_most(b, Fraction(bound)) for b in pair[:blocks])
                yield Case(int(at_most), "==", int(by_rows), {"M": pair, "b": bound})

    return judge(cases(), scope=f"two 2×2 blocks with entries in {entries}, b = 0..4")


# --------------------------------------------------------------------------- the hypothesis


@check(HYPOTHESIS, kind=Kind.DERIVATION, planted=Planted("the norm is 1.98^m", factor="1.98"))
def derived_by_an_invariant_direction(profile: Profile, *, factor: str = "2") -> Derivation:
    """A vector orthogonal to 1 and ŷ is doubled by every module, whose Jacobian is LN's own."""
    s = symbolic.layer_norm_vector(3)
    token = doubling_token()
    at = dict(zip([*s.x, *s.gamma, symbolic.eps], [*token.x, *token.gamma, token.eps], strict=True))
    jacobian = s.output.jacobian(s.x).subs(at)
    kept = sympy.Matrix([1, 1, -2])

    def grows(rng: random.Random) -> Case:
        stack, v = [token] * rng.randint(1, 12), norms.fractions((1, 1, -2))
        bound = Fraction(factor) ** (2 * len(stack)) * m.squared(v)
        return Case(norms.product_image_squared(stack, v), "==", bound, {"m": len(stack)})

    return Derivation(
        scope="all m >= 1, at y = (1/4, −1/4, 0), ε = 5/24, γ = 1",
        steps=(
            Identity("‖γ‖_∞/σ = 2", 1 / s.sigma.subs(at), 2),
            Identity("Jv = 2v for v = (1, 1, −2)", jacobian * kept, 2 * kept),
            RuleStep("growth", Rule.INDUCTION, "‖∏J v‖ = 2^m‖v‖, the bound of A.3", grows),
        ),
    )


def doubling_token() -> Token:
    """y = (1/4, −1/4, 0) with γ = 1 and σ = 1/2, so that the factor is 2."""
    x = (Fraction(1, 4), Fraction(-1, 4), Fraction(0))
    return Token(x, norms.fractions((1, 1, 1)), Fraction(1, 4) - Fraction(1, 24))


@check(HYPOTHESIS, kind=Kind.CERTIFICATE, planted=Planted("the norm is 1.98^m", rate="1.98"))
def product_norm_is_two_to_the_m(profile: Profile, *, rate: str = "2") -> Evidence:
    """The spectral norm of the product is 2^m, by two exact LDLᵀ, and each factor is 2."""

    def cases() -> Iterator[Case]:
        token = doubling_token()
        matrix: Matrix = m.identity(3)
        for depth in range(1, profile.pick(12, 36) + 1):
            # σ = 1/2, so J itself is rational.
            matrix = m.product(norms.scaled(token.sigma_jacobian, Fraction(2)), matrix)
            square = Fraction(rate) ** (2 * depth)
            yield m.spectral_at_most(matrix, square, {"m": depth})
            yield m.spectral_at_least(matrix, square, {"m": depth})
            yield Case(norms.factor_squared(token), "==", 4, {"m": depth})

    return judge(cases(), scope=f"m = 1..{profile.pick(12, 36)} equal modules, d = 3, L = 1")


FORWARD_PASS = Tolerance(
    value=1e-6,
    kind="relative",
    reason="the encoder ran in float64, whose forward pass is right to about 1e-12; the stored "
    "figures keep 2% and more from the thresholds",
)


@check(
    TRAINED,
    kind=Kind.FLOAT,
    planted=Planted("every token's factor is at least 1.6", least=1.6),
)
def factors_at_each_layer_norm(profile: Profile, *, least: float = 1.5) -> Evidence:
    """Every stored token's factor at the attention LayerNorms, the largest one at the others."""
    factors = load_layernorm_record().factors

    def cases() -> Iterator[Case]:
        for layer, (attention, feed_forward) in enumerate(factors):
            for token, value in enumerate(attention):
                yield Case(float(value), ">=", least, {"layer": layer, "token": token})
            yield Case(float(feed_forward.max()), ">=", 1.05, {"layer": layer, "token": "worst"})

    return judge(cases(), scope=stored_scope(factors.shape[2]), tolerance=FORWARD_PASS)


@check(
    TRAINED,
    kind=Kind.FLOAT,
    planted=Planted("the product's norm is above 3.5 on every passage", least=3.5),
)
def layer_norm_only_product(profile: Profile, *, least: float = 3.4) -> Evidence:
    """The measured norm of each token's product, and on each passage the largest one."""
    record = load_layernorm_record()
    bounds = record.factors.prod(axis=(0, 1))

    def cases() -> Iterator[Case]:
        for token, (norm, bound) in enumerate(zip(record.product_norm, bounds, strict=True)):
            yield Case(float(norm), "<=", float(bound), {"token": token})
        for index in range(int(record.passage.max()) + 1):
            here = record.passage == index
            where = {"passage": index}
            yield Case(float(bounds[here].max()), ">=", 200.0, where)
            yield Case(float(record.product_norm[here].max()), ">=", least, where)
        expanding = float((record.product_norm > 1.0).mean())
        yield Case(expanding, ">=", 0.5, {"share of tokens": "norm above 1"})

    return judge(cases(), scope=stored_scope(bounds.size), tolerance=FORWARD_PASS)


def stored_scope(tokens: int) -> str:
    """What the stored measurements cover."""
    return f"{tokens} tokens of English prose in all-MiniLM-L6-v2, 12 LayerNorms in 6 layers"
