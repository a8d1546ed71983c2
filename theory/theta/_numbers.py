"""Reading numbers exactly: arrays of any float type, CPU tensors, ints and Fractions."""

import functools
import sys
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Machine epsilon and smallest subnormal; NumPy does not know those of bfloat16.
_FLOAT64 = (Fraction(1, 2**52), Fraction(1, 2**1074))
_BFLOAT16 = (Fraction(1, 2**7), Fraction(1, 2**133))
# Every integer up to it is a float64.
_MOST_INTEGER = 2**53


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers as they came, with the precision of their type.

    values: an array of a NumPy float type or bfloat16 of at most 64 bits, of integers of at most
    2**53 in size, of Python objects (ints, Fractions, floats, long doubles), or of uint16, the bits
    of bfloat16. epsilon, smallest:
    machine epsilon and smallest subnormal of the type, of the coarsest one in a mixture; exact
    numbers count as float64.
    """

    values: NDArray[Any]
    epsilon: Fraction
    smallest: Fraction

    @property
    def kind(self) -> str:
        """The name of the type of the numbers; "object" for Python objects."""
        return "bfloat16" if self.values.dtype == np.uint16 else self.values.dtype.name

    def sum_tolerance(self) -> Fraction:
        """How far from 1 the sum of a row of L entries may lie: 4·epsilon + 2·L·smallest.

        Softmax in working precision leaves a sum off by a few epsilon, and an entry below the
        normal range is off by up to one smallest subnormal.
        """
        return _sum_tolerance(self.epsilon, self.smallest, self.values.shape[-1])


# Cached, as this arithmetic takes longer than a short row.
@functools.lru_cache(maxsize=256)
def _sum_tolerance(epsilon: Fraction, smallest: Fraction, length: int) -> Fraction:
    return 4 * epsilon + 2 * length * smallest


def read_numbers(source: object, name: str, *, bits: bool = False) -> Numbers:
    """Read an array, a CPU tensor or nested sequences of real numbers; nothing is changed.

    bits: give the values of a bfloat16 tensor as their bits, which takes no copy.
    TypeError for anything else (booleans, complex numbers, strings, masked arrays, tensors on a
    device); ValueError for ragged sequences and for a lone number.
    """
    if type(source).__module__.partition(".")[0] == "torch":
        numbers = _read_tensor(source, name, bits)
    elif isinstance(source, np.ma.MaskedArray):
        raise TypeError(
            f"{name}: a masked array is ambiguous; fill it with zeros, or pass theta_rows a support"
        )
    elif isinstance(source, np.ndarray):
        numbers = _read_array(source, name)
    elif isinstance(source, list | tuple):
        numbers = _read_sequence(source, name)
    elif hasattr(source, "__array__") and not isinstance(source, np.generic):
        numbers = _read_array(np.asarray(source), name)
    else:
        raise TypeError(f"{name}: expected an array of numbers, got {type(source).__name__}")
    if numbers.values.ndim == 0:
        raise ValueError(f"{name}: expected at least one dimension, got a lone number")
    return numbers


def _read_tensor(tensor: Any, name: str, bits: bool) -> Numbers:
    """The values of a torch tensor; torch itself need not be imported for it."""
    bfloat16 = str(getattr(tensor, "dtype", None)) == "torch.bfloat16"
    try:
        data = tensor.detach()
        if not bfloat16:
            return _read_array(data.numpy(), name)
        if not bits:
            return Numbers(data.float().numpy(), *_BFLOAT16)
        # Whoever has a tensor has imported torch.
        return Numbers(data.view(sys.modules["torch"].int16).numpy().view(np.uint16), *_BFLOAT16)
    except (AttributeError, RuntimeError, TypeError) as error:
        raise TypeError(f"{name}: expected a dense CPU tensor of numbers ({error})") from error


def _read_array(array: NDArray[Any], name: str) -> Numbers:
    if array.dtype == object:
        return _read_objects(array, name)
    if array.dtype.kind in "iu":
        if array.size and max(int(array.max()), -int(array.min())) > _MOST_INTEGER:
            return Numbers(array.astype(object), *_FLOAT64)
        # Arrays of uint16 stand for bfloat16.
        return Numbers(array.astype(np.int32) if array.dtype == np.uint16 else array, *_FLOAT64)
    precision = _precision(array.dtype.type)
    if precision is None:
        raise TypeError(f"{name}: expected real numbers, got dtype {array.dtype}")
    if array.dtype.itemsize > 8:
        return Numbers(array.astype(object), *precision)
    return Numbers(array, *precision)


def _read_sequence(sequence: Any, name: str) -> Numbers:
    if sequence and all(isinstance(row, np.ndarray) and row.ndim for row in sequence):
        try:
            return _read_array(np.stack(sequence), name)
        except ValueError as error:
            raise ValueError(f"{name}: rows of different lengths ({error})") from error
    try:
        array = np.array(sequence, dtype=object)
    except ValueError as error:
        raise ValueError(f"{name}: rows of different lengths ({error})") from error
    if any(isinstance(entry, list | tuple) for entry in array.flat):
        raise ValueError(f"{name}: rows of different lengths")
    return _read_objects(array, name)


def _read_objects(array: NDArray[Any], name: str) -> Numbers:
    """Objects, which become float64 where all of them are floats of at most 64 bits."""
    kinds = {type(entry) for entry in array.flat}
    epsilon, smallest = _FLOAT64
    floats = True
    for kind in kinds:
        precision = _precision(kind)
        if precision is not None:
            epsilon, smallest = max(epsilon, precision[0]), max(smallest, precision[1])
            floats &= kind is not np.longdouble
        elif kind is not bool and issubclass(kind, Rational):
            floats = False
        else:
            raise TypeError(f"{name}: expected real numbers, got {kind.__name__}")
    return Numbers(array.astype(np.float64) if floats else array, epsilon, smallest)


def _precision(kind: type) -> tuple[Fraction, Fraction] | None:
    """Machine epsilon and smallest subnormal of a float type; None for any other type."""
    if kind.__name__ == "bfloat16":
        return _BFLOAT16
    if issubclass(kind, np.floating):
        return _limits(kind.__name__)
    return _FLOAT64 if issubclass(kind, float) else None


@functools.cache
def _limits(name: str) -> tuple[Fraction, Fraction]:
    """Machine epsilon and smallest subnormal of a float type of NumPy."""
    info = np.finfo(name)
    return exact_fraction(info.eps), exact_fraction(info.smallest_subnormal)


def exact_fraction(number: Any) -> Fraction:
    """The exact value of a finite number, with Python ints inside: NumPy's would wrap."""
    if isinstance(number, Rational):
        return Fraction(int(number.numerator), int(number.denominator))
    numerator, denominator = number.as_integer_ratio()
    return Fraction(int(numerator), int(denominator))
