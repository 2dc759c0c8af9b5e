"""Where the value of an input comes from: a literal, data on this machine, or another step's output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldsize.azureml import binding, literals
from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Argument, Binding, Data, Field, Job, Literal, Port
from worldsize.azureml.references import kind, local_path

ARTIFACTS = "artifacts"  # an output that every job has: the folder with its ./outputs and ./logs


@dataclass(frozen=True, slots=True)
class Text:
    """A literal."""

    value: Any

    @property
    def rendered(self) -> str:
        """As Azure ML puts it on a command line."""
        return literals.render(self.value)


@dataclass(frozen=True, slots=True)
class File:
    """A file or folder on this machine."""

    path: Path


@dataclass(frozen=True, slots=True)
class Output:
    """An output of another step."""

    step: str
    port: str


Source = Text | File | Output


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an input has no source here; the message continues ``input `x` of step `y` …``."""

    message: str
    help: str


Traced = tuple[Source | None, Reason | None]


def steps_of(source: Source) -> Iterator[str]:
    """The steps that must have run before."""
    if isinstance(source, Output):
        yield source.step


def trace(job: Job, argument: Argument, port: Port) -> Traced:
    """Follow an argument of a step to where its value comes from."""
    return _trace(job, argument, is_data=port.is_data, seen=frozenset())


def default(port: Port) -> Text:
    """The default of an input, read as its type: 10.7 of an integer is 10, as azure-ai-ml reads it."""
    assert port.default is not None
    value = port.default.value
    number = literals.number(value)
    if port.type == "number" and number is not None:
        return Text(float(number))
    if port.type == "integer" and number is not None:
        return Text(int(number))
    return Text(value)


def literal(job: Job, value: Any) -> Source | None:
    """A setting that may be bound to an input of the pipeline."""
    argument: Argument = Literal(value)
    if (expression := binding.whole(value)) is not None:
        argument = Binding(expression)
    return _trace(job, argument, is_data=False, seen=frozenset())[0]


def _trace(job: Job, argument: Argument, *, is_data: bool, seen: frozenset[str]) -> Traced:
    if isinstance(argument, Binding):
        return _bound(job, argument.expression, is_data=is_data, seen=seen)
    if isinstance(argument, Data):
        return _data(job, argument.path.value if argument.path else None)
    if isinstance(argument.value, str) and is_data:
        return _data(job, argument.value)
    if isinstance(argument.value, str) and (found := binding.find(argument.value)):
        return None, Reason(
            f"holds `{found[0]}` inside a longer text, which is not resolved here",
            "bind the input to the expression alone and put the text into the command",
        )
    if isinstance(argument.value, dict | list):
        return None, Reason(
            "is a group or a list, which is not supported here", "give its members one by one"
        )
    return Text(argument.value), None


def _bound(job: Job, expression: Expression, *, is_data: bool, seen: frozenset[str]) -> Traced:
    if expression.name in seen:
        return None, Reason(f"is bound to itself through `{expression}`", "bind it to what makes the value")
    source: Field[Argument] | None = None
    port = expression.port or ""
    step = job.steps.get(expression.step or "")
    if expression.scope == "parent.inputs":
        source = job.inputs.get(port)
    elif step is not None and expression.side == "outputs":
        declared = step.component.outputs if step.component else {}
        if port in declared or port == ARTIFACTS:
            return Output(step.name, port), None
    elif step is not None and expression.side == "inputs":
        source = step.inputs.get(port)
        declared_inputs = step.component.inputs if step.component else {}
        if source is None and port in declared_inputs and declared_inputs[port].default is not None:
            return default(declared_inputs[port]), None
    if source is None:
        return None, Reason(f"is bound to `{expression}`, which does not exist", "bind it to what does")
    return _trace(job, source.value, is_data=is_data, seen=seen | {expression.name})


def _data(job: Job, text: Any) -> Traced:
    """Data by its path, relative to the job's file."""
    if not isinstance(text, str):
        return None, Reason("has no path", "give `path:` a file or folder of this machine")
    path = local_path(text, job.path.parent if job.path else Path())
    if path is None:
        what = "a datastore or asset" if kind(text) == "asset" else "a web address"
        return None, Reason(
            f"is `{text}`, {what} that this machine does not have", "give a local path to run here"
        )
    if not path.exists():
        return None, Reason(f"is `{text}`, which does not exist", "the path is relative to the job's file")
    return File(path), None
