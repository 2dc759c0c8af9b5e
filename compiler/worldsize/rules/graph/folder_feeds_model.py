"""An output of type ``uri_folder`` feeds a model input."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context
from worldsize.rules.graph._common import declared_component, find_wires, source_type

_MODELS = frozenset({"mlflow_model", "triton_model"})


def check_job(context: Context, job: Job) -> Iterator[Finding]:
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
        related = (Related(port.span, "the output is declared here"),) if port.span else ()
        help_ = f"declare the output `{name}` as `{target.type}`"
        yield Finding(wire.part(4), message, help_, related=related)
