"""A step writes one file, and the input that it feeds takes a folder; or the reverse."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context
from worldsize.rules.graph._common import declared_component, find_wires, known_ports, source_type

_KINDS = {"uri_file": "a file"} | dict.fromkeys(("uri_folder", "mlflow_model", "triton_model"), "a folder")


def check_job(context: Context, job: Job) -> Iterator[Finding]:
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
