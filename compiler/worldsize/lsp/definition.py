"""Go to definition: the component, script, cluster, port, step or file that a word names."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from lsprotocol import types

from worldsize.azureml.binding import Expression
from worldsize.azureml.references import is_file, local_path
from worldsize.base.span import Span
from worldsize.checking import discover
from worldsize.documents.yaml.nodes import Scalar
from worldsize.lsp.buffers import Buffer, Session
from worldsize.lsp.names import Names, open_names
from worldsize.lsp.outline import Entry
from worldsize.lsp.outline import Path as KeyPath
from worldsize.lsp.positions import find_expression

_WORD = re.compile(r"[\w./-]+")
_REFERENCE = re.compile(r"(?P<prefix>azureml:)?(?P<name>[\w.-]+)(?::(?P<version>[\w.-]+)|@latest)?")
_ASSETS = (
    "data",
    "model",
    "environment",
    *(f"{kind}-component" for kind in ("command", "pipeline", "parallel")),
)


def find_definition(
    session: Session, buffer: Buffer, params: types.DefinitionParams
) -> types.Location | None:
    """Where the word at a position is defined."""
    opened = open_names(session, buffer, params.position)
    if opened is None:
        return None
    names, offset = opened
    hit = names.outline.at(offset)
    expression = find_expression(names.text, offset)
    if expression is not None:
        return _find_target(names, *expression, hit[0].path if hit else ())
    if hit is None:
        return None
    entry, part = hit
    if part == "value":
        return _find_value(names, entry, offset)
    port = names.find_port(entry.path)  # of the component, to which a key under `with:` gives a value
    return _locate_span(names, port.span if port is not None else None)


def _locate_entry(names: Names, path: KeyPath) -> types.Location | None:
    """The key at a path of this document."""
    entry = names.outline.entries.get(path)
    if entry is None:
        return None
    return types.Location(names.buffer.uri, names.to_range(entry.key_start, entry.key_end))


def _locate_span(names: Names, span: Span | None) -> types.Location | None:
    """A place in any file."""
    if span is None:
        return None
    buffers = names.session.buffers
    range_ = buffers.positions.span_to_range(buffers.read(span.path), span)
    return types.Location(buffers.uri_of(span.path), range_)


def _locate_file(names: Names, path: Path | None) -> types.Location | None:
    """The start of a file."""
    if path is None or not is_file(path):
        return None
    return _locate_span(names, Span(str(path), 1, 1, 1, 1))


def _find_target(names: Names, expression: Expression, index: int, path: KeyPath) -> types.Location | None:
    """The step, input or output that a part of `${{…}}` names."""
    step = names.find_step(path)
    if expression.scope == "parent.jobs" and expression.step is not None:
        side, port_name = expression.side, expression.port
        if side is None or port_name is None or index < 3:
            return _locate_entry(names, (names.steps_key, expression.step))
        port = names.list_ports(expression.step, side).get(port_name)
        return (
            _locate_span(names, port.span if port is not None else None)
            or _locate_entry(names, (names.steps_key, expression.step, names.key_of(side), port_name))
            or _locate_entry(names, (names.steps_key, expression.step))
        )
    if expression.scope in ("parent.inputs", "parent.outputs") and expression.port is not None:
        return _locate_entry(names, (expression.scope.partition(".")[2], expression.port))
    if expression.side is not None and expression.port is not None:
        key = names.key_of(expression.side)
        here = (names.steps_key, step, key, expression.port) if step is not None else ()
        return _locate_entry(names, here) or _locate_entry(names, (expression.side, expression.port))
    return None


def _find_value(names: Names, entry: Entry, offset: int) -> types.Location | None:
    """What a value names: a component, a cluster, or a file."""
    value = names.outline.value(*entry.path) or ""
    key = entry.path[-1]
    if key in ("uses", "component", "trial"):
        file = _locate_file(names, names.find_component_file(value))
        return file or _find_declared(names, value, _ASSETS)
    if key in ("compute", "target", "default_compute"):
        return _find_compute(names, value) or _find_declared(names, value, ("compute",))
    if key == "endpoint_name":
        return _find_declared(names, value, ("online-endpoint", "batch-endpoint"))
    return _find_declared(names, value, _ASSETS) or _find_file(names, entry, value, offset)


def _find_declared(names: Names, value: str, kinds: Collection[str]) -> types.Location | None:
    """The name in the file of the project that declares what a reference such as `azureml:rows:1` names."""
    match = _REFERENCE.fullmatch(value)
    if match is None or (match["prefix"] is None and kinds is _ASSETS):
        return None
    tree = discover.find_project(names.folder) or str(names.folder)
    for _, kind, root in discover.find_declared(tree, match["name"]):
        name, version = root.get("name"), root.get("version")
        other = match["version"] and isinstance(version, Scalar) and version.text != match["version"]
        if kind in kinds and name is not None and not other:
            return _locate_span(names, name.span)
    return None


def _find_compute(names: Names, value: str) -> types.Location | None:
    """The profile of a spec, or the definition of a cluster in `worldsize.yml` or a compute file."""
    if names.is_spec and ("compute", value) in names.outline.entries:
        return _locate_entry(names, ("compute", value))
    run = names.session.recall_resolved(names.buffer).run
    cluster = run.context.cluster(value) if run is not None else None
    if cluster is None:
        return None
    return _locate_span(names, cluster.size_span or cluster.max_span or cluster.tier_span)


def _find_file(names: Names, entry: Entry, value: str, offset: int) -> types.Location | None:
    """A file that a value, or a word of a command, names; relative to `code:` or to the document."""
    folder = names.folder
    whole = local_path(value, folder) if value and len(value) < 400 and "\n" not in value else None
    if whole is not None and is_file(whole):
        return _locate_file(names, whole)
    text = names.text
    start, end = max(entry.value_start, offset - 400), min(entry.value_end, offset + 400)
    words = (match for match in _WORD.finditer(text, start, end) if match.end() >= offset)
    match = next(words, None)
    word = match.group() if match is not None and match.start() <= offset else ""
    if "." not in word and "/" not in word:
        return None
    code = names.outline.value(*entry.path[:-1], "code")
    places = [local_path(code, folder)] if code else []
    for place in (*places, folder):
        file = local_path(word, place) if place is not None else None
        if file is not None and is_file(file):
            return _locate_file(names, file)
    return None
