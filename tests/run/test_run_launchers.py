"""Launchers inside a command: the runner starts one process for each instance, and `torchrun` the others."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

Project = Any  # the class of the fixture lives in conftest.py

pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(240)]

SPEC = """
    name: launched
    compute:
      gpu: {target: azureml:gpu, instance_type: Standard_NC96ads_A100_v4, max_instances: 2}
    steps:
      train:
        compute: gpu
        instance_count: 2
        timeout: 3600
        distribution: {type: pytorch}
        code: ./src
        environment: azureml:any:1
        command: >-
          torchrun --nnodes ${{plan.instance_count}} --nproc_per_node ${{plan.local_world_size}}
          --node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port $MASTER_PORT
          train.py ${{plan.gradient_accumulation_steps}} ${{plan.world_size}}
        scale: {reference: {batch_size: 32, learning_rate: 0.05}, optimizer: sgd, rows: 4096, epochs: 3}
"""
JOB = """
    type: command
    compute: azureml:gpu
    environment: azureml:any:1
    code: ./src
    distribution: {type: pytorch, process_count_per_instance: 1}
    resources: {instance_count: 2}
    command: >-
      torchrun --nnodes 2 --nproc_per_node 2 --node_rank $NODE_RANK
      --master_addr $MASTER_ADDR --master_port $MASTER_PORT train.py
"""
SAYS = """
    import os, sys

    names = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "ACCELERATE_USE_CPU")
    words = [os.environ[name] for name in names] + sys.argv[1:]
    open(f"said-{os.environ['RANK']}", "w").write(" ".join(words))
"""
WAITS = """
    import os, pathlib, time

    pathlib.Path(f"began-{os.environ['RANK']}").touch()
    while len(list(pathlib.Path().glob("began-*"))) < 4:
        time.sleep(0.02)
    if os.environ["RANK"] == FAILS:
        raise SystemExit("rank 3 has had enough")
    time.sleep(200)
"""


def said(project: Project) -> list[str]:
    files = sorted(project.newest.rglob("said-*"))
    return [path.read_text() for path in files]


def test_a_plan_for_two_instances_runs_with_the_processes_that_fit(project: Project) -> None:
    project.write("src/train.py", SAYS)
    status, text = project.run(
        str(project.write("spec.yml", SPEC)), "--processes", "2", "--environment", "current"
    )
    assert status == 0, text
    assert "planned for 8 processes (2 × 4), running 2 here with accumulation ×4" in text
    assert said(project) == ["0 0 0 2 true 4 2", "1 1 0 2 true 4 2"]


def test_two_instances_have_a_launcher_each(project: Project) -> None:
    project.write("src/train.py", SAYS)
    status, text = project.run(str(project.write("job.yml", JOB)), "--environment", "current")
    assert status == 0, text
    assert said(project) == ["0 0 0 4 true", "1 1 0 4 true", "2 0 1 4 true", "3 1 1 4 true"]


def test_a_rank_that_fails_ends_all_and_is_shown(project: Project) -> None:
    project.write("src/train.py", WAITS.replace("FAILS", "'3'"))
    status, text = project.run(str(project.write("job.yml", JOB)), "--environment", "current")
    assert status == 1, text
    assert "rank 3 has had enough" in text
    assert "Root Cause" not in text
    assert project.nothing_left()


def test_an_interrupt_leaves_no_rank_behind(project: Project, tmp_path: Path) -> None:
    project.write("src/train.py", WAITS.replace("FAILS", "'none'"))
    with project.start(str(project.write("job.yml", JOB)), "--environment", "current") as process:
        project.wait_for("began-*", 4, seconds=90)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=60)
    assert process.returncode == 130, text
    assert project.nothing_left()
    assert len(list(tmp_path.rglob("began-*"))) == 4
