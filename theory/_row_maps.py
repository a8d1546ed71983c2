"""One output row of a linear map between token sequences, given by its blocks M_j.

Row-vector convention: the row's output is Σ_j x_j M_j for inputs x_j in R^D, with M_j of shape
(D, E). Its block-∞/ℓ2 norm is max over ‖y‖₂ = 1 of Σ_j ‖M_j y‖₂. All that a bracket of this norm
needs of a row are the products below, so that a row with structure never forms its blocks.

Shape suffixes: N blocks of the row, D input width, E output width, R columns at once.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from theory.arguments import FloatArray, as_real_array
from verify.rounding import UNDERFLOW, gamma, upward

IntArray = npt.NDArray[np.intp]
# Blocks that are asked for twice are kept up to this many bytes.
CACHE_BYTES = 2**30
# Lengths above this have squares of full precision.
SAFE_LENGTH = 1e-140


def sizes_from_above(x: FloatArray) -> FloatArray:
    """ℓ2 norms over the last axis; where squares may underflow, an upper bound.

    Rounding of the sums is left to the caller.
    """
    sizes = np.sqrt(np.einsum("...D,...D->...", x, x))
    if x.shape[-1] and np.any(sizes < SAFE_LENGTH):
        sizes = np.maximum(sizes, np.sqrt(x.shape[-1]) * np.max(np.abs(x), axis=-1))
    return np.asarray(sizes)


class RowMap(Protocol):
    """The products of one row with its blocks, and bounds on what rounding does to them.

    tokens: (N,) the input tokens of the blocks, ascending; every other block is zero.
    operator_error: a bound on Σ_j ‖M_j − M_j*‖₂, where M_j* is the block that is meant and M_j the
    one that the stored numbers define.
    """

    tokens: IntArray
    operator_error: float

    def apply(self, y_ER: FloatArray) -> FloatArray:
        """M_j y for every block and column: shape (N, D, R)."""

    def adjoint(self, x_NDR: FloatArray) -> FloatArray:
        """Σ_j M_jᵀ x_j for every column: shape (E, R)."""

    def gram(self, multipliers_N: FloatArray) -> FloatArray:
        """Σ_j c_j M_jᵀM_j, symmetric, shape (E, E), for c_j >= 0."""

    def apply_error(self) -> float:
        """A bound on Σ_j ‖computed M_j y − M_j y‖₂ for every y with ‖y‖₂ <= 1."""

    def gram_error(self, multipliers_N: FloatArray) -> float:
        """A bound on ‖computed − exact‖₂ of `gram`, each c_j being known within 2 roundings."""

    def cheap_bound(self) -> float:
        """A proved upper bound of the row's norm, at a small part of the cost of bracketing it."""


class RowSource(Protocol):
    """A linear map (L, D) -> (M, E) as its rows.

    exponent: the rows are those of the map times 2^−exponent. covers_exact_operator: whether
    operator_error of the rows accounts for everything between the operator's weights and input and
    the stored numbers; otherwise the stored blocks are what is meant.
    """

    input_shape: tuple[int, int]
    output_shape: tuple[int, int]
    exponent: int
    covers_exact_operator: bool

    def row(self, index: int) -> RowMap:
        """The row map of one output token."""


class DenseRow:
    """A row whose blocks are stored: shape (L, D, E), zero blocks dropped."""

    def __init__(self, blocks_LDE: FloatArray) -> None:
        self.tokens: IntArray = np.flatnonzero(np.any(blocks_LDE, axis=(1, 2)))
        self.operator_error = 0.0
        self._blocks = np.ascontiguousarray(blocks_LDE[self.tokens])
        entries = self._blocks.shape[1] * self._blocks.shape[2]
        self._sizes = sizes_from_above(self._blocks.reshape(len(self.tokens), entries))

    def apply(self, y_ER: FloatArray) -> FloatArray:
        return self._blocks @ y_ER

    def adjoint(self, x_NDR: FloatArray) -> FloatArray:
        n, width, columns = x_NDR.shape
        flat = self._blocks.reshape(n * width, -1)
        return flat.T @ x_NDR.reshape(n * width, columns)

    def gram(self, multipliers_N: FloatArray) -> FloatArray:
        scaled = (self._blocks * np.sqrt(multipliers_N)[:, np.newaxis, np.newaxis]).reshape(
            -1, self._blocks.shape[2]
        )
        product = scaled.T @ scaled
        return (product + product.T) / 2

    def apply_error(self) -> float:
        n, width, outputs = self._blocks.shape
        total = upward(float(self._sizes.sum()), n + width * outputs + 2)
        return upward(gamma(outputs) * total + n * width * outputs * UNDERFLOW, 4)

    def gram_error(self, multipliers_N: FloatArray) -> float:
        n, width, outputs = self._blocks.shape
        # Entrywise at most γ_m Σ_j c_j |M_j|ᵀ|M_j|, of Frobenius norm Σ_j c_j ‖M_j‖_F² at most.
        # Besides the N·D terms, c_j, its root and products with it and the mean with the transpose
        # are rounded.
        total = upward(float(multipliers_N @ self._sizes**2), n + 2 * width * outputs + 8)
        lost = n * width * outputs * UNDERFLOW * (1.0 + total)
        return upward(gamma(n * width + 12) * total + lost, 6)

    def cheap_bound(self) -> float:
        n, width, outputs = self._blocks.shape
        return upward(float(self._sizes.sum()), n + width * outputs + 2)


class BlockOperator(Protocol):
    """What any operator must offer to be bracketed: its shapes and the blocks of each row."""

    @property
    def input_shape(self) -> tuple[int, int]: ...

    @property
    def output_shape(self) -> tuple[int, int]: ...

    def row_block(self, index: int, /) -> FloatArray:
        """The blocks of one output row, shape (L, D, E)."""


class DenseRows:
    """The rows of a Jacobian stored whole: shape (M, E, L, D), scaled by a power of two."""

    covers_exact_operator = False

    def __init__(self, jacobian_MELD: npt.ArrayLike) -> None:
        array = as_real_array(jacobian_MELD, "the Jacobian", ndim=4)
        outputs, output_width, inputs, input_width = array.shape
        self.input_shape = (inputs, input_width)
        self.output_shape = (outputs, output_width)
        self.exponent = int(np.frexp(np.max(np.abs(array)))[1])
        self._array = np.ldexp(array, -self.exponent)

    def row(self, index: int) -> DenseRow:
        return DenseRow(self._array[index].transpose(1, 2, 0))


class OperatorRows:
    """The rows of an operator that hands out the blocks of one row at a time."""

    covers_exact_operator = False
    exponent = 0

    def __init__(self, operator: BlockOperator) -> None:
        self._operator = operator
        self.input_shape = operator.input_shape
        self.output_shape = operator.output_shape
        self._kept: dict[int, DenseRow] = {}
        tokens, width = self.input_shape
        outputs, output_width = self.output_shape
        self._keeps = 8 * tokens * width * outputs * output_width <= CACHE_BYTES

    def row(self, index: int) -> DenseRow:
        if index in self._kept:
            return self._kept[index]
        blocks = as_real_array(self._operator.row_block(index), f"row_block({index})", ndim=3)
        expected = (*self.input_shape, self.output_shape[1])
        if blocks.shape != expected:
            raise ValueError(f"row_block({index}) has shape {blocks.shape}, not {expected}")
        row = DenseRow(blocks)
        if self._keeps:
            self._kept[index] = row
        return row
