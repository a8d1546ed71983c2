"""Appendix E, normalisation and residual scaling in deep transformers: what can be checked of it.

The cited papers are not part of this project. Each claim is a statement that the paper's sentence
implies, proved here from the definitions; what it leaves unchecked is said in the claim.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _layernorms as tokens
from theory.claims._matrices import dot, product, spectral_at_least, spectral_at_most, squared
from theory.derivations import layernorm as symbolic
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge
from verify.exact import ball, precision

XIONG = Claim(
    id="xiong_2020",
    paper_ref="Appendix E, on Xiong et al. (2020)",
    section="E",
    statement="In a model of the initial state (d >= 3; every branch output is centred, orthogonal "
    "to the stream that it joins and of mean square b²; x_0 is centred of mean square 1; γ = 1, "
    "β = 0, ε = 0) a pre-LN stream has mean square 1 + Nb² after N sublayers, so that the spectral "
    "norm 1/σ of a last LayerNorm's Jacobian is (1 + Nb²)^(−1/2); a post-LN stream has mean square "
    "1 throughout, and the norms of the Jacobians of its N LayerNorms multiply to (1 + b²)^(−N/2). "
    "Not checked: the cited paper's gradient bounds for random weights, and training.",
)
LIU = Claim(
    id="liu_2020",
    paper_ref="Appendix E, on Liu et al. (2020)",
    section="E",
    statement="For every d >= 1, token, γ and ε >= 0 where LayerNorm is defined, and any "
    "differentiable branch G: the gradient that a pre-LN sublayer x + G(LN(x)) passes back has the "
    "coordinate sum of the gradient that it received; the one that the LayerNorm of a post-LN "
    "sublayer LN(x + G(x)) passes back to the sum inside has coordinate sum 0. Not checked: the "
    "cited paper's account of amplification in training.",
)
WANG = Claim(
    id="wang_2022",
    paper_ref="Appendix E, on Wang et al. (2022)",
    section="E",
    statement="The sum over N layers of Theorem 4.1's bound ‖W_O‖(‖W_V‖ + c‖W_Q‖‖W_K‖‖W_V‖), with "
    "all four norms equal to β and c > 0 fixed, is N(β² + cβ⁴). At β = N^(−1/4) it is √N + c, "
    "unbounded through the value path; N^(−1/2) is the largest power of N for which it stays "
    "bounded. So the bound implies no depth exponent 1/4, as the paper says. Not checked: the "
    "cited paper's own constants and derivation.",
)


# -------------------------------------------------------------- Xiong et al.: growth of the stream


def _hadamard(order: int) -> list[tuple[int, ...]]:
    """Rows of Sylvester's matrix of size 2^order: orthogonal, centred except for the first."""
    rows: list[tuple[int, ...]] = [(1,)]
    for _ in range(order):
        rows = [row + row for row in rows] + [row + tuple(-e for e in row) for row in rows]
    return rows


def _stream_squares(directions: list[tuple[int, ...]], b: Fraction) -> Iterator[Fraction]:
    """Mean squares of a pre-LN stream that starts at one direction and gains b times the others."""
    stream = [Fraction(entry) for entry in directions[0]]
    for direction in directions[1:]:
        stream = [x + b * g for x, g in zip(stream, direction, strict=True)]
        yield squared(tokens.centre(stream)) / len(stream)


# Branch sizes b with a rational √(1 + b²), so that a post-LN stream stays rational.
_BRANCHES = {Fraction(3, 4): Fraction(5, 4), Fraction(4, 3): Fraction(5, 3)}


