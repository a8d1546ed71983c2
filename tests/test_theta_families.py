"""Structured families of rows whose θ is known in closed form, or by counting, at every length."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from theta_reference import exact, reference_theta

from theory.theta import Status, solve_theta, theta, theta_rows

ULP_BELOW_1 = 2.0**-53
SMALLEST = 5e-324


def theta_of(discrepancy: Fraction | int, weights: list) -> Fraction:
    return 1 - (Fraction(discrepancy) / sum(exact(weights))) ** 2


def check(weights: list, discrepancy: Fraction | int, seed: int = 0) -> None:
    """θ to the last bit, for the row and for permutations of it, and true bounds."""
    expected = theta_of(discrepancy, weights)
    solution = solve_theta(weights)
    assert solution.theta == float(expected)
    assert solution.status in (Status.OPTIMAL, Status.ROUNDED)
    assert solution.lower <= expected <= solution.upper
    if solution.status is Status.OPTIMAL:
        assert solution.discrepancy == discrepancy
    rng = np.random.default_rng(seed)
    moved = [weights[k] for k in rng.permutation(len(weights))]
    assert theta(moved, check_sum=False) == solution.theta
    assert theta_rows([weights, moved], check_sum=False).tolist() == [solution.theta] * 2


class TestEqualWeights:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_every_odd_number_up_to_4095(self, dtype):
        for count in [*range(1, 258, 2), *range(259, 4096, 64), 4095]:
            row = np.full((1, count), 1 / count, dtype=dtype)
            assert theta_rows(row, check_sum=False)[0] == float(1 - Fraction(1, count**2))

    def test_fractions(self):
        for count in (3, 5, 1023, 4095):
            assert theta([Fraction(1, count)] * count) == float(1 - Fraction(1, count**2))


class TestMultiples:
    """Weights k/M: sums are multiples of 1/M, and an odd multiple cannot be halved."""

    @pytest.mark.parametrize("seed", range(6))
    def test_odd_total(self, seed):
        rng = np.random.default_rng(seed)
        numbers = [int(k) for k in rng.integers(1, 9, rng.integers(20, 400))]
        # With ones at hand, whatever an even split of the others lacks can be made up.
        numbers += [1] * (9 + (sum(numbers) + 9 + 1) % 2)
        total = sum(numbers)
        assert total % 2 == 1
        check([Fraction(k, total) for k in numbers], Fraction(1, total))
        check([k / 2**20 for k in numbers], Fraction(1, 2**20))

    @pytest.mark.parametrize("unit", [2, 3, 7, 64, 10**6, 3**30])
    @pytest.mark.parametrize("count", [3, 5, 33, 65, 1025])
    def test_an_odd_number_of_units_and_a_small_rest(self, unit, count):
        # The parts of the units differ by one unit at least, and the rest makes up for its mass.
        for rest in ([], [1], [1] * (unit // 2) if unit < 100 else [1, unit // 3, 1]):
            check([unit] * count + rest, unit - sum(rest))

    @pytest.mark.parametrize("count", [45, 64, 513])
    def test_odd_multiples_besides_one_odd_weight(self, count):
        # One weight is 1 modulo 4 and the others 0, in all 4t + 1: a side is 0 modulo 4 and the
        # other 1. For odd t no side weighs 2t, and the best sides weigh 2t + 2 and 2t - 1.
        rng = np.random.default_rng(count)
        multiples = [4 * int(k) for k in rng.integers(1, 50, count)] + [4] * 8
        while (sum(multiples) + 184) // 4 % 2 == 0:
            multiples.append(4)
        check([*multiples, 185], 3)
        check([*multiples, 4, 185], 1)


class TestProgressions:
    @pytest.mark.parametrize("length", [1, 2, 3, 4, 21, 22, 23, 24, 45, 101, 1022, 1023])
    def test_from_one(self, length):
        weights = list(range(1, length + 1))
        check(weights, sum(weights) % 2)

    @pytest.mark.parametrize("length", [4, 8, 44, 64, 512])
    def test_groups_of_four_cancel(self, length):
        # a − (a + d) − (a + 2d) + (a + 3d) = 0.
        check([10**9 + 7 * k for k in range(length)], 0)
        check([1.0 + k * 2.0**-40 for k in range(length)], 0)

    @pytest.mark.parametrize("length", [6, 10, 46, 66, 514])
    def test_a_pair_is_left(self, length):
        # With as many on each side, the sum of ±k over k < length is odd; other numbers are far.
        check([10**9 + 7 * k for k in range(length)], 7)

    @pytest.mark.parametrize("m", [1, 2, 10, 22, 32, 64, 250])
    @pytest.mark.parametrize("step", [1, 2**20 + 7])
    def test_odd_lengths_around_the_closed_form(self, m, step):
        """a, a + d, …, a + 2m·d: m of them against m + 1.

        The sides differ by a − m²d + 2d·j where j, the sum of so many exchanges, is any number from
        0 on. For a >= m²d the least is at j = 0, the closed form; below, it is the distance of a
        from the numbers m²d + 2d·j. Other numbers on the sides leave more than that: m − 1 against
        m + 2 at least 3a − (m² − 2m − 2)d >= 2d for a >= (m² − 2m)d/3, and still others more.
        """
        least = max((m * m - 2 * m) * step // 3 + 1, 1)
        edge = m * m * step
        rng = np.random.default_rng([m, step])
        for first in (edge + 5, edge, *rng.integers(least, edge, 5, endpoint=True)):
            weights = [int(first) + k * step for k in range(2 * m + 1)]
            over = int(first) - edge
            check(weights, over if over >= 0 else min(over % (2 * step), -over % (2 * step)))

    @pytest.mark.parametrize("length", [2, 20, 40, 41, 63, 64, 65, 200, 1000])
    @pytest.mark.parametrize("ratio", [2, 3])
    def test_geometric(self, length, ratio):
        weights = [ratio**k for k in range(length)]
        check(weights, weights[-1] - sum(weights[:-1]))
        assert solve_theta(weights).method == "dominant"

    @pytest.mark.parametrize("length", [*range(1, 50), 64, 65, 66, 100, 300])
    def test_fibonacci(self, length):
        # Three in a row cancel; one or two are left at the start, 1 or 1 and 2.
        weights = [1, 2]
        while len(weights) < length:
            weights.append(weights[-1] + weights[-2])
        check(weights[:length], 0 if length % 3 == 0 else 1)

    @pytest.mark.parametrize("length", [5, 9, 14, 19, 24])
    def test_geometric_of_ratio_three_halves(self, length):
        weights = [3**k * 2 ** (length - k) for k in range(length)]
        assert solve_theta(weights).theta == float(reference_theta(weights))
        floats = [1.5**k for k in range(length)]
        assert theta(floats, check_sum=False) == float(reference_theta(floats))


class TestSuperdecreasing:
    @pytest.mark.parametrize("length", [2, 10, 45, 64, 300])
    def test_each_exceeds_all_after_it(self, length):
        rng = np.random.default_rng(length)
        weights = [1]
        while len(weights) < length:
            weights.append(sum(weights) + int(rng.integers(1, 2**20)))
        check(weights, 2 * weights[-1] - sum(weights))

    @pytest.mark.parametrize("n", [1, 6, 20, 40, 60, 500])
    def test_the_largest_twice(self, n):
        check([2**n, 2**n, *(2**k for k in range(n))], 1)

    @pytest.mark.parametrize("length", [3, 10, 44, 45, 64])
    def test_the_largest_split_by_the_others(self, length):
        # Largest against all others but for what is left of them, again superdecreasing: 2·3ᵏ sums
        # to 3ⁿ − 1, one less than 3ⁿ.
        check([3**length, *(2 * 3**k for k in range(length))], 1)


class TestPowersOfTwoAndNeighbours:
    @pytest.mark.parametrize("k", [3, 20, 52, 61, 62, 120, 121])
    @pytest.mark.parametrize("count", [4, 5, 30, 31, 64, 65, 1024, 1025])
    def test_mixtures(self, k, count):
        if 2**k <= count:
            return
        half = count // 2
        for larger in (0, 1, half, count - 1, count):
            weights = [2**k + 1] * larger + [2**k] * (count - larger)
            if count % 2 == 0:
                check(weights, larger % 2)
            else:
                # The smaller number has as many of the larger weights as it can.
                check(weights, 2**k + larger - 2 * min(larger, half))


class TestFewValues:
    @pytest.mark.parametrize("seed", range(4))
    def test_two_values_at_length_1024(self, seed):
        rng = np.random.default_rng(seed)
        high, low = (Fraction(float(x)) for x in rng.random(2))
        count = int(rng.integers(1, 1024))
        total = count * high + (1024 - count) * low
        least = min(
            abs(2 * (i * high + j * low) - total)
            for i in range(count + 1)
            for j in {
                min(max(math.floor((total / 2 - i * high) / low) + k, 0), 1024 - count)
                for k in (0, 1)
            }
        )
        weights = [float(high)] * count + [float(low)] * (1024 - count)
        check(weights, least)
        for method in ("few", "mitm"):
            solution = solve_theta(weights, method=method)
            assert (solution.discrepancy, solution.status) == (least, Status.OPTIMAL)

    @pytest.mark.parametrize("seed", range(3))
    def test_three_values_at_length_1024(self, seed):
        rng = np.random.default_rng([3, seed])
        values = [int(x) for x in rng.integers(1, 2**20, 3)]
        weights = [values[k] for k in rng.integers(0, 3, 1024)]
        counts = [weights.count(value) for value in values]
        total = sum(weights)
        first, second = np.ogrid[: counts[0] + 1, : counts[1] + 1]
        mass = first * values[0] + second * values[1]
        low = np.clip((total // 2 - mass) // values[2], 0, counts[2])
        best = min(
            int(np.abs(2 * (mass + np.clip(low + k, 0, counts[2]) * values[2]) - total).min())
            for k in (0, 1)
        )
        check(weights, best)
        assert solve_theta(weights, method="few").discrepancy == best


class TestAroundOneHalf:
    @pytest.mark.parametrize("length", [3, 10, 64, 1000])
    @pytest.mark.parametrize("step", [-1, 0, 1])
    def test_float64(self, length, step):
        # The numbers next to 1/2 below and above, one unit in the last place away.
        gap = Fraction(step, 2**54 if step < 0 else 2**53)
        # Halving is exact, and so is the first of the others.
        others = [0.25, float(Fraction(1, 4) - gap)]
        while len(others) < length - 1:
            others += [others.pop(0) / 2] * 2
        weights = [float(Fraction(1, 2) + gap), *others]
        assert sum(exact(weights)) == 1
        solution = solve_theta(weights)
        assert solution.theta == float(1 - 4 * gap**2) == theta(weights)
        assert (solution.method == "dominant") is (step >= 0)
        assert theta_rows([weights])[0] == theta(weights[::-1]) == solution.theta

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
    @pytest.mark.parametrize("step", [-1, 0, 1])
    def test_narrow_types(self, dtype, step):
        half = dtype(0.5)
        top = half if step == 0 else np.nextafter(half, dtype(step > 0), dtype=dtype)
        top = float(top)
        for parts in ([0.5], [0.25, 0.25], [0.25, 0.125, 0.125]):
            row = np.array([[top, *parts]], dtype=dtype)
            weights = row.astype(np.float64)[0].tolist()
            gap = abs(Fraction(top) - Fraction(1, 2))
            assert theta_rows(row)[0] == float(theta_of(gap, weights))


class TestNearTies:
    @pytest.mark.parametrize(
        "method", ["gray", "mitm", "quarters", "branch", "cardinality", "auto"]
    )
    def test_subsets_that_differ_by_one_ulp(self, method):
        """Nearly uniform rows of odd length, in units in the last place: D is 2⁵² less a few."""
        rng = np.random.default_rng(5)
        for length in (3, 7, 13):
            units = [int(k) for k in rng.integers(-4, 5, length)]
            weights = [1 + k * 2.0**-51 for k in units]
            half = length // 2
            ordered = sorted(units, reverse=True)
            units_apart = sum(ordered[half:]) - sum(ordered[:half])
            solution = solve_theta(weights, method=method)
            assert solution.discrepancy == 1 + Fraction(units_apart, 2**51)
            assert solution.theta == float(reference_theta(weights))

    def test_the_better_of_two_is_taken(self):
        ulp = Fraction(1, 2**53)
        # 1/2 − ulp against the rest, or with the last two exchanged one ulp closer.
        for first, second in ((3, 2), (4, 3), (7, 6)):
            weights = [
                0.25,
                0.25 - float(first * ulp),
                0.25 + float(second * ulp),
                0.125,
                0.125 + float(3 * ulp),
            ]
            assert theta(weights, check_sum=False) == float(reference_theta(weights))
            assert solve_theta(weights, method="mitm").lower == reference_theta(weights)


class TestSubnormals:
    @pytest.mark.parametrize("numbers", [[1], [3, 2, 2], [60, 25, 15], [490, 250, 249, 7, 4]])
    def test_the_scale_does_not_matter(self, numbers):
        expected = solve_theta(numbers)
        tiny = [k * SMALLEST for k in numbers]
        check(tiny, expected.discrepancy * Fraction(SMALLEST))
        assert solve_theta(tiny).theta == expected.theta

    @pytest.mark.parametrize("length", [45, 64, 65, 257])
    def test_long_rows(self, length):
        rng = np.random.default_rng(length)
        numbers = rng.integers(1, 1000, length)
        numbers[:9] = 1
        tiny = numbers * SMALLEST
        check(tiny.tolist(), int(numbers.sum()) % 2 * Fraction(SMALLEST))

    @pytest.mark.parametrize("count", [3, 255, 4095])
    def test_equal_subnormals(self, count):
        row = np.full((1, count), 7 * SMALLEST)
        assert theta_rows(row, check_sum=False)[0] == float(1 - Fraction(1, count**2))


class TestPermutations:
    @pytest.mark.parametrize("deviation", [0.01, 0.02, 0.03, 1.0, 3.0, 8.0])
    @pytest.mark.parametrize("length", [33, 45, 65, 129])
    def test_the_identical_float(self, length, deviation):
        rng = np.random.default_rng(length)
        row = np.exp(deviation * rng.standard_normal(length))
        rows = np.array([rng.permutation(row) for _ in range(4)])
        values = theta_rows(rows, check_sum=False)
        assert len(set(values.tolist())) == 1
        assert theta(row[::-1], check_sum=False) == values[0]
