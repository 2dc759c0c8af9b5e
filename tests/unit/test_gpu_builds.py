"""Which builds of torch and TensorFlow run on which VM size: facts, environments, our own components."""

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize
from worldsize.azureml import environment, fields, gpu_support
from worldsize.azureml.environment import Installed
from worldsize.documents import yaml
from worldsize.facts import cuda, table, vm_sizes

ROOT = Path(__file__).parents[2]
SIZES = [size for name in vm_sizes.names() if (size := vm_sizes.lookup(name)) is not None and size.devices]
TRAINERS = ["train_ddp", "train_deepspeed", "train_horovod", "train_tensorflow"]


def read(path: Path) -> yaml.Node | None:
    return yaml.load(path).root if path.is_file() else None


def text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def installed(document: str, folder: Path) -> list[Installed]:
    """What an ``environment:`` installs."""
    path = folder / "job.yml"
    path.write_text(document, encoding="utf-8")
    root = yaml.load(path).root
    assert isinstance(root, yaml.Mapping)
    return environment.read_installed(fields.read_field(root, "environment"), folder, read, text)


def of_component(name: str) -> list[Installed]:
    folder = ROOT / "components" / name
    root = yaml.load(folder / "component.yml").root
    assert isinstance(root, yaml.Mapping)
    return environment.read_installed(fields.read_field(root, "environment"), folder, read, text)


@pytest.mark.parametrize("name", ["cuda_builds", "cuda_drivers", "gpu_capabilities", "node_drivers"])
def test_every_fact_has_its_source_and_its_day(name: str) -> None:
    assert all(row["source"] and row["read"] for row in table.read_rows(name))


def test_the_capability_of_every_gpu_of_the_catalogue_is_known() -> None:
    for size in SIZES:
        gpu = cuda.find_gpu(size.gpu_model)
        assert gpu is not None, size.name
        assert (gpu.capability is None) == (gpu.vendor != "NVIDIA")


def test_a_version_has_one_default_build() -> None:
    versions = {(row["package"], row["version"]) for row in table.read_rows("cuda_builds")}
    for package, version in versions:
        assert [each.default for each in cuda.find_builds(package, version)].count(True) == 1, (
            package,
            version,
        )


@pytest.mark.parametrize("component", TRAINERS)
def test_a_trainer_s_environment_runs_on_every_current_size(component: str) -> None:
    (found,) = of_component(component)
    for size in SIZES:
        if size.status == "retired" and size.series != "NCv3":
            continue  # NCv3 lives on in two regions
        verdict = gpu_support.judge_build(found, size)
        assert (verdict is not None) == (size.series == "ND_MI300X_v5"), (size.name, verdict)


@pytest.mark.parametrize("component", ["compare", "evaluate", "register", "shard_data"])
def test_steps_on_cpus_install_no_cuda(component: str) -> None:
    conda = (ROOT / "components" / component / "environment" / "conda.yml").read_text(encoding="utf-8")
    assert all(found.tag == "cpu" for found in of_component(component))
    assert {found.package for found in of_component(component)} == (
        {"torch", "tensorflow"} if "torch" in conda else set()
    )


def test_what_is_trained_is_loaded_by_the_same_torch() -> None:
    versions = {
        found.version
        for name in [*TRAINERS[:3], "compare", "evaluate", "register"]
        for found in of_component(name)
        if found.package == "torch"
    }
    assert len(versions) == 1


