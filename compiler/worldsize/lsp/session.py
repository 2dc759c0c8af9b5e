"""What the answers to requests know: the open documents and their checks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct, field

from worldsize.lsp.buffers import Buffer, Buffers

if TYPE_CHECKING:
    from worldsize.lsp.analysis import Analysis


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
        known = self.analyses.get(real)
        if known is not None and known.state == state:
            return known
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
        """The checks that tell of a document: its own, and those of the files that use it."""
        real = os.path.realpath(buffer.path)
        analyses = [self.analyse(buffer)] if buffer.is_yaml else []
        for key, known in list(self.analyses.items()):
            user = self.buffers.at_path(key)
            if key != real and user is not None and known.has_read(real):
                analyses.append(self.analyse(user))
        return analyses

    def forget(self, real: str) -> None:
        """Drop the checks of a closed document."""
        self.analyses.pop(real, None)
        self.resolved.pop(real, None)
