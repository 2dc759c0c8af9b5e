"""Resolves links in the paths of one command, each folder once."""

from __future__ import annotations

import os

from msgspec import Struct, field

_DEEP = 50  # folders in each other; a path with more is resolved at once


class RealPaths(Struct, eq=False):
    """Resolves links as ``os.path.realpath`` does, which asks for every folder above a path again."""

    _folders: dict[str, str] = field(default_factory=dict)

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """The absolute path without links; of circular links, what ``os.path.realpath`` makes of them."""
        folder, name = os.path.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        known = self._folders.get(folder)
        if known is None:
            deep = folder.count(os.sep) > _DEEP
            known = self._folders[folder] = os.path.realpath(folder) if deep else self.resolve(folder)
        real = os.path.join(known, name)  # noqa: PTH118 - paths are texts here
        return os.path.realpath(real) if os.path.islink(real) else real  # noqa: PTH114
