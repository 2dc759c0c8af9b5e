"""Reads what the steps of a run report in files: training progress, metrics, registered models."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from worldsize.documents.diagnostics.snippet import flatten
from worldsize.running.launch.logs import Follower, last_lines
from worldsize.running.model.results import Progress, Registration, StepResult
from worldsize.running.record.json_files import parse_object, read_json

MAX_VALUE = 1e15  # larger counts and losses are ignored

LARGEST_BYTES = 1 << 20
MAIN_LOGS = ("rank-0.log", "worker-0.log")
STOPS_EARLY = "stopping early after step "  # what the built-in trainers begin the reason with
LAST_LINES = 40


class ProgressFile:
    """Follows the file of WORLDSIZE_PROGRESS, which stays empty if the script ignores it."""

    def __init__(self, path: Path) -> None:
        self._follower = Follower(path)
        self.newest: Progress | None = None

    def update(self) -> bool:
        """Read the new lines; whether they contain a record."""
        for line in reversed(self._follower.lines()):
            record = parse_progress(line)
            if record is not None:
                self.newest = record
                return True
        return False


def parse_progress(line: str) -> Progress | None:
    """Parse one line of a user's script, which may contain anything; None if it is not a record."""
    document = parse_object(line)
    if document is None:
        return None
    numbers = {name: _to_number(document.get(name)) for name in Progress.__struct_fields__}
    step, total = numbers.pop("step"), numbers.pop("total_steps")
    return Progress(_to_whole(step), _to_whole(total), **numbers)


def describe_early_end(progress: Progress | None, logs: Path) -> str | None:
    """Where a step that has succeeded ended before its last step; why, if the built-in trainers wrote it."""
    if progress is None or progress.step is None or not progress.total_steps:
        return None
    if progress.step >= progress.total_steps:
        return None
    where = f"ended at step {progress.step} of {progress.total_steps}"
    for name in MAIN_LOGS:
        for line in last_lines(logs / name, LAST_LINES):
            if line.startswith(STOPS_EARLY):
                return f"{where}: {flatten(line.partition(': ')[2])}"
    return where


def _to_whole(value: float | None) -> int | None:
    return int(value) if value is not None and math.isfinite(value) else None


def _to_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MAX_VALUE:
        return None
    return float(value)


def read_metrics(steps: Mapping[str, StepResult]) -> dict[str, float]:
    """The numbers of every ``metrics.json``, by name; a repeated name gets the step's name as prefix."""
    metrics: dict[str, float] = {}
    for step, document in _read_documents(steps, "metrics.json"):
        for name, value in document.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                with contextlib.suppress(OverflowError):  # an integer of hundreds of digits
                    metrics[f"{step}.{name}" if name in metrics else name] = float(value)
    return metrics


def read_registrations(steps: Mapping[str, StepResult]) -> tuple[Registration, ...]:
    """The models of every ``registration.json``."""
    return tuple(
        Registration(
            str(document["name"]),
            str(document["version"]) if document.get("version") is not None else None,
            str(document["reason"]) if document.get("reason") else None,
        )
        for _, document in _read_documents(steps, "registration.json")
        if "name" in document
    )


def _read_documents(steps: Mapping[str, StepResult], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for step in steps.values():
        for folder in step.outputs.values():
            document = read_json(folder / name, LARGEST_BYTES)
            if document is not None:
                yield step.name, document
