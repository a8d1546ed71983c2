"""The least θ among all rows with a given largest atom m, for every m in [1/7, 1].

Write θ = 1 − δ² with δ(p) = min over S of |2p(S) − 1|, and Δ(m) for the largest δ(p) among rows of
any length with p_max = m. The claims say

    m in      [1/2, 1]  [1/3, 1/2]  [2/7, 1/3]  [7/27, 2/7]  [1/5, 7/27]  [2/11, 1/5]  [1/7, 2/11]
    Δ(m) =     2m − 1     1 − 2m      4m − 1    (6m − 1)/5   (1 − 3m)/2      6m − 1    (1 − 4m)/3

so that min θ = 4m(1 − m) on [1/3, 1] and 1 − (4m − 1)² on [2/7, 1/3]; it is not monotone in m.

*Upper bounds on Δ, m >= 1/3.* The subset {largest atom} gives δ <= |2m − 1|.

*Merging.* Replacing two atoms a, b by the one atom a + b <= m keeps p_max = m, and each subset mass
of the new row is one of the old row: δ does not fall. The number of positive atoms falls, so the
merging ends, at a row in which every two atoms add up to more than m. Let it have L >= 3 atoms, in
descending order. All but the last exceed m/2, and the last two together exceed m, so

    1 > m + (L − 3)m/2 + m = (L + 1)m/2,      that is   L < 2/m − 1.

Hence Δ(m) is the largest δ among rows with at most ⌈2/m⌉ − 2 atoms (or two, if that is more).

*Upper bound on [2/7, 1/3].* Now L <= 5. If p_1 + p_2 >= 1/2, the subset {1, 2} gives
δ <= 2(p_1 + p_2) − 1 <= 4m − 1. Otherwise it gives δ <= 1 − 2m − 2p_2, and the at most four atoms
after the first are at most p_2, so p_2 >= (1 − m)/4 and δ <= (1 − 3m)/2, which is at most 4m − 1
because m >= 2/7 > 3/11.

*Upper bounds on [1/7, 2/7].* By the merging lemma, finitely many linear programs decide: for each
subset, δ <= 2p(S) − 1 or δ <= 1 − 2p(S). A search tree of some ten leaves for each piece, with
rational multipliers at each leaf, proves the bounds (``_envelope_search``).

*Attained.* For a family of rows that is linear in m, each 2p(S) − 1 is linear in m, as Δ is on its
piece: if it is at least Δ at both ends of the piece, or at most −Δ at both, it is so between. In
the order of the table, by (m, 1 − m), (m, m, 1 − 2m) [or (m, ½(1 − m), ½(1 − m))],
(m, m, m, 1 − 3m), m and five atoms (1 − m)/5, m and four atoms (1 − m)/4, five atoms m and 1 − 5m,
and m and six atoms (1 − m)/6.

The pieces suggest Δ(m) = max(2km − 1, (1 − (k+1)m)/k) on [1/(2k+1), 1/(2k−1)] for every k >= 3. The
full profile proves it for k = 4 as well; for all k we have no proof and claim nothing. What holds
for all m is ``beyond_theta_below_8_9``: Δ(m) <= 1/(2r−1) with r = ⌈1/(2m)⌉, sharp at m = 1/(2r−1).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import sympy

from theory.claims import _envelope_search as search
from theory.claims import _instances as exact
from theory.claims import _partitions as bisect
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Rule, RuleStep, judge

MERGE = Claim(
    id="beyond_envelope_step_merge",
    paper_ref="beyond Corollary 3.4",
    section="beyond",
    statement="Merging two atoms whose sum is at most p_max keeps p_max and does not raise θ. "
    "Where no two atoms can be merged, and there are L >= 3 of them, (L + 1) p_max < 2.",
    uses=("definition_3_1",),
)
ENVELOPE = Claim(
    id="beyond_envelope",
    paper_ref="beyond Corollary 3.4",
    section="beyond",
    statement="Among all rows of any length with p_max = m, the least θ is 4m(1 − m) for m in "
    "[1/3, 1], attained at (m, m, 1 − 2m) for m <= 1/2, and 1 − (4m − 1)² for m in [2/7, 1/3], "
    "attained at (m, m, m, 1 − 3m).",
    uses=("beyond_envelope_step_merge", "corollary_3_4_part_3"),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="Corollary 3.4(5) bounds θ from below by 1 − p_max². For p_max >= 2/7 the largest "
        "bound by a function of p_max alone is this one; at p_max = 1/2 it is 1 instead of 3/4, at "
        "1/3 both are 8/9.",
    ),
)
LOW = Claim(
    id="beyond_envelope_low",
    paper_ref="beyond Corollary 3.4",
    section="beyond",
    statement="Among all rows of any length with p_max = m, the least θ is 1 − Δ² with "
    "Δ = (6m − 1)/5 on [7/27, 2/7], (1 − 3m)/2 on [1/5, 7/27], 6m − 1 on [2/11, 1/5] and "
    "(1 − 4m)/3 on [1/7, 2/11]. It is not monotone in m: it has local maxima 80/81 at 7/27 and "
    "120/121 at 2/11, and a local minimum 24/25 at 1/5.",
    uses=("beyond_envelope_step_merge",),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Δ(m) = slope·m + intercept on [low, high], attained by ``copies`` atoms of the largest kind.

    copies = 1: m and ``others`` equal atoms; copies > 1: that many atoms m and one for the rest.
    """

    low: Fraction
    high: Fraction
    slope: Fraction
    intercept: Fraction
    copies: int
    others: int

    def distance(self, m: Fraction) -> Fraction:
        return self.slope * m + self.intercept

    def row(self, m: Fraction) -> exact.Distribution:
        rest = (1 - self.copies * m) / self.others
        return (*[m] * self.copies, *[rest] * self.others)


