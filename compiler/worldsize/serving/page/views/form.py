"""A form made of fields, as the designer shows it for a component and Studio for a job's inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.value_element import ValueElement

from worldsize.serving.page.queries.forms import Field, check_value
from worldsize.serving.page.queries.wording import cut

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
        return {name: _text(element.value) for name, element in self._elements.items()}

    @property
    def faults(self) -> dict[str, str]:
        """Why fields cannot have the values that they hold."""
        found = {name: check_value(field, self.values[name]) for name, field in self._fields.items()}
        return {name: fault for name, fault in found.items() if fault is not None}


def _draw(field: Field) -> ValueElement[Any]:
    label = field.name if field.optional or not field.type else f"{field.name} *"
    if field.type == "boolean":
        return ui.checkbox(field.name, value=field.default.lower() == "true")
    if field.choices:
        choices = dict.fromkeys(field.choices)
        options = {each: each for each in choices}
        if field.optional:
            options = {"": "Not set", **options}
        value = field.default if field.default in options else None
        return ui.select(options, label=label, value=value).props("outlined dense options-dense")
    element = ui.input(label, value=field.default, validation=lambda text: check_value(field, text or ""))
    element.props("outlined dense no-error-icon hide-bottom-space")
    if field.type in ("integer", "number"):
        element.props(f"inputmode={'numeric' if field.type == 'integer' else 'decimal'}")
    return element


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
