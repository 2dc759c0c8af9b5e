"""What the pages of a Parquet file say that they unpack to, read from the header that precedes each.

A footer says it too, but pyarrow unpacks by the headers. They are in Thrift's compact protocol; where it
lets one say a thing twice or in two ways, only the one way that writers use is understood.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

DATA, DICTIONARY, DATA_V2 = 0, 2, 3
_WINDOW = 4096  # bytes read at a time: of small pages, several headers
_MAX_HEADER_BYTES = 1 << 20  # bytes of a header: it may hold the smallest and the largest value of its page
_DEEPEST = 4  # structs in each other; headers have three
_LATE = 100  # bytes beyond its end that pyarrow may read of a column of an old writer
# Type codes of the compact protocol.
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 4, 5, 6, 7, 8, 12
_BITS = {_I16: 16, _I32: 32, _I64: 64}


@dataclass(frozen=True)
class Page:
    """One page, as its header has it; `packed` is what it takes in the file, header and all."""

    kind: int
    unpacked: int
    packed: int
    values: int
    encoding: int


def walk_pages(file: IO[bytes], start: int, length: int, values: int) -> Iterator[Page]:
    """Yield the pages of one column of a row group that pyarrow would read, in their order.

    Args:
        file: The file.
        start: Where its first page begins.
        length: Bytes that all its pages take, with their headers.
        values: How many values they hold.

    Raises:
        ValueError: a header is damaged, or they hold another number of values.
    """
    at, end, values_so_far = start, start + length + _LATE, 0
    base, window = 0, b""
    while values_so_far < values and at < end:
        if not base <= at < base + len(window) - 64:
            base, window = at, _read(file, at, _WINDOW)
        try:
            page = _parse_page(window, at - base)
        except IndexError:  # the header is longer than what was read
            base, window = at, _read(file, at, _MAX_HEADER_BYTES)
            try:
                page = _parse_page(window, 0)
            except IndexError:
                raise ValueError(f"the header of a page ends after {len(window):,} bytes") from None
        yield page
        values_so_far += page.values if page.kind in {DATA, DATA_V2} else 0
        at += page.packed
    if values_so_far != values:
        raise ValueError(f"its pages hold {values_so_far:,} values, and the footer says {values:,}")


def _read(file: IO[bytes], at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def _parse_page(data: bytes, at: int) -> Page:
    fields, after = _parse_struct(data, at, 1)
    kind, unpacked, packed = (_number(fields, number) for number in (1, 2, 3))
    packed += after - at
    place = {DATA: (5, 2), DICTIONARY: (7, 2), DATA_V2: (8, 4)}.get(kind)
    if place is None:  # pyarrow passes over it
        return Page(kind, unpacked, packed, 0, 0)
    about = fields.get(place[0])
    if not isinstance(about, dict):
        raise ValueError("the header of a page does not say what is in it")  # noqa: TRY004 - no caller's fault
    return Page(kind, unpacked, packed, _number(about, 1), _number(about, place[1]))


def _number(fields: dict[int, Any], field: int) -> int:
    value = fields.get(field)
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"the header of a page has {value!r} in field {field}")
    return value


def _parse_struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return a struct's numbers and structs, by field, and its end; IndexError if the data ends first."""
    fields: dict[int, Any] = {}
    last = 0
    while (head := data[at]) != _STOP:
        at += 1
        if head >> 4:
            last += head >> 4
        else:
            last, at = _parse_number(data, at, 16)
        if last in fields or not 0 <= last < 1 << 15:
            raise ValueError(f"the header of a page has field {last} out of place")
        fields[last], at = _parse_value(data, at, head & 15, depth)
    return fields, at + 1


def _parse_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _BITS:
        return _parse_number(data, at, _BITS[kind])
    if kind in {_TRUE, _FALSE}:
        return None, at
    if kind in {_BYTE, _DOUBLE}:
        return None, at + (1 if kind == _BYTE else 8)
    if kind == _BINARY:
        size, at = _parse_varint(data, at)
        return None, at + size
    if kind == _STRUCT and depth < _DEEPEST:
        return _parse_struct(data, at, depth + 1)
    raise ValueError(f"the header of a page holds a value of type {kind}")


def _parse_number(data: bytes, at: int, bits: int) -> tuple[int, int]:
    number, at = _parse_varint(data, at)
    if number >> bits:
        raise ValueError(f"the header of a page has a number of over {bits} bits")
    return (number >> 1) ^ -(number & 1), at


def _parse_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := data[at]) & 128:
        number |= (byte & 127) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise ValueError("the header of a page has a number of over 64 bits")
    return number | byte << shift, at + 1
