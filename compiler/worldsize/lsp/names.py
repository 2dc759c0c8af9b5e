"""The names in a document, as far as its keys show them: its kind, its steps, their components and ports.

It is read from the outline, so that it is known while the document is not valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from worldsize.azureml.component import read_component
from worldsize.azureml.files import Files
from worldsize.azureml.model import Component, Port
from worldsize.azureml.references import is_file, local_path, names_built_in
from worldsize.base.resources import built_in_files
from worldsize.checking.discover import SETTINGS, recognise_kind
from worldsize.documents import yaml
from worldsize.lsp.buffers import Buffers
from worldsize.lsp.outline import Outline, read_outline
from worldsize.lsp.outline import Path as KeyPath

_NATIVE = re.compile(r"(?P<what>pipeline|command|sweep|spark|parallel)(?P<kind>Job|Component)\.schema\.json")


class Names(Struct, dict=True, eq=False):
    """The names in one document."""

    path: str
    text: str
    buffers: Buffers

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

    def find_step(self, path: KeyPath) -> str | None:
        """The step that a path leads into."""
        return str(path[1]) if len(path) > 1 and path[0] == self.steps_key else None

    def find_reference(self, step: str) -> tuple[str, KeyPath] | None:
        """The text that names the component of a step, and its path."""
        for key in ("uses",) if self.is_spec else ("component", "trial"):
            path = (self.steps_key, step, key)
            text = self.outline.value(*path)
            if text:
                return text, path
        return None

    def find_component_file(self, text: str) -> Path | None:
        """The file of a component that a step names, if there is one here."""
        if self.is_spec and names_built_in(text):
            return built_in_files().get(text)
        path = local_path(text, Path(self.path).parent)
        return path if path is not None and is_file(path) else None

    def read_component(self, step: str) -> Component | None:
        """The component of a step; None if the step has a command of its own, or an unknown component."""
        reference = self.find_reference(step)
        file = self.find_component_file(reference[0]) if reference is not None else None
        if file is None:
            return None
        files = Files(texts={})
        for path, text in self.buffers.texts().items():
            files.texts[files.real(Path(path))] = text
        return read_component(file, files)[0]

    def list_ports(self, step: str, side: str) -> Mapping[str, Port | None]:
        """The inputs or outputs of a step: of its component, else those that the step itself declares."""
        component = self.read_component(step)
        if component is not None:
            return dict(component.inputs if side == "inputs" else component.outputs)
        key = self.inputs_key if side == "inputs" else "outputs"
        return dict.fromkeys(self.outline.children((self.steps_key, step, key)))

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
        inputs = self.inputs_key if step is not None else "inputs"
        for side, key in (("inputs", inputs), ("outputs", "outputs")):
            for name in self.outline.children((*base, key)):
                yield f"{side}.{name}", f"{side[:-1]} of this {'step' if step is not None else 'file'}"
        for name in self.outline.children((*base, "search_space")):
            yield f"search_space.{name}", "searched over by the sweep"
