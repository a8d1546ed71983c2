"""The paper's statements on the committed attention rows of two trained models, exactly.

A stored row is float32 and its sum is off 1 by a few ulps. Here it is read as the dyadic rationals
that it holds, cleared to integers w with total W, and p = w/W is its distribution, with no
rounding. A verdict here is evidence about these rows, not about other rows or models, so that its
level is that of an enumeration, also where a certificate settles each row.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from theory.claims import _partitions as bisect
from theory.real_rows import AttentionRow, load_attention_rows
from verify.certificates import subset_discrepancy, theta_reference
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Evidence, Kind, judge
from verify.exact import as_fraction, spectral_norm_at_most

if TYPE_CHECKING:
    from theory.theta import ThetaSolution

ROWS = "each of the committed attention rows (theory/data) of SmolLM2-135M-Instruct and MiniLM"
ONLY = "It is evidence about these rows only."

IDENTITY = Claim(
    id="beyond_real_rows_identity",
    paper_ref="Theorem 3.2, on trained attention",
    section="beyond",
    statement=f"On {ROWS} that sees few enough keys for every sign vector to be tried, the norm of "
    f"Diag p − ppᵀ from ℓ∞ to ℓ1 equals θ(p). {ONLY}",
)
EXACT_THETA = Claim(
    id="beyond_real_rows_exact_theta",
    paper_ref="Definition 3.1 and Remark 3.3, on trained attention",
    section="beyond",
    statement=f"On {ROWS} theory.theta returns the float64 nearest to the exact θ(p), unless it "
    f"says that it leaves the row open; and its rational bounds on θ(p) are true. {ONLY}",
)
CERTIFICATE = Claim(
    id="beyond_real_rows_certificate",
    paper_ref="Appendix D.2, on trained attention",
    section="beyond",
    statement=f"On {ROWS} the greedy certificate of the renormalised row is at most θ(p). {ONLY}",
    uses=("beyond_real_rows_exact_theta",),
)
GREEDY_THEOREM = Claim(
    id="beyond_real_rows_greedy_theorem",
    paper_ref="Section 5 and Appendix D.4, on trained attention",
    section="beyond",
    statement=f"On {ROWS} a greedy certificate below 8/9 equals θ(p), θ(p) exceeds the certificate "
    f"by at most 1/9, and θ(p) < 8/9 if and only if p_max > 2/3. {ONLY}",
    uses=("beyond_real_rows_exact_theta",),
)
ENVELOPE = Claim(
    id="beyond_real_rows_envelope",
    paper_ref="Corollary 3.4, parts 3 and 5, on trained attention",
    section="beyond",
    statement=f"On {ROWS}, with m = p_max: θ(p) >= 1 − m²; θ(p) >= 4m(1 − m) if m >= 1/3; and "
    f"θ(p) = 4m(1 − m) if m >= 1/2. {ONLY}",
    uses=("beyond_real_rows_exact_theta",),
)
NORM_ORDERING = Claim(
    id="beyond_real_rows_norm_ordering",
    paper_ref="Remark B.2, on trained attention",
    section="beyond",
    statement=f"On {ROWS} the norm of Diag p − ppᵀ from ℓr to ℓr is at most θ(p)/2, for r = 1 and "
    f"r = ∞, and on the rows with few keys for r = 2. {ONLY}",
    uses=("beyond_real_rows_exact_theta",),
)
MIXING = Claim(
    id="beyond_real_rows_mixing",
    paper_ref="Lemma 2.3, on trained attention",
    section="beyond",
    statement=f"On {ROWS} and for five choices of rational value vectors v_j, named by the check, "
    "the ℓ2 norm of Σ_j p_j v_j is at most the largest ‖v_j‖₂ among the visible keys j. "
    f"{ONLY}",
)


# ------------------------------------------------------------------------------ the rows, exactly

# The exhaustive reference settles a row of this many keys in some 20 ms.
REFERENCE_KEYS = 28


@dataclass(frozen=True, slots=True, eq=False)
class ExactRow:
    """One stored row as integers: probability j as stored is weights[j]/scale, exactly."""

    row: AttentionRow
    weights: tuple[int, ...]
    scale: int

    @property
    def total(self) -> int:
        """W; p = weights/total is the row's distribution. W/scale is the sum as stored."""
        return sum(self.weights)

    @property
    def top(self) -> Fraction:
        """p_max."""
        return Fraction(max(self.weights), self.total)

    @property
    def certificate(self) -> Fraction:
        """The greedy certificate of the renormalised row."""
        return bisect.certificate(self.weights)

    @property
    def label(self) -> dict[str, object]:
        """Where the row comes from, to name it in a counterexample."""
        row = self.row
        return {
            "model": row.model,
            "passage": row.passage,
            "layer": row.layer,
            "head": row.head,
            "position": row.position,
        }


