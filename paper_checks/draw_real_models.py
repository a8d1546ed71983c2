"""Draw the tables of `real_models.py`: bounds and certified norms over the layers of two models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Column, label, style; the order of the legend.
BLOCK_SERIES = (
    ("theorem_4_1", "Theorem 4.1 (formula)", {"color": "#b2182b", "marker": "."}),
    ("measured", "the same, measured head norms", {"color": "#ef8a62", "marker": "."}),
    ("gauge_fixed", "gauge-fixed bound", {"color": "#67a9cf", "marker": "."}),
    ("covariance", "covariance form", {"color": "#2166ac", "marker": "."}),
    ("moments", "covariance form with moments", {"color": "#1b7837", "marker": "."}),
    ("upper", "certified norm", {"color": "black", "linewidth": 2}),
)
EUCLIDEAN_SERIES = (
    ("l2_yudin", "Yudin et al. 2025", {"color": "#b2182b", "marker": "."}),
    ("l2_measured", "the same, measured norms", {"color": "#ef8a62", "marker": "."}),
    ("l2_fine_grained", "form of Havens et al. 2024", {"color": "#67a9cf", "marker": "."}),
    ("l2_norm", "local norm, Castin et al. 2024", {"color": "black", "linewidth": 2}),
)


def draw(tables: Mapping[int, Sequence[Mapping[str, str]]], path: Path) -> None:
    """Draw every table, by length, into one file; its suffix decides the format.

    One row of panels for each length and geometry, one column for each model. Of several texts the
    first is drawn.
    """
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(row["model"] for rows in tables.values() for row in rows))
    panels = [
        (length, series, name)
        for series, name in (
            (BLOCK_SERIES, "‖D MHA‖, block-∞/RMS"),
            (EUCLIDEAN_SERIES, "‖D MHA‖, Euclidean"),
        )
        for length in tables
    ]
    size = (5.5 * len(models), 2.8 * len(panels))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(panels), len(models), squeeze=False, sharex="col")
    for axes_of_row, (length, series, name) in zip(grid, panels, strict=True):
        for axes, model in zip(axes_of_row, models, strict=True):
            rows = [row for row in tables[length] if row["model"] == model]
            _panel(axes, [row for row in rows if row["text"] == rows[0]["text"]], series)
            axes.set_title(f"{model}, L = {length}", fontsize="medium")
        axes_of_row[0].set_ylabel(name)
        # The first panel has every series: its model has no rotations.
        handles, labels = axes_of_row[0].get_legend_handles_labels()
        place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        axes_of_row[-1].legend(handles, labels, fontsize="x-small", **place)
    for axes in grid[-1]:
        axes.set_xlabel("layer")
    figure.savefig(path, dpi=130)


def _panel(axes: Any, rows: Sequence[Mapping[str, str]], series: Sequence[Any]) -> None:
    for column, label, style in series:
        points = [(int(row["layer"]), float(row[column])) for row in rows if row[column]]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **style)
    axes.set_yscale("log")
    axes.grid(alpha=0.3)
