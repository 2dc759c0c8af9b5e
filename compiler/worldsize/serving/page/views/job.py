"""One job: its state, what can be done with it, and views of what it is, wrote, measured and left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from nicegui import ui

from worldsize.base.wording import format_size, plural
from worldsize.running.record.history import load_run
from worldsize.serving.control.call import user_name
from worldsize.serving.control.paths import parse_asset
from worldsize.serving.database import mapping_of, text_of, use_each
from worldsize.serving.errors import ServiceError
from worldsize.serving.jobs.queue import cancel
from worldsize.serving.jobs.records import JobRecord, children, get_job
from worldsize.serving.page.queries.assets import KINDS
from worldsize.serving.page.queries.files import (
    Log,
    LogTail,
    choose_log,
    file_url,
    find_output,
    list_entries,
    list_logs,
    list_roots,
    run_folder,
    step_names,
)
from worldsize.serving.page.queries.jobs import get_ancestors, read_run, steps_of_run, tracked_ids
from worldsize.serving.page.queries.steps import (
    Node,
    StepPlan,
    read_component_spec,
    read_graph,
    read_plans,
    step_body,
)
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.files import FileBrowser, FileSource, code
from worldsize.serving.page.views.metrics import MetricsView
from worldsize.serving.workspace import Workspace
from worldsize.showing.graph_layout import HEIGHT, WIDTH, place_steps
from wsmetrics.names import choose_headline

View = Callable[[Workspace, JobRecord], Awaitable[None]]


async def draw_job(workspace: Workspace, name: str, view: str = "") -> None:
    """The page of a job or child."""
    job = await asyncio.to_thread(get_job, workspace.database, name)
    if job is None:
        frame.not_found(workspace, f"Job {name}", "Jobs")
        return
    above = await asyncio.to_thread(get_ancestors, workspace.database, job)
    crumbs = [
        ("Jobs", "/"),
        *((ancestor.display_name, frame.address("jobs", ancestor.name)) for ancestor in above),
    ]
    with frame.frame(workspace, job.display_name, "Jobs", crumbs, is_heading=False):
        await Header(workspace, job).refresh()
        await _show_tabs(workspace, job, view if view in VIEWS else "overview")


class Header:
    """The name of a job, its state and times as they change, and its actions."""

    def __init__(self, workspace: Workspace, job: JobRecord) -> None:
        self._workspace, self._job = workspace, job
        with ui.element("div").classes("ws-row"):
            with ui.element("div").classes("ws-grow"):
                frame.heading(job.display_name, 1)
            if job.parent is None:
                self._cancel = frame.button("Cancel", self._ask, "ws-danger")
                frame.button("Resubmit", lambda: ui.navigate.to(frame.address("jobs", job.name, "resubmit")))
        with ui.element("div").classes("ws-panel"):
            frame.facts(self._facts(), "ws-flow")
        self._error = frame.Failure()
        ui.timer(frame.LIVE_SECONDS, self.refresh, immediate=False)

    async def refresh(self) -> None:
        """Show the state as it is now."""
        job = await asyncio.to_thread(get_job, self._workspace.database, self._job.name)
        if job is None:
            return
        frame.set_state(self._state, job.status)
        self._duration.set_text(frame.duration_words(job))
        self._started.set_text(frame.time_words(job.started))
        self._error.show(job.error_message or "")
        if job.parent is None:
            self._cancel.set_visibility(not job.has_ended and job.status != "CancelRequested")

    def _facts(self) -> list[tuple[str, object]]:
        job = self._job
        schedule = job.schedule
        by: object = user_name()
        if schedule is not None:
            target = frame.address("schedules", schedule)
            by = lambda: frame.link(f"schedule {schedule}", target)  # noqa: E731 - one of two kinds of value
        return [
            ("State", self._draw_state),
            ("Duration", self._draw_duration),
            ("Created", frame.time_words(job.created)),
            ("Started", self._draw_started),
            ("Created by", by),
            ("Experiment", job.experiment),
            ("Type", frame.type_words(job.type)),
            ("Name", job.name),
        ]

    def _draw_state(self) -> None:
        self._state = frame.state(self._job.status).props("role=status")

    def _draw_duration(self) -> None:
        self._duration = ui.label()

    def _draw_started(self) -> None:
        self._started = ui.label(frame.NONE)

    def _ask(self) -> None:
        with ui.dialog(value=True) as dialog, ui.element("div").classes("ws-panel"):
            dialog.props["aria-label"] = "Cancel this job?"
            frame.heading("Cancel this job?")
            ui.label(f"{self._job.display_name} is stopped. What it has written is kept.").classes("ws-text")
            with ui.element("div").classes("ws-row"):
                frame.button("Keep it running", dialog.close).props("autofocus")

                async def confirm() -> None:
                    dialog.close()
                    try:
                        await cancel(self._workspace, self._job.name)
                    except ServiceError as error:
                        ui.notify(str(error), type="negative")
                    await self.refresh()

                frame.button("Cancel the job", confirm, "ws-danger")


async def _show_tabs(workspace: Workspace, job: JobRecord, chosen: str) -> None:
    tabs = (
        ui.tabs()
        .classes("ws-tabs")
        .props('align=left no-caps inline-label outside-arrows mobile-arrows aria-label="Views of the job"')
    )
    with tabs:
        for name, (title, _) in VIEWS.items():
            ui.tab(name, label=title)
    area = ui.element("div").classes("ws-column").props("role=tabpanel")

    async def show(name: str) -> None:
        area.clear()
        area.props["aria-label"] = VIEWS[name][0]
        current = await asyncio.to_thread(get_job, workspace.database, job.name) or job
        with area:
            await VIEWS[name][1](workspace, current)

    async def change(name: str) -> None:
        ui.navigate.history.replace(frame.address("jobs", job.name, view=name))
        await show(name)

    tabs.set_value(chosen)
    tabs.on_value_change(lambda event: change(event.value))
    await show(chosen)


async def _outputs(workspace: Workspace, job: JobRecord) -> None:
    home = workspace.home
    roots = await asyncio.to_thread(list_roots, home, job)
    if not roots:
        frame.empty("This job has not written any file yet.")
    source = FileSource(
        "jobs",
        job.name,
        lambda path: list_entries(home, job, path),
        lambda path: find_output(home, job, path),
    )
    for root in roots:
        FileBrowser(source, root.key, root.title)


async def _definition(_workspace: Workspace, job: JobRecord) -> None:
    ui.label("The body of the request that submitted this job.").classes("ws-soft")
    code(await asyncio.to_thread(frame.document_words, job.properties), "Definition of the job")


FOLLOW_SECONDS = 1.0
MAX_BLOCKS = 200  # of lines that came together; older ones are removed from the page


class LogView:
    """One log at a time. It stays at its end while it grows, unless the reader has scrolled up."""

    def __init__(self, workspace: Workspace, job: JobRecord) -> None:
        self._workspace, self._job = workspace, job
        self._logs: dict[str, Log] = {}
        self._tail: LogTail | None = None
        self._key = ""
        self._busy = False
        with ui.element("div").classes("ws-row"):
            self._choice = ui.select([], label="Process", on_change=lambda event: self._open(event.value))
            self._choice.props("outlined dense options-dense").classes("ws-grow")
            self._note = ui.label().classes("ws-soft ws-grow")
            self._download = frame.link("Download", "#")
        self._box = ui.element("div").classes("ws-log").props("tabindex=0 role=log aria-live=off")
        with self._box:
            self._lines = ui.element("div")
        self._empty = frame.empty("No process has written a log yet.")
        ui.timer(FOLLOW_SECONDS, self.refresh, immediate=False)

    async def refresh(self) -> None:
        """Look for new logs, and for new lines of the one that is shown."""
        if self._busy:
            return
        self._busy = True
        try:
            await self._look()
        finally:
            self._busy = False

    async def _look(self) -> None:
        logs = await asyncio.to_thread(list_logs, self._workspace.home, self._job)
        if {log.key for log in logs} != self._logs.keys():
            self._logs = {log.key: log for log in logs}
            single = len({log.step for log in logs}) == 1
            self._choice.set_options(
                {log.key: log.process if single else f"{log.step} · {log.process}" for log in logs}
            )
            if not self._key and logs:
                run = await asyncio.to_thread(load_run, self._workspace.home.runs / self._job.root)
                self._choice.set_value(choose_log(logs, run).key)
        for element in (self._choice, self._box, self._download):
            element.set_visibility(bool(logs))
        self._empty.set_visibility(not logs)
        if self._tail is not None:
            job = get_job(self._workspace.database, self._job.name)
            final = job is None or job.has_ended
            self._append(await asyncio.to_thread(self._tail.read_lines, final=final))

    def _open(self, key: str | None) -> None:
        log = self._logs.get(key or "")
        if log is None or key == self._key:
            return
        self._key, self._tail = log.key, LogTail(log.path)
        self._lines.clear()
        self._box.props["aria-label"] = f"Log of {log.key}"
        self._download.props["href"] = file_url("jobs", self._job.name, f"log-{log.step}/{log.path.name}")
        self._append(self._tail.read_lines())

    def _append(self, lines: list[str]) -> None:
        assert self._tail is not None
        skipped = self._tail.skipped
        self._note.set_text(f"The first {format_size(skipped)} are left out." if skipped else "")
        if not lines:
            return
        with self._lines:
            ui.label("\n".join(lines)).classes("ws-lines")
        for old in self._lines.default_slot.children[:-MAX_BLOCKS]:
            old.delete()


_DERIVED = (
    frame.Column("quantity", "Quantity"),
    frame.Column("value", "Value", "ws-right ws-keep"),
    frame.Column("formula", "Formula"),
    frame.Column("source", "Source"),
)
_PROCESSES = (frame.Column("name", "Process"), frame.Column("rank", "Rank"), frame.Column("node", "Node"))


async def _draw_plan(workspace: Workspace, job: JobRecord) -> None:
    folder = run_folder(workspace.home, job)
    plans: list[StepPlan] = []
    if folder is not None:
        plans = await asyncio.to_thread(read_plans, folder, step_names(workspace.home, job))
    plans = [plan for plan in plans if plan.processes or plan.rows]
    if not plans:
        frame.empty("No step has started, so there is no plan to show.")
    for plan in plans:
        with frame.panel(plan.step):
            _show_plan(plan)


def _show_plan(plan: StepPlan) -> None:
    if plan.topology:
        frame.facts(plan.topology.items(), "ws-flow")
    if plan.inputs and not plan.rows:
        frame.heading("Planned inputs", 3)
        frame.facts(plan.inputs.items(), "ws-flow")
    if plan.rows:
        rows = [
            frame.text_row(
                str(number), quantity=row.label, value=row.value, formula=row.formula, source=row.source
            )
            for number, row in enumerate(plan.rows)
        ]
        frame.show_table(f"Derivations of {plan.step}", _DERIVED, rows, empty="")
    if not plan.processes:
        return
    ran = f"{plural(len(plan.processes), 'process')} ran on this machine"
    frame.heading(ran + (f", attempt {plan.attempts}" if plan.attempts > 1 else ""), 3)
    rows = [
        frame.text_row(process.name, name=process.name, rank=process.rank, node=process.node)
        for process in plan.processes
    ]
    if len(rows) > 1:
        frame.show_table(f"Processes of {plan.step}", _PROCESSES, rows, empty="")
    with ui.expansion("Command of the first process").classes("ws-more"):
        code(plan.processes[0].command, f"Command of {plan.processes[0].name}")


VIEWS: dict[str, tuple[str, View]] = {
    "overview": ("Overview", lambda workspace, job: Overview(workspace, job).show()),
    "logs": ("Logs", lambda workspace, job: LogView(workspace, job).refresh()),
    "metrics": ("Metrics", lambda workspace, job: MetricsView(workspace, job).refresh()),
    "outputs": ("Outputs", _outputs),
    "plan": ("Plan", _draw_plan),
    "definition": ("Definition", _definition),
}


_STEPS = (
    frame.Column("step", "Step"),
    frame.Column("status", "State", "ws-keep"),
    frame.Column("type", "Type", "ws-keep"),
    frame.Column("duration", "Duration", "ws-keep ws-right"),
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
            self._steps = frame.show_table("Steps", _STEPS, [], empty=waiting)
        self._measured = ui.element("div").classes("ws-column")
        self._body = ui.element("div").classes("ws-column")
        self._tracked = ui.element("div").classes("ws-column")
        ui.timer(frame.LIVE_SECONDS, self.refresh, immediate=False)

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
            frame.set_rows(self._steps, [*use_each("job", below, _step_row)])
        if job.type == "Pipeline":
            self._show_graph(nodes)

    def _look(self) -> tuple[JobRecord | None, list[JobRecord], list[Node]]:
        """The job, its steps, and the graph of a pipeline."""
        database = self._workspace.database
        job = get_job(database, self._job.name)
        if job is None or job.type not in ("Pipeline", "Sweep"):
            return job, [], []
        below, nodes = children(database, job.name, frame.MOST_ROWS + 1), list[Node]()
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
        with self._measured:
            names = choose_headline(tracked.metrics)
            self._measured.set_visibility(bool(names))
            frame.fact_panel("Metrics", {name: frame.number_words(tracked.metrics[name]) for name in names})
        with self._tracked:
            for title, logged in (("Parameters", tracked.params), ("Tags", tracked.tags)):
                if logged:  # most are defaults
                    with ui.expansion(f"{title} in MLflow: {len(logged)}").classes("ws-more"):
                        frame.facts(logged.items(), "ws-many" if len(logged) > frame.MANY else "ws-facts")


def _step_row(job: JobRecord) -> frame.Row:
    reused = mapping_of(job.properties, "properties").get("azureml.isreused") == "true"
    return {
        "id": job.name,
        "step": frame.link_cell(
            job.display_name,
            frame.address("jobs", job.name),
            "" if job.step == job.display_name else job.step or "",
        ),
        "status": {**frame.state_cell(job.status), "sub": "reused" if reused else ""},
        "type": frame.text_cell(frame.type_words(job.type)),
        "duration": frame.text_cell(frame.duration_words(job)),
    }


def _show_body(job: JobRecord, node: Mapping[str, Any], refer: Callable[[str], object]) -> None:
    """What a job was given; ``node`` has what a step's own body does not repeat."""
    properties = {**node, **job.properties}
    with ui.element("div").classes("ws-columns"):
        for key, title in (("inputs", "Inputs"), ("outputs", "Outputs")):
            ports = mapping_of(properties, key)
            frame.fact_panel(title, {name: _show_port(port, refer) for name, port in ports.items()})
        details = {title: refer(text) for key, title in _DETAILS if (text := text_of(properties, key))}
        settings = {name: frame.value_words(value) for name, value in _settings(properties).items()}
        frame.fact_panel("Details", {**details, **settings})
        tags = mapping_of(properties, "tags")
        frame.fact_panel("Tags", {name: frame.value_words(value) for name, value in tags.items()})
    if command := text_of(properties, "command"):
        with frame.panel("Command"):
            code(command, "Command")


