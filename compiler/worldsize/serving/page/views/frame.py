"""What all pages share: the header with its navigation, headings, facts, states, forms and tables."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timezone
from typing import Any, Generic
from urllib.parse import quote

from msgspec import Struct
from nicegui import Client, ui
from nicegui.element import Element
from nicegui.elements.mixins.value_element import ValueElement

from worldsize.base.wording import format_duration, join_words, plural
from worldsize.serving.database import Item, Unreadable, collect_unreadable, mapping_of, text_of, use_each
from worldsize.serving.jobs.records import JobRecord, parse_time
from worldsize.serving.page.queries.forms import Field, check_value, value_text
from worldsize.serving.workspace import Workspace

SECTIONS = (
    ("Jobs", "/"),
    ("Models", "/models"),
    ("Data", "/data"),
    ("Components", "/components"),
    ("Environments", "/environments"),
    ("Compute", "/compute"),
    ("Schedules", "/schedules"),
)
MANY = 12  # facts that one column may have
MOST_UNSEEN = 30  # pages that were drawn and that no browser has opened
MOST_FACTS, MOST_TEXT = 100, 2000  # of a list, and characters of one


@contextlib.contextmanager
def frame(
    workspace: Workspace,
    title: str,
    section: str,
    crumbs: Sequence[tuple[str, str]] = (),
    *,
    is_heading: bool = True,
) -> Iterator[None]:
    """One page: its header, the way to it, and its title as a heading; what follows is its content.

    ``section`` is the entry of the navigation that it belongs to, ``crumbs`` are titles and addresses of the
    pages above it.
    """
    unseen = [client for client in Client.instances.values() if not client.has_socket_connection]
    for client in unseen[:-MOST_UNSEEN]:  # a browser opens its connection at once; NiceGUI waits a minute
        client.delete()
    ui.page_title(f"{cut(title)} · Worldsize")
    with ui.header().classes("ws-top"):
        with link("Worldsize", "/").classes("ws-brand") as brand:
            brand.props["aria-label"] = f"Worldsize, workspace {workspace.scope.workspace}"
            tagged("small", workspace.scope.workspace)
        with ui.element("nav").classes("ws-nav").props('aria-label="Workspace"'):
            for name, address in SECTIONS:
                entry = link(name, address)
                if name == section:
                    entry.props("aria-current=page")
    if crumbs:
        with ui.element("nav").classes("ws-crumbs").props('aria-label="Breadcrumbs"'):
            for name, address in crumbs:
                link(name, address)
    main = ui.element("div").classes("ws-column")
    ui.skip_link("Skip to the content", target=main)
    with main:
        if is_heading:
            heading(title, 1)
        yield


def tagged(tag: str, text: str = "", classes: str = "") -> Element:
    """An element with a text, which the browser never reads as HTML."""
    with ui.element(tag).classes(classes) as element:
        if text:
            ui.label(cut(text)).classes("inline").style("display: inline")
    return element


def link(text: str, address: str) -> ui.link:
    """A link to a page of this server; ``address`` begins with a slash."""
    return ui.link(cut(text), address)


def address(*parts: str, **query: str) -> str:
    """The address of a page: names may hold any characters."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    chosen = "&".join(f"{key}={quote(value, safe='')}" for key, value in query.items() if value)
    return f"{path}?{chosen}" if chosen else path


def heading(text: str, level: int = 2) -> Element:
    """A heading; its look follows from its level."""
    return tagged(f"h{level}", text, f"ws-h{level}")


@contextlib.contextmanager
def panel(title: str = "") -> Iterator[None]:
    """A framed part of a page, named by its heading."""
    with ui.element("section").classes("ws-panel") as section:
        if title:
            title_element = heading(title)
            section.props["aria-labelledby"] = title_element.html_id
        yield


