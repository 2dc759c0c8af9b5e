"""More TensorFlow workers than instances."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    workers, instances = launch.workers, launch.instances
    if launch.kind != "tensorflow" or workers.value is None or instances.value is None:
        return
    if workers.span is not None and workers.value > instances.value:
        where = "" if instances.field else " by default"
        message = f"`worker_count` is {workers.value} but `instance_count` is {instances.value}{where}"
        message += ": several workers would share an instance and its GPUs"
        related = (Related(instances.span, "one worker per instance"),) if instances.span else ()
        help_ = f"write {instances.value}, or `instance_count: {workers.value}`"
        yield Finding(workers.span, message, help_, related=related)
