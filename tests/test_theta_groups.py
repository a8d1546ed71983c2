"""Rows of several groups of nearly equal weights: `theory.theta._groups` and the method "groups".

grouped_attention.npz holds 9 rows of causal attention of a 36-layer GPT, d = 64, early in its
training, 7 of layer 18 and 2 of layer 0: float32 `weights` (9, 128), padded with zeros, of which a
row sees the first `lengths`. Most have two groups of weights, those of the one half as large again
as those of the other, with spreads of about 1e-5 and 3e-3, and a few weights in between.
"""

import itertools
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from theta_reference import exact, reference_theta

import theory.theta._float_kernels as floats
import theory.theta._found as found_module
import theory.theta._groups as groups
import theory.theta._small_rows as small_rows
from theory.theta import Status, solve_theta, theta_rows

DTYPES = (np.float64, np.float32, ml_dtypes.bfloat16)
NO_LIMIT = found_module.Deadline(None)


def grouped_attention() -> list[np.ndarray]:
    with np.load(Path(__file__).with_name("grouped_attention.npz")) as data:
        rows = zip(data["weights"], data["lengths"], strict=True)
        return [weights[:length] for weights, length in rows]


def grouped(
    rng: np.random.Generator, length: int, dtype: type, outliers: int = 0, tiny: int = 0
) -> np.ndarray:
    """2 to 4 groups, a few weights 0.2 to 20 % off, and some of 1e-8 to 1e-3 of the total."""
    number = int(rng.integers(2, 5))
    share = rng.dirichlet(np.full(number, 3.0))
    spread = 10.0 ** rng.uniform(-7, -3, number)
    group = rng.choice(number, length, p=share)
    weights = rng.uniform(0.8, 1.2, number)[group]
    weights *= 1 + spread[group] * rng.standard_normal(length)
    weights[:outliers] *= 1 + rng.choice([-1, 1], outliers) * rng.uniform(0.002, 0.2, outliers)
    weights[outliers : outliers + tiny] = length * 10.0 ** rng.uniform(-8, -3, tiny)
    return rng.permutation(weights / weights.sum()).astype(dtype)


def descending(row: np.ndarray) -> np.ndarray:
    return np.sort(row.astype(np.float64))[::-1].copy()


def gap_of(row: np.ndarray, taken: np.ndarray) -> Fraction:
    """|w(S) − w(complement)| / W, exactly."""
    numbers = exact(row.astype(np.float64))
    signed = (w if t else -w for w, t in zip(numbers, taken, strict=True))
    return abs(sum(signed, Fraction(0))) / sum(numbers)


def check_witness(row: np.ndarray, value: float, taken: np.ndarray) -> None:
    assert value == float(1 - gap_of(row, taken) ** 2)


def theta_by_intervals(row: np.ndarray, runs: int) -> Fraction | None:
    """The exact θ where no number of weights of each run alone leaves it open; otherwise None.

    The descending weights are cut into runs at their largest steps. So many of each have a mass
    between that of the smallest and that of the largest of them: if half the total is outside,
    one of these two masses is the closest of all.
    """
    weights = sorted(exact(row.astype(np.float64)), reverse=True)
    steps = [weights[k] - weights[k + 1] for k in range(len(weights) - 1)]
    cuts = sorted(sorted(range(len(steps)), key=lambda k: -steps[k])[: runs - 1])
    edges = [0, *(cut + 1 for cut in cuts), len(weights)]
    parts = [weights[a:b] for a, b in itertools.pairwise(edges)]
    half = sum(weights) / 2
    ends = []
    for part in parts:
        sums = [Fraction(0), *itertools.accumulate(part)]
        ends.append([(sums[-1] - sums[len(part) - k], sums[k]) for k in range(len(part) + 1)])
    closest = half
    for choice in itertools.product(*ends):
        low = sum((pair[0] for pair in choice), Fraction(0))
        high = sum((pair[1] for pair in choice), Fraction(0))
        if low < half < high:
            return None
        closest = min(closest, abs(low - half), abs(high - half))
    return 1 - (closest / half) ** 2


def settled(weights: np.ndarray, steps: int = 2**20) -> tuple[float, int, np.ndarray]:
    """`settle_groups` of descending weights, without its steps but with the subset."""
    n = len(weights)
    taken = np.ones(n + 1, np.bool_)
    scratch = np.full(2**10, np.nan)
    total = floats.pair_sum(weights, n)
    value, status, _ = groups.settle_groups(weights, n, *total, steps, scratch, taken)
    assert taken[n]
    return value, status, taken[:n]


