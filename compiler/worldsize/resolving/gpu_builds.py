"""Whether the environments of a spec's steps can use the GPUs of the sizes that they run on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from worldsize import resources
from worldsize.azureml.files import Files
from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.facts import vm_sizes
from worldsize.planning.model import Plan
from worldsize.spec.model import Located, Spec

if TYPE_CHECKING:
    from worldsize.yaml.nodes import Node

LARGEST = 1024 * 1024  # bytes of a Dockerfile or a requirements file


def check_gpu_builds(spec: Spec, job: Job, plan: Plan, files: Files) -> list[Problem]:
    """Report environments whose torch or TensorFlow cannot run on the step's VM size."""
    return list(dict.fromkeys(_judge(spec, job, plan, files)))  # steps that share both share the fault


def _judge(spec: Spec, job: Job, plan: Plan, files: Files) -> Iterator[Problem]:
    from worldsize.azureml import frameworks  # only steps with GPUs need these
    from worldsize.planning import gpu_support

    def document(path: Path) -> Node | None:
        return files.document(path).root if path.is_file() else None

    def text(path: Path) -> str | None:
        return _read(path, files)

    seen: set[object] = set()  # many steps share an environment and a size
    for name, step in job.steps.items():
        typed = _size_of(spec, name)
        size = vm_sizes.lookup(typed.value) if typed is not None else None
        if typed is None or size is None or not size.devices or step.component is None:
            continue
        path, folder = step.component.path, step.component.folder or spec.path.parent
        trains = name in plan.steps and plan.steps[name].topology.launcher != "none"
        environment = step.component.environment
        key = (id(environment), folder, typed.span, trains)
        if key in seen:
            continue
        seen.add(key)
        own = path is None or not files.real(path).is_relative_to(resources.components())
        for found in frameworks.read_installed(environment, folder, document, text):
            problem = gpu_support.report_build(found, size, typed.span, trains=trains, shown=own)
            if problem is not None:
                yield problem


def _size_of(spec: Spec, step: str) -> Located[str] | None:
    chosen = spec.steps[step].compute if step in spec.steps else None
    profile = spec.compute.get(chosen.value) if chosen is not None else None
    return profile.instance_type if profile is not None else None


def _read(path: Path, files: Files) -> str | None:
    try:
        if not files.readable(path) or not path.is_file() or path.stat().st_size > LARGEST:
            return None
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return None
