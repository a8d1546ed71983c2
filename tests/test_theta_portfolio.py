"""The methods of the portfolio one by one: kernels, searches, bounds, budgets."""

import itertools
import os
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_rows import differences, sample
from test_theta import KNOWN
from theta_reference import closest_by_halves, exact, reference_theta

from theory.theta import Status, closest_mass, solve_theta, theta_rows
from theory.theta import _cardinality as cardinality
from theory.theta import _few_values as few_values
from theory.theta import _found as found_module
from theory.theta import _kernels as kernels
from theory.theta import _quarters as quarters
from theory.theta import _search as search
from theory.theta import _sums as sums

NO_LIMIT = found_module.Deadline(None)
PASSED = found_module.Deadline(0)

small_values = st.lists(st.integers(1, 60), min_size=1, max_size=10)
near_values = st.tuples(
    st.integers(100, 4000), st.lists(st.integers(0, 99), min_size=1, max_size=11)
)
wide_values = st.lists(st.integers(1, 2**100), min_size=1, max_size=11)
values_of_all_kinds = st.one_of(
    small_values, wide_values, near_values.map(lambda pair: [pair[0] + k for k in pair[1]])
).map(lambda values: sorted(values, reverse=True))


class Countdown(found_module.Deadline):
    """A deadline that passes after a number of looks at it."""

    def __init__(self, looks: int) -> None:
        super().__init__(None)
        self.looks = looks

    def passed(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def all_sums(values: list[int]) -> list[int]:
    reached = {0}
    for value in values:
        reached |= {mass + value for mass in reached}
    return sorted(reached)


def greatest(values: list[int], cap: int) -> int:
    return max(mass for mass in all_sums(values) if mass <= cap)


def limbs(numbers: list[int]) -> found_module.Limbs:
    return found_module.limbs(numbers)


def as_numbers(pair: found_module.Limbs) -> list[int]:
    return [found_module.joined(hi, lo) for hi, lo in zip(*pair, strict=True)]


ascending = st.lists(st.integers(0, 2**70), min_size=1, max_size=8).map(sorted)


class TestKernels:
    @given(ascending, ascending, st.integers(1, 2**70), st.integers(0, 2**71))
    def test_merging(self, first, second, item, cap):
        out = np.empty((2, len(first) + len(second)), dtype=np.int64)
        count = kernels.merge_shifted(
            *limbs(first), *limbs(second), *found_module.split(item), *found_module.split(cap), *out
        )
        expected = sorted({x for x in [*first, *(y + item for y in second)] if x <= cap})
        assert as_numbers((out[0, :count], out[1, :count])) == expected

    @given(ascending, ascending, st.integers(-5, 2**72))
    def test_pairs(self, first, second, cap):
        split_cap = found_module.split(cap)
        pairs = [x + y for x, y in itertools.product(first, second)]
        below = [mass for mass in pairs if mass <= cap]
        i, j = kernels.best_pair(*limbs(first), *limbs(second), *split_cap, *split_cap)
        if below:
            assert first[i] + second[j] == max(below)
        else:
            assert (i, j) == (0, 0)
        above = [mass for mass in pairs if mass >= cap]
        i, j = kernels.least_pair(*limbs(first), *limbs(second), *split_cap, *split_cap)
        if above:
            assert first[i] + second[j] == min(above)
        else:
            assert (i, j) == (-1, -1)

    def test_least_pair_may_stop_early(self):
        first, second = [0, 1, 2, 3], [0, 10, 20]
        pair = kernels.least_pair(*limbs(first), *limbs(second), 0, 0, 0, 25)
        assert 0 <= first[pair[0]] + second[pair[1]] <= 25
        assert tuple(pair) != (0, 0)

    @given(ascending, ascending)
    def test_sums_come_up_in_order(self, first, second):
        a, b = np.array(limbs(first)), np.array(limbs(second))
        heap, partner = np.arange(len(first)), np.zeros(len(first), dtype=np.int64)
        present = np.array(limbs([x + second[0] for x in first]))
        size, drawn = len(first), []
        while size:
            top = heap[0]
            drawn.append(found_module.joined(*present[:, top]))
            size = kernels.advance(heap, size, partner, *present, *a, *b)
        assert drawn == sorted(x + y for x, y in itertools.product(first, second))


EXACT = ["gray", "mitm", "quarters", "branch", "cardinality"]


class TestSearches:
    @pytest.mark.parametrize("name", EXACT)
    @given(values=values_of_all_kinds, share=st.fractions(0, 1))
    def test_the_greatest_mass_below_any_cap(self, name, values, share):
        cap = int(share * sum(values))
        found = search.SEARCHES[name](values, cap, cap, NO_LIMIT)
        best = greatest(values, cap)
        assert found_module.mass_of(values, found.chosen) == best
        assert found.limit == best

    @pytest.mark.parametrize("name", [*EXACT, "fill", "dp", "probe", "first_fill"])
    @given(
        values=small_values, share=st.fractions(0, 1), looks=st.integers(0, 6), near=st.booleans()
    )
    def test_giving_up_and_stopping_early(self, name, values, share, looks, near):
        values = sorted(values, reverse=True)
        cap = int(share * sum(values))
        goal = cap - cap // 10 if near else cap
        by_name = search.SEARCHES | {"probe": search.probe, "first_fill": search.first_fill}
        found = by_name[name](values, cap, goal, Countdown(looks))
        mass = found_module.mass_of(values, found.chosen)
        assert mass <= greatest(values, cap) <= found.limit <= cap

    @pytest.mark.parametrize("name", EXACT)
    def test_longer_values(self, name):
        rng = np.random.default_rng(1)
        for length in (14, 19, 22):
            values = sorted(
                (int(k) << 40 | int(k) for k in rng.integers(1, 2**50, length)), reverse=True
            )
            if name == "cardinality":
                values = [2**80 + value for value in values]
            cap = sum(values) // 2
            found = search.SEARCHES[name](values, cap, cap, NO_LIMIT)
            best = int(closest_by_halves([Fraction(v) for v in values], Fraction(cap))[0])
            assert found_module.mass_of(values, found.chosen) == best == found.limit

    def test_many_values_with_few_distinct_sums(self):
        # 300 multiples of a coarse unit and 40 small ones: far beyond 44 items.
        rng = np.random.default_rng(2)
        coarse = [int(k) << 20 for k in rng.integers(1, 64, 300)]
        fine = [int(k) for k in rng.integers(1, 2**10, 40)]
        values = sorted(coarse + fine, reverse=True)
        assert sums.mitm_suits(values)
        cap = sum(values) // 3
        found = search.mitm(values, cap, cap, NO_LIMIT)
        reachable = 1
        for value in fine:
            reachable |= reachable << value
        fine_sums = [k for k in range(reachable.bit_length()) if reachable >> k & 1]
        coarse_reachable = 1
        for value in coarse:
            coarse_reachable |= coarse_reachable << (value >> 20)
        best = max(
            (k << 20) + max(f for f in fine_sums if f <= cap - (k << 20))
            for k in range((cap >> 20) + 1)
            if coarse_reachable >> k & 1
        )
        assert found_module.mass_of(values, found.chosen) == best == found.limit

    @given(small_values)
    def test_counts_of_sums_are_bounds(self, values):
        values = sorted(values, reverse=True)
        for k, bound in enumerate(sums.sum_counts(values)):
            assert len(all_sums(values[:k])) <= bound
        cut, longest = sums.best_cut(values)
        assert len(values) == 1 or 1 <= cut < len(values)
        assert max(len(all_sums(values[:cut])), len(all_sums(values[cut:]))) <= longest

    def test_counts_of_few_values(self):
        assert sums.sum_counts([6, 4, 3]) == [1, 2, 4, 8]
        assert sums.sum_counts([1, 1, 1]) == [1, 2, 3, 4]
        assert sums.sum_counts([1, 1, 1], most=3) == [1, 2, 3]

    def test_no_digit_of_narrow_free_values_is_lost(self):
        values = [9, 7, 5, 3, 1]
        chosen = search._completed(values, 0, list(range(5)), 17, 17, NO_LIMIT)
        assert found_module.mass_of(values, chosen) == 17

    def test_branch_visits_as_many_nodes_as_allowed(self):
        rng = np.random.default_rng(8)
        values = sorted((int(k) for k in rng.integers(2**39, 2**41, 38)), reverse=True)
        deadline = Countdown(100)
        search.branch(values, sum(values) // 2, sum(values) // 2, deadline, nodes=5)
        assert deadline.looks == 95

    def test_branch_goes_on_where_its_probe_gives_up(self):
        rng = np.random.default_rng(8)
        values = sorted((int(k) for k in rng.integers(2**39, 2**41, 38)), reverse=True)
        cap = sum(values) // 3
        exact_mass = search.mitm(values, cap, cap, NO_LIMIT).limit
        for limits in ({"leaves": 1}, {"nodes": 20}):
            found = search.branch(values, cap, cap, NO_LIMIT, **limits)
            assert found.limit == cap
            assert found_module.mass_of(values, found.chosen) <= exact_mass
        found = search.branch(values, cap, cap, NO_LIMIT)
        assert found_module.mass_of(values, found.chosen) == found.limit == exact_mass

    def test_auto_ends_with_a_complete_search(self):
        for length, last in ((30, "mitm"), (50, "quarters"), (53, "branch")):
            values = [2**60 + 3**k for k in range(length, 0, -1)]
            assert search.last_resort(values, 2**60) == last

    @pytest.mark.parametrize("method", ["quarters", "few", "cardinality", "branch"])
    @pytest.mark.parametrize(("weights", "discrepancy"), KNOWN)
    def test_known_rows(self, weights, discrepancy, method):
        try:
            solution = solve_theta(weights, method=method)
        except ValueError as error:
            assert method == "few"
            assert "choices of multiplicities" in str(error)  # noqa: PT017 (either is right)
            return
        total = sum(exact(weights))
        expected = 1 - (Fraction(discrepancy) / total) ** 2
        assert solution.lower <= expected <= solution.upper
        if solution.status is Status.OPTIMAL:
            assert solution.discrepancy == discrepancy
        else:
            assert method in ("cardinality", "branch")

    def test_limits_of_quarters(self):
        with pytest.raises(ValueError, match="'quarters' needs at most 60 items"):
            solve_theta([2**k + 1 for k in range(61)], method="quarters")
        with pytest.raises(ValueError, match=r"'quarters' needs weights that span less than 2\*\*"):
            solve_theta([2**122 + 1, 2**121, 2**120], method="quarters")
        with pytest.raises(ValueError, match=r"'cardinality' needs weights that span less than 2"):
            solve_theta([2**122 + 1, 2**121, 2**120], method="cardinality")
        assert search.quarters([], 0, 0, NO_LIMIT) == search.Found(0, 0)

    def test_quarters_beyond_the_lists_of_mitm(self):
        # 46 values with a subset that meets the cap, found and so proved with little memory.
        rng = np.random.default_rng(3)
        values = sorted((int(k) for k in rng.integers(2**34, 2**35, 46)), reverse=True)
        cap = sum(values[::3])
        found = quarters.quarters(values, cap, cap, found_module.Deadline(30))
        assert found_module.mass_of(values, found.chosen) == cap


class TestNumbersOfItems:
    @given(values_of_all_kinds, st.fractions(0, 1))
    def test_what_does_not_straddle_is_settled(self, values, share):
        cap = int(share * sum(values))
        prefix = [0, *itertools.accumulate(values)]
        for first in range(len(values) + 1):
            rest = values[first:]
            fitting, straddling = cardinality.straddling_counts(prefix, first, cap)
            masses = {
                k: [sum(chosen) for chosen in itertools.combinations(rest, k)]
                for k in range(min(len(rest), 5) + 1)
            }
            for k, reached in masses.items():
                assert (k <= fitting) is (max(reached) <= cap)
                assert (k in straddling) is (min(reached) <= cap < max(reached))
            if not straddling:
                assert greatest(rest, cap) == sum(rest[:fitting])

    @given(st.lists(st.integers(0, 50), min_size=1, max_size=13).map(sorted), st.integers(0, 300))
    def test_sums_by_number(self, costs, most):
        lists = cardinality._sums_by_number(costs, most, NO_LIMIT)
        for number in range(len(costs) + 2):
            expected = {sum(c) for c in itertools.combinations(costs, number)}
            expected = sorted(total for total in expected if total <= most)
            got = as_numbers(lists[number]) if number < len(lists) else []
            assert got == expected

    def test_too_many_sums_leave_the_answer_open(self, monkeypatch):
        monkeypatch.setattr(cardinality, "_MAX_SUMS", 10)
        offsets = np.random.default_rng(4).integers(0, 2**39, 25)
        values = sorted((2**40 + int(k) for k in offsets), reverse=True)
        cap = sum(values) // 2
        found = cardinality.cardinality(values, cap, cap, NO_LIMIT)
        assert found.limit == cap
        assert found_module.mass_of(values, found.chosen) < cap

    @pytest.mark.parametrize(("length", "deviation"), [(45, 0.03), (65, 0.02), (129, 0.01)])
    def test_rows_just_beyond_the_closed_form(self, length, deviation):
        rng = np.random.default_rng([length, 7])
        methods = set()
        for _ in range(20):
            row = np.exp(deviation * rng.standard_normal(length))
            solution = solve_theta(row)
            assert solution.status is not Status.BOUNDED
            methods.add(solution.method)
            if solution.method == "exchange" and solution.status is Status.OPTIMAL:
                # Branch and bound proves the same from the other end.
                values = sorted(exact(row), reverse=True)
                unit = min(1 / Fraction(v.denominator) for v in values)
                numbers = [int(v / unit) for v in values]
                found = search.branch(numbers, sum(numbers) // 2, sum(numbers) // 2, NO_LIMIT)
                assert sum(numbers) - 2 * found.limit == solution.discrepancy / unit
        assert "exchange" in methods

    def test_multiples_of_a_common_difference_are_near(self):
        # The 50 heaviest of 100 are 1250 differences beyond the cap.
        even = [10**13 + (k << 20) for k in range(99, -1, -1)]
        assert cardinality.exchange_distance(even, sum(even) // 2) == cardinality.FAR
        uneven = [*even[:-1], even[-1] + 1]
        assert cardinality.exchange_distance(uneven, sum(uneven) // 2) > 1000

    @pytest.mark.parametrize(("length", "numbers"), [(19, 4), (24, 5)])
    def test_up_to_four_numbers_of_items_are_few(self, length, numbers):
        values = [1000 + 50 * k for k in range(length - 1, -1, -1)]
        cap = sum(values) // 2
        prefix = [0, *itertools.accumulate(values)]
        assert len(cardinality.straddling_counts(prefix, 0, cap)[1]) == numbers
        assert np.isfinite(cardinality.exchange_distance(values, cap)) == (numbers == 4)

    def test_a_sum_of_nothing_is_a_sum(self):
        assert len(set(cardinality._subset_with_number([0] * 12, 3, 0, NO_LIMIT))) == 3

    def test_copies_are_counted_one_by_one(self):
        # Three copies of each value would be v and 2v for the other searches.
        rng = np.random.default_rng(9)
        values = [2**30 + int(k) for k in rng.integers(0, 2**24, 15)]
        weights = values * 3
        solution = solve_theta(weights)
        assert solution.status is not Status.BOUNDED
        assert solution.theta == float(solve_theta(weights, method="mitm").lower)

    def test_fill_by_number_wants_nearly_equal_values(self):
        values = [3**k for k in range(60, 0, -1)]
        cap = sum(values) // 2
        assert cardinality.fill_by_number(values, cap, cap, 24, NO_LIMIT) == 0
        near = [10**9 + 7 * k for k in range(100, 0, -1)]
        cap = sum(near) // 2
        chosen = cardinality.fill_by_number(near, cap, cap, 24, NO_LIMIT)
        assert 0 < found_module.mass_of(near, chosen) <= cap
        assert cardinality.fill_by_number(near, cap, cap, 24, PASSED) == 0


class TestReachableCaps:
    @given(
        st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6)), min_size=1, max_size=9),
        st.sampled_from([2, 3, 5]),
        st.fractions(0, 1),
    )
    @settings(max_examples=600)
    def test_no_sum_lies_between_the_bound_and_the_cap(self, parts, base, share):
        values = sorted((k * base**power for k, power in parts), reverse=True)
        cap = int(share * sum(values))
        best = greatest(values, cap)
        assert best <= search.reachable_cap(values, cap) <= cap
        assert best <= search.difference_bound(values, cap) <= cap

    @given(
        st.integers(1, 1000),
        st.integers(1, 50),
        st.lists(st.integers(0, 20), min_size=1, max_size=9),
        st.fractions(0, 1),
    )
    def test_progressions(self, first, step, places, share):
        values = sorted((first + step * k for k in places), reverse=True)
        cap = int(share * sum(values))
        assert greatest(values, cap) <= search.difference_bound(values, cap) <= cap

    def test_known_bounds(self):
        # Parity, a divisor with a small rest, a lone odd weight, and a common difference.
        assert search.reachable_cap([6, 4, 4, 4], 9) == 8
        assert search.reachable_cap([9, 9, 9, 1, 1], 17) == 11
        assert search.reachable_cap([5, 4, 4, 4, 4, 4, 4], 15) == 13
        assert search.difference_bound([1030, 1020, 1010, 1000], 2035) == 2030
        assert search.difference_bound([7, 7, 7], 20) == 14
        assert search.reachable_cap([2**80 + 1, 2**80], 2**80) == 2**80


class TestFewValues:
    @given(
        st.lists(st.integers(1, 10**6), min_size=1, max_size=3, unique=True),
        st.lists(st.integers(1, 7), min_size=3, max_size=3),
        st.fractions(0, 1),
    )
    def test_against_all_sums(self, distinct, copies, share):
        values = sorted((v for v, m in zip(distinct, copies) for _ in range(m)), reverse=True)  # noqa: B905
        cap = int(share * sum(values))
        places, proved = few_values.closest_multiplicities(values, cap, NO_LIMIT)
        assert proved
        assert len(set(places)) == len(places)
        assert sum(values[k] for k in places) == greatest(values, cap)

    def test_limits(self, monkeypatch):
        with pytest.raises(ValueError, match="'few' needs at most 1048576 choices"):
            solve_theta([2**k for k in range(22)], method="few")
        solution = solve_theta([2**k + 1 for k in range(20)] + [1] * 3, method="few", budget=0)
        assert solution.status is Status.BOUNDED
        assert solution.lower <= solution.upper == 1


class TestClosestMass:
    def test_beyond_the_lists_numbers_of_items_prove(self):
        # 101 nearly equal weights: the sums of 50 of them and of 51 leave a gap around the target.
        weights = [10**12 + int(k) for k in np.random.default_rng(5).integers(0, 10**9, 101)]
        target = 50 * 10**12 + 80 * 10**9
        closest = closest_mass(weights, target)
        ordered = sorted(weights)
        assert closest.status is Status.OPTIMAL
        assert (closest.below, closest.above) == (sum(ordered[-50:]), sum(ordered[:51]))

    def test_a_common_difference_proves(self):
        weights = [10**9 + 7 * k for k in range(200)]
        target = sum(weights) // 2 + 3
        closest = closest_mass(weights, target)
        assert closest.status is Status.OPTIMAL
        # Sums of 100 weights are 100·10⁹ plus multiples of 7; other numbers are far.
        over = (target - 100 * 10**9) % 7
        assert (closest.below, closest.above) == (target - over, target - over + 7 * (over > 0))

    def test_common_divisors_prove(self):
        weights = [4 * int(k) << 60 for k in np.random.default_rng(6).integers(2**40, 2**41, 70)]
        closest = closest_mass([*weights, 1], sum(weights) // 2 + 2)
        lows, highs = closest.bounds
        assert lows[0] == closest.below <= lows[1] <= sum(weights) // 2 + 2 <= highs[0]

    def test_heavy_weights_are_branched_on(self):
        weights = [2**k * 3**20 + k**5 for k in range(60)]
        target = Fraction(sum(weights), 3)
        closest = closest_mass(weights, target)
        assert closest.status is Status.OPTIMAL
        assert closest.below <= target <= closest.above

    @pytest.mark.parametrize("length", [37, 40])
    def test_forty_floats(self, length):
        weights = np.random.default_rng(length).dirichlet(np.ones(length))
        closest = closest_mass(weights, 0.3)
        assert closest.status is Status.OPTIMAL
        assert (closest.below, closest.above) == closest_by_halves(exact(weights), Fraction(0.3))


def adversarial(count: int, unit_bits: int) -> list[int]:
    """No subset comes close, and which is best is a question of exponentially many subsets.

    Multiples of 2^unit_bits with an odd sum, and perturbations too small to make up for one unit.
    """
    rng = np.random.default_rng(count)
    multiples = [int(k) for k in rng.integers(1000, 2000, count)]
    multiples[0] += 1 - sum(multiples) % 2
    perturbations = rng.integers(1, 2**30, count)
    return [(m << unit_bits) + int(k) for m, k in zip(multiples, perturbations, strict=True)]


class TestBudgets:
    @pytest.mark.parametrize(
        ("count", "unit_bits"), [(40, 130), (44, 50), (50, 50), (61, 50), (61, 130), (500, 50)]
    )
    def test_a_tenth_of_a_second(self, count, unit_bits):
        weights = adversarial(count, unit_bits)
        solve_theta(weights, budget=0.1)
        elapsed = []
        for _ in range(3):
            start = time.perf_counter()
            solution = solve_theta(weights, budget=0.1)
            elapsed.append(time.perf_counter() - start)
        # The least of three, because other work on the machine is no fault of the solver.
        assert min(elapsed) < 0.2
        assert solution.status is Status.BOUNDED
        assert np.isnan(solution.theta)
        total = sum(weights)
        assert solution.lower == 1 - (solution.discrepancy / total) ** 2
        assert solution.lower < solution.upper <= 1

    def test_bounds_enclose_the_value(self):
        weights = adversarial(24, 50)
        expected = reference_theta(weights)
        for budget in (0, 0.001, 0.01):
            solution = solve_theta(weights, budget=budget)
            assert solution.lower <= expected <= solution.upper


class TestReference:
    def test_two_thousand_rows_agree_bit_for_bit(self):
        assert list(differences(2000, 1, 24, seed=1)) == []

    def test_a_wrong_value_would_be_seen(self, monkeypatch):
        monkeypatch.setattr("reference_rows.reference_theta", lambda row: Fraction(1, 3))
        assert len(list(differences(4, 2, 3, seed=1))) >= 4

    def test_all_kinds_are_sampled(self):
        kinds = {kind for kind, _ in sample(60, 2, 9, seed=1)}
        assert len(kinds) == 17


class TestOpenRows:
    """Cells of `tests/benchmarks/open_rows.py`, a few rows of each."""

    @pytest.mark.parametrize("deviation", [0.01, 0.02, 0.03, 0.05, 0.1])
    @pytest.mark.parametrize("length", [45, 65, 101, 129, 257, 511, 1023])
    def test_odd_lengths(self, length, deviation):
        rng = np.random.default_rng([length, round(1000 * deviation)])
        rows = np.exp(deviation * rng.standard_normal((4, length)))
        _, status = theta_rows(rows, check_sum=False, return_status=True)
        assert (status != Status.BOUNDED).all()

    def test_the_sweep_counts_by_status(self):
        script = Path(__file__).parent / "benchmarks" / "open_rows.py"
        arguments = ["--rows", "3", "--lengths", "1", "24", "--deviations", "1", "--dtype"]
        for dtype in ("float64", "bfloat16"):
            done = subprocess.run(
                [sys.executable, script, *arguments, dtype],
                cwd=script.parents[2],
                env=os.environ | {"PYTHONPATH": str(script.parents[2])},
                capture_output=True,
                text=True,
                check=True,
            )
            _, first, second, last = done.stdout.splitlines()
            assert first.split()[1:8] == ["1", "1", "0", "1", "3", "0", "0"]
            assert sum(map(int, second.split()[5:8])) == 3
            assert last == f"{dtype}: 0 rows open"
