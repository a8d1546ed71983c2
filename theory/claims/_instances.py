"""Exact instances and slow reference computations that the claims' checks share.

Everything here is in integers and Fractions and follows the definitions word by word; nothing is
shared with ``theory.theta``, so that the two can be compared.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

Distribution = tuple[Fraction, ...]
Matrix = tuple[tuple[Fraction, ...], ...]


def weight_vectors(length: int, largest: int, smallest: int = 0) -> Iterator[tuple[int, ...]]:
    """Every integer vector with entries in smallest..largest and a positive sum."""
    for weights in itertools.product(range(smallest, largest + 1), repeat=length):
        if any(weights):
            yield weights


def sorted_weight_vectors(
    length: int, largest: int, smallest: int = 0
) -> Iterator[tuple[int, ...]]:
    """The same up to order: entries descending."""
    for weights in itertools.combinations_with_replacement(
        range(largest, smallest - 1, -1), length
    ):
        if any(weights):
            yield weights


def normalised(weights: Sequence[int | Fraction]) -> Distribution:
    """The distribution proportional to the weights, exactly."""
    total = sum(Fraction(w) for w in weights)
    return tuple(Fraction(w) / total for w in weights)


def random_distribution(rng: random.Random, length: int, largest: int = 30) -> Distribution:
    """A distribution with a random common denominator; zeros occur, the support is not empty."""
    while True:
        weights = [rng.choice((0, 1, rng.randint(1, largest))) for _ in range(length)]
        if any(weights):
            return normalised(weights)


def random_rational(rng: random.Random, largest: int = 20) -> Fraction:
    """A rational in [−largest, largest] with denominator up to 12."""
    denominator = rng.randint(1, 12)
    return Fraction(rng.randint(-largest * denominator, largest * denominator), denominator)


def subset_masses(p: Sequence[Fraction]) -> set[Fraction]:
    """All p(S) over subsets S, the empty one included."""
    masses = {Fraction(0)}
    for atom in p:
        masses |= {mass + atom for mass in masses}
    return masses


def theta_by_definition(p: Sequence[Fraction]) -> Fraction:
    """Definition 3.1, by all subsets."""
    return 4 * max(q * (1 - q) for q in subset_masses(p))


def sign_vectors(length: int) -> Iterator[tuple[int, ...]]:
    """All of {−1, +1}^length."""
    return itertools.product((-1, 1), repeat=length)


def jacobian(p: Sequence[Fraction], tau: Fraction = Fraction(1)) -> Matrix:
    """(Diag p − ppᵀ)/τ, exactly."""
    return tuple(
        tuple(((a if i == j else 0) - a * b) / tau for j, b in enumerate(p))
        for i, a in enumerate(p)
    )


def times(matrix: Sequence[Sequence[Fraction]], x: Sequence[Fraction | int]) -> list[Fraction]:
    """Matrix times vector."""
    return [sum((m * v for m, v in zip(row, x, strict=True)), Fraction(0)) for row in matrix]


def one_norm(x: Sequence[Fraction]) -> Fraction:
    """Σ|x_i|."""
    return sum((abs(v) for v in x), Fraction(0))


def inf_to_one_norm(matrix: Sequence[Sequence[Fraction]]) -> Fraction:
    """max over sign vectors of ‖Mx‖₁."""
    return max(one_norm(times(matrix, x)) for x in sign_vectors(len(matrix[0])))
