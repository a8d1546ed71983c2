"""The runner: errors are no refutations, kinds are enforced, lost workers cost one check only."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from verify.claims import Profile, UnknownIdError, load_registry
from verify.evidence import Level
from verify.runner import failures, run_check, run_many, run_planted

SOURCE = """
import os
import time
import numpy
import sympy
import threadpoolctl
from fractions import Fraction
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Derivation, Evidence, Identity, Kind, Tolerance, Verdict, judge

def claim(claim_id):
    return Claim(id=claim_id, paper_ref="ref", section="2", statement="A statement.")

def one(lhs, rhs, **kw):
    return judge([Case(lhs, "==", rhs, {"row": Fraction(1, 3)})], scope="one", **kw)

LOOSE = Tolerance(value=1e-9, kind="absolute", reason="test")
P = Planted("off by one", rhs=2)

TRUE = claim("true")
@check(TRUE, kind=Kind.CERTIFICATE, planted=P)
def holds(profile, *, rhs=1):
    return one(1, rhs)

FALSE = claim("false")
@check(FALSE, kind=Kind.CERTIFICATE, planted=P)
def refuted(profile, *, rhs=3):
    return one(1, rhs)

CRASH = claim("crash")
@check(CRASH, kind=Kind.CERTIFICATE, planted=P)
def crashes(profile, *, rhs=1):
    raise RuntimeError("boom")

EXIT = claim("exit")
@check(EXIT, kind=Kind.CERTIFICATE, planted=P)
def exits(profile, *, rhs=1):
    raise SystemExit(3)

FLOATY = claim("floaty")
@check(FLOATY, kind=Kind.CERTIFICATE, planted=P)
def float_in_an_exact_check(profile, *, rhs=1):
    return Evidence(verdict=Verdict.HOLDS, scope="s", cases=1, relation="r", observed=1.0)

TOLERANT = claim("tolerant")
@check(TOLERANT, kind=Kind.ENUMERATION, planted=P)
def tolerance_in_an_exact_check(profile, *, rhs=1):
    return one(1, rhs, tolerance=LOOSE)

NOEVIDENCE = claim("noevidence")
@check(NOEVIDENCE, kind=Kind.SAMPLE, planted=P)
def returns_a_truth_value(profile, *, rhs=1):
    return True

POSING = claim("posing")
@check(POSING, kind=Kind.DERIVATION, planted=P)
def evidence_posing_as_a_derivation(profile, *, rhs=1):
    return one(1, rhs)

LOWERED = claim("lowered")
@check(LOWERED, kind=Kind.SAMPLE, planted=P)
def derivation_posing_as_a_sample(profile, *, rhs=1):
    return Derivation(scope="s", steps=(Identity("i", sympy.Integer(1), rhs),))

DERIVED = claim("derived")
@check(DERIVED, kind=Kind.DERIVATION, planted=P)
def holds_by_identity(profile, *, rhs=1):
    return Derivation(scope="s", steps=(Identity("i", sympy.Symbol("x") ** 0, rhs),))

LACKING = claim("lacking")
@check(LACKING, kind=Kind.CERTIFICATE, planted=P, needs=("no_such_package",))
def needs_a_package(profile, *, rhs=1):
    raise AssertionError("must not be called")

LOGLESS = claim("logless")
@check(LOGLESS, kind=Kind.CERTIFICATE, planted=P, needs=("fractions", "no/such/logs"))
def needs_a_folder(profile, *, rhs=1):
    raise AssertionError("must not be called")

LOGGED = claim("logged")
@check(LOGGED, kind=Kind.CERTIFICATE, planted=P, needs=("verify/runner.py",))
def needs_a_file_that_is_here(profile, *, rhs=1):
    return judge([Case(1, "==", rhs)], scope="s")

SHIRKS = claim("shirks")
@check(SHIRKS, kind=Kind.CERTIFICATE, planted=P, needs=("fractions",))
def shirks_though_it_could_run(profile, *, rhs=1):
    return Evidence(verdict=Verdict.NOT_RUN, scope="s", cases=0, relation="r", reason="tired")

SLOW = claim("slow")
@check(SLOW, kind=Kind.CERTIFICATE, planted=P)
def sleeps(profile, *, rhs=1):
    time.sleep(60)

