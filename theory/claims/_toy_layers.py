"""Piecewise linear layers on tokens of width 1, in Fractions: instances of Section 4.2's proofs.

On such tokens the block-∞/RMS norm is the maximum norm. A clipped scaling stands for LayerNorm: it
maps the whole space into D_B and has a known Lipschitz constant. A matrix stands for attention, in
some draws behind the map u -> u|u|/2B, which is 1-Lipschitz on D_B and on no larger set. The
proofs use no more of the modules than that.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction

from theory.claims import _instances as exact
from theory.claims import _matrices as m
from verify.evidence import Case

State = list[Fraction]


@dataclass(frozen=True, kw_only=True)
class ToyLayer:
    """Two clips with rates λ_1 and λ_2, a matrix M, and w·(relu(u + b) − b) on each token."""

    rates: tuple[Fraction, Fraction]
    bound: Fraction
    matrix: m.Matrix
    bends: bool
    weight: Fraction
    bias: Fraction

    def normalise(self, which: int, x: State) -> State:
        """The clipped scaling."""
        scaled = (self.rates[which] * entry for entry in x)
        return [max(-self.bound, min(self.bound, entry)) for entry in scaled]

    def mix(self, u: State) -> State:
        """M u, or M(u|u|/2B)."""
        if self.bends:
            u = [entry * abs(entry) / (2 * self.bound) for entry in u]
        return m.apply(self.matrix, u)

    def feed_forward(self, u: State) -> State:
        """w·(relu(u + b) − b), token by token."""
        return [self.weight * (max(Fraction(0), v + self.bias) - self.bias) for v in u]

    def pre_attention(self, x: State) -> State:
        """X + G(N_1(X))."""
        return added(x, self.mix(self.normalise(0, x)))

    def pre_feed_forward(self, z: State) -> State:
        """Z + F(N_2(Z))."""
        return added(z, self.feed_forward(self.normalise(1, z)))

    def post_attention(self, x: State) -> State:
        """N_1(X + G(X))."""
        return self.normalise(0, added(x, self.mix(x)))

    def post_feed_forward(self, z: State) -> State:
        """N_2(Z + F(Z))."""
        return self.normalise(1, added(z, self.feed_forward(z)))

    def pre(self, x: State) -> State:
        """The pre-LN layer."""
        return self.pre_feed_forward(self.pre_attention(x))

    def post(self, x: State) -> State:
        """The post-LN layer."""
        return self.post_feed_forward(self.post_attention(x))

    @property
    def rate(self) -> Fraction:
        """L_LN, the larger of the two rates."""
        return max(self.rates)

    @property
    def mixing(self) -> Fraction:
        """L_MHA, the Lipschitz constant of G on D_B."""
        return Fraction(m.largest_row_sum(self.matrix))

    @property
    def feeding(self) -> Fraction:
        """L_FFN."""
        return abs(self.weight)


def added(x: State, y: State) -> State:
    """X + Y."""
    return [a + b for a, b in zip(x, y, strict=True)]


def lipschitz_case(
    images: tuple[State, State], points: tuple[State, State], constant: Fraction
) -> Case:
    """The case ‖F(X) − F(Y)‖ <= constant·‖X − Y‖."""
    rise = m.sup_norm([a - b for a, b in zip(*images, strict=True)])
    run = m.sup_norm([a - b for a, b in zip(*points, strict=True)])
    return Case(rise, "<=", constant * run, {"X": points[0], "Y": points[1], "F(X)": images[0]})


def random_layer(rng: random.Random) -> tuple[ToyLayer, State, State]:
    """A layer with two points X and Y of D_B.

    Half of the draws are ones at which the bounds of both architectures are attained.
    """
    size, bound = rng.randint(1, 3), Fraction(rng.randint(1, 6), rng.randint(1, 3))
    matrix = [list(row) for row in m.random_matrix(rng, size, size, 3)]
    rate = Fraction(rng.randint(1, 9), rng.randint(1, 4))
    if rng.random() < 0.5:
        heaviest = max(range(size), key=lambda i: m.one_norm(matrix[i]))
        matrix[heaviest][heaviest] = abs(Fraction(matrix[heaviest][heaviest]))
        layer = ToyLayer(
            rates=(rate, rate),
            bound=bound,
            matrix=matrix,
            bends=False,
            weight=Fraction(rng.randint(0, 9), 4),
            bias=bound,
        )
        # Small enough for every clip to be the scaling.
        step = bound / ((1 + rate) ** 3 * (1 + layer.mixing) * (1 + layer.feeding))
        return layer, [Fraction(0)] * size, [step * s for s in m.heaviest_signs(matrix)]
    layer = ToyLayer(
        rates=(rate, Fraction(rng.randint(1, 9), rng.randint(1, 4))),
        bound=bound,
        matrix=matrix,
        bends=rng.random() < 0.5,
        weight=exact.random_rational(rng, 3),
        bias=exact.random_rational(rng, 3),
    )
    points = [[bound * Fraction(rng.randint(-8, 8), 8) for _ in range(size)] for _ in range(2)]
    return layer, points[0], points[1]
