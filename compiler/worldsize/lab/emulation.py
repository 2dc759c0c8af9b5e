"""Reads what the options of a run emulate: which steps get nodes, how these are linked, which fail when."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.lab.faults import (
    FaultInjector,
    NodeFault,
    NodeFaultKind,
    PlannedFault,
    Rehearsal,
    assign_step,
    count_restarts,
    describe_schedule,
    draw_faults,
    parse_fault,
)
from worldsize.lab.namespaces import (
    MAX_NODES,
    Abilities,
    Link,
    Namespaces,
    OptionError,
    fit_link,
    parse_link,
    preview_nodes,
    probe_namespaces,
)
from worldsize.running.engine.attempt import Attempt
from worldsize.running.model.emulation import Emulation, Networks, Say
from worldsize.running.model.options import RunOptions
from worldsize.running.model.task import CHECKPOINTS, Task, keeps_checkpoints

COMMAND_LINE = Span("command line", 1, 1, 1, 1)


def read_emulation(
    options: RunOptions, tasks: Mapping[str, Task], networks: Networks
) -> tuple[Emulation, list[Problem]]:
    """Read what to emulate here from the options, and every reason why it is impossible."""
    reader = _Reader(options, tasks, [])
    requested, link = reader.faults(), reader.link()
    reader.rehearsal()
    plan_faults = partial(RunFaults, options.chaos, tasks, requested)
    if options.nodes != "namespaces":
        return Emulation(make_faults=partial(plan_faults, None)), reader.problems
    spread = {name: task for name, task in tasks.items() if task.instance_count > 1}
    if not spread:
        note = "`--nodes namespaces` has no effect: no step has several instances here"
        return Emulation(notices=(note,), make_faults=partial(plan_faults, None)), reader.problems
    able = reader.abilities(spread)
    shaped, notices = {}, []
    for name, task in spread.items():
        network = networks.get(name)
        shaped[name], links = fit_link(link, network, can_shape=not able.rate, can_delay=not able.delay)
        notices.append(f"{name}: {task.instance_count} nodes that reach only each other, by {links}")
    namespaces = Namespaces(shaped)
    emulation = Emulation(namespaces.place, preview_nodes, tuple(notices), partial(plan_faults, namespaces))
    return emulation, reader.problems


class RunFaults:
    """The faults of one run: those that were requested, and those of a rehearsal."""

    def __init__(
        self,
        seed: int | None,
        tasks: Mapping[str, Task],
        requested: Sequence[NodeFault],
        namespaces: Namespaces | None,
        say: Say,
    ) -> None:
        """Plan what ``--chaos`` asks for with a seed; without one nothing is drawn."""
        plans: dict[str, tuple[PlannedFault, ...]] = {}
        if seed is not None:
            plans = {
                name: draw_faults(seed, name, task.world_size, task.instance_count if namespaces else 0)
                for name, task in tasks.items()
                if keeps_checkpoints(task)
            }
            for line in describe_schedule(seed, plans):
                say(line)
        self._injector = FaultInjector(requested, namespaces, say)
        self._rehearsal = Rehearsal(plans, namespaces, say)
        self.restarts = count_restarts(plans)

    def tick(self, attempts: Collection[Attempt]) -> None:
        """Inject the faults that are due."""
        self._injector.tick(attempts)
        self._rehearsal.tick(attempts)

    def report(self) -> Iterator[str]:
        """The requested faults that had no effect, and what those of the rehearsal cost."""
        yield from self._injector.report()
        yield from self._rehearsal.report()


class _Reader(Struct, frozen=True):
    options: RunOptions
    tasks: Mapping[str, Task]
    problems: list[Problem]

    def refuse(self, message: str, help_: str | None) -> None:
        """Report a reason not to run."""
        self.problems.append(Problem("run-refused", COMMAND_LINE, message, help_))

    def faults(self) -> tuple[NodeFault, ...]:
        """The requested faults, each with its step."""
        ordered: list[tuple[NodeFaultKind, str]] = [("kill", text) for text in self.options.kill]
        ordered += [("drop-link", text) for text in self.options.drop_link]
        if self.options.kill and sys.platform != "linux":
            self.refuse("`--kill` finds a node's processes in `/proc`, which only Linux has", "leave it out")
        if self.options.drop_link and self.options.nodes != "namespaces":
            message = "`--drop-link` cuts a node's link, and instances that are only processes have none"
            self.refuse(message, "add `--nodes namespaces`")
        return tuple(fault for kind, text in ordered if (fault := self._read_fault(kind, text)) is not None)

    def _read_fault(self, kind: NodeFaultKind, text: str) -> NodeFault | None:
        try:
            fault = assign_step(parse_fault(kind, text), self.tasks)
        except OptionError as error:
            self.refuse(str(error), error.help)
            return None
        if kind == "drop-link" and self.tasks[fault.step or ""].instance_count == 1:
            message = f"`{fault.option}`: step `{fault.step}` has one instance, so it has no link"
            self.refuse(message, "give it several instances, or use `--kill`")
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
            message = "`--link` shapes links between nodes, and instances that are only processes have none"
            self.refuse(message, "add `--nodes namespaces`")
        try:
            return parse_link(self.options.link)
        except OptionError as error:
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
