"""Faults of running steps: those of a rehearsal, drawn from a seed, and those of nodes that a user requests.

A rehearsal measures what its faults cost. The same seed, steps and ranks give the same faults. One is due
after a share of the training, not after a number of seconds, so it means the same on a faster machine. Each
kind occurs once before any occurs twice.

The promise is that at most the steps since the last checkpoint are lost: a training that had a checkpoint of
step 30 on disk when it was killed at step 34 continues from step 30 or later.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.base import untrusted
from worldsize.base.wording import plural, quoted_list
from worldsize.lab.namespaces import Namespaces, OptionError, kill_processes
from worldsize.running.engine.attempt import Attempt
from worldsize.running.model.process import Process
from worldsize.running.model.task import CHECKPOINTS, Task

Kind = Literal["kill", "terminate", "stop", "slow", "cut"]

MIN_FAULTS, MAX_FAULTS = 4, 6  # faults of a step
EARLIEST, LATEST = 0.05, 0.9  # of its training
WHOLE_GROUP = 0.25  # of what is killed or terminated
SECONDS: Mapping[Kind, tuple[float, float]] = {"stop": (2.0, 6.0), "slow": (4.0, 8.0), "cut": (2.0, 6.0)}

SPARE_RESTARTS = 2  # in addition to those that the faults cause
SETTLE_SECONDS = 1.0  # between the end of one fault and the next
_CHECKPOINT = re.compile(r"step-(\d{8,})")
_RESUMED = re.compile(r"resuming from checkpoint \S+: (\d+) steps done")


class PlannedFault(Struct, frozen=True):
    """One planned fault."""

    # `kill` is SIGKILL, `terminate` SIGTERM, `stop` SIGSTOP for a while, `slow` half of the processor for a
    # while, `cut` a node's network cable pulled for a while
    kind: Kind
    share: float  # of the training, after which it happens
    ranks: tuple[int, ...] = ()  # the affected ranks
    seconds: float = 0.0  # duration of a temporary fault
    node: int = 0  # the node to cut off

    @property
    def ends_attempt(self) -> bool:
        """Whether the step has to be restarted."""
        return self.kind in ("kill", "terminate")

    @property
    def description(self) -> str:
        """What happens, such as ``kill rank 1 (SIGKILL)``."""
        whom = f"rank{'s' * (len(self.ranks) > 1)} {', '.join(map(str, self.ranks))}"
        return {
            "kill": f"kill {whom} (SIGKILL)",
            "terminate": f"terminate {whom} (SIGTERM)",
            "stop": f"stop {whom} for {self.seconds:.1f} s (SIGSTOP)",
            "slow": f"slow {whom} down by half for {self.seconds:.1f} s",
            "cut": f"cut node{self.node} off for {self.seconds:.1f} s",
        }[self.kind]


def draw_faults(seed: int, step: str, world_size: int, nodes: int = 0) -> tuple[PlannedFault, ...]:
    """Draw the faults of a step, in order; ``nodes`` are instances with networks of their own."""
    chance = random.Random(f"{seed}/{step}")  # noqa: S311 - no secret
    shares = sorted(chance.uniform(EARLIEST, LATEST) for _ in range(chance.randint(MIN_FAULTS, MAX_FAULTS)))
    kinds = _draw_kinds(chance, cuts=nodes > 1)
    return tuple(_draw_fault(chance, next(kinds), share, world_size, nodes) for share in shares)


def describe_schedule(seed: int, plans: Mapping[str, tuple[PlannedFault, ...]]) -> Iterator[str]:
    """The planned faults as lines."""
    for step, faults in plans.items():
        yield f"chaos {seed}: {step}: {len(faults)} fault{'s' * (len(faults) != 1)}"
        yield from (f"  at {fault.share:4.0%} of the training: {fault.description}" for fault in faults)


def count_restarts(plans: Mapping[str, Sequence[PlannedFault]]) -> dict[str, int]:
    """The restarts that each step needs to get through its faults."""
    ending = {step: sum(fault.ends_attempt for fault in faults) for step, faults in plans.items()}
    return {step: count + SPARE_RESTARTS if count else 0 for step, count in ending.items()}


def _draw_kinds(chance: random.Random, *, cuts: bool) -> Iterator[Kind]:
    kinds: list[Kind] = ["kill", "terminate", "stop", "slow", *(["cut"] if cuts else [])]  # type: ignore[list-item]
    while True:
        chance.shuffle(kinds)
        yield from kinds


def _draw_fault(chance: random.Random, kind: Kind, share: float, world_size: int, nodes: int) -> PlannedFault:
    # Drawn for every kind, so that the kind of one fault does not change the others.
    rank = chance.randrange(world_size)
    group_draw, length, node = chance.random(), chance.random(), chance.random()
    low, high = SECONDS.get(kind, (0.0, 0.0))
    seconds = round(low + length * (high - low), 1)
    if kind == "cut":
        return PlannedFault(kind, share, seconds=seconds, node=int(node * nodes))
    everybody = kind in ("kill", "terminate") and group_draw < WHOLE_GROUP
    return PlannedFault(kind, share, tuple(range(world_size)) if everybody else (rank,), seconds)


class InjectedFault(Struct):
    """A fault that was injected."""

    fault: PlannedFault  # which
    step: str  # of the pipeline
    attempt: int  # the try that it happened to
    reached: int  # training steps done when that try ended, or when the fault happened
    saved: int  # the last of them that a checkpoint on the disk had when it happened
    since: float  # when, monotonic
    resumed: int | None = None  # steps that the next try began with; None until that is known
    seconds: float | None = None  # until the training was where it had been

    @property
    def lost(self) -> int | None:
        """Training steps that had to be repeated."""
        if not self.fault.ends_attempt:
            return 0
        return None if self.resumed is None else max(0, self.reached - self.resumed)

    @property
    def pending(self) -> bool:
        """Whether the step has not been restarted yet."""
        return self.fault.ends_attempt and self.resumed is None

    @property
    def allowed_loss(self) -> int:
        """Training steps that may be lost: those after the last checkpoint."""
        return self.reached - self.saved if self.fault.ends_attempt else 0

    @property
    def is_promise_kept(self) -> bool:
        """Whether no more steps were lost than allowed."""
        return self.lost is not None and self.lost <= self.allowed_loss


class Rehearsal(Struct):
    """Injects the planned faults into running steps."""

    plans: Mapping[str, Sequence[PlannedFault]]  # by step, what happens to it
    networks: Namespaces | None  # the nodes; None if instances are only processes
    say: Callable[[str], None]  # tells the user
    hits: list[InjectedFault] = field(default_factory=list)
    _next: dict[str, int] = field(default_factory=dict)
    # by step, until when
    _passing: dict[str, tuple[float, PlannedFault, tuple[int, ...]]] = field(default_factory=dict)
    _last: dict[str, Attempt] = field(default_factory=dict)  # the latest attempt of each step
    _quiet: dict[str, float] = field(default_factory=dict)  # no fault before this time
    _stopped: bool = False  # state of the duty cycle of slow ranks

    def tick(self, attempts: Collection[Attempt]) -> None:
        """Inject the faults that are due, end temporary ones, and follow the progress of the steps."""
        now = time.monotonic()
        working = [attempt for attempt in attempts if attempt.group is not None and not attempt.group.done]
        running = {attempt.task.name: attempt for attempt in working}
        for name, (until, *_) in list(self._passing.items()):
            if until <= now or name not in running:
                self._pass(name, now)
        self._slow_down()
        for name, attempt in running.items():
            if name in self.plans and not attempt.stop_requested:
                self._last[name] = attempt
                self._follow(attempt, now)
        for hit in self.hits:
            if hit.pending and hit.step not in running:  # its progress until it ended
                hit.reached = max(hit.reached, _count_done(self._last[hit.step]))

    def report(self) -> Iterator[str]:
        """The injected faults and their cost as lines."""
        for step, faults in self.plans.items():
            hits = [hit for hit in self.hits if hit.step == step]
            tries = len({hit.attempt for hit in hits if hit.fault.ends_attempt and hit.resumed is not None})
            lost = sum(hit.lost or 0 for hit in hits)
            kept = (
                "the promise was kept"
                if all(hit.is_promise_kept for hit in hits)
                else "THE PROMISE WAS NOT KEPT"
            )
            yield (
                f"chaos: {step}: {len(hits)} of {len(faults)} faults happened, {plural(tries, 'restart')},"
                f" {plural(lost, 'step')} done again; {kept}"
            )
            yield from (
                f"  at step {hit.reached}: {hit.fault.description}: {_describe_cost(hit)}" for hit in hits
            )

    def _follow(self, attempt: Attempt, now: float) -> None:
        name = attempt.task.name
        heartbeats = attempt.read_heartbeats()
        done = _count_done(attempt)
        newest = attempt.progress.newest
        if done < 0 or newest is None or not newest.total_steps:
            return
        for hit in self.hits:
            if hit.step == name and hit.seconds is None:
                self._see(hit, attempt, done, now)
        index = self._next.get(name, 0)
        waiting = name in self._passing or now < self._quiet.get(name, 0.0)
        pending = any(hit.step == name and hit.pending for hit in self.hits)
        if index < len(self.plans[name]) and not waiting and not pending:
            fault = self.plans[name][index]
            if done >= fault.share * newest.total_steps:
                self._next[name] = index + 1
                pids = tuple(heartbeats[rank].pid for rank in fault.ranks if rank in heartbeats)
                self._happen(fault, attempt, done, pids)

    def _happen(self, fault: PlannedFault, attempt: Attempt, done: int, pids: tuple[int, ...]) -> None:
        name, now = attempt.task.name, time.monotonic()
        outputs = attempt.context.run.step(name).outputs / CHECKPOINTS
        self.say(f"chaos: {name}: {fault.description}, at step {done}")
        attempt.context.log.write("chaos", step=name, fault=fault.description, training_step=done)
        self.hits.append(InjectedFault(fault, name, attempt.number, done, saved_step(outputs), now))
        self._quiet[name] = now + fault.seconds + SETTLE_SECONDS
        if fault.kind == "kill":
            attempt.blame = f"the rehearsal killed rank {', '.join(map(str, fault.ranks))}"
            _send_signal(pids, signal.SIGKILL)
        elif fault.kind == "terminate":
            _send_signal(pids, signal.SIGTERM)
        else:
            self._passing[name] = (now + fault.seconds, fault, pids)
            if fault.kind == "cut":
                self._pull(name, fault, plug=False)
            else:
                _send_signal(pids, signal.SIGSTOP)

    def _pass(self, name: str, now: float) -> None:
        _, fault, pids = self._passing.pop(name)
        if fault.kind == "cut":
            self._pull(name, fault, plug=True)
        _send_signal(pids, signal.SIGCONT)
        self._quiet[name] = now + SETTLE_SECONDS

    def _slow_down(self) -> None:
        self._stopped = not self._stopped
        for _, fault, pids in self._passing.values():
            if fault.kind == "slow":
                _send_signal(pids, signal.SIGSTOP if self._stopped else signal.SIGCONT)

    def _pull(self, name: str, fault: PlannedFault, *, plug: bool) -> None:
        site = self.networks.sites.get(name) if self.networks else None
        if site is not None:
            with contextlib.suppress(OSError):
                site.pull(site.nodes[fault.node], plug=plug)

    def _see(self, hit: InjectedFault, attempt: Attempt, done: int, now: float) -> None:
        """Record the progress of a step since a fault."""
        if hit.fault.ends_attempt and attempt.number == hit.attempt:
            hit.reached = max(hit.reached, done)
            return
        if hit.resumed is None:
            hit.resumed = _read_resumed_step(attempt) if hit.fault.ends_attempt else hit.reached
        if done > hit.reached and hit.step not in self._passing:
            hit.seconds = now - hit.since


def saved_step(checkpoints: Path) -> int:
    """Training steps of the newest complete checkpoint of a folder; 0 without one."""
    try:
        matches = [_CHECKPOINT.fullmatch(path.name) for path in checkpoints.iterdir()]
    except OSError:
        return 0
    return max((int(match[1]) for match in matches if match), default=0)


def _count_done(attempt: Attempt) -> int:
    return max((beat.done for beat in attempt.read_heartbeats().values()), default=-1)


def _read_resumed_step(attempt: Attempt) -> int:
    """The training step from which an attempt resumed, by the log of its first rank."""
    logs = attempt.context.run.step(attempt.task.name).logs
    for path in sorted(logs.glob("*-0.log")):
        with contextlib.suppress(OSError):
            match = _RESUMED.search(untrusted.read_text(path, errors="replace"))
            if match:
                return int(match[1])
    return 0


def _send_signal(pids: Collection[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _describe_cost(hit: InjectedFault) -> str:
    if hit.lost is None:
        return "it did not continue"
    if hit.seconds is None:
        return "nothing lost before the end" if not hit.fault.ends_attempt else f"resumed from {hit.resumed}"
    if not hit.fault.ends_attempt:
        return f"nothing lost, {hit.seconds:.1f} s"
    lost = f"{plural(hit.lost or 0, 'step')} lost of at most {hit.allowed_loss}"
    return f"resumed from {hit.resumed}, {lost}, {hit.seconds:.1f} s"


NodeFaultKind = Literal["kill", "drop-link"]

_FAULT = re.compile(
    r"(?:(?P<step>[A-Za-z_][\w.-]*):)?node(?P<node>\d{1,6})@(?P<when>[^@\s]+?)(?:\s+for\s+(?P<lasts>\S+))?"
)
_STEP = re.compile(r"step:(\d{1,15})")
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
MAX_RANKS = 6  # named in a message


class NodeFault(Struct, frozen=True):
    """A fault of a node, and when: at a training step, or some seconds after its processes started."""

    kind: NodeFaultKind
    node: int
    step: str | None = None  # of the pipeline; None if there is only one candidate
    at_step: int | None = None  # of the training
    at_seconds: float | None = None
    lasts: float | None = None  # seconds; None for permanently
    text: str = ""  # as written

    @property
    def option(self) -> str:
        """The option as written."""
        return f"--{self.kind} {self.text}"

    def is_due(self, seconds: float, training_step: int | None) -> bool:
        """Whether its time has come, given the seconds since the start and the training steps done."""
        if self.at_seconds is not None:
            return seconds >= self.at_seconds
        return training_step is not None and self.at_step is not None and training_step >= self.at_step


def parse_fault(kind: NodeFaultKind, text: str) -> NodeFault:
    """Parse ``--kill`` or ``--drop-link``.

    Raises:
        OptionError: It is malformed.
    """
    example = "node1@step:200` or `node1@30s" if kind == "kill" else "node1@30s` or `node1@30s for 10s"
    matched = _FAULT.fullmatch(text.strip())
    if matched is None:
        help_ = (
            f"write a node and a time, such as `{example}`; `train:node1@…` where several steps have nodes"
        )
        raise OptionError(f"`--{kind} {text}` does not name a node and a time", help_)
    when, lasts = matched["when"], matched["lasts"]
    at_step = _STEP.fullmatch(when)
    at_seconds = None if at_step else _parse_seconds(when)
    if at_step is None and at_seconds is None:
        message = f"`--{kind} {text}`: `{when}` is not a time"
        raise OptionError(message, "write `step:200` for a training step, or `30s` after the start")
    if lasts is not None and kind == "kill":
        raise OptionError(f"`--kill {text}`: a killed node does not start again", f"remove `for {lasts}`")
    if lasts is not None and not _parse_seconds(lasts):
        raise OptionError(f"`--{kind} {text}`: `{lasts}` is not a length of time", "write it as `for 10s`")
    step, seconds = int(at_step[1]) if at_step else None, _parse_seconds(lasts) if lasts else None
    return NodeFault(kind, int(matched["node"]), matched["step"], step, at_seconds, seconds, text.strip())


def _parse_seconds(text: str) -> float | None:
    matched = _SECONDS.fullmatch(text)
    return float(matched[1]) * _UNITS[matched[2]] if matched else None


def assign_step(fault: NodeFault, tasks: Mapping[str, Task]) -> NodeFault:
    """Find the step of a fault.

    Raises:
        OptionError: No step, or more than one, qualifies, or the step does not have the node.
    """
    spread = {name: task for name, task in tasks.items() if task.launcher != "none"}
    step = fault.step
    if step is None:
        if len(spread) != 1:
            raise _report_unclear_step(fault, spread)
        step = next(iter(spread))
    if step not in tasks:
        raise OptionError(f"`{fault.option}`: there is no step `{step}`", _list_choices(spread))
    if step not in spread:
        raise OptionError(f"`{fault.option}`: step `{step}` has no `distribution`", _list_choices(spread))
    count = tasks[step].instance_count
    if fault.node >= count:
        have = "`node0` only" if count == 1 else f"{count} nodes, `node0` to `node{count - 1}`,"
        help_ = "nodes count from 0; `instance_count` says how many there are"
        raise OptionError(f"`{fault.option}`: step `{step}` runs on {have} here", help_)
    return replace(fault, step=step)


def _report_unclear_step(fault: NodeFault, spread: Collection[str]) -> OptionError:
    if not spread:
        return OptionError(f"`{fault.option}`: no step has nodes", "a step with `distribution` has")
    help_ = f"name one, such as `--{fault.kind} {next(iter(spread))}:{fault.text}`"
    return OptionError(f"`{fault.option}`: steps {quoted_list(spread, MAX_RANKS)} have nodes", help_)


def _list_choices(spread: Collection[str]) -> str:
    if not spread:
        return "only a step with `distribution` has nodes, and the pipeline has no such step"
    return f"those with nodes are {quoted_list(spread, MAX_RANKS)}"


def describe_fault(fault: NodeFault, ranks: Sequence[Process]) -> str:
    """Describe a fault: ``node1 (ranks 2 and 3) was killed by `--kill node1@step:200```."""
    there = f"node{fault.node}{_describe_ranks([rank for rank in ranks if rank.node == fault.node])}"
    if fault.kind == "kill":
        return f"{there} was killed by `{fault.option}`"
    return f"the link of {there} was cut by `{fault.option}`"


def _describe_ranks(ranks: Sequence[Process]) -> str:
    names = [rank.title for rank in ranks]
    if not names:
        return ""
    if len(names) > MAX_RANKS:
        return f" ({len(names)} processes)"
    kinds = {name.rpartition(" ")[0] for name in names}
    if len(kinds) == 1 and len(names) > 1:
        numbers = [name.rpartition(" ")[2] for name in names]
        names = [f"{kinds.pop()}s {', '.join(numbers[:-1])}", numbers[-1]]
    return f" ({' and '.join(names)})" if len(names) <= 2 else f" ({', '.join(names[:-1])} and {names[-1]})"


class FaultInjector(Struct):
    """Watches running steps and injects each fault once."""

    ordered: Sequence[NodeFault]  # the faults, each with its step
    places: Namespaces | None  # the nodes; None if instances are only processes
    say: Callable[[str], None]  # tells the user
    _done: set[NodeFault] = field(default_factory=set)
    _cut: list[tuple[float, NodeFault, Attempt]] = field(default_factory=list)  # when to restore the link

    def tick(self, attempts: Collection[Attempt]) -> None:
        """Inject the faults that are due."""
        for attempt in attempts:
            for fault in self.ordered:
                if fault.step == attempt.task.name and fault not in self._done and _is_due(fault, attempt):
                    self._done.add(fault)
                    self._happen(fault, attempt)
        now = time.monotonic()
        for cut in [cut for cut in self._cut if cut[0] <= now]:
            self._cut.remove(cut)
            if any(cut[2] is attempt for attempt in attempts):
                self._plug(cut[1])

    def report(self) -> Iterator[str]:
        """The faults that were never due, as lines."""
        for fault in self.ordered:
            if fault not in self._done:
                yield f"`{fault.option}` had no effect: step `{fault.step}` ended before that time"

    def _happen(self, fault: NodeFault, attempt: Attempt) -> None:
        assert attempt.group is not None
        description = describe_fault(fault, attempt.group.ranks)
        newest = attempt.progress.newest
        reached = f", at step {newest.step}" if newest is not None and newest.step is not None else ""
        self.say(f"{attempt.task.name}: {description}{reached}")
        site = self.places.sites.get(attempt.task.name) if self.places else None
        if fault.kind == "kill":
            attempt.blame = description
            if site is not None:
                site.kill(site.nodes[fault.node])
            else:
                _kill_node(attempt.context.run.step(attempt.task.name).progress, fault.node)
        elif site is not None:
            try:
                site.pull(site.nodes[fault.node])
            except OSError as error:
                self.say(f"{attempt.task.name}: {error.strerror}")
                return
            if fault.lasts is not None:
                self._cut.append((time.monotonic() + fault.lasts, fault, attempt))

    def _plug(self, fault: NodeFault) -> None:
        site = self.places.sites.get(fault.step or "") if self.places else None
        if site is None:
            return
        try:
            site.pull(site.nodes[fault.node], plug=True)
        except OSError as error:
            self.say(f"{fault.step}: {error.strerror}")
        else:
            self.say(f"{fault.step}: the link of node{fault.node} is up again")


def _is_due(fault: NodeFault, attempt: Attempt) -> bool:
    if attempt.group is None or attempt.group.done or attempt.began is None:
        return False
    newest = attempt.progress.newest
    return fault.is_due(time.monotonic() - attempt.began, newest.step if newest else None)


def _kill_node(progress: Path, node: int) -> None:
    """Kill the processes of an instance that is not a namespace.

    They are recognised by their variables: every process of the step, and no other, has the path of its
    progress file.
    """
    marks = {f"WORLDSIZE_PROGRESS={progress}".encode(), f"AZUREML_CR_NODE_RANK={node}".encode()}
    kill_processes(lambda pid: marks <= set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")))
