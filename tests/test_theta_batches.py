"""theory.theta in batches: kernels with exact witnesses, types, memory, threads, fork, Ctrl-C."""

import math
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from theta_reference import exact, reference_theta

import theory.theta
from theory.theta import Status, _rows, _sums, solve_theta, theta_rows, theta_rows_from_logits
from theory.theta import _float_kernels as floats
from theory.theta import _lanes as lanes
from theory.theta import _long_rows as long_rows
from theory.theta import _repair as repair
from theory.theta import _settle as settle
from theory.theta import _small_rows as small_rows
from theory.theta._batch import read_rows
from theory.theta._found import Deadline

ROOT = Path(theory.theta.__file__).resolve().parents[2]


def softmax_rows(seed: int | list[int], shape: tuple[int, ...], deviation: float) -> np.ndarray:
    logits = deviation * np.random.default_rng(seed).standard_normal(shape)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def causal_rows(heads: int, length: int, deviation: float) -> np.ndarray:
    """(heads, length, length) float32 rows of softmax, row t over its first t + 1 entries."""
    logits = deviation * np.random.default_rng(length).standard_normal((heads, length, length))
    logits[:, np.triu(np.ones((length, length), dtype=bool), 1)] = -np.inf
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def gap_of(row: np.ndarray, taken: np.ndarray) -> Fraction:
    """|2 w(S) − W| / W, exactly."""
    total = sum(exact(row))
    return abs(2 * sum(exact(row[taken])) - total) / total


def gap_by_theta(theta: Fraction) -> Fraction:
    """δ with θ = 1 − δ², for a θ that has a rational one."""
    square = 1 - theta
    root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    assert root**2 == square
    return root


def long_row_arrays(length: int) -> tuple[np.ndarray, ...]:
    """scratch, indices, ordered, places and minus, as `balance_row` wants them."""
    return (
        np.empty((5, 2**13)),
        np.empty((7, 64), np.int64),
        np.empty(length + lanes.LANE_STEP),
        np.empty(length, np.int32),
        np.empty(length, np.bool_),
    )


