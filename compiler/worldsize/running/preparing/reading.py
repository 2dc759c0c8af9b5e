"""Reading the settings of one step: what is wrong is said at its place in the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from worldsize.azureml import literals
from worldsize.azureml.model import Field, Step
from worldsize.base.problem import Problem
from worldsize.base.span import Span

Default = TypeVar("Default", bound="int | None")


@dataclass(slots=True)
class Reading:
    """What is wrong with a step goes to ``problems``.

    Args:
        step: The step.
        resolve: Turns a setting that is bound to an input of the pipeline into its value; what is no binding
            comes back as it is.
    """

    step: Step
    resolve: Callable[[Any], Any]
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, message: str, help_: str, at: Field[Any] | None = None) -> None:
        """Report a reason not to run, at a field where there is one."""
        span = (at.span if at else None) or self.step.span or Span("pipeline", 1, 1, 1, 1)
        self.problems.append(Problem("run-refused", span, message, help_))

    def whole(self, given: Field[Any] | None, name: str, default: Default, least: int = 1) -> int | Default:
        """A whole number from ``least``; the default where nothing is given, or something else."""
        if given is None or given.value is None:
            return default
        number = literals.number(self.resolve(given.value))
        if number is None or number < least or number != int(number):
            self.refuse(f"`{name}` is `{given.value}`", f"give a whole number from {least}", given)
            return default
        return int(number)
