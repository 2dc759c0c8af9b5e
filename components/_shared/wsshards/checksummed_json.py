"""JSON objects with their own SHA-256, so that one that was changed is detected."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

CHECKSUM_KEY = "sha256"


def add_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with its checksum as the last entry."""
    return {**content, CHECKSUM_KEY: _digest(content)}


def has_valid_checksum(document: Mapping[str, Any]) -> bool:
    """Whether an object is unchanged since its checksum was added; without a checksum it is not."""
    content = {name: value for name, value in document.items() if name != CHECKSUM_KEY}
    return document.get(CHECKSUM_KEY) == _digest(content)


def _digest(content: Mapping[str, Any]) -> str:
    # Layout and order of the text do not matter.
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