@check(XIONG, kind=Kind.DERIVATION, planted=Planted("the stream gains b, not b²", power=1))
def derived_one_sublayer_at_a_time(profile: Profile, *, power: int = 2) -> Derivation:
    """Pythagoras for one sublayer; then induction."""
    n, b = sympy.symbols("n b", positive=True)
    x_j, g_j = sympy.symbols("x_j g_j", real=True)
    d = symbolic.d

    def after(square: sympy.Expr) -> sympy.Expr:
        """Mean square of x + g where ‖x‖² = d·square, ‖g‖² = b²d and ⟨x, g⟩ = 0."""
        summed = symbolic.coordinate_sum(
            (x_j, g_j), {1: d, x_j**2: d * square, g_j**2: d * b**2, x_j * g_j: sympy.Integer(0)}
        )
        return summed((x_j + g_j) ** 2) / d

    gained = b**power
    once = symbolic.direction()
    twice = once.image.subs(
        {
            once.v: once.image,
            once.mean: once.summed(once.image) / d,
            once.pairing: once.summed(once.image * once.h),
        },
        simultaneous=True,
    )

    def projector(rng: random.Random) -> Case:
        x = [Fraction(rng.randint(-9, 9)) for _ in range(rng.randint(2, 5))]
        token = tokens.Token((*x, max(x) + 1), (Fraction(1),) * (len(x) + 1), Fraction(0))
        return spectral_at_least(token.sigma_jacobian, 1, token.describe())

    def pre_ln(rng: random.Random) -> Case:
        directions = _hadamard(3)[1 : rng.randint(3, 8)]
        size = Fraction(rng.randint(1, 9), rng.randint(2, 9)) + 1
        *_, last = _stream_squares(directions, size)
        expected = 1 + (len(directions) - 1) * size**power
        return Case(last, "==", expected, {"b": size, "N": len(directions) - 1})

    def post_ln(rng: random.Random) -> Case:
        size = rng.choice(list(_BRANCHES))
        count = rng.randint(1, 6)
        inverse = Fraction(1)
        for token in _post_ln_tokens(_hadamard(3)[1:], size, count):
            inverse *= token.sigma_squared
        return Case(inverse, "==", (1 + size**power) ** count, {"b": size, "N": count})

    return Derivation(
        scope="all d, all b, all N for which such branches exist (N <= d − 2 suffices)",
        steps=(
            Identity("start", after(sympy.Integer(1)), 1 + gained),
            Identity("pre-LN, from n to n + 1", after(1 + n * gained), 1 + (n + 1) * gained),
            Identity(
                "post-LN: dividing by σ = √(1 + b²) restores mean square 1",
                after(sympy.Integer(1)) / (1 + gained),
                1,
            ),
            Identity(
                "post-LN, product of the factors from n to n + 1",
                (1 + gained) ** (-n / 2) / sympy.sqrt(after(sympy.Integer(1))),
                (1 + gained) ** (-(n + 1) / 2),
            ),
            RuleStep("pre-LN", Rule.INDUCTION, "mean square 1 + Nb²", pre_ln),
            Identity("σJ_LN applied twice, ε = 0", twice.subs(once.rho, 0), once.image),
            RuleStep(
                "norms of LayerNorms",
                Rule.SPECTRAL_THEOREM,
                "σJ_LN is a symmetric projector of rank d − 2 > 0, so ‖J_LN‖₂ = 1/σ",
                projector,
            ),
            RuleStep("post-LN", Rule.INDUCTION, "the norms multiply to (1 + b²)^(−N/2)", post_ln),
        ),
    )


@check(XIONG, kind=Kind.CERTIFICATE, planted=Planted("the stream gains b, not b²", power=1))
def streams_of_hadamard_branches(profile: Profile, *, power: int = 2) -> Evidence:
    """Streams with such branches, σ and the LayerNorms' Jacobian norms in rationals."""
    order = profile.pick(3, 4)
    directions = _hadamard(order)[1:]
    width = 2**order

    def cases() -> Iterator[Case]:
        for b in _BRANCHES:
            for count, square in enumerate(_stream_squares(directions, b), start=1):
                instance = {"b": b, "N": count, "d": width}
                yield Case(square, "==", 1 + count * b**power, instance)
            # A post-LN stream beside it, with σ = √(1 + b²) at every sublayer.
            norms_squared = Fraction(1)
            for count, token in enumerate(_post_ln_tokens(directions, b, width - 2), start=1):
                instance = {"b": b, "N": count, "d": width}
                yield Case(token.sigma_squared, "==", 1 + b**power, instance)
                # σ²‖J_LN‖² = 1: the factor 1/σ is the Jacobian's norm, neither more nor less.
                yield spectral_at_most(token.sigma_jacobian, 1, instance)
                yield spectral_at_least(token.sigma_jacobian, 1, instance)
                norms_squared /= token.sigma_squared
                yield Case(norms_squared, "==", 1 / (1 + b**power) ** count, instance)

    return judge(cases(), scope=f"d = {width}, b = 3/4 and 4/3, N up to d − 2")


