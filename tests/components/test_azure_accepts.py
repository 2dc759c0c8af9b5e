"""What we ship and what we emit is accepted by Azure's own tools: azure-ai-ml and mldesigner."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path, PurePosixPath
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


@pytest.mark.smoke
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


@pytest.mark.smoke
@pytest.mark.parametrize("name", [spec.stem for spec in SPECS])
def test_azure_builds_each_emitted_component_s_code(name: str, compiled: dict[str, Path]) -> None:
    for path in compiled[name].glob("components/*/component.yml"):
        component = azure.load_component(path)
        result = component._customized_validate()
        assert result.passed, result.error_messages
        with component._build_code() as code:
            assert code is not None
            assert (path.parent / "src").resolve() == Path(code.path).resolve()


@pytest.mark.smoke
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


@pytest.mark.smoke
@pytest.mark.parametrize("path", COMPONENTS, ids=lambda path: path.parent.name)
def test_our_snapshot_is_the_one_azure_uploads(path: Path) -> None:
    assert _ours(path) == _theirs(path)


def _ours(path: Path) -> dict[str, bytes]:
    from worldsize.azureml import component as reader
    from worldsize.azureml import snapshot
    from worldsize.azureml.copying import CopyAccess

    interface, problems = reader.read_component(path)
    assert interface is not None
    found, faults = snapshot.read_snapshot(interface, path.parent, CopyAccess())
    assert not problems + faults
    return {name: found.content(name) for name in found.listing()}


def _theirs(path: Path) -> dict[str, bytes]:
    from azure.ai.ml._utils._asset_utils import get_upload_files_from_folder

    with azure.load_component(path)._build_code() as code:
        uploaded = get_upload_files_from_folder(code.path, ignore_file=code._ignore_file)
        found = [Path(local) for local, _ in uploaded]
        return {local.relative_to(code.path).as_posix(): local.read_bytes() for local in found}


TREES: dict[str, tuple[dict[str, str], str]] = {
    "ignores-below-the-root": (
        {"src/.amlignore": "*.log\n!keep.log\n", "src/a.log": "", "src/keep.log": "",
         "src/d/.gitignore": "x\n", "src/d/x": "", "src/d/y": ""},
        "code: src",
    ),
    "ignores-below-the-root-with-includes": (
        {"src/.amlignore": "*.log\nlib/skip\n", "src/a.log": "", "src/d/.gitignore": "x\n", "src/d/x": "",
         "src/d/y": "", "lib/skip": "", "lib/b.log": "", "lib/c": "",
         "lib/deep/.amlignore": "z\n", "lib/deep/z": ""},
        "code: src\nadditional_includes: [./lib]",
    ),
    "no-code": ({".amlignore": "*.txt\n", "lib/a.txt": "", "lib/b": "", "one": ""},
                "additional_includes: [lib, ./one]"),
    "one-file": ({"src/a.py": "", "src/.gitignore": "*", "lib/b": ""},
                 "code: src/a.py\nadditional_includes: [lib]"),
    "two-of-one-name": ({"src/a": "", "x/lib/one": "1", "y/lib/one": "2", "y/lib/two": ""},
                        "code: src\nadditional_includes: [x/lib, y/lib]"),
    "caches": ({"src/__pycache__/a.pyc": "", "src/a.py": "", "lib/__pycache__/b.pyc": "", "lib/b": ""},
               "code: src\nadditional_includes: [lib]"),
}  # fmt: skip


@pytest.mark.smoke
@pytest.mark.parametrize("name", TREES)
def test_folders_are_merged_as_azure_merges_them(name: str, tmp_path: Path) -> None:
    files, yaml = TREES[name]
    for place, text in files.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    head = "type: command\nname: c\nversion: '1'\ncommand: ls\nenvironment: azureml:e:1\n"
    (tmp_path / "component.yml").write_text(f"{head}{yaml}\n")
    assert _ours(tmp_path / "component.yml") == _theirs(tmp_path / "component.yml")


PATTERNS = ["a", "a/", "/a", "a/*", "a/**", "**/a", "*.py", "!a", "a/b", "/foo/", "**", "*", "a**b", "# x",
            "\\#x", "a b ", "[ab]", "**/a/**", "a/**/b", "", "/", "!x/"]  # fmt: skip
PATHS = ["a", "a/b", "b/a", "b/a/c", "x.py", "d/x.py", "foo/x", "b/foo/x", "a/x/b", "#x", "axb", "a b", "x/y"]


@pytest.mark.smoke
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_mean_what_they_mean_to_azure(pattern: str, tmp_path: Path) -> None:
    from azure.ai.ml.entities._component.code import ComponentIgnoreFile

    from worldsize.azureml import ignore

    (tmp_path / ".amlignore").write_text(f"*.py\n{pattern}\n")
    theirs = ComponentIgnoreFile(tmp_path)
    ours = ignore.read_ignore_file(tmp_path)
    expected = [path for path in PATHS if theirs.is_file_excluded(tmp_path / path)]
    assert [path for path in PATHS if ours.excludes(PurePosixPath(path).parts)] == expected


@pytest.mark.smoke
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
