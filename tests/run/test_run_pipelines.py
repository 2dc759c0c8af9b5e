"""Whole runs of small native pipelines through the command line, without MLflow."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import click
import pytest

from worldsize.running.launch.machine import detect_machine

CORES = detect_machine().slots
pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(90)]


HEAD = """
    $schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
    type: pipeline
    compute: azureml:cpu-cluster
"""
TAIL = "environment: azureml:any@latest"


def test_data_flows_through_folders_and_files(project: Any) -> None:
    project.write("data/numbers.txt", "1\n2\n3\n")
    project.write("src/add.py", "import sys; print(sum(int(line) for line in sys.stdin))")
    project.write("src/ignored.txt", "x")
    project.write("src/.amlignore", "ignored.txt\n")
    project.write(
        "pipeline.yml",
        HEAD
        + f"""
    inputs:
      data: {{type: uri_folder, path: ./data}}
      rate: 0.00001
      flag: true
    outputs:
      total: {{type: uri_file}}
    jobs:
      add:
        code: ./src
        command: >-
          ls -A && python add.py < ${{{{inputs.data}}}}/numbers.txt > ${{{{outputs.sum}}}}/total.txt &&
          echo "${{{{inputs.rate}}}} ${{{{inputs.flag}}}} 'quoted'" > outputs/kept.txt &&
          echo $AZUREML_PARAMETER_rate
        inputs:
          data: ${{{{parent.inputs.data}}}}
          rate: ${{{{parent.inputs.rate}}}}
          flag: ${{{{parent.inputs.flag}}}}
        outputs: {{sum: {{type: uri_folder}}}}
        {TAIL}
      copy:
        command: >-
          cp ${{{{inputs.sum}}}}/total.txt ${{{{outputs.total}}}}; cat ${{{{inputs.kept}}}}/outputs/kept.txt
        inputs:
          sum: ${{{{parent.jobs.add.outputs.sum}}}}
          kept: ${{{{parent.jobs.add.outputs.artifacts}}}}
        outputs: {{total: "${{{{parent.outputs.total}}}}"}}
        {TAIL}
    """,
    )
    status, text = project.run("pipeline.yml")
    assert status == 0, text
    assert project.log("add") == ".amlignore\nadd.py\nlogs\noutputs\n1e-05\n"
    assert project.log("copy") == "1e-05 True 'quoted'\n"
    assert (project.newest / "outputs" / "total").read_text() == "6\n"
    assert (project.newest / "steps" / "copy" / "inputs" / "sum" / "total.txt").exists()
    assert f"folder   {os.path.relpath(project.newest, project.folder)}" in text
    assert "add: succeeded after" in text


def test_python_is_this_interpreter_in_a_layer_of_its_own(project: Any) -> None:
    project.write(
        "job.yml",
        f"""
        type: command
        compute: azureml:cpu
        {TAIL}
        command: python -c 'import sys, click; print(sys.prefix, click.__file__, sep="\\n")'
        """,
    )
    assert project.run("job.yml", "--environment", "current")[0] == 0
    prefix, library = project.log("command").split()
    assert Path(prefix).is_relative_to(project.newest)
    assert library == click.__file__


def test_events_are_complete_and_hold_no_foreign_variable(project: Any) -> None:
    project.write(
        "job.yml",
        f"""
        type: command
        compute: azureml:cpu
        {TAIL}
        command: 'true'
        environment_variables: {{API_KEY: hush}}
        """,
    )
    assert project.run("job.yml", "--environment", "current")[0] == 0
    events = project.events()
    assert [event["event"] for event in events] == [
        "run_started",
        "step_started",
        "process_ended",
        "step_ended",
        "run_ended",
    ]
    assert events[-1]["state"] == "succeeded"
    (process,) = events[1]["processes"]
    assert process["env"]["API_KEY"] == "***"
    assert not {"HOME", "USER", "LANG"} & set(process["env"])
    assert "hush" not in (project.newest / "events.jsonl").read_text()


PARALLEL = (
    HEAD
    + """
    jobs:
      left: {{command: {left}, environment: "azureml:a@latest"}}
      right: {{command: {right}, environment: "azureml:a@latest"}}
