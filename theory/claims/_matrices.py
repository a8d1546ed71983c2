"""Exact matrices, tokens whose σ is rational, and comparisons of square roots without roots.

The claims of Section 2 draw their instances from here, and others use its comparisons of spectral
norms. Everything is in integers and Fractions.
Tokens of width 1 make the induced block-∞/RMS norm of a matrix its largest absolute row sum.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, TypeVar

from theory.claims import _instances as exact
from verify.evidence import Case
from verify.exact import ldl_pivots, spectral_norm_at_most

Exact: TypeAlias = int | Fraction
Vector: TypeAlias = Sequence[Exact]
Matrix: TypeAlias = Sequence[Sequence[Exact]]
Entry = TypeVar("Entry")


# ------------------------------------------------------------------------------- arithmetic


def dot(x: Vector, y: Vector) -> Fraction:
    """Σ x_i y_i, a Fraction always, so that a quotient of two is no float."""
    return Fraction(sum(a * b for a, b in zip(x, y, strict=True)))


def squared(x: Vector) -> Fraction:
    """‖x‖₂²."""
    return dot(x, x)


def one_norm(x: Vector) -> Exact:
    """Σ |x_i|."""
    return sum(sizes(x))


def sizes(x: Vector) -> list[Exact]:
    """The absolute values |x_i|."""
    return [max(entry, -entry) for entry in x]


def sup_norm(x: Vector) -> Exact:
    """‖x‖_∞."""
    return max(sizes(x))


def product(left: Matrix, right: Matrix) -> list[list[Fraction]]:
    """The matrix product."""
    columns = list(zip(*right, strict=True))
    return [[dot(row, column) for column in columns] for row in left]


def identity(size: int) -> list[list[Fraction]]:
    """The identity matrix."""
    return [[Fraction(int(i == j)) for j in range(size)] for i in range(size)]


def plus(left: Matrix, right: Matrix, scale: Exact = 1) -> list[list[Exact]]:
    """left + scale · right."""
    return [
        [a + scale * b for a, b in zip(x, y, strict=True)] for x, y in zip(left, right, strict=True)
    ]


def frobenius_squared(matrix: Matrix) -> Exact:
    """‖M‖_F²."""
    return sum(squared(row) for row in matrix)


def largest_row_squared(matrix: Matrix) -> Exact:
    """‖M‖_{∞,2}², the largest squared Euclidean norm of a row."""
    return max(squared(row) for row in matrix)


def largest_row_sum(matrix: Matrix) -> Exact:
    """‖M‖_{∞→∞} = max_i Σ_j |M_ij|, the block-∞/RMS norm of M on tokens of width 1."""
    return max(one_norm(row) for row in matrix)


def heaviest_signs(matrix: Matrix) -> list[int]:
    """A sign vector x with ‖Mx‖_∞ = ‖M‖_{∞→∞}: the signs of the row of largest sum."""
    row = max(matrix, key=one_norm)
    return [1 if entry >= 0 else -1 for entry in row]


def apply(matrix: Matrix, x: Vector) -> list[Fraction]:
    """Matrix times vector."""
    return [dot(row, x) for row in matrix]


def is_one_hot(row: Vector) -> bool:
    """Whether exactly one entry is 1 and the others are 0."""
    return sorted(row) == [0] * (len(row) - 1) + [1]


def transposed(matrix: Sequence[Sequence[Entry]]) -> list[tuple[Entry, ...]]:
    """Mᵀ."""
    return list(zip(*matrix, strict=True))


# ---------------------------------------------------------------------------- spectral norm


def spectral_at_most(matrix: Matrix, bound_squared: Exact, instance: object) -> Case:
    """The case ‖M‖₂² <= bound_squared, decided by an exact LDLᵀ (1 on the left where it is so)."""
    rational = [[Fraction(entry) for entry in row] for row in matrix]
    return Case(int(spectral_norm_at_most(rational, Fraction(bound_squared))), "==", 1, instance)


def spectral_at_least(matrix: Matrix, bound_squared: Exact, instance: object) -> Case:
    """The case ‖M‖₂² >= bound_squared: bound_squared·I − MᵀM is not positive definite."""
    gram = product(transposed(matrix), matrix)
    gap = plus([[bound_squared * entry for entry in row] for row in identity(len(gram))], gram, -1)
    pivots = ldl_pivots([[Fraction(entry) for entry in row] for row in gap])
    is_definite = pivots is not None and min(pivots) > 0
    return Case(int(not is_definite), "==", 1, instance)


# -------------------------------------------------------------------------------- instances


def integer_matrices(
    rows: int, columns: int, values: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every matrix of the given shape with entries among the values."""
    for entries in itertools.product(values, repeat=rows * columns):
        yield tuple(entries[i * columns : (i + 1) * columns] for i in range(rows))


