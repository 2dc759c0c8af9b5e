"""The pipelines that are retrained for a model: a picture of their looks over time, and the decisions."""

from __future__ import annotations

import asyncio

from nicegui import ui

from worldsize.running.show.firings import WORDS, Firing, Retrained, draw_firings, draw_key, show_time
from worldsize.serving.page.queries.retraining import find_retrained
from worldsize.serving.page.views import frame
from worldsize.serving.workspace import Workspace

_MOST = 100  # looks of the table, the newest
_COLUMNS = (
    frame.Column("when", "When (UTC)", "ws-keep"),
    frame.Column("decision", "Decision", "ws-keep"),
    frame.Column("why", "Why"),
    frame.Column("rows", "Rows", "ws-right"),
    frame.Column("job", "Job"),
)


async def show_retrained(workspace: Workspace, model: str) -> None:
    """A panel for each pipeline that was looked at; nothing for a model that is not retrained."""
    for retrained in await asyncio.to_thread(lambda: [*find_retrained(workspace, model)]):
        if retrained.firings:
            pictures = (draw_firings(retrained.firings), draw_key([f.action for f in retrained.firings]))
            with frame.panel(f"Retraining of {retrained.name}"):
                ui.html("".join(pictures), sanitize=False).classes("ws-year")  # every text in it is escaped
                newest = reversed(retrained.firings[-_MOST:])
                rows = [_make_row(number, firing, retrained) for number, firing in enumerate(newest)]
                frame.show_table(f"Looks at {retrained.name}", _COLUMNS, rows, empty="")


def _make_row(number: int, firing: Firing, retrained: Retrained) -> frame.Row:
    address = retrained.links.get(firing.run or "")
    return {
        "id": str(number),
        "when": frame.text_cell(show_time(firing.time)),
        "decision": frame.text_cell(WORDS.get(firing.action, firing.action)),
        "why": frame.text_cell(firing.reason or firing.why, firing.why if firing.reason else ""),
        "rows": frame.text_cell("" if firing.rows is None else f"{firing.rows:,}"),
        "job": frame.link_cell(firing.run, address)
        if firing.run and address
        else frame.text_cell(firing.run or ""),
    }
