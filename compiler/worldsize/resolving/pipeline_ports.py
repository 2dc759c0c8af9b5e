"""Inputs and outputs of the whole pipeline: what the job declares, and what its steps bind to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import binding
from worldsize.azureml.fields import read_entries
from worldsize.azureml.model import Argument, Binding, Data, Field, Literal, OutputSetting, Port, Step
from worldsize.base.problem import Related, relate
from worldsize.base.suggest import did_you_mean, find_meant
from worldsize.documents.yaml.nodes import Scalar
from worldsize.resolving.own_command import find_named_inputs
from worldsize.resolving.state import ResolveState
from worldsize.spec.model import PipelineOutput, Spec
from worldsize.spec.pipeline_inputs import find_bound_inputs, is_pipeline_input, report_unknown

Bound = dict[tuple[str, str], PipelineOutput]
"""The outputs of the pipeline by the outputs of steps that they come from: by step and port."""


def read_inputs(spec: Spec, steps: Mapping[str, Step]) -> dict[str, Field[Argument]]:
    """The inputs of the compiled pipeline job.

    One without a value is left out, because a job cannot declare it; so is one that only the plan uses, which
    no value given at submit could change.
    """
    bound = find_bound(steps)
    inputs: dict[str, Field[Argument]] = {}
    for name, declared in spec.inputs.items():
        located = declared.value
        if located is None or (name not in bound and name in spec.planned_inputs):
            continue
        value = Data(declared.type, located, declared.mode) if declared.is_data else Literal(located.value)
        comment = declared.description.value if declared.description is not None else None
        inputs[name] = replace(located, value=value, key_span=declared.span, comment=comment)
    return inputs


def find_bound(steps: Mapping[str, Step]) -> set[str]:
    """The inputs of the pipeline that steps are bound to."""
    texts = [
        str(field.value.expression)
        for step in steps.values()
        for field in step.inputs.values()
        if isinstance(field.value, Binding)
    ]
    for step in steps.values():
        texts += [str(part.value) for part in read_entries(step.environment_variables).values()]
        texts += [str(part.value.value) for part in step.inputs.values() if isinstance(part.value, Literal)]
    return {expression.port or "" for text in texts for expression in find_bound_inputs(text)}


def check_unused(state: ResolveState, steps: Mapping[str, Step]) -> None:
    """Warn of inputs that no step uses, and report schedules that set what is fixed when compiling."""
    spec = state.spec
    named = {
        expression.port
        for step in spec.steps.values()
        for located in (*step.with_.values(), *step.environment_variables.values(), step.command)
        if located is not None
        for expression in find_bound_inputs(
            located.node.text if isinstance(located.node, Scalar) else str(located.value)
        )
    }
    bound = find_bound(steps) | named
    bound |= {
        find_meant(name or "", spec.inputs) for name in named - spec.inputs.keys()
    }  # was meant, and reported
    readable = not any(state.unreadable(step) for step in spec.steps)  # else an input may have hidden uses
    for name, declared in spec.inputs.items():
        if readable and name not in bound and name not in spec.planned_inputs:
            message = f"no step uses the input `{name}`"
            help_ = f'bind it, as in `with: {{{name}: "${{{{parent.inputs.{name}}}}}"}}`, or remove it'
            state.report("pipeline-input-unused", declared.span, message, help_)
    for name, located in (spec.schedule.inputs if spec.schedule is not None else {}).items():
        if name in spec.inputs and name not in bound and name in spec.planned_inputs:
            message = f"`{name}` is fixed when the spec is compiled, so a schedule cannot change it"
            help_ = "write the value as the input's default, or bind an input of a step to it"
            state.report("schedule-input-unknown", located.key_span, message, help_)


def bind_inputs(state: ResolveState, step: str) -> None:
    """Bind what a step takes from the pipeline's inputs: in its command, its variables and ``with:``."""
    _carry_inputs(state, step)
    _check_variables(state, step)
    for name, argument in list(state.arguments[step].items()):
        expression = argument.value.expression if isinstance(argument.value, Binding) else None
        named = expression.port if expression is not None and is_pipeline_input(expression) else None
        source = state.spec.inputs.get(named or "")
        if source is not None and source.value is None:
            _leave_out(state, step, name, argument)


