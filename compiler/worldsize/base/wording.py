"""What the operating system says no with, in the words of our messages."""

from __future__ import annotations

from pathlib import Path


def describe_os_error(error: OSError, *, file: bool = False) -> str:
    """Why it refused, in lower case: ``no space left on device``.

    Args:
        error: The refusal.
        file: Also name the file, where one is known: ``no space left on device (`train.py`)``.
    """
    about = f" (`{Path(error.filename).name}`)" if file and isinstance(error.filename, str) else ""
    return (error.strerror or str(error)).lower() + about
