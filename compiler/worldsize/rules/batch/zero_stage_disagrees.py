"""The command or step sets a different ZeRO stage than the DeepSpeed configuration."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.azureml.model import Job, Literal
from worldsize.base.problem import Finding, Related
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping
from worldsize.rules.context import Context
from worldsize.rules.shared import deepspeed as _deepspeed


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for use in _deepspeed.find_config_uses(context, job):
        requested = _input(use) if use.known.pinned else _flag(use.launch)
        zero = use.root.get("zero_optimization") if use.root is not None else None
        stage = _deepspeed.read_whole_number(zero, "stage") if isinstance(zero, Mapping) else None
        if requested is not None and stage is not None and stage[0] != requested[0]:
            asked_stage, span, who, other = requested
            message = (
                f"{who} sets ZeRO stage {asked_stage:g}, but the DeepSpeed configuration sets {stage[0]}"
            )
            related = (Related(stage[1].span, "the stage of the configuration"),)
            yield Finding(span, message, f"write {stage[0]}, or remove {other}", related=related)


def _flag(launch: Launch) -> tuple[float, Span, str, str] | None:
    flags = launch.flags("zero_stage", "zero_optimization_stage")
    stage = launch.number(flags[0]) if len(flags) == 1 else None
    span = launch.span(flags[0].value) if stage is not None and flags[0].value is not None else None
    return None if stage is None or span is None else (stage, span, "the command", "the flag")


def _input(use: _deepspeed.ConfigUse) -> tuple[float, Span, str, str] | None:
    """The value of an input of our own component, which overrides the configuration."""
    field = use.launch.step.inputs.get("zero_stage")
    value = field.value.value if field is not None and isinstance(field.value, Literal) else None
    if field is None or field.span is None or not isinstance(value, int):
        return None
    return value, field.span, "the step", "the input"
