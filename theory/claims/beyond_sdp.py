"""The semidefinite relaxation of θ in closed form: what it sees of a row is its largest weight.

Write M = Diag(p) − ppᵀ, m = p_max. Remark 3.3 makes θ(p) the maximum of xᵀMx over signs. The
relaxation (Goemans and Williamson 1995) puts unit vectors v_i in place of the signs:

    SDP(p) = max Σ M_ij ⟨v_i, v_j⟩ = 1 − min ‖Σ p_i v_i‖²,

since Σ p_i ‖v_i‖² = 1. So it asks how nearly the sides p_i close to a polygon.

*m <= 1/2.* The polygon closes: take atoms in any order up to the one at which the prefix sum
reaches 1/2. The atoms before it, the atom itself and those after it have masses a, b, c <= 1/2 that
add up to 1. These are the sides of a triangle (4a²b² − (c² − a² − b²)² is the product of 1, 1 − 2a,
1 − 2b and 1 − 2c), so three unit vectors with a u + b v + c w = 0 exist, and SDP(p) = 1. The dual
point y = p has Diag(y) − M = ppᵀ ⪰ 0 and Σ y = 1.

*m >= 1/2.* Opposite vectors give 1 − (2m − 1)² = 4m(1 − m). Put e = 2m − 1 and y_i = p_i(1 + e),
but m(1 − e) at the largest atom. With t the largest atom's coordinate, w = Σ p_i x_i and
Q = Σ p_i x_i² over the others, w² <= (1 − m)Q (Cauchy–Schwarz), and

    xᵀ(Diag(y) − M)x = −e m t² + e Q + (mt + w)² >= m/(1 − m) · ((1 − m)t + w)² >= 0,

while Σ y = 1 − e². So SDP(p) = 1 − max(0, 2m − 1)².

*Tightness.* For m >= 1/2 this is θ(p) (Corollary 3.4, part 3). For m < 1/2 it is 1, which θ attains
if and only if a subset has mass exactly 1/2.

*Ratio.* For m < 1/2 one of the masses a, b, c is at least 1/3 and at most 1/2, and splitting it off
gives θ >= 4g(1 − g) >= 8/9. So θ <= SDP <= (9/8) θ. For m >= 1/2 the two are equal, and SDP is
(9/8) θ only if both are 0, at one-hot rows. For m < 1/2 equality on the right means θ = 8/9, so
that none of the three masses exceeds 1/3 and all are 1/3. In descending order the second group is
one atom of 1/3, and atoms before it are no smaller, so the first is one atom, too. If the third had
several, its least one, of at most 1/6, would with an atom of 1/3 come closer to 1/2 than 1/3 does.

*The norm.* For symmetric M ⪰ 0 and unit vectors, 2 Σ M_ij ⟨u_i, v_j⟩ = U + V − N with U and V the
sums for (u, u) and (v, v) and N = Σ M_ij ⟨u_i − v_i, u_j − v_j⟩ >= 0. So the bilinear relaxation,
that of ‖M‖_∞→1, is no larger than the quadratic one, and the same holds of the maxima over signs.

*Any M ⪰ 0* (Nesterov 1998; Rietz 1974). Round v_i to the side s_i = ±1 of a random hyperplane on
which it lies. Then E s_i s_j = (2/π) arcsin⟨v_i, v_j⟩. The power series of arcsin has coefficients
>= 0 and starts with t, and entrywise powers of a Gram matrix are semidefinite (Schur), so
arcsin[X] − X ⪰ 0, and max xᵀMx >= E sᵀMs = (2/π)⟨M, arcsin[X]⟩ >= (2/π)⟨M, X⟩.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import flint
import numpy as np
import sympy

from theory.claims import _instances as exact
from theory.claims import _partitions
from theory.maxcut import (
    RowRelaxation,
    inf_to_one_relaxation,
    relaxation_is_tight,
    row_relaxation,
    sign_form_relaxation,
)
from verify.certificates import theta_reference
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import ball, is_positive_semidefinite

ROW = Claim(
    id="beyond_sdp_row",
    paper_ref="beyond Remark 3.3",
    section="beyond",
    statement="For every p in the simplex, of any length, the semidefinite relaxation of θ(p) as a "
    "maximum cut, max Σ_ij (Diag p − ppᵀ)_ij ⟨v_i, v_j⟩ over unit vectors, is exactly "
    "1 − max(0, 2 p_max − 1)². Vectors in a plane attain it, in two opposite directions if "
    "p_max >= 1/2 and in three otherwise; the dual points p and, for p_max > 1/2, the one with "
    "p_i · 2 p_max, but 2 p_max(1 − p_max) at the largest weight, prove it.",
    uses=("remark_3_3_maxcut",),
)
TIGHT = Claim(
    id="beyond_sdp_row_tight",
    paper_ref="beyond Remark 3.3",
    section="beyond",
    statement="For every p in the simplex the relaxation of θ(p) is tight if and only if "
    "p_max >= 1/2 or some subset has mass exactly 1/2. So it knows nothing that p_max does not "
    "say: below 1/2 its value is 1 whatever the row. There the tight rows lie on finitely many "
    "hyperplanes.",
    uses=("beyond_sdp_row", "corollary_3_4_part_3"),
)
RATIO = Claim(
    id="beyond_sdp_row_ratio",
    paper_ref="beyond Remark 3.3",
    section="beyond",
    statement="For every p in the simplex θ(p) <= SDP(p) <= (9/8) θ(p), with equality on the right "
    "exactly for three equal atoms and for one-hot rows, where all is 0. The best cut of the "
    "optimal plane vectors by a line is already at least (8/9) SDP(p). 8/9 is more than Goemans "
    "and Williamson's share for nonnegative edge weights and than 2/π for semidefinite forms.",
    uses=("beyond_sdp_row",),
)
NORM = Claim(
    id="beyond_sdp_norm",
    paper_ref="beyond Theorem 3.2",
    section="beyond",
    statement="For symmetric M ⪰ 0 the relaxation of ‖M‖_∞→1, max Σ M_ij ⟨u_i, v_j⟩ over unit "
    "vectors u_i and v_j, equals that of max xᵀMx over signs. So for the Jacobian J of s_τ at p it "
    "is (1 − max(0, 2 p_max − 1)²)/τ, at least ‖J‖_∞→1 = θ(p)/τ and at most 9/8 of it.",
    uses=("beyond_sdp_row", "beyond_sdp_row_ratio", "theorem_3_2_norm"),
)
PI_HALF = Claim(
    id="beyond_sdp_pi_half",
    paper_ref="beyond Remark 3.3",
    section="beyond",
    statement="For symmetric M ⪰ 0 the relaxation of max xᵀMx over signs, and so that of "
    "‖M‖_∞→1, is at least the maximum and at most π/2 times it (Nesterov 1998).",
    uses=("beyond_sdp_norm",),
)


Plane = tuple[Fraction, Fraction]


def unit_vector(rng: random.Random) -> Plane:
    """A rational point of the unit circle."""
    t = exact.random_rational(rng, 2)
    return (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)


def inner_products(left: Sequence[Plane], right: Sequence[Plane]) -> list[list[Fraction]]:
    """⟨u_i, v_j⟩."""
    return [[u[0] * v[0] + u[1] * v[1] for v in right] for u in left]


def random_row(rng: random.Random) -> exact.Distribution:
    """Rows with p_max on both sides of 1/2 and on it, and the three equal atoms."""
    kind = rng.randrange(4)
    if kind == 0:
        return exact.dominant_row(rng, Fraction(rng.randint(6, 12), 12))
    if kind == 1:
        return (Fraction(1, 3),) * 3
    return exact.random_distribution(rng, rng.randint(1, 7))


def closed_form(p: exact.Distribution, floor: Fraction = Fraction(0)) -> Fraction:
    """1 − max(0, 2 p_max − 1)²."""
    return 1 - max(floor, 2 * max(p) - 1) ** 2


def gram(solution: RowRelaxation) -> list[list[Fraction]]:
    """The primal matrix X of a solved row."""
    groups = solution.group.tolist()
    return [[solution.cosines[k][l] for l in groups] for k in groups]


def pairing(left: Sequence[Sequence[Fraction]], right: Sequence[Sequence[Fraction]]) -> Fraction:
    """Σ A_ij X_ij."""
    pairs = zip(left, right, strict=True)
    return sum((sum(map(Fraction.__mul__, a, x), Fraction(0)) for a, x in pairs), Fraction(0))


def slack(matrix: Sequence[Sequence[Fraction]], y: Sequence[Fraction]) -> list[list[Fraction]]:
    """Diag(y) − A."""
    return [
        [(y_i if i == j else 0) - entry for j, entry in enumerate(row)]
        for i, (y_i, row) in enumerate(zip(y, matrix, strict=True))
    ]


def small_rows(profile: Profile) -> Iterator[tuple[int, ...]]:
    """Every small integer row up to order, zeros included."""
    for length, largest in profile.pick(
        ((1, 3), (2, 9), (3, 6), (4, 4), (5, 3), (6, 2)),
        ((1, 9), (2, 30), (3, 14), (4, 9), (5, 6), (6, 4), (7, 3)),
    ):
        yield from exact.sorted_weight_vectors(length, largest)


SMALL_ROWS = "every integer row up to order, L <= 6 (7 in full), zeros included"


# ---------------------------------------------------------------------------- closed form


@check(ROW, kind=Kind.DERIVATION, planted=Planted("the value is 1% smaller", factor="0.99"))
def derived_by_polygons(profile: Profile, *, factor: str = "1") -> Derivation:
    """A triangle closes below 1/2; above, a dual point whose form is a square by Cauchy–Schwarz."""
    scale = Fraction(factor)
    a, b, top, t, w, rest, x_i, p_i, mean, second = sympy.symbols(
        "a b m t w R x_i p_i alpha Q", real=True
    )
    c = 1 - a - b
    cosine = (c**2 - a**2 - b**2) / (2 * a * b)
    excess = 2 * top - 1
    # Cauchy–Schwarz leaves a remainder R >= 0 in Q = w²/(1 − m) + R.
    dual_form = -excess * top * t**2 + excess * (w**2 / (1 - top) + rest) + (top * t + w) ** 2

    def objective(rng: random.Random) -> Case:
        p = exact.random_distribution(rng, rng.randint(1, 6))
        v = [unit_vector(rng) for _ in p]
        x, y = (sum((a * g[k] for a, g in zip(p, v, strict=True)), Fraction(0)) for k in (0, 1))
        found = pairing(exact.jacobian(p), inner_products(v, v))
        return Case(found, "==", 1 - x**2 - y**2, {"p": p, "v": v})

    def three_groups(rng: random.Random) -> Case:
        p = random_row(rng)
        while 2 * max(p) > 1:
            p = random_row(rng)
        _, before, at = exact.crossing(p)
        return Case(max(before, at, 1 - before - at), "<=", Fraction(1, 2), {"p": p})

    def cauchy_schwarz(rng: random.Random) -> Case:
        p = random_row(rng)
        x = [exact.random_rational(rng, 3) for _ in p]
        if rng.random() < 0.5:
            x = [Fraction(1)] * len(p)
        others = sorted(zip(p, x, strict=True), key=lambda pair: -pair[0])[1:]
        first = sum((a * v for a, v in others), Fraction(0))
        square = sum((a * v * v for a, v in others), Fraction(0))
        return Case(first**2, "<=", (1 - max(p)) * square, {"p": p, "x": x})

    def feasible(rng: random.Random) -> Case:
        p = random_row(rng)
        solution = row_relaxation(p)
        x = [exact.random_rational(rng, 3) for _ in p]
        if rng.random() < 0.5:
            x = [Fraction(int(s)) for s in solution.signs]
        form = exact.quadratic_form(slack(exact.jacobian(p), solution.dual), x)
        return Case(form, ">=", 0, {"p": p, "x": x})

    def upper(rng: random.Random) -> Case:
        p = random_row(rng)
        return Case(sum(row_relaxation(p).dual), "<=", closed_form(p), {"p": p})

    def attained(rng: random.Random) -> Case:
        p = random_row(rng)
        found = pairing(exact.jacobian(p), gram(row_relaxation(p)))
        return Case(found, "==", scale * closed_form(p), {"p": p})

    return Derivation(
        scope="all L, all p in the simplex",
        steps=(
            RuleStep(
                "objective",
                Rule.LINEARITY,
                "Σ M_ij⟨v_i, v_j⟩ = Σ p_i‖v_i‖² − ‖Σ p_i v_i‖² = 1 − ‖Σ p_i v_i‖²",
                objective,
            ),
            RuleStep(
                "three groups",
                Rule.CASE_SPLIT,
                "the masses before, at and after the crossing of 1/2 are at most 1/2",
                three_groups,
            ),
            Identity(
                "sides up to 1/2 have a cosine in [−1, 1]",
                4 * a**2 * b**2 * (1 - cosine**2),
                (1 - 2 * a) * (1 - 2 * b) * (1 - 2 * c),
            ),
            Identity(
                "‖a u + b v‖ = c for unit vectors with that cosine, so −(a u + b v)/c is one",
                (a + b * cosine) ** 2 + b**2 * (1 - cosine**2),
                c**2,
            ),
            Identity(
                "y = p: the form of Diag(y) − M is a square, coordinate by coordinate",
                p_i * x_i**2 + second - (p_i * x_i**2 + second - (p_i * x_i + mean) ** 2),
                (p_i * x_i + mean) ** 2,
            ),
            RuleStep("others", Rule.CAUCHY_SCHWARZ, "w² <= (1 − m)Q", cauchy_schwarz),
            Identity(
                "m >= 1/2: the form is a square and e R",
                dual_form,
                top / (1 - top) * ((1 - top) * t + w) ** 2 + excess * rest,
            ),
            RuleStep("feasible", Rule.SUM_OF_SQUARES, "Diag(y) − M ⪰ 0", feasible),
            Identity(
                "Σ y = 1 − e² = 4m(1 − m)",
                top * (1 - excess) + (1 - top) * (1 + excess),
                1 - excess**2,
            ),
            RuleStep("upper", Rule.DUALITY, "the relaxation is at most Σ y", upper),
            RuleStep("attained", Rule.ATTAINMENT, "SDP(p) = 1 − max(0, 2m − 1)²", attained),
        ),
    )


@check(
    ROW,
    kind=Kind.ENUMERATION,
    planted=Planted("4m(1 − m) for every row, below m = 1/2 too", floor="-1"),
)
def primal_and_dual_of_every_small_row(profile: Profile, *, floor: str = "0") -> Evidence:
    """The public closed form: X ⪰ 0 with unit diagonal, Diag(y) − M ⪰ 0, and one value for all."""

    def cases() -> Iterator[Case]:
        for weights in small_rows(profile):
            p = exact.normalised(weights)
            solution = row_relaxation(weights)
            matrix = exact.jacobian(p)
            x = gram(solution)
            instance = {"weights": weights}
            value = closed_form(p, Fraction(floor))
            yield Case(int(is_positive_semidefinite(x)), "==", 1, instance)
            yield Case(sum(x[i][i] for i in range(len(p))), "==", len(p), instance)
            yield Case(pairing(matrix, x), "==", value, instance)
            yield Case(
                int(is_positive_semidefinite(slack(matrix, solution.dual))), "==", 1, instance
            )
            yield Case(sum(solution.dual), "==", value, instance)
            yield Case(solution.value, "==", value, instance)

    return judge(cases(), scope=SMALL_ROWS)


# What an interior-point solver leaves between its dual point and the optimum, with room to spare.
SOLVER_SLACK = Fraction(1, 10**6)


@check(
    ROW,
    kind=Kind.CERTIFICATE,
    needs=("cvxpy",),
    planted=Planted("the value is 1% smaller", factor="0.99"),
)
def solver_meets_the_closed_form(profile: Profile, *, factor: str = "1") -> Evidence:
    """cvxpy's dual points, repaired and proved, enclose the closed form up to 1e-6."""
    rng = random.Random(331)

    def cases() -> Iterator[Case]:
        for length in profile.pick((1, 2, 3, 5, 12), (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 40)):
            for heavy in profile.pick((0, 1), (0, 1, 3)):
                weights = [rng.randint(1, 9) for _ in range(length)]
                weights[0] += heavy * sum(weights)
                p = exact.normalised(weights)
                bounds = sign_form_relaxation(np.array(exact.jacobian(p), dtype=object))
                value = Fraction(factor) * closed_form(p)
                instance = {"p": p}
                yield Case(bounds.lower, "<=", value, instance)
                yield Case(bounds.upper, ">=", value, instance)
                yield Case(bounds.upper, "<=", value + SOLVER_SLACK, instance)

    return judge(cases(), scope=f"random rational rows, L <= {profile.pick(12, 40)}")


