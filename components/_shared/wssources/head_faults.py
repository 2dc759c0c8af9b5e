"""What the first rows of a table show to be a fault of a whole column, not of one cell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from wsshards.errors import UserError, clip_text
from wssources.column_kinds import MAX_CATEGORIES, MISSING_NUMBERS, find_date_forms, find_odd_date
from wssources.tasks import FEW_VALUES, LabelValues

_DECIMAL_COMMA = re.compile(r"\A[+-]?[0-9]+,[0-9]+")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
_OTHER_DATE = re.compile(
    r"[0-9]{1,2}([./-])[0-9]{1,2}\1([0-9]{4}|[0-9]{2})( .*)?|[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}( .*)?"
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*")


def check_notation(name: str, values: Iterable[Any], called: str) -> None:
    """Refuse texts that are numbers or dates in a form that is not read, and would become categories.

    Raises:
        UserError: saying the form, with an example.
    """
    texts = {text for value in values if value is not None and (text := str(value).strip())}
    texts.difference_update(MISSING_NUMBERS)
    column = f"column `{clip_text(name)}` of `{called}`"
    wrong = min((text for text in texts if _OTHER_DATE.fullmatch(text)), default="")
    if wrong and all(_OTHER_DATE.fullmatch(text) or _ISO_DATE.fullmatch(text) for text in texts):
        form, odd = find_odd_date(texts)
        if form:
            raise UserError(
                f"{column} has `{clip_text(odd)}` among dates of the form `{form}`",
                "correct it, or write all dates as `2026-01-31`",
            )
        raise UserError(
            f"{column} has dates such as `{clip_text(wrong)}`, of which the day and the month are not"
            " certain",
            f"write dates as `2026-01-31`, or say what they are: {_list_kinds(name, texts)}",
        )
    if len(texts) <= FEW_VALUES:
        return
    for notation, what, option in (
        (_THOUSANDS, "with separators of thousands", "thousands"),
        (_DECIMAL_COMMA, "with decimal commas", "decimal"),
    ):
        wrong = min((text for text in texts if notation.fullmatch(text)), default="")
        if wrong and all(notation.fullmatch(text) or _NUMBER.fullmatch(text) for text in texts):
            raise UserError(
                f"{column} has numbers {what}, such as `{clip_text(wrong)}`",
                f"write plain numbers: `pandas.read_csv(…, {option}=',').to_csv(…, index=False)`"
                + (f", or say `column_types: {name}=category`" if len(texts) <= MAX_CATEGORIES else ""),
            )


def _list_kinds(name: str, texts: Iterable[str]) -> str:
    kinds = [f"date {form}" for form in find_date_forms(texts)] or ["category"]
    return " or ".join(f"`column_types: {name}={kind}`" for kind in kinds)


def check_has_values(name: str, values: Sequence[Any], called: str) -> None:
    """Refuse a column of features without a single value; raises UserError."""
    if values and all(value is None or value == "" or value in MISSING_NUMBERS for value in values):
        raise UserError(
            f"column `{clip_text(name)}` of `{called}` has no value in any of {len(values):,} rows",
            "leave it out: name the other columns in `features`, as in `features: age,income`",
        )


def check_targets_differ(labels: Iterable[LabelValues], called: str) -> None:
    """Refuse a target that is the same number in every row; raises UserError."""
    for label in labels:
        if label.rows > 1 and len(label.distinct) == 1:
            raise UserError(
                f"all {label.rows:,} rows of `{called}` have `{next(iter(label.distinct))}` in label"
                f" `{clip_text(label.name)}`",
                "name a column of numbers that differ: from one number nothing can be learned",
            )
