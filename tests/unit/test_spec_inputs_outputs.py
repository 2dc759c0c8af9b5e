"""Inputs and outputs of a spec: what they compile to, what the plan makes of them, and `--set`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml

import worldsize
from worldsize.documents import yaml
from worldsize.running.prepare.overrides import override_spec
from worldsize.spec import from_document

HEAD = """\
name: digits
compute:
  cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}
"""
TRAIN = """\
steps:
  shard: {uses: shard_data, with: {source: "builtin:digits"}}
  train:
    uses: train_ddp
    with: {model: cnn, epochs: "${{parent.inputs.epochs}}"}
    scale: {reference: {batch_size: 32, learning_rate: "${{parent.inputs.rate}}"}}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "spec.yml"
    path.write_text(HEAD + text, encoding="utf-8")
    return path


def compiled(folder: Path, text: str) -> dict[str, Any]:
    done = worldsize.compile(write(folder, text), folder / "out")
    document: dict[str, Any] = pyyaml.safe_load(done.pipeline.read_text(encoding="utf-8"))
    return document


def test_inputs_are_bound_and_the_plan_is_made_with_their_defaults(tmp_path: Path) -> None:
    text = "inputs:\n  epochs: {type: number, default: 20, description: Passes}\n  rate: 0.1\n" + TRAIN
    job = compiled(tmp_path, text)
    assert job["inputs"] == {"epochs": 20}, "what only the plan uses could not be changed at submit"
    inputs = job["jobs"]["train"]["inputs"]
    assert inputs["epochs"] == "${{parent.inputs.epochs}}"
    assert inputs["learning_rate"] == 0.1
    assert "epochs: 20  # Passes" in (tmp_path / "out" / "pipeline.yml").read_text()
    plan = worldsize.plan(tmp_path / "spec.yml").steps["train"]
    assert plan.training is not None
    assert (plan.training.epochs, plan.training.total_steps) == (20, 20 * 44)


def test_an_own_command_gets_an_input_for_each_that_it_names(tmp_path: Path) -> None:
    job = compiled(
        tmp_path,
        """\
inputs: {epochs: 3, rate: 0.1, name: a}
steps:
  train:
    command: python -c "print(${{parent.inputs.epochs}}, ${{inputs.rate}})"
    environment: azureml:e:1
    with: {rate: "${{parent.inputs.rate}}"}
    environment_variables: {NAME: "${{parent.inputs.name}}"}
""",
    )
    step = job["jobs"]["train"]
    assert step["inputs"] == {"rate": "${{parent.inputs.rate}}", "epochs": "${{parent.inputs.epochs}}"}
    assert step["environment_variables"] == {"NAME": "${{parent.inputs.name}}"}
    component = pyyaml.safe_load((tmp_path / "out" / step["component"]).read_text())
    assert component["inputs"] == {"rate": {"type": "number"}, "epochs": {"type": "integer"}}
    assert component["command"] == 'python -c "print(${{inputs.epochs}}, ${{inputs.rate}})"'


def test_an_optional_input_without_a_value_is_left_out_with_what_is_bound_to_it(tmp_path: Path) -> None:
    text = """\
inputs:
  words: {type: uri_file, optional: true}
  data: {type: uri_folder, path: ./data, mode: download}
steps:
  read:
    command: ls ${{inputs.data}} $[[--words ${{inputs.words}}]]
    environment: azureml:e:1
    with: {words: "${{parent.inputs.words}}", data: "${{parent.inputs.data}}"}
"""
    (tmp_path / "data").mkdir()
    job = compiled(tmp_path, text)
    assert job["inputs"] == {"data": {"type": "uri_folder", "path": "../data", "mode": "download"}}
    assert job["jobs"]["read"]["inputs"] == {"data": "${{parent.inputs.data}}"}
    component = pyyaml.safe_load((tmp_path / "out" / job["jobs"]["read"]["component"]).read_text())
    assert component["inputs"]["words"] == {"type": "uri_file", "optional": True}


def test_outputs_are_declared_and_bound_to_those_of_steps(tmp_path: Path) -> None:
    job = compiled(
        tmp_path,
        """\
outputs:
  text: "${{parent.jobs.write.outputs.text}}"
  model:
    from: "${{parent.jobs.write.outputs.model}}"
    path: azureml://datastores/workspaceblobstore/paths/m/
    mode: upload
steps:
  write:
    command: cp -r . ${{outputs.model}}; ls > ${{outputs.text}}
    environment: azureml:e:1
    outputs: {model: {type: mlflow_model, name: digits}, text: uri_file}
""",
    )
    place = "azureml://datastores/workspaceblobstore/paths/m/"
    assert job["outputs"] == {
        "text": {"type": "uri_file"},
        "model": {"type": "mlflow_model", "path": place, "mode": "upload"},
    }
    assert job["jobs"]["write"]["outputs"] == {
        "model": {"path": "${{parent.outputs.model}}", "name": "digits"},
        "text": "${{parent.outputs.text}}",
    }


def test_a_schedule_gives_values_of_its_own(tmp_path: Path) -> None:
    text = "inputs: {epochs: 3, rate: 0.1}\n" + TRAIN.replace('"${{parent.inputs.rate}}"', "0.05")
    text = text.replace(", rate: 0.1", "") + 'schedule: {cron: "0 3 * * 1", inputs: {epochs: 20}}\n'
    compiled(tmp_path, text)
    schedule = pyyaml.safe_load((tmp_path / "out" / "schedule.yml").read_text())
    assert schedule["create_job"]["inputs"] == {"epochs": 20}
    assert schedule["create_job"]["settings"] == {"force_rerun": True}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("inputs.epochs", "7", ("epochs", 7)),
        ("inputs.rate", "0.2", ("rate", 0.2)),
        ("inputs.word", "7", ("word", "7")),
        ("inputs.data", "./other", ("data", "./other")),
        ("inputs.words", "./words", ("words", "./words")),
    ],
)
def test_set_changes_the_default_in_the_text(
    name: str, value: str, expected: tuple[str, Any], tmp_path: Path
) -> None:
    text = """\
inputs:
  epochs: 3
  rate: {default: 0.1}
  word: {type: string, default: "a"}
  data: {type: uri_folder, path: ./data}
  words: {type: uri_file, optional: true}
steps:
  s: {command: ls, environment: "azureml:e:1"}
"""
    document, problems = override_spec(yaml.load(write(tmp_path, text)), {name: value})
    assert not problems
    spec, _ = from_document(yaml.load(tmp_path / "spec.yml", document.text))
    assert spec is not None
    located = spec.inputs[expected[0]].value
    assert located is not None
    assert located.value == expected[1]


@pytest.mark.parametrize(
    ("name", "message", "help_"),
    [
        ("inputs.epoch", "the pipeline has no input `epoch`", "did you mean `epochs`?"),
        ("epochs", "`epochs` names no input of a step", "did you mean `--set inputs.epochs=1`?"),
    ],
)
def test_set_of_an_unknown_name_says_what_was_meant(
    name: str, message: str, help_: str, tmp_path: Path
) -> None:
    text = "inputs: {epochs: 3}\nsteps:\n  s: {command: ls, environment: 'azureml:e:1'}\n"
    _, (problem,) = override_spec(yaml.load(write(tmp_path, text)), {name: "1"})
    assert message in problem.message
    assert problem.help == help_
    assert problem.slug == "run-refused"
