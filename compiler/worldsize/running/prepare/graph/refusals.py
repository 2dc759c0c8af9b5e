"""Collects why a pipeline cannot run here: the problems of its steps, each at its position in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from worldsize.azureml import fields, literals
from worldsize.azureml.model import Field, OutputSetting, Step
from worldsize.azureml.references import local_path
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.wording import shorten
from worldsize.documents.yaml.nodes import Mapping as YamlMapping

SUBMIT = "submit the pipeline to Azure ML, or do the same in a `command` step"
UNSUPPORTED_KINDS = {
    "spark": ("a Spark job, and no Spark cluster is started here", SUBMIT),
    "automl": ("an AutoML job, whose models are chosen and trained by the service itself", SUBMIT),
    "import": (
        "an import of data from a database or a bucket, which only the service reaches",
        "put the data into a folder and give its path to the steps that read it",
    ),
    "data_transfer": (
        "a transfer of data between stores of the workspace, which only the service reaches",
        "put the data into a folder and give its path to the steps that read it",
    ),
    "do_while": ("a loop that the service itself decides on", "repeat its steps as often as they run"),
    "if_else": ("a condition that the service itself decides on", "keep only the branch that should run"),
    "parallel_for": ("a loop that the service itself unrolls", "repeat its steps as often as they run"),
    "finetuning": ("a fine-tuning job, which runs on models of the service", SUBMIT),
}

Default = TypeVar("Default", bound="int | None")


class Refusals(Struct):
    """All reasons why a pipeline cannot run here, in the order of discovery."""

    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    _reported: set[tuple[Span, str]] = field(default_factory=set)

    def refuse(self, span: Span, message: str, help_: str, at: Field[Any] | None = None) -> None:
        """Report a reason not to run, at a field if one is given."""
        self.add(Problem("run-refused", (at and at.span) or span, message, help_))

    def add(self, *problems: Problem) -> None:
        """Report problems, once for a component that is used repeatedly."""
        for problem in problems:
            key = (problem.span, problem.help or problem.message)
            if key not in self._reported:
                self._reported.add(key)
                self.problems.append(problem)


def describe_unsupported(name: str, kind: str) -> tuple[str, str]:
    """The message and help for a step of a kind that is not run here."""
    if kind in UNSUPPORTED_KINDS:
        what, help_ = UNSUPPORTED_KINDS[kind]
        return f"step `{name}` is {what}", help_
    return f"step `{name}` is of type `{kind}`, which is not run here", SUBMIT


def notice_unwritten_outputs(
    outputs: Mapping[str, Field[OutputSetting]], folder: Path, there: str
) -> Iterator[str]:
    """Say where outputs are that a job wants at local paths; ``there`` is their folder in that of the run."""
    for name, setting in outputs.items():
        path = setting.value.path.value if setting.value.path else None
        if isinstance(path, str) and local_path(path, folder) is not None:
            instead = f"the run's folder has it as `{there}/{name}`"
            yield f"output `{name}` is not written to `{shorten(path)}`: {instead}"


class SettingsReader(Struct):
    """Reads the settings of a step, and collects the problems.

    ``resolve`` replaces a setting that is bound to an input of the pipeline by its value.
    """

    step: Step  # the step
    resolve: Callable[[Any], Any]
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, message: str, help_: str, at: Field[Any] | None = None) -> None:
        """Report a reason not to run, at a field if one is given."""
        span = (at.span if at else None) or self.step.span or Span("pipeline", 1, 1, 1, 1)
        self.problems.append(Problem("run-refused", span, message, help_))

    def read_setting(self, name: str) -> Field[Any] | None:
        """A setting of the step by its name."""
        return fields.read_field(self.step.raw, name) if isinstance(self.step.raw, YamlMapping) else None

    def whole(self, setting: Field[Any] | None, name: str, default: Default, least: int = 1) -> int | Default:
        """A whole number from ``least``; the default if it is absent or wrong."""
        if setting is None or setting.value is None:
            return default
        number = literals.parse_number(self.resolve(setting.value))
        if number is None or number < least or number != int(number):
            self.refuse(f"`{name}` is `{setting.value}`", f"give a whole number from {least}", setting)
            return default
        return int(number)
