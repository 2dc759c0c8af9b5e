"""YAML with exact positions: text to nodes by the rules of PyYAML's SafeLoader."""

from __future__ import annotations

from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.documents.yaml.load import Comment, Document, load, report_unreadable, to_python
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence

__all__ = [
    "Comment",
    "Document",
    "Mapping",
    "Node",
    "Scalar",
    "Sequence",
    "Source",
    "Span",
    "load",
    "report_unreadable",
    "to_python",
]
