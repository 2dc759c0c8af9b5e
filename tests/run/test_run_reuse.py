"""Steps that need not run again, runs that go on where they were, and logs that are followed."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.run, pytest.mark.timeout(180)]

# FOLDER/count gets a line each time that a step runs. What a step reads is the thing itself, no link to it.
THREE = """
    type: pipeline
    compute: azureml:cpu
    inputs: {word: hello}
    jobs:
      make:
        command: echo make >> FOLDER/count; cat words.txt > ${{outputs.out}}/text
        code: src
        environment: azureml:any@latest
        outputs: {out: {type: uri_folder}}
      shape:
        command: echo shape >> FOLDER/count; wc -w < ${{inputs.made}}/text > ${{outputs.out}}
        environment: azureml:any@latest
        inputs: {made: "${{parent.jobs.make.outputs.out}}"}
        outputs: {out: {type: uri_file}}
      say:
        command: >-
          echo say >> FOLDER/count; test ! -L ${{inputs.shape}} &&
          echo ${{inputs.word}} $(cat ${{inputs.shape}}) > ${{outputs.out}}
        environment: azureml:any@latest
        inputs: {word: "${{parent.inputs.word}}", shape: "${{parent.jobs.shape.outputs.out}}"}
        outputs: {out: {type: uri_file}}
"""


def three(project: Any, *change: str) -> None:
    """Write the pipeline, perhaps with a text replaced by another."""
    text = THREE.replace("FOLDER", str(project.folder))
    project.write("pipeline.yml", text.replace(*change) if change else text)


def call(project: Any, *words: str, status: int = 0) -> str:
    command = [sys.executable, "-m", "worldsize", *words]
    done = subprocess.run(
        command, cwd=project.folder, capture_output=True, text=True, timeout=80, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def counted(project: Any) -> list[str]:
    """What has run since this was asked last."""
    path = project.folder / "count"
    found = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return found


@pytest.mark.smoke
def test_only_what_depends_on_a_change_runs(project: Any) -> None:
    three(project)
    words = project.write("src/words.txt", "one two\n")
    run = ("pipeline.yml", "--environment", "current")

    def again(*more: str) -> list[str]:
        status, text = project.run(*run, *more)
        assert status == 0, text
        return counted(project)

    assert again() == ["make", "shape", "say"]
    assert again() == []
    text = project.run(*run)[1]
    assert [line.split() for line in text.splitlines() if line.endswith(" reused")][-3:] == [
        ["make", "reused"],
        ["shape", "reused"],
        ["say", "reused"],
    ]
    assert (project.newest / "steps" / "say" / "outputs" / "out").read_text() == "hello 2\n"
    words.write_text("two one\n")  # as many words: `say` has nothing new to read
    assert again() == ["make", "shape"]
    assert again("--set", "word=bye") == ["say"]
    assert (project.newest / "steps" / "say" / "outputs" / "out").read_text() == "bye 2\n"
    assert again("--force") == ["make", "shape", "say"]
    assert "3 steps" not in call(project, "cache", "prune", "--all")
    assert again() == ["make", "shape", "say"]


SLOW = """
    type: pipeline
    compute: azureml:cpu
    jobs:
      quick:
        command: date +%N > ${{outputs.out}}/x
        environment: azureml:any@latest
        outputs: {out: {type: uri_folder}}
      slow:
        command: >-
          echo begun; date +%N >> ${{outputs.checkpoints}}/x; echo line >> ${{outputs.out}}/log; touch begun;
          test $(wc -l < ${{outputs.checkpoints}}/x) -ge 2 || sleep 60; echo done
        environment: azureml:any@latest
        inputs: {made: "${{parent.jobs.quick.outputs.out}}"}
        outputs: {out: {type: uri_folder}, checkpoints: {type: uri_folder}}
"""


COUNTING = """
    type: command
    compute: azureml:gpu
    environment: azureml:any@latest
    distribution: {type: pytorch, process_count_per_instance: 1}
    command: 'for step in 1 2 3 4 5; do echo "{\\"step\\": $step}" >> $WORLDSIZE_PROGRESS; sleep 0.4; done'
