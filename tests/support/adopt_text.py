"""Adopting a script that is a text, and a plain script to begin with."""

from __future__ import annotations

from pathlib import Path

from worldsize.adopting.adopt import adopt_module
from worldsize.adopting.model import Adoption
from worldsize.adopting.source.reading import parse_bytes

PLAIN = (Path(__file__).parents[1] / "adopt/scripts/globals_blobs.py").read_bytes()


def adopt_text(text: str | bytes) -> Adoption:
    """Adopt a script by its text."""
    module, encoding = parse_bytes("train.py", text.encode() if isinstance(text, str) else text)
    return adopt_module(module, encoding)
