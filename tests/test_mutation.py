"""The mutation run itself: what it mutates, and that it reports survivors, kills and time-outs."""

import json

import pytest
from cosmic_ray.mutating import mutate_code
from mutation.run import (
    EQUIVALENT,
    ROOT,
    SUITES,
    DropOperand,
    Limit,
    Suite,
    main,
    mutation_sites,
    read_equivalents,
    run_stage,
)

# Four mutants: the product becomes a sum or a quotient, or loses one of its factors.
SOURCE = "def area(width: int | None, *, height: int):\n    return width * height\n"
SUITE = {"area": Suite(("area.py",), (("test_area.py",),))}
STRONG = "assert area(2, height=3) == 6"
# 2·2 = 2 + 2: the sum in place of the product goes unnoticed.
WEAK = "assert area(2, height=2) == 4"
EXPLAINED = """
[[equivalent]]
file = "area.py"
function = "area"
line = "return width * height"
mutant = "return width + height"
reason = "the square of 2 is its double"
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run all mutants of SOURCE against one assertion: the exit status and what was printed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    tree, listed = tmp_path / "tree", tmp_path / "equivalent.toml"
    tree.mkdir()

    def call(assertion, equivalent="", options=()):
        test = f"from area import area\n\n\ndef test_area():\n    {assertion}\n"
        (tree / "area.py").write_text(SOURCE)
        (tree / "test_area.py").write_text(test)
        listed.write_text(equivalent)
        status = main(["--per-module=0", *options], root=tree, suites=SUITE, equivalent=listed)
        # The tree itself is only read.
        assert {path.name: path.read_text() for path in tree.iterdir()} == {
            "area.py": SOURCE,
            "test_area.py": test,
        }
        return status, capsys.readouterr().out.splitlines()

    return call


def test_a_strong_test_kills_every_mutant(run, tmp_path):
    status, lines = run(STRONG, options=["--jobs=2", f"--json={tmp_path / 'mutants.json'}"])
    assert status == 0
    assert lines[-1] == ("4 mutants: 4 killed, 0 timed out, 0 equivalent (explained), 0 survivors")
    records = json.loads((tmp_path / "mutants.json").read_text())
    assert [record["status"] for record in records] == ["killed"] * 4
    assert {record["mutant"]["replacement"] for record in records} == {
        "return width + height",
        "return width / height",
        "return width",
        "return height",
    }


def test_a_weak_test_lets_a_mutant_survive_and_is_reported(run):
    status, lines = run(WEAK)
    assert status == 1
    assert lines[-1] == ("4 mutants: 3 killed, 0 timed out, 0 equivalent (explained), 1 survivors")
    at = lines.index("Unexplained:")
    assert lines[at + 1 : at + 4] == [
        "survived: area.py:2 area",
        "    - return width * height",
        "    + return width + height",
    ]


def test_a_recheck_runs_only_what_was_not_killed(run, tmp_path):
    earlier = tmp_path / "mutants.json"
    run(WEAK, options=[f"--json={earlier}"])
    status, lines = run(STRONG, options=[f"--recheck={earlier}"])
    assert status == 0
    assert lines[-1] == "4 mutants: 4 killed, 0 timed out, 0 equivalent (explained), 0 survivors"
    assert [line.partition("] ")[2] for line in lines if line.startswith("[")] == [
        "killed: area.py:2 area"
    ]


def test_an_explained_survivor_is_equivalent(run):
    status, lines = run(WEAK, EXPLAINED)
    assert status == 0
    assert lines[-1] == ("4 mutants: 3 killed, 0 timed out, 1 equivalent (explained), 0 survivors")


def test_a_killed_mutant_is_no_equivalent(run):
    status, lines = run(STRONG, EXPLAINED)
    assert status == 1
    assert lines[-1].endswith("0 survivors, 1 wrongly excused")
    assert "wrongly excused: area.py:2 area" in lines


def test_a_test_that_fails_anyway_kills_nothing(run):
    with pytest.raises(SystemExit, match=r"^test_area\.py does not pass without any mutation$"):
        run("assert area(2, height=3) == 7")


def test_an_explanation_needs_a_reason_and_a_line(run):
    with pytest.raises(ValueError, match="no reason is given for 'return width"):
        run(WEAK, EXPLAINED.replace("the square of 2 is its double", " "))
    with pytest.raises(ValueError, match=r"area\.py has no line 'return depth \* height' any more"):
        run(WEAK, EXPLAINED.replace('line = "return width', 'line = "return depth'))


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ("while True:\n        pass", Limit(cpu=1, wall=60)),
        ("import time\n    time.sleep(60)", Limit(cpu=60, wall=1)),
    ],
)
def test_what_never_ends_is_timed_out(tmp_path, monkeypatch, body, limit):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "test_loop.py").write_text(f"def test_loop():\n    {body}\n")
    assert run_stage(tmp_path, ["test_loop.py"], limit) == "timed out"


CHAINS = [
    ("a + b", {"a", "b"}),
    ("a - b", {"a"}),
    ("a - b + c", {"a + c", "a - b"}),
    ("a * b / c", {"b / c", "a / c", "a * b"}),
    ("a // b", {"a"}),
    ("a and b and c", {"b and c", "a and c", "a and b"}),
    ("f(a | b)", {"f(a)", "f( b)"}),
    ("-a", set()),
]


@pytest.mark.parametrize(("expression", "shorter"), CHAINS)
def test_every_term_and_factor_is_dropped_once(expression, shorter):
    source = f"x = {expression}\n"
    sites = [site for site in mutation_sites(source) if site[2] == "DropOperand"]
    codes = [mutate_code(source, DropOperand(), occurrence) for _, occurrence, *_ in sites]
    assert len(codes) == len(shorter)
    assert {" ".join(code.split()) for code in codes} == {f"x = {other}" for other in shorter}


SNIPPET = "for k in a: b = -k + k if not (k < 2 or True) else 7"
CHANGES = [
    ("k < 2", "k <= 2"),
    ("k < 2", "k >= 2"),
    ("k < 2", "k < 3"),
    ("k < 2", "k < 1"),
    ("or True", "and True"),
    ("or True", "or False"),
    (" or True", ""),
    ("k < 2 or ", ""),
    ("not (", "("),
    ("if not", "if not not"),
    ("-k", "k"),
    ("-k + k", "-k - k"),
    ("-k + k", "-k"),
    ("-k + k", "k"),
    ("in a", "in []"),
    ("else 7", "else 8"),
    ("else 7", "else 6"),
]


def test_every_kind_of_mutation_is_made():
    source = f"{SNIPPET}\n"
    codes = [mutate_code(source, site[0], site[1]) for site in mutation_sites(source)]
    made = sorted("".join(code.split()) for code in codes)
    assert made == sorted("".join(SNIPPET.replace(*change).split()) for change in CHANGES)


def test_the_listed_equivalents_are_of_the_present_sources():
    files = {
        path.relative_to(ROOT).as_posix()
        for suite in SUITES.values()
        for pattern in suite.sources
        for path in ROOT.glob(pattern)
    }
    assert {file for file, *_ in read_equivalents(EQUIVALENT, ROOT)} <= files
