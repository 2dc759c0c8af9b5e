"""A step names no compute profile although the spec has several.

With one profile every step runs on it; with several each step says which.

Why: A training step on the CPU cluster, or sharding on sixteen GPUs, is not a default to guess.

Bad::

    train: {uses: train_ddp}

Good::

    compute: gpu

Fix: Add ``compute:`` with one of the profiles.

Source: ``schemas/spec.schema.json``.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping, Node, Scalar

RULE = Rule(
    "WS113", "step-needs-compute", "error", since="0.1.0", summary="a step that does not say where it runs"
)


_RUN_ON_COMPUTE = frozenset({"command", "parallel", "sweep"})


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    """Steps of a native pipeline that has no default compute; a pipeline component may be given one."""
    if job.raw is None or job.type != "pipeline" or job.interface is not None or job.compute is not None:
        return
    if not isinstance(job.raw, Mapping) or _has_default(job.raw.get("settings")):
        return
    for step in job.steps.values():
        if step.type in _RUN_ON_COMPUTE and step.compute is None and isinstance(step.raw, Mapping):
            message = f"step `{step.name}` has no `compute`, and the pipeline has no default"
            help_ = "add `compute: azureml:NAME` to the step, or `default_compute` under `settings:`"
            yield RULE.problem(step.span or Span("", 1, 1, 1, 1), message, help_)


def _has_default(settings: Node | None) -> bool:
    if not isinstance(settings, Mapping):
        return False
    node = settings.get("default_compute")
    misspelt = any(isinstance(key, str) and "compute" in key.lower() for key in settings)
    return misspelt or (isinstance(node, Scalar) and node.value is not None)
