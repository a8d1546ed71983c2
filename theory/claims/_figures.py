"""Exact values against figures as they are printed, that is rounded to their last digit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from verify.evidence import Case


def half_unit(figure: str) -> Fraction:
    """Half a unit of the last decimal of a printed figure: 1/2000 for "4.509", 1/2 for "774"."""
    decimals = len(figure.partition(".")[2])
    return Fraction(1, 2 * 10**decimals)


def rounds_from(figure: str) -> tuple[Fraction, Fraction]:
    """The least and the greatest value that round to a printed figure."""
    return Fraction(figure) - half_unit(figure), Fraction(figure) + half_unit(figure)


def printed(value: Fraction | int, figure: str, instance: object = None) -> Case:
    """The value rounds to the figure (either way where it lies half-way)."""
    return Case(abs(value - Fraction(figure)), "<=", half_unit(figure), instance or figure)


def printed_root(square: Fraction, figure: str, instance: object = None) -> Iterator[Case]:
    """The square root of a rational rounds to the (positive) figure; squares are compared."""
    low, high = rounds_from(figure)
    yield Case(square, ">=", low**2, instance or figure)
    yield Case(square, "<=", high**2, instance or figure)


def mean(values: tuple[Fraction, ...]) -> Fraction:
    """Arithmetic mean."""
    return sum(values, Fraction(0)) / len(values)


def variance(values: tuple[Fraction, ...], lost: int = 1) -> Fraction:
    """Σ(v − mean)²/(n − lost): lost = 1 for the sample variance, 0 for the population's."""
    centre = mean(values)
    return sum(((v - centre) ** 2 for v in values), Fraction(0)) / (len(values) - lost)


def median(values: tuple[Fraction, ...]) -> Fraction:
    """The middle value; the mean of the middle two where their number is even."""
    ordered, n = sorted(values), len(values)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def binomial_tail(trials: int, share: Fraction, least: int) -> Fraction:
    """P(X >= least) for a binomial X, exactly; integers over one common denominator."""
    good, bad = share.numerator, share.denominator - share.numerator
    ways = sum(
        math.comb(trials, k) * good**k * bad ** (trials - k) for k in range(least, trials + 1)
    )
    return Fraction(ways, share.denominator**trials)


def shortened(value: Fraction) -> Fraction:
    """The value cut to 12 decimals, for figures whose exact form would fill pages of a report.

    Compare only with what differs by far more than 1e-12.
    """
    return Fraction(math.floor(value * 10**12), 10**12)
