"""Compares jobs: the curves of their metrics in one chart each, their last values, and their parameters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from nicegui import ui

from worldsize.serving.database import use_each
from worldsize.serving.jobs.records import JobRecord, get_job
from worldsize.serving.page.queries.jobs import jobs_below
from worldsize.serving.page.queries.reuse import tracked_ids
from worldsize.serving.page.queries.tracking import read_runs
from worldsize.serving.page.queries.wording import NONE, number_words
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.metrics import Charts, order_metrics
from worldsize.serving.page.views.tables import Column, show_table, text_cell
from worldsize.serving.workspace import Workspace

Value = TypeVar("Value")

MAX_JOBS, MAX_STEPS = 12, 50  # and of each


async def draw_comparison(workspace: Workspace, names: Sequence[str]) -> None:
    """The page that compares jobs."""
    found = [*use_each("job", [*dict.fromkeys(names)][:100], partial(get_job, workspace.database), str)]
    jobs = [job for job in found if job is not None][:MAX_JOBS]
    with frame.frame(workspace, "Compare jobs", "Jobs", [("Jobs", "/")]):
        frame.heading("Compare jobs", 1)
        if not jobs:
            frame.empty("Choose two jobs or more in the list of jobs.")
            return
        if len(found) > MAX_JOBS:
            ui.label(f"The first {MAX_JOBS} of {len(found)} jobs are compared.").classes("ws-soft")
        await _show_comparison(workspace, jobs)


async def _show_comparison(workspace: Workspace, jobs: Sequence[JobRecord]) -> None:
    titles = unique_titles(jobs)
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
        row: {title: number_words(value) for title, value in values.items()}
        for row, values in metrics.items()
    }
    _show_values("Last values", titles, numbers, order_metrics(list(numbers)))
    params = by_row((title, _prefix(job, jobs), tracked[job.name].params) for title, job in runs)
    _show_values("Parameters that differ", titles, params, differing(params, titles))


def _prefix(job: JobRecord, jobs: Sequence[JobRecord]) -> str:
    return "" if job in jobs else f"{job.step}."


def unique_titles(jobs: Sequence[JobRecord]) -> list[str]:
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
    columns = [Column("name", "Name"), *(Column(f"c{index}", job) for index, job in enumerate(jobs))]
    cells = [
        {
            "id": name,
            "name": text_cell(name),
            **{f"c{index}": text_cell(rows[name].get(job, NONE)) for index, job in enumerate(jobs)},
        }
        for name in names
    ]
    frame.heading(title)
    with ui.element("div").classes("ws-scroll"):
        show_table(title, columns, cells, empty="")


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
