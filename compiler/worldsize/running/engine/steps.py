"""The steps of an active run: what each waits for, its state, and what follows when it ends."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from worldsize.running.engine.attempt import Attempt, Outcome, RunContext
from worldsize.running.engine.restarts import Restarting
from worldsize.running.engine.sweep import Sweep
from worldsize.running.model.results import DONE, Failure, Status, StepResult, StepState, View
from worldsize.running.model.task import Task
from worldsize.running.record.reports import describe_early_end
from worldsize.running.record.tracking import Tracking
from worldsize.running.reuse.step_cache import ReuseCache


@dataclass(slots=True, eq=False)
class ScheduledStep:
    """One step of a run."""

    task: Task  # what it runs; optional inputs of it may lose their value while it waits
    expansion: Sweep | None = None  # what it expands into, if it is a sweep
    parent: ScheduledStep | None = None  # the step that has expanded into this one and others
    status: Status = field(init=False)  # what a view shows of it
    waiting_for: set[str] = field(default_factory=set)  # names of the steps whose outputs it waits for
    readers: list[ScheduledStep] = field(default_factory=list)  # the steps that read its outputs
    attempts: int = 0  # how often it was started
    retry_at: float = 0.0  # the monotonic time of its next attempt, while it rests
    # names of the steps that it has expanded into and that have not ended
    children: set[str] = field(default_factory=set)
    result: StepResult | None = None  # how it ended

    def __post_init__(self) -> None:
        """Begin as a step that waits."""
        self.status = Status(self.task.name, processes=self.task.process_count)

    @property
    def name(self) -> str:
        """Its name, unique in the run."""
        return self.task.name


class StepTable:
    """All steps of a run by name, and the states that the schedule has to look after."""

    def __init__(self, tasks: Iterable[Task], expansions: Mapping[str, Sweep]) -> None:
        self.by_name = {task.name: ScheduledStep(task, expansions.get(task.name)) for task in tasks}
        self.statuses = {name: step.status for name, step in self.by_name.items()}
        self.ready: deque[ScheduledStep] = deque()
        self.active: dict[str, Attempt] = {}  # attempts that hold slots
        self.resting: list[ScheduledStep] = []  # failed steps that will restart
        self.expanded: list[ScheduledStep] = []  # steps that have expanded into others, which still run
        self.stopping = False  # no further step starts
        for step in self.by_name.values():
            self._connect(step)

    @property
    def unfinished(self) -> bool:
        """Whether a step is running or will start."""
        return bool(self.active) or (not self.stopping and bool(self.ready or self.resting))

    def add_child(self, task: Task, parent: ScheduledStep) -> None:
        """Add a step that another one has expanded into."""
        child = self.by_name[task.name] = ScheduledStep(task, parent=parent)
        self.statuses[task.name] = child.status
        parent.children.add(task.name)
        self._connect(child)

    def release_readers(self, step: ScheduledStep) -> None:
        """Release the readers of a step, because its outputs exist."""
        for reader in step.readers:
            self._release(reader, step)

    def release_optional_readers(self, failed: ScheduledStep) -> None:
        """Release steps that read only optional inputs from a failed step, or from one that cannot start."""
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
        """Restart a step after a pause."""
        step.retry_at = time.monotonic() + seconds
        self.resting.append(step)

    def wake(self) -> None:
        """Make resting steps ready when their pause has ended."""
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
        """Connect a new step to the steps that it waits for; the inputs of a child exist already."""
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


class Watcher(Protocol):
    """Sees the running steps a few times a second, and may interfere."""

    def tick(self, attempts: Collection[Attempt]) -> None:
        """Look at the attempts that hold slots now."""


@dataclass(frozen=True, slots=True)
class Extensions:
    """What the options of a run add to its schedule; ``expansions`` by the name of the step."""

    cache: ReuseCache
    restarts: Restarting
    watchers: Sequence[Watcher]
    expansions: Mapping[str, Sweep]


@dataclass(frozen=True, slots=True)
class Settler:
    """Gives steps their results.

    With ``keep_going`` a failed step does not stop others; only steps that need its outputs do not start.
    """

    steps: StepTable
    context: RunContext
    extensions: Extensions
    view: View
    tracking: Tracking
    keep_going: bool

    def end_attempt(self, step: ScheduledStep, attempt: Attempt, outcome: Outcome) -> None:
        """Restart a step after a pause, or give it its result."""
        failure, seconds = outcome.failure, None
        if failure is not None and not self.steps.stopping:
            seconds = self.extensions.restarts.after(attempt, failure)
        if failure is None or seconds is None:
            self.tracking.end(step.name, outcome.state)
            self.settle(step, outcome.state, failure)
            return
        pause = round(seconds, 3)
        self.context.log.write(
            "step_restarts", step=step.name, attempt=attempt.number, reason=failure.message, seconds=pause
        )
        self.view.notice(f"{step.name}: {failure.message}; it starts again in {seconds:.1f} s")
        self.steps.rest(step, seconds)
        self.change(step, "waiting")

    def settle(self, step: ScheduledStep, state: StepState, failure: Failure | None) -> None:
        """Give a step its result, and free or stop the others."""
        self.conclude(step, state, failure)
        if state == "succeeded":
            self.extensions.cache.keep(step.task, step.status.seconds)
        if step.parent is not None:
            self._end_child(step.parent, step)
        elif state in DONE:
            self.steps.release_readers(step)
        elif state == "failed" and not self.keep_going:
            self.steps.stop()
        elif state == "failed":
            self.steps.release_optional_readers(step)

    def expand(self, step: ScheduledStep) -> None:
        """Expand a step into others; it ends when they have ended."""
        assert step.expansion is not None
        step.status.started = time.monotonic()
        self.steps.expanded.append(step)
        self.tracking.request(step.name, self.extensions.cache.key(step.task))
        self.context.log.write("step_started", step=step.name, attempt=1, processes=[])
        self.change(step, "running")
        self._add_children(step, step.expansion.begin())

    def change(self, step: ScheduledStep, state: StepState) -> None:
        """Show a step's new state."""
        if step.status.state != state:
            step.status.state = state
            self.view.changed(step.status)

    def conclude(self, step: ScheduledStep, state: StepState, failure: Failure | None) -> None:
        """Record how a step ended."""
        status, folder = step.status, self.context.run.step(step.name)
        if status.started is not None:
            status.seconds = time.monotonic() - status.started
        summary = step.expansion.summary if step.expansion is not None else None
        if state == "succeeded" and (early := describe_early_end(status.progress, folder.logs)) is not None:
            summary = early
            self.view.notice(f"{step.name}: {early}")
        step.result = StepResult(
            name=step.name,
            state=state,
            seconds=status.seconds,
            folder=folder.root,
            outputs={name: folder.outputs / name for name in step.task.outputs},
            failure=failure,
            parent=step.parent.name if step.parent is not None else None,
            summary=self.context.mask.text(summary) if summary else summary,
            best=step.expansion.chosen if step.expansion is not None else None,
            score=step.expansion.score if step.expansion is not None else None,
        )
        self.context.log.write(
            "step_ended",
            step=step.name,
            state=state,
            seconds=round(status.seconds, 3),
            reason=failure.message if failure else None,
            last_lines=list(failure.last_lines) if failure else [],
        )
        self.change(step, state)

    def _end_child(self, parent: ScheduledStep, child: ScheduledStep) -> None:
        assert parent.expansion is not None
        assert child.result is not None
        parent.children.discard(child.name)
        following = parent.expansion.ended(child.name, child.result)
        if not self.steps.stopping:
            self._add_children(parent, following)

    def _add_children(self, parent: ScheduledStep, children: Sequence[Task]) -> None:
        """Add the next children; if there are none left, the parent ends."""
        assert parent.expansion is not None
        for task in children:
            self.context.code[task.name] = self.context.code[parent.name]
            self.steps.add_child(task, parent)
        if parent.expansion.done and not parent.children:
            self.steps.expanded.remove(parent)
            failure = parent.expansion.finish()
            state: StepState = "succeeded" if failure is None else "failed"
            self.tracking.end(parent.name, state)
            self.settle(parent, state, failure)
