"""What a check hands back: a verdict with its scope, and derivations made of checkable steps."""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from verify.exact import Ball, ExactNumber, lower_end, three_valued, upper_end

if TYPE_CHECKING:
    import sympy

Relation = Literal["==", "<=", "<", ">=", ">"]
Number = ExactNumber | float


class Verdict(enum.Enum):
    """What a check found. ``INCONCLUSIVE`` is never the same as ``REFUTED``."""

    HOLDS = "HOLDS"
    REFUTED = "REFUTED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_RUN = "NOT_RUN"


class Level(enum.IntEnum):
    """Strength of evidence, weakest first. The kind of a check fixes it; no check types it."""

    SAMPLED = 1
    NUMERIC = 2
    EXHAUSTIVE = 3
    CERTIFIED = 4
    SYMBOLIC = 5
    PROVED = 6


class Kind(enum.Enum):
    """How a check works, and so the level that its evidence can reach."""

    SAMPLE = "sample"  # random instances
    FLOAT = "float"  # floating-point computation against a tolerance
    ENUMERATION = "enumeration"  # every instance of a stated finite scope, exactly
    CERTIFICATE = "certificate"  # exact rationals, or balls with outward rounding
    DERIVATION = "derivation"  # SymPy identities and named rules, for all sizes
    PROOF = "proof"  # a theorem that a proof assistant's kernel accepts

    @property
    def level(self) -> Level:
        return _LEVEL_OF_KIND[self]

    @property
    def is_exact(self) -> bool:
        """Whether a tolerance or a float figure is forbidden in the evidence."""
        return self.level >= Level.EXHAUSTIVE


_LEVEL_OF_KIND = {
    Kind.SAMPLE: Level.SAMPLED,
    Kind.FLOAT: Level.NUMERIC,
    Kind.ENUMERATION: Level.EXHAUSTIVE,
    Kind.CERTIFICATE: Level.CERTIFIED,
    Kind.DERIVATION: Level.SYMBOLIC,
    Kind.PROOF: Level.PROVED,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tolerance:
    """By how much a float comparison may miss, and why that much and no more."""

    value: float
    kind: Literal["absolute", "relative"]
    reason: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value > 0):
            raise ValueError(f"a tolerance must be positive and finite, not {self.value!r}")
        if not self.reason.strip():
            raise ValueError("a tolerance needs the reason for its size")


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """The outcome of one check.

    ``observed`` and ``bound`` are the figures of the tightest case (of the failing case when the
    verdict is REFUTED), related by ``relation``. ``tolerance=None`` means an exact comparison.
    """

    verdict: Verdict
    scope: str
    cases: int
    relation: str
    observed: Fraction | float | None = None
    bound: Fraction | float | None = None
    tolerance: Tolerance | None = None
    counterexample: object | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if not self.scope.strip() or not self.relation.strip():
            raise ValueError("evidence needs a scope and a relation")
        if self.cases < 0:
            raise ValueError(f"evidence cannot rest on {self.cases} cases")
        if self.verdict is Verdict.HOLDS and self.cases == 0:
            raise ValueError("HOLDS on no case at all is no evidence")
        if self.verdict is Verdict.REFUTED and self.counterexample is None:
            raise ValueError("REFUTED needs a counterexample")
        if self.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_RUN) and not self.reason.strip():
            raise ValueError(f"{self.verdict.value} needs a reason")
        for name in ("observed", "bound"):
            value = getattr(self, name)
            if isinstance(value, float) and math.isnan(value):
                raise ValueError(f"{name} is NaN")

    def __bool__(self) -> bool:
        raise TypeError("evidence has a verdict with four values; compare evidence.verdict")


def not_run(reason: str, *, scope: str = "nothing was run") -> Evidence:
    """Evidence of a check that could not run (a missing optional package, say)."""
    return Evidence(
        verdict=Verdict.NOT_RUN, scope=scope, cases=0, relation="not run", reason=reason
    )


