"""Section 4.1: what multi-head attention is, and the assumptions under which it is analysed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import sympy

from theory.arguments import FloatArray
from theory.attention import Attention
from theory.claims import _attention_balls as balls
from theory.claims import _instances as exact
from theory.claims import _matrices as m
from theory.derivations import softmax as symbolic
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
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
from verify.exact import as_fraction, ball, lower_end

DEFINITION = Claim(
    id="def_mha",
    paper_ref="Section 4.1, definition of MHA",
    section="4",
    statement="Head h has Q, K, V = UW^Q_h, UW^K_h, UW^V_h, A = softmax(QKᵀ/(τ√d_h)) row by row "
    "and O_h = AV; MHA(U) = [O_1 … O_H]W^O, which equals Σ_h O_h W^O_h for the row blocks W^O_h. "
    "The temperature enters A alone, as 1/τ in the exponents.",
)
ASSUMPTION = Claim(
    id="assumption_biasfree_eval_mask",
    paper_ref="Section 4.1, architectural assumptions",
    section="4",
    statement="Under a fixed mask that leaves every query a key, a row of A is a softmax over the "
    "visible keys: hidden keys have zero derivative, the Jacobian on the visible ones is (Diag p − "
    "ppᵀ)/τ, and θ of the row with its zeros is θ on the support. The absence of biases is needed: "
    "with them Theorem 4.1's formula can lie below the norm.",
    uses=("theorem_3_2_jacobian", "definition_3_1"),
    finding=Finding(
        kind=FindingKind.CAVEAT,
        text="The paper states that projections have no biases and that the mask is fixed. Left "
        "unstated: a mask must leave at least one key to every query, and must hide keys exactly; "
        "adding a large negative number to their scores only comes close. Trained models with "
        "projection biases (BERT, GPT-2, MiniLM) are not covered.",
    ),
)


# ----------------------------------------------------------------------------------- def_mha


@check(DEFINITION, kind=Kind.DERIVATION, planted=Planted("1/τ enters twice", power=2))
def blocks_and_temperature(profile: Profile, *, power: int = 1) -> Derivation:
    """The block product in noncommutative symbols, and where τ goes."""
    first, second = (sympy.symbols(f"O_{h} W_{h}", commutative=False) for h in (1, 2))
    u_i, _, p_i, _ = symbolic.split_softmax()

    def concatenated(rng: random.Random) -> Case:
        count, size = rng.randint(1, 4), rng.randint(1, 3)
        outputs = [[exact.random_rational(rng, 3) for _ in range(size)] for _ in range(count)]
        weights = [[exact.random_rational(rng, 3) for _ in range(size)] for _ in range(count)]
        joined = [[entry for block in blocks for entry in block] for blocks in (outputs, weights)]
        whole = m.dot(*joined)
        by_head = sum(map(m.dot, outputs, weights), Fraction(0))
        return Case(whole, "==", by_head, {"o": outputs, "W": weights})

    return Derivation(
        scope="all H, widths and L, all τ > 0",
        steps=(
            Identity(
                "two blocks",
                sympy.Matrix([[first[0], second[0]]]) * sympy.Matrix([first[1], second[1]]),
                sympy.Matrix([first[0] * first[1] + second[0] * second[1]]),
            ),
            RuleStep("blocks", Rule.LINEARITY, "[O_1 …]W^O = Σ O_h W^O_h", concatenated),
            Identity(
                "a score's derivative brings one factor 1/τ",
                sympy.diff(p_i, u_i),
                p_i * (1 - p_i) / symbolic.tau**power,
            ),
        ),
    )


REFERENCE = Tolerance(
    value=1e-12,
    kind="relative",
    reason="both sides are the same sums of at most 40 products in another order, behind exponents "
    "below 100 in size, which amplify their roundings by as much: 100·40 eps = 1e-12",
)


@check(DEFINITION, kind=Kind.FLOAT, planted=Planted("τ is dropped", temperature=1.0))
def token_by_token(profile: Profile, *, temperature: float | None = None) -> Evidence:
    """theory.attention.Attention against the definition, one scalar product at a time."""
    rng = np.random.default_rng(4100)

    def cases() -> Iterator[Case]:
        for _ in range(profile.pick(20, 300)):
            H, L, D, K, V = (int(rng.integers(1, 5)) for _ in range(5))
            tau = float(rng.choice((0.3, 0.5, 2.0, 3.0)))
            module = Attention(
                query_HDK=rng.normal(size=(H, D, K)),
                key_GDK=rng.normal(size=(H, D, K)),
                value_GDV=rng.normal(size=(H, D, V)),
                output_HVE=rng.normal(size=(H, V, D)),
                tau=tau,
            )
            U = rng.normal(size=(L, D))
            ours = module(U)
            reference = _by_definition(module, U, tau if temperature is None else temperature)
            scale = float(np.max(np.abs(reference)))
            for a, b in zip(ours.flat, reference.flat, strict=True):
                # Relative to the largest entry, since entries may cancel.
                yield Case(float(a) + 2 * scale, "==", float(b) + 2 * scale, {"U": U.tolist()})

    return judge(cases(), scope="Gaussian modules, sizes up to 4", tolerance=REFERENCE)


def _by_definition(module: Attention, U: FloatArray, tau: float) -> FloatArray:
    query, key, value = module.query_HDK, module.key_GDK, module.value_GDV
    rows = []
    for u in U:
        concatenated: list[float] = []
        for h in range(len(query)):
            scores = [(u @ query[h]) @ (x @ key[h]) / (tau * np.sqrt(query.shape[2])) for x in U]
            powers = [np.exp(s - max(scores)) for s in scores]
            shares = [power / sum(powers) for power in powers]
            concatenated += sum(a * (x @ value[h]) for a, x in zip(shares, U, strict=True)).tolist()
        rows.append(np.array(concatenated) @ np.concatenate(list(module.output_HVE)))
    return np.array(rows)


# -------------------------------------------------------------------------------- assumption


@check(
    ASSUMPTION,
    kind=Kind.DERIVATION,
    planted=Planted("the hidden key is not hidden but far below", shown=1),
)
def softmax_over_visible_keys(profile: Profile, *, shown: int = 0) -> Derivation:
    """One hidden key u_m beside two visible ones and the rest."""
    u_i, u_k, u_m, rest = sympy.symbols("u_i u_k u_m R", positive=True)
    tau = symbolic.tau
    total = sympy.exp(u_i / tau) + sympy.exp(u_k / tau) + rest + shown * sympy.exp((u_m - 30) / tau)
    p_i, p_k = sympy.exp(u_i / tau) / total, sympy.exp(u_k / tau) / total

    def support(rng: random.Random) -> Case:
        p = exact.random_distribution(rng, rng.randint(1, 6))
        on_support = tuple(a for a in p if a > 0)
        return Case(
            exact.theta_by_definition(p), "==", exact.theta_by_definition(on_support), {"p": p}
        )

    return Derivation(
        scope="all L, all masks with a visible key, all τ > 0",
        steps=(
            Identity("hidden keys do not act", sympy.diff(p_i, u_m), 0),
            Identity("diagonal", sympy.diff(p_i, u_i), (p_i - p_i**2) / tau),
            Identity("off the diagonal", sympy.diff(p_i, u_k), -p_i * p_k / tau),
            Identity("the visible probabilities sum to 1", p_i + p_k + rest / total, 1),
            RuleStep("θ", Rule.DEFINITION, "zeros change no subset mass", support),
        ),
    )


@check(
    ASSUMPTION, kind=Kind.ENUMERATION, planted=Planted("a mass of 1/100 is hidden", hidden="1/100")
)
def zeros_do_not_change_theta(profile: Profile, *, hidden: str = "0") -> Evidence:
    """θ of every small row with a hidden key against θ of its visible part."""
    mass = Fraction(hidden)
    sizes = profile.pick(
        ((1, 6), (2, 6), (3, 5), (4, 3)), ((1, 20), (2, 15), (3, 10), (4, 6), (5, 4))
    )

    def cases() -> Iterator[Case]:
        for length, largest in sizes:
            for weights in exact.sorted_weight_vectors(length, largest):
                visible = exact.normalised(weights)
                row = (*((1 - mass) * a for a in visible), mass)
                expected = exact.theta_by_definition(visible)
                yield Case(exact.theta_by_definition(row), "==", expected, {"weights": weights})

    shown = ", ".join(f"L = {length}: 0..{largest}" for length, largest in sizes)
    return judge(cases(), scope=f"every integer row up to order and one hidden key, {shown}")


@check(ASSUMPTION, kind=Kind.CERTIFICATE, planted=Planted("without the bias", bias=0.0))
def a_bias_breaks_the_formula(profile: Profile, *, bias: float = 1000.0) -> Evidence:
    """Two tokens ±1/1000 of width 1 with a bias on the query: the norm in balls, by definition.

    The formula with B = 1/1000 stays near 1; the scores are ±1, and the norm is near 1.18.
    """
    one = np.ones((1, 1, 1))
    module = Attention(
        query_HDK=one, key_GDK=one, value_GDV=one, output_HVE=one, query_bias_HK=np.array([[bias]])
    )
    tokens = np.array([[0.001], [-0.001]])
    norm = sum((abs(block[0, 0]) for block in balls.row_blocks(module, tokens, 0)), ball(0))
    formula = 1 + 2 * as_fraction(0.001) ** 2
    return judge(
        [Case(lower_end(norm), ">", formula, {"U": tokens.tolist(), "b_Q": bias})],
        scope="one head of width 1, two tokens, τ = 1",
    )
