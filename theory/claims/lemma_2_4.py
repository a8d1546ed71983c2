"""Lemma 2.4: LayerNorm resets the magnitude of a token, with its proof's steps."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.claims import _matrices as m
from theory.derivations import layernorm as symbolic
from theory.layernorm import layer_norm
from theory.norms import rms
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
from verify.exact import as_fraction

STEP_XHAT = Claim(
    id="lemma_2_4_step_xhat",
    paper_ref="Appendix A, proof of Lemma 2.4, normalised vector",
    section="A",
    statement="For σ > 0, ‖x̂‖₂² = d(σ² − ε)/σ² = d(1 − ρ) <= d with ρ = ε/σ²; equality if and "
    "only if ε = 0.",
)
STEP_GAMMA = Claim(
    id="lemma_2_4_step_gamma",
    paper_ref="Appendix A, proof of Lemma 2.4, scale",
    section="A",
    statement="‖γ ⊙ v‖₂ <= ‖γ‖_∞ ‖v‖₂ for all γ, v in R^d, with equality if and only if |γ_j| is "
    "largest wherever v_j is not 0.",
)
STEP_BETA = Claim(
    id="lemma_2_4_step_beta",
    paper_ref="Appendix A, proof of Lemma 2.4, shift",
    section="A",
    statement="‖β‖₂ <= √d ‖β‖_∞ for every β in R^d, with equality if and only if all |β_j| are "
    "equal.",
)
LEMMA = Claim(
    id="lemma_2_4",
    paper_ref="Lemma 2.4",
    section="2",
    statement="‖LN(x)‖_rms <= ‖γ‖_∞ + ‖β‖_∞ for every width d, γ, β and x with σ(x) > 0, that is, "
    "for ε > 0 or x not constant. Attained: ε = 0, x = μ ± s with as many of each sign, |γ_j| "
    "constant and β_j of constant size and the sign of γ_j x̂_j.",
    uses=("lemma_2_4_step_xhat", "lemma_2_4_step_gamma", "lemma_2_4_step_beta", "definition_2_2"),
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The lemma speaks of every x, which needs σ(x) > 0: ε > 0, or x not constant. "
        "Section 2 leaves σ undefined; the proof puts ε under the root, and Lemma A.1 is the first "
        "to say that ε > 0. With ε > 0 a constant token gives LN(x) = β, and so does every token "
        "of width 1. A sharper form is beyond_lemma_2_4_sharper.",
    ),
)


# ----------------------------------------------------------------------------------- steps


@check(STEP_XHAT, kind=Kind.DERIVATION, planted=Planted("ε enters with the wrong sign", sign=+1))
def from_the_definition(profile: Profile, *, sign: int = -1) -> Derivation:
    """The power sums of x give σ² and Σ x̂_j², at every width d >= 1."""
    _, square, sigma_squared = symbolic.xhat_moments()
    d, eps = symbolic.d, symbolic.eps

    def formula(rng: random.Random) -> Case:
        token = m.random_token(rng)
        share = 1 + sign * token.rho
        return Case(m.squared(token.xhat), "==", len(token.x) * share, {"x": token.x})

    def at_most_d(rng: random.Random) -> Case:
        token = m.random_token(rng)
        return Case(m.squared(token.xhat), "<=", len(token.x), {"x": token.x})

    def equality(rng: random.Random) -> Case:
        token = m.random_token(rng)
        attained = m.squared(token.xhat) == len(token.x)
        return Case(int(attained), "==", int(token.eps == 0), {"x": token.x, "ε": token.eps})

    return Derivation(
        scope="all d, all x, all ε >= 0 with σ > 0",
        steps=(
            # Rational in ε, so that ε = 0 is no exception where σ > 0.
            Identity("‖x̂‖²", square, d * (sigma_squared + sign * eps) / sigma_squared),
            RuleStep("in terms of ρ", Rule.DEFINITION, "‖x̂‖² = d(1 − ρ), ρ = ε/σ²", formula),
            RuleStep("at most d", Rule.MONOTONICITY, "ρ >= 0", at_most_d),
            RuleStep("equality", Rule.CASE_SPLIT, "ρ = 0 iff ε = 0", equality),
        ),
    )


@check(STEP_XHAT, kind=Kind.ENUMERATION, planted=Planted("equality for every ε", strict=False))
def every_small_token(profile: Profile, *, strict: bool = True) -> Evidence:
    """Integer tokens with the smallest integer σ and the next, so that ε = 0 occurs."""
    sizes = profile.pick(((1, 4), (2, 5), (3, 3), (4, 2)), ((2, 20), (3, 8), (4, 4), (5, 2)))

    def cases() -> Iterator[Case]:
        for width, largest in sizes:
            for x in itertools.product(range(-largest, largest + 1), repeat=width):
                for more in (0, 1):
                    token = m.token(x, m.smallest_sigma(x) + more)
                    square, instance = m.squared(token.xhat), {"x": x, "σ": token.sigma}
                    if strict and token.eps > 0:
                        yield Case(square, "<", width, instance)
                    else:
                        yield Case(square, "==", width, instance)
                    sigma_squared = Fraction(token.sigma) ** 2
                    exact_value = width * (sigma_squared - token.eps) / sigma_squared
                    yield Case(square, "==", exact_value, instance)

    shown = ", ".join(f"d = {width}: |x_j| <= {largest}" for width, largest in sizes)
    return judge(cases(), scope=f"every integer token, {shown}; two rational σ each")


@check(
    STEP_GAMMA,
    kind=Kind.DERIVATION,
    planted=Planted("the smallest |γ_j| in place of the largest", largest=False),
)
def sum_of_weighted_gaps(profile: Profile, *, largest: bool = True) -> Derivation:
    """‖γ‖_∞²‖v‖² − ‖γ ⊙ v‖² = Σ (‖γ‖_∞² − γ_j²) v_j²."""
    n = sympy.Symbol("n", integer=True, positive=True)
    j = sympy.Symbol("j", integer=True)
    top = sympy.Symbol("G", nonnegative=True)
    gamma, v = sympy.IndexedBase("g", real=True), sympy.IndexedBase("v", real=True)
    square = sympy.Sum(v[j] ** 2, (j, 1, n))

    def draw(rng: random.Random) -> tuple[m.Vector, m.Vector, m.Exact]:
        width = rng.randint(1, 5)
        g, values = m.random_matrix(rng, 2, width)
        if rng.random() < 0.3:
            g = [rng.choice((-3, 3)) for _ in values]
        sizes = m.sizes(g)
        return g, values, max(sizes) if largest else min(sizes)

    def bound(rng: random.Random) -> Case:
        g, values, extreme = draw(rng)
        image = sum(a * a * b * b for a, b in zip(g, values, strict=True))
        return Case(image, "<=", extreme**2 * m.squared(values), {"γ": g, "v": values})

    def equality(rng: random.Random) -> Case:
        g, values, extreme = draw(rng)
        image = sum(a * a * b * b for a, b in zip(g, values, strict=True))
        attained = image == extreme**2 * m.squared(values)
        flat = all(abs(a) == extreme for a, b in zip(g, values, strict=True) if b)
        return Case(int(attained), "==", int(flat), {"γ": g, "v": values})

    return Derivation(
        scope="all d, all γ and v",
        steps=(
            Identity(
                "the gap",
                top**2 * square - sympy.Sum((gamma[j] * v[j]) ** 2, (j, 1, n)),
                sympy.Sum((top**2 - gamma[j] ** 2) * v[j] ** 2, (j, 1, n)),
            ),
            RuleStep("bound", Rule.TERMWISE, "every term of the gap is >= 0", bound),
            RuleStep("equality", Rule.CASE_SPLIT, "every term of the gap is 0", equality),
        ),
    )


@check(
    STEP_GAMMA,
    kind=Kind.ENUMERATION,
    planted=Planted("the smallest |γ_j| in place of the largest", largest=False),
)
def every_small_scale(profile: Profile, *, largest: bool = True) -> Evidence:
    """Every integer pair γ, v."""
    sizes = ((1, 3), (2, profile.pick(2, 4)), (3, profile.pick(1, 2)))

    def cases() -> Iterator[Case]:
        for width, top in sizes:
            vectors = list(itertools.product(range(-top, top + 1), repeat=width))
            for gamma, v in itertools.product(vectors, repeat=2):
                sizes_of_gamma = [abs(entry) for entry in gamma]
                extreme = max(sizes_of_gamma) if largest else min(sizes_of_gamma)
                image = sum((a * b) ** 2 for a, b in zip(gamma, v, strict=True))
                yield Case(image, "<=", extreme**2 * m.squared(v), {"γ": gamma, "v": v})

    shown = ", ".join(f"d = {width}: entries <= {top}" for width, top in sizes)
    return judge(cases(), scope=f"every integer γ and v, {shown}")


@check(STEP_BETA, kind=Kind.DERIVATION, planted=Planted("√(d − 1) in place of √d", fewer=1))
def sum_of_gaps(profile: Profile, *, fewer: int = 0) -> Derivation:
    """d‖β‖_∞² − ‖β‖² = Σ (‖β‖_∞² − β_j²)."""
    d = sympy.Symbol("d", integer=True, positive=True)
    j = sympy.Symbol("j", integer=True)
    top = sympy.Symbol("B", nonnegative=True)
    beta = sympy.IndexedBase("b", real=True)

    def draw(rng: random.Random) -> m.Vector:
        shift = m.random_matrix(rng, 1, rng.randint(1, 5))[0]
        if rng.random() < 0.3:
            return [rng.choice((-1, 1)) * shift[0] for _ in shift]
        return shift

    def bound(rng: random.Random) -> Case:
        shift = draw(rng)
        bound = (len(shift) - fewer) * m.sup_norm(shift) ** 2
        return Case(m.squared(shift), "<=", bound, {"β": shift})

    def equality(rng: random.Random) -> Case:
        shift = draw(rng)
        sizes = set(m.sizes(shift))
        attained = m.squared(shift) == len(shift) * max(sizes) ** 2
        return Case(int(attained), "==", int(len(sizes) == 1), {"β": shift})

    return Derivation(
        scope="all d, all β",
        steps=(
            Identity(
                "the gap",
                (d - fewer) * top**2 - sympy.Sum(beta[j] ** 2, (j, 1, d)),
                sympy.Sum(top**2 - beta[j] ** 2, (j, 1, d)),
            ),
            RuleStep("bound", Rule.TERMWISE, "every term of the gap is >= 0", bound),
            RuleStep("equality", Rule.CASE_SPLIT, "every term of the gap is 0", equality),
        ),
    )


@check(STEP_BETA, kind=Kind.ENUMERATION, planted=Planted("√(d − 1) in place of √d", fewer=1))
def every_small_shift(profile: Profile, *, fewer: int = 0) -> Evidence:
    """Every integer β, with the equality case."""
    sizes = ((1, 9), (2, 9), (3, profile.pick(4, 9)), (4, profile.pick(2, 4)))

    def cases() -> Iterator[Case]:
        for width, top in sizes:
            for beta in itertools.product(range(-top, top + 1), repeat=width):
                sup, square = max(abs(entry) for entry in beta), m.squared(beta)
                yield Case(square, "<=", (width - fewer) * sup**2, {"β": beta})
                is_flat = all(abs(entry) == sup for entry in beta)
                yield Case(int(square == width * sup**2), "==", int(is_flat), {"β": beta})

    shown = ", ".join(f"d = {width}: |β_j| <= {top}" for width, top in sizes)
    return judge(cases(), scope=f"every integer β, {shown}")


# ----------------------------------------------------------------------------------- lemma


def _equality_case(rng: random.Random) -> tuple[m.Token, m.Vector, m.Vector]:
    """ε = 0, a balanced token, |γ_j| constant, β_j of constant size and the sign of γ_j x̂_j."""
    token = m.balanced_token(rng)
    while token.eps:
        token = m.balanced_token(rng)
    size, shift = rng.randint(0, 3), rng.randint(0, 3)
    gamma = [rng.choice((-size, size)) for _ in token.x]
    beta = [shift if g * h > 0 else -shift for g, h in zip(gamma, token.xhat, strict=True)]
    return token, gamma, beta


def _with_parameters(rng: random.Random) -> tuple[m.Token, m.Vector, m.Vector]:
    """A token with γ and β; the lemma's equality case is frequent."""
    if rng.random() < 0.3:
        return _equality_case(rng)
    token = m.random_token(rng)
    gamma, beta = m.random_matrix(rng, 2, len(token.x))
    return token, gamma, beta


