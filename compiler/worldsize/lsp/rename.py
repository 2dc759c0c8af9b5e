"""Renames a step with every binding to it, and lists where a step is used."""

from __future__ import annotations

import re
from typing import NamedTuple

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from worldsize.lsp.buffers import Buffer
from worldsize.lsp.names import Names
from worldsize.lsp.places import find_expression, list_expressions
from worldsize.lsp.session import Session

_NAME = re.compile(r"[a-z_][a-z0-9_]*")  # as Azure ML allows it
_LONGEST = 255


class RefusedError(JsonRpcException):
    """A rename that cannot be done; the editor shows the reason."""

    CODE = -32803
    MESSAGE = "the step cannot be renamed"


class Uses(NamedTuple):
    """A step, the range of its name at the cursor, and all ranges of its name, its own key first."""

    step: str
    here: tuple[int, int]
    ranges: list[tuple[int, int]]


def find_uses(session: Session, buffer: Buffer, position: types.Position) -> Uses | None:
    """The step whose name is at a position, as a key or in a binding."""
    if not buffer.is_yaml:
        return None
    text = buffer.source.text
    offset = session.buffers.positions.to_offset(buffer.source, position)
    names = Names(buffer.path, text, session.buffers)
    step = _find_step(names, offset)
    if not names.kind or step is None:
        return None
    entry = names.outline.entries.get((names.steps_key, step))
    if entry is None:
        return None
    quoted = text[entry.key_start] in "\"'"
    ranges = [(entry.key_start + quoted, entry.key_end - quoted)]
    ranges += [each.part_range(2) for each in list_expressions(text) if each.step == step]
    here = next((each for each in ranges if each[0] <= offset <= each[1]), None)
    return Uses(step, here, ranges) if here is not None else None


def _find_step(names: Names, offset: int) -> str | None:
    expression = find_expression(names.text, offset)
    if expression is not None:
        return expression[0].step
    found = names.outline.at(offset)
    if found is None or found[1] != "key" or len(found[0].path) != 2:
        return None
    return names.find_step(found[0].path)


def prepare_rename(
    session: Session, buffer: Buffer, params: types.PrepareRenameParams
) -> types.PrepareRenamePlaceholder | None:
    """The name that would be changed; None where there is no step."""
    uses = find_uses(session, buffer, params.position)
    if uses is None:
        return None
    range_ = session.buffers.positions.to_range(buffer.source, *uses.here)
    return types.PrepareRenamePlaceholder(range_, uses.step)


def rename(session: Session, buffer: Buffer, params: types.RenameParams) -> types.WorkspaceEdit | None:
    """The edits that give a step another name.

    Raises:
        RefusedError: The name is not one that a step can have, or another step has it.
    """
    uses = find_uses(session, buffer, params.position)
    if uses is None:
        raise RefusedError("there is no step here: put the cursor on the name of a step")
    new = params.new_name
    if not _NAME.fullmatch(new) or len(new) > _LONGEST:
        shown = new if len(new) <= 60 else f"{new[:59]}…"
        raise RefusedError(
            f"`{shown}` is not a name of a step: write a lower-case letter or `_`, then letters,"
            " digits and `_`"
        )
    names = Names(buffer.path, buffer.source.text, session.buffers)
    if new != uses.step and new in names.steps:
        raise RefusedError(f"there is a step `{new}` already")
    positions = session.buffers.positions
    edits = [types.TextEdit(positions.to_range(buffer.source, *each), new) for each in uses.ranges]
    return types.WorkspaceEdit(changes={buffer.uri: edits})


def find_references(
    session: Session, buffer: Buffer, params: types.ReferenceParams
) -> list[types.Location] | None:
    """Where a step is named."""
    uses = find_uses(session, buffer, params.position)
    if uses is None:
        return None
    ranges = uses.ranges if params.context.include_declaration else uses.ranges[1:]
    positions = session.buffers.positions
    return [types.Location(buffer.uri, positions.to_range(buffer.source, *each)) for each in ranges]
