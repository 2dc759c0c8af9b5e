"""A line for each look that trained nothing: appended as a whole, and at most so many."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from worldsize.base import untrusted

LOOKS, OLDER = "looks.jsonl", "looks.1.jsonl"
LARGEST = 1 << 19  # bytes of one of the files
LONGEST = 1000  # characters of a reason
ALIKE_SECONDS = 3600.0  # within which a look that says the same as the last one leaves no line


class LookRecord(Struct, frozen=True):
    """A look that trained nothing."""

    now: float  # its time
    action: str
    reason: str


def add_look(root: Path, look: LookRecord) -> None:
    """Add a line to the folder of a pipeline; where that fails, as on a full disk, the look is not listed.

    A full file becomes the older one in place of the one before, so that other looks may write meanwhile.
    """
    look = replace(look, reason=look.reason[:LONGEST])
    path = root / LOOKS
    with contextlib.suppress(OSError):
        text = untrusted.read_bytes(path) if os.path.lexists(path) else b""
        last = next(reversed(_parse(text[text.rfind(b"\n", 0, -1) + 1 :])), None)
        is_alike = last is not None and replace(last, now=look.now) == look
        if is_alike and last is not None and 0 <= look.now - last.now < ALIKE_SECONDS:
            return
        if len(text) > LARGEST:
            path.replace(root / OLDER)
            text = b""
        line = msgspec.json.encode(look) + b"\n"
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:  # the line that a killed look tore ends here
            os.write(descriptor, line if not text or text.endswith(b"\n") else b"\n" + line)
        finally:
            os.close(descriptor)


def read_looks(root: Path) -> list[LookRecord]:
    """The looks that trained nothing, in the order of their lines; what is torn is left out."""
    looks: list[LookRecord] = []
    for name in (OLDER, LOOKS):
        with untrusted.passed_over():
            looks += _parse(untrusted.read_bytes(root / name))
    return looks


def _parse(text: bytes) -> list[LookRecord]:
    looks = []
    for line in text.splitlines():
        with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
            looks.append(msgspec.json.decode(line, type=LookRecord))
    return looks
