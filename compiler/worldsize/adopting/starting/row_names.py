"""Which columns of a table only name the row: numbers and texts from which nothing can be learned."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wssources.column_kinds import is_number

_WORDS = re.compile(
    r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+|#|\d+"
)  # also of `userID` and `PassengerId`
_NAMES = frozenset({"id", "ids", "uuid", "guid", "#", "no", "nr", "num", "number", "idx", "key", "pk"})
_WHOLE_NAMES = frozenset({"index", "row", "rownames", "row index", "unnamed 0", "level 0"})
_JOINED = re.compile(
    r"(?:account|client|customer|employee|item|member|order|passenger|patient|person|product|record|row|sample"
    r"|student|subject|transaction|user)s?(?:id|no|nr|number)"
)


def names_row(name: str, values: Sequence[object]) -> bool:
    """Whether a column has the name of an id or a number of rows, and another value in each row that has one.

    The values are whole numbers or words: a measurement has fractions, or repeats.
    """
    given = [str(each).strip() for each in values if each is not None and each != ""]
    if not given or len(set(given)) < len(given) or not _is_row_name(name):
        return False
    return all(map(_is_whole, given)) or not any(is_number(each) or " " in each for each in given)


def _is_row_name(name: str) -> bool:
    words = [each.lower() for each in _WORDS.findall(name)]
    joined = " ".join(words)
    return bool(words) and (
        words[-1] in _NAMES
        or words[0] in ("id", "uuid", "guid")
        or joined in _WHOLE_NAMES
        or _JOINED.fullmatch(joined) is not None
    )


def _is_whole(text: str) -> bool:
    """Whether a text is a whole number, also as pandas writes one of a column with gaps: `7001.0`."""
    return text.removesuffix(".0").isdecimal()
