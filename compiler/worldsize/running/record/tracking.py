"""Tracks a run in MLflow, and gives each step the variables with which its calls join its own run."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from worldsize.running.launch.call import mlflow_variables
from worldsize.running.launch.supervisor import LivenessTimer
from worldsize.running.record.tracker import now

PATIENCE_SECONDS = 30.0  # for the last writes of an interrupted run
STUCK_SECONDS = 120.0  # for one document, import included; a database may be locked for long
MAX_LOSSES = 3  # of consecutive trackers that wrote nothing
LOOK_SECONDS = 0.15


class LoggedMetric(Struct, frozen=True):
    """The values of one metric of a step, in order.

    ``names`` are the metrics that it has logged instead, if it has not logged this one.
    """

    values: tuple[float, ...]
    names: tuple[str, ...] = ()


class Tracking(contextlib.AbstractContextManager["Tracking"]):
    """The connection to the tracker process. Without MLflow every call still works, and steps run untracked.

    Each message is kept until the tracker has confirmed it. A tracker that dies or becomes silent is
    replaced, and gets the unconfirmed messages again.

    Args:
        home: The folder of the database and the artifacts.
        wanted: Whether to track at all.
    """

    def __init__(self, home: Path, *, wanted: bool = True) -> None:
        self.home = home.absolute()
        self.unavailable: str | None = None if wanted else ""  # the reason, empty if tracking is off
        self.run_id: str | None = None
        self.started = False  # whether the tracker was ever needed
        self._experiment = ""
        self._experiment_id = ""
        self._runs: dict[str, str] = {}
        self._ended: set[str] = set()  # steps whose runs are closed
        self._logged: dict[tuple[str, str], LoggedMetric] = {}
        # of the run, until the tracker needs it
        self._description: Callable[[], dict[str, Any]] | None = None
        self._begin: dict[str, Any] | None = None
        self._name_step: Callable[[str], str] | None = None
        self._pending: deque[dict[str, Any]] = deque()  # unconfirmed, the oldest first
        self._number = 0
        self._waited = 0.0  # seconds for the oldest
        self._worker: TrackerProcess | None = None
        self._finished = False  # whether the end of the run is written
        self._losses = 0  # of trackers since the last confirmation

    @property
    def uri(self) -> str | None:
        """The tracking URI, or None if nothing is tracked."""
        return None if self.unavailable is not None else f"sqlite:///{self.home / 'mlflow.db'}"

    @property
    def incomplete(self) -> bool:
        """Whether the record of the run lacks something."""
        return bool(self.unavailable) and self.run_id is not None

    def start(self) -> None:
        """Start the tracker process, which imports MLflow."""
        if self.unavailable is not None or self._worker is not None:
            return
        self.started = True
        self.home.mkdir(parents=True, exist_ok=True)
        self._worker = TrackerProcess(self.home)

    def begin(
        self,
        experiment: str,
        name: str,
        tags: Callable[[], Mapping[str, str]],
        parameters: Mapping[str, str],
        *,
        again: bool = False,
        run_id: str | None = None,
        name_step: Callable[[str], str] | None = None,
    ) -> None:
        """Describe the run; the tracker answers when MLflow is ready.

        A tracker that was not started starts with the first step that asks for a run: where every step is
        reused there is nothing to measure, and nothing waits for MLflow. ``again`` means that the run is
        resumed. ``run_id`` is the id of the run in MLflow and ``name_step`` gives those of its steps, where
        they are chosen; a step with the id of the whole run uses that run.
        """
        self._experiment = experiment
        self._name_step = name_step

        what = {"name": name, "parameters": dict(parameters), "again": again, "run_id": run_id}
        what |= {"do": "begin", "experiment": experiment, "uri": self.uri}
        self._description = lambda: {**what, "tags": dict(tags()), "time": now()}
        if self._worker is not None:
            self._describe()

    def request(self, step: str, key: str | None = None) -> None:
        """Request the run of a step at each start; :meth:`environment` has it once it exists.

        A resumed run continues the run of a step with the same key.
        """
        self.start()
        self._describe()
        self._runs.pop(step, None)  # of an earlier attempt: the step waits until this one is counted
        self._ended.discard(step)
        chosen = None if self._name_step is None else self._name_step(step)
        self._send(do="step", step=step, key=key or "", run_id=chosen)

    def environment(self, step: str) -> dict[str, str] | None:
        """MLflow's variables for a step, as Azure ML presets them; None until they are known."""
        if self.unavailable is not None:
            return {}
        if step not in self._runs:
            return None
        return mlflow_variables(str(self.uri), self._experiment, self._experiment_id, self._runs[step])

    def ask(self, step: str, metric: str) -> None:
        """Request the values of a metric of a step; :meth:`logged` has them when they arrive."""
        self._send(do="metrics", step=step, metric=metric)

    def logged(self, step: str, metric: str) -> LoggedMetric | None:
        """Take the newest answer to :meth:`ask`; None if there is none."""
        return self._logged.pop((step, metric), None)

    def wait_for(self, step: str, metric: str, seconds: float = PATIENCE_SECONDS) -> LoggedMetric | None:
        """Request values and wait for them; None if nothing is tracked, or after a timeout."""
        self._logged.pop((step, metric), None)
        self.ask(step, metric)
        deadline = time.monotonic() + seconds
        while self._wait() and (step, metric) not in self._logged and time.monotonic() < deadline:
            pass
        return self.logged(step, metric)

    def tag(self, step: str, tags: Mapping[str, str]) -> None:
        """Add tags to the run of a step; does not wait."""
        self._send(do="tag", step=step, tags=dict(tags))

    def run_of(self, step: str) -> str | None:
        """The id of a step's run, or None."""
        return self._runs.get(step)

    def end(self, step: str, state: str) -> None:
        """Close the run of a step; does not wait."""
        self._send(do="end", step=step, state=state)

    def finish(self, state: str, metrics: Mapping[str, float]) -> None:
        """Close the run, if it has started, and wait until everything is written."""
        if self.run_id is not None:
            self._send(do="finish", state=state, metrics=dict(metrics))
            while self._pending and self._wait():
                pass
        self._close()

    def fileno(self) -> int | None:
        """What a selector waits on, the same for the whole run; None if nothing is tracked."""
        return None if self._worker is None or self.unavailable is not None else self._worker.fileno()

    def read(self) -> None:
        """Handle the answers of the tracker."""
        for document in self._worker.read() if self._worker is not None else ():
            self._handle(document)

    def look(self) -> None:
        """Check the tracker, and replace it if it does not work."""
        if self._worker is None or self.unavailable is not None or self._finished:
            return
        waited = self._worker.look()
        self._waited = self._waited + waited if self._pending else 0.0
        fault = self._worker.fault
        if fault is None and self._waited > STUCK_SECONDS:
            fault = f"the process that talks to MLflow has made no progress for {STUCK_SECONDS:.0f} s"
        if fault is not None:
            self._replace(fault)

    def __exit__(self, *_: object) -> None:
        self._close()

    def _describe(self) -> None:
        if self._description is not None and self._worker is not None:
            self._begin, self._description = self._description(), None
            self._worker.send(self._begin)

    def _replace(self, fault: str) -> None:
        """Replace a tracker that does not work, and send the unconfirmed messages again."""
        assert self._worker is not None
        self._worker.kill()
        self.read()  # its last answers
        self._waited = 0.0
        self._losses += 1
        if self.unavailable is not None or self._finished:
            return
        if self._losses > MAX_LOSSES:
            self.unavailable = self._worker.fault or fault
            return
        self._worker.launch()
        if self._begin is None:
            return
        still = [step for step in self._runs if step not in self._ended]
        earlier = {"run_id": self.run_id, "runs": self._runs, "open": still} if self.run_id else None
        self._worker.send({**self._begin, "again": True, "known": earlier})
        for document in self._pending:
            self._worker.send({**document, "repeated": True})

    def _wait(self) -> bool:
        """Wait a moment for the tracker; False if there is none."""
        number = self.fileno()
        if number is not None:
            select.select([number], [], [], LOOK_SECONDS)
            self.read()
            self.look()
        return self.fileno() is not None

    def _handle(self, answer: dict[str, Any]) -> None:
        if "ready" in answer:
            self.run_id, self._experiment_id = answer["ready"]["run_id"], answer["ready"]["experiment_id"]
        elif "step" in answer:
            self._runs[answer["step"]] = answer["run_id"]
        elif "metrics" in answer:
            metrics = answer["metrics"]
            key = (metrics["step"], metrics["metric"])
            self._logged[key] = LoggedMetric(tuple(metrics["values"]), tuple(metrics["names"]))
        elif "done" in answer:
            self._losses, self._waited = 0, 0.0
            while self._pending and self._pending[0]["number"] <= answer["done"]:
                written = self._pending.popleft()
                if written["do"] == "end":
                    self._ended.add(written["step"])
                self._finished = self._finished or written["do"] == "finish"
        elif "unavailable" in answer and self._worker is not None:
            self._worker.fault = answer["unavailable"]
            if self.run_id is None:  # another tracker would fail, too
                self.unavailable = answer["unavailable"]

    def _send(self, **document: Any) -> None:
        if self._worker is None or self.unavailable is not None:
            return
        self._number += 1
        document |= {"number": self._number, "time": now()}
        self._pending.append(document)
        self._worker.send(document)

    def _close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close(PATIENCE_SECONDS)


