"""Transformer layers in balls, straight from the definitions: nothing is shared with theory/.

A state is an L×d matrix of balls with the tokens as rows. Difference quotients with a tiny step at
high precision give derivatives to far more digits than a float carries.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import flint

from theory.claims import _layernorms as norms
from theory.claims import _matrices as m
from verify.evidence import Case, Tolerance
from verify.exact import Ball, ball, upper_end

State: TypeAlias = list[list[Ball]]
Layer: TypeAlias = Callable[[State], State]

BITS = 300
STEP = Fraction(1, 2**100)

SAME_DIGITS = Tolerance(
    value=1e-20,
    kind="absolute",
    reason="difference quotients with step 2⁻¹⁰⁰ at 300 bits, of layers whose second derivatives "
    "are below 1e6 at these states",
)


@dataclass(frozen=True)
class Norm:
    """γ, β and ε of a LayerNorm."""

    gamma: Sequence[Fraction]
    beta: Sequence[Fraction]
    eps: Fraction

    def __call__(self, x: State) -> State:
        return [self._of_token(row) for row in x]

    def _of_token(self, row: Sequence[Ball]) -> list[Ball]:
        width = len(row)
        mean = sum(row, ball(0)) / width
        centred = [entry - mean for entry in row]
        sigma = (sum((c * c for c in centred), ball(0)) / width + ball(self.eps)).sqrt()
        terms = zip(self.gamma, centred, self.beta, strict=True)
        return [ball(g) * c / sigma + ball(b) for g, c, b in terms]

    @property
    def lipschitz(self) -> Ball:
        """Lemma A.1's ‖γ‖_∞/√ε."""
        return ball(m.sup_norm(self.gamma)) / ball(self.eps).sqrt()

    @property
    def magnitude(self) -> Fraction:
        """Lemma 2.4's ‖γ‖_∞ + ‖β‖_∞."""
        return Fraction(m.sup_norm(self.gamma) + m.sup_norm(self.beta))


@dataclass(frozen=True)
class Square:
    """A square matrix W of rationals, applied to tokens as xW, with its spectral norm known."""

    matrix: m.Matrix
    norm: Fraction

    def __call__(self, x: State) -> State:
        return product(x, as_balls(self.matrix))


@dataclass(frozen=True, kw_only=True)
class Attention:
    """One head with d_h = d, τ = 1 and no mask."""

    query: Square
    key: Square
    value: Square
    output: Square

    def __call__(self, u: State) -> State:
        return self.output(product(self.probabilities(u), self.value(u)))

    def probabilities(self, u: State) -> State:
        """A = softmax(QKᵀ/√d), row by row."""
        width = ball(len(u[0])).sqrt()
        scores = product(self.query(u), [list(column) for column in zip(*self.key(u), strict=True)])
        rows = []
        for row in scores:
            weights = [(score / width).exp() for score in row]
            total = sum(weights, ball(0))
            rows.append([weight / total for weight in weights])
        return rows

    def lipschitz(self, bound: Fraction) -> Ball:
        """Corollary 4.2's constant on D_B."""
        width = len(self.query.matrix)
        path = 2 * width * bound**2 * self.query.norm * self.key.norm * self.value.norm
        return ball(self.output.norm) * (ball(self.value.norm) + ball(path) / ball(width).sqrt())


@dataclass(frozen=True, kw_only=True)
class FeedForward:
    """act(xW_1 + b_1) W_2 for the activation x -> xΦ(x) (GELU) or for ReLU."""

    first: Square
    bias: Sequence[Fraction]
    second: Square
    gelu: bool

    def __call__(self, x: State) -> State:
        hidden = [
            [self._activation(h + ball(b)) for h, b in zip(row, self.bias, strict=True)]
            for row in self.first(x)
        ]
        return self.second(hidden)

    def _activation(self, t: Ball) -> Ball:
        if self.gelu:
            return t * (1 + (t / ball(2).sqrt()).erf()) / 2
        return (t + abs(t)) / 2

    def lipschitz(self, activation: Ball) -> Ball:
        """‖W_1‖ Lip(act) ‖W_2‖ for the given Lip(act)."""
        return ball(self.first.norm * self.second.norm) * activation