def exact_rows(max_keys: int | None = None, min_keys: int = 1) -> tuple[ExactRow, ...]:
    """The stored rows that see min_keys to max_keys keys (None: no limit), in stored order."""
    return tuple(
        row
        for row in _all_rows()
        if min_keys <= row.row.support and (max_keys is None or row.row.support <= max_keys)
    )


# The same objects each time, so that what is cached for a row is found again.
@functools.cache
def _all_rows() -> tuple[ExactRow, ...]:
    return tuple(map(_as_integers, load_attention_rows()))


def _as_integers(row: AttentionRow) -> ExactRow:
    stored = [as_fraction(p) for p in row.probabilities.tolist()]
    scale = math.lcm(*(p.denominator for p in stored))
    return ExactRow(row, tuple(int(p * scale) for p in stored), scale)


@functools.cache
def theta_bounds(row: ExactRow) -> tuple[Fraction, Fraction]:
    """Rational bounds lower <= θ(p) <= upper: the solver's, equal where it proved optimality.

    The checks of beyond_real_rows_exact_theta verify them on every row. Beyond REFERENCE_KEYS keys,
    where an optimum is costly to verify, an upper bound that rounds to 1 is replaced by 1.
    """
    solution = _solved(row)
    if row.row.support > REFERENCE_KEYS and float(solution.upper) == 1:
        return solution.lower, Fraction(1)
    return solution.lower, solution.upper


@functools.cache
def _solved(row: ExactRow) -> ThetaSolution:
    from theory.theta import solve_theta

    return solve_theta(row.row.probabilities)


def greatest_mass_up_to_half(weights: Sequence[int]) -> int:
    """The greatest subset sum of nonnegative integers that is at most half of their total, exactly.

    Depth-first branch and bound, the heaviest weights first: a branch ends where all that is left
    fits, or where all of it together does not beat the best. Exponential at worst; quick on rows
    whose weight lies on few keys, the only ones that it is meant for.
    """
    descending = sorted(weights, reverse=True)
    rest = [0]
    for weight in reversed(descending):
        rest.append(rest[-1] + weight)
    rest.reverse()
    half = rest[0] // 2
    best = 0
    branches = [(0, 0)]
    while branches:
        k, mass = branches.pop()
        if mass + rest[k] <= half:
            best = max(best, mass + rest[k])
        elif mass + rest[k] > best:
            branches.append((k + 1, mass))
            if mass + descending[k] <= half:
                branches.append((k + 1, mass + descending[k]))
    return best


def _where_top(holds: Callable[[Fraction], bool]) -> list[ExactRow]:
    return [row for row in exact_rows() if holds(row.top)]


def _scope(rows: Sequence[ExactRow]) -> str:
    """The data that a check went through, with their numbers."""
    models: dict[str, int] = {}
    for row in rows:
        models[row.row.model] = models.get(row.row.model, 0) + 1
    counts = " and ".join(f"{number} of {model}" for model, number in sorted(models.items()))
    keys = [row.row.support for row in rows]
    return f"{len(rows)} attention rows ({counts}) that see {min(keys)} to {max(keys)} keys"


# -------------------------------------------------------------------------------------- identity


@check(
    IDENTITY,
    kind=Kind.ENUMERATION,
    planted=Planted("θ of the row as stored, its sum taken to be 1", as_stored=True),
)
def every_sign_vector_and_every_subset(profile: Profile, *, as_stored: bool = False) -> Evidence:
    """W²·J in integers on the left, over sign vectors; W²·θ on the right, over subset sums."""
    rows = exact_rows(max_keys=profile.pick(12, 16))

    def cases() -> Iterator[Case]:
        for row in rows:
            total = row.scale if as_stored else row.total
            norm = Fraction(_scaled_inf_to_one_norm(row.weights), row.total**2)
            theta = Fraction(_largest_cut(row.weights, total), total**2)
            yield Case(norm, "==", theta, row.label)

    return judge(cases(), scope=f"every sign vector and every subset of {_scope(rows)}")