# ------------------------------------------------------------------------------ tightness


@check(TIGHT, kind=Kind.DERIVATION, planted=Planted("subsets may miss 1/2 by 1%", miss="0.01"))
def derived_by_cases(profile: Profile, *, miss: str = "0") -> Derivation:
    """The closed form against θ = 1 − D², D the least |2p(S) − 1|."""
    top, d = sympy.symbols("m D", real=True)
    allowed = Fraction(miss)

    def near_row(rng: random.Random) -> exact.Distribution:
        # Rows without a subset of mass 1/2 but, often, with one that misses it by less than 1%.
        units = rng.randint(20, 60)
        return exact.normalised((units, units, 1) if rng.random() < 0.5 else (units, units))

    def dominant(rng: random.Random) -> Case:
        p = exact.dominant_row(rng, Fraction(rng.randint(6, 12), 12))
        return Case(exact.theta_by_definition(p), "==", closed_form(p), {"p": p})

    def bisected(rng: random.Random) -> Case:
        p = random_row(rng) if rng.random() < 0.5 else near_row(rng)
        least = min(abs(2 * mass - 1) for mass in exact.subset_masses(p))
        tight = exact.theta_by_definition(p) == closed_form(p)
        expected = 2 * max(p) >= 1 or least <= allowed
        return Case(int(tight), "==", int(expected), {"p": p})

    return Derivation(
        scope="all L, all p in the simplex",
        steps=(
            Identity("the closed form for m >= 1/2", 1 - (2 * top - 1) ** 2, 4 * top * (1 - top)),
            RuleStep("dominant", Rule.TRANSITIVITY, "θ = SDP for p_max >= 1/2", dominant),
            Identity("below 1/2 the gap is D²", 1 - (1 - d**2), d**2),
            RuleStep(
                "bisected", Rule.SUM_OF_SQUARES, "the gap is 0 if and only if D = 0", bisected
            ),
        ),
    )


