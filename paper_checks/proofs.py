"""Build the Coq proofs and show what stands behind a claim.

    python paper_checks/proofs.py build            compile, if need be, and judge every theorem
    python paper_checks/proofs.py show CLAIM …     statement, axioms and file of a claim's theorem
    python paper_checks/proofs.py audit            re-check every compiled module with coqchk
    python paper_checks/proofs.py record           write the hashes of the present statements

The exit status is 0, 1 where a theorem is not what was recorded, the sources do not build or the
audit did not get through a module, and 2 for a wrong call. Where Coq is not installed, `build` says
how to install it and ends with 0: the claims keep their other checks.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence

from theory.claims.machine_proofs import NEEDS, PROJECT, TABLE
from verify.evidence import Verdict
from verify.proofs import (
    ProofError,
    audit,
    interrogate,
    is_compiled,
    judge_theorem,
    read_table,
    theorem_lines,
)
from verify.runner import install_line, is_installed


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is described at the top of this file."""
    parser = argparse.ArgumentParser(prog="proofs", description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="compile, if need be, and judge every theorem")
    shown = commands.add_parser("show", help="what stands behind a claim")
    shown.add_argument("claims", nargs="+", metavar="CLAIM")
    commands.add_parser("audit", help="re-check all compiled objects with coqchk")
    commands.add_parser("record", help="write the hashes of the statements as they are now")
    options = parser.parse_args(argv)
    missing = [need for need in NEEDS if not is_installed(need)]
    if missing:
        print(f"proofs: {', '.join(missing)} not installed; {install_line(missing)}")
        return 0 if options.command == "build" else 1
    try:
        if not is_compiled(PROJECT):
            print("proofs: compiling, which takes about five minutes, once", file=sys.stderr)
        if options.command == "build":
            return build()
        if options.command == "show":
            return show(parser, options.claims)
        if options.command == "record":
            return record()
        return audited()
    except ProofError as error:
        print(f"proofs: {error}", file=sys.stderr)
        return 1


def build() -> int:
    """Compile and judge every theorem of the table; print one line for all, more for a failure."""
    start = time.perf_counter()
    table = read_table(TABLE)
    failed = 0
    for theorem in table.theorems.values():
        evidence = judge_theorem(PROJECT, table, theorem)
        if evidence.verdict is not Verdict.HOLDS:
            failed += 1
            print(f"{theorem.claim_id}: {evidence.counterexample}", file=sys.stderr)
    seconds = time.perf_counter() - start
    print(f"proofs: {len(table.theorems) - failed} passed, {failed} failed, {seconds:.0f} s")
    return 1 if failed else 0


def show(parser: argparse.ArgumentParser, claim_ids: Sequence[str]) -> int:
    """Print what Coq says of the theorems that restate these claims."""
    table = read_table(TABLE)
    source = PROJECT.folder / f"{table.module}.v"
    lines = theorem_lines(source.read_text(encoding="utf-8"))
    for claim_id in claim_ids:
        if claim_id not in table.theorems:
            parser.error(f"no theorem stands for {claim_id!r}; those that have one: {TABLE}")
        theorem = table.theorems[claim_id]
        answer = interrogate(PROJECT, table)[theorem.name]
        place = f"theory/proofs/{source.name}:{lines[theorem.name]}"
        print(f"{theorem.name}, {place}\n  {answer.statement}")
        print(f"  rests on: {', '.join(answer.axioms) or 'no axiom'}")
        print(f"  scope: {theorem.scope}")
        if theorem.differences:
            print(f"  differs from the paper: {theorem.differences}")
    return 0


def audited() -> int:
    """Re-check the compiled modules; print one line for each."""
    failed = 0
    for module, problem in audit(PROJECT):
        failed += bool(problem)
        print(f"{module}: {problem or 'checked'}", flush=True)
    return 1 if failed else 0


def record() -> int:
    """Put the hash of each statement, as Coq prints it now, into the table."""
    table = read_table(TABLE)
    text = TABLE.read_text(encoding="utf-8")
    answers = interrogate(PROJECT, table)
    changed = 0
    for claim_id, theorem in table.theorems.items():
        now = answers[theorem.name].statement_hash
        if now != theorem.statement_hash:
            entry = re.compile(
                rf'(\[theorems\.{claim_id}\]\n(?:(?!\[).*\n)*?statement = ")[0-9a-f]*(")'
            )
            text, replaced = entry.subn(rf"\g<1>{now}\g<2>", text)
            if replaced != 1:
                raise ProofError(f"{TABLE}: [theorems.{claim_id}] has no line: statement = …")
            changed += 1
            print(f"{claim_id}: {answers[theorem.name].statement}")
    TABLE.write_text(text, encoding="utf-8")
    print(f"proofs: {changed} recorded anew, {len(table.theorems) - changed} as before")
    return 0


if __name__ == "__main__":
    sys.exit(main())
