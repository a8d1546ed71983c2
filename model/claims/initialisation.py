"""Section 5's first checkpoint, which is the model at initialisation and needs no training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from model.claims._runs import uniform_mean
from model.claims.small_runs import UNIFORM
from verify.claims import Claim, Planted, Profile, check
from verify.evidence import Case, Evidence, Kind, Tolerance, judge

if TYPE_CHECKING:
    from model.attention_stats import RowStatistics

FIRST = Claim(
    id="init_entropy_pmax",
    paper_ref="Section 5; Appendix D.4; Figure 3",
    section="5",
    statement="At the first checkpoint, which is its initialisation, the 774M Pre-LN model's "
    "attention to real text has a mean normalised entropy of 0.987 and a mean largest weight of "
    "0.010, over layers 0, 18 and 35 and positions from 16 on.",
)

# The first 4096 tokens of `python -m model.data prepare --source sotu`: public-domain speeches.
TEXT = Path(__file__).resolve().parent / "sotu_tokens.npy"
CONTEXT = 1024


def at_initialisation(
    block: str, layers: int, sequences: int, *, init_std: float = 0.02, seed: int = 42
) -> list[RowStatistics]:
    """Attention statistics of layers 0, N/2 and N − 1 of the paper's model before any training.

    layers: N, 36 in the paper; the width and all else are the paper's. sequences: of 1024 tokens,
    at most 4. 512 rows a layer, as in the paper.
    """
    import torch

    from model.attention_stats import capture_rows, row_statistics
    from model.config import ModelConfig
    from model.gpt import GPT

    # Tokens that do not occur have no part in a forward pass, so their embeddings are not drawn.
    words, tokens = np.unique(np.load(TEXT)[: sequences * CONTEXT], return_inverse=True)
    config = {"block": block, "layers": layers, "vocabulary": len(words), "init_std": init_std}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT(ModelConfig.model_validate(config)).eval()
    # Nor have the logits.
    model.head = torch.nn.Identity()
    chosen = sorted({0, layers // 2, layers - 1})
    with torch.no_grad(), capture_rows(chosen, rows=512, from_position=16, seed=0) as rows:
        model(torch.from_numpy(tokens.reshape(sequences, CONTEXT)))
    return [row_statistics(rows[layer], exact_theta=False) for layer in chosen]


@check(
    FIRST,
    kind=Kind.FLOAT,
    planted=Planted("initial weights 5% larger", init_std=0.021),
    needs=("torch", "pydantic"),
)
def forward_pass_before_training(profile: Profile, *, init_std: float = 0.02) -> Evidence:
    """The mean over layers of the layers' means, against the printed figures."""
    layers, sequences = profile.pick((3, 1), (36, 4))
    statistics = at_initialisation("pre_ln", layers, sequences, init_std=init_std)
    entropy = float(np.mean([s.entropy.mean() for s in statistics]))
    largest = float(np.mean([s.largest.mean() for s in statistics]))
    tolerance = profile.pick(
        Tolerance(
            value=0.004,
            kind="absolute",
            reason="3 layers instead of 36, and attention flattens slowly with depth",
        ),
        Tolerance(
            value=0.001,
            kind="absolute",
            reason="half a unit of the printed figures, other text and other rows",
        ),
    )
    return judge(
        (
            Case(entropy, "==", 0.987, {"mean normalised entropy": entropy}),
            Case(largest, "==", 0.010, {"mean largest weight": largest}),
        ),
        scope=f"{layers} layers of width 1280, 20 heads, {sequences} × 1024 tokens of speeches, "
        "float32, seed 42",
        tolerance=tolerance,
        reason=f"entropy {entropy:.5f}, largest weight {largest:.5f}",
    )


@check(
    UNIFORM,
    kind=Kind.FLOAT,
    planted=Planted("in a Pre-LN model layer 0 is uniform, too", block="pre_ln"),
    needs=("torch", "pydantic"),
)
def not_uniform_at_the_start(profile: Profile, *, block: str = "post_ln") -> Evidence:
    """Layer 0 sees embeddings of standard deviation 0.03, all others what a LayerNorm puts out."""
    layers, sequences = profile.pick((3, 1), (36, 4))
    first, *deeper = (float(s.largest.mean()) for s in at_initialisation(block, layers, sequences))
    uniform = uniform_mean(CONTEXT, 16)
    return judge(
        (
            Case(first, "==", uniform, {"layer 0": first}),
            *(Case(value, ">=", 3 * uniform, {"deeper layer": value}) for value in deeper),
            *(Case(value, "==", 0.014, {"deeper layer": value}) for value in deeper),
        ),
        scope=f"{layers} layers of width 1280, 20 heads, {sequences} × 1024 tokens of speeches, "
        "float32, seed 42",
        tolerance=Tolerance(
            value=0.0015,
            kind="absolute",
            reason="over 512 sampled rows the mean has a standard error up to 0.0004",
        ),
        reason=f"layer 0: {first:.5f}; deeper: {', '.join(f'{value:.5f}' for value in deeper)}",
    )
