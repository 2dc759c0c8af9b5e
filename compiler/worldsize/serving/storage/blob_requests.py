"""The requests for one blob: https://learn.microsoft.com/rest/api/storageservices/operations-on-blobs."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from worldsize.serving.control.document import read_body
from worldsize.serving.storage.answers import add_child, empty_answer, write_headers, xml_answer
from worldsize.serving.storage.blobs import (
    Blob,
    BlobProperties,
    change_blob,
    delete_blob,
    put_blob,
    read_blob,
)
from worldsize.serving.storage.block_list import read_block_list
from worldsize.serving.storage.blocks import (
    discard_blocks,
    find_parts,
    join_blocks,
    stage_block,
    staged_blocks,
)
from worldsize.serving.storage.conditions import check_read, check_write
from worldsize.serving.storage.copying import copy_content, source_blob
from worldsize.serving.storage.download import send_blob
from worldsize.serving.storage.errors import StorageError, invalid_query, unsupported
from worldsize.serving.storage.files import blob_name, locate
from worldsize.serving.storage.headers import read_metadata, read_properties
from worldsize.serving.storage.stand_ins import find_stand_in
from worldsize.serving.storage.uploads import received_body, temporary_file
from worldsize.serving.workspace import Workspace

MAX_BLOCK_LIST = 8 << 20  # bytes of its XML: 50,000 ids of the longest kind


@dataclasses.dataclass(frozen=True, slots=True)
class BlobRequest:
    """A request for one blob."""

    workspace: Workspace
    request: Request
    container: str
    path: str

    def find(self) -> Blob | None:
        """The blob, if it exists."""
        return read_blob(self.workspace, self.container, self.path)

    def answer(self, status: int, blob: Blob | None = None, **headers: str) -> Response:
        """An answer without a body."""
        said = {} if blob is None else write_headers(blob)
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return empty_answer(self.request, status, {**said, **more})


async def answer_blob(call: BlobRequest) -> Response:
    """Answer a request for a blob.

    Raises:
        StorageError: It cannot be answered.
    """
    operation = call.request.query_params.get("comp", "").lower()
    handler = HANDLERS.get((call.request.method, operation))
    if handler is None:
        raise unsupported(f"{call.request.method} of a blob with `comp={operation[:40]}`")
    return await handler(call)


async def get(call: BlobRequest) -> Response:
    """Get Blob and Get Blob Properties."""
    host = call.request.path_params["host"]
    blob = call.find() or find_stand_in(call.workspace, host, call.container, call.path)
    return await send_blob(call.request, check_read(call.request.headers, blob))


async def put(call: BlobRequest) -> Response:
    """Put Blob, Copy Blob, Put Blob From URL."""
    headers = call.request.headers
    if "x-ms-copy-source" in headers:
        return await copy(call)
    kind = headers.get("x-ms-blob-type", "BlockBlob")
    if kind != "BlockBlob":
        raise unsupported(f"blobs of the type {kind[:40]}: upload a block blob")
    properties = read_properties(headers, whole=True)
    locate(call.workspace.home, call.container, call.path)  # refuse the name before the body
    async with received_body(call.workspace.home, call.request) as body:
        described = dataclasses.replace(properties, content_md5=properties.content_md5 or body.md5)

        def store() -> Response:
            check_write(headers, call.find())
            if _is_folder(call, properties.metadata):
                return make_folder(call)
            blob = put_blob(call.workspace, call.container, call.path, body.file, described)
            return call.answer(201, blob)

        answer = await call.workspace.database.change(store)
    discard_blocks(call.workspace.home, call.container, call.path)
    return answer


def _is_folder(call: BlobRequest, metadata: object) -> bool:
    """Whether an empty blob stands for a folder, as some clients write one."""
    return call.path.endswith("/") or (isinstance(metadata, dict) and metadata.get("hdi_isfolder") == "true")


def make_folder(call: BlobRequest) -> Response:
    """Make the folder that an empty blob stands for."""
    folder = locate(call.workspace.home, call.container, call.path)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise StorageError(
            409, "PathConflict", f"`{blob_name(call.path)}` is a blob, not a folder."
        ) from None
    return call.answer(201)


async def copy(call: BlobRequest) -> Response:
    """Copy Blob and Put Blob From URL, done when it is answered."""
    headers = call.request.headers
    source = source_blob(call.workspace, headers["x-ms-copy-source"])
    given = read_properties(headers, whole=False)
    metadata = given.metadata or source.properties.metadata
    with temporary_file(call.workspace.home) as file:
        await copy_content(source, str(file))
        properties = dataclasses.replace(source.properties, metadata=metadata)
        blob = await call.workspace.database.change(partial(_replace, call, file, properties))
    discard_blocks(call.workspace.home, call.container, call.path)
    status = 201 if "x-ms-blob-type" in headers else 202
    return call.answer(status, blob, x_ms_copy_id=str(uuid.uuid4()), x_ms_copy_status="success")


async def put_block(call: BlobRequest) -> Response:
    """Put Block."""
    if "x-ms-copy-source" in call.request.headers:
        raise unsupported("blocks that come from a URL")
    async with received_body(call.workspace.home, call.request) as body:
        block = call.request.query_params.get("blockid", "")
        stage_block(call.workspace.home, call.container, call.path, block, body.file)
    return call.answer(201, Content_MD5=body.md5, x_ms_request_server_encrypted="true")


async def put_block_list(call: BlobRequest) -> Response:
    """Put Block List."""
    text = await read_body(call.request, MAX_BLOCK_LIST)
    home, container, path = call.workspace.home, call.container, call.path
    listed = await asyncio.to_thread(read_block_list, text)
    parts = await asyncio.to_thread(find_parts, home, container, path, call.find(), listed)
    properties = read_properties(call.request.headers, whole=False)
    committed = tuple((part.block, part.size) for part in parts)
    with temporary_file(home) as file:
        await asyncio.to_thread(join_blocks, parts, file)
        properties = dataclasses.replace(properties, blocks=committed)
        blob = await call.workspace.database.change(partial(_replace, call, file, properties))
    discard_blocks(home, container, path)
    return call.answer(201, blob)


def _replace(call: BlobRequest, content: Path, properties: BlobProperties) -> Blob:
    """Make a file the content of the blob, if the request's conditions allow it."""
    check_write(call.request.headers, call.find())
    return put_blob(call.workspace, call.container, call.path, content, properties)