def _piece(low: str, high: str, slope: str, intercept: str, copies: int, others: int) -> Piece:
    return Piece(
        Fraction(low), Fraction(high), Fraction(slope), Fraction(intercept), copies, others
    )


HIGH_PIECES = (
    _piece("1/2", "1", "2", "-1", 1, 1),
    _piece("1/3", "1/2", "-2", "1", 2, 1),
    _piece("2/7", "1/3", "4", "-1", 3, 1),
)
LOW_PIECES = (
    _piece("7/27", "2/7", "6/5", "-1/5", 1, 5),
    _piece("1/5", "7/27", "-3/2", "1/2", 1, 4),
    _piece("2/11", "1/5", "6", "-1", 5, 1),
    _piece("1/7", "2/11", "-4/3", "1/3", 1, 6),
)
# The next pair of pieces, k = 4 in the docstring's pattern.
FURTHER_PIECES = (
    _piece("5/37", "1/7", "8", "-1", 7, 1),
    _piece("1/9", "5/37", "-5/4", "1/4", 1, 8),
)


def _in_piece(rng: random.Random, piece: Piece) -> Fraction:
    return piece.low + (piece.high - piece.low) * Fraction(rng.randint(0, 12), 12)


def _distance(p: exact.Distribution) -> Fraction:
    """δ(p) by all subsets."""
    return min(abs(2 * mass - 1) for mass in exact.subset_masses(p))


def _lattice_cases(pieces: tuple[Piece, ...], largest: int, factor: Fraction) -> Iterator[Case]:
    """Every row with common denominator up to ``largest`` whose p_max lies in one of the pieces.

    The bound for each row, and equality for the extremal row where it has that denominator.
    """
    for total in range(1, largest + 1):
        for weights in bisect.partitions(total):
            m = Fraction(weights[0], total)
            for piece in pieces:
                if piece.low <= m <= piece.high:
                    found = Fraction(bisect.imbalance(weights), total)
                    bound = factor * piece.distance(m)
                    yield Case(found, "<=", bound, {"weights": weights})
                    row = tuple(Fraction(w, total) for w in weights)
                    if row == tuple(atom for atom in piece.row(m) if atom):
                        yield Case(found, "==", bound, {"weights": weights})


# ----------------------------------------------------------------------------------- merging


