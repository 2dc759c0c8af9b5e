r"""A text holds a NUL character, written ``\0`` in double quotation marks.

No command line, environment variable or file name can hold one: the system ends the text there, or refuses.

Why: The job fails when its process is started, after the compute was paid for.

Bad::

    command: "python train.py --title digits\0"

Good::

    command: "python train.py --title digits"

Fix: Remove it.

Source: POSIX, exec: arguments and variables are strings that end in a null byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml import Document, Mapping, Scalar, Sequence
from worldsize.yaml.nodes import Node

RULE = Rule("WS805", "nul-in-text", "error", since="0.1.0", summary="a NUL character in a text")
_WRITTEN = re.compile(r"\\(?:0|x00|u0000|U00000000)")


@RULE.checks(Document)
def check(context: Context, document: Document) -> Iterator[Problem]:
    if document.root is None or _WRITTEN.search(document.text) is None:
        return
    for scalar in _scalars(document.root):
        if "\0" in scalar.text:
            message = "this text holds a NUL character, which no command, variable or file name can"
            yield RULE.problem(scalar.span, message, "remove the `\\0`")


def _scalars(root: Node) -> Iterator[Scalar]:
    """Every scalar that is written in the file, each once, however often aliases repeat it."""
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
