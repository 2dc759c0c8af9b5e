"""Reads the settings of a step: numbers, variables and the command, with bindings resolved."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import binding, fields, literals
from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Argument, Binding, Component, Field, Literal, Step
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.documents.yaml import Mapping as YamlMapping
from worldsize.documents.yaml import Scalar
from worldsize.running.launch.launchers import LAUNCHERS
from worldsize.running.model.source import File, Source, Text
from worldsize.running.prepare.graph.refusals import Refusals
from worldsize.running.prepare.graph.trace import Reason, Scope, Traced, Tracer

# azure-ai-ml 1.35.2, `map_single_brackets_and_warn`; so `${inputs.x}` keeps its dollar sign.
_OLD = re.compile(r"(?<!\{)\{(inputs|outputs|search_space)\.([^{}]*)\}(?!\})")


@dataclass(frozen=True, slots=True)
class StepSettings:
    """Reads the settings of a step apart from its inputs; problems are added to ``faults``."""

    scope: Scope
    step: Step
    component: Component
    name: str
    span: Span
    tracer: Tracer
    faults: Refusals

    def launcher(self) -> str:
        """The launcher of the processes."""
        block = self._distribution()
        if block is None or block.kind is None:
            return "none"
        if block.kind in LAUNCHERS:
            return block.kind
        known = ", ".join(f"`{name}`" for name in LAUNCHERS if name != "none")
        message = f"step `{self.name}` is distributed with `{block.kind}`, which is not started here"
        help_ = f"use {known}, or a step without `distribution`"
        self.faults.refuse(self.span, message, help_, block.type)
        return "none"

    def instances(self) -> int:
        """The number of instances."""
        return self._inside("instance_count", self.step.resources or self.component.resources, 1)

    def processes(self) -> int:
        """Processes per instance; the default is 1, as in Azure ML."""
        block = self._distribution()
        name = "process_count_per_instance"
        return 1 if block is None else self._count(name, block.process_count_per_instance, 1)

    def workers(self, launcher: str, instances: int) -> tuple[int | None, int]:
        """TensorFlow's workers and parameter servers; the default is one worker per instance."""
        block = self._distribution()
        if launcher != "tensorflow" or block is None:
            return None, 0
        servers = self._count("parameter_server_count", block.parameter_server_count, 0, least=0)
        return self._count("worker_count", block.worker_count, instances), servers

    def timeout(self) -> int | None:
        """Seconds after which the step is stopped; sweeps and mini-batches have limits of their own."""
        return None if self.step.type == "sweep" else self._inside("timeout", self.step.limits, 0) or None

    def environment(self, launcher: str) -> dict[str, str]:
        """The step's own variables. Those without a value are dropped, as the Azure ML client does."""
        rendered = {}
        for name, value in self._variables().items():
            if name in LAUNCHERS[launcher].variables:
                self._contradiction(launcher, name)
            source = self._value(value)
            if isinstance(source, Text) and source.value is not None:
                rendered[str(name)] = source.rendered
            elif isinstance(source, File):
                rendered[str(name)] = str(source.path.absolute())
            elif not isinstance(source, Text):
                self._unresolved(str(name), value, source)
        return rendered

    def _distribution(self) -> fields.Distribution | None:
        return fields.read_distribution(self.step.distribution or self.component.distribution)

    def _variables(self) -> dict[Any, Any]:
        """The variables of the file by name."""
        blocks = [block.value for block in self._blocks() if isinstance(block.value, dict)]
        return {name: value for block in blocks for name, value in block.items()}

    def _variable(self, name: str) -> Field[Any] | None:
        settings = [fields.read_member(block, name) for block in self._blocks()]
        return next((each for each in reversed(settings) if each is not None), None)

    def _blocks(self) -> Iterator[Field[Any]]:
        """The blocks of variables: that of the step, then that of a sweep's trial, which overrides it."""
        if self.step.environment_variables is not None:
            yield self.step.environment_variables
        raw = self.component.raw
        if self.step.type == "sweep" and isinstance(raw, YamlMapping):
            trial = fields.read_field(raw, "environment_variables")
            if trial is not None:
                yield trial

    def _inside(self, name: str, block: Field[Any] | None, default: int) -> int:
        return self._count(name, fields.read_member(block, name), default)

    def _count(self, name: str, setting: Field[Any] | None, default: int, *, least: int = 1) -> int:
        if setting is None or setting.value is None:
            return default
        source = self._value(setting.value)
        number = literals.parse_number(source.value) if isinstance(source, Text) else None
        if number is None or number < least or number != int(number):
            resolved = (
                f", {source.value}" if isinstance(source, Text) and source.value != setting.value else ""
            )
            message = f"`{name}` of step `{self.name}` is `{setting.value}`{resolved}"
            self.faults.refuse(self.span, message, f"give a whole number from {least}", setting)
            return default
        return int(number)

    def _value(self, value: Any) -> Traced:
        expression = binding.parse_expression(value)
        argument: Argument = Literal(value) if expression is None else Binding(expression)
        return self.tracer.trace(self.scope, argument, is_data=False)

    def _unresolved(self, name: str, value: Any, source: Traced) -> None:
        """Report a variable whose value is not a text: a path that does not exist yet, or a wrong binding."""
        why = source.message if isinstance(source, Reason) else f"is `{value}`, which is not a literal"
        help_ = "bind it to an input of the pipeline that is a number or a text"
        at = self._variable(name)
        self.faults.refuse(self.span, f"variable `{name}` of step `{self.name}` {why}", help_, at)

    def _contradiction(self, launcher: str, name: str) -> None:
        """Report a variable that the launcher sets for each process, so that one value is wrong."""
        self.faults.refuse(
            self.span,
            f"`environment_variables` of step `{self.name}` sets `{name}`,"
            f" which `distribution: {{type: {launcher}}}` sets for each process",
            f"remove `{name}`, or remove `distribution` and start the processes yourself",
            self._variable(name),
        )


