"""Random layers of theory.blocks in float64, with the constants of Theorems 4.3 and 4.4.

The constants are evaluated in float64 from their formulas; their relative error is below 1e−12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from theory.activations import ACTIVATIONS, lipschitz
from theory.arguments import FloatArray
from theory.attention import Attention
from theory.blocks import PostNormLayer, PreNormLayer
from theory.bounds import corollary_4_2_bound, theorem_4_1_bound
from theory.claims import _ball_layers as balls
from theory.feed_forward import FeedForward
from theory.linearisation import Linearisation
from theory.normaliser import Normaliser
from theory.norms import spectral_norm
from theory.opnorm import CONVERGED_RATIO, block_norm_bracket
from verify.evidence import Tolerance

Kind = Literal["layer", "rms"]

BRACKETED = Tolerance(
    value=1e-9,
    kind="relative",
    reason="the bracket is proved for the stored Jacobian, whose entries and the constants are "
    "computed with fewer than 1e4 roundings each",
)

AGREE = Tolerance(
    value=1e-9,
    kind="absolute",
    reason="Jacobians of size up to 1e4 at ε >= 1/50, from about 1e3 roundings each in float64",
)


@dataclass(frozen=True)
class Modules:
    """The modules of one layer, which pre-LN and post-LN put together differently."""

    attention: Attention
    feed_forward: FeedForward
    norm1: Normaliser
    norm2: Normaliser

    def layer(self, *, pre: bool) -> PreNormLayer | PostNormLayer:
        """The layer in one of the two architectures."""
        kind = PreNormLayer if pre else PostNormLayer
        return kind(
            attention=self.attention,
            norm1=self.norm1,
            feed_forward=self.feed_forward,
            norm2=self.norm2,
        )

    @property
    def normalisers(self) -> tuple[Normaliser, Normaliser]:
        """LN_1 and LN_2."""
        return self.norm1, self.norm2

    @property
    def bound(self) -> float:
        """B_LN."""
        return max(magnitude(norm) for norm in self.normalisers)

    @property
    def rate(self) -> float:
        """L_LN of the paper."""
        return max(crude_rate(norm) for norm in self.normalisers)

    def bounded_by(self, rates: tuple[float, float], mixing: float, *, pre: bool) -> float:
        """(1 + λ_1 a)(1 + λ_2 f) for pre-LN, λ_1 λ_2 (1 + a)(1 + f) for post-LN, f = L_FFN."""
        feeding = feed_forward_constant(self.feed_forward)
        if pre:
            return (1 + rates[0] * mixing) * (1 + rates[1] * feeding)
        return rates[0] * rates[1] * (1 + mixing) * (1 + feeding)

    def paper_bound(self, *, pre: bool, bound: float | None = None) -> float:
        """Theorem 4.3's or 4.4's constant, with B = B_LN unless another B is given."""
        mixing = corollary_4_2_bound(self.attention, self.bound if bound is None else bound).value
        return self.bounded_by((self.rate, self.rate), mixing, pre=pre)

    def exact_bound(self, *, pre: bool, bound: float | None = None) -> float:
        """The same with each normalisation's exact Lipschitz constant."""
        mixing = corollary_4_2_bound(self.attention, self.bound if bound is None else bound).value
        return self.bounded_by((self.norm1.lipschitz(), self.norm2.lipschitz()), mixing, pre=pre)

    def local_bound(self, X: FloatArray, *, pre: bool) -> float:
        """The bound at one state, with Theorem 4.1's bound for Λ_MHA there."""
        if pre:
            U = self.norm1(X)
            first, second = X, X + self.attention(U)
        else:
            U = X
            first = X + self.attention(X)
            Z = self.norm1(first)
            second = Z + self.feed_forward(Z)
        mixing = theorem_4_1_bound(self.attention, U).value
        rates = largest_jacobian(self.norm1, first), largest_jacobian(self.norm2, second)
        return self.bounded_by(rates, mixing, pre=pre)


def magnitude(norm: Normaliser) -> float:
    """‖γ‖_∞ + ‖β‖_∞."""
    shift = 0.0 if norm.beta is None else float(np.max(np.abs(norm.beta)))
    return float(np.max(np.abs(norm.gamma))) + shift


def crude_rate(norm: Normaliser) -> float:
    """‖γ‖_∞/√ε."""
    return float(np.max(np.abs(norm.gamma))) / math.sqrt(norm.eps)


def feed_forward_constant(layer: FeedForward) -> float:
    """‖W_2‖ Lip(act) ‖W_1‖."""
    return spectral_norm(layer.w1_DF) * lipschitz(layer.activation) * spectral_norm(layer.w2_FD)


def largest_jacobian(norm: Normaliser, X: FloatArray) -> float:
    """max_i ‖J(x_i)‖₂."""
    return max(spectral_norm(norm.jacobian_at(token)) for token in X)


def certified(at: Linearisation) -> tuple[float, float]:
    """The proved bracket of the norm of the Jacobian at one input: (lower, upper)."""
    bracket = block_norm_bracket(at.jacobian(), ratio=CONVERGED_RATIO)
    return bracket.lower, bracket.upper


# --------------------------------------------------------------------------------- instances


