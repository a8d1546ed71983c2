"""Claims, the checks that judge them, and the registry that insists on completeness."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

from verify.evidence import Derivation, Evidence, Kind, Level, Verdict

T = TypeVar("T")

# A module that makes checks from a table names the tuple of them so.
MADE_CHECKS = "CHECKS"


class FindingKind(Enum):
    """What an audit found beyond a plain verdict."""

    ERRATUM = "false under every fair reading"
    SHARPENED = "true as meant; something stronger holds"
    CAVEAT = "true with a hypothesis, or within limits, that the text leaves unstated"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """An audit's result. An ERRATUM quotes the paper's words in ``quote``."""

    kind: FindingKind
    text: str
    quote: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One statement, in our words, with every hypothesis and the norm that it holds in.

    ``section`` orders the report ("2", "3", …, "A", …, "beyond"); ``uses`` names the claims that
    this one builds on; ``expected`` is REFUTED exactly for an ERRATUM.
    """

    id: str
    paper_ref: str
    section: str
    statement: str
    uses: tuple[str, ...] = ()
    expected: Verdict = Verdict.HOLDS
    finding: Finding | None = None


@dataclass(frozen=True)
class Planted:
    """A nearby falsehood: the check, called with these parameters, must refute it.

    For a claim that is expected to be REFUTED it is a nearby truth, which must come out as HOLDS.
    """

    text: str
    parameters: Mapping[str, Any]

    def __init__(self, text: str, **parameters: Any) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "parameters", MappingProxyType(parameters))


class Profile(Enum):
    """How much work a check may do: seconds in QUICK, minutes in FULL."""

    QUICK = "quick"
    FULL = "full"

    def pick(self, quick: T, full: T) -> T:
        return quick if self is Profile.QUICK else full


CheckFunction = Callable[..., Evidence | Derivation]


@dataclass(frozen=True)
class Check:
    """A registered check. Calling it runs the function; use ``verify.runner.run_check`` to judge.

    ``needs`` lists what the check cannot do without: optional import names, "program:NAME" for a
    program on the path, "coq:LIBRARY" for a library of Coq, and files or folders beside the
    packages (whatever else has a slash: the logs of runs). Where one is missing, it is NOT_RUN.
    """

    function: CheckFunction
    claim: Claim
    kind: Kind
    planted: Planted | None
    needs: tuple[str, ...]
    made_from: str = ""

    @property
    def id(self) -> str:
        return f"{self.claim.id}.{self.function.__name__}"

    @property
    def module(self) -> str:
        return self.function.__module__

    @property
    def source(self) -> str:
        """Where the check stands, as module:line; for a made check, what it was made from."""
        return self.made_from or f"{self.module}:{self.function.__code__.co_firstlineno}"

    def __call__(self, profile: Profile, **parameters: Any) -> Evidence | Derivation:
        return self.function(profile, **parameters)


def check(
    claim: Claim,
    *,
    kind: Kind,
    planted: Planted | None = None,
    needs: tuple[str, ...] = (),
    made_from: str = "",
) -> Callable[[CheckFunction], Check]:
    """Register the decorated function as a check of ``claim``.

    ``made_from`` says, as file:line, where the statement stands of a check made from a table.

    The function takes a ``Profile`` and keyword parameters whose defaults state the claim; the
    planted falsehood replaces some of them. It returns ``Evidence`` (a ``Derivation`` if and only
    if its kind is DERIVATION). Loading fails for a check without a planted falsehood.
    """

    def register(function: CheckFunction) -> Check:
        return Check(function, claim, kind, planted, needs, made_from)

    return register


class RegistryError(ValueError):
    """The claims and checks of a package do not fit together."""


class UnknownIdError(LookupError):
    """No claim or check has this id; the message names near matches."""


