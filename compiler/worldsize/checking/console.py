"""A check as the command line shows it: its report on standard output, its result as the exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from worldsize.checking import check as run_check
from worldsize.diagnostics.text import wants_colour


def check(
    paths: Sequence[str], *, format_: str = "text", select: Sequence[str] = (), ignore: Sequence[str] = ()
) -> int:
    """Check files and folders and print what was found.

    Returns:
        The exit status.

    Raises:
        ValueError: A word of ``select`` or ``ignore`` is no code or slug.
    """
    report = run_check(paths, select=select, ignore=ignore)
    write(report.render(format_, colour=wants_colour(sys.stdout)))
    return report.exit_code


def write(text: str) -> None:
    """Print text as it is; characters that the terminal cannot show are escaped."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdout.write(text)
    sys.stdout.flush()
