"""The names in a document, as far as its keys show them: its kind, its steps, their components and ports.

It is read from the outline, so that it is known while the document is not valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from lsprotocol import types
from msgspec import Struct

from worldsize.azureml.component import read_component
from worldsize.azureml.files import Files
from worldsize.azureml.model import Component, Port
from worldsize.azureml.references import is_file, local_path, names_built_in
from worldsize.base.resources import built_in_files
from worldsize.base.source import Source
from worldsize.checking.discover import SETTINGS, recognise_kind
from worldsize.documents import yaml
from worldsize.lsp.buffers import Buffer, Session
from worldsize.lsp.outline import Outline, read_outline
from worldsize.lsp.outline import Path as KeyPath

_NATIVE = re.compile(r"(?P<what>pipeline|command|sweep|spark|parallel)(?P<kind>Job|Component)\.schema\.json")


class Names(Struct, dict=True, eq=False):
    """The names in one document; ``source`` is its text, or nearly, while a line is typed."""

    session: Session
    buffer: Buffer
    source: Source

    @property
    def text(self) -> str:
        """The text of the document."""
        return self.source.text

    @property
    def path(self) -> str:
        """The path of the document."""
        return self.buffer.path

    @property
    def folder(self) -> Path:
        """The folder that paths in the document start at."""
        return Path(self.path).parent

    def to_range(self, start: int, end: int) -> types.Range:
        """The range of a part of the text."""
        return self.session.buffers.positions.to_range(self.buffer.source, start, end)

    @cached_property
    def outline(self) -> Outline:
        """The keys of the text."""
        return read_outline(self.text)

    @cached_property
    def kind(self) -> str:
        """``spec``, ``settings``, a kind of Azure ML's files, or nothing."""
        if Path(self.path).name in SETTINGS:
            return "settings"
        top = self.outline.children(())
        if "steps" in top and "jobs" not in top:
            return "spec"
        kind = recognise_kind(yaml.load(self.path, self.text), named=True)
        if kind is not None:
            return kind
        schema = _NATIVE.search(self.outline.value("$schema") or "")
        if schema is not None:
            return f"{schema['what']}-{schema['kind'].lower()}"
        if "spec.schema.json" in self.text or ("compute" in top and "name" in top):
            return "spec"
        return "pipeline-job" if "jobs" in top else ""

    @property
    def is_spec(self) -> bool:
        """Whether the document is a spec rather than a file of Azure ML."""
        return self.kind == "spec"

    @property
    def steps_key(self) -> str:
        """The key that the steps stand under."""
        return "steps" if self.is_spec else "jobs"

    @property
    def inputs_key(self) -> str:
        """The key of a step that the values for its inputs stand under."""
        return "with" if self.is_spec else "inputs"

    @property
    def steps(self) -> list[str]:
        """The names of the steps, in their order."""
        return self.outline.children((self.steps_key,))

    def key_of(self, side: str) -> str:
        """The key of a step that the values for its inputs or outputs stand under."""
        return self.inputs_key if side == "inputs" else "outputs"

    def find_side(self, path: KeyPath) -> str | None:
        """``inputs`` or ``outputs`` for a path that leads to those of a step, else None."""
        if len(path) < 3 or path[0] != self.steps_key or path[2] not in (self.inputs_key, "outputs"):
            return None
        return "outputs" if path[2] == "outputs" else "inputs"

    def find_port(self, path: KeyPath) -> Port | None:
        """The input or output of a component that a key of a step gives a value."""
        side = self.find_side(path)
        return self.list_ports(str(path[1]), side).get(str(path[3])) if side and len(path) == 4 else None

    def find_step(self, path: KeyPath) -> str | None:
        """The step that a path leads into."""
        return str(path[1]) if len(path) > 1 and path[0] == self.steps_key else None

    def find_reference(self, step: str) -> str | None:
        """The text that names the component of a step."""
        keys = ("uses",) if self.is_spec else ("component", "trial")
        return next((text for key in keys if (text := self.outline.value(self.steps_key, step, key))), None)

    def find_component_file(self, text: str) -> Path | None:
        """The file of a component that a step names, if there is one here."""
        if self.is_spec and names_built_in(text):
            return built_in_files().get(text)
        path = local_path(text, self.folder)
        return path if path is not None and is_file(path) else None

    def read_component(self, step: str) -> Component | None:
        """The component of a step; None if the step has a command of its own, or an unknown component."""
        reference = self.find_reference(step)
        file = self.find_component_file(reference) if reference is not None else None
        if file is None:
            return None
        files = Files(texts={})
        for path, text in self.session.buffers.texts().items():
            files.texts[files.real(Path(path))] = text
        return read_component(file, files)[0]

    def list_ports(self, step: str, side: str) -> Mapping[str, Port | None]:
        """The inputs or outputs of a step: of its component, else those that the step itself declares."""
        component = self.read_component(step)
        if component is not None:
            return dict(component.inputs if side == "inputs" else component.outputs)
        return dict.fromkeys(self.outline.children((self.steps_key, step, self.key_of(side))))

    def list_bindings(self, step: str | None) -> Iterator[tuple[str, str]]:
        """The names that ``${{…}}`` may have in a step, each with what it is."""
        for name in self.outline.children(("inputs",)):
            yield f"parent.inputs.{name}", "input of the pipeline"
        for other in self.steps:
            if other == step:
                continue
            for name, port in self.list_ports(other, "outputs").items():
                yield f"parent.jobs.{other}.outputs.{name}", port.type if port is not None else "output"

    def list_own_ports(self, step: str | None) -> Iterator[tuple[str, str]]:
        """The names that a command may use: the inputs and outputs of its own step, or of its own file."""
        base: KeyPath = (self.steps_key, step) if step is not None else ()
        owner = "step" if step is not None else "file"
        for side in ("inputs", "outputs"):
            for name in self.outline.children((*base, self.key_of(side) if base else side)):
                yield f"{side}.{name}", f"{side[:-1]} of this {owner}"
        for name in self.outline.children((*base, "search_space")):
            yield f"search_space.{name}", "searched over by the sweep"


def open_names(session: Session, buffer: Buffer, position: types.Position) -> tuple[Names, int] | None:
    """The names in an open document, and the offset of a position; None for a file of another kind."""
    if not buffer.is_yaml:
        return None
    names = Names(session, buffer, buffer.source)
    return (names, session.buffers.positions.to_offset(buffer.source, position)) if names.kind else None
