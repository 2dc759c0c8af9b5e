"""Compiled pipelines in Python: a folder with all that the pipeline needs, wherever it lies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from worldsize.cli.main import main

pytestmark = [
    pytest.mark.run,
    pytest.mark.smoke,
    pytest.mark.filterwarnings("default"),
]  # the client uses what is deprecated

azure = pytest.importorskip("azure.ai.ml")

import worldsize  # noqa: E402
from worldsize.running.model.folder import read_reference  # noqa: E402

PREPARE = """\
name: prepare
type: command
inputs: {rows: {type: uri_file}}
outputs: {out: {type: uri_folder}}
code: ./code
command: python copy_rows.py ${{inputs.rows}} ${{outputs.out}}
environment: {image: "ubuntu:24.04", conda_file: ./conda.yml}
"""
PIPELINE = """
from azure.ai.ml import Input, Output, command, dsl, load_component
from azure.ai.ml.sweep import Uniform
import worldsize

prepare = load_component("prepare/component.yml")
fit = command(
    name="fit",
    code="./src",
    command="python train.py ${{inputs.learning_rate}} ${{inputs.batch_size_per_device}} ${{outputs.model}}",
    inputs={
        "rows": Input(type="uri_folder"),
        "learning_rate": Input(type="number"),
        "batch_size_per_device": Input(type="integer"),
    },
    outputs={"model": Output(type="uri_folder")},
    environment="azureml:acpt@latest",
    distribution={"type": "pytorch"},
    instance_count=2,
    compute="gpu-cluster",
)
rows = Input(type="uri_file", path="./rows.csv")

@dsl.pipeline(display_name="Rows", description="Fits rows.", compute="cpu-cluster")
def own(rows, folds=3):
    ready = prepare(rows=rows)
    train = fit(rows=ready.outputs.out)
    train.set_limits(timeout=600)
    return {"model": train.outputs.model}

def planned():
    job = own(rows=rows)
    scale = {"reference": {"batch_size": 32, "learning_rate": 0.05}, "optimizer": "sgd"}
    types = {"gpu-cluster": "Standard_NC96ads_A100_v4"}
    worldsize.plan(job, instance_types=types, scale={"train": scale})
    return job

@dsl.pipeline
def inner(given):
    first = prepare(rows=given)
    second = prepare(rows=rows)
    train = fit(rows=first.outputs.out, learning_rate=0.1, batch_size_per_device=2)
    return {"model": train.outputs.model}

@dsl.pipeline(compute="cpu-cluster")
def outer(given):
    both = inner(given=given)
    tuned = fit(rows=both.outputs.model, learning_rate=Uniform(0.1, 0.2), batch_size_per_device=3)
    limit = {"max_total_trials": 2}
    again = tuned.sweep(sampling_algorithm="random", primary_metric="loss", goal="minimize", **limit)

def nested():
    return outer(given=rows)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("import sys\nprint(sys.argv[1:3])\n")
    (tmp_path / "prepare" / "code").mkdir(parents=True)
    (tmp_path / "prepare" / "code" / "copy_rows.py").write_text(
        "import shutil, sys\nshutil.copy(*sys.argv[1:])\n"
    )
    (tmp_path / "prepare" / "conda.yml").write_text("dependencies: [python=3.11]\n")
    (tmp_path / "prepare" / "component.yml").write_text(PREPARE)
    (tmp_path / "pipe.py").write_text(PIPELINE)
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compile_pipeline(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["compile", *arguments])


def test_the_folder_holds_all_that_the_pipeline_needs(project: Path) -> None:
    result = compile_pipeline("pipe.py:planned", "-o", "build")
    assert result.exit_code == 0, result.output
    assert "az ml job create -f build/pipeline.yml" in result.stdout
    document = yaml.safe_load(Path("build/pipeline.yml").read_text())
    assert document["display_name"] == "Rows"
    assert document["description"] == "Fits rows."
    assert document["inputs"] == {"folds": 3, "rows": {"type": "uri_file", "path": "../rows.csv"}}
    assert document["outputs"] == {"model": {"type": "uri_folder"}}
    assert document["jobs"]["ready"]["component"] == "./components/prepare/component.yml"
    train = document["jobs"]["train"]
    assert train["inputs"]["batch_size_per_device"] == 32
    assert train["inputs"]["learning_rate"] == 0.4
    assert train["distribution"]["process_count_per_instance"] == 4
    assert json.loads(Path("build/plan.json").read_text())["steps"]["train"]["topology"]["world_size"] == 8
    written = {str(path.relative_to("build")) for path in Path("build").rglob("*") if path.is_file()}
    assert {"components/fit/src/train.py", "components/prepare/environment/conda.yml"} <= written
    assert not [name for name in written if str(project) in Path("build", name).read_text()]
    assert azure.load_job("build/pipeline.yml")._validate().passed
    again = compile_pipeline("pipe.py:planned", "-o", "build", "--json")
    assert json.loads(again.stdout)["files"] == sorted(written)


