"""theory.arguments: what is read as numbers, what is refused, and the error messages."""

import math
import re
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from theory.arguments import (
    as_array,
    as_booleans,
    as_count,
    as_distributions,
    as_index,
    as_parameter,
    as_positive,
    as_real_array,
    as_real_scalar,
    first_true,
    position,
    require_finite,
    require_type,
    row_sums,
    sum_tolerance,
)

EPS = 2.0**-52
TINY = 5e-324


def test_sum_tolerance_of_each_dtype():
    assert sum_tolerance(np.float64, 1000) == 4 * EPS + 2000 * TINY
    assert sum_tolerance(np.float32, 0) == 4 * 2.0**-23
    assert sum_tolerance(np.float16, 1024) == 4 * 2.0**-10 + 2048 * 2.0**-24
    assert sum_tolerance(ml_dtypes.bfloat16, 1) == pytest.approx(4 * 2.0**-7, rel=1e-30)
    assert sum_tolerance(np.longdouble, 0) == sum_tolerance(object, 0) == 4 * EPS
    assert sum_tolerance(np.int64, 0) == 4 * EPS


def test_distributions_are_judged_by_the_dtype_they_came_in():
    row = np.array([0.1, 0.9], np.float32)
    assert as_distributions(row, "p").dtype == np.float64
    assert float(row[0]) + float(row[1]) != 1.0
    with pytest.raises(ValueError, match=r"^p sums to 1\.00000001\d*, not to 1$"):
        as_distributions(np.array([0.1, 0.90000001], np.float64), "p")
    as_distributions(np.array([1 / 3] * 3, ml_dtypes.bfloat16), "p")
    as_distributions([Fraction(1, 3), Fraction(2, 3)], "p")
    with pytest.raises(ValueError, match=r"^p sums to 2\.0, not to 1$"):
        as_distributions(np.full(4096, 1 / 2048, np.float16), "p")


def test_distributions_name_the_entry_or_the_row():
    with pytest.raises(ValueError, match=r"^p\[1, 0\] is -0\.5: negative$"):
        as_distributions([[0.5, 0.5], [-0.5, 1.5]], "p")
    with pytest.raises(ValueError, match=r"^p\[1\] sums to 0\.75, not to 1$"):
        as_distributions([[0.5, 0.5], [0.5, 0.25]], "p")
    with pytest.raises(ValueError, match=r"^p sums to inf, not to 1$"):
        as_distributions([1e308, 1e308], "p")
    with pytest.raises(ValueError, match=r"^p has shape \(1,\): 2 axes are needed$"):
        as_distributions([1.0], "p", ndim=2)
    as_distributions([-0.0, 1.0], "p")


class Unreadable:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("detach me")


NOT_REAL = [
    (["1.0"], "x has dtype <U3: real numbers are needed"),
    ([1j], "x has dtype complex128: real numbers are needed"),
    ([True], "x has dtype bool: real numbers are needed"),
    (np.array([1], "m8[s]"), "x has dtype timedelta64[s]: real numbers are needed"),
    (np.zeros(1, [("a", float)]), "x has dtype [('a', '<f8')]: real numbers are needed"),
    ([None], "x[0] is of type NoneType: real numbers are needed"),
    (None, "x is of type NoneType: real numbers are needed"),
    ([Fraction(1), True], "x[1] is of type bool: real numbers are needed"),
    (np.array([[1, "a"]], object), "x[0, 1] is of type str: real numbers are needed"),
    ({1.0}, "x is of type set: real numbers are needed"),
    (
        np.ma.MaskedArray([1.0], [True]),
        "x is a masked array, whose mask would be lost: fill it first",
    ),
    (Unreadable(), "x cannot be read as an array: detach me"),
]


@pytest.mark.parametrize(("value", "message"), NOT_REAL)
def test_what_is_no_array_of_real_numbers_is_a_type_error(value, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        as_real_array(value, "x")


BAD_VALUES = [
    (1.0, {}, "x is a scalar: at least one axis is needed"),
    (1.0, {"ndim": 1}, "x has shape (): 1 axes are needed"),
    ([1.0], {"ndim": 2}, "x has shape (1,): 2 axes are needed"),
    ([[1.0]], {"ndim": 1}, "x has shape (1, 1): 1 axes are needed"),
    ([], {}, "x has shape (0,): an axis is empty"),
    (np.zeros((2, 0)), {"finite": False}, "x has shape (2, 0): an axis is empty"),
    ([1.0, math.nan], {}, "x[1] is nan: entries must be finite"),
    ([[0.0, 1.0], [2.0, -math.inf]], {}, "x[1, 1] is -inf: entries must be finite"),
    ([math.inf, math.nan], {}, "x[0] is inf: entries must be finite"),
    ([10**400], {}, "x[0] is beyond the range of float64"),
    ([np.longdouble("1e400")], {}, "x[0] is inf: entries must be finite"),
]


@pytest.mark.parametrize(("value", "options", "message"), BAD_VALUES)
def test_wrong_values_and_shapes_are_value_errors(value, options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        as_real_array(value, "x", **options)


def test_a_ragged_list_is_a_value_error():
    with pytest.raises(ValueError, match=r"^x cannot be read as an array: "):
        as_real_array([[1.0], [1.0, 2.0]], "x")


def test_scalars_are_read_and_refused():
    assert as_real_scalar(np.float32(0.5), "t") == 0.5
    assert isinstance(as_real_scalar(1, "t"), float)
    assert as_real_scalar(Fraction(1, 4), "t") == 0.25
    assert as_real_scalar(math.inf, "t", finite=False) == math.inf
    with pytest.raises(ValueError, match=r"^t has shape \(1,\): a single number is needed$"):
        as_real_scalar([1.0], "t")
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match=rf"^t is {value}: a finite number is needed$"):
            as_real_scalar(value, "t")
    with pytest.raises(TypeError, match=r"^t has dtype bool: real numbers are needed$"):
        as_real_scalar(True, "t")


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        np.array([1, 2], np.int8),
        np.array([1, 2], np.uint64),
        np.array([1, 2], np.float16),
        np.array([1, 2], np.longdouble),
        np.array([1, 2], ml_dtypes.bfloat16),
        [Fraction(1), Fraction(2)],
        np.array([2.0, 1.0])[::-1],
    ],
)
def test_every_kind_of_real_number_is_read(value):
    array = as_real_array(value, "x", ndim=1)
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, [1.0, 2.0])


