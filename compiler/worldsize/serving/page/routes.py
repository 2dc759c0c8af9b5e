"""The page's routes: its own addresses and no others, and the files that it offers.

NiceGUI takes most of a second to import, so it is imported at the first request for the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote_to_bytes

from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from worldsize.serving.errors import not_found
from worldsize.serving.home import PRIVATE_FOLDER, Home
from worldsize.serving.jobs.records import get_job
from worldsize.serving.page.queries.assets import KINDS, find_version, local_folder
from worldsize.serving.page.queries.files import IMAGES, data_folders, find_output, resolve_inside
from worldsize.serving.storage.uploads import CHUNK
from worldsize.serving.workspace import Workspace

PAGES = ("jobs", "compare", "models", "data", "components", "environments", "compute", "schedules")
FRAMEWORK = ("_nicegui", "_nicegui_ws")

# Nothing of another host is loaded, and no other page can show this one. NiceGUI's templates are made with
# eval(), and its own scripts and styles are inline.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none';"
    " base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes of the page."""
    page = LazyPage(workspace)

    async def files(request: Request) -> Response:
        return await _send_file(workspace, request)

    return [
        Route("/files/{kind}/{name}/{path:path}", files),
        Route("/", page),
        Route("/favicon.ico", page),
        *(Route(f"/{name}", page) for name in PAGES),
        *(Route(f"/{name}/{{rest:path}}", page) for name in (*PAGES, *FRAMEWORK)),
        *(WebSocketRoute(f"/{name}/{{rest:path}}", page) for name in FRAMEWORK),
    ]


class LazyPage:
    """The page as an application of its own, which is made when the first request comes."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._making: asyncio.Task[ASGIApp] | None = None
        self._serving: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        making = self._making
        if making is None or (making.done() and (making.cancelled() or making.exception() is not None)):
            self._making = making = asyncio.create_task(
                self._make()
            )  # again, since a full disk may have room now
        application = await asyncio.shield(making)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *added]}
            await send(message)

        await application(scope, receive, send_with_headers)

    async def _make(self) -> ASGIApp:
        module: Any = await asyncio.to_thread(_import_pages, self._workspace.home)
        application: ASGIApp
        application, lifespan = module.make_application(self._workspace)
        started = asyncio.Event()

        async def serve() -> None:
            async with lifespan:
                started.set()
                await asyncio.Event().wait()  # until the loop ends

        self._serving = asyncio.create_task(serve())
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait([self._serving, waiting], return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            self._serving.result()  # raises why it did not start
        return application


def _import_pages(home: Home) -> Any:
    """Import NiceGUI and the views."""
    storage = home.state / "page"  # not the working folder
    storage.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    os.environ["NICEGUI_STORAGE_PATH"] = str(storage)
    gc.disable()  # the collector would look through it again and again, on the event loop's time
    try:
        return importlib.import_module("worldsize.serving.page.addresses")
    finally:
        gc.freeze()
        gc.enable()


async def _send_file(workspace: Workspace, request: Request) -> Response:
    """A file as a download, a folder as a ZIP archive; an image also for the page itself."""
    kind, name = request.path_params["kind"], request.path_params["name"]
    path = os.fsdecode(unquote_to_bytes(request.scope["raw_path"].split(b"/", 4)[4]))  # of any bytes
    file = await asyncio.to_thread(_locate, workspace, kind, name, path)
    if file is None:
        raise not_found(f"File `{path}` of `{name}`")
    # A file that a stranger wrote must not run as a page of this server, whatever it holds.
    headers = {"content-security-policy": "sandbox; default-src 'none'", "x-content-type-options": "nosniff"}
    label = file.name or name
    if file.is_dir():
        archive = await asyncio.to_thread(_pack, workspace.home, file)
        headers["content-disposition"] = _attachment(f"{Path(path).name or name.replace(':', '-')}.zip")
        headers["content-length"] = str(archive.seek(0, os.SEEK_END))
        return StreamingResponse(_send_pieces(archive), media_type="application/zip", headers=headers)
    image = IMAGES.get(file.suffix.lower())
    if image is not None and request.query_params.get("inline"):
        return FileResponse(file, media_type=image, headers=headers)
    headers["content-disposition"] = _attachment(Path(path).name or label)
    return FileResponse(file, media_type="application/octet-stream", headers=headers)


def _locate(workspace: Workspace, kind: str, name: str, path: str) -> Path | None:
    if kind == "jobs":
        job = get_job(workspace.database, name)
        return None if job is None else find_output(workspace.home, job, path)
    if kind not in KINDS:
        return None
    asset, _, version = name.rpartition(":")
    record = find_version(workspace, kind, asset, version)
    base = None if record is None else local_folder(workspace, record.uri)
    return None if base is None else resolve_inside(workspace.home, base, path)


def _pack(home: Home, folder: Path) -> IO[bytes]:
    """A ZIP archive of a folder's files, without what its links reach outside of the folders of data.

    The file has no name, so nothing is left of it whatever happens. Times that a ZIP cannot have become the
    nearest one, and bytes of names that are not UTF-8 are written as ``%FF``.
    """
    allowed = [root.resolve() for root in data_folders(home)]
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile(dir=home.state))
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
            for path in sorted(folder.rglob("*")):
                real = Path(os.path.realpath(path))
                if real.is_file() and any(real.is_relative_to(root) for root in allowed):
                    with contextlib.suppress(FileNotFoundError, PermissionError):  # a job still writes
                        archive.write(real, _quote_bytes(str(path.relative_to(folder))))
        stack.pop_all()  # the answer closes it
    return file


def _send_pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(CHUNK):
            yield piece


def _quote_bytes(name: str) -> str:
    """A name with ``%FF`` in place of the bytes that are not UTF-8."""
    return re.sub("[\udc80-\udcff]", lambda match: f"%{ord(match[0]) & 0xFF:02X}", name)


def _attachment(name: str) -> str:
    return f"attachment; filename*=UTF-8''{quote(os.fsencode(name), safe='')}"
