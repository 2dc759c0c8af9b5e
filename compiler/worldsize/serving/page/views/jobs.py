"""Jobs: a filtered list by pages as it changes, several compared, and one submitted again."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import asdict, replace
from nicegui import ui

from worldsize.base.wording import plural
from worldsize.serving.database import collect_unreadable, use_each
from worldsize.serving.errors import ServiceError
from worldsize.serving.jobs.records import JobRecord, get_job
from worldsize.serving.jobs.submit import submit
from worldsize.serving.page.queries.forms import Field, change_inputs, job_fields
from worldsize.serving.page.queries.jobs import (
    JobFilter,
    find_jobs,
    jobs_below,
    list_choices,
    read_filter,
    read_runs,
    tracked_ids,
)
from worldsize.serving.page.queries.steps import change_steps, step_fields
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.metrics import Charts, order_metrics
from worldsize.serving.workspace import Workspace

COLUMNS = (
    frame.Column("job", "Job"),
    frame.Column("status", "State", "ws-keep"),
    frame.Column("experiment", "Experiment"),
    frame.Column("type", "Type", "ws-keep"),
    frame.Column("created", "Created", "ws-keep"),
    frame.Column("duration", "Duration", "ws-keep ws-right"),
)
SEARCH_SECONDS = 0.3  # after the last key


def _job_row(job: JobRecord) -> frame.Row:
    created_by = f"schedule {job.schedule}" if job.schedule else ""
    return {
        "id": job.name,
        "job": frame.link_cell(
            job.display_name,
            frame.address("jobs", job.name),
            job.name if job.name != job.display_name else "",
        ),
        "status": frame.state_cell(job.status),
        "experiment": frame.text_cell(job.experiment),
        "type": frame.text_cell(frame.type_words(job.type), created_by),
        "created": frame.text_cell(frame.time_words(job.created)),
        "duration": frame.text_cell(frame.duration_words(job)),
    }


class JobList:
    """The list and its filter; the address of the browser follows them, so that a view can be shared."""

    def __init__(self, workspace: Workspace, wanted: JobFilter, choices: Mapping[str, Sequence[str]]) -> None:
        self._database = workspace.database
        self._wanted = wanted
        with ui.element("search").classes("ws-row").props('aria-label="Filter jobs"'):
            search = ui.input(
                "Search", value=wanted.text, on_change=lambda event: self._narrow(text=event.value)
            )
            search.classes("ws-grow").props(f"outlined dense clearable debounce={SEARCH_SECONDS * 1000:.0f}")
            search.props["maxlength"] = 200
            for label, name, say in (
                ("State", "status", frame.status_words),
                ("Experiment", "experiment", str),
                ("Type", "type", frame.type_words),
            ):
                self._choice(label, name, {value: frame.cut(say(value)) for value in choices[name]})
        with ui.element("div").classes("ws-row"):
            self._count = ui.label().classes("ws-soft ws-grow").props("role=status")
            self._compare = frame.button("", self._open_comparison)
        self._table = frame.show_table("Jobs", COLUMNS, [], empty=self._nothing(), choose=True)
        self._table.on_select(lambda _event: self._show_choice())
        with ui.element("nav").classes("ws-pages").props('aria-label="Pages of jobs"') as self._pages:
            self._previous = frame.button("Previous", lambda: self._turn(-1))
            self._page = ui.label().classes("ws-soft")
            self._next = frame.button("Next", lambda: self._turn(1))
        self._note = ui.label().classes("ws-soft ws-text").props("role=status")
        self._show_choice()
        ui.timer(frame.LIVE_SECONDS, self.refresh, immediate=False)

    async def refresh(self) -> None:
        """Read the list again."""
        wanted = self._wanted
        with collect_unreadable() as faults:
            page = await asyncio.to_thread(find_jobs, self._database, wanted)
            frame.set_rows(self._table, [*use_each("job", page.jobs, _job_row)])
        if wanted == self._wanted:
            self._wanted = replace(wanted, page=page.page)
        self._note.set_text(frame.say_unreadable(faults))
        self._count.set_text(plural(page.total, "job"))
        self._pages.set_visibility(page.pages > 1)
        self._page.set_text(f"Page {page.page} of {page.pages}")
        self._previous.set_enabled(page.page > 1)
        self._next.set_enabled(page.page < page.pages)

    def _choice(self, label: str, name: str, choices: dict[str, str]) -> None:
        value: str = getattr(self._wanted, name)
        if value and value not in choices:
            choices = {value: value, **choices}
        select = ui.select(
            {"": f"Any {label.lower()}", **choices},
            label=label,
            value=value,
            on_change=lambda event: self._narrow(**{name: event.value}),
        )
        select.props("outlined dense options-dense")

    async def _narrow(self, **changes: str | None) -> None:
        self._wanted = replace(self._wanted, page=1, **{key: value or "" for key, value in changes.items()})
        self._table.props["no-data-label"] = self._nothing()
        await self._follow()

    async def _turn(self, pages: int) -> None:
        self._wanted = replace(self._wanted, page=self._wanted.page + pages)
        await self._follow()

    async def _follow(self) -> None:
        await self.refresh()
        query = {key: str(value) for key, value in asdict(self._wanted).items() if value not in ("", 1)}
        ui.navigate.history.replace(frame.address("", **query))

    def _nothing(self) -> str:
        if self._wanted == JobFilter(page=self._wanted.page):
            return "No jobs yet. Submit one with `az ml job create`, MLClient, or `worldsize submit`."
        return "No job fits this filter."

    def _show_choice(self) -> None:
        count = len(self._table.selected)
        self._compare.set_enabled(count > 1)
        self._compare.set_text(f"Compare metrics ({count})" if count > 1 else "Choose jobs to compare")

    def _open_comparison(self) -> None:
        names = [str(row["id"]) for row in self._table.selected]
        ui.navigate.to(frame.address("compare", jobs=",".join(names)))


async def draw_jobs(workspace: Workspace) -> None:
    """The page of all jobs, narrowed to what the query of its address says."""
    query = ui.context.client.request.query_params
    choices = await asyncio.to_thread(list_choices, workspace.database)
    with frame.frame(workspace, "Jobs", "Jobs"):
        await JobList(workspace, read_filter(query), choices).refresh()


Value = TypeVar("Value")

MAX_JOBS, MAX_STEPS = 12, 50  # and of each


async def draw_comparison(workspace: Workspace, jobs: str = "") -> None:
    """The page that compares jobs, whose names have commas between them."""
    names = [*dict.fromkeys(jobs.split(","))][:100]
    records = [*use_each("job", names, partial(get_job, workspace.database), str)]
    compared = [job for job in records if job is not None][:MAX_JOBS]
    with frame.frame(workspace, "Compare jobs", "Jobs", [("Jobs", "/")]):
        if not compared:
            frame.empty("Choose two jobs or more in the list of jobs.")
            return
        if len(records) > MAX_JOBS:
            ui.label(f"The first {MAX_JOBS} of {len(records)} jobs are compared.").classes("ws-soft")
        await _show_comparison(workspace, compared)


async def _show_comparison(workspace: Workspace, jobs: Sequence[JobRecord]) -> None:
    titles = _unique_titles(jobs)
    runs = [
        (title, job)
        for title, top in zip(titles, jobs, strict=True)
        for job in (top, *jobs_below(workspace.database, top)[:MAX_STEPS])
    ]
    ids = await asyncio.to_thread(tracked_ids, workspace, [job for _, job in runs])
    tracked = await asyncio.to_thread(read_runs, workspace.home.root, ids)
    shown = {
        job.name: title if job in jobs else f"{title} · {job.step}"
        for title, job in runs
        if tracked[job.name].metrics
    }
    await Charts(workspace.home.root).update(shown, ids)
    metrics = by_row((title, _prefix(job, jobs), tracked[job.name].metrics) for title, job in runs)
    numbers = {
        row: {title: frame.number_words(value) for title, value in values.items()}
        for row, values in metrics.items()
    }
    _show_values("Last values", titles, numbers, order_metrics(list(numbers)))
    params = by_row((title, _prefix(job, jobs), tracked[job.name].params) for title, job in runs)
    _show_values("Parameters that differ", titles, params, differing(params, titles))


def _prefix(job: JobRecord, jobs: Sequence[JobRecord]) -> str:
    return "" if job in jobs else f"{job.step}."


def _unique_titles(jobs: Sequence[JobRecord]) -> list[str]:
    """The display names of jobs, with their names where two are the same."""
    shown = [job.display_name for job in jobs]
    return [
        title if shown.count(title) == 1 else f"{title} ({job.name})"
        for job, title in zip(jobs, shown, strict=True)
    ]


def _show_values(
    title: str, jobs: Sequence[str], rows: Mapping[str, Mapping[str, str]], names: Sequence[str]
) -> None:
    """A table with a row for each name and a column for each job."""
    if not names:
        return
    columns = [
        frame.Column("name", "Name"),
        *(frame.Column(f"c{index}", job) for index, job in enumerate(jobs)),
    ]
    cells = [
        {
            "id": name,
            "name": frame.text_cell(name),
            **{
                f"c{index}": frame.text_cell(rows[name].get(job, frame.NONE))
                for index, job in enumerate(jobs)
            },
        }
        for name in names
    ]
    frame.heading(title)
    with ui.element("div").classes("ws-scroll"):
        frame.show_table(title, columns, cells, empty="")


def by_row(values: Iterable[tuple[str, str, Mapping[str, Value]]]) -> dict[str, dict[str, Value]]:
    """Values by their names, with the step before the name, and by the titles of the jobs.

    A pipeline says ``train.epochs`` for what its step ``train`` calls ``epochs``: it is one row, and what the
    step says counts.
    """
    rows: dict[str, dict[str, Value]] = {}
    for title, prefix, named in values:
        for name, value in named.items():
            rows.setdefault(prefix + name, {})[title] = value
    return rows


def differing(rows: Mapping[str, Mapping[str, Value]], titles: Sequence[str]) -> list[str]:
    """The rows that do not have one value in all jobs that have any."""
    filled = [title for title in titles if any(title in values for values in rows.values())]
    return sorted(name for name, values in rows.items() if len({values.get(title) for title in filled}) > 1)


MAX_NAME = 120  # characters that the name of a job takes over of the one before


class InputForms:
    """The inputs of a job, and for a pipeline those that its body sets at the steps."""

    def __init__(self, workspace: Workspace, job: JobRecord) -> None:
        fields, steps = job_fields(job.properties), step_fields(workspace.database, job.properties)
        self._steps: dict[str, frame.Form] = {}
        if fields or not steps:
            with frame.panel("Inputs"):
                if not fields:
                    ui.label("This job has no inputs.").classes("ws-soft")
                self._form = frame.Form(fields)
        else:
            self._form = frame.Form([])
        for name, values in steps.items():
            with frame.panel(f"Inputs of the step {name}"):
                self._steps[name] = frame.Form(values)

    @property
    def faults(self) -> list[str]:
        """Why values cannot be submitted."""
        faults = [f"{key}: {fault}" for key, fault in self._form.faults.items()]
        for step, form in self._steps.items():
            faults += [f"{step}, {key}: {fault}" for key, fault in form.faults.items()]
        return faults

    def change(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        """The body of the job with the values of the forms."""
        changed = change_inputs(properties, self._form.values)
        return change_steps(changed, {step: form.values for step, form in self._steps.items()})


def draw_resubmit(workspace: Workspace, name: str) -> None:
    """The form of a job's inputs."""
    job = get_job(workspace.database, name)
    if job is None or job.parent is not None:
        frame.not_found(workspace, f"Job {name}", "Jobs")
        return
    crumbs = [("Jobs", "/"), (job.display_name, frame.address("jobs", name))]
    with frame.frame(workspace, f"Resubmit {job.display_name}", "Jobs", crumbs):
        ui.label("A new job runs with these values. Everything else is as it was submitted.").classes(
            "ws-soft"
        )
        title = frame.Form([Field("Display name", "", job.display_name)])
        inputs = InputForms(workspace, job)
        message = frame.error("")
        message.set_visibility(False)

        def refuse(text: str) -> None:
            message.set_text(text)
            message.set_visibility(True)

        async def send() -> None:
            if faults := inputs.faults:
                refuse("\n".join(faults))
                return
            properties = inputs.change(job.properties)
            properties["displayName"] = title.values["Display name"] or job.display_name
            submitting.disable()
            try:
                made = await asyncio.shield(
                    submit(workspace, f"{name[:MAX_NAME]}-{uuid.uuid4().hex[:8]}", properties)
                )
            except ServiceError as error:
                refuse(str(error))
                submitting.enable()
                return
            ui.navigate.to(frame.address("jobs", made.name))

        with ui.element("div").classes("ws-row"):
            submitting = frame.button("Submit", send, "ws-primary")
            frame.link("Back to the job", frame.address("jobs", name))
