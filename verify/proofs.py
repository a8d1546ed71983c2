"""Kernel-checked proofs: build Coq sources, ask what each theorem states and what it rests on, and
turn the answers into evidence. Nothing here knows what the theorems are about.

Trust, step by step. The sources are searched for commands that admit a step or weaken the kernel.
They are copied into a folder named by a hash of all of them and compiled there, and every compiled
object is recorded by its own hash, so that an object never stands for other sources. Coq then
prints each theorem's statement and the axioms that it rests on (`Print Assumptions`, which follows
the whole proof). Evidence HOLDS only where the statement has the recorded hash and every axiom is
among those allowed to this theorem.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from verify.claims import Check, Claim, Planted, Profile, check
from verify.evidence import Evidence, Kind, Verdict

PROJECT_FILE = "_CoqProject"
MANIFEST = "manifest.json"
ANSWERS = "answers.json"
UNFINISHED = "unfinished-"
COMPILE_SECONDS = 1500.0
QUERY_SECONDS = 300.0
# At once: each loads all the libraries into memory of its own.
MOST_QUERIES = 4
# For a module: the independent checker repeats computations without Coq's virtual machine.
AUDIT_SECONDS = 600.0


class ProofError(RuntimeError):
    """The sources cannot be trusted or compiled; the message says where and why."""


# ------------------------------------------------------------------------------- the sources


@dataclass(frozen=True)
class CoqProject:
    """A folder of Coq sources with a _CoqProject of the form ``-Q . Name`` and one file a line.

    folder: the sources; build_root: where compiled copies go (made when needed).
    """

    folder: Path
    build_root: Path

    @functools.cached_property
    def _lines(self) -> list[str]:
        path = self.folder / PROJECT_FILE
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ProofError(f"{path}: {error.strerror}") from None
        return [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]

    @property
    def logical_name(self) -> str:
        """The logical path of the folder, from the line ``-Q . Name``."""
        for line in self._lines:
            if match := re.fullmatch(r"-[QR] \. (\w+)", line):
                return match[1]
        raise ProofError(f"{self.folder / PROJECT_FILE} has no line '-Q . Name'")

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the sources, in the order of _CoqProject."""
        names = tuple(line for line in self._lines if line.endswith(".v"))
        missing = [name for name in names if not (self.folder / name).is_file()]
        if missing or not names:
            what = f"{', '.join(missing)} missing" if missing else "no source is listed"
            raise ProofError(f"{self.folder / PROJECT_FILE}: {what}")
        stray = {path.name for path in self.folder.glob("*.v")} - set(names)
        if stray:
            raise ProofError(f"{', '.join(sorted(stray))}: not listed in {PROJECT_FILE}")
        return names

    def digest(self) -> str:
        """A hash of the compiler's version, of _CoqProject and of every source."""
        found = hashlib.sha256(coq_version().encode())
        for name in (PROJECT_FILE, *self.files):
            content = (self.folder / name).read_bytes()
            found.update(f"\n{name} {len(content)}\n".encode() + content)
        return found.hexdigest()


FORBIDDEN = (
    "Admitted",
    "admit",
    "give_up",
    "Axiom",
    "Axioms",
    "Parameter",
    "Parameters",
    "Conjecture",
    "Conjectures",
    "Admit Obligations",
    "bypass_check",
    "Unset Guard Checking",
    "Unset Positivity Checking",
    "Unset Universe Checking",
    "Set Definitional UIP",
    "Declare ML Module",
    "Load",
    "Redirect",
    "Extract Constant",
)
_FORBIDDEN = re.compile(
    r"(?<![\w.'])(?:" + "|".join(w.replace(" ", r"\s+") for w in FORBIDDEN) + r")(?![\w'])"
)
# `Variable` and `Hypothesis` outside of a section are axioms by another name. Print Assumptions
# lists those that a theorem uses; here only the commands that no honest source needs are sought.


