"""Inputs of the pipeline that steps are bound to, and that are empty or do not exist."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import binding
from worldsize.azureml.model import Job, Literal, Step
from worldsize.base.problem import Finding, Related
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.documents.yaml.nodes import Scalar, find_node, list_scalars
from worldsize.rules.context import Context
from worldsize.rules.graph._common import (
    declared_component,
    find_wires,
    pipeline_inputs,
    port_finder,
    span_of,
    suggest_fix,
)


def check_pipeline_input_empty(context: Context, job: Job) -> Iterator[Finding]:
    if job.interface is not None:
        return
    empty = {
        name: field
        for name, field in job.inputs.items()
        if isinstance(field.value, Literal) and field.value.value == ""
    }
    if not empty:
        return
    for wire in find_wires(context, job):
        name = wire.expression.port or ""
        if wire.expression.scope == "parent.inputs" and name in empty:
            message = f"`{name}` is empty, so Azure ML drops it, but step `{wire.step.name}` is bound to it"
            help_ = "give it a value, or remove it with its bindings"
            yield Finding(span_of(empty.pop(name)), message, help_, (Related(wire.part(2), "bound here"),))


_SETTINGS = ("compute", "environment_variables")
_OF_COMPONENTS = ("resources", "distribution", "limits")  # an inline step cannot bind these


def check_pipeline_input_unknown(context: Context, job: Job) -> Iterator[Finding]:
    if job.type != "pipeline" or not job.keys.binds("parent.inputs"):
        return  # binding-unknown-scope
    names = pipeline_inputs(job)
    has = port_finder(names)
    for wire in find_wires(context, job):
        port = wire.expression.port
        if wire.expression.scope == "parent.inputs" and port is not None and not has(port):
            yield _fault(wire.part(2), port, names)
    for step in job.steps.values():
        for node in _texts(step):
            for expression in binding.find_expressions(node.text):
                port = expression.port
                if expression.scope == "parent.inputs" and port is not None and not has(port):
                    yield _fault(node.subspan(*expression.part_range(2)), port, names)


def _fault(span: Span, port: str, names: dict[str, str]) -> Finding:
    help_ = f"declare `{port}` under `inputs:` of the pipeline"
    if suggestion := did_you_mean(port, names):
        help_ = suggestion if suggestion.startswith("did") else f"{suggestion}; else {help_}"
    fix = suggest_fix(span, port, names)
    return Finding(span, f"the pipeline has no input `{port}`", help_, fix=fix)


def _texts(step: Step) -> Iterator[Scalar]:
    """The settings of a step that expressions may stand in."""
    keys = (*_SETTINGS, *_OF_COMPONENTS) if declared_component(step) is not None else _SETTINGS
    for key in keys:
        yield from (text for text in list_scalars(find_node(step.raw, key)) if "${{" in text.text)
