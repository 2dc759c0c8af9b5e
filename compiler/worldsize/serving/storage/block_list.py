"""Reads the list of blocks that a client commits."""

from __future__ import annotations

from xml.parsers import expat

from worldsize.serving.storage.errors import StorageError

KINDS = frozenset(("Latest", "Committed", "Uncommitted"))
MAX_BLOCKS = 50_000  # of one blob


class _BlockList:
    """What a parser has read: the kind and the id of each block."""

    def __init__(self) -> None:
        self.blocks: list[tuple[str, str]] = []
        self._depth = 0

    def start(self, name: str, _: object) -> None:
        self._depth += 1
        allowed = {1: frozenset(("BlockList",)), 2: KINDS}.get(self._depth, frozenset())
        if name not in allowed or len(self.blocks) == MAX_BLOCKS:
            raise _bad_document()
        if self._depth == 2:
            self.blocks.append((name, ""))

    def end(self, _: str) -> None:
        self._depth -= 1

    def text(self, text: str) -> None:
        if self._depth == 2:
            kind, block = self.blocks[-1]
            self.blocks[-1] = (kind, block + text.strip())

    def refuse(self, *_: object) -> None:
        """A document type, whose entities could grow without bounds."""
        raise _bad_document()


def read_block_list(text: bytes) -> list[tuple[str, str]]:
    """The kind and the id of each block of a list.

    Raises:
        StorageError: 400, for a body that is no list of blocks.
    """
    found = _BlockList()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = found.start, found.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = found.text, found.refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError:
        raise _bad_document() from None
    return found.blocks


def _bad_document() -> StorageError:
    return StorageError(400, "InvalidXmlDocument", "The body is not a list of blocks.")
