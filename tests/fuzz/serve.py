"""Hostile requests to a served workspace: ``python tests/fuzz/serve.py --requests 10000 --seed 1``.

The server, which may have 1,024 files open, must answer each without an internal error and without a
traceback, succeed for nobody without a token, write nothing outside its home, stay below 500 MB, and go on
answering another client within a second and its pages to a browser. Connections that say nothing, or that say
it slowly, must not keep others out, and are closed.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import itertools
import json
import os
import random
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import timed_loop
from plain_client import PlainClient
from serve_attacks import Attack, Attacker
from serve_requests import API, WORKSPACE
from serving import Served, serving

ANSWER_SECONDS = 20.0
MOST_MEMORY = 500_000_000  # bytes of the server's process
FILES = 1024  # that the server may have open
HEALTH_SECONDS, PAGE_SECONDS = 1.0, 5.0  # the longest that a right request, and a page, may take
PAGES = (
    "/",
    "/schedules",
    "/models",
    "/data",
    "/components",
    "/environments",
    "/compute",
    "/jobs/p",
    "/schedules/s",
)
LOOP_SECONDS = 0.25  # of processor time that the event loop may work at a time, when it draws a first page
SLOW = 150  # connections that say nothing
SLOW_BODIES = 1005  # that say a byte of a body a second, before any secret
SLOW_SECONDS = 40.0  # after which they must be closed


@dataclass
class Result:
    """What came of the attacks."""

    answers: Counter[str] = field(default_factory=Counter)  # by kind of attack and status
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0  # seconds, of the right requests that another client makes meanwhile
    slowest_page: float = 0.0
    patience: float = 1.0  # by what the right requests may take longer, on a machine with more to do
    healthy: int = 0  # right requests that were answered in time
    memory: int = 0  # bytes, the most


class Channel:
    """Opens connections to the server, and tunnels through its proxy."""

    def __init__(self, served: Served) -> None:
        self.port = served.port
        proxy = urlsplit(served.environment["HTTPS_PROXY"])
        self.login = base64.b64encode(f"{proxy.username}:{proxy.password}".encode())
        self.context = ssl.create_default_context(cafile=served.environment["REQUESTS_CA_BUNDLE"])

    @contextlib.contextmanager
    def open(self, host: str | None) -> Iterator[socket.socket]:
        """A connection to the port, or to one of Azure's hosts as the proxy shows it."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_SECONDS) as plain:
            if host is None:
                yield plain
                return
            name = host.encode()
            plain.sendall(
                b"CONNECT %b:443 HTTP/1.1\r\nProxy-Authorization: Basic %b\r\n\r\n" % (name, self.login)
            )
            said = b""
            while not said.endswith(b"\r\n\r\n"):
                more = plain.recv(1)
                if not more:
                    raise ConnectionError(f"the proxy refused {host}: {said!r}")
                said += more
            with self.context.wrap_socket(plain, server_hostname=host) as tunnel:
                yield tunnel

    def attack(self, attack: Attack) -> bytes:
        """Send, and return what comes until the server closes the connection."""
        with self.open(attack.host) as connection:
            with contextlib.suppress(ConnectionError, ssl.SSLError):  # it may refuse before it has heard all
                connection.sendall(attack.payload)
            if attack.waits:
                connection.settimeout(0.05)
            parts = []
            with contextlib.suppress(TimeoutError, ConnectionError, ssl.SSLError):
                while part := connection.recv(65536):
                    parts.append(part)
                    connection.settimeout(ANSWER_SECONDS)
            return b"".join(parts)


def judge(attack: Attack, answer: bytes, took: float) -> tuple[str, str | None]:
    """The status of an answer, and what is wrong with it."""
    words = answer[:40].split()
    status = words[1].decode("latin-1") if answer.startswith(b"HTTP/") and len(words) > 1 else "closed"
    if answer.startswith(b"\x15"):
        status = "TLS alert"
    shown = f"{attack.kind} at {attack.host}: {attack.payload[:600]!r}\n      -> {answer[:500]!r}"
    if b"Traceback (most recent" in answer:
        return status, f"a traceback: {shown}"
    if status.startswith("5") and status not in ("501", "505"):
        return status, f"an internal error: {shown}"
    if attack.forbidden and status[0] in "23":
        return status, f"allowed: {shown}"
    if not attack.waits and took > ANSWER_SECONDS - 1:
        return status, f"not answered within {ANSWER_SECONDS:.0f} s: {shown}"
    return status, None


def look_around(folder: Path, home: Path) -> dict[str, bytes]:
    """The files of a folder and their content, but for the home's."""
    found = (path for path in folder.rglob("*") if home not in path.parents and path != home)
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in found}


def escaped(mark: str) -> list[str]:
    """Files with the mark where an attacker aims."""
    places = (Path("/"), Path("/tmp"), Path("/etc"), Path.home(), Path.cwd(), Path(tempfile.gettempdir()))
    return sorted({str(path) for place in places for path in place.glob(f"*{mark}*")})


