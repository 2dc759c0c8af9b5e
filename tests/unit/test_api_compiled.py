"""What compiling a spec writes beside its pipeline: versions that never clash, and DeepSpeed's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

import worldsize
from worldsize.api.bundle import Bundle, Shelf, shelve
from worldsize.azureml.copying import CopyAccess
from worldsize.base import resources
from worldsize.base.span import Span

ROOT = Path(__file__).parents[2]
SPEC = """
name: own
compute: {cpu: {target: azureml:cpu-cluster}}
steps:
  shard: {uses: shard_data, compute: cpu, with: {source: builtin:digits}}
  train:
    uses: train_ddp
    compute: cpu
    instance_count: 1
    process_count_per_instance: 1
    with: {model: "net.py:build"}
"""


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


def test_folders_of_components_that_differ_are_numbered(tmp_path: Path) -> None:
    at, taken = Span("spec.yml", 1, 1, 1, 1), {"train", "train__fit", "train__fit_2"}
    shelf = Shelf(CopyAccess(), tmp_path, taken=taken)
    names = [
        shelve(shelf, Bundle("train", {"version": version}, shelf.gate, tmp_path), "fit", None, at)
        for version in ("1", "2", "2", "3")
    ]
    assert names == ["train__fit_3", "train__fit_4", "train__fit_4", "train__fit_5"]


def compiled_versions(spec: Path, out: Path) -> dict[str, str]:
    worldsize.compile(spec, out)
    documents = map(yaml.safe_load, (path.read_text() for path in out.glob("components/*/component.yml")))
    return {document["name"]: document["version"] for document in documents}


def test_a_version_follows_the_users_model(tmp_path: Path) -> None:
    built_in = {
        name: yaml.safe_load(resources.component_file(name).read_text(encoding="utf-8"))["version"]
        for name in ("shard_data", "train_ddp")
    }
    spec = tmp_path / "spec.yml"
    spec.write_text(SPEC)
    versions = []
    for number, text in enumerate(("x = 1", "x = 2", "x = 1")):
        (tmp_path / "net.py").write_text(f"{text}\ndef build(): ...\n")
        versions.append(compiled_versions(spec, tmp_path / f"out{number}"))
    assert {each["shard_data"] for each in versions} == {built_in["shard_data"]}  # nothing was added to it
    first, second, again = (each["train_ddp"] for each in versions)
    assert first == again != second
    assert first.startswith(f"{built_in['train_ddp']}-")
