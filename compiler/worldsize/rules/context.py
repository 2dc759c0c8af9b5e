"""What rules may know besides the node they look at: the tree that is checked."""

from __future__ import annotations

from worldsize.azureml.tree import Tree as Context

__all__ = ["Context"]
