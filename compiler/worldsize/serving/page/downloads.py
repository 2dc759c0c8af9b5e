"""Sends the files of jobs and assets to the browser, which never shows one as a page of this server."""

from __future__ import annotations

import asyncio
import os
import tempfile
import zipfile
from pathlib import Path
from urllib.parse import quote

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from worldsize.serving.errors import not_found
from worldsize.serving.home import Home
from worldsize.serving.jobs.records import get_job
from worldsize.serving.page.queries.assets import KINDS, list_versions, local_folder
from worldsize.serving.page.queries.files import IMAGES, data_folders, resolve_inside
from worldsize.serving.page.queries.outputs import find_output
from worldsize.serving.workspace import Workspace


async def send_file(workspace: Workspace, request: Request) -> Response:
    """A file as a download, a folder as a ZIP archive; an image also for the page itself.

    Raises:
        ServiceError: 404 for anything that is not a file of the job or asset.
    """
    kind, name, path = (request.path_params[key] for key in ("kind", "name", "path"))
    found = await asyncio.to_thread(_locate, workspace, kind, name, path)
    if found is None:
        raise not_found(f"File `{path}` of `{name}`")
    # A file that a stranger wrote must not run as a page of this server, whatever it holds.
    headers = {"content-security-policy": "sandbox; default-src 'none'", "x-content-type-options": "nosniff"}
    label = found.name or name
    if found.is_dir():
        archive = await asyncio.to_thread(_pack, workspace.home, found)
        done = BackgroundTask(archive.unlink, missing_ok=True)
        headers["content-disposition"] = _attachment(f"{Path(path).name or name.replace(':', '-')}.zip")
        return FileResponse(archive, media_type="application/zip", headers=headers, background=done)
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
    for each in list_versions(workspace, kind, asset):
        if each.version == version:
            base = local_folder(workspace, each.uri)
            return None if base is None else resolve_inside(workspace.home, base, path)
    return None


def _pack(home: Home, folder: Path) -> Path:
    """A ZIP archive of a folder's files, without what its links reach outside of the folders of data."""
    descriptor, name = tempfile.mkstemp(suffix=".zip", dir=home.state)
    allowed = [each.resolve() for each in data_folders(home)]
    with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            real = path.resolve()
            if real.is_file() and any(real.is_relative_to(each) for each in allowed):
                archive.write(real, path.relative_to(folder))
    return Path(name)


def _attachment(name: str) -> str:
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"
