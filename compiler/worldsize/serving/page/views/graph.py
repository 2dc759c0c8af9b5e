"""The graph of a pipeline: each step is a link with its state, at a place that the layout computed."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from worldsize.serving.page.queries.graph import Node
from worldsize.serving.page.queries.wording import cut, status_tone, status_words
from worldsize.serving.page.views import frame
from worldsize.showing.graph_layout import HEIGHT, WIDTH, place_steps

MOST_LINES = 1000


class Graph:
    """A drawn graph, whose states can be changed; other steps need another one."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.shape = shape(nodes)
        self._states: dict[str, tuple[ui.element, ui.label]] = {}
        layout = place_steps({node.name: node.needs for node in nodes})
        size = f"width: {layout.width}px; height: {layout.height}px"
        region = (
            ui.element("div")
            .classes("ws-graph")
            .props('role=group tabindex=0 aria-label="Graph of the steps"')
        )
        with region, ui.element("div").classes("ws-canvas").style(size):
            with ui.element("svg").props(f'width={layout.width} height={layout.height} aria-hidden="true"'):
                for path in layout.paths[:MOST_LINES]:
                    ui.element("path").props["d"] = path
                for path in layout.tips:
                    ui.element("path").classes("ws-tip").props["d"] = path
            for node in nodes:
                self._draw(node, *layout.positions[node.name])
        self.update(nodes)

    def update(self, nodes: Sequence[Node]) -> None:
        """Show the states of the steps."""
        for node in nodes:
            box, label = self._states[node.name]
            words = "Reused" if node.reused and node.status == "Completed" else status_words(node.status)
            box.classes(replace=f"ws-node ws-{status_tone(node.status)}")
            frame.set_state(label, node.status)
            label.set_text(words)
            box.props["aria-label"] = f"Step {node.label}: {words}"

    def _draw(self, node: Node, left: int, top: int) -> None:
        name = None if node.job is None else node.job.name
        box = ui.element("div") if name is None else ui.link(target=frame.address("jobs", name))
        box.style(f"left: {left}px; top: {top}px; width: {WIDTH}px; height: {HEIGHT}px")
        box.props["title"] = node.label
        with box:
            ui.label(cut(node.label)).classes("ws-name")
            self._states[node.name] = (box, ui.label())


def shape(nodes: Sequence[Node]) -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """What must be equal for a drawn graph to be kept: steps, edges, and which have jobs."""
    return tuple((node.name, node.needs, node.job is not None) for node in nodes)