@dataclass(frozen=True)
class Registry:
    """All claims and checks of some packages, complete and consistent."""

    packages: tuple[str, ...]
    claims: Mapping[str, Claim]
    checks: Mapping[str, Check]
    section_titles: Mapping[str, str]

    def check(self, check_id: str) -> Check:
        if check_id not in self.checks:
            raise UnknownIdError(f"no check {check_id!r}{self.near_matches(check_id)}")
        return self.checks[check_id]

    def checks_of(self, claim_id: str) -> tuple[Check, ...]:
        """The claim's checks, strongest first."""
        found = [c for c in self.checks.values() if c.claim.id == claim_id]
        return tuple(sorted(found, key=lambda c: -c.kind.level))

    def near_matches(self, text: str) -> str:
        """A phrase that suggests ids similar to ``text``, or an empty string."""
        names = [*self.claims, *self.checks]
        words = [w for w in re.findall(r"[\w.]+", text) if w not in ("and", "or", "not")]
        near = [n for w in words for n in difflib.get_close_matches(w, names, n=3, cutoff=0.6)]
        return "; did you mean " + ", ".join(dict.fromkeys(near)) + "?" if near else ""


@functools.lru_cache(maxsize=8)
def load_registry(packages: tuple[str, ...]) -> Registry:
    """Import every public module of the packages and collect their claims and checks.

    A module's checks are its attributes, and the members of the tuple ``CHECKS`` if it has one.
    Modules whose name starts with an underscore are helpers and are not searched. Raises
    ``RegistryError`` listing every fault: see ``_faults``.
    """
    claims: dict[str, Claim] = {}
    checks: dict[str, Check] = {}
    titles: dict[str, str] = {}
    faults: list[str] = []
    for package_name in packages:
        package = importlib.import_module(package_name)
        titles.update(getattr(package, "SECTIONS", {}))
        for module in _public_modules(package):
            own_claims = [v for v in vars(module).values() if isinstance(v, Claim)]
            own_checks = [
                v
                for v in vars(module).values()
                if isinstance(v, Check) and v.module == module.__name__
            ]
            own_checks += getattr(module, MADE_CHECKS, ())
            for claim in own_claims:
                # A claim imported from another module (to be named in `uses`) is the same object.
                if claims.setdefault(claim.id, claim) is not claim:
                    faults.append(f"two claims have the id {claim.id!r}")
            for item in own_checks:
                if checks.setdefault(item.id, item) is not item:
                    faults.append(f"two checks have the id {item.id!r}")
    faults += _faults(claims, checks)
    if faults:
        raise RegistryError("; ".join(faults))
    ordered = sorted(claims.values(), key=lambda c: (section_key(c.section), _natural(c.id)))
    return Registry(
        packages=packages,
        claims=MappingProxyType({c.id: c for c in ordered}),
        checks=MappingProxyType(
            {k.id: k for c in ordered for k in checks.values() if k.claim is c}
        ),
        section_titles=MappingProxyType(titles),
    )


def _public_modules(package: ModuleType) -> list[ModuleType]:
    names = sorted(
        info.name for info in pkgutil.iter_modules(package.__path__) if info.name[0] != "_"
    )
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names]


def section_key(section: str) -> tuple[int, str]:
    """Report order: numbered sections, appendices, then results beyond the paper."""
    if section.isdigit():
        return (int(section), "")
    return (100 if len(section) == 1 else 200, section)


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(p), "") if p.isdigit() else (-1, p) for p in re.split(r"(\d+)", text)]


