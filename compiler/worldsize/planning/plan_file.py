"""``plan.json``: the plan beside the pipeline, and the sign that a folder is ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import to_builtins

from worldsize.base import limits, untrusted
from worldsize.planning.model import Plan, StepPlan

NAME = "plan.json"
FORMAT = "worldsize-plan/1"


def dump(plan: Plan, templates: Mapping[str, Mapping[str, str]], files: Sequence[str]) -> bytes:
    """The file's content; names of files in it may be no text.

    Args:
        plan: The plan.
        templates: By step and input the text that the plan filled in, ``${{plan.learning_rate}}``; names of
            environment variables begin with ``$``.
        files: Every other file of the folder, so that a later compile knows which it may replace.
    """
    steps = {
        name: {**describe_step(step), "templates": dict(templates.get(name, {}))}
        for name, step in plan.steps.items()
    }
    document = {"format": FORMAT, "name": plan.name, "steps": steps, "files": sorted(files)}
    # The standard library writes indented JSON without its C code, which takes ten times as long.
    text = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogateescape")
    return msgspec.json.format(text, indent=2) + b"\n"


def describe_step(step: StepPlan) -> dict[str, Any]:
    """The plan of a step as plain values; without the key `sweep` if the step has none."""
    described: dict[str, Any] = to_builtins(step)
    if step.sweep is None:
        del described["sweep"]
    return described


def read(folder: Path) -> dict[str, Any] | None:
    """The document, or None if the folder has none of ours."""
    try:
        document = json.loads(untrusted.read_bytes(folder / NAME, limits.RECORD))
    except (OSError, ValueError, RecursionError):
        return None
    ours = isinstance(document, dict) and document.get("format") == FORMAT
    return document if ours else None


def load(folder: Path) -> tuple[Plan, dict[str, dict[str, str]]] | None:
    """The plan of a compiled folder and its templates, or None if it has none that we can read.

    A pipeline in Python that nobody planned has a file without steps.
    """
    document = read(folder)
    if document is None:
        return None
    try:
        steps = msgspec.convert(document["steps"], dict[str, StepPlan])
        templates = {name: dict(raw["templates"]) for name, raw in document["steps"].items()}
        return (Plan(document["name"], steps), templates) if steps else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # it was edited by hand
