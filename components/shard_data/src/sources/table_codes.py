"""Turns the columns of a table into numbers: one for each, two for a date; NaN where a value is missing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sources.common import Array
from wsshards.errors import UserError, clip_text
from wsshards.terms import CATEGORY, DATE, NUMBER
from wssources.column_kinds import MAX_CATEGORIES, check_length, parse_date
from wssources.groups import hash_group
from wssources.split import U64, hash_rows
from wssources.table_plan import KIND_HELP, TablePlan, describe_no_date

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
DAY_SECONDS = 86_400
Place = Callable[[int], str]


class TableCodes:
    """Codes of a table's columns; a category has the number of its first row until all rows are read.

    Attributes:
        kinds: of the columns, in order.
        categories: by column, the code of each value.
        incomplete: columns that lack a value in some row.
        date_forms: of columns whose dates are not in ISO 8601, for `strptime`.
    """

    def __init__(self, plan: TablePlan, seed: int) -> None:
        self.kinds = dict(plan.features)
        self.categories: dict[str, dict[str, int]] = {
            name: {} for name, kind in self.kinds.items() if kind == CATEGORY
        }
        self.incomplete: set[str] = set()
        self._width, self._seed, self.date_forms = plan.width, seed, plan.date_forms

    def encode(self, table: Any, place: Place) -> tuple[F32, U64 | None]:
        """Return the codes `[n, width]` of a record batch, and hashes where codes are not the content.

        Raises:
            UserError: a column holds what it may not.
        """
        codes = np.empty((table.num_rows, self._width), np.float32)
        hashed: dict[int, F32] = {}
        at = 0
        for name, kind in self.kinds.items():
            column = table.column(name)
            if kind == DATE:
                seconds = read_dates(column, name, place, self.date_forms.get(name, ""))
                days = np.floor(seconds / DAY_SECONDS)
                codes[:, at], codes[:, at + 1] = days, seconds - days * DAY_SECONDS
            elif kind == CATEGORY:
                codes[:, at], hashed[at] = self._encode_categories(name, column, place)
            else:
                codes[:, at] = read_numbers(column, name, place)
            if column.null_count or (kind == NUMBER and bool(np.isnan(codes[:, at]).any())):
                self.incomplete.add(name)
            at += 2 if kind == DATE else 1
        return codes, self._hash(codes, hashed)

    def _hash(self, codes: F32, hashed: dict[int, F32]) -> U64 | None:
        """Hash the content of rows, which their codes are not: those follow the order of the rows."""
        if not hashed:
            return None
        content = codes.copy()
        for at, column in hashed.items():
            content[:, at] = column
        return hash_rows(content, self._seed)

    def _encode_categories(self, name: str, column: Any, place: Place) -> tuple[F32, F32]:
        known = self.categories[name]
        if not pa.types.is_dictionary(column.type):
            column = pc.dictionary_encode(column)
        if len(column.dictionary) and pa.types.is_string(column.dictionary.type):
            check_length(name, pc.max(pc.binary_length(column.dictionary)).as_py() or 0)
        indices = column.indices
        places = indices.fill_null(0).to_numpy(zero_copy_only=False)
        used = np.unique(places) if len(column.dictionary) else np.empty(0, np.int64)
        codes = np.full(len(column.dictionary) + 1, np.nan, np.float32)
        hashes = np.zeros(len(column.dictionary) + 1, np.uint32)
        values = column.dictionary.take(pa.array(used)).to_pylist() if len(used) else []
        for index, value in zip(used.tolist(), values, strict=True):
            text = name_category(value)
            code = known.setdefault(text, len(known))
            if len(known) > MAX_CATEGORIES:
                raise UserError(
                    f"column `{clip_text(name)}` has more than {MAX_CATEGORIES:,} distinct values at"
                    f" {place(int(np.flatnonzero(places == index)[0]))}",
                    "leave it out: name the other columns in `features`, as in `features: age,income`",
                )
            codes[index] = code
            digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=4).digest()
            hashes[index] = int.from_bytes(digest, "little")
        if indices.null_count:
            places = np.where(indices.is_null().to_numpy(zero_copy_only=False), len(codes) - 1, places)
        return codes[places], hashes.view(np.float32)[places]


def name_category(value: object) -> str:
    """Return the text of a category: 3 and 3.0 are one."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def read_numbers(column: Any, name: str, place: Place) -> Array:
    """Return the numbers `[n]` of a column, NaN where one is missing; raises UserError for other types."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        column = column.cast(pa.float32())
    elif not pa.types.is_primitive(kind) or pa.types.is_temporal(kind):
        raise UserError(
            f"feature column `{clip_text(name)}` of {place(0)} holds {clip_text(str(kind))}, not numbers",
            KIND_HELP[NUMBER],
        )
    values: Array = column.to_numpy(zero_copy_only=False)
    return values


def read_dates(column: Any, name: str, place: Place, form: str = "") -> F64:
    """Return the seconds since 1970-01-01 UTC `[n]` of a column, NaN where a date is missing.

    Texts have a form for `strptime`, ISO 8601 by default.

    Raises:
        UserError: naming the first row with a text that is no date.
    """
    kind = column.type
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        encoded = pc.dictionary_encode(column)
        seconds = [parse_date(text, form) for text in encoded.dictionary.to_pylist()]
        wrong = [index for index, value in enumerate(seconds) if value is None]
        places = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        if wrong:
            row = int(np.flatnonzero(np.isin(places, wrong) & ~missing)[0])
            text = encoded.dictionary[wrong[0]].as_py()
            what, help_ = describe_no_date(name, text, form)
            raise UserError(
                f"{place(row)} has `{clip_text(text)}` in column `{clip_text(name)}`, {what}", help_
            )
        values = np.array([*seconds, np.nan], np.float64)[np.where(missing, len(seconds), places)]
    elif pa.types.is_temporal(kind) and not (pa.types.is_time(kind) or pa.types.is_duration(kind)):
        moments = column.cast(pa.timestamp("us", getattr(kind, "tz", None)))
        values = moments.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) / 1e6
        values = np.where(missing, np.nan, values)
    else:
        raise UserError(
            f"column `{clip_text(name)}` of {place(0)} holds {clip_text(str(kind))}, not dates",
            "name a column of dates, or give it another kind in `column_types`",
        )
    return values


def hash_groups(column: Any, seed: int) -> U64:
    """Return the hash `[n]` of each row's group."""
    encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    places = encoded.indices.to_numpy(zero_copy_only=False)
    used = np.unique(places)
    hashes = np.zeros(int(used[-1]) + 1 if len(used) else 0, np.uint64)
    for index, value in zip(used.tolist(), encoded.dictionary.take(pa.array(used)).to_pylist(), strict=True):
        hashes[index] = hash_group(value, seed)
    hashed: U64 = hashes[places]
    return hashed
