"""The files of one reading: each is parsed once, however many steps refer to it."""

from __future__ import annotations

import os
from pathlib import Path

from worldsize import yaml
from worldsize.azureml.model import Component
from worldsize.diagnostics.problem import Problem
from worldsize.records import dataclass, field


@dataclass(slots=True, eq=False)
class Files:
    """Documents and components by resolved path, and every problem met on the way, once."""

    problems: list[Problem] = field(default_factory=list)
    components: dict[Path, Component | None] = field(default_factory=dict)
    documents: dict[Path, yaml.Document] = field(default_factory=dict)
    known: dict[tuple[str, ...], object] = field(default_factory=dict)  # answers about files, by question
    reading: list[Path] = field(default_factory=list)  # component files whose inner graph is being read

    def document(self, path: Path) -> yaml.Document:
        """The parsed file; its own problems are added to :attr:`problems` when first read."""
        key = Path(os.path.realpath(path))  # unlike resolve(), never raises on links in a circle
        known = self.documents.get(key)
        if known is None:
            known = self.documents[key] = yaml.load(path)
            self.problems += known.problems
        return known
