"""Reads the steps of a pipeline with their arguments, settings and components, and finds cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Mapping as MappingType
from pathlib import Path

from msgspec.structs import replace

from worldsize.azureml import binding, fields, literals
from worldsize.azureml.binding import Expression
from worldsize.azureml.files import Files
from worldsize.azureml.model import (
    Argument,
    Binding,
    Component,
    Data,
    Field,
    Interface,
    Job,
    Literal,
    OutputSetting,
    Port,
    Step,
)
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar

Resolve = Callable[[Node, Path, Files], tuple[Component | None, "Field[str] | None"]]
_DATA_KEYS = {"type", "path", "mode"}
_NAMES = ("name", "display_name", "description", "experiment_name", "tags")
_SETTINGS = (
    "compute", "resources", "distribution", "limits", "environment_variables", "display_name", "comment",
)  # fmt: skip


def read_graph(
    node: Mapping,
    path: Path | None,
    folder: Path,
    files: Files,
    resolve: Resolve,
    *,
    interface: Interface | None = None,
) -> Job:
    """Read a pipeline job, or the inner graph of a pipeline component with this interface, from its mapping.

    ``resolve`` reads the component behind ``component:``. It is a parameter, because a component may hold a
    graph in turn.
    """
    inputs = read_arguments(node.get("inputs"))
    jobs = node.get("jobs")
    entries = list(jobs.items()) if isinstance(jobs, Mapping) else []
    steps = {key.text: _read_step(key, value, folder, files, resolve) for key, value in entries}
    return Job(
        path=path,
        type="pipeline",
        inputs=inputs,
        outputs=read_output_settings(node.get("outputs")),
        steps=_with_inline_inputs(steps, inputs),
        raw=node,
        interface=interface,
        **fields.read_fields(node, *_NAMES, "settings", "compute"),
    )


def read_single_job(node: Mapping, path: Path, folder: Path, files: Files, resolve: Resolve) -> Job:
    """Read a standalone command, sweep or parallel job as a graph of one step with the job's name."""
    kind = fields.read_text(node, "type") or "command"
    name = fields.read_text(node, "name") or kind
    steps = {name: replace(_parse_step(name, node, folder, files, resolve), span=None)}
    named = fields.read_fields(node, *_NAMES)
    return Job(path=path, type=kind, steps=_with_inline_inputs(steps, {}), raw=node, **named)


def read_arguments(node: Node | None) -> dict[str, Field[Argument]]:
    """Read the arguments under ``inputs:`` of a job or node, by input name."""
    if not isinstance(node, Mapping):
        return {}
    return {key.text: Field(read_argument(value), value.span, key.span, value) for key, value in node.items()}


def read_output_settings(node: Node | None) -> dict[str, Field[OutputSetting]]:
    """Read the settings under ``outputs:`` of a job or node, by output name."""
    if not isinstance(node, Mapping):
        return {}
    return {
        key.text: Field(_read_output_setting(value), value.span, key.span, value)
        for key, value in node.items()
    }


def read_argument(node: Node) -> Argument:
    """Read what a step or job gives to one input."""
    value = fields.read_node(node).value
    if isinstance(node, Mapping):
        if "value" in node and not _DATA_KEYS & set(node):
            inner = node.get("value")
            return read_argument(inner) if inner is not None else Literal(None)
        if _DATA_KEYS & set(node):
            path = fields.read_field(node, "path")
            expression = binding.parse_expression(path.value) if path else None
            if expression is not None:
                return Binding(expression, fields.read_field(node, "mode"))
            return Data(fields.read_text(node, "type"), path, fields.read_field(node, "mode"))
        return Literal(value)
    expression_value = binding.parse_expression(value)
    return Literal(value) if expression_value is None else Binding(expression_value)


def _read_output_setting(node: Node) -> OutputSetting:
    if isinstance(node, Scalar):
        expression = binding.parse_expression(node.value)
        if expression is not None:
            return OutputSetting(binding=Field(expression, node.span, None, node))
        return OutputSetting() if node.value is None else OutputSetting(path=fields.read_node(node))
    if not isinstance(node, Mapping):
        return OutputSetting()
    path = fields.read_field(node, "path")
    bound = binding.parse_expression(path.value) if path else None
    return OutputSetting(
        type=fields.read_text(node, "type"),
        path=None if bound else path,
        **fields.read_fields(node, "mode", "name", "version"),
        binding=Field(bound, path.span, path.key_span, path.node) if bound and path else None,
    )


def _read_step(key: Scalar, node: Node, folder: Path, files: Files, resolve: Resolve) -> Step:
    if not isinstance(node, Mapping):
        return Step(key.text, "command", key.span, None, None, raw=node)
    return replace(_parse_step(key.text, node, folder, files, resolve), span=key.span)


