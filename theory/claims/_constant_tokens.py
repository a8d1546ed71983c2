"""Attention sublayers at equal constant tokens, where their Jacobians are simple, in Fractions."""

from __future__ import annotations

from fractions import Fraction

import sympy

from theory.claims import _layernorms as norms
from theory.claims import _matrices as m
from theory.derivations import layernorm as symbolic


def at_constant_tokens(
    length: int, width: int, w: Fraction, root_eps: Fraction, *, pre: bool
) -> m.Matrix:
    """The (Ld)×(Ld) Jacobian of an attention sublayer at equal constant tokens, W^K = 0, γ = 1.

    Every row of A is uniform, so MHA is the mean over tokens times w, and LN has P/√ε in every
    block. Both architectures leave the tokens constant and equal.
    """
    projector = norms.projector(width)
    blocks: list[list[Fraction]] = []
    for i in range(length):
        for a in range(width):
            row = []
            for j in range(length):
                for b in range(width):
                    mean = w * projector[a][b] / (length * root_eps)
                    if pre:
                        row.append(int(i == j and a == b) + mean)
                    else:
                        row.append(int(i == j) * projector[a][b] / root_eps + mean)
            blocks.append(row)
    return blocks


def in_every_token(length: int, v: m.Vector) -> list[Fraction]:
    """1 ⊗ v."""
    return [Fraction(entry) for _ in range(length) for entry in v]


def centred_vector(width: int) -> m.Vector:
    """(1, 1, …, 1, 1 − d)."""
    return [1] * (width - 1) + [1 - width]


def derived_factors() -> tuple[sympy.Expr, sympy.Expr, sympy.Expr]:
    """(v, J_LN v, √ε) for centred v at a constant token with γ = 1, from LN's definition."""
    derivative, _, _ = symbolic.derivative_along()
    x, v, gamma = sympy.symbols("x_j v_j gamma_j", real=True)
    mu, mean = sympy.symbols("mu m", real=True)
    square = sympy.Symbol("Q", nonnegative=True)
    there = {square: symbolic.d * mu**2, x: mu, mean: 0, gamma: 1}
    return v, derivative.subs(there, simultaneous=True), sympy.sqrt(symbolic.eps)
