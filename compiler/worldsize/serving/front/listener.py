"""The only listener of the server: looks at the first bytes of a connection, and hands it on.

``CONNECT`` asks for the proxy, which ends TLS for Azure's hosts with the application behind it and passes
other hosts through. The first byte of a TLS handshake asks for the server itself over HTTPS, and whatever
else is plain HTTP. The application's own protocol object serves each connection in this process.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from worldsize.base.addresses import is_machine
from worldsize.serving.front.certificates import Authority
from worldsize.serving.front.guard import (
    PROXY_USER,
    check_proxy_credentials,
    normalise,
    path_prefix,
)
from worldsize.serving.front.peers import HEAD_SECONDS, Peer, Peers
from worldsize.serving.workspace import Workspace

HEAD_BYTES = 8192
TLS_HANDSHAKE = 0x16
BACKLOG = 512

MakeProtocol = Callable[[str | None, Peer], asyncio.Protocol]


def bind(port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1; on port 0 on one that is free.

    Raises:
        OSError: The port is taken, or may not be used.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


class Listener:
    """Accepts connections to the socket that :func:`bind` made, until it is closed.

    The tunnel owns the connections that ask for the proxy; its protocol serves the others too.
    """

    def __init__(self, listening: socket.socket, tunnel: Tunnel) -> None:
        self._listening = listening
        self._tunnel = tunnel
        self._peers = Peers()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    async def close(self) -> None:
        """Stop accepting, and end the connections that the application does not own yet."""
        tasks = [self._accepting, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._listening)
            except OSError:  # out of files: wait until some are closed
                await asyncio.sleep(0.1)
                continue
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = await self._peers.enter(client.close)
            task = asyncio.create_task(self._own(client, peer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _own(self, client: socket.socket, peer: Peer) -> None:
        """Hand a connection on; close it if that fails."""
        if client.fileno() < 0:  # it had to make room before it came here
            return
        task = asyncio.current_task()
        assert task is not None
        peer.owner_ends = task.cancel
        try:
            await self._hand_on(client, peer)
        except (OSError, asyncio.TimeoutError):  # the client went away, or does not speak
            client.close()
        except asyncio.CancelledError:
            client.close()
            raise
        except Exception:
            logging.getLogger(__name__).exception("a connection failed")
            client.close()
        finally:
            if not peer.is_served:
                peer.leave()

    async def _hand_on(self, client: socket.socket, peer: Peer) -> None:
        first = await asyncio.wait_for(_peek_method(client), HEAD_SECONDS)
        make_protocol = partial(self._tunnel.make_protocol, None, peer)
        if first[:1] == bytes([TLS_HANDSHAKE]):
            context = self._tunnel.authority.context("localhost", "127.0.0.1")
            await serve_socket(client, make_protocol, context)
        elif first == b"CONNECT ":
            head = await asyncio.wait_for(_read_head(client), HEAD_SECONDS)
            await self._tunnel.own(client, head, peer)
        elif first:
            await serve_socket(client, make_protocol, None)
        else:
            client.close()


async def serve_socket(
    client: socket.socket, make_protocol: Callable[[], asyncio.Protocol], context: ssl.SSLContext | None
) -> None:
    """Let the application serve an accepted connection, over TLS if a context is given."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(ssl.SSLError):  # the client does not trust us: it says so itself
        await loop.connect_accepted_socket(
            make_protocol,
            client,
            ssl=context,
            ssl_handshake_timeout=HEAD_SECONDS if context is not None else None,
        )


async def _read_head(client: socket.socket) -> bytes:
    """Read a request up to its empty line, and nothing of what follows."""
    head = bytearray()
    while len(head) < HEAD_BYTES:
        await _wait_readable(client)
        peeked = client.recv(HEAD_BYTES - len(head), socket.MSG_PEEK)
        if not peeked:
            break
        end = (head + peeked).find(b"\r\n\r\n")
        head += client.recv(len(peeked) if end < 0 else end + 4 - len(head))
        if end >= 0:
            return bytes(head)
    raise ConnectionError("no head of a request")


async def _peek_method(client: socket.socket) -> bytes:
    """The first eight bytes, which stay to be read; fewer if they differ from ``CONNECT`` before."""
    while True:
        await _wait_readable(client)
        first = client.recv(8, socket.MSG_PEEK)
        if len(first) == 8 or not b"CONNECT ".startswith(first) or not first:
            return first
        await asyncio.sleep(0.01)  # what was peeked at keeps the socket readable