def _post_ln_tokens(
    directions: list[tuple[int, ...]], b: Fraction, count: int
) -> Iterator[tokens.Token]:
    """What the LayerNorms of `count` post-LN sublayers receive: a stream plus a branch."""
    stream = [Fraction(entry) for entry in directions[0]]
    for _ in range(count):
        branch = _orthogonal_branch(stream, directions, b)
        inside = tuple(x + g for x, g in zip(stream, branch, strict=True))
        token = tokens.Token(inside, (Fraction(1),) * len(inside), Fraction(0))
        yield token
        stream = [entry / _BRANCHES[b] for entry in token.numerator]


def _orthogonal_branch(
    stream: list[Fraction], directions: list[tuple[int, ...]], b: Fraction
) -> list[Fraction]:
    """b times the first direction that the stream has no part of."""
    parts = [sum((x * e for x, e in zip(stream, h, strict=True)), Fraction(0)) for h in directions]
    for part, direction in zip(parts, directions, strict=True):
        if part == 0:
            return [b * entry for entry in direction]
    raise ValueError("the stream has parts along every direction")


# --------------------------------------------------------------------- Liu et al.: gradient flow


@check(LIU, kind=Kind.DERIVATION, planted=Planted("LayerNorm without centring", centred=False))
def derived_from_shift_invariance(profile: Profile, *, centred: bool = True) -> Derivation:
    """LN(x + t1) = LN(x), so J_LN 1 = 0, and 1ᵀ reads off coordinate sums of gradients."""
    split = symbolic.split_layer_norm() if centred else symbolic.split_rms_norm()
    t = sympy.Symbol("t", real=True)

    def pre_ln(rng: random.Random) -> Case:
        token, jacobian, branch, gradient = _random_sublayer(rng, centred=centred)
        inner = product(branch, jacobian)
        passed = [g + _column_dot(inner, j, gradient) for j, g in enumerate(gradient)]
        return Case(sum(passed), "==", sum(gradient), token.describe())

    def post_ln(rng: random.Random) -> Case:
        token, jacobian, _, gradient = _random_sublayer(rng, centred=centred)
        passed = [_column_dot(jacobian, j, gradient) for j in range(token.width)]
        return Case(sum(passed), "==", 0, token.describe())

    return Derivation(
        scope="all d, all tokens with σ > 0, all γ, all differentiable branches",
        steps=(
            Identity("LN(x + t1) = LN(x)", symbolic.shifted(split, t, t), split.output),
            RuleStep("LayerNorm", Rule.CHAIN_RULE, "J_LN 1 = 0, so 1ᵀJ_LNᵀg = 0", post_ln),
            RuleStep(
                "pre-LN", Rule.CHAIN_RULE, "1ᵀ(I + J_G J_LN)ᵀg = 1ᵀg + (J_G J_LN 1)ᵀg = 1ᵀg", pre_ln
            ),
        ),
    )


def _random_sublayer(
    rng: random.Random, *, centred: bool
) -> tuple[tokens.Token, tokens.Matrix, tokens.Matrix, tokens.Vector]:
    """A token, σ times its normalisation's Jacobian, a branch's Jacobian, a gradient from above."""
    token = tokens.random_token(rng, centred=centred)
    branch = tuple(tokens.random_vector(rng, token.width) for _ in range(token.width))
    return token, token.sigma_jacobian, branch, tokens.random_vector(rng, token.width)


