"""Section 2.1: the two tokenwise facts, the Frobenius inequalities and the sandwich of norms."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.claims import _instances as exact
from theory.claims import _matrices as m
from theory.claims.definition_2_2 import ROUNDED_NORMS
from theory.derivations import layernorm as symbolic
from theory.layernorm import layer_norm
from theory.norms import block_inf_rms, frobenius
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
from verify.exact import as_fraction

TOKENWISE = Claim(
    id="fact_ln_tokenwise",
    paper_ref="Section 2.1, first operation",
    section="2",
    statement="With statistics taken per token, row i of LN(X) depends on x_i alone: its "
    "derivative by every entry of another token is 0, and doubling another token changes nothing.",
)
CONVEX = Claim(
    id="fact_attention_convex",
    paper_ref="Section 2.1, second operation",
    section="2",
    statement="For a row-stochastic A of any shape, (AV)_i is a convex combination of the rows of "
    "V, and ‖(AV)_i‖₂ <= max_j ‖v_j‖₂, with equality when the rows that i attends to are equal "
    "and of largest norm.",
)
FROBENIUS_PRODUCT = Claim(
    id="ineq_frobenius_1",
    paper_ref="Section 2.1, first display, left inequality",
    section="2",
    statement="‖AX‖_F <= ‖A‖_F ‖X‖_F for all real matrices that can be multiplied; equality, for "
    "instance, when A = uvᵀ and X = vwᵀ.",
)
FROBENIUS_STOCHASTIC = Claim(
    id="ineq_frobenius_2",
    paper_ref="Section 2.1, first display, right inequality",
    section="2",
    statement="‖A‖_F <= √L for every row-stochastic A with L rows, with equality if and only if "
    "every row is one-hot.",
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="Equality holds exactly for one-hot rows; the whole chain ‖AX‖_F = √L‖X‖_F is "
        "attained only by an attention sink (beyond_frobenius_sink). What acts on X is "
        "‖A‖₂ <= √(largest column sum) <= √L (beyond_spectral_column_sum); for uniform causal rows "
        "‖A‖₂ < 2 at every length (beyond_cesaro).",
    ),
)
SANDWICH = Claim(
    id="ineq_sandwich",
    paper_ref="Section 2.1, second display",
    section="2",
    statement="‖X‖_F/√(Ld) <= ‖X‖_{∞,rms} <= ‖X‖_F/√d for every X in R^{L×d}; the left is an "
    "equality if and only if all rows have the same norm, the right if and only if at most one "
    "row is not zero.",
    uses=("definition_2_2",),
)
TRANSFER = Claim(
    id="fact_sqrtL_transfer",
    paper_ref="Section 2.1, after the second display",
    section="2",
    statement="For a linear map T on R^{L×d} the norms induced by ‖·‖_{∞,rms} and by ‖·‖_F differ "
    "by a factor of at most √L in either direction, and both directions are attained: T = 1e_1ᵀ "
    "(one key read by all tokens) and T = e_1 1ᵀ (all tokens summed into one). The same holds for "
    "Lipschitz constants.",
    uses=("ineq_sandwich",),
)


# ------------------------------------------------------------------------------- tokenwise


@check(
    TOKENWISE,
    kind=Kind.DERIVATION,
    planted=Planted("the mean is taken over all tokens", leak=1),
)
def no_derivative_by_another_token(profile: Profile, *, leak: int = 0) -> Derivation:
    """No entry y of another token enters the definition; a leak is y among those averaged."""
    y = sympy.Symbol("y", real=True)
    alone = symbolic.layer_norm_vector(1)
    single = alone.output.subs({x: x + leak * y for x in alone.x})
    split = symbolic.split_layer_norm()
    output = split.output.subs(symbolic.rest_sum, symbolic.rest_sum + leak * y)
    return Derivation(
        scope="every width d >= 1, any number of tokens",
        steps=(
            Identity("∂LN(x)/∂y, d = 1", single.diff(y), sympy.zeros(1)),
            Identity("∂LN(x)_i/∂y, any d >= 2", sympy.diff(output, y), 0),
            Identity("doubling y, any d >= 2", output.subs(y, 2 * y), output),
        ),
    )


@check(
    TOKENWISE,
    kind=Kind.SAMPLE,
    planted=Planted("doubling a token keeps its own output", watch_itself=True),
)
def doubling_a_token(profile: Profile, *, watch_itself: bool = False) -> Evidence:
    """``layer_norm`` returns the same bits for all other tokens; ε = 1e-5."""
    rng = np.random.default_rng(211)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(40, 400)):
            length, width = int(rng.integers(2, 7)), int(rng.integers(2, 40))
            tokens = rng.standard_normal((length, width)) * 10.0 ** rng.integers(-6, 7)
            gamma, beta = rng.standard_normal((2, width))
            before = layer_norm(tokens, gamma, beta, 1e-5)
            doubled = int(rng.integers(length))
            tokens[doubled] *= 2.0
            after = layer_norm(tokens, gamma, beta, 1e-5)
            watched = np.arange(length) == doubled
            if not watch_itself:
                watched = ~watched
            change = float(np.max(np.abs(after[watched] - before[watched])))
            yield Case(as_fraction(change), "==", 0, {"L": length, "d": width, "token": doubled})

    return judge(cases(), scope="Gaussian tokens of scales 1e-6 to 1e6, 2 <= L <= 6, 2 <= d < 40")


# ----------------------------------------------------------------------- convex combination


def _mixture(rng: random.Random) -> tuple[m.Vector, m.Matrix]:
    """Weights and rows; all rows equal, or a one-hot row, in many of the draws."""
    length, width = rng.randint(1, 5), rng.randint(1, 4)
    values = m.random_matrix(rng, length, width)
    if rng.random() < 0.2:
        values = [values[0]] * length
    return m.random_stochastic(rng, 1, length)[0], values


@check(CONVEX, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def merging_two_keys_at_a_time(profile: Profile, *, factor: str = "1") -> Derivation:
    """The squared norm of a mixture is the mean of the squared norms less a multiple of a square.

    u and w are a key's value and the mixture of all keys before it, so that induction on the
    number of keys covers every L.
    """
    scale_squared = Fraction(factor) ** 2
    t, uu, uw, ww = sympy.symbols("t uu uw ww", real=True)

    def below_the_mean(rng: random.Random) -> Case:
        weights, values = _mixture(rng)
        mean = m.dot(weights, [m.squared(v) for v in values])
        return Case(m.squared(m.product([weights], values)[0]), "<=", mean, {"a": weights})

    def below_the_maximum(rng: random.Random) -> Case:
        weights, values = _mixture(rng)
        largest = scale_squared * m.largest_row_squared(values)
        instance = {"a": weights, "V": values}
        return Case(m.squared(m.product([weights], values)[0]), "<=", largest, instance)

    def equal_values(rng: random.Random) -> Case:
        weights, values = _mixture(rng)
        top = max(values, key=m.squared)
        attended = [top if a else v for a, v in zip(weights, values, strict=True)]
        image = m.squared(m.product([weights], attended)[0])
        return Case(image, "==", m.largest_row_squared(attended), {"a": weights, "V": attended})

    return Derivation(
        scope="all L, all d, every row of every row-stochastic A",
        steps=(
            Identity(
                "two keys",
                t**2 * uu + 2 * t * (1 - t) * uw + (1 - t) ** 2 * ww,
                t * uu + (1 - t) * ww - t * (1 - t) * (uu - 2 * uw + ww),
            ),
            RuleStep(
                "‖Σ a_j v_j‖² <= Σ a_j ‖v_j‖²",
                Rule.INDUCTION,
                "each key merges into the mixture of those before; ‖u − w‖² >= 0",
                below_the_mean,
            ),
            RuleStep(
                "maximum",
                Rule.CONVEX_COMBINATION,
                "Σ a_j ‖v_j‖² <= max ‖v_j‖²",
                below_the_maximum,
            ),
            RuleStep("equality", Rule.ATTAINMENT, "v_j = v where a_j > 0", equal_values),
        ),
    )


@check(CONVEX, kind=Kind.ENUMERATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def every_small_integer_mixture(profile: Profile, *, factor: str = "1") -> Evidence:
    """Every integer weight row with every integer V, cleared of denominators."""
    scale_squared = Fraction(factor) ** 2
    # (keys, width, largest weight, largest entry)
    sizes = profile.pick(
        ((1, 2, 2, 2), (2, 1, 4, 4), (2, 2, 3, 1), (3, 1, 2, 2)),
        ((1, 3, 3, 3), (2, 2, 4, 2), (3, 1, 4, 3), (3, 2, 2, 1), (4, 1, 2, 2)),
    )

    def cases() -> Iterator[Case]:
        for keys, width, heaviest, largest in sizes:
            rows = list(exact.weight_vectors(keys, heaviest))
            for values in m.integer_matrices(keys, width, range(-largest, largest + 1)):
                bound = scale_squared * m.largest_row_squared(values)
                for weights in rows:
                    image = m.squared(m.product([weights], values)[0])
                    instance = {"weights": weights, "V": values}
                    yield Case(image, "<=", bound * sum(weights) ** 2, instance)

    shown = "; ".join(f"L = {k}, d = {w}: weights <= {a}, |V| <= {b}" for k, w, a, b in sizes)
    return judge(cases(), scope=f"every integer row and V, {shown}")


# -------------------------------------------------------------------------------- Frobenius


def _rank_one_factors(rng: random.Random) -> tuple[m.Matrix, m.Matrix]:
    """A = uvᵀ and X = vwᵀ, where equality holds."""
    u, v, w = (m.random_matrix(rng, 1, rng.randint(1, 4))[0] for _ in range(3))
    return [[a * b for b in v] for a in u], [[b * c for c in w] for b in v]


def _pair_of_factors(rng: random.Random) -> tuple[m.Matrix, m.Matrix]:
    """A and X of fitting shapes; often of rank one with a common vector."""
    if rng.random() < 0.3:
        return _rank_one_factors(rng)
    rows, inner, columns = (rng.randint(1, 4) for _ in range(3))
    return m.random_matrix(rng, rows, inner), m.random_matrix(rng, inner, columns)


@check(
    FROBENIUS_PRODUCT,
    kind=Kind.DERIVATION,
    planted=Planted("the bound is 1% smaller", factor="0.99"),
)
def entry_by_entry(profile: Profile, *, factor: str = "1") -> Derivation:
    """Cauchy–Schwarz for each entry, proved by one coordinate more, then a sum over entries."""
    scale_squared = Fraction(factor) ** 2
    n = sympy.Symbol("n", integer=True, positive=True)
    j = sympy.Symbol("j", integer=True)
    a, x = sympy.symbols("a x", real=True)
    row, column = sympy.IndexedBase("r", real=True), sympy.IndexedBase("c", real=True)

    def total(term: sympy.Expr) -> sympy.Sum:
        return sympy.Sum(term, (j, 1, n))

    squares_row, squares_column = total(row[j] ** 2), total(column[j] ** 2)
    crossed = total(row[j] * column[j])

    def one_entry(rng: random.Random) -> Case:
        left, right = _pair_of_factors(rng)
        first = [line[0] for line in right]
        bound = m.squared(left[0]) * m.squared(first)
        return Case(m.dot(left[0], first) ** 2, "<=", bound, {"a": left[0], "x": first})

    def whole_product(rng: random.Random) -> Case:
        left, right = _pair_of_factors(rng)
        bound = scale_squared * m.frobenius_squared(left) * m.frobenius_squared(right)
        return Case(
            m.frobenius_squared(m.product(left, right)), "<=", bound, {"A": left, "X": right}
        )

    def rank_one(rng: random.Random) -> Case:
        left, right = _rank_one_factors(rng)
        bound = m.frobenius_squared(left) * m.frobenius_squared(right)
        return Case(
            m.frobenius_squared(m.product(left, right)), "==", bound, {"A": left, "X": right}
        )

    return Derivation(
        scope="all shapes",
        steps=(
            # The gap in Cauchy–Schwarz grows by a sum of squares with every coordinate.
            Identity(
                "coordinate n + 1",
                (squares_row + a**2) * (squares_column + x**2) - (crossed + a * x) ** 2,
                squares_row * squares_column
                - crossed**2
                + total((a * column[j] - x * row[j]) ** 2),
            ),
            RuleStep("one entry", Rule.INDUCTION, "(AX)_ik² <= ‖a_i‖²‖x^k‖²", one_entry),
            RuleStep("all entries", Rule.TERMWISE, "Σ_ik ‖a_i‖²‖x^k‖² = ‖A‖²‖X‖²", whole_product),
            RuleStep("equality", Rule.ATTAINMENT, "A = uvᵀ and X = vwᵀ", rank_one),
        ),
    )


@check(
    FROBENIUS_PRODUCT,
    kind=Kind.ENUMERATION,
    planted=Planted("the bound is 1% smaller", factor="0.99"),
)
def every_small_integer_product(profile: Profile, *, factor: str = "1") -> Evidence:
    """Every pair of integer matrices of three small shapes."""
    scale_squared = Fraction(factor) ** 2
    largest = profile.pick(1, 2)
    shapes = ((1, 2, 1), (2, 2, 1), (2, 1, 2), (2, 2, 2))

    def cases() -> Iterator[Case]:
        values = range(-largest, largest + 1)
        for rows, inner, columns in shapes:
            for left in m.integer_matrices(rows, inner, values):
                norm = scale_squared * m.frobenius_squared(left)
                for right in m.integer_matrices(inner, columns, values):
                    image = m.frobenius_squared(m.product(left, right))
                    bound = norm * m.frobenius_squared(right)
                    yield Case(image, "<=", bound, {"A": left, "X": right})

    return judge(cases(), scope=f"all A, X of shapes {shapes} (m, n, k), entries at most {largest}")


@check(
    FROBENIUS_STOCHASTIC,
    kind=Kind.DERIVATION,
    planted=Planted("the bound is 1% smaller", factor="0.99"),
)
def row_by_row(profile: Profile, *, factor: str = "1") -> Derivation:
    """1 − ‖p‖² = Σ p_j(1 − p_j) for a probability row, a sum of nonnegative terms."""
    scale_squared = Fraction(factor) ** 2
    n = sympy.Symbol("n", integer=True, positive=True)
    j = sympy.Symbol("j", integer=True)
    p = sympy.IndexedBase("p", nonnegative=True)
    last = 1 - sympy.Sum(p[j], (j, 1, n))

    def whole_matrix(rng: random.Random) -> Case:
        rows = rng.randint(1, 5)
        matrix = m.random_stochastic(rng, rows, rng.randint(1, 5))
        if rng.random() < 0.2:
            matrix = m.sink(rows, len(matrix[0]))
        return Case(m.frobenius_squared(matrix), "<=", scale_squared * rows, {"A": matrix})

    def equality_case(rng: random.Random) -> Case:
        row = m.random_stochastic(rng, 1, rng.randint(1, 5))[0]
        return Case(int(m.squared(row) == 1), "==", int(m.is_one_hot(row)), {"p": row})

    return Derivation(
        scope="all shapes, all row-stochastic A",
        steps=(
            # n + 1 atoms, of which the last takes up what the others leave.
            Identity(
                "the gap of one row",
                1 - (sympy.Sum(p[j] ** 2, (j, 1, n)) + last**2),
                sympy.Sum(p[j] * (1 - p[j]), (j, 1, n)) + last * (1 - last),
            ),
            RuleStep("rows add up", Rule.TERMWISE, "‖A‖_F² = Σ_i ‖a_i‖² <= L", whole_matrix),
            RuleStep(
                "equality",
                Rule.CASE_SPLIT,
                "every p_j(1 − p_j) is 0 exactly when every p_j is 0 or 1",
                equality_case,
            ),
        ),
    )


@check(
    FROBENIUS_STOCHASTIC,
    kind=Kind.ENUMERATION,
    planted=Planted("rows of two equal atoms also attain it", one_hot_only=False),
)
def every_small_integer_row(profile: Profile, *, one_hot_only: bool = True) -> Evidence:
    """‖A‖_F² is a sum over rows, so every row of every small size settles every matrix of them."""
    sizes = profile.pick(
        ((1, 6), (2, 12), (3, 8), (4, 5), (5, 4), (6, 3)),
        ((1, 40), (2, 40), (3, 20), (4, 12), (5, 8), (6, 6), (7, 5), (8, 4)),
    )

    def attains(row: m.Vector) -> bool:
        return m.is_one_hot(row) or (not one_hot_only and sorted(row)[-2:] == [Fraction(1, 2)] * 2)

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                row = exact.normalised(weights)
                yield Case(m.squared(row), "<=", 1, {"weights": weights})
                yield Case(int(m.squared(row) == 1), "==", int(attains(row)), {"weights": weights})

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer row up to order, {shown}")


# --------------------------------------------------------------------------------- sandwich


def _tokens(rng: random.Random) -> m.Matrix:
    """L tokens of one width; rows of equal norm and a single nonzero row are frequent."""
    length, width = rng.randint(1, 5), rng.randint(1, 4)
    draw = rng.random()
    if draw < 0.25:
        row = m.random_matrix(rng, 1, width)[0]
        return [[rng.choice((-1, 1)) * entry for entry in row] for _ in range(length)]
    tokens = [list(row) for row in m.random_matrix(rng, length, width)]
    if draw < 0.5:
        keep = rng.randrange(length)
        tokens = [row if i == keep else [0] * width for i, row in enumerate(tokens)]
    return tokens


@check(
    SANDWICH,
    kind=Kind.DERIVATION,
    planted=Planted("√(L − 1) in place of √L", fewer=1),
)
def sums_against_the_largest_term(profile: Profile, *, fewer: int = 0) -> Derivation:
    """With r_i = ‖x_i‖²: max r <= Σ r <= L max r, multiplied by 1/d and 1/(Ld)."""
    length = sympy.Symbol("L", integer=True, positive=True)
    i = sympy.Symbol("i", integer=True)
    largest = sympy.Symbol("r_max", nonnegative=True)
    r = sympy.IndexedBase("r", nonnegative=True)

    def left(rng: random.Random) -> Case:
        tokens = _tokens(rng)
        bound = (len(tokens) - fewer) * m.largest_row_squared(tokens)
        return Case(m.frobenius_squared(tokens), "<=", bound, {"X": tokens})

    def left_equality(rng: random.Random) -> Case:
        tokens = _tokens(rng)
        attained = m.frobenius_squared(tokens) == len(tokens) * m.largest_row_squared(tokens)
        equal_rows = len({m.squared(row) for row in tokens}) == 1
        return Case(int(attained), "==", int(equal_rows), {"X": tokens})

    def right(rng: random.Random) -> Case:
        tokens = _tokens(rng)
        return Case(m.largest_row_squared(tokens), "<=", m.frobenius_squared(tokens), {"X": tokens})

    def right_equality(rng: random.Random) -> Case:
        tokens = _tokens(rng)
        attained = m.frobenius_squared(tokens) == m.largest_row_squared(tokens)
        nonzero = sum(1 for row in tokens if any(row))
        return Case(int(attained), "==", int(nonzero <= 1), {"X": tokens})

    return Derivation(
        scope="all L, all d, all X",
        steps=(
            Identity(
                "the left gap is Σ (r_max − r_i)",
                (length - fewer) * largest - sympy.Sum(r[i], (i, 1, length)),
                sympy.Sum(largest - r[i], (i, 1, length)),
            ),
            RuleStep("left", Rule.TERMWISE, "every r_max − r_i >= 0", left),
            RuleStep("left, equality", Rule.CASE_SPLIT, "iff every r_i = r_max", left_equality),
            RuleStep("right", Rule.TERMWISE, "every r_i >= 0", right),
            RuleStep("right, equality", Rule.CASE_SPLIT, "iff the others are 0", right_equality),
        ),
    )


@check(
    SANDWICH,
    kind=Kind.ENUMERATION,
    planted=Planted("both bounds are 1% tighter", factor="0.99"),
)
def every_small_integer_matrix(profile: Profile, *, factor: str = "1") -> Evidence:
    """Both inequalities and both equality cases, with squares in place of roots."""
    scale_squared = Fraction(factor) ** 2
    sizes = profile.pick(
        ((1, 1, 4), (1, 2, 3), (2, 1, 4), (2, 2, 2), (3, 1, 3), (3, 2, 1)),
        ((1, 3, 4), (2, 2, 4), (3, 1, 8), (3, 2, 2), (4, 1, 4), (4, 2, 1)),
    )

    def cases() -> Iterator[Case]:
        for length, width, largest in sizes:
            for tokens in m.integer_matrices(length, width, range(-largest, largest + 1)):
                rows = [m.squared(row) for row in tokens]
                total, top = sum(rows), max(rows)
                instance = {"X": tokens}
                yield Case(total, "<=", scale_squared * length * top, instance)
                yield Case(top, "<=", scale_squared * total, instance)
                all_equal = min(rows) == top
                yield Case(int(total == length * top), "==", int(all_equal), instance)
                single = sum(1 for r in rows if r) <= 1
                yield Case(int(total == top), "==", int(single), instance)

    shown = ", ".join(f"{length}×{width}: |X| <= {b}" for length, width, b in sizes)
    return judge(cases(), scope=f"every integer matrix, {shown}")


@check(
    SANDWICH,
    kind=Kind.FLOAT,
    planted=Planted("both bounds are 1% tighter", factor=0.99),
)
def public_norms(profile: Profile, *, factor: float = 1.0) -> Evidence:
    """``block_inf_rms`` and ``frobenius`` from 1e-300 to 1e300, at the equality cases as well."""
    rng = np.random.default_rng(22)

    def cases() -> Iterator[Case]:
        for length, width in ((1, 1), (1, 7), (5, 1), (6, 4), (33, 65)):
            for scale in (1e-300, 1e-30, 1.0, 1e30, 1e300):
                single = np.zeros((length, width))
                single[length // 2] = scale
                signs = scale * rng.choice((-1.0, 1.0), (length, width))
                for tokens in (scale * rng.standard_normal((length, width)), signs, single):
                    block, whole = block_inf_rms(tokens), frobenius(tokens)
                    instance = {"L": length, "d": width, "scale": scale}
                    yield Case(whole / np.sqrt(length * width), "<=", factor * block, instance)
                    yield Case(block, "<=", factor * whole / np.sqrt(width), instance)

    return judge(
        cases(),
        scope="Gaussian, equal-norm and single-row X, up to 33×65, scales 1e-300 to 1e300",
        tolerance=ROUNDED_NORMS,
    )


# --------------------------------------------------------------------------------- transfer


def _square(rng: random.Random) -> m.Matrix:
    """A map on tokens of width 1; the two extreme maps are frequent."""
    size = rng.randint(1, 4)
    draw = rng.random()
    if draw < 0.25:
        return m.sink(size, size, rng.randrange(size))
    if draw < 0.5:
        return m.transposed(m.sink(size, size, rng.randrange(size)))
    return m.random_matrix(rng, size, size)


@check(
    TRANSFER,
    kind=Kind.DERIVATION,
    planted=Planted("the factor is 1% below √L", factor="0.99"),
)
def from_the_sandwich(profile: Profile, *, factor: str = "1") -> Derivation:
    """Apply one side of the sandwich to the output and the other to the input."""
    length, d = sympy.symbols("L d", positive=True)
    scale_squared = Fraction(factor) ** 2

    def block_by_spectral(rng: random.Random) -> Case:
        return _block_at_most(_square(rng), scale_squared)

    def spectral_by_block(rng: random.Random) -> Case:
        return _spectral_at_most(_square(rng), scale_squared)

    def one_key_read_by_all(rng: random.Random) -> Case:
        length = rng.randint(1, 6)
        matrix = m.sink(length, length, rng.randrange(length))
        bound = length * m.largest_row_sum(matrix) ** 2
        return m.spectral_at_least(matrix, bound, {"T": matrix})

    def all_summed_into_one(rng: random.Random) -> Case:
        length = rng.randint(1, 6)
        matrix = m.transposed(m.sink(length, length, rng.randrange(length)))
        bound = Fraction(m.largest_row_sum(matrix) ** 2, length)
        return m.spectral_at_most(matrix, bound, {"T": matrix})

    return Derivation(
        scope="all L, all d, all linear maps on R^{L×d}, and differences of Lipschitz maps",
        steps=(
            # √(Ld) turns one norm of the input into the other, 1/√d that of the output. For a
            # Lipschitz map read differences f(X) − f(X') and X − X' for TX and X.
            Identity("the two factors", sympy.sqrt(length * d) / sympy.sqrt(d), sympy.sqrt(length)),
            RuleStep(
                "block norm",
                Rule.TRANSITIVITY,
                "‖TX‖_{∞,rms} <= ‖TX‖_F/√d <= ‖T‖_F‖X‖_F/√d <= √L‖T‖_F‖X‖_{∞,rms}",
                block_by_spectral,
            ),
            RuleStep(
                "Frobenius norm",
                Rule.TRANSITIVITY,
                "‖TX‖_F <= √(Ld)‖TX‖_{∞,rms} <= √(Ld)‖T‖‖X‖_{∞,rms} <= √L‖T‖‖X‖_F",
                spectral_by_block,
            ),
            RuleStep("T = 1e_1ᵀ", Rule.ATTAINMENT, "‖T‖₂ >= √L‖T‖", one_key_read_by_all),
            RuleStep("T = e_1 1ᵀ", Rule.ATTAINMENT, "‖T‖₂ <= ‖T‖/√L", all_summed_into_one),
        ),
    )


def _block_at_most(matrix: m.Matrix, scale_squared: Fraction) -> Case:
    """‖T‖² <= scale²·L‖T‖₂² for tokens of width 1, the block-∞/RMS norm on the left."""
    bound = Fraction(m.largest_row_sum(matrix)) ** 2 / (scale_squared * len(matrix))
    return m.spectral_at_least(matrix, bound, {"T": matrix})


def _spectral_at_most(matrix: m.Matrix, scale_squared: Fraction) -> Case:
    """‖T‖₂² <= scale²·L‖T‖² likewise."""
    bound = scale_squared * len(matrix) * Fraction(m.largest_row_sum(matrix)) ** 2
    return m.spectral_at_most(matrix, bound, {"T": matrix})


@check(
    TRANSFER,
    kind=Kind.ENUMERATION,
    planted=Planted("the factor is 1% below √L", factor="0.99"),
)
def every_small_integer_map(profile: Profile, *, factor: str = "1") -> Evidence:
    """Token width 1: ‖T‖_{∞→∞} against ‖T‖₂, both ways."""
    scale_squared = Fraction(factor) ** 2
    sizes = profile.pick(((1, (-2, 3)), (2, (-1, 2)), (3, (0, 1))), ((2, (-3, 3)), (3, (-1, 1))))

    def cases() -> Iterator[Case]:
        for size, (least, largest) in sizes:
            for matrix in m.integer_matrices(size, size, range(least, largest + 1)):
                yield _block_at_most(matrix, scale_squared)
                yield _spectral_at_most(matrix, scale_squared)

    shown = ", ".join(f"L = {size}: {low}..{high}" for size, (low, high) in sizes)
    return judge(cases(), scope=f"every integer T, {shown}, token width 1")
