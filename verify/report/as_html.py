"""The HTML report: one page that a reader can follow from statement to evidence.

Needs Jinja2 (the ``report`` extra).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from verify.claims import Profile, Registry
from verify.report.as_json import versions
from verify.report.summary import summarise
from verify.report.text import describe
from verify.runner import CheckResult


def write(path: Path, registry: Registry, results: Sequence[CheckResult], profile: Profile) -> None:
    """Write the report as one self-contained UTF-8 HTML file."""
    import jinja2

    source = resources.files("verify.report").joinpath("report.html.jinja").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    summaries = summarise(registry, results)
    sections = [
        (section, registry.section_titles.get(section, ""), list(group))
        for section, group in itertools.groupby(summaries, key=lambda s: s.claim.section)
    ]
    page = environment.from_string(source).render(
        sections=sections,
        findings=[s for s in summaries if s.claim.finding is not None],
        claims=len(summaries),
        checks=len(results),
        is_whole=len(results) == len(registry.checks),
        shown={s.claim.id for s in summaries},
        source=lambda result: registry.check(result.check_id).source,
        unexpected=sum(not s.as_expected for s in summaries),
        profile=profile.value,
        versions=versions(),
        describe=describe,
    )
    path.write_text(page + "\n", encoding="utf-8")
