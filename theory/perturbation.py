"""The largest total variation that a bounded change of the logits can cause.

For p = s_τ(u) and any ε >= 0 (proof: theory.claims.beyond_finite_perturbation)

    max over ‖δ‖_∞ <= ε of TV(s_τ(u + δ), p) = max over subsets S of h(p(S)),
    h(q) = q(1 − q)(r − 1)/(1 + q(r − 1)),   r = e^{2ε/τ},

attained at δ = ε on S and −ε off S.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy.typing as npt

from theory.arguments import as_distributions, as_real_scalar
from theory.theta import closest_mass

# At this ε/τ, q* = 1e-608 is positive and below every subset mass of floats (at least 2^−1074), and
# e^{−2ε/τ} is negligible beside them: a larger ε/τ gives the same float64.
_LARGEST_RATIO = 1400

# Half of an ulp, relative: bounds this close are one answer to within the stated error.
_CLOSE_ENOUGH = Fraction(1, 2**53)


class OpenVariationError(RuntimeError):
    """The search ended before the subset was proved best; `bounds` enclose the exact value."""

    def __init__(self, bounds: tuple[float, float]) -> None:
        super().__init__(bounds)
        self.bounds = bounds

    def __str__(self) -> str:
        low, high = self.bounds
        return f"the largest total variation lies in [{low!r}, {high!r}]; allow a larger budget"


def max_total_variation(
    p: npt.ArrayLike, epsilon: float, tau: float = 1.0, *, budget: float | None = None
) -> float:
    """max over ‖δ‖_∞ <= ε of TV(s_τ(u + δ), s_τ(u)), where p = s_τ(u).

    p: a probability vector of shape (L,), read exactly as float64 and divided by its exact sum;
    epsilon: the largest change of a logit, >= 0, in the units of the logits; tau: the
    temperature, > 0; budget: seconds for the subset search, None for no limit.

    Returns a float in [0, tanh(ε/2τ)], an equality up to a relative error of 8 eps (eps = 2^−52),
    or half a spacing where the value is subnormal, for every magnitude of p's entries and of ε/τ.
    Only p matters, not the u behind it.

    Two subsets decide. h has the derivative of the sign of 1 − 2q − q²(r − 1), so h rises up to
    q* = 1/(1 + e^{ε/τ}) and falls after it: among the subset masses the best one is the greatest
    at most q* or the least at least q*, which `closest_mass` finds. q* is irrational and is rounded
    first; as h is flat at q*, with 1 − h(q)/h(q*) <= (1 − q/q*)², a mass between q* and its rounded
    value, and so missed, is worth no more than a relative 2^−98.

    Raises ValueError for a row that is no distribution, epsilon < 0, tau <= 0, NaN and infinity;
    TypeError for arguments that are no real numbers; OpenVariationError, with bounds, where the
    search stays open (a long row without a near-optimal subset, or a spent budget).
    """
    row = as_distributions(p, "p", ndim=1)
    radius = as_real_scalar(epsilon, "epsilon")
    temperature = as_real_scalar(tau, "tau")
    if radius < 0:
        raise ValueError(f"epsilon is {radius}: it must be at least 0")
    if temperature <= 0:
        raise ValueError(f"tau is {temperature}: it must be positive")
    ratio = min(Fraction(radius) / Fraction(temperature), Fraction(_LARGEST_RATIO))
    total = sum(map(Fraction, row.tolist()), Fraction(0))
    decay = _exp_minus(ratio)
    found = closest_mass(row, decay / (1 + decay) * total, budget=budget)

    def variation(mass: Fraction) -> Fraction:
        return _variation(mass / total, ratio)

    lower = max(variation(found.below), variation(found.above))
    (_, below_limit), (above_limit, _) = found.bounds
    upper = max(variation(below_limit), variation(above_limit))
    if upper - lower > upper * _CLOSE_ENOUGH:
        raise OpenVariationError((float(lower), float(upper)))
    return float(lower)


def _variation(q: Fraction, ratio: Fraction) -> Fraction:
    """h(q), with numerator and denominator multiplied by e^{−2ε/τ} so that nothing overflows."""
    if q == 0:
        return Fraction(0)  # e^{−2ε/τ} may have vanished, and left 0/0
    doubled = 2 * ratio
    growth = Fraction(-math.expm1(-float(doubled)))
    return q * (1 - q) * growth / (_exp_minus(doubled) + q * growth)


def _exp_minus(x: Fraction) -> Fraction:
    """e^{−x} for x >= 0, to a relative error of 4 eps up to x = 1400; beyond, at most 1e-600.

    The square of e^{−x/2}, which is a normal float up to there; the rounding of x/2 is corrected
    to first order, or it would cost x/2 eps.
    """
    half = x / 2
    near = float(half)
    root = Fraction(math.exp(-near)) * (1 + Fraction(near) - half)
    return root * root
