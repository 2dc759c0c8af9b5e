"""Where the telemetry of Azure's clients ends: it is accepted, and nothing of it is kept."""

from __future__ import annotations

import zlib

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.errors import answer
from worldsize.serving.workspace import Workspace

MOST_BYTES = 16 << 20


def routes(_workspace: Workspace) -> list[BaseRoute]:
    """The routes of Application Insights' hosts."""
    return [Route("/telemetry/{rest:path}", _accept, methods=["GET", "POST", "PUT"])]


async def _accept(request: Request) -> Response:
    """Say that every item was accepted, as the service does for correct ones."""
    body = bytearray()
    async for chunk in request.stream():
        if len(body) + len(chunk) <= MOST_BYTES:
            body += chunk
    count = _count_items(bytes(body), compressed=request.headers.get("content-encoding") == "gzip")
    return answer({"itemsReceived": count, "itemsAccepted": count, "errors": []})


def _count_items(body: bytes, *, compressed: bool) -> int:
    """How many envelopes a body has: a line each, or the elements of an array."""
    if compressed:
        try:
            body = zlib.decompressobj(wbits=31).decompress(body, MOST_BYTES)
        except zlib.error:
            return 0
    if body.lstrip().startswith(b"["):
        return max(1, body.count(b'"iKey"'))
    return sum(1 for line in body.split(b"\n") if line.strip())
