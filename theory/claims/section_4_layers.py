"""Section 4.2 and 4.4: the uniform constants of the LayerNorms, and what the bounds do not say."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import sympy

from theory.claims import _layernorms as norms
from theory.claims import _matrices as m
from theory.claims._constant_tokens import (
    at_constant_tokens,
    centred_vector,
    derived_factors,
    in_every_token,
)
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge

CONSTANTS = Claim(
    id="def_BLN_LLN",
    paper_ref="Section 4.2, uniform constants",
    section="4",
    statement="For a finite set of LayerNorms with ε_j > 0, B_LN = max_j(‖γ_j‖_∞ + ‖β_j‖_∞) and "
    "L_LN = max_j ‖γ_j‖_∞/√ε_j are the least numbers that bound every module's Lemma 2.4 and "
    "Lemma A.1: every output of every module has ‖LN_j(X)‖_{∞,rms} <= B_LN, and every module is "
    "L_LN-Lipschitz in the Euclidean norm of a token, so in block-∞/RMS.",
    uses=("lemma_2_4", "lemma_a_1", "corollary_a_3_norms"),
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The two maxima may belong to different modules, and the set must hold more than a "
        "layer's own: Theorem 4.4 for layer ℓ needs the last LayerNorm of layer ℓ − 1, whose "
        "output is X_ℓ. With the layer's own modules alone X_ℓ need not lie in D_B_LN.",
    ),
)
NO_SEPARATION = Claim(
    id="claim_4_2_no_sep",
    paper_ref="Section 4.2, last paragraph",
    section="4",
    statement="Theorems 4.3 and 4.4 are upper bounds and leave open which architecture's layer is "
    "more sensitive. For the block-∞/RMS Lipschitz constants of layers with equal modules (L >= 1 "
    "tokens, d >= 2, W^K = 0, γ = 1, FFN = 0, W^V W^O = wI, on the whole space) both orders occur: "
    "w = 0 makes pre-LN 1 and post-LN 1/ε, w = −1 with L = 1 makes post-LN 0, pre-LN >= 1.",
    uses=("theorem_4_3", "theorem_4_4", "def_BLN_LLN"),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="The bounds themselves are ordered. With the same constants the one of Theorem 4.3 is "
        "the smaller exactly where L_LN >= 1 (as for γ = 1 and any ε <= 1), each sublayer's factor "
        "being 1 + λa against λ + λa; but that is not the order of the sensitivities.",
    ),
)
DISCUSSION = Claim(
    id="discussion_4_4",
    paper_ref="Section 4.4",
    section="4",
    statement="The expansions of Theorems 4.5 and 4.6 leave the end-to-end Jacobian open: for "
    "every r >= 0, every depth n >= 1, every L >= 1 and d >= 2 there are a pre-LN and a post-LN "
    "stack of attention sublayers with LayerNorm and ε > 0 (equal constant tokens, W^K = 0) whose "
    "Jacobians multiply a vector that is the same centred v in every token by r^n exactly. So "
    "gradients along it may vanish, stay or grow in either architecture.",
    uses=("theorem_4_5_part_3", "theorem_4_6_part_3", "fact_ln_jacobian"),
)


# -------------------------------------------------------------------------------- constants


Module = tuple[norms.Vector, norms.Vector, Fraction]


def _modules(rng: random.Random, width: int) -> list[Module]:
    """(γ, β, ε) of one to four modules; flat γ and β are frequent."""
    modules: list[Module] = []
    for _ in range(rng.randint(1, 4)):
        gamma, beta = norms.random_gamma(rng, width), norms.random_vector(rng, width)
        if rng.random() < 0.5:
            gamma, beta = (gamma[0],) * width, (beta[0],) * width
        modules.append((gamma, beta, Fraction(1, rng.randint(1, 50))))
    return modules


@check(CONSTANTS, kind=Kind.DERIVATION, planted=Planted("the minimum over modules", largest=False))
def least_uniform_constants(profile: Profile, *, largest: bool = True) -> Derivation:
    """A maximum bounds every module and is attained by one; squares, so that no root appears."""
    pick = max if largest else min
    top, other, eps, more = sympy.symbols("G g epsilon e", positive=True)

    def magnitudes(rng: random.Random) -> Case:
        modules = _modules(rng, 2)
        bound = Fraction(pick(m.sup_norm(g) + m.sup_norm(b) for g, b, _ in modules))
        gamma, beta, _ = rng.choice(modules)
        # At σ = 1, ε = 0 the two tokens are x̂ = (±1, ∓1): one of them adds |γ| and |β| up.
        outputs = [m.token((s, -s), 1).layer_norm(gamma, beta) for s in (1, -1)]
        found = max(Fraction(entry) ** 2 for output in outputs for entry in output[:1])
        return Case(found, "<=", bound**2, {"modules": modules})

    def rates(rng: random.Random) -> Case:
        width = rng.randint(2, 4)
        modules = _modules(rng, width)
        bound = pick(Fraction(m.sup_norm(g)) ** 2 / eps for g, _, eps in modules)
        gamma, _, eps = rng.choice(modules)
        x, y = (norms.random_vector(rng, width) for _ in range(2))
        if rng.random() < 0.5:
            # Close to a constant token, where a LayerNorm is steepest.
            x = (x[0],) * width
            y = (x[0] + Fraction(1, 1000), x[0] - Fraction(1, 1000), *x[2:])
        return norms.lipschitz_case(norms.Token(x, gamma, eps), norms.Token(y, gamma, eps), bound)

    def attained(rng: random.Random) -> Case:
        # At a constant token J_LN = Diag(γ)P/√ε: with a flat γ it multiplies (1, −1) by γ/√ε.
        modules = [(Fraction(rng.randint(1, 9)), Fraction(1, rng.randint(1, 50))) for _ in range(3)]
        squares = [g**2 / eps for g, eps in modules]
        v = norms.fractions((1, -1))
        found = max(
            norms.image_squared(norms.Token((Fraction(2),) * 2, (g, g), eps), v) / eps
            for g, eps in modules
        )
        return Case(found, "==", pick(squares) * m.squared(v), {"modules": modules})

    return Derivation(
        scope="all finite sets of modules, all widths, all ε_j > 0",
        steps=(
            Identity(
                "what a larger γ and a smaller ε add to the squared rate",
                (top + other) ** 2 / eps - top**2 / (eps + more),
                (2 * top * other + other**2) / eps + top**2 * more / (eps * (eps + more)),
            ),
            RuleStep("magnitude", Rule.TERMWISE, "lemma_2_4, then the maximum", magnitudes),
            RuleStep("rate", Rule.TERMWISE, "lemma_a_1, then the maximum", rates),
            RuleStep("least", Rule.ATTAINMENT, "a module of flat γ has the rate L_LN", attained),
        ),
    )


@check(
    CONSTANTS,
    kind=Kind.CERTIFICATE,
    planted=Planted("the layer's own modules are enough for Theorem 4.4", before=False),
)
def module_before_the_layer(profile: Profile, *, before: bool = True) -> Evidence:
    """Layer ℓ − 1 ends in γ = 3 at x̂ = ±(4/5, −4/5); layer ℓ has γ = 1, and β = 0 throughout."""
    token = m.token((4, -4), 5)
    last, own = Fraction(3), Fraction(1)
    bound = max(own, last) if before else own
    state = token.layer_norm((last, last), (0, 0))
    case = Case(m.squared(state) / 2, "<=", bound**2, {"X_ℓ": state, "ε": token.eps})
    return judge([case], scope="one token of width 2, σ = 5, ε = 9")


# ------------------------------------------------------------------------------- no separation


@check(
    NO_SEPARATION,
    kind=Kind.DERIVATION,
    planted=Planted("the bounds are ordered the other way round", turned=True),
)
def bounds_against_sensitivities(profile: Profile, *, turned: bool = False) -> Derivation:
    """The difference of the bounds factors; the two examples, from LayerNorm's definition."""
    rate, mixing, feeding = sympy.symbols("lambda a f", positive=True)
    v, normalised, root_eps = derived_factors()

    def ordered(rng: random.Random) -> Case:
        r, a, f = (Fraction(rng.randint(1, 30), rng.randint(1, 20)) for _ in range(3))
        lower, upper = (1 + r * a) * (1 + r * f), r**2 * (1 + a) * (1 + f)
        if (r < 1) != turned:
            lower, upper = upper, lower
        return Case(lower, "<=", upper, {"L_LN": r, "L_MHA": a, "L_FFN": f})

    def factors(w: Fraction, length: int, root: Fraction) -> tuple[Fraction, Fraction]:
        """Largest row sum of the pre-LN layer's Jacobian, and of the post-LN layer's; FFN = 0."""
        width = 2
        pre, post = (at_constant_tokens(length, width, w, root, pre=p) for p in (True, False))
        second = at_constant_tokens(length, width, Fraction(0), root, pre=False)
        whole = m.product(second, post)
        # Width 2: P has row sums 1, so that row sums of 1 ⊗ P blocks are the block norms.
        return Fraction(m.largest_row_sum(pre)), Fraction(m.largest_row_sum(whole))

    def pre_is_smaller(rng: random.Random) -> Case:
        root = Fraction(1, rng.randint(2, 9))
        pre, post = factors(Fraction(0), rng.randint(1, 3), root)
        return Case(pre / post, "==", root**2, {"w": 0, "√ε": root})

    def post_is_smaller(rng: random.Random) -> Case:
        root = Fraction(1, rng.randint(1, 9))
        pre, post = factors(Fraction(-1), 1, root)
        return Case(int(post == 0 and pre >= 1), "==", 1, {"w": -1, "√ε": root})

    return Derivation(
        scope="all positive constants; the examples for all d >= 2 and ε in (0, 1)",
        steps=(
            Identity(
                "post minus pre",
                rate**2 * (1 + mixing) * (1 + feeding) - (1 + rate * mixing) * (1 + rate * feeding),
                (rate - 1) * (rate * (1 + mixing) + 1 + rate * feeding),
            ),
            Identity("J_LN v at a constant token", normalised, v / root_eps),
            RuleStep("order of the bounds", Rule.MONOTONICITY, "pre <= post iff λ >= 1", ordered),
            RuleStep("w = 0", Rule.ATTAINMENT, "pre-LN 1, post-LN 1/ε", pre_is_smaller),
            RuleStep("w = −1, L = 1", Rule.ATTAINMENT, "post-LN 0, pre-LN >= 1", post_is_smaller),
        ),
    )


