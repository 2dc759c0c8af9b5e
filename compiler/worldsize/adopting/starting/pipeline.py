"""What is around an Azure ML pipeline that exists: its clusters, and the folders of its code."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from worldsize.adopting.project.files import relative_path
from worldsize.azureml.ignore import find_ignore_file
from worldsize.azureml.job import read_compute, read_job
from worldsize.azureml.model import Step
from worldsize.azureml.references import local_path
from worldsize.base.problem import HelpfulError
from worldsize.checking import discover
from worldsize.documents import yaml
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence


class StartError(HelpfulError):
    """No project can be started so. ``help`` says what to do."""


def check_pipeline(path: Path) -> None:
    """Refuse YAML that is not Azure ML's.

    Raises:
        StartError: Nothing starts from it.
    """
    document = yaml.load(path)
    if document.root is None and document.problems:
        problem = document.problems[0]
        what = f"`{path}` cannot be read, in line {problem.span.line}: {problem.message}"
        raise StartError(what, f"mend it: `worldsize check {shlex.quote(str(path))}` shows the place")
    kind = discover.recognise_kind(document, named=True)
    if kind in ("spec", "settings"):
        what = f"`{path}` is {'a spec' if kind == 'spec' else 'the settings of a project'} already"
        raise StartError(what, "there is nothing to start: `worldsize check` checks the project")
    if kind is None:
        what = f"`{path}` is not Azure ML YAML: it has neither `$schema`, nor what a job or a component has"
        raise StartError(what, "name the pipeline, the job or the component to start from")


def check_inside(path: Path, folder: Path) -> None:
    """Refuse a pipeline outside of the folder, whose settings would not hold for it.

    Raises:
        StartError: It lies elsewhere.
    """
    if folder.absolute().resolve() not in path.absolute().resolve().parents:
        what = f"`{path}` is not in `{folder}`, whose settings would not hold for it"
        place = shlex.quote(str(path.parent))
        raise StartError(what, f"start around it: `worldsize init {place} --from {shlex.quote(str(path))}`")


def find_clusters(path: Path, folder: Path) -> list[str]:
    """The clusters that a pipeline names and no file below ``folder`` describes."""
    document = yaml.load(path)
    names = dict.fromkeys(_walk(document.root, None)) if document.root is not None else {}
    described = set(_list_described(folder)) if names else set()
    return [name for name in names if name not in described]


def _list_described(folder: Path) -> Iterator[str]:
    """The clusters of the compute files below a folder."""
    for file in discover.list_files([folder]) if folder.is_dir() else ():
        document = yaml.load(file.path)
        if discover.recognise_kind(document, named=False) == "compute" and isinstance(document.root, Mapping):
            compute = read_compute(document.root, Path(file.path))
            if compute is not None and compute.size is not None:
                yield compute.name


def find_code(path: Path, folder: Path) -> list[str]:
    """The folders below ``folder`` that a pipeline uploads as code and that have no ignore file."""
    job, _ = read_job(path)
    folders = dict.fromkeys(_list_code(job.steps.values()) if job is not None else ())
    inside = [relative_path(code.absolute(), folder.absolute()) for code in folders]
    return [
        text.removeprefix("./")
        for text in inside
        if text.startswith("./") and not find_ignore_file(folder / text)
    ]


def _list_code(steps: Iterable[Step]) -> Iterator[Path]:
    for step in steps:
        component = step.component
        if component is None:
            continue
        if component.graph is not None:
            yield from _list_code(component.graph.steps.values())
        code = component.code.value if component.code is not None else None
        above = component.folder or (component.path.parent if component.path is not None else None)
        place = local_path(code, above) if isinstance(code, str) and above is not None else None
        if place is not None and place.is_dir():
            yield place


def _walk(node: Node, inherited: str | None) -> Iterator[str]:
    """The cluster of each job."""
    if isinstance(node, Sequence):
        for item in node.items:
            yield from _walk(item, inherited)
    if not isinstance(node, Mapping):
        return
    settings = node.get("settings")
    usual = settings.get("default_compute") if isinstance(settings, Mapping) else None
    inherited = _cluster(usual) or inherited
    named = _cluster(node.get("compute"))
    is_step = node.get("command") is not None or node.get("component") is not None
    cluster = named or (inherited if is_step else None)
    if cluster is not None:
        yield cluster
    for entry in node.items():
        yield from _walk(entry[1], named or inherited)


def _cluster(node: Node | None) -> str | None:
    """The name in ``azureml:NAME``."""
    text = node.text if isinstance(node, Scalar) else ""
    name = text.removeprefix("azureml:")
    return name if name != text and name and not name.startswith("/") and "${{" not in name else None
