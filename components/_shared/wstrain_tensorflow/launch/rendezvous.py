"""The processes of one training connect over TCP before TensorFlow does, and stay connected.

TensorFlow waits for a missing worker without naming it, and when a worker dies the others may hang in a
collective. So the processes first connect to the leader's address, which all of them know and which is not
yet in use. After a time-out the missing ones are named, and inputs compared, before TensorFlow is loaded. The
connections stay open. If one closes before its process has left, that process has died, and the others end
within a second or two. Messages are lines of JSON; nothing received is executed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from wsshards.errors import Interrupted, UserError, describe_error
from wstrain.health.rank_status import RankStatus, fail_together

GRACE_SECONDS = 1.0  # in which a process that fails for its own reason can report it first
RETRY_SECONDS = 0.1
MAX_MESSAGE_BYTES = 1 << 22
_GREETING = "worldsize"


class Rendezvous:
    """A star of connections with the leader in the middle; a single process opens none.

    Args:
        members: name and address ``host:port`` of every process; the first is the leader.
        number: of this process among them.
        timeout: seconds to wait for the others.
        status: of this process and of the group.

    Raises:
        UserError: a process did not join in time, or the leader's port is taken.
    """

    def __init__(
        self,
        members: Sequence[tuple[str, str]],
        number: int,
        timeout: float,
        status: RankStatus | None = None,
    ) -> None:
        self._members, self._number, self._timeout = members, number, timeout
        self.status = status or RankStatus()
        self._leaving = False
        self._peers: dict[int, _Peer] = {}
        if len(members) > 1:
            deadline = time.monotonic() + timeout
            self._peers = self._receive(deadline) if number == 0 else {0: self._visit(deadline)}
            for other, peer in self._peers.items():
                peer.listen(lambda lost=other: self._handle_loss(lost), self._handle_message)

    @property
    def is_main(self) -> bool:
        """Whether this process leads: it writes metrics, checkpoints and the model."""
        return self._number == 0

    @property
    def names(self) -> list[str]:
        """The names of the processes."""
        return [name for name, _ in self._members] or ["worker 0"]

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes, in order; they must be JSON. Called by all."""
        if not self._peers:
            return [value]
        if self._number:
            self._peers[0].send({"value": value})
            gathered: list[Any] = self._peers[0].receive()["all"]
            return gathered
        values = [value] + [self._peers[number].receive()["value"] for number in sorted(self._peers)]
        for peer in self._peers.values():
            peer.send({"all": values})
        return values

    def together(self) -> AbstractContextManager[None]:
        """Run code that may fail in one process; if it does, all raise the same error."""
        return fail_together(self.gather)

    def stop_on_sigterm(self) -> None:
        """Stop when SIGTERM arrives; processes that only serve tell the leader."""

        def tell() -> None:
            # In a thread, as the main thread may be sending a message.
            threading.Thread(target=self._peers[0].send, args=({"stop": True},), daemon=True).start()

        self.status.stop_on_sigterm(tell if self._number else lambda: None)

    def leave(self, word: str = "done") -> None:
        """Wait until all processes are done; afterwards each may end.

        Args:
            word: ``stopped`` if this process was interrupted.

        Raises:
            Interrupted: another process was.
        """
        words = self.gather(word)
        self.close()
        if word == "done" and "stopped" in words:
            raise Interrupted(
                f"{self.names[words.index('stopped')]} was asked to stop, and has saved its steps"
            )

    def close(self) -> None:
        """Close the connections without waiting."""
        self._leaving = True
        for peer in self._peers.values():
            peer.close()

    def _receive(self, deadline: float) -> dict[int, _Peer]:
        """As the leader, accept the connections of the others."""
        peers: dict[int, _Peer] = {}
        with _listener(self._members[0][1]) as listener:
            while len(peers) < len(self._members) - 1 and (left := deadline - time.monotonic()) > 0:
                listener.settimeout(left)
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    break
                peer = _Peer(connection)
                number = peer.read_greeting(len(self._members))
                if number is None or number in peers:
                    peer.close()  # a stranger, or a number that is taken
                else:
                    peers[number] = peer
        missing = [number for number in range(1, len(self._members)) if number not in peers]
        words = self._missing(missing) if missing else None
        for peer in peers.values():
            peer.send({"missing": words})
            if words:
                peer.close()
        if words:
            raise UserError(*words)
        return peers

    def _visit(self, deadline: float) -> _Peer:
        """Connect to the leader."""
        address = self._members[0][1]
        host, _, port = address.rpartition(":")
        while True:
            peer, answer = None, None
            try:
                # The leader's time-out began at its own start, so its answer may come a little after ours.
                left = max(deadline - time.monotonic(), 1.0)
                connection = socket.create_connection((host.strip("[]"), int(port)), timeout=left)
                peer = _Peer(connection)
                peer.send({_GREETING: self._number})
                connection.settimeout(left + 5)
                answer = peer.read()
            except OSError:
                pass  # not there yet, or gone already
            if peer is not None and answer is not None and "missing" in answer:
                break
            if peer is not None:
                peer.close()
            if time.monotonic() > deadline:
                raise UserError(*self._missing([0]))
            time.sleep(RETRY_SECONDS)
        if answer["missing"]:
            peer.close()
            raise UserError(*answer["missing"])
        return peer

    def _missing(self, numbers: Sequence[int]) -> tuple[str, str]:
        who = ", ".join(f"{name} (`{address}`)" for name, address in (self._members[n] for n in numbers))
        return (
            f"{who} did not join within {self._timeout:g} s",
            "its own log says why; `join_timeout` is how long the others wait",
        )

    def _handle_message(self, message: dict[str, Any]) -> bool:
        """Handle a message that is not for :meth:`gather`; return whether it was one."""
        if "stop" in message:
            self.status.stop = True
            return True
        if "gone" not in message:
            return False
        self._end(message["gone"])
        return True

    def _handle_loss(self, number: int) -> None:
        self._end(self._members[number][0])

    def _end(self, name: str) -> None:
        time.sleep(GRACE_SECONDS)
        if self._leaving:
            return
        if self._number == 0:
            for peer in self._peers.values():
                with contextlib.suppress(OSError):
                    peer.send({"gone": name})
        print(f"error: {name} has gone, so this process stops", file=sys.stderr)
        print("help: its own log says why", file=sys.stderr, flush=True)
        # The main thread may hang in a collective, so nothing gentler ends the process.
        os._exit(1)


