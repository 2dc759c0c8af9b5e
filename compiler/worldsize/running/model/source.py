"""The sources of an input's value: a literal, data on this machine, or another step's output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.azureml import literals
from worldsize.azureml.model import Port
from worldsize.documents.secrecy.names import is_secret

ARTIFACTS = "artifacts"  # an output that every job has: the folder with its ./outputs and ./logs


class Text(Struct, frozen=True):
    """A literal. It is ``secret`` if it passed through an input with the name of a secret."""

    value: Any
    secret: bool = False

    @property
    def rendered(self) -> str:
        """As Azure ML puts it on a command line."""
        return literals.render_literal(self.value)


class File(Struct, frozen=True):
    """A file or folder on this machine; ``type`` is its type in the job, if it has one."""

    path: Path
    type: str | None = None


class Output(Struct, frozen=True):
    """An output of another step; that of a number or text is a file, whose content is the value."""

    step: str
    port: str
    is_value: bool = False


class RunName(Struct, frozen=True):
    """The name of the job, ``${{name}}``, which is known when it runs."""


class Joined(Struct, frozen=True):
    """Several values written one after the other: ``${{parent.jobs.a.outputs.o}}/best``."""

    parts: tuple[Part, ...]


Part = Text | File | Output | RunName
Source = Part | Joined


def list_parts(source: Source) -> tuple[Part, ...]:
    """The parts of a joined source, or the source itself."""
    return source.parts if isinstance(source, Joined) else (source,)


def list_steps(source: Source) -> Iterator[str]:
    """The steps whose outputs a source reads."""
    for part in list_parts(source):
        if isinstance(part, Output):
            yield part.step


def is_text(source: Source) -> bool:
    """Whether a source is a literal on the command line rather than the path of data."""
    return all(
        isinstance(part, Text | RunName) or (isinstance(part, Output) and part.is_value)
        for part in list_parts(source)
    )


def read_default(port: Port) -> Text:
    """The default of an input, read as its type: 10.7 of an integer is 10, as azure-ai-ml reads it."""
    assert port.default is not None
    value, secret = port.default.value, is_secret(port.name)
    number = literals.parse_number(value)
    if port.type == "number" and number is not None:
        return Text(float(number), secret)
    if port.type == "integer" and number is not None:
        return Text(int(number), secret)
    return Text(value, secret)


class StepValues(Struct, frozen=True):
    """The values of the placeholders of a command.

    ``literals`` are rendered as Azure ML renders them; ``data`` are paths of inputs; ``absent`` are
    optional inputs without a value.
    """

    literals: Mapping[str, str]
    data: Mapping[str, str]
    absent: frozenset[str]
    outputs: Mapping[str, str]

    @property
    def inputs(self) -> dict[str, str | None]:
        """Every input by name, None for an absent one."""
        return {**self.literals, **self.data, **dict.fromkeys(self.absent)}