@check(
    NO_SEPARATION,
    kind=Kind.ENUMERATION,
    planted=Planted("the smaller bound has the smaller sensitivity", agree=True),
)
def orders_on_a_grid(profile: Profile, *, agree: bool = False) -> Evidence:
    """Both orders of the block norms, each with the order of the bounds for L_LN = 1/√ε >= 1.

    One token of width 2, where block norms are absolute values: constants pass pre-LN with factor
    1, and the centred direction is multiplied by 1 + w/√ε, or by (1 + w)/ε in post-LN.
    """

    def cases() -> Iterator[Case]:
        orders = set()
        for quarters in range(-12, 13):
            w = Fraction(quarters, 4)
            for n in range(1, profile.pick(6, 20)):
                root = Fraction(1, n)
                rate, mixing = 1 / root, abs(w)
                bound_order = rate**2 * (1 + mixing) - (1 + rate * mixing)
                yield Case(bound_order, ">=", 0, {"w": w, "√ε": root})
                pre, post = max(Fraction(1), abs(1 + w / root)), abs(1 + w) / root**2
                orders.add(pre < post)
                if agree:
                    yield Case(pre, "<=", post, {"w": w, "√ε": root})
        yield Case(len(orders), "==", 2, "both orders occur")

    return judge(cases(), scope="L = 1, d = 2, w = −3, …, 3 in quarters, √ε = 1, 1/2, …; FFN = 0")


