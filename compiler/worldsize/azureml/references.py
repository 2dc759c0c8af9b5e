"""What a text refers to: a file here, or an asset that lives in a workspace, a registry or on the web."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

_LONGEST_NAME, _LONGEST_PATH = 255, 3000  # bytes; asking the system for more raises
Kind = Literal["local", "asset", "web", "git"]

_WEB = re.compile(r"(?:https?|wasbs?|abfss?|adl|s3|runs|models):", re.IGNORECASE)


def classify(text: str) -> Kind:
    """Where ``component:``, ``code:``, ``environment:`` or a data ``path:`` points to.

    ``asset`` covers every ``azureml:`` form and bare resource ids; ``local`` whatever is left.
    """
    if text.startswith(("azureml:", "/subscriptions/")):
        return "asset"
    if text.startswith("git+"):
        return "git"
    return "web" if _WEB.match(text) else "local"


def local_path(text: str, folder: Path) -> Path | None:
    """The path of a local reference, relative ones against ``folder``; None for anything else."""
    if classify(text) != "local" or "${{" in text or "\0" in text:
        return None
    name = text.removeprefix("file:")
    if len(name) > 60 and not _can_exist(name):
        name = f"{name[:60].replace('/', '_')}…"  # so it is reported as missing
    return Path(name) if Path(name).is_absolute() else normalise(folder / name)


def _can_exist(name: str) -> bool:
    data = name.encode("utf-8", "replace")
    return len(data) <= _LONGEST_PATH and all(len(part) <= _LONGEST_NAME for part in data.split(b"/"))


def shorten(text: str) -> str:
    """A reference as a message quotes it: in one line, and not longer than helps."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 100 else flat[:99] + "…"


def exists(path: Path) -> bool:
    """Whether there is something at a path; unlike pathlib's, False too where one may not look."""
    return os.path.exists(path)  # noqa: PTH110


def is_file(path: Path) -> bool:
    """Whether there is a file at a path that can be seen."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path) -> bool:
    """Whether there is a folder at a path that can be seen."""
    return os.path.isdir(path)  # noqa: PTH112


def list_names(folder: Path) -> list[str]:
    """The names in a folder, sorted, for a suggestion; none where it cannot be read."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names only
    except OSError:
        return []


def normalise(path: Path) -> Path:
    """A path without ``a/..``, still relative where it was: what messages show."""
    return Path(os.path.normpath(path))