def _merged(rng: random.Random, weights: tuple[int, ...]) -> tuple[int, ...]:
    """The row after one random admissible merge, or the row itself where none is left."""
    top = max(weights)
    pairs = [
        (i, j) for j in range(len(weights)) for i in range(j) if weights[i] + weights[j] <= top
    ]
    if not pairs:
        return weights
    i, j = rng.choice(pairs)
    rest = [w for k, w in enumerate(weights) if k not in (i, j)]
    return tuple(sorted((*rest, weights[i] + weights[j]), reverse=True))


def _random_row(rng: random.Random) -> tuple[int, ...]:
    weights = [rng.randint(1, 24) for _ in range(rng.randint(2, 9))]
    return tuple(sorted(weights, reverse=True))


@check(MERGE, kind=Kind.DERIVATION, planted=Planted("(L + 1) p_max < 1.98", limit="1.98"))
def merging_ends_with_few_atoms(profile: Profile, *, limit: str = "2") -> Derivation:
    """The counting behind L < 2/m − 1, and merges of random rows."""
    m, length = sympy.symbols("m L", positive=True)

    def merge(rng: random.Random) -> Case:
        weights = _random_row(rng)
        merged = _merged(rng, weights)
        kept = (max(weights), sum(weights)) == (max(merged), sum(merged))
        before = bisect.imbalance(weights) if kept else sum(weights) + 1
        return Case(bisect.imbalance(merged), ">=", before, {"weights": weights, "merged": merged})

    def few(rng: random.Random) -> Case:
        weights = _random_row(rng)
        while (after := _merged(rng, weights)) != weights:
            weights = after
        if len(weights) < 3 or rng.random() < 0.3:
            # No two can be merged, and (L + 1) p_max is as near to 2 as you like.
            half = rng.randint(50, 5000)
            weights = (2 * half, *[half + 1] * rng.randint(2, 9))
        bound = Fraction(limit) * sum(weights)
        return Case((len(weights) + 1) * max(weights), "<", bound, {"weights": weights})

    return Derivation(
        scope="all L, all p in the simplex",
        steps=(
            RuleStep(
                "masses",
                Rule.MONOTONICITY,
                "the merged row has fewer subset masses, so its minimum is no smaller",
                merge,
            ),
            Identity(
                "top, L − 3 atoms above m/2, and two that exceed m together",
                m + (length - 3) * m / 2 + m,
                (length + 1) * m / 2,
            ),
            RuleStep("few atoms", Rule.TERMWISE, "(L + 1) m < 2 where no two can be merged", few),
        ),
    )


@check(MERGE, kind=Kind.ENUMERATION, planted=Planted("sums up to 2 p_max are merged", reach=2))
def every_merge_of_every_row(profile: Profile, *, reach: int = 1) -> Evidence:
    """Every admissible merge of every row with a small common denominator."""
    largest = profile.pick(18, 30)

    def cases() -> Iterator[Case]:
        for total in range(2, largest + 1):
            for weights in bisect.partitions(total):
                mergeable = False
                for i in range(len(weights)):
                    for j in range(i + 1, len(weights)):
                        joined = weights[i] + weights[j]
                        if joined > reach * weights[0]:
                            continue
                        mergeable = True
                        rest = [w for k, w in enumerate(weights) if k not in (i, j)]
                        merged = (*rest, joined)
                        shown = {"weights": weights, "merged": merged}
                        yield Case(max(merged), "==", weights[0], shown)
                        yield Case(bisect.imbalance(merged), ">=", bisect.imbalance(weights), shown)
                if not mergeable and len(weights) >= 3:
                    size = (len(weights) + 1) * weights[0]
                    yield Case(size, "<", 2 * total, {"weights": weights})

    return judge(cases(), scope=f"every row with common denominator 2..{largest}, every merge")


# ---------------------------------------------------------------------------- m from 2/7 to 1


