"""The declarative spec: its schema, its typed model, and the loader between the two."""

from __future__ import annotations

from worldsize.spec.load import from_document

__all__ = ["from_document"]
