"""The step cache of a run: finds the outputs of earlier runs, and keeps its own for later runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from worldsize.azureml.snapshot import Snapshot
from worldsize.running.environments.definition import EnvironmentPlan
from worldsize.running.launch.step_folder import clear_step_folder
from worldsize.running.model.folder import RunFolder, StepFolder
from worldsize.running.model.task import (
    ARTIFACTS,
    File,
    Output,
    Part,
    RunName,
    Task,
    Text,
    list_parts,
)
from worldsize.running.reuse import output_record
from worldsize.running.reuse.digests import Digests, Tree
from worldsize.running.reuse.output_record import (
    OutputRecord,
    Parts,
    derive_secret,
    identify_environment,
    list_changed,
    load_output_record,
    make_key,
    make_parts,
    output_path,
    runs_of,
    save_output_record,
    verify_outputs,
)
from worldsize.running.reuse.store import (
    Original,
    Store,
    StoreEntry,
    link_step,
    original_folder,
    read_original,
    unlink_step,
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
            unlink_step(step)
        elif step.root.exists():
            recorded = load_output_record(step)
            (step.root / output_record.NAME).unlink(missing_ok=True)
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
