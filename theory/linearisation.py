"""An operator at one input: its output there and its differential, as a linear map.

Operators take tokens X of shape (L, D) to tokens of shape (L, E). Tokens are rows, so the
differential is written as dOut_i = Σ_j dX_j M_ij with blocks M_ij of shape (D, E).

Shape suffixes: L tokens, D input width, E output width, N covectors; ... stands for any number of
leading axes.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from theory.arguments import FloatArray, as_index, as_real_array

# A number too large or too small for float64 is a result here, not an accident.
_quiet = np.errstate(over="ignore", under="ignore")


class Linearisation(ABC):
    """What an operator does at one input X: the output and the differential there.

    output: the operator's value at X, shape (L, E), read-only.
    """

    output: FloatArray

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, int]:
        """(L, D)."""

    @property
    def output_shape(self) -> tuple[int, int]:
        """(L, E)."""
        length, width = self.output.shape
        return length, width

    @_quiet
    def jvp(self, dX: npt.ArrayLike) -> FloatArray:
        """The image of a direction: dOut_i = Σ_j dX_j M_ij, an equality up to rounding.

        dX: shape (..., L, D). Returns float64 of shape (..., L, E). Raises ValueError for another
        shape and for NaN or infinity (with the position), TypeError for no real numbers.
        """
        return self.push(_as_tokens(dX, "dX", self.input_shape))

    @_quiet
    def vjp(self, dY: npt.ArrayLike) -> FloatArray:
        """The pullback of a covector: Σ_i dY_i M_ijᵀ, the adjoint of `jvp`.

        dY: shape (..., L, E). Returns float64 of shape (..., L, D). Errors as in `jvp`.
        """
        return self.pull(_as_tokens(dY, "dY", self.output_shape))

    @_quiet
    def row_block(self, i: int) -> FloatArray:
        """The blocks M_ij of output row i, shape (L, D, E).

        Raises TypeError or ValueError for an i that is no index of a row.
        """
        row = as_index(i, "i", self.output_shape[0])
        pulled_NJD = self.pull_row(row, np.eye(self.output_shape[1]))
        return np.moveaxis(in_all_rows(pulled_NJD, row, self.input_shape[0]), 0, -1)

    def jacobian(self) -> FloatArray:
        """∂Out[i, e]/∂X[j, d], shape (L, E, L, D). For small sizes: it holds L²DE numbers."""
        rows = [np.moveaxis(self.row_block(i), -1, 0) for i in range(self.output_shape[0])]
        return np.stack(rows)

    @abstractmethod
    def push(self, dX: FloatArray) -> FloatArray:
        """`jvp` of a float64 array that has the right shape; nothing is checked."""

    @abstractmethod
    def pull(self, dY: FloatArray) -> FloatArray:
        """`vjp` of a float64 array that has the right shape; nothing is checked."""

    @abstractmethod
    def pull_row(self, i: int, Y_NE: FloatArray) -> FloatArray:
        """`vjp` of N covectors that are zero but in row i, where they are the rows of Y.

        Returns shape (N, L, D); or (N, 1, D), for token i, of a map whose output row i depends on
        token i alone. Nothing is checked.
        """


class Operator(Protocol):
    """A map from tokens (L, D) to tokens (L, E) that can be linearised."""

    def __call__(self, X: npt.ArrayLike, /) -> FloatArray: ...

    def at(self, X: npt.ArrayLike, /) -> Linearisation: ...


@dataclass(frozen=True, eq=False)
class ComposedAt(Linearisation):
    """Several operators in turn, each linearised where the one before it leads."""

    steps: Sequence[Linearisation]
    output: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "output", self.steps[-1].output)

    @property
    def input_shape(self) -> tuple[int, int]:
        return self.steps[0].input_shape

    def push(self, dX: FloatArray) -> FloatArray:
        for step in self.steps:
            dX = step.push(dX)
        return dX

    def pull(self, dY: FloatArray) -> FloatArray:
        for step in reversed(self.steps):
            dY = step.pull(dY)
        return dY

    def pull_row(self, i: int, Y_NE: FloatArray) -> FloatArray:
        rows_NJE = Y_NE[:, np.newaxis]
        for step in reversed(self.steps):
            in_one_row = rows_NJE.shape[1] == 1
            rows_NJE = step.pull_row(i, rows_NJE[:, 0]) if in_one_row else step.pull(rows_NJE)
        return rows_NJE


@dataclass(frozen=True, eq=False)
class ResidualAt(Linearisation):
    """X + F(X) at X, where `branch` is F there."""

    branch: Linearisation
    output: FloatArray

    @property
    def input_shape(self) -> tuple[int, int]:
        return self.branch.input_shape

    def push(self, dX: FloatArray) -> FloatArray:
        return dX + self.branch.push(dX)

    def pull(self, dY: FloatArray) -> FloatArray:
        return dY + self.branch.pull(dY)

    def pull_row(self, i: int, Y_NE: FloatArray) -> FloatArray:
        pulled_NJD = self.branch.pull_row(i, Y_NE)
        pulled_NJD[:, 0 if pulled_NJD.shape[1] == 1 else i] += Y_NE
        return pulled_NJD


def in_all_rows(rows_NJD: FloatArray, i: int, length: int) -> FloatArray:
    """What `Linearisation.pull_row` returned for row i, as (N, L, D)."""
    if rows_NJD.shape[1] == length:
        return rows_NJD
    full_NLD = np.zeros((rows_NJD.shape[0], length, rows_NJD.shape[2]))
    full_NLD[:, i] = rows_NJD[:, 0]
    return full_NLD


def _as_tokens(value: npt.ArrayLike, name: str, shape: tuple[int, int]) -> FloatArray:
    tokens = as_real_array(value, name)
    if tokens.shape[-2:] != shape:
        raise ValueError(
            f"{name} has shape {tokens.shape}: (..., {shape[0]}, {shape[1]}) is needed"
        )
    return tokens