# ---------------------------------------------------------------------------------- discussion


@check(DISCUSSION, kind=Kind.DERIVATION, planted=Planted("w is 1% off", factor="0.99"))
def every_rate_in_both(profile: Profile, *, factor: str = "1") -> Derivation:
    """w = (r − 1)√ε in pre-LN and w = r√ε − 1 in post-LN, for every width at once."""
    v, normalised, root_eps = derived_factors()
    r = sympy.Symbol("r", nonnegative=True)
    scale = sympy.Rational(factor)
    before, after = scale * (r - 1) * root_eps, scale * r * root_eps - 1

    def stack(rng: random.Random, pre: bool) -> Case:
        length, width, depth = rng.randint(1, 2), rng.randint(2, 3), rng.randint(1, 3)
        rate, root = Fraction(rng.randint(0, 9), 3), Fraction(rng.randint(1, 9), 4)
        w = Fraction(factor) * (rate - 1) * root if pre else Fraction(factor) * rate * root - 1
        jacobian = at_constant_tokens(length, width, w, root, pre=pre)
        start = in_every_token(length, centred_vector(width))
        image: m.Vector = start
        for _ in range(depth):
            image = m.apply(jacobian, image)
        gap = [a - rate**depth * b for a, b in zip(image, start, strict=True)]
        return Case(m.sup_norm(gap), "==", 0, {"r": rate, "n": depth, "√ε": root})

    return Derivation(
        scope="all r >= 0, n >= 1, L >= 1, d >= 2, ε > 0",
        steps=(
            Identity("pre-LN", v + before * normalised, r * v),
            Identity("post-LN", normalised + after * normalised, r * v),
            RuleStep("pre-LN, n sublayers", Rule.INDUCTION, "r^n v", lambda rng: stack(rng, True)),
            RuleStep(
                "post-LN, n sublayers", Rule.INDUCTION, "r^n v", lambda rng: stack(rng, False)
            ),
        ),
    )


@check(
    DISCUSSION,
    kind=Kind.ENUMERATION,
    planted=Planted("a pre-LN stack keeps every centred gradient alive", least=1),
)
def vanish_stay_and_grow(profile: Profile, *, least: int = 0) -> Evidence:
    """r = 0, 1 and 2 at every small size, in both architectures, by the exact Jacobians."""
    deepest = profile.pick(4, 8)

    def cases() -> Iterator[Case]:
        for length, width, pre in itertools.product((1, 2), (2, 3), (True, False)):
            root = Fraction(1, 2)
            for rate in (0, 1, 2):
                w = (rate - 1) * root if pre else rate * root - 1
                jacobian = at_constant_tokens(length, width, w, root, pre=pre)
                start = in_every_token(length, centred_vector(width))
                image: m.Vector = start
                for depth in range(1, deepest + 1):
                    image = m.apply(jacobian, image)
                    expected = max(rate, least) ** depth * m.sup_norm(start)
                    shown = {"L": length, "d": width, "pre-LN": pre, "r": rate, "n": depth}
                    yield Case(m.sup_norm(image), "==", expected, shown)

    return judge(cases(), scope=f"L = 1, 2; d = 2, 3; r = 0, 1, 2; n <= {deepest}; √ε = 1/2")
