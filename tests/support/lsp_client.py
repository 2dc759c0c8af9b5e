"""A real client of `worldsize lsp` over standard input and output, for tests that are not asynchronous."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.client import LanguageClient

T = TypeVar("T")
TIMEOUT = 60.0


class Client:
    """One server, and what it has published by address."""

    def __init__(
        self, folder: Path, encodings: list[str] | None = None, *, command: list[str] | None = None
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.published: dict[str, types.PublishDiagnosticsParams] = {}
        self.counts: dict[str, int] = {}
        self.logged: list[str] = []
        self.news = threading.Condition()
        self.versions: dict[str, int] = {}
        self.client = LanguageClient("tests", "1")
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(
            partial(self._receive)
        )  # it sets attributes
        self.client.feature(types.WINDOW_LOG_MESSAGE)(lambda params: self.logged.append(params.message))
        self.call(self.client.start_io(*(command or [sys.executable, "-m", "worldsize", "lsp"]), cwd=folder))
        self.result = self.start(folder, encodings)

    def start(self, folder: Path, encodings: list[str] | None) -> types.InitializeResult:
        kinds = [types.PositionEncodingKind(each) for each in encodings or ["utf-16"]]
        capabilities = types.ClientCapabilities(
            general=types.GeneralClientCapabilities(position_encodings=kinds)
        )
        folders = [types.WorkspaceFolder(folder.as_uri(), "tests")]
        result = self.call(
            self.client.initialize_async(types.InitializeParams(capabilities, workspace_folders=folders))
        )
        self.client.initialized(types.InitializedParams())
        return result

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(TIMEOUT)

    def _receive(self, params: types.PublishDiagnosticsParams) -> None:
        with self.news:
            self.published[params.uri] = params
            self.counts[params.uri] = self.counts.get(params.uri, 0) + 1
            self.news.notify_all()

    def do(self, function: Any, params: Any) -> None:
        """Send a notification from the client's own thread."""

        async def send() -> None:
            function(params)

        self.call(send())

    def open(self, path: Path, text: str | None = None) -> str:
        uri = path.as_uri()
        self.versions[uri] = 1
        self.published.pop(uri, None)
        content = path.read_text(encoding="utf-8") if text is None else text
        item = types.TextDocumentItem(uri, "yaml", 1, content)
        self.do(self.client.text_document_did_open, types.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, *changes: types.TextDocumentContentChangeEvent | str) -> None:
        self.versions[uri] += 1
        whole = [
            types.TextDocumentContentChangeWholeDocument(each) if isinstance(each, str) else each
            for each in changes
        ]
        document = types.VersionedTextDocumentIdentifier(version=self.versions[uri], uri=uri)
        self.do(self.client.text_document_did_change, types.DidChangeTextDocumentParams(document, whole))

    def close(self, uri: str) -> None:
        document = types.TextDocumentIdentifier(uri)
        self.do(self.client.text_document_did_close, types.DidCloseTextDocumentParams(document))

    def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """What is published of the current version of an open document."""

        def is_current() -> bool:
            params = self.published.get(uri)
            return params is not None and params.version == self.versions.get(uri)

        with self.news:
            assert self.news.wait_for(is_current, TIMEOUT), f"nothing is published of {uri}"
            return list(self.published[uri].diagnostics)

    def wait_until(self, condition: Any) -> None:
        with self.news:
            assert self.news.wait_for(condition, TIMEOUT)

    def stop(self) -> int | None:
        """Shut the server down, and return its exit status."""
        server = self.client._server
        self.call(self.client.shutdown_async(None))
        self.do(self.client.exit, None)

        async def wait() -> int | None:
            return await asyncio.wait_for(server.wait(), TIMEOUT)

        status = self.call(wait())
        self.call(self.client.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(TIMEOUT)
        self.loop.close()
        return status
