"""Files of a run that nobody else can read: its records, logs and caches, whatever the umask is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from worldsize.secrecy import assignments
from worldsize.secrecy.masking import HIDDEN, Mask

OTHERS = 0o077
_LONGEST_COPY = 4 << 20  # bytes of a compiled file; a larger one holds no settings


@contextlib.contextmanager
def private_files() -> Iterator[int]:
    """Make files and folders 0600 and 0700 for a while, in this process and those that it starts.

    The umask is that of the whole process: a thread that makes files meanwhile makes them private too.

    Yields:
        The umask of before, for the processes of steps: what they make is the user's own affair.
    """
    before = os.umask(OTHERS)
    try:
        yield before
    finally:
        os.umask(before)


def hide_in_compiled(folder: Path, mask: Mask) -> None:
    """Take the secrets out of what a spec was compiled to; what runs is in memory already.

    Args:
        folder: The compiled pipeline in the run's folder.
        mask: Hides the secrets of the run.

    Raises:
        OSError: A file cannot be written.
    """
    for path in [*folder.glob("*.yml"), *folder.glob("*.json")]:
        if path.stat().st_size > _LONGEST_COPY:
            continue
        text = path.read_text(encoding="utf-8")
        shown = mask.text(assignments.replace_values(str(path), text, HIDDEN))
        if shown != text:
            path.write_text(shown, encoding="utf-8")
