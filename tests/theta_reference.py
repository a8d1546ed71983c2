"""Reference values of θ that share no code with the solver."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fractions import Fraction


def exact(weights: Iterable[object]) -> list[Fraction]:
    """The exact values of floats, ints, Fractions and NumPy scalars."""
    return [Fraction(*weight.as_integer_ratio()) for weight in weights]  # type: ignore[attr-defined]


def closest_by_enumeration(weights: Sequence[Fraction], target: Fraction) -> tuple[Fraction, ...]:
    """Greatest subset mass <= target and least mass >= target, over all subsets in Fractions."""
    masses = {Fraction(0)}
    for weight in weights:
        masses |= {mass + weight for mass in masses}
    return (
        max(mass for mass in masses if mass <= target),
        min(mass for mass in masses if mass >= target),
    )


def closest_by_halves(weights: Sequence[Fraction], target: Fraction) -> tuple[Fraction, ...]:
    """The same by integer meet-in-the-middle on cleared denominators, for up to 40 weights."""
    unit = math.lcm(target.denominator, *(weight.denominator for weight in weights))
    numbers = [int(weight * unit) for weight in weights]
    goal = int(target * unit)
    halves = []
    for half in (numbers[::2], numbers[1::2]):
        sums = [0]
        for number in half:
            sums += [entry + number for entry in sums]
        halves.append(sorted(set(sums)))
    total = sum(numbers)

    def greatest(cap: int) -> int:
        return max(
            entry + halves[1][bisect_right(halves[1], cap - entry) - 1]
            for entry in halves[0]
            if entry <= cap
        )

    return Fraction(greatest(goal), unit), Fraction(total - greatest(total - goal), unit)


def reference_theta(weights: Iterable[object]) -> Fraction:
    """The exact θ = 1 − (D/W)², by Fractions up to 10 positive weights and by halves beyond."""
    positive = [weight for weight in exact(weights) if weight]
    total = sum(positive, Fraction(0))
    closest = closest_by_enumeration if len(positive) <= 10 else closest_by_halves
    below, _ = closest(positive, total / 2)
    discrepancy = total - 2 * below
    return 1 - (discrepancy / total) ** 2