# ------------------------------------------------------------------------------------ judging


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison ``lhs relation rhs`` at a described instance.

    ``instance`` is shown when the case fails; a mapping of names to values reads best.
    """

    lhs: Number
    relation: Relation
    rhs: Number
    instance: object = None


def _holds_exactly(case: Case) -> bool | None:
    """True, False, or None where an enclosure is too wide to tell."""
    for side in (case.lhs, case.rhs):
        if not isinstance(side, int | Fraction | Ball):
            raise TypeError(
                f"an exact comparison takes int, Fraction or ball, not {type(side).__name__}; "
                "a float comparison needs a tolerance"
            )
    return three_valued(case.lhs, case.relation, case.rhs)  # type: ignore[arg-type]


def _holds_within(case: Case, tolerance: Tolerance) -> bool | None:
    lhs, rhs = _as_float(case.lhs), _as_float(case.rhs)
    if math.isnan(lhs) or math.isnan(rhs):
        return False
    slack = tolerance.value
    if tolerance.kind == "relative":
        slack *= max(abs(lhs), abs(rhs))
    if case.relation == "==":
        return abs(lhs - rhs) <= slack
    if case.relation in ("<=", "<"):
        return lhs <= rhs + slack
    return lhs >= rhs - slack


def _as_float(value: Number) -> float:
    return float(value.mid()) if isinstance(value, Ball) else float(value)


def _figure(value: Number, *, upper: bool) -> Fraction | float:
    if isinstance(value, Ball):
        return upper_end(value) if upper else lower_end(value)
    return Fraction(value) if isinstance(value, int) else value


def judge(
    cases: Iterable[Case],
    *,
    scope: str,
    tolerance: Tolerance | None = None,
    reason: str = "",
) -> Evidence:
    """Evidence from a stream of cases that should all hold.

    Without a tolerance the cases must be exact (int, Fraction, ball). The first case that fails
    ends the run with REFUTED; an enclosure too wide to decide gives INCONCLUSIVE unless some other
    case fails. A stream without any case is INCONCLUSIVE.
    """
    count = 0
    undecided: Case | None = None
    tightest: Case | None = None
    least_slack = math.inf
    for case in cases:
        count += 1
        holds = _holds_exactly(case) if tolerance is None else _holds_within(case, tolerance)
        if holds is False:
            lhs_is_high = case.relation in ("==", "<=", "<")
            return Evidence(
                verdict=Verdict.REFUTED,
                scope=scope,
                cases=count,
                relation=f"observed {case.relation} bound",
                observed=_figure(case.lhs, upper=not lhs_is_high),
                bound=_figure(case.rhs, upper=lhs_is_high),
                tolerance=tolerance,
                counterexample=case.instance if case.instance is not None else "see figures",
                reason=reason,
            )
        if holds is None:
            undecided = case
            continue
        slack = abs(_as_float(case.lhs) - _as_float(case.rhs))
        if tightest is None or slack < least_slack:
            tightest, least_slack = case, slack
    if undecided is not None or tightest is None:
        shown = undecided
        return Evidence(
            verdict=Verdict.INCONCLUSIVE,
            scope=scope,
            cases=count,
            relation=f"observed {shown.relation} bound" if shown else "no case",
            tolerance=tolerance,
            reason=(
                f"an enclosure is too wide to decide, at {shown.instance!r}"
                if shown
                else "the check produced no case"
            ),
        )
    lhs_is_high = tightest.relation in ("==", "<=", "<")
    return Evidence(
        verdict=Verdict.HOLDS,
        scope=scope,
        cases=count,
        relation=f"observed {tightest.relation} bound",
        observed=_figure(tightest.lhs, upper=lhs_is_high),
        bound=_figure(tightest.rhs, upper=not lhs_is_high),
        tolerance=tolerance,
        reason=reason,
    )


# -------------------------------------------------------------------------------- derivations


class Rule(enum.Enum):
    """The inference rules that a derivation may name. The report prints which ones it rests on."""

    AM_GM = "the geometric mean of nonnegative numbers is at most their arithmetic mean"
    ATTAINMENT = "a value attained at an admissible point bounds the supremum from below"
    CASE_SPLIT = "a statement that holds in every one of exhaustive cases holds"
    CAUCHY_SCHWARZ = "|⟨x, y⟩| <= ‖x‖₂ ‖y‖₂"
    CHAIN_RULE = "the derivative of a composition is the product of the derivatives"
    CONVEX_COMBINATION = "a convex combination of numbers is at most their maximum"
    CONVEX_VERTEX = "a convex function on a polytope attains its maximum at a vertex"
    COUNTING = "a finite set has as many elements as the stated product or sum"
    DEFINITION = "unfolding a definition"
    DETERMINANT_LEMMA = "det(A + UWUᵀ) = det A · det(I + WUᵀA⁻¹U) for invertible A"
    DIMENSION = "a linear system with fewer equations than unknowns has a nonzero solution"
    DUALITY = "a norm is the supremum of the pairing with the dual unit ball"
    GAUSSIAN_TAIL = "P(Z >= t) <= e^{−t²/2}/2 for a standard normal Z and t >= 0"
    GROTHENDIECK_IDENTITY = "E sign⟨g, u⟩ sign⟨g, v⟩ = (2/π) arcsin⟨u, v⟩: unit u, v, Gaussian g"
    EXPECTATION = "a random variable is at least its expectation with positive probability"
    EXTREME_VALUE = "a continuous function on a compact set attains its maximum"
    INDUCTION = "induction on the length of a product or sum"
    INTERMEDIATE_VALUE = "a continuous function that changes sign has a zero between"
    LIMIT = "weak inequalities pass to the limit"
    LINEARITY = "finite sums are linear, and split over a partition of the index set"
    MEAN_VALUE = "on a convex domain a map is Lipschitz with the supremum of its derivative's norm"
    MINIMAX = "inf sup = sup inf if convex in one, concave in the other variable, one set compact"
    MONOTONICITY = "a monotone function keeps or turns the order"
    OPERATOR_NORM = "‖Mx‖ <= ‖M‖ ‖x‖"
    PSD_BILINEAR = "for M positive semidefinite |xᵀMy| <= max(xᵀMx, yᵀMy)"
    RIESZ_THORIN = "log ‖M‖_{r→r} is convex in 1/r"
    SCHUR_PRODUCT = "the entrywise product of positive semidefinite matrices is one, too"
    SPECTRAL_THEOREM = "a real symmetric matrix has an orthonormal basis of eigenvectors"
    SUBMULTIPLICATIVITY = "‖AB‖ <= ‖A‖ ‖B‖ for an induced norm"
    SUM_OF_SQUARES = "a sum of squares of real numbers is nonnegative, and zero only term by term"
    TAYLOR = "|f(t) − f(0) − t f'(0)| <= t²/2 · sup |f''|"
    TERMWISE = "sums and maxima are ordered when their terms are"
    TRANSITIVITY = "a <= b and b <= c give a <= c"
    TRIANGLE_INEQUALITY = "‖x + y‖ <= ‖x‖ + ‖y‖"
    UNION_BOUND = "the probability of a union of events is at most the sum of their probabilities"


@dataclass(frozen=True, slots=True)
class Identity:
    """A step ``lhs == rhs`` of SymPy expressions (or equal-shaped matrices) that must reduce to 0.

    Free symbols stand for every value that their assumptions allow.
    """

    name: str
    lhs: Any
    rhs: Any


@dataclass(frozen=True, slots=True)
class RuleStep:
    """A step by a named rule.

    ``spot`` draws one exact instance of the *conclusion* from a random generator. A rule is trusted
    by name, but its application is not: the derivation checks the conclusion at ``SPOT_CHECKS``
    instances, so that a misapplied rule, or a constant that is a little too small where equality is
    attained, is refuted.
    """

    name: str
    rule: Rule
    conclusion: str
    spot: Callable[[random.Random], Case]


Step = Identity | RuleStep
SPOT_CHECKS = 40
_SEED = 20260131


@dataclass(frozen=True, kw_only=True, slots=True)
class Derivation:
    """A proof outline for all sizes: identities that SymPy reduces to zero, and named rules."""

    scope: str
    steps: tuple[Step, ...]

    def evidence(self) -> Evidence:
        """Run every step. HOLDS only if each identity reduces to zero and no spot check fails."""
        if not any(isinstance(step, Identity) for step in self.steps):
            raise ValueError("a derivation needs at least one identity; rules alone prove nothing")
        rng = random.Random(_SEED)
        cases = 0
        for step in self.steps:
            if isinstance(step, Identity):
                cases += 1
                outcome = _judge_identity(step, self.scope, cases)
            else:
                outcome = judge(
                    (step.spot(rng) for _ in range(SPOT_CHECKS)),
                    scope=self.scope,
                    reason=f"step {step.name!r}: {step.conclusion}",
                )
                cases += outcome.cases
            if outcome is not None and outcome.verdict is not Verdict.HOLDS:
                return outcome
        rules = sorted({step.rule.name for step in self.steps if isinstance(step, RuleStep)})
        return Evidence(
            verdict=Verdict.HOLDS,
            scope=self.scope,
            cases=cases,
            relation="every identity reduces to 0",
            reason="modulo rules: " + ", ".join(rules) if rules else "identities alone",
        )


def _judge_identity(step: Identity, scope: str, cases: int) -> Evidence | None:
    """None when the identity reduces to zero; otherwise the evidence that ends the derivation."""
    import sympy

    difference = _difference(step.lhs, step.rhs)
    for entry in difference:
        if _expands_to_zero(entry):
            continue
        # One point settles nearly every non-identity, which SymPy may simplify for seconds.
        witness = _nonzero_witness(entry, points=1)
        if witness is None and _reduces_to_zero(entry):
            continue
        witness = witness or _nonzero_witness(entry, points=60)
        if witness is None:
            return Evidence(
                verdict=Verdict.INCONCLUSIVE,
                scope=scope,
                cases=cases,
                relation="lhs - rhs reduces to 0",
                reason=f"step {step.name!r}: SymPy leaves {sympy.sstr(entry)}",
            )
        point, value = witness
        return Evidence(
            verdict=Verdict.REFUTED,
            scope=scope,
            cases=cases,
            relation="lhs - rhs reduces to 0",
            counterexample={"step": step.name, "at": point, "lhs - rhs": value},
            reason=f"step {step.name!r} is not an identity",
        )
    return None


def _difference(lhs: Any, rhs: Any) -> list[sympy.Expr]:
    import sympy

    if isinstance(lhs, sympy.MatrixBase) or isinstance(rhs, sympy.MatrixBase):
        left, right = sympy.Matrix(lhs), sympy.Matrix(rhs)
        if left.shape != right.shape:
            raise ValueError(f"shapes differ: {left.shape} and {right.shape}")
        return [a - b for a, b in zip(left, right, strict=True)]
    return [sympy.sympify(lhs) - sympy.sympify(rhs)]


def _expands_to_zero(expr: Any) -> bool:
    import sympy

    return bool(expr == 0 or sympy.expand(expr) == 0)


def _reduces_to_zero(expr: Any) -> bool:
    return any(_reducer_gives_zero(reducer, expr) for reducer in _REDUCERS)


def _cancel(expr: Any) -> Any:
    import sympy

    return sympy.cancel(sympy.together(expr))


def _simplify(expr: Any) -> Any:
    import sympy

    return sympy.simplify(expr.doit())


def _expand_and_simplify(expr: Any) -> Any:
    import sympy

    return sympy.simplify(sympy.expand(expr.doit()))


_REDUCERS = (_cancel, _simplify, _expand_and_simplify)


def _reducer_gives_zero(reducer: Callable[[Any], Any], expr: Any) -> bool:
    try:
        return bool(reducer(expr) == 0)
    except Exception:
        # SymPy fails in many ways on what it cannot handle; such an identity is left unreduced.
        return False


def _nonzero_witness(expr: sympy.Expr, *, points: int) -> tuple[Mapping[str, str], str] | None:
    """A point at which the expression is provably nonzero, or None if none was found."""
    import sympy

    if not expr.is_commutative:
        # Words in a free algebra are linearly independent: a nonzero normal form is nonzero.
        rest = sympy.expand(expr)
        return {"free algebra": "normal form"}, sympy.sstr(rest)
    rng = random.Random(_SEED)
    for _ in range(points):
        sizes = {
            symbol: sympy.Integer(rng.randint(1, 4))
            for symbol in expr.free_symbols
            if symbol.is_integer and not isinstance(symbol, sympy.Indexed)
        }
        current = expr.subs(sizes).doit()
        atoms = sorted(
            current.atoms(sympy.Symbol, sympy.Indexed, sympy.core.function.AppliedUndef),
            key=sympy.default_sort_key,
        )
        # An Indexed p[1] also shows the bare symbol p among its atoms; give values to the former.
        bases = {a.base.label for a in atoms if isinstance(a, sympy.Indexed)}
        values = {a: _admissible_value(a, rng) for a in atoms if a not in bases}
        try:
            value = current.subs(values)
            number = sympy.N(value, 50)
        except (ZeroDivisionError, ValueError, TypeError):
            continue
        if not number.is_number or number.has(sympy.nan, sympy.zoo, sympy.oo):
            continue
        if abs(number) > sympy.Float("1e-30", 50):
            point = {str(k): str(v) for k, v in {**sizes, **values}.items()}
            return point, sympy.sstr(sympy.N(number, 12))
    return None


def _admissible_value(atom: sympy.Basic, rng: random.Random) -> sympy.Rational:
    import sympy

    magnitude = sympy.Rational(rng.randint(1, 30), rng.randint(1, 12))
    if atom.is_integer:
        return sympy.Integer(rng.randint(1, 5))
    if atom.is_nonnegative or atom.is_positive:
        return magnitude
    return magnitude if rng.random() < 0.5 else -magnitude