@check(ENVELOPE, kind=Kind.DERIVATION, planted=Planted("δ is bounded by 0.99 Δ(m)", factor="0.99"))
def derived_from_two_seventh(profile: Profile, *, factor: str = "1") -> Derivation:
    """The docstring's proof: bounds by one subset each, and the rows that attain them."""
    m, p_2 = sympy.symbols("m p_2", positive=True)
    scale = Fraction(factor)

    def bound(rng: random.Random) -> Case:
        piece = rng.choice(HIGH_PIECES)
        m_value = _in_piece(rng, piece)
        p = _random_row_with_top(rng, m_value) if rng.random() < 0.7 else piece.row(m_value)
        return Case(_distance(p), "<=", scale * piece.distance(m_value), {"p": p})

    def second_atom(rng: random.Random) -> Case:
        weights = sorted((rng.randint(1, 24) for _ in range(rng.randint(2, 5))), reverse=True)
        if rng.random() < 0.3:
            weights = [rng.randint(6, 24), *[6] * 4]
        return Case(4 * weights[1], ">=", sum(weights[1:]), {"weights": weights})

    def attained(rng: random.Random) -> Case:
        piece = rng.choice(HIGH_PIECES)
        m_value = _in_piece(rng, piece)
        p = piece.row(m_value)
        return Case(_distance(p), "==", scale * piece.distance(m_value), {"p": p})

    return Derivation(
        scope="all L, all p in the simplex with p_max >= 2/7",
        steps=(
            Identity("θ from |2m − 1|", 1 - (2 * m - 1) ** 2, 4 * m * (1 - m)),
            Identity("p_1 + p_2 >= ½", 2 * (m + m) - 1, 4 * m - 1),
            RuleStep(
                "second atom",
                Rule.CONVEX_COMBINATION,
                "p_2 >= (1 − m)/4 with at most 5 atoms (merging, as (L + 1)·2/7 < 2)",
                second_atom,
            ),
            Identity(
                "p_1 + p_2 < ½ with p_2 = (1 − m)/4",
                (1 - 2 * m - 2 * p_2).subs(p_2, (1 - m) / 4),
                (1 - 3 * m) / 2,
            ),
            Identity(
                "the second case is no worse from 3/11 on",
                (4 * m - 1) - (1 - 3 * m) / 2,
                sympy.Rational(11, 2) * (m - sympy.Rational(3, 11)),
            ),
            RuleStep("bound", Rule.CASE_SPLIT, "δ(p) <= Δ(p_max) for p_max >= 2/7", bound),
            Identity(
                "(m, m, 1 − 2m): the other distance is larger for m >= 1/3",
                (2 * (1 - 2 * m) - 1) ** 2 - (2 * m - 1) ** 2,
                4 * m * (3 * m - 1),
            ),
            Identity(
                "(m, m, m, 1 − 3m): one atom is farther for m <= 1/3",
                (2 * m - 1) ** 2 - (4 * m - 1) ** 2,
                4 * m * (1 - 3 * m),
            ),
            Identity(
                "(m, m, m, 1 − 3m): three atoms are farther for m >= 1/5",
                (6 * m - 1) ** 2 - (4 * m - 1) ** 2,
                4 * m * (5 * m - 1),
            ),
            RuleStep("attained", Rule.ATTAINMENT, "the rows of the table attain Δ", attained),
        ),
    )


def _random_row_with_top(rng: random.Random, top: Fraction) -> exact.Distribution:
    """A row with p_max = top exactly: the rest is shared out in atoms of at most top."""
    row, left = [top], 1 - top
    while left > 0:
        atom = min(left, top * Fraction(rng.randint(1, 6), 6))
        row.append(atom)
        left -= atom
        if len(row) == 9 and left > 0:
            return (top, *[(1 - top) / 8] * 8)
    return tuple(row)


@check(ENVELOPE, kind=Kind.ENUMERATION, planted=Planted("δ is bounded by 0.99 Δ(m)", factor="0.99"))
def every_small_denominator(profile: Profile, *, factor: str = "1") -> Evidence:
    """The bound and its attainment on every row with a small common denominator."""
    largest = profile.pick(26, 44)
    return judge(
        _lattice_cases(HIGH_PIECES, largest, Fraction(factor)),
        scope=f"every row with common denominator 1..{largest} and p_max >= 2/7",
    )


