"""Check every statement of the paper and print a verdict for each.

    python paper_checks/run_all.py [--profile quick|full] [-k EXPR] [--section S] [--jobs N]
                                   [--json FILE] [--html FILE] [--list]

The exit status is 0 when every verdict is the expected one, 1 when some verdict is not, a check
failed to run, or one did not run though what it needs is installed, and 2 for a wrong call.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from verify.claims import Profile, Registry, load_registry
from verify.report import as_html, as_json, text
from verify.runner import CheckResult, failures, run_many

# The packages whose modules define claims. The tests collect from the same tuple.
CLAIM_PACKAGES = ("theory.claims", "model.claims")


class SelectionError(ValueError):
    """A selection that is malformed or selects nothing."""


def select(registry: Registry, *, expression: str = "", section: str = "") -> list[str]:
    """Check ids whose text matches ``expression`` (as pytest's -k would) in one section.

    Raises ``SelectionError``, naming near matches, where nothing is selected.
    """
    from _pytest.mark.expression import Expression

    sections = {claim.section for claim in registry.claims.values()}
    if section and section not in sections:
        raise SelectionError(f"no section {section!r}; sections are {', '.join(sorted(sections))}")
    try:
        wanted = Expression.compile(expression) if expression else None
    except SyntaxError as error:
        raise SelectionError(f"malformed expression {expression!r}: {error}") from None

    def matches(name: str) -> bool:
        def contains(word: str, /, **_: object) -> bool:
            return word.lower() in name.lower()

        return wanted is None or wanted.evaluate(contains)

    chosen = [
        check_id
        for check_id, item in registry.checks.items()
        if (not section or item.claim.section == section) and matches(check_id)
    ]
    if not chosen:
        where = f" in section {section}" if section else ""
        raise SelectionError(
            f"{expression!r} selects no check{where}{registry.near_matches(expression)}"
        )
    return chosen


def parser() -> argparse.ArgumentParser:
    """The command line of this script."""
    made = argparse.ArgumentParser(prog="paper-checks", description=__doc__.split("\n")[0])
    made.add_argument("--profile", choices=[p.value for p in Profile], default="quick")
    made.add_argument("-k", dest="expression", default="", metavar="EXPR", help="as pytest's -k")
    made.add_argument("--section", default="", help="2, 3, …, A, B, …, or beyond")
    made.add_argument("--jobs", type=_positive, default=2, help="processes (default: 2)")
    made.add_argument("--timeout", type=_seconds, default=None, help="seconds for one check")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    made.add_argument("--html", type=Path, metavar="FILE", help="write the report as HTML")
    made.add_argument("--list", action="store_true", help="print the checks' ids and stop")
    return made


def _positive(value: str) -> int:
    number = int(value)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return number


def _seconds(value: str) -> float:
    number = float(value)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{value} is not a positive number of seconds")
    return number


def run(
    check_ids: Sequence[str],
    profile: Profile,
    *,
    packages: tuple[str, ...] = CLAIM_PACKAGES,
    jobs: int = 2,
    timeout: float | None = None,
) -> list[CheckResult]:
    """Run the checks in parallel behind a progress bar (on stderr, only on a terminal)."""
    stderr = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=stderr, disable=not stderr.is_terminal) as progress:
        task = progress.add_task("checks", total=len(check_ids))

        def advance(result: CheckResult) -> None:
            progress.update(task, advance=1, description=result.claim_id)

        return run_many(
            check_ids,
            profile,
            packages=packages,
            jobs=jobs,
            timeout=timeout,
            on_result=advance,
        )


def main(argv: Sequence[str] | None = None, *, packages: tuple[str, ...] = CLAIM_PACKAGES) -> int:
    """Run the command; the exit status is described at the top of this file."""
    made = parser()
    options = made.parse_args(argv)
    registry = load_registry(packages)
    try:
        check_ids = select(registry, expression=options.expression, section=options.section)
    except SelectionError as error:
        made.error(str(error))
    if options.list:
        print("\n".join(check_ids))
        return 0
    for option in ("json", "html"):
        target = getattr(options, option)
        if target is not None and not target.resolve().parent.is_dir():
            made.error(f"--{option} {target}: there is no such folder")
        if target is not None and target.is_dir():
            made.error(f"--{option} {target}: this is a folder; name a file")
    if options.html is not None and importlib.util.find_spec("jinja2") is None:
        made.error("--html needs Jinja2: pip install 'attention-sensitivity[report]'")
    profile = Profile(options.profile)
    results = run(check_ids, profile, packages=packages, jobs=options.jobs, timeout=options.timeout)
    text.show(registry, results, Console(width=None if sys.stdout.isatty() else 140))
    if options.json is not None:
        as_json.write(options.json, as_json.build(registry, results, profile))
    if options.html is not None:
        as_html.write(options.html, registry, results, profile)
    return 1 if failures(results) else 0


if __name__ == "__main__":
    sys.exit(main())
