"""theory.masks: who sees whom."""

from __future__ import annotations

import re

import numpy as np
import pytest

from theory.masks import causal_mask, padding_mask, sliding_window_mask


def test_causal() -> None:
    expected = [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    np.testing.assert_array_equal(causal_mask(3), np.array(expected, bool))
    assert causal_mask(1).tolist() == [[True]]


def test_padding_hides_keys_from_every_query() -> None:
    expected = [[1, 0, 1]] * 3
    np.testing.assert_array_equal(padding_mask([True, False, True]), np.array(expected, bool))


def test_sliding_windows() -> None:
    behind = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    around = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    np.testing.assert_array_equal(sliding_window_mask(4, 2), np.array(behind, bool))
    np.testing.assert_array_equal(sliding_window_mask(4, 2, causal=False), np.array(around, bool))
    np.testing.assert_array_equal(sliding_window_mask(4, 9), causal_mask(4))
    np.testing.assert_array_equal(sliding_window_mask(3, 1, causal=False), np.eye(3, dtype=bool))


BAD = [
    (lambda: causal_mask(0), "length is 0: at least 1 is needed"),
    (lambda: causal_mask(-1), "length is -1: it must lie in 0 ... 2147483647"),
    (lambda: sliding_window_mask(0, 1), "length is 0: at least 1 is needed"),
    (lambda: sliding_window_mask(3, 0), "window is 0: at least 1 is needed"),
    (
        lambda: padding_mask([False, False]),
        "visible has shape (2,) and 0 true entries: one axis and at least one real token are "
        "needed",
    ),
    (
        lambda: padding_mask([[True]]),
        "visible has shape (1, 1) and 1 true entries: one axis and at least one real token are "
        "needed",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_masks_are_named(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call()


def test_other_kinds_are_named() -> None:
    for call, name in (
        (lambda: causal_mask(2.0), "length is of type float: an integer is needed"),
        (lambda: causal_mask(True), "length is of type bool: an integer is needed"),
        (lambda: sliding_window_mask(3, "2"), "window is of type str: an integer is needed"),
        (lambda: padding_mask([1, 0]), "visible has dtype int64: booleans are needed, True where"),
    ):
        with pytest.raises(TypeError, match=f"^{re.escape(name)}"):
            call()