def _column_dot(matrix: tokens.Matrix, column: int, gradient: tokens.Vector) -> Fraction:
    """Entry `column` of Mᵀg."""
    return dot([row[column] for row in matrix], gradient)


@check(LIU, kind=Kind.ENUMERATION, planted=Planted("LayerNorm without centring", centred=False))
def every_small_token(profile: Profile, *, centred: bool = True) -> Evidence:
    """Every unit gradient through every small integer token."""
    sizes = profile.pick(((1, 3), (2, 4), (3, 3)), ((1, 9), (2, 9), (3, 6), (4, 4)))
    eps_values = (Fraction(0), Fraction(1, 4))

    def cases() -> Iterator[Case]:
        for width, largest in sizes:
            for token in tokens.all_tokens(width, largest, (-1, 0, 2), eps_values, centred=centred):
                for row in token.sigma_jacobian:
                    yield Case(sum(row, Fraction(0)), "==", 0, token.describe())

    shown = ", ".join(f"d = {width}: 0..{largest}" for width, largest in sizes)
    return judge(cases(), scope=f"integer tokens, {shown}; γ in {{−1, 0, 2}}^d; ε = 0 and 1/4")


# ------------------------------------------------------------------ Wang et al.: no exponent 1/4


@check(WANG, kind=Kind.DERIVATION, planted=Planted("the value path has one factor", degree=1))
def derived_by_counting_factors(profile: Profile, *, degree: int = 2) -> Derivation:
    """Degrees in β of the two paths, and what each leaves at β = N^(−a)."""
    count, beta, c, a = sympy.symbols("N beta c a", positive=True)
    norms = dict.fromkeys(sympy.symbols("o v q k", positive=True), beta)
    o, v, q, k = norms
    bound = o * (v + c * q * k * v)
    claimed = beta**degree + c * beta**4

    def largest_bounded_power(rng: random.Random) -> Case:
        # β = N^(−a) with N = 16^j, a = 1/4, 1/2 or 3/4: N β² is N^(1 − 2a), bounded iff a >= 1/2.
        exponent = rng.choice((1, 2, 3))
        j = rng.randint(1, 20)
        size, root = 16**j, Fraction(1, 2 ** (j * exponent))
        value_path = size * root**degree
        grows = exponent < 2
        return Case(value_path, ">" if grows else "<=", 1, {"N": size, "β": root})

    return Derivation(
        scope="all N, all β > 0, all c > 0",
        steps=(
            Identity("one layer", bound.subs(norms), claimed),
            Identity(
                "N layers at β = N^(−1/4)",
                (count * claimed).subs(beta, count ** sympy.Rational(-1, 4)),
                sympy.sqrt(count) + c,
            ),
            Identity(
                "N layers at β = N^(−a)",
                (count * claimed).subs(beta, count ** (-a)),
                count ** (1 - 2 * a) + c * count ** (1 - 4 * a),
            ),
            RuleStep(
                "boundedness",
                Rule.MONOTONICITY,
                "N^(1 − 2a) is bounded in N exactly for a >= 1/2",
                largest_bounded_power,
            ),
        ),
    )


@check(WANG, kind=Kind.CERTIFICATE, planted=Planted("β = N^(−1/2)", inverse_power=2))
def at_the_quartic_exponent(profile: Profile, *, inverse_power: int = 4) -> Evidence:
    """N(β² + cβ⁴) >= √N at β = N^(−1/4), on balls, up to a million layers."""

    def cases() -> Iterator[Case]:
        for count in (2, 3, 36, 72, 1000, 10**6):
            beta = ball(1) / ball(count).root(inverse_power)
            for c in (Fraction(1, 100), Fraction(1), Fraction(320)):
                total = count * (beta**2 + ball(c) * beta**4)
                yield Case(total, ">", ball(count).sqrt(), {"N": count, "c": c})

    with precision(200):
        return judge(cases(), scope="N = 2 … 10^6, c = 0.01, 1, 320")
