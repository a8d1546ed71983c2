"""Beyond Section C.2: the least Lipschitz constants of the activations of feed-forward layers.

Each of GELU, its tanh form and SiLU is x S(x) with S(x) + S(−x) = 1 and S increasing, so that its
derivative f' is at least 0 on x >= 0, and f'(x) + f'(−x) = 1. So sup |f'| is c = sup f' over
x >= 0: c is at least f'(∞) = 1, and |f'(−x)| = |1 − f'(x)| is at most 1 or c − 1. GELU'' has the
sign of 2 − x²: the largest slope is at √2. That of the others is where f'' vanishes, and is
enclosed in a ball. By the mean value theorem sup |f'| is a Lipschitz constant, and difference
quotients approach it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import flint
import sympy

from theory.activations import lipschitz_ball
from theory.claims import _ball_layers as balls
from theory.claims import _layernorms as norms
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import Ball, ball, precision

CONSTANTS = Claim(
    id="beyond_activation_constants",
    paper_ref="completes Section C.2, FFN sublayer",
    section="beyond",
    statement="The least Lipschitz constant on the reals is 1 for ReLU, ½(1 + erf 1) + e^{−1}/√π = "
    "1.128904… for GELU, attained by its slope at √2, 1.128993… for GELU's tanh form with the "
    "coefficient 0.044715, and 1.099839… for SiLU.",
)


@check(CONSTANTS, kind=Kind.DERIVATION, planted=Planted("GELU is steepest at 1", squared="1"))
def slopes(profile: Profile, *, squared: str = "2") -> Derivation:
    """Derivatives in closed form, their symmetry, and where GELU's is largest."""
    top = sympy.sqrt(sympy.Rational(squared))
    t = sympy.Symbol("t", real=True)
    gelu = t * (1 + sympy.erf(t / sympy.sqrt(2))) / 2
    rate, cubic = sympy.sqrt(2 / sympy.pi), sympy.Rational("0.044715")
    # tanh in exponentials, which SymPy brings over one denominator.
    gelu_tanh = t / (1 + sympy.exp(-2 * rate * (t + cubic * t**3)))
    silu = t / (1 + sympy.exp(-t))
    density = sympy.exp(-(t**2) / 2) / sympy.sqrt(2 * sympy.pi)
    largest = (1 + sympy.erf(1)) / 2 + sympy.exp(-1) / sympy.sqrt(sympy.pi)

    def symmetric(name: str, f: sympy.Expr) -> Identity:
        slope = sympy.diff(f, t)
        return Identity(f"{name}'(t) + {name}'(−t)", slope + slope.subs(t, -t), 1)

    def relu(rng: random.Random) -> Case:
        s, u = norms.random_fraction(rng), norms.random_fraction(rng)
        zero = Fraction(0)
        return Case(abs(max(s, zero) - max(u, zero)), "<=", abs(s - u), (s, u))

    return Derivation(
        scope="all real t",
        steps=(
            RuleStep("ReLU", Rule.MEAN_VALUE, "1 on either side of 0; attained on one", relu),
            Identity(
                "GELU'", sympy.diff(gelu, t), (1 + sympy.erf(t / sympy.sqrt(2))) / 2 + t * density
            ),
            Identity(
                "GELU'' has the sign of 2 − t²", sympy.diff(gelu, t, 2), density * (top**2 - t**2)
            ),
            Identity("GELU' at the largest", sympy.diff(gelu, t).subs(t, top), largest),
            symmetric("GELU", gelu),
            symmetric("tanh GELU", gelu_tanh),
            symmetric("SiLU", silu),
        ),
    )


def slope(name: str, t: Ball) -> Ball:
    """act'(t) of the three smooth activations, from closed forms."""
    if name == "silu":
        sigmoid = 1 / (1 + (-t).exp())
        return sigmoid * (1 + t * (1 - sigmoid))
    if name == "gelu":
        density = (-t * t / 2).exp() / (2 * flint.arb.pi()).sqrt()
        return (1 + (t / ball(2).sqrt()).erf()) / 2 + t * density
    rate, cubic = (2 / flint.arb.pi()).sqrt(), ball(Fraction("0.044715"))
    value = (rate * (t + cubic * t**3)).tanh()
    return (1 + value) / 2 + t * (1 - value * value) * rate * (1 + 3 * cubic * t * t) / 2


# Where the derivative is largest, to seven decimals, and the constants to six, cut off.
STEEPEST = {"gelu": "1.4142136", "gelu_tanh": "1.4185040", "silu": "2.3993573"}
STATED = {"gelu": "1.128904", "gelu_tanh": "1.128993", "silu": "1.099839"}


@check(
    CONSTANTS,
    kind=Kind.CERTIFICATE,
    planted=Planted("GELU is 1-Lipschitz, as ReLU is", constant="1"),
)
def enclosures(profile: Profile, *, constant: str | None = None) -> Evidence:
    """theory.activations' proved enclosures: as stated, attained, and not exceeded on a grid.

    As act'(t) + act'(−t) = 1, it is enough to look at t >= 0.
    """
    points = profile.pick(24 * 16, 24 * 1024)

    def cases() -> Iterator[Case]:
        for name, figure in STATED.items():
            largest = lipschitz_ball(name) if constant is None else ball(Fraction(constant))
            peak = slope(name, ball(Fraction(STEEPEST[name])))
            yield Case(peak, "<=", largest, {"activation": name, "t": STEEPEST[name]})
            yield Case(peak, ">", largest - ball(Fraction(1, 10**12)), name)
            yield Case(largest, ">", Fraction(figure), name)
            yield Case(largest, "<", Fraction(figure) + Fraction(1, 10**6), name)
            for k in range(points + 1):
                t = Fraction(24 * k, points)
                yield Case(slope(name, ball(t)), "<=", largest, {"activation": name, "t": t})
        closed = balls.gelu_lipschitz()
        yield Case(abs(closed - lipschitz_ball("gelu")), "<", Fraction(1, 10**25), "closed form")

    with precision(128):
        return judge(cases(), scope=f"GELU, tanh GELU and SiLU at {points + 1} points of [0, 24]")
