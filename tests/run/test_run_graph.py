"""A whole run of nested components, in shell commands: what flows, what fails, what is set from outside."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(90)]

PIPELINE = """
    $schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
    type: pipeline
    compute: azureml:cpu-cluster
    settings: {continue_on_step_failure: true}
    inputs: {words: one two, count: 1}
    outputs:
      kept: {type: uri_file, path: "azureml://datastores/any/paths/${{name}}/kept.txt"}
      deep: {type: uri_folder}
    jobs:
      first:
        type: pipeline
        component: ./inner.yml
        inputs: {options.word: "${{parent.inputs.words}}", options.count: "${{parent.inputs.count}}"}
        outputs: {made: "${{parent.outputs.deep}}"}
      broken: {type: command, component: ./leaf.yml, inputs: {options.word: fail}}
      beside:
        type: command
        component: ./leaf.yml
        inputs: {options.word: beside, before: "${{parent.jobs.broken.outputs.made}}"}
      never:
        command: cat ${{inputs.data}}/word.txt
        environment: azureml:any:1
        inputs: {data: "${{parent.jobs.broken.outputs.made}}"}
      last:
        command: >-
          cat ${{inputs.file}} > ${{outputs.kept}} &&
          cat ${{inputs.job}}/outputs/seen.txt >> ${{outputs.kept}}
          && sh only.sh >> ${{outputs.kept}}
        code: ./only.sh
        environment: azureml:any:1
        inputs:
          file: ${{parent.jobs.first.outputs.made}}/word.txt
          job: ${{parent.jobs.beside.outputs.artifacts}}
        outputs: {kept: "${{parent.outputs.kept}}"}
"""
INNER = """
    $schema: https://azuremlschemas.azureedge.net/latest/pipelineComponent.schema.json
    type: pipeline
    name: inner
    version: "1"
    inputs: {options.word: {type: string}, options.count: {type: integer}}
    outputs: {made: {type: uri_folder}}
    jobs:
      a:
        type: command
        component: ./leaf.yml
        inputs: {options: "${{parent.inputs.options}}"}
      b:
        type: command
        component: ./leaf.yml
        inputs: {options.word: last, before: "${{parent.jobs.a.outputs.made}}"}
        outputs: {made: "${{parent.outputs.made}}"}
"""
LEAF = """
    $schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
    type: command
    name: leaf
    version: "1"
    environment: azureml:any:1
    inputs:
      options.word: {type: string}
      options.count: {type: integer, default: 2, min: 0}
      before: {type: uri_folder, optional: true}
    outputs: {made: {type: uri_folder}}
    command: |
      test "${{inputs.options.word}}" != fail || exit 3
      $[[cat ${{inputs.before}}/word.txt >> ${{outputs.made}}/word.txt;]]
      echo "${{inputs.options.word}} ${{inputs.options.count}}" >> ${{outputs.made}}/word.txt
      echo "seen $[[${{inputs.before}}]]" > outputs/seen.txt
"""


@pytest.fixture
def nested(project: Any) -> Any:
    for name, text in (("pipeline", PIPELINE), ("inner", INNER), ("leaf", LEAF)):
        project.write(f"{name}.yml", text)
    project.write("only.sh", "ls\n")
    return project


def test_nested_components_run_and_do_without_what_failed(nested: Any) -> None:
    status, text = nested.run("pipeline.yml", "--environment", "current", "--set", "count=7")
    assert status == 1, text
    ended = {event["step"]: event["state"] for event in nested.events() if event["event"] == "step_ended"}
    assert ended == {
        "first.a": "succeeded",
        "first.b": "succeeded",
        "broken": "failed",
        "beside": "succeeded",
        "never": "waiting",
        "last": "succeeded",
    }
    made = nested.newest / "outputs"
    assert (made / "deep" / "word.txt").read_text() == "one two 7\nlast 2\n"
    assert (made / "kept").read_text() == "one two 7\nlast 2\nseen \nlogs\nonly.sh\noutputs\n"
    assert "puts text around a binding" in text
    assert nested.nothing_left()


def test_what_is_set_is_held_against_what_components_declare(nested: Any) -> None:
    for option, said in {
        "count=-1": "`count` is -1, below its minimum 0",
        "count=many": "`many` is not an integer, as input `count` requires",
        "cuont=1": "there is no input `cuont`",
    }.items():
        status, text = nested.run("pipeline.yml", "--dry-run", "--set", option)
        assert status == 1
        assert f"--set {option}: error: {said}" in text
    assert "did you mean `count`?" in text
