"""Finds in a Python file where a step of a pipeline is called, and where it gets a value."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from functools import cached_property

from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.documents.yaml.load import Comment
from worldsize.scripts.module import parse_text

_NUMBERED = re.compile(r"_\d+$")  # what azure-ai-ml adds to the name of a component that is called again
_CONTAINERS = frozenset({"inputs", "outputs", "with", "component"})


class PythonFile:
    """The file of a pipeline, and the name of its function."""

    def __init__(self, source: Source, function: str) -> None:
        self.source, self.path = source, source.path
        self._function = function
        self._tree = parse_text(source.text)

    @cached_property
    def _functions(self) -> list[ast.FunctionDef]:
        """All functions, that of the pipeline first."""
        found = [node for node in ast.walk(self._tree) if isinstance(node, ast.FunctionDef)]
        return sorted(found, key=lambda node: node.name != self._function)

    def list_comments(self) -> Iterator[Comment]:
        """The comments of the file."""
        for token in tokenize.generate_tokens(io.StringIO(self.source.text).readline):
            if token.type == tokenize.COMMENT:
                line, start = token.start
                span = Span(self.path, line, start + 1, line, token.end[1] + 1)
                yield Comment(span, token.string, not token.line[:start].strip())

    def find_function(self) -> Span:
        """The name of the pipeline's function; the beginning of the file if it has none."""
        for function in self._functions:
            if function.name == self._function:
                start = function.col_offset + len("def ")
                return self._make_span(function.lineno, start, function.lineno, start + len(function.name))
        return Span(self.path, 1, 1, 1, 1)

    def find_call(self, step: str) -> Span | None:
        """The function that is called for a step."""
        found = self._find_step(step)
        return None if found is None else self._span(found[1].func)

    def find_value(self, keys: Sequence[str]) -> Span | None:
        """What gives a value to a key of a step: ``("train", "inputs", "epochs")``; None if nothing does."""
        if len(keys) < 2:
            return None
        step, *rest = keys
        if step == "compute":  # of the spec that a job was planned as
            return self._find_planned("instance_types", rest)
        if rest[0] == "scale":
            return self._find_planned("scale", [step, *rest[1:]])
        found = self._find_step(step)
        if found is None:
            return None
        function, call, variable = found
        for key in reversed([key for key in rest if key not in _CONTAINERS]):
            for name, value in self._list_settings(function, call, variable):
                if name == key:
                    return self._span(value)
        return None

    def _find_step(self, step: str) -> tuple[ast.FunctionDef, ast.Call, str] | None:
        """The function, the call and the variable of a step; the variable is empty if it has none."""
        for function in self._functions:
            found = [
                (call, variable)
                for call, variable in _list_calls(function)
                if (variable or _NUMBERED.sub("", step)) == (step if variable else _name_called(call))
            ]
            if found:
                return function, *found[0]
        return None

    def _list_settings(
        self, function: ast.FunctionDef, call: ast.Call, variable: str
    ) -> Iterator[tuple[str, ast.expr]]:
        """Names and values that a step gets: arguments and attributes of its own, and of what it calls."""
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and _starts_with(node.targets[0], variable):
                assert isinstance(node.targets[0], ast.Attribute)
                yield node.targets[0].attr, node.value
            elif isinstance(node, ast.Call) and _starts_with(node.func, variable):
                yield from _list_arguments(node)
        yield from _list_arguments(call)
        called = _name_called(call)
        for node in self._tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                target = node.targets[0]
                if isinstance(target, ast.Name) and target.id == called:
                    yield from _list_arguments(node.value)

    def _find_planned(self, argument: str, keys: Sequence[str]) -> Span | None:
        """A value in a dictionary that `worldsize.plan` takes; the innermost that is written there."""
        for node in ast.walk(self._tree):
            for name, value in _list_arguments(node) if isinstance(node, ast.Call) else ():
                inner = _descend(value, keys) if name == argument else None
                if inner is not None:
                    return self._span(inner)
        return None

    def _span(self, node: ast.expr) -> Span:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._make_span(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)

    def _make_span(self, line: int, start: int, end_line: int, end: int) -> Span:
        return Span(self.path, line, self._column(line, start), end_line, self._column(end_line, end))

    def _column(self, line: int, offset: int) -> int:
        """The column of an offset in bytes, as `ast` counts."""
        return len(self.source.line(line).encode()[:offset].decode(errors="replace")) + 1


def _list_calls(function: ast.FunctionDef) -> Iterator[tuple[ast.Call, str]]:
    """The calls of a function that are statements, with the variable that each is assigned to."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr) and isinstance(node.value, ast.Call):
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if target is None or isinstance(target, ast.Name):
                yield node.value, target.id if isinstance(target, ast.Name) else ""


def _name_called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _list_arguments(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    yield from ((each.arg, each.value) for each in call.keywords if each.arg is not None)


def _starts_with(node: ast.expr, variable: str) -> bool:
    """Whether this is an attribute of a variable, such as `train.resources.instance_count`."""
    if not isinstance(node, ast.Attribute):
        return False
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return isinstance(inner, ast.Name) and inner.id == variable


def _descend(node: ast.expr, keys: Sequence[str]) -> ast.expr | None:
    """The value of nested dictionaries below keys, as far as they are written; None without the first."""
    for place, key in enumerate(keys):
        if not isinstance(node, ast.Dict):
            return node if place else None
        pairs = zip(node.keys, node.values, strict=True)
        value = next(
            (each for name, each in pairs if isinstance(name, ast.Constant) and name.value == key), None
        )
        if value is None:
            return node if place else None
        node = value
    return node
