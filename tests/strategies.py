"""Hypothesis strategies that the tests share: adversarial logits, rows, points of the cube."""

import math

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from theory.activations import ACTIVATIONS
from theory.attention import Attention
from theory.claims._float_layers import Kind, Modules
from theory.feed_forward import FeedForward
from theory.normaliser import Normaliser

SMALLEST_SUBNORMAL = 5e-324


def logits(min_size: int = 1, max_size: int = 10) -> SearchStrategy[list[float]]:
    """Finite logits: ties, near ties, spreads beyond exp's range, and huge values."""
    entry = st.one_of(
        st.floats(-5, 5),
        st.sampled_from([0.0, 1.0, 1.0 + 2**-52, -700.0, -745.0, 745.0, 1e300, -1e300]),
        st.integers(-3, 3).map(float),
        st.floats(allow_nan=False, allow_infinity=False),
    )
    return st.lists(entry, min_size=min_size, max_size=max_size)


def temperatures() -> SearchStrategy[float]:
    """Positive temperatures over six decades."""
    return st.one_of(st.sampled_from([0.5, 1.0, 2.0]), st.floats(1e-3, 1e3))


def weights(min_size: int = 1, max_size: int = 10) -> SearchStrategy[list[float]]:
    """Nonnegative weights, not all zero: ties, zeros, subnormals, and scales far apart."""
    entry = st.one_of(
        st.sampled_from([0.0, 1.0, SMALLEST_SUBNORMAL, 2.0**-1022, 2.0**-53, 1.0 - 2.0**-53]),
        st.integers(0, 6).map(float),
        st.floats(0, 1),
    )
    return st.lists(entry, min_size=min_size, max_size=max_size).filter(any)


def rows(min_size: int = 1, max_size: int = 10) -> SearchStrategy[list[float]]:
    """Rows that sum to 1 up to rounding, from `weights` and from near-one-hot vectors."""

    def normalised(entries: list[float]) -> list[float]:
        # Scaling first keeps the division from losing a row of subnormals.
        scaled = [entry * 2.0**500 for entry in entries]
        total = math.fsum(scaled)
        return [entry / total for entry in scaled]

    return weights(min_size, max_size).map(normalised)


def cube_points(length: int) -> SearchStrategy[list[float]]:
    """Points of [−1, 1]^length, often on faces and at vertices."""
    entry = st.one_of(st.sampled_from([-1.0, 1.0]), st.floats(-1, 1))
    return st.lists(entry, min_size=length, max_size=length)


def entries(largest: float = 1e300) -> SearchStrategy[float]:
    """Finite entries: small integers, zeros, subnormals, near ties and values up to ``largest``."""
    return st.one_of(
        st.integers(-3, 3).map(float),
        st.sampled_from([0.0, 1.0, 1.0 + 2**-52, SMALLEST_SUBNORMAL, -1e-300, largest, -largest]),
        st.floats(-largest, largest),
    )


@st.composite
def matrices(draw: st.DrawFn, rows: int, columns: int, largest: float = 1e300) -> list[list[float]]:
    """Matrices of a given shape; all rows equal, or all but one zero, in many draws."""
    row = st.lists(entries(largest), min_size=columns, max_size=columns)
    form = draw(st.sampled_from(["free", "free", "equal rows", "single row"]))
    if form == "equal rows":
        return [draw(row)] * rows
    if form == "single row":
        keep = draw(st.integers(0, rows - 1))
        zero = [0.0] * columns
        return [draw(row) if i == keep else zero for i in range(rows)]
    return draw(st.lists(row, min_size=rows, max_size=rows))


def stochastic(queries: int, keys: int) -> SearchStrategy[list[list[float]]]:
    """Row-stochastic matrices up to rounding, with one-hot and near-one-hot rows."""
    one_hot = st.integers(0, keys - 1).map(lambda j: [float(i == j) for i in range(keys)])
    row = st.one_of(rows(keys, keys), one_hot)
    return st.lists(row, min_size=queries, max_size=queries)


