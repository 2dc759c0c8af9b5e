"""The step cache of a run: finds the outputs of earlier runs, and keeps its own for later runs.

The record of a step's outputs is `made.json` in its folder. They can be reused while they are unchanged.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml import environment
from worldsize.azureml.model import Field
from worldsize.azureml.snapshot import Snapshot
from worldsize.documents.secrecy.names import is_secret
from worldsize.documents.yaml.load import to_python
from worldsize.running.environments.definition import EnvironmentPlan
from worldsize.running.environments.layers import describe_interpreter
from worldsize.running.launch.call import clear_step_folder
from worldsize.running.model.folder import RunFolder, StepFolder
from worldsize.running.model.task import ARTIFACTS, File, Output, Part, RunName, Task, Text, list_parts
from worldsize.running.record.json_files import boot_id, read_json, write_json
from worldsize.running.reuse.digests import Digests, Tree, TreeEntry, make_stamp, walk_tree
from worldsize.running.reuse.store import (
    Original,
    Store,
    StoreEntry,
    link_step,
    original_folder,
    read_original,
)


class ReuseCache(Struct):
    """Finds and keeps the outputs of steps for one run."""

    run: RunFolder  # the run
    tasks: Mapping[str, Task]  # its steps; some may be added while it is active
    code: Mapping[str, Snapshot]  # their code
    store: Store  # the entries of steps
    digests: Digests  # hashes files
    environments: EnvironmentPlan  # the environments of the steps
    notice: Callable[[str], None]  # shows a notice to the user
    force: bool = False  # whether nothing is reused
    earlier: frozenset[str] = frozenset()  # the steps of a resumed run that had succeeded
    _keys: dict[str, Parts | None] = field(default_factory=dict)  # by step, if it was looked up
    # of the steps that have ended
    _records: dict[str, tuple[OutputRecord, StepFolder]] = field(default_factory=dict)
    _adopted: set[str] = field(default_factory=set)
    _artifact_sources: frozenset[str] = frozenset()  # the steps whose artifacts other steps read

    def __post_init__(self) -> None:
        """Find the steps whose working folders are outputs too."""
        sources = [source for task in self.tasks.values() for source in task.inputs.values() if source]
        outputs = [part for source in sources for part in list_parts(source) if isinstance(part, Output)]
        self._artifact_sources = frozenset(output.step for output in outputs if output.port == ARTIFACTS)

    def recall(self, task: Task) -> str | None:
        """Put the outputs in place that an identical step made before.

        Returns:
            The run that made them, which is this one if it is resumed; None if the step has to run.
        """
        if task.name in self._keys:  # it was looked up, and waits for slots
            return None
        parts = self._keys[task.name] = self._make_parts(task)
        adopted = self._adopt(task, parts)
        if adopted is None and parts is not None and not self.force and is_deterministic(task):
            return self._reuse(task, make_key(parts))
        return adopted

    def key(self, task: Task) -> str | None:
        """The key of a step after :meth:`recall`, or None."""
        parts = self._keys.get(task.name)
        return None if parts is None else make_key(parts)

    def keep(self, task: Task, seconds: float) -> None:
        """Keep the outputs of a step that has just succeeded.

        It can be reused only if its inputs did not change while it ran; otherwise it is unknown which content
        it has read.
        """
        if task.name in self._adopted:
            return
        folder = self.run.step(task.name)
        before = self._keys.get(task.name)
        try:
            places = {name: output_path(folder, name) for name in self._list_outputs(task)}
            outputs = {name: self.digests.tree(path, runs=runs_of(folder)) for name, path in places.items()}
            changed = [] if before is None else list_changed(before, self._make_parts(task) or {})
            parts = {**(before or {}), **dict.fromkeys(changed, "")}  # it is unknown which content was read
            done = OutputRecord(make_key(parts), parts, outputs, seconds)
            self._records[task.name] = done, folder
            save_output_record(done, folder)
            if changed and is_deterministic(task):
                self.notice(f"{task.name}: will not be reused, its {changed[0]} has changed while it ran")
            elif not changed and before is not None:
                self._add_entry(task, done)
        except OSError:  # without a record the step is not reused
            return

    def _add_entry(self, task: Task, done: OutputRecord) -> None:
        leads_out = next((name for name, tree in done.outputs.items() if tree.leads_out), None)
        if leads_out is not None:
            self.notice(
                f"{task.name}: will not be reused, its output `{leads_out}` has links out of the runs"
            )
        elif is_deterministic(task):
            self.store.add(StoreEntry(done.key, self.run.id, task.name, time.time(), done.seconds, done.size))

    def _reuse(self, task: Task, wanted: str) -> str | None:
        entry = self.store.find(wanted)
        if entry is None or entry.run == self.run.id:
            return None
        with self.store.locked():
            folder = self.store.folder(entry)
            done = load_output_record(folder)
            if done is None or done.key != wanted:
                self.store.remove(entry)
                return None
            if not done.outputs.keys() >= set(self._list_outputs(task)):
                return None
            if not self._is_unchanged(task, done, folder, entry.run):
                self.store.remove(entry)
                return None
            link_step(self.run.step(task.name), folder, task.outputs, Original(entry.run, entry.step))
        self.store.count(entry)
        return entry.run

    def _adopt(self, task: Task, parts: Parts | None) -> str | None:
        """Adopt the outputs of a resumed run, or clear them for another attempt."""
        step = self.run.step(task.name)
        source = read_original(step)
        folder = step if source is None else original_folder(self.run, source)
        done = load_output_record(folder) if task.name in self.earlier else None
        if done is not None and parts is not None and set(self._list_outputs(task)) <= done.outputs.keys():
            changed = list_changed(done.parts, parts)
            if changed:
                self.notice(f"{task.name}: runs again, its {changed[0]} has changed since")
            elif self._is_unchanged(task, done, folder, source.run if source else self.run.id):
                self._adopted.add(task.name)
                if source is None:  # the run may have died before it added an entry
                    with contextlib.suppress(OSError):
                        self._add_entry(task, done)
                return source.run if source else self.run.id
        if source is not None:
            shutil.rmtree(step.root, ignore_errors=True)  # but not what its links point to
        elif step.root.exists():
            recorded = load_output_record(step)
            (step.root / MADE).unlink(missing_ok=True)
            clear_step_folder(task, self.run, interrupted=recorded is None)
        return None

    def _is_unchanged(self, task: Task, done: OutputRecord, folder: StepFolder, run: str) -> bool:
        """Whether the outputs of a step are unchanged; notifies the user if not."""
        now, changed = verify_outputs(done, folder, self.digests)
        if changed is not None:
            self.notice(f"{task.name}: runs again, its output in run {run} has changed since: {changed}")
            return False
        if now is not done:
            with contextlib.suppress(OSError):
                save_output_record(now, folder)
        self._records[task.name] = now, folder
        return True

    def _make_parts(self, task: Task) -> Parts | None:
        """The parts of the key of a step; None if they are unknown, so that it always runs."""
        try:
            inputs = {
                name: [self._describe_part(part) for part in list_parts(source)] if source else [["absent"]]
                for name, source in task.inputs.items()
            }
            code = self.digests.files(self.code[task.name].files, task.folder).digest()
            identity = identify_environment(task, self.environments, self.digests)
            return make_parts(task, code=code, inputs=inputs, environment=identity)
        except (OSError, TypeError, LookupError):
            return None

    def _describe_part(self, part: Part) -> list[str]:
        if isinstance(part, Text) and part.secret:
            return ["secret", derive_secret(part.rendered)]
        if isinstance(part, Text):
            return ["text", part.rendered]
        if isinstance(part, RunName):
            return ["run", self.run.id]
        if isinstance(part, File):
            return self._describe_data(self.digests.tree(part.path.absolute()), part.path.name)
        done, folder = self._records[part.step]
        tree = done.outputs[part.port]
        if verify_outputs(done, folder, self.digests)[1] is not None:
            tree = self.digests.tree(output_path(folder, part.port), runs=runs_of(folder))
        return self._describe_data(tree, part.port)

    def _describe_data(self, tree: Tree, name: str) -> list[str]:
        """Data for the key; the name of a single file counts, because programs read its suffix."""
        part = ["data", name if tree.kind == "file" else "", tree.digest()]
        return [*part, self.run.id] if tree.leads_out else part  # no other run knows what was read

    def _list_outputs(self, task: Task) -> list[str]:
        """The declared outputs, and the artifacts if another step reads them."""
        return [*task.outputs, *([ARTIFACTS] if task.name in self._artifact_sources else [])]


def is_deterministic(task: Task) -> bool:
    """Whether the component of a step is deterministic, which is the default."""
    setting = task.component.is_deterministic
    return setting is None or str(setting.value).lower() != "false"


MADE = "made.json"
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
    write_json(folder.root / MADE, {"version": RECORD_VERSION, **msgspec.to_builtins(record)})


def load_output_record(folder: StepFolder) -> OutputRecord | None:
    """Read the record of a step; None if there is none, or if it is damaged."""
    document = read_json(folder.root / MADE)
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
        if not trusted or leaf.stamp is None or leaf.stamp != make_stamp(entry.status):
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
