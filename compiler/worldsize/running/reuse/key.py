"""The key of a step: everything that what it makes can depend on, in one digest.

Azure ML reuses a step whose code, environment, inputs, parameters, outputs' settings and run settings are
unchanged (its documentation, "debug pipeline reuse issues"). The same here, with data by content instead of
by name. Names of steps, descriptions and time limits change nothing that is made, so they are not in it;
any other field of a task is, also one that is added later.
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

from worldsize.azureml.model import Field
from worldsize.running.tasks import Task
from worldsize.secrecy.names import is_secret
from worldsize.yaml.load import to_python

VERSION = 1  # of this recipe: another one makes other keys
_BY_NAME = ("component", "inputs", "outputs", "step", "span")  # what of them counts is taken out below
_WITHOUT_EFFECT = ("name", "display_name", "folder", "timeout")

_ROUNDS = 200_000  # a tenth of a second

Parts = dict[str, str]  # a digest by the name that a message gives the part


def parts(task: Task, *, code: str, inputs: Mapping[str, Any], environment: Any) -> Parts:
    """What the key is made of.

    Args:
        task: The step.
        code: The digest of its code folder.
        inputs: What every input stands for, as plain data: literals as they are rendered, data by digest.
        environment: What its environment is defined by, as plain data.
    """
    found = {"format": VERSION, "code": code, "environment": environment, "outputs": dict(task.outputs)}
    for name in (each.name for each in dataclasses.fields(task)):
        if name not in _BY_NAME and name not in _WITHOUT_EFFECT:
            found[name] = getattr(task, name)
    found["environment_variables"] = {
        name: derive(value) if is_secret(name) else value
        for name, value in task.environment_variables.items()
    }
    found["resources"] = (task.step and task.step.resources) or task.component.resources
    found["command"] = task.component.command
    if task.kind != "command":  # a sweep's space and limits, a parallel step's batches and thresholds
        found["settings"] = [
            each and to_python(each) for each in (task.step and task.step.raw, task.component.raw)
        ]
    found |= {f"input `{name}`": value for name, value in inputs.items()}
    return {name: _digest(value) for name, value in found.items()}


def of(found: Parts) -> str:
    """The key itself: 64 hexadecimal digits."""
    return _digest(found)


@cache
def derive(secret: str) -> str:
    """What stands for a secret in a key: slow to compute, so that nobody finds the secret by trying many."""
    return hashlib.pbkdf2_hmac(
        "sha256", secret.encode("utf-8", "surrogateescape"), b"worldsize", _ROUNDS
    ).hex()


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of the parts that differ."""
    names = [*now, *(name for name in before if name not in now)]
    return [name for name in names if before.get(name) != now.get(name)]


def _digest(value: Any) -> str:
    text = json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """A value as JSON can say it, the same for equal values.

    Raises:
        TypeError: It holds something that has no such form.
    """
    if isinstance(value, Field):  # where it stands in a file does not matter
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
    elif isinstance(value, dt.date):  # as YAML reads one
        members = f"date {value.isoformat()}"
    else:
        raise TypeError(f"{type(value).__name__} cannot be part of a step's key")
    return members
