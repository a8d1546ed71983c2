"""The differential of attention written with covariances, and the bounds that it gives.

*The form.* A row of A moves by dA_ij = A_ij(dS_ij − Σ_k A_ik dS_ik), so that Σ_j dA_ij v_j is the
covariance of dS_i and the values under A_i, Σ_j A_ij dS_ij (v_j − o_i), o_i = Σ_j A_ij v_j. What
token j adds to dS_i through its key is <dU_j, a_ij>, with a_ij = κ F_j q_i; what the row's own
token adds through its query is κ<dU_i E_i, k_j>, and Σ_j A_ij k_j (v_j − o_i)ᵀ is the covariance of
keys and values. Collecting by token gives the blocks

    M_ij = Σ_h A^h_ij [W^V_h + a^h_ij (v^h_j − o^h_i)ᵀ] W^O_h + [j = i] Σ_h E^h_i C^h_i W^O_h.

*Parts.* The norm of row i is the largest Σ_j ‖M_ij y‖ over unit y. By the triangle inequality it is
at most the value part, the key part and the query part, each a norm of the same kind of its own.

*The key part.* For one head and a unit y it is Σ_j A_ij ‖a_ij‖ |<v_j − o_i, W^O y>|, and the
numbers <v_j, z> have mean absolute deviation at most θ(A_i) times half their range: Theorem 3.2
read once more (claim beyond_variance_deviation). So as a maximum over y the key part never exceeds
that of the gauge-fixed bound; and where there are several heads, or the ‖a_ij‖ differ, it does not
either, since it is the norm of the differential for moves of the keys alone, to which that bound's
proof applies. Its bound by a sum of norms, Σ_j ‖Σ_h A_ij a_ij u_ijᵀ‖₂ with u_ij = (v_j − o_i)W^O,
lets every token choose its own y and may exceed it: three equal weights on the corners of an
equilateral triangle have mean distance 1 from the middle, and θ·½ diam is 0.770.

*The value part.* Σ_j ‖x_j‖ <= √(Σ_j ‖x_j‖²/w_j) for weights w with sum 1. Applied to
x_j = Σ_h A_ij P_h y it leaves λ_max(Σ Γ_hh' P_hᵀP_h'), Γ_hh' = Σ_j A^h_ij A^h'_ij/w_j, which grows
with Γ in the order of semidefinite matrices: from Γ <= sΓ* + rI follows a bound by s times the
value at Γ* and r times that at I. So a few eigenvalue problems serve all rows.

*The query part.* Let E_i C_i W^O_h = Q_h Y_h N_h with orthonormal columns of Q_h and rows of N_h.
For unit x, y the products t_h = ‖Q_hᵀx‖‖N_h y‖ are at most 1, and by Cauchy–Schwarz their sum is at
most s = ‖[Q_1 … Q_H]‖₂‖[N_1; …; N_H]‖₂. So |xᵀ Σ_h Q_h Y_h N_h y| <= Σ t_h ‖Y_h‖₂ is at most the
sum of the s largest ‖Y_h‖₂ (the last in proportion). It is used for what is left of Y_h when a few
leading directions are split off; these have the norm of a product of two small Gram matrices.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory._bound_parts import sum_of_largest
from theory.bounds import attention_norms, covariance_bound, gauge_fixed_bound
from theory.claims import _attention_toys as toys
from theory.claims import _instances as exact
from theory.claims import _matrices as m
from theory.claims._random_attention import NO_SLACK, samples
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import (
    Case,
    Derivation,
    Evidence,
    Identity,
    Kind,
    Rule,
    RuleStep,
    judge,
)
from verify.exact import is_positive_semidefinite

FORM = Claim(
    id="beyond_covariance_form",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="D MHA(U) has the blocks M_ij = Σ_h A^h_ij [W^V_h + a^h_ij (v^h_j − o^h_i)ᵀ] W^O_h, "
    "and for j = i also Σ_h E^h_i C^h_i W^O_h, with a_ij = F_j q_i/(τ√d_h), C_i = Σ_j A_ij k_j "
    "(v_j − o_i)ᵀ/(τ√d_h) the covariance of keys and values under A_i, and E_i, F_j the "
    "differentials of q_i and k_j in their own tokens.",
    uses=("def_mha", "theorem_3_2_jacobian"),
)
KEY = Claim(
    id="beyond_covariance_key",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="For p in the simplex, vectors v_j with mean o under p and every unit y, Σ_j p_j "
    "|<v_j − o, y>| <= θ(p)·½ max ‖v_j − v_j'‖₂ over the p_j > 0: as a maximum over y the key part "
    "never exceeds that of the gauge-fixed bound. Equality for collinear values on an optimal "
    "subset and its complement. The sum of norms Σ_j p_j ‖v_j − o‖₂ is not ordered with it.",
    uses=("beyond_variance_deviation", "beyond_gauge_fixed_values"),
)
VALUE = Claim(
    id="beyond_covariance_value",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="For weights w_j > 0 with Σ w_j = 1, (Σ_j ‖x_j‖₂)² <= Σ_j ‖x_j‖₂²/w_j, with "
    "equality for w_j in proportion to ‖x_j‖. And Γ -> λ_max(Σ Γ_hh' P_hᵀP_h') is monotone and "
    "subadditive on semidefinite Γ, so that Γ <= sΓ* + rI bounds it by s times its value at Γ* "
    "plus r times its value at I.",
)
QUERY = Claim(
    id="beyond_covariance_query",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="‖Σ_h Q_h Y_h N_h‖₂, with orthonormal columns of each Q_h and rows of each N_h, is "
    "at most the largest Σ_h t_h ‖Y_h‖₂ over 0 <= t_h <= 1 with Σ t_h <= ‖[Q_h]‖₂‖[N_h]‖₂, which "
    "is the sum of the largest ‖Y_h‖₂, the last in proportion.",
)
BOUND = Claim(
    id="beyond_covariance",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="In the norm block-∞/RMS -> block-∞/RMS, ‖D MHA(U)‖ is at most the maximum over "
    "rows of a value part, a key part (the smaller of the sum of norms and the gauge-fixed one) "
    "and a query part, with biases, shared keys and values, masks, rotary positions and QK-norm "
    "of any kind.",
    uses=(
        "beyond_covariance_form",
        "beyond_covariance_key",
        "beyond_covariance_value",
        "beyond_covariance_query",
        "beyond_gauge_fixed",
    ),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="At 24 tokens of two trained models it is at most 3 times the certified norm. Theorem "
        "4.1's formula is 2,500 to 13,800 times it on SmolLM2, and 800 to 3,100 times on MiniLM, "
        "where biases make it no bound (beyond_real_models_slack; paper_checks/data).",
    ),
)


# ---------------------------------------------------------------------------------- the form


def _by_blocks(toy: toys.ToyAttention, change: m.Matrix, centre: int) -> m.Matrix:
    """Σ_j dU_j M_ij of every row from the formula; without the means if centre is 0."""
    total: m.Matrix = [[Fraction(0), Fraction(0)] for _ in toy.tokens]
    for head in toy.heads:
        queries, keys = (
            m.product(toy.tokens, weights.matrix) for weights in (head.query, head.key)
        )
        values = toy.values(head)
        rows = []
        for i, row in enumerate(head.rows):
            mean = m.product([row], values)[0]
            slope = [toy.kappa * x for x in m.apply(head.key.matrix, queries[i])]
            moved: m.Vector = [Fraction(0), Fraction(0)]
            for a, token, key, value in zip(row, change, keys, values, strict=True):
                off = [v - centre * o for v, o in zip(value, mean, strict=True)]
                own = toy.kappa * m.dot(m.product([change[i]], head.query.matrix)[0], key)
                through = m.dot(token, slope) + own
                carried = m.product([token], head.value.matrix)[0]
                moved = [
                    s + a * (c + through * x) for s, c, x in zip(moved, carried, off, strict=True)
                ]
            rows.append(moved)
        scaled = [[head.output_scale * entry for entry in line] for line in head.turn]
        total = m.plus(total, m.product(rows, scaled))
    return total


@check(FORM, kind=Kind.DERIVATION, planted=Planted("the values are not centred", centre=0))
def covariance_from_the_product_rule(profile: Profile, *, centre: int = 1) -> Derivation:
    """Σ_j dA_ij v_j as a covariance, summed over any number of keys."""
    a, s, v, mean_s, mean_v, total = sympy.symbols("a s v m o T", real=True)
    t = sympy.Symbol("t", real=True)
    q, dq, k, dk = sympy.symbols("q dq k dk", real=True)

    def summed(term: sympy.Expr) -> sympy.Expr:
        """Σ_j over keys, with Σ a = 1, Σ a s = m, Σ a v = o and Σ a s v = T."""
        polynomial = sympy.Poly(sympy.expand(term), a, s, v)
        known = {
            (1, 0, 0): sympy.Integer(1),
            (1, 1, 0): mean_s,
            (1, 0, 1): mean_v,
            (1, 1, 1): total,
        }
        return sum(c * known[powers] for powers, c in polynomial.terms())

    def against_the_product_rule(rng: random.Random) -> Case:
        toy = toys.random_toy(rng)
        change = [[exact.random_rational(rng, 2) for _ in range(2)] for _ in toy.tokens]
        apart = m.plus(toy.change(change), _by_blocks(toy, change, centre), -1)
        return Case(Fraction(m.frobenius_squared(apart)), "==", 0, {"U": toy.tokens, "dU": change})

    return Derivation(
        scope="all L, H, widths and fixed masks",
        steps=(
            Identity(
                "Σ dA_j v_j is the covariance of scores and values",
                summed(a * (s - mean_s) * v),
                summed(a * s * (v - centre * mean_v)),
            ),
            Identity(
                "a score moves through the key of token j and the query of the row's own token",
                sympy.diff((q + t * dq) * (k + t * dk), t).subs(t, 0),
                dq * k + q * dk,
            ),
            RuleStep(
                "collected by token",
                Rule.LINEARITY,
                "Σ_j dU_j M_ij = dOut_i",
                against_the_product_rule,
            ),
        ),
    )


@check(FORM, kind=Kind.CERTIFICATE, planted=Planted("the values are not centred", centre=0))
def blocks_against_the_product_rule(profile: Profile, *, centre: int = 1) -> Evidence:
    """Rational modules: the formula's image of random directions, exactly."""
    rng = random.Random(4401)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(60, 1500)):
            toy = toys.random_toy(rng)
            change = [[exact.random_rational(rng, 2) for _ in range(2)] for _ in toy.tokens]
            apart = m.plus(toy.change(change), _by_blocks(toy, change, centre), -1)
            yield Case(Fraction(m.frobenius_squared(apart)), "==", 0, {"U": toy.tokens})

    return judge(cases(), scope="rational modules, L <= 4, H <= 3, width 2, causal rows too")


