"""Bounds of ‖[M_1 … M_L]‖, the block-∞/ℓ2 norm of one output row, by weights.

The blocks M_j have shape (D, E), and the row's output is Σ_j x_j M_j for row vectors x_j.
Throughout f(y) = Σ_j ‖M_j y‖₂, and N is its maximum over unit vectors y.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import sympy

from theory.claims import _instances as exact
from theory.claims._signed_rows import (
    Vector,
    bracket_of,
    f_of,
    inner,
    longest_signed_sum,
    meeting,
    polygon,
    vectors,
)
from theory.opnorm import block_norm_bracket
from verify.certificates import is_row_norm_certificate
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import Ball, as_fraction, ball, precision

IDENTITY = Claim(
    id="beyond_bracket_identity",
    paper_ref="beyond Section 4.1",
    section="beyond",
    statement="For all real matrices M_1, …, M_L of shape (D, E), the norm of "
    "(x_1, …, x_L) -> Σ_j x_j M_j from max_j ‖x_j‖₂ to ℓ2 is N = max of Σ_j ‖M_j y‖₂ over unit y.",
)
UPPER = Claim(
    id="beyond_bracket_upper",
    paper_ref="beyond Section 4.1",
    section="beyond",
    statement="For all blocks and all weights w_j > 0 with Σ w_j = 1, "
    "N² <= λ_max(Σ_j M_jᵀM_j/w_j), and f(y) = √λ_max wherever y is a top eigenvector with "
    "w_j = ‖M_j y‖/f(y).",
    uses=("beyond_bracket_identity",),
)
DUAL = Claim(
    id="beyond_bracket_dual",
    paper_ref="beyond Section 4.1",
    section="beyond",
    statement="The least of these bounds is a semidefinite program: inf over w of "
    "√λ_max(Σ_j M_jᵀM_j/w_j) = max of Σ_j √⟨M_jᵀM_j, Y⟩ over Y ⪰ 0 with trace 1; an optimal Y "
    "gives optimal weights w_j ∝ √⟨M_jᵀM_j, Y⟩ where these are positive.",
    uses=("beyond_bracket_upper",),
)
SIMPLE = Claim(
    id="beyond_bracket_simple",
    paper_ref="beyond Section 4.1",
    section="beyond",
    statement="If λ_max(Σ_j M_jᵀM_j/w_j) is simple at optimal weights w > 0, then the least bound "
    "equals N, and the top eigenvector attains it.",
    uses=("beyond_bracket_dual",),
)


# ---------------------------------------------------------------------------------- identity


@check(
    IDENTITY,
    kind=Kind.DERIVATION,
    planted=Planted("the sum of norms is 1% smaller", factor="0.99"),
)
def by_duality(profile: Profile, *, factor: str = "1") -> Derivation:
    """Exchange the two suprema in max over y and x of Σ_j x_j M_j y."""
    scale = Fraction(factor)
    x = sympy.Matrix(1, 2, sympy.symbols("x_1 x_2", real=True))
    M = sympy.Matrix(2, 2, sympy.symbols("m_11 m_12 m_21 m_22", real=True))
    y = sympy.Matrix(sympy.symbols("y_1 y_2", real=True))
    size = sympy.Symbol("s", positive=True)
    angle = sympy.Symbol("phi", real=True)
    image = size * sympy.Matrix([sympy.cos(angle), sympy.sin(angle)])

    def draw(rng: random.Random) -> tuple[list[Vector], list[Fraction], list[int]]:
        blocks = vectors(rng, rng.randint(1, 5), rng.randint(1, 3))
        y_values = [rng.randint(-3, 3) for _ in blocks[0]]
        # Now and then the best x for this y.
        x_values = [Fraction(rng.randint(-4, 4), 4) for _ in blocks]
        if rng.random() < 0.5:
            x_values = [Fraction(1 if inner(m, y_values) >= 0 else -1) for m in blocks]
        return blocks, x_values, y_values

    def image_of(blocks: list[Vector], x_values: list[Fraction]) -> list[Fraction]:
        return [
            sum((a * m[k] for a, m in zip(x_values, blocks, strict=True)), Fraction(0))
            for k in range(len(blocks[0]))
        ]

    def pairing(rng: random.Random) -> Case:
        blocks, x_values, y_values = draw(rng)
        out = image_of(blocks, x_values)
        lhs = inner(out, y_values) ** 2
        return Case(lhs, "<=", inner(out, out) * inner(y_values, y_values), {"M": blocks})

    def tokenwise(rng: random.Random) -> Case:
        blocks, x_values, y_values = draw(rng)
        lhs = inner(image_of(blocks, x_values), y_values)
        return Case(lhs, "<=", scale * f_of(blocks, y_values), {"M": blocks, "y": y_values})

    def both(rng: random.Random) -> Case:
        blocks, _, _ = draw(rng)
        out = longest_signed_sum(blocks)
        # f at y = out/‖out‖ is ‖out‖, the largest value on the left.
        return Case(scale * f_of(blocks, out), "==", inner(out, out), {"M": blocks})

    return Derivation(
        scope="all L, D, E and all blocks",
        steps=(
            Identity("one token's share of the pairing", (x * M * y)[0], x.dot(M * y)),
            Identity("x_j = (M_j y)ᵀ/‖M_j y‖ gives ‖M_j y‖", (image.T * image)[0] / size, size),
            RuleStep("out", Rule.DUALITY, "⟨Σ x_j M_j, y⟩² <= ‖Σ x_j M_j‖²‖y‖²", pairing),
            RuleStep("tokens", Rule.CAUCHY_SCHWARZ, "Σ_j x_j M_j y <= Σ_j ‖M_j y‖", tokenwise),
            RuleStep("both suprema", Rule.ATTAINMENT, "max_x ‖Σ x_j M_j‖ = max_y f(y)", both),
        ),
    )


@check(
    IDENTITY,
    kind=Kind.ENUMERATION,
    planted=Planted("the sum of norms is 1% smaller", factor="0.99"),
)
def every_small_integer_row(profile: Profile, *, factor: str = "1") -> Evidence:
    """Blocks of shape (1, 2): the longest signed sum against f in all integer directions."""
    scale = Fraction(factor)
    largest, count = profile.pick((2, 3), (3, 4))
    points = [
        (a, b)
        for a in range(-largest, largest + 1)
        for b in range(-largest, largest + 1)
        if (a, b) > (0, 0)
    ]

    def cases() -> Iterator[Case]:
        for blocks in _multisets(points, count):
            out = longest_signed_sum(blocks)
            square = inner(out, out)
            yield Case(scale * f_of(blocks, out), "==", square, {"M": blocks})
            for y in points:
                lhs = f_of(blocks, y) ** 2
                yield Case(lhs, "<=", square * inner(y, y), {"M": blocks, "y": y})

    return judge(
        cases(), scope=f"every set of up to {count} blocks (1, 2) with entries up to {largest}"
    )


def _multisets(points: list[tuple[int, int]], count: int) -> Iterator[list[tuple[int, int]]]:
    for size in range(1, count + 1):
        for chosen in itertools.combinations_with_replacement(points, size):
            yield list(chosen)


# ------------------------------------------------------------------------------- upper bound


@check(
    UPPER,
    kind=Kind.DERIVATION,
    planted=Planted("the bound is 1% smaller", factor="0.99"),
)
def by_cauchy_schwarz(profile: Profile, *, factor: str = "1") -> Derivation:
    """One block at a time against the rest; then a quadratic form against its eigenvalue."""
    scale = Fraction(factor)
    a, rest = sympy.symbols("a R", positive=True)
    w = sympy.Symbol("w", positive=True)
    share = a / (a + rest)

    def draw(rng: random.Random) -> tuple[list[Vector], list[int], list[Fraction]]:
        """Weights at random, or those that make Cauchy–Schwarz an equality at y."""
        blocks = vectors(rng, rng.randint(1, 5), rng.randint(1, 3))
        y = [rng.randint(-3, 3) for _ in blocks[0]]
        lengths = [abs(inner(m, y)) for m in blocks]
        if all(lengths) and rng.random() < 0.6:
            return blocks, y, list(exact.normalised(lengths))
        return blocks, y, list(exact.normalised([rng.randint(1, 9) for _ in blocks]))

    def form(blocks: list[Vector], y: Sequence[Fraction | int], w: list[Fraction]) -> Fraction:
        return sum((inner(m, y) ** 2 / v for m, v in zip(blocks, w, strict=True)), Fraction(0))

    def weighted(rng: random.Random) -> Case:
        blocks, y, weights = draw(rng)
        lhs = f_of(blocks, y) ** 2
        return Case(lhs, "<=", scale * form(blocks, y, weights), {"M": blocks, "y": y})

    def eigenvalue(rng: random.Random) -> Case:
        """Diagonal Gram matrices, whose largest eigenvalue is the largest entry."""
        width = rng.randint(1, 4)
        blocks = [
            tuple(rng.randint(1, 4) if k == at else 0 for k in range(width))
            for at in range(width)
            for _ in range(rng.randint(1, 2))
        ]
        weights = list(exact.normalised([rng.randint(1, 9) for _ in blocks]))
        units = [[int(k == at) for k in range(width)] for at in range(width)]
        largest = max(form(blocks, unit, weights) for unit in units)
        y = rng.choice([*units, [rng.randint(-3, 3) for _ in range(width)]])
        lhs = form(blocks, y, weights)
        return Case(lhs, "<=", largest * inner(y, y), {"M": blocks, "y": y, "w": weights})

    return Derivation(
        scope="all L, D, E, all blocks and all positive weights with sum 1",
        steps=(
            Identity(
                "one block and the rest",
                a**2 / w + rest**2 / (1 - w) - (a + rest) ** 2,
                (a * (1 - w) - rest * w) ** 2 / (w * (1 - w)),
            ),
            RuleStep("L blocks", Rule.INDUCTION, "f(y)² <= Σ_j ‖M_j y‖²/w_j", weighted),
            RuleStep("y", Rule.SPECTRAL_THEOREM, "yᵀSy <= λ_max(S)‖y‖²", eigenvalue),
            Identity(
                "equality at w_j = ‖M_j y‖/f(y)",
                a**2 / share + rest**2 / (1 - share),
                (a + rest) ** 2,
            ),
        ),
    )


@check(
    UPPER,
    kind=Kind.CERTIFICATE,
    planted=Planted("the upper bound is 1% smaller", factor="0.99"),
)
def brackets_of_integer_rows(profile: Profile, *, factor: str = "1") -> Evidence:
    """The weights that `block_norm_bracket` returns, rechecked over the rationals, and both ends
    against the exact N."""
    scale = Fraction(factor)
    rng = random.Random(41)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(40, 400)):
            width = rng.randint(1, 4)
            blocks = vectors(rng, rng.randint(1, 6), width)
            found = bracket_of(blocks)
            out = longest_signed_sum(blocks)
            square = inner(out, out) / width
            upper, lower = scale * as_fraction(found.upper), as_fraction(found.lower)
            yield Case(square, "<=", upper**2, {"M": blocks})
            yield Case(lower**2, "<=", square, {"M": blocks})
            entry = found.certificate[0]
            if entry.weights is None or entry.tokens is None:
                continue
            kept = [[[Fraction(v) for v in blocks[j]]] for j in entry.tokens]
            weights = [as_fraction(w) for w in entry.weights]
            # A rational just above √E, and what rounding the weights leaves open.
            root = Fraction(math.isqrt(width * 2**80) + 1, 2**40)
            bound = upper * root * (1 + Fraction(1, 10**9))
            proved = is_row_norm_certificate(kept, weights, bound)
            yield Case(int(proved), "==", 1, {"M": blocks, "w": weights})

    return judge(cases(), scope="random integer blocks of shape (1, E), L <= 6, E <= 4")


# --------------------------------------------------------------------------------- the program


@check(
    DUAL,
    kind=Kind.DERIVATION,
    planted=Planted("the program's value is 1% larger", factor="1.01"),
)
def by_minimax(profile: Profile, *, factor: str = "1") -> Derivation:
    """λ_max is a maximum over Y; exchange it with the infimum over w, which is explicit."""
    scale = ball(Fraction(factor))
    a, rest, w = sympy.symbols("a R w", positive=True)

    def draw(rng: random.Random) -> tuple[list[Vector], list[Fraction]]:
        """Blocks and the numbers ⟨M_jᵀM_j, Y⟩ for Y a mean of rank-one matrices of trace 1."""
        blocks = vectors(rng, rng.randint(1, 5), 2)
        turns = [(Fraction(3, 5), Fraction(4, 5)), (Fraction(1), Fraction(0))]
        turns.append((Fraction(5, 13), Fraction(-12, 13)))
        shares = exact.random_distribution(rng, len(turns))
        masses = [
            sum((s * inner(m, z) ** 2 for s, z in zip(shares, turns, strict=True)), Fraction(0))
            for m in blocks
        ]
        return blocks, masses

    def roots(masses: list[Fraction]) -> list[Ball]:
        return [ball(g).sqrt() if g else ball(0) for g in masses]

    def fixed_y(rng: random.Random) -> Case:
        """At nearly the best weights, which are irrational."""
        blocks, masses = draw(rng)
        with precision(100):
            lengths = roots(masses)
            near = [Fraction(int(float(v.mid()) * 2**30) + 1, 2**30) for v in lengths]
            weights = exact.normalised(near)
            value = sum((g / v for g, v in zip(masses, weights, strict=True)), Fraction(0))
            total = scale * sum(lengths, ball(0))
            # The weights are right to 2⁻³⁰ each; without slack equality would be undecidable.
            slack = Fraction(1, 2**20) * (1 + value)
            return Case(total * total, "<=", ball(value + slack), {"M": blocks})

    def reached(rng: random.Random) -> Case:
        blocks, masses = draw(rng)
        with precision(100):
            lengths = roots(masses)
            near = [Fraction(int(float(v.mid()) * 2**30) + 1, 2**30) for v in lengths]
            weights = exact.normalised(near)
            value = sum((g / v for g, v in zip(masses, weights, strict=True)), Fraction(0))
            total = sum(lengths, ball(0))
            slack = Fraction(1, 2**20) * (1 + value)
            return Case(ball(value), "<=", total * total + ball(slack), {"M": blocks})

    def minimax(rng: random.Random) -> Case:
        """The solver's two sides meet: both are proved bounds of the two sides of the equality."""
        blocks = vectors(rng, rng.randint(2, 5), rng.randint(1, 3))
        found = meeting(tuple(blocks))
        slack = 1 + Fraction(1, 10**5)
        return Case(as_fraction(found.upper), "<=", slack * as_fraction(found.relaxation), blocks)

    return Derivation(
        scope="all L, D, E and all blocks",
        steps=(
            Identity(
                "one block and the rest, at fixed Y",
                a**2 / w + rest**2 / (1 - w) - (a + rest) ** 2,
                (a * (1 - w) - rest * w) ** 2 / (w * (1 - w)),
            ),
            RuleStep(
                "weights", Rule.INDUCTION, "(Σ √⟨G_j, Y⟩)² <= Σ ⟨G_j, Y⟩/w_j at every w", fixed_y
            ),
            RuleStep("best weights", Rule.LIMIT, "with equality as w_j -> ∝ √⟨G_j, Y⟩", reached),
            RuleStep(
                "exchange",
                Rule.MINIMAX,
                "inf_w max_Y Σ ⟨G_j, Y⟩/w_j = max_Y inf_w of it (linear in Y, convex in w)",
                minimax,
            ),
        ),
    )


