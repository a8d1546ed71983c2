"""Imports point one way: verify ← theory ← model ← paper_checks; the solver stands alone.

Read from the source, so that imports inside functions count too.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ORDER = ("verify", "theory", "model", "paper_checks")
# What the solver may import besides the standard library: solver and checker share no code.
SOLVER_IMPORTS = {"numpy", "numba", "theory"}
# Optional packages of the solver's front ends, each imported by one file when it is used: autograd
# for torch, Dask arrays, and what the command reads and draws with.
FRONT_END_IMPORTS = {
    "_gradient.py": {"torch"},
    "_dask.py": {"dask"},
    "__main__.py": {"rich", "safetensors", "torch"},
}


def imported_modules(path: Path, package: str) -> Iterator[str]:
    """Absolute names of every module that a file imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                parents = package.split(".")
                base = ".".join(parents[: len(parents) - node.level + 1])
                yield f"{base}.{node.module}" if node.module else base
            elif node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def wrong_arrows(root: Path) -> list[str]:
    """Files under ``root`` that import against the arrows."""
    found = []
    for rank, name in enumerate(ORDER):
        for path in sorted((root / name).rglob("*.py")):
            package = ".".join(path.parent.relative_to(root).parts)
            for module in imported_modules(path, package):
                top = module.split(".")[0]
                if top in ORDER and ORDER.index(top) > rank:
                    found.append(f"{path.relative_to(root)} imports {module}")
    return found


def foreign_imports_of_the_solver(root: Path) -> list[str]:
    """Imports of theory.theta beyond the standard library, NumPy, Numba, itself and its extras."""
    found = []
    for path in sorted((root / "theory" / "theta").rglob("*.py")):
        allowed = SOLVER_IMPORTS | FRONT_END_IMPORTS.get(path.name, set())
        for module in imported_modules(path, "theory.theta"):
            top = module.split(".")[0]
            own = top != "theory" or module.startswith("theory.theta") or module == "theory"
            if top not in sys.stdlib_module_names and (top not in allowed or not own):
                found.append(f"{path.relative_to(root)} imports {module}")
    return found


def test_imports_point_one_way() -> None:
    assert wrong_arrows(ROOT) == []


def test_the_solver_imports_numpy_and_numba_alone() -> None:
    assert foreign_imports_of_the_solver(ROOT) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("verify/exact.py", "from theory import norms"),
        ("verify/report/text.py", "def f():\n    import theory.theta"),
        ("theory/norms.py", "import model.gpt"),
        ("theory/claims/lemma.py", "from paper_checks.run_all import main"),
        ("theory/norms.py", "from model.config import load"),
        ("model/runs.py", "def f():\n    import paper_checks.figures"),
        ("model/claims/runs.py", "from paper_checks import runs"),
    ],
)
def test_a_planted_wrong_arrow_is_found(tmp_path: Path, file: str, line: str) -> None:
    planted = tmp_path / file
    planted.parent.mkdir(parents=True)
    planted.write_text(line + "\n")
    assert len(wrong_arrows(tmp_path)) >= 1


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("_solve.py", "import verify.exact"),
        ("_solve.py", "from theory import norms"),
        ("_solve.py", "import torch"),
        ("_solve.py", "import scipy"),
        ("_rows.py", "def f():\n    import dask"),
        ("_gradient.py", "def f():\n    import scipy"),
        ("_dask.py", "import torch"),
        ("__main__.py", "import verify.exact"),
    ],
)
def test_a_planted_import_in_the_solver_is_found(tmp_path: Path, file: str, line: str) -> None:
    planted = tmp_path / "theory" / "theta" / file
    planted.parent.mkdir(parents=True)
    planted.write_text(f"import math\nimport numpy as np\n{line}\n")
    assert len(foreign_imports_of_the_solver(tmp_path)) >= 1


def test_importing_the_solver_imports_nothing_heavy() -> None:
    code = (
        "import sys, theory.theta; "
        "heavy = {'torch', 'sympy', 'flint', 'matplotlib', 'verify', 'dask', 'rich'}; "
        "heavy &= set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_claims_load_without_the_optional_packages() -> None:
    """A missing package makes a check NOT_RUN; it does not keep the others from loading."""
    code = (
        "import sys\n"
        "for name in ('torch', 'pydantic', 'safetensors', 'tiktoken', 'matplotlib'):\n"
        "    sys.modules[name] = None\n"
        "from paper_checks.run_all import CLAIM_PACKAGES\n"
        "from verify.claims import load_registry\n"
        "load_registry(CLAIM_PACKAGES)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
