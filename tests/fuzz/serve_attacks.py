"""Hostile requests to a served workspace: methods, paths, heads, bodies and bytes that no client sends."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from serve_requests import API, BLOBS, MANAGEMENT, REQUESTS, Request

METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW", "get", "CONNECT")


@dataclass(frozen=True)
class Attack:
    """One connection: what is sent, to which of Azure's hosts (None: the port itself), what may come."""

    kind: str
    payload: bytes
    host: str | None = None
    waits: bool = False  # the server has a right to wait for more: nothing is read
    forbidden: bool = False  # must not succeed


ESCAPES = (
    "../",
    "..%2f",
    "%2e%2e/",
    "%2e%2e%2f",
    "..%252f",
    "..\\",
    "..%5c",
    "%c0%ae%c0%ae/",
    "....//",
    "/etc/",
    "//",
    "%00",
    "~/",
    "./",
    ".%0a./",
    "\u2025/",
    "%ef%bc%8e%ef%bc%8e/",
    ";/../",
    "file:///",
    "C:\\",
)
JUNK: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**63,
    2**200,
    1.5,
    1e308,
    "",
    " ",
    "\x00",
    "\ud800",
    "é" * 300,
    "a" * 70_000,
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"b": []}},
    "../../../../{mark}",
    "/tmp/{mark}",
    "file:///tmp/{mark}",
    "azureml://datastores/workspaceblobstore/paths/../../../{mark}",
    "azureml:..:1",
    "azureml:a@latest",
    "https://worldsize.blob.core.windows.net/azureml-blobstore/..%2f..%2f{mark}",
    "${{parent.jobs.a.outputs.b}}",
    "${{inputs.a}}",
    "${{" * 50,
    "{{a}}",
    "%s%n",
    "9999-99-99T99:99:99",
    "0001-01-01T00:00:00",
    "<a>&;",
    "*/0 * * * *",
)
HEADERS: tuple[tuple[str, str], ...] = (
    ("Range", "bytes=9-1"),
    ("x-ms-range", "bytes=-" + "9" * 400),
    ("x-ms-range", "lines=1"),
    ("If-Match", '"'),
    ("If-Modified-Since", "yesterday"),
    ("Content-Type", "application/xml; charset=nowhere"),
    ("Content-MD5", "x"),
    ("Origin", "https://evil.example"),
    ("Cookie", "a" * 7000),
    ("Expect", "200-maybe"),
    ("Upgrade", "h2c, websocket"),
    ("x-ms-blob-type", "PageBlob"),
    ("x-ms-blob-content-length", "-1"),
    ("x-ms-meta-" + "a" * 2000, "b"),
    ("x-ms-version", "1066-01-01"),
    ("x-ms-copy-source", "file:///etc/passwd"),
    ("Accept-Encoding", "zip;q=x"),
    ("Content-Encoding", "gzip"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("x-ms-lease-id", "\xff"),
    ("Host", "evil.example"),
    ("Host", "127.0.0.1"),
    ("Content-Length", "07"),
    ("Authorization", "Basic !!!"),
    ("x-ms-blob-condition-maxsize", "x"),
)
CONNECTS = (
    b"CONNECT  HTTP/1.1\r\n\r\n",
    b"CONNECT : HTTP/1.1\r\n\r\n",
    b"CONNECT [::1 HTTP/1.1\r\n\r\n",
    b"CONNECT a\r\n\r\n",
    b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n",
    b"CONNECT management.azure.com:99999 HTTP/1.1\r\n\r\n",
    b"CONNECT management.azure.com:443 HTTP/9\r\nProxy-Authorization: Basic !!!\r\n\r\n",
    b"CONNECT management.azure.com:443 HTTP/1.1\r\nProxy-Authorization: Basic d29ybGRzaXplOng=\r\n\r\n",
    b"CONNECT " + b"a" * 5000 + b":443 HTTP/1.1\r\n\r\n",
    b"CONNECT \xff\xfe:443 HTTP/1.1\r\n\r\n",
    b"CONNECT a..b:443 HTTP/1.1\r\nNo colon here\r\n\r\n",
    b"CONNECT " + b"x-" * 40 + b".azureml.ms:443 HTTP/1.1\r\n\r\n",
)


LARGE: tuple[tuple[str, Callable[[], Any]], ...] = (  # a member, and too much for it
    ("tags", lambda: {str(number): "x" for number in range(50)}),
    ("tags", lambda: {str(number): "x" for number in range(20_000)}),
    ("tags", lambda: {str(number): "x" for number in range(500_000)}),
    ("tags", lambda: {"a": "x" * 1_000_000}),
    ("properties", lambda: {"x" * 100_000: "y"}),
    ("description", lambda: "x" * 5000),
    ("description", lambda: "x" * 3_000_000),
    ("displayName", lambda: "x" * 100_000),
    ("experimentName", lambda: "x" * 100_000),
    ("inputs", lambda: {f"i{number}": {"jobInputType": "literal", "value": "1"} for number in range(20_000)}),
    ("outputs", lambda: {f"o{number}": {"jobOutputType": "uri_folder"} for number in range(5000)}),
    ("jobs", lambda: {f"s{number}": {"type": "command"} for number in range(5000)}),
    ("command", lambda: "echo " + "x" * 2_000_000),
    ("condaFile", lambda: "a: [" + "[" * 5000),
    ("flavors", lambda: {str(number): {} for number in range(50_000)}),
    ("some", lambda: [[]] * 90_000),
    ("some", lambda: [0] * 1_000_000),
)
TIMES: tuple[tuple[str, Any], ...] = (
    ("startTime", "0001-01-01T00:00:00"),
    ("startTime", "9999-12-31T23:59:59"),
    ("endTime", "9999-12-31T23:59:59"),
    ("interval", 2**31 - 1),
    ("interval", 2**63),
    ("frequency", "Month"),
    ("frequency", "Minute"),
    ("timeZone", "Samoa Standard Time"),
    ("hours", [*range(24)] * 3500),
    ("hours", [*range(24)]),
    ("minutes", [*range(60)]),
    ("monthDays", [31]),
    ("weekDays", ["Monday"] * 84_000),
)


class Attacker:
    """Makes attacks of all kinds from a seed; no name with `mark` may appear outside the home."""

    def __init__(self, seed: int, token: str, mark: str) -> None:
        self.chance, self.token, self.mark = random.Random(seed), token, mark
        self.kinds: tuple[tuple[int, Callable[[], Attack]], ...] = (
            (30, self.record),
            (30, self.body),
            (25, self.path),
            (12, self.head),
            (10, self.broken_json),
            (8, self.framing),
            (5, self.method),
            (4, self.unauthorized),
            (3, self.connect),
            (3, self.broken_tls),
        )

    def attacks(self, count: int) -> Iterator[Attack]:
        """So many attacks, mixed."""
        weights = [weight for weight, _ in self.kinds]
        for _ in range(count):
            _, make = self.chance.choices(self.kinds, weights)[0]
            yield make()

    def request(self) -> Request:
        return copy.deepcopy(self.chance.choice(REQUESTS))

    def made(self, kind: str, request: Request, **more: Any) -> Attack:
        return Attack(kind, request.encode(self.token), request.host, **more)

    def record(self) -> Attack:
        """A record of any kind under a name of its own, right or with more in it than anyone needs."""
        request = self.request()
        while request.method != "PUT" or not isinstance(request.body, dict):
            request = self.request()
        parts, name = request.path.split("/"), f"r{self.chance.getrandbits(40):x}"
        parts[-3 if parts[-2] == "versions" else -1] = name
        request.path = "/".join(parts)
        properties = request.body["properties"]
        if self.chance.random() < 0.7:
            key, value = self.chance.choice(LARGE)
            place = self.chance.choice(
                [properties, *(each for each in properties.values() if type(each) is dict)]
            )
            place[key] = value()
        if "trigger" in properties and self.chance.random() < 0.7:
            key, value = self.chance.choice(TIMES)
            pattern = key in properties["trigger"]["schedule"]
            (properties["trigger"]["schedule"] if pattern else properties["trigger"])[key] = value
        return self.made("record", request)

    def body(self) -> Attack:
        """A known body with one to three members replaced by what does not belong there."""
        request = self.request()
        while not isinstance(request.body, dict):
            request = self.request()
        for _ in range(self.chance.randint(1, 3)):
            place, key = self.chance.choice(list(places(request.body)))
            place[key] = self.junk()
        return self.made("body", request)

    def junk(self) -> Any:
        value = self.chance.choice(JUNK)
        return value.replace("{mark}", self.mark) if isinstance(value, str) else copy.deepcopy(value)

    def path(self) -> Attack:
        """A known path that leaves its folder, or that no one expects."""
        request = self.request()
        segments = request.path.split("/")
        number = self.chance.randrange(1, len(segments))
        escape = self.chance.choice(ESCAPES) * self.chance.randint(1, 9)
        segments[number:] = (
            [escape + self.mark]
            if self.chance.random() < 0.5
            else [escape + segments[number], *segments[number + 1 :]]
        )
        request.path = quote("/".join(segments), safe="/%;:~\\").replace(
            "\\", self.chance.choice(["\\", "%5c"])
        )
        if self.chance.random() < 0.2:
            request.query += "&prefix=" + quote(escape) + "&path=" + quote(escape + self.mark, safe="")
        if self.chance.random() < 0.1:
            request.path += "/" + "a" * self.chance.choice([300, 5000])
        return self.made("path", request)

    def head(self) -> Attack:
        """Known requests with fields that contradict them."""
        request = self.request()
        for _ in range(self.chance.randint(1, 3)):
            name, value = self.chance.choice(HEADERS)
            request.headers[name] = value
        short = "Content-Length" in request.headers
        return self.made("head", request, waits=short or "Expect" in request.headers)

    def broken_json(self) -> Attack:
        """Bodies that are not JSON, or more of it than anyone needs."""
        request = self.request()
        depth = self.chance.choice([50, 1000, 100_000])
        request.body = self.chance.choice(
            [
                b"{",
                b"[]",
                b"null",
                b'"a"',
                b"\xff\xfe\x00",
                b"\xef\xbb\xbf{}",
                b'{"properties": NaN}',
                b'{"a":1,"a":2}',
                b'{"properties": 1e999}',
                b'{"properties": "\\ud800"}',
                b"[" * depth,
                b'{"properties":' * depth,
                b'{"properties":' * depth + b"1" + b"}" * depth,
                b'{"a":"' + b"x" * 2_000_000 + b'"}',
                b'{"properties":{"tags":{' + b",".join(b'"%d":"x"' % n for n in range(20_000)) + b"}}}",
                b"\x1f\x8b\x08\x00",
                b"a=b&c=d",
                b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
            ]
        )
        return self.made("broken json", request)

    def framing(self) -> Attack:
        """Messages whose parts do not fit."""
        request = self.request()
        base = request.head(self.token, None).rstrip(b"\r\n") + b"\r\n"
        wrong, waits = self.chance.choice(
            [
                (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", False),
                (b"Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n", False),
                (b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc", True),
                (b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n", False),
                (b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n", False),
                (b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", False),
                (b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", False),
                (b"Content-Length: -5\r\n\r\nabc", False),
                (b"Content-Length: 99999999999999999999\r\n\r\nabc", True),
                (b"Content-Length: abc\r\n\r\nabc", False),
                (b"Content-Length: 400\r\n\r\n{", True),
                (b"A: b\x00c\r\n\r\n", False),
                (b": empty\r\n\r\n", False),
                (b" folded: x\r\n\r\n", False),
                (b"\xff\xff: x\r\n\r\n", False),
                (b"X: " + b"a" * 200_000 + b"\r\n\r\n", False),
                (b"".join(b"X-%d: y\r\n" % number for number in range(20_000)) + b"\r\n", False),
                (b"", True),
            ]
        )
        if self.chance.random() < 0.2:
            line = self.chance.choice(
                [
                    b"GET\r\n\r\n",
                    b"GET /\r\n\r\n",
                    b"GET / HTTP/3.0\r\n\r\n",
                    b"\r\n" * 500,
                    b"GET " + b"/" * 100_000,
                    bytes(500),
                ]
            )
            return Attack("framing", line, self.chance.choice([None, request.host]), waits=True)
        return Attack("framing", base + wrong, request.host, waits=waits)

    def method(self) -> Attack:
        """Known paths with other methods."""
        request = self.request()
        request.method = self.chance.choice(METHODS)
        return self.made("method", request)

    def unauthorized(self) -> Attack:
        """Right requests without the right token; who is through the proxy has shown its secret before."""
        request = self.request()
        while request.host not in (MANAGEMENT, API, BLOBS):
            request = self.request()
        token = self.chance.choice(
            [None, "", "x", self.token[:-4] + "AAAA", "a.b.c", self.token.rpartition(".")[0] + "."]
        )
        host = self.chance.choice([request.host, None])
        if host is None:  # at the port itself, as a page in a browser would
            request.host = self.chance.choice(
                ["127.0.0.1", "evil.example", "localhost:1", "management.azure.com"]
            )
        return Attack("unauthorized", request.encode(token), host, forbidden=host is None)

    def connect(self) -> Attack:
        """Words to the proxy."""
        return Attack("connect", self.chance.choice(CONNECTS), forbidden=True)

    def broken_tls(self) -> Attack:
        """Bytes that begin like TLS."""
        length = self.chance.choice([1, 5, 50, 500, 20_000])
        return Attack("broken tls", b"\x16\x03\x01" + self.chance.randbytes(length), waits=True)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member of a JSON value, with the object or list that holds it."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])
