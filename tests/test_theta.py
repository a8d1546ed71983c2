"""theory.theta on rows with known answers: values, bounds, errors and edges."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numba
import numpy as np
import pytest
import torch
from theta_reference import closest_by_enumeration, closest_by_halves, exact, reference_theta

import theory.theta
from theory.theta import (
    ClosestMass,
    OpenRowError,
    Status,
    ThetaSolution,
    closest_mass,
    greedy_certificate,
    solve_theta,
    theta,
    theta_rows,
    theta_rows_from_logits,
)
from theory.theta import _float_kernels as float_kernels
from theory.theta import _jit as jit
from theory.theta import _row as row_module
from theory.theta import _search as search
from theory.theta import _settle as settle
from theory.theta._numbers import read_numbers

TINY = 5e-324
ULP = 2.0**-53
THIRD = 1 / 3


def random_integers(seed: list[int], high: int, size: int) -> list[int]:
    return [int(k) for k in np.random.default_rng(seed).integers(1, high, size)]


# weights, and the least |2 w(S) − W| in the units of the weights.
KNOWN = [
    ([60, 25, 15], 20),
    ([490, 250, 249, 7, 4], 2),
    ([210, 205, 200, 195, 190], 170),
    ([3, 3, 2, 2, 1], 1),
    ([9, 15, 21, 6, 12], 3),
    ([1, 1, 4, 4, 4, 4, 4], 2),
    ([8, 7, 6, 5, 4], 0),
    ([64, 64, 32, 16, 8, 4, 2, 1], 1),
    ([15000, 14000, 11000, 9000] + [1] * 500, 500),
    ([3 * TINY, 2 * TINY, 2 * TINY], Fraction(TINY)),
    ([1.0, 1.0, 2.0**-60, 2.0**-61, 2.0**-62], Fraction(1, 2**62)),
    (random_integers([24, 32], 2**32, 24), 3024),
    (random_integers([32, 40], 2**40, 32), 10852),
]


def theta_of(discrepancy: Fraction | int, weights: list) -> Fraction:
    return 1 - (Fraction(discrepancy) / sum(exact(weights))) ** 2


class TestKnownRows:
    @pytest.mark.parametrize(("weights", "discrepancy"), KNOWN)
    def test_value(self, weights, discrepancy):
        expected = theta_of(discrepancy, weights)
        solution = solve_theta(weights)
        assert solution.theta == float(expected)
        assert solution.lower <= expected <= solution.upper
        assert solution.status in (Status.OPTIMAL, Status.ROUNDED)
        assert theta(weights, check_sum=False) == float(expected)
        assert theta_rows([weights], check_sum=False)[0] == float(expected)

    @pytest.mark.parametrize(("weights", "discrepancy"), KNOWN)
    def test_proved_discrepancy(self, weights, discrepancy):
        solution = solve_theta(weights, method="mitm")
        assert solution.status is Status.OPTIMAL
        assert solution.discrepancy == discrepancy
        assert solution.lower == solution.upper == theta_of(discrepancy, weights)

    @pytest.mark.parametrize(("weights", "discrepancy"), KNOWN)
    def test_closest_masses_lie_symmetrically_around_one_half(self, weights, discrepancy):
        total = sum(exact(weights))
        closest = closest_mass(weights, total / 2)
        assert closest.status is Status.OPTIMAL
        assert (closest.below, closest.above) == (
            (total - discrepancy) / 2,
            (total + discrepancy) / 2,
        )

    @pytest.mark.parametrize(("weights", "discrepancy"), KNOWN[:8])
    def test_brute_force_agrees(self, weights, discrepancy):
        assert solve_theta(weights, method="brute").discrepancy == discrepancy

    def test_user_values(self):
        assert theta([0.9, 0.1]) == 0.36
        assert theta([0.5, 0.5, 0]) == 1.0
        assert theta([1.0]) == 0.0
        assert theta([0.0, 1.0, 0.0]) == 0.0
        assert theta([0.4, 0.1, 0.4, 0.1]) == 1.0
        assert theta([Fraction(1, 3)] * 3) == 8 / 9
        assert theta([Fraction(1, 3), Fraction(1, 3), Fraction(1, 6), Fraction(1, 6)]) == 1.0

    def test_tiny_theta_is_relatively_right(self):
        logits = np.array([37.42994775023705, 0.0])
        weights = np.exp(logits - logits.max())
        expected = float(reference_theta(weights))
        assert expected == pytest.approx(2.2204e-16, rel=1e-4)
        assert theta_rows_from_logits(logits[None])[0] == expected
        assert theta(weights, check_sum=False) == expected
        # 4 · 5e-324 is a multiple of the smallest subnormal.
        assert theta([1.0, TINY]) == 2e-323
        assert theta([1.0, 2.0**-1000]) == 2.0**-998
        assert theta_rows([[1.0, TINY], [1.0, 2.0**-1000]]).tolist() == [2e-323, 2.0**-998]
        # A result below half the smallest subnormal is 0, one above it is not.
        assert theta([10**324, 1], check_sum=False) == TINY
        assert theta([10**325, 1], check_sum=False) == 0.0

    def test_mixed_scales(self):
        assert theta([0.5, 0.5, 1e-300]) == 1.0
        weights = [3, 3, 2, 2.0**-1000]
        assert solve_theta(weights).theta == float(reference_theta(weights))
        assert solve_theta([1e300, 1e-300, 1e300, 1.0]).theta == 1.0


class TestRounding:
    @pytest.mark.parametrize(
        ("halves", "expected"),
        [
            # δ = 2^-27 leaves 1 − 2^-54, a tie that goes to the even 1.0.
            ([2**27 + 1, 2**27 - 1], 1.0),
            ([2**27 + 2, 2**27 - 2], 1 - 2.0**-52),
            # δ = 3 · 2^-28: 1 − 1.125 · 2^-53.
            ([2**28 + 3, 2**28 - 3], 1 - 2.0**-53),
            # 1 − 9 · 2^-54 is a tie between 1 − 5 · 2^-53 and the even 1 − 4 · 2^-53.
            ([2**27 + 3, 2**27 - 3], 1 - 2.0**-51),
        ],
    )
    def test_ties_go_to_even(self, halves, expected):
        total = sum(halves)
        assert theta(halves, check_sum=False) == expected
        assert theta([half / total for half in halves]) == expected
        assert theta_rows([[half / total for half in halves]])[0] == expected

    def test_float_kernel_leaves_a_tie_open(self):
        rows = np.array([[2**27 + 3, 2**27 - 3], [3.0, 1.0]])
        value, status, _ = settled(rows)
        assert np.isnan(value[0])
        assert status.tolist() == [-1, Status.OPTIMAL]
        assert value[1] == 0.75

    @pytest.mark.parametrize("step", [-1, 0, 1])
    def test_dominance_at_one_half(self, step):
        top = 0.5 + step * (ULP if step < 0 else 2 * ULP)
        weights = [top, 0.25, 0.125, 0.125]
        solution = solve_theta(weights)
        assert solution.theta == float(reference_theta(weights))
        assert (solution.method == "dominant") is (step >= 0)
        assert solution.status is Status.OPTIMAL
        assert theta_rows([weights])[0] == solution.theta

    def test_near_ties_between_subsets(self):
        # The two best splits differ by one unit in the last place of the weights.
        weights = [0.3, 0.3 + 2.0**-54, 0.2, 0.2 - 2.0**-55, 0.1]
        assert theta(weights, check_sum=False) == float(reference_theta(weights))
        weights = [5.0, 3.0, 3.0 + 2.0**-51, 3.0 - 2.0**-51, 2.0**-50]
        assert theta(weights, check_sum=False) == float(reference_theta(weights))

    @pytest.mark.parametrize("seed", range(5))
    def test_permutations_give_the_identical_float(self, seed):
        rng = np.random.default_rng(seed)
        for length in (5, 14, 24, 50):
            row = rng.dirichlet(np.ones(length))
            values = {theta(rng.permutation(row), check_sum=False) for _ in range(5)}
            assert len(values) == 1

    def test_scale_does_not_matter(self):
        row = np.random.default_rng(1).dirichlet(np.ones(13))
        values = {theta(row * 2.0**k, check_sum=False) for k in (-900, -1, 0, 1, 900)}
        assert len(values) == 1

    def test_near_half_is_the_rounding_threshold(self):
        for weights in ([2**27 + 1, 2**27 - 1, 5], [7] * 9, [2**40, 3**20, 5**12, 1], [1, 1]):
            row = row_module.read_row(np.array(weights, dtype=object))

            def gap(mass, row=row):
                return Fraction(row.total - 2 * mass, row.total)

            assert row.half == row.total // 2
            assert gap(row.near_half) <= Fraction(1, 2**27) or row.near_half > row.half
            assert gap(row.near_half - 1) > Fraction(1, 2**27)


class TestStructuredFamilies:
    @pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 63, 64, 255, 1023, 4095, 4096])
    def test_equal_weights(self, count):
        expected = float(1 - Fraction(count % 2, count) ** 2)
        assert theta([1] * count, check_sum=False) == expected
        assert theta([1 / count] * count) == expected
        assert theta_rows(np.full((2, count), 1 / count)).tolist() == [expected] * 2
        assert solve_theta([3] * count, method="uniform").theta == expected
        solution = solve_theta([3, 0] * count, method="topk")
        assert solution.theta == expected
        assert int(solution.subset.sum()) == count // 2

    @pytest.mark.parametrize("m", [1, 2, 10, 100])
    def test_odd_closed_form(self, m):
        # Nearly equal weights, an odd number of them: the m largest against the others.
        weights = [1000 * (2 * m + 1) + k for k in range(2 * m + 1)]
        c = sum(sorted(weights)[-m:])
        solution = solve_theta(weights, method="odd")
        assert solution.mass == c
        assert solution.discrepancy == sum(weights) - 2 * c
        assert solve_theta(weights).theta == solution.theta
        if m <= 2:
            assert solution.lower == reference_theta(weights)

    def test_odd_closed_form_at_equality(self):
        # c = 5 + 1 = W/2 for m = 1, and no weight is dominant.
        solution = solve_theta([5, 3, 3, 1], method="odd")
        assert (solution.mass, solution.theta, solution.status) == (6, 1.0, Status.OPTIMAL)
        with pytest.raises(ValueError, match="'odd' needs weights of the odd closed form"):
            solve_theta([5, 4, 3, 2, 2], method="odd")

    def test_odd_is_dominant_for_m_0(self):
        odd, dominant = (solve_theta([5, 1, 1], method=name) for name in ("odd", "dominant"))
        assert odd.discrepancy == dominant.discrepancy == 3
        assert (odd.mass, dominant.mass) == (2, 5)

    @pytest.mark.parametrize("length", [2, 3, 4, 9, 16, 101, 1024])
    def test_arithmetic_progressions(self, length):
        weights = list(range(1, length + 1))
        total = sum(weights)
        # 1 … n splits as evenly as its parity allows.
        assert theta(weights, check_sum=False) == float(theta_of(total % 2, weights))

    @pytest.mark.parametrize("length", [3, 10, 40, 200])
    def test_geometric_progressions(self, length):
        weights = [2**k for k in range(length)]
        solution = solve_theta(weights)
        # The largest exceeds the others by 1.
        assert (solution.discrepancy, solution.method) == (1, "dominant")

    def test_superdecreasing(self):
        weights = [64, 64, 32, 16, 8, 4, 2, 1]
        assert solve_theta(weights).discrepancy == 1
        weights = [3**k for k in range(12)]
        assert solve_theta([*weights, 3**11]).lower == reference_theta([*weights, 3**11])

    @pytest.mark.parametrize("k", [3, 10, 30, 61, 62, 63, 120, 121, 122, 200])
    def test_powers_of_two_and_their_neighbours(self, k):
        weights = [2**k, 2**k + 1, 2**k, 2**k + 1, 2**k, 2**k + 3, 5, 2**k + 2]
        expected = reference_theta(weights)
        for method in ("auto", "mitm", "brute"):
            assert solve_theta(weights, method=method).theta == float(expected)
        assert solve_theta(weights, method="mitm").lower == expected

    @pytest.mark.parametrize("high", [1, 2, 3, 400, 511])
    def test_two_and_three_values_at_length_1024(self, high):
        low = 1024 - high
        weights = [10**12 + 39] * high + [10**12 - 11] * low
        reached = [
            i * (10**12 + 39) + j * (10**12 - 11) for i in range(high + 1) for j in range(low + 1)
        ]
        total = sum(weights)
        least = min(abs(2 * mass - total) for mass in reached)
        assert theta(weights, check_sum=False) == float(theta_of(least, weights))
        three = [*weights, 10**12]
        assert theta(three, check_sum=False) == float(solve_theta(three, method="fill").lower)

    def test_multiples_without_a_perfect_partition(self):
        # Multiples of 3 and an odd number of units: the least discrepancy is 1 unit or 3.
        assert solve_theta([3, 3, 3, 6, 6, 1]).discrepancy == 2
        weights = [6, 6, 6, 10, 10, 15]
        assert solve_theta(weights, method="dp").lower == reference_theta(weights)

    def test_common_denominator(self):
        weights = [Fraction(k, 720) for k in (360, 240, 180, 144, 120, 90, 80, 7, 3)]
        for method in ("auto", "dp", "gray", "mitm", "brute"):
            solution = solve_theta(weights, method=method)
            assert solution.lower == solution.upper == reference_theta(weights)


METHODS = ["gray", "mitm", "dp", "brute", "auto"]


class TestMethods:
    @pytest.mark.parametrize("method", METHODS)
    def test_against_the_reference(self, method):
        rng = np.random.default_rng(7)
        for _ in range(40):
            weights = [int(w) for w in rng.integers(0, 40, rng.integers(1, 10))]
            if not any(weights):
                continue
            solution = solve_theta(weights, method=method)
            assert solution.status is Status.OPTIMAL
            assert solution.lower == solution.upper == reference_theta(weights)
            assert_consistent(solution, weights)
            expected = ("dominant", "topk", "odd", "gray") if method == "auto" else (method,)
            assert solution.method in expected

    @pytest.mark.parametrize("method", ["gray", "mitm"])
    def test_two_limbs(self, method):
        rng = np.random.default_rng(11)
        for bits in (58, 62, 64, 100, 118):
            for size in (1, 2, 7, 11):
                weights = [
                    int(a) << (bits - 30) | int(b) for a, b in rng.integers(1, 2**30, (size, 2))
                ]
                solution = solve_theta(weights, method=method)
                assert solution.lower == solution.upper == reference_theta(weights)

    def test_limbs_up_to_their_limit(self):
        # The total is 2^122 − 1, then 2^122: gray refuses, mitm turns to Python integers.
        widest = [2**121 - 1, 2**120, 2**120 - 2**60, 2**60]
        for method in ("gray", "mitm"):
            assert solve_theta(widest, method=method).lower == reference_theta(widest)
        wider = [2**121 - 1, 2**120, 2**120 - 2**60, 2**60, 1]
        assert solve_theta(wider, method="mitm").lower == reference_theta(wider)
        with pytest.raises(ValueError, match=r"'gray' needs weights that span less than 2\*\*122"):
            solve_theta(wider, method="gray")

    def test_gray_beyond_one_kernel_call(self):
        weights = [3**k % 10007 + 2**13 for k in range(23)]
        gray = solve_theta(weights, method="gray")
        assert gray.lower == reference_theta(weights)
        assert gray.stats == {"atoms": 23, "items": 23, "bits": sum(weights).bit_length()}

    def test_wide_mitm_at_length(self):
        rng = np.random.default_rng(3)
        weights = [int(w) * 2**90 + int(v) for w, v in rng.integers(2**38, 2**40, (20, 2))]
        assert sum(weights).bit_length() > 122
        assert solve_theta(weights, method="mitm").lower == reference_theta(weights)

    @pytest.mark.parametrize(
        ("method", "weights", "reason"),
        [
            ("dominant", [2, 2, 1], "'dominant' needs one weight of at least W/2"),
            ("uniform", [1, 1, 0], "'uniform' needs equal weights, none of them zero"),
            ("topk", [1, 1, 2], "'topk' needs equal nonzero weights"),
            ("gray", [2**k + 1 for k in range(31)], "'gray' needs at most 30 items"),
            ("mitm", [2**k + 1 for k in range(45)], "'mitm' needs at most 44 items"),
            ("mitm", [3**k for k in range(41)] + [2**130], "'mitm' needs at most 40 items"),
            ("dp", [2**33, 2**33 - 1, 1], "'dp' needs a smaller common denominator"),
            ("brute", list(range(1, 18)), "'brute' needs at most 16 nonzero weights"),
        ],
    )
    def test_preconditions(self, method, weights, reason):
        with pytest.raises(ValueError, match=reason):
            solve_theta(weights, method=method)

    def test_limits_are_inclusive(self):
        assert solve_theta([1] * 16, method="brute").theta == 1.0
        assert solve_theta([2, 1, 1], method="dominant").discrepancy == 0
        weights = [2**k for k in range(30)]
        assert solve_theta(weights, method="gray", budget=0).status in Status
        assert solve_theta([2**k + 1 for k in range(44)], method="mitm", budget=0).status in Status
        assert search._dp_bits([1, 2], 2**30 - 1) == search.DP_MAX_BITS

    def test_unknown_method(self):
        with pytest.raises(ValueError, match="unknown method 'magic'; choose from auto, dominant"):
            solve_theta([1], method="magic")

    @pytest.mark.parametrize("method", ["fill", "branch"])
    def test_heuristics_give_true_bounds(self, method):
        rng = np.random.default_rng(5)
        for size in (1, 3, 12, 23, 24, 25, 31):
            weights = [int(w) for w in rng.integers(1, 1000, size)]
            solution = solve_theta(weights, method=method)
            assert solution.lower <= reference_theta(weights) <= solution.upper
            assert_consistent(solution, weights)

    def test_fill_settles_long_rows(self):
        row = np.random.default_rng(2).dirichlet(np.ones(300))
        solution = solve_theta(row, method="fill")
        assert (solution.theta, solution.status) == (1.0, Status.ROUNDED)
        assert solution.discrepancy * 2**27 <= sum(exact(row))
        assert_consistent(solution, row)

    def test_fill_rounds_wide_free_values_up(self):
        rng = np.random.default_rng(8)
        weights = [Fraction(int(a), int(b)) for a, b in rng.integers(10**8, 10**9, (60, 2))]
        solution = solve_theta(weights, method="fill")
        assert solution.stats["bits"] > 500
        assert (solution.theta, solution.status) == (1.0, Status.ROUNDED)
        assert_consistent(solution, weights)

    def test_gray_names_the_items_outside_its_blocks(self):
        # Greedy takes 101; the best is 100 and a 7, with the 100 outside the block of twenty.
        values = [101, 100, *[7] * 20]
        found = search.gray(values, 107, 107, search.Deadline(None))
        assert search.mass_of(values, found.chosen) == 107

    def test_a_cap_below_every_weight_leaves_the_empty_subset(self):
        deadline = search.Deadline(None)
        for values in ([2**130, 2**129], [20, 10]):
            assert search.mitm(values, 5, 5, deadline) == search.Found(0, 0)

    def test_branch_proves_heavy_rows(self):
        # Forty small weights cannot fill the gap that three large ones leave.
        small = random_integers([4], 2**20, 40)
        large = [2**40 + 12345, 2**39 + 678, 2**38 + 9]
        weights = [*large, *small]
        solution = solve_theta(weights, method="branch")
        assert solution.status is Status.OPTIMAL
        assert solution.discrepancy == large[0] - large[1] - large[2] - sum(small)
        near = [2**40, 2**40 - 2**26 - 1, 2**39, 2**39, *random_integers([9], 2**18, 40)]
        solution = solve_theta(near, method="branch")
        assert solution.status is Status.OPTIMAL
        assert solution.lower == reference_theta_by_dp(near)

    def test_equal_weights_are_collapsed(self):
        weights = [7919] * 50 + [104729] * 51 + [1299709] * 3
        solution = solve_theta(weights, method="mitm")
        assert solution.stats["atoms"] == 104
        assert solution.stats["items"] == 6 + 6 + 2
        masses = {
            7919 * i + 104729 * j + 1299709 * k
            for i in range(51)
            for j in range(52)
            for k in range(4)
        }
        total = sum(weights)
        assert solution.discrepancy == min(abs(2 * mass - total) for mass in masses)
        assert_consistent(solution, weights)

    def test_negligible_tail_is_set_aside_without_loss(self):
        head = [60, 55, 48, 41, 37, 30, 26]
        scale = 2**40
        for tail in ([1], [3, 2, 1], [2**8, 2**7, 2**5]):
            weights = [scale * weight for weight in head] + tail
            solution = solve_theta(weights)
            assert solution.stats["items"] <= len(head)
            assert_consistent(solution, weights)
            expected = reference_theta(weights)
            assert solution.theta == float(expected)
            assert solution.lower <= expected <= solution.upper
        # Head without a perfect split: the whole tail goes to the lighter side, provably.
        weights = [scale * weight for weight in [9, 15, 21, 6, 12, 8]] + [5, 3]
        solution = solve_theta(weights)
        assert solution.status is Status.OPTIMAL
        assert solution.lower == reference_theta(weights)

    def test_reduction_keeps_the_boundary_tail(self):
        values = [100, 50, 20, 5, 4, 1]
        for negligible, end in ((0, 6), (1, 5), (4, 5), (5, 4), (9, 4), (10, 3)):
            assert row_module.reduce_values(values, negligible).tail_start == end
        instance = row_module.reduce_values([6, 6, 6, 6, 6, 4], 0)
        assert instance.values == [6, 6, 3, 2]
        assert (instance.factor, instance.total) == (2, 17)
        assert sorted(instance.expand(0b1111)) == [0, 1, 2, 3, 4, 5]
        assert len(instance.expand(0b0100)) == 1


def reference_theta_by_dp(weights):
    """θ for integers of a moderate total besides a few huge ones, by a set of reachable sums."""
    large = [w for w in weights if w >= 2**30]
    small = [w for w in weights if w < 2**30]
    reachable = 1
    for weight in small:
        reachable |= reachable << weight
    room = sum(small)
    total = sum(weights)
    best = None
    for code in range(2 ** len(large)):
        head = sum(w for k, w in enumerate(large) if code >> k & 1)
        goal = total / 2 - head
        place = min(max(int(goal), 0), room)
        low = (reachable & ((2 << place) - 1)).bit_length() - 1
        rest = reachable >> (place + 1)
        high = place + 1 + (rest & -rest).bit_length() - 1 if rest else low
        for mass in (head + low, head + high):
            gap = abs(2 * mass - total)
            best = gap if best is None else min(best, gap)
    return theta_of(best, weights)


def assert_consistent(solution: ThetaSolution, weights) -> None:
    """What every solution promises about its subset."""
    values = exact(weights)
    mass = sum((w for w, taken in zip(values, solution.subset, strict=True) if taken), Fraction(0))
    assert solution.mass == mass
    assert solution.discrepancy == abs(2 * mass - sum(values))
    assert solution.lower == theta_of(solution.discrepancy, weights)
    assert solution.lower <= solution.upper <= 1
    assert not solution.subset.flags.writeable
    assert solution.subset.dtype == np.bool_
    assert solution.sign_vector.dtype == np.int8
    assert solution.sign_vector.tolist() == [1 if taken else -1 for taken in solution.subset]
    signed = sum(int(x) * w for x, w in zip(solution.sign_vector, values, strict=True))
    assert abs(signed) == solution.discrepancy
    if solution.status is Status.OPTIMAL:
        assert solution.lower == solution.upper
    if solution.status is not Status.BOUNDED:
        assert solution.theta == float(solution.lower) == float(solution.upper)


def open_row() -> list[int]:
    """A row that no closed form and no greedy choice settles, for searches without time.

    Multiples of 2^30 with an odd sum and small perturbations: θ < 1, and which of many subsets is
    best depends on the perturbations.
    """
    multiples = [11, 9, 9, 8, 7, 7, 6, 5, 5, 4, 4, 3, 3, 2]
    return [k * 2**30 + 3**i for i, k in enumerate(multiples)]


class TestBudget:
    @pytest.mark.parametrize("method", ["auto", "mitm"])
    def test_an_open_row_has_true_bounds(self, method):
        weights = open_row()
        exact_theta = reference_theta(weights)
        solution = solve_theta(weights, method=method, budget=0)
        assert solution.status is Status.BOUNDED
        assert np.isnan(solution.theta)
        assert solution.lower < exact_theta <= solution.upper
        assert_consistent(solution, weights)
        assert solve_theta(weights, method=method, budget=60).lower == exact_theta

    def test_theta_raises_or_gives_nan(self):
        weights = open_row()
        with pytest.raises(OpenRowError, match=r"the row is open: θ lies in \[0\.") as caught:
            theta(weights, check_sum=False, budget=0)
        assert caught.value.index is None
        low, high = caught.value.bounds
        assert low < reference_theta(weights) <= high
        assert np.isnan(theta(weights, check_sum=False, budget=0, on_open="nan"))

    def test_rows_name_the_first_open_row(self):
        row = [float(weight) for weight in open_row()]
        rows = np.array([[[1.0] + [0.0] * 13, row], [row, [1.0] * 14]])
        with pytest.raises(OpenRowError, match=r"row \(0, 1\) is open") as caught:
            theta_rows(rows, check_sum=False, budget=0)
        assert caught.value.index == (0, 1)
        values, status = theta_rows(
            rows, check_sum=False, budget=0, on_open="nan", return_status=True
        )
        assert np.isnan(values).tolist() == [[False, True], [True, False]]
        assert status.tolist() == [[0, 2], [2, 0]]
        assert status.dtype == np.int8

    def test_every_search_gives_up_with_true_bounds(self, monkeypatch):
        weights = open_row()
        for name in ("gray", "mitm", "dp", "fill", "branch"):
            instance = weights if name != "dp" else [5, 4, 4, 3, 3, 3]
            values = sorted(instance, reverse=True)
            cap = sum(values) // 2
            for polls in range(4):
                found = search.SEARCHES[name](values, cap, cap, Countdown(polls))
                mass = search.mass_of(values, found.chosen)
                best = closest_by_halves(exact(values), Fraction(cap))[0]
                assert mass <= best <= found.limit <= cap

    def test_wide_search_gives_up(self):
        values = sorted((weight * 2**90 + 1 for weight in open_row()), reverse=True)
        cap = sum(values) // 2
        assert search.mitm(values, cap, cap, Countdown(3)).limit == cap

    def test_gray_heeds_the_deadline_between_calls(self):
        values = sorted(random_integers([1], 2**60, 22), reverse=True)
        cap = sum(values) // 2
        found = search.gray(values, cap, cap, Countdown(1))
        assert found.limit == cap
        assert search.gray(values, cap, cap, Countdown(10)).limit < cap

    def test_searches_may_stop_at_their_goal(self):
        values = sorted(random_integers([2], 2**50, 16), reverse=True)
        cap = sum(values) // 2
        goal = cap - cap // 1000
        for name in ("gray", "mitm", "fill", "branch"):
            found = search.SEARCHES[name](values, cap, goal, Countdown(100))
            assert goal <= search.mass_of(values, found.chosen) <= cap
            assert found.limit == cap

    @pytest.mark.parametrize(
        ("budget", "error", "reason"),
        [
            (-1, ValueError, r"budget: expected seconds >= 0, got -1\.0"),
            (float("nan"), ValueError, "budget: expected seconds >= 0, got nan"),
            (True, TypeError, "budget: expected seconds or None, got bool"),
            ("1", TypeError, "budget: expected seconds or None, got str"),
        ],
    )
    def test_faulty_budgets(self, budget, error, reason):
        for call in (
            lambda: solve_theta([1], budget=budget),
            lambda: theta([1], budget=budget),
            lambda: theta_rows([[1]], budget=budget),
            lambda: theta_rows_from_logits([[1]], budget=budget),
            lambda: closest_mass([1], 0, budget=budget),
        ):
            with pytest.raises(error, match=reason):
                call()


class TestChoiceOfSearch:
    def test_quick_searches(self):
        wide = 2**110
        for count, name in ((1, "gray"), (12, "gray"), (13, "mitm"), (28, "mitm"), (29, None)):
            assert search.quick_exact([wide + k for k in range(count)], wide) == name
        # Beyond two limbs Gray code is out.
        assert search.quick_exact([2**122], 2**121) == "mitm"
        assert search.quick_exact([2**121], 2**121) == "gray"
        assert search.quick_exact([1] * 32, 2**15 - 1) == "dp"
        # Few distinct sums are quick at any number of items.
        assert search.quick_exact([1] * 32, 2**15) == "mitm"
        assert search.quick_exact([2**18 + k for k in range(32)], 2**15) is None

    def test_slow_searches(self):
        assert search.slow_exact([1] * 64, 2**25 - 1) == "dp"
        assert search.slow_exact([2**40 + k for k in range(64)], 2**25) is None
        assert search.slow_exact([2**90] * 44, 2**90) == "mitm"
        assert search.slow_exact([2**90 + k for k in range(45)], 2**90) is None
        assert search.slow_exact([2**120] * 40, 2**120) == "mitm"
        assert search.slow_exact([2**120] * 41, 2**120) is None

    def test_branch_goes_through_ten_thousand_branches(self):
        # The ones fill no gap between multiples of 2**20, so that no branch ends in a leaf.
        heavy = sorted((2 * k + 1001 for k in random_integers([31], 500, 16)), reverse=True)
        values = [*(k << 20 for k in heavy), *[1] * 31]
        cap = (sum(heavy) // 2 << 20) + 2**19
        found = search.branch(values, cap, cap, search.Deadline(None))
        assert found.limit == search.mass_of(values, found.chosen) < cap

    def test_rules_of_fill(self):
        values = [9, 8, 7, 6, 5, 4, 3, 2, 1]
        # 4 + 3 + 2 + 1 free, aim 22 − 5: 9 and 8 fit.
        assert search._large_first(values, 22, 4) == (0b11, [5, 6, 7, 8])
        # Aim 20 − 5: 9 and 6 fit.
        assert search._large_first(values, 20, 4) == (0b1001, [5, 6, 7, 8])
        # 9, 6 and 3 are free, which leaves runs of 8 7 5 4 2 1 with mass near cap − 9.
        for cap, run in ((9, []), (20, [7, 5]), (22, [5, 4, 2]), (30, [7, 5, 4, 2, 1])):
            chosen, free = search._middle_window(values, cap, 3)
            assert free == [0, 3, 6]
            assert [value for k, value in enumerate(values) if chosen >> k & 1] == run
        # With equal values the shortest run may meet the cap, and never exceeds it.
        assert search._middle_window([7] * 5, 17, 1) == (0b00110, [0])
        assert search._middle_window([7] * 5, 14, 1) == (0b00110, [0])
        assert search._middle_window([7] * 5, 13, 1) == (0b00010, [0])

    def test_deadline(self):
        assert search.Deadline(0).passed()
        assert not search.Deadline(None).passed()
        assert not search.Deadline(60).passed()


class Countdown(search.Deadline):
    """A deadline that passes after a number of looks at it."""

    def __init__(self, looks: int) -> None:
        super().__init__(None)
        self.looks = looks

    def passed(self) -> bool:
        self.looks -= 1
        return self.looks < 0


FAULTS = [
    ([], "is empty"),
    ([0, 0], "has zero total weight"),
    ([0.0, -0.0], "has zero total weight"),
    ([0.5, float("nan")], "has NaN at entry 1"),
    ([float("nan"), -1.0], "has NaN at entry 0"),
    ([float("inf"), 1.0], "has an infinity at entry 0"),
    ([1.5, -0.5], "has a negative weight at entry 1"),
    ([Fraction(3, 2), Fraction(-1, 2)], "has a negative weight at entry 1"),
    ([-float("inf"), 1.0], "has a negative weight at entry 0"),
]

NOT_NUMBERS = [
    (None, "got NoneType"),
    (0.5, "got float"),
    (np.float64(0.5), "got float64"),
    ("0.5", "got str"),
    ({0.5: 1}, "got dict"),
    (["a", "b"], "got str"),
    ([None, 1.0], "got NoneType"),
    ([True, False], "got bool"),
    (np.array([True, False]), "got dtype bool"),
    (np.array([1j, 0]), "got dtype complex128"),
    (np.array(["1"]), "got dtype <U1"),
    (np.ma.masked_array([0.5, 0.5], [0, 1]), "masked array is ambiguous"),
    (torch.tensor([0.5, 0.5]).to_sparse(), "dense CPU tensor"),
    (torch.empty(2, device="meta"), "dense CPU tensor"),
    (torch.float32, "dense CPU tensor"),
]


class TestFaultyInput:
    @pytest.mark.parametrize(("weights", "reason"), FAULTS)
    def test_one_row(self, weights, reason):
        for call in (theta, solve_theta, lambda row: closest_mass(row, 0)):
            with pytest.raises(ValueError, match=f"weights: the row {reason}"):
                call(weights)

    @pytest.mark.parametrize(("weights", "reason"), FAULTS)
    def test_rows(self, weights, reason):
        reason = reason.replace("is empty", "is empty: it sees no entry; on_empty='nan'")
        for call in (theta_rows, greedy_certificate):
            with pytest.raises(ValueError, match=f"row 0 {reason}"):
                call([weights])
            if weights:
                good = [1.0] + [0.0] * (len(weights) - 1)
                with pytest.raises(ValueError, match=rf"row \(1, 0\) {reason}"):
                    call([[good], [weights]])

    @pytest.mark.parametrize(("weights", "reason"), NOT_NUMBERS)
    def test_not_numbers(self, weights, reason):
        for call in (theta, solve_theta, theta_rows, greedy_certificate, theta_rows_from_logits):
            with pytest.raises(TypeError, match=reason):
                call(weights)
        with pytest.raises(TypeError, match=reason):
            closest_mass(weights, 0)

    def test_shapes(self):
        with pytest.raises(ValueError, match=r"weights: expected one row, got shape \(1, 2\)"):
            theta([[0.5, 0.5]])
        with pytest.raises(ValueError, match=r"weights: expected one row, got shape \(1, 2\)"):
            closest_mass([[0.5, 0.5]], 0)
        with pytest.raises(ValueError, match="P: expected at least one dimension"):
            theta_rows(np.array(0.5))
        with pytest.raises(ValueError, match="P: rows of different lengths"):
            theta_rows([[0.5, 0.5], [1.0]])
        with pytest.raises(ValueError, match="P: rows of different lengths"):
            theta_rows([np.array([0.5, 0.5]), np.array([1.0])])
        with pytest.raises(ValueError, match="P: rows of different lengths"):
            theta_rows([[0.5, 0.5], np.array([[1.0]])])

    def test_sums(self):
        half = np.full((1, 4096), 1 / 2048, dtype=np.float16)
        for call in (theta_rows, greedy_certificate):
            with pytest.raises(ValueError, match=r"row 0 sums to 2\.0 instead of 1; check_sum=F"):
                call(half)
        assert theta_rows(half, check_sum=False)[0] == 1.0
        with pytest.raises(ValueError, match=r"weights: the row sums to 2\.0 instead of 1"):
            theta(half[0])
        with pytest.raises(ValueError, match="sums to inf instead of 1"):
            theta([10**400])
        for call in (theta_rows, greedy_certificate):
            with pytest.raises(ValueError, match="row 0 sums to inf instead of 1"):
                call([[1.7e308, 1.7e308]])
            with pytest.raises(ValueError, match=r"row 1 sums to 1\.5 instead of 1"):
                call([[Fraction(1)], [Fraction(3, 2)]])

    @pytest.mark.parametrize("sign", [-1, 1])
    @pytest.mark.parametrize(
        ("dtype", "epsilon"),
        [
            (np.float64, 2.0**-52),
            (np.float32, 2.0**-23),
            (np.float16, 2.0**-10),
            (ml_dtypes.bfloat16, 2.0**-7),
        ],
    )
    def test_sum_tolerance_is_four_epsilon(self, dtype, epsilon, sign):
        # 0.5 ± 4 eps and ± 5 eps of 1 are numbers of each type.
        good = np.array([[0.5, 0.5 + sign * 4 * epsilon]], dtype=dtype)
        bad = np.array([[0.5, 0.5 + sign * 5 * epsilon]], dtype=dtype)
        for row in (good, [good[0]], list(map(list, good))):
            assert theta_rows(row)[0] == theta(good[0])
            assert greedy_certificate(row)[0] > 0.99
        for call in (theta_rows, greedy_certificate, lambda rows: theta(rows[0])):
            with pytest.raises(ValueError, match="instead of 1"):
                call(bad)

    def test_sum_tolerance_allows_for_subnormals(self):
        rows = np.array([[0.5, 0.5 + 4 * 2.0**-52, 5 * TINY], [0.5, 0.5 + 4 * 2.0**-52, 7 * TINY]])
        assert theta(rows[0]) == theta_rows(rows[:1])[0]
        assert theta([*rows[0, :2], 6 * TINY]) == 1.0
        with pytest.raises(ValueError, match="the row sums to"):
            theta(rows[1])
        with pytest.raises(ValueError, match="row 1 sums to"):
            theta_rows(rows)

    @pytest.mark.parametrize(
        ("dtype", "epsilon", "smallest"),
        [
            (np.float64, 52, 1074),
            (np.float32, 23, 149),
            (np.float16, 10, 24),
            (ml_dtypes.bfloat16, 7, 133),
            (np.int64, 52, 1074),
        ],
    )
    def test_precision_of_types(self, dtype, epsilon, smallest):
        for source in (np.zeros((1, 3), dtype), [np.zeros(3, dtype)]):
            numbers = read_numbers(source, "x")
            assert numbers.epsilon == Fraction(1, 2**epsilon)
            assert numbers.smallest == Fraction(1, 2**smallest)
            assert numbers.sum_tolerance() == 4 * numbers.epsilon + 6 * numbers.smallest
        tensor = torch.zeros(3, dtype=torch.bfloat16)
        assert read_numbers(tensor, "x").smallest == Fraction(1, 2**133)

    def test_precision_of_mixed_lists_is_the_coarsest(self):
        numbers = read_numbers([np.float16(0.5), 0.5, Fraction(1, 3)], "x")
        assert numbers.epsilon == Fraction(1, 2**10)
        assert numbers.smallest == Fraction(1, 2**24)
        assert read_numbers([1, Fraction(1, 2)], "x").epsilon == Fraction(1, 2**52)
        assert read_numbers(np.longdouble([0.5]), "x").values.dtype == object

    @pytest.mark.parametrize(
        ("arguments", "error", "reason"),
        [
            ({"support": [3]}, ValueError, "support: lengths must lie between 0 and 2"),
            ({"support": [-1]}, ValueError, "support: lengths must lie between 0 and 2"),
            ({"support": [1, 1]}, ValueError, r"support: shape \(2,\) does not fit \(1,\)"),
            ({"support": [[True] * 3]}, ValueError, r"shape \(1, 3\) does not fit \(1, 2\)"),
            ({"support": [1.0]}, TypeError, "support: expected booleans or lengths, got dtype f"),
            ({"causal": 1}, TypeError, "causal: expected a bool, got int"),
            ({"causal_offset": 1}, ValueError, "causal_offset: has no meaning without causal"),
            ({"causal": True, "causal_offset": True}, TypeError, "expected an integer, got a bool"),
            ({"causal": True, "causal_offset": 0.5}, TypeError, "an integer, got float"),
            ({"on_empty": "skip"}, ValueError, "on_empty: expected 'raise' or 'nan', got 'skip'"),
        ],
    )
    def test_arguments(self, arguments, error, reason):
        for call in (theta_rows, greedy_certificate):
            with pytest.raises(error, match=reason):
                call([[1.0, 0.0]], **arguments)

    @pytest.mark.parametrize(
        ("arguments", "error", "reason"),
        [
            ({"on_open": None}, ValueError, "on_open: expected 'raise' or 'nan', got None"),
            ({"threads": 0}, ValueError, "threads: expected at least 1, got 0"),
            ({"threads": 1.0}, TypeError, "threads: expected an integer or None, got float"),
            ({"threads": True}, TypeError, "threads: expected an integer or None, got bool"),
        ],
    )
    def test_solver_arguments(self, arguments, error, reason):
        for call in (theta_rows, theta_rows_from_logits):
            with pytest.raises(error, match=reason):
                call([[1.0, 0.0]], **arguments)
        with pytest.raises(ValueError, match="on_open: expected"):
            theta([1.0], on_open="ignore")

    def test_causal_needs_a_row_axis(self):
        with pytest.raises(ValueError, match="causal: P needs a row axis and an entry axis"):
            theta_rows([1.0, 0.0], causal=True)


def softmax_rows(seed: int, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    logits = deviation * np.random.default_rng(seed).standard_normal(shape)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


class TestRows:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
    def test_float_types_are_read_exactly(self, dtype):
        rows = softmax_rows(1, (60, 8), 2.0).astype(dtype)
        expected = [float(reference_theta(row)) for row in rows.astype(np.float64)]
        got = theta_rows(rows)
        assert got.dtype == np.float64
        assert got.tolist() == expected
        assert [theta(row) for row in rows] == expected
        assert theta_rows([list(row) for row in rows]).tolist() == expected
        assert theta_rows(list(rows)).tolist() == expected

    @pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
    def test_tensors(self, dtype):
        tensor = torch.tensor(softmax_rows(2, (5, 4, 7), 1.5)).to(getattr(torch, dtype))
        expected = [
            [float(reference_theta(row)) for row in rows] for rows in tensor.double().numpy()
        ]
        assert theta_rows(tensor).tolist() == expected
        assert theta_rows(tensor.clone().requires_grad_()).tolist() == expected
        assert theta_rows(tensor.transpose(0, 1)).T.tolist() == expected
        assert theta(tensor[0, 0]) == expected[0][0]

    def test_tensors_need_no_torch_import(self):
        code = (
            "import sys, theory.theta; sys.exit('torch' in sys.modules or 'verify' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_other_containers(self):
        rows = softmax_rows(3, (6, 5), 1.0)
        expected = theta_rows(rows)
        swapped = rows.astype(">f8")
        assert np.array_equal(theta_rows(swapped), expected)
        assert np.array_equal(theta_rows(rows.astype(np.longdouble), check_sum=False), expected)
        assert np.array_equal(theta_rows(np.asfortranarray(rows)), expected)
        assert np.array_equal(theta_rows(np.repeat(rows, 2, axis=1)[:, ::2]), expected)
        assert np.array_equal(theta_rows(rows.astype(object)), expected)
        assert np.array_equal(theta_rows(tuple(map(tuple, rows))), expected)
        integers = np.array([[3, 3, 2, 2, 1], [0, 0, 0, 0, 1]])
        assert theta_rows(integers, check_sum=False).tolist() == [float(theta_of(1, [11])), 0.0]
        big = [[2**64 + 1, 2**64], [2**64 + 1, 1]]
        assert theta_rows(big, check_sum=False).tolist() == [
            float(reference_theta(row)) for row in big
        ]

    def test_nothing_is_changed(self):
        rows = softmax_rows(4, (20, 30), 1.0)
        copy = rows.copy()
        rows.flags.writeable = False
        theta_rows(rows, return_subset=True)
        theta_rows(rows[:, ::-1])
        greedy_certificate(rows)
        theta_rows_from_logits(rows)
        theta(rows[0])
        assert np.array_equal(rows, copy)

    def test_shapes(self):
        assert theta_rows(np.zeros((0, 5))).shape == (0,)
        assert theta_rows(np.ones((2, 0, 3, 4))).shape == (2, 0, 3)
        lone = theta_rows([0.9, 0.1])
        assert (lone.shape, float(lone)) == ((), 0.36)
        with pytest.raises(ValueError, match=r"the row sums to"):
            theta_rows([0.9, 0.2])

    def test_status_and_subset(self):
        rows = np.concatenate(
            [softmax_rows(5, (10, 40), s) for s in (0.1, 1.0, 4.0)], axis=0
        ).reshape(3, 10, 40)
        values, status, subset = theta_rows(rows, return_status=True, return_subset=True)
        only = theta_rows(rows, return_subset=True)
        assert len(only) == 2
        assert np.array_equal(only[1], subset)
        assert subset.shape == rows.shape
        assert subset.dtype == np.bool_
        assert {0, 1} == set(status.ravel().tolist())
        for place in np.ndindex(3, 10):
            weights = exact(rows[place])
            mass = sum(w for w, taken in zip(weights, subset[place], strict=True) if taken)
            gap = abs(2 * mass - sum(weights)) / sum(weights)
            assert float(1 - gap**2) == values[place]
            if status[place] == Status.OPTIMAL:
                assert solve_theta(rows[place], method="mitm").lower == 1 - gap**2

    def test_rows_agree_with_single_rows(self):
        for length in (1, 2, 13, 28, 29, 30, 33, 64, 200):
            for deviation in (0.3, 3.0, 8.0):
                rows = softmax_rows(length, (12, length), deviation)
                assert theta_rows(rows).tolist() == [theta(row) for row in rows]

    def test_threads_do_not_matter(self, monkeypatch):
        monkeypatch.setattr(theory.theta._batch, "_BLOCK_ENTRIES", 100)
        rows = softmax_rows(6, (50, 20), 1.0)
        expected = theta_rows(rows, threads=1)
        assert np.array_equal(theta_rows(rows, threads=3), expected)
        assert np.array_equal(theta_rows(rows), expected)
        assert np.array_equal(theta_rows(rows, threads=np.int64(2)), expected)
        rows[37, 3] = np.nan
        with pytest.raises(ValueError, match="row 37 has NaN at entry 3"):
            theta_rows(rows)
        rows[37, 3] = 2.0
        with pytest.raises(ValueError, match="row 37 sums to"):
            theta_rows(rows)

    def test_progress(self, capsys, monkeypatch):
        monkeypatch.setattr(theory.theta._batch, "_BLOCK_ENTRIES", 4)
        theta_rows(np.full((3, 2), 0.5), progress=True, threads=1)
        assert (
            capsys.readouterr().err == "".join(f"\rθ: {done} of 3 rows" for done in (2, 3)) + "\n"
        )
        theta_rows(np.full((3, 2), 0.5))
        assert capsys.readouterr().err == ""

    def test_an_interrupt_returns_control(self):
        # Nearly uniform rows of odd length take some tenths of a millisecond each.
        rows = softmax_rows(7, (40_000, 65), 0.03)
        theta_rows(rows[:2], on_open="nan")
        # A suite that runs in the background of a shell inherits an ignored SIGINT.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        others = set(threading.enumerate())
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        start = time.monotonic()
        timer.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                theta_rows(rows, on_open="nan", threads=2)
        finally:
            signal.signal(signal.SIGINT, before)
        assert time.monotonic() - start < 2.0
        timer.join()
        assert set(threading.enumerate()) <= others


class TestSupport:
    rows = np.array([[0.5, 0.3, 0.2, 0.0], [0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]])

    def test_lengths(self):
        expected = theta_rows(self.rows)
        assert np.array_equal(theta_rows(self.rows, support=[3, 4, 1]), expected)
        assert np.array_equal(theta_rows(self.rows, support=np.uint8([4, 4, 4])), expected)
        assert np.array_equal(theta_rows(self.rows, support=4), expected)
        with pytest.raises(ValueError, match="row 0 has mass outside its support"):
            theta_rows(self.rows, support=[2, 4, 1])
        with pytest.raises(ValueError, match="row 1 has mass outside its support"):
            greedy_certificate(self.rows, support=3)

    def test_masks(self):
        mask = self.rows > 0
        expected = theta_rows(self.rows)
        assert np.array_equal(theta_rows(self.rows, support=mask), expected)
        assert np.array_equal(theta_rows(self.rows[:1], support=mask[0].tolist()), expected[:1])
        mask[1, 2] = False
        with pytest.raises(ValueError, match="row 1 has mass outside its support"):
            theta_rows(self.rows, support=mask)

    def test_causal(self):
        rows = np.tril(np.ones((4, 4)))
        rows /= rows.sum(axis=1, keepdims=True)
        rows = np.stack([rows, rows])
        expected = [0.0, 1.0, 8 / 9, 1.0]
        assert theta_rows(rows, causal=True).tolist() == [expected] * 2
        assert theta_rows(rows, causal=np.True_).tolist() == [expected] * 2
        assert theta_rows(rows, causal=True, causal_offset=7).tolist() == [expected] * 2
        for offset in (-1, -9):
            with pytest.raises(ValueError, match=r"row \(0, 0\) has mass outside its support"):
                theta_rows(rows, causal=True, causal_offset=offset, on_empty="nan")
        with pytest.raises(ValueError, match=r"row \(0, 1\) has mass outside its support"):
            theta_rows(rows, causal=True, support=[[1, 1, 3, 4]])
        shifted = np.roll(rows, 1, axis=1)[:, 1:]
        assert theta_rows(shifted, causal=True).tolist() == [expected[:3]] * 2

    def test_causal_meets_support(self):
        rows = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
        assert theta_rows(rows, causal=True, support=2).tolist() == [0.0, 1.0, 1.0]
        mask = [True, True, False]
        assert theta_rows(rows, causal=True, support=mask).tolist() == [0.0, 1.0, 1.0]
        rows = rows[:, ::-1]
        for support in (3, [True] * 3):
            with pytest.raises(ValueError, match="row 0 has mass outside its support"):
                theta_rows(rows, causal=True, support=support)

    def test_fully_masked_rows(self):
        nan = np.full(4, np.nan)
        rows = np.vstack([self.rows, np.zeros(4), nan])
        support = np.array([4, 4, 4, 4, 0])
        expected = [*theta_rows(self.rows), np.nan, np.nan]
        got, status, subset = theta_rows(
            rows, support=support, on_empty="nan", return_status=True, return_subset=True
        )
        assert np.array_equal(got, expected, equal_nan=True)
        assert status.tolist() == [0, 0, 0, -1, -1]
        assert not subset[3:].any()
        certificate = greedy_certificate(rows, support=support, on_empty="nan")
        assert np.array_equal(np.isnan(certificate), np.isnan(expected))
        with pytest.raises(ValueError, match="row 3 has zero total weight"):
            theta_rows(rows, support=support)
        with pytest.raises(ValueError, match="row 1 is empty: it sees no entry"):
            theta_rows(rows[[0, 4]], support=[4, 0])
        with pytest.raises(ValueError, match="row 4 has NaN at entry 0"):
            theta_rows(rows, on_empty="nan")
        with pytest.raises(ValueError, match="row 0 has mass outside its support"):
            theta_rows(rows, support=[0, 4, 4, 4, 0], on_empty="nan")
        # An entry outside the support is no place for NaN where something is visible.
        with pytest.raises(ValueError, match="row 0 has NaN at entry 1"):
            theta_rows([[1.0, np.nan]], support=1)

    def test_fractions(self):
        rows = [[Fraction(1, 2), Fraction(1, 3), Fraction(1, 6), 0], [0, 0, 0, 0]]
        got = theta_rows(rows, support=[3, 4], on_empty="nan")
        assert got[0] == 1.0
        assert np.isnan(got[1])
        got = greedy_certificate(rows, on_empty="nan")
        assert got[0] == 1.0
        assert np.isnan(got[1])


class TestLogits:
    def test_the_row_solved_is_the_row_of_exponentials(self):
        logits = np.random.default_rng(0).standard_normal((4, 3, 9)) * 3
        for tau in (0.25, 1, np.float32(2)):
            top = logits.max(axis=-1, keepdims=True)
            weights = np.exp((logits - top) / float(tau))
            expected = theta_rows(weights, check_sum=False)
            assert np.array_equal(theta_rows_from_logits(logits, tau=tau), expected)

    def test_underflow_erases_little(self):
        # exp(-745) is subnormal and still counts; beside a sum of 1 the softmax has it as well.
        assert theta_rows_from_logits([[0.0, -745.0]])[0] == theta([1.0, np.exp(-745.0)])
        assert theta_rows_from_logits([[0.0, -745.0]])[0] > 0
        assert theta_rows_from_logits([[0.0, -800.0]])[0] == 0.0
        assert theta_rows_from_logits([[1e308, -1e308]], tau=0.5).tolist() == [0.0]
        assert theta_rows_from_logits([[1e308, 1e308, 1e308]]).tolist() == [8 / 9]

    def test_masks(self):
        logits = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, np.nan], [-np.inf, 0.0, 0.0]])
        got = theta_rows_from_logits(logits, mask=[[True] * 3, [True, True, False], [True] * 3])
        assert got.tolist() == [8 / 9, 1.0, 1.0]
        assert theta_rows_from_logits(logits, mask=[3, 2, 3]).tolist() == got.tolist()
        assert theta_rows_from_logits(logits[:1], mask=[[True, False, True]]).tolist() == [1.0]
        square = np.zeros((3, 3))
        assert theta_rows_from_logits(square, causal=True).tolist() == [0.0, 1.0, 8 / 9]
        got = theta_rows_from_logits(square[:2], causal=True, causal_offset=1)
        assert got.tolist() == [1.0, 8 / 9]

    def test_fully_masked_rows(self):
        logits = [[-np.inf, -np.inf], [0.0, 0.0], [1.0, 2.0]]
        mask = [[True, True], [True, True], [False, False]]
        got, status = theta_rows_from_logits(logits, mask=mask, on_empty="nan", return_status=True)
        assert np.array_equal(got, [np.nan, 1.0, np.nan], equal_nan=True)
        assert status.tolist() == [-1, 0, -1]
        with pytest.raises(ValueError, match="row 0 has zero total weight"):
            theta_rows_from_logits(logits, mask=mask)
        with pytest.raises(ValueError, match="row 1 is empty: it sees no entry"):
            theta_rows_from_logits(logits[1:], mask=mask[1:])

    @pytest.mark.parametrize(
        ("logits", "reason"),
        [
            ([[0.0, 0.0], [0.0, np.nan]], "row 1 has NaN at entry 1"),
            ([[[0.0, np.inf]]], r"row \(0, 0\) has an infinite logit at entry 1"),
            ([[10**400, 1]], "U: a logit is beyond the range of float64"),
        ],
    )
    def test_faults(self, logits, reason):
        with pytest.raises(ValueError, match=reason):
            theta_rows_from_logits(logits)

    @pytest.mark.parametrize("tau", [0, -1.0, float("nan"), float("inf")])
    def test_faulty_temperatures(self, tau):
        with pytest.raises(ValueError, match="tau: expected a positive finite number, got"):
            theta_rows_from_logits([[0.0]], tau=tau)

    @pytest.mark.parametrize("tau", [None, "1", True, 1j])
    def test_temperatures_of_another_type(self, tau):
        with pytest.raises(TypeError, match="tau: expected a number, got"):
            theta_rows_from_logits([[0.0]], tau=tau)

    def test_other_arguments_are_passed_on(self, capsys):
        logits = np.random.default_rng(1).standard_normal((2, 16))
        got = theta_rows_from_logits(
            logits, threads=1, progress=True, return_subset=True, on_open="nan", budget=0
        )
        assert np.isnan(got[0]).all()
        assert got[1].shape == (2, 16)
        assert "2 of 2 rows" in capsys.readouterr().err
        with pytest.raises(OpenRowError, match="row 0 is open"):
            theta_rows_from_logits(logits, budget=0)


class TestGreedy:
    def test_the_papers_example(self):
        assert greedy_certificate([0.4, 0.3, 0.2, 0.1]) == pytest.approx(0.96, abs=1e-15)
        assert theta([0.4, 0.3, 0.2, 0.1], check_sum=False) == 1.0

    def test_largest_gap(self):
        certificate = greedy_certificate([1 / 3, 1 / 3, 1 / 6, 1 / 6])
        assert certificate == pytest.approx(8 / 9, abs=1e-15)

    def test_bfloat16_thirds_are_renormalised(self):
        rows = np.full((1, 3), THIRD, dtype=ml_dtypes.bfloat16)
        assert float(rows[0, 0]) == 0.333984375
        assert theta_rows(rows).tolist() == [8 / 9]
        assert greedy_certificate(rows)[0] == pytest.approx(8 / 9, abs=1e-15)
        assert greedy_certificate(torch.full((1, 3), THIRD, dtype=torch.bfloat16))[0] < 0.889

    def test_complement_sums_keep_tiny_certificates(self):
        got = greedy_certificate([[1.0, 1e-20], [1.0, 1e-300], [1.0, 0.0]])
        assert got.tolist() == [4e-20, 4e-300, 0.0]

    def test_ties_take_the_shortest_prefix(self):
        # c = 1/4 and c = 3/4 are equally far from one half.
        got = greedy_certificate([[0.25, 0.25, 0.25, 0.25], [0.5, 0.25, 0.25, 0.0]])
        assert got.tolist() == [1.0, 1.0]
        assert greedy_certificate([[3, 5, 0]], check_sum=False)[0] == pytest.approx(
            60 / 64, rel=1e-15
        )

    def test_against_a_plain_loop(self):
        for length in (1, 2, 5, 40, 300):
            rows = softmax_rows(length, (20, length), 2.0)
            for row, value in zip(rows, greedy_certificate(rows), strict=True):
                weights = sorted(exact(row), reverse=True)
                total = sum(weights)
                best = None
                mass = Fraction(0)
                for weight in weights:
                    mass += weight
                    share = mass / total
                    if best is None or abs(share - Fraction(1, 2)) < abs(best - Fraction(1, 2)):
                        best = share
                expected = 4 * best * (1 - best)
                assert value <= 1.0
                bound = (2 * length + 8) * Fraction(1, 2**53)
                assert abs(Fraction(value) - expected) <= bound * expected
                assert Fraction(value) <= Fraction(theta(row)) * (1 + bound)

    def test_any_scale(self):
        row = np.array([0.5, 0.25, 0.2, 0.05])
        expected = greedy_certificate(row)
        for scale in (2.0**-1000, 2.0**1000, 2.0**1023):
            assert greedy_certificate(row * scale, check_sum=False) == expected
        assert greedy_certificate([[10**400, 10**400]], check_sum=False).tolist() == [1.0]

    def test_causal_and_shape(self):
        rows = np.tril(np.ones((2, 3, 3)))
        rows /= rows.sum(axis=-1, keepdims=True)
        got = greedy_certificate(rows, causal=True)
        assert got.shape == (2, 3)
        assert got.dtype == np.float64
        assert got[1] == pytest.approx([0.0, 1.0, 8 / 9], abs=1e-15)
        assert greedy_certificate(rows[:, 1:], causal=True, causal_offset=1)[0, 0] == 1.0
        assert greedy_certificate(np.ones((0, 3))).shape == (0,)


class TestClosestMass:
    def test_small_instances_at_every_target(self):
        weights = [7, 5, 5, 2]
        masses = {0, 2, 5, 7, 9, 10, 12, 14, 17, 19}
        for numerator in range(2 * 19 + 1):
            target = Fraction(numerator, 2)
            closest = closest_mass(weights, target)
            assert closest.below == max(m for m in masses if m <= target)
            assert closest.above == min(m for m in masses if m >= target)
            check_closest(closest, weights, target)
            assert closest.status is Status.OPTIMAL

    @pytest.mark.parametrize("length", [1, 8, 14, 27, 29, 34])
    def test_random_floats(self, length):
        rng = np.random.default_rng(length)
        weights = rng.dirichlet(np.ones(length))
        for share in (0.0, 0.1, 0.5, 0.77):
            target = share * float(weights.sum())
            closest = closest_mass(weights, target)
            assert closest.status is Status.OPTIMAL
            expected = closest_by_halves(exact(weights), Fraction(target))
            assert (closest.below, closest.above) == expected
            check_closest(closest, weights, target)

    def test_forty_atoms(self):
        weights = random_integers([40], 2**60, 40)
        closest = closest_mass(weights, sum(weights) // 3)
        assert closest.status is Status.OPTIMAL
        assert closest.below < closest.above
        check_closest(closest, weights, sum(weights) // 3)

    def test_small_common_denominators_at_any_length(self):
        weights = [Fraction(k % 11 + 1, 999) for k in range(500)]
        closest = closest_mass(weights, Fraction(1, 2))
        assert closest.status is Status.OPTIMAL
        assert (closest.below, closest.above) == (Fraction(499, 999), Fraction(500, 999))
        check_closest(closest, weights, Fraction(1, 2))

    def test_wide_weights(self):
        weights = [1.0, 0.5, 2.0**-900, 2.0**-1000, 3.0]
        for target in (0.5, 1.5 + 2.0**-50, 2.0**-950, 4):
            closest = closest_mass(weights, target)
            expected = closest_by_enumeration(exact(weights), Fraction(target))
            assert (closest.below, closest.above) == expected

    def test_ends(self):
        closest = closest_mass([0.25, 0.5], np.float32(0.75))
        assert (closest.below, closest.above) == (Fraction(3, 4), Fraction(3, 4))
        assert closest.below_subset.all()
        closest = closest_mass([0.25, 0.5], 0)
        assert (closest.below, closest.above) == (0, 0)
        assert not closest.above_subset.any()

    def test_bounded_instances(self):
        weights = open_row()
        target = sum(weights) // 2
        closest = closest_mass(weights, target, budget=0)
        assert closest.status is Status.BOUNDED
        below, above = closest_by_halves(exact(weights), Fraction(target))
        (low, low_bound), (high_bound, high) = closest.bounds
        assert low <= below <= low_bound <= target <= high_bound <= above <= high
        check_closest(closest, weights, target)
        # Too many weights for an exact search, and a target that no subset meets.
        many = [weight * 3 for weight in random_integers([6], 2**60, 60)]
        closest = closest_mass(many, sum(many) // 2 * 2 // 2)
        assert closest.status is Status.BOUNDED
        check_closest(closest, many, sum(many) // 2)

    @pytest.mark.parametrize("target", [-1, 1.1, Fraction(-1, 10**30), 10**400])
    def test_targets_out_of_range(self, target):
        with pytest.raises(ValueError, match="target: must lie between 0 and the total weight"):
            closest_mass([0.5, 0.5], target)

    @pytest.mark.parametrize("target", [float("nan"), float("inf")])
    def test_targets_that_are_not_finite(self, target):
        with pytest.raises(ValueError, match="target: expected a finite number"):
            closest_mass([0.5, 0.5], target)

    @pytest.mark.parametrize("target", [None, "1", True, [0.5]])
    def test_targets_that_are_no_numbers(self, target):
        with pytest.raises(TypeError, match="target: expected a number, got"):
            closest_mass([0.5, 0.5], target)


def check_closest(closest: ClosestMass, weights, target) -> None:
    values = exact(weights)
    for subset, mass in (
        (closest.below_subset, closest.below),
        (closest.above_subset, closest.above),
    ):
        assert subset.shape == (len(values),)
        assert not subset.flags.writeable
        assert sum((w for w, taken in zip(values, subset, strict=True) if taken)) == mass
    assert closest.below <= Fraction(target) <= closest.above
    if closest.status is Status.OPTIMAL:
        assert closest.bounds == ((closest.below,) * 2, (closest.above,) * 2)


class TestResultTypes:
    def test_public_names(self):
        assert sorted(theory.theta.__all__) == theory.theta.__all__
        assert all(hasattr(theory.theta, name) for name in theory.theta.__all__)
        assert len(theory.theta.__all__) == 13

    def test_status_values(self):
        assert [status.name for status in Status] == ["OPTIMAL", "ROUNDED", "BOUNDED"]
        assert [int(status) for status in Status] == [0, 1, 2]
        assert (settle.OPTIMAL, settle.ROUNDED) == (0, 1)

    def test_results_are_frozen_and_travel(self):
        solution = solve_theta([3, 2, 2])
        with pytest.raises(AttributeError):
            solution.theta = 1.0
        again = pickle.loads(pickle.dumps(solution))
        assert (again.theta, again.lower, again.status) == (48 / 49, Fraction(48, 49), 0)
        closest = closest_mass([3, 2, 2], 1)
        with pytest.raises(AttributeError):
            closest.below = 0
        assert pickle.loads(pickle.dumps(closest)).above == 2
        error = pickle.loads(pickle.dumps(OpenRowError((1, 2), (Fraction(1, 2), Fraction(1)))))
        assert (error.index, error.bounds) == ((1, 2), (Fraction(1, 2), Fraction(1)))
        assert str(error) == (
            "row (1, 2) is open: θ lies in [0.5, 1.0] (exact bounds in .bounds); "
            "allow a larger budget or pass on_open='nan'"
        )


def settled(rows: np.ndarray, stop: int = settle.GO) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    value = np.full(len(rows), np.nan)
    status, verdict = np.full((2, len(rows)), -1, dtype=np.int8)
    subset = np.zeros(rows.shape, dtype=np.bool_)
    settle.settle_rows(
        rows.view(np.uint8),
        settle.FLOAT64,
        rows.shape[1],
        np.full(len(rows), rows.shape[1]),
        np.zeros((0, 0), dtype=np.bool_),
        np.inf,
        value,
        status,
        verdict,
        subset,
        np.full(1, stop),
    )
    assert (verdict == settle.SOUND).all()
    return value, status, subset


class TestFloatKernels:
    def test_dominant_rows_are_rounded_right(self):
        rng = np.random.default_rng(3)
        settled_rows = 0
        for length in (2, 3, 10, 50):
            rows = rng.dirichlet(np.full(length, 0.5), 300) * rng.choice([2.0**-200, 1, 2.0**200])
            rows[:, 0] += rows.sum(axis=1) * rng.choice([1e-9, 1e-3, 1, 1e9], 300)
            value, status, subset = settled(rows)
            for r in np.flatnonzero(status == Status.OPTIMAL):
                top = Fraction(rows[r].max())
                total = sum(exact(rows[r]))
                if 2 * top < total:
                    continue
                settled_rows += 1
                assert value[r] == float(4 * top * (total - top) / total**2)
                assert np.flatnonzero(subset[r]).tolist() == [rows[r].argmax()]
        assert settled_rows > 800

    def test_a_value_too_close_to_a_tie_stays_open(self):
        # 4·side·rest/total² with side 1/4 and total 1 is the rest, just above a tie of 1 and its
        # successor; errors of rest and total count four times.
        for error in (2.0**-90, 2.0**-80):
            for distance, expected in ((3 * error, np.nan), (5 * error, 1.0 + 2 * ULP)):
                rest = ULP + distance
                value = float_kernels.rounded_theta_of_side(0.25, 1.0, rest, 1.0, 0.0, error)
                np.testing.assert_equal(value, expected)

    def test_what_it_leaves_alone(self):
        rows = np.array(
            [
                [2.0**301, 1.0],
                [2.0**-301, 2.0**-302],
                [1.0, 2.0**-501],
                [0.5, 0.5 - ULP],
            ]
        )
        value, status, subset = settled(rows)
        assert np.isnan(value).all()
        assert (status == -1).all()
        assert not subset.any()
        # −0.0 is no negative weight, and needs no second look.
        assert settled(np.array([[0.5, -0.0, 0.25, 0.25]]))[0].tolist() == [1.0]
        value, status, subset = settled(np.array([[2.0**300, 0.0], [0.0, 2.0**-300]]))
        assert value.tolist() == [0.0, 0.0]
        assert subset.tolist() == [[True, False], [False, True]]

    def test_dense_rows_come_with_a_witness(self):
        rows = softmax_rows(9, (50, 64), 1.0)
        value, status, subset = settled(rows)
        assert (status == Status.ROUNDED).all()
        assert (value == 1.0).all()
        for row, taken in zip(rows, subset, strict=True):
            mass = sum(exact(row[taken]))
            total = sum(exact(row))
            assert abs(2 * mass - total) * 2**27 <= total

    def test_a_failed_attempt_leaves_no_subset(self):
        rows = np.array([[3.0] * 31 + [2.0] * 2, softmax_rows(9, (33,), 1.0)])
        value, _, subset = settled(rows, stop=settle.HURRY)
        assert np.isnan(value).all()
        assert not subset.any()
        value, _, subset = settled(rows)
        assert value.tolist() == [1 - 1 / 97**2, 1.0]
        assert subset.any(axis=1).all()

    def test_pair_sums(self):
        rows = np.array([[1.0, 2.0**-60, 2.0**-100], [0.0, 3.0, 0.0]])
        sums = np.empty((2, 2))
        float_kernels.pair_sums(rows, sums)
        assert sums.tolist() == [[1.0, 2.0**-60 + 2.0**-100], [3.0, 0.0]]


class TestCompilation:
    def test_the_hash_covers_names_and_contents(self, tmp_path: Path):
        (tmp_path / "a.py").write_text("x = 1\n")
        first = jit.source_hash(tmp_path)
        assert first == jit.source_hash(tmp_path)
        (tmp_path / "a.py").write_text("x = 2\n")
        second = jit.source_hash(tmp_path)
        (tmp_path / "a.py").rename(tmp_path / "b.py")
        third = jit.source_hash(tmp_path)
        (tmp_path / "notes.txt").write_text("not a source")
        assert len({first, second, third}) == 3
        assert jit.source_hash(tmp_path) == third

    def test_where_the_cache_lies(self, tmp_path: Path, monkeypatch):
        package = tmp_path / "package"
        package.mkdir()
        (package / "a.py").write_text("x = 1\n")
        key = f"theta-{jit.source_hash(package)}"
        monkeypatch.setattr(numba.config, "CACHE_DIR", "")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
        assert jit.cache_folder(package) == package / "__pycache__" / key
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "numba"))
        assert jit.cache_folder(package) == tmp_path / "numba" / key
        # A file in the way stands for a folder that cannot be written.
        (tmp_path / "file").write_text("")
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file"))
        assert jit.cache_folder(package) == tmp_path / "user" / "numba" / key
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        assert jit.cache_folder(package) is None

    def test_an_edited_callee_is_never_served_stale(self, tmp_path: Path):
        package = tmp_path / "package"
        package.mkdir()
        (package / "__init__.py").write_text("")
        source = Path(jit.__file__).read_text(encoding="utf-8")
        (package / "_jit.py").write_text(source, encoding="utf-8")
        (package / "caller.py").write_text(
            textwrap.dedent(
                """
                from package._jit import kernel
                from package.callee import inner

                @kernel
                def outer(x):
                    return inner(x)

                print(outer(1), sum(outer.stats.cache_hits.values()))
                """
            )
        )

        def run(constant: int) -> str:
            (package / "callee.py").write_text(
                "from package._jit import kernel\n\n\n"
                f"@kernel\ndef inner(x):\n    return x + {constant}\n"
            )
            # A folder given there would be the same for both runs and outlast them.
            env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
            done = subprocess.run(
                [sys.executable, "-c", "import package.caller"],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                check=True,
            )
            return done.stdout.strip()

        assert run(1) == "2 0"
        assert run(1) == "2 1"
        assert run(2) == "3 0"

    def test_kernels_work_without_any_cache(self, monkeypatch):
        jit._package_folder.cache_clear()
        monkeypatch.setattr(jit, "cache_folder", lambda package: None)
        try:
            double = jit.kernel(lambda x: 2 * x)
            assert double(21) == 42
            assert double._cache.cache_path is None
            double._cache.disable()
            double._cache.enable()
            double._cache.flush()
        finally:
            jit._package_folder.cache_clear()


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64])
def test_numpy_integers_are_read_as_python_integers(kind: type) -> None:
    """NumPy's own integers would wrap, or raise, inside a Fraction."""
    row = [kind(100), kind(100), kind(100), kind(27)]
    expected = 1 - Fraction(73, 327) ** 2
    assert solve_theta(row).lower == expected
    assert solve_theta([Fraction(weight) for weight in row]).lower == expected
    assert closest_mass([1, 2, 3], kind(3)).below == 3
    assert closest_mass([1, 2, 3], Fraction(kind(100), kind(50))).above == 2


def test_a_target_below_every_weight_needs_no_memory() -> None:
    weights = np.exp(np.random.default_rng(0).normal(0, 2, 60))
    found = closest_mass(weights, 1e-13)
    assert found.status is Status.OPTIMAL
    assert (found.below, found.above) == (0, Fraction(float(weights.min())))


@pytest.mark.parametrize("target", [10**400, Fraction(10**400)])
def test_a_huge_target_is_out_of_range(target: object) -> None:
    with pytest.raises(ValueError, match="between 0 and the total"):
        closest_mass([1, 2, 3], target)
