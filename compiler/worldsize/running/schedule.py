"""The loop of a run: starts what is ready and fits, listens to what runs, ends everything together."""

from __future__ import annotations

import contextlib
import selectors
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from worldsize.azureml.snapshot import Snapshot
from worldsize.running import calls, disclosure, inputs, ports, processes, workplace
from worldsize.running.events import EventLog
from worldsize.running.folder import RunFolder
from worldsize.running.interrupts import Interrupts
from worldsize.running.logs import last_lines
from worldsize.running.machine import Machine
from worldsize.running.processes import Process
from worldsize.running.progress import ProgressFile
from worldsize.running.results import Failure, StepResult, StepState, ending, still_running
from worldsize.running.supervise import GRACE_SECONDS, Ended, Group, Warden
from worldsize.running.tasks import Task
from worldsize.running.tracking import Tracking
from worldsize.running.view import Status, View

TICK_SECONDS = 0.15
LAST_LINES = 15


@dataclass(slots=True)
class Active:
    """A step that holds slots. Its group is None until the tracker has answered."""

    task: Task
    slots: tuple[str, ...]
    progress: ProgressFile
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    group: Group | None = None
    told_to_stop: bool = False
    overdue: bool = False  # told to stop because its time was up
    unfinished: tuple[Process, ...] = ()  # those that were, then


