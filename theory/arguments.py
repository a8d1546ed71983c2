"""How the functions of this package read their arguments: one set of rules for all of them.

Any array-like of real numbers is taken: lists, ints, Fractions, NumPy arrays of any integer or
float dtype, CPU tensors. Everything is converted to float64 (integers and wider floats are rounded
to the nearest). Complex numbers, strings, objects, masked arrays and booleans are refused: a
boolean array among numbers is nearly always a mask in the wrong place. Arrays may have no axis of
length 0, and no argument is ever changed.
"""

import numbers
import operator
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

# Counts beyond it are mistakes.
_LARGEST_COUNT = 2**31

# A number too large or too small for float64 is a result here, not an accident.
_quiet = np.errstate(over="ignore", under="ignore")


def as_real_array(
    value: npt.ArrayLike, name: str, *, ndim: int | None = None, finite: bool = True
) -> FloatArray:
    """Read an argument as a float64 array, or say what is wrong with it.

    value: an array-like of real numbers; name: what to call it in error messages; ndim: the number
    of axes that it must have (None: at least one); finite: whether NaN and infinity are refused.

    Returns a float64 array that may share memory with the argument: the caller must not write.
    Raises TypeError for anything that is no array of real numbers, ValueError for a wrong number
    of axes, an axis of length 0, a ragged list, and for NaN or infinity, naming its position.
    """
    array = _as_float64(as_array(value, name), name)
    if ndim is None and array.ndim == 0:
        raise ValueError(f"{name} is a scalar: at least one axis is needed")
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} has shape {array.shape}: {ndim} axes are needed")
    if array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}: an axis is empty")
    if finite:
        require_finite(array, name)
    return array


def as_real_scalar(value: npt.ArrayLike, name: str, *, finite: bool = True) -> float:
    """Read an argument as one float.

    finite: whether NaN and infinity are refused. Raises TypeError for anything that is no real
    number, ValueError for an array with axes, and for NaN or infinity.
    """
    scalar = _as_float64(as_array(value, name), name)
    if scalar.ndim != 0:
        raise ValueError(f"{name} has shape {scalar.shape}: a single number is needed")
    if finite and not np.isfinite(scalar):
        raise ValueError(f"{name} is {float(scalar)}: a finite number is needed")
    return float(scalar)


def as_positive(value: npt.ArrayLike, name: str) -> float:
    """Read an argument as one finite float above 0. Raises as `as_real_scalar` does, and
    ValueError for a number that is not positive."""
    scalar = as_real_scalar(value, name)
    if scalar <= 0.0:
        raise ValueError(f"{name} is {scalar}: it must be positive")
    return scalar


def as_parameter(
    value: npt.ArrayLike, name: str, shape: tuple[int | None, ...], axes: str
) -> FloatArray:
    """Read a parameter that an object keeps: a private, read-only float64 array.

    shape: the length that each axis must have, None for any; axes: what the axes are, for the
    message, such as "(heads, width)". Raises what `as_real_array` raises, and ValueError for
    another shape.
    """
    array = np.array(as_real_array(value, name, ndim=len(shape)), order="C")
    if any(have != want for have, want in zip(array.shape, shape, strict=True) if want is not None):
        wanted = ", ".join("any" if want is None else str(want) for want in shape)
        raise ValueError(f"{name} has shape {array.shape}: {axes} = ({wanted}) is needed")
    array.flags.writeable = False
    return array


def as_booleans(value: npt.ArrayLike, name: str) -> BoolArray:
    """Read an argument as an array of booleans, True where something is visible.

    Raises TypeError for any other dtype, and what `as_array` raises.
    """
    array = as_array(value, name)
    if array.dtype.kind != "b":
        raise TypeError(f"{name} has dtype {array.dtype}: booleans are needed, True where visible")
    return array


def as_count(value: int, name: str) -> int:
    """Read an argument as a positive integer below 2³¹.

    Raises TypeError for anything that is no integer, ValueError for one out of range.
    """
    count = as_index(value, name, _LARGEST_COUNT)
    if count == 0:
        raise ValueError(f"{name} is 0: at least 1 is needed")
    return count


def as_index(value: int, name: str, length: int) -> int:
    """Read an argument as an index in range(length); negative ones are refused.

    Raises TypeError for anything that is no integer, ValueError for one out of range.
    """
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is of type {type(value).__name__}: an integer is needed")
    try:
        index = operator.index(value)
    except TypeError as error:
        raise TypeError(
            f"{name} is of type {type(value).__name__}: an integer is needed"
        ) from error
    if not 0 <= index < length:
        raise ValueError(f"{name} is {index}: it must lie in 0 ... {length - 1}")
    return index


