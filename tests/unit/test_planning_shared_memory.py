"""The shared memory of PyTorch steps on sizes with several GPUs: derived, pinned, left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize

SPEC = """
name: shared
compute: {{gpu: {{target: azureml:gpu-cluster, instance_type: {size}}}}}
steps:
  train:
    command: python train.py {flags}
    code: ./src
    environment: azureml:mine:1
    timeout: 3600
    distribution: {{type: {kind}}}
    {more}
"""
FOUR, EIGHT, ONE = "Standard_NC96ads_A100_v4", "Standard_ND96asr_v4", "Standard_NC24ads_A100_v4"


def write_spec(
    folder: Path, *, size: str = FOUR, kind: str = "pytorch", flags: str = "", more: str = ""
) -> Path:
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text("print()\n", encoding="utf-8")
    path = folder / "spec.yml"
    path.write_text(SPEC.format(size=size, kind=kind, flags=flags, more=more), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "shm_size: 20g  # 4 × (1 + 4) GiB"),
        ({"size": EIGHT, "flags": "--num-workers 8"}, "shm_size: 72g  # 8 × (1 + 8) GiB"),
        ({"flags": "--dataloader_num_workers=0"}, "shm_size: 4g  # 4 × (1 + 0) GiB"),
        (
            {"flags": "--workers ${{inputs.num_workers}}", "more": "with: {num_workers: 6}"},
            "shm_size: 28g  # 4 × (1 + 6) GiB",
        ),
        ({"kind": "mpi"}, "shm_size: 20g  # 4 × (1 + 4) GiB"),
        ({"more": "process_count_per_instance: 4"}, "shm_size: 20g  # 4 × (1 + 4) GiB"),
        ({"flags": "--num-workers 200"}, "shm_size: 440g  # half of 880 GiB"),  # never more than half
        ({"more": "shm_size: 9g"}, "shm_size: 9g"),
        ({"size": ONE}, None),  # a size with one GPU keeps Azure ML's own
        ({"kind": "tensorflow"}, None),
        ({"size": "Standard_D16s_v5"}, None),
    ],
)
def test_shared_memory_fits_the_size(given: dict[str, str], expected: str | None, tmp_path: Path) -> None:
    compiled = worldsize.compile(write_spec(tmp_path, **given), tmp_path / "out")
    lines = [line.strip() for line in compiled.pipeline.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if line.startswith("shm_size")] == ([expected] if expected else [])
    rows = [row for row in compiled.plan.steps["train"].derivations if row.quantity == "shm_size"]
    assert [f"shm_size: {row.value}" for row in rows] == ([expected.split("  #")[0]] if expected else [])


def test_what_a_component_says_of_its_shared_memory_stays(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    component = """
        name: own
        type: command
        command: python train.py
        code: ./src
        environment: azureml:mine:1
        distribution: {type: pytorch}
        resources: {shm_size: 6g}
    """
    lines = [line[8:] for line in component.splitlines()]
    (tmp_path / "component.yml").write_text("\n".join(lines), encoding="utf-8")
    spec = path.read_text(encoding="utf-8").split("    command:")[0] + "    uses: ./component.yml\n"
    path.write_text(spec, encoding="utf-8")
    compiled = worldsize.compile(path, tmp_path / "out")
    assert "shm_size" not in compiled.pipeline.read_text(encoding="utf-8")
