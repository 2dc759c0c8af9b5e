"""Follows what a step is given back to where it comes from, through every graph on the way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from worldsize.azureml import binding
from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Argument, Binding, Data, Field, Literal, Port
from worldsize.azureml.references import classify, exists, local_path, shorten
from worldsize.running.graph.scope import Scope, given
from worldsize.running.starting import sources
from worldsize.running.starting.sources import ARTIFACTS, File, Joined, Output, Part, RunName, Source, Text
from worldsize.secrecy.names import is_secret

DEEPEST_TEXT = 20  # bindings inside texts that are bound inside texts
MOST_PARTS = 1000  # of one text


class Assets(Protocol):
    """Says where data, components and code that only a workspace has lie on this machine."""

    def local(self, text: str) -> Path | None:
        """The place of a reference, None where nothing is known of it."""

    def missing(self, text: str, what: str = "data") -> str:
        """What to write to make a reference known."""

    def judge(self, path: Path, type_: str, what: str) -> None:
        """Hold a place that was given against the type of the data that it stands for."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an input has no source here; the message continues ``input `x` of step `y` …``.

    ``at`` is the path that is to blame, where inputs only pass it on.
    """

    message: str
    help: str
    at: Field[Any] | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """No value: an optional input that was left open, here or in a graph around this one."""

    of: str


class Unknown:
    """Something else is wrong at the other end, and said there."""


Traced = Source | Absent | Reason | Unknown
_Next = tuple[Scope, Argument]


@dataclass(slots=True)
class Tracer:
    """Follows arguments; what was found once is not looked for again."""

    assets: Assets
    secrets: set[str] = field(default_factory=set)
    _known: dict[tuple[int, str, bool], Traced] = field(default_factory=dict)

    def trace(self, scope: Scope, argument: Argument, *, is_data: bool, depth: int = 0) -> Traced:
        """The source of an argument that stands in a graph.

        Args:
            scope: The graph.
            argument: What is given.
            is_data: Whether a text is a path.
            depth: How many texts around it are being put together.
        """
        passed: dict[tuple[int, str, bool], str] = {}  # the name of the port at each
        found: Traced | _Next = (scope, argument)
        while isinstance(found, tuple):
            scope, argument = found
            if not isinstance(argument, Binding):
                found = self._value(scope, argument, is_data=is_data, depth=depth)
                continue
            key = (id(scope), argument.expression.name, is_data)
            if key in passed:
                message = f"is bound to itself through `{argument.expression}`"
                found = Reason(message, "bind it to what makes the value")
                break
            passed[key] = argument.expression.port or ""
            found = self._known[key] if key in self._known else follow(scope, argument.expression)
        if any(map(is_secret, passed.values())):
            found = self.keep_secret(found)
        for key in passed:
            self._known[key] = found
        return found

    def keep_secret(self, found: Traced) -> Traced:
        """A value that came through a name which says secret: it is one wherever it goes from here."""
        if isinstance(found, Text):
            self.secrets.add(found.rendered)
            return replace(found, secret=True)
        if isinstance(found, Joined):
            self.secrets |= {part.rendered for part in found.parts if isinstance(part, Text)}
        return found

    def _value(self, scope: Scope, argument: Literal | Data, *, is_data: bool, depth: int) -> Traced:
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
        if binding.find(value):
            return self._text(scope, value, is_data=is_data, depth=depth)
        found = self.data(scope, value) if is_data else self._literal(value)
        return _declare(found, argument) if isinstance(argument, Data) else found

    def _literal(self, value: str) -> Text | File:
        """A literal; an address that the map knows is what lies there, as a script would open it."""
        mapped = self.assets.local(value)
        return Text(value) if mapped is None else File(mapped)

    def data(self, scope: Scope, text: str) -> Traced:
        """Data by its path, relative to the file of the graph."""
        path = local_path(text, scope.folder)
        if path is None:
            mapped = self.assets.local(text)
            if mapped is not None:
                return File(mapped)
            what = "a datastore or asset" if classify(text) == "asset" else "a web address"
            what = "a Git repository" if classify(text) == "git" else what
            message = f"is `{shorten(text)}`, {what} that this machine does not have"
            return Reason(message, self.assets.missing(text, "data"))
        if not exists(path):
            return Reason(
                f"is `{shorten(text)}`, which does not exist", "the path is relative to the job's file"
            )
        return File(path)

    def _text(self, scope: Scope, text: str, *, is_data: bool, depth: int) -> Traced:
        """A text with bindings inside: the values of all, written one after the other."""
        if depth > DEEPEST_TEXT:
            return Reason("is a text inside too many others", "bind it to the value itself")
        parts: list[Part] = []
        position = 0
        for expression in binding.find(text):
            parts.append(Text(text[position : expression.start]))
            position = expression.end
            found = self.trace(scope, Binding(expression), is_data=False, depth=depth + 1)
            if isinstance(found, Absent):
                return Reason(f"holds `{expression}`, which has no value", "give it one")
            if isinstance(found, Reason | Unknown):
                return found
            parts += sources.parts_of(found)
            if len(parts) > MOST_PARTS:
                return Reason("is a text of too many parts", "bind it to the value itself")
        parts.append(Text(text[position:]))
        return self._joined(scope, parts, is_data=is_data)

    def _joined(self, scope: Scope, parts: list[Part], *, is_data: bool) -> Traced:
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
            if not exists(path):
                return Reason(
                    f"is `{path.name}` of `{first.path.name}`, which does not exist", "see what is there"
                )
            return File(path)
        return Joined(tuple(merged))


def _declare(found: Traced, data: Data) -> Traced:
    """What was found for data, with what the job says of it: its type, or the place to blame."""
    if isinstance(found, Reason):
        return replace(found, at=data.path)
    return replace(found, type=data.type) if isinstance(found, File) else found


def follow(scope: Scope, expression: Expression) -> Traced | _Next:
    """One link of a chain of bindings: the end, or where to go on."""
    if expression.scope == "parent.inputs":
        return _input_of_graph(scope, expression)
    if expression.parts == ("name",):
        return RunName()
    return _of_step(scope, expression)


def _of_step(scope: Scope, expression: Expression) -> Traced | _Next:
    port = expression.port or ""
    step = scope.job.steps.get(expression.step or "")
    if step is None or expression.side is None:
        return _nothing(expression)
    if expression.side == "outputs":
        return output(scope, step.name, port) or _nothing(expression)
    found = given(step.inputs, port)
    if found is not None:
        return scope, found.value
    if step.component is None:
        return Unknown()
    return _without_value(step.component.inputs.get(port), expression)


def output(scope: Scope, step_name: str, port: str) -> Output | Unknown | None:
    """The output of a step that runs, behind an output of a step or of a graph inside of it."""
    step = scope.job.steps[step_name]
    while (inner := scope.inside(step)) is not None:
        writers = inner.writers(port)
        if not writers:
            return None
        scope, (step, port) = inner, writers[0]
    if step.component is None:
        return Unknown()
    declared = port in step.component.outputs or port == ARTIFACTS
    return Output(scope.name(step), port) if declared else None


def _input_of_graph(scope: Scope, expression: Expression) -> Traced | _Next:
    port = expression.port or ""
    if scope.parent is None or scope.step is None:
        found = given(scope.job.inputs, port)
        return _nothing(expression) if found is None else (scope, found.value)
    found = given(scope.step.inputs, port)
    if found is not None:
        return scope.parent, found.value
    declared = scope.job.interface.inputs.get(port) if scope.job.interface else None
    found_there = _without_value(declared, expression)
    # That a required input is left open is said once, where the component is used.
    return (
        Unknown() if isinstance(found_there, Absent) and declared and not declared.optional else found_there
    )


def _without_value(port: Port | None, expression: Expression) -> Traced:
    if port is None:
        return _nothing(expression)
    if port.default is not None and port.default.value is not None:
        return sources.default(port)
    return Absent(str(expression))


def _nothing(expression: Expression) -> Reason:
    return Reason(f"is bound to `{expression}`, which does not exist", "bind it to what does")
