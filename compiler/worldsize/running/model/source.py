"""What the value of an input is: a literal, data on this machine, or another step's output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from worldsize.azureml import literals
from worldsize.azureml.model import Port
from worldsize.base.problem import Problem
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
        return literals.render_literal(self.value)


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


def list_parts(source: Source) -> tuple[Part, ...]:
    """What a source is made of: itself, or what is joined in it."""
    return source.parts if isinstance(source, Joined) else (source,)


def list_steps(source: Source) -> Iterator[str]:
    """The steps that must have run before."""
    for part in list_parts(source):
        if isinstance(part, Output):
            yield part.step


def is_text(source: Source) -> bool:
    """Whether a source is a literal on the command line rather than the path of data."""
    return all(isinstance(part, Text | RunName) for part in list_parts(source))


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


class Assets(Protocol):
    """Says where data, components and code that only a workspace has lie on this machine."""

    def local(self, text: str) -> Path | None:
        """The path of a reference, None where nothing is known of it."""

    def missing(self, text: str, what: str = "data") -> str:
        """What to write to make a reference known."""

    def check_type(self, path: Path, type_: str, what: str) -> None:
        """Check a path that :meth:`local` gave against the type of the data that it stands for."""

    @property
    def problems(self) -> list[Problem]:
        """What is wrong with the entries that were asked for."""


@dataclass(frozen=True, slots=True)
class StepValues:
    """What the placeholders of a command stand for.

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