@dataclass(frozen=True, kw_only=True)
class LayerPair:
    """The modules of one layer, put together as pre-LN or as post-LN."""

    attention: Attention
    feed_forward: FeedForward
    norms: tuple[Norm, Norm]

    def pre(self, x: State) -> State:
        """Z = X + MHA(LN_1(X)), then Z + FFN(LN_2(Z))."""
        z = added(x, self.attention(self.norms[0](x)))
        return added(z, self.feed_forward(self.norms[1](z)))

    def post(self, x: State) -> State:
        """Z = LN_1(X + MHA(X)), then LN_2(Z + FFN(Z))."""
        z = self.norms[0](added(x, self.attention(x)))
        return self.norms[1](added(z, self.feed_forward(z)))

    @property
    def bound(self) -> Fraction:
        """B_LN."""
        return max(norm.magnitude for norm in self.norms)

    @property
    def normalising(self) -> Ball:
        """L_LN."""
        first, second = (norm.lipschitz for norm in self.norms)
        return first if first > second else second


def gelu_lipschitz() -> Ball:
    """½(1 + erf 1) + e^{−1}/√π, the largest slope of xΦ(x), at x = √2."""
    one = ball(1)
    return (1 + one.erf()) / 2 + (-one).exp() / flint.arb.pi().sqrt()


# ----------------------------------------------------------------------------------- states


def product(left: State, right: State) -> State:
    """The matrix product."""
    entries = (flint.arb_mat(left) * flint.arb_mat(right)).tolist()
    return [list(row) for row in entries]


def added(x: State, y: State, scale: Fraction | int = 1) -> State:
    """X + scale·Y."""
    factor = ball(scale)
    return [
        [a + factor * b for a, b in zip(row, other, strict=True)]
        for row, other in zip(x, y, strict=True)
    ]


def as_balls(matrix: m.Matrix) -> State:
    """Rationals as balls."""
    return [[ball(entry) for entry in row] for row in matrix]


def row_norm_squared(x: State) -> Ball:
    """‖X‖_{∞,2}², the largest squared Euclidean norm of a row."""
    squares = [sum((entry * entry for entry in row), ball(0)) for row in x]
    largest = squares[0]
    for square in squares[1:]:
        largest = largest.max(square)
    return largest


def largest_entry(x: State) -> Fraction:
    """An upper bound of the largest absolute value of an entry."""
    return max(upper_end(abs(entry)) for row in x for entry in row)


def lipschitz_case(layer: Layer, x: State, y: State, constant: Ball, instance: object) -> Case:
    """‖F(X) − F(Y)‖² <= constant²·‖X − Y‖² in the block-∞/RMS norm, times the width."""
    rise = row_norm_squared(added(layer(x), layer(y), -1))
    run = row_norm_squared(added(x, y, -1))
    return Case(rise, "<=", constant * constant * run, instance)


def nearly_attained(case: Case) -> Case:
    """That the left side of a Lipschitz case is more than 0.9999 times the right side."""
    return Case(case.lhs, ">", ball(Fraction("0.9999")) * ball_of(case.rhs), case.instance)


def ball_of(value: object) -> Ball:
    """The ball on one side of a case of this module."""
    if not isinstance(value, Ball):
        raise TypeError(f"{type(value).__name__} is no ball")
    return value


def inner(x: Sequence[Ball], y: Sequence[Fraction]) -> Ball:
    """⟨x, y⟩."""
    return sum((a * ball(b) for a, b in zip(x, y, strict=True)), ball(0))


def derivative(layer: Layer, x: State, direction: State) -> State:
    """(F(X + tV) − F(X))/t with t = 2⁻¹⁰⁰: the derivative along V up to about 30 digits."""
    moved = added(x, direction, STEP)
    difference = added(layer(moved), layer(x), -1)
    return [[entry / ball(STEP) for entry in row] for row in difference]


# --------------------------------------------------------------------------------- instances


def reflection(axis: Sequence[Fraction]) -> list[list[Fraction]]:
    """I − 2aaᵀ/‖a‖², or I where a = 0."""
    length = m.squared(axis) or Fraction(1)
    size = len(axis)
    return [
        [Fraction(i == j) - 2 * axis[i] * axis[j] / length for j in range(size)]
        for i in range(size)
    ]


def random_square(rng: random.Random, width: int, largest: Fraction) -> Square:
    """A reflection with its rows scaled: norm at most `largest`, and not 0."""
    mirror = reflection(norms.random_vector(rng, width))
    scales = [largest * Fraction(rng.randint(-6, 6) or 6, 6) for _ in range(width)]
    if rng.random() < 0.3:
        scales[1:] = [Fraction(0)] * (width - 1)
    return Square(norms.scaled_rows(scales, mirror), Fraction(m.sup_norm(scales)))


def orthogonal(rng: random.Random, width: int, scale: Fraction) -> tuple[Square, Square]:
    """scale·R for a reflection R, and R itself, whose product is scale·I."""
    mirror = reflection(norms.random_vector(rng, width))
    return Square(norms.scaled(mirror, scale), abs(scale)), Square(mirror, Fraction(1))


