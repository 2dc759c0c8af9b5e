"""A value contains a NUL character."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.documents.yaml import Document
from worldsize.documents.yaml.nodes import list_scalars
from worldsize.rules.context import Context

_WRITTEN = re.compile(r"\\(?:0|x00|u0000|U00000000)")


def check_document(context: Context, document: Document) -> Iterator[Finding]:
    if _WRITTEN.search(document.text) is None:
        return
    for scalar in list_scalars(document.root):
        if "\0" in scalar.text:
            message = (
                "this text contains a NUL character, which a command, variable or file name cannot contain"
            )
            yield Finding(scalar.span, message, "remove the `\\0`")
