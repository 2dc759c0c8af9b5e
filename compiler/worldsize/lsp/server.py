"""The server: it answers requests over standard input and output.

One thread does all work on documents, in the order of the requests, so that the loop which reads messages is
never busy. A crash of a handler is logged to the client and ends nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import FeatureRequestError, JsonRpcException, JsonRpcInvalidRequest
from pygls.lsp.server import LanguageServer
from pygls.protocol.language_server import LanguageServerProtocol, lsp_method

from worldsize.lsp.buffers import Buffer, Session, find_path
from worldsize.lsp.positions import Positions

T = TypeVar("T")
DELAY = 0.02  # seconds after a keystroke: keys that follow each other sooner are checked once


def _call_feature(method: str) -> Any:
    """A method of the protocol that only calls the feature of the server."""

    @lsp_method(method)
    def call(self: Any, params: Any) -> Generator[Any, Any, None]:
        yield self.fm.features[method], (params,), None

    return call


class Protocol(LanguageServerProtocol):
    """The protocol without pygls' own copies of documents, and with an answer to every request.

    pygls takes U+2028 and other characters for the ends of lines, and changes the positions of an edit that
    it cannot place, which :class:`~worldsize.lsp.buffers.Buffers` still has to read.
    """

    def structure_message(self, data: dict[str, Any]) -> Any:
        """As pygls does; a request of another form, or after `shutdown`, is answered with the error."""
        is_request = "method" in data and isinstance(data.get("id"), str | int)
        if self.is_shut_down and is_request:  # pygls passes over it
            error = JsonRpcInvalidRequest("the server has been shut down")
            self._send_response(data["id"], None, error.to_response_error())
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if is_request and not self.is_shut_down:
                self._send_response(data["id"], None, error.to_response_error())
            raise

    @property
    def is_shut_down(self) -> bool:
        """Whether the client has said `shutdown`."""
        return bool(self._shutdown)

    lsp_text_document__did_open = _call_feature(types.TEXT_DOCUMENT_DID_OPEN)
    lsp_text_document__did_change = _call_feature(types.TEXT_DOCUMENT_DID_CHANGE)
    lsp_text_document__did_close = _call_feature(types.TEXT_DOCUMENT_DID_CLOSE)


class Server(LanguageServer):
    """The state of one session: open documents, their last checks, and what was published."""

    def __init__(self) -> None:
        super().__init__("worldsize", version("worldsize"), protocol_cls=Protocol)
        self.session = Session()
        self.buffers = self.session.buffers
        self.published: dict[str, dict[str, list[types.Diagnostic]]] = {}  # by file, then by what was checked
        self.dirty: set[str] = set()
        self.worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="check")
        self._timer: asyncio.TimerHandle | None = None
        self._checking: asyncio.Task[None] | None = None

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log a fault of the server; editors show it in their output, not over the text."""
        if source is not FeatureRequestError:  # a request is answered with its error
            self.log_fault("a message", error)

    def log_fault(self, what: str, error: BaseException) -> None:
        """Tell the client why a request has no answer."""
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:400]
        message = f"worldsize: {what} failed: {reason}"
        with suppress(Exception):
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))

    async def work(self, function: Callable[[], T]) -> T:
        """Run a function in the thread that works on documents."""
        return await asyncio.get_running_loop().run_in_executor(self.worker, function)

    def touch(self, real: str) -> None:
        """Schedule new checks of all documents that read a file."""
        self.dirty |= {
            path for path, analysis in list(self.session.analyses.items()) if analysis.has_read(real)
        }
        buffer = self.buffers.at_path(real)
        if buffer is not None and buffer.is_yaml:
            self.dirty.add(real)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(DELAY, self._start_checks)

    def touch_everything(self) -> None:
        """Check all open documents again: files on the disk changed."""
        self.buffers.state += 1
        for buffer in self.buffers:
            self.touch(os.path.realpath(buffer.path))

    def forget(self, real: str) -> None:
        """Withdraw what the check of a closed document reported."""
        self.session.forget(real)
        self.dirty.discard(real)
        for file, groups in list(self.published.items()):
            if groups.pop(real, None) is not None:
                self._send(file)

    def _start_checks(self) -> None:
        if self._checking is None or self._checking.done():
            self._checking = asyncio.get_running_loop().create_task(self._check_dirty())

    async def _check_dirty(self) -> None:
        while self.dirty:
            real = self.dirty.pop()
            buffer = self.buffers.at_path(real)
            if buffer is None:
                continue
            try:
                await self._check(buffer, real)
            except Exception as error:
                self.log_fault(f"checking {buffer.path}", error)

    async def _check(self, buffer: Buffer, real: str) -> None:
        groups = await self.work(partial(self._find_groups, buffer))
        if real in self.dirty or self.buffers.at_path(real) is None:
            return  # the text has changed meanwhile, or is closed
        before = {file for file, by_check in self.published.items() if real in by_check}
        for file in {real, *groups, *before}:
            by_check = self.published.setdefault(file, {})
            changed = by_check.get(real) != groups.get(file)
            by_check[real] = groups.get(file, [])
            if changed or file == real:
                self._send(file)

    def _find_groups(self, buffer: Buffer) -> dict[str, list[types.Diagnostic]]:
        from worldsize.lsp.actions import group_by_file  # the server answers before the checker is imported

        return group_by_file(self.session.analyse(buffer), self.buffers)

    def _send(self, file: str) -> None:
        buffer = self.buffers.at_path(file)
        diagnostics = _merge_unique(self.published[file].values())
        if not any(self.published[file].values()):
            self.published[file] = {key: [] for key in self.published[file] if key == file}
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(
                uri=self.buffers.uri_of(file),
                diagnostics=diagnostics,
                version=buffer.version if buffer is not None else None,
            )
        )


