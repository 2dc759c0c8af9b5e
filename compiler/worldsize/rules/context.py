"""What rules may know besides the node they look at: the tree, and what was planned of its specs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from worldsize.azureml.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from worldsize.azureml.frameworks import Installed
    from worldsize.azureml.model import Component, Job
    from worldsize.documents.yaml.nodes import Node
    from worldsize.resolving.state import ResolvedSpec


class Context(Tree):
    """The tree that is checked."""

    resolved: dict[Job, ResolvedSpec] = field(default_factory=dict)  # the specs that have a plan

    def list_frameworks(self, component: Component) -> list[Installed]:
        """The versions of torch and TensorFlow that the environment of a component installs."""
        from worldsize.azureml import frameworks

        def document(path: Path) -> Node | None:
            return self.document(path).root if self.readable(path) and path.is_file() else None

        def text(path: Path) -> str | None:
            source = self.text(path)
            return source.text if source is not None else None

        if component.environment is None or component.folder is None:
            return []
        return frameworks.read_installed(component.environment, component.folder, document, text)
