"""Traces the inputs of steps back to their sources, through nested graphs.

The outermost graph is the pipeline; each of its pipeline steps contains the graph of its component.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml import binding, graph
from worldsize.azureml.binding import Expression, make_expression
from worldsize.azureml.literals import PRIMITIVES
from worldsize.azureml.model import Argument, Binding, Data, Field, Job, Literal, Port, Step
from worldsize.azureml.references import classify, exists, local_path
from worldsize.base.wording import shorten
from worldsize.documents.secrecy.names import is_secret
from worldsize.documents.yaml import Mapping as YamlMapping
from worldsize.running.model.assets import AssetMap, canonical
from worldsize.running.model.task import (
    ARTIFACTS,
    File,
    Joined,
    Output,
    Part,
    RunName,
    Source,
    Text,
    list_parts,
    read_default,
)

DEEPEST_TEXT = 20  # nested texts with bindings
MAX_PARTS = 1000  # of one text


class Scope(Struct, eq=False):
    """One graph, and its position among the nested graphs."""

    job: Job  # the graph
    prefix: str = ""  # what the names of its steps begin with: `outer.`
    parent: Scope | None = None  # the graph around it, None for the pipeline itself
    step: Step | None = None  # the step of the parent that it is the inside of
    _inner: dict[str, Scope] = field(default_factory=dict)
    _written: dict[str, list[tuple[Step, str]]] | None = None

    @property
    def folder(self) -> Path:
        """The folder of the graph's file, to which its paths are relative."""
        return self.job.path.parent if self.job.path else Path()

    def name(self, step: Step) -> str:
        """A step's name, unique among all graphs."""
        return self.prefix + step.name

    def inside(self, step: Step) -> Scope | None:
        """The inner graph of a pipeline step, else None."""
        scope = self._inner.get(step.name)
        inner = step.component.graph if step.component is not None else None
        if scope is None and inner is not None:
            scope = self._inner[step.name] = Scope(inner, f"{self.name(step)}.", self, step)
        return scope

    def writers(self, output: str) -> list[tuple[Step, str]]:
        """The steps that write an output of this graph, with the names of their own outputs."""
        if self._written is None:
            self._written = {}
            for step in self.job.steps.values():
                for name, setting in step.outputs.items():
                    bound = setting.value.binding
                    if bound is not None and bound.value.port is not None:
                        self._written.setdefault(bound.value.port, []).append((step, name))
        return self._written.get(output, [])


def find_argument(inputs: Mapping[str, Field[Argument]], name: str) -> Field[Argument] | None:
    """The argument of a port; a member of a group may be in the mapping of the group."""
    argument = inputs.get(name)
    head, dot, _ = name.rpartition(".")
    while argument is None and dot:
        group = inputs.get(head)
        argument = None if group is None else _find_member(group, name[len(head) + 1 :])
        head, dot, _ = head.rpartition(".")
    return argument


def list_leaves(name: str, argument: Field[Argument], ports: Mapping[str, Port]) -> list[str]:
    """The ports that an entry of ``inputs:`` sets: itself, or the members of a group."""
    node = argument.node
    if name in ports or not isinstance(node, YamlMapping):
        return [name]
    if not any(port.startswith(f"{name}.") for port in ports):
        return [name]
    members = graph.read_arguments(node).items()
    return [leaf for member, inner in members for leaf in list_leaves(f"{name}.{member}", inner, ports)]


def _find_member(group: Field[Argument], rest: str) -> Field[Argument] | None:
    if isinstance(group.value, Binding):
        whole = group.value.expression
        inner = make_expression(f"{whole.name}.{rest}", whole.start, whole.end, whole.name_start)
        return Field(Binding(inner), group.span, group.key_span, group.node)
    if isinstance(group.node, YamlMapping):
        return find_argument(graph.read_arguments(group.node), rest)
    return None


class Reason(Struct, frozen=True):
    """Why an input has no source here; the message continues ``input `x` of step `y` …``.

    ``at`` is the wrong path, if inputs only pass it on; ``address`` the one on the web that is not here,
    and ``mode`` how its owner has it delivered.
    """

    message: str
    help: str
    at: Field[Any] | None = None
    address: str | None = None
    mode: Field[Any] | None = None


