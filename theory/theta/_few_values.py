"""Few distinct values, each many times: enumerate how often each is taken."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import product

from theory.theta._found import Deadline, require

FEW_MAX_CHOICES = 2**20
# Choices between two looks at the deadline, some milliseconds.
_BLOCK = 2**12


def closest_multiplicities(
    values: Sequence[int], cap: int, deadline: Deadline
) -> tuple[list[int], bool]:
    """Places of the subset of descending `values` with the greatest mass <= cap; is it proved?

    Copies of a value differ in nothing but their place, so that a subset is a choice of how many
    copies of each value it has. All choices for all values but the most frequent one are tried, and
    then as many of that one as fit: Π (mᵢ + 1) choices for multiplicities m₁, m₂, … without the
    largest, at most 2²⁰, instead of 2^(Σ mᵢ) subsets. Not proved only where the deadline passes.
    """
    copies = Counter(values)
    filler = max(copies, key=lambda value: copies[value])
    others = [value for value in copies if value != filler]
    require(
        math.prod(copies[value] + 1 for value in others) <= FEW_MAX_CHOICES,
        f"method 'few' needs at most {FEW_MAX_CHOICES} choices of multiplicities",
    )
    best, best_mass, proved = (0,) * len(copies), 0, True
    for turn, choice in enumerate(product(*(range(copies[value] + 1) for value in others))):
        if turn % _BLOCK == 0 and turn and deadline.passed():
            proved = False
            break
        mass = sum(value * taken for value, taken in zip(others, choice, strict=True))
        if mass <= cap:
            filled = min((cap - mass) // filler, copies[filler])
            mass += filled * filler
            if mass > best_mass:
                best, best_mass = (*choice, filled), mass
    left = dict(zip((*others, filler), best, strict=True))
    places = []
    for place, value in enumerate(values):
        if left[value]:
            left[value] -= 1
            places.append(place)
    return places, proved
