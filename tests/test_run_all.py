"""The script: the same verdicts as pytest's, honest exit statuses, and clear errors."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paper_checks import run_all
from verify.claims import Profile, load_registry
from verify.runner import run_check

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "paper_checks" / "run_all.py"
STRANGERS = ("theory.py", "verify.py", "model.py", "paper_checks.py")

PLANTED_CLAIM = """
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Evidence, Kind, judge

FALSE = Claim(id="planted_false", paper_ref="none", section="2", statement="1 + 1 = 3.")

@check(FALSE, kind=Kind.CERTIFICATE, planted=Planted("1 + 1 = 4", total=4))
def adds_up(profile: Profile, *, total: int = 3) -> Evidence:
    return judge([Case(1 + 1, "==", total, "1 + 1")], scope="one sum")
"""


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command whose output is plain text, whatever colours this environment asks for."""
    asked = ("FORCE_COLOR", "PY_COLORS", "PYTEST_ADDOPTS", "CLICOLOR_FORCE", "TTY_COMPATIBLE")
    environment = {key: value for key, value in os.environ.items() if key not in asked}
    return subprocess.run(
        arguments,
        cwd=folder,
        env=environment | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )


@pytest.mark.timeout(1800)
def test_the_script_and_pytest_agree(tmp_path: Path) -> None:
    """Run everything as a script from another folder, and the same checks in this process."""
    report_file = tmp_path / "report.json"
    done = run([sys.executable, str(SCRIPT), "--json", str(report_file)], tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads(report_file.read_text("utf-8"))
    by_script = {
        check["id"]: check["verdict"] for claim in report["claims"] for check in claim["checks"]
    }
    by_pytest = {
        check_id: run_check(check_id, Profile.QUICK, packages=run_all.CLAIM_PACKAGES).outcome
        for check_id in load_registry(run_all.CLAIM_PACKAGES).checks
    }
    assert by_script == by_pytest


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with a package that holds one false claim."""
    package = tmp_path / "planted_claims"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "module.py").write_text(PLANTED_CLAIM)
    return tmp_path


def test_a_false_claim_fails_the_script(planted: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, '.'); from paper_checks import run_all; "
        "sys.exit(run_all.main(['--jobs', '1'], packages=('planted_claims',)))"
    )
    done = run([sys.executable, "-c", code], planted)
    assert done.returncode == 1
    assert "planted_false.adds_up: REFUTED, not HOLDS" in done.stdout


def test_a_false_claim_fails_pytest(planted: Path) -> None:
    (planted / "plant.py").write_text(
        "from paper_checks import run_all\nrun_all.CLAIM_PACKAGES = ('planted_claims',)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "plant", "-p", "no:cacheprovider"]
    done = run([*command, str(ROOT / "tests" / "test_claims.py")], planted)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout, "the claim fails and its planted falsehood is found"


@pytest.mark.parametrize("command", [[str(SCRIPT)], ["-m", "paper_checks.run_all"]])
def test_both_ways_of_starting_list_the_checks(tmp_path: Path, command: list[str]) -> None:
    done = run([sys.executable, *command, "--list", "-k", "theorem_3_2"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "theorem_3_2_norm.every_small_integer_row" in done.stdout.splitlines()


def test_the_console_script_ignores_strangers_modules(tmp_path: Path) -> None:
    for name in STRANGERS:
        (tmp_path / name).write_text("raise RuntimeError('a stranger was imported')\n")
    script = Path(sys.executable).parent / "paper-checks"
    done = run([str(script), "-k", "theorem_3_2_jacobian", "--jobs", "1"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_selection_means_what_pytest_means() -> None:
    registry = load_registry(run_all.CLAIM_PACKAGES)
    of_theorem = run_all.select(registry, expression="theorem_3_2")
    assert of_theorem == [c for c in registry.checks if c.startswith("theorem_3_2")]
    narrower = run_all.select(registry, expression="Theorem_3_2 and not proof", section="3")
    assert narrower == [c for c in of_theorem if "proof" not in c]
    assert run_all.select(registry) == list(registry.checks)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-k", "theorm_3_2"], "did you mean theorem_3_2"),
        (["-k", "no_such_thing_at_all"], "selects no check"),
        (["-k", "theorem_3_2 and ("], "malformed expression"),
        (["--section", "Q"], "sections are"),
        (["-k", "theorem_3_2", "--section", "2"], "selects no check in section 2"),
        (["--jobs", "0"], "not positive"),
        (["--timeout", "-1"], "not a positive number"),
        (["--json", "/no/such/folder/report.json"], "no such folder"),
        (["--html", "/no/such/folder/report.html"], "no such folder"),
        (["--json", "/tmp"], "this is a folder"),
        (["--profile", "slow"], "invalid choice"),
    ],
    ids=range(11),  # or the theorem's name would stand in the ids, and -k would select these tests
)
def test_a_wrong_call_is_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_all.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_the_reports_carry_the_whole_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    json_file, html_file = tmp_path / "r.json", tmp_path / "r.html"
    options = ["-k", "theorem_3_2", "--json", str(json_file), "--html", str(html_file)]
    assert run_all.main(options) == 0
    printed = capsys.readouterr().out
    assert "all as expected" in printed
    assert re.search(
        r"theorem_3_2_norm\.\w+: HOLDS, derivation, theory\.claims\.theorem_3_2:\d", printed
    )
    report = json.loads(json_file.read_text("utf-8"))
    assert report["profile"] == "quick"
    assert report["versions"]["numpy"]
    norm = next(c for c in report["claims"] if c["id"] == "theorem_3_2_norm")
    assert set(norm) == {
        *("id", "paper_ref", "section", "statement", "uses", "expected", "verdict"),
        *("level", "capped_level", "finding", "checks"),
    }
    assert norm["verdict"] == "HOLDS"
    # Its theorem is judged where Coq is installed; a derivation stands in any case.
    assert norm["level"] == ("PROVED" if shutil.which("coqc") else "SYMBOLIC")
    assert norm["capped_level"] in ("PROVED", "SYMBOLIC")
    for check in norm["checks"]:
        assert {"id", "kind", "verdict", "level", "scope", "cases", "relation"} <= set(check)
        assert re.match(r"(theory\.claims\.theorem_3_2|Claims\.v):[1-9]\d*$", check["source"])
        assert {"observed", "bound", "seconds", "reason", "tolerance"} <= set(check)
        assert check["cases"] > 0
    page = html_file.read_text("utf-8")
    assert "Some statements" in page, "a selection is not the whole"
    anchors = set(re.findall(r'href="#(\w+)"', page))
    assert anchors <= set(re.findall(r'id="(\w+)"', page)), "every link leads somewhere"
    assert 'id="theorem_3_2_norm"' in page
    assert html.escape(norm["statement"].split(",")[0]) in page
