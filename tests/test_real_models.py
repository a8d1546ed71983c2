"""The real layers compute what the library that the models come from computes, in float64."""

import importlib.metadata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from paper_checks import extract_rows
from theory._packages import MODELS, MissingWeights
from theory.blocks import PostNormLayer, PreNormLayer
from theory.real_models import RealModel, attention_input, load_model
from theory.real_tokens import real_tokens

LENGTH = 24
# Two float64 forward passes add in different orders. A layer's own rounding is some 1e-15; it grows
# over the layers, and rows of large norm beside small ones make it larger relative to a row.
ONE_LAYER = 1e-12
WHOLE_MODEL = 1e-10


@dataclass(frozen=True, eq=False)
class Reference:
    """What the library's model computes on one text in float64, layer by layer."""

    inputs: Sequence[np.ndarray]  # of the layers
    outputs: Sequence[np.ndarray]
    attention_inputs: Sequence[np.ndarray]
    attention_outputs: Sequence[np.ndarray]


@pytest.fixture(scope="module", params=list(MODELS))
def key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(key: str) -> RealModel:
    try:
        return load_model(key)
    except MissingWeights as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def reference(key: str) -> Reference:
    try:
        load = {"minilm": extract_rows.load_minilm, "smollm2": extract_rows.load_smollm2}[key]
        _, library_model = load()
    except MissingWeights as missing:
        pytest.skip(str(missing))
    with pytest.MonkeyPatch.context() as patch:
        return run_library(library_model.double(), real_tokens(key, LENGTH), patch)


def run_library(model: Any, tokens: np.ndarray, patch: pytest.MonkeyPatch) -> Reference:
    """One forward pass with every layer and every attention watched."""
    import torch

    if hasattr(model, "encoder"):
        layers = list(model.encoder.layer)
        attentions = [layer.attention.self for layer in layers]
        outputs = [layer.attention.output.dense for layer in layers]
    else:
        layers = list(model.model.layers)
        attentions = [layer.self_attn for layer in layers]
        outputs = [layer.self_attn.o_proj for layer in layers]
        # The library computes RMSNorm, softmax and the angles in float32 whatever the model's type.
        patch.setattr(torch, "float32", torch.float64)
        patch.setattr(torch, "float", torch.float64)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        rotary, width = model.model.rotary_emb, model.config.head_dim
        base = model.config.rope_parameters["rope_theta"]
        exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
        rotary.inv_freq = 1.0 / base**exponents

    seen: dict[str, list[np.ndarray]] = {
        name: [] for name in ("inputs", "outputs", "attention_inputs", "attention_outputs")
    }

    def watch_input(name: str) -> Any:
        def hook(_: Any, positional: Any, named: Any) -> None:
            state = positional[0] if positional else named["hidden_states"]
            seen[name].append(state[0].numpy().copy())

        return hook

    def watch_output(name: str) -> Any:
        def hook(_: Any, __: Any, result: Any) -> None:
            state = result[0] if isinstance(result, tuple) else result
            seen[name].append(state[0].numpy().copy())

        return hook

    for layer, attention, output in zip(layers, attentions, outputs, strict=True):
        layer.register_forward_pre_hook(watch_input("inputs"), with_kwargs=True)
        layer.register_forward_hook(watch_output("outputs"))
        attention.register_forward_pre_hook(watch_input("attention_inputs"), with_kwargs=True)
        output.register_forward_hook(watch_output("attention_outputs"))
    with torch.inference_mode():
        model(input_ids=torch.tensor(tokens[np.newaxis]))
    found = Reference(**seen)
    assert all(state.dtype == np.float64 for state in [*found.outputs, *found.attention_outputs])
    return found


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest miss of a row, relative to that row."""
    miss = np.linalg.norm(found - expected, axis=-1)
    return float((miss / np.linalg.norm(expected, axis=-1)).max())


def layers_of(model: RealModel, reference: Reference) -> Iterator[tuple[int, Any]]:
    assert len(reference.inputs) == model.depth
    for index in range(model.depth):
        yield index, model.layer(index)


def test_the_embedding_is_the_models_own(model: RealModel, reference: Reference) -> None:
    embedded = model.embed(real_tokens(model.key, LENGTH))
    assert relative_error(embedded, reference.inputs[0]) <= ONE_LAYER


def test_each_whole_layer_equals_the_librarys(model: RealModel, reference: Reference) -> None:
    for index, layer in layers_of(model, reference):
        found = layer(reference.inputs[index])
        assert relative_error(found, reference.outputs[index]) <= ONE_LAYER, index


def test_each_attention_equals_the_librarys_at_its_own_input(
    model: RealModel, reference: Reference
) -> None:
    for index, layer in layers_of(model, reference):
        U = attention_input(layer, reference.inputs[index])
        assert relative_error(U, reference.attention_inputs[index]) <= ONE_LAYER, index
        found = layer.attention(U)
        assert relative_error(found, reference.attention_outputs[index]) <= ONE_LAYER, index
        # The comparison can fail: the same attention elsewhere gives something else.
        elsewhere = layer.attention(U[::-1])
        assert relative_error(elsewhere, reference.attention_outputs[index]) > 1e-3, index


def test_the_walk_follows_the_library_through_all_layers(
    model: RealModel, reference: Reference
) -> None:
    steps = list(model.walk(real_tokens(model.key, LENGTH)))
    assert len(steps) == model.depth
    for index, (layer, X) in enumerate(steps):
        assert relative_error(X, reference.inputs[index]) <= WHOLE_MODEL, index
        U = attention_input(layer, X)
        assert relative_error(U, reference.attention_inputs[index]) <= WHOLE_MODEL, index


def test_architecture_is_as_described(model: RealModel) -> None:
    layer = model.layer(model.depth - 1)
    attention = layer.attention
    if model.key == "minilm":
        assert isinstance(layer, PostNormLayer)
        assert (model.depth, attention.heads, attention.groups, attention.width) == (6, 12, 12, 384)
        assert attention.value_bias_GV is not None
    else:
        assert isinstance(layer, PreNormLayer)
        assert (model.depth, attention.heads, attention.groups, attention.width) == (30, 9, 3, 576)
        assert attention.value_bias_GV is None
        probabilities = attention.at(np.eye(4, 576)).probabilities_HLL
        assert not np.triu(probabilities, 1).any()


@pytest.mark.parametrize("index", [-1, 30])
def test_a_layer_that_is_not_there_is_named(model: RealModel, index: int) -> None:
    with pytest.raises(ValueError, match=f"no layer {index}"):
        model.layer(index)


def test_unknown_model_is_named_with_the_known_ones() -> None:
    for call in (load_model, lambda key: real_tokens(key, 8)):
        with pytest.raises(ValueError, match=r"unknown model 'gpt-2'.*minilm, smollm2"):
            call("gpt-2")


def test_absent_weights_are_named_with_the_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    def absent(package: str) -> None:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    with pytest.raises(MissingWeights, match="is not installed: run `make weights`"):
        load_model(key)
