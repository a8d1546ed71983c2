"""Remark 3.3: θ as a maximum cut, and the cost of computing it."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.claims import _partitions
from theory.derivations import softmax as symbolic
from theory.derivations.balanced_mass import bisection
from theory.derivations.layernorm import coordinate_sum
from theory.theta import Status, solve_theta
from verify.certificates import subset_discrepancy
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import as_fraction, is_positive_semidefinite

LAPLACIAN = Claim(
    id="remark_3_3_laplacian",
    paper_ref="Remark 3.3",
    section="3",
    statement="For p in the simplex, Diag(p) − ppᵀ is the Laplacian of the complete graph on [L] "
    "with edge weights p_i p_j, i ≠ j: its degrees are p_i(1 − p_i), its row sums 0, and "
    "xᵀ(Diag p − ppᵀ)x = Σ_{i<j} p_i p_j (x_i − x_j)², so it is positive semidefinite.",
)
CUT = Claim(
    id="remark_3_3_cut",
    paper_ref="Remark 3.3",
    section="3",
    statement="At a sign vector x with positive set S and q = p(S), xᵀ(Diag p − ppᵀ)x = "
    "1 − (2q − 1)² = 4q(1 − q) = 4 Cut(S), where Cut(S) = Σ_{i∈S, j∉S} p_i p_j.",
    uses=("remark_3_3_laplacian",),
)
MAXCUT = Claim(
    id="remark_3_3_maxcut",
    paper_ref="Remark 3.3",
    section="3",
    statement="θ(p) is four times the maximum cut of that graph, and the maximum of "
    "xᵀ(Diag p − ppᵀ)x over sign vectors, for every p in the simplex.",
    uses=("definition_3_1", "remark_3_3_cut"),
)
HARDNESS = Claim(
    id="remark_3_3_hardness",
    paper_ref="Remark 3.3, last paragraph",
    section="3",
    statement="For positive integers a_1..a_L with total W, θ(a/W) = 1 − (D/W)² with D the least "
    "|2a(S) − W|. So θ(a/W) = 1 if and only if a has a perfect partition; every rational row is "
    "such an a/W; and a subset is a certificate checked by addition. Deciding θ(p) = 1 is "
    "therefore NP-complete, like Partition.",
    uses=("definition_3_1",),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="The hardness is weak: it needs common denominators that grow exponentially with L, "
        "since dynamic programming finds D in O(L·W) bit operations. Nor does it force lower "
        "bounds on large-L experiments: softmax rows of 1024 Gaussian logits, from flat to nearly "
        "one-hot, are decided and correctly rounded, and where the value is 1.0 the mass of one "
        "subset proves it.",
    ),
)


# ---------------------------------------------------------------------------------- Laplacian


@check(LAPLACIAN, kind=Kind.DERIVATION, planted=Planted("degrees p_i", self_loop=0))
def derived_for_every_length(profile: Profile, *, self_loop: int = 1) -> Derivation:
    """Sums over the edges of any number of vertices, from Σ p_j = 1 alone."""
    p_i, p_j, x_i, x_j = sympy.symbols("p_i p_j x_i x_j", real=True)
    mean, square = sympy.symbols("alpha Q", real=True)

    def over(a: sympy.Symbol, x: sympy.Symbol) -> Callable[[sympy.Expr], sympy.Expr]:
        sums = {a: sympy.Integer(1), a * x: mean, a * x**2: square}
        return coordinate_sum((a, x), sums)

    over_i, over_j = over(p_i, x_i), over(p_j, x_j)

    def random_pair(rng: random.Random) -> tuple[exact.Distribution, list[Fraction]]:
        p = exact.random_distribution(rng, rng.randint(1, 6))
        return p, [exact.random_rational(rng, 3) for _ in p]

    def form(rng: random.Random) -> Case:
        p, v = random_pair(rng)
        edges = sum(
            (p[i] * p[j] * (v[i] - v[j]) ** 2 for i in range(len(p)) for j in range(i)),
            Fraction(0),
        )
        return Case(exact.quadratic_form(exact.jacobian(p), v), "==", edges, {"p": p, "x": v})

    def semidefinite(rng: random.Random) -> Case:
        p, v = random_pair(rng)
        return Case(exact.quadratic_form(exact.jacobian(p), v), ">=", 0, {"p": p, "x": v})

    return Derivation(
        scope="all L, all p in the simplex",
        steps=(
            Identity(
                "degree of i, Σ over j ≠ i of p_i p_j = diagonal entry",
                over_j(p_i * p_j) - p_i**2,
                p_i - self_loop * p_i**2,
            ),
            Identity(
                "½ ΣΣ p_i p_j (x_i − x_j)² where Σ p_i x_i = α, Σ p_i x_i² = Q",
                over_i(over_j(p_i * p_j * (x_i - x_j) ** 2)) / 2,
                square - mean**2,
            ),
            RuleStep("form", Rule.DEFINITION, "xᵀ(Diag p − ppᵀ)x = Q − α², the edges' sum", form),
            RuleStep("semidefinite", Rule.SUM_OF_SQUARES, "xᵀ(Diag p − ppᵀ)x >= 0", semidefinite),
        ),
    )


@check(LAPLACIAN, kind=Kind.DERIVATION, planted=Planted("edges −p_i p_j", edge=-1))
def derived_at_fixed_lengths(profile: Profile, *, edge: int = 1) -> Derivation:
    """Degree matrix minus adjacency matrix, entry by entry, against the derivative of softmax."""
    steps = []
    for length in (1, 2, 3, 4):
        u, p = symbolic.softmax_vector(length)
        adjacency = sympy.Matrix(
            length, length, lambda i, j, p=p: 0 if i == j else edge * p[i] * p[j]
        )
        degrees = sympy.diag(*(sum(adjacency.row(i)) for i in range(length)))
        steps.append(
            Identity(f"L = {length}", symbolic.tau * p.jacobian(u), degrees - adjacency),
        )
    return Derivation(scope="L = 1, 2, 3, 4, all p", steps=tuple(steps))


@check(LAPLACIAN, kind=Kind.ENUMERATION, planted=Planted("degrees 0.99 p_i(1 − p_i)", scale="0.99"))
def every_small_integer_row(profile: Profile, *, scale: str = "1") -> Evidence:
    """Degrees, row sums and an exact LDLᵀ of every small row, zeros included."""
    sizes = profile.pick(((1, 6), (2, 8), (3, 5), (4, 3)), ((1, 20), (2, 20), (3, 9), (4, 6)))

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.weight_vectors(length, largest):
                p = exact.normalised(weights)
                matrix = exact.jacobian(p)
                instance = {"weights": weights}
                for i, row in enumerate(matrix):
                    degree = sum((p[i] * p[j] for j in range(length) if j != i), Fraction(0))
                    yield Case(row[i], "==", Fraction(scale) * degree, instance)
                    yield Case(sum(row), "==", 0, instance)
                yield Case(int(is_positive_semidefinite(matrix)), "==", 1, instance)

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight vector, {shown}")


# ----------------------------------------------------------------------------------- the cut


def _cut(p: Sequence[Fraction], signs: Sequence[int]) -> Fraction:
    """Σ p_i p_j over i in S and j outside, term by term."""
    pairs = [(a, s) for a, s in zip(p, signs, strict=True)]
    return sum(
        (a * b for a, s in pairs if s > 0 for b, t in pairs if t < 0),
        Fraction(0),
    )


@check(CUT, kind=Kind.DERIVATION, planted=Planted("2 Cut", factor=2))
def derived_by_class_sums(profile: Profile, *, factor: int = 4) -> Derivation:
    """The form, the cut and both closed forms in the two class sums, which add up to 1."""
    inside = sympy.Symbol("q", nonnegative=True)
    outside = 1 - inside
    cut = inside * outside

    def draw(rng: random.Random) -> tuple[exact.Distribution, tuple[int, ...]]:
        p = exact.random_distribution(rng, rng.randint(1, 7))
        return p, tuple(rng.choice((-1, 1)) for _ in p)

    def form_in_class_sums(rng: random.Random) -> Case:
        p, x = draw(rng)
        q = exact.mass_of_signs(p, x)
        form = exact.quadratic_form(exact.jacobian(p), x)
        return Case(form, "==", q + (1 - q) - (q - (1 - q)) ** 2, {"p": p, "x": x})

    def cut_in_class_sums(rng: random.Random) -> Case:
        p, x = draw(rng)
        q = exact.mass_of_signs(p, x)
        return Case(_cut(p, x), "==", q * (1 - q), {"p": p, "x": x})

    def form_is_cut(rng: random.Random) -> Case:
        p, x = draw(rng)
        form = exact.quadratic_form(exact.jacobian(p), x)
        return Case(form, "==", factor * _cut(p, x), {"p": p, "x": x})

    form = (inside + outside) - (inside - outside) ** 2
    return Derivation(
        scope="all L, all p in the simplex, all sign vectors",
        steps=(
            RuleStep(
                "form",
                Rule.LINEARITY,
                "xᵀ(Diag p − ppᵀ)x = Σ p_i x_i² − (Σ p_i x_i)², both sums split over S",
                form_in_class_sums,
            ),
            RuleStep(
                "cut",
                Rule.LINEARITY,
                "Cut(S) = Σ_S p_i · Σ_{not S} p_j = q(1 − q)",
                cut_in_class_sums,
            ),
            Identity("1 − (2q − 1)²", form, 1 - (2 * inside - 1) ** 2),
            Identity("4q(1 − q)", form, bisection(inside, outside)),
            Identity("4 Cut", form, factor * cut),
            RuleStep(
                "form and cut", Rule.TRANSITIVITY, "xᵀ(Diag p − ppᵀ)x = 4 Cut(S)", form_is_cut
            ),
        ),
    )


@check(CUT, kind=Kind.DERIVATION, planted=Planted("2 Cut", factor=2))
def derived_at_every_sign_vector(profile: Profile, *, factor: int = 4) -> Derivation:
    """Every sign vector at L = 1, 2, 3, with the softmax's own weights."""
    steps = []
    for length in (1, 2, 3):
        _, p = symbolic.softmax_vector(length)
        matrix = sympy.diag(*p) - p * p.T
        for signs in exact.sign_vectors(length):
            x = sympy.Matrix(signs)
            cut = sum(
                (p[i] * p[j] for i in range(length) for j in range(length) if signs[i] > signs[j]),
                start=sympy.Integer(0),
            )
            steps.append(Identity(f"x = {signs}", (x.T * matrix * x)[0], factor * cut))
    return Derivation(scope="L = 1, 2, 3, all p, every sign vector", steps=tuple(steps))


