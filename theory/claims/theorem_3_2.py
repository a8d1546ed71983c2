"""Theorem 3.2: ‖J_τ(u)‖_{∞→1} = θ(p)/τ, with every step of its proof."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.derivations import softmax as symbolic
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge

JACOBIAN = Claim(
    id="theorem_3_2_jacobian",
    paper_ref="Theorem 3.2, first display",
    section="3",
    statement="For every L >= 1, u in R^L and τ > 0, the derivative of u -> softmax(u/τ) is "
    "(Diag p − ppᵀ)/τ with p = softmax(u/τ).",
)
ALPHA = Claim(
    id="theorem_3_2_proof_alpha",
    paper_ref="Appendix B, proof of Theorem 3.2",
    section="B",
    statement="For a sign vector x with positive set S and q = p(S), α = pᵀx = 2q − 1 lies in "
    "[−1, 1], (Jx)_i = p_i(x_i − α)/τ, and (Jx)_i has the sign of x_i wherever it is not zero.",
    uses=("theorem_3_2_jacobian",),
)
VERTEX = Claim(
    id="theorem_3_2_proof_vertex",
    paper_ref="Appendix B, proof of Theorem 3.2",
    section="B",
    statement="The convex function x -> ‖Jx‖₁ attains its maximum over the cube ‖x‖_∞ <= 1 at a "
    "sign vector.",
)
NORM = Claim(
    id="theorem_3_2_norm",
    paper_ref="Theorem 3.2",
    section="3",
    statement="For every L >= 1, u in R^L and τ > 0, the norm of J_τ(u) from ℓ∞ to ℓ1 equals "
    "θ(p)/τ with θ(p) = 4 max over subsets S of p(S)(1 − p(S)).",
    uses=("theorem_3_2_jacobian", "theorem_3_2_proof_alpha", "theorem_3_2_proof_vertex"),
)
ATTAIN = Claim(
    id="theorem_3_2_attain",
    paper_ref="Theorem 3.2, maximiser",
    section="3",
    statement="For every subset S* that attains θ(p) (it need not be unique, and may be empty), "
    "x = +1 on S*, −1 elsewhere attains the norm from ℓ∞ to ℓ1.",
    uses=("theorem_3_2_norm",),
)


# --------------------------------------------------------------------------------- Jacobian


@check(JACOBIAN, kind=Kind.DERIVATION, planted=Planted("the sign of ppᵀ is turned", cross=+1))
def derived_for_all_lengths(profile: Profile, *, cross: int = -1) -> Derivation:
    """Differentiate the definition with all but two logits collected in one symbol."""
    u_i, u_k, p_i, p_k = symbolic.split_softmax()
    tau = symbolic.tau
    return Derivation(
        scope="all L >= 2 (two coordinates at a time), all u, all τ > 0",
        steps=(
            Identity("diagonal", sympy.diff(p_i, u_i), (p_i + cross * p_i**2) / tau),
            Identity("off the diagonal", sympy.diff(p_i, u_k), cross * p_i * p_k / tau),
        ),
    )


@check(JACOBIAN, kind=Kind.DERIVATION, planted=Planted("the factor 1/τ is dropped", power=0))
def derived_at_fixed_lengths(profile: Profile, *, power: int = 1) -> Derivation:
    """The whole matrix at once for L = 1, 2, 3, 4."""
    steps = []
    for length in (1, 2, 3, 4):
        u, p = symbolic.softmax_vector(length)
        expected = (sympy.diag(*p) - p * p.T) / symbolic.tau**power
        steps.append(Identity(f"L = {length}", p.jacobian(u), expected))
    return Derivation(scope="L = 1, 2, 3, 4, all u, all τ > 0", steps=tuple(steps))


# ------------------------------------------------------------------------------- proof steps


def _random_sign_case(rng: random.Random) -> tuple[exact.Distribution, tuple[int, ...], Fraction]:
    length = rng.randint(1, 7)
    p = exact.random_distribution(rng, length)
    signs = tuple(rng.choice((-1, 1)) for _ in range(length))
    return p, signs, Fraction(rng.randint(1, 9), rng.randint(1, 9))


@check(ALPHA, kind=Kind.DERIVATION, planted=Planted("α = 2q + 1", shift=+1))
def derived_by_sign_class(profile: Profile, *, shift: int = -1) -> Derivation:
    """One symbol for each sign class covers every L."""
    q, p_i, tau = sympy.symbols("q p_i tau", nonnegative=True)
    alpha = 2 * q + shift

    def mean_of_signs(rng: random.Random) -> Case:
        p, signs, _ = _random_sign_case(rng)
        mass = sum((a for a, s in zip(p, signs, strict=True) if s > 0), Fraction(0))
        mean = sum((a * s for a, s in zip(p, signs, strict=True)), Fraction(0))
        return Case(mean, "==", 2 * mass + shift, {"p": p, "x": signs})

    def range_of_alpha(rng: random.Random) -> Case:
        p, signs, _ = _random_sign_case(rng)
        mean = sum((a * s for a, s in zip(p, signs, strict=True)), Fraction(0))
        return Case(abs(mean), "<=", 1, {"p": p, "x": signs})

    def sign_is_kept(rng: random.Random) -> Case:
        p, signs, tau_value = _random_sign_case(rng)
        image = exact.times(exact.jacobian(p, tau_value), signs)
        least = min(v * s for v, s in zip(image, signs, strict=True))
        return Case(least, ">=", 0, {"p": p, "x": signs, "τ": tau_value})

    return Derivation(
        scope="all L, all p in the simplex, all sign vectors, all τ > 0",
        steps=(
            RuleStep("α", Rule.LINEARITY, "Σ p_i x_i = q − (1 − q) = 2q − 1", mean_of_signs),
            Identity("α as a difference of masses", q - (1 - q), alpha),
            Identity("(Jx)_i on S", p_i * (1 - alpha) / tau, 2 * p_i * (1 - q) / tau),
            Identity("(Jx)_i off S", p_i * (-1 - alpha) / tau, -2 * p_i * q / tau),
            RuleStep("α in [−1, 1]", Rule.CONVEX_COMBINATION, "|α| <= 1", range_of_alpha),
            RuleStep("signs", Rule.CASE_SPLIT, "x_i (Jx)_i >= 0 for all i", sign_is_kept),
        ),
    )


@check(
    VERTEX, kind=Kind.DERIVATION, planted=Planted("the vertex maximum is 1% smaller", factor="0.99")
)
def convexity_and_interior_points(profile: Profile, *, factor: str = "1") -> Derivation:
    """Midpoint convexity from the triangle inequality, and points of the cube against vertices."""
    scale = Fraction(factor)
    a, b, t = sympy.symbols("a b t", real=True)

    def convex(rng: random.Random) -> Case:
        p, x, tau = _random_sign_case(rng)
        y = [Fraction(rng.randint(-6, 6), 6) for _ in p]
        weight = Fraction(rng.randint(0, 8), 8)
        matrix = exact.jacobian(p, tau)
        mixed = [weight * u + (1 - weight) * v for u, v in zip(x, y, strict=True)]
        chord = weight * exact.one_norm(exact.times(matrix, x)) + (1 - weight) * exact.one_norm(
            exact.times(matrix, y)
        )
        return Case(
            exact.one_norm(exact.times(matrix, mixed)), "<=", chord, {"p": p, "x": x, "y": y}
        )

    def inside_the_cube(rng: random.Random) -> Case:
        length = rng.randint(1, 6)
        p = exact.random_distribution(rng, length)
        matrix = exact.jacobian(p)
        # Mostly inside; now and then a vertex, where the bound is attained.
        corner = max(
            exact.sign_vectors(length), key=lambda v: exact.one_norm(exact.times(matrix, v))
        )
        pull = Fraction(rng.randint(0, 4), 4)
        x = [pull * c + (1 - pull) * Fraction(rng.randint(-6, 6), 6) for c in corner]
        bound = scale * exact.inf_to_one_norm(matrix)
        return Case(exact.one_norm(exact.times(matrix, x)), "<=", bound, {"p": p, "x": x})

    return Derivation(
        scope="all L, all p in the simplex, the whole cube",
        steps=(
            Identity("J(tx + (1−t)y) is the mix of images", t * a + (1 - t) * b, b + t * (a - b)),
            RuleStep("convexity", Rule.TRIANGLE_INEQUALITY, "‖J·‖₁ is convex", convex),
            RuleStep("vertex", Rule.CONVEX_VERTEX, "max at a sign vector", inside_the_cube),
        ),
    )


@check(VERTEX, kind=Kind.SAMPLE, planted=Planted("the vertex maximum is 1% smaller", factor="0.99"))
def interior_points(profile: Profile, *, factor: str = "1") -> Evidence:
    """Random points of the cube, biased towards faces, edges and vertices."""
    rng = random.Random(32)
    scale = Fraction(factor)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(300, 5000)):
            length = rng.randint(1, 6)
            p = exact.random_distribution(rng, length)
            matrix = exact.jacobian(p)
            bound = scale * exact.inf_to_one_norm(matrix)
            for _ in range(6):
                x = [
                    Fraction(rng.choice((-12, 12, rng.randint(-12, 12))), 12) for _ in range(length)
                ]
                image = exact.one_norm(exact.times(matrix, x))
                yield Case(image, "<=", bound, {"p": p, "x": x})

    return judge(cases(), scope="random rational p, L <= 6, and points of the cube")


# -------------------------------------------------------------------------------------- norm


@check(NORM, kind=Kind.DERIVATION, planted=Planted("θ is 1% smaller", factor="0.99"))
def derived_for_every_length(profile: Profile, *, factor: str = "1") -> Derivation:
    """Sum (Jx)_i over the two sign classes; the sum depends on q = p(S) alone."""
    scale = sympy.Rational(factor)
    q = sympy.Symbol("q", nonnegative=True)
    tau = symbolic.tau

    def class_sums(rng: random.Random) -> Case:
        p, signs, tau_value = _random_sign_case(rng)
        mass = sum((a for a, s in zip(p, signs, strict=True) if s > 0), Fraction(0))
        image = exact.one_norm(exact.times(exact.jacobian(p, tau_value), signs))
        two_classes = (mass * 2 * (1 - mass) + (1 - mass) * 2 * mass) / tau_value
        return Case(image, "==", two_classes, {"p": p, "x": signs, "τ": tau_value})

    def whole_norm(rng: random.Random) -> Case:
        p, _, tau_value = _random_sign_case(rng)
        norm = exact.inf_to_one_norm(exact.jacobian(p, tau_value))
        theta = Fraction(factor) * exact.theta_by_definition(p)
        return Case(norm, "==", theta / tau_value, {"p": p, "τ": tau_value})

    return Derivation(
        scope="all L, all p in the simplex, all τ > 0",
        steps=(
            RuleStep(
                "ℓ1 norm at a sign vector",
                Rule.LINEARITY,
                "‖Jx‖₁ = [q·2(1−q) + (1−q)·2q]/τ, by theorem_3_2_proof_alpha",
                class_sums,
            ),
            Identity(
                "the two classes add up",
                (q * 2 * (1 - q) + (1 - q) * 2 * q) / tau,
                scale * 4 * q * (1 - q) / tau,
            ),
            RuleStep(
                "maximum over the cube",
                Rule.CONVEX_VERTEX,
                "‖J‖_{∞→1} = max over S of 4 p(S)(1 − p(S))/τ, by theorem_3_2_proof_vertex",
                whole_norm,
            ),
        ),
    )


@check(NORM, kind=Kind.ENUMERATION, planted=Planted("θ is 1% smaller", factor="0.99"))
def every_small_integer_row(profile: Profile, *, factor: str = "1") -> Evidence:
    """Both sides by enumeration, independently: sign vectors on the left, subsets on the right."""
    scale = Fraction(factor)
    # (length, largest weight): every vector with zeros, ties and L = 1, up to order.
    sizes = profile.pick(
        ((1, 9), (2, 12), (3, 9), (4, 6), (5, 4), (6, 3), (7, 2)),
        ((1, 30), (2, 30), (3, 16), (4, 10), (5, 7), (6, 5), (7, 4), (8, 3)),
    )

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                norm = exact.inf_to_one_norm(exact.jacobian(p))
                yield Case(norm, "==", scale * exact.theta_by_definition(p), {"weights": weights})

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight vector up to order, {shown}; τ = 1")


@check(ATTAIN, kind=Kind.ENUMERATION, planted=Planted("the sign vector misses one atom", skip=1))
def every_optimal_subset(profile: Profile, *, skip: int = 0) -> Evidence:
    """Every optimal subset of every small integer row, the empty set included."""
    sizes = profile.pick(
        ((1, 6), (2, 8), (3, 6), (4, 4), (5, 3)),
        ((1, 20), (2, 20), (3, 10), (4, 7), (5, 5), (6, 3)),
    )

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                theta = exact.theta_by_definition(p)
                matrix = exact.jacobian(p)
                norm = exact.inf_to_one_norm(matrix)
                for signs in exact.sign_vectors(length):
                    mass = sum((a for a, s in zip(p, signs, strict=True) if s > 0), Fraction(0))
                    if 4 * mass * (1 - mass) != theta:
                        continue
                    x = [-s if i < skip else s for i, s in enumerate(signs)]
                    image = exact.one_norm(exact.times(matrix, x))
                    yield Case(image, "==", norm, {"weights": weights, "x": x})

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every optimal subset of every integer row up to order, {shown}")