def _leave_out(state: ResolveState, step: str, name: str, argument: Field[Argument]) -> None:
    """Leave out an argument whose input of the pipeline has no value; only an optional one may lack it."""
    assert isinstance(argument.value, Binding)
    source = state.spec.inputs[argument.value.expression.port or ""]
    component, port = state.components.get(step), state.ports(step).get(name)
    del state.arguments[step][name]
    if component is not None and port is not None and component.inline:
        command = component.command.value if component.command is not None else ""
        optional = find_named_inputs(str(command)).get(name, True)
        ports = {**component.inputs, name: replace(port, optional=optional, type=source.type)}
        state.components[step] = replace(component, inputs=ports)
        port = ports[name]
    if port is None or port.optional or port.default is not None:
        return
    message = f"`{source.name}` is optional and has no value, but input `{name}` of step `{step}` is required"
    help_ = f"give `{source.name}` a value"
    if component is not None and component.inline:
        help_ += ", or put it and its option into `$[[ ]]` in the command"
    state.unwired.setdefault(step, set()).add(name)
    related = Related(source.span, "declared optional here")
    state.report("optional-feeds-required", argument.span or source.span, message, help_, related)


def _carry_inputs(state: ResolveState, step: str) -> None:
    """Turn ``${{parent.inputs.x}}`` in an own command into an input of its component that is bound to it."""
    spec_step, component = state.spec.steps[step], state.components.get(step)
    located = spec_step.command
    if located is None or component is None or component.command is None:
        return
    command, inputs = component.command.value, dict(component.inputs)
    for expression in reversed(list(find_bound_inputs(located.value))):
        source_name = expression.port or ""
        source = state.spec.inputs.get(source_name)
        if source is None:
            span = located.subspan(*expression.part_range(2))
            state.problems.append(report_unknown(source_name, span, state.spec.inputs))
            continue
        name = f"pipeline_{source_name}" if source_name in spec_step.with_ else source_name
        inputs[name] = Port(name, source.type, located.subspan(expression.start, expression.end))
        state.arguments[step][name] = Field(Binding(expression), inputs[name].span)
        command = f"{command[: expression.start]}${{{{inputs.{name}}}}}{command[expression.end :]}"
    if command != component.command.value:
        component = replace(component, inputs=inputs, command=replace(component.command, value=command))
        state.components[step] = component


def _check_variables(state: ResolveState, step: str) -> None:
    """Report variables bound to unknown inputs, and bindings with text around them."""
    for name, located in state.spec.steps[step].environment_variables.items():
        for expression in find_bound_inputs(located.value):
            whole = located.subspan(expression.start, expression.end)
            if expression.port not in state.spec.inputs:
                span = located.subspan(*expression.part_range(2))
                state.problems.append(report_unknown(expression.port or "", span, state.spec.inputs))
            elif len(str(located.value)) != expression.end - expression.start:
                message = f"variable `{name}` has text around `{expression}`, which Azure ML does not resolve"
                help_ = "make the whole value the binding, or pass it as an input of the command"
                state.report("binding-in-text", whole, message, help_)


def bind_outputs(state: ResolveState) -> Bound:
    """The outputs of steps that are outputs of the pipeline; what names none is reported."""
    bound: Bound = {}
    for output in state.spec.outputs.values():
        text = output.source
        expression = binding.parse_expression(text.value)
        if expression is None or expression.scope != "parent.jobs" or expression.side != "outputs":
            message = f"`{text.value}` is not an output of a step"
            help_ = f"write `{binding.to_step_output('STEP', 'NAME')}`"
            state.report("binding-unknown-scope", text.span, message, help_)
            continue
        key = (expression.step or "", expression.port or "")
        if not _exists(state, output, expression):
            continue
        if key in bound:
            first = bound[key]
            message = f"output `{key[1]}` of step `{key[0]}` is already the pipeline's output `{first.name}`"
            related = Related(first.source.span, "bound here first")
            help_ = "Azure ML binds an output of a step to one output of the pipeline: remove one of the two"
            state.report("output-bound-twice", text.span, message, help_, related)
            continue
        bound[key] = output
        _check_output(state, output, *key)
    return bound


