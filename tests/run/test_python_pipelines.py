"""Pipelines in Python: their nodes, their plan, what `check` says of them, and a run."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = [pytest.mark.run, pytest.mark.smoke]
pytestmark += [pytest.mark.filterwarnings("default")]  # the client uses what is deprecated

azure = pytest.importorskip("azure.ai.ml")

import worldsize  # noqa: E402

GPU = {"gpu-cluster": "Standard_NC96ads_A100_v4"}
SCALE = {"reference": {"batch_size": 32, "learning_rate": 0.05}, "warmup_epochs": 1}


def make_job(*, instance_count: int = 2, **train_inputs: Any) -> Any:
    shard_data, train_ddp, evaluate, register = map(
        worldsize.components.load, ("shard_data", "train_ddp", "evaluate", "register")
    )

    @azure.dsl.pipeline(compute="cpu-cluster")
    def digits(epochs=3):  # the client does not take annotations that are text
        shard = shard_data(source="builtin:digits")
        train = train_ddp(shards=shard.outputs.shards, epochs=epochs, **train_inputs)
        train.compute = "gpu-cluster"
        train.resources.instance_count = instance_count
        score = evaluate(model=train.outputs.model, shards=shard.outputs.shards)
        register(
            model=train.outputs.model,
            metrics=score.outputs.metrics,
            model_name="digits",
            gate="accuracy >= 0.9",
        )
        return {"model": train.outputs.model}

    return digits()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_nodes_share_no_settings() -> None:
    train_ddp = worldsize.components.load("train_ddp")

    @azure.dsl.pipeline()
    def pipeline() -> None:
        first, second = train_ddp(), train_ddp()
        first.resources.instance_count = 4
        first.distribution.process_count_per_instance = 8
        assert second.resources.instance_count == 1
        assert second.distribution.process_count_per_instance is None

    assert [node["resources"]["instance_count"] for node in pipeline()._to_dict()["jobs"].values()] == [4, 1]
    assert train_ddp.resources is None  # as it would be registered


def test_a_plan_fills_the_nodes_and_the_job_is_clean() -> None:
    job = make_job()
    plan = worldsize.plan(job, instance_types=GPU, scale={"train": SCALE})
    assert plan.steps["train"].topology.world_size == 8
    nodes = job._to_dict()["jobs"]
    assert nodes["shard"]["inputs"]["shard_count"] == 8
    inputs = nodes["train"]["inputs"]
    assert (inputs["world_size"], inputs["global_batch_size"], inputs["learning_rate"]) == (8, 256, 0.4)
    assert nodes["train"]["distribution"]["process_count_per_instance"] == 4
    assert nodes["train"]["resources"] == {"instance_count": 2, "shm_size": "8g"}
    assert job._validate().passed
    report = worldsize.check(job)
    assert [(each.code, each.message) for each in report.diagnostics if each.severity != "info"] == [
        ("WS720", "2 GPU instances run step `train` with no time limit")  # known of the plan's sizes only
    ]


def test_a_plan_knows_the_sizes_of_the_project(here: Path) -> None:
    (here / "worldsize.yml").write_text("vm_sizes: {Standard_ND256xyz_v9: {gpus: 8}}\n")
    types = {"gpu-cluster": "Standard_ND256xyz_v9"}
    plan = worldsize.plan(make_job(), instance_types=types, scale={"train": SCALE})
    assert plan.steps["train"].topology.world_size == 16


def test_a_value_that_is_given_is_verified() -> None:
    job = make_job(global_batch_size=100)
    with pytest.raises(worldsize.SpecError, match="100"):
        worldsize.plan(job, instance_types=GPU, scale={"train": SCALE})


@pytest.mark.parametrize(
    ("instance_types", "scale", "says"),
    [
        (GPU, {"trian": SCALE}, "the pipeline has no node `trian`, which `scale` names"),
        ({"gpu": "Standard_NC6s_v3"}, {}, "no node runs on `gpu`, which `instance_types` names"),
    ],
)
def test_names_that_the_job_does_not_have(instance_types: Any, scale: Any, says: str) -> None:
    with pytest.raises(worldsize.PipelineError, match=says):
        worldsize.plan(make_job(), instance_types=instance_types, scale=scale)


def test_what_is_written_is_what_the_client_wrote(here: Path) -> None:
    """Also components without a file: `command()`, and a pipeline inside of the pipeline."""
    echo = azure.command(
        name="echo",
        command="echo ${{inputs.text}}",
        environment=azure.entities.Environment(image="ubuntu:24.04"),
        inputs={"text": "a"},
    )

    @azure.dsl.pipeline()
    def inner(text="c"):
        echo(text=text)

    @azure.dsl.pipeline(compute="cpu-cluster")
    def outer(text="b"):
        echo(text=text)
        inner(text=text)

    from worldsize.dsl.verbs import find_file

    path = Path(find_file(outer()))
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert list(written["jobs"]) == ["echo", "inner"]
    assert written["jobs"]["echo"]["component"]["environment"] == {"image": "ubuntu:24.04"}
    inside = yaml.safe_load((path.parent / written["jobs"]["inner"]["component"]).read_text(encoding="utf-8"))
    assert inside["jobs"]["echo"]["inputs"] == {"text": "${{parent.inputs.text}}"}
    loaded = azure.load_job(path)
    assert loaded._validate().passed
    assert [found.code for found in worldsize.check(path).diagnostics if found.severity == "error"] == []


def make_own_node(here: Path, inputs: dict[str, str], **values: Any) -> Any:
    """A pipeline of one `command()` whose script takes these inputs."""
    (here / "src").mkdir(exist_ok=True)
    (here / "src" / "train.py").write_text("import argparse\n")
    flags = " ".join(f"--{name} ${{{{inputs.{name}}}}}" for name in inputs)
    fit = azure.command(
        code=str(here / "src"),
        command=f"python train.py {flags}",
        environment=azure.entities.Environment(image="ubuntu:24.04"),
        inputs={name: azure.Input(type=kind) for name, kind in inputs.items()},
        distribution={"type": "pytorch"},
        instance_count=2,
        compute="gpu-cluster",
    )

    @azure.dsl.pipeline(compute="cpu-cluster")
    def mine():
        train = fit(**values)  # noqa: F841 - the node has the variable's name

    return mine()


OWN = {"reference": {"batch_size": 32, "learning_rate": 0.05}, "optimizer": "sgd"}


def test_nodes_of_command_are_planned(here: Path) -> None:
    job = make_own_node(here, {"learning_rate": "number", "batch_size_per_device": "integer"})
    plan = worldsize.plan(job, instance_types=GPU, scale={"train": OWN})
    assert plan.steps["train"].topology.world_size == 8
    node = job._to_dict()["jobs"]["train"]
    assert node["inputs"] == {"learning_rate": 0.4, "batch_size_per_device": 32}
    assert node["distribution"]["process_count_per_instance"] == 4
    assert worldsize.check(job, min_severity="error").diagnostics == ()


def test_sizes_of_clusters_come_from_the_settings(here: Path) -> None:
    (here / "worldsize.yml").write_text(
        "compute: {gpu-cluster: {instance_type: Standard_NC96ads_A100_v4, max_instances: 4}}\n"
    )
    job = make_own_node(here, {"learning_rate": "number", "batch_size_per_device": "integer"})
    assert worldsize.plan(job, scale={"train": OWN}).steps["train"].topology.world_size == 8


def test_an_input_that_the_plan_does_not_reach_is_named(here: Path) -> None:
    job = make_own_node(here, {"lr": "number", "size": "integer"}, lr=0.1, size=32)
    with pytest.warns(UserWarning, match="does not reach it") as caught:
        worldsize.plan(job, instance_types=GPU, scale={"train": OWN})
    messages = [str(each.message).split(", so ") for each in caught if each.category is UserWarning]
    assert messages == [
        [
            "node `train` has no input `batch_size_per_device`",
            "the planned value 32 does not reach it: add one to its component",
        ],
        [
            "node `train` has no input `learning_rate`",
            "the planned value 0.4 does not reach it: give its input `lr` the text `${{plan.learning_rate}}`",
        ],
    ]
    assert all(each.filename == __file__ for each in caught if each.category is UserWarning)


def test_an_input_with_the_planned_value_is_right(here: Path) -> None:
    job = make_own_node(here, {"lr": "number", "batch_size": "integer"}, lr=0.4, batch_size=32)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        worldsize.plan(job, instance_types=GPU, scale={"train": OWN})


def test_an_input_may_name_a_planned_value(here: Path) -> None:
    values = {"lr": "${{plan.learning_rate}}", "size": "${{plan.batch_size_per_device}}"}
    job = make_own_node(here, {"lr": "number", "size": "integer"}, **values)
    (unplanned, _) = worldsize.check(job, select=["WS621"]).diagnostics
    assert "in Python call `worldsize.plan(job)` first" in str(unplanned.help)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        worldsize.plan(job, instance_types=GPU, scale={"train": OWN})
    assert job._to_dict()["jobs"]["train"]["inputs"] == {"lr": 0.4, "size": 32}
    assert worldsize.check(job, min_severity="error").diagnostics == ()


SERVERLESS = {"instance_type": GPU["gpu-cluster"], "instance_count": 2}


@pytest.mark.parametrize(("default", "own"), [("gpu-cluster", None), (None, "serverless")])
def test_where_a_node_may_say_that_it_runs(here: Path, default: str | None, own: str | None) -> None:
    job = make_own_node(here, {"learning_rate": "number", "batch_size_per_device": "integer"})
    node = job.jobs["train"]
    job.compute, job.settings.default_compute, node.compute = None, default, own
    node.resources = SERVERLESS if own else node.resources
    plan = worldsize.plan(job, instance_types={} if own else GPU, scale={"train": OWN})
    assert plan.steps["train"].topology.world_size == 8


def test_other_resources_and_limits_of_a_node_are_known(here: Path) -> None:
    job = make_own_node(here, {"learning_rate": "number", "batch_size_per_device": "integer"})
    node = job.jobs["train"]
    node.resources = azure.entities.ResourceConfiguration(instance_count=2)  # has no shared memory
    node.set_limits(timeout=3600)
    worldsize.plan(job, instance_types=GPU, scale={"train": OWN})
    found = yaml.safe_load(next(here.glob(".worldsize/pipelines/*/spec.yml")).read_text(encoding="utf-8"))
    assert found["steps"]["train"]["timeout"] == 3600


def test_local_data_is_written_by_its_path(here: Path) -> None:
    paths = {
        "here": "rows",
        "store": "azureml://datastores/workspaceblobstore/paths/rows",
        "asset": "azureml:rows:1",
    }
    show = azure.command(
        command="ls " + " ".join(f"${{{{inputs.{name}}}}}" for name in ("top", *paths)),
        environment=azure.entities.Environment(image="ubuntu:24.04"),
        inputs={name: azure.Input(type="uri_folder") for name in ("top", *paths)},
    )

    @azure.dsl.pipeline(compute="cpu-cluster")
    def look(top):
        show(top=top, **{name: azure.Input(type="uri_folder", path=path) for name, path in paths.items()})

    (here / "worldsize.yml").write_text("region: eastus\n")  # the project ends here
    job = look(top=azure.Input(type="uri_folder", path="./rows"))
    missing = worldsize.check(job, select=["WS5"]).diagnostics
    assert [found.code for found in missing] == ["WS501", "WS501"]
    (here / "rows").mkdir()
    (here / "rows" / "a.csv").write_text("a\n1\n")
    assert worldsize.check(job, select=["WS5"]).diagnostics == ()
    written = yaml.safe_load(
        next(here.glob(".worldsize/pipelines/*/pipeline.yml")).read_text(encoding="utf-8")
    )
    (node,) = written["jobs"].values()
    inputs = {name: value["path"] for name, value in node["inputs"].items() if name in paths}
    assert inputs == {**paths, "here": str(here / "rows")}
    assert written["inputs"]["top"]["path"] == str(here / "rows")


def test_a_data_input_without_a_value_is_missing(here: Path) -> None:
    job = make_own_node(here, {"data": "uri_folder"})
    report = worldsize.check(job, min_severity="error")
    assert repr(report) == "<Report: 1 file checked, 1 finding>"  # without the texts of its files
    assert "the input `data` of step `train` has `type: uri_folder` but no `path`" in str(report)


def test_a_node_that_cannot_be_planned_is_named(here: Path) -> None:
    echo = azure.command(command="echo", environment="azureml:a:1")

    @azure.dsl.pipeline()
    def inner():
        echo()

    @azure.dsl.pipeline(compute="cpu-cluster")
    def outer():
        train = inner()  # noqa: F841

    with pytest.raises(worldsize.PipelineError, match="cannot be planned: it is a pipeline node"):
        worldsize.plan(outer(), scale={"train": OWN})
    with pytest.raises(worldsize.PipelineError, match="has no node that can be planned"):
        worldsize.plan(outer())


@pytest.mark.parametrize("verb", [worldsize.check, worldsize.plan, worldsize.run])
def test_a_single_node_or_component_is_no_pipeline(here: Path, verb: Any) -> None:
    node = azure.command(command="echo", environment="azureml:a:1", compute="cpu-cluster")
    with pytest.raises(worldsize.PipelineError, match=r"is a single `Command` of azure-ai-ml"):
        verb(node)
    with pytest.raises(worldsize.PipelineError, match=r"is a single `\w*Component`"):
        verb(worldsize.components.load("evaluate"))


PLANNED = """
import sys
sys.path.insert(0, {tests!r})
import worldsize
from test_python_pipelines import GPU, SCALE, make_job

def digits():
    job = make_job()
    worldsize.plan(job, instance_types=GPU, scale={{"train": SCALE}})
    return job
"""


@pytest.mark.timeout(120)
def test_a_planned_pipeline_is_planned_again_for_fewer_processes(here: Path) -> None:
    (here / "digits.py").write_text(PLANNED.format(tests=str(Path(__file__).parent)))
    done = subprocess.run(
        [sys.executable, "-m", "worldsize", "run", "digits.py:digits", "--processes", "2", "--dry-run"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "step train: 2 processes in " in done.stdout
    assert "--gradient_accumulation_steps 4 " in done.stdout
    assert "--global_batch_size 256 " in done.stdout


@pytest.mark.timeout(120)
def test_the_command_prints_the_plan_of_a_function(here: Path) -> None:
    (here / "digits.py").write_text(PLANNED.format(tests=str(Path(__file__).parent)))
    done = subprocess.run(
        [sys.executable, "-m", "worldsize", "plan", "digits.py:digits"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "global batch size             256 = 32 × 1 × 8" in done.stdout
    assert worldsize.plan("digits.py:digits").steps["train"].topology.world_size == 8