class TestLongRows:
    @pytest.mark.parametrize("deviation", [0.03, 0.1, 0.5, 1.0, 3.0, 6.0])
    @pytest.mark.parametrize("length", [97, 128, 255, 256, 1000, 4096])
    def test_a_found_subset_is_close_enough(self, length, deviation):
        rows = softmax_rows([length, int(100 * deviation)], (10, length), deviation)
        found = 0
        for row in rows:
            arrays = long_row_arrays(length)
            count = long_rows.balance_row(row, length, row.sum(), 0.0, 0.0, True, *arrays)
            assert 0 <= count <= length
            if count:
                found += 1
                *_, places, minus = arrays
                assert len(set(places[:count].tolist())) == count
                taken = np.zeros(length, np.bool_)
                taken[places[:count]] = ~minus[:count]
                assert gap_of(row, taken) <= Fraction(1, 2**27)
                same = long_rows.balance_row(row, length, row.sum(), 0.0, 0.0, False, *arrays)
                assert same == count
        if length >= 255 and 0.1 <= deviation <= 1:
            assert found >= 8

    def test_rows_without_a_close_subset_are_left(self):
        # Each mass is a multiple of 1/257.
        row = np.ones(257) + (np.arange(257) < 3)
        arrays = long_row_arrays(257)
        row[0] = 2.0
        assert row.sum() % 2 == 0
        assert long_rows.balance_row(row, 257, row.sum(), 0.0, 0.0, True, *arrays) > 0
        row[0] = 1.0
        assert long_rows.balance_row(row, 257, row.sum(), 0.0, 0.0, True, *arrays) == 0

    @pytest.mark.parametrize("length", [96, 128, 191, 192, 193, 700, 1000])
    def test_lanes(self, length):
        found = 0
        for deviation in (0.1, 0.4, 1.0, 2.0):
            rows = softmax_rows([length, int(100 * deviation)], (12, length), deviation)
            for number, row in enumerate(rows):
                row[np.random.default_rng(length).random(length) < 0.1] = 0.0
                row[length // 3] += number % 3 * 0.3
                arrays = long_row_arrays(length)
                accepted = 2.0**-20 * row.sum()
                args = row, length, row.sum(), accepted
                if not lanes.balance_lanes(*args, True, *arrays):
                    assert not lanes.balance_lanes(*args, False, *arrays)
                    continue
                found += 1
                *_, places, minus = arrays
                taken = np.zeros(length, np.bool_)
                taken[places] = ~minus
                assert lanes.balance_lanes(*args, False, *arrays)
                assert sorted(places.tolist()) == list(range(length))
                assert gap_of(row, taken) <= Fraction(1001, 1000) / 2**20
        assert found >= (10 if length < 191 else 28)

    def test_lanes_and_large_weights(self):
        arrays = long_row_arrays(400)
        flat = softmax_rows(1, (400,), 0.3)
        assert 0.9 < flat.sum() < 1.1
        # 65 large weights, 64 of them, one that takes a bulk, one beyond all, and 63 small ones.
        for row, found in (
            (np.where(np.arange(400) < 65, 1.0, flat), False),
            (np.where(np.arange(400) < 64, 1.0, flat), True),
            (np.where(np.arange(400) < 1, 0.5, flat), True),
            (np.where(np.arange(400) > 398, 0.9, flat), True),
            (np.where(np.arange(400) < 1, 1.1, flat), False),
            (np.where(np.arange(400) < 63, flat, 0.0), False),
        ):
            accepted = 2.0**-20 * row.sum()
            assert lanes.balance_lanes(row, 400, row.sum(), accepted, True, *arrays) == found
            if found:
                *_, places, minus = arrays
                assert gap_of(row, ~minus[np.argsort(places)]) <= Fraction(1001, 1000) / 2**20

    @pytest.mark.parametrize("count", [48, 64])
    def test_repair(self, count):
        rng = np.random.default_rng(count)
        found = 0
        for _ in range(100):
            held = np.sort(rng.random(count))[::-1].copy()
            gap = 4 * rng.random() - 2
            scratch, indices, *_ = long_row_arrays(1)
            minus = np.empty(count, np.bool_)
            if repair.repair(gap, 1e-5, held, count, minus, scratch, indices):
                found += 1
                signs = np.where(minus, -1, 1)
                left = Fraction(gap) + sum(map(Fraction, (signs * held).tolist()))
                assert abs(left) <= Fraction(1001, 1000) * Fraction(1e-5)
        assert found >= 95

    def test_sorting_with_places(self):
        rng = np.random.default_rng(1)
        for k in range(20):
            values = rng.choice(rng.random(5), 64) if k % 2 else rng.random(64)
            given, places = values.copy(), np.arange(64)
            repair.sort_held(values, places, np.empty(64), np.empty((2, 64), np.int64))
            assert (given[places] == values).all()
            assert sorted(places.tolist()) == list(range(64))
            assert (np.diff(values) <= 0).all()

    def test_order_by_binade(self):
        rng = np.random.default_rng(1)
        for length in (1, 5, 64, 333):
            weights = np.ldexp(rng.random(length) + 0.5, rng.integers(-50, 0, length))
            weights[rng.random(length) < 0.1] = 0.0
            weights[0] = 1.5
            for cut in (2.0**-60, 2.0**-20, 0.5):
                ordered, places = np.empty(length), np.empty(length, np.int32)
                count = long_rows.order_by_binade(weights, length, cut, ordered, places)
                assert sorted(places.tolist()) == list(range(length))
                assert (weights[places] == ordered).all()
                assert (ordered[:count] >= cut).all()
                assert (ordered[count:] < cut).all()
                binades = np.frexp(ordered[:count])[1]
                assert (np.diff(binades) <= 0).all()


def split(weights: np.ndarray, stop: int = settle.GO) -> tuple[float, int, np.ndarray]:
    """`split_row` of descending weights."""
    n = len(weights)
    taken = np.zeros(n, np.bool_)
    value, status, _ = small_rows.split_row(
        weights,
        n,
        *floats.pair_sum(weights, n),
        small_rows.MAX_LEAVES,
        np.empty((4, 2**13)),
        np.empty((2, n + 1)),
        taken,
        np.full(1, stop),
    )
    return value, status, taken


def descending(kind: str, length: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, length])
    weights = {
        "flat": lambda: np.exp(0.1 * rng.standard_normal(length)),
        "softmax": lambda: np.exp(2.0 * rng.standard_normal(length)),
        "heavy": lambda: np.exp(5.0 * rng.standard_normal(length)),
        "integers": lambda: rng.integers(1, 100, length).astype(np.float64),
        "binades": lambda: np.ldexp(rng.random(length) + 0.5, -rng.integers(0, 40, length)),
        "ties": lambda: rng.choice([0.1, 0.2, 0.3, 0.7], length),
        "neighbours": lambda: 1 + rng.integers(0, 8, length) * 2.0**-52,
        "single": lambda: rng.random(length).astype(np.float32).astype(np.float64) + 0.01,
        "subnormal": lambda: np.append(rng.random(length - 2) + 0.5, [5e-324, 3e-310]),
    }[kind]()
    return np.sort(weights)[::-1].copy()


