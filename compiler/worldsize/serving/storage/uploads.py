"""Receives the body of a request as a file, so that no content is ever wholly in memory."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from starlette.requests import Request

from worldsize.serving.home import Home
from worldsize.serving.storage.errors import StorageError, invalid_header

CHUNK = 1 << 20  # bytes written at once
BLOCK_LIFE = 7 * 24 * 3600.0  # seconds that Azure keeps blocks that are not committed


@dataclass(frozen=True, slots=True)
class Received:
    """A body that has arrived whole."""

    file: Path
    size: int  # bytes
    md5: str  # base64


def prepare_folders(home: Home) -> None:
    """Make the folders of incomplete uploads, without what a killed server has left in them."""
    shutil.rmtree(uploads_folder(home), ignore_errors=True)
    for folder in (uploads_folder(home), blocks_folder(home)):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    oldest = time.time() - BLOCK_LIFE
    for folder in blocks_folder(home).iterdir():
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)


def uploads_folder(home: Home) -> Path:
    """The folder of files that are being received."""
    return home.state / "uploads"


def blocks_folder(home: Home) -> Path:
    """The folder of blocks that are not committed."""
    return home.state / "blocks"


@contextlib.contextmanager
def temporary_file(home: Home) -> Iterator[Path]:
    """A file that is gone afterwards, unless it was moved."""
    descriptor, name = tempfile.mkstemp(dir=uploads_folder(home))
    os.close(descriptor)
    path = Path(name)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextlib.asynccontextmanager
async def received_body(home: Home, request: Request) -> AsyncIterator[Received]:
    """The body of a request in a file, which is gone afterwards unless it was moved.

    Raises:
        StorageError: 400, where the body is not what the headers say.
    """
    with temporary_file(home) as path:
        digest = hashlib.md5(usedforsecurity=False)
        size = await _write(request, path, digest)
        md5 = base64.b64encode(digest.digest()).decode()
        wanted = request.headers.get("content-md5")
        if wanted is not None and wanted != md5:
            raise StorageError(400, "Md5Mismatch", "The MD5 of the request is not that of its body.")
        length = request.headers.get("content-length")
        if length is not None and length != str(size):
            raise invalid_header("Content-Length")
        yield Received(path, size, md5)


async def _write(request: Request, path: Path, digest: hashlib._Hash) -> int:
    """Write and hash the body, a megabyte at a time, beside the event loop; the bytes written.

    They are on the disk then: a client that was answered does not send them again.
    """
    size = 0
    waiting = bytearray()
    # Buffered: a full disk takes a part of what it is given, and only the buffer looks.
    with path.open("wb") as file:

        def flush() -> None:
            digest.update(waiting)
            file.write(waiting)

        async for chunk in request.stream():
            waiting += chunk
            size += len(chunk)
            if len(waiting) >= CHUNK:
                await asyncio.to_thread(flush)
                waiting.clear()
        await asyncio.to_thread(flush)
        await asyncio.to_thread(sync, file)
    return size


def sync(file: BinaryIO) -> None:
    """Wait until everything that was written to a file is on the disk."""
    file.flush()
    os.fsync(file.fileno())
