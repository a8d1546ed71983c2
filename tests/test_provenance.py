"""Stored data files: a missing, changed or untraceable one is refused by name."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from theory._provenance import DATA_FOLDER, DataFile
from theory.real_layernorm import MEASUREMENTS, load_layernorm_record
from theory.real_layernorm import load_provenance as load_layernorm_provenance
from theory.real_rows import ROWS, load_attention_rows, load_provenance

FILES = [(ROWS, load_attention_rows), (MEASUREMENTS, load_layernorm_record)]
by_name = pytest.mark.parametrize(("stored", "load"), FILES, ids=lambda v: getattr(v, "name", ""))


@pytest.fixture
def copied_data(tmp_path: Path) -> Path:
    for stored, _ in FILES:
        for name in (stored.name, stored.provenance):
            shutil.copy(DATA_FOLDER / name, tmp_path)
    return tmp_path


@by_name
@pytest.mark.parametrize("part", ["name", "provenance"])
def test_missing_file_is_named_with_its_script(stored, load, part, copied_data) -> None:
    name = getattr(stored, part)
    (copied_data / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{name} is missing.*python {stored.script}"):
        load(folder=copied_data)
    assert (Path(__file__).parents[1] / stored.script).is_file()


@by_name
def test_one_changed_byte_is_refused(stored, load, copied_data) -> None:
    path = copied_data / stored.name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="do not belong together"):
        load(folder=copied_data)


@by_name
@pytest.mark.parametrize(("text", "fault"), [("{", "not JSON"), ("[1]", "records no SHA-256")])
def test_broken_provenance_is_refused(stored, load, text, fault, copied_data) -> None:
    (copied_data / stored.provenance).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=fault):
        load(folder=copied_data)


def test_provenance_names_its_file() -> None:
    assert load_provenance()["file"] == ROWS.name
    assert load_layernorm_provenance()["file"] == MEASUREMENTS.name


def test_what_is_written_is_read_again_read_only(tmp_path: Path) -> None:
    stored = DataFile(name="a.npz", provenance="a.json", script="a.py")
    stored.write({"one": np.arange(3), "two": np.ones((2, 2))}, {"source": "ε"}, tmp_path)
    arrays = stored.load(tmp_path)
    assert arrays["one"].tolist() == [0, 1, 2]
    assert arrays["two"].tolist() == [[1, 1], [1, 1]]
    assert not any(array.flags.writeable for array in arrays.values())
    assert stored.load_provenance(tmp_path)["source"] == "ε"
