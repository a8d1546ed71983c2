"""The model against a plain implementation of the same equations, and its shape and start."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra model is not installed")

from model.config import ModelConfig  # noqa: E402
from model.gpt import GPT, deepnorm_alpha, loss, parameter_count  # noqa: E402

KINDS: list[dict[str, Any]] = [
    {"block": "pre_ln"},
    {"block": "post_ln"},
    {"block": "deepnorm"},
    {"block": "pre_ln", "norm": "rms"},
    {"block": "post_ln", "norm": "rms", "activation": "gelu_tanh"},
    {"block": "post_ln", "embedding_norm": True, "final_norm": True},
    {"block": "pre_ln", "positions": "none", "tied_head": False, "final_norm": False},
]


def small(**changes: Any) -> ModelConfig:
    return ModelConfig(
        **{"layers": 3, "width": 12, "heads": 3, "context": 9, "vocabulary": 20, **changes}
    )


def plain_normalise(x: Any, module: Any, config: ModelConfig) -> Any:
    if config.norm == "rms":
        return x / torch.sqrt((x**2).mean(-1, keepdim=True) + config.norm_eps) * module.weight
    centred = x - x.mean(-1, keepdim=True)
    spread = torch.sqrt((centred**2).mean(-1, keepdim=True) + config.norm_eps)
    return centred / spread * module.weight + module.bias


def plain_attention(x: Any, module: Any, config: ModelConfig) -> Any:
    """Head by head and row by row, as in Section 4.1."""
    weights = module.qkv.weight.T
    queries, keys, values = (x @ part for part in weights.chunk(3, dim=1))
    outputs = []
    for head in range(config.heads):
        at = slice(head * config.head_width, (head + 1) * config.head_width)
        rows = []
        for t in range(x.shape[0]):
            scores = keys[: t + 1, at] @ queries[t, at] / math.sqrt(config.head_width)
            exponentials = torch.exp(scores - scores.max())
            rows.append((exponentials / exponentials.sum()) @ values[: t + 1, at])
        outputs.append(torch.stack(rows))
    return torch.cat(outputs, dim=1) @ module.out.weight.T


def plain_feed_forward(x: Any, module: Any, config: ModelConfig) -> Any:
    z = x @ module.rise.weight.T
    if config.activation == "gelu":
        z = z * 0.5 * (1 + torch.erf(z / math.sqrt(2)))
    else:
        z = 0.5 * z * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
    return z @ module.fall.weight.T


def plain_logits(model: Any, tokens: Any) -> Any:
    config = model.config
    x = model.tokens.weight[tokens]
    if model.positions is not None:
        x = x + model.positions.weight[: len(tokens)]
    if config.embedding_norm:
        x = plain_normalise(x, model.embedding_norm, config)
    alpha = deepnorm_alpha(config.layers) if config.block == "deepnorm" else 1.0
    for block in model.blocks:
        for branch, norm in (
            (lambda y, b=block: plain_attention(y, b.attention, config), block.norm1),
            (lambda y, b=block: plain_feed_forward(y, b.feed_forward, config), block.norm2),
        ):
            if config.block == "pre_ln":
                x = x + branch(plain_normalise(x, norm, config))
            else:
                x = plain_normalise(alpha * x + branch(x), norm, config)
    if model.final_norm is not None:
        x = plain_normalise(x, model.final_norm, config)
    head = model.tokens.weight if config.tied_head else model.head.weight
    return x @ head.T


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_logits_loss_and_gradients_are_those_of_the_equations(kind: dict[str, Any]) -> None:
    torch.manual_seed(1)
    model = GPT(small(**kind, init_std=0.3, dropout=0.5)).double().eval()
    for norm in (m for m in model.modules() if isinstance(m, torch.nn.LayerNorm)):
        torch.nn.init.normal_(norm.weight, 1.0, 0.2)
        torch.nn.init.normal_(norm.bias, 0.0, 0.2)
    tokens = torch.randint(0, 20, (2, 9))
    targets = torch.randint(0, 20, (2, 9))
    logits = model(tokens)
    plain = torch.stack([plain_logits(model, sequence) for sequence in tokens])
    torch.testing.assert_close(logits, plain, rtol=1e-11, atol=1e-11)

    value = loss(logits, targets)
    rows = plain.flatten(0, 1)
    chosen = rows[torch.arange(18), targets.flatten()]
    expected = (torch.logsumexp(rows, dim=1) - chosen).mean()
    # The loss is taken in float32.
    torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=1e-6)
    # Gradients of the logits, weighted: no float32 in between.
    weights = torch.randn_like(logits)
    parameters = list(model.parameters())
    ours = torch.autograd.grad((logits * weights).sum(), parameters, retain_graph=True)
    theirs = torch.autograd.grad((plain * weights).sum(), parameters)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 773_615_360),
        ({"block": "post_ln"}, 773_612_800),
        ({"positions": "none"}, 772_304_640),
        ({"tied_head": False}, 837_944_320),
    ],
)
def test_parameter_counts_of_the_papers_model(changes: dict[str, Any], count: int) -> None:
    assert parameter_count(ModelConfig(**changes)) == count


def test_the_start_has_the_papers_standard_deviations() -> None:
    torch.manual_seed(0)
    model = GPT(ModelConfig(layers=8, width=128, heads=4, context=256, vocabulary=999))
    residual = 0.02 / math.sqrt(16)
    for name, tensor in model.named_parameters():
        parameter = tensor.detach()
        if parameter.dim() == 2:
            expected = residual if name.endswith(("out.weight", "fall.weight")) else 0.02
            # Five standard errors of a standard deviation.
            assert abs(float(parameter.std()) / expected - 1) < 5 / math.sqrt(2 * parameter.numel())
            assert abs(float(parameter.mean())) < 5 * expected / math.sqrt(parameter.numel())
        else:
            assert torch.equal(
                parameter, torch.full_like(parameter, float(name.endswith("weight")))
            )


def test_deepnorm_scales_what_its_paper_scales() -> None:
    torch.manual_seed(0)
    model = GPT(small(block="deepnorm", layers=2, width=64, heads=2, init_std=1.0))
    beta = 16**-0.25
    qkv = model.blocks[0].attention.qkv.weight.detach()
    for part, expected in zip(qkv.chunk(3), (1.0, 1.0, beta), strict=True):
        assert float(part.std()) == pytest.approx(expected, rel=0.06)
    assert float(model.blocks[1].feed_forward.rise.weight.detach().std()) == pytest.approx(
        beta, rel=0.03
    )


def test_dropout_is_where_the_paper_has_it() -> None:
    """On attention probabilities, the FFN output and the embedding sum; not elsewhere."""
    model = GPT(small(dropout=0.25))
    dropouts = [name for name, m in model.named_modules() if isinstance(m, torch.nn.Dropout)]
    assert dropouts == ["dropout", *(f"blocks.{i}.feed_forward.dropout" for i in range(3))]
    assert all(block.attention.dropout == 0.25 for block in model.blocks)


def test_too_many_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="10 tokens exceed a context of 9"):
        GPT(small())(torch.zeros(1, 10, dtype=torch.long))


def test_activation_checkpointing_changes_no_gradient() -> None:
    tokens = torch.randint(0, 20, (2, 9), generator=torch.Generator().manual_seed(3))
    gradients = []
    for recompute in (False, True):
        torch.manual_seed(4)
        model = GPT(small(dropout=0.2), activation_checkpointing=recompute)
        torch.manual_seed(5)
        loss(model(tokens), tokens).backward()
        gradients.append([p.grad for p in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)
