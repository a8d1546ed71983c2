"""Appendix E, Lipschitz analysis of attention: what can be checked of the cited results.

The cited papers are not part of this project. Each claim is a statement that the paper's sentence
implies, proved here from the definitions; what it leaves unchecked is said in the claim.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.claims import _matrices as matrices
from theory.claims.remark_b_2 import power_sum
from theory.derivations import self_attention as symbolic
from theory.derivations.softmax import softmax_vector, tau
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import Ball, ball, precision

KIM = Claim(
    id="kim_2021",
    paper_ref="Appendix E, on Kim et al. (2021)",
    section="E",
    statement="Dot-product self-attention X -> softmax(X W_Q W_Kᵀ Xᵀ/√d_h) X W_V on L >= 3 tokens "
    "has no finite Lipschitz constant on R^{L×d}, in any norm, whenever W_Q W_Kᵀ ≠ 0 and W_V ≠ 0: "
    "among tokens 0, Bv, −Bv, 0, …, the output at the first token changes at a rate that grows "
    "like B². The same holds under a causal mask for the last token, whose row sees all others. "
    "Not checked: the remedies and constants of the cited paper.",
)
YUDIN = Claim(
    id="yudin_2025",
    paper_ref="Appendix E, on Yudin et al. (2025)",
    section="E",
    statement="Order statistics of a row bound the softmax Jacobian's spectral norm on both sides: "
    "for L >= 2 and entries p_(1) >= p_(2) >= …, p_(2)/τ <= ‖J‖_{2→2} <= p_(1)/τ, with equality on "
    "both sides where p_(1) = p_(2). Not checked: the sharper bounds of the cited paper.",
    uses=("theorem_3_2_jacobian",),
)
CASTIN = Claim(
    id="castin_2024",
    paper_ref="Appendix E, on Castin et al. (2024)",
    section="E",
    statement="In the Frobenius norm the Lipschitz constant of self-attention grows at least like "
    "√L: for scalar tokens, unit weights and L >= 3, at x_1 = 2c, x_j = c for j >= 2, with "
    "c = √log(L − 1), each of the L − 1 outputs j >= 2 changes with x_1 at the rate "
    "1/2 + log(L − 1)/4, which makes at least √(L − 1)/2 together. Not checked: the cited paper's "
    "upper bounds and its mean-field regime.",
)
NAIR = Claim(
    id="nair_2025",
    paper_ref="Appendix E, on Nair (2025)",
    section="E",
    statement="For every L >= 2 and r in [1, ∞], the Lipschitz constant of softmax (τ = 1) from "
    "ℓ_r to ℓ_r on R^L is exactly 1/2: no pair of logit vectors exceeds it, and pairs near a tie "
    "of two entries, with all others far below, come arbitrarily close.",
    uses=("remark_b_2_nair",),
)
EDELMAN = Claim(
    id="edelman_2022",
    paper_ref="Appendix E, on Edelman et al. (2022), Lemma A.14",
    section="E",
    statement="One spectral factor is never larger than two: ‖W_K W_Qᵀ‖₂ <= ‖W_K‖₂‖W_Q‖₂ for all "
    "W_Q, W_K in R^{d×d_h}, with equality for W_K = W_Q; for W_K = kvᵀ, W_Q = qwᵀ the ratio of the "
    "two sides is |⟨v, w⟩|/(‖v‖‖w‖), any number in [0, 1]. It bounds the scores: "
    "|xᵀW_Q W_Kᵀy| <= ‖W_K W_Qᵀ‖₂‖x‖‖y‖. Not checked: the lemma itself and its covering numbers.",
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="Where Theorem 4.1 bounds the change of a score by ‖W_Q‖₂‖W_K‖₂, its proof needs no "
        "more than the bilinear bound above, so the single factor ‖W_Q W_Kᵀ‖₂ of the cited lemma "
        "may stand there too and is never larger. The four projections stay distinguishable: W_V "
        "and W_O are untouched.",
    ),
)


# ------------------------------------------------------------------------ Kim et al.: unbounded


def _live_direction(
    bilinear: matrices.Matrix, values: matrices.Matrix
) -> list[matrices.Exact] | None:
    """v with Mv ≠ 0 and W_Vᵀv ≠ 0, among a, b and a + b where Ma ≠ 0 and W_Vᵀb ≠ 0."""
    width = len(bilinear)
    transposed = matrices.transposed(values)
    units = [matrices.one_hot(i, width) for i in range(width)]
    a = next(e for e in units if any(matrices.apply(bilinear, e)))
    b = next(e for e in units if any(matrices.apply(transposed, e)))
    both = [x + y for x, y in zip(a, b, strict=True)]
    for v in (a, b, both):
        if any(matrices.apply(bilinear, v)) and any(matrices.apply(transposed, v)):
            return v
    return None


@check(KIM, kind=Kind.DERIVATION, planted=Planted("tokens stay in the unit ball", grows=False))
def derived_at_opposite_tokens(profile: Profile, *, grows: bool = True) -> Derivation:
    """The rate at h = 0 in scalars, for all weights and every width; then B -> ∞."""
    h, b, length = symbolic.shift, symbolic.size, symbolic.length
    rate = sympy.diff(symbolic.output_beside_opposite_tokens(), h).subs(h, 0)

    def scalars_stand_for_all_weights(rng: random.Random) -> Case:
        # The derivative of the output, from the covariance of scores and values at uniform weights.
        d, d_h, count = rng.randint(1, 3), rng.randint(1, 3), rng.randint(3, 6)
        bilinear = matrices.random_matrix(rng, d, d)
        values = matrices.random_matrix(rng, d, d_h)
        v, w, y = ([exact.random_rational(rng, 4) for _ in range(n)] for n in (d, d, d_h))
        radius = rng.randint(1, 5)
        zero = [Fraction(0)] * d
        # The moving token is a 0. Its place is immaterial; at the end no causal mask matters.
        tokens = [[radius * e for e in v], [-radius * e for e in v], *[zero] * (count - 2)]
        along = [matrices.dot(matrices.apply(matrices.transposed(values), x), y) for x in tokens]
        scores = [matrices.dot(w, matrices.apply(bilinear, x)) for x in tokens]
        own = matrices.dot(matrices.apply(matrices.transposed(values), w), y)
        mean = Fraction(sum(scores)) / count
        observed = (
            sum((s - mean) * a for s, a in zip(scores, along, strict=True)) + own
        ) / Fraction(count)
        slope = matrices.dot(w, matrices.apply(bilinear, v))
        component = matrices.dot(matrices.apply(matrices.transposed(values), v), y)
        predicted = (own + 2 * radius**2 * slope * component) / Fraction(count)
        return Case(observed, "==", predicted, {"M": bilinear, "W_V": values, "v": v, "w": w})

    def a_direction_exists(rng: random.Random) -> Case:
        d, d_h = rng.randint(1, 3), rng.randint(1, 3)
        while True:
            entries = [
                [[rng.choice((0, 0, 1, -2)) for _ in range(n)] for _ in range(d)] for n in (d, d_h)
            ]
            if all(any(map(any, m)) for m in entries):
                break
        found = _live_direction(*entries) is not None
        return Case(int(found), "==", 1, {"M, W_V": entries})

    def exceeds(rng: random.Random) -> Case:
        constant = rng.randint(2, 10**6)
        radius = constant if grows else 1
        with precision(300):
            step = Fraction(1, 2**100)
            quotient = _quotient(Fraction(radius), ball(step))
            return Case(quotient, ">", constant, {"tokens": (0, radius, -radius), "h": step})

    return Derivation(
        scope="all L >= 3, all d and d_h, all W_Q, W_K, W_V with W_Q W_Kᵀ ≠ 0 and W_V ≠ 0",
        steps=(
            Identity(
                "rate of the output at the first token",
                rate,
                (symbolic.self_value + 2 * b**2 * symbolic.score * symbolic.value) / length,
            ),
            RuleStep(
                "for all weights; causal, for the last token",
                Rule.CHAIN_RULE,
                "yᵀD(output) = (yᵀW_Vᵀw + 2B²(wᵀMv)(yᵀW_Vᵀv))/L, M = W_Q W_Kᵀ/√d_h",
                scalars_stand_for_all_weights,
            ),
            RuleStep(
                "v with Mv ≠ 0 and W_Vᵀv ≠ 0; then w = Mv, y = W_Vᵀv",
                Rule.CASE_SPLIT,
                "one of a, b, a + b is such a v where Ma ≠ 0 and W_Vᵀb ≠ 0",
                a_direction_exists,
            ),
            RuleStep("unbounded", Rule.ATTAINMENT, "quotients exceed every constant", exceeds),
        ),
    )


def _first_output(tokens: Sequence[Ball]) -> Ball:
    """Self-attention of scalar tokens with unit weights, at the first token, on balls."""
    weights = [(tokens[0] * key).exp() for key in tokens]
    total = sum(weights, ball(0))
    return sum((w * t for w, t in zip(weights, tokens, strict=True)), ball(0)) / total


def _quotient(radius: Fraction, step: Ball) -> Ball:
    """|f_1(X') − f_1(X)|/‖X' − X‖ for X = (0, B, −B), X' = (h, B, −B), h > 0.

    No more than the quotient of the whole outputs, in the Frobenius norm or any other that does
    not grow when rows are dropped.
    """
    others = [ball(radius), ball(-radius)]
    return abs(_first_output([step, *others]) - _first_output([ball(0), *others])) / step


@check(KIM, kind=Kind.CERTIFICATE, planted=Planted("growth like B³", power=3))
def quotients_of_a_family(profile: Profile, *, power: int = 2) -> Evidence:
    """At h = log 2/B: f(h) >= B(2 − 1/2)/(2 + 2 + 1/2), so the quotient is at least B²/(3 log 2).

    All norms on R^{L×d} are equivalent, so that one norm suffices.
    """

    def cases() -> Iterator[Case]:
        for exponent in range(profile.pick(20, 60)):
            radius = Fraction(2**exponent)
            log_2 = ball(2).log()
            observed = _quotient(radius, log_2 / ball(radius))
            yield Case(observed, ">=", ball(radius**power) / (3 * log_2), {"B": radius})

    with precision(300):
        return judge(cases(), scope="d = 1, L = 3, tokens (0, B, −B) and (log 2/B, B, −B), B = 2^k")


# ---------------------------------------------------------------- Yudin et al.: order statistics


@check(YUDIN, kind=Kind.DERIVATION, planted=Planted("p_(1) becomes 0.99 p_(1)", factor="0.99"))
def derived_by_quadratic_forms(profile: Profile, *, factor: str = "1") -> Derivation:
    """Above, drop the square of the mean; below, a vector of mean 0 on the two top entries."""
    top, second, a, b = sympy.symbols("p_1 p_2 a b", positive=True)
    x = {a: second, b: -top}
    form = top * a**2 + second * b**2 - (top * a + second * b) ** 2

    def draw(rng: random.Random) -> tuple[list[Fraction], exact.Matrix, Fraction]:
        # Often two equal largest entries, where both bounds meet.
        p = exact.random_distribution(rng, rng.randint(2, 5))
        if rng.random() < 0.5:
            p = exact.normalised([*p, max(p)])
        temperature = Fraction(rng.randint(1, 9), rng.randint(1, 9))
        return sorted(p, reverse=True), exact.jacobian(p, temperature), temperature

    def above(rng: random.Random) -> Case:
        ordered, matrix, temperature = draw(rng)
        bound = Fraction(factor) * ordered[0] / temperature
        return matrices.spectral_at_most(matrix, bound**2, {"p": ordered, "τ": temperature})

    def below(rng: random.Random) -> Case:
        ordered, _, temperature = draw(rng)
        vector = [ordered[1], -ordered[0], *[Fraction(0)] * (len(ordered) - 2)]
        rayleigh = exact.quadratic_form(exact.jacobian(ordered, temperature), vector)
        bound = ordered[1] / temperature * power_sum(vector, 2)
        return Case(rayleigh, ">=", bound, {"p": ordered, "τ": temperature})

    return Derivation(
        scope="all L >= 2, all p in the simplex, all τ > 0",
        steps=(
            RuleStep(
                "above", Rule.SUM_OF_SQUARES, "xᵀJx <= Σp_i x_i²/τ <= p_(1)‖x‖²/τ, J ⪰ 0", above
            ),
            Identity(
                "below: what xᵀ(Diag p − ppᵀ)x has beyond p_(2)‖x‖² at x = (p_(2), −p_(1))",
                (form - second * (a**2 + b**2)).subs(x, simultaneous=True),
                second**2 * (top - second),
            ),
            RuleStep("below", Rule.SPECTRAL_THEOREM, "‖J‖_{2→2} >= xᵀJx/‖x‖² >= p_(2)/τ", below),
        ),
    )


@check(YUDIN, kind=Kind.ENUMERATION, planted=Planted("p_(1) becomes 0.99 p_(1)", factor="0.99"))
def every_small_integer_row(profile: Profile, *, factor: str = "1") -> Evidence:
    """Both bounds by exact LDLᵀ, p_(1) = p_(2) included."""
    sizes = profile.pick(((2, 12), (3, 7), (4, 4), (5, 2)), ((2, 30), (3, 14), (4, 8), (5, 5)))

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                matrix = exact.jacobian(p)
                instance = {"weights": weights}
                yield matrices.spectral_at_most(matrix, (Fraction(factor) * p[0]) ** 2, instance)
                yield matrices.spectral_at_least(matrix, p[1] ** 2, instance)

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight vector up to order, {shown}; τ = 1")


# ------------------------------------------------------------------ Castin et al.: growth with L


@check(CASTIN, kind=Kind.DERIVATION, planted=Planted("the rate is 1% larger", factor="1.01"))
def derived_at_a_far_token(profile: Profile, *, factor: str = "1") -> Derivation:
    """One key apart from the rest: its weight is 1/2 for every other query."""
    query, key, weights, values = sympy.symbols("x_i x_1 Z V", positive=True)
    count = sympy.Symbol("N", integer=True, positive=True)
    c = sympy.Symbol("c", nonnegative=True)
    output = symbolic.output_with_one_key_apart(query, key, weights, values)
    attention = sympy.exp(query * key) / (sympy.exp(query * key) + weights)
    rate = sympy.diff(output, key)
    one_token = sympy.exp(c**2)
    at = {query: c, key: 2 * c, weights: count * one_token, values: count * c * one_token}
    claimed = sympy.Rational(factor) * (sympy.Rational(1, 2) + sympy.log(count) / 4)

    def together(rng: random.Random) -> Case:
        length = rng.randint(3, 40)
        with precision(100):
            squares = sum((r**2 for r in _rates(length)[1:]), ball(0))
            return Case(squares, ">", Fraction(length - 1, 4), {"L": length})

    return Derivation(
        scope="d = 1, unit weights, τ = 1, all L >= 3",
        steps=(
            Identity("rate of output i", rate, attention * (1 + query * (key - output))),
            Identity(
                "at c² = log N, N = L − 1",
                rate.subs(at, simultaneous=True).subs(c, sympy.sqrt(sympy.log(count))),
                claimed,
            ),
            RuleStep("L − 1 outputs", Rule.TERMWISE, "squares add to over (L − 1)/4", together),
        ),
    )


def _rates(length: int) -> list[Ball]:
    """d(output i)/dx_1 at x_1 = 2c, x_j = c, c² = log(L − 1), by the softmax Jacobian, on balls."""
    c = ball(length - 1).log().sqrt()
    tokens = [2 * c, *[c] * (length - 1)]
    rates = []
    for i, query in enumerate(tokens[:2]):
        weights = [(query * key).exp() for key in tokens]
        total = sum(weights, ball(0))
        row = [w / total for w in weights]
        # The key x_1 moves the first score at the rate of the query, the query x_1 every score.
        moved = [query if j == 0 else ball(0) for j in range(length)]
        if i == 0:
            moved = [m + key for m, key in zip(moved, tokens, strict=True)]
        mean = sum((a * m for a, m in zip(row, moved, strict=True)), ball(0))
        change = sum(
            (a * (m - mean) * t for a, m, t in zip(row, moved, tokens, strict=True)), ball(0)
        )
        rates.append(row[0] + change)
    # The queries 2, …, L are equal, and so are their rates.
    return [rates[0], *[rates[1]] * (length - 1)]


@check(CASTIN, kind=Kind.CERTIFICATE, planted=Planted("the rate is 1% larger", factor="1.01"))
def columns_of_the_jacobian(profile: Profile, *, factor: str = "1") -> Evidence:
    """The column of the Jacobian that belongs to x_1, from the softmax Jacobian, on balls."""

    def cases() -> Iterator[Case]:
        for length in profile.pick((3, 4, 9, 30, 100, 300), (*range(3, 200), 1000, 5000)):
            rates = _rates(length)
            squares = sum((r**2 for r in rates), ball(0))
            one = ball(Fraction(factor)) * (2 + ball(length - 1).log()) / 4
            width = Fraction(1, 10**20)
            yield Case(abs(rates[1] - one), "<=", width, {"L": length})
            yield Case(squares, ">", (length - 1) * one**2 - ball(width), {"L": length})

    with precision(200):
        return judge(cases(), scope="d = 1, unit weights, L from 3 to 300 (5000 in the full run)")


# --------------------------------------------------------------------------- Nair: the constant


def _softmax(logits: Sequence[Fraction]) -> list[Ball]:
    weights = [ball(u).exp() for u in logits]
    total = sum(weights, ball(0))
    return [w / total for w in weights]


def _same_norm_case(
    u: Sequence[Fraction], v: Sequence[Fraction], exponent: int, constant: Fraction
) -> Case:
    """‖s(u) − s(v)‖_r^r <= constant^r ‖u − v‖_r^r; exponent 0 stands for r = ∞."""
    change = [abs(a - b) for a, b in zip(_softmax(u), _softmax(v), strict=True)]
    moved = [abs(a - b) for a, b in zip(u, v, strict=True)]
    instance = {"u": list(u), "v": list(v), "r": exponent or "∞"}
    if exponent == 0:
        largest = change[0]
        for entry in change[1:]:
            largest = largest.max(entry)
        return Case(largest, "<=", constant * max(moved), instance)
    powers = sum((entry**exponent for entry in change), ball(0))
    allowed = constant**exponent * sum((entry**exponent for entry in moved), Fraction(0))
    return Case(powers, "<=", allowed, instance)


def _pairs_of_logits(
    rng: random.Random, count: int
) -> Iterator[tuple[list[Fraction], list[Fraction]]]:
    """Random pairs, and pairs next to a tie of two entries with the others far below."""
    for _ in range(count):
        length = rng.randint(2, 6)
        if rng.random() < 0.5:
            u = [exact.random_rational(rng, 8) for _ in range(length)]
            v = [a + Fraction(rng.randint(1, 99), rng.choice((7, 10**4))) for a in u]
            yield u, v
        else:
            low = [Fraction(-rng.randint(20, 200))] * (length - 2)
            step = Fraction(1, rng.randint(10, 10**6))
            yield [step, -step, *low], [Fraction(0), Fraction(0), *low]


@check(NAIR, kind=Kind.DERIVATION, planted=Planted("the constant is 1% smaller", constant="0.495"))
def derived_from_the_jacobian(profile: Profile, *, constant: str = "1/2") -> Derivation:
    """Above by the mean value theorem; below by pairs (t, −t) and (0, 0) as t -> 0."""
    u, p = softmax_vector(2)
    t = sympy.Symbol("t", positive=True)
    first = p[0].subs(tau, 1).subs({u[0]: t, u[1]: -t}) - sympy.Rational(1, 2)
    bound = Fraction(constant)

    def above(rng: random.Random) -> Case:
        a, b = next(_pairs_of_logits(rng, 1))
        with precision(200):
            return _same_norm_case(a, b, rng.choice((0, 1, 2, 3, 7)), bound)

    def close(rng: random.Random) -> Case:
        with precision(400):
            step = Fraction(1, 10 ** rng.randint(6, 12))
            low = [Fraction(-rng.randint(100, 200))] * rng.randint(0, 4)
            new, old = _softmax([step, -step, *low]), _softmax([Fraction(0), Fraction(0), *low])
            quotient = abs(new[0] - old[0]) / ball(step)
            return Case(quotient, ">", Fraction(1, 2) - Fraction(1, 10**9), {"t": step, "low": low})

    return Derivation(
        scope="all L >= 2, all logits, all r in [1, ∞]",
        steps=(
            RuleStep("above", Rule.MEAN_VALUE, "‖s(u) − s(v)‖_r <= ‖u − v‖_r/2", above),
            Identity("s_1(t, −t) − s_1(0, 0)", first, sympy.tanh(t).rewrite(sympy.exp) / 2),
            Identity(
                "its quotient as t -> 0",
                sympy.limit(sympy.tanh(t) / (2 * t), t, 0),
                sympy.Rational(1, 2),
            ),
            RuleStep("below", Rule.LIMIT, "quotients come close to 1/2", close),
        ),
    )


@check(NAIR, kind=Kind.CERTIFICATE, planted=Planted("the constant is 1% smaller", constant="0.495"))
def pairs_on_balls(profile: Profile, *, constant: str = "1/2") -> Evidence:
    """Pairs of logit vectors at r = 1, 2, 3, 7 and ∞."""
    rng = random.Random(26)

    def cases() -> Iterator[Case]:
        for u, v in _pairs_of_logits(rng, profile.pick(100, 2000)):
            for exponent in (0, 1, 2, 3, 7):
                yield _same_norm_case(u, v, exponent, Fraction(constant))

    with precision(200):
        return judge(cases(), scope="rational logits, L = 2..6, random and next to a tie of two")


# ------------------------------------------------------------------ Edelman et al.: one factor


def _svd_matrices(scales: Sequence[int]) -> Iterator[tuple[matrices.Matrix, int]]:
    """3×2 matrices U Diag(s) Vᵀ from rational rotations, with their exact spectral norm."""
    rotations = [
        ((Fraction(a, c), Fraction(-b, c)), (Fraction(b, c), Fraction(a, c)))
        for a, b, c in ((1, 0, 1), (3, 4, 5), (5, -12, 13))
    ]
    for left, right in itertools.product(rotations, repeat=2):
        for diagonal in itertools.product(scales, repeat=2):
            scaled = [[entry * s for entry, s in zip(row, diagonal, strict=True)] for row in left]
            padded = [*scaled, [Fraction(0), Fraction(0)]]
            yield matrices.product(padded, matrices.transposed(right)), max(diagonal)


def _outer(x: Sequence[matrices.Exact], y: Sequence[matrices.Exact]) -> matrices.Matrix:
    return [[a * b for b in y] for a in x]


@check(EDELMAN, kind=Kind.DERIVATION, planted=Planted("the product is 1% smaller", factor="0.99"))
def derived_with_rank_one_factors(profile: Profile, *, factor: str = "1") -> Derivation:
    """Submultiplicativity; rank one shows every ratio, Lagrange's identity that it is <= 1."""
    k, v, q, w = (sympy.Matrix(sympy.symbols(f"{name}1:4", real=True)) for name in "kvqw")
    lagrange = sum((v[i] * w[j] - v[j] * w[i]) ** 2 for j in range(3) for i in range(j))
    scale = Fraction(factor)
    library = list(_svd_matrices((0, 1, 2)))

    def one_factor(rng: random.Random) -> Case:
        left, left_norm = rng.choice(library)
        right, right_norm = rng.choice([(left, left_norm), rng.choice(library)])
        joint = matrices.product(left, matrices.transposed(right))
        bound = (scale * left_norm * right_norm) ** 2
        instance = {"W_K": left, "W_Q": right, "bound squared": bound}
        return matrices.spectral_at_most(joint, bound, instance)

    def score(rng: random.Random) -> Case:
        # ‖W_K W_Qᵀ‖₂² is |⟨v, w⟩|²‖k‖²‖q‖² for rank-one factors, attained at x = q, y = k.
        kk, vv, qq, ww = ([rng.randint(-4, 4) for _ in range(3)] for _ in range(4))
        x, y = (qq, kk) if rng.random() < 0.5 else ([rng.randint(-4, 4) for _ in range(3)], kk)
        queries = matrices.product([x], _outer(qq, ww))[0]
        keys = matrices.product([y], _outer(kk, vv))[0]
        norm_squared = matrices.dot(vv, ww) ** 2 * matrices.squared(kk) * matrices.squared(qq)
        bound = norm_squared * matrices.squared(x) * matrices.squared(y)
        instance = {"k": kk, "v": vv, "q": qq, "w": ww, "x": x, "y": y}
        return Case(matrices.dot(queries, keys) ** 2, "<=", scale**2 * bound, instance)

    return Derivation(
        scope="all d and d_h; the rank-one family written out at d = d_h = 3",
        steps=(
            RuleStep(
                "one factor", Rule.SUBMULTIPLICATIVITY, "‖W_K W_Qᵀ‖₂ <= ‖W_K‖₂‖W_Q‖₂", one_factor
            ),
            RuleStep("scores", Rule.OPERATOR_NORM, "|xᵀW_Q W_Kᵀy| <= ‖W_K W_Qᵀ‖₂‖x‖‖y‖", score),
            Identity("rank one", (k * v.T) * (q * w.T).T, (v.dot(w)) * (k * q.T)),
            Identity("1 − ratio², times ‖v‖²‖w‖²", v.dot(v) * w.dot(w) - v.dot(w) ** 2, lagrange),
        ),
    )


@check(EDELMAN, kind=Kind.ENUMERATION, planted=Planted("the product is 1% smaller", factor="0.99"))
def every_pair_of_factors(profile: Profile, *, factor: str = "1") -> Evidence:
    """All pairs of matrices with known singular values; equality where W_K = W_Q."""
    library = list(_svd_matrices(profile.pick((1, 2), (0, 1, 2, 5))))
    scale = Fraction(factor)

    def cases() -> Iterator[Case]:
        for (left, left_norm), (right, right_norm) in itertools.product(library, repeat=2):
            joint = matrices.product(left, matrices.transposed(right))
            instance = {"W_K": left, "W_Q": right}
            bound = (scale * left_norm * right_norm) ** 2
            yield matrices.spectral_at_most(joint, bound, instance)
            if left is right:
                yield matrices.spectral_at_least(joint, (left_norm * right_norm) ** 2, instance)

    return judge(cases(), scope="pairs of 3×2 matrices from rational rotations, small scales")
