"""LayerNorm and RMSNorm with any ε >= 0, their Jacobians, and the exact spectral norms and
Lipschitz constants of these. Arguments are read by the rules at the top of theory.arguments.

    LayerNorm  x̂ = (x - μ1)/σ,  μ = Σ x_i/d,  σ² = ‖x - μ1‖²/d + ε,  LN(x)  = γ ⊙ x̂ + β
    RMSNorm    x̂ = x/σ,                       σ² = ‖x‖²/d + ε,       RMS(x) = γ ⊙ x̂

In both, ρ = ε/σ² is the share of ε in σ², ‖x̂‖² = (1 - ρ)d, and ŝ = x̂/‖x̂‖ (ŝ = 0 where x̂ = 0).

Tokens are scaled exactly by powers of two before anything is squared, and every result is put
together from mantissas and exponents, so that tokens near 1e308 and subnormal ones are treated
like any other. A result is infinite only where its exact value exceeds every float64.

Shape suffixes: D is the width d; ... stands for any number of axes of tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from theory.arguments import FloatArray, as_real_array, as_real_scalar, first_true, position

# A number too large or too small for float64 is a result here, not an accident.
_quiet = np.errstate(over="ignore", under="ignore")


@dataclass(frozen=True)
class LayerNormStats:
    """What LayerNorm computes of tokens of shape (..., d).

    mean, sigma, rho: float64 arrays of shape (...): μ, σ and ρ = ε/σ², which is 1 exactly for a
    constant token. xhat: float64 array of shape (..., d): the normalised tokens x̂.
    """

    mean: FloatArray
    sigma: FloatArray
    xhat: FloatArray
    rho: FloatArray


@dataclass(frozen=True)
class RMSNormStats:
    """What RMSNorm computes of tokens of shape (..., d).

    sigma, rho: float64 arrays of shape (...): σ and ρ = ε/σ². xhat: float64 array of shape
    (..., d): the normalised tokens x̂.
    """

    sigma: FloatArray
    xhat: FloatArray
    rho: FloatArray


@dataclass(frozen=True)
class _Normalised:
    """Vectors v over σ = √(‖v‖²/d + ε), kept as mantissas and exponents of two.

    v/σ = direction/root · 2^shift, σ = root · 2^sigma_exponent, rho = ε/σ² and signal = 1 - rho,
    computed as ‖v‖²/(dσ²). Shapes: direction (..., d), the others (..., 1).
    """

    direction: FloatArray
    root: FloatArray
    shift: npt.NDArray[np.int32]
    sigma_exponent: npt.NDArray[np.int32]
    rho: FloatArray
    signal: FloatArray

    def unit(self) -> FloatArray:
        """v/σ itself."""
        return np.ldexp(self.direction / self.root, self.shift)


# --- the maps ------------------------------------------------------------------------------------


@_quiet
def layer_norm(
    x: npt.ArrayLike, gamma: npt.ArrayLike, beta: npt.ArrayLike, eps: float
) -> FloatArray:
    """LN(x) = γ ⊙ (x - μ1)/σ + β of each token.

    x: tokens, shape (..., d); gamma, beta: shape (d,); eps: ε >= 0. Returns float64 of x's shape.
    A constant token gives β exactly. The error of an entry of x̂ is at most a few eps times √d,
    whatever offset the token has.

    Raises ValueError for eps < 0, for a constant token where eps = 0 (with its position), for
    gamma or beta of another shape than (d,), and ValueError or TypeError as `as_real_array` does.
    """
    tokens = as_real_array(x, "x")
    scale = _as_parameter(gamma, "gamma", tokens)
    shift = _as_parameter(beta, "beta", tokens)
    _, normalised = _centre_and_normalise(tokens, eps)
    return _affine(normalised, scale, shift)


@_quiet
def rms_norm(x: npt.ArrayLike, gamma: npt.ArrayLike, eps: float) -> FloatArray:
    """RMS(x) = γ ⊙ x/σ with σ² = ‖x‖²/d + ε, of each token.

    x: tokens, shape (..., d); gamma: shape (d,); eps: ε >= 0. Returns float64 of x's shape, right
    to a relative error of a few eps in every entry that is not below 2^-1022 of its token's
    largest (such entries are rounded like subnormals). Raises ValueError for a zero token where
    eps = 0 (with its position), and otherwise as `layer_norm` does.
    """
    tokens = as_real_array(x, "x")
    scale = _as_parameter(gamma, "gamma", tokens)
    return _affine(_normalise_raw(tokens, eps), scale, np.zeros_like(scale))


@_quiet
def layer_norm_stats(x: npt.ArrayLike, eps: float) -> LayerNormStats:
    """μ, σ, x̂ and ρ of each token; x has shape (..., d). Errors as in `layer_norm`."""
    tokens = as_real_array(x, "x")
    mean, normalised = _centre_and_normalise(tokens, eps)
    return LayerNormStats(
        mean=mean[..., 0],
        sigma=np.ldexp(normalised.root, normalised.sigma_exponent)[..., 0],
        xhat=normalised.unit(),
        rho=normalised.rho[..., 0],
    )


@_quiet
def rms_norm_stats(x: npt.ArrayLike, eps: float) -> RMSNormStats:
    """σ, x̂ and ρ of each token; x has shape (..., d). Errors as in `rms_norm`."""
    normalised = _normalise_raw(as_real_array(x, "x"), eps)
    return RMSNormStats(
        sigma=np.ldexp(normalised.root, normalised.sigma_exponent)[..., 0],
        xhat=normalised.unit(),
        rho=normalised.rho[..., 0],
    )


# --- Jacobians -----------------------------------------------------------------------------------


@_quiet
def layer_norm_jacobian(x: npt.ArrayLike, gamma: npt.ArrayLike, eps: float) -> FloatArray:
    """J_LN(x) = (1/σ) Diag(γ)(I - 11ᵀ/d - x̂x̂ᵀ/d) (proof of Lemma A.1); β does not enter.

    x, gamma: shape (d,); eps: ε >= 0. Returns float64 of shape (d, d); an entry in row i is right
    to an absolute error of a few eps times |γ_i|/σ. (For d = 2 the exact Jacobian is ρ/2 times
    that scale, so use `layer_norm_jacobian_norm`, which has no such loss, for its norm.) Errors
    as in `layer_norm`.
    """
    token = as_real_array(x, "x", ndim=1)
    scale = _as_parameter(gamma, "gamma", token)
    _, normalised = _centre_and_normalise(token, eps)
    xhat = normalised.unit()
    width = token.shape[0]
    bracket = np.eye(width) - 1.0 / width - np.multiply.outer(xhat, xhat) / width
    return _scale_rows(bracket, scale, normalised)


@_quiet
def rms_norm_jacobian(x: npt.ArrayLike, gamma: npt.ArrayLike, eps: float) -> FloatArray:
    """J_RMS(x) = (1/σ) Diag(γ)(I - x̂x̂ᵀ/d).

    x, gamma: shape (d,); eps: ε >= 0. Returns float64 of shape (d, d). The diagonal 1 - x̂_i²/d is
    computed as ρ + Σ_{j≠i} x̂_j²/d, so every entry is right to a relative error of a few eps times
    d, with the exception named in `rms_norm`. Errors as in `rms_norm`.
    """
    token = as_real_array(x, "x", ndim=1)
    scale = _as_parameter(gamma, "gamma", token)
    normalised = _normalise_raw(token, eps)
    xhat = normalised.unit()
    products = np.multiply.outer(xhat, xhat) / token.shape[0]
    others = (1.0 - np.eye(token.shape[0])) @ np.diag(products)
    bracket = -products
    np.fill_diagonal(bracket, normalised.rho + others)
    return _scale_rows(bracket, scale, normalised)


# --- exact norms of the Jacobians ----------------------------------------------------------------


@_quiet
def layer_norm_jacobian_norm(x: npt.ArrayLike, gamma: npt.ArrayLike, eps: float) -> float:
    """‖J_LN(x)‖₂ exactly (beyond the paper; Lemma A.1 bounds it by ‖γ‖_∞/σ).

    x, gamma: shape (d,); eps: ε >= 0. An equality; the relative error is a few eps times d, also
    where the norm is far below ‖γ‖_∞/σ. Only below 2⁻¹⁰²² ‖γ‖_∞/σ, where ρ = ε/σ² is no normal
    number, is it not resolved: there the lower bound ρ‖γ‖_∞/2σ is returned. Errors as in
    `layer_norm`.

    Derivation. Let û = 1/√d. The Jacobian is (1/σ)D(I - ûûᵀ - (1-ρ)ŝŝᵀ) with D = Diag(γ), and û
    and ŝ are orthogonal, so JJᵀ = (1/σ²)[D² - γγᵀ/d - (1-ρ²)(γ⊙ŝ)(γ⊙ŝ)ᵀ]. A number λ that is no
    t_i = γ_i² is an eigenvalue of the bracket iff the 2×2 matrix W⁻¹ - UᵀD(D²-λ)⁻¹DU is singular,
    where U = (û, ŝ), W = Diag(1, 1-ρ²). As UᵀU = I this matrix is λH + Diag(0, ρ²/(1-ρ²)) with
    H = Uᵀ(λ-D²)⁻¹U, and by the identity of Lagrange det H is a sum over pairs, which gives the
    secular equation, with weights w_i = 1/(λ-t_i),

        (1-ρ²) λ Σ_{i<j} w_i w_j (ŝ_i - ŝ_j)² + ρ² Σ_i w_i = 0.

    It contains only differences of entries of x, and no difference of large numbers once the
    weights with λ < t_i are moved to the other side. Number the entries so that t_1 >= t_2 >= ...;
    by interlacing the largest root, (σ‖J‖)², lies in [t_3, t_1] (t_3 = 0 for d = 2). By
    Sylvester's law of inertia it exceeds λ iff

      for λ in (t_2, t_1):  (t_1-λ)[(1-ρ²)λC + ρ²E] > (1-ρ²)λA + ρ², where over i, j >= 2
                            E = Σ w_j, A = Σ w_j(ŝ_1-ŝ_j)², C = E Σ w_j(ŝ_j-s̄)², s̄ = Σ w_jŝ_j/E;
      for λ in (t_3, t_2]:  ΔKΔ has an eigenvalue >= (1-ρ²)(ŝ_1-ŝ_2)², where
                            Δ = Diag(√(t_1-λ), √(t_2-λ)) and K is the 2×2 matrix
                            (1-ρ²) Σ_{j>=3} w_j v_jv_jᵀ + (ρ²/λ) (1,-1)ᵀ(1,-1),
                            v_j = (ŝ_2-ŝ_j, ŝ_j-ŝ_1)ᵀ.

    The quotient of the two sides falls at least as fast as 1/λ, so bisection for √λ over the
    floats finds the root as accurately as the sums are computed.
    """
    token = as_real_array(x, "x", ndim=1)
    scale = _as_parameter(gamma, "gamma", token)
    _, normalised = _centre_and_normalise(token, eps)
    if token.size == 1:
        return 0.0
    magnitudes, exponent, order = _descending_magnitudes(scale)
    rho, signal = float(normalised.rho[0]), float(normalised.signal[0])

    # Differences of entries of ŝ, taken from x itself: those of x̂ would carry the mean's error.
    aligned = np.ldexp(token, -(normalised.shift + normalised.sigma_exponent))[order]
    length = _length(normalised.direction)
    from_first = (aligned - aligned[0]) / length
    from_second = (aligned - aligned[1]) / length

    root = _bisect_root(
        lambda s: _layer_norm_root_exceeds(s, magnitudes, from_first, from_second, rho, signal),
        # With P = I - 11ᵀ/d, (σ‖J‖)² = ‖D(P - (1-ρ²)ŝŝᵀ)D‖ >= ρ²‖DPD‖ >= ρ²‖γ‖_∞²/2.
        lower=max(magnitudes[2] if token.size > 2 else 0.0, 0.5 * rho * magnitudes[0]),
        upper=magnitudes[0],
    )
    return _over_sigma(root, exponent, normalised)


@_quiet
def layer_norm_lipschitz(gamma: npt.ArrayLike, eps: float) -> float:
    """Lip(LN) = ‖Diag(γ)(I - 11ᵀ/d)‖₂/√ε over all of R^d, exactly (beyond the paper).

    gamma: shape (d,); eps: ε > 0. An equality, where Lemma A.1 has the upper bound ‖γ‖_∞/√ε. The
    two agree iff d >= 2 and the largest |γ_i| occurs twice, or γ = 0; d = 1 gives 0. The constant
    is the norm of the Jacobian at any constant token, which is the largest of all: there σ is
    smallest, √ε, and ρ = 1, so nothing but the mean is projected out.

    Raises ValueError for eps = 0, where no finite constant exists, and for eps < 0; otherwise as
    `as_real_array` does.
    """
    scale = as_real_array(gamma, "gamma", ndim=1)
    _require_positive_eps(eps, "LayerNorm")
    return layer_norm_jacobian_norm(np.zeros_like(scale), scale, eps)


@_quiet
def rms_norm_jacobian_norm(x: npt.ArrayLike, gamma: npt.ArrayLike, eps: float) -> float:
    """‖J_RMS(x)‖₂ exactly (beyond the paper); at most ‖γ‖_∞/σ.

    x, gamma: shape (d,); eps: ε >= 0. An equality; the relative error is a few eps times d, also
    where the norm is far below ‖γ‖_∞/σ. Errors as in `rms_norm`.

    Derivation. JJᵀ = (1/σ²)[D² - (1-ρ²)(γ⊙ŝ)(γ⊙ŝ)ᵀ], a single change of rank one. As in
    `layer_norm_jacobian_norm`, with t_i = γ_i² in descending order and w_i = 1/(λ-t_i), its
    eigenvalues other than the t_i solve (1-ρ²) λ Σ_i w_i ŝ_i² + ρ² = 0. The largest, (σ‖J‖)², lies
    in [t_2, t_1] (t_2 = 0 for d = 1), and in there it exceeds λ iff
    (t_1-λ)[(1-ρ²) λ Σ_{i>=2} w_i ŝ_i² + ρ²] > (1-ρ²) λ ŝ_1².
    """
    token = as_real_array(x, "x", ndim=1)
    scale = _as_parameter(gamma, "gamma", token)
    normalised = _normalise_raw(token, eps)
    magnitudes, exponent, order = _descending_magnitudes(scale)
    rho, signal = float(normalised.rho[0]), float(normalised.signal[0])
    unit = normalised.direction[order] / _length(normalised.direction)
    root = _bisect_root(
        lambda s: _rms_norm_root_exceeds(s, magnitudes, unit, rho, signal),
        # I - (1-ρ)ŝŝᵀ >= ρI gives σ‖J‖ >= ρ‖γ‖_∞.
        lower=max(magnitudes[1] if token.size > 1 else 0.0, rho * magnitudes[0]),
        upper=magnitudes[0],
    )
    return _over_sigma(root, exponent, normalised)


@_quiet
def rms_norm_lipschitz(gamma: npt.ArrayLike, eps: float) -> float:
    """Lip(RMS) = ‖γ‖_∞/√ε over all of R^d, exactly (beyond the paper): attained at x = 0.

    gamma: shape (d,); eps: ε > 0. Raises ValueError for eps = 0, where no finite constant exists,
    and for eps < 0; otherwise as `as_real_array` does.
    """
    scale = as_real_array(gamma, "gamma", ndim=1)
    _require_positive_eps(eps, "RMSNorm")
    return rms_norm_jacobian_norm(np.zeros_like(scale), scale, eps)


def _layer_norm_root_exceeds(
    s: float,
    magnitudes: FloatArray,
    from_first: FloatArray,
    from_second: FloatArray,
    rho: float,
    signal: float,
) -> bool:
    """Whether σ‖J‖ > s, for s above the third magnitude and below the first.

    The inequalities of `layer_norm_jacobian_norm`, in square roots and with the weights λw_j, so
    that nothing but a left side that is too large anyway can overflow.
    """
    decay = np.sqrt(signal * (1.0 + rho))  # √(1-ρ²)
    first = _pole_distance(magnitudes[0], s)
    if s > magnitudes[1]:
        weights = np.square(_root_weights(s, magnitudes[1:]))
        total = np.sum(weights)
        mean = np.sum(weights * from_second[1:]) / total
        spread = np.sum(weights * np.square(decay * first * (from_second[1:] - mean)))
        left = total * (spread + np.square(rho * first))
        right = np.sum(weights * np.square(decay * from_first[1:])) + np.square(rho)
        return bool(left > right)

    # ΔKΔ is a sum of squares of columns, one for each j >= 3 and one for ρ. Once no entry reaches
    # the threshold, their quotients by it can be squared.
    second = _pole_distance(magnitudes[1], s)
    root_weights = decay * _root_weights(s, magnitudes[2:])
    rows = np.stack(
        [
            first * np.append(root_weights * -from_second[2:], rho),
            second * np.append(root_weights * from_first[2:], -rho),
        ]
    )
    threshold = decay * abs(from_first[1])
    if np.max(np.abs(rows)) >= threshold:
        return True
    (a, b), (_, c) = (rows / threshold) @ (rows / threshold).T
    return not (a < 1.0 and b * b < (1.0 - a) * (1.0 - c))


def _rms_norm_root_exceeds(
    s: float, magnitudes: FloatArray, unit: FloatArray, rho: float, signal: float
) -> bool:
    """Whether σ‖J‖ > s, for s above the second magnitude and below the first."""
    decay = np.sqrt(signal * (1.0 + rho))  # √(1-ρ²)
    first = _pole_distance(magnitudes[0], s)
    rest = decay * first * _root_weights(s, magnitudes[1:]) * unit[1:]
    return bool(np.sum(np.square(rest)) + np.square(rho * first) > np.square(decay * unit[0]))


def _pole_distance(magnitude: float, s: float) -> float:
    """√(t - λ)/√λ for √t = magnitude >= √λ = s."""
    return float(np.sqrt(magnitude - s) * np.sqrt(magnitude + s) / s)


def _root_weights(s: float, magnitudes: FloatArray) -> FloatArray:
    """√(λ/(λ - t)) for √λ = s > √t = magnitudes."""
    return np.sqrt(s / (s - magnitudes)) * np.sqrt(s / (s + magnitudes))


def _bisect_root(exceeds: Callable[[float], bool], lower: float, upper: float) -> float:
    """The number in [lower, upper] that `exceeds` says is above or below s, to one float.

    Bisects on the bit patterns of positive floats, which are ordered as the floats are: at most 63
    steps at any magnitude. Below the smallest normal number nothing is tried.
    """
    start = np.float64(max(lower, np.finfo(np.float64).tiny)).view(np.int64)
    end = np.float64(upper).view(np.int64)
    low, high = int(start), int(end)
    while high - low > 1:
        middle = (low + high) // 2
        if exceeds(float(np.int64(middle).view(np.float64))):
            low = middle
        else:
            high = middle
    if high == end:
        return upper
    return lower if low == start else float(np.int64(low).view(np.float64))


# --- shared steps --------------------------------------------------------------------------------


def _centre_and_normalise(tokens: FloatArray, eps: float) -> tuple[FloatArray, _Normalised]:
    """The mean, shape (..., 1), and the centred tokens over σ."""
    exponent = np.frexp(np.max(np.abs(tokens), axis=-1, keepdims=True))[1]
    # Contiguous, because NumPy sums a contiguous last axis pairwise.
    scaled = np.ldexp(np.ascontiguousarray(tokens), -exponent)
    # Offsets from the first entry make a constant token exactly 0, and keep every digit of a small
    # spread around a large mean.
    first = scaled[..., :1]
    offsets = scaled - first
    mean_offset = np.mean(offsets, axis=-1, keepdims=True)
    mean = np.ldexp(first + mean_offset, exponent)
    return mean, _normalise(offsets - mean_offset, exponent, eps, "LayerNorm of a constant token")


def _normalise_raw(tokens: FloatArray, eps: float) -> _Normalised:
    no_scale = np.zeros((*tokens.shape[:-1], 1), np.int32)
    return _normalise(np.ascontiguousarray(tokens), no_scale, eps, "RMSNorm of a zero token")


def _normalise(
    vectors: FloatArray, exponent: npt.NDArray[np.int32], eps: float, undefined: str
) -> _Normalised:
    """v = vectors · 2^exponent over σ = √(‖v‖²/d + ε)."""
    epsilon = _as_epsilon(eps)
    largest = np.max(np.abs(vectors), axis=-1, keepdims=True)
    vanishes = largest == 0.0
    own_exponent = np.frexp(largest)[1]
    direction = np.ldexp(vectors, -own_exponent)
    exponent = exponent + own_exponent
    mean_square = np.mean(np.square(direction), axis=-1, keepdims=True)

    # σ is formed in units of 2^sigma_exponent, the larger of v's and √ε's own scale.
    eps_mantissa, eps_exponent = np.frexp(epsilon)
    if epsilon == 0.0:
        if np.any(vanishes):
            token = position(first_true(vanishes[..., 0]))
            raise ValueError(f"{undefined} is undefined at eps = 0: x{token}")
        sigma_exponent = exponent
    else:
        root_exponent = (eps_exponent + 1) // 2
        sigma_exponent = np.where(vanishes, root_exponent, np.maximum(exponent, root_exponent))
    shift = exponent - sigma_exponent
    signal_part = np.ldexp(mean_square, 2 * shift)
    square = signal_part + np.ldexp(eps_mantissa, eps_exponent - 2 * sigma_exponent)
    return _Normalised(
        direction=direction,
        root=np.sqrt(square),
        shift=shift,
        sigma_exponent=sigma_exponent,
        rho=np.ldexp(eps_mantissa / square, eps_exponent - 2 * sigma_exponent),
        signal=np.ldexp(mean_square / square, 2 * shift),
    )


def _affine(normalised: _Normalised, gamma: FloatArray, beta: FloatArray) -> FloatArray:
    """γ ⊙ v/σ + β, with the sum formed in units of its larger term."""
    gamma_mantissa, gamma_exponent = np.frexp(gamma)
    beta_mantissa, beta_exponent = np.frexp(beta)
    product, exponent = np.frexp(gamma_mantissa * (normalised.direction / normalised.root))
    exponent = exponent + gamma_exponent + normalised.shift
    top = np.where(product == 0.0, beta_exponent, np.maximum(exponent, beta_exponent))
    total = np.ldexp(product, exponent - top) + np.ldexp(beta_mantissa, beta_exponent - top)
    return np.ldexp(total, top)


def _scale_rows(bracket: FloatArray, gamma: FloatArray, normalised: _Normalised) -> FloatArray:
    """(1/σ) Diag(γ) · bracket."""
    mantissa, exponent = np.frexp(gamma[:, np.newaxis])
    return np.ldexp(mantissa * bracket / normalised.root, exponent - normalised.sigma_exponent)


def _descending_magnitudes(
    gamma: FloatArray,
) -> tuple[FloatArray, int, npt.NDArray[np.intp]]:
    """|γ| in descending order over a power of two, that power's exponent, and the order."""
    order = np.argsort(-np.abs(gamma), kind="stable")
    magnitudes = np.abs(gamma)[order]
    exponent = int(np.frexp(magnitudes[0])[1])
    return np.ldexp(magnitudes, -exponent), exponent, order


def _length(direction: FloatArray) -> float:
    """‖v‖₂, or 1 for a zero vector, so that v/‖v‖ is 0 there."""
    return float(np.linalg.norm(direction)) or 1.0


def _over_sigma(root: float, exponent: int, normalised: _Normalised) -> float:
    """root · 2^exponent / σ of a single token."""
    return float(np.ldexp(root / normalised.root, exponent - normalised.sigma_exponent)[0])


def _as_parameter(value: npt.ArrayLike, name: str, tokens: FloatArray) -> FloatArray:
    parameter = as_real_array(value, name)
    if parameter.shape != tokens.shape[-1:]:
        raise ValueError(
            f"{name} has shape {parameter.shape}, x has shape {tokens.shape}: {name} must have "
            f"shape {tokens.shape[-1:]}"
        )
    return parameter


def _as_epsilon(eps: float) -> float:
    epsilon = as_real_scalar(eps, "eps")
    if epsilon < 0.0:
        raise ValueError(f"eps is {epsilon}: negative")
    return epsilon


def _require_positive_eps(eps: float, name: str) -> None:
    if _as_epsilon(eps) == 0.0:
        raise ValueError(f"{name} has no finite Lipschitz constant at eps = 0: it is infinite")
