"""Exact θ against the paper's greedy certificate, other packages and the memory floor.

    make bench        (python tests/benchmarks/theta_rows.py [--quick] [--markdown FILE] …)

Everything is measured in one run on the same rows: softmax rows of N(0, s²) logits and the
attention rows of trained models that come with the project. Prints the time per row of `theta_rows`
on one thread, its ratio to the certificate of Appendix D.2 vectorised in NumPy, how the rows came
back, and what other packages for number partitioning make of the same rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import cells
import numpy as np
import output
import peers
from rich.console import Console

from theory.real_rows import load_attention_rows
from theory.theta import theta_rows

# Rows that each peer splits: of these lengths at s = 1, and real ones of up to so many keys.
PEER_LENGTHS = (8, 16, 20, 24, 28, 32, 40, 64)
PEER_ROWS = 4
PEER_DEVIATION = 1.0
PEER_REAL_KEYS = (12, 16)
REAL = "real"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--quick", action="store_true", help="few rows and lengths, under a minute")
    made.add_argument("--rows", type=int, help="rows a cell (default: 200, quick: 20)")
    made.add_argument("--repeat", type=int, help="runs, of which the least counts (default: 5)")
    made.add_argument("--lengths", type=int, nargs="+", help="row lengths (default: 8 to 8192)")
    made.add_argument("--no-peers", action="store_true", help="leave other packages out")
    made.add_argument("--limit", type=float, help="seconds a row for a peer (default: 5, quick: 1)")
    made.add_argument("--markdown", type=Path, help="write the tables for the README to this file")
    made.add_argument("--figure", type=Path, help="draw cost against L into this file")
    return made


def peer_sets(lengths: Sequence[int]) -> Iterator[tuple[str, list[tuple[peers.Weights, float]]]]:
    """Rows for the peers with their exact θ: real ones, then the first of each cell."""
    low, high = PEER_REAL_KEYS
    real = load_attention_rows(min_support=low, max_support=high)[:: 12 * PEER_ROWS]
    rows = [np.asarray(row.probabilities, dtype=np.float64) for row in real]
    yield REAL, [(row.tolist(), float(theta_rows(row, check_sum=False))) for row in rows]
    chosen = [length for length in PEER_LENGTHS if length in lengths]
    for given in cells.softmax_sets(chosen, (PEER_DEVIATION,), PEER_ROWS):
        exact = theta_rows(given.rows)
        yield (
            given.kind,
            [(row.tolist(), float(v)) for row, v in zip(given.rows, exact, strict=True)],
        )


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    quick = options.quick
    lengths = options.lengths or ((8, 16, 24, 32, 64, 256, 1024) if quick else cells.LENGTHS)
    deviations = (0.1, 1.0, 6.0) if quick else cells.DEVIATIONS
    count = options.rows or (20 if quick else 200)
    repeat = options.repeat or (2 if quick else 5)
    limit = options.limit or (1.0 if quick else 5.0)
    console = Console(width=160)
    cells.compile_kernels()
    measured = []
    with console.status("timing") as status:
        for given in (*cells.softmax_sets(lengths, deviations, count), *cells.real_sets()):
            status.update(f"timing {given.kind}, s = {given.deviation}")
            measured.append(cells.measure(given, repeat))
    console.print(output.cell_table(measured))
    console.print("\n".join(output.averages(measured)))
    records: list[peers.Record] = []
    table: list[tuple[str, ...]] = []
    fastest: list[str] = []
    if not options.no_peers:
        sets = list(peer_sets(lengths))
        with console.status("peers") as status:
            for peer in peers.PEERS:
                status.update(f"{peer.package}: {peer.method}")
                records.append(peers.ask(peer, sets, limit))
        kinds = [kind for kind, _ in sets]
        ours = our_times(measured, kinds)
        table = output.peer_rows(records, kinds, ours)
        fastest = output.fastest_peers(records, kinds, ours, limit)
        console.print(output.peer_table(table))
        console.print("\n".join(fastest))
    if options.markdown is not None:
        options.markdown.write_text(output.markdown(measured, table, fastest), "utf-8")
    if options.figure is not None:
        output.figure(measured, records, options.figure)
    return 0


def our_times(measured: Sequence[cells.Cell], kinds: Sequence[str]) -> dict[str, float]:
    """Seconds a row in the cells from which the rows of the peers were taken."""
    times = {cell.kind: cell.exact for cell in measured if cell.deviation == PEER_DEVIATION}
    low, high = PEER_REAL_KEYS
    real = [c for c in measured if c.deviation is None and low <= c.length <= high]
    times[REAL] = sum(c.exact * c.rows for c in real) / sum(c.rows for c in real)
    return {kind: times[kind] for kind in kinds}


if __name__ == "__main__":
    raise SystemExit(main())
