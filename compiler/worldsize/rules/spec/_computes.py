"""The clusters of steps: none, or one with an impossible size."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import literals
from worldsize.azureml.job import Compute
from worldsize.azureml.model import Job
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Related
from worldsize.base.span import NOWHERE
from worldsize.documents.yaml.nodes import Scalar

_DEFAULT_MAXIMUM = 4  # of the client, where the file has none


def check_compute_min_above_max(context: Tree, compute: Compute) -> Iterator[Finding]:
    low = compute.raw.get("min_instances") if compute.raw is not None else None
    high = compute.raw.get("max_instances") if compute.raw is not None else None
    least = literals.parse_number(low.value) if isinstance(low, Scalar) else None
    if least is None or not isinstance(low, Scalar):
        return
    most = literals.parse_number(high.value) if isinstance(high, Scalar) else None
    most = _DEFAULT_MAXIMUM if high is None else most
    if most is not None and least > most:
        by_default = " by default" if high is None else ""
        message = f"`min_instances` is {low.text} but `max_instances` is {most}{by_default}"
        related = (Related(high.span, "the maximum"),) if high is not None else ()
        yield Finding(low.span, message, "swap the two, or correct one of them", related=related)


_RUN_ON_COMPUTE = frozenset({"command", "parallel", "sweep"})


def check_step_needs_compute(context: Tree, job: Job) -> Iterator[Finding]:
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
            yield Finding(step.span or NOWHERE, message, help_)