def test_the_folder_is_checked_and_runs_elsewhere(project: Path) -> None:
    worldsize.compile("pipe.py:planned", "build/fit")
    shutil.copytree("build", "elsewhere/there")
    shutil.copy("rows.csv", "elsewhere")
    for name in ("src", "prepare", "pipe.py", "rows.csv", ".worldsize"):
        (project / name).rename(project / f"no-{name.lstrip('.')}")
    shutil.copy("no-rows.csv", "elsewhere/rows.csv")
    assert not worldsize.check("elsewhere").errors
    options = worldsize.RunOptions(processes=2, environment="current")
    result = worldsize.run("elsewhere/there/fit/pipeline.yml", options, track=False)
    assert result.state == "succeeded", result
    log = (result.folder / "steps" / "train" / "logs" / "rank-1.log").read_text()
    assert "['0.4', '32']" in log


def test_what_is_written_of_a_pipeline_is_named_and_ignored_by_git(project: Path) -> None:
    worldsize.check("pipe.py:planned")
    assert Path(".worldsize/.gitignore").read_text() == "*\n"
    written = Path(".worldsize/pipelines/pipe-planned/pipeline.yml")
    assert read_reference(written) == "pipe.py:planned"


def test_pipelines_in_the_pipeline_and_sweeps(project: Path) -> None:
    """A parameter without an annotation has the type of the input that it is given to."""
    compiled = worldsize.compile("pipe.py:nested", "build")
    assert compiled.plan.steps == {}
    assert not [name for name in compiled.files if str(project).encode() in Path("build", name).read_bytes()]
    inner = yaml.safe_load(Path("build/components/inner/component.yml").read_text())
    assert inner["inputs"] == {"given": {"type": "uri_file"}}
    assert inner["jobs"]["first"]["component"] == "../prepare/component.yml"
    assert inner["jobs"]["second"]["inputs"]["rows"]["path"] == "../../../rows.csv"
    assert Path("build/components/fit/src/train.py").is_file()
    assert azure.load_job("build/pipeline.yml")._validate().passed
    assert not worldsize.check("build").errors
    dry = CliRunner().invoke(main, ["run", "build/pipeline.yml", "--dry-run"])
    assert dry.exit_code == 0, dry.output


def test_a_job_is_compiled_with_built_in_components(project: Path) -> None:
    shard_data = worldsize.components.load("shard_data")

    @azure.dsl.pipeline(compute="cpu-cluster")
    def digits():
        shard_data(source="builtin:digits")

    compiled = worldsize.compile(digits(), "build")
    assert compiled.pipeline.is_file()
    assert "components/shard_data/component.yml" in compiled.files
    assert str(project) not in compiled.pipeline.read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pipe.py", "-o", "build"], "`pipe.py:own`"),
        (["pipe.py:planned", "-o", "src"], "was not written by `worldsize compile`"),
        (["pipe.py:planned", "-o", "build", "--set", "folds=2"], "`--set` is for specs"),
        (["pipe.py:planed", "-o", "build"], "did you mean `pipe.py:planned`?"),
    ],
)
def test_refusals(project: Path, arguments: list[str], says: str) -> None:
    result = compile_pipeline(*arguments)
    assert result.exit_code == 1
    assert says in " ".join(result.output.split())
    assert not Path("build").exists()


def test_an_error_in_the_pipeline_keeps_it_from_being_written(project: Path) -> None:
    text = PIPELINE.replace("planned():", "wrong():").replace("azureml:acpt@latest", "./missing.yml")
    (project / "pipe.py").write_text(text.replace('code="./src"', 'code="./sources"'))
    result = compile_pipeline("pipe.py:wrong", "-o", "build")
    assert result.exit_code == 1, result.output
    assert not Path("build").exists()
