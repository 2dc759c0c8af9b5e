"""One attempt of one step: makes its folder, and starts and watches its processes until they have ended.

A failed step may be restarted, and continues from its last checkpoint. This helps against temporary faults: a
preempted machine, a killed rank, a lost network. It does not help against faults that recur: wrong inputs, or
the same error at the same training step. The pause doubles with each attempt, with a random part, so that
many steps do not restart at the same moment.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence

from msgspec import Struct, field

from worldsize.azureml.snapshot import Snapshot
from worldsize.base.wording import describe_os_error, quoted_list
from worldsize.documents.secrecy.masking import Mask
from worldsize.running.engine.failures import (
    count_oom_kills,
    explain_failure,
    explain_timeout,
    failure_signature,
)
from worldsize.running.environments.interpreters import Enter
from worldsize.running.environments.layers import list_installed
from worldsize.running.launch.call import clear_step_folder, make_call, prepare_step_folder, resolve_inputs
from worldsize.running.launch.group import Group
from worldsize.running.launch.launchers import count_ports, plan_processes
from worldsize.running.launch.machine import Machine
from worldsize.running.launch.redaction import make_redaction
from worldsize.running.launch.reserve import reserve_ports
from worldsize.running.launch.supervisor import Supervisor
from worldsize.running.model.emulation import Place
from worldsize.running.model.folder import RunFolder
from worldsize.running.model.options import EnvironmentMode
from worldsize.running.model.process import Process
from worldsize.running.model.results import Failure, StepState, failure_of_step
from worldsize.running.model.task import Task, keeps_checkpoints
from worldsize.running.record.details import ProgressFile
from worldsize.running.record.folder import EventLog
from wsshards.errors import RESUME_EXIT_STATUS
from wstrain.health import heartbeat
from wstrain.health.heartbeat import HeartbeatRecord
from wstrain_deepspeed import stale_locks


class RunContext(Struct, frozen=True):
    """What all attempts of a run share; ``code`` by the name of the step."""

    run: RunFolder
    code: MutableMapping[str, Snapshot]
    machine: Machine
    log: EventLog
    supervisor: Supervisor
    experiment: str
    enter_environment: Enter
    place: Place
    mask: Mask
    environment: EnvironmentMode = "current"  # where the packages of the steps are from


class Outcome(Struct, frozen=True):
    """How an attempt ended."""

    state: StepState
    failure: Failure | None = None


class Attempt:
    """A step that holds slots. Its group is None until MLflow has answered."""

    def __init__(self, task: Task, slots: tuple[str, ...], context: RunContext, number: int = 1) -> None:
        self.task, self.slots, self.context = task, slots, context
        self.number = number  # from 1; a step that starts again has the next
        self.group: Group | None = None
        self.began: float | None = None  # the monotonic time at which its processes started
        self.stop_requested = False
        # what was done to it on purpose, in words; it is then the cause of a failure
        self.blame: str | None = None
        self.progress = ProgressFile(context.run.step(task.name).progress)
        self._installed = list_installed()
        self._oom_kills = count_oom_kills()
        self._overdue = False  # stopped because its time was up
        self._unfinished: tuple[Process, ...] = ()  # its processes at that moment
        self.stack = contextlib.ExitStack()  # leaves no process, and gives back ports and places

    @property
    def changed_python(self) -> str | None:
        """What was added to or removed from this Python's packages since the attempt began, or None."""
        changed = sorted(self._installed ^ list_installed())
        if not changed:
            return None
        return (
            "the Python that runs Worldsize was changed while the step ran, by it or by another program:"
            f" {quoted_list(changed, 3)}"
        )

    @property
    def training_step(self) -> int | None:
        """Training steps done, by the heartbeats of its ranks, else by the script's own reports."""
        done = max((beat.done for beat in self.read_heartbeats().values()), default=-1)
        if done >= 0:
            return done
        return self.progress.newest.step if self.progress.newest is not None else None

    def read_heartbeats(self) -> dict[int, HeartbeatRecord]:
        """The newest record of each rank of this attempt."""
        records = heartbeat.read_records(self.context.run.step(self.task.name).heartbeats)
        return {rank: beat for rank, beat in records.items() if beat.ticked_at >= (self.began or 0.0)}

    def prepare(self) -> Outcome | None:
        """Make the step's folder; the outcome if that fails."""
        task, run = self.task, self.context.run
        try:
            if self.number > 1:
                clear_step_folder(task, run, interrupted=True)
            prepare_step_folder(task, self.context.code[task.name], run)
        except OSError as error:
            return _make_failure(f"its folder cannot be made: {describe_os_error(error, file=True)}")
        return None

    def start(self, tracking: Mapping[str, str]) -> Outcome | None:
        """Start the processes with MLflow's variables; the outcome if that fails."""
        task, context = self.task, self.context
        step = context.run.step(task.name)
        try:
            values = resolve_inputs(task, context.run)
        except (OSError, UnicodeDecodeError) as error:  # of an output that is a value
            return _make_failure(f"an input has no value: {error}")
        call = make_call(
            task,
            context.run,
            values,
            experiment=context.experiment,
            tracking=tracking,
            cores=context.machine.cores,
            gpus=self._lent_gpus(),
            on_cpu=not context.machine.gpus,
        )
        try:
            call = self.stack.enter_context(context.place(call))
            ports = self.stack.enter_context(reserve_ports(count_ports(call)))
            plan = plan_processes(call, [str(port) for port in ports])
            plan = self.stack.enter_context(context.enter_environment(task, context.run, plan))
            for root in {stale_locks.find_root({**os.environ, **process.env}) for process in plan}:
                stale_locks.remove_stale_locks(root)
            group = Group(plan, context.supervisor, cwd=step.code, logs=step.logs)
        except OSError as error:
            return _make_failure(f"its processes cannot be started: {describe_os_error(error)}")
        self.group = self.stack.enter_context(group)
        self.began = time.monotonic()
        processes = make_redaction(task, call, values, context.mask).processes(plan)
        context.log.write("step_started", step=task.name, attempt=self.number, processes=processes)
        return None

    def watch_time(self) -> None:
        """Stop a step whose time is up; its processes get the usual grace period."""
        limit = self.task.timeout
        if limit is None or self.began is None or self.group is None or self.stop_requested or self._overdue:
            return
        if time.monotonic() - self.began >= limit:
            self._overdue = True
            self._unfinished = tuple(self.group.unfinished)
            self.group.stop()

    def watch_guard(self) -> Outcome | None:
        """Check the guard of the processes; the outcome if it is lost."""
        return None if self.group is None or self.group.look() else self._find_outcome()

    def read_events(self) -> Outcome | None:
        """Read what happened to its processes; the outcome once all have ended."""
        assert self.group is not None
        for ended in self.group.read():
            self.context.log.write(
                "process_ended", step=self.task.name, process=ended.process.name, status=ended.status
            )
        return self._find_outcome() if self.group.done else None

    def stop(self, *, at_once: bool = False) -> None:
        """Ask its processes to end; returns at once."""
        if self.group is not None:
            self.stop_requested = True
            (self.group.kill if at_once else self.group.stop)()

    def _find_outcome(self) -> Outcome:
        assert self.group is not None
        task, logs = self.task, self.context.run.step(self.task.name).logs
        if self.stop_requested:
            return Outcome("stopped")
        if self._overdue:
            return Outcome("failed", explain_timeout(self.group, task, logs, self._unfinished))
        if not self.group.failure and not self.group.lost:
            return Outcome("succeeded")
        failure = explain_failure(
            self.group,
            task,
            logs,
            self.context.machine.gpus,
            blame=self.blame,
            out_of_memory=count_oom_kills() > self._oom_kills,
            current=self.context.environment == "current",
        )
        return Outcome("failed", failure)

    def _lent_gpus(self) -> tuple[str, ...]:
        """The GPUs that a distributed step is restricted to; empty for a step that has all of them."""
        gpus = self.context.machine.gpus
        has_all = len(self.slots) == len(gpus) and self.task.instance_count == 1
        return () if not gpus or self.task.launcher == "none" or has_all else self.slots


