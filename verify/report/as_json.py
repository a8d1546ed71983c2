"""The JSON report. Its shape is part of the project's interface."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from verify.claims import Profile, Registry
from verify.report.summary import ClaimSummary, summarise
from verify.runner import CheckResult

PACKAGES = ("attention-sensitivity", "numpy", "scipy", "sympy", "numba", "python-flint")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results rest on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def build(registry: Registry, results: Sequence[CheckResult], profile: Profile) -> dict[str, Any]:
    """The report as plain dictionaries and lists."""
    return {
        "versions": versions(),
        "profile": profile.value,
        "claims": [_claim(registry, summary) for summary in summarise(registry, results)],
    }


def write(path: Path, report: dict[str, Any]) -> None:
    """Write the report as UTF-8 JSON."""
    path.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _claim(registry: Registry, summary: ClaimSummary) -> dict[str, Any]:
    claim = summary.claim
    finding = claim.finding
    return {
        "id": claim.id,
        "paper_ref": claim.paper_ref,
        "section": claim.section,
        "statement": claim.statement,
        "uses": list(claim.uses),
        "expected": claim.expected.value,
        "verdict": summary.verdict,
        "level": summary.level.name if summary.level is not None else None,
        "capped_level": summary.capped_level.name if summary.capped_level is not None else None,
        "finding": None
        if finding is None
        else {"kind": finding.kind.name, "text": finding.text, "quote": finding.quote},
        "checks": [_check(registry, result) for result in summary.results],
    }


def _check(registry: Registry, result: CheckResult) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": result.check_id,
        "source": registry.check(result.check_id).source,
        "kind": result.kind.value,
        "verdict": result.outcome,
        "level": result.level.name if result.level is not None else None,
        "seconds": round(result.seconds, 3),
    }
    evidence = result.evidence
    if evidence is None:
        empty = {"scope": "", "cases": 0, "relation": "", "observed": None, "bound": None}
        return {**row, **empty, "tolerance": None, "counterexample": None, "reason": result.error}
    tolerance = evidence.tolerance
    return {
        **row,
        "scope": evidence.scope,
        "cases": evidence.cases,
        "relation": evidence.relation,
        "observed": _number(evidence.observed),
        "bound": _number(evidence.bound),
        "tolerance": None
        if tolerance is None
        else {"value": tolerance.value, "kind": tolerance.kind, "reason": tolerance.reason},
        "counterexample": evidence.counterexample,
        "reason": evidence.reason,
    }


def _number(value: Fraction | float | None) -> str | float | None:
    """Fractions as "p/q" strings, so that they stay exact."""
    return str(value) if isinstance(value, Fraction) else value
