"""Compares jobs: the curves of their metrics in one chart each, their last values, and their parameters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from nicegui import ui

from worldsize.serving.jobs.records import JobRecord, descendants, get_job
from worldsize.serving.page.queries.tracking import Tracked, read_runs
from worldsize.serving.page.queries.wording import NONE, number_words
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.metrics import Charts, metric_names, order_metrics
from worldsize.serving.page.views.tables import Column, show_table, text_cell
from worldsize.serving.workspace import Workspace

MAX_JOBS = 12


async def draw_comparison(workspace: Workspace, names: Sequence[str]) -> None:
    """The page that compares jobs."""
    found = [job for name in dict.fromkeys(names) if (job := get_job(workspace.database, name)) is not None]
    jobs = found[:MAX_JOBS]
    with frame.frame(workspace, "Compare jobs", "Jobs", [("Jobs", "/")]):
        frame.heading("Compare jobs", 1)
        if not jobs:
            frame.empty("Choose two jobs or more in the list of jobs.")
            return
        if len(found) > MAX_JOBS:
            ui.label(f"The first {MAX_JOBS} of {len(found)} jobs are compared.").classes("ws-soft")
        titles = unique_titles(jobs)
        runs = {
            run.name: title if run.parent is None or run.name == job.name else f"{title} · {run.step}"
            for job, title in zip(jobs, titles, strict=True)
            for run in [job, *descendants(workspace.database, job.root)]
        }
        tracked = await asyncio.to_thread(read_runs, workspace.home, list(runs))
        tracked = {run: each for run, each in tracked.items() if each.metrics or each.params}
        runs = {run: shown for run, shown in runs.items() if run in tracked}
        await Charts(workspace.home).update(runs)
        metrics = order_metrics(metric_names(tracked))
        _show_values(
            "Last values", runs, metrics, lambda run, name: number_words(tracked[run].metrics.get(name))
        )
        names_ = differing_params(tracked)
        _show_values(
            "Parameters that differ", runs, names_, lambda run, name: tracked[run].params.get(name, NONE)
        )


def unique_titles(jobs: Sequence[JobRecord]) -> list[str]:
    """The display names of jobs, with their names where two are the same."""
    shown = [job.display_name for job in jobs]
    return [
        title if shown.count(title) == 1 else f"{title} ({job.name})"
        for job, title in zip(jobs, shown, strict=True)
    ]


def differing_params(tracked: Mapping[str, Tracked]) -> list[str]:
    """The parameters that do not have one value in all runs that have any."""
    runs = [each.params for each in tracked.values() if each.params]
    names = sorted({name for params in runs for name in params})
    return [name for name in names if len({params.get(name) for params in runs}) > 1]


def _show_values(
    title: str, runs: Mapping[str, str], names: Sequence[str], value: Callable[[str, str], str]
) -> None:
    """A table with a row for each name and a column for each run that has any."""
    runs = {run: shown for run, shown in runs.items() if any(value(run, name) != NONE for name in names)}
    if not runs:
        return
    columns = [
        Column("name", "Name"),
        *(Column(f"c{index}", shown) for index, shown in enumerate(runs.values())),
    ]
    rows = [
        {
            "id": name,
            "name": text_cell(name),
            **{f"c{index}": text_cell(value(run, name)) for index, run in enumerate(runs)},
        }
        for name in names
    ]
    frame.heading(title)
    with ui.element("div").classes("ws-scroll"):
        show_table(title, columns, rows, empty="")
