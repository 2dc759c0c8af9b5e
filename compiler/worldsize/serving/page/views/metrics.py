"""The metrics of a job and its children, plotted and by their last values, with parameters and tags."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nicegui import ui

from worldsize.base.wording import plural
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.page.queries.jobs import Tracked, jobs_below, read_curves, read_runs, tracked_ids
from worldsize.serving.page.views import frame
from worldsize.serving.workspace import Workspace
from worldsize.showing.curves import Curve
from wsmetrics.names import choose_headline

MAX_CHARTS = 12  # of metrics that are plotted before one chooses others
MAX_JOBS = 100  # whose metrics are read
LOOK_SECONDS = 3.0


def order_metrics(names: Sequence[str]) -> list[str]:
    """Losses first, then what validates, then the rest; what the machine did comes last."""

    def rank(name: str) -> tuple[int, str]:
        low = name.lower()
        if "loss" in low:
            return (0, name)
        if low.startswith(("val", "test", "eval", "acc")):
            return (1, name)
        return (3 if low.startswith(("system/", "gpu", "cpu")) else 2, name)

    return sorted(names, key=rank)


class Charts:
    """The charts of chosen metrics of some runs; they are drawn again when there are new points."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._shown: dict[str, dict[str, Curve]] = {}
        self._choice = ui.select([], label="Metrics", multiple=True, on_change=lambda _event: self._redraw())
        self._choice.props("outlined dense options-dense").classes("ws-grow")
        self._area = ui.element("div").classes("ws-charts")
        self._empty = frame.empty("No metric has been logged at more than one step.")

    async def update(self, shown: Mapping[str, str], ids: Mapping[str, str]) -> None:
        """Read the curves again of some jobs, by what to show of each and its run in MLflow."""
        curves = await asyncio.to_thread(read_curves, self._home, shown, ids)
        plotted = order_metrics(list(curves))
        options = list(self._choice.options)
        if plotted != options:
            chosen = [name for name in plotted if name in (self._choice.value or []) or name not in options]
            self._choice.set_options(plotted, value=chosen[:MAX_CHARTS])
        self._choice.set_visibility(len(plotted) > 1)
        self._empty.set_visibility(not plotted)
        if curves != self._shown:
            self._shown = curves
            self._redraw()

    def _redraw(self) -> None:
        chosen, total = len(self._choice.value or []), len(self._choice.options)
        self._choice.props["display-value"] = f"{chosen} of {plural(total, 'metric')}"
        self._area.clear()
        with self._area:
            for name in self._choice.value or []:
                if curves := self._shown.get(name):
                    _show_chart(name, curves)


class MetricsView:
    """What MLflow knows of a job and of its children."""

    def __init__(self, workspace: Workspace, job: JobRecord) -> None:
        self._workspace, self._job = workspace, job
        self._last: dict[str, Mapping[str, float]] | None = None
        self._charts = Charts(workspace.home.root)
        with frame.panel("Last values"):
            columns = (
                frame.Column("metric", "Metric"),
                frame.Column("step", "Step"),
                frame.Column("value", "Value", "ws-right"),
            )
            self._table = frame.show_table("Metrics", columns, [], empty="No metric has been logged yet.")
        ui.timer(LOOK_SECONDS, self.refresh, immediate=False)

    async def refresh(self) -> None:
        """Read the metrics again."""
        below = await asyncio.to_thread(jobs_below, self._workspace.database, self._job)
        jobs = [self._job, *below[:MAX_JOBS]]
        shown = {job.name: job.step or job.display_name for job in jobs} | {
            self._job.name: self._job.step or "job"
        }
        ids = await asyncio.to_thread(tracked_ids, self._workspace, jobs)
        tracked = await asyncio.to_thread(read_runs, self._workspace.home.root, ids)
        last = {job: run.metrics for job, run in tracked.items()}
        if last == self._last:
            return
        self._last = last
        await self._charts.update(shown, ids)
        frame.set_rows(self._table, _rows(tracked, shown))