KINDS = [
    "flat",
    "softmax",
    "heavy",
    "integers",
    "binades",
    "ties",
    "neighbours",
    "single",
    "subnormal",
]


class TestSmallRows:
    @pytest.mark.parametrize("kind", KINDS)
    def test_values_and_witnesses_are_exact(self, kind):
        proved = 0
        for length in (2, 3, 4, 5, 6, 7, 9, 12, 15, 16, 17, 20, 23):
            for seed in range(12 if length < 17 else 2):
                weights = descending(kind, length, seed)
                if 2 * weights[0] > weights.sum():
                    continue
                value, status, taken = split(weights)
                if status == small_rows.OPEN:
                    assert np.isnan(value)
                    continue
                proved += 1
                best = reference_theta(weights)
                assert value == float(best)
                witnessed = 1 - gap_of(weights, taken) ** 2
                assert float(witnessed) == value
                if status == small_rows.OPTIMAL:
                    assert witnessed == best
        assert proved >= 5

    @pytest.mark.parametrize("kind", ["flat", "softmax", "binades", "single"])
    def test_longer_rows(self, kind):
        for length in (25, 27, 28, 29, 30, 33):
            weights = descending(kind, length, 5)
            if 2 * weights[0] > weights.sum():
                continue
            value, status, taken = split(weights)
            assert status != small_rows.OPEN
            assert value == float(reference_theta(weights))
            assert float(1 - gap_of(weights, taken) ** 2) == value

    @pytest.mark.parametrize("heavy", [1.0, 2.0**-20])
    def test_the_lighter_side_gets_the_tail(self, heavy):
        # The head leaves 2⁻³², which the tail of that mass makes up for on the right side only.
        tail = heavy * 2.0**-32
        for weights in ([heavy + tail, heavy, tail], [heavy, heavy - tail, tail]):
            value, status, taken = split(np.array(weights))
            assert (value, status) == (1.0, small_rows.OPTIMAL)
            assert gap_of(np.array(weights), taken) == 0

    def test_a_leaf_is_as_small_as_density_allows(self):
        # A distance of 1.6e-4 to either side of two aims, among 4^p sums of deviation √(p/2).
        weights = np.ones(30)
        wanted = next(p for p in range(14) if 4.0**p * 1.6e-4 / 2.5 * 4 >= 4 * math.sqrt(p / 2) > 0)
        assert small_rows._leaf_pairs(weights, 30, 1.6e-4) == wanted
        assert small_rows._leaf_pairs(100 * weights, 30, 1.6e-2) == wanted
        assert small_rows._leaf_pairs(weights, 30, 0.0) == 13

    def test_the_search_stops_when_told(self):
        # Cardinality alone keeps the masses away from one half: the search would be long.
        weights = descending("neighbours", 34, 1) + 1e-9 * np.arange(34)[::-1] ** 2
        weights[0] += 0.9
        assert split(weights, stop=settle.QUIT)[1] == small_rows.OPEN

    def testcommon_unit(self):
        for weights, unit in (
            ([1.0, 0.5, 0.25], 0.25),
            ([3.0, 1.5], 0.5),
            ([6.0, 4.0], 2.0),
            ([1.0, 5e-324], 5e-324),
            ([1 + 2.0**-52], 2.0**-52),
            ([3 * 5e-324], 5e-324),
            ([0.0, 5e-324, 0.5], 5e-324),
            ([0.0, 0.5], 0.5),
        ):
            array = np.array(weights)
            assert small_rows.common_unit(array, len(array)) == unit

    def test_least_residue_is_a_lower_bound_and_often_attained(self):
        rng = np.random.default_rng(10)
        attained = 0
        for _ in range(200):
            length = int(rng.integers(2, 14))
            weights = np.ldexp(rng.integers(1, 16, length), rng.integers(0, 6, length))
            unit = small_rows.common_unit(weights, length)
            total = float(weights.sum())
            bound = small_rows.least_residue(weights, length, unit, total, np.empty(2**10))
            least = Fraction(total) * gap_by_theta(reference_theta(weights))
            assert bound <= least
            attained += bound == least
        assert attained > 50
        # One odd weight among multiples of 8 leaves 3; the parity alone would leave 1.
        weights = np.array([8.0, 8.0, 16.0, 3.0])
        assert small_rows.least_residue(weights, 4, 1.0, 35.0, np.empty(2**10)) == 3.0

    def test_subset_sums_are_all_and_ascending(self):
        rng = np.random.default_rng(3)
        for pairs in range(7):
            for scale in (1.0, 40.0):
                weights = np.exp2(rng.random(2 * pairs + 1) * scale)
                sums = np.empty((4, 2**7))
                lists = small_rows.subset_sums(weights, 1, pairs, sums)
                for side, got in enumerate(lists):
                    expected = [0.0]
                    for weight in weights[1 + side :: 2]:
                        expected += [entry + weight for entry in expected]
                    assert got.tolist() == sorted(expected)

    def test_closest_pairs_sees_the_least_distances(self):
        rng = np.random.default_rng(4)
        for size in (1, 2, 4, 16, 64):
            for _ in range(30):
                ones = np.sort(rng.integers(0, 4 * size, size)).astype(np.float64)
                twos = np.sort(rng.integers(0, 4 * size, size)).astype(np.float64)
                aims = rng.uniform(-1, 9 * size, 2)
                best, cell = np.full(3, np.inf), np.zeros(2, np.int64)
                small_rows.closest_pairs(ones, twos, *aims, -1.0, np.inf, best, cell)
                distances = np.abs(ones[:, None] + twos - aims[:, None, None])
                assert best[0] == distances.min()
                assert abs(ones[cell[0]] + twos[cell[1]] - best[2]) == best[0]
                assert best[2] in aims

    def test_odd_closed_form(self):
        rng = np.random.default_rng(5)
        settled = 0
        for length in (3, 5, 9, 13, 15):
            for _ in range(20):
                weights = np.sort(1 + 0.2 * rng.random(length))[::-1].copy()
                taken = np.zeros(length, np.bool_)
                total = floats.pair_sum(weights, length)
                value, status = small_rows.odd_split(weights, length, length, *total, taken)
                if status == small_rows.OPTIMAL:
                    settled += 1
                    assert value == float(reference_theta(weights))
                    assert 1 - gap_of(weights, taken) ** 2 == reference_theta(weights)
        assert settled > 40
        weights = np.array([5.0, 4.0, 3.0, 2.0, 2.0])
        assert small_rows.odd_split(weights, 5, 5, 16.0, 0.0, taken)[1] == small_rows.OPEN


