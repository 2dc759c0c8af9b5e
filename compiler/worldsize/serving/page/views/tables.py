"""Tables whose cells are texts, links and states, drawn by the browser from rows of data."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from nicegui import ui

from worldsize.serving.database import Item, Unreadable, collect_unreadable, use_each
from worldsize.serving.page.queries.wording import cut, status_tone, status_words

MOST_ROWS = 200
LIVE_SECONDS = 2.0  # between two looks at the database
Cell = dict[str, Any]
Row = dict[str, Any]

# Everything goes through {{ }} or a bound attribute, which the browser takes as text.
_BODY = """
<q-tr :props="props">
  <q-td v-if="props.selected !== undefined && SELECTION" auto-width data-label="Compare">
    <q-checkbox v-model="props.selected" dense :aria-label="'Compare ' + props.row.id" />
  </q-td>
  <q-td v-for="col in props.cols" :key="col.name" :props="props" :data-label="col.label" :class="col.look">
    <span v-if="col.value">
      <span v-if="col.value.tone" :class="'ws-state ws-' + col.value.tone">{{ col.value.text }}</span>
      <a v-else-if="col.value.href" class="ws-link" :href="col.value.href">{{ col.value.text }}</a>
      <span v-else>{{ col.value.text }}</span>
      <span v-if="col.value.sub" class="ws-sub">{{ col.value.sub }}</span>
    </span>
  </q-td>
</q-tr>
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``look`` is ``ws-keep`` for one that does not wrap, ``ws-right`` for numbers."""

    name: str
    label: str
    look: str = ""


def text_cell(text: object, sub: str = "") -> Cell:
    """A text, and a second one below it."""
    return {"text": cut(text), "sub": cut(sub)}


def text_row(key: str, **texts: object) -> Row:
    """A row of texts, by the names of their columns."""
    return {"id": key, **{name: text_cell(text) for name, text in texts.items()}}


def link_cell(text: str, href: str, sub: str = "") -> Cell:
    """A link to a page of this server."""
    return {"text": cut(text), "href": href, "sub": cut(sub)}


def state_cell(status: str) -> Cell:
    """A state by its colour, sign and word."""
    return {"text": cut(status_words(status)), "tone": status_tone(status)}


def show_table(
    label: str, columns: Sequence[Column], rows: list[Row], *, empty: str, choose: bool = False
) -> ui.table:
    """A table with its first rows, and a line that says of how many.

    A row has an ``id`` and a cell for each column. ``label`` is for readers of the screen; ``empty`` is said
    if there is no row; with ``choose`` rows can be chosen.
    """
    described = [
        {
            "name": column.name,
            "label": column.label,
            "field": column.name,
            "align": "right" if "ws-right" in column.look else "left",
            "look": column.look,
        }
        for column in columns
    ]
    if len(rows) > MOST_ROWS:
        ui.label(f"The first {MOST_ROWS} of {len(rows):,} are shown.").classes("ws-soft")
    table = ui.table(
        columns=described, rows=rows[:MOST_ROWS], row_key="id", selection="multiple" if choose else None
    )
    if choose:
        table.add_slot(
            "header-selection", '<q-checkbox v-model="props.selected" dense aria-label="Compare all" />'
        )
    table.add_slot("body", _BODY.replace("SELECTION", "true" if choose else "false"))
    table.classes("ws-table").props("flat hide-bottom wrap-cells" if rows else "flat wrap-cells")
    table.props["aria-label"] = label
    table.props["role"] = "region"
    table.props["no-data-label"] = empty
    return table


def set_rows(table: ui.table, rows: list[Row]) -> None:
    """Show other rows; the browser changes only what differs, so that the focus stays."""
    rows = rows[:MOST_ROWS]
    if table.rows != rows:
        table.rows = rows
    table.props("hide-bottom" if rows else "", remove="" if rows else "hide-bottom")


class Listing(Generic[Item]):
    """A table of records, which are read again in a thread every other second.

    The first :data:`MOST_ROWS` are shown. A record that has no row is named below the table, with the reason.
    """

    def __init__(
        self,
        label: str,
        columns: Sequence[Column],
        read: Callable[[], Iterable[Item]],
        row: Callable[[Item], Row],
        empty: str,
    ) -> None:
        self._kind, self._read, self._row = label.lower().removesuffix("s"), read, row
        self.table = show_table(label, columns, [], empty=empty)
        self._note = ui.label().classes("ws-soft ws-text").props("role=status")
        ui.timer(LIVE_SECONDS, self.refresh, immediate=False)

    async def refresh(self) -> None:
        """Show the records as they are now."""
        rows, note = await asyncio.to_thread(self._look)
        set_rows(self.table, rows)
        self._note.set_text(note)

    def _look(self) -> tuple[list[Row], str]:
        with collect_unreadable() as faults:
            rows = [*itertools.islice(use_each(self._kind, self._read(), self._row), MOST_ROWS + 1)]
        more = f"The first {MOST_ROWS} are shown; there are more.\n" if len(rows) > MOST_ROWS else ""
        return rows[:MOST_ROWS], more + say_unreadable(faults)


def say_unreadable(faults: Sequence[Unreadable]) -> str:
    """What a list leaves out, and why; empty where it leaves out nothing."""
    lines = [f"The {fault.kind} {fault.name} cannot be read: {fault.reason}" for fault in faults[:10]]
    return "\n".join([*lines, f"and {len(faults) - 10} more"] if len(faults) > 10 else lines)
