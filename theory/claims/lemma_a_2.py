"""Lemma A.2: what a LayerNorm Jacobian does to 1, to centred vectors and to ŷ, and products."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _layernorms as norms
from theory.claims import _matrices as m
from theory.claims._instances import times
from theory.claims._layernorms import Token, Vector
from theory.derivations import layernorm as symbolic
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge

ANNIHILATION = Claim(
    id="lemma_a_2_part_i",
    paper_ref="Lemma A.2(i)",
    section="A",
    statement="For every d >= 1, y and γ in R^d and ε >= 0 with σ(y) > 0, J_LN(y)1 = 0.",
    uses=("fact_ln_jacobian",),
)
CENTRED = Claim(
    id="lemma_a_2_part_ii",
    paper_ref="Lemma A.2(ii)",
    section="A",
    statement="For every d >= 1, y and γ in R^d, ε >= 0 with σ(y) > 0, and v in R^d with "
    "Σ v_j = 0, ‖J_LN(y)v‖₂ <= (‖γ‖_∞/σ(y))‖v‖₂; with α = ŷᵀv/d, "
    "‖v − αŷ‖² = ‖v‖² − α²(2d − ‖ŷ‖²), and 2d − ‖ŷ‖² >= d.",
    uses=("fact_ln_jacobian", "lemma_a_1_step_rank_one"),
)
ALONG_TOKEN = Claim(
    id="lemma_a_2_part_iii",
    paper_ref="Lemma A.2(iii)",
    section="A",
    statement="For every d >= 1, y and γ in R^d and ε >= 0 with σ(y) > 0, J_LN(y)ŷ = (ρ/σ)γ ⊙ ŷ "
    "with ρ = 1 − ‖ŷ‖²/d = ε/σ² in [0, 1], so that ‖J_LN(y)ŷ‖₂ <= (‖γ‖_∞/σ)ρ‖ŷ‖₂, with "
    "equality where |γ_j| is constant; ρ < 1 exactly where y is not constant.",
    uses=("fact_ln_jacobian", "lemma_a_1_step_rank_one"),
)
PRODUCT = Claim(
    id="lemma_a_2_part_iv",
    paper_ref="Lemma A.2(iv)",
    section="A",
    statement="For every d >= 1, every sequence of m − ℓ >= 0 LayerNorms with γ_k, ε_k >= 0 and "
    "tokens y_k with σ_k(y_k) > 0, and every u in R^d, "
    "‖∏ J_LN,k(y_k)u‖₂ <= ∏(‖γ_k‖_∞/σ_k(y_k))‖u‖₂; if every factor ‖γ_k‖_∞/σ_k(y_k) is at most "
    "1 − η with η in (0, 1), the right side is at most (1 − η)^(m−ℓ)‖u‖₂.",
    uses=("lemma_a_1_step_local",),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="For constant γ_k = c_k·1 the bound is the operator norm itself as long as 1 and the "
        "ŷ_k do not span R^d, in particular for m − ℓ <= d − 2 (beyond_a_2_iv_equality): the "
        "projection structure by itself gives no decay of the norm. For γ_k that vary over "
        "coordinates the product can be far smaller than the bound.",
    ),
)


# ----------------------------------------------------------------------------------- part (i)


@check(
    ANNIHILATION,
    kind=Kind.DERIVATION,
    planted=Planted("a shift of x_i alone changes nothing", others=0),
)
def derived_from_shift_invariance(profile: Profile, *, others: int = 1) -> Derivation:
    """LN(x + t1) = LN(x) from the definition, with all but two coordinates in power sums.

    The derivative at t = 0 is J1.
    """
    s = symbolic.split_layer_norm()
    t = sympy.Symbol("t", real=True)
    shifted = symbolic.shifted(s, t, others * t)
    c = symbolic.direction()
    row = c.image.subs({c.v: 1, c.mean: 1, c.pairing: c.summed(c.h)})

    def annihilated(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        ones = (Fraction(1),) * token.width
        return Case(norms.image_squared(token, ones), "==", 0, token.describe())

    return Derivation(
        scope="all d >= 1 (the shift: all d >= 2, two coordinates at a time), all y, γ and β, all "
        "ε >= 0 with σ > 0",
        steps=(
            Identity("LN(x + t1) = LN(x)", shifted, s.output),
            Identity("(P − ŷŷᵀ/d)1 = 0", row, 0),
            RuleStep("J1 = 0", Rule.CHAIN_RULE, "the derivative of t -> LN(y + t1)", annihilated),
        ),
    )


@check(ANNIHILATION, kind=Kind.ENUMERATION, planted=Planted("e_1 is annihilated", constant=False))
def every_small_token(profile: Profile, *, constant: bool = True) -> Evidence:
    """J1 = 0 by the quotient rule in Fractions."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile):
            v = [Fraction(int(constant or j == 0)) for j in range(token.width)]
            for entry in token.sigma_derivative(v):
                yield Case(entry, "==", 0, token.describe())

    return judge(cases(), scope=norms.small_scope(profile))