class TestArithmetic:
    def test_pair_sums_are_within_their_bound(self):
        rng = np.random.default_rng(6)
        for length in (1, 2, 3, 4, 5, 31, 1000):
            values = np.ldexp(rng.random(length), rng.integers(-80, 0, length))
            hi, lo = floats.pair_sum(values, length)
            total = sum(exact(values))
            assert abs(Fraction(hi) + Fraction(lo) - total) <= floats.sum_error(length) * total

    def test_thetas_are_rounded_right_or_left(self):
        rng = np.random.default_rng(7)
        settled = 0
        for _ in range(500):
            total, gap = rng.random() + 0.5, 0.5 * rng.random() * 10.0 ** -rng.integers(0, 12)
            value = floats.rounded_theta_of_gap(gap, 0.0, total, 0.0, 0.0)
            if not np.isnan(value):
                settled += 1
                assert value == float(1 - (Fraction(gap) / Fraction(total)) ** 2)
        assert settled > 480
        # 1 − (3 · 2⁻²⁷)² = 1 − 9 · 2⁻⁵⁴ lies between two floats.
        assert np.isnan(floats.rounded_theta_of_gap(3 * 2.0**-27, 0.0, 1.0, 0.0, 2.0**-90))
        assert np.isnan(floats.rounded_theta_of_gap(9 * 2.0**-27, 0.0, 3.0, 0.0, 0.0))
        # Without any error before it, and for a power of two, the tie goes to the even neighbour.
        for gap in range(1, 200):
            value = floats.rounded_theta_of_gap(gap * 2.0**-27, 0.0, 1.0, 0.0, 0.0)
            assert value == float(1 - Fraction(gap, 2**27) ** 2)
        assert np.isnan(floats.rounded_theta_of_side(2**27 + 3, 2**27 - 3, 0, 2**28, 0, 0))
        assert floats.rounded_theta_of_gap(0.5, 0.0, 1.0, 0.0, 2.0**-80) == 0.75

    def test_is_balanced_needs_an_exact_zero(self):
        taken = np.array([True, False, False])
        assert floats.is_balanced(np.array([0.5, 0.3, 0.2]), 3, taken)
        assert not floats.is_balanced(np.array([0.5, 0.25, 0.25 + 2.0**-54]), 3, taken)
        assert not floats.is_balanced(np.array([1.0, 1.0, 5e-324]), 3, taken)


