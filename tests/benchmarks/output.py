"""What a run of the benchmarks found: tables for the terminal and the README, and the figure."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import cells as cells_module
import numba
import numpy as np
from cells import Cell
from peers import Answers, Record
from rich.table import Table

MICRO = 1e6
# Lengths and deviations over which the ratio to the certificate is averaged.
AVERAGED_LENGTHS = (256, 512, 1024, 4096)
AVERAGED_DEVIATIONS = (0.1, 1.0, 3.0, 6.0)
LONG = 1024
SHORT = (28, 32, 40)


def machine() -> str:
    """The processor and the versions that the times depend on."""
    name = platform.processor() or platform.machine()
    description = Path("/proc/cpuinfo")
    if description.is_file():
        for line in description.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return (
        f"{name}, one thread; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, Numba {numba.__version__}"
    )


def three_digits(value: float) -> str:
    """A positive number with three significant digits, never as a power of ten."""
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def micro(seconds: float | None) -> str:
    """Microseconds."""
    return "–" if seconds is None else three_digits(seconds * MICRO)


def geometric_mean(values: Iterable[float]) -> float:
    return math.exp(np.mean(np.log(list(values))))


def averages(cells: Sequence[Cell]) -> list[str]:
    """The ratios by which the solver is judged, of those cells that were measured."""
    lines = []
    random = [cell for cell in cells if cell.deviation is not None]
    chosen = [
        cell
        for cell in random
        if cell.length in AVERAGED_LENGTHS and cell.deviation in AVERAGED_DEVIATIONS
    ]
    if chosen:
        lines.append(
            f"exact θ / greedy certificate, geometric mean of {len(chosen)} cells with L in "
            f"{{256, 512, 1024, 4096}}, s in {{0.1, 1, 3, 6}}: "
            f"{geometric_mean(cell.ratio for cell in chosen):.2f}"
        )
    for length in sorted({cell.length for cell in random if cell.length >= LONG}):
        of_length = [cell.ratio for cell in random if cell.length == length]
        lines.append(f"the same at L = {length}, mean over s: {np.mean(of_length):.2f}")
    for length in sorted({cell.length for cell in random if cell.meet is not None}):
        ratios = [cell.exact / cell.meet for cell in random if cell.length == length and cell.meet]
        lines.append(
            f"exact θ / plain meet in the middle at L = {length}, mean over s: "
            f"{np.mean(ratios):.3f}"
        )
    short = [cell for cell in random if cell.length in SHORT and cell.deviation >= 0.3]
    if short:
        lengths = ", ".join(str(length) for length in sorted({cell.length for cell in short}))
        lines.append(
            f"mean time at L = {lengths}, s >= 0.3: "
            f"{micro(float(np.mean([cell.exact for cell in short])))} µs"
        )
    real = [cell for cell in cells if cell.deviation is None]
    if real:
        rows = sum(cell.rows for cell in real)
        exact, greedy = (
            sum(getattr(cell, name) * cell.rows for cell in real) for name in ("exact", "greedy")
        )
        lines.append(
            f"{rows} real attention rows: {micro(exact / rows)} µs a row, "
            f"{exact / greedy:.2f} × the certificate"
        )
    left = sum(cell.left_open for cell in cells)
    total = sum(cell.rows for cell in cells)
    lines.append(f"open within {cells_module.CELL_BUDGET:g} s a cell: {left} of {total} rows")
    low = sum(cell.greedy_low for cell in cells)
    lines.append(f"greedy certificate below θ by more than 1e-6: {low} of {total} rows")
    met = sum(cell.meet_rows for cell in cells)
    wrong = sum(cell.meet_wrong for cell in cells)
    lines.append(f"plain meet in the middle off in some bit of θ: {wrong} of {met} rows")
    return lines


def cell_table(cells: Sequence[Cell]) -> Table:
    table = Table(title=f"µs per row; {machine()}")
    headings = ("rows", "s", "number", "exact θ", "greedy", "exact / greedy", "max", "meet")
    for heading in (*headings, "optimal", "rounded", "open", "θ = 1.0", "greedy low"):
        table.add_column(heading, justify="right")
    kind = None
    for cell in cells:
        if kind is not None and cell.kind != kind:
            table.add_section()
        kind = cell.kind
        table.add_row(
            cell.kind,
            "" if cell.deviation is None else f"{cell.deviation:g}",
            str(cell.rows),
            *(micro(cell.exact), micro(cell.greedy), f"{cell.ratio:.2f}"),
            *(micro(cell.floor), micro(cell.meet)),
            *map(str, (cell.optimal, cell.rounded, cell.left_open, cell.ones, cell.greedy_low)),
        )
    return table


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 1e-3:
        return f"{three_digits(seconds * MICRO)} µs"
    return f"{three_digits(seconds * 1e3)} ms" if seconds < 1 else f"{three_digits(seconds)} s"


def time_of(answers: Sequence[Answers], kind: str) -> str:
    """Median time of a peer on one set of rows."""
    for answer in answers:
        if answer.kind == kind and answer.seconds:
            return duration(median(answer.seconds))
    return "–"


def faults(record: Record) -> str:
    """What a peer got wrong, and where it stopped."""
    if record.version is None:
        return "not installed"
    told = []
    answered = sum(len(answer.seconds) for answer in record.answers)
    wrong = sum(answer.wrong for answer in record.answers)
    if wrong:
        off = max(answer.off for answer in record.answers)
        told.append(f"θ wrong on {wrong} of {answered} rows, by up to {off:.1e}")
    elif answered:
        told.append(f"θ right on all {answered} rows")
    for answer in record.answers:
        if answer.failure is not None:
            told.append(f"{answer.kind}: {answer.failure}")
    return "; ".join(told) or "no row answered"


def peer_rows(
    records: Sequence[Record], kinds: Sequence[str], ours: dict[str, float]
) -> list[tuple[str, ...]]:
    """Heading and rows of the table of peers."""
    heading = ("package", "method", *kinds, "against exact θ on the same rows")
    solver = [duration(ours[kind]) for kind in kinds]
    rows = [heading, ("this solver", "theta_rows", *solver, "")]
    for record in records:
        version = record.version or ""
        times = [time_of(record.answers, kind) for kind in kinds]
        name = f"{record.peer.package} {version}".strip()
        rows.append((name, record.peer.method, *times, faults(record)))
    return rows


def fastest_peers(
    records: Sequence[Record], kinds: Sequence[str], ours: dict[str, float], limit: float
) -> list[str]:
    """For each set of rows the fastest peer that did all of them rightly, against this solver."""
    lines = []
    for kind in kinds:
        right = [
            (median(answer.seconds), record.peer)
            for record in records
            for answer in record.answers
            if answer.kind == kind and answer.failure is None and not answer.wrong
        ]
        if right:
            seconds, peer = min(right, key=lambda found: found[0])
            lines.append(
                f"fastest other package with right θ, {kind}: {peer.package} ({peer.method}), "
                f"{duration(seconds)}, {three_digits(seconds / ours[kind])} × this solver"
            )
        else:
            lines.append(
                f"no other package had θ of all rows right within {limit:g} s a row, "
                f"{three_digits(limit / ours[kind])} × this solver, {kind}"
            )
    return lines


def peer_table(rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title="time per row of other packages (median), and what they get wrong")
    heading, *body = rows
    for k, name in enumerate(heading):
        table.add_column(name, justify="left" if k in (0, 1, len(heading) - 1) else "right")
    for row in body:
        table.add_row(*row)
    return table


def markdown_table(heading: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A Markdown table whose first `left` columns and last one are left-aligned."""
    count = len(heading)
    rule = [":--" if k < left or (left > 1 and k == count - 1) else "--:" for k in range(count)]
    lines = [heading, rule, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def markdown(cells: Sequence[Cell], peers: Sequence[Sequence[str]], fastest: Sequence[str]) -> str:
    """The section of the README: what was measured, where, and the tables."""
    deviations = sorted({cell.deviation for cell in cells if cell.deviation is not None})
    heading = ["rows", *(f"s = {s:g}" for s in deviations), "greedy", "`P.max`", "open"]
    lines = []
    for kind in dict.fromkeys(cell.kind for cell in cells if cell.deviation is not None):
        of_kind = [cell for cell in cells if cell.kind == kind]
        by_deviation = {cell.deviation: cell for cell in of_kind}
        times = [
            f"{micro(by_deviation[s].exact)} ({by_deviation[s].ratio:.2f})" for s in deviations
        ]
        greedy, floor = (
            micro(float(np.mean([getattr(cell, name) for cell in of_kind])))
            for name in ("greedy", "floor")
        )
        left = sum(cell.left_open for cell in of_kind)
        total = sum(cell.rows for cell in of_kind)
        lines.append([kind, *times, greedy, floor, f"{left} of {total}"])
    parts = [
        f"Measured by `make bench` on {machine()}. Times are of the processor.",
        "Time of exact θ in µs per row, in brackets its ratio to the greedy certificate of "
        "Appendix D.2 vectorised in NumPy, on the same rows in the same run; rows are softmax of "
        f"N(0, s²) logits. Open: rows not settled when their cell had taken "
        f"{cells_module.CELL_BUDGET:g} s.",
        markdown_table(heading, lines),
    ]
    real = [cell for cell in cells if cell.deviation is None]
    if real:
        columns = ["attention rows, keys", "number", "exact θ", "ratio", "greedy", "`P.max`"]
        body = [
            [
                cell.kind.removeprefix("real "),
                str(cell.rows),
                micro(cell.exact),
                f"{cell.ratio:.2f}",
                micro(cell.greedy),
                micro(cell.floor),
            ]
            for cell in real
        ]
        parts.append(
            markdown_table(
                [*columns, "open"],
                [[*line, str(cell.left_open)] for line, cell in zip(body, real, strict=True)],
            )
        )
    parts.append("\n".join(f"- {line}" for line in averages(cells)))
    if peers:
        parts.append(
            "Other packages, asked for an optimal split of the first rows of these cells (s = 1) "
            "and of some real ones. Their times are medians of a row, ours the mean of the cell; "
            "each split is evaluated exactly and compared with exact θ."
        )
        parts.append(markdown_table(peers[0], peers[1:], left=2))
        parts.append("\n".join(f"- {line}" for line in fastest))
    return "\n\n".join(parts) + "\n"


def figure(cells: Sequence[Cell], records: Sequence[Record], path: Path) -> None:
    """Cost against L on logarithmic axes, written to `path` (its suffix is the format)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn, axes = pyplot.subplots(figsize=(10, 9), layout="constrained")
    random = [cell for cell in cells if cell.deviation is not None]
    deviations = sorted({cell.deviation for cell in random})
    shades = pyplot.colormaps["viridis"](np.linspace(0.0, 0.85, len(deviations)))
    for deviation, shade in zip(deviations, shades, strict=True):
        points = [(cell.length, cell.exact) for cell in random if cell.deviation == deviation]
        _draw(axes, points, f"exact θ, s = {deviation:g}", color=shade, marker="o", linewidth=2)
    for name, label, style in (
        ("greedy", "greedy certificate in NumPy, mean over s", "--"),
        ("floor", "P.max(axis=-1), mean over s", ":"),
        ("meet", "plain meet in the middle, mean over s", "-"),
    ):
        times: dict[int, list[float]] = {}
        for cell in random:
            if getattr(cell, name) is not None:
                times.setdefault(cell.length, []).append(getattr(cell, name))
        means = [(length, float(np.mean(found))) for length, found in times.items()]
        _draw(axes, means, label, color="black", linestyle=style, linewidth=1.5)
    colours = pyplot.colormaps["tab20"](np.linspace(0, 1, len(records)))
    for record, colour in zip(records, colours, strict=True):
        points = [
            (int(answer.kind.removeprefix("L = ")), median(answer.seconds))
            for answer in record.answers
            if answer.kind.startswith("L = ") and answer.seconds
        ]
        wrong = any(answer.wrong for answer in record.answers)
        name = f"{record.peer.package}: {record.peer.method}" + " (wrong θ)" * wrong
        _draw(axes, points, name, color=colour, marker="x" if wrong else ".", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="row length L", ylabel="µs per row")
    axes.set_xticks(sorted({cell.length for cell in random if cell.length & cell.length - 1 == 0}))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.grid(alpha=0.3)
    drawn.legend(loc="outside lower center", fontsize=6.5, ncols=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, dpi=150)
    pyplot.close(drawn)


def _draw(axes: Any, points: Iterable[tuple[int, float]], label: str, **style: Any) -> None:
    """A line through (length, seconds); none where there is no point."""
    ordered = sorted(points)
    if ordered:
        lengths, seconds = zip(*ordered, strict=True)
        axes.plot(lengths, np.array(seconds) * MICRO, label=label, markersize=4, **style)
