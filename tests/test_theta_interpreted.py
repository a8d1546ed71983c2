"""The kernels of theory.theta as plain Python, where NumPy checks every index.

Compiled kernels read and write beyond the end of an array without a word. What a kernel computes is
checked here as well, exactly.
"""

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from reference_rows import sample
from theta_reference import closest_by_enumeration, exact, reference_theta

from theory.theta import Status, closest_mass, solve_theta, theta_rows
from theory.theta._float_kernels import pair_sum
from theory.theta._groups import settle_groups

# The other process runs this file as a script.
ROOT = Path(__file__).resolve().parents[1]
INTEGER_METHODS = ("gray", "mitm", "quarters", "cardinality", "branch")


def check_row(row: Any) -> None:
    plain = theta_rows([row], check_sum=False)
    got, status, subset = theta_rows([row], check_sum=False, return_status=True, return_subset=True)
    # Every float type here is exact in float64.
    weights = exact(row.astype(np.float64) if isinstance(row, np.ndarray) else row)
    total = sum(weights)
    mass = sum((w for w, taken in zip(weights, subset[0], strict=True) if taken), Fraction(0))
    witnessed = 1 - ((2 * mass - total) / total) ** 2
    assert plain[0] == got[0] == float(witnessed)
    if len(row) <= 20:
        best = reference_theta(weights)
        assert got[0] == float(best)
        assert status[0] != Status.OPTIMAL or witnessed == best


def check_everything() -> None:
    for _, row in sample(150, 1, 14, seed=3):
        check_row(row)
    rng = np.random.default_rng(4)
    for length in (16, 20, 97, 128, 203, 1001):
        for deviation in (0.02, 1.0, 2.5):
            for dtype in (np.float64, np.float32, np.float16):
                row = np.exp(deviation * rng.standard_normal(length))
                check_row((row / row.max()).astype(dtype))
    for length in (26, 45, 64):
        for outliers in (0, 3):
            row = np.exp(0.003 * rng.standard_normal(length))
            row[:outliers] *= 0.95
            check_row(row.astype(np.float32))
    # Groups of nearly equal weights; and doubles of units that are too small for integers.
    row = np.repeat([1.0, 1.5], 24) * np.exp(1e-5 * rng.standard_normal(48))
    check_row(row.astype(np.float32))
    row = np.repeat([1.0, 1.5], 40) * np.exp(1e-5 * rng.standard_normal(80))
    row[:30] *= np.geomspace(1e-8, 0.1, 30)
    for weights in (row, row.astype(np.float32).astype(np.float64)):
        weights = np.sort(weights)[::-1].copy()
        taken = np.zeros(80, dtype=np.bool_)
        total = pair_sum(weights, 80)
        value, *_ = settle_groups(weights, 80, *total, 2**10, np.empty(2**10), taken)
        gap = weights[taken].sum() - weights[~taken].sum()
        assert value == 1.0 > 2.0**26 * abs(gap) / weights.sum()
    for length in (3, 7, 10):
        values = [int(k) for k in rng.integers(2**30, 2**50, length)]
        solution = solve_theta(values, method="groups")
        assert solution.lower == solution.upper == reference_theta(values)
    # Exchanges of up to 16 equal weights at once.
    equal = solve_theta([1.5] + [1.0] * 33, method="exchange")
    assert equal.lower == equal.upper == 1 - Fraction(1, 69) ** 2
    for length in (3, 7, 10):
        values = [int(k) << 40 | int(k) for k in rng.integers(2**30, 2**50, length)]
        for method in INTEGER_METHODS:
            solution = solve_theta(values, method=method)
            assert solution.lower == solution.upper == reference_theta(values)
        closest = closest_mass(values, sum(values) // 3)
        expected = closest_by_enumeration([Fraction(v) for v in values], sum(values) // 3)
        assert (closest.below, closest.above) == expected


def test_no_kernel_leaves_its_arrays():
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    subprocess.run(
        [sys.executable, "-W", "error", __file__],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        check=True,
        timeout=120,
    )


if __name__ == "__main__":
    check_everything()