def _faults(claims: Mapping[str, Claim], checks: Mapping[str, Check]) -> list[str]:
    """Every way in which claims and checks are incomplete or inconsistent."""
    faults = []
    checked = {item.claim.id for item in checks.values()}
    for claim in claims.values():
        if not re.fullmatch(r"[a-z][A-Za-z0-9_]*", claim.id):
            faults.append(f"claim id {claim.id!r} is no identifier in lower case")
        if not claim.statement.strip() or not claim.paper_ref.strip():
            faults.append(f"claim {claim.id!r} lacks a statement or a reference")
        if claim.id not in checked:
            faults.append(f"claim {claim.id!r} has no check")
        faults += [
            f"claim {claim.id!r} uses the unknown {used!r}"
            for used in claim.uses
            if used not in claims
        ]
        is_erratum = claim.finding is not None and claim.finding.kind is FindingKind.ERRATUM
        if is_erratum != (claim.expected is Verdict.REFUTED):
            faults.append(f"claim {claim.id!r}: an ERRATUM, and only that, is expected REFUTED")
        if is_erratum and claim.finding is not None and not claim.finding.quote.strip():
            faults.append(f"claim {claim.id!r}: an ERRATUM quotes the paper's words")
        faults += [
            f"claim id {claim.id!r} is a prefix of {other!r} without an underscore following"
            for other in claims
            if other != claim.id
            and other.startswith(claim.id)
            and not other[len(claim.id) :].startswith("_")
            and not _are_roman_parts(claim.id, other)
            and not _is_plural_step(claim.id, other)
        ]
    for item in checks.values():
        if claims.get(item.claim.id) is not item.claim:
            faults.append(f"check {item.id!r} names a claim that no module defines")
        if item.planted is None or not item.planted.parameters:
            faults.append(f"check {item.id!r} names no planted falsehood")
        else:
            faults += _signature_faults(item, item.planted)
    return faults + _cycles(claims)


def _are_roman_parts(first: str, second: str) -> bool:
    """Whether both are parts of one statement that the paper numbers (i), (ii), (iii), …"""
    stems = [re.fullmatch(r"(\w+_part_)[ivx]+", claim_id) for claim_id in (first, second)]
    return all(stems) and len({match[1] for match in stems if match}) == 1


def _is_plural_step(first: str, second: str) -> bool:
    """Whether two steps of one proof differ in a plural alone, as step_value and step_values do."""
    return "_step_" in first and second == first + "s"


def _signature_faults(item: Check, planted: Planted) -> list[str]:
    parameters = inspect.signature(item.function).parameters
    faults = [
        f"check {item.id!r} takes no parameter {name!r} that its planted falsehood sets"
        for name in planted.parameters
        if name not in parameters
    ]
    _profile, *rest = parameters.values()
    faults += [
        f"check {item.id!r}: parameter {p.name!r} needs a default, which states the claim"
        for p in rest
        if p.default is inspect.Parameter.empty
    ]
    return faults


def _cycles(claims: Mapping[str, Claim]) -> list[str]:
    done: set[str] = set()
    faults: list[str] = []

    def visit(claim_id: str, path: Sequence[str]) -> None:
        if claim_id in path:
            faults.append("a cycle in uses: " + " -> ".join([*path, claim_id]))
        elif claim_id in claims and claim_id not in done:
            for used in claims[claim_id].uses:
                visit(used, [*path, claim_id])
            done.add(claim_id)

    for claim_id in claims:
        visit(claim_id, [])
    return faults


# ----------------------------------------------------------------------------- derived levels


def claim_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """A claim's verdict from those of its checks: one refutation refutes, one doubt leaves doubt.

    Checks that did not run count only where none ran.
    """
    ran = [v for v in verdicts if v is not Verdict.NOT_RUN]
    for verdict in (Verdict.REFUTED, Verdict.INCONCLUSIVE):
        if verdict in ran:
            return verdict
    return Verdict.HOLDS if ran else Verdict.NOT_RUN


def capped_levels(
    claims: Mapping[str, Claim], levels: Mapping[str, Level | None]
) -> dict[str, Level | None]:
    """Each claim's level, capped by the levels of the claims that it uses (None: no evidence)."""
    capped: dict[str, Level | None] = {}

    def of(claim_id: str) -> Level | None:
        if claim_id not in capped:
            inherited = [levels.get(claim_id), *(of(used) for used in claims[claim_id].uses)]
            present = [level for level in inherited if level is not None]
            capped[claim_id] = min(present) if len(present) == len(inherited) else None
        return capped[claim_id]

    for claim_id in claims:
        of(claim_id)
    return capped
