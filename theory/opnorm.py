"""Certified block-∞/RMS norms of linear maps between token sequences.

‖J‖ = max over inputs dX with rms(dX_j) <= 1 at every token of max_i rms(dOut_i). With the blocks
M_ij of dOut_i = Σ_j dX_j M_ij (row vectors, M_ij of shape (D, E)) this is
√(D/E) · max_i max over ‖y‖₂ = 1 of Σ_j ‖M_ij y‖₂. It is hard to compute in general (for D = 1 and
blocks that are rows m_j its square is E⁻¹‖A‖_{∞→1} for A_jk = <m_j, m_k>, any semidefinite A) but
easy to bracket: see theory._row_norms for the two sides. The bracket is proved, not estimated:
every figure in a `Bracket` accounts for all rounding, given IEEE arithmetic and, for attention,
NumPy's exp, sin, cos and power to within 8 units 2⁻⁵³ (theory._attention_errors).
"""

from __future__ import annotations

import contextlib
import enum
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from theory._attention_rows import AttentionRows
from theory._row_maps import BlockOperator, DenseRows, IntArray, OperatorRows, RowMap, RowSource
from theory._row_norms import (
    Deadline,
    ascend,
    leading_eigenvectors,
    proved_lower,
    proved_upper,
    relax,
    rounded_candidates,
    sums_of_norms,
    weights_of,
)
from theory.arguments import FloatArray, as_index
from theory.attention import AttentionAt
from verify.rounding import downward, upward

# The guarantee of the relaxation is √(π/2) = 1.2533…; a bracket within this ratio has converged.
CONVERGED_RATIO = 1.26
_FIRST_STEPS = 40
_FIRST_GAIN = 1e-4
_STEPS = 400
_GAIN = 1e-13
_RELAX_STEPS = 400
_ROUNDS = 8
_CANDIDATES = 256
_FINALISTS = 8
_FIRST_COLUMNS = 3
_DEEP_ROWS = 4
_RANDOM_STARTS = 3


class BracketStatus(enum.Enum):
    """Whether the bracket is as narrow as the method guarantees."""

    CONVERGED = "upper/lower <= 1.26, or the operator is zero"
    OPEN = "both bounds are true, but wider apart: the budget ended, or numbers overflowed"


@dataclass(frozen=True, kw_only=True)
class RowCertificate:
    """Why the norm of one output row is at most ``upper``.

    row: the output token. tokens, weights: (N,) the input tokens with nonzero blocks and the
    positive weights w_j for which Σw · λ_max(Σ_j M_jᵀM_j/w_j) <= upper² (E/D), operator error
    aside; None where a cheap bound (a sum of bounds of ‖M_j‖) sufficed. upper is in the block-∞/RMS
    norm. `verify.certificates` rechecks the inequality from the blocks.
    """

    row: int
    upper: float
    tokens: IntArray | None
    weights: FloatArray | None


@dataclass(frozen=True, kw_only=True)
class Bracket:
    """Proved bounds lower <= ‖J‖ <= upper in the norm block-∞/RMS -> block-∞/RMS.

    row: the output token that attains ``lower``. witness: a direction dX of shape (L, D) with
    rms(dX_j) <= 1 at every token, for which rms((J dX)_row) >= lower up to the rounding of its own
    entries; zero for a zero operator. relaxation: a proved lower bound of what the semidefinite
    relaxation gives at the row that decides ``upper``: no weights can prove less, and where it
    exceeds lower the difference is the relaxation's own. certificate: one entry for each row
    considered. covers: "exact operator" if the figures hold for the operator at its float weights
    and input, all rounding of its evaluation included; "stored blocks" if they hold for the blocks
    as they were handed over. timed_out: whether the budget ended the search.
    """

    lower: float
    upper: float
    status: BracketStatus
    row: int
    witness: FloatArray
    relaxation: float
    certificate: tuple[RowCertificate, ...]
    covers: Literal["exact operator", "stored blocks"]
    method: Literal["ascent", "cvxpy"]
    timed_out: bool

    @property
    def ratio(self) -> float:
        """upper/lower: 1 for a zero operator, infinite where only lower is zero."""
        if self.upper == 0.0:
            return 1.0
        return self.upper / self.lower if self.lower > 0.0 else math.inf

    def __bool__(self) -> bool:
        raise TypeError("a bracket has two ends; compare bracket.lower or bracket.upper")


