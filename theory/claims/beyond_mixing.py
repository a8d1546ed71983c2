"""Beyond Section 2.1: when √L is attained, what bounds ‖A‖₂ instead, and attention dropout.

Column sums. Row i of AX is a mean of rows of X, and the square of a mean is at most the mean of the
squares, so ‖AX‖_F² <= Σ_i Σ_j A_ij ‖x_j‖² = Σ_j c_j ‖x_j‖² <= max c_j ‖X‖_F².

Sinks. L‖X‖_F² − Σ_j c_j‖x_j‖² = Σ_j (L − c_j)‖x_j‖² vanishes only if c_j = L wherever x_j is not 0;
then A_ij = 1 for every i, which rows of sum 1 allow for one j alone. Conversely A = 1e_jᵀ copies
x_j into all L rows.

Dropout. A row of Ã is nonnegative with sum κ/(1 − p), where κ <= 1 is the kept mass; divide by that
sum (unless it is 0) and use Lemma 2.3.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.claims import _matrices as m
from theory.derivations.mixture import variance_and_gap
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge

COLUMN_SUM = Claim(
    id="beyond_spectral_column_sum",
    paper_ref="sharpens the first display of Section 2.1",
    section="beyond",
    statement="‖A‖₂² <= max_j c_j for a row-stochastic A with column sums c_j, so that "
    "‖AX‖_F <= √(max c_j) ‖X‖_F. The bound is at most √L for L rows, and attained by a sink "
    "(√L) and by every doubly stochastic A (1). It is not ordered with ‖A‖_F.",
)
SINK = Claim(
    id="beyond_frobenius_sink",
    paper_ref="equality in the first display of Section 2.1",
    section="beyond",
    statement="For a row-stochastic A with L rows and X not 0, ‖AX‖_F = √L‖X‖_F if and only if A "
    "attends to one key alone, A = 1e_jᵀ, and every other row of X is 0. The sink at the first "
    "key is causal, so a causal mask does not help.",
    uses=("beyond_spectral_column_sum",),
)
DROPOUT = Claim(
    id="beyond_lemma_2_3_dropout",
    paper_ref="extends Lemma 2.3",
    section="beyond",
    statement="With inverted dropout at rate p < 1 on the attention probabilities, Ã = A ∘ M/(1−p) "
    "for a 0–1 matrix M, ‖ÃV‖_{∞,rms} <= ‖V‖_{∞,rms}/(1 − p). Attained when a row's keys are all "
    "kept and V is constant, so mixing is then expansive: by 10/9 at p = 0.1.",
    uses=("lemma_2_3",),
)


def _column_sums(matrix: m.Matrix) -> list[m.Exact]:
    return [sum(column) for column in zip(*matrix, strict=True)]


def _bounded_by_columns(matrix: m.Matrix, scale_squared: Fraction) -> Case:
    """The comparison ‖A‖₂² <= scale² · max c_j."""
    return m.spectral_at_most(matrix, scale_squared * max(_column_sums(matrix)), {"A": matrix})


def _random_sink(rng: random.Random) -> m.Matrix:
    keys = rng.randint(1, 4)
    return m.sink(rng.randint(1, 4), keys, rng.randrange(keys))


def _circulant(rng: random.Random) -> m.Matrix:
    """Doubly stochastic."""
    first = list(exact.random_distribution(rng, rng.randint(1, 4)))
    return [first[i:] + first[:i] for i in range(len(first))]


def _mixing(rng: random.Random) -> m.Matrix:
    """Row-stochastic; sinks and doubly stochastic matrices are frequent."""
    draw = rng.random()
    if draw < 0.25:
        return _random_sink(rng)
    if draw < 0.5:
        return _circulant(rng)
    return m.random_stochastic(rng, rng.randint(1, 4), rng.randint(1, 4))


# ------------------------------------------------------------------------------ column sums


@check(COLUMN_SUM, kind=Kind.DERIVATION, planted=Planted("a bound 1% smaller", factor="0.99"))
def mean_of_squares(profile: Profile, *, factor: str = "1") -> Derivation:
    """The gap between the mean of squares and the square of the mean is a variance."""
    scale_squared = Fraction(factor) ** 2
    variance, gap = variance_and_gap()

    def draw(rng: random.Random) -> tuple[m.Matrix, m.Matrix, list[m.Exact]]:
        """A, X and the squared norms of X's rows."""
        matrix = _mixing(rng)
        tokens = m.random_matrix(rng, len(matrix[0]), rng.randint(1, 3))
        return matrix, tokens, [m.squared(row) for row in tokens]

    def one_row(rng: random.Random) -> Case:
        matrix, tokens, squares = draw(rng)
        image = m.squared(m.product(matrix[:1], tokens)[0])
        return Case(image, "<=", m.dot(matrix[0], squares), {"A": matrix, "X": tokens})

    def by_columns(rng: random.Random) -> Case:
        matrix, _, squares = draw(rng)
        by_rows = sum(m.apply(matrix, squares))
        return Case(by_rows, "==", m.dot(_column_sums(matrix), squares), {"A": matrix})

    def spectral(rng: random.Random) -> Case:
        return _bounded_by_columns(_mixing(rng), scale_squared)

    def attained(rng: random.Random) -> Case:
        matrix = rng.choice((_random_sink, _circulant))(rng)
        return m.spectral_at_least(matrix, max(_column_sums(matrix)), {"A": matrix})

    def at_most_the_rows(rng: random.Random) -> Case:
        matrix = _mixing(rng)
        return Case(max(_column_sums(matrix)), "<=", len(matrix), {"A": matrix})

    return Derivation(
        scope="all shapes, all row-stochastic A",
        steps=(
            Identity("variance of one feature in one row", variance, gap),
            RuleStep("one row", Rule.SUM_OF_SQUARES, "‖(AX)_i‖² <= Σ_j A_ij ‖x_j‖²", one_row),
            RuleStep("sum over rows", Rule.LINEARITY, "Σ_i Σ_j A_ij r_j = Σ_j c_j r_j", by_columns),
            RuleStep("largest column", Rule.TERMWISE, "‖A‖₂² <= max_j c_j", spectral),
            RuleStep("entries at most 1", Rule.TERMWISE, "c_j <= L", at_most_the_rows),
            RuleStep("equality", Rule.ATTAINMENT, "sinks; doubly stochastic A at X = 1", attained),
        ),
    )


