"""Every check of every claim, and every planted falsehood, through the runner of ``run_all.py``."""

import pytest

from paper_checks.run_all import CLAIM_PACKAGES
from verify.claims import Profile, load_registry
from verify.runner import CheckResult, install_line, missing_needs, run_check, run_planted

REGISTRY = load_registry(CLAIM_PACKAGES)
ALL_CHECKS = list(REGISTRY.checks)


def accept(result: CheckResult) -> None:
    """Fail with the evidence in full unless the verdict is the expected one."""
    assert result.as_expected, (
        f"{result.check_id}: {result.outcome}, expected {result.expected.value}\n"
        f"{result.evidence or result.error}"
        if result.evidence is None
        else f"{result.check_id}: {result.outcome}, expected {result.expected.value}\n"
        f"{result.evidence!r}"
    )


@pytest.mark.parametrize("check_id", ALL_CHECKS)
def test_claim(check_id: str) -> None:
    missing = missing_needs(REGISTRY.check(check_id))
    if missing:
        pytest.skip(f"{', '.join(missing)} not here: {install_line(missing)}")
    accept(run_check(check_id, Profile.QUICK, packages=CLAIM_PACKAGES))


@pytest.mark.parametrize("check_id", ALL_CHECKS)
def test_planted_falsehood(check_id: str) -> None:
    missing = missing_needs(REGISTRY.check(check_id))
    if missing:
        pytest.skip(f"{', '.join(missing)} not here: {install_line(missing)}")
    accept(run_planted(check_id, Profile.QUICK, packages=CLAIM_PACKAGES))
