"""``.amlignore`` and ``.gitignore`` with the meaning azure-ai-ml gives them.

One file counts per folder, ``.amlignore`` before ``.gitignore``. Its patterns are git's, later lines
override earlier ones, and unlike git an excluded folder can have included files in it.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path, PurePosixPath
from typing import Protocol

from worldsize.azureml.references import is_file
from worldsize.records import dataclass

# One name, stars in it: what most lines of most ignore files are.
_NAME = re.compile(r"\*?[\w.-]+(?:\*[\w.-]+)*\*?")
_NAMES = (".amlignore", ".gitignore")
_CACHES = "__pycache__"
_RUNS = ".worldsize"  # earlier runs below a code folder would be copied into the next one, and so on


class Pattern(Protocol):
    """What is used of a pathspec pattern."""

    @property
    def include(self) -> bool | None:
        """Whether what matches is left out; None for a comment."""

    def match_file(self, file: str) -> object:
        """Something other than None where the path matches."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """The patterns of one folder; ``at`` is where that folder lands in the snapshot."""

    at: PurePosixPath
    patterns: tuple[Pattern, ...]

    def excludes(self, path: PurePosixPath) -> bool:
        """Whether a path of the snapshot below ``at`` is excluded."""
        relative = path.relative_to(self.at).as_posix()
        excluded = False
        for pattern in self.patterns:
            if pattern.include is not None and pattern.match_file(relative) is not None:
                excluded = pattern.include
        return excluded


def read(folder: Path | None, at: PurePosixPath) -> Ignore:
    """The patterns of a folder; without one, only what is always left out: byte code and our runs."""
    lines = _lines(folder) if folder else ()
    found = (_compiled(line) for line in (*lines, _CACHES, _RUNS))
    return Ignore(at, tuple(pattern for pattern in found if pattern is not None))


def _lines(folder: Path) -> tuple[str, ...]:
    for name in _NAMES:
        file = folder / name
        if is_file(file):
            text = file.read_text(encoding="utf-8", errors="replace")
            return tuple(line.rstrip() for line in text.splitlines())
    return ()


@dataclass(frozen=True, slots=True)
class _Named:
    """A pattern of one name, such as ``*.pyc`` or ``build/``: no library is needed for it."""

    expression: re.Pattern[str]
    include: bool | None = True

    def match_file(self, file: str) -> object:
        """Something other than None where a part of the path has the name."""
        return self.expression.search(file)


def _compiled(line: str) -> Pattern | None:
    name = line.removesuffix("/")
    if _NAME.fullmatch(name) is None:
        return _git(line)
    part = r"[^/]*".join(re.escape(piece) for piece in name.split("*"))
    return _Named(re.compile(f"(?:^|/){part}(?:/{'' if line.endswith('/') else '|$'})"))


def _git(line: str) -> Pattern | None:
    try:  # the class moved in pathspec 1.0; importing it costs 20 ms, which only snapshots should pay
        module = importlib.import_module("pathspec.patterns.gitignore.spec")
        compiled = module.GitIgnoreSpecPattern
    except ImportError:
        compiled = importlib.import_module("pathspec.patterns.gitwildmatch").GitWildMatchPattern
    try:
        pattern: Pattern = compiled(line)
    except ValueError:  # git, too, passes over a pattern it cannot read
        return None
    return pattern
