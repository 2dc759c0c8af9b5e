"""Reads ``.amlignore`` and ``.gitignore`` as azure-ai-ml does.

One file counts per folder, ``.amlignore`` before ``.gitignore``, and only that of the folder itself: unlike
git, the client ignores the folders above. Its patterns are git's, later lines override earlier lines, and
unlike in git an excluded folder can contain included files.

pathspec translates a line into a regular expression, which is then changed so that it never goes back: else a
line of many stars would take hours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from worldsize.azureml.copying import read_listed
from worldsize.azureml.references import is_file
from worldsize.base import limits

NAMES = (".amlignore", ".gitignore")
_CACHES = "__pycache__"
_RUNS = ".worldsize"  # else each run below a code folder would contain all earlier runs
LARGEST = 1024 * 1024  # characters of an ignore file that are read
LONGEST = 1000  # characters of a line with wildcards; a longer one matches nothing
MOST = 2000  # lines with wildcards, each of which every path is compared with; further ones match nothing


_PLAIN = re.compile(r"(!?)([^!#/*?\[\\][^/*?\[\\]*)(/?)")
_NOTHING = re.compile(r"!?/(?:(?:\*\*/)+)?|!|#.*|")  # the client's expressions of these match no path
_CLASSES = re.compile(r"\\.|\[!?\]?[^\]]*(?P<end>\]?)")
_BRACKETS = re.compile(r"\\.|\[")
_STAR = "[^/]*"
_FOLDERS = re.compile(r"(\(\?:\.\+/\)\?|\(\?:/\.\+\)\?)")  # `**/` at the start, and `/**` inside
_NO_NAME = "\0"  # in a path that stands for all those below a folder


class Line(NamedTuple):
    """One line of an ignore file: a plain name, or a regular expression that is searched in a path."""

    include: bool  # whether matching paths are excluded; False after a `!`
    name: str = ""
    only_below: bool = False  # whether a name means everything in a folder, but not a file
    expression: re.Pattern[str] | None = None


def parse_line(line: str) -> Line | None:
    """Parse a line; None for a comment, an empty line, and a pattern that cannot match a path."""
    text = line.strip()
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        return Line(not plain[1], plain[2], only_below=bool(plain[3]))
    if _NOTHING.fullmatch(text) or len(text) > LONGEST:
        return None
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # few files have such lines

    segments = (_CLASSES.sub(_write_class, segment) for segment in text.split("/"))
    try:
        expression, include = GitIgnoreSpecPattern.pattern_to_regex("/".join(segments))
        return None if expression is None else Line(bool(include), expression=re.compile(_tame(expression)))
    except (ValueError, re.error):
        return None  # the client cannot parse it either


def _write_class(match: re.Match[str]) -> str:
    """Write a class of characters so that pathspec reads it as the client's older copy of pathspec does.

    To that a caret at the start is a character like others, and a bracket that nothing closes is a bracket.
    """
    text = match[0]
    if text.startswith("[") and not match["end"]:
        return _BRACKETS.sub(lambda bracket: f"\\{bracket[0]}" if bracket[0] == "[" else bracket[0], text)
    return f"[{_NO_NAME}{text[1:]}" if text.startswith("[^") else text


def _tame(expression: str) -> str:
    """Let each star take the fewest characters after which the text behind it fits, and never more.

    If what follows does not fit then, it would not fit later either, because another star comes first.
    """
    first, *others = _FOLDERS.split(expression.replace("(?P<ps_d>/)", "/"))
    numbers = count()

    def settle(part: str) -> str:
        number = next(numbers)
        return f"(?=(?P<g{number}>{part}))(?P=g{number})"

    def tame_names(names: str, *, last: bool) -> str:
        before, *chunks = (names if last else f"{names}(?=/)").split(_STAR)
        return before + "".join(settle(f"{_STAR}?{chunk}") for chunk in chunks)

    tamed = first if others and first == "^" else tame_names(first, last=not others)
    for position in range(0, len(others), 2):
        folders = others[position].replace("+", "+?") + "?"
        tamed += settle(folders + tame_names(others[position + 1], last=position + 2 == len(others)))
    return tamed


class Lines(Struct, frozen=True):
    """The lines of an ignore file."""

    lines: tuple[Line, ...]  # those that can match
    names: dict[str, tuple[int, int]]  # the number of the last line that is a name: for a file, for a folder
    expressions: tuple[tuple[int, re.Pattern[str]], ...]  # of all other lines, the last first

    def decide(self, parts: Sequence[str], *, below: bool = False) -> bool | None:
        """Whether the last line that matches a path, or all paths below it, excludes it; None without one."""
        last = self._find_last(parts, below=below)
        return self.lines[last].include if last >= 0 else None

    def excludes(self, parts: Sequence[str]) -> bool:
        """Whether a path relative to the folder of the file is excluded."""
        return bool(self.decide(parts))

    def exclude_below(self, parts: Sequence[str]) -> bool:
        """Whether every path below a folder is certainly excluded, without listing it."""
        last = self._find_last(parts, below=True)
        return last >= 0 and all(line.include for line in self.lines[last:])

    def _find_last(self, parts: Sequence[str], *, below: bool) -> int:
        """The number of the last line that matches; -1 for none."""
        folder = "/".join(parts)
        path, end = (f"{folder}/{_NO_NAME}", len(folder) + 1) if below else (folder, len(folder))
        last = -1
        for index, part in enumerate(parts):
            if part in self.names:
                last = max(last, self.names[part][below or index < len(parts) - 1])
        for number, expression in self.expressions:
            if number < last:
                break
            limits.check_time()
            match = expression.search(path)
            if match is not None and match.end() <= end:
                return number
        return last


def compile_lines(texts: Iterable[str]) -> Lines:
    """Compile the lines of an ignore file, from first to last."""
    lines: list[Line] = []
    names: dict[str, tuple[int, int]] = {}
    expressions: list[tuple[int, re.Pattern[str]]] = []
    for text in texts:
        crowded = len(expressions) == MOST and _PLAIN.fullmatch(text.strip()) is None
        line = None if crowded else parse_line(text)
        if line is None:
            continue
        if line.expression is not None:
            expressions.append((len(lines), line.expression))
        else:
            before = names.get(line.name, (-1, -1))[0]
            names[line.name] = (before if line.only_below else len(lines), len(lines))
        lines.append(line)
    return Lines(tuple(lines), names, tuple(reversed(expressions)))


def read_ignore_file(folder: Path | None) -> Lines:
    """Read the patterns of a folder; without one, only what is always excluded: byte code and runs."""
    file = find_ignore_file(folder) if folder else None
    return parse_ignore_file(b"" if file is None else read_listed(Path(os.path.realpath(file)), LARGEST))


def parse_ignore_file(content: bytes) -> Lines:
    """Parse an ignore file, and add what is always excluded."""
    return _compile_content(content[:LARGEST])


@lru_cache(maxsize=4)
def _compile_content(content: bytes) -> Lines:
    """Compile the lines; cached, because several rules read the same file."""
    text = content.decode("utf-8-sig", "replace")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    # The last line that matches decides, so of equal lines only the last counts.
    distinct = reversed(dict.fromkeys(reversed((*lines, _CACHES, _RUNS))))
    return compile_lines(distinct)


def find_ignore_file(folder: Path) -> Path | None:
    """The ignore file that counts for a folder."""
    return next((folder / name for name in NAMES if is_file(folder / name)), None)
