"""Copies a blob of this workspace to another name."""

from __future__ import annotations

import asyncio
import re
import shutil
import urllib.parse
from pathlib import Path

from worldsize.serving.storage.blobs import Blob, read_blob
from worldsize.serving.storage.errors import StorageError, invalid_header
from worldsize.serving.storage.uploads import sync
from worldsize.serving.workspace import Workspace

STORAGE_HOST = re.compile(r"[a-z0-9]+\.(?:blob|dfs)\.core\.[a-z.]+")


def source_blob(workspace: Workspace, url: str) -> Blob:
    """The blob that a copy's source names.

    Raises:
        StorageError: 400 for a source that is not of this workspace, 404 for one that does not exist.
    """
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        raise invalid_header("x-ms-copy-source") from None
    segments = urllib.parse.unquote(parts.path).lstrip("/").split("/")
    if STORAGE_HOST.fullmatch(parts.hostname or "") is None:
        if url.split("/")[:3] != workspace.endpoints.blob.split("/")[:3] or segments[0] != "blob":
            raise StorageError(
                400, "CannotVerifyCopySource", "Only blobs of the local workspace can be copied."
            )
        segments = segments[2:]
    container, path = segments[0] if segments else "", "/".join(segments[1:])
    blob = read_blob(workspace, container, path)
    if blob is None:
        raise StorageError(404, "CannotVerifyCopySource", "The specified blob does not exist.")
    return blob


async def copy_content(source: Blob, target: str) -> None:
    """Copy a blob's content to a file."""
    await asyncio.to_thread(_copy_file, source.file, target)


def _copy_file(source: Path, target: str) -> None:
    shutil.copyfile(source, target)
    with Path(target).open("r+b") as file:
        sync(file)
