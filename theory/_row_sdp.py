"""The semidefinite relaxation of one row's norm by an interior-point method (cvxpy), where small.

Nothing that the solver returns is trusted: a bracket proves its own bounds from the weights.
"""

from __future__ import annotations

import numpy as np

from theory._row_maps import RowMap
from theory.arguments import FloatArray

# The E × E variable and the N constraints of size E² make larger problems slow.
LARGEST_WIDTH = 64
# Eigenvalues of the solution below this share of the largest are the solver's tolerance.
_NEGLIGIBLE = 1e-7


def solve_relaxation(row: RowMap) -> FloatArray:
    """Z of shape (E, R) with ZZᵀ a maximiser of Σ_j √⟨M_jᵀM_j, Y⟩ over Y ⪰ 0, tr Y = 1, floating.

    Raises ImportError without cvxpy, ValueError for an output width above LARGEST_WIDTH.
    """
    import cvxpy as cp

    count = len(row.tokens)
    grams = [row.gram(unit) for unit in np.eye(count)]
    width = len(grams[0])
    if width > LARGEST_WIDTH:
        raise ValueError(f"method 'cvxpy' is for widths up to {LARGEST_WIDTH}, not {width}")
    # Blocks of size about 1 suit the solver's absolute tolerances.
    size = max(float(np.trace(gram)) for gram in grams)
    Y = cp.Variable((width, width), PSD=True)
    roots = [cp.sqrt(cp.trace((gram / size) @ Y)) for gram in grams]
    cp.Problem(cp.Maximize(cp.sum(cp.hstack(roots))), [cp.trace(Y) == 1]).solve(solver="CLARABEL")
    values, vectors = np.linalg.eigh((Y.value + Y.value.T) / 2)
    kept = values > _NEGLIGIBLE * values[-1]
    factor: FloatArray = vectors[:, kept] * np.sqrt(values[kept])
    return factor / float(np.linalg.norm(factor))
