"""The stored LayerNorm measurements: whole, traceable to their source, reproducible from it."""

import hashlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paper_checks import extract_layernorm
from paper_checks.extract_rows import load_minilm
from theory._packages import MissingWeights, installed_path, read_passage
from theory._provenance import DATA_FOLDER
from theory.layernorm import layer_norm_stats
from theory.real_layernorm import (
    MEASUREMENTS,
    MODULES,
    load_layernorm_record,
    load_provenance,
)

SCRIPT = Path(extract_layernorm.__file__)

# A float64 forward pass of six layers is right to about 1e-12; other BLAS builds sum in another
# order. The factor 1000 above that is for builds that we have not seen.
ACROSS_BUILDS = 1e-9


def test_file_is_small() -> None:
    assert (DATA_FOLDER / MEASUREMENTS.name).stat().st_size < 100_000


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


def test_minilm_gives_the_stored_measurements_again() -> None:
    try:
        tokenizer, model = load_minilm()
        text = read_passage(extract_layernorm.SPEECHES[0])
    except MissingWeights as missing:
        pytest.skip(str(missing))
    model = model.double()
    states = extract_layernorm.layer_norm_inputs(tokenizer, model, text)
    eps = model.config.layer_norm_eps
    stored = load_layernorm_record()
    first = np.flatnonzero(stored.passage == 0)
    sigma = layer_norm_stats(states, eps).sigma
    assert np.allclose(sigma, stored.sigma[:, :, first], rtol=ACROSS_BUILDS, atol=0)
    # A norm of a product takes most of a second: two tokens stand for all.
    gammas = extract_layernorm.layer_norm_weights(model)
    fresh = extract_layernorm.measure([states[:, :, :2]], gammas, eps)
    assert fresh.gamma_max.tolist() == stored.gamma_max.tolist()
    assert fresh.sigma.tolist() == sigma[:, :, :2].tolist()
    norms = stored.product_norm[first[:2]]
    assert np.allclose(fresh.product_norm, norms, rtol=ACROSS_BUILDS, atol=0)
    # The comparison can fail: the other token has another norm.
    assert not np.allclose(fresh.product_norm, norms[::-1], rtol=ACROSS_BUILDS, atol=0)


def test_loader_reads_what_the_script_writes(tmp_path: Path) -> None:
    record, provenance = load_layernorm_record(), load_provenance()
    del provenance["sha256"]
    extract_layernorm.write(record, provenance, tmp_path)
    again = load_layernorm_record(tmp_path)
    for name in ("gamma_max", "sigma", "product_norm", "passage"):
        assert getattr(again, name).tobytes() == getattr(record, name).tobytes()


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
