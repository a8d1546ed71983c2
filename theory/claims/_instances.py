"""Exact instances and slow reference computations that the claims' checks share.

Everything here is in integers and Fractions and follows the definitions word by word; nothing is
shared with ``theory.theta``, so that the two can be compared.
"""

from __future__ import annotations

import itertools
import math
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


def crossing(p: Sequence[Fraction]) -> tuple[int, Fraction, Fraction]:
    """(k, c, p_k) where the prefix sums first reach 1/2 at the k-th atom, c < 1/2 <= c + p_k."""
    mass = Fraction(0)
    for place, atom in enumerate(p, start=1):
        if mass + atom >= Fraction(1, 2):
            return place, mass, atom
        mass += atom
    raise ValueError("the weights do not sum to 1")


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


def mass_of_signs(p: Sequence[Fraction], signs: Sequence[int]) -> Fraction:
    """p(S) for S the set of indices with a positive sign."""
    return sum((a for a, s in zip(p, signs, strict=True) if s > 0), Fraction(0))


def float_rows(rng: random.Random, count: int, longest: int) -> Iterator[list[float]]:
    """Rows of floats that sum to 1 up to rounding, of lengths 1..longest.

    Softmax rows of Gaussian logits from nearly uniform to nearly one-hot, with ties, with zeros,
    and with subnormal tails.
    """
    for _ in range(count):
        length = rng.randint(1, longest)
        spread = rng.choice((0.0, 0.3, 1.0, 3.0, 30.0, 700.0))
        logits = [rng.gauss(0.0, spread) for _ in range(length)]
        if rng.random() < 0.3:
            logits = [float(round(u)) for u in logits]
        weights = [math.exp(u - max(logits)) for u in logits]
        if rng.random() < 0.3:
            weights = [w if w == 1.0 or rng.random() < 0.7 else 0.0 for w in weights]
        total = math.fsum(weights)
        yield [w / total for w in weights]


def dominant_row(rng: random.Random, top: Fraction) -> Distribution:
    """A row with one weight `top` >= 1/2 and up to five others that share 1 − top."""
    others = random_distribution(rng, rng.randint(1, 5))
    row = [top, *((1 - top) * share for share in others)]
    rng.shuffle(row)
    return tuple(row)


def tilted(p: Sequence[Fraction], factors: Sequence[Fraction]) -> Distribution:
    """The softmax row after logit changes δ_i: proportional to p_i e^{δ_i/τ}, the factors given."""
    return normalised([a * f for a, f in zip(p, factors, strict=True)])


def total_variation(p: Sequence[Fraction], q: Sequence[Fraction]) -> Fraction:
    """½ Σ |p_i − q_i|."""
    return one_norm([a - b for a, b in zip(p, q, strict=True)]) / 2


def quadratic_form(matrix: Sequence[Sequence[Fraction]], x: Sequence[Fraction | int]) -> Fraction:
    """xᵀMx."""
    return sum((a * b for a, b in zip(x, times(matrix, x), strict=True)), Fraction(0))
