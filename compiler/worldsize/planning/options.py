"""What the degrees of parallelism depend on besides numbers of processes, and where to point at them."""

from __future__ import annotations

from typing import Any

from worldsize.azureml import literals
from worldsize.base.span import Span
from worldsize.planning.model import Interface
from worldsize.spec.model import Located, Step


def read_option(step: Step, interface: Interface | None, name: str) -> Any:
    """An input as the step gives it, else the component's default; None where neither says it."""
    given = step.with_.get(name)
    if given is not None:
        return given.value
    return interface.inputs.get(name) if interface is not None else None


def read_count(step: Step, interface: Interface | None, name: str) -> int | None:
    """An input that counts something, at least 1; None where it is unknown or no such number."""
    number = literals.parse_number(read_option(step, interface, name))
    return int(number) if number is not None and number >= 1 and number == int(number) else None


def named_strategy(step: Step) -> Located[Any] | None:
    """The strategy that the step names; None where it leaves the choice open or binds it."""
    given = step.with_.get("strategy")
    named = given is not None and isinstance(given.value, str) and "${{" not in given.value
    return given if named else None


def pinned_degree(step: Step, name: str) -> Located[int] | None:
    """A degree as the step pins it, by its name under ``parallelism:``."""
    found: Located[int] | None = getattr(step.parallelism, name) if step.parallelism is not None else None
    return found


def degree_span(step: Step, name: str) -> Span:
    """Where to point at a degree: where it is pinned, else at what it was derived from."""
    pinned, named = pinned_degree(step, name), named_strategy(step)
    if pinned is not None:
        return pinned.span
    if named is not None:
        return named.span
    return step.parallelism.span if step.parallelism is not None else step.span


def option_span(step: Step, name: str) -> Span:
    """Where an input is given, else the name of the component, whose default it is."""
    given = step.with_.get(name)
    if given is not None:
        return given.span
    return step.uses.span if step.uses is not None else step.span
