"""Reading job YAML: a pipeline, or a standalone job as a graph of one step."""

from __future__ import annotations

from pathlib import Path

from worldsize.azureml import component, graph
from worldsize.azureml.files import Files
from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.yaml.nodes import Mapping


def read_job(path: str | Path, files: Files | None = None) -> tuple[Job | None, list[Problem]]:
    """Read a pipeline, command, sweep or parallel job, native or ours, with the components it names.

    Args:
        path: The file.
        files: What has been read before; a fresh one where not given.

    Returns:
        The job, None where the file is no mapping or cannot be read, and the problems that this
        call met. A step whose component could not be read stays in the graph without one.
    """
    files = files or Files()
    before = len(files.problems)
    path = Path(path)
    root = files.document(path).root
    job: Job | None = None
    if isinstance(root, Mapping):
        build = graph.read_graph if "jobs" in root else graph.read_single_job
        job = build(root, path, path.parent, files, component.resolve_component)
    elif root is not None:
        message = f"`{path.name}` holds no mapping, so it is no job"
        files.problems.append(Problem("job-not-mapping", root.span, message, "start with `type: pipeline`"))
    return job, files.problems[before:]
