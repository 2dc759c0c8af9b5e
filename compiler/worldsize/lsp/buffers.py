"""The open documents, whose texts count instead of the files on the disk, and the checks of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types
from msgspec import Struct, field
from pygls import uris

from worldsize.base import untrusted
from worldsize.base.source import Source
from worldsize.lsp.positions import Positions

if TYPE_CHECKING:
    from worldsize.lsp.analysis import Analysis


YAML = (".yml", ".yaml")
_SCHEMES = ("file:", "untitled:")


class Buffer(Struct, eq=False):
    """One open document. ``path`` is as ``worldsize check`` would be given it in the working folder."""

    uri: str
    path: str
    source: Source
    version: int

    @property
    def is_yaml(self) -> bool:
        """Whether the file may be a spec or of Azure ML."""
        return self.path.lower().endswith(YAML)


class Buffers(Struct, eq=False):
    """All open documents by resolved path. ``state`` changes with every edit."""

    positions: Positions = field(default_factory=Positions)
    state: int = 0
    _open: dict[str, Buffer] = field(default_factory=dict)
    _uris: dict[str, str] = field(default_factory=dict)  # as the client writes them, also of closed documents

    def __iter__(self) -> Iterator[Buffer]:
        return iter(list(self._open.values()))

    def open(self, uri: str, text: str, version: int) -> Buffer | None:
        """Add a document; None for one that is not a file, such as a document without a name."""
        path = find_path(uri)
        if path is None:
            return None
        buffer = Buffer(uri, path, Source(path, text.removeprefix("\ufeff")), version)
        real = os.path.realpath(path)
        self._open[real] = buffer
        self._uris[real] = uri
        self.state += 1
        return buffer

    def change(
        self, uri: str, changes: Iterable[types.TextDocumentContentChangeEvent], version: int
    ) -> Buffer | None:
        """Apply edits in their order; each counts in the text that the one before it left."""
        buffer = self.find(uri)
        if buffer is None:
            return None
        for change in changes:
            text = change.text
            if not isinstance(change, types.TextDocumentContentChangePartial):
                text = text.removeprefix("\ufeff")
            else:
                old = buffer.source
                start = self.positions.to_offset(old, change.range.start)
                end = self.positions.to_offset(old, change.range.end)
                text = f"{old.text[:start]}{text}{old.text[max(start, end) :]}"
            buffer.source = Source(buffer.path, text)
        buffer.version = version
        self.state += 1  # last, because another thread reads it first and the texts then
        return buffer

    def close(self, uri: str) -> Buffer | None:
        """Forget a document: the file on the disk counts again."""
        path = find_path(uri)
        buffer = None if path is None else self._open.pop(os.path.realpath(path), None)
        self.state += 1
        return buffer

    def find(self, uri: str) -> Buffer | None:
        """The open document of an address."""
        path = find_path(uri)
        return None if path is None else self._open.get(os.path.realpath(path))

    def at_path(self, path: str | os.PathLike[str]) -> Buffer | None:
        """The open document of a file."""
        return self._open.get(os.path.realpath(path))

    def uri_of(self, path: str | os.PathLike[str]) -> str:
        """The address of a file, as the client wrote it if the file is or was open."""
        uri = self._uris.get(os.path.realpath(path))
        return uri or uris.from_fs_path(str(Path(path).absolute())) or ""

    def read(self, path: str | os.PathLike[str]) -> Source | None:
        """The text of a file: the open document, else what is on the disk."""
        buffer = self.at_path(path)
        if buffer is not None:
            return buffer.source
        try:
            return Source(os.fspath(path), untrusted.read_text(path, encoding="utf-8-sig"))
        except OSError:
            return None

    def texts(self) -> dict[str, bytes]:
        """The contents of all open documents by path, for the checker."""
        return {buffer.path: buffer.source.text.encode("utf-8", "surrogatepass") for buffer in self}


def find_path(uri: str) -> str | None:
    """The path of a ``file:`` address, relative to the working folder if it lies below; None for others.

    A document that is not saved yet, ``untitled:Untitled-1``, counts as a YAML file of the working folder,
    and one with the path that it will have, ``untitled:/project/spec.yml``, as that file.
    """
    try:
        path = uris.to_fs_path(uri.replace("untitled:", "file:", 1)) if uri.startswith(_SCHEMES) else None
        os.fsencode(path or "")
    except ValueError:  # an address that names no host or path, or characters that no path has
        return None
    if not path or "\0" in path:
        return None
    if uri.startswith("untitled:") and "/" not in uri:
        path = f"{path.lstrip(os.sep)}.yml"
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


class Session(Struct, eq=False):
    """Open documents, and the last check of each that is YAML, by resolved path."""

    buffers: Buffers = field(default_factory=Buffers)
    analyses: dict[str, Analysis] = field(default_factory=dict)
    resolved: dict[str, Analysis] = field(default_factory=dict)  # the last that had a job graph

    def analyse(self, buffer: Buffer) -> Analysis:
        """Check a document as it is now; the last check, if nothing was typed since."""
        from worldsize.lsp.analysis import analyse  # the server starts without the checker

        real = os.path.realpath(buffer.path)
        state, texts = self.buffers.state, self.buffers.texts()
        last = self.analyses.get(real)
        if last is not None and last.state == state:
            return last
        analysis = analyse(buffer.path, texts)
        analysis.state = state
        if self.buffers.at_path(real) is not None:
            self.analyses[real] = analysis
            if analysis.job is not None:
                self.resolved[real] = analysis
        return analysis

    def recall_resolved(self, buffer: Buffer) -> Analysis:
        """The check of a document, or the last one that had a job graph while the text has none."""
        analysis = self.analyse(buffer)
        if analysis.job is not None:
            return analysis
        return self.resolved.get(os.path.realpath(buffer.path), analysis)

    def list_analyses(self, buffer: Buffer) -> list[Analysis]:
        """The checks that cover a document: its own, and those of the files that use it."""
        real = os.path.realpath(buffer.path)
        analyses = [self.analyse(buffer)] if buffer.is_yaml else []
        for key, analysis in list(self.analyses.items()):
            user = self.buffers.at_path(key)
            if key != real and user is not None and analysis.has_read(real):
                analyses.append(self.analyse(user))
        return analyses

    def forget(self, real: str) -> None:
        """Drop the checks of a closed document."""
        self.analyses.pop(real, None)
        self.resolved.pop(real, None)
