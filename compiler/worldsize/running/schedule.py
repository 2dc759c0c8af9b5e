"""The loop of a run: starts what is ready and fits, listens to what runs, ends everything together."""

from __future__ import annotations

import selectors
import time
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from worldsize.base.system_error import describe_os_error
from worldsize.running.attempt import Attempt, Outcome, Surroundings
from worldsize.running.expansion import Expansion
from worldsize.running.extensions import Memory, Nothing, Restarts, Watcher
from worldsize.running.recording import disclosure
from worldsize.running.recording.tracking import Tracking
from worldsize.running.results import DONE, Failure, StepResult, StepState
from worldsize.running.showing.view import Status, View
from worldsize.running.supervising.interrupts import Interrupts
from worldsize.running.tasks import Task

TICK_SECONDS = 0.15


@dataclass(slots=True)
class Schedule:
    """Everything one run needs while it goes on. ``tasks`` form no circle; expansions add to them.

    With ``keep_going`` a failed step stops nobody; only the steps that need its outputs do not start.
    """

    tasks: MutableMapping[str, Task]
    around: Surroundings
    view: View
    tracking: Tracking
    interrupts: Interrupts
    keep_going: bool = False
    expansions: Mapping[str, Expansion] = field(default_factory=dict)
    memory: Memory = field(default_factory=Nothing)
    restarts: Restarts = field(default_factory=Nothing)
    watchers: Sequence[Watcher] = ()
    statuses: dict[str, Status] = field(default_factory=dict)
    results: dict[str, StepResult] = field(default_factory=dict)
    _active: dict[str, Attempt] = field(default_factory=dict)
    _ready: list[str] = field(default_factory=list)
    _resting: dict[str, float] = field(default_factory=dict)  # when steps that failed are tried again
    _tries: dict[str, int] = field(default_factory=dict)
    _waiting: dict[str, set[str]] = field(default_factory=dict)
    _readers: dict[str, list[str]] = field(default_factory=dict)
    _parents: dict[str, str] = field(default_factory=dict)  # of the children of steps that expand
    _children: dict[str, set[str]] = field(default_factory=dict)  # that have not ended
    _free: list[str] = field(default_factory=list)
    _stopping: bool = False
    _told_untracked: bool = False

    def execute(self) -> dict[str, StepResult]:
        """Run every step; one result each, in the order of the tasks. No process is left when it returns."""
        machine = self.around.machine
        self._free = list(machine.gpus) or [str(core) for core in range(machine.cores)]
        for task in list(self.tasks.values()):
            self._add(task)
        with selectors.DefaultSelector() as selector:
            selector.register(self.interrupts, selectors.EVENT_READ)
            try:
                while self._active or (not self._stopping and (self._ready or self._resting)):
                    self._start_ready(selector)
                    self._listen(selector)
            finally:
                for attempt in self._active.values():
                    attempt.close()
        for name, status in self.statuses.items():
            if name not in self.results:
                begun = status.state == "preparing" or name in self._children
                self._conclude(status, "stopped" if begun else status.state, None)
        self.view.tick(self.statuses)
        return {name: self.results[name] for name in self.tasks}

    def _add(self, task: Task) -> None:
        self.statuses[task.name] = Status(task.name, processes=task.process_count)
        self._waiting[task.name] = set(task.needs)
        for needed in task.needs:
            self._readers.setdefault(needed, []).append(task.name)
        if not task.needs:
            self._ready.append(task.name)

    def _listen(self, selector: selectors.BaseSelector) -> None:
        """Wait for something to happen, at most until the view wants to be redrawn."""
        number = self.tracking.fileno()  # there is one once a step has asked for its run
        if number is not None and number not in selector.get_map():
            selector.register(number, selectors.EVENT_READ)
        for key, _ in selector.select(TICK_SECONDS if self._active or self._resting else 0):
            if isinstance(key.data, Attempt):
                self._finish(key.data, key.data.hear())
            elif key.fileobj is self.interrupts:
                self.interrupts.clear()
                self._interrupted()
            else:
                self.tracking.read()
        self._look_round()
        self.view.tick(self.statuses)

    def _look_round(self) -> None:
        """What happens without anybody saying so: time passes."""
        self.tracking.look()
        if self.tracking.unavailable and not self._told_untracked:
            self._told_untracked = True
            self.view.warn(f"not tracked by MLflow: {self.tracking.unavailable}")
        for attempt in list(self._active.values()):
            self._finish(attempt, attempt.watch_guard())
        for attempt in self._active.values():
            attempt.watch_time()
            if attempt.progress.update():
                self.statuses[attempt.task.name].progress = attempt.progress.newest
        for watcher in self.watchers:
            watcher.tick(self._active.values())
        for name in [child for parent in self._children for child in self.expansions[parent].to_stop()]:
            if name in self._active:
                self._active[name].stop()
        for name in [name for name, when in self._resting.items() if time.monotonic() >= when]:
            del self._resting[name]
            self._ready.append(name)

    def _start_ready(self, selector: selectors.BaseSelector) -> None:
        """Prepare the first ready steps that fit, and start those whose MLflow run is there.

        A large step is not overtaken by small ones behind it: it would never find enough slots.
        """
        while self._ready and not self._stopping:
            task = self.tasks[self._ready[0]]
            if not self._recalled(task):
                wanted = min(self._slots(task), self.around.machine.slots)
                if task.name in self.expansions:
                    self._expand(task)
                elif wanted <= len(self._free):
                    self._prepare(task, wanted)
                else:
                    break
            self._ready.remove(task.name)
        for attempt in [each for each in self._active.values() if each.group is None]:
            self._start(attempt, selector)

    def _recalled(self, task: Task) -> bool:
        """Whether the very same step was done before: then it is over without a process."""
        if task.name in self._tries:
            return False
        try:
            source = self.memory.recall(task)
        except OSError as error:
            self.view.warn(f"{task.name}: not reused: {describe_os_error(error)}")
            return False
        if source is not None:
            self.around.log.write("step_reused", step=task.name, run=source)
            # What a run that is resumed had made itself is its own.
            self._settle(task.name, "succeeded" if source == self.around.run.id else "reused", None)
        return source is not None

    def _prepare(self, task: Task, wanted: int) -> None:
        name = task.name
        slots = tuple(self._free[:wanted])
        del self._free[:wanted]
        self._tries[name] = self._tries.get(name, 0) + 1
        attempt = self._active[name] = Attempt(task, slots, self.around, self._tries[name])
        self._change(self.statuses[name], "preparing")
        outcome = attempt.prepare()
        if outcome is None:
            self.tracking.request(name, self.memory.key(task))
        self._finish(attempt, outcome)

    def _start(self, attempt: Attempt, selector: selectors.BaseSelector) -> None:
        name = attempt.task.name
        variables = self.tracking.environment(name)
        if variables is None:
            return
        if self._stopping:
            self._finish(attempt, Outcome("stopped"))
            return
        outcome = attempt.start(variables)
        if attempt.group is None:
            self._finish(attempt, outcome)
            return
        selector.register(attempt.group, selectors.EVENT_READ, attempt)
        attempt.when_closed(selector.unregister, attempt.group)
        status = self.statuses[name]
        status.started = status.started or attempt.began
        self._change(status, "running")

    def _slots(self, task: Task) -> int:
        """What a step occupies; parameter servers mostly wait, so they take none."""
        return task.world_size * (task.gpus_per_process if self.around.machine.gpus else 1)

    def _finish(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """Close an attempt that is over, give back what it held, and see what follows."""
        if outcome is None:
            return
        outcome = replace(outcome, failure=disclosure.failure(outcome.failure, self.around.mask))
        name = attempt.task.name
        if attempt.group is not None and attempt.group.left:
            self.view.warn(f"{name}: processes {attempt.group.left} could not be killed")
        attempt.close()
        if changed := attempt.changed_python:
            self.view.warn(f"{name}: {changed}")
        del self._active[name]
        self._free += attempt.slots
        if attempt.progress.update():
            self.statuses[name].progress = attempt.progress.newest
        if not self._tried_again(attempt, outcome):
            self.tracking.end(name, outcome.state)
            self._settle(name, outcome.state, outcome.failure)

    def _tried_again(self, attempt: Attempt, outcome: Outcome) -> bool:
        if outcome.failure is None or self._stopping:
            return False
        seconds = self.restarts.after(attempt, outcome.failure)
        if seconds is None:
            return False
        name, reason = attempt.task.name, outcome.failure.message
        self.around.log.write(
            "step_restarts", step=name, attempt=attempt.number, reason=reason, seconds=round(seconds, 3)
        )
        self.view.notice(f"{name}: {reason}; it starts again in {seconds:.1f} s")
        self._resting[name] = time.monotonic() + seconds
        self._change(self.statuses[name], "waiting")
        return True

    def _settle(self, name: str, state: StepState, failure: Failure | None) -> None:
        """Give a step its result, and free or stop the others."""
        self._conclude(self.statuses[name], state, failure)
        if state == "succeeded":
            self.memory.keep(self.tasks[name], self.statuses[name].seconds)
        if name in self._parents:
            self._ended(self._parents[name], name)
        elif state in DONE:
            for reader in self._readers.get(name, ()):
                self._go_on(reader, name)
        elif state == "failed" and not self.keep_going:
            self._stop_all()
        elif state == "failed":
            self._do_without(name)

    def _go_on(self, reader: str, name: str) -> None:
        """A step no longer waits for another."""
        self._waiting[reader].discard(name)
        if not self._waiting[reader]:
            self._ready.append(reader)

    def _do_without(self, name: str) -> None:
        """Let steps run that read only optional inputs from one that failed, or that will never start."""
        missing, gone = [name], {name}
        while missing:
            absent = missing.pop()
            for reader in self._readers.get(absent, ()):
                task = self.tasks[reader]
                if not task.requires(absent):
                    if absent in self._waiting[reader]:
                        self.tasks[reader] = task.without({absent})
                        self._go_on(reader, absent)
                elif reader not in gone:
                    gone.add(reader)
                    missing.append(reader)

    def _expand(self, task: Task) -> None:
        """Let a step turn into others; it is over when they are."""
        status = self.statuses[task.name]
        status.started = time.monotonic()
        self._children[task.name] = set()
        self.tracking.request(task.name, self.memory.key(task))
        self.around.log.write("step_started", step=task.name, attempt=1, processes=[])
        self._change(status, "running")
        self._follow(task.name, self.expansions[task.name].begin())

    def _ended(self, parent: str, child: str) -> None:
        self._children[parent].discard(child)
        following = self.expansions[parent].ended(child, self.results[child])
        if not self._stopping:
            self._follow(parent, following)

    def _follow(self, parent: str, children: Sequence[Task]) -> None:
        for child in children:
            self.tasks[child.name] = child
            self.around.code[child.name] = self.around.code[parent]
            self._parents[child.name] = parent
            self._children[parent].add(child.name)
            self._add(child)
        expansion = self.expansions[parent]
        if expansion.done and not self._children[parent]:
            del self._children[parent]
            failure = expansion.finish()
            state: StepState = "succeeded" if failure is None else "failed"
            self.tracking.end(parent, state)
            self._settle(parent, state, failure)

    def _conclude(self, status: Status, state: StepState, failure: Failure | None) -> None:
        if status.started is not None:
            status.seconds = time.monotonic() - status.started
        folder = self.around.run.step(status.name)
        made: dict[str, Path] = {name: folder.outputs / name for name in self.tasks[status.name].outputs}
        expansion = self.expansions.get(status.name)
        summary = expansion.summary if expansion is not None else None
        self.results[status.name] = StepResult(
            name=status.name,
            state=state,
            seconds=status.seconds,
            folder=folder.root,
            outputs=made,
            failure=failure,
            parent=self._parents.get(status.name),
            summary=self.around.mask.text(summary) if summary else summary,
        )
        self.around.log.write(
            "step_ended",
            step=status.name,
            state=state,
            seconds=round(status.seconds, 3),
            reason=failure.message if failure else None,
            last_lines=list(failure.last_lines) if failure else [],
        )
        self._change(status, state)

    def _change(self, status: Status, state: StepState) -> None:
        if status.state != state:
            status.state = state
            self.view.changed(status)

    def _stop_all(self, *, at_once: bool = False) -> None:
        self._stopping = True
        for attempt in self._active.values():
            attempt.stop(at_once=at_once)

    def _interrupted(self) -> None:
        """The first signal asks the steps to end, the second does not ask."""
        again = len(self.interrupts.received) > 1
        self.around.log.write("interrupted", signal=self.interrupts.received[-1])
        self.view.notice("killing every process" if again else "stopping; once more to kill at once")
        self._stop_all(at_once=again)
        for attempt in [each for each in self._active.values() if each.group is None]:
            self._finish(attempt, Outcome("stopped"))
