"""A request that ends in an error of ours costs the client neither an answer nor the connection."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

pytest.importorskip("uvicorn", reason="pip install 'worldsize[serve]'")

import uvicorn

from worldsize.serving.front.crashes import CrashGuard
from worldsize.serving.front.listener import bind


async def _fail(_request: Request) -> Response:
    raise RuntimeError("secret detail")


async def _break_off(_request: Request) -> Response:
    async def parts() -> object:
        yield b"half"
        raise RuntimeError("secret detail")

    return StreamingResponse(parts(), headers={"Content-Length": "8"})  # type: ignore[arg-type]


async def _greet(_request: Request) -> Response:
    return PlainTextResponse("hello")


@pytest.fixture
def connection() -> Iterator[http.client.HTTPConnection]:
    routes = [Route("/fail", _fail), Route("/half", _break_off), Route("/", _greet)]
    app = Starlette(routes=routes, middleware=[Middleware(CrashGuard)])
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    listening = bind(0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    connected = http.client.HTTPConnection("127.0.0.1", listening.getsockname()[1], timeout=10)
    connected.auto_open = 0  # one connection only
    try:
        connected.connect()
        yield connected
    finally:
        connected.close()
        server.should_exit = True
        thread.join()


def test_a_kept_connection_survives_an_error_of_ours(connection: http.client.HTTPConnection) -> None:
    for _ in range(3):
        connection.request("GET", "/fail")
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 500
        assert "internal error (RuntimeError): `serve/server.log` in the home has more" in text
        assert "secret" not in text
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"hello"


def test_half_an_answer_ends_the_connection(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/half")
    with pytest.raises(http.client.IncompleteRead):
        connection.getresponse().read()
