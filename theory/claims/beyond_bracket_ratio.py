"""How far the least bound by weights can lie above the norm: a factor √(π/2) at most."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import flint
import sympy

from theory.claims._signed_rows import (
    bracket_of,
    inner,
    longest_signed_sum,
    meeting,
    polygon,
    vectors,
)
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import Ball, as_fraction, ball, precision

RATIO = Claim(
    id="beyond_bracket_ratio",
    paper_ref="beyond Section 4.1",
    section="beyond",
    statement="The least bound R is at most κ_r N, where r is the rank of an optimal Y and "
    "κ_r = √(π/r) Γ((r+1)/2)/Γ(r/2) does not decrease, from κ_1 = 1 to the limit √(π/2) = 1.2533…; "
    "for each r no smaller constant will do. Gaussian rounding y = Zg/‖Zg‖, Y = ZZᵀ, finds a "
    "direction as good as R/κ_r.",
    uses=("beyond_bracket_dual",),
)


def kappa(rank: int) -> Ball:
    """√(π/r) Γ((r+1)/2)/Γ(r/2)."""
    half = ball(Fraction(rank, 2))
    return (flint.arb.pi() / rank).sqrt() * (half + ball(Fraction(1, 2))).gamma() / half.gamma()


@check(
    RATIO,
    kind=Kind.DERIVATION,
    planted=Planted("√(2/π) is 1% larger in the Gaussian inequality", factor="1.01"),
)
def by_gaussian_rounding(profile: Profile, *, factor: str = "1") -> Derivation:
    """With g standard normal in R^r and Y = ZZᵀ optimal:

    E f(Zg) = Σ_j E‖M_j Zg‖ >= √(2/π) Σ_j √⟨M_jᵀM_j, Y⟩ = √(2/π) R, because for a Gaussian vector h
    with covariance of eigenvalues λ the number E‖h‖ = E√(Σ λ_i g_i²) is concave in λ, so that among
    all λ with the same sum it is least at a vertex, where it is √(2/π)·√(Σ λ_i). And
    f(Zg) <= N‖Zg‖, while E‖Zg‖ is concave and symmetric in the eigenvalues of Y, so that among
    the Y of rank r it is largest at I_r/r, with the value √(2/r) Γ((r+1)/2)/Γ(r/2), which
    therefore does not decrease in r and is at most (E‖Zg‖²)^{1/2} = 1. So R <= κ_r N.
    """
    scale = ball(Fraction(factor))
    t, angle, r = sympy.symbols("t varphi r", positive=True)
    density = sympy.exp(-(t**2) / 2)

    def plane(p: Fraction) -> Ball:
        """E√(p g_1² + (1−p) g_2²) for p >= 1/2, by a complete elliptic integral."""
        modulus = flint.acb(ball(1 - (1 - p) / p)).elliptic_e().real
        return (flint.arb.pi() / 2).sqrt() * 2 / flint.arb.pi() * ball(p).sqrt() * modulus

    def vertex(rng: random.Random) -> Case:
        # Close to the vertex p = 1, where the inequality is an equality.
        p = 1 - Fraction(1, rng.choice((2, 3, 10, 10**4, 10**8)))
        bound = scale * (2 / flint.arb.pi()).sqrt()
        with precision(100):
            return Case(plane(p), ">=", bound, {"λ": (p, 1 - p)})

    def centre(rng: random.Random) -> Case:
        p = Fraction(1, 2) + Fraction(rng.randint(1, 49), 100)
        return Case(plane(p), "<=", plane(Fraction(1, 2)), {"λ": (p, 1 - p)})

    def rounding(rng: random.Random) -> Case:
        blocks = vectors(rng, rng.randint(2, 5), rng.randint(1, 3))
        found, out = meeting(tuple(blocks)), longest_signed_sum(blocks)
        width = len(blocks[0])
        value = ball(as_fraction(found.relaxation)) * ball(width).sqrt()
        return Case(value, "<=", kappa(width) * ball(inner(out, out)).sqrt() * 1.000001, blocks)

    return Derivation(
        scope="all L, D, E and all blocks",
        steps=(
            Identity(
                "E|g|",
                sympy.integrate(2 * t * density, (t, 0, sympy.oo)) / sympy.sqrt(2 * sympy.pi),
                sympy.sqrt(2 / sympy.pi),
            ),
            *(
                Identity(
                    f"E‖g‖ in R^{size}",
                    sympy.integrate(t**size * density, (t, 0, sympy.oo))
                    / sympy.integrate(t ** (size - 1) * density, (t, 0, sympy.oo)),
                    sympy.sqrt(2)
                    * sympy.gamma(sympy.Rational(size + 1, 2))
                    / sympy.gamma(sympy.Rational(size, 2)),
                )
                for size in (1, 2, 3, 4, 5, 6)
            ),
            Identity(
                "a square root is concave: its second derivative along a line",
                sympy.diff(sympy.sqrt(r + t * angle), t, 2),
                -(angle**2) / (4 * (r + t * angle) ** sympy.Rational(3, 2)),
            ),
            RuleStep("blocks", Rule.CONVEX_VERTEX, "E‖h‖ >= √(2/π) √(Σ λ_i)", vertex),
            RuleStep(
                "lengths", Rule.CONVEX_COMBINATION, "E√(Σ λ_i g_i²) is largest at equal λ", centre
            ),
            RuleStep("some g", Rule.EXPECTATION, "f(Zg)/‖Zg‖ >= R/κ_r for some g", rounding),
        ),
    )


@check(
    RATIO,
    kind=Kind.CERTIFICATE,
    planted=Planted("κ_r is 1% smaller", factor="0.99"),
)
def against_exact_norms(profile: Profile, *, factor: str = "1") -> Evidence:
    """Proved bounds of the relaxation against the exact N: rank 1, polygons, integer blocks."""
    scale = ball(Fraction(factor))
    rng = random.Random(43)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(25, 300)):
            yield from compared(vectors(rng, rng.randint(1, 6), rng.randint(1, 3)))
        for sides in (2, 3, 6, 10):
            yield from compared(polygon(sides))

    def compared(blocks: Sequence[Sequence[Fraction | int]]) -> Iterator[Case]:
        width, out, found = len(blocks[0]), longest_signed_sum(blocks), bracket_of(blocks)
        # Proved ends are a few units wide; at rank 1 the inequality is an equality.
        norm = (ball(inner(out, out)) / width).sqrt() * ball(1 + Fraction(1, 10**9))
        for end in (found.relaxation, found.upper):
            yield Case(ball(as_fraction(end)), "<=", scale * kappa(width) * norm, {"M": blocks})

    with precision(100):
        return judge(cases(), scope="random integer blocks (1, E), E <= 3, and regular polygons")


@check(
    RATIO,
    kind=Kind.CERTIFICATE,
    planted=Planted("a constant 1% smaller than κ_r will do", factor="0.99"),
)
def no_smaller_constant(profile: Profile, *, factor: str = "1") -> Evidence:
    """Directions spread evenly: N by its closed form, R from below by Y = I/r.

    In the plane, n directions at the angles πk/n have N = 1/sin(π/2n) and R >= n/√2, a ratio that
    increases to κ_2. In R^r, with all directions, N is the mean E|u_1| and R >= 1/√r: κ_r exactly.
    """
    scale = ball(Fraction(factor))

    def cases() -> Iterator[Case]:
        pi = flint.arb.pi()
        for sides in (2, 3, 4, 5, 8):
            out = longest_signed_sum(polygon(sides))
            length, closed = ball(inner(out, out)).sqrt(), 1 / (pi / (2 * sides)).sin()
            yield Case(abs(length - closed), "<=", ball(Fraction(1, 10**12)), {"n": sides})
        for sides in (50, 1000, 10**6):
            ratio = sides * (pi / (2 * sides)).sin() / ball(2).sqrt()
            yield Case(ratio, "<=", scale * kappa(2), {"n": sides})
            yield Case(kappa(2) - ratio, "<=", ball(Fraction(1, sides)), {"n": sides})
        for rank in range(1, profile.pick(60, 400)):
            # κ_r κ_{r+1} = (π/2) √(r/(r+1)) ties the two ends of every step together.
            yield Case(kappa(rank), "<", kappa(rank + 1), {"r": rank})
            yield Case(kappa(rank), "<", (pi / 2).sqrt(), {"r": rank})
            deficit = (pi / 2).sqrt() - kappa(rank)
            yield Case(deficit, "<=", ball(Fraction(1, 2 * rank)), {"r": rank})

    with precision(100):
        return judge(cases(), scope="polygons of up to 10^6 directions; ranks up to 60 (full: 400)")


@check(
    RATIO,
    kind=Kind.DERIVATION,
    planted=Planted("the mean of |u_1| is 1% larger", factor="1.01"),
)
def directions_spread_over_the_sphere(profile: Profile, *, factor: str = "1") -> Derivation:
    """Blocks u_jᵀ for all unit vectors u of R^r: f is constant, and R/N = κ_r.

    N is the mean of |u_1|, the integral of |cos φ| sin^{r−2} φ over that of sin^{r−2} φ. Finitely
    many directions come as close as one likes.
    """
    angle = sympy.Symbol("varphi", positive=True)
    r = sympy.Symbol("r", positive=True)
    one_side = sympy.Rational(factor) * 2 / (r - 1)
    whole = sympy.sqrt(sympy.pi) * sympy.gamma((r - 1) / 2) / sympy.gamma(r / 2)
    constant = sympy.sqrt(sympy.pi / r) * sympy.gamma((r + 1) / 2) / sympy.gamma(r / 2)

    def cap(size: int) -> sympy.Expr:
        powers = sympy.cos(angle) * sympy.sin(angle) ** (size - 2)
        return 2 * sympy.integrate(powers, (angle, 0, sympy.pi / 2))

    def at_the_centre(rng: random.Random) -> Case:
        """Y = I/r gives √(1/r) for every unit vector."""
        turns = ((3, 4, 5), (5, 12, 13), (8, 15, 17), (0, 1, 1))
        first, second, length = rng.choice(turns)
        unit = (Fraction(first, length), Fraction(second, length))
        return Case(inner(unit, unit) / 2, "==", Fraction(1, 2), {"u": unit})

    return Derivation(
        scope="all r >= 2 (the integrals of powers of the sine at r = 2, …, 6)",
        steps=(
            *(
                Identity(f"∫|cos φ| sin^{size - 2} φ", cap(size), one_side.subs(r, size))
                for size in (2, 3, 4, 5, 6)
            ),
            *(
                Identity(
                    f"∫ sin^{size - 2} φ",
                    sympy.integrate(sympy.sin(angle) ** (size - 2), (angle, 0, sympy.pi)),
                    whole.subs(r, size),
                )
                for size in (2, 3, 4, 5, 6)
            ),
            RuleStep("R", Rule.ATTAINMENT, "Σ_j √⟨u_ju_jᵀ, I/r⟩ = L/√r <= R", at_the_centre),
            Identity("R/N", sympy.gammasimp(whole / (one_side * sympy.sqrt(r)) / constant), 1),
        ),
    )