@dataclass
class _Row:
    """What is known of one row, in the scale of its row map."""

    index: int
    upper: float = math.inf
    tokens: IntArray | None = None
    weights: FloatArray | None = None
    direction: FloatArray | None = None
    relaxation: float = 0.0
    weighted: bool = False
    refined: bool = False


def block_norm_bracket(
    operator: BlockOperator | npt.ArrayLike,
    *,
    ratio: float = 1.0001,
    rows: Iterable[int] | None = None,
    budget: float | None = None,
    method: Literal["ascent", "cvxpy"] = "ascent",
    seed: int = 0,
    progress: bool = False,
) -> Bracket:
    """Bracket ‖J‖ in the norm block-∞/RMS -> block-∞/RMS; see the module for its meaning.

    operator: a Jacobian of shape (M, E, L, D), or anything with input_shape (L, D), output_shape
    (M, E) and row_block(i) -> (L, D, E). ratio: upper/lower at which to stop; the search ends
    earlier where the relaxation is solved and no better direction is found. rows: output tokens to
    consider (None: all): the norm of J followed by the restriction to them. budget: seconds; the
    bounds stay true when it ends. method: how weights are improved, "cvxpy" for small operators
    alone. seed: of the random starts. progress: a bar on stderr.

    Raises ValueError for a ratio below 1, a negative budget, an empty choice of rows, and blocks of
    the wrong shape or not finite; ImportError for method "cvxpy" without cvxpy.
    """
    if not ratio >= 1.0:
        raise ValueError(f"ratio is {ratio}: a number that is at least 1 is needed")
    if budget is not None and not budget >= 0.0:
        raise ValueError(f"budget is {budget}: seconds, at least 0, or None")
    if method not in ("ascent", "cvxpy"):
        raise ValueError(f"method is {method!r}: 'ascent' or 'cvxpy'")
    deadline = Deadline.after(budget)
    source = _source(operator)
    chosen = _chosen_rows(rows, source.output_shape[0])
    return _Search(source, chosen, ratio, deadline, method, seed, progress).run()


def _source(operator: BlockOperator | npt.ArrayLike) -> RowSource:
    if isinstance(operator, AttentionAt):
        return AttentionRows(operator)
    if hasattr(operator, "row_block"):
        return OperatorRows(cast(BlockOperator, operator))
    return DenseRows(operator)


def _chosen_rows(rows: Iterable[int] | None, count: int) -> list[int]:
    if rows is None:
        return list(range(count))
    chosen = sorted({as_index(row, "row", count) for row in rows})
    if not chosen:
        raise ValueError("rows is empty: at least one output token is needed")
    return chosen


