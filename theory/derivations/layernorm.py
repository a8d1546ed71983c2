"""LayerNorm and RMSNorm for a symbolic width d, and at fixed widths, from their definitions alone.

Two techniques make a statement about symbols one about every width: two coordinates beside the
power sums of all others, and sums over coordinates of a polynomial in what one coordinate carries.
ε may be 0: σ stands in denominators, so that every identity is one wherever σ > 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sympy

d = sympy.Symbol("d", positive=True)
eps = sympy.Symbol("epsilon", nonnegative=True)
# The sums over the other d − 2 coordinates of x_j and of x_j².
rest_sum = sympy.Symbol("R1", real=True)
rest_squares = sympy.Symbol("R2", nonnegative=True)


@dataclass(frozen=True)
class SplitNorm:
    """Coordinate i of a normalisation of x, beside one other coordinate k and the rest of x.

    output = γ_i x̂_i + β_i as a function of x_i, x_k and the power sums of the rest; x̂_i and x̂_k
    are the normalised coordinates and sigma the root in the denominator.
    """

    x_i: sympy.Symbol
    x_k: sympy.Symbol
    gamma_i: sympy.Symbol
    output: sympy.Expr
    xhat_i: sympy.Expr
    xhat_k: sympy.Expr
    sigma: sympy.Expr


def split_layer_norm() -> SplitNorm:
    """LayerNorm at any width d >= 2: x̂ = (x − μ1)/σ with σ² = Σ(x_j − μ)²/d + ε."""
    x_i, x_k = sympy.symbols("x_i x_k", real=True)
    mean = (x_i + x_k + rest_sum) / d
    # Σ over the rest of (x_j − μ)², written with the power sums.
    rest = rest_squares - 2 * mean * rest_sum + (d - 2) * mean**2
    # Factored, because SymPy compares derivatives of a smaller root many times faster.
    sigma = sympy.sqrt(sympy.factor(((x_i - mean) ** 2 + (x_k - mean) ** 2 + rest) / d + eps))
    return _split(x_i, x_k, (x_i - mean) / sigma, (x_k - mean) / sigma, sigma)


def split_rms_norm() -> SplitNorm:
    """RMSNorm at any width d >= 2: x̂ = x/σ with σ² = Σ x_j²/d + ε."""
    x_i, x_k = sympy.symbols("x_i x_k", real=True)
    sigma = sympy.sqrt((x_i**2 + x_k**2 + rest_squares) / d + eps)
    return _split(x_i, x_k, x_i / sigma, x_k / sigma, sigma)


def _split(
    x_i: sympy.Symbol,
    x_k: sympy.Symbol,
    xhat_i: sympy.Expr,
    xhat_k: sympy.Expr,
    sigma: sympy.Expr,
) -> SplitNorm:
    gamma_i, beta_i = sympy.symbols("gamma_i beta_i", real=True)
    output = gamma_i * xhat_i + beta_i
    return SplitNorm(x_i, x_k, gamma_i, output, xhat_i, xhat_k, sigma)


def shifted(norm: SplitNorm, t: sympy.Expr, others: sympy.Expr) -> sympy.Expr:
    """Output i of the normalisation after x_i grows by t and every other coordinate by `others`."""
    return norm.output.subs(
        {
            norm.x_i: norm.x_i + t,
            norm.x_k: norm.x_k + others,
            rest_sum: rest_sum + (d - 2) * others,
            rest_squares: rest_squares + 2 * others * rest_sum + (d - 2) * others**2,
        },
        simultaneous=True,
    )


@dataclass(frozen=True)
class VectorNorm:
    """A normalisation of a whole vector of symbols: columns x, γ, x̂ and γ ⊙ x̂ + β, and σ."""

    x: sympy.Matrix
    gamma: sympy.Matrix
    xhat: sympy.Matrix
    output: sympy.Matrix
    sigma: sympy.Expr


def layer_norm_vector(width: int) -> VectorNorm:
    """LayerNorm of x1, …, x_width."""
    x = _column("x", width)
    mean = sum(x) / sympy.Integer(width)
    return _vector(x, x.applyfunc(lambda entry: entry - mean))


def rms_norm_vector(width: int) -> VectorNorm:
    """RMSNorm of x1, …, x_width; β is kept, at no cost."""
    x = _column("x", width)
    return _vector(x, x)


def _vector(x: sympy.Matrix, numerator: sympy.Matrix) -> VectorNorm:
    width = len(x)
    gamma, beta = _column("gamma", width), _column("beta", width)
    # Expanded, for SymPy's sake, as above.
    square = sympy.expand(sum(entry**2 for entry in numerator) / sympy.Integer(width))
    sigma = sympy.sqrt(square + eps)
    xhat = numerator / sigma
    return VectorNorm(x, gamma, xhat, gamma.multiply_elementwise(xhat) + beta, sigma)


def _column(name: str, width: int) -> sympy.Matrix:
    return sympy.Matrix(sympy.symbols(f"{name}1:{width + 1}", real=True))


def coordinate_sum(
    letters: tuple[sympy.Symbol, ...], sums: Mapping[sympy.Expr | int, sympy.Expr]
) -> Callable[[sympy.Expr], sympy.Expr]:
    """A function that sums an expression over all coordinates, for every number of them.

    letters: what one coordinate carries (x̂_j, v_j, say); sums: for each monomial in the letters its
    sum over the coordinates, so that sums[1] is d. The returned function expands its argument in
    the letters and sums term by term; everything else in the argument is the same for every
    coordinate. It raises KeyError for a monomial whose sum is not given.
    """
    known = {sympy.sympify(monomial): value for monomial, value in sums.items()}

    def summed(term: sympy.Expr) -> sympy.Expr:
        total = sympy.Integer(0)
        for exponents, coefficient in sympy.Poly(term, *letters).terms():
            monomial = sympy.Mul(*(a**n for a, n in zip(letters, exponents, strict=True)))
            total += coefficient * known[monomial]
        return total

    return summed


@dataclass(frozen=True)
class Direction:
    """A vector v beside x̂ at any width: what one coordinate carries, and the sums over all.

    v_j and h_j = x̂_j are the letters; mean = Σv_j/d, square = ‖v‖², pairing = ⟨x̂, v⟩, and
    ‖x̂‖² = d(1 − ρ). image is the coordinate of (P − x̂x̂ᵀ/d)v, for RMSNorm that of (I − x̂x̂ᵀ/d)v.
    `summed` adds a polynomial in v_j and h_j over all coordinates.
    """

    v: sympy.Symbol
    h: sympy.Symbol
    mean: sympy.Symbol
    square: sympy.Symbol
    pairing: sympy.Symbol
    rho: sympy.Symbol
    image: sympy.Expr
    summed: Callable[[sympy.Expr], sympy.Expr]


def direction(*, centred: bool = True) -> Direction:
    """A direction beside the x̂ of LayerNorm (whose entries add up to 0), or of RMSNorm."""
    v, h, mean, pairing, xhat_sum = sympy.symbols("v_j h_j m s H", real=True)
    square, rho = sympy.symbols("V rho", nonnegative=True)
    sums = {
        sympy.Integer(1): d,
        v: d * mean,
        h: sympy.Integer(0) if centred else xhat_sum,
        v**2: square,
        v * h: pairing,
        h**2: d * (1 - rho),
    }
    image = v - (mean if centred else 0) - pairing * h / d
    return Direction(v, h, mean, square, pairing, rho, image, coordinate_sum((v, h), sums))


def derivative_along(*, centred: bool = True) -> tuple[sympy.Expr, sympy.Expr, sympy.Expr]:
    """The derivative of a coordinate of the normalisation along v, at any width d >= 1.

    Returns (derivative, formula, σ): the first differentiates γ_j x̂_j + β_j at x + tv, by t at 0,
    with the sums over all coordinates formed from the power sums of x and v; the second is
    (γ_j/σ)·(v_j − mean(v) − x̂_j⟨x̂, v⟩/d), without the mean for RMSNorm.
    """
    t, x, v, gamma, beta = sympy.symbols("t x_j v_j gamma_j beta_j", real=True)
    mu, mean, cross = sympy.symbols("mu m X", real=True)
    x_square, v_square = sympy.symbols("Q V", nonnegative=True)
    sums = {1: d, x: d * mu, v: d * mean, x**2: x_square, x * v: cross, v**2: v_square}
    summed = coordinate_sum((x, v), sums)

    moved = x + t * v
    if centred:
        moved -= summed(moved) / d
    sigma = sympy.sqrt(summed(moved**2) / d + eps)
    derivative = sympy.diff(gamma * moved / sigma + beta, t).subs(t, 0)

    at, numerator = sigma.subs(t, 0), moved.subs(t, 0)
    pairing = summed(numerator * v) / at
    v_moved = v - mean if centred else v
    return derivative, gamma / at * (v_moved - numerator / at * pairing / d), at


def xhat_moments(*, centred: bool = True) -> tuple[sympy.Expr, sympy.Expr, sympy.Expr]:
    """(Σ x̂_j, Σ x̂_j², σ²) from Σ x_j = dμ and Σ x_j², at any width d >= 1."""
    x, mean = sympy.symbols("x_j mu", real=True)
    square = sympy.Symbol("Q", nonnegative=True)
    summed = coordinate_sum((x,), {sympy.Integer(1): d, x: d * mean, x**2: square})
    numerator = x - mean if centred else x
    sigma_squared = summed(numerator**2) / d + eps
    sigma = sympy.sqrt(sigma_squared)
    return summed(numerator) / sigma, summed(numerator**2) / sigma_squared, sigma_squared
