"""Transformer layers made of attention, feed-forward layers and normalisations, and stacks of them.

    pre-LN sublayer   X + F(N(X))        post-LN sublayer   N(X + F(X))

A layer is two sublayers: F is attention in the first and a feed-forward layer in the second. Its
differential is that of its parts composed; no (LD)×(LD) matrix is formed but by `jacobian`.

Shape suffixes: L tokens, D width.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy.typing as npt

from theory.arguments import FloatArray, as_real_array, require_type
from theory.attention import Attention
from theory.feed_forward import Experts, FeedForward
from theory.linearisation import ComposedAt, Linearisation, Operator, ResidualAt
from theory.normaliser import Normaliser


@dataclass(frozen=True, eq=False)
class Stack:
    """Several operators in turn, the first one first. Raises ValueError for none."""

    blocks: Sequence[Operator]

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(self.blocks))
        if not self.blocks:
            raise ValueError("a stack needs at least one block")

    def __call__(self, X: npt.ArrayLike) -> FloatArray:
        """The output at X of shape (L, D), read-only. Raises what its blocks raise."""
        return self.at(X).output

    def at(self, X: npt.ArrayLike) -> ComposedAt:
        """The output and the differential at X: one step for each block.

        `row_block` of a stack with several attentions needs memory for D·H·L² numbers. Raises what
        its blocks raise.
        """
        steps: list[Linearisation] = []
        tokens: npt.ArrayLike = X
        for block in self.blocks:
            steps.append(block.at(tokens))
            tokens = steps[-1].output
        return ComposedAt(tuple(steps))


@dataclass(frozen=True, kw_only=True, eq=False)
class PreNormSublayer:
    """X + inner(norm(X)) for tokens X of shape (L, D); `inner` must keep the width.

    Raises TypeError for a `norm` that is no Normaliser.
    """

    norm: Normaliser
    inner: Operator

    def __post_init__(self) -> None:
        require_type(self.norm, "norm", Normaliser)

    def __call__(self, X: npt.ArrayLike) -> FloatArray:
        """The output at X, shape (L, D), read-only. Errors as in `at`."""
        return self.at(X).output

    def at(self, X: npt.ArrayLike) -> ResidualAt:
        """The output and the differential at X of shape (L, D).

        Raises what `norm` and `inner` raise, and ValueError where `inner` changes the width.
        """
        tokens = as_real_array(X, "X", ndim=2)
        normed = self.norm.at(tokens)
        return _residual(tokens, ComposedAt((normed, self.inner.at(normed.output))))


@dataclass(frozen=True, kw_only=True, eq=False)
class PostNormSublayer:
    """norm(X + inner(X)) for tokens X of shape (L, D); `inner` must keep the width.

    Raises TypeError for a `norm` that is no Normaliser.
    """

    norm: Normaliser
    inner: Operator

    def __post_init__(self) -> None:
        require_type(self.norm, "norm", Normaliser)

    def __call__(self, X: npt.ArrayLike) -> FloatArray:
        """The output at X, shape (L, D), read-only. Errors as in `at`."""
        return self.at(X).output

    def at(self, X: npt.ArrayLike) -> ComposedAt:
        """The output and the differential at X. Errors as in `PreNormSublayer.at`."""
        tokens = as_real_array(X, "X", ndim=2)
        residual = _residual(tokens, self.inner.at(tokens))
        return ComposedAt((residual, self.norm.at(residual.output)))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Layer(ABC):
    """An attention sublayer and a feed-forward sublayer, each with its normalisation.

    Raises TypeError for a part of another kind, ValueError for parts of different widths.
    """

    attention: Attention
    norm1: Normaliser
    feed_forward: FeedForward | Experts
    norm2: Normaliser

    def __post_init__(self) -> None:
        require_type(self.attention, "attention", Attention)
        require_type(self.norm1, "norm1", Normaliser)
        require_type(self.feed_forward, "feed_forward", FeedForward, Experts)
        require_type(self.norm2, "norm2", Normaliser)
        widths = {
            "attention": self.attention.width,
            "attention's output": self.attention.output_width,
            "norm1": self.norm1.width,
            "feed_forward": self.feed_forward.width,
            "feed_forward's output": self.feed_forward.output_width,
            "norm2": self.norm2.width,
        }
        for name, width in widths.items():
            if width != self.attention.width:
                raise ValueError(
                    f"{name} has width {width}, attention has {self.attention.width}: "
                    "a layer has one width"
                )

    @property
    @abstractmethod
    def sublayers(self) -> tuple[Operator, Operator]:
        """The attention sublayer and the feed-forward sublayer."""

    def __call__(self, X: npt.ArrayLike) -> FloatArray:
        """The output at X of shape (L, D), read-only. Errors as in `at`."""
        return self.at(X).output

    def at(self, X: npt.ArrayLike) -> ComposedAt:
        """The output and the differential at X of shape (L, D): one step for each sublayer.

        Raises what the parts raise.
        """
        return Stack(self.sublayers).at(X)


class PreNormLayer(_Layer):
    """A complete pre-LN layer: Z = X + attention(norm1(X)), then Z + feed_forward(norm2(Z)).

    attention: keeps the width; norm1, norm2: LayerNorm or RMSNorm; feed_forward: a FeedForward or
    Experts. Raises TypeError for a part of another kind, ValueError for parts of different widths.
    """

    @property
    def sublayers(self) -> tuple[PreNormSublayer, PreNormSublayer]:
        """The attention sublayer and the feed-forward sublayer."""
        return (
            PreNormSublayer(norm=self.norm1, inner=self.attention),
            PreNormSublayer(norm=self.norm2, inner=self.feed_forward),
        )


class PostNormLayer(_Layer):
    """A complete post-LN layer: Z = norm1(X + attention(X)), then norm2(Z + feed_forward(Z)).

    Parts and errors as in `PreNormLayer`.
    """

    @property
    def sublayers(self) -> tuple[PostNormSublayer, PostNormSublayer]:
        """The attention sublayer and the feed-forward sublayer."""
        return (
            PostNormSublayer(norm=self.norm1, inner=self.attention),
            PostNormSublayer(norm=self.norm2, inner=self.feed_forward),
        )


def _residual(X: FloatArray, branch: Linearisation) -> ResidualAt:
    if branch.output.shape != X.shape:
        raise ValueError(
            f"X has shape {X.shape}, what is added to it {branch.output.shape}: they must agree"
        )
    output = X + branch.output
    output.flags.writeable = False
    return ResidualAt(branch, output)
