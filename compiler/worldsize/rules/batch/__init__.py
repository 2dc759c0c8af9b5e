"""WS3: micro-batch, accumulation and global batch."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES: tuple[Entry, ...] = ()