"""


@pytest.mark.skipif(sys.platform != "linux", reason="`--kill` finds processes in `/proc`")
def test_a_rehearsed_kill_is_not_repeated_by_what_resumes_from_it(project: Any) -> None:
    project.write("job.yml", COUNTING)
    status, text = project.run("job.yml", "--environment", "current", "--kill", "node0@step:2")
    assert status == 1, text
    assert "was killed by `--kill node0@step:2`" in text
    assert "killed" not in call(project, "resume", "last")
    assert project.events()[-1]["state"] == "succeeded"


@pytest.mark.smoke
def test_a_killed_run_goes_on_where_it_was(project: Any) -> None:
    project.write("pipeline.yml", SLOW)
    with project.start("pipeline.yml", "--environment", "current") as runner:
        project.wait_for("begun")
        follower = subprocess.Popen(
            [sys.executable, "-m", "worldsize", "logs", "last", "slow", "--follow"],
            cwd=project.folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert json.loads(call(project, "runs", "--json"))[0]["state"] == "running"
        assert "is still active" in call(project, "resume", "last", status=1)
        assert follower.stdout is not None
        assert follower.stdout.readline() == "begun\n"
        runner.send_signal(signal.SIGKILL)
        runner.communicate()
    made = (project.newest / "steps" / "quick" / "outputs" / "out" / "x").read_text()
    events = project.newest / "events.jsonl"
    events.write_bytes(b"{ damaged\n" + events.read_bytes() + b'{"event": "torn')
    text = call(project, "resume", "last", "--runs-dir", str(project.folder / ".worldsize"))
    assert "1 line of the event log cannot be read" in text
    assert "quick: had succeeded" in text
    assert follower.communicate(timeout=20)[0] == ""
    step = project.newest / "steps" / "slow"
    assert (project.newest / "steps" / "quick" / "outputs" / "out" / "x").read_text() == made
    assert (step / "logs" / "attempt-1" / "rank-0.log").read_text() == "begun\n"
    assert (step / "logs" / "rank-0.log").read_text() == "begun\ndone\n"
    assert len((step / "outputs" / "checkpoints" / "x").read_text().split()) == 2
    assert (step / "outputs" / "out" / "log").read_text() == "line\nline\n"
    shown = json.loads(call(project, "show", "last", "--json"))
    assert (shown["state"], shown["resumed"], shown["steps"]["slow"]["attempts"]) == ("succeeded", 1, 2)
    assert "has succeeded" in call(project, "resume", "last")


@pytest.mark.smoke
def test_a_failed_run_goes_on_with_what_was_mended(project: Any) -> None:
    three(project, "wc -w", "wc --no")
    project.write("src/words.txt", "one two\n")
    assert project.run("pipeline.yml", "--environment", "current")[0] == 1
    assert counted(project) == ["make", "shape"]
    three(project)
    call(project, "resume", "last")
    assert counted(project) == ["shape", "say"]
    project.write("src/words.txt", "one\n")
    assert project.run("pipeline.yml", "--environment", "current")[0] == 0
    assert counted(project) == ["make", "shape", "say"]


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("damage", "said", "ran"),
    [
        (lambda log: log.unlink(), "the beginning of the event log is missing", ["make", "shape", "say"]),
        (
            lambda log: log.write_bytes(b""),
            "the beginning of the event log is missing",
            ["make", "shape", "say"],
        ),
        (lambda log: log.write_bytes(log.read_bytes()[:-40]), "", ["shape", "say"]),
        (lambda log: log.write_bytes(flipped(log.read_bytes())), "1 line of the event log", ["shape", "say"]),
    ],
    ids=["deleted", "emptied", "truncated", "a bit flipped"],
)
def test_a_damaged_event_log_costs_no_more_than_what_it_told(
    project: Any, damage: Callable[[Path], Any], said: str, ran: list[str]
) -> None:
    three(project, "wc -w", "wc --no")
    project.write("src/words.txt", "one two\n")
    assert project.run("pipeline.yml", "--environment", "current", "--force")[0] == 1
    counted(project)
    three(project)
    damage(project.newest / "events.jsonl")
    assert said in call(project, "resume", "last")
    assert counted(project) == ran


def flipped(content: bytes) -> bytes:
    """The log, with the brace that ends the event of a step's start flipped to another character."""
    at = content.index(b"\n", content.index(b"step_started")) - 1
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


SPEC = """
    name: words
    compute: {cpu: {target: azureml:cpu, instance_type: Standard_D2s_v3}}
    steps:
      make:
        command: echo make >> FOLDER/count; cat words.txt > ${{outputs.out}}/text
        code: src
        environment: azureml:any@latest
        outputs: {out: uri_folder}
      say:
        command: echo say >> FOLDER/count; sh say.sh ${{inputs.made}}/text
        code: tools
        environment: azureml:any@latest
        with: {made: "${{parent.jobs.make.outputs.out}}"}
"""


@pytest.mark.smoke
def test_a_run_of_a_spec_goes_on_with_what_was_mended_and_without_the_spec(project: Any) -> None:
    project.write("spec.yml", SPEC.replace("FOLDER", str(project.folder)))
    project.write("src/words.txt", "one two\n")
    project.write("tools/say.sh", "exit 3\n")
    assert project.run("spec.yml")[0] == 1
    project.write("tools/say.sh", "exit 4\n")
    assert "rank 0 ended with exit status 4" in call(project, "resume", "last", status=1)
    assert counted(project) == ["make", "say", "say"]
    (project.folder / "spec.yml").unlink()
    assert "rank 0 ended with exit status 4" in call(project, "resume", "last", status=1)
    assert counted(project) == ["say"]


@pytest.mark.smoke
def test_runs_at_once_share_a_store(project: Any) -> None:
    three(project)
    project.write("src/words.txt", "one two\n")
    several = [project.start("pipeline.yml", "--environment", "current", "-q") for _ in range(3)]
    assert [runner.communicate(timeout=80)[1:] and runner.returncode for runner in several] == [0, 0, 0]
    counted(project)
    assert project.run("pipeline.yml", "--environment", "current")[0] == 0
    assert counted(project) == []
    cache = project.folder / ".worldsize" / "cache" / "steps"
    assert sorted(path.suffix for path in cache.iterdir()) == [".hits"] * 3 + [".json"] * 3


def soak() -> Any:
    """The program that kills runs, which is no module of a package."""
    path = Path(__file__).parents[1] / "soak" / "kills.py"
    spec = importlib.util.spec_from_file_location("kills", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kills"] = module
    spec.loader.exec_module(module)
    return module


def test_runs_killed_at_random_moments_go_on(tmp_path: Path) -> None:
    pytest.importorskip("psutil")
    tally = soak().soak(tmp_path, runs=3, seed=7)
    assert tally.faults == []
    assert sum(tally.killed.values()) >= 3