class Absent(Struct, frozen=True):
    """No value: an optional input that is not set, here or in an outer graph."""

    of: str


class Unknown:
    """The source is wrong, which is reported at its own position."""


Traced = Source | Absent | Reason | Unknown
_Next = tuple[Scope, Argument]


class Tracer(Struct):
    """Traces arguments to their sources, each once."""

    assets: AssetMap
    secrets: set[str] = field(default_factory=set)
    _known: dict[tuple[int, str, bool], Traced] = field(default_factory=dict)

    def trace(self, scope: Scope, argument: Argument, *, is_data: bool, depth: int = 0) -> Traced:
        """Find the source of an argument in a graph; ``depth`` counts the texts around it."""
        passed: dict[tuple[int, str, bool], str] = {}  # by key the name of the port
        traced: Traced | _Next = (scope, argument)
        while isinstance(traced, tuple):
            scope, argument = traced
            if not isinstance(argument, Binding):
                traced = self._trace_value(scope, argument, is_data=is_data, depth=depth)
                continue
            key = (id(scope), argument.expression.name, is_data)
            if key in passed:
                message = f"is bound to itself through `{argument.expression}`"
                traced = Reason(message, "bind it to the source of the value")
                break
            passed[key] = argument.expression.port or ""
            traced = self._known[key] if key in self._known else follow_binding(scope, argument.expression)
        if any(map(is_secret, passed.values())):
            traced = self.keep_secret(traced)
        for key in passed:
            self._known[key] = traced
        return traced

    def keep_secret(self, traced: Traced) -> Traced:
        """Mark a value that passed through an input with the name of a secret."""
        if isinstance(traced, Text):
            self.secrets.add(traced.rendered)
            return replace(traced, secret=True)
        if isinstance(traced, Joined):
            self.secrets |= {part.rendered for part in traced.parts if isinstance(part, Text)}
        return traced

    def _trace_value(self, scope: Scope, argument: Literal | Data, *, is_data: bool, depth: int) -> Traced:
        if isinstance(argument, Data):
            value, is_data = argument.path.value if argument.path else None, True
            if value is None:
                return Reason("has no path", "give `path:` a file or folder of this machine")
        else:
            value = argument.value
        if isinstance(value, dict | list):
            return Reason("is a group or a list, which is not supported here", "give its members one by one")
        if not isinstance(value, str):
            return Text(value)
        if binding.find_expressions(value):
            return self._join_text(scope, value, is_data=is_data, depth=depth)
        type_ = argument.type if isinstance(argument, Data) else None
        if is_data:
            traced = self.data(scope, value, type_)
        else:
            mapped = self.assets.local(value)
            traced = Text(value) if mapped is None else File(mapped)
        return _add_declared(traced, argument) if isinstance(argument, Data) else traced

    def data(self, scope: Scope, text: str, type_: str | None = None) -> Traced:
        """Data by its path, relative to the file of the graph, and the type that the job gives it."""
        path = local_path(text, scope.folder)
        if path is None:
            mapped = self.assets.local(text)
            if mapped is not None:
                return File(mapped)
            what = "a datastore or asset" if classify(text) == "asset" else "a web address"
            what = "a Git repository" if classify(text) == "git" else what
            message = f"is `{shorten(canonical(text))}`, {what} that this machine does not have"
            address = text if classify(text) == "web" else None
            return Reason(message, self.assets.missing(text, "data", type_), address=address)
        if not exists(path):
            message = f"is `{shorten(text)}`, which does not exist"
            return Reason(message, "the path is relative to the job's file")
        return File(path)

    def _join_text(self, scope: Scope, text: str, *, is_data: bool, depth: int) -> Traced:
        if depth > DEEPEST_TEXT:
            return Reason("is nested in too many texts", "bind it to the value itself")
        parts: list[Part] = []
        position = 0
        for expression in binding.find_expressions(text):
            parts.append(Text(text[position : expression.start]))
            position = expression.end
            traced = self.trace(scope, Binding(expression), is_data=False, depth=depth + 1)
            if isinstance(traced, Absent):
                return Reason(f"holds `{expression}`, which has no value", "give it one")
            if isinstance(traced, Reason | Unknown):
                return traced
            parts += list_parts(traced)
            if len(parts) > MAX_PARTS:
                return Reason("is a text of too many parts", "bind it to the value itself")
        parts.append(Text(text[position:]))
        return self._merge_parts(scope, parts, is_data=is_data)

    def _merge_parts(self, scope: Scope, parts: list[Part], *, is_data: bool) -> Traced:
        merged: list[Part] = []
        for part in parts:
            if isinstance(part, Text) and merged and isinstance(merged[-1], Text):
                secret = merged[-1].secret or part.secret
                merged[-1] = Text(merged[-1].rendered + part.rendered, secret)
            elif not isinstance(part, Text) or part.rendered:
                merged.append(part)
        if not merged:
            return Text("")
        first, *rest = merged
        if not rest:
            return self.data(scope, first.rendered) if is_data and isinstance(first, Text) else first
        if isinstance(first, File) and len(rest) == 1 and isinstance(rest[0], Text):
            path = Path(f"{first.path}{rest[0].rendered}")
            message = f"is `{path.name}` of `{first.path.name}`, which does not exist"
            return File(path) if exists(path) else Reason(message, "choose a file of that folder")
        return Joined(tuple(merged))


