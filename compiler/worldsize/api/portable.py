"""A native pipeline as a folder of its own: components and code are copied in, and every path is relative."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worldsize.api.bundle import FILE, Content, Shelf, bundle_component, relocate_inputs, shelve
from worldsize.azureml import yaml_dump
from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.model import Component, Job, Step
from worldsize.base import limits
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.documents import yaml
from worldsize.planning import plan_file
from worldsize.planning.model import Plan

PIPELINE = "pipeline.yml"
_SCHEMA = "https://azuremlschemas.azureedge.net/latest/{}Component.schema.json"


def lay_out_pipeline(
    job: Job,
    planned: tuple[Plan, Mapping[str, Mapping[str, str]]],
    gate: CopyAccess,
    out: Path,
    header: str,
) -> tuple[Content, list[Problem]]:
    """Everything that the folder of a pipeline holds, by path inside it; and why some files cannot be copied.

    Args:
        job: The pipeline, read from its file.
        planned: Its plan, and the text that the plan filled in.
        gate: What may be copied.
        out: The folder, to which paths of local data become relative.
        header: What the first line of the pipeline says.
    """
    assert job.raw is not None
    assert job.path is not None
    document: dict[str, Any] = yaml.to_python(job.raw)
    folder, shelf = job.path.parent, Shelf(gate, out)
    relocate_inputs(document, folder, out)
    for name, step in job.steps.items():
        limits.check_time()
        node = document["jobs"][name]
        relocate_inputs(node, folder, out)
        if step.component is not None:
            key = "trial" if "trial" in node else "component"
            node[key] = f"./components/{_place(step, step.component, shelf, job)}/{FILE}"
    files: Content = {
        **shelf.files,
        PIPELINE: yaml_dump.dump(document, header=header, paragraphs="jobs").encode(),
    }
    files[plan_file.NAME] = plan_file.dump(*planned, list(files))
    return {name: files[name] for name in sorted(files)}, shelf.problems


def _place(step: Step, component: Component, shelf: Shelf, job: Job) -> str:
    """Give the component of a step a folder, shared by all steps that use it; the folder's name."""
    at = step.span or Span(str(job.path), 1, 1, 1, 1)
    bundle = bundle_component(component, at, shelf.gate)
    if component.path is None:  # it was part of its step, which needs no schema
        bundle.document = {"$schema": _SCHEMA.format(component.type), **bundle.document}
    return shelve(shelf, bundle, step.name, None, at)
