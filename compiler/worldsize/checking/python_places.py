"""Points findings into the Python file of a pipeline: they are made on the YAML that it was written as."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from worldsize.base import untrusted
from worldsize.base.problem import Related
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.checking.report import Report
from worldsize.checking.selection import read_suppressions
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic, sort_unique
from worldsize.documents.diagnostics.snippet import Sources
from worldsize.documents.diagnostics.suppress import apply_suppressions
from worldsize.documents.secrecy.masking import mask_findings
from worldsize.documents.yaml.load import Comment
from worldsize.documents.yaml.nodes import Mapping as MappingNode
from worldsize.documents.yaml.nodes import Node
from worldsize.scripts.module import Module, last_name, name_variable, parse_module

PYTHON = "python.txt"  # beside a pipeline that was written as a file: its Python file and function
_STEPS = ("jobs", "steps")  # of a pipeline, and of the spec that it was planned as
_AS_WRITTEN = "the step as it was written for the check"


def point_report_into_python(report: Report) -> Report:
    """A report whose findings on written pipelines point into their Python files.

    The spec of a planned job does not repeat what is said of the job itself.
    """
    planned = {path for path in report.files if _is_written(path) and Path(path).name == "spec.yml"}
    said = {_state(finding) for finding in report.diagnostics if finding.span.path not in planned}
    kept = [
        finding
        for finding in report.diagnostics
        if finding.span.path not in planned or _state(finding) not in said
    ]
    diagnostics, sources = point_into_python(kept, report.sources, suppress_errors=True)
    written = {path: _open_python(path) for path in report.files}
    files = dict.fromkeys(path if file is None else file.source.path for path, file in written.items())
    return replace(report, diagnostics=tuple(diagnostics), sources=sources, files=tuple(files))


def _state(finding: Diagnostic) -> tuple[str, str]:
    return finding.code, finding.message


def _is_written(path: str) -> bool:
    return Path(path).parts[-4:-2] == (".worldsize", "pipelines")


def point_into_python(
    diagnostics: Sequence[Diagnostic], sources: Sources, *, suppress_errors: bool = False
) -> tuple[list[Diagnostic], Sources]:
    """Findings on written pipelines with places in their Python files, and the texts of these as well.

    A finding points at the argument or attribute that it is about, else at the call of its step, else at the
    function of the pipeline. Comments in the Python file suppress it there: errors only if asked, because an
    error that stops a command has to be shown.
    """
    paths = {span.path for diagnostic in diagnostics for span in _spans(diagnostic)}
    files = {path: file for path in paths if (file := _open_python(path)) is not None}
    if not files:
        return list(diagnostics), sources
    roots = {path: yaml.load(path, sources[path].text).root for path in files if path in sources}
    moved = sort_unique(_move(diagnostic, files, roots) for diagnostic in diagnostics)
    marked = {file.source.path: file for file in files.values() if "worldsize" in file.source.text}
    suppressions = {path: read_suppressions(file.list_comments())[0] for path, file in marked.items()}
    kept = apply_suppressions(moved, suppressions)
    if not suppress_errors:
        kept = [diagnostic for diagnostic in moved if diagnostic in kept or diagnostic.severity == "error"]
    return mask_findings(kept, {**sources, **{file.source.path: file.source for file in files.values()}})


def _spans(finding: Diagnostic) -> Iterator[Span]:
    yield finding.span
    yield from (related.span for related in finding.related)


def _open_python(path: str) -> PythonFile | None:
    """The file that a written pipeline comes from; None for any other file, or if it cannot be read."""
    if not _is_written(path):
        return None
    try:
        file, _, function = untrusted.read_text(Path(path).with_name(PYTHON)).strip().rpartition(":")
        module = parse_module(Source(file, untrusted.read_text(file)))
    except (OSError, ValueError):
        return None
    return None if module is None else PythonFile(module, function)


def _move(
    finding: Diagnostic, files: Mapping[str, PythonFile], roots: Mapping[str, Node | None]
) -> Diagnostic:
    related = []
    for place in finding.related:
        file = files.get(place.span.path)
        keys = _find_keys(roots.get(place.span.path), place.span)
        there = None if file is None else file.find_value(_strip(keys))
        related.append(place if there is None else Related(there, place.message))
    file = files.get(finding.span.path)
    if file is None:
        return replace(finding, related=tuple(related))
    keys = _find_keys(roots.get(finding.span.path), finding.span)
    step = keys[1] if len(keys) > 1 and keys[0] in _STEPS else None
    span = file.find_value(_strip(keys))
    message = finding.message
    if span is None:
        span = file.find_call(step) if step is not None else None
        related.append(Related(finding.span, _AS_WRITTEN))
    if span is None:
        span = file.find_function()
        named = step is None or f"`{step}`" in message
        message = message if named else f"step `{step}`: {message}"
    # What is fixed in the written file is overwritten by the next command.
    return replace(finding, span=span, message=message, related=tuple(related), fix=None)


def _strip(keys: Sequence[str]) -> tuple[str, ...]:
    """The keys of a place with the step first, or the cluster of a spec behind `compute`."""
    return tuple(keys[1:]) if keys and keys[0] in _STEPS else tuple(keys)


def _find_keys(root: Node | None, span: Span) -> list[str]:
    """The keys that lead to a place in a YAML file."""
    keys, node, at = list[str](), root, (span.line, span.column)
    while isinstance(node, MappingNode):
        place = None
        for key, value in node.entries:
            if (key.span.line, key.span.column) > at:
                break
            place = key, value
        if place is None:
            break
        keys.append(place[0].text)
        node = place[1]
    return keys


_NUMBERED = re.compile(r"_\d+$")  # what azure-ai-ml adds to the name of a component that is called again
_CONTAINERS = frozenset({"inputs", "outputs", "with", "component"})


class PythonFile(NamedTuple):
    """The file of a pipeline, and the name of its function."""

    module: Module
    function: str

    @property
    def source(self) -> Source:
        """The text of the file."""
        return self.module.source

    def _list_functions(self) -> list[ast.FunctionDef]:
        """All functions, that of the pipeline first."""
        functions = self.module.kinds.get(ast.FunctionDef, [])
        return sorted(functions, key=lambda node: node.name != self.function)

    def list_comments(self) -> Iterator[Comment]:
        """The comments of the file."""
        for token in tokenize.generate_tokens(io.StringIO(self.source.text).readline):
            if token.type == tokenize.COMMENT:
                line, start = token.start
                span = Span(self.source.path, line, start + 1, line, token.end[1] + 1)
                yield Comment(span, token.string, not token.line[:start].strip())

    def find_function(self) -> Span:
        """The name of the pipeline's function; the beginning of the file if it has none."""
        for function in self._list_functions()[:1]:
            if function.name == self.function:
                place = self.module.full_span(function)
                start = place.column + len("def ")
                return Span(place.path, place.line, start, place.line, start + len(function.name))
        return Span(self.source.path, 1, 1, 1, 1)

    def find_call(self, step: str) -> Span | None:
        """The function that is called for a step."""
        call = self._find_step(step)
        return None if call is None else self.module.full_span(call[1].func)

    def find_value(self, keys: Sequence[str]) -> Span | None:
        """The expression that sets a key of a step, ``("train", "inputs", "epochs")``; None without one."""
        if len(keys) < 2:
            return None
        step, *rest = keys
        if step == "compute":  # of the spec that a job was planned as
            return self._find_planned("instance_types", rest)
        if rest[0] == "scale":
            return self._find_planned("scale", [step, *rest[1:]])
        called = self._find_step(step)
        if called is None:
            return None
        function, call, variable = called
        for key in reversed([key for key in rest if key not in _CONTAINERS]):
            for name, value in self._list_settings(function, call, variable):
                if name == key:
                    return self.module.full_span(value)
        return None

    def _find_step(self, step: str) -> tuple[ast.FunctionDef, ast.Call, str] | None:
        """The function, the call and the variable of a step; the variable is empty if it has none."""
        for function in self._list_functions():
            calls = [
                (call, variable)
                for call, variable in _list_calls(function)
                if (variable or _NUMBERED.sub("", step)) == (step if variable else last_name(call))
            ]
            if calls:
                return function, *calls[0]
        return None

    def _list_settings(
        self, function: ast.FunctionDef, call: ast.Call, variable: str
    ) -> Iterator[tuple[str, ast.expr]]:
        """Names and values that a step gets: arguments and attributes of its own, and of what it calls."""
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and _is_of(node.targets[0], variable):
                yield last_name(node.targets[0]), node.value
            elif isinstance(node, ast.Call) and _is_of(node.func, variable):
                yield from _list_arguments(node)
        yield from _list_arguments(call)
        called = last_name(call)
        for node in self.module.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                target = node.targets[0]
                if isinstance(target, ast.Name) and target.id == called:
                    yield from _list_arguments(node.value)

    def _find_planned(self, argument: str, keys: Sequence[str]) -> Span | None:
        """A value in a dictionary that `worldsize.plan` takes; the innermost that is written there."""
        for _, call in self.module.calls:
            for name, value in _list_arguments(call):
                inner = _descend(value, keys) if name == argument else None
                if inner is not None:
                    return self.module.full_span(inner)
        return None


def _list_calls(function: ast.FunctionDef) -> Iterator[tuple[ast.Call, str]]:
    """The calls of a function that are statements, with the variable that each is assigned to."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr) and isinstance(node.value, ast.Call):
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if target is None or isinstance(target, ast.Name):
                yield node.value, target.id if isinstance(target, ast.Name) else ""


def _list_arguments(call: ast.Call) -> list[tuple[str, ast.expr]]:
    return [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg is not None]


def _is_of(node: ast.expr, variable: str) -> bool:
    """Whether this is an attribute of a variable, such as `train.resources.instance_count`."""
    return isinstance(node, ast.Attribute) and name_variable(node).startswith(f"{variable}.")


def _descend(node: ast.expr, keys: Sequence[str]) -> ast.expr | None:
    """The value of nested dictionaries below keys, as far as they are written; None without the first."""
    inner: ast.expr | None = node
    best = None if keys else node
    for key in keys:
        pairs = zip(inner.keys, inner.values, strict=True) if isinstance(inner, ast.Dict) else ()
        values = (value for name, value in pairs if isinstance(name, ast.Constant) and name.value == key)
        inner = next(values, None)
        if inner is None:
            break
        best = inner
    return best
