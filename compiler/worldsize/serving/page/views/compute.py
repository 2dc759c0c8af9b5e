"""The clusters that jobs name, and what this machine runs in their place."""

from __future__ import annotations

from functools import partial

from worldsize.serving.control.computes import list_computes
from worldsize.serving.control.resources import Resource
from worldsize.serving.page.queries.wording import mapping_of, text_of, value_words
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.tables import Column, Listing, Row, text_cell
from worldsize.serving.workspace import Workspace

_COLUMNS = (
    Column("name", "Name"),
    Column("type", "Type", "ws-keep"),
    Column("size", "VM size"),
    Column("nodes", "Instances", "ws-right"),
    Column("priority", "Priority"),
)


async def draw_compute(workspace: Workspace) -> None:
    """The page of clusters."""
    with frame.frame(workspace, "Compute", "Compute"):
        frame.heading("Compute", 1)
        frame.tagged(
            "p",
            "Jobs are planned for these clusters and run on this machine. Pipelines that Worldsize compiled"
            " run as many processes as fit, with more accumulation, so that the global batch stays the same;"
            " other jobs run those that they ask for.",
            "ws-soft",
        )
        nothing = "No clusters. Describe them in worldsize.yml, or create one with `az ml compute create`."
        await Listing("Clusters", _COLUMNS, partial(list_computes, workspace), _row, nothing).refresh()


def _row(compute: Resource) -> Row:
    outer = mapping_of(compute.body, "properties")
    inner = mapping_of(outer, "properties")
    scale = mapping_of(inner, "scaleSettings")
    low, high = scale.get("minNodeCount"), scale.get("maxNodeCount")
    return {
        "id": compute.name,
        "name": text_cell(compute.name, text_of(outer, "description")),
        "type": text_cell(text_of(outer, "computeType")),
        "size": text_cell(text_of(inner, "vmSize")),
        "nodes": text_cell("" if high is None else f"{value_words(low or 0)} to {value_words(high)}"),
        "priority": text_cell(text_of(inner, "vmPriority")),
    }
