"""Ports that stay free until the process that was told one listens on it."""

from __future__ import annotations

import itertools
import os
import random
import socket

# The kernel gives the ports from 32768 on to whoever connects or asks for any: one that is free now may
# be taken before a training has loaded torch. Below them each worker of the tests has ports of its own.
FIRST, EACH = 20_000, 2_000
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw5").removeprefix("gw")) % 6
_offsets = itertools.count(random.SystemRandom().randrange(EACH))


def find_free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens, another at each call."""
    for offset in _offsets:
        port = FIRST + EACH * _worker + offset % EACH
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("the offsets never end")
