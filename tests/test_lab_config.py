"""Configurations: what is read, what is refused, and what counts as a difference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pydantic", reason="the extra model is not installed")

from lab import run_config

from model.config import (
    ConfigError,
    ModelConfig,
    RunConfig,
    as_json,
    config_hash,
    difference,
    load,
    validated,
)

MINIMAL = 'name = "a"\n[data]\nshards = "somewhere"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text)
    return path


def test_the_defaults_are_the_papers(tmp_path: Path) -> None:
    config = load(written(tmp_path, MINIMAL))
    model, optim = config.model, config.optim
    assert (model.layers, model.width, model.heads, model.head_width) == (36, 1280, 20, 64)
    assert (model.hidden_width, model.context, model.vocabulary) == (5120, 1024, 50257)
    assert (model.dropout, model.init_std, model.tied_head) == (0.1, 0.02, True)
    assert (optim.beta1, optim.beta2, optim.eps, optim.weight_decay) == (0.9, 0.95, 1e-8, 0.1)
    assert (optim.peak_lr, optim.warmup, optim.updates, optim.clip) == (3e-4, 500, 2000, 1.0)
    assert (config.batch.micro, config.batch.accumulation, config.batch.sequences) == (4, 16, 64)
    assert config.measured_layers == (0, 18, 35)
    assert (config.measure.every, config.measure.rows, config.measure.from_position) == (
        10,
        512,
        16,
    )
    assert config.measure.gradients_every == 50


def test_only_pre_ln_has_a_final_norm_unless_told() -> None:
    assert ModelConfig().has_final_norm
    assert not ModelConfig(block="post_ln").has_final_norm
    assert ModelConfig(block="post_ln", final_norm=True).has_final_norm


def test_overrides_are_read_as_toml_or_as_words(tmp_path: Path) -> None:
    config = load(
        written(tmp_path, MINIMAL),
        ["optim.updates=7", "optim.warmup=2", "model.block=post_ln", "measure.layers=[0, 2]"],
    )
    assert (config.optim.updates, config.model.block) == (7, "post_ln")
    assert config.measured_layers == (0, 2)


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        (MINIMAL + "[model]\nlayer = 3\n", [], r"model\.layer: .*not permitted"),
        (MINIMAL, ["model.width=100", "model.heads=3"], "width 100 is not divisible by 3 heads"),
        (MINIMAL, ["optim.warmup=3000"], "warmup of 3000 updates exceeds all 2000 updates"),
        (MINIMAL, ["optim.peak_lr=nan"], r"optim\.peak_lr"),
        (MINIMAL, ["optim.peak_lr=-1"], r"optim\.peak_lr: .*greater than 0"),
        (MINIMAL, ["optim.updates=true"], r"optim\.updates: .*valid integer"),
        (MINIMAL, ["seed=true"], "seed: .*valid integer"),
        (MINIMAL, ["optim.peak_lr=true"], r"optim\.peak_lr: .*valid number"),
        (MINIMAL, ["model.ffn_width=true"], r"model\.ffn_width: .*valid integer"),
        (MINIMAL, ["measure.layers=[true]"], r"measure\.layers\.0: .*valid integer"),
        (MINIMAL, ["compile=1"], "compile: .*valid boolean"),
        (MINIMAL, ["seed='7'"], "seed: .*valid integer"),
        (MINIMAL, [f"seed={2**48}"], f"seed: .*less than {2**48}"),
        (MINIMAL, ["seed=-1"], "seed: .*greater than or equal to 0"),
        (MINIMAL, ["measure.seed=-1"], r"measure\.seed: .*greater than or equal to 0"),
        (MINIMAL, ["measure.layers=[]"], r"measure\.layers: .*at least 1 item"),
        (MINIMAL, ["measure.layers=[36]"], r"names layer 36; there are 36 layers"),
        (MINIMAL, ["measure.from_position=1024"], "lies beyond a context of 1024"),
        (MINIMAL, ["model.block=middle_ln"], r"model\.block"),
        (MINIMAL, ["updates"], "section.key=value is needed"),
        (MINIMAL, ["name.first=x"], "name is no section"),
        ("name = ", [], "Invalid value"),
        ('name = "../x"\n[data]\nshards = "s"\n', [], "name: .*pattern"),
        ('name = "a"\n', [], "data: Field required"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, text: str, overrides: list[str], message: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        load(path, overrides)
    assert str(path) in str(caught.value) or "--set" in str(caught.value)


def test_an_integer_stands_for_a_float(tmp_path: Path) -> None:
    config = load(written(tmp_path, MINIMAL), ["optim.peak_lr=1", "model.dropout=0"])
    assert (config.optim.peak_lr, config.model.dropout) == (1.0, 0.0)
    assert isinstance(config.model.dropout, float)


def test_the_largest_seed_suits_torch_in_every_process() -> None:
    torch = pytest.importorskip("torch", reason="the extra model is not installed")
    seed = 2**48 - 1
    RunConfig.model_validate({"name": "a", "seed": seed, "data": {"shards": "somewhere"}})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed * 2**16 + 2**16 - 1)
        with pytest.raises(ValueError, match="Overflow"):
            torch.manual_seed((seed + 1) * 2**16)


def test_the_layers_left_out_are_three(tmp_path: Path) -> None:
    config = run_config(tmp_path, model__layers=7)
    assert config.measured_layers == (0, 3, 6)
    assert run_config(tmp_path, model__layers=7, measure__layers=[5, 0, 5]).measured_layers == (
        0,
        5,
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml: No such file"):
        load(tmp_path / "nothing.toml")


def test_differences_are_listed_but_for_what_changes_no_number(tmp_path: Path) -> None:
    config = run_config(tmp_path)
    other = run_config(tmp_path, optim__peak_lr=1e-3, keep=9, out="elsewhere", tensorboard=True)
    assert difference(config, other) == ["optim.peak_lr: 0.003, now 0.001"]
    assert config_hash(config) != config_hash(other)
    assert config_hash(config) == config_hash(run_config(tmp_path, keep=9))
    assert difference(config, RunConfig.model_validate(config.model_dump())) == []


def test_the_path_of_the_data_is_no_difference_though_the_hash_has_it(tmp_path: Path) -> None:
    config, moved = run_config(tmp_path), run_config(tmp_path, data__shards="elsewhere")
    assert difference(config, moved) == []
    assert config_hash(config) != config_hash(moved)


RUNS = Path(__file__).resolve().parent.parent / "paper_checks" / "runs"


@pytest.mark.parametrize("path", sorted(RUNS.glob("*/meta.json")), ids=lambda p: p.parent.name)
def test_a_recorded_hash_is_what_its_configuration_has(path: Path) -> None:
    meta = json.loads(path.read_text(encoding="utf-8"))
    config = validated(meta["config"], path)
    assert config_hash(config) == meta["config_hash"]
    assert as_json(config) == meta["config"]


# ------------------------------------------------------------------- configurations that we give

CONFIGS = Path(__file__).resolve().parent.parent / "model" / "configs"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_configuration_loads(path: Path) -> None:
    assert load(path).name.startswith(path.stem.split("_")[0])


def test_the_recipe_for_one_gpu_is_the_papers() -> None:
    config = load(CONFIGS / "h200.toml")
    assert config.model == ModelConfig()
    assert config.optim == RunConfig.model_fields["optim"].default
    assert config.batch == RunConfig.model_fields["batch"].default
    assert config.measure == RunConfig.model_fields["measure"].default
    assert (config.precision, config.seed) == ("bf16", 42)
    assert difference(config, load(CONFIGS / "h200_post_ln.toml")) == [
        "model.block: 'pre_ln', now 'post_ln'",
        "name: 'h200_pre_ln_42', now 'h200_post_ln_42'",
    ]


def test_eight_gpus_train_on_the_same_updates() -> None:
    one, many = load(CONFIGS / "h200.toml"), load(CONFIGS / "multi_gpu.toml")
    assert (many.model, many.optim, many.data) == (one.model, one.optim, one.data)
    assert many.batch.sequences == one.batch.sequences
    assert many.batch.micro % 16 == 0, "eight GPUs, and two machines of eight"


def test_the_update_on_a_cpu_is_of_the_whole_model() -> None:
    config = load(CONFIGS / "774m_one_update.toml")
    assert config.model == ModelConfig()
    assert (config.batch.sequences, config.optim.updates) == (1, 1)
    assert config.activation_checkpointing
    assert config.optim.peak_lr / config.optim.warmup == 6e-7


def test_the_pairs_on_a_cpu_differ_in_the_block_alone() -> None:
    pair = [load(CONFIGS / f"cpu_{block}.toml") for block in ("pre_ln", "post_ln")]
    assert {line.split(":")[0] for line in difference(*pair)} == {"name", "model.block"}
