"""Mutation run over theory/: does a wrong sign, constant, comparison or term fail a test?

    python tests/mutation/run.py [--modules norms theta] [--per-module 80] [--seed 1]

The mutations are Cosmic Ray's, less those that only make nonsense of types, and one of our own
that drops a term of a sum, a factor of a product or an operand of a condition. Each mutant is
written into a copy of the tree and run against the tests of its own module; the working tree is
only read. A mutant that no test notices is a survivor, and the exit status is then 1. Mutants that
compute the same as the original are listed, each with the reason, in equivalent.toml; they are run
too, because one that a test kills was no equivalent.
"""

import argparse
import ast
import json
import os
import queue
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.operators.provider import OperatorProvider
from parso.tree import search_ancestor

ROOT = Path(__file__).resolve().parents[2]

# A mutant may ask for any amount of memory. Importing torch alone reserves several GiB.
MEMORY_KIB = 16 * 2**20
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Suite:
    """Which files to mutate (glob patterns) and the tests that concern them, quickest first.

    Every stage is one pytest run with these arguments; the first that fails kills the mutant.
    """

    sources: tuple[str, ...]
    stages: tuple[tuple[str, ...], ...]


SUITES = {
    "arguments": Suite(
        ("theory/arguments.py",), (("tests/test_arguments.py",), ("tests/test_reading.py",))
    ),
    "norms": Suite(("theory/norms.py",), (("tests/test_norms.py",),)),
    "softmax": Suite(("theory/softmax.py",), (("tests/test_softmax.py",),)),
    "layernorm": Suite(("theory/layernorm.py",), (("tests/test_layernorm.py",),)),
    "attention": Suite(
        tuple(f"theory/{name}.py" for name in ("attention", "masks", "rotary")),
        (("tests/test_masks.py", "tests/test_rotary.py"), ("tests/test_attention.py",)),
    ),
    "activations": Suite(("theory/activations.py",), (("tests/test_activations.py",),)),
    "blocks": Suite(
        tuple(
            f"theory/{name}.py"
            for name in ("blocks", "feed_forward", "linearisation", "normaliser")
        ),
        (
            ("tests/test_normaliser.py", "tests/test_feed_forward.py"),
            ("tests/test_blocks.py", "tests/test_attention.py"),
        ),
    ),
    "perturbation": Suite(("theory/perturbation.py",), (("tests/test_perturbation.py",),)),
    "theta": Suite(
        tuple(
            f"theory/theta/_{name}.py"
            for name in (
                *("batch", "cardinality", "closest", "few_values", "float_kernels", "found"),
                *("greedy", "groups", "jit", "kernels", "lanes", "long_rows", "messages"),
                *("nearly_equal", "numbers", "quarters", "repair", "row", "rows", "search"),
                *("settle", "small_rows", "solve", "sums", "types"),
            )
        ),
        tuple(
            (f"tests/test_theta{part}.py",)
            for part in (
                *("_interpreted", "_groups", "_nearly_equal", "", "_batches", "_families"),
                *("_portfolio", "_properties"),
            )
        ),
    ),
    "gradient": Suite(("theory/theta/_gradient.py",), (("tests/test_theta_gradient.py",),)),
}

# Cosmic Ray swaps every operator for every other. Most of those swaps end in a TypeError at once
# and would only water the sample down, so each operator has one or two near misses here.
OPERATORS = (
    *("ReplaceBinaryOperator_Add_Sub", "ReplaceBinaryOperator_Sub_Add"),
    *("ReplaceBinaryOperator_Mul_Add", "ReplaceBinaryOperator_Mul_Div"),
    *("ReplaceBinaryOperator_Div_Mul", "ReplaceBinaryOperator_FloorDiv_Mul"),
    *("ReplaceBinaryOperator_Mod_FloorDiv", "ReplaceBinaryOperator_Pow_Mul"),
    *("ReplaceBinaryOperator_LShift_RShift", "ReplaceBinaryOperator_RShift_LShift"),
    *("ReplaceBinaryOperator_BitAnd_BitOr", "ReplaceBinaryOperator_BitOr_BitAnd"),
    "ReplaceBinaryOperator_BitXor_BitOr",
    *("ReplaceComparisonOperator_Lt_LtE", "ReplaceComparisonOperator_Lt_GtE"),
    *("ReplaceComparisonOperator_LtE_Lt", "ReplaceComparisonOperator_LtE_Gt"),
    *("ReplaceComparisonOperator_Gt_GtE", "ReplaceComparisonOperator_Gt_LtE"),
    *("ReplaceComparisonOperator_GtE_Gt", "ReplaceComparisonOperator_GtE_Lt"),
    *("ReplaceComparisonOperator_Eq_NotEq", "ReplaceComparisonOperator_NotEq_Eq"),
    *("ReplaceComparisonOperator_Is_IsNot", "ReplaceComparisonOperator_IsNot_Is"),
    *("ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Invert"),
    *("ReplaceUnaryOperator_Delete_Not", "AddNot"),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    *("NumberReplacer", "ExceptionReplacer", "ZeroIterationForLoop"),
)


