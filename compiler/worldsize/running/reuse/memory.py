"""What a run remembers of earlier ones and leaves to later ones; steps are asked for when they are ready."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from worldsize.azureml.snapshot import Snapshot
from worldsize.running.environments.planning import Plan
from worldsize.running.preparing.preparation import Prepared
from worldsize.running.recording.folder import RunFolder, StepFolder
from worldsize.running.recording.history import RunRecord
from worldsize.running.results import DONE
from worldsize.running.reuse import environment, key, links, made
from worldsize.running.reuse.digests import Digests
from worldsize.running.reuse.key import Parts
from worldsize.running.reuse.links import Original
from worldsize.running.reuse.made import Made
from worldsize.running.reuse.store import Entry, Store
from worldsize.running.reuse.trees import Tree
from worldsize.running.starting import workplace
from worldsize.running.starting.sources import ARTIFACTS, File, Output, Part, RunName, Source, Text, parts_of
from worldsize.running.tasks import Task


@dataclass(slots=True)
class StepMemory:
    """Finds and keeps steps for one run.

    Attributes:
        run: The run.
        tasks: Its steps; some may be added while it goes on.
        code: Their code; a step that another turns into has that one's.
        store: Where steps are found and kept.
        digests: Hashes their files.
        environments: What interprets the steps.
        notice: Says something to the user.
        force: Whether nothing is reused.
        earlier: Of a run that is resumed, the steps that had succeeded.
    """

    run: RunFolder
    tasks: Mapping[str, Task]
    code: Mapping[str, Snapshot]
    store: Store
    digests: Digests
    environments: Plan
    notice: Callable[[str], None]
    force: bool = False
    earlier: frozenset[str] = frozenset()
    _keys: dict[str, Parts | None] = field(default_factory=dict)  # of the steps that were asked for
    _made: dict[str, tuple[Made, StepFolder]] = field(default_factory=dict)  # of the steps that are done
    _adopted: set[str] = field(default_factory=set)
    _read: frozenset[str] = field(init=False)  # the steps whose artifacts a step reads

    def __post_init__(self) -> None:
        """See whose working folders are outputs too."""
        sources = [source for task in self.tasks.values() for source in task.inputs.values() if source]
        outputs = [part for source in sources for part in parts_of(source) if isinstance(part, Output)]
        self._read = frozenset(output.step for output in outputs if output.port == ARTIFACTS)

    def recall(self, task: Task) -> str | None:
        """Put the outputs in place that the very same step made before.

        Returns:
            The run that made them, this one where it is resumed; None where the step has to run.

        Raises:
            OSError: The outputs cannot be put in place.
        """
        if task.name in self._keys:  # it waits for slots
            return None
        parts = self._keys[task.name] = self._parts(task)
        adopted = self._adopt(task, parts)
        if adopted is None and parts is not None and not self.force and is_deterministic(task):
            return self._reuse(task, key.of(parts))
        return adopted

    def key(self, task: Task) -> str | None:
        """What a step does that was asked for, None where that cannot be said."""
        parts = self._keys.get(task.name)
        return None if parts is None else key.of(parts)

    def keep(self, task: Task, seconds: float) -> None:
        """Remember what a step has made just now.

        It can be reused only if nothing that it read has changed while it ran: otherwise nobody knows
        which of two contents it saw.
        """
        if task.name in self._adopted:
            return
        folder = self.run.step(task.name)
        before = self._keys.get(task.name)
        try:
            places = {name: made.place(folder, name) for name in self._outputs(task)}
            outputs = {name: self.digests.tree(path, remember=False) for name, path in places.items()}
            changed = [] if before is None else key.changed(before, self._parts(task) or {})
            parts = {**(before or {}), **dict.fromkeys(changed, "")}  # of two contents nobody knows which
            done = Made(key.of(parts), parts, outputs, seconds)
            self._made[task.name] = done, folder
            made.save(done, folder)
            if changed and is_deterministic(task):
                self.notice(f"{task.name}: will not be reused, its {changed[0]} has changed while it ran")
            elif not changed and before is not None:
                self._add(task, done)
        except OSError:  # unreadable outputs, a full disk: later steps and runs do without
            return

    def _add(self, task: Task, done: Made) -> None:
        """Let later runs find a step.

        Raises:
            OSError: The store cannot be written.
        """
        if is_deterministic(task):
            self.store.add(Entry(done.key, self.run.id, task.name, time.time(), done.seconds, done.size))

    def _reuse(self, task: Task, wanted: str) -> str | None:
        entry = self.store.find(wanted)
        if entry is None or entry.run == self.run.id:
            return None
        with self.store.locked():
            folder = self.store.folder(entry)
            done = made.load(folder)
            if done is None or done.key != wanted:
                self.store.remove(entry)
                return None
            if not done.outputs.keys() >= set(self._outputs(task)):
                return None
            if not self._holds(task, done, folder, entry.run):
                self.store.remove(entry)
                return None
            links.link(self.run.step(task.name), folder, task.outputs, Original(entry.run, entry.step))
        self.store.count(entry)
        return entry.run

    def _adopt(self, task: Task, parts: Parts | None) -> str | None:
        """Take over what the run had made before it was broken off, or make way for another try."""
        own = self.run.step(task.name)
        source = links.original(own)
        folder = own if source is None else links.at(self.run, source)
        done = made.load(folder) if task.name in self.earlier else None
        if done is not None and parts is not None and set(self._outputs(task)) <= done.outputs.keys():
            changed = key.changed(done.parts, parts)
            if changed:
                self.notice(f"{task.name}: runs again, its {changed[0]} has changed since")
            elif self._holds(task, done, folder, source.run if source else self.run.id):
                self._adopted.add(task.name)
                if source is None:  # the run may have died before it could
                    with contextlib.suppress(OSError):
                        self._add(task, done)
                return source.run if source else self.run.id
        if source is not None:
            links.unlink(own)
        elif own.root.exists():
            (own.root / made.NAME).unlink(missing_ok=True)
            workplace.clear(task, self.run)
        return None

    def _holds(self, task: Task, done: Made, folder: StepFolder, run: str) -> bool:
        """Whether what a step made is still what it was; says so where it is not."""
        now, changed = made.verify(done, folder, self.digests)
        if changed is not None:
            self.notice(f"{task.name}: runs again, its output in run {run} has changed since: {changed}")
            return False
        if now is not done:
            with contextlib.suppress(OSError):
                made.save(now, folder)
        self._made[task.name] = now, folder
        return True

    def _parts(self, task: Task) -> Parts | None:
        """What the key of a step is made of; None where that cannot be told, and it runs every time."""
        try:
            inputs = {name: self._value(source) for name, source in task.inputs.items()}
            code = self.digests.files(self._code(task.name).files, task.folder).digest()
            identity = environment.identity(task, self.environments, self.digests)
            return key.parts(task, code=code, inputs=inputs, environment=identity)
        except (OSError, TypeError, LookupError):
            return None

    def _value(self, source: Source | None) -> list[list[str]]:
        """What an input stands for."""
        return [self._part(part) for part in parts_of(source)] if source is not None else [["absent"]]

    def _part(self, part: Part) -> list[str]:
        if isinstance(part, Text) and part.secret:
            return ["secret", key.derive(part.rendered)]
        if isinstance(part, Text):
            return ["text", part.rendered]
        if isinstance(part, RunName):
            return ["run", self.run.id]
        if isinstance(part, File):
            return self._data(self.digests.tree(part.path.absolute()), part.path.name)
        done, folder = self._made[part.step]
        tree = done.outputs[part.port]
        if made.verify(done, folder, self.digests)[1] is not None:
            tree = self.digests.tree(made.place(folder, part.port), remember=False)
        return self._data(tree, part.port)

    @staticmethod
    def _data(tree: Tree, name: str) -> list[str]:
        """Of a lone file its name counts too, because programs look at endings."""
        return ["data", name if tree.kind == "file" else "", tree.digest()]

    def _code(self, name: str) -> Snapshot:
        while name not in self.code:
            name, dot, _ = name.rpartition(".")
            if not dot:
                raise LookupError(name)
        return self.code[name]

    def _outputs(self, task: Task) -> list[str]:
        """The outputs whose content matters: those declared, and the artifacts where a step reads them."""
        return [*task.outputs, *([ARTIFACTS] if task.name in self._read else [])]


def is_deterministic(task: Task) -> bool:
    """What its component says; by default it is."""
    given = task.component.is_deterministic
    return given is None or str(given.value).lower() != "false"


def of(
    prepared: Prepared,
    run: RunFolder,
    store: Store,
    notice: Callable[[str], None],
    *,
    stopping: Callable[[], bool],
    earlier: RunRecord | None,
) -> StepMemory:
    """The memory of a run.

    Args:
        prepared: The pipeline, with its options.
        run: The run's folder.
        store: Where steps are found and kept.
        notice: Says something to the user.
        stopping: Whether the user has asked to stop, so that no long file is hashed to its end.
        earlier: What is known of the run, where it is resumed.
    """
    done = earlier.steps.values() if earlier is not None else ()
    return StepMemory(
        run,
        prepared.tasks,
        prepared.code,
        store,
        Digests(store.digests, stop=stopping),
        environments=prepared.environments,
        notice=notice,
        force=prepared.options.force or prepared.graph.force_rerun,
        earlier=frozenset(step.name for step in done if step.state in DONE),
    )
