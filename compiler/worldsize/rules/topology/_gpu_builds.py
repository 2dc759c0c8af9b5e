"""Environments whose torch or TensorFlow cannot use the GPUs of the VM size that a step runs on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from worldsize.azureml.launch import STARTS_PROCESSES, Launch, read_launches
from worldsize.azureml.model import Component, Job
from worldsize.base.problem import Problem
from worldsize.documents.yaml.nodes import Node
from worldsize.rules.context import Context

if TYPE_CHECKING:
    from worldsize.azureml.environment import Installed


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
    from worldsize.planning import gpu_support  # only steps with GPUs need it

    component, size = launch.step.component, launch.size
    assert component is not None
    assert size is not None
    own = not context.is_built_in(component)
    for framework in list_frameworks(context, component):
        problem = gpu_support.report_build(framework, size, launch.size_span, trains=trains, shown=own)
        if problem is not None:
            yield problem


def list_frameworks(context: Context, component: Component) -> list[Installed]:
    """What the environment of a component installs of torch and TensorFlow."""
    from worldsize.azureml import environment

    def document(path: Path) -> Node | None:
        return context.document(path).root if context.readable(path) and path.is_file() else None

    def text(path: Path) -> str | None:
        source = context.text(path)
        return source.text if source is not None else None

    if component.environment is None or component.folder is None:
        return []
    return environment.read_installed(component.environment, component.folder, document, text)
