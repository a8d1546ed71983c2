"""Exact attention sensitivity: θ(p) = 4·max p(S)(1 − p(S)) = 1 − min (2p(S) − 1)² over subsets S.

Every returned value is the float64 nearest to the exact rational; what cannot be settled is said to
be open, with true bounds. `theta` and `solve_theta` take one row, `theta_rows` and
`theta_rows_from_logits` arrays of rows, `theta_rows_dask` arrays larger than memory.
`theta_gradient` is the derivative, and `theta_rows_torch` has it for torch's autograd.
`greedy_certificate` is the paper's lower bound and `closest_mass` the subset-sum question behind
the finite-perturbation law.
"""

from theory.theta._closest import closest_mass
from theory.theta._dask import theta_rows_dask
from theory.theta._gradient import theta_gradient, theta_rows_torch
from theory.theta._greedy import greedy_certificate
from theory.theta._rows import theta_rows, theta_rows_from_logits
from theory.theta._solve import solve_theta, theta
from theory.theta._types import ClosestMass, OpenRowError, Status, ThetaSolution

__all__ = [
    "ClosestMass",
    "OpenRowError",
    "Status",
    "ThetaSolution",
    "closest_mass",
    "greedy_certificate",
    "solve_theta",
    "theta",
    "theta_gradient",
    "theta_rows",
    "theta_rows_dask",
    "theta_rows_from_logits",
    "theta_rows_torch",
]
