"""Which keys a query sees: boolean arrays of shape (L, L), True where key j is visible to query i.

Masks are combined with `&`.
"""

import numpy as np
import numpy.typing as npt

from theory.arguments import BoolArray, as_booleans, as_count


def causal_mask(length: int) -> BoolArray:
    """Query i sees keys 0 ... i. Raises ValueError for a length below 1."""
    return np.tri(as_count(length, "length"), dtype=np.bool_)


def padding_mask(visible: npt.ArrayLike) -> BoolArray:
    """Every query sees the keys of the real tokens and no key of a padding token.

    visible: booleans of shape (L,), True at the real tokens. Padding tokens keep their rows as
    queries, which see the same keys. Raises TypeError for anything but booleans, ValueError for
    another shape and where no token is real.
    """
    keys = as_booleans(visible, "visible")
    if keys.ndim != 1 or not keys.any():
        raise ValueError(
            f"visible has shape {keys.shape} and {np.count_nonzero(keys)} true entries: one axis "
            "and at least one real token are needed"
        )
    return np.tile(keys, (keys.size, 1))


def sliding_window_mask(length: int, window: int, causal: bool = True) -> BoolArray:
    """Query i sees the keys with |i - j| < window; of these, if causal, those with j <= i.

    Raises ValueError for a length or a window below 1, TypeError where they are no integers.
    """
    size, reach = as_count(length, "length"), as_count(window, "window")
    behind = np.subtract.outer(np.arange(size), np.arange(size))
    return (behind < reach) & (behind >= 0 if causal else behind > -reach)
