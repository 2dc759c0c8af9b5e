"""The scripts that a service starts without a command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from worldsize.azureml.model import Component
from worldsize.azureml.references import folder_of
from worldsize.documents.yaml.nodes import Scalar, find_node

_ENTRIES = {"spark": ("entry", "file"), "deployment": ("code_configuration", "scoring_script")}


def find_entry_scripts(component: Component) -> Iterator[tuple[Scalar, Scalar | None, Path]]:
    """The entry of a parallel task, Spark job or deployment, its code and the folder of the code's path."""
    kind, key = _ENTRIES.get(component.type.lower(), ("task", "entry_script"))
    entry = find_node(component.raw, kind, key)
    code = find_node(component.raw, kind, "code") or find_node(component.raw, "code")
    if isinstance(entry, Scalar) and isinstance(entry.value, str) and "${{" not in entry.text:
        yield entry, code if isinstance(code, Scalar) else None, folder_of(entry)
