"""The proxy in one process: tunnels through the user's own proxy, and what refuses them."""

from __future__ import annotations

import asyncio
import base64
import socket
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="pip install 'worldsize[serve]'")

from worldsize.serving.front.certificates import Authority
from worldsize.serving.front.guard import secret_text
from worldsize.serving.front.listener import Tunnel, Upstream
from worldsize.serving.front.peers import Peers
from worldsize.serving.workspace import Workspace


def make_head(workspace: Workspace, target: str) -> bytes:
    secret = base64.b64encode(f"worldsize:{secret_text(workspace, 'proxy')}".encode()).decode()
    return f"CONNECT {target} HTTP/1.1\r\nproxy-authorization: Basic {secret}\r\n\r\n".encode()


async def connect(
    workspace: Workspace, target: str, upstream: Upstream | None, sent: bytes = b""
) -> tuple[bytes, bytes]:
    """The head that the client of a tunnel is answered, and what came after it sent something."""

    def refuse(_host: str | None) -> asyncio.Protocol:
        raise AssertionError("not an Azure host")

    near, far = socket.socketpair()
    far.setblocking(False)
    tunnel = Tunnel(workspace, Authority(workspace.home), refuse, upstream)
    task = asyncio.create_task(tunnel.own(far, make_head(workspace, target), await Peers().enter(far.close)))
    reader, writer = await asyncio.open_connection(sock=near)
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " in head:
        writer.write(sent)
        writer.write_eof()
    rest = await reader.read()
    await asyncio.wait_for(task, 10)
    writer.close()
    return head, rest


def serve_proxy(answer: bytes, seen: list[bytes]) -> asyncio.Future[asyncio.Server]:
    """A proxy that answers every CONNECT alike and then sends back what it gets."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()

    return asyncio.ensure_future(asyncio.start_server(handle, "127.0.0.1", 0))


async def through_proxy(workspace: Workspace, answer: bytes) -> tuple[bytes, bytes, list[bytes]]:
    seen: list[bytes] = []
    server = await serve_proxy(answer, seen)
    upstream = Upstream("127.0.0.1", server.sockets[0].getsockname()[1], "Basic bWU6cEBzcw==", "")
    head, rest = await connect(workspace, "example.org:443", upstream, b"hello")
    server.close()
    return head, rest, seen


def test_other_hosts_are_reached_through_the_users_proxy(workspace: Workspace) -> None:
    answer = b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\nfirst "
    head, rest, seen = asyncio.run(through_proxy(workspace, answer))
    assert head.startswith(b"HTTP/1.1 200 ")
    assert rest == b"first hello"
    assert seen[0].startswith(b"CONNECT example.org:443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in seen[0]
    assert secret_text(workspace, "proxy").encode() not in seen[0]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 407 No\r\n\r\n", b"nonsense\r\n\r\n", b"x" * 20000])
def test_what_the_users_proxy_refuses_is_said(workspace: Workspace, answer: bytes) -> None:
    head, rest, _ = asyncio.run(through_proxy(workspace, answer))
    assert head.startswith(b"HTTP/1.1 502 ")
    assert b"the proxy 127.0.0.1" in rest


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "169.254.169.254.",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[::169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
        "168.63.129.16",
        "0xa83f8110",
        "169.254.170.2",
        "[fe80::1]",
        "metadata.test",
    ],
)
@pytest.mark.parametrize("upstream", [None, Upstream("127.0.0.1", 1, None, "")])
def test_services_of_the_machine_below_are_not_reached_however_they_are_written(
    workspace: Workspace, host: str, upstream: Upstream | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def look_up(name: str, *more: Any, **named: Any) -> Any:  # the one name that no server has to know
        return real("169.254.169.254" if name == "metadata.test" else name, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    head, rest = asyncio.run(connect(workspace, f"{host}:443", upstream))
    assert head.startswith(b"HTTP/1.1 403 "), head
    assert b"is not reached" in rest


@pytest.mark.parametrize("target", ["127.0.0.1:1", "no-such-host.invalid:443", "127.0.0.1:99999"])
def test_a_host_that_cannot_be_reached_is_said(workspace: Workspace, target: str) -> None:
    head, rest = asyncio.run(connect(workspace, target, None))
    assert head.startswith(b"HTTP/1.1 502 ")
    assert b"cannot be reached" in rest