class TestTypes:
    @pytest.mark.parametrize("kind", "bhilqBHILQ")
    def test_integers_are_solved_by_kernels(self, kind, monkeypatch):
        rows = np.random.default_rng(16).integers(0, 120, (40, 12)).astype(kind)
        rows[5], rows[6, 2:] = 0, 0
        given = {"check_sum": False, "on_empty": "nan", "return_subset": True}
        expected = theta_rows(rows.astype(float), **given)
        with monkeypatch.context() as patch:
            patch.setattr(_rows._Batch, "search", None)
            for source in (rows, np.asfortranarray(rows), rows.astype(rows.dtype.newbyteorder())):
                got = theta_rows(source, **given)
                assert all(
                    np.array_equal(*p, equal_nan=True) for p in zip(got, expected, strict=True)
                )
        assert got[0][0] == solve_theta(rows[0]).theta
        if kind in "bhilq":
            with pytest.raises(ValueError, match="row 0 has a negative weight at entry 1"):
                theta_rows(np.array([[2, -1]], dtype=kind), check_sum=False)
        with pytest.raises(ValueError, match=r"row 0 sums to 5\.0 instead of 1"):
            theta_rows(np.array([[3, 2]], dtype=kind))

    @pytest.mark.parametrize("top", [2**53, 2**53 + 1, 2**63 - 1])
    def test_integers_beyond_floats_stay_exact(self, top):
        # The first is more than half of the total by half a unit.
        rows = np.array([[top, top - 2, 1], [3, 2, 2]])
        got = theta_rows(rows, check_sum=False)
        assert got.tolist() == [solve_theta(row.tolist()).theta for row in rows]
        assert got[0] == float(1 - Fraction(1, 2 * top - 1) ** 2)
        kind = read_rows(rows, "P", None, False, 0).kind()
        assert kind == (settle.FLOAT64 if top == 2**53 else None)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
    def test_every_bit_pattern_is_read(self, dtype):
        """Rows of one entry: θ = 0 for positive ones, and the others are refused by name."""
        width = np.dtype(dtype).itemsize * 8
        rng = np.random.default_rng(8)
        patterns = (
            np.arange(2**16)
            if width == 16
            else rng.integers(0, 2**width, 2000, dtype=f"u{width // 8}", endpoint=False)
        ).astype(f"u{width // 8}")
        values = patterns.view(dtype)
        with np.errstate(invalid="ignore"):
            wide = values.astype(np.float64)
        sound = (wide >= 0) & (wide < np.inf)
        rows = np.stack([values[sound], np.zeros_like(values[sound])], axis=1)
        got, status = theta_rows(rows, check_sum=False, on_empty="nan", return_status=True)
        assert np.array_equal(np.isnan(got), wide[sound] == 0)
        assert (got[wide[sound] > 0] == 0.0).all()
        assert np.array_equal(status == -1, wide[sound] == 0)
        for value in values[~sound][:: max(1, len(patterns) // 400)]:
            with pytest.raises(ValueError, match=r"row 0 has (NaN|a negative weight|an infinity)"):
                theta_rows(np.array([[value, 1]], dtype=dtype), check_sum=False)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
    def test_two_entries_of_every_size(self, dtype):
        rng = np.random.default_rng(9)
        rows = np.exp2(rng.uniform(-14, 3, (500, 2))).astype(dtype)
        for row, value in zip(rows, theta_rows(rows, check_sum=False), strict=True):
            assert value == float(reference_theta(row.astype(np.float64)))

    @pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.dtype(">f4")])
    def test_layouts_agree(self, dtype):
        rows = softmax_rows(10, (4, 6, 130), 1.0).astype(dtype)
        expected = theta_rows(rows.astype(np.float64), check_sum=False)
        frozen = rows.copy()
        frozen.flags.writeable = False
        stretched = np.repeat(rows, 2, axis=2)[:, :, ::2]
        for source in (rows, frozen, stretched, np.asfortranarray(rows), rows[:, :, ::-1]):
            assert np.array_equal(theta_rows(source, check_sum=False), expected)
        assert np.array_equal(
            theta_rows(rows.swapaxes(0, 1), check_sum=False), expected.swapaxes(0, 1)
        )
        assert theta_rows(stretched[0, 0], check_sum=False) == expected[0, 0]

    def test_bfloat16_tensors_are_read_in_place(self):
        tensor = torch.tensor(softmax_rows(11, (512, 1024), 1.0)).to(torch.bfloat16)
        expected = theta_rows(tensor.float().numpy(), check_sum=False)
        tracemalloc.start()
        try:
            got = theta_rows(tensor, check_sum=False, threads=1)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert np.array_equal(got, expected)
        # A copy as float32 would take 2 MiB.
        assert peak < 2**21
        part = theta_rows(tensor[:, ::2], check_sum=False)
        assert np.array_equal(part, theta_rows(tensor.float().numpy()[:, ::2], check_sum=False))
        assert theta_rows_from_logits(torch.zeros(2, 3, dtype=torch.bfloat16)).tolist() == [
            8 / 9,
            8 / 9,
        ]


