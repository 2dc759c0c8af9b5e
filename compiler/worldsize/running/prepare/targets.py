"""Finds the job file to run: the target itself, or what a spec compiles to; refuses other kinds of file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from worldsize import api, checking
from worldsize.azureml import job as jobs
from worldsize.azureml import job as schedule
from worldsize.azureml.files import Files
from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.checking import discover
from worldsize.documents.yaml import Mapping as YamlMapping
from worldsize.documents.yaml import Scalar, load
from worldsize.planning import plan_file
from worldsize.planning.model import Plan
from worldsize.running.model.errors import RunError
from worldsize.running.prepare.graph import refusals
from worldsize.running.prepare.overrides import compile_spec

if TYPE_CHECKING:
    from worldsize.api import Compiled
    from worldsize.documents.yaml import Document

# Errors of the check that a run only mentions: a binding with text around it is joined, which the service
# may not do, and an input that the component does not have is ignored.
MENTIONED = frozenset({"WS612", "WS624"})

_RUN = "run a spec, a pipeline or a command, sweep or parallel job"


class Target(Struct, frozen=True):
    """The job to run."""

    path: Path  # the job file: what the user named, or what the spec was compiled to
    settings: Mapping[str, str]  # values for inputs, by name, that are still to be applied
    compiled: Compiled | None = None  # what the spec was compiled to; None where the user named a job
    parsed: Mapping[Path, Document] = field(default_factory=dict)  # of a job, by its check

    def read_job(self, files: Files) -> tuple[Job | None, list[Problem]]:
        """The graph: the one that was just compiled from a spec, else the one in the file."""
        if self.compiled is None:
            files.parsed = self.parsed
            return jobs.read_job(self.path, files)
        before = len(files.problems)
        job = api.read_graph(self.compiled, files)
        return job, files.problems[before:]

    def read_plan(self) -> tuple[Plan, Mapping[str, Mapping[str, str]]] | None:
        """The plan and its templates: just derived, or from the pipeline's folder; None if there is none."""
        if self.compiled is None or self.compiled.planned is None:
            return plan_file.load(self.path.parent)
        return self.compiled.plan, self.compiled.planned.templates

    def read_documents(self, files: Files) -> list[Document]:
        """The YAML files behind the graph."""
        planned = self.compiled.planned if self.compiled is not None else None
        before = planned.files.documents if planned is not None else {}
        return list((before | files.documents).values())


def find_target(target: Path, out: Path, settings: Mapping[str, str], *, checked: bool = False) -> Target:
    """Find the job to run: the target itself, checked, or what the spec compiles to in ``out``.

    A job is not checked again if it was ``checked`` before, by rules of the caller's choice.

    Raises:
        SpecError: The file has errors.
        RunError: It cannot be run.
    """
    document = load(os.path.normpath(target))  # under the name that a check gives it
    kind = discover.recognise_kind(document, named=True)
    if kind == "spec" or (kind is None and not _may_be_job(document.root)):
        compiled = compile_spec(target, out, document, settings)
        return Target(compiled.pipeline, {}, compiled)
    refused = _refuse_kind(kind, target, document.root)
    if refused is not None:
        raise RunError([Problem("run-refused", Span(str(target), 1, 1, 1, 1), *refused)])
    if checked:
        return Target(target, settings)
    tree = checking.check_job(target, document, tolerate=lambda error: error.code in MENTIONED).tree
    return Target(target, settings, parsed=tree.files.documents)


def _may_be_job(root: object) -> bool:
    return isinstance(root, YamlMapping) and bool({"jobs", "command", "type"} & set(root))


def _refuse_kind(kind: str | None, target: Path, root: object) -> tuple[str, str] | None:
    """Message and help for a kind of file that cannot be run."""
    name = target.name
    if kind is not None and kind.endswith("-component"):
        help_ = f"write a pipeline with a step that has `component: ./{name}`, and run that"
        return f"`{name}` is a component, which is run as a step of a pipeline", help_
    if kind == "schedule":
        return f"`{name}` is a schedule", f"run the job that it starts{_scheduled_job(target, root)}"
    if kind in ("compute", "data", "environment"):
        return f"`{name}` describes {'an' if kind == 'environment' else 'a'} {kind} and is not a job", _RUN
    if kind == "settings":
        return f"`{name}` holds the settings of a project", _RUN
    if kind == "other":
        return _refuse_service_job(name, root)
    return None


def _scheduled_job(target: Path, root: object) -> str:
    if not isinstance(root, YamlMapping):
        return ""
    read_schedule, _ = schedule.read_schedule(root, target, Files(), lambda _: False)
    return f": `worldsize run {read_schedule.target}`" if read_schedule.target is not None else ""


def _refuse_service_job(name: str, root: object) -> tuple[str, str]:
    type_node = root.get("type") if isinstance(root, YamlMapping) else None
    kind = type_node.text.lower() if isinstance(type_node, Scalar) else ""
    if kind in refusals.UNSUPPORTED_KINDS:
        what, help_ = refusals.UNSUPPORTED_KINDS[kind]
        return f"`{name}` is {what}", help_
    return f"`{name}` is not something that runs", _RUN
