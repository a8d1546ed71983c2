"""Beyond the paper: RMSNorm's Jacobian and the analogues of Lemmas 2.4, A.1 and A.2.

RMS(x) = γ ⊙ x̂ with x̂ = x/σ, σ² = ‖x‖²/d + ε; D = Diag(γ) and ρ = ε/σ², so that ‖x̂‖² = (1−ρ)d.

Jacobian. ∂σ/∂x_k = x_k/(dσ), so ∂(x_i/σ)/∂x_k = δ_ik/σ − x_i x_k/(dσ³), which is
J = (1/σ)D(I − x̂x̂ᵀ/d).

Magnitude. ‖γ ⊙ x̂‖ <= ‖γ‖_∞‖x̂‖ = ‖γ‖_∞√((1−ρ)d), with equality for constant |γ|, or for x on the
coordinates of the largest |γ_i| alone.

Lipschitz constant. ‖v‖² − ‖(I − x̂x̂ᵀ/d)v‖² = (1+ρ)⟨x̂, v⟩²/d >= 0, so ‖J‖ <= ‖γ‖_∞/σ <= ‖γ‖_∞/√ε
everywhere, and R^d is convex; at x = 0 the Jacobian is D/√ε, whose norm is ‖γ‖_∞/√ε. So the bound
of Lemma A.1 is the exact constant here, whether or not the largest |γ_i| is repeated, d = 1
included: RMSNorm has no mean to remove.

Projection structure and products. J x̂ = (ρ/σ)γ ⊙ x̂, and vectors orthogonal to x̂ are multiplied by
γ/σ. J1 is (1/σ)γ ⊙ (1 − mean(x̂)x̂), which vanishes (for γ without zeros) only if x is constant and
ε = 0. For products submultiplicativity gives ∏‖γ_k‖_∞/σ_k. If γ_k = c_k1 with c_k ≠ 0, the bound is
attained exactly where the x̂_k do not span R^d, so at every depth up to d − 1: one more than for
LayerNorm, where 1 is among the directions lost. The proof is the one in beyond_layernorm, without
the term d·mean(w)².
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _layernorms as norms
from theory.claims import _matrices as m
from theory.claims._instances import times
from theory.claims._layernorms import Token, Vector
from theory.derivations import layernorm as symbolic
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import as_fraction, ball, precision

JACOBIAN = Claim(
    id="beyond_rmsnorm_jacobian",
    paper_ref="beyond Lemma A.1",
    section="beyond",
    statement="For every d >= 1, x and γ in R^d and ε >= 0 with σ² = ‖x‖²/d + ε > 0, the "
    "derivative of RMS(x) = γ ⊙ x/σ is (1/σ)Diag(γ)(I − x̂x̂ᵀ/d) with x̂ = x/σ.",
)
MAGNITUDE = Claim(
    id="beyond_rmsnorm_magnitude",
    paper_ref="beyond Lemma 2.4",
    section="beyond",
    statement="For every d >= 1, x and γ in R^d and ε >= 0 with σ² = ‖x‖²/d + ε > 0, "
    "‖RMS(x)‖_rms <= √(1−ρ)‖γ‖_∞ <= ‖γ‖_∞ with ρ = ε/σ², with equality in the first where |γ_i| is "
    "constant.",
)
LIPSCHITZ = Claim(
    id="beyond_rmsnorm_lipschitz",
    paper_ref="beyond Lemma A.1",
    section="beyond",
    statement="For every d >= 1, x and γ in R^d and ε >= 0 with σ(x) > 0, ‖J_RMS(x)‖₂ <= "
    "‖γ‖_∞/σ(x), and for ε > 0 the Lipschitz constant of RMS on R^d in the Euclidean norm is "
    "‖γ‖_∞/√ε exactly: the norm of the Jacobian at x = 0.",
    uses=("beyond_rmsnorm_jacobian",),
)
PRODUCTS = Claim(
    id="beyond_rmsnorm_products",
    paper_ref="beyond Lemma A.2",
    section="beyond",
    statement="For every d >= 1, x and γ in R^d and ε >= 0 with σ(x) > 0, J_RMS(x)x̂ = (ρ/σ)γ ⊙ x̂, "
    "and J_RMS(x)v = γ ⊙ v/σ for v ⟂ x̂. A product of m − ℓ >= 0 RMSNorm Jacobians has spectral "
    "norm at most ∏ ‖γ_k‖_∞/σ_k; for γ_k = c_k·1 with c_k ≠ 0 and m − ℓ >= 1 it is equal exactly "
    "where the x̂_k do not span R^d, in particular for m − ℓ <= d − 1.",
    uses=("beyond_rmsnorm_jacobian", "beyond_rmsnorm_lipschitz"),
)


# ---------------------------------------------------------------------------------- Jacobian


@check(JACOBIAN, kind=Kind.DERIVATION, planted=Planted("the mean is projected out", mean=1))
def derived_for_all_widths(profile: Profile, *, mean: int = 0) -> Derivation:
    """Differentiate the definition: two coordinates beside a power sum, and along any line."""
    s = symbolic.split_rms_norm()
    d = symbolic.d
    scale = s.gamma_i / s.sigma
    derivative, formula, _ = symbolic.derivative_along(centred=False)
    return Derivation(
        scope="all d >= 1 (entries: all d >= 2, two coordinates at a time), all x, γ and v, all "
        "ε >= 0 with σ > 0",
        steps=(
            Identity(
                "diagonal", sympy.diff(s.output, s.x_i), scale * (1 - mean / d - s.xhat_i**2 / d)
            ),
            Identity(
                "off the diagonal",
                sympy.diff(s.output, s.x_k),
                scale * (-mean / d - s.xhat_i * s.xhat_k / d),
            ),
            Identity("along any line", derivative, formula),
        ),
    )


@check(JACOBIAN, kind=Kind.DERIVATION, planted=Planted("x̂x̂ᵀ is not divided by d", share=1))
def derived_at_fixed_widths(profile: Profile, *, share: int | None = None) -> Derivation:
    """The whole matrix at once for d = 1, 2, 3, 4."""
    steps = []
    for width in (1, 2, 3, 4):
        s = symbolic.rms_norm_vector(width)
        bracket = sympy.eye(width) - s.xhat * s.xhat.T / (share or width)
        expected = sympy.diag(*s.gamma) * bracket / s.sigma
        steps.append(Identity(f"d = {width}", s.output.jacobian(s.x), expected))
    return Derivation(scope="d = 1, 2, 3, 4, all x and γ, ε >= 0, σ > 0", steps=tuple(steps))


@check(JACOBIAN, kind=Kind.ENUMERATION, planted=Planted("the sign of x̂x̂ᵀ is turned", sign=+1))
def quotient_rule_on_small_tokens(profile: Profile, *, sign: int = -1) -> Evidence:
    """Each column against the quotient rule in Fractions, ε = 0 included."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile, centred=False):
            scale = token.width * token.sigma_squared
            for k, basis in enumerate(m.identity(token.width)):
                column = token.sigma_derivative(basis)
                for i, g in enumerate(token.gamma):
                    entry = g * (basis[i] + sign * token.x[i] * token.x[k] / scale)
                    yield Case(column[i], "==", entry, token.describe() | {"entry": (i, k)})

    return judge(cases(), scope=norms.small_scope(profile))


