"""theory.rotary: rotations that depend on differences of positions alone."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.rotary import Rotary

layouts = st.builds(
    Rotary,
    base=st.sampled_from([1.0, 10.0, 10000.0]),
    width=st.sampled_from([None, 2, 4]),
    interleaved=st.booleans(),
    positions=st.sampled_from([None, [3, 1, 4, 1, 5], [0.5, -2.0, 7.0, 8.0, 1e3]]),
)


def test_a_quarter_turn() -> None:
    """Base 1 turns every pair by its position."""
    quarter = np.pi / 2
    x = np.array([[1.0, 2.0, 3.0, 4.0]])
    halves = Rotary(base=1.0, positions=[quarter]).rotation(1, 4)
    np.testing.assert_allclose(halves.apply(x), [[-3.0, -4.0, 1.0, 2.0]], atol=1e-15)
    np.testing.assert_allclose(halves.undo(x), [[3.0, 4.0, -1.0, -2.0]], atol=1e-15)
    pairs = Rotary(base=1.0, positions=[quarter], interleaved=True).rotation(1, 4)
    np.testing.assert_allclose(pairs.apply(x), [[-2.0, 1.0, -4.0, 3.0]], atol=1e-15)
    partial = Rotary(base=1.0, positions=[quarter], width=2).rotation(1, 4)
    np.testing.assert_allclose(partial.apply(x), [[-2.0, 1.0, 3.0, 4.0]], atol=1e-15)


def test_frequencies_fall_with_the_pair() -> None:
    rotation = Rotary(base=100.0).rotation(3, 4)
    angles = np.array([[0.0, 0.0], [1.0, 0.1], [2.0, 0.2]])
    np.testing.assert_allclose(rotation.cosine_LP, np.cos(angles), rtol=1e-15)
    np.testing.assert_allclose(rotation.sine_LP, np.sin(angles), rtol=1e-15)
    assert not rotation.cosine_LP.flags.writeable
    assert not rotation.sine_LP.flags.writeable
    assert Rotary().base == 10000.0


@settings(max_examples=100)
@given(layouts, st.integers(0, 2**32 - 1))
def test_norms_are_kept_and_undone(rotary: Rotary, seed: int) -> None:
    x, y = np.random.default_rng(seed).normal(size=(2, 3, 5, 6))
    before = x.copy()
    rotation = rotary.rotation(5, 6)
    turned = rotation.apply(x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1))
    np.testing.assert_allclose(rotation.undo(turned), x, atol=1e-14)
    assert np.vdot(turned, y) == pytest.approx(np.vdot(x, rotation.undo(y)), abs=1e-12)
    for i in range(5):
        same = rotation.of_token(i).apply(x[:, i])
        np.testing.assert_array_equal(same, turned[:, i])


@settings(max_examples=50)
@given(st.booleans(), st.sampled_from([None, 2]), st.integers(0, 2**32 - 1))
def test_inner_products_depend_on_differences(
    interleaved: bool, width: int | None, seed: int
) -> None:
    query, key = np.random.default_rng(seed).normal(size=(2, 1, 6))

    def product(first: int, second: int) -> float:
        options = {"interleaved": interleaved, "width": width, "base": 50.0}
        turned = Rotary(positions=[first], **options).rotation(1, 6).apply(query)
        other = Rotary(positions=[second], **options).rotation(1, 6).apply(key)
        return float(np.vdot(turned, other))

    assert product(7, 3) == pytest.approx(product(14, 10), abs=1e-12)
    assert product(7, 3) == pytest.approx(product(4, 0), abs=1e-12)


def test_positions_are_private() -> None:
    positions = np.array([1.0, 2.0])
    rotary = Rotary(positions=positions)
    positions[:] = 0.0
    np.testing.assert_array_equal(rotary.positions, [1.0, 2.0])
    assert not rotary.positions.flags.writeable


BAD = [
    ({"base": 0.5}, ValueError, "base is 0.5: at least 1 is needed"),
    ({"base": "big"}, TypeError, "base has dtype <U3: real numbers are needed"),
    ({"width": 3}, ValueError, "width is 3: an even number is needed"),
    ({"width": 0}, ValueError, "width is 0: at least 1 is needed"),
    ({"width": 2.0}, TypeError, "width is of type float: an integer is needed"),
    ({"interleaved": 1}, TypeError, "interleaved is 1: True or False is needed"),
    ({"positions": [[1]]}, ValueError, "positions has shape (1, 1): 1 axes are needed"),
    ({"positions": [0.0, np.nan]}, ValueError, "positions[1] is nan: entries must be finite"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD)
def test_bad_parameters_are_named(
    options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        Rotary(**options)


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match=r"^rotary width 6 does not fit heads of width 4$"):
        Rotary(width=6).check_head_width(4)
    with pytest.raises(ValueError, match=r"^rotary width 3 does not fit heads of width 3$"):
        Rotary().check_head_width(3)
    Rotary(width=4).check_head_width(4)
    Rotary(width=2).check_head_width(3)
    with pytest.raises(ValueError, match=r"^rotary has 2 positions, U has 3 tokens$"):
        Rotary(positions=[0, 1]).rotation(3, 4)
