"""Compile the solver's kernels once, so that no later run waits for it.

    python -m paper_checks.compile_kernels

Numba keeps the machine code on disk, so this is instant unless the solver's sources changed.
"""

import numpy as np

from theory.theta import solve_theta, theta_gradient, theta_rows


def main() -> int:
    """Call every kernel, for each dtype that is read directly."""
    flat = np.full((2, 64), 1 / 64)
    uneven = np.random.default_rng(0).dirichlet(np.ones(300), size=2)
    for dtype in (np.float64, np.float32, np.float16):
        theta_rows(flat.astype(dtype))
        theta_rows(uneven.astype(dtype), check_sum=False)
    theta_gradient(flat)
    for method in ("gray", "mitm", "quarters", "cardinality", "groups", "fill", "branch", "auto"):
        solve_theta([3, 3, 2, 2, 1, 1, 1], method=method)
        solve_theta(uneven[0, :12], method=method)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
