"""The key of a step: a digest of everything that its outputs can depend on.

Azure ML reuses a step whose code, environment, inputs, parameters, outputs' settings and run settings are
unchanged (its documentation, "debug pipeline reuse issues"). The same applies here, with data by content, not
by name. Names of steps, descriptions and time limits do not change an output, so they are not part of the
key; every other field of a task is, including fields that are added later.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import Any

from msgspec import Struct

from worldsize.azureml import environment
from worldsize.azureml.model import Field
from worldsize.documents.secrecy.names import is_secret
from worldsize.documents.yaml.load import to_python
from worldsize.running.environments.definition import EnvironmentPlan
from worldsize.running.environments.layers import describe_interpreter
from worldsize.running.model.task import Task
from worldsize.running.reuse.digests import Digests

VERSION = 1  # of the recipe; another version makes other keys
_BY_NAME = ("component", "inputs", "outputs", "step", "span")  # handled below
_WITHOUT_EFFECT = ("name", "display_name", "folder", "timeout")

_ROUNDS = 200_000  # a tenth of a second

Parts = dict[str, str]  # digests by the names of the parts in messages


def make_parts(task: Task, *, code: str, inputs: Mapping[str, Any], environment: Any) -> Parts:
    """The parts of the key; the inputs are plain data: literals as rendered, data by digest."""
    parts = {"format": VERSION, "code": code, "environment": environment, "outputs": dict(task.outputs)}
    for name in (each.name for each in dataclasses.fields(task)):
        if name not in _BY_NAME and name not in _WITHOUT_EFFECT:
            parts[name] = getattr(task, name)
    parts["environment_variables"] = {
        name: derive_secret(value) if is_secret(name) else value
        for name, value in task.environment_variables.items()
    }
    parts["resources"] = (task.step and task.step.resources) or task.component.resources
    parts["command"] = task.component.command
    if task.kind != "command":  # a sweep's search space and limits, a parallel step's batches and thresholds
        parts["settings"] = [
            each and to_python(each) for each in (task.step and task.step.raw, task.component.raw)
        ]
    parts |= {f"input `{name}`": value for name, value in inputs.items()}
    return {name: _digest(value) for name, value in parts.items()}


def make_key(parts: Parts) -> str:
    """The key itself: 64 hexadecimal digits."""
    return _digest(parts)


@cache
def derive_secret(secret: str) -> str:
    """A digest of a secret for a key, which is slow to compute, to prevent guessing the secret."""
    return hashlib.pbkdf2_hmac(
        "sha256", secret.encode("utf-8", "surrogateescape"), b"worldsize", _ROUNDS
    ).hex()


def list_changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of the parts that differ."""
    names = [*now, *(name for name in before if name not in now)]
    return [name for name in names if before.get(name) != now.get(name)]


def _digest(value: Any) -> str:
    text = json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """A value as plain JSON data, equal for equal values.

    Raises:
        TypeError: It contains a value that cannot be converted.
    """
    if isinstance(value, Field):  # its position does not count
        return _plain(value.value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    is_record = dataclasses.is_dataclass(value) or isinstance(value, Struct)
    return {type(value).__name__ if is_record else "": _members(value)}


def _members(value: Any) -> Any:
    members: Any
    if isinstance(value, Mapping):
        members = [[_plain(name), _plain(value[name])] for name in sorted(value, key=repr)]
    elif isinstance(value, set | frozenset):
        members = ["set", *sorted(json.dumps(_plain(each), sort_keys=True) for each in value)]
    elif isinstance(value, PurePath):
        members = f"path {value}"
    elif isinstance(value, bytes):
        members = f"bytes {value.hex()}"
    elif isinstance(value, Struct):
        members = [[name, _plain(getattr(value, name))] for name in value.__struct_fields__]
    elif dataclasses.is_dataclass(value):
        members = [[each.name, _plain(getattr(value, each.name))] for each in dataclasses.fields(value)]
    elif isinstance(value, dt.date):  # YAML has dates
        members = f"date {value.isoformat()}"
    else:
        raise TypeError(f"{type(value).__name__} cannot be part of a step's key")
    return members


def identify_environment(task: Task, plan: EnvironmentPlan, digests: Digests) -> dict[str, Any]:
    """Describe the environment of a step as plain data."""
    named = environment.list_references(task.component.environment, task.folder)
    definition = plan.find_definition(task.name)
    return {
        "mode": plan.mode,
        "definition": task.component.environment,
        "files": {each.key: digests.tree(each.path).digest() for each in named},
        "resolved": [definition.image, definition.dockerfile, definition.conda, definition.requirements],
        "context": None if definition.context is None else digests.tree(definition.context).digest(),
        "interpreter": None if plan.mode == "docker" else describe_interpreter(),
    }
