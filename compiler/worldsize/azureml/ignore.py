"""Reads ``.amlignore`` and ``.gitignore`` as azure-ai-ml does.

One file counts per folder, ``.amlignore`` before ``.gitignore``, and only that of the folder itself: unlike
git, the client ignores the folders above. Its patterns are git's, later lines override earlier lines, and
unlike in git an excluded folder can contain included files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath

from msgspec import Struct

from worldsize.azureml.copying import read_listed
from worldsize.azureml.ignore_patterns import Lines, compile_lines, parse_line
from worldsize.azureml.references import is_file

NAMES = (".amlignore", ".gitignore")
_CACHES = "__pycache__"
_RUNS = ".worldsize"  # else each run below a code folder would contain all earlier runs
LARGEST = 1024 * 1024  # characters of an ignore file that are read


class Ignore(Struct, frozen=True):
    """The patterns of one folder; ``at`` is its path in the snapshot."""

    at: PurePosixPath
    lines: Lines

    def excludes(self, path: PurePosixPath) -> bool:
        """Whether a path of the snapshot below ``at`` is excluded."""
        return self.excludes_parts(path.relative_to(self.at).parts)

    def excludes_parts(self, parts: Sequence[str]) -> bool:
        """Whether a path relative to the folder is excluded."""
        return self.lines.exclude(parts)

    def excludes_below(self, parts: Sequence[str]) -> bool:
        """Whether everything below a folder is excluded, as far as this is known without listing it."""
        return self.lines.exclude_below(parts)


def read_ignore_file(folder: Path | None, at: PurePosixPath) -> Ignore:
    """Read the patterns of a folder; without one, only what is always excluded: byte code and runs."""
    file = find_ignore_file(folder) if folder else None
    return parse_ignore_file(b"" if file is None else read_listed(Path(os.path.realpath(file)), LARGEST), at)


def parse_ignore_file(content: bytes, at: PurePosixPath) -> Ignore:
    """Parse an ignore file, and add what is always excluded."""
    return Ignore(at, _compile_content(content[:LARGEST]))


@lru_cache(maxsize=4)
def _compile_content(content: bytes) -> Lines:
    """Compile the lines; cached, because several rules read the same file."""
    text = content.decode("utf-8-sig", "replace")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    # The last line that matches decides, so of equal lines only the last counts.
    distinct = reversed(dict.fromkeys(reversed((*lines, _CACHES, _RUNS))))
    patterns = (parse_line(line) for line in distinct)
    return compile_lines([pattern for pattern in patterns if pattern is not None])


def find_ignore_file(folder: Path) -> Path | None:
    """The ignore file that counts for a folder."""
    return next((folder / name for name in NAMES if is_file(folder / name)), None)