CONDA = "environment: {{image: i, conda_file: {{dependencies: [{{pip: [{}]}}]}}}}\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("torch==2.13.0", ("2.13.0", None)),
        ("'torch==2.13.0+cu126'", ("2.13.0", "cu126")),
        ("torch == 2.13.0", ("2.13.0", None)),
        ("torch~=2.10.0", ("2.10", None)),
        ("torch==2.10.*", ("2.10", None)),
        ("--extra-index-url https://download.pytorch.org/whl/cu126, torch==2.13.0", ("2.13.0", "cu126")),
        ("--index-url=https://download.pytorch.org/whl/cpu, torch==2.13.0", ("2.13.0", "cpu")),
        ("torch", None),
        ("torch>=2.0", None),
        ("torch~=2.10", None),
        ("torchvision==0.28.0", None),
        ("\"torch==2.13.0; sys_platform == 'win32'\"", None),
        ("--index-url https://packages.example.com/simple, torch==2.13.0", None),
        (
            "-f https://download.pytorch.org/whl/cu126, -f https://packages.example.com, torch==2.13.0",
            None,
        ),
    ],
)
def test_requirements_are_read_as_pip_reads_them(
    lines: str, expected: tuple[str, str | None] | None, tmp_path: Path
) -> None:
    found = installed(CONDA.format(lines), tmp_path)
    assert [(each.version, each.tag) for each in found] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ("azureml:AzureML-acpt-pytorch-2.2-cuda12.1@latest", ("2.2", "cu121")),
        ("azureml://registries/azureml/environments/acpt-pytorch-2.8-cuda12.6/versions/3", ("2.8", "cu126")),
        ("{image: 'pytorch/pytorch:2.6.0-cuda12.6-cudnn9-runtime'}", ("2.6", "cu126")),
        ("{image: 'mcr.microsoft.com/azureml/openmpi5.0-cuda12.4-ubuntu22.04:1'}", None),
        ("azureml:mine:3", None),
        ("{image: i, conda_file: {dependencies: [pytorch=2.4.1, pytorch-cuda=12.1]}}", ("2.4.1", "cu121")),
        ("{image: i, conda_file: {dependencies: [pytorch=2.4.1, cpuonly]}}", ("2.4.1", "cpu")),
        ("{image: i, conda_file: {dependencies: [pytorch=2.4.1]}}", None),
        ("{build: {path: context}}", ("2.13.0", "cu126")),
        ("./environment.yml", ("2.9.0", None)),
        ("[1, 2]", None),
        ("{image: [1], conda_file: 5, build: text}", None),
    ],
)
def test_every_form_of_an_environment_is_read(
    environment: str, expected: tuple[str, str | None] | None, tmp_path: Path
) -> None:
    (tmp_path / "context").mkdir()
    index = "https://download.pytorch.org/whl/cu126"
    dockerfile = f"FROM python:3.11\nRUN pip install \\\n  --index-url {index} torch==2.13.0\n"
    (tmp_path / "context" / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    (tmp_path / "environment.yml").write_text("image: i\nconda_file: ./conda.yml\n", encoding="utf-8")
    conda = "dependencies:\n  - pip:\n      - torch==2.9.0\n"
    (tmp_path / "conda.yml").write_text(conda, encoding="utf-8")
    found = installed(f"environment: {environment}\n", tmp_path)
    assert [(each.version, each.tag) for each in found] == ([expected] if expected else [])


SPEC = """
name: own
compute: {{gpu: {{target: azureml:gpu-cluster, instance_type: {size}}}}}
steps:
  train:
    command: python train.py
    code: ./src
    environment: {{image: i:1, conda_file: ./conda.yml}}
    distribution: {{type: pytorch}}
    scale: {{reference: {{batch_size: 8, learning_rate: 0.1}}, optimizer: sgd, epochs: 1, rows: 10000}}
"""


@pytest.mark.parametrize(
    ("size", "line", "code"),
    [
        ("Standard_ND40rs_v2", "torch==2.13.0", "WS270"),
        ("Standard_ND40rs_v2", "torch==2.13.0+cpu", "WS271"),
        ("Standard_NC96ads_A100_v4", "torch==2.13.0", "WS272"),
        ("Standard_ND40rs_v2", "torch==2.10.0", None),
        ("Standard_D16s_v5", "torch==2.13.0+cpu", None),
    ],
)
def test_a_spec_hears_it_at_the_version(size: str, line: str, code: str | None, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print()\n", encoding="utf-8")
    (tmp_path / "conda.yml").write_text(f"dependencies:\n  - pip:\n      - {line}\n", encoding="utf-8")
    (tmp_path / "spec.yml").write_text(SPEC.format(size=size), encoding="utf-8")
    found = [
        each for each in worldsize.check(tmp_path).diagnostics if each.code in ("WS270", "WS271", "WS272")
    ]
    assert [each.code for each in found] == ([code] if code else [])
    assert all(each.span.path.endswith("conda.yml") and each.span.line == 3 for each in found)
    if code == "WS270":
        with pytest.raises(worldsize.SpecError, match=r"compute capabilities 7\.5 to 12\.0"):
            worldsize.plan(tmp_path / "spec.yml")


def test_a_built_in_component_is_blamed_at_the_size(tmp_path: Path) -> None:
    spec = (ROOT / "pipelines" / "digits_ddp.yml").read_text(encoding="utf-8")
    spec = spec.replace("Standard_NC96ads_A100_v4", "Standard_ND96isr_MI300X_v5")
    (tmp_path / "spec.yml").write_text(spec, encoding="utf-8")
    (found,) = [each for each in worldsize.check(tmp_path).diagnostics if each.code == "WS270"]
    assert "GPUs of AMD" in found.message
    line = spec.splitlines()[found.span.line - 1]
    assert line[found.span.column - 1 :].startswith("Standard_ND96isr_MI300X_v5")