def _rows(tracked: Mapping[str, Tracked], shown: Mapping[str, str]) -> list[frame.Row]:
    return [
        frame.text_row(
            f"{job} {name}", metric=name, step=shown[job], value=frame.number_words(run.metrics[name])
        )
        for job, run in tracked.items()
        for name in dict.fromkeys([*choose_headline(run.metrics), *order_metrics(list(run.metrics))])
    ]


# Okabe and Ito's colours, which people with colour blindness tell apart, https://jfly.uni-koeln.de/color/,
# in shades that can be seen on both grounds; and dashes, so that colour is not all.
COLOURS = ("#2f80c3", "#d55e00", "#009e73", "#c2679c", "#b8860b", "#56a3d9", "#7a6fd0", "#8a8f98")
ROW_PIXELS, MAX_ROWS = 20, 6  # of a legend, which scrolls if it is longer
LONGEST_NAME = 40  # characters in a legend
DASHES = ("solid", "dashed", "dotted")
# Read by the browser, so that charts follow its mode.
_TEXT = "getComputedStyle(document.body).getPropertyValue('--ws-soft')"
_LINE = "getComputedStyle(document.body).getPropertyValue('--ws-line')"


def _show_chart(metric: str, curves: Mapping[str, Curve]) -> None:
    """The curves of one metric."""
    with ui.element("section").classes("ws-panel"):
        frame.tagged("h2", metric, "ws-h3")
        chart = ui.echart(_options(fit_names(curves)), renderer="svg").classes("ws-chart")
        chart.style(f"height: calc(15rem + {_legend_height(curves)}px)")
        chart.props["role"] = "img"
        last = ", ".join(f"{name} ends at {points[-1][1]:.4g}" for name, points in curves.items() if points)
        chart.props["aria-label"] = f"{metric} by step: {last}"


def fit_names(curves: Mapping[str, Curve]) -> Mapping[str, Curve]:
    """The curves under names that fit a legend: what tells jobs apart often stands at the end."""
    half = LONGEST_NAME // 2
    short = {
        name: name if len(name) <= LONGEST_NAME else f"{name[: half - 1]}…{name[-half:]}" for name in curves
    }
    is_clear = len(set(short.values())) == len(curves)
    return {short[name]: curve for name, curve in curves.items()} if is_clear else curves


def _legend_height(curves: Mapping[str, Curve]) -> int:
    """Pixels: a row for each curve, since names can be long; none for a single one."""
    return ROW_PIXELS * min(len(curves), MAX_ROWS) + 8 if len(curves) > 1 else 0


def _options(curves: Mapping[str, Curve]) -> dict[str, Any]:
    axis = {
        "axisLabel": {":color": _TEXT},
        "nameTextStyle": {":color": _TEXT},
        "axisLine": {"lineStyle": {":color": _LINE}},
        "splitLine": {"lineStyle": {":color": _LINE}},
    }
    return {
        "color": list(COLOURS),
        "animation": False,
        "grid": {
            "left": 8,
            "right": 32,  # half of the last label
            "top": 16,
            "bottom": 28 + _legend_height(curves),
            "containLabel": True,
        },
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "legend": {
            "show": len(curves) > 1,
            "bottom": 0,
            "left": 0,
            "orient": "vertical",
            "type": "scroll" if len(curves) > MAX_ROWS else "plain",
            **({"height": _legend_height(curves)} if len(curves) > MAX_ROWS else {}),
            "padding": [4, 0, 0, 0],
            "itemGap": 3,
            "itemHeight": 10,
            "textStyle": {":color": _TEXT, "width": 260, "overflow": "truncate", "lineHeight": 16},
        },
        "xAxis": {"type": "value", "name": "step", "nameLocation": "middle", "nameGap": 24, **axis},
        "yAxis": {"type": "value", "scale": True, **axis},
        "series": [
            {
                "type": "line",
                "name": name,
                "data": [list(point) for point in points],
                "showSymbol": len(points) < 3,
                "symbolSize": 6,
                "lineStyle": {"width": 2, "type": DASHES[index // len(COLOURS) % len(DASHES)]},
            }
            for index, (name, points) in enumerate(curves.items())
        ],
    }
