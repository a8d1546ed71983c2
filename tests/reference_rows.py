"""Rows of all kinds, and the comparison of θ with the independent reference on them, bit for bit.

    python tests/reference_rows.py [--rows N] [--shortest L] [--longest L] [--seed N]

Prints a line for every row whose θ differs in one bit from `theta_reference.reference_theta`, and a
count. The long runs are 20,000 rows up to L = 24 (a minute or two) and
`--rows 500 --shortest 25 --longest 40` (some minutes).
"""

import argparse
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from theta_reference import reference_theta

from theory.theta import theta, theta_rows

SMALLEST = 5e-324


def softmax_row(rng: np.random.Generator, length: int) -> np.ndarray:
    deviation = rng.choice([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 6.0, 10.0, 40.0])
    weights = np.exp(deviation * rng.standard_normal(length))
    return weights / weights.sum()


def narrow(dtype: Any) -> Any:
    return lambda rng, length: softmax_row(rng, length).astype(dtype)


def dominated(rng: np.random.Generator, length: int) -> np.ndarray:
    """The largest entry is within a few units in the last place of the sum of the others."""
    weights = rng.random(length) + 1e-3
    weights[0] = weights[1:].sum() * (1 + rng.integers(-3, 4) * 2.0**-52) + (length == 1)
    return weights


def few_values(rng: np.random.Generator, length: int) -> np.ndarray:
    return rng.choice([0.1, 0.2, 0.3, 1.0, *rng.random(2)], length)


def common_denominator(rng: np.random.Generator, length: int) -> list[Fraction]:
    denominator = int(rng.integers(1, 1000))
    return [Fraction(int(k), denominator) for k in rng.integers(1, 200, length)]


def near_ties(rng: np.random.Generator, length: int) -> np.ndarray:
    """Integers that differ by single units in the last place of a float64."""
    return rng.integers(1, 4, length) * (1 + rng.integers(-2, 3, length) * 2.0**-52)


def with_outliers(rng: np.random.Generator, length: int) -> np.ndarray:
    """Nearly equal but for a few weights, as attention early in training."""
    weights = np.exp(10.0 ** rng.uniform(-4, -1.3) * rng.standard_normal(length))
    weights[: int(rng.integers(0, 9))] *= 1 + rng.choice([-1, 1]) * rng.uniform(0.01, 0.2)
    dtype = rng.choice([np.float64, np.float32, ml_dtypes.bfloat16])
    return (weights / weights.sum()).astype(dtype)


def grouped(rng: np.random.Generator, length: int) -> np.ndarray:
    """Two or three groups of nearly equal weights, as attention early in training."""
    group = rng.integers(0, int(rng.integers(2, 4)), length)
    spread = 10.0 ** rng.uniform(-7, -2, 3)[group]
    weights = rng.uniform(0.8, 1.2, 3)[group] * np.exp(spread * rng.standard_normal(length))
    dtype = rng.choice([np.float64, np.float32, ml_dtypes.bfloat16])
    return (weights / weights.sum()).astype(dtype)


KINDS = {
    "softmax": softmax_row,
    "float32": narrow(np.float32),
    "float16": narrow(np.float16),
    "bfloat16": narrow(ml_dtypes.bfloat16),
    "dirichlet": lambda rng, n: rng.dirichlet(np.full(n, rng.choice([0.1, 1.0, 10.0]))),
    "dominated": dominated,
    "few values": few_values,
    "common denominator": common_denominator,
    "near ties": near_ties,
    "nearly uniform": lambda rng, n: 1 + rng.integers(-9, 10, n) * 2.0 ** -int(rng.integers(5, 50)),
    "outliers": with_outliers,
    "groups": grouped,
    "small integers": lambda rng, n: rng.integers(0, 20, n),
    "wide integers": lambda rng, n: [int(k) ** 5 for k in rng.integers(1, 2**40, n)],
    "binades": lambda rng, n: np.ldexp(rng.random(n) + 0.5, rng.integers(-300, 300, n)),
    "subnormals": lambda rng, n: rng.integers(1, 2 ** int(rng.integers(2, 50)), n) * SMALLEST,
    "geometric": lambda rng, n: rng.uniform(1.05, 2.2) ** np.arange(n),
}


def sample(count: int, shortest: int, longest: int, seed: int) -> Iterator[tuple[str, Any]]:
    """(kind, row) `count` times: the kinds in turn, the lengths at random."""
    rng = np.random.default_rng([seed, shortest, longest])
    for turn in range(count):
        kind = list(KINDS)[turn % len(KINDS)]
        row = KINDS[kind](rng, int(rng.integers(shortest, longest + 1)))
        if any(weight > 0 for weight in row):
            yield kind, row


def differences(count: int, shortest: int, longest: int, seed: int) -> Iterator[str]:
    """A line for every row for which `theta` or `theta_rows` is not the nearest float64."""
    for kind, row in sample(count, shortest, longest, seed):
        # Every type here is exact in float64, and bfloat16 has no as_integer_ratio.
        plain = row.astype(np.float64).tolist() if isinstance(row, np.ndarray) else row
        expected = float(reference_theta(plain))
        for name, value in (
            ("theta", theta(row, check_sum=False)),
            ("theta_rows", float(theta_rows([row], check_sum=False)[0])),
        ):
            if value.hex() != expected.hex():
                yield f"{name}, {kind}: {value.hex()} is not {expected.hex()} for {plain}"


def main(argv: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--rows", type=int, default=20_000)
    made.add_argument("--shortest", type=int, default=1)
    made.add_argument("--longest", type=int, default=24)
    made.add_argument("--seed", type=int, default=0)
    options = made.parse_args(argv)
    found = 0
    for line in differences(options.rows, options.shortest, options.longest, options.seed):
        print(line, flush=True)
        found += 1
    print(f"{options.rows} rows, {options.shortest} <= L <= {options.longest}: {found} differences")
    return int(found > 0)


if __name__ == "__main__":
    raise SystemExit(main())
