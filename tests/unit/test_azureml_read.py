"""Reading native YAML into the graph: arguments, components, inline jobs, and what is wrong on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.azureml import component, fields, job, write
from worldsize.azureml.graph import follow_binding
from worldsize.azureml.model import Binding, Data, Job, Literal

PIPELINE = """\
type: pipeline
inputs:
  rate: 0.1
  raw: {type: uri_file, path: ./data.csv}
outputs: {model: }
jobs:
  prep:
    command: echo ${{inputs.raw}} > ${{outputs.out}}/a
    environment: azureml:e:1
    inputs:
      raw: {path: "${{parent.inputs.raw}}", mode: download}
      n: 3
      b: yes
      s: {value: text}
    outputs:
      out: {type: uri_folder, mode: upload}
  train:
    type: command
    component: ./train.yml
    distribution: {type: PyTorch, process_count_per_instance: 2}
    inputs:
      data: ${{ parent.jobs.prep.outputs.out }}
      rate: ${{parent.inputs.rate}}
    outputs:
      model: ${{parent.outputs.model}}
  again:
    component: ./train.yml
    inputs: {data: azureml:d:1, rate: 1}
"""
TRAIN = """\
type: command
name: train
version: 1
inputs:
  data: {type: uri_folder}
  rate: {type: number, default: 0.5, min: 0, max: 1}
  tag: {type: string, optional: true}
outputs: {model: {type: mlflow_model}}
command: python t.py ${{inputs.data}} ${{inputs.rate}} ${{outputs.model}}
environment: azureml:e:1
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Job:
    (tmp_path / "train.yml").write_text(TRAIN)
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    found, problems = job.read_job(tmp_path / "pipeline.yml")
    assert not problems
    assert found is not None
    return found


def test_arguments_are_literals_bindings_or_data(pipeline: Job) -> None:
    prep = pipeline.steps["prep"]
    raw = prep.inputs["raw"].value
    assert isinstance(raw, Binding)
    assert raw.expression.name == "parent.inputs.raw"
    assert raw.mode is not None
    assert raw.mode.value == "download"
    assert [prep.inputs[name].value for name in "nbs"] == [Literal(3), Literal(True), Literal("text")]
    data = pipeline.inputs["raw"].value
    assert isinstance(data, Data)
    assert (data.type, data.path and data.path.value) == ("uri_file", "./data.csv")
    assert str(prep.inputs["n"].span).endswith(":12:10")


def test_an_argument_is_followed_to_the_input_of_the_pipeline(pipeline: Job) -> None:
    train, again = pipeline.steps["train"].inputs, pipeline.steps["again"].inputs
    assert follow_binding(pipeline, train["rate"]) is pipeline.inputs["rate"]
    assert follow_binding(pipeline, train["data"]) is follow_binding(pipeline, train.get("tag")) is None
    assert follow_binding(pipeline, again["data"]) is again["data"]


def test_inline_jobs_get_ports_typed_by_what_feeds_them(pipeline: Job) -> None:
    inline = pipeline.steps["prep"].component
    assert inline is not None
    assert inline.path is None
    assert {name: port.type for name, port in inline.inputs.items()} == {
        "raw": "uri_file", "n": "integer", "b": "boolean", "s": "string",
    }  # fmt: skip
    assert inline.outputs["out"].type == "uri_folder"


def test_a_component_file_is_read_once_however_often_it_is_used(pipeline: Job) -> None:
    train, again = pipeline.steps["train"].component, pipeline.steps["again"].component
    assert train is again
    assert train is not None
    assert train.inputs["tag"].optional
    assert train.inputs["rate"].max is not None
    assert train.inputs["rate"].max.value == 1
    assert train.outputs["model"].type == "mlflow_model"
    bound = pipeline.steps["train"].outputs["model"].value.binding
    assert bound is not None
    assert bound.value.port == "model"


def test_a_distribution_is_seen_whatever_its_case(pipeline: Job) -> None:
    view = fields.read_distribution(pipeline.steps["train"].distribution)
    assert view is not None
    assert view.kind == "pytorch"
    assert view.process_count_per_instance is not None
    assert view.process_count_per_instance.value == 2
    assert view.process_count_per_instance.span is not None
    assert fields.read_distribution(pipeline.steps["prep"].distribution) is None


