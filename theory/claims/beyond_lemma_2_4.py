"""Beyond Lemma 2.4: the bound that every token attains for some γ and β.

Proof. By the triangle inequality ‖γ ⊙ x̂ + β‖ <= ‖γ ⊙ x̂‖ + ‖β‖, and ‖γ ⊙ x̂‖ <= ‖γ‖_∞‖x̂‖ with
‖x̂‖² = d(1 − ρ) exactly; divide by √d. For γ = g1 and β = t x̂ the sum is (g + t)x̂, of norm
g‖x̂‖ + ‖β‖. Since ρ >= 0 and ‖β‖_rms <= ‖β‖_∞, the lemma's bound is never smaller.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _matrices as m
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge

SHARPER = Claim(
    id="beyond_lemma_2_4_sharper",
    paper_ref="sharpens Lemma 2.4",
    section="beyond",
    statement="‖LN(x)‖_rms <= √(1 − ρ) ‖γ‖_∞ + ‖β‖_rms with ρ = ε/σ(x)², for every x with "
    "σ(x) > 0. It never exceeds ‖γ‖_∞ + ‖β‖_∞, and every token x attains it: γ = g1 and β = t x̂ "
    "with g, t >= 0.",
    uses=("lemma_2_4_step_xhat", "lemma_2_4_step_gamma", "lemma_2_4_step_beta"),
)


def _case(token: m.Token, gamma: m.Vector, beta: m.Vector, scale_squared: Fraction) -> Case:
    d = len(token.x)
    return m.root_at_most_sum(
        m.squared(token.layer_norm(gamma, beta)),
        scale_squared * d * (1 - token.rho) * m.sup_norm(gamma) ** 2,
        scale_squared * m.squared(beta),
        {"x": token.x, "σ": token.sigma, "γ": gamma, "β": beta},
    )


@check(SHARPER, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def attained_by_every_token(profile: Profile, *, factor: str = "1") -> Derivation:
    """The triangle inequality with the exact ‖x̂‖, and the parameters that make it an equality."""
    scale_squared = Fraction(factor) ** 2
    n = sympy.Symbol("n", integer=True, positive=True)
    j = sympy.Symbol("j", integer=True)
    g, t = sympy.symbols("g t", nonnegative=True)
    norm = sympy.Symbol("h", nonnegative=True)
    xhat = sympy.IndexedBase("x", real=True)
    square = sympy.Sum(xhat[j] ** 2, (j, 1, n))

    def bound(rng: random.Random) -> Case:
        token = m.random_token(rng)
        gamma, beta = m.random_matrix(rng, 2, len(token.x))
        return _case(token, gamma, beta, scale_squared)

    def attained(rng: random.Random) -> Case:
        # The bound is then √(1 − ρ)(g + t), as ‖x̂‖² = d(1 − ρ).
        token = m.random_token(rng)
        gain, pull = rng.randint(0, 5), rng.randint(0, 5)
        beta = [pull * entry for entry in token.xhat]
        mean_square = Fraction(m.squared(token.layer_norm([gain] * len(beta), beta))) / len(beta)
        instance = {"x": token.x, "g": gain, "t": pull}
        return Case(mean_square, "==", (1 - token.rho) * (gain + pull) ** 2, instance)

    def below_the_lemma(rng: random.Random) -> Case:
        token = m.random_token(rng)
        beta = m.random_matrix(rng, 1, len(token.x))[0]
        excess = Fraction(m.squared(beta)) / len(beta) - m.sup_norm(beta) ** 2
        return Case(max(-token.rho, excess), "<=", 0, {"x": token.x, "β": beta})

    return Derivation(
        scope="all d, all x, γ, β, all ε >= 0 with σ > 0",
        steps=(
            RuleStep("bound", Rule.TRIANGLE_INEQUALITY, "√(1 − ρ)‖γ‖_∞ + ‖β‖_rms suffices", bound),
            # With h² = ‖x̂‖²: γ = g1 and β = t x̂ give ‖γ ⊙ x̂ + β‖² = (g h + t h)².
            Identity(
                "equality",
                sympy.Sum((g * xhat[j] + t * xhat[j]) ** 2, (j, 1, n)),
                sympy.expand((g * norm + t * norm) ** 2).subs(norm**2, square),
            ),
            RuleStep("every token", Rule.ATTAINMENT, "γ = g1, β = t x̂", attained),
            RuleStep(
                "not above the lemma",
                Rule.TERMWISE,
                "√(1 − ρ) <= 1 and ‖β‖_rms <= ‖β‖_∞",
                below_the_lemma,
            ),
        ),
    )


@check(SHARPER, kind=Kind.ENUMERATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def every_small_integer_case(profile: Profile, *, factor: str = "1") -> Evidence:
    """Roots compared by squares alone; integer tokens, γ and β, two rational σ each."""
    scale_squared = Fraction(factor) ** 2
    sizes = profile.pick(
        ((1, 2, (-1, 0, 2)), (2, 2, (-2, 0, 1)), (3, 1, (-1, 1))),
        ((1, 4, (-1, 0, 2)), (2, 3, (-2, 0, 1, 3)), (3, 2, (-1, 0, 2)), (4, 1, (-1, 2))),
    )

    def cases() -> Iterator[Case]:
        for width, largest, values in sizes:
            parameters = list(itertools.product(values, repeat=width))
            for x in itertools.product(range(-largest, largest + 1), repeat=width):
                for more in (0, 1):
                    token = m.token(x, m.smallest_sigma(x) + more)
                    for gamma, beta in itertools.product(parameters, repeat=2):
                        yield _case(token, gamma, beta, scale_squared)

    shown = "; ".join(f"d = {w}: |x_j| <= {b}, γ_j, β_j in {v}" for w, b, v in sizes)
    return judge(cases(), scope=f"every integer case, {shown}; two rational σ each")
