"""The uses of a step, an input or an output in a document, and the edits that rename it."""

from __future__ import annotations

import re
from typing import NamedTuple

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from worldsize.azureml.binding import Expression
from worldsize.lsp.buffers import Buffer, Session
from worldsize.lsp.names import Names, open_names
from worldsize.lsp.outline import Path
from worldsize.lsp.positions import find_expression, list_expressions

_STEP = re.compile(r"[a-z_][a-z0-9_]*")  # as Azure ML allows it
_PORT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 255


class Uses(NamedTuple):
    """A name by the path of its key, the range at the cursor, and all ranges, its own key first."""

    path: Path
    here: tuple[int, int]
    ranges: list[tuple[int, int]]

    @property
    def name(self) -> str:
        """The name itself."""
        return str(self.path[-1])


def find_uses(names: Names, offset: int) -> Uses | None:
    """The name at an offset, as a key or in a binding; None where none is defined in this document."""
    path = _find_path(names, offset)
    entry = names.outline.entries.get(path) if path is not None else None
    if path is None or entry is None:
        return None
    quoted = names.text[entry.key_start] in "\"'"
    ranges = [(entry.key_start + quoted, entry.key_end - quoted)]
    for expression in list_expressions(names.text):
        ranges += [span for target, span in _list_targets(names, expression) if target == path]
    here = next((place for place in ranges if place[0] <= offset <= place[1]), None)
    return Uses(path, here, ranges) if here is not None else None


def _find_path(names: Names, offset: int) -> Path | None:
    expression = find_expression(names.text, offset)
    if expression is not None:
        targets = _list_targets(names, expression[0])
        return next((path for path, (start, end) in targets if start <= offset <= end), None)
    place = names.outline.at(offset)
    if place is None or place[1] != "key":
        return None
    path = place[0].path
    return path if _is_name(names, path) else None


def _is_name(names: Names, path: Path) -> bool:
    """Whether a key is the name of a step, or of an input or output of the document or a step."""
    if len(path) == 4:
        return names.find_side(path) is not None
    return len(path) == 2 and path[0] in (names.steps_key, "inputs", "outputs")


def _list_targets(names: Names, expression: Expression) -> list[tuple[Path, tuple[int, int]]]:
    """The keys that the parts of an expression name, each with the range of its part."""
    last = len(expression.parts) - 1
    side, port = expression.side, expression.port
    if expression.scope == "parent.jobs" and expression.step is not None:
        targets: list[tuple[Path, tuple[int, int]]] = [
            ((names.steps_key, expression.step), expression.part_range(2))
        ]
        if side is not None and port is not None and last == 4:
            path = (names.steps_key, expression.step, names.key_of(side), port)
            targets.append((path, expression.part_range(4)))
        return targets
    if side is None or port is None or "." in port:
        return []
    place = names.outline.at(expression.start) if expression.scope != f"parent.{side}" else None
    step = names.find_step(place[0].path) if place is not None else None
    target: Path = (side, port) if step is None else (names.steps_key, step, names.key_of(side), port)
    return [(target, expression.part_range(last))]


class RefusedError(JsonRpcException):
    """A rename that cannot be done; the editor shows the reason."""

    CODE = -32803
    MESSAGE = "the name cannot be changed"


def _find(session: Session, buffer: Buffer, position: types.Position) -> tuple[Names, Uses] | None:
    opened = open_names(session, buffer, position)
    uses = find_uses(*opened) if opened is not None else None
    return (opened[0], uses) if opened is not None and uses is not None else None


def prepare_rename(
    session: Session, buffer: Buffer, params: types.PrepareRenameParams
) -> types.PrepareRenamePlaceholder | None:
    """The name that a rename would change; None if there is none at the position.

    Raises:
        RefusedError: The name belongs to a component.
    """
    named = _find(session, buffer, params.position)
    if named is None:
        return None
    names, uses = named
    _refuse_name_of_component(names, uses)
    return types.PrepareRenamePlaceholder(names.to_range(*uses.here), uses.name)


def rename(session: Session, buffer: Buffer, params: types.RenameParams) -> types.WorkspaceEdit | None:
    """The edits that give a step, an input or an output another name.

    Raises:
        RefusedError: The name is not allowed, is taken, or belongs to a component.
    """
    named = _find(session, buffer, params.position)
    if named is None:
        raise RefusedError(
            "there is no name to change here: put the cursor on that of a step, input or output"
        )
    names, uses = named
    _refuse_name_of_component(names, uses)
    _refuse_new_name(names, uses, params.new_name)
    edits = [types.TextEdit(names.to_range(*place), params.new_name) for place in uses.ranges]
    return types.WorkspaceEdit(changes={buffer.uri: edits})


