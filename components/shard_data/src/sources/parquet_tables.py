"""Parquet files, whose pages are judged before they are read, two sets of row groups at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from sources.common import BATCH_BYTES, FAULTS, Source, rows_per_batch
from sources.tables import FileBatch, Place, is_list, make_source
from wsshards.errors import UserError, clip_text
from wsshards.regular_files import open_regular, path_of_open
from wsshards.terms import BOOLEAN, CATEGORY, DATE, NUMBER
from wssources.columns import choose_columns, same_columns
from wssources.input_error import blame_input
from wssources.parquet import UnpackedSizes, check_footer, check_pages, dictionary_columns
from wssources.parquet_head import kind_of_type
from wssources.request import Request, unreadable
from wssources.split_settings import head_files
from wssources.table_plan import Head, TablePlan, plan_table
from wssources.tasks import split_label
from wssources.unpack_limits import FREE_BYTES

TEXT_BYTES = 32 << 20  # of texts, in a batch
PIECE_BYTES = 1 << 20  # of a column of a large row group, read at a time
ROW_GROUP_BYTES = 32 << 20  # largest row group that is decoded at once


def read_parquet(request: Request) -> Source:
    """Rows of Parquet files: columns of numbers, texts and dates, or one column of equally long lists.

    Raises:
        UserError: a file cannot be read, or its columns do not fit.
    """
    files = head_files(request)
    plan, width = _plan(request, files[0])

    def stream(wanted: TablePlan) -> Iterator[FileBatch]:
        for file in request.files:
            start = 0
            try:
                with _open_parquet(request, file, wanted.names) as opened:
                    same_columns(request, files[0], wanted.names, file, opened.schema.names)
                    opened.check_types(wanted)
                    unpacked = opened.check_sizes(wanted.names)
                    opened.check_lists(wanted.listed, width)
                    for batch in _parquet_batches(opened, wanted.names, unpacked, max(width, 1)):
                        yield FileBatch(batch, Place(request.show(file), start), file)
                        start += batch.num_rows
            except FAULTS as error:
                raise unreadable(request.show(file), error) from None

    return make_source(request, plan, width, stream)


class _Parquet:
    """A Parquet file whose metadata is read once, and whose columns are checked before they are read."""

    def __init__(
        self, request: Request, file: Path, path: str, stream: IO[bytes], names: Sequence[str]
    ) -> None:
        check_footer(stream)
        self._request, self._name, self._path, self._stream = request, request.show(file), path, stream
        self.metadata = pq.read_metadata(path)
        plain = pq.ParquetFile(path, metadata=self.metadata).schema_arrow
        names = names or self._planned(plain.names)
        # One long text may be the label of every row: a dictionary stores it once.
        texts = [name for name in names if name in plain.names and _is_text(plain.field(name).type)]
        self._once = dictionary_columns(self.metadata, texts)
        self.schema = self.open().schema_arrow

    def open(self, **options: Any) -> Any:
        """Open the file with pyarrow; may be called repeatedly."""
        return pq.ParquetFile(self._path, metadata=self.metadata, read_dictionary=self._once, **options)

    def _planned(self, columns: Sequence[str]) -> list[str]:
        """Return the columns that may be read."""
        split = self._request.split
        chosen = [*self._request.features] or list(columns)
        names = [*chosen, *split_label(self._request.label, columns), *(split.deciding if split else ())]
        return list(dict.fromkeys(names))

    def check_types(self, plan: TablePlan) -> None:
        """Raise UserError if a column is not of the type that is planned."""
        for name, kind in plan.features.items():
            own = kind_of_type(self.schema.field(name).type)
            if own is None or (
                (kind in (NUMBER, BOOLEAN)) != (own in (NUMBER, BOOLEAN)) and kind not in (CATEGORY, DATE)
            ):
                self.refuse_type(name, "numbers" if kind == NUMBER else kind)
        self.check_nested(plan.labels)

    def refuse_type(self, name: str, wanted: str) -> None:
        """Raise UserError for a feature whose type cannot be read."""
        kind = clip_text(str(self.schema.field(name).type))
        raise UserError(
            f"feature column `{clip_text(name)}` of `{self._name}` holds {kind}, not {wanted}",
            "list the other columns in `features`, or encode this one as numbers",
        )

    def check_sizes(self, names: list[str]) -> UnpackedSizes:
        """Return the uncompressed size of the columns.

        Raises:
            UserError: too much of them is in memory at a time.
            ValueError: they expand far more than real data does.
        """
        memory = self._request.memory
        once = [name for name in self._once if pa.types.is_dictionary(self.schema.field(name).type)]
        unpacked = check_pages(self._stream, self.metadata, set(names), once)
        room = max(memory // 2, FREE_BYTES)
        if unpacked.held > room:
            raise UserError(
                f"the pages of `{self._name}` that are read together take {unpacked.held:,} bytes, and a"
                f" `memory_limit_mib` of {memory >> 20:,} has room for {room:,}",
                "write smaller pages, or give a `memory_limit_mib` of at least"
                f" {-(-unpacked.held * 2 >> 20):,}",
            )
        return unpacked

    def check_nested(self, labels: Sequence[str]) -> None:
        """Raise UserError for a label of structs, maps or lists of lists."""
        for name in labels:
            kind = self.schema.field(name).type
            if pa.types.is_nested(kind) and not (is_list(kind) and not pa.types.is_nested(kind.value_type)):
                raise UserError(
                    f"label `{clip_text(name)}` holds {clip_text(str(kind))}, not text or whole numbers",
                    "name another",
                )

    def check_lists(self, listed: str, width: int | None) -> None:
        """Raise UserError if lists that are too long to be read cannot all have the same length."""
        if not listed or not is_list(self.schema.field(listed).type):
            return
        leaf = next(
            index
            for index in range(self.metadata.num_columns)
            if self.metadata.schema.column(index).path.startswith(f"{listed}.")
        )
        for number in range(self.metadata.num_row_groups):
            group = self.metadata.row_group(number)
            values, rows = group.column(leaf).num_values, max(group.num_rows, 1)
            fits = values % rows == 0 if width is None else values == rows * width
            if not fits and values > self._request.memory // 32:
                raise UserError(
                    f"column `{clip_text(listed)}` of `{self._name}` has {values:,} values in the"
                    f" {group.num_rows:,} rows of row group {number + 1}"
                    + (f", and in the first row {width:,}" if width is not None else ""),
                    "all rows must have the same number of features",
                )


@contextmanager
def _open_parquet(request: Request, file: Path, names: Sequence[str]) -> Iterator[_Parquet]:
    with path_of_open(file) as path, open_regular(path) as stream:
        yield _Parquet(request, file, path, stream, names)


def _parquet_batches(
    opened: _Parquet, names: list[str], unpacked: UnpackedSizes, width: int
) -> Iterator[Any]:
    """Yield record batches in the order of the file; two sets of small row groups are decoded at a time."""
    # Texts that are or may be long are read a few at a time.
    step = min(rows_per_batch(4 * width), max(1, TEXT_BYTES // max(unpacked.value, 1)))
    groups = (opened.metadata.row_group(number) for number in range(opened.metadata.num_row_groups))
    sizes = [
        max(size, 4 * width * group.num_rows) for size, group in zip(unpacked.groups, groups, strict=True)
    ]
    lots = _lots(sizes)
    if len(lots) < 2 or max(sizes) > ROW_GROUP_BYTES:
        # Only a piece of a column of a large group is in memory at a time.
        piece = PIECE_BYTES if max(sizes, default=0) > 8 * ROW_GROUP_BYTES else 0
        yield from opened.open(pre_buffer=False, buffer_size=piece).iter_batches(step, columns=names)
        return

    def decode(lot: list[int]) -> list[Any]:
        return list(opened.open().iter_batches(step, row_groups=lot, columns=names, use_threads=False))

    with ThreadPoolExecutor(2) as pool:
        coming = deque(pool.submit(decode, lot) for lot in lots[:2])
        for index in range(len(lots)):
            batches = coming.popleft().result()
            if index + 2 < len(lots):
                coming.append(pool.submit(decode, lots[index + 2]))
            yield from batches


def _lots(sizes: list[int]) -> list[list[int]]:
    """Group row groups that are decoded together, because each one has a fixed cost."""
    lots: list[list[int]] = []
    room = 0
    for group, size in enumerate(sizes):
        if size > room:
            lots.append([])
            room = BATCH_BYTES
        lots[-1].append(group)
        room -= size
    return lots


def _plan(request: Request, file: Path) -> tuple[TablePlan, int]:
    """Return how the table is read, and the number of values in a row."""
    try:
        with _open_parquet(request, file, []) as opened:
            head = _read_head(request, file, opened)
            plan = plan_table(request, head)
            if not plan.listed:
                return plan, plan.width
            kind = opened.schema.field(plan.listed).type
            if pa.types.is_fixed_size_list(kind):
                return plan, int(kind.list_size)
            opened.check_sizes([plan.listed])
            opened.check_lists(plan.listed, None)
            for batch in opened.open(pre_buffer=False, buffer_size=PIECE_BYTES).iter_batches(
                1, columns=[plan.listed]
            ):
                return plan, int(batch.column(0).value_lengths()[0].as_py() or 0)
    except FAULTS as error:
        raise unreadable(request.show(file), error) from None
    return plan, 1


def _read_head(request: Request, file: Path, opened: _Parquet) -> Head:
    """Read the first rows of the columns whose types do not tell what they hold."""
    names = opened.schema.names
    head = Head(names)
    with blame_input("data-column-missing"):
        chosen = choose_columns(request, file, names)
    head.kinds = {}
    for name in names:
        kind = kind_of_type(opened.schema.field(name).type)
        if kind is not None and kind != CATEGORY:
            head.kinds[name] = kind
        elif (
            name in chosen
            and kind is None
            and not (is_list(opened.schema.field(name).type) and len(chosen) == 1)
        ):
            opened.refuse_type(name, "numbers")
        elif is_list(opened.schema.field(name).type):
            head.kinds[name] = "list"
    labels = split_label(request.label, names)
    read = {*chosen, *labels, *(request.split.deciding if request.split else ())}
    unsure = [name for name in names if name in read and (name in labels or name not in head.kinds)]
    opened.check_nested(labels)
    unpacked = opened.check_sizes(unsure)
    step = min(head.most, max(1, TEXT_BYTES // max(unpacked.value, 1)))
    places = {name: place for place, name in enumerate(names)}
    for batch in opened.open(pre_buffer=False, buffer_size=PIECE_BYTES).iter_batches(step, columns=unsure):
        for number in range(batch.num_rows):  # one by one: each may be a copy of a long text
            row: list[Any] = [None] * len(names)
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                row[places[name]] = column[number].as_py()
            if not head.add(row):
                head.complete = len(head.rows) == opened.metadata.num_rows
                return head
    return head


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))
