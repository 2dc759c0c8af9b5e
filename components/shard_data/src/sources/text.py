"""Text files as one stream of bytes, divided into windows: the rows of a byte-level language model."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from sources.common import BATCH_BYTES, Batch, Source
from wsshards.errors import UserError
from wsshards.manifest import BYTES, Features
from wsshards.regular_files import open_regular
from wsshards.terms import LANGUAGE_MODEL
from wssources.planned_rows import PYTHON_SOURCE, PYTHON_SOURCE_BYTES
from wssources.request import Request, unreadable
from wssources.split_settings import find_parts, fixed_parts

# Parts of the standard library that some distributions omit, or that are not typical source code.
_LEFT_OUT = frozenset(
    [
        "__pycache__",
        "config",
        "dist-packages",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "site-packages",
        "test",
        "tests",
        "tkinter",
        "turtledemo",
    ]
)


def read_text(request: Request) -> Source:
    """Windows of `sequence_length + 1` bytes over all files, one file after the other.

    The last, incomplete window is dropped, or where files are named for parts, that of each part.
    """
    parts = find_parts(request)
    if not parts:
        return _windows(lambda: _blocks(request, request.files), request.sequence_length)
    each = [
        (part, [file for file in request.files if parts[file] == part]) for part in sorted({*parts.values()})
    ]
    sources = [
        (part, _windows(partial(_blocks, request, files), request.sequence_length)) for part, files in each
    ]

    def batches() -> Iterator[Batch]:
        for part, source in sources:
            for batch in source.batches():
                yield replace(batch, parts=np.full(len(batch.features), part, np.uint8))

    return replace(sources[0][1], batches=batches, fixed=fixed_parts(None, parts.values()))


def read_python_source(request: Request) -> Source:
    """Read the first 4 MiB of this Python's standard library, file by file in the order of names.

    Raises:
        UserError: this Python contains less text than that.
    """
    request = find_python_files(request)
    blocks = partial(_blocks, request, request.files)
    return _windows(lambda: _first(blocks(), PYTHON_SOURCE_BYTES), request.sequence_length)


def find_python_files(request: Request) -> Request:
    """Return the request for this Python's standard library, as files in the order of names.

    Raises:
        UserError: this Python contains less text than `builtin:python-source` has.
    """
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(
        (file for file in root.rglob("*.py") if not _LEFT_OUT & set(file.relative_to(root).parts[:-1])),
        key=lambda file: file.relative_to(root).as_posix(),
    )
    available = sum(file.stat().st_size for file in files)
    if available < PYTHON_SOURCE_BYTES:
        raise UserError(
            f"`{PYTHON_SOURCE}` takes {PYTHON_SOURCE_BYTES:,} bytes and this Python carries {available:,}",
            "use a Python that has its standard library as files",
        )
    return request._replace(root=root, files=_first_files(files))


def _first_files(files: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files that begin within the first `PYTHON_SOURCE_BYTES`."""
    chosen, size = [], 0
    for file in files:
        if size >= PYTHON_SOURCE_BYTES:
            break
        chosen.append(file)
        size += file.stat().st_size
    return tuple(chosen)


def _windows(blocks: Callable[[], Iterable[bytes]], sequence_length: int) -> Source:
    width = sequence_length + 1
    features = Features("tokens", "uint8", (width,), tokenizer=BYTES)

    def batches() -> Iterator[Batch]:
        rest = b""
        for block in blocks():
            data = rest + block
            rows = len(data) // width
            rest = data[rows * width :]
            if rows:
                yield Batch(np.frombuffer(data, np.uint8, rows * width).reshape(rows, width))

    return Source(LANGUAGE_MODEL, features, None, batches)


def _blocks(request: Request, files: Iterable[Path]) -> Iterator[bytes]:
    """Yield the bytes of all files in pieces of about `BATCH_BYTES`, even if the files are smaller."""
    pending: list[bytes] = []
    size = 0
    for data in (data for file in files for data in _read(request, file)):
        pending.append(data)
        size += len(data)
        if size >= BATCH_BYTES:
            yield b"".join(pending)
            pending, size = [], 0
    yield b"".join(pending)


def _read(request: Request, file: Path) -> Iterator[bytes]:
    try:
        with open_regular(file) as stream:
            while data := stream.read(BATCH_BYTES):
                yield data
    except OSError as error:
        raise unreadable(request.show(file), error) from None


def _first(blocks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    for block in blocks:
        yield block[:limit]
        limit -= len(block)
        if limit <= 0:
            return
