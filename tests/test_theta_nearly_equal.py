"""Nearly equal rows but for a few weights: `theory.theta._nearly_equal` and the method "exchange".

early_attention.npz holds 60 rows of causal attention of a 36-layer GPT, d = 64, at update 50 of its
training, 20 of each of the layers 0, 18 and 35: float32 `weights` (60, 128), padded with zeros, of
which a row sees the first `lengths`. They are rows that neither a closed form nor meeting in the
middle over all weights settles at once.
"""

from fractions import Fraction
from itertools import combinations
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from theta_reference import exact, reference_theta

import theory.theta._float_kernels as floats
import theory.theta._nearly_equal as nearly_equal
import theory.theta._settle as settle
import theory.theta._small_rows as small_rows
from theory.theta import Status, solve_theta, theta_rows

DTYPES = (np.float64, np.float32, ml_dtypes.bfloat16)


def early_attention() -> list[np.ndarray]:
    with np.load(Path(__file__).with_name("early_attention.npz")) as data:
        rows = zip(data["weights"], data["lengths"], strict=True)
        return [weights[:length] for weights, length in rows]


def with_outliers(rng: np.random.Generator, length: int, dtype: type) -> np.ndarray:
    """Nearly equal weights, of which up to 8 are 1 to 20 % larger or smaller."""
    weights = np.exp(rng.choice([1e-4, 1e-3, 3e-3, 1e-2, 5e-2]) * rng.standard_normal(length))
    outliers = int(rng.integers(0, min(9, length)))
    weights[:outliers] *= 1 + rng.choice([-1, 1], outliers) * rng.uniform(0.01, 0.2, outliers)
    return (weights / weights.sum()).astype(dtype)


def descending(row: np.ndarray) -> np.ndarray:
    return np.sort(row.astype(np.float64))[::-1].copy()


def scratch() -> tuple[np.ndarray, np.ndarray]:
    shape = 4, nearly_equal.LIST_SUMS
    return np.full(shape, np.nan), np.full(shape, -1)


def settled(
    weights: np.ndarray, steps: int = nearly_equal.MOST_STEPS, stop: int = settle.GO
) -> tuple[float, int, bool, np.ndarray]:
    """`settle_nearly_equal` of descending weights, without its steps but with the subset."""
    n = len(weights)
    taken = np.zeros(n, np.bool_)
    value, status, proved, _ = nearly_equal.settle_nearly_equal(
        weights, n, *floats.pair_sum(weights, n), steps, *scratch(), taken, np.full(1, stop)
    )
    return value, status, proved, taken


def gap_of(weights: np.ndarray, taken: np.ndarray) -> Fraction:
    numbers = exact(weights)
    signed = (w if t else -w for w, t in zip(numbers, taken, strict=True))
    return abs(sum(signed, Fraction(0))) / sum(numbers)


def check(weights: np.ndarray) -> int:
    """Compare with the independent reference; the status."""
    value, status, proved, taken = settled(weights)
    best = reference_theta(weights)
    witnessed = 1 - gap_of(weights, taken) ** 2
    if proved:
        assert witnessed == best
    if status == small_rows.OPEN:
        assert np.isnan(value)
        return status
    assert value == float(best) == float(witnessed)
    assert proved == (status == small_rows.OPTIMAL)
    return status


