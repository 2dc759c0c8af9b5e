"""Bindings between inputs and outputs that do not fit: a model, a file or folder, an optional input."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Related, relate
from worldsize.rules.context import Context
from worldsize.rules.graph._common import declared_component, find_wires, known_ports, source_type

_MODELS = frozenset({"mlflow_model", "triton_model"})


def check_folder_feeds_model(context: Context, job: Job) -> Iterator[Finding]:
    for wire in find_wires(context, job):
        target = wire.port
        if target is None or target.type not in _MODELS or declared_component(wire.step) is None:
            continue
        source = job.steps.get(wire.expression.step or "")
        name = wire.expression.port or ""
        if source is None or source.component is None or wire.expression.side != "outputs":
            continue
        port = source.component.outputs.get(name)
        setting = source.outputs.get(name)
        if port is None or source_type(job, wire.expression) != "uri_folder":
            continue
        if declared_component(source) is None and (setting is None or setting.value.type is None):
            continue  # bound to an output of the pipeline, which may have the right type
        message = (
            f"`{source.name}.{name}` is declared as uri_folder, but `{wire.name}` requires {target.type}"
        )
        help_ = f"declare the output `{name}` as `{target.type}`"
        yield Finding(wire.part(4), message, help_, relate(port.span, "the output is declared here"))


_KINDS = {"uri_file": "a file"} | dict.fromkeys(("uri_folder", "mlflow_model", "triton_model"), "a folder")


def check_file_feeds_folder(context: Context, job: Job) -> Iterator[Finding]:
    for wire in find_wires(context, job):
        target, source = wire.port, job.steps.get(wire.expression.step or "")
        # What a pipeline is given may be named as either, and official examples do so.
        if target is None or source is None or wire.expression.side != "outputs":
            continue
        source_kind = source_type(job, wire.expression)
        kinds = {_KINDS.get(source_kind or ""), _KINDS.get(target.type or "")}
        if declared_component(wire.step) is None or None in kinds or len(kinds) < 2:
            continue
        name = wire.expression.port or ""
        setting, port = source.outputs.get(name), (known_ports(source, "outputs") or {}).get(name)
        if declared_component(source) is None and (setting is None or setting.value.type is None):
            continue  # bound to an output of the pipeline, which may have the right type
        written, taken = _KINDS[source_kind or ""], _KINDS[target.type or ""]
        message = f"`{source.name}` writes {written} as `{name}`, but `{wire.name}` takes {taken}"
        related = (
            (Related(port.span, f"declared as `{source_kind}` here"),)
            if port is not None and port.span
            else ()
        )
        help_ = f"write `type: {source_kind}` for the input, or `type: {target.type}` for the output"
        yield Finding(wire.part(4), message, help_, related=related)


def check_optional_feeds_required(context: Context, job: Job) -> Iterator[Finding]:
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
