"""What a pipeline file means when it is run: graphs inside graphs as one set of tasks."""

from __future__ import annotations

from worldsize.running.graph.flatten import Graph, flatten
from worldsize.running.graph.trace import Assets

__all__ = ["Assets", "Graph", "flatten"]