@dataclass(frozen=True)
class Forbidden:
    """A command that no source may contain: the file, the line and the words."""

    file: str
    line: int
    words: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.words}"


def forbidden_commands(project: CoqProject) -> list[Forbidden]:
    """Every command in the sources, outside comments and strings, that admits or weakens."""
    return [
        Forbidden(name, line, words)
        for name in project.files
        for line, words in _forbidden_in((project.folder / name).read_text(encoding="utf-8"))
    ]


@functools.cache
def _forbidden_in(source: str) -> tuple[tuple[int, str], ...]:
    """The line and the words of each such command. Every theorem's check asks for it again."""
    code = without_comments(source)
    return tuple(
        (code.count("\n", 0, found.start()) + 1, " ".join(found[0].split()))
        for found in _FORBIDDEN.finditer(code)
    )


def without_comments(source: str) -> str:
    """Coq source with comments (which nest) and strings blanked, line breaks kept."""
    kept: list[str] = []
    depth = 0
    in_string = False
    at = 0
    while at < len(source):
        pair = source[at : at + 2]
        if not in_string and pair in ("(*", "*)") and (pair == "(*" or depth):
            depth += 1 if pair == "(*" else -1
            kept.append("  ")
            at += 2
            continue
        if source[at] == '"':
            in_string = not in_string
        blank = depth or in_string or source[at] == '"'
        kept.append(" " if blank and source[at] != "\n" else source[at])
        at += 1
    return "".join(kept)


# ---------------------------------------------------------------------------------- building


@functools.cache
def coq_library(name: str) -> Path | None:
    """The folder of an installed library such as "mathcomp/algebra", or None."""
    coqc = shutil.which("coqc")
    if coqc is None:
        return None
    where = subprocess.run([coqc, "-where"], capture_output=True, text=True, check=True, timeout=60)
    folder = Path(where.stdout.strip()) / "user-contrib" / name
    return folder if folder.is_dir() else None


