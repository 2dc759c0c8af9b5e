"""Closes connections whose clients do not finish the head of a request: uvicorn waits for it forever."""

from __future__ import annotations

import asyncio
from typing import Any

from worldsize.serving.front.listener import HEAD_SECONDS


class _HeadTimer(asyncio.Protocol):
    """Comes before uvicorn's protocol, which has these two attributes."""

    transport: asyncio.Transport
    cycle: Any  # the request that is being answered, None before the first
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if not self._waits_for_head():
            self._unwatch()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._give_up)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _waits_for_head(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _give_up(self) -> None:
        upgraded = self.transport.get_protocol() is not self  # a websocket's protocol has taken over
        if not upgraded and self._waits_for_head():
            self.transport.close()


def limit_head_time(base: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    """A protocol that closes a connection when a head is not complete in :data:`HEAD_SECONDS`.

    Args:
        base: Uvicorn's protocol of HTTP.
    """
    return type("HeadTimer", (_HeadTimer, base), {})
