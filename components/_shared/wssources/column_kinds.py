"""What the columns of a table hold, decided from their values, and how a date is read."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wsshards.errors import UserError, clip_text
from wsshards.terms import BOOLEAN, CATEGORY, COLUMN_KINDS, DATE, NUMBER
from wssources.formats import MAX_CLASS_NAME
from wssources.input_error import suggest
from wssources.name_lists import split_names

MAX_CATEGORIES = 1_000  # of a column
MISSING_NUMBERS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")  # in a column of numbers
_IDS_ROWS, _IDS_SHARE = 20, 0.9  # from so many rows on, a text that so many rows have alone is no category
_ODD_SAMPLE = 200  # dates on which all forms are tried
_DAY = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
# What is tried on dates that are not in ISO 8601; where two of them fit all values, neither is taken.
_ORDERS = ("%d{0}%m{0}%Y", "%m{0}%d{0}%Y", "%Y{0}%m{0}%d", "%d{0}%m{0}%y", "%m{0}%d{0}%y", "%y{0}%m{0}%d")
_DATE_FORMS = [
    order.format(sign) + time for sign in "/.-" for order in _ORDERS for time in ("", " %H:%M", " %H:%M:%S")
]
_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6})\d{0,3})?)?(Z|[+-]\d\d(?::?\d\d)?)?)?"
)


def parse_column_types(text: str) -> dict[str, str]:
    """Return the kinds in `zip=category, opened=date, seen=date %d/%m/%Y`; see :func:`split_kind`.

    Raises:
        UserError: a pair has no `=`, or names no kind, or the form of its dates does not tell the day.
    """
    kinds = {}
    for pair in split_names(text):
        name, sign, kind = (part.strip() for part in pair.rpartition("="))
        if not sign or not name:
            raise UserError(
                f"`column_types` has `{clip_text(pair)}`, not a column, `=` and a kind",
                "write for example `zip=category,opened=date`",
            )
        word, form = split_kind(kind)
        if word not in COLUMN_KINDS or (form and word != DATE):
            raise UserError(
                f"`column_types` has the unknown kind `{clip_text(kind)}`", suggest(word, COLUMN_KINDS)
            )
        if form and not _tells_day(form):
            raise UserError(
                f"`column_types` has the dates `{clip_text(form)}`, which do not tell year, month and day",
                "write the form as Python's `strptime` takes it, such as `date %d/%m/%Y`",
            )
        kinds[name] = kind
    return kinds


def split_kind(text: str) -> tuple[str, str]:
    """Return a kind, and the form of its dates for `strptime`, or nothing for ISO 8601."""
    kind, _, form = text.partition(" ")
    return kind, form.strip()


def _tells_day(form: str) -> bool:
    moment = dt.datetime(2003, 4, 5)
    try:
        return dt.datetime.strptime(moment.strftime(form), form).date() == moment.date()
    except ValueError:
        return False


def find_date_forms(values: Iterable[Any]) -> list[str]:
    """Return the forms that all values of a column fit which are not missing, of those that people write.

    One form settles how the dates are read. Two, as of `01/02/2026` alone, leave the day uncertain.
    """
    texts = {str(value).strip() for value in values if value is not None}
    texts.difference_update(MISSING_NUMBERS)
    forms = _DATE_FORMS if texts else []
    for text in texts:
        forms = [form for form in forms if parse_date(text, form) is not None]
    return forms


def find_odd_date(texts: Iterable[str]) -> tuple[str, str]:
    """Return the form that fits nine tenths of the dates and the first that it misses, or nothing."""
    dates = sorted(texts)
    sample = dates[:: len(dates) // _ODD_SAMPLE + 1]
    fits = {form: sum(parse_date(text, form) is not None for text in sample) for form in _DATE_FORMS}
    best = [form for form, count in fits.items() if count == max(fits.values())]
    odd = [text for text in dates if parse_date(text, best[0]) is None] if len(best) == 1 else []
    return (best[0], odd[0]) if odd and len(odd) * 10 <= len(dates) else ("", "")


def check_column_types(kinds: Mapping[str, str], columns: Sequence[str], called: str) -> None:
    """Raise UserError if a kind is given for what is no column."""
    unknown = next((name for name in kinds if name not in set(columns)), None)
    if unknown is not None:
        raise UserError(
            f"`column_types` names `{clip_text(unknown)}`, which is no column of `{called}`",
            suggest(unknown, columns),
        )


def find_kind(values: Iterable[Any], *, cells: bool) -> str:
    """Return the kind of column that values are.

    A column that is mostly numbers, or mostly dates, is one with faults; anything else mixed is text.

    Args:
        values: of the column; None and empty text are missing.
        cells: whether text may stand for numbers, as in CSV.
    """
    counts = {NUMBER: 0, BOOLEAN: 0, DATE: 0, CATEGORY: 0}
    for value in values:
        if value is not None and value != "" and not (cells and value in MISSING_NUMBERS):
            counts[kind_of(value, cells=cells)] += 1
    total = sum(counts.values())
    for kind in (NUMBER, BOOLEAN, DATE):
        if counts[kind] * 2 > total or not total:
            return kind
    return CATEGORY


def settle_kind(values: Sequence[Any], *, cells: bool) -> tuple[str, str]:
    """Return the kind of column that values are, and the one form of its dates that is not ISO 8601."""
    kind = find_kind(values, cells=cells)
    forms = find_date_forms(values) if kind == CATEGORY else []
    return (DATE, forms[0]) if len(forms) == 1 else (kind, "")


def check_categories(name: str, values: Iterable[Any], *, sampled: bool, called: str) -> None:
    """Refuse texts that are no categories: names or notes, of which nearly every row has its own.

    Raises:
        UserError: saying the numbers.
    """
    texts = [str(value) for value in values if value is not None and value != ""]
    check_length(name, max(map(len, texts), default=0))
    distinct = len(set(texts))
    if distinct > MAX_CATEGORIES or (len(texts) >= _IDS_ROWS and distinct > _IDS_SHARE * len(texts)):
        raise describe_texts(name, distinct, len(texts), sampled=sampled, called=called)


def check_length(name: str, longest: int) -> None:
    """Refuse a text that is too long for a category; raises UserError."""
    if longest > MAX_CLASS_NAME:
        raise UserError(
            f"column `{clip_text(name)}` has a text of {longest:,} characters, and a category may have"
            f" {MAX_CLASS_NAME:,}",
            "leave it out: name the other columns in `features`, as in `features: age,income`",
        )


def describe_texts(name: str, distinct: int, rows: int, *, sampled: bool, called: str) -> UserError:
    """Return the error for a column of text with too many distinct values."""
    what = f"the first {rows:,} rows" if sampled else f"{rows:,} rows"
    return UserError(
        f"column `{clip_text(name)}` of `{called}` has {distinct:,} distinct texts in {what}, and a column of"
        f" categories may have {MAX_CATEGORIES:,}"
        if distinct > MAX_CATEGORIES
        else f"column `{clip_text(name)}` of `{called}` has another text in nearly every row: {distinct:,} in"
        f" {what}",
        "leave it out: name the other columns in `features`, as in `features: age,income`",
    )


def kind_of(value: Any, *, cells: bool) -> str:
    """Return the kind of one value that is not missing."""
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, dt.date):
        return DATE
    if not isinstance(value, str):
        return NUMBER
    if cells and is_number(value):
        return NUMBER
    if cells and value.lower() in ("true", "false"):
        return BOOLEAN
    return DATE if parse_date(value) is not None else CATEGORY


def is_number(text: str) -> bool:
    """Whether a text is a number, also one that is not finite."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def parse_date(text: str, form: str = "") -> float | None:
    """Return the seconds since 1970-01-01 UTC of a date, or None if it is none.

    A date has a time or none; a time without a zone is taken as UTC.

    Args:
        text: of the date.
        form: for `strptime`; ISO 8601 by default.
    """
    if form:
        moment = parse_moment(text.strip(), form)
        return None if moment is None else (moment - _DAY).total_seconds()
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    numbers = [int(found[place] or 0) for place in range(1, 7)]
    try:
        moment = dt.datetime(*numbers, tzinfo=dt.timezone.utc)  # type: ignore[misc, arg-type]
    except ValueError:
        return None
    seconds = (moment - _DAY).total_seconds() + int((found[7] or "0").ljust(6, "0")) / 1e6
    return seconds - _offset(found[8] or "Z")


def _offset(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if zone[0] == "-" else seconds


def parse_moment(text: str, form: str) -> dt.datetime | None:
    """Return the moment that a text has in a form for `strptime`, in UTC unless it names a zone, or None."""
    try:
        return _with_zone(dt.datetime.strptime(text, form))
    except ValueError:
        return None


def _with_zone(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.timezone.utc)


def to_order(value: Any, kind: str, form: str = "") -> float | None:
    """Return a date as seconds since 1970, or a number, for comparing; None if the value is none."""
    if isinstance(value, dt.datetime):
        return (_with_zone(value) - _DAY).total_seconds()
    if isinstance(value, dt.date):
        return (value - _DAY.date()).total_seconds()
    if kind == DATE:
        return parse_date(value, form) if isinstance(value, str) else None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def compare_as(values: Iterable[Any], kind: str, form: str = "") -> list[float | str | None]:
    """Return the values of a column as what can be compared: numbers and dates in order, all else as texts.

    What is missing, or not of the kind, is None.
    """
    if kind in (NUMBER, DATE):
        return [None if value is None else to_order(value, kind, form) for value in values]
    return [None if value is None or value == "" else str(value) for value in values]