def fuzz(served: Served, folder: Path, count: int, seed: int, patience: float = 1.0) -> Result:
    """Send so many hostile requests, and return what came of them."""
    result, mark = Result(patience=patience), f"wsfuzz{random.Random(seed).getrandbits(40):x}"
    client = PlainClient(served.environment, timeout=60)
    channel, attacker = Channel(served), Attacker(seed, client.token, mark)
    before = look_around(folder, served.home)
    start_mlflow(served)
    with watching(served, result):
        attack_all(served, channel, attacker.attacks(count), result)
        slow_bodies(channel, result)
        slow_connections(channel, result)
    if result.memory > MOST_MEMORY:
        result.faults.append(f"the server took {result.memory / 1e6:.0f} MB")
    if (after := look_around(folder, served.home)) != before:
        result.faults.append(
            f"files outside the home changed: {sorted(set(after.items()) ^ set(before.items()))[:5]}"
        )
    result.faults += [f"a file outside the home: {path}" for path in escaped(mark)]
    result.faults += [
        f"a traceback in the log ends: {text}" for text in tracebacks(served.home / "serve" / "server.log")
    ]
    return result


def noting_loop(notes: Path) -> dict[str, Any]:
    """How a server is started that notes what its event loop does for more than 50 ms at a time."""
    program = [sys.executable, timed_loop.__file__, "serve"]
    return {"environment": {**os.environ, "TIMED_LOOP": str(notes)}, "program": program}


def judge_loop(notes: Path, result: Result) -> list[str]:
    """The notes of a server that has ended, the longest first; more than the limit is a fault."""
    text = notes.read_text(encoding="utf-8") if notes.exists() else ""
    busy = sorted(text.splitlines(), reverse=True)
    long = (line for line in busy if float(line.split()[0]) > LOOP_SECONDS)
    result.faults += [f"the event loop worked {line}" for line in long]
    return busy


def attack_all(served: Served, channel: Channel, attacks: Iterator[Attack], result: Result) -> None:
    """Send the attacks, one after the other, and judge each answer."""
    for number, attack in enumerate(attacks):
        if number % 1000 == 0:
            print(f"{number} sent, {len(result.faults)} faults in their answers", flush=True)
        begin = time.monotonic()
        try:
            answer = channel.attack(attack)
        except (OSError, ssl.SSLError) as error:
            result.faults.append(f"no connection for {attack.kind}: {error!r}")
            if served.process.poll() is not None:
                result.faults.append(f"the server died of {attack.kind}: {attack.payload[:400]!r}")
                return
            continue
        status, fault = judge(attack, answer, time.monotonic() - begin)
        result.answers[f"{attack.kind}: {status}"] += 1
        if fault:
            result.faults.append(fault)


