"""Theorem 3.2: ‖J_τ(u)‖_{∞→1} = θ(p)/τ, with every step of its proof."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import sympy

from theory.arguments import FloatArray
from theory.claims import _instances as exact
from theory.derivations import softmax as symbolic
from theory.derivations.balanced_mass import bisection
from theory.softmax import jacobian_inf_to_one, softmax, softmax_jacobian
from theory.theta import solve_theta, theta
from verify.certificates import theta_reference
from verify.claims import Claim, Planted, Profile, check
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
    u, p = symbolic.softmax_vector(1)
    return Derivation(
        scope="all L (two coordinates at a time, and L = 1), all u, all τ > 0",
        steps=(
            Identity("L = 1", p.jacobian(u), (sympy.diag(*p) + cross * p * p.T) / tau),
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


DERIVATIVE = Tolerance(
    value=1e-14,
    kind="absolute",
    reason="τJ has entries in [−1/4, 1/4]; each side sums at most 12 terms of that size, which "
    "rounds off by less than 20 eps",
)


@check(JACOBIAN, kind=Kind.FLOAT, planted=Planted("the factor 1/τ is dropped", power=0))
def complex_step(profile: Profile, *, power: int = 1) -> Evidence:
    """theory.softmax.softmax_jacobian against the imaginary part of softmax(u + ih e_k), over h."""
    rng = np.random.default_rng(32)
    step = 1e-30

    def differentiated(u: FloatArray, tau: float) -> FloatArray:
        """Column k is the derivative by u_k; h² is too small to change the real part."""
        perturbed = u[:, None] + 1j * step * np.eye(len(u))
        weights = np.exp((perturbed - u.max()) / tau)
        return np.imag(weights / weights.sum(axis=0)) / step

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(60, 1000)):
            u = rng.normal(size=rng.integers(1, 13)) * rng.choice((0.1, 1.0, 10.0))
            tau = float(rng.choice((0.25, 0.5, 1.0, 3.0)))
            ours, reference = softmax_jacobian(u, tau), differentiated(u, tau)
            for a, b in zip((tau**power * ours).flat, (tau * reference).flat, strict=True):
                yield Case(float(a), "==", float(b), {"u": u.tolist(), "τ": tau})

    return judge(cases(), scope="Gaussian logits, L <= 12, four temperatures", tolerance=DERIVATIVE)


# ------------------------------------------------------------------------------- proof steps


def _random_sign_case(rng: random.Random) -> tuple[exact.Distribution, tuple[int, ...], Fraction]:
    length = rng.randint(1, 7)
    p = exact.random_distribution(rng, length)
    signs = tuple(rng.choice((-1, 1)) for _ in range(length))
    return p, signs, Fraction(rng.randint(1, 9), rng.randint(1, 9))


@check(ALPHA, kind=Kind.DERIVATION, planted=Planted("α = 2q + 1", shift=+1))
def derived_by_sign_class(profile: Profile, *, shift: int = -1) -> Derivation:
    """One symbol for each sign class covers every L."""
    q, p_i, tau = sympy.symbols("q p_i tau", positive=True)
    x_i, others = sympy.symbols("x_i r", real=True)
    alpha = 2 * q + shift

    def mean_of_signs(rng: random.Random) -> Case:
        p, signs, _ = _random_sign_case(rng)
        mass = exact.mass_of_signs(p, signs)
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
            # r = Σ_{k≠i} p_k x_k, so that row i of J gives p_i(1 − p_i)x_i − p_i r.
            Identity(
                "(Jx)_i",
                (p_i * (1 - p_i) * x_i - p_i * others) / tau,
                p_i * (x_i - (p_i * x_i + others)) / tau,
            ),
            RuleStep("α", Rule.LINEARITY, "Σ p_i x_i = q − (1 − q) = 2q − 1", mean_of_signs),
            Identity("α as a difference of masses", q - (1 - q), alpha),
            Identity("(Jx)_i on S", p_i * (1 - alpha) / tau, 2 * p_i * (1 - q) / tau),
            Identity("(Jx)_i off S", p_i * (-1 - alpha) / tau, -2 * p_i * q / tau),
            RuleStep("α in [−1, 1]", Rule.CONVEX_COMBINATION, "|α| <= 1", range_of_alpha),
            RuleStep("signs", Rule.CASE_SPLIT, "x_i (Jx)_i >= 0 for all i", sign_is_kept),
        ),
    )


@check(ALPHA, kind=Kind.ENUMERATION, planted=Planted("α = 2q + 1", shift=+1))
def every_sign_vector_of_small_integer_rows(profile: Profile, *, shift: int = -1) -> Evidence:
    """α, every entry of Jx and its sign, with Jx from the matrix; zeros and ties included."""
    sizes = profile.pick(
        ((1, 6), (2, 8), (3, 5), (4, 3), (5, 2)), ((1, 20), (2, 20), (3, 10), (4, 6), (5, 4))
    )
    tau = Fraction(3, 2)

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                matrix = exact.jacobian(p, tau)
                for x in exact.sign_vectors(length):
                    alpha = 2 * exact.mass_of_signs(p, x) + shift
                    instance = {"weights": weights, "x": x}
                    yield Case(abs(alpha), "<=", 1, instance)
                    for atom, sign, entry in zip(p, x, exact.times(matrix, x), strict=True):
                        yield Case(entry, "==", atom * (sign - alpha) / tau, instance)
                        yield Case(sign * entry, ">=", 0, instance)

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every sign vector of every integer row up to order, {shown}")


@check(
    VERTEX, kind=Kind.DERIVATION, planted=Planted("the vertex maximum is 1% smaller", factor="0.99")
)
def one_coordinate_at_a_time(profile: Profile, *, factor: str = "1") -> Derivation:
    """Some end of a coordinate's range does at least as well; move the coordinates there in turn.

    x is the mean of the points with x_i = +1 and x_i = −1, weighted (1 + x_i)/2 and (1 − x_i)/2.
    """
    scale = Fraction(factor)
    x_i, x_k = sympy.symbols("x_i x_k", real=True)
    _, _, p_i, p_k = symbolic.split_softmax()
    tau = symbolic.tau
    # Contributions of the coordinates other than i (and k) to pᵀx.
    rest = sympy.Symbol("r", real=True)
    own = p_i * (x_i - p_i * x_i - rest) / tau
    other = p_k * (x_k - p_i * x_i - p_k * x_k - rest) / tau

    def ends(entry: sympy.Expr) -> sympy.Expr:
        plus, minus = entry.subs(x_i, 1), entry.subs(x_i, -1)
        return (1 + x_i) / 2 * plus + (1 - x_i) / 2 * minus

    def draw(rng: random.Random) -> tuple[exact.Distribution, exact.Matrix, list[Fraction]]:
        """Points of the cube, now and then a vertex that attains the norm."""
        length = rng.randint(1, 5)
        p = exact.random_distribution(rng, length)
        matrix = exact.jacobian(p, Fraction(rng.randint(1, 9), rng.randint(1, 9)))
        corner = max(
            exact.sign_vectors(length), key=lambda v: exact.one_norm(exact.times(matrix, v))
        )
        pull = Fraction(rng.randint(0, 3), 3)
        x = [pull * c + (1 - pull) * Fraction(rng.randint(-6, 6), 6) for c in corner]
        return p, matrix, x

    def image(matrix: exact.Matrix, x: list[Fraction]) -> Fraction:
        return exact.one_norm(exact.times(matrix, x))

    def chord(rng: random.Random) -> Case:
        p, matrix, x = draw(rng)
        i = rng.randrange(len(x))
        plus, minus = ([*x[:i], Fraction(end), *x[i + 1 :]] for end in (1, -1))
        mean = (1 + x[i]) / 2 * image(matrix, plus) + (1 - x[i]) / 2 * image(matrix, minus)
        return Case(image(matrix, x), "<=", mean, {"p": p, "x": x, "i": i})

    def better_end(rng: random.Random) -> Case:
        p, matrix, x = draw(rng)
        i = rng.randrange(len(x))
        best = max(image(matrix, [*x[:i], Fraction(end), *x[i + 1 :]]) for end in (1, -1))
        return Case(image(matrix, x), "<=", best, {"p": p, "x": x, "i": i})

    def vertex(rng: random.Random) -> Case:
        p, matrix, x = draw(rng)
        bound = scale * exact.inf_to_one_norm(matrix)
        return Case(image(matrix, x), "<=", bound, {"p": p, "x": x})

    return Derivation(
        scope="all L, all p in the simplex, all τ > 0, the whole cube",
        steps=(
            Identity("(Jx)_i is the weighted mean of its ends", own, ends(own)),
            Identity("(Jx)_k is the weighted mean of its ends", other, ends(other)),
            RuleStep("‖Jx‖₁", Rule.TRIANGLE_INEQUALITY, "at most the mean of the ends'", chord),
            RuleStep("one end", Rule.CONVEX_COMBINATION, "at most the larger end's", better_end),
            RuleStep("all coordinates", Rule.INDUCTION, "at most a sign vector's", vertex),
        ),
    )


@check(VERTEX, kind=Kind.SAMPLE, planted=Planted("the vertex maximum is 1% smaller", factor="0.99"))
def interior_points(profile: Profile, *, factor: str = "1") -> Evidence:
    """Random points of the cube, biased towards faces, edges and vertices."""
    rng = random.Random(32)
    scale = Fraction(factor)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(150, 5000)):
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
        mass = exact.mass_of_signs(p, signs)
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


@check(NORM, kind=Kind.DERIVATION, planted=Planted("θ is 1% smaller", factor="0.99"))
def derived_from_the_quadratic_form(profile: Profile, *, factor: str = "1") -> Derivation:
    """A second proof: J is positive semidefinite, so its bilinear form is largest at y = x."""
    scale = Fraction(factor)
    p_i, p_j = sympy.symbols("p_i p_j", nonnegative=True)
    x_i, x_j, y_i, y_j = sympy.symbols("x_i x_j y_i y_j", real=True)
    inside, outside = sympy.symbols("A B", positive=True)
    total = inside + outside

    def draw(rng: random.Random) -> tuple[exact.Distribution, exact.Matrix]:
        p = exact.random_distribution(rng, rng.randint(1, 4))
        return p, exact.jacobian(p, Fraction(rng.randint(1, 9), rng.randint(1, 9)))

    def in_the_cube(rng: random.Random, length: int) -> list[Fraction]:
        return [Fraction(rng.choice((-6, 6, rng.randint(-6, 6))), 6) for _ in range(length)]

    def pairing(
        matrix: exact.Matrix, y: Sequence[Fraction | int], x: Sequence[Fraction | int]
    ) -> Fraction:
        image = exact.times(matrix, x)
        return sum((a * b for a, b in zip(y, image, strict=True)), Fraction(0))

    def dual(rng: random.Random) -> Case:
        p, matrix = draw(rng)
        corners = list(exact.sign_vectors(len(p)))
        largest = max(pairing(matrix, y, x) for x in corners for y in corners)
        return Case(exact.inf_to_one_norm(matrix), "==", largest, {"p": p})

    def diagonal(rng: random.Random) -> Case:
        p, matrix = draw(rng)
        x = in_the_cube(rng, len(p))
        y = rng.choice((x, in_the_cube(rng, len(p))))
        forms = (exact.quadratic_form(matrix, v) for v in (x, y))
        return Case(pairing(matrix, y, x), "<=", max(forms), {"p": p, "x": x, "y": y})

    def corner(rng: random.Random) -> Case:
        p, matrix = draw(rng)
        x = in_the_cube(rng, len(p))
        best = max(exact.quadratic_form(matrix, v) for v in exact.sign_vectors(len(p)))
        return Case(exact.quadratic_form(matrix, x), "<=", best, {"p": p, "x": x})

    def whole_norm(rng: random.Random) -> Case:
        p = exact.random_distribution(rng, rng.randint(1, 7))
        tau = Fraction(rng.randint(1, 9), rng.randint(1, 9))
        norm = exact.inf_to_one_norm(exact.jacobian(p, tau))
        return Case(norm, "==", scale * exact.theta_by_definition(p) / tau, {"p": p, "τ": tau})

    return Derivation(
        scope="all L, all p in the simplex, all τ > 0",
        steps=(
            RuleStep("pairing", Rule.DUALITY, "‖J‖_{∞→1} = max yᵀJx over the cube", dual),
            Identity(
                "one edge of xᵀJx + yᵀJy − 2yᵀJx",
                p_i * p_j * ((x_i - x_j) ** 2 + (y_i - y_j) ** 2 - 2 * (x_i - x_j) * (y_i - y_j)),
                p_i * p_j * ((x_i - y_i) - (x_j - y_j)) ** 2,
            ),
            RuleStep("y = x", Rule.PSD_BILINEAR, "yᵀJx <= max(xᵀJx, yᵀJy)", diagonal),
            RuleStep("vertex", Rule.CONVEX_VERTEX, "xᵀJx is largest at a sign vector", corner),
            Identity(
                "the form at a sign vector, shares A/(A + B) and B/(A + B)",
                1 - ((inside - outside) / total) ** 2,
                sympy.Rational(factor) * bisection(inside, outside),
            ),
            RuleStep("norm", Rule.TRANSITIVITY, "‖J‖_{∞→1} = θ(p)/τ", whole_norm),
        ),
    )


def _cleared_jacobian(weights: Sequence[object]) -> tuple[list[list[int]], int]:
    """(W·Diag(a) − aaᵀ, W²) for integers a proportional to the weights, W their sum.

    The quotient is Diag(p) − ppᵀ for the exact shares p = a/W.
    """
    shares = [as_fraction(weight) for weight in weights]
    unit = math.lcm(*(share.denominator for share in shares))
    a = [int(share * unit) for share in shares]
    total = sum(a)
    matrix = [
        [(total if i == j else 0) * v - v * w for j, w in enumerate(a)] for i, v in enumerate(a)
    ]
    return matrix, total**2


def _integer_one_norm(matrix: Sequence[Sequence[int]], x: Sequence[int]) -> int:
    return sum(abs(sum(m * v for m, v in zip(row, x, strict=True))) for row in matrix)


def _norm_by_sign_vectors(weights: Sequence[object]) -> Fraction:
    """‖Diag p − ppᵀ‖_{∞→1}; x and −x have the same image up to sign, so the first sign is fixed."""
    matrix, square = _cleared_jacobian(weights)
    vectors = ((1, *rest) for rest in exact.sign_vectors(len(matrix) - 1))
    return Fraction(max(_integer_one_norm(matrix, x) for x in vectors), square)


@check(NORM, kind=Kind.CERTIFICATE, planted=Planted("θ is 1% smaller", factor="0.99"))
def solver_against_sign_vectors(profile: Profile, *, factor: str = "1") -> Evidence:
    """Float rows as dyadic rationals: every sign vector on the left, theory.theta on the right."""
    rng = random.Random(3202)
    scale = Fraction(factor)
    longest = profile.pick(8, 10)

    def cases() -> Iterator[Case]:
        for row in exact.float_rows(rng, profile.pick(60, 400), longest):
            norm = _norm_by_sign_vectors(row)
            solution = solve_theta(row)
            yield Case(norm, ">=", scale * solution.lower, {"p": row})
            yield Case(norm, "<=", scale * solution.upper, {"p": row})
            yield Case(Fraction(float(norm)), "==", scale * as_fraction(solution.theta), {"p": row})

    return judge(cases(), scope=f"float rows, L <= {longest}, with ties, zeros, subnormals; τ = 1")


BRUTE_FORCE = Tolerance(
    value=1e-14,
    kind="relative",
    reason="entries of J right to 10 eps, rows summed over 16 terms, and Σ|J_ij| <= 2θ/τ: about "
    "2·(10 + 16) roundings of 1.1e-16",
)


@check(NORM, kind=Kind.FLOAT, planted=Planted("θ is 1% smaller", factor=0.99))
def brute_force_in_floats(profile: Profile, *, factor: float = 1.0) -> Evidence:
    """theory.softmax.jacobian_inf_to_one against theory.theta, at the lengths of Appendix D.

    Standard normal logits, and ten and forty times wider ones.
    """
    rng = np.random.default_rng(3203)

    def cases() -> Iterator[Case]:
        for length, count in ((8, profile.pick(40, 500)), (16, profile.pick(6, 100))):
            for spread in (1.0, 10.0, 40.0):
                for _ in range(count):
                    u = spread * rng.normal(size=length)
                    tau = float(rng.choice((0.5, 1.0, 3.0)))
                    value = factor * theta(softmax(u, tau)) / tau
                    yield Case(
                        jacobian_inf_to_one(u, tau), "==", value, {"u": u.tolist(), "τ": tau}
                    )

    return judge(
        cases(), scope="Gaussian logits, L = 8 and 16, τ in {0.5, 1, 3}", tolerance=BRUTE_FORCE
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
                norm = _norm_by_sign_vectors(weights)
                yield Case(norm, "==", scale * exact.theta_by_definition(p), {"weights": weights})

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight vector up to order, {shown}; τ = 1")


def _flipped(x: Sequence[int], row: Sequence[Fraction] | Sequence[float], flip: int) -> list[int]:
    """The sign vector, with the sign of the heaviest atom turned if ``flip``."""
    heaviest = max(range(len(row)), key=row.__getitem__)
    return [-s if flip and i == heaviest else s for i, s in enumerate(x)]


@check(ATTAIN, kind=Kind.DERIVATION, planted=Planted("the heaviest atom's sign is turned", flip=1))
def derived_for_every_optimal_subset(profile: Profile, *, flip: int = 0) -> Derivation:
    """‖Jx‖₁ depends on p(S) alone, so every S that attains θ gives the norm."""
    inside, outside = sympy.symbols("A B", positive=True)
    total, tau = inside + outside, symbolic.tau
    # |(Jx)_i| is 2p_i(1 − q)/τ on S and 2p_i q/τ off S, by theorem_3_2_proof_alpha.
    on, off = 2 * (inside / total) * (outside / total), 2 * (outside / total) * (inside / total)

    def optimal(rng: random.Random) -> tuple[exact.Distribution, list[int], Fraction]:
        """A row, the signs of one of its optimal subsets, and θ."""
        p = exact.random_distribution(rng, rng.randint(1, 6))
        value = exact.theta_by_definition(p)
        masses = ((x, exact.mass_of_signs(p, x)) for x in exact.sign_vectors(len(p)))
        best = [x for x, q in masses if 4 * q * (1 - q) == value]
        return p, _flipped(rng.choice(best), p, flip), value

    def attained(rng: random.Random) -> Case:
        p, x, value = optimal(rng)
        tau_value = Fraction(rng.randint(1, 9), rng.randint(1, 9))
        image = exact.one_norm(exact.times(exact.jacobian(p, tau_value), x))
        return Case(image, "==", value / tau_value, {"p": p, "x": x, "τ": tau_value})

    def maximal(rng: random.Random) -> Case:
        p, x, _ = optimal(rng)
        matrix = exact.jacobian(p)
        image = exact.one_norm(exact.times(matrix, x))
        return Case(image, "==", exact.inf_to_one_norm(matrix), {"p": p, "x": x})

    return Derivation(
        scope="all L, all p in the simplex, all τ > 0, every optimal subset",
        steps=(
            Identity("ℓ1 norm of Jx*", (on + off) / tau, bisection(inside, outside) / tau),
            RuleStep("S* attains θ", Rule.DEFINITION, "‖Jx*‖₁ = θ(p)/τ", attained),
            RuleStep("norm", Rule.ATTAINMENT, "‖Jx*‖₁ = ‖J‖_{∞→1}", maximal),
        ),
    )


@check(ATTAIN, kind=Kind.CERTIFICATE, planted=Planted("the heaviest atom's sign is turned", flip=1))
def sign_vector_of_a_solution(profile: Profile, *, flip: int = 0) -> Evidence:
    """ThetaSolution.sign_vector, put through the exact Jacobian of float rows."""
    rng = random.Random(3204)

    def cases() -> Iterator[Case]:
        for row in exact.float_rows(rng, profile.pick(120, 1500), longest=14):
            matrix, square = _cleared_jacobian(row)
            x = _flipped(solve_theta(row, method="mitm").sign_vector.tolist(), row, flip)
            image = Fraction(_integer_one_norm(matrix, x), square)
            yield Case(image, "==", theta_reference(row), {"p": row, "x": x})

    return judge(cases(), scope="float rows, L <= 14, with ties, zeros and subnormals; τ = 1")


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
                    mass = exact.mass_of_signs(p, signs)
                    if 4 * mass * (1 - mass) != theta:
                        continue
                    x = [-s if i < skip else s for i, s in enumerate(signs)]
                    image = exact.one_norm(exact.times(matrix, x))
                    yield Case(image, "==", norm, {"weights": weights, "x": x})

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every optimal subset of every integer row up to order, {shown}")