SHARE = claim("share")
@check(SHARE, kind=Kind.CERTIFICATE, planted=P)
def one_thread_of_blas(profile, *, rhs=1):
    pools = [p for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"]
    return one(max(p["num_threads"] for p in pools), rhs)

DEADLY = claim("deadly")
@check(DEADLY, kind=Kind.CERTIFICATE, planted=P)
def kills_its_worker(profile, *, rhs=1):
    os._exit(7)
"""
PACKAGES = ("checks_under_test",)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, ...]]:
    folder = tmp_path / "checks_under_test"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield PACKAGES
    for name in [n for n in sys.modules if n.startswith("checks_under_test")]:
        del sys.modules[name]
    load_registry.cache_clear()


@pytest.mark.parametrize(
    ("check_id", "outcome", "as_expected", "text"),
    [
        ("true.holds", "HOLDS", True, ""),
        ("false.refuted", "REFUTED", False, ""),
        ("crash.crashes", "ERROR", False, "boom"),
        ("exit.exits", "ERROR", False, "SystemExit: 3"),
        ("floaty.float_in_an_exact_check", "ERROR", False, "reports no float"),
        ("tolerant.tolerance_in_an_exact_check", "ERROR", False, "takes no tolerance"),
        ("noevidence.returns_a_truth_value", "ERROR", False, "returned bool, not Evidence"),
        ("posing.evidence_posing_as_a_derivation", "ERROR", False, "returns a Derivation"),
        ("lowered.derivation_posing_as_a_sample", "ERROR", False, "returns a Derivation"),
        ("lacking.needs_a_package", "NOT_RUN", True, "no_such_package not here: pip install"),
        ("logless.needs_a_folder", "NOT_RUN", True, "no/such/logs not here"),
        ("logged.needs_a_file_that_is_here", "HOLDS", True, ""),
        ("shirks.shirks_though_it_could_run", "NOT_RUN", False, "tired"),
    ],
)
def test_outcomes(
    packages: tuple[str, ...], check_id: str, outcome: str, as_expected: bool, text: str
) -> None:
    result = run_check(check_id, Profile.QUICK, packages=packages)
    assert (result.outcome, result.as_expected) == (outcome, as_expected)
    assert text in (result.error or "") or text in getattr(result.evidence, "reason", "")
    assert (result.level is not None) == (outcome in ("HOLDS", "REFUTED"))
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_planted_falsehood_is_expected_to_be_refuted(packages: tuple[str, ...]) -> None:
    caught = run_planted("true.holds", Profile.QUICK, packages=packages)
    assert (caught.outcome, caught.as_expected) == ("REFUTED", True)
    blind = run_planted("noevidence.returns_a_truth_value", Profile.QUICK, packages=packages)
    assert not blind.as_expected


def test_a_refutation_is_certified_at_best(packages: tuple[str, ...]) -> None:
    derived = run_check("derived.holds_by_identity", Profile.QUICK, packages=packages)
    assert derived.level is Level.SYMBOLIC
    refuted = run_planted("derived.holds_by_identity", Profile.QUICK, packages=packages)
    assert (refuted.outcome, refuted.level) == ("REFUTED", Level.CERTIFIED)


def test_an_unknown_id_is_an_error_of_the_caller(packages: tuple[str, ...]) -> None:
    with pytest.raises(UnknownIdError):
        run_check("true.hold", Profile.QUICK, packages=packages)


def test_workers_share_the_processors(packages: tuple[str, ...]) -> None:
    jobs = os.cpu_count() or 1
    (result,) = run_many(
        ["share.one_thread_of_blas"], Profile.QUICK, packages=packages, jobs=jobs, timeout=60.0
    )
    assert result.outcome == "HOLDS", result.error


def test_workers_that_hang_or_die_cost_their_own_check_only(packages: tuple[str, ...]) -> None:
    ids = ["slow.sleeps", "deadly.kills_its_worker", "true.holds", "false.refuted"]
    seen: list[str] = []
    results = run_many(
        ids,
        Profile.QUICK,
        packages=packages,
        jobs=2,
        timeout=8.0,
        on_result=lambda result: seen.append(result.check_id),
    )
    assert [r.check_id for r in results] == ids
    assert sorted(seen) == sorted(ids)
    assert [r.outcome for r in results] == ["ERROR", "ERROR", "HOLDS", "REFUTED"]
    assert "no answer within 8 s" in (results[0].error or "")
    assert "worker died" in (results[1].error or "")
    assert [r.check_id for r in failures(results)] == [ids[0], ids[1], ids[3]]