@check(
    DUAL,
    kind=Kind.CERTIFICATE,
    planted=Planted("the least bound is the norm itself", against="lower"),
)
def both_sides_meet(profile: Profile, *, against: str = "relaxation") -> Evidence:
    """Proved bounds of the two sides, a millionth apart, also where the norm is well below."""
    rng = random.Random(42)

    def cases() -> Iterator[Case]:
        instances: list[Sequence[Sequence[Fraction | int]]] = [polygon(n) for n in (3, 5, 8)]
        for _ in range(profile.pick(25, 300)):
            instances.append(vectors(rng, rng.randint(2, 7), rng.randint(1, 4)))
        for blocks in instances:
            found = bracket_of(blocks)
            other = as_fraction(found.relaxation if against == "relaxation" else found.lower)
            millionth = 1 + Fraction(1, 10**6)
            yield Case(as_fraction(found.upper), "<=", millionth * other, {"M": blocks})

    return judge(cases(), scope="regular polygons, and random integer blocks (1, E), E <= 4")


# ---------------------------------------------------------------------- simple top eigenvalue


@check(
    SIMPLE,
    kind=Kind.DERIVATION,
    planted=Planted("the bound at the optimum is 1% smaller", factor="0.99"),
)
def by_complementarity(profile: Profile, *, factor: str = "1") -> Derivation:
    """⟨λ_max·I − S, Y⟩ = 0 at an optimal pair, so Y lives on the top eigenspace: Y = yyᵀ."""
    scale = sympy.Rational(factor)
    a, rest = sympy.symbols("a R", positive=True)
    lam, gap, p = sympy.symbols("lambda delta p", positive=True)

    def rank_one(rng: random.Random) -> Case:
        """Diagonal blocks diag(a_j, b_j), |b_j| < a_j, have a simple top eigenvalue at e_1."""
        tops = [rng.randint(2, 6) for _ in range(rng.randint(1, 4))]
        weights = exact.normalised(tops)
        value = sum((top**2 / w for top, w in zip(tops, weights, strict=True)), Fraction(0))
        return Case(Fraction(factor) ** 2 * value, "==", sum(tops) ** 2, {"a": tops})

    def off_the_top(rng: random.Random) -> Case:
        """A trace-one Y with mass p off the top eigenvector loses at least p times the gap."""
        top = Fraction(rng.randint(5, 9))
        others = [Fraction(rng.randint(0, 4)) for _ in range(rng.randint(1, 3))]
        mass = exact.random_distribution(rng, len(others) + 1)
        value = mass[0] * top + inner(mass[1:], others)
        loss = (1 - mass[0]) * (top - max(others))
        return Case(value, "<=", top - loss, {"eigenvalues": (top, *others), "Y": mass})

    return Derivation(
        scope="all L, D, E and all blocks whose optimal weights are positive",
        steps=(
            Identity(
                "mass p off a simple top eigenvalue costs p times the gap",
                (1 - p) * lam + p * (lam - gap),
                lam - p * gap,
            ),
            RuleStep("Y", Rule.CONVEX_COMBINATION, "⟨S, Y⟩ <= λ_max − p·gap", off_the_top),
            Identity(
                "so p = 0, Y = yyᵀ, and the bound is f(y)² with w_j = ‖M_j y‖/f(y)",
                scale**2 * (a**2 / (a / (a + rest)) + rest**2 / (rest / (a + rest))),
                (a + rest) ** 2,
            ),
            RuleStep("norm", Rule.ATTAINMENT, "R = f(y) <= N <= R", rank_one),
        ),
    )