def _merge_unique(groups: Iterable[list[types.Diagnostic]]) -> list[types.Diagnostic]:
    """The diagnostics of one file from the checks of several, each once."""
    unique: dict[object, types.Diagnostic] = {}
    for finding in (diagnostic for group in groups for diagnostic in group):
        start, end = finding.range.start, finding.range.end
        key = (start.line, start.character, end.line, end.character, finding.code, finding.message)
        unique.setdefault(key, finding)
    return list(unique.values())


def make_server() -> Server:
    """The server with all its features."""
    server = Server()
    _add_start(server)
    _add_synchronisation(server)
    for method, (module, function, options) in _REQUESTS.items():
        server.feature(method, options)(_make_handler(server, method, module, function))
    return server


def serve() -> int:
    """Serve one client over standard input and output until it says `exit` or is gone.

    Returns:
        The exit status: 0 if the client has said `shutdown` before, else 1, as the protocol asks.
    """
    logger = logging.getLogger("pygls")
    logger.addHandler(logging.NullHandler())  # faults are logged to the client, once
    logger.propagate = False
    server = make_server()
    server.worker.submit(_warm_up)
    try:
        server.start_io()
    finally:
        server.worker.shutdown(wait=False, cancel_futures=True)
    protocol = server.protocol
    return 0 if isinstance(protocol, Protocol) and protocol.is_shut_down else 1


def _warm_up() -> None:
    """Import what the first check needs, while the client still opens its files."""
    text = b"name: a\ncompute: {c: {target: azureml:c, instance_type: Standard_NC24s_v3}}\nsteps:\n"
    text += b"  shard: {uses: shard_data, compute: c, with: {source: builtin:digits}}\n"
    text += b"  train: {uses: train_ddp, compute: c, with: {model: mlp, epochs: 1}}\n"
    for module, _, _ in _REQUESTS.values():
        importlib.import_module(f"worldsize.lsp.{module}")
    from worldsize.lsp.analysis import analyse

    with suppress(Exception):
        analyse("worldsize-first-check.yml", {"worldsize-first-check.yml": text})


