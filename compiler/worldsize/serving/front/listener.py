"""The only listener of the server: looks at the first bytes of a connection, and hands it on.

``CONNECT`` asks for the proxy, the first byte of a TLS handshake for the server itself over HTTPS, and
whatever else is plain HTTP. The application's own protocol object serves each connection in this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol

from worldsize.serving.front.certificates import Authority
from worldsize.serving.front.peers import HEAD_SECONDS, Peer, Peers

HEAD_BYTES = 8192
TLS_HANDSHAKE = 0x16
BACKLOG = 512

MakeProtocol = Callable[[str | None, Peer], asyncio.Protocol]


class Proxy(Protocol):
    """What answers a ``CONNECT``."""

    async def __call__(self, client: socket.socket, head: bytes, peer: Peer) -> None:
        """Own the connection whose head was read."""


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

    ``make_protocol`` makes the protocol object of a peer from the Azure host of a proxied connection; the
    proxy owns the connections that ask for it.
    """

    def __init__(
        self,
        listening: socket.socket,
        authority: Authority,
        make_protocol: MakeProtocol,
        proxy: Proxy,
    ) -> None:
        self._listening = listening
        self._authority = authority
        self._make_protocol = make_protocol
        self._proxy = proxy
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
        if first[:1] == bytes([TLS_HANDSHAKE]):
            context = self._authority.context("localhost", "127.0.0.1")
            await serve_socket(client, partial(self._make_protocol, None, peer), context)
        elif first == b"CONNECT ":
            head = await asyncio.wait_for(_read_head(client), HEAD_SECONDS)
            await self._proxy(client, head, peer)
        elif first:
            await serve_socket(client, partial(self._make_protocol, None, peer), None)
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
