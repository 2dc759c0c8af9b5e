"""Receives content: the body of a request as a file, never wholly in memory, and a blob block by block."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from starlette.requests import Request

from worldsize.base import untrusted
from worldsize.serving.home import Home
from worldsize.serving.storage.blobs import Blob, BlobProperties, put_blob
from worldsize.serving.storage.files import (
    StorageError,
    blob_name,
    container_folder,
    invalid_header,
    invalid_query,
)
from worldsize.serving.workspace import Workspace

CHUNK = 1 << 20  # bytes written at once
BLOCK_LIFE = 7 * 24 * 3600.0  # seconds that Azure keeps blocks that are not committed


@dataclass(frozen=True, slots=True)
class Received:
    """A body that has arrived whole."""

    file: Path
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
        yield Received(path, md5)


async def receive_blob(workspace: Workspace, request: Request, container: str, path: str) -> Blob:
    """Make the body of a request the content of a blob.

    Raises:
        StorageError: 400 or 409, as :func:`received_body` and :func:`put_blob` do.
    """
    async with received_body(workspace.home, request) as body:
        properties = BlobProperties(content_md5=body.md5)
        return await asyncio.to_thread(put_blob, workspace, container, path, body.file, properties)


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


MAX_BLOCK_ID = 88  # characters: base64 of 64 bytes


@dataclass(frozen=True, slots=True)
class BlockPart:
    """Where the content of one block lies."""

    block: str
    file: Path
    offset: int  # bytes
    size: int  # bytes


def _staging_folder(home: Home, container: str, path: str) -> Path:
    """The folder of the blocks of one blob that are not committed."""
    container_folder(home, container)
    key = hashlib.sha256(f"{container}/{blob_name(path)}".encode()).hexdigest()
    return blocks_folder(home) / key


def stage_block(home: Home, container: str, path: str, block: str, content: Path) -> None:
    """Keep one block; it replaces an earlier one of the same id.

    Raises:
        StorageError: 400, for an id that is none.
    """
    if not 0 < len(block) <= MAX_BLOCK_ID or not block.isascii():
        raise invalid_query("blockid")
    folder = _staging_folder(home, container, path)
    folder.mkdir(mode=0o700, exist_ok=True)
    content.replace(folder / block.encode().hex())


def staged_blocks(home: Home, container: str, path: str) -> list[tuple[str, int]]:
    """The ids and sizes in bytes of the blocks that are not committed, in the order of their ids."""
    folder = _staging_folder(home, container, path)
    if not folder.is_dir():
        return []
    return sorted((bytes.fromhex(file.name).decode(), file.stat().st_size) for file in folder.iterdir())


def discard_blocks(home: Home, container: str, path: str) -> None:
    """Forget the blocks that are not committed, as every write of the blob does."""
    shutil.rmtree(_staging_folder(home, container, path), ignore_errors=True)


def find_parts(
    home: Home, container: str, path: str, existing: Blob | None, listed: Sequence[tuple[str, str]]
) -> list[BlockPart]:
    """Where the content of each listed block lies.

    Raises:
        StorageError: 400, for a block that does not exist.
    """
    folder = _staging_folder(home, container, path)
    staged = {
        block: BlockPart(block, folder / block.encode().hex(), 0, size)
        for block, size in staged_blocks(home, container, path)
    }
    committed: dict[str, BlockPart] = {}
    offset = 0
    for block, size in existing.properties.blocks if existing is not None else ():
        assert existing is not None
        committed[block] = BlockPart(block, existing.file, offset, size)
        offset += size
    choices = {"Latest": {**committed, **staged}, "Committed": committed, "Uncommitted": staged}
    try:
        return [choices[kind][block] for kind, block in listed]
    except KeyError:
        raise StorageError(400, "InvalidBlockList", "The specified block list is invalid.") from None


def join_blocks(parts: Sequence[BlockPart], target: Path) -> None:
    """Write the content of the blocks, one after the other.

    Raises:
        StorageError: 400, if a block has gone since it was found.
    """
    try:
        with target.open("wb") as output:
            for part in parts:
                with untrusted.open_file(part.file) as block:
                    block.seek(part.offset)
                    _copy(block, output, part.size)
            sync(output)
    except FileNotFoundError:
        raise StorageError(400, "InvalidBlockList", "The specified block list is invalid.") from None


def _copy(source: BinaryIO, target: BinaryIO, size: int) -> None:
    while size > 0 and (chunk := source.read(min(size, CHUNK))):
        target.write(chunk)
        size -= len(chunk)


KINDS = frozenset(("Latest", "Committed", "Uncommitted"))
MAX_BLOCKS = 50_000  # of one blob


def read_block_list(text: bytes) -> list[tuple[str, str]]:
    """The kind and the id of each block of a list.

    Raises:
        StorageError: 400, for a body that is not a list of blocks.
    """
    bad_document = StorageError(400, "InvalidXmlDocument", "The body is not a list of blocks.")
    # Neither more elements than a list has, nor a document type, whose entities could grow without bounds.
    if text.count(b"<") > 2 * MAX_BLOCKS + 3 or b"!" in text:
        raise bad_document
    try:
        root = ET.fromstring(text)  # noqa: S314 - bounded above
    except ET.ParseError:
        raise bad_document from None
    if root.tag != "BlockList" or any(block.tag not in KINDS or len(block) > 0 for block in root):
        raise bad_document
    return [(block.tag, (block.text or "").strip()) for block in root]
