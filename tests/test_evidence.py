"""Evidence refuses what is no evidence; the judge and derivations refute what is false."""

from __future__ import annotations

import dataclasses
import math
import random
from fractions import Fraction

import pytest
import sympy

from verify.evidence import (
    Case,
    Derivation,
    Evidence,
    Identity,
    Kind,
    Level,
    Rule,
    RuleStep,
    Tolerance,
    Verdict,
    judge,
    not_run,
)
from verify.exact import ball, precision

GOOD = {"verdict": Verdict.HOLDS, "scope": "all", "cases": 1, "relation": "observed <= bound"}
TOLERANCE = Tolerance(value=1e-12, kind="relative", reason="a few roundings")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cases": 0}, "no case"),
        ({"cases": -1}, "-1 cases"),
        ({"scope": " "}, "scope"),
        ({"relation": ""}, "relation"),
        ({"verdict": Verdict.REFUTED}, "counterexample"),
        ({"verdict": Verdict.INCONCLUSIVE}, "reason"),
        ({"verdict": Verdict.NOT_RUN, "cases": 0}, "reason"),
        ({"observed": math.nan}, "observed is NaN"),
        ({"bound": math.nan}, "bound is NaN"),
    ],
)
def test_evidence_refuses(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Evidence(**{**GOOD, **change})  # type: ignore[arg-type]


def test_evidence_has_no_truth_value_and_does_not_change() -> None:
    evidence = Evidence(**GOOD)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="four values"):
        bool(evidence)
    with pytest.raises(dataclasses.FrozenInstanceError):
        evidence.cases = 2  # type: ignore[misc]
    assert not_run("no torch").verdict is Verdict.NOT_RUN


