"""Faults that a user requests: kills all processes of a node, or cuts its link."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.lab.namespaces import Namespaces, kill_processes
from worldsize.lab.network import OptionError
from worldsize.running.engine.attempt import Attempt
from worldsize.running.model.process import Process
from worldsize.running.model.task import Task

Kind = Literal["kill", "drop-link"]

_FAULT = re.compile(
    r"(?:(?P<step>[A-Za-z_][\w.-]*):)?node(?P<node>\d{1,6})@(?P<when>[^@\s]+?)(?:\s+for\s+(?P<lasts>\S+))?"
)
_STEP = re.compile(r"step:(\d{1,15})")
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
MAX_RANKS = 6  # named in a message


class NodeFault(Struct, frozen=True):
    """A fault of a node, and when: at a training step, or some seconds after its processes started."""

    kind: Kind
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

    @property
    def where(self) -> str:
        """The node's name."""
        return f"node{self.node}"

    def is_due(self, seconds: float, training_step: int | None) -> bool:
        """Whether its time has come, given the seconds since the start and the training steps done."""
        if self.at_seconds is not None:
            return seconds >= self.at_seconds
        return training_step is not None and self.at_step is not None and training_step >= self.at_step


def parse_fault(kind: Kind, text: str) -> NodeFault:
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
    return NodeFault(
        kind,
        int(matched["node"]),
        matched["step"],
        int(at_step[1]) if at_step else None,
        at_seconds,
        _parse_seconds(lasts) if lasts else None,
        text.strip(),
    )


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
            raise _report_unclear_step(fault, list(spread))
        step = next(iter(spread))
    if step not in tasks:
        raise OptionError(f"`{fault.option}`: there is no step `{step}`", _list_choices(list(spread)))
    if step not in spread:
        raise OptionError(
            f"`{fault.option}`: step `{step}` has no `distribution`", _list_choices(list(spread))
        )
    count = tasks[step].instance_count
    if fault.node >= count:
        have = "`node0` only" if count == 1 else f"{count} nodes, `node0` to `node{count - 1}`,"
        help_ = "nodes count from 0; `instance_count` says how many there are"
        raise OptionError(f"`{fault.option}`: step `{step}` runs on {have} here", help_)
    return replace(fault, step=step)


def _report_unclear_step(fault: NodeFault, spread: Sequence[str]) -> OptionError:
    if not spread:
        return OptionError(f"`{fault.option}`: no step has nodes", "a step with `distribution` has")
    named = ", ".join(f"`{name}`" for name in spread[:MAX_RANKS])
    message = f"`{fault.option}`: steps {named} have nodes"
    return OptionError(message, f"name one, such as `--{fault.kind} {spread[0]}:{fault.text}`")


def _list_choices(spread: Sequence[str]) -> str:
    if not spread:
        return "only a step with `distribution` has nodes, and the pipeline has no such step"
    return f"those with nodes are {', '.join(f'`{name}`' for name in spread[:MAX_RANKS])}"


def describe_fault(fault: NodeFault, ranks: Sequence[Process]) -> str:
    """Describe a fault: ``node1 (ranks 2 and 3) was killed by `--kill node1@step:200```."""
    there = f"{fault.where}{_describe_ranks([rank for rank in ranks if rank.node == fault.node])}"
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
    """Watches running steps and injects each fault once; a ``schedule.Watcher``."""

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
            self.say(f"{fault.step}: the link of {fault.where} is up again")


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
