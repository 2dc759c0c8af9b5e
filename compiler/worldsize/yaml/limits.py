"""How much of a file is read. Each bound is far above any real job and keeps time and memory small."""

from __future__ import annotations

SIZE = 16 * 1024 * 1024  # bytes
DEPTH = 100  # nested collections, aliases expanded
NODES = 1_000_000  # values written in one file
ALIASED = 50_000  # values that aliases and merge keys repeat
