"""Beyond the paper: LayerNorm's exact Jacobian norm, its exact Lipschitz constant, and equality in
Lemma A.2(iv).

Notation: D = Diag(γ), P = I − 11ᵀ/d, ŝ = x̂/‖x̂‖ (0 where x̂ = 0), ρ = ε/σ², and
g_1 >= g_2 >= … the numbers |γ_i| in order, with g_k = 0 for k > d.

Norm of the Jacobian. x̂ = √(d(1−ρ)) ŝ is orthogonal to 1, so B = P − x̂x̂ᵀ/d = P − (1−ρ)ŝŝᵀ and
B² = P − (1−ρ²)ŝŝᵀ. Hence σ²JJᵀ = DB²D = D² − γγᵀ/d − (1−ρ²)(γ⊙ŝ)(γ⊙ŝ)ᵀ. A diagonal matrix loses
two positive semidefinite terms of rank one. So its largest eigenvalue (σ‖J‖)² is at most g_1²; and
on the three coordinates with the largest |γ_i| some unit vector w is orthogonal to γ and γ⊙ŝ, so it
is at least wᵀD²w >= g_3². (At a constant token one term is gone and the bound is g_2².) By the
matrix determinant lemma the characteristic polynomial of the bracket is
∏(λ−g_i²) · det(I₂ + W UᵀD(λ−D²)⁻¹DU) with U = (1/√d, ŝ) and W = Diag(1, 1−ρ²), which leaves a
secular equation in a 2×2 determinant.

Lipschitz constant. The term with ŝ only lowers the norm and σ² >= ε, so ‖J(x)‖ <= ‖DP‖/√ε at every
x; R^d is convex, so LN is Lipschitz with this constant; and a constant x has ρ = 1, σ = √ε and
J = DP/√ε, so no smaller constant will do. ‖DP‖² is the largest eigenvalue of D² − γγᵀ/d. If
g_1 = g_2, the vector (γ_b, −γ_a) on two top coordinates (or e_a − e_b, if γ = 0) is an eigenvector
with eigenvalue g_1². If g_1 > g_2, wᵀ(D² − γγᵀ/d)w = g_1² for a unit w would need w = ±e_a and
⟨γ, w⟩ = 0, which is γ_a = 0 = g_1 > g_2 >= 0, impossible. The determinant lemma gives
det(λ − D² + γγᵀ/d) = ∏(λ−g_i²)·(1 + (1/d)Σ g_i²/(λ−g_i²)) = (λ/d)·d/dλ ∏(λ−g_i²), so ‖DP‖² is
the largest critical point of ∏(λ−g_i²).

Equality in Lemma A.2(iv). Let γ_k = c_k1 with c_k ≠ 0 and at least one module. If 1 and the ŷ_k do
not span R^d, take u ≠ 0 orthogonal to them all: every module multiplies u by c_k/σ_k, so the bound
is attained. There are m−ℓ+1 of these vectors, so m−ℓ <= d−2 suffices. Conversely let the bound be
attained at u (a unit sphere is compact). Then every module attains ‖J_k w‖ = (|c_k|/σ_k)‖w‖ at the
image w of u so far, and since ‖w‖² − ‖B_k w‖² = d·mean(w)² + (1+ρ_k)⟨ŷ_k, w⟩²/d, w is orthogonal
to 1 and ŷ_k and B_k w = w. So all the images are multiples of u, u is orthogonal to 1 and to every
ŷ_k, and these do not span R^d.
"""

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
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import as_fraction, is_positive_semidefinite

