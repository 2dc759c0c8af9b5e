"""Files that were made to hang the step or to fill its memory: each is refused in a sentence, and at once."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import socket
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Make = Callable[[Path], None]
Run = Callable[..., Any]
MAX_MIB = 700  # most take 500; on a busy machine 120 more
MAX_SECONDS = 8.0  # of processor time; none takes two on a machine that is not busy


def _pipe(name: str) -> Make:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        os.mkfifo(folder / name)

    return make


def _link(name: str, target: str) -> Make:
    return lambda folder: (folder / name).symlink_to(target)


def _file(name: str, content: Callable[[], bytes]) -> Make:
    return lambda folder: (folder / name).write_bytes(content()) and None


def _hole(name: str) -> Make:
    def make(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.truncate(4 << 30)  # takes no room on the disk

    return make


def _socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.open(".", os.O_RDONLY)
        os.chdir(folder)  # a socket's path may have a hundred characters
        bound.bind("d.csv")
        os.fchdir(here)
        os.close(here)


def _array(shape: tuple[int, ...], kind: str, content: bytes, *, fortran: bool = False) -> bytes:
    header = f"{{'descr': {kind!r}, 'fortran_order': {fortran}, 'shape': {shape!r}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def _npz(x: Callable[[], bytes], y: bytes = _array((2,), "<i8", bytes(16)), level: int = 1) -> Make:
    def make(folder: Path) -> None:
        with zipfile.ZipFile(folder / "d.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
            archive.writestr("x.npy", x())
            archive.writestr("y.npy", y)

    return make


def _members(folder: Path) -> None:
    with zipfile.ZipFile(folder / "d.npz", "w") as archive:
        for number in range(20_000):
            archive.writestr(f"{number}.npy", b"")


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _picture(name: str, content: Callable[[], bytes]) -> Make:
    def make(folder: Path) -> None:
        (folder / "a").mkdir()
        (folder / "a" / name).write_bytes(content())

    return make


def _large_gif() -> bytes:
    from PIL import Image

    made = io.BytesIO()
    Image.new("P", (4, 4)).save(made, "gif")
    return made.getvalue()[:6] + struct.pack("<HH", 65535, 65535) + made.getvalue()[10:]


def _parquet(**columns: Callable[[Any, Any], Any]) -> Make:
    def make(folder: Path) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({name: column(pa, np) for name, column in columns.items()})
        pq.write_table(table, folder / "d.parquet", store_schema=False)

    return make


def _long_label(pa: Any, np: Any) -> Any:
    return pa.DictionaryArray.from_arrays(np.arange(100_000, dtype=np.int32) % 2, ["z" * 5_000_000, "b"])


def _tree(folder: Path) -> None:
    for level in range(24):
        (folder / f"d{level}").mkdir()
        for name in "xy":
            (folder / f"d{level}" / name).symlink_to(f"../d{level + 1}")
    (folder / "d24").mkdir()
    (folder / "d24" / "d.csv").write_text("x,label\n1,a\n")


def _loop(folder: Path) -> None:
    (folder / "d.csv").write_text("x,label\n1,a\n2,b\n")
    (folder / "up").symlink_to(".")


def _name_of_bytes(folder: Path) -> None:
    name = folder / os.fsdecode(b"caf\xe9")
    name.mkdir()
    (name / "1.png").write_bytes(_png(4, 4))


def _columns(count: int) -> bytes:
    return b",".join(b"c%d" % number for number in range(count)) + b",label\n"


# The case that takes the most time and memory; it is measured in a process of its own.
MOST = "gzip bomb that says it is small"
DEEP = b"[" * 100_000 + b"]" * 100_000
OBJECT = b'{"x": 1, "label": "a"}\n'

CASES: dict[str, tuple[Make, str]] = {
    **{
        f"named pipe {name}": (_pipe(name), f"cannot read `{name}`: it is a named pipe, not a file")
        for name in ("d.csv", "d.csv.gz", "d.jsonl", "d.npz", "d.parquet", "d.txt", "a/1.png")
    },
    "device": (_link("d.csv", "/dev/zero"), "cannot read `d.csv`: it is a device, not a file"),
    "device as text": (_link("d.txt", "/dev/zero"), "cannot read `d.txt`: it is a device, not a file"),
    "socket": (_socket, "cannot read `d.csv`: it is a socket, not a file"),
    "link to nothing": (_link("d.csv", "nothing"), "cannot read `d.csv`: No such file or directory"),
    "link to itself": (_link("d.csv", "d.csv"), "cannot read `d.csv`: Too many levels of symbolic links"),
    "links in a circle": (_loop, "it is the same folder as `.`"),
    "a tree of links": (_tree, "it is the same folder as `d"),
    "name that is not UTF-8": (_name_of_bytes, "the name of class folder `caf\\xe9` is not UTF-8"),
    "name that rings": (
        _file("a\x1b]0;x\x07.csv", lambda: b"x,label\n" + b"1,a\n2,b\n" * 5_100 + b"\x1b[31mred,a\n"),
        "line 10202 of `a\\x1b]0;x\\x07.csv` has `\\x1b[31mred`",
    ),
    "hole as csv": (_hole("d.csv"), "the row at line 1 of `d.csv`: it is longer than 8,388,608 characters"),
    "hole as json": (_hole("d.jsonl"), "line 1 of `d.jsonl` is longer than 8,388,608 bytes"),
    "long line": (
        _file("d.csv", lambda: b"x,label\n1,a\n" + b"1" * (20 << 20)),
        "the row at line 3 of `d.csv`: it is longer than",
    ),
    "open quote": (
        _file("d.csv", lambda: b'x,label\n1,a\n2,"b\n' + b"3,a\n" * 5_000_000),
        "the row at line 3 of `d.csv`: a value is longer than 131,072 characters",
    ),
    "million columns": (
        _file("d.csv", lambda: _columns(1_000_000)),
        "`d.csv` has 1,000,001 columns, and may have 100,000",
    ),
    "long value": (
        _file("d.csv", lambda: b"x,label\n" + b"1,a\n2,b\n" * 5_100 + b"z" * 100_000 + b",a\n"),
        "line 10202 of `d.csv` has `zzz",
    ),
    "long label": (
        _file("d.csv", lambda: b"x,label\n1," + b"9" * 100_000 + b"\n"),
        "label `label` has a value of 100,000 bytes, and the name of a class may have 1,000",
    ),
    "gzip bomb": (
        _file("d.csv.gz", lambda: gzip.compress(b"x,label\n" + b"1,a\n" * (20 << 20))),
        "unpack to 83,886,088 or more, over 500 times as many",
    ),
    "gzip bomb that says it is small": (
        _file("d.csv.gz", lambda: gzip.compress(b"x,label\n" + b"1,a\n" * (20 << 20))[:-4] + bytes(4)),
        "or more, over 500 times as many",
    ),
    "gzip bomb in members": (
        _file("d.csv.gz", lambda: gzip.compress(b"x,label\n") + gzip.compress(b"1,a\n" * (1 << 20)) * 20),
        "or more, over 500 times as many",
    ),
    "gzip cut short": (
        _file("d.csv.gz", lambda: gzip.compress(os.urandom(1 << 20).hex().encode())[:-1000]),
        "cannot read `d.csv.gz`",
    ),
    "deep json": (
        _file("d.jsonl", lambda: b'{"x": ' + DEEP + b"}"),
        "row 1 of `d.jsonl` is nested too deeply",
    ),
    "deep json later": (
        _file("d.jsonl", lambda: OBJECT + b'{"label": "b", "x": ' + DEEP + b"}"),
        "row 2 of `d.jsonl` is nested too deeply",
    ),
    "label of bytes": (
        _file("d.jsonl", lambda: OBJECT + b'{"x": 1, "label": "\xff"}\n'),
        "label `label` holds what cannot be read",
    ),
    "npz bomb": (
        _npz(
            lambda: _array((1 << 25, 2), "<f4", bytes(1 << 28)), _array((1 << 25,), "|i1", bytes(1 << 25)), 6
        ),
        "unpack to 268,435,",
    ),
    "npz that lies": (
        _npz(lambda: _array((10**12, 4), "<f4", bytes(64))),
        "array `x` of shape [1000000000000, 4] takes 16,000,000,000,000 bytes, and it holds 64",
    ),
    "npz of less than nothing": (
        _npz(lambda: _array((-1, 4), "<f4", bytes(64))),
        "array `x` of shape [-1, 4] takes",
    ),
    "npz of nothing": (
        _npz(lambda: _array((10**12, 0), "<f4", b""), _array((10**12,), "<U0", b"")),
        "array `y` of `d.npz` holds <U0, not classes",
    ),
    "npz with a long header": (
        _npz(lambda: b"\x93NUMPY\x02\x00\xf0\xff\xff\xff" + bytes(1 << 20)),
        "an array's header has 4,294,967,280 bytes, and may have 10,000",
    ),
    "npz of objects": (
        _npz(lambda: _array((2, 1), "<f4", bytes(8)), _array((2,), "|O", b"cos\nabort\n(tR.")),
        "array `y` of `d.npz` holds object, not classes",
    ),
    "npz with many members": (_members, "its list of members has"),
    "large row": (
        _npz(
            lambda: _array((2, 10_000_000), "<f4", os.urandom(1 << 20) * 76 + bytes(80_000_000 - (76 << 20))),
            level=0,
        ),
        "takes 40,000,000 bytes, and a `memory_limit_mib` of 512 has room for rows of 33,554,432",
    ),
    "npz in Fortran order": (
        _npz(lambda: _array((2, 1 << 23), "<f8", os.urandom(1 << 27), fortran=True), level=0),
        "array `x` of 134,217,728 bytes is in Fortran order",
    ),
    "large png": (
        _picture("1.png", lambda: _png(12_000, 12_000)),
        "picture `a/1.png` of 12000×12000 pixels takes 432,000,000 bytes",
    ),
    "large gif": (_picture("1.gif", _large_gif), "picture `a/1.gif` of 65535×65535 pixels takes"),
    "PostScript as png": (
        _picture("1.png", lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n"),
        "it is not a picture of a known format",
    ),
    "parquet of equal numbers": (
        _parquet(
            x=lambda _, np: np.zeros(20_000_000, np.float32),
            label=lambda _, np: np.zeros(20_000_000, np.int8),
        ),
        "column `label`: ",
    ),
    "parquet of one long list": (
        _parquet(
            x=lambda pa, np: pa.ListArray.from_arrays(
                pa.array([0, 20_000_000], pa.int32()), pa.array(np.zeros(20_000_000, np.float32))
            ),
            label=lambda _, __: ["a"],
        ),
        "column `x.list.element`: ",
    ),
    "parquet of long labels": (
        _parquet(x=lambda _, np: np.arange(100_000, dtype=np.float32), label=_long_label),
        "label `label` has a value of 5,000,000 bytes",
    ),
}


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A folder for a file of up to 130 MB, which may be in memory: it does not outlive its test."""
    folder = tmp_path / "data"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def _expect_refusal(done: Any, message: str) -> None:
    """Nothing of it is unbounded: not the time, the memory, or what is said."""
    assert done.returncode == 2, done.stderr
    lines = done.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "help"], done.stderr
    assert message in lines[0]
    assert len(lines[0]) <= 300
    assert all(line.isprintable() for line in lines)
    assert done.seconds < MAX_SECONDS
    assert done.memory < MAX_MIB


@pytest.mark.parametrize("name", [name for name in CASES if name != MOST])
def test_hostile_file_is_refused_at_once(shard: Run, data: Path, tmp_path: Path, name: str) -> None:
    make, message = CASES[name]
    make(data)
    _expect_refusal(shard(data=data, shards=tmp_path / "out"), message)


@pytest.mark.smoke
@pytest.mark.run
def test_hostile_file_is_refused_by_a_process(
    measure_process: Callable[[Path, Path], Any], data: Path, tmp_path: Path
) -> None:
    make, message = CASES[MOST]
    make(data)
    _expect_refusal(measure_process(data, tmp_path / "out"), message)


@pytest.mark.run
def test_many_columns_take_time_in_proportion(shard: Run, data: Path, tmp_path: Path) -> None:
    row = b"1," * 79_999
    rows = (b"%d,%s%c\n" % (n, row, b"ab"[n % 2]) for n in range(8))  # that differ, so that some validate
    content = _columns(80_000) + b"".join(rows)
    (data / "d.csv").write_bytes(content)
    done = shard(data=data, shards=tmp_path / "out", shard_count=1)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.seconds < MAX_SECONDS
    assert done.memory < MAX_MIB
