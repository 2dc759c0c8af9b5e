"""Real process groups: a script that knows nothing of us, under torch's own rendezvous."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from worldsize.running.launch.machine import detect_machine

pytestmark = [pytest.mark.run, pytest.mark.timeout(180)]

SCRIPT = """
    import os, time
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    numbers = torch.full((4,), float(rank + 1))
    dist.all_reduce(numbers)
    words = "sum", numbers.tolist(), "of", dist.get_world_size(), "threads", os.environ["OMP_NUM_THREADS"]
    print(*words, flush=True)
    if rank == 0:
        open("summed", "w").close()
    else:
        while not os.path.exists("summed"):
            time.sleep(0.02)
        print("rank 1 gives up", flush=True)
        os._exit(1)  # threads of gloo may abort an interpreter that ends by itself while a group is open
    dist.barrier()
"""
# The rendezvous of two ranks without torch's import of seconds: rank 0 shows the other where it works.
MEET = """
    import os, socket, time

    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    run = os.environ["MEETING"]
    if os.environ["RANK"] == "0":
        with socket.create_server(place) as listening:
            connection, _ = listening.accept()
            connection.sendall(run.encode())
    else:
        while True:
            try:
                connection = socket.create_connection(place)
                break
            except ConnectionRefusedError:
                time.sleep(0.02)
        met = connection.recv(100).decode()
        assert met == run, (met, run)
"""
JOB = """
    type: command
    compute: azureml:gpu
    environment: azureml:any@latest
    code: ./src
    command: python reduce.py
    resources: {instance_count: 2}
    distribution: {type: pytorch, process_count_per_instance: 1}
"""


def write(folder: Path, script: str) -> None:
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "reduce.py").write_text(textwrap.dedent(script))
    (folder / "job.yml").write_text(textwrap.dedent(JOB))


def run(folder: Path, script: str = SCRIPT) -> tuple[int, str, Path]:
    write(folder, script)
    done = subprocess.run(
        [sys.executable, "-m", "worldsize", "run", "job.yml", "--no-track"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    (made,) = (folder / ".worldsize" / "runs").iterdir()
    return done.returncode, done.stdout + done.stderr, made / "steps" / "command" / "logs"


@pytest.mark.smoke
def test_two_ranks_reduce_and_when_one_gives_up_it_is_named_and_the_other_does_not_hang(
    tmp_path: Path,
) -> None:
    status, text, logs = run(tmp_path)
    assert status == 1
    assert "error: step `command` failed: rank 1 ended with exit status 1" in text
    assert "  | rank 1 gives up\n" in text
    for rank in range(2):
        assert "sum [3.0, 3.0, 3.0, 3.0] of 2 threads" in (logs / f"rank-{rank}.log").read_text()


@pytest.mark.smoke
def test_two_runs_at_once_do_not_meet(tmp_path: Path) -> None:
    """Each pair finds its own port, and each run its own folder."""
    command = [sys.executable, "-m", "worldsize", "run", "job.yml", "--no-track", "--runs-dir", "../home"]
    both = []
    for name in ("one", "two"):
        write(tmp_path / name, MEET)
        with (tmp_path / name / "job.yml").open("a") as job:
            job.write(f"environment_variables: {{MEETING: {name}}}\n")
        both.append(subprocess.Popen(command, cwd=tmp_path / name, stdout=subprocess.DEVNULL))
    assert [process.wait(150) for process in both] == [0, 0]
    runs = list((tmp_path / "home" / "runs").iterdir())
    assert len(runs) == 2
    ports = set()
    for made in runs:
        events = [json.loads(line) for line in (made / "events.jsonl").read_text().splitlines()]
        started = next(event for event in events if event["event"] == "step_started")
        ports |= {process["env"]["MASTER_PORT"] for process in started["processes"]}
    assert len(ports) == 2


def test_a_script_that_asks_for_nccl_is_named_before_and_explained_after(tmp_path: Path) -> None:
    if detect_machine().gpus:
        pytest.skip("this machine has a GPU")
    status, text, _ = run(tmp_path, script=SCRIPT.replace('"gloo"', '"nccl"'))
    assert status == 1, text
    assert "command: `reduce.py:6` asks for NCCL, which needs GPUs" in text
    because = "it asks for NCCL, which needs GPUs, and this machine has none"
    assert f"ended with exit status 1: {because}" in text
    assert "help: use the backend `gloo` where `torch.cuda.is_available()` is false" in text


KILLED_BUILD = """
    import os, signal
    from pathlib import Path
    from torch.utils import cpp_extension

    folder = Path(cpp_extension._get_build_directory("op", False))
    baton = cpp_extension.FileBaton(str(folder / "lock"))
    if os.environ["RANK"] == "0":
        assert baton.try_acquire()
        if not (folder / "tried").exists():
            (folder / "tried").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        baton.release()
    baton.wait()
"""


@pytest.mark.timeout(100)
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a lock has to be old")
def test_what_a_killed_build_leaves_keeps_no_later_step_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR", raising=False)
    for name, status in (("first", 1), ("second", 0)):
        (tmp_path / name).mkdir()
        ended, said, _ = run(tmp_path / name, KILLED_BUILD)
        assert ended == status, said
        assert len(list((tmp_path / "caches").rglob("lock"))) == status
