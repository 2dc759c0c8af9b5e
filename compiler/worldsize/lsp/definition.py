"""Go to definition: the component, script, cluster, port, step or file that a word names."""

from __future__ import annotations

import re
from pathlib import Path

from lsprotocol import types

from worldsize.azureml.binding import Expression
from worldsize.azureml.references import is_file, local_path
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.lsp.buffers import Buffer, Session
from worldsize.lsp.names import Names
from worldsize.lsp.outline import Entry
from worldsize.lsp.outline import Path as KeyPath
from worldsize.lsp.positions import find_expression

_WORD = re.compile(r"[\w./-]+")


def find_definition(
    session: Session, buffer: Buffer, params: types.DefinitionParams
) -> types.Location | None:
    """Where the word at a position is defined."""
    if not buffer.is_yaml:
        return None
    text = buffer.source.text
    offset = session.buffers.positions.to_offset(buffer.source, params.position)
    names = Names(buffer.path, text, session.buffers)
    if not names.kind:
        return None
    finder = _Finder(session, buffer, names)
    hit = names.outline.at(offset)
    expression = find_expression(text, offset)
    if expression is not None:
        return finder.find_expression(*expression, hit[0].path if hit else ())
    if hit is None:
        return None
    entry, part = hit
    if part == "key":
        return finder.find_port_of_key(entry)
    return finder.find_value(entry, offset)


class _Finder:
    """One request."""

    def __init__(self, session: Session, buffer: Buffer, names: Names) -> None:
        self.session, self.buffer, self.names = session, buffer, names

    def locate_entry(self, path: KeyPath) -> types.Location | None:
        """The key at a path of this document."""
        entry = self.names.outline.entries.get(path)
        if entry is None:
            return None
        positions = self.session.buffers.positions
        range_ = positions.to_range(self.buffer.source, entry.key_start, entry.key_end)
        return types.Location(self.buffer.uri, range_)

    def locate_span(self, span: Span | None) -> types.Location | None:
        """A place in any file."""
        if span is None:
            return None
        buffers = self.session.buffers
        source: Source | None = buffers.read(span.path)
        return types.Location(buffers.uri_of(span.path), buffers.positions.span_to_range(source, span))

    def locate_file(self, path: Path | None) -> types.Location | None:
        """The start of a file."""
        if path is None or not is_file(path):
            return None
        return self.locate_span(Span(str(path), 1, 1, 1, 1))

    def find_port_of_key(self, entry: Entry) -> types.Location | None:
        """The input or output of the component that a key under `with:` gives a value."""
        path, step = entry.path, self.names.find_step(entry.path)
        if step is None or len(path) != 4 or path[2] not in (self.names.inputs_key, "outputs"):
            return None
        port = self.names.list_ports(step, "outputs" if path[2] == "outputs" else "inputs").get(str(path[3]))
        return self.locate_span(port.span if port is not None else None)

    def find_expression(self, expression: Expression, index: int, path: KeyPath) -> types.Location | None:
        """The step, input or output that a part of `${{…}}` names."""
        names, step = self.names, self.names.find_step(path)
        if expression.scope == "parent.jobs" and expression.step is not None:
            side, port_name = expression.side, expression.port
            if side is None or port_name is None or index < 3:
                return self.locate_entry((names.steps_key, expression.step))
            port = names.list_ports(expression.step, side).get(port_name)
            key = names.inputs_key if side == "inputs" else "outputs"
            return (
                self.locate_span(port.span if port is not None else None)
                or self.locate_entry((names.steps_key, expression.step, key, port_name))
                or self.locate_entry((names.steps_key, expression.step))
            )
        if expression.scope in ("parent.inputs", "parent.outputs") and expression.port is not None:
            return self.locate_entry((expression.scope.partition(".")[2], expression.port))
        if expression.side is not None and expression.port is not None:
            key = names.inputs_key if expression.side == "inputs" else "outputs"
            base = (
                self.locate_entry((names.steps_key, step, key, expression.port)) if step is not None else None
            )
            return base or self.locate_entry((expression.side, expression.port))
        return None

    def find_value(self, entry: Entry, offset: int) -> types.Location | None:
        """What a value names: a component, a cluster, or a file."""
        value = self.names.outline.value(*entry.path) or ""
        key = entry.path[-1]
        if key in ("uses", "component", "trial"):
            return self.locate_file(self.names.find_component_file(value))
        if key in ("compute", "target", "default_compute"):
            return self._find_compute(value)
        return self._find_file(entry, value, offset)

    def _find_compute(self, value: str) -> types.Location | None:
        """The profile of a spec, or the definition of a cluster in `worldsize.yml` or a compute file."""
        if self.names.is_spec and ("compute", value) in self.names.outline.entries:
            return self.locate_entry(("compute", value))
        run = self.session.recall_resolved(self.buffer).run
        cluster = run.context.cluster(value) if run is not None else None
        if cluster is None:
            return None
        return self.locate_span(cluster.size_span or cluster.max_span or cluster.tier_span)

    def _find_file(self, entry: Entry, value: str, offset: int) -> types.Location | None:
        """A file that a value, or a word of a command, names; relative to `code:` or to the document."""
        folder = Path(self.buffer.path).parent
        whole = local_path(value, folder) if value and len(value) < 400 and "\n" not in value else None
        if whole is not None and is_file(whole):
            return self.locate_file(whole)
        text = self.buffer.source.text
        start, end = max(entry.value_start, offset - 400), min(entry.value_end, offset + 400)
        word = next(
            (
                match.group()
                for match in _WORD.finditer(text, start, end)
                if match.start() <= offset <= match.end()
            ),
            "",
        )
        if not word or ("." not in word and "/" not in word):
            return None
        code = self.names.outline.value(*entry.path[:-1], "code")
        places = [local_path(code, folder)] if code else []
        for place in (*places, folder):
            file = local_path(word, place) if place is not None else None
            if file is not None and is_file(file):
                return self.locate_file(file)
        return None