def _add_start(server: Server) -> None:
    @server.feature(types.INITIALIZE)
    def _initialize(params: types.InitializeParams) -> None:
        encodings = params.capabilities.general and params.capabilities.general.position_encodings
        words = [str(getattr(word, "value", word)) for word in encodings or ()]
        chosen = next((word for word in words if word in ("utf-8", "utf-16", "utf-32")), "utf-16")
        server.buffers.positions = Positions(chosen)
        folders = [folder.uri for folder in params.workspace_folders or ()]
        root = next(iter([*folders, params.root_uri or ""]), "")
        path = find_path(root)
        if path is not None and Path(path).is_dir():
            os.chdir(path)  # paths in messages start at the project, as in a terminal

    @server.feature(types.INITIALIZED)
    def _initialized(_params: types.InitializedParams) -> None:
        _watch_files(server)


def _add_synchronisation(server: Server) -> None:
    buffers = server.buffers

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def _open(params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        if document.uri.startswith("untitled:") and document.language_id != "yaml":
            return  # its name does not tell what it is
        buffer = buffers.open(document.uri, document.text, document.version)
        if buffer is not None:
            server.touch(os.path.realpath(buffer.path))

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def _change(params: types.DidChangeTextDocumentParams) -> None:
        document = params.text_document
        buffer = buffers.change(document.uri, params.content_changes, document.version)
        if buffer is not None:
            server.touch(os.path.realpath(buffer.path))

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def _close(params: types.DidCloseTextDocumentParams) -> None:
        buffer = buffers.close(params.text_document.uri)
        if buffer is not None:
            real = os.path.realpath(buffer.path)
            server.forget(real)
            server.touch(real)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def _save(_params: types.DidSaveTextDocumentParams) -> None:
        server.touch_everything()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def _files_changed(_params: types.DidChangeWatchedFilesParams) -> None:
        server.touch_everything()


def _watch_files(server: Server) -> None:
    """Ask the client to report changed files, if it can."""
    workspace = server.client_capabilities.workspace
    watching = workspace.did_change_watched_files if workspace is not None else None
    if watching is None or not watching.dynamic_registration:
        return
    patterns = [types.FileSystemWatcher(f"**/*.{suffix}") for suffix in ("yml", "yaml", "py", "json", "txt")]
    options = types.DidChangeWatchedFilesRegistrationOptions(patterns)
    registration = types.Registration("files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
    server.client_register_capability(types.RegistrationParams([registration]))


_COMPLETION = types.CompletionOptions(trigger_characters=[":", " ", ".", "{", "[", "$", "/"])
_CODE_ACTION = types.CodeActionOptions(code_action_kinds=["quickfix", "source.fixAll.worldsize"])
_REQUESTS: dict[str, tuple[str, str, Any]] = {  # the module and function that answer, and the options
    types.TEXT_DOCUMENT_CODE_ACTION: ("actions", "list_actions", _CODE_ACTION),
    types.TEXT_DOCUMENT_COMPLETION: ("completion", "complete", _COMPLETION),
    types.TEXT_DOCUMENT_DEFINITION: ("definition", "find_definition", None),
    types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: ("references", "list_symbols", None),
    types.TEXT_DOCUMENT_HOVER: ("hover", "hover", None),
    types.TEXT_DOCUMENT_PREPARE_RENAME: ("references", "prepare_rename", None),
    types.TEXT_DOCUMENT_REFERENCES: ("references", "find_references", None),
    types.TEXT_DOCUMENT_RENAME: ("references", "rename", types.RenameOptions(prepare_provider=True)),
}


def _make_handler(server: Server, method: str, module: str, function: str) -> Callable[[Any], Any]:
    def answer(buffer: Buffer, params: Any) -> Any:
        work = getattr(importlib.import_module(f"worldsize.lsp.{module}"), function)
        return work(server.session, buffer, params)

    async def handle(params: Any) -> Any:
        buffer = server.buffers.find(params.text_document.uri)
        if buffer is None:
            return None
        try:
            return await server.work(partial(answer, buffer, params))
        except JsonRpcException:  # a refusal, which the editor shows
            raise
        except Exception as error:
            server.log_fault(method, error)
            return None

    return handle