@check(CUT, kind=Kind.ENUMERATION, planted=Planted("3.96 Cut", factor="3.96"))
def every_cut_of_small_integer_rows(profile: Profile, *, factor: str = "4") -> Evidence:
    """Quadratic form, cut and closed form at every sign vector of every small row."""
    sizes = profile.pick(
        ((1, 6), (2, 8), (3, 5), (4, 4), (5, 2)), ((1, 20), (2, 20), (3, 10), (4, 7), (5, 5))
    )

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                matrix = exact.jacobian(p)
                for x in exact.sign_vectors(length):
                    form = exact.quadratic_form(matrix, x)
                    q = exact.mass_of_signs(p, x)
                    instance = {"weights": weights, "x": x}
                    yield Case(form, "==", 1 - (2 * q - 1) ** 2, instance)
                    yield Case(form, "==", Fraction(factor) * _cut(p, x), instance)

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every cut of every integer row up to order, {shown}")


@check(MAXCUT, kind=Kind.DERIVATION, planted=Planted("3.96 MaxCut", factor="3.96"))
def derived_cut_by_cut(profile: Profile, *, factor: str = "4") -> Derivation:
    """Sign vectors are subsets, and each contributes four times its cut."""
    inside, outside = sympy.symbols("A B", positive=True)
    total = inside + outside

    def maximum(rng: random.Random) -> Case:
        p = exact.random_distribution(rng, rng.randint(1, 6))
        largest = max(_cut(p, x) for x in exact.sign_vectors(len(p)))
        return Case(exact.theta_by_definition(p), "==", Fraction(factor) * largest, {"p": p})

    def maximum_of_form(rng: random.Random) -> Case:
        p = exact.random_distribution(rng, rng.randint(1, 6))
        matrix = exact.jacobian(p)
        largest = max(exact.quadratic_form(matrix, x) for x in exact.sign_vectors(len(p)))
        return Case(exact.theta_by_definition(p), "==", largest, {"p": p})

    return Derivation(
        scope="all L, all p in the simplex",
        steps=(
            Identity(
                "subset by subset",
                bisection(inside, outside),
                sympy.Rational(factor) * (inside / total) * (outside / total),
            ),
            RuleStep("cuts", Rule.TERMWISE, "θ(p) = 4 max over S of Cut(S)", maximum),
            RuleStep("forms", Rule.TERMWISE, "θ(p) = max over signs of xᵀMx", maximum_of_form),
        ),
    )


