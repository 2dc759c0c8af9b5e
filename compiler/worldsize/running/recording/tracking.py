"""MLflow, as far as the runner is concerned: what to give each step so that its calls land in its run."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

TRACKER = Path(__file__).with_name("tracker.py")
PATIENCE_SECONDS = 30.0  # for the last writes; a database that is locked longer is given up


@dataclass(frozen=True, slots=True)
class Logged:
    """What a step has logged of one metric: its values in their order.

    ``names`` are the metrics that it has logged instead, where it has logged none of this one.
    """

    values: tuple[float, ...]
    names: tuple[str, ...] = ()


class Tracking:
    """The line to the tracker process. Without MLflow every call still works and steps run untracked.

    Args:
        home: The folder of the database and the artifacts.
        wanted: Whether to track at all.
    """

    def __init__(self, home: Path, *, wanted: bool = True) -> None:
        self.home = home.absolute()
        self.unavailable: str | None = None if wanted else ""  # the reason, empty where nobody wanted it
        self.run_id: str | None = None
        self._experiment = ""
        self._experiment_id = ""
        self._runs: dict[str, str] = {}
        self._logged: dict[tuple[str, str], Logged] = {}
        self._rest = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._description: Callable[[], dict[str, Any]] | None = None  # of the run, until it is sent
        self.started = False  # whether the tracker was ever needed

    @property
    def uri(self) -> str | None:
        """The tracking URI, None where nothing is tracked."""
        return None if self.unavailable is not None else f"sqlite:///{self.home / 'mlflow.db'}"

    def start(self) -> None:
        """Start the tracker process, which begins to import MLflow."""
        if self.unavailable is not None or self._process is not None:
            return
        self.started = True
        self.home.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, str(TRACKER), str(self.home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONWARNINGS": "ignore"},
            start_new_session=True,  # a Ctrl-C is for the runner to handle
        )

    def begin(
        self,
        experiment: str,
        name: str,
        tags: Callable[[], Mapping[str, str]],
        parameters: Mapping[str, str],
        *,
        again: bool = False,
    ) -> None:
        """Describe the run; the tracker answers when MLflow is ready.

        A tracker that was not started starts with the first step that asks for a run: where every step is
        reused there is nothing to measure, and nobody waits for MLflow.

        Args:
            experiment: The experiment's name.
            name: The run's name.
            tags: Gives its tags, once they are needed.
            parameters: Its parameters.
            again: Whether the run is resumed, and has a record already.
        """
        self._experiment = experiment

        def describe() -> dict[str, Any]:
            what = {"name": name, "tags": dict(tags()), "parameters": dict(parameters), "again": again}
            return {"experiment": experiment, **what}

        self._description = describe
        if self._process is not None:
            self._describe()

    def request(self, step: str) -> None:
        """Ask for the run of a step; :meth:`environment` has it once it is there."""
        self.start()
        self._describe()
        self._send(do="step", step=step)

    def environment(self, step: str) -> dict[str, str] | None:
        """MLflow's variables for a step, as Azure ML presets them; None while they are not known yet."""
        if self.unavailable is not None:
            return {}
        if step not in self._runs:
            return None
        return variables(str(self.uri), self._experiment, self._experiment_id, self._runs[step])

    def ask(self, step: str, metric: str) -> None:
        """Ask what a step has logged of a metric; :meth:`logged` has it once it is there."""
        self._send(do="metrics", step=step, metric=metric)

    def logged(self, step: str, metric: str) -> Logged | None:
        """The newest answer to :meth:`ask`, taken out: None until there is one, and after it was taken."""
        return self._logged.pop((step, metric), None)

    def wait_for(self, step: str, metric: str, seconds: float = PATIENCE_SECONDS) -> Logged | None:
        """Ask, and wait for the answer; None where none comes, because nothing is tracked or in time."""
        self._logged.pop((step, metric), None)
        self.ask(step, metric)
        deadline = time.monotonic() + seconds
        while (number := self.fileno()) is not None and (step, metric) not in self._logged:
            if not select.select([number], [], [], max(0.0, deadline - time.monotonic()))[0]:
                break
            self.read()
        return self.logged(step, metric)

    def tag(self, step: str, tags: Mapping[str, str]) -> None:
        """Add tags to the run of a step; returns at once."""
        self._send(do="tag", step=step, tags=dict(tags))

    def run_of(self, step: str) -> str | None:
        """The id of a step's run, None where it has none."""
        return self._runs.get(step)

    def end(self, step: str, state: str) -> None:
        """Close the run of a step; returns at once."""
        self._send(do="end", step=step, state=state)

    def finish(self, state: str, metrics: Mapping[str, float]) -> None:
        """Close the run, and wait until everything is written; nothing is, where it never began."""
        self._send(do="finish", state=state, metrics=dict(metrics))
        self._close(PATIENCE_SECONDS if self.run_id is not None else 0.0)

    def fileno(self) -> int | None:
        """What a selector waits on, None where there is nothing to wait for."""
        if self._process is None or self._process.stdout is None or self.unavailable is not None:
            return None
        return self._process.stdout.fileno()

    def read(self) -> None:
        """Take in what the tracker said (blocks where it said nothing)."""
        number = self.fileno()
        if number is None:
            return
        chunk = os.read(number, 1 << 16)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        if not chunk and self.unavailable is None:
            self.unavailable = "the process that talks to MLflow has died"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close(PATIENCE_SECONDS if self.run_id is not None else 0.0)

    def _describe(self) -> None:
        if self._description is not None and self._process is not None:
            self._send(do="begin", uri=self.uri, **self._description())
            self._description = None

    def _take(self, answer: dict[str, Any]) -> None:
        if "ready" in answer:
            self.run_id, self._experiment_id = answer["ready"]["run_id"], answer["ready"]["experiment_id"]
        elif "step" in answer:
            self._runs[answer["step"]] = answer["run_id"]
        elif "metrics" in answer:
            found = answer["metrics"]
            key = (found["step"], found["metric"])
            self._logged[key] = Logged(tuple(found["values"]), tuple(found["names"]))
        elif "unavailable" in answer:
            self.unavailable = answer["unavailable"]

    def _send(self, **document: Any) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(json.dumps(document).encode() + b"\n")
                self._process.stdin.flush()

    def _close(self, patience: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        process.stdout.close()


def variables(uri: str, experiment: str, experiment_id: str, run_id: str) -> dict[str, str]:
    """What makes ``mlflow.start_run()`` join the step's own run and registry."""
    return {
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_REGISTRY_URI": uri,
        "MLFLOW_EXPERIMENT_NAME": experiment,
        "MLFLOW_EXPERIMENT_ID": experiment_id,
        "MLFLOW_RUN_ID": run_id,
    }


def tags(pipeline: Path, run_id: str, source: Path) -> dict[str, str]:
    """Where a run comes from: the file, the user and the commit, under the names that MLflow reads.

    Args:
        pipeline: What was run, as the user named it.
        run_id: Our id of the run.
        source: The folder whose commit counts.
    """
    found = {
        "mlflow.source.name": str(pipeline),
        "mlflow.source.type": "LOCAL",
        "mlflow.user": _user(),
        "worldsize.run": run_id,
    }
    commit = _git(source, "rev-parse", "HEAD")
    if commit:
        found["mlflow.source.git.commit"] = commit
        found["mlflow.source.git.branch"] = _git(source, "rev-parse", "--abbrev-ref", "HEAD") or ""
        dirty = _git(source, "status", "--porcelain", "--untracked-files=no", "--", ".")
        found["azureml.git.dirty"] = str(bool(dirty))
    return {name: value for name, value in found.items() if value}


def _git(folder: Path, *words: str) -> str | None:
    command: Sequence[str] = ("git", "-C", str(folder), *words)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        return ""
