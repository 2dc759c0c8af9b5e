"""Jobs, components, schedules and clusters as YAML text, keys in the order Azure's own examples use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.azureml import yaml_dump
from worldsize.azureml.model import (
    Argument,
    Binding,
    Component,
    Data,
    Field,
    Job,
    Literal,
    OutputSetting,
    Port,
    Step,
)
from worldsize.documents.yaml import to_python

Document = dict[str, Any]

SCHEMAS = "https://azuremlschemas.azureedge.net/latest"


def dump(job: Job, *, header: str | None = None) -> str:
    """A pipeline job as YAML: an empty line between steps, comments behind values, a header."""
    return yaml_dump.dump(job_document(job), header=header, paragraphs="jobs")


def job_document(job: Job) -> Document:
    """A pipeline job as ordered plain values (fields keep their comments)."""
    return present(
        {
            "$schema": f"{SCHEMAS}/pipelineJob.schema.json",
            "type": "pipeline",
            **_take(job, "name", "display_name", "description", "experiment_name", "tags"),
            "inputs": {name: _argument(argument) for name, argument in job.inputs.items()} or None,
            "outputs": {name: _setting(setting) for name, setting in job.outputs.items()} or None,
            **_take(job, "settings", "compute"),
            "jobs": {name: step_document(step) for name, step in job.steps.items()},
        }
    )


def step_document(step: Step) -> Document:
    """One step in component form. A sweep has its search space, and no ``distribution``: its trial has it."""
    is_sweep = step.type == "sweep"
    return present(
        {
            "type": step.type,
            ("trial" if is_sweep else "component"): step.reference,
            **_take(step, "display_name", "comment", "compute"),
            "resources": _entries(step.resources),
            "distribution": None if is_sweep else _entries(step.distribution),
            "limits": None if is_sweep else _entries(step.limits),
            "environment_variables": None if is_sweep else _entries(step.environment_variables),
            **(_sweep(step) if is_sweep else {}),
            "inputs": {name: _argument(argument) for name, argument in step.inputs.items()} or None,
            "outputs": {name: _setting(setting) for name, setting in step.outputs.items()} or None,
        }
    )


_SWEEP_KEYS = (
    "search_space", "sampling_algorithm", "objective", "limits", "early_termination", "queue_settings",
)  # fmt: skip


def _sweep(step: Step) -> Document:
    """What a sweep tries, as it is written in its step. Sampling is random if nothing else is said."""
    block = to_python(step.raw) if step.raw is not None else {}
    settings = {"sampling_algorithm": "random", **(block if isinstance(block, dict) else {})}
    return {key: settings.get(key) for key in _SWEEP_KEYS}


def component_document(component: Component) -> Document:
    """A command component as ordered plain values."""
    return present(
        {
            "$schema": f"{SCHEMAS}/commandComponent.schema.json",
            **_take(component, "type", "name", "version", "display_name", "description", "tags"),
            "is_deterministic": component.is_deterministic,
            "inputs": {name: _port(port) for name, port in component.inputs.items()} or None,
            "outputs": {name: _port(port) for name, port in component.outputs.items()} or None,
            **_take(component, "code", "additional_includes", "environment", "distribution", "resources"),
            "command": component.command,
        }
    )


def schedule(
    name: str,
    trigger: Mapping[str, Any],
    job: str,
    *,
    display_name: str | None,
    inputs: Mapping[str, Any],
    rerun: bool,
) -> str:
    """A job schedule that submits a pipeline file, whose path is relative to the schedule's file.

    With ``rerun``, steps run again although nothing changed: with reuse, the second run of an entirely
    deterministic pipeline would do nothing. ``inputs`` take the place of the pipeline's own.
    """
    create: Document = {"type": "pipeline", "job": job}
    if inputs:
        create["inputs"] = dict(inputs)
    if rerun:
        comment = "without it, unchanged steps are reused and nothing is retrained"
        create["settings"] = {"force_rerun": Field(True, comment=comment)}
    return yaml_dump.dump(
        present(
            {
                "$schema": f"{SCHEMAS}/schedule.schema.json",
                "name": name,
                "display_name": display_name,
                "trigger": dict(trigger),
                "create_job": create,
            }
        )
    )


def compute(
    name: str,
    size: str,
    *,
    tier: str | None,
    min_instances: int,
    max_instances: int | None,
    idle_time_before_scale_down: int | None,
    identity: bool,
) -> str:
    """An AmlCompute cluster, which may have an identity of its own; the idle time is in seconds."""
    return yaml_dump.dump(
        present(
            {
                "$schema": f"{SCHEMAS}/amlCompute.schema.json",
                "name": name,
                "type": "amlcompute",
                "size": size,
                "tier": tier,
                "min_instances": min_instances,
                "max_instances": max_instances,
                "idle_time_before_scale_down": idle_time_before_scale_down,
                "identity": {"type": "system_assigned"} if identity else None,
            }
        )
    )


def present(document: Mapping[str, Any]) -> Document:
    """The document without the keys that hold nothing."""
    return {key: value for key, value in document.items() if value is not None}


def _take(value: object, *names: str) -> Document:
    """The fields of these names, which are also keys of the document."""
    return {name: getattr(value, name) for name in names}


def _entries(block: Field[Any] | None) -> Any:
    """A mapping, its entries as fields where they have comments."""
    return block.parts if block is not None and block.parts is not None else block


def _argument(argument: Field[Argument]) -> Any:
    value = argument.value
    if isinstance(value, Literal):
        return Field(value.value, comment=argument.comment)
    if isinstance(value, Binding):
        text = str(value.expression)
        plain: Any = text if value.mode is None else {"path": text, "mode": value.mode}
        return Field(plain, comment=argument.comment)
    assert isinstance(value, Data)
    return present({"type": value.type, "path": value.path, "mode": value.mode})


def _setting(setting: Field[OutputSetting]) -> Any:
    value = setting.value
    bound = str(value.binding.value) if value.binding else None
    if bound and not any((value.mode, value.name, value.version)):
        return bound
    parts = {"type": value.type, "path": bound or value.path, "mode": value.mode}
    return present({**parts, "name": value.name, "version": value.version})


def _port(port: Port) -> Document:
    described = _take(port, "type", "description", "optional", "default", "min", "max", "enum", "mode")
    return present({**described, "optional": True if port.optional else None})