@functools.cache
def coq_version() -> str:
    """The version of `coqc`; raises ``ProofError`` where there is none."""
    path = shutil.which("coqc")
    if path is None:
        raise ProofError("coqc is not installed")
    return subprocess.run(
        [path, "-print-version"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()[0]


def build(project: CoqProject) -> Path:
    """Compile the sources, unless these very sources are compiled already; return the folder.

    Raises ``ProofError`` for a forbidden command (with file and line), for an error of the
    compiler (with its message), and for a time-out.
    """
    bad = forbidden_commands(project)
    if bad:
        raise ProofError("forbidden: " + "; ".join(map(str, bad)))
    digest = project.digest()
    target = project.build_root / digest[:24]
    with _locked(project.build_root):
        if (target / MANIFEST).is_file():
            return target
        for left in project.build_root.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left)  # of a build that was killed: only the lock's holder builds
        with tempfile.TemporaryDirectory(dir=project.build_root, prefix=UNFINISHED) as made:
            folder = Path(made)
            for name in (PROJECT_FILE, *project.files):
                shutil.copyfile(project.folder / name, folder / name)
            _run(["coq_makefile", "-f", PROJECT_FILE, "-o", "CoqMakefile"], folder, 60)
            _run(["make", "-f", "CoqMakefile", f"-j{os.cpu_count() or 1}"], folder, COMPILE_SECONDS)
            manifest = {"digest": digest, "coq": coq_version(), "files": _hashes(folder)}
            (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target)
    return target


def is_compiled(project: CoqProject) -> bool:
    """Whether `build` would find these very sources compiled."""
    return (project.build_root / project.digest()[:24] / MANIFEST).is_file()


def verify_objects(project: CoqProject, folder: Path) -> None:
    """Raise ``ProofError`` unless the objects in a build folder are those made of these sources."""
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if manifest["digest"] != project.digest():
        raise ProofError(f"{folder}: compiled from other sources than those in {project.folder}")
    recorded, present = manifest["files"], _hashes(folder)
    if set(recorded) != {name + end for f in project.files for name, end in _pair(f)}:
        raise ProofError(f"{folder}: the manifest does not list every source and object")
    changed = sorted(name for name in recorded if recorded[name] != present.get(name))
    if changed:
        raise ProofError(f"{folder}: {', '.join(changed)} changed after compilation")
    for name in project.files:
        if (folder / name).read_bytes() != (project.folder / name).read_bytes():
            raise ProofError(f"{folder}: {name} is not the source in {project.folder}")


def _pair(source: str) -> tuple[tuple[str, str], tuple[str, str]]:
    stem = source.removesuffix(".v")
    return (stem, ".v"), (stem, ".vo")


def _hashes(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.suffix in (".v", ".vo")
    }


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One builder at a time; the lock is freed when its holder ends, however it ends."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _run(command: Sequence[str], folder: Path, seconds: float) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
        )
    except FileNotFoundError:
        raise ProofError(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ProofError(f"{' '.join(command)}: no end within {seconds:g} s") from None
    if done.returncode:
        shown = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise ProofError(f"{' '.join(command)} failed:\n{shown}")
    return done.stdout


# --------------------------------------------------------------------------------- questions


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What Coq says of one theorem: its statement as printed, and the axioms it rests on.

    ``unsafe`` holds every line of `Print Assumptions` that is no axiom with its type, such as
    "… is assumed to be guarded".
    """

    statement: str
    axioms: tuple[str, ...]
    unsafe: tuple[str, ...]

    @property
    def statement_hash(self) -> str:
        """A hash of the statement with runs of white space made one space."""
        return hashlib.sha256(self.statement.encode()).hexdigest()


def interrogate(project: CoqProject, table: TheoremTable) -> dict[str, Answer]:
    """Ask Coq for the statements and the axioms of all theorems of a table, by their names.

    Builds if need be. The answers are kept beside the objects that they are about, together with
    the question. Raises ``ProofError`` as `build` and `verify_objects` do, and for a name that
    does not exist.
    """
    folder = build(project)
    verify_objects(project, folder)
    question = _question(project, table, table.names)
    with _locked(project.build_root):
        kept = folder / ANSWERS
        stored = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
        if stored.get("question") != question:
            answers = _ask_all(project, table, folder)
            stored = {"question": question, "answers": answers}
            kept.write_text(json.dumps(stored, ensure_ascii=False, indent=1), encoding="utf-8")
    return {name: parse_answer(name, *stored["answers"][name]) for name in table.names}


def _question(project: CoqProject, table: TheoremTable, names: Sequence[str]) -> str:
    lines = [
        table.preamble,
        f"From {project.logical_name} Require Import {table.module}.",
        "Set Printing Width 100.",
    ]
    for at, name in enumerate(names):
        lines += [
            f'Redirect "{at}.statement" Check @{table.module}.{name}.',
            f'Redirect "{at}.axioms" Print Assumptions {table.module}.{name}.',
        ]
    return "\n".join(lines) + "\n"


def _ask_all(project: CoqProject, table: TheoremTable, folder: Path) -> dict[str, tuple[str, str]]:
    """Ask about all theorems, in parts at once: the axioms of one may take seconds."""
    parts = min(os.cpu_count() or 1, MOST_QUERIES)
    shares = [share for k in range(parts) if (share := table.names[k::parts])]
    with ThreadPoolExecutor(parts) as pool:
        answers = pool.map(lambda share: _ask(project, table, folder, share), shares)
        return {name: answer for part in answers for name, answer in part.items()}


def _ask(
    project: CoqProject, table: TheoremTable, folder: Path, names: Sequence[str]
) -> dict[str, tuple[str, str]]:
    with tempfile.TemporaryDirectory() as made:
        query = Path(made) / "Question.v"
        query.write_text(_question(project, table, names), encoding="utf-8")
        command = ["coqc", "-w", "none", "-Q", str(folder), project.logical_name, query.name]
        _run(command, query.parent, QUERY_SECONDS)
        return {
            name: (
                (query.parent / f"{at}.statement.out").read_text(encoding="utf-8"),
                (query.parent / f"{at}.axioms.out").read_text(encoding="utf-8"),
            )
            for at, name in enumerate(names)
        }


def parse_answer(name: str, statement: str, assumptions: str) -> Answer:
    """Read what `Check` and `Print Assumptions` printed.

    Whatever is neither the sentence for no axioms nor an axiom with its type is kept as unsafe.
    """
    printed = " ".join(statement.split())
    _, colon, stated = printed.partition(" : ")
    if not colon or name not in printed:
        raise ProofError(f"Coq printed {printed[:200]!r} for {name}")
    axioms, unsafe = [], []
    in_axioms = False
    for line in assumptions.splitlines():
        if not line.strip() or line.startswith(" "):
            continue  # an axiom's type, continued
        if line == "Axioms:":
            in_axioms = True
        elif line == "Closed under the global context":
            in_axioms = False
        elif in_axioms and (match := re.fullmatch(r"([\w.']+)(?: : .*| :)?", line)):
            axioms.append(match[1])
        else:
            unsafe.append(line)
    if not axioms and assumptions.strip() != "Closed under the global context":
        unsafe.append(assumptions.strip())
    return Answer(statement=stated, axioms=tuple(axioms), unsafe=tuple(unsafe))


# ----------------------------------------------------------------------------------- judging


@dataclass(frozen=True, kw_only=True)
class Theorem:
    """A theorem that restates a claim: what it may rest on, and the statement that it must have.

    scope: for what sizes and numbers it holds; differences: in what the theorem's statement
    differs from the paper's ("" where in nothing).
    """

    claim_id: str
    name: str
    axioms: tuple[str, ...]
    statement_hash: str
    scope: str
    differences: str = ""


@dataclass(frozen=True, kw_only=True)
class TheoremTable:
    """The theorems that stand for claims, all of them in one module, by claim id.

    preamble: commands that bring in the notations in which Coq prints the statements.
    """

    module: str
    preamble: str
    theorems: Mapping[str, Theorem]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(theorem.name for theorem in self.theorems.values())


def read_table(path: Path) -> TheoremTable:
    """Read a table of theorems from TOML.

    ``module`` names the Coq file, ``preamble`` is as in `TheoremTable`; ``[axioms]`` names sets
    of axioms; each ``[theorems.CLAIM_ID]`` has ``axioms`` (the name of a set, or "none"),
    ``statement`` (a SHA-256), ``scope``, and optionally ``differences`` and ``name``
    (claim_CLAIM_ID where left out). Raises ``ProofError`` for an unknown key or set.
    """
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    sets = {"none": (), **{name: tuple(found) for name, found in raw.get("axioms", {}).items()}}
    theorems = {}
    for claim_id, entry in raw["theorems"].items():
        unknown = set(entry) - {"name", "axioms", "statement", "scope", "differences"}
        if unknown:
            raise ProofError(f"{path}: [theorems.{claim_id}] has unknown keys {sorted(unknown)}")
        if entry["axioms"] not in sets:
            raise ProofError(f"{path}: [theorems.{claim_id}]: no set {entry['axioms']!r} of axioms")
        theorems[claim_id] = Theorem(
            claim_id=claim_id,
            name=entry.get("name", f"claim_{claim_id}"),
            axioms=sets[entry["axioms"]],
            statement_hash=entry["statement"],
            scope=entry["scope"],
            differences=entry.get("differences", ""),
        )
    return TheoremTable(module=raw["module"], preamble=raw.get("preamble", ""), theorems=theorems)


def proof_checks(
    project: CoqProject,
    table: TheoremTable,
    claims: Mapping[str, Claim],
    needs: tuple[str, ...],
    module: str,
) -> tuple[Check, ...]:
    """One check for every theorem of the table, for the registry.

    claims: all claims by id; needs: what the sources need, as in ``verify.claims.Check``; module:
    the module that keeps the checks. Raises ``ProofError`` for a claim that does not exist.
    """
    unknown = sorted(set(table.theorems) - set(claims))
    if unknown:
        raise ProofError(f"theorems stand for claims that do not exist: {', '.join(unknown)}")
    if not table.theorems:
        return ()
    lines = theorem_lines((project.folder / f"{table.module}.v").read_text(encoding="utf-8"))
    return tuple(
        _proof_check(
            project,
            table,
            theorem,
            claims[claim_id],
            needs,
            module,
            f"{table.module}.v:{lines.get(theorem.name, 0)}",
        )
        for claim_id, theorem in table.theorems.items()
    )


def theorem_lines(source: str) -> dict[str, int]:
    """In which line of a Coq source each theorem's statement begins, by its name."""
    return {
        match[1]: source.count("\n", 0, match.start()) + 1
        for match in re.finditer(r"^(?:Theorem|Lemma|Corollary) ([\w']+)", source, re.MULTILINE)
    }


def _proof_check(
    project: CoqProject,
    table: TheoremTable,
    theorem: Theorem,
    claim: Claim,
    needs: tuple[str, ...],
    module: str,
    made_from: str,
) -> Check:
    def proof(_profile: Profile, *, appended: str = "") -> Evidence:
        return judge_theorem(project, table, theorem, appended=appended)

    proof.__module__ = module
    planted = Planted("the theorem states one character more than was recorded", appended="'")
    return check(claim, kind=Kind.PROOF, planted=planted, needs=needs, made_from=made_from)(proof)


def judge_theorem(
    project: CoqProject, table: TheoremTable, theorem: Theorem, *, appended: str = ""
) -> Evidence:
    """Evidence for one theorem: HOLDS where it has its recorded statement and allowed axioms.

    ``appended`` is put behind the statement that Coq prints (for a planted falsehood).

    REFUTED means that the theorem which compiles is not the recorded one, or rests on more than it
    may. Raises ``ProofError`` where the sources do not build.
    """
    answer = interrogate(project, table)[theorem.name]
    answer = dataclasses.replace(answer, statement=answer.statement + appended)
    where = f"{table.module}.v, {theorem.name}"
    problem: dict[str, object] = {}
    if answer.unsafe:
        problem = {"Print Assumptions says": list(answer.unsafe)}
    elif extra := sorted(set(answer.axioms) - set(theorem.axioms)):
        problem = {"axioms that are not allowed": extra}
    elif answer.statement_hash != theorem.statement_hash:
        problem = {"the statement is now": answer.statement, "its hash": answer.statement_hash}
    rests_on = ", ".join(answer.axioms) or "no axiom"
    differs = f"; differs from the paper: {theorem.differences}" if theorem.differences else ""
    return Evidence(
        verdict=Verdict.REFUTED if problem else Verdict.HOLDS,
        scope=theorem.scope,
        cases=1,
        relation="Coq's kernel accepts a proof of the recorded statement",
        counterexample=problem or None,
        reason=f"{where}, rests on {rests_on}{differs}; states: {answer.statement}",
    )


def audit(project: CoqProject) -> Iterator[tuple[str, str]]:
    """Re-check every module with `coqchk`, the independent checker: its name, and what is wrong.

    The libraries are taken as they are installed. "" where the module passed; a module that takes
    more than AUDIT_SECONDS is said to be not checked. Raises ``ProofError`` as `build` does.
    """
    folder = build(project)
    verify_objects(project, folder)
    for source in project.files:
        module = f"{project.logical_name}.{source.removesuffix('.v')}"
        command = ["coqchk", "-silent", "-norec", module, "-Q", str(folder), project.logical_name]
        try:
            _run(command, folder, AUDIT_SECONDS)
        except ProofError as error:
            yield module, str(error)
        else:
            yield module, ""
