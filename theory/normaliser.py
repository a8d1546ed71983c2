"""LayerNorm and RMSNorm as modules with parameters: the map, its differential, its constant.

Shape suffixes: D width; ... stands for any number of axes of tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from theory.arguments import FloatArray, as_parameter, as_real_array, as_real_scalar
from theory.layernorm import (
    layer_norm,
    layer_norm_jacobian,
    layer_norm_lipschitz,
    layer_norm_stats,
    rms_norm,
    rms_norm_jacobian,
    rms_norm_lipschitz,
    rms_norm_stats,
)
from theory.linearisation import Linearisation


@dataclass(frozen=True, eq=False)
class NormaliserAt(Linearisation):
    """A normalisation at tokens X of shape (..., D).

    sigma: shape (...); xhat: the normalised tokens before γ and β, shape (..., D); both as in
    theory.layernorm. With two axes, X is what a block takes, and this is its linearisation.

    Images and pullbacks are right to an absolute error of a few eps times ‖γ‖_∞/σ times the
    length of what is mapped.
    """

    normaliser: "Normaliser"
    sigma: FloatArray
    xhat: FloatArray
    output: FloatArray

    @property
    def input_shape(self) -> tuple[int, int]:
        if self.xhat.ndim != 2:
            raise ValueError(f"X has shape {self.xhat.shape}: a linear map needs (L, D)")
        length, width = self.xhat.shape
        return length, width

    def push(self, dX: FloatArray) -> FloatArray:
        """The image of dX, of a shape that X's broadcasts to."""
        return self.normaliser.gamma * self._project(dX)

    def pull(self, dY: FloatArray) -> FloatArray:
        """The pullback of dY, of a shape that X's broadcasts to."""
        # Without γ the Jacobian is symmetric.
        return self._project(self.normaliser.gamma * dY)

    def pull_row(self, i: int, Y_NE: FloatArray) -> FloatArray:
        return self.of_tokens(i).pull(Y_NE)[:, np.newaxis]

    def of_tokens(self, index: Any) -> "NormaliserAt":
        """The same at some of the tokens: `index` is any NumPy index of the axes (...)."""
        return NormaliserAt(
            self.normaliser, self.sigma[index], self.xhat[index], self.output[index]
        )

    def _project(self, v: FloatArray) -> FloatArray:
        """(I - 11ᵀ/d - x̂x̂ᵀ/d)v/σ, for RMSNorm without the term of the mean."""
        along = np.mean(self.xhat * v, axis=-1, keepdims=True)
        rest = v - self.xhat * along
        if self.normaliser.kind == "layer":
            rest -= np.mean(v, axis=-1, keepdims=True)
        return rest / self.sigma[..., np.newaxis]


@dataclass(frozen=True, kw_only=True, eq=False)
class Normaliser:
    """LayerNorm (kind "layer") or RMSNorm (kind "rms") with its parameters.

    gamma: shape (D,); beta: shape (D,) or None for none (RMSNorm has none); eps: ε >= 0. Kept as
    private, read-only float64. Raises ValueError or TypeError for values of the wrong kind.
    """

    kind: Literal["layer", "rms"]
    gamma: FloatArray
    beta: FloatArray | None = None
    eps: float

    def __post_init__(self) -> None:
        if self.kind not in ("layer", "rms"):
            raise ValueError(f'kind is {self.kind!r}: "layer" or "rms" is needed')
        gamma = as_parameter(self.gamma, "gamma", (None,), "(width,)")
        object.__setattr__(self, "gamma", gamma)
        if self.beta is not None:
            if self.kind == "rms":
                raise ValueError("beta is given, but RMSNorm has no shift")
            beta = as_parameter(self.beta, "beta", gamma.shape, "(width,)")
            object.__setattr__(self, "beta", beta)
        eps = as_real_scalar(self.eps, "eps")
        if eps < 0.0:
            raise ValueError(f"eps is {eps}: negative")
        object.__setattr__(self, "eps", eps)

    @property
    def width(self) -> int:
        """D."""
        return self.gamma.size

    def __call__(self, X: npt.ArrayLike) -> FloatArray:
        """The normalised tokens; X and the result have shape (..., D). Errors as in `at`."""
        tokens = self._as_tokens(X)
        if self.kind == "rms":
            return rms_norm(tokens, self.gamma, self.eps)
        beta = np.zeros(self.width) if self.beta is None else self.beta
        return layer_norm(tokens, self.gamma, beta, self.eps)

    def at(self, X: npt.ArrayLike) -> NormaliserAt:
        """The linearisation at tokens X of shape (..., D).

        Raises ValueError for tokens of another width and where the normalisation is not defined
        (eps = 0 at a constant or zero token), and what `as_real_array` raises.
        """
        tokens = self._as_tokens(X)
        stats = (layer_norm_stats if self.kind == "layer" else rms_norm_stats)(tokens, self.eps)
        output = self(tokens)
        for array in (stats.sigma, stats.xhat, output):
            array.flags.writeable = False
        return NormaliserAt(self, stats.sigma, stats.xhat, output)

    def jacobian_at(self, x: npt.ArrayLike) -> FloatArray:
        """∂out[e]/∂x[d] at one token x of shape (D,); shape (D, D). Errors as in `at`."""
        jacobian: Callable[..., FloatArray] = rms_norm_jacobian
        if self.kind == "layer":
            jacobian = layer_norm_jacobian
        return jacobian(as_real_array(x, "x", ndim=1), self.gamma, self.eps)

    def lipschitz(self) -> float:
        """The Lipschitz constant over all tokens, exactly (`layer_norm_lipschitz` and
        `rms_norm_lipschitz`): in ℓ2 of one token, and so in the block-∞/RMS norm.

        Raises ValueError for eps = 0, where it is infinite.
        """
        if self.kind == "layer":
            return layer_norm_lipschitz(self.gamma, self.eps)
        return rms_norm_lipschitz(self.gamma, self.eps)

    def _as_tokens(self, X: npt.ArrayLike) -> FloatArray:
        tokens = as_real_array(X, "X")
        if tokens.shape[-1] != self.width:
            raise ValueError(f"X has shape {tokens.shape}: tokens of width {self.width} are needed")
        return tokens
