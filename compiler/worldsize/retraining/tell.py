"""Sends notices to a webhook, once for each cause; one that is down delays a look by seconds at most."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import ipaddress
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from worldsize.base.addresses import is_machine
from worldsize.base.shown_text import mark_controls
from worldsize.retraining.decide import Notice
from worldsize.retraining.policy import Policy
from worldsize.running.record.json_files import read_json, write_json

SECONDS = 5.0  # of one look, for all that it sends
TRIES = 12  # of one notice; the pauses between them double, from a minute to a day and a half
LONGEST = 2000  # characters of a text
DUE = "due"  # the folder of notices that are to be sent, of a pipeline
_LOCAL = ("localhost", "127.0.0.1", "::1")


class Due(Struct, frozen=True):
    """A notice that is still to be sent."""

    text: str
    tries: int = 0
    after: float = 0.0  # the time before which it is not tried again


def add_due(root: Path, notice: Notice, policy: Policy) -> None:
    """Put a notice where this look or the next one sends it, if it is to be sent.

    Raises:
        OSError: It cannot be written.
    """
    if policy.webhook is not None and notice.topic in policy.tell_on:
        name = hashlib.sha256(notice.cause.encode()).hexdigest()[:16]
        _write_due(root / DUE / f"{name}.json", Due(notice.text[:LONGEST]))


def _write_due(path: Path, due: Due) -> None:
    write_json(path, msgspec.to_builtins(due), flush=True)


def take_secret(policy: Policy) -> str | None:
    """The address of the webhook; no step of a run that this process starts inherits its variable."""
    return os.environ.pop(policy.webhook, None) if policy.webhook is not None else None


def send_due(root: Path, policy: Policy, secret: str | None, now: float, warn: Callable[[str], None]) -> None:
    """Send what is due; a webhook that does not take it is one line, and a later look tries again.

    A notice is taken out before it is sent: killed in between, it is lost, and never sent twice.
    """
    for path in sorted((root / DUE).glob("*.json")) if policy.webhook is not None else ():
        with contextlib.suppress(OSError, msgspec.ValidationError):
            due = msgspec.convert(read_json(path), Due)
            if now < due.after:
                continue
            path.unlink()  # of two looks, the other one fails
            fault = "is not set" if not secret else post(secret, f"worldsize retrain {root.name}: {due.text}")
            if fault is None:
                continue
            tries = due.tries + 1
            if tries < TRIES:
                _write_due(path, replace(due, tries=tries, after=now + 60 * 2.0**due.tries))
            given_up = "" if tries < TRIES else ", and it is not tried again"
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
