"""A run in a workspace: its state in the words of a run here, its error, and the logs of its processes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import PurePosixPath
from typing import Any

from worldsize.documents.diagnostics.snippet import flatten
from worldsize.remote.rest import Rest
from worldsize.running.launch.logs import Decoder
from worldsize.running.model.results import StepState

OF_USERS = "user_logs/"  # what the command has written; other folders have the service's own logs
_RANK = re.compile(r"(?:std_log_process_|rank-)(\d{1,9})$")


class RemoteFollower:
    """Reads a growing log from its last position."""

    def __init__(self, rest: Rest, url: str) -> None:
        self._rest, self._url = rest, url
        self._position = 0
        self._decoder = Decoder()

    def lines(self, *, final: bool = False) -> list[str]:
        """The lines that were completed since the last call."""
        data = self._rest.read_bytes(self._url, self._position)
        self._position += len(data)
        return self._decoder.feed(data, final=final)


class RemoteLogs:
    """The logs of one run, by the name of their process (``rank-3``), or that of their file."""

    def __init__(self, rest: Rest, run: str) -> None:
        self._rest, self._run = rest, run
        self._followers: dict[str, RemoteFollower] = {}
        self.has_ended = False
        self.failure: str | None = None  # why there may be no log

    def followers(self) -> Mapping[str, RemoteFollower]:
        """The readers of all logs that there are now; :attr:`has_ended` says whether they are complete."""
        details = self._rest.run_details(self._run)
        self.has_ended, self.failure = details.get("status") in ENDED, error_of(details)
        files = details.get("logFiles") or {}
        for name, path in name_processes(files).items():
            if name not in self._followers:
                self._followers[name] = RemoteFollower(self._rest, files[path])
        return self._followers


def name_processes(files: Mapping[str, str]) -> dict[str, str]:
    """The paths of the logs that commands have written, by the name of the process."""
    paths = [path for path in files if path.startswith(OF_USERS)] or list(files)
    named = {}
    for path in paths:
        stem = PurePosixPath(path).stem
        rank = _RANK.search(stem)
        named[f"rank-{int(rank[1])}" if rank else stem] = path
    return named


def last_lines(rest: Rest, run: str, count: int) -> list[str]:
    """The last lines that a run has written; of several processes, those of the first that wrote any."""
    logs = RemoteLogs(rest, run)
    for follower in logs.followers().values():
        if lines := [line for line in follower.lines(final=True) if line.strip()]:
            return [flatten(line.expandtabs()) for line in lines[-count:]]
    return []


# https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-command has the statuses of jobs.
_STEPS: Mapping[str, StepState] = {
    "NotStarted": "waiting",
    "Paused": "waiting",
    "Unknown": "waiting",
    "Starting": "preparing",
    "Provisioning": "preparing",
    "Preparing": "preparing",
    "Queued": "preparing",
    "Running": "running",
    "Finalizing": "running",
    "CancelRequested": "running",
    "NotResponding": "running",
    "Completed": "succeeded",
    "Failed": "failed",
    "Canceled": "stopped",
}
_RUNS = {"Completed": "succeeded", "Failed": "failed", "Canceled": "canceled"}
ENDED = frozenset(_RUNS)  # statuses after which nothing changes


def step_state(run: Mapping[str, Any]) -> StepState:
    """The state of a step, by its run."""
    state = _STEPS.get(str(run.get("status")), "waiting")
    properties = run.get("properties") or {}
    is_reused = str(properties.get("azureml.isreused", "")).lower() == "true"
    return "reused" if state == "succeeded" and is_reused else state


def run_state(status: object) -> str:
    """The state of a whole job: that of a run here where it has ended, else ``queued`` or ``running``."""
    if status in _RUNS:
        return _RUNS[str(status)]
    return "running" if _STEPS.get(str(status)) == "running" else "queued"


def parse_time(text: object) -> datetime | None:
    """A time of the service, which has seven digits behind the second."""
    if not isinstance(text, str) or len(text) < 19:
        return None
    whole, fraction = text[:19], text[19:].lstrip(".")
    digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))][:6]
    try:
        moment = datetime.fromisoformat(whole)
    except ValueError:
        return None
    return moment.replace(microsecond=int(digits.ljust(6, "0")), tzinfo=timezone.utc)


def seconds_of(run: Mapping[str, Any]) -> float:
    """Seconds that a run has been running, until now or until its end; 0 before its start."""
    start, end = parse_time(run.get("startTimeUtc")), parse_time(run.get("endTimeUtc"))
    if start is None:
        return 0.0
    return max(0.0, ((end or datetime.now(timezone.utc)) - start).total_seconds())


def error_of(run: Mapping[str, Any]) -> str | None:
    """The message of a run's error."""
    error = run.get("error")
    error = error.get("error", error) if isinstance(error, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return str(message).strip() or None if message else None
