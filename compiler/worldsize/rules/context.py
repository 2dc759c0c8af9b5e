"""What rules may know besides the node they look at: the tree, and what was planned of its specs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from worldsize.azureml.tree import Tree

if TYPE_CHECKING:
    from worldsize.planning.model import Plan
    from worldsize.resolving.state import ResolvedSpec


class Context(Tree):
    """The tree that is checked."""

    plans: dict[int, Plan] = field(default_factory=dict)  # of specs, by job
    resolved: dict[int, ResolvedSpec] = field(default_factory=dict)  # specs, by job
