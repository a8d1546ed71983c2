"""Beyond the paper: the exact total variation that logits changed by at most ε can cause."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.derivations import tilt
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import (
    Case,
    Derivation,
    Evidence,
    Identity,
    Kind,
    Relation,
    Rule,
    RuleStep,
    judge,
)
from verify.exact import Ball, as_fraction, ball, precision

LAW = Claim(
    id="beyond_finite_perturbation",
    paper_ref="beyond Remark B.1",
    section="beyond",
    statement="For every L >= 1, u in R^L, τ > 0 and ε >= 0, with p = s_τ(u) and r = e^{2ε/τ}, the "
    "maximum over ‖δ‖_∞ <= ε of TV(s_τ(u + δ), p) equals the maximum over subsets S of h(p(S)), "
    "h(q) = q(1 − q)(r − 1)/(1 + q(r − 1)), and is attained at δ = ε on S, −ε off S.",
)
SUPREMUM = Claim(
    id="beyond_finite_perturbation_supremum",
    paper_ref="beyond Remark B.1",
    section="beyond",
    statement="For every L >= 1, p, τ > 0 and ε >= 0 that maximum is at most tanh(ε/(2τ)), with "
    "equality exactly where some subset has mass 1/(1 + e^{ε/τ}) or ε = 0; h rises up to this mass "
    "and falls after it. For every L >= 2 some p attains it.",
    uses=("beyond_finite_perturbation",),
)


def gain(q: Fraction, ratio: Fraction) -> Fraction:
    """h(q) for r = ratio."""
    return q * (1 - q) * (ratio - 1) / (1 + q * (ratio - 1))


def law(p: Sequence[Fraction], root: Fraction) -> Fraction:
    """max over subsets of h, for root = e^{ε/τ}."""
    return max(gain(q, root**2) for q in exact.subset_masses(p))


def sign_pattern_maximum(p: Sequence[Fraction], root: Fraction) -> Fraction:
    """max over δ in {−ε, ε}^L of TV, from the softmax rows themselves."""
    return max(
        exact.total_variation(exact.tilted(p, [root if s > 0 else 1 / root for s in signs]), p)
        for signs in exact.sign_vectors(len(p))
    )


def _random_root(rng: random.Random) -> Fraction:
    """e^{ε/τ} > 1, from nearly 1 to large."""
    return 1 + Fraction(rng.randint(1, 40), rng.choice((1, 7, 10, 1000)))


# ------------------------------------------------------------------------------------- the law


@check(LAW, kind=Kind.DERIVATION, planted=Planted("h is 1% smaller", factor="0.99"))
def derived_by_events(profile: Profile, *, factor: str = "1") -> Derivation:
    """Write TV as a maximum over sets T and exchange the two maxima.

    *Proof.* With p' = s_τ(u + δ), TV(p', p) = max over T of p'(T) − p(T). For a fixed T, p'(T) =
    N/(N + M) with N = Σ_{i∈T} p_i e^{δ_i/τ} and M the same sum off T. This increases with N and
    decreases with M, so over ‖δ‖_∞ <= ε it is largest at δ = ε on T and −ε off T, where N = q
    e^{ε/τ} and M = (1 − q)e^{−ε/τ} for q = p(T). There p'(T) − p(T) = h(q). Maxima over T and δ
    may be taken in either order, which proves the equation; the δ of the best T attains it. ∎
    """
    q, root, n, m = sympy.symbols("q s N M", positive=True)
    ratio = root**2
    scale = Fraction(factor)

    def draw(rng: random.Random) -> tuple[exact.Distribution, Fraction, list[Fraction]]:
        p = exact.random_distribution(rng, rng.randint(1, 6))
        root_value = _random_root(rng)
        # Factors e^{δ_i/τ} in [1/s, s]: mostly inside, at times at an end.
        width = root_value - 1 / root_value
        factors = [1 / root_value + width * Fraction(rng.randint(0, 4), 4) for _ in p]
        return p, root_value, factors

    def events(rng: random.Random) -> Case:
        p, _, factors = draw(rng)
        new = exact.tilted(p, factors)
        gains = exact.subset_masses([b - a for a, b in zip(p, new, strict=True)])
        return Case(exact.total_variation(new, p), "==", max(gains), {"p": p, "p'": new})

    def extreme_for_one_event(rng: random.Random) -> Case:
        p, root_value, factors = draw(rng)
        signs = [rng.choice((-1, 1)) for _ in p]
        if rng.random() < 0.3:
            factors = [root_value if s > 0 else 1 / root_value for s in signs]
        new = exact.tilted(p, factors)
        mass = exact.mass_of_signs(p, signs)
        grown = exact.mass_of_signs(new, signs) - mass
        instance = {"p": p, "T": signs, "e^{δ/τ}": factors}
        return Case(grown, "<=", scale * gain(mass, root_value**2), instance)

    def both_maxima(rng: random.Random) -> Case:
        p, root_value, _ = draw(rng)
        largest = sign_pattern_maximum(p, root_value)
        return Case(largest, "==", scale * law(p, root_value), {"p": p, "e^{ε/τ}": root_value})

    share = n / (n + m)
    return Derivation(
        scope="all L, all u, all τ > 0, all ε >= 0",
        steps=(
            RuleStep("events", Rule.DEFINITION, "TV = max over T of p'(T) − p(T)", events),
            Identity("p'(T) rises with N", sympy.diff(share, n), m / (n + m) ** 2),
            Identity("p'(T) falls with M", sympy.diff(share, m), -n / (n + m) ** 2),
            RuleStep(
                "best δ for T", Rule.MONOTONICITY, "p'(T) − p(T) <= h(p(T))", extreme_for_one_event
            ),
            Identity(
                "its value",
                tilt.extreme_gain(q, root),
                sympy.Rational(factor) * q * (1 - q) * (ratio - 1) / (1 + q * (ratio - 1)),
            ),
            RuleStep("both maxima", Rule.TERMWISE, "max TV = max over S of h(p(S))", both_maxima),
        ),
    )


@check(LAW, kind=Kind.ENUMERATION, planted=Planted("h is 1% smaller", factor="0.99"))
def every_small_integer_row(profile: Profile, *, factor: str = "1") -> Evidence:
    """All sign patterns of δ against all subsets, with e^{ε/τ} rational, so that both are exact."""
    scale = Fraction(factor)
    sizes = profile.pick(
        ((1, 4), (2, 8), (3, 4), (4, 3), (5, 2)),
        ((1, 20), (2, 20), (3, 12), (4, 7), (5, 4), (6, 3), (7, 2)),
    )
    roots = tuple(Fraction(n, d) for n, d in ((1, 1), (101, 100), (3, 2), (4, 1), (1000, 1)))

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                for root in roots:
                    observed = sign_pattern_maximum(p, root)
                    instance = {"weights": weights, "e^{ε/τ}": root}
                    yield Case(observed, "==", scale * law(p, root), instance)

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(
        cases(),
        scope=f"every integer weight vector up to order, {shown}; e^(ε/τ) = 1, 1.01, 1.5, 4, 1000",
    )


@check(LAW, kind=Kind.SAMPLE, planted=Planted("δ may be 1% larger than ε allows", stretch="1.01"))
def inside_the_cube(profile: Profile, *, stretch: str = "1") -> Evidence:
    """Changes inside the cube and on its faces and edges, which sign patterns do not test."""
    rng = random.Random(24)
    excess = Fraction(stretch)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(150, 2000)):
            p = exact.random_distribution(rng, rng.randint(1, 6))
            root = _random_root(rng)
            bound = law(p, root)
            low, high = 1 / (root * excess), root * excess
            for _ in range(8):
                factors = [
                    rng.choice((low, high, low + (high - low) * Fraction(rng.randint(0, 9), 9)))
                    for _ in p
                ]
                change = exact.total_variation(exact.tilted(p, factors), p)
                yield Case(change, "<=", bound, {"p": p, "e^{δ/τ}": factors, "e^{ε/τ}": root})

    return judge(cases(), scope="random rational rows, L <= 6, and points of the cube")


@check(LAW, kind=Kind.CERTIFICATE, planted=Planted("h is 1% smaller", factor="0.99"))
def public_function_on_float_rows(profile: Profile, *, factor: str = "1") -> Evidence:
    """theory.perturbation against the law on balls, within its stated relative error."""
    from theory.perturbation import max_total_variation

    rng = random.Random(25)
    stated = Fraction(8, 2**52)

    def cases() -> Iterator[Case]:
        for row in exact.float_rows(rng, profile.pick(40, 1000), longest=8):
            p = exact.normalised([as_fraction(entry) for entry in row])
            epsilon, tau = 2.0 ** rng.randint(-20, 3), rng.choice((0.1, 1.0, 3.0))
            exponent = as_fraction(epsilon) / as_fraction(tau)
            largest = ball(Fraction(factor)) * _law_on_balls(p, exponent)
            value = as_fraction(max_total_variation(row, epsilon, tau))
            instance = {"p": row, "ε": epsilon, "τ": tau}
            yield Case(ball(value), "<=", largest * ball(1 + stated), instance)
            yield Case(ball(value), ">=", largest * ball(1 - stated), instance)

    with precision(300):
        return judge(cases(), scope="float rows, L <= 8, with ties, zeros and subnormal tails")


def _law_on_balls(p: Sequence[Fraction], exponent: Fraction) -> Ball:
    """max over subsets of h for ε/τ = exponent; a tie is as good as its winner."""
    growth = ball(2 * exponent).exp() - 1
    values = [ball(q * (1 - q)) * growth / (1 + ball(q) * growth) for q in exact.subset_masses(p)]
    best = values[0]
    for value in values[1:]:
        best = best.max(value)
    return best


# -------------------------------------------------------------------------------- the supremum


@check(SUPREMUM, kind=Kind.DERIVATION, planted=Planted("the supremum is 1% smaller", factor="0.99"))
def derived_by_completing_the_square(profile: Profile, *, factor: str = "1") -> Derivation:
    """What h misses of tanh(ε/2τ) is a square.

    *Proof.* With s = e^{ε/τ}, r = s², tanh(ε/(2τ)) = (s − 1)/(s + 1), and
    (s − 1)/(s + 1) − h(q) = (s − 1)/(s + 1) · (1 − q(s + 1))²/(1 + q(r − 1)) >= 0, which is zero
    for s > 1 only at q = 1/(s + 1). The derivative of h is (r − 1)(1 − q(1 + s))(1 + q(s − 1)) over
    the square of its denominator, and so positive before that q and negative after it. The row
    (q, 1 − q, 0, …), or any row of finite logits with a subset of that mass, attains. ∎
    """
    q, s, y = sympy.symbols("q s y", positive=True)
    scale = Fraction(factor)
    top = sympy.Rational(factor) * (s - 1) / (s + 1)
    value = tilt.extreme_gain(q, s)

    def at_most(rng: random.Random) -> Case:
        p = exact.random_distribution(rng, rng.randint(1, 6))
        root = _random_root(rng)
        if rng.random() < 0.5:
            p = exact.normalised((1, root))
        allowed = scale * (root - 1) / (root + 1)
        return Case(law(p, root), "<=", allowed, {"p": p, "e^{ε/τ}": root})

    def attained(rng: random.Random) -> Case:
        root = _random_root(rng)
        others = exact.random_distribution(rng, rng.randint(1, 4))
        p = exact.normalised((1, *(root * share for share in others)))
        allowed = scale * (root - 1) / (root + 1)
        return Case(law(p, root), "==", allowed, {"p": p, "e^{ε/τ}": root})

    return Derivation(
        scope="all L, all p in the simplex, all τ > 0, all ε >= 0",
        steps=(
            Identity(
                "tanh",
                ((s - 1) / (s + 1)).subs(s, sympy.exp(y)),
                sympy.tanh(y / 2).rewrite(sympy.exp),
            ),
            Identity(
                "the gap is a square",
                top - value,
                (s - 1) / (s + 1) * (1 - q * (s + 1)) ** 2 / (1 + q * (s**2 - 1)),
            ),
            Identity(
                "the slope of h",
                sympy.diff(value, q),
                (s**2 - 1) * (1 - q * (1 + s)) * (1 + q * (s - 1)) / (1 + q * (s**2 - 1)) ** 2,
            ),
            RuleStep("bound", Rule.SUM_OF_SQUARES, "max TV <= (s − 1)/(s + 1)", at_most),
            RuleStep("equality", Rule.ATTAINMENT, "at a subset of mass 1/(1 + s)", attained),
        ),
    )


@check(
    SUPREMUM, kind=Kind.ENUMERATION, planted=Planted("the supremum is 1% smaller", factor="0.99")
)
def every_small_integer_row_below_it(profile: Profile, *, factor: str = "1") -> Evidence:
    """Equality exactly where a subset has the mass 1/(1 + s), s = e^{ε/τ} running over integers."""
    sizes = profile.pick(
        ((1, 6), (2, 10), (3, 6), (4, 4), (5, 2)), ((1, 20), (2, 20), (3, 14), (4, 8), (5, 5))
    )

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                for root in map(Fraction, (2, 3, 4, 9)):
                    top = Fraction(factor) * (root - 1) / (root + 1)
                    is_met = 1 / (1 + root) in exact.subset_masses(p)
                    relation: Relation = "==" if is_met else "<"
                    instance = {"weights": weights, "e^{ε/τ}": root}
                    yield Case(sign_pattern_maximum(p, root), relation, top, instance)

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(
        cases(), scope=f"every integer weight vector up to order, {shown}; e^(ε/τ) = 2, 3, 4, 9"
    )
