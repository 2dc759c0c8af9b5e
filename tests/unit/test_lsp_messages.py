"""`worldsize lsp` with messages that no editor should send: each request has an answer, and nothing ends."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lsp_project import SPEC

TIMEOUT = 60.0
HOVER, OPEN, CHANGE = "textDocument/hover", "textDocument/didOpen", "textDocument/didChange"
REQUESTS = (HOVER, "textDocument/completion", "textDocument/definition", "textDocument/prepareRename")


class Wire:
    """One server, and its messages as they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "worldsize", "lsp"],
            cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.received: queue.Queue[dict[str, Any]] = queue.Queue()
        self.notes: list[dict[str, Any]] = []
        self.last = 0
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        self.ask("initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": {}})
        self.tell("initialized", {})

    def _read(self) -> None:
        assert self.process.stdout is not None
        length = 0
        while line := self.process.stdout.readline():
            if line.lower().startswith(b"content-length"):
                length = int(line.split(b":")[1])
            elif not line.strip():
                self.received.put(json.loads(self.process.stdout.read(length)))

    def send(self, body: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def tell(self, method: str, params: object) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def begin(self, method: str, params: object) -> int:
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        self.send(json.dumps(message).encode())
        return self.last

    def end(self, number: int) -> dict[str, Any]:
        while True:
            message = self.received.get(timeout=TIMEOUT)
            if message.get("id") == number:
                return message
            self.notes.append(message)

    def ask(self, method: str, params: object) -> dict[str, Any]:
        return self.end(self.begin(method, params))

    def open(self, uri: str, text: str = SPEC) -> None:
        item = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self.tell(OPEN, {"textDocument": item})

    def change(self, uri: str, version: int, *changes: dict[str, Any]) -> None:
        document = {"uri": uri, "version": version}
        self.tell(CHANGE, {"textDocument": document, "contentChanges": changes})

    def wait_for_findings(self, uri: str, version: int) -> list[dict[str, Any]]:
        """Everything that is published of a document up to a version."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            found = [
                each["params"]
                for each in self.notes
                if each.get("method") == "textDocument/publishDiagnostics" and each["params"]["uri"] == uri
            ]
            if found and found[-1].get("version") == version:
                return found
            self.notes.append(self.received.get(timeout=TIMEOUT))
        raise AssertionError(f"nothing is published of version {version} of {uri}")

    def logged(self) -> list[str]:
        """What was logged since the last call."""
        self.ask(HOVER, place("file:///nothing.yml"))  # what was logged before has arrived with its answer
        logs = [each for each in self.notes if each.get("method") == "window/logMessage"]
        self.notes = [each for each in self.notes if each not in logs]
        return [each["params"]["message"] for each in logs]


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    wire = Wire(tmp_path_factory.mktemp("wire"))
    yield wire
    wire.ask("shutdown", None)
    late = wire.ask(HOVER, place("file:///nothing.yml"))
    assert late["error"] == {"code": -32600, "message": "the server has been shut down"}
    wire.tell("exit", None)
    assert wire.process.wait(TIMEOUT) == 0
    assert wire.process.stderr is not None
    assert b"Traceback" not in wire.process.stderr.read()
    for stream in (wire.process.stdin, wire.process.stdout, wire.process.stderr):
        assert stream is not None
        stream.close()
    wire.thread.join(TIMEOUT)


def place(uri: str, line: object = 10, character: object = 5) -> dict[str, Any]:
    return {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}


def span(*numbers: int) -> dict[str, Any]:
    first = {"line": numbers[0], "character": numbers[1]}
    return {"start": first, "end": {"line": numbers[2], "character": numbers[3]}}


@pytest.mark.parametrize(
    "body",
    [
        b"hello", b'{"jsonrpc": "2.0", "method": ', b"\xff\xfe\x00{", b"[]", b"5", b"null",
        b'{"jsonrpc": "2.0", "id": 700}', b'{"id": 701, "method": "textDocument/hover", "params": {}}',
        b'{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": 5}}',
        b'{"jsonrpc": "2.0", "method": "no/such", "params": {}}',
    ],
)  # fmt: skip
def test_a_message_that_says_nothing_is_passed_over(wire: Wire, body: bytes) -> None:
    wire.send(body)
    assert wire.ask(HOVER, place("file:///nothing.yml"))["result"] is None


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("no/such", {}, -32601),
        (HOVER, {}, -32602),
        (HOVER, {"textDocument": 5, "position": "x"}, -32602),
        (HOVER, place("file:///a.yml", -1, -5), -32602),
        (HOVER, place("file:///a.yml", "one"), -32602),
        ("textDocument/codeAction", place("file:///a.yml"), -32602),
        ("textDocument/rename", place("file:///a.yml"), -32602),
    ],
)
def test_a_request_of_another_form_is_answered_with_the_error(
    wire: Wire, method: str, params: object, code: int
) -> None:
    assert wire.ask(method, params)["error"]["code"] == code


@pytest.mark.parametrize(
    "uri",
    [
        "untitled:", "C:\\x\\spec.yml", "vscode-vfs://github/a/spec.yml", "git:/a/spec.yml?ref=1",
        "file:", "file://[bad/spec.yml", "file:///a%00b.yml", "file:///\ud800.yml", "", "::",
    ],
)  # fmt: skip
def test_a_document_that_is_no_file_has_no_answers_and_no_faults(wire: Wire, uri: str) -> None:
    wire.logged()
    wire.open(uri)
    for method in REQUESTS:
        assert wire.ask(method, place(uri))["result"] is None
    wire.change(uri, 2, {"text": SPEC})
    wire.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert wire.ask(HOVER, place(uri))["result"] is None
    assert wire.logged() == []


@pytest.mark.parametrize(
    "name",
    ["/c%3A/x/spec.yml", "/C:/x/spec.yml", "//server/share/spec.yml", "/a%20b/x%2By/spec.yml", "/é.yml"],
)
def test_findings_are_published_and_withdrawn_under_the_address_of_the_client(wire: Wire, name: str) -> None:
    """Editors write addresses in different ways: what is withdrawn under another one stays shown."""
    uri = f"file://{name}"
    wire.logged()
    wire.open(uri, SPEC.replace("model: cnn", "modle: cnn"))
    assert wire.wait_for_findings(uri, 1)[-1]["diagnostics"]
    wire.notes.clear()
    wire.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
    wire.ask(HOVER, place(uri))
    published = [each for each in wire.notes if each.get("method") == "textDocument/publishDiagnostics"]
    assert {each["params"]["uri"]: each["params"]["diagnostics"] for each in published}[uri] == []
    assert wire.logged() == []


def test_edits_beyond_the_text_or_reversed_are_moved_into_it(wire: Wire) -> None:
    uri = f"{wire.folder.as_uri()}/edits.yml"
    wire.logged()
    wire.open(uri)
    wire.change(uri, 2, {"range": span(9999, 0, 10000, 5), "text": "# end\n"})
    wire.change(
        uri, 3, {"range": span(5, 3, 2, 1), "text": ""}, {"range": span(0, 9999, 0, 9999), "text": "2"}
    )
    wire.change(f"{uri}x", 3, {"text": "never opened"})
    wire.tell("textDocument/didClose", {"textDocument": {"uri": f"{uri}x"}})
    wire.wait_for_findings(uri, 3)
    wire.change(uri, 4, {"text": SPEC})
    assert wire.ask(HOVER, place(uri, 4, 4))["result"]
    assert wire.logged() == []


def make_large(count: int) -> str:
    step = "    uses: shard_data\n    compute: c\n    with: {source: builtin:digits}\n"
    head = "name: a\ncompute: {c: {target: azureml:c, instance_type: Standard_NC24s_v3}}\nsteps:\n"
    return head + "".join(f"  s{number}:\n{step}" for number in range(count))


def test_a_cancelled_request_is_answered_as_cancelled_and_old_findings_are_dropped(wire: Wire) -> None:
    """A file that takes a second to check is changed while it is checked."""
    uri = f"{wire.folder.as_uri()}/large.yml"
    text = make_large(3000)
    wire.open(uri, text)
    time.sleep(0.1)  # its check has begun
    wire.change(uri, 2, {"text": text.replace("uses:", "usse:", 1)})
    number = wire.begin(HOVER, place(uri))
    wire.tell("$/cancelRequest", {"id": number})
    wire.tell("$/cancelRequest", {"id": number})  # it is over already
    wire.tell("$/cancelRequest", {"id": 123_456})
    assert wire.end(number)["error"]["code"] == -32800
    wire.change(uri, 3, {"text": SPEC.replace("model: cnn", "modle: cnn")})
    found = wire.wait_for_findings(uri, 3)
    assert any("modle" in each["message"] for each in found[-1]["diagnostics"])
    versions = [each["version"] for each in found]
    assert versions == sorted(versions)
    for each in found:
        assert each["version"] == 3 or not any("modle" in one["message"] for one in each["diagnostics"])
    assert wire.ask(HOVER, place(uri, 4, 4))["result"]
    wire.tell("textDocument/didClose", {"textDocument": {"uri": uri}})


@pytest.mark.parametrize("what", ["bytes", "brackets", "one line", "lines"])
def test_a_megabyte_of_anything_is_answered(wire: Wire, what: str) -> None:
    uri = f"{wire.folder.as_uri()}/megabyte.yml"
    text = {
        "bytes": "".join(map(chr, range(256))) * 4096,
        "brackets": "[" * 1_000_000,
        "one line": "a: " + "x" * 1_000_000,
        "lines": "\n".join(f"# {number}" for number in range(120_000)),
    }[what]
    wire.logged()
    wire.open(uri, text)
    for method in REQUESTS[:2]:
        assert "error" not in wire.ask(method, place(uri, 0, 3))
    wire.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert wire.logged() == []


def test_each_folder_of_a_workspace_has_its_own_settings(wire: Wire) -> None:
    folders = [wire.folder / "strict", wire.folder / "lenient"]
    for folder in folders:
        folder.mkdir()
    (folders[1] / "worldsize.yml").write_text("ignore: [WS101]\n", encoding="utf-8")
    added = [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]
    wire.tell("workspace/didChangeWorkspaceFolders", {"event": {"added": added, "removed": []}})
    codes = []
    for folder in folders:
        uri = (folder / "spec.yml").as_uri()
        wire.open(uri, SPEC + "\nfoo: 1\n")
        found = wire.wait_for_findings(uri, 1)[-1]["diagnostics"]
        codes.append("WS101" in {each["code"] for each in found})
        wire.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert codes == [True, False]
    assert wire.logged() == []
