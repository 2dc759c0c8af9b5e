"""Which array of an `.npz` archive holds the labels, and which the features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from wsshards.errors import UserError, clip_text
from wssources.formats import LABEL_ARRAYS
from wssources.input_error import suggest
from wssources.request import Request


def find_label(request: Request, file: Path, names: Iterable[str]) -> str:
    """Return the name of the array of labels; raises UserError if there is none."""
    known = list(names)
    found = next((name for name in (request.label, *LABEL_ARRAYS) if name in known), None)
    if found is None:
        raise UserError(
            f"`{request.show(file)}` has no label array `{request.label}`", suggest(request.label, known)
        )
    return found


def find_features(request: Request, file: Path, shapes: Mapping[str, tuple[int, ...]], label: str) -> str:
    """Return the name of the array of features.

    Raises:
        UserError: there is not exactly one, or it has another number of rows than the labels.
    """
    rest = list(request.features) or [name for name in shapes if name != label]
    if len(rest) != 1 or rest[0] not in shapes:
        shown = ", ".join(f"`{clip_text(name)}`" for name in [*shapes][:12])
        raise UserError(
            f"`{request.show(file)}` holds {shown}: one array of features and one of labels are needed",
            "name the array of features in `features` and the array of labels in `label`",
        )
    shape, rows = shapes[rest[0]], shapes[label]
    if not 1 <= len(rows) <= 2 or not shape or rows[0] != shape[0] or 0 in rows[1:]:
        raise UserError(
            f"in `{request.show(file)}`, `{rest[0]}` has shape {list(shape)} and `{label}` {list(rows)}",
            "give one label for each row of features",
        )
    return rest[0]


def name_targets(label: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names of the columns of an array of labels `[n]` or `[n, targets]`."""
    count = shape[0] if shape else 1
    return (label,) if count == 1 else tuple(f"{label}_{place}" for place in range(count))
