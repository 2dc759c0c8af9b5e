"""What a job is: the graph of a pipeline, its steps, and what every job was given."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from nicegui import ui

from worldsize.running.record.history import RunRecord, load_run
from worldsize.serving.jobs.records import JobRecord, children, get_job
from worldsize.serving.page.queries.graph import Node, read_graph
from worldsize.serving.page.queries.jobs import steps_of_run
from worldsize.serving.page.queries.logs import run_folder
from worldsize.serving.page.queries.tracking import read_run
from worldsize.serving.page.queries.wording import (
    duration_words,
    mapping_of,
    text_of,
    type_words,
    value_words,
)
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.files import code
from worldsize.serving.page.views.graph import Graph, shape
from worldsize.serving.page.views.tables import (
    Column,
    Row,
    link_cell,
    set_rows,
    show_table,
    state_cell,
    text_cell,
)
from worldsize.serving.workspace import Workspace

_STEPS = (
    Column("step", "Step"),
    Column("status", "State", "ws-keep"),
    Column("type", "Type", "ws-keep"),
    Column("duration", "Duration", "ws-keep ws-right"),
)
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
        _show_body(job)
        with ui.element("div").classes("ws-columns"):
            self._parameters = ui.element("div")
            self._tags = ui.element("div")
        ui.timer(frame.LIVE_SECONDS, self.refresh, immediate=False)

    async def show(self) -> None:
        """Show everything for the first time."""
        await self.refresh()
        await self._show_tracked()

    async def refresh(self) -> None:
        """Show the states of the steps as they are now."""
        job = get_job(self._workspace.database, self._job.name)
        if job is None:
            return
        if self._steps is not None:
            set_rows(self._steps, [_step_row(each) for each in children(self._workspace.database, job.name)])
        if job.type == "Pipeline":
            folder = run_folder(self._workspace.home, job)
            run = None if folder is None else await asyncio.to_thread(load_run, folder.root)
            self._show_graph(job, run)

    def _show_graph(self, job: JobRecord, run: RunRecord | None) -> None:
        nodes: list[Node] = read_graph(job, steps_of_run(self._workspace.database, job.root), run)
        if self._graph is None or self._graph.shape != shape(nodes):
            self._drawing.clear()
            with self._drawing:
                self._graph = Graph(nodes)
        else:
            self._graph.update(nodes)

    async def _show_tracked(self) -> None:
        tracked = await asyncio.to_thread(read_run, self._workspace.home, self._job.name)
        for area, title, values in (
            (self._parameters, "Parameters in MLflow", tracked.params),
            (self._tags, "Tags in MLflow", tracked.tags),
        ):
            area.set_visibility(bool(values))
            if values:
                with area, frame.panel(title):
                    frame.facts(values.items())


def _step_row(job: JobRecord) -> Row:
    reused = mapping_of(job.properties, "properties").get("azureml.isreused") == "true"
    return {
        "id": job.name,
        "step": link_cell(job.display_name, frame.address("jobs", job.name)),
        "status": {**state_cell(job.status), "sub": "reused" if reused else ""},
        "type": text_cell(type_words(job.type)),
        "duration": text_cell(duration_words(job)),
    }


def _show_body(job: JobRecord) -> None:
    properties = job.properties
    if command := text_of(properties, "command"):
        with frame.panel("Command"):
            code(command, "Command")
    with ui.element("div").classes("ws-columns"):
        for key, title in (("inputs", "Inputs"), ("outputs", "Outputs")):
            if values := {name: port_words(each) for name, each in mapping_of(properties, key).items()}:
                with frame.panel(title):
                    frame.facts(values.items())
        details = [(title, _short(text)) for key, title in _DETAILS if (text := text_of(properties, key))]
        details += [(key, value_words(value)) for key, value in _settings(properties).items()]
        if details:
            with frame.panel("Details"):
                frame.facts(details)
        if tags := mapping_of(properties, "tags"):
            with frame.panel("Tags"):
                frame.facts((name, value_words(value)) for name, value in tags.items())


def port_words(port: object) -> str:
    """The value of an input, or where data lies."""
    if not isinstance(port, Mapping):
        return value_words(port)
    value = port.get("value")
    value = port.get("uri") if value is None else value
    kind = port.get("jobInputType") or port.get("jobOutputType") or port.get("type") or ""
    return str(kind) if value is None else value_words(value)


def _settings(properties: Mapping[str, Any]) -> dict[str, Any]:
    """What a command job says about its processes, by the words of its body."""
    distribution = mapping_of(properties, "distribution")
    resources = mapping_of(properties, "resources")
    limits = mapping_of(properties, "limits")
    values = {
        "Distribution": distribution.get("distributionType"),
        "Processes an instance": distribution.get("processCountPerInstance"),
        "Instances": resources.get("instanceCount"),
        "Instance type": resources.get("instanceType"),
        "Time-out": limits.get("timeout"),
    }
    return {name: value for name, value in values.items() if value is not None}


def _short(reference: str) -> str:
    """``azureml:name:version`` in place of a long id."""
    parts = reference.strip("/").split("/")
    if len(parts) > 3 and parts[-2] in ("versions", "labels"):
        return f"{parts[-3]}:{parts[-1]}"
    return parts[-1] if len(parts) > 3 else reference
