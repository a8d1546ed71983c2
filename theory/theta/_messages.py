"""Errors of `theta_rows` on part of an array, naming the row by its place in the whole array."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from theory.theta._types import OpenRowError, RowIndex


@contextmanager
def rows_named(name: Callable[[int], RowIndex]) -> Iterator[None]:
    """Rename row r of a two-dimensional array to name(r) in the ValueErrors raised within.

    `theta_rows` begins what it says about a row with "row r"; other messages stay as they are.
    """
    try:
        yield
    except OpenRowError as error:
        # Rows of two-dimensional arrays have one index.
        raise OpenRowError(name(cast(int, error.index)), error.bounds) from None
    except ValueError as error:
        found = re.match(r"row (\d+) ", str(error))
        if found is None:
            raise
        rest = str(error)[found.end() :]
        raise ValueError(f"row {name(int(found[1]))} {rest}") from None
