"""CSV, Parquet and JSON Lines: pyarrow streams batches, and columns are stacked without a loop over rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sources.common import (
    BATCH_BYTES,
    FAULTS,
    Array,
    Batch,
    Source,
    check_finite,
    numeric,
    rows_per_batch,
)
from wsshards.errors import UserError, clip_text
from wsshards.manifest import CLASSIFICATION
from wsshards.regular_files import open_regular, path_of_open
from wssources import row_faults
from wssources.columns import choose_columns, same_columns
from wssources.parquet import UnpackedSizes, check_footer, check_pages, dictionary_columns
from wssources.request import BLOCK_BYTES, Request, is_packed, open_data, unreadable
from wssources.unpack_limits import FREE_BYTES

TEXT_BYTES = 32 << 20  # of texts, in a batch
PIECE_BYTES = 1 << 20  # of a column of a large row group, read at a time
ROW_GROUP_BYTES = 32 << 20  # largest row group that is decoded at once
_JSON_TYPES = {
    row_faults.NUMBER: pa.float32(),
    row_faults.NUMBERS: pa.list_(pa.float32()),
    row_faults.WHOLE: pa.int64(),
    row_faults.BOOLEAN: pa.bool_(),
    row_faults.TEXT: pa.string(),
}


def read_parquet(request: Request) -> Source:
    """Rows of Parquet files: numeric columns, or one column of equally long lists of numbers.

    Raises:
        UserError: a file cannot be read, or its columns do not fit.
    """
    first = request.files[0]
    columns, width = _parquet_columns(request, first)

    def batches() -> Iterator[Batch]:
        for file in request.files:
            names = [*columns, request.label]
            start = 0
            try:
                with _open_parquet(request, file) as opened:
                    same_columns(request, first, names, file, opened.schema.names)
                    opened.check_types(columns)
                    unpacked = opened.check_sizes(names)
                    opened.check_lists(columns, width)
                    for batch in _parquet_batches(opened, names, unpacked, width):
                        place = _Place(request.show(file), start)
                        yield _table_batch(batch, place, columns, request.label, width)
                        start += batch.num_rows
            except FAULTS as error:
                raise unreadable(request.show(file), error) from None

    return Source(CLASSIFICATION, numeric(width), request.label, batches)


class _Parquet:
    """A Parquet file whose metadata is read once, and whose columns are checked before they are read."""

    def __init__(self, request: Request, file: Path, path: str, stream: IO[bytes]) -> None:
        check_footer(stream)
        self._request, self._name, self._path, self._stream = request, request.show(file), path, stream
        self.metadata = pq.read_metadata(path)
        # One long text may be the label of every row: a dictionary stores it once.
        self._once = dictionary_columns(self.metadata, [request.label])
        self.schema = self.open().schema_arrow

    def open(self, **options: Any) -> Any:
        """Open the file with pyarrow; may be called repeatedly."""
        return pq.ParquetFile(self._path, metadata=self.metadata, read_dictionary=self._once, **options)

    def check_types(self, columns: list[str]) -> None:
        """Raise UserError if a feature column is not numeric, or the label column has no classes."""
        for name in columns:
            kind = self.schema.field(name).type
            _check_numeric(
                self._name, name, kind.value_type if len(columns) == 1 and _is_list(kind) else kind
            )
        label = self.schema.field(self._request.label).type
        if pa.types.is_nested(label):
            raise UserError(
                f"label `{clip_text(self._request.label)}` holds {clip_text(str(label))},"
                " not text or whole numbers",
                "name another",
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

    def check_lists(self, columns: list[str], width: int | None) -> None:
        """Raise UserError if lists that are too long to be read cannot all have the same length."""
        if len(columns) > 1 or not _is_list(self.schema.field(columns[0]).type):
            return
        leaf = next(
            index
            for index in range(self.metadata.num_columns)
            if self.metadata.schema.column(index).path.startswith(f"{columns[0]}.")
        )
        for number in range(self.metadata.num_row_groups):
            group = self.metadata.row_group(number)
            values, rows = group.column(leaf).num_values, max(group.num_rows, 1)
            fits = values % rows == 0 if width is None else values == rows * width
            if not fits and values > self._request.memory // 32:
                raise UserError(
                    f"column `{clip_text(columns[0])}` of `{self._name}` has {values:,} values in the"
                    f" {group.num_rows:,} rows of row group {number + 1}"
                    + (f", and in the first row {width:,}" if width is not None else ""),
                    "all rows must have the same number of features",
                )


@contextmanager
def _open_parquet(request: Request, file: Path) -> Iterator[_Parquet]:
    with path_of_open(file) as path, open_regular(path) as stream:
        yield _Parquet(request, file, path, stream)


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


def _parquet_columns(request: Request, file: Path) -> tuple[list[str], int]:
    """Return the feature columns and the number of values in a row."""
    try:
        with _open_parquet(request, file) as opened:
            columns = choose_columns(request, file, opened.schema.names)
            opened.check_types(columns)
            kind = opened.schema.field(columns[0]).type
            if len(columns) > 1 or not _is_list(kind):
                return columns, len(columns)
            if pa.types.is_fixed_size_list(kind):
                return columns, int(kind.list_size)
            opened.check_sizes(columns)
            opened.check_lists(columns, None)
            for batch in opened.open(pre_buffer=False, buffer_size=PIECE_BYTES).iter_batches(
                1, columns=columns
            ):
                return columns, int(batch.column(0).value_lengths()[0].as_py() or 0)
    except FAULTS as error:
        raise unreadable(request.show(file), error) from None
    return columns, 1


@dataclass(frozen=True)
class _Place:
    """The origin of a batch, so that messages can name its rows; rows count from 1."""

    file: str
    start: int

    def __call__(self, row: int) -> str:
        return f"row {self.start + row + 1} of `{self.file}`"


def _table_batch(batch: Any, place: _Place, columns: list[str], label: str, width: int) -> Batch:
    for name in (*columns, label):
        column = batch.column(name)
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise UserError(
                f"{place(row)} has no value in column `{clip_text(name)}`",
                "fill or drop missing values before sharding",
            )
    values = _stack(batch, place, columns, width)
    check_finite(values, place)
    return Batch(values, batch.column(label))


def _stack(batch: Any, place: _Place, columns: list[str], width: int) -> Array:
    """Stack the batch's feature columns into one float32 array `[n, width]`."""
    first = batch.column(columns[0])
    if len(columns) == 1 and _is_list(first.type):
        lengths = first.value_lengths().to_numpy(zero_copy_only=False) if batch.num_rows else np.empty(0)
        wrong = np.flatnonzero(lengths != width)
        if len(wrong):
            row = int(wrong[0])
            raise UserError(
                f"{place(row)} has {int(lengths[row])} values in `{clip_text(columns[0])}`,"
                f" the rows before it {width}",
                "all rows must have the same number of features",
            )
        values = _numbers(place, columns[0], first.flatten())
        return np.ascontiguousarray(values.reshape(batch.num_rows, width), np.float32)
    if len(columns) != width and batch.num_rows:
        raise UserError(
            f"{place(0)} has 1 value in `{clip_text(columns[0])}`, the rows before it {width}",
            "all rows must have the same number of features",
        )
    stacked = np.empty((batch.num_rows, width), np.float32)
    for index, name in enumerate(columns):
        stacked[:, index] = _numbers(place, name, batch.column(name))
    return stacked