"""
)


@pytest.mark.skipif(CORES < 2, reason="one core runs one step at a time")
def test_ready_steps_run_side_by_side(project: Any) -> None:
    meet = "cd ../../..; touch {0}; for i in $(seq 1000); do test -e {1} && exit 0; sleep 0.01; done; exit 1"
    text = PARALLEL.format(left=json.dumps(meet.format("a", "b")), right=json.dumps(meet.format("b", "a")))
    project.write("pipeline.yml", text)
    assert project.run("pipeline.yml")[0] == 0


DISTRIBUTED = f"""
    type: command
    compute: azureml:gpu
    {TAIL}
    distribution: {{type: pytorch, process_count_per_instance: 2}}
    command: >-
      touch up-$RANK; if [ $RANK = 1 ]; then while [ ! -e up-0 ]; do sleep 0.01; done;
      echo "über $RANK"; exit 3; fi; sleep 600 & sleep 600
"""


def test_a_failing_rank_ends_the_run_with_its_last_lines(project: Any) -> None:
    project.write("job.yml", DISTRIBUTED)
    begin = time.monotonic()
    status, text = project.run("job.yml")
    assert status == 1
    assert time.monotonic() - begin < 15
    assert "error: step `command` failed: rank 1 ended with exit status 3" in text
    assert "steps/command/logs/rank-1.log, its last lines:\n  | über 1\n" in text
    assert project.nothing_left(0.5)


def test_what_follows_a_failure_is_not_started(project: Any) -> None:
    project.write(
        "pipeline.yml",
        HEAD
        + f"""
    jobs:
      bad: {{command: exit 2, outputs: {{o: {{type: uri_folder}}}}, {TAIL}}}
      next: {{command: "true", inputs: {{i: "${{{{parent.jobs.bad.outputs.o}}}}"}}, {TAIL}}}
    """,
    )
    status, text = project.run("pipeline.yml")
    assert status == 1
    assert "next  not started" in text
    assert not (project.newest / "steps" / "next").exists()


def test_a_step_is_stopped_at_its_timeout(project: Any) -> None:
    command = "trap 'echo asked; exit 0' TERM; echo begun; sleep 600 & wait"
    project.write("job.yml", f"type: command\ncommand: {command!r}\nlimits: {{timeout: 1}}\n{TAIL}\n")
    begin = time.monotonic()
    status, text = project.run("job.yml")
    assert (status, time.monotonic() - begin < 15) == (1, True)
    assert "error: step `command` failed: it was stopped at its timeout of 1 s\n" in text
    assert "rank-0.log, its last lines:\n  | begun\n  | asked\n" in text
    assert project.nothing_left(0.5)


@pytest.mark.parametrize(
    ("go_on", "other", "last"),
    [("true", "succeeded", True), ("", "succeeded", True), ("false", "stopped", False)],
)
def test_what_a_failed_step_stops(project: Any, go_on: str, other: str, last: bool) -> None:
    reads = "inputs: {i: '${{parent.jobs.%s.outputs.o}}'}"
    setting = f", continue_on_step_failure: {go_on}" if go_on else ""
    project.write(
        "pipeline.yml",
        HEAD
        + f"""
    settings: {{force_rerun: true{setting}}}
    jobs:
      bad: {{command: exit 2, outputs: {{o: {{type: uri_folder}}}}, {TAIL}}}
      needs_it: {{command: "true", {reads % "bad"}, {TAIL}}}
      other: {{command: sleep 2, outputs: {{o: {{type: uri_folder}}}}, {TAIL}}}
      last: {{command: "true", {reads % "other"}, {TAIL}}}
    """,
    )
    status, text = project.run("pipeline.yml")
    assert status == 1
    assert f"\n  other     {other} " in text
    assert "\n  needs_it  not started" in text
    assert ("\n  last      succeeded" in text) is last


def test_a_dry_run_is_the_same_twice_and_makes_nothing(project: Any) -> None:
    project.write("job.yml", DISTRIBUTED)
    first, second = project.run("job.yml", "--dry-run"), project.run("job.yml", "--dry-run")
    assert first == second
    assert first[0] == 0
    assert "  rank-1 (node 0, local rank 1)\n" in first[1]
    assert "    MASTER_PORT={port}\n" in first[1]
    assert sorted(path.name for path in project.folder.iterdir()) == ["job.yml"]


def test_processes_can_be_chosen_for_a_native_job(project: Any) -> None:
    project.write("job.yml", DISTRIBUTED.replace("touch up-$RANK; if", "echo $WORLD_SIZE; exit 0; if"))
    assert project.run("job.yml", "--processes", "3")[0] == 0
    assert [project.log("command", rank) for rank in range(3)] == ["3\n"] * 3


def test_a_fault_in_the_file_is_a_diagnostic_and_leaves_no_run(project: Any) -> None:
    project.write(
        "pipeline.yml",
        HEAD + "    jobs: {a: {command: 'true', inputs: {x: '${{parent.jobs.b.outputs.o}}'}}}\n",
    )
    status, text = project.run("pipeline.yml")
    assert status == 1
    assert "Traceback" not in text
    assert "pipeline.yml:" in text
    runs = project.folder / ".worldsize" / "runs"
    assert not runs.exists() or not list(runs.iterdir())


SPEC = """
    name: planned
    compute:
      gpu: {target: azureml:gpu, instance_type: Standard_NC96ads_A100_v4, max_instances: 2}
    steps:
      train:
        compute: gpu
        instance_count: 2
        distribution: {type: pytorch}
        code: ./src
        environment: azureml:any@latest
        command: >-
          echo ${{plan.world_size}} ${{plan.batch_size_per_device}} ${{plan.gradient_accumulation_steps}}
          ${{plan.learning_rate}} $WORLD_SIZE
        scale: {reference: {batch_size: 32, learning_rate: 0.05}, optimizer: sgd, rows: 4096, epochs: 3}
