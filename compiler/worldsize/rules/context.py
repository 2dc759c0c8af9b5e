"""What rules may know besides the node they look at: the tree, and what was planned of its specs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from worldsize.azureml.tree import Tree

if TYPE_CHECKING:
    from worldsize.azureml.model import Job
    from worldsize.resolving.state import ResolvedSpec


class Context(Tree):
    """The tree that is checked."""

    resolved: dict[Job, ResolvedSpec] = field(default_factory=dict)  # the specs that have a plan
