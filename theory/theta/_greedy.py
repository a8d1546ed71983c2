"""The paper's greedy certificate (Appendix D.2)."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.theta._batch import SUM_MARGIN, OnEmpty, check_sum_of, judge_row, read_rows
from theory.theta._float_kernels import pair_sums
from theory.theta._solve import check_choice


def greedy_certificate(
    P: object,
    *,
    support: object = None,
    causal: bool = False,
    causal_offset: int = 0,
    check_sum: bool = True,
    on_empty: OnEmpty = "raise",
) -> NDArray[np.float64]:
    """The greedy prefix certificate of every row of P (..., L): a lower bound on θ.

    Appendix D.2: sort in descending order, take the prefix whose sum c is closest to one half (the
    shortest of several), return 4c(1 − c). Rows are renormalised: c is the prefix sum over the sum
    of the row, and 1 − c the sum of the other entries over it, so that a row whose sum is off 1
    cannot give more than its θ, and nothing cancels in a row near one-hot.

    Float error: both partial sums are within L·2⁻⁵³ of exact ones, relatively, so that a returned
    value v satisfies v <= θ·(1 + (2L + 8)·2⁻⁵³), whatever prefix rounding chose, since every prefix
    is feasible; it is cut at 1. (Entries below 2⁻¹⁰⁰⁰ of the largest may count as zero.)

    Arguments and errors are those of `theta_rows`. Returns float64 of shape P.shape[:-1], NaN for
    fully masked rows under on_empty="nan".
    """
    rows = read_rows(P, "P", support, causal, causal_offset)
    check_choice("on_empty", on_empty, ("raise", "nan"))
    certificate = np.full(rows.count, np.nan)
    tolerance = float(rows.numbers.sum_tolerance()) * (1.0 - SUM_MARGIN) if check_sum else np.inf
    for block in rows.blocks():
        values = rows.wide(block)
        plain = np.zeros(len(values), dtype=np.bool_)
        if values.dtype != object:
            # Of these rows nothing needs a closer look; NaN and infinities fail a comparison.
            plain |= (values >= 0).all(axis=1) & (values > 0).any(axis=1)
            sums = np.empty((len(values), 2))
            pair_sums(values, sums)
            plain &= np.abs((sums[:, 0] - 1.0) + sums[:, 1]) <= tolerance
            plain &= ~((values > 0) & ~rows.visible(block)).any(axis=1)
        blank = np.zeros(len(values), dtype=np.bool_)
        for r in np.flatnonzero(~plain).tolist():
            blank[r] = judge_row(rows, block.start + r, on_empty)
            if check_sum and not blank[r]:
                check_sum_of(rows, block.start + r)
        certificate[block][~blank] = _prefix_certificates(_scaled(values[~blank]))
    return certificate.reshape(rows.shape)


def _scaled(values: NDArray[Any]) -> NDArray[np.float64]:
    """(R, L) float64: faultless rows, each scaled so that its maximum lies near 1."""
    if values.dtype == object:
        tops = [Fraction(*max(row).as_integer_ratio()) for row in values]
        ratios = [
            [float(Fraction(*entry.as_integer_ratio()) / top) for entry in row]
            for row, top in zip(values, tops, strict=True)
        ]
        return np.array(ratios, dtype=np.float64).reshape(values.shape)
    # A power of 2, and so without rounding but for entries that become subnormal.
    _, exponent = np.frexp(values.max(axis=1, keepdims=True))
    return np.ldexp(values, -exponent)


def _prefix_certificates(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    descending = -np.sort(-weights, axis=1)
    prefix = np.cumsum(descending, axis=1)
    suffix = np.zeros_like(prefix)
    suffix[:, :-1] = np.cumsum(descending[:, :0:-1], axis=1)[:, ::-1]
    total = prefix + suffix
    best = np.argmin(np.abs(prefix - suffix), axis=1)[:, None]
    share, rest = (
        np.take_along_axis(sums / total, best, axis=1)[:, 0] for sums in (prefix, suffix)
    )
    return np.minimum(4.0 * share * rest, 1.0)
