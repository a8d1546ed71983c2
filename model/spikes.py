"""Gradient spikes, found offline in a run's series of gradient norms (Section 5, "Other metrics").

An update is a spike where its norm before clipping exceeds twice the median of the preceding
updates, of at most 50 of them; the first 10 updates are never spikes. The paper leaves open what
`SpikeRule` makes explicit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class SpikeRule:
    """The rule, with the readings that the paper's words allow.

    factor: times the median; strictly more is a spike. window: how many preceding updates at most.
    excluded: how many first updates are never spikes; they stay in the window (otherwise the
    update after them would have none). skip_spikes: whether updates found to be spikes are left out
    of later windows; the paper's "available preceding updates" is read here as all of them.
    """

    factor: float = 2.0
    window: int = 50
    excluded: int = 10
    skip_spikes: bool = False

    def __post_init__(self) -> None:
        if not (self.factor > 0 and self.window >= 1 and self.excluded >= 1):
            raise ValueError(
                f"a spike rule needs factor > 0, window >= 1 and excluded >= 1, not {self}"
            )


def spikes(norms: Sequence[float], rule: SpikeRule | None = None) -> list[int]:
    """The indices of the spikes in a series of gradient norms before clipping, counted from 0.

    A norm that is NaN or infinite is a spike (no median is near it) and enters no window. Raises
    ValueError for a negative norm, with its index.
    """
    chosen = SpikeRule() if rule is None else rule
    found: list[int] = []
    for update, norm in enumerate(norms):
        if norm < 0:
            raise ValueError(f"norms[{update}] is {norm}: negative")
        if update < chosen.excluded:
            continue
        available = [
            norms[i]
            for i in range(update)
            if np.isfinite(norms[i]) and not (chosen.skip_spikes and i in found)
        ]
        window = available[-chosen.window :]
        if not np.isfinite(norm) or (window and norm > chosen.factor * float(np.median(window))):
            found.append(update)
    return found
