"""The paper's model (Appendix D.1): a GPT-2-style decoder with the normalisation where you want it.

Shape suffixes: B sequences, T tokens, D width, H heads, K width of a head, V vocabulary.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from model.config import ModelConfig


class Attention(nn.Module):
    """Causal multi-head self-attention without biases.

    Dropout acts on the attention probabilities alone. Training and evaluation both go through
    `scaled_dot_product_attention`, which is where the monitor takes queries and keys.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        B, T, D = x_BTD.shape
        q_BHTK, k_BHTK, v_BHTK = (
            part.view(B, T, self.heads, D // self.heads).transpose(1, 2)
            for part in self.qkv(x_BTD).chunk(3, dim=-1)
        )
        mixed_BHTK = F.scaled_dot_product_attention(
            q_BHTK,
            k_BHTK,
            v_BHTK,
            is_causal=True,
            dropout_p=self.dropout if self.training else 0.0,
        )
        mixed: Tensor = self.out(mixed_BHTK.transpose(1, 2).reshape(B, T, D))
        return mixed


class FeedForward(nn.Module):
    """Two layers without biases, GELU between them, dropout on the output."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.rise = nn.Linear(config.width, config.hidden_width, bias=False)
        self.fall = nn.Linear(config.hidden_width, config.width, bias=False)
        self.activation = nn.GELU("tanh" if config.activation == "gelu_tanh" else "none")
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTD: Tensor) -> Tensor:
        y: Tensor = self.dropout(self.fall(self.activation(self.rise(x_BTD))))
        return y


class Block(nn.Module):
    """One layer: attention and feed-forward, each with its residual and its normalisation."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kind = config.block
        self.alpha = deepnorm_alpha(config.layers) if config.block == "deepnorm" else 1.0
        self.norm1 = make_norm(config)
        self.attention = Attention(config)
        self.norm2 = make_norm(config)
        self.feed_forward = FeedForward(config)

    def forward(self, x_BTD: Tensor) -> Tensor:
        if self.kind == "pre_ln":
            x_BTD = x_BTD + self.attention(self.norm1(x_BTD))
            return x_BTD + self.feed_forward(self.norm2(x_BTD))
        x_BTD = self.norm1(self.alpha * x_BTD + self.attention(x_BTD))
        y: Tensor = self.norm2(self.alpha * x_BTD + self.feed_forward(x_BTD))
        return y


class GPT(nn.Module):
    """The whole decoder: tokens (B, T) to logits (B, T, V).

    activation_checkpointing: recompute each block in the backward pass instead of keeping what is
    inside it. Parameters are initialised at construction from torch's global generator, in the
    order of `parameters()`; build under ``torch.device("meta")`` to have shapes alone.
    """

    def __init__(self, config: ModelConfig, *, activation_checkpointing: bool = False) -> None:
        super().__init__()
        self.config = config
        self.activation_checkpointing = activation_checkpointing
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = (
            nn.Embedding(config.context, config.width) if config.positions == "learned" else None
        )
        self.embedding_norm = make_norm(config) if config.embedding_norm else None
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = make_norm(config) if config.has_final_norm else None
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        if config.tied_head:
            self.head.weight = self.tokens.weight
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        """Draw all weights anew: normal with mean 0 and the standard deviations of Appendix D.1.

        The projections that end a residual branch have init_std/√(2N), all others init_std;
        normalisations get γ = 1, β = 0. DeepNorm instead scales the branches' own weights by β.
        """
        config = self.config
        for module in self.modules():
            if isinstance(module, nn.LayerNorm | nn.RMSNorm):
                module.reset_parameters()
        for parameter in self.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0.0, config.init_std)
        if config.block == "deepnorm":
            beta = (8.0 * config.layers) ** -0.25
            for block in self._blocks():
                block.attention.qkv.weight[2 * config.width :].mul_(beta)
                for scaled in (
                    block.attention.out.weight,
                    block.feed_forward.rise.weight,
                    block.feed_forward.fall.weight,
                ):
                    scaled.mul_(beta)
            return
        for block in self._blocks():
            block.attention.out.weight.mul_(1.0 / math.sqrt(2.0 * config.layers))
            block.feed_forward.fall.weight.mul_(1.0 / math.sqrt(2.0 * config.layers))

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Logits of the next token at every position, shape (B, T, V).

        Raises ValueError for more tokens than the context.
        """
        T = tokens_BT.shape[1]
        if self.config.context < T:
            raise ValueError(f"{T} tokens exceed a context of {self.config.context}")
        x_BTD = self.tokens(tokens_BT)
        if self.positions is not None:
            x_BTD = x_BTD + self.positions.weight[:T]
        if self.embedding_norm is not None:
            x_BTD = self.embedding_norm(x_BTD)
        x_BTD = self.dropout(x_BTD)
        recompute = self.activation_checkpointing and torch.is_grad_enabled()
        for block in self.blocks:
            x_BTD = checkpoint(block, x_BTD, use_reentrant=False) if recompute else block(x_BTD)
        if self.final_norm is not None:
            x_BTD = self.final_norm(x_BTD)
        logits_BTV: Tensor = self.head(x_BTD)
        return logits_BTV

    def norms_inside(self) -> list[tuple[nn.Module, nn.Module]]:
        """Each block's two normalisations: that of attention, that of the feed-forward."""
        return [(block.norm1, block.norm2) for block in self._blocks()]

    def _blocks(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]


def make_norm(config: ModelConfig) -> nn.Module:
    """LayerNorm with γ and β, or RMSNorm with γ."""
    if config.norm == "rms":
        return nn.RMSNorm(config.width, eps=config.norm_eps)
    return nn.LayerNorm(config.width, eps=config.norm_eps)


def deepnorm_alpha(layers: int) -> float:
    """DeepNorm's α of a decoder of N layers, (2N)^¼ (Wang et al. 2022)."""
    return (2.0 * layers) ** 0.25


def parameter_count(config: ModelConfig) -> int:
    """How many parameters a model has, the tied head counted once; nothing is allocated."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in GPT(config).parameters())


def loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    """Mean cross-entropy per token in nats, in float32 whatever the logits are."""
    return F.cross_entropy(logits_BTV.float().flatten(0, 1), targets_BT.flatten())