class TestAgainstTheReference:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_short_rows(self, dtype):
        rng = np.random.default_rng([1, DTYPES.index(dtype)])
        statuses = [
            check(descending(with_outliers(rng, length, dtype)))
            for length in range(2, 19)
            for _ in range(12)
        ]
        assert statuses.count(small_rows.OPTIMAL) >= 150
        assert small_rows.OPEN not in statuses

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_rows_of_the_batch(self, dtype):
        rng = np.random.default_rng([2, DTYPES.index(dtype)])
        for length in (25, 26, 27, 28, 29):
            rows = np.stack([with_outliers(rng, length, dtype) for _ in range(4)])
            got, status = theta_rows(rows, check_sum=False, return_status=True)
            assert (status != Status.BOUNDED).all()
            for row, value in zip(rows, got, strict=True):
                assert value == float(reference_theta(row.astype(np.float64)))
                assert solve_theta(row).theta == value
                check(descending(row))

    @pytest.mark.parametrize("spread", [1.0, 0.3])
    def test_rows_that_are_not_nearly_equal(self, spread):
        rng = np.random.default_rng(3)
        for length in range(2, 15):
            for _ in range(6):
                check(descending(np.exp(spread * rng.standard_normal(length))))

    def test_sinks_equal_weights_and_ties(self):
        rng = np.random.default_rng(4)
        for length in range(3, 15):
            cluster = 1 + rng.integers(-3, 4, length) * 2.0**-10
            check(descending(cluster))
            check(descending(np.append(cluster, length / 3)))
            check(descending(np.append(cluster, [1e-3, 2e-3])))
            check(np.ones(length))

    def test_units_that_are_too_fine_prove_nothing(self):
        # The cluster is exact to 2**-52, the smallest weight far finer.
        rng = np.random.default_rng(5)
        statuses = set()
        for _ in range(30):
            row = 1 + 1e-3 * rng.standard_normal(13)
            statuses.add(check(descending(np.append(row, 2.0**-40 / 3))))
        assert small_rows.OPEN in statuses


class TestRealRows:
    def test_every_row_is_settled(self):
        methods = set()
        for row in early_attention():
            got, status, subset = theta_rows(
                [row], check_sum=False, return_status=True, return_subset=True
            )
            solution = solve_theta(row)
            assert status[0] != Status.BOUNDED
            assert solution.theta == got[0] == float(1 - gap_of(row, subset[0]) ** 2)
            methods.add(solution.method)
        assert "exchange" in methods

    def test_permutations_and_scales(self):
        rng = np.random.default_rng(6)
        for row in early_attention()[::9]:
            value = solve_theta(row).theta
            moved = np.stack([rng.permutation(row) for _ in range(3)])
            assert (theta_rows(moved, check_sum=False) == value).all()
            assert theta_rows([row * np.float32(8)], check_sum=False)[0] == value

    def test_meeting_in_the_middle_proves_the_same(self):
        rng = np.random.default_rng(10)
        rows = [row for row in early_attention() if len(row) <= 40]
        rows += [with_outliers(rng, 38, np.float32) for _ in range(8)]
        proved = 0
        for row in rows:
            solution = solve_theta(row, method="exchange")
            assert solution.status is not Status.BOUNDED
            if solution.status is Status.OPTIMAL:
                assert solve_theta(row, method="mitm").lower == solution.lower
                proved += 1
        assert proved >= 3


class TestGivingUp:
    ROW = np.exp(0.02 * np.random.default_rng(7).standard_normal(64))

    def test_when_told(self):
        value, status, proved, _ = settled(descending(self.ROW), stop=settle.HURRY)
        assert np.isnan(value)
        assert (status, proved) == (small_rows.OPEN, False)

    def test_after_so_many_steps(self):
        assert settled(descending(self.ROW), steps=1)[1] == small_rows.OPEN
        assert settled(descending(self.ROW))[1] == small_rows.ROUNDED

    def test_soon_where_other_searches_are_quicker(self):
        # No exchange is in sight at the middle of an even number of smooth weights.
        smooth = descending(np.exp(0.1 * np.linspace(-1, 1, 100) ** 3))
        assert settled(smooth, steps=nearly_equal.QUICK_STEPS)[1] == small_rows.OPEN
        assert settled(smooth)[1] == small_rows.ROUNDED

    def test_a_budget_of_nothing(self):
        solution = solve_theta(self.ROW, method="exchange", budget=0)
        assert solution.status is Status.BOUNDED
        assert solution.upper == 1
        assert solution.lower == 1 - gap_of(self.ROW, solution.subset) ** 2

    def test_rows_for_other_methods(self):
        for row in (
            np.ones(24) + np.arange(24) / 99,
            np.arange(1.0, 60),
            [3**40 + k for k in range(30)],
        ):
            with pytest.raises(ValueError, match="'exchange' needs"):
                solve_theta(row, method="exchange")