class TestAgainstTheReference:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_short_rows(self, dtype):
        rng = np.random.default_rng([1, DTYPES.index(dtype)])
        statuses = []
        for length in range(2, 18):
            for outliers, tiny in ((0, 0), (2, 0), (1, 1), (0, 1)):
                # Powers of two beside the sum, to which θ is indifferent.
                row = descending(grouped(rng, length, dtype, outliers, tiny)) * 2.0 ** (10 * length)
                best = reference_theta(row)
                value, status, taken = settled(row)
                statuses.append(status)
                solution = solve_theta(row, method="groups")
                assert solution.lower <= best <= solution.upper
                assert solution.theta == float(best)
                if status == small_rows.OPEN:
                    assert np.isnan(value)
                    continue
                assert value == float(best)
                check_witness(row, value, taken)
                if status == small_rows.OPTIMAL:
                    assert 1 - gap_of(row, taken) ** 2 == best
        assert statuses.count(small_rows.OPTIMAL) >= 30
        # Only doubles of very different sizes have a unit that is too small.
        assert (small_rows.OPEN in statuses) == (dtype is np.float64)

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("length", [20, 24, 25, 27, 30])
    def test_rows_of_the_batch(self, dtype, length):
        rng = np.random.default_rng([2, length, DTYPES.index(dtype)])
        rows = [grouped(rng, length, dtype, *extra) for extra in ((0, 0), (4, 0), (3, 3))]
        got, status = theta_rows(rows, check_sum=False, return_status=True)
        assert (status != Status.BOUNDED).all()
        for row, value in zip(rows, got, strict=True):
            assert value == float(reference_theta(row.astype(np.float64)))
            assert solve_theta(row).theta == value

    @given(
        base=st.lists(st.integers(1, 2**50), min_size=1, max_size=4),
        picks=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), min_size=1, max_size=11),
        share=st.fractions(0, 1),
        near=st.booleans(),
    )
    def test_the_greatest_mass_below_any_cap(self, base, picks, share, near):
        values = sorted((base[pick % len(base)] + more for pick, more in picks), reverse=True)
        cap = int(share * sum(values))
        masses = {0}
        for value in values:
            masses |= {mass + value for mass in masses}
        best = max(mass for mass in masses if mass <= cap)
        goal = cap - cap // 10 if near else cap
        found = groups.groups(values, cap, goal, NO_LIMIT)
        mass = found_module.mass_of(values, found.chosen)
        assert mass <= best
        if goal <= best:
            assert goal <= mass
            assert best <= found.limit <= cap
        else:
            assert mass == best == found.limit

    def test_wide_values(self):
        # Beyond 2**62 the limit is off by less than a unit of the quotients for each value.
        rng = np.random.default_rng(3)
        for _ in range(40):
            base = [int(k) << 60 for k in rng.integers(2**30, 2**31, 3)]
            values = [base[k % 3] + int(d) for k, d in enumerate(rng.integers(0, 2**62, 11))]
            values.sort(reverse=True)
            cap = sum(values) // 2
            masses = [0]
            for value in values:
                masses += [mass + value for mass in masses]
            best = max(mass for mass in masses if mass <= cap)
            found = groups.groups(values, cap, cap, NO_LIMIT)
            shift = sum(values).bit_length() - groups.MAX_TOTAL_BITS
            assert shift > 0
            mass = found_module.mass_of(values, found.chosen)
            assert mass <= best <= found.limit <= mass + (len(values) << shift)

    def test_what_remainders_leave_ends_the_search(self):
        # Multiples of 4 and a 1: W = 4K + 1 with K odd, of which no mass is closer than 2K − 1.
        rng = np.random.default_rng(12)
        quarters = rng.integers(500, 1000, 60)
        quarters[0] += quarters.sum() % 2 == 0
        weights = descending(np.append(4 * quarters, 1))
        value, status, taken = settled(weights, steps=2**13)
        assert status == small_rows.OPTIMAL
        assert gap_of(weights, taken) * int(weights.sum()) == 3
        check_witness(weights, value, taken)

    def test_doubles_of_units_that_are_too_small(self):
        rng = np.random.default_rng(11)
        statuses = []
        for length, tiny in ((48, 4), (90, 12), (200, 20)):
            for _ in range(6):
                row = descending(grouped(rng, length, np.float64, tiny=tiny))
                unit = small_rows.common_unit(row, length)
                assert floats.pair_sum(row, length)[0] > 2.0**61 * unit
                value, status, taken = settled(row)
                statuses.append(status)
                if status == small_rows.OPEN:
                    assert np.isnan(value)
                    assert gap_of(row, taken) > Fraction(1, 2**27)
                    assert solve_theta(row, method="groups").theta < 1.0
                else:
                    assert (value, status) == (1.0, small_rows.ROUNDED)
                    assert gap_of(row, taken) <= Fraction(1, 2**27)
        assert set(statuses) == {small_rows.OPEN, small_rows.ROUNDED}

    def test_a_cap_that_only_rounding_meets(self):
        # The quotients by 2⁹ fit exactly; the values themselves do not.
        values = [2**70 + 511, 2**70 + 511, 2**69]
        cap = 2**71 + 1000
        found = groups.groups(values, cap, cap, NO_LIMIT)
        assert found_module.mass_of(values, found.chosen) <= cap == found.limit