def _refuse_name_of_component(names: Names, uses: Uses) -> None:
    reference = names.find_reference(str(uses.path[1])) if len(uses.path) == 4 else None
    if reference is not None:
        raise RefusedError(f"`{uses.name}` is a name of the component `{reference}`: change it there")


def _refuse_new_name(names: Names, uses: Uses, new: str) -> None:
    is_step = uses.path[:-1] == (names.steps_key,)
    what = "a step" if is_step else "an output" if uses.path[-2] == "outputs" else "an input"
    if not (_STEP if is_step else _PORT).fullmatch(new) or len(new) > _LONGEST:
        shown = new if len(new) <= 60 else f"{new[:59]}…"
        letter = "lower-case letter" if is_step else "letter"
        raise RefusedError(
            f"`{shown}` is not a name of {what}: write a {letter} or `_`, then letters, digits and `_`"
        )
    if new != uses.name and new in names.outline.children(uses.path[:-1]):
        raise RefusedError(f"there is {what} `{new}` already")


def find_references(
    session: Session, buffer: Buffer, params: types.ReferenceParams
) -> list[types.Location] | None:
    """Where a step, an input or an output is named."""
    named = _find(session, buffer, params.position)
    if named is None:
        return None
    names, uses = named
    ranges = uses.ranges if params.context.include_declaration else uses.ranges[1:]
    return [types.Location(buffer.uri, names.to_range(*place)) for place in ranges]


_SECTIONS = {
    "compute": types.SymbolKind.Object,
    "inputs": types.SymbolKind.Field,
    "outputs": types.SymbolKind.Interface,
    "steps": types.SymbolKind.Function,
    "jobs": types.SymbolKind.Function,
}


def list_symbols(
    session: Session, buffer: Buffer, _params: types.DocumentSymbolParams
) -> list[types.DocumentSymbol] | None:
    """Steps with their inputs and outputs, those of the document, and compute profiles."""
    names = Names(session, buffer, buffer.source)
    return _list_sections(names) if buffer.is_yaml and names.kind else None


def _list_sections(names: Names) -> list[types.DocumentSymbol]:
    ends: dict[Path, int] = {}  # of a key with all that is below it
    below: dict[Path, list[Path]] = {}
    for path, entry in names.outline.entries.items():
        below.setdefault(path[:-1], []).append(path)
        for depth in range(1, min(len(path), 4) + 1):
            ends[path[:depth]] = max(ends.get(path[:depth], 0), entry.value_end)

    def make(
        path: Path, kind: types.SymbolKind, children: list[types.DocumentSymbol]
    ) -> types.DocumentSymbol:
        entry = names.outline.entries[path]
        start, end = entry.key_start, max(entry.key_end, ends[path])
        return types.DocumentSymbol(
            str(path[-1]) or "-",  # an editor refuses a symbol without a name
            kind,
            names.to_range(start, end),
            names.to_range(start, max(start, entry.key_end)),
            detail=_describe(names, path),
            children=children,
        )

    def list_ports(step: Path) -> list[types.DocumentSymbol]:
        keys = ((names.inputs_key, types.SymbolKind.Field), ("outputs", types.SymbolKind.Interface))
        return [make(path, kind, []) for key, kind in keys for path in below.get((*step, key), [])]

    def list_names(section: Path) -> list[types.DocumentSymbol]:
        kind = _SECTIONS[str(section[0])]
        has_ports = kind == types.SymbolKind.Function
        return [make(path, kind, list_ports(path) if has_ports else []) for path in below.get(section, [])]

    sections = [path for path in below.get((), []) if path[0] in _SECTIONS and below.get(path)]
    return [make(path, types.SymbolKind.Namespace, list_names(path)) for path in sections]


def _describe(names: Names, path: Path) -> str | None:
    """The most useful detail of a name: its component, VM size, type or value."""
    value = names.outline.value(*path) or ""
    keys = ("uses", "component", "trial", "command", "instance_type", "type")
    values = (names.outline.value(*path, key) for key in keys if len(path) == 2)
    text = next((text for text in values if text), "" if value[:1] in ("{", "[", "|", ">") else value)
    return " ".join(text.split())[:80] or None