def _show_port(port: object, refer: Callable[[str], object]) -> object:
    """The value of an input, or where data lies; an asset by its name and version."""
    if not isinstance(port, Mapping):
        return frame.value_words(port)
    value, uri = port.get("value"), text_of(port, "uri")
    if value is None and uri:
        return refer(uri) if parse_asset(uri) is not None else uri
    kind = port.get("jobInputType") or port.get("jobOutputType") or port.get("type") or ""
    return frame.cut(kind) if value is None else frame.value_words(value)


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
        spec = read_component_spec(workspace.database, reference)
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
            words = (
                "Reused" if node.reused and node.status == "Completed" else frame.status_words(node.status)
            )
            box.classes(replace=f"ws-node ws-{frame.status_tone(node.status)}")
            frame.set_state(label, node.status)
            label.set_text(words)
            box.props["aria-label"] = f"Step {node.label}: {words}"

    def _draw(self, node: Node, left: int, top: int) -> None:
        name = None if node.job is None else node.job.name
        box = ui.element("div") if name is None else ui.link(target=frame.address("jobs", name))
        box.style(f"left: {left}px; top: {top}px; width: {WIDTH}px; height: {HEIGHT}px")
        box.props["title"] = node.label
        with box:
            ui.label(frame.cut(node.label)).classes("ws-name")
            self._states[node.name] = (box, ui.label())


def shape(nodes: Sequence[Node]) -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """What must be equal for a drawn graph to be kept: steps, edges, and which have jobs."""
    return tuple((node.name, node.needs, node.job is not None) for node in nodes)