@contextlib.contextmanager
def watching(served: Served, result: Result) -> Iterator[None]:
    """Look after the server's memory, and be another client and a browser, for as long as the block lasts.

    That is a process of its own, which the making of attacks does not hold up.
    """
    told = [served.process.pid, served.port, served.token, result.patience]
    words = [sys.executable, __file__, "--watch", json.dumps(told)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, env=served.environment, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield
        finally:
            said, _ = process.communicate("")
    watched = json.loads(said or '{"faults": ["the watcher died"]}')
    result.faults += watched.pop("faults")
    for name, value in watched.items():
        setattr(result, name, value)


def watch(pid: int, port: int, token: str, patience: float) -> None:
    """Be the watcher until the standard input ends; then print what was seen."""
    result, ended = Result(patience=patience), threading.Event()
    health = threading.Thread(target=watch_health, args=(pid, result, ended))
    pages = threading.Thread(target=watch_pages, args=(port, token, result, ended))
    health.start(), pages.start()
    sys.stdin.read()
    ended.set()
    health.join(), pages.join()
    seen = ("slowest", "slowest_page", "healthy", "memory", "faults")
    print(json.dumps({name: getattr(result, name) for name in seen}))


def watch_health(pid: int, result: Result, ended: threading.Event) -> None:
    """Make right requests, which are answered, and soon."""
    process, client = psutil.Process(pid), PlainClient(os.environ, timeout=60)
    for kind in itertools.cycle(["jobs", "datastores", "data", "schedules"]):
        begin = time.monotonic()
        try:
            status: object = client.get(kind, query="&$top=5").status
            result.memory = max(result.memory, process.memory_info().rss)
        except (OSError, http.client.HTTPException, psutil.Error) as error:
            status = repr(error)
        took = time.monotonic() - begin
        result.slowest = max(result.slowest, took)
        result.healthy += 1
        if status != 200 or took > HEALTH_SECONDS * result.patience:
            result.faults.append(f"a right request for {kind} was answered {status} after {took:.1f} s")
        if ended.wait(0.05):
            break
    client.close()


def watch_pages(port: int, token: str, result: Result, ended: threading.Event) -> None:
    """Open pages as a browser does, whatever records there are by now."""
    cookie, again = "", False
    addresses = itertools.cycle([f"/?token={token}", *PAGES])
    address = next(addresses)
    while True:
        begin = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", address, headers={"Cookie": cookie} if cookie else {})
            answer = connection.getresponse()
            answer.read()
            status: object = answer.status
            cookie = (answer.headers.get("set-cookie") or cookie).partition(";")[0]
        except (OSError, http.client.HTTPException) as error:
            status = repr(error)
            if isinstance(error, ConnectionResetError) and not again:
                again = True  # once, as a browser does: the server sheds connections over its limit
                continue
        finally:
            connection.close()
        again = False
        took = time.monotonic() - begin
        result.slowest_page = max(result.slowest_page, took)
        if status not in (200, 303, 404) or took > PAGE_SECONDS * result.patience:
            result.faults.append(f"the page {address[:20]} was answered {status} after {took:.1f} s")
        address = next(addresses)
        if ended.wait(0.3):
            return


def start_mlflow(served: Served) -> None:
    """Wait for MLflow's server, whose first start takes longer than an attack is waited for."""
    client = PlainClient(served.environment, API, timeout=120)
    answer = client.send("GET", f"/mlflow/v2.0{WORKSPACE}/api/2.0/mlflow/experiments/get?experiment_id=0")
    assert answer.status == 200, answer
    client.close()


def tracebacks(log: Path) -> list[str]:
    """The last frames of the different tracebacks in a log."""
    found, block = dict[str, str](), list[str]()
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("Traceback (most recent"):
            block = [line]
        elif block and line.startswith((" ", "+")):
            block.append(line)
        elif block:
            found.setdefault("\n".join([*block[-4:], line]), "")
            block = []
    return list(found)


def slow_bodies(channel: Channel, result: Result) -> None:
    """Send the bodies of forms for tokens a byte a second, over more connections than there are files."""
    head = b"POST /login/t/oauth2/v2.0/token HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 60000\r\n\r\n"
    held: list[socket.socket] = []
    try:
        for _ in range(SLOW_BODIES):
            connection = socket.create_connection(("127.0.0.1", channel.port), timeout=ANSWER_SECONDS)
            held.append(connection)
            with contextlib.suppress(OSError):  # it came first, and has made room
                connection.sendall(head % channel.port)
        for _ in range(5):
            time.sleep(1)
            for connection in held:
                with contextlib.suppress(OSError):
                    connection.sendall(b"a")
        expect_closed(held, "slow bodies", result)
    finally:
        for connection in held:
            connection.close()


def slow_connections(channel: Channel, result: Result) -> None:
    """Hold many connections that never finish a head; these are closed."""
    with contextlib.ExitStack() as stack:
        held = []
        for number in range(SLOW):
            host = None if number % 3 else "management.azure.com"
            connection = stack.enter_context(channel.open(host))
            with contextlib.suppress(OSError):
                connection.sendall(
                    [b"", b"G", b"GET / HTTP/1.1\r\nX:", b"CONNECT a", b"\x16\x03"][number % 5]
                )
            held.append(connection)
        expect_closed(held, "silent connections", result)


def expect_closed(held: list[socket.socket], what: str, result: Result) -> None:
    deadline = time.monotonic() + SLOW_SECONDS
    still = sum(not is_closed(connection, deadline) for connection in held)
    if still:
        result.faults.append(f"{still} of {len(held)} {what} are open after {SLOW_SECONDS:.0f} s")


def is_closed(connection: socket.socket, deadline: float) -> bool:
    """Whether the server closes a connection in time."""
    try:
        while True:
            connection.settimeout(max(deadline - time.monotonic(), 0.01))
            if not connection.recv(4096):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--requests", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options.add_argument("--watch", help=argparse.SUPPRESS)  # of the process that watches
    chosen = options.parse_args()
    if chosen.watch:
        watch(*json.loads(chosen.watch))
        return 0
    with tempfile.TemporaryDirectory(prefix="worldsize-serve-fuzz-") as name:
        folder = Path(name)
        for place in ("above", "work/beside"):
            (folder / place).mkdir(parents=True)
            (folder / place / "canary.txt").write_text("here")
        begin = time.monotonic()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, most))  # which the server inherits
        notes = folder.with_name(f"{folder.name}-loop.txt")
        with serving(folder / "work", **noting_loop(notes)) as served:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * FILES, most), most))
            result = fuzz(served, folder, chosen.requests, chosen.seed)
        busy = judge_loop(notes, result)
        notes.unlink(missing_ok=True)
        print(f"seed {chosen.seed}: {chosen.requests} requests in {time.monotonic() - begin:.0f} s")
        for what, number in sorted(result.answers.items()):
            print(f"  {number:6} {what}")
        print(f"  the server took up to {result.memory / 1e6:.0f} MB")
        print(f"  {result.healthy} right requests of another client, the slowest {result.slowest:.2f} s")
        print(f"  the slowest page {result.slowest_page:.2f} s")
        print(f"  the event loop worked {len(busy)} times for more than 50 ms; {busy[0] if busy else ''}")
        for fault in result.faults[:25]:
            print(f"  FAULT {fault}")
        print(f"  {len(result.faults)} faults")
    return 1 if result.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
