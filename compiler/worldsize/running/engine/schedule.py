"""The main loop of a run: starts the steps that are ready and fit, and watches them until they end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base.wording import describe_os_error
from worldsize.running.engine.attempt import Attempt, Outcome, Restarting, RunContext
from worldsize.running.engine.sweep import Sweep
from worldsize.running.launch.redaction import redact_failure
from worldsize.running.model.results import DONE, Failure, Status, StepResult, StepState, View
from worldsize.running.model.task import Task
from worldsize.running.record.details import describe_early_end, list_warnings
from worldsize.running.record.tracking import Tracking
from worldsize.running.reuse.step_cache import ReuseCache

TICK_SECONDS = 0.15


class Schedule:
    """Runs the steps of one run.

    With ``keep_going`` a failed step does not stop others; only steps that need its outputs do not start.
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
        self._keep_going = keep_going
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
                    attempt.stack.close()
        for step in steps.by_name.values():
            if step.result is None:
                began = step.status.state == "preparing" or step in steps.expanded
                self._conclude(step, "stopped" if began else step.status.state, None)
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
            watcher(active.values())
        for step in self._steps.expanded:
            for name in step.expansion.to_stop() if step.expansion is not None else ():
                if name in active:
                    active[name].stop()
        self._steps.wake()

    def _start_ready(self) -> None:
        """Prepare the first ready steps that fit, and start those whose MLflow run exists.

        Small steps do not overtake a large one, which would otherwise never find enough slots.
        """
        machine = self._context.machine
        while self._steps.ready and not self._steps.stopping:
            step = self._steps.ready[0]
            if not self._recall(step):
                # Parameter servers mostly wait and take none.
                slots = step.task.rank_count * (step.task.gpus_per_process if machine.gpus else 1)
                slots = min(slots, machine.slots)
                if step.expansion is not None:
                    self._expand(step)
                elif slots <= len(self._free):
                    self._prepare(step, slots)
                else:
                    break
            self._steps.ready.popleft()
        for attempt in [attempt for attempt in self._steps.active.values() if attempt.group is None]:
            self._start(attempt)

    def _recall(self, step: ScheduledStep) -> bool:
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
            self._settle(step, "succeeded" if source == self._context.run.id else "reused", None)
        return source is not None

    def _prepare(self, step: ScheduledStep, slots: int) -> None:
        lent = tuple(self._free[:slots])
        del self._free[:slots]
        step.attempts += 1
        attempt = self._steps.active[step.name] = Attempt(step.task, lent, self._context, step.attempts)
        self._change(step, "preparing")
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
        attempt.stack.callback(self._selector.unregister, attempt.group)
        step.status.started = step.status.started or attempt.began
        self._change(step, "running")

    def _update_progress(self, attempt: Attempt) -> None:
        """Show the newest record; that of an earlier attempt until there is one."""
        status = self._steps.statuses[attempt.task.name]
        status.progress = attempt.progress.read() or status.progress

    def _finish(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """Close an attempt that has ended, release its slots, and settle its step."""
        if outcome is None:
            return
        outcome = replace(outcome, failure=redact_failure(outcome.failure, self._context.mask))
        step = self._steps.by_name[attempt.task.name]
        if attempt.group is not None and attempt.group.left:
            self._view.warn(f"{step.name}: processes {attempt.group.left} could not be killed")
        attempt.stack.close()
        if changed := attempt.changed_python:
            self._view.warn(f"{step.name}: {changed}")
        del self._steps.active[step.name]
        self._free += attempt.slots
        self._update_progress(attempt)
        self._end_attempt(step, attempt, outcome)

    def _interrupt(self) -> None:
        """Ask the steps to end at the first signal, and kill them at the second."""
        again = len(self._interrupts.received) > 1
        self._context.log.write("interrupted", signal=self._interrupts.received[-1])
        self._view.notice(
            "killing every process" if again else "stopping; interrupt again to kill the processes at once"
        )
        self._steps.stop(at_once=again)
        for attempt in [attempt for attempt in self._steps.active.values() if attempt.group is None]:
            self._finish(attempt, Outcome("stopped"))

    def _end_attempt(self, step: ScheduledStep, attempt: Attempt, outcome: Outcome) -> None:
        """Restart a step after a pause, or give it its result."""
        failure, seconds = outcome.failure, None
        if failure is not None and not self._steps.stopping:
            seconds = self._extensions.restarts.after(attempt, failure)
        if failure is None or seconds is None:
            self._tracking.end(step.name, outcome.state)
            self._settle(step, outcome.state, failure)
            return
        pause = round(seconds, 3)
        self._context.log.write(
            "step_restarts", step=step.name, attempt=attempt.number, reason=failure.message, seconds=pause
        )
        self._view.notice(f"{step.name}: {failure.message}; it starts again in {seconds:.1f} s")
        self._steps.rest(step, seconds)
        self._change(step, "waiting")

    def _settle(self, step: ScheduledStep, state: StepState, failure: Failure | None) -> None:
        """Give a step its result, and free or stop the others."""
        self._conclude(step, state, failure)
        if state == "succeeded":
            self._extensions.cache.keep(step.task, step.status.seconds)
        if step.parent is not None:
            self._end_child(step.parent, step)
        elif state in DONE:
            self._steps.release_readers(step)
        elif state == "failed" and not self._keep_going:
            self._steps.stop()
        elif state == "failed":
            self._steps.release_optional_readers(step)

    def _expand(self, step: ScheduledStep) -> None:
        """Expand a step into others; it ends when they have ended."""
        assert step.expansion is not None
        step.status.started = time.monotonic()
        self._steps.expanded.append(step)
        self._tracking.request(step.name, self._extensions.cache.key(step.task))
        self._context.log.write("step_started", step=step.name, attempt=1, processes=[])
        self._change(step, "running")
        self._add_children(step, step.expansion.begin())

    def _change(self, step: ScheduledStep, state: StepState) -> None:
        if step.status.state != state:
            step.status.state = state
            self._view.changed(step.status)

    def _conclude(self, step: ScheduledStep, state: StepState, failure: Failure | None) -> None:
        status, folder = step.status, self._context.run.step(step.name)
        if status.started is not None:
            status.seconds = time.monotonic() - status.started
        summary = step.expansion.summary if step.expansion is not None else None
        if state == "succeeded" and (early := describe_early_end(status.progress, folder.logs)) is not None:
            summary = early
            self._view.notice(f"{step.name}: {early}")
        warnings = [self._context.mask.text(text) for text in list_warnings(folder.logs)]
        for text in warnings if state == "succeeded" else ():  # of one that failed its last lines are shown
            self._view.warn(f"{step.name}: {text}")
        step.result = StepResult(
            name=step.name,
            state=state,
            seconds=status.seconds,
            folder=folder.root,
            outputs={name: folder.outputs / name for name in step.task.outputs},
            failure=failure,
            parent=step.parent.name if step.parent is not None else None,
            summary=self._context.mask.text(summary) if summary else summary,
            warnings=tuple(warnings),
            best=step.expansion.chosen if step.expansion is not None else None,
            score=step.expansion.score if step.expansion is not None else None,
        )
        self._context.log.write(
            "step_ended",
            step=step.name,
            state=state,
            seconds=round(status.seconds, 3),
            reason=failure.message if failure else None,
            last_lines=list(failure.last_lines) if failure else [],
            warnings=warnings,
        )
        self._change(step, state)

    def _end_child(self, parent: ScheduledStep, child: ScheduledStep) -> None:
        assert parent.expansion is not None
        assert child.result is not None
        parent.children.discard(child.name)
        following = parent.expansion.ended(child.name, child.result)
        if not self._steps.stopping:
            self._add_children(parent, following)

    def _add_children(self, parent: ScheduledStep, children: Sequence[Task]) -> None:
        """Add the next children; if there are none left, the parent ends."""
        assert parent.expansion is not None
        for task in children:
            self._context.code[task.name] = self._context.code[parent.name]
            self._steps.add_child(task, parent)
        if parent.expansion.done and not parent.children:
            self._steps.expanded.remove(parent)
            failure = parent.expansion.finish()
            state: StepState = "succeeded" if failure is None else "failed"
            self._tracking.end(parent.name, state)
            self._settle(parent, state, failure)


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
        # nohup ignores SIGHUP, so that the run outlives the terminal
        caught = [n for n in SIGNALS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
        previous = {number: signal.signal(number, interrupts.note) for number in caught}
    try:
        yield interrupts
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        interrupts.close()


class ScheduledStep:
    """One step of a run."""

    def __init__(
        self, task: Task, expansion: Sweep | None = None, parent: ScheduledStep | None = None
    ) -> None:
        self.task = task  # what it runs; optional inputs of it may lose their value while it waits
        self.expansion = expansion  # what it expands into, if it is a sweep
        self.parent = parent  # the step that has expanded into this one and others
        self.status = Status(task.name, processes=task.process_count)  # what a view shows of it
        self.waiting_for: set[str] = set()  # names of the steps whose outputs it waits for
        self.readers: list[ScheduledStep] = []  # the steps that read its outputs
        self.attempts = 0  # how often it was started
        self.retry_at = 0.0  # the monotonic time of its next attempt, while it rests
        self.children: set[str] = set()  # steps that it has expanded into and that have not ended
        self.result: StepResult | None = None  # how it ended

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


class Extensions(Struct, frozen=True):
    """What the options of a run add to its schedule; ``expansions`` by the name of the step."""

    cache: ReuseCache
    restarts: Restarting
    # called a few times a second with the attempts that hold slots, which they may stop
    watchers: Sequence[Callable[[Collection[Attempt]], None]]
    expansions: Mapping[str, Sweep]
