"""Tokens with a scale vector and ε in Fractions, shared by the claims on LayerNorm and RMSNorm.

σ is a square root, so everything is kept times σ or squared: σJ, σ² and ‖J‖² are rational for
rational tokens, and no comparison needs a root.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import flint

from theory.claims import _matrices as m
from theory.claims._instances import times
from verify.claims import Profile
from verify.evidence import Case
from verify.exact import Ball, ball, is_positive_semidefinite, ldl_pivots, precision

Vector: TypeAlias = tuple[Fraction, ...]
Matrix: TypeAlias = Sequence[Sequence[Fraction]]

UNIT_ROUNDOFF = Fraction(1, 2**53)
# Balls of this many bits are narrower than any rounding of a float64 by 30 digits.
BITS = 160


@dataclass(frozen=True)
class Token:
    """One token x with γ and ε of the module that it meets; RMSNorm where centred is False.

    σ² = ‖c‖²/d + ε must be positive; c is x − μ1 for LayerNorm and x for RMSNorm.
    """

    x: Vector
    gamma: Vector
    eps: Fraction
    centred: bool = True

    def __post_init__(self) -> None:
        if len(self.x) != len(self.gamma) or self.eps < 0 or self.sigma_squared <= 0:
            raise ValueError(f"no normalisation is defined at {self!r}")

    @property
    def width(self) -> int:
        """d."""
        return len(self.x)

    @functools.cached_property
    def numerator(self) -> Vector:
        """c, so that x̂ = c/σ."""
        return centre(self.x) if self.centred else self.x

    @functools.cached_property
    def sigma_squared(self) -> Fraction:
        """σ²."""
        return m.squared(self.numerator) / self.width + self.eps

    @property
    def rho(self) -> Fraction:
        """ρ = 1 − ‖x̂‖²/d."""
        return 1 - m.squared(self.numerator) / (self.width * self.sigma_squared)

    @property
    def top_squared(self) -> Fraction:
        """‖γ‖_∞²."""
        return max(g * g for g in self.gamma)

    @functools.cached_property
    def bracket(self) -> Matrix:
        """P − x̂x̂ᵀ/d for LayerNorm, I − x̂x̂ᵀ/d for RMSNorm."""
        c, scale = self.numerator, self.width * self.sigma_squared
        shared = Fraction(1, self.width) if self.centred else Fraction(0)
        return [
            [(1 if i == j else 0) - shared - a * b / scale for j, b in enumerate(c)]
            for i, a in enumerate(c)
        ]

    @functools.cached_property
    def sigma_jacobian(self) -> Matrix:
        """σJ = Diag(γ)·bracket, by the formula of fact_ln_jacobian or beyond_rmsnorm_jacobian."""
        return scaled_rows(self.gamma, self.bracket)

    def sigma_derivative(self, v: Sequence[Fraction]) -> list[Fraction]:
        """σ times the derivative of the normalisation along v, by the quotient rule alone."""
        c = self.numerator
        c_dot = centre(v) if self.centred else v
        sigma_squared_dot = 2 * m.dot(c, c_dot) / self.width
        return [
            g * (b - a * sigma_squared_dot / (2 * self.sigma_squared))
            for g, a, b in zip(self.gamma, c, c_dot, strict=True)
        ]

    def describe(self) -> dict[str, object]:
        """What a failing case shows."""
        return {"x": self.x, "γ": self.gamma, "ε": self.eps}


# ------------------------------------------------------------------------------ linear algebra


def centre(v: Sequence[Fraction]) -> Vector:
    """Pv = v − mean(v)·1."""
    mean = sum(v, Fraction(0)) / len(v)
    return tuple(a - mean for a in v)


def projector(width: int) -> Matrix:
    """P = I − 11ᵀ/d."""
    return [list(centre(row)) for row in m.identity(width)]


def scaled_rows(gamma: Sequence[Fraction], matrix: Matrix) -> Matrix:
    """Diag(γ)·M."""
    return [[g * entry for entry in row] for g, row in zip(gamma, matrix, strict=True)]


def scaled(matrix: Matrix, factor: Fraction) -> Matrix:
    """factor·M."""
    return [[factor * entry for entry in row] for row in matrix]


def gram_at_most(gram: Matrix, bound: Fraction, instance: dict[str, object]) -> Case:
    """The case ‖M‖₂² <= bound, from G = MᵀM, decided by an exact LDLᵀ of bound·I − G."""
    gap = [[(bound if i == j else 0) - g for j, g in enumerate(row)] for i, row in enumerate(gram)]
    shown = instance | {"Gram matrix": gram, "bound on the squared norm": bound}
    return Case(int(is_positive_semidefinite(gap)), "==", 1, shown)


def least_pivot(matrix: Sequence[Sequence[Fraction | int]]) -> Fraction:
    """The least pivot of an exact LDLᵀ: positive, zero or negative as the least eigenvalue is.

    A matrix that has no such factorisation because a zero pivot meets a nonzero row is indefinite,
    and counts as −1.
    """
    pivots = ldl_pivots([[Fraction(entry) for entry in row] for row in matrix])
    return Fraction(-1) if pivots is None else min(pivots)


def determinant(matrix: Sequence[Sequence[Fraction]]) -> Fraction:
    """The determinant, by fraction-free elimination in FLINT."""
    exact = flint.fmpq_mat(
        [[flint.fmpq(x.numerator, x.denominator) for x in row] for row in matrix]
    )
    value = exact.det()
    return Fraction(int(value.p), int(value.q))


def orthogonal_to(rows: Sequence[Sequence[Fraction]], width: int) -> Vector | None:
    """A nonzero vector orthogonal to every row, or None where the rows span the whole space."""
    work = [list(row) for row in rows]
    pivots: list[int] = []
    for column in range(width):
        found = next((r for r in range(len(pivots), len(work)) if work[r][column] != 0), None)
        if found is None:
            continue
        top = len(pivots)
        work[top], work[found] = work[found], work[top]
        work[top] = [a / work[top][column] for a in work[top]]
        for r, row in enumerate(work):
            if r != top and row[column] != 0:
                work[r] = [a - row[column] * b for a, b in zip(row, work[top], strict=True)]
        pivots.append(column)
    free = next((column for column in range(width) if column not in pivots), None)
    if free is None:
        return None
    solution = [Fraction(0)] * width
    solution[free] = Fraction(1)
    for row, pivot in zip(work, pivots, strict=False):
        solution[pivot] = -row[free]
    return tuple(solution)


# ------------------------------------------------------------------------------------ instances


def all_tokens(
    width: int,
    largest: int,
    scales: Sequence[int],
    eps_values: Sequence[Fraction],
    *,
    centred: bool = True,
) -> Iterator[Token]:
    """Every token with entries 0..largest in ascending order, every γ from `scales` and every ε.

    A common permutation of x and γ changes nothing, so ascending tokens lose no generality. Where
    no normalisation is defined (ε = 0 with a constant or zero token), there is no token.
    """
    for x in itertools.combinations_with_replacement(range(largest + 1), width):
        for gamma in itertools.product(scales, repeat=width):
            for eps in eps_values:
                spread = len(set(x)) > 1 if centred else any(x)
                if eps > 0 or spread:
                    yield Token(fractions(x), fractions(gamma), eps, centred)


def random_token(
    rng: random.Random,
    width: int | None = None,
    *,
    gamma: Vector | None = None,
    centred: bool = True,
    positive_eps: bool = False,
) -> Token:
    """A token with γ and ε; constant tokens, ties, repeated top scales and zeros in γ all occur."""
    width = width or rng.randint(1, 5)
    if rng.random() < 0.2:
        x = (random_fraction(rng),) * width
    else:
        magnitude = rng.choice((Fraction(1, 100), Fraction(1), Fraction(1000)))
        x = tuple(magnitude * random_fraction(rng) for _ in range(width))
    if gamma is None:
        gamma = random_gamma(rng, width)
    spread = len(set(x)) > 1 if centred else any(x)
    may_be_zero = spread and not positive_eps
    eps = Fraction(0) if may_be_zero and rng.random() < 0.2 else Fraction(1, rng.randint(1, 50))
    return Token(x, gamma, eps, centred)


def random_gamma(rng: random.Random, width: int) -> Vector:
    """Constant, from {−3, …, 3} (so that tops repeat and zeros occur), or arbitrary."""
    style = rng.randrange(3)
    if style == 0:
        return (random_fraction(rng) or Fraction(1),) * width
    if style == 1:
        return tuple(Fraction(rng.randint(-3, 3)) for _ in range(width))
    return tuple(random_fraction(rng) for _ in range(width))


def random_fraction(rng: random.Random) -> Fraction:
    """A rational in [−6, 6]."""
    return Fraction(rng.randint(-24, 24), rng.choice((4, 6, 12)))


def random_vector(rng: random.Random, width: int) -> Vector:
    """A vector of rationals, zeros among them."""
    return tuple(random_fraction(rng) for _ in range(width))


def random_direction(rng: random.Random, token: Token) -> Vector:
    """A vector; half the time, where there is one, one that σJ merely multiplies by γ.

    There the bounds are attained if γ is constant.
    """
    kept = kept_vector([token], token.width) if rng.random() < 0.5 else None
    return kept or random_vector(rng, token.width)


def fractions(values: Sequence[int]) -> Vector:
    """The integers as Fractions."""
    return tuple(Fraction(value) for value in values)


def image_squared(token: Token, v: Sequence[Fraction]) -> Fraction:
    """‖σJv‖²."""
    return m.squared(times(token.sigma_jacobian, v))


def small_tokens(profile: Profile, *, centred: bool = True) -> Iterator[Token]:
    """Every small token up to a common permutation of x and γ: ties, constants, zeros in γ."""
    for width in range(1, profile.pick(3, 4) + 1):
        eps_values = (Fraction(0), Fraction(1, 4), Fraction(2))
        yield from all_tokens(width, 2, (-1, 0, 2), eps_values, centred=centred)


def small_scope(profile: Profile) -> str:
    """What `small_tokens` runs through."""
    return (
        "every token with σ > 0 and entries 0..2 in order, γ from {−1, 0, 2}, ε in {0, 1/4, 2}, "
        f"d = 1..{profile.pick(3, 4)}"
    )


def random_stack(rng: random.Random, *, contracting: bool = False) -> tuple[list[Token], Vector]:
    """Up to four modules of one width, and a vector u; often one at which the bound is attained.

    contracting: the factors ‖γ_k‖_∞/σ_k are below 1.
    """
    width, depth = rng.randint(1, 5), rng.randint(0, 4)
    if rng.random() < 0.5:
        gammas = [(random_fraction(rng) or Fraction(1),) * width for _ in range(depth)]
    else:
        gammas = [random_gamma(rng, width) for _ in range(depth)]
    stack = [random_token(rng, width, gamma=gamma) for gamma in gammas]
    if contracting:
        stack = [shrunk(rng, token) for token in stack]
    return stack, kept_vector(stack, width) or random_vector(rng, width)


def flat_stack(rng: random.Random, width: int, depth: int, *, centred: bool = True) -> list[Token]:
    """Modules with constant γ_k ≠ 0 at random tokens, constant ones and ε = 0 among them."""
    flat = [(random_fraction(rng) or Fraction(1),) * width for _ in range(depth)]
    return [random_token(rng, width, gamma=gamma, centred=centred) for gamma in flat]


def kept_vector(stack: Sequence[Token], width: int) -> Vector | None:
    """A nonzero vector that every bracket of the stack maps to itself, or None if there is none.

    It is orthogonal to every x̂_k and, for LayerNorm, to 1.
    """
    rows = [token.numerator for token in stack]
    if any(token.centred for token in stack):
        rows.append((Fraction(1),) * width)
    return orthogonal_to(rows, width)


def shrunk(rng: random.Random, token: Token) -> Token:
    """The token with γ divided so that ‖γ‖_∞/σ is below 1."""
    divisor = Fraction(rng.randint(1, 8))
    while token.top_squared >= divisor**2 * token.sigma_squared:
        divisor *= 2
    return Token(token.x, tuple(g / divisor for g in token.gamma), token.eps)


def factor_squared(token: Token) -> Fraction:
    """(‖γ‖_∞/σ)²."""
    return token.top_squared / token.sigma_squared


def product_image_squared(stack: Sequence[Token], u: Sequence[Fraction]) -> Fraction:
    """‖∏ J_k u‖²: later modules on the left, the square roots in σ_k squared away."""
    image: Sequence[Fraction] = u
    sigmas = Fraction(1)
    for token in stack:
        image = times(token.sigma_jacobian, image)
        sigmas *= token.sigma_squared
    return m.squared(image) / sigmas


def show_stack(stack: Sequence[Token], u: Sequence[Fraction]) -> dict[str, object]:
    """What a failing case shows."""
    return {"modules": [token.describe() for token in stack], "u": u}


def dyadic_token(rng: random.Random, width: int, *, centred: bool = True) -> Token:
    """A token whose entries are floats exactly, as are γ and ε > 0."""
    spread = Fraction(2) ** rng.randint(-20, 20)
    offset = rng.choice((Fraction(0), Fraction(1), Fraction(1000)))
    x = tuple(offset + spread * Fraction(rng.randint(-(2**20), 2**20), 2**20) for _ in range(width))
    gamma = tuple(Fraction(rng.randint(-16, 16), 8) for _ in range(width))
    return Token(x, gamma, Fraction(2) ** rng.randint(-30, 10), centred)


def enclosure_cases(token: Token, value: Fraction) -> Iterator[Case]:
    """‖J‖₂ in value·(1 ± 64d·2⁻⁵³), by an exact LDLᵀ on either side; an exact 0 is 0."""
    slack = 64 * token.width * UNIT_ROUNDOFF
    shown = token.describe() | {"computed": value}
    square = value**2 * token.sigma_squared
    yield m.spectral_at_most(token.sigma_jacobian, square * (1 + slack) ** 2, shown)
    if value > 0:
        yield m.spectral_at_least(token.sigma_jacobian, square * (1 - slack) ** 2, shown)


def stack_product(stack: Sequence[Token]) -> tuple[Matrix, Fraction]:
    """∏ σ_kJ_k and ∏ ‖γ_k‖_∞², so that the bound is attained where the norm squared equals it."""
    matrix, bound = m.identity(stack[0].width), Fraction(1)
    for token in stack:
        matrix = m.product(token.sigma_jacobian, matrix)
        bound *= token.top_squared
    return matrix, bound


def least_pivot_below_bound(stack: Sequence[Token]) -> Fraction:
    """The least pivot of bound²·I − MᵀM for the product M of the stack: 0 where ‖M‖ attains the
    bound ∏‖γ_k‖_∞/σ_k, positive where it stays below.
    """
    matrix, bound = stack_product(stack)
    gram = m.product(m.transposed(matrix), matrix)
    return least_pivot(
        [[(bound if i == j else 0) - g for j, g in enumerate(row)] for i, row in enumerate(gram)]
    )


def root(square: Fraction) -> Ball:
    """√square as a ball."""
    return ball(square).sqrt()


def lipschitz_case(first: Token, second: Token, constant_squared: Fraction) -> Case:
    """‖N(x) − N(y)‖² <= constant²·‖x − y‖² of the normalisation N, the left in balls."""
    with precision(BITS):
        sigma, tau = root(first.sigma_squared), root(second.sigma_squared)
        rise = ball(0)
        for g, a, b in zip(first.gamma, first.numerator, second.numerator, strict=True):
            difference = ball(g) * (ball(a) / sigma - ball(b) / tau)
            rise += difference * difference
    run = sum(((a - b) ** 2 for a, b in zip(first.x, second.x, strict=True)), Fraction(0))
    return Case(
        rise,
        "<=",
        constant_squared * run,
        {"x": first.x, "y": second.x, "γ": first.gamma, "ε": first.eps},
    )
