"""JSON objects that carry their own SHA-256: one that was changed since it was written is not believed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

CHECKSUM_KEY = "sha256"


def add_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its seal, as the last entry."""
    return {**content, CHECKSUM_KEY: _digest(content)}


def has_valid_checksum(document: Mapping[str, Any]) -> bool:
    """Whether an object is as it was when it was sealed; one without a seal is not."""
    content = {name: value for name, value in document.items() if name != CHECKSUM_KEY}
    return document.get(CHECKSUM_KEY) == _digest(content)


def _digest(content: Mapping[str, Any]) -> str:
    # Layout and order do not count: what is hashed is what the text means.
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