@check(TIGHT, kind=Kind.ENUMERATION, planted=Planted("parts may differ by 1", imbalance=1))
def every_small_row_is_classified(profile: Profile, *, imbalance: int = 0) -> Evidence:
    """`relaxation_is_tight`, which asks the exact solver, against a partition of the weights."""

    def cases() -> Iterator[Case]:
        for weights in small_rows(profile):
            total = sum(weights)
            tight = 2 * max(weights) >= total or _partitions.imbalance(weights) <= imbalance
            yield Case(int(relaxation_is_tight(weights) is True), "==", int(tight), weights)
            yield Case(int(relaxation_is_tight(weights) is False), "==", int(not tight), weights)

    return judge(cases(), scope=SMALL_ROWS)


# ---------------------------------------------------------------------------------- ratio


@check(RATIO, kind=Kind.DERIVATION, planted=Planted("the ratio is 1% smaller", factor="0.99"))
def derived_by_rounding(profile: Profile, *, factor: str = "1") -> Derivation:
    """The largest of three groups weighs between 1/3 and 1/2; splitting it off is worth 8/9."""
    g = sympy.Symbol("g", real=True)
    ratio = Fraction(factor) * Fraction(9, 8)

    def light_row(rng: random.Random) -> exact.Distribution:
        while True:
            p = random_row(rng)
            if 2 * max(p) < 1:
                return p

    def largest_group(rng: random.Random) -> Case:
        p = light_row(rng)
        _, before, at = exact.crossing(p)
        return Case(max(before, at, 1 - before - at), ">=", Fraction(1, 3), {"p": p})

    def split(rng: random.Random) -> Case:
        share = Fraction(rng.randint(20, 30), 60)
        return Case(4 * share * (1 - share), ">=", Fraction(8, 9), {"g": share})

    def rounded(rng: random.Random) -> Case:
        p = random_row(rng)
        solution = row_relaxation(p)
        return Case(solution.value, "<=", ratio * solution.lower, {"p": p})

    def whole(rng: random.Random) -> Case:
        p = random_row(rng)
        return Case(closed_form(p), "<=", ratio * exact.theta_by_definition(p), {"p": p})

    return Derivation(
        scope="all L, all p in the simplex",
        steps=(
            RuleStep(
                "largest group",
                Rule.CONVEX_COMBINATION,
                "three masses that add up to 1: the largest is at least 1/3",
                largest_group,
            ),
            Identity(
                "4g(1 − g) over 8/9 between 1/3 and 2/3",
                4 * g * (1 - g) - sympy.Rational(8, 9),
                4 * (g - sympy.Rational(1, 3)) * (sympy.Rational(2, 3) - g),
            ),
            RuleStep("split", Rule.MONOTONICITY, "4g(1 − g) >= 8/9 for g in [1/3, 1/2]", split),
            RuleStep("rounding", Rule.ATTAINMENT, "SDP <= (9/8)·the best of the cuts", rounded),
            RuleStep("ratio", Rule.TRANSITIVITY, "SDP <= (9/8) θ", whole),
        ),
    )


