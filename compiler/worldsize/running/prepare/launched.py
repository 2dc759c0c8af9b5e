"""Which counts of a launcher in a command follow the plan, and so can be changed for this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from worldsize.azureml import binding
from worldsize.azureml.command_launchers import IN_ALL, NODES, PER_INSTANCE
from worldsize.running.model.launched import find_launcher_call
from worldsize.running.model.task import Task

_COUNTS_NODES = re.compile(r"\$\{?(?:AZUREML_NODE_COUNT|WORLD_SIZE)\}?")  # of Azure ML, for one process each


class FixedCounts(NamedTuple):
    """What a command says itself, whatever the plan is."""

    ranks: bool = False
    nodes: bool = False


def find_fixed_counts(task: Task, templates: Mapping[str, str]) -> FixedCounts:
    """Whether the launcher of a command has its own number of processes, or of nodes."""
    call = find_launcher_call(task.command)
    if call is None:
        return FixedCounts()

    def follows(text: str) -> bool:
        expression = binding.parse_expression(text)
        return expression is not None and expression.scope == "inputs" and expression.port in templates

    ranks = call.find_value((*PER_INSTANCE, *IN_ALL))
    nodes = call.find_value(NODES)
    fixed_nodes = (
        nodes is not None and not follows(nodes[1].bare) and not _COUNTS_NODES.fullmatch(nodes[1].bare)
    )
    return FixedCounts(ranks is None or not follows(ranks[1].bare), fixed_nodes and task.instance_count > 1)
