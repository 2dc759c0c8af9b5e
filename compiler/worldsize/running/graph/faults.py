"""Why a step cannot be run here: one sentence each, at its place in the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from worldsize.azureml.model import Field
from worldsize.base.problem import Problem
from worldsize.base.span import Span

SUBMIT = "submit the pipeline to Azure ML, or do the same in a `command` step"
KINDS = {
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
    "do_while": ("a loop that the service itself decides on", "write its steps out as often as they run"),
    "if_else": ("a condition that the service itself decides on", "leave only the branch that is to run"),
    "parallel_for": ("a loop that the service itself unrolls", "write its steps out as often as they run"),
    "finetuning": ("a fine-tuning job, which runs on models of the service", SUBMIT),
}


@dataclass(slots=True)
class Faults:
    """Everything that keeps a pipeline from running here, in the order it is found."""

    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    _said: set[tuple[Span, str]] = field(default_factory=set)

    def refuse(self, span: Span, message: str, help_: str, at: Field[Any] | None = None) -> None:
        """Report a reason not to run, at a field where there is one."""
        self.add(Problem("run-refused", (at and at.span) or span, message, help_))

    def add(self, problem: Problem) -> None:
        """Report a problem; a component that is used twice has its own faults once."""
        key = (problem.span, problem.help or problem.message)
        if key not in self._said:
            self._said.add(key)
            self.problems.append(problem)


def of_kind(name: str, kind: str) -> tuple[str, str]:
    """The sentence and the help for a step of a kind that is not run here."""
    if kind in KINDS:
        what, help_ = KINDS[kind]
        return f"step `{name}` is {what}", help_
    return f"step `{name}` is of type `{kind}`, which is not run here", SUBMIT
