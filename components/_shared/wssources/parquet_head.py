"""What a type of Arrow holds, as the kind of a table's column."""

from __future__ import annotations

from typing import Any

from wsshards.terms import BOOLEAN, CATEGORY, DATE, NUMBER


def kind_of_type(kind: Any) -> str | None:
    """Return the kind of column that values of an Arrow type are, or None if they are no value of a feature.

    Text is `category`, which its values may show to be dates.
    """
    from pyarrow import types  # heavy, and only this format needs it

    if types.is_dictionary(kind):
        return kind_of_type(kind.value_type)
    if types.is_boolean(kind):
        return BOOLEAN
    if types.is_date(kind) or types.is_timestamp(kind):
        return DATE
    if types.is_string(kind) or types.is_large_string(kind):
        return CATEGORY
    number = (
        types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)
    )
    return NUMBER if number else None
