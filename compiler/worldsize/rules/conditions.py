"""Conditions without which some rules have nothing to check; their modules are then not imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from worldsize.azureml.fields import read_command
from worldsize.azureml.model import Binding

if TYPE_CHECKING:
    from worldsize.azureml.model import Component
    from worldsize.rules.context import Context

Subjects = Mapping[str, Sequence[tuple[Any, Any]]]
Condition = Literal["bound-input", "bound-output", "script", "deepspeed"]

_STARTS_PYTHON = re.compile(r"python|torchrun|deepspeed|accelerate|horovodrun|mpirun|mpiexec|\.sh\b")


def bound_input(_context: Context, subjects: Subjects) -> bool:
    """A step with an input that was bound by hand; what is wired by name cannot be wrong."""
    return any(
        isinstance(field.value, Binding) and field.span is not None
        for job, _ in subjects.get("Job", ())
        for step in job.steps.values()
        for field in step.inputs.values()
    )


def bound_output(_context: Context, subjects: Subjects) -> bool:
    """A pipeline with outputs, or a step with an output that is bound to one of the pipeline."""
    return any(
        job.interface is not None
        or job.outputs
        or any(
            field.value.binding is not None for step in job.steps.values() for field in step.outputs.values()
        )
        for job, _ in subjects.get("Job", ())
    )


def script(context: Context, subjects: Subjects) -> bool:
    """A command, not of a built-in component, that may start a Python script."""
    used = (step.component for job, _ in subjects.get("Job", ()) for step in job.steps.values())
    if any(_starts_python(component) and not context.is_built_in(component) for component in used):
        return True
    return any(_starts_python(component) for component, _ in subjects.get("Component", ()))


def deepspeed(context: Context, subjects: Subjects) -> bool:
    """A step that may name a configuration of DeepSpeed, in its command or script or as an input."""
    jobs = [job for job, _ in subjects.get("Job", ())]
    if any(
        "ds_config" in step.inputs or _names_deepspeed(step.component)
        for job in jobs
        for step in job.steps.values()
    ):
        return True
    if not script(context, subjects):
        return False
    from worldsize.scripts.program import find_programs  # parses Python, once for all rules

    return any(program.says("deepspeed") for job in jobs for program in find_programs(context, job))


def _names_deepspeed(component: Component | None) -> bool:
    command = read_command(component)
    return "deepspeed" in command or "ds_config" in command


def _starts_python(component: Component | None) -> bool:
    return _STARTS_PYTHON.search(read_command(component)) is not None


CONDITIONS: dict[str, Callable[[Context, Subjects], bool]] = {
    "bound-input": bound_input,
    "bound-output": bound_output,
    "script": script,
    "deepspeed": deepspeed,
}
