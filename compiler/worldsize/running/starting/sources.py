"""What the value of an input is: a literal, data on this machine, or another step's output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldsize.azureml import literals
from worldsize.azureml.model import Port
from worldsize.secrecy.names import is_secret

ARTIFACTS = "artifacts"  # an output that every job has: the folder with its ./outputs and ./logs


@dataclass(frozen=True, slots=True)
class Text:
    """A literal. It is ``secret`` where a name on its way says so, whatever its last port is called."""

    value: Any
    secret: bool = False

    @property
    def rendered(self) -> str:
        """As Azure ML puts it on a command line."""
        return literals.render(self.value)


@dataclass(frozen=True, slots=True)
class File:
    """A file or folder on this machine; ``type`` is what the job says that it is, if it does."""

    path: Path
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """An output of another step."""

    step: str
    port: str


@dataclass(frozen=True, slots=True)
class RunName:
    """The name of the job, which is known once it runs: ``${{name}}``."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Several values written one after the other: ``${{parent.jobs.a.outputs.o}}/best``."""

    parts: tuple[Part, ...]


Part = Text | File | Output | RunName
Source = Part | Joined


def parts_of(source: Source) -> tuple[Part, ...]:
    """What a source is made of: itself, or what is joined in it."""
    return source.parts if isinstance(source, Joined) else (source,)


def steps_of(source: Source) -> Iterator[str]:
    """The steps that must have run before."""
    for part in parts_of(source):
        if isinstance(part, Output):
            yield part.step


def is_text(source: Source) -> bool:
    """Whether a source is a literal on the command line rather than the path of data."""
    return all(isinstance(part, Text | RunName) for part in parts_of(source))


def default(port: Port) -> Text:
    """The default of an input, read as its type: 10.7 of an integer is 10, as azure-ai-ml reads it."""
    assert port.default is not None
    value, secret = port.default.value, is_secret(port.name)
    number = literals.number(value)
    if port.type == "number" and number is not None:
        return Text(float(number), secret)
    if port.type == "integer" and number is not None:
        return Text(int(number), secret)
    return Text(value, secret)
