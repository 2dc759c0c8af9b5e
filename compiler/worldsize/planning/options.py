"""Reads inputs, strategy and degrees of a step, and finds the spans to report them at."""

from __future__ import annotations

from typing import Any

from worldsize.azureml import literals
from worldsize.base.span import Span
from worldsize.planning.model import Interface
from worldsize.spec.model import Located, Step


def read_option(step: Step, interface: Interface | None, name: str) -> Any:
    """The value of an input in the step, else the component's default; None if there is neither."""
    setting = step.with_.get(name)
    if setting is not None:
        return setting.value
    return interface.inputs.get(name) if interface is not None else None


def read_count(step: Step, interface: Interface | None, name: str) -> int | None:
    """An input that counts something, at least 1; None if it is unknown or not such a number."""
    number = literals.parse_number(read_option(step, interface, name))
    return int(number) if number is not None and number >= 1 and number == int(number) else None


def named_strategy(step: Step) -> Located[Any] | None:
    """The strategy that the step names; None if it names none or binds it."""
    setting = step.with_.get("strategy")
    named = setting is not None and isinstance(setting.value, str) and "${{" not in setting.value
    return setting if named else None


def pinned_degree(step: Step, name: str) -> Located[int] | None:
    """A degree as the step pins it, by its name under ``parallelism:``."""
    degree: Located[int] | None = getattr(step.parallelism, name) if step.parallelism is not None else None
    return degree


def degree_span(step: Step, name: str) -> Span:
    """The span of a degree: where it is pinned, else what it is derived from."""
    pinned, named = pinned_degree(step, name), named_strategy(step)
    if pinned is not None:
        return pinned.span
    if named is not None:
        return named.span
    return step.parallelism.span if step.parallelism is not None else step.span


def option_span(step: Step, name: str) -> Span:
    """The span of an input, else of the component's name, whose default applies."""
    setting = step.with_.get(name)
    if setting is not None:
        return setting.span
    return step.uses.span if step.uses is not None else step.span
