"""What all pages share: the header with its navigation, headings, facts, states and empty places."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from nicegui import Client, ui
from nicegui.element import Element
from nicegui.elements.mixins.value_element import ValueElement

from worldsize.serving.page.queries.forms import Field, check_value, value_text
from worldsize.serving.page.queries.wording import LONG, cut, status_tone, status_words
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
    workspace: Workspace, title: str, section: str, crumbs: Sequence[tuple[str, str]] = ()
) -> Iterator[None]:
    """One page: its header, the way to it, and its heading; what follows is its content.

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
        heading("Not found", 1)
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
