"""The stored LayerNorm measurements: whole, traceable to their source, reproducible from it."""

import hashlib
import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paper_checks import extract_layernorm
from paper_checks.extract_rows import MissingWeights, installed_path, load_minilm, read_passage
from theory.real_layernorm import (
    DATA_FILE,
    MODULES,
    PROVENANCE_FILE,
    load_layernorm_record,
    load_provenance,
)
from theory.real_rows import DATA_FOLDER

SCRIPT = Path(extract_layernorm.__file__)

# A float64 forward pass of six layers is right to about 1e-12; other BLAS builds sum in another
# order. The factor 1000 above that is for builds that we have not seen.
ACROSS_BUILDS = 1e-9


@pytest.fixture
def copied_data(tmp_path: Path) -> Path:
    for name in (DATA_FILE, PROVENANCE_FILE):
        shutil.copy(DATA_FOLDER / name, tmp_path)
    return tmp_path


def test_file_is_small() -> None:
    assert (DATA_FOLDER / DATA_FILE).stat().st_size < 100_000


def test_record_is_whole_and_read_only() -> None:
    record = load_layernorm_record()
    tokens = record.passage.size
    assert record.gamma_max.shape == (6, len(MODULES))
    assert record.sigma.shape == (6, len(MODULES), tokens)
    assert record.product_norm.shape == (tokens,)
    for array in (record.gamma_max, record.sigma, record.product_norm):
        assert array.dtype == np.float64
        assert not array.flags.writeable
        assert np.isfinite(array).all()
        assert (array > 0).all()
    assert record.factors.shape == record.sigma.shape
    assert record.factors[2, 1, 3] == record.gamma_max[2, 1] / record.sigma[2, 1, 3]


def test_provenance_names_versions_model_and_texts() -> None:
    provenance = load_provenance()
    record = load_layernorm_record()
    assert set(provenance["versions"]) == {"python", *extract_layernorm.PACKAGES}
    assert "post-LayerNorm" in provenance["model"]["architecture"]
    assert provenance["model"]["layer_norm_eps"] == 1e-12
    assert provenance["measurement"]["modules"] == list(MODULES)
    counts = np.bincount(record.passage)
    assert [p["tokens"] for p in provenance["text"]["passages"]] == counts.tolist()


def test_passages_and_weights_have_the_recorded_hashes() -> None:
    provenance = load_provenance()
    try:
        texts = [read_passage(passage) for passage in extract_layernorm.SPEECHES]
        weights = installed_path(provenance["model"]["package"], provenance["model"]["file"])
    except MissingWeights as missing:
        pytest.skip(str(missing))
    recorded = [passage["sha256"] for passage in provenance["text"]["passages"]]
    assert [hashlib.sha256(text.encode()).hexdigest() for text in texts] == recorded
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == provenance["model"]["sha256"]


def test_minilm_gives_the_stored_measurements_again(tmp_path: Path) -> None:
    try:
        tokenizer, model = load_minilm()
        text = read_passage(extract_layernorm.SPEECHES[0])
    except MissingWeights as missing:
        pytest.skip(str(missing))
    fresh = extract_layernorm.measure(tokenizer, model.double(), [text])
    stored = load_layernorm_record()
    first = stored.passage == 0
    assert fresh.passage.size == first.sum()
    assert fresh.gamma_max.tolist() == stored.gamma_max.tolist()
    assert np.allclose(fresh.sigma, stored.sigma[:, :, first], rtol=ACROSS_BUILDS, atol=0)
    norms = stored.product_norm[first]
    assert np.allclose(fresh.product_norm, norms, rtol=ACROSS_BUILDS, atol=0)
    # The comparison can fail: another token has another norm.
    assert not np.allclose(fresh.product_norm, np.roll(norms, 1), rtol=ACROSS_BUILDS, atol=0)
    # The loader reads what the script writes.
    extract_layernorm.write(fresh, extract_layernorm.provenance(model, fresh), tmp_path)
    again = load_layernorm_record(tmp_path)
    assert again.sigma.tobytes() == fresh.sigma.tobytes()
    assert again.product_norm.tobytes() == fresh.product_norm.tobytes()


@pytest.mark.parametrize("name", [DATA_FILE, PROVENANCE_FILE])
def test_missing_file_is_named(copied_data: Path, name: str) -> None:
    (copied_data / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{name} is missing.*extract_layernorm"):
        load_layernorm_record(copied_data)


def test_one_changed_byte_is_refused(copied_data: Path) -> None:
    path = copied_data / DATA_FILE
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="do not belong together"):
        load_layernorm_record(copied_data)


@pytest.mark.parametrize(("text", "fault"), [("{", "not JSON"), ("[1]", "records no SHA-256")])
def test_broken_provenance_is_refused(copied_data: Path, text: str, fault: str) -> None:
    (copied_data / PROVENANCE_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=fault):
        load_layernorm_record(copied_data)


def test_absent_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def absent(package: str) -> None:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    assert extract_layernorm.main(["--out", str(tmp_path)]) == 2
    assert "make weights" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_help_describes_the_option(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--help"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "--out DIR" in done.stdout


def test_folder_that_is_none_is_refused_before_the_model_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "absent"
    with pytest.raises(SystemExit) as stop:
        extract_layernorm.main(["--out", str(bad)])
    assert stop.value.code == 2
    assert f"--out {bad}: no folder that can be written to" in capsys.readouterr().err
