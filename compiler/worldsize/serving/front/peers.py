"""Who is connected: how many, how long without a secret, and how slowly a peer may speak and listen.

Uvicorn waits for the head and the body of a request forever. Its own limit of connections would refuse the
clients while strangers hold them, so here strangers make room for each other: the one that came first goes.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, MutableMapping
from functools import cache
from typing import Any

MOST_STRANGERS = 128  # connections that have not shown a secret yet
# For one of them, however it spends them; and before it has to make room, so that a client can show its own.
STRANGER_SECONDS, SHORTEST_SECONDS = 10.0, 0.25
HEAD_SECONDS = 5.0  # for the head of a request, or for the handshake of TLS
STALL_SECONDS = 60.0  # without a byte of a body, or of an answer that a peer does not read
LONGEST_HEAD = 64 << 10  # bytes
MOST_FIELDS, MOST_PIPELINED = 200, 16
_OTHER_FILES = 256  # that the server has open beside its connections: databases, logs, uploads


class Peer:
    """One connection, from its beginning to its end."""

    def __init__(self, peers: Peers, end: Callable[[], object]) -> None:
        self._peers = peers
        self.owner_ends = end  # closes it; another's with each that comes to own it
        self.is_served = False  # whether the application's protocol owns it
        self.is_idle = False  # between two requests
        self.has_left = False

    def end(self) -> None:
        """Close it."""
        self.owner_ends()

    def admit(self) -> None:
        """It has shown a secret."""
        self._peers.admit(self)

    def leave(self) -> None:
        """It has ended."""
        self._peers.leave(self)


def admit(scope: MutableMapping[str, Any]) -> None:
    """Note that the peer of a request, of which this is ASGI's scope, has shown a secret."""
    peer = scope.get("state", {}).get("peer")
    if isinstance(peer, Peer):
        peer.admit()


class Peers:
    """All connections of a server."""

    def __init__(self) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Two files each: a connection that the proxy passes through has another end.
        self._most = max(MOST_STRANGERS, min(1024, (files - _OTHER_FILES) // 2)) - MOST_STRANGERS
        self._strangers: dict[Peer, asyncio.TimerHandle] = {}  # the first that came first
        self._admitted: dict[Peer, None] = {}  # the last that showed a secret last

    async def enter(self, end: Callable[[], object]) -> Peer:
        """Count a new connection; where there are too many, end the first, which has had a moment."""
        peer, loop = Peer(self, end), asyncio.get_running_loop()
        while len(self._strangers) >= MOST_STRANGERS:
            first, timer = next(iter(self._strangers.items()))
            waits = timer.when() - STRANGER_SECONDS + SHORTEST_SECONDS - loop.time()
            if waits > 0:
                await asyncio.sleep(waits)
            elif first in self._strangers:
                first.end()
                self.leave(first)
        self._strangers[peer] = loop.call_later(STRANGER_SECONDS, peer.end)
        return peer

    def admit(self, peer: Peer) -> None:
        """Move a connection behind all others that were admitted; the one that idles longest makes room."""
        if (timer := self._strangers.pop(peer, None)) is not None:
            timer.cancel()
            if len(self._admitted) >= self._most:
                idle = next((other for other in self._admitted if other.is_idle), None)
                (idle or peer).end()
        elif peer not in self._admitted:
            return  # it has left
        self._admitted.pop(peer, None)
        self._admitted[peer] = None

    def leave(self, peer: Peer) -> None:
        """Forget a connection that has ended."""
        peer.has_left = True
        self._admitted.pop(peer, None)
        if (timer := self._strangers.pop(peer, None)) is not None:
            timer.cancel()


class _Watch(asyncio.Protocol):
    """Comes before uvicorn's protocol of HTTP, which has these attributes."""

    transport: asyncio.Transport
    app_state: dict[str, Any]
    cycle: Any  # the request that is being answered, None before the first
    flow: Any
    headers: list[tuple[bytes, bytes]]
    pipeline: Any
    ws_protocol_class: Any

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._peer: Peer = self.app_state["peer"]
        self._timer: asyncio.TimerHandle | None = None
        self._is_in_head, self._is_in_body = False, False
        self._head = 0  # bytes of one that is not complete
        if self.ws_protocol_class is not None:
            self.ws_protocol_class = _leaving(self.ws_protocol_class)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._peer.owner_ends, self._peer.is_served = transport.abort, True  # type: ignore[attr-defined]
        if self._peer.has_left:  # before Python 3.12 wait_for() can pass over a cancel()
            self._peer.end()
        self._look()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._head = self._head + len(data) if self._waits_for_head() else 0
        if self._head > LONGEST_HEAD:
            self.transport.abort()
        elif self.transport.get_protocol() is self:  # else it has become a websocket
            self._look(has_moved=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self._peer.leave()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch(STALL_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unwatch()
        self._look()

    # The parser's callbacks; what they raise makes the request a bad one.

    def on_message_begin(self) -> None:
        self._is_in_head = True
        super().on_message_begin()  # type: ignore[misc]

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MOST_FIELDS:
            raise ValueError("too many fields")
        super().on_header(name, value)  # type: ignore[misc]

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MOST_PIPELINED:
            raise ValueError("too many requests at once")
        self._is_in_head, self._is_in_body = False, True
        super().on_headers_complete()  # type: ignore[misc]

    def on_message_complete(self) -> None:
        self._is_in_body = False
        super().on_message_complete()  # type: ignore[misc]

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        self._look()

    def _waits_for_head(self) -> bool:
        return not self._is_in_body and (self.cycle is None or bool(self.cycle.response_complete))

    def _look(self, *, has_moved: bool = False) -> None:
        """Watch for what should come next. A head has its time from its first byte, a body from its last."""
        waits, begun = self._waits_for_head(), self._is_in_head or self._head > 0
        self._peer.is_idle = waits and not begun
        if waits:
            if begun or self.cycle is None:
                if self._timer is None:
                    self._watch(HEAD_SECONDS)
            else:
                self._unwatch()
        elif self._is_in_body:
            if has_moved or self._timer is None:
                self._watch(STALL_SECONDS)
        elif not self.flow.write_paused:
            self._unwatch()

    def _watch(self, seconds: float) -> None:
        self._unwatch()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._is_in_body and self.flow.read_paused:  # the application has not taken what came
            self._watch(STALL_SECONDS)
        else:
            self.transport.abort()


class _Leaving(asyncio.Protocol):
    """Comes before uvicorn's protocol of websockets, to which a connection can pass."""

    app_state: dict[str, Any]

    def connection_lost(self, exc: Exception | None) -> None:
        self.app_state["peer"].leave()
        super().connection_lost(exc)


@cache
def _leaving(base: Any) -> Any:
    return type("LeavingProtocol", (_Leaving, base), {})


def watch_peers(base: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    """Uvicorn's protocol of HTTP that ends a connection which stalls; its state has the :class:`Peer`."""
    return type("WatchedProtocol", (_Watch, base), {})
