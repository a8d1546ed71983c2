"""Lemma A.1: LayerNorm's Jacobian, its bound ‖γ‖_∞/√ε, and every step of the proof."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _layernorms as norms
from theory.claims import _matrices as m
from theory.claims._instances import times
from theory.derivations import layernorm as symbolic
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import ball, precision

JACOBIAN = Claim(
    id="fact_ln_jacobian",
    paper_ref="Appendix A, proof of Lemma A.1, first two displays",
    section="A",
    statement="For every d >= 1, x and γ in R^d and ε >= 0 with σ(x) > 0, the derivative of "
    "LN(x) = γ ⊙ x̂ + β is J_LN(x) = (1/σ)Diag(γ)(P − x̂x̂ᵀ/d), with P = I − 11ᵀ/d, "
    "x̂ = (x − μ1)/σ and σ² = ‖x − μ1‖²/d + ε.",
)
PROJECTION = Claim(
    id="lemma_a_1_step_projection",
    paper_ref="Appendix A, proof of Lemma A.1",
    section="A",
    statement="P = I − 11ᵀ/d is symmetric and idempotent with P1 = 0, and ‖P‖₂ = 1 for d >= 2.",
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The text gives ‖P‖₂ = 1 for every width; at d = 1 the projection is 0 and so is its "
        "norm. Nothing that follows is affected, since only ‖P‖₂ <= 1 is used.",
    ),
)
RANK_ONE = Claim(
    id="lemma_a_1_step_rank_one",
    paper_ref="Appendix A, proof of Lemma A.1",
    section="A",
    statement="For every d >= 1 and σ(x) > 0, Σ x̂_j = 0 and ‖x̂x̂ᵀ/d‖₂ = ‖x̂‖₂²/d = 1 − ε/σ² <= 1.",
)
EIGENVALUES = Claim(
    id="lemma_a_1_step_eigs",
    paper_ref="Appendix A, proof of Lemma A.1",
    section="A",
    statement="For every d >= 1 and σ(x) > 0, I − x̂x̂ᵀ/d has the eigenvalue 1 with multiplicity "
    "d − 1 (at least) and the eigenvalue 1 − ‖x̂‖₂²/d = ε/σ² >= 0 on x̂.",
    uses=("lemma_a_1_step_rank_one",),
)
SANDWICH = Claim(
    id="lemma_a_1_step_sandwich",
    paper_ref="Appendix A, proof of Lemma A.1",
    section="A",
    statement="For every d >= 1 and σ(x) > 0, P − x̂x̂ᵀ/d = P(I − x̂x̂ᵀ/d)P, and its spectral norm "
    "is at most 1 (equal to 1 for d >= 3).",
    uses=("lemma_a_1_step_projection", "lemma_a_1_step_eigs"),
)
LOCAL = Claim(
    id="lemma_a_1_step_local",
    paper_ref="Appendix A, proof of Lemma A.1, last display",
    section="A",
    statement="For every d >= 1 and σ(x) > 0, ‖J_LN(x)‖₂ <= ‖γ‖_∞/σ(x), and σ(x) >= √ε.",
    uses=("fact_ln_jacobian", "lemma_a_1_step_sandwich"),
)
LIPSCHITZ = Claim(
    id="lemma_a_1",
    paper_ref="Lemma A.1",
    section="A",
    statement="For every d >= 1, γ and β in R^d and ε > 0, the map LN on all of R^d is Lipschitz "
    "in the Euclidean norm (and so in the RMS norm) with a constant of at most ‖γ‖_∞/√ε.",
    uses=("lemma_a_1_step_local",),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="The exact constant is ‖Diag(γ)P‖₂/√ε, the norm of the Jacobian at constant tokens; "
        "for d >= 2 it equals ‖γ‖_∞/√ε exactly when the largest |γ_i| is repeated "
        "(beyond_ln_lipschitz). ε > 0 "
        "is needed: with ε = 0 the local bound ‖γ‖_∞/σ is unbounded and constant tokens have no "
        "image.",
    ),
)

# --------------------------------------------------------------------------------- Jacobian


@check(JACOBIAN, kind=Kind.DERIVATION, planted=Planted("x̂x̂ᵀ is not divided by d", share=1))
def derived_for_all_widths(profile: Profile, *, share: int | None = None) -> Derivation:
    """Differentiate the definition with all but two coordinates collected in power sums."""
    s = symbolic.split_layer_norm()
    d = symbolic.d
    divisor = d if share is None else sympy.Integer(share)

    scale = s.gamma_i / s.sigma
    return Derivation(
        scope="all d >= 2 (two coordinates at a time), all x, γ and β, all ε >= 0 with σ > 0",
        steps=(
            Identity(
                "diagonal",
                sympy.diff(s.output, s.x_i),
                scale * (1 - 1 / d - s.xhat_i**2 / divisor),
            ),
            Identity(
                "off the diagonal",
                sympy.diff(s.output, s.x_k),
                scale * (-1 / d - s.xhat_i * s.xhat_k / divisor),
            ),
        ),
    )


@check(JACOBIAN, kind=Kind.DERIVATION, planted=Planted("σ stands to the power 2", power=2))
def derived_along_every_direction(profile: Profile, *, power: int = 1) -> Derivation:
    """Differentiate along a line x + tv; d = 1 is included."""
    derivative, formula, sigma = symbolic.derivative_along()
    return Derivation(
        scope="all d >= 1, all x, v, γ and β, all ε >= 0 with σ > 0",
        steps=(Identity("Jv", derivative, formula * sigma ** (1 - power)),),
    )


@check(JACOBIAN, kind=Kind.DERIVATION, planted=Planted("the mean is not projected out", mean=0))
def derived_at_fixed_widths(profile: Profile, *, mean: int = 1) -> Derivation:
    """The whole matrix at once."""
    widths = profile.pick((1, 2, 3), (1, 2, 3, 4))
    steps = []
    for width in widths:
        s = symbolic.layer_norm_vector(width)
        projection = sympy.eye(width) - mean * sympy.ones(width, width) / width
        bracket = projection - s.xhat * s.xhat.T / width
        expected = sympy.diag(*s.gamma) * bracket / s.sigma
        steps.append(Identity(f"d = {width}", s.output.jacobian(s.x), expected))
    shown = ", ".join(map(str, widths))
    return Derivation(
        scope=f"d = {shown}, all x, γ and β, all ε >= 0 with σ > 0", steps=tuple(steps)
    )


@check(JACOBIAN, kind=Kind.ENUMERATION, planted=Planted("ε is missing from σ²", with_eps=0))
def quotient_rule_on_small_tokens(profile: Profile, *, with_eps: int = 1) -> Evidence:
    """Each column against the quotient rule in Fractions, ε = 0 included."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile):
            c = token.numerator
            square = m.squared(c) / token.width + with_eps * token.eps
            for k in range(token.width):
                basis = [Fraction(int(j == k)) for j in range(token.width)]
                column = token.sigma_derivative(basis)
                for i, g in enumerate(token.gamma):
                    rank_one = c[i] * c[k] / (token.width * square) if square else Fraction(0)
                    entry = g * (basis[i] - Fraction(1, token.width) - rank_one)
                    yield Case(column[i], "==", entry, token.describe() | {"entry": (i, k)})

    return judge(cases(), scope=norms.small_scope(profile))