class _Peer:
    """One connection; a thread reads its messages, so its end is noticed at once."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        self._inbox: queue.Queue[dict[str, Any]] = queue.Queue()
        self._writing = threading.Lock()
        _keep_alive(connection)

    def read_greeting(self, members: int) -> int | None:
        """Return the number that the other side sends; None if it is not valid."""
        self._connection.settimeout(5)
        try:
            number = (self.read() or {}).get(_GREETING)
        except OSError:
            return None
        return number if isinstance(number, int) and 0 < number < members else None

    def listen(self, lost: Any, handle: Any) -> None:
        """Read in the background; ``handle`` returns whether it took a message."""
        self._connection.settimeout(None)
        threading.Thread(target=self._listen, args=(lost, handle), name="rendezvous", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; if the peer has gone, the reader notices."""
        with self._writing, contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def read(self) -> dict[str, Any] | None:
        """The next message, or None at the end."""
        line = self._file.readline(MAX_MESSAGE_BYTES)
        try:
            message = json.loads(line)
        except ValueError:
            return None
        return message if isinstance(message, dict) else None

    def receive(self) -> dict[str, Any]:
        """Wait for the next message from the reader."""
        return self._inbox.get()

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self._file.close()
        self._connection.close()

    def _listen(self, lost: Any, handle: Any) -> None:
        with contextlib.suppress(OSError, ValueError):
            while (message := self.read()) is not None:
                if not handle(message):
                    self._inbox.put(message)
        lost()


def _listener(address: str) -> socket.socket:
    port = int(address.rpartition(":")[2])
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as error:
        raise UserError(
            f"worker 0 cannot listen on port {port} of its own address `{address}`: {describe_error(error)}",
            "end the process that has the port, or give another one in `TF_CONFIG`",
        ) from None


def _keep_alive(connection: socket.socket) -> None:
    # A machine that loses power does not close connections; the system probes it after 30 s, three times.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
