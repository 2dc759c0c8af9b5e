"""The list of jobs: filtered, by pages, and as it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from nicegui import ui

from worldsize.base.wording import plural
from worldsize.serving.database import collect_unreadable, use_each
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.page.queries.jobs import JobFilter, find_jobs, list_choices, read_filter
from worldsize.serving.page.queries.wording import cut, duration_words, status_words, time_words, type_words
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.tables import (
    LIVE_SECONDS,
    Column,
    Row,
    link_cell,
    say_unreadable,
    set_rows,
    show_table,
    state_cell,
    text_cell,
)
from worldsize.serving.workspace import Workspace

COLUMNS = (
    Column("job", "Job"),
    Column("status", "State", "ws-keep"),
    Column("experiment", "Experiment"),
    Column("type", "Type", "ws-keep"),
    Column("created", "Created", "ws-keep"),
    Column("duration", "Duration", "ws-keep ws-right"),
)
SEARCH_SECONDS = 0.3  # after the last key


def job_row(job: JobRecord) -> Row:
    """A job as a row of a table."""
    created_by = f"schedule {job.schedule}" if job.schedule else ""
    return {
        "id": job.name,
        "job": link_cell(
            job.display_name,
            frame.address("jobs", job.name),
            job.name if job.name != job.display_name else "",
        ),
        "status": state_cell(job.status),
        "experiment": text_cell(job.experiment),
        "type": text_cell(type_words(job.type), created_by),
        "created": text_cell(time_words(job.created)),
        "duration": text_cell(duration_words(job)),
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
            self._choice("State", "status", {each: cut(status_words(each)) for each in choices["status"]})
            self._choice("Experiment", "experiment", {each: cut(each) for each in choices["experiment"]})
            self._choice("Type", "type", {each: cut(type_words(each)) for each in choices["type"]})
        with ui.element("div").classes("ws-row"):
            self._count = ui.label().classes("ws-soft ws-grow").props("role=status")
            self._compare = frame.button("", self._open_comparison)
        self._table = show_table("Jobs", COLUMNS, [], empty=self._nothing(), choose=True)
        self._table.on_select(lambda _event: self._show_choice())
        with ui.element("nav").classes("ws-pages").props('aria-label="Pages of jobs"') as self._pages:
            self._previous = frame.button("Previous", lambda: self._turn(-1))
            self._page = ui.label().classes("ws-soft")
            self._next = frame.button("Next", lambda: self._turn(1))
        self._note = ui.label().classes("ws-soft ws-text").props("role=status")
        self._show_choice()
        ui.timer(LIVE_SECONDS, self.refresh, immediate=False)

    async def refresh(self) -> None:
        """Read the list again."""
        wanted = self._wanted
        with collect_unreadable() as faults:
            found = await asyncio.to_thread(find_jobs, self._database, wanted)
            set_rows(self._table, [*use_each("job", found.jobs, job_row)])
        if wanted == self._wanted:
            self._wanted = replace(wanted, page=found.page)
        self._note.set_text(say_unreadable(faults))
        self._count.set_text(plural(found.total, "job"))
        self._pages.set_visibility(found.pages > 1)
        self._page.set_text(f"Page {found.page} of {found.pages}")
        self._previous.set_enabled(found.page > 1)
        self._next.set_enabled(found.page < found.pages)

    def _choice(self, label: str, name: str, choices: dict[str, str]) -> None:
        given: str = getattr(self._wanted, name)
        if given and given not in choices:
            choices = {given: given, **choices}
        select = ui.select(
            {"": f"Any {label.lower()}", **choices},
            label=label,
            value=given,
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


async def draw_jobs(workspace: Workspace, query: Mapping[str, str]) -> None:
    """The page of all jobs."""
    choices = await asyncio.to_thread(list_choices, workspace.database)
    with frame.frame(workspace, "Jobs", "Jobs"):
        frame.heading("Jobs", 1)
        await JobList(workspace, read_filter(query), choices).refresh()
