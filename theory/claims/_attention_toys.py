"""Attention differentials in Fractions: small modules whose norms are all rational.

The rows of A are given and need not come from the scores: the differential of a head at U,

    dO_i = Σ_j A_ij dv_j + Σ_j A_ij (dS_ij − Σ_k A_ik dS_ik) v_j

with dS_ij = κ(<dq_i, k_j> + <q_i, dk_j>) and κ = 1/(τ√d_h), depends on the softmax through its
value alone. So what holds for every row-stochastic A holds in particular for softmax(S/τ).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from theory.claims import _instances as exact
from theory.claims import _matrices as m

Rows = list[list[Fraction]]
# Rational points of the unit circle.
UNIT_VECTORS: tuple[tuple[Fraction, Fraction], ...] = tuple(
    (Fraction(a, c), Fraction(b, c))
    for a, b, c in (
        *((1, 0, 1), (0, 1, 1), (-1, 0, 1), (0, -1, 1)),
        *((3, 4, 5), (-4, 3, 5), (5, -12, 13), (-8, -15, 17)),
    )
)


@dataclass(frozen=True, kw_only=True)
class NormedMatrix:
    """A 2 × 2 matrix with its spectral norm and unit vectors with left·M = norm·right."""

    matrix: m.Matrix
    norm: Fraction
    left: m.Vector
    right: m.Vector


@dataclass(frozen=True, kw_only=True)
class ToyHead:
    """One head: W^Q, W^K, W^V, the scalar c of W^O_h = c·(orthogonal matrix), and the rows of A."""

    query: NormedMatrix
    key: NormedMatrix
    value: NormedMatrix
    output_scale: Fraction
    turn: m.Matrix
    rows: Sequence[exact.Distribution]


@dataclass(frozen=True, kw_only=True)
class ToyAttention:
    """Tokens of width 2, shape (L, 2), heads of width 2, and κ = 1/(τ√d_h)."""

    tokens: m.Matrix
    heads: tuple[ToyHead, ...]
    kappa: Fraction

    @property
    def reach_squared(self) -> Fraction:
        """B² = max_i ‖u_i‖₂²."""
        return Fraction(m.largest_row_squared(self.tokens))

    @property
    def output_norm_squared(self) -> Fraction:
        """‖W^O‖₂²: W^Oᵀ W^O = Σ_h c_h² I."""
        return sum((head.output_scale**2 for head in self.heads), Fraction(0))

    def score_change(self, head: ToyHead, change: m.Matrix) -> Rows:
        """DS of one head, by the product rule."""
        queries, keys = (
            m.product(self.tokens, head.query.matrix),
            m.product(self.tokens, head.key.matrix),
        )
        moved_queries = m.product(change, head.query.matrix)
        moved_keys = m.product(change, head.key.matrix)
        first = m.product(moved_queries, m.transposed(keys))
        second = m.product(queries, m.transposed(moved_keys))
        return [
            [self.kappa * (a + b) for a, b in zip(x, y, strict=True)]
            for x, y in zip(first, second, strict=True)
        ]

    def row_change(self, head: ToyHead, scores: m.Matrix) -> Rows:
        """DA of one head: A_ij(dS_ij − Σ_k A_ik dS_ik), where 1/τ is in the scores already."""
        return [
            [a * (s - m.dot(row, change)) for a, s in zip(row, change, strict=True)]
            for row, change in zip(head.rows, scores, strict=True)
        ]

    def values(self, head: ToyHead) -> Rows:
        """U W^V."""
        return m.product(self.tokens, head.value.matrix)

    def value_path(self, head: ToyHead, change: m.Matrix) -> Rows:
        """A (dU W^V)."""
        return m.product(head.rows, m.product(change, head.value.matrix))

    def attention_path(self, head: ToyHead, change: m.Matrix) -> Rows:
        """DA V."""
        moved = self.row_change(head, self.score_change(head, change))
        return m.product(moved, self.values(head))

    def change(self, change: m.Matrix) -> Rows:
        """D MHA[dU]."""
        total: m.Matrix = [[Fraction(0), Fraction(0)] for _ in self.tokens]
        for head in self.heads:
            moved = m.plus(self.value_path(head, change), self.attention_path(head, change))
            scaled = [[head.output_scale * entry for entry in row] for row in head.turn]
            total = m.plus(total, m.product(moved, scaled))
        return [[Fraction(entry) for entry in row] for row in total]

    def paper_bound_squared(self) -> Fraction:
        """The square of Theorem 4.1's bound, with 2B²/√d_h and 1/τ in κ."""
        total = Fraction(0)
        for head in self.heads:
            theta = max(exact.theta_by_definition(row) for row in head.rows)
            product = head.query.norm * head.key.norm * head.value.norm
            total += head.value.norm + theta * 2 * self.reach_squared * self.kappa * product
        return self.output_norm_squared * total**2


