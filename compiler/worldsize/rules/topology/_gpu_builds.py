"""What the environments of a native job install, against the GPUs of its steps' sizes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from worldsize.azureml.frameworks import Installed, read_installed
from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.planning import gpu_support
from worldsize.rules.context import Context
from worldsize.rules.launch import STARTS_PROCESSES, Launch, read_launches
from worldsize.yaml.nodes import Node


def check_job(context: Context, job: Job) -> Iterable[Problem]:
    """Report builds that cannot use the GPUs of their step. Those of a spec are found while it is built."""
    problems: list[Problem] = []
    if job.raw is None:
        return problems
    for launch in read_launches(context, job):
        if launch.size is None or not launch.size.devices:
            continue
        trains = launch.kind in (*STARTS_PROCESSES, "tensorflow")
        for framework in _frameworks(context, launch):
            problem = gpu_support.report_build(
                framework, launch.size, launch.size_span, trains=trains, shown=True
            )
            if problem is not None:
                problems.append(problem)
    return dict.fromkeys(problems)  # steps that share a component share its fault


def _frameworks(context: Context, launch: Launch) -> list[Installed]:
    component = launch.step.component
    if component is None or component.environment is None:
        return []
    node = component.environment.node
    here = component.path or (Path(node.source.path) if node is not None else None)
    if here is None:
        return []

    def document(path: Path) -> Node | None:
        return context.document(path).root if context.exists(path) and not context.is_folder(path) else None

    def text(path: Path) -> str | None:
        source = context.text(path)
        return source.text if source is not None else None

    return read_installed(component.environment, here.parent, document, text)
