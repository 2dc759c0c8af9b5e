"""What resolving a spec keeps at hand: components, bindings, the plan, what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import Struct, field

from worldsize.azureml.files import Files
from worldsize.azureml.model import Argument, Binding, Component, Field, Port
from worldsize.azureml.references import classify
from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.base.suggest import closest
from worldsize.planning.memory.workload import Samples
from worldsize.planning.model import Plan, StepPlan, Topology
from worldsize.spec.model import Spec


class ResolveState(Struct):
    """The state of one resolution; ``plan`` is None until it is derived, and where planning failed."""

    spec: Spec
    components: dict[str, Component | None]
    files: Files = field(default_factory=Files)  # what may be read and copied
    plan: Plan | None = None
    topologies: Mapping[str, Topology] = field(default_factory=dict)  # also of steps without a plan
    problems: list[Problem] = field(default_factory=list)
    arguments: dict[str, dict[str, Field[Argument]]] = field(default_factory=dict)
    unwired: dict[str, set[str]] = field(default_factory=dict)  # step -> inputs that were reported
    tasks: dict[str, tuple[str, str]] = field(default_factory=dict)  # training step -> task, and why
    samples: dict[str, Samples] = field(default_factory=dict)  # of small local tables, by sharding step
    templates: dict[str, dict[str, str]] = field(default_factory=dict)  # step -> input -> ${{plan.…}}
    _makers: dict[str, list[str]] = field(default_factory=dict)
    _shard_readers: dict[str, list[str]] = field(default_factory=dict)
    _trainings: dict[str, list[StepPlan]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The spec's folder, which its relative paths start at."""
        return self.spec.path.parent

    def report(
        self, slug: str, span: Span, message: str, help_: str | None = None, *related: Related
    ) -> None:
        """Add a problem."""
        self.problems.append(Problem(slug, span, message, help_, related))

    def step_plan(self, step: str) -> StepPlan | None:
        """The plan of a step; None where planning failed."""
        return self.plan.steps.get(step) if self.plan is not None else None

    def ports(self, step: str) -> Mapping[str, Port]:
        """The inputs that a step's component declares; none where it cannot be seen."""
        component = self.components.get(step)
        return component.inputs if component else {}

    def searched(self, step: str) -> Collection[str]:
        """The inputs that the sweep of a step gives its trials."""
        sweep = self.spec.steps[step].sweep
        return sweep.search_space if sweep is not None else ()

    def open_ports(self, step: str) -> list[Port]:
        """The data inputs of a step's component that need a value."""
        ports = self.ports(step).values()
        return [port for port in ports if port.is_data and not port.optional and port.default is None]

    def is_misspelt(self, step: str, port: str) -> bool:
        """Whether the user gives an input of a similar name that the step does not have, and means this."""
        ports = self.ports(step)
        return any(name not in ports and closest(name, ports) == port for name in self.arguments[step])

    def outputs(self, step: str) -> Mapping[str, Port] | None:
        """The outputs that a step's component declares; None where it cannot be seen."""
        component = self.components.get(step)
        return component.outputs if component else None

    def makers(self) -> Mapping[str, list[str]]:
        """The steps that have an output of each name, in the order of the file."""
        if not self._makers:
            for step in self.spec.steps:
                for name in self.outputs(step) or {}:
                    self._makers.setdefault(name, []).append(step)
        return self._makers

    def shards_of(self, step: str) -> str | None:
        """The step whose shards a step reads; None where its ``shards`` are not bound to one."""
        shards = self.arguments.get(step, {}).get("shards")
        return shards.value.expression.step if shards and isinstance(shards.value, Binding) else None

    def shard_readers(self, step: str) -> list[str]:
        """The steps that read a step's shards, in the order of the file, once all inputs are wired."""
        if not self._shard_readers:
            for reader in self.arguments:
                self._shard_readers.setdefault(self.shards_of(reader) or "", []).append(reader)
        return self._shard_readers.get(step, [])

    def trainings(self, quantity: str) -> list[StepPlan]:
        """The plans of the training steps that have a quantity."""
        if quantity not in self._trainings:
            plans = self.plan.steps.values() if self.plan is not None else ()
            self._trainings[quantity] = [plan for plan in plans if plan.training and quantity in plan.inputs]
        return self._trainings[quantity]

    def unreadable(self, step: str) -> bool:
        """Whether a step's component should lie here but could not be read: its ports are unknown."""
        uses = self.spec.steps[step].uses
        return self.components.get(step) is None and (uses is None or classify(uses.value) == "local")

    def upstream(self, step: str) -> dict[str, tuple[str, Span | None]]:
        """The steps that a step reads from, each with the input that does and its place."""
        upstream: dict[str, tuple[str, Span | None]] = {}
        for name, argument in self.arguments.get(step, {}).items():
            value = argument.value
            if isinstance(value, Binding) and value.expression.step:
                upstream.setdefault(value.expression.step, (name, argument.span))
        return upstream
