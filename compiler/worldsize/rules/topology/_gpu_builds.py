"""Environments whose torch or TensorFlow cannot use the GPUs of the VM size that a step runs on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from worldsize.azureml.launch import STARTS_PROCESSES, Launch, read_launches
from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context


def check_job(context: Context, job: Job) -> Iterable[Problem]:
    return dict.fromkeys(_judge(context, job))  # steps that share a component share its fault


def _judge(context: Context, job: Job) -> Iterator[Problem]:
    seen: set[object] = set()  # many steps share an environment and a size
    for launch in read_launches(context, job):
        component = launch.step.component
        if component is None or component.environment is None or component.folder is None:
            continue
        if launch.size is None or not launch.size.devices:
            continue
        trains = launch.kind in (*STARTS_PROCESSES, "tensorflow")
        key = (id(component.environment), launch.size.name, launch.size_span, trains)
        if key not in seen:
            seen.add(key)
            yield from _judge_environment(context, launch, trains=trains)


def _judge_environment(context: Context, launch: Launch, *, trains: bool) -> Iterator[Problem]:
    from worldsize.azureml import gpu_support  # only steps with GPUs need it

    component, size = launch.step.component, launch.size
    assert component is not None
    assert size is not None
    is_users = not context.is_built_in(component)
    for framework in context.list_frameworks(component):
        problem = gpu_support.report_build(framework, size, launch.size_span, trains=trains, shown=is_users)
        if problem is not None:
            yield problem
