"""What a spec from elsewhere cannot do: copy files from outside of its project, write outside of its run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import worldsize
from worldsize.documents.errors import SpecError
from worldsize.running.model.errors import RunError
from worldsize.running.prepare import preparation

SPEC = """\
name: digits
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}
steps:
  train:
    command: python train.py
    environment: ENVIRONMENT
    compute: gpu
    code: CODE
"""
JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
settings: {default_compute: azureml:cluster}
jobs:
  train:
    type: command
    command: python train.py
    environment: azureml:e:1
    code: CODE
"""
PARALLEL = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
settings: {default_compute: azureml:cluster}
jobs:
  score:
    type: parallel
    inputs: {data: {type: uri_folder, path: ./data}}
    input_data: ${{inputs.data}}
    mini_batch_size: "2"
    resources: {instance_count: 1}
    task: {type: run_function, code: ./src, entry_script: train.py, environment: azureml:e:1}
"""
ORDINARY = "azureml:my-training:4"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with code, beside a home folder with a key."""
    home, project = tmp_path / "private", tmp_path / "project"
    (home / "keys").mkdir(parents=True)
    (home / "keys" / "train.py").write_text("print('secret')")
    (home / "keys" / "conda.yml").write_text("dependencies: [python=3.11]")
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    (project / "src" / "train.py").write_text("def run(batch): return batch")
    monkeypatch.chdir(project)
    return project


def compiled(code: str, environment: str = ORDINARY) -> set[str]:
    text = SPEC.replace("CODE", code).replace("ENVIRONMENT", environment)
    Path("spec.yml").write_text(text, encoding="utf-8")
    return set(worldsize.compile("spec.yml", "build").files)


def said(code: str, environment: str = ORDINARY) -> set[str]:
    """The slugs of the errors of a compile that is refused, and that wrote nothing."""
    with pytest.raises(SpecError) as caught:
        compiled(code, environment)
    assert not Path("build").exists()
    return {each.slug for each in caught.value.diagnostics if each.severity == "error"}


def prepared(text: str, tmp_path: Path) -> str:
    """What is said of a job that cannot be run."""
    Path("job.yml").write_text(text, encoding="utf-8")
    with pytest.raises((RunError, SpecError)) as caught:
        preparation.prepare(Path("job.yml"), tmp_path / "pipeline")
    return str(caught.value)


def test_code_of_the_project_is_copied(project: Path) -> None:
    assert any(name.endswith("src/train.py") for name in compiled("./src"))


@pytest.mark.parametrize("code", ["../private/keys", "../../..", "/", "/etc"])
def test_code_outside_is_refused_before_it_is_listed(project: Path, tmp_path: Path, code: str) -> None:
    assert said(code) == {"code-outside-tree"}
    assert "is outside the" in prepared(JOB.replace("CODE", code), tmp_path)


def test_a_comment_in_the_file_does_not_allow_it(project: Path, tmp_path: Path) -> None:
    code = "../private/keys  # worldsize: ignore[WS815]"
    assert said(code) == {"copy-outside-tree"}
    assert "is outside the" in prepared(JOB.replace("CODE", code), tmp_path)


def test_a_link_in_the_code_that_leads_out_is_refused(project: Path, tmp_path: Path) -> None:
    (project / "src" / "data").symlink_to(tmp_path / "private" / "keys")
    assert said("./src") == {"copy-outside-tree"}
    assert "`data` is" in prepared(JOB.replace("CODE", "./src"), tmp_path)


def test_the_files_of_an_environment_count_too(project: Path) -> None:
    assert said("./src", "{image: base:1, conda_file: ../private/keys/conda.yml}") == {"copy-outside-tree"}


def test_the_driver_of_a_parallel_step_is_ours_wherever_it_is_installed(
    project: Path, tmp_path: Path
) -> None:
    (project / "data").mkdir()
    Path("job.yml").write_text(PARALLEL, encoding="utf-8")
    preparation.prepare(Path("job.yml"), tmp_path / "pipeline")
    (project / "src" / "key").symlink_to(tmp_path / "private" / "keys" / "train.py")
    said = prepared(PARALLEL, tmp_path)
    assert "`key` is" in said
    assert "worldsize_parallel" not in said