@check(
    SIMPLE,
    kind=Kind.CERTIFICATE,
    planted=Planted("the bound is 1% smaller", factor="0.99"),
)
def diagonal_blocks(profile: Profile, *, factor: str = "1") -> Evidence:
    """Blocks diag(a_j, b_j) with |b_j| < a_j: N = Σ a_j exactly, and the bracket closes on it."""
    scale = Fraction(factor)
    rng = random.Random(44)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(25, 300)):
            tops = [rng.randint(2, 9) for _ in range(rng.randint(1, 5))]
            lows = [rng.randint(-top + 1, top - 1) for top in tops]
            jacobian = np.zeros((1, 2, len(tops), 2))
            jacobian[0, 0, :, 0], jacobian[0, 1, :, 1] = tops, lows
            found = block_norm_bracket(jacobian)
            norm = Fraction(sum(tops))
            instance = {"a": tops, "b": lows}
            yield Case(as_fraction(found.lower), "<=", norm, instance)
            yield Case(norm, "<=", scale * as_fraction(found.upper), instance)
            close = 1 + Fraction(1, 10**9)
            yield Case(as_fraction(found.upper), "<=", close * as_fraction(found.lower), instance)
            pairs = zip(tops, lows, strict=True)
            blocks = [[[Fraction(a), Fraction(0)], [Fraction(0), Fraction(b)]] for a, b in pairs]
            proved = is_row_norm_certificate(blocks, [Fraction(a) for a in tops], scale * norm)
            yield Case(int(proved), "==", 1, instance)

    return judge(cases(), scope="random integer diagonal blocks, L <= 5")
