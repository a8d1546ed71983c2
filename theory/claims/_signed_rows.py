"""Rows with blocks of shape (1, E), for which ‖M_j y‖ = |⟨m_j, y⟩|: exact norms and brackets.

f(y) = Σ_j |⟨m_j, y⟩|, and N is its maximum over unit vectors y: the length of the longest signed
sum of the m_j.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from theory.claims import _instances as exact
from theory.opnorm import Bracket, block_norm_bracket
from verify.exact import as_fraction

Vector = tuple[int, ...]


def vectors(rng: random.Random, count: int, width: int, largest: int = 3) -> list[Vector]:
    """Integer vectors m_j, not all zero."""
    while True:
        drawn = [tuple(rng.randint(-largest, largest) for _ in range(width)) for _ in range(count)]
        if any(any(m) for m in drawn):
            return drawn


def inner(m: Sequence[Fraction | int], y: Sequence[Fraction | int]) -> Fraction:
    return sum((Fraction(a) * b for a, b in zip(m, y, strict=True)), Fraction(0))


def f_of(blocks: Sequence[Sequence[Fraction | int]], y: Sequence[Fraction | int]) -> Fraction:
    """f(y) = Σ_j |⟨m_j, y⟩|."""
    return sum((abs(inner(m, y)) for m in blocks), Fraction(0))


def signed_sum(blocks: Sequence[Sequence[Fraction | int]], signs: Sequence[int]) -> list[Fraction]:
    return [
        sum((s * Fraction(m[k]) for s, m in zip(signs, blocks, strict=True)), Fraction(0))
        for k in range(len(blocks[0]))
    ]


def longest_signed_sum(blocks: Sequence[Sequence[Fraction | int]]) -> list[Fraction]:
    """The longest Σ_j ε_j m_j over signs: N is its length (x_j ranges over [−1, 1] here)."""
    sums = (signed_sum(blocks, (1, *rest)) for rest in exact.sign_vectors(len(blocks) - 1))
    return max(sums, key=lambda v: inner(v, v))


def bracket_of(blocks: Sequence[Sequence[Fraction | int | float]]) -> Bracket:
    """The bracket of N for blocks of shape (1, E); in the norm of a bracket N is divided by √E."""
    jacobian = np.array([[float(x) for x in m] for m in blocks]).T[np.newaxis, :, :, np.newaxis]
    return block_norm_bracket(jacobian, ratio=1.0 + 1e-7)


def polygon(sides: int) -> list[list[Fraction]]:
    """Directions at the angles πk/n, as floats: the blocks whose relaxation is loosest in the
    plane."""
    angles = np.pi * np.arange(sides) / sides
    return [[as_fraction(np.cos(t)), as_fraction(np.sin(t))] for t in angles]


@functools.cache
def meeting(blocks: tuple[Vector, ...]) -> Bracket:
    """A bracket sought until the relaxation is solved: no ratio ends the search early."""
    jacobian = np.array(blocks, dtype=np.float64).T[np.newaxis, :, :, np.newaxis]
    return block_norm_bracket(jacobian, ratio=1.0 + 1e-6)
