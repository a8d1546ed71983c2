"""Feed-forward layers, plain and gated, and mixtures of them with fixed routing.

    plain:  FFN(x) = act(x W1 + b1) W2 + b2
    gated:  FFN(x) = [act(x G + c) ⊙ (x W1 + b1)] W2 + b2

They act on each token alone: output row i depends on token i only.

Shape suffixes: L tokens, D input width, F hidden width, E output width, N covectors, X experts;
... stands for any number of leading axes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from theory.activations import activation
from theory.arguments import (
    FloatArray,
    as_parameter,
    as_real_array,
    first_true,
    position,
    require_type,
)
from theory.linearisation import Linearisation

_quiet = np.errstate(over="ignore", invalid="ignore", under="ignore")


@dataclass(frozen=True, kw_only=True, eq=False)
class FeedForwardAt(Linearisation):
    """A feed-forward layer at tokens X of shape (L, D).

    paths: how X reaches the hidden units, as pairs (W_DF, slope_LF): dhidden = Σ (dX W) ⊙ slope.
    A plain layer has one, through W1; a gated one has two, through W1 and G.
    """

    paths: Sequence[tuple[FloatArray, FloatArray]]
    w2_FD: FloatArray
    output: FloatArray

    @property
    def input_shape(self) -> tuple[int, int]:
        return len(self.output), len(self.paths[0][0])

    def push(self, dX: FloatArray) -> FloatArray:
        dhidden = sum((dX @ weights_DF) * slope_LF for weights_DF, slope_LF in self.paths)
        return np.asarray(dhidden @ self.w2_FD)

    def pull(self, dY: FloatArray) -> FloatArray:
        return self._pull(dY, slice(None))

    def pull_row(self, i: int, Y_NE: FloatArray) -> FloatArray:
        return self._pull(Y_NE, i)[:, np.newaxis]

    def _pull(self, dY: FloatArray, tokens: int | slice) -> FloatArray:
        dhidden = dY @ self.w2_FD.T
        pulled = (
            (dhidden * slope_LF[tokens]) @ weights_DF.T for weights_DF, slope_LF in self.paths
        )
        return np.asarray(sum(pulled))


@dataclass(frozen=True, kw_only=True, eq=False)
class FeedForward:
    """The parameters of one feed-forward layer, each kept as private, read-only float64.

    w1_DF, w2_FD: the projections in and out; b1_F, b2_D: their biases, None for none. activation:
    a name in theory.activations.ACTIVATIONS. gate_DF, gate_bias_F: the gate's projection and bias,
    None for none. The output may have another width than the input.

    Raises ValueError, naming the parameter, for shapes that do not fit together, for NaN and
    infinity, for an unknown activation and for a bias of a gate that is not there; TypeError for
    values of the wrong kind.
    """

    w1_DF: FloatArray
    w2_FD: FloatArray
    b1_F: FloatArray | None = None
    b2_D: FloatArray | None = None
    activation: str
    gate_DF: FloatArray | None = None
    gate_bias_F: FloatArray | None = None

    def __post_init__(self) -> None:
        activation(self.activation)
        if self.gate_DF is None and self.gate_bias_F is not None:
            raise ValueError("gate_bias_F is given, but there is no gate_DF")
        D, F = self._keep("w1_DF", (None, None), "(width, hidden width)")
        _, E = self._keep("w2_FD", (F, None), "(hidden width, output width)")
        for name, shape, axes in (
            ("b1_F", (F,), "(hidden width,)"),
            ("b2_D", (E,), "(output width,)"),
            ("gate_DF", (D, F), "(width, hidden width)"),
            ("gate_bias_F", (F,), "(hidden width,)"),
        ):
            if getattr(self, name) is not None:
                self._keep(name, shape, axes)

    @property
    def width(self) -> int:
        """D."""
        return self.w1_DF.shape[0]

    @property
    def output_width(self) -> int:
        """E."""
        return self.w2_FD.shape[1]

    def __call__(self, X: npt.ArrayLike) -> FloatArray:
        """The output at X of shape (L, D): shape (L, E), read-only. Errors as in `at`."""
        return self.at(X).output

    @_quiet
    def at(self, X: npt.ArrayLike) -> FeedForwardAt:
        """The output and the differential at X of shape (L, D).

        Raises ValueError for another shape and where the output exceeds float64 (with the
        position); otherwise as `as_real_array` does.
        """
        tokens = as_real_array(X, "X", ndim=2)
        if tokens.shape[1] != self.width:
            raise ValueError(f"X has shape {tokens.shape}: tokens of width {self.width} are needed")
        act = activation(self.activation)
        linear = _affine(tokens, self.w1_DF, self.b1_F)
        if self.gate_DF is None:
            hidden = act.value(linear)
            paths = [(self.w1_DF, act.derivative(linear))]
        else:
            gate = _affine(tokens, self.gate_DF, self.gate_bias_F)
            gated = act.value(gate)
            hidden = gated * linear
            paths = [(self.w1_DF, gated), (self.gate_DF, act.derivative(gate) * linear)]
        output = _affine(hidden, self.w2_FD, self.b2_D)
        for array in (output, *(slope_LF for _, slope_LF in paths)):
            array.flags.writeable = False
        return FeedForwardAt(paths=tuple(paths), w2_FD=self.w2_FD, output=output)

    def jacobian_at(self, x: npt.ArrayLike) -> FloatArray:
        """∂out[e]/∂x[d] at one token x of shape (D,); shape (E, D). Errors as in `at`."""
        jacobian = self.at(as_real_array(x, "x", ndim=1)[np.newaxis]).jacobian()
        return jacobian.reshape(self.output_width, self.width)

    def _keep(self, name: str, shape: tuple[int | None, ...], axes: str) -> tuple[int, ...]:
        array = as_parameter(getattr(self, name), name, shape, axes)
        object.__setattr__(self, name, array)
        return array.shape


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpertsAt(Linearisation):
    """A mixture of experts at tokens X of shape (L, D): each expert's linearisation there."""

    experts: Sequence[FeedForwardAt]
    routing_LX: FloatArray
    output: FloatArray

    @property
    def input_shape(self) -> tuple[int, int]:
        return self.experts[0].input_shape

    def push(self, dX: FloatArray) -> FloatArray:
        terms = zip(self.experts, self.routing_LX.T[..., np.newaxis], strict=True)
        return np.asarray(sum(weight_L1 * expert.push(dX) for expert, weight_L1 in terms))

    def pull(self, dY: FloatArray) -> FloatArray:
        terms = zip(self.experts, self.routing_LX.T[..., np.newaxis], strict=True)
        return np.asarray(sum(expert.pull(weight_L1 * dY) for expert, weight_L1 in terms))

    def pull_row(self, i: int, Y_NE: FloatArray) -> FloatArray:
        terms = zip(self.experts, self.routing_LX[i], strict=True)
        return np.asarray(sum(expert.pull_row(i, weight * Y_NE) for expert, weight in terms))