@check(JACOBIAN, kind=Kind.CERTIFICATE, planted=Planted("the error is at most u/8", units="1/8"))
def public_jacobian_within_its_error(profile: Profile, *, units: str = "32") -> Evidence:
    """theory.layernorm's entries against balls: off by at most 32 u |J_ij| with u = 2⁻⁵³.

    About a dozen roundings, and a sum of at most six squares, each within u of the entry.
    """
    from theory.layernorm import rms_norm_jacobian

    rng = random.Random(91)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(40, 1000)):
            token = norms.dyadic_token(rng, rng.randint(1, 6), centred=False)
            computed = rms_norm_jacobian(
                [float(v) for v in token.x], [float(g) for g in token.gamma], float(token.eps)
            )
            sigma = norms.root(token.sigma_squared)
            for i, row in enumerate(token.sigma_jacobian):
                for j, entry in enumerate(row):
                    exact = ball(entry) / sigma
                    allowed = ball(Fraction(units) * norms.UNIT_ROUNDOFF * abs(entry)) / sigma
                    miss = abs(ball(float(computed[i, j])) - exact)
                    # A zero is exact on both sides and leaves no ball to compare.
                    if entry != 0:
                        yield Case(miss, "<=", allowed, token.describe() | {"entry": (i, j)})

    with precision(norms.BITS):
        return judge(cases(), scope="random float tokens of width 1..6, spreads 2⁻²⁰ to 2²⁰")