NORM = Claim(
    id="beyond_ln_jacobian_norm",
    paper_ref="beyond Lemma A.1",
    section="beyond",
    statement="For every d >= 1, x and γ in R^d and ε >= 0 with σ(x) > 0, (σ‖J_LN(x)‖₂)² is the "
    "largest eigenvalue of Diag(γ)² − γγᵀ/d − (1−ρ²)(γ⊙ŝ)(γ⊙ŝ)ᵀ, with ρ = ε/σ² and ŝ = x̂/‖x̂‖, "
    "whose characteristic polynomial is ∏(λ−γ_i²) times a 2×2 determinant; so σ‖J_LN(x)‖₂ lies "
    "between the third largest |γ_i| (the second, for constant x) and the largest.",
    uses=("fact_ln_jacobian", "lemma_a_1_step_rank_one"),
)
LIPSCHITZ = Claim(
    id="beyond_ln_lipschitz",
    paper_ref="beyond Lemma A.1",
    section="beyond",
    statement="For every d >= 1, γ and β in R^d and ε > 0, the Lipschitz constant of LN on R^d in "
    "the Euclidean norm is ‖Diag(γ)P‖₂/√ε, the norm of its Jacobian at any constant x; "
    "‖Diag(γ)P‖₂² is the largest critical point of λ -> ∏(λ − γ_i²) (0 for d = 1). For d >= 2 the "
    "constant equals ‖γ‖_∞/√ε exactly where the largest |γ_i| is repeated.",
    uses=("beyond_ln_jacobian_norm", "lemma_a_1_step_local"),
)
EQUALITY = Claim(
    id="beyond_a_2_iv_equality",
    paper_ref="beyond Lemma A.2(iv)",
    section="beyond",
    statement="For γ_k = c_k·1 with c_k ≠ 0, m − ℓ >= 1 and σ_k(y_k) > 0, "
    "‖∏ J_LN,k(y_k)‖₂ = ∏ |c_k|/σ_k(y_k) exactly where 1 and the ŷ_k do not span R^d; in "
    "particular for m − ℓ <= d − 2, while at every depth m − ℓ >= d − 1 there are tokens for which "
    "the norm is smaller.",
    uses=("fact_ln_jacobian", "lemma_a_2_part_iv"),
)


# ------------------------------------------------------------------------ norm of the Jacobian


def ordered_squares(gamma: Sequence[Fraction]) -> list[Fraction]:
    """γ_i² in descending order, with two zeros behind."""
    return [*sorted((g * g for g in gamma), reverse=True), Fraction(0), Fraction(0)]


def closed_form(token: Token, power: int = 2) -> Matrix:
    """D² − γγᵀ/d − (1−ρ^power)(γ⊙ŝ)(γ⊙ŝ)ᵀ."""
    width, gamma, c = token.width, token.gamma, token.numerator
    length = m.squared(c) or Fraction(1)
    weight = 1 - token.rho**power
    return [
        [
            gamma[i]
            * gamma[j]
            * ((1 if i == j else 0) - Fraction(1, width) - weight * c[i] * c[j] / length)
            for j in range(width)
        ]
        for i in range(width)
    ]