@check(RATIO, kind=Kind.ENUMERATION, planted=Planted("the ratio is 1% smaller", factor="0.99"))
def ratio_at_every_small_row(profile: Profile, *, factor: str = "1") -> Evidence:
    """θ by subsets, the relaxation, its rounding, and where the ratio is attained."""
    ratio = Fraction(factor) * Fraction(9, 8)

    def cases() -> Iterator[Case]:
        for weights in small_rows(profile):
            solution = row_relaxation(weights)
            theta = theta_reference(weights)
            form = exact.quadratic_form(
                exact.jacobian(exact.normalised(weights)), solution.signs.tolist()
            )
            instance = {"weights": weights}
            yield Case(theta, "<=", solution.value, instance)
            yield Case(solution.value, "<=", ratio * theta, instance)
            yield Case(solution.lower, "==", form, instance)
            yield Case(solution.value, "<=", ratio * solution.lower, instance)
            atoms = [weight for weight in weights if weight]
            is_worst = len(atoms) in (1, 3) and len(set(atoms)) == 1
            attained = solution.value == Fraction(9, 8) * theta
            yield Case(int(attained), "==", int(is_worst), instance)

    return judge(cases(), scope=SMALL_ROWS)


@check(RATIO, kind=Kind.CERTIFICATE, planted=Planted("the share is 7/8", share="0.875"))
def more_than_the_general_shares(profile: Profile, *, share: str = "8/9") -> Evidence:
    """Goemans and Williamson's share is the least of (2/π)φ/(1 − cos φ): one φ bounds it above."""

    def cases() -> Iterator[Case]:
        phi = ball(Fraction(7, 3))
        general = 2 * phi / (flint.arb.pi() * (1 - phi.cos()))
        yield Case(general, "<", Fraction(share), "edge weights >= 0")
        yield Case(2 / flint.arb.pi(), "<", Fraction(share), "M ⪰ 0")

    return judge(cases(), scope="two constants in balls")


