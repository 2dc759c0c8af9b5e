from __future__ import annotations

import subprocess
import sys

import pytest

from wsshards.errors import UserError, print_warning
from wstrain.launch import gpus
from wstrain.launch.environment import (
    Launch,
    expect_global_batch,
    expect_world_size,
    read_pytorch_environment,
)
from wstrain.launch.mesh import Mesh, make_mesh

FULL = {
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "NODE_RANK": "1",
    "MASTER_ADDR": "10.0.0.4",
    "MASTER_PORT": "6105",
}


def test_the_contract_is_read() -> None:
    launch = read_pytorch_environment(FULL)
    assert launch == Launch(rank=5, local_rank=1, world_size=8, node_rank=1, master="10.0.0.4:6105")
    assert not launch.is_main


def test_nothing_set_is_a_single_process() -> None:
    assert read_pytorch_environment({"PATH": "/bin"}) == Launch(rank=0, local_rank=0, world_size=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RANK": None}, "the launcher did not set `RANK`"),
        ({"LOCAL_RANK": None, "MASTER_PORT": None}, "did not set `LOCAL_RANK`, `MASTER_PORT`"),
        ({"RANK": "8"}, "`RANK` is 8 but `WORLD_SIZE` is 8"),
        ({"WORLD_SIZE": "eight"}, "`WORLD_SIZE` is `eight`, which is not a whole number"),
        ({"WORLD_SIZE": "0"}, "`WORLD_SIZE` is 0, but must be at least 1"),
    ],
)
def test_a_broken_contract_is_named(changes: dict[str, str | None], message: str) -> None:
    env = {name: value for name, value in (FULL | changes).items() if value is not None}
    with pytest.raises(UserError, match=message):
        read_pytorch_environment(env)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"},
            "`OMPI_COMM_WORLD_SIZE` says that 4 processes",
        ),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}}'}, "`TF_CONFIG` names 2 workers"),
    ],
)
def test_a_process_of_another_launcher_never_thinks_itself_alone(env: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_pytorch_environment(env)


def test_a_single_process_under_another_launcher_is_fine() -> None:
    env = {"OMPI_COMM_WORLD_SIZE": "1", "TF_CONFIG": "{}"}
    assert read_pytorch_environment(env).world_size == 1


def test_planned_and_actual_world_size_are_both_named() -> None:
    with pytest.raises(UserError, match=r"plan is for 8 processes but the launcher started 2"):
        expect_world_size(Launch(0, 0, 2), 8)
    expect_world_size(Launch(0, 0, 8), 8)


def test_the_identity_of_the_global_batch_is_checked() -> None:
    with pytest.raises(UserError, match=r"`global_batch_size` is 256 but 32 .* × 1 .* × 2 processes = 64"):
        expect_global_batch(Mesh(data=2), per_device=32, accumulation=1, global_batch=256)
    expect_global_batch(Mesh(data=2), per_device=32, accumulation=4, global_batch=256)


def test_only_replicas_count_for_the_global_batch() -> None:
    mesh = make_mesh(8, tensor=2, pipeline=2)
    assert mesh == Mesh(data=2, tensor=2, pipeline=2)
    with pytest.raises(UserError, match=r"`global_batch_size` is 256 but 32 .* × 2 replicas = 64"):
        expect_global_batch(mesh, per_device=32, accumulation=1, global_batch=256)


def test_degrees_that_do_not_divide_the_world_size_are_refused() -> None:
    with pytest.raises(UserError, match=r"3 × pipeline_parallel_size 2 = 6 does not divide the world size 8"):
        make_mesh(8, tensor=3, pipeline=2)


def test_each_rank_has_its_own_place_in_the_mesh() -> None:
    mesh = Mesh(data=3, tensor=2, pipeline=2)
    places = [(mesh.stage(r), mesh.replica(r), r % mesh.tensor) for r in range(mesh.world_size)]
    assert places == [(p, d, t) for p in range(2) for d in range(3) for t in range(2)]


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_what_runs_before_the_plan_is_checked_needs_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, wstrain.data.step_counts, wsshards.errors, wstrain.launch.environment\n"
        "import wstrain.launch.mesh, wstrain.lr_schedule\n"
        "import wstrain.settings, wstrain_torch.launch.start\n"
        "sys.exit(bool({'torch', 'numpy', 'mlflow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


def ended(code: str) -> subprocess.CompletedProcess[str]:
    """How a script of its own ends."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_a_user_error_is_one_line_and_status_2() -> None:
    code = (
        "from wsshards.errors import UserError, run_main\n"
        "def main(): raise UserError('no `rows`', 'shard again')\n"
        "run_main(main)"
    )
    done = ended(code)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: no `rows`\nhelp: shard again\n")


def test_a_warning_is_one_line_beside_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_warning("`rows` are few")
    assert tuple(capsys.readouterr()) == ("", "warning: `rows` are few\n")


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_a_full_disk_is_one_line_wherever_it_is_met() -> None:
    code = (
        "import errno, os\n"
        "from wsshards.errors import run_main\n"
        "def main(): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), 'out/picture.png')\n"
        "run_main(main)"
    )
    done = ended(code)
    said = "error: cannot write `out/picture.png`: no space left on device"
    assert (done.returncode, done.stderr) == (2, f"{said}\nhelp: free space for it and run again\n")


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_a_library_that_cannot_open_a_file_ends_in_one_line_with_the_limit() -> None:
    code = (
        "import resource\n"
        "from wsshards.errors import run_main\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
        "def main(): raise RuntimeError('[enforce fail at socket.cc:24] socket: Too many open files')\n"
        "run_main(main)"
    )
    done = ended(code)
    said = "error: too many open files: a process may have 40 here\nhelp: raise `ulimit -n`\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_a_rank_that_lost_another_says_so() -> None:
    code = (
        "from wsshards.errors import run_main\n"
        "def main(): raise RuntimeError('[gloo/transport/tcp/pair.cc:1] Connection closed by peer [::1]:9')\n"
        "run_main(main)"
    )
    done = ended(code)
    assert done.returncode == 1
    assert done.stderr.startswith("error: another rank has gone")


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_success_is_not_undone_by_what_runs_when_the_interpreter_ends() -> None:
    script = (
        "import atexit, os\n"
        "from wsshards.errors import run_main\n"
        "atexit.register(os.abort)\n"  # as a thread of a process group may, rarely
        "run_main(lambda: print('trained'))"
    )
    done = ended(script)
    assert (done.returncode, done.stdout) == (0, "trained\n")


@pytest.mark.parametrize(
    ("planned", "count", "processes", "expected"),
    [
        (gpus.PlannedGpus(), 4, 1, "this machine has 4 GPUs, but 1 process trains on it: set `Process count"),
        (gpus.PlannedGpus(), 8, 2, "this machine has 8 GPUs, but 2 processes train on it: set"),
        (gpus.PlannedGpus(), 4, 4, None),
        (gpus.PlannedGpus(), 0, 2, None),
        (gpus.PlannedGpus(4), 4, 1, None),  # a plan is judged before the start
    ],
)
def test_idle_gpus_are_named_with_both_numbers(
    planned: gpus.PlannedGpus, count: int, processes: int, expected: str | None
) -> None:
    said = gpus.describe_idle_gpus(planned, count, processes)
    assert (said is None) if expected is None else (said or "").startswith(expected)
