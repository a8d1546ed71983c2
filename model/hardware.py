"""What a device can do at most, and how much of it a run uses."""

from __future__ import annotations

import resource

import torch

from model.config import ModelConfig
from model.gpt import parameter_count

# Dense bfloat16 peaks in FLOP/s, from the makers' data sheets, without sparsity.
PEAK_BF16 = {
    "H200": 989e12,
    "H100 NVL": 835e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "RTX 4090": 165e12,
}


def peak_flops(device: torch.device) -> float | None:
    """The device's dense bfloat16 peak; None for one that the table does not know."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    # Longer names first: "H100 PCIe" is not "H100", nor "L40S" "L4".
    for known in sorted(PEAK_BF16, key=len, reverse=True):
        if known in name:
            return PEAK_BF16[known]
    return None


def flops_per_token(config: ModelConfig) -> float:
    """Floating-point operations of one token's forward and backward pass, without recomputation.

    Six for each weight that multiplies (the tied head does, embedding look-ups do not), and
    12·N·d·L for the products of attention, whose causal half is counted whole, as is usual
    (Chowdhery et al. 2022, appendix B).
    """
    positions = config.context * config.width if config.positions == "learned" else 0
    table = config.vocabulary * config.width
    weights = parameter_count(config) - positions - (0 if config.tied_head else table)
    return 6.0 * weights + 12.0 * config.layers * config.width * config.context


def utilisation(
    config: ModelConfig, device: torch.device, tokens_per_second: float, devices: int = 1
) -> float | None:
    """Model FLOPs utilisation: the work of these tokens as a share of the devices' bfloat16 peak.

    None for a device that the table does not know.
    """
    peak = peak_flops(device)
    if peak is None:
        return None
    return tokens_per_second * flops_per_token(config) / (peak * devices)


def peak_memory(device: torch.device) -> int:
    """The most memory in bytes that this process has held: on the GPU, or resident on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def describe(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' * (threads > 1)}"
