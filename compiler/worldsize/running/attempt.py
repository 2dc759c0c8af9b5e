"""One try of one step: its folder made, its processes started, watched and heard until they are over."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field

from worldsize.azureml.snapshot import Snapshot
from worldsize.base.system_error import describe_os_error
from worldsize.running.environments import layers
from worldsize.running.environments.interpreters import Interpreters
from worldsize.running.places import Here, Places
from worldsize.running.preparing.machine import Machine
from worldsize.running.recording import disclosure
from worldsize.running.recording.events import EventLog
from worldsize.running.recording.folder import RunFolder
from worldsize.running.recovering import attribution, full_disk, missing_gpus, missing_packages, oom_kills
from worldsize.running.results import Failure, StepState, still_running
from worldsize.running.showing.logs import last_lines
from worldsize.running.showing.progress import ProgressFile
from worldsize.running.starting import calls, inputs, ports, processes, workplace
from worldsize.running.starting.processes import Process
from worldsize.running.supervising.supervise import GRACE_SECONDS, Group, Warden
from worldsize.running.tasks import Task
from worldsize.secrecy.masking import Mask
from wstrain_deepspeed import stale_locks

LAST_LINES = 15
SHOWN_CHANGES = 3


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all attempts of a run share."""

    run: RunFolder
    code: MutableMapping[str, Snapshot]
    machine: Machine
    log: EventLog
    warden: Warden
    experiment: str
    interpreters: Interpreters
    grace: float = GRACE_SECONDS
    places: Places = field(default_factory=Here)
    mask: Mask = field(default_factory=Mask)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended."""

    state: StepState
    failure: Failure | None = None


@dataclass(slots=True)
class Attempt:
    """A step that holds slots. Its group is None until MLflow has answered.

    Attributes:
        number: From 1; a step that is started again has the next.
        blame: What was done to it on purpose, in words; if it fails, then by that.
    """

    task: Task
    slots: tuple[str, ...]
    around: Surroundings
    number: int = 1
    group: Group | None = None
    began: float | None = None  # a monotonic time
    told_to_stop: bool = False
    blame: str | None = None
    _installed: frozenset[str] = field(default_factory=layers.installed)
    _oom_kills: int = field(default_factory=oom_kills.count)
    _overdue: bool = False  # told to stop because its time was up
    _unfinished: tuple[Process, ...] = ()  # those that were, then
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _progress: ProgressFile = field(init=False)

    def __post_init__(self) -> None:
        """Follow the step's progress from here on."""
        self._progress = ProgressFile(self.around.run.step(self.task.name).progress)

    @property
    def progress(self) -> ProgressFile:
        """What the training says of itself."""
        return self._progress

    @property
    def changed_python(self) -> str | None:
        """What is there or gone of this Python's packages since the attempt began; None for nothing."""
        changed = sorted(self._installed ^ layers.installed())
        if not changed:
            return None
        more = f" and {len(changed) - SHOWN_CHANGES} more" if len(changed) > SHOWN_CHANGES else ""
        return (
            "the Python that runs Worldsize was changed while the step ran, by the step or by somebody else:"
            f" {', '.join(f'`{path}`' for path in changed[:SHOWN_CHANGES])}{more}"
        )

    def prepare(self) -> Outcome | None:
        """Make the step's folder; the outcome where that fails."""
        code = self.around.code[self.task.name]
        try:
            if self.number > 1:
                workplace.clear(self.task, self.around.run)
            workplace.prepare(self.task, code, self.around.run)
        except OSError as error:
            return _failed(f"its folder cannot be made: {describe_os_error(error, file=True)}")
        return None

    def start(self, tracking: Mapping[str, str]) -> Outcome | None:
        """Start the processes; the outcome where that fails.

        Args:
            tracking: MLflow's variables.
        """
        task, around = self.task, self.around
        values = inputs.resolve(task, around.run)
        call = calls.of(
            task,
            around.run,
            values,
            experiment=around.experiment,
            tracking=tracking,
            cores=around.machine.cores,
            gpus=self._lent(),
        )
        step = around.run.step(task.name)
        try:
            call = self._stack.enter_context(around.places.place(call))
            held = self._stack.enter_context(ports.reserve(processes.ports_needed(call)))
            plan = processes.plan(call, [str(port) for port in held])
            plan = self._stack.enter_context(around.interpreters.enter(task, around.run, plan))
            for root in {stale_locks.find_root({**os.environ, **process.env}) for process in plan}:
                stale_locks.remove_stale_locks(root)
            group = Group(plan, around.warden, cwd=step.code, logs=step.logs, grace=around.grace)
        except OSError as error:
            return _failed(f"its processes cannot be started: {describe_os_error(error)}")
        self.group = self._stack.enter_context(group)
        self.began = time.monotonic()
        listed = disclosure.of_step(task, call, values, around.mask).processes(plan)
        around.log.write("step_started", step=task.name, attempt=self.number, processes=listed)
        return None

    def watch_time(self) -> None:
        """Stop a step whose time is up; its processes get the same grace as everybody's."""
        limit = self.task.timeout
        if limit is None or self.began is None or self.group is None or self.told_to_stop or self._overdue:
            return
        if time.monotonic() - self.began >= limit:
            self._overdue = True
            self._unfinished = tuple(self.group.unfinished)
            self.group.stop()

    def watch_guard(self) -> Outcome | None:
        """See whether what watches over the processes still does; the outcome where it never will."""
        return None if self.group is None or self.group.look() else self._outcome()

    def hear(self) -> Outcome | None:
        """Take in what its processes say; the outcome once nothing of them runs."""
        assert self.group is not None
        for ended in self.group.read():
            self.around.log.write(
                "process_ended", step=self.task.name, process=ended.process.name, status=ended.status
            )
        return self._outcome() if self.group.done else None

    def _outcome(self) -> Outcome:
        assert self.group is not None
        if self.told_to_stop:
            return Outcome("stopped")
        if self._overdue:
            return Outcome("failed", self._late())
        if self.group.failure or self.group.lost:
            return Outcome("failed", self._failure())
        return Outcome("succeeded")

    def stop(self, *, at_once: bool = False) -> None:
        """Ask its processes to end; returns at once."""
        if self.group is not None:
            self.told_to_stop = True
            (self.group.kill if at_once else self.group.stop)()

    def when_closed(self, call: Callable[[Group], object], group: Group) -> None:
        """Have something called first when the attempt closes."""
        self._stack.callback(call, group)

    def close(self) -> None:
        """Leave no process, and give back ports and places."""
        self._stack.close()

    def _lent(self) -> tuple[str, ...]:
        """GPUs that a distributed step is restricted to; one that has them all needs no restriction."""
        gpus = self.around.machine.gpus
        everything = len(self.slots) == len(gpus) and self.task.instance_count == 1
        if not gpus or self.task.launcher == "none" or everything:
            return ()
        return self.slots

    def _late(self) -> Failure:
        assert self.group is not None
        message = f"it was stopped at its timeout of {self.task.timeout} s"
        running = [each for each in self._unfinished if not each.serves]
        waited = running or list(self._unfinished)
        if self.task.process_count > 1:
            message += f", {still_running(waited, self.group.ranks)}"
        log = self.around.run.step(self.task.name).logs / f"{waited[0].name if waited else 'rank-0'}.log"
        return Failure(None, None, None, log, tuple(last_lines(log, LAST_LINES)), message)

    def _failure(self) -> Failure:
        assert self.group is not None
        logs = self.around.run.step(self.task.name).logs

        def tail(process: Process) -> list[str]:
            return last_lines(logs / f"{process.name}.log", attribution.TAIL_LINES)

        found = attribution.verdict(self.group.ended, tail, self.group.ranks)
        if found is None:
            reason = self.blame or self.group.lost or "its processes were lost"
            return Failure(None, None, None, None, (), reason)
        process, status = found.cause.process, found.cause.status
        notes = [attribution.others_failed(found.followers)] if found.followers else []
        message = self.blame or found.message
        if status == -signal.SIGKILL and not self.blame and oom_kills.count() > self._oom_kills:
            message += ": the kernel had no memory left"
            notes += oom_kills.notes(self.task.inputs)
        last = tail(process)
        wanted = missing_packages.explain(last) or missing_gpus.explain(last, self.around.machine.gpus)
        if wanted is not None and not self.blame:
            message += f": {wanted[0]}"
            notes.append(wanted[1])
        notes += full_disk.notes(logs)
        log, lines = logs / f"{process.name}.log", tuple(last[-LAST_LINES:])
        return Failure(process.name, process.rank, status, log, lines, message, tuple(notes))


def _failed(reason: str) -> Outcome:
    return Outcome("failed", Failure(None, None, None, None, (), reason))