def _exists(state: ResolveState, output: PipelineOutput, expression: binding.Expression) -> bool:
    step, port = expression.step or "", expression.port or ""
    if step not in state.spec.steps:
        span = output.source.subspan(*expression.part_range(2))
        message = f"there is no step `{step}`"
        state.report("binding-unknown-step", span, message, did_you_mean(step, state.spec.steps))
        return False
    declared = state.outputs(step)
    if declared is not None and port not in declared:
        span = output.source.subspan(*expression.part_range(4))
        message = f"step `{step}` has no output `{port}`"
        help_ = did_you_mean(port, declared) or "its component declares no outputs"
        state.report("binding-unknown-output", span, message, help_)
        return False
    return True


def _check_output(state: ResolveState, output: PipelineOutput, step: str, port: str) -> None:
    declared = (state.outputs(step) or {}).get(port)
    if output.type is not None and declared is not None and output.type.value != declared.type:
        message = f"output `{output.name}` is {output.type.value}, but step `{step}` writes {declared.type}"
        help_ = f"write `type: {declared.type}`, or leave it out"
        related = relate(declared.span, "declared here")
        state.report("output-type-disagrees", output.type.span, message, help_, *related)
    setting = state.spec.steps[step].outputs.get(port)
    for key in ("path", "mode"):
        mine: Any = getattr(output, key)
        theirs = setting.value.get(key) if setting is not None and isinstance(setting.value, dict) else None
        if mine is not None and theirs is not None and setting is not None and theirs != mine.value:
            message = f"`{key}` is `{mine.value}` here, but `{theirs}` in step `{step}`"
            related = (Related(setting.span, "the step's output"),)
            state.report("output-bound-twice", mine.span, message, "write it once, here", *related)


def join_outputs(
    settings: Mapping[str, Field[OutputSetting]], step: str, bound: Bound
) -> dict[str, Field[OutputSetting]]:
    """The settings of a step's outputs, with the bindings to outputs of the pipeline."""
    joined = dict(settings)
    for (source, port), output in bound.items():
        if source != step:
            continue
        expression = binding.parse_expression(f"${{{{parent.outputs.{output.name}}}}}")
        assert expression is not None
        before = joined.get(port)
        present = before.value if before is not None else OutputSetting()
        setting = replace(present, type=None, path=None, mode=None, binding=Field(expression))
        joined[port] = Field(setting, before.span if before is not None else None)
    return joined


def read_outputs(state: ResolveState, bound: Bound) -> dict[str, Field[OutputSetting]]:
    """The outputs of the compiled pipeline job, with the type that the step declares."""
    outputs: dict[str, Field[OutputSetting]] = {}
    for (step, port), output in bound.items():
        declared = (state.outputs(step) or {}).get(port)
        written = state.spec.steps[step].outputs.get(port)
        theirs = written.value if written is not None and isinstance(written.value, dict) else {}
        type_ = output.type.value if output.type is not None else declared.type if declared else "uri_folder"
        path, mode = (
            mine or (Field(theirs[key]) if key in theirs else None)
            for key, mine in (("path", output.path), ("mode", output.mode))
        )
        setting = OutputSetting(type=type_, path=path, mode=mode)
        comment = output.description.value if output.description is not None else None
        outputs[output.name] = Field(setting, output.source.span, output.span, comment=comment)
    return {name: outputs[name] for name in state.spec.outputs if name in outputs}