@_quiet
def as_distributions(value: npt.ArrayLike, name: str, *, ndim: int | None = None) -> FloatArray:
    """Read an argument as probability vectors along its last axis.

    Shape (..., L) in, float64 array of that shape out, not renormalised. Raises what
    `as_real_array` raises, and ValueError, naming the entry or the row, for a negative entry and
    for a sum that differs from 1 by more than `sum_tolerance` of the argument's own dtype.
    """
    array = as_real_array(value, name, ndim=ndim)
    negative = array < 0.0
    if np.any(negative):
        at = first_true(negative)
        raise ValueError(f"{name}{position(at)} is {float(array[at])}: negative")
    sums = row_sums(array)
    wrong = np.abs(sums - 1.0) > sum_tolerance(as_array(value, name).dtype, array.shape[-1])
    if np.any(wrong):
        row = first_true(wrong)
        raise ValueError(f"{name}{position(row)} sums to {float(sums[row])}, not to 1")
    return array


def sum_tolerance(dtype: npt.DTypeLike, length: int) -> float:
    """How far the sum of a probability vector of this dtype may be from 1.

    4·eps + 2·length·tiny, where eps and tiny are the spacing at 1 and the smallest subnormal of
    the dtype, and eps at least float64's: each entry is rounded relative to itself or, near zero,
    to tiny, and a softmax that divides by a rounded total adds a few relative roundings. Objects
    such as Fractions count as float64.
    """
    given = np.dtype(dtype)
    one: Any = np.ones((), np.float64 if given.kind == "O" else given)
    eps = max(float(np.spacing(one)), float(np.spacing(1.0)))
    tiny = float(np.nextafter(np.zeros_like(one), one))
    return 4.0 * eps + 2.0 * length * tiny


def require_finite(array: FloatArray, name: str) -> None:
    """Raise ValueError with the position of the first NaN or infinity, if there is one."""
    bad = ~np.isfinite(array)
    if np.any(bad):
        at = first_true(bad)
        raise ValueError(f"{name}{position(at)} is {float(array[at])}: entries must be finite")


def require_type(value: object, name: str, *kinds: type) -> None:
    """Raise TypeError unless the value is an instance of one of these classes."""
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name} is of type {type(value).__name__}: {wanted} is needed")


def as_array(value: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    """Read an argument as a NumPy array of whatever dtype it has.

    Raises ValueError for a ragged list, TypeError for a masked array and for anything whose own
    conversion fails (such as a tensor on a device). A tensor is read without its gradient.
    """
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        tensor = value.detach()
        # NumPy has no bfloat16; float32 holds all of its values.
        value = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, whose mask would be lost: fill it first")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} cannot be read as an array: {error}") from error
    except Exception as error:
        raise TypeError(f"{name} cannot be read as an array: {error}") from error


def first_true(flags: BoolArray) -> tuple[int, ...]:
    """The index of the first true entry, in row-major order."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(flags)), flags.shape))


def position(index: tuple[int, ...]) -> str:
    """An index as it is written behind an array's name: "[0, 3]", or "" for a scalar's."""
    return f"[{', '.join(map(str, index))}]" if index else ""


@_quiet
def row_sums(array: FloatArray) -> FloatArray:
    """Sums along the last axis, rounded alike in every memory layout."""
    # NumPy sums a contiguous last axis pairwise; any other it may sum one entry after another.
    return np.asarray(np.sum(np.ascontiguousarray(array), axis=-1))


def _as_float64(array: npt.NDArray[Any], name: str) -> FloatArray:
    if array.dtype.kind == "O":
        return _objects_as_float64(array, name)
    if array.dtype == bool or not np.can_cast(array.dtype, np.float64, casting="same_kind"):
        raise TypeError(f"{name} has dtype {array.dtype}: real numbers are needed")
    # A longdouble beyond float64's range becomes infinite here and is reported as such.
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(np.float64, copy=False)


def _objects_as_float64(array: npt.NDArray[np.object_], name: str) -> FloatArray:
    result = np.empty(array.shape)
    for at, entry in np.ndenumerate(array):
        if isinstance(entry, bool) or not isinstance(entry, numbers.Real):
            raise TypeError(
                f"{name}{position(at)} is of type {type(entry).__name__}: real numbers are needed"
            )
        try:
            result[at] = float(entry)
        except OverflowError as error:
            raise ValueError(f"{name}{position(at)} is beyond the range of float64") from error
    return result
