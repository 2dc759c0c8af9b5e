"""Sends notices to a webhook, once for each cause; one that is down delays a look by seconds at most."""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from worldsize.base import untrusted
from worldsize.base.addresses import is_machine
from worldsize.base.shown_text import mark_controls
from worldsize.base.whole_file import write_whole
from worldsize.retraining.decide import Notice
from worldsize.retraining.policy import Policy, Topic
from worldsize.running.record.json_files import write_json

SECONDS = 5.0  # of one look, for all that it sends
TRIES = 12  # of one notice; the pauses between them double, from a minute to a day and a half
LONGEST = 2000  # characters of a text
_LOCAL = ("localhost", "127.0.0.1", "::1")


class Told(Struct, frozen=True):
    """A notice that was printed, and whether it is still to be sent."""

    cause: str
    topic: Topic | None = None
    text: str = ""
    is_due: bool = False
    tries: int = 0
    after: float = 0.0  # the time before which it is not tried again


def read_told(root: Path) -> frozenset[str]:
    """The causes of notices that were given."""
    return frozenset(told.cause for _, told in _list_told(root))


def mark_told(root: Path, notice: Notice, policy: Policy) -> bool:
    """Remember that a notice is given; False if another look has given it.

    Raises:
        OSError: It cannot be remembered.
    """
    is_due = policy.webhook is not None and notice.topic in policy.tell_on
    told = Told(notice.cause, notice.topic, notice.text[:LONGEST], is_due)
    (root / "told").mkdir(exist_ok=True)
    path = root / "told" / hashlib.sha256(notice.cause.encode()).hexdigest()[:16]
    try:
        write_whole(path, msgspec.json.encode(told), new=True)
    except FileExistsError:
        return False
    return True


def _list_told(root: Path) -> Iterator[tuple[Path, Told]]:
    for path in sorted((root / "told").glob("[0-9a-f]*")):
        with untrusted.passed_over():
            text = untrusted.read_bytes(path)
            try:
                yield path, msgspec.json.decode(text, type=Told)
            except (msgspec.MsgspecError, ValueError):  # from before notices were sent
                yield path, Told(text.decode("utf-8", "replace"))


def take_secret(policy: Policy) -> str | None:
    """The address of the webhook; no step of a run that this process starts inherits its variable."""
    return os.environ.pop(policy.webhook, None) if policy.webhook is not None else None


def send_due(root: Path, policy: Policy, secret: str | None, now: float, warn: Callable[[str], None]) -> None:
    """Send what is due, the look holding the folder's lock; what fails is one line, and is tried again later.

    A notice counts as sent before it is: killed in between, it is lost, and never sent twice.

    Raises:
        OSError: It cannot be remembered.
    """
    if policy.webhook is None:
        return
    for path, told in _list_told(root):
        if not told.is_due or now < told.after:
            continue
        write_json(path, msgspec.to_builtins(replace(told, is_due=False)), flush=True)
        fault = "is not set" if not secret else post(secret, f"worldsize retrain {root.name}: {told.text}")
        if fault is None:
            continue
        tries = told.tries + 1
        is_last = tries >= TRIES
        later = replace(told, tries=tries, after=now + 60 * 2.0**told.tries, is_due=not is_last)
        write_json(path, msgspec.to_builtins(later), flush=True)
        given_up = ", and it is not tried again" if is_last else ""
        warn(f"a notice was not sent: the webhook in `{policy.webhook}` {fault}{given_up}")
        return  # the others wait for the next look


def post(address: str, text: str) -> str | None:
    """Send a text; None, or the rest of a sentence that says why not, without the address."""
    faults: list[str | None] = []
    # Neither resolving a name nor a server that sends byte by byte keeps to the time limit of a socket.
    sender = threading.Thread(target=lambda: faults.append(_post(address, text)), daemon=True)
    sender.start()
    sender.join(SECONDS)
    return faults[0] if faults else f"did not answer within {SECONDS:g} s"


def _post(address: str, text: str) -> str | None:
    try:
        status = _send(address, text)
    except _RefusedError as error:
        return str(error)
    except ssl.SSLError:
        return "has no valid certificate"
    except OSError as error:
        return f"cannot be reached: {(error.strerror or 'no answer').lower()}"
    except (http.client.HTTPException, ValueError):  # whose messages may have the address
        return "has no valid address, or no valid answer"
    if 200 <= status < 300:
        return None
    return f"answered {status}" + (", and redirects are not followed" if 300 <= status < 400 else "")


class _RefusedError(Exception):
    """An address that nothing is sent to."""


def _send(address: str, text: str) -> int:
    """The status of the answer; the connection is to the very IP address that was judged."""
    url = urlsplit(address.strip())
    host, encrypted = url.hostname or "", url.scheme == "https"
    default = 443 if encrypted else 80
    port = url.port or default
    if not host or (not encrypted and (url.scheme != "http" or host not in _LOCAL)):
        raise _RefusedError("has no address that begins with `https://`")
    places = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if any(is_machine(place) for place in places):
        raise _RefusedError("leads to a service of the machine, which is never called")
    if not encrypted and not all(ipaddress.ip_address(place).is_loopback for place in places):
        raise _RefusedError("leads to another machine, without encryption")
    shown = f"[{host}]" if ":" in host else host
    headers = {
        "Host": shown if port == default else f"{shown}:{port}",
        "Content-Type": "application/json",
        "Connection": "close",
    }
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    # Slack reads `<!channel>` as a call to everybody.
    document = {"text": mark_controls(text.replace("\n", " ")).replace("<", "‹")[:LONGEST]}
    with socket.create_connection((places[0], port), SECONDS) as plain:
        connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
        connection.sock = plain
        if encrypted:
            connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
        try:
            connection.request("POST", path, json.dumps(document).encode(), headers)
            return connection.getresponse().status
        finally:
            connection.close()
