"""What several rules of data ask: the data that jobs name, and the scripts that commands start."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from worldsize.azureml.model import Component, Data, Field, Job, Literal
from worldsize.azureml.references import local_path
from worldsize.base.span import Span
from worldsize.rules import command_line
from worldsize.rules.command_line import Command, Word
from worldsize.rules.context import Context
from worldsize.yaml.nodes import Mapping, Node, Scalar


class DataArgument(NamedTuple):
    """Data that a job or step names by a path."""

    type: str  # in lower case
    text: str
    span: Span
    local: Path | None  # where it lies in the tree of the job; None for what lies elsewhere


def find_data_arguments(context: Context, job: Job) -> list[DataArgument]:
    """The data that a job and its steps name."""
    return context.all_of(_given_data, job)


def _given_data(_context: Context, job: Job) -> Iterator[DataArgument]:
    for field in job.inputs.values() if job.interface is None else ():
        yield from _one(field, None)
    for step in job.steps.values():
        for name, field in step.inputs.items():
            port = step.component.inputs.get(name) if step.component else None
            yield from _one(field, port.type if port and port.is_data else None)


def _one(field: Field[Any], type_: str | None) -> Iterator[DataArgument]:
    value, node = field.value, field.node
    if isinstance(value, Data):
        path = value.path.node if value.path is not None else None
        yield from _at(path, value.type or type_ or "uri_folder")
    elif isinstance(value, Literal) and type_ is not None:
        yield from _at(node, type_)


def _at(node: Node | None, type_: str) -> Iterator[DataArgument]:
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.value:
        return
    if "${{" not in node.text and "{" not in node.text:
        local = local_path(node.value, folder_of(node))
        yield DataArgument(type_.lower(), node.value, node.span, local)


def folder_of(node: Node) -> Path:
    """The folder of the file in which a node stands."""
    return Path(os.path.dirname(node.source.path))  # noqa: PTH120 - paths are text here


class Script(NamedTuple):
    """A file that a command starts, and the place of its name."""

    name: str
    span: Span


_COMMANDS = 200  # of one step that are looked at
_INTERPRETER = re.compile(r"\(?(?:python3?(?:\.\d+)?|bash|sh|Rscript)")
_OPTION = re.compile(r"-[uBOEsSIex]+")  # takes no value
_NAME = re.compile(r"[\w./-]+\.(?:py|sh|R|r)")
# Commands that make or fetch files, or go elsewhere: after them nothing is known of the folder.
_MAKES = re.compile(r"\b(?:cd|git|wget|curl|unzip|tar|cp|mv|azcopy|az|pushd|touch|echo|cat|tee)\b|>")


def find_scripts(component: Component) -> Iterator[Script]:
    """The scripts that a command starts by a relative path, up to where the folder may have changed."""
    field = component.command
    if field is None or not isinstance(field.node, Scalar) or not isinstance(field.node.value, str):
        return
    text = field.node.text
    changed = _MAKES.search(text)
    for command in command_line.parse_commands(text[: changed.start()] if changed else text)[:_COMMANDS]:
        word = _started(command)
        if word is not None and not word.text.startswith("/") and ".." not in word.text.split("/"):
            yield Script(word.text.removeprefix("./"), field.node.subspan(word.start, word.end))


def _started(command: Command) -> Word | None:
    """The script that a command starts, unless something else decides whether it is started."""
    words = list(command.words[len(list(command.assignments)) :])
    if not words or _INTERPRETER.fullmatch(words[0].text) is None:
        return None
    named = next((word for word in words[1:] if _OPTION.fullmatch(word.text) is None), None)
    return named if named is not None and _NAME.fullmatch(named.text) else None


def find_entry_scripts(component: Component) -> Iterator[tuple[Script, Scalar | None, Path]]:
    """The entry script of a parallel task, its code and the folder that the code is relative to."""
    task = component.raw.get("task") if isinstance(component.raw, Mapping) else None
    if not isinstance(task, Mapping):
        return
    entry, code = task.get("entry_script"), task.get("code")
    if isinstance(entry, Scalar) and isinstance(entry.value, str) and "${{" not in entry.text:
        yield Script(entry.value, entry.span), code if isinstance(code, Scalar) else None, folder_of(task)
