"""A step names no compute profile although the spec has several."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.base.span import Span
from worldsize.rules.context import Context
from worldsize.yaml.nodes import Mapping, Node, Scalar

_RUN_ON_COMPUTE = frozenset({"command", "parallel", "sweep"})


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    """Steps of a native pipeline that has no default compute; a pipeline component may be given one."""
    if job.raw is None or job.type != "pipeline" or job.interface is not None or job.compute is not None:
        return
    if not isinstance(job.raw, Mapping) or _has_default(job.raw.get("settings")):
        return
    for step in job.steps.values():
        if step.type in _RUN_ON_COMPUTE and step.compute is None and isinstance(step.raw, Mapping):
            message = f"step `{step.name}` has no `compute`, and the pipeline has no default"
            help_ = "add `compute: azureml:NAME` to the step, or `default_compute` under `settings:`"
            yield Finding(step.span or Span("", 1, 1, 1, 1), message, help_)


def _has_default(settings: Node | None) -> bool:
    if not isinstance(settings, Mapping):
        return False
    node = settings.get("default_compute")
    misspelt = any(isinstance(key, str) and "compute" in key.lower() for key in settings)
    return misspelt or (isinstance(node, Scalar) and node.value is not None)
