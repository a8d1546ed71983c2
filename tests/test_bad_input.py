"""A thousand odd calls of every public function: a deliberate error, or an answer without NaN.

Each call draws every argument from a pool that is mostly wrong. Whatever happens, inputs stay as
they were; an error is a ValueError or TypeError that our own code raised (its last frame is in
``theory``), with a message that says what is wrong.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import traceback
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import activations, layernorm, masks, norms, perturbation, softmax, theta

THEORY = Path(norms.__file__).resolve().parent
EXTREMES = [0.0, -0.0, 1.0, 0.5, -1.0, 1e308, -1e308, 5e-324, 1e-310, 1e200, 2.0**-30]
# These take torch tensors and Dask arrays alone; their tests are in files of their own.
ADAPTERS = {"theta_rows_torch", "theta_rows_dask"}
BROKEN = [math.nan, math.inf, -math.inf]


def public_functions(module: ModuleType) -> list[Callable[..., Any]]:
    """What a module offers: its ``__all__``, or the functions that it defines and does not hide."""
    names = getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")])
    found = [getattr(module, name) for name in names if name not in ADAPTERS]
    return [f for f in found if inspect.isfunction(f) and f.__module__.startswith(module.__name__)]


FUNCTIONS = [
    function
    for module in (norms, softmax, layernorm, perturbation, theta, masks, activations)
    for function in public_functions(module)
]


DTYPES = [
    *(np.float64, np.float64, np.float64, np.float32, np.float16, ml_dtypes.bfloat16),
    *(np.longdouble, np.complex128, object, bool),
]


def arrays() -> st.SearchStrategy[Any]:
    """Small arrays: odd values, odd shapes, odd dtypes, odd memory layouts."""
    numbers = st.one_of(
        st.sampled_from(EXTREMES), st.sampled_from(BROKEN), st.floats(-5, 5), st.floats(0, 1)
    )
    shapes = st.sampled_from(
        [(0,), (1,), (2,), (3,), (5,), (1, 1), (2, 3), (3, 3), (2, 0), (2, 2, 3)]
    )

    @st.composite
    def array(draw: st.DrawFn) -> Any:
        shape = draw(shapes)
        size = math.prod(shape)
        values = draw(st.lists(numbers, min_size=size, max_size=size))
        with np.errstate(all="ignore"):
            made = np.array(values, dtype=np.float64).reshape(shape)
            if draw(st.booleans()):
                made = np.abs(made)
                if size and np.isfinite(made).all() and (made.sum(-1) > 0).all():
                    scaled = made / made.max(axis=-1, keepdims=True)
                    made = scaled / scaled.sum(axis=-1, keepdims=True)
            dtype = draw(st.sampled_from(DTYPES))
            made = made.astype(dtype)
        if draw(st.booleans()):
            made = np.ascontiguousarray(made[..., ::-1])[..., ::-1]
        if draw(st.booleans()):
            made.flags.writeable = False
        return made

    return array()


def oddities() -> st.SearchStrategy[Any]:
    """Things that are no array of real numbers, and scalars of every kind."""
    return st.sampled_from(
        [
            *(None, "text", b"bytes", 1j, object(), {}, {"a": 1}, [], [[]], [[1.0], [1.0, 2.0]]),
            *([None], ["1", "2"], [1, 2, 3], [Fraction(1, 3), Fraction(2, 3)], (0.25, 0.75), 3, -2),
            *(True, False, 0, 10**400, [10**400, 1], Fraction(1, 7), 1.0, 0.0, -1.0, math.nan),
            *(math.inf, np.float32(0.5), np.int8(3), np.datetime64("2026-01-01"), range(3)),
            *(np.array(1.0), np.array(["a"]), np.ma.masked_array([0.5, 0.5], [0, 1]), Ellipsis),
            *(
                np.array([0.5, 0.5], dtype=[("x", "f8")]) if False else [1.5, "x"],
                2.0**-1074,
                1e308,
            ),
        ]
    )


ODD = st.one_of(arrays(), arrays(), oddities())
VECTOR, ROW, MATRIX = [1.0, -2.0, 0.5], [0.2, 0.3, 0.5], np.full((3, 3), 1 / 3)
# A sound value for every parameter, so that one odd argument meets sound ones.
SOUND = {
    **dict.fromkeys(("x", "u", "U", "gamma", "beta"), VECTOR),
    **dict.fromkeys(("p", "q", "P", "weights"), ROW),
    **dict.fromkeys(("M", "X", "Z", "A"), MATRIX),
    "eps": 1e-5,
    "tau": 0.7,
    "epsilon": 0.1,
    "target": 0.4,
    "r": 2,
    "axis": -1,
    "tol": 1e-9,
    "mask": None,
    "length": 3,
    "window": 2,
    "visible": [True, False, True],
    "name": "gelu",
    "support": None,
    "causal": False,
    "causal_offset": 0,
    "check_sum": True,
    "method": "auto",
    "return_status": False,
    "return_subset": False,
    "return_theta": False,
}
# Keywords whose odd values are no bad data, or whose NaN is asked for.
FIXED = {"progress", "threads", "budget", "on_empty", "on_open"}


def snapshot(value: Any) -> Any:
    return value.tobytes() if isinstance(value, np.ndarray) else repr(value)


def numbers_in(result: Any) -> list[Any]:
    """Every number of a result, in arrays, tuples and dataclasses."""
    if dataclasses.is_dataclass(result):
        return [n for f in dataclasses.fields(result) for n in numbers_in(getattr(result, f.name))]
    if isinstance(result, tuple | list):
        return [n for item in result for n in numbers_in(item)]
    if isinstance(result, np.ndarray):
        return list(result.ravel())
    return [result]


def is_finite_input(value: Any) -> bool:
    try:
        return bool(np.isfinite(np.asarray(value, dtype=np.float64)).all())
    except (TypeError, ValueError, OverflowError, np.exceptions.ComplexWarning):
        return True  # no array of floats; whatever is returned must hold no NaN


def raised_on_purpose(error: Exception) -> bool:
    """Whether our own code raised it, with a message."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Path(last.filename).resolve().is_relative_to(THEORY) and len(str(error)) > 8


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_a_deliberate_error_or_an_answer(function: Callable[..., Any]) -> None:
    names = [name for name in inspect.signature(function).parameters if name not in FIXED]

    @settings(max_examples=1000)
    @given(st.data())
    def call(data: st.DataObject) -> None:
        odd = data.draw(st.sets(st.sampled_from(names), min_size=1))
        arguments = {n: data.draw(ODD, label=n) if n in odd else SOUND[n] for n in names}
        before = {name: snapshot(value) for name, value in arguments.items()}
        try:
            result = function(**arguments)
        except (ValueError, TypeError) as error:
            if not raised_on_purpose(error):
                raise
        else:
            if all(is_finite_input(value) for value in arguments.values()):
                for number in numbers_in(result):
                    assert not (isinstance(number, float | np.floating) and np.isnan(number))
        assert {name: snapshot(value) for name, value in arguments.items()} == before

    call()


def test_sound_arguments_are_sound() -> None:
    """The pool of sound values is accepted by every function, so odd ones are to blame above."""
    for function in FUNCTIONS:
        names = [name for name in inspect.signature(function).parameters if name not in FIXED]
        function(**{name: SOUND[name] for name in names})
