"""What a Parquet file unpacks to, and what of it is held at a time: judged before any of it is unpacked."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO, Any

from wsshards.errors import clip_text
from wssources.parquet_pages import DICTIONARY, Page, walk_pages
from wssources.unpack_limits import check_unpacked

MAX_FOOTER_BYTES = 32 << 20  # bytes of a Parquet file's description of itself
MAX_PAGES = 500_000  # of fewer bytes than SMALL_PAGE on average
SMALL_PAGE_BYTES = 1024
DELTA = "DELTA_BYTE_ARRAY"  # each text as what it shares with the one before, and the rest
_PLAIN, _PLAIN_DICTIONARY, _DELTA_LENGTH, _RLE_DICTIONARY = 0, 2, 6, 8
_COPIES = 5  # of a dictionary of texts, at the most: unpacked, decoded, in a table that grows, and in a batch


@dataclass
class UnpackedSizes:
    """What the columns unpack to.

    Attributes:
        groups: bytes of each row group, as far as they are not held once for many rows.
        held: bytes that are held at a time, whatever the number of rows in a batch.
        value: bytes that a row of them may take besides its numbers, on average over a page.
    """

    groups: list[int] = field(default_factory=list)
    held: int = 0
    value: int = 0


@dataclass
class _Column:
    index: int
    path: str
    texts: bool  # of any length
    value: int  # bytes of one, if it is not a number
    unpacked: int = 0
    packed: int = 0
    pages: int = 0


def check_footer(file: IO[bytes]) -> None:
    """Refuse a Parquet file whose description of itself is too long to be read.

    Raises:
        ValueError: it is.
    """
    end = file.seek(0, io.SEEK_END)
    file.seek(max(0, end - 8))
    size = int.from_bytes(file.read(4), "little")
    if file.read(4) == b"PAR1" and size > MAX_FOOTER_BYTES:
        raise ValueError(f"its footer has {size:,} bytes, and may have {MAX_FOOTER_BYTES:,}")


def dictionary_columns(metadata: Any, names: Iterable[str]) -> list[str]:
    """Return the columns that pyarrow can read as dictionaries, which hold a text of many rows once."""
    wanted = _find_columns(metadata, set(names))
    deltas = {
        column.path.split(".")[0]
        for column in wanted
        for number in range(metadata.num_row_groups)
        if DELTA in metadata.row_group(number).column(column.index).encodings
    }
    return [name for name in names if name not in deltas]


def check_pages(
    file: IO[bytes], metadata: Any, names: set[str], dictionaries: Iterable[str]
) -> UnpackedSizes:
    """Refuse a Parquet file whose columns `names` unpack to far more than data does, by what its pages say.

    Args:
        file: The file.
        metadata: Its footer, as pyarrow has read it.
        names: Columns that are going to be read.
        dictionaries: Those of them that are read as dictionaries.

    Raises:
        ValueError: saying the column and both sizes.
    """
    size, once = file.seek(0, io.SEEK_END), set(dictionaries)
    columns = _find_columns(metadata, names)
    _check_count(metadata.num_row_groups * len(columns), size)
    result = UnpackedSizes()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        total = held = 0
        for column in columns:
            before = column.unpacked
            try:
                held += _add_chunk(column, group.column(column.index), file, size, column.path in once)
                check_unpacked(column.unpacked, size)  # groups may say that the same bytes are theirs
            except ValueError as error:
                raise _of_column(column, error) from None
            total += column.unpacked - before
        _check_count(sum(column.pages for column in columns), size)
        result.value = sum(column.value for column in columns)
        result.groups.append(max(total, result.value * group.num_rows))
        result.held = max(result.held, held)
    for column in columns:
        try:
            check_unpacked(column.unpacked, column.packed)
        except ValueError as error:  # noqa: PERF203 - a column each
            raise _of_column(column, error) from None
    return result


def _check_count(pages: int, size: int) -> None:
    if pages > MAX_PAGES and pages > size // SMALL_PAGE_BYTES:
        raise ValueError(
            f"it has {pages:,} pages in {size:,} bytes: write larger ones, and larger row groups"
        )


def _of_column(column: _Column, error: ValueError) -> ValueError:
    return ValueError(f"column `{clip_text(column.path)}`: {error}")


def _add_chunk(column: _Column, chunk: Any, file: IO[bytes], size: int, once: bool) -> int:
    """Add the pages of one column of a row group to what is known of the column; the bytes held at a time."""
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    if min(start, chunk.total_compressed_size, chunk.num_values) < 0:
        raise ValueError("its footer has a size or a place below 0")
    largest = dictionary = 0
    for page in walk_pages(file, start, chunk.total_compressed_size, chunk.num_values):
        # A list has more values than rows, and equal ones take no room at all.
        column.unpacked += max(page.unpacked, page.packed, 4 * page.values)
        column.packed += page.packed
        column.pages += 1
        check_unpacked(column.unpacked, size)
        _check_count(column.pages, size)
        if page.kind == DICTIONARY:
            dictionary = max(dictionary, page.unpacked)
            continue
        largest = max(largest, page.unpacked, page.packed)
        if column.texts and page.values:
            column.value = max(column.value, _value_bytes(page, dictionary, once))
    return largest + dictionary * (_COPIES if column.texts else 2)


def _value_bytes(page: Page, dictionary: int, once: bool) -> int:
    """Bytes that a text takes, on average over a page, or where it cannot be known at the most."""
    if page.encoding in {_PLAIN, _DELTA_LENGTH}:
        return -(-page.unpacked // page.values)
    if page.encoding in {_PLAIN_DICTIONARY, _RLE_DICTIONARY}:
        return 0 if once else dictionary
    return page.unpacked


def _find_columns(metadata: Any, names: set[str]) -> list[_Column]:
    columns = []
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        if _is_within(column.path, names):
            kind = column.physical_type
            length = column.length if kind == "FIXED_LEN_BYTE_ARRAY" else 0
            columns.append(_Column(index, column.path, kind == "BYTE_ARRAY", length))
    return columns


def _is_within(path: str, names: set[str]) -> bool:
    parts = path.split(".")
    return any(".".join(parts[:count]) in names for count in range(1, min(len(parts), 16) + 1))
