"""Runs under the real `mpirun`: the environment of each emulated instance, and nothing that survives."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from worldsize.running.launch import reserve
from worldsize.running.launch.reserve import scratch_folder

psutil = pytest.importorskip("psutil")
HERE = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
pytestmark = [
    pytest.mark.run,
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("mpirun", path=HERE) is None, reason="Open MPI is not installed"),
]

REDUCE = """
    import os, sys
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    total = world.allreduce(world.Get_rank() + 1)
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    seen = [int(os.environ["OMPI_COMM_WORLD_" + name]) for name in names]
    assert seen[:2] == [world.Get_rank(), world.Get_size()]
    print("sum", total, *seen, "node", os.environ["AZUREML_CR_NODE_RANK"], os.environ["AZUREML_PROCESS_NAME"])
    print(os.environ["AZ_BATCH_MASTER_NODE"].rpartition(":")[0], os.environ["AZ_BATCHAI_MPI_MASTER_NODE"])
    print(os.environ["OMPI_MCA_btl_sm_backing_directory"], "WORLDSIZE_MEMBERS" in os.environ, file=sys.stderr)
"""
JOB = """
    type: command
    compute: azureml:gpu
    environment: azureml:any@latest
    code: ./src
    command: {command}
    resources: {{instance_count: {instances}}}
    distribution: {{type: mpi, process_count_per_instance: 2}}
"""
# Every rank leaves a process in a session of its own, and none of them listens to SIGTERM.
STUBBORN = (
    'bash -c \'trap "" TERM; echo rank $OMPI_COMM_WORLD_RANK is here; setsid sleep 600 &'
    " touch up-$OMPI_COMM_WORLD_RANK; exec python wait.py'"
)
WAIT = """
    import os, signal
    from mpi4py import MPI

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    world = MPI.COMM_WORLD
    world.barrier()
    open(f"met-{world.Get_rank()}", "w").close()
    while True:
        signal.pause()