class TestRealRows:
    def test_every_row_is_settled(self):
        proved = 0
        for row in grouped_attention():
            got, status, subset = theta_rows(
                [row], check_sum=False, return_status=True, return_subset=True
            )
            solution = solve_theta(row)
            assert status[0] != Status.BOUNDED
            assert solution.theta == got[0]
            check_witness(row, got[0], subset[0])
            best = theta_by_intervals(row, 2) or theta_by_intervals(row, 3)
            if best is not None:
                proved += 1
                assert got[0] == float(best) < 1.0
                assert solution.lower == solution.upper == best
            elif got[0] < 1.0:
                assert len(row) <= 40
                assert got[0] == float(reference_theta(row))
        assert proved >= 3

    def test_permutations_and_scales(self):
        rng = np.random.default_rng(4)
        for row in grouped_attention():
            value = theta_rows([row], check_sum=False)[0]
            moved = np.stack([rng.permutation(row) for _ in range(3)])
            assert (theta_rows(moved, check_sum=False) == value).all()
            assert theta_rows([row * np.float32(8)], check_sum=False)[0] == value

    def test_a_wrong_subset_is_refuted(self):
        for row in grouped_attention():
            got, subset = theta_rows([row], check_sum=False, return_subset=True)
            if got[0] == 1.0:
                continue
            inside, outside = np.flatnonzero(subset[0]), np.flatnonzero(~subset[0])
            wrong = subset[0].copy()
            wrong[[inside[0], outside[row[outside] != row[inside[0]]][0]]] ^= True
            with pytest.raises(AssertionError):
                check_witness(row, got[0], wrong)


