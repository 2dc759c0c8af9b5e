"""Fewer TensorFlow workers are started than there are instances.

Azure ML starts one worker on an instance; the instances left over run nothing.

Why: Every instance is paid for until the job ends.

Bad::

    distribution: {type: tensorflow, worker_count: 1}

Good::

    distribution: {type: tensorflow, worker_count: 4}

Fix: Write the number of instances, or leave `worker_count` out: it is the default.

Source: Microsoft Learn, CLI (v2) command job YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem, Related
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS212",
    "workers-below-instances",
    "warning",
    since="0.1.0",
    summary="fewer TensorFlow workers than instances",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        workers, instances, servers = found.workers, found.instances, found.servers
        if not found.native or found.kind != "tensorflow" or workers.span is None:
            continue
        if workers.value is None or instances.value is None or servers.value is None:
            continue
        idle = instances.value - workers.value - servers.value
        if idle > 0:
            counts = f"`worker_count` is {workers.value} but `instance_count` is {instances.value}"
            message = f"{counts}: {idle} run nothing"
            related = (Related(instances.span, "paid for"),) if instances.span else ()
            yield RULE.problem(
                workers.span, message, f"write {instances.value - servers.value}", related=related
            )
