"""What a job is: the graph of a pipeline, its steps, and what every job was given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from nicegui import ui

from worldsize.running.record.history import load_run
from worldsize.serving.control.paths import parse_asset
from worldsize.serving.database import use_each
from worldsize.serving.jobs.records import JobRecord, children, get_job
from worldsize.serving.page.queries.assets import KINDS
from worldsize.serving.page.queries.jobs import steps_of_run
from worldsize.serving.page.queries.logs import run_folder
from worldsize.serving.page.queries.steps import Node, find_component, read_graph, step_body
from worldsize.serving.page.queries.tracking import read_run, tracked_ids
from worldsize.serving.page.queries.wording import (
    cut,
    duration_words,
    mapping_of,
    status_tone,
    status_words,
    text_of,
    type_words,
    value_words,
)
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.files import code
from worldsize.serving.page.views.tables import (
    LIVE_SECONDS,
    MOST_ROWS,
    Column,
    Row,
    link_cell,
    set_rows,
    show_table,
    state_cell,
    text_cell,
)
from worldsize.serving.workspace import Workspace
from worldsize.showing.graph_layout import HEIGHT, WIDTH, place_steps

_STEPS = (
    Column("step", "Step"),
    Column("status", "State", "ws-keep"),
    Column("type", "Type", "ws-keep"),
    Column("duration", "Duration", "ws-keep ws-right"),
)
MOST_NODES = 200
ANONYMOUS = "azureml_anonymous"  # the name of all components that come with jobs
_DETAILS = (
    ("componentId", "Component"),
    ("environmentId", "Environment"),
    ("computeId", "Compute"),
    ("codeId", "Code"),
)


class Overview:
    """The first view of a job."""

    def __init__(self, workspace: Workspace, job: JobRecord) -> None:
        self._workspace, self._job = workspace, job
        self._graph: Graph | None = None
        self._steps: ui.table | None = None
        if job.type == "Pipeline":
            with frame.panel("Graph"):
                self._drawing = ui.element("div")
        if job.type in ("Pipeline", "Sweep"):
            frame.heading("Steps" if job.type == "Pipeline" else "Trials")
            waiting = "There are no steps yet." if job.type == "Pipeline" else "No trial has started yet."
            self._steps = show_table("Steps", _STEPS, [], empty=waiting)
        self._body = ui.element("div").classes("ws-column")
        self._tracked = ui.element("div").classes("ws-column")
        ui.timer(LIVE_SECONDS, self.refresh, immediate=False)

    async def show(self) -> None:
        """Show everything for the first time."""
        await self.refresh()
        node = await asyncio.to_thread(step_body, self._workspace.database, self._job)
        with self._body:
            _show_body(self._job, node, partial(_reference, self._workspace))
        await self._show_tracked()

    async def refresh(self) -> None:
        """Show the states of the steps as they are now."""
        job, below, nodes = await asyncio.to_thread(self._look)
        if job is None:
            return
        if self._steps is not None:
            set_rows(self._steps, [*use_each("job", below, _step_row)])
        if job.type == "Pipeline":
            self._show_graph(nodes)

    def _look(self) -> tuple[JobRecord | None, list[JobRecord], list[Node]]:
        """The job, its steps, and the graph of a pipeline."""
        database = self._workspace.database
        job = get_job(database, self._job.name)
        if job is None or job.type not in ("Pipeline", "Sweep"):
            return job, [], []
        below, nodes = children(database, job.name, MOST_ROWS + 1), list[Node]()
        if job.type == "Pipeline":
            folder = run_folder(self._workspace.home, job)
            run = None if folder is None else load_run(folder.root)
            nodes = read_graph(job, steps_of_run(database, job.root), run)
        return job, below, nodes

    def _show_graph(self, nodes: Sequence[Node]) -> None:
        if len(nodes) > MOST_NODES:
            said = f"The graph of {len(nodes):,} steps is not drawn; of more than {MOST_NODES} none is."
            if not self._drawing.default_slot.children:
                with self._drawing:
                    frame.empty(said)
        elif self._graph is None or self._graph.shape != shape(nodes):
            self._drawing.clear()
            with self._drawing:
                self._graph = Graph(nodes)
        else:
            self._graph.update(nodes)

    async def _show_tracked(self) -> None:
        home = self._workspace.home
        ids = await asyncio.to_thread(tracked_ids, self._workspace, [self._job])
        tracked = await asyncio.to_thread(read_run, home.root, ids[self._job.name])
        self._tracked.set_visibility(bool(tracked.params or tracked.tags))
        with self._tracked:
            frame.fact_panel("Parameters in MLflow", tracked.params)
            frame.fact_panel("Tags in MLflow", tracked.tags)


def _step_row(job: JobRecord) -> Row:
    reused = mapping_of(job.properties, "properties").get("azureml.isreused") == "true"
    return {
        "id": job.name,
        "step": link_cell(
            job.display_name,
            frame.address("jobs", job.name),
            "" if job.step == job.display_name else job.step or "",
        ),
        "status": {**state_cell(job.status), "sub": "reused" if reused else ""},
        "type": text_cell(type_words(job.type)),
        "duration": text_cell(duration_words(job)),
    }


def _show_body(job: JobRecord, node: Mapping[str, Any], refer: Callable[[str], object]) -> None:
    """What a job was given; ``node`` has what a step's own body does not repeat."""
    properties = {**node, **job.properties}
    with ui.element("div").classes("ws-columns"):
        for key, title in (("inputs", "Inputs"), ("outputs", "Outputs")):
            ports = mapping_of(properties, key)
            frame.fact_panel(title, {name: _port_words(port) for name, port in ports.items()})
        details = {title: refer(text) for key, title in _DETAILS if (text := text_of(properties, key))}
        settings = {name: value_words(value) for name, value in _settings(properties).items()}
        frame.fact_panel("Details", {**details, **settings})
        tags = mapping_of(properties, "tags")
        frame.fact_panel("Tags", {name: value_words(value) for name, value in tags.items()})
    if command := text_of(properties, "command"):
        with frame.panel("Command"):
            code(command, "Command")


