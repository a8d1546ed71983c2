"""The gauge-fixed bound: ranges and diameters where Theorem 4.1 has maxima, row by row.

*Scores.* (Diag p − ppᵀ)1 = 0, so a constant added to a row of DS changes nothing: subtract the
middle of its range, and Theorem 3.2 holds with half the range in place of the largest entry.

*Values.* Every row a of DA sums to 0. Its positive part and its negative part have the same mass
‖a‖₁/2, so Σ a_j v_j is ‖a‖₁/2 times the difference of two means of values, and such a difference is
at most the diameter of the values. With two values the bound is met, so no other function of the
set {v_j} can replace half the diameter.

*The range of DS_i.* Over the visible j, <dq_i, k_j> has half range at most ½ diam_j(E_i k_j) for
‖du_i‖ <= 1, since the difference of two entries is <du_i, E_i(k_j − k_j')>. The entries <q_i, dk_j>
come from different tokens j; two of them differ by at most the sum of their sizes ‖F_j q_i‖. Here
E_i and F_j are the differentials of query i and key j in their own tokens: W^Q and W^K, behind the
Jacobian of a normalisation of queries and keys and a rotation where the module has them.

*Heads.* The head outputs stand side by side in one row, so their squares add, and W^O acts on the
row as a whole.

Nothing asks for bias-free projections, for heads with keys of their own, or for all keys to be
visible. Biases enter in q_i, k_j and v_j; those of the values cancel in the differences, and so do
those of the keys where no normalisation and no rotation stands between them and the scores.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.bounds import attention_norms, gauge_fixed_bound, measured_head_norm_bound
from theory.claims import _attention_toys as toys
from theory.claims import _instances as exact
from theory.claims import _matrices as m
from theory.claims._random_attention import NO_SLACK, samples
from verify.claims import Claim, Planted, Profile, check
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

SCORES = Claim(
    id="beyond_gauge_fixed_scores",
    paper_ref="beyond Theorem 4.1, rows of DA",
    section="beyond",
    statement="‖J_τ s‖₁ <= (θ(p)/τ)·(max s − min s)/2 for every s in R^L: half the range suffices, "
    "over the keys that carry weight. Equality where s takes two values on the two sides of an "
    "optimal subset.",
    uses=("theorem_3_2_norm",),
)
VALUES = Claim(
    id="beyond_gauge_fixed_values",
    paper_ref="beyond Theorem 4.1, action on values",
    section="beyond",
    statement="For every row a with Σ a_j = 0, ‖Σ_j a_j v_j‖₂ <= ‖a‖₁·½ max_{j,j'} ‖v_j − v_j'‖₂ "
    "over the j with a_j ≠ 0. No smaller constant serves for any set of values: two of them at the "
    "largest distance attain it.",
)
BOUND = Claim(
    id="beyond_gauge_fixed",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="In the norm block-∞/RMS -> block-∞/RMS, ‖D MHA(U)‖ <= ‖W^O‖₂ max_i √Σ_h (‖W^V_h‖₂ + "
    "(θ_hi/(τ√d_h))·[½ diam_j(E_i k_j) + max_j ‖F_j q_i‖₂]·½ diam_j(v_j))², diameters and maxima "
    "over the visible keys, E_i and F_j the differentials of q_i and k_j in their own tokens (W^Q "
    "and W^K). The maximum over j can be the mean of the two largest, and 0 where one key is "
    "visible.",
    uses=(
        "beyond_gauge_fixed_scores",
        "beyond_gauge_fixed_values",
        "theorem_4_1_step_value",
        "theorem_4_1_step_concat",
        "theorem_4_1_step_output",
    ),
)
VARIETIES = Claim(
    id="beyond_gauge_fixed_varieties",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="The gauge-fixed bound holds with biases on every projection, grouped and "
    "multi-query heads, causal, padding, sliding-window and other fixed masks, rotary positions "
    "(which keep all norms) and normalised queries and keys (whose Jacobians are factors of E_i "
    "and F_j). Biases of values do not change it, and those of keys do not where keys are neither "
    "normalised nor rotated.",
    uses=("beyond_gauge_fixed",),
)
COARSE = Claim(
    id="beyond_gauge_fixed_coarse",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="Under the hypotheses of Theorem 4.1 its 2B² can be replaced by r(r + B), where r is "
    "half the diameter of {u_i} and B = max ‖u_i‖₂; r <= B, so that it is never larger, and it is "
    "smaller the more the tokens share a direction.",
    uses=("beyond_gauge_fixed",),
)

SHORTER = Planted("the bound is 1% smaller", factor="0.99")


# -------------------------------------------------------------------------------- the scores


def _score_case(rng: random.Random, scale: Fraction) -> Case:
    p = exact.random_distribution(rng, rng.randint(1, 6))
    tau = Fraction(rng.randint(1, 12), 4)
    change: list[Fraction] = [exact.random_rational(rng, 3) for _ in p]
    theta = exact.theta_by_definition(p)
    if rng.random() < 0.5:
        masses = ((x, exact.mass_of_signs(p, x)) for x in exact.sign_vectors(len(p)))
        best = next(x for x, q in masses if 4 * q * (1 - q) == theta)
        low, high = exact.random_rational(rng, 5), exact.random_rational(rng, 5)
        change = [high if s > 0 else low for s in best]
    image = exact.one_norm(exact.times(exact.jacobian(p, tau), change))
    carried = [s for s, a in zip(change, p, strict=True) if a > 0]
    bound = scale * theta / tau * toys.half_range(carried)
    return Case(image, "<=", bound, {"p": p, "τ": tau, "s": change})


@check(SCORES, kind=Kind.DERIVATION, planted=SHORTER)
def constants_do_not_matter(profile: Profile, *, factor: str = "1") -> Derivation:
    """p_i(s_i − Σ p_k s_k) is unchanged by s -> s − c, and centring halves the range."""
    scale = Fraction(factor)
    p, s, c, rest, mass, low, high = sympy.symbols("p s c r m a b", real=True)
    return Derivation(
        scope="all L, p in the simplex, s and τ > 0",
        steps=(
            # Of Σ p_k s_k the part of i is p s, of the others r with mass 1 − p.
            Identity(
                "invariance",
                (p * ((s - c) - (p * (s - c) + rest - (mass - p) * c))).subs(mass, 1),
                p * (s - (p * s + rest)),
            ),
            Identity(
                "centred at the middle",
                high - (low + high) / 2,
                (high - low) / 2,
            ),
            RuleStep(
                "Theorem 3.2 for s minus its middle",
                Rule.OPERATOR_NORM,
                "‖J_τ s‖₁ <= (θ/τ)·½ range",
                lambda rng: _score_case(rng, scale),
            ),
        ),
    )


@check(SCORES, kind=Kind.CERTIFICATE, planted=SHORTER)
def exact_score_changes(profile: Profile, *, factor: str = "1") -> Evidence:
    """Rational rows and changes of two and of many values."""
    rng = random.Random(4301)
    cases = (_score_case(rng, Fraction(factor)) for _ in range(profile.pick(300, 5000)))
    return judge(cases, scope="rational rows, L <= 6, zeros and ties, many τ")


# -------------------------------------------------------------------------------- the values


def _value_case(rng: random.Random, scale: Fraction) -> Case:
    length = rng.randint(1, 5)
    free = [exact.random_rational(rng, 3) for _ in range(length)]
    row = [a - sum(free, Fraction(0)) / length for a in free]
    values: m.Matrix = [[exact.random_rational(rng, 2) for _ in range(2)] for _ in range(length)]
    if rng.random() < 0.5:
        ends = [[exact.random_rational(rng, 2) for _ in range(2)] for _ in range(2)]
        values = [ends[a >= 0] for a in row]
    used = [v for v, a in zip(values, row, strict=True) if a != 0]
    image = m.squared(m.product([row], values)[0])
    apart = max(
        (m.squared([a - b for a, b in zip(v, w, strict=True)]) for v in used for w in used),
        default=Fraction(0),
    )
    bound = (scale * exact.one_norm(row) / 2) ** 2 * apart
    return Case(image, "<=", bound, {"a": row, "V": values})


@check(VALUES, kind=Kind.DERIVATION, planted=SHORTER)
def difference_of_two_means(profile: Profile, *, factor: str = "1") -> Derivation:
    """The positive and the negative part of a, each of mass ‖a‖₁/2."""
    scale = Fraction(factor)
    plus, minus, total = sympy.symbols("v_plus v_minus S", real=True)
    positive, negative = sympy.symbols("P N", positive=True)
    # Σ a_j = 0 and Σ |a_j| = S.
    halves = sympy.solve([positive - negative, positive + negative - total], [positive, negative])
    return Derivation(
        scope="all L, all widths, all rows that sum to 0",
        steps=(
            Identity("equal masses", halves[positive], total / 2),
            # v_plus and v_minus are the means of the values under the two parts of a.
            Identity(
                "Σ a_j v_j from the two means",
                (positive * plus - negative * minus).subs(halves),
                total / 2 * (plus - minus),
            ),
            RuleStep(
                "two means of values differ by at most the diameter",
                Rule.CONVEX_COMBINATION,
                "‖Σ a_j v_j‖ <= ‖a‖₁·½ diam",
                lambda rng: _value_case(rng, scale),
            ),
        ),
    )


@check(VALUES, kind=Kind.CERTIFICATE, planted=SHORTER)
def exact_rows_of_sum_zero(profile: Profile, *, factor: str = "1") -> Evidence:
    """Rational rows of sum 0; with two values the bound is an equality."""
    rng = random.Random(4302)
    cases = (_value_case(rng, Fraction(factor)) for _ in range(profile.pick(300, 5000)))
    return judge(cases, scope="rational rows and values, L <= 5, width 2")


# --------------------------------------------------------------------------------- the bound


def _bound_case(row: toys.ScalarRow, scale: Fraction, *, squares: bool = True) -> Case:
    """Σ_j |M_ij| squared against the bound squared, tokens of width 1."""
    heads = range(len(row.heads))
    terms = [sum(toys.gauge_fixed_parts(row, h), Fraction(0)) for h in heads]
    total = sum((term**2 for term in terms), Fraction(0)) if squares else sum(terms) ** 2
    output = sum((head.output**2 for head in row.heads), Fraction(0))
    return Case(row.norm() ** 2, "<=", scale**2 * output * total, row)


@check(BOUND, kind=Kind.DERIVATION, planted=SHORTER)
def ranges_of_the_score_changes(profile: Profile, *, factor: str = "1") -> Derivation:
    """The two parts of a difference of score changes, and the bound that they give together."""
    scale = Fraction(factor)
    dq, k1, k2, q, dk1, dk2, kappa = sympy.symbols("dq k_1 k_2 q dk_1 dk_2 kappa", real=True)
    first = kappa * (dq * k1 + q * dk1)
    second = kappa * (dq * k2 + q * dk2)

    def parts(rng: random.Random) -> Case:
        row = toys.balanced_row(rng) if rng.random() < 0.5 else toys.random_scalar_row(rng)
        return _bound_case(row, scale)

    return Derivation(
        scope="all L, d, d_h, H, τ > 0, fixed masks; block-∞/RMS norm",
        steps=(
            Identity(
                "differences of score changes",
                first - second,
                kappa * (dq * (k1 - k2) + q * (dk1 - dk2)),
            ),
            RuleStep("one row", Rule.TRANSITIVITY, "‖M_i·‖ <= bound of row i", parts),
        ),
    )


@check(BOUND, kind=Kind.CERTIFICATE, planted=SHORTER)
def tokens_of_width_one(profile: Profile, *, factor: str = "1") -> Evidence:
    """Row norms and bounds are rational; under a large query the bound is met up to 0.1%."""
    rng = random.Random(4303)
    scale = Fraction(factor)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(200, 4000)):
            yield _bound_case(toys.random_scalar_row(rng), scale)
            yield _bound_case(toys.balanced_row(rng), scale)

    return judge(cases(), scope="tokens and heads of width 1, L <= 6, H <= 3, any row of A, biases")


@check(
    BOUND,
    kind=Kind.FLOAT,
    planted=Planted("the value path is left out", value=0.0),
)
def never_above_the_measured_norms(profile: Profile, *, value: float = 1.0) -> Evidence:
    """theory.bounds: the gauge-fixed bound against Theorem 4.1's proof with measured norms, and
    the certified norm against both."""

    def cases() -> Iterator[Case]:
        for sample in samples(profile):
            norms = attention_norms(sample.at.attention)
            fixed = gauge_fixed_bound(sample.at, norms=norms)
            measured = measured_head_norm_bound(sample.at, norms=norms)
            bound = fixed.value - (1.0 - value) * float(fixed.value_L[fixed.row])
            yield Case(fixed.value, "<=", measured.value + fixed.margin, sample.described())
            yield Case(sample.lower, "<=", bound, sample.described())

    return judge(cases(), scope="random modules of every variety", tolerance=NO_SLACK)


# ------------------------------------------------------------------------------- corollaries


@check(VARIETIES, kind=Kind.DERIVATION, planted=SHORTER)
def biases_and_rotations(profile: Profile, *, factor: str = "1") -> Derivation:
    """What a bias leaves unchanged, and that a rotation keeps norms."""
    scale = Fraction(factor)
    u1, u2, w, b, angle, x, y = sympy.symbols("u_1 u_2 w b phi x y", real=True)
    turned = sympy.Matrix(
        [[sympy.cos(angle), -sympy.sin(angle)], [sympy.sin(angle), sympy.cos(angle)]]
    ) * sympy.Matrix([x, y])

    def with_biases(rng: random.Random) -> Case:
        row = toys.balanced_row(rng)
        shifts = tuple(
            (q, exact.random_rational(rng, 9), exact.random_rational(rng, 9))
            for q, _, _ in row.biases
        )
        moved = toys.ScalarRow(
            tokens=row.tokens, at=row.at, heads=row.heads, biases=shifts, kappa=row.kappa
        )
        return _bound_case(moved, scale)

    return Derivation(
        scope="all biases, rotations, groups and fixed masks",
        steps=(
            Identity("biases cancel in differences", (u1 * w + b) - (u2 * w + b), (u1 - u2) * w),
            Identity("a rotation keeps norms", turned.dot(turned), x**2 + y**2),
            RuleStep("with biases", Rule.TRANSITIVITY, "‖M_i·‖ <= bound of row i", with_biases),
        ),
    )


@check(VARIETIES, kind=Kind.FLOAT, planted=Planted("the bound is half as large", factor=0.5))
def random_modules_of_every_variety(profile: Profile, *, factor: float = 1.0) -> Evidence:
    """theory.bounds.gauge_fixed_bound against certified lower bounds of the norm."""

    def cases() -> Iterator[Case]:
        for sample in samples(profile):
            bound = gauge_fixed_bound(sample.at).value
            yield Case(sample.lower, "<=", factor * bound, sample.described())

    return judge(cases(), scope="random modules of every variety", tolerance=NO_SLACK)


def _coarse_case(rng: random.Random, scale: Fraction) -> Case:
    """r(r + B) against 2B², the tokens on a line through the origin in many draws."""
    tokens = [exact.random_rational(rng, 4) for _ in range(rng.randint(1, 5))]
    if rng.random() < 0.4:
        tokens = [*tokens, *(-u for u in tokens)]
    reach, half = max(abs(u) for u in tokens), toys.half_range(tokens)
    return Case(half * (half + reach), "<=", scale * 2 * reach**2, {"U": tokens})


@check(COARSE, kind=Kind.DERIVATION, planted=SHORTER)
def products_of_norms(profile: Profile, *, factor: str = "1") -> Derivation:
    """Each diameter and maximum by products of norms; r = B for tokens ±u."""
    scale = Fraction(factor)
    q, k, v, half, reach = sympy.symbols("Q K V r B", nonnegative=True)
    gap = sympy.Symbol("s", nonnegative=True)

    def coarse_bound(rng: random.Random) -> Case:
        row = toys.balanced_row(rng)
        plain = toys.ScalarRow(
            tokens=row.tokens,
            at=row.at,
            heads=row.heads,
            biases=((Fraction(0),) * 3,),
            kappa=row.kappa,
        )
        (head,) = plain.heads
        theta = exact.theta_by_definition(head.row)
        r, b = toys.half_range(plain.tokens), max(abs(u) for u in plain.tokens)
        product = abs(head.query * head.key * head.value)
        bound = abs(head.value) + theta * plain.kappa * r * (r + b) * product
        return Case(plain.norm(), "<=", bound * abs(head.output), plain)

    return Derivation(
        scope="all L, d, d_h, H and τ > 0",
        steps=(
            Identity(
                "(½diam(W^Q k) + ‖W^K q‖)·½diam(v)",
                (q * k * half + k * q * reach) * (v * half),
                half * (half + reach) * q * k * v,
            ),
            Identity(
                "2B² − r(r + B) for B = r + s",
                (2 * reach**2 - half * (half + reach)).subs(reach, half + gap),
                3 * half * gap + 2 * gap**2,
            ),
            RuleStep("the norm", Rule.TRANSITIVITY, "‖M_i·‖ <= coarse bound", coarse_bound),
            RuleStep(
                "r <= B",
                Rule.TRIANGLE_INEQUALITY,
                "r(r + B) <= 2B²",
                lambda rng: _coarse_case(rng, scale),
            ),
        ),
    )


@check(COARSE, kind=Kind.CERTIFICATE, planted=SHORTER)
def never_above_the_papers(profile: Profile, *, factor: str = "1") -> Evidence:
    """r(r + B) <= 2B² at rational tokens, with equality for sets that contain −u with u."""
    rng = random.Random(4304)
    cases = (_coarse_case(rng, Fraction(factor)) for _ in range(profile.pick(300, 5000)))
    return judge(cases, scope="tokens of width 1, L <= 10")
