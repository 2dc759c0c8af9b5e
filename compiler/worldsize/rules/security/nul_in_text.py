"""A value contains a NUL character."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.documents.yaml import Document, Mapping, Scalar, Sequence
from worldsize.documents.yaml.nodes import Node
from worldsize.rules.context import Context

_WRITTEN = re.compile(r"\\(?:0|x00|u0000|U00000000)")


def check_document(context: Context, document: Document) -> Iterator[Finding]:
    if document.root is None or _WRITTEN.search(document.text) is None:
        return
    for scalar in _scalars(document.root):
        if "\0" in scalar.text:
            message = (
                "this text contains a NUL character, which a command, variable or file name cannot contain"
            )
            yield Finding(scalar.span, message, "remove the `\\0`")


def _scalars(root: Node) -> Iterator[Scalar]:
    """Every scalar of the file once, however often aliases repeat it."""
    waiting, met = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in met:
            continue
        met.add(id(node))
        if isinstance(node, Mapping):
            waiting += [part for entry in node.entries for part in entry]
        elif isinstance(node, Sequence):
            waiting += node.items
        elif isinstance(node, Scalar):
            yield node