class DropOperand(Operator):
    """Drops one operand of a chain of +, -, *, /, @, and, or, & or |, with its operator."""

    CHAINS = frozenset({"arith_expr", "term", "or_test", "and_test", "expr", "and_expr"})
    # The first operand goes only where the second can stand alone for the rest.
    MAY_LOSE_FIRST = frozenset({"+", "*", "@", "and", "or", "&", "|"})

    def mutation_positions(self, node: Any) -> list[tuple[Any, Any]]:
        return [
            (node.children[at].start_pos, node.children[at].end_pos) for at in self._operands(node)
        ]

    def mutate(self, node: Any, index: int) -> Any:
        at = self._operands(node)[index]
        lost = (0, 1) if at == 0 else (at - 1, at)
        node.children = [child for i, child in enumerate(node.children) if i not in lost]
        return node

    def _operands(self, node: Any) -> list[int]:
        if node.type not in self.CHAINS:
            return []
        first = 0 if node.children[1].value in self.MAY_LOSE_FIRST else 2
        return list(range(first, len(node.children), 2))

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("x = a + b", "x = b"), Example("x = a - b", "x = a"))


@dataclass(frozen=True)
class Mutant:
    """One changed source: `file` with `line` (of `function`) turned into `replacement`."""

    file: str
    number: int
    function: str
    operator: str
    line: str
    replacement: str
    code: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What equivalent.toml names a mutant by: no line number, for those move."""
        return self.file, self.function, self.line, self.replacement


@dataclass(frozen=True)
class Outcome:
    """How a mutant fared. status: killed, timed out, equivalent, wrongly excused or survived."""

    module: str
    mutant: Mutant
    status: str


@dataclass(frozen=True)
class Site:
    """A mutation of a source: the operator and which of its occurrences, and where that is."""

    operator: Operator
    occurrence: int
    name: str
    start: tuple[int, int]
    function: str


def mutation_sites(source: str) -> Iterator[Site]:
    """Every mutation of a source."""
    provider = OperatorProvider()
    operators = {name: provider[name]() for name in OPERATORS} | {"DropOperand": DropOperand()}
    nodes = list(ast_nodes(get_ast(source)))
    for name, operator in operators.items():
        # Cosmic Ray counts occurrences in the order in which it walks the tree, which is ours.
        occurrence = 0
        for node in nodes:
            for start, _ in operator.mutation_positions(node):
                if not _says_nothing_at_run_time(node):
                    function: Any = search_ancestor(node, "funcdef")
                    where = function.name.value if function else ""
                    yield Site(operator, occurrence, name, start, where)
                occurrence += 1


def _says_nothing_at_run_time(node: Any) -> bool:
    """Whether a node belongs to an annotation or is the bare * or / of a signature."""
    if node.type == "operator" and node.parent.type in ("parameters", "param"):
        return True
    while node.parent is not None:
        parent = node.parent
        if (
            parent.type == "tfpdef"
            or (parent.type == "annassign" and node is parent.children[1])
            or (parent.type == "funcdef" and node is parent.annotation)
        ):
            return True
        node = parent
    return False


def sample_mutants(root: Path, suite: Suite, count: int | None, seed: int) -> list[Mutant]:
    """`count` different mutants of a suite's files (None: all), by chance, in a fixed order.

    The chance of a site hangs on its own line alone, so that an edit elsewhere leaves the sample of
    the other lines as it was.
    """
    ranked = []
    for pattern in suite.sources:
        for path in sorted(root.glob(pattern)):
            source = path.read_text(encoding="utf-8")
            name = path.relative_to(root).as_posix()
            lines = source.splitlines()
            twins: Counter[str] = Counter()
            for site in mutation_sites(source):
                row, column = site.start
                text = f"{name} {site.function} {site.name} {column} {lines[row - 1]}"
                twins[text] += 1
                rank = random.Random(f"{seed} {twins[text]} {text}").random()
                ranked.append((rank, name, source, site))
    mutants: dict[str, Mutant] = {}
    for _, name, source, site in sorted(ranked, key=lambda entry: entry[0]):
        if len(mutants) == count:
            break
        code = mutate_code(source, site.operator, site.occurrence)
        if code is None or not _says_something_else(source, code):
            continue
        line, replacement = changed_lines(source, code)
        mutant = Mutant(name, site.start[0], site.function, site.name, line, replacement, code)
        mutants.setdefault(name + code, mutant)
    return list(mutants.values())


def _says_something_else(source: str, code: str) -> bool:
    try:
        return ast.dump(ast.parse(code)) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def changed_lines(source: str, code: str) -> tuple[str, str]:
    """The lines that differ, before and after, with white space reduced to single blanks."""
    before, after = source.splitlines(), code.splitlines()
    shorter = min(len(before), len(after))
    head = next((i for i in range(shorter) if before[i] != after[i]), shorter)
    most = shorter - head
    tail = next((i for i in range(most) if before[-1 - i] != after[-1 - i]), most)
    return (
        _single_blanks("\n".join(before[head : len(before) - tail])),
        _single_blanks("\n".join(after[head : len(after) - tail])),
    )


def _single_blanks(text: str) -> str:
    return " ".join(text.split())


# --- running -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit:
    """How long a stage may take: seconds of processor time, and on the clock in case it sleeps."""

    cpu: int
    wall: float


def run_stage(copy: Path, stage: Sequence[str], limit: Limit | None) -> str:
    """Run one stage in a copy of the tree: "passed", "failed" or "timed out".

    The processor time is limited, not only the time on the clock, so that a busy machine does not
    turn survivors into kills. At a time-out every process of the run is ended.
    """
    pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *stage]
    limits = f"ulimit -v {MEMORY_KIB}" + (f" && ulimit -t {limit.cpu}" if limit else "")
    command = ["sh", "-c", f'{limits} && exec "$@"', "sh", *pytest]
    # Only the run without mutation is worth reading.
    output = subprocess.DEVNULL if limit else None
    # Without bytecode files two mutants written within one tick of the clock cannot be confused.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    ) as process:
        try:
            status = process.wait(limit.wall if limit else None)
        except subprocess.TimeoutExpired:
            return "timed out"
        finally:
            _end_group(process.pid)
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return "timed out"
    return "passed" if status == 0 else "failed"


def _end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def measure_limits(copy: Path, suite: Suite) -> list[Limit]:
    """The limit of every stage, from a run without mutation, which must pass."""
    limits = []
    for stage in suite.stages:
        started, before = time.monotonic(), _cpu_of_children()
        if run_stage(copy, stage, None) != "passed":
            raise SystemExit(f"{' '.join(stage)} does not pass without any mutation")
        cpu, wall = _cpu_of_children() - before, time.monotonic() - started
        limits.append(Limit(cpu=int(3 * cpu) + 20, wall=5 * wall + 60))
    return limits


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_mutant(copy: Path, mutant: Mutant, suite: Suite, limits: Sequence[Limit]) -> str:
    """Put a mutant into a copy of the tree, run its tests, and take it out again."""
    path = copy / mutant.file
    original = path.read_text(encoding="utf-8")
    path.write_text(mutant.code, encoding="utf-8")
    try:
        for stage, limit in zip(suite.stages, limits, strict=True):
            result = run_stage(copy, stage, limit)
            if result != "passed":
                return "killed" if result == "failed" else result
        return "survived"
    finally:
        path.write_text(original, encoding="utf-8")
        # Compiled kernels of this mutant, which no other can use.
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


def run_suite(
    root: Path,
    module: str,
    suite: Suite,
    mutants: Sequence[Mutant],
    equivalents: Mapping[tuple[str, str, str, str], str],
    jobs: int,
) -> Iterator[Outcome]:
    """Run all mutants of one module, `jobs` at a time, every job in its own copy of the tree."""
    copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        for number in range(jobs):
            copy = Path(scratch) / str(number)
            ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "report")
            shutil.copytree(root, copy, ignore=ignored)
            copies.put(copy)
        limits = measure_limits(copy, suite)

        def judge(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                status = run_mutant(copy, mutant, suite, limits)
            finally:
                copies.put(copy)
            if mutant.key in equivalents:
                status = "wrongly excused" if status == "killed" else "equivalent"
            return Outcome(module, mutant, status)

        with ThreadPoolExecutor(jobs) as executor:
            try:
                yield from executor.map(judge, mutants)
            finally:
                executor.shutdown(cancel_futures=True)


def read_equivalents(path: Path, root: Path) -> dict[tuple[str, str, str, str], str]:
    """The mutants explained in a file like equivalent.toml, with the reasons.

    Raises ValueError for an entry without a reason and for one whose line is no longer there.
    """
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    reasons = {}
    for entry in entries:
        line = _single_blanks(entry["line"])
        if not entry["reason"].strip():
            raise ValueError(f"{path.name}: no reason is given for {line!r}")
        if line not in _single_blanks((root / entry["file"]).read_text(encoding="utf-8")):
            raise ValueError(f"{path.name}: {entry['file']} has no line {line!r} any more")
        key = entry["file"], entry["function"], line, _single_blanks(entry["mutant"])
        reasons[key] = entry["reason"]
    return reasons


def read_kills(path: Path) -> dict[tuple[str, str, str, str], str]:
    """The mutants that an earlier run, written by --json, killed or timed out, with the status.

    Tests that were only added to still kill them.
    """
    records = json.loads(path.read_text(encoding="utf-8"))
    return {
        (mutant["file"], mutant["function"], mutant["line"], mutant["replacement"]): status
        for mutant, status in ((record["mutant"], record["status"]) for record in records)
        if status in ("killed", "timed out")
    }


# --- reporting -----------------------------------------------------------------------------------


def summary(outcomes: Iterable[Outcome]) -> str:
    """The count of every status, in one line."""
    count = Counter(outcome.status for outcome in outcomes)
    text = (
        f"{count.total()} mutants: {count['killed']} killed, {count['timed out']} timed out, "
        f"{count['equivalent']} equivalent (explained), {count['survived']} survivors"
    )
    wrong = count["wrongly excused"]
    return f"{text}, {wrong} wrongly excused" if wrong else text


def describe(outcome: Outcome) -> str:
    mutant = outcome.mutant
    place = f"{mutant.file}:{mutant.number} {mutant.function}"
    return f"{outcome.status}: {place}\n    - {mutant.line}\n    + {mutant.replacement}"


def main(
    arguments: Sequence[str] | None = None,
    *,
    root: Path = ROOT,
    suites: Mapping[str, Suite] = SUITES,
    equivalent: Path = EQUIVALENT,
) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--modules", nargs="+", choices=suites, default=list(suites))
    parser.add_argument("--per-module", type=int, default=80, help="0 for all (default: 80)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the results")
    parser.add_argument(
        "--recheck", type=Path, metavar="FILE", help="run again only what was not killed in FILE"
    )
    options = parser.parse_args(arguments)

    equivalents = read_equivalents(equivalent, root)
    settled = read_kills(options.recheck) if options.recheck else {}
    outcomes: list[Outcome] = []
    for module in options.modules:
        mutants = sample_mutants(root, suites[module], options.per_module or None, options.seed)
        print(f"{module}: {len(mutants)} mutants, seed {options.seed}", flush=True)
        again = [m for m in mutants if m.key not in settled or m.key in equivalents]
        found = [Outcome(module, m, settled[m.key]) for m in mutants if m not in again]
        for outcome in run_suite(root, module, suites[module], again, equivalents, options.jobs):
            found.append(outcome)
            print(f"[{len(found)}/{len(mutants)}] {describe(outcome)}", flush=True)
        outcomes += found

    unexplained = [o for o in outcomes if o.status in ("survived", "wrongly excused")]
    if unexplained:
        print("\nUnexplained:")
    for outcome in unexplained:
        print(describe(outcome))
    print()
    for module in options.modules:
        print(f"{module}: {summary(o for o in outcomes if o.module == module)}")
    print(summary(outcomes))
    if options.json:
        records = [asdict(outcome) for outcome in outcomes]
        for record in records:
            del record["mutant"]["code"]
        options.json.write_text(json.dumps(records, indent=1), encoding="utf-8")
    return 1 if unexplained else 0


if __name__ == "__main__":
    # A shell starts its background jobs with Ctrl-C ignored, which tests of Ctrl-C would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
