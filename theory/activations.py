"""The activations of feed-forward layers, their derivatives, and their Lipschitz constants.

    relu(x) = max(x, 0)                 gelu(x) = x Φ(x), Φ the standard normal distribution
    silu(x) = x/(1 + e^{-x})            gelu_tanh(x) = x(1 + tanh(u(x)/2))/2,
                                        u(x) = 2√(2/π)(x + 0.044715 x³)

The constant of each is sup |f'| over the reals, enclosed in balls that contain it with proof.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtr

from theory.arguments import FloatArray, as_real_array

_CUBIC = 0.044715  # of the tanh form, as everyone writes it

# Powers of a large x overflow on the way to a factor of 0.
_quiet = np.errstate(over="ignore", under="ignore")


@_quiet
def relu(x: npt.ArrayLike) -> FloatArray:
    """max(x, 0) entrywise; x and the result have any shape with at least one axis.

    Raises ValueError or TypeError as `as_real_array` does.
    """
    return np.maximum(as_real_array(x, "x"), 0.0)


@_quiet
def relu_derivative(x: npt.ArrayLike) -> FloatArray:
    """1 where x > 0 and 0 elsewhere: at the kink, 0 of the possible [0, 1]. Errors as in `relu`."""
    return np.where(as_real_array(x, "x") > 0.0, 1.0, 0.0)


@_quiet
def gelu(x: npt.ArrayLike) -> FloatArray:
    """x Φ(x) entrywise, right to a relative error of a few eps. Errors as in `relu`."""
    values = as_real_array(x, "x")
    return np.asarray(values * ndtr(values))


@_quiet
def gelu_derivative(x: npt.ArrayLike) -> FloatArray:
    """Φ(x) + x φ(x) entrywise, right to an absolute error of a few eps. Errors as in `relu`."""
    values = as_real_array(x, "x")
    density = np.exp(-0.5 * np.square(values)) / math.sqrt(2.0 * math.pi)
    return np.asarray(ndtr(values) + values * density)


@_quiet
def gelu_tanh(x: npt.ArrayLike) -> FloatArray:
    """x/(1 + e^{-u(x)}) entrywise, which is x(1 + tanh(u(x)/2))/2. Errors as in `relu`."""
    values = as_real_array(x, "x")
    return np.asarray(values * expit(_tanh_argument(values)))


@_quiet
def gelu_tanh_derivative(x: npt.ArrayLike) -> FloatArray:
    """Its derivative, right to an absolute error of a few eps. Errors as in `relu`."""
    values = as_real_array(x, "x")
    # Beyond 50 the derivative is 0 or 1 to within 1e-300, and u(x) might overflow.
    near = np.clip(values, -50.0, 50.0)
    argument = _tanh_argument(near)
    slope = math.sqrt(8.0 / math.pi) * (1.0 + 3.0 * _CUBIC * np.square(near))
    return np.asarray(expit(argument) * (1.0 + near * slope * expit(-argument)))


@_quiet
def silu(x: npt.ArrayLike) -> FloatArray:
    """x/(1 + e^{-x}) entrywise, right to a relative error of a few eps. Errors as in `relu`."""
    values = as_real_array(x, "x")
    return np.asarray(values * expit(values))


@_quiet
def silu_derivative(x: npt.ArrayLike) -> FloatArray:
    """The derivative of `silu`, right to an absolute error of a few eps. Errors as in `relu`."""
    values = as_real_array(x, "x")
    return np.asarray(expit(values) * (1.0 + values * expit(-values)))


def _tanh_argument(values: FloatArray) -> FloatArray:
    cubed = values * np.square(values)
    return np.asarray(math.sqrt(8.0 / math.pi) * (values + _CUBIC * cubed))


@dataclass(frozen=True)
class Activation:
    """An activation and its derivative, both of arrays of any shape."""

    value: Callable[[npt.ArrayLike], FloatArray]
    derivative: Callable[[npt.ArrayLike], FloatArray]


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "relu": Activation(relu, relu_derivative),
        "gelu": Activation(gelu, gelu_derivative),
        "gelu_tanh": Activation(gelu_tanh, gelu_tanh_derivative),
        "silu": Activation(silu, silu_derivative),
    }
)


def activation(name: str) -> Activation:
    """The activation of that name. Raises ValueError for a name that is not in ACTIVATIONS."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ValueError(f"activation is {name!r}: one of {', '.join(ACTIVATIONS)} is needed")
    return ACTIVATIONS[name]


# --- Lipschitz constants -------------------------------------------------------------------------