def random_matrix(rng: random.Random, rows: int, columns: int, largest: int = 6) -> Matrix:
    """Rationals with small denominators; zeros are frequent."""
    return [
        [rng.choice((0, 1, exact.random_rational(rng, largest))) for _ in range(columns)]
        for _ in range(rows)
    ]


def random_stochastic(rng: random.Random, rows: int, columns: int) -> Matrix:
    """Rows from the simplex; zeros, ties and one-hot rows occur."""
    return [
        one_hot(rng.randrange(columns), columns)
        if rng.random() < 0.2
        else exact.random_distribution(rng, columns)
        for _ in range(rows)
    ]


def one_hot(at: int, length: int) -> list[Exact]:
    """The unit vector e_at."""
    return [int(j == at) for j in range(length)]


def sink(rows: int, columns: int, at: int = 0) -> Matrix:
    """1 e_atᵀ: every query attends to one key alone. Causal for at = 0."""
    return [one_hot(at, columns) for _ in range(rows)]


def uniform_causal(length: int) -> list[list[Exact]]:
    """Row i is uniform over its first i keys (i = 1, …, length): the Cesàro matrix."""
    return [[Fraction(j <= i, i + 1) for j in range(length)] for i in range(length)]


# --------------------------------------------------------------------- tokens of LayerNorm


@dataclass(frozen=True)
class Token:
    """A token x with a rational σ = √(var(x) + ε) > 0, and x̂ = (x − μ1)/σ; all exact."""

    x: Vector
    sigma: Exact
    eps: Exact
    xhat: Vector

    @property
    def rho(self) -> Fraction:
        """ε/σ²."""
        return Fraction(self.eps) / Fraction(self.sigma) ** 2

    def layer_norm(self, gamma: Vector, beta: Vector) -> list[Exact]:
        """γ ⊙ x̂ + β."""
        return [g * h + b for g, h, b in zip(gamma, self.xhat, beta, strict=True)]

    def jacobian(self, gamma: Vector, *, centre: bool = True) -> Matrix:
        """(1/σ) Diag(γ)(I − 11ᵀ/d − x̂x̂ᵀ/d); without the mean's part if centre is False."""
        d = len(self.x)
        mean_part = Fraction(int(centre), d)
        return [
            [
                g
                * (int(i == j) - mean_part - Fraction(self.xhat[i] * self.xhat[j]) / d)
                / self.sigma
                for j in range(d)
            ]
            for i, g in enumerate(gamma)
        ]


def variance(x: Vector) -> Fraction:
    """(1/d) Σ (x_j − μ)²."""
    d = len(x)
    mean = Fraction(sum(x)) / d
    return sum(((v - mean) ** 2 for v in x), Fraction(0)) / d


def token(x: Vector, sigma: Exact) -> Token:
    """The token x with this σ: ε = σ² − var(x). Raises ValueError unless σ > 0 and ε >= 0."""
    eps = Fraction(sigma) ** 2 - variance(x)
    if sigma <= 0 or eps < 0:
        raise ValueError(f"σ = {sigma} is no root of var(x) + ε with ε >= 0 for x = {x}")
    mean = Fraction(sum(x)) / len(x)
    return Token(x, sigma, eps, [(v - mean) / sigma for v in x])


def smallest_sigma(x: Vector) -> int:
    """The smallest integer σ >= 1 with σ² >= var(x)."""
    return max(1, math.isqrt(max(math.ceil(variance(x)) - 1, 0)) + 1)


def balanced_token(rng: random.Random) -> Token:
    """x = m ± s with as many of each sign, so that x̂ = ±s/σ, for a Pythagorean (s, √ε, σ)."""
    half = rng.randint(1, 3)
    s, root_eps, sigma = rng.choice(((1, 0, 1), (3, 0, 3), (3, 4, 5), (4, 3, 5), (5, 12, 13)))
    middle = rng.randint(-3, 3)
    x = [middle + s] * half + [middle - s] * half
    rng.shuffle(x)
    drawn = token(x, sigma)
    if drawn.eps != root_eps**2:
        raise ArithmeticError(f"ε = {drawn.eps} where {root_eps**2} was meant")
    return drawn


def random_token(rng: random.Random) -> Token:
    """Widths 1 to 6; constant and balanced tokens occur."""
    if rng.random() < 0.3:
        return balanced_token(rng)
    width = rng.randint(1, 6)
    x = [rng.randint(-9, 9)] * width
    if rng.random() < 0.8:
        x = [rng.randint(-9, 9) for _ in range(width)]
    return token(x, smallest_sigma(x) + rng.choice((0, 0, 1, Fraction(rng.randint(0, 8), 8))))


# ------------------------------------------------------------------------------ square roots


def root_at_most_sum(a: Exact, b: Exact, c: Exact, instance: object) -> Case:
    """The comparison √a <= √b + √c of nonnegative rationals, squared until no root is left."""
    excess = a - b - c
    if excess <= 0:
        return Case(excess, "<=", 0, instance)
    return Case(excess**2, "<=", 4 * b * c, instance)