def test_small_readers():
    assert as_array([True], "x").dtype == bool
    assert position(()) == ""
    assert position((0, 3)) == "[0, 3]"
    assert first_true(np.array([[False, False], [True, True]])) == (1, 0)
    require_finite(np.zeros(2), "x")
    assert as_real_array([math.nan], "x", finite=False).shape == (1,)
    np.testing.assert_array_equal(row_sums(np.array([[1.0, 2.0], [3.0, 4.0]])), [3.0, 7.0])


def test_row_sums_do_not_depend_on_the_memory_layout():
    rows = np.random.default_rng(0).random((3, 1000))
    assert row_sums(rows).tobytes() == row_sums(np.asfortranarray(rows)).tobytes()


def test_positive_numbers():
    assert as_positive(Fraction(1, 4), "t") == 0.25
    assert as_positive(5e-324, "t") == 5e-324
    for value in (0.0, -0.0, -1.0):
        with pytest.raises(ValueError, match=rf"^t is {value}: it must be positive$"):
            as_positive(value, "t")
    with pytest.raises(ValueError, match=r"^t is inf: a finite number is needed$"):
        as_positive(math.inf, "t")


def test_parameters_are_private_read_only_and_of_one_layout():
    given = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    kept = as_parameter(given, "W", (2, None), "(rows, columns)")
    given[:] = 0.0
    np.testing.assert_array_equal(kept, [[0, 1, 2], [3, 4, 5]])
    assert not kept.flags.writeable
    assert kept.flags.c_contiguous
    assert as_parameter([1], "W", (None,), "(rows,)").dtype == np.float64
    with pytest.raises(
        ValueError, match=r"^W has shape \(2, 3\): \(a, b\) = \(any, 2\) is needed$"
    ):
        as_parameter(given, "W", (None, 2), "(a, b)")
    with pytest.raises(ValueError, match=r"^W has shape \(2, 3\): 1 axes are needed$"):
        as_parameter(given, "W", (None,), "(a,)")
    with pytest.raises(ValueError, match=r"^W\[0, 1\] is nan: entries must be finite$"):
        as_parameter([[0.0, math.nan]], "W", (None, None), "(a, b)")


def test_indices():
    assert as_index(np.int8(2), "i", 3) == 2
    assert as_index(0, "i", 1) == 0
    for value in (3, -1):
        with pytest.raises(ValueError, match=rf"^i is {value}: it must lie in 0 \.\.\. 2$"):
            as_index(value, "i", 3)
    for value, kind in ((1.0, "float"), (True, "bool"), (np.True_, "bool"), ("1", "str")):
        with pytest.raises(TypeError, match=rf"^i is of type {kind}: an integer is needed$"):
            as_index(value, "i", 3)


def test_counts():
    assert as_count(np.int8(2), "heads") == 2
    assert as_count(2**31 - 1, "heads") == 2**31 - 1
    with pytest.raises(ValueError, match=r"^heads is 0: at least 1 is needed$"):
        as_count(0, "heads")
    for value in (-1, 2**31):
        message = rf"^heads is {value}: it must lie in 0 \.\.\. 2147483647$"
        with pytest.raises(ValueError, match=message):
            as_count(value, "heads")


def test_booleans():
    assert as_booleans([True, False], "mask").tolist() == [True, False]
    message = r"^mask has dtype int64: booleans are needed, True where visible$"
    with pytest.raises(TypeError, match=message):
        as_booleans([1, 0], "mask")


def test_types():
    require_type(1, "x", int)
    require_type("1", "x", int, str)
    with pytest.raises(TypeError, match=r"^x is of type float: int or str is needed$"):
        require_type(1.0, "x", int, str)
    with pytest.raises(TypeError, match=r"^x is of type NoneType: int is needed$"):
        require_type(None, "x", int)