# ---------------------------------------------------------------------------------- part (ii)


@check(CENTRED, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def derived_for_every_centred_vector(profile: Profile, *, factor: str = "1") -> Derivation:
    """The expansion of ‖v − αŷ‖² from sums over a general number of coordinates."""
    d = symbolic.d
    c = symbolic.direction()
    alpha = c.pairing / d
    image = c.image.subs(c.mean, 0)
    xhat_square = c.summed(c.h**2)
    scale = Fraction(factor) ** 2

    def shorter(rng: random.Random) -> Case:
        token, v = random_centred(rng)
        image = m.squared(times(token.bracket, v))
        return Case(image, "<=", scale * m.squared(v), token.describe() | {"v": v})

    def bounded(rng: random.Random) -> Case:
        token, v = random_centred(rng)
        bound = scale * token.top_squared * m.squared(v)
        return Case(norms.image_squared(token, v), "<=", bound, token.describe() | {"v": v})

    return Derivation(
        scope="all d >= 1, all y and γ, all ε >= 0 with σ > 0, all v with Σ v_j = 0",
        steps=(
            Identity("(P − ŷŷᵀ/d)v = v − αŷ for Σ v_j = 0", image, c.v - alpha * c.h),
            Identity(
                "‖v − αŷ‖² = ‖v‖² − α²(2d − ‖ŷ‖²)",
                c.summed((c.v - alpha * c.h) ** 2),
                c.square - alpha**2 * (2 * d - xhat_square),
            ),
            Identity("2d − ‖ŷ‖² = d + dρ", 2 * d - xhat_square, d + d * c.rho),
            RuleStep("‖v − αŷ‖ <= ‖v‖", Rule.SUM_OF_SQUARES, "α²(d + dρ) >= 0", shorter),
            RuleStep("γ and σ", Rule.TERMWISE, "‖σJv‖ <= ‖γ‖_∞‖v‖", bounded),
        ),
    )


def random_centred(rng: random.Random) -> tuple[Token, Vector]:
    """A token and a centred v; often one orthogonal to ŷ, where the bound is attained."""
    token = norms.random_token(rng)
    return token, norms.centre(norms.random_direction(rng, token))


@check(CENTRED, kind=Kind.ENUMERATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def every_small_token_and_vector(profile: Profile, *, factor: str = "1") -> Evidence:
    """Every centred v with entries −1..1 against every small token."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile):
            for entries in itertools.product((-1, 0, 1), repeat=token.width):
                if sum(entries):
                    continue
                v = norms.fractions(entries)
                bound = Fraction(factor) ** 2 * token.top_squared * m.squared(v)
                instance = token.describe() | {"v": v}
                yield Case(norms.image_squared(token, v), "<=", bound, instance)

    return judge(cases(), scope=norms.small_scope(profile) + "; every centred v in {−1, 0, 1}^d")


# --------------------------------------------------------------------------------- part (iii)


@check(ALONG_TOKEN, kind=Kind.DERIVATION, planted=Planted("ρ is 1% smaller", factor="0.99"))
def derived_by_substitution(profile: Profile, *, factor: str = "1") -> Derivation:
    """Put v = ŷ; ρ = ε/σ² from the definitions of σ and ŷ."""
    d = symbolic.d
    c = symbolic.direction()
    total, square, sigma_squared = symbolic.xhat_moments()
    on_xhat = c.image.subs({c.v: c.h, c.mean: total / d, c.pairing: c.summed(c.h**2)})
    scale = sympy.Rational(factor)

    def bounded(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        c_squared = m.squared(token.numerator)
        bound = Fraction(factor) ** 2 * token.top_squared * token.rho**2 * c_squared
        return Case(norms.image_squared(token, token.numerator), "<=", bound, token.describe())

    def strict(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        is_constant = int(len(set(token.x)) == 1)
        return Case(int(token.rho == 1), "==", is_constant, token.describe())

    return Derivation(
        scope="all d >= 1, all y and γ, all ε >= 0 with σ > 0",
        steps=(
            Identity("(P − ŷŷᵀ/d)ŷ = ρŷ", on_xhat, c.rho * c.h),
            Identity("ρ = ε/σ²", 1 - square / d, scale * symbolic.eps / sigma_squared),
            RuleStep("bound", Rule.TERMWISE, "‖σJŷ‖ <= ‖γ‖_∞ρ‖ŷ‖", bounded),
            RuleStep("ρ < 1", Rule.SUM_OF_SQUARES, "ρ = 1 exactly for constant y", strict),
        ),
    )


@check(ALONG_TOKEN, kind=Kind.ENUMERATION, planted=Planted("ρ is 1% smaller", factor="0.99"))
def every_small_token_along_itself(profile: Profile, *, factor: str = "1") -> Evidence:
    """Jŷ entry by entry by the quotient rule, and the norm bound; equal for constant |γ|."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile):
            rho = Fraction(factor) * token.eps / token.sigma_squared
            c = token.numerator
            image = token.sigma_derivative(c)
            for g, a, b in zip(token.gamma, c, image, strict=True):
                yield Case(b, "==", rho * g * a, token.describe())
            bound = token.top_squared * rho**2 * m.squared(c)
            flat = len({abs(g) for g in token.gamma}) == 1
            yield Case(m.squared(image), "==" if flat else "<=", bound, token.describe())

    return judge(cases(), scope=norms.small_scope(profile))


# ---------------------------------------------------------------------------------- part (iv)


@check(PRODUCT, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def derived_by_induction(profile: Profile, *, factor: str = "1") -> Derivation:
    """One factor at a time; a factor loses what the sum of squares says, on all of R^d."""
    d = symbolic.d
    c = symbolic.direction()
    scale = Fraction(factor) ** 2

    def whole_product(rng: random.Random) -> Case:
        stack, u = norms.random_stack(rng)
        bound = scale * m.squared(u)
        for token in stack:
            bound *= norms.factor_squared(token)
        return Case(norms.product_image_squared(stack, u), "<=", bound, norms.show_stack(stack, u))

    def geometric(rng: random.Random) -> Case:
        stack, u = norms.random_stack(rng, contracting=True)
        worst = max((norms.factor_squared(token) for token in stack), default=Fraction(0))
        bound = scale * worst ** len(stack) * m.squared(u)
        return Case(norms.product_image_squared(stack, u), "<=", bound, norms.show_stack(stack, u))

    return Derivation(
        scope="all d >= 1, all m − ℓ >= 0, all y_k and γ_k, all ε_k >= 0 with σ_k > 0, all u",
        steps=(
            Identity(
                "‖u‖² − ‖(P − ŷŷᵀ/d)u‖² on all of R^d",
                c.square - c.summed(c.image**2),
                d * c.mean**2 + (1 + c.rho) * c.pairing**2 / d,
            ),
            RuleStep(
                "product",
                Rule.INDUCTION,
                "‖∏ J_k u‖ <= ∏(‖γ_k‖_∞/σ_k)‖u‖, from one factor to the next",
                whole_product,
            ),
            RuleStep(
                "geometric form",
                Rule.MONOTONICITY,
                "‖∏ J_k u‖ <= (1 − η)^(m−ℓ)‖u‖ where 1 − η is the largest factor, below 1",
                geometric,
            ),
        ),
    )


@check(PRODUCT, kind=Kind.ENUMERATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def every_pair_of_small_modules(profile: Profile, *, factor: str = "1") -> Evidence:
    """The operator norm of every product of two, by an exact LDLᵀ."""
    sizes = profile.pick(((1, 2), (2, 2), (3, 1)), ((1, 3), (2, 2), (3, 1), (4, 1)))

    def cases() -> Iterator[Case]:
        for width, largest in sizes:
            tokens = list(norms.all_tokens(width, largest, (1, 2), (Fraction(0), Fraction(1, 4))))
            for first, second in itertools.product(tokens, repeat=2):
                matrix = m.product(second.sigma_jacobian, first.sigma_jacobian)
                bound = Fraction(factor) ** 2 * first.top_squared * second.top_squared
                yield m.spectral_at_most(matrix, bound, norms.show_stack([first, second], ()))

    shown = ", ".join(f"d = {width}: 0..{largest}" for width, largest in sizes)
    return judge(
        cases(), scope=f"every pair of tokens ({shown}, in order), γ from {{1, 2}}, ε in {{0, 1/4}}"
    )