# --------------------------------------------------------------------------------- magnitude


def image_of_token(token: Token) -> Fraction:
    """‖RMS(x)‖_rms² = Σ γ_i²x_i²/(dσ²)."""
    terms = (g * g * a * a for g, a in zip(token.gamma, token.x, strict=True))
    return sum(terms, Fraction(0)) / (token.width * token.sigma_squared)


@check(MAGNITUDE, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def derived_term_by_term(profile: Profile, *, factor: str = "1") -> Derivation:
    """‖x̂‖² from the definition, then one scale a coordinate."""
    scale = Fraction(factor) ** 2
    _, square, sigma_squared = symbolic.xhat_moments(centred=False)
    d = symbolic.d

    def bounded(rng: random.Random) -> Case:
        token = norms.random_token(rng, centred=False)
        bound = scale * (1 - token.rho) * token.top_squared
        return Case(image_of_token(token), "<=", bound, token.describe())

    def floor(rng: random.Random) -> Case:
        token = norms.random_token(rng, centred=False)
        return Case(token.rho, ">=", 0, token.describe())

    return Derivation(
        scope="all d >= 1, all x and γ, all ε >= 0 with σ > 0",
        steps=(
            Identity("‖x̂‖² = d(1 − ε/σ²)", square, d * (1 - symbolic.eps / sigma_squared)),
            RuleStep("scales", Rule.TERMWISE, "‖γ⊙x̂‖ <= ‖γ‖_∞‖x̂‖, equal for flat γ", bounded),
            RuleStep("ρ >= 0", Rule.SUM_OF_SQUARES, "√(1−ρ) <= 1", floor),
        ),
    )


@check(MAGNITUDE, kind=Kind.ENUMERATION, planted=Planted("√(1−ρ) is 1 − ρ", power=2))
def magnitude_of_small_tokens(profile: Profile, *, power: int = 1) -> Evidence:
    """The bound at every small token, as an equality where |γ_i| is constant."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile, centred=False):
            bound = (1 - token.rho) ** power * token.top_squared
            observed = image_of_token(token)
            if len({abs(g) for g in token.gamma}) == 1:
                yield Case(observed, "==", bound, token.describe())
            else:
                yield Case(observed, "<=", bound, token.describe())

    return judge(cases(), scope=norms.small_scope(profile))


@check(MAGNITUDE, kind=Kind.CERTIFICATE, planted=Planted("the bound is 1% smaller", factor="0.99"))
def public_map_stays_below(profile: Profile, *, factor: str = "1") -> Evidence:
    """theory.layernorm's rms_norm of float tokens: its squared norm, in Fractions, is at most the
    bound times (1 + 8u)², since every entry is right to a few u = 2⁻⁵³.
    """
    from theory.layernorm import rms_norm

    rng = random.Random(92)
    slack = (1 + 8 * norms.UNIT_ROUNDOFF) ** 2

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(100, 3000)):
            token = norms.dyadic_token(rng, rng.randint(1, 8), centred=False)
            if rng.random() < 0.5:
                token = Token(token.x, (token.gamma[0],) * token.width, token.eps, centred=False)
            image = rms_norm(
                [float(v) for v in token.x], [float(g) for g in token.gamma], float(token.eps)
            )
            square = m.squared([as_fraction(v) for v in image]) / token.width
            bound = Fraction(factor) ** 2 * (1 - token.rho) * token.top_squared * slack
            yield Case(square, "<=", bound, token.describe())

    return judge(cases(), scope="random float tokens of width 1..8, spreads 2⁻²⁰ to 2²⁰, ε > 0")


# -------------------------------------------------------------------------- Lipschitz constant


def zero_token(gamma: Vector, eps: Fraction) -> Token:
    """x = 0, where J = D/√ε."""
    return Token((Fraction(0),) * len(gamma), gamma, eps, centred=False)


@check(
    LIPSCHITZ, kind=Kind.DERIVATION, planted=Planted("the constant is 1% smaller", factor="0.99")
)
def derived_by_mean_value(profile: Profile, *, factor: str = "1") -> Derivation:
    """The bracket loses a sum of squares, σ >= √ε, and x = 0 attains."""
    scale = Fraction(factor) ** 2
    d = symbolic.d
    c = symbolic.direction(centred=False)

    def local(rng: random.Random) -> Case:
        token = norms.random_token(rng, centred=False)
        v = norms.random_direction(rng, token)
        bound = scale * token.top_squared * m.squared(v)
        return Case(norms.image_squared(token, v), "<=", bound, token.describe() | {"v": v})

    def pairs(rng: random.Random) -> Case:
        first = norms.random_token(rng, centred=False, positive_eps=True)
        bound = scale * first.top_squared / first.eps
        if rng.random() < 0.5:
            # From 0 a little way along a top coordinate, where the ratio comes near the constant.
            top = max(range(first.width), key=lambda i: abs(first.gamma[i]))
            step = tuple(first.eps * unit / 100 for unit in m.identity(first.width)[top])
            first = Token(step, first.gamma, first.eps, centred=False)
            return norms.lipschitz_case(first, zero_token(first.gamma, first.eps), bound)
        x = norms.random_vector(rng, first.width)
        second = Token(x, first.gamma, first.eps, centred=False)
        return norms.lipschitz_case(first, second, bound)

    def attained(rng: random.Random) -> Case:
        gamma = norms.random_gamma(rng, rng.randint(1, 5))
        token = zero_token(gamma, Fraction(1, rng.randint(1, 9)))
        top = max(range(len(gamma)), key=lambda i: abs(gamma[i]))
        image = norms.image_squared(token, m.identity(len(gamma))[top]) / token.sigma_squared
        return Case(image, "==", scale * token.top_squared / token.eps, token.describe())

    return Derivation(
        scope="all d >= 1, all γ, all ε > 0 (the local bound: all ε >= 0 with σ > 0)",
        steps=(
            Identity(
                "‖v‖² − ‖(I − x̂x̂ᵀ/d)v‖²",
                c.square - c.summed(c.image**2),
                (1 + c.rho) * c.pairing**2 / d,
            ),
            RuleStep("local", Rule.SUM_OF_SQUARES, "‖σJv‖ <= ‖γ‖_∞‖v‖ for every v", local),
            RuleStep("pairs", Rule.MEAN_VALUE, "‖RMS(x) − RMS(y)‖ <= (‖γ‖_∞/√ε)‖x − y‖", pairs),
            RuleStep("attained", Rule.ATTAINMENT, "‖J(0)e_top‖ = ‖γ‖_∞/√ε", attained),
        ),
    )


@check(LIPSCHITZ, kind=Kind.ENUMERATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def norm_on_every_small_token(profile: Profile, *, factor: str = "1") -> Evidence:
    """The whole norm by an exact LDLᵀ against ‖γ‖_∞/σ; x = 0 attains it, at d = 1 too."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile, centred=False):
            bound = Fraction(factor) ** 2 * token.top_squared
            yield m.spectral_at_most(token.sigma_jacobian, bound, token.describe())

    return judge(cases(), scope=norms.small_scope(profile))


@check(
    LIPSCHITZ,
    kind=Kind.CERTIFICATE,
    planted=Planted("the values are 10⁻¹² larger", factor=1 + 1e-12),
)
def public_norm_and_constant_enclosed(profile: Profile, *, factor: float = 1.0) -> Evidence:
    """theory.layernorm's norm and constant f: the exact ones lie within f(1 ± 64du)."""
    from theory.layernorm import rms_norm_jacobian_norm, rms_norm_lipschitz

    rng = random.Random(93)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(40, 1500)):
            token = norms.dyadic_token(rng, rng.randint(1, 8), centred=False)
            gamma = [float(g) for g in token.gamma]
            norm = rms_norm_jacobian_norm([float(v) for v in token.x], gamma, float(token.eps))
            yield from norms.enclosure_cases(token, as_fraction(factor * norm))
            constant = rms_norm_lipschitz(gamma, float(token.eps))
            at_zero = zero_token(token.gamma, token.eps)
            yield from norms.enclosure_cases(at_zero, as_fraction(factor * constant))

    return judge(cases(), scope="random float tokens of width 1..8, spreads 2⁻²⁰ to 2²⁰, ε > 0")