async def get_block_list(call: BlobRequest) -> Response:
    """Get Block List."""
    wanted = call.request.query_params.get("blocklisttype", "committed").lower()
    if wanted not in ("committed", "uncommitted", "all"):
        raise invalid_query("blocklisttype")
    blob = call.find()
    staged = staged_blocks(call.workspace.home, call.container, call.path)
    if blob is None and not staged:
        check_read({}, None)
    root = ET.Element("BlockList")
    committed = blob.properties.blocks if blob is not None else ()
    for title, blocks in (("Committed", committed), ("Uncommitted", staged)):
        if wanted in (title.lower(), "all"):
            listed = ET.SubElement(root, f"{title}Blocks")
            for block, size in blocks:
                element = ET.SubElement(listed, "Block")
                add_child(element, "Name", block)
                add_child(element, "Size", str(size))
    headers = {} if blob is None else {**write_headers(blob), "x-ms-blob-content-length": str(blob.size)}
    return xml_answer(call.request, root, headers)


async def put_metadata(call: BlobRequest) -> Response:
    """Set Blob Metadata."""
    metadata = read_metadata(call.request.headers)
    return await _change(call, lambda before: dataclasses.replace(before, metadata=metadata))


async def put_properties(call: BlobRequest) -> Response:
    """Set Blob Properties: those that are not given are cleared."""
    given = read_properties(call.request.headers, whole=False)
    return await _change(
        call, lambda before: dataclasses.replace(given, metadata=before.metadata, blocks=before.blocks)
    )


async def _change(call: BlobRequest, describe: Callable[[BlobProperties], BlobProperties]) -> Response:
    """Change what is said of the blob."""

    def change() -> Response:
        blob = check_read({}, call.find())
        check_write(call.request.headers, blob)
        return call.answer(200, change_blob(call.workspace, blob, describe(blob.properties)))

    return await call.workspace.database.change(change)


async def delete(call: BlobRequest) -> Response:
    """Delete Blob."""

    def remove() -> None:
        blob = check_read({}, call.find())
        check_write(call.request.headers, blob)
        delete_blob(call.workspace, blob)

    await call.workspace.database.change(remove)
    discard_blocks(call.workspace.home, call.container, call.path)
    return call.answer(202, x_ms_delete_type_permanent="true")


async def set_tier(call: BlobRequest) -> Response:
    """Set Blob Tier: there is one tier."""
    check_read({}, call.find())
    return call.answer(200)


HANDLERS: dict[tuple[str, str], Callable[[BlobRequest], Awaitable[Response]]] = {
    ("GET", ""): get,
    ("HEAD", ""): get,
    ("GET", "metadata"): get,
    ("HEAD", "metadata"): get,
    ("PUT", ""): put,
    ("DELETE", ""): delete,
    ("PUT", "block"): put_block,
    ("PUT", "blocklist"): put_block_list,
    ("GET", "blocklist"): get_block_list,
    ("PUT", "metadata"): put_metadata,
    ("PUT", "properties"): put_properties,
    ("PUT", "tier"): set_tier,
}
