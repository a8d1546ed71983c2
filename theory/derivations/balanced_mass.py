"""Definition 3.1 in symbols: what one subset contributes to θ, for weights of any total."""

from __future__ import annotations

import sympy


def bisection(inside: sympy.Expr, outside: sympy.Expr) -> sympy.Expr:
    """4 q (1 − q) of a subset whose weights add up to `inside`, the other weights to `outside`.

    q is the subset's share of the total. One symbol for each of the two sums covers every number of
    weights.
    """
    share = inside / (inside + outside)
    return 4 * share * (1 - share)
