"""An error of ours costs a client neither the answer nor the connection; slowness costs a peer its own."""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

pytest.importorskip("uvicorn", reason="pip install 'worldsize[serve]'")

import uvicorn

from worldsize.serving.front import peers
from worldsize.serving.front.listener import Listener, Tunnel, bind
from worldsize.serving.front.server import CrashGuard


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


async def _receive(request: Request) -> Response:
    if request.headers.get("x-secret") == "right":
        peers.admit(request.scope)
    return PlainTextResponse(f"{len(await request.body())}")


def listen(
    check: Callable[[Callable[[bytes], Awaitable[Peer]]], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run a check with a function that opens connections and sends; the limits are small."""
    limits = {"MOST_STRANGERS": 4, "STRANGER_SECONDS": 0.4, "SHORTEST_SECONDS": 0.01}
    for name, value in {**limits, "HEAD_SECONDS": 0.2, "STALL_SECONDS": 0.2}.items():
        monkeypatch.setattr(peers, name, value)

    async def run() -> None:
        app = Starlette(routes=[Route("/", _receive, methods=["GET", "POST"])])
        config = uvicorn.Config(app, log_config=None, lifespan="off")
        config.load()
        protocol, state = peers.watch_peers(config.http_protocol_class), uvicorn.Server(config).server_state

        def make(_host: str | None, peer: peers.Peer) -> asyncio.Protocol:
            return protocol(config=config, server_state=state, app_state={"peer": peer})  # type: ignore[call-arg]

        unused: Any = None  # no connection asks for TLS or the proxy
        listening = bind(0)
        listener = Listener(listening, Tunnel(unused, unused, make, None))
        opened: list[asyncio.StreamWriter] = []

        async def open_peer(sent: bytes) -> Peer:
            peer = await asyncio.open_connection("127.0.0.1", listening.getsockname()[1])
            opened.append(peer[1])
            peer[1].write(sent)
            return peer

        try:
            await check(open_peer)
        finally:
            for each in opened:
                each.close()
            await listener.close()

    asyncio.run(asyncio.wait_for(run(), 30))


Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SLOW = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
RIGHT = b"GET / HTTP/1.1\r\nHost: a\r\nX-Secret: right\r\n\r\n"


async def read_rest(peer: Peer) -> bytes:
    try:
        return await asyncio.wait_for(peer[0].read(), 5)
    except ConnectionError:
        return b""


def test_strangers_make_room_for_each_other_and_have_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(open_peer: Callable[[bytes], Awaitable[Peer]]) -> None:
        friend = await open_peer(RIGHT)
        assert await friend[0].readuntil(b"\r\n\r\n0")
        strangers = [await open_peer(SLOW) for _ in range(9)]
        for number, stranger in enumerate(strangers):
            stranger[1].write(b"a")
            assert await read_rest(stranger) == b"", number
        friend[1].write(RIGHT)  # longer than a stranger may stay
        assert await friend[0].readuntil(b"\r\n\r\n0")

    listen(check, monkeypatch)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (RIGHT + b"GET / HTTP/1.1\r\nX: ", b""),  # a head that does not end
        (RIGHT + b"GET / HTTP/1.1\r\nX: " + b"a" * 400_000, b""),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 300 + b"\r\n", b"HTTP/1.1 400"),
        (RIGHT * 40, b""),  # all at once
        (SLOW.replace(b"Host", b"X-Secret: right\r\nHost") + b"abc", b""),  # a body that does not end
    ],
)
def test_who_does_not_go_on_is_closed(sent: bytes, answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "STRANGER_SECONDS", 60)

    async def check(open_peer: Callable[[bytes], Awaitable[Peer]]) -> None:
        assert (await read_rest(await open_peer(sent))).startswith(answer)

    listen(check, monkeypatch)


def test_a_connection_that_made_room_at_once_leaves_no_file_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(open_peer: Callable[[bytes], Awaitable[Peer]]) -> None:
        held = [await open_peer(b"") for _ in range(60)]
        for each in held:
            assert await read_rest(each) == b""

    listen(check, monkeypatch)  # a warning of an open file would be an error