def _scaled_inf_to_one_norm(weights: Sequence[int]) -> int:
    """max over sign vectors x of ‖(W·Diag w − wwᵀ)x‖₁, which is W²·‖Diag p − ppᵀ‖_{∞→1}."""
    w = np.array(weights, dtype=object)
    matrix = w.sum() * np.diag(w) - np.outer(w, w)
    # x and −x give the same norm, so the first sign is fixed; each key doubles the images.
    images = matrix[:, :1]
    for k in range(1, len(weights)):
        column = matrix[:, k : k + 1]
        images = np.concatenate([images + column, images - column], axis=1)
    return int(np.abs(images).sum(axis=0).max())


def _largest_cut(weights: Sequence[int], total: int) -> int:
    """4 max over subsets of w(S)(total − w(S)); with total = W it is W²·θ."""
    masses = {0}
    for weight in weights:
        masses |= {mass + weight for mass in masses}
    return max(4 * mass * (total - mass) for mass in masses)


# ----------------------------------------------------------------------------------- exact theta


@check(
    EXACT_THETA,
    kind=Kind.ENUMERATION,
    planted=Planted("the subset without its lightest key is as good", dropped=1),
)
def long_rows_by_certificates(profile: Profile, *, dropped: int = 0) -> Evidence:
    """θ lies between a subset's value and a bound from elsewhere, and both round to the answer.

    The solver's subset is a hint, weighed anew. The bound is 1 where θ rounds to 1; elsewhere a
    branch and bound that shares nothing with the solver confirms it.
    """
    rows = exact_rows(min_keys=REFERENCE_KEYS + 1)
    left_open = sum(math.isnan(_solved(row).theta) for row in rows)

    def cases() -> Iterator[Case]:
        for row in rows:
            solution = _solved(row)
            subset = solution.subset.copy()
            inside = sorted(np.flatnonzero(subset), key=lambda j: row.weights[j])
            subset[inside[:dropped]] = False
            least = subset_discrepancy(row.weights, subset.tolist())
            attained = 1 - (least / row.total) ** 2
            lower, upper = theta_bounds(row)
            yield Case(lower, "==", attained, row.label)
            if upper < 1:
                mass = Fraction(greatest_mass_up_to_half(row.weights), row.total)
                yield Case(upper, ">=", 4 * mass * (1 - mass), row.label)
            if not math.isnan(solution.theta):
                for bound in (attained, upper):
                    answer = as_fraction(solution.theta)
                    yield Case(answer, "==", as_fraction(float(bound)), row.label)

    return judge(cases(), scope=_scope(rows), reason=f"{left_open} rows left open by the solver")


@check(
    EXACT_THETA,
    kind=Kind.ENUMERATION,
    planted=Planted("the float64 below the nearest one", steps_down=1),
)
def short_rows_by_every_subset(profile: Profile, *, steps_down: int = 0) -> Evidence:
    """theta against the exhaustive reference, rounded once at the end, bit for bit."""
    from theory.theta import theta

    rows = exact_rows(max_keys=profile.pick(REFERENCE_KEYS, 36))

    def cases() -> Iterator[Case]:
        for row in rows:
            exact = theta_reference(row.weights)
            lower, upper = theta_bounds(row)
            yield Case(lower, "<=", exact, row.label)
            yield Case(upper, ">=", exact, row.label)
            nearest = float(exact)
            for _ in range(steps_down):
                nearest = math.nextafter(nearest, -1)
            found = theta(row.row.probabilities)
            yield Case(as_fraction(found), "==", as_fraction(nearest), row.label)

    return judge(cases(), scope=f"every subset of {_scope(rows)}")


# ----------------------------------------------------------------------------------- certificate


@check(
    CERTIFICATE,
    kind=Kind.ENUMERATION,
    planted=Planted(
        "the row as stored, its sum taken to be 1, gives a certificate", as_stored=True
    ),
)
def greedy_is_a_lower_bound(profile: Profile, *, as_stored: bool = False) -> Evidence:
    """The certificate in integers against θ's lower bound, which some subset attains."""
    rows = exact_rows()
    equal = sum(row.certificate == theta_bounds(row)[1] for row in rows)

    def cases() -> Iterator[Case]:
        for row in rows:
            total = row.scale if as_stored else row.total
            found = bisect.certificate(row.weights, total)
            yield Case(found, "<=", theta_bounds(row)[0], row.label)

    return judge(cases(), scope=_scope(rows), reason=f"equality proved on {equal} rows")


