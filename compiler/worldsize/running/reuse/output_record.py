"""The record of a step's outputs, `made.json` in its folder, and the check that they are unchanged."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml import environment
from worldsize.azureml.model import Field
from worldsize.documents.secrecy.names import is_secret
from worldsize.documents.yaml.load import to_python
from worldsize.running.environments.definition import EnvironmentPlan
from worldsize.running.environments.layers import describe_interpreter
from worldsize.running.model.folder import StepFolder
from worldsize.running.model.task import ARTIFACTS, Task
from worldsize.running.record.json_files import boot_id, read_json, write_json
from worldsize.running.reuse.digests import Digests, Tree, TreeEntry, walk_tree
from worldsize.running.reuse.digests import make_stamp as stamp_of

NAME = "made.json"
RECORD_VERSION = 1


class OutputRecord(Struct, frozen=True):
    """The outputs of a step when it succeeded, and the parts of its key."""

    key: str
    parts: dict[str, str]
    outputs: Mapping[str, Tree]
    seconds: float
    boot: str = field(default_factory=boot_id)

    @property
    def size(self) -> int:
        """Bytes of all outputs."""
        return sum(tree.size for tree in self.outputs.values())


def output_path(folder: StepFolder, output: str) -> Path:
    """The path of an output; that of :data:`ARTIFACTS` is the working folder."""
    return folder.code if output == ARTIFACTS else folder.outputs / output


def runs_of(folder: StepFolder) -> Path:
    """The folder of the runs that a step's folder is in."""
    return folder.root.parents[2]


def save_output_record(record: OutputRecord, folder: StepFolder) -> None:
    """Write the record to the folder of the step."""
    write_json(folder.root / NAME, {"version": RECORD_VERSION, **msgspec.to_builtins(record)})


def load_output_record(folder: StepFolder) -> OutputRecord | None:
    """Read the record of a step; None if there is none, or if it is damaged."""
    document = read_json(folder.root / NAME)
    if document is None or document.get("version") != RECORD_VERSION:
        return None
    try:
        return msgspec.convert(document, OutputRecord)
    except ValueError:
        return None


def verify_outputs(
    record: OutputRecord, folder: StepFolder, digests: Digests
) -> tuple[OutputRecord, str | None]:
    """Check that the outputs are unchanged; the record as of now, and the first thing that has changed.

    A file with the same size and times is taken to be unchanged unless the machine was restarted since; any
    other is read.
    """
    outputs = {}
    for name, tree in record.outputs.items():
        path, trusted = output_path(folder, name), record.boot == boot_id()
        try:
            entries = walk_tree(path, runs_of(folder))
            verified, changed = _verify_tree(tree, path, entries, digests, trusted=trusted)
        except OSError as error:
            return record, error.filename or name
        if changed is not None:
            return record, f"{name}/{changed}".rstrip("/")
        outputs[name] = verified
    now = replace(record, outputs=outputs, boot=boot_id())
    return (record if now == record else now), None


def _verify_tree(
    tree: Tree, path: Path, entries: Iterable[TreeEntry], digests: Digests, *, trusted: bool
) -> tuple[Tree, str | None]:
    files, rest = dict(tree.files), {*tree.folders, *tree.others}
    left = {*files, *rest}
    for entry in entries:
        if not entry.place and entry.kind != tree.kind:
            return tree, ""
        if entry.kind != "file":
            if entry.place and entry.place not in rest:
                return tree, entry.place
            left.discard(entry.place)
            continue
        leaf = files.get(entry.place)
        if leaf is None:
            return tree, entry.place
        left.discard(entry.place)
        assert entry.status is not None
        if not trusted or leaf.stamp is None or leaf.stamp != stamp_of(entry.status):
            now = digests.file(path / entry.place if entry.place else path, entry.status)
            if now.sha256 != leaf.sha256:
                return tree, entry.place
            files[entry.place] = now
    return (replace(tree, files=files) if files != tree.files else tree), min(left, default=None)


VERSION = 1  # of the recipe; another version makes other keys
_BY_NAME = ("component", "inputs", "outputs", "step", "span")  # handled below
_WITHOUT_EFFECT = ("name", "display_name", "folder", "timeout")

_ROUNDS = 200_000  # a tenth of a second

Parts = dict[str, str]  # digests by the names of the parts in messages


def make_parts(task: Task, *, code: str, inputs: Mapping[str, Any], environment: Any) -> Parts:
    """The parts of the key; the inputs are plain data: literals as rendered, data by digest."""
    parts = {"format": VERSION, "code": code, "environment": environment, "outputs": dict(task.outputs)}
    names = (name for name in Task.__struct_fields__ if name not in _BY_NAME + _WITHOUT_EFFECT)
    parts |= {name: getattr(task, name) for name in names}
    parts["environment_variables"] = {
        name: derive_secret(value) if is_secret(name) else value
        for name, value in task.environment_variables.items()
    }
    parts["resources"] = (task.step and task.step.resources) or task.component.resources
    parts["command"] = task.component.command
    if task.kind != "command":  # a sweep's search space and limits, a parallel step's batches and thresholds
        settings = (task.step and task.step.raw, task.component.raw)
        parts["settings"] = [raw and to_python(raw) for raw in settings]
    parts |= {f"input `{name}`": value for name, value in inputs.items()}
    return {name: _digest_value(value) for name, value in parts.items()}


def make_key(parts: Parts) -> str:
    """The key itself: 64 hexadecimal digits."""
    return _digest_value(parts)


@cache
def derive_secret(secret: str) -> str:
    """A digest of a secret for a key, which is slow to compute, to prevent guessing the secret."""
    text = secret.encode("utf-8", "surrogateescape")
    return hashlib.pbkdf2_hmac("sha256", text, b"worldsize", _ROUNDS).hex()


def list_changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of the parts that differ."""
    names = [*now, *(name for name in before if name not in now)]
    return [name for name in names if before.get(name) != now.get(name)]


def _digest_value(value: Any) -> str:
    text = json.dumps(_to_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _to_plain(value: Any) -> Any:
    """A value as plain JSON data, equal for equal values.

    Raises:
        TypeError: It contains a value that cannot be converted.
    """
    if isinstance(value, Field):  # its position does not count
        return _to_plain(value.value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list | tuple):
        return [_to_plain(member) for member in value]
    return {type(value).__name__ if isinstance(value, Struct) else "": _list_members(value)}


def _list_members(value: Any) -> Any:
    members: Any
    if isinstance(value, Mapping):
        members = [[_to_plain(name), _to_plain(value[name])] for name in sorted(value, key=repr)]
    elif isinstance(value, set | frozenset):
        members = ["set", *sorted(json.dumps(_to_plain(member), sort_keys=True) for member in value)]
    elif isinstance(value, PurePath):
        members = f"path {value}"
    elif isinstance(value, bytes):
        members = f"bytes {value.hex()}"
    elif isinstance(value, Struct):
        members = [[name, _to_plain(getattr(value, name))] for name in value.__struct_fields__]
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
        "files": {reference.key: digests.tree(reference.path).digest() for reference in named},
        "resolved": [definition.image, definition.dockerfile, definition.conda, definition.requirements],
        "context": None if definition.context is None else digests.tree(definition.context).digest(),
        "interpreter": None if plan.mode == "docker" else describe_interpreter(),
    }
