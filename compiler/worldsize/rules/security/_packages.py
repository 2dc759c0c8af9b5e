"""Requirements of pip and conda as they are written, and whether they fix a version."""

from __future__ import annotations

import re

_PIP = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,\s.-]*\])?")
_BOUND = re.compile(r"===?|~=|<|>|!=|\s@\s|://")
_CONDA_BOUND = re.compile(r"[=<>]")


def parse_pip_name(text: str) -> str | None:
    """The package of a requirement that has no bound at all on its version; None for any other line."""
    line = text.split("#", 1)[0].split(";", 1)[0].strip()
    name = _PIP.fullmatch(line)
    return None if name is None or _BOUND.search(line) or line.endswith((".txt", ".whl")) else name[0]


def parse_conda_name(text: str) -> str | None:
    """The package of a conda dependency without a version; ``pip`` itself does not count."""
    name = text.rpartition("::")[2].strip()
    return None if _CONDA_BOUND.search(name) or " " in name or name in ("pip", "") else name
