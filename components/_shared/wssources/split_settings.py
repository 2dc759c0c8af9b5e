"""How rows are divided into training, validation and test: by hash, by group, by time, or as given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from wsshards.errors import UserError, clip_text
from wsshards.terms import DATE, GIVEN, HASH, NUMBER, SPLITS
from wssources.column_kinds import to_order
from wssources.formats import LABEL_FILE
from wssources.input_error import blame_input, suggest

if TYPE_CHECKING:
    from wssources.request import Request

METHODS = (HASH, GIVEN)
TRAIN, VALIDATION, TEST = range(3)  # places in `SPLITS`
UNDECIDED = 0  # rows that no file or date puts elsewhere are divided by hash
_NAMES = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("validation", "val", "valid", "dev"), VALIDATION),
    **dict.fromkeys(("test", "testing"), TEST),
}
INPUTS = (
    "validation_fraction",
    "test_fraction",
    "split",
    "split_by",
    "split_time",
    "validation_after",
    "test_after",
)
WINDOW = "window"  # input of `shard_data` that says which rows are used at all


class Window(NamedTuple):
    """The time of the rows that are used.

    Attributes:
        column: of dates.
        start: in seconds since 1970-01-01, as the end; both are in the window.
        end: of it.
        form: of dates that are text, for `strptime`; ISO 8601 by default.
    """

    column: str
    start: float
    end: float
    form: str = ""

    def holds(self, value: Any) -> bool:
        """Return whether the time of a row, as a table has it, is in the window."""
        moment = to_order(value, DATE, self.form)
        return moment is not None and self.start <= moment <= self.end


def parse_window(text: str) -> Window | None:
    """Return the window of `2025-03-02/2026-03-02T03:00 sold_on`; None for an empty text.

    Raises:
        UserError: it is not an interval and a column.
    """
    interval, _, column = text.strip().partition(" ")
    start, end = (to_order(part, DATE) for part in (*interval.partition("/")[::2],))
    if not text.strip():
        return None
    if start is None or end is None or not column.strip():
        raise UserError(
            f"`{WINDOW}` is `{clip_text(text)}`, not an interval and a column",
            "write two dates and the column they are in: `2025-03-02/2026-03-02 sold_on`",
        )
    return Window(column.strip(), start, end)


class SplitSettings(NamedTuple):
    """The inputs of `shard_data` that divide rows.

    Attributes:
        validation: fraction of the rows, or of the groups, that validate.
        test: fraction that tests.
        given: whether files or folders are named for the parts.
        by: column whose rows of one value stay in one part.
        time: column of dates or numbers; empty for the one column of dates. Without a date from which on rows
            validate or test, the newest rows are held out.
        validation_after: rows from this value of `time` on validate.
        test_after: rows from this value of `time` on test.
        seed: of the hash.
        window: of the rows that are used at all; None for all rows.
    """

    validation: float = 0.2
    test: float = 0.0
    given: bool = False
    by: str = ""
    time: str = ""
    validation_after: str = ""
    test_after: str = ""
    seed: int = 0
    window: Window | None = None

    @property
    def by_time(self) -> bool:
        """Whether times divide rows."""
        return bool(self.time or self.validation_after or self.test_after)

    @property
    def newest(self) -> bool:
        """Whether the fractions are of the newest rows."""
        return bool(self.time) and not (self.validation_after or self.test_after)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that divide rows, as far as they are named."""
        return tuple(name for name in (self.by, self.time) if name)

    @property
    def deciding(self) -> tuple[str, ...]:
        """The columns that divide rows or leave them out."""
        return (*self.columns, *([self.window.column] if self.window is not None else []))


