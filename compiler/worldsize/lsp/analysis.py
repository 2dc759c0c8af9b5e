"""One check of an open document: what it reports, and the graph and plan that it led to."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from worldsize.azureml.model import Job
from worldsize.checking import Report, discover, settings
from worldsize.checking.checker import check_files
from worldsize.checking.exclusion import compile_globs
from worldsize.checking.selection import EVERYTHING
from worldsize.checking.stages import CheckRun
from worldsize.documents import yaml
from worldsize.documents.yaml import Document
from worldsize.planning.model import Plan, StepPlan

NOT_OURS = Report((), {}, ())


class Analysis(Struct, eq=False):
    """The result for one file. ``texts`` are the open documents that were checked."""

    path: str
    document: Document
    report: Report = NOT_OURS
    run: CheckRun | None = None
    texts: Mapping[str, bytes] = field(default_factory=dict)
    state: int = -1  # of the open documents when it was made

    @property
    def job(self) -> Job | None:
        """The job graph, of a spec or of Azure ML's own file."""
        return self.run.jobs.get(self.document.path) if self.run is not None else None

    @property
    def plan(self) -> Plan | None:
        """The plan of a spec without errors."""
        planned = self.run.planned.get(self.document.path) if self.run is not None else None
        return planned.plan if planned is not None else None

    def find_plan(self, step: str | None) -> StepPlan | None:
        """The plan of a step."""
        return self.plan.steps.get(step) if self.plan is not None and step is not None else None

    def has_read(self, real: str) -> bool:
        """Whether a file, its links resolved, had a part in the result."""
        return any(os.path.realpath(path) == real for path in self.report.sources)


def analyse(path: str, texts: Mapping[str, bytes]) -> Analysis:
    """Check one file as ``worldsize check`` does, with the texts of open documents.

    A file that is neither a spec nor Azure ML's, or that the project excludes, has no findings.
    """
    document = yaml.load(path, texts.get(path))
    if not is_ours(document) or is_excluded(path):
        return Analysis(path, document, texts=texts)
    collects = gc.isenabled()
    gc.disable()  # as in `worldsize check`
    try:
        report, runs = check_files([path], EVERYTHING, texts=texts, document=document)
    finally:
        if collects:
            gc.enable()
    return Analysis(path, document, report, runs[0] if runs else None, texts)


def is_ours(document: Document) -> bool:
    """Whether a file is a spec, settings, or one of Azure ML."""
    root = document.root
    if root is None:
        return discover.looks_like_azureml(document.path, document.text)
    is_known = discover.recognise_kind(document, named=False) is not None
    return is_known or discover.find_schema_in_list(root) is not None


def is_excluded(path: str) -> bool:
    """Whether ``exclude:`` of the project's settings matches a file."""
    tree = discover.find_tree(path)
    for file in discover.list_settings_above(os.path.realpath(Path(path).parent), tree):
        excluded = compile_globs(str(Path(file).parent), settings.read_settings(yaml.load(file)).exclude)
        if excluded is not None and excluded.covers(discover.find_location(path)):
            return True
    return False
