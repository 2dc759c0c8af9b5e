"""What rules may know besides the node they look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worldsize.azureml.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from worldsize.azureml.environment import Installed
    from worldsize.azureml.model import Component
    from worldsize.documents.yaml.nodes import Node


class Context(Tree):
    """The tree that is checked."""

    def list_frameworks(self, component: Component) -> list[Installed]:
        """The versions of torch and TensorFlow that the environment of a component installs."""
        from worldsize.azureml import environment

        def document(path: Path) -> Node | None:
            return self.document(path).root if self.readable(path) and path.is_file() else None

        def text(path: Path) -> str | None:
            source = self.text(path)
            return source.text if source is not None else None

        if component.environment is None or component.folder is None:
            return []
        return environment.read_installed(component.environment, component.folder, document, text)
