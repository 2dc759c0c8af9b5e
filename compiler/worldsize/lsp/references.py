"""Where a name of a document stands: a step, an input or an output, with every `${{…}}` that says it."""

from __future__ import annotations

from typing import NamedTuple

from worldsize.azureml.binding import Expression
from worldsize.lsp.names import Names
from worldsize.lsp.outline import Path
from worldsize.lsp.places import find_expression, list_expressions


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
    if path is None or entry is None or not names.kind:
        return None
    quoted = names.text[entry.key_start] in "\"'"
    ranges = [(entry.key_start + quoted, entry.key_end - quoted)]
    for expression in list_expressions(names.text):
        ranges += [span for target, span in _list_targets(names, expression) if target == path]
    here = next((each for each in ranges if each[0] <= offset <= each[1]), None)
    return Uses(path, here, ranges) if here is not None else None


def find_owner(names: Names, path: Path) -> str | None:
    """The component that an input or output of a step belongs to, as the step names it."""
    reference = names.find_reference(str(path[1])) if len(path) == 4 else None
    return reference[0] if reference is not None else None


def _find_path(names: Names, offset: int) -> Path | None:
    found = find_expression(names.text, offset)
    if found is not None:
        targets = _list_targets(names, found[0])
        return next((path for path, (start, end) in targets if start <= offset <= end), None)
    place = names.outline.at(offset)
    if place is None or place[1] != "key":
        return None
    path = place[0].path
    return path if _is_name(names, path) else None


def _is_name(names: Names, path: Path) -> bool:
    """Whether a key is the name of a step, or of an input or output of the document or a step."""
    if len(path) == 4 and path[0] == names.steps_key:
        return path[2] in (names.inputs_key, "outputs")
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
            key = names.inputs_key if side == "inputs" else "outputs"
            targets.append(((names.steps_key, expression.step, key, port), expression.part_range(4)))
        return targets
    if side is None or port is None or "." in port:
        return []
    if expression.scope == f"parent.{side}":
        return [((side, port), expression.part_range(last))]
    place = names.outline.at(expression.start)
    step = names.find_step(place[0].path) if place is not None else None
    if step is None:
        return [((side, port), expression.part_range(last))]
    key = names.inputs_key if side == "inputs" else "outputs"
    return [((names.steps_key, step, key, port), expression.part_range(last))]
