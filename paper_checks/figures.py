"""Draw Figures 1 to 4 and Table 1 from the logs of runs.

    python paper_checks/figures.py RUNS … --out DIR

RUNS are folders of runs, or folders that hold such. Figure 2 needs no run: it comes from the
solver. The exit status is 0, or 2 with one line on stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; the exit status is described at the top of this file."""
    parser = argparse.ArgumentParser(prog="figures", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(argv)
    missing = [str(folder) for folder in options.runs if not folder.is_dir()]
    if missing:
        parser.error(f"no such folder: {', '.join(missing)}")
    if options.out.exists() and not options.out.is_dir():
        parser.error(f"--out {options.out}: this is no folder")
    try:
        from model.figures import draw_all
        from model.runs import RunError, find_runs
    except ModuleNotFoundError as error:
        parser.error(f"{error.name} is missing: pip install 'attention-sensitivity[model,report]'")
    try:
        paths = draw_all(find_runs(options.runs), options.out)
    except RunError as error:
        print(f"figures: {error}", file=sys.stderr)
        return 2
    print("\n".join(map(str, paths)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