@check(
    CERTIFICATE,
    kind=Kind.ENUMERATION,
    planted=Planted("the relative error is at most 2⁻⁵³", units=1),
)
def public_function_within_its_error(profile: Profile, *, units: int | None = None) -> Evidence:
    """theory.theta.greedy_certificate is the exact one up to (2L + 8)·2⁻⁵³, relatively."""
    from theory.theta import greedy_certificate

    rows = exact_rows()

    def cases() -> Iterator[Case]:
        for row in rows:
            found = as_fraction(float(greedy_certificate(row.row.probabilities)))
            allowed = (units or 2 * row.row.support + 8) * Fraction(1, 2**53)
            miss = abs(found - row.certificate)
            yield Case(miss, "<=", allowed * row.certificate, row.label)

    return judge(cases(), scope=_scope(rows))


# -------------------------------------------------------------------------------- greedy theorem


@check(
    GREEDY_THEOREM,
    kind=Kind.ENUMERATION,
    planted=Planted("a certificate below 0.91 is exact", threshold=Fraction(91, 100)),
)
def low_certificate_is_exact(profile: Profile, *, threshold: Fraction = Fraction(8, 9)) -> Evidence:
    """Every certificate below the threshold against the upper bound of θ."""
    rows = [row for row in exact_rows() if row.certificate < threshold]

    def cases() -> Iterator[Case]:
        for row in rows:
            yield Case(row.certificate, "==", theta_bounds(row)[1], row.label)

    return judge(cases(), scope=f"{_scope(rows)}, those with a certificate below {threshold}")


@check(
    GREEDY_THEOREM,
    kind=Kind.ENUMERATION,
    planted=Planted("the gap is at most 0.09", largest=Fraction(9, 100)),
)
def gap_is_at_most_one_ninth(profile: Profile, *, largest: Fraction = Fraction(1, 9)) -> Evidence:
    """The upper bound of θ minus the certificate; the tightest case is the largest gap."""
    rows = exact_rows()

    def cases() -> Iterator[Case]:
        for row in rows:
            gap = theta_bounds(row)[1] - row.certificate
            yield Case(gap, "<=", largest, row.label)

    return judge(cases(), scope=_scope(rows))


@check(
    GREEDY_THEOREM,
    kind=Kind.ENUMERATION,
    planted=Planted("the threshold on p_max is 0.66", threshold=Fraction(66, 100)),
)
def low_theta_means_one_heavy_key(
    profile: Profile, *, threshold: Fraction = Fraction(2, 3)
) -> Evidence:
    """Both directions: p_max above the threshold gives θ < 8/9, and otherwise θ >= 8/9."""
    rows = exact_rows()

    def cases() -> Iterator[Case]:
        for row in rows:
            lower, upper = theta_bounds(row)
            if row.top > threshold:
                yield Case(upper, "<", Fraction(8, 9), row.label)
            else:
                yield Case(lower, ">=", Fraction(8, 9), row.label)

    heavy = len(_where_top(lambda m: m > threshold))
    return judge(cases(), scope=_scope(rows), reason=f"p_max > {threshold} on {heavy} rows")


# -------------------------------------------------------------------------------------- envelope


@check(
    ENVELOPE,
    kind=Kind.ENUMERATION,
    planted=Planted("equality holds from m = 0.49 on", start=Fraction(49, 100)),
)
def equality_from_one_half(profile: Profile, *, start: Fraction = Fraction(1, 2)) -> Evidence:
    """Both bounds of θ against 4m(1 − m)."""
    rows = _where_top(lambda m: m >= start)

    def cases() -> Iterator[Case]:
        for row in rows:
            for bound in theta_bounds(row):
                yield Case(bound, "==", 4 * row.top * (1 - row.top), row.label)

    return judge(cases(), scope=f"{_scope(rows)}, those with p_max >= {start}")


@check(
    ENVELOPE,
    kind=Kind.ENUMERATION,
    planted=Planted("the factor 4 is 1% larger", factor=Fraction(404, 100)),
)
def lower_bound_from_one_third(profile: Profile, *, factor: Fraction = Fraction(4)) -> Evidence:
    """θ >= 4m(1 − m) where no key has half of the mass, so that it need not be an equality."""
    rows = _where_top(lambda m: Fraction(1, 3) <= m < Fraction(1, 2))

    def cases() -> Iterator[Case]:
        for row in rows:
            bound = factor * row.top * (1 - row.top)
            yield Case(theta_bounds(row)[0], ">=", bound, row.label)

    return judge(cases(), scope=f"{_scope(rows)}, those with 1/3 <= p_max < 1/2")