class TestMemory:
    def test_a_causal_tensor_needs_no_copy(self):
        rows = causal_rows(4, 256, 1.0)
        theta_rows(rows[:1], causal=True)
        tracemalloc.start()
        try:
            got = theta_rows(rows, causal=True, threads=2)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < rows.nbytes
        assert got.shape == (4, 256)
        for head, t in ((0, 0), (1, 1), (2, 17), (3, 255)):
            assert got[head, t] == solve_theta(rows[head, t, : t + 1]).theta

    def test_masks_and_logits_are_made_a_block_at_a_time(self, monkeypatch):
        monkeypatch.setattr(theory.theta._batch, "_BLOCK_ENTRIES", 2**13)
        logits = np.random.default_rng(12).standard_normal((8, 128, 128))
        mask = np.tril(np.ones((128, 128), dtype=bool))
        expected = theta_rows_from_logits(logits, causal=True)
        tracemalloc.start()
        try:
            got = theta_rows_from_logits(logits, mask=mask, threads=1)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert np.array_equal(got, expected)
        # One float64 copy of the logits is 1 MiB.
        assert peak < 2**20


def many_rows() -> np.ndarray:
    return np.concatenate([softmax_rows(13, (150, 96), s) for s in (0.02, 0.3, 2.0, 6.0)])


