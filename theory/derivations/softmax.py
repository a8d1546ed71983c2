"""The tempered softmax and its derivatives as SymPy expressions, from the definition alone."""

from __future__ import annotations

import sympy

tau = sympy.Symbol("tau", positive=True)


def split_softmax() -> tuple[sympy.Symbol, sympy.Symbol, sympy.Expr, sympy.Expr]:
    """Two coordinates of a softmax over *any* number L >= 2 of logits.

    Returns (u_i, u_k, p_i, p_k). All other exponentials are collected in one positive symbol R,
    on which neither u_i nor u_k acts, so a statement about these expressions holds for every L
    (R = 0 is L = 2).
    """
    u_i, u_k = sympy.symbols("u_i u_k", real=True)
    rest = sympy.Symbol("R", nonnegative=True)
    partition = sympy.exp(u_i / tau) + sympy.exp(u_k / tau) + rest
    return u_i, u_k, sympy.exp(u_i / tau) / partition, sympy.exp(u_k / tau) / partition


def softmax_vector(length: int) -> tuple[sympy.Matrix, sympy.Matrix]:
    """(u, s_τ(u)) as column vectors of symbols and expressions, shape (length, 1) each."""
    u = sympy.Matrix(sympy.symbols(f"u1:{length + 1}", real=True))
    weights = u.applyfunc(lambda entry: sympy.exp(entry / tau))
    return u, weights / sum(weights)
