"""Classes that are probably misspelt: two that differ in capitals or blanks, and one of a single row."""

from __future__ import annotations

from collections.abc import Mapping

from wsshards.errors import UserError, clip_text
from wssources.tasks import FEW_VALUES

_MANY_ROWS = 100  # of which each of a few classes should have more than one


def describe_doubtful(labels: Mapping[str, int], called: str, *, complete: bool) -> UserError | None:
    """Describe the first doubtful class.

    Args:
        labels: rows by class.
        called: what messages call the data.
        complete: whether all rows were read.
    """
    alike: dict[str, str] = {}
    for name in sorted(labels):
        visible = "".join(sign if sign.isprintable() else " " for sign in name)
        other = alike.setdefault(" ".join(visible.split()).casefold(), name)
        if other != name:
            return UserError(
                f"`{clip_text(other)}` and `{clip_text(name)}` of `{called}` are two classes that differ in"
                " capitals, blanks or invisible characters alone",
                "write them alike, unless they are meant to be two",
            )
    rows = sum(labels.values())
    single = next((name for name, count in sorted(labels.items()) if count == 1), None)
    if single is None or not complete or rows < _MANY_ROWS or len(labels) > FEW_VALUES:
        return None
    return UserError(
        f"class `{clip_text(single)}` of `{called}` has 1 of {rows:,} rows, so nothing validates it",
        "correct it if it is misspelt, else give it more rows or leave it out",
    )
