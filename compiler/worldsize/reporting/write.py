"""Writes the report of a run to a file, complete or not at all."""

from __future__ import annotations

from pathlib import Path

from worldsize.base.whole_file import write_whole

FILE = "report.html"


def write_page(page: str, path: Path, *, follow: bool = True) -> None:
    """Write a page beside its place, then rename it; only its user may read it.

    Args:
        page: The page.
        path: The file.
        follow: Whether a link is followed, as is right for a file that the user has named.

    Raises:
        OSError: The file cannot be written. Nothing of it is left.
    """
    write_whole(path, page.encode("utf-8", errors="backslashreplace"), mode=0o600, follow=follow)


def write_report(root: Path, path: Path | None = None) -> Path:
    """Write the report of a run of this machine, by default into its folder; return the file.

    Raises:
        OSError: It cannot be written.
    """
    from worldsize.reporting.page import render_page
    from worldsize.reporting.read_run import read_run

    target = path or root / FILE
    write_page(render_page(read_run(root)), target, follow=path is not None)
    return target
