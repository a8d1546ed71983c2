"""Claims that theorems in theory/proofs restate, checked by Coq: one check for every entry of
theory/proofs/theorems.toml.

Such a check never stands alone: each of these claims has other checks, in the module of its own,
which run where Coq is not installed.
"""

import importlib
import pkgutil
from pathlib import Path

import theory.claims
from verify.claims import Claim
from verify.proofs import CoqProject, proof_checks, read_table

SOURCES = Path(__file__).resolve().parent.parent / "proofs"
TABLE = SOURCES / "theorems.toml"
PROJECT = CoqProject(folder=SOURCES, build_root=SOURCES.parent.parent / "build" / "proofs")
NEEDS = (
    "program:coqc",
    "coq:mathcomp/algebra",
    "coq:mathcomp/analysis",
    "coq:mathcomp/algebra_tactics",
    "coq:Interval",
)


def _claims() -> dict[str, Claim]:
    """Every claim that the other modules of this package define, by id."""
    found: dict[str, Claim] = {}
    for info in pkgutil.iter_modules(theory.claims.__path__):
        name = f"{theory.claims.__name__}.{info.name}"
        if name != __name__ and not info.name.startswith("_"):
            values = vars(importlib.import_module(name)).values()
            found.update({value.id: value for value in values if isinstance(value, Claim)})
    return found


CHECKS = proof_checks(PROJECT, read_table(TABLE), _claims(), NEEDS, __name__)
