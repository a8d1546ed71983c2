"""Outputs of one query of dot-product self-attention as SymPy expressions of scalars.

Inner products of tokens and weights enter as symbols, so that a statement about these expressions
holds for every width and for all weights.
"""

from __future__ import annotations

import sympy

shift = sympy.Symbol("h", real=True)
size = sympy.Symbol("B", positive=True)
length = sympy.Symbol("L", positive=True)
# Score of the moving direction against v and against itself; components along y of the values of
# v and of the moving direction.
score, self_score, value, self_value = sympy.symbols("m g mu nu", real=True)


def output_beside_opposite_tokens() -> sympy.Expr:
    """Component along y of the output for the query hw among the tokens hw, Bv, −Bv, 0, …, 0."""
    own, toward, away = (
        sympy.exp(exponent)
        for exponent in (shift**2 * self_score, shift * size * score, -shift * size * score)
    )
    numerator = own * shift * self_value + size * value * (toward - away)
    return numerator / (own + toward + away + length - 3)


def output_with_one_key_apart(
    query: sympy.Expr, key: sympy.Expr, weights: sympy.Expr, values: sympy.Expr
) -> sympy.Expr:
    """Output of a scalar query over the scalar token `key` and others that do not involve it.

    weights and values: the others' sums of e^score and of e^score times token; weights all 1.
    """
    own = sympy.exp(query * key)
    return (own * key + values) / (own + weights)