def run_tags(pipeline: Path, run_id: str, source: Path) -> dict[str, str]:
    """The origin of a run: file, user and commit of a folder, under the names that MLflow reads."""
    tags = {
        "mlflow.source.name": str(pipeline),
        "mlflow.source.type": "LOCAL",
        "mlflow.user": _find_user(),
        "worldsize.run": run_id,
    }
    commit = _run_git(source, "rev-parse", "HEAD")
    if commit:
        tags["mlflow.source.git.commit"] = commit
        tags["mlflow.source.git.branch"] = _run_git(source, "rev-parse", "--abbrev-ref", "HEAD") or ""
        dirty = _run_git(source, "status", "--porcelain", "--untracked-files=no", "--", ".")
        tags["azureml.git.dirty"] = str(bool(dirty))
    return {name: value for name, value in tags.items() if value}


def _run_git(folder: Path, *words: str) -> str | None:
    command: Sequence[str] = ("git", "-C", str(folder), *words)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _find_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        return ""


TRACKER = Path(__file__).with_name("tracker.py")
KILL_SECONDS = 5.0
VARIABLES = {"MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONWARNINGS": "ignore"}


class TrackerProcess:
    """A tracker and its replacements, which all answer on the same pipe."""

    def __init__(self, home: Path) -> None:
        self.fault: str | None = None  # why it must be replaced
        self._home = home
        self._reading, self._writing = os.pipe()  # stays open: one descriptor for a selector
        os.set_blocking(self._reading, False)
        self._rest = self._unsent = b""
        self.launch()

    def launch(self) -> None:
        """Start a tracker."""
        self.fault, self._rest, self._unsent = None, b"", b""
        self._liveness = LivenessTimer()
        forked = fork_tracker(self._home, self._writing)
        self._process: subprocess.Popen[bytes] | ForkedTracker = forked or subprocess.Popen(
            [sys.executable, str(TRACKER), str(self._home)],
            stdin=subprocess.PIPE,
            stdout=self._writing,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **VARIABLES},
            start_new_session=True,  # a Ctrl-C is for the runner to handle
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def fileno(self) -> int:
        """What a selector waits on."""
        return self._reading

    def send(self, document: Mapping[str, Any]) -> None:
        """Send one document; what the pipe does not accept now is sent by :meth:`look`."""
        self._unsent += json.dumps(document).encode() + b"\n"
        self._flush()

    def read(self) -> Iterator[dict[str, Any]]:
        """The new answers; does not wait."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._reading, 1 << 16):
                self._liveness.reset()
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                yield from (answer for answer in map(json.loads, lines) if "alive" not in answer)

    def look(self) -> float:
        """Check that it is alive, else set :attr:`fault`; the seconds of silence since the last check."""
        self._flush()
        before = self._liveness.seconds
        if self._process.poll() is not None:
            self.fault = self.fault or "the process that talks to MLflow has died"
        elif self._liveness.has_expired(self._process.pid):
            self.fault = self.fault or "the process that talks to MLflow does not answer"
        return self._liveness.seconds - before

    def kill(self) -> None:
        """Kill it, so that it writes nothing more."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_SECONDS)
        self._close_input()

    def close(self, patience: float) -> None:
        """Close its input, and wait until it has ended."""
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGCONT)
        self._close_input()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
        os.close(self._reading)
        os.close(self._writing)

    def _flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the pipe is full or closed
            assert self._process.stdin is not None
            while self._unsent:
                self._unsent = self._unsent[os.write(self._process.stdin.fileno(), self._unsent) :]

    def _close_input(self) -> None:
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()


