"""Other packages that split numbers in two, each asked for an optimal split of the same rows.

A peer takes a row of float64 weights and returns the indices of one side. Its split is evaluated
exactly, so that only its choice is judged, never its printing. It works in a process of its own,
with a limit of time and of memory, and is left alone after the first length that it cannot do.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from pebble import ProcessPool

Weights = Sequence[float]
MEMORY_LIMIT = 4 * 2**30
# Seconds for a worker to start and import its package, on top of the limit.
START_ALLOWANCE = 60.0
# The sum of scaled weights for packages that compute in int64.
INT64_TOTAL = 2**60


def exact_integers(weights: Weights) -> list[int]:
    """Integers in exactly the ratios of the weights; they may be longer than 64 bits."""
    fractions = [Fraction(weight) for weight in weights]
    unit = max(fraction.denominator for fraction in fractions)
    return [int(fraction * unit) for fraction in fractions]


def int64_integers(weights: Weights) -> list[int]:
    """The weights scaled to a sum of about 2**60 and rounded to integers."""
    total = sum(map(Fraction, weights))
    return [round(Fraction(weight) * INT64_TOTAL / total) for weight in weights]


def prtpy_ckk(numbers: Sequence[Any]) -> Sequence[int]:
    prtpy = importlib.import_module("prtpy")
    sides = prtpy.partition(
        algorithm=prtpy.partitioning.complete_karmarkar_karp,
        numbins=2,
        items=dict(enumerate(numbers)),
        outputtype=prtpy.out.Partition,
    )
    return list(sides[0])


def prtpy_ilp(weights: Weights) -> Sequence[int]:
    prtpy = importlib.import_module("prtpy")
    sides = prtpy.partition(
        algorithm=prtpy.partitioning.integer_programming,
        numbins=2,
        items=dict(enumerate(weights)),
        objective=prtpy.obj.MinimizeDifference,
        outputtype=prtpy.out.Partition,
    )
    return list(sides[0])


def numberpartitioning_ckk(numbers: Sequence[Any]) -> Sequence[int]:
    package = importlib.import_module("numberpartitioning")
    *_, last = package.complete_karmarkar_karp(list(numbers), num_parts=2, return_indices=True)
    return list(last.partition[0])


def partitionpy_ckk(numbers: Sequence[Any]) -> Sequence[int]:
    package = importlib.import_module("partitionpy")
    return list(package.complete_karmarkar_karp(list(numbers), return_indices=True)[0])


def ortools_cp_sat(weights: Weights) -> Sequence[int]:
    cp_model = importlib.import_module("ortools.sat.python.cp_model")
    numbers = int64_integers(weights)
    total = sum(numbers)
    model = cp_model.CpModel()
    taken = [model.new_bool_var(f"x{k}") for k in range(len(numbers))]
    mass = sum(number * x for number, x in zip(numbers, taken, strict=True))
    model.add(mass <= total // 2)
    model.maximize(mass)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status != cp_model.OPTIMAL:
        raise RuntimeError(f"status {solver.status_name(status)}")
    return [k for k, x in enumerate(taken) if solver.value(x)]


def ortools_knapsack(weights: Weights) -> Sequence[int]:
    package = importlib.import_module("ortools.algorithms.python.knapsack_solver")
    numbers = int64_integers(weights)
    kind = package.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER
    solver = package.KnapsackSolver(kind, "split")
    solver.init(numbers, [numbers], [sum(numbers) // 2])
    solver.solve()
    return [k for k in range(len(numbers)) if solver.best_solution_contains(k)]


def highs_milp(weights: Weights) -> Sequence[int]:
    np = importlib.import_module("numpy")
    optimize = importlib.import_module("scipy.optimize")
    count, total = len(weights), sum(weights)
    # Variables: x, and then D >= |2 w·x − W|, which is minimised.
    double = 2 * np.array(weights)
    sides = np.vstack([np.append(double, -1.0), np.append(-double, -1.0)])
    found = optimize.milp(
        c=np.append(np.zeros(count), 1.0),
        constraints=optimize.LinearConstraint(sides, ub=[total, -total]),
        integrality=np.append(np.ones(count), 0),
        bounds=optimize.Bounds(np.zeros(count + 1), np.append(np.ones(count), np.inf)),
        options={"mip_rel_gap": 0.0},
    )
    if not found.success:
        raise RuntimeError(found.message)
    return [k for k in range(count) if found.x[k] > 0.5]


def scip(weights: Weights) -> Sequence[int]:
    package = importlib.import_module("pyscipopt")
    model = package.Model()
    model.hideOutput()
    taken = [model.addVar(vtype="B") for _ in weights]
    gap = model.addVar(lb=0.0)
    excess = package.quicksum(2 * w * x for w, x in zip(weights, taken, strict=True)) - sum(weights)
    model.addCons(excess <= gap)
    model.addCons(-excess <= gap)
    model.setObjective(gap)
    model.optimize()
    if model.getStatus() != "optimal":
        raise RuntimeError(f"status {model.getStatus()}")
    return [k for k, x in enumerate(taken) if model.getVal(x) > 0.5]


def flsss_band(weights: Weights) -> Sequence[int]:
    """FLSSS answers whether a sum lies in a band; bands above the best sum are asked until none."""
    np = importlib.import_module("numpy")
    package = importlib.import_module("flsss")
    numbers = np.array(int64_integers(weights), dtype=np.int64)
    half = int(numbers.sum()) // 2
    best: list[int] = []
    low = 0
    while low <= half:
        # Its own limit of time only says when to give up; ours comes first.
        found = package.gen(numbers, lo=low, hi=half, n_threads=1, time_limit=3600.0)
        if not found:
            break
        best = [int(k) for k in found[0]]
        low = int(numbers[best].sum()) + 1
    return best


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """package: what pip calls it; method: what is asked of it, and in which numbers."""

    package: str
    method: str
    split: Callable[[Weights], Sequence[int]]
    read: Callable[[Weights], Sequence[Any]] = list


PEERS = (
    Peer(package="prtpy", method="complete Karmarkar-Karp, floats", split=prtpy_ckk),
    Peer(
        package="prtpy",
        method="complete Karmarkar-Karp, exact integers",
        split=prtpy_ckk,
        read=exact_integers,
    ),
    Peer(package="prtpy", method="integer program (CBC), floats", split=prtpy_ilp),
    Peer(
        package="numberpartitioning",
        method="complete Karmarkar-Karp, floats",
        split=numberpartitioning_ckk,
    ),
    Peer(
        package="numberpartitioning",
        method="complete Karmarkar-Karp, exact integers",
        split=numberpartitioning_ckk,
        read=exact_integers,
    ),
    Peer(package="partitionpy", method="complete Karmarkar-Karp, floats", split=partitionpy_ckk),
    Peer(
        package="partitionpy",
        method="complete Karmarkar-Karp, exact integers",
        split=partitionpy_ckk,
        read=exact_integers,
    ),
    Peer(package="ortools", method="CP-SAT, int64", split=ortools_cp_sat),
    Peer(package="ortools", method="knapsack branch and bound, int64", split=ortools_knapsack),
    Peer(package="scipy", method="milp (HiGHS), floats", split=highs_milp),
    Peer(package="pyscipopt", method="SCIP, floats", split=scip),
    Peer(package="flsss", method="bands of sums, int64", split=flsss_band),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """What a peer did with the rows of one set: seconds of each answered row, and its faults.

    wrong: how many θ of its splits differ from the exact θ in any bit, off: by how much at most.
    failure: why it stopped, if it did.
    """

    kind: str
    seconds: list[float] = field(default_factory=list)
    wrong: int = 0
    off: float = 0.0
    failure: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """version: None if the package is not installed."""

    peer: Peer
    version: str | None
    answers: list[Answers]


def theta_of_split(weights: Weights, side: Sequence[int]) -> float:
    """The θ of one split of exact weights, rounded once."""
    exact = [Fraction(weight) for weight in weights]
    total = sum(exact)
    chosen = set(side)
    if not chosen <= set(range(len(exact))):
        raise ValueError(f"no indices of the row: {sorted(chosen)}")
    mass = sum((exact[k] for k in chosen), Fraction(0))
    return float(4 * mass * (total - mass) / total**2)


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))


def _timed_split(number: int, weights: Weights) -> tuple[float, list[int]]:
    """Processor seconds and split of one row, in the worker; reading the weights counts."""
    peer = PEERS[number]
    start = time.process_time()
    side = peer.split(peer.read(weights))
    return time.process_time() - start, [int(k) for k in side]


def ask(
    peer: Peer, sets: Sequence[tuple[str, Sequence[tuple[Weights, float]]]], limit: float
) -> Record:
    """Let a peer split the rows of each set, given as (kind, [(weights, exact θ), …]).

    limit: seconds for each row. The peer is not asked again after a row that it failed to do.
    """
    try:
        version = importlib.metadata.version(peer.package)
    except importlib.metadata.PackageNotFoundError:
        return Record(peer=peer, version=None, answers=[])
    number = PEERS.index(peer)
    record = Record(peer=peer, version=version, answers=[])
    context = multiprocessing.get_context("spawn")
    with ProcessPool(max_workers=1, context=context, initializer=_limit_memory) as pool:
        # The first call pays for the import.
        failure = _ask_row(pool, number, [0.5, 0.25, 0.25], START_ALLOWANCE)[1]
        for kind, rows in sets:
            seconds: list[float] = []
            wrong, off = 0, 0.0
            for weights, theta in rows:
                if failure is not None:
                    break
                answer, failure = _ask_row(pool, number, weights, limit)
                if answer is not None:
                    seconds.append(answer[0])
                    found = theta_of_split(weights, answer[1])
                    wrong += found != theta
                    off = max(off, abs(theta - found))
            record.answers.append(
                Answers(kind=kind, seconds=seconds, wrong=wrong, off=off, failure=failure)
            )
            if failure is not None:
                break
        pool.stop()
    return record


def _ask_row(
    pool: ProcessPool, number: int, weights: Weights, limit: float
) -> tuple[tuple[float, list[int]] | None, str | None]:
    """The answer to one row, or why there is none."""
    future = pool.schedule(_timed_split, args=(number, weights), timeout=limit)
    try:
        return future.result(), None
    except FutureTimeoutError:
        return None, f"more than {limit:g} s"
    except MemoryError:
        return None, f"more than {MEMORY_LIMIT >> 30} GiB"
    # Whatever a package raises is a finding about it.
    except Exception as error:
        return (
            None,
            f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}",
        )
