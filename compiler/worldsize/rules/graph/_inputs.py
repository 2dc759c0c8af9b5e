"""The inputs of steps beside what their components declare: missing, unknown, of another type or value."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import literals
from worldsize.azureml.graph import follow_binding
from worldsize.azureml.model import Component, Data, Field, Job, Literal, Port, Step
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Problem, Related
from worldsize.base.span import NOWHERE, Span
from worldsize.base.suggest import closest, did_you_mean, find_meant
from worldsize.documents.yaml.nodes import Scalar
from worldsize.facts.built_in_components import find_facts
from worldsize.resolving import components
from worldsize.rules.graph._common import (
    LITERAL_TYPES,
    declared_component,
    find_arguments,
    find_unknown_names,
    find_wires,
    known_ports,
    searched_inputs,
    source_type,
    span_of,
    text_node,
)
from wstrain.class_weights import BALANCED, NONE, class_weights

_PREFIX = "builtin:"


def check_job(context: Tree, job: Job) -> Iterator[Problem]:
    """Check the inputs of the steps of a pipeline."""
    for step, name, field, port in find_arguments(job):
        if port.type in LITERAL_TYPES:
            fault = _check_input(job, name, field, port)
            if fault is not None:
                yield _name_other(context, step, name, field, fault)
    for step in job.steps.values():
        component = declared_component(step)
        if component is not None:
            yield from _judge_function(step, component)
            yield from _judge_data_set(context, step)
            if context.is_built_in(component):
                yield from _judge_class_weights(step)


def _name_other(context: Tree, step: Step, name: str, field: Field[Any], fault: Problem) -> Problem:
    """Suggest the built-in component that takes the value, if the chosen one does not."""
    if fault.slug != "input-not-in-enum":
        return fault
    if not context.is_built_in(step.component):
        return _as_warning(fault)
    value = literals.render_literal(field.value.value) if isinstance(field.value, Literal) else ""
    others = components.find_with_input(name, value)
    if not others or (fault.help or "").startswith("did"):
        return fault
    return replace(fault, help=f"{fault.help}, or use the component `{others[0]}`, which has `{value}`")


def _as_warning(fault: Problem) -> Problem:
    """The same for a component that is not built in: the service also accepts values that `enum` lacks."""
    if fault.slug != "input-not-in-enum":
        return fault
    message = f"{fault.message}: the `enum` of the component does not list it"
    return replace(fault, slug="input-outside-enum", message=message.replace(" cannot be ", " is ", 1))


def _check_input(job: Job, name: str, field: Field[Any], port: Port) -> Problem | None:
    source = follow_binding(job, field)
    value = source.value if source is not None else None
    if not isinstance(value, Literal) or not _judged(value.value):
        return None
    node = text_node(field.node)
    fault = literals.check_value(name, value.value, port, node.span if node is not None else span_of(field))
    if fault is None or source is None or source is field or source.span is None:
        return fault
    return replace(fault, related=(Related(source.span, "the pipeline's input is given here"),))


def _judged(value: Any) -> bool:
    """Whether a value can be judged now: it is not empty, not a group, and has no expressions in it."""
    if value is None or isinstance(value, (dict, list)):
        return False
    return not (isinstance(value, str) and "{" in value)


def check_component(context: Tree, component: Component) -> Iterator[Problem]:
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
        help_ = f"did you mean `{near}`?" if near else f"write one of {listed}, `path/to/file.py:function`"
        if text.startswith("hf:"):
            help_ = "only the PyTorch components train Hugging Face models: use `train_ddp`"
        message = f"`{text}` is neither a built-in `{name}` nor a function of a file"
        yield Problem("input-not-in-enum", span_of(field), message, help_)


def _judge_data_set(context: Tree, step: Step) -> Iterator[Problem]:
    """Report a source of ``shard_data`` that is not a built-in data set."""
    source, field = _read_source(context, step)
    if field is not None and source is not None and source.startswith(_PREFIX):
        from wssources import planned_rows  # only a step that shards data needs it

        message = f"there is no built-in data set `{source}`"
        help_ = did_you_mean(source, planned_rows.SOURCES)
        yield Problem("input-not-in-enum", span_of(field), message, help_)


def _judge_class_weights(step: Step) -> Iterator[Problem]:
    """Report weights of classes that a trainer cannot read."""
    field = step.inputs.get("class_weights")
    if field is None or not isinstance(field.value, Literal) or "${{" in str(field.value.value):
        return
    text = literals.render_literal(field.value.value)
    try:
        class_weights(text)
    except ArgumentTypeError as error:
        near = closest(text, (NONE, BALANCED))
        help_ = f"did you mean `{near}`?" if near else None
        yield Problem("input-not-in-enum", span_of(field), f"`class_weights`: {error}", help_)


def find_unread_data(context: Tree, step: Step) -> tuple[Span, str, str] | None:
    """The place, message and help if ``shard_data`` should read from ``data``, which has no value."""
    if "data" in step.inputs or "data" in step.unwired:
        return None
    source, field = _read_source(context, step)
    if source is None:
        return _find_unread_settings(context, step)
    if source.startswith(_PREFIX) or "://" in source:  # built in, or an address, which the step downloads
        return None
    from wssources import planned_rows  # only a step that shards data needs it

    listed = " or ".join(f"`source: {name}`" for name in planned_rows.SOURCES)
    what = f"the path `{source}` inside `data`" if field is not None else "all of `data`"
    message = f"step `{step.name}` reads {what}, but no `data` is given"
    return span_of(field or step.reference), message, f"give a file or folder as `data:`, or write {listed}"


def _find_unread_settings(context: Tree, step: Step) -> tuple[Span, str, str] | None:
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


def _read_source(context: Tree, step: Step) -> tuple[str | None, Field[Any] | None]:
    """The source of a step that shards data, unless it is a built-in data set, and its place."""
    component = step.component
    if component is None or "source" not in component.inputs or not context.is_built_in(component):
        return None, None
    from worldsize.planning.memory.workload import is_sharding  # only a step that shards data needs it
    from wssources import planned_rows

    field, default = step.inputs.get("source"), component.inputs["source"].default
    value = field.value if field is not None else Literal(default.value if default is not None else None)
    text = value.value if isinstance(value, Literal) else None
    is_path = isinstance(text, str) and "${{" not in text and text not in planned_rows.SOURCES
    return (text, field) if is_path and is_sharding(component) else (None, None)


def check_input_missing(context: Tree, job: Job) -> Iterator[Finding]:
    if job.type != "pipeline":
        return
    for step in job.steps.values():
        component, names = declared_component(step), known_ports(step, "inputs")
        if component is None or names is None:
            continue
        groups = {name.split(".")[0] for name in (*step.inputs, *searched_inputs(step))}
        missing = [
            port
            for name, port in names.items()
            if not (port.optional or port.default is not None or port.type == "open")
            and not (name in step.inputs or name in step.unwired or name.split(".")[0] in groups)
        ]
        unknown = [name for name in step.inputs if name not in names] if missing else []
        meant = {find_meant(name, names) for name in unknown}  # input-unknown says so
        for port in missing:
            if port.name not in meant:
                kind = literals.article(port.type)
                message = f"step `{step.name}` needs input `{port.name}`, {kind} without a default"
                help_ = f"add `{port.name}:` under `{job.keys.inputs}:` of the step"
                place = step.reference.span if step.reference is not None else step.span
                yield Finding(place or step.span or NOWHERE, message, help_)
        unread = find_unread_data(context, step)
        if unread is not None and all(name in names for name in step.inputs):
            yield Finding(*unread)


def check_input_unknown(context: Tree, job: Job) -> Iterator[Finding]:
    if job.type != "pipeline":
        return
    for step in job.steps.values():
        ports = known_ports(step, "inputs") if declared_component(step) is not None else None
        for name, span, fix in find_unknown_names(step.inputs, ports) if ports is not None else ():
            chosen = f"`{step.reference.value}`" if step.reference else f"the component of step `{step.name}`"
            help_ = _suggest(context, step, name, ports or {})
            yield Finding(span, f"{chosen} has no input `{name}`", help_, fix=fix)


def _suggest(context: Tree, step: Step, name: str, ports: Mapping[str, Port]) -> str:
    """The input that was meant; else the built-in component that has it."""
    if find_meant(name, ports) is None and context.is_built_in(step.component):
        others = components.find_with_input(name)
        if others:
            return f"`{name}` is an input of {' or '.join(f'`{other}`' for other in others)}"
    advice = "remove it, or declare it there" if ports else "it declares no inputs"
    return did_you_mean(name, ports) or advice


def check_input_type(context: Tree, job: Job) -> Iterator[Finding]:
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
        span = wire.node.subspan(wire.expression.start, wire.expression.end)
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
