"""Jacobians of stacks of sublayers with LayerNorm or RMSNorm, in Fractions.

Tokens have a rational σ. The branches behind (or in front of) the normalisations are arbitrary
matrices on all L·d coordinates: differentiable branches have such a Jacobian, attention among them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import flint

from theory.claims import _matrices as m
from theory.claims.corollary_a_3 import block_diagonal

Matrix = list[list[Fraction]]


@dataclass(frozen=True)
class Sublayer:
    """The tokens that the normalisation meets, with their γ, and the branch's Jacobian."""

    tokens: tuple[m.Token, ...]
    gamma: m.Vector
    branch: m.Matrix
    centred: bool

    @property
    def normalising(self) -> Matrix:
        """The block-diagonal Jacobian of the normalisation."""
        blocks = [token.jacobian(self.gamma, centre=self.centred) for token in self.tokens]
        return [list(row) for row in block_diagonal(blocks)]  # type: ignore[arg-type]

    @property
    def pre(self) -> m.Matrix:
        """I + G J_LN."""
        jacobian = self.normalising
        return m.plus(m.identity(len(jacobian)), m.product(self.branch, jacobian))

    @property
    def post(self) -> m.Matrix:
        """J_LN (I + G)."""
        jacobian = self.normalising
        return m.product(jacobian, m.plus(m.identity(len(jacobian)), self.branch))


def rms_token(x: m.Vector, sigma: Fraction) -> m.Token:
    """The token x of an RMSNorm with this σ, ε = σ² − ‖x‖²/d."""
    square = m.squared(x) / len(x)
    if sigma <= 0 or sigma**2 < square:
        raise ValueError(f"σ = {sigma} is no root of ‖x‖²/d + ε with ε >= 0 for x = {x}")
    return m.Token(x, sigma, sigma**2 - square, [Fraction(v) / sigma for v in x])


def random_sublayer(
    rng: random.Random, length: int, width: int, *, centred: bool = True, nonzero: bool = False
) -> Sublayer:
    """Small integer tokens, constant ones among them; γ from −3..3, without 0 if nonzero."""
    choices = [-3, -2, -1, 1, 2, 3] if nonzero else list(range(-3, 4))
    gamma = [rng.choice(choices) for _ in range(width)]
    tokens = []
    for _ in range(length):
        x = [rng.randint(-4, 4) for _ in range(width)]
        if rng.random() < 0.2:
            x = [x[0]] * width
        # At least the root of the mean square, so that it serves LayerNorm and RMSNorm.
        sigma = Fraction(max(map(abs, x)) + rng.randint(1, 3))
        tokens.append(m.token(x, sigma) if centred else rms_token(x, sigma))
    size = length * width
    branch = [[Fraction(rng.randint(-2, 2), 2) for _ in range(size)] for _ in range(size)]
    return Sublayer(tuple(tokens), gamma, branch, centred)


def random_stack(
    rng: random.Random, length: int, width: int, *, centred: bool = True, nonzero: bool = False
) -> list[Sublayer]:
    """One to three sublayers."""
    return [
        random_sublayer(rng, length, width, centred=centred, nonzero=nonzero)
        for _ in range(rng.randint(1, 3))
    ]


def pre_jacobian(stack: list[Sublayer]) -> m.Matrix:
    """∏(I + G_k J_k), later sublayers on the left."""
    return _product(sublayer.pre for sublayer in stack)


def post_jacobian(stack: list[Sublayer]) -> m.Matrix:
    """∏ J_k(I + G_k), later sublayers on the left."""
    return _product(sublayer.post for sublayer in stack)


def _product(factors: Iterator[m.Matrix]) -> m.Matrix:
    whole = next(factors)
    for factor in factors:
        whole = m.product(factor, whole)
    return whole


def in_token(i: int, length: int, v: m.Vector) -> list[Fraction]:
    """e_i ⊗ v: v in token i, 0 in the others."""
    return [Fraction(entry) if k == i else Fraction(0) for k in range(length) for entry in v]


def token_sums(state: m.Vector, width: int) -> list[Fraction]:
    """The sum of every token's coordinates."""
    entries = [Fraction(entry) for entry in state]
    return [sum(entries[k : k + width], Fraction(0)) for k in range(0, len(entries), width)]


def rank(matrix: m.Matrix) -> int:
    """The rank, by exact elimination in FLINT."""
    rows = [[Fraction(entry) for entry in row] for row in matrix]
    exact = flint.fmpq_mat([[flint.fmpq(x.numerator, x.denominator) for x in row] for row in rows])
    return int(exact.rank())


def describe(stack: list[Sublayer]) -> dict[str, object]:
    """What a failing case shows."""
    return {
        "tokens": [[token.x for token in sublayer.tokens] for sublayer in stack],
        "σ": [[token.sigma for token in sublayer.tokens] for sublayer in stack],
        "γ": [sublayer.gamma for sublayer in stack],
    }