def _make_failure(reason: str) -> Outcome:
    return Outcome("failed", failure_of_step(reason))


INPUT_FAULT = 2  # the exit status of our scripts, and of argparse, for wrong inputs
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0  # before the first restart; of any pause
JITTER = 0.25  # of a pause, up or down
MAX_RESUMES = 20  # of a step that saved its state on request; these are not failures


class EndedAttempt(Struct, frozen=True):
    """How one attempt ended."""

    # of the process that failed first, a signal as a negative number; None if no process is to blame
    status: int | None
    training_step: int | None  # training steps done, as far as it is known
    signature: str  # what makes two failures the same

    @property
    def resumes(self) -> bool:
        """Whether it saved its state and asks to be restarted."""
        return self.status == RESUME_EXIT_STATUS


def decide_restart(attempts: Sequence[EndedAttempt], max_restarts: int = 0, seed: str = "") -> float | str:
    """The seconds before another attempt after these, whose last has just failed, or why there is none.

    Args:
        attempts: All attempts of a step so far.
        max_restarts: Failures after which a step is started again; with 0 the reason is empty.
        seed: Of the pauses.
    """
    failures = [attempt for attempt in attempts if not attempt.resumes]
    doublings = max(0, len(failures) - 1)
    if attempts[-1].resumes:
        if len(attempts) - len(failures) > MAX_RESUMES:
            return f"it was asked to stop more than {MAX_RESUMES} times"
        doublings = 0
    elif not max_restarts:
        return ""
    elif failures[-1].status == INPUT_FAULT:
        return "its inputs are wrong, and another attempt would not change that"
    elif len(failures) > max_restarts:
        return f"it has failed {len(failures)} times"
    elif len(failures) > 1 and _is_stuck(failures[-2], failures[-1]):
        step = failures[-1].training_step
        where = f"training step {step}" if step else "the start"
        return f"the same error twice at {where}: another attempt would fail there too"
    draw = random.Random(f"{seed}/{len(attempts)}").uniform(-JITTER, JITTER)  # noqa: S311 - no secret
    return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0**doublings) * (1 + draw)