# ------------------------------------------------------------------------------ the key part


def _deviation_case(rng: random.Random, scale: Fraction) -> Case:
    """(Σ p|<v − o, y>|)² against (θ·½ diam)², both rational."""
    p = exact.random_distribution(rng, rng.randint(1, 5))
    theta = exact.theta_by_definition(p)
    y = rng.choice(toys.UNIT_VECTORS)
    values: m.Matrix = [[exact.random_rational(rng, 2) for _ in range(2)] for _ in p]
    if rng.random() < 0.5:
        masses = ((x, exact.mass_of_signs(p, x)) for x in exact.sign_vectors(len(p)))
        best = next(x for x, q in masses if 4 * q * (1 - q) == theta)
        size = exact.random_rational(rng, 3)
        values = [[s * size * entry for entry in y] for s in best]
    mean = m.product([p], values)[0]
    sizes = [abs(m.dot(v, y) - m.dot(mean, y)) for v in values]
    used = [v for v, a in zip(values, p, strict=True) if a > 0]
    apart = max(m.squared([a - b for a, b in zip(v, w, strict=True)]) for v in used for w in used)
    bound = (scale * theta / 2) ** 2 * apart
    return Case(m.dot(p, sizes) ** 2, "<=", bound, {"p": p, "V": values, "y": y})


