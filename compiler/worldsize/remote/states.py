"""The words of Azure's run history, as those of a run on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from worldsize.running.model.results import StepState

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
