"""The search of Schroeppel and Shamir: the time of meeting in the middle, the memory of a quarter.

R. Schroeppel and A. Shamir, A T = O(2^(n/2)), S = O(2^(n/4)) algorithm for certain NP-complete
problems, SIAM J. Comput. 10 (1981). Each half of the values is cut in two again; the sums of a half
are not listed but drawn in ascending order from a heap with one entry for each sum of its first
quarter. Where `mitm` walks down the sums of the second half, this walks up them: the subset sums
of a set of total R are R minus themselves.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from theory.theta import _kernels
from theory.theta._found import (
    Deadline,
    Found,
    fits_limbs,
    greedy,
    joined,
    mass_of,
    require,
    split,
)
from theory.theta._sums import best_cut, sorted_sums, subset_of_mass

QUARTERS_MAX_ITEMS = 60
# Steps of the kernel, of some 100 ns, between two looks at the deadline.
_STEPS = 2**17


def quarters(values: Sequence[int], cap: int, goal: int, deadline: Deadline) -> Found:
    """Schroeppel and Shamir (1981): O(n·2^(n/2)) time, O(2^(n/4)) memory.

    Needs n <= 60 and a total below 2¹²². Complete, in the same sense as `mitm`; at 60 values it
    takes some minutes and less than 10 MiB, where the lists of `mitm` would take 32 GiB.
    """
    require(
        len(values) <= QUARTERS_MAX_ITEMS,
        f"method 'quarters' needs at most {QUARTERS_MAX_ITEMS} items",
    )
    require(fits_limbs(values), "method 'quarters' needs weights that span less than 2**122")
    best = greedy(values, cap)
    mass = mass_of(values, best)
    # The halves of alternating values have sums of all sizes; a head and a tail would not.
    places = [list(range(side, len(values), 2)) for side in range(2)]
    sides = [[values[k] for k in side] for side in places]
    halves = [_Half(side) for side in sides]
    # A subset with sum x of the first half and z left out of the second has the mass x + R - z,
    # and the gap to the cap that is to be least is z + (cap - R) - x.
    shift = np.array(split(cap - sum(sides[1])), dtype=np.int64)
    enough = np.array(split(cap - goal), dtype=np.int64)
    gap = np.array(split(cap - mass + 1), dtype=np.int64)
    state = np.full(4, -1, dtype=np.int64)
    sizes = np.array([half.heap.shape[0] for half in halves], dtype=np.int64)
    complete = False
    while not complete and not deadline.passed():
        complete = _kernels.sweep_quarters(
            halves[0].arrays(), halves[1].arrays(), sizes, gap, state, shift, enough, _STEPS
        )
    if state[0] >= 0:
        taken = halves[0].subset(int(state[0]), int(state[1]))
        left_out = halves[1].subset(int(state[2]), int(state[3]))
        best = sum(1 << k for j, k in enumerate(places[0]) if taken >> j & 1)
        best |= sum(1 << k for j, k in enumerate(places[1]) if not left_out >> j & 1)
        mass = mass_of(values, best)
    return Found(best, mass if complete and mass < goal else cap)


class _Half:
    """The sums of one half of the values, drawn in ascending order from those of two quarters."""

    def __init__(self, values: Sequence[int]) -> None:
        cut = best_cut(values)[0] if values else 0
        self._parts = values[:cut], values[cut:]
        # At most 2**15 sums each, in a millisecond.
        self._sums = [
            np.array(sorted_sums(part, sum(part), Deadline(None))) for part in self._parts
        ]
        count = self._sums[0].shape[1]
        # Ascending sums with the least partner are a heap as they stand.
        self.heap = np.arange(count)
        self._partner = np.zeros(count, dtype=np.int64)
        self._present = self._sums[0].copy()

    def arrays(self) -> tuple[NDArray[np.int64], ...]:
        return *self._sums, self.heap, self._partner, self._present

    def subset(self, first: int, second: int) -> int:
        """The subset whose sums have these places in the lists of the quarters."""
        codes = [
            subset_of_mass(part, joined(*sums[:, place]), Deadline(None))
            for part, sums, place in zip(self._parts, self._sums, (first, second), strict=True)
        ]
        return codes[0] | codes[1] << len(self._parts[0])
