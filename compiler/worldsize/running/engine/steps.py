"""The steps of a run while it goes on: what each waits for, and which are ready, active or resting."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from worldsize.running.engine.attempt import Attempt
from worldsize.running.engine.extensions import Expansion
from worldsize.running.model.results import StepResult
from worldsize.running.model.task import Task
from worldsize.running.model.view import Status


@dataclass(slots=True, eq=False)
class ScheduledStep:
    """One step of a run.

    Attributes:
        task: What it runs; optional inputs of it may lose their value while it waits.
        expansion: What it turns into, where it is a step that does.
        parent: The step that has turned into this one and others.
        status: What a view shows of it.
        waiting_for: Names of the steps whose outputs it waits for.
        readers: The steps that read its outputs.
        attempts: How often it was started.
        retry_at: The monotonic time of its next attempt, while it rests.
        children: Names of the steps that it has turned into and that have not ended.
        result: How it ended.
    """

    task: Task
    expansion: Expansion | None = None
    parent: ScheduledStep | None = None
    status: Status = field(init=False)
    waiting_for: set[str] = field(default_factory=set)
    readers: list[ScheduledStep] = field(default_factory=list)
    attempts: int = 0
    retry_at: float = 0.0
    children: set[str] = field(default_factory=set)
    result: StepResult | None = None

    def __post_init__(self) -> None:
        """Begin as a step that waits."""
        self.status = Status(self.task.name, processes=self.task.process_count)

    @property
    def name(self) -> str:
        """Its name, unique in the run."""
        return self.task.name


class StepTable:
    """All steps of a run by name, and the states in which the schedule has to look after them.

    Args:
        tasks: The steps; they have no cycle.
        expansions: By name, what steps turn into.
    """

    def __init__(self, tasks: Iterable[Task], expansions: Mapping[str, Expansion]) -> None:
        self.by_name = {task.name: ScheduledStep(task, expansions.get(task.name)) for task in tasks}
        self.statuses = {name: step.status for name, step in self.by_name.items()}
        self.ready: deque[ScheduledStep] = deque()
        self.active: dict[str, Attempt] = {}  # attempts that hold slots
        self.resting: list[ScheduledStep] = []  # failed steps that are started again
        self.expanded: list[ScheduledStep] = []  # steps that have turned into others, which still run
        self.stopping = False  # no further step starts
        for step in self.by_name.values():
            self._connect(step)

    @property
    def unfinished(self) -> bool:
        """Whether something runs, or will start."""
        return bool(self.active) or (not self.stopping and bool(self.ready or self.resting))

    def add_child(self, task: Task, parent: ScheduledStep) -> None:
        """Add a step that another one has turned into."""
        child = self.by_name[task.name] = ScheduledStep(task, parent=parent)
        self.statuses[task.name] = child.status
        parent.children.add(task.name)
        self._connect(child)

    def release_readers(self, step: ScheduledStep) -> None:
        """The outputs of a step are there: its readers wait for it no longer."""
        for reader in step.readers:
            self._release(reader, step)

    def release_optional_readers(self, failed: ScheduledStep) -> None:
        """Let steps run that read only optional inputs from a step that failed, or that will never start."""
        missing, blocked = [failed], {failed.name}
        while missing:
            absent = missing.pop()
            for reader in absent.readers:
                if not reader.task.requires(absent.name):
                    if absent.name in reader.waiting_for:
                        reader.task = reader.task.without({absent.name})
                        self._release(reader, absent)
                elif reader.name not in blocked:
                    blocked.add(reader.name)
                    missing.append(reader)

    def rest(self, step: ScheduledStep, seconds: float) -> None:
        """Have a step start again after a pause."""
        step.retry_at = time.monotonic() + seconds
        self.resting.append(step)

    def wake(self) -> None:
        """Make the resting steps ready whose pause is over."""
        now = time.monotonic()
        rested = [step for step in self.resting if now >= step.retry_at]
        for step in rested:
            self.resting.remove(step)
            self.ready.append(step)

    def stop(self, *, at_once: bool = False) -> None:
        """Start no further step, and ask the active ones to end."""
        self.stopping = True
        for attempt in self.active.values():
            attempt.stop(at_once=at_once)

    def _connect(self, step: ScheduledStep) -> None:
        """See what a new step waits for; the child of another one finds its inputs made."""
        if step.parent is None:
            step.waiting_for = set(step.task.needs)
        for needed in step.waiting_for:
            self.by_name[needed].readers.append(step)
        if not step.waiting_for:
            self.ready.append(step)

    def _release(self, reader: ScheduledStep, step: ScheduledStep) -> None:
        reader.waiting_for.discard(step.name)
        if not reader.waiting_for:
            self.ready.append(reader)
