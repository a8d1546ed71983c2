"""Measurements of a model in training (Section 5), none of which changes the training.

Attention and LayerNorm are measured in a forward pass of their own, in evaluation mode and without
gradients, on the last micro-batch of an update and with the parameters that this update's loss and
gradients belong to. Gradient norms are read after accumulation and before clipping.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from model.attention_stats import capture_rows, row_statistics, summarise
from model.config import MeasureConfig
from model.gpt import GPT

# Seconds for the exact θ of one layer's sampled rows. Samples take milliseconds to tenths of a
# second; a row might take hours (θ is NP-hard), and training shall not wait for it.
THETA_SECONDS = 2.0


def measure_attention(
    model: nn.Module,
    tokens_BT: Tensor,
    layers: Sequence[int],
    config: MeasureConfig,
    update: int,
) -> list[dict[str, Any]]:
    """Section 5's statistics of sampled attention rows: one entry for each of the layers.

    model: any module that takes tokens and calls `scaled_dot_product_attention` once a layer. Its
    mode and torch's random states are as before when this returns.
    """
    with (
        evaluation(model),
        capture_rows(
            layers,
            rows=config.rows,
            from_position=config.from_position,
            # One seed for each update; 2^20 is more than any run's updates.
            seed=config.seed * 2**20 + update,
        ) as found,
    ):
        model(tokens_BT)
    return [
        summarise(
            row_statistics(
                found[layer], exact_theta=config.exact_theta, theta_seconds=THETA_SECONDS
            )
        )
        for layer in layers
    ]


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients, and the former mode again afterwards."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


class NormFactors:
    """The factors ‖γ‖∞/σ of Corollary A.3, gathered by hooks while a GPT runs forward."""

    def __init__(self) -> None:
        # Each entry: (name, factors of all tokens), in the order in which they were computed.
        self.factors: list[tuple[str, Tensor]] = []

    def summary(self) -> dict[str, Any]:
        """Per normalisation the largest and the mean factor; and the products over depth.

        worst_token: max over tokens of the product of all factors, the first bound of Corollary
        A.3; product_of_worst: the product of the largest factors, the second; both with all
        normalisations and, as `…_after_first`, without the very first. Products as logarithms to
        base e, which do not overflow.
        """
        logs = torch.stack([torch.log(factors.double()) for _, factors in self.factors])
        return {
            "norms": [
                {"name": name, "max": float(factors.max()), "mean": float(factors.mean())}
                for name, factors in self.factors
            ],
            "log_worst_token": float(logs.sum(dim=0).max()),
            "log_product_of_worst": float(logs.amax(dim=1).sum()),
            "log_worst_token_after_first": float(logs[1:].sum(dim=0).max()),
            "log_product_of_worst_after_first": float(logs[1:].amax(dim=1).sum()),
        }


@contextmanager
def norm_factors(model: GPT) -> Iterator[NormFactors]:
    """Gather the factors of every normalisation inside the blocks during a forward pass."""
    found = NormFactors()
    with ExitStack() as stack:
        for index, pair in enumerate(model.norms_inside()):
            for place, norm in zip(("attention", "feed_forward"), pair, strict=True):
                hook = _factor_hook(found, f"{index}.{place}")
                stack.callback(norm.register_forward_pre_hook(hook).remove)
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield found


def _factor_hook(found: NormFactors, name: str) -> Any:
    def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x = inputs[0].detach().float()
        if isinstance(module, nn.LayerNorm):
            spread = x.var(dim=-1, correction=0)
        else:
            spread = x.square().mean(dim=-1)
        eps = module.eps if isinstance(module.eps, float) else torch.finfo(x.dtype).eps
        gamma = full(module.weight).detach().abs().max().float()
        found.factors.append((name, (gamma / torch.sqrt(spread + eps)).flatten().cpu()))

    return hook


def measure_norms(model: GPT, tokens_BT: Tensor) -> dict[str, Any]:
    """Corollary A.3's factors at every normalisation inside the blocks, in evaluation mode."""
    with evaluation(model), norm_factors(model) as found:
        model(tokens_BT)
    return found.summary()


def gradient_norms(model: GPT) -> dict[str, Any]:
    """ℓ2 norms of the gradients: of each block, of the rest, and of all together.

    total² is the sum of all the others' squares. The tied head is the token embedding and counts
    once. Sharded gradients are added up over all processes, so every process must call.
    """
    blocks = [_norm(list(block.parameters())) for block in model.blocks]
    inside = {id(parameter) for block in model.blocks for parameter in block.parameters()}
    rest = _norm([parameter for parameter in model.parameters() if id(parameter) not in inside])
    return {
        "blocks": blocks,
        "rest": rest,
        "total": math.sqrt(math.fsum([*(norm**2 for norm in blocks), rest**2])),
    }


def total_gradient_norm(model: nn.Module) -> Tensor:
    """The ℓ2 norm of all gradients together, a whole tensor of no axes on the parameters' device.

    Sharded gradients are added up over all processes, so every process must call. In float32, one
    norm a parameter and the norm of these, as `torch.nn.utils.get_total_norm` does.
    """
    norms = [full(p.grad.norm()) for p in model.parameters() if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack(norms))


def _norm(parameters: list[nn.Parameter]) -> float:
    norms = [full(p.grad.norm()).double() for p in parameters if p.grad is not None]
    return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0


def full(tensor: Tensor) -> Tensor:
    """A sharded tensor as a whole one; any other as it is."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