def _add_declared(traced: Traced, data: Data) -> Traced:
    """Add the type that the job declares to a file, or position and mode to a reason."""
    if isinstance(traced, Reason):
        return replace(traced, at=data.path, mode=data.mode)
    return replace(traced, type=data.type) if isinstance(traced, File) else traced


def follow_binding(scope: Scope, expression: Expression) -> Traced | _Next:
    """Follow one binding: to its source, or to the next argument."""
    if expression.scope == "parent.inputs":
        return _follow_graph_input(scope, expression)
    if expression.parts == ("name",):
        return RunName()
    return _follow_step(scope, expression)


def _follow_step(scope: Scope, expression: Expression) -> Traced | _Next:
    port = expression.port or ""
    step = scope.job.steps.get(expression.step or "")
    if step is None or expression.side is None:
        return _report_unbound(expression)
    if expression.side == "outputs":
        return trace_output(scope, step.name, port) or _report_unbound(expression)
    argument = find_argument(step.inputs, port)
    if argument is not None:
        return scope, argument.value
    if step.component is None:
        return Unknown()
    return _without_value(step.component.inputs.get(port), expression)


def trace_output(scope: Scope, step_name: str, port: str) -> Output | Unknown | None:
    """The output of the innermost step behind an output of a step."""
    step = scope.job.steps[step_name]
    while (inner := scope.inside(step)) is not None:
        writers = inner.writers(port)
        if not writers:
            return None
        scope, (step, port) = inner, writers[0]
    if step.component is None:
        return Unknown()
    declared = step.component.outputs.get(port)
    if declared is None and port != ARTIFACTS:
        return None
    return Output(scope.name(step), port, declared is not None and declared.type in PRIMITIVES)


def _follow_graph_input(scope: Scope, expression: Expression) -> Traced | _Next:
    port = expression.port or ""
    if scope.parent is None or scope.step is None:
        argument = find_argument(scope.job.inputs, port)
        return _report_unbound(expression) if argument is None else (scope, argument.value)
    argument = find_argument(scope.step.inputs, port)
    if argument is not None:
        return scope.parent, argument.value
    declared = scope.job.interface.inputs.get(port) if scope.job.interface else None
    traced = _without_value(declared, expression)
    # A required input without a value is reported once, where the component is used.
    return Unknown() if isinstance(traced, Absent) and declared and not declared.optional else traced


def _without_value(port: Port | None, expression: Expression) -> Traced:
    if port is None:
        return _report_unbound(expression)
    if port.default is not None and port.default.value is not None:
        return read_default(port)
    return Absent(str(expression))


def _report_unbound(expression: Expression) -> Reason:
    return Reason(f"is bound to `{expression}`, which does not exist", "bind it to something that exists")
