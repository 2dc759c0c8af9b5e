"""The steps of a pipeline that can be run here, each input traced to its source.

A source is a literal, data on this machine, or the output of another step.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml import binding, literals
from worldsize.azureml.command_launchers import count_processes, find_launcher_call
from worldsize.azureml.model import Component, Port, Step
from worldsize.azureml.sweep import multiply_step
from worldsize.base.span import Span
from worldsize.documents.secrecy.names import is_secret
from worldsize.running.model.process import Scale

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


KINDS = ("command", "sweep", "parallel")

CHECKPOINTS = "checkpoints"  # the output from which a step's next attempt resumes


class Task(Scale, frozen=True):
    """One step that can be run here.

    ``inputs`` holds every declared input; None is an optional one without a value. ``outputs`` gives
    the type of each output. ``timeout`` is in seconds.
    """

    name: str
    component: Component
    folder: Path  # the component's code is relative to it
    gpus_per_process: int = 1  # if the machine has any
    inputs: Mapping[str, Source | None] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    display_name: str | None = None
    timeout: int | None = None
    kind: str = "command"  # one of KINDS
    step: Step | None = None  # as in the file
    span: Span | None = None  # of its name there

    @property
    def command(self) -> str:
        """The command with its placeholders."""
        assert self.component.command is not None
        return str(self.component.command.value)

    @property
    def launched_processes(self) -> int:
        """What a launcher in the command starts for each of them; 1 without one."""
        return count_launched(self.command, self.inputs, self.instance_count) if self.component.command else 1

    @property
    def rank_count(self) -> int:
        """Processes that train, also those that a launcher in the command starts."""
        return self.world_size * self.launched_processes

    def read_text(self, name: str) -> str | None:
        """The text that is given for an input, if it is a literal."""
        source = self.inputs.get(name)
        return source.rendered if isinstance(source, Text) else None

    def read_number(self, name: str) -> float | None:
        """The number that is given for an input, if it is one."""
        source = self.inputs.get(name)
        return literals.parse_number(source.value) if isinstance(source, Text) else None

    def read_count(self, name: str) -> int | None:
        """The whole number above 0 that is given for an input, if it is one."""
        number = self.read_number(name)
        return int(number) if number is not None and number == int(number) and number > 0 else None

    @property
    def needs(self) -> frozenset[str]:
        """The steps whose outputs this one reads."""
        return frozenset(name for source in self.inputs.values() if source for name in list_steps(source))

    def requires(self, step: str) -> bool:
        """Whether a required input reads an output of a step."""
        return any(
            step in list_steps(source)
            for name, source in self.inputs.items()
            if source is not None and not self._may_miss(name)
        )

    def without(self, failed: Collection[str]) -> Task:
        """The task once steps have failed: optional inputs that read their outputs have no value."""
        inputs = {
            name: None
            if self._may_miss(name) and source and not set(failed).isdisjoint(list_steps(source))
            else source
            for name, source in self.inputs.items()
        }
        return replace(self, inputs=inputs)

    def _may_miss(self, name: str) -> bool:
        port = self.component.inputs.get(name)
        return port is not None and port.optional


def keeps_checkpoints(task: Task) -> bool:
    """Whether a step declares the output from which another attempt resumes."""
    return CHECKPOINTS in task.outputs


class Graph(Struct, frozen=True):
    """The tasks of a pipeline."""

    tasks: Mapping[str, Task]  # by name; those of a pipeline component are called `outer.inner`
    outputs: Mapping[str, Output]  # what the pipeline itself declares, and the step's output that it is
    notices: tuple[str, ...] = ()  # what to say before it runs
    sweeps: Mapping[str, SweepPlan] = field(default_factory=dict)  # what each step of kind `sweep` tries
    keep_going: bool = False  # whether steps that do not need a failed one still run
    force_rerun: bool = False  # whether no step takes over what an earlier run has made
    secrets: frozenset[str] = frozenset()  # values that came through a name which says that they are secret


def count_launched(command: str, inputs: Mapping[str, Source | None], instances: int) -> int:
    """How many processes each process of a step starts: 1 if its command calls no launcher with a count."""
    call = find_launcher_call(command)
    if call is None:
        return 1

    def read_number(text: str) -> float | None:
        expression = binding.parse_expression(text)
        if expression is None:
            return literals.parse_number(text)
        source = inputs.get(expression.port or "") if expression.scope == "inputs" else None
        return literals.parse_number(source.value) if isinstance(source, Text) else None

    return count_processes(call, read_number, devices=None, instances=instances).starts or 1


Value = str | int | float | bool

SMALLEST = 2.0**-53  # keeps the inverse of the normal distribution finite
LARGEST_EXPONENT = 700.0  # of e, before a double overflows

Goal = Literal["minimize", "maximize"]
Algorithm = Literal["random", "sobol", "grid", "bayesian"]


class Parameter(Struct, frozen=True):
    """One parameter.

    ``first`` and ``second`` are min_value and max_value, or mu and sigma, of the kind; a randint has its
    ``upper`` in ``second``.
    """

    name: str
    kind: str
    values: tuple[Value, ...] = ()
    first: float = 0.0
    second: float = 0.0
    q: float | None = None
    base: float = math.e  # of the logarithmic kinds
    whole: bool = False  # every setting is an integer, and so is every value

    def at(self, position: float) -> Value:
        """The value at a position of the cumulative distribution, in [0, 1)."""
        if self.kind == "choice":
            return self.values[min(int(position * len(self.values)), len(self.values) - 1)]
        if self.kind == "randint":
            return min(int(position * self.second), int(self.second) - 1)
        return self.finish(self._draw_plain(position))

    def finish(self, drawn: float) -> Value:
        """Transform a draw from the underlying uniform or normal distribution."""
        if "log" in self.kind:
            drawn = math.exp(min(drawn * math.log(self.base), LARGEST_EXPONENT))
        if self.q is None:
            return drawn
        return multiply_step(round(drawn / self.q), self.q, whole=self.whole)

    def _draw_plain(self, position: float) -> float:
        if "normal" not in self.kind:
            return self.first + (self.second - self.first) * position
        if self.second == 0:
            return self.first
        return NormalDist(self.first, self.second).inv_cdf(min(max(position, SMALLEST), 1 - SMALLEST))


class EarlyTermination(Struct, frozen=True):
    """A policy as written; settings that its kind does not use keep their defaults."""

    kind: Literal["bandit", "median_stopping", "truncation_selection"]
    evaluation_interval: int = 1
    delay_evaluation: int = 0
    slack_factor: float | None = None
    slack_amount: float | None = None
    truncation_percentage: int = 0
    exclude_finished_jobs: bool = False

    def last_due(self, logged: int) -> int:
        """The latest interval at which the policy applies, by the number of logged intervals; 0 if none."""
        due = logged - logged % self.evaluation_interval
        return due if due >= self.delay_evaluation else 0


class SweepPlan(Struct, frozen=True):
    """A sweep. Times are in seconds; None is without limit."""

    parameters: tuple[Parameter, ...]
    algorithm: Algorithm
    goal: Goal
    primary_metric: str
    max_total_trials: int
    max_concurrent_trials: int
    seed: int = 0  # the same trials each time, unless another one is given
    timeout: int | None = None
    trial_timeout: int | None = None
    policy: EarlyTermination | None = None

    @property
    def names(self) -> frozenset[str]:
        """The inputs of the trial that the sweep sets, so that the step need not."""
        return frozenset(parameter.name for parameter in self.parameters)
