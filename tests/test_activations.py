"""theory.activations: values, derivatives, and the enclosed Lipschitz constants."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import activations
from theory.activations import ACTIVATIONS, activation, lipschitz, lipschitz_ball
from verify.exact import lower_end, upper_end

EPS = 2.0**-52
SMOOTH = ("gelu", "gelu_tanh", "silu")


def exact(name: str, x: mpmath.mpf) -> mpmath.mpf:
    if name == "relu":
        return max(x, mpmath.mpf(0))
    if name == "gelu":
        return x * mpmath.ncdf(x)
    if name == "silu":
        return x / (1 + mpmath.exp(-x))
    inner = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x * (1 + mpmath.tanh(inner)) / 2


@settings(max_examples=200)
@given(st.sampled_from(sorted(ACTIVATIONS)), st.floats(-12, 12))
def test_values_and_derivatives_against_many_digits(name: str, x: float) -> None:
    act = activation(name)
    # 1 + tanh loses 62 digits at the left end.
    with mpmath.workdps(110):
        value = exact(name, mpmath.mpf(x))
        # The exponents of far tails lose as many eps as they are large.
        assert abs(act.value([x])[0] - value) <= 8 * EPS * (1 + x * x) * abs(value) + 1e-300
        if name in SMOOTH:
            slope = mpmath.diff(lambda t: exact(name, t), mpmath.mpf(x), h=mpmath.mpf("1e-25"))
            assert abs(act.derivative([x])[0] - slope) <= 16 * EPS


def test_derivatives_where_they_are_largest_least_and_half() -> None:
    assert activations.relu_derivative([-1.0, 0.0, -0.0, 5e-324]).tolist() == [0, 0, 0, 1]
    for name in SMOOTH:
        assert activation(name).value([0.0])[0] == 0.0
        assert activation(name).derivative([0.0])[0] == 0.5


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_extremes(name: str) -> None:
    act, huge = activation(name), np.array([1e308, 1e200, 1e103, 60.0])
    np.testing.assert_array_equal(act.value(huge), huge)
    np.testing.assert_array_equal(act.derivative(huge), 1.0)
    assert np.all(np.abs(act.value(-huge)) <= 1e-20)
    assert np.all(np.abs(act.derivative(-huge)) <= 1e-20)
    x = np.full((2, 3), 1.5)
    x.flags.writeable = False
    assert act.value(x).shape == act.derivative(x).shape == (2, 3)


def test_values_and_derivatives_equal_those_of_torch() -> None:
    x = torch.linspace(-9, 9, 1000, dtype=torch.float64, requires_grad=True)
    functional = torch.nn.functional
    for name, function in (
        ("relu", functional.relu),
        ("gelu", functional.gelu),
        ("gelu_tanh", lambda t: functional.gelu(t, approximate="tanh")),
        ("silu", functional.silu),
    ):
        value = function(x)
        (slope,) = torch.autograd.grad(value.sum(), x)
        act, points = activation(name), x.detach().numpy()
        np.testing.assert_allclose(act.value(points), value.detach().numpy(), atol=1e-14)
        np.testing.assert_allclose(act.derivative(points), slope.numpy(), atol=1e-14)


def test_the_enclosure_of_gelu_holds_its_closed_form() -> None:
    """The second derivative is φ(x)(2 - x²), so f' is largest at √2."""
    with mpmath.workdps(60):
        root = mpmath.sqrt(2)
        closed = mpmath.ncdf(root) + root * mpmath.npdf(root)
        assert_encloses("gelu", closed)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_enclosure_holds_the_maximum_found_by_search(name: str) -> None:
    with mpmath.workdps(60):

        def slope(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.diff(lambda t: exact(name, t), x)

        grid = np.linspace(0, 24, 24001)
        start = grid[np.argmax(activation(name).derivative(grid))]
        peak = mpmath.findroot(lambda t: mpmath.diff(lambda s: exact(name, s), t, 2), start)
        assert_encloses(name, slope(peak))


def assert_encloses(name: str, value: mpmath.mpf) -> None:
    """The ball is 1e-30 narrow and holds the value, which is known to fifty digits."""
    ball = lipschitz_ball(name)
    low, high = lower_end(ball), upper_end(ball)
    middle = Fraction(int(mpmath.floor(value * mpmath.mpf(10) ** 50)), 10**50)
    assert high - low < Fraction(1, 10**30)
    assert low - Fraction(1, 10**45) <= middle <= high + Fraction(1, 10**45)


@pytest.mark.parametrize(
    ("name", "digits"), [("gelu", "1.128904"), ("gelu_tanh", "1.128993"), ("silu", "1.09983")]
)
def test_the_constants_that_people_know(name: str, digits: str) -> None:
    assert str(lipschitz(name)).startswith(digits)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_the_bound_is_the_float_above_the_ball(name: str) -> None:
    bound, ball = Fraction(lipschitz(name)), lipschitz_ball(name)
    assert bound >= upper_end(ball)
    assert Fraction(math.nextafter(float(bound), 0.0)) < lower_end(ball) or name == "relu"
    assert lipschitz("relu") == 1.0


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_no_derivative_exceeds_the_bound_and_one_attains_it(name: str) -> None:
    x = np.linspace(-30, 30, 600001)
    slopes = np.abs(activation(name).derivative(x))
    assert np.max(slopes) <= lipschitz(name) + 4 * EPS
    assert np.max(slopes) >= lipschitz(name) * (1 - 1e-9)


def test_the_enclosure_does_not_depend_on_the_precision_around_it() -> None:
    import flint

    before = flint.ctx.prec, flint.ctx.cap
    activations._largest_slope.cache_clear()
    flint.ctx.prec = 20
    try:
        assert lipschitz_ball("silu").rad() < 1e-30
        assert (flint.ctx.prec, flint.ctx.cap) == (20, before[1])
    finally:
        flint.ctx.prec = before[0]


def test_signs_that_balls_cannot_tell_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    import flint

    monkeypatch.setattr(activations, "_derivatives", lambda *_: [flint.arb(0, 1)] * 4)
    activations._largest_slope.cache_clear()
    with pytest.raises(ArithmeticError, match=r"^balls tell no sign of silu's f'' near 23\.99"):
        lipschitz_ball("silu")


@pytest.mark.parametrize("name", ["swish", "", None, 1, ["gelu"]])
def test_unknown_names_are_named(name: object) -> None:
    message = f"activation is {name!r}: one of relu, gelu, gelu_tanh, silu is needed"
    for call in (activation, lipschitz, lipschitz_ball):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call(name)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_bad_arguments_are_named(name: str) -> None:
    act = activation(name)
    for function in (act.value, act.derivative):
        with pytest.raises(ValueError, match=r"^x\[1\] is nan: entries must be finite$"):
            function([0.0, math.nan])
        with pytest.raises(TypeError, match=r"^x has dtype bool: real numbers are needed$"):
            function([True])