# ----------------------------------------------------------------------------- the norm


def random_semidefinite(rng: random.Random, size: int) -> list[list[Fraction]]:
    """BBᵀ of a small integer matrix, of any rank from 1."""
    rank = rng.randint(1, size)
    factor = [[Fraction(rng.randint(-2, 2)) for _ in range(rank)] for _ in range(size)]
    return [[sum(map(Fraction.__mul__, g, h), Fraction(0)) for h in factor] for g in factor]


@check(NORM, kind=Kind.DERIVATION, planted=Planted("M has an eigenvalue below 0", lowered=1))
def derived_by_a_square(profile: Profile, *, lowered: int = 0) -> Derivation:
    """2⟨u, Mv⟩ = ⟨u, Mu⟩ + ⟨v, Mv⟩ − ⟨u − v, M(u − v)⟩, one eigenvector after another."""
    u, v, eigenvalue = sympy.symbols("u v lambda", real=True)

    def draw(rng: random.Random) -> list[list[Fraction]]:
        size = rng.randint(1, 4)
        matrix = random_semidefinite(rng, size)
        return [
            [entry - (lowered * 3 if i == j else 0) for j, entry in enumerate(row)]
            for i, row in enumerate(matrix)
        ]

    def bilinear(rng: random.Random) -> Case:
        matrix = draw(rng)
        left = [unit_vector(rng) for _ in matrix]
        right = left if rng.random() < 0.3 else [unit_vector(rng) for _ in matrix]

        def total(first: list[Plane], second: list[Plane]) -> Fraction:
            return pairing(matrix, inner_products(first, second))

        half = (total(left, left) + total(right, right)) / 2
        return Case(total(left, right), "<=", half, {"M": matrix, "u": left, "v": right})

    def signs(rng: random.Random) -> Case:
        matrix = draw(rng)
        form = max(exact.quadratic_form(matrix, x) for x in exact.sign_vectors(len(matrix)))
        return Case(exact.inf_to_one_norm(matrix), "==", form, {"M": matrix})

    return Derivation(
        scope="all symmetric M ⪰ 0 of any size, unit vectors of any dimension",
        steps=(
            Identity(
                "along one eigenvector",
                2 * eigenvalue * u * v,
                eigenvalue * u**2 + eigenvalue * v**2 - eigenvalue * (u - v) ** 2,
            ),
            RuleStep(
                "bilinear",
                Rule.SUM_OF_SQUARES,
                "the bilinear value is at most the mean of two quadratic ones",
                bilinear,
            ),
            RuleStep("signs", Rule.PSD_BILINEAR, "‖M‖_∞→1 = max xᵀMx over signs", signs),
        ),
    )


