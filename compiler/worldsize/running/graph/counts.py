"""The numbers and variables of a step, each of which may be bound to an input of the graph it stands in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from worldsize.azureml import binding, distribution, fields, literals
from worldsize.azureml.model import Argument, Binding, Component, Field, Literal, Step
from worldsize.base.span import Span
from worldsize.running import launchers
from worldsize.running.graph.faults import Faults
from worldsize.running.graph.scope import Scope
from worldsize.running.graph.trace import Reason, Traced, Tracer
from worldsize.running.starting.sources import File, Text
from worldsize.yaml import Mapping as YamlMapping


@dataclass(frozen=True, slots=True)
class Settings:
    """Reads what a step sets besides its inputs; what is wrong goes to ``faults``."""

    scope: Scope
    step: Step
    component: Component
    name: str
    span: Span
    tracer: Tracer
    faults: Faults

    def launcher(self) -> str:
        """What starts the processes."""
        block = self._distribution()
        if block is None or block.kind is None:
            return "none"
        if block.kind in launchers.LAUNCHERS:
            return block.kind
        known = ", ".join(f"`{name}`" for name in launchers.LAUNCHERS if name != "none")
        message = f"step `{self.name}` is distributed with `{block.kind}`, which is not started here"
        help_ = f"what is: {known}, and steps without `distribution`"
        self.faults.refuse(self.span, message, help_, block.type)
        return "none"

    def instances(self) -> int:
        """How many instances are asked for."""
        return self._inside("instance_count", self.step.resources or self.component.resources, 1)

    def processes(self) -> int:
        """Processes an instance; Azure ML starts one where nothing is said."""
        block = self._distribution()
        name = "process_count_per_instance"
        return 1 if block is None else self._count(name, block.process_count_per_instance, 1)

    def workers(self, launcher: str, instances: int) -> tuple[int | None, int]:
        """TensorFlow's workers and parameter servers: one worker an instance where nothing is said."""
        block = self._distribution()
        if launcher != "tensorflow" or block is None:
            return None, 0
        servers = self._count("parameter_server_count", block.parameter_server_count, 0, least=0)
        return self._count("worker_count", block.worker_count, instances), servers

    def timeout(self) -> int | None:
        """Seconds after which the step is stopped; the limits of a sweep and of a mini-batch are others."""
        return None if self.step.type == "sweep" else self._inside("timeout", self.step.limits, 0) or None

    def environment(self, launcher: str) -> dict[str, str]:
        """The step's own variables. Those with no value vanish, as on the way to Azure ML."""
        rendered = {}
        for name, value in self._variables().items():
            if name in launchers.find(launcher).VARIABLES:
                self._contradiction(launcher, name)
            found = self._value(value)
            if isinstance(found, Text) and found.value is not None:
                rendered[str(name)] = found.rendered
            elif isinstance(found, File):
                rendered[str(name)] = str(found.path.absolute())
            elif not isinstance(found, Text):
                self._unresolved(str(name), value, found)
        return rendered

    def _distribution(self) -> distribution.Distribution | None:
        return distribution.view(self.step.distribution or self.component.distribution)

    def _variables(self) -> dict[Any, Any]:
        """By name, as they stand in the file."""
        blocks = [block.value for block in self._blocks() if isinstance(block.value, dict)]
        return {name: value for block in blocks for name, value in block.items()}

    def _variable(self, name: str) -> Field[Any] | None:
        found = [distribution.member(block, name) for block in self._blocks()]
        return next((each for each in reversed(found) if each is not None), None)

    def _blocks(self) -> Iterator[Field[Any]]:
        """Where variables stand: in the step, and those of a sweep's trial win over them."""
        if self.step.environment_variables is not None:
            yield self.step.environment_variables
        raw = self.component.raw
        if self.step.type == "sweep" and isinstance(raw, YamlMapping):
            trial = fields.read_field(raw, "environment_variables")
            if trial is not None:
                yield trial

    def _inside(self, name: str, block: Field[Any] | None, default: int) -> int:
        return self._count(name, distribution.member(block, name), default)

    def _count(self, name: str, found: Field[Any] | None, default: int, *, least: int = 1) -> int:
        if found is None or found.value is None:
            return default
        source = self._value(found.value)
        number = literals.number(source.value) if isinstance(source, Text) else None
        if number is None or number < least or number != int(number):
            given = f", {source.value}" if isinstance(source, Text) and source.value != found.value else ""
            message = f"`{name}` of step `{self.name}` is `{found.value}`{given}"
            self.faults.refuse(self.span, message, f"give a whole number from {least}", found)
            return default
        return int(number)

    def _value(self, value: Any) -> Traced:
        expression = binding.whole(value)
        argument: Argument = Literal(value) if expression is None else Binding(expression)
        return self.tracer.trace(self.scope, argument, is_data=False)

    def _unresolved(self, name: str, value: Any, found: Traced) -> None:
        """A variable whose value is no text: a path that only exists later, or a binding to nothing."""
        why = found.message if isinstance(found, Reason) else f"is `{value}`, which is no literal"
        help_ = "bind it to an input of the pipeline that is a number or a text"
        at = self._variable(name)
        self.faults.refuse(self.span, f"variable `{name}` of step `{self.name}` {why}", help_, at)

    def _contradiction(self, launcher: str, name: str) -> None:
        """A variable that the launcher gives every process anew: one value for all cannot be meant."""
        self.faults.refuse(
            self.span,
            f"`environment_variables` of step `{self.name}` sets `{name}`,"
            f" which `distribution: {{type: {launcher}}}` sets for each process",
            f"remove `{name}`, or remove `distribution` and start the processes yourself",
            self._variable(name),
        )
