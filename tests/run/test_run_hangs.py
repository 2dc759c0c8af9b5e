"""Ranks that hang, die and come back: stopped from outside, stuck on their own, asked to stop."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from wstrain.health import heartbeat

pytestmark = [pytest.mark.run, pytest.mark.timeout(120)]

# A training that needs no framework: its ranks wait for each other's steps in a folder, and keep the last.
TRAINING = """
import os, signal, sys, time
from pathlib import Path
sys.path.insert(0, {library!r})
from wstrain.health import watchdog
from wstrain.health.heartbeat import Phase
from wsshards.errors import end_process
from wstrain.launch.environment import read_pytorch_environment

folder, fault = Path(sys.argv[1]), sys.argv[2]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
saved = folder / "step"
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))


def exchange(step):
    (folder / f"{{step}}-{{rank}}-{{os.environ['AZUREML_RUN_ID']}}-{{start}}").touch()
    while len(list(folder.glob(f"{{step}}-*-{{start}}"))) < world:
        time.sleep(0.01)


start = int(saved.read_text()) if saved.exists() else 0
with watchdog.watch_process(read_pytorch_environment(os.environ), 2.0) as heartbeat:
    heartbeat.note_start(start)
    for step in range(start, 60):
        heartbeat.mark(Phase.COMPUTING)
        if step == 7 and fault == "stuck" and rank == 1:
            time.sleep(600)
        time.sleep(0.02)
        heartbeat.note_gradients()
        exchange(step)
        if rank == 0 and step % 5 == 4:
            saved.write_text(str(step + 1))
        heartbeat.note_step(step + 1)
        if asked and fault == "resume":
            saved.write_text(str(step + 1)) if rank == 0 else time.sleep(0.3)
            end_process(75)
print("done from", start)
"""
JOB = """
    type: command
    compute: azureml:gpu
    environment: azureml:any@latest
    code: ./src
    command: python train.py ${{{{outputs.checkpoints}}}} {fault}
    outputs:
      checkpoints: {{type: uri_folder}}
    resources: {{instance_count: 1}}
    distribution: {{type: pytorch, process_count_per_instance: 2}}
"""


class Training:
    """A run of two ranks in a folder."""

    def __init__(self, project: Any, fault: str, *words: str) -> None:
        library = str(Path(heartbeat.__file__).parents[2])
        project.write("src/train.py", TRAINING.format(library=library))
        project.write("job.yml", JOB.format(fault=fault))
        self.project = project
        self.process = project.start("job.yml", *words)

    def beats(self) -> dict[int, heartbeat.HeartbeatRecord]:
        return heartbeat.read_records(self.step / "heartbeats")

    @property
    def step(self) -> Path:
        return self.project.newest / "steps" / "command"

    def reach(self, step: int, other_than: int = 0) -> dict[int, heartbeat.HeartbeatRecord]:
        """Wait until both ranks of a try have done so many steps; which try, rank 0's process tells."""
        deadline = time.monotonic() + 40
        while True:
            try:
                found = self.beats()
            except (ValueError, FileNotFoundError):
                found = {}
            started = len(found) == 2 and found[0].pid != other_than
            if started and min(each.done for each in found.values()) >= step:
                return found
            assert time.monotonic() < deadline, "the training did not get that far"
            time.sleep(0.02)

    def end(self) -> tuple[int, str]:
        text, _ = self.process.communicate(timeout=60)
        return self.process.returncode, text

    def log(self, rank: int) -> str:
        return (self.step / "logs" / f"rank-{rank}.log").read_text()


def test_a_stopped_rank_is_named_by_the_other_and_by_the_runner(project: Any) -> None:
    training = Training(project, "none")
    found = training.reach(6)
    os.kill(found[1].pid, signal.SIGSTOP)
    status, text = training.end()
    assert status == 1
    assert "error: step `command` failed: rank 1 did not arrive: no progress for " in text
    assert "; its process does not run\n" in text
    log = training.log(0)
    assert "waiting in the gradient exchange of step" in log
    assert "in exchange" in log  # the stack of the rank that waits
    assert "rank 1: " in log
    assert "its process does not run" in log


def test_a_rank_that_is_stuck_shows_where(project: Any) -> None:
    training = Training(project, "stuck", "--max-restarts", "3")
    status, text = training.end()
    assert status == 1
    # Twice at one place: a third try would end there, too.
    assert text.count("starts again in") == 1
    assert "rank 1 did not arrive" in text
    log = training.log(1)
    assert "Thread 0x" in log
    assert (
        f'train.py", line {1 + TRAINING[: TRAINING.index("time.sleep(600)")].count(chr(10))} in <module>'
        in log
    )
    assert (training.step / "logs" / "attempt-1" / "rank-1.log").exists()
    ended = [event for event in project.events() if event["event"] == "process_ended"]
    assert {event["status"] for event in ended} == {124}


def test_a_killed_rank_goes_on_from_the_last_checkpoint_and_one_that_saved_is_resumed(project: Any) -> None:
    training = Training(project, "resume", "--max-restarts", "1")
    first = training.reach(12)
    os.kill(first[0].pid, signal.SIGKILL)
    second = training.reach(27, first[0].pid)
    for beat in second.values():
        os.kill(beat.pid, signal.SIGTERM)
    status, text = training.end()
    assert status == 0, text
    assert "command: rank 0 was killed by SIGKILL; it starts again in" in text
    assert "was asked to stop, and saved its state; it starts again in" in text
    started = int(training.log(0).split()[-1])
    assert started >= second[0].done  # all steps that were done when it was asked
    earlier = [event for event in project.events() if event["event"] == "step_started"]
    assert [event["attempt"] for event in earlier] == [1, 2, 3]
    assert (training.step / "logs" / "attempt-2" / "rank-1.log").exists()
