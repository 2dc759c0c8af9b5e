"""DeepSpeed's configuration: what a plan becomes, and what is found wrong with one, without DeepSpeed."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wstrain_deepspeed import config as ds
from wstrain_deepspeed.config.schema import read_tables

PLAN = ds.Plan(micro_batch=4, accumulation=2, world_size=8, zero_stage=2, optimizer="adamw")


def kinds(config: dict[str, Any], known: ds.Known | None = None) -> dict[str, str]:
    return {".".join(map(str, found.path)): found.kind for found in ds.verify(config, known)}


def test_importing_it_needs_neither_torch_nor_deepspeed() -> None:
    code = "import sys, wstrain_deepspeed.config; print({'torch', 'deepspeed'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()"


@given(
    numbers=st.tuples(*[st.integers(1, 512)] * 3),
    stage=st.integers(0, 3),
    precision=st.sampled_from(ds.PRECISIONS),
    optimizer=st.sampled_from(["sgd", "adam", "adamw"]),
    devices=st.tuples(st.sampled_from(ds.DEVICES), st.sampled_from(ds.DEVICES)),
    checkpointing=st.booleans(),
)
def test_what_is_made_is_never_found_wrong(
    *,
    numbers: tuple[int, int, int],
    stage: int,
    precision: str,
    optimizer: str,
    devices: tuple[str, str],
    checkpointing: bool,
) -> None:
    plan = ds.Plan(
        *numbers,
        stage,
        precision,
        optimizer=optimizer,
        offload_optimizer=devices[0],
        offload_parameters=devices[1],
        offload_path="/mnt/offload",
        activation_checkpointing=checkpointing,
    )
    possible = (
        (devices[0] == "none" or stage > 0)
        and (devices[1] == "none" or stage == 3)
        and ("nvme" not in devices or stage == 3)
    )
    if not possible:
        with pytest.raises(ValueError, match="needs zero_stage"):
            ds.build_config(plan)
        return
    config = ds.build_config(plan)
    assert ds.verify(config, ds.Known.from_plan(plan)) == []
    assert config["train_batch_size"] == plan.global_batch == numbers[0] * numbers[1] * numbers[2]
    assert "optimizer" not in config
    assert "scheduler" not in config
    assert ds.read_stage(config) == stage
    assert json.loads(ds.to_json(config)) == config


def test_start_up_assertions_are_foreseen() -> None:
    config = ds.build_config(ds.Plan(4, zero_stage=2, optimizer="sgd", offload_optimizer="cpu"))
    assert config["zero_allow_untested_optimizer"] is True
    assert config["zero_force_ds_cpu_optimizer"] is False
    assert "zero_allow_untested_optimizer" not in ds.build_config(ds.Plan(4, zero_stage=0, optimizer="sgd"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"zero_stage": 4}, "ZeRO has the stages 0 to 3"),
        ({"precision": "fp8"}, "precision is fp8"),
        ({"precision": "bf16", "loss_scale": 128.0}, "only fp16 scales the loss"),
        ({"loss_scale": -1.0, "precision": "fp16"}, "not a number of at least 0"),
        ({"max_gradient_norm": -1.0}, "below 0"),
        ({"offload_optimizer": "disk"}, "none, cpu or nvme"),
        ({"zero_stage": 3, "offload_parameters": "nvme"}, "needs offload_path"),
        ({"micro_batch": 0}, "micro_batch must be at least 1, got 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ds.build_config(ds.Plan(**({"micro_batch": 4} | settings)))


def test_one_batch_number_is_enough_and_the_rest_must_fit() -> None:
    for world, micro, steps in itertools.product((1, 2, 7), (1, 4), (1, 3)):
        known = ds.Known(world=world)
        parts = {"train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": steps}
        whole = {"train_batch_size": micro * steps * world}
        for config in (whole, parts, whole | parts, {"train_micro_batch_size_per_gpu": micro}):
            assert kinds(config, known) == {}
        wrong = {"train_batch_size": micro * steps * world + 1}
        assert kinds(wrong | parts, known) == {"train_batch_size": "batch"}
        assert kinds(wrong | parts) == {}  # nothing is known of the processes


def test_a_world_size_that_would_fit_is_offered() -> None:
    config = {
        "train_batch_size": 256,
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 8,
    }
    (found,) = ds.verify(config, ds.Known(world=1))
    assert found.message == "`train_batch_size` is 256, but 4 × 8 × 1 process = 32"
    assert found.help == "write 32, or start 8 processes, for which the numbers fit"
    assert str(found).startswith("train_batch_size: `train_batch_size` is 256")


def test_the_plan_is_compared_value_by_value() -> None:
    known = ds.Known.from_plan(PLAN)
    assert kinds({"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 2}}, known) == {
        "train_micro_batch_size_per_gpu": "plan"
    }
    found = kinds(
        {
            "train_batch_size": 32,
            "gradient_accumulation_steps": 1,
            "zero_optimization": {"stage": 3},
            "bf16": {"enabled": True},
            "gradient_clipping": 1.0,
        },
        known,
    )
    assert found == {
        "gradient_accumulation_steps": "plan",
        "zero_optimization.stage": "plan",
        "bf16.enabled": "plan",
        "gradient_clipping": "plan",
    }


def test_an_own_file_is_completed_and_decides_on_the_stage() -> None:
    config, notes = ds.complete_config({"zero_optimization": {"stage": 3}}, PLAN)
    assert notes == []
    assert config["train_batch_size"] == 64
    assert config["train_micro_batch_size_per_gpu"] == 4
    assert ds.read_stage(config) == 3
    _, notes = ds.complete_config(
        {"zero_optimization": {"stage": 2, "cpu_offload_use_pin_memory": True}}, PLAN
    )
    assert [note.kind for note in notes] == ["deprecated"]


def test_an_own_file_that_cannot_be_trained_with_is_refused_with_every_reason() -> None:
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "optimizer": {"type": "AdamW"},
        "scheduler": {"type": "WarmupLR"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    }
    with pytest.raises(ds.ConfigError) as refused:
        ds.complete_config(config, PLAN)
    assert [found.kind for found in refused.value.findings] == ["batch", "twice", "twice", "optimizer"]
    assert len(str(refused.value).splitlines()) == 4


def test_a_folder_to_offload_to_must_exist_where_that_can_be_told() -> None:
    zero = {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/local_nvme"}}
    config = {"train_batch_size": 64, "zero_optimization": zero}
    assert kinds(config) == {}
    assert kinds(config, ds.Known(exists=lambda _: True)) == {}
    assert kinds(config, ds.Known(exists=lambda _: False)) == {
        "zero_optimization.offload_param.nvme_path": "path"
    }


def test_auto_is_left_alone_where_something_may_fill_it_in() -> None:
    config = {"train_batch_size": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}}
    assert kinds(config, ds.Known(world=8, fills_auto=True)) == {}
    assert kinds(config, ds.Known(world=8)) == {}
    assert kinds(config, ds.Known(world=8, fills_auto=False)) == {"train_batch_size": "auto"}


def test_keys_of_others_are_left_alone_unless_the_version_is_known() -> None:
    config = {"train_batch_size": 8, "my_own_setting": 1, "_comment": "x"}
    assert kinds(config) == {}
    assert kinds(config, ds.Known(pinned=True)) == {"my_own_setting": "key-ignored"}


@pytest.mark.parametrize("name", sorted(read_tables().blocks["zero_optimization"].keys))
def test_a_misspelt_key_of_zero_is_refused_with_the_right_one(name: str) -> None:
    misspelt = name[:-2] + name[-1] + name[-2] if name[-1] != name[-2] else name + "x"
    if misspelt in read_tables().blocks["zero_optimization"].keys:
        return
    config = {"train_batch_size": 8, "zero_optimization": {misspelt: 1}}
    (found,) = ds.verify(config)
    assert (found.kind, found.on_key) == ("key-refused", True)
    assert found.help == f"did you mean `{name}`?"


NAMES = sorted(
    {key for block in read_tables().blocks.values() for key in block.keys} | {"lr", "betas", "oops"}
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["auto", "", "true", "cpu", "2"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(NAMES), json_values, max_size=8), st.booleans(), st.booleans())
def test_anything_gets_findings_and_never_a_traceback(
    config: dict[str, Any], ours: bool, fills: bool
) -> None:
    known = ds.Known.from_plan(PLAN) if ours else ds.Known(world=8, fills_auto=fills)
    for found in ds.verify(config, known):
        assert found.kind in ds.KINDS
        assert found.message
        assert len(found.message) <= 400
        assert found.help


def test_reading_a_file_says_where_it_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    for text, said in (
        ('{"a": 1,}', r"ds\.json:1:\d+: not JSON: "),
        ('{"a": 1, "a": 2}', "the key `a` is there twice"),
        ("[1]", "holds a list"),
        ("[" * 100_000, "nests deeper"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=said):
            ds.read_config(path)
    with pytest.raises(ValueError, match="cannot be read"):
        ds.read_config(tmp_path / "missing.json")
    path.write_text('{"train_batch_size": 8}', encoding="utf-8")
    assert ds.read_config(path) == {"train_batch_size": 8}