"""


@pytest.mark.parametrize(
    ("words", "world"), [(("--processes", "1"), 1), (("--processes", "4"), 4), ((), None)]
)
def test_a_spec_runs_with_fewer_processes_and_the_same_global_batch(
    project: Any, words: tuple[str, ...], world: int | None
) -> None:
    world = world or min(8, CORES)
    project.write("src/empty.txt", "")
    project.write("spec.yml", SPEC)
    status, text = project.run("spec.yml", *words)
    assert status == 0, text
    accumulation = 8 // world
    assert (
        f"train: planned for 8 processes (2 × 4), running {world} here with accumulation ×{accumulation},"
        " global batch 256 unchanged\n"
    ) in text
    for rank in range(world):
        assert project.log("train", rank) == f"{world} 32 {accumulation} 0.4 {world}\n"
    assert (project.newest / "pipeline" / "plan.json").exists()
    # The compiled folder runs on its own as well, to the same numbers.
    status, text = project.run(str(project.newest / "pipeline" / "pipeline.yml"), *words)
    assert status == 0, text
    assert project.log("train") == f"{world} 32 {accumulation} 0.4 {world}\n"


def test_processes_that_do_not_divide_the_global_batch_are_said(project: Any) -> None:
    project.write("src/x.py", "")
    status, text = project.run(str(project.write("spec.yml", SPEC)), "--processes", "3")
    assert status == 0
    assert (
        "train: planned for 8 processes (2 × 4), running 2 here with accumulation ×4, global batch 256"
        " unchanged; 3 do not share its 8 micro-batches equally\n" in text
    )


def test_a_run_does_not_copy_earlier_runs(project: Any) -> None:
    project.write(
        "job.yml",
        f"""
        type: command
        compute: azureml:cpu
        {TAIL}
        code: .
        command: ls -A
        """,
    )
    for _ in range(2):
        assert project.run("job.yml")[0] == 0
    assert project.log("command") == "job.yml\nlogs\noutputs\n"


def test_a_step_that_leaves_a_pipe_for_its_metrics_ends(project: Any) -> None:
    project.write(
        "job.yml",
        """
    $schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
    command: cd ${{outputs.made}} && mkfifo metrics.json && ln -s /dev/zero registration.json
    outputs: {made: {type: uri_folder}}
    environment: azureml:any@latest
    compute: azureml:cpu-cluster
""",
    )
    status, text = project.run("job.yml", "--environment", "current")
    assert status == 0, text
    assert "metrics.json` cannot be read: it is a named pipe, not a file" in text
    assert "registration.json` cannot be read: it is a device, not a file" in text
