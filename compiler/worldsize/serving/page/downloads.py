"""Sends the files of jobs and assets to the browser, which never shows one as a page of this server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote_to_bytes

from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from worldsize.serving.errors import not_found
from worldsize.serving.home import Home
from worldsize.serving.jobs.records import get_job
from worldsize.serving.page.queries.assets import KINDS, find_version, local_folder
from worldsize.serving.page.queries.files import IMAGES, data_folders, resolve_inside
from worldsize.serving.page.queries.outputs import find_output
from worldsize.serving.storage.uploads import CHUNK
from worldsize.serving.workspace import Workspace


async def send_file(workspace: Workspace, request: Request) -> Response:
    """A file as a download, a folder as a ZIP archive; an image also for the page itself.

    Raises:
        ServiceError: 404 for anything that is not a file of the job or asset.
    """
    kind, name = request.path_params["kind"], request.path_params["name"]
    path = os.fsdecode(unquote_to_bytes(request.scope["raw_path"].split(b"/", 4)[4]))  # of any bytes
    found = await asyncio.to_thread(_locate, workspace, kind, name, path)
    if found is None:
        raise not_found(f"File `{path}` of `{name}`")
    # A file that a stranger wrote must not run as a page of this server, whatever it holds.
    headers = {"content-security-policy": "sandbox; default-src 'none'", "x-content-type-options": "nosniff"}
    label = found.name or name
    if found.is_dir():
        archive = await asyncio.to_thread(_pack, workspace.home, found)
        headers["content-disposition"] = _attachment(f"{Path(path).name or name.replace(':', '-')}.zip")
        headers["content-length"] = str(archive.seek(0, os.SEEK_END))
        return StreamingResponse(_send_pieces(archive), media_type="application/zip", headers=headers)
    image = IMAGES.get(found.suffix.lower())
    if image is not None and request.query_params.get("inline"):
        return FileResponse(found, media_type=image, headers=headers)
    headers["content-disposition"] = _attachment(Path(path).name or label)
    return FileResponse(found, media_type="application/octet-stream", headers=headers)


def _locate(workspace: Workspace, kind: str, name: str, path: str) -> Path | None:
    if kind == "jobs":
        job = get_job(workspace.database, name)
        return None if job is None else find_output(workspace.home, job, path)
    if kind not in KINDS:
        return None
    asset, _, version = name.rpartition(":")
    found = find_version(workspace, kind, asset, version)
    base = None if found is None else local_folder(workspace, found.uri)
    return None if base is None else resolve_inside(workspace.home, base, path)


def _pack(home: Home, folder: Path) -> IO[bytes]:
    """A ZIP archive of a folder's files, without what its links reach outside of the folders of data.

    The file has no name, so nothing is left of it whatever happens. Times that a ZIP cannot have become the
    nearest one, and bytes of names that are not UTF-8 are written as ``%FF``.
    """
    allowed = [each.resolve() for each in data_folders(home)]
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile(dir=home.state))
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
            for path in sorted(folder.rglob("*")):
                real = path.resolve()
                if real.is_file() and any(real.is_relative_to(each) for each in allowed):
                    with contextlib.suppress(FileNotFoundError, PermissionError):  # a job still writes
                        archive.write(real, _NOT_TEXT.sub(_quote_byte, str(path.relative_to(folder))))
        stack.pop_all()  # the answer closes it
    return file


def _send_pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(CHUNK):
            yield piece


_NOT_TEXT = re.compile("[\udc80-\udcff]")  # bytes of a name that is not UTF-8


def _quote_byte(found: re.Match[str]) -> str:
    return f"%{ord(found[0]) & 0xFF:02X}"


def _attachment(name: str) -> str:
    return f"attachment; filename*=UTF-8''{quote(os.fsencode(name), safe='')}"