@dataclass(frozen=True, kw_only=True, eq=False)
class Experts:
    """Σ_x r_tx FFN_x(token t): several feed-forward layers, mixed by weights that do not depend on
    the input.

    experts: layers of one input and one output width; routing_LX: the weight of each expert for
    each token, any finite numbers. Every expert is evaluated at every token.

    Raises ValueError for shapes that do not fit together, for no expert, and for NaN or infinity;
    TypeError for values of the wrong kind.
    """

    experts: Sequence[FeedForward]
    routing_LX: FloatArray

    def __post_init__(self) -> None:
        experts = tuple(self.experts)
        if not experts:
            raise ValueError("a mixture needs at least one expert")
        for x, expert in enumerate(experts):
            require_type(expert, f"experts[{x}]", FeedForward)
        if len({(expert.width, expert.output_width) for expert in experts}) > 1:
            raise ValueError("the experts differ in their input or output width")
        routing = as_parameter(
            self.routing_LX, "routing_LX", (None, len(experts)), "(tokens, experts)"
        )
        object.__setattr__(self, "experts", experts)
        object.__setattr__(self, "routing_LX", routing)

    @property
    def width(self) -> int:
        """D."""
        return self.experts[0].width

    @property
    def output_width(self) -> int:
        """E."""
        return self.experts[0].output_width

    def __call__(self, X: npt.ArrayLike) -> FloatArray:
        """The output at X of shape (L, D): shape (L, E), read-only. Errors as in `at`."""
        return self.at(X).output

    @_quiet
    def at(self, X: npt.ArrayLike) -> ExpertsAt:
        """The output and the differential at X of shape (L, D).

        Raises ValueError where the routing is for another number of tokens, and what
        `FeedForward.at` raises.
        """
        tokens = as_real_array(X, "X", ndim=2)
        if len(tokens) != len(self.routing_LX):
            raise ValueError(f"routing is for {len(self.routing_LX)} tokens, X has {len(tokens)}")
        experts = tuple(expert.at(tokens) for expert in self.experts)
        terms = zip(experts, self.routing_LX.T[..., np.newaxis], strict=True)
        output = np.asarray(sum(weight_L1 * expert.output for expert, weight_L1 in terms))
        _require_finite(output)
        output.flags.writeable = False
        return ExpertsAt(experts=experts, routing_LX=self.routing_LX, output=output)


def _affine(tokens: FloatArray, weights: FloatArray, bias: FloatArray | None) -> FloatArray:
    product = np.asarray(tokens @ weights)
    if bias is not None:
        product += bias
    _require_finite(product)
    return product


def _require_finite(product: FloatArray) -> None:
    bad = ~np.isfinite(product)
    if np.any(bad):
        at = position(first_true(bad))
        raise ValueError(f"a layer's value at [token, unit] {at} is beyond the range of float64")