@dataclass(slots=True)
class Schedule:
    """Everything one run needs while it goes on. ``tasks`` form no circle.

    With ``keep_going`` a failed step stops nobody; only the steps that need its outputs do not start.
    """

    tasks: Mapping[str, Task]
    code: Mapping[str, Snapshot]
    run: RunFolder
    machine: Machine
    log: EventLog
    view: View
    tracking: Tracking
    warden: Warden
    interrupts: Interrupts
    experiment: str
    grace: float = GRACE_SECONDS
    keep_going: bool = False
    statuses: dict[str, Status] = field(default_factory=dict)
    results: dict[str, StepResult] = field(default_factory=dict)
    _active: dict[str, Active] = field(default_factory=dict)
    _ready: list[str] = field(default_factory=list)
    _waiting: dict[str, set[str]] = field(default_factory=dict)
    _readers: dict[str, list[str]] = field(default_factory=dict)
    _free: list[str] = field(default_factory=list)
    _stopping: bool = False

    def execute(self) -> dict[str, StepResult]:
        """Run every step; one result each, in the order of the tasks. No process is left when it returns."""
        self._begin()
        with selectors.DefaultSelector() as selector:
            selector.register(self.interrupts, selectors.EVENT_READ)
            listening = self.tracking.fileno()
            if listening is not None:
                selector.register(listening, selectors.EVENT_READ)
            try:
                while self._active or (self._ready and not self._stopping):
                    self._start_ready(selector)
                    self._listen(selector)
            finally:
                for active in self._active.values():
                    active.stack.close()
        for name, status in self.statuses.items():
            if name not in self.results:
                self._conclude(status, "stopped" if status.state == "preparing" else status.state, None)
        self.view.tick(self.statuses)
        return {name: self.results[name] for name in self.tasks}

    def _begin(self) -> None:
        self._free = list(self.machine.gpus) or [str(core) for core in range(self.machine.cores)]
        for name, task in self.tasks.items():
            self.statuses[name] = Status(name, processes=task.process_count)
            self._waiting[name] = set(task.needs)
            for needed in task.needs:
                self._readers.setdefault(needed, []).append(name)
        self._ready = [name for name, needs in self._waiting.items() if not needs]

    def _listen(self, selector: selectors.BaseSelector) -> None:
        """Wait for something to happen, at most until the view wants to be redrawn."""
        for key, _ in selector.select(TICK_SECONDS):
            if isinstance(key.data, Active):
                self._hear(key.data)
            elif key.fileobj is self.interrupts:
                self.interrupts.clear()
                self._interrupted()
            else:
                self.tracking.read()
                if self.tracking.unavailable:
                    selector.unregister(key.fileobj)
                    self.view.notice(f"not tracked by MLflow: {self.tracking.unavailable}")
        for active in self._active.values():
            self._watch_time(active)
            if active.progress.update():
                self.statuses[active.task.name].progress = active.progress.newest
        self.view.tick(self.statuses)

    def _start_ready(self, selector: selectors.BaseSelector) -> None:
        """Prepare the first ready steps that fit, and start those whose MLflow run is there.

        A large step is not overtaken by small ones behind it: it would never find enough slots.
        """
        while self._ready and not self._stopping:
            task = self.tasks[self._ready[0]]
            wanted = min(self._slots(task), self.machine.slots)
            if wanted > len(self._free):
                break
            self._ready.pop(0)
            slots = tuple(self._free[:wanted])
            del self._free[:wanted]
            self._prepare(Active(task, slots, ProgressFile(self.run.step(task.name).progress)))
        for active in [each for each in self._active.values() if each.group is None]:
            self._start(active, selector)

    def _prepare(self, active: Active) -> None:
        name = active.task.name
        self._active[name] = active
        self._change(self.statuses[name], "preparing")
        try:
            workplace.prepare(active.task, self.code[name], self.run)
        except OSError as error:
            reason = f"its folder cannot be made: {error.strerror}: {error.filename}"
            self._finish(active, "failed", Failure(None, None, None, None, (), reason))
            return
        self.tracking.request(name)

    def _start(self, active: Active, selector: selectors.BaseSelector) -> None:
        task = active.task
        variables = self.tracking.environment(task.name)
        if variables is None:
            return
        if self._stopping:
            self._finish(active, "stopped", None)
            return
        call = calls.of(
            task,
            self.run,
            inputs.resolve(task, self.run),
            experiment=self.experiment,
            tracking=variables,
            cores=self.machine.cores,
            gpus=self._lent(active),
        )
        step = self.run.step(task.name)
        try:
            held = active.stack.enter_context(ports.reserve(processes.ports_needed(call)))
            plan = processes.plan(call, [str(port) for port in held])
            group = Group(plan, self.warden, cwd=step.code, logs=step.logs, grace=self.grace)
        except OSError as error:
            reason = f"its processes cannot be started: {error.strerror}"
            self._finish(active, "failed", Failure(None, None, None, None, (), reason))
            return
        active.group = active.stack.enter_context(group)
        selector.register(group, selectors.EVENT_READ, active)
        active.stack.callback(selector.unregister, group)
        self.log.write("step_started", step=task.name, processes=disclosure.listed(plan))
        self.statuses[task.name].started = time.monotonic()
        self._change(self.statuses[task.name], "running")

    def _watch_time(self, active: Active) -> None:
        """Stop a step whose time is up; its processes get the same grace as everybody's."""
        limit, started = active.task.timeout, self.statuses[active.task.name].started
        if limit is None or started is None or active.group is None or active.told_to_stop or active.overdue:
            return
        if time.monotonic() - started >= limit:
            active.overdue = True
            active.unfinished = tuple(active.group.unfinished)
            active.group.stop()

    def _slots(self, task: Task) -> int:
        """What a step occupies; parameter servers mostly wait, so they take none."""
        return task.world_size * (task.gpus_per_process if self.machine.gpus else 1)

    def _lent(self, active: Active) -> tuple[str, ...]:
        """GPUs that a distributed step is restricted to; one that has them all needs no restriction."""
        everything = len(active.slots) == len(self.machine.gpus) and active.task.instance_count == 1
        if not self.machine.gpus or active.task.launcher == "none" or everything:
            return ()
        return active.slots

    def _hear(self, active: Active) -> None:
        assert active.group is not None
        for ended in active.group.read():
            self.log.write(
                "process_ended", step=active.task.name, process=ended.process.name, status=ended.status
            )
        if not active.group.done:
            return
        if active.group.left:
            self.view.notice(f"{active.task.name}: processes {active.group.left} could not be killed")
        if active.told_to_stop:
            self._finish(active, "stopped", None)
        elif active.overdue:
            self._finish(active, "failed", self._overdue(active))
        elif active.group.failure or active.group.lost:
            self._finish(active, "failed", self._failure(active, active.group.failure))
        else:
            self._finish(active, "succeeded", None)

    def _overdue(self, active: Active) -> Failure:
        assert active.group is not None
        message = f"it was stopped at its timeout of {active.task.timeout} s"
        running = [each for each in active.unfinished if not each.serves]
        waited = running or list(active.unfinished)
        if active.task.process_count > 1:
            message += f", {still_running(waited, active.group.ranks)}"
        log = self.run.step(active.task.name).logs / f"{waited[0].name if waited else 'rank-0'}.log"
        return Failure(None, None, None, log, tuple(last_lines(log, LAST_LINES)), message)

    def _failure(self, active: Active, ended: Ended | None) -> Failure:
        if ended is None:
            return Failure(None, None, None, None, (), "the process that watched over it was killed")
        process = ended.process
        log = self.run.step(active.task.name).logs / f"{process.name}.log"
        message = ending(process.title, ended.status)
        lines = tuple(last_lines(log, LAST_LINES))
        return Failure(process.name, process.rank, ended.status, log, lines, message)

    def _finish(self, active: Active, state: StepState, failure: Failure | None) -> None:
        """Close a step, give back what it held, and free or stop the others."""
        name = active.task.name
        active.stack.close()
        del self._active[name]
        self._free += active.slots
        if active.progress.update():
            self.statuses[name].progress = active.progress.newest
        self._conclude(self.statuses[name], state, failure)
        self.tracking.end(name, state)
        if state == "failed" and not self.keep_going:
            self._stop_all()
        elif state == "succeeded":
            for reader in self._readers.get(name, ()):
                self._waiting[reader].discard(name)
                if not self._waiting[reader]:
                    self._ready.append(reader)

    def _conclude(self, status: Status, state: StepState, failure: Failure | None) -> None:
        if status.started is not None:
            status.seconds = time.monotonic() - status.started
        folder = self.run.step(status.name)
        made: dict[str, Path] = {name: folder.outputs / name for name in self.tasks[status.name].outputs}
        self.results[status.name] = StepResult(status.name, state, status.seconds, folder.root, made, failure)
        reason = failure.message if failure else None
        self.log.write(
            "step_ended", step=status.name, state=state, seconds=round(status.seconds, 3), reason=reason
        )
        self._change(status, state)

    def _change(self, status: Status, state: StepState) -> None:
        if status.state != state:
            status.state = state
            self.view.changed(status)

    def _stop_all(self, *, at_once: bool = False) -> None:
        self._stopping = True
        for active in self._active.values():
            if active.group is not None:
                active.told_to_stop = True
                (active.group.kill if at_once else active.group.stop)()

    def _interrupted(self) -> None:
        """The first signal asks the steps to end, the second does not ask."""
        again = len(self.interrupts.received) > 1
        self.log.write("interrupted", signal=self.interrupts.received[-1])
        self.view.notice("killing every process" if again else "stopping; once more to kill at once")
        self._stop_all(at_once=again)
        for active in [each for each in self._active.values() if each.group is None]:
            self._finish(active, "stopped", None)
