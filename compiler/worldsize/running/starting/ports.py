"""Ports that are free because they are held, not because they were free a moment ago."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def reserve(count: int) -> Iterator[tuple[int, ...]]:
    """Hold free TCP ports for as long as the context lasts.

    Each port is bound but not listened on. With SO_REUSEADDR set *after* the bind, Linux lets a server
    that sets it too (torch, gRPC, nearly all) listen there, yet gives the port to nobody who asks for
    any free one. Two runs side by side can therefore never get the same port. Other systems refuse the
    second bind, so the ports are let go before they are used.
    """
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(_bound()) for _ in range(count)]
        numbers = tuple(int(each.getsockname()[1]) for each in sockets)
        if sys.platform != "linux":
            held.close()
        yield numbers


def _bound() -> socket.socket:
    # The wildcard address is what torch's store binds, so that is what must be free.
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return _bind(socket.AF_INET6, "::")
    return _bind(socket.AF_INET, "0.0.0.0")  # noqa: S104 - never listened on


def _bind(family: socket.AddressFamily, address: str) -> socket.socket:
    holder = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        holder.bind((address, 0))
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        holder.close()
        raise
    return holder
