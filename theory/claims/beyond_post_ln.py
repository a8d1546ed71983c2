"""Beyond Theorem 4.6: what post-LN loses, with its proof and its limits.

The outputs of LayerNorm lie in a subspace. Σ_j x̂_j = 0 for every token. So if γ_j = 0 for some j,
coordinate j of the output is β_j whatever the token; and if no γ_j is 0, Σ_j (LN(y)_j − β_j)/γ_j =
Σ_j ŷ_j = 0. Either way the output of a post-LN stack satisfies one fixed linear equation a token,
⟨n, x_i − β⟩ = 0 with n = e_j or n = γ^{-1}, entry by entry, and its differential satisfies
(e_i⊗n)ᵀM = 0: rank M <= L(d − 1), so that M is never invertible, and gradients along e_i⊗n are lost
in the last LayerNorm. The same equation holds behind every LayerNorm of the stack.

For ε = 0 there is a second equation: Σ_j ŷ_j² = d. Its differential gives ⟨n', dx_i⟩ = 0 with
n' = γ^{-1} ⊙ ŷ, which is no multiple of γ^{-1}, as ŷ is centred and not 0. So the rank is at most
L(d − 2) where no γ_j is 0. For small ε > 0 two singular values a token are small or 0, numerically.

RMSNorm with ε > 0 and γ_j ≠ 0 has an invertible Jacobian (eigenvalues 1 and ρ > 0 before γ/σ), so
that none of this holds for it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from theory.blocks import Stack
from theory.claims import _float_layers as floats
from theory.claims import _layernorms as norms
from theory.claims import _matrices as m
from theory.claims import _stacks as stacks
from theory.claims.corollary_a_3 import block_diagonal
from theory.derivations import layernorm as symbolic
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

KERNEL = Claim(
    id="beyond_post_ln_kernel",
    paper_ref="sharpens Theorem 4.6",
    section="beyond",
    statement="Let M be the end-to-end Jacobian of a post-LN stack of one sublayer or more, with "
    "any differentiable branches, σ > 0 throughout, and γ that of its last LayerNorm. If no γ_j is "
    "0, (e_i ⊗ γ^{-1})ᵀM = 0 for every token i (γ^{-1} entry by entry); if γ_j = 0, "
    "(e_i ⊗ e_j)ᵀM = 0. So rank M <= L(d − 1) at every depth: M is never invertible. The outputs "
    "themselves satisfy Σ_j (x_ij − β_j)/γ_j = 0.",
    uses=("fact_ln_jacobian", "theorem_4_6_part_1"),
)
RANK = Claim(
    id="beyond_post_ln_rank",
    paper_ref="sharpens Theorem 4.6",
    section="beyond",
    statement="At ε = 0 in the last LayerNorm, with no γ_j = 0 and d >= 2, rank M <= L(d − 2). "
    "Both bounds are attained: for G = 0 and one sublayer the rank is L(d − 1) for ε > 0 and "
    "L(d − 2) for ε = 0. With RMSNorm, ε > 0 and no γ_j = 0 the rank Ld occurs.",
    uses=("beyond_post_ln_kernel", "beyond_rmsnorm_jacobian"),
)


def _left_vector(gamma: m.Vector) -> m.Vector:
    """γ^{-1}, or e_j for the first γ_j = 0."""
    if all(gamma):
        return [1 / Fraction(g) for g in gamma]
    return m.one_hot(list(gamma).index(0), len(gamma))


# ------------------------------------------------------------------------------------- kernel


@check(
    KERNEL,
    kind=Kind.DERIVATION,
    planted=Planted("γ in place of γ^{-1}", inverse=False),
)
def derived_from_centred_outputs(profile: Profile, *, inverse: bool = True) -> Derivation:
    """Σ_j x̂_j = 0 and its differential, at a general width; then any branch and any depth."""
    c = symbolic.direction()
    total, _, _ = symbolic.xhat_moments()

    def left(gamma: m.Vector) -> m.Vector:
        return _left_vector(gamma) if inverse else gamma

    def annihilated(rng: random.Random) -> Case:
        length, width = rng.randint(1, 3), rng.randint(1, 3)
        stack = stacks.random_stack(rng, length, width)
        v = stacks.in_token(rng.randrange(length), length, left(stack[-1].gamma))
        image = m.apply(m.transposed(stacks.post_jacobian(stack)), v)
        return Case(m.sup_norm(image), "==", 0, stacks.describe(stack))

    def outputs(rng: random.Random) -> Case:
        token = m.random_token(rng)
        width = len(token.x)
        gamma = [rng.choice((-2, -1, 1, 3)) for _ in range(width)]
        beta = [rng.randint(-3, 3) for _ in range(width)]
        output = token.layer_norm(gamma, beta)
        gaps = [a - b for a, b in zip(output, beta, strict=True)]
        return Case(m.dot(left(gamma), gaps), "==", 0, {"x": token.x, "γ": gamma, "β": beta})

    def ranks(rng: random.Random) -> Case:
        length, width = rng.randint(1, 3), rng.randint(1, 3)
        stack = stacks.random_stack(rng, length, width)
        found = stacks.rank(stacks.post_jacobian(stack))
        return Case(found, "<=", length * (width - 1), stacks.describe(stack))

    return Derivation(
        scope="all L, d >= 1, all depths >= 1, all differentiable branches; σ > 0 at every token",
        steps=(
            Identity("Σ x̂_j, from the definition", total, 0),
            Identity("Σ_j of (P − x̂x̂ᵀ/d)v", c.summed(c.image), 0),
            RuleStep("outputs", Rule.LINEARITY, "Σ_j (x_ij − β_j)/γ_j = 0", outputs),
            RuleStep(
                "left kernel", Rule.CHAIN_RULE, "(e_i⊗n)ᵀJ_LN = 0, and M = J_LN(…)", annihilated
            ),
            RuleStep("rank", Rule.DIMENSION, "L independent vectors in the left kernel", ranks),
        ),
    )


@check(KERNEL, kind=Kind.CERTIFICATE, planted=Planted("the rank may be full", full=True))
def exact_stacks(profile: Profile, *, full: bool = False) -> Evidence:
    """The left kernel and the rank of M in Fractions, zeros in γ among the draws."""
    rng = random.Random(464)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(60, 600)):
            length, width = rng.randint(1, 3), rng.randint(1, 4)
            stack = stacks.random_stack(rng, length, width)
            matrix = stacks.post_jacobian(stack)
            shown = stacks.describe(stack)
            for i in range(length):
                v = stacks.in_token(i, length, _left_vector(stack[-1].gamma))
                yield Case(m.sup_norm(m.apply(m.transposed(matrix), v)), "==", 0, shown)
            found = stacks.rank(matrix)
            if full:
                yield Case(found, "==", length * width, shown)
            yield Case(found, "<=", length * (width - 1), shown)

    return judge(cases(), scope="random stacks of 1 to 3 sublayers, L <= 3, d <= 4, any branches")


LOST = Tolerance(
    value=1e-8,
    kind="absolute",
    reason="Jacobians of size up to 1e3, each LayerNorm's with entries right to a few eps of "
    "‖γ‖_∞/σ, times γ^{-1} of size up to 1e3",
)


@check(KERNEL, kind=Kind.FLOAT, planted=Planted("in pre-LN layers as well", pre=True))
def public_vjp(profile: Profile, *, pre: bool = False) -> Evidence:
    """theory.blocks: the VJP of e_i ⊗ γ^{-1} through two post-LN layers, relative to the norm."""
    rng = np.random.default_rng(465)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(12, 200)):
            width, length = int(rng.integers(2, 5)), int(rng.integers(1, 5))
            modules = [floats.random_modules(rng, width) for _ in range(2)]
            at = Stack([part.layer(pre=pre) for part in modules]).at(
                rng.normal(size=(length, width))
            )
            inverse = 1 / modules[-1].norm2.gamma
            covector = np.zeros((length, width))
            covector[rng.integers(length)] = inverse / np.max(np.abs(inverse))
            yield Case(float(np.max(np.abs(at.vjp(covector)))), "==", 0.0, {"L": length})

    return judge(cases(), scope="two layers of two sublayers, L <= 4, d <= 4", tolerance=LOST)


# --------------------------------------------------------------------------------------- rank


@check(
    RANK, kind=Kind.DERIVATION, planted=Planted("the second equation at ε > 0 as well", eps=True)
)
def second_equation_without_eps(profile: Profile, *, eps: bool = False) -> Derivation:
    """Σ x̂_j² = d(1 − ρ) is constant for ρ = 0: ŷᵀ(P − ŷŷᵀ/d) = ρŷᵀ."""
    c = symbolic.direction()
    pairing = c.summed(c.image * c.h)
    if not eps:
        pairing = pairing.subs(c.rho, 0)

    def independent(rng: random.Random) -> Case:
        # ⟨1, x̂⟩ = 0 and x̂ ≠ 0, so that 1 and x̂ are independent.
        token = m.random_token(rng)
        found = stacks.rank([[1] * len(token.x), list(token.xhat)])
        return Case(found, "==", 1 + int(any(token.xhat)), {"x": token.x})

    def ranks(rng: random.Random) -> Case:
        length, width = rng.randint(1, 3), rng.randint(2, 4)
        before = stacks.random_stack(rng, length, width)
        last = _last_layer_norm(rng, length, width, Fraction(0))
        found = stacks.rank(m.product(last, stacks.pre_jacobian(before)))
        return Case(found, "<=", length * (width - 2), stacks.describe(before))

    return Derivation(
        scope="all L, d >= 2, all depths >= 1, all branches, ε = 0 and no constant token in the "
        "last LayerNorm",
        steps=(
            Identity("Σ_j ŷ_j ((P − ŷŷᵀ/d)v)_j", pairing, 0),
            RuleStep("two equations", Rule.SUM_OF_SQUARES, "1 and ŷ are independent", independent),
            RuleStep("rank", Rule.DIMENSION, "2L independent vectors in the left kernel", ranks),
        ),
    )


def _last_layer_norm(
    rng: random.Random, length: int, width: int, eps: Fraction, *, centred: bool = True
) -> m.Matrix:
    """Diag(σ_i ⊗ 1) times the Jacobian at tokens that are not constant; no γ_j is 0.

    The factors σ_i, mostly irrational, change no rank.
    """
    gamma = tuple(Fraction(rng.choice((-3, -1, 1, 2))) for _ in range(width))
    blocks = []
    for _ in range(length):
        x = [Fraction(rng.randint(-4, 4)) for _ in range(width - 1)]
        token = norms.Token((*x, max(x) + rng.randint(1, 3)), gamma, eps, centred)
        blocks.append(token.sigma_jacobian)
    return block_diagonal(blocks)


@check(RANK, kind=Kind.CERTIFICATE, planted=Planted("LayerNorm in place of RMSNorm", rms=False))
def ranks_of_one_sublayer(profile: Profile, *, rms: bool = True) -> Evidence:
    """G = 0: L(d − 1) with ε > 0, L(d − 2) with ε = 0, and Ld for RMSNorm with ε > 0."""
    rng = random.Random(466)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(40, 400)):
            length, width = rng.randint(1, 3), rng.randint(2, 5)
            for eps, lost in ((Fraction(1, rng.randint(1, 9)), 1), (Fraction(0), 2)):
                matrix = _last_layer_norm(rng, length, width, eps)
                shown = {"L": length, "d": width, "ε": eps}
                yield Case(stacks.rank(matrix), "==", length * (width - lost), shown)
            matrix = _last_layer_norm(rng, length, width, Fraction(1, 7), centred=not rms)
            yield Case(stacks.rank(matrix), "==", length * width, {"L": length, "d": width})

    return judge(cases(), scope="random integer tokens that are not constant, L <= 3, 2 <= d <= 5")