@check(COLUMN_SUM, kind=Kind.ENUMERATION, planted=Planted("a bound 1% smaller", factor="0.99"))
def every_small_integer_matrix(profile: Profile, *, factor: str = "1") -> Evidence:
    """Every A whose rows are proportional to small integers, by exact LDLᵀ."""
    scale_squared = Fraction(factor) ** 2
    sizes = profile.pick(((2, 2, 3), (3, 2, 2), (2, 3, 2)), ((2, 2, 6), (3, 2, 4), (3, 3, 1)))

    def cases() -> Iterator[Case]:
        for rows, keys, heaviest in sizes:
            pool = {exact.normalised(w) for w in exact.weight_vectors(keys, heaviest)}
            for matrix in itertools.combinations_with_replacement(sorted(pool), rows):
                yield _bounded_by_columns(matrix, scale_squared)

    shown = ", ".join(f"{rows}×{keys}: weights <= {b}" for rows, keys, b in sizes)
    return judge(cases(), scope=f"every A up to the order of its rows, {shown}")


@check(
    COLUMN_SUM,
    kind=Kind.CERTIFICATE,
    planted=Planted("half a weight on one key keeps ‖A‖_F above", half=Fraction(0)),
)
def not_ordered_with_frobenius(profile: Profile, *, half: Fraction = Fraction(1, 2)) -> Evidence:
    """The identity has the smaller column sums, a shared key the smaller Frobenius norm."""

    def cases() -> Iterator[Case]:
        for length in range(3, 13):
            instance = {"L": length}
            diagonal = m.identity(length)
            yield Case(max(_column_sums(diagonal)), "<", m.frobenius_squared(diagonal), instance)
            row = [half] + [(1 - half) / (length - 1)] * (length - 1)
            shared = [row] * length
            yield Case(max(_column_sums(shared)), ">", m.frobenius_squared(shared), instance)

    return judge(cases(), scope="I, and weight 1/2 on one key with the rest uniform; L = 3, …, 12")


