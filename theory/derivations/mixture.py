"""A convex combination of values in symbols, one feature of it, for every number of keys."""

from __future__ import annotations

import sympy

from theory.derivations.layernorm import coordinate_sum


def variance_and_gap() -> tuple[sympy.Expr, sympy.Expr]:
    """(Σ a_j (v_j − o)², Σ a_j v_j² − o²) where Σ a_j = 1 and o = Σ a_j v_j.

    The first is summed term by term over any number of keys; the two are equal.
    """
    a, v = sympy.symbols("a_j v_j", real=True)
    mean, square = sympy.symbols("o Q", real=True)
    summed = coordinate_sum((a, v), {a: sympy.Integer(1), a * v: mean, a * v**2: square})
    return summed(a * (v - mean) ** 2), square - mean**2
