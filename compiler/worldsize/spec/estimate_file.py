"""Reads an estimate file: a workload, its training and a cluster, each value with its place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.documents import yaml
from worldsize.spec import violations, workload
from worldsize.spec.decode import decode
from worldsize.spec.model import Located, WorkloadKeys


class EstimateKeys(Struct, frozen=True):
    """The file as it is written. ``spans`` are those of its sections' keys."""

    workload: WorkloadKeys
    training: Mapping[str, Located[Any]]
    cluster: Mapping[str, Located[Any]]
    spans: Mapping[str, Span]


def read_estimate_file(path: Path) -> tuple[EstimateKeys | None, list[Problem], yaml.Document]:
    """The content of a file, None if it violates the schema; its problems; and the document."""
    document = yaml.load(path)
    root = document.root
    problems = list(document.problems)
    if isinstance(root, yaml.Mapping):
        workload.read_exponents(root)
    if root is None or problems:
        return None, problems or [_report_empty(path)], document
    problems += violations.check_schema(root, "estimate")
    if problems or not isinstance(root, yaml.Mapping):
        return None, problems, document
    keys = decode(EstimateKeys, root, spans={key.text: key.span for key, _ in root.items()})
    problems += workload.check_workload(keys.workload)
    problems += workload.check_stage(keys.training)
    return keys, problems, document


def report_spec(span: Span) -> Problem:
    """Report a spec in place of an estimate file."""
    message = "this is a spec; an estimate file has `workload`, `training` and `cluster`"
    return Problem("spec-missing-key", span, message, "`worldsize plan` shows the time and cost of its steps")


def _report_empty(path: Path) -> Problem:
    span = Span(str(path), 1, 1, 1, 1)
    return Problem(
        "spec-missing-key", span, "the estimate is empty", "add `workload`, `training` and `cluster`"
    )
