"""What pip installs for a step: the lines of requirements files and of conda files.

Included requirements files are expanded, and local paths are made absolute. The pip section of a conda file
is used unchanged. A conda package is used if its name on PyPI is known. An unknown name is not looked up
there, because it may belong to another project.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from worldsize.azureml.copying import CopyAccess, allow_everything, read_listed
from worldsize.base import untrusted
from worldsize.facts import table

PROVIDED = frozenset({"pip", "wheel"})  # those of this machine are used

_DEPENDENCY = re.compile(r"(?:[^\s:]+::)?(?P<name>[\w.-]+)\s*(?P<version>.*)", re.DOTALL)
_EXACT = re.compile(r"(?:={1,2}\s*|(?=\d))(?P<version>\d[^\s=,*|]*)(?:[=\s]\s*[^\s=]+)?")
_FUZZY = re.compile(r"={0,2}\s*(?P<version>\d[^\s=,*|]*?)\.?\*?")
_RANGE = re.compile(r"(?:(?:>=|<=|!=|==|~=|<|>)\s*\d[\w.!+]*\s*(?:,\s*)?)+")
_PYTHON = re.compile(r"={0,2}\s*(?P<version>\d+\.\d+)\b")

_INCLUDE = re.compile(r"(?:-r\s*|--requirement[\s=]\s*)(?P<path>\S.*)")
_CONSTRAINT = re.compile(r"(?:-c\s*|--constraint[\s=]\s*)(?P<path>\S.*)")
_EDITABLE = re.compile(r"(?:-e\s*|--editable[\s=]\s*)(?P<path>\S.*)")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_ARCHIVE = re.compile(r"\S+\.(?:whl|zip|tar\.gz)")
# A line that is a path, options with a path, and `file:` addresses alone or after `name @`.
_LOCAL = re.compile(
    r"^(?:-[ce]\s*|(?:--find-links|-f|--index-url|-i|--extra-index-url)[\s=]\s*)?(?P<path>/[^;]*)"
    r"|(?:^|[\s=+@])file:(?://(?:localhost)?)?(?P<url>/[^\s;#]*)"
)
# Pip quotes files that it cannot parse: without a project boundary only files with these suffixes are read.
_SUFFIXES = frozenset({".txt", ".in", ".lock", ".pip", ".whl", ".zip", ".gz", ".bz2", ".tgz"})
_SKIPPED = frozenset({".git", ".venv", "__pycache__", "build", ".worldsize"})


class CondaRequirements(Struct, frozen=True):
    """What a conda file asks for."""

    requirements: tuple[str, ...]  # lines for pip
    python: str | None  # the Python it names, such as `3.8`; None if it names none, or a range
    unavailable: tuple[str, ...]  # packages that pip may not have, as written


def read_conda(dependencies: Any) -> CondaRequirements:
    """Read ``dependencies:`` of a conda file, a list of texts and of mappings with ``pip:``."""
    lines: list[str] = []
    left: list[str] = []
    python: str | None = None
    for item in dependencies if isinstance(dependencies, list) else []:
        if isinstance(item, dict):
            pip = item.get("pip")
            lines += [str(line) for line in pip if line is not None] if isinstance(pip, list) else []
            continue
        match = _DEPENDENCY.fullmatch(str(item).strip())
        name, version = (match["name"].lower(), match["version"]) if match else (str(item), "")
        if name == "python":
            exact = _PYTHON.match(version)
            python = exact["version"] if exact else None
        elif name not in PROVIDED:
            package = _read_conda_names().get(name)
            bound = _convert_bound(version.strip())
            if package is None or bound is None:
                left.append(str(item))
            else:
                lines.append(package + bound)
    return CondaRequirements(tuple(lines), python, tuple(left))


def _convert_bound(version: str) -> str | None:
    """Conda's bound on a version as pip writes it; None if pip has no such bound.

    ``1.2`` and ``==1.2`` are that version, ``=1.2`` is any ``1.2.x``, and a build is dropped.
    """
    if not version or version in ("*", "=*"):
        return ""
    if _RANGE.fullmatch(version) and not version.startswith("=="):
        return re.sub(r"\s", "", version).rstrip(",")
    fuzzy = _FUZZY.fullmatch(version)
    if fuzzy and ("*" in version or (version.startswith("=") and not version.startswith("=="))):
        return f"=={fuzzy['version']}.*"
    exact = _EXACT.fullmatch(version)
    return f"=={exact['version']}" if exact else None


@cache
def _read_conda_names() -> dict[str, str]:
    return {row["conda"]: row["pip"] for row in table.read_rows("conda_names")}


def expand_requirements(
    lines: Iterable[str], folder: Path, gate: CopyAccess, seen: frozenset[Path] = frozenset()
) -> Iterator[str]:
    """Yield the lines of a requirements file or of a conda file's pip section, without comments.

    Included files, as far as the gate allows them, are expanded; ``seen`` are those that include this one.

    Raises:
        OSError: an included file cannot be read, or may not be.
    """
    for line in "\n".join(lines).replace("\\\n", " ").split("\n"):
        text = _COMMENT.sub("", line).strip()
        included = _INCLUDE.fullmatch(text)
        if included:
            path = Path(os.path.normpath(folder / _remove_scheme(_unquote(included["path"]))))
            if path not in seen:
                inner = read_listed(_require_allowed(path, gate)).decode("utf-8-sig").split("\n")
                yield from expand_requirements(inner, path.parent, gate, seen | {path})
        elif text:
            absolute = _make_absolute(text, folder)
            named = _find_local_path(absolute)
            if named is not None:
                _require_allowed(named, gate)
            yield absolute


def digest_requirements(lines: Iterable[str]) -> str:
    """SHA-256 over the lines and the contents of the files and folders of this machine that they name."""
    total = hashlib.sha256()
    for line in lines:
        path = _find_named_path(line)
        shown = line if path is None else line.replace(str(path), path.name)
        total.update(f"{shown}\0".encode())
        if path is not None:
            for file in [path] if path.is_file() else sorted(_list_files(path)):
                total.update(f"{file.relative_to(path) if file != path else file.name}\0".encode())
                with untrusted.open_file(file) as opened:
                    total.update(untrusted.hash_rest(opened))
    return total.hexdigest()


def _require_allowed(path: Path, gate: CopyAccess) -> Path:
    """Resolve a file that another one names.

    Pip shows lines that it cannot parse, so only files of the project are allowed.

    Raises:
        OSError: It is not there, or is outside the project.
    """
    real = Path(os.path.realpath(path))
    unmarked = gate.allowed is allow_everything  # there is no project boundary
    if not path.exists() or (_looks_like_requirements(real) if unmarked else gate.allowed(real)):
        return real
    raise OSError(errno.EACCES, "it is outside the project", str(path))


def _looks_like_requirements(path: Path) -> bool:
    return path.is_dir() or path.suffix in _SUFFIXES


def _make_absolute(text: str, folder: Path) -> str:
    for pattern, option in ((_CONSTRAINT, "-c "), (_EDITABLE, "-e ")):
        match = pattern.fullmatch(text)
        if match:
            path = _unquote(match["path"])
            return text if "://" in path else f"{option}{os.path.normpath(folder / path)}"
    if text.startswith(("./", "../", "/")) or text in (".", "..") or _ARCHIVE.fullmatch(text):
        return text if "://" in text or "@" in text else os.path.normpath(folder / text)
    return text


def _find_local_path(line: str) -> Path | None:
    """The local path that a line makes pip read, whether it exists or not."""
    match = _LOCAL.search(line)
    if match is None:
        return None
    text = unquote(match["url"]) if match["url"] else match["path"]
    path, bracket, extras = _unquote(text).rpartition("[")
    return Path(path if bracket and extras.endswith("]") and "/" not in extras else _unquote(text))


def _find_named_path(line: str) -> Path | None:
    text = re.sub(r"^-[ce] ", "", line)
    text = text.partition("[")[0] if text.endswith("]") else text
    path = Path(text)
    return path if path.is_absolute() and path.exists() else None


def _list_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED and not name.endswith(".egg-info")]
        paths = (Path(parent, name) for name in names if not name.endswith(".pyc"))
        yield from (path for path in paths if path.is_file())  # opening a pipe would block


def _remove_scheme(path: str) -> str:
    return (
        unquote(re.sub(r"^file:(?://(?:localhost)?(?=/))?", "", path)) if path.startswith("file:") else path
    )


def _unquote(path: str) -> str:
    return path.strip().strip("\"'")
