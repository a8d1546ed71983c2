"""Rotary positions: the coordinates of a query or key are turned, in pairs, by angles that grow
with its position (Su et al. 2021, RoFormer). A rotation keeps every norm.

Shape suffixes: L tokens, K head width, P pairs; ... stands for any number of leading axes.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from theory.arguments import FloatArray, as_count, as_parameter, as_real_scalar


@dataclass(frozen=True, eq=False)
class Rotation:
    """The rotation of each of several tokens.

    cosine, sine: float64 of shape (L, P); interleaved: whether pair p is made of the coordinates
    2p and 2p+1, or of p and p+P. Coordinates from 2P on stay as they are.
    """

    cosine_LP: FloatArray
    sine_LP: FloatArray
    interleaved: bool

    def apply(self, x: FloatArray) -> FloatArray:
        """x of shape (..., L, K), each token turned."""
        return self._turn(x, self.sine_LP)

    def undo(self, x: FloatArray) -> FloatArray:
        """The inverse of `apply`, which is its transpose."""
        return self._turn(x, -self.sine_LP)

    def of_token(self, i: int) -> "Rotation":
        """The rotation of token i, for arrays whose rows all belong to that token."""
        return Rotation(self.cosine_LP[[i]], self.sine_LP[[i]], self.interleaved)

    def _turn(self, x: FloatArray, sine_LP: FloatArray) -> FloatArray:
        pairs = self.cosine_LP.shape[-1]
        first, second = slice(pairs), slice(pairs, 2 * pairs)
        if self.interleaved:
            first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
        turned = x.copy()
        turned[..., first] = x[..., first] * self.cosine_LP - x[..., second] * sine_LP
        turned[..., second] = x[..., first] * sine_LP + x[..., second] * self.cosine_LP
        return turned


@dataclass(frozen=True, kw_only=True, eq=False)
class Rotary:
    """Rotary positions for heads of any width.

    base: pair p of a rotated width w turns by position · base^(-2p/w); at least 1. width: how many
    of the leading coordinates are rotated, even; None for all. interleaved: pairs of neighbours
    (0,1), (2,3), ... as in RoFormer, or of halves (0,w/2), (1,w/2+1), ... as in Llama. positions:
    real numbers of shape (L,); None for 0 ... L-1.

    Raises ValueError or TypeError for values of the wrong kind.
    """

    base: float = 10000.0
    width: int | None = None
    interleaved: bool = False
    positions: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        base = as_real_scalar(self.base, "base")
        if base < 1.0:
            raise ValueError(f"base is {base}: at least 1 is needed")
        object.__setattr__(self, "base", base)
        if self.width is not None:
            width = as_count(self.width, "width")
            if width % 2:
                raise ValueError(f"width is {width}: an even number is needed")
        if not isinstance(self.interleaved, bool):
            raise TypeError(f"interleaved is {self.interleaved!r}: True or False is needed")
        if self.positions is not None:
            positions = as_parameter(self.positions, "positions", (None,), "(tokens,)")
            object.__setattr__(self, "positions", positions)

    def check_head_width(self, head_width: int) -> None:
        """Raise ValueError where heads of this width cannot be rotated."""
        width = head_width if self.width is None else self.width
        if width > head_width or width % 2:
            raise ValueError(f"rotary width {width} does not fit heads of width {head_width}")

    def rotation(self, length: int, head_width: int) -> Rotation:
        """The rotations of `length` tokens. Raises ValueError where the lengths disagree."""
        width = head_width if self.width is None else self.width
        positions = np.arange(length) if self.positions is None else np.asarray(self.positions)
        if positions.shape != (length,):
            raise ValueError(f"rotary has {positions.size} positions, U has {length} tokens")
        frequencies_P = self.base ** (-np.arange(0, width, 2) / width)
        angles_LP = np.multiply.outer(positions, frequencies_P)
        cosine_LP, sine_LP = np.cos(angles_LP), np.sin(angles_LP)
        cosine_LP.flags.writeable = sine_LP.flags.writeable = False
        return Rotation(cosine_LP, sine_LP, self.interleaved)