class TestThreads:
    def test_results_do_not_depend_on_the_number_of_threads(self, monkeypatch):
        monkeypatch.setattr(theory.theta._batch, "_BLOCK_ENTRIES", 2**10)
        rows = many_rows()
        first = theta_rows(rows, threads=1, return_status=True, return_subset=True)
        for threads in (2, 5):
            again = theta_rows(rows, threads=threads, return_status=True, return_subset=True)
            assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
        assert (first[1] != Status.BOUNDED).all()

    def test_calls_from_several_threads(self):
        rows = many_rows()
        expected = theta_rows(rows)
        with ThreadPoolExecutor(6) as pool:
            for got in pool.map(lambda _: theta_rows(rows, threads=2), range(12)):
                assert np.array_equal(got, expected)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
    def test_calls_after_a_fork(self):
        rows = many_rows()
        expected = theta_rows(rows, threads=2)
        context = multiprocessing.get_context("fork")
        with context.Pool(2) as pool:
            for got in pool.map(theta_rows, [rows] * 4):
                assert np.array_equal(got, expected)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
    def test_a_fork_while_kernels_run(self):
        rows = many_rows()
        expected = theta_rows(rows)
        going = threading.Event()
        going.set()

        def work() -> None:
            while going.is_set():
                theta_rows(rows, threads=2)

        busy = threading.Thread(target=work)
        busy.start()
        try:
            with multiprocessing.get_context("fork").Pool(1) as pool:
                assert np.array_equal(pool.apply_async(theta_rows, [rows]).get(60), expected)
        finally:
            going.clear()
            busy.join()

    def test_a_late_budget_leaves_rows_bounded(self):
        rows = softmax_rows(14, (20_000, 27), 0.3)
        theta_rows(rows[:2], threads=1)
        start = time.monotonic()
        status = theta_rows(rows, budget=0.1, on_open="nan", threads=1, return_status=True)[1]
        assert time.monotonic() - start < 30
        assert status[0] in (Status.OPTIMAL, Status.ROUNDED)
        assert status[-1] == Status.BOUNDED


INTERRUPTED = """
    import os, signal, sys, threading, time
    import numpy as np
    from theory.theta import theta_rows

    rows = np.exp(SPREAD * np.random.default_rng(0).standard_normal((ROWS, LENGTH)))
    rows /= rows.sum(axis=1, keepdims=True)
    theta_rows(rows[:2], on_open="nan", budget=1)
    print("begun", flush=True)
    try:
        theta_rows(rows, on_open="nan", check_sum=False, threads=THREADS)
        sys.exit("it ended before the interrupt")
    except KeyboardInterrupt:
        caught = time.clock_gettime(time.CLOCK_MONOTONIC)
    assert threading.active_count() == 1, threading.enumerate()
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.05, "something goes on computing"
    print(caught, flush=True)
"""


# Integers that are multiples of 2⁴⁰ but for their lower bits: many subsets are best by the
# multiples, and which of them is best of all would take hours.
SEARCHING = """
    import signal, sys, threading, time
    import numpy as np
    from theory.theta import solve_theta, theta, theta_rows

    rng = np.random.default_rng(61)
    multiples = rng.integers(2**10, 2**11, 61)
    multiples[0] += multiples.sum() % 2 == 0
    row = [int(k) * 2**40 + int(b) for k, b in zip(multiples, rng.integers(0, 2**20, 61))]
    assert theta(row, check_sum=False, budget=0.1, on_open="nan") != 0
    print("begun", flush=True)
    try:
        CALL
        sys.exit("it ended before the interrupt")
    except KeyboardInterrupt:
        caught = time.clock_gettime(time.CLOCK_MONOTONIC)
    assert threading.active_count() == 1, threading.enumerate()
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.05, "something goes on computing"
    print(caught, flush=True)
"""