def facts(pairs: Iterable[tuple[str, object]], style: str = "ws-facts") -> None:
    """A list of names and values: texts, or functions that draw them.

    The style is ``ws-facts`` for a column, ``ws-many`` for several, ``ws-flow`` for a line that wraps.
    """
    first = [*itertools.islice(pairs, MOST_FACTS + 1)]
    if len(first) > MOST_FACTS:
        ui.label(f"The first {MOST_FACTS} are shown; there are more.").classes("ws-soft")
    with ui.element("dl").classes(style):
        for name, value in first[:MOST_FACTS]:
            with ui.element("div"):
                tagged("dt", name)
                with ui.element("dd"):
                    if callable(value):
                        value()
                    else:
                        ui.label(cut(value, MOST_TEXT)).classes("ws-text")


def fact_panel(title: str, values: Mapping[str, object]) -> None:
    """A panel with the entries of a mapping, in columns if they are many; nothing if there are none."""
    if values:
        with panel(title):
            facts(values.items(), "ws-many" if len(values) > MANY else "ws-facts")


def state(status: str) -> ui.label:
    """A state by its colour, sign and word."""
    label = ui.label()
    set_state(label, status)
    return label


def set_state(label: ui.label, status: str) -> None:
    """Show another state."""
    label.set_text(status_words(status))
    label.classes(replace=f"ws-state ws-{status_tone(status)}")


def empty(text: str) -> ui.label:
    """What stands where there is nothing yet: why, and what to do."""
    return ui.label(cut(text)).classes("ws-empty")


def error(text: str) -> ui.label:
    """A message that something failed."""
    return ui.label(cut(text, MOST_TEXT)).classes("ws-error").props("role=alert")


class Failure:
    """Why something failed: one line, and below it what more is known, such as the end of a log."""

    def __init__(self) -> None:
        with ui.element("div").classes("ws-error") as self._box:
            self._box.props["role"] = "alert"
            self._line = ui.element("div").classes("ws-strong")
            self._rest = ui.label().classes("ws-code").props('tabindex=0 role=region aria-label="Details"')

    def show(self, text: str) -> None:
        """Show a text of one line or more; nothing for an empty one."""
        line, _, rest = cut(text, LONG).partition("\n")
        self._box.set_visibility(bool(text))
        self._line.clear()
        with self._line:
            for number, part in enumerate(re.split(r"`([^`]+)`", line)):
                tagged("code" if number % 2 else "span", part)
        self._rest.set_text(rest)
        self._rest.set_visibility(bool(rest.strip()))


def button(text: str, action: Callable[[], object], kind: str = "ws-button") -> ui.button:
    """A button; ``kind`` is ``ws-button``, ``ws-primary`` or ``ws-danger``."""
    return ui.button(text, on_click=action, color=None).classes(kind).props("unelevated no-caps")


def not_found(workspace: Workspace, what: str, section: str) -> None:
    """The page for something that does not exist."""
    ui.status_code(404)
    with frame(workspace, "Not found", section):
        empty(f"{what} does not exist in this workspace, or was deleted.")


MOST_FIELDS = 100


class Form:
    """Fields with their types, ranges, choices and descriptions; what is typed is checked at once."""

    def __init__(self, fields: Sequence[Field]) -> None:
        if len(fields) > MOST_FIELDS:
            ui.label(f"The first {MOST_FIELDS} of {len(fields):,} inputs are shown.").classes("ws-soft")
        fields = fields[:MOST_FIELDS]
        self._fields = {field.name: field for field in fields}
        self._elements: dict[str, ValueElement[Any]] = {}
        with ui.element("div").classes("ws-form"):
            for field in fields:
                with ui.element("div").classes("ws-field"):
                    self._elements[field.name] = _draw(field)
                    if field.hint:
                        ui.label(cut(field.hint)).classes("ws-sub")
                    if field.description:
                        ui.label(cut(field.description)).classes("ws-sub ws-text")

    @property
    def values(self) -> dict[str, str]:
        """What the fields hold, as text."""
        values = {name: element.value for name, element in self._elements.items()}
        return {name: "" if value is None else value_text(value) for name, value in values.items()}

    @property
    def faults(self) -> dict[str, str]:
        """Why fields cannot have the values that they hold."""
        checked = {name: check_value(field, self.values[name]) for name, field in self._fields.items()}
        return {name: fault for name, fault in checked.items() if fault is not None}