def make_split(values: Mapping[str, Any], seed: int = 0) -> SplitSettings:
    """Return the settings that inputs give; what is missing or None has its default.

    Raises:
        UserError: a fraction is out of range, both take all rows, or inputs contradict each other.
    """
    texts = {name: str(values.get(name) or "").strip() for name in INPUTS[2:]}
    fractions = {name: float(values.get(name) or 0) for name in INPUTS[:2]}
    for name, fraction in fractions.items():
        if not 0 <= fraction < 1:
            raise UserError(f"`{name}` is {fraction}", "give at least 0 and less than 1")
    validation, test = fractions["validation_fraction"], fractions["test_fraction"]
    if validation + test >= 1:
        raise UserError(
            f"`validation_fraction` {validation} and `test_fraction` {test} add up to"
            f" {round(validation + test, 6)}",
            "leave a part of the rows for training: less than 1 together",
        )
    if (texts["split"] or HASH) not in METHODS:
        raise UserError(f"unknown `split: {clip_text(texts['split'])}`", suggest(texts["split"], METHODS))
    given, after = texts["split"] == GIVEN, texts["validation_after"] or texts["test_after"]
    if given and any(texts[name] for name in INPUTS[3:]):
        other = next(name for name in INPUTS[3:] if texts[name])
        raise UserError(f"`split` is `given`, and `{other}` is set too", "keep one of the two")
    if texts["split_time"] and texts["split_by"] and not after:
        raise UserError(
            "`split_time` holds out the newest rows, and `split_by` whole groups",
            "keep one of the two, or say with `test_after` from which value on rows test",
        )
    return SplitSettings(
        validation,
        test,
        given,
        texts["split_by"],
        texts["split_time"],
        texts["validation_after"],
        texts["test_after"],
        seed,
        parse_window(str(values.get(WINDOW) or "")),
    )


def expect_held_out(split: SplitSettings, rows: Sequence[int], *, fixed: frozenset[int], groups: int) -> None:
    """Refuse a division by time or group that leaves a part without rows, though inputs ask for some.

    Args:
        split: the settings.
        rows: of each part.
        fixed: parts that dates or files fill.
        groups: how many there are; 0 if rows are not divided by group.

    Raises:
        UserError: naming the input to change.
    """
    wanted = ((VALIDATION, split.validation, split.validation_after), (TEST, split.test, split.test_after))
    for part, fraction, after in wanted if sum(rows) else ():
        name, total = SPLITS[part], f"{sum(rows):,} rows"
        if rows[part]:
            continue
        if part in fixed and after:
            raise UserError(
                f"none of {total} is from `{clip_text(after)}` on, so none is left for {name}",
                f"give an earlier `{name}_after`",
            )
        if fraction and split.newest:
            raise UserError(
                f"{total} have too few values in `{clip_text(split.time)}`, so none is left for {name}",
                f"give more rows, or set `{name}_fraction` to 0",
            )
        if part not in fixed and fraction and groups:
            many = f"{groups:,} {'value' if groups == 1 else 'values'}"
            raise UserError(
                f"{total} have {many} in `{clip_text(split.by)}`, so none is left for {name}",
                f"split by a column with more values, or set `{name}_fraction` to 0",
            )


def refuse_window(split: SplitSettings | None, called: str, what: str) -> None:
    """Refuse to leave out rows by time that are not those of a table; raises InputError."""
    if split is not None and split.window is not None:
        with blame_input("data-column-missing", WINDOW):
            message = f"`{WINDOW}` leaves out rows of tables of values, and `{called}` is read as {what}"
            raise UserError(message, "leave it out, or keep the data of each month in a folder of its own")


def check_without_columns(split: SplitSettings | None, called: str, what: str) -> None:
    """Refuse to divide data without columns by one; raises InputError."""
    refuse_window(split, called, what)
    if split is None or not (split.columns or split.by_time):
        return
    name = "split_by" if split.by else "split_time"
    if name == "split_time" and not split.time:
        name = "validation_after" if split.validation_after else "test_after"
    help_ = "use `validation_fraction` and `test_fraction`, or `split: given`"
    with blame_input("data-column-missing", name):
        raise UserError(
            f"`{name}` divides the rows of tables, and `{called}` is read as {what}",
            f"{help_}, or list the images in a `{LABEL_FILE}` with that column"
            if what == "images"
            else help_,
        )


def check_built_in(split: SplitSettings | None, called: str, what: str) -> None:
    """Refuse to divide a built-in data set other than by fractions; raises InputError."""
    check_without_columns(split, called, what)
    if split is not None and split.given:
        with blame_input("data-source-missing", "split"):
            raise UserError(
                f"`split` is `given`, and `{called}` has no files that are named for parts",
                "use `validation_fraction` and `test_fraction`",
            )


class TimeBounds(NamedTuple):
    """The dates or numbers from which on rows validate or test; None where nothing is divided.

    Dates of the column that are text have a form for `strptime`, or are in ISO 8601.
    """

    column: str
    kind: str
    validation: float | None
    test: float | None
    form: str = ""

    @property
    def newest(self) -> bool:
        """Whether the newest rows are held out."""
        return self.validation is None and self.test is None

    def read(self, value: Any) -> float | None:
        """Return a date or number in the unit of the bounds, or None if the value is none."""
        return to_order(value, self.kind, self.form)

    def part(self, value: float) -> int:
        """Return the part of a row by its time."""
        if self.test is not None and value >= self.test:
            return TEST
        return VALIDATION if self.validation is not None and value >= self.validation else UNDECIDED


