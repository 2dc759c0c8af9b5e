"""An expression starts with a scope that is not allowed here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worldsize.azureml.binding import Expression, find_expressions
from worldsize.azureml.fields import read_entries
from worldsize.azureml.model import Component, Field, Job, Keys
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context
from worldsize.rules.graph import _command
from worldsize.rules.graph._common import find_wires

_FREE = frozenset({"name", "output_name", "default_datastore"})  # filled in by the service


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for wire in find_wires(context, job):
        expression = wire.expression
        if (_names_a_source(expression) and job.keys.binds(expression.scope)) or expression.name in _FREE:
            continue
        span = wire.node.subspan(expression.start, expression.end)
        yield Finding(span, f"`{expression}` cannot be bound to an input of a step", _advice(expression, job))
    yield from _in_own_inputs(job)
    for step in job.steps.values() if job.type == "pipeline" else ():
        for field in step.outputs.values():
            bound = field.value.binding
            if bound is not None and bound.value.scope != "parent.outputs" and bound.span is not None:
                message = f"`{bound.value}` cannot be bound to an output of a step"
                port = bound.value.port if bound.value.scope == "outputs" else None
                named = f"`${{{{parent.outputs.{port or 'NAME'}}}}}`"
                help_ = f"an output is bound to one of the pipeline: write {named}"
                yield Finding(bound.span, message, help_)
        for variable in read_entries(step.environment_variables).values():
            yield from _in_variable(variable, job.keys)


def _in_own_inputs(job: Job) -> Iterator[Finding]:
    """The plan in an input of the pipeline itself, which nothing fills in."""
    for field in job.inputs.values() if job.type == "pipeline" else ():
        node = field.node
        if not isinstance(node, Scalar):
            continue
        for expression in find_expressions(node.text):
            if expression.scope == "plan":
                message = f"`{expression}` cannot be the value of an input of the pipeline"
                help_ = "only inputs of a step follow the plan: write it there"
                yield Finding(node.subspan(expression.start, expression.end), message, help_)


def _in_variable(variable: Field[Any], keys: Keys) -> Iterator[Finding]:
    node = variable.node
    if keys.in_variable is None or not isinstance(node, Scalar) or "${{" not in node.text:
        return
    for expression in find_expressions(node.text):
        if "." in expression.name and expression.scope not in keys.in_variable:
            message = f"`{expression}` is not allowed in an environment variable"
            help_ = f"write `${{{{{keys.bindings[1]}}}}}`, or pass it as an input of the command"
            yield Finding(node.subspan(expression.start, expression.end), message, help_)


def _names_a_source(expression: Expression) -> bool:
    if expression.scope == "parent.inputs":
        return expression.port is not None
    return expression.scope == "parent.jobs" and expression.side is not None and expression.port is not None


def _advice(expression: Expression, job: Job) -> str:
    first, *rest = expression.parts
    if first == "plan":
        return (
            "only a spec has planned numbers: write the number, or in Python call `worldsize.plan(job)` first"
        )
    if first == "inputs" and rest and job.keys.binds("parent.inputs"):
        return f"write `${{{{parent.inputs.{'.'.join(rest)}}}}}` for an input of the pipeline"
    if first == "jobs" and len(rest) > 2:
        return f"write `${{{{parent.{expression.name}}}}}`"
    if first == "parents":
        return f"write `${{{{parent.{'.'.join(rest)}}}}}`"
    if first in job.steps and rest:
        return f"write `${{{{parent.jobs.{expression.name}}}}}`"
    return "write " + " or ".join(f"`${{{{{text}}}}}`" for text in job.keys.bindings)


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for text in _command.find_texts(context, component):
        for expression in text.template.expressions:
            if expression.scope in component.keys.in_command and expression.port:
                continue
            if "." not in expression.name:
                continue
            message = f"`{expression}` is not allowed in `{text.key}`"
            yield Finding(
                text.span(expression.start, expression.end), message, _in_command(expression, component.keys)
            )


def _in_command(expression: Expression, keys: Keys) -> str:
    if expression.scope == "parent.inputs" and expression.port:
        port = expression.port
        bound = f"`{port}: {expression}`"
        return f"bind it to an input: {bound} under `{keys.inputs}:`, and write `${{{{inputs.{port}}}}}` here"
    return f"bind it to an input under `{keys.inputs}:` and write `${{{{inputs.NAME}}}}` here"
