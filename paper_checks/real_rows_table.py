"""Print what the exact solver finds on the committed attention rows of two trained models.

    python paper_checks/real_rows_table.py

Reads theory/data alone. The figures describe these rows; which rows they are is in
theory/data/attention_rows.json. `theory.claims.beyond_real_rows` checks what they rest on.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from rich.console import Console
from rich.table import Table

from theory.claims.beyond_real_rows import ExactRow, exact_rows, theta_bounds

LONG = 64  # keys; below it lie the rows that a check may enumerate


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Figures of some rows. Counts are exact: they compare rationals.

    Attributes:
        rows: number of rows.
        dominated: rows with p_max >= 1/2, where the greedy certificate must equal θ.
        exact: rows on which the certificate is proved to equal θ.
        heavy: rows with p_max > 2/3.
        low: rows with a greedy certificate below 8/9.
        largest_gap: the largest θ − certificate (an upper bound where θ is only bounded).
        fifth_percentile, median: of θ, by linear interpolation between order statistics; a row
            that the solver left open would enter with its lower bound.
    """

    rows: int
    dominated: int
    exact: int
    heavy: int
    low: int
    largest_gap: float
    fifth_percentile: float
    median: float


def summary(rows: Sequence[ExactRow]) -> Summary:
    """The figures of at least one row."""
    certificates = [row.certificate for row in rows]
    bounds = [theta_bounds(row) for row in rows]
    gaps = [upper - found for found, (_, upper) in zip(certificates, bounds, strict=True)]
    thetas = [float(lower) for lower, _ in bounds]
    fifth_percentile, median = np.quantile(thetas, [0.05, 0.5])
    return Summary(
        rows=len(rows),
        dominated=sum(row.top >= Fraction(1, 2) for row in rows),
        exact=sum(gap == 0 for gap in gaps),
        heavy=sum(row.top > Fraction(2, 3) for row in rows),
        low=sum(found < Fraction(8, 9) for found in certificates),
        largest_gap=float(max(gaps)),
        fifth_percentile=float(fifth_percentile),
        median=float(median),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; takes no options. Exit status 0."""
    parser = argparse.ArgumentParser(
        prog="real_rows_table",
        description="Exact θ of the committed attention rows of two trained models.",
    )
    parser.parse_args(argv)
    models = sorted({row.row.model for row in exact_rows()})
    table = Table("", title="Exact θ on committed attention rows")
    for model in models:
        table.add_column(model, justify="right")
    for heading, rows in (
        ("rows of any length", exact_rows()),
        (f"rows of {LONG} keys and more", exact_rows(min_keys=LONG)),
    ):
        table.add_section()
        table.add_row(heading)
        columns = [summary([row for row in rows if row.row.model == model]) for model in models]
        for line in zip(*map(_lines, columns), strict=True):
            table.add_row(line[0][0], *(figure for _, figure in line))
    Console().print(table)
    return 0


def _lines(found: Summary) -> list[tuple[str, str]]:
    def share(count: int) -> str:
        return f"{count} ({count / found.rows:.1%})"

    return [
        ("rows", str(found.rows)),
        ("p_max >= 1/2", share(found.dominated)),
        ("greedy certificate = θ", share(found.exact)),
        ("p_max > 2/3", share(found.heavy)),
        ("greedy certificate < 8/9", share(found.low)),
        ("largest θ − certificate", f"{found.largest_gap:.4f}"),
        ("θ, 5th percentile", f"{found.fifth_percentile:.4f}"),
        ("θ, median", f"{found.median:.6f}"),
    ]


if __name__ == "__main__":
    sys.exit(main())