@check(
    ENVELOPE,
    kind=Kind.ENUMERATION,
    planted=Planted("m² loses 1%", factor=Fraction(99, 100)),
)
def coarser_bound_everywhere(profile: Profile, *, factor: Fraction = Fraction(1)) -> Evidence:
    """θ >= 1 − m² on all rows; attained where a query sees one key only."""
    rows = exact_rows()

    def cases() -> Iterator[Case]:
        for row in rows:
            yield Case(theta_bounds(row)[0], ">=", 1 - factor * row.top**2, row.label)

    return judge(cases(), scope=_scope(rows))


# --------------------------------------------------------------------------------- norm ordering


@check(
    NORM_ORDERING,
    kind=Kind.ENUMERATION,
    planted=Planted("the factor 1/2 is 1% smaller", factor=Fraction(99, 200)),
)
def absolute_column_and_row_sums(
    profile: Profile, *, factor: Fraction = Fraction(1, 2)
) -> Evidence:
    """r = 1 and r = ∞ from the whole matrix W²·J in integers."""
    rows = exact_rows(max_keys=profile.pick(40, None))

    def cases() -> Iterator[Case]:
        for row in rows:
            w = np.array(row.weights, dtype=object)
            matrix = abs(row.total * np.diag(w) - np.outer(w, w))
            bound = factor * theta_bounds(row)[0]
            for axis in (0, 1):
                norm = Fraction(matrix.sum(axis=axis).max(), row.total**2)
                yield Case(norm, "<=", bound, row.label)

    return judge(cases(), scope=f"r = 1 and r = ∞, {_scope(rows)}")


@check(
    NORM_ORDERING,
    kind=Kind.ENUMERATION,
    planted=Planted("the factor 1/2 is 1% smaller", factor=Fraction(99, 200)),
)
def spectral_norm(profile: Profile, *, factor: Fraction = Fraction(1, 2)) -> Evidence:
    """r = 2 by the pivots of (θ/2)²·I − JᵀJ, rational throughout."""
    rows = exact_rows(max_keys=profile.pick(9, 16))

    def cases() -> Iterator[Case]:
        for row in rows:
            p = [Fraction(w, row.total) for w in row.weights]
            matrix = [
                [(a if i == j else Fraction(0)) - a * b for j, b in enumerate(p)]
                for i, a in enumerate(p)
            ]
            bound = factor * theta_bounds(row)[0]
            yield Case(int(spectral_norm_at_most(matrix, bound**2)), "==", 1, row.label)

    return judge(cases(), scope=f"r = 2, {_scope(rows)}")


# ---------------------------------------------------------------------------------------- mixing

VALUE_WIDTH = 3


@check(
    MIXING,
    kind=Kind.ENUMERATION,
    planted=Planted("the rows as stored, not renormalised, mix too", as_stored=True),
)
def every_row_mixes(profile: Profile, *, as_stored: bool = False) -> Evidence:
    """‖Σ w_j v_j‖² against W² max ‖v_j‖² in integers; equal values attain the bound."""
    rows = exact_rows()
    longest = max(row.row.support for row in rows)

    def cases() -> Iterator[Case]:
        for name, values in _value_matrices(longest).items():
            for row in rows:
                seen = values[: row.row.support]
                mixed = np.array(row.weights, dtype=object) @ seen
                total = row.scale if as_stored else row.total
                bound = total**2 * (seen**2).sum(axis=1).max()
                yield Case((mixed**2).sum(), "<=", bound, {"values": name} | row.label)

    return judge(
        cases(),
        scope=f"values in Z³ up to a common denominator (equal, of alternating sign, on one key, "
        f"small, widely spread), {_scope(rows)}",
    )


def _value_matrices(keys: int) -> dict[str, np.ndarray]:
    """Integer values of shape (keys, VALUE_WIDTH); a common denominator would change nothing."""
    rng = random.Random(23)

    def filled(entry: Callable[[int], int]) -> np.ndarray:
        return np.array([[entry(j) for _ in range(VALUE_WIDTH)] for j in range(keys)], dtype=object)

    return {
        "equal": filled(lambda _: 7),
        "of alternating sign": filled(lambda j: (-1) ** j),
        "on one key": filled(lambda j: int(j == 0)),
        "small": filled(lambda _: rng.randint(-9, 9)),
        "widely spread": filled(lambda _: rng.randint(-1, 1) * 10 ** rng.randint(0, 30)),
    }