def from_balls(layer: balls.LayerPair) -> Modules:
    """The layer of `_ball_layers` with its rationals rounded to float64."""

    def rounded(values: object) -> FloatArray:
        return np.asarray(values, dtype=np.float64)

    def normaliser(norm: balls.Norm) -> Normaliser:
        return Normaliser(
            kind="layer",
            gamma=rounded(norm.gamma),
            beta=rounded(norm.beta),
            eps=float(norm.eps),
        )

    mixing, feeding = layer.attention, layer.feed_forward
    attention = Attention(
        query_HDK=rounded([mixing.query.matrix]),
        key_GDK=rounded([mixing.key.matrix]),
        value_GDV=rounded([mixing.value.matrix]),
        output_HVE=rounded([mixing.output.matrix]),
    )
    feed_forward = FeedForward(
        w1_DF=rounded(feeding.first.matrix),
        w2_FD=rounded(feeding.second.matrix),
        b1_F=rounded(feeding.bias),
        activation="gelu" if feeding.gelu else "relu",
    )
    return Modules(attention, feed_forward, *map(normaliser, layer.norms))


def matrix_of(at: Linearisation) -> FloatArray:
    """The Jacobian as an (LE)×(LD) matrix that acts on columns."""
    length, width = at.input_shape
    return at.jacobian().reshape(-1, length * width)


def random_normaliser(rng: np.random.Generator, width: int, kind: Kind = "layer") -> Normaliser:
    """γ near 1 or of mixed size, β small; ε from 1e−3 to 1."""
    gamma = rng.normal(size=width) if rng.random() < 0.5 else 1 + 0.1 * rng.normal(size=width)
    beta = 0.3 * rng.normal(size=width) if kind == "layer" else None
    return Normaliser(kind=kind, gamma=gamma, beta=beta, eps=float(10 ** rng.uniform(-3, 0)))


def random_modules(rng: np.random.Generator, width: int, kind: Kind = "layer") -> Modules:
    """One or two heads, causal or not, τ from 1/3 to 3, every activation, hidden width 2d."""
    heads, head_width = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    scale = rng.choice((0.3, 1.0))

    def normal(*shape: int) -> FloatArray:
        return np.asarray(scale * rng.normal(size=shape) / math.sqrt(width))

    attention = Attention(
        query_HDK=normal(heads, width, head_width),
        key_GDK=normal(heads, width, head_width),
        value_GDV=normal(heads, width, head_width),
        output_HVE=normal(heads, head_width, width),
        tau=float(3 ** rng.uniform(-1, 1)),
        mask="causal" if rng.random() < 0.5 else None,
    )
    feed_forward = FeedForward(
        w1_DF=normal(width, 2 * width),
        w2_FD=normal(2 * width, width),
        b1_F=normal(2 * width),
        b2_D=normal(width),
        activation=str(rng.choice(sorted(ACTIVATIONS))),
    )
    norms = (random_normaliser(rng, width, kind) for _ in range(2))
    return Modules(attention, feed_forward, *norms)


# Where each activation's slope is largest.
STEEPEST = {"relu": 1.0, "gelu": math.sqrt(2.0), "gelu_tanh": 1.41850400811, "silu": 2.39935728052}


def attaining_modules(
    rng: np.random.Generator, width: int, *, pre: bool, gamma: FloatArray, kind: Kind = "layer"
) -> Modules:
    """Modules with W^K = 0 at which the bound with exact Lipschitz constants is attained.

    At zero tokens LN_2 (in pre-LN both normalisations) has its largest Jacobian DP/√ε or D/√ε,
    which takes a unit v to ‖J‖u. In pre-LN W^V W^O and W_1 W_2 send u back to v; in post-LN LN_1
    has γ = 1 and they are multiples of I. W_1 = aI lets every hidden unit have the same, largest
    slope, and b_2 = −act(b_1)W_2 makes FFN(0) = 0.
    """
    norm = Normaliser(kind=kind, gamma=gamma, eps=float(10 ** rng.uniform(-3, 0)))
    first = norm if pre else Normaliser(kind=kind, gamma=np.ones(width), eps=norm.eps)
    left, _, right = np.linalg.svd(norm.jacobian_at(np.zeros(width)))
    back = reflection_between(left[:, 0], right[0]) if pre else np.eye(width)
    value_scale, hidden_scale = rng.uniform(0.2, 3, size=2)
    name = str(rng.choice(sorted(STEEPEST)))
    bias = np.full(width, STEEPEST[name])
    attention = Attention(
        query_HDK=rng.normal(size=(1, width, width)),
        key_GDK=np.zeros((1, width, width)),
        value_GDV=value_scale * np.eye(width)[np.newaxis],
        output_HVE=back[np.newaxis],
    )
    feed_forward = FeedForward(
        w1_DF=hidden_scale * np.eye(width),
        w2_FD=back,
        b1_F=bias,
        b2_D=-ACTIVATIONS[name].value(bias) @ back,
        activation=name,
    )
    return Modules(attention, feed_forward, first, norm)


def reflection_between(u: FloatArray, v: FloatArray) -> FloatArray:
    """The symmetric orthogonal matrix that exchanges the unit vectors u and v."""
    difference = u - v
    square = float(difference @ difference)
    if square == 0.0:
        return np.eye(len(u))
    return np.asarray(np.eye(len(u)) - 2 * np.outer(difference, difference) / square)