def test_what_the_settings_allow_is_copied(project: Path) -> None:
    (project / "worldsize.yml").write_text("allow: [../private/keys]\n")
    assert any(name.endswith("src/train.py") for name in compiled("../private/keys"))


def test_without_a_checkout_nothing_is_known_of_where_the_project_ends(project: Path) -> None:
    (project / ".git").rmdir()
    assert any(name.endswith("src/train.py") for name in compiled("../private/keys"))


def test_links_in_a_circle_and_pipes_are_no_files(project: Path, tmp_path: Path) -> None:
    (project / "src" / "again").symlink_to(".")
    (project / "src" / "itself").symlink_to("itself")
    (project / "src" / "zero").symlink_to("/dev/zero")
    os.mkfifo(project / "src" / "pipe")
    assert {name.rpartition("/")[2] for name in compiled("./src") if "/src/" in name} == {"train.py"}
    (project / "build").rename(tmp_path / "build")
    for code in ("./src/pipe", "./src/zero"):
        assert said(code) & {"code-missing", "code-outside-tree"}


def test_a_name_that_is_no_text_is_refused(project: Path) -> None:
    Path(os.fsdecode(bytes(project / "src" / "caf") + b"\xe9.py")).write_text("x")
    assert said("./src") == {"file-name-not-text"}


@pytest.mark.parametrize("name", ["-rf", "a\nb", "$(touch pwned)", "q'\"x", "b\\s"])
def test_odd_names_are_copied_as_they_are(project: Path, name: str) -> None:
    (project / "src" / name).write_text("x")
    assert any(file.endswith(f"/{name}") for file in compiled("./src"))
    assert not list(project.rglob("pwned"))


IGNORED = "# worldsize: ignore[WS154, WS655, WS805, WS806]"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            [f"    outputs:\n      ../../../x: {{type: uri_folder}}  {IGNORED}"],
            "cannot be the name of a file",
        ),
        ([f"    inputs:\n      ../../../x: 3  {IGNORED}"], "cannot be the name of a file"),
        ([f'    environment_variables:\n      "A=B": x  {IGNORED}'], "is not a valid name of a variable"),
        ([f'    environment_variables:\n      A: "x\\0y"  {IGNORED}'], "contains a NUL character"),
        ([f'    inputs:\n      a: "x\\0y"  {IGNORED}'], "contains a NUL character"),
    ],
)
def test_names_and_texts_that_nothing_can_have_are_refused_though_a_comment_hides_them(
    project: Path, tmp_path: Path, lines: list[str], said: str
) -> None:
    assert said in prepared("\n".join([JOB.replace("CODE", "./src").rstrip(), *lines, ""]), tmp_path)


def test_a_step_cannot_be_called_like_a_folder_above(project: Path, tmp_path: Path) -> None:
    text = JOB.replace("CODE", "./src").replace("  train:", f"  ../../../x:  {IGNORED}")
    assert "cannot be the name of a folder" in prepared(text, tmp_path)


def test_without_a_known_boundary_a_link_out_of_the_folder_is_copied_with_a_warning(project: Path) -> None:
    (project / ".git").rmdir()
    (project / "src" / "keys").symlink_to(project.parent / "private" / "keys")
    (project / "src" / "key.py").symlink_to(project.parent / "private" / "keys" / "train.py")
    (project / "src" / "same.py").symlink_to("train.py")
    (project / "pipeline.yml").write_text(JOB.replace("CODE", "./src"), encoding="utf-8")
    text = SPEC.replace("CODE", "./src").replace("ENVIRONMENT", ORDINARY)
    (project / "spec.yml").write_text(text, encoding="utf-8")
    compiled = worldsize.compile("spec.yml", "build")
    assert "components/train/src/keys/train.py" in compiled.files
    for found in (worldsize.check("pipeline.yml").diagnostics, compiled.warnings):
        warned = [each for each in found if each.slug == "code-outside-tree"]
        assert {each.severity for each in warned} == {"warning"}
        assert [each.message.partition(" is a link to `")[0] for each in warned] == ["`key.py`", "`keys`"]
    (project / "worldsize.yml").write_text(f"allow: [{project.parent / 'private' / 'keys'}]\n")
    assert not [each for each in worldsize.check("pipeline.yml").diagnostics if "link" in each.message]
    (project / "worldsize.yml").write_text("severity: {}\n")
    with pytest.raises(SpecError):
        worldsize.compile("spec.yml", "build")