"""


def write(project: Any, command: str, instances: int = 1, **scripts: str) -> None:
    project.write("src/empty.txt", "")
    for name, text in scripts.items():
        project.write(f"src/{name}.py", text)
    project.write("job.yml", JOB.format(command=command, instances=instances))


def memory(project: Any) -> Path:
    """The folder in shared memory that MPI and the runner keep for the ranks that are waiting."""
    rank = next(each for each in named(project, "python", "wait.py"))
    found = Path(rank.environ()["OMPI_MCA_btl_sm_backing_directory"])
    assert found.is_dir()
    return found


def named(project: Any, *words: str) -> list[Any]:
    """Processes of the project whose command line begins so."""
    return [each for each in project.processes() if each.cmdline()[: len(words)] == list(words)]


def mpirun(project: Any) -> Any:
    found = [each for each in project.processes() if each.name() in ("mpirun", "prterun")]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.smoke
def test_somebody_elses_script_on_two_instances_of_two(project: Any) -> None:
    write(project, "python reduce.py && echo done", 2, reduce=REDUCE)
    status, text = project.run("job.yml")
    assert status == 0, text
    for rank in range(4):
        lines = project.log("command", rank).splitlines()
        node, local = divmod(rank, 2)
        assert f"sum 10 {rank} 4 {local} 2 node {node} rank_{rank}" in lines
        assert "127.0.0.1 127.0.0.1" in lines
        assert lines[-1] == "done"
        folder = next(line for line in lines if line.endswith(" False"))
        assert not Path(folder.split()[0]).exists()
    ended = [event["process"] for event in project.events() if event["event"] == "process_ended"]
    assert sorted(ended[:-1]) == [f"rank-{rank}" for rank in range(4)]
    assert ended[-1] == "mpirun"


@pytest.mark.smoke
def test_a_rank_that_fails_is_named_with_its_last_lines(project: Any) -> None:
    command = "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then echo no more; exit 7; fi; sleep 600 & sleep 600"
    write(project, f'"{command}"')
    begin = time.monotonic()
    status, text = project.run("job.yml")
    assert (status, time.monotonic() - begin < 15) == (1, True)
    assert "error: step `command` failed: rank 1 ended with exit status 7\n" in text
    assert "logs/rank-1.log, its last lines:\n  | no more\n" in text
    assert project.nothing_left(0.5)


@pytest.mark.parametrize("victim", ["rank", "parent of a rank", "mpirun"])
def test_kill_nine_ends_the_run_within_ten_seconds(project: Any, victim: str) -> None:
    write(project, STUBBORN, wait=WAIT)
    process = project.start("job.yml")
    project.wait_for("met-*", 2)
    kept = memory(project)
    rank = next(each for each in named(project, "python", "wait.py") if environment(each) == "1")
    chosen = {"rank": rank, "parent of a rank": rank.parent(), "mpirun": mpirun(project)}[victim]
    begin = time.monotonic()
    chosen.send_signal(signal.SIGKILL)
    text, _ = process.communicate(timeout=40)
    took = time.monotonic() - begin
    assert process.returncode == 1
    assert took < 10, took
    assert project.nothing_left(0.5), project.processes()
    assert not kept.exists()
    if victim == "mpirun":
        assert "error: step `command` failed: mpirun was killed by SIGKILL\n" in text
    else:
        assert "error: step `command` failed: rank 1 was killed by SIGKILL\n" in text
        assert "rank-1.log, its last lines:\n  | rank 1 is here\n" in text


def environment(process: Any) -> str:
    return str(process.environ().get("OMPI_COMM_WORLD_RANK"))


def test_an_interrupt_ends_every_rank(project: Any) -> None:
    write(project, STUBBORN, wait=WAIT)
    process = project.start("job.yml")
    project.wait_for("met-*", 2)
    kept = memory(project)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=40)
    assert process.returncode == 130
    assert time.monotonic() - begin < 10
    assert project.nothing_left(0.5), project.processes()
    assert not kept.exists()


def test_kill_nine_of_the_runner_leaves_no_rank(project: Any) -> None:
    write(project, STUBBORN, wait=WAIT)
    process = project.start("job.yml", stdout=-3)
    project.wait_for("met-*", 2)
    kept = memory(project)
    process.kill()
    process.wait()
    assert project.nothing_left(12), project.processes()
    assert not kept.exists()


def test_kill_nine_of_everything_leaves_what_the_next_run_removes(project: Any) -> None:
    write(project, STUBBORN, wait=WAIT)
    process = project.start("job.yml", stdout=-3)
    project.wait_for("met-*", 2)
    kept = memory(project)
    everything = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, nobody can clean up
        for each in everything:
            each.send_signal(number)
    process.wait()
    assert project.nothing_left(12), project.processes()
    assert kept.exists()
    with scratch_folder(reserve.MPI_PREFIX, kept.parent) as living:
        project.write("next.yml", "type: command\ncommand: 'true'\nenvironment: azureml:any@latest\n")
        assert project.run("next.yml")[0] == 0
        assert not kept.exists()
        assert living.exists()


@pytest.mark.parametrize("victim", ["parent of a rank", "mpirun"])
def test_a_launcher_that_is_stopped_goes_on(project: Any, victim: str) -> None:
    write(project, "bash -c 'touch up-$OMPI_COMM_WORLD_RANK; until test -e go; do sleep 0.1; done'")
    process = project.start("job.yml")
    project.wait_for("up-*", 2)
    launcher = mpirun(project)
    chosen = launcher if victim == "mpirun" else parent_of_a_rank(launcher)
    chosen.send_signal(signal.SIGSTOP)
    next(project.folder.rglob("up-0")).with_name("go").touch()
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 0, text


def parent_of_a_rank(launcher: Any) -> Any:
    return next(each for each in launcher.children(recursive=True) if "member.py" in " ".join(each.cmdline()))


def test_term_gives_a_rank_its_time(project: Any) -> None:
    """`mpirun` would kill after one second; every launcher's ranks have the same grace."""
    save = (
        "trap 'sleep 2; echo saved; exit 0' TERM; touch up-$OMPI_COMM_WORLD_RANK; while :; do sleep 0.1; done"
    )
    project.write("src/save.sh", save)
    write(project, "bash save.sh")
    process = project.start("job.yml")
    project.wait_for("up-*", 2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=40)
    assert process.returncode == 143
    assert [project.log("command", rank).splitlines()[-1] for rank in range(2)] == ["saved", "saved"]


def test_the_ranks_that_are_still_running_at_a_timeout_are_named(project: Any) -> None:
    write(project, '"test $OMPI_COMM_WORLD_RANK = 0 || exec sleep 600; echo over"')
    project.write("job.yml", (project.folder / "job.yml").read_text() + "limits: {timeout: 3}\n")
    status, text = project.run("job.yml")
    assert status == 1
    assert "it was stopped at its timeout of 3 s, when rank 1 still ran and rank 0 had ended\n" in text
    assert project.nothing_left(0.5)


@pytest.mark.smoke
def test_without_open_mpi_nothing_is_started(project: Any) -> None:
    write(project, "echo never")
    (project.folder / "bin").mkdir()
    job = (project.folder / "job.yml").read_text()
    project.write("job.yml", job + f"environment_variables: {{PATH: {project.folder / 'bin'}}}\n")
    status, text = project.run("job.yml")
    assert status == 1
    assert "job.yml:8:22: error: step `command` is distributed with `mpi`, but there is no `mpirun`" in text
    assert "= help: `pip install 'worldsize[mpi]'`, or the system's package" in text
    assert "Traceback" not in text
    other = project.write("bin/mpirun", "#!/bin/sh\necho HYDRA build details:\n")
    other.chmod(0o755)
    status, text = project.run("job.yml")
    assert status == 1
    assert f"`{other}` is not Open MPI" in text
