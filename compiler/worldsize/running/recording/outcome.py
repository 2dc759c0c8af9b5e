"""What the steps of a run produced that a reader wants to see: measured numbers, registered models."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from worldsize.running.results import Registration, StepResult

LARGEST_BYTES = 1 << 20


def metrics(steps: Mapping[str, StepResult]) -> dict[str, float]:
    """The numbers of every ``metrics.json``, by name; a name that was there before gets the step's."""
    found: dict[str, float] = {}
    for step, document in _documents(steps, "metrics.json"):
        for name, value in document.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                with contextlib.suppress(OverflowError):  # an integer of hundreds of digits
                    found[f"{step}.{name}" if name in found else name] = float(value)
    return found


def registrations(steps: Mapping[str, StepResult]) -> tuple[Registration, ...]:
    """The models of every ``registration.json``."""
    return tuple(
        Registration(
            str(document["name"]),
            str(document["version"]) if document.get("version") is not None else None,
            str(document["reason"]) if document.get("reason") else None,
        )
        for _, document in _documents(steps, "registration.json")
        if "name" in document
    )


def _documents(steps: Mapping[str, StepResult], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for step in steps.values():
        for folder in step.outputs.values():
            document = _read(folder / name)
            if document is not None:
                yield step.name, document


def _read(path: Path) -> dict[str, Any] | None:
    """A JSON object of reasonable size; anybody may have written it, so anything else is passed over."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            return None
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
