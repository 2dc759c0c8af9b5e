"""A step names no compute, and there is no default."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.base.span import Span
from worldsize.rules.context import Context

_RUN_ON_COMPUTE = frozenset({"command", "parallel", "sweep"})


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    """The steps of a pipeline without a default compute; a pipeline component may get one."""
    if job.type != "pipeline" or job.interface is not None or job.compute is not None:
        return
    settings = job.settings.value if job.settings is not None else None
    # A key that is misspelt is reported as such.
    if isinstance(settings, dict) and any("compute" in str(key).lower() for key in settings):
        return
    for step in job.steps.values():
        is_read = step.component is not None or step.reference is not None
        if step.type in _RUN_ON_COMPUTE and step.compute is None and is_read:
            message = f"step `{step.name}` has no `compute`, and there is no default"
            help_ = f"add `compute:` to the step, or {job.keys.default_compute}"
            yield Finding(step.span or Span("", 1, 1, 1, 1), message, help_)
