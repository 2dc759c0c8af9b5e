"""Reads from the event log of a run when its steps and their processes started and ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from worldsize.reporting.model import Attempt, Period

MAX_PROCESSES = 4096  # of one step
Event = Mapping[str, Any]


def read_time(event: Event) -> float | None:
    """When an event happened; None if its time is damaged."""
    try:
        time = datetime.fromisoformat(str(event.get("time")))
        return (time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def read_attempts(events: Sequence[Event], *, now: float | None) -> dict[str, list[Attempt]]:
    """The attempts of each step, the oldest first.

    Args:
        events: Of the run.
        now: The end of attempts that still run; None where the run is over, so that the time of the last
            event ends them.
    """
    reader = _Reader()
    for event in events:
        reader.read(event)
    end = now if now is not None else reader.last
    for name in list(reader.open):
        reader.close(name, end, "running" if now is not None else "died")
    return reader.attempts


class _Reader:
    """Collects attempts while it reads events in their order."""

    def __init__(self) -> None:
        self.attempts: dict[str, list[Attempt]] = {}
        self.open: dict[str, tuple[float, list[str], dict[str, float]]] = {}
        self.last = 0.0

    def read(self, event: Event) -> None:
        """Note what an event says."""
        time = read_time(event)
        if time is None:
            return
        kind, name = event["event"], str(event.get("step"))
        if kind == "run_resumed":  # what was open ended when the last runner did
            for each in list(self.open):
                self.close(each, self.last, "died")
        self.last = max(self.last, time)
        if kind == "step_started":
            self.close(name, time, "failed")
            self.open[name] = (time, _name_processes(event), {})
        elif kind == "process_ended" and name in self.open:
            self.open[name][2][str(event.get("process"))] = time
        elif kind == "step_restarts":
            self.close(name, time, "failed")
        elif kind == "step_ended":
            self.close(name, time, str(event.get("state")))

    def close(self, name: str, end: float, state: str) -> None:
        """End the open attempt of a step, if there is one."""
        if name in self.open:
            start, names, ended = self.open.pop(name)
            attempt = Attempt(Period(start, max(start, end)), state, ended, names)
            self.attempts.setdefault(name, []).append(attempt)


def _name_processes(event: Event) -> list[str]:
    listed = event.get("processes")
    described = listed[:MAX_PROCESSES] if isinstance(listed, list) else []
    return [str(each.get("name")) for each in described if isinstance(each, Mapping)]


def read_pauses(events: Sequence[Event]) -> list[Period]:
    """The times between the last event of a runner and the resumption of its run."""
    pauses, last = [], None
    for event in events:
        time = read_time(event)
        if time is None:
            continue
        if event["event"] == "run_resumed" and last is not None and time > last:
            pauses.append(Period(last, time))
        last = time if last is None else max(last, time)
    return pauses
