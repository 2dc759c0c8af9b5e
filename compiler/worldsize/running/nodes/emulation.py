"""What a run emulates: which steps get nodes, how these are linked, and which of them fail when."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from worldsize.azureml import fields
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.planning.model import Plan
from worldsize.running.model.options import RunOptions
from worldsize.running.model.process import Call, LocalPlaces, Places, Process
from worldsize.running.model.task import CHECKPOINTS, Task, keeps_checkpoints
from worldsize.running.nodes.namespaces import Abilities, Namespaces, preview_nodes, probe_namespaces
from worldsize.running.nodes.network import MAX_NODES, Link, LinkError, fit_link, parse_link

Kind = Literal["kill", "drop-link"]

_FAULT = re.compile(
    r"(?:(?P<step>[A-Za-z_][\w.-]*):)?node(?P<node>\d{1,6})@(?P<when>[^@\s]+?)(?:\s+for\s+(?P<lasts>\S+))?"
)
_STEP = re.compile(r"step:(\d{1,15})")
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
MAX_RANKS = 6  # named in a message


class FaultError(ValueError):
    """A fault that cannot be requested. ``help`` says what to write."""

    def __init__(self, message: str, help_: str) -> None:
        super().__init__(message)
        self.help = help_


@dataclass(frozen=True, slots=True)
class NodeFault:
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
        FaultError: It is malformed.
    """
    example = "node1@step:200` or `node1@30s" if kind == "kill" else "node1@30s` or `node1@30s for 10s"
    matched = _FAULT.fullmatch(text.strip())
    if matched is None:
        help_ = (
            f"write a node and a time, such as `{example}`; `train:node1@…` where several steps have nodes"
        )
        raise FaultError(f"`--{kind} {text}` does not name a node and a time", help_)
    when, lasts = matched["when"], matched["lasts"]
    at_step = _STEP.fullmatch(when)
    at_seconds = None if at_step else _seconds(when)
    if at_step is None and at_seconds is None:
        message = f"`--{kind} {text}`: `{when}` is not a time"
        raise FaultError(message, "write `step:200` for a training step, or `30s` after the start")
    if lasts is not None and kind == "kill":
        raise FaultError(f"`--kill {text}`: a killed node does not start again", f"remove `for {lasts}`")
    if lasts is not None and not _seconds(lasts):
        raise FaultError(f"`--{kind} {text}`: `{lasts}` is not a length of time", "write it as `for 10s`")
    return NodeFault(
        kind,
        int(matched["node"]),
        matched["step"],
        int(at_step[1]) if at_step else None,
        at_seconds,
        _seconds(lasts) if lasts else None,
        text.strip(),
    )


def _seconds(text: str) -> float | None:
    matched = _SECONDS.fullmatch(text)
    return float(matched[1]) * _UNITS[matched[2]] if matched else None


def assign_step(fault: NodeFault, tasks: Mapping[str, Task]) -> NodeFault:
    """Find the step of a fault.

    Raises:
        FaultError: No step, or more than one, qualifies, or the step does not have the node.
    """
    spread = {name: task for name, task in tasks.items() if task.launcher != "none"}
    step = fault.step
    if step is None:
        if len(spread) != 1:
            raise _report_unclear_step(fault, list(spread))
        step = next(iter(spread))
    if step not in tasks:
        raise FaultError(f"`{fault.option}`: there is no step `{step}`", _list_choices(list(spread)))
    if step not in spread:
        raise FaultError(
            f"`{fault.option}`: step `{step}` has no `distribution`", _list_choices(list(spread))
        )
    count = tasks[step].instance_count
    if fault.node >= count:
        have = "`node0` only" if count == 1 else f"{count} nodes, `node0` to `node{count - 1}`,"
        help_ = "nodes count from 0; `instance_count` says how many there are"
        raise FaultError(f"`{fault.option}`: step `{step}` runs on {have} here", help_)
    return replace(fault, step=step)


def _report_unclear_step(fault: NodeFault, spread: Sequence[str]) -> FaultError:
    if not spread:
        return FaultError(f"`{fault.option}`: no step has nodes", "a step with `distribution` has")
    named = ", ".join(f"`{name}`" for name in spread[:MAX_RANKS])
    message = f"`{fault.option}`: steps {named} have nodes"
    return FaultError(message, f"name one, such as `--{fault.kind} {spread[0]}:{fault.text}`")


def _list_choices(spread: Sequence[str]) -> str:
    if not spread:
        return "only a step with `distribution` has nodes, and the pipeline has no such step"
    return f"those with nodes are {', '.join(f'`{name}`' for name in spread[:MAX_RANKS])}"


def describe_fault(fault: NodeFault, ranks: Sequence[Process]) -> str:
    """Describe a fault: ``node1 (ranks 2 and 3) was killed by `--kill node1@step:200```."""
    there = f"{fault.where}{_describe_ranks([each for each in ranks if each.node == fault.node])}"
    if fault.kind == "kill":
        return f"{there} was killed by `{fault.option}`"
    return f"the link of {there} was cut by `{fault.option}`"


def _describe_ranks(ranks: Sequence[Process]) -> str:
    names = [each.title for each in ranks]
    if not names:
        return ""
    if len(names) > MAX_RANKS:
        return f" ({len(names)} processes)"
    kinds = {name.rpartition(" ")[0] for name in names}
    if len(kinds) == 1 and len(names) > 1:
        numbers = [name.rpartition(" ")[2] for name in names]
        names = [f"{kinds.pop()}s {', '.join(numbers[:-1])}", numbers[-1]]
    return f" ({' and '.join(names)})" if len(names) <= 2 else f" ({', '.join(names[:-1])} and {names[-1]})"


COMMAND_LINE = Span("command line", 1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Emulation:
    """What to emulate. ``namespaces`` is None if instances are only processes."""

    namespaces: Namespaces | None = None
    faults: tuple[NodeFault, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def places(self) -> Places:
        """Provides the machines of instances."""
        return self.namespaces or LocalPlaces()

    def preview(self, call: Call) -> Call:
        """The call as a dry run shows it, with the addresses of its instances."""
        return call if self.namespaces is None else preview_nodes(call)


def read_emulation(
    options: RunOptions, tasks: Mapping[str, Task], sizes: Mapping[str, str]
) -> tuple[Emulation, list[Problem]]:
    """Read what to emulate here from the options, and every reason why it is impossible.

    ``sizes`` holds the VM size of each step, if it is known.
    """
    reader = _Reader(options, tasks, [])
    ordered, link = reader.faults(), reader.link()
    reader.rehearsal()
    if options.nodes != "namespaces":
        return Emulation(faults=ordered), reader.problems
    spread = {name: task for name, task in tasks.items() if task.instance_count > 1}
    if not spread:
        note = "`--nodes namespaces` has no effect: no step has several instances here"
        return Emulation(faults=ordered, notices=(note,)), reader.problems
    able = reader.abilities(spread)
    shaped, notices = {}, []
    for name, task in spread.items():
        fitted = fit_link(link, sizes.get(name), can_shape=not able.rate, can_delay=not able.delay)
        shaped[name] = fitted.link
        notices.append(f"{name}: {task.instance_count} nodes that reach only each other, by {fitted.said}")
    return Emulation(Namespaces(shaped), ordered, tuple(notices)), reader.problems


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the options and collects their problems."""

    options: RunOptions
    tasks: Mapping[str, Task]
    problems: list[Problem]

    def refuse(self, message: str, help_: str) -> None:
        """Report a reason not to run."""
        self.problems.append(Problem("run-refused", COMMAND_LINE, message, help_))

    def faults(self) -> tuple[NodeFault, ...]:
        """The requested faults, each with its step."""
        ordered: list[tuple[Kind, str]] = [("kill", text) for text in self.options.kill]
        ordered += [("drop-link", text) for text in self.options.drop_link]
        if self.options.kill and sys.platform != "linux":
            self.refuse("`--kill` finds a node's processes in `/proc`, which only Linux has", "leave it out")
        if self.options.drop_link and self.options.nodes != "namespaces":
            self.refuse(
                "`--drop-link` cuts a node's link, and instances that are only processes have none",
                "add `--nodes namespaces`",
            )
        faults = []
        for kind, text in ordered:
            try:
                faults.append(self._fault(kind, text))
            except FaultError as error:  # noqa: PERF203 - each is reported
                self.refuse(str(error), error.help)
        return tuple(faults)

    def _fault(self, kind: Kind, text: str) -> NodeFault:
        fault = assign_step(parse_fault(kind, text), self.tasks)
        if kind == "drop-link" and self.tasks[fault.step or ""].instance_count == 1:
            message = f"`{fault.option}`: step `{fault.step}` has one instance, so it has no link"
            raise FaultError(message, "give it several instances, or use `--kill`")
        return fault

    def rehearsal(self) -> None:
        """Refuse ``--chaos`` if no step can resume after a fault."""
        seed = self.options.chaos
        if seed is not None and not any(map(keeps_checkpoints, self.tasks.values())):
            self.refuse(
                f"`--chaos {seed}` rehearses faults of steps that keep checkpoints, and no step does",
                f"add `{CHECKPOINTS}: {{type: uri_folder}}` to the `outputs:` of a step that trains,"
                " or leave `--chaos` out",
            )

    def link(self) -> Link | None:
        """Parse ``--link``, if it is given."""
        if self.options.link is None:
            return None
        if self.options.nodes != "namespaces":
            self.refuse(
                "`--link` shapes links between nodes, and instances that are only processes have none",
                "add `--nodes namespaces`",
            )
        try:
            return parse_link(self.options.link)
        except LinkError as error:
            self.refuse(str(error), error.help)
            return None

    def abilities(self, spread: Mapping[str, Task]) -> Abilities:
        """What this machine can emulate for these steps."""
        for name, task in spread.items():
            if task.instance_count > MAX_NODES:
                message = (
                    f"step `{name}` has {task.instance_count} instances; at most {MAX_NODES} are emulated"
                )
                self.refuse(message, "write a smaller `instance_count`")
        if self.options.environment == "docker":
            self.refuse(
                "`--environment docker` starts containers, whose network is not that of a node",
                "say `--environment isolated` or `--environment current` with `--nodes namespaces`",
            )
        able = probe_namespaces()
        if able.nodes is not None:
            self.refuse(*able.nodes)
        return able


def read_vm_sizes(tasks: Mapping[str, Task], plan: Plan | None) -> dict[str, str]:
    """The VM size of each step, by its plan or its ``resources.instance_type``."""
    vm_sizes = {}
    for name, task in tasks.items():
        resources = task.step.resources if task.step is not None else None
        instance_type = fields.read_member(resources or task.component.resources, "instance_type")
        if instance_type is not None and isinstance(instance_type.value, str):
            vm_sizes[name] = instance_type.value
    for name, step in plan.steps.items() if plan is not None else ():
        if step.topology.instance_type is not None:
            vm_sizes[name] = step.topology.instance_type
    return vm_sizes