@check(JACOBIAN, kind=Kind.CERTIFICATE, planted=Planted("the error is at most u/8", units="1/8"))
def public_jacobian_within_its_error(profile: Profile, *, units: str = "16") -> Evidence:
    """theory.layernorm's entries against balls: off by at most 16 u |γ_i|/σ with u = 2⁻⁵³.

    Each entry is one minus two quotients, with a dozen roundings of numbers of at most 1 in all.
    """
    from theory.layernorm import layer_norm_jacobian

    rng = random.Random(61)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(40, 1000)):
            token = norms.dyadic_token(rng, rng.randint(1, 6))
            computed = layer_norm_jacobian(
                [float(v) for v in token.x], [float(g) for g in token.gamma], float(token.eps)
            )
            sigma = norms.root(token.sigma_squared)
            for i, row in enumerate(token.sigma_jacobian):
                allowed = ball(Fraction(units) * norms.UNIT_ROUNDOFF * abs(token.gamma[i])) / sigma
                for j, entry in enumerate(row):
                    miss = abs(ball(float(computed[i, j])) - ball(entry) / sigma)
                    # A zero row is exact on both sides and leaves no ball to compare.
                    if token.gamma[i] != 0:
                        yield Case(miss, "<=", allowed, token.describe() | {"entry": (i, j)})

    with precision(norms.BITS):
        return judge(cases(), scope="random float tokens of width 1..6, spreads 2⁻²⁰ to 2²⁰")


