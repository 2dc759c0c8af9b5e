"""The main loop of a run: starts the steps that are ready and fit, and watches them until they end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace

from worldsize.base.wording import describe_os_error
from worldsize.running.engine.attempt import Attempt, Outcome, RunContext
from worldsize.running.engine.steps import Extensions, ScheduledStep, Settler, StepTable
from worldsize.running.launch.redaction import redact_failure
from worldsize.running.model.results import StepResult, View
from worldsize.running.model.task import Task
from worldsize.running.record.tracking import Tracking

TICK_SECONDS = 0.15


class Schedule:
    """Runs the steps of one run.

    With ``keep_going`` steps that do not need a failed one still run.
    """

    def __init__(
        self,
        tasks: Mapping[str, Task],
        context: RunContext,
        extensions: Extensions,
        *,
        view: View,
        tracking: Tracking,
        interrupts: Interrupts,
        keep_going: bool = False,
    ) -> None:
        self._context, self._extensions = context, extensions
        self._view, self._tracking, self._interrupts = view, tracking, interrupts
        self._steps = StepTable(tasks.values(), extensions.expansions)
        self._settler = Settler(self._steps, context, extensions, view, tracking, keep_going)
        self._free = list(context.machine.gpus) or [str(core) for core in range(context.machine.cores)]
        self._selector = selectors.DefaultSelector()
        self._warned_untracked = False

    def execute(self) -> dict[str, StepResult]:
        """Run every step; one result each, in the order of the tasks. No process is left when it returns."""
        steps = self._steps
        with self._selector:
            self._selector.register(self._interrupts, selectors.EVENT_READ)
            try:
                while steps.unfinished:
                    self._start_ready()
                    self._listen()
            finally:
                for attempt in steps.active.values():
                    attempt.close()
        for step in steps.by_name.values():
            if step.result is None:
                began = step.status.state == "preparing" or step in steps.expanded
                self._settler.conclude(step, "stopped" if began else step.status.state, None)
        self._view.tick(steps.statuses)
        return {name: step.result for name, step in steps.by_name.items() if step.result is not None}

    def _listen(self) -> None:
        """Wait for an event, at most until the view is due to be redrawn."""
        number = self._tracking.fileno()  # there is one as soon as a step has requested its run
        if number is not None and number not in self._selector.get_map():
            self._selector.register(number, selectors.EVENT_READ)
        busy = self._steps.active or self._steps.resting
        for key, _ in self._selector.select(TICK_SECONDS if busy else 0):
            if isinstance(key.data, Attempt):
                self._finish(key.data, key.data.read_events())
            elif key.fileobj is self._interrupts:
                self._interrupts.clear()
                self._interrupt()
            else:
                self._tracking.read()
        self._tick()
        self._view.tick(self._steps.statuses)

    def _tick(self) -> None:
        """Handle what changes without an event: timeouts, progress, pauses."""
        self._tracking.look()
        if self._tracking.unavailable and not self._warned_untracked:
            self._warned_untracked = True
            self._view.warn(f"not tracked by MLflow: {self._tracking.unavailable}")
        active = self._steps.active
        for attempt in list(active.values()):
            self._finish(attempt, attempt.watch_guard())
        for attempt in active.values():
            attempt.watch_time()
            self._update_progress(attempt)
        for watcher in self._extensions.watchers:
            watcher.tick(active.values())
        for step in self._steps.expanded:
            for name in step.expansion.to_stop() if step.expansion is not None else ():
                if name in active:
                    active[name].stop()
        self._steps.wake()

    def _start_ready(self) -> None:
        """Prepare the first ready steps that fit, and start those whose MLflow run exists.

        Small steps do not overtake a large one, which would otherwise never find enough slots.
        """
        while self._steps.ready and not self._steps.stopping:
            step = self._steps.ready[0]
            if not self._recall(step):
                slots = min(self._count_slots(step.task), self._context.machine.slots)
                if step.expansion is not None:
                    self._settler.expand(step)
                elif slots <= len(self._free):
                    self._prepare(step, slots)
                else:
                    break
            self._steps.ready.popleft()
        for attempt in [each for each in self._steps.active.values() if each.group is None]:
            self._start(attempt)

    def _recall(self, step: ScheduledStep) -> bool:
        """Reuse the outputs of an identical earlier step; whether there are any."""
        if step.attempts:
            return False
        try:
            source = self._extensions.cache.recall(step.task)
        except OSError as error:
            self._view.warn(f"{step.name}: not reused: {describe_os_error(error, file=True)}")
            return False
        if source is not None:
            self._context.log.write("step_reused", step=step.name, run=source)
            # A resumed run that finds its own outputs has made them itself.
            self._settler.settle(step, "succeeded" if source == self._context.run.id else "reused", None)
        return source is not None

    def _prepare(self, step: ScheduledStep, slots: int) -> None:
        lent = tuple(self._free[:slots])
        del self._free[:slots]
        step.attempts += 1
        attempt = self._steps.active[step.name] = Attempt(step.task, lent, self._context, step.attempts)
        self._settler.change(step, "preparing")
        outcome = attempt.prepare()
        if outcome is None:
            self._tracking.request(step.name, self._extensions.cache.key(step.task))
        self._finish(attempt, outcome)

    def _start(self, attempt: Attempt) -> None:
        step = self._steps.by_name[attempt.task.name]
        variables = self._tracking.environment(step.name)
        if variables is None:
            return
        if self._steps.stopping:
            self._finish(attempt, Outcome("stopped"))
            return
        outcome = attempt.start(variables)
        if attempt.group is None:
            self._finish(attempt, outcome)
            return
        self._selector.register(attempt.group, selectors.EVENT_READ, attempt)
        attempt.when_closed(self._selector.unregister, attempt.group)
        step.status.started = step.status.started or attempt.began
        self._settler.change(step, "running")

    def _count_slots(self, task: Task) -> int:
        """The slots of a step; parameter servers mostly wait and take none."""
        return task.rank_count * (task.gpus_per_process if self._context.machine.gpus else 1)

    def _update_progress(self, attempt: Attempt) -> None:
        if attempt.progress.update():
            self._steps.statuses[attempt.task.name].progress = attempt.progress.newest

    def _finish(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """Close an attempt that has ended, release its slots, and settle its step."""
        if outcome is None:
            return
        outcome = replace(outcome, failure=redact_failure(outcome.failure, self._context.mask))
        step = self._steps.by_name[attempt.task.name]
        if attempt.group is not None and attempt.group.left:
            self._view.warn(f"{step.name}: processes {attempt.group.left} could not be killed")
        attempt.close()
        if changed := attempt.changed_python:
            self._view.warn(f"{step.name}: {changed}")
        del self._steps.active[step.name]
        self._free += attempt.slots
        self._update_progress(attempt)
        self._settler.end_attempt(step, attempt, outcome)

    def _interrupt(self) -> None:
        """Ask the steps to end at the first signal, and kill them at the second."""
        again = len(self._interrupts.received) > 1
        self._context.log.write("interrupted", signal=self._interrupts.received[-1])
        self._view.notice(
            "killing every process" if again else "stopping; interrupt again to kill the processes at once"
        )
        self._steps.stop(at_once=again)
        for attempt in [each for each in self._steps.active.values() if each.group is None]:
            self._finish(attempt, Outcome("stopped"))


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """The signals received so far, and a file descriptor that wakes a selector when one arrives."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)

    def fileno(self) -> int:
        """What a selector waits on."""
        return self._reading

    def happened(self) -> bool:
        """Whether there was a signal."""
        return bool(self.received)

    def clear(self) -> None:
        """Clear the wake-up; :attr:`received` stays."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, 1 << 10)

    def note(self, number: int, _frame: object = None) -> None:
        """Record a signal and wake the selector."""
        self.received.append(number)
        os.write(self._writing, b"!")

    def close(self) -> None:
        """Close both ends."""
        os.close(self._reading)
        os.close(self._writing)


@contextlib.contextmanager
def catch_signals() -> Iterator[Interrupts]:
    """Catch signals for as long as the context lasts; Python allows it in the main thread only."""
    interrupts = Interrupts()
    previous = {}
    if threading.current_thread() is threading.main_thread():
        previous = {number: signal.signal(number, interrupts.note) for number in SIGNALS}
    try:
        yield interrupts
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        interrupts.close()