class TestParts:
    def test_nearly_equal(self):
        equal = np.ones(40)
        assert nearly_equal.are_nearly_equal(equal, 25)
        assert not nearly_equal.are_nearly_equal(equal, 24)
        for few, expected in ((0, True), (10, True), (11, False)):
            row = equal.copy()
            row[:few] = 100.0
            assert nearly_equal.are_nearly_equal(row, 40) == expected
            row = equal.copy()
            row[40 - few :] = 0.01
            assert nearly_equal.are_nearly_equal(row, 40) == expected
        slope = np.linspace(1.5, 1.0, 40)
        assert nearly_equal.are_nearly_equal(slope, 40)
        assert not nearly_equal.are_nearly_equal(slope**2, 40)

    def test_sums_by_number(self):
        rng = np.random.default_rng(8)
        for count in range(9):
            costs = np.sort(rng.integers(0, 12, count)).astype(np.float64)
            limit = float(rng.integers(0, 30))
            sums, codes = scratch()
            starts = np.full((2, count + 3), -1)
            where, lists = nearly_equal._sums_by_number(
                costs, count, limit, sums[:2], codes[:2], starts
            )
            for number in range(count + 1):
                expected = {sum(chosen) for chosen in combinations(costs, number)}
                expected = sorted(s for s in expected if s <= limit)
                assert (number < lists) == bool(expected)
                if expected:
                    part = slice(starts[where, number], starts[where, number + 1])
                    assert sums[where, part].tolist() == expected
                    for code, entry in zip(codes[where, part], sums[where, part], strict=True):
                        members = [c for k, c in enumerate(costs) if code >> k & 1]
                        assert len(members) == code.bit_count() == number
                        assert sum(members) == entry

    def test_lists_that_may_be_too_long_are_not_made(self):
        sums, codes = scratch()
        starts = np.empty((2, 20), dtype=np.int64)
        # 11 costs have 2**11 sums, and no more fit.
        for count, enough in ((11, True), (12, False)):
            costs = 2.0 ** np.arange(count)
            _, lists = nearly_equal._sums_by_number(costs, count, 1e9, sums[:2], codes[:2], starts)
            assert lists == (count + 1 if enough else 0)

    def test_fitting(self):
        prefix = np.array([0.0, 2.0, 3.0, 3.0, 7.0])
        for first in range(5):
            for last in range(first, 5):
                for aim in (-1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 8.0):
                    fitting = [k for k in range(first, last + 1) if prefix[k] <= aim]
                    expected = max(fitting, default=first - 1)
                    assert nearly_equal._fitting(prefix, first, last, aim) == expected

    def test_exchanges(self):
        rng = np.random.default_rng(9)
        for _ in range(60):
            weights = np.sort(rng.integers(100, 140, 11)).astype(np.float64)[::-1].copy()
            edge = int(rng.integers(3, 8))
            gap = float(rng.integers(1, 60))
            starts = np.empty((4, 60), dtype=np.int64)
            arrays = (np.empty((2, 50)), *scratch(), starts)
            least, before, after, limit, done, _ = nearly_equal._exchange(
                weights, 1, 10, edge, gap, np.inf, 0.0, arrays
            )
            sums = {sum(chosen) for chosen in combinations(weights[1:10], edge - 1)}
            start = weights[1:edge].sum()
            expected = min(abs(start - entry - gap) for entry in sums)
            assert done
            assert least == expected
            assert limit >= gap + least or least == 0
            members = set(range(1, edge))
            members ^= {edge - 1 - k for k in range(10) if before >> k & 1}
            members ^= {edge + k for k in range(10) if after >> k & 1}
            assert len(members) == edge - 1
            assert abs(start - sum(weights[k] for k in members) - gap) == least