def rotation(rng: random.Random) -> m.Matrix:
    """A rational rotation or reflection of the plane."""
    a, b = rng.choice(UNIT_VECTORS)
    flip = rng.choice((1, -1))
    return [[a, b], [-b * flip, a * flip]]


def normed_matrix(rng: random.Random, largest: int = 3) -> NormedMatrix:
    """Rotation · diagonal · rotation; singular ones and multiples of rotations occur."""
    first, second = rotation(rng), rotation(rng)
    sizes = [Fraction(rng.randint(0, 4 * largest), 4) for _ in range(2)]
    if rng.random() < 0.3:
        sizes[1] = sizes[0]
    top = max(range(2), key=sizes.__getitem__)
    middle = [[sizes[0], Fraction(0)], [Fraction(0), sizes[1]]]
    return NormedMatrix(
        matrix=m.product(m.product(m.transposed(first), middle), second),
        norm=sizes[top],
        left=first[top],
        right=second[top],
    )


def stochastic_rows(rng: random.Random, length: int) -> list[exact.Distribution]:
    """Rows of any kind, or causal ones; one-hot rows and zeros occur."""
    if rng.random() < 0.5:
        return [exact.random_distribution(rng, length) for _ in range(length)]
    return [
        (*exact.random_distribution(rng, i + 1), *((Fraction(0),) * (length - i - 1)))
        for i in range(length)
    ]


def random_toy(rng: random.Random, *, still: bool = False) -> ToyAttention:
    """Up to four tokens and three heads; ``still``: one head at U = 0, where the bound is met."""
    length = rng.randint(1, 4)
    tokens = [[exact.random_rational(rng, 2) for _ in range(2)] for _ in range(length)]
    if still:
        tokens = [[Fraction(0), Fraction(0)] for _ in range(length)]
    heads = tuple(
        ToyHead(
            query=normed_matrix(rng),
            key=normed_matrix(rng),
            value=normed_matrix(rng),
            output_scale=Fraction(rng.randint(-8, 8), 4),
            turn=rotation(rng),
            rows=stochastic_rows(rng, length),
        )
        for _ in range(1 if still else rng.randint(1, 3))
    )
    return ToyAttention(tokens=tokens, heads=heads, kappa=Fraction(rng.randint(1, 12), 4))


def random_direction(rng: random.Random, toy: ToyAttention) -> m.Matrix:
    """dU whose rows have norm at most 1; often all rows are W^V's leading direction."""
    if rng.random() < 0.4:
        return [list(toy.heads[0].value.left) for _ in toy.tokens]
    return [
        [rng.choice((0, 1, Fraction(1, 2))) * entry for entry in rng.choice(UNIT_VECTORS)]
        for _ in toy.tokens
    ]


# ------------------------------------------------------------------------- tokens of width 1


@dataclass(frozen=True, kw_only=True)
class ScalarHead:
    """A head on tokens of width 1: its four weights and the row of A at the query."""

    query: Fraction
    key: Fraction
    value: Fraction
    output: Fraction
    row: exact.Distribution


