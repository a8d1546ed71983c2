"""The spike rule on series whose spikes are known."""

from __future__ import annotations

import math

import pytest

from model.spikes import SpikeRule, spikes


@pytest.mark.parametrize(
    ("norms", "expected"),
    [
        ([1.0] * 10 + [2.0], []),
        ([1.0] * 10 + [2.0001], [10]),
        ([1.0] * 20 + [100.0] * 3, [20, 21, 22]),
        ([100.0] + [1.0] * 9 + [1.9], []),
        ([1.0] * 9 + [5.0], []),
        ([1.0] * 12 + [math.nan, math.inf, 1.0], [12, 13]),
        ([], []),
    ],
)
def test_known_series(norms: list[float], expected: list[int]) -> None:
    assert spikes(norms) == expected


def test_the_window_forgets_after_fifty_updates() -> None:
    # The median of the last 50 is 1 for as long as 26 of them are 1.
    norms = [1.0] * 50 + [3.0] * 60
    assert spikes(norms) == list(range(50, 75))
    assert spikes(norms, SpikeRule(skip_spikes=True)) == list(range(50, 110))
    assert spikes(norms, SpikeRule(window=10)) == list(range(50, 55))


def test_the_median_of_an_even_window_is_the_mean_of_the_middle_two() -> None:
    norms = [1.0] * 5 + [3.0] * 5
    assert spikes([*norms, 4.0]) == []
    assert spikes([*norms, 4.0001]) == [10]


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"norms\[1\] is -1"):
        spikes([1.0, -1.0])
    with pytest.raises(ValueError, match="a spike rule needs"):
        SpikeRule(window=0)
