"""Beyond the paper: at every p the same-norm values of J are at most half the cross-norm value."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _instances as exact
from theory.claims._matrices import spectral_at_least, spectral_at_most
from theory.claims.remark_b_2 import column_sum_norm, power_sum, row_sum_norm
from theory.derivations import tilt
from theory.derivations.balanced_mass import bisection
from theory.derivations.layernorm import coordinate_sum
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import (
    Case,
    Derivation,
    Evidence,
    Identity,
    Kind,
    Relation,
    Rule,
    RuleStep,
    judge,
)
from verify.exact import as_fraction

ORDER = Claim(
    id="beyond_norm_ordering",
    paper_ref="beyond Remark B.2",
    section="beyond",
    statement="For every L >= 1, u in R^L, τ > 0 and r in [1, ∞], with p = s_τ(u), ‖J_τ(u)‖_{r→r} "
    "<= θ(p)/(2τ) = ½‖J_τ(u)‖_{∞→1}. Equality holds for every r and u at L = 2, and for r = 1 and "
    "r = ∞ wherever some p_i >= 1/2.",
    uses=("theorem_3_2_norm", "corollary_3_4_part_3"),
)


@check(ORDER, kind=Kind.DERIVATION, planted=Planted("θ/2 is 1% smaller", half="0.495"))
def derived_by_interpolation(profile: Profile, *, half: str = "1/2") -> Derivation:
    """Images of J sum to zero, so their largest entry is at most half their ℓ1 norm.

    *Proof.* The entries of y = Jx sum to (α − α·Σp_i)/τ = 0. Hence y_i = −Σ_{j≠i} y_j, so |y_i| <=
    Σ_{j≠i}|y_j|, that is 2‖y‖_∞ <= ‖y‖₁; with the supremum over ‖x‖_∞ <= 1 this is ‖J‖_{∞→∞} <=
    ½‖J‖_{∞→1} = θ(p)/(2τ) by Theorem 3.2. (It can be read off as well: ‖J‖_{∞→∞} = max 2p_i(1 −
    p_i)/τ, which is what the singletons contribute to the maximum over subsets in θ(p)/(2τ).) As J
    is symmetric, ‖J‖_{1→1} = ‖J‖_{∞→∞}, and Riesz–Thorin gives ‖J‖_{r→r} <= ‖J‖_{1→1}^{1/r}
    ‖J‖_{∞→∞}^{1−1/r} <= θ(p)/(2τ). At L = 2, J is p₁p₂/τ times the matrix of (1, −1), whose
    eigenvalue 2p₁p₂/τ is θ(p)/(2τ). If p_i >= 1/2, the subset {i} attains θ. ∎

    The first step uses no more than 1ᵀM = 0, and holds for every such matrix M.
    """
    bound = Fraction(half)
    p_i, x_i, slope = tilt.entry_and_slope()
    entry, value = sympy.symbols("p_j x_j", real=True)
    over_all = coordinate_sum((entry, value), {entry: sympy.Integer(1), entry * value: tilt.mean})
    y_i, others = sympy.symbols("y_i Y", real=True)
    a, b = sympy.symbols("a b", positive=True)
    two = sympy.Matrix([[a * b, -a * b], [-a * b, a * b]]) / (a + b) ** 2
    opposite = sympy.Matrix([1, -1])

    def zero_column_sums(rng: random.Random) -> tuple[tuple[Fraction, ...], ...]:
        rows, columns = rng.randint(1, 4), rng.randint(1, 4)
        free = [[exact.random_rational(rng, 4) for _ in range(columns)] for _ in range(rows)]
        last = [-sum((row[j] for row in free), Fraction(0)) for j in range(columns)]
        return tuple(tuple(row) for row in [*free, last])

    def half_of_cross_norm(rng: random.Random) -> Case:
        matrix = zero_column_sums(rng)
        allowed = bound * exact.inf_to_one_norm(matrix)
        return Case(row_sum_norm(matrix), "<=", allowed, {"M": matrix})

    def draw(rng: random.Random) -> tuple[exact.Distribution, exact.Matrix, Fraction]:
        # Often L = 2, where equality holds for every r.
        p = exact.random_distribution(rng, rng.choice((1, 2, 2, 3, 4, 5, 6)))
        temperature = Fraction(rng.randint(1, 9), rng.randint(1, 9))
        allowed = bound * exact.theta_by_definition(p) / temperature
        return p, exact.jacobian(p, temperature), allowed

    def infinity(rng: random.Random) -> Case:
        p, matrix, allowed = draw(rng)
        return Case(row_sum_norm(matrix), "<=", allowed, {"p": p})

    def one(rng: random.Random) -> Case:
        p, matrix, allowed = draw(rng)
        return Case(column_sum_norm(matrix), "<=", allowed, {"p": p})

    def dominated(rng: random.Random) -> Case:
        p = exact.dominant_row(rng, Fraction(rng.randint(10, 20), 20))
        allowed = bound * exact.theta_by_definition(p)
        return Case(row_sum_norm(exact.jacobian(p)), "==", allowed, {"p": p})

    def between(rng: random.Random) -> Case:
        p, matrix, allowed = draw(rng)
        exponent = rng.choice((2, 3, 4, 7))
        x = [Fraction((-1) ** k * rng.choice((1, 1, 2))) for k in range(len(p))]
        image = power_sum(exact.times(matrix, x), exponent)
        return Case(image, "<=", allowed**exponent * power_sum(x, exponent), {"p": p, "x": x})

    return Derivation(
        scope="all L, all u, all τ > 0, all r in [1, ∞]",
        steps=(
            Identity(
                "Σ(Jx)_j, summed with Σp_j = 1 and Σp_j x_j = α",
                over_all(slope.subs({p_i: entry, x_i: value})),
                0,
            ),
            Identity(
                "2y_i = y_i − Y where Y = Σ over j ≠ i of y_j = −y_i",
                2 * y_i,
                (y_i - others).subs(others, -y_i),
            ),
            RuleStep(
                "half", Rule.TRIANGLE_INEQUALITY, "‖M‖_{∞→∞} <= ½‖M‖_{∞→1}", half_of_cross_norm
            ),
            RuleStep("r = ∞", Rule.TRANSITIVITY, "‖J‖_{∞→∞} <= θ/(2τ), by theorem_3_2", infinity),
            RuleStep("r = 1", Rule.DUALITY, "‖J‖_{1→1} = ‖Jᵀ‖_{∞→∞}, and J = Jᵀ", one),
            RuleStep("between", Rule.RIESZ_THORIN, "‖J‖_{r→r} <= θ/(2τ)", between),
            Identity(
                "L = 2 with weights a and b: the eigenvalue of (1, −1) is θ/2",
                two * opposite,
                sympy.Rational(1, 2) * bisection(a, b) * opposite,
            ),
            RuleStep(
                "p_i >= 1/2",
                Rule.ATTAINMENT,
                "row i has ℓ1 norm 2p_i(1 − p_i)/τ = θ/(2τ), by corollary_3_4_part_3",
                dominated,
            ),
        ),
    )


@check(ORDER, kind=Kind.ENUMERATION, planted=Planted("θ/2 is 1% smaller", half="0.495"))
def every_small_integer_row(profile: Profile, *, half: str = "1/2") -> Evidence:
    """r = 1, 2 and ∞ exactly, with θ by all subsets and the norms from the matrix alone."""
    sizes = profile.pick(
        ((1, 6), (2, 15), (3, 8), (4, 5), (5, 4), (6, 2)),
        ((1, 30), (2, 30), (3, 16), (4, 9), (5, 6), (6, 4), (7, 3)),
    )

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                p = exact.normalised(weights)
                matrix = exact.jacobian(p)
                bound = Fraction(half) * exact.theta_by_definition(p)
                instance = {"weights": weights}
                relation: Relation = "==" if 2 * max(p) >= 1 else "<="
                yield Case(row_sum_norm(matrix), relation, bound, instance)
                yield Case(column_sum_norm(matrix), relation, bound, instance)
                yield spectral_at_most(matrix, bound**2, instance)
                if length == 2:
                    yield spectral_at_least(matrix, bound**2, instance)

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer weight vector up to order, {shown}; τ = 1")


@check(ORDER, kind=Kind.CERTIFICATE, planted=Planted("θ/2 is 1% smaller", half="0.495"))
def solver_on_float_rows(profile: Profile, *, half: str = "1/2") -> Evidence:
    """Float rows read as dyadic rationals: the solver's upper bound on θ against exact norms."""
    from theory.theta import solve_theta

    rng = random.Random(23)

    def cases() -> Iterator[Case]:
        for row in exact.float_rows(rng, profile.pick(60, 600), longest=8):
            p = exact.normalised([as_fraction(entry) for entry in row])
            matrix = exact.jacobian(p)
            bound = Fraction(half) * solve_theta(row).upper
            yield Case(row_sum_norm(matrix), "<=", bound, {"p": row})
            yield spectral_at_most(matrix, bound**2, {"p": row})

    return judge(cases(), scope="float rows, L <= 8, with ties, zeros and subnormal tails; τ = 1")
