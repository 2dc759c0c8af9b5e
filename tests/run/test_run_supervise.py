"""Groups of real processes: whatever dies, everything ends, and soon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from worldsize.running.processes import Process
from worldsize.running.supervise import Group

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


def test_each_rank_has_its_log_environment_and_folder(tmp_path: Path) -> None:
    with Group(shell("echo $RANK $PWD", "echo $RANK >&2"), cwd=tmp_path, logs=tmp_path) as group:
        group.wait()
    assert {each.process.rank: each.status for each in group.ended} == {0: 0, 1: 0}
    assert (tmp_path / "rank-0.log").read_text() == f"0 {tmp_path}\n"
    assert (tmp_path / "rank-1.log").read_text() == "1\n"
    assert group.failure is None
    assert group.left == ()


def test_a_failing_rank_stops_the_others_at_once(tmp_path: Path, marker: str) -> None:
    begin = time.monotonic()
    with Group(shell(f"{marker}; true", "exit 7"), cwd=tmp_path, logs=tmp_path) as group:
        group.wait()
    assert time.monotonic() - begin < 5
    assert group.failure is not None
    assert (group.failure.process.rank, group.failure.status) == (1, 7)
    assert group.ended[-1].status == -signal.SIGTERM
    assert gone(marker)


def test_a_signal_is_told_from_a_status(tmp_path: Path) -> None:
    with Group(shell("kill -SEGV $$"), cwd=tmp_path, logs=tmp_path) as group:
        group.wait()
    assert group.failure is not None
    assert group.failure.status == -signal.SIGSEGV


def test_a_grandchild_that_ignores_term_in_a_session_of_its_own_is_killed(
    tmp_path: Path, marker: str
) -> None:
    stubborn = f"setsid bash -c 'trap \"\" TERM; touch ready; while true; do {marker}; done' & wait"
    with Group(shell(stubborn), cwd=tmp_path, logs=tmp_path, grace=0.5) as group:
        wait_for(tmp_path / "ready")
        group.stop()
        group.wait()
    assert group.left == ()
    assert gone(marker)


def test_term_is_given_its_time(tmp_path: Path) -> None:
    polite = "trap 'sleep 0.3; echo saved; exit 0' TERM; touch ready; while true; do sleep 0.05; done"
    with Group(shell(polite), cwd=tmp_path, logs=tmp_path) as group:
        wait_for(tmp_path / "ready")
        group.stop()
        group.wait()
    assert (tmp_path / "rank-0.log").read_text().endswith("saved\n")  # bash names the sleep it lost


def test_a_stopped_process_is_ended_too(tmp_path: Path) -> None:
    with Group(shell("touch ready; kill -STOP $$"), cwd=tmp_path, logs=tmp_path, grace=5) as group:
        wait_for(tmp_path / "ready")
        begin = time.monotonic()
        group.stop()
        group.wait()
    assert time.monotonic() - begin < 3


def test_what_a_command_leaves_in_the_background_ends_with_it(tmp_path: Path, marker: str) -> None:
    begin = time.monotonic()
    with Group(shell(f"({marker}; true) & setsid {marker} & exit 0"), cwd=tmp_path, logs=tmp_path) as group:
        group.wait()
    assert time.monotonic() - begin < 4
    assert group.failure is None
    assert gone(marker)


def test_leaving_the_context_stops_the_group(tmp_path: Path, marker: str) -> None:
    with pytest.raises(RuntimeError), Group(shell(marker), cwd=tmp_path, logs=tmp_path):
        raise RuntimeError
    assert gone(marker)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    nothing = [Process("rank-0", 0, 0, 0, ("no-such-program",), {})]
    with Group(nothing, cwd=tmp_path, logs=tmp_path) as group:
        group.wait()
    assert group.failure is not None
    assert group.failure.status == 127
    assert "cannot start `no-such-program`" in (tmp_path / "rank-0.log").read_text()


RUNNER = """
    import sys
    from pathlib import Path
    from worldsize.running.processes import Process
    from worldsize.running.supervise import Group
    folder, command = Path(sys.argv[1]), sys.argv[2]
    rank = Process("rank-0", 0, 0, 0, ("bash", "-c", command), {})
    with Group([rank], cwd=folder, logs=folder, grace=0.5) as g:
        print(g._guard.pid, flush=True)
        g.wait()
"""


@pytest.fixture
def runner(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Starts a runner in a process of its own; gives it and the pid of its guard."""
    started: list[subprocess.Popen[str]] = []

    def start(command: str) -> tuple[subprocess.Popen[str], int]:
        code = [sys.executable, "-c", textwrap.dedent(RUNNER), str(tmp_path), command]
        started.append(subprocess.Popen(code, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout is not None
        guard = int(started[-1].stdout.readline())
        wait_for(tmp_path / "ready")
        return started[-1], guard

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_kill_nine_of_the_runner_leaves_nothing(tmp_path: Path, marker: str, runner) -> None:  # type: ignore[no-untyped-def]
    process, guard = runner(f"trap '' TERM; setsid {marker} & touch ready; {marker}; true")
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while psutil.pid_exists(guard) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(guard)
    assert gone(marker)


def test_kill_nine_of_the_guard_leaves_nothing(tmp_path: Path, marker: str, runner) -> None:  # type: ignore[no-untyped-def]
    process, guard = runner(f"{marker} & touch ready; {marker}; true")
    os.kill(guard, signal.SIGKILL)
    assert process.wait(10) == 0
    assert gone(marker)


def test_kill_nine_of_runner_and_guard_together_ends_the_ranks(tmp_path: Path, marker: str, runner) -> None:  # type: ignore[no-untyped-def]
    process, guard = runner(f"touch ready; exec {marker}")
    os.kill(guard, signal.SIGSTOP)  # it cannot react before it is killed as well
    process.kill()
    os.kill(guard, signal.SIGKILL)
    assert gone(marker)