@check(NORM, kind=Kind.ENUMERATION, planted=Planted("the dual point is 1% smaller", factor="0.99"))
def bilinear_dual_of_every_small_row(profile: Profile, *, factor: str = "1") -> Evidence:
    """½(y, y) is feasible for the form ½[[0, M], [M, 0]], and X in all four blocks attains Σ y."""

    def cases() -> Iterator[Case]:
        for weights in itertools.islice(small_rows(profile), profile.pick(250, None)):
            matrix = exact.jacobian(exact.normalised(weights))
            solution = row_relaxation(weights)
            size = len(matrix)
            zero = [Fraction(0)] * size
            lifted = [
                *([*zero, *(entry / 2 for entry in row)] for row in matrix),
                *([*(entry / 2 for entry in row), *zero] for row in matrix),
            ]
            y = [Fraction(factor) * entry / 2 for entry in (*solution.dual, *solution.dual)]
            instance = {"weights": weights}
            yield Case(int(is_positive_semidefinite(slack(lifted, y))), "==", 1, instance)
            x = [[*row, *row] for row in gram(solution)]
            yield Case(pairing(lifted, [*x, *x]), "==", solution.value, instance)

    return judge(cases(), scope=f"{SMALL_ROWS}; {profile.pick('the first 250', 'all')}")