@check(LEMMA, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def three_gaps(profile: Profile, *, factor: str = "1") -> Derivation:
    """d(G + B)² − ‖γ ⊙ x̂ + β‖² is a sum of three gaps, one for each step."""
    scale_squared = Fraction(factor) ** 2
    d, top, shift = sympy.symbols("d G B", nonnegative=True)
    scaled, beta_squared, inner = sympy.symbols("gg bb c", real=True)

    def inner_product(rng: random.Random) -> Case:
        token, gamma, beta = _with_parameters(rng)
        scaled_token = [g * h for g, h in zip(gamma, token.xhat, strict=True)]
        bound = len(beta) * m.sup_norm(gamma) * m.sup_norm(beta)
        return Case(m.dot(scaled_token, beta), "<=", bound, {"x": token.x, "γ": gamma, "β": beta})

    def lemma(rng: random.Random) -> Case:
        token, gamma, beta = _with_parameters(rng)
        mean_square = Fraction(m.squared(token.layer_norm(gamma, beta))) / len(beta)
        bound = scale_squared * (m.sup_norm(gamma) + m.sup_norm(beta)) ** 2
        instance = {"x": token.x, "σ": token.sigma, "γ": gamma, "β": beta}
        return Case(mean_square, "<=", bound, instance)

    def attained(rng: random.Random) -> Case:
        token, gamma, beta = _equality_case(rng)
        mean_square = Fraction(m.squared(token.layer_norm(gamma, beta))) / len(beta)
        bound = (m.sup_norm(gamma) + m.sup_norm(beta)) ** 2
        return Case(mean_square, "==", bound, {"x": token.x, "γ": gamma, "β": beta})

    return Derivation(
        scope="all d, all x, γ, β, all ε >= 0 with σ > 0",
        steps=(
            Identity(
                "three gaps",
                d * (top + shift) ** 2 - (scaled + 2 * inner + beta_squared),
                (d * top**2 - scaled)
                + (d * shift**2 - beta_squared)
                + 2 * (d * top * shift - inner),
            ),
            RuleStep(
                "third gap",
                Rule.CAUCHY_SCHWARZ,
                "⟨γ ⊙ x̂, β⟩ <= ‖γ ⊙ x̂‖‖β‖ <= √d G √d B; the other two gaps are the steps' own",
                inner_product,
            ),
            RuleStep("no gap is negative", Rule.TERMWISE, "‖LN(x)‖_rms <= G + B", lemma),
            RuleStep("equality", Rule.ATTAINMENT, "ε = 0, x = μ ± s, γ_j x̂_j β_j >= 0", attained),
        ),
    )


@check(LEMMA, kind=Kind.ENUMERATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def every_small_integer_case(profile: Profile, *, factor: str = "1") -> Evidence:
    """Integer tokens, γ and β (zeros included), at the smallest integer σ; ε = 0 occurs."""
    scale_squared = Fraction(factor) ** 2
    # (width, largest |x_j|, values of γ and β)
    sizes = profile.pick(
        ((1, 2, (-1, 0, 2)), (2, 2, (-2, 0, 1)), (3, 1, (-1, 1))),
        ((1, 4, (-1, 0, 2)), (2, 4, (-2, 0, 1, 3)), (3, 2, (-1, 0, 2)), (4, 1, (-1, 2))),
    )

    def cases() -> Iterator[Case]:
        for width, largest, values in sizes:
            parameters = list(itertools.product(values, repeat=width))
            for x in itertools.product(range(-largest, largest + 1), repeat=width):
                token = m.token(x, m.smallest_sigma(x))
                for gamma, beta in itertools.product(parameters, repeat=2):
                    image = m.squared(token.layer_norm(gamma, beta))
                    bound = scale_squared * width * (m.sup_norm(gamma) + m.sup_norm(beta)) ** 2
                    instance = {"x": x, "σ": token.sigma, "γ": gamma, "β": beta}
                    yield Case(image, "<=", bound, instance)

    shown = "; ".join(f"d = {w}: |x_j| <= {b}, γ_j, β_j in {v}" for w, b, v in sizes)
    return judge(cases(), scope=f"every integer case, {shown}; σ the smallest integer")


def _raises(x: np.ndarray, eps: float) -> bool:
    try:
        layer_norm(x, np.ones(len(x)), np.zeros(len(x)), eps)
    except ValueError:
        return True
    return False


@check(
    LEMMA,
    kind=Kind.CERTIFICATE,
    planted=Planted("a token that is constant but for one last bit also gives β", bits=1),
)
def constant_tokens(profile: Profile, *, bits: int = 0) -> Evidence:
    """``layer_norm`` gives β exactly with ε > 0 (always at width 1) and refuses ε = 0."""
    beta_of = {1: [0.3], 2: [-0.5, 0.7], 7: [0.1 * k for k in range(7)]}

    def cases() -> Iterator[Case]:
        for width, beta in beta_of.items():
            for value in (0.0, 1.0, -0.1, 1e300, 5e-324, 1e16 + 2):
                x = np.full(width, value)
                instance = {"d": width, "value": value}
                yield Case(int(_raises(x, 0.0)), "==", 1, instance)
                x[-1] += bits * np.spacing(x[-1])
                for eps in (1e-12, 1e-5, 1.0):
                    output = layer_norm(x, np.full(width, 2.0), beta, eps)
                    for got, expected in zip(output, beta, strict=True):
                        yield Case(as_fraction(got), "==", as_fraction(expected), instance)

    return judge(cases(), scope="d = 1, 2, 7; six constants; ε = 0, 1e-12, 1e-5, 1")


ROUNDED_OUTPUT = Tolerance(
    value=64 * 2.0**-52,
    kind="relative",
    reason="an entry of x̂ is right to a few eps times √d (layer_norm's statement) and d <= 64; "
    "relative to ‖γ‖_∞ + ‖β‖_∞ that is a few times 8 eps",
)


@check(LEMMA, kind=Kind.FLOAT, planted=Planted("the bound is 1% smaller", factor=0.99))
def public_functions(profile: Profile, *, factor: float = 1.0) -> Evidence:
    """``layer_norm`` and ``rms`` on tokens of every scale, at the equality case as well."""
    rng = np.random.default_rng(24)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(40, 1000)):
            width = 2 * int(rng.integers(1, 33))
            signs = rng.permutation(np.repeat((-1.0, 1.0), width // 2))
            scale = 10.0 ** rng.integers(-150, 150)
            for spread in (rng.standard_normal(width), signs, np.eye(width)[0]):
                gamma, beta = rng.standard_normal((2, width))
                for g, b in ((gamma, beta), (np.full(width, 2.0), signs)):
                    x = scale * spread
                    bound = factor * float(np.max(np.abs(g)) + np.max(np.abs(b)))
                    for eps in (0.0, 1e-5):
                        value = rms(layer_norm(x, g, b, eps))
                        yield Case(value, "<=", bound, {"d": width, "scale": scale, "ε": eps})

    return judge(
        cases(),
        scope="Gaussian, balanced and one-hot tokens, even d <= 64, scales 1e-150 to 1e149",
        tolerance=ROUNDED_OUTPUT,
    )
