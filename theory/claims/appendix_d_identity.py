"""Appendix D.2: the float check of Theorem 3.2 at L = 8 and 16, both sides by enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Evidence, Kind, Tolerance, judge
from verify.exact import as_fraction

IDENTITY = Claim(
    id="identity_relerr",
    paper_ref="Section 5; Appendix D.2; Figure 2",
    section="D",
    statement="For 500 logit vectors u ~ N(0, I) at each of L = 8 and 16, in float64 and at τ = 1, "
    "‖Diag p − ppᵀ‖_{∞→1} by all sign vectors and θ(p) by all subsets agree to a relative 1e-13.",
    uses=("theorem_3_2_norm",),
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The figure holds for N(0, I) logits. For wider ones it fails by cancellation in "
        "1 − p_i and 1 − p(S), not in the theorem: the worst of 500 rows is off by more than 1e-9 "
        "at standard deviation 10 and by more than 1e-2 at 20, and at 40 some rows give θ = 0 in "
        "floats. Sums over the complement instead of 1 − q keep the error below 1e-14 at every one "
        "of these widths.",
    ),
)

VECTORS = 500
PAPER = Tolerance(
    value=1e-13,
    kind="relative",
    reason="the paper's figure; sums of at most 16² products of N(0, I) softmax rows are off by a "
    "few 1e-15",
)


def _softmax(u: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(u - u.max())
    return np.asarray(weights / weights.sum())


def _signed_sums(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """(rows, 2^n): Σ_j x_j · column_j for every sign vector x, from (rows, n)."""
    sums = np.zeros((len(columns), 1))
    for j in range(columns.shape[1]):
        column = columns[:, j : j + 1]
        sums = np.hstack([sums + column, sums - column])
    return sums


def _both_sides(p: NDArray[np.float64], complement: bool) -> tuple[float, float]:
    """(‖Diag p − ppᵀ‖_{∞→1}, θ(p)); with 1 − q, or with the sum over the complement of S.

    The left side takes all sign vectors x with x_1 = 1 (−x gives the same norm), the right side all
    subsets with the first atom.
    """
    jacobian = np.diag(p) - np.outer(p, p)
    if complement:
        others = np.array([np.delete(p, i).sum() for i in range(p.size)])
        np.fill_diagonal(jacobian, p * others)
    # The coordinates are taken in two groups, so that the arrays stay small enough for the cache.
    middle = max(1, p.size // 3)
    heads = jacobian[:, :1] + _signed_sums(jacobian[:, 1:middle])
    tails = _signed_sums(jacobian[:, middle:])
    norm = max(float(np.abs(tails + head[:, None]).sum(axis=0).max()) for head in heads.T)

    mass, outside = p[:1], np.zeros(1)
    for atom in p[1:]:
        mass, outside = np.hstack([mass + atom, mass]), np.hstack([outside, outside + atom])
    if not complement:
        outside = 1.0 - mass
    return norm, float(4.0 * (mass * outside).max())


def _cases(length: int, count: int, spread: float, complement: bool) -> Iterator[Case]:
    rng = np.random.default_rng(32)
    for _ in range(count):
        u = spread * rng.standard_normal(length)
        norm, theta = _both_sides(_softmax(u), complement)
        yield Case(norm, "==", theta, {"L": length, "logits": u.tolist()})


@check(IDENTITY, kind=Kind.FLOAT, planted=Planted("logits of standard deviation 20", spread=20.0))
def five_hundred_vectors_of_8(profile: Profile, *, spread: float = 1.0) -> Evidence:
    """The paper's procedure at L = 8."""
    cases = _cases(8, VECTORS, spread, complement=False)
    return judge(cases, scope="500 seeded N(0, I) vectors, L = 8", tolerance=PAPER)


@check(IDENTITY, kind=Kind.FLOAT, planted=Planted("logits of standard deviation 20", spread=20.0))
def five_hundred_vectors_of_16(profile: Profile, *, spread: float = 1.0) -> Evidence:
    """The paper's procedure at L = 16."""
    cases = _cases(16, VECTORS, spread, complement=False)
    return judge(cases, scope="500 seeded N(0, I) vectors, L = 16", tolerance=PAPER)


@check(IDENTITY, kind=Kind.FLOAT, planted=Planted("1 − q as the paper does", complement=False))
def complement_sums_at_every_width(profile: Profile, *, complement: bool = True) -> Evidence:
    """The same at standard deviations up to 40, where 1 − q cancels."""

    def cases() -> Iterator[Case]:
        for spread in (1.0, 10.0, 20.0, 40.0):
            yield from _cases(8, VECTORS, spread, complement)
            yield from _cases(16, profile.pick(20, VECTORS), spread, complement)

    return judge(
        cases(),
        scope="N(0, s²I) vectors, s = 1, 10, 20, 40; L = 8 and 16",
        tolerance=Tolerance(
            value=1e-14,
            kind="relative",
            reason="sums of at most 16² terms, where no cancellation loses more than the sum of "
            "|J_ij| <= 2θ has: some 32·2⁻⁵³ relatively",
        ),
    )


@check(
    IDENTITY, kind=Kind.SAMPLE, planted=Planted("complement sums lose digits too", complement=True)
)
def cancellation_at_wide_logits(profile: Profile, *, complement: bool = False) -> Evidence:
    """The finding's figures at L = 8: the worst relative error of 500 rows; rows with θ = 0."""

    def both_sides(spread: float) -> list[tuple[Fraction, Fraction]]:
        rows = _cases(8, VECTORS, spread, complement)
        return [(as_fraction(case.lhs), as_fraction(case.rhs)) for case in rows]

    def cases() -> Iterator[Case]:
        for spread, floor in ((10.0, "1e-9"), (20.0, "1e-2")):
            worst = max(abs(norm - theta) / theta for norm, theta in both_sides(spread) if theta)
            yield Case(worst, ">", Fraction(floor), {"standard deviation": spread})
        zeros = sum(theta == 0 for _, theta in both_sides(40.0))
        yield Case(zeros, ">=", 1, "rows with θ = 0 at standard deviation 40")

    return judge(cases(), scope="500 seeded N(0, s²I) vectors, s = 10, 20, 40; L = 8")