def modernise_command(component: Component) -> Component:
    """A standalone job's component, with ``{inputs.x}`` written as ``${{inputs.x}}``."""
    command = component.command
    if command is None or not isinstance(command.value, str) or _OLD.search(command.value) is None:
        return component
    text = _OLD.sub(r"${{\1.\2}}", command.value)
    return replace(component, command=Field(text, command.span, command.key_span, None))


def find_unfilled(
    component: Component,
    inputs: Mapping[str, Source | None],
    outputs: Collection[str],
    searched: Collection[str],
) -> tuple[str, str, Span | None] | None:
    """The first placeholder of a command that nothing replaces: message, help and position, or None.

    ``searched`` is what a sweep varies; an input that is None has no value.
    """
    command = component.command
    if command is None or not isinstance(command.value, str):
        return None
    template = binding.parse_template(command.value)
    guarded = {expression.start for part in template.sections for expression in part.expressions}
    for expression in template.expressions:
        fault = _explain_unfilled(expression, inputs, outputs, searched, guarded=expression.start in guarded)
        if fault is not None:
            node = command.node
            span = (
                node.subspan(expression.start, expression.end) if isinstance(node, Scalar) else command.span
            )
            return *fault, span
    return None


def _explain_unfilled(
    expression: Expression,
    inputs: Mapping[str, Source | None],
    outputs: Collection[str],
    searched: Collection[str],
    *,
    guarded: bool,
) -> tuple[str, str] | None:
    known: dict[str, Collection[str]] = {
        "inputs": {*inputs, *searched},
        "outputs": outputs,
        "search_space": searched,
    }
    names, port = known.get(expression.scope), expression.port
    if names is None or port is None:
        return (
            f"`{expression}` in the command is replaced by nothing",
            "write `${{inputs.x}}` or `${{outputs.y}}`",
        )
    if port not in names:
        what = {"inputs": "input", "outputs": "output", "search_space": "entry of `search_space`"}[
            expression.scope
        ]
        help_ = did_you_mean(port, names) or f"declare it under `{expression.scope}:`"
        return f"`{expression}` in the command names no {what}", help_
    if expression.scope == "inputs" and port not in searched and inputs.get(port) is None and not guarded:
        help_ = f"write `$[[--{port} {expression}]]`, which is omitted if there is no value"
        return f"`{expression}` in the command has no value here", help_
    return None