@dataclass(frozen=True, kw_only=True)
class ScalarRow:
    """One output row of attention on tokens of width 1, with biases: all norms are rational.

    tokens: u_j; at: the query's own place; kappa: 1/τ (d_h = 1); biases: b^Q, b^K, b^V by head.
    """

    tokens: Sequence[Fraction]
    at: int
    heads: tuple[ScalarHead, ...]
    biases: tuple[tuple[Fraction, Fraction, Fraction], ...]
    kappa: Fraction

    def figures(self, h: int) -> tuple[Fraction, list[Fraction], list[Fraction]]:
        """q_i, the k_j and the v_j of one head."""
        head, (b_q, b_k, b_v) = self.heads[h], self.biases[h]
        return (
            head.query * self.tokens[self.at] + b_q,
            [head.key * u + b_k for u in self.tokens],
            [head.value * u + b_v for u in self.tokens],
        )

    def blocks(self) -> list[Fraction]:
        """M_ij for every j, from the product rule one direction e_j at a time."""
        blocks = []
        for j in range(len(self.tokens)):
            total = Fraction(0)
            for h, head in enumerate(self.heads):
                q, k, v = self.figures(h)
                scores = [Fraction(0)] * len(k)
                scores[j] += self.kappa * q * head.key
                if j == self.at:
                    scores = [
                        s + self.kappa * head.query * key for s, key in zip(scores, k, strict=True)
                    ]
                mean = m.dot(head.row, scores)
                moved = [a * (s - mean) for a, s in zip(head.row, scores, strict=True)]
                total += head.output * (head.row[j] * head.value + m.dot(moved, v))
            blocks.append(total)
        return blocks

    def norm(self) -> Fraction:
        """Σ_j |M_ij|, the norm of the row."""
        return Fraction(m.one_norm(self.blocks()))

    def seen(self, h: int) -> list[int]:
        """The keys that the head's row may see: where A is positive."""
        return [j for j, a in enumerate(self.heads[h].row) if a > 0]


def half_range(values: Sequence[Fraction]) -> Fraction:
    """Half the difference of the largest and the smallest."""
    return (max(values) - min(values)) / 2


def gauge_fixed_parts(row: ScalarRow, h: int) -> tuple[Fraction, Fraction, Fraction]:
    """Value, key and query part of one head in the gauge-fixed bound."""
    head, (q, k, v) = row.heads[h], row.figures(h)
    seen = row.seen(h)
    spread = half_range([v[j] for j in seen])
    theta = exact.theta_by_definition(head.row)
    several = int(len(seen) > 1)
    key_part = theta * row.kappa * several * abs(head.key * q) * spread
    query_part = theta * row.kappa * abs(head.query) * half_range([k[j] for j in seen]) * spread
    return abs(head.value), key_part, query_part


def random_scalar_row(rng: random.Random, heads: int | None = None) -> ScalarRow:
    """Up to five tokens; zeros, ties and huge queries (through the biases) occur."""
    length = rng.randint(1, 5)
    count = rng.randint(1, 3) if heads is None else heads

    def weight() -> Fraction:
        return rng.choice((Fraction(0), Fraction(1), exact.random_rational(rng, 3)))

    def bias() -> Fraction:
        return rng.choice((Fraction(0), exact.random_rational(rng, 3), Fraction(1000)))

    return ScalarRow(
        tokens=[rng.choice((Fraction(1), -Fraction(1), weight())) for _ in range(length)],
        at=rng.randrange(length),
        heads=tuple(
            ScalarHead(
                query=weight(),
                key=weight(),
                value=weight(),
                output=weight(),
                row=exact.random_distribution(rng, length),
            )
            for _ in range(count)
        ),
        biases=tuple((bias(), bias(), bias()) for _ in range(count)),
        kappa=Fraction(rng.randint(1, 8), 4),
    )


def balanced_row(rng: random.Random) -> ScalarRow:
    """One head, an even number of tokens ±1 under uniform attention and a large query: the row's
    norm is the gauge-fixed bound up to the value path, which is a thousandth of it."""
    half = rng.randint(1, 3)
    tokens = [Fraction(1)] * half + [-Fraction(1)] * half
    uniform = (Fraction(1, 2 * half),) * (2 * half)
    query, key = Fraction(rng.randint(0, 5)), Fraction(rng.randint(1, 5))
    head = ScalarHead(query=query, key=key, value=Fraction(1), output=Fraction(1), row=uniform)
    return ScalarRow(
        tokens=tokens,
        at=rng.randrange(half),
        heads=(head,),
        biases=((Fraction(1000), Fraction(0), Fraction(0)),),
        kappa=Fraction(1),
    )
