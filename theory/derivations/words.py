"""Words in a free algebra: expansions of products, with every word counted.

A word is a tuple of letters, read from left to right; the empty word is 1. Words are linearly
independent, so that an expansion is unique. Letters of later sublayers stand on the left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import sympy

Word: TypeAlias = tuple[str, ...]
Expansion: TypeAlias = Counter[Word]

ONE: Word = ()


def product(factors: Iterable[Expansion]) -> Expansion:
    """The expansion of a product, the first factor leftmost."""
    whole = Counter({ONE: 1})
    for factor in factors:
        expanded: Expansion = Counter()
        for left, a in whole.items():
            for right, b in factor.items():
                expanded[left + right] += a * b
        whole = expanded
    return whole


def pre_ln(n: int, *, bare: bool = True) -> Expansion:
    """(1 + J_n)···(1 + J_1): n pre-LN sublayers. Without the identities if bare is False."""
    return product(
        Counter({ONE: 1, (f"J{k}",): 1} if bare else {(f"J{k}",): 1}) for k in range(n, 0, -1)
    )


def post_ln(n: int) -> Expansion:
    """G_n(1 + M_n)···G_1(1 + M_1): n post-LN sublayers, G for LayerNorm and M for attention."""
    factors: list[Expansion] = []
    for k in range(n, 0, -1):
        factors += [Counter({(f"G{k}",): 1}), Counter({ONE: 1, (f"M{k}",): 1})]
    return product(factors)


def noncommuting(letter: str) -> sympy.Symbol:
    """The letter as a SymPy symbol."""
    return sympy.Symbol(letter, commutative=False)


def as_sympy(expansion: Expansion) -> sympy.Expr:
    """The expansion as a sum of noncommutative products."""
    return sympy.Add(
        *(count * sympy.Mul(*map(noncommuting, word)) for word, count in expansion.items())
    )


def only(word: Sequence[str], kind: str) -> Word:
    """The letters of one kind, in their order in the word."""
    return tuple(letter for letter in word if letter.startswith(kind))