# ------------------------------------------------------------------------------------ sinks


def _sink_attains(matrix: m.Matrix, tokens: m.Matrix) -> bool:
    """Whether A = 1e_jᵀ and row j alone of X is not 0."""
    alive = [j for j, row in enumerate(tokens) if any(row)]
    return len(alive) == 1 and all(row[alive[0]] == 1 for row in matrix)


@check(
    SINK,
    kind=Kind.DERIVATION,
    planted=Planted("a sink attains it for every X", any_tokens=True),
)
def gap_by_columns(profile: Profile, *, any_tokens: bool = False) -> Derivation:
    """The gap is Σ_j (L − c_j) ‖x_j‖², beyond that of the column-sum bound."""
    length = sympy.Symbol("L", integer=True, positive=True)
    n = sympy.Symbol("n", integer=True, positive=True)
    j = sympy.Symbol("j", integer=True)
    c, r = sympy.IndexedBase("c", nonnegative=True), sympy.IndexedBase("r", nonnegative=True)

    def equality(rng: random.Random) -> Case:
        rows, keys, width = (rng.randint(1, 4) for _ in range(3))
        at = rng.randrange(keys)
        matrix = rng.choice((m.sink(rows, keys, at), m.random_stochastic(rng, rows, keys)))
        tokens = m.random_matrix(rng, keys, width)
        if rng.random() < 0.4:
            tokens = [row if i == at else [0] * width for i, row in enumerate(tokens)]
        total = m.frobenius_squared(tokens)
        attained = m.frobenius_squared(m.product(matrix, tokens)) == rows * total
        expected = _sink_attains(matrix, tokens) or total == 0
        if any_tokens:
            expected = expected or len({tuple(row) for row in matrix if m.is_one_hot(row)}) == 1
        return Case(int(attained), "==", int(expected), {"A": matrix, "X": tokens})

    return Derivation(
        scope="all shapes, all row-stochastic A",
        steps=(
            Identity(
                "the gap",
                length * sympy.Sum(r[j], (j, 1, n)) - sympy.Sum(c[j] * r[j], (j, 1, n)),
                sympy.Sum((length - c[j]) * r[j], (j, 1, n)),
            ),
            RuleStep(
                "equality",
                Rule.CASE_SPLIT,
                "c_j = L or x_j = 0 for every j; c_j = L means A = 1e_jᵀ",
                equality,
            ),
        ),
    )


@check(SINK, kind=Kind.ENUMERATION, planted=Planted("a factor 1% below √L", factor="0.99"))
def every_small_integer_case(profile: Profile, *, factor: str = "1") -> Evidence:
    """Bound and equality case for every A from small integer rows and every integer X."""
    scale_squared = Fraction(factor) ** 2
    # (rows, keys, largest weight, width, largest entry)
    sizes = profile.pick(
        ((1, 2, 2, 1, 2), (2, 2, 2, 1, 3), (3, 2, 1, 2, 1), (2, 3, 1, 1, 1)),
        ((2, 2, 4, 2, 1), (3, 2, 2, 1, 3), (3, 3, 1, 1, 2), (2, 3, 2, 1, 2)),
    )

    def cases() -> Iterator[Case]:
        for rows, keys, heaviest, width, largest in sizes:
            pool = {exact.normalised(w) for w in exact.weight_vectors(keys, heaviest)}
            matrices = list(itertools.combinations_with_replacement(sorted(pool), rows))
            for tokens in m.integer_matrices(keys, width, range(-largest, largest + 1)):
                total = m.frobenius_squared(tokens)
                if not total:
                    continue
                for matrix in matrices:
                    image = m.frobenius_squared(m.product(matrix, tokens))
                    instance = {"A": matrix, "X": tokens}
                    yield Case(image, "<=", scale_squared * rows * total, instance)
                    attains = int(_sink_attains(matrix, tokens))
                    yield Case(int(image == rows * total), "==", attains, instance)

    shown = "; ".join(f"A {r}×{k}, weights <= {a}, d = {w}, |X| <= {b}" for r, k, a, w, b in sizes)
    return judge(cases(), scope=f"every A up to the order of its rows and every X, {shown}")


