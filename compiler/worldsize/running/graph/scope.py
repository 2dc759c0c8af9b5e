"""Graphs inside each other: the pipeline, and below each of its pipeline steps the graph of its component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from worldsize.azureml import graph
from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Argument, Binding, Field, Job, Port, Step
from worldsize.yaml import Mapping as YamlMapping


@dataclass(slots=True, eq=False)
class Scope:
    """One graph, and the place it has among the others.

    Attributes:
        job: The graph.
        prefix: What the names of its steps begin with: ``outer.``.
        parent: The graph around it, None for the pipeline itself.
        step: The step of the parent that it is the inside of.
    """

    job: Job
    prefix: str = ""
    parent: Scope | None = None
    step: Step | None = None
    _inner: dict[str, Scope] = field(default_factory=dict)
    _written: dict[str, list[tuple[Step, str]]] | None = None

    @property
    def folder(self) -> Path:
        """What paths in the graph's file are relative to."""
        return self.job.path.parent if self.job.path else Path()

    def name(self, step: Step) -> str:
        """A step's name among the steps of all graphs."""
        return self.prefix + step.name

    def inside(self, step: Step) -> Scope | None:
        """The graph behind a step that is a pipeline component, else None."""
        found = self._inner.get(step.name)
        inner = step.component.graph if step.component is not None else None
        if found is None and inner is not None:
            found = self._inner[step.name] = Scope(inner, f"{self.name(step)}.", self, step)
        return found

    def writers(self, output: str) -> list[tuple[Step, str]]:
        """The steps that are bound to an output of this graph, each with its own output."""
        if self._written is None:
            self._written = {}
            for step in self.job.steps.values():
                for name, setting in step.outputs.items():
                    bound = setting.value.binding
                    if bound is not None and bound.value.port is not None:
                        self._written.setdefault(bound.value.port, []).append((step, name))
        return self._written.get(output, [])


def given(inputs: Mapping[str, Field[Argument]], name: str) -> Field[Argument] | None:
    """What ``inputs:`` gives to a port; a member of a group may stand in the group's own mapping."""
    found = inputs.get(name)
    head, dot, _ = name.rpartition(".")
    while found is None and dot:
        group = inputs.get(head)
        found = None if group is None else _member(group, name[len(head) + 1 :])
        head, dot, _ = head.rpartition(".")
    return found


def leaves(name: str, argument: Field[Argument], ports: Mapping[str, Port]) -> list[str]:
    """The ports that an entry of ``inputs:`` speaks of: itself, or the members of a group."""
    node = argument.node
    if name in ports or not isinstance(node, YamlMapping):
        return [name]
    if not any(port.startswith(f"{name}.") for port in ports):
        return [name]
    members = graph.arguments(node)
    return [leaf for member, inner in members.items() for leaf in leaves(f"{name}.{member}", inner, ports)]


def _member(group: Field[Argument], rest: str) -> Field[Argument] | None:
    if isinstance(group.value, Binding):
        whole = group.value.expression
        inner = Expression(f"{whole.name}.{rest}", whole.start, whole.end, whole.name_start)
        return Field(Binding(inner), group.span, group.key_span, group.node)
    if isinstance(group.node, YamlMapping):
        return given(graph.arguments(group.node), rest)
    return None