@check(MAXCUT, kind=Kind.ENUMERATION, planted=Planted("3.96 MaxCut", factor="3.96"))
def every_maximum_cut(profile: Profile, *, factor: str = "4") -> Evidence:
    """The largest cut over all bipartitions, edge by edge, against Definition 3.1."""
    sizes = profile.pick(
        ((1, 9), (2, 12), (3, 8), (4, 5), (5, 3), (6, 2)),
        ((1, 30), (2, 30), (3, 14), (4, 9), (5, 6), (6, 4), (7, 3)),
    )

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                maximum = max(_cut(p, x) for x in exact.sign_vectors(length))
                theta = exact.theta_by_definition(p)
                yield Case(theta, "==", Fraction(factor) * maximum, {"weights": weights})

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight vector up to order, {shown}")


# ---------------------------------------------------------------------------------- hardness


def _discrepancy_by_intervals(weights: Sequence[float]) -> Fraction:
    """D = min |2w(S) − W| for floats, exactly, where no subset comes very close to W/2.

    With the k heaviest weights assigned and their chosen ones adding up to s, every mass lies in
    [s, s + r], r the mass of the rest, and both ends are attained. An interval on one side of W/2
    is settled by its nearer end; the others are split by the next weight. The number of open
    intervals explodes where subsets crowd around W/2.
    """
    descending = sorted((as_fraction(weight) for weight in weights), reverse=True)
    total = rest = sum(descending, Fraction(0))
    best = total
    open_masses = {Fraction(0)}
    for weight in descending:
        rest -= weight
        still_open = set()
        for mass in itertools.chain(open_masses, [m + weight for m in open_masses]):
            if 2 * mass < total < 2 * (mass + rest):
                still_open.add(mass)
            else:
                best = min(best, abs(2 * mass - total), abs(2 * (mass + rest) - total))
        open_masses = still_open
    return best