def test_how_long_threads_wait_for_a_deadline():
    stop = np.zeros(1, np.int64)
    assert _rows._Deadline(None, stop).left() is None
    assert 50 < _rows._Deadline(60.0, stop).left() <= 60
    assert _rows._Deadline(0.0, stop).left() == 0
    assert _rows._Deadline(math.inf, stop).left() == threading.TIMEOUT_MAX


class TestInterrupts:
    @pytest.mark.parametrize("threads", [1, 2])
    @pytest.mark.parametrize(
        # Many seconds of work each.
        ("spread", "count", "length"),
        [(0.3, 400_000, 24), (0.03, 100_000, 65)],
    )
    def test_control_is_back_at_once(self, spread, count, length, threads):
        code = textwrap.dedent(INTERRUPTED)
        values = ("SPREAD", spread), ("ROWS", count), ("LENGTH", length), ("THREADS", threads)
        for name, value in values:
            code = code.replace(name, str(value))
        # Tried again where other work on the machine may have been in the way.
        assert any(self.delay(code, 0.1) < 0.2 for _ in range(6))

    @pytest.mark.parametrize(
        "call",
        [
            "theta(row, check_sum=False)",
            "solve_theta(row)",
            "solve_theta(row, method='branch')",
            "solve_theta(row, method='groups')",
            "solve_theta(row[:57], method='quarters')",
            "theta_rows([row], check_sum=False, threads=1)",
            "theta_rows([row, row, row], check_sum=False, threads=2)",
            "theta_rows(np.array([row, row], dtype=float), check_sum=False, threads=2)",
        ],
    )
    def test_a_long_search_ends(self, call):
        code = textwrap.dedent(SEARCHING).replace("CALL", call)
        assert any(self.delay(code, 0.5) < 0.2 for _ in range(6))

    def delay(self, code: str, seconds: float) -> float:
        """How long after an interrupt a process that runs the code says that it is back."""
        # A suite that runs in the background of a shell inherits an ignored SIGINT.
        handled = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        with subprocess.Popen(
            [sys.executable, "-c", handled + code], stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            time.sleep(seconds)
            sent = time.clock_gettime(time.CLOCK_MONOTONIC)
            process.send_signal(signal.SIGINT)
            output = process.stdout.read()
            assert process.wait(60) == 0
        return float(output) - sent


def test_wide_weights_are_met_in_the_middle_up_to_the_cap():
    small, middle = 2**120 + 7, 2**125 + 1
    values = [small + middle + 1, middle, small]
    sums = [0]
    for value in values:
        sums += [entry + value for entry in sums]
    for cap in (s + step for s in sums for step in (-1, 0, 1) if 0 <= s + step <= sum(values)):
        chosen = _sums.mitm(values, cap, cap, Deadline(None)).chosen
        mass = sum(value for k, value in enumerate(values) if chosen >> k & 1)
        assert mass == max(s for s in sums if s <= cap)


class TestFaults:
    def test_the_first_faulty_row_is_named(self, monkeypatch):
        monkeypatch.setattr(theory.theta._batch, "_BLOCK_ENTRIES", 16)
        rows = softmax_rows(15, (30, 4), 1.0)
        rows[11] *= 1.5
        rows[22, 1] = np.nan
        with pytest.raises(ValueError, match="row 11 sums to"):
            theta_rows(rows)
        with pytest.raises(ValueError, match="row 22 has NaN at entry 1"):
            theta_rows(rows, check_sum=False)

    def test_faults_come_before_open_rows(self):
        rows = np.array([[k + 2.0**-20 * k**3 for k in range(9, 23)], [1.0, -1.0] + [0.0] * 12])
        with pytest.raises(ValueError, match="row 1 has a negative weight"):
            theta_rows(rows, check_sum=False, budget=0)