def _parse_step(name: str, node: Mapping, folder: Path, files: Files, resolve: Resolve) -> Step:
    kind = (fields.read_text(node, "type") or "command").lower()
    target = node.get("component") or (node.get("trial") if kind == "sweep" else None)
    component, reference = resolve(target, folder, files) if target is not None else (None, None)
    outputs = read_output_settings(node.get("outputs"))
    if target is None:
        component = _inline_component(kind, node, folder, outputs)
    elif component is not None and kind == "sweep" and reference is None:
        outputs_of_trial = {**_inline_outputs(outputs), **component.outputs}
        component = replace(component, outputs=outputs_of_trial, inline=True)
    return Step(
        name=name,
        type=kind,
        span=None,
        component=component,
        reference=reference,
        inputs=read_arguments(node.get("inputs")),
        outputs=outputs,
        raw=node,
        **fields.read_fields(node, *_SETTINGS),
    )


def _inline_component(
    kind: str, node: Mapping, folder: Path, outputs: MappingType[str, Field[OutputSetting]]
) -> Component | None:
    """The component that an inline job defines; its inputs are typed when all their sources are known."""
    if not {"command", "task", "code", "entry"} & set(node):
        return None
    return Component(
        path=None,
        type=kind,
        name=None,
        version=None,
        inputs={},
        outputs=_inline_outputs(outputs),
        environment=fields.read_environment(node),
        raw=node,
        folder=folder,
        inline=True,
        **fields.read_fields(node, "command", "code", "distribution", "resources"),
    )


def _inline_outputs(outputs: MappingType[str, Field[OutputSetting]]) -> dict[str, Port]:
    """The output ports of an inline job, which its output settings declare."""
    return {
        name: Port(name, (setting.value.type or "uri_folder").lower(), setting.key_span)
        for name, setting in outputs.items()
    }


def is_inline(step: Step) -> bool:
    """Whether a step defines its own component, so that its arguments declare its ports."""
    return step.component is not None and step.component.inline


def _with_inline_inputs(
    steps: MappingType[str, Step], inputs: MappingType[str, Field[Argument]]
) -> dict[str, Step]:
    """Add the input ports of each inline job; as in azure-ai-ml, the source of an input gives its type."""
    types: dict[str, str] = {}

    def typed(step: Step) -> Step:
        component = step.component
        if component is None or not is_inline(step):
            return step
        ports = {
            name: Port(name, _resolve_type(argument.value, inputs, steps, types), argument.key_span)
            for name, argument in step.inputs.items()
        }
        # The trial of a sweep may declare inputs of its own: those that its search space fills.
        return replace(step, component=replace(component, inputs={**ports, **component.inputs}))

    return {name: typed(step) for name, step in steps.items()}


def _resolve_type(
    argument: Argument,
    inputs: MappingType[str, Field[Argument]],
    steps: MappingType[str, Step],
    types: dict[str, str],
) -> str:
    """The type at the end of a chain of bindings; what is in ``types`` is not resolved again."""
    passed: list[str] = []
    while isinstance(argument, Binding) and argument.expression.name not in types:
        expression: Expression = argument.expression
        passed.append(expression.name)
        types[expression.name] = "uri_folder"  # for a chain that leads nowhere, or back to here
        following = _follow_expression(expression, inputs, steps)
        if isinstance(following, str) or following is None:
            return _remember_type(passed, following or "uri_folder", types)
        argument = following.value
    if isinstance(argument, Binding):
        return _remember_type(passed, types[argument.expression.name], types)
    if isinstance(argument, Literal):
        return _remember_type(passed, literals.primitive_type(argument.value), types)
    return _remember_type(passed, (argument.type or "uri_folder").lower(), types)


def follow_binding(job: Job, argument: Field[Argument] | None) -> Field[Argument] | None:
    """What a step is given: its argument, or the input of the pipeline that this is bound to.

    None for a binding that has no value before the job runs.
    """
    if argument is None or not isinstance(argument.value, Binding):
        return argument
    expression = argument.value.expression
    is_input = expression.scope == "parent.inputs" and job.interface is None
    return job.inputs.get(expression.port or "") if is_input else None


def _follow_expression(
    expression: Expression, inputs: MappingType[str, Field[Argument]], steps: MappingType[str, Step]
) -> Field[Argument] | str | None:
    """The argument that an expression is bound to, or the type if it is the output of a step."""
    port = expression.port or ""
    if expression.scope == "parent.inputs":
        return inputs.get(port)
    step = steps.get(expression.step or "")
    if step is None:
        return None
    if expression.side == "inputs":
        return step.inputs.get(port)
    return step.component.outputs[port].type if step.component and port in step.component.outputs else None


def _remember_type(names: list[str], type_: str, types: dict[str, str]) -> str:
    types.update(dict.fromkeys(names, type_))
    return type_


def find_cycle(steps: Iterable[str], sources: Callable[[str], Iterable[str]]) -> list[str] | None:
    """Find the steps of one cycle in the order of data flow; None if there is none. Takes linear time.

    Names among the ``sources`` that are not a step are ignored.
    """
    nodes = dict.fromkeys(steps)
    finished: set[str] = set()
    for start in nodes:
        if start in finished:
            continue
        path = [start]
        on_path = {start: 0}
        stack = [iter(sources(start))]
        while stack:
            following = next((name for name in stack[-1] if name in nodes and name not in finished), None)
            if following is None:
                stack.pop()
                done = path.pop()
                finished.add(done)
                del on_path[done]
            elif following in on_path:
                return path[on_path[following] :][::-1]
            else:
                on_path[following] = len(path)
                path.append(following)
                stack.append(iter(sources(following)))
    return None