# ------------------------------------------------------------------------------- proof steps


@check(PROJECTION, kind=Kind.DERIVATION, planted=Planted("the mean is removed twice", times=2))
def derived_from_the_mean(profile: Profile, *, times: int = 1) -> Derivation:
    """P subtracts the mean; sums over a general number of coordinates do the rest."""
    d = symbolic.d
    u, v, mean_u, mean_v = sympy.symbols("u_j v_j m_u m_v", real=True)
    cross, square = sympy.symbols("S V", real=True)
    summed = symbolic.coordinate_sum(
        (u, v),
        {sympy.Integer(1): d, u: d * mean_u, v: d * mean_v, u * v: cross, v**2: square},
    )
    image_u, image_v = u - times * mean_u, v - times * mean_v
    image_mean = summed(image_v) / d

    def no_longer(rng: random.Random) -> Case:
        v = norms.random_vector(rng, rng.randint(1, 6))
        v = norms.centre(v) if rng.random() < 0.5 else v
        return Case(m.squared(norms.centre(v)), "<=", m.squared(v), {"v": v})

    def norm_one(rng: random.Random) -> Case:
        width = rng.randint(2, 6)
        a, b = rng.sample(range(width), 2)
        w = tuple(Fraction((j == a) - (j == b)) for j in range(width))
        image = m.squared(norms.centre(w))
        return Case(image, "==", m.squared(w), {"v": w})

    return Derivation(
        scope="all d >= 1 (the norm: all d >= 2)",
        steps=(
            Identity("symmetric: ⟨u, Pv⟩ = ⟨Pu, v⟩", summed(u * image_v), summed(image_u * v)),
            Identity("idempotent: (PPv)_j = (Pv)_j", image_v - times * image_mean, image_v),
            Identity("P1 = 0", image_v.subs({v: 1, mean_v: 1}), 0),
            Identity("‖Pv‖² = ‖v‖² − d·mean(v)²", summed(image_v**2), square - d * mean_v**2),
            RuleStep(
                "at most 1", Rule.SUM_OF_SQUARES, "‖Pv‖ <= ‖v‖, equal at centred v", no_longer
            ),
            RuleStep("attained", Rule.ATTAINMENT, "‖P(e_a − e_b)‖ = ‖e_a − e_b‖, d >= 2", norm_one),
        ),
    )


@check(PROJECTION, kind=Kind.ENUMERATION, planted=Planted("the norm is 1 at d = 1 too", smallest=1))
def norm_at_small_widths(profile: Profile, *, smallest: int = 2) -> Evidence:
    """The norm is at most and at least 1, by two exact LDLᵀ."""

    def cases() -> Iterator[Case]:
        for width in range(smallest, profile.pick(8, 20) + 1):
            projector = norms.projector(width)
            yield m.spectral_at_most(projector, Fraction(1), {"d": width})
            yield m.spectral_at_least(projector, 1, {"d": width})

    return judge(cases(), scope=f"d = {smallest}..{profile.pick(8, 20)}")


