"""Messages between the driver and its workers: a length, then a pickle. Both ends are this program."""

from __future__ import annotations

import contextlib
import pickle
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!Q")


def pack(message: Any) -> bytes:
    """A message as it travels."""
    body = pickle.dumps(message, protocol=4)
    return _LENGTH.pack(len(body)) + body


def unpack(data: bytearray) -> Any | None:
    """Take the first message out of what has arrived; None while it is not whole."""
    if len(data) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + length
    if len(data) < end:
        return None
    message = pickle.loads(data[_LENGTH.size : end])  # noqa: S301 - our own child wrote it
    del data[:end]
    return message


def send(line: socket.socket, message: Any) -> None:
    """Say something; to nobody, where the other end is gone, which :func:`receive` then tells."""
    with contextlib.suppress(OSError):
        line.sendall(pack(message))


def receive(line: socket.socket) -> Any | None:
    """Wait for a message; None where the other end is gone."""
    data = bytearray()
    while (message := unpack(data)) is None:
        try:
            chunk = line.recv(1 << 16)
        except ConnectionError:
            chunk = b""
        if not chunk:
            return None
        data += chunk
    return message
