"""Names and texts that no folder, command or process can have, refused before anything is started.

``check`` reports them too; but a comment in a file can silence a check, and a file may come from anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.running.starting.sources import Text
from worldsize.running.tasks import Task

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")


def refusals(task: Task) -> Iterator[Problem]:
    """Why a task cannot be run, as far as it is for its names and texts."""
    raw = task.component.raw
    at = raw.span if raw is not None else Span(str(task.component.path or task.folder), 1, 1, 1, 1)
    for kind, names in (("input", task.inputs), ("output", task.outputs)):
        for name in names:
            if _NAME.fullmatch(name) is None:
                message = f"step `{task.name}` has an {kind} `{name}`, which cannot be the name of a file"
                yield Problem("run-refused", at, message, "use letters, digits and underscores")
    for name in task.environment_variables:
        if not name or "=" in name or "\0" in name:
            message = f"step `{task.name}` sets a variable `{name}`, which cannot be the name of one"
            yield Problem("run-refused", at, message, "use letters, digits and underscores")
    for what, text in _texts(task):
        if "\0" in text:
            message = f"{what} of step `{task.name}` holds a NUL character, which no process can be given"
            yield Problem("run-refused", at, message, "remove the `\\0`")


def _texts(task: Task) -> Iterator[tuple[str, str]]:
    if task.component.command is not None:
        yield "the command", task.command
    for name, value in task.environment_variables.items():
        yield f"the variable `{name}`", value
    for name, source in task.inputs.items():
        if isinstance(source, Text):
            yield f"the input `{name}`", source.rendered
