"""Edits of YAML text that leave every other byte as it is."""

from __future__ import annotations

from worldsize.documents.yaml.nodes import Mapping


def insert_entry(text: str, mapping: Mapping, entry: str) -> str:
    """The text with an entry before the first of a mapping.

    Args:
        text: The text of the whole file.
        mapping: A mapping of it, in block or flow style; one in block style is not empty.
        entry: The key and its value on one line, such as ``epochs: 3``.
    """
    starts = [key.start for key, _ in mapping.entries if mapping.start <= key.start < mapping.end]
    if mapping.flow:
        at = mapping.start + 1
        return f"{text[:at]}{entry}{', ' if mapping.entries else ''}{text[at:]}"
    at = min(starts)
    indent = at - (text.rfind("\n", 0, at) + 1)
    return f"{text[:at]}{entry}\n{' ' * indent}{text[at:]}"
