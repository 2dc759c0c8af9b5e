"""Parquet files that unpack to more than their footers say, or to more than their pages do.

They are written by hand, field by field (parquet-format, in Thrift's compact protocol): pyarrow does not lie.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
BYTES, FLOAT, FIXED = 6, 4, 7  # physical types
PLAIN, RLE, DELTA, RLE_DICTIONARY = 0, 3, 7, 8  # encodings; DELTA is that of byte arrays by their prefixes
CODECS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4_raw": 7}


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def struct_of(*fields: tuple[int, object]) -> bytes:
    """Numbers (a pair is of 64 bits), bytes, structs as bytearrays and lists of any of them, by field."""
    out, last = b"", 0
    for number, value in fields:
        kind, content = _value(value)
        out += bytes([(number - last) << 4 | kind]) + content
        last = number
    return out + b"\0"


def _value(value: object) -> tuple[int, bytes]:
    if isinstance(value, int):
        return 5, varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if isinstance(value, tuple):
        return 6, _value(value[0])[1]
    if isinstance(value, bytearray):
        return 12, bytes(value)
    if isinstance(value, str | bytes):
        text = value.encode() if isinstance(value, str) else value
        return 8, varint(len(text)) + text
    assert isinstance(value, list)
    items = [_value(item) for item in value]
    head = (15 << 4 | items[0][0]).to_bytes(1, "big") + varint(len(items))
    return 9, head + b"".join(content for _, content in items)


def page(
    content: bytes, values: int, *, says: int | None = None, codec: str = "none", encoding: int = PLAIN
) -> bytes:
    """A data page, or a dictionary's where `encoding` is below 0, that says it unpacks to `says` bytes."""
    packed = content
    if codec != "none":
        import pyarrow as pa

        packed = pa.Codec(codec).compress(content).to_pybytes()
    size = len(content) if says is None else says
    if encoding < 0:
        about: tuple[int, object] = (7, bytearray(struct_of((1, values), (2, PLAIN))))
    else:
        about = (5, bytearray(struct_of((1, values), (2, encoding), (3, RLE), (4, RLE))))
    kind = 2 if encoding < 0 else 0
    return struct_of((1, kind), (2, size), (3, len(packed)), about) + packed


