"""Groups of real processes: whatever dies, everything ends, and soon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from worldsize.running.launch import supervisor as supervising
from worldsize.running.launch.group import Group
from worldsize.running.launch.supervisor import Supervisor
from worldsize.running.model.process import Process

psutil = pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.timeout(60)]


def shell(*commands: str) -> list[Process]:
    return [
        Process(f"rank-{i}", i, i, 0, ("bash", "-c", c), {"RANK": str(i)}) for i, c in enumerate(commands)
    ]


def wait_for(path: Path, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} did not appear"
        time.sleep(0.01)


def gone(marker: str) -> bool:
    """Whether no process has the marker on its command line (a zombie has none)."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        if not any(marker in " ".join(found) for found in command_lines()):
            return True
        time.sleep(0.05)
    return False


def command_lines() -> list[list[str]]:
    return [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]


@pytest.fixture
def marker(tmp_path: Path) -> str:
    """A text that only this test's processes have on their command line."""
    return f"sleep 1234.{os.getpid()}{abs(hash(tmp_path)) % 10**6}"


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with Supervisor() as found:
        yield found


@pytest.mark.smoke
def test_each_rank_has_its_log_environment_and_folder(tmp_path: Path, supervisor: Supervisor) -> None:
    with Group(shell("echo $RANK $PWD", "echo $RANK >&2"), supervisor, cwd=tmp_path, logs=tmp_path) as group:
        group.wait()
    assert {each.process.rank: each.status for each in group.ended} == {0: 0, 1: 0}
    assert (tmp_path / "rank-0.log").read_text() == f"0 {tmp_path}\n"
    assert (tmp_path / "rank-1.log").read_text() == "1\n"
    assert group.failure is None
    assert group.left == ()


@pytest.mark.smoke
def test_a_failing_rank_stops_the_others_at_once(tmp_path: Path, supervisor: Supervisor, marker: str) -> None:
    begin = time.monotonic()
    with Group(shell(f"{marker}; true", "exit 7"), supervisor, cwd=tmp_path, logs=tmp_path) as group:
        group.wait()
    assert time.monotonic() - begin < 5
    assert group.failure is not None
    assert (group.failure.process.rank, group.failure.status) == (1, 7)
    assert group.ended[-1].status == -signal.SIGTERM
    assert gone(marker)


@pytest.mark.smoke
def test_a_signal_is_told_from_a_status(tmp_path: Path, supervisor: Supervisor) -> None:
    with Group(shell("kill -SEGV $$"), supervisor, cwd=tmp_path, logs=tmp_path) as group:
        group.wait()
    assert group.failure is not None
    assert group.failure.status == -signal.SIGSEGV


@pytest.mark.smoke
def test_a_grandchild_that_ignores_term_in_a_session_of_its_own_is_killed(
    tmp_path: Path, supervisor: Supervisor, marker: str
) -> None:
    stubborn = f"setsid bash -c 'trap \"\" TERM; touch ready; while true; do {marker}; done' & wait"
    with Group(shell(stubborn), supervisor, cwd=tmp_path, logs=tmp_path, grace=0.5) as group:
        wait_for(tmp_path / "ready")
        group.stop()
        group.wait()
    assert group.left == ()
    assert gone(marker)


@pytest.mark.smoke
def test_term_is_given_its_time(tmp_path: Path, supervisor: Supervisor) -> None:
    polite = "trap 'sleep 0.3; echo saved; exit 0' TERM; touch ready; while true; do sleep 0.05; done"
    with Group(shell(polite), supervisor, cwd=tmp_path, logs=tmp_path) as group:
        wait_for(tmp_path / "ready")
        group.stop()
        group.wait()
    assert (tmp_path / "rank-0.log").read_text().endswith("saved\n")  # bash names the sleep it lost


@pytest.mark.smoke
def test_a_stopped_process_is_ended_too(tmp_path: Path, supervisor: Supervisor) -> None:
    with Group(
        shell("touch ready; kill -STOP $$"), supervisor, cwd=tmp_path, logs=tmp_path, grace=5
    ) as group:
        wait_for(tmp_path / "ready")
        begin = time.monotonic()
        group.stop()
        group.wait()
    assert time.monotonic() - begin < 3


@pytest.mark.smoke
def test_what_a_command_leaves_in_the_background_ends_with_it(
    tmp_path: Path, supervisor: Supervisor, marker: str
) -> None:
    begin = time.monotonic()
    with Group(
        shell(f"({marker}; true) & setsid {marker} & exit 0"), supervisor, cwd=tmp_path, logs=tmp_path
    ) as group:
        group.wait()
    assert time.monotonic() - begin < 4
    assert group.failure is None
    assert gone(marker)


def served(*commands: str) -> list[Process]:
    """The last of the commands serves the others."""
    *ranks, server = shell(*commands)
    return [*ranks, replace(server, name="ps-0", serves=True)]


