"""The value of an input has another type than the component declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worldsize.azureml import literals
from worldsize.azureml.model import Data, Field, Job, Literal, Port
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.graph._common import (
    LITERAL_TYPES,
    declared_component,
    find_arguments,
    find_wires,
    source_type,
    span_of,
    text_node,
)


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for _, name, field, port in find_arguments(job):
        yield from _kind(name, field, port)
    for wire in find_wires(context, job):
        target = wire.port
        if target is None or target.type == "open" or declared_component(wire.step) is None:
            continue
        source = source_type(job, wire.expression)
        if source is None or (source in LITERAL_TYPES) == (target.type in LITERAL_TYPES):
            continue
        if source == "string" and job.interface is None:
            continue  # may be a path
        start, end = wire.expression.start, wire.expression.end
        span = wire.node.subspan(start, end)
        wanted = f"input `{wire.name}` takes {literals.article(target.type)}"
        if source in LITERAL_TYPES:
            message = f"`{wire.expression.name}` is {literals.article(source)}, but {wanted}"
            help_ = "bind it to an output of another step, or give it data with a `path`"
        else:
            message = f"`{wire.expression.name}` is {source} data, but {wanted}"
            help_ = f"write {literals.article(target.type)}, or declare the input as `type: {source}`"
        yield Finding(span, message, help_)


def _kind(name: str, field: Field[Any], port: Port) -> Iterator[Finding]:
    """Data for a literal, and a literal that cannot be the path of data."""
    value = field.value
    if isinstance(value, Data) and port.type in LITERAL_TYPES:
        if value.path is not None and value.type not in LITERAL_TYPES:
            message = f"input `{name}` is {literals.article(port.type)}, not data"
            yield Finding(field.key_span or span_of(field), message, f"write the value after `{name}:`")
    elif isinstance(value, Literal) and port.is_data and isinstance(value.value, (bool, int, float)):
        node = text_node(field.node)
        shown = node.text if node is not None else value.value
        message = f"`{name}` is {port.type} data, but `{shown}` is not a path"
        yield Finding(span_of(field), message, "write a path, `azureml:NAME:VERSION` or a binding")