def random_norm(rng: random.Random, width: int) -> Norm:
    """γ ≠ 0 and β of either sign, ε from 1/50 to 1."""
    gamma, beta = norms.random_gamma(rng, width), norms.random_vector(rng, width)
    if not any(gamma):
        gamma = (Fraction(1),) * width
    return Norm(gamma, beta, Fraction(1, rng.randint(1, 50)))


def random_layer(rng: random.Random, width: int) -> LayerPair:
    """Modules with weights of size about 1."""
    squares = [random_square(rng, width, Fraction(1)) for _ in range(6)]
    return LayerPair(
        attention=Attention(query=squares[0], key=squares[1], value=squares[2], output=squares[3]),
        feed_forward=FeedForward(
            first=squares[4],
            bias=norms.random_vector(rng, width),
            second=squares[5],
            gelu=rng.random() < 0.7,
        ),
        norms=(random_norm(rng, width), random_norm(rng, width)),
    )


def random_state(rng: random.Random, length: int, width: int) -> list[list[Fraction]]:
    """Tokens with entries in [−6, 16]; the first is not constant, others are now and then."""
    tokens = [
        list(norms.random_vector(rng, width))
        if rng.random() < 0.8
        else [norms.random_fraction(rng)] * width
        for _ in range(length)
    ]
    tokens[0][0] = max(tokens[0]) + Fraction(rng.randint(1, 9999), 1000)
    return tokens


def attaining_attention(
    rng: random.Random, length: int, width: int
) -> tuple[Norm, Attention, State, State]:
    """LN and attention with W^K = 0 at two close states whose quotient nearly attains the bound.

    All tokens are equal and constant, so that J_LN = P/√ε; attention averages values, and
    W^V W^O = wI. Both states differ by one small centred vector in every token.
    """
    norm = Norm([Fraction(1)] * width, [Fraction(0)] * width, Fraction(1, rng.randint(1, 50)))
    value, output = orthogonal(rng, width, Fraction(rng.randint(1, 12), 4))
    attention = Attention(
        query=random_square(rng, width, Fraction(1)),
        key=Square([[Fraction(0)] * width] * width, Fraction(0)),
        value=value,
        output=output,
    )
    return norm, attention, *near_constant(rng, length, width)


def near_constant(rng: random.Random, length: int, width: int) -> tuple[State, State]:
    """Equal constant tokens below 1, and the same moved by 2⁻⁴⁰ times a centred vector each."""
    x = [[norms.random_fraction(rng) / 8] * width] * length
    moved = [Fraction(1), Fraction(-1), *[Fraction(0)] * (width - 2)]
    y = [[a + Fraction(b, 2**40) for a, b in zip(row, moved, strict=True)] for row in x]
    return as_balls(x), as_balls(y)


def attention_branch(rng: random.Random, width: int) -> Layer:
    """X -> MHA(LN(X)) with weights of size about 1."""
    layer = random_layer(rng, width)
    return lambda state: layer.attention(layer.norms[0](state))


def random_layer_and_states(
    rng: random.Random, length: int, width: int
) -> tuple[LayerPair, State, State]:
    """A layer and two states far apart."""
    x, y = (as_balls(random_state(rng, length, width)) for _ in range(2))
    return random_layer(rng, width), x, y


# √2 to 30 digits: where GELU is steepest, so that its slope misses the constant by 1e−60.
_STEEPEST_GELU = Fraction("1.414213562373095048801688724210")


def attaining_layer(rng: random.Random, length: int, width: int) -> tuple[LayerPair, State, State]:
    """A layer at two close states whose quotient nearly attains Theorem 4.3's bound, and 4.4's.

    Both LayerNorms meet equal constant tokens; W^K = 0, and W_1 W_2 is a multiple of I while every
    hidden unit stands where its slope is largest.
    """
    norm, attention, x, y = attaining_attention(rng, length, width)
    # A diagonal W_1: then the outputs act(b_1)W_2 of a zero token are constant, as post-LN needs.
    scale = Fraction(rng.randint(1, 12), 4)
    scaled = Square(norms.scaled(m.identity(width), scale), scale)
    feed_forward = FeedForward(
        first=scaled,
        bias=[_STEEPEST_GELU] * width,
        second=Square(m.identity(width), Fraction(1)),
        gelu=rng.random() < 0.7,
    )
    return LayerPair(attention=attention, feed_forward=feed_forward, norms=(norm, norm)), x, y
