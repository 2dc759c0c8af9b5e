"""Counts and limits that are not positive, or bound to inputs that are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worldsize.azureml import binding, fields, graph, literals
from worldsize.azureml.job import Compute
from worldsize.azureml.model import Component, Field, Job, Literal, Step
from worldsize.base.problem import Finding, Related, relate
from worldsize.documents.yaml.nodes import Mapping
from worldsize.rules.context import Context

_LEAST = {
    "process_count_per_instance": 1,
    "worker_count": 1,
    "parameter_server_count": 0,
    "instance_count": 1,
    "max_instance_count": 1,
    "timeout": 1,
    "trial_timeout": 1,
    "max_total_trials": 1,
    "max_concurrent_trials": 1,
}

_LEAST_OF_PARALLEL = {
    "max_concurrency_per_instance": 1,
    "error_threshold": -1,
    "mini_batch_error_threshold": -1,
}
_LEAST_OF_RETRIES = {"max_retries": 0, "timeout": 1}
_LEAST_OF_STOPPING = {"evaluation_interval": 1, "delay_evaluation": 0, "truncation_percentage": 1}

_LEAST_OF_COMPUTE = {
    "min_instances": 0,
    "max_instances": 1,
    "idle_time_before_scale_down": 0,
    "idle_time_before_shutdown_minutes": 15,
}


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    for block in (step.distribution, step.resources, step.limits):
        yield from _check_counts(block, _LEAST)
    if step.type == "parallel" and isinstance(step.raw, Mapping):
        yield from _check_parallel(step.raw)
    if step.type == "sweep" and isinstance(step.raw, Mapping):
        yield from _check_counts(fields.read_field(step.raw, "early_termination"), _LEAST_OF_STOPPING)


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for block in (component.distribution, component.resources):
        yield from _check_counts(block, _LEAST)
    if component.type == "parallel" and component.path is not None and isinstance(component.raw, Mapping):
        yield from _check_parallel(component.raw)


def _check_parallel(raw: Mapping) -> Iterator[Finding]:
    yield from _check_counts(fields.read_node(raw), _LEAST_OF_PARALLEL)
    yield from _check_counts(fields.read_field(raw, "retry_settings"), _LEAST_OF_RETRIES)


def check_compute(context: Context, compute: Compute) -> Iterator[Finding]:
    if compute.raw is not None:
        yield from _check_counts(fields.read_node(compute.raw), _LEAST_OF_COMPUTE)


def _check_counts(block: Field[Any] | None, least_by_name: dict[str, int]) -> Iterator[Finding]:
    for name, least in least_by_name.items():
        field = fields.read_member(block, name)
        if field is None or field.span is None or isinstance(field.value, bool):
            continue
        value = _number(field.value)
        if value is not None and value < least:
            unit = " second" if "timeout" in name else ""
            message = f"`{name}` is {field.value} but must be at least {least}{unit}"
            yield Finding(field.span, message, f"write a whole number of at least {least}, or remove it")


def _number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None


_COUNTS = ("process_count_per_instance", "worker_count", "instance_count", "max_instance_count")


def check_count_from_wrong_input(context: Context, job: Job) -> Iterator[Finding]:
    for step in job.steps.values():
        if not graph.is_inline(step):  # a count of an inline job takes no binding at all
            yield from _step(job, step)


def _step(job: Job, step: Step) -> Iterator[Finding]:
    for block in (step.distribution, step.resources):
        for name in _COUNTS:
            field = fields.read_member(block, name)
            expression = binding.parse_expression(field.value) if field is not None else None
            if (
                field is None
                or field.span is None
                or expression is None
                or expression.scope != "parent.inputs"
            ):
                continue
            port = expression.port or ""
            fault, related = _fault(job, port)
            if fault:
                message = f"`{name}` is bound to `{port}`, which {fault}"
                help_ = f"give `{port}` a whole number of at least 1"
                yield Finding(field.span, message, help_, related=related)


def _fault(job: Job, port: str) -> tuple[str, tuple[Related, ...]]:
    if job.interface is not None:
        declared = job.interface.inputs.get(port)
        if declared is None:
            return "the pipeline does not have", ()
        wrong = declared.type not in ("integer", "number")
        return (f"is an input of type `{declared.type}`" if wrong else ""), ()
    source: Field[Any] | None = job.inputs.get(port)
    if source is None:
        return "the pipeline does not have", ()
    related = relate(source.span, "given here")
    if not isinstance(source.value, Literal):
        return "is data", related
    number = literals.parse_number(source.value.value)
    whole = number is not None and number == int(number) and number >= 1
    return ("" if whole else f"is `{source.value.value}`"), related