def _draw(field: Field) -> ValueElement[Any]:
    label = field.name if field.optional or not field.type else f"{field.name} *"
    if field.type == "boolean":
        return ui.checkbox(field.name, value=field.default.lower() == "true")
    if field.choices:
        choices = dict.fromkeys(field.choices)
        options = {choice: choice for choice in choices}
        if field.optional:
            options = {"": "Not set", **options}
        value = field.default if field.default in options else None
        return ui.select(options, label=label, value=value).props("outlined dense options-dense")
    element = ui.input(label, value=field.default, validation=lambda text: check_value(field, text or ""))
    element.props("outlined dense no-error-icon hide-bottom-space")
    if field.type in ("integer", "number"):
        element.props(f"inputmode={'numeric' if field.type == 'integer' else 'decimal'}")
    return element


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


class Column(Struct, frozen=True):
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


NONE = "–"
SHORT, LONG = 300, 100_000  # characters of a text in a line, and of a whole document
_TONES = {
    "Completed": "good",
    "Finished": "good",
    "Succeeded": "good",
    "Enabled": "good",
    "Disabled": "quiet",
    "Failed": "bad",
    "NotResponding": "bad",
    "Canceled": "quiet",
    "NotStarted": "quiet",
    "Running": "busy",
    "Finalizing": "busy",
}
_WORDS = {
    "NotStarted": "Not started",
    "CancelRequested": "Cancel requested",
    "NotResponding": "Not responding",
}


def cut(text: object, most: int = SHORT) -> str:
    """A text that a page can show: its beginning, and how much more there is."""
    words = str(text)
    if len(words) > most:
        words = f"{words[:most]}… ({len(words) - most:,} more characters)"
    return words.encode("utf-8", "backslashreplace").decode()


def document_words(document: Any) -> str:
    """A document as indented JSON, no longer than a page shows."""
    return cut(json.dumps(document, indent=2, ensure_ascii=False), LONG)


def status_words(status: str) -> str:
    """``Cancel requested`` for ``CancelRequested``."""
    return _WORDS.get(status, status)


def status_tone(status: str) -> str:
    """``good``, ``bad``, ``busy``, ``waiting`` or ``quiet``: which colour and sign a state has."""
    return _TONES.get(status, "waiting")


def type_words(kind: str) -> str:
    """``Pipeline`` for ``pipeline``."""
    return kind[:1].upper() + kind[1:]


def duration_words(job: JobRecord) -> str:
    """How long a job has run."""
    seconds = job.seconds()
    return NONE if seconds is None else format_duration(seconds)


def time_words(text: str | None) -> str:
    """A time in UTC, to the second."""
    time = parse_time(text)
    return NONE if time is None else f"{time.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def value_words(value: Any) -> str:
    """A value of a document: text as it is, anything else as JSON."""
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    return cut(json.dumps(value, ensure_ascii=False))


def number_words(value: float | None) -> str:
    """A metric: four significant digits, whole numbers as they are."""
    if value is None:
        return NONE
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e9 else f"{value:.4g}"


def trigger_words(trigger: Mapping[str, Any]) -> str:
    """When a trigger fires: ``cron 0 3 * * 1``, ``every 2 weeks on Monday at 03:00``."""
    if text_of(trigger, "triggerType").lower() == "cron":
        return f"cron {text_of(trigger, 'expression')}"
    pattern = mapping_of(trigger, "schedule")
    unit, interval = text_of(trigger, "frequency").lower() or "time", trigger.get("interval")
    count = interval if isinstance(interval, int) else 1
    words = f"every {unit}" if count == 1 else f"every {plural(count, unit)}"
    if days := _words(pattern, "weekDays") or _words(pattern, "monthDays"):
        words += f" on {'day ' if not pattern.get('weekDays') else ''}{join_words(days, 'and')}"
    hours, minutes = _words(pattern, "hours"), _words(pattern, "minutes") or ["0"]
    times = [
        f"{hour:0>2}:{minute:0>2}" for hour, minute in itertools.islice(itertools.product(hours, minutes), 6)
    ]
    return f"{words} at {join_words(times, 'and')}" if times else words


def _words(document: Mapping[str, Any], key: str) -> list[str]:
    value = document.get(key)
    return [str(item) for item in value[:31]] if isinstance(value, list) else []