@check(HARDNESS, kind=Kind.DERIVATION, planted=Planted("parts may differ by 1", imbalance=1))
def reduction_from_partition(profile: Profile, *, imbalance: int = 0) -> Derivation:
    """θ(a/W) = 1 − (D/W)², which is 1 exactly for D = 0."""
    s, rest = sympy.symbols("s t", positive=True)
    total = s + rest

    def draw(rng: random.Random) -> list[int]:
        return [rng.randint(1, rng.choice((2, 5, 30))) for _ in range(rng.randint(1, 7))]

    def value(rng: random.Random) -> Case:
        a = draw(rng)
        gap = Fraction(_partitions.imbalance(a), sum(a))
        return Case(exact.theta_by_definition(exact.normalised(a)), "==", 1 - gap**2, {"a": a})

    def equivalence(rng: random.Random) -> Case:
        a = draw(rng)
        is_one = exact.theta_by_definition(exact.normalised(a)) == 1
        return Case(int(is_one), "==", int(_partitions.imbalance(a) <= imbalance), {"a": a})

    def every_rational_row(rng: random.Random) -> Case:
        p = exact.random_distribution(rng, rng.randint(1, 6))
        denominator = math.lcm(*(atom.denominator for atom in p))
        a = [int(atom * denominator) for atom in p]
        return Case(sum(a), "==", denominator, {"p": p, "a": a})

    return Derivation(
        scope="all L, all positive integers a",
        steps=(
            Identity("one subset", bisection(s, rest), 1 - ((2 * s - total) / total) ** 2),
            RuleStep("value", Rule.MONOTONICITY, "θ(a/W) = 1 − (D/W)²", value),
            RuleStep("θ = 1", Rule.SUM_OF_SQUARES, "θ = 1 if and only if D = 0", equivalence),
            RuleStep("onto", Rule.DEFINITION, "p = a/W on a common W", every_rational_row),
        ),
    )


