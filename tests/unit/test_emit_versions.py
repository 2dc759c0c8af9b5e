"""Compiled components that are registered never clash: other content, other version."""

from __future__ import annotations

from pathlib import Path

import yaml

import worldsize
from worldsize import resources

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
