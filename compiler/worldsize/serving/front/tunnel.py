"""The proxy: ends TLS for Azure's hosts with the application behind it, and passes other hosts through."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from worldsize.serving.front.certificates import Authority
from worldsize.serving.front.guard import PROXY_USER, check_proxy_credentials
from worldsize.serving.front.hosts import is_machine, normalise, path_prefix
from worldsize.serving.front.listener import HEAD_BYTES, MakeProtocol, serve_socket
from worldsize.serving.front.peers import Peer
from worldsize.serving.workspace import Workspace

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
    make_protocol: MakeProtocol
    upstream: Upstream | None

    async def __call__(self, client: socket.socket, head: bytes, peer: Peer) -> None:
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