class Restarting(Struct):
    """Restarts steps that write checkpoints."""

    default: int = 0  # the restarts of a step that does not set them itself
    max_restarts: Mapping[str, int] = field(default_factory=dict)  # of those that do
    seed: str = ""  # of the pauses; each step draws its own
    say: Callable[[str], None] = lambda _: None  # shows the user why no further attempt is made
    attempts: dict[str, list[EndedAttempt]] = field(default_factory=dict)

    def after(self, attempt: Attempt, failure: Failure) -> float | None:
        """Seconds to wait before the next attempt; None if there is none."""
        task = attempt.task
        if not keeps_checkpoints(task):
            return None
        attempts = self.attempts.setdefault(task.name, [])
        signature = failure_signature(failure.message, failure.last_lines)
        attempts.append(EndedAttempt(failure.status, attempt.training_step, signature))
        max_restarts = self.max_restarts.get(task.name, self.default)
        decision = decide_restart(attempts, max_restarts, f"{self.seed}/{task.name}")
        if isinstance(decision, float):
            return decision
        if decision:
            self.say(f"{task.name}: not started again: {decision}")
        return None


def _is_stuck(before: EndedAttempt, last: EndedAttempt) -> bool:
    killed = last.status in (-9, -15)
    return not killed and last.signature == before.signature and last.training_step == before.training_step
