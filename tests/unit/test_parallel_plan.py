"""Parallel steps as they are read: a command step that runs our driver, or a fault with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.azureml import job as jobs
from worldsize.azureml.copying import CopyAccess
from worldsize.running.model.assets import AssetMap
from worldsize.running.prepare.graph.flatten import flatten
from worldsize.running.prepare.preparation import list_snapshots

PIPELINE = """\
type: pipeline
inputs: {batch: 3}
jobs:
  score:
    type: parallel
    inputs:
      data: {type: uri_folder, path: ./data}
      model: big
    outputs:
      rows: {type: uri_file}
    input_data: ${{inputs.data}}
    mini_batch_size: "10"
    resources: {instance_count: 2}
    max_concurrency_per_instance: 3
    retry_settings: {max_retries: 1, timeout: 9}
    error_threshold: 5
    environment_variables: {MODE: fast}
    task:
      type: run_function
      code: ./src
      entry_script: score.py
      environment: azureml:e:1
      program_arguments: >-
        --model ${{inputs.model}}
      append_row_to: ${{outputs.rows}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "score.py").touch()
    return tmp_path


def read(folder: Path, text: str) -> tuple[dict[str, object], list[tuple[str, int]]]:
    (folder / "pipeline.yml").write_text(text, encoding="utf-8")
    job, problems = jobs.read_job(folder / "pipeline.yml")
    assert job is not None
    assert not problems
    graph, problems = flatten(job, AssetMap())
    return dict(graph.tasks), [(problem.message, problem.span.line) for problem in problems]


def test_a_parallel_step_becomes_a_command_with_the_driver_beside_the_code(folder: Path) -> None:
    (folder / "pipeline.yml").write_text(PIPELINE, encoding="utf-8")
    job, _ = jobs.read_job(folder / "pipeline.yml")
    assert job is not None
    graph, problems = flatten(job, AssetMap())
    assert not problems
    task = graph.tasks["score"]
    assert task.kind == "parallel"
    first, *lines, last = task.command.splitlines()
    assert first == f"python -m worldsize_parallel <<'{last}'"
    given = dict(line.split("=", 1) for line in lines)
    assert given == {
        "workers": "6",
        "mini_batch_size": "10",
        "error_threshold": "5",
        "mini_batch_error_threshold": "-1",
        "max_retries": "1",
        "timeout": "9",
        "logging_level": "INFO",
        "input_data": "${{inputs.data}}",
        "input_type": "uri_folder",
        "entry_script": "score.py",
        "append_row_to": "${{outputs.rows}}",
        "program_arguments": "--model ${{inputs.model}}",
    }
    assert (task.world_size, task.environment_variables) == (1, {"MODE": "fast"})
    found, problems = list_snapshots(graph.tasks, CopyAccess())
    assert not problems
    listed = found["score"].listing()
    assert {"score.py", "worldsize_parallel/__main__.py", "worldsize_parallel/worker.py"} <= set(listed)
    assert not [name for name in listed if "__pycache__" in name]


def test_a_parallel_component_gives_what_the_step_does_not_say(folder: Path) -> None:
    (folder / "component.yml").write_text(
        "type: parallel\nname: c\ninputs: {data: {type: mltable}}\noutputs: {rows: {type: uri_file}}\n"
        "input_data: ${{inputs.data}}\nmini_batch_size: 10kb\nmax_concurrency_per_instance: 2\n"
        "task: {type: run_function, code: ./src, entry_script: score.py, environment: azureml:e:1}\n",
        encoding="utf-8",
    )
    text = (
        "type: pipeline\ninputs: {batch: 4mb}\njobs:\n  score:\n"
        "    type: parallel\n    component: ./component.yml\n"
        "    mini_batch_size: ${{parent.inputs.batch}}\n"
        "    inputs: {data: {type: mltable, path: ./data}}\n    resources: {instance_count: 4}\n"
    )
    tasks, problems = read(folder, text)
    assert not problems
    lines = getattr(tasks["score"], "command", "").splitlines()
    assert {"workers=8", "mini_batch_size=4mb", "input_type=mltable"} <= set(lines)
    found, problems = list_snapshots(tasks, CopyAccess())
    assert not problems
    assert {"wssources/mltable_files.py", "wsshards/errors.py"} <= set(found["score"].listing())


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ('mini_batch_size: "10"', "mini_batch_size: ten", "`mini_batch_size` is `ten`", 12),
        ('mini_batch_size: "10"', "mini_batch_size: 0", "`mini_batch_size` is `0`", 12),
        (
            "${{inputs.data}}",
            "${{inputs.date}}",
            "`input_data` of parallel step `score` is `${{inputs.date}}`",
            11,
        ),
        (
            "      entry_script: score.py\n",
            "",
            "the `task` of parallel step `score` has no `entry_script`",
            19,
        ),
        ("type: run_function", "type: model", "a parallel `task` of type `model` is not run here", 19),
        ("max_retries: 1", "max_retries: -1", "`max_retries` is `-1`", 15),
        ("error_threshold: 5", "error_threshold: -2", "`error_threshold` is `-2`", 16),
        ("error_threshold: 5", "partition_keys: [3]", "`partition_keys` is `[3]`", 16),
        ("error_threshold: 5", "logging_level: LOUD", "`logging_level` is `LOUD`", 16),
    ],
)
def test_what_cannot_be_meant_has_its_place(
    folder: Path, old: str, new: str, message: str, line: int
) -> None:
    assert old in PIPELINE
    _, problems = read(folder, PIPELINE.replace(old, new, 1))
    assert [(found[: len(message)], at) for found, at in problems] == [(message, line)]
