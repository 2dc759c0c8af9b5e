"""What columns say of the part of a row: for rows of texts, and for a CSV that lists pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wsshards.errors import UserError, clip_text
from wsshards.terms import SPLITS
from wssources.groups import hash_group, newest_key
from wssources.input_error import blame_input, suggest
from wssources.request import Request
from wssources.split_settings import UNDECIDED, TimeBounds, part_of_name
from wssources.table_plan import Head, find_time

PART_COLUMN = "split"  # of a CSV that lists pictures: names the part of each


@dataclass(frozen=True)
class RowDivision:
    """The columns that divide rows.

    Attributes:
        by: column of the group, or empty.
        time: column of the time, or empty.
        bounds: of the time.
        part: column that names the part, or empty.
        seed: of the hash of groups.
    """

    by: str = ""
    time: str = ""
    bounds: TimeBounds | None = None
    part: str = ""
    seed: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to read."""
        return tuple(dict.fromkeys(name for name in (self.by, self.time, self.part) if name))

    def find_part(self, row: Mapping[str, Any], where: str) -> int:
        """Return the part that a row is put in; raises UserError for a value that names none.

        Args:
            row: values by column.
            where: what messages call the row.
        """
        if self.part:
            part = part_of_name(str(row[self.part] or ""))
            if part is None:
                raise UserError(
                    f"{where} has `{clip_text(str(row[self.part] or ''))}` in column `{self.part}`",
                    f"write {', '.join(f'`{name}`' for name in SPLITS)}",
                )
            return part
        if self.bounds is None:
            return UNDECIDED
        return self.bounds.part(self._find_time(self.bounds, row, where))

    def find_key(self, row: Mapping[str, Any], where: str) -> int | None:
        """Return what divides a row whose part is undecided: of its group or time; None for its content.

        Raises:
            UserError: the row has no group or time.
        """
        if self.bounds is not None and self.bounds.newest:
            return newest_key(self._find_time(self.bounds, row, where))
        if not self.by:
            return None
        value = row[self.by]
        if value is None or value == "":
            raise UserError(
                f"{where} has no value in column `{clip_text(self.by)}`",
                "rows are divided by it: give every row a group",
            )
        return hash_group(value, self.seed)

    def _find_time(self, bounds: TimeBounds, row: Mapping[str, Any], where: str) -> float:
        moment = bounds.read(row[self.time])
        if moment is None:
            raise UserError(
                f"{where} has no {bounds.kind} in column `{clip_text(self.time)}`",
                "rows are divided by it: correct it, or leave the row out",
            )
        return moment


def find_row_division(request: Request, head: Head, *, listed: bool = False) -> RowDivision:
    """Return the columns by which the settings divide rows.

    Args:
        request: what the user wants to read.
        head: columns and first rows.
        listed: whether a column may name the part of each row.

    Raises:
        InputError: a column does not exist, or cannot divide rows.
    """
    split = request.split
    if split is None:
        return RowDivision()
    for name in split.columns:
        if name not in head.columns:
            with blame_input("data-column-missing", "split_by" if name == split.by else "split_time"):
                raise UserError(
                    f"`{request.show(request.files[0])}` has no split column `{clip_text(name)}`",
                    suggest(name, head.columns),
                )
    time, bounds = find_time(request, head, split)
    part = PART_COLUMN if listed and split.given and PART_COLUMN in head.columns else ""
    return RowDivision(split.by, time, bounds, part, split.seed)
