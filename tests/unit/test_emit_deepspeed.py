from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

import worldsize

ROOT = Path(__file__).parents[2]


def compiled(tmp_path: Path, **values: Any) -> Path:
    spec = yaml.safe_load((ROOT / "pipelines/python_source_gpt_deepspeed.yml").read_text(encoding="utf-8"))
    spec["steps"] = {name: spec["steps"][name] for name in ("shard", "train")}
    spec["steps"]["train"]["with"] |= values
    path = tmp_path / "spec.yml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
    result = worldsize.compile(path, tmp_path / "out")
    assert result.folder is not None, result
    return tmp_path / "out"


def test_the_configuration_that_deepspeed_starts_with_can_be_read_before(tmp_path: Path) -> None:
    given = {"zero_stage": 3, "precision": "bf16", "offload_optimizer": "cpu", "max_gradient_norm": 1.0}
    folder = compiled(tmp_path, **given)
    config = json.loads((folder / "deepspeed" / "train.json").read_text(encoding="utf-8"))
    assert config["train_batch_size"] == 64
    assert config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * 4 == 64
    assert config["zero_optimization"]["stage"] == 3
    assert config["zero_optimization"]["offload_optimizer"] == {"device": "cpu"}
    assert (config["bf16"], config["gradient_clipping"]) == ({"enabled": True}, 1.0)
    assert "optimizer" not in config  # the learning rate stands in one place, and that is the plan
    assert "scheduler" not in config


def test_a_configuration_of_the_user_s_own_is_not_doubled(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"train_batch_size": 64, "zero_optimization": {"stage": 1}}')
    assert not (compiled(tmp_path, ds_config="./own.json", zero_stage=1) / "deepspeed").exists()
