"""``worker_count`` differs from the number of instances.

Azure ML places one worker on an instance.

Why: TF_CONFIG names workers that never start, and the others wait for them.

Bad::

    distribution: {type: tensorflow, worker_count: 8}

Good::

    distribution: {type: tensorflow, worker_count: 2}

Fix: Write the number of instances, or leave it out: it is derived.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem, Related
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS208", "worker-count-disagrees", "error", since="0.1.0", summary="not one TensorFlow worker an instance"
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        workers, instances = found.workers, found.instances
        if not found.native or found.kind != "tensorflow" or workers.value is None or instances.value is None:
            continue
        if workers.span is not None and workers.value > instances.value:
            where = "" if instances.field else " by default"
            message = f"`worker_count` is {workers.value} but `instance_count` is {instances.value}{where}"
            message += ": several workers would share an instance and its GPUs"
            related = (Related(instances.span, "one worker an instance"),) if instances.span else ()
            help_ = f"write {instances.value}, or `instance_count: {workers.value}` under `resources`"
            yield RULE.problem(workers.span, message, help_, related=related)
