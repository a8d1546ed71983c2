"""How often the semidefinite relaxation of θ is tight, against exact θ: a table and a figure.

    python paper_checks/maxcut_figure.py --out DIR [--rows N]

writes maxcut.csv and maxcut.png: softmax rows of N(0, s²) logits, from flat to concentrated, and
the attention rows of two trained models that come with the source tree (theory/data). The
relaxation is in closed form (theory.claims.beyond_sdp), so no solver for semidefinite programs is
needed; the figure needs matplotlib.
"""

import argparse
import csv
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from theory.maxcut import row_relaxation
from theory.real_rows import load_attention_rows
from theory.softmax import softmax
from theory.theta import solve_theta

LENGTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
DEVIATIONS = (0.1, 1.0, 2.0, 4.0, 8.0)
# Supports of the real rows: from one of these up to the next.
BANDS = (2, 4, 8, 16, 32, 64, 128, 257)
SEED = 33
SMALL_GAP = Fraction(1, 10**6)


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What the relaxation is worth on some rows.

    Attributes:
        source: "softmax" or a model's name.
        deviation: s of the logits; None for a model.
        length: L; the median support for a model.
        rows: how many rows.
        dominated: share of rows with p_max >= 1/2, where the relaxation is tight.
        tight: share of rows proved tight, exactly.
        nearly_tight: share of rows with a gap of at most 1e-6.
        median_gap, largest_gap: of (relaxation − θ) over the rows with p_max < 1/2, where it is
            1 − θ; None where there is no such row. θ is taken from below, so a gap under 2^-54 is
            only known to be that small.
        least_rounding: the least share of θ that the best cut of the relaxation's vectors reaches.
    """

    source: str
    deviation: float | None
    length: int
    rows: int
    dominated: float
    tight: float
    nearly_tight: float
    median_gap: float | None
    largest_gap: float | None
    least_rounding: float


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. Exit status 0, or 2 with one line on stderr when matplotlib is missing."""
    parser = argparse.ArgumentParser(
        prog="maxcut_figure",
        description="How often the semidefinite relaxation of θ is tight, against exact θ.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="existing folder")
    parser.add_argument("--rows", type=int, default=200, help="softmax rows a cell (default: 200)")
    options = parser.parse_args(argv)
    if not (options.out.is_dir() and os.access(options.out, os.W_OK)):
        parser.error(f"--out {options.out}: no folder that can be written to")
    if options.rows < 1:
        parser.error(f"--rows {options.rows}: at least one row is needed")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print(
            "maxcut_figure: matplotlib is not installed: "
            "pip install 'attention-sensitivity[report]'",
            file=sys.stderr,
        )
        return 2
    found = [*softmax_summaries(options.rows), *real_summaries()]
    write_csv(found, options.out / "maxcut.csv")
    figure = Figure(figsize=(10, 4), layout="constrained")
    draw(found, figure)
    figure.savefig(options.out / "maxcut.png", dpi=120)
    print(f"{sum(s.rows for s in found)} rows: {options.out / 'maxcut.csv'}, maxcut.png")
    return 0


def softmax_summaries(count: int) -> Iterator[Summary]:
    """Every length and deviation, `count` rows each."""
    for deviation in DEVIATIONS:
        for length in LENGTHS:
            rng = np.random.default_rng([SEED, length, round(1000 * deviation)])
            rows = softmax(rng.normal(scale=deviation, size=(count, length)))
            yield summarise(rows.tolist(), "softmax", deviation, length)


def real_summaries() -> Iterator[Summary]:
    """The stored attention rows of each model, by support."""
    stored = load_attention_rows(min_support=BANDS[0], max_support=BANDS[-1] - 1)
    for model in sorted({row.model for row in stored}):
        for low, high in pairwise(BANDS):
            rows = [r for r in stored if r.model == model and low <= r.support < high]
            if rows:
                length = int(median(row.support for row in rows))
                yield summarise([row.probabilities for row in rows], model, None, length)


def summarise(rows: Sequence[Any], source: str, deviation: float | None, length: int) -> Summary:
    """Exact θ and the relaxation of at least one row."""
    gaps, light_gaps, shares = [], [], []
    tight = 0
    for row in rows:
        relaxed, solved = row_relaxation(row), solve_theta(row)
        gap = relaxed.value - solved.lower
        gaps.append(gap)
        tight += gap == 0
        # Three directions stand for p_max < 1/2, two opposite ones for the rest.
        if len(relaxed.cosines) == 3:
            light_gaps.append(float(gap))
        shares.append(relaxed.lower / solved.upper if solved.upper else Fraction(1))
    return Summary(
        source=source,
        deviation=deviation,
        length=length,
        rows=len(rows),
        dominated=(len(rows) - len(light_gaps)) / len(rows),
        tight=tight / len(rows),
        nearly_tight=sum(gap <= SMALL_GAP for gap in gaps) / len(rows),
        median_gap=median(light_gaps) if light_gaps else None,
        largest_gap=max(light_gaps, default=None),
        least_rounding=float(min(shares)),
    )


def write_csv(found: Sequence[Summary], path: Path) -> None:
    """One line a summary; an empty field where there is no figure."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(Summary)])
        writer.writeheader()
        writer.writerows(asdict(summary) for summary in found)


def draw(found: Sequence[Summary], figure: Any) -> None:
    """Shares of tight rows on the left, gaps of the others on the right, against the length."""
    left, right = figure.subplots(1, 2)
    for key in dict.fromkeys((s.source, s.deviation) for s in found):
        line = [s for s in found if (s.source, s.deviation) == key]
        source, deviation = key
        label = source if deviation is None else f"softmax, s = {deviation:g}"
        style = {"marker": "s", "linestyle": ":"} if deviation is None else {"marker": "."}
        left.plot([s.length for s in line], [s.tight for s in line], label=label, **style)
        open_rows = [s for s in line if s.median_gap is not None]
        right.plot([s.length for s in open_rows], [s.median_gap for s in open_rows], **style)
    left.set(xlabel="L", ylabel="share of rows", title="relaxation = θ exactly")
    right.set(xlabel="L", ylabel="1 − θ, median", title="gap where p_max < 1/2")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
    right.set_yscale("log")
    right.set_ylim(1e-19, 3)
    for level, text in ((1 / 9, "1/9, the largest gap"), (2.0**-54, "θ rounds to 1 below")):
        right.axhline(level, color="black", linewidth=0.8)
        right.annotate(text, (2, level), va="bottom")
    figure.legend(loc="outside lower center", ncols=4, fontsize="small")


if __name__ == "__main__":
    sys.exit(main())