class _Search:
    """The state of one bracketing. Every bound in it is true at any time."""

    def __init__(
        self,
        source: RowSource,
        chosen: list[int],
        ratio: float,
        deadline: Deadline,
        method: Literal["ascent", "cvxpy"],
        seed: int,
        progress: bool,
    ) -> None:
        self.source = source
        self.ratio = ratio
        self.deadline = deadline
        self.method: Literal["ascent", "cvxpy"] = method
        self.rng = np.random.default_rng(seed)
        self.progress = progress
        self.width = source.output_shape[1]
        self.rows = [_Row(index) for index in chosen]
        self.best = self.rows[0]
        self.lower = 0.0
        self.timed_out = False

    def run(self) -> Bracket:
        with _bar(self.progress, len(self.rows)) as advance:
            self._screen()
            self._look_for_directions()
            self._tighten(advance)
        return self._bracket()

    def _screen(self) -> None:
        """A cheap upper bound for every row."""
        for row in self.rows:
            if self._late():
                break
            row.upper = self.source.row(row.index).cheap_bound()

    def _look_for_directions(self) -> None:
        """A direction for every row whose cheap bound exceeds the best lower bound so far.

        Neighbouring rows often share their direction, so the last one is a start for the next.
        """
        start = self.rng.normal(size=(self.width, 2))
        for row in sorted(self.rows, key=lambda r: -r.upper):
            if row.upper <= self.lower or self._late():
                break
            blocks = self.source.row(row.index)
            starts = np.column_stack([start, self.rng.normal(size=(self.width, 2))])
            y_ER, values = ascend(
                blocks, starts, steps=_FIRST_STEPS, gain=_FIRST_GAIN, deadline=self.deadline
            )
            order = np.argsort(-values)
            start = y_ER[:, order[:2]]
            row.direction = y_ER[:, order[:1]]
            self._raise_lower(row, blocks, row.direction)
        for row in sorted(self.rows, key=lambda r: -r.relaxation)[:_DEEP_ROWS]:
            if row.direction is not None:
                self._ascend_further(row, self.source.row(row.index))

    def _tighten(self, advance: Callable[[int], None]) -> None:
        """Work on the row with the largest upper bound until the goal or its relaxation is met."""
        while True:
            row = max(self.rows, key=lambda r: r.upper)
            advance(sum(r.upper <= self.ratio * self.lower for r in self.rows))
            if row.upper <= self.ratio * self.lower or row.refined or self._late():
                break
            blocks = self.source.row(row.index)
            if not row.weighted:
                self._first_weights(row, blocks)
            else:
                self._refine(row, blocks)

    def _first_weights(self, row: _Row, blocks: RowMap) -> None:
        """Weights from the direction at hand; for most rows they prove enough."""
        row.weighted = True
        if len(blocks.tokens) == 0:
            row.tokens, row.weights = blocks.tokens, np.zeros(0)
            row.upper, row.refined = blocks.operator_error, True
            return
        if row.direction is None:
            row.direction = np.ones((self.width, 1))
        self._lower_upper(row, blocks, weights_of(blocks, row.direction))

    def _refine(self, row: _Row, blocks: RowMap) -> None:
        """Solve the row's relaxation, round it, and prove its weights."""
        z_ER = self._ascend_further(row, blocks)
        self._lower_upper(row, blocks, weights_of(blocks, z_ER))
        for _ in range(_ROUNDS):
            if self._settled(row) or self._late():
                break
            z_ER = self._solve_relaxation(row, blocks, z_ER)
            self._round(row, blocks, z_ER)
        row.refined = True

    def _ascend_further(self, row: _Row, blocks: RowMap) -> FloatArray:
        """The best direction (E, 1) from the one at hand and from random starts."""
        starts = [self.rng.normal(size=(self.width, _RANDOM_STARTS))]
        if row.direction is not None:
            starts.append(row.direction)
        y_ER, values = ascend(
            blocks, np.column_stack(starts), steps=_STEPS, gain=_GAIN, deadline=self.deadline
        )
        best = y_ER[:, [int(np.argmax(values))]]
        self._raise_lower(row, blocks, best)
        return best

    def _late(self) -> bool:
        """Whether the budget has ended, with something left to do."""
        self.timed_out = self.timed_out or self.deadline.passed()
        return self.timed_out

    def _settled(self, row: _Row) -> bool:
        """Whether the row meets the goal, or nothing is left between its bound and relaxation."""
        half = 1.0 + (self.ratio - 1.0) / 2
        return row.upper <= self.ratio * self.lower or row.upper <= half * row.relaxation

    def _solve_relaxation(self, row: _Row, blocks: RowMap, z_ER: FloatArray) -> FloatArray:
        """A better Z: more columns from the leading eigenvectors, then L-BFGS; or cvxpy."""
        if self.method == "cvxpy":
            from theory._row_sdp import solve_relaxation

            z_ER = solve_relaxation(blocks)
        else:
            fresh = leading_eigenvectors(blocks, weights_of(blocks, z_ER), _FIRST_COLUMNS)
            # Columns that the last round did not use are given up.
            left, sizes, _ = np.linalg.svd(z_ER, full_matrices=False)
            kept = sizes > 1e-6 * sizes[0]
            z_ER = np.column_stack([left[:, kept] * sizes[kept], 0.03 * fresh])
            z_ER = relax(blocks, z_ER, steps=_RELAX_STEPS, deadline=self.deadline)
        row.relaxation = max(row.relaxation, proved_lower(blocks, z_ER))
        self._lower_upper(row, blocks, weights_of(blocks, z_ER))
        return z_ER

    def _round(self, row: _Row, blocks: RowMap, z_ER: FloatArray) -> None:
        """Gaussian rounding of Z, the best candidates followed by ascent."""
        if z_ER.shape[1] == 1:
            candidates = z_ER
        else:
            candidates = rounded_candidates(z_ER, _CANDIDATES, self.rng)
            batches = np.array_split(candidates, 8, axis=1)
            values = np.concatenate([sums_of_norms(blocks, batch) for batch in batches])
            candidates = candidates[:, np.argsort(-values)[:_FINALISTS]]
        y_ER, values = ascend(blocks, candidates, steps=_STEPS, gain=_GAIN, deadline=self.deadline)
        self._raise_lower(row, blocks, y_ER[:, [int(np.argmax(values))]])

    def _raise_lower(self, row: _Row, blocks: RowMap, y_E1: FloatArray) -> None:
        value = proved_lower(blocks, y_E1)
        if value > row.relaxation or row.direction is None:
            row.relaxation, row.direction = value, y_E1
        if value > self.lower:
            self.lower, self.best, row.direction = value, row, y_E1

    def _lower_upper(self, row: _Row, blocks: RowMap, weights: FloatArray) -> None:
        upper = proved_upper(blocks, weights, target=self.lower)
        if upper < row.upper:
            row.tokens, row.weights, row.upper = blocks.tokens, weights, upper

    def _bracket(self) -> Bracket:
        deciding = max(self.rows, key=lambda r: r.upper)
        lower, upper = self._in_norm(self.lower, up=False), self._in_norm(deciding.upper, up=True)
        converged = upper == 0.0 or (lower > 0.0 and upper / lower <= CONVERGED_RATIO)
        return Bracket(
            lower=lower,
            upper=upper,
            status=BracketStatus.CONVERGED if converged else BracketStatus.OPEN,
            row=self.best.index,
            witness=self._witness(),
            relaxation=self._in_norm(deciding.relaxation, up=False),
            certificate=tuple(self._certificate(row) for row in self.rows),
            covers="exact operator" if self.source.covers_exact_operator else "stored blocks",
            method=self.method,
            timed_out=self.timed_out,
        )

    def _in_norm(self, value: float, *, up: bool) -> float:
        """From the scale of the row maps to the block-∞/RMS norm, rounded outward."""
        scaled = value * math.sqrt(self.source.input_shape[1] / self.width)
        scaled = upward(scaled, 4) if up else downward(scaled, 4)
        with np.errstate(over="ignore", under="ignore"):
            result = float(np.ldexp(scaled, self.source.exponent))
            if np.ldexp(result, -self.source.exponent) == scaled:
                return result
        # Rounded at the ends of float64's range.
        return math.nextafter(result, math.inf if up else 0.0)

    def _witness(self) -> FloatArray:
        tokens, width = self.source.input_shape
        witness = np.zeros((tokens, width))
        if self.lower > 0.0 and self.best.direction is not None:
            blocks = self.source.row(self.best.index)
            x_ND = blocks.apply(self.best.direction)[:, :, 0]
            lengths = np.linalg.norm(x_ND, axis=1)[:, np.newaxis]
            # A few roundings below the unit ball's surface, so that rms <= 1 holds exactly.
            size = math.sqrt(width) * (1.0 - (width + 8) * 2.0**-52)
            witness[blocks.tokens] = size * x_ND / np.where(lengths > 0.0, lengths, 1.0)
        witness.flags.writeable = False
        return witness

    def _certificate(self, row: _Row) -> RowCertificate:
        return RowCertificate(
            row=row.index,
            upper=self._in_norm(row.upper, up=True),
            tokens=row.tokens,
            weights=row.weights,
        )


@contextlib.contextmanager
def _bar(shown: bool, count: int) -> Iterator[Callable[[int], None]]:
    """Takes how many rows are settled; a bar on standard error if ``shown``."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = ("norm", BarColumn(), MofNCompleteColumn(), "rows", TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=count)
        yield lambda done: bar.update(task, completed=done)
