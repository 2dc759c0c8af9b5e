"""VM sizes that only `worldsize.yml` describes: checked, planned and run as far as they are known."""

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize
from worldsize.facts import vm_sizes
from worldsize.running.model.assets import read_asset_map

GPU, CPU = "Standard_ND256xyz_v9", "Standard_E9_v9"
SETTINGS = f"""\
compute:
  gpu-cluster: {{instance_type: {GPU}}}
  cpu-cluster: {{instance_type: {CPU.upper()}}}
vm_sizes:
  {GPU}: {{gpus: 8, vcpus: 256, memory_gib: 2048}}
  {CPU}: {{gpus: 0}}
"""
JOB = """\
type: command
command: python -c "print('hello')"
environment: azureml:my-training:4
compute: azureml:%s
resources: {instance_count: 2}
limits: {timeout: 3600}
distribution: {type: pytorch, process_count_per_instance: %d}
"""
SPEC = """\
name: s
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: %s}
steps:
  train:
    uses: train_ddp
    compute: gpu
    instance_count: 2
    timeout: 7200
    with: {shards: "azureml:shards:1", model: cnn, epochs: 2, optimizer: sgd}
    scale: {reference: {batch_size: 32, learning_rate: 0.05}, rule: auto}
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "worldsize.yml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(path: Path, text: str) -> list[str]:
    path.write_text(text)
    return [f"{each.code} {each.message}" for each in worldsize.check([path]).diagnostics]


@pytest.mark.parametrize(("processes", "code"), [(16, "WS203"), (8, None), (4, "WS204")])
def test_the_processes_of_a_job_are_compared_with_the_gpus(
    tree: Path, processes: int, code: str | None
) -> None:
    messages = found(tree / "job.yml", JOB % ("gpu-cluster", processes))
    assert [each.split()[0] for each in messages] == ([code] if code else [])
    assert code is None or f"`{GPU}`" in messages[0]
    (tree / "worldsize.yml").unlink()
    assert not found(tree / "job.yml", JOB % ("gpu-cluster", processes))


def test_a_size_without_gpus_is_known_as_one(tree: Path) -> None:
    (tree / "train.py").write_text("import torch.distributed as dist\ndist.init_process_group('nccl')\n")
    text = JOB.replace("python -c \"print('hello')\"", "python train.py\ncode: .") % ("cpu-cluster", 1)
    assert any("WS222" in each and CPU in each for each in found(tree / "job.yml", text))


def test_a_size_that_is_named_is_not_unknown_and_a_misspelt_one_is_suggested(tree: Path) -> None:
    cluster = "type: amlcompute\nname: c\nsize: %s\nmax_instances: 2\n"
    assert not found(tree / "compute.yml", cluster % GPU.lower())
    (tree / "compute.yml").write_text(cluster % GPU.replace("xyz", "xy"))
    (diagnostic,) = worldsize.check(["compute.yml"]).diagnostics
    assert (diagnostic.code, GPU in (diagnostic.help or "")) == ("WS201", True)


@pytest.mark.parametrize("name", [GPU, GPU.upper()])
def test_a_spec_is_planned_by_the_gpus_of_the_size(tree: Path, name: str) -> None:
    (tree / "spec.yml").write_text(SPEC % name)
    step = worldsize.plan("spec.yml").steps["train"]
    topology = step.topology
    assert (topology.gpus_per_instance, topology.process_count_per_instance) == (8, 8)
    assert topology.world_size == 16
    rows = {row.quantity: row for row in step.derivations}
    assert rows["gpus_per_instance"].source == f"VM size {GPU} in worldsize.yml"
    assert rows["shm_size"].value == "16g"


def test_a_run_knows_the_sizes_of_the_project(tree: Path) -> None:
    (tree / "job.yml").write_text(JOB % ("gpu-cluster", 8))
    learned = read_asset_map(Path("job.yml")).learned
    assert [size.gpus for size in learned.values()] == [8, 0]


def test_what_azure_does_not_tell_stays_unknown() -> None:
    size = vm_sizes.make_learned(GPU, 8)
    assert vm_sizes.lookup(GPU.upper(), vm_sizes.collect_learned([size])) is size
    assert vm_sizes.lookup(GPU) is None
    assert vm_sizes.intra_node_link(size) is None
    assert vm_sizes.inter_node_link(size) is None
    own = vm_sizes.make_learned("standard_nc96ads_a100_v4", 1)
    assert not vm_sizes.collect_learned([own])