def _tree_cases(pieces: tuple[Piece, ...], factor: Fraction) -> Iterator[Case]:
    for piece in pieces:
        atoms = search.largest_support(piece.low)
        slope, intercept = factor * piece.slope, factor * piece.intercept
        yield from search.bound_cases(atoms, piece.low, piece.high, slope, intercept)


@check(ENVELOPE, kind=Kind.CERTIFICATE, planted=Planted("Δ is 1% smaller", factor="0.99"))
def linear_programs(profile: Profile, *, factor: str = "1") -> Evidence:
    """The same bounds once more, by rational multipliers at the leaves of a search tree."""
    return judge(
        _tree_cases(HIGH_PIECES, Fraction(factor)),
        scope="all rows with p_max in [2/7, 1], by merging at most 5 atoms; each case is a leaf",
    )


# -------------------------------------------------------------------------- m from 1/7 to 2/7


@check(LOW, kind=Kind.CERTIFICATE, planted=Planted("Δ is 1% smaller", factor="0.99"))
def linear_programs_below(profile: Profile, *, factor: str = "1") -> Evidence:
    """Upper bounds on δ, by rational multipliers at the leaves of a search tree."""
    pieces = profile.pick(LOW_PIECES, LOW_PIECES + FURTHER_PIECES)
    return judge(
        _tree_cases(pieces, Fraction(factor)),
        scope=f"all rows with p_max in [{pieces[-1].low}, 2/7], by merging at most "
        f"{search.largest_support(pieces[-1].low)} atoms; each case is a leaf",
    )


def _attained_cases(piece: Piece, factor: Fraction) -> Iterator[Case]:
    """The piece's rows have p_max = m and δ = Δ, by the docstring's argument from both ends."""
    ends = (piece.low, piece.high)
    bounds = [factor * piece.distance(m) for m in ends]
    reached = False
    for chosen in itertools.product((0, 1), repeat=piece.copies + piece.others):
        sides = [2 * sum(itertools.compress(piece.row(m), chosen)) - 1 for m in ends]
        sign = 1 if sum(sides) >= 0 else -1
        for m, side, bound in zip(ends, sides, bounds, strict=True):
            yield Case(sign * side, ">=", bound, {"p": piece.row(m), "S": chosen})
        reached = reached or [sign * side for side in sides] == bounds
    yield Case(int(reached), "==", 1, "a subset at distance Δ at both ends")
    for m in ends:
        yield Case(max(piece.row(m)), "==", m, {"p": piece.row(m)})


@check(LOW, kind=Kind.CERTIFICATE, planted=Planted("Δ is 1% larger", factor="1.01"))
def attained_on_each_piece(profile: Profile, *, factor: str = "1") -> Evidence:
    """Rows that attain the bound on all of each piece, and the turning points of the minimum."""
    scale = Fraction(factor)
    pieces = profile.pick(LOW_PIECES, LOW_PIECES + FURTHER_PIECES)

    def cases() -> Iterator[Case]:
        for piece in pieces:
            yield from _attained_cases(piece, scale)
        for turn, least in (("7/27", "80/81"), ("1/5", "24/25"), ("2/11", "120/121")):
            m = Fraction(turn)
            for piece in LOW_PIECES:
                if piece.low <= m <= piece.high:
                    theta = 1 - (scale * piece.distance(m)) ** 2
                    yield Case(theta, "==", Fraction(least), {"m": m})
        for rising, falling in itertools.pairwise(LOW_PIECES):
            yield Case(rising.slope * falling.slope, "<", 0, {"m": rising.low})

    return judge(cases(), scope=f"all p_max in [{pieces[-1].low}, 2/7]")


@check(LOW, kind=Kind.ENUMERATION, planted=Planted("δ is bounded by 0.99 Δ(m)", factor="0.99"))
def every_small_denominator_below(profile: Profile, *, factor: str = "1") -> Evidence:
    """The bound and its attainment on every row with a small common denominator."""
    largest = profile.pick(27, 44)
    return judge(
        _lattice_cases(LOW_PIECES, largest, Fraction(factor)),
        scope=f"every row with common denominator 1..{largest} and p_max in [1/7, 2/7]",
    )