class TestLongRows:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("length", [45, 59, 75, 128, 256])
    def test_no_row_stays_open(self, dtype, length):
        rng = np.random.default_rng([5, length, DTYPES.index(dtype)])
        rows = np.stack(
            [
                grouped(rng, length, dtype, outliers, tiny)
                for outliers in (0, 4, 12)
                for tiny in (0, 8)
                for _ in range(2)
            ]
        )
        got, status, subset = theta_rows(
            rows, check_sum=False, return_status=True, return_subset=True
        )
        assert (status != Status.BOUNDED).all()
        for row, value, taken in zip(rows, got, subset, strict=True):
            check_witness(row, value, taken)

    def test_rows_that_numbers_alone_decide(self):
        rng = np.random.default_rng(6)
        decided = 0
        for length in (45, 59, 75, 90):
            for dtype in (np.float64, np.float32):
                for _ in range(4):
                    group = rng.random(length) < rng.uniform(0.2, 0.8)
                    weights = np.where(group, rng.uniform(1.05, 1.3), 1.0)
                    weights *= 1 + 1e-6 * rng.standard_normal(length)
                    row = (weights / weights.sum()).astype(dtype)
                    best = theta_by_intervals(row, 2)
                    solution = solve_theta(row, method="groups")
                    value = theta_rows([row], check_sum=False)[0]
                    assert value == solution.theta == float(solution.lower)
                    if best is not None:
                        decided += 1
                        assert solution.lower == solution.upper == best
                        assert value == float(best)
        assert decided >= 16

    def test_coarse_rows_against_reachable_sums(self):
        rng = np.random.default_rng(7)
        for _ in range(8):
            base = [int(k) for k in rng.integers(1500, 2500, 3)]
            values = [base[k % 3] + int(d) for k, d in enumerate(rng.integers(0, 3, 60))]
            values = sorted((64 * value for value in values), reverse=True)
            values[-1] += 1
            reachable = 1
            for value in values:
                reachable |= reachable << value
            half = reachable & ((1 << sum(values) // 2 + 1) - 1)
            found = groups.groups(values, sum(values) // 2, sum(values) // 2, NO_LIMIT)
            mass = found_module.mass_of(values, found.chosen)
            assert mass == half.bit_length() - 1
            assert found.limit == (sum(values) // 2 if mass == sum(values) // 2 else mass)


class TestParts:
    def test_cuts(self):
        rng = np.random.default_rng(8)
        for size in (1, 2, 5, 12, 30):
            numbers = np.sort(rng.integers(0, 8, size) + 1)[::-1].copy()
            prefix, cuts, levels, place, _ = groups.start_search(numbers)
            values = np.diff(prefix)
            assert values.tolist() == [*numbers.tolist(), *([0] * size)]
            assert (levels[0, :4:2][0], place.tolist()) == (size, [0, 1, -1])
            # The first run is the whole. Parts that are cut again come later, others are constant.
            runs = {0: (0, 2 * size)}
            for cut, (start, at, end, left, right) in enumerate(cuts.tolist()):
                if cut not in runs:
                    break
                assert (start, end) == runs.pop(cut)
                assert start < at < end
                for child, part in ((left, (start, at)), (right, (at, end))):
                    if child == 0:
                        assert values[part[0]] == values[part[1] - 1]
                    else:
                        assert child > cut
                        runs[child] = part
            assert not runs

    def test_the_first_cuts_part_the_groups(self):
        numbers = np.array(
            [3000 + k for k in range(9, 0, -1)] + [2000 + k for k in range(5, 0, -1)]
        )
        _, cuts, *_ = groups.start_search(numbers)
        assert sorted(cuts[:2, 1].tolist()) == [9, 14]

    def test_the_largest_total(self):
        # Sums up to 2⁶² − 1, of which nothing may wrap.
        numbers = np.array([2**60, 2**60, 2**60 - 1, 2**59, 2**59])
        total = int(numbers.sum())
        assert total == 2**62 - 1
        arrays = groups.start_search(numbers)
        *_, place, taken = arrays
        groups.search_counts(*arrays, total - 1, total, 1000)
        assert place.tolist()[::2] == [-1, total - 2**59]
        assert numbers[taken[:5]].sum() == total - 2**59

    def test_pauses_change_nothing(self):
        rng = np.random.default_rng(9)
        # No sum is odd, so that nothing ends the search early.
        numbers = 2 * np.sort(rng.integers(10**6, 10**7, 14))[::-1].copy()
        cap = int(numbers.sum()) // 2 | 1
        whole = groups.start_search(numbers)
        steps = groups.search_counts(*whole, cap, cap, 10**9)
        assert steps > 200
        paused = groups.start_search(numbers)
        taken_steps = 0
        while paused[3][0] >= 0:
            done = groups.search_counts(*paused, cap, cap, 3)
            assert done <= 3
            taken_steps += done
        assert taken_steps == steps
        assert whole[3][2] == paused[3][2]
        assert (whole[4] == paused[4]).all()


class TestGivingUp:
    ROW = np.exp(0.3 * np.random.default_rng(10).standard_normal(48))

    def test_after_so_many_steps(self):
        weights = descending(self.ROW)
        value, status, taken = settled(weights, steps=60)
        assert np.isnan(value)
        assert status == small_rows.OPEN
        assert gap_of(weights, taken) < Fraction(1, 100)
        assert settled(weights)[:2] == (1.0, small_rows.ROUNDED)

    def test_a_budget_of_nothing(self):
        values = [2 * int(1e6 * w) for w in sorted(self.ROW, reverse=True)]
        cap = sum(values) // 2 | 1
        found = groups.groups(values, cap, cap, found_module.Deadline(0))
        assert found_module.mass_of(values, found.chosen) < cap == found.limit
        found = groups.groups(values, cap, cap, NO_LIMIT, most=100)
        assert found_module.mass_of(values, found.chosen) < cap == found.limit

    def test_rows_for_other_methods(self):
        with pytest.raises(ValueError, match="method 'groups' needs at most 4096 items"):
            solve_theta(np.arange(1, 4098), method="groups")

    def test_nothing_to_leave_out(self):
        found = groups.groups([5, 3], 9, 9, NO_LIMIT)
        assert (found.chosen, found.limit) == (3, 8)