@check(NORM, kind=Kind.DERIVATION, planted=Planted("1 − ρ stands for 1 − ρ²", power=1))
def derived_for_all_widths(profile: Profile, *, power: int = 2) -> Derivation:
    """JJᵀ from one row against another, summed over a general number of columns."""
    d = symbolic.d
    c = symbolic.direction()
    h_i, h_k, same = sympy.symbols("h_i h_k delta_ik", real=True)

    def row_product(first: sympy.Expr, second: sympy.Expr) -> sympy.Expr:
        # Σ_j (δ_ij − 1/d − h_i h_j/d)(δ_kj − 1/d − h_k h_j/d): the terms with a δ pick one column.
        smooth_i, smooth_k = (1 + first * c.h) / d, (1 + second * c.h) / d
        picked = same - smooth_k.subs(c.h, first) - smooth_i.subs(c.h, second)
        return picked + c.summed(smooth_i * smooth_k)

    # ŝ_i ŝ_k = h_i h_k/(d(1−ρ)), so both sides times 1−ρ; at constant x (ρ = 1) B is P itself.
    closed = (1 - c.rho) * (same - 1 / d) - (1 - c.rho**power) * h_i * h_k / d
    top, second = sympy.symbols("t_1 t_j", nonnegative=True)
    first, other = sympy.symbols("w_1 w_j", real=True)

    def entries(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        gram = m.product(token.sigma_jacobian, m.transposed(token.sigma_jacobian))
        same_matrix = gram == closed_form(token, power)
        return Case(int(same_matrix), "==", 1, token.describe())

    def secular(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        # No γ_i² of the instances has the denominator 7.
        eigenvalue = Fraction(rng.randint(1, 30) * 7 + 1, 7)
        determinant = shifted_determinant(closed_form(token), eigenvalue)
        expected = secular_polynomial(token, eigenvalue, power)
        return Case(determinant, "==", expected, token.describe() | {"λ": eigenvalue})

    def at_most_first(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        square = ordered_squares(token.gamma)[0]
        return m.spectral_at_most(token.sigma_jacobian, square, token.describe())

    def at_least_third(rng: random.Random) -> Case:
        token = norms.random_token(rng)
        constant = len(set(token.x)) == 1
        square = ordered_squares(token.gamma)[1 if constant else 2]
        return m.spectral_at_least(token.sigma_jacobian, square, token.describe())

    return Derivation(
        scope="all d >= 1, all x and γ, all ε >= 0 with σ > 0",
        steps=(
            Identity(
                "(B²)_ik = δ_ik − 1/d − (1−ρ²)ŝ_iŝ_k",
                sympy.expand((1 - c.rho) * row_product(h_i, h_k)),
                sympy.expand(closed),
            ),
            RuleStep("σ²JJᵀ = DB²D", Rule.LINEARITY, "the bracket, entry by entry", entries),
            RuleStep(
                "secular equation",
                Rule.DETERMINANT_LEMMA,
                "det(λ − σ²JJᵀ) is ∏(λ − γ_i²) times a 2×2 determinant",
                secular,
            ),
            Identity(
                "g_1²‖w‖² − wᵀD²w is a sum of (g_1² − g_j²)w_j²",
                top * (first**2 + other**2) - (top * first**2 + second * other**2),
                (top - second) * other**2,
            ),
            RuleStep("above", Rule.SUM_OF_SQUARES, "σ‖J‖ <= g_1", at_most_first),
            RuleStep(
                "below",
                Rule.DIMENSION,
                "some w on the top three coordinates is orthogonal to γ and γ⊙ŝ: σ‖J‖ >= g_3 (g_2 "
                "at a constant token, where γ⊙ŝ = 0)",
                at_least_third,
            ),
        ),
    )


@check(NORM, kind=Kind.DERIVATION, planted=Planted("the cross term is added", sign=+1))
def secular_determinant_at_fixed_widths(profile: Profile, *, sign: int = -1) -> Derivation:
    """det(λ − D² + aaᵀ + bbᵀ) as poles times a 2×2 determinant, for d = 1..3 and all a, b.

    Here a = Dû with û = 1/√d, and b = √(1−ρ²)Dŝ.
    """
    eigenvalue = sympy.Symbol("lambda", real=True)
    steps = []
    for width in (1, 2, 3):
        t, a, b = (sympy.Matrix(sympy.symbols(f"{x}1:{width + 1}", real=True)) for x in "tab")
        matrix = eigenvalue * sympy.eye(width) - sympy.diag(*t) + a * a.T + b * b.T
        weights = [1 / (eigenvalue - entry) for entry in t]

        def paired(u: sympy.Matrix, v: sympy.Matrix, weights: list = weights) -> sympy.Expr:
            return sum(w * p * q for w, p, q in zip(weights, u, v, strict=True))

        small = (1 + paired(a, a)) * (1 + paired(b, b)) + sign * paired(a, b) ** 2
        poles = sympy.prod([eigenvalue - entry for entry in t])
        steps.append(Identity(f"d = {width}", matrix.det(method="berkowitz"), poles * small))
    return Derivation(scope="d = 1..3, all γ, all a and b", steps=tuple(steps))


@check(NORM, kind=Kind.ENUMERATION, planted=Planted("1 − ρ stands for 1 − ρ²", power=1))
def secular_determinant_on_small_tokens(profile: Profile, *, power: int = 2) -> Evidence:
    """det(λ − σ²JJᵀ) against the 2×2 determinant at d + 1 numbers λ, so for every λ."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile):
            gram = m.product(token.sigma_jacobian, m.transposed(token.sigma_jacobian))
            for eigenvalue in (Fraction(2 * k + 1, 2) for k in range(token.width + 1)):
                determinant = shifted_determinant(gram, eigenvalue)
                secular = secular_polynomial(token, eigenvalue, power)
                yield Case(determinant, "==", secular, token.describe() | {"λ": eigenvalue})

    return judge(cases(), scope=norms.small_scope(profile) + "; λ = 1/2, 3/2, …")


def shifted_determinant(matrix: Matrix, eigenvalue: Fraction) -> Fraction:
    """det(λI − M)."""
    shifted = [
        [(eigenvalue if i == j else Fraction(0)) - entry for j, entry in enumerate(row)]
        for i, row in enumerate(matrix)
    ]
    return norms.determinant(shifted)


def secular_polynomial(token: Token, eigenvalue: Fraction, power: int) -> Fraction:
    """∏(λ − γ_i²) times the 2×2 determinant of the secular equation; λ is no γ_i²."""
    c, length = token.numerator, m.squared(token.numerator) or Fraction(1)
    weights = [g * g / (eigenvalue - g * g) for g in token.gamma]
    ones = sum(weights, Fraction(0)) / token.width
    along = sum((w * v * v for w, v in zip(weights, c, strict=True)), Fraction(0)) / length
    cross = sum((w * v for w, v in zip(weights, c, strict=True)), Fraction(0))
    share = 1 - token.rho**power
    small = (1 + ones) * (1 + share * along) - share * cross**2 / (token.width * length)
    return math.prod((eigenvalue - g * g for g in token.gamma), start=small)


@check(NORM, kind=Kind.ENUMERATION, planted=Planted("1 − ρ stands for 1 − ρ²", power=1))
def every_small_token(profile: Profile, *, power: int = 2) -> Evidence:
    """JJᵀ by the quotient rule against the closed form, and both bounds by an exact LDLᵀ."""

    def cases() -> Iterator[Case]:
        for token in norms.small_tokens(profile):
            # Row k holds the derivative along e_k.
            columns = [token.sigma_derivative(e) for e in m.identity(token.width)]
            gram = m.product(m.transposed(columns), columns)
            yield Case(int(gram == closed_form(token, power)), "==", 1, token.describe())
            squares = ordered_squares(token.gamma)
            yield norms.gram_at_most(gram, squares[0], token.describe())
            floor = squares[1 if len(set(token.x)) == 1 else 2]
            yield m.spectral_at_least(token.sigma_jacobian, floor, token.describe())

    return judge(cases(), scope=norms.small_scope(profile))


@check(NORM, kind=Kind.CERTIFICATE, planted=Planted("the norm is 10⁻¹² larger", factor=1 + 1e-12))
def public_norm_enclosed(profile: Profile, *, factor: float = 1.0) -> Evidence:
    """theory.layernorm's value f: the exact norm lies within f(1 ± 64du), by two exact LDLᵀ.

    Its docstring promises a few eps times d; 64du is under 6·10⁻¹⁴ for d <= 8.
    """
    from theory.layernorm import layer_norm_jacobian_norm

    rng = random.Random(81)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(60, 2000)):
            token = norms.dyadic_token(rng, rng.randint(1, 8))
            value = factor * layer_norm_jacobian_norm(
                [float(v) for v in token.x], [float(g) for g in token.gamma], float(token.eps)
            )
            yield from norms.enclosure_cases(token, as_fraction(value))

    return judge(cases(), scope="random float tokens of width 1..8, spreads 2⁻²⁰ to 2²⁰, ε > 0")


# -------------------------------------------------------------------------- Lipschitz constant


def constant_token(gamma: Vector, eps: Fraction = Fraction(1)) -> Token:
    """The zero token, at which σ² = ε and J = DP/√ε."""
    return Token((Fraction(0),) * len(gamma), gamma, eps)


@check(
    LIPSCHITZ, kind=Kind.DERIVATION, planted=Planted("the constant is 1% smaller", factor="0.99")
)
def derived_by_comparison(profile: Profile, *, factor: str = "1") -> Derivation:
    """The Jacobian at a constant token dominates all others; nothing smaller will do."""
    scale = Fraction(factor) ** 2
    d = symbolic.d
    c = symbolic.direction()
    # For w = Dv: wᵀ(P − (1−ρ²)ŝŝᵀ)w is the squared norm of Bw.
    loss = c.square - d * c.mean**2 - c.summed(c.image**2)
    gamma_a, gamma_b = sympy.symbols("gamma_a gamma_b", real=True)
    top, other_square = sympy.symbols("t_1 t_j", nonnegative=True)
    first, other, pairing = sympy.symbols("w_1 w_j s", real=True)

    def dominated(rng: random.Random) -> Case:
        token = norms.random_token(rng, positive_eps=True)
        at_constant = constant_token(token.gamma, token.eps)
        # (1/ε)D P D − (1/σ²)D B² D is positive semidefinite.
        gap = [
            [a / token.eps - b / token.sigma_squared for a, b in zip(row, other, strict=True)]
            for row, other in zip(closed_form(at_constant), closed_form(token), strict=True)
        ]
        return Case(int(is_positive_semidefinite(gap)), "==", 1, token.describe())

    def pairs(rng: random.Random) -> Case:
        # γ = g e_1, for which ‖DP‖² = g²(1 − 1/d) is below ‖γ‖_∞².
        width = rng.randint(1, 5)
        g, eps = norms.random_fraction(rng) or Fraction(1), Fraction(1, rng.randint(1, 50))
        gamma = (g,) + (Fraction(0),) * (width - 1)
        x, y = (norms.random_vector(rng, width) for _ in range(2))
        if rng.random() < 0.5:
            # Nearly constant tokens, apart along Pe_1, come close to the constant.
            step = [eps * entry / 100 for entry in norms.projector(width)[0]]
            y = (x[0],) * width
            x = tuple(a + b for a, b in zip(y, step, strict=True))
        constant_squared = scale * g**2 * (1 - Fraction(1, width)) / eps
        tokens = (Token(x, gamma, eps), Token(y, gamma, eps))
        return norms.lipschitz_case(*tokens, constant_squared)

    def attained(rng: random.Random) -> Case:
        gamma = norms.random_gamma(rng, rng.randint(1, 5))
        level = (norms.random_fraction(rng),) * len(gamma)
        token = Token(level, gamma, Fraction(1, rng.randint(1, 50)))
        gram = m.product(token.sigma_jacobian, m.transposed(token.sigma_jacobian))
        same = gram == closed_form(constant_token(gamma)) and token.sigma_squared == token.eps
        return Case(int(same), "==", 1, token.describe())

    def repeated_top(rng: random.Random) -> Case:
        width = rng.randint(2, 5)
        top = norms.random_fraction(rng)
        small = [abs(top) * Fraction(rng.randint(-4, 4), 4) for _ in range(width - 2)]
        gamma = (top, rng.choice((top, -top)), *small)
        # (γ_b, −γ_a) on the two top coordinates, for γ = 0 any vector.
        w = (gamma[1], -gamma[0], *(Fraction(0),) * (width - 2))
        image = times(closed_form(constant_token(gamma)), w)
        value = m.dot(w, image)
        return Case(value, "==", top * top * m.squared(w), {"γ": gamma})

    def single_top(rng: random.Random) -> Case:
        width = rng.randint(2, 5)
        small = [Fraction(rng.randint(-9, 9), 10) for _ in range(width - 1)]
        gamma = (Fraction(rng.choice((-1, 1))), *small)
        gap = [
            [(1 if i == j else 0) - entry for j, entry in enumerate(row)]
            for i, row in enumerate(closed_form(constant_token(gamma)))
        ]
        return Case(norms.least_pivot(gap), ">", 0, {"γ": gamma})

    return Derivation(
        scope="all d >= 1 (the two cases: all d >= 2), all γ and β, all ε > 0",
        steps=(
            Identity("‖Pw‖² − ‖Bw‖² = (1+ρ)⟨x̂, w⟩²/d", loss, (1 + c.rho) * c.pairing**2 / d),
            RuleStep(
                "every Jacobian", Rule.SUM_OF_SQUARES, "J(x)J(x)ᵀ <= DPD/ε at every x", dominated
            ),
            RuleStep(
                "upper bound",
                Rule.MEAN_VALUE,
                "‖LN(x) − LN(y)‖ <= (‖DP‖/√ε)‖x − y‖, since R^d is convex",
                pairs,
            ),
            RuleStep(
                "attained", Rule.ATTAINMENT, "JJᵀ = (D² − γγᵀ/d)/ε = DPD/ε at constant x", attained
            ),
            Identity(
                "(D² − γγᵀ/d)(γ_b, −γ_a) = γ_a²(γ_b, −γ_a) where γ_a² = γ_b²",
                gamma_a**2 * gamma_b - gamma_a * (gamma_a * gamma_b - gamma_b * gamma_a) / d,
                gamma_a**2 * gamma_b,
            ),
            Identity(
                "g_1²‖w‖² − wᵀ(D² − γγᵀ/d)w is a sum of (g_1² − g_j²)w_j² and ⟨γ, w⟩²/d",
                top * (first**2 + other**2)
                - (top * first**2 + other_square * other**2 - pairing**2 / d),
                (top - other_square) * other**2 + pairing**2 / d,
            ),
            RuleStep("repeated top", Rule.ATTAINMENT, "then ‖DP‖ = ‖γ‖_∞", repeated_top),
            RuleStep(
                "single top",
                Rule.SUM_OF_SQUARES,
                "then it vanishes only for w = ±e_1 with γ_1 = 0, so ‖DP‖ < ‖γ‖_∞",
                single_top,
            ),
        ),
    )


@check(LIPSCHITZ, kind=Kind.DERIVATION, planted=Planted("critical points of ∏(λ − |γ_i|)", power=1))
def derived_as_critical_points(profile: Profile, *, power: int = 2) -> Derivation:
    """det(λ − DPD) = (λ/d)·d/dλ ∏(λ − γ_i²): by the determinant lemma, and in full for d <= 5."""
    d = symbolic.d
    eigenvalue, t = sympy.symbols("lambda t", real=True)

    def every_width(rng: random.Random) -> Case:
        gamma = norms.random_gamma(rng, rng.randint(1, 6))
        number = Fraction(rng.randint(1, 30) * 7 + 1, 7)
        determinant = shifted_determinant(closed_form(constant_token(gamma)), number)
        roots = [abs(g) ** power for g in gamma]
        derivative = sum(
            (
                math.prod((number - r for j, r in enumerate(roots) if j != i), start=Fraction(1))
                for i in range(len(roots))
            ),
            Fraction(0),
        )
        return Case(determinant, "==", number * derivative / len(gamma), {"γ": gamma, "λ": number})

    steps: list[Identity | RuleStep] = [
        Identity(
            "1 + (1/d)Σ t/(λ − t) = (λ/d)Σ 1/(λ − t), term by term",
            1 / d + t / (d * (eigenvalue - t)),
            eigenvalue / (d * (eigenvalue - t)),
        ),
        RuleStep(
            "every d",
            Rule.DETERMINANT_LEMMA,
            "det(λ − DPD) = ∏(λ − γ_i²)·(1 + (1/d)Σ γ_i²/(λ − γ_i²))",
            every_width,
        ),
    ]
    for width in (1, 2, 3, 4, 5):
        gamma = sympy.symbols(f"gamma1:{width + 1}", nonnegative=True)
        column = sympy.Matrix(gamma)
        gram = sympy.diag(*[g**2 for g in gamma]) - column * column.T / width
        polynomial = (eigenvalue * sympy.eye(width) - gram).det(method="berkowitz")
        poles = sympy.prod([eigenvalue - g**power for g in gamma])
        expected = eigenvalue * sympy.diff(poles, eigenvalue) / width
        steps.append(Identity(f"d = {width}", polynomial, expected))
    return Derivation(scope="all d >= 1, all γ", steps=tuple(steps))


@check(LIPSCHITZ, kind=Kind.ENUMERATION, planted=Planted("d = 1 is no exception", smallest=1))
def top_repeated_or_not(profile: Profile, *, smallest: int = 2) -> Evidence:
    """‖DP‖ = ‖γ‖_∞ exactly where the top repeats, for every small γ, by exact pivots."""
    largest = profile.pick(5, 6)

    def cases() -> Iterator[Case]:
        for width in range(smallest, largest + 1):
            for entries in itertools.combinations_with_replacement(range(3, -1, -1), width):
                gamma = norms.fractions(entries)
                top = entries[0] ** 2
                repeated = width == 1 or entries[0] == entries[1]
                gap = [
                    [(top if i == j else 0) - entry for j, entry in enumerate(row)]
                    for i, row in enumerate(closed_form(constant_token(gamma)))
                ]
                least = norms.least_pivot(gap)
                yield Case(least, "==" if repeated else ">", 0, {"γ": gamma})

    return judge(cases(), scope=f"γ from {{0, 1, 2, 3}} up to order, d = {smallest}..{largest}")


@check(
    LIPSCHITZ,
    kind=Kind.CERTIFICATE,
    planted=Planted("the constant is 10⁻¹² larger", factor=1 + 1e-12),
)
def public_constant_enclosed(profile: Profile, *, factor: float = 1.0) -> Evidence:
    """theory.layernorm's constant f: ‖DP‖²/ε lies within f²(1 ± 64du)², by two exact LDLᵀ."""
    from theory.layernorm import layer_norm_lipschitz

    rng = random.Random(82)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(60, 2000)):
            width = rng.randint(1, 8)
            gamma = tuple(Fraction(rng.randint(-16, 16), 8) for _ in range(width))
            eps = Fraction(2) ** rng.randint(-30, 10)
            value = factor * layer_norm_lipschitz([float(g) for g in gamma], float(eps))
            yield from norms.enclosure_cases(constant_token(gamma, eps), as_fraction(value))

    return judge(
        cases(), scope="random float γ of width 1..8 with ties and zeros, ε a power of two"
    )


# ---------------------------------------------------------------------- equality in A.2(iv)


@check(EQUALITY, kind=Kind.DERIVATION, planted=Planted("equality at depth d − 1 too", depth=-1))
def derived_by_dimension_count(profile: Profile, *, depth: int = -2) -> Derivation:
    """A vector orthogonal to 1 and every ŷ_k is only scaled; a module keeps no other's length.

    The largest depth tried is d + depth.
    """
    d = symbolic.d
    c = symbolic.direction()

    def attained(rng: random.Random) -> Case:
        width = rng.randint(3, 6)
        most = width + depth
        stack = norms.flat_stack(rng, width, rng.randint(max(1, most - 1), most))
        u = norms.kept_vector(stack, width)
        if u is None:
            return Case(0, "==", 1, norms.show_stack(stack, ()))
        matrix, bound = norms.stack_product(stack)
        image = m.squared(times(matrix, u))
        return Case(image, "==", bound * m.squared(u), norms.show_stack(stack, u))

    def strict(rng: random.Random) -> Case:
        width = rng.randint(1, 4)
        stack = norms.flat_stack(rng, width, rng.randint(1, 5))
        least = norms.least_pivot_below_bound(stack)
        if norms.kept_vector(stack, width) is None:
            return Case(least, ">", 0, norms.show_stack(stack, ()))
        return Case(least, "==", 0, norms.show_stack(stack, ()))

    return Derivation(
        scope="all d >= 1, all m − ℓ >= 1, all c_k ≠ 0, all tokens, all ε_k >= 0 with σ_k > 0",
        steps=(
            Identity("Bu = u for u ⟂ 1, ŷ", c.image.subs({c.mean: 0, c.pairing: 0}), c.v),
            Identity(
                "‖w‖² − ‖Bw‖² vanishes only for w ⟂ 1, ŷ",
                c.square - c.summed(c.image**2),
                d * c.mean**2 + (1 + c.rho) * c.pairing**2 / d,
            ),
            RuleStep(
                "depth <= d − 2", Rule.DIMENSION, "m − ℓ + 1 equations leave some u", attained
            ),
            RuleStep(
                "exactly where 1 and the ŷ_k do not span",
                Rule.INDUCTION,
                "norm = bound, or norm < bound, as the span says",
                strict,
            ),
        ),
    )


@check(EQUALITY, kind=Kind.CERTIFICATE, planted=Planted("equality at depth d − 1", beyond=1))
def attained_up_to_depth_d_minus_2(profile: Profile, *, beyond: int = 0) -> Evidence:
    """Independent tokens, the hardest case: equal at depths 1..d−2, below at d−1.

    Tokens y_k = e_k, so that 1 and the ŷ_k are independent and span at depth d − 1.
    """

    def cases() -> Iterator[Case]:
        for width in range(2, profile.pick(7, 10) + 1):
            for depth in range(1, width):
                stack = [unit_token(width, k) for k in range(depth)]
                least = norms.least_pivot_below_bound(stack)
                instance: dict[str, object] = {"d": width, "m − ℓ": depth}
                if depth <= width - 2 + beyond:
                    yield Case(least, "==", 0, instance)
                else:
                    yield Case(least, ">", 0, instance)

    return judge(cases(), scope=f"d = 2..{profile.pick(7, 10)}, depths 1..d−1, y_k = e_k, ε = 1")


def unit_token(width: int, k: int) -> Token:
    """y = e_k with ε = 1 and γ = (k+1)·1."""
    x = tuple(Fraction(int(j == k)) for j in range(width))
    return Token(x, (Fraction(k + 1),) * width, Fraction(1))
