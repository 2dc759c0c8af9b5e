"""Whole runs of small native pipelines through the command line, without MLflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from worldsize.running import machine

CORES = machine.detect().slots
psutil = pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.timeout(90)]


@dataclass
class Project:
    """A folder with files, in which `worldsize run` is called."""

    folder: Path

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "worldsize", "run", *words]
        if "--dry-run" not in words:
            command.append("--no-track")
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **more}
        return subprocess.Popen(command, cwd=self.folder, **more)

    def run(self, *words: str) -> tuple[int, str]:
        with self.start(*words) as process:
            text, _ = process.communicate(timeout=80)
        return process.returncode, text

    @property
    def newest(self) -> Path:
        return max((self.folder / ".worldsize" / "runs").iterdir())

    def log(self, step: str, rank: int = 0) -> str:
        return (self.newest / "steps" / step / "logs" / f"rank-{rank}.log").read_text()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.newest / "events.jsonl").read_text().splitlines()]


def below(folder: Path) -> list[Any]:
    """Processes that work in a folder."""
    listed = psutil.process_iter(["cwd", "status"])  # what may not be read is None
    return [each for each in listed if (each.info["cwd"] or "").startswith(str(folder)) and each.is_running()]


def nothing_left(folder: Path, seconds: float = 8) -> bool:
    deadline = time.monotonic() + seconds
    while below(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    yield Project(tmp_path)
    assert nothing_left(tmp_path), below(tmp_path)


def wait_for(path: Callable[[], list[Path]], count: int = 1, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while len(path()) < count:
        assert time.monotonic() < deadline, "the step did not get that far"
        time.sleep(0.02)


HEAD = """
    $schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
    type: pipeline
    compute: azureml:cpu-cluster
"""
TAIL = "environment: azureml:any@latest"


def test_data_flows_through_folders_and_files(project: Project) -> None:
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


def test_python_is_this_interpreter(project: Project) -> None:
    project.write(
        "job.yml",
        f"""
        type: command
        compute: azureml:cpu
        {TAIL}
        command: python -c 'import sys; print(sys.prefix)'
        """,
    )
    assert project.run("job.yml")[0] == 0
    assert project.log("command").strip() == sys.prefix


def test_events_are_complete_and_hold_no_foreign_variable(project: Project) -> None:
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
    assert project.run("job.yml")[0] == 0
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
    assert not {"HOME", "PATH", "USER"} & set(process["env"])
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
def test_ready_steps_run_side_by_side(project: Project) -> None:
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


def test_a_failing_rank_ends_the_run_with_its_last_lines(project: Project) -> None:
    project.write("job.yml", DISTRIBUTED)
    begin = time.monotonic()
    status, text = project.run("job.yml")
    assert status == 1
    assert time.monotonic() - begin < 15
    assert "error: step `command` failed: rank 1 ended with exit status 3" in text
    assert "steps/command/logs/rank-1.log, its last lines:\n  | über 1\n" in text
    assert nothing_left(project.folder, 0.5)


def test_what_follows_a_failure_is_not_started(project: Project) -> None:
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


def test_a_step_is_stopped_at_its_timeout(project: Project) -> None:
    command = "trap 'echo asked; exit 0' TERM; echo begun; sleep 600 & wait"
    project.write("job.yml", f"type: command\ncommand: {command!r}\nlimits: {{timeout: 1}}\n{TAIL}\n")
    begin = time.monotonic()
    status, text = project.run("job.yml")
    assert (status, time.monotonic() - begin < 15) == (1, True)
    assert "error: step `command` failed: it was stopped at its timeout of 1 s\n" in text
    assert "rank-0.log, its last lines:\n  | begun\n  | asked\n" in text
    assert nothing_left(project.folder, 0.5)


@pytest.mark.parametrize(
    ("go_on", "other", "last"), [("true", "succeeded", True), ("false", "stopped", False)]
)
def test_what_a_failed_step_stops(project: Project, go_on: str, other: str, last: bool) -> None:
    reads = "inputs: {i: '${{parent.jobs.%s.outputs.o}}'}"
    project.write(
        "pipeline.yml",
        HEAD
        + f"""
    settings: {{continue_on_step_failure: {go_on}}}
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


SLEEPING = f"""
    type: command
    compute: azureml:gpu
    {TAIL}
    distribution: {{type: pytorch, process_count_per_instance: 2}}
    command: trap '' TERM; touch outputs/up-$RANK; setsid sleep 600 & sleep 600
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_every_process(project: Project, number: int, status: int) -> None:
    project.write("job.yml", SLEEPING)
    process = project.start("job.yml")
    wait_for(lambda: list(project.folder.rglob("up-*")), 2)
    assert len(below(project.folder)) >= 5
    begin = time.monotonic()
    process.send_signal(number)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == status
    assert time.monotonic() - begin < 10
    assert "stopping; once more to kill at once" in text
    assert nothing_left(project.folder, 0.5)
    assert project.events()[-1]["state"] == "interrupted"


def test_a_second_interrupt_does_not_wait(project: Project) -> None:
    project.write("job.yml", SLEEPING)
    process = project.start("job.yml")
    wait_for(lambda: list(project.folder.rglob("up-*")), 2)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert time.monotonic() - begin < 4
    assert nothing_left(project.folder, 0.5)


def test_kill_nine_of_the_runner_leaves_nothing(project: Project) -> None:
    project.write("job.yml", SLEEPING)
    process = project.start("job.yml", stdout=subprocess.DEVNULL)
    wait_for(lambda: list(project.folder.rglob("up-*")), 2)
    process.kill()
    process.wait()
    assert nothing_left(project.folder, 12)


def test_a_terminals_ctrl_c_reaches_only_the_runner(project: Project) -> None:
    """The steps live in sessions of their own: what Ctrl-C sends to the runner's group is not for them."""
    job = SLEEPING.replace("trap '' TERM;", "trap 'echo ctrl-c > outputs/bad' INT; trap 'exit 0' TERM;")
    project.write("job.yml", job)
    process = project.start("job.yml", start_new_session=True)
    wait_for(lambda: list(project.folder.rglob("up-*")), 2)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert not list(project.folder.rglob("bad"))


def test_a_dry_run_is_the_same_twice_and_makes_nothing(project: Project) -> None:
    project.write("job.yml", SLEEPING)
    first, second = project.run("job.yml", "--dry-run"), project.run("job.yml", "--dry-run")
    assert first == second
    assert first[0] == 0
    assert "  rank-1 (node 0, local rank 1)\n" in first[1]
    assert "    MASTER_PORT={port}\n" in first[1]
    assert sorted(path.name for path in project.folder.iterdir()) == ["job.yml"]


def test_processes_can_be_chosen_for_a_native_job(project: Project) -> None:
    project.write("job.yml", DISTRIBUTED.replace("touch up-$RANK; if", "echo $WORLD_SIZE; exit 0; if"))
    assert project.run("job.yml", "--processes", "3")[0] == 0
    assert [project.log("command", rank) for rank in range(3)] == ["3\n"] * 3


def test_a_fault_in_the_file_is_a_diagnostic_and_leaves_no_run(project: Project) -> None:
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
    project: Project, words: tuple[str, ...], world: int | None
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


def test_a_run_does_not_copy_earlier_runs(project: Project) -> None:
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
