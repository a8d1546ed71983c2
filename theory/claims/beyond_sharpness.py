"""How sharp Theorem 4.1 is for one head: its attention coefficient is attained in the limit.

Take d = 4, d_h = 4 and unit vectors e_1, …: W^Q maps e_1 to f_1 and e_3 to f_2, W^K maps e_2 to f_2
and e_3 to f_1, W^V maps e_2 to g_1, W^O maps g_1 to e_1, and everything else to 0, so that all four
have norm 1. Of an odd number L of tokens one is Be_1 (the query), the others ±Be_2 in equal number.
Its scores are all 0 and its row uniform; θ = 1 − 1/L² for it and for all other rows.

The query's key slope is κBe_3 with κ = 1/(τ√d_h), its keys and values are ±Bf_2 and ±Bg_1 in
parallel, and o = 0. Moving every token ±Be_2 by ±e_3 and the query by e_3 changes every score by
±(κB + κB), so that the output moves by 2κB²(L − 1)/L along e_1. Theorem 4.1's bound is
1 + 2κB²(1 − 1/L²). The quotient tends to 1 as B and L grow: no constant below 2 would do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.attention import Attention
from theory.bounds import theorem_4_1_bound
from theory.claims import _attention_toys as toys
from theory.claims import _instances as exact
from theory.claims import _matrices as m
from theory.opnorm import block_norm_bracket
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

SHARP = Claim(
    id="beyond_sharpness",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="For one head the coefficient 2B²/√d_h of Theorem 4.1 is asymptotically sharp in the "
    "norm block-∞/RMS: there are modules with d_h = 4 and inputs with ‖D MHA(U)‖ at least "
    "(1 − 1/L)·2κB²/(1 + 2κB²) times the bound, κ = 1/(τ√d_h), for every B and odd L: near 1.",
    uses=("theorem_4_1",),
)
HEADS = Claim(
    id="beyond_sharpness_heads",
    paper_ref="beyond Theorem 4.1",
    section="beyond",
    statement="For H >= 2 heads the sum over heads is never attained where two heads have nonzero "
    "terms: √Σ_h (·)² is an upper bound too, and H equal heads with orthogonal W^O_h of equal norm "
    "attain it at U = 0, where the sum is √H times the norm.",
    uses=("theorem_4_1", "theorem_4_1_step_concat"),
)


def _query_row(length: int, reach: Fraction, kappa: Fraction) -> Fraction:
    """‖dO_i‖₂ for the direction above, all of whose rows have length 1, from the definition."""
    half = (length - 1) // 2
    signs = [0] + [1] * half + [-1] * half
    row = [Fraction(1, length)] * length
    # dq = f_2, and dk_j = ±f_1; the query's own token moves by e_3 as well, and so its key by f_1.
    moved_keys = [1, *signs[1:]]
    scores = [kappa * (reach * s + reach * dk) for s, dk in zip(signs, moved_keys, strict=True)]
    mean = m.dot(row, scores)
    moved = [a * (s - mean) for a, s in zip(row, scores, strict=True)]
    return m.dot(moved, [reach * s for s in signs])


@check(
    SHARP, kind=Kind.DERIVATION, planted=Planted("a coefficient 1% smaller bounds it", two="1.98")
)
def limit_of_the_quotient(profile: Profile, *, two: str = "2") -> Derivation:
    """The change of the output in closed form, the quotient, and its limit."""
    coefficient = sympy.Rational(two)
    s, length = sympy.symbols("s L", positive=True)
    # s = κB². θ of a uniform row of odd length is 1 − 1/L².
    norm = 2 * s * (length - 1) / length
    bound = 1 + coefficient * s * (1 - 1 / length**2)
    long_inputs = sympy.limit(norm / bound, length, sympy.oo)

    def uniform_theta(rng: random.Random) -> Case:
        odd = 2 * rng.randint(0, 5) + 1
        uniform = (Fraction(1, odd),) * odd
        return Case(exact.theta_by_definition(uniform), "==", 1 - Fraction(1, odd**2), {"L": odd})

    def from_the_definition(rng: random.Random) -> Case:
        odd = 2 * rng.randint(0, 4) + 1
        reach, kappa = Fraction(rng.randint(1, 40)), Fraction(rng.randint(1, 4), 2)
        expected = 2 * kappa * reach**2 * Fraction(odd - 1, odd)
        change = _query_row(odd, reach, kappa)
        return Case(change, "==", expected, {"L": odd, "B": reach, "κ": kappa})

    return Derivation(
        scope="all B > 0 and odd L; one head of width 4",
        steps=(
            RuleStep(
                "the direction", Rule.ATTAINMENT, "‖dO_i‖ = 2κB²(L − 1)/L", from_the_definition
            ),
            RuleStep(
                "θ of a uniform row of odd length", Rule.DEFINITION, "θ = 1 − 1/L²", uniform_theta
            ),
            Identity("the quotient for large L", long_inputs, 2 * s / (1 + 2 * s)),
            Identity(
                "its limit for large B",
                sympy.limit(long_inputs, s, sympy.oo),
                1,
            ),
        ),
    )


@check(
    SHARP,
    kind=Kind.CERTIFICATE,
    planted=Planted("99.9% of the bound are attained there", share="0.999"),
)
def at_a_large_input(profile: Profile, *, share: str = "0.99") -> Evidence:
    """L = 801 and κB² = 200: the direction moves the output by over 99% of the bound, exactly."""
    reach, kappa = Fraction(20), Fraction(1, 2)
    length = 801
    theta = 1 - Fraction(1, length**2)
    bound = Fraction(share) * (1 + 2 * kappa * reach**2 * theta)
    case = Case(_query_row(length, reach, kappa), ">", bound, {"L": length, "B": reach})
    return judge([case], scope="L = 801, B = 20, τ = 1, d_h = 4")


def _sharp_module() -> Attention:
    query, key, value, output = (np.zeros((1, 4, 4)) for _ in range(4))
    query[0, 0, 0] = query[0, 2, 1] = 1.0
    key[0, 1, 1] = key[0, 2, 0] = 1.0
    value[0, 1, 0] = output[0, 0, 0] = 1.0
    return Attention(query_HDK=query, key_GDK=key, value_GDV=value, output_HVE=output)


CERTIFIED = Tolerance(
    value=1e-15, kind="relative", reason="a certified lower bound against a share of a formula"
)


@check(SHARP, kind=Kind.FLOAT, planted=Planted("all of the bound is attained", share=1.0))
def shrunk_bound_is_violated(profile: Profile, *, share: float = 0.99) -> Evidence:
    """theory.opnorm's certified lower bound exceeds 99% of theory.bounds.theorem_4_1_bound."""
    length = profile.pick(201, 401)
    reach = 30.0
    signs = np.array([0.0] + [1.0] * (length // 2) + [-1.0] * (length // 2))
    U = np.zeros((length, 4))
    U[:, 1] = reach * signs
    U[0, 0] = reach
    module = _sharp_module()
    lower = block_norm_bracket(module.at(U), rows=[0], ratio=1.01).lower
    bound = theorem_4_1_bound(module, U).value
    case = Case(lower, ">", share * bound, {"L": length, "B": reach})
    return judge([case], scope=f"L = {length}, B = {reach:g}, τ = 1", tolerance=CERTIFIED)


# ------------------------------------------------------------------------------------- heads


def _equal_heads(rng: random.Random, heads: int, c: Fraction, v: Fraction) -> toys.ToyAttention:
    """H equal heads at U = 0, with any rows of A; ‖W^V_h‖ = v and W^O_h = c·(orthogonal)."""
    length = rng.randint(1, 3)
    turn = toys.rotation(rng)
    value = toys.NormedMatrix(
        matrix=[[v * entry for entry in row] for row in turn], norm=v, left=turn[0], right=turn[1]
    )
    head = toys.ToyHead(
        query=toys.normed_matrix(rng),
        key=toys.normed_matrix(rng),
        value=value,
        output_scale=c,
        turn=toys.rotation(rng),
        rows=toys.stochastic_rows(rng, length),
    )
    tokens = [[Fraction(0), Fraction(0)]] * length
    return toys.ToyAttention(tokens=tokens, heads=(head,) * heads, kappa=Fraction(1))


def _moved_squared(rng: random.Random, toy: toys.ToyAttention) -> Fraction:
    """‖D MHA[dU]‖²_{∞,2} where all rows of dU are one unit vector."""
    unit = rng.choice(toys.UNIT_VECTORS)
    return Fraction(m.largest_row_squared(toy.change([list(unit) for _ in toy.tokens])))


@check(HEADS, kind=Kind.DERIVATION, planted=Planted("the root is 1% smaller", factor="0.99"))
def root_of_the_sum_of_squares(profile: Profile, *, factor: str = "1") -> Derivation:
    """H equal heads at U = 0, W^O_h = cI: W^OᵀW^O = Hc² I, and the norm is Hcv = ‖W^O‖₂√Σ v²."""
    scale = Fraction(factor)
    count, size, v = sympy.symbols("H c v", positive=True)
    first, second = sympy.symbols("t_1 t_2", positive=True)
    norm = count * size * v
    root = sympy.sqrt(count * size**2) * sympy.sqrt(count * v**2)
    total = sympy.sqrt(count * size**2) * count * v

    def equal_heads(rng: random.Random) -> Case:
        heads = rng.randint(1, 4)
        c, v = (Fraction(rng.randint(1, 8), 4) for _ in range(2))
        toy = _equal_heads(rng, heads, c, v)
        bound = scale**2 * toy.output_norm_squared * heads * v**2
        return Case(_moved_squared(rng, toy), "<=", bound, {"H": heads, "c": c, "v": v})

    return Derivation(
        scope="all H, L and d; block-∞/RMS norm",
        steps=(
            Identity("the root of squares is attained", root, norm),
            Identity("the sum is √H times the norm", total, sympy.sqrt(count) * norm),
            Identity(
                "two nonzero terms: (Σ)² exceeds Σ of squares",
                (first + second) ** 2 - (first**2 + second**2),
                2 * first * second,
            ),
            RuleStep("equal heads", Rule.ATTAINMENT, "H c v against ‖W^O‖√Σ v²", equal_heads),
        ),
    )


@check(HEADS, kind=Kind.CERTIFICATE, planted=Planted("the sum is attained too", power=2))
def equal_heads_at_zero(profile: Profile, *, power: int = 1) -> Evidence:
    """At U = 0 with H equal heads, from the definition: ‖D MHA‖² against ‖W^O‖²·H·v², and H times
    as much for the square of the paper's bound."""
    rng = random.Random(4109)

    def cases() -> Iterator[Case]:
        for heads in range(2, profile.pick(6, 30)):
            for c, v in ((Fraction(1), Fraction(3)), (Fraction(1, 2), Fraction(5, 4))):
                toy, shown = _equal_heads(rng, heads, c, v), {"H": heads, "c": c, "v": v}
                norm_squared = _moved_squared(rng, toy)
                bound = toy.output_norm_squared * Fraction(heads) ** power * v**2
                yield Case(norm_squared, "==", bound, shown)
                yield Case(toy.paper_bound_squared(), "==", heads * norm_squared, shown)

    return judge(cases(), scope="H = 2, 3, …, equal heads of width 2 at U = 0")
