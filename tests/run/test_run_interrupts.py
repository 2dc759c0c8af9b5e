"""Runs that are interrupted or killed: every process ends, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

import pytest

pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.timeout(90)]

SLEEPING = """
    type: command
    compute: azureml:gpu
    environment: azureml:any@latest
    distribution: {type: pytorch, process_count_per_instance: 2}
    command: trap '' TERM; touch outputs/up-$RANK; setsid sleep 600 & sleep 600
"""


@pytest.mark.parametrize(
    ("number", "status"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.smoke), (signal.SIGTERM, 143)],
)
def test_an_interrupt_ends_every_process(project: Any, number: int, status: int) -> None:
    project.write("job.yml", SLEEPING)
    process = project.start("job.yml")
    project.wait_for("up-*", 2)
    assert len(project.processes()) >= 5
    begin = time.monotonic()
    process.send_signal(number)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == status
    assert time.monotonic() - begin < 10
    assert "stopping; interrupt again to kill the processes at once" in text
    assert project.nothing_left(0.5)
    assert project.events()[-1]["state"] == "interrupted"


@pytest.mark.smoke
def test_a_second_interrupt_does_not_wait(project: Any) -> None:
    project.write("job.yml", SLEEPING)
    process = project.start("job.yml")
    project.wait_for("up-*", 2)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert time.monotonic() - begin < 4
    assert project.nothing_left(0.5)


def test_kill_nine_of_the_runner_leaves_nothing(project: Any) -> None:
    project.write("job.yml", SLEEPING)
    process = project.start("job.yml", stdout=subprocess.DEVNULL)
    project.wait_for("up-*", 2)
    process.kill()
    process.wait()
    assert project.nothing_left(12)


@pytest.mark.smoke
def test_a_terminals_ctrl_c_reaches_only_the_runner(project: Any) -> None:
    """The steps live in sessions of their own: what Ctrl-C sends to the runner's group is not for them."""
    job = SLEEPING.replace("trap '' TERM;", "trap 'echo ctrl-c > outputs/bad' INT; trap 'exit 0' TERM;")
    project.write("job.yml", job)
    process = project.start("job.yml", start_new_session=True)
    project.wait_for("up-*", 2)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert not list(project.folder.rglob("bad"))


def test_kill_nine_of_a_rank_ends_the_run_within_ten_seconds(project: Any) -> None:
    project.write("job.yml", SLEEPING.replace("touch", "echo rank $RANK is here; touch"))
    process = project.start("job.yml")
    project.wait_for("up-*", 2)
    (rank,) = [
        each for each in project.processes() if each.name() == "bash" and each.environ()["RANK"] == "1"
    ]
    begin = time.monotonic()
    rank.kill()
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert time.monotonic() - begin < 10
    assert "error: step `command` failed: rank 1 was killed by SIGKILL\n" in text
    assert "rank-1.log, its last lines:\n  | rank 1 is here\n" in text
    assert project.nothing_left(0.5)
