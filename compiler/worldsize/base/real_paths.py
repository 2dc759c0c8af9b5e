"""Paths with their symbolic links resolved, for checks that ask for hundreds of files of few folders."""

from __future__ import annotations

import os

from msgspec import Struct, field


class RealPaths(Struct, eq=False):
    """Resolves as ``os.path.realpath`` does, each folder once: links are taken not to change meanwhile."""

    _folders: dict[str, str] = field(default_factory=dict)

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """The absolute path without links; of circular links, what ``os.path.realpath`` makes of them."""
        folder, name = os.path.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = os.path.realpath(folder)
        real = os.path.join(known, name)  # noqa: PTH118 - paths are texts here
        return os.path.realpath(real) if os.path.islink(real) else real  # noqa: PTH114