@check(HARDNESS, kind=Kind.ENUMERATION, planted=Planted("parts may differ by 1", imbalance=1))
def every_small_instance_of_partition(profile: Profile, *, imbalance: int = 0) -> Evidence:
    """θ by subsets against a partition by dynamic programming."""
    sizes = profile.pick(
        ((1, 12), (2, 20), (3, 12), (4, 8), (5, 5), (6, 3)),
        ((1, 30), (2, 60), (3, 30), (4, 16), (5, 10), (6, 7), (7, 5)),
    )

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for a in exact.sorted_weight_vectors(length, largest, smallest=1):
                is_one = exact.theta_by_definition(exact.normalised(a)) == 1
                yield Case(int(is_one), "==", int(_partitions.imbalance(a) <= imbalance), {"a": a})

    shown = ", ".join(f"L = {length}: 1..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every vector of positive integers up to order, {shown}")


@check(HARDNESS, kind=Kind.CERTIFICATE, planted=Planted("D is one step smaller", step=1))
def weak_by_dynamic_programming(profile: Profile, *, step: int = 0) -> Evidence:
    """Integer rows of length 1024: dynamic programming against theory.theta, both exact."""
    rng = random.Random(333)
    length = 1024

    def instances() -> Iterator[list[int]]:
        for unit in (1, 6, 35):
            yield [unit * rng.randint(1, 200) for _ in range(length)]
            # Few positive weights: D is then far from the least that parity allows.
            row = [0] * length
            for place in rng.sample(range(length), 9):
                row[place] = unit * rng.randint(1, 10_000)
            yield row

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(1, 10)):
            for row in instances():
                least = _partitions.imbalance(row)
                gap = Fraction(least - step * math.gcd(*row), sum(row))
                solution = solve_theta(row, method="dp")
                for side in (solution.lower, solution.upper):
                    yield Case(side, "==", 1 - gap**2, {"total": sum(row)})

    return judge(cases(), scope="integer weights, L = 1024, total up to 7 million")


@check(HARDNESS, kind=Kind.CERTIFICATE, planted=Planted("the heaviest atom changes sides", moved=1))
def softmax_rows_of_length_1024(profile: Profile, *, moved: int = 0) -> Evidence:
    """Every row comes back decided; its subset is added up again, in rationals.

    θ <= 1 is the other end where that rounds to 1; elsewhere intervals of masses exclude better
    subsets.
    """
    rng = random.Random(1024)

    def cases() -> Iterator[Case]:
        for spread in (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0):
            for _ in range(profile.pick(3, 50)):
                logits = [rng.gauss(0.0, spread) for _ in range(1024)]
                row = [math.exp(u - max(logits)) for u in logits]
                instance = {"logit standard deviation": spread, "largest share": 1 / sum(row)}
                solution = solve_theta(row)
                yield Case(int(solution.status is not Status.BOUNDED), "==", 1, instance)
                heaviest = max(range(len(row)), key=row.__getitem__)
                subset = solution.subset.tolist()
                subset[heaviest] ^= bool(moved)
                total = sum(map(as_fraction, row))
                attained = 1 - (subset_discrepancy(row, subset) / total) ** 2
                value = as_fraction(solution.theta)
                yield Case(Fraction(float(attained)), "==", value, instance)
                ceiling = Fraction(1)
                if value < 1:
                    ceiling -= (_discrepancy_by_intervals(row) / total) ** 2
                yield Case(Fraction(float(ceiling)), "==", value, instance)

    return judge(cases(), scope="softmax rows of Gaussian logits, L = 1024, deviations 0 to 30")