def _numbers(place: _Place, name: str, column: Any) -> Array:
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float32())
    else:
        _check_numeric(place.file, name, kind)
    values: Array = column.to_numpy(zero_copy_only=False)
    return values


def _check_numeric(file: str, name: str, kind: Any) -> None:
    types = pa.types
    if not (types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind)) or types.is_temporal(
        kind
    ):
        raise UserError(
            f"feature column `{clip_text(name)}` of `{file}` holds {clip_text(str(kind))}, not numbers",
            "list the numeric columns in `features`, or encode this one as numbers",
        )


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def read_csv(request: Request) -> Source:
    """Rows of CSV files with a header: numeric feature columns and a label of any kind.

    Raises:
        UserError: a file cannot be read, has no header, or its columns do not fit.
    """
    first = request.files[0]
    columns = choose_columns(request, first, row_faults.csv_header(request, first))
    width = len(columns)

    def batches() -> Iterator[Batch]:
        for file in request.files:
            same_columns(
                request, first, [*columns, request.label], file, row_faults.csv_header(request, file)
            )
            try:
                yield from _csv_batches(request, file, columns)
            except OSError as error:
                raise unreadable(request.show(file), error) from None
            except FAULTS as error:
                raise row_faults.explain_csv(request, file, columns, error) from None

    return Source(CLASSIFICATION, numeric(width), request.label, batches)