@st.composite
def normalisations(
    draw: st.DrawFn, tokens: int = 1, min_width: int = 1, max_width: int = 6
) -> tuple[list[list[float]], list[float], float]:
    """Tokens of one width, γ and ε > 0 of a LayerNorm or RMSNorm.

    Tokens are constant, nearly constant, huge or subnormal; γ is constant, has zeros, or repeats
    its largest entry, or does not.
    """
    width = draw(st.integers(min_width, max_width))
    offset = draw(st.sampled_from([0.0, 1.0, 1e6]))
    spread = st.one_of(st.sampled_from([0.0, 1e-9, 1.0]), st.floats(1e-6, 1e6))
    entry = entries(1e60)

    def token() -> list[float]:
        size = draw(spread)
        if draw(st.booleans()):
            return [offset + size * draw(st.floats(-1, 1)) for _ in range(width)]
        return [draw(entry) for _ in range(width)]

    scale = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 2.0]), st.floats(-3, 3))
    constant = st.floats(0.25, 4).map(lambda c: [c] * width)
    gamma = draw(st.one_of(constant, st.lists(scale, min_size=width, max_size=width)))
    eps = draw(st.sampled_from([1e-12, 1e-5, 1.0, 1e8]))
    return [token() for _ in range(tokens)], gamma, eps


@st.composite
def layer_modules(
    draw: st.DrawFn, min_width: int = 1, max_width: int = 4, kind: Kind = "layer"
) -> Modules:
    """The modules of one layer without projection biases, as Theorems 4.3 and 4.4 ask.

    Weights are Gaussian of sizes from 0.01 to 30 (near-one-hot attention), zero in some draws; γ
    has zeros, ties or one large entry; ε is from 1e−5 to 1e3.
    """
    width = draw(st.integers(min_width, max_width))
    heads, head_width = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = st.sampled_from([0.0, 0.01, 0.3, 1.0, 30.0])

    def weights(*shape: int) -> np.ndarray:
        return draw(size) * rng.normal(size=shape)

    def normaliser() -> Normaliser:
        gamma = draw(
            st.lists(st.sampled_from([0.0, 1.0, -1.0, 2.0]), min_size=width, max_size=width)
        )
        beta = 0.3 * rng.normal(size=width) if kind == "layer" else None
        eps = draw(st.sampled_from([1e-5, 1e-3, 1.0, 1e3]))
        return Normaliser(kind=kind, gamma=gamma, beta=beta, eps=eps)

    attention = Attention(
        query_HDK=weights(heads, width, head_width),
        key_GDK=weights(heads, width, head_width),
        value_GDV=weights(heads, width, head_width),
        output_HVE=weights(heads, head_width, width),
        tau=draw(st.sampled_from([0.25, 1.0, 4.0])),
        mask=draw(st.sampled_from([None, "causal"])),
    )
    feed_forward = FeedForward(
        w1_DF=weights(width, 2 * width),
        w2_FD=weights(2 * width, width),
        b1_F=draw(st.none() | st.just(rng.normal(size=2 * width))),
        b2_D=draw(st.none() | st.just(rng.normal(size=width))),
        activation=draw(st.sampled_from(sorted(ACTIVATIONS))),
    )
    return Modules(attention, feed_forward, normaliser(), normaliser())


@st.composite
def states(draw: st.DrawFn, width: int, max_length: int = 4) -> np.ndarray:
    """States of shape (L, width): Gaussian of sizes 1e−3 to 1e3, with constant, equal and zero
    tokens.
    """
    length = draw(st.integers(1, max_length))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = draw(st.sampled_from([1e-3, 1.0, 1e3])) * rng.normal(size=(length, width))
    form = draw(st.sampled_from(["free", "free", "constant", "equal", "zero"]))
    token = draw(st.integers(0, length - 1))
    if form == "constant":
        X[token] = X[token, 0]
    elif form == "equal":
        X[:] = X[token]
    elif form == "zero":
        X[token] = 0.0
    return X