def find_bounds(split: SplitSettings, name: str, kind: str, form: str = "") -> TimeBounds:
    """Return the bounds in the unit of the column `name`.

    Raises:
        UserError: the column holds no dates or numbers, a bound is none, or they are in the wrong order.
    """
    if kind not in (DATE, NUMBER):
        raise UserError(
            f"rows are divided by time, and column `{clip_text(name)}` holds no dates or numbers",
            "name a column of dates such as `2026-01-31`, or of numbers, in `split_time`",
        )
    bounds = []
    for field, text in (("validation_after", split.validation_after), ("test_after", split.test_after)):
        bound = to_order(text, kind) if text else None
        if text and bound is None:
            what = "dates" if kind == DATE else "numbers"
            raise UserError(
                f"`{field}` is `{clip_text(text)}`, and column `{clip_text(name)}` holds {what}",
                "give a date such as `2026-01-31`" if kind == DATE else "give a number",
            )
        bounds.append(bound)
    validation, test = bounds
    if validation is not None and test is not None and test <= validation:
        raise UserError(
            f"`test_after` is `{split.test_after}`, not after `validation_after`, which is"
            f" `{split.validation_after}`",
            "test on the latest rows: give a later value",
        )
    return TimeBounds(name, kind, validation, test, form)


def find_time_column(split: SplitSettings, kinds: Mapping[str, str]) -> str:
    """Return the column that divides rows by time: as named, or the only one of dates; raises UserError."""
    if split.time:
        return split.time
    dates = [name for name, kind in kinds.items() if kind == DATE]
    if len(dates) == 1:
        return dates[0]
    shown = ", ".join(f"`{clip_text(name)}`" for name in dates[:6])
    raise UserError(
        f"rows are divided by time, and the data has {len(dates)} columns of dates"
        + (f": {shown}" if dates else ""),
        "name the column of dates or numbers in `split_time`, or in a spec under `split:` by `time:`",
    )


def part_of_name(name: str) -> int | None:
    """Return the part that a word stands for, such as `val`, or None."""
    return _NAMES.get(name.strip().lower())


def part_of_file(name: str) -> int | None:
    """Return the part for which a file or its first folder is named, or None: `train/a.csv`, `test.csv`."""
    path = PurePosixPath(name)
    first = path.parts[0] if path.parts else ""
    stem = first.split(".")[0] if len(path.parts) == 1 else first
    return _NAMES.get(stem.lower())


def divide_files(names: Iterable[str], called: str) -> dict[str, int]:
    """Return the part of each file of a data set that comes divided.

    Raises:
        UserError: a file is named for no part, or no file for training.
    """
    parts = {}
    for name in names:
        part = part_of_file(name)
        if part is None:
            raise UserError(
                f"`split` is `given`, and `{clip_text(name) or called}` is named for none of"
                f" {', '.join(f'`{each}`' for each in SPLITS)}",
                "name files or folders for the parts: `train.csv`, `test/a.parquet`",
            )
        parts[name] = part
    if TRAIN not in parts.values():
        raise UserError(
            f"`split` is `given`, and `{called}` has no training files",
            "name a file or a folder `train`",
        )
    return parts


def find_parts(request: Request) -> dict[Path, int]:
    """Return the part of each file, if files are named for parts, else nothing; raises UserError."""
    if request.split is None or not request.split.given:
        return {}
    root, files = request.root, request.files
    names = {file: "" if file == root else file.relative_to(root).as_posix() for file in files}
    parts = divide_files(names.values(), request.name)
    return {file: parts[name] for file, name in names.items()}


def head_files(request: Request) -> Sequence[Path]:
    """Return the files whose first rows decide how the data is read: those named for training, or all."""
    parts = find_parts(request)
    return [file for file in request.files if parts[file] == UNDECIDED] if parts else request.files


def fixed_parts(bounds: TimeBounds | None, parts: Iterable[int]) -> frozenset[int]:
    """Return the parts that dates or files fill."""
    dated = {VALIDATION} if bounds and bounds.validation is not None else set()
    dated |= {TEST} if bounds and bounds.test is not None else set()
    return frozenset(dated | {part for part in parts if part})