@pytest.mark.smoke
def test_what_serves_is_ended_when_the_others_have_ended_well(
    tmp_path: Path, supervisor: Supervisor, marker: str
) -> None:
    with Group(served("true", f"{marker}; true"), supervisor, cwd=tmp_path, logs=tmp_path) as group:
        group.wait()
    assert group.failure is None
    assert [(each.process.name, each.status, each.told) for each in group.ended] == [
        ("rank-0", 0, False),
        ("ps-0", -signal.SIGTERM, True),
    ]
    assert gone(marker)


@pytest.mark.smoke
def test_a_signal_that_meets_a_process_as_it_starts_is_not_lost(
    tmp_path: Path, supervisor: Supervisor
) -> None:
    for number in range(20):  # before its first instruction once in some
        logs = tmp_path / str(number)
        logs.mkdir()
        begin = time.monotonic()
        with Group(served("true", "exec sleep 600"), supervisor, cwd=tmp_path, logs=logs) as group:
            group.wait()
        assert group.ended[-1].status == -signal.SIGTERM
        assert time.monotonic() - begin < 3


@pytest.mark.smoke
@pytest.mark.parametrize(("guilty", "status"), [("ps-0", 4), ("rank-0", 5)])
def test_what_serves_may_fail_and_be_stopped_as_others(
    tmp_path: Path, supervisor: Supervisor, marker: str, guilty: str, status: int
) -> None:
    waits, fails = f"{marker}; true", f"exit {status}"
    commands = (waits, fails) if guilty == "ps-0" else (fails, waits)
    with Group(served(*commands), supervisor, cwd=tmp_path, logs=tmp_path) as group:
        group.wait()
    assert group.failure is not None
    assert (group.failure.process.name, group.failure.status) == (guilty, status)
    assert gone(marker)


@pytest.mark.smoke
def test_a_guard_that_is_told_to_end_does_not_make_a_success(
    tmp_path: Path, supervisor: Supervisor, marker: str
) -> None:
    commands = served(f"touch ready; {marker}; true", f"{marker}; true")
    with Group(commands, supervisor, cwd=tmp_path, logs=tmp_path) as group:
        wait_for(tmp_path / "ready")
        while group.guard is None:
            group.read()
        os.kill(group.guard, signal.SIGTERM)
        group.wait()
    assert group.failure is not None
    assert group.failure.process.name == "rank-0"


@pytest.mark.smoke
def test_leaving_the_context_stops_the_group(tmp_path: Path, supervisor: Supervisor, marker: str) -> None:
    with pytest.raises(RuntimeError), Group(shell(marker), supervisor, cwd=tmp_path, logs=tmp_path):
        raise RuntimeError
    assert gone(marker)


@pytest.mark.smoke
def test_a_program_that_is_not_there(tmp_path: Path, supervisor: Supervisor) -> None:
    nothing = [Process("rank-0", 0, 0, 0, ("no-such-program",), {})]
    with Group(nothing, supervisor, cwd=tmp_path, logs=tmp_path) as group:
        group.wait()
    assert group.failure is not None
    assert group.failure.status == 127
    assert "cannot start `no-such-program`" in (tmp_path / "rank-0.log").read_text()


RUNNER = """
    import sys
    from pathlib import Path
    from worldsize.running.launch.group import Group
    from worldsize.running.launch.supervisor import Supervisor
    from worldsize.running.model.process import Process
    folder, command = Path(sys.argv[1]), sys.argv[2]
    rank = Process("rank-0", 0, 0, 0, ("bash", "-c", command), {})
    with Supervisor() as supervisor, Group([rank], supervisor, cwd=folder, logs=folder, grace=0.5) as group:
        while group.guard is None:
            group.read()
        print(supervisor._process.pid, group.guard, flush=True)
        group.wait()
"""


class Started(NamedTuple):
    runner: subprocess.Popen[str]
    supervisor: int
    guard: int


