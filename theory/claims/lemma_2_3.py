"""Lemma 2.3: attention mixing does not increase the block-∞/RMS norm, with its proof's steps."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.claims import _instances as exact
from theory.claims import _matrices as m
from theory.derivations.mixture import variance_and_gap
from theory.norms import block_inf_rms
from theory.softmax import softmax
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

STEP_CONVEX = Claim(
    id="lemma_2_3_step_convex",
    paper_ref="Appendix A, proof of Lemma 2.3, triangle inequality",
    section="A",
    statement="For weights a_j >= 0 with sum 1, ‖Σ a_j v_j‖₂ <= Σ a_j ‖v_j‖₂, with equality when "
    "the v_j that carry weight have one direction.",
)
STEP_MAX = Claim(
    id="lemma_2_3_step_max",
    paper_ref="Appendix A, proof of Lemma 2.3, maximum",
    section="A",
    statement="For weights a_j >= 0 with sum 1, Σ a_j ‖v_j‖₂ <= max_k ‖v_k‖₂, with equality if and "
    "only if every v_j that carries weight has the largest norm.",
)
LEMMA = Claim(
    id="lemma_2_3",
    paper_ref="Lemma 2.3",
    section="2",
    statement="‖AV‖_{∞,rms} <= ‖V‖_{∞,rms} for every row-stochastic A and every V. A may be "
    "rectangular, V of any width, and any mask allowed that leaves a key to every query. Equality "
    "for every A when all rows of V are equal.",
    uses=("lemma_2_3_step_convex", "lemma_2_3_step_max", "definition_2_2"),
)

# Vectors of rational length, so that sums of norms stay exact.
PYTHAGOREAN = (
    ((0, 0), 0),
    ((1, 0), 1),
    ((0, -2), 2),
    ((3, 4), 5),
    ((6, 8), 10),
    ((-3, 4), 5),
    ((5, 12), 13),
    ((-8, -15), 17),
)


def _rational_norms(rng: random.Random) -> tuple[m.Vector, m.Matrix, m.Vector]:
    """Weights, values and the norms of the values; often all of one direction or one norm."""
    length = rng.randint(1, 5)
    pool = rng.choice((PYTHAGOREAN, PYTHAGOREAN[3:5], PYTHAGOREAN[3:6:2]))
    drawn = [rng.choice(pool) for _ in range(length)]
    weights = m.random_stochastic(rng, 1, length)[0]
    return weights, [list(v) for v, _ in drawn], [norm for _, norm in drawn]


@check(
    STEP_CONVEX,
    kind=Kind.DERIVATION,
    planted=Planted("the bound is 1% smaller", factor="0.99"),
)
def key_by_key(profile: Profile, *, factor: str = "1") -> Derivation:
    """Add a key of weight t to a sum w of norm at most r that is scaled by s."""
    scale_squared = Fraction(factor) ** 2
    t, s, norm, r, inner, ww = sympy.symbols("t s n r c ww", real=True)

    def all_keys(rng: random.Random) -> Case:
        weights, values, norms = _rational_norms(rng)
        image = m.squared(m.product([weights], values)[0])
        bound = scale_squared * m.dot(weights, norms) ** 2
        return Case(image, "<=", bound, {"a": weights, "V": values})

    def inner_product(rng: random.Random) -> Case:
        _, values, norms = _rational_norms(rng)
        return Case(m.dot(values[0], values[-1]), "<=", norms[0] * norms[-1], {"V": values})

    def one_direction(rng: random.Random) -> Case:
        weights, values, _ = _rational_norms(rng)
        v, norm = rng.choice(PYTHAGOREAN)
        stretches = [rng.randint(0, 4) for _ in values]
        collinear = [[s * entry for entry in v] for s in stretches]
        image = m.squared(m.product([weights], collinear)[0])
        mean = m.dot(weights, stretches) * norm
        return Case(image, "==", mean**2, {"a": weights, "V": collinear})

    return Derivation(
        scope="all L, all widths",
        steps=(
            # (t‖v‖ + s r)² − ‖t v + s w‖² with ‖w‖ <= r and ⟨v, w⟩ = c.
            Identity(
                "one more key",
                (t * norm + s * r) ** 2 - (t**2 * norm**2 + 2 * t * s * inner + s**2 * ww),
                2 * t * s * (norm * r - inner) + s**2 * (r**2 - ww),
            ),
            RuleStep("both brackets", Rule.CAUCHY_SCHWARZ, "⟨v, w⟩ <= ‖v‖‖w‖", inner_product),
            RuleStep("all keys", Rule.INDUCTION, "‖Σ a_j v_j‖ <= Σ a_j ‖v_j‖", all_keys),
            RuleStep("equality", Rule.ATTAINMENT, "v_j = s_j v with s_j >= 0", one_direction),
        ),
    )


@check(
    STEP_CONVEX,
    kind=Kind.ENUMERATION,
    planted=Planted("the bound is 1% smaller", factor="0.99"),
)
def every_choice_of_pythagorean_values(profile: Profile, *, factor: str = "1") -> Evidence:
    """Every small weight row with every choice among eight vectors of rational length."""
    scale_squared = Fraction(factor) ** 2
    sizes = profile.pick(((1, 1), (2, 4), (3, 2)), ((1, 1), (2, 9), (3, 4), (4, 2)))

    def cases() -> Iterator[Case]:
        for length, heaviest in sizes:
            rows = list(exact.weight_vectors(length, heaviest))
            for drawn in itertools.product(PYTHAGOREAN, repeat=length):
                values, norms = [v for v, _ in drawn], [norm for _, norm in drawn]
                for weights in rows:
                    image = m.squared(m.product([weights], values)[0])
                    bound = scale_squared * m.dot(weights, norms) ** 2
                    yield Case(image, "<=", bound, {"weights": weights, "V": values})

    shown = ", ".join(f"L = {length}: weights 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"eight vectors of rational length, {shown}")


@check(STEP_MAX, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def sum_of_gaps(profile: Profile, *, factor: str = "1") -> Derivation:
    """max − Σ a_j n_j is the weighted sum of the gaps max − n_j."""
    scale = Fraction(factor)
    n = sympy.Symbol("n", integer=True, positive=True)
    j = sympy.Symbol("j", integer=True)
    largest, other = sympy.symbols("n_max n_0", nonnegative=True)
    a, norms = sympy.IndexedBase("a"), sympy.IndexedBase("n")
    # n + 1 keys, of which the last takes up the weight that the others leave.
    last = 1 - sympy.Sum(a[j], (j, 1, n))

    def mean_below(rng: random.Random) -> Case:
        weights, values, lengths = _rational_norms(rng)
        bound = scale * max(lengths)
        return Case(m.dot(weights, lengths), "<=", bound, {"a": weights, "V": values})

    def equality(rng: random.Random) -> Case:
        weights, _, lengths = _rational_norms(rng)
        attained = m.dot(weights, lengths) == max(lengths)
        all_longest = {k for w, k in zip(weights, lengths, strict=True) if w} == {max(lengths)}
        return Case(int(attained), "==", int(all_longest), {"a": weights, "norms": lengths})

    return Derivation(
        scope="all L, all widths",
        steps=(
            Identity(
                "the gap",
                largest - (sympy.Sum(a[j] * norms[j], (j, 1, n)) + last * other),
                sympy.Sum(a[j] * (largest - norms[j]), (j, 1, n)) + last * (largest - other),
            ),
            RuleStep("mean", Rule.CONVEX_COMBINATION, "Σ a_j n_j <= max n_j", mean_below),
            RuleStep("equality", Rule.CASE_SPLIT, "every gap with weight is 0", equality),
        ),
    )


@check(STEP_MAX, kind=Kind.ENUMERATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def every_small_row_of_norms(profile: Profile, *, factor: str = "1") -> Evidence:
    """Integer weights against integer norms."""
    scale = Fraction(factor)
    sizes = profile.pick(((1, 4), (2, 4), (3, 3), (4, 2)), ((2, 9), (3, 6), (4, 3), (5, 2)))

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.weight_vectors(length, largest):
                for norms in itertools.product(range(largest + 1), repeat=length):
                    bound = scale * max(norms) * sum(weights)
                    instance = {"weights": weights, "norms": norms}
                    yield Case(m.dot(weights, norms), "<=", bound, instance)

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight row and row of norms, {shown}")


# ---------------------------------------------------------------------------------- lemma


@check(LEMMA, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def variance_of_every_row(profile: Profile, *, factor: str = "1") -> Derivation:
    """A proof beside the paper's two steps: the variance of the values under a row's weights."""
    scale_squared = Fraction(factor) ** 2
    variance, gap = variance_and_gap()

    def draw(rng: random.Random) -> tuple[m.Matrix, m.Matrix]:
        queries, keys, width = (rng.randint(1, 4) for _ in range(3))
        values = m.random_matrix(rng, keys, width)
        if rng.random() < 0.25:
            values = [values[0]] * keys
        return m.random_stochastic(rng, queries, keys), values

    def one_row(rng: random.Random) -> Case:
        (row, *_), values = draw(rng)
        mean = m.dot(row, [m.squared(v) for v in values])
        return Case(m.squared(m.product([row], values)[0]), "<=", mean, {"a": row, "V": values})

    def below_the_maximum(rng: random.Random) -> Case:
        (row, *_), values = draw(rng)
        squares = [m.squared(v) for v in values]
        return Case(m.dot(row, squares), "<=", max(squares), {"a": row, "V": values})

    def whole_matrix(rng: random.Random) -> Case:
        mixing, values = draw(rng)
        image = m.largest_row_squared(m.product(mixing, values))
        bound = scale_squared * m.largest_row_squared(values)
        return Case(image, "<=", bound, {"A": mixing, "V": values})

    def equal_rows(rng: random.Random) -> Case:
        mixing, values = draw(rng)
        constant = [values[0]] * len(values)
        image = m.largest_row_squared(m.product(mixing, constant))
        return Case(image, "==", m.largest_row_squared(constant), {"A": mixing, "V": constant})

    return Derivation(
        scope="all shapes of A, all widths of V, every mask that leaves a key to each query",
        steps=(
            Identity("variance of one feature, o = Σ a_j v_j", variance, gap),
            RuleStep(
                "one row",
                Rule.SUM_OF_SQUARES,
                "‖(AV)_i‖² <= Σ_j A_ij ‖v_j‖², the variances of all features being >= 0",
                one_row,
            ),
            RuleStep(
                "its maximum",
                Rule.CONVEX_COMBINATION,
                "Σ_j A_ij ‖v_j‖² <= max_j ‖v_j‖²",
                below_the_maximum,
            ),
            RuleStep("every row", Rule.TERMWISE, "max over i, over √d", whole_matrix),
            RuleStep("equality", Rule.ATTAINMENT, "all rows of V equal", equal_rows),
        ),
    )


@check(LEMMA, kind=Kind.ENUMERATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def every_small_integer_matrix(profile: Profile, *, factor: str = "1") -> Evidence:
    """Every A with two rows from the integer rows, zeros (masked keys) included, and every V."""
    scale_squared = Fraction(factor) ** 2
    # (keys, largest weight, width, largest entry)
    sizes = profile.pick(
        ((1, 1, 3, 2), (2, 2, 1, 2), (2, 2, 2, 1), (3, 1, 1, 1)),
        ((1, 1, 3, 3), (2, 3, 2, 1), (3, 2, 1, 2), (3, 1, 2, 1), (4, 1, 1, 1)),
    )

    def cases() -> Iterator[Case]:
        for keys, heaviest, width, largest in sizes:
            rows = list(exact.weight_vectors(keys, heaviest))
            for values in m.integer_matrices(keys, width, range(-largest, largest + 1)):
                bound = scale_squared * m.largest_row_squared(values)
                squares = [
                    (Fraction(m.squared(m.product([r], values)[0]), sum(r) ** 2), r) for r in rows
                ]
                for (first, row), (second, other) in itertools.product(squares, repeat=2):
                    instance = {"rows of A, unnormalised": (row, other), "V": values}
                    yield Case(max(first, second), "<=", bound, instance)

    shown = "; ".join(f"L = {k}, d = {w}: weights <= {a}, |V| <= {b}" for k, a, w, b in sizes)
    return judge(cases(), scope=f"two queries, every integer A and V, {shown}")


ROUNDED_MIXTURE = Tolerance(
    value=128 * 2.0**-52,
    kind="relative",
    reason="a softmax row of 40 keys sums to 1 within a few eps, and a sum of 40 products with "
    "nonnegative weights loses at most 40 eps of its largest value; the norms add a few eps",
)


@check(
    LEMMA,
    kind=Kind.FLOAT,
    planted=Planted("the bound is 1% smaller", factor=0.99),
)
def public_functions(profile: Profile, *, factor: float = 1.0) -> Evidence:
    """``softmax`` with random masks, logits up to 1e5, and ``block_inf_rms``."""
    rng = np.random.default_rng(23)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(60, 1000)):
            queries, keys, width = (int(n) for n in rng.integers(1, 41, 3))
            logits = rng.standard_normal((queries, keys)) * 10.0 ** rng.integers(-2, 6)
            visible = rng.random((queries, keys)) < 0.5
            visible[np.arange(queries), rng.integers(keys, size=queries)] = True
            mixing = softmax(logits, mask=visible)
            values = rng.standard_normal((keys, width)) * 10.0 ** rng.integers(-100, 100)
            if rng.random() < 0.3:
                values[:] = values[0]
            instance = {"queries": queries, "keys": keys, "d": width}
            bound = factor * block_inf_rms(values)
            yield Case(block_inf_rms(mixing @ values), "<=", bound, instance)

    return judge(
        cases(),
        scope="Gaussian logits and values, up to 40 queries, 40 keys and width 40, random masks",
        tolerance=ROUNDED_MIXTURE,
    )
