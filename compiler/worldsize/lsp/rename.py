"""Renames a step, an input or an output with every binding to it, and lists where it is used."""

from __future__ import annotations

import re

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from worldsize.lsp.buffers import Buffer
from worldsize.lsp.names import Names
from worldsize.lsp.references import Uses, find_owner, find_uses
from worldsize.lsp.session import Session

_STEP = re.compile(r"[a-z_][a-z0-9_]*")  # as Azure ML allows it
_PORT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 255


class RefusedError(JsonRpcException):
    """A rename that cannot be done; the editor shows the reason."""

    CODE = -32803
    MESSAGE = "the name cannot be changed"


def _find(session: Session, buffer: Buffer, position: types.Position) -> tuple[Names, Uses | None]:
    names = Names(buffer.path, buffer.source.text, session.buffers)
    offset = session.buffers.positions.to_offset(buffer.source, position)
    return names, find_uses(names, offset) if buffer.is_yaml else None


def prepare_rename(
    session: Session, buffer: Buffer, params: types.PrepareRenameParams
) -> types.PrepareRenamePlaceholder | None:
    """The name that would be changed; None where there is none.

    Raises:
        RefusedError: The name belongs to a component.
    """
    names, uses = _find(session, buffer, params.position)
    if uses is None:
        return None
    _refuse_name_of_component(names, uses)
    range_ = session.buffers.positions.to_range(buffer.source, *uses.here)
    return types.PrepareRenamePlaceholder(range_, uses.name)


def rename(session: Session, buffer: Buffer, params: types.RenameParams) -> types.WorkspaceEdit | None:
    """The edits that give a step, an input or an output another name.

    Raises:
        RefusedError: The name is none that it can have, is taken, or belongs to a component.
    """
    names, uses = _find(session, buffer, params.position)
    if uses is None:
        raise RefusedError(
            "there is no name to change here: put the cursor on that of a step, input or output"
        )
    _refuse_name_of_component(names, uses)
    _refuse_new_name(names, uses, params.new_name)
    positions = session.buffers.positions
    edits = [
        types.TextEdit(positions.to_range(buffer.source, *each), params.new_name) for each in uses.ranges
    ]
    return types.WorkspaceEdit(changes={buffer.uri: edits})


def _refuse_name_of_component(names: Names, uses: Uses) -> None:
    owner = find_owner(names, uses.path)
    if owner is not None:
        raise RefusedError(f"`{uses.name}` is a name of the component `{owner}`: change it there")


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
    uses = _find(session, buffer, params.position)[1]
    if uses is None:
        return None
    ranges = uses.ranges if params.context.include_declaration else uses.ranges[1:]
    positions = session.buffers.positions
    return [types.Location(buffer.uri, positions.to_range(buffer.source, *each)) for each in ranges]
