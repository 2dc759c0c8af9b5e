"""Bindings to inputs and outputs of the pipeline and of other steps that are missing or do not fit."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import binding
from worldsize.azureml.model import Job, Literal, Port, Step
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Fix, Problem, Related, relate
from worldsize.base.span import NOWHERE, Span
from worldsize.base.suggest import did_you_mean
from worldsize.documents.yaml.nodes import Scalar, find_node, list_scalars
from worldsize.rules.graph._common import (
    Wire,
    declared_component,
    find_wires,
    known_ports,
    pipeline_inputs,
    port_finder,
    source_type,
    span_of,
    suggest_fix,
    text_node,
)


def check_pipeline_input_empty(context: Tree, job: Job) -> Iterator[Finding]:
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
            help_ = "give it a value, or remove the input and its bindings"
            yield Finding(span_of(empty.pop(name)), message, help_, (Related(wire.part(2), "bound here"),))


_SETTINGS = ("compute", "environment_variables")
_OF_COMPONENTS = ("resources", "distribution", "limits")  # an inline step cannot bind these


def check_pipeline_input_unknown(context: Tree, job: Job) -> Iterator[Finding]:
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


def check_job(context: Tree, job: Job) -> Iterator[Problem]:
    writers: dict[str, tuple[str, Span]] = {}
    for step in job.steps.values():
        for field in step.outputs.values():
            bound = field.value.binding
            if bound is None or bound.value.scope != "parent.outputs":
                continue
            node, name, written = text_node(field.node), bound.value.port, str(bound.value)
            if node is not None and node.text != written:
                message = (
                    f"`{node.text}` has spaces inside, so Azure ML reads it as a path and the binding is lost"
                )
                fix = Fix(node.span, written)
                yield Problem("output-binding-blanks", node.span, message, f"write `{written}`", fix=fix)
            if name is None:
                continue
            if node is not None and name not in job.outputs:
                yield _report_unknown(job, name, node.subspan(*bound.value.part_range(2)))
            if name in writers:
                first, place = writers[name]
                message = (
                    f"`{step.name}` writes the pipeline's output `{name}`, which `{first}` writes already"
                )
                help_ = "declare a second output under `outputs:` of the pipeline"
                related = (Related(place, "written here first"),)
                yield Problem("output-written-twice", span_of(bound), message, help_, related)
            else:
                writers[name] = (step.name, span_of(bound))
    yield from _report_unwritten(job)


def _report_unknown(job: Job, name: str, span: Span) -> Problem:
    help_ = did_you_mean(name, job.outputs) or f"declare `{name}` under `outputs:` of the pipeline"
    fix = suggest_fix(span, name, job.outputs)
    return Problem("pipeline-output-unknown", span, f"the pipeline has no output `{name}`", help_, fix=fix)


def _report_unwritten(job: Job) -> Iterator[Problem]:
    """Report the outputs of a pipeline, or of a pipeline component, that no step writes."""
    bindings = [field.value.binding for step in job.steps.values() for field in step.outputs.values()]
    written = {bound.value.port for bound in bindings if bound is not None}
    slug, spans = "job-output-unwritten", {name: field.key_span for name, field in job.outputs.items()}
    if job.interface is not None:
        slug = "pipeline-output-unwritten"
        spans = {name: port.span for name, port in job.interface.outputs.items()}
    for name, span in spans.items() if job.type == "pipeline" else ():
        if name not in written:
            message = f"no step writes the output `{name}`"
            help_ = f"bind the output of the step that writes it: `OUTPUT: ${{{{parent.outputs.{name}}}}}`"
            yield Problem(slug, span or NOWHERE, message, help_)


_MODELS = frozenset({"mlflow_model", "triton_model"})


def check_folder_feeds_model(context: Tree, job: Job) -> Iterator[Finding]:
    for wire in find_wires(context, job):
        target = wire.port
        if target is None or target.type not in _MODELS or declared_component(wire.step) is None:
            continue
        source = job.steps.get(wire.expression.step or "")
        name = wire.expression.port or ""
        if source is None or source.component is None or wire.expression.side != "outputs":
            continue
        port = source.component.outputs.get(name)
        if port is None or source_type(job, wire.expression) != "uri_folder" or _has_open_type(source, name):
            continue
        message = (
            f"`{source.name}.{name}` is declared as uri_folder, but `{wire.name}` requires {target.type}"
        )
        help_ = f"declare the output `{name}` as `{target.type}`"
        yield Finding(wire.part(4), message, help_, relate(port.span, "the output is declared here"))


def _has_open_type(step: Step, output: str) -> bool:
    """Whether an output may be bound to one of the pipeline that has the right type."""
    setting = step.outputs.get(output)
    return declared_component(step) is None and (setting is None or setting.value.type is None)


_KINDS = {"uri_file": "a file"} | dict.fromkeys(("uri_folder", "mlflow_model", "triton_model"), "a folder")


def _find_source(job: Job, wire: Wire) -> Port | None:
    """The declaration that a binding names: an output of a step, or an input of a pipeline component.

    What a pipeline job is given may be named as either, and official examples do so.
    """
    name, source = wire.expression.port or "", job.steps.get(wire.expression.step or "")
    if source is None:
        inputs = job.interface.inputs if job.interface is not None else {}
        return inputs.get(name) if wire.expression.scope == "parent.inputs" else None
    if wire.expression.side != "outputs" or _has_open_type(source, name):
        return None
    return (known_ports(source, "outputs") or {}).get(name)


def check_file_feeds_folder(context: Tree, job: Job) -> Iterator[Finding]:
    for wire in find_wires(context, job):
        target, port, source_kind = wire.port, _find_source(job, wire), source_type(job, wire.expression)
        kinds = {_KINDS.get(source_kind or ""), _KINDS.get(target.type if target is not None else "")}
        if target is None or port is None or declared_component(wire.step) is None:
            continue
        if None in kinds or len(kinds) < 2:
            continue
        name, step = wire.expression.port or "", wire.expression.step
        written, taken = _KINDS[source_kind or ""], _KINDS[target.type or ""]
        message = f"`{step}` writes {written} as `{name}`" if step else f"`{name}` is {written}"
        message += f", but `{wire.name}` takes {taken}"
        related = relate(port.span, f"declared as `{source_kind}` here")
        other = "output" if step else "input of the pipeline"
        help_ = f"write `type: {source_kind}` for the input, or `type: {target.type}` for the {other}"
        yield Finding(wire.part(4 if step else 2), message, help_, related=related)


def check_optional_feeds_required(context: Tree, job: Job) -> Iterator[Finding]:
    if job.interface is None:
        return
    for wire in find_wires(context, job):
        outer = job.interface.inputs.get(wire.expression.port or "")
        inner = wire.port
        if wire.expression.scope != "parent.inputs" or outer is None or inner is None:
            continue
        if declared_component(wire.step) is None or not outer.optional or outer.default is not None:
            continue
        if not inner.optional and inner.default is None:
            message = (
                f"`{outer.name}` is optional, but input `{wire.name}` of step `{wire.step.name}` is required"
            )
            help_ = f"remove `optional: true` from `{outer.name}`, or add it to the step's `{wire.name}`"
            yield Finding(wire.part(2), message, help_, relate(outer.span, "declared optional here"))
