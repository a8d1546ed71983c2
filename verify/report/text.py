"""The terminal report: a table by paper section, the findings, and a one-line summary."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from verify.claims import FindingKind, Registry
from verify.evidence import Evidence
from verify.report.summary import ClaimSummary, summarise
from verify.runner import CheckResult, failures

_STYLE = {
    "HOLDS": "green",
    "REFUTED": "magenta",
    "INCONCLUSIVE": "yellow",
    "NOT_RUN": "dim",
    "ERROR": "bold red",
}
# Up to so many claims are shown with their statements and with every check.
_IN_FULL = 8


def show(registry: Registry, results: Sequence[CheckResult], console: Console) -> None:
    """Print the whole report of a run."""
    summaries = summarise(registry, results)
    for section, group in itertools.groupby(summaries, key=lambda s: s.claim.section):
        console.print(_section_table(registry, section, list(group)))
    if len(summaries) <= _IN_FULL:
        for summary in summaries:
            _show_checks(registry, summary, console)
    _show_findings(summaries, console)
    _show_failures(results, console)
    console.print(_summary_line(summaries, results))


def _section_table(registry: Registry, section: str, group: Sequence[ClaimSummary]) -> Table:
    title = registry.section_titles.get(section, "")
    table = Table(title=f"{section}  {title}".strip(), title_justify="left", expand=True)
    table.add_column("claim", overflow="fold", ratio=3)
    table.add_column("paper", overflow="fold", ratio=2)
    table.add_column("verdict", no_wrap=True)
    table.add_column("level", no_wrap=True)
    table.add_column("scope of the strongest check", overflow="fold", ratio=4)
    table.add_column("checks", justify="right")
    table.add_column("s", justify="right")
    for summary in group:
        mark = "" if summary.as_expected else " [bold red]unexpected[/]"
        strongest = next((r.evidence for r in summary.results if r.evidence is not None), None)
        table.add_row(
            escape(summary.claim.id),
            escape(summary.claim.paper_ref),
            f"[{_STYLE[summary.verdict]}]{summary.verdict}[/]{mark}",
            _level(summary),
            escape(strongest.scope if strongest is not None else ""),
            str(len(summary.results)),
            f"{sum(r.seconds for r in summary.results):.1f}",
        )
    return table


def _level(summary: ClaimSummary) -> str:
    if summary.level is None:
        return "-"
    if summary.capped_level is not None and summary.capped_level != summary.level:
        return f"{summary.level.name} (capped: {summary.capped_level.name})"
    return summary.level.name


def _show_checks(registry: Registry, summary: ClaimSummary, console: Console) -> None:
    console.print(f"\n[bold]{summary.claim.id}[/]")
    _indented(console, summary.claim.statement)
    for result in summary.results:
        console.print(
            f"  {escape(result.check_id)}: [{_STYLE[result.outcome]}]{result.outcome}[/], "
            f"{result.kind.value}, {escape(registry.check(result.check_id).source)}"
        )
        if result.evidence is not None:
            _indented(console, result.evidence.scope)
            if result.evidence.reason:
                _indented(console, result.evidence.reason)


def _show_findings(summaries: Sequence[ClaimSummary], console: Console) -> None:
    for kind in FindingKind:
        found = [s for s in summaries if s.claim.finding and s.claim.finding.kind is kind]
        if not found:
            continue
        console.print(f"\n[bold]{kind.name}[/] ({kind.value})")
        for summary in found:
            finding = summary.claim.finding
            assert finding is not None
            console.print(f"  [bold]{summary.claim.id}[/], {escape(summary.claim.paper_ref)}")
            if finding.quote:
                _indented(console, f"the paper: “{finding.quote}”")
            _indented(console, finding.text)
            for result in summary.results:
                evidence = result.evidence
                if evidence is not None and evidence.counterexample is not None:
                    _indented(console, f"counterexample: {describe(evidence)}")


def _indented(console: Console, text: str) -> None:
    console.print(Padding(escape(text), (0, 0, 0, 4)))


def describe(evidence: Evidence) -> str:
    """A refuting instance with its figures, on one line."""
    text = _instance(evidence.counterexample)
    if evidence.observed is not None:
        relation = evidence.relation.replace("observed", _number(evidence.observed))
        text += f"; claimed {relation.replace('bound', _number(evidence.bound))}"
    return text


def _instance(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} = {_instance(v)}" for k, v in value.items())
    if isinstance(value, list):
        return "(" + ", ".join(_instance(v) for v in value) + ")"
    return str(value)


def _number(value: Fraction | float | None) -> str:
    if isinstance(value, Fraction) and len(str(value)) > 24:
        return f"{float(value):.6g}"
    return str(value)


def _show_failures(results: Sequence[CheckResult], console: Console) -> None:
    failed = failures(results)
    if failed:
        console.print("\n[bold red]Not as expected[/]")
    for result in failed:
        console.print(
            f"  [bold]{result.check_id}[/]: {result.outcome}, not {result.expected.value}"
        )
        evidence = result.evidence
        if evidence is None:
            _indented(console, result.error or "no answer")
        else:
            if evidence.counterexample is not None:
                _indented(console, describe(evidence))
            _indented(console, evidence.reason)


def _summary_line(summaries: Sequence[ClaimSummary], results: Sequence[CheckResult]) -> str:
    verdicts = Counter(s.verdict for s in summaries)
    levels = Counter(s.level.name for s in summaries if s.level is not None)
    failed = len(failures(results))
    counted = ", ".join(f"{n} {name}" for name, n in verdicts.items())
    strength = ", ".join(f"{n} {name}" for name, n in levels.most_common())
    outcome = (
        "[green]all as expected[/]" if not failed else f"[bold red]{failed} not as expected[/]"
    )
    return f"\n{len(summaries)} claims, {len(results)} checks: {counted}; {strength}; {outcome}"
