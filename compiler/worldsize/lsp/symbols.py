"""The names in a document, for the outline and the breadcrumbs of an editor."""

from __future__ import annotations

from lsprotocol import types

from worldsize.lsp.buffers import Buffer, Session
from worldsize.lsp.names import Names
from worldsize.lsp.outline import Path

_SECTIONS = {
    "compute": types.SymbolKind.Object,
    "inputs": types.SymbolKind.Field,
    "outputs": types.SymbolKind.Interface,
    "steps": types.SymbolKind.Function,
    "jobs": types.SymbolKind.Function,
}


def list_symbols(
    session: Session, buffer: Buffer, _params: types.DocumentSymbolParams
) -> list[types.DocumentSymbol] | None:
    """Steps with their inputs and outputs, those of the document, and compute profiles."""
    names = Names(session, buffer, buffer.source)
    return _Outline(names).list_sections() if buffer.is_yaml and names.kind else None


class _Outline:
    """One request."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.ends: dict[Path, int] = {}  # of a key with all that is below it
        self.below: dict[Path, list[Path]] = {}
        for path, entry in names.outline.entries.items():
            self.below.setdefault(path[:-1], []).append(path)
            for depth in range(1, min(len(path), 4) + 1):
                above = path[:depth]
                self.ends[above] = max(self.ends.get(above, 0), entry.value_end)

    def list_sections(self) -> list[types.DocumentSymbol]:
        return [
            self.make(path, types.SymbolKind.Namespace, self.list_names(path, _SECTIONS[str(path[0])]))
            for path in self.below.get((), [])
            if path[0] in _SECTIONS and self.below.get(path)
        ]

    def list_names(self, section: Path, kind: types.SymbolKind) -> list[types.DocumentSymbol]:
        return [
            self.make(path, kind, self.list_ports(path) if kind == types.SymbolKind.Function else [])
            for path in self.below.get(section, [])
        ]

    def list_ports(self, step: Path) -> list[types.DocumentSymbol]:
        keys = ((self.names.inputs_key, types.SymbolKind.Field), ("outputs", types.SymbolKind.Interface))
        return [self.make(path, kind, []) for key, kind in keys for path in self.below.get((*step, key), [])]

    def make(
        self, path: Path, kind: types.SymbolKind, children: list[types.DocumentSymbol]
    ) -> types.DocumentSymbol:
        entry = self.names.outline.entries[path]
        start, end = entry.key_start, max(entry.key_end, self.ends[path])
        return types.DocumentSymbol(
            str(path[-1]) or "-",  # an editor refuses a symbol without a name
            kind,
            self.names.to_range(start, end),
            self.names.to_range(start, max(start, entry.key_end)),
            detail=self.describe(path),
            children=children,
        )

    def describe(self, path: Path) -> str | None:
        """The most useful detail of a name: its component, VM size, type or value."""
        value = self.names.outline.value(*path) or ""
        keys = ("uses", "component", "trial", "command", "instance_type", "type")
        values = (self.names.outline.value(*path, key) for key in keys if len(path) == 2)
        text = next((text for text in values if text), "" if value[:1] in ("{", "[", "|", ">") else value)
        return " ".join(text.split())[:80] or None
