"""Processes of one training meet over TCP before their framework does, and stay in touch.

TensorFlow waits for a worker that never comes and does not say for which; when one dies in the middle the
others may hang in a collective. So the processes first meet at the leader's own address, which everybody
knows and nobody listens on yet: who is missing is named after a time-out, and inputs are compared, before
TensorFlow is loaded. The connections then stay open. One that closes before its process has taken leave
means that the process has died, and the others end within a second or two. Messages are lines of JSON;
nothing received is executed.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wsshards.errors import Interrupted, UserError
from wstrain.health.rank_status import RankStatus

GRACE_SECONDS = 1.0  # a process that fails for its own reason says so itself before it hears of others
RETRY_SECONDS = 0.1
_LONGEST = 1 << 22  # bytes of one message
_GREETING = "worldsize"


class Rendezvous:
    """A star of connections with the leader in the middle; alone, nothing is opened.

    Args:
        members: name and address ``host:port`` of every process; the first leads.
        place: which of them this process is.
        timeout: seconds to wait for the others.
        status: what this process has to tell, and what it hears.

    Raises:
        UserError: somebody did not come in time, or the leader's port is taken.
    """

    def __init__(
        self,
        members: Sequence[tuple[str, str]],
        place: int,
        timeout: float,
        status: RankStatus | None = None,
    ) -> None:
        self._members, self._place, self._timeout = members, place, timeout
        self.status = status or RankStatus()
        self._leaving = False
        self._peers: dict[int, _Peer] = {}
        if len(members) > 1:
            deadline = time.monotonic() + timeout
            self._peers = self._receive(deadline) if place == 0 else {0: self._visit(deadline)}
            for number, peer in self._peers.items():
                peer.listen(lambda number=number: self._lost(number), self._told)

    @property
    def names(self) -> list[str]:
        """What the members are called."""
        return [name for name, _ in self._members] or ["worker 0"]

    def gather(self, value: Any) -> list[Any]:
        """Return everybody's value, which must be JSON, by place; called by all."""
        if not self._peers:
            return [value]
        if self._place:
            self._peers[0].send({"value": value})
            found: list[Any] = self._peers[0].receive()["all"]
            return found
        values = [value] + [self._peers[number].receive()["value"] for number in sorted(self._peers)]
        for peer in self._peers.values():
            peer.send({"all": values})
        return values

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run a part that may fail for one only; if it does, it fails for all with the same sentence."""
        failure: UserError | None = None
        try:
            yield
        except UserError as error:
            failure = error
        for message in self.gather([failure.message, failure.help] if failure else None):
            if message is not None:
                raise UserError(*message)

    def listen(self) -> None:
        """Stop when this process is asked to; the leader hears of it even from those that only serve."""

        def tell() -> None:
            # In a thread: the main one may be in the middle of a message.
            threading.Thread(target=self._peers[0].send, args=({"stop": True},), daemon=True).start()

        self.status.stop_on_sigterm(tell if self._place else lambda: None)

    def leave(self, word: str = "done") -> None:
        """Wait until all are done; from then on it is no loss when a process ends.

        Args:
            word: ``stopped`` if this process has stopped in the middle.

        Raises:
            Interrupted: another has.
        """
        words = self.gather(word)
        self.close()
        if word == "done" and "stopped" in words:
            raise Interrupted(
                f"{self.names[words.index('stopped')]} was asked to stop, and has saved its steps"
            )

    def close(self) -> None:
        """Hang up without waiting for anybody, when all know why."""
        self._leaving = True
        for peer in self._peers.values():
            peer.close()

    def _receive(self, deadline: float) -> dict[int, _Peer]:
        """As the leader, wait for the others."""
        found: dict[int, _Peer] = {}
        with _listener(self._members[0][1]) as listener:
            while len(found) < len(self._members) - 1 and (left := deadline - time.monotonic()) > 0:
                listener.settimeout(left)
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    break
                peer = _Peer(connection)
                number = peer.greeted(len(self._members))
                if number is None or number in found:
                    peer.close()  # a stranger, or somebody with another one's place
                else:
                    found[number] = peer
        missing = [number for number in range(1, len(self._members)) if number not in found]
        words = self._missing(missing) if missing else None
        for peer in found.values():
            peer.send({"missing": words})
            if words:
                peer.close()
        if words:
            raise UserError(*words)
        return found

    def _visit(self, deadline: float) -> _Peer:
        """Join the leader."""
        address = self._members[0][1]
        host, _, port = address.rpartition(":")
        while True:
            peer, answer = None, None
            try:
                # The leader counts from its own start, so its verdict may come a little later than our end.
                left = max(deadline - time.monotonic(), 1.0)
                connection = socket.create_connection((host.strip("[]"), int(port)), timeout=left)
                peer = _Peer(connection)
                peer.send({_GREETING: self._place})
                connection.settimeout(left + 5)
                answer = peer.read()
            except OSError:
                pass  # not there yet, or gone again
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

    def _told(self, message: dict[str, Any]) -> bool:
        """Whether a message was for us and not for who waits in :meth:`gather`."""
        if "stop" in message:
            self.status.stop = True
            return True
        if "gone" not in message:
            return False
        self._end(message["gone"])
        return True

    def _lost(self, number: int) -> None:
        self._end(self._members[number][0])

    def _end(self, name: str) -> None:
        time.sleep(GRACE_SECONDS)
        if self._leaving:
            return
        if self._place == 0:
            for peer in self._peers.values():
                with contextlib.suppress(OSError):
                    peer.send({"gone": name})
        print(f"error: {name} has gone, so this process stops", file=sys.stderr)
        print("help: its own log says why", file=sys.stderr, flush=True)
        # From a thread, while the main one may hang in a collective: nothing gentler ends the process.
        os._exit(1)


class _Peer:
    """One connection. Its messages are read by a thread, so that its end is noticed at once."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        self._inbox: queue.Queue[dict[str, Any]] = queue.Queue()
        self._writing = threading.Lock()
        _keep_alive(connection)

    def greeted(self, members: int) -> int | None:
        """The place that the other side says it has."""
        self._connection.settimeout(5)
        try:
            place = (self.read() or {}).get(_GREETING)
        except OSError:
            return None
        return place if isinstance(place, int) and 0 < place < members else None

    def listen(self, lost: Any, told: Any) -> None:
        """Start to read in the background."""
        self._connection.settimeout(None)
        threading.Thread(target=self._listen, args=(lost, told), name="meeting", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; a peer that has gone is noticed by the reader."""
        with self._writing, contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def read(self) -> dict[str, Any] | None:
        """The next message, or None at the end."""
        line = self._file.readline(_LONGEST)
        try:
            message = json.loads(line)
        except ValueError:
            return None
        return message if isinstance(message, dict) else None

    def receive(self) -> dict[str, Any]:
        """Wait for a message that the reader got."""
        return self._inbox.get()

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self._file.close()
        self._connection.close()

    def _listen(self, lost: Any, told: Any) -> None:
        with contextlib.suppress(OSError, ValueError):
            while (message := self.read()) is not None:
                if not told(message):
                    self._inbox.put(message)
        lost()


def _listener(address: str) -> socket.socket:
    port = int(address.rpartition(":")[2])
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"worker 0 cannot listen on port {port} of its own address `{address}`: {reason}",
            "end the process that has the port, or give another one in `TF_CONFIG`",
        ) from None


def _keep_alive(connection: socket.socket) -> None:
    # A machine that loses its power closes nothing; the system then asks it after 30 s, three times.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
