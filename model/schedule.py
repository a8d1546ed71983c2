"""The learning rate of an update, and which parameters decay."""

from __future__ import annotations

import math

from torch import Tensor, nn

from model.config import OptimConfig


def learning_rate(config: OptimConfig, update: int) -> float:
    """The learning rate of an update counted from 1.

    Linear from peak/warmup at update 1 to the peak at update `warmup`; then a cosine that reaches
    floor·peak at the last update.
    """
    if update <= config.warmup:
        return config.peak_lr * update / config.warmup
    progress = (update - config.warmup) / max(1, config.updates - config.warmup)
    share = config.floor + (1.0 - config.floor) * 0.5 * (1.0 + math.cos(math.pi * progress))
    return config.peak_lr * share


def parameter_groups(model: nn.Module, config: OptimConfig) -> list[dict[str, object]]:
    """AdamW's groups: what decays and what does not, each parameter once."""
    decaying: list[Tensor] = []
    others: list[Tensor] = []
    for parameter in model.parameters():
        decays = config.decay == "all" or parameter.dim() >= 2
        (decaying if decays else others).append(parameter)
    groups = [(decaying, config.weight_decay), (others, 0.0)]
    return [{"params": params, "weight_decay": decay} for params, decay in groups if params]