LINK = "tracker"  # in the home, to the server's socket; a socket's own path must be short
ANSWER_SECONDS = 5.0


class ForkedTracker:
    """The process of a tracker, with the methods of :class:`subprocess.Popen` that a tracker needs."""

    def __init__(self, pid: int, connection: socket.socket, stdin: BinaryIO) -> None:
        self.pid = pid
        self.stdin = stdin
        self._connection = connection

    def poll(self) -> int | None:
        """0 if it has ended, else None."""
        return 0 if select.select([self._connection], [], [], 0)[0] else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended.

        Raises:
            TimeoutExpired: It has not.
        """
        if not select.select([self._connection], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("tracker", timeout or 0)
        return 0

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it lives."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


def fork_tracker(home: Path, output: int) -> ForkedTracker | None:
    """Ask the server of a home for a tracker that writes to ``output``; None if there is no server.

    A server that runs another Python, which may have another MLflow, refuses.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(ANSWER_SECONDS)
    reading, writing = os.pipe()
    try:
        connection.connect(str((home / LINK).readlink()))
        socket.send_fds(connection, [describe_python()], [reading, output])
        pid = int(connection.recv(32) or b"0")
    except (OSError, ValueError):
        pid = 0
    os.close(reading)
    if not pid:
        os.close(writing)
        connection.close()
        return None
    return ForkedTracker(pid, connection, os.fdopen(writing, "wb", buffering=0))


def describe_python() -> bytes:
    """Which Python runs: its executable in its environment."""
    return f"{sys.prefix}\n{sys.version}".encode()
