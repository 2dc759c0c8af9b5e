"""The project's ``worldsize.yml``, read again when it changes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from worldsize.checking import discover
from worldsize.checking.settings import Settings, read_settings
from worldsize.documents import yaml
from worldsize.serving.workspace import Workspace


def project_settings(workspace: Workspace) -> Settings:
    """The settings of the folder in which the server was started; empty ones without a file."""
    folder = str(workspace.project)
    path = discover.find_settings(folder, discover.find_tree(folder))
    try:
        return Settings() if path is None else _read(path, Path(path).stat().st_mtime_ns)
    except OSError:  # deleted meanwhile
        return Settings()


@lru_cache(maxsize=4)
def _read(path: str, _changed: int) -> Settings:
    return read_settings(yaml.load(Path(path)))
