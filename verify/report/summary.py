"""What every report shows: the claims of a run with derived verdicts and levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verify.claims import Claim, Registry, capped_levels, claim_verdict
from verify.evidence import Level, Verdict
from verify.runner import CheckResult


@dataclass(frozen=True)
class ClaimSummary:
    """One claim of a run. ``verdict`` is a verdict's name or ERROR."""

    claim: Claim
    verdict: str
    level: Level | None
    capped_level: Level | None
    results: tuple[CheckResult, ...]

    @property
    def as_expected(self) -> bool:
        return all(result.as_expected for result in self.results)


def summarise(registry: Registry, results: Sequence[CheckResult]) -> list[ClaimSummary]:
    """The claims that have a result, in report order, checks strongest first.

    A level is capped by the claims used only as far as those were run too.
    """
    by_claim: dict[str, list[CheckResult]] = {}
    for result in results:
        by_claim.setdefault(result.claim_id, []).append(result)
    claims = {cid: claim for cid, claim in registry.claims.items() if cid in by_claim}
    levels: dict[str, Level | None] = {}
    for claim_id, found in by_claim.items():
        decided = [r.level for r in found if r.level is not None and r.as_expected]
        levels[claim_id] = max(decided, default=None)
    capped = capped_levels(registry.claims, {**dict.fromkeys(registry.claims, _TOP), **levels})
    return [
        ClaimSummary(
            claim=claim,
            verdict=_verdict(by_claim[claim_id]),
            level=levels[claim_id],
            capped_level=capped[claim_id],
            results=tuple(sorted(by_claim[claim_id], key=lambda r: -r.kind.level)),
        )
        for claim_id, claim in claims.items()
    ]


_TOP = max(Level)


def _verdict(results: Sequence[CheckResult]) -> str:
    verdicts: list[Verdict] = []
    for result in results:
        if result.evidence is None:
            return "ERROR"
        verdicts.append(result.evidence.verdict)
    return claim_verdict(verdicts).value
