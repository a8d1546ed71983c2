"""The registry loads only what is complete: one planted fault for every rule."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from verify.claims import (
    Claim,
    Profile,
    RegistryError,
    UnknownIdError,
    capped_levels,
    claim_verdict,
    load_registry,
)
from verify.evidence import Level, Verdict

HEAD = """
from fractions import Fraction
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Evidence, Kind, Verdict, judge
"""
GOOD = (
    HEAD
    + """
ONE = Claim(id="one", paper_ref="Lemma 1", section="2", statement="1 + 1 = 2.")
TWO = Claim(id="two", paper_ref="Lemma 2", section="A", statement="2 + 2 = 4.", uses=("one",))

@check(ONE, kind=Kind.CERTIFICATE, planted=Planted("1 + 1 = 3", total=3))
def adds_up(profile: Profile, *, total: int = 2) -> Evidence:
    return judge([Case(1 + 1, "==", total, "1 + 1")], scope="one sum")

@check(TWO, kind=Kind.SAMPLE, planted=Planted("2 + 2 = 5", total=5))
def adds_up_too(profile: Profile, *, total: int = 4) -> Evidence:
    return judge([Case(2 + 2, "==", total, "2 + 2")], scope="one sum")
"""
)

Writer = Callable[[str], tuple[str, ...]]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    """Write one module of a package of claims; returns the packages to load."""
    folder = tmp_path / "claims_under_test"
    folder.mkdir()
    (folder / "__init__.py").write_text('SECTIONS = {"2": "Two"}\n')
    monkeypatch.syspath_prepend(tmp_path)

    def write(source: str) -> tuple[str, ...]:
        (folder / "module.py").write_text(source)
        return ("claims_under_test",)

    yield write
    for name in [n for n in sys.modules if n.startswith("claims_under_test")]:
        del sys.modules[name]
    load_registry.cache_clear()


def test_a_complete_package_loads_in_report_order(package: Writer) -> None:
    registry = load_registry(package(GOOD))
    assert list(registry.claims) == ["one", "two"]
    assert list(registry.checks) == ["one.adds_up", "two.adds_up_too"]
    assert registry.section_titles == {"2": "Two"}
    assert [c.id for c in registry.checks_of("one")] == ["one.adds_up"]


def test_an_unknown_check_names_near_matches(package: Writer) -> None:
    registry = load_registry(package(GOOD))
    with pytest.raises(UnknownIdError, match=r"did you mean one\.adds_up"):
        registry.check("one.adds_upp")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('planted=Planted("1 + 1 = 3", total=3)', "planted=None", "names no planted falsehood"),
        ('planted=Planted("1 + 1 = 3", total=3)', 'planted=Planted("")', "no planted falsehood"),
        ('1 + 1 = 3", total=3', '1 + 1 = 3", sum=3', "no parameter 'sum'"),
        ("*, total: int = 2", "*, total: int", "needs a default"),
        ("@check(TWO,", "@check(ONE,", "claim 'two' has no check"),
        ('uses=("one",)', 'uses=("nine",)', "uses the unknown 'nine'"),
        ('statement="1 + 1 = 2."', 'statement="1 + 1 = 2.", uses=("two",)', "cycle in uses"),
        ('id="two"', 'id="one"', "two claims have the id 'one'"),
        ('id="two"', 'id="onetwo"', "prefix of 'onetwo' without an underscore"),
        ('id="two"', 'id="Two words"', "no identifier"),
        ('paper_ref="Lemma 2"', 'paper_ref=" "', "lacks a statement or a reference"),
        ('uses=("one",)', 'uses=("one",), expected=Verdict.REFUTED', "an ERRATUM, and only that"),
        (
            'uses=("one",)',
            'finding=Finding(kind=FindingKind.ERRATUM, text="no", quote="yes")',
            "an ERRATUM, and only that",
        ),
        (
            'uses=("one",)',
            'expected=Verdict.REFUTED, finding=Finding(kind=FindingKind.ERRATUM, text="no")',
            "quotes the paper",
        ),
        (
            "@check(ONE,",
            '@check(Claim(id="one", paper_ref="r", section="2", statement="s"),',
            "names a claim that no module defines",
        ),
    ],
)
def test_each_rule_of_completeness_is_enforced(
    package: Writer, old: str, new: str, message: str
) -> None:
    assert old in GOOD
    with pytest.raises(RegistryError, match=message):
        load_registry(package(GOOD.replace(old, new)))


def test_an_underscore_makes_a_part_of_an_id(package: Writer) -> None:
    registry = load_registry(package(GOOD.replace('id="two"', 'id="one_part"')))
    assert set(registry.claims) == {"one", "one_part"}


@pytest.mark.parametrize("second", ["a_part_iv", "a_part_ii"])
def test_roman_parts_may_extend_each_other(package: Writer, second: str) -> None:
    parts = GOOD.replace('id="one"', 'id="a_part_i"').replace('uses=("one",)', "uses=()")
    assert set(load_registry(package(parts.replace('id="two"', f'id="{second}"'))).claims) == {
        "a_part_i",
        second,
    }


@pytest.mark.parametrize("second", ["a_part_ib", "a_part_iv_x"])
def test_nothing_else_may(package: Writer, second: str) -> None:
    parts = GOOD.replace('id="one"', 'id="a_part_i"').replace('uses=("one",)', "uses=()")
    with pytest.raises(RegistryError, match="prefix"):
        load_registry(package(parts.replace('id="two"', f'id="{second}"')))


def test_a_step_may_be_the_plural_of_another(package: Writer) -> None:
    steps = GOOD.replace('id="one"', 'id="a_step_value"').replace('uses=("one",)', "uses=()")
    registry = load_registry(package(steps.replace('id="two"', 'id="a_step_values"')))
    assert set(registry.claims) == {"a_step_value", "a_step_values"}


def test_profiles_pick_their_size() -> None:
    assert Profile.QUICK.pick(1, 2) == 1
    assert Profile.FULL.pick(1, 2) == 2


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ("H", "H"),
        ("HN", "H"),
        ("N", "N"),
        ("HI", "I"),
        ("HIR", "R"),
        ("NR", "R"),
    ],
)
def test_a_claim_takes_the_most_doubtful_verdict(verdicts: str, expected: str) -> None:
    by_letter = {v.value[0]: v for v in Verdict}
    assert claim_verdict([by_letter[v] for v in verdicts]) is by_letter[expected]


def test_levels_are_capped_by_what_is_used() -> None:
    def claim(claim_id: str, *uses: str) -> Claim:
        return Claim(id=claim_id, paper_ref="r", section="2", statement="s", uses=uses)

    claims = {c.id: c for c in (claim("a"), claim("b", "a"), claim("c", "b"), claim("d", "e"))}
    claims["e"] = claim("e")
    levels = {
        "a": Level.SAMPLED,
        "b": Level.SYMBOLIC,
        "c": Level.EXHAUSTIVE,
        "d": Level.SYMBOLIC,
        "e": None,
    }
    capped = capped_levels(claims, levels)
    assert capped == {
        "a": Level.SAMPLED,
        "b": Level.SAMPLED,
        "c": Level.SAMPLED,
        "d": None,
        "e": None,
    }