@check(
    NORM,
    kind=Kind.CERTIFICATE,
    needs=("cvxpy",),
    planted=Planted("the value is 1% smaller", factor="0.99"),
)
def solver_meets_the_norm(profile: Profile, *, factor: str = "1") -> Evidence:
    """cvxpy on the bilinear relaxation of J: closed form enclosed, θ/τ between the bounds."""
    rng = random.Random(332)

    def cases() -> Iterator[Case]:
        for length in profile.pick((1, 2, 3, 5), (1, 2, 3, 4, 5, 6, 8, 10)):
            for _ in range(profile.pick(2, 5)):
                tau = Fraction(rng.randint(1, 8), 4)
                p = random_row(rng) if length == 3 else exact.random_distribution(rng, length)
                bounds = inf_to_one_relaxation(np.array(exact.jacobian(p, tau), dtype=object))
                value = Fraction(factor) * closed_form(p) / tau
                theta = exact.theta_by_definition(p) / tau
                instance = {"p": p, "tau": tau}
                yield Case(bounds.lower, "<=", theta, instance)
                yield Case(theta, "<=", bounds.upper, instance)
                yield Case(bounds.upper, ">=", value, instance)
                yield Case(bounds.upper, "<=", value + 4 * SOLVER_SLACK, instance)

    return judge(cases(), scope=f"random rational rows, L <= {profile.pick(6, 10)}, τ in [1/4, 2]")


# ------------------------------------------------------------------------------- any M