# ---------------------------------------------------------------------------------- dropout


def _dropped(mixing: m.Matrix, mask: m.Matrix, rate: Fraction) -> m.Matrix:
    return [
        [a * keep / (1 - rate) for a, keep in zip(row, kept, strict=True)]
        for row, kept in zip(mixing, mask, strict=True)
    ]


@check(DROPOUT, kind=Kind.DERIVATION, planted=Planted("still nonexpansive", power=0))
def kept_mass(profile: Profile, *, power: int = 1) -> Derivation:
    """A row of Ã sums to the kept mass over 1 − p."""
    n = sympy.Symbol("n", integer=True, positive=True)
    j = sympy.Symbol("j", integer=True)
    a, keep = sympy.IndexedBase("a", nonnegative=True), sympy.IndexedBase("k", nonnegative=True)

    def whole_matrix(rng: random.Random) -> Case:
        mixing = _mixing(rng)
        queries, keys = len(mixing), len(mixing[0])
        rate = Fraction(rng.randint(0, 9), 10)
        mask = [[rng.choice((0, 1, 1)) for _ in range(keys)] for _ in range(queries)]
        values = m.random_matrix(rng, keys, rng.randint(1, 3))
        if rng.random() < 0.4:
            mask, values = [[1] * keys] * queries, [values[0]] * keys
        image = m.largest_row_squared(m.product(_dropped(mixing, mask, rate), values))
        bound = m.largest_row_squared(values) / (1 - rate) ** (2 * power)
        return Case(image, "<=", bound, {"A": mixing, "M": mask, "p": rate, "V": values})

    return Derivation(
        scope="all shapes, all rates p < 1, all masks",
        steps=(
            Identity(
                "kept and dropped mass",
                sympy.Sum(a[j] * keep[j], (j, 1, n)),
                sympy.Sum(a[j], (j, 1, n)) - sympy.Sum(a[j] * (1 - keep[j]), (j, 1, n)),
            ),
            RuleStep(
                "every row",
                Rule.TRIANGLE_INEQUALITY,
                "‖Σ_j Ã_ij v_j‖ <= (kept mass)/(1 − p) · max ‖v_j‖ <= max ‖v_j‖/(1 − p)",
                whole_matrix,
            ),
        ),
    )


@check(DROPOUT, kind=Kind.ENUMERATION, planted=Planted("a bound 1% smaller", factor="0.99"))
def every_mask(profile: Profile, *, factor: str = "1") -> Evidence:
    """p = 1/10 and 1/2: every mask of every small integer row, every scalar V; 10/9 is attained."""
    scale = Fraction(factor)
    sizes = profile.pick(((1, 1, 3), (2, 2, 2), (3, 1, 1)), ((2, 4, 3), (3, 2, 2), (4, 1, 1)))

    def cases() -> Iterator[Case]:
        for keys, heaviest, largest in sizes:
            pool = [exact.normalised(w) for w in exact.weight_vectors(keys, heaviest)]
            values = list(itertools.product(range(-largest, largest + 1), repeat=keys))
            for rate in (Fraction(1, 10), Fraction(1, 2)):
                for row in pool:
                    for mask in itertools.product((0, 1), repeat=keys):
                        (kept,) = _dropped([row], [mask], rate)
                        for v in values:
                            bound = scale * max(abs(entry) for entry in v) / (1 - rate)
                            instance = {"a": row, "M": mask, "v": v, "p": rate}
                            yield Case(m.sup_norm([m.dot(kept, v)]), "<=", bound, instance)
                attained = m.dot(_dropped([pool[0]], [[1] * keys], rate)[0], [1] * keys)
                yield Case(attained, "==", 1 / (1 - rate), {"a": pool[0], "p": rate})

    shown = ", ".join(f"L = {keys}: weights <= {a}, |V| <= {b}" for keys, a, b in sizes)
    return judge(cases(), scope=f"p = 1/10 and 1/2, every mask, {shown}")
