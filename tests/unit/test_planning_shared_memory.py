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


OPTION = 'parser.add_argument("--{name}", type=int{more})\nDataLoader(data, num_workers=args.workers)\n'


@pytest.mark.parametrize(
    ("script", "flags", "expected"),
    [
        (OPTION.format(name="workers", more=", default=2"), "", "12g  # 4 × (1 + 2) GiB"),
        (OPTION.format(name="num-workers", more=", default=0"), "", "4g  # 4 × (1 + 0) GiB"),
        (OPTION.format(name="workers", more=", default=2"), "--workers 3", "16g  # 4 × (1 + 3) GiB"),
        ("DataLoader(data, num_workers=6)\n", "", "28g  # 4 × (1 + 6) GiB"),
        ("DataLoader(train)\nDataLoader(test)\n", "", "4g  # 4 × (1 + 0) GiB"),
        # What is not a number of the script itself, or not one number, is assumed.
        (OPTION.format(name="workers", more=""), "", "20g  # 4 × (1 + 4) GiB"),
        (
            "import os\n" + OPTION.format(name="workers", more=", default=os.cpu_count()"),
            "",
            "20g  # 4 × (1 + 4) GiB",
        ),
        ("DataLoader(train, num_workers=2)\nDataLoader(test, num_workers=1)\n", "", "20g  # 4 × (1 + 4) GiB"),
        ("DataLoader(train, **options)\n", "", "20g  # 4 × (1 + 4) GiB"),
        ("DataLoader(train\n", "", "20g  # 4 × (1 + 4) GiB"),
    ],
)
def test_the_script_says_how_many_workers_there_are(
    script: str, flags: str, expected: str, tmp_path: Path
) -> None:
    spec = write_spec(tmp_path, flags=flags)
    (tmp_path / "src" / "train.py").write_text(script, encoding="utf-8")
    value, _, formula = expected.partition("  # ")
    (row,) = (each for each in worldsize.plan(spec).steps["train"].derivations if each.quantity == "shm_size")
    assert (row.value, row.formula) == (value, formula)


def test_a_command_names_an_input_of_any_name(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, flags="--workers ${{inputs.readers}}", more="with: {readers: 2}")
    (row,) = (each for each in worldsize.plan(spec).steps["train"].derivations if each.quantity == "shm_size")
    assert (row.value, row.source) == ("12g", "given as train.with.readers")