Start = Callable[[str], Started]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a runner in a process of its own, with one command."""
    runners: list[subprocess.Popen[str]] = []

    def begin(command: str) -> Started:
        code = [sys.executable, "-c", textwrap.dedent(RUNNER), str(tmp_path), command]
        runner = subprocess.Popen(code, stdout=subprocess.PIPE, text=True)
        runners.append(runner)
        assert runner.stdout is not None
        supervisor, guard = map(int, runner.stdout.readline().split())
        wait_for(tmp_path / "ready")
        return Started(runner, supervisor, guard)

    yield begin
    for runner in runners:
        runner.kill()
        runner.wait()
        assert runner.stdout is not None
        runner.stdout.close()


def ended(*pids: int, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while any(psutil.pid_exists(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.smoke
def test_kill_nine_of_the_runner_leaves_nothing(marker: str, start: Start) -> None:
    started = start(f"trap '' TERM; setsid {marker} & touch ready; {marker}; true")
    started.runner.kill()
    started.runner.wait()
    assert ended(started.guard, started.supervisor)
    assert gone(marker)


@pytest.mark.smoke
def test_kill_nine_of_the_guard_leaves_nothing(marker: str, start: Start) -> None:
    started = start(f"trap '' TERM; setsid {marker} & {marker} & touch ready; {marker}; true")
    os.kill(started.guard, signal.SIGKILL)
    assert started.runner.wait(15) == 0
    assert ended(started.supervisor)
    assert gone(marker)


def test_kill_nine_of_the_supervisor_leaves_nothing(marker: str, start: Start) -> None:
    started = start(f"setsid {marker} & touch ready; {marker}; true")
    os.kill(started.supervisor, signal.SIGKILL)
    assert started.runner.wait(15) == 0
    assert ended(started.guard)
    assert gone(marker)


@pytest.mark.smoke
def test_kill_nine_of_everything_that_watches_ends_the_ranks(marker: str, start: Start) -> None:
    started = start(f"touch ready; exec {marker}")
    for pid in (started.supervisor, started.guard):
        os.kill(pid, signal.SIGSTOP)  # neither can react before it is killed as well
    started.runner.kill()
    for pid in (started.supervisor, started.guard):
        os.kill(pid, signal.SIGKILL)
    assert gone(marker)


@pytest.mark.smoke
def test_one_supervisor_serves_groups_side_by_side(tmp_path: Path, supervisor: Supervisor) -> None:
    # Each waits for the other's file, so neither ends unless both run at the same time.
    meet = "touch {own}; for i in $(seq 500); do [ -e {other} ] && exit 0; sleep 0.01; done; exit 1"
    first, second = shell(meet.format(own="a", other="b")), shell(meet.format(own="b", other="a"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        Group(first, supervisor, cwd=tmp_path, logs=tmp_path / "one") as one,
        Group(second, supervisor, cwd=tmp_path, logs=tmp_path / "two") as two,
    ):
        one.wait()
        two.wait()
    assert one.failure is None
    assert two.failure is None
    assert one.guard != two.guard


@pytest.mark.smoke
def test_a_dead_warden_has_a_successor(tmp_path: Path) -> None:
    with Supervisor() as supervisor:
        os.kill(supervisor.pid, signal.SIGKILL)
        supervisor._process.wait()
        with Group(shell("true"), supervisor, cwd=tmp_path, logs=tmp_path) as group:
            group.wait()
    assert group.failure is None
    assert group.lost is None


@pytest.mark.parametrize("helper", ["guard", "supervisor"])
def test_a_helper_that_is_stopped_goes_on(tmp_path: Path, supervisor: Supervisor, helper: str) -> None:
    begin = time.monotonic()
    if helper == "supervisor":
        os.kill(supervisor.pid, signal.SIGSTOP)
    with Group(shell("touch up; sleep 0.5; touch over"), supervisor, cwd=tmp_path, logs=tmp_path) as group:
        if helper == "guard":
            while group.guard is None:
                group.read()
            wait_for(tmp_path / "up")
            os.kill(group.guard, signal.SIGSTOP)
        group.wait()
    assert [each.status for each in group.ended] == [0]
    assert group.lost is None
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("helper", ["guard", "supervisor"])
def test_a_helper_that_never_answers_is_given_up(
    tmp_path: Path, supervisor: Supervisor, marker: str, monkeypatch: pytest.MonkeyPatch, helper: str
) -> None:
    monkeypatch.setattr(supervising, "CONTINUE_SECONDS", 600.0)
    monkeypatch.setattr(supervising, "LOST_SECONDS", 3.0)
    stuck = supervisor.pid
    if helper == "supervisor":
        os.kill(stuck, signal.SIGSTOP)
    with Group(shell(f"touch up; {marker}; true"), supervisor, cwd=tmp_path, logs=tmp_path) as group:
        if helper == "guard":
            wait_for(tmp_path / "up")
            while group.guard is None:
                group.read()
            os.kill(group.guard, signal.SIGSTOP)
        group.wait()
    assert group.lost == "the process that supervised it did not answer"
    assert gone(marker)
    if helper == "supervisor":  # the groups that come have another
        assert supervisor.pid != stuck
        with Group(shell("true"), supervisor, cwd=tmp_path, logs=tmp_path) as group:
            group.wait()
        assert group.lost is None


@pytest.mark.smoke
def test_a_group_whose_warden_was_killed_has_not_succeeded(tmp_path: Path, supervisor: Supervisor) -> None:
    polite = "trap 'exit 0' TERM; touch up; while :; do sleep 0.1; done"
    with Group(shell(polite), supervisor, cwd=tmp_path, logs=tmp_path) as group:
        wait_for(tmp_path / "up")
        os.kill(supervisor.pid, signal.SIGKILL)
        group.wait()
    assert [each.status for each in group.ended] == [0]
    assert group.lost == "the process that starts the processes of the run was killed"
