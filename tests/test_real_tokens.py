"""The stored tokens: whole, traceable to their texts, and what the models' tokenizers give."""

from pathlib import Path

import pytest

from paper_checks import extract_tokens
from theory._packages import MODELS, MissingWeights, read_passage
from theory._provenance import DATA_FOLDER
from theory.real_tokens import STORED_TOKENS, TOKENS, real_tokens


def test_tokens_frame_the_text_as_the_model_reads_it() -> None:
    for text in range(len(extract_tokens.TEXTS)):
        plain = real_tokens("smollm2", STORED_TOKENS, text)
        assert plain.shape == (STORED_TOKENS,)
        assert real_tokens("smollm2", 7, text).tolist() == plain[:7].tolist()
        framed = real_tokens("minilm", 9, text)
        longer = real_tokens("minilm", 10, text)
        assert framed[1:-1].tolist() == longer[1:8].tolist()
        assert (framed[0], framed[-1]) == (longer[0], longer[-1]) == (101, 102)


@pytest.mark.parametrize(
    ("key", "length", "text", "message"),
    [
        ("minilm", 2, 0, "length is 2; minilm takes 3 to 256"),
        ("minilm", 257, 0, "length is 257"),
        ("smollm2", 0, 0, "length is 0; smollm2 takes 1 to 256"),
        ("smollm2", 8, 2, "no text 2; there are 2"),
        ("smollm2", 8, -1, "no text -1"),
        ("gpt-2", 8, 0, "unknown model 'gpt-2'; there are minilm, smollm2"),
    ],
)
def test_a_model_length_or_text_that_is_not_stored_is_named(
    key: str, length: int, text: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        real_tokens(key, length, text)


def test_tokenizers_give_the_stored_tokens_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        text = read_passage(extract_tokens.TEXTS[0])
        tokenizers = extract_tokens.tokenizers()
    except MissingWeights as missing:
        pytest.skip(str(missing))
    assert set(tokenizers) == set(MODELS)
    assert extract_tokens.main(["--out", str(tmp_path)]) == 0
    assert "2 texts" in capsys.readouterr().out
    written, stored = TOKENS.load(tmp_path), TOKENS.load(DATA_FOLDER)
    assert {name: array.tolist() for name, array in written.items()} == {
        name: array.tolist() for name, array in stored.items()
    }
    # What a model reads by default begins as `real_tokens` does.
    for name, tokenizer in tokenizers.items():
        whole = tokenizer(text)["input_ids"]
        assert whole[:12] == real_tokens(name, 14)[:12].tolist()
    assert tokenizers["minilm"](text)["input_ids"][-1] == real_tokens("minilm", 14)[-1]


def test_provenance_names_texts_and_tokenizers() -> None:
    provenance = TOKENS.load_provenance(DATA_FOLDER)
    assert set(provenance["versions"]) == {"python", *extract_tokens.PACKAGES}
    assert [entry["model"] for entry in provenance["tokenizers"]] == list(MODELS.values())
    for entry in [*provenance["tokenizers"], *provenance["text"]["passages"]]:
        assert len(entry["sha256"]) == 64


def test_folder_that_is_none_is_refused_before_any_text_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "absent"
    with pytest.raises(SystemExit) as stop:
        extract_tokens.main(["--out", str(bad)])
    assert stop.value.code == 2
    assert f"--out {bad}: no folder that can be written to" in capsys.readouterr().err
