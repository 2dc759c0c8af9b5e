"""The files that one command reads: each is parsed once, however many steps refer to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field

from worldsize.azureml.copying import CopyAccess, RealPaths, allow_everything
from worldsize.azureml.model import Component
from worldsize.base import resources
from worldsize.base.problem import Problem
from worldsize.documents import yaml


def allow_nothing(_reference: str) -> None:
    """Map no asset: what is in a workspace, in a registry or on the web is not read."""


class Files(Struct, eq=False):
    """Documents and components by resolved path, and each problem that was found, once."""

    problems: list[Problem] = field(default_factory=list)
    components: dict[Path, Component | None] = field(default_factory=dict)
    documents: dict[Path, yaml.Document] = field(default_factory=dict)
    parsed: Mapping[Path, yaml.Document] = field(default_factory=dict)  # by an earlier reading of these files
    known: dict[tuple[str, ...], object] = field(default_factory=dict)  # answers about files, by question
    reading: list[Path] = field(default_factory=list)  # component files whose inner graph is being read
    readable: Callable[[Path], bool] = allow_everything  # a check stays inside its tree
    readable_data: Callable[[Path], bool] = allow_everything  # the same of data, which is never copied
    gate: CopyAccess = field(default_factory=CopyAccess)  # what may be copied
    elsewhere: Callable[[str], Path | None] = allow_nothing  # a local stand-in for an asset
    mapped_data: Callable[[str], Path | None] = allow_nothing  # the same of data, from the project's settings
    texts: dict[Path, bytes] = field(default_factory=dict)  # contents that are not on the disk yet
    real_paths: RealPaths = field(default_factory=RealPaths)

    def document(self, path: Path) -> yaml.Document:
        """The parsed file; its own problems are added to :attr:`problems` when first read.

        A file that may not be read is a document without a root and without problems.
        """
        key = self.real(path)
        cached = self.documents.get(key)
        if cached is None:
            if not self.readable(path):
                return yaml.Document(yaml.Source(str(path), ""), None)
            cached = self.documents[key] = self.parsed.get(key) or _load(path, self.texts.get(key))
            self.problems += cached.problems
        return cached

    def real(self, path: Path) -> Path:
        """Resolve the links of a path, once; unlike ``resolve()``, never raises on circular links."""
        return Path(self.real_paths.resolve(path))

    def may_judge(self, path: Path) -> bool:
        """Whether rules may read a file that is copied, or know that it is outside the project.

        Without a project boundary, a check still stays inside its tree.
        """
        return self.readable(path) or not self.gate.allowed(self.real_paths.resolve(path))


_built_in: dict[Path, tuple[tuple[int, int], yaml.Document]] = {}  # with the time and size of the file


def _load(path: Path, text: bytes | None) -> yaml.Document:
    """Read a file; that of a built-in component is parsed once, however often an editor asks again."""
    if text is not None or path.parent.parent != resources.components() or not path.is_file():
        return yaml.load(path, text)
    status = path.stat()
    state = (status.st_mtime_ns, status.st_size)
    built_in = _built_in.get(path)
    if built_in is not None and built_in[0] == state:
        return built_in[1]
    document = yaml.load(path)
    if not document.problems:  # that the time ran out is true of one reading only
        _built_in[path] = (state, document)
    return document
