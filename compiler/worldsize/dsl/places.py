"""Points findings into the Python file of a pipeline: they are made on the YAML that it was written as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from worldsize.base import untrusted
from worldsize.base.problem import Related
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.checking import Report
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic, sort_unique
from worldsize.documents.diagnostics.snippet import Sources
from worldsize.documents.diagnostics.suppress import Suppression, apply_suppressions, parse_suppressions
from worldsize.documents.secrecy.reports import mask_findings
from worldsize.documents.yaml.nodes import Mapping as MappingNode
from worldsize.documents.yaml.nodes import Node
from worldsize.dsl.calls import PythonFile
from worldsize.rules import registry

PYTHON = "python.txt"  # beside a pipeline that was written as a file: its Python file and function
_STEPS = ("jobs", "steps")  # of a pipeline, and of the spec that it was planned as
_AS_WRITTEN = "the step as it was written for the check"


def point_report_into_python(report: Report) -> Report:
    """A report whose findings on written pipelines point into their Python files."""
    diagnostics, sources = point_into_python(report.diagnostics, report.sources, suppress_errors=True)
    written = {path: _open_python(path) for path in report.files}
    files = dict.fromkeys(path if file is None else file.path for path, file in written.items())
    return replace(report, diagnostics=tuple(diagnostics), sources=sources, files=tuple(files))


def point_into_python(
    diagnostics: Sequence[Diagnostic], sources: Sources, *, suppress_errors: bool = False
) -> tuple[list[Diagnostic], Sources]:
    """Findings on written pipelines with places in their Python files, and the texts of these as well.

    A finding points at the argument or attribute that it is about, else at the call of its step, else at the
    function of the pipeline. Comments in the Python file suppress it there: errors only if asked, because an
    error that stops a command has to be shown.
    """
    paths = {span.path for each in diagnostics for span in _spans(each)}
    files = {path: file for path in paths if (file := _open_python(path)) is not None}
    if not files:
        return list(diagnostics), sources
    roots = {path: _read_tree(path, sources) for path in files}
    moved = sort_unique(_move(each, files, roots) for each in diagnostics)
    marked = {file.path: file for file in files.values() if "worldsize" in file.source.text}
    suppressions = {path: _read_suppressions(file) for path, file in marked.items()}
    kept = apply_suppressions(moved, suppressions)
    if not suppress_errors:
        kept = [each for each in moved if each in kept or each.severity == "error"]
    return mask_findings(kept, {**sources, **{file.path: file.source for file in files.values()}})


def _read_suppressions(file: PythonFile) -> list[Suppression]:
    known = registry.names()
    return parse_suppressions([*file.list_comments()], known.__contains__, registry.names)[0]


def _spans(finding: Diagnostic) -> Iterator[Span]:
    yield finding.span
    yield from (related.span for related in finding.related)


def _open_python(path: str) -> PythonFile | None:
    """The file that a written pipeline comes from; None for any other file, or if it cannot be read."""
    parts = Path(path).parts
    if parts[-4:-2] != (".worldsize", "pipelines"):
        return None
    try:
        file, _, function = untrusted.read_text(Path(path).with_name(PYTHON)).strip().rpartition(":")
        return PythonFile(Source(file, untrusted.read_text(file)), function)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None


def _read_tree(path: str, sources: Sources) -> Node | None:
    return yaml.load(path, sources[path].text).root if path in sources else None


def _move(
    finding: Diagnostic, files: Mapping[str, PythonFile], roots: Mapping[str, Node | None]
) -> Diagnostic:
    related = []
    for each in finding.related:
        file = files.get(each.span.path)
        keys = _find_keys(roots.get(each.span.path), each.span)
        there = None if file is None else file.find_value(_strip(keys))
        related.append(each if there is None else Related(there, each.message))
    file = files.get(finding.span.path)
    if file is None:
        return replace(finding, related=tuple(related))
    keys = _find_keys(roots[finding.span.path], finding.span)
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
        found = None
        for key, value in node.entries:
            if (key.span.line, key.span.column) > at:
                break
            found = key, value
        if found is None:
            break
        keys.append(found[0].text)
        node = found[1]
    return keys
