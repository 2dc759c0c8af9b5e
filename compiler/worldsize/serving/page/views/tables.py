"""Tables whose cells are texts, links and states, drawn by the browser from rows of data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from worldsize.serving.page.queries.wording import status_tone, status_words

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
    return {"text": str(text), "sub": sub}


def link_cell(text: str, href: str, sub: str = "") -> Cell:
    """A link to a page of this server."""
    return {"text": text, "href": href, "sub": sub}


def state_cell(status: str) -> Cell:
    """A state by its colour, sign and word."""
    return {"text": status_words(status), "tone": status_tone(status)}


def show_table(
    label: str, columns: Sequence[Column], rows: list[Row], *, empty: str, choose: bool = False
) -> ui.table:
    """A table with all its rows.

    Args:
        label: What it lists, for readers of the screen.
        columns: Its columns.
        rows: Each with an ``id`` and a cell for each column.
        empty: What is said if there is no row.
        choose: Whether rows can be chosen.
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
    table = ui.table(columns=described, rows=rows, row_key="id", selection="multiple" if choose else None)
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
    if table.rows != rows:
        table.rows = rows
    table.props("hide-bottom" if rows else "", remove="" if rows else "hide-bottom")