def plain(*texts: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


@dataclass(frozen=True)
class Column:
    """One column of every row group: its pages, of which the first `dictionary` bytes are a dictionary."""

    name: str
    kind: int
    pages: bytes
    values: int
    codec: str = "none"
    dictionary: int = 0
    length: int = 0
    encodings: Sequence[int] = (PLAIN,)


def parquet(rows: int, columns: Sequence[Column], groups: int = 1, *, says: int = 1000) -> bytes:
    """A file whose footer says that each column of each of its groups unpacks to `says` bytes.

    The groups are all the same bytes.
    """
    body, chunks = b"PAR1", []
    for column in columns:
        start = len(body)
        body += column.pages
        meta: list[tuple[int, object]] = [
            (1, column.kind),
            (2, list(column.encodings)),
            (3, [column.name]),
            (4, CODECS[column.codec]),
            (5, (column.values,)),
            (6, (says,)),
            (7, (len(column.pages),)),
            (9, (start + column.dictionary,)),
        ]
        if column.dictionary:
            meta.append((11, (start,)))
        chunks.append(bytearray(struct_of((2, (start,)), (3, bytearray(struct_of(*meta))))))
    schema = [bytearray(struct_of((4, "schema"), (5, len(columns))))]
    for column in columns:
        length: list[tuple[int, object]] = [(2, column.length)] if column.length else []
        text = [(6, 0)] if column.kind == BYTES else []
        schema.append(bytearray(struct_of((1, column.kind), *length, (3, 0), (4, column.name), *text)))
    group = bytearray(struct_of((1, chunks), (2, (says,)), (3, (rows,))))
    footer = struct_of((1, 1), (2, schema), (3, (rows * groups,)), (4, [group] * groups))
    return body + footer + struct.pack("<I", len(footer)) + b"PAR1"


MAX_MIB, MAX_SECONDS = 600, 8.0
ROWS = 1_000_000
LONG = b"z" * 10_000_000


def numbers(name: str = "x", rows: int = ROWS, codec: str = "zstd") -> Column:
    return Column(name, FLOAT, page(bytes(4 * rows), rows, codec=codec), rows, codec)


def two_texts(name: str, first: bytes, kind: int = BYTES, rows: int = ROWS, codec: str = "zstd") -> Column:
    """A column of a dictionary with two values, and two runs of them."""
    second = b"b" * len(first) if kind == FIXED else b"b"
    words = first + second if kind == FIXED else plain(first, second)
    dictionary = page(words, 2, codec=codec, encoding=-1)
    runs = b"\1" + varint(rows // 2 << 1) + b"\0" + varint(rows - rows // 2 << 1) + b"\1"
    pages = dictionary + page(runs, rows, codec=codec, encoding=RLE_DICTIONARY)
    length = len(first) if kind == FIXED else 0
    return Column(name, kind, pages, rows, codec, len(dictionary), length, (PLAIN, RLE_DICTIONARY))


def shared_prefix(name: str, size: int, rows: int = ROWS) -> Column:
    """A text of `size` bytes, and rows that share all of it with the row before."""

    def steps(first: int, step: int) -> bytes:
        width = abs(step).bit_length()
        # Blocks of 128 differences in four parts: the first block holds one that is not 0, above the least.
        least, bits = min(step, 0), 0
        for place in range(128):
            bits |= ((step if place == 0 else 0) - least) << place * width
        one = varint(abs(least) * 2 - (least < 0)) + bytes([width] * 4) + bits.to_bytes(16 * width, "little")
        head = varint(128) + varint(4) + varint(rows) + varint(first << 1)
        return head + one + bytes(5) * -(-(rows - 129) // 128)

    content = steps(0, size) + steps(size, -size) + b"z" * size
    return Column(
        name, BYTES, page(content, rows, codec="zstd", encoding=DELTA), rows, "zstd", encodings=(DELTA,)
    )


FEW = 1000
LABELS = Column("label", BYTES, page(plain(*[b"a", b"b"] * (FEW // 2)), FEW), FEW)
MANY_LABELS = lambda: two_texts("label", b"a")  # noqa: E731

CASES: dict[str, tuple[Callable[[], bytes], str]] = {
    "a page of more than the footer says": (
        lambda: parquet(
            FEW, [Column("x", FLOAT, page(bytes(600_000_000), FEW, codec="zstd"), FEW, "zstd"), LABELS]
        ),
        "of it unpack to 600,000,000 or more, over 500 times as many",
    ),
    **{
        f"a page of more than it says, in {codec}": (
            lambda codec=codec: parquet(  # type: ignore[misc]
                FEW,
                [
                    Column("x", FLOAT, page(bytes(100_000_000), FEW, says=4 * FEW, codec=codec), FEW, codec),
                    LABELS,
                ],
            ),
            "cannot read `d.parquet`: ",
        )
        for codec in CODECS
        if codec != "none"
    },
    "pages that are held together": (
        lambda: parquet(
            FEW, [Column("x", FLOAT, page(bytes(300_000_000), FEW, codec="snappy"), FEW, "snappy"), LABELS]
        ),
        "the pages of `d.parquet` that are read together take 300,00",
    ),
    "a million pages": (
        lambda: parquet(
            FEW, [Column("x", FLOAT, page(b"", 0) * 1_000_000 + numbers(rows=FEW).pages, FEW), LABELS]
        ),
        "column `x`: it has 500,001 pages in",
    ),
    "groups of the same bytes": (
        lambda: parquet(ROWS, [numbers(), MANY_LABELS()], 300),
        "of it unpack to 68,000,544 or more",
    ),
    "a long text in every row": (
        lambda: parquet(ROWS, [two_texts("x", LONG), MANY_LABELS()]),
        "column `x` has a text of 10,000,000 characters, and a category may have 1,000",
    ),
    "a long label in every row": (
        lambda: parquet(ROWS, [numbers(), two_texts("label", LONG)]),
        "label `label` has a value of 10,000,000 bytes",
    ),
    "a long label of fixed length in every row": (
        lambda: parquet(ROWS, [numbers(), two_texts("label", LONG, FIXED)]),
        "label `label` holds bytes, not text or whole numbers",
    ),
    "a long label that is shared": (
        lambda: parquet(ROWS, [numbers(), shared_prefix("label", len(LONG))]),
        "label `label` has a value of 10,000,000 bytes",
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.run) if "million" in name else name for name in CASES]
)
def test_hostile_pages_are_refused_at_once(shard: Run, tmp_path: Path, name: str) -> None:
    make, message = CASES[name]
    path = tmp_path / "data" / "d.parquet"
    path.parent.mkdir()
    path.write_bytes(make())
    done = shard(data=path.parent, shards=tmp_path / "out")
    path.unlink()  # it is large, and may be in memory
    assert done.returncode == 2, done.stderr
    lines = done.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "help"], done.stderr
    assert message in lines[0]
    assert done.seconds < MAX_SECONDS
    assert done.memory < MAX_MIB


def test_what_is_written_by_hand_is_read_where_it_is_true(shard: Run, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    counted = struct.pack(f"<{FEW}f", *range(FEW))
    columns = [Column("x", FLOAT, page(counted, FEW), FEW), two_texts("label", b"a", rows=FEW)]
    (tmp_path / "data" / "d.parquet").write_bytes(parquet(FEW, columns, 3))
    done = shard(data=tmp_path / "data", shards=tmp_path / "out", shard_count=1)
    assert done.returncode == 0, done.stderr
    assert "column `x` alone tells `label`" in done.stderr  # the labels lie in the order of the rows


def test_labels_by_their_prefixes_are_read(shard: Run, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "data").mkdir()
    table = pa.table({"x": range(300), "label": [f"class {row % 3}" for row in range(300)]})
    path = tmp_path / "data" / "d.parquet"
    pq.write_table(table, path, use_dictionary=False, column_encoding={"label": "DELTA_BYTE_ARRAY"})
    done = shard(data=tmp_path / "data", shards=tmp_path / "out", shard_count=1)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"class 2"' in (tmp_path / "out" / "manifest.json").read_text()


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (([1.0], 600_000), "column `x` of `a.parquet` has 600,001 values in the 2 rows of row group 1"),
        (([1.0, 2.0], 600_001), "has 600,003 values in the 2 rows of row group 1"),
        (([1.0] * 3, [2.0] * 3, None), "row 1 of `b.parquet` has 1 value in `x`, the rows before it 3"),
    ],
)
def test_rows_of_different_lengths_are_refused(
    shard: Run, tmp_path: Path, lists: tuple[Any, ...], message: str
) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "data").mkdir()
    rows = [np.arange(row) / 7 if isinstance(row, int) else row for row in lists if row is not None]
    pq.write_table(pa.table({"x": rows, "label": range(len(rows))}), tmp_path / "data" / "a.parquet")
    pq.write_table(pa.table({"x": [1.0], "label": [1]}), tmp_path / "data" / "b.parquet")
    done = shard(data=tmp_path / "data", shards=tmp_path / "out", memory_limit_mib=16)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[0]