# Bits of the balls: far more than a float64 upper bound needs.
_BITS = 128
# Where the tails begin: from here on f' <= 1 + 3u e^{-u} with u >= 24, below 1 + 1e-8.
_TAIL = 24
# Newton steps on a piece with a zero of f'': each doubles the bits.
_NEWTON_STEPS = 12
# Radius at which a zero counts as enclosed. f' is flat there, and known much better.
_NARROW = 2.0**-60
# Width of a piece at which the search gives up.
_NARROWEST = 2.0**-20


def lipschitz(name: str) -> float:
    """sup |f'| of an activation as an upper bound: the least float64 that is one, or the next.

    Raises ValueError for an unknown name.
    """
    from verify.exact import upper_end

    bound = upper_end(lipschitz_ball(name))
    nearest = float(bound)
    return nearest if nearest >= bound else math.nextafter(nearest, math.inf)


def lipschitz_ball(name: str) -> Any:
    """A ball (python-flint's arb) that contains sup over all x of |f'(x)|, of radius below 1e-30.

    relu has 1, attained. The others are x S(u(x)) with S(u) + S(-u) = 1 and u odd and increasing,
    so f'(x) + f'(-x) = 1: with M = max f' over x >= 0 all derivatives lie in [1 - M, M], and as
    f' -> 1 gives M >= 1, the supremum of |f'| is M itself. M is found in three parts.

    - Beyond x = 24, f' = S + x S'(u) u' <= 1 + 3u e^{-u} for the logistic S of silu and gelu_tanh,
      because S' <= e^{-u} and x u' <= 3u, and <= 1 + xφ(x) <= 1 + x e^{-x} for gelu; both fall in
      u, x >= 1.
    - [0, 24] is cut until on every piece f'' or f''' has one sign, both evaluated in balls. Where
      f'' has one sign f' is monotone, so that its largest value is at an end of the piece.
    - Where f''' has one sign f'' has at most one zero, which Newton's method in balls encloses:
      f' is largest there or at an end, and it is evaluated on the whole enclosure. Where Newton's
      method does not converge the piece is cut further.

    M lies in the largest of those finitely many balls. Raises ValueError for an unknown name, and
    ArithmeticError where balls cannot tell the signs.
    """
    activation(name)
    return _largest_slope(name)


@lru_cache
def _largest_slope(name: str) -> Any:
    import flint

    from verify.exact import precision

    if name == "relu":
        return flint.arb(1)
    with precision(_BITS):
        tail = flint.arb(_TAIL)
        largest = 1 + 3 * tail * (-tail).exp()
        # Wider pieces to start with would have no exponentials.
        pieces = [(flint.arb(k), flint.arb(k + 1)) for k in range(_TAIL)]
        while pieces:
            left, right = pieces.pop()
            piece = left.union(right)
            points = [left, right]
            _, _, second, third = _derivatives(name, piece)
            if 0 in second:
                zero = piece if 0 in third else _enclose_zero(name, piece)
                if zero.rad() > _NARROW:
                    if right - left < _NARROWEST:
                        raise ArithmeticError(
                            f"balls tell no sign of {name}'s f'' near {float(left)}"
                        )
                    middle = (left + right) / 2
                    pieces += [(left, middle), (middle, right)]
                    continue
                points.append(zero)
            for point in points:
                largest = largest.max(_derivatives(name, point)[1])
        return largest


def _derivatives(name: str, x: Any) -> list[Any]:
    """Balls that contain f, f', f'' and f''' on all of the ball x."""
    import flint

    cap = flint.ctx.cap
    flint.ctx.cap = 4
    try:
        series = flint.arb_series([x, 1])
        if name == "gelu":
            value = series * (1 + (series / flint.arb(2).sqrt()).erf()) / 2
        else:
            argument = series
            if name == "gelu_tanh":
                cubic = flint.arb(flint.fmpq(44715, 10**6))
                argument = (8 / flint.arb.pi()).sqrt() * (series + cubic * series * series * series)
            value = series / (1 + (-argument).exp())
        taylor = [value[k] for k in range(4)]
    finally:
        flint.ctx.cap = cap
    return [taylor[k] * math.factorial(k) for k in range(4)]


def _enclose_zero(name: str, piece: Any) -> Any:
    """A ball within `piece` that holds the zero of f'' in it, where f''' has one sign.

    By the mean value theorem a zero lies in m - f''(m)/f'''(piece) for any m of the piece.
    """
    for _ in range(_NEWTON_STEPS):
        middle = piece.mid()
        step = middle - _derivatives(name, middle)[2] / _derivatives(name, piece)[3]
        if not step.overlaps(piece):
            break
        piece = piece.intersection(step)
    return piece