def _port_words(port: object) -> str:
    """The value of an input, or where data lies."""
    if not isinstance(port, Mapping):
        return value_words(port)
    value = port.get("value")
    value = port.get("uri") if value is None else value
    kind = port.get("jobInputType") or port.get("jobOutputType") or port.get("type") or ""
    return cut(kind) if value is None else value_words(value)


def _settings(properties: Mapping[str, Any]) -> dict[str, Any]:
    """What a command job or a step says about its processes; a step writes its words in snake case."""
    distribution = mapping_of(properties, "distribution")
    resources = mapping_of(properties, "resources")
    limits = mapping_of(properties, "limits")
    values = {
        "Distribution": _either(distribution, "distributionType", "distribution_type", "type"),
        "Processes an instance": _either(
            distribution, "processCountPerInstance", "process_count_per_instance"
        ),
        "Instances": _either(resources, "instanceCount", "instance_count"),
        "Instance type": _either(resources, "instanceType", "instance_type"),
        "Time-out": limits.get("timeout"),
    }
    return {name: value for name, value in values.items() if value is not None}


def _either(document: Mapping[str, Any], *names: str) -> Any:
    return next((document[name] for name in names if document.get(name) is not None), None)


def _reference(workspace: Workspace, reference: str) -> object:
    """``name:version`` in place of a long id, as a link if there is a page of it."""
    name = parse_asset(reference.removeprefix("azureml:") if "/" in reference else reference)
    if name is None:
        return reference.strip("/").rpartition("/")[2]
    version = name.version or ""
    shown = f"{name.name}:{version}" if version else name.name
    if name.name == ANONYMOUS:
        component = find_component(workspace.database, reference)
        spec = {} if component is None else mapping_of(component.properties, "componentSpec")
        shown = text_of(spec, "display_name") or "sent with the job"
    if name.kind not in KINDS:
        return shown
    return lambda: frame.link(shown, frame.address(name.kind, name.name, version=version))


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