@check(KEY, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def deviation_of_projections(profile: Profile, *, factor: str = "1") -> Derivation:
    """Σ p|x − mean| on two sides of a subset, and the range of projections."""
    scale = Fraction(factor)
    inside, outside, low, high = sympy.symbols("A B a b", positive=True)
    q = inside / (inside + outside)
    mean = q * high + (1 - q) * low
    root = sympy.sqrt(3)
    return Derivation(
        scope="all L and widths, all p in the simplex",
        steps=(
            Identity(
                "values b on a subset of mass q and a elsewhere",
                q * (high - mean) + (1 - q) * (mean - low),
                4 * q * (1 - q) * (high - low) / 2,
            ),
            RuleStep(
                "projections have at most the diameter as range",
                Rule.CAUCHY_SCHWARZ,
                "Σ p_j|<v_j − o, y>| <= θ·½ diam",
                lambda rng: _deviation_case(rng, scale),
            ),
            # Corners at distance 1 from the middle, sides √3.
            Identity("the triangle's side", (1 + sympy.Rational(1, 2)) ** 2 + (root / 2) ** 2, 3),
        ),
    )


@check(
    KEY,
    kind=Kind.CERTIFICATE,
    planted=Planted("the sum of norms is never above", triangle="0.5"),
)
def not_ordered_with_the_sum_of_norms(profile: Profile, *, triangle: str = "1") -> Evidence:
    """The triangle, where the sum of norms is larger, and −1, 0, 1, where it is smaller."""
    mean_distance = Fraction(triangle)
    theta = exact.theta_by_definition((Fraction(1, 3),) * 3)
    row = (Fraction(1, 4), Fraction(1, 2), Fraction(1, 4))
    on_a_line = m.dot(row, (1, 0, 1))
    cases = [
        Case(mean_distance**2, ">", theta**2 * Fraction(3, 4), {"V": "equilateral triangle"}),
        Case(on_a_line, "<", exact.theta_by_definition(row), {"V": (-1, 0, 1), "p": row}),
    ]
    return judge(cases, scope="two rows, squares of lengths compared")


@check(KEY, kind=Kind.CERTIFICATE, planted=Planted("the bound is 1% smaller", factor="0.99"))
def exact_deviations(profile: Profile, *, factor: str = "1") -> Evidence:
    """Rational rows and values, collinear ones on optimal subsets too."""
    rng = random.Random(4402)
    cases = (_deviation_case(rng, Fraction(factor)) for _ in range(profile.pick(300, 5000)))
    return judge(cases, scope="rational rows and values, L <= 5, width 2")


# ---------------------------------------------------------------------------- the value part


def _weights_case(rng: random.Random, scale: Fraction) -> Case:
    count = rng.randint(1, 5)
    sizes = [Fraction(rng.randint(0, 9)) for _ in range(count)]
    weights = [Fraction(rng.randint(1, 9)) for _ in range(count)]
    if rng.random() < 0.5 and all(sizes):
        weights = sizes
    shares = exact.normalised(weights)
    bound = sum((s**2 / w for s, w in zip(sizes, shares, strict=True)), Fraction(0))
    return Case(sum(sizes, Fraction(0)) ** 2, "<=", scale * bound, {"‖x‖": sizes, "w": shares})


def _covered_case(rng: random.Random, scale: Fraction) -> Case:
    """u·I minus the weighted sum at Γ is semidefinite for the covering bound u at Γ <= sΓ* + rI.

    Two heads with P_1ᵀP_1, P_2ᵀP_2 diagonal, and Γ diagonal, so that λ_max is a largest entry.
    """
    squares = [[Fraction(rng.randint(0, 5)) for _ in range(2)] for _ in range(2)]
    gamma = [Fraction(rng.randint(0, 6)) for _ in range(2)]
    reference = [Fraction(rng.randint(0, 6)) for _ in range(2)]
    share = Fraction(rng.randint(0, 6), 4)
    rest = max(Fraction(0), *(g - share * r for g, r in zip(gamma, reference, strict=True)))
    if rng.random() < 0.4:
        reference, share, rest = gamma, Fraction(1), Fraction(0)

    def largest(weights: list[Fraction]) -> Fraction:
        return max(
            sum((w * x[e] for w, x in zip(weights, squares, strict=True)), Fraction(0))
            for e in range(2)
        )

    bound = share * largest(reference) + rest * largest([Fraction(1)] * 2)
    return Case(largest(gamma), "<=", scale * bound, {"Γ": gamma, "Γ*": reference, "s": share})


@check(VALUE, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def weights_and_covers(profile: Profile, *, factor: str = "1") -> Derivation:
    """Cauchy–Schwarz with weights, its gap for two tokens, and monotonicity in Γ."""
    scale = Fraction(factor)
    x, y, w = sympy.symbols("x y w", positive=True)
    g11, g12, g22, s, r, h1, h2, p1, p2 = sympy.symbols("g11 g12 g22 s r h1 h2 p1 p2", real=True)
    form = g11 * p1**2 + 2 * g12 * p1 * p2 + g22 * p2**2
    covered = form.subs({g11: s * h1 + r, g22: s * h2 + r, g12: 0}, simultaneous=True)
    return Derivation(
        scope="all L, H and widths",
        steps=(
            Identity(
                "x²/w + y²/(1 − w) − (x + y)² is a square",
                x**2 / w + y**2 / (1 - w) - (x + y) ** 2,
                (x * (1 - w) - y * w) ** 2 / (w * (1 - w)),
            ),
            RuleStep(
                "all tokens",
                Rule.CAUCHY_SCHWARZ,
                "(Σ‖x_j‖)² <= Σ‖x_j‖²/w_j",
                lambda rng: _weights_case(rng, scale),
            ),
            # Coordinates in which Γ* is diagonal; p_h stands for a component of P_h y.
            Identity(
                "the form at sΓ* + rI",
                covered,
                s * (h1 * p1**2 + h2 * p2**2) + r * (p1**2 + p2**2),
            ),
            RuleStep(
                "covering",
                Rule.MONOTONICITY,
                "λ_max at Γ <= s·(at Γ*) + r·(at I)",
                lambda rng: _covered_case(rng, scale),
            ),
        ),
    )


@check(VALUE, kind=Kind.CERTIFICATE, planted=Planted("the bound is 1% smaller", factor="0.99"))
def exact_covers(profile: Profile, *, factor: str = "1") -> Evidence:
    """Weights, diagonal and full rational Γ; covers that are equal to Γ attain the bound."""
    rng = random.Random(4403)
    scale = Fraction(factor)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(150, 3000)):
            yield _weights_case(rng, scale)
            yield _covered_case(rng, scale)
            yield _semidefinite_cover(rng, scale)

    return judge(cases(), scope="up to five tokens, two heads with outputs of width 2")


def _semidefinite_cover(rng: random.Random, scale: Fraction) -> Case:
    """P_h = p_h on outputs of width 1: the value at Γ is pᵀΓp. Γ <= sΓ* + rI by exact LDLᵀ."""
    half = m.random_matrix(rng, 2, 2, 3)
    gamma = m.product(half, m.transposed(half))
    share = Fraction(rng.randint(0, 4), 4)
    reference = [[gamma[0][0], Fraction(0)], [Fraction(0), gamma[1][1]]]
    rest = Fraction(0)
    gap = m.plus([[share * entry for entry in row] for row in reference], gamma, -1)
    while not is_positive_semidefinite(
        [
            [Fraction(e) + (rest if i == j else 0) for j, e in enumerate(line)]
            for i, line in enumerate(gap)
        ]
    ):
        rest = 2 * rest + Fraction(1, 4)
    p = [exact.random_rational(rng, 2) for _ in range(2)]
    if rng.random() < 0.3:
        gamma, share, rest = reference, Fraction(1), Fraction(0)
    value = exact.quadratic_form(gamma, p)
    bound = share * exact.quadratic_form(reference, p) + rest * m.squared(p)
    return Case(value, "<=", scale * bound, {"Γ": gamma, "s": share, "r": rest, "p": p})


# ---------------------------------------------------------------------------- the query part


def _overlap_case(rng: random.Random, scale: Fraction) -> Case:
    """Rank-one heads in the plane: Q_h and N_h are unit vectors, Y_h >= 0 a number.

    The bilinear form at rational unit x and y against the sum of the largest; ‖[Q_h]‖₂‖[N_h]‖₂ is
    bounded by the Frobenius norms √H, or is 1 for orthogonal vectors.
    """
    x, y = rng.choice(toys.UNIT_VECTORS), rng.choice(toys.UNIT_VECTORS)
    count = rng.randint(1, 2)
    sizes = [Fraction(rng.randint(0, 8)) for _ in range(count)]
    if rng.random() < 0.5:
        lefts, rights = ([v, (-v[1], v[0])][:count] for v in (x, y))
        share = Fraction(1)
    else:
        lefts, rights = ([rng.choice(toys.UNIT_VECTORS) for _ in range(count)] for _ in range(2))
        if rng.random() < 0.5:
            lefts, rights = [x] * count, [y] * count
        share = Fraction(count)
    form = sum(
        (
            n * m.dot(left, x) * m.dot(right, y)
            for n, left, right in zip(sizes, lefts, rights, strict=True)
        ),
        Fraction(0),
    )
    descending = sorted(sizes, reverse=True)
    bound = sum(
        (min(Fraction(1), max(share - h, Fraction(0))) * n for h, n in enumerate(descending)),
        Fraction(0),
    )
    return Case(form, "<=", scale * bound, {"‖Y‖": sizes, "x": x, "y": y})


@check(QUERY, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def shares_of_the_heads(profile: Profile, *, factor: str = "1") -> Derivation:
    """Σ t_h <= s by Cauchy–Schwarz, and the best way to spend s."""
    scale = Fraction(factor)
    a1, a2, b1, b2 = sympy.symbols("a_1 a_2 b_1 b_2", nonnegative=True)
    large, small, spent = sympy.symbols("n_1 n_2 t", nonnegative=True)
    return Derivation(
        scope="all H and widths",
        steps=(
            Identity(
                "Lagrange: Σa²Σb² − (Σab)² is a square",
                (a1**2 + a2**2) * (b1**2 + b2**2) - (a1 * b1 + a2 * b2) ** 2,
                (a1 * b2 - a2 * b1) ** 2,
            ),
            Identity(
                "moving a share from the smaller to the larger",
                (large + spent * small) - ((1 - spent) * large + 2 * spent * small),
                spent * (large - small),
            ),
            RuleStep(
                "bilinear form",
                Rule.CAUCHY_SCHWARZ,
                "|xᵀ Σ Q_hY_hN_h y| <= Σ t_h‖Y_h‖",
                lambda rng: _overlap_case(rng, scale),
            ),
        ),
    )


@check(QUERY, kind=Kind.ENUMERATION, planted=Planted("one head more", more=1))
def best_shares_among_vertices(profile: Profile, *, more: int = 0) -> Evidence:
    """theory's sum of the largest against every vertex of {0 <= t <= 1, Σ t <= s}: exact in floats,
    since all numbers are small multiples of 1/4."""
    largest = profile.pick(3, 5)

    def cases() -> Iterator[Case]:
        for sizes in exact.weight_vectors(3, largest):
            for quarters in range(13):
                share = Fraction(quarters, 4)
                best = max(_vertex_values(sizes, share))
                ours = sum_of_largest(np.array([sizes], float), quarters / 4 + more)[0]
                yield Case(Fraction(float(ours)), "==", best, {"n": sizes, "s": share})

    return judge(cases(), scope=f"three heads with norms 0..{largest}, s = 0, 1/4, …, 3")


def _vertex_values(sizes: tuple[int, ...], share: Fraction) -> Iterator[Fraction]:
    """Σ t_h n_h at the vertices: all t_h are 0 or 1 but at most one, which takes what is left."""
    for ones in exact.sign_vectors(len(sizes)):
        chosen = [h for h, s in enumerate(ones) if s > 0]
        if len(chosen) > share:
            continue
        value = Fraction(sum(sizes[h] for h in chosen))
        left = min(Fraction(1), share - len(chosen))
        others = [n for h, n in enumerate(sizes) if h not in chosen]
        yield value + left * max(others, default=0)


# --------------------------------------------------------------------------------- the bound


def _parts_case(rng: random.Random, scale: Fraction) -> Case:
    """Tokens of width 1: Σ_j |M_ij| against value + key + query, each an absolute value."""
    row = toys.random_scalar_row(rng)
    if rng.random() < 0.4:
        # One visible token: the value part is all there is.
        row = toys.ScalarRow(
            tokens=row.tokens[:1],
            at=0,
            heads=tuple(
                toys.ScalarHead(
                    query=h.query, key=h.key, value=h.value, output=h.output, row=(Fraction(1),)
                )
                for h in row.heads
            ),
            biases=row.biases,
            kappa=row.kappa,
        )
    length = len(row.tokens)
    value, key, query = [Fraction(0)] * length, [Fraction(0)] * length, Fraction(0)
    for h, head in enumerate(row.heads):
        q, keys, values = row.figures(h)
        mean = m.dot(head.row, values)
        for j, a in enumerate(head.row):
            off = values[j] - mean
            value[j] += a * head.value * head.output
            key[j] += a * row.kappa * head.key * q * off * head.output
            query += a * row.kappa * head.query * keys[j] * off * head.output
    bound = exact.one_norm(value) + exact.one_norm(key) + abs(query)
    return Case(row.norm(), "<=", scale * bound, row)


@check(BOUND, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def three_parts(profile: Profile, *, factor: str = "1") -> Derivation:
    """The block in its three terms, and the triangle inequality for the sum over tokens."""
    scale = Fraction(factor)
    a, v, slope, off, own, output = sympy.symbols("A V a u C O", commutative=False)
    return Derivation(
        scope="all L, H and widths, fixed masks; block-∞/RMS norm",
        steps=(
            Identity(
                "value, key and query term of a block",
                a * (v + slope * off) * output + own * output,
                a * v * output + a * slope * off * output + own * output,
            ),
            RuleStep(
                "Σ_j over tokens",
                Rule.TRIANGLE_INEQUALITY,
                "Σ_j‖M_ij y‖ <= value + key + query",
                lambda rng: _parts_case(rng, scale),
            ),
        ),
    )


@check(BOUND, kind=Kind.CERTIFICATE, planted=Planted("the bound is 1% smaller", factor="0.99"))
def parts_of_rows_of_width_one(profile: Profile, *, factor: str = "1") -> Evidence:
    """Rational rows with biases; where one key is visible the value part is the norm."""
    rng = random.Random(4404)
    cases = (_parts_case(rng, Fraction(factor)) for _ in range(profile.pick(300, 5000)))
    return judge(cases, scope="tokens and heads of width 1, L <= 5, H <= 3, any row of A")


@check(BOUND, kind=Kind.FLOAT, planted=Planted("the query part is left out", query=0.0))
def random_modules_of_every_variety(profile: Profile, *, query: float = 1.0) -> Evidence:
    """theory.bounds.covariance_bound against certified norms; its key part never above the
    gauge-fixed one."""

    def cases() -> Iterator[Case]:
        for sample in samples(profile):
            norms = attention_norms(sample.at.attention)
            ours = covariance_bound(sample.at, norms=norms)
            rows = ours.rows_L - (1.0 - query) * ours.query_L
            yield Case(sample.lower, "<=", float(np.max(rows)), sample.described())
            fixed = gauge_fixed_bound(sample.at, norms=norms).key_L
            for key, other in zip(ours.key_L, fixed, strict=True):
                yield Case(float(key), "<=", float(other), sample.described())

    return judge(cases(), scope="random modules of every variety", tolerance=NO_SLACK)
