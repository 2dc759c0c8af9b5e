"""Resolves links in the paths of one command, each folder once."""

from __future__ import annotations

import os

from msgspec import Struct, field

_DEEP = 50  # folders in each other; a path with more is resolved at once


class RealPaths(Struct, eq=False):
    """Resolves links as ``os.path.realpath`` does, which asks for every folder above a path again."""

    _known: dict[str, str] = field(default_factory=dict)

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """The absolute path without links; of circular links, what ``os.path.realpath`` makes of them."""
        text = os.fspath(path)
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._resolve(text)
        return known

    def _resolve(self, path: str) -> str:
        folder, name = os.path.split(path)
        if name in ("", ".", "..") or folder.count(os.sep) > _DEEP:
            return os.path.realpath(path)
        real = os.path.join(self.resolve(folder), name)  # noqa: PTH118 - paths are texts here
        return os.path.realpath(real) if os.path.islink(real) else real  # noqa: PTH114