@check(RANK_ONE, kind=Kind.DERIVATION, planted=Planted("ε is added to the variance twice", times=2))
def derived_by_cauchy_schwarz(profile: Profile, *, times: int = 1) -> Derivation:
    """The sums of x̂ from the definitions, then ‖(x̂x̂ᵀ/d)v‖ = |⟨x̂, v⟩|‖x̂‖/d."""
    total, square, sigma_squared = symbolic.xhat_moments()
    d, eps = symbolic.d, symbolic.eps
    c = symbolic.direction()

    def bounded(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        v = norms.random_vector(rng, token.width) if rng.random() < 0.5 else token.numerator
        share = m.dot(token.numerator, v) / (token.width * token.sigma_squared)
        image = share**2 * m.squared(token.numerator)
        bound = (1 - token.eps / token.sigma_squared) ** 2 * m.squared(v)
        return Case(image, "<=", bound, token.describe() | {"v": v})

    def at_most_one(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        square = m.squared(token.numerator) / token.sigma_squared
        return Case(square, "<=", token.width, token.describe())

    return Derivation(
        scope="all d >= 1, all x, all ε >= 0 with σ > 0",
        steps=(
            Identity("Σ x̂_j = 0", total, 0),
            Identity("‖x̂‖² = d(1 − ε/σ²)", square, d * (1 - times * eps / sigma_squared)),
            Identity(
                "‖(x̂x̂ᵀ/d)v‖²",
                c.summed((c.pairing * c.h / d) ** 2),
                c.pairing**2 * (1 - c.rho) / d,
            ),
            RuleStep(
                "the norm", Rule.CAUCHY_SCHWARZ, "‖(x̂x̂ᵀ/d)v‖ <= (1 − ρ)‖v‖, equal at x̂", bounded
            ),
            RuleStep("at most 1", Rule.SUM_OF_SQUARES, "‖x̂‖² <= d, equal where ε = 0", at_most_one),
        ),
    )


@check(RANK_ONE, kind=Kind.ENUMERATION, planted=Planted("the norm is 1% smaller", factor="0.99"))
def norm_on_small_tokens(profile: Profile, *, factor: str = "1") -> Evidence:
    """The norm and its bound 1, attained at ε = 0."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile):
            c, scale = token.numerator, token.width * token.sigma_squared
            matrix = tuple(tuple(a * b / scale for b in c) for a in c)
            bound = (Fraction(factor) * (1 - token.rho)) ** 2
            yield m.spectral_at_most(matrix, bound, token.describe())
            yield Case(1 - token.rho, "<=", 1, token.describe())
            yield Case(token.rho, "==", token.eps / token.sigma_squared, token.describe())

    return judge(cases(), scope=norms.small_scope(profile))


@check(EIGENVALUES, kind=Kind.DERIVATION, planted=Planted("the eigenvalue on x̂ is −ρ", sign=-1))
def derived_by_action(profile: Profile, *, sign: int = 1) -> Derivation:
    """The matrix on x̂ and on what is orthogonal to x̂, and its whole polynomial."""
    d = symbolic.d
    c = symbolic.direction()
    image = c.v - c.pairing * c.h / d
    on_xhat = image.subs({c.v: c.h, c.pairing: c.summed(c.h**2)})
    eigenvalue = sympy.Symbol("lambda")
    beside_one = eigenvalue - 1
    steps: list[Identity | RuleStep] = [
        Identity("(I − x̂x̂ᵀ/d)x̂ = ρx̂", on_xhat, sign * c.rho * c.h),
        Identity("(I − x̂x̂ᵀ/d)v = v for v ⟂ x̂", image.subs(c.pairing, 0), c.v),
        Identity(
            "(λ − 1)(1 + ‖x̂‖²/(d(λ − 1))) = λ − ρ",
            beside_one * (1 + c.summed(c.h**2) / (d * beside_one)),
            eigenvalue - sign * c.rho,
        ),
    ]
    for width in (1, 2, 3, 4):
        xhat = sympy.Matrix(sympy.symbols(f"h1:{width + 1}", real=True))
        matrix = sympy.eye(width) - xhat * xhat.T / width
        rho = 1 - sum(entry**2 for entry in xhat) / sympy.Integer(width)
        expected = beside_one ** (width - 1) * (eigenvalue - sign * rho)
        polynomial = matrix.charpoly(eigenvalue).as_expr()
        steps.append(Identity(f"characteristic polynomial, d = {width}", polynomial, expected))

    def multiplicity(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        number = norms.random_fraction(rng)
        matrix = token_bracket_without_mean(token)
        shifted = [
            [(number if i == j else 0) - entry for j, entry in enumerate(row)]
            for i, row in enumerate(matrix)
        ]
        expected = (number - 1) ** (token.width - 1) * (number - token.rho)
        shown = token.describe() | {"λ": number}
        return Case(norms.determinant(shifted), "==", expected, shown)

    def nonnegative(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        return Case(sign * token.rho, ">=", 0, token.describe())

    return Derivation(
        scope="all d >= 1, all x, all ε >= 0 with σ > 0; by determinant besides at d = 1, 2, 3, 4",
        steps=(
            *steps,
            RuleStep(
                "multiplicity",
                Rule.DETERMINANT_LEMMA,
                "det(λ − (I − x̂x̂ᵀ/d)) = (λ − 1)^(d−1)(λ − ρ)",
                multiplicity,
            ),
            RuleStep("sign", Rule.SUM_OF_SQUARES, "ρ = ε/σ² >= 0", nonnegative),
        ),
    )


@check(EIGENVALUES, kind=Kind.ENUMERATION, planted=Planted("ρ is ε itself", divided=0))
def trace_and_determinant_on_small_tokens(profile: Profile, *, divided: int = 1) -> Evidence:
    """The eigenvalue ε/σ² as the determinant, and d − 1 + ε/σ² as the trace."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile):
            matrix = token_bracket_without_mean(token)
            rho = token.eps / (token.sigma_squared if divided else 1)
            determinant = norms.determinant(matrix)
            trace = sum((matrix[i][i] for i in range(token.width)), Fraction(0))
            yield Case(determinant, "==", rho, token.describe())
            yield Case(trace, "==", token.width - 1 + rho, token.describe())

    return judge(cases(), scope=norms.small_scope(profile))


def token_bracket_without_mean(token: norms.Token) -> norms.Matrix:
    """I − x̂x̂ᵀ/d of a LayerNorm token."""
    c, scale = token.numerator, token.width * token.sigma_squared
    return [
        [(1 if i == j else 0) - a * b / scale for j, b in enumerate(c)] for i, a in enumerate(c)
    ]


@check(SANDWICH, kind=Kind.DERIVATION, planted=Planted("the norm is at most 0.99", factor="0.99"))
def derived_for_every_vector(profile: Profile, *, factor: str = "1") -> Derivation:
    """Apply the three factors in turn, and expand the loss of squared norm as a sum of squares."""
    d = symbolic.d
    c = symbolic.direction()
    centred = c.v - c.mean
    # ⟨x̂, Pv⟩, then (I − x̂x̂ᵀ/d)Pv, then P once more.
    inner = centred - c.summed(c.h * centred) * c.h / d
    outer = inner - c.summed(inner) / d

    def at_most_one(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        v = norms.random_direction(rng, token)
        image = m.squared(times(token.bracket, v))
        bound = Fraction(factor) ** 2 * m.squared(v)
        return Case(image, "<=", bound, token.describe() | {"v": v})

    def equal_to_one(rng: random.Random) -> Case:
        token = norms.random_token(rng, rng.randint(3, 5))
        return m.spectral_at_least(token.bracket, 1, token.describe())

    return Derivation(
        scope="all d >= 1, all x, all ε >= 0 with σ > 0, all v",
        steps=(
            Identity("P(I − x̂x̂ᵀ/d)Pv = (P − x̂x̂ᵀ/d)v", outer, c.image),
            Identity(
                "‖v‖² − ‖(P − x̂x̂ᵀ/d)v‖²",
                c.square - c.summed(c.image**2),
                d * c.mean**2 + (1 + c.rho) * c.pairing**2 / d,
            ),
            RuleStep("norm", Rule.SUM_OF_SQUARES, "‖(P − x̂x̂ᵀ/d)v‖ <= ‖v‖ for every v", at_most_one),
            RuleStep(
                "attained",
                Rule.DIMENSION,
                "for d >= 3 some v is orthogonal to 1 and x̂, so the norm is 1",
                equal_to_one,
            ),
        ),
    )


@check(SANDWICH, kind=Kind.ENUMERATION, planted=Planted("the norm is at most 0.99", factor="0.99"))
def norm_and_factors_on_small_tokens(profile: Profile, *, factor: str = "1") -> Evidence:
    """The factorisation entry by entry, and the norm by an exact LDLᵀ."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile):
            projector = norms.projector(token.width)
            middle = token_bracket_without_mean(token)
            triple = m.product(projector, m.product(middle, projector))
            yield Case(int(triple == token.bracket), "==", 1, token.describe())
            yield m.spectral_at_most(token.bracket, Fraction(factor) ** 2, token.describe())

    return judge(cases(), scope=norms.small_scope(profile))


# --------------------------------------------------------------------------------- the bound


@check(LOCAL, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def derived_by_submultiplicativity(profile: Profile, *, factor: str = "1") -> Derivation:
    """Diag(γ) stretches by at most ‖γ‖_∞, the bracket by at most 1, and 1/σ is a number."""
    scale = Fraction(factor) ** 2
    _, square, sigma_squared = symbolic.xhat_moments()

    def diagonal(rng: random.Random) -> Case:
        gamma = norms.random_gamma(rng, rng.randint(1, 5))
        w = norms.random_vector(rng, len(gamma))
        image = sum((g * g * a * a for g, a in zip(gamma, w, strict=True)), Fraction(0))
        bound = max(g * g for g in gamma) * m.squared(w)
        return Case(image, "<=", bound, {"γ": gamma, "w": w})

    def whole(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        v = norms.random_direction(rng, token)
        bound = scale * token.top_squared * m.squared(v)
        instance = token.describe() | {"v": v}
        return Case(norms.image_squared(token, v), "<=", bound, instance)

    def floor(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        return Case(token.sigma_squared, ">=", token.eps, token.describe())

    return Derivation(
        scope="all d >= 1, all x and γ, all ε >= 0 with σ > 0",
        steps=(
            Identity(
                "σ² − ε = σ²‖x̂‖²/d",
                sigma_squared - symbolic.eps,
                sigma_squared * square / symbolic.d,
            ),
            RuleStep("σ >= √ε", Rule.SUM_OF_SQUARES, "σ² >= ε, equal at constant x", floor),
            RuleStep("γ", Rule.TERMWISE, "‖Diag(γ)w‖ <= ‖γ‖_∞‖w‖", diagonal),
            RuleStep("J", Rule.SUBMULTIPLICATIVITY, "‖σJv‖ <= ‖γ‖_∞‖v‖ for every v", whole),
        ),
    )


@check(LOCAL, kind=Kind.ENUMERATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def norm_on_every_small_token(profile: Profile, *, factor: str = "1") -> Evidence:
    """The whole norm by an exact LDLᵀ; equality occurs at repeated tops."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile):
            bound = Fraction(factor) ** 2 * token.top_squared
            yield m.spectral_at_most(token.sigma_jacobian, bound, token.describe())

    return judge(cases(), scope=norms.small_scope(profile))


@check(
    LIPSCHITZ, kind=Kind.DERIVATION, planted=Planted("the constant is 1% smaller", factor="0.99")
)
def derived_by_mean_value(profile: Profile, *, factor: str = "1") -> Derivation:
    """The speed along a segment is ‖Jv‖, which the local bound and σ >= √ε hold down."""
    scale = Fraction(factor) ** 2
    derivative, formula, _ = symbolic.derivative_along()

    def everywhere(rng: random.Random) -> Case:
        token = norms.random_token(rng, positive_eps=True)
        v = norms.random_direction(rng, token)
        speed = norms.image_squared(token, v) / token.sigma_squared
        bound = scale * paper_constant_squared(token) * m.squared(v)
        return Case(speed, "<=", bound, token.describe() | {"v": v})

    def pairs(rng: random.Random) -> Case:
        first, second = random_pair(rng)
        return norms.lipschitz_case(first, second, scale * paper_constant_squared(first))

    return Derivation(
        scope="all d >= 1, all of R^d, all γ and β, all ε > 0",
        steps=(
            Identity("d/dt LN(x + tv) = J_LN(x)v", derivative, formula),
            RuleStep("speed", Rule.MONOTONICITY, "‖J(x)v‖ <= (‖γ‖_∞/√ε)‖v‖", everywhere),
            RuleStep(
                "pairs",
                Rule.MEAN_VALUE,
                "‖LN(x) − LN(y)‖ <= (‖γ‖_∞/√ε)‖x − y‖",
                pairs,
            ),
        ),
    )


def paper_constant_squared(token: norms.Token) -> Fraction:
    """(‖γ‖_∞/√ε)²."""
    return token.top_squared / token.eps


def random_pair(rng: random.Random) -> tuple[norms.Token, norms.Token]:
    """Two tokens under one module; half the time close together where the bound is nearly met."""
    first = norms.random_token(rng, positive_eps=True)
    if first.width > 1 and rng.random() < 0.5:
        # Nearly constant tokens, apart along two coordinates that share the largest scale.
        gamma = (Fraction(2),) * 2 + norms.fractions([rng.randint(-2, 2)] * (first.width - 2))
        step = Fraction(1, rng.randint(100, 200))
        ends = [
            (sign * step, -sign * step) + (Fraction(0),) * (first.width - 2) for sign in (1, -1)
        ]
        low, high = (norms.Token(x, gamma, Fraction(1)) for x in ends)
        return low, high
    second = norms.random_vector(rng, first.width)
    return first, norms.Token(second, first.gamma, first.eps)


@check(
    LIPSCHITZ, kind=Kind.CERTIFICATE, planted=Planted("the constant is 1% smaller", factor="0.99")
)
def every_pair_of_small_tokens(profile: Profile, *, factor: str = "1") -> Evidence:
    """Differences of LayerNorm itself, no derivative: tokens near a constant one come close."""
    widths = profile.pick((1, 2, 3), (1, 2, 3, 4))
    unit = Fraction(1, 20)
    scale = Fraction(factor) ** 2

    def cases() -> Iterator[Case]:
        for width in widths:
            points = list(itertools.product(range(3), repeat=width))
            for gamma in {(1,) * width, (1, *(0,) * (width - 1)), (-1, 1, *(0,) * width)[:width]}:
                tokens = [
                    norms.Token(tuple(unit * v for v in point), norms.fractions(gamma), Fraction(1))
                    for point in points
                ]
                for first, second in itertools.combinations(tokens, 2):
                    bound = scale * paper_constant_squared(first)
                    yield norms.lipschitz_case(first, second, bound)

    shown = ", ".join(map(str, widths))
    return judge(
        cases(), scope=f"every pair of tokens with entries in {{0, 1, 2}}/20, ε = 1, d = {shown}"
    )
