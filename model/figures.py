"""Figures 1 to 4 and Table 1, drawn from logs and from the solver; nothing is typed in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from model.runs import Run, TableRow, Trajectory, by_architecture, table, trajectory

NAMES = {"pre_ln": "Pre-LN", "post_ln": "Post-LN", "deepnorm": "DeepNorm"}
COLOURS = {"pre_ln": "#1f5fa8", "post_ln": "#c2502b", "deepnorm": "#3b8754"}
FORMATS = ("png", "pdf")
# Rows of Figure 2 at each length, as in the paper.
FIGURE_2_ROWS = 500
FIGURE_2_EXHAUSTIVE = (8, 16)
FIGURE_2_LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024)


def draw_all(runs: Sequence[Run], out: Path) -> list[Path]:
    """Figures 1 to 4 as PNG and PDF and Table 1 as Markdown and CSV; returns what was written.

    Raises ``model.runs.RunError`` for runs that are not finished or do not belong together.
    """
    rows, groups = table(runs), by_architecture(runs)
    out.mkdir(parents=True, exist_ok=True)
    paths = write_table(rows, out)
    for name, figure in (
        ("figure_1", figure_1(groups)),
        ("figure_2", figure_2()),
        ("figure_3", figure_3(groups)),
        ("figure_4", figure_4(groups)),
    ):
        for suffix in FORMATS:
            path = out / f"{name}.{suffix}"
            figure.savefig(path, dpi=160, bbox_inches="tight")
            paths.append(path)
    return paths


def _axes(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure that belongs to no window and no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def figure_1(groups: dict[str, list[Run]]) -> Any:
    """Loss, gradient norm, certificate, and gradient norms of the blocks at the last checkpoint."""
    figure, axes = _axes(2, 2, (10, 7))
    loss, norm, certificate, blocks = axes.flat
    for block, runs in groups.items():
        style = {"color": COLOURS[block], "label": NAMES[block]}
        length = min(run.updates for run in runs)
        updates = np.arange(1, length + 1)
        for axis, series in (
            (loss, np.array([run.losses[:length] for run in runs])),
            (norm, np.array([run.gradient_norms[:length] for run in runs])),
        ):
            axis.plot(updates, series.mean(axis=0), linewidth=1, **style)
            axis.fill_between(
                updates, series.min(axis=0), series.max(axis=0), color=COLOURS[block], alpha=0.2
            )
        curve = trajectory(runs)
        certificate.plot(curve.updates, curve.certificate, **style)
        certificate.fill_between(
            curve.updates, curve.lowest, curve.highest, color=COLOURS[block], alpha=0.2
        )
        shown = runs[-1]
        if shown.gradients:
            profile = shown.gradients[-1]["blocks"]
            blocks.plot(
                range(len(profile)),
                profile,
                marker="o",
                markersize=3,
                color=COLOURS[block],
                label=f"{NAMES[block]}, seed {shown.config.seed}",
            )
    for axis in (loss, norm, certificate):
        _mark_warmup(axis, groups)
        axis.set_xlabel("update")
    loss.set_ylabel("cross-entropy (nats per token)")
    norm.set(ylabel="gradient norm before clipping", yscale="log")
    certificate.set_ylabel("greedy certificate of θ")
    blocks.set(xlabel="layer", ylabel="gradient norm of the block", yscale="log")
    for axis, letter in zip(axes.flat, "abcd", strict=True):
        axis.set_title(f"({letter})", loc="left")
        axis.legend(frameon=False)
    return figure


def figure_2(seed: int = 2) -> Any:
    """Both sides of Theorem 3.2 by enumeration, and the certificate beside θ at greater lengths."""
    from theory.norms import inf_to_one_norm
    from theory.softmax import softmax, softmax_jacobian
    from theory.theta import greedy_certificate, theta_rows

    rng = np.random.default_rng(seed)
    figure, axes = _axes(1, 2, (10, 3.6))
    identity, certificate = axes.flat
    gaps = []
    for length in FIGURE_2_LENGTHS:
        logits = rng.normal(size=(FIGURE_2_ROWS, length))
        rows = softmax(logits)
        theta = theta_rows(rows)
        gaps.append(theta - greedy_certificate(rows))
        if length in FIGURE_2_EXHAUSTIVE:
            norms = np.array([inf_to_one_norm(softmax_jacobian(u)) for u in logits])
            errors = np.abs(norms - theta) / theta
            identity.plot(np.sort(errors), np.linspace(0, 1, len(errors)), label=f"L = {length}")
    identity.set(xlabel="relative error of ‖J‖ against θ", ylabel="share of rows", xscale="symlog")
    identity.set_xscale("symlog", linthresh=1e-17)
    identity.legend(frameon=False)
    positions = range(len(FIGURE_2_LENGTHS))
    certificate.boxplot(gaps, positions=list(positions), whis=(5, 95), showfliers=False)
    certificate.set_xticks(list(positions), [str(length) for length in FIGURE_2_LENGTHS])
    certificate.set(xlabel="L", ylabel="θ − certificate", yscale="symlog")
    certificate.set_yscale("symlog", linthresh=1e-10)
    return figure


def figure_3(groups: dict[str, list[Run]]) -> Any:
    """Entropy, p_max, certificate and θ over the run, for each architecture."""
    figure, axes = _axes(1, len(groups), (5.5 * len(groups), 4))
    for axis, (block, runs) in zip(axes.flat, groups.items(), strict=True):
        curve: Trajectory = trajectory(runs)
        axis.plot(curve.updates, curve.entropy, label="normalised entropy", color="#6a4c93")
        axis.plot(curve.updates, curve.largest, label="largest weight", color="#c2502b")
        axis.plot(curve.updates, curve.certificate, label="certificate (median)", color="#1f5fa8")
        axis.plot(
            curve.updates, curve.theta, label="θ, exact (median)", color="#111111", linestyle=":"
        )
        axis.fill_between(curve.updates, curve.lowest, curve.highest, color="#1f5fa8", alpha=0.15)
        _mark_warmup(axis, {block: runs})
        axis.set(xlabel="update", title=f"{NAMES[block]}, {len(runs)} seeds", ylim=(-0.02, 1.02))
        axis.legend(frameon=False, loc="lower left")
    return figure


def figure_4(groups: dict[str, list[Run]]) -> Any:
    """Certificates of the sampled layers at the last checkpoint, of the last seed of each group."""
    figure, axes = _axes(1, 1, (6, 4))
    axis = axes[0, 0]
    width = 0.8 / len(groups)
    for shift, (block, runs) in enumerate(groups.items()):
        run = runs[-1]
        entries = run.layers_at(run.checkpoints()[-1])
        places = np.arange(len(entries)) + (shift - (len(groups) - 1) / 2) * width
        medians = np.array([entry["certificate"]["50"] for entry in entries])
        low = medians - [entry["certificate"]["5"] for entry in entries]
        high = np.array([entry["certificate"]["95"] for entry in entries]) - medians
        axis.bar(
            places,
            medians,
            width=0.9 * width,
            yerr=[low, high],
            capsize=4,
            color=COLOURS[block],
            label=f"{NAMES[block]}, seed {run.config.seed}",
        )
        axis.set_xticks(range(len(entries)), [f"layer {entry['layer']}" for entry in entries])
    axis.set(ylabel="greedy certificate of θ", ylim=(0, 1.05))
    axis.legend(frameon=False, loc="lower right")
    return figure


def _mark_warmup(axis: Any, groups: dict[str, list[Run]]) -> None:
    ends = {run.config.optim.warmup for runs in groups.values() for run in runs}
    for end in ends:
        axis.axvline(end, color="0.5", linestyle=":", linewidth=1)


def write_table(rows: Sequence[TableRow], out: Path) -> list[Path]:
    """Table 1 as table_1.md and table_1.csv."""

    def spread(mean: float, sd: float | None, digits: int) -> str:
        return f"{mean:.{digits}f}" + ("" if sd is None else f" ± {sd:.{digits}f}")

    markdown = [
        "| architecture | runs | loss, last 50 updates | spikes | certificate, last checkpoint |",
        "| --- | --- | --- | --- | --- |",
    ]
    plain = ["architecture,runs,loss,loss_sd,spikes,spikes_sd,certificate"]
    for row in rows:
        markdown.append(
            f"| {NAMES[row.block]} | {row.runs} | {spread(row.loss, row.loss_sd, 3)} | "
            f"{spread(row.spikes, row.spikes_sd, 1)} | {row.certificate:.5f} |"
        )
        values = (row.loss, row.loss_sd, row.spikes, row.spikes_sd, row.certificate)
        shown = ["" if value is None else repr(value) for value in values]
        plain.append(",".join([NAMES[row.block], str(row.runs), *shown]))
    paths = [out / "table_1.md", out / "table_1.csv"]
    for path, lines in zip(paths, (markdown, plain), strict=True):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths
