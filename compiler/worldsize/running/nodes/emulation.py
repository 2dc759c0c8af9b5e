"""What a run is asked to emulate: which steps get nodes, how these are linked, what happens to them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from worldsize.azureml import distribution
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.planning import Plan
from worldsize.running.model.options import RunOptions
from worldsize.running.model.process import Call, LocalPlaces, Places
from worldsize.running.model.task import CHECKPOINTS, Task, keeps_checkpoints
from worldsize.running.nodes.namespaces import Abilities, Namespaces, preview_nodes, probe_namespaces
from worldsize.running.nodes.network import MOST_NODES, Link, LinkError, fit_link, parse_link
from worldsize.running.nodes.node_faults import FaultError, Kind, NodeFault, assign_step, parse_fault

COMMAND_LINE = Span("command line", 1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Emulation:
    """What to emulate. ``namespaces`` is None where instances are only processes."""

    namespaces: Namespaces | None = None
    faults: tuple[NodeFault, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def places(self) -> Places:
        """Where instances are."""
        return self.namespaces or LocalPlaces()

    def shown(self, call: Call) -> Call:
        """The call as a dry run shows it, with the addresses that its instances would have."""
        return call if self.namespaces is None else preview_nodes(call)


def read_emulation(
    options: RunOptions, tasks: Mapping[str, Task], sizes: Mapping[str, str]
) -> tuple[Emulation, list[Problem]]:
    """What the options ask for, fitted to this machine.

    Args:
        options: How to run.
        tasks: The steps, fitted.
        sizes: By step the name of its VM size, where it is known.

    Returns:
        What to emulate, and every reason why it cannot be.
    """
    asked = _Reader(options, tasks, [])
    ordered, link = asked.faults(), asked.link()
    asked.rehearsal()
    if options.nodes != "namespaces":
        return Emulation(faults=ordered), asked.problems
    spread = {name: task for name, task in tasks.items() if task.instance_count > 1}
    if not spread:
        note = "`--nodes namespaces` changes nothing: no step has several instances here"
        return Emulation(faults=ordered, notices=(note,)), asked.problems
    able = asked.abilities(spread)
    shaped, notices = {}, []
    for name, task in spread.items():
        fitted = fit_link(link, sizes.get(name), can_shape=not able.rate, can_delay=not able.delay)
        shaped[name] = fitted.link
        notices.append(f"{name}: {task.instance_count} nodes that reach only each other, by {fitted.said}")
    return Emulation(Namespaces(shaped), ordered, tuple(notices)), asked.problems


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the options; what is wrong goes to ``problems``."""

    options: RunOptions
    tasks: Mapping[str, Task]
    problems: list[Problem]

    def refuse(self, message: str, help_: str) -> None:
        """Report a reason not to run."""
        self.problems.append(Problem("run-refused", COMMAND_LINE, message, help_))

    def faults(self) -> tuple[NodeFault, ...]:
        """The faults, each with its step."""
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
            raise FaultError(message, "give it several, or order a `--kill`")
        return fault

    def rehearsal(self) -> None:
        """Say that ``--chaos`` has nothing to go on from after a fault."""
        seed = self.options.chaos
        if seed is not None and not any(map(keeps_checkpoints, self.tasks.values())):
            self.refuse(
                f"`--chaos {seed}` rehearses faults of steps that keep checkpoints, and no step does",
                f"add `{CHECKPOINTS}: {{type: uri_folder}}` to the `outputs:` of a step that trains,"
                " or leave `--chaos` out",
            )

    def link(self) -> Link | None:
        """What ``--link`` says, if anything."""
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
            if task.instance_count > MOST_NODES:
                message = (
                    f"step `{name}` has {task.instance_count} instances; {MOST_NODES} are emulated at most"
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
    """By step the VM size that its plan, or its ``resources.instance_type``, names."""
    vm_sizes = {}
    for name, task in tasks.items():
        own = task.step.resources if task.step is not None else None
        instance_type = distribution.read_member(own or task.component.resources, "instance_type")
        if instance_type is not None and isinstance(instance_type.value, str):
            vm_sizes[name] = instance_type.value
    for name, step in plan.steps.items() if plan is not None else ():
        if step.topology.instance_type is not None:
            vm_sizes[name] = step.topology.instance_type
    return vm_sizes
