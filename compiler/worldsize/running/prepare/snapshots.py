"""The code of each task, and names and texts that no folder, command or process can have.

``check`` reports these too; but a comment in a file can silence a check, and a file may come from anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from worldsize.azureml import snapshot
from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.running.model.source import Text
from worldsize.running.model.task import Task

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")


def list_snapshots(tasks: Mapping[str, Task], gate: CopyAccess) -> tuple[dict[str, Snapshot], list[Problem]]:
    """The code of every task, listed but not copied yet, and what is wrong with it."""
    snapshots: dict[str, Snapshot] = {}
    problems: dict[Problem, None] = {}
    listed: dict[tuple[str, ...], Snapshot] = {}
    for name, task in tasks.items():
        code, includes = task.component.code, task.component.additional_includes
        key = (str(task.folder), repr(code and code.value), repr(includes and includes.value))
        if key not in listed:  # steps often share a folder, and a large one takes long to list
            listed[key], more = snapshot.read_snapshot(task.component, task.folder, gate)
            problems.update(dict.fromkeys(more))
        snapshots[name] = listed[key]
        problems.update(dict.fromkeys(refuse_unsafe_names(task)))
    return snapshots, list(problems)


def refuse_unsafe_names(task: Task) -> Iterator[Problem]:
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