def test_what_is_read_is_what_is_written(pipeline: Job, tmp_path: Path) -> None:
    text = write.dump(Job(path=None, type="pipeline", steps={"train": pipeline.steps["train"]}))
    (tmp_path / "again.yml").write_text(text)
    found, problems = job.read_job(tmp_path / "again.yml")
    assert not problems
    assert found is not None
    assert write.dump(found) == text
    step, original = found.steps["train"], pipeline.steps["train"]
    assert step.component == original.component or step.component is not None
    bindings = [value.value for value in step.inputs.values() if isinstance(value.value, Binding)]
    texts = [str(value.expression) for value in bindings]
    assert texts == ["${{parent.jobs.prep.outputs.out}}", "${{parent.inputs.rate}}"]


def test_a_standalone_job_is_a_graph_of_one_step(tmp_path: Path) -> None:
    text = (
        "command: python t.py ${{inputs.n}}\nenvironment: azureml:e:1\ninputs: {n: 2}\ncompute: azureml:c\n"
    )
    (tmp_path / "job.yml").write_text(text)
    found, problems = job.read_job(tmp_path / "job.yml")
    assert not problems
    assert found is not None
    (step,) = found.steps.values()
    assert step.component is not None
    assert step.component.command is not None
    assert step.component.inputs["n"].type == "integer"


def test_nested_pipeline_components_hold_their_graph(tmp_path: Path) -> None:
    (tmp_path / "train.yml").write_text(TRAIN)
    inner = "type: pipeline\nname: inner\njobs:\n  t:\n    component: ./train.yml\n"
    (tmp_path / "inner.yml").write_text(inner)
    (tmp_path / "outer.yml").write_text(
        "type: pipeline\njobs:\n  a: {type: pipeline, component: ./inner.yml}\n"
    )
    found, problems = job.read_job(tmp_path / "outer.yml")
    assert not problems
    assert found is not None
    nested = found.steps["a"].component
    assert nested is not None
    assert nested.graph is not None
    assert nested.graph.steps["t"].component is not None


@pytest.mark.parametrize(
    ("name", "text", "slug"),
    [
        ("list.yml", "- a\n", "job-not-mapping"),
        ("gone.yml", "type: pipeline\njobs: {a: {component: ./nope.yml}}\n", "component-missing"),
        (
            "self.yml",
            "type: pipeline\njobs: {a: {type: pipeline, component: ./loop.yml}}\n",
            "component-recursive",
        ),
        ("word.yml", "type: pipeline\njobs: {a: {component: ./text.yml}}\n", "component-not-mapping"),
    ],
)
def test_faults_on_the_way_are_problems(tmp_path: Path, name: str, text: str, slug: str) -> None:
    (tmp_path / "loop.yml").write_text("type: pipeline\njobs: {b: {type: pipeline, component: ./loop.yml}}\n")
    (tmp_path / "text.yml").write_text("only words\n")
    (tmp_path / name).write_text(text)
    _, problems = job.read_job(tmp_path / name)
    assert [problem.slug for problem in problems] == [slug]


@pytest.mark.parametrize(
    "text",
    [
        "jobs: 3\ntype: pipeline\n",
        "jobs: {a: 3, b: [], c: , d: {component: [], inputs: 3, outputs: x}}\n",
        "type: []\ninputs: []\noutputs: 3\ncommand: {}\n",
        "jobs: {a: {component: {inputs: {x: 3, y: {type: []}}}, inputs: {x: {path: []}, y: {value: }}}}\n",
        "jobs: {a: {command: x, inputs: {i: '${{parent.jobs.a.inputs.i}}'}}}\n",
        "jobs: {a: {component: {}, outputs: {o: {path: 3}}, type: sweep, trial: {}}}\n",
    ],
)
def test_wrong_types_are_kept_for_the_rules(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.yml").write_text(text)
    found, problems = job.read_job(tmp_path / "job.yml")
    assert found is not None
    assert not problems


def test_a_component_without_a_file_cannot_be_read(tmp_path: Path) -> None:
    found, problems = component.read_component(tmp_path / "none.yml")
    assert found is None
    assert [problem.slug for problem in problems] == ["yaml-unreadable"]
