"""The headers of Parquet's pages, read as pyarrow reads them or not at all."""

from __future__ import annotations

import io

import pytest

from wssources.parquet_pages import Page, walk_pages

# A data page of 3 values that takes 5 bytes packed and 12 unpacked: its type, both sizes, and a struct of the
# number of values and three encodings.
ABOUT = b"\x2c\x15\x06\x15\x00\x15\x06\x15\x06\x00"
HEAD = b"\x15\x00\x15\x18\x15\x0a" + ABOUT
PAGE = HEAD + b"\0" + b"12345"
SECOND = b"\x15\x04\x15\x18\x15\x0a\x4c\x15\x04\x15\x00\x00\x00" + b"12345"


def _walk(content: bytes, values: int, start: int = 0) -> list[Page]:
    return list(walk_pages(io.BytesIO(content), start, len(content) - start, values))


def test_pages_are_read_until_their_values_are_there() -> None:
    data, dictionary = Page(0, 12, 22, 3, 0), Page(2, 12, 18, 2, 0)
    assert _walk(PAGE, 3) == [data]
    assert _walk(b"PAR1" + SECOND + PAGE * 2 + b"\xff" * 9, 6, 4) == [dictionary, data, data]
    assert _walk(PAGE * 1000, 3000) == [data] * 1000  # more than is read at a time


def test_other_fields_are_passed_over() -> None:
    others = b"\x1c\x18\x0512345\x17" + bytes(8) + b"\x11\x12\x00"  # a struct with a text, a double, booleans
    long = HEAD + others[:2] + b"\xd0\x86\x03" + b"s" * 50_000 + b"\x00\x00" + b"12345"
    assert [page.unpacked for page in _walk(HEAD + others + b"\x00" + b"12345", 3)] == [12]
    assert _walk(long + PAGE, 6)[1] == Page(0, 12, 22, 3, 0)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "ends after 0 bytes"),
        (PAGE[:10], "ends after 10 bytes"),
        (PAGE * 2, "its pages hold 6 values, and the footer says 4"),
        (HEAD + b"\x05\x04\x18\x00", "field 2 out of place"),  # a size said twice: which one counts?
        (b"\x15\x00\x15\x18\x05\x84\x80\x08\x18\x00", "over 16 bits"),  # field 2 again, by way of 65,538
        (b"\x15\x00\x15\x98\x80\x80\x80\x80\x01\x00", "over 32 bits"),
        (b"\x15\x00\x15" + b"\xff" * 12, "over 64 bits"),
        (b"\x15\x00\x15\x01\x15\x0a" + ABOUT + b"\0", "has -1 in field 2"),
        (b"\x15\x00\x15\x18\x00", "has None in field 3"),
        (b"\x15\x00\x15\x18\x15\x0a\x00", "does not say what is in it"),
        (HEAD + b"\x19\xf5\xff\xff\xff\xff\x07", "a value of type 9"),  # a list of numbers without end
        (b"\x1c" * 50 + bytes(50), "a value of type 12"),
        (HEAD + b"\x18\xff\xff\xff\xff\x07", "the header of a page ends after"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(content: bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        _walk(content, 4)