# ---------------------------------------------------------------------------------- products


@check(PRODUCTS, kind=Kind.DERIVATION, planted=Planted("equality at depth d too", depth=0))
def derived_by_dimension_count(profile: Profile, *, depth: int = -1) -> Derivation:
    """As for LayerNorm, with 1 no longer among the lost directions.

    The largest depth tried for equality is d + depth.
    """
    d = symbolic.d
    c = symbolic.direction(centred=False)
    on_xhat = c.image.subs({c.v: c.h, c.pairing: c.summed(c.h**2)})

    def bounded(rng: random.Random) -> Case:
        width = rng.randint(1, 5)
        stack = [norms.random_token(rng, width, centred=False) for _ in range(rng.randint(0, 4))]
        u = norms.random_vector(rng, width)
        bound = m.squared(u)
        for token in stack:
            bound *= norms.factor_squared(token)
        image = norms.product_image_squared(stack, u)
        return Case(image, "<=", bound, norms.show_stack(stack, u))

    def attained(rng: random.Random) -> Case:
        width = rng.randint(2, 5)
        stack = norms.flat_stack(rng, width, width + depth, centred=False)
        u = norms.kept_vector(stack, width)
        if u is None:
            return Case(0, "==", 1, norms.show_stack(stack, ()))
        matrix, bound = norms.stack_product(stack)
        image = m.squared(times(matrix, u))
        return Case(image, "==", bound * m.squared(u), norms.show_stack(stack, u))

    def exactly(rng: random.Random) -> Case:
        width = rng.randint(1, 4)
        stack = norms.flat_stack(rng, width, rng.randint(1, 5), centred=False)
        least = norms.least_pivot_below_bound(stack)
        if norms.kept_vector(stack, width) is None:
            return Case(least, ">", 0, norms.show_stack(stack, ()))
        return Case(least, "==", 0, norms.show_stack(stack, ()))

    return Derivation(
        scope="all d >= 1, all m − ℓ >= 0 (equality: m − ℓ >= 1), all tokens and γ_k, all ε_k >= 0 "
        "with σ_k > 0",
        steps=(
            Identity("(I − x̂x̂ᵀ/d)x̂ = ρx̂", on_xhat, c.rho * c.h),
            Identity("(I − x̂x̂ᵀ/d)v = v for v ⟂ x̂", c.image.subs(c.pairing, 0), c.v),
            Identity(
                "‖w‖² − ‖(I − x̂x̂ᵀ/d)w‖² vanishes only for w ⟂ x̂",
                c.square - c.summed(c.image**2),
                (1 + c.rho) * c.pairing**2 / d,
            ),
            RuleStep("products", Rule.INDUCTION, "‖∏Ju‖ <= ∏(‖γ_k‖_∞/σ_k)‖u‖", bounded),
            RuleStep("depth <= d − 1", Rule.DIMENSION, "some u ⟂ every x̂_k", attained),
            RuleStep(
                "exactly where the x̂_k do not span", Rule.INDUCTION, "norm = or < bound", exactly
            ),
        ),
    )


@check(PRODUCTS, kind=Kind.CERTIFICATE, planted=Planted("equality at depth d", beyond=1))
def attained_up_to_depth_d_minus_1(profile: Profile, *, beyond: int = 0) -> Evidence:
    """Tokens x_k = e_k, which span at depth d and not before."""

    def cases() -> Iterator[Case]:
        for width in range(1, profile.pick(6, 9) + 1):
            for depth in range(1, width + 1):
                stack = [
                    Token(tuple(e), (Fraction(k + 1),) * width, Fraction(1), centred=False)
                    for k, e in enumerate(m.identity(width)[:depth])
                ]
                least = norms.least_pivot_below_bound(stack)
                instance: dict[str, object] = {"d": width, "m − ℓ": depth}
                if depth <= width - 1 + beyond:
                    yield Case(least, "==", 0, instance)
                else:
                    yield Case(least, ">", 0, instance)

    return judge(cases(), scope=f"d = 1..{profile.pick(6, 9)}, depths 1..d, x_k = e_k, ε = 1")