def _csv_batches(request: Request, file: Path, columns: list[str]) -> Iterator[Batch]:
    from pyarrow import csv  # shadows the standard library's name

    types = dict.fromkeys(columns, pa.float32()) | {request.label: pa.string()}
    options = csv.ConvertOptions(
        column_types=types,
        include_columns=[*columns, request.label],
        null_values=[""],
        strings_can_be_null=True,
    )
    with _csv_stream(file) as stream:
        reader = csv.open_csv(
            stream,
            csv.ReadOptions(block_size=BLOCK_BYTES),
            csv.ParseOptions(newlines_in_values=True),
            options,
        )
        for batch in reader:
            values = np.empty((batch.num_rows, len(columns)), np.float32)
            for index, column in enumerate(batch.columns[:-1]):
                values[:, index] = column.to_numpy(zero_copy_only=False)
            if batch.column(len(columns)).null_count or not np.isfinite(values).all():
                raise row_faults.explain_csv(request, file, columns, "a value is missing")
            yield Batch(values, batch.column(len(columns)))


@contextmanager
def _csv_stream(file: Path) -> Iterator[Any]:
    if is_packed(file):
        with open_data(file) as unpacked:
            yield pa.PythonFile(unpacked, "r")
        return
    with path_of_open(file) as path, pa.OSFile(path) as stream:
        yield stream


def read_jsonl(request: Request) -> Source:
    """Rows of JSON Lines files: one object per line, with numbers in its fields or one list of numbers.

    Raises:
        UserError: a file cannot be read, or its first line does not fit.
    """
    first = request.files[0]
    example = row_faults.first_object(request, first)
    columns = choose_columns(request, first, list(example))
    listed = example[columns[0]]
    width = len(listed) if isinstance(listed, list) else len(columns)
    kinds = row_faults.find_json_kinds(request, first, example, columns)

    def batches() -> Iterator[Batch]:
        for file in request.files:
            start = 0
            for block in row_faults.line_blocks(request, file, BLOCK_BYTES):
                batch = _parse_lines(request, file, block, kinds, start)
                yield _table_batch(batch, _Place(request.show(file), start), columns, request.label, width)
                start += batch.num_rows

    return Source(CLASSIFICATION, numeric(width), request.label, batches)


def _parse_lines(request: Request, file: Path, block: bytes, kinds: dict[str, str], start: int) -> Any:
    from pyarrow import json  # shadows the standard library's name

    types = {name: _JSON_TYPES[kind] for name, kind in kinds.items()}
    if kinds[request.label] == row_faults.NUMBER:
        types[request.label] = pa.float64()
    schema = pa.schema([*types.items()])
    try:
        table = json.read_json(
            pa.BufferReader(block),
            read_options=json.ReadOptions(block_size=max(len(block), 1 << 10) + 1),
            parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        return table.select(schema.names).combine_chunks().to_batches()[0]
    except (*FAULTS, IndexError) as error:
        raise row_faults.explain_jsonl(request, file, block, kinds, start=start, error=error) from None
