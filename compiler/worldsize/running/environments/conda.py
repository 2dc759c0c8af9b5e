"""What pip can install of a conda file.

Its pip part is taken as it is. A package of conda itself is taken where it is known to go by that name, or
another, in Python's index; an unknown name is not tried there, because anybody may have taken it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from worldsize.facts import table

OURS = frozenset({"pip", "wheel"})  # what installs is that of this machine

_DEPENDENCY = re.compile(r"(?:[^\s:]+::)?(?P<name>[\w.-]+)\s*(?P<version>.*)", re.DOTALL)
_EXACT = re.compile(r"(?:={1,2}\s*|(?=\d))(?P<version>\d[^\s=,*|]*)(?:[=\s]\s*[^\s=]+)?")
_FUZZY = re.compile(r"={0,2}\s*(?P<version>\d[^\s=,*|]*?)\.?\*?")
_RANGE = re.compile(r"(?:(?:>=|<=|!=|==|~=|<|>)\s*\d[\w.!+]*\s*(?:,\s*)?)+")
_PYTHON = re.compile(r"={0,2}\s*(?P<version>\d+\.\d+)\b")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a conda file asks for.

    Attributes:
        requirements: lines for pip.
        python: the Python it names, such as ``3.8``; None where it names none, or a range.
        left: what pip is not known to have, as it is written.
    """

    requirements: tuple[str, ...]
    python: str | None
    left: tuple[str, ...]


def read(dependencies: Any) -> Wanted:
    """Read ``dependencies:`` of a conda file, a list of texts and of mappings with ``pip:``."""
    lines: list[str] = []
    left: list[str] = []
    python: str | None = None
    for item in dependencies if isinstance(dependencies, list) else []:
        if isinstance(item, dict):
            pip = item.get("pip")
            lines += [str(line) for line in pip if line is not None] if isinstance(pip, list) else []
            continue
        found = _DEPENDENCY.fullmatch(str(item).strip())
        name, version = (found["name"].lower(), found["version"]) if found else (str(item), "")
        if name == "python":
            exact = _PYTHON.match(version)
            python = exact["version"] if exact else None
        elif name not in OURS:
            known = _names().get(name)
            bound = _bound(version.strip())
            if known is None or bound is None:
                left.append(str(item))
            else:
                lines.append(known + bound)
    return Wanted(tuple(lines), python, tuple(left))


def _bound(version: str) -> str | None:
    """Conda's bound on a version as pip writes it; None where pip has no such bound.

    ``1.2`` and ``==1.2`` are that version, ``=1.2`` is any ``1.2.x``, and a build behind it is left out.
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
def _names() -> dict[str, str]:
    return {row["conda"]: row["pip"] for row in table.rows("conda_names")}
