"""What we ship and what we emit is accepted by Azure's own tools: azure-ai-ml and mldesigner."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import worldsize

pytestmark = [pytest.mark.run, pytest.mark.filterwarnings("ignore")]
azure = pytest.importorskip("azure.ai.ml", exc_type=ImportError)

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "pipelines").glob("*.yml"))
COMPONENTS = sorted((ROOT / "components").glob("*/component.yml"))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("compiled")
    return {spec.stem: worldsize.compile(spec, folder / spec.stem).folder for spec in SPECS}


def accepted(load: Callable[[Path], Any], path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entity = load(path)
        if hasattr(entity, "_validate"):
            result = entity._validate()
            assert result.passed, f"{path.name}: {result.error_messages}"
        entity._to_rest_object()
    return entity


@pytest.mark.parametrize("name", [spec.stem for spec in SPECS])
def test_azure_accepts_every_emitted_file(name: str, compiled: dict[str, Path]) -> None:
    folder = compiled[name]
    job = accepted(azure.load_job, folder / "pipeline.yml")
    assert job.jobs
    for path in folder.glob("components/*/component.yml"):
        accepted(azure.load_component, path)
    for path in folder.glob("compute/*.yml"):
        accepted(azure.load_compute, path)
    if (folder / "schedule.yml").exists():
        from azure.ai.ml.entities._load_functions import load_schedule  # the public name is gone in 1.35

        accepted(load_schedule, folder / "schedule.yml")


@pytest.mark.parametrize("name", [spec.stem for spec in SPECS])
def test_azure_builds_each_emitted_component_s_code(name: str, compiled: dict[str, Path]) -> None:
    for path in compiled[name].glob("components/*/component.yml"):
        component = azure.load_component(path)
        result = component._customized_validate()
        assert result.passed, result.error_messages
        with component._build_code() as code:
            assert code is not None
            assert (path.parent / "src").resolve() == Path(code.path).resolve()


@pytest.mark.parametrize("path", COMPONENTS, ids=lambda path: path.parent.name)
def test_azure_accepts_every_component(path: Path) -> None:
    component = accepted(azure.load_component, path)
    assert component._customized_validate().passed


@pytest.mark.timeout(180)
@pytest.mark.parametrize("path", COMPONENTS, ids=lambda path: path.parent.name)
def test_mldesigner_compiles_every_component(path: Path, tmp_path: Path) -> None:
    command = [
        Path(sys.executable).with_name("mldesigner"),
        "compile",
        "--source",
        path,
        "--output",
        tmp_path,
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    written = list(tmp_path.rglob("component.yml")) + list(tmp_path.rglob(f"{path.parent.name}*.yml"))
    assert written, sorted(tmp_path.rglob("*"))


@pytest.mark.parametrize("path", COMPONENTS, ids=lambda path: path.parent.name)
def test_our_snapshot_is_the_one_azure_uploads(path: Path) -> None:
    from azure.ai.ml._utils._asset_utils import get_upload_files_from_folder

    from worldsize.azureml import component as reader
    from worldsize.azureml import snapshot

    interface, problems = reader.read(path)
    assert interface is not None
    assert not problems
    ours, problems = snapshot.of(interface, path.parent)
    assert not problems
    with azure.load_component(path)._build_code() as code:
        uploaded = get_upload_files_from_folder(code.path, ignore_file=code._ignore_file)
        found = [Path(local) for local, _ in uploaded]
        theirs = {local.relative_to(code.path).as_posix(): local.read_bytes() for local in found}
    assert {name: ours.content(name) for name in ours.listing()} == theirs


def test_components_load_for_a_pipeline_in_python() -> None:
    assert worldsize.components.names() == [path.parent.name for path in COMPONENTS]
    with pytest.raises(LookupError, match="did you mean `train_ddp`"):
        worldsize.components.path("train_dpp")
    shard_data = worldsize.components.load("shard_data")
    train = worldsize.components.load("train_ddp")

    @azure.dsl.pipeline(compute="azureml:cpu-cluster")
    def pipeline() -> None:
        shards = shard_data(source="builtin:digits")
        plan = {"world_size": 1, "batch_size_per_device": 32, "global_batch_size": 32, "learning_rate": 0.1}
        train(shards=shards.outputs.shards, **plan)

    job = pipeline()
    assert job._validate().passed
    assert len(job.jobs) == 2