@check(
    PI_HALF,
    kind=Kind.DERIVATION,
    planted=Planted("M has an eigenvalue below 0", lowered=1),
)
def derived_by_hyperplanes(profile: Profile, *, lowered: int = 0) -> Derivation:
    """Grothendieck's identity, and arcsin[X] − X ⪰ 0 by the signs of a power series."""
    t, k = sympy.Symbol("t", real=True), sympy.Symbol("k", integer=True, nonnegative=True)
    slope = 1 / sympy.sqrt(1 - t**2)

    def ratio_of_central_binomials() -> tuple[sympy.Expr, sympy.Expr]:
        coefficient = sympy.factorial(2 * k) / (4**k * sympy.factorial(k) ** 2)
        following = coefficient.subs(k, k + 1)
        return sympy.gammasimp((following / coefficient).rewrite(sympy.gamma)), (2 * k + 1) / (
            2 * k + 2
        )

    def gram_of_unit_vectors(rng: random.Random, size: int) -> list[list[Fraction]]:
        v = [unit_vector(rng) for _ in range(size)]
        return inner_products(v, v)

    def hyperplane(rng: random.Random) -> Case:
        # Directions as turns; a normal at s turns sees them on the sides of cos 2π(s − direction).
        first, second = Fraction(rng.randrange(24), 24), Fraction(rng.randrange(24), 24)
        quarter = Fraction(1, 4)
        breaks = sorted({(d + e * quarter) % 1 for d in (first, second) for e in (1, -1)})
        product = Fraction(0)
        for start, stop in zip(breaks, [*breaks[1:], breaks[0] + 1], strict=True):
            middle = (start + stop) / 2
            sides = [
                1 if (middle - d + quarter) % 1 < Fraction(1, 2) else -1 for d in (first, second)
            ]
            product += (stop - start) * sides[0] * sides[1]
        apart = abs(first - second)
        # (2/π) arcsin(cos φ) = 1 − 2φ/π for an angle φ of at most half a turn.
        return Case(product, "==", 1 - 4 * min(apart, 1 - apart), {"turns": (first, second)})

    def schur(rng: random.Random) -> Case:
        size = rng.randint(1, 4)
        x, power = gram_of_unit_vectors(rng, size), 2 * rng.randint(0, 3) + 1
        z = [exact.random_rational(rng, 3) for _ in range(size)]
        form = exact.quadratic_form([[entry**power for entry in row] for row in x], z)
        return Case(form, ">=", 0, {"X": x, "power": power, "z": z})

    def rounded(rng: random.Random) -> Case:
        size = rng.randint(2, 4)
        x = gram_of_unit_vectors(rng, size)
        matrix = random_semidefinite(rng, size)
        excess = flint.arb(0)
        for i, row in enumerate(matrix):
            for j, entry in enumerate(row):
                weight = entry - (3 * lowered if i == j else 0)
                excess += ball(weight) * (ball(x[i][j]).asin() - ball(x[i][j]))
        # The diagonal alone gives Σ M_ii (π/2 − 1), so that an enclosure of 0 needs M = 0.
        return Case(excess, ">=", -Fraction(1, 10**12), {"M": matrix, "X": x})

    binomial_ratio, expected_ratio = ratio_of_central_binomials()
    return Derivation(
        scope="all symmetric M ⪰ 0 of any size",
        steps=(
            RuleStep(
                "one pair",
                Rule.GROTHENDIECK_IDENTITY,
                "E s_i s_j = (2/π) arcsin⟨v_i, v_j⟩",
                hyperplane,
            ),
            Identity("the slope f of arcsin", sympy.diff(sympy.asin(t), t), slope),
            Identity("solves (1 − t²) f' = t f", (1 - t**2) * sympy.diff(slope, t), t * slope),
            Identity(
                "so its coefficients of t^{2k} have the ratios (2k + 1)/(2k + 2), all positive",
                binomial_ratio,
                expected_ratio,
            ),
            RuleStep("powers", Rule.SCHUR_PRODUCT, "X^{∘(2k+1)} ⪰ 0", schur),
            RuleStep("rounding", Rule.TERMWISE, "⟨M, arcsin[X]⟩ >= ⟨M, X⟩", rounded),
        ),
    )


@check(
    PI_HALF,
    kind=Kind.CERTIFICATE,
    needs=("cvxpy",),
    planted=Planted("M has an eigenvalue below 0", lowered="2.5"),
)
def solver_within_pi_half(profile: Profile, *, lowered: str = "0") -> Evidence:
    """The proved upper bound against π/2 times the maximum over all signs, exactly."""
    rng = random.Random(333)
    half_pi = flint.arb.pi() / 2

    def matrices() -> Iterator[list[list[Fraction]]]:
        # Σ_{i<j} (x_i − x_j)² over three signs: 8 against 9 for the relaxation.
        yield [[Fraction(2 if i == j else -1) for j in range(3)] for i in range(3)]
        for size in profile.pick((1, 2, 4, 6), (1, 2, 3, 4, 5, 6, 8, 10)):
            for _ in range(profile.pick(2, 6)):
                yield random_semidefinite(rng, size)

    def cases() -> Iterator[Case]:
        for semidefinite in matrices():
            matrix = [
                [entry - (Fraction(lowered) if i == j else 0) for j, entry in enumerate(row)]
                for i, row in enumerate(semidefinite)
            ]
            bounds = sign_form_relaxation(np.array(matrix, dtype=object))
            largest = max(exact.quadratic_form(matrix, x) for x in exact.sign_vectors(len(matrix)))
            instance = {"M": matrix}
            yield Case(bounds.lower, "<=", largest, instance)
            yield Case(largest, "<=", bounds.upper, instance)
            if largest:
                yield Case(bounds.upper, "<=", ball(largest) * half_pi, instance)

    return judge(cases(), scope=f"random integer Gram matrices, n <= {profile.pick(6, 10)}")
