"""How a softmax row moves along a change εx of its logits, in symbols, for every length.

p(ε) is proportional to p_j e^{εx_j/τ}: all that the logits do enters through p = p(0).
"""

from __future__ import annotations

import sympy

from theory.derivations.softmax import tau

step = sympy.Symbol("epsilon", real=True)
mean = sympy.Symbol("alpha", real=True)


def entry_and_slope() -> tuple[sympy.Expr, sympy.Expr, sympy.Expr]:
    """(p_i, x_i, dp_i(ε)/dε at 0), with Σp_j = 1 and the symbol `mean` for Σp_j x_j.

    The partition function is a sum over 1..L for a symbolic L, differentiated as such.
    """
    length = sympy.Symbol("L", integer=True, positive=True)
    i, j = sympy.symbols("i j", integer=True, positive=True)
    p, x = sympy.IndexedBase("p"), sympy.IndexedBase("x")

    def over_all(term: sympy.Expr) -> sympy.Sum:
        return sympy.Sum(term, (j, 1, length))

    partition = over_all(p[j] * sympy.exp(step * x[j] / tau))
    entry = p[i] * sympy.exp(step * x[i] / tau) / partition
    slope = sympy.diff(entry, step).subs(step, 0)
    known = {over_all(p[j]): 1, over_all(p[j] * x[j] / tau): mean / tau}
    return p[i], x[i], slope.subs(known)


def mass_path(
    q: sympy.Expr, inside: tuple[sympy.Expr, sympy.Expr], outside: tuple[sympy.Expr, sympy.Expr]
) -> sympy.Expr:
    """p(ε)(T) up to terms of order ε³, for a set T of mass q.

    inside and outside: mean and variance of x under p restricted to T and to its complement, which
    are all that the first two derivatives at 0 see.
    """

    def weight(mass: sympy.Expr, moments: tuple[sympy.Expr, sympy.Expr]) -> sympy.Expr:
        centre, variance = moments
        square = variance + centre**2
        return mass * (1 + step * centre / tau + step**2 * square / (2 * tau**2))

    weight_inside, weight_outside = weight(q, inside), weight(1 - q, outside)
    return weight_inside / (weight_inside + weight_outside)


def extreme_gain(q: sympy.Expr, root: sympy.Expr) -> sympy.Expr:
    """p'(T) − p(T) for p(T) = q, with δ = ε on T and −ε off it, and root = e^{ε/τ}."""
    return q * root / (q * root + (1 - q) / root) - q
