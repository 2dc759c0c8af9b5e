"""What inputs are given: literals and their ports, and what built-in components expect beyond these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import literals
from worldsize.azureml.model import Binding, Component, Field, Job, Literal, Port, Step
from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.base.suggest import closest, did_you_mean
from worldsize.documents.yaml.nodes import Scalar
from worldsize.facts.built_in_components import find_facts
from worldsize.resolving import components
from worldsize.rules.context import Context
from worldsize.rules.graph._common import (
    LITERAL_TYPES,
    declared_component,
    find_arguments,
    span_of,
    text_node,
)

_PREFIX = "builtin:"


def check_job(context: Context, job: Job) -> Iterator[Problem]:
    """Check the inputs of the steps of a pipeline."""
    for step, name, field, port in find_arguments(job):
        if port.type in LITERAL_TYPES:
            for fault in _check_input(job, name, field, port):
                yield _name_other(context, step, name, field, fault)
    for step in job.steps.values():
        component = declared_component(step)
        if component is not None:
            yield from _judge_function(step, component)
            yield from _judge_data_set(context, step)


def _name_other(context: Context, step: Step, name: str, field: Field[Any], fault: Problem) -> Problem:
    """Suggest the built-in component that takes the value, if the chosen one does not."""
    if fault.slug != "input-not-in-enum":
        return fault
    if not context.is_built_in(step.component):
        return _as_warning(fault)
    value = literals.render_literal(field.value.value) if isinstance(field.value, Literal) else ""
    others = components.find_with_input(name, value)
    if not others or (fault.help or "").startswith("did"):
        return fault
    return replace(fault, help=f"{fault.help}, or use `{others[0]}`, which has `{value}`")


def _as_warning(fault: Problem) -> Problem:
    """The same for a component that is not built in: the service also accepts values that `enum` lacks."""
    if fault.slug != "input-not-in-enum":
        return fault
    message = f"{fault.message}: the `enum` of the component does not list it"
    return replace(fault, slug="input-outside-enum", message=message.replace(" cannot be ", " is ", 1))


def _check_input(job: Job, name: str, field: Field[Any], port: Port) -> Iterator[Problem]:
    value = field.value
    source: Field[Any] | None = None
    if isinstance(value, Binding) and value.expression.scope == "parent.inputs" and job.interface is None:
        source = job.inputs.get(value.expression.port or "")
        value = source.value if source is not None else value
    if not isinstance(value, Literal) or not _judged(value.value):
        return
    node = text_node(field.node)
    fault = literals.check_value(name, value.value, port, node.span if node is not None else span_of(field))
    if fault is None:
        return
    if source is not None and source.span is not None:
        fault = replace(fault, related=(Related(source.span, "the pipeline's input is given here"),))
    yield fault


def _judged(value: Any) -> bool:
    """Whether a value can be judged now: it is not empty, not a group, and has no expressions in it."""
    if value is None or isinstance(value, (dict, list)):
        return False
    return not (isinstance(value, str) and "{" in value)


def check_component(context: Context, component: Component) -> Iterator[Problem]:
    """Check the defaults of a component's inputs."""
    for port in component.inputs.values():
        default = port.default
        if default is None or port.type not in LITERAL_TYPES or not _judged(default.value):
            continue
        fault = literals.check_value(port.name, default.value, port, span_of(default))
        if fault is not None:
            of_port = "of " if fault.message.startswith(f"`{port.name}`") else ""
            yield replace(_as_warning(fault), message=f"default {of_port}{fault.message}")


def _judge_function(step: Step, component: Component) -> Iterator[Problem]:
    """Report a name that is neither built in nor a function of a file, if the input takes one of these."""
    facts = find_facts(component)
    if facts is None or facts.code_input is None:
        return
    name, names = facts.code_input, facts.built_in_models
    field = step.inputs.get(name)
    if field is None or not isinstance(field.value, Literal) or not isinstance(field.node, Scalar):
        return
    text = field.node.text
    hugging_face = text.startswith("hf:") and "lora_rank" in component.inputs
    if ".py" not in text and "${{" not in text and text not in names and not hugging_face:
        near = closest(text, names)
        listed = ", ".join(f"`{choice}`" for choice in names)
        help_ = f"did you mean `{near}`?" if near else f"write {listed} or `path/to/file.py:function`"
        if text.startswith("hf:"):
            help_ = "only the PyTorch components train Hugging Face models: use `train_ddp`"
        message = f"`{text}` is neither a built-in `{name}` nor a function of a file"
        yield Problem("input-not-in-enum", span_of(field), message, help_)


def _judge_data_set(context: Context, step: Step) -> Iterator[Problem]:
    """Report a source of ``shard_data`` that is not a built-in data set."""
    source, field = _read_source(context, step)
    if field is not None and source is not None and source.startswith(_PREFIX):
        from wssources import planned_rows  # only a step that shards data needs it

        message = f"there is no built-in data set `{source}`"
        help_ = did_you_mean(source, planned_rows.SOURCES)
        yield Problem("input-not-in-enum", span_of(field), message, help_)


def find_unread_data(context: Context, step: Step) -> tuple[Span, str, str] | None:
    """The place, message and help if ``shard_data`` should read from ``data``, which has no value."""
    if "data" in step.inputs or "data" in step.unwired:
        return None
    source, field = _read_source(context, step)
    if source is None:
        return _find_unread_settings(context, step)
    if source.startswith(_PREFIX):
        return None
    if "://" in source:  # an address, which the step downloads
        return None
    from wssources import planned_rows  # only a step that shards data needs it

    listed = " or ".join(f"`source: {name}`" for name in planned_rows.SOURCES)
    what = f"the path `{source}` inside `data`" if field is not None else "all of `data`"
    message = f"step `{step.name}` reads {what}, but no `data` is given"
    return span_of(field or step.reference), message, f"give a file or folder as `data:`, or write {listed}"


def _find_unread_settings(context: Context, step: Step) -> tuple[Span, str, str] | None:
    """The same for a step with neither `source` nor `data`, but an input about how files are read."""
    component = step.component
    if component is None or "source" in step.inputs or not context.is_built_in(component):
        return None
    from worldsize.planning.memory.workload import is_sharding  # only a step that shards data needs it

    if not is_sharding(component) or component.inputs["source"].default is not None:
        return None
    from wssources import planned_rows

    name = planned_rows.first_of_files(name for name in step.inputs if _is_changed(step, name))
    if name is None:
        return None
    message = f"step `{step.name}` is given `{name}`, but no `data` to read"
    return span_of(step.inputs[name]), message, "give a file or folder as `data:`"


def _is_changed(step: Step, name: str) -> bool:
    """Whether an input is a literal other than its default."""
    port = step.component.inputs.get(name) if step.component is not None else None
    value = step.inputs[name].value
    default = port.default.value if port is not None and port.default is not None else None
    return port is not None and isinstance(value, Literal) and value.value != default


def _read_source(context: Context, step: Step) -> tuple[str | None, Field[Any] | None]:
    """The source of a step that shards data, unless it is a built-in data set, and its place."""
    component = step.component
    if component is None or "source" not in component.inputs or not context.is_built_in(component):
        return None, None
    from worldsize.planning.memory.workload import is_sharding  # only a step that shards data needs it
    from wssources import planned_rows

    field, default = step.inputs.get("source"), component.inputs["source"].default
    value = field.value if field is not None else Literal(default.value if default is not None else None)
    text = value.value if isinstance(value, Literal) else None
    if (
        not is_sharding(component)
        or not isinstance(text, str)
        or "${{" in text
        or text in planned_rows.SOURCES
    ):
        return None, None
    return text, field
