"""Rows with a common denominator as integer partitions, with exact greedy and optimal bisections.

A row whose weights are multiples of 1/N is, up to order and zeros, a partition of N: the partitions
of N are therefore *every* such row, of every length. Everything is in integers and shares no code
with ``theory.theta``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction


def partitions(total: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Every partition of ``total`` into parts of at most ``largest``, parts in descending order."""
    if total == 0:
        yield ()
        return
    for part in range(min(total, largest or total), 0, -1):
        for rest in partitions(total - part, part):
            yield (part, *rest)


def imbalance(weights: Sequence[int]) -> int:
    """min over subsets S of |2 w(S) − W|, from the set of all subset sums held as bits.

    Takes W bits of memory for each step: for small integers, not for the weights of floats.
    """
    sums = 1
    for weight in weights:
        sums |= sums << weight
    total = sum(weights)
    # The complement of a subset above W/2 lies below it, with the same imbalance.
    below = sums & ((1 << (total // 2 + 1)) - 1)
    return total - 2 * (below.bit_length() - 1)


def crossing(weights: Sequence[int]) -> int:
    """The length of the shortest prefix of the descending row that holds half of the mass."""
    total = sum(weights)
    prefix = itertools.accumulate(sorted(weights, reverse=True))
    return next(k for k, mass in enumerate(prefix, start=1) if 2 * mass >= total)


def greedy_imbalance(weights: Sequence[int], total: int | None = None) -> int:
    """min over k >= 1 of |2 c_k − W| for the prefix sums c_k of the descending row (D.2).

    W is the sum of the weights. With another ``total`` in its place the outcome certifies nothing.
    """
    whole = sum(weights) if total is None else total
    return min(
        abs(2 * mass - whole) for mass in itertools.accumulate(sorted(weights, reverse=True))
    )


def theta_of(gap: int, total: int) -> Fraction:
    """1 − (D/W)²: what a bisection with imbalance D gives, θ when D is least."""
    return 1 - Fraction(gap, total) ** 2


def theta(weights: Sequence[int]) -> Fraction:
    """θ of the row proportional to the weights, exactly."""
    return theta_of(imbalance(weights), sum(weights))


def certificate(weights: Sequence[int], total: int | None = None) -> Fraction:
    """The greedy prefix certificate of the row proportional to the weights, exactly.

    ``total`` as in ``greedy_imbalance``.
    """
    whole = sum(weights) if total is None else total
    return theta_of(greedy_imbalance(weights, whole), whole)


def float_weights(row: Sequence[float]) -> list[int]:
    """Integers proportional to the floats, exactly: each float is a dyadic rational."""
    parts = [math.frexp(value) for value in row]
    lowest = min((exponent for mantissa, exponent in parts if mantissa), default=0)
    # A mantissa has 53 bits, so that the product is an integer.
    return [int(m * 2.0**53) << (exponent - lowest) if m else 0 for m, exponent in parts]