async def _wait_readable(client: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(client, _set_ready, ready)
    try:
        await ready
    finally:
        loop.remove_reader(client)


def _set_ready(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


CONNECT_SECONDS, LOOK_UP_SECONDS = 30.0, 2.0
CHUNK = 65536
_REQUEST = re.compile(rb"CONNECT (\[[0-9A-Fa-f:.]{2,64}\]|[A-Za-z0-9._-]{1,253}):(\d{1,5}) HTTP/1\.[01]\r\n")


Address: TypeAlias = tuple[str, int]


class MachineError(Exception):
    """A host is a service of the machine below this one."""


class UpstreamError(Exception):
    """The user's own proxy cannot be used."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """The proxy that the user had set before, through which other hosts are reached."""

    host: str
    port: int
    authorization: str | None
    no_proxy: str

    def serves(self, host: str) -> bool:
        """Whether the user wants the host to be reached through the proxy."""
        names = [name.strip().lstrip("*.").lower() for name in self.no_proxy.split(",")]
        everything = "*" in self.no_proxy.split(",")
        return not everything and not any(name and f".{host}".endswith(f".{name}") for name in names)


def find_upstream(environment: Mapping[str, str]) -> Upstream | None:
    """The proxy that the user's variables name for HTTPS.

    Raises:
        UpstreamError: It is not one that is spoken to in plain HTTP.
    """
    names = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
    named = next(((name, environment[name]) for name in names if environment.get(name)), None)
    if named is None:
        return None
    name, url = named
    if f"//{PROXY_USER}:" in url:  # a workspace's: its shell started this server
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or 80
    except ValueError as error:
        raise UpstreamError(f"{name} is not the address of a proxy: {error}") from None
    if parts.scheme != "http" or not parts.hostname:
        raise UpstreamError(f"{name} must begin with `http://` to be used for the hosts that are not Azure's")
    user = None
    if parts.username is not None:
        text = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        user = "Basic " + base64.b64encode(text.encode()).decode()
    no_proxy = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    return Upstream(parts.hostname, port, user, no_proxy)


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Answers ``CONNECT`` for one workspace."""

    workspace: Workspace
    authority: Authority
    make_protocol: MakeProtocol  # of a peer, by the Azure host of a proxied connection
    upstream: Upstream | None

    async def own(self, client: socket.socket, head: bytes, peer: Peer) -> None:
        """Own the connection whose head was read.

        Raises:
            OSError: The client went away.
        """
        matched = _REQUEST.match(head)
        if matched is None:
            await _refuse(client, "400 Bad Request", "CONNECT needs HOST:PORT")
            return
        if not check_proxy_credentials(self.workspace, _find_header(head, b"proxy-authorization")):
            await _refuse(client, "407 Proxy Authentication Required", "the proxy needs its user and secret")
            return
        peer.admit()
        host, port = normalise(matched[1].decode("ascii").strip("[]")), int(matched[2])
        if path_prefix(host) is None:
            await self._pass_through(client, host, port)
            return
        await _send(client, b"HTTP/1.1 200 Connection established\r\n\r\n")
        context = self.authority.context(host)
        await serve_socket(client, partial(self.make_protocol, host, peer), context)

    async def _pass_through(self, client: socket.socket, host: str, port: int) -> None:
        """Carry bytes between the client and another host, which TLS keeps from us."""
        try:
            opened = await asyncio.wait_for(self._connect(host, port), CONNECT_SECONDS)
        except MachineError:
            await _refuse(
                client, "403 Forbidden", f"{host} is a service of the machine below: it is not reached"
            )
            return
        except (OSError, OverflowError, asyncio.TimeoutError, UnicodeError) as error:
            await _refuse(client, "502 Bad Gateway", f"{host} cannot be reached: {error}")
            return
        far_reader, far_writer = opened
        await _send(client, b"HTTP/1.1 200 Connection established\r\n\r\n")
        reader, writer = await asyncio.open_connection(sock=client)
        try:
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            for stream in (writer, far_writer):
                stream.close()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        proxy = self.upstream
        if proxy is None or not proxy.serves(host):
            return await _open(await _resolve(host, port))
        # The user's proxy may know names that this machine does not, or is slow to find unknown.
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(_resolve(host, port), LOOK_UP_SECONDS)
        reader, writer = await asyncio.open_connection(proxy.host, proxy.port, limit=HEAD_BYTES)
        name = f"[{host}]" if ":" in host else host
        lines = [f"CONNECT {name}:{port} HTTP/1.1", f"Host: {name}:{port}"]
        if proxy.authorization is not None:
            lines.append(f"Proxy-Authorization: {proxy.authorization}")
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        try:
            answer = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            answer = b""
        status = answer[:64].split(b"\r\n")[0].split(b" ")
        if len(status) < 2 or status[1] != b"200":
            writer.close()
            said = b" ".join(status[1:]).decode("latin-1") or "nothing"
            raise ConnectionError(f"the proxy {proxy.host}:{proxy.port} answered {said}")
        return reader, writer


async def _resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host, however it is written.

    Raises:
        MachineError: One of them is not to be reached.
        OSError: It has none.
    """
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [(str(address[0]), int(address[1])) for *_, address in infos]
    if any(is_machine(name) for name, _ in addresses):
        raise MachineError(host)
    return list(dict.fromkeys(addresses))


async def _open(addresses: list[Address]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address that answers: names are not resolved again, to something else.

    Raises:
        OSError: None answers.
    """
    for name, port in addresses[:-1]:
        with contextlib.suppress(OSError):
            return await asyncio.open_connection(name, port)
    return await asyncio.open_connection(*addresses[-1])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes one way until their end, which the other side hears of."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:  # one side went away: so does the other
        writer.close()


def _find_header(head: bytes, name: bytes) -> str:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip().decode("latin-1")
    return ""


async def _refuse(client: socket.socket, status: str, message: str) -> None:
    """Answer with an error and close the connection."""
    body = f"worldsize serve: {message}\n".encode()
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Length: {len(body)}",
        "Content-Type: text/plain",
        "Connection: close",
    ]
    if status.startswith("407"):
        lines.append('Proxy-Authenticate: Basic realm="worldsize"')
    with contextlib.suppress(OSError):
        await _send(client, "\r\n".join([*lines, "", ""]).encode("latin-1") + body)
    client.close()


async def _send(client: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(client, data)