def test_levels_are_ordered_and_fixed_by_the_kind() -> None:
    assert [kind.level for kind in Kind] == sorted(Level)
    assert Level.SAMPLED < Level.NUMERIC < Level.EXHAUSTIVE < Level.CERTIFIED < Level.SYMBOLIC
    assert Level.SYMBOLIC < Level.PROVED
    assert [kind for kind in Kind if kind.is_exact] == [
        Kind.ENUMERATION,
        Kind.CERTIFICATE,
        Kind.DERIVATION,
        Kind.PROOF,
    ]


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_tolerance_is_positive_and_finite(value: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        Tolerance(value=value, kind="absolute", reason="no")


def test_a_tolerance_has_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"):
        Tolerance(value=1.0, kind="absolute", reason=" ")


# ------------------------------------------------------------------------------------ judge


def test_judge_reports_the_tightest_case() -> None:
    evidence = judge([Case(1, "<=", 5), Case(4, "<=", 5), Case(2, "<=", 5)], scope="three")
    assert evidence.verdict is Verdict.HOLDS
    assert (evidence.cases, evidence.observed, evidence.bound) == (3, 4, 5)


@pytest.mark.parametrize(
    ("relation", "holds", "fails"),
    [
        ("==", (2, 2), (2, 3)),
        ("<=", (2, 2), (3, 2)),
        ("<", (1, 2), (2, 2)),
        (">=", (2, 2), (1, 2)),
        (">", (3, 2), (2, 2)),
    ],
)
def test_judge_decides_exactly(
    relation: str, holds: tuple[int, int], fails: tuple[int, int]
) -> None:
    yes = Case(Fraction(holds[0]), relation, holds[1], "yes")  # type: ignore[arg-type]
    no = Case(fails[0], relation, Fraction(fails[1]), {"at": "no"})  # type: ignore[arg-type]
    assert judge([yes], scope="one").verdict is Verdict.HOLDS
    refuted = judge([yes, no, yes], scope="three")
    assert refuted.verdict is Verdict.REFUTED
    assert refuted.cases == 2, "the first failure ends the run"
    assert refuted.counterexample == {"at": "no"}
    assert (refuted.observed, refuted.bound) == fails


def test_judge_on_nothing_is_inconclusive() -> None:
    assert judge([], scope="nothing").verdict is Verdict.INCONCLUSIVE


def test_judge_refuses_floats_without_a_tolerance() -> None:
    with pytest.raises(TypeError, match="needs a tolerance"):
        judge([Case(1.0, "<=", 2)], scope="float")


def test_judge_is_undecided_where_balls_overlap_unless_something_fails() -> None:
    with precision(53):
        third = ball(Fraction(1, 3))
        wide = Case(third, "<=", Fraction(1, 3), "wide")
        undecided = judge([Case(0, "<=", 1), wide], scope="balls")
        assert undecided.verdict is Verdict.INCONCLUSIVE
        assert "too wide" in undecided.reason
        assert judge([wide, Case(2, "<=", 1)], scope="balls").verdict is Verdict.REFUTED
        holds = judge([Case(third, "<", Fraction(1, 2))], scope="balls")
    assert holds.verdict is Verdict.HOLDS
    assert isinstance(holds.observed, Fraction)
    assert holds.observed >= Fraction(1, 3), "the far end of the ball is reported"


def test_an_unbounded_ball_leaves_the_case_open() -> None:
    undecided = judge([Case(ball(1) / 0, "<=", 2, "1/0")], scope="balls")
    assert undecided.verdict is Verdict.INCONCLUSIVE
    assert "1/0" in undecided.reason


def test_float_cases_use_the_tolerance_in_the_right_direction() -> None:
    def verdict(case: Case) -> Verdict:
        return judge([case], scope="float", tolerance=TOLERANCE).verdict

    for relation in ("<=", "<", "=="):
        assert verdict(Case(1 + 5e-13, relation, 1.0)) is Verdict.HOLDS  # type: ignore[arg-type]
        assert verdict(Case(1 + 5e-12, relation, 1.0)) is Verdict.REFUTED  # type: ignore[arg-type]
    for relation in (">=", ">", "=="):
        assert verdict(Case(1 - 5e-13, relation, 1.0)) is Verdict.HOLDS  # type: ignore[arg-type]
        assert verdict(Case(1 - 5e-12, relation, 1.0)) is Verdict.REFUTED  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NaN"):
        verdict(Case(math.nan, "<=", 1.0))


# -------------------------------------------------------------------------------- derivation

x, y = sympy.symbols("x y", real=True)
SQUARE = Identity("square", (x + y) ** 2, x**2 + 2 * x * y + y**2)


def _spot(factor: Fraction) -> RuleStep:
    def mean_square(rng: random.Random) -> Case:
        a, b = Fraction(rng.randint(-9, 9)), Fraction(rng.randint(-9, 9))
        b = a if rng.random() < 0.3 else b
        return Case((a + b) ** 2, "<=", factor * 2 * (a * a + b * b), {"a": a, "b": b})

    return RuleStep("mean", Rule.CAUCHY_SCHWARZ, "(a+b)² <= 2(a²+b²)", mean_square)


def test_a_derivation_holds_modulo_its_rules() -> None:
    evidence = Derivation(scope="all reals", steps=(SQUARE, _spot(Fraction(1)))).evidence()
    assert evidence.verdict is Verdict.HOLDS
    assert evidence.reason == "modulo rules: CAUCHY_SCHWARZ"


def test_a_misapplied_rule_is_refuted() -> None:
    evidence = Derivation(scope="all", steps=(SQUARE, _spot(Fraction(99, 100)))).evidence()
    assert evidence.verdict is Verdict.REFUTED
    assert "mean" in evidence.reason


@pytest.mark.parametrize(
    "identity",
    [
        Identity("polynomial", (x + y) ** 2, x**2 + y**2),
        Identity("matrix", sympy.Matrix([[x, 0]]), sympy.Matrix([[x, y]])),
        Identity("root", sympy.sqrt(x**2), x),
        Identity(
            "indexed sum",
            sympy.Sum(sympy.IndexedBase("p")[sympy.Symbol("i", integer=True)], ("i", 1, 3)),
            0,
        ),
    ],
    ids=lambda identity: identity.name,
)
def test_a_false_identity_is_refuted_with_a_point(identity: Identity) -> None:
    evidence = Derivation(scope="all", steps=(identity,)).evidence()
    assert evidence.verdict is Verdict.REFUTED
    assert evidence.counterexample is not None


def test_words_in_a_free_algebra_are_compared_by_normal_form() -> None:
    a, b = sympy.symbols("a b", commutative=False)
    true = Identity("expand", (1 + a) * (1 + b), 1 + a + b + a * b)
    false = Identity("commute", a * b, b * a)
    assert Derivation(scope="words", steps=(true,)).evidence().verdict is Verdict.HOLDS
    assert Derivation(scope="words", steps=(false,)).evidence().verdict is Verdict.REFUTED


def test_an_identity_that_sympy_cannot_settle_is_inconclusive() -> None:
    # Equal, but SymPy does not see it; numerically the difference vanishes.
    angle = sympy.pi / 11
    gauss = sympy.tan(3 * angle) + 4 * sympy.sin(2 * angle)
    step = Identity("Gauss sum", gauss, sympy.sqrt(11))
    evidence = Derivation(scope="one number", steps=(step,)).evidence()
    assert evidence.verdict is Verdict.INCONCLUSIVE


def test_matrices_of_different_shape_are_an_error() -> None:
    step = Identity("shapes", sympy.eye(2), sympy.eye(3))
    with pytest.raises(ValueError, match="shapes differ"):
        Derivation(scope="all", steps=(step,)).evidence()


def test_rules_alone_prove_nothing() -> None:
    with pytest.raises(ValueError, match="at least one identity"):
        Derivation(scope="all", steps=(_spot(Fraction(1)),)).evidence()
